/*
 * window.h
 *		Spans of time of the relative date operators ("last week",
 *		"OlderThanXDays"), in UTC.
 *
 * Pure: the clock is an argument.  Both query languages use it, so the OData
 * functions and the FetchXML operators agree.  Weeks begin on Sunday.
 * Operators that depend on fiscal settings are in fetch_fiscal.h.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_WINDOW_H
#define SIM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_window_unit
{
	SIM_MINUTES,
	SIM_HOURS,
	SIM_DAYS,
	SIM_WEEKS,
	SIM_MONTHS,
	SIM_YEARS
};

enum sim_window_kind
{
	SIM_PERIOD,					/* the calendar unit "n" away from the current one */
	SIM_LAST,					/* from n units ago until now */
	SIM_NEXT,					/* from now until the end of the unit that is n units ahead */
	SIM_OLDER					/* before n units ago */
};

struct sim_window_op
{
	const char *function;		/* OData: "LastXDays" */
	const char *condition;		/* FetchXML: "last-x-days" */
	enum sim_window_kind kind;
	enum sim_window_unit unit;
	int			n;				/* 0 if the query supplies it (takes_value) */
	bool		takes_value;
};

/* from <= value < to; INT64_MIN and INT64_MAX if it is open */
struct sim_window
{
	int64_t		from;
	int64_t		to;
};

/* NULL if there is none of that name; names are case-sensitive */
const struct sim_window_op *sim_window_by_function(const char *name, size_t len);
const struct sim_window_op *sim_window_by_condition(const char *name, size_t len);

/*
 * "x" is the query's value (1 … INT32_MAX), ignored unless the operator takes
 * one.  Columns without a time of day ("date_only") are compared with whole
 * days; operators in hours or minutes do not apply to them.
 */
struct sim_window sim_window_of(const struct sim_window_op *op, int64_t now, int64_t x,
								bool date_only);

/* midnight at the start of that second's day */
int64_t		sim_day_start(int64_t seconds);

#endif
