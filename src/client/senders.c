/*
 * senders.c
 *		Which application users may send a call.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/senders.h"
#include "client/trouble.h"

#define TOKEN_PATIENCE DV_SECOND

uint64
dv_senders_choose(const dv_senders *senders, int64 *until)
{
	return dv_standing_choose(dv_session_standing(senders->session), senders->allowed,
							  &senders->deed, until);
}

bool
dv_senders_tried(const dv_senders *senders)
{
	return dv_standing_being_tried(dv_session_standing(senders->session), senders->allowed,
								   &senders->deed);
}

dv_tokens
dv_senders_tokens(const dv_senders *senders, uint64 users)
{
	dv_tokens	tokens = {0};
	uint64		unasked = 0;
	int64		asked_at = 0;
	int			i;

	for (i = 0; i < dv_pool_size(dv_session_pool(senders->session)); i++)
	{
		const dv_token *token = dv_session_access_token(senders->session, i);
		uint64		user = users & UINT64CONST(1) << i;

		if (user == 0)
			continue;
		asked_at = Max(asked_at, dv_token_requested_at(token));
		if (dv_token_usable(token))
			tokens.senders |= user;
		else if (dv_token_requested_at(token) != 0)
			tokens.awaited |= user;
		else
			unasked |= user;
	}
	if (tokens.awaited == 0 || dv_now() >= asked_at + TOKEN_PATIENCE)
		tokens.senders |= unasked;
	else if (unasked != 0)
		tokens.next_at = asked_at + TOKEN_PATIENCE;
	return tokens;
}

uint64
dv_senders_others(const dv_senders *senders, int user)
{
	return senders->allowed & ~(UINT64CONST(1) << user);
}

static const char *
user_name(const dv_senders *senders, int user)
{
	return dv_pool_user_name(dv_session_pool(senders->session), user);
}

/* The text of an error is freed with its attempt. */
static void
keep_refusal(dv_senders *senders, int user, const dv_error *error)
{
	MemoryContext old = MemoryContextSwitchTo(senders->context);

	senders->refusal = palloc(sizeof(*senders->refusal));
	dv_trouble_copy(senders->refusal, error);
	senders->refusal->user = user_name(senders, user);
	MemoryContextSwitchTo(old);
}

bool
dv_senders_blame(dv_senders *senders, int user, const dv_error *error)
{
	if (error->verdict == DV_VERDICT_AUTH ?
		!dv_token_hopeless(dv_session_access_token(senders->session, user)) :
		error->verdict != DV_VERDICT_REFUSED || !dv_error_is_about_user(error))
		return false;
	dv_standing_refused(dv_session_standing(senders->session), user, &senders->deed, error);
	senders->in_vain |= UINT64CONST(1) << user;
	if (error->verdict == DV_VERDICT_REFUSED && error->meaning != DV_MEANING_USER)
		keep_refusal(senders, user, error);
	return true;
}

/* If the trouble may pass, a user in good standing is preferred, but none is crossed out. */
dv_retry_decision
dv_senders_no_token(dv_senders *senders, dv_retry *retry, int user, dv_error *error)
{
	const dv_token_error *reason =
	dv_token_last_error(dv_session_access_token(senders->session, user));
	dv_standing *standing = dv_session_standing(senders->session);
	uint64		others = dv_senders_others(senders, user);
	dv_retry_decision decision;
	MemoryContext old;

	dv_standing_no_token(standing, user, reason);
	decision = dv_trouble_no_token(senders->session, retry, reason, user,
								   reason->transient ?
								   dv_standing_any(standing, others, &senders->deed) : others != 0);
	if (!reason->transient || decision.next == DV_NEXT_END)
	{
		senders->in_vain |= UINT64CONST(1) << user;
		senders->allowed = others;
	}
	if (decision.next != DV_NEXT_END)
		return decision;
	/* the token may be requested again before the error is shown, so copy everything */
	old = MemoryContextSwitchTo(senders->context);
	dv_trouble_set(error, reason->throttled ? DV_VERDICT_THROTTLED : DV_VERDICT_REFUSED,
				   reason->throttled ? ERRCODE_CONFIGURATION_LIMIT_EXCEEDED :
				   ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
				   psprintf("could not get a token for application user \"%s\": %s",
							user_name(senders, user), reason->message),
				   reason->hint != NULL ? pstrdup(reason->hint) : NULL);
	error->user = user_name(senders, user);
	MemoryContextSwitchTo(old);
	return decision;
}

void
dv_senders_explain(const dv_senders *senders, int user, dv_error *error)
{
	MemoryContext old = MemoryContextSwitchTo(senders->context);
	const char *hint;
	bool		throttled = error->verdict == DV_VERDICT_THROTTLED;

	if (error->verdict == DV_VERDICT_AUTH &&
		(hint = dv_token_hint(dv_session_access_token(senders->session, user))) != NULL)
		error->hint = hint;
	/* a user that gets a token later may have the privilege */
	if (senders->refusal != NULL && !throttled)
		*error = *senders->refusal;
	else
		error->meaning = DV_MEANING_USER;
	if ((senders->refusal == NULL || throttled) && (senders->in_vain & (senders->in_vain - 1)) != 0)
		error->message = psprintf("no application user can be used: %s",
								  dv_standing_reasons(dv_session_standing(senders->session),
													  senders->in_vain));
	error->verdict = throttled ? DV_VERDICT_THROTTLED : DV_VERDICT_REFUSED;
	MemoryContextSwitchTo(old);
}
