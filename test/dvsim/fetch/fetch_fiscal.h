/*
 * fetch_fiscal.h
 *		The fiscal date operators as spans of time.
 *
 * Pure: "now" is an argument.  The fiscal year is the calendar year, its
 * periods are the quarters.  "Last x" and "next x" are whole periods before
 * and after the running one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_FETCH_FISCAL_H
#define SIM_FETCH_FISCAL_H

#include "odata/window.h"

struct sim_fiscal_op
{
	const char *name;
	int			how;			/* fetch_fiscal.c's own */
	int			quarters;		/* of a unit: 1 or 4 */
	int			first;			/* units counted from the running one */
	int			last;
	int			values;			/* how many it takes */
};

/* NULL if no operator has that name */
const struct sim_fiscal_op *sim_fiscal_op(const char *name);

/* false when a value is out of bounds */
bool		sim_fiscal_window(const struct sim_fiscal_op *op, int64_t now, const long *values,
							  struct sim_window *window);

#endif
