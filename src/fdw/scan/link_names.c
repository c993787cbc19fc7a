/*
 * link_names.c
 *		Proves that columns of joined tables have the requested names.
 *
 * Values under other names would seem to be null.  Therefore the first joins of a
 * session also request a column that is never null in a joined row (see members.c), and
 * look for it in the answer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "fdw/connection.h"
#include "fdw/plan/plan.h"
#include "fdw/scan/scan_state.h"

bool
dv_link_names_choose(dv_scan *scan)
{
	dv_request *request = &scan->request;
	bool		grouped = dv_request_groups(request);

	/* rescans send the same request */
	if (request->ntables == 1 || scan->proof_chosen[grouped])
		return false;
	scan->proof_chosen[grouped] = true;
	scan->proves[grouped] = !*dv_session_links_proven(dv_read_session(scan), grouped);
	if (request->prove == scan->proves[grouped])
		return false;
	request->prove = scan->proves[grouped];
	dv_read_choose(scan);
	return true;
}

bool
dv_scan_proves(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	RangeTblEntry *rte = dv_plan_table(plan, node->ss.ps.state);
	const dv_scan *scan = node->fdw_state;
	const bool	grouped = dv_read_plan_of(plan).grouped;
	const dv_session *session;

	if (scan != NULL && scan->proof_chosen[grouped])
		return scan->proves[grouped];
	session = dv_connection_find(GetForeignTable(rte->relid)->serverid, dv_scan_user(plan, rte));
	return session == NULL || !*dv_session_links_proven(session, grouped);
}

static void
misnamed(dv_scan *scan)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
			 errmsg("could not %s on server \"%s\": Dataverse does not name columns of joined tables as requested",
					scan->what, dv_session_config_of(scan->session)->server_name),
			 errdetail("A row lacks the id of a joined table."),
			 errhint("%s", dv_read_pages_spec(scan).way_out)));
}

/*
 * Requests any joined row.  If there is none, all columns of links are null.  If the
 * service refuses the join, no row of the current request has been returned yet, so the
 * tables can still be read instead.
 */
static void
ask_for_pair(dv_scan *scan)
{
	MemoryContext context = AllocSetContextCreate(scan->query, "dataverse pair",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_pages_spec spec = dv_read_pages_spec(scan);
	const char *member;
	dv_pages   *pages;
	dv_query	query;
	dv_value	id;

	dv_request_pair(&scan->request, &query, &member);
	spec.path = dv_query_path(&query, DV_ODATA_WIRE, NULL);
	spec.names = dv_names_init(palloc(dv_names_size(&member, 1)), &member, 1);
	spec.progress = NULL;
	spec.computed = true;
	spec.has_plainer = true;
	pages = dv_pages_start(&spec, context);
	if (dv_pages_next(pages, &id))
	{
		if (dv_value_is_null(&id))
			misnamed(scan);
		*dv_session_links_proven(scan->session, false) = true;
	}
	if (dv_pages_refusal(pages) != NULL)
		dv_local_join_start(scan, dv_pages_refusal(pages));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

void
dv_link_names_check(dv_scan *scan)
{
	const dv_request *request = &scan->request;
	bool	   *proven;

	if (request->proof < 0)
		return;
	proven = dv_session_links_proven(scan->session, dv_request_groups(request));
	if (!dv_value_is_null(&scan->members[request->proof]))
		*proven = true;
	else if (request->proof_certain)
		misnamed(scan);
	else if (!*proven && !scan->pair_sought)
	{
		scan->pair_sought = true;
		ask_for_pair(scan);
	}
}
