/*
 * sql_scan.h
 *		The words of a SELECT, and its constants.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SQL_SCAN_H
#define SIM_SQL_SCAN_H

#include <time.h>

#include "sim.h"

#define SIM_SQL_MAX_DEPTH 20	/* of parentheses; FetchXML has two elements for each */

enum sim_sql_token
{
	T_END,
	T_NAME,						/* also keywords */
	T_QUOTED,					/* a name in brackets or quotation marks */
	T_STRING,
	T_NUMBER,
	T_SIGN
};

struct sim_sql_scan
{
	struct sim_req *req;
	struct sim_res *res;
	const char *at;				/* after the token */
	enum sim_sql_token token;
	const char *text;			/* names in lower case, strings without their quotes */
	int			depth;
};

/* All that return bool are false after sim_fail(). */
bool		sim_sql_refuse(struct sim_sql_scan *scan, const char *why);
bool		sim_sql_next(struct sim_sql_scan *scan);
bool		sim_sql_expect(struct sim_sql_scan *scan, const char *word);
bool		sim_sql_name(struct sim_sql_scan *scan, const char *what, const char **result);
bool		sim_sql_whole(struct sim_sql_scan *scan, long *n);

/* takes a word if it comes next; "took" says whether it did */
bool		sim_sql_take(struct sim_sql_scan *scan, const char *word, bool *took);

/* a literal, or one of two functions; NULL is NULL */
bool		sim_sql_constant(struct sim_sql_scan *scan, const char **value);

/* The next functions do not move on. */
bool		sim_sql_is(const struct sim_sql_scan *scan, const char *word);
bool		sim_sql_reserved(const struct sim_sql_scan *scan);

/* a time in UTC, and as the service writes it */
bool		sim_sql_time(const char *text, struct tm *tm);
const char *sim_sql_print_time(struct sim_sql_scan *scan, int64_t seconds);

#endif
