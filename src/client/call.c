/*
 * call.c
 *		One request to Dataverse, repeated until it is answered for good.
 *
 * A call cycles through a few states: it wants a slot, is on the wire, and
 * then is either done or wants a slot again, at once (if another user is free)
 * or after a backoff.  The rules of retry.h decide whether it is sent again.
 * No call belongs to a user before it is sent: after each event, a user that
 * can send it is chosen anew.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "client/answer.h"
#include "client/call.h"
#include "client/trouble.h"
#include "client/turn.h"
#include "dataverse/header.h"
#include "net/xact.h"
#include "pool/progress.h"

#define SCARCITY_PAUSE	(DV_SECOND / 10)

dv_call_totals dv_totals_of_calls = {0};

static dlist_head calls = DLIST_STATIC_INIT(calls);
static bool sent = false;		/* a request has been started since the calls were last advanced */
static bool watched = false;	/* dv_call_watch has reported a wait that has not ended yet */

/*
 * Tells the token how its bearer fared.  Returns true if this call is the first to find it
 * refused.
 */
static bool
note_bearer_fate(dv_call *call, dv_bearer_fate fate)
{
	dv_bearer  *bearer = call->bearer;

	call->bearer = NULL;
	return bearer != NULL &&
		dv_token_note_fate(dv_session_access_token(call->session, call->user), bearer, fate);
}

void
dv_call_set_state(dv_call *call, dv_call_state state, dv_wait_reason reason, int64 until)
{
	static const char *const names[] = {"wants slot", "on wire", "done"};
	dv_call_state before = call->state;
	int64		now = dv_now();

	Assert(before != DV_CALL_DONE);
	Assert(state != DV_CALL_ON_WIRE || call->lease.pool != NULL);
	call->state = state;
	call->reason = reason;
	call->wake_at = until;
	if (state == before)
		return;
	if (state != DV_CALL_ON_WIRE)
	{
		if (call->tries)
			dv_standing_tried(dv_session_standing(call->session), call->user, &call->senders.deed);
		call->tries = false;
		dv_lease_drop(&call->lease);
		(void) note_bearer_fate(call, DV_BEARER_UNTOLD);
	}
	else
		call->waited += now - call->waiting_since;
	if (before == DV_CALL_ON_WIRE)
	{
		call->waiting_since = now;
		call->wait_logged = false;
	}
	elog(DEBUG5, "state of request to Dataverse: %s, formerly %s", names[state], names[before]);
}

static void
end(dv_call *call)
{
	if (call->state != DV_CALL_DONE)
		dv_call_set_state(call, DV_CALL_DONE, DV_WAIT_RESPONSE, 0);
}

/* Ends a call and notifies its owner. */
static void
end_for_owner(dv_call *call)
{
	end(call);
	if (call->spec.hold != NULL)
		*call->spec.hold = true;
}

static void
call_gone(void *arg)
{
	dv_call    *call = arg;

	/* a message at DEBUG5 would check for a cancel, but nothing may be raised here */
	HOLD_INTERRUPTS();
	end(call);
	dlist_delete(&call->node);
	RESUME_INTERRUPTS();
}

/* Ends a call without waiting for its answer. */
static void
abandon(dv_call *call)
{
	if (call->state == DV_CALL_DONE)
		return;
	if (call->http != NULL)
		dv_http_stop(call->http);
	/* forget what an earlier attempt has left */
	dv_trouble_set(&call->error, DV_VERDICT_REFUSED, ERRCODE_QUERY_CANCELED, "canceled", NULL);
	call->error.outcome_unknown = call->state == DV_CALL_ON_WIRE;
	call->stopped = true;
	end_for_owner(call);
}

static void
on_xact(XactEvent event)
{
	dlist_iter	iter;

	if (!dv_xact_is_abort(event))
		return;
	dlist_foreach(iter, &calls)
		abandon(dlist_container(dv_call, node, iter.cur));
	dv_pool_leave();
}

static void
on_subxact(const dv_subxact_end *end)
{
	dlist_iter	iter;

	dlist_foreach(iter, &calls)
	{
		dv_call    *call = dlist_container(dv_call, node, iter.cur);

		if (dv_subxact_ended(end, &call->subid))
			abandon(call);
	}
	if (end->aborted)
		dv_pool_leave();
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_STOP,
	.on_xact = on_xact,
	.on_subxact = on_subxact
};

dv_call *
dv_call_start(dv_session *session, const dv_call_spec *spec, MemoryContext owner)
{
	MemoryContext context = AllocSetContextCreate(owner, "dataverse call", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_call    *call = palloc0(sizeof(*call));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	int			n = dv_pool_size(dv_session_pool(session));

	dv_xact_join(&xact_participant);
	call->context = context;
	call->attempt = AllocSetContextCreate(context, "dataverse attempt", ALLOCSET_SMALL_SIZES);
	call->session = session;
	call->spec = *spec;
	call->spec.method = pstrdup(spec->method);
	call->url = dv_session_url(session, spec->path);
	call->subid = GetCurrentSubTransactionId();
	call->user = -1;
	if (spec->history != NULL)
		call->retry = *spec->history;
	if (spec->delay > 0)
		call->not_before = dv_now() + spec->delay;
	call->senders.session = session;
	call->senders.context = context;
	call->senders.deed.kind = spec->kind;
	call->senders.deed.table = spec->table != NULL ? pstrdup(spec->table) :
		dv_session_table(session, call->url);
	call->is_batch = strcmp(spec->path, "$batch") == 0;
	call->senders.allowed = spec->only != 0 ? spec->only :
		n >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << n) - 1;
	call->waiting_since = dv_now();
	callback->func = call_gone;
	callback->arg = call;
	dlist_push_tail(&calls, &call->node);
	MemoryContextRegisterResetCallback(context, callback);
	MemoryContextSwitchTo(old);
	return call;
}

/*
 * Sending.
 */

void
dv_call_send(dv_call *call, dv_bearer *bearer)
{
	const dv_session_config *config = dv_session_config_of(call->session);
	dv_http_request request = {0};
	MemoryContext old;

	call->http = NULL;
	MemoryContextReset(call->attempt);
	old = MemoryContextSwitchTo(call->attempt);
	call->user = call->lease.user;
	call->tries = dv_standing_try(dv_session_standing(call->session), call->user,
								  &call->senders.deed);
	call->bearer = bearer;
	request.method = call->spec.method;
	request.url = call->url;
	request.headers = dv_headers_of_request(dv_bearer_carry(bearer), config->caller_id,
											call->spec.headers, call->spec.body != NULL);
	request.body = call->spec.body;
	request.body_len = call->spec.body_len;
	request.timeout_ms = config->request_timeout_ms;
	request.max_response = dv_answer_largest(call->spec.kind, call->spec.rows);
	request.plain = dv_answer_is_dense(call->spec.kind, call->is_batch);
	request.affinity = true;

	/*
	 * a block that the statement calls may send its requests, and be rolled back before the
	 * answer
	 */
	request.subid = call->subid;
	call->attempts++;
	dv_totals_of_calls.requests++;
	call->retry.attempts++;
	if (call->spec.in_doubt != NULL)
		*call->spec.in_doubt = true;
	dv_lease_sent(&call->lease);
	call->http = dv_http_start(dv_session_client(call->session), &request, call->attempt);
	dv_call_set_state(call, DV_CALL_ON_WIRE, DV_WAIT_RESPONSE, 0);
	sent = true;
	MemoryContextSwitchTo(old);
}

/*
 * Reading the answer.
 */

void
dv_call_finish(dv_call *call)
{
	end_for_owner(call);
	call->error.attempts = call->retry.attempts;
	if (call->user >= 0)
	{
		if (call->error.user == NULL)
			call->error.user = dv_pool_user_name(dv_session_pool(call->session), call->user);
		dv_pool_count_wait(dv_session_pool(call->session), call->user, call->waited);
	}
}

void
dv_call_again(dv_call *call, int64 delay)
{
	call->not_before = dv_now() + delay;
	dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_BACKOFF, call->not_before);
}

static void
decide_next(dv_call *call, bool found_out)
{
	dv_attempt	attempt = {
		.user = call->user,
		.sent_at = call->lease.sent_at,
		.repeatable = call->spec.repeatable,
		.divisible = call->spec.divisible,
		.pool_told = call->pool_told,
		.others = dv_senders_others(&call->senders, call->user) != 0,
		.found_out = found_out,
	};
	dv_retry_decision decision;

	/*
	 * the details report each row on its own, so the caller repeats rows instead of the request
	 */
	if (call->error.details != NULL)
	{
		dv_call_finish(call);
		return;
	}
	/* descriptors become free when other requests end */
	if (dv_http_result_of(call->http)->failure == DV_HTTP_NO_DESCRIPTOR_YET &&
		!call->error.outcome_unknown)
	{
		call->causes[DV_RETRY_CONNECTION]++;
		dv_call_again(call, SCARCITY_PAUSE);
		return;
	}
	attempt.at_fault = dv_senders_blame(&call->senders, call->user, &call->error);
	decision = dv_trouble_decide(call->session, &call->retry, &call->error, &attempt);
	if (decision.next == DV_NEXT_AGAIN)
		call->causes[decision.cause]++;
	else if (decision.next == DV_NEXT_OTHER_USER)
		call->senders.allowed = dv_senders_others(&call->senders, call->user);
	if (decision.next != DV_NEXT_END)
	{
		dv_call_again(call, decision.delay);
		return;
	}
	if (attempt.at_fault || call->error.verdict == DV_VERDICT_AUTH)
		dv_senders_explain(&call->senders, call->user, &call->error);
	dv_call_finish(call);
}

/*
 * An answer shows whether the request was carried out.  However, if the
 * outcome of an earlier attempt is unknown, the refusal of a later one proves
 * nothing.
 */
static void
note_outcome(dv_call *call)
{
	/* the details say which rows were written and which were not */
	if (call->error.details != NULL)
		return;
	call->was_unknown |= call->error.outcome_unknown;
	if (call->spec.in_doubt != NULL && call->error.verdict != DV_VERDICT_OK && !call->was_unknown)
		*call->spec.in_doubt = false;
}

/* Notes the consistency token of a write to an elastic table. */
static void
note_consistency_token(const dv_call *call)
{
	const char *token = dv_http_header(call->http, "x-ms-session-token");
	const char *table = call->senders.deed.table;

	if (token != NULL && call->error.verdict == DV_VERDICT_OK && !call->is_batch &&
		table[0] != '\0' && strcmp(call->spec.method, "GET") != 0)
		dv_session_note_consistency_token(call->session, table, token);
}

/* Notes what an answer says about the user and its token.  Returns the same as note_bearer_fate. */
static bool
note_user(dv_call *call)
{
	dv_standing *standing = dv_session_standing(call->session);

	if (dv_http_result_of(call->http)->outcome != DV_HTTP_ANSWERED)
		return note_bearer_fate(call, DV_BEARER_UNTOLD);
	if (call->error.verdict == DV_VERDICT_AUTH)
		return note_bearer_fate(call, DV_BEARER_REFUSED);
	(void) note_bearer_fate(call, DV_BEARER_ACCEPTED);
	if (call->error.verdict != DV_VERDICT_OK)
		return false;
	dv_pool_prove(dv_session_pool(call->session), call->user);
	dv_standing_proved(standing, call->user,
					   call->is_batch && !call->spec.in_batch ? NULL : &call->senders.deed,
					   call->lease.sent_at);
	return false;
}

static void
read_answer(dv_call *call)
{
	MemoryContext old = MemoryContextSwitchTo(call->attempt);
	dv_answer	answer;
	dv_lease_report report;

	/* dv_session_url has made sure that the address begins with the root */
	dv_answer_log(call->http, call->spec.method,
				  call->url + strlen(dv_session_root(call->session)));
	dv_answer_read(call->http, call->spec.in_batch, &answer);
	call->error = answer.error;
	call->throttles += answer.nthrottles;
	dv_totals_of_calls.throttles += answer.nthrottles;
	call->pool_told = answer.nthrottles > 0;
	dv_trouble_log_throttles(call->session, &call->retry, call->user, &answer);
	dv_answer_report(call->http, &answer, call->spec.kind, call->spec.rows, &report);
	MemoryContextSwitchTo(old);
	note_outcome(call);
	note_consistency_token(call);
	dv_lease_release(&call->lease, &report);
	dv_pool_log_rate(dv_session_pool(call->session), call->user);
	decide_next(call, note_user(call));
}

/* Reads the answer, if it has arrived. */
static void
receive(dv_call *call)
{
	if (call->state != DV_CALL_ON_WIRE)
		return;
	if (dv_http_result_of(call->http)->outcome != DV_HTTP_PENDING)
		read_answer(call);
	else
		dv_lease_still_under_way(&call->lease);
}

/* Advances the call as far as possible without waiting. */
static void
advance(dv_call *call)
{
	dv_call_state before;

	do
	{
		before = call->state;
		switch (call->state)
		{
			case DV_CALL_WANTS_SLOT:
				dv_turn_try(call);
				break;
			case DV_CALL_ON_WIRE:
				receive(call);
				break;
			case DV_CALL_DONE:
				return;
		}
	} while (call->state != before);
}

/*
 * If an error is raised while a call changes its state, end the call: it may
 * belong to an outer transaction or a cursor, which continue.  Every log message
 * can raise an error, because it may be the first to notice a cancel.  Holding
 * interrupts instead would make a backend ignore a shutdown if its client does
 * not read such messages.
 */
static void
do_each(void (*step) (dv_call *))
{
	dv_call    *volatile current = NULL;

	PG_TRY();
	{
		dlist_iter	iter;

		dlist_foreach(iter, &calls)
		{
			current = dlist_container(dv_call, node, iter.cur);
			step(current);
		}
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		abandon(current);
		RESUME_INTERRUPTS();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
receive_all(void)
{
	if (watched)
		dv_progress_go_on();
	watched = false;
	dv_http_drive();
	do_each(receive);
}

static void
advance_all(void)
{
	receive_all();
	sent = false;
	do_each(advance);

	/*
	 * A request leaves when its socket is driven, and the backend may not come back for long:
	 * meanwhile it would hold a slot for a request that the service has not received.
	 */
	if (sent)
		dv_http_drive();
}

void
dv_call_advance(void)
{
	dv_pool_enter();
	advance_all();
	dv_pool_leave();
}

void
dv_call_receive(void)
{
	/* until the calls are advanced, a wake-up for one of them is not passed on */
	dv_pool_enter();
	receive_all();
}

/* Returns the reason why the call waits. */
static dv_wait_reason
reason_of(const dv_call *call)
{
	return call->state == DV_CALL_ON_WIRE && dv_http_connecting(call->http) ?
		DV_WAIT_CONNECT : call->reason;
}

/*
 * Lowers *until to the earliest time that a call waits for, and sets *reason
 * to why the first call waits.  Returns false if all calls are done.
 */
static bool
next_event(int64 *until, dv_wait_reason *reason)
{
	bool		found = false;
	dlist_iter	iter;

	dlist_foreach(iter, &calls)
	{
		const dv_call *call = dlist_container(dv_call, node, iter.cur);

		if (call->state == DV_CALL_DONE)
			continue;
		if (!found)
			*reason = reason_of(call);
		found = true;
		if (call->wake_at != 0 && (*until == 0 || call->wake_at < *until))
			*until = call->wake_at;
	}
	return found;
}

/*
 * All waits of a backend go through this function, except those in a WaitEventSet of PostgreSQL.
 */
static void
wait_for(int64 until, dv_wait_reason reason)
{
	int64		since = dv_now();

	dv_progress_wait(reason);
	dv_http_wait(until, dv_wait_reason_event(reason));
	dv_progress_go_on();
	dv_totals_of_calls.waited += dv_now() - since;
}

int
dv_call_watch(int64 until)
{
	dv_wait_reason reason;

	watched = next_event(&until, &reason);
	if (watched)
		dv_progress_wait(reason);
	dv_pool_watch();
	return dv_http_watch(until);
}

void
dv_call_watched(void)
{
	dv_http_waited();
}

void
dv_call_wait(dv_call *call)
{
	dv_pool_enter();
	advance_all();
	while (call->state != DV_CALL_DONE)
	{
		dv_wait_reason reason;
		int64		until = 0;

		(void) next_event(&until, &reason);
		wait_for(until, reason_of(call));
		advance_all();
	}
	dv_pool_leave();
}

void
dv_call_pause(int64 until, dv_wait_reason reason)
{
	dv_pool_enter();
	if (next_event(&until, &reason) || until != 0)
		wait_for(until, reason);
}

bool
dv_call_done(const dv_call *call)
{
	return call->state == DV_CALL_DONE;
}

bool
dv_call_waiting(const dv_call *call)
{
	return call->state == DV_CALL_WANTS_SLOT;
}

bool
dv_call_resting(const dv_call *call)
{
	return call->state == DV_CALL_WANTS_SLOT && call->not_before > dv_now();
}

const dv_error *
dv_call_error(const dv_call *call)
{
	return &call->error;
}

const dv_http_result *
dv_call_result(const dv_call *call)
{
	return call->http != NULL ? dv_http_result_of(call->http) : NULL;
}

const char *
dv_call_header(const dv_call *call, const char *name)
{
	return call->http != NULL ? dv_http_header(call->http, name) : NULL;
}

int
dv_call_user(const dv_call *call)
{
	return call->user;
}

bool
dv_call_stopped(const dv_call *call)
{
	return call->stopped;
}

int
dv_call_attempts(const dv_call *call)
{
	return call->attempts;
}

const dv_retry *
dv_call_history(const dv_call *call)
{
	return &call->retry;
}

void
dv_call_add_causes(const dv_call *call, int64 *causes)
{
	int			i;

	for (i = 0; i < DV_RETRY_CAUSES; i++)
		causes[i] += call->causes[i];
}

int
dv_call_throttles(const dv_call *call)
{
	return call->throttles;
}

int64
dv_call_sent_at(const dv_call *call)
{
	return call->lease.sent_at;
}

bool
dv_call_told_pool(const dv_call *call)
{
	return call->pool_told;
}

uint64
dv_call_others(dv_call *call, const dv_error *error)
{
	if (error->verdict != DV_VERDICT_REFUSED || !dv_error_is_about_user(error))
		return 0;
	/* all users were asked, and the error need not be about the last one */
	if (call->error.verdict != DV_VERDICT_OK && call->error.details == NULL)
		return 0;
	dv_standing_refused(dv_session_standing(call->session), call->user, &call->senders.deed, error);
	return dv_senders_others(&call->senders, call->user);
}

void
dv_call_served(dv_call *call)
{
	if (call->user >= 0)
		dv_pool_note_served(dv_session_pool(call->session), call->user);
}

void
dv_call_proved(dv_call *call)
{
	dv_standing_proved(dv_session_standing(call->session), call->user, &call->senders.deed,
					   call->lease.sent_at);
}

bool
dv_call_was_unknown(const dv_call *call)
{
	return call->was_unknown;
}

void
dv_call_free(dv_call *call)
{
	MemoryContextDelete(call->context);
}

dv_call *
dv_call_run(dv_session *session, const dv_call_spec *spec, const char *what, MemoryContext owner)
{
	dv_call    *call = dv_call_start(session, spec, owner);

	dv_call_wait(call);
	if (call->error.verdict != DV_VERDICT_OK)
		dv_trouble_raise(&call->error, dv_session_config_of(session), what);
	return call;
}
