/*
 * audience.h
 *		Visibility of the views of the pool.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_AUDIENCE_H
#define DV_AUDIENCE_H

#include "pool/entry.h"

/* The rights of the current user; determined on demand, in the current memory context. */
typedef struct dv_audience dv_audience;

extern dv_audience *dv_audience_create(void);

/*
 * Returns true if this application user, as used by this server, is visible to
 * the current user.  "in_use": some session uses it, whether or not a user
 * mapping still names it.
 */
extern bool dv_audience_sees_user(dv_audience *audience, Oid databaseid, Oid serverid,
								  const uint8 *key, bool in_use);

typedef enum dv_sight
{
	DV_SEES_NOTHING,
	DV_SEES_OUTLINE,			/* that it exists, and what it waits for */
	DV_SEES_ALL
} dv_sight;

/* Returns how much the current user sees of an operation of this role. */
extern dv_sight dv_audience_sees_operation(dv_audience *audience, Oid databaseid, Oid serverid,
										   Oid roleid);

#endif							/* DV_AUDIENCE_H */
