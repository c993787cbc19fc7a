/*
 * dvsim.c
 *		The simulator's main program: reads the flags, creates the parts,
 *		announces that it is ready, and serves until it is told to end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/drift.h"
#include "wire/flags.h"
#include "store/guid.h"
#include "metadata/metadata_keys.h"
#include "wire/quirks.h"
#include "wire/request.h"
#include "store/schema.h"
#include "store/store.h"
#include "wire/tls.h"
#include "wire/wire.h"

#define VERSION "1.0.0"

static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	(void) number;
	stop = 1;
}

/* SIGTERM and SIGINT end the loop, and reach us only while it waits ("mask") */
static void
catch_signals(sigset_t *mask)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t	blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, mask);
	sigdelset(mask, SIGTERM);
	sigdelset(mask, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* at once: a reader that sees the file sees all of it */
static bool
write_file(const char *path, const char *text)
{
	struct sim_buf temporary = {0};
	FILE	   *f;
	bool		written;

	sim_putf(&temporary, "%s.%ld.tmp", path, (long) getpid());
	f = fopen(temporary.s, "w");
	written = f != NULL && fputs(text, f) >= 0;
	if (f != NULL)
		written = fclose(f) == 0 && written;
	written = written && rename(temporary.s, path) == 0;
	if (!written)
	{
		fprintf(stderr, "dvsim: cannot write \"%s\": %s\n", path, strerror(errno));
		unlink(temporary.s);
	}
	sim_buf_free(&temporary);
	return written;
}

/* beside the ready file, or in the directory for temporary files */
static char *
ca_path(const struct sim_flags *flags)
{
	const char *folder = getenv("TMPDIR");
	struct sim_buf path = {0};

	if (flags->ready_file != NULL)
	{
		char	   *real = realpath(".", NULL);

		if (flags->ready_file[0] != '/' && real != NULL)
			sim_putf(&path, "%s/", real);
		sim_putf(&path, "%s.ca.pem", flags->ready_file);
		free(real);
	}
	else
		sim_putf(&path, "%s/dvsim-%ld.ca.pem", folder && folder[0] ? folder : "/tmp",
				 (long) getpid());
	return path.s;
}

/* writes the ready file or, without one, to standard output */
static bool
tell_ready(const struct sim_flags *flags, const char *base_url, const char *ca_file)
{
	struct sim_buf text = {0};
	bool		told = true;

	sim_putf(&text, "%s\n", base_url);
	if (ca_file != NULL)
		sim_putf(&text, "%s\n", ca_file);
	if (flags->ready_file != NULL)
		told = write_file(flags->ready_file, text.s);
	else
	{
		fputs(text.s, stdout);
		fflush(stdout);
	}
	sim_buf_free(&text);
	return told;
}

static char *
make_base_url(const struct sim_flags *flags, const char *host, int port)
{
	struct sim_buf url = {0};
	bool		v6 = strchr(host, ':') != NULL;

	sim_putf(&url, "%s://%s%s%s:%d", flags->tls ? "https" : "http", v6 ? "[" : "", host,
			 v6 ? "]" : "", port);
	return url.s;
}

/* listens, announces it, and serves */
static bool
serve(struct sim *sim, struct sim_wire *wire, const struct sim_flags *flags,
	  const struct sim_tls *tls, const sigset_t *mask)
{
	char		host[256];
	char	   *base_url;
	char	   *ca_file = NULL;
	int			port;
	bool		served = false;

	sim_listen_parse(flags->listen, host, sizeof(host), &port);
	if (!sim_wire_listen(wire, host, port, tls->key, tls->certificate, &port))
		return false;
	base_url = make_base_url(flags, host, port);
	sim->base_url = base_url;
	if (flags->tls)
		ca_file = ca_path(flags);
	if ((ca_file == NULL || write_file(ca_file, tls->ca)) &&
		tell_ready(flags, base_url, ca_file))
	{
		sim_wire_run(wire, &stop, mask);
		served = true;
	}
	if (ca_file != NULL)
		unlink(ca_file);
	free(ca_file);
	return served;
}

static bool
run(struct sim *sim, const struct sim_flags *flags)
{
	struct sim_tls tls = {0};
	struct sim_wire *wire = NULL;
	sigset_t	mask;
	char		host[256];
	int			port;
	bool		served = false;

	catch_signals(&mask);
	sim_listen_parse(flags->listen, host, sizeof(host), &port);
	if (!flags->tls || sim_tls_make(&tls, host))
		wire = sim_wire_new(sim, flags);
	if (wire != NULL)
		served = serve(sim, wire, flags, &tls, &mask);
	if (wire != NULL)
		sim_wire_free(wire);
	free((char *) sim->base_url);
	sim_tls_free(&tls);
	return served;
}

static bool
set_up(struct sim *sim, const struct sim_flags *flags)
{
	struct timespec now;

	if (flags->ids_as_text)
		sim_guid_order_as_text();
	for (int i = 0; i < flags->quirks.n; i++)
	{
		if (!sim_quirk_set(sim, flags->quirks.items[i]))
		{
			fprintf(stderr, "dvsim: there is no quirk \"%s\" (see --help)\n",
					flags->quirks.items[i]);
			return false;
		}
	}

	clock_gettime(CLOCK_REALTIME, &now);
	sim->seed = (uint64_t) flags->seed;
	sim->random_state = sim->seed;
	sim->time_scale = flags->time_scale;
	sim->start_us = sim_real_us();
	sim->epoch_us = (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
	sim_guid_text_of_name("organization", sim->organization_id);
	sim_guid_text_of_name("businessunit", sim->business_unit_id);
	return true;
}

int
main(int argc, char **argv)
{
	struct sim	sim = {0};
	struct sim_flags flags;
	int			status = EXIT_FAILURE;

	if (!sim_flags_parse(&flags, argc, argv))
		return EXIT_FAILURE;
	if (flags.help || flags.version)
	{
		if (flags.help)
			sim_flags_help(stdout);
		else
			puts("dvsim " VERSION);
		sim_flags_free(&flags);
		return EXIT_SUCCESS;
	}
	if (set_up(&sim, &flags))
		sim.schema = sim_schema_load(flags.schema);
	if (sim.schema != NULL)
		sim.store = sim_store_open(&sim, flags.data);
	if (sim.store != NULL && run(&sim, &flags))
		status = EXIT_SUCCESS;
	sim_keys_free(&sim);
	sim_drift_free(&sim);
	if (sim.store != NULL)
		sim_store_close(sim.store);
	if (sim.schema != NULL)
		sim_schema_free(sim.schema);
	sim_flags_free(&flags);
	return status;
}
