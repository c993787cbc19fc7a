/*-------------------------------------------------------------------------
 *
 * result_relation.h
 *		Tables that a statement changes: what says which row is meant, and
 *		what reading them has to look out for.
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

/* Names of the columns that UPDATE and DELETE get along with each row. */
#define DV_JUNK_ID "dataverse_id"
#define DV_JUNK_PARTITION "dataverse_partition"
/* of intersect tables: the two ids that such a row ties together */
#define DV_JUNK_FIRST "dataverse_first"
#define DV_JUNK_SECOND "dataverse_second"
/* the row as far as it is needed; of UPDATE always, of DELETE for triggers and RETURNING */
#define DV_JUNK_ROW "wholerow"

/*
 * The columns that say which row it is, 0: there is none.  "partition" is
 * always 0 where rows have none, or where the table does not name it.
 */
extern void dv_resultrel_keys(const dv_relation *relation, AttrNumber *id, AttrNumber *partition);

/* The columns of the two ids of an intersect table's rows; both or none. */
extern void dv_resultrel_pair(const dv_relation *relation, AttrNumber *first, AttrNumber *second);

/*
 * Where a column of these names is among those of the plan below a
 * modification; 0: nowhere.  "attnum" is the column's number in the table.
 */
extern AttrNumber dv_resultrel_junk(List *targetlist, const char *name, AttrNumber attnum);

/*
 * Is the table read here also one that the statement writes, under this or
 * another name?  Then all of it has to be read first.
 */
extern bool dv_resultrel_is_written(const dv_relation *relation, EState *estate);

/* The same while the statement is being planned. */
extern bool dv_resultrel_will_be_written(const dv_relation *relation, PlannerInfo *root);

/* The parameters of the query that is being planned that may change from row to row outside of it. */
extern Bitmapset *dv_resultrel_changing(PlannerInfo *root);

/*
 * A join that asks for the rows of what is to be updated or deleted piece by
 * piece does so while others are written already.  Can it not happen that
 * this changes what these clauses find, or what is read of it?
 */
extern bool dv_resultrel_stays_as_read(PlannerInfo *root, const RelOptInfo *rel,
									   const dv_relation *relation, List *clauses);

/*
 * Does the statement that is being planned write anything at all?  Before it
 * has been planned it is not known what.
 */
extern bool dv_resultrel_may_be_written(PlannerInfo *root);

/*
 * Of the columns used (as pull_varattnos() has them) by the list of what a
 * scan gives, those that are needed: the whole row that an UPDATE or DELETE
 * asks for is mostly not.
 */
extern Bitmapset *dv_resultrel_columns(PlannerInfo *root, const RelOptInfo *rel);

/*
 * Do these conditions, all there are, name the very rows that are to be
 * updated or deleted, and is nothing else needed of them?  Then there is
 * nothing to ask for; rows that do not exist are found out by writing.
 */
extern bool dv_resultrel_is_given(PlannerInfo *root, const RelOptInfo *rel,
								  const dv_relation *relation, List *conditions);

extern void dataverseAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
											 RangeTblEntry *target_rte, Relation target_relation);

#endif							/* DV_RESULT_RELATION_H */
