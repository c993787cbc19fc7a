/*
 * pg_stand_in.h
 *		A stand-in for PostgreSQL, for modules that use its memory and strings,
 *		but nothing else of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PG_STAND_IN_H
#define PG_STAND_IN_H

/* Frees all memory that is left, as deleting a memory context would. */
extern void pg_stand_in_reset(void);

#endif
