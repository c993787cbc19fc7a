/*
 * blame.h
 *		Finds the column or key that a message of the service blames.
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
	char		column[DV_BLAME_MAX];	/* logical name; "" if unknown */
	char		key[DV_BLAME_MAX];	/* name of an alternate key; "" if unknown */
	bool		null;			/* the column must not be null */
} dv_blame;

extern void dv_blame_read(const char *message, dv_blame *blame);

#endif							/* DV_BLAME_H */
