/*
 * modify_plan.h
 *		What a modification is to do with one table: what planning hands to
 *		execution.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MODIFY_PLAN_H
#define DV_MODIFY_PLAN_H

#include "foreign/fdwapi.h"

#include "dataverse/batch.h"
#include "fdw/relation.h"

/* Columns are IntLists of their numbers in the table. */
typedef struct dv_modify_plan
{
	CmdType		command;
	List	   *given;			/* columns that are written whatever they hold */
	List	   *others;			/* columns that are written only if they are not null (INSERT) or
								 * not what they were (UPDATE) */
	List	   *returned;		/* columns that RETURNING, WITH CHECK OPTION or triggers look at */
	List	   *checked;		/* of them, those that WITH CHECK OPTION looks at */
	bool		has_checks;		/* there is a WITH CHECK OPTION, whatever it looks at */
	bool		ignore;			/* ON CONFLICT DO NOTHING */
	bool		repeats;		/* the plan may find a row more than once */
	bool		at_once;		/* triggers look at each row as soon as it is written */
} dv_modify_plan;

/* As fdw_private, whose nodes PostgreSQL copies, and back. */
extern List *dv_modify_plan_pack(const dv_modify_plan *plan);
extern void dv_modify_plan_unpack(const List *private, dv_modify_plan *plan);

/* What is done when there was no planning: COPY, and rows that are routed to a partition. */
extern void dv_modify_plan_rows(const ModifyTableState *mtstate, const ResultRelInfo *rinfo,
								const dv_relation *relation, dv_modify_plan *plan);

/* The operation that a command is, by the table and the options. */
extern dv_operation dv_modify_plan_operation(const dv_relation *relation, dv_options options,
											 CmdType command);

extern List *dataversePlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
										int subplan_index);
extern int	dataverseIsForeignRelUpdatable(Relation rel);

#endif							/* DV_MODIFY_PLAN_H */
