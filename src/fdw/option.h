/*
 * option.h
 *		The options of servers, user mappings, foreign tables and columns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OPTION_H
#define DV_OPTION_H

#include "nodes/pg_list.h"

#define DV_APPLICATION_USERS_MAX 64

/* Checks what CREATE or ALTER is about to store; raises or returns. */
extern void dv_options_validate(List *options, Oid catalog);

/* What is wrong with a value of an option, as a sentence; NULL: nothing is. */
extern const char *dv_option_fault(const char *name, const char *value);

/*
 * Values.  Up to two lists of DefElems are looked at in turn (the table's,
 * then the server's); NIL for what does not apply.  Without a value in either
 * the default of the option's table row is taken.
 */
typedef struct dv_options
{
	List	   *first;
	List	   *second;
} dv_options;

extern bool dv_option_given(dv_options options, const char *name);
extern const char *dv_option_text(dv_options options, const char *name);	/* NULL: no value, no
																			 * default */
extern bool dv_option_bool(dv_options options, const char *name);
extern int	dv_option_int(dv_options options, const char *name);
extern double dv_option_real(dv_options options, const char *name);
extern int64 dv_option_duration(dv_options options, const char *name);	/* microseconds; -1: unset */
extern bool dv_option_is(dv_options options, const char *name, const char *choice);
extern int	dv_option_choice(dv_options options, const char *name); /* position in the list of
																	 * choices */

/* "client_id", 3 → "client_id_3"; number 1 has no suffix */
extern const char *dv_option_numbered(const char *name, int number);

#endif							/* DV_OPTION_H */
