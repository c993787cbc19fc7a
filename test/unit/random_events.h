/*
 * random_events.h
 *		Random numbers for property tests.  The seed is printed, and can be
 *		set.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RANDOM_EVENTS_H
#define DV_RANDOM_EVENTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS 1000000

static uint64_t random_state;

/* SEED=n in the environment repeats a run. */
static inline void
seed_random(const char *test)
{
	const char *given = getenv("SEED");

	random_state = given != NULL ? strtoull(given, NULL, 10) : 20260822;
	printf("# %s: SEED=%llu\n", test, (unsigned long long) random_state);
}

static inline uint64_t
next_random(void)
{
	uint64_t	z = random_state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* returns a number from 0 to n - 1 */
static inline int64_t
random_below(int64_t n)
{
	return (int64_t) (next_random() % (uint64_t) n);
}

#endif
