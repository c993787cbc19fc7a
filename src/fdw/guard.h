/*
 * guard.h
 *		Whose code runs with whose rights.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_GUARD_H
#define DV_GUARD_H

#include "utils/relcache.h"

extern void dv_guard_init(void);

/* Returns true if the guard applies to the code that the session runs now. */
extern bool dv_guard_is_up(void);

extern Oid	dv_guard_owner(Oid function);

/* Returns true if code of this function's owner may run with the rights of this role. */
extern bool dv_guard_trusts(Oid function, Oid roleid);

/* Raises an error if values of the table's types would run code of other roles (hold.c). */
extern void dv_hold_check_types(Relation rel);

#endif							/* DV_GUARD_H */
