/*
 * merge_page.h
 *		The rows that dataverse.pull() is about to merge.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MERGE_PAGE_H
#define DV_MERGE_PAGE_H

#include "access/tupdesc.h"

/* Rows and deletions of one foreign table. */
typedef struct dv_merge_page dv_merge_page;

/* Begins an empty page in the current memory context, and forgets the one that SQL gets. */
extern dv_merge_page *dv_merge_page_start(Oid relid);

/* Makes this the page that SQL gets, until the transaction ends. */
extern void dv_merge_page_keep(dv_merge_page *page);

extern TupleDesc dv_merge_page_desc(const dv_merge_page *page);

/* The last entry of a row counts.  "id" has 16 bytes. */
extern void dv_merge_page_upsert(dv_merge_page *page, const uint8 *id, Datum *values, bool *nulls);
extern void dv_merge_page_delete(dv_merge_page *page, const uint8 *id);

extern int64 dv_merge_page_upserts(const dv_merge_page *page);
extern int64 dv_merge_page_deletions(const dv_merge_page *page);

/* Forgets the page that SQL gets, if there is one. */
extern void dv_merge_page_end(void);

#endif							/* DV_MERGE_PAGE_H */
