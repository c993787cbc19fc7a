/*
 * schema_index.h
 *		The hashed names behind the look-ups of schema.h.
 *
 * Built once when the schema is complete and never changed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SCHEMA_INDEX_H
#define SIM_SCHEMA_INDEX_H

#include "store/schema.h"

/* indexes all names of a finished schema; false if a name occurs twice (message on stderr) */
bool		sim_index_schema(struct sim_schema *schema);

#endif
