/*
 * connection.c
 *		Keeps a session for each user mapping that this backend has used.
 *
 * Sessions (connections, tokens) outlive statements and transactions.  When
 * the server or the user mapping is altered or dropped, the session is marked
 * as stale and is replaced when it is next used.  A stale session that a
 * running statement still uses is kept until the end of the transaction.
 *
 * A backend can use any number of user mappings one after the other.  It keeps
 * the sessions that were used last (net/descriptor.c closes the connections of
 * idle ones earlier).
 *
 * If a backend has missed invalidation messages because there were too many,
 * PostgreSQL reports that anything may have changed.  Usually nothing relevant
 * has, so the options are compared, and a session that is still valid is kept.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fdw/connection.h"
#include "fdw/option.h"
#include "net/text.h"
#include "net/xact.h"

#define SESSIONS_KEPT 32		/* at the end of a transaction */

typedef struct connection
{
	Oid			umid;			/* hash key */
	Oid			serverid;
	dv_session *session;		/* NULL if it has been removed */
	bool		stale;
	bool		doubtful;		/* it is not known whether it is stale */
	uint64		made_of;		/* fingerprint of the options */
	uint32		server_hash;	/* of the catalog rows, for invalidation */
	uint32		mapping_hash;
	uint64		last_use;
} connection;

/* Sessions that have been replaced but may still be used by a statement. */
typedef struct retired
{
	dv_session *session;
	struct retired *next;
} retired;

static HTAB *connections = NULL;
static MemoryContext cache_context = NULL;
static retired *retired_sessions = NULL;
static uint64 uses = 0;

/* Only marks sessions, because a statement may be using them. */
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

/* Frees a session whose options have changed. */
static void
free_outdated(dv_session *session)
{
	dv_standing_withdraw(dv_session_standing(session));
	dv_session_free(session);
}

/* Frees stale sessions, which might never be requested again. */
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
			free_outdated(c->session);
		c->session = NULL;
		c->stale = false;
		hash_search(connections, &c->umid, HASH_REMOVE, NULL);
	}
}

/* Frees the sessions that have not been used for the longest time. */
static void
free_unused(void)
{
	while (hash_get_num_entries(connections) > SESSIONS_KEPT)
	{
		connection *oldest = NULL;
		HASH_SEQ_STATUS scan;
		connection *c;

		hash_seq_init(&scan, connections);
		while ((c = hash_seq_search(&scan)) != NULL)
			if (oldest == NULL || c->last_use < oldest->last_use)
				oldest = c;
		if (oldest->session != NULL)
			dv_session_free(oldest->session);
		hash_search(connections, &oldest->umid, HASH_REMOVE, NULL);
	}
}

static void
on_xact(XactEvent event)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;
	while (retired_sessions != NULL)
	{
		retired    *r = retired_sessions;

		retired_sessions = r->next;
		free_outdated(r->session);
		pfree(r);
	}
	free_stale();
	free_unused();
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_FREE,
	.on_xact = on_xact
};

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
	dv_xact_join(&xact_participant);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, on_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, on_invalidation, (Datum) 0);
}

/*
 * Converting options to the configuration of a session.
 */

static void
refuse_unset(dv_option option, const ForeignServer *server, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			 errmsg("option \"%s\" of server \"%s\" is not set", dv_option_name(option),
					server->servername),
			 errhint("%s", hint)));
}

static const char *
token_url_of(dv_options options, const ForeignServer *server)
{
	const char *url = dv_option_text(options, DV_OPT_TOKEN_URL);
	const char *tenant = dv_option_text(options, DV_OPT_TENANT_ID);

	if (url != NULL)
		return url;
	if (tenant == NULL)
		refuse_unset(DV_OPT_TENANT_ID, server,
					 "Set it to the id or a domain name of the Microsoft Entra tenant, or set \"token_url\".");
	return psprintf("%s/%s/oauth2/v2.0/token", dv_option_address(options, DV_OPT_AUTHORITY), tenant);
}

/*
 * Returns how a server is reached, and where it gets its tokens.  Servers that differ
 * in this share no application users, because the answers to one may not apply to the
 * other.
 */
static const char *
peer_of(dv_options options)
{
	static const dv_option parts[] = {
		DV_OPT_PROXY, DV_OPT_CA_FILE, DV_OPT_TOKEN_URL, DV_OPT_AUTHORITY, DV_OPT_TENANT_ID
	};
	StringInfoData peer;
	int			i;

	initStringInfo(&peer);
	for (i = 0; i < (int) lengthof(parts); i++)
	{
		const char *value = dv_option_text(options, parts[i]);

		if (value != NULL)
			appendStringInfo(&peer, " %d:%d:%s", i, (int) strlen(value), value);
	}
	return peer.data;
}

/* Options override the presets; some members have no option and are set at the end. */
static void
fill_config(dv_session_config *config, const ForeignServer *server, dv_options options)
{
	config->serverid = server->serverid;
	config->server_name = server->servername;
	config->pool.rate = dv_rate_preset((dv_preset) dv_option_choice(options, DV_OPT_RATE_PRESET));
	config->retry.tolerance = -1;
	dv_options_configure(options, config);
	if (config->base_url == NULL)
		refuse_unset(DV_OPT_URL, server,
					 "Set it to the URL of the environment, such as https://contoso.crm.dynamics.com.");
	config->peer = peer_of(options);
	config->http.proxy_user = dv_text_to_utf8(config->http.proxy_user);
	config->http.proxy_password = dv_text_to_utf8(config->http.proxy_password);
	/* the validator has accepted http for loopback addresses only */
	config->http.allow_http = true;
	/* an explicit start value has priority */
	config->pool.start_full = config->pool.budget_pacing &&
		!dv_option_given(options, DV_OPT_INITIAL_PARALLELISM_FACTOR);
	config->bounds_throttles = dv_option_given(options, DV_OPT_MAX_THROTTLE_RETRIES) ||
		dv_option_given(options, DV_OPT_MAX_RETRY_AFTER_TOLERANCE);
	if (config->retry.max_throttle_retries == 0)
		config->retry.max_throttle_retries = -1;
	config->retry.first_backoff = DV_SECOND / 2;
	config->retry.longest_backoff = 30 * DV_SECOND;
}

/* Returns true if the mapping has credentials for this application user. */
static bool
is_named(dv_options options, int number)
{
	return dv_option_given(options, dv_option_numbered(DV_OPT_CLIENT_SECRET, number)) ||
		dv_option_given(options, dv_option_numbered(DV_OPT_CLIENT_CERTIFICATE, number)) ||
		dv_option_given(options, dv_option_numbered(DV_OPT_ACCESS_TOKEN, number)) ||
		dv_option_bool(options, dv_option_numbered(DV_OPT_MANAGED_IDENTITY, number));
}

/*
 * Reads the credentials of an application user of the mapping.  Returns false if the number is
 * not used.
 */
static bool
read_credential(dv_credential *credential, const char **name, int number, dv_options options)
{
	const char *id = dv_option_text(options, dv_option_numbered(DV_OPT_CLIENT_ID, number));
	const char *value;

	memset(credential, 0, sizeof(*credential));
	credential->suffix = number > 1 ? psprintf("_%d", number) : NULL;
	credential->client_id = id;
	if ((value = dv_option_text(options, dv_option_numbered(DV_OPT_CLIENT_SECRET, number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_SECRET;
		credential->secret = value;
	}
	else if ((value = dv_option_text(options, dv_option_numbered(DV_OPT_CLIENT_CERTIFICATE, number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_CERTIFICATE;
		credential->certificate = value;
		credential->key = dv_option_text(options, dv_option_numbered(DV_OPT_CLIENT_KEY, number));
		credential->secret = dv_option_text(options, dv_option_numbered(DV_OPT_CLIENT_KEY_PASSWORD, number));
	}
	else if (dv_option_bool(options, dv_option_numbered(DV_OPT_MANAGED_IDENTITY, number)))
	{
		credential->kind = DV_CREDENTIAL_MANAGED_IDENTITY;
		credential->token_url = dv_option_text(options, DV_OPT_TOKEN_URL);
	}
	else if ((value = dv_option_text(options, dv_option_numbered(DV_OPT_ACCESS_TOKEN, number))) != NULL)
	{
		credential->kind = DV_CREDENTIAL_TOKEN;
		credential->secret = value;
	}
	else
		return false;

	*name = dv_option_text(options, dv_option_numbered(DV_OPT_NAME, number));
	if (*name == NULL)
		*name = id != NULL ? id :
			psprintf("%s_%d", credential->kind == DV_CREDENTIAL_TOKEN ? "token" : "identity", number);
	return true;
}

/*
 * Returns the greatest number in the options of the mapping.  This avoids trying all numbers,
 * since there may be thousands of mappings.
 */
static int
last_number(dv_options options)
{
	ListCell   *lc;
	int			last = 1;

	foreach(lc, options.first)
	{
		const char *suffix = strrchr(lfirst_node(DefElem, lc)->defname, '_');

		if (suffix != NULL)
			last = Max(last, atoi(suffix + 1));
	}
	return Min(last, DV_APPLICATION_USERS_MAX);
}

static void
read_credentials(dv_session_config *config, dv_options options)
{
	int			last = last_number(options);
	int			number;

	config->names = palloc(last * sizeof(char *));
	config->credentials = palloc(last * sizeof(dv_credential));
	for (number = 1; number <= last; number++)
		config->nusers += read_credential(&config->credentials[config->nusers],
										  &config->names[config->nusers], number, options);
}

/*
 * Fills in where an application user gets its tokens, for which resource, and with which
 * credentials.
 */
static void
fill_credential(dv_credential *credential, const dv_session_config *config, dv_options options,
				const ForeignServer *server)
{
	credential->client_id = dv_text_to_utf8(credential->client_id);
	credential->secret = dv_text_to_utf8(credential->secret);
	if (credential->kind == DV_CREDENTIAL_SECRET || credential->kind == DV_CREDENTIAL_CERTIFICATE)
		credential->token_url = token_url_of(options, server);
	credential->resource = config->base_url;
}

dv_entry_key *
dv_connection_keys(const ForeignServer *server, List *mapping_options, int *n)
{
	dv_options	options = {mapping_options, server->options};
	dv_session_config config = {
		.base_url = dv_option_address(options, DV_OPT_URL),
		.peer = peer_of(options)
	};
	int			i;

	if (config.base_url != NULL)
		read_credentials(&config, options);
	for (i = 0; i < config.nusers; i++)
	{
		dv_credential *credential = &config.credentials[i];

		/* a name that cannot be sent must not prevent others from looking at the pool */
		if (credential->client_id != NULL)
			credential->client_id = dv_text_common(credential->client_id, MaxAllocSize);
		if (credential->secret != NULL)
			credential->secret = dv_text_common(credential->secret, MaxAllocSize);
	}
	*n = config.nusers;
	return dv_session_keys(&config);
}

dv_entry_key *
dv_connection_keys_of(Oid serverid, Oid userid, int *n)
{
	HeapTuple	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
										ObjectIdGetDatum(serverid));
	List	   *options = NIL;
	Datum		value;
	bool		isnull;

	*n = 0;
	if (!HeapTupleIsValid(tuple))
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(serverid));
	if (!HeapTupleIsValid(tuple))
		return NULL;
	value = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		options = untransformRelOptions(value);
	ReleaseSysCache(tuple);
	return dv_connection_keys(GetForeignServer(serverid), options, n);
}

/* Returns the number of application users in the mappings of a role in this database. */
static int
count_application_users(Oid userid)
{
	Relation	rel = table_open(UserMappingRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	int			n = 0;

	ScanKeyInit(&key, Anum_pg_user_mapping_umuser, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(userid));
	scan = systable_beginscan(rel, UserMappingUserServerIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_pg_user_mapping_umoptions,
										 RelationGetDescr(rel), &isnull);
		dv_options	options = {isnull ? NIL : untransformRelOptions(value), NIL};
		int			last = last_number(options);
		int			number;

		for (number = 1; number <= last; number++)
			n += is_named(options, number);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return n;
}

static dv_session *
open_session(const ForeignServer *server, const UserMapping *mapping)
{
	dv_options	options = {mapping->options, server->options};
	dv_session_config config = {0};
	int			i;

	fill_config(&config, server, options);
	read_credentials(&config, options);
	for (i = 0; i < config.nusers; i++)
		fill_credential(&config.credentials[i], &config, options, server);
	if (config.nusers == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("user mapping for server \"%s\" does not specify an application user",
						server->servername),
				 errhint("Set its options: ALTER USER MAPPING FOR %s SERVER %s OPTIONS (client_id '...', client_secret '...').",
						 OidIsValid(mapping->userid) ?
						 quote_identifier(GetUserNameFromId(mapping->userid, false)) : "PUBLIC",
						 quote_identifier(server->servername))));
	/* a mapping for PUBLIC adds to the entitlement of those that use it */
	config.roleid = mapping->userid;
	config.entitled = count_application_users(config.roleid) + count_application_users(InvalidOid);
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

		/* include the terminating NULs, so that different lists cannot look alike */
		seed = hash_bytes_extended((const unsigned char *) def->defname, strlen(def->defname) + 1,
								   seed);
		seed = hash_bytes_extended((const unsigned char *) value, strlen(value) + 1, seed);
	}
	return seed;
}

/* Returns the fingerprint of everything that a session depends on. */
static uint64
fingerprint(const ForeignServer *server, const UserMapping *mapping)
{
	uint64		seed = hash_bytes_extended((const unsigned char *) server->servername,
										   strlen(server->servername) + 1, 0);

	return fingerprint_of(fingerprint_of(seed, server->options), mapping->options);
}

/* Marks sessions as stale whose user mapping no longer exists. */
static void
check_doubtful(void)
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

/* GetUserMapping() raises the same error without a hint. */
static UserMapping *
user_mapping(const ForeignServer *server, Oid userid)
{
	if (!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
							   ObjectIdGetDatum(server->serverid)) &&
		!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
							   ObjectIdGetDatum(server->serverid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user mapping not found for user \"%s\", server \"%s\"",
						GetUserNameFromId(userid, false), server->servername),
				 errhint("Create one: CREATE USER MAPPING FOR %s SERVER %s OPTIONS (client_id '...', client_secret '...').",
						 quote_identifier(GetUserNameFromId(userid, false)),
						 quote_identifier(server->servername))));
	return GetUserMapping(userid, server->serverid);
}

dv_session *
dv_connection_find(Oid serverid, Oid userid)
{
	Oid			umid = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
									   ObjectIdGetDatum(userid), ObjectIdGetDatum(serverid));
	const connection *c;

	if (!OidIsValid(umid))
		umid = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
							   ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
	c = connections == NULL || !OidIsValid(umid) ? NULL :
		hash_search(connections, &umid, HASH_FIND, NULL);
	return c == NULL || c->stale || c->doubtful ? NULL : c->session;
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
	mapping = user_mapping(server, userid);
	c = hash_search(connections, &mapping->umid, HASH_ENTER, &found);
	if (!found)
	{
		c->session = NULL;
		c->stale = false;
		c->doubtful = false;
	}
	c->last_use = ++uses;
	if (c->doubtful)
	{
		check_doubtful();
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
