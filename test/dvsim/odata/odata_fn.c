/*
 * odata_fn.c
 *		The query functions Microsoft.Dynamics.CRM.Fn(PropertyName=…,…).
 *
 * A table lists for each function its arguments and how its SQL is made.  The
 * relative dates are those of FetchXML under other names.  Functions that need
 * hierarchies, teams or a full-text index are known by name and refused,
 * because dvsim has none of these.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_fiscal.h"
#include "store/guid.h"
#include "odata/odata_sql.h"
#include "wire/quirks.h"

#define MAX_VALUES 100			/* with a quirk */

struct function
{
	const char *name;
	bool		(*sql) (struct sim_sql *, const struct function *, const struct sim_node *,
						const struct sim_place *, struct sim_buf *);
	bool		negative;		/* NotIn …: NULL passes */
	int			how;			/* On*: SIM_EQ, SIM_GE, SIM_LE */
};

/* ----------
 * Arguments
 * ----------
 */

static bool
unresolved(struct sim_sql *sql)
{
	return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
					"Request message has unresolved parameters.");
}

static bool
wrong_value(struct sim_sql *sql, const struct sim_node *node, const struct sim_column *column)
{
	return sim_fail(sql->req, sql->res, 400, "0x80040203",
					"The condition operator '%s' was given values that it cannot use for "
					"attribute '%s'.", node->text.s, column->name);
}

static bool
wrong_column(struct sim_sql *sql, const struct sim_node *node, const struct sim_column *column)
{
	return sim_fail(sql->req, sql->res, 400, "0x80040203",
					"The condition operator '%s' is not valid for attribute '%s' of type '%s'.",
					node->text.s, column->name, sim_type_name(column->type));
}

static const struct sim_node *
argument(const struct sim_node *node, const char *name)
{
	int			i;

	for (i = 0; i < node->nargs; i++)
	{
		if (sim_text_is(&node->args[i]->name, name))
			return node->args[i];
	}
	return NULL;
}

/* ['a','b'] is accepted where JSON wants ["a","b"] */
static char *
double_quotes(struct sim_arena *arena, const char *s)
{
	struct sim_buf buf = {0};
	char	   *text;

	while (*s != '\0')
	{
		const char *end;

		if (*s == '"')
		{
			for (end = s + 1; *end != '\0' && *end != '"'; end++)
				end += *end == '\\' && end[1] != '\0';
			if (*end != '\0')
				end++;
			sim_put(&buf, s, (size_t) (end - s));
			s = end;
		}
		else if (*s == '\'' && (end = strchr(s + 1, '\'')) != NULL)
		{
			sim_put_json(&buf, s + 1, (size_t) (end - s - 1));
			s = end + 1;
		}
		else
			sim_putc(&buf, *s++);
	}
	text = sim_strndup(arena, buf.s ? buf.s : "", buf.len);

	sim_buf_free(&buf);
	return text;
}

/* reads the items of PropertyValues; *first is the first of *n strings or numbers */
static bool
list_argument(struct sim_sql *sql, const struct sim_node *node, struct sim_json **first, int *n)
{
	const struct sim_node *arg = argument(node, "PropertyValues");
	const char *error = NULL;
	struct sim_json *array;
	struct sim_json *item;
	char	   *text;

	if (arg == NULL)
		return unresolved(sql);
	if (arg->literal != SIM_LIT_ARRAY)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"The parameter 'PropertyValues' of '%s' must be a collection.",
						node->text.s);
	text = double_quotes(sql->req->arena, arg->text.s);

	array = sim_json_parse(sql->req->arena, text, strlen(text), &error);
	if (array == NULL || array->type != SIM_JSON_ARRAY)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"Invalid JSON. A comma character ',' was expected in scope 'Array'. Every "
						"two elements in an array and properties of an object must be separated "
						"by commas.");
	if (array->n > MAX_VALUES && sim_quirk(sql->req->sim, SIM_QUIRK_PROPERTY_VALUES_100))
		return sim_fail(sql->req, sql->res, 400, "0x8004430E",
						"Number of parameters in a condition exceeded maximum limit.");
	for (item = array->child; item != NULL; item = item->next)
	{
		if (item->type != SIM_JSON_STRING && item->type != SIM_JSON_NUMBER)
			return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
							"The parameter 'PropertyValues' of '%s' must be a collection of "
							"Edm.String.", node->text.s);
	}
	*first = array->child;
	*n = array->n;
	return true;
}

/* a single value as text */
static bool
value_argument(struct sim_sql *sql, const struct sim_node *node, const char *name,
			   struct sim_text *out)
{
	const struct sim_node *arg = argument(node, name);

	if (arg == NULL)
		return unresolved(sql);
	if (arg->literal == SIM_LIT_NULL || arg->literal == SIM_LIT_ARRAY)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"The parameter '%s' of '%s' must not be null or a collection.", name,
						node->text.s);
	*out = arg->text;
	return true;
}

/* finds the column named by PropertyName: by logical name, or by its property */
static bool
find_column(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
			struct sim_place *place)
{
	const struct sim_node *arg = argument(node, "PropertyName");
	struct sim_table *table;

	if (arg == NULL || arg->literal != SIM_LIT_STRING)
		return unresolved(sql);
	if (!sim_place_row(sql, from, node, node->npath, place, &table))
		return false;
	place->column = sim_column_by_name(table, arg->text.s, arg->text.len);
	if (place->column == NULL)
		place->column = sim_column_by_property(table, arg->text.s, arg->text.len);
	if (place->column != NULL && place->column->selectable && place->column->valid_for_read)
		return true;
	return sim_fail(sql->req, sql->res, 400, "0x80041103",
					"'%s' entity doesn't contain attribute with Name = '%s' and NameMapping = "
					"'Logical'.", table->name, arg->text.s);
}

/* ----------
 * The functions
 * ----------
 */

static void
open_negative(const struct function *fn, struct sim_buf *out)
{
	if (fn->negative)
		sim_putc(out, '(');
}

static void
close_negative(const struct function *fn, const struct sim_place *place, struct sim_buf *out)
{
	if (!fn->negative)
		return;
	sim_puts(out, " OR ");
	sim_place_sql(out, place);
	sim_puts(out, " IS NULL)");
}

static bool
in_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
	   const struct sim_place *place, struct sim_buf *out)
{
	struct sim_json *item;
	int			n;
	int			last = 0;
	int			room = 1;
	int			i;

	if (!list_argument(sql, node, &item, &n))
		return false;
	if (n == 0)
		return wrong_value(sql, node, place->column);
	open_negative(fn, out);
	sim_place_sql(out, place);
	sim_puts(out, fn->negative ? " NOT IN (" : " IN (");
	for (; item != NULL; item = item->next)
	{
		struct sim_value value;

		if (!sim_value_from_literal(sql->req, sql->res, place->column, item->s, item->len, &value))
			return false;
		last = sim_sql_bind(sql, &value);
		sim_putf(out, "?%d,", last);
	}
	/* filled up to a power of two, so that there are few different texts */
	while (room < n)
		room *= 2;
	for (i = n; i < room; i++)
		sim_putf(out, "?%d,", last);
	out->s[out->len - 1] = ')';
	close_negative(fn, place, out);
	return true;
}

static bool
between_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
			const struct sim_place *place, struct sim_buf *out)
{
	struct sim_json *item;
	struct sim_value low;
	struct sim_value high;
	int			first;
	int			n;

	if (!list_argument(sql, node, &item, &n))
		return false;
	if (n != 2)
		return wrong_value(sql, node, place->column);
	if (!sim_value_from_literal(sql->req, sql->res, place->column, item->s, item->len, &low))
		return false;
	item = item->next;
	if (!sim_value_from_literal(sql->req, sql->res, place->column, item->s, item->len, &high))
		return false;
	first = sim_sql_bind(sql, &low);
	open_negative(fn, out);
	sim_place_sql(out, place);
	sim_putf(out, " %sBETWEEN ?%d AND ?%d", fn->negative ? "NOT " : "", first,
			 sim_sql_bind(sql, &high));
	close_negative(fn, place, out);
	return true;
}

/* any of the values is among the row's, as the index stores them: ",1,9," contains ",9," */
static bool
contain_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
			const struct sim_place *place, struct sim_buf *out)
{
	struct sim_json *item;
	bool		lagging;
	int			n;
	int			i;

	if (place->column->type != SIM_MULTISELECT)
		return wrong_column(sql, node, place->column);
	if (!list_argument(sql, node, &item, &n))
		return false;
	if (n == 0)
		return wrong_value(sql, node, place->column);
	open_negative(fn, out);
	sim_puts(out, fn->negative ? "NOT (" : "(");
	lagging = sim_quirk_full_text(sql->req->sim, place->column->table, place->alias, out);
	for (i = 0; item != NULL; item = item->next, i++)
	{
		char	   *text = sim_fmt(sql->req->arena, ",%.*s,", (int) item->len, item->s);
		size_t		sign = text[1] == '-';

		if (item->len == sign || strspn(text + 1 + sign, "0123456789") != item->len - sign)
			return wrong_value(sql, node, place->column);
		sim_puts(out, i > 0 ? " OR instr(" : "instr(");
		sim_place_sql(out, place);
		sim_putf(out, ",?%d)", sim_sql_bind_text(sql, text, strlen(text)));
	}
	sim_puts(out, lagging ? "))" : ")");
	close_negative(fn, place, out);
	return true;
}

static bool
identity_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
			 const struct sim_place *place, const char *id, struct sim_buf *out)
{
	unsigned char bytes[16];

	if (strcmp(sim_edm_type(place->column), "Edm.Guid") != 0)
		return wrong_column(sql, node, place->column);
	if (!sim_guid_parse(id, strlen(id), bytes))
		memset(bytes, 0, sizeof(bytes));
	open_negative(fn, out);
	sim_place_sql(out, place);
	sim_putf(out, "%s?%d", fn->negative ? "<>" : "=", sim_sql_bind_blob(sql, bytes));
	close_negative(fn, place, out);
	return true;
}

static bool
user_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
		 const struct sim_place *place, struct sim_buf *out)
{
	return identity_sql(sql, fn, node, place, sql->req->user_id, out);
}

static bool
business_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
			 const struct sim_place *place, struct sim_buf *out)
{
	return identity_sql(sql, fn, node, place, sql->req->sim->business_unit_id, out);
}

/* from <= column < to */
static void
window_sql(struct sim_sql *sql, const struct sim_place *place, struct sim_window window,
		   struct sim_buf *out)
{
	sim_putc(out, '(');
	if (window.from != INT64_MIN)
	{
		sim_place_sql(out, place);
		sim_putf(out, ">=?%d", sim_sql_bind_int(sql, window.from));
	}
	if (window.from != INT64_MIN && window.to != INT64_MAX)
		sim_puts(out, " AND ");
	if (window.to != INT64_MAX)
	{
		sim_place_sql(out, place);
		sim_putf(out, "<?%d", sim_sql_bind_int(sql, window.to));
	}
	sim_putc(out, ')');
}

/* On, OnOrAfter, OnOrBefore: whole days */
static bool
on_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
	   const struct sim_place *place, struct sim_buf *out)
{
	struct sim_window window = {INT64_MIN, INT64_MAX};
	struct sim_value value;
	struct sim_text text;
	int64_t		day;

	if (place->column->type != SIM_DATETIME)
		return wrong_column(sql, node, place->column);
	if (!value_argument(sql, node, "PropertyValue", &text) ||
		!sim_value_from_literal(sql->req, sql->res, place->column, text.s, text.len, &value))
		return false;
	day = sim_day_start(value.i);
	if (fn->how != SIM_LE)
		window.from = day;
	if (fn->how != SIM_GE)
		window.to = day + 86400;
	window_sql(sql, place, window, out);
	return true;
}

/* the arguments of an operator of time: whole numbers */
static bool
number_argument(struct sim_sql *sql, const struct sim_node *node, const struct sim_place *place,
				const char *name, long max, long *out)
{
	struct sim_text text;
	char	   *end;

	if (!value_argument(sql, node, name, &text))
		return false;
	*out = strtol(text.s, &end, 10);
	if (end == text.s || *end != '\0' || *out < 1 || *out > max)
		return wrong_value(sql, node, place->column);
	return true;
}

/* Today, LastXDays, OlderThanXMonths … */
static bool
relative_sql(struct sim_sql *sql, const struct sim_window_op *op, const struct sim_node *node,
			 const struct sim_place *place, struct sim_buf *out)
{
	bool		date_only = place->column->behaviour == SIM_DATE_ONLY;
	long		x = 0;

	if (place->column->type != SIM_DATETIME ||
		(date_only && (op->unit == SIM_HOURS || op->unit == SIM_MINUTES)))
		return wrong_column(sql, node, place->column);
	if (op->takes_value &&
		!number_argument(sql, node, place, "PropertyValue", INT32_MAX, &x))
		return false;
	window_sql(sql, place, sim_window_of(op, sim_unix_now(sql->req->sim), x, date_only), out);
	return true;
}

/* "InFiscalYear" is FetchXML's "in-fiscal-year"; NULL if there is no such operator */
static const struct sim_fiscal_op *
fiscal_operator(const struct sim_text *name)
{
	struct sim_buf buf = {0};
	const struct sim_fiscal_op *op;
	const char *s;

	for (s = name->s; *s != '\0'; s++)
	{
		if (isupper((unsigned char) *s) && s > name->s)
			sim_putc(&buf, '-');
		sim_putc(&buf, (char) tolower((unsigned char) *s));
	}
	op = sim_fiscal_op(buf.s ? buf.s : "");
	sim_buf_free(&buf);
	return op;
}

/* LastFiscalYear, InFiscalPeriodAndYear … */
static bool
fiscal_sql(struct sim_sql *sql, const struct sim_fiscal_op *op, const struct sim_node *node,
		   const struct sim_place *place, struct sim_buf *out)
{
	struct sim_window window;
	long		values[2] = {0, 0};

	if (place->column->type != SIM_DATETIME)
		return wrong_column(sql, node, place->column);
	if (op->values == 1 &&
		!number_argument(sql, node, place, "PropertyValue", INT32_MAX, &values[0]))
		return false;
	if (op->values == 2 &&
		(!number_argument(sql, node, place, "PropertyValue1", INT32_MAX, &values[0]) ||
		 !number_argument(sql, node, place, "PropertyValue2", INT32_MAX, &values[1])))
		return false;
	if (!sim_fiscal_window(op, sim_unix_now(sql->req->sim), values, &window))
		return wrong_value(sql, node, place->column);
	window_sql(sql, place, window, out);
	return true;
}

/* a quarter of any year */
static bool
fiscal_period_sql(struct sim_sql *sql, const struct function *fn, const struct sim_node *node,
				  const struct sim_place *place, struct sim_buf *out)
{
	long		period;

	(void) fn;
	if (place->column->type != SIM_DATETIME)
		return wrong_column(sql, node, place->column);
	if (!number_argument(sql, node, place, "PropertyValue", 4, &period))
		return false;
	sim_puts(out, "(strftime('%m',");
	sim_place_sql(out, place);
	sim_putf(out, ",'unixepoch')+2)/3=?%d", sim_sql_bind_int(sql, period));
	return true;
}

static const struct function functions[] = {
	{"In", in_sql, false, 0},
	{"NotIn", in_sql, true, 0},
	{"Between", between_sql, false, 0},
	{"NotBetween", between_sql, true, 0},
	{"ContainValues", contain_sql, false, 0},
	{"DoesNotContainValues", contain_sql, true, 0},
	{"EqualUserId", user_sql, false, 0},
	{"NotEqualUserId", user_sql, true, 0},
	{"EqualBusinessId", business_sql, false, 0},
	{"NotEqualBusinessId", business_sql, true, 0},
	{"InFiscalPeriod", fiscal_period_sql, false, 0},
	{"On", on_sql, false, SIM_EQ},
	{"OnOrAfter", on_sql, false, SIM_GE},
	{"OnOrBefore", on_sql, false, SIM_LE},
};

static const char *const absent[] = {
	"Above", "AboveOrEqual", "Contains", "EqualUserLanguage", "EqualUserOrUserHierarchy",
	"EqualUserOrUserHierarchyAndTeams", "EqualUserOrUserTeams", "EqualUserTeams", "NotUnder",
	"Under", "UnderOrEqual"
};

static bool
no_function(struct sim_sql *sql, const struct sim_node *node)
{
	size_t		i;

	for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
	{
		if (sim_text_is(&node->text, absent[i]))
			return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
							"The query function 'Microsoft.Dynamics.CRM.%s' is not available in "
							"this environment.", absent[i]);
	}
	return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
					"An unknown function with name 'Microsoft.Dynamics.CRM.%s' was found. This "
					"may also be a function import or a key lookup on a navigation property, "
					"which is not allowed.", node->text.s);
}

bool
sim_function_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
				 struct sim_buf *out)
{
	const struct function *fn = NULL;
	const struct sim_window_op *op = sim_window_by_function(node->text.s, node->text.len);
	const struct sim_fiscal_op *fiscal = fiscal_operator(&node->text);
	struct sim_place place;
	size_t		i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]) && fn == NULL; i++)
	{
		if (sim_text_is(&node->text, functions[i].name))
			fn = &functions[i];
	}
	if ((fn == NULL && op == NULL && fiscal == NULL) ||
		(fn != NULL && fn->sql == in_sql && sim_quirk(sql->req->sim, SIM_QUIRK_NO_IN)))
		return no_function(sql, node);
	if (!sim_sql_condition(sql) || !find_column(sql, from, node, &place) ||
		!sim_column_filterable(sql->req, sql->res, place.column))
		return false;
	if (place.column->type == SIM_IMAGE || place.column->type == SIM_MANAGED ||
		!(place.column->stored || place.column->formula != NULL))
		return wrong_column(sql, node, place.column);
	if (fn != NULL)
		return fn->sql(sql, fn, node, &place, out);
	if (op != NULL)
		return relative_sql(sql, op, node, &place, out);
	return fiscal_sql(sql, fiscal, node, &place, out);
}
