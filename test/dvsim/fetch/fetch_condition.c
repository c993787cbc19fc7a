/*
 * fetch_condition.c
 *		One FetchXML condition as a SQL expression.
 *
 * A table lists for each operator the classes of columns, the number of
 * values, and the function that writes it.  Negative operators are true for
 * null, as in the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch_fiscal.h"
#include "fetch/fetch_sql.h"
#include "store/guid.h"
#include "wire/quirks.h"

#define BAD_OPERATOR "0x80041120"
#define BAD_CONDITION "0x80041106"
#define BAD_VALUE "0x80041108"
#define NOT_ON_ELASTIC "0x80048d0b"

#define MAX_PARAMETERS 30000	/* SQLite takes 32,766 */
#define ANY_NUMBER 100000000
#define LANGUAGE 1033

#define C(class) (1u << SIM_CLASS_##class)
#define IDS (C(GUID) | C(LOOKUP))
#define NUMBERS (C(INTEGER) | C(DECIMAL) | C(REAL))
#define EQUALS (C(TEXT) | C(NAME) | NUMBERS | C(BOOLEAN) | C(CHOICE) | C(CHOICES) | IDS)
#define ORDERED (C(TEXT) | NUMBERS | IDS | C(DATE))
#define ANYTHING (EQUALS | C(DATE) | C(BINARY))

struct writer
{
	struct sim_fetch_query *q;
	struct sim_buf *sql;
	struct sim_fetch_term term;
	const struct sim_fetch_condition *condition;
	const struct operator *op;
	int			until;
};

struct operator
{
	const char *name;
	bool		(*put) (struct writer *w);
	unsigned int classes;
	int			min;			/* values */
	int			max;
	bool		negative;
	const char *text;			/* its meaning to its writer */
};

static bool put_compare(struct writer *w);
static bool put_list(struct writer *w);
static bool put_between(struct writer *w);
static bool put_null(struct writer *w);
static bool put_like(struct writer *w);
static bool put_contains(struct writer *w);
static bool put_user(struct writer *w);
static bool put_business_unit(struct writer *w);
static bool put_language(struct writer *w);
static bool put_hierarchy(struct writer *w);
static bool put_day(struct writer *w);
static bool put_fiscal_period(struct writer *w);

static const struct operator operators[] = {
	{"eq", put_compare, EQUALS | C(DATE), 1, ANY_NUMBER, false, "="},
	{"ne", put_compare, EQUALS | C(DATE), 1, ANY_NUMBER, true, "<>"},
	{"neq", put_compare, EQUALS | C(DATE), 1, ANY_NUMBER, true, "<>"},
	{"gt", put_compare, ORDERED, 1, 1, false, ">"},
	{"ge", put_compare, ORDERED, 1, 1, false, ">="},
	{"lt", put_compare, ORDERED, 1, 1, false, "<"},
	{"le", put_compare, ORDERED, 1, 1, false, "<="},
	{"in", put_list, EQUALS, 1, ANY_NUMBER, false, "IN"},
	{"not-in", put_list, EQUALS, 1, ANY_NUMBER, true, "NOT IN"},
	{"between", put_between, NUMBERS | C(DATE), 2, 2, false, "BETWEEN"},
	{"not-between", put_between, NUMBERS | C(DATE), 2, 2, true, "NOT BETWEEN"},
	{"null", put_null, ANYTHING, 0, 0, false, "IS NULL"},
	{"not-null", put_null, ANYTHING, 0, 0, false, "IS NOT NULL"},
	/* "-" stands for the value, "%" for anything */
	{"like", put_like, C(TEXT), 1, 1, false, "-"},
	{"not-like", put_like, C(TEXT), 1, 1, true, "-"},
	{"begins-with", put_like, C(TEXT), 1, 1, false, "-%"},
	{"not-begin-with", put_like, C(TEXT), 1, 1, true, "-%"},
	{"ends-with", put_like, C(TEXT), 1, 1, false, "%-"},
	{"not-end-with", put_like, C(TEXT), 1, 1, true, "%-"},
	{"contain-values", put_contains, C(CHOICES), 1, ANY_NUMBER, false, NULL},
	{"not-contain-values", put_contains, C(CHOICES), 1, ANY_NUMBER, true, NULL},
	/* "u" the user, "t" the user's teams */
	{"eq-userid", put_user, IDS, 0, 0, false, "u"},
	{"ne-userid", put_user, IDS, 0, 0, true, "u"},
	{"eq-userteams", put_user, IDS, 0, 0, false, "t"},
	{"eq-useroruserteams", put_user, IDS, 0, 0, false, "ut"},
	{"eq-useroruserhierarchy", put_user, IDS, 0, 0, false, "u"},
	{"eq-useroruserhierarchyandteams", put_user, IDS, 0, 0, false, "ut"},
	{"eq-businessid", put_business_unit, IDS, 0, 0, false, NULL},
	{"ne-businessid", put_business_unit, IDS, 0, 0, true, NULL},
	{"eq-userlanguage", put_language, C(INTEGER), 0, 0, false, NULL},
	/* "^" up, "v" down, "=" with the row itself */
	{"above", put_hierarchy, IDS, 1, 1, false, "^"},
	{"eq-or-above", put_hierarchy, IDS, 1, 1, false, "^="},
	{"under", put_hierarchy, IDS, 1, 1, false, "v"},
	{"eq-or-under", put_hierarchy, IDS, 1, 1, false, "v="},
	{"not-under", put_hierarchy, IDS, 1, 1, true, "v"},
	{"on", put_day, C(DATE), 1, 1, false, "="},
	{"on-or-after", put_day, C(DATE), 1, 1, false, ">="},
	{"on-or-before", put_day, C(DATE), 1, 1, false, "<="},
	{"in-fiscal-period", put_fiscal_period, C(DATE), 1, 1, false, NULL},
};

static bool
refuse(struct writer *w, const char *code, const char *what)
{
	return sim_fail(w->q->req, w->q->res, 400, code,
					"The condition on the attribute '%s' with the operator '%s' is invalid: %s",
					w->condition->attribute, w->condition->operator, what);
}

/* the column, with the collation that a derived text lacks */
static void
put_term(struct writer *w)
{
	sim_puts(w->sql, w->term.expr);
	if (w->term.derived && w->term.class == SIM_CLASS_TEXT)
		sim_puts(w->sql, " COLLATE DV");
}

/* opens a condition that null fulfils if the operator is a negative one */
static void
put_open(struct writer *w)
{
	sim_putc(w->sql, '(');
	if (w->op->negative)
	{
		sim_puts(w->sql, w->term.expr);
		sim_puts(w->sql, " IS NULL OR ");
	}
}

static void
put_value(struct writer *w, const struct sim_value *value)
{
	sim_putf(w->sql, "?%d", sim_fetch_bind(w->q, value));
}

/* table names may be given as numbers */
static void
table_name_value(struct writer *w, const char *text, size_t len, struct sim_value *value)
{
	struct sim_schema *schema = w->q->req->sim->schema;
	int			i;

	value->s = text;

	value->len = len;
	for (i = 0; i < schema->ntables && isdigit((unsigned char) *text); i++)
	{
		if (schema->tables[i].type_code != strtol(text, NULL, 10))
			continue;
		value->s = schema->tables[i].name;
		value->len = strlen(value->s);
	}
}

static bool
convert(struct writer *w, const char *text, size_t len, struct sim_value *value)
{
	memset(value, 0, sizeof(*value));
	value->kind = SIM_V_TEXT;
	if (w->term.class == SIM_CLASS_NAME)
	{
		table_name_value(w, text, len, value);
		return true;
	}
	if (w->term.class == SIM_CLASS_TEXT)
	{
		/* '' is never stored, so it is equal to nothing */
		value->s = text;

		value->len = len;
		return true;
	}
	return sim_value_from_literal(w->q->req, w->q->res, w->term.column, text, len, value);
}

/* the values of eq and ne on a multi-select column are one set */
static bool
convert_set(struct writer *w, struct sim_value *value)
{
	const struct sim_fetch_value *v;
	struct sim_buf set = {0};
	const char *text;

	for (v = w->condition->values; v != NULL; v = v->next)
	{
		if (set.len > 0)
			sim_putc(&set, ',');
		sim_put(&set, v->text, v->len);
	}
	text = sim_fetch_text(w->q, &set);

	return convert(w, text, strlen(text), value);
}

/* the other column of valueof: of the same row, or "alias.column" */
static bool
put_other_column(struct writer *w)
{
	const char *name = w->condition->valueof;
	const char *dot = strchr(name, '.');
	struct sim_fetch_entity *entity = w->term.entity;
	struct sim_fetch_term other;
	enum sim_fetch_class a;
	enum sim_fetch_class b;

	if (dot != NULL)
	{
		const char *alias = sim_strndup(w->q->req->arena, name, dot - name);

		entity = sim_fetch_by_alias(w->q, w->term.entity, alias, w->until);
		if (entity == NULL)
			return false;
		name = dot + 1;
	}
	if (!sim_fetch_term(w->q, entity, name, &other))
		return false;
	a = w->term.class == SIM_CLASS_LOOKUP ? SIM_CLASS_GUID : w->term.class;
	b = other.class == SIM_CLASS_LOOKUP ? SIM_CLASS_GUID : other.class;
	if (a != b)
		return refuse(w, BAD_CONDITION, "the columns are not of the same type.");
	sim_puts(w->sql, other.expr);
	return true;
}

static bool
put_compare(struct writer *w)
{
	struct sim_value value;

	if (w->condition->nvalues > 1 && w->term.class != SIM_CLASS_CHOICES)
		return refuse(w, BAD_CONDITION, "it takes one value.");
	put_open(w);
	put_term(w);
	sim_puts(w->sql, w->op->text);
	if (w->condition->valueof != NULL)
	{
		if (!put_other_column(w))
			return false;
	}
	else
	{
		const struct sim_fetch_value *v = w->condition->values;

		if (w->condition->nvalues > 1 ? !convert_set(w, &value)
			: !convert(w, v->text, v->len, &value))
			return false;
		put_value(w, &value);
	}
	sim_putc(w->sql, ')');
	return true;
}

static bool
put_list(struct writer *w)
{
	const struct sim_fetch_value *v;

	put_open(w);
	put_term(w);
	sim_putf(w->sql, " %s (", w->op->text);
	for (v = w->condition->values; v != NULL; v = v->next)
	{
		struct sim_value value;

		if (!convert(w, v->text, v->len, &value))
			return false;
		put_value(w, &value);
		sim_puts(w->sql, v->next ? "," : "))");
	}
	return true;
}

static bool
put_between(struct writer *w)
{
	const struct sim_fetch_value *v = w->condition->values;
	struct sim_value low;
	struct sim_value high;

	if (!convert(w, v->text, v->len, &low) ||
		!convert(w, v->next->text, v->next->len, &high))
		return false;
	put_open(w);
	put_term(w);
	sim_putf(w->sql, " %s ", w->op->text);
	put_value(w, &low);
	sim_puts(w->sql, " AND ");
	put_value(w, &high);
	sim_putc(w->sql, ')');
	return true;
}

static bool
put_null(struct writer *w)
{
	sim_putf(w->sql, "%s %s", w->term.expr, w->op->text);
	return true;
}

static bool
put_like(struct writer *w)
{
	struct sim_value value = {.kind = SIM_V_TEXT};
	struct sim_buf pattern = {0};
	const char *c;

	for (c = w->op->text; *c != '\0'; c++)
	{
		if (*c == '%')
			sim_putc(&pattern, '%');
		else
			sim_put(&pattern, w->condition->values->text, w->condition->values->len);
	}
	value.len = pattern.len;
	value.s = sim_fetch_text(w->q, &pattern);
	put_open(w);
	sim_putf(w->sql, "%sdv_like(%s,", w->op->negative ? "NOT " : "", w->term.expr);
	put_value(w, &value);
	sim_puts(w->sql, "))");
	return true;
}

static bool
parse_long(struct writer *w, const struct sim_fetch_value *v, long *number)
{
	char	   *end;

	errno = 0;
	*number = strtol(v->text, &end, 10);
	if (end == v->text || *end != '\0' || errno != 0 ||
		!(isdigit((unsigned char) *v->text) || *v->text == '-'))
		return refuse(w, BAD_VALUE, "Invalid value specified for type.");
	return true;
}

static bool
put_contains(struct writer *w)
{
	const struct sim_fetch_value *v;
	bool		lagging;

	put_open(w);
	if (w->op->negative)
		sim_puts(w->sql, "NOT ");
	sim_putc(w->sql, '(');
	lagging = sim_quirk_full_text(w->q->req->sim, w->term.column->table, w->term.entity->sql,
								  w->sql);
	for (v = w->condition->values; v != NULL; v = v->next)
	{
		struct sim_value value = {.kind = SIM_V_TEXT};
		long		number;

		if (!parse_long(w, v, &number))
			return false;
		value.s = sim_fmt(w->q->req->arena, ",%ld,", number);
		value.len = strlen(value.s);
		sim_putf(w->sql, "instr(%s,", w->term.expr);
		put_value(w, &value);
		sim_puts(w->sql, v->next ? ")>0 OR " : ")>0");
	}
	sim_puts(w->sql, lagging ? ")))" : "))");
	return true;
}

static void
put_guid(struct writer *w, const char *guid)
{
	struct sim_value value = {.kind = SIM_V_NULL};

	if (sim_guid_parse(guid, strlen(guid), value.fixed))
		value.kind = SIM_V_BLOB;
	put_value(w, &value);
}

/* the intersect table of users and teams, if the schema has one */
static struct sim_many *
team_members(struct sim_schema *schema, struct sim_column **user, struct sim_column **team)
{
	int			i;

	for (i = 0; i < schema->nmany; i++)
	{
		struct sim_many *many = &schema->many[i];
		bool		user_first = strcmp(many->table1->name, "systemuser") == 0;

		if (!user_first && strcmp(many->table2->name, "systemuser") != 0)
			continue;
		if (strcmp((user_first ? many->table2 : many->table1)->name, "team") != 0)
			continue;
		*user = user_first ? many->column1 : many->column2;
		*team = user_first ? many->column2 : many->column1;
		return many;
	}
	return NULL;
}

static bool
put_user(struct writer *w)
{
	struct sim_column *user;
	struct sim_column *team;
	struct sim_many *members = team_members(w->q->req->sim->schema, &user, &team);

	put_open(w);
	if (strchr(w->op->text, 'u') != NULL)
	{
		sim_putf(w->sql, "%s%s", w->term.expr, w->op->negative ? "<>" : "=");
		put_guid(w, w->q->req->user_id);
	}
	if (strcmp(w->op->text, "ut") == 0)
		sim_puts(w->sql, " OR ");
	if (strchr(w->op->text, 't') != NULL && members == NULL)
		sim_putc(w->sql, '0');
	else if (strchr(w->op->text, 't') != NULL)
	{
		sim_putf(w->sql, "%s IN (SELECT \"%s\" FROM \"%s\" WHERE \"%s\"=", w->term.expr,
				 team->name, members->intersect->name, user->name);
		put_guid(w, w->q->req->user_id);
		sim_putc(w->sql, ')');
	}
	sim_putc(w->sql, ')');
	return true;
}

static bool
put_business_unit(struct writer *w)
{
	put_open(w);
	sim_putf(w->sql, "%s%s", w->term.expr, w->op->negative ? "<>" : "=");
	put_guid(w, w->q->req->sim->business_unit_id);
	sim_putc(w->sql, ')');
	return true;
}

static bool
put_language(struct writer *w)
{
	sim_putf(w->sql, "%s=%d", w->term.expr, LANGUAGE);
	return true;
}

/* a recursive walk from the given row; UNION drops rows already seen, so cycles end */
static bool
put_hierarchy(struct writer *w)
{
	const struct sim_column *column = w->term.column;
	const struct sim_table *table = column->table;
	const struct sim_column *parent;
	bool		up = *w->op->text == '^';
	bool		self = strchr(w->op->text, '=') != NULL;
	struct sim_value value;
	const char *id;

	if (w->term.class == SIM_CLASS_LOOKUP)
		table = column->ntargets == 1 ? column->targets[0].table : NULL;
	parent = table ? sim_fetch_hierarchy(table) : NULL;
	if (parent == NULL || (w->term.class == SIM_CLASS_GUID && column != table->id))
		return refuse(w, BAD_CONDITION, "the column has no hierarchical relationship.");
	if (!convert(w, w->condition->values->text, w->condition->values->len, &value))
		return false;
	id = table->id->name;
	put_open(w);
	sim_putf(w->sql, "%s %sIN (WITH RECURSIVE h(id) AS (SELECT \"%s\" FROM \"%s\" WHERE \"%s\"=",
			 w->term.expr, w->op->negative ? "NOT " : "", up && !self ? parent->name : id,
			 table->name, up || self ? id : parent->name);
	put_value(w, &value);
	if (up)
		sim_putf(w->sql, " UNION SELECT x.\"%s\" FROM \"%s\" AS x JOIN h ON x.\"%s\"=h.id)",
				 parent->name, table->name, id);
	else
		sim_putf(w->sql, " UNION SELECT x.\"%s\" FROM \"%s\" AS x JOIN h ON x.\"%s\"=h.id)",
				 id, table->name, parent->name);
	sim_puts(w->sql, " SELECT id FROM h WHERE id IS NOT NULL))");
	return true;
}

/* [from, to) */
static void
put_range(struct writer *w, int64_t from, int64_t to)
{
	sim_putc(w->sql, '(');
	if (from != INT64_MIN)
	{
		sim_putf(w->sql, "%s>=", w->term.expr);
		sim_fetch_bind_int(w->q, w->sql, from);
	}
	if (from != INT64_MIN && to != INT64_MAX)
		sim_puts(w->sql, " AND ");
	if (to != INT64_MAX)
	{
		sim_putf(w->sql, "%s<", w->term.expr);
		sim_fetch_bind_int(w->q, w->sql, to);
	}
	sim_putc(w->sql, ')');
}

static bool
put_day(struct writer *w)
{
	struct sim_value value;
	int64_t		day;

	if (!convert(w, w->condition->values->text, w->condition->values->len, &value))
		return false;
	day = sim_day_start(value.i);
	put_range(w, w->op->text[0] == '<' ? INT64_MIN : day,
			  w->op->text[0] == '>' ? INT64_MAX : day + 86400);
	return true;
}

static bool
put_fiscal_period(struct writer *w)
{
	long		period;

	if (!parse_long(w, w->condition->values, &period))
		return false;
	if (period < 1 || period > 4)
		return refuse(w, BAD_VALUE, "Invalid value specified for type.");
	sim_putf(w->sql, "(strftime('%%m',%s,'unixepoch')+2)/3=%ld", w->term.expr, period);
	return true;
}

/* the values of a date operator, all of them whole numbers */
static bool
date_values(struct writer *w, int n, long *values)
{
	const struct sim_fetch_value *v;

	if (w->term.class != SIM_CLASS_DATE)
		return refuse(w, BAD_CONDITION, "the operator does not fit the type of the column.");
	if (w->condition->nvalues != n || w->condition->valueof != NULL)
		return refuse(w, BAD_CONDITION, "wrong number of values.");
	for (v = w->condition->values; v != NULL; v = v->next)
	{
		if (!parse_long(w, v, values++))
			return false;
	}
	return true;
}

static bool
put_window(struct writer *w, const struct sim_window_op *op)
{
	bool		date_only = w->term.column->behaviour == SIM_DATE_ONLY;
	struct sim_window window;
	long		x = 0;

	if (!date_values(w, op->takes_value, &x))
		return false;
	if (date_only && (op->unit == SIM_HOURS || op->unit == SIM_MINUTES))
		return refuse(w, BAD_OPERATOR, "the column holds dates without time.");
	if (op->takes_value && (x < 1 || x > INT32_MAX))
		return refuse(w, BAD_VALUE, "Invalid value specified for type.");
	window = sim_window_of(op, sim_unix_now(w->q->req->sim), x, date_only);
	put_range(w, window.from, window.to);
	return true;
}

static bool
put_fiscal(struct writer *w, const struct sim_fiscal_op *op)
{
	struct sim_window window;
	long		values[2] = {0, 0};

	if (!date_values(w, op->values, values))
		return false;
	if (!sim_fiscal_window(op, sim_unix_now(w->q->req->sim), values, &window))
		return refuse(w, BAD_VALUE, "Invalid value specified for type.");
	put_range(w, window.from, window.to);
	return true;
}

static bool
check_values(struct writer *w)
{
	const struct sim_fetch_condition *c = w->condition;

	if (c->valueof != NULL)
	{
		if (w->op->put != put_compare)
			return refuse(w, BAD_CONDITION, "valueof is not supported with this operator.");
		if (c->nvalues > 0)
			return refuse(w, BAD_CONDITION, "valueof and values exclude each other.");
		if (w->q->table->type == SIM_ELASTIC)
			return sim_fail(w->q->req, w->q->res, 400, NOT_ON_ELASTIC,
							"Column comparison is not supported");
		return true;
	}
	if (c->nvalues < w->op->min || c->nvalues > w->op->max)
		return refuse(w, BAD_CONDITION, "wrong number of values.");
	if (c->nvalues + w->q->nbinds > MAX_PARAMETERS)
		return sim_fail(w->q->req, w->q->res, 400, "0x8004430E",
						"Number of parameters in a condition exceeded maximum limit.");
	return true;
}

static const struct operator *
find_operator(const char *name)
{
	size_t		i;

	for (i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (strcmp(operators[i].name, name) == 0)
			return &operators[i];
	}
	return NULL;
}

bool
sim_fetch_condition(struct sim_fetch_query *q, struct sim_buf *sql,
					struct sim_fetch_entity *scope,
					const struct sim_fetch_condition *condition, int until)
{
	struct writer w = {.q = q, .sql = sql, .condition = condition, .until = until};
	const char *name = condition->operator;
	const struct sim_window_op *window = sim_window_by_condition(name, strlen(name));
	const struct sim_fiscal_op *fiscal = sim_fiscal_op(name);
	struct sim_fetch_entity *entity = scope;

	if (condition->entityname != NULL)
		entity = sim_fetch_by_alias(q, scope, condition->entityname, until);
	if (entity == NULL || !sim_fetch_term(q, entity, condition->attribute, &w.term) ||
		!sim_column_filterable(q->req, q->res, w.term.column))
		return false;
	if (window != NULL)
		return put_window(&w, window);
	if (fiscal != NULL)
		return put_fiscal(&w, fiscal);
	w.op = find_operator(name);
	if (w.op == NULL)
		return sim_fail(q->req, q->res, 400, BAD_OPERATOR,
						"Unsupported condition operator: '%s'.", name);
	if ((w.op->classes & (1u << w.term.class)) == 0)
		return refuse(&w, BAD_CONDITION, "the operator does not fit the type of the column.");
	return check_values(&w) && w.op->put(&w);
}
