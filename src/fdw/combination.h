/*
 * combination.h
 *		Combinations of options that cannot work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COMBINATION_H
#define DV_COMBINATION_H

#include "nodes/pg_list.h"

/* Raises an error if an object of this catalog cannot work with these options. */
extern void dv_combination_check(List *list, Oid catalog);

#endif							/* DV_COMBINATION_H */
