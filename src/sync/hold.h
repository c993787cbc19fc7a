/*
 * hold.h
 *		Tables that are written by name, with rights that other roles lack.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_HOLD_H
#define DV_HOLD_H

/*
 * Locks the name and identity of a table until the transaction ends.  While the guard is up,
 * raises an error if writing the table would run code of other roles.
 */
extern void dv_hold(const char *name, Oid relid);

#endif							/* DV_HOLD_H */
