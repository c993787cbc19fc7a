/*
 * lookup.h
 *		Where a lookup can lead, by the options of its column.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LOOKUP_H
#define DV_LOOKUP_H

#include "dataverse/query.h"
#include "fdw/option.h"

/* One entry for each table that it can refer to, as far as options say. */
typedef struct dv_lookup
{
	List	   *tables;			/* logical names */
	List	   *sets;
	List	   *navigations;	/* properties that lead there; one may do for all */
} dv_lookup;

extern void dv_lookup_read(const dv_column *column, dv_options options, dv_lookup *lookup);

/* The property that leads to the table of that position. */
extern const char *dv_lookup_navigation(const dv_lookup *lookup, const dv_column *column, int i);

/* Of those lists; NULL: not said. */
extern const char *dv_lookup_name(const List *names, int i);

#endif							/* DV_LOOKUP_H */
