/*
 * view.c
 *		The functions behind the views of the pool, and those that reset
 *		it.
 *
 * audience.c decides what the current user sees.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_foreign_server.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "fdw/admin/audience.h"
#include "fdw/result.h"
#include "net/text.h"
#include "pool/progress.h"
#include "pool/shared.h"
#include "pool/stats.h"

DV_FUNCTION(dataverse_pool_users);
DV_FUNCTION(dataverse_throttle_events);
DV_FUNCTION(dataverse_progress_rows);
DV_FUNCTION(dataverse_reset_pool);
DV_FUNCTION(dataverse_reset_stats);

/*
 * Values of columns.  Times of the pool are monotonic; 0 means never.
 */

typedef struct view_row
{
	dv_audience *audience;
	bool		hidden;			/* the remaining columns are null */
	int			n;
	Datum		values[44];
	bool		nulls[44];
} view_row;

static void
put(view_row *r, Datum value)
{
	r->nulls[r->n] = r->hidden;
	r->values[r->n++] = value;
}

/* A name in the shared memory, which is UTF-8 for all databases. */
static void
put_name(view_row *r, const char *name)
{
	put(r, CStringGetTextDatum(dv_text_shown(name, strlen(name))));
}

static void
put_null(view_row *r)
{
	r->nulls[r->n] = true;
	r->values[r->n++] = (Datum) 0;
}

/* The server of a row.  Servers of several databases can have the same name. */
static void
put_server(view_row *r, Oid databaseid, const char *server)
{
	const char *database = get_database_name(databaseid);

	/* it may just have been dropped */
	if (database == NULL)
		put_null(r);
	else
		put(r, DirectFunctionCall1(namein, CStringGetDatum(database)));
	put_name(r, server);
}

static void
put_time(view_row *r, int64 when, int64 now)
{
	if (when == 0)
		put_null(r);
	else
		put(r, TimestampTzGetDatum(GetCurrentTimestamp() + (when - now)));
}

static void
put_interval(view_row *r, int64 microseconds)
{
	Interval   *interval = palloc0(sizeof(*interval));

	interval->time = microseconds;
	put(r, IntervalPGetDatum(interval));
}

/* A negative count is unknown. */
static void
put_count(view_row *r, double count)
{
	if (count < 0)
		put_null(r);
	else
		put(r, Int64GetDatum((int64) count));
}

static const char *
kind_name(int kind)
{
	return dv_kind_name((dv_kind) kind);
}

static const char *
retry_name(int cause)
{
	return dv_retry_cause_name((dv_retry_cause) cause);
}

static const char *
throttle_name(int cause)
{
	return dv_throttle_code((dv_throttle_cause) cause);
}

/* Puts a JSON object with a member for each number that is not 0. */
static void
put_numbers(view_row *r, int n, const char *(*name_of) (int), const double *numbers)
{
	StringInfoData buf;
	int			i;

	initStringInfo(&buf);
	for (i = 0; i < n; i++)
	{
		if (numbers[i] == 0)
			continue;
		appendStringInfoString(&buf, buf.len > 0 ? ", " : "{");
		escape_json(&buf, name_of(i));
		appendStringInfo(&buf, ": %.15g", numbers[i]);
	}
	appendStringInfoString(&buf, buf.len > 0 ? "}" : "{}");
	put(r, DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data)));
}

static void
put_counts(view_row *r, int n, const char *(*name_of) (int), const uint64 *counts)
{
	double	   *numbers = palloc(sizeof(double) * n);
	int			i;

	for (i = 0; i < n; i++)
		numbers[i] = (double) counts[i];
	put_numbers(r, n, name_of, numbers);
}

/* In milliseconds, with microseconds as decimals. */
static void
put_averages(view_row *r, const dv_rate *rate)
{
	double		numbers[DV_KINDS];
	int			i;

	for (i = 0; i < DV_KINDS; i++)
		numbers[i] = (double) (int64) (rate->average[i] + 0.5) / DV_MILLISECOND;
	put_numbers(r, DV_KINDS, kind_name, numbers);
}

/* Puts the time of a request, in milliseconds, that of a row, and the size of a row. */
static void
put_latency(view_row *r, const dv_latency *latency)
{
	dv_latency_estimate estimate;
	bool		known = dv_latency_estimate_of(latency, &estimate);

	if (!known)
	{
		put_null(r);
		put_null(r);
		put_null(r);
		return;
	}
	/* more digits would suggest a precision that the values do not have */
	put(r, Float8GetDatum(rint(estimate.request * 100) / 100));
	put(r, Float8GetDatum(rint(estimate.byte * estimate.row_bytes * 100000) / 100000));
	put_count(r, rint(estimate.row_bytes));
}

/* For the kinds that are slow. */
static void
put_execution_ceilings(view_row *r, const dv_rate *rate, const dv_rate_config *config)
{
	double		numbers[DV_KINDS];
	int			i;

	for (i = 0; i < DV_KINDS; i++)
	{
		int			ceiling = dv_rate_execution_ceiling(rate, config, (dv_kind) i);

		numbers[i] = config->adaptive && ceiling < rate->max ? ceiling : 0;
	}
	put_numbers(r, DV_KINDS, kind_name, numbers);
}

/* What is known of the user's environment; base durations are those without load. */
static void
put_useful(view_row *r, const dv_useful *useful)
{
	double		numbers[DV_KINDS];
	int			i;

	put_count(r, dv_useful_peek(useful) > 0 ? dv_useful_peek(useful) : -1);
	if (useful->g > 0)
		put(r, Float8GetDatum(rint(useful->g * 100) / 100));
	else
		put_null(r);
	for (i = 0; i < DV_KINDS; i++)
		numbers[i] = rint(dv_useful_base(useful, (dv_kind) i)) / DV_MILLISECOND;
	put_numbers(r, DV_KINDS, kind_name, numbers);
}

static uint64
sum_of(const uint64 *counts, int n)
{
	uint64		sum = 0;

	while (n-- > 0)
		sum += counts[n];
	return sum;
}

/* The columns of dataverse_private.pool_users(), in order. */
static bool
fill_user(view_row *r, const void *item, int64 now)
{
	const dv_user_stats *stats = item;
	const dv_shared_user *user = &stats->user;
	const dv_shared_view *view = &stats->view;
	const dv_rate *rate = &user->rate;
	bool		throttled = view->policy.throttle_tracking &&
	dv_throttle_active(&user->throttle, now);
	bool		braked = rate->throttle_ceiling > 0 && now < rate->throttle_ceiling_until;

	if (!dv_audience_sees_user(r->audience, view->databaseid, view->serverid, user->key, stats->in_use))
		return false;
	put_server(r, view->databaseid, view->server);
	put_name(r, view->name);
	put_name(r, view->url);
	put(r, BoolGetDatum(throttled));
	put_time(r, throttled ? user->throttle.until : 0, now);
	put(r, Int32GetDatum(rate->current));
	put(r, Int32GetDatum(stats->maximum));
	put(r, Int32GetDatum(rate->last_known_good));
	put(r, BoolGetDatum(dv_rate_known_good_stale(rate, &view->policy.rate, now)));
	put(r, Int32GetDatum(stats->limit));
	put(r, CStringGetTextDatum(stats->limited_by));
	put_time(r, stats->limited_until, now);
	put_count(r, braked ? rate->throttle_ceiling : -1);
	put_time(r, braked ? rate->throttle_ceiling_until : 0, now);
	put_execution_ceilings(r, rate, &view->policy.rate);
	put_useful(r, &stats->useful);
	put(r, Int32GetDatum(user->in_flight));
	put_averages(r, rate);
	put_latency(r, &user->latency);
	put_count(r, user->remaining[DV_RATION_REQUESTS]);
	if (user->remaining[DV_RATION_SECONDS] < 0)
		put_null(r);
	else
		put_interval(r, (int64) (user->remaining[DV_RATION_SECONDS] * DV_SECOND));
	put(r, Int32GetDatum(rate->successes));
	put_time(r, user->throttle.last_at, now);
	if (user->throttle.last_at == 0)
		put_null(r);
	else
		put_interval(r, user->throttle.last_retry_after);
	put_time(r, rate->last_increase, now);
	put_time(r, rate->last_activity, now);
	put(r, Int64GetDatum((int64) sum_of(user->requests, DV_KINDS)));
	put_counts(r, DV_KINDS, kind_name, user->rows);
	put(r, Int64GetDatum((int64) user->bytes_sent));
	put(r, Int64GetDatum((int64) user->bytes_received));
	put(r, Int64GetDatum((int64) user->failures));
	put_counts(r, DV_RETRY_CAUSES, retry_name, user->retries);
	put_counts(r, DV_THROTTLE_CAUSES, throttle_name, user->throttle.events);
	put_interval(r, user->waited);
	put(r, Int64GetDatum((int64) dv_throttle_events(&user->throttle)));
	put_interval(r, user->throttle.total_backoff);
	put(r, BoolGetDatum(stats->is_private));
	return true;
}

/* The columns of dataverse_private.throttle_events(), in order. */
static bool
fill_event(view_row *r, const void *item, int64 now)
{
	const dv_event_stats *stats = item;
	const dv_history *event = &stats->event;

	if (!dv_audience_sees_user(r->audience, stats->databaseid, stats->serverid, stats->key, stats->in_use))
		return false;
	put_time(r, event->at, now);
	put_server(r, stats->databaseid, stats->server);
	put_name(r, stats->name);
	put(r, CStringGetTextDatum(dv_throttle_code(event->cause)));
	put_interval(r, event->retry_after);
	put(r, BoolGetDatum(event->fallback));
	put(r, CStringGetTextDatum(dv_kind_name(event->kind)));
	put(r, Int32GetDatum(event->in_flight));
	return true;
}

/*
 * Returns the requests in flight.  A request that waits to be sent does not count, as it has no
 * slot in dataverse.pool.
 */
static int
in_flight(const dv_progress_stats *stats)
{
	if (stats->counts.in_flight != DV_PROGRESS_ONE)
		return stats->counts.in_flight;
	switch (stats->slot.waiting_for)
	{
		case DV_WAIT_CONNECT:
		case DV_WAIT_RESPONSE:
			return 1;
		default:
			return 0;
	}
}

/* The columns of dataverse_private.progress_rows(), in order. */
static bool
fill_progress(view_row *r, const void *item, int64 now)
{
	const dv_progress_stats *stats = item;
	const dv_progress_slot *slot = &stats->slot;
	const dv_progress_counts *counts = &stats->counts;
	dv_sight	sight = dv_audience_sees_operation(r->audience, slot->databaseid, slot->serverid,
												   slot->roleid);

	if (sight == DV_SEES_NOTHING)
		return false;
	put(r, Int32GetDatum(slot->pid));
	put_server(r, slot->databaseid, slot->server);
	r->hidden = sight == DV_SEES_OUTLINE;
	put_name(r, slot->table);
	put(r, CStringGetTextDatum(slot->operation));
	put_count(r, stats->total);
	put_count(r, counts->taken);
	put_count(r, counts->reads ? -1 : counts->sent);
	put_count(r, counts->reads ? -1 : counts->acknowledged);
	put_count(r, counts->reads ? -1 : counts->rejected);
	r->hidden = false;
	put(r, Int32GetDatum(in_flight(stats)));
	r->hidden = sight == DV_SEES_OUTLINE;
	/* more digits would suggest a precision that the values do not have */
	put(r, Float8GetDatum(rint(stats->per_second * 10) / 10));
	put(r, Float8GetDatum(rint(stats->per_second_overall * 10) / 10));
	r->hidden = false;
	if (slot->waiting_for < 0)
		put_null(r);
	else
		put(r, CStringGetTextDatum(dv_wait_reason_name((dv_wait_reason) slot->waiting_for)));
	put_time(r, slot->started, now);
	r->hidden = sight == DV_SEES_OUTLINE;
	if (stats->left < 0)
		put_null(r);
	else
		put_interval(r, stats->left);
	return true;
}

/* Returns the rows that the caller may see. */
static Datum
show(FunctionCallInfo fcinfo, int ncolumns, const void *items, int n, size_t size, int64 now,
	 bool (*fill) (view_row *, const void *, int64))
{
	ReturnSetInfo *result = dv_result_rows(fcinfo, ncolumns);
	dv_audience *audience = dv_audience_create();
	int			i;

	for (i = 0; i < n; i++)
	{
		view_row	r = {.audience = audience};

		if (fill(&r, (const char *) items + i * size, now))
		{
			Assert(r.n == ncolumns);
			dv_result_add(result, r.values, r.nulls);
		}
	}
	return (Datum) 0;
}

Datum
dataverse_pool_users(PG_FUNCTION_ARGS)
{
	int64		now = dv_now();
	int			n;
	dv_user_stats *stats = dv_stats_users(now, &n);

	return show(fcinfo, 42, stats, n, sizeof(*stats), now, fill_user);
}

Datum
dataverse_throttle_events(PG_FUNCTION_ARGS)
{
	int64		now = dv_now();
	int			n;
	dv_event_stats *stats = dv_stats_events(&n);

	return show(fcinfo, 9, stats, n, sizeof(*stats), now, fill_event);
}

Datum
dataverse_progress_rows(PG_FUNCTION_ARGS)
{
	int64		now = dv_now();
	int			n;
	dv_progress_stats *stats = dv_stats_progress(now, &n);

	return show(fcinfo, 16, stats, n, sizeof(*stats), now, fill_progress);
}

/* Only the owner of a server may reset it. */

static Oid
owned_server(Name name)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*name), false);

	if (!dv_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, server->servername);
	return server->serverid;
}

Datum
dataverse_reset_pool(PG_FUNCTION_ARGS)
{
	Oid			serverid = owned_server(PG_GETARG_NAME(0));
	const char *name = PG_NARGS() > 1 ? text_to_cstring(PG_GETARG_TEXT_PP(1)) : NULL;
	int			n = dv_stats_reset_pool(MyDatabaseId, serverid,
										name != NULL ? dv_text_common(name, DV_NAME_LEN) : NULL);

	if (name != NULL && n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("application user \"%s\" of server \"%s\" has not been used",
						name, NameStr(*PG_GETARG_NAME(0))),
				 errhint("The view dataverse.pool lists their names.")));
	PG_RETURN_INT32(n);
}

Datum
dataverse_reset_stats(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(dv_stats_reset_counters(MyDatabaseId, owned_server(PG_GETARG_NAME(0))));
}
