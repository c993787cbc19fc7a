/*
 * value.h
 *		One column's value: from JSON, from literals of queries, into SQLite,
 *		and out again as JSON.
 *
 * This module has all checks of values (length, range, precision, choices,
 * dates) and their error codes, so single writes, bulk messages and $batch
 * agree.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_VALUE_H
#define SIM_VALUE_H

#include <sqlite3.h>

#include "wire/json.h"
#include "store/schema.h"
#include "sim.h"

struct sim_value
{
	enum
	{
		SIM_V_NULL,
		SIM_V_INT,
		SIM_V_REAL,
		SIM_V_TEXT,
		SIM_V_BLOB
	}			kind;
	int64_t		i;
	double		r;
	const char *s;				/* text and blobs; not terminated; lives in the arena or the
								 * request body */
	size_t		len;
	unsigned char fixed[16];	/* guids and decimals: when s is NULL and kind is SIM_V_BLOB */
};

/*
 * A member of a write body.  Not for lookups (row.c resolves binds).  Refuses
 * with the service's code.  '' in text becomes NULL.
 */
bool		sim_value_from_json(struct sim_req *req, struct sim_res *res, struct sim_column *column,
								struct sim_json *json, struct sim_value *out);

/*
 * A literal of a filter, given as text without its quotes: OData literals
 * ("quoted" says whether it had quotes), values of FetchXML conditions and
 * PropertyValues of query functions.  Checks that the type fits the column;
 * the column need not be able to hold the value (a number out of range is just
 * compared).  Date-times before 1753 or after 9999 are refused with
 * 0x80040239.
 */
bool		sim_value_from_literal(struct sim_req *req, struct sim_res *res, struct sim_column *column,
								   const char *s, size_t len, struct sim_value *out);

int			sim_value_bind(sqlite3_stmt *stmt, int param, const struct sim_value *value);
bool		sim_value_is_null(const struct sim_value *value);

/* prints column "i" of the current row as a JSON value (null included) */
void		sim_value_print(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i);

/* the same as a FetchXML/OData literal without quotes (paging cookies); "" for null */
void		sim_value_print_literal(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i);

/*
 * FormattedValue without quotes or escapes.  False if there is none (text,
 * ids).  For lookups the caller joins the target's name.
 */
bool		sim_value_label(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i);

/* SQL expression for the stored value or the formula of a column under a table alias ("t0"); quoted */
void		sim_column_sql(struct sim_buf *sql, const char *alias, struct sim_column *column);

/* refuses helpers that cannot be part of conditions or orders */
bool		sim_column_filterable(struct sim_req *req, struct sim_res *res,
								  const struct sim_column *column);

/* ISO 8601 → seconds since 1970; without an offset it is UTC; false if malformed */
bool		sim_time_parse(const char *s, size_t len, int64_t *seconds);
void		sim_time_print(struct sim_buf *buf, int64_t seconds, bool date_only);	/* no quotes */

#endif
