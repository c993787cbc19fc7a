/*
 * flags.h
 *		The options of the command line.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_FLAGS_H
#define SIM_FLAGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sim_texts
{
	const char **items;
	int			n;
};

/* strings point into argv */
struct sim_flags
{
	const char *listen;
	bool		tls;
	const char *schema;
	const char *data;
	int64_t		seed;
	struct sim_texts app_users;
	struct sim_texts registrations; /* apps without an application user */
	struct sim_texts quirks;
	int64_t		dop;
	int64_t		limit_requests;
	int64_t		limit_exec_us;
	int64_t		limit_concurrent;
	int64_t		window_us;
	const char *limit_scope;
	const char *delta_token;
	int64_t		web_servers;
	double		time_scale;
	const char *latency;
	double		jitter;			/* percent */
	double		capacity;		/* 0: no end */
	double		overload;		/* percent */
	int64_t		token_lifetime_us;
	const char *ready_file;
	const char *log;
	int64_t		journal_bytes;
	bool		canned;
	bool		ids_as_text;
	bool		help;
	bool		version;
};

/* fills in the defaults, then the flags in argv; false with a message on stderr */
bool		sim_flags_parse(struct sim_flags *flags, int argc, char **argv);
void		sim_flags_free(struct sim_flags *flags);
void		sim_flags_help(FILE *out);

/* "250ms", "1.5s", "5min", "2h", a plain number is seconds; false when malformed or negative */
bool		sim_duration_parse(const char *s, int64_t *us);

/* "127.0.0.1:0", "localhost:8080", "[::1]:443"; host gets the address without brackets */
bool		sim_listen_parse(const char *s, char *host, size_t size, int *port);

#endif
