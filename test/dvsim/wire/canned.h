/*
 * canned.h
 *		Answers that cost the simulator next to nothing, for benchmarks of
 *		clients (--canned).
 *
 * Repeated reads are answered with the bytes of the first answer while nothing
 * has changed.  New rows of standard tables are checked as usual and get their
 * ids, but are not kept (row_write.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_CANNED_H
#define SIM_CANNED_H

#include "wire/wire.h"

struct sim_canned;

struct sim_canned *sim_canned_new(void);
void		sim_canned_free(struct sim_canned *canned);

/* the previous answer to the same request, compressed if it was; false if there is none */
bool		sim_canned_replay(struct sim_exchange *exchange);

/* keeps the answer, which is ready to be sent, if it may be used again for the same request */
void		sim_canned_keep(struct sim_exchange *exchange);

#endif
