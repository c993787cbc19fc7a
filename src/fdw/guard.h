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

/* Does it apply to what the session runs now? */
extern bool dv_guard_is_up(void);

extern Oid	dv_guard_owner(Oid function);

/* Does code of the owner of this function run with the rights of this role? */
extern bool dv_guard_trusts(Oid function, Oid roleid);

/* Raises an error if values of the types of the table would run code of others (hold.c). */
extern void dv_hold_check_types(Relation rel);

#endif							/* DV_GUARD_H */
