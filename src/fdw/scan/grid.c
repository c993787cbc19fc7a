/*
 * grid.c
 *		Finds the position of a value on the grid of a column's possible values.
 *
 * The values that a column can have form a grid: whole numbers, numbers with
 * ten decimal places, whole seconds, or days, within the bounds of its type.
 * Numbers are never converted to binary floating point.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "fdw/scan/grid.h"

static Numeric
numeric_of(Oid type, Datum value)
{
	switch (type)
	{
		case INT2OID:
			return int64_to_numeric(DatumGetInt16(value));
		case INT4OID:
			return int64_to_numeric(DatumGetInt32(value));
		case INT8OID:
			return int64_to_numeric(DatumGetInt64(value));
		default:
			return DatumGetNumeric(value);
	}
}

static int
compare_numeric(Numeric a, Numeric b)
{
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(a), NumericGetDatum(b)));
}

static Numeric
numeric_from(const char *text)
{
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(text),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

/* Returns the shortest text of a number. */
static const char *
number_text(Numeric n)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(n)));
	char	   *end = text + strlen(text);

	if (strchr(text, '.') == NULL)
		return text;
	while (end[-1] == '0')
		end--;
	if (end[-1] == '.')
		end--;
	*end = '\0';
	return strcmp(text, "-0") == 0 ? "0" : text;
}

dv_grid
dv_grid_of_number(const dv_number_range *range, Oid type, Datum value)
{
	dv_grid		g = {0};
	Numeric		n = numeric_of(type, value);
	Numeric		floor;

	/* in PostgreSQL, NaN is greater than all other numbers */
	if (compare_numeric(n, numeric_from(range->max)) > 0)
		g.side = 1;
	else if (compare_numeric(n, numeric_from(range->min)) < 0)
		g.side = -1;
	if (g.side != 0)
		return g;
	floor = DatumGetNumeric(DirectFunctionCall2(numeric_trunc, NumericGetDatum(n),
												Int32GetDatum(range->scale)));
	g.on = compare_numeric(floor, n) == 0;
	if (compare_numeric(floor, n) > 0)
		floor = DatumGetNumeric(DirectFunctionCall2(numeric_sub, NumericGetDatum(floor),
													NumericGetDatum(numeric_from(range->step))));
	g.floor = number_text(floor);
	return g;
}

static const char *
time_text(int64 seconds)
{
	struct pg_tm tm;
	fsec_t		fsec;

	if (timestamp2tm(seconds * USECS_PER_SEC, NULL, &tm, &fsec, NULL, NULL) != 0)
		elog(ERROR, "timestamp out of range");
	return psprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year, tm.tm_mon, tm.tm_mday,
					tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static int64
floor_div(int64 n, int64 divisor)
{
	return n / divisor - (n % divisor < 0 ? 1 : 0);
}

/* The service's dates range from 1753-01-01 to 9999-12-31: in days since 2000-01-01. */
#define FIRST_DAY (-90214)
#define LAST_DAY 2921939

/*
 * Returns the value as a timestamp of the column's type.  Values farther beyond the
 * service's dates than any time zone can move them are not converted, because a date can
 * be out of range for a timestamp, and a timestamp near the end of its range can leave
 * it in another time zone.
 */
static Timestamp
timestamp_of(Oid column, Oid type, Datum value)
{
	bool		zone = column == TIMESTAMPTZOID;
	int64		day;

	if (type == DATEOID)
		day = DatumGetDateADT(value);
	else
		day = floor_div(DatumGetTimestamp(value), USECS_PER_DAY);
	if (day < FIRST_DAY - 7)
		return DT_NOBEGIN;
	if (day > LAST_DAY + 7)
		return DT_NOEND;
	if (type == DATEOID)
		return DatumGetTimestamp(DirectFunctionCall1(zone ? date_timestamptz : date_timestamp,
													 value));
	if (type == TIMESTAMPOID && zone)
		return DatumGetTimestamp(DirectFunctionCall1(timestamp_timestamptz, value));
	return DatumGetTimestamp(value);
}

dv_grid
dv_grid_of_time(Oid column, bool fine, Oid type, Datum value)
{
	dv_grid		g = {0};
	Timestamp	t = timestamp_of(column, type, value);
	int64		seconds;

	g.fine = fine;
	if (TIMESTAMP_IS_NOBEGIN(t) || TIMESTAMP_IS_NOEND(t))
	{
		g.side = TIMESTAMP_IS_NOBEGIN(t) ? -1 : 1;
		return g;
	}
	seconds = floor_div(t, USECS_PER_SEC);
	if (seconds < (int64) FIRST_DAY * SECS_PER_DAY)
		g.side = -1;
	/* fractions of the last second still belong to that second */
	else if (seconds >= (int64) (LAST_DAY + 1) * SECS_PER_DAY)
		g.side = 1;
	if (g.side != 0)
		return g;
	g.on = seconds * USECS_PER_SEC == t;
	g.floor = time_text(seconds);
	g.next = seconds + 1 == (int64) (LAST_DAY + 1) * SECS_PER_DAY ? "" : time_text(seconds + 1);
	return g;
}

dv_grid
dv_grid_of_date(Oid type, Datum value)
{
	dv_grid		g = {0};
	int64		day;
	int			year;
	int			month;
	int			mday;

	g.on = true;
	if (type == DATEOID)
	{
		DateADT		date = DatumGetDateADT(value);

		day = DATE_IS_NOBEGIN(date) ? PG_INT32_MIN : DATE_IS_NOEND(date) ? PG_INT32_MAX : date;
	}
	else
	{
		Timestamp	t = DatumGetTimestamp(value);

		day = floor_div(t, USECS_PER_DAY);
		g.on = day * USECS_PER_DAY == t;
		if (TIMESTAMP_NOT_FINITE(t))
			day = TIMESTAMP_IS_NOBEGIN(t) ? PG_INT32_MIN : PG_INT32_MAX;
	}
	g.side = day < FIRST_DAY ? -1 : day > LAST_DAY ? 1 : 0;
	if (g.side != 0)
		return g;
	j2date((int) day + POSTGRES_EPOCH_JDATE, &year, &month, &mday);
	g.floor = psprintf("%04d-%02d-%02d", year, month, mday);
	return g;
}
