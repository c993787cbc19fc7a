/*
 * fetch_fiscal.c
 *		The fiscal date operators as spans of time.
 *
 * Everything is counted in quarters since the year 0.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <time.h>

#include "fetch/fetch_fiscal.h"

#define MAX_UNITS 1000

enum how
{
	H_WHOLE,					/* [first, last) counted from the running unit */
	H_LAST,						/* as many units as the value says */
	H_NEXT,
	H_YEAR,						/* the value is a year */
	H_PERIOD,					/* the values are a period and a year */
	H_FROM_PERIOD,
	H_UNTIL_PERIOD
};

static const struct sim_fiscal_op operators[] = {
	{"last-fiscal-year", H_WHOLE, 4, -1, 0, 0},
	{"this-fiscal-year", H_WHOLE, 4, 0, 1, 0},
	{"next-fiscal-year", H_WHOLE, 4, 1, 2, 0},
	{"last-fiscal-period", H_WHOLE, 1, -1, 0, 0},
	{"this-fiscal-period", H_WHOLE, 1, 0, 1, 0},
	{"next-fiscal-period", H_WHOLE, 1, 1, 2, 0},
	{"last-x-fiscal-years", H_LAST, 4, 0, 0, 1},
	{"last-x-fiscal-periods", H_LAST, 1, 0, 0, 1},
	{"next-x-fiscal-years", H_NEXT, 4, 0, 0, 1},
	{"next-x-fiscal-periods", H_NEXT, 1, 0, 0, 1},
	{"in-fiscal-year", H_YEAR, 4, 0, 0, 1},
	{"in-fiscal-period-and-year", H_PERIOD, 1, 0, 0, 2},
	{"in-or-after-fiscal-period-and-year", H_FROM_PERIOD, 1, 0, 0, 2},
	{"in-or-before-fiscal-period-and-year", H_UNTIL_PERIOD, 1, 0, 0, 2},
};

const struct sim_fiscal_op *
sim_fiscal_op(const char *name)
{
	size_t		i;

	for (i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (strcmp(operators[i].name, name) == 0)
			return &operators[i];
	}
	return NULL;
}

static int64_t
quarter_start(long quarter)
{
	struct tm	tm = {.tm_mday = 1};

	tm.tm_year = (int) (quarter / 4) - 1900;
	tm.tm_mon = (int) (quarter % 4) * 3;
	return timegm(&tm);
}

static long
quarter_of(int64_t seconds)
{
	time_t		t = (time_t) seconds;
	struct tm	tm;

	gmtime_r(&t, &tm);
	return (tm.tm_year + 1900L) * 4 + tm.tm_mon / 3;
}

static bool
named_window(int how, const long *values, struct sim_window *window)
{
	long		year = how == H_YEAR ? values[0] : values[1];
	long		period = how == H_YEAR ? 1 : values[0];
	long		quarter = year * 4 + period - 1;

	if (year < 1 || year > 9999 || period < 1 || period > 4)
		return false;
	if (how != H_UNTIL_PERIOD)
		window->from = quarter_start(quarter);
	if (how != H_FROM_PERIOD)
		window->to = quarter_start(quarter + (how == H_YEAR ? 4 : 1));
	return true;
}

bool
sim_fiscal_window(const struct sim_fiscal_op *op, int64_t now, const long *values,
				  struct sim_window *window)
{
	long		running = quarter_of(now);
	long		first = op->first;
	long		last = op->last;

	window->from = INT64_MIN;
	window->to = INT64_MAX;
	if (op->how >= H_YEAR)
		return named_window(op->how, values, window);
	if (op->values == 1 && (values[0] < 1 || values[0] > MAX_UNITS))
		return false;
	if (op->how == H_LAST)
		first = -values[0];
	else if (op->how == H_NEXT)
	{
		first = 1;
		last = 1 + values[0];
	}
	running -= running % op->quarters;
	window->from = quarter_start(running + first * op->quarters);
	window->to = quarter_start(running + last * op->quarters);
	return true;
}
