/*
 * condition.c
 *		The implications of conditions.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fdw/condition.h"

bool
dv_condition_guards(List *condition, AttrNumber attnum)
{
	dv_op		op = dv_condition_op(condition);
	int			i;

	if (op == DV_OP_AND || op == DV_OP_OR)
	{
		for (i = 1; i < list_length(condition); i++)
			if (dv_condition_guards(list_nth(condition, i), attnum) == (op == DV_OP_AND))
				return op == DV_OP_AND;
		return op == DV_OP_OR;
	}
	if (dv_condition_compares_columns(condition) && dv_condition_other(condition) == attnum)
		return true;
	/* NOT IN () is true for NULL, too */
	return dv_condition_attnum(condition) == attnum && op != DV_OP_NULL && op != DV_OP_DISTINCT &&
		op != DV_OP_NOT_DISTINCT && op != DV_OP_NOT_IN;
}

/*
 * Finds equalities of the column that hold for every row: those that compare bytes, and others.
 */
static void
find_equalities(List *condition, AttrNumber attnum, bool *bytes, bool *others)
{
	int			i;

	if (dv_condition_op(condition) == DV_OP_EQ && dv_condition_attnum(condition) == attnum)
	{
		if (dv_condition_flags(condition) & DV_CONDITION_CI_AI)
			*others = true;
		else
			*bytes = true;
	}
	for (i = 1; dv_condition_op(condition) == DV_OP_AND && i < list_length(condition); i++)
		find_equalities(list_nth(condition, i), attnum, bytes, others);
}

bool
dv_condition_fixes_text(List *condition, AttrNumber attnum)
{
	bool		bytes = false;
	bool		others = false;

	find_equalities(condition, attnum, &bytes, &others);
	/* later code could not tell which of the two is meant */
	return bytes && !others;
}

bool
dv_condition_has_columns(List *condition)
{
	dv_op		op = dv_condition_op(condition);
	int			i;

	for (i = 1; (op == DV_OP_AND || op == DV_OP_OR) && i < list_length(condition); i++)
		if (dv_condition_has_columns(list_nth(condition, i)))
			return true;
	return dv_condition_compares_columns(condition);
}

List *
dv_condition_all(const List *conditions)
{
	if (list_length(conditions) > 1)
		return lcons(makeInteger(DV_OP_AND), list_copy(conditions));
	return conditions == NIL ? NIL : linitial(conditions);
}
