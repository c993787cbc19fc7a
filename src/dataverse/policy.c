/*
 * policy.c
 *		Which predicates the service may answer in PostgreSQL's place.
 *
 * One table.  E, exact: the service gives exactly the rows that PostgreSQL
 * would; nothing is checked again, and LIMIT, order and COUNT may go along.
 * S, superset: it gives at least these; what comes is checked again here.
 * A dot, never: it could keep rows back, which no check here would bring back.
 *
 * Why the entries are what they are:
 *
 * - Text.  The service ignores case, accents and trailing blanks.  So what is
 *	 equal byte by byte is equal there, and more is: equality and LIKE are
 *	 supersets.  What is different there is different here, but not the other
 *	 way round: everything negative is a subset, never.  Its order is another
 *	 one: no ranges, no ORDER BY.  A column with the collation dataverse.ci_ai
 *	 says that the service's idea of equality is the wanted one.
 * - NULL.  The service's negative operators are true for NULL.  What writes
 *	 them (fdw/bind.c) adds "is not null", so NE and NOT IN are exact.
 * - Ids have another order there (the last six bytes first), and lookups are
 *	 ordered by names: no ranges, no ORDER BY.
 * - Numbers are decimals all the way.  Doubles are not: what is shown may be
 *	 rounded, so their filters are wider than asked for, and equality too.
 * - Booleans and choices may be ordered by their labels: no ORDER BY.  The
 *	 service documents no ranges for choices.
 * - Multi-select choices are compared as whole texts or by ContainValues,
 *	 which knows sets as && does.
 * - Dates and times have whole seconds and are compared so that it does not
 *	 matter whether hidden fractions are kept (fdw/bind.c).
 * - Labels depend on the user's language: never.  What has a label is not
 *	 null, however.
 * - The table that a polymorphic lookup points to cannot be asked for, only
 *	 whether it points at all.
 *
 * Elastic tables show fractions of seconds and order by one column only;
 * providers of virtual tables ignore what they please: dv_policy_of() makes
 * the entries weaker for these.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>

#include "dataverse/policy.h"

/*
 * EQ NE LT LE GT GE  IN NOT_IN  DISTINCT NOT_DISTINCT  NULL NOT_NULL
 * LIKE ILIKE STARTS  OVERLAPS CONTAINS  ORDER
 */
static const char *const policies[DV_COMPARISONS] = {
	[DV_COMPARE_ID] = "EE...." "EE" "EE" "EE" "..." ".." ".",
	[DV_COMPARE_TEXT] = "S....." "S." ".S" "EE" "SSS" ".." ".",
	[DV_COMPARE_TEXT_CI_AI] = "EE...." "EE" "EE" "EE" "..." ".." ".",
	[DV_COMPARE_NUMBER] = "EEEEEE" "EE" "EE" "EE" "..." ".." "E",
	[DV_COMPARE_DOUBLE] = "SSSSSS" "SS" ".S" "EE" "..." ".." "E",
	[DV_COMPARE_BOOLEAN] = "EE...." "EE" "EE" "EE" "..." ".." ".",
	[DV_COMPARE_CHOICE] = "EE...." "EE" "EE" "EE" "..." ".." ".",
	[DV_COMPARE_CHOICES] = "......" ".." ".." "EE" "..." "SS" ".",
	[DV_COMPARE_TIME] = "EEEEEE" "EE" "EE" "EE" "..." ".." "E",
	[DV_COMPARE_DATE] = "EEEEEE" "EE" "EE" "EE" "..." ".." "E",
	[DV_COMPARE_LABEL] = "......" ".." ".." ".S" "..." ".." ".",
	[DV_COMPARE_TABLE_NAME] = "......" ".." ".." "EE" "..." ".." ".",
	[DV_COMPARE_OPAQUE] = "......" ".." ".." ".." "..." ".." ".",
};

static const dv_comparison sorts[DV_TYPES] = {
	[DV_TYPE_OTHER] = DV_COMPARE_OPAQUE,
	[DV_TYPE_UNIQUEIDENTIFIER] = DV_COMPARE_ID,
	[DV_TYPE_STRING] = DV_COMPARE_TEXT,
	[DV_TYPE_MEMO] = DV_COMPARE_TEXT,
	[DV_TYPE_INTEGER] = DV_COMPARE_NUMBER,
	[DV_TYPE_BIGINT] = DV_COMPARE_NUMBER,
	[DV_TYPE_DECIMAL] = DV_COMPARE_NUMBER,
	[DV_TYPE_MONEY] = DV_COMPARE_NUMBER,
	[DV_TYPE_DOUBLE] = DV_COMPARE_DOUBLE,
	[DV_TYPE_BOOLEAN] = DV_COMPARE_BOOLEAN,
	[DV_TYPE_CHOICE] = DV_COMPARE_CHOICE,
	[DV_TYPE_STATE] = DV_COMPARE_CHOICE,
	[DV_TYPE_STATUS] = DV_COMPARE_CHOICE,
	[DV_TYPE_CHOICES] = DV_COMPARE_CHOICES,
	[DV_TYPE_DATETIME] = DV_COMPARE_TIME,
	[DV_TYPE_DATETIME_INDEPENDENT] = DV_COMPARE_TIME,
	[DV_TYPE_DATE] = DV_COMPARE_DATE,
	[DV_TYPE_LOOKUP] = DV_COMPARE_ID,
	[DV_TYPE_CUSTOMER] = DV_COMPARE_ID,
	[DV_TYPE_OWNER] = DV_COMPARE_ID,
	/* names of tables: text, but LIKE is for strings and memos only; nobody asks */
	[DV_TYPE_ENTITYNAME] = DV_COMPARE_TEXT,
	/* the Web API has no filters for these */
	[DV_TYPE_IMAGE] = DV_COMPARE_OPAQUE,
	[DV_TYPE_FILE] = DV_COMPARE_OPAQUE,
	[DV_TYPE_MANAGED] = DV_COMPARE_OPAQUE,
};

static const char *const sort_names[DV_COMPARISONS] = {
	"id", "text", "text_ci_ai", "number", "double", "boolean", "choice",
	"choices", "time", "date", "label", "table_name", "opaque"
};

static const char *const op_names[DV_OPS] = {
	"EQ", "NE", "LT", "LE", "GT", "GE", "IN", "NOT_IN", "DISTINCT", "NOT_DISTINCT", "NULL",
	"NOT_NULL", "LIKE", "ILIKE", "STARTS", "OVERLAPS", "CONTAINS", "ORDER"
};

#ifdef DV_TEST
static int	flipped_sort = -1;
static int	flipped_op = -1;

void
dv_policy_flip(int sort, int op)
{
	flipped_sort = sort;
	flipped_op = op;
}
#endif

dv_comparison
dv_comparison_of(dv_type type, dv_collation collation)
{
	dv_comparison sort = sorts[type];

	if (sort == DV_COMPARE_TEXT && collation == DV_COLLATION_CI_AI)
		return DV_COMPARE_TEXT_CI_AI;
	return sort;
}

static dv_policy
look_up(dv_comparison sort, dv_op op)
{
	char		entry = policies[sort][op];

#ifdef DV_TEST
	/* wrong on purpose: what must be checked again is not, what must stay here goes */
	if ((int) sort == flipped_sort && (int) op == flipped_op)
		return DV_EXACT;
#endif
	return entry == 'E' ? DV_EXACT : entry == 'S' ? DV_SUPERSET : DV_NEVER;
}

/* Of standard tables all holds; others do less. */
dv_policy
dv_policy_of(dv_table_type table, dv_comparison sort, dv_op op)
{
	dv_policy	policy;

	if ((int) op >= DV_OPS)
		return DV_NEVER;
	policy = look_up(sort, op);
	if (table == DV_TABLE_STANDARD || table == DV_TABLE_INTERSECT || policy == DV_NEVER)
		return policy;
	if (op == DV_OP_ORDER)
		return DV_NEVER;
	if (table == DV_TABLE_VIRTUAL)
		return DV_SUPERSET;
	/* elastic: an IS DISTINCT FROM of a time with a fraction cannot be made wider */
	if (sort == DV_COMPARE_TIME && op != DV_OP_NULL && op != DV_OP_NOT_NULL)
		return op == DV_OP_DISTINCT ? DV_NEVER : DV_SUPERSET;
	return policy;
}

const char *
dv_comparison_name(dv_comparison sort)
{
	return sort_names[sort];
}

const char *
dv_op_name(dv_op op)
{
	return (int) op < DV_OPS ? op_names[op] : "?";
}
