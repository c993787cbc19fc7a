/*
 * estimate.h
 *		How many rows a table of the service has, more or less.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ESTIMATE_H
#define DV_ESTIMATE_H

#include "fdw/relation.h"

/* The least that is told; it may mean that the service does not count the table. */
#define DV_FEWEST_ROWS 2

/*
 * Asks the service, on behalf of the role: one request.  Never less than
 * DV_FEWEST_ROWS, since plans made for one row are terrible for many.
 */
extern double dv_remote_row_count(const dv_relation *relation, Oid userid);

#endif							/* DV_ESTIMATE_H */
