/*
 * bench.h
 *		What the benchmarks that start a dvsim of their own have in common.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef BENCH_H
#define BENCH_H

#include <sys/types.h>

extern const char *bench_name;	/* of the program, for messages */
extern pid_t bench_server;		/* dvsim; -1: none */
extern char bench_base[256];	/* its address */

/* Says why and ends; dvsim ends too. */
void		die(const char *fmt,...) __attribute__((noreturn, format(printf, 1, 2)));

/* This process runs on that processor only; -1: on any. */
void		bench_pin(int core);

/* Starts dvsim without limits, user "bench" with "secret", and waits until it answers. */
void		bench_start(const char *program, int core);
void		bench_stop(void);

#endif
