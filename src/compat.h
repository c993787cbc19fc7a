/*
 * compat.h
 *		Differences between PostgreSQL versions, each with the version and the
 *		reason.
 *
 * Include this after postgres.h and the other PostgreSQL headers.  No other
 * file uses PG_VERSION_NUM.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COMPAT_H
#define DV_COMPAT_H

/*
 * Before 15.2, the executor flushes pending batches of foreign inserts in the
 * wrong order (15.2 introduced es_insert_pending_result_relations), which would
 * break the guarantees of this extension about rows in flight.
 */
#if PG_VERSION_NUM < 150002
#error "dataverse_fdw needs PostgreSQL 15.2 or later"
#endif

/*
 * The library is built with hidden visibility and exports only symbols that
 * the server looks up.  Before 16, PGDLLEXPORT is empty, and the declaration
 * made by PG_FUNCTION_INFO_V1 does not contain it.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#define DV_FUNCTION(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)
#else
#define DV_FUNCTION(name) PG_FUNCTION_INFO_V1(name)
#endif

/* Since 18, a module can declare its name and version (see pg_get_loaded_modules). */
#if PG_VERSION_NUM >= 180000
#define DV_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "dataverse_fdw", .version = DV_VERSION)
#else
#define DV_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 19 takes the name of a tranche when it is created, and shares it with all backends. */
#if PG_VERSION_NUM >= 190000
#define dv_lwlock_new_tranche(name)			  LWLockNewTrancheId(name)
#define dv_lwlock_register_tranche(id, name)  ((void) (id))
#else
#define dv_lwlock_new_tranche(name)			  LWLockNewTrancheId()
#define dv_lwlock_register_tranche(id, name)  LWLockRegisterTranche(id, name)
#endif

/* 17 introduced a global variable for the process's number in the array of processes. */
#if PG_VERSION_NUM >= 170000
#define dv_my_procno() ((int) MyProcNumber)
#else
#define dv_my_procno() (MyProc->pgprocno)
#endif

/* Since 17, a WaitEventSet has a resource owner (NULL: the session), no memory context. */
#if PG_VERSION_NUM >= 170000
#define dv_create_wait_event_set(n) CreateWaitEventSet(NULL, n)
#else
#define dv_create_wait_event_set(n) CreateWaitEventSet(TopMemoryContext, n)
#endif

/* Since 17, an extension can define wait events. */
#if PG_VERSION_NUM >= 170000
#define dv_wait_event_new(name) WaitEventExtensionNew(name)
#else
#define dv_wait_event_new(name) ((void) (name), PG_WAIT_EXTENSION)
#endif

/*
 * 17 introduced named shared memory that is created on first use; 19 added an
 * argument to the callback that initializes it.
 */
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#define DV_NAMED_SEGMENTS
#endif
#if PG_VERSION_NUM >= 190000
#define DV_SEGMENT_INIT(function, segment) function(void *segment, void *unused_arg)
#define dv_named_segment(name, size, init, found) GetNamedDSMSegment(name, size, init, found, NULL)
#elif PG_VERSION_NUM >= 170000
#define DV_SEGMENT_INIT(function, segment) function(void *segment)
#define dv_named_segment(name, size, init, found) GetNamedDSMSegment(name, size, init, found)
#endif

/* 16 renamed the function that prepares a set-returning function. */
#if PG_VERSION_NUM >= 160000
#define dv_init_materialized_srf(fcinfo)	   InitMaterializedSRF(fcinfo, 0)
#define dv_init_materialized_scalars(fcinfo) InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC)
#else
#define dv_init_materialized_srf(fcinfo)	   SetSingleFuncCall(fcinfo, 0)
#define dv_init_materialized_scalars(fcinfo) SetSingleFuncCall(fcinfo, SRF_SINGLE_USE_EXPECTED)
#endif

/* 16 added a parameter for soft errors; NULL raises errors as before. */
#if PG_VERSION_NUM >= 160000
#define dv_parse_type(text, type, typmod) parseTypeString(text, type, typmod, NULL)
#else
#define dv_parse_type(text, type, typmod) parseTypeString(text, type, typmod, false)
#endif

/* In 19, the headers of the executor no longer include this one. */
#include "utils/tuplestore.h"

/* 16 has one function to check privileges on any kind of object. */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_foreign_server.h"
#define dv_server_aclcheck(serverid, roleid, mode) \
	object_aclcheck(ForeignServerRelationId, serverid, roleid, mode)
#define dv_server_ownercheck(serverid, roleid) \
	object_ownercheck(ForeignServerRelationId, serverid, roleid)
#else
#define dv_server_aclcheck(serverid, roleid, mode) pg_foreign_server_aclcheck(serverid, roleid, mode)
#define dv_server_ownercheck(serverid, roleid) pg_foreign_server_ownercheck(serverid, roleid)
#endif

/* Since 16, membership does not always include the right to become the role. */
#if PG_VERSION_NUM >= 160000
#define dv_can_become(member, role) member_can_set_role(member, role)
#else
#define dv_can_become(member, role) is_member_of_role(member, role)
#endif

/* 18 made the interpretation of operators independent of btree, but kept the numbers. */
#if PG_VERSION_NUM >= 180000
#define dv_op_interpretations(opno) get_op_index_interpretation(opno)
#define dv_interpretation_of(cell) ((int) ((OpIndexInterpretation *) lfirst(cell))->cmptype)
#else
#define dv_op_interpretations(opno) get_op_btree_interpretation(opno)
#define dv_interpretation_of(cell) (((OpBtreeInterpretation *) lfirst(cell))->strategy)
#endif

/* These are btree strategies before 18, and values of CompareType since 18. */
#define DV_INTERPRETED_LT 1
#define DV_INTERPRETED_LE 2
#define DV_INTERPRETED_EQ 3
#define DV_INTERPRETED_GE 4
#define DV_INTERPRETED_GT 5
#define DV_INTERPRETED_NE 6

/* 18 replaced the btree strategy of a sort key by a comparison type. */
#if PG_VERSION_NUM >= 180000
#define dv_pathkey_descending(key) ((key)->pk_cmptype == COMPARE_GT)
#else
#define dv_pathkey_descending(key) ((key)->pk_strategy == BTGreaterStrategyNumber)
#endif

/*
 * 18 keeps the equivalence class members of child relations, such as
 * partitions, in separate lists.
 */
#if PG_VERSION_NUM >= 180000
#include "optimizer/paths.h"
static inline List *
dv_members_of_class(EquivalenceClass *ec, Relids relids)
{
	EquivalenceMemberIterator it;
	EquivalenceMember *em;
	List	   *members = NIL;

	setup_eclass_member_iterator(&it, ec, relids);
	while ((em = eclass_member_iterator_next(&it)) != NULL)
		members = lappend(members, em);
	return members;
}
#else
#define dv_members_of_class(ec, relids) ((ec)->ec_members)
#endif

/* 18 introduced virtual generated columns, which are computed when they are read. */
#if PG_VERSION_NUM >= 180000
#define dv_is_virtual_column(att) ((att)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define dv_is_virtual_column(att) ((void) (att), false)
#endif

/* 17 added a foreign join's clauses to paths; 18 added the count of disabled nodes. */
#if PG_VERSION_NUM >= 180000
#define dv_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer, private) \
	create_foreignscan_path(root, rel, NULL, rows, 0, startup, total, pathkeys, outer, NULL, NIL, \
							private)
#define dv_foreign_join_path(root, rel, rows, startup, total, private) \
	create_foreign_join_path(root, rel, NULL, rows, 0, startup, total, NIL, NULL, NULL, NIL, private)
#define dv_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, 0, startup, total, pathkeys, NULL, NIL, \
							  private)
#elif PG_VERSION_NUM >= 170000
#define dv_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer, private) \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, pathkeys, outer, NULL, NIL, \
							private)
#define dv_foreign_join_path(root, rel, rows, startup, total, private) \
	create_foreign_join_path(root, rel, NULL, rows, startup, total, NIL, NULL, NULL, NIL, private)
#define dv_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, NIL, private)
#else
#define dv_foreignscan_path(root, rel, rows, startup, total, pathkeys, outer, private) \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, pathkeys, outer, NULL, private)
#define dv_foreign_join_path(root, rel, rows, startup, total, private) \
	create_foreign_join_path(root, rel, NULL, rows, startup, total, NIL, NULL, NULL, private)
#define dv_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, pathkeys, NULL, private)
#endif

/* Since 16, the relids of a join contain those of its outer joins. */
#if PG_VERSION_NUM >= 160000
#define dv_all_rels(root) ((root)->all_query_rels)
#define dv_first_base_relation(scan) bms_next_member((scan)->fs_base_relids, -1)
#else
#define dv_all_rels(root) ((root)->all_baserels)
#define dv_first_base_relation(scan) bms_next_member((scan)->fs_relids, -1)
#endif

/* Since 16, the plan node has the user to check permissions for; before, the RTE had it. */
#if PG_VERSION_NUM >= 160000
#define dv_scan_user(fsplan, rte) \
	((void) (rte), OidIsValid((fsplan)->checkAsUser) ? (fsplan)->checkAsUser : GetUserId())
#else
#define dv_scan_user(fsplan, rte) \
	(OidIsValid((rte)->checkAsUser) ? (rte)->checkAsUser : GetUserId())
#endif

/*
 * Before 18.0, 17.5, 16.9 and 15.13, an Append that waits for its asynchronous
 * scans does not wait for the latch, so it notices neither a cancel nor a slot
 * that becomes free.  What counts is the version of the running server, not
 * that of the headers.
 */
static inline bool
dv_append_notices_latch(int running)
{
	return running >= 180000 || running % 10000 >= (running >= 170000 ? 5 : running >= 160000 ? 9 : 13);
}

/*
 * Since 19, ANALYZE can import statistics instead of drawing a sample.  This
 * imports the row count.
 */
#if PG_VERSION_NUM >= 190000
#include "pgstat.h"
#include "statistics/statistics.h"
#define DV_IMPORT_STATISTICS
static inline bool
dv_import_row_count(Relation rel, BlockNumber pages, double rows, TimestampTz began)
{
	NullableDatum version = {Int32GetDatum(PG_VERSION_NUM), false};
	NullableDatum relpages = {UInt32GetDatum(pages), false};
	NullableDatum reltuples = {Float4GetDatum((float4) rows), false};
	NullableDatum unknown = {(Datum) 0, true};

	if (!import_relation_statistics(rel, &version, &relpages, &reltuples, &unknown, &unknown))
		return false;
	pgstat_report_analyze(rel, (PgStat_Counter) rows, 0, false, began);
	return true;
}
#endif

/* The user on whose behalf a table is written; InvalidOid: the current user. */
#if PG_VERSION_NUM >= 160000
#define dv_result_user(rinfo, estate) ExecGetResultRelCheckAsUser(rinfo, estate)
#else
#define dv_result_rti(rinfo) \
	((rinfo)->ri_RangeTableIndex != 0 ? (rinfo)->ri_RangeTableIndex : \
	 (rinfo)->ri_RootResultRelInfo != NULL ? (rinfo)->ri_RootResultRelInfo->ri_RangeTableIndex : 0)
#define dv_result_user(rinfo, estate) \
	(dv_result_rti(rinfo) != 0 ? exec_rt_fetch(dv_result_rti(rinfo), estate)->checkAsUser : \
	 InvalidOid)
#endif

/*
 * 16 moved the privileges that a statement needs out of the range table; the members have the
 * same names.
 */
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
typedef RTEPermissionInfo dv_permission;
#define dv_permission_of(estate, rte) \
	((rte)->perminfoindex != 0 ? getRTEPermissionInfo((estate)->es_rteperminfos, rte) : NULL)
#define dv_permission_in(query, rte) \
	((rte)->perminfoindex != 0 ? getRTEPermissionInfo((query)->rteperminfos, rte) : NULL)
#else
#include "nodes/parsenodes.h"
typedef RangeTblEntry dv_permission;
#define dv_permission_of(estate, rte) ((void) (estate), rte)
#define dv_permission_in(query, rte) ((void) (query), rte)
#endif

/* 16 has a function that finds a setting. */
#include "utils/guc_tables.h"
#if PG_VERSION_NUM >= 160000
#define dv_guc_find(name) find_option(name, false, false, ERROR)
#else
static inline struct config_generic *
dv_guc_find(const char *name)
{
	struct config_generic **all = get_guc_variables();
	int			n = GetNumConfigOptions();
	int			i;

	for (i = 0; i < n; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	elog(ERROR, "unrecognized configuration parameter \"%s\"", name);
}
#endif

/* 18 removed a parameter of the executor's run function. */
#if PG_VERSION_NUM >= 180000
#define DV_EXECUTOR_RUN_PARAMETERS QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define DV_EXECUTOR_RUN_ARGUMENTS queryDesc, direction, count
#else
#define DV_EXECUTOR_RUN_PARAMETERS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define DV_EXECUTOR_RUN_ARGUMENTS queryDesc, direction, count, execute_once
#endif

/* 16 also counts the rows of all runs of the executor together. */
#if PG_VERSION_NUM >= 160000
#define dv_correct_total(estate, n) ((estate)->es_total_processed -= (n))
#else
#define dv_correct_total(estate, n) ((void) (n))
#endif

/* Since 18, RETURNING can refer to a row before and after the change (OLD, NEW). */
#if PG_VERSION_NUM >= 180000
#include "executor/executor.h"
#define dv_returning_uses_old(projection) \
	(((projection)->pi_state.flags & EEO_FLAG_HAS_OLD) != 0)
static inline void
dv_returning_set_rows(ProjectionInfo * projection, ExprContext *econtext, EState *estate,
					  ResultRelInfo *rinfo, TupleTableSlot *before, TupleTableSlot *after)
{
	uint8	   *flags = &projection->pi_state.flags;

	*flags &= ~(EEO_FLAG_OLD_IS_NULL | EEO_FLAG_NEW_IS_NULL);
	*flags |= (before == NULL ? EEO_FLAG_OLD_IS_NULL : 0) | (after == NULL ? EEO_FLAG_NEW_IS_NULL : 0);
	if (before == NULL && (*flags & EEO_FLAG_HAS_OLD))
		before = ExecGetAllNullSlot(estate, rinfo);
	if (after == NULL && (*flags & EEO_FLAG_HAS_NEW))
		after = ExecGetAllNullSlot(estate, rinfo);
	econtext->ecxt_oldtuple = before;
	econtext->ecxt_newtuple = after;
}
#else
#define dv_returning_uses_old(projection) ((void) (projection), false)
#define dv_returning_set_rows(projection, econtext, estate, rinfo, before, after) \
	((void) (before), (void) (after))
#endif

/* 18 moved the functions that print EXPLAIN output. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/*
 * Returns true if expressions in EXPLAIN need to say which table a column
 * belongs to.  Since 18, the expressions of GROUP BY have an entry in the range
 * table, too.
 */
#if PG_VERSION_NUM >= 180000
static inline bool
dv_explain_has_tables(const List *rtable)
{
	const ListCell *lc;
	int			n = 0;

	foreach(lc, rtable)
		n += lfirst_node(RangeTblEntry, lc)->rtekind != RTE_GROUP;
	return n > 1;
}
#else
#define dv_explain_has_tables(rtable) (list_length(rtable) > 1)
#endif

/* Since 18, an extension can add to what EXPLAIN prints about any node. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#define DV_EXPLAIN_NODES
#endif

/* 18 counts the nodes of a path that the user disabled. */
#if PG_VERSION_NUM >= 180000
#define dv_set_disabled_nodes(path, n) ((path)->disabled_nodes = (n))
#define dv_disabled_nodes(path) ((path)->disabled_nodes)
#else
#define dv_set_disabled_nodes(path, n) ((void) (path), (void) (n))
#define dv_disabled_nodes(path) ((void) (path), 0)
#endif

/* Since 19, the advice about hash joins may differ from one join to another. */
#if PG_VERSION_NUM >= 190000
#define dv_may_hash(extra) (((extra)->pgs_mask & PGS_HASHJOIN) != 0)
#else
#define dv_may_hash(extra) ((void) (extra), enable_hashjoin)
#endif

/*
 * Since 19, aggregates may be computed below a join.  The planner joins such groups
 * in relations of their own, copies of those of the rows, fdw_private included.
 */
#if PG_VERSION_NUM >= 190000
#define dv_is_grouped_rel(rel) IS_GROUPED_REL(rel)
#else
#define dv_is_grouped_rel(rel) ((void) (rel), false)
#endif

/*
 * A path for the distinct rows of the outer side of a join that replaces a
 * semijoin (JOIN_UNIQUE_OUTER).  Since 19, the relation that is given to the
 * hook has only such paths.
 */
#if PG_VERSION_NUM >= 190000
#define dv_unique_path(root, rel, path, sjinfo) (path)
#else
#define dv_unique_path(root, rel, path, sjinfo) \
	((Path *) create_unique_path(root, rel, path, sjinfo))
#endif

/*
 * Since 16, references to columns say which outer joins may have made them null,
 * and the planner compares that when it connects them with the rows below a node.
 * (Both are either a Var or a PlaceHolderVar.)
 */
#if PG_VERSION_NUM >= 160000
#include "nodes/pathnodes.h"
static inline void
dv_copy_nullingrels(Node *to, const Node *from)
{
	if (IsA(to, Var))
		((Var *) to)->varnullingrels = ((const Var *) from)->varnullingrels;
	else
		((PlaceHolderVar *) to)->phnullingrels = ((const PlaceHolderVar *) from)->phnullingrels;
}
#else
#define dv_copy_nullingrels(to, from) ((void) (to), (void) (from))
#endif

#endif							/* DV_COMPAT_H */
