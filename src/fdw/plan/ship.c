/*
 * ship.c
 *		Decides which restriction clauses can be sent to the service.
 *
 * A clause is taken apart by one small function for each kind of node.  NOT is
 * passed down to the leaves, since only there is it known which operator is
 * the opposite, and whether the service can answer that one: "not equal" cannot
 * be derived from a superset of "equal".  A row is kept if the clause is true,
 * and whether an AND or an OR is true depends only on which of its parts are
 * true, so parts can be judged one by one: an AND is sent as far as its parts
 * can be, an OR as a whole or not at all.
 *
 * What an operator means is found out by fdw/operator.c; what the service makes
 * of it is in the table of dataverse/policy.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "dataverse/odata.h"
#include "fdw/operator.h"
#include "fdw/plan/ship.h"
#include "fdw/result_relation.h"
#include "fdw/tid.h"
#include "net/text.h"

/* reserved for conditions that are added when pages are requested */
#define SPARE_CONDITIONS 10
/* the service's parser has an undocumented limit of its own */
#define MAX_DEPTH 12
/* assumed for a list of unknown length where there is no IN */
#define LISTED_CONDITIONS 100
/* maximum length of other values than those of value_bytes[], and what surrounds a value */
#define VALUE_BYTES 45
#define CONDITION_BYTES 20
/* assumed for a text that is not known yet, and for the part of a long list that is sent */
#define UNKNOWN_TEXT_BYTES 100
#define CHUNK_BYTES 6500
/* for @>: further values are left to the check here */
#define MAX_CONTAINED 10

typedef struct walk
{
	dv_shipping *shipping;
	bool		negate;			/* there is an odd number of NOTs above */
	bool		top;			/* there are only ANDs above */
	int			depth;
} walk;

static List *ship_node(walk w, Node *node, dv_policy *policy);
static List *ship_in(walk w, AttrNumber attnum, dv_op op, Node *array, Oid inputcollid,
					 dv_policy *policy);

void
dv_shipping_init(dv_shipping *shipping, const dv_relation *relation, Index relid)
{
	memset(shipping, 0, sizeof(*shipping));
	shipping->relation = relation;
	shipping->relid = relid;
	shipping->ci_ai = get_collation_oid(list_make2(makeString("dataverse"), makeString("ci_ai")),
										true);
}

/*
 * Columns and values
 */

/* Strips casts that do not change the value, so that the column itself is compared. */
static Node *
strip_casts(Node *node)
{
	static const Oid lossless[] = {
		F_INT4_INT2, F_INT8_INT2, F_INT8_INT4, F_NUMERIC_INT2, F_NUMERIC_INT4, F_NUMERIC_INT8
	};

	for (;;)
	{
		Node	   *inner = NULL;

		if (IsA(node, RelabelType))
			inner = (Node *) ((RelabelType *) node)->arg;
		else if (IsA(node, FuncExpr) && list_length(((FuncExpr *) node)->args) == 1)
		{
			int			i;

			for (i = 0; i < (int) lengthof(lossless); i++)
				if (((FuncExpr *) node)->funcid == lossless[i])
					inner = linitial(((FuncExpr *) node)->args);
		}
		if (inner == NULL)
			return node;
		node = inner;
	}
}

/* Returns the attribute number of a column of this table, or 0. */
static AttrNumber
column_of(const dv_shipping *shipping, Node *node)
{
	Var		   *var = (Var *) strip_casts(node);

	if (!IsA(var, Var) || var->varno != (int) shipping->relid || var->varlevelsup != 0)
		return 0;
	return dv_relation_attribute(shipping->relation, var->varattno) != NULL ? var->varattno : 0;
}

/* Does it contain anything that cannot be evaluated before the scan begins? */
static bool
belongs_to_row(Node *node, void *context)
{
	const dv_shipping *shipping = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup != 0 ||
			((Var *) node)->varno == (int) shipping->relid || ((Var *) node)->varattno < 0;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind != PARAM_EXTERN &&
			(((Param *) node)->paramkind != PARAM_EXEC ||
			 bms_is_member(((Param *) node)->paramid, shipping->changing));
	if (IsA(node, PlaceHolderVar) || IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) ||
		IsA(node, SubLink) || IsA(node, Aggref) || IsA(node, WindowFunc) ||
		IsA(node, GroupingFunc) || IsA(node, CurrentOfExpr) || IsA(node, RowExpr))
		return true;
	return expression_tree_walker(node, belongs_to_row, context);
}

static bool
is_value(dv_shipping *shipping, Node *node)
{
	return !belongs_to_row(node, shipping) && !contain_volatile_functions(node);
}

static int
add_value(dv_shipping *shipping, Node *node)
{
	ListCell   *lc;

	foreach(lc, shipping->values)
	{
		if (equal(lfirst(lc), node))
			return foreach_current_index(lc);
	}
	shipping->values = lappend(shipping->values, node);
	return list_length(shipping->values) - 1;
}

/*
 * Types that each class of columns can be compared with without loss
 * (fdw/scan/bind.c reads their values).
 */
static bool
type_fits(const dv_attribute *attribute, dv_comparison cmp, Oid type)
{
	static const struct
	{
		dv_comparison cmp;
		Oid			types[4];
	}			fits[] =
	{
		/* a ctid stands for the id of its row */
		{DV_COMPARE_ID, {UUIDOID, TIDOID}},
		{DV_COMPARE_TEXT, {TEXTOID, VARCHAROID, NAMEOID}},
		{DV_COMPARE_TEXT_CI_AI, {TEXTOID, VARCHAROID, NAMEOID}},
		{DV_COMPARE_NUMBER, {INT4OID, INT8OID, INT2OID, NUMERICOID}},
		{DV_COMPARE_CHOICE, {INT4OID, INT8OID, INT2OID, NUMERICOID}},
		{DV_COMPARE_DOUBLE, {FLOAT8OID, FLOAT4OID}},
		{DV_COMPARE_BOOLEAN, {BOOLOID}},
		{DV_COMPARE_TIME, {TIMESTAMPOID, DATEOID}},
		{DV_COMPARE_DATE, {DATEOID, TIMESTAMPOID}},
		{DV_COMPARE_CHOICES, {INT4ARRAYOID, INT4OID}},
	};
	int			i;
	int			j;

	type = getBaseType(type);
	/* comparing with a timestamptz compares points in time only for such columns */
	if (type == TIMESTAMPTZOID)
		return cmp == DV_COMPARE_TIME && attribute->pgtype == TIMESTAMPTZOID;

	for (i = 0; i < (int) lengthof(fits); i++)
		for (j = 0; fits[i].cmp == cmp && j < (int) lengthof(fits[i].types); j++)
			if (fits[i].types[j] == type)
				return true;
	return false;
}

static dv_collation
collation_of(const dv_shipping *shipping, Oid collation)
{
	if (!OidIsValid(collation) || get_collation_isdeterministic(collation))
		return DV_COLLATION_BYTES;
	return collation == shipping->ci_ai ? DV_COLLATION_CI_AI : DV_COLLATION_OTHER;
}

static dv_comparison
comparison_of(const dv_attribute *attribute, dv_collation collation)
{
	if (attribute->is_label)
		return DV_COMPARE_LABEL;
	if (attribute->is_table_name)
		return DV_COMPARE_TABLE_NAME;
	if (!attribute->natural)
		return DV_COMPARE_OPAQUE;
	return dv_comparison_of(attribute->column.type, collation);
}

/*
 * Leaves
 */

/* Maximum number of conditions that fdw/scan/bind.c makes of it, except for lists. */
static int
conditions_of(dv_comparison cmp, dv_op op)
{
	bool		twice = cmp == DV_COMPARE_TIME || cmp == DV_COMPARE_DOUBLE || cmp == DV_COMPARE_TEXT ||
	cmp == DV_COMPARE_TEXT_CI_AI;

	if (op == DV_OP_DISTINCT)
		return 3;
	if (op == DV_OP_CONTAINS)
		return MAX_CONTAINED;
	if (op == DV_OP_NE)
		return 2;
	return (op == DV_OP_EQ || op == DV_OP_NOT_DISTINCT) && twice ? 2 : 1;
}

/* Returns the bytes of conditions without their values. */
static size_t
bytes_around(const dv_attribute *attribute, int n)
{
	return n * (strlen(attribute->column.property) + CONDITION_BYTES);
}

static bool
take_conditions(dv_shipping *shipping, dv_policy policy, int n, size_t bytes)
{
	size_t		room = policy == DV_EXACT ? DV_EXACT_BYTES : DV_FILTER_BYTES;

	if (shipping->conditions + n > DV_MAX_CONDITIONS - SPARE_CONDITIONS ||
		shipping->bytes + bytes > room)
		return false;
	shipping->conditions += n;
	shipping->bytes += bytes;
	return true;
}

/* Returns the bytes that a value takes up in a request, as far as that is known. */
static size_t
bytes_of_text(Datum value, Oid type)
{
	char	   *string = type == NAMEOID ? NameStr(*DatumGetName(value)) : TextDatumGetCString(value);

	return dv_odata_text_length(dv_text_to_utf8(string));
}

/* The same for a value of another type, whether or not it is known. */
static size_t
bytes_of_type(Oid type)
{
	static const struct
	{
		Oid			type;
		size_t		bytes;
	}			value_bytes[] =
	{
		{INT2OID, 6}, {INT4OID, 11}, {INT8OID, 20}, {BOOLOID, 5}, {UUIDOID, 36}, {DATEOID, 20},
		{TIMESTAMPOID, 20}, {TIMESTAMPTZOID, 20}
	};
	int			i;

	for (i = 0; i < (int) lengthof(value_bytes); i++)
		if (value_bytes[i].type == type)
			return value_bytes[i].bytes;
	return VALUE_BYTES;
}

static bool
is_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == NAMEOID;
}

size_t
dv_ship_bytes(Oid type, int width)
{
	type = getBaseType(type);
	if (!is_text(type))
		return bytes_of_type(type);
	return width > 0 ? (size_t) width : UNKNOWN_TEXT_BYTES;
}

static size_t
bytes_of(Node *value)
{
	Const	   *constant = (Const *) value;
	Oid			type = getBaseType(exprType(value));

	if (!is_text(type))
		return bytes_of_type(type);
	if (!IsA(value, Const))
		return UNKNOWN_TEXT_BYTES;
	return constant->constisnull ? 0 : bytes_of_text(constant->constvalue, type);
}

static size_t
bytes_of_list(Node *array, int n)
{
	Const	   *constant = (Const *) array;
	Oid			type = getBaseType(get_element_type(exprType(array)));
	ArrayIterator each;
	Datum		value;
	bool		isnull;
	size_t		bytes = 0;

	if (!is_text(type))
		return n * bytes_of_type(type);
	if (!IsA(array, Const) || constant->constisnull)
		return n * UNKNOWN_TEXT_BYTES;
	each = array_create_iterator(DatumGetArrayTypeP(constant->constvalue), 0, NULL);
	while (array_iterate(each, &value, &isnull))
		if (!isnull)
			bytes += bytes_of_text(value, type);
	return bytes;
}

/*
 * What the policy says of a column.  The service refuses conditions on helpers,
 * and it ignores an order by a column that is calculated when a row is read,
 * which is not trusted with groups and sums, either.
 * If the values of a column may be cut here, the service compares others than
 * PostgreSQL does.  Only NULL remains NULL, and a text that is cut begins as it
 * did before (fdw/scan/bind.c treats equality accordingly).
 */
static dv_policy
policy_of(const dv_shipping *shipping, const dv_attribute *attribute, dv_comparison cmp, dv_op op)
{
	dv_policy	policy = dv_policy_of(shipping->relation->type, cmp, op);

	if (attribute->helper || (attribute->unsorted && op >= DV_OP_ORDER))
		return DV_NEVER;
	if (!attribute->cut || op == DV_OP_NULL || op == DV_OP_NOT_NULL)
		return policy;
	if (cmp == DV_COMPARE_TEXT &&
		(op == DV_OP_EQ || op == DV_OP_IN || op == DV_OP_NOT_DISTINCT || op == DV_OP_STARTS))
		return Min(policy, DV_SUPERSET);
	return DV_NEVER;
}

/* Returns what the policy says, if the column allows for it. */
static bool
allowed(walk w, const dv_attribute *attribute, dv_comparison cmp, dv_op op, dv_policy *policy)
{
	*policy = policy_of(w.shipping, attribute, cmp, op);
	/* LIKE is for text columns only: the service would convert its pattern to any other type */
	if ((op == DV_OP_LIKE || op == DV_OP_ILIKE || op == DV_OP_STARTS) &&
		!(dv_types[attribute->column.type].flags & DV_FREE_TEXT))
		*policy = DV_NEVER;
	return *policy != DV_NEVER;
}

static List *
null_test(walk w, AttrNumber attnum, dv_op op, dv_policy *policy)
{
	const dv_attribute *attribute = dv_relation_attribute(w.shipping->relation, attnum);

	if (w.negate)
		op = dv_op_opposite(op);
	if (!allowed(w, attribute, comparison_of(attribute, DV_COLLATION_BYTES), op, policy) ||
		!take_conditions(w.shipping, *policy, 1, bytes_around(attribute, 1)))
		return NIL;
	return list_make2(makeInteger(op), makeInteger(attnum));
}

static int
flags_of(dv_comparison cmp, dv_policy policy)
{
	return (policy == DV_EXACT ? DV_CONDITION_EXACT : 0) |
		(cmp == DV_COMPARE_TEXT_CI_AI ? DV_CONDITION_CI_AI : 0);
}

/* column op value */
static List *
comparison(walk w, AttrNumber attnum, dv_op op, Node *value, Oid inputcollid, dv_policy *policy)
{
	dv_shipping *shipping = w.shipping;
	const dv_attribute *attribute = dv_relation_attribute(shipping->relation, attnum);
	dv_collation collation = collation_of(shipping, inputcollid);
	dv_comparison cmp = comparison_of(attribute, collation);
	int			times;

	if (w.negate)
		op = dv_op_opposite(op);
	*policy = DV_NEVER;
	if (collation == DV_COLLATION_OTHER || !type_fits(attribute, cmp, exprType(value)) ||
		!is_value(shipping, value))
		return NIL;
	/* the second condition of a text is whether it is null, if anything */
	times = is_text(getBaseType(exprType(value))) ? 1 : conditions_of(cmp, op);
	if (!allowed(w, attribute, cmp, op, policy) ||
		!take_conditions(shipping, *policy, conditions_of(cmp, op),
						 times * bytes_of(value) + bytes_around(attribute, times)))
		return NIL;
	return list_make4(makeInteger(op), makeInteger(attnum),
					  makeInteger(add_value(shipping, value)),
					  makeInteger(flags_of(cmp, *policy)));
}

/*
 * One function for each kind of node
 */

/*
 * Can the service compare these two columns?  It refuses columns of different
 * types, so both must be known; what is calculated may exceed its type.
 */
static bool
are_alike(const dv_attribute *a, const dv_attribute *b)
{
	return a->typed && b->typed && !a->unsorted && !b->unsorted && a->column.type == b->column.type && a->pgtype == b->pgtype &&
		b->natural && !a->is_label && !b->is_label && !a->is_table_name && !b->is_table_name;
}

/*
 * column op column, both of this table.  What is greater than the other one
 * becomes what the other one is less than.
 */
static List *
ship_columns(walk w, dv_op op, AttrNumber first, AttrNumber second, Oid inputcollid,
			 dv_policy *policy)
{
	static const struct
	{
		dv_op		op;
		dv_op		of_columns;
		bool		swapped;
	}			forms[] =
	{
		{DV_OP_EQ, DV_OP_COLUMNS_EQ, false}, {DV_OP_NE, DV_OP_COLUMNS_NE, false},
		{DV_OP_LT, DV_OP_COLUMNS_LT, false}, {DV_OP_GT, DV_OP_COLUMNS_LT, true},
		{DV_OP_LE, DV_OP_COLUMNS_LE, false}, {DV_OP_GE, DV_OP_COLUMNS_LE, true},
	};
	const dv_attribute *a = dv_relation_attribute(w.shipping->relation, first);
	const dv_attribute *b = dv_relation_attribute(w.shipping->relation, second);
	dv_comparison cmp = comparison_of(a, collation_of(w.shipping, inputcollid));
	dv_policy	policy_of_second;
	int			i = 0;

	if (w.negate)
		op = dv_op_opposite(op);
	while (i < (int) lengthof(forms) && forms[i].op != op)
		i++;
	*policy = DV_NEVER;
	if (i == (int) lengthof(forms) || !are_alike(a, b) ||
		w.shipping->relation->type != DV_TABLE_STANDARD ||
		collation_of(w.shipping, inputcollid) == DV_COLLATION_OTHER ||
		!allowed(w, b, cmp, forms[i].of_columns, &policy_of_second) ||
		!allowed(w, a, cmp, forms[i].of_columns, policy) ||
		!take_conditions(w.shipping, *policy, 3, bytes_around(a, 2) + bytes_around(b, 2)))
	{
		*policy = DV_NEVER;
		return NIL;
	}
	*policy = Min(*policy, policy_of_second);
	return list_make4(makeInteger(forms[i].of_columns),
					  makeInteger(forms[i].swapped ? second : first),
					  makeInteger(forms[i].swapped ? first : second),
					  makeInteger(flags_of(cmp, *policy)));
}

/*
 * ctid = value.  The session knows whose ctid it is, so the service can be asked
 * for that row.  It is checked here which row has come: elsewhere, a ctid that is
 * not that of any row is no error.
 */
static List *
ship_tid(walk w, Node *value, dv_policy *policy)
{
	List	   *condition;
	AttrNumber	id;
	AttrNumber	partition;

	dv_resultrel_keys(w.shipping->relation, &id, &partition);
	w.negate = false;
	condition = type_is_array(exprType(value)) ?
		ship_in(w, id, DV_OP_IN, value, InvalidOid, policy) :
		comparison(w, id, DV_OP_EQ, value, InvalidOid, policy);
	if (condition == NIL)
		return NIL;
	*policy = DV_SUPERSET;
	lfourth(condition) = makeInteger(dv_condition_flags(condition) & ~DV_CONDITION_EXACT);
	return condition;
}

/* Ships an operator or function with two arguments, one of which is a column. */
static List *
ship_pair(walk w, const dv_operator *m, List *args, Oid inputcollid, dv_policy *policy)
{
	AttrNumber	first = list_length(args) == 2 ? column_of(w.shipping, linitial(args)) : 0;
	AttrNumber	second = list_length(args) == 2 ? column_of(w.shipping, lsecond(args)) : 0;
	int			side;

	if (first != 0 && second != 0 && !m->negated)
		return ship_columns(w, m->op, first, second, inputcollid, policy);
	for (side = 0; side < 2 && m->op == (w.negate ? DV_OP_NE : DV_OP_EQ); side++)
		if (dv_is_tid(list_nth(args, side), w.shipping->relid))
			return ship_tid(w, list_nth(args, 1 - side), policy);
	for (side = 0; side < 2 && list_length(args) == 2; side++)
	{
		dv_op		op = side == 0 ? m->op : m->mirrored;
		AttrNumber	attnum = op == DV_OP_OTHER ? 0 : column_of(w.shipping, list_nth(args, side));

		if (attnum == 0)
			continue;
		w.negate = w.negate != m->negated;
		return comparison(w, attnum, op, list_nth(args, 1 - side), inputcollid, policy);
	}
	return NIL;
}

static List *
ship_op(walk w, Node *node, dv_policy *policy)
{
	OpExpr	   *expr = (OpExpr *) node;

	return ship_pair(w, dv_operator_of(expr->opno), expr->args, expr->inputcollid, policy);
}

static List *
ship_function(walk w, Node *node, dv_policy *policy)
{
	FuncExpr   *expr = (FuncExpr *) node;

	return ship_pair(w, dv_operator_of_function(expr->funcid), expr->args, expr->inputcollid, policy);
}

static List *
ship_distinct(walk w, Node *node, dv_policy *policy)
{
	static const dv_operator distinct = {DV_OP_DISTINCT, DV_OP_DISTINCT, false};
	DistinctExpr *expr = (DistinctExpr *) node;

	if (dv_operator_of(expr->opno)->op != DV_OP_EQ)
		return NIL;
	return ship_pair(w, &distinct, expr->args, expr->inputcollid, policy);
}

/* Returns the length of a list, or -1 if it is only known at execution. */
static int
length_of(Node *array)
{
	if (IsA(array, ArrayExpr))
		return list_length(((ArrayExpr *) array)->elements);
	if (!IsA(array, Const))
		return -1;
	if (((Const *) array)->constisnull)
		return 0;
	return ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(((Const *) array)->constvalue)),
						  ARR_DIMS(DatumGetArrayTypeP(((Const *) array)->constvalue)));
}

/*
 * No row may be returned by two requests.  If the service distinguishes values
 * as PostgreSQL does, distinct values guarantee that; text is checked again
 * when it arrives (fdw/scan/scan.c), unless it may be cut before.
 */
static bool
can_be_split(const dv_shipping *shipping, const dv_attribute *attribute, dv_comparison cmp,
			 dv_policy policy)
{
	return policy == DV_EXACT ||
		(cmp == DV_COMPARE_TEXT && shipping->relation->type != DV_TABLE_VIRTUAL &&
		 !attribute->cut);
}

/*
 * column IN (…).  A list that may be long is split over several requests.
 * Only one list of a query can be split, and only if it restricts all rows.
 * Any other list is not sent if it turns out to be too long, so it has to be
 * checked here.  NOT IN cannot be split.
 */
static List *
ship_in(walk w, AttrNumber attnum, dv_op op, Node *array, Oid inputcollid, dv_policy *policy)
{
	dv_shipping *shipping = w.shipping;
	const dv_attribute *attribute = dv_relation_attribute(shipping->relation, attnum);
	dv_collation collation = collation_of(shipping, inputcollid);
	dv_comparison cmp = comparison_of(attribute, collation);
	int			n = length_of(array);
	bool		small = n >= 0 && n <= DV_SMALL_IN;
	int			conditions = small ? n : LISTED_CONDITIONS;
	int			flags = 0;

	if (w.negate)
		op = dv_op_opposite(op);
	if (collation == DV_COLLATION_OTHER || !is_value(shipping, array) ||
		!type_fits(attribute, cmp, get_element_type(exprType(array))) ||
		!allowed(w, attribute, cmp, op, policy) || (op == DV_OP_NOT_IN && !small))
	{
		*policy = DV_NEVER;
		return NIL;
	}

	/*
	 * A session may have to do without In.  Under dataverse.ci_ai, only the start of some values
	 * is sent, each on its own.
	 */
	if (!dv_odata_has_in(&attribute->column, attribute->max_length) || cmp == DV_COMPARE_TEXT_CI_AI)
		conditions *= conditions_of(cmp, DV_OP_EQ);
	if (!take_conditions(shipping, *policy, conditions + 2,
						 small ? bytes_of_list(array, n) + bytes_around(attribute, n + 2) :
						 CHUNK_BYTES))
	{
		*policy = DV_NEVER;
		return NIL;
	}
	if (!small && w.top && !shipping->long_in && can_be_split(shipping, attribute, cmp, *policy))
	{
		shipping->long_in = true;
		flags = DV_CONDITION_LONG;
	}
	else if (!small)
		*policy = DV_SUPERSET;
	flags |= flags_of(cmp, *policy);
	return list_make4(makeInteger(op), makeInteger(attnum),
					  makeInteger(add_value(shipping, array)), makeInteger(flags));
}

static List *
ship_array(walk w, Node *node, dv_policy *policy)
{
	ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) node;
	dv_op		op = dv_operator_of(expr->opno)->op;
	AttrNumber	attnum = column_of(w.shipping, linitial(expr->args));

	if (dv_is_tid(linitial(expr->args), w.shipping->relid) &&
		op == (w.negate ? DV_OP_NE : DV_OP_EQ) && expr->useOr != w.negate)
		return ship_tid(w, lsecond(expr->args), policy);
	if (attnum != 0 && (op == DV_OP_EQ) == expr->useOr && (op == DV_OP_EQ || op == DV_OP_NE))
		return ship_in(w, attnum, op == DV_OP_EQ ? DV_OP_IN : DV_OP_NOT_IN, lsecond(expr->args),
					   expr->inputcollid, policy);
	/* value = ANY (column) */
	attnum = column_of(w.shipping, lsecond(expr->args));
	if (attnum != 0 && op == DV_OP_EQ && expr->useOr)
		return comparison(w, attnum, DV_OP_CONTAINS, linitial(expr->args), expr->inputcollid,
						  policy);
	return NIL;
}

static List *
ship_null_test(walk w, Node *node, dv_policy *policy)
{
	NullTest   *test = (NullTest *) node;
	AttrNumber	attnum = column_of(w.shipping, (Node *) test->arg);

	if (attnum == 0 || test->argisrow)
		return NIL;
	return null_test(w, attnum, test->nulltesttype == IS_NULL ? DV_OP_NULL : DV_OP_NOT_NULL,
					 policy);
}

static List *
ship_boolean_test(walk w, Node *node, dv_policy *policy)
{
	static const struct
	{
		dv_op		op;
		bool		value;
	}			tests[] =
	{
		[IS_TRUE] = {DV_OP_NOT_DISTINCT, true},
		[IS_NOT_TRUE] = {DV_OP_DISTINCT, true},
		[IS_FALSE] = {DV_OP_NOT_DISTINCT, false},
		[IS_NOT_FALSE] = {DV_OP_DISTINCT, false},
		[IS_UNKNOWN] = {DV_OP_NULL, false},
		[IS_NOT_UNKNOWN] = {DV_OP_NOT_NULL, false},
	};
	BooleanTest *test = (BooleanTest *) node;
	AttrNumber	attnum = column_of(w.shipping, (Node *) test->arg);
	dv_op		op = tests[test->booltesttype].op;

	if (attnum == 0)
	{
		/* a row is kept if the condition is true, so IS TRUE adds nothing */
		if (test->booltesttype == IS_TRUE && !w.negate)
			return ship_node(w, (Node *) test->arg, policy);
		return NIL;
	}
	if (op == DV_OP_NULL || op == DV_OP_NOT_NULL)
		return null_test(w, attnum, op, policy);
	return comparison(w, attnum, op, makeBoolConst(tests[test->booltesttype].value, false),
					  InvalidOid, policy);
}

/* A boolean column as a condition. */
static List *
ship_var(walk w, Node *node, dv_policy *policy)
{
	AttrNumber	attnum = column_of(w.shipping, node);

	if (attnum == 0 || dv_relation_attribute(w.shipping->relation, attnum)->pgtype != BOOLOID)
		return NIL;
	return comparison(w, attnum, DV_OP_EQ, makeBoolConst(true, false), InvalidOid, policy);
}

/*
 * Ships all parts of an OR or none, and those parts of an AND that can be
 * shipped.  Under NOT, AND and OR are exchanged.
 */
static List *
ship_parts(walk w, List *args, bool is_and, dv_policy *policy)
{
	dv_shipping *shipping = w.shipping;
	int			nvalues = list_length(shipping->values);
	int			conditions = shipping->conditions;
	size_t		bytes = shipping->bytes;
	List	   *parts = list_make1(makeInteger(is_and ? DV_OP_AND : DV_OP_OR));
	ListCell   *lc;

	*policy = DV_EXACT;
	w.top = w.top && is_and;
	w.depth++;
	foreach(lc, args)
	{
		dv_policy	part_policy;
		List	   *part = ship_node(w, lfirst(lc), &part_policy);

		if (part == NIL && !is_and)
		{
			shipping->values = list_truncate(shipping->values, nvalues);
			shipping->conditions = conditions;
			shipping->bytes = bytes;
			*policy = DV_NEVER;
			return NIL;
		}
		*policy = Min(*policy, part == NIL ? DV_SUPERSET : part_policy);
		if (part != NIL)
			parts = lappend(parts, part);
	}
	if (list_length(parts) > 2)
		return parts;
	if (list_length(parts) == 2)
		return lsecond(parts);
	*policy = DV_NEVER;
	return NIL;
}

static List *
ship_bool(walk w, Node *node, dv_policy *policy)
{
	BoolExpr   *expr = (BoolExpr *) node;

	if (expr->boolop == NOT_EXPR)
	{
		w.negate = !w.negate;
		return ship_node(w, linitial(expr->args), policy);
	}
	return ship_parts(w, expr->args, (expr->boolop == AND_EXPR) != w.negate, policy);
}

static List *
ship_node(walk w, Node *node, dv_policy *policy)
{
	static const struct
	{
		NodeTag		tag;
		List	   *(*ship) (walk w, Node *node, dv_policy *policy);
	}			kinds[] =
	{
		{T_BoolExpr, ship_bool},
		{T_OpExpr, ship_op},
		{T_ScalarArrayOpExpr, ship_array},
		{T_NullTest, ship_null_test},
		{T_BooleanTest, ship_boolean_test},
		{T_DistinctExpr, ship_distinct},
		{T_FuncExpr, ship_function},
		{T_Var, ship_var},
	};
	int			nvalues = list_length(w.shipping->values);
	int			conditions = w.shipping->conditions;
	size_t		bytes = w.shipping->bytes;
	List	   *condition = NIL;
	int			i;

	*policy = DV_NEVER;
	for (i = 0; i < (int) lengthof(kinds) && w.depth <= MAX_DEPTH; i++)
		if (nodeTag(node) == kinds[i].tag)
			condition = kinds[i].ship(w, node, policy);
	if (condition == NIL)
	{
		w.shipping->values = list_truncate(w.shipping->values, nvalues);
		w.shipping->conditions = conditions;
		w.shipping->bytes = bytes;
		*policy = DV_NEVER;
	}
	return condition;
}

List *
dv_ship(dv_shipping *shipping, Expr *clause, dv_policy *policy)
{
	walk		w = {shipping, false, true, 0};

	return ship_node(w, (Node *) clause, policy);
}

/*
 * Other questions
 */

AttrNumber
dv_ship_order(const dv_shipping *shipping, Expr *expr)
{
	AttrNumber	attnum;

	if (!IsA(expr, Var))
		return 0;
	attnum = column_of(shipping, (Node *) expr);
	return attnum != 0 && dv_ship_policy(shipping, attnum, DV_OP_ORDER) == DV_EXACT ? attnum : 0;
}

/* Is this an amount in a currency of its own, rather than in that of the environment? */
static bool
has_currency(const dv_column *column)
{
	size_t		len = strlen(column->name);

	return column->type == DV_TYPE_MONEY &&
		(len < strlen("_base") || strcmp(column->name + len - strlen("_base"), "_base") != 0);
}

dv_policy
dv_ship_policy(const dv_shipping *shipping, AttrNumber attnum, dv_op op)
{
	const dv_attribute *attribute = dv_relation_attribute(shipping->relation, attnum);

	/* in place of such amounts, the service adds up what they are in the base currency */
	if (op > DV_OP_ORDER && has_currency(&attribute->column))
		return DV_NEVER;
	return policy_of(shipping, attribute, comparison_of(attribute, DV_COLLATION_BYTES), op);
}
