/*
 * latency.h
 *		The time that the service would take: a base for the request, a time
 *		for each of its rows, and one for each row that it groups or counts,
 *		with jitter.
 *
 * Pure: no clock and no randomness of its own.  A specification is a comma
 * list, later items override earlier ones:
 *
 *	 OP=BASE[+PERROW/row][+PERINPUT/input][~JITTER%]
 *
 * OP is create, read, update, upsert, delete, batch, metadata, other, token,
 * or all (everything but token).  Times have a unit (us, ms, s), which only 0
 * does not need.  The jitter, 0 to 100, is distributed evenly in both
 * directions.  An item can also be a preset: "none" (all 0) or "real"
 * (figures measured on small environments).
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
