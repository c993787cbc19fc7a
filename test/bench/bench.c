/*
 * bench.c
 *		Code shared by the benchmarks that start a dvsim of their own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define READY_TRIES 5000		/* of 2 ms each */

const char *bench_name;
pid_t		bench_server = -1;
char		bench_base[256];
bool		bench_canned;

void
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fprintf(stderr, "%s: ", bench_name);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);					/* atexit stops dvsim */
}

void
bench_stop(void)
{
	if (bench_server > 0)
	{
		kill(bench_server, SIGTERM);
		waitpid(bench_server, NULL, 0);
	}
	bench_server = -1;
}

void
bench_pin(int core)
{
	cpu_set_t	set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* The file is complete when it appears, because dvsim renames it. */
static bool
read_ready_file(const char *ready)
{
	FILE	   *file = fopen(ready, "r");
	bool		whole;

	if (file == NULL)
		return false;
	whole = fgets(bench_base, sizeof(bench_base), file) != NULL;
	bench_base[strcspn(bench_base, "\n")] = '\0';
	fclose(file);
	return whole;
}

static void
exec_server(const char *program, int core, const char *ready)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	bench_pin(core);
	execl(program, program, "--listen", "127.0.0.1:0", "--app-user", "bench:secret",
		  "--limit-requests", "100000000", "--limit-exec", "1000000s",
		  "--limit-concurrent", "1000", "--ready-file", ready,
		  bench_canned ? "--canned" : (char *) NULL, (char *) NULL);
	fprintf(stderr, "could not run %s: %s\n", program, strerror(errno));
	_exit(127);
}

void
bench_start(const char *program, int core)
{
	char		dir[] = "/tmp/dvsim_bench.XXXXXX";
	char		ready[sizeof(dir) + 8];
	bool		is_ready = false;
	int			tries;

	if (mkdtemp(dir) == NULL)
		die("could not create a directory: %s", strerror(errno));
	snprintf(ready, sizeof(ready), "%s/ready", dir);
	bench_server = fork();
	if (bench_server < 0)
		die("could not fork: %s", strerror(errno));
	if (bench_server == 0)
		exec_server(program, core, ready);
	for (tries = 0; tries < READY_TRIES && !is_ready; tries++)
	{
		usleep(2000);
		if (waitpid(bench_server, NULL, WNOHANG) != 0)
		{
			bench_server = -1;
			break;
		}
		is_ready = read_ready_file(ready);
	}
	unlink(ready);
	rmdir(dir);
	if (!is_ready)
		die("%s did not become ready", program);
}
