/*
 * request.h
 *		Functions to read a request, beyond those of sim.h.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include "sim.h"

/* real monotonic time */
int64_t		sim_real_us(void);

/* the generator behind sim_random, over a state of one's own */
uint64_t	sim_random_next(uint64_t *state);

/* a random (version 4) GUID as text */
void		sim_guid_random(struct sim *sim, char out[37]);

/* like sim_pair_add, but the strings are not copied */
void		sim_pair_borrow(struct sim_arena *arena, struct sim_pairs *pairs, const char *name,
							const char *value);

/* "a=b&c=d" into decoded pairs; false on a broken escape */
bool		sim_query_parse(struct sim_arena *arena, const char *query, struct sim_pairs *params);

/* returns true if the list of odata.include-annotations is well-formed */
bool		sim_annotations_valid(const struct sim_req *req);

#endif
