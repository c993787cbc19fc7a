/*
 * operator_list.h
 *		The operators that SQL applies to columns, one line for each, with its
 *		opposite, the kind of filter that it becomes, and whether the service
 *		may evaluate it in place of PostgreSQL.
 *
 * The policy has a letter for each way in which columns are compared.  E, exact:
 * the service returns exactly the rows that PostgreSQL would; nothing is rechecked,
 * and LIMIT, ORDER BY, and COUNT can be pushed down, too.  S, superset: the service
 * returns at least these rows; PostgreSQL rechecks them.  A dot, never: the service
 * could omit rows, and no recheck could restore them.
 *
 * The reasons for the entries:
 *
 * - Text.  The service ignores case, accents, and trailing blanks.  Values that
 *   are equal byte by byte are equal for the service, but so are others: equality
 *   and LIKE return supersets.  Values that differ for the service differ for
 *   PostgreSQL, but not the other way round: negative operators return subsets,
 *   hence never.  The service orders text differently: no ranges, no ORDER BY.
 * - Text compared under dataverse.ci_ai.  PostgreSQL's equality ignores case and
 *   accents as the service's does, but it comes from ICU, and the service's from a
 *   collation of SQL Server that its language determines (English:
 *   Latin1_General_CI_AI).  The two differ: SQL Server ignores trailing blanks and
 *   all characters that it does not know; ICU considers a no-break space equal to a
 *   space, and three dots equal to U+2026, and ignores control characters.  So
 *   equality is a superset, and only for values whose characters have the same
 *   equals on both sides; of other values only the start is sent (fdw/scan/bind.c).
 * - NULL.  The service's negative operators are true for NULL.  The code that
 *   builds such filters (fdw/scan/bind.c) adds "is not null", so NE and NOT IN are
 *   exact.
 * - Ids are ordered differently by the service (the last six bytes first), and
 *   lookups are ordered by names: no ranges, no ORDER BY.
 * - Numbers are exact decimals.  Doubles are not: the values shown may be
 *   rounded, so their filters, including equality, are wider than the condition.
 * - Booleans and choices may be ordered by their labels: no ORDER BY.  The
 *   service documents no ranges for choices.
 * - Multi-select choices are compared as whole texts or by ContainValues, which
 *   treats them as sets like &&.  It reads a full-text index that lags behind the
 *   rows; code that builds filters (fdw/scan/bind.c) uses it only if this is
 *   accepted.
 * - Dates and times have whole seconds, and are compared in a way that does not
 *   depend on whether hidden fractions are kept (fdw/scan/bind.c).
 * - Two columns of times may differ only by fractions of a second, which the
 *   service compares but does not show: values that are equal for PostgreSQL need
 *   not be equal for the service.  Doubles may be rounded when they are shown.
 * - Labels depend on the user's language: never.  However, a value that has a
 *   label is not null.
 * - The service cannot be asked which table a polymorphic lookup refers to, only
 *   whether it refers to a row at all.
 * - Groups (GROUP BY, DISTINCT) need the service's equality: not that of text,
 *   nor of doubles, which may be rounded when they are shown.  It does not group by
 *   points in time, only by their year, month, and day in UTC (PERIOD); the groups
 *   of a date are made of these.
 * - Sums are exact for decimals.  The service documents neither sums nor extremes
 *   (min and max) of booleans, choices, ids, and lookups.
 * - Only ids are joined: the service and PostgreSQL agree on the equality of two
 *   columns of ids.
 *
 * Elastic tables show fractions of seconds and can order by one column only,
 * and the providers of virtual tables may ignore parts of a query.
 * dv_policy_of() weakens the entries for these.
 *
 * This file has no include guard: a file that includes it defines DV_OPERATOR()
 * first, which is undefined at the end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */

/*
 * policy for each dv_comparison (id, text, text_ci_ai, number, double, boolean,
 * choice, choices, time, date, label, table_name, opaque), symbol, opposite,
 * and the kind of filter that EXPLAIN shows while its value is not known
 */
DV_OPERATOR("E S S E S E E . E E . . .", EQ, NE, DV_EQ)
DV_OPERATOR("E . . E S E E . E E . . .", NE, EQ, DV_NE)
DV_OPERATOR(". . . E S . . . E E . . .", LT, GE, DV_LT)
DV_OPERATOR(". . . E S . . . E E . . .", LE, GT, DV_LE)
DV_OPERATOR(". . . E S . . . E E . . .", GT, LE, DV_GT)
DV_OPERATOR(". . . E S . . . E E . . .", GE, LT, DV_GE)
DV_OPERATOR("E S S E S E E . E E . . .", IN, NOT_IN, DV_IN)
DV_OPERATOR("E . . E S E E . E E . . .", NOT_IN, IN, DV_NOT_IN)
DV_OPERATOR("E . . E . E E . E E . . .", DISTINCT, NOT_DISTINCT, DV_NE)
DV_OPERATOR("E S S E S E E . E E . . .", NOT_DISTINCT, DISTINCT, DV_EQ)
DV_OPERATOR("E E E E E E E E E E . E .", NULL, NOT_NULL, DV_IS_NULL)
DV_OPERATOR("E E E E E E E E E E S E .", NOT_NULL, NULL, DV_IS_NOT_NULL)
DV_OPERATOR(". S . . . . . . . . . . .", LIKE, OTHER, DV_CONTAINS)
DV_OPERATOR(". S . . . . . . . . . . .", ILIKE, OTHER, DV_CONTAINS)
DV_OPERATOR(". S . . . . . . . . . . .", STARTS, OTHER, DV_STARTS_WITH)
DV_OPERATOR(". . . . . . . S . . . . .", OVERLAPS, OTHER, DV_CONTAIN_VALUES)
DV_OPERATOR(". . . . . . . S . . . . .", CONTAINS, OTHER, DV_CONTAIN_VALUES)
/* of two columns of the same type; the greater one may be the first or the second */
DV_OPERATOR("E S . E . E E . . E . . .", COLUMNS_EQ, OTHER, DV_EQ)
DV_OPERATOR("E . . E . E E . S E . . .", COLUMNS_NE, OTHER, DV_NE)
DV_OPERATOR(". . . E . . . . S E . . .", COLUMNS_LT, OTHER, DV_LT)
DV_OPERATOR(". . . E . . . . . E . . .", COLUMNS_LE, OTHER, DV_LE)
/* the rest are not conditions, but operations on the values of many rows */
DV_OPERATOR(". . . E E . . . E E . . .", ORDER, OTHER, DV_TRUE)
DV_OPERATOR("E . . E . E E . . E . . .", GROUP, OTHER, DV_TRUE)
DV_OPERATOR(". . . . . . . . E E . . .", PERIOD, OTHER, DV_TRUE)
DV_OPERATOR("E . . E . E E . . E . . .", COUNT_DISTINCT, OTHER, DV_TRUE)
DV_OPERATOR(". . . E . . . . . . . . .", SUM, OTHER, DV_TRUE)
DV_OPERATOR(". . . E . . . . E E . . .", EXTREME, OTHER, DV_TRUE)
DV_OPERATOR("E . . . . . . . . . . . .", JOIN, OTHER, DV_TRUE)

#undef DV_OPERATOR
