/*
 * date.c
 *		Dates, delays, and other numbers in HTTP headers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _DEFAULT_SOURCE			/* timegm */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/clock.h"
#include "net/date.h"

#define LONGEST_NUMBER 63		/* bytes */
#define LARGEST_NUMBER INT32_MAX
#define LONGEST_WAIT (366 * 86400)	/* seconds */

static bool
is_within(int number, int min, int max)
{
	return number >= min && number <= max;
}

int64_t
dv_http_date(const char *value)
{
	static const char *const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm	tm = {0};
	char		month[4];
	const char *found;

	if (value == NULL ||
		sscanf(value, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month, &tm.tm_year,
			   &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6 ||
		strlen(month) != 3 || (found = strstr(months, month)) == NULL ||
		(found - months) % 3 != 0 || !is_within(tm.tm_mday, 1, 31) ||
		!is_within(tm.tm_year, 1970, 9999) || !is_within(tm.tm_hour, 0, 23) ||
		!is_within(tm.tm_min, 0, 59) || !is_within(tm.tm_sec, 0, 60))
		return -1;
	tm.tm_mon = (int) (found - months) / 3;
	tm.tm_year -= 1900;
	return (int64_t) timegm(&tm);
}

int64_t
dv_retry_after(const char *value, const char *date, int64_t unix_now)
{
	char	   *end;
	double		seconds;
	int64_t		until;
	int64_t		now;

	if (value == NULL)
		return -1;
	seconds = strtod(value, &end);
	if (end != value)
	{
		while (*end == ' ')
			end++;
		if (*end == '\0' && seconds >= 0 && seconds <= LONGEST_WAIT)
			return (int64_t) (seconds * DV_SECOND);
		return -1;
	}
	until = dv_http_date(value);
	now = dv_http_date(date);
	if (now < 0)
		now = unix_now;
	if (until < 0 || until - now > LONGEST_WAIT)
		return -1;
	return until > now ? (until - now) * DV_SECOND : 0;
}

double
dv_http_number(const char *value)
{
	char		digits[LONGEST_NUMBER + 1];
	char	   *end;
	double		number;
	int			n = 0;

	if (value == NULL)
		return -1;
	for (; *value != '\0' && n < LONGEST_NUMBER; value++)
		if (*value != ',')
			digits[n++] = *value;
	digits[n] = '\0';
	number = strtod(digits, &end);
	/* comparisons with NaN are false, too */
	return end != digits && number >= 0 && number <= LARGEST_NUMBER ? number : -1;
}
