/*
 * window.c
 *		Spans of time of the relative date operators, in UTC.
 *
 * A table defines the meaning of each operator; the arithmetic is done on days
 * since 1970 in the proleptic Gregorian calendar, with the day of the month
 * clipped to the length of the month (a month before 31 March is 28 February).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "odata/window.h"

#define DAY 86400

static const struct sim_window_op operators[] = {
	{"Today", "today", SIM_PERIOD, SIM_DAYS, 0, false},
	{"Yesterday", "yesterday", SIM_PERIOD, SIM_DAYS, -1, false},
	{"Tomorrow", "tomorrow", SIM_PERIOD, SIM_DAYS, 1, false},
	{"LastWeek", "last-week", SIM_PERIOD, SIM_WEEKS, -1, false},
	{"ThisWeek", "this-week", SIM_PERIOD, SIM_WEEKS, 0, false},
	{"NextWeek", "next-week", SIM_PERIOD, SIM_WEEKS, 1, false},
	{"LastMonth", "last-month", SIM_PERIOD, SIM_MONTHS, -1, false},
	{"ThisMonth", "this-month", SIM_PERIOD, SIM_MONTHS, 0, false},
	{"NextMonth", "next-month", SIM_PERIOD, SIM_MONTHS, 1, false},
	{"LastYear", "last-year", SIM_PERIOD, SIM_YEARS, -1, false},
	{"ThisYear", "this-year", SIM_PERIOD, SIM_YEARS, 0, false},
	{"NextYear", "next-year", SIM_PERIOD, SIM_YEARS, 1, false},
	{"Last7Days", "last-seven-days", SIM_LAST, SIM_DAYS, 7, false},
	{"LastXHours", "last-x-hours", SIM_LAST, SIM_HOURS, 0, true},
	{"LastXDays", "last-x-days", SIM_LAST, SIM_DAYS, 0, true},
	{"LastXWeeks", "last-x-weeks", SIM_LAST, SIM_WEEKS, 0, true},
	{"LastXMonths", "last-x-months", SIM_LAST, SIM_MONTHS, 0, true},
	{"LastXYears", "last-x-years", SIM_LAST, SIM_YEARS, 0, true},
	{"Next7Days", "next-seven-days", SIM_NEXT, SIM_DAYS, 7, false},
	{"NextXHours", "next-x-hours", SIM_NEXT, SIM_HOURS, 0, true},
	{"NextXDays", "next-x-days", SIM_NEXT, SIM_DAYS, 0, true},
	{"NextXWeeks", "next-x-weeks", SIM_NEXT, SIM_WEEKS, 0, true},
	{"NextXMonths", "next-x-months", SIM_NEXT, SIM_MONTHS, 0, true},
	{"NextXYears", "next-x-years", SIM_NEXT, SIM_YEARS, 0, true},
	{"OlderThanXMinutes", "olderthan-x-minutes", SIM_OLDER, SIM_MINUTES, 0, true},
	{"OlderThanXHours", "olderthan-x-hours", SIM_OLDER, SIM_HOURS, 0, true},
	{"OlderThanXDays", "olderthan-x-days", SIM_OLDER, SIM_DAYS, 0, true},
	{"OlderThanXWeeks", "olderthan-x-weeks", SIM_OLDER, SIM_WEEKS, 0, true},
	{"OlderThanXMonths", "olderthan-x-months", SIM_OLDER, SIM_MONTHS, 0, true},
	{"OlderThanXYears", "olderthan-x-years", SIM_OLDER, SIM_YEARS, 0, true},
};

#define NOPERATORS ((int) (sizeof(operators) / sizeof(operators[0])))

const struct sim_window_op *
sim_window_by_function(const char *name, size_t len)
{
	int			i;

	for (i = 0; i < NOPERATORS; i++)
	{
		if (strlen(operators[i].function) == len &&
			memcmp(operators[i].function, name, len) == 0)
			return &operators[i];
	}
	return NULL;
}

const struct sim_window_op *
sim_window_by_condition(const char *name, size_t len)
{
	int			i;

	for (i = 0; i < NOPERATORS; i++)
	{
		if (strlen(operators[i].condition) == len &&
			memcmp(operators[i].condition, name, len) == 0)
			return &operators[i];
	}
	return NULL;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

int64_t
sim_day_start(int64_t seconds)
{
	return floor_div(seconds, DAY) * DAY;
}

/* days since 1970 of a date; "month" counts from 0 and may be out of range */
static int64_t
days_of(int64_t year, int64_t month, int day)
{
	int64_t		era;
	int64_t		of_era;
	int64_t		of_year;

	year += floor_div(month, 12);
	month -= floor_div(month, 12) * 12;
	/* years that begin in March have the odd day at their end */
	if (month < 2)
		year--;
	month = (month + 10) % 12;
	era = floor_div(year, 400);
	of_era = year - era * 400;
	of_year = (153 * month + 2) / 5 + day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void
date_of(int64_t days, int64_t *year, int *month, int *day)
{
	int64_t		era;
	int64_t		of_era;
	int64_t		year_of_era;
	int64_t		of_year;
	int64_t		shifted;

	days += 719468;
	era = floor_div(days, 146097);
	of_era = days - era * 146097;
	year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	shifted = (5 * of_year + 2) / 153;
	*day = (int) (of_year - (153 * shifted + 2) / 5 + 1);
	*month = (int) ((shifted + 2) % 12);
	*year = year_of_era + era * 400 + (*month < 2);
}

/* a moment "n" units later (earlier if negative) */
static int64_t
shift(int64_t seconds, enum sim_window_unit unit, int64_t n)
{
	static const int64_t lengths[] = {60, 3600, DAY, 7 * DAY};
	int64_t		days = floor_div(seconds, DAY);
	int64_t		year;
	int64_t		first;
	int			length;
	int			month;
	int			day;

	if (unit <= SIM_WEEKS)
		return seconds + n * lengths[unit];
	date_of(days, &year, &month, &day);
	if (unit == SIM_YEARS)
		n *= 12;
	first = days_of(year, month + n, 1);
	length = (int) (days_of(year, month + n + 1, 1) - first);
	if (day > length)
		day = length;
	return (first + day - 1) * DAY + (seconds - days * DAY);
}

/* returns the start of the calendar unit that contains a moment */
static int64_t
unit_start(int64_t seconds, enum sim_window_unit unit)
{
	int64_t		days = floor_div(seconds, DAY);
	int64_t		year;
	int			month;
	int			day;

	date_of(days, &year, &month, &day);
	switch (unit)
	{
		case SIM_WEEKS:
			/* 1970-01-01 was a Thursday */
			return (days - ((days + 4) % 7 + 7) % 7) * DAY;
		case SIM_MONTHS:
			return days_of(year, month, 1) * DAY;
		case SIM_YEARS:
			return days_of(year, 0, 1) * DAY;
		default:
			return days * DAY;
	}
}

struct sim_window
sim_window_of(const struct sim_window_op *op, int64_t now, int64_t x, bool date_only)
{
	struct sim_window window = {INT64_MIN, INT64_MAX};
	int64_t		n = op->takes_value ? x : op->n;
	bool		by_clock = op->unit == SIM_HOURS || op->unit == SIM_MINUTES;
	int64_t		today = sim_day_start(now);

	switch (op->kind)
	{
		case SIM_PERIOD:
			window.from = shift(unit_start(now, op->unit), op->unit, n);
			window.to = shift(window.from, op->unit, 1);
			break;
		case SIM_LAST:
			window.from = shift(by_clock ? now : today, op->unit, -n);
			window.to = date_only ? today + DAY : now + 1;
			break;
		case SIM_NEXT:
			window.from = date_only ? today : now;
			window.to = by_clock ? shift(now, op->unit, n) + 1 :
				shift(today, op->unit, n) + DAY;
			break;
		case SIM_OLDER:
			window.to = shift(by_clock ? now : today, op->unit, -n);
			break;
	}
	return window;
}
