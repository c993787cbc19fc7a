/*
 * connection.c
 *		Keeps a session for each user mapping that this backend has used.
 *
 * Sessions (connections, tokens) outlive statements and transactions.  When
 * the server or the mapping is altered or dropped, or the wrapper's options
 * change, the session is marked, and replaced at next use; one that is in
 * use by a running statement stays until the transaction has ended.
 *
 * A backend that has missed what others altered, because it was so much, is
 * told that anything may have changed.  Mostly nothing has that matters here:
 * then the options are compared, and a session that is still right is kept.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fdw/connection.h"
#include "fdw/option.h"

typedef struct connection
{
	Oid			umid;			/* hash key */
	Oid			serverid;
	dv_session *session;		/* NULL: none (any more) */
	bool		stale;
	bool		doubtful;		/* nobody knows whether it is */
	uint64		made_of;		/* fingerprint of the options */
	uint32		server_hash;	/* of the catalogue rows, for invalidation */
	uint32		mapping_hash;
} connection;

/* Sessions that were replaced while a statement may still use them. */
typedef struct retired
{
	dv_session *session;
	struct retired *next;
} retired;

static HTAB *connections = NULL;
static MemoryContext cache_context = NULL;
static retired *retired_sessions = NULL;

/* In a callback of the cache machinery nothing is freed: a statement may be in the middle of it. */
static void
on_invalidation(Datum arg, int cache, uint32 hash)
{
	HASH_SEQ_STATUS scan;
	connection *c;

	hash_seq_init(&scan, connections);
	while ((c = hash_seq_search(&scan)) != NULL)
	{
		if (hash == 0)
			c->doubtful = true;
		else if ((cache == FOREIGNSERVEROID && c->server_hash == hash) ||
				 (cache == USERMAPPINGOID && c->mapping_hash == hash))
			c->stale = true;
	}
}

/* What has become stale is not kept until somebody asks for it again: that may be never. */
static void
free_stale(void)
{
	HASH_SEQ_STATUS scan;
	connection *c;

	hash_seq_init(&scan, connections);
	while ((c = hash_seq_search(&scan)) != NULL)
	{
		if (!c->stale)
			continue;
		if (c->session != NULL)
			dv_session_free(c->session);
		c->session = NULL;
		c->stale = false;
		hash_search(connections, &c->umid, HASH_REMOVE, NULL);
	}
}

static void
on_xact(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	while (retired_sessions != NULL)
	{
		retired    *r = retired_sessions;

		retired_sessions = r->next;
		dv_session_free(r->session);
		pfree(r);
	}
	free_stale();
}

static void
initialize(void)
{
	HASHCTL		control = {0};

	cache_context = AllocSetContextCreate(CacheMemoryContext, "dataverse sessions",
										  ALLOCSET_SMALL_SIZES);
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(connection);
	control.hcxt = cache_context;
	connections = hash_create("dataverse connections", 8, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	RegisterXactCallback(on_xact, NULL);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, on_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, on_invalidation, (Datum) 0);
}

/*
 * From options to the plain values that a session wants.
 */

static const char *
required(dv_options options, const char *name, const ForeignServer *server, const char *hint)
{
	const char *value = dv_option_text(options, name);

	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"%s\" of server \"%s\" is not set", name, server->servername),
				 errhint("%s", hint)));
	return value;
}

/* An origin: no slash at the end. */
static char *
trimmed(const char *url)
{
	char	   *copy = pstrdup(url);
	int			len = strlen(copy);

	while (len > 0 && copy[len - 1] == '/')
		copy[--len] = '\0';
	return copy;
}

static const char *
token_url_of(dv_options options, const ForeignServer *server)
{
	const char *url = dv_option_text(options, "token_url");

	if (url != NULL)
		return url;
	return psprintf("%s/%s/oauth2/v2.0/token", trimmed(dv_option_text(options, "authority")),
					required(options, "tenant_id", server,
							 "Set it to the id or a domain name of the Microsoft Entra tenant, or set \"token_url\"."));
}

static dv_rate_config
rate_of(dv_options options)
{
	dv_rate_config rate = dv_rate_preset((dv_preset) dv_option_choice(options, "rate_preset"));

	rate.adaptive = dv_option_bool(options, "adaptive_rate");
	rate.initial_factor = dv_option_real(options, "initial_parallelism_factor");
	rate.min_parallelism = dv_option_int(options, "min_parallelism");
	rate.increase_rate = dv_option_int(options, "increase_rate");
	rate.recovery_multiplier = dv_option_real(options, "recovery_multiplier");
	rate.last_known_good_ttl = dv_option_duration(options, "last_known_good_ttl");
	rate.idle_reset_period = dv_option_duration(options, "idle_reset_period");
	/* these follow the preset unless set */
	if (dv_option_given(options, "decrease_factor"))
		rate.decrease_factor = dv_option_real(options, "decrease_factor");
	if (dv_option_given(options, "stabilization_batches"))
		rate.stabilization_batches = dv_option_int(options, "stabilization_batches");
	if (dv_option_given(options, "min_increase_interval"))
		rate.min_increase_interval = dv_option_duration(options, "min_increase_interval");
	if (dv_option_given(options, "execution_time_ceiling_factor"))
		rate.execution_factor = dv_option_real(options, "execution_time_ceiling_factor");
	if (dv_option_given(options, "slow_batch_threshold"))
		rate.slow_batch_threshold = dv_option_duration(options, "slow_batch_threshold");
	return rate;
}

static void
fill_server(dv_session_config *config, const ForeignServer *server, dv_options options)
{
	config->serverid = server->serverid;
	config->server_name = server->servername;
	config->base_url = trimmed(required(options, "url", server,
										"Set it to the environment's address, as in https://contoso.crm.dynamics.com."));
	config->api_version = dv_option_text(options, "api_version");
	config->request_timeout_ms = dv_option_duration(options, "request_timeout") / DV_MILLISECOND;

	config->http.ca_file = dv_option_text(options, "ca_file");
	config->http.proxy = dv_option_text(options, "proxy");
	config->http.user_agent = dv_option_text(options, "user_agent");
	config->http.connect_timeout_ms = dv_option_duration(options, "connect_timeout") / DV_MILLISECOND;
	config->http.keep_cookies = dv_option_bool(options, "affinity_cookie");
	/* the validator let http through for loopback only */
	config->http.allow_http = true;

	config->pool.rate = rate_of(options);
	config->pool.selection = (dv_selection) dv_option_choice(options, "selection");
	config->pool.max_parallel = dv_option_int(options, "max_parallel");
	config->pool.dop_per_environment = dv_option_choice(options, "dop_scope") == 1;
	config->pool.throttle_tracking = dv_option_bool(options, "throttle_tracking");
	config->pool.budget_pacing = dv_option_bool(options, "budget_pacing");
	config->pool.retry_after_buffer = dv_option_duration(options, "retry_after_buffer");
	config->pool.fallback_retry_after = dv_option_duration(options, "fallback_retry_after");

	config->retry.max_throttle_retries = dv_option_int(options, "max_throttle_retries");
	if (config->retry.max_throttle_retries == 0)
		config->retry.max_throttle_retries = -1;
	config->retry.max_retries = dv_option_int(options, "max_retries");
	config->retry.first_backoff = DV_SECOND / 2;
	config->retry.longest_backoff = 30 * DV_SECOND;
	config->retry.tolerance = dv_option_duration(options, "max_retry_after_tolerance");
}

/* One application user of the mapping; false if that number is not used. */
static bool
fill_credential(dv_credential *credential, const char **name, int number, dv_options mapping,
				dv_options server_options, const ForeignServer *server)
{
	const char *value;

	memset(credential, 0, sizeof(*credential));
	credential->client_id = dv_option_text(mapping, dv_option_numbered("client_id", number));
	if ((value = dv_option_text(mapping, dv_option_numbered("client_secret", number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_SECRET;
		credential->secret = value;
	}
	else if ((value = dv_option_text(mapping, dv_option_numbered("client_certificate", number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_CERTIFICATE;
		credential->certificate = value;
		credential->key = dv_option_text(mapping, dv_option_numbered("client_key", number));
		credential->secret = dv_option_text(mapping, dv_option_numbered("client_key_password", number));
	}
	else if (dv_option_bool(mapping, dv_option_numbered("managed_identity", number)))
		credential->kind = DV_CREDENTIAL_MANAGED_IDENTITY;
	else if ((value = dv_option_text(mapping, dv_option_numbered("access_token", number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_TOKEN;
		credential->secret = value;
	}
	else
		return false;

	if (credential->kind == DV_CREDENTIAL_MANAGED_IDENTITY)
		credential->token_url = dv_option_text(server_options, "token_url");
	else if (credential->kind != DV_CREDENTIAL_TOKEN)
		credential->token_url = token_url_of(server_options, server);

	*name = dv_option_text(mapping, dv_option_numbered("name", number));
	if (*name == NULL)
		*name = credential->client_id != NULL ? credential->client_id :
			psprintf("%s_%d", credential->kind == DV_CREDENTIAL_TOKEN ? "token" : "identity", number);
	return true;
}

static dv_session *
open_session(const ForeignServer *server, const UserMapping *mapping)
{
	dv_options	server_options = {server->options, NIL};
	dv_options	mapping_options = {mapping->options, NIL};
	dv_session_config config = {0};
	dv_credential credentials[DV_APPLICATION_USERS_MAX];
	const char *names[DV_APPLICATION_USERS_MAX];
	int			number;

	fill_server(&config, server, server_options);
	for (number = 1; number <= DV_APPLICATION_USERS_MAX; number++)
	{
		if (!fill_credential(&credentials[config.nusers], &names[config.nusers], number,
							 mapping_options, server_options, server))
			continue;
		credentials[config.nusers++].resource = config.base_url;
	}
	if (config.nusers == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("user mapping for server \"%s\" names no application user",
						server->servername),
				 errhint("Set \"client_id\" and \"client_secret\" in the user mapping.")));
	config.names = names;
	config.credentials = credentials;
	config.caller_id = dv_option_text(mapping_options, "caller_id");
	return dv_session_create(&config, cache_context);
}

static uint64
fingerprint_of(uint64 seed, List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const char *value = defGetString(def);

		/* with their NULs, so that no two lists look alike */
		seed = hash_bytes_extended((const unsigned char *) def->defname, strlen(def->defname) + 1,
								   seed);
		seed = hash_bytes_extended((const unsigned char *) value, strlen(value) + 1, seed);
	}
	return seed;
}

/* Of all that a session is made of. */
static uint64
fingerprint(const ForeignServer *server, const UserMapping *mapping)
{
	uint64		seed = hash_bytes_extended((const unsigned char *) server->servername,
										   strlen(server->servername) + 1, 0);

	return fingerprint_of(fingerprint_of(seed, server->options), mapping->options);
}

/* Those whose server or mapping is gone nobody will ask for any more. */
static void
settle_doubts(void)
{
	HASH_SEQ_STATUS scan;
	connection *c;

	hash_seq_init(&scan, connections);
	while ((c = hash_seq_search(&scan)) != NULL)
	{
		if (c->doubtful && !SearchSysCacheExists1(USERMAPPINGOID, ObjectIdGetDatum(c->umid)))
			c->stale = true;
	}
}

static void
retire(connection *c)
{
	retired    *r;

	if (c->session == NULL)
		return;
	r = MemoryContextAlloc(cache_context, sizeof(*r));
	r->session = c->session;
	r->next = retired_sessions;
	retired_sessions = r;
	c->session = NULL;
}

dv_session *
dv_connection_get(Oid serverid, Oid userid)
{
	ForeignServer *server;
	UserMapping *mapping;
	connection *c;
	bool		found;

	if (connections == NULL)
		initialize();
	server = GetForeignServer(serverid);
	mapping = GetUserMapping(userid, serverid);
	c = hash_search(connections, &mapping->umid, HASH_ENTER, &found);
	if (!found)
	{
		c->session = NULL;
		c->stale = false;
		c->doubtful = false;
	}
	if (c->doubtful)
	{
		settle_doubts();
		c->doubtful = false;
		c->stale = c->stale || c->made_of != fingerprint(server, mapping);
	}
	if (c->stale)
	{
		retire(c);
		c->stale = false;
	}
	if (c->session == NULL)
	{
		c->serverid = serverid;
		c->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
		c->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(mapping->umid));
		c->made_of = fingerprint(server, mapping);
		c->session = open_session(server, mapping);
	}
	return c->session;
}
