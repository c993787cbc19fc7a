/*
 * owner.c
 *		Statements that run as the owner of the extension.
 *
 * Only the owner of the extension may use its tables.  PostgreSQL has SECURITY DEFINER for
 * that, but such a function does not know its caller, which is what the rights to
 * an entry depend on.  So the role changes here, in C, which knows it, as for
 * the statements of foreign keys in PostgreSQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "fdw/owner.h"
#include "fdw/relation.h"

/* In the security context, which PostgreSQL resets after an error: a bit that it does not use. */
#define ACTS_AS_OWNER 0x4000

dv_caller
dv_owner_begin(Oid relid, bool restricted)
{
	dv_caller	caller = {.settings = NewGUCNestLevel()};

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	GetUserIdAndSecContext(&caller.role, &caller.context);
	SetUserIdAndSecContext(dv_relation_owner(relid),
						   caller.context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_NOFORCE_RLS | ACTS_AS_OWNER |
						   (restricted ? SECURITY_RESTRICTED_OPERATION : 0));
	return caller;
}

void
dv_owner_end(const dv_caller *caller)
{
	SetUserIdAndSecContext(caller->role, caller->context);
	AtEOXact_GUC(true, caller->settings);
}

bool
dv_owner_is_acting(void)
{
	Oid			role;
	int			context;

	GetUserIdAndSecContext(&role, &context);
	return (context & ACTS_AS_OWNER) != 0;
}
