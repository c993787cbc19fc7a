/*
 * turn.c
 *		Finds a user that has a token and a slot for a call.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/trouble.h"
#include "client/turn.h"

static void
fail(dv_call *call, dv_verdict verdict, int sqlstate, const char *message, const char *hint)
{
	dv_trouble_set(&call->error, verdict, sqlstate, message, hint);
	dv_call_finish(call);
}

static void
token_failed(dv_call *call, int user)
{
	dv_retry_decision decision = dv_senders_no_token(&call->senders, &call->retry, user,
													 &call->error);

	if (decision.next != DV_NEXT_END)
	{
		dv_call_again(call, decision.delay);
		return;
	}
	dv_senders_explain(&call->senders, call->user, &call->error);
	dv_call_finish(call);
}

/*
 * Checks the requests for tokens.  Returns false if one has failed; the state
 * of the call has then been set accordingly.
 */
static bool
heed_tokens(dv_call *call, uint64 users)
{
	dv_bearer  *bearer;
	int			i;

	for (i = 0; i < dv_pool_size(dv_session_pool(call->session)); i++)
	{
		dv_token   *token = dv_session_access_token(call->session, i);

		if ((users >> i & 1) == 0 || !dv_token_has_news(token) ||
			dv_token_poll(token, &bearer) != DV_TOKEN_FAILED)
			continue;
		/* while it rests, it must not be woken */
		dv_lease_drop(&call->lease);
		token_failed(call, i);
		return false;
	}
	return true;
}

/*
 * Ends the call because all users are throttled for too long; the error names the one that will
 * be free first.
 */
static void
refuse_to_wait(dv_call *call, int user, int64 wait)
{
	dv_throttle throttle = dv_pool_throttle(dv_session_pool(call->session), user);

	fail(call, DV_VERDICT_THROTTLED, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
		 MemoryContextStrdup(call->context,
							 psprintf("all application users are throttled for another %.*f s, which exceeds \"max_retry_after_tolerance\"",
									  wait < 10 * DV_SECOND ? 1 : 0, (double) wait / DV_SECOND)),
		 "Add application users to the user mapping, or raise \"max_retry_after_tolerance\" of the server.");
	if (throttle.last_cause != DV_THROTTLE_OTHER)
		call->error.code = dv_throttle_code(throttle.last_cause);
	call->error.retry_after = throttle.last_retry_after;
	call->error.user = dv_pool_user_name(dv_session_pool(call->session), user);
}

static void
wait_for_throttle(dv_call *call, const dv_choice *choice)
{
	const dv_session_config *config = dv_session_config_of(call->session);
	int64		wait = choice->until - dv_now();

	if (!dv_retry_tolerates(&config->retry, wait))
	{
		refuse_to_wait(call, choice->user, wait);
		return;
	}
	if (!call->wait_logged)
		ereport(LOG,
				(errmsg("all application users of server \"%s\" are throttled, waiting %.1f s",
						config->server_name, (double) wait / DV_SECOND)));
	call->wait_logged = true;
	dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_THROTTLE, choice->until);
}

static void
slot_timed_out(dv_call *call)
{
	const dv_session_config *config = dv_session_config_of(call->session);

	fail(call, DV_VERDICT_REFUSED, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
		 MemoryContextStrdup(call->context,
							 psprintf("all request slots of the application users remained in use for %g s, the value of \"slot_timeout\"",
									  (double) config->pool.slot_timeout / DV_SECOND)),
		 "Add application users to the user mapping, run fewer statements at a time, or raise \"slot_timeout\" of the server.");
}

/* Returns the earlier of two times; 0 means none. */
static int64
earlier(int64 a, int64 b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Notes that there is no slot. */
static void
wait_for_slot(dv_call *call, const dv_choice *choice, const dv_tokens *tokens)
{
	switch (choice->kind)
	{
		case DV_CHOICE_THROTTLED:
			if (tokens->awaited != 0)
				dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_TOKEN, choice->until);
			else if (dv_senders_tried(&call->senders))
				dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_SLOT, choice->until);
			else
				wait_for_throttle(call, choice);
			return;
		case DV_CHOICE_BUSY:
		case DV_CHOICE_PACED:
			dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_SLOT, choice->until);
			return;
		case DV_CHOICE_TIMEOUT:
			slot_timed_out(call);
			return;
		case DV_CHOICE_USER:
		case DV_CHOICE_NONE:
			elog(ERROR, "no application user is left");
	}
}

/* Gives the call to one of the users, or notes what it waits for. */
static void
try_users(dv_call *call, uint64 users, int64 until)
{
	dv_pool    *pool = dv_session_pool(call->session);
	int			last_user = call->user;

	while (true)
	{
		dv_tokens	tokens = dv_senders_tokens(&call->senders, users);
		dv_choice	choice;
		dv_token   *token;
		dv_token_state state;
		dv_bearer  *bearer;

		until = earlier(until, tokens.next_at);
		if (tokens.senders == 0)
		{
			dv_lease_drop(&call->lease);
			dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_TOKEN, until);
			return;
		}
		choice = dv_pool_acquire(pool, call->spec.kind, tokens.senders, &call->lease);
		if (choice.kind != DV_CHOICE_USER)
		{
			choice.until = earlier(choice.until, until);
			wait_for_slot(call, &choice, &tokens);
			return;
		}
		token = dv_session_access_token(call->session, choice.user);
		state = dv_token_poll(token, &bearer);
		if (state == DV_TOKEN_READY)
		{
			if (call->attempts > 0 && choice.user != last_user)
				ereport(DEBUG1,
						(errmsg_internal("request continues with application user \"%s\"",
										 dv_pool_user_name(pool, choice.user))));
			dv_call_send(call, bearer);
			return;
		}
		dv_lease_drop(&call->lease);
		if (state == DV_TOKEN_FAILED)
		{
			token_failed(call, choice.user);
			return;
		}
		/* there was no descriptor for a request for it */
		if (dv_token_requested_at(token) == 0)
			users &= ~(UINT64CONST(1) << choice.user);
	}
}

void
dv_turn_try(dv_call *call)
{
	bool		held = call->spec.hold != NULL && *call->spec.hold;
	uint64		users;
	int64		until;

	if (call->not_before > dv_now())
	{
		dv_call_set_state(call, DV_CALL_WANTS_SLOT, DV_WAIT_BACKOFF, call->not_before);
		return;
	}
	if (held || dv_http_room_for(dv_session_client(call->session), false) == DV_HTTP_ROOM_LATER)
	{
		/* pass on the wake-up of this call */
		dv_lease_drop(&call->lease);
		dv_call_set_state(call, DV_CALL_WANTS_SLOT, held ? DV_WAIT_SLOT : DV_WAIT_CONNECT, 0);
		return;
	}
	/* at "until", a user that is set aside may be tried again */
	users = dv_senders_choose(&call->senders, &until);
	if (heed_tokens(call, users))
		try_users(call, users, until);
}
