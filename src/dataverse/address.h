/*-------------------------------------------------------------------------
 *
 * address.h
 *		Addresses of rows and of what else the service tells, below its root.
 *
 * Ids are text here; what is returned lies in the current memory context.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_ADDRESS_H
#define DV_ADDRESS_H

#include "lib/stringinfo.h"

/* 16 bytes as text. */
extern void dv_append_id(StringInfo out, const uint8 *id);
extern char *dv_id_text(const uint8 *id);

/* Percent-encoded; NULL stays NULL. */
extern char *dv_address_encode(const char *text);

/*
 * A row's reference to others through a navigation property, or (with their
 * id) to one of them: "accounts(id)/contacts/$ref".
 */
extern char *dv_address_reference(const char *set, const char *id, const char *navigation,
								  const char *other_id);

/* The body's member that says which row to refer to, with a comma in front. */
extern void dv_append_referred(StringInfo out, const char *root, const char *set, const char *id);

/* How many rows a table has, more or less; what the entity set of a table is. */
extern char *dv_address_row_count(const char *table);
extern char *dv_address_entity_set(const char *table);

#endif							/* DV_ADDRESS_H */
