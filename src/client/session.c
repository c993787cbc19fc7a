/*
 * session.c
 *		One backend's dealings with one server on behalf of one user mapping.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "client/session.h"
#include "net/text.h"
#include "net/url.h"

/* The consistency token with which this session sees its own writes to a table. */
typedef struct written_table
{
	const char *entity_set;
	char	   *token;
	struct written_table *next;
} written_table;

struct dv_session
{
	MemoryContext context;		/* holds everything but the client */
	dv_session_config config;	/* strings copied */
	const char *root;
	dv_http_client *client;
	dv_pool    *pool;
	dv_standing *standing;
	dv_token  **tokens;			/* one for each application user */
	written_table *written;
	dv_noted_form *noted_forms;
	bool		links_proven[2];
};

/* Frees the client, which is malloc'd, when the session's context is deleted. */
static void
session_gone(void *arg)
{
	dv_session *session = arg;

	if (session->client != NULL)
		dv_http_client_free(session->client);
	session->client = NULL;
}

static const char *
copy(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

static void
copy_config(dv_session *session, const dv_session_config *config)
{
	dv_session_config *own = &session->config;
	int			i;

	*own = *config;
	own->server_name = copy(config->server_name);
	own->base_url = copy(config->base_url);
	own->peer = NULL;
	own->api_version = copy(config->api_version);
	own->caller_id = copy(config->caller_id);
	own->names = palloc(config->nusers * sizeof(char *));
	for (i = 0; i < config->nusers; i++)
		own->names[i] = copy(config->names[i]);
	/* the client and the tokens have copies of these */
	memset(&own->http, 0, sizeof(own->http));
	own->credentials = NULL;
}

/* Fills in how the pool identifies the application users. */
static void
identify(dv_pool_spec *spec, const dv_session_config *config)
{
	const char **ids = palloc(config->nusers * sizeof(char *));
	const char **secrets = palloc(config->nusers * sizeof(char *));
	int			i;

	for (i = 0; i < config->nusers; i++)
	{
		ids[i] = dv_credential_identity(&config->credentials[i]);
		secrets[i] = dv_credential_proof(&config->credentials[i]);
	}
	spec->organisation = config->base_url;
	spec->peer = config->peer;
	spec->n = config->nusers;
	spec->client_ids = ids;
	spec->secrets = secrets;
}

dv_entry_key *
dv_session_keys(const dv_session_config *config)
{
	dv_pool_spec spec = {0};

	identify(&spec, config);
	return dv_entry_keys(&spec);
}

static void
open_pool(dv_session *session, const dv_session_config *config)
{
	dv_pool_spec spec = {
		.serverid = config->serverid,
		.server_name = config->server_name,
		.roleid = config->roleid,
		.entitled = config->entitled,
		.names = config->names,
		.policy = &config->pool,
	};

	identify(&spec, config);
	session->pool = dv_pool_open(&spec, session->context);
}

/*
 * The session is created below the current memory context and moved below
 * "parent" when it is complete, so that an error leaves nothing behind.
 */
dv_session *
dv_session_create(const dv_session_config *config, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "dataverse session",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_session *session = palloc0(sizeof(*session));
	MemoryContextCallback *callback = palloc0(sizeof(*callback));
	int			i;

	session->context = context;
	callback->func = session_gone;
	callback->arg = session;
	MemoryContextRegisterResetCallback(context, callback);

	copy_config(session, config);
	session->root = psprintf("%s/api/data/v%s/", config->base_url, config->api_version);
	session->client = dv_http_client_create(&config->http);
	/* the keys of the users, which include secrets, are not kept */
	MemoryContextSwitchTo(old);
	open_pool(session, config);
	MemoryContextSwitchTo(context);
	session->standing = dv_standing_create(session->pool, session->config.server_name);
	session->tokens = palloc(config->nusers * sizeof(dv_token *));
	for (i = 0; i < config->nusers; i++)
		session->tokens[i] = dv_token_create(session->client, &config->credentials[i], context);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, parent);
	return session;
}

void
dv_session_free(dv_session *session)
{
	MemoryContextDelete(session->context);
}

const dv_session_config *
dv_session_config_of(const dv_session *session)
{
	return &session->config;
}

MemoryContext
dv_session_context(const dv_session *session)
{
	return session->context;
}

const char *
dv_session_root(const dv_session *session)
{
	return session->root;
}

/* Returns the part of an address or path below the root of the Web API. */
static const char *
below_root(const dv_session *session, const char *path)
{
	const char *root = dv_session_root(session);

	if (!dv_url_is_absolute(path))
		return path;
	return pg_strncasecmp(path, root, strlen(root)) == 0 ? path + strlen(root) : "..";
}

bool
dv_session_reaches(const dv_session *session, const char *path)
{
	return dv_path_check(below_root(session, path)) == DV_PATH_OK;
}

const char *
dv_session_url(const dv_session *session, const char *path)
{
	const dv_session_config *config = dv_session_config_of(session);
	size_t		len = strlen(config->base_url);
	bool		absolute = dv_url_is_absolute(path);

	if (absolute && (pg_strncasecmp(path, config->base_url, len) != 0 || path[len] != '/'))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("address does not lead to the host of server \"%s\"", config->server_name),
				 errdetail_internal("%s", dv_text_told(dv_text_shown(path, strlen(path)))),
				 errhint("Requests, which carry tokens, are sent only to the host in option \"url\".")));
	if (!dv_session_reaches(session, path))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("address does not lead to the Web API of server \"%s\"", config->server_name),
				 errdetail_internal("%s", dv_text_told(dv_text_shown(path, strlen(path))))));
	return absolute ? pstrdup(path) : psprintf("%s%s", dv_session_root(session), path);
}

/* The path of a request is entity_set, entity_set(key), or entity_set/message. */
const char *
dv_session_table(const dv_session *session, const char *url)
{
	const char *root = dv_session_root(session);
	const char *path = url + strlen(root);

	return strncmp(url, root, strlen(root)) == 0 ? pnstrdup(path, strcspn(path, "(/?")) : "";
}

dv_http_client *
dv_session_client(const dv_session *session)
{
	return session->client;
}

dv_pool *
dv_session_pool(const dv_session *session)
{
	return session->pool;
}

dv_standing *
dv_session_standing(const dv_session *session)
{
	return session->standing;
}

MemoryContext
dv_session_memory(const dv_session *session)
{
	return session->context;
}

dv_noted_form **
dv_session_noted_forms(const dv_session *session)
{
	return &unconstify(dv_session *, session)->noted_forms;
}

bool *
dv_session_links_proven(const dv_session *session, bool grouped)
{
	return &unconstify(dv_session *, session)->links_proven[grouped];
}

dv_token *
dv_session_access_token(const dv_session *session, int user)
{
	return session->tokens[user];
}

static written_table *
find_written(const dv_session *session, const char *entity_set)
{
	written_table *w;

	for (w = session->written; w != NULL; w = w->next)
		if (strcmp(w->entity_set, entity_set) == 0)
			break;
	return w;
}

void
dv_session_note_consistency_token(dv_session *session, const char *entity_set, const char *token)
{
	MemoryContext old;
	written_table *w = find_written(session, entity_set);
	char	   *own;

	/* it becomes a header, also inside of a $batch */
	if (dv_text_has_controls(token, strlen(token)))
		return;
	old = MemoryContextSwitchTo(session->context);
	own = pstrdup(token);
	if (w == NULL)
	{
		w = palloc0(sizeof(*w));
		w->entity_set = pstrdup(entity_set);
		w->next = session->written;
		session->written = w;
	}
	if (w->token != NULL)
		pfree(w->token);
	w->token = own;
	MemoryContextSwitchTo(old);
}

const char *
dv_session_consistency_token(const dv_session *session, const char *entity_set)
{
	const written_table *w = find_written(session, entity_set);

	return w != NULL ? w->token : NULL;
}
