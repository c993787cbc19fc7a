/*
 * result_relation.h
 *		Tables that a statement changes: the columns that identify their rows,
 *		and precautions when they are read.
 *
 * SPDX-License-Identifier: PostgreSQL
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
/* for intersect tables: the two ids of which a row consists */
#define DV_JUNK_FIRST "dataverse_first"
#define DV_JUNK_SECOND "dataverse_second"
/* the needed columns of the row; always for UPDATE, for triggers and RETURNING with DELETE */
#define DV_JUNK_ROW "wholerow"

/*
 * Finds the columns that identify a row; 0 if the foreign table does not have
 * them.  "partition" is also 0 if rows of the table have no partition.
 */
extern void dv_resultrel_keys(const dv_relation *relation, AttrNumber *id, AttrNumber *partition);

/*
 * Returns the column with the version that a row must still have when it is
 * written, or 0 if versions are not matched, according to an option and its
 * setting.  Raises an error if versions should be matched, but cannot.
 */
extern AttrNumber dv_resultrel_version(const dv_relation *relation);

/*
 * Finds the columns of the two ids of an intersect table's rows; either both are set or neither.
 */
extern void dv_resultrel_pair(const dv_relation *relation, AttrNumber *first, AttrNumber *second);

/*
 * Returns the position of a junk column in the target list of the subplan, or
 * 0.  "attnum" is the column's number in the foreign table.
 */
extern AttrNumber dv_resultrel_junk(List *targetlist, const char *name, AttrNumber attnum);

/*
 * Returns true if the statement also writes the table that is being read,
 * possibly through another foreign table.  Then all its rows must be read
 * first.
 */
extern bool dv_resultrel_is_written(const dv_relation *relation, EState *estate);

/* The same while the statement is being planned. */
extern bool dv_resultrel_will_be_written(const dv_relation *relation, PlannerInfo *root);

/*
 * Returns true if this is the table of an UPDATE or DELETE, and no other part of
 * the statement writes it.  Then a join may read it: the join reads all rows before
 * it returns the first one, but it begins only when its own rows are wanted, which
 * is too late if another part of the statement has written by then.  Children of a
 * partitioned table do not count as such a table.
 */
extern bool dv_resultrel_is_sole_target(PlannerInfo *root, const RelOptInfo *rel,
										const dv_relation *relation);

/*
 * Returns the parameters of the query being planned that may change for each row of an outer
 * query.
 */
extern Bitmapset *dv_resultrel_changing(PlannerInfo *root);

/*
 * A join that fetches the rows to update or delete in several requests does so
 * while earlier rows are already being written.  Returns true if this can
 * change neither the rows that the clauses find nor the columns that are read.
 */
extern bool dv_resultrel_stays_as_read(PlannerInfo *root, const RelOptInfo *rel,
									   const dv_relation *relation, List *clauses);

/*
 * Returns true if the statement that is being planned writes any table.  Which
 * one is known only after planning.
 */
extern bool dv_resultrel_may_be_written(PlannerInfo *root);

/*
 * Returns the columns in the target list of a scan that are really needed, in
 * the form of pull_varattnos().  UPDATE and DELETE request the whole row, most
 * of which is usually not needed.
 */
extern Bitmapset *dv_resultrel_columns(PlannerInfo *root, const RelOptInfo *rel);

/*
 * Returns true if these conditions, which must be all conditions of the scan,
 * list the ids of the rows to update or delete, and no other column is needed.
 * Then nothing has to be read; writing reveals which rows do not exist.
 */
extern bool dv_resultrel_ids_suffice(PlannerInfo *root, const RelOptInfo *rel,
									 const dv_relation *relation, List *conditions);

extern void dataverseAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
											 RangeTblEntry *target_rte, Relation target_relation);

/* Warns that a scan does not lock its rows if SELECT ... FOR UPDATE or the like requests it. */
extern void dv_resultrel_warn_of_lock(const dv_relation *relation, const EState *estate, Index rti);

#endif							/* DV_RESULT_RELATION_H */
