/*
 * row_print.h
 *		Rows as JSON: the columns of a result with their annotations.
 *
 * A reader lists the columns it wants, lets sim_out_sql() write their SQL
 * expressions (which also notes their positions in the result), calls
 * sim_out_prepare() once, and then prints row after row.  Names are quoted and
 * escaped once, not for each row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ROW_PRINT_H
#define SIM_ROW_PRINT_H

#include <sqlite3.h>

#include "store/schema.h"
#include "sim.h"

/* members printed beside the values */
#define SIM_OUT_LABELS		1	/* FormattedValue */
#define SIM_OUT_TYPES		2	/* lookuplogicalname */
#define SIM_OUT_NAVIGATION	4	/* associatednavigationproperty */
#define SIM_OUT_ATTRIBUTES	8	/* AttributeName, of columns whose "aliased" is set */
#define SIM_OUT_OMIT_NULLS	16

struct sim_out_column
{
	struct sim_column *column;
	const char *name;			/* JSON member; its property if NULL */
	bool		aliased;
	const char *link;			/* FetchXML: the table of its link; NULL: of the root */
	int			stmt_index;		/* of the value in the result */
	int			type_index;		/* of a polymorphic lookup's target, or -1 */
	int			label_index;	/* of a lookup's target's name, or -1 */

	/* sim_out_prepare's own: texts like ,"name": and ,"name@…":  */
	const char *member;
	const char *attribute_member;
	const char *label_member;
	const char *type_member;
	const char *navigation_member;
	size_t		member_len;
};

struct sim_out
{
	struct sim_out_column *columns;
	int			n;
	unsigned int flags;
	int			version_index;	/* of versionnumber, printed as @odata.etag; -1: no etag */
};

/* returns the flags that the request's odata.include-annotations asks for */
unsigned int sim_out_flags(const struct sim_req *req);

/*
 * Appends the expressions of one column (the value, and those for its
 * annotations) to a select list, with a comma in front unless *next is 0;
 * *next is the number of result columns written so far.
 */
void		sim_out_sql(struct sim_buf *sql, const char *alias, struct sim_out_column *column,
						unsigned int flags, int *next);

/* like sim_column_sql, but an elastic table's '' for no partition is NULL */
void		sim_out_value_sql(struct sim_buf *sql, const char *alias, struct sim_column *column);

/* a lookup's target's primary name, as a scalar expression (TEXT) */
void		sim_lookup_label_sql(struct sim_buf *sql, const char *alias, struct sim_column *column);

void		sim_out_prepare(struct sim_arena *arena, struct sim_out *out);

/* the members without the braces, for objects that have more of them; false if there was none */
bool		sim_print_members(struct sim_buf *buf, const struct sim_out *out, sqlite3_stmt *stmt);

/* the whole object */
void		sim_print_row(struct sim_buf *buf, const struct sim_out *out, sqlite3_stmt *stmt);

#endif
