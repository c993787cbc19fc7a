/*
 * cost.c
 *		What requests and rows of reads cost, in PostgreSQL's units.
 *
 * Every planner of reads gets its costs here, and so does the execution where it
 * has a choice (fdw/scan/request.c).  Costs differ from one user mapping to another,
 * because the pool measures for application users of an organization.
 *
 * Rows are the dearer the wider they are: the service writes, and this side reads,
 * the names and values of the columns that are needed.  How many bytes that are is
 * estimated from the names and from what ANALYZE has found, or from the types.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "fdw/connection.h"
#include "fdw/plan/cost.h"
#include "pool/stats.h"

/* Braces, the etag, and the name and value of the id, which are in every row. */
#define ROW_BYTES 100
/* Quotes, colon, and comma. */
#define COLUMN_BYTES 4
#define QUOTES 2

/* Returns false if too little has been measured. */
static bool
measure(const dv_relation *relation, Oid userid, dv_latency_estimate *estimate)
{
	int			n;
	dv_entry_key *keys = dv_connection_keys_of(relation->serverid, userid, &n);

	return n > 0 && dv_stats_latency(keys, n, estimate);
}

dv_costs
dv_costs_of(const dv_relation *relation, Oid userid)
{
	dv_costs	costs = {.request = DV_LATENCY_REQUEST, .row = DV_LATENCY_ROW};
	bool		request_given = dv_option_given(relation->options, DV_OPT_REQUEST_COST);
	bool		row_given = dv_option_given(relation->options, DV_OPT_ROW_COST);
	dv_latency_estimate estimate;

	if ((!request_given || !row_given) && measure(relation, userid, &estimate))
	{
		costs.request = estimate.request;
		costs.byte = estimate.byte;
		costs.row = estimate.byte * estimate.row_bytes;
	}
	if (request_given)
		costs.request = dv_option_real(relation->options, DV_OPT_REQUEST_COST);
	if (row_given)
	{
		costs.row = dv_option_real(relation->options, DV_OPT_ROW_COST);
		costs.byte = 0;
	}
	return costs;
}

/* How many bytes a value has in the service's JSON. */
static double
value_bytes(const dv_relation *relation, AttrNumber attnum)
{
	const dv_attribute *attribute = dv_relation_attribute(relation, attnum);
	int			length = get_typlen(attribute->pgtype);
	double		width;

	/* numbers, times, and ids take about twice as many bytes as text */
	if (length > 0)
		return 2.0 * length + 4;
	width = get_attavgwidth(relation->relid, attnum);
	if (width <= 0)
		width = get_typavgwidth(attribute->pgtype, attribute->typmod);
	return width + QUOTES;
}

double
dv_cost_row_bytes(const dv_relation *relation, const List *attnums)
{
	double		bytes = ROW_BYTES;
	const ListCell *lc;

	foreach(lc, attnums)
	{
		AttrNumber	attnum = (AttrNumber) lfirst_int(lc);
		const dv_attribute *attribute = dv_relation_attribute(relation, attnum);

		if (attribute != NULL)
			bytes += strlen(attribute->member) + COLUMN_BYTES + value_bytes(relation, attnum);
	}
	return bytes;
}

double
dv_cost_row(const dv_costs *costs, double bytes)
{
	return costs->byte > 0 ? costs->byte * bytes : costs->row;
}
