/*
 * operator.c
 *		The meaning of PostgreSQL's operators and functions.
 *
 * The meaning of an operator comes from the operator classes.  PostgreSQL's own
 * classes agree about its own operators; other operators can have any meaning.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "fdw/operator.h"

/* Operators of operator classes, for any types. */
static const dv_operator comparisons[] = {
	[DV_INTERPRETED_LT] = {.op = DV_OP_LT, .mirrored = DV_OP_GT},
	[DV_INTERPRETED_LE] = {.op = DV_OP_LE, .mirrored = DV_OP_GE},
	[DV_INTERPRETED_EQ] = {.op = DV_OP_EQ, .mirrored = DV_OP_EQ},
	[DV_INTERPRETED_GE] = {.op = DV_OP_GE, .mirrored = DV_OP_LE},
	[DV_INTERPRETED_GT] = {.op = DV_OP_GT, .mirrored = DV_OP_LT},
	[DV_INTERPRETED_NE] = {.op = DV_OP_NE, .mirrored = DV_OP_NE},
};

/* Other operators, by their functions, which can also be called by name. */
static const struct
{
	Oid			function;
	dv_operator is;
}			functions[] =

{
	{F_TEXTLIKE, {DV_OP_LIKE, DV_OP_OTHER, false}},
	{F_TEXTNLIKE, {DV_OP_LIKE, DV_OP_OTHER, true}},
	{F_TEXTICLIKE, {DV_OP_ILIKE, DV_OP_OTHER, false}},
	{F_TEXTICNLIKE, {DV_OP_ILIKE, DV_OP_OTHER, true}},
	{F_STARTS_WITH, {DV_OP_STARTS, DV_OP_OTHER, false}},
	{F_ARRAYOVERLAP, {DV_OP_OVERLAPS, DV_OP_OVERLAPS, false}},
	{F_ARRAYCONTAINS, {DV_OP_CONTAINS, DV_OP_OTHER, false}},
	{F_ARRAYCONTAINED, {DV_OP_OTHER, DV_OP_CONTAINS, false}},
};

static const dv_operator nothing_known = {DV_OP_OTHER, DV_OP_OTHER, false};

const dv_operator *
dv_operator_of_function(Oid function)
{
	int			i;

	for (i = 0; i < (int) lengthof(functions); i++)
		if (functions[i].function == function)
			return &functions[i].is;
	return &nothing_known;
}

const dv_operator *
dv_operator_of(Oid opno)
{
	List	   *interpretations = opno < FirstGenbkiObjectId ? dv_op_interpretations(opno) : NIL;
	int			strategy = interpretations == NIL ? 0 :
	dv_interpretation_of(list_head(interpretations));

	if (strategy > 0 && strategy < (int) lengthof(comparisons))
		return &comparisons[strategy];
	return dv_operator_of_function(get_opcode(opno));
}
