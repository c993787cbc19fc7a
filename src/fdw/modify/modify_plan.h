/*
 * modify_plan.h
 *		The plan of the modification of one table, as planning passes it to
 *		execution.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MODIFY_PLAN_H
#define DV_MODIFY_PLAN_H

#include "foreign/fdwapi.h"

#include "dataverse/batch.h"
#include "fdw/relation.h"

/* Lists of columns are IntLists of attribute numbers. */
typedef struct dv_modify_plan
{
	CmdType		command;
	List	   *set;			/* columns that the statement sets, which are always written */
	List	   *others;			/* columns that are written only if they are not null (INSERT) or
								 * have changed (UPDATE) */
	List	   *nulls;			/* columns that INSERT names although they cannot be written:
								 * their values must be null, and are omitted */
	List	   *returned;		/* columns that RETURNING or triggers use */
	List	   *checked;		/* columns that WITH CHECK OPTION or policies use */
	bool		has_checks;		/* one of these applies, even if it uses no column */
	bool		ignore;			/* ON CONFLICT DO NOTHING */
	bool		repeats;		/* the plan may find a row more than once */
	bool		at_once;		/* triggers need each row as soon as it is written */
	bool		new_ids;		/* ids that the statement does not supply come from
								 * dataverse.new_id() */
	bool		match_version;	/* rows are written only if they have not been changed since they
								 * were read */
	uint32		signature;		/* of the table as of planning */
} dv_modify_plan;

/* Converts a plan to fdw_private, which consists of nodes that can be copied, and back. */
extern List *dv_modify_plan_pack(const dv_modify_plan *plan);
extern void dv_modify_plan_unpack(const List *private, dv_modify_plan *plan);

/* Makes a plan without the planner: for COPY and for tuple routing. */
extern void dv_modify_plan_rows(const ModifyTableState *mtstate, const ResultRelInfo *rinfo,
								const dv_relation *relation, dv_modify_plan *plan);

/*
 * Returns the operation that carries out a command, which depends on the table and the options.
 */
extern dv_operation dv_modify_plan_operation(const dv_relation *relation, dv_options options,
											 CmdType command);

/*
 * Raises an error if ON CONFLICT DO NOTHING, which leaves existing rows alone,
 * is combined with upserts, which change them.  Settings may change between
 * planning and execution, so both call this.
 */
extern void dv_modify_plan_check(const dv_relation *relation, dv_options options,
								 CmdType command, bool ignore);

/* Returns true if values can be written to this column at all, and by INSERT or UPDATE. */
extern bool dv_modify_plan_is_writable(const dv_attribute *attribute);
extern bool dv_modify_plan_writes(const dv_attribute *attribute, CmdType command);

/* Returns the reason why not, as a sentence. */
extern const char *dv_modify_plan_reason(const dv_attribute *attribute, CmdType command);

extern List *dataversePlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index resultRelation,
										int subplan_index);
extern int	dataverseIsForeignRelUpdatable(Relation rel);

#endif							/* DV_MODIFY_PLAN_H */
