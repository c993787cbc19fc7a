/*-------------------------------------------------------------------------
 *
 * result_relation.h
 *		Tables that a statement changes: the columns that identify their rows,
 *		and precautions when they are read.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_RESULT_RELATION_H
#define DV_RESULT_RELATION_H

#include "foreign/fdwapi.h"
#include "nodes/pathnodes.h"

#include "fdw/relation.h"

/* Names of the junk columns that the subplan of UPDATE and DELETE returns. */
#define DV_JUNK_ID "dataverse_id"
#define DV_JUNK_PARTITION "dataverse_partition"
/* if versions are matched */
#define DV_JUNK_VERSION "dataverse_version"
/* for intersect tables: the two ids that a row consists of */
#define DV_JUNK_FIRST "dataverse_first"
#define DV_JUNK_SECOND "dataverse_second"
/* the needed columns of the row; always for UPDATE, for triggers and RETURNING with DELETE */
#define DV_JUNK_ROW "wholerow"

/*
 * The columns that identify a row; 0 if the foreign table does not have them.
 * "partition" is also 0 if rows of the table have no partition.
 */
extern void dv_resultrel_keys(const dv_relation *relation, AttrNumber *id, AttrNumber *partition);

/*
 * The column with the version that a row must still have when it is written, or
 * 0 if versions are not matched, which depends on an option and its setting.
 * Raises an error if they should be, but cannot.
 */
extern AttrNumber dv_resultrel_version(const dv_relation *relation);

/* The columns of the two ids of an intersect table's rows; either both are set or neither. */
extern void dv_resultrel_pair(const dv_relation *relation, AttrNumber *first, AttrNumber *second);

/*
 * The position of a junk column in the target list of the subplan, or 0.
 * "attnum" is the column's number in the foreign table.
 */
extern AttrNumber dv_resultrel_junk(List *targetlist, const char *name, AttrNumber attnum);

/*
 * Does the statement also write the table that is read here, possibly through
 * another foreign table?  Then all its rows must be read first.
 */
extern bool dv_resultrel_is_written(const dv_relation *relation, EState *estate);

/* The same while the statement is being planned. */
extern bool dv_resultrel_will_be_written(const dv_relation *relation, PlannerInfo *root);

/* The parameters of the query being planned that may change for each row of an outer query. */
extern Bitmapset *dv_resultrel_changing(PlannerInfo *root);

/*
 * A join that fetches the rows to update or delete in several requests does so
 * while earlier rows are already being written.  Returns true if this can
 * change neither the rows that the clauses find nor the columns that are read.
 */
extern bool dv_resultrel_stays_as_read(PlannerInfo *root, const RelOptInfo *rel,
									   const dv_relation *relation, List *clauses);

/*
 * Does the statement that is being planned write anything at all?  What it
 * writes is known only after planning.
 */
extern bool dv_resultrel_may_be_written(PlannerInfo *root);

/*
 * The columns in the target list of a scan that are really needed, in the form
 * of pull_varattnos().  UPDATE and DELETE request the whole row, most of which
 * is usually not needed.
 */
extern Bitmapset *dv_resultrel_columns(PlannerInfo *root, const RelOptInfo *rel);

/*
 * Do these conditions, which must be all of the scan's, list the ids of the
 * rows to update or delete, and is no other column needed?  Then nothing has
 * to be read; writing reveals which rows do not exist.
 */
extern bool dv_resultrel_is_given(PlannerInfo *root, const RelOptInfo *rel,
								  const dv_relation *relation, List *conditions);

extern void dataverseAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
											 RangeTblEntry *target_rte, Relation target_relation);

/* Warns that a scan does not lock its rows, if SELECT ... FOR UPDATE or the like asks for that. */
extern void dv_resultrel_warn_of_lock(const dv_relation *relation, const EState *estate, Index rti);

#endif							/* DV_RESULT_RELATION_H */
