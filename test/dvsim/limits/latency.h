/*
 * latency.h
 *		The time that the service would have taken: a base for the request, a
 *		price for each of its rows, and one for each row that it had to group
 *		or count, with jitter.
 *
 * Pure: no clock and no randomness of its own.  A specification is a comma
 * list, later items override earlier ones:
 *
 *	 OP=BASE[+PERROW/row][+PERINPUT/input][~JITTER%]
 *
 * OP is create, read, update, upsert, delete, batch, metadata, other, token,
 * or all (everything but token); times have a unit (us, ms, s), only 0 needs
 * none; the jitter is even to both sides, 0 to 100.  Instead of an item, the
 * names of presets: "none" (all 0), "real" (figures measured on small
 * environments).
 *
 *	 all=20ms,create=50ms+8ms/row~20%
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_LATENCY_H
#define SIM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim.h"

struct sim_latency
{
	struct sim_latency_of
	{
		int64_t		base_ns;
		int64_t		row_ns;
		int64_t		input_ns;
		double		jitter;		/* 0 to 1 */
	}			of[SIM_KINDS];
};

/* false if malformed, with the reason in *error (static); *latency is then undefined */
bool		sim_latency_parse(struct sim_latency *latency, const char *spec, const char **error);

/* "random" decides the jitter: all 64 bits of a random number; never negative */
int64_t		sim_latency_us(const struct sim_latency *latency, enum sim_kind kind, int rows,
						   int input, uint64_t random);

#endif
