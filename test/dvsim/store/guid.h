/*
 * guid.h
 *		GUIDs: text, SQL Server's byte order, and new ones.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_GUID_H
#define SIM_GUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text (36 characters, or 38 with braces, any case) into the 16 bytes kept in SQLite */
/* makes ids compare like their texts; to be called before any id exists */
void		sim_guid_order_as_text(void);

bool		sim_guid_parse(const char *s, size_t len, unsigned char out[16]);

/* 36 lower-case characters, no terminator */
void		sim_guid_print(const unsigned char in[16], char out[36]);

/* time-ordered for SQL Server, as the service makes them; "salt" varies them within one microsecond */
void		sim_guid_make(uint64_t now_us, uint64_t salt, unsigned char out[16]);

/* fixed for a name: metadata ids, seeded rows */
void		sim_guid_of_name(const char *name, unsigned char out[16]);
void		sim_guid_text_of_name(const char *name, char out[37]);

#endif
