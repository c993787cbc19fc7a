/*
 * standing.c
 *		Application users in trouble.
 *
 * The log has one line when a user is set aside and one when it is back, but
 * none for attempts in between.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/memutils.h"

#include "client/standing.h"

/* The most that are remembered; the one that ends first makes room. */
#define LACKS_MAX 32

/* A privilege that a user lacks. */
typedef struct lack
{
	int			user;
	dv_kind		kind;
	char	   *table;			/* NULL: this record is free */
	dv_aside	aside;
	bool		tried;			/* a request is under way that tries the user for this */
} lack;

struct dv_standing
{
	MemoryContext context;
	dv_pool    *pool;
	const char *server_name;
	dv_aside   *asides;			/* for each user */
	bool	   *tried;			/* for each user: a request is under way that tries it */
	char	  **reasons;		/* for each user, of its last trouble; or NULL */
	lack		lacks[LACKS_MAX];
};

dv_standing *
dv_standing_create(dv_pool *pool, const char *server_name)
{
	dv_standing *standing = palloc0(sizeof(*standing));

	standing->context = CurrentMemoryContext;
	standing->pool = pool;
	standing->server_name = server_name;
	standing->asides = palloc0(dv_pool_size(pool) * sizeof(dv_aside));
	standing->tried = palloc0(dv_pool_size(pool) * sizeof(bool));
	standing->reasons = palloc0(dv_pool_size(pool) * sizeof(char *));
	return standing;
}

static lack *
find_lack(dv_standing *standing, int user, const dv_deed *deed)
{
	int			i;

	for (i = 0; i < LACKS_MAX; i++)
	{
		lack	   *l = &standing->lacks[i];

		if (l->table != NULL && l->user == user && l->kind == deed->kind &&
			strcmp(l->table, deed->table) == 0)
			return l;
	}
	return NULL;
}

static lack *
make_lack(dv_standing *standing, int user, const dv_deed *deed)
{
	char	   *table = MemoryContextStrdup(standing->context, deed->table);
	lack	   *l = &standing->lacks[0];
	int			i;

	for (i = 1; i < LACKS_MAX && l->table != NULL; i++)
		if (standing->lacks[i].table == NULL || standing->lacks[i].aside.until < l->aside.until)
			l = &standing->lacks[i];
	if (l->table != NULL)
		pfree(l->table);
	memset(l, 0, sizeof(*l));
	l->user = user;
	l->kind = deed->kind;
	l->table = table;
	return l;
}

/*
 * Returns the time until which the user is set aside for this deed, or 0 if it is not;
 * PG_INT64_MAX while another request tries it.
 */
static int64
aside_until(dv_standing *standing, int user, const dv_deed *deed, int64 now)
{
	const lack *l = find_lack(standing, user, deed);
	int64		until = standing->asides[user].until;

	if (standing->tried[user] || (l != NULL && l->tried))
		return PG_INT64_MAX;
	if (l != NULL && l->aside.until > until)
		until = l->aside.until;
	return until > now ? until : 0;
}

uint64
dv_standing_choose(dv_standing *standing, uint64 users, const dv_deed *deed, int64 *until)
{
	int64		now = dv_now();
	uint64		good = 0;
	int			i;

	*until = PG_INT64_MAX;
	for (i = 0; i < dv_pool_size(standing->pool); i++)
	{
		int64		aside;

		if ((users >> i & 1) == 0)
			continue;
		aside = aside_until(standing, i, deed, now);
		if (aside == 0)
			good |= UINT64CONST(1) << i;
		else
			*until = Min(*until, aside);
	}
	if (good == 0 || *until == PG_INT64_MAX)
		*until = 0;
	return good != 0 ? good : users;
}

bool
dv_standing_being_tried(dv_standing *standing, uint64 users, const dv_deed *deed)
{
	int			i;

	for (i = 0; i < dv_pool_size(standing->pool); i++)
		if ((users >> i & 1) != 0 && aside_until(standing, i, deed, 0) == PG_INT64_MAX)
			return true;
	return false;
}

bool
dv_standing_try(dv_standing *standing, int user, const dv_deed *deed)
{
	lack	   *l = find_lack(standing, user, deed);
	bool		whole = standing->asides[user].times > 0;

	if (whole)
		standing->tried[user] = true;
	if (l != NULL)
		l->tried = true;
	return whole || l != NULL;
}

void
dv_standing_tried(dv_standing *standing, int user, const dv_deed *deed)
{
	lack	   *l = find_lack(standing, user, deed);

	standing->tried[user] = false;
	if (l != NULL)
		l->tried = false;
}

bool
dv_standing_any(dv_standing *standing, uint64 users, const dv_deed *deed)
{
	int64		now = dv_now();
	int			i;

	for (i = 0; i < dv_pool_size(standing->pool); i++)
		if ((users >> i & 1) != 0 && aside_until(standing, i, deed, now) == 0)
			return true;
	return false;
}

/* Remembers the reason, which an error may quote much later. */
static void
set_reason(dv_standing *standing, int user, const char *reason)
{
	char	   *copy;

	if (standing->reasons[user] != NULL && strcmp(standing->reasons[user], reason) == 0)
		return;
	copy = MemoryContextStrdup(standing->context, reason);
	if (standing->reasons[user] != NULL)
		pfree(standing->reasons[user]);
	standing->reasons[user] = copy;
}

/* "whole": for all requests, with the reason that all roles may see. */
static void
set_aside(dv_standing *standing, int user, const char *reason, const char *brief, int64 told)
{
	dv_aside   *aside = &standing->asides[user];
	int64		before = aside->until;

	set_reason(standing, user, reason);
	if (dv_aside_set(aside, told, dv_now()))
		ereport(LOG,
				(errmsg("application user \"%s\" of server \"%s\" is set aside",
						dv_pool_user_name(standing->pool, user), standing->server_name),
				 errdetail_internal("%s", reason)));
	if (aside->until != before)
		dv_pool_show_aside(standing->pool, user, aside->until, true, brief);
}

void
dv_standing_no_token(dv_standing *standing, int user, const dv_token_error *error)
{
	set_aside(standing, user, error->message, error->brief, error->retry_after);
}

static void
set_aside_for(dv_standing *standing, int user, const dv_deed *deed, const char *reason)
{
	lack	   *l = find_lack(standing, user, deed);
	int64		before;

	set_reason(standing, user, reason);
	if (l == NULL)
		l = make_lack(standing, user, deed);
	before = l->aside.until;
	if (dv_aside_set(&l->aside, 0, dv_now()))
		ereport(LOG,
				(errmsg("application user \"%s\" of server \"%s\" is set aside for requests of kind \"%s\" to \"%s\"",
						dv_pool_user_name(standing->pool, user), standing->server_name,
						dv_kind_name(deed->kind), deed->table),
				 errdetail_internal("%s", reason)));
	if (l->aside.until != before && !dv_aside_active(&standing->asides[user], dv_now()))
		dv_pool_show_aside(standing->pool, user, l->aside.until, false,
						   psprintf("%s %s: %s", dv_kind_name(deed->kind), deed->table, reason));
}

void
dv_standing_refused(dv_standing *standing, int user, const dv_deed *deed, const dv_error *error)
{
	if (error->verdict == DV_VERDICT_AUTH || error->meaning == DV_MEANING_USER)
		set_aside(standing, user, error->message, error->message, 0);
	else if (error->meaning == DV_MEANING_PRIVILEGE)
		set_aside_for(standing, user, deed, error->message);
	else
		set_reason(standing, user, error->message);
}

void
dv_standing_proved(dv_standing *standing, int user, const dv_deed *deed, int64 sent_at)
{
	lack	   *l = deed != NULL ? find_lack(standing, user, deed) : NULL;
	bool		whole = dv_aside_clear(&standing->asides[user], sent_at);

	if (l != NULL && !dv_aside_clear(&l->aside, sent_at))
		l = NULL;
	if (!whole && l == NULL)
		return;
	if (whole)
		ereport(LOG,
				(errmsg("application user \"%s\" of server \"%s\" is available again",
						dv_pool_user_name(standing->pool, user), standing->server_name)));
	if (l != NULL)
	{
		ereport(LOG,
				(errmsg("application user \"%s\" of server \"%s\" is available again for requests of kind \"%s\" to \"%s\"",
						dv_pool_user_name(standing->pool, user), standing->server_name,
						dv_kind_name(deed->kind), deed->table)));
		pfree(l->table);
		l->table = NULL;
	}
	dv_pool_show_aside(standing->pool, user, 0, whole, "");
}

void
dv_standing_withdraw(const dv_standing *standing)
{
	int			i;

	for (i = 0; i < dv_pool_size(standing->pool); i++)
		if (standing->asides[i].until > 0)
			dv_pool_hide_aside(standing->pool, i, standing->asides[i].until);
	for (i = 0; i < LACKS_MAX; i++)
		if (standing->lacks[i].table != NULL)
			dv_pool_hide_aside(standing->pool, standing->lacks[i].user,
							   standing->lacks[i].aside.until);
}

const char *
dv_standing_reasons(const dv_standing *standing, uint64 users)
{
	StringInfoData buf;
	int			i;

	initStringInfo(&buf);
	for (i = 0; i < dv_pool_size(standing->pool); i++)
		if ((users >> i & 1) != 0 && standing->reasons[i] != NULL)
			appendStringInfo(&buf, "%s\"%s\": %s", buf.len > 0 ? "; " : "",
							 dv_pool_user_name(standing->pool, i), standing->reasons[i]);
	return buf.data;
}
