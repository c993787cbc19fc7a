/*
 * address.h
 *		Addresses of rows and of metadata, relative to the root of the service.
 *
 * Ids are passed as text.  Results are allocated in the current memory
 * context.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ADDRESS_H
#define DV_ADDRESS_H

#include "lib/stringinfo.h"

/* The 16 bytes of an id as text. */
extern void dv_append_id(StringInfo out, const uint8 *id);
extern char *dv_id_text(const uint8 *id);

/* Returns the text percent-encoded; NULL stays NULL. */
extern char *dv_address_encode(const char *text);

/*
 * Returns the address of a row's references through a navigation property, or,
 * if other_id is given, of its reference to that row:
 * "accounts(id)/contacts/$ref".
 */
extern char *dv_address_reference(const char *set, const char *id, const char *navigation,
								  const char *other_id);

/* Appends the member of the body that names the referenced row, with a comma in front. */
extern void dv_append_referred(StringInfo out, const char *root, const char *set, const char *id);

/* Return the addresses of the approximate number of rows of a table, and of its entity set. */
extern char *dv_address_row_count(const char *table);
extern char *dv_address_entity_set(const char *table);

/*
 * Returns the part of an address that may be logged: the path with dots in the
 * parentheses, and the names of the query options, as in
 * accounts(...)/name?$select&tag.
 */
extern char *dv_address_shape(const char *path);

#endif							/* DV_ADDRESS_H */
