/*
 * names.h
 *		The names of a row's members: which are wanted, and which comes next.
 *
 * Who reads pages makes a dv_names of the members that are wanted and gives it
 * to dv_page_open(); all else is between page.c and names.c.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_NAMES_H
#define DV_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dataverse/json_cursor.h"

/*
 * The wanted members of rows: properties, and annotations of properties under
 * their whole name (_ownerid_value@Microsoft.Dynamics.CRM.lookuplogicalname).
 * Made once for a scan and used for one page at a time.
 */
typedef struct dv_names dv_names;

/* The memory it takes; it lives as long as that memory and needs no freeing. */
extern size_t dv_names_size(const char *const *wanted, int n);

/*
 * Copies the names.  "memory" is aligned as by malloc.  NULL if a name is
 * given twice, is empty, or has a quote, a backslash or a control character;
 * or if there are more than 10000.
 */
extern dv_names *dv_names_init(void *memory, const char *const *wanted, int n);

/* ----------
 * For page.c
 * ----------
 */

/* Members of a row that say what the row is. */
typedef enum dv_mark
{
	DV_MARK_NONE,
	DV_MARK_CONTEXT,
	DV_MARK_ID,
	DV_MARK_REASON,
	DV_MARK_REMOVED
} dv_mark;

typedef struct dv_name
{
	const char *text;			/* "name": with its quotes and the colon */
	uint32_t	len;			/* of text; larger than any body: matches nothing */
	int32_t		wanted;			/* index of the caller's, or -1 */
	uint16_t	next[2];		/* what followed, latest first */
	uint8_t		mark;			/* dv_mark */
} dv_name;

struct dv_names
{
	dv_name    *entries;
	uint16_t   *slots;			/* hash table: number of an entry, 0 is free */
	uint32_t	mask;			/* of the hash table */
	int			n_wanted;
	int			n_fixed;		/* entries that outlive a page */
	int			n;
	int			max;
};

/* Forgets what belongs to the page before. */
extern void dv_names_new_page(dv_names *names);

/*
 * The entry of a name that was not foreseen after "previous".  Foreseeable is
 * what stands in the page as "name": without blanks or escapes.
 */
extern dv_name *dv_names_find(dv_names *names, dv_name *previous, const char *name, size_t len,
							  bool foreseeable);

/* What a row's first name comes after. */
#define dv_names_row_start(names) (&(names)->entries[0])

static inline bool
dv_same_bytes(const char *a, const char *b, size_t n)
{
	size_t		i;

	if (n < 8)
		return memcmp(a, b, n) == 0;
	for (i = 0; i + 8 < n; i += 8)
		if (dv_load8(a + i) != dv_load8(b + i))
			return false;
	return dv_load8(a + n - 8) == dv_load8(b + n - 8);
}

/* The name at p if it is one of the two expected after "previous", else NULL. */
static inline dv_name *
dv_names_foresee(dv_names *names, dv_name *previous, const char *p, size_t left)
{
	dv_name    *guess = &names->entries[previous->next[0]];

	if (guess->len <= left && dv_same_bytes(guess->text, p, guess->len))
		return guess;
	guess = &names->entries[previous->next[1]];
	if (guess->len > left || !dv_same_bytes(guess->text, p, guess->len))
		return NULL;
	previous->next[1] = previous->next[0];
	previous->next[0] = (uint16_t) (guess - names->entries);
	return guess;
}

#endif							/* DV_NAMES_H */
