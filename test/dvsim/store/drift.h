/*
 * drift.h
 *		Changes of the schema while dvsim runs.
 *
 * A change edits the JSON that the schema was built from, builds another
 * schema, and moves the rows over.  It happens between two requests, so no
 * request sees half of it.  The schema that was replaced lives on until the
 * next request, because a $batch may be under way.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_DRIFT_H
#define SIM_DRIFT_H

#include <json-c/json.h>

#include "store/schema.h"
#include "sim.h"

/* makes one change, or an array of them: all or none; false with the reason */
bool		sim_drift_apply(struct sim *sim, struct sim_arena *arena, struct json_object *changes,
							const char **error);

/*
 * prints definitions as in a schema file, of one table or of all; false if there is no such table
 */
bool		sim_drift_print(const struct sim *sim, const char *table, struct sim_buf *out);

/* restores the schema of the rows in a data file; to be called before the tables are created */
bool		sim_drift_restore(struct sim *sim);

/* restores the tables of the start, all of them empty; in a transaction of the caller */
bool		sim_drift_reset(struct sim *sim);

/* forgets schemas that were replaced; to be called before each request */
void		sim_drift_collect(struct sim *sim);
void		sim_drift_free(struct sim *sim);

/* the value of @Microsoft.Dynamics.CRM.globalmetadataversion */
int			sim_metadata_version(const struct sim *sim);

/* drift_edit.c: carries out a change on the JSON of a schema */
struct sim_drift_edit
{
	struct sim *sim;
	struct sim_arena *arena;
	struct json_object *root;	/* to be changed */
	struct json_object *base;	/* that of the start */
	struct json_object *before; /* "root" as it was; known after the edit */
	struct json_object *change;
	const char *table;			/* logical name of the table to be changed, or NULL */
	const char *renamed_from;	/* a column's, or NULL */
	const char *renamed_to;
	const char *error;
};

bool		sim_drift_edit(struct sim_drift_edit *edit);

/* a table's definition, by name in any case; NULL if there is none */
struct json_object *sim_drift_table(struct json_object *root, const char *name);

#endif
