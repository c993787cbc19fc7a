/*
 * connection.h
 *		Sessions for servers and user mappings.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CONNECTION_H
#define DV_CONNECTION_H

#include "client/session.h"

/*
 * The session of this backend with the server on behalf of the role: the one
 * there is, or a new one when there is none or when the server or the user
 * mapping has been altered.  Valid until the end of the statement at least.
 */
extern dv_session *dv_connection_get(Oid serverid, Oid userid);

#endif							/* DV_CONNECTION_H */
