/*
 * pg_stand_in.h
 *		As much of PostgreSQL as modules need that know its memory and its
 *		strings, but nothing else of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PG_STAND_IN_H
#define PG_STAND_IN_H

/* Frees all that is left, as the end of a memory context does. */
extern void pg_stand_in_reset(void);

#endif
