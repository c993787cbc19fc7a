/*
 * odata_sql.c
 *		A $filter's tree into SQLite's SQL and the values to bind.
 *
 * Each kind of node has its function; "negate" travels down with them, since
 * the service has no general NOT but the opposite of every comparison.  So
 * "not (a gt 1)" is "a le 1" and leaves out rows without a, whereas "not (a
 * eq 1)" is "a ne 1" and has them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "odata/odata_sql.h"

/* SQLite's parser has a fixed stack of 100; the part of it that a level of each kind takes */
#define PARSER_ROOM 76
#define COST_GROUP 3
#define COST_LAMBDA 14

static bool node_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
					 bool negate, struct sim_buf *out);

/* ----------
 * Literals
 * ----------
 */

static const char *
literal_type(const struct sim_node *node)
{
	static const char *const names[] = {
		[SIM_LIT_NULL] = "<null>", [SIM_LIT_STRING] = "Edm.String",
		[SIM_LIT_DECIMAL] = "Edm.Decimal", [SIM_LIT_BOOLEAN] = "Edm.Boolean",
		[SIM_LIT_GUID] = "Edm.Guid", [SIM_LIT_DATE] = "Edm.Date",
		[SIM_LIT_DATETIME] = "Edm.DateTimeOffset", [SIM_LIT_ENUM] = "Edm.Enum",
		[SIM_LIT_ARRAY] = "Collection(Edm.Untyped)"
	};

	if (node->literal == SIM_LIT_INTEGER)
	{
		long long	v = strtoll(node->text.s, NULL, 10);

		return v >= INT32_MIN && v <= INT32_MAX ? "Edm.Int32" : "Edm.Int64";
	}
	return names[node->literal];
}

/* returns true if a literal of this kind may be compared with the column */
static bool
literal_fits(const struct sim_column *column, enum sim_literal literal)
{
	static const struct
	{
		const char *type;
		unsigned int literals;
	}			rules[] = {
		{"Edm.Guid", 1u << SIM_LIT_GUID},
		{"Edm.String", 1u << SIM_LIT_STRING},
		{"Edm.Int32", 1u << SIM_LIT_INTEGER | 1u << SIM_LIT_DECIMAL},
		{"Edm.Int64", 1u << SIM_LIT_INTEGER | 1u << SIM_LIT_DECIMAL},
		{"Edm.Decimal", 1u << SIM_LIT_INTEGER | 1u << SIM_LIT_DECIMAL},
		{"Edm.Double", 1u << SIM_LIT_INTEGER | 1u << SIM_LIT_DECIMAL},
		{"Edm.Boolean", 1u << SIM_LIT_BOOLEAN},
		{"Edm.DateTimeOffset", 1u << SIM_LIT_DATETIME | 1u << SIM_LIT_DATE},
		{"Edm.Date", 1u << SIM_LIT_DATE},
	};
	const char *type = sim_edm_type(column);
	size_t		i;

	for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
	{
		if (strcmp(rules[i].type, type) == 0)
			return (rules[i].literals >> literal & 1) != 0;
	}
	return false;
}

/* ----------
 * Conditions
 * ----------
 */

bool
sim_sql_condition(struct sim_sql *sql)
{
	if (++sql->nconditions <= SIM_MAX_CONDITIONS)
		return true;
	return sim_fail(sql->req, sql->res, 400, "0x8004430C",
					"Number of conditions in query exceeded maximum limit.");
}

static bool
incompatible(struct sim_sql *sql, const char *left, const char *right, int op)
{
	static const char *const names[] = {
		"Equal", "NotEqual", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"
	};

	return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
					"A binary operator with incompatible types was detected. Found operand types "
					"'%s' and '%s' for operator kind '%s'.", left, right, names[op]);
}

static bool
unsupported(struct sim_sql *sql, const struct sim_node *node)
{
	static const char *const names[] = {
		[SIM_NODE_AND] = "BinaryOperator", [SIM_NODE_OR] = "BinaryOperator",
		[SIM_NODE_NOT] = "UnaryOperator", [SIM_NODE_COMPARE] = "BinaryOperator",
		[SIM_NODE_CALL] = "SingleValueFunctionCall",
		[SIM_NODE_FUNCTION] = "SingleValueFunctionCall", [SIM_NODE_LAMBDA] = "Any",
		[SIM_NODE_PATH] = "SingleValuePropertyAccess", [SIM_NODE_LITERAL] = "Constant"
	};

	if (node->kind == SIM_NODE_CALL)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"The function '%s' is not supported in $filter.", node->text.s);
	return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY, "The query node %s is not supported.",
					names[node->kind]);
}

/*
 * Refuses a path that ends in a navigation property: "primarycontactid eq …".
 * Such a name is not unknown, but its type compares with nothing.
 */
static bool
refuse_navigation(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node)
{
	const struct sim_node *path = node->args[0];
	const struct sim_node *right = node->args[1];
	struct sim_table *table;
	struct sim_target *target;
	struct sim_column *column;
	struct sim_place place;

	if (!sim_place_row(sql, from, path, path->npath - 1, &place, &table))
		return false;
	if (sim_column_by_property(table, path->path[path->npath - 1].s,
							   path->path[path->npath - 1].len) != NULL)
		return true;
	column = sim_navigation(table, &path->path[path->npath - 1], &target);
	if (column == NULL)
		return true;
	return incompatible(sql, sim_fmt(sql->req->arena, "Microsoft.Dynamics.CRM.%s",
									 target ? target->table->name : "principal"),
						right->kind == SIM_NODE_LITERAL ? literal_type(right) : "Edm.Guid",
						node->op);
}

static bool
compare_columns(struct sim_sql *sql, struct sim_from *from, const struct sim_place *left,
				const struct sim_node *node, int op, struct sim_buf *out)
{
	static const char *const signs[] = {"=", "<>", ">", ">=", "<", "<="};
	struct sim_place right;

	if (!sim_place_find(sql, from, node->args[1], &right) || !sim_column_filterable(sql->req, sql->res, right.column))
		return false;
	if (strcmp(sim_edm_type(left->column), sim_edm_type(right.column)) != 0)
		return incompatible(sql, sim_edm_type(left->column), sim_edm_type(right.column), node->op);
	if (left->column->table->type == SIM_ELASTIC)
		return sim_fail(sql->req, sql->res, 400, "0x80048d0b",
						"Column comparison is not supported for this table.");
	if (left->from != right.from || strcmp(left->alias, right.alias) != 0 ||
		left->column->type != right.column->type)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"Only columns of the same row and of the same type can be compared: "
						"'%s' and '%s'.", left->column->name, right.column->name);
	sim_putc(out, '(');
	sim_place_sql(out, left);
	sim_puts(out, signs[op]);
	sim_place_sql(out, &right);
	if (op == SIM_NE)
	{
		/* the service adds only the left side's NULL */
		sim_puts(out, " OR ");
		sim_place_sql(out, left);
		sim_puts(out, " IS NULL");
	}
	sim_putc(out, ')');
	return true;
}

static bool
compare_literal(struct sim_sql *sql, const struct sim_place *left, const struct sim_node *literal,
				const struct sim_node *node, int op, struct sim_buf *out)
{
	static const char *const formats[] = {
		"%.*s=?%d", "(%.*s<>?%d OR %.*s IS NULL)", "%.*s>?%d", "%.*s>=?%d", "%.*s<?%d", "%.*s<=?%d"
	};
	struct sim_buf column = {0};
	struct sim_value value;
	int			n;

	if (literal->literal == SIM_LIT_NULL)
	{
		/* an order with NULL is never true */
		if (op == SIM_EQ || op == SIM_NE)
			sim_place_sql(out, left);
		sim_puts(out, op == SIM_EQ ? " IS NULL" : op == SIM_NE ? " IS NOT NULL" : "0");
		return true;
	}
	if (!literal_fits(left->column, literal->literal))
		return incompatible(sql, sim_edm_type(left->column), literal_type(literal), node->op);
	if (!sim_value_from_literal(sql->req, sql->res, left->column, literal->text.s,
								literal->text.len, &value))
		return false;
	n = sim_sql_bind(sql, &value);
	sim_place_sql(&column, left);
	sim_putf(out, formats[op], (int) column.len, column.s, n, (int) column.len, column.s);
	sim_buf_free(&column);
	return true;
}

static bool
compare_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
			struct sim_buf *out)
{
	static const int opposite[] = {SIM_NE, SIM_EQ, SIM_LE, SIM_LT, SIM_GE, SIM_GT};
	const struct sim_node *right = node->args[1];
	struct sim_place left;
	int			op = negate ? opposite[node->op] : node->op;

	if (node->args[0]->kind != SIM_NODE_PATH)
		return unsupported(sql, node->args[0]);
	if (right->kind != SIM_NODE_PATH && right->kind != SIM_NODE_LITERAL)
		return unsupported(sql, right);
	if (!sim_sql_condition(sql) || !refuse_navigation(sql, from, node) ||
		!sim_place_find(sql, from, node->args[0], &left) || !sim_column_filterable(sql->req, sql->res, left.column))
		return false;
	if (left.column->type == SIM_IMAGE || left.column->type == SIM_MANAGED ||
		left.column->type == SIM_PARTYLIST || !(left.column->stored || left.column->formula))
		return incompatible(sql, sim_edm_type(left.column), right->kind == SIM_NODE_LITERAL ?
							literal_type(right) : "Edm.String", node->op);
	if (right->kind == SIM_NODE_PATH)
		return compare_columns(sql, from, &left, node, op, out);
	return compare_literal(sql, &left, right, node, op, out);
}

/* contains, startswith, endswith: LIKE, in which wildcards of the value are active */
static bool
call_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		 struct sim_buf *out)
{
	bool		contains = sim_text_is(&node->text, "contains");
	bool		starts = sim_text_is(&node->text, "startswith");
	struct sim_place place;
	struct sim_buf column = {0};
	int			n;

	if (!contains && !starts && !sim_text_is(&node->text, "endswith"))
		return unsupported(sql, node);
	if (node->nargs != 2 || node->args[0]->kind != SIM_NODE_PATH ||
		node->args[1]->kind != SIM_NODE_LITERAL)
		return unsupported(sql, node);
	if (!sim_sql_condition(sql) || !sim_place_find(sql, from, node->args[0], &place) ||
		!sim_column_filterable(sql->req, sql->res, place.column))
		return false;
	if (strcmp(sim_edm_type(place.column), "Edm.String") != 0 ||
		place.column->type == SIM_MULTISELECT || node->args[1]->literal != SIM_LIT_STRING)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"No function signature for the function with name '%s' matches the "
						"specified arguments. The function signatures considered are: "
						"%s(Edm.String Nullable=true, Edm.String Nullable=true).",
						node->text.s, node->text.s);
	n = sim_sql_bind_text(sql, sim_fmt(sql->req->arena, "%s%s%s", starts ? "" : "%",
									   node->args[1]->text.s,
									   starts || contains ? "%" : ""),
						  node->args[1]->text.len + (contains ? 2 : 1));
	sim_place_sql(&column, &place);
	if (negate)
		sim_putf(out, "(NOT dv_like(%.*s,?%d) OR %.*s IS NULL)", (int) column.len, column.s, n,
				 (int) column.len, column.s);
	else
		sim_putf(out, "dv_like(%.*s,?%d)", (int) column.len, column.s, n);
	sim_buf_free(&column);
	return true;
}

/* ----------
 * Lambdas
 * ----------
 */

/* the rows of a collection, and which of their columns points back */
struct collection
{
	struct sim_table *table;
	struct sim_relationship *relationship;
	struct sim_many *many;
	struct sim_column *near;	/* of the intersect table */
	struct sim_column *far;
};

static bool
find_collection(struct sim_table *table, const struct sim_text *name, struct collection *out)
{
	memset(out, 0, sizeof(*out));
	out->relationship = sim_collection_by_name(table, name->s, name->len);
	if (out->relationship != NULL)
	{
		out->table = out->relationship->referencing;
		return true;
	}
	out->many = sim_many_by_name(table, name->s, name->len);
	if (out->many == NULL)
		return false;
	if (out->many->table1 == table && strcmp(out->many->navigation1, name->s) == 0)
	{
		out->table = out->many->table2;
		out->near = out->many->column1;
		out->far = out->many->column2;
	}
	else
	{
		out->table = out->many->table1;
		out->near = out->many->column2;
		out->far = out->many->column1;
	}
	return true;
}

/* the lambda's table, once the path before it is resolved */
static bool
lambda_collection(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
				  struct collection *collection, struct sim_from **parent)
{
	const struct sim_text *name = &node->path[node->npath - 1];
	int			first;

	*parent = sim_place_start(from, node, node->npath - 1, &first);
	if (first < node->npath - 1)
	{
		struct sim_target *target;

		if (sim_navigation((*parent)->table, &node->path[first], &target) == NULL)
			return sim_no_property(sql->req, sql->res, node->path[first].s,
								   (*parent)->table->name);
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"Any or All on a collection below the single-valued navigation property "
						"'%s' is not supported.", node->path[first].s);
	}
	if (!find_collection((*parent)->table, name, collection))
		return sim_no_property(sql->req, sql->res, name->s, (*parent)->table->name);
	if ((*parent)->table->type == SIM_ELASTIC || collection->table->type == SIM_ELASTIC)
		return sim_fail(sql->req, sql->res, 400, "0x80048d0b", "Link entities are not supported");
	return true;
}

/*
 * id IN (SELECT the collection's rows' pointers back): not correlated, so
 * SQLite makes the list once for the statement.
 */
static bool
lambda_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		   struct sim_buf *out)
{
	struct collection collection;
	struct sim_from *parent;
	struct sim_from inner;
	struct sim_buf body = {0};
	bool		all = node->op == 1;

	if (all && node->nargs == 0)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"The 'all' operator needs an expression.");
	if (!sim_sql_condition(sql) ||
		!lambda_collection(sql, from, node, &collection, &parent))
		return false;
	sim_from_init(sql, &inner, collection.table);
	inner.outer = from;
	inner.variable = node->text;
	if (node->nargs > 0 && !node_sql(sql, &inner, node->args[0], false, &body))
	{
		sim_buf_free(&body);
		return false;
	}
	sim_putf(out, "%s.\"%s\" %sIN (SELECT ", parent->alias, parent->table->id->name,
			 all != negate ? "NOT " : "");
	if (collection.many != NULL)
	{
		sim_putf(out, "i.\"%s\" FROM ", collection.near->name);
		sim_from_sql(&inner, out);
		sim_putf(out, " JOIN \"%s\" AS i ON i.\"%s\"=%s.\"%s\" WHERE 1",
				 collection.many->intersect->name, collection.far->name, inner.alias,
				 collection.table->id->name);
	}
	else
	{
		struct sim_column *column = collection.relationship->column;

		sim_putf(out, "%s.\"%s\" FROM ", inner.alias, column->name);
		sim_from_sql(&inner, out);
		sim_putf(out, " WHERE %s.\"%s\" IS NOT NULL", inner.alias, column->name);
		if (column->ntargets > 1)
			sim_putf(out, " AND %s.\"%s.type\"='%s'", inner.alias, column->name,
					 parent->table->name);
	}
	if (body.len > 0)
		sim_putf(out, " AND (%s)%s", body.s, all ? " IS NOT TRUE" : "");
	sim_putc(out, ')');
	sim_buf_free(&body);
	return true;
}

/* ----------
 * The tree
 * ----------
 */

static bool
list_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		 struct sim_buf *out)
{
	/* De Morgan */
	const char *word = (node->kind == SIM_NODE_AND) != negate ? " AND " : " OR ";
	int			i;

	sim_putc(out, '(');
	for (i = 0; i < node->nargs; i++)
	{
		if (i > 0)
			sim_puts(out, word);
		if (!node_sql(sql, from, node->args[i], negate, out))
			return false;
	}
	sim_putc(out, ')');
	return true;
}

static bool
not_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		struct sim_buf *out)
{
	const struct sim_node *arg = node->args[0];

	if (arg->kind == SIM_NODE_PATH)
	{
		struct sim_place place;

		if (!sim_place_find(sql, from, arg, &place))
			return false;
		if (place.column->type != SIM_BOOLEAN)
			return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
							"A unary operator with an incompatible type was detected. Found "
							"operand type '%s' for operator kind 'Not'.",
							sim_edm_type(place.column));
	}
	return node_sql(sql, from, arg, !negate, out);
}

static bool
function_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
			 struct sim_buf *out)
{
	if (negate)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"Not operator along with the Custom Named Condition operators is not "
						"allowed");
	return sim_function_sql(sql, from, node, out);
}

static bool
leaf_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		 struct sim_buf *out)
{
	struct sim_place place;

	(void) negate;
	(void) out;
	if (node->kind == SIM_NODE_PATH && !sim_place_find(sql, from, node, &place))
		return false;
	if (node->kind == SIM_NODE_LITERAL ? node->literal != SIM_LIT_BOOLEAN :
		place.column->type != SIM_BOOLEAN)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"The $filter expression must evaluate to a single boolean value.");
	return unsupported(sql, node);
}

static bool
node_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node, bool negate,
		 struct sim_buf *out)
{
	static bool (*const translators[]) (struct sim_sql *, struct sim_from *,
										const struct sim_node *, bool, struct sim_buf *) = {
		[SIM_NODE_AND] = list_sql,
		[SIM_NODE_OR] = list_sql,
		[SIM_NODE_NOT] = not_sql,
		[SIM_NODE_COMPARE] = compare_sql,
		[SIM_NODE_CALL] = call_sql,
		[SIM_NODE_FUNCTION] = function_sql,
		[SIM_NODE_LAMBDA] = lambda_sql,
		[SIM_NODE_PATH] = leaf_sql,
		[SIM_NODE_LITERAL] = leaf_sql,
	};
	int			cost = node->kind == SIM_NODE_LAMBDA ? COST_LAMBDA :
	node->kind == SIM_NODE_AND || node->kind == SIM_NODE_OR ? COST_GROUP : 0;
	bool		ok;

	sql->depth += cost;
	if (sql->depth > PARSER_ROOM)
		return sim_fail(sql->req, sql->res, 400, SIM_BAD_QUERY,
						"Recursion depth exceeded allowed limit.");
	ok = translators[node->kind] (sql, from, node, negate, out);
	sql->depth -= cost;
	return ok;
}

bool
sim_filter_sql(struct sim_sql *sql, struct sim_from *from, const struct sim_node *node,
			   struct sim_buf *out)
{
	return node_sql(sql, from, node, false, out);
}
