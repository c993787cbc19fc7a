/*
 * auth.c
 *		Application users and their tokens.
 *
 * Tokens are opaque: 64 random digits in a hash table, with the user and the
 * virtual time at which they expire.  Expired ones stay until the table must
 * grow, so that they are reported as expired, not as unknown.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/assertion.h"
#include "wire/auth.h"
#include "store/guid.h"
#include "wire/request.h"
#include "store/store.h"

#define TOKEN_LEN 64
#define FIRST_SLOTS 256

struct account
{
	struct sim_user user;		/* first: a sim_user leads to its account */
	struct sim_credential *credential;
};

struct token
{
	char		text[TOKEN_LEN + 1];	/* "" in an empty slot */
	struct account *account;
	int64_t		expires_us;
};

struct sim_auth
{
	struct sim *sim;
	int64_t		lifetime_us;
	uint64_t	random;			/* not reset, so that tokens are never repeated */
	struct account **accounts;
	int			naccounts;
	struct account **users;		/* those that are users of the organisation */
	int			nusers;
	struct token *tokens;		/* linear probing */
	size_t		nslots;			/* a power of two */
	size_t		ntokens;
};

struct sim_auth *
sim_auth_new(struct sim *sim, int64_t lifetime_us)
{
	struct sim_auth *auth = sim_xalloc(sizeof(*auth));

	auth->sim = sim;
	auth->lifetime_us = lifetime_us;
	auth->random = sim->seed ^ UINT64_C(0x746f6b656e);
	auth->nslots = FIRST_SLOTS;
	auth->tokens = sim_xalloc(sizeof(struct token) * auth->nslots);
	return auth;
}

void
sim_auth_free(struct sim_auth *auth)
{
	if (auth == NULL)
		return;
	for (int i = 0; i < auth->naccounts; i++)
	{
		struct account *account = auth->accounts[i];

		free((char *) account->user.client_id);
		free((char *) account->user.secret);
		free((char *) account->user.certificate);
		sim_credential_free(account->credential);
		free(account);
	}
	free(auth->accounts);
	free(auth->users);
	free(auth->tokens);
	free(auth);
}

static void
push(struct account ***list, int *n, struct account *account)
{
	*list = sim_xrealloc(*list, sizeof(struct account *) * (size_t) (*n + 1));
	(*list)[(*n)++] = account;
}

static void
user_guid(const char *kind, const char *client_id, char out[37])
{
	struct sim_buf name = {0};

	sim_putf(&name, "%s:%s", kind, client_id);
	sim_guid_text_of_name(name.s, out);
	sim_buf_free(&name);
}

bool
sim_auth_add(struct sim_auth *auth, const char *spec, bool member)
{
	const char *certificate = strstr(spec, ":@");
	const char *colon = certificate ? certificate : strrchr(spec, ':');
	struct account *account;
	char	   *id;

	if (colon == NULL || colon == spec || colon[1] == '\0')
	{
		fprintf(stderr, "dvsim: a user is ID:SECRET or ID:@FILE, not \"%s\"\n", spec);
		return false;
	}
	id = sim_xstrdup(spec);
	id[colon - spec] = '\0';
	if (sim_auth_find(auth, id) != NULL)
	{
		fprintf(stderr, "dvsim: user \"%s\" is given twice\n", id);
		free(id);
		return false;
	}
	account = sim_xalloc(sizeof(*account));
	account->user.client_id = id;
	account->user.number = member ? auth->nusers : -1;
	user_guid("systemuser", id, account->user.systemuser_id);
	push(&auth->accounts, &auth->naccounts, account);
	if (member)
		push(&auth->users, &auth->nusers, account);
	if (certificate == NULL)
	{
		account->user.secret = sim_xstrdup(colon + 1);
		return true;
	}
	account->user.certificate = sim_xstrdup(colon + 2);
	account->credential = sim_credential_load(account->user.certificate);
	return account->credential != NULL;
}

int
sim_auth_users(const struct sim_auth *auth)
{
	return auth->nusers;
}

struct sim_user *
sim_auth_user(const struct sim_auth *auth, int number)
{
	return &auth->users[number]->user;
}

struct sim_user *
sim_auth_find(const struct sim_auth *auth, const char *client_id)
{
	for (int i = 0; i < auth->naccounts; i++)
	{
		if (strcasecmp(auth->accounts[i]->user.client_id, client_id) == 0)
			return &auth->accounts[i]->user;
	}
	return NULL;
}

const struct sim_credential *
sim_user_credential(const struct sim_user *user)
{
	return ((const struct account *) user)->credential;
}

/* the columns of a user's row that have a value from the start */
enum source
{
	FROM_ID,
	FROM_NAME,
	FROM_APPLICATION,			/* the client id if it is a GUID */
	FROM_OBJECT,
	FROM_UNIT,
	FROM_CLOCK,
	FROM_VERSION,
	FROM_ZERO
};

static const struct
{
	const char *column;
	enum source source;
}			row_columns[] = {
	{"systemuserid", FROM_ID},
	{"fullname", FROM_NAME},
	{"lastname", FROM_NAME},
	{"domainname", FROM_NAME},
	{"applicationid", FROM_APPLICATION},
	{"azureactivedirectoryobjectid", FROM_OBJECT},
	{"businessunitid", FROM_UNIT},
	{"isdisabled", FROM_ZERO},
	{"createdon", FROM_CLOCK},
	{"modifiedon", FROM_CLOCK},
	{"versionnumber", FROM_VERSION},
};

static void
bind_guid(sqlite3_stmt *stmt, int param, const char *text)
{
	unsigned char id[16];

	if (sim_guid_parse(text, strlen(text), id))
		sqlite3_bind_blob(stmt, param, id, sizeof(id), SQLITE_TRANSIENT);
}

static void
bind_source(struct sim_auth *auth, const struct sim_user *user, sqlite3_stmt *stmt, int param,
			enum source source)
{
	unsigned char id[16];
	char		guid[37];

	switch (source)
	{
		case FROM_ID:
			bind_guid(stmt, param, user->systemuser_id);
			break;
		case FROM_NAME:
			sqlite3_bind_text(stmt, param, user->client_id, -1, SQLITE_TRANSIENT);
			break;
		case FROM_APPLICATION:
			user_guid("application", user->client_id, guid);
			if (sim_guid_parse(user->client_id, strlen(user->client_id), id))
				bind_guid(stmt, param, user->client_id);
			else
				bind_guid(stmt, param, guid);
			break;
		case FROM_OBJECT:
			user_guid("object", user->client_id, guid);
			bind_guid(stmt, param, guid);
			break;
		case FROM_UNIT:
			bind_guid(stmt, param, auth->sim->business_unit_id);
			break;
		case FROM_CLOCK:
			sqlite3_bind_int64(stmt, param, sim_unix_now(auth->sim));
			break;
		case FROM_VERSION:
			sqlite3_bind_int64(stmt, param, sim_next_version(auth->sim->store));
			break;
		case FROM_ZERO:
			sqlite3_bind_int(stmt, param, 0);
			break;
	}
}

static bool
insert_user(struct sim_auth *auth, struct sim_table *table, const struct sim_user *user)
{
	struct sim_buf sql = {0};
	struct sim_buf marks = {0};
	enum source sources[sizeof(row_columns) / sizeof(row_columns[0])];
	sqlite3_stmt *stmt;
	int			n = 0;
	bool		done;

	sim_puts(&sql, "INSERT OR IGNORE INTO \"systemuser\" (");
	for (size_t i = 0; i < sizeof(row_columns) / sizeof(row_columns[0]); i++)
	{
		const char *name = row_columns[i].column;
		struct sim_column *column = sim_column_by_name(table, name, strlen(name));

		if (column == NULL || !column->stored)
			continue;
		sim_putf(&sql, "%s\"%s\"", n ? ", " : "", name);
		sim_puts(&marks, n ? ", ?" : "?");
		sources[n++] = row_columns[i].source;
	}
	sim_putf(&sql, ") VALUES (%s)", marks.s ? marks.s : "");
	stmt = sim_stmt_get(auth->sim->store, sql.s);
	for (int i = 0; i < n && stmt != NULL; i++)
		bind_source(auth, user, stmt, i + 1, sources[i]);
	done = stmt != NULL && sqlite3_step(stmt) == SQLITE_DONE;
	if (stmt != NULL)
		sim_stmt_put(auth->sim->store, stmt);
	sim_buf_free(&sql);
	sim_buf_free(&marks);
	return done;
}

bool
sim_auth_rows(struct sim_auth *auth)
{
	struct sim_table *table = sim_table_by_name(auth->sim->schema, "systemuser");

	for (int i = 0; table != NULL && i < auth->nusers; i++)
	{
		if (!insert_user(auth, table, &auth->users[i]->user))
			return false;
	}
	return true;
}

static struct token *
slot_of(struct token *tokens, size_t nslots, const char *text)
{
	uint64_t	hash = UINT64_C(1469598103934665603);
	size_t		slot;

	for (int i = 0; i < TOKEN_LEN; i++)
		hash = (hash ^ (unsigned char) text[i]) * UINT64_C(1099511628211);
	slot = (size_t) hash & (nslots - 1);
	while (tokens[slot].text[0] != '\0' && memcmp(tokens[slot].text, text, TOKEN_LEN) != 0)
		slot = (slot + 1) & (nslots - 1);
	return &tokens[slot];
}

/* makes room by dropping expired tokens; grows if that is not enough */
static void
rebuild(struct sim_auth *auth, int64_t now)
{
	struct token *old = auth->tokens;
	size_t		old_slots = auth->nslots;
	size_t		live = 0;

	for (size_t i = 0; i < old_slots; i++)
		live += old[i].text[0] != '\0' && old[i].expires_us > now;
	while (live * 4 >= auth->nslots)
		auth->nslots *= 2;
	auth->tokens = sim_xalloc(sizeof(struct token) * auth->nslots);
	auth->ntokens = live;
	for (size_t i = 0; i < old_slots; i++)
	{
		if (old[i].text[0] != '\0' && old[i].expires_us > now)
			*slot_of(auth->tokens, auth->nslots, old[i].text) = old[i];
	}
	free(old);
}

const char *
sim_auth_issue(struct sim_auth *auth, struct sim_user *user, int64_t *seconds)
{
	int64_t		now = sim_now_us(auth->sim);
	char		text[TOKEN_LEN + 1];
	struct token *token;

	if ((auth->ntokens + 1) * 2 > auth->nslots)
		rebuild(auth, now);
	for (int i = 0; i < TOKEN_LEN; i += 16)
		snprintf(text + i, 17, "%016llx", (unsigned long long) sim_random_next(&auth->random));
	token = slot_of(auth->tokens, auth->nslots, text);
	auth->ntokens += token->text[0] == '\0';
	memcpy(token->text, text, sizeof(text));
	token->account = (struct account *) user;
	token->expires_us = now + auth->lifetime_us;
	*seconds = (int64_t) ((double) auth->lifetime_us / 1e6 / auth->sim->time_scale);
	return token->text;
}

enum sim_bearer
sim_auth_check(struct sim_auth *auth, const char *header, struct sim_user **user)
{
	const struct token *token;

	if (header == NULL || header[0] == '\0')
		return SIM_BEARER_MISSING;
	if (strncasecmp(header, "Bearer ", 7) != 0)
		return SIM_BEARER_INVALID;
	for (header += 7; *header == ' ';)
		header++;
	if (strlen(header) != TOKEN_LEN)
		return SIM_BEARER_INVALID;
	token = slot_of(auth->tokens, auth->nslots, header);
	if (token->text[0] == '\0')
		return SIM_BEARER_INVALID;
	*user = &token->account->user;
	if (token->expires_us <= sim_now_us(auth->sim))
		return SIM_BEARER_EXPIRED;
	return SIM_BEARER_OK;
}

void
sim_auth_void(struct sim_auth *auth, const struct sim_user *user)
{
	for (size_t i = 0; i < auth->nslots; i++)
	{
		if (auth->tokens[i].account == (const struct account *) user)
			auth->tokens[i].expires_us = INT64_MIN;
	}
}
