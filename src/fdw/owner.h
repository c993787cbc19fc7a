/*
 * owner.h
 *		Statements that run as the owner of the extension.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OWNER_H
#define DV_OWNER_H

/* The role with whose rights the session acts otherwise. */
typedef struct dv_caller
{
	Oid			role;

	/* private */
	int			context;
	int			settings;
} dv_caller;

/*
 * Acts as the owner of a table until dv_owner_end(), with a search path of pg_catalog only.  After an
 * error, PostgreSQL resets all of this.  If this is restricted, as VACUUM is, nothing that runs
 * meanwhile can keep these rights, and no trigger can be deferred.
 */
extern dv_caller dv_owner_begin(Oid relid, bool restricted);
extern void dv_owner_end(const dv_caller *caller);

/* Returns true between these calls. */
extern bool dv_owner_is_acting(void);

#endif							/* DV_OWNER_H */
