/*
 * names.h
 *		The names of a row's members: which are wanted, and which come next.
 *
 * A reader of pages makes a dv_names of the wanted members and passes it to
 * dv_page_open(); everything else is internal to page.c and names.c.
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
 * The wanted members of rows: properties, and annotations under their full
 * names (_ownerid_value@Microsoft.Dynamics.CRM.lookuplogicalname).  Made once
 * for each scan and used for one page at a time.
 */
typedef struct dv_names dv_names;

/* Returns the size of the memory it needs.  It lives in that memory and needs no freeing. */
extern size_t dv_names_size(const char *const *wanted, int n);

/*
 * Copies the names.  "memory" must be aligned as by malloc.  Returns NULL if a
 * name is given twice, is empty, or contains a quote, a backslash, or a
 * control character; or if there are more than 10000.
 */
extern dv_names *dv_names_init(void *memory, const char *const *wanted, int n);

/* ----------
 * For page.c
 * ----------
 */

/* Members of a row that determine its kind. */
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
	const char *text;			/* with its quotes and the colon: "name": */
	uint32_t	len;			/* of text; UINT32_MAX matches nothing */
	int32_t		wanted;			/* index in the caller's list, or -1 */
	uint16_t	next[2];		/* the names that followed it, latest first */
	uint8_t		mark;			/* dv_mark */
} dv_name;

struct dv_names
{
	dv_name    *entries;
	uint16_t   *slots;			/* hash table: number of an entry; 0 if free */
	uint32_t	mask;			/* of the hash table */
	int			n_wanted;
	int			n_fixed;		/* entries that are kept for the next page */
	int			n;
	int			max;
};

/* Forgets what belongs to the previous page. */
extern void dv_names_new_page(dv_names *names);

/*
 * Returns the entry of a name that was not foreseen after "previous".  A name
 * is foreseeable if it is written as "name": without blanks or escapes.
 */
extern dv_name *dv_names_find(dv_names *names, dv_name *previous, const char *name, size_t len,
							  bool foreseeable);

/* The entry that the first name of a row comes after. */
#define dv_names_row_start(names) (&(names)->entries[0])

/*
 * Returns true if FetchXML gives this name to a column of a link without an alias,
 * or prefixes an alias with it: "t1.name", or "t1_x002e_name".  The links of our
 * queries have such names (fetch.c), while no property has a dot in its name.
 */
extern bool dv_names_is_of_link(const char *name, size_t len);

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

/* Returns the name at p if it is one of the two expected after "previous", else NULL. */
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
