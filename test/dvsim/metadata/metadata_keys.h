/*
 * metadata_keys.h
 *		Alternate keys that requests create and delete.
 *
 * The keys of the schema file exist from the start.  Requests can delete them
 * and create others, whose index a background job creates: until then, a key
 * is Pending or InProgress, and neither enforced nor usable in URLs.  This
 * state belongs to the process; a reset restores the keys of the schema.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_METADATA_KEYS_H
#define SIM_METADATA_KEYS_H

#include "store/schema.h"
#include "sim.h"

#define SIM_MAX_KEYS 10			/* of a table */

/* POST of EntityDefinitions(…)/Keys */
bool		sim_key_create(struct sim_req *req, struct sim_res *res, struct sim_table *table);

/* DELETE of EntityDefinitions(…)/Keys(…) */
bool		sim_key_delete(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						   const struct sim_key_def *key);

/* the action ReactivateEntityKey */
bool		sim_key_reactivate(struct sim_req *req, struct sim_res *res);

/* advances jobs with the virtual clock; to be called before each request */
void		sim_keys_advance(struct sim *sim);

/* called when another schema is in use, whose keys are those that the tables had before */
void		sim_keys_moved(struct sim *sim);

/* restores the keys of the schema, and no others; false if SQLite refuses */
bool		sim_keys_reset(struct sim *sim);
void		sim_keys_free(struct sim *sim);

#endif
