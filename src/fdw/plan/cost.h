/*
 * cost.h
 *		What requests and rows of reads cost, in PostgreSQL's units.
 *
 * A unit stands for a millisecond: without anything measured, a request costs 100
 * and a row 0.05, whereas PostgreSQL says 1 for a page that it reads sequentially
 * and 0.01 for a row that it processes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COST_H
#define DV_COST_H

#include "fdw/relation.h"

typedef struct dv_costs
{
	double		request;		/* an answer, without its rows */
	double		row;			/* a row of average width */
	double		byte;			/* of a row; 0: all rows cost the same */
} dv_costs;

/*
 * The costs of a table's requests if this user reads it: what the options of the
 * table and its server say, else what the pool has measured, else what is
 * assumed.  No session is opened for that, and nothing is raised if the user
 * has no user mapping.
 */
extern dv_costs dv_costs_of(const dv_relation *relation, Oid userid);

/* How many bytes the service sends for a row with these columns. */
extern double dv_cost_row_bytes(const dv_relation *relation, const List *attnums);

/* The cost of a row of so many bytes. */
extern double dv_cost_row(const dv_costs *costs, double bytes);

#endif							/* DV_COST_H */
