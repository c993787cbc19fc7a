/*
 * connection.h
 *		Provides sessions for servers and user mappings.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CONNECTION_H
#define DV_CONNECTION_H

#include "foreign/foreign.h"

#include "client/session.h"

/*
 * Returns this backend's session with the server on behalf of the role.  A new
 * session is created if none exists, or if the server or the user mapping has
 * been altered.  It is valid at least until the end of the statement.
 */
extern dv_session *dv_connection_get(Oid serverid, Oid userid);

/*
 * Returns the existing session of this backend, or NULL.  Neither creates one nor raises an
 * error.
 */
extern dv_session *dv_connection_find(Oid serverid, Oid userid);

/* Returns the keys by which the pool knows the application users of a user mapping. */
extern dv_entry_key *dv_connection_keys(const ForeignServer *server, List *mapping_options, int *n);

/*
 * Returns the keys of the application users with which the role reads.  *n is
 * 0 if it has no user mapping.  Neither opens a session nor raises an error.
 */
extern dv_entry_key *dv_connection_keys_of(Oid serverid, Oid userid, int *n);

#endif							/* DV_CONNECTION_H */
