/*
 * bench.h
 *		Code shared by the benchmarks that start a dvsim of their own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <sys/types.h>

extern const char *bench_name;	/* name of the program, for messages */
extern pid_t bench_server;		/* process id of dvsim; -1: none */
extern char bench_base[256];	/* address of dvsim */
extern bool bench_canned;		/* start it with --canned */

/* Prints the reason and exits; dvsim is stopped, too. */
void		die(const char *fmt,...) __attribute__((noreturn, format(printf, 1, 2)));

/* Pins this process to a processor; -1: to none. */
void		bench_pin(int core);

/* Starts dvsim without limits, user "bench" with "secret", and waits until it answers. */
void		bench_start(const char *program, int core);
void		bench_stop(void);

#endif
