/*-------------------------------------------------------------------------
 *
 * operator_list.h
 *		What SQL asks of columns: a line for each operator, with its opposite,
 *		the kind of filter that it becomes, and whether the service may answer
 *		it in PostgreSQL's place.
 *
 * The policy has a letter for each way in which columns are compared.
 * E, exact: the service gives exactly the rows that PostgreSQL would; nothing
 * is checked again, and LIMIT, order and COUNT may go along.
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
 * There is deliberately no #ifndef here: whoever includes this file defines
 * DV_OPERATOR() first, and it is undefined at the end.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */

/*
 * policy for each dv_comparison (id, text, text_ci_ai, number, double, boolean,
 * choice, choices, time, date, label, table_name, opaque), symbol, opposite,
 * and the kind of filter that shows it while its value is not known
 */
DV_OPERATOR("E S E E S E E . E E . . .", EQ, NE, DV_EQ)
DV_OPERATOR("E . E E S E E . E E . . .", NE, EQ, DV_NE)
DV_OPERATOR(". . . E S . . . E E . . .", LT, GE, DV_LT)
DV_OPERATOR(". . . E S . . . E E . . .", LE, GT, DV_LE)
DV_OPERATOR(". . . E S . . . E E . . .", GT, LE, DV_GT)
DV_OPERATOR(". . . E S . . . E E . . .", GE, LT, DV_GE)
DV_OPERATOR("E S E E S E E . E E . . .", IN, NOT_IN, DV_IN)
DV_OPERATOR("E . E E S E E . E E . . .", NOT_IN, IN, DV_NOT_IN)
DV_OPERATOR("E . E E . E E . E E . . .", DISTINCT, NOT_DISTINCT, DV_NE)
DV_OPERATOR("E S E E S E E . E E . . .", NOT_DISTINCT, DISTINCT, DV_EQ)
DV_OPERATOR("E E E E E E E E E E . E .", NULL, NOT_NULL, DV_IS_NULL)
DV_OPERATOR("E E E E E E E E E E S E .", NOT_NULL, NULL, DV_IS_NOT_NULL)
DV_OPERATOR(". S . . . . . . . . . . .", LIKE, OTHER, DV_CONTAINS)
DV_OPERATOR(". S . . . . . . . . . . .", ILIKE, OTHER, DV_CONTAINS)
DV_OPERATOR(". S . . . . . . . . . . .", STARTS, OTHER, DV_STARTS_WITH)
DV_OPERATOR(". . . . . . . S . . . . .", OVERLAPS, OTHER, DV_CONTAIN_VALUES)
DV_OPERATOR(". . . . . . . S . . . . .", CONTAINS, OTHER, DV_CONTAIN_VALUES)
DV_OPERATOR(". . . E E . . . E E . . .", ORDER, OTHER, DV_TRUE)

#undef DV_OPERATOR
