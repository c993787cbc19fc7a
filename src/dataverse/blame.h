/*
 * blame.h
 *		What the service's message says is at fault: a column, a key.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BLAME_H
#define DV_BLAME_H

#include <stdbool.h>

#define DV_BLAME_MAX 128

typedef struct dv_blame
{
	char		column[DV_BLAME_MAX];	/* logical name; "": not said */
	char		key[DV_BLAME_MAX];	/* of an alternate key; "": not said */
	bool		null;			/* the column must not be null */
} dv_blame;

extern void dv_blame_read(const char *message, dv_blame *blame);

#endif							/* DV_BLAME_H */
