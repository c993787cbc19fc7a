/*
 * audience.c
 *		Visibility of the views of the pool.
 *
 * The rule is that of PostgreSQL's statistics views: a role sees what belongs to roles whose
 * privileges it has, and members of pg_read_all_stats see everything.  (The state is common
 * to all databases, but a server's OID has a meaning only in its own database, so other
 * databases are visible only to these members.)
 *
 * An application user belongs to the roles whose user mappings name it, and, if a mapping for
 * PUBLIC names it, to all roles that may use the server.  Only the current mappings count,
 * and the keys by which the pool finds the user, proved or not.  A role therefore gains no
 * access to a row by giving its own application user the name of another one.  The owner of a
 * server sees all of its users, because the owner can reset them by name.
 *
 * A role that sees all users of a server sees users that no mapping names any more, and those
 * of its former URL, only as long as some session uses them.  (The mappings of other
 * databases cannot be checked.)
 *
 * An operation belongs to the role that executes it.  All roles that may use the server see
 * that it exists and what it waits for, because their own operations may be waiting for it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fdw/admin/audience.h"
#include "fdw/connection.h"

/* The rights of the current user on a server of this database. */
typedef struct server_sight
{
	Oid			serverid;
	bool		exists;
	bool		owned;
	bool		usable;
	List	   *keys;			/* of the application users that belong to the current user: */
	bool		all;			/* all of them do */
} server_sight;

struct dv_audience
{
	Oid			roleid;
	bool		all;
	List	   *servers;		/* server_sight, of this database */
};

dv_audience *
dv_audience_create(void)
{
	dv_audience *audience = palloc0(sizeof(*audience));

	audience->roleid = GetUserId();
	audience->all = has_privs_of_role(audience->roleid, ROLE_PG_READ_ALL_STATS);
	return audience;
}

static void
add_mapping(server_sight *sight, const ForeignServer *server, Relation rel, HeapTuple tuple)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, Anum_pg_user_mapping_umoptions, RelationGetDescr(rel),
									 &isnull);
	int			n;
	dv_entry_key *keys = dv_connection_keys(server, isnull ? NIL : untransformRelOptions(value), &n);

	while (n-- > 0)
		sight->keys = lappend(sight->keys, &keys[n]);
}

/* Finds the keys in the mappings of the role. */
static void
find_keys(server_sight *sight, Oid roleid)
{
	const ForeignServer *server = GetForeignServer(sight->serverid);
	Relation	rel = table_open(UserMappingRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_user_mapping_umserver, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(sight->serverid));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			mapped = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser;

		if (sight->all || (OidIsValid(mapped) ? has_privs_of_role(roleid, mapped) : sight->usable))
			add_mapping(sight, server, rel, tuple);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static server_sight *
look_at(dv_audience *audience, Oid serverid)
{
	server_sight *sight;
	ListCell   *lc;

	foreach(lc, audience->servers)
	{
		sight = lfirst(lc);
		if (sight->serverid == serverid)
			return sight;
	}
	sight = palloc0(sizeof(*sight));
	sight->serverid = serverid;
	sight->exists = SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	if (sight->exists)
	{
		sight->owned = dv_server_ownercheck(serverid, audience->roleid);
		sight->usable = dv_server_aclcheck(serverid, audience->roleid, ACL_USAGE) == ACLCHECK_OK;
		sight->all = sight->owned || audience->all;
		find_keys(sight, audience->roleid);
	}
	audience->servers = lappend(audience->servers, sight);
	return sight;
}

static bool
has_key(const server_sight *sight, const uint8 *key)
{
	ListCell   *lc;

	foreach(lc, sight->keys)
	{
		const dv_entry_key *own = lfirst(lc);

		if (memcmp(own->user, key, DV_KEY_LEN) == 0 || memcmp(own->claim, key, DV_KEY_LEN) == 0)
			return true;
	}
	return false;
}

/* Users of a dropped server are not shown, as far as that is known. */
bool
dv_audience_sees_user(dv_audience *audience, Oid databaseid, Oid serverid, const uint8 *key,
					  bool in_use)
{
	const server_sight *sight;

	if (databaseid != MyDatabaseId)
		return audience->all &&
			SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(databaseid));
	sight = look_at(audience, serverid);
	return sight->exists && (has_key(sight, key) || (sight->all && in_use));
}

dv_sight
dv_audience_sees_operation(dv_audience *audience, Oid databaseid, Oid serverid, Oid roleid)
{
	const server_sight *sight;

	if (audience->all || has_privs_of_role(audience->roleid, roleid))
		return DV_SEES_ALL;
	if (databaseid != MyDatabaseId)
		return DV_SEES_NOTHING;
	sight = look_at(audience, serverid);
	if (sight->exists && sight->owned)
		return DV_SEES_ALL;
	return sight->exists && sight->usable ? DV_SEES_OUTLINE : DV_SEES_NOTHING;
}
