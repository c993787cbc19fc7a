/*
 * readers.h
 *		The rows that an application user may read: all, or those that it
 *		owns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_READERS_H
#define SIM_READERS_H

#include "store/schema.h"
#include "sim.h"

/* returns true if the request may read all rows of the table */
bool		sim_reads_all(const struct sim_req *req, const struct sim_table *table);

/* the rows of the table that the request may read, for a FROM: "account", or a subselect */
const char *sim_readable(struct sim_req *req, const struct sim_table *table);

/* returns true if the request may read the row */
bool		sim_may_read(struct sim_req *req, const struct sim_table *table, const unsigned char id[16]);

#endif
