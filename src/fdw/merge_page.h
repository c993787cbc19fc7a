/*
 * merge_page.h
 *		The rows that dataverse.pull() is about to merge.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MERGE_PAGE_H
#define DV_MERGE_PAGE_H

#include "access/tupdesc.h"

/* Rows and deletions of one foreign table.  It lives until the end of the transaction. */
typedef struct dv_merge_page dv_merge_page;

/* Begins an empty page, and forgets the one before. */
extern dv_merge_page *dv_merge_page_start(Oid relid);

extern TupleDesc dv_merge_page_desc(const dv_merge_page *page);

/* What is said last of a row is true.  "id" has 16 bytes. */
extern void dv_merge_page_upsert(dv_merge_page *page, const uint8 *id, Datum *values, bool *nulls);
extern void dv_merge_page_delete(dv_merge_page *page, const uint8 *id);

extern int64 dv_merge_page_upserts(const dv_merge_page *page);
extern int64 dv_merge_page_deletions(const dv_merge_page *page);

/* Forgets the page, if there is one. */
extern void dv_merge_page_end(void);

#endif							/* DV_MERGE_PAGE_H */
