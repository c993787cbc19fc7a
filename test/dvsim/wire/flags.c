/*
 * flags.c
 *		The command line, as a table.
 *
 * Each flag is a line of the table: its destination, how it is read, and its
 * permitted values.  The help text is printed from the same lines, so it is
 * always up to date.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "wire/flags.h"
#include "store/mem.h"
#include "wire/quirks.h"

enum flag_type
{
	FLAG_BOOL,
	FLAG_TEXT,
	FLAG_TEXTS,					/* may be given again */
	FLAG_INTEGER,
	FLAG_REAL,
	FLAG_DURATION
};

struct flag
{
	const char *name;
	enum flag_type type;
	size_t		offset;
	const char *value;			/* its name in the help */
	int64_t		min;
	int64_t		max;
	const char *help;
};

#define AT(field) offsetof(struct sim_flags, field)
#define DAY_US (INT64_C(86400) * 1000000)

static const struct flag flag_table[] = {
	{"listen", FLAG_TEXT, AT(listen), "HOST:PORT", 0, 0,
	"where to listen; port 0 takes a free one (default 127.0.0.1:0)"},
	{"tls", FLAG_BOOL, AT(tls), NULL, 0, 0,
	"speak HTTPS with a certificate made at the start"},
	{"schema", FLAG_TEXT, AT(schema), "FILE", 0, 0,
	"tables of the organisation (default: those built in)"},
	{"data", FLAG_TEXT, AT(data), "FILE", 0, 0,
	"keep the rows in this SQLite file (default: memory)"},
	{"seed", FLAG_INTEGER, AT(seed), "N", 0, INT64_MAX,
	"of everything random (default 1)"},
	{"app-user", FLAG_TEXTS, AT(app_users), "ID:SECRET", 0, 0,
		"an application user, repeatable; split at the last colon.  SECRET @FILE\n"
	"is a PEM certificate: split at the first \":@\" (default app1:secret1)"},
	{"app-registration", FLAG_TEXTS, AT(registrations), "ID:SECRET", 0, 0,
	"an app that gets tokens but is no user of the organisation, repeatable"},
	{"quirk", FLAG_TEXTS, AT(quirks), "NAME", 0, 0,
	"differ from what is documented as some environments do, repeatable"},
	{"ids-as-text", FLAG_BOOL, AT(ids_as_text), NULL, 0, 0,
	"compare and sort ids by their text, not as SQL Server does"},
	{"dop", FLAG_INTEGER, AT(dop), "N", 1, 1000000,
	"value of x-ms-dop-hint (default 48)"},
	{"limit-requests", FLAG_INTEGER, AT(limit_requests), "N", 1, INT64_C(1000000000000),
	"requests in a window (default 6000)"},
	{"limit-exec", FLAG_DURATION, AT(limit_exec_us), "TIME", 1, DAY_US * 365,
	"combined execution time in a window (default 1200s)"},
	{"limit-concurrent", FLAG_INTEGER, AT(limit_concurrent), "N", 1, 1000000,
	"concurrent requests (default 52)"},
	{"window", FLAG_DURATION, AT(window_us), "TIME", 1000, DAY_US * 365,
	"the sliding window of the limits (default 300s)"},
	{"limit-scope", FLAG_TEXT, AT(limit_scope), "SCOPE", 0, 0,
	"server: each web server has its own budget (default); shared: all one"},
	{"delta-token", FLAG_TEXT, AT(delta_token), "WHEN", 0, 0,
		"the first delta link of a table speaks of the moment of the first page\n"
	"of the read that it ends (first, default), or of the last one (last)"},
	{"web-servers", FLAG_INTEGER, AT(web_servers), "N", 1, 1000,
	"web servers behind the address (default 1)"},
	{"time-scale", FLAG_REAL, AT(time_scale), "X", 0, 1000000,
		"virtual time runs X times as fast: window, latency, Retry-After,\n"
	"token lifetime (default 1)"},
	{"latency", FLAG_TEXT, AT(latency), "SPEC", 0, 0,
	"how long requests take (default: no time); see README.md"},
	{"jitter", FLAG_REAL, AT(jitter), "PERCENT", 0, 100,
	"by which latencies differ that are specified without jitter (default 0)"},
	{"capacity", FLAG_REAL, AT(capacity), "N", 0, 1000000,
	"requests that progress at full speed; more share that (default: any number)"},
	{"overload", FLAG_REAL, AT(overload), "PERCENT", 0, 100,
	"of the capacity that each request beyond twice --capacity costs (default 0)"},
	{"token-lifetime", FLAG_DURATION, AT(token_lifetime_us), "TIME", 1000000, DAY_US * 365,
	"of access tokens, in virtual time (default 3599s)"},
	{"ready-file", FLAG_TEXT, AT(ready_file), "PATH", 0, 0,
	"written when ready: the base URL; with --tls then the CA file's path"},
	{"log", FLAG_TEXT, AT(log), "FILE", 0, 0,
	"a line for each request"},
	{"journal-bytes", FLAG_INTEGER, AT(journal_bytes), "N", 0, INT64_C(1) << 40,
	"memory for /_dvsim/requests (default 67108864)"},
	{"canned", FLAG_BOOL, AT(canned), NULL, 0, 0,
		"for benchmarks of clients only: what is read again is answered with the\n"
	"bytes of the first time, and rows that are created are not kept"},
	{"help", FLAG_BOOL, AT(help), NULL, 0, 0, "print this"},
	{"version", FLAG_BOOL, AT(version), NULL, 0, 0, "print the version"},
};

#define NFLAGS ((int) (sizeof(flag_table) / sizeof(flag_table[0])))

static const struct
{
	const char *name;
	double		us;
}			units[] = {
	{"", 1e6}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"min", 60e6}, {"h", 3600e6},
};

bool
sim_duration_parse(const char *s, int64_t *us)
{
	char	   *end;
	double		number;

	/* strtod would take signs, blanks, hexadecimals, "inf" and "nan" */
	if (strspn(s, "0123456789.") == 0 || s[strspn(s, "0123456789.")] == 'x')
		return false;
	number = strtod(s, &end);
	if (end == s)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		if (strcmp(end, units[i].name) == 0)
		{
			number *= units[i].us;
			if (!(number >= 0 && number < 9e17))
				return false;
			*us = (int64_t) llround(number);
			return true;
		}
	}
	return false;
}

bool
sim_listen_parse(const char *s, char *host, size_t size, int *port)
{
	const char *colon = strrchr(s, ':');
	size_t		len;
	char	   *end;
	long		number;

	if (colon == NULL || colon[1] < '0' || colon[1] > '9')
		return false;
	number = strtol(colon + 1, &end, 10);
	if (*end != '\0' || number > 65535)
		return false;
	len = (size_t) (colon - s);
	if (len >= 2 && s[0] == '[' && s[len - 1] == ']')
	{
		s++;
		len -= 2;
	}
	if (len == 0 || len >= size)
		return false;
	memcpy(host, s, len);
	host[len] = '\0';
	*port = (int) number;
	return true;
}

static const struct flag *
find_flag(const char *name, size_t len)
{
	for (int i = 0; i < NFLAGS; i++)
	{
		if (strlen(flag_table[i].name) == len && memcmp(flag_table[i].name, name, len) == 0)
			return &flag_table[i];
	}
	return NULL;
}

static bool
store_integer(const struct flag *flag, const char *value, int64_t *at)
{
	char	   *end;
	long long	number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || number < flag->min || number > flag->max)
	{
		fprintf(stderr, "dvsim: --%s wants a whole number from %lld to %lld, not \"%s\"\n",
				flag->name, (long long) flag->min, (long long) flag->max, value);
		return false;
	}
	*at = number;
	return true;
}

static bool
store_duration(const struct flag *flag, const char *value, int64_t *at)
{
	if (!sim_duration_parse(value, at))
	{
		fprintf(stderr, "dvsim: --%s wants a time such as 250ms, 30s, 5min or 1h, not \"%s\"\n",
				flag->name, value);
		return false;
	}
	if (*at < flag->min || *at > flag->max)
	{
		fprintf(stderr, "dvsim: --%s wants a time from %gs to %gs, not \"%s\"\n",
				flag->name, (double) flag->min / 1e6, (double) flag->max / 1e6, value);
		return false;
	}
	return true;
}

static bool
store_real(const struct flag *flag, const char *value, double *at)
{
	char	   *end;

	*at = strtod(value, &end);
	if (end == value || *end != '\0' || !(*at > 0 && *at <= (double) flag->max))
	{
		fprintf(stderr, "dvsim: --%s wants a number above 0, at most %lld, not \"%s\"\n",
				flag->name, (long long) flag->max, value);
		return false;
	}
	return true;
}

static bool
store(struct sim_flags *flags, const struct flag *flag, const char *value)
{
	void	   *at = (char *) flags + flag->offset;
	struct sim_texts *texts = at;

	switch (flag->type)
	{
		case FLAG_BOOL:
			*(bool *) at = true;
			return true;
		case FLAG_TEXT:
			*(const char **) at = value;
			return true;
		case FLAG_TEXTS:
			texts->items = sim_xrealloc(texts->items,
										sizeof(char *) * (size_t) (texts->n + 1));
			texts->items[texts->n++] = value;
			return true;
		case FLAG_INTEGER:
			return store_integer(flag, value, at);
		case FLAG_REAL:
			return store_real(flag, value, at);
		case FLAG_DURATION:
			return store_duration(flag, value, at);
	}
	return false;
}

static void
set_defaults(struct sim_flags *flags)
{
	memset(flags, 0, sizeof(*flags));
	flags->listen = "127.0.0.1:0";
	flags->seed = 1;
	flags->dop = 48;
	flags->limit_requests = 6000;
	flags->limit_exec_us = INT64_C(1200000000);
	flags->limit_concurrent = 52;
	flags->window_us = INT64_C(300000000);
	flags->limit_scope = "server";
	flags->delta_token = "first";
	flags->web_servers = 1;
	flags->time_scale = 1;
	flags->token_lifetime_us = INT64_C(3599000000);
	flags->journal_bytes = 64 << 20;
}

static bool
check(const struct sim_flags *flags)
{
	char		host[256];
	int			port;

	if (!sim_listen_parse(flags->listen, host, sizeof(host), &port))
	{
		fprintf(stderr, "dvsim: --listen wants HOST:PORT, not \"%s\"\n", flags->listen);
		return false;
	}
	if (strcmp(flags->limit_scope, "server") != 0 && strcmp(flags->limit_scope, "shared") != 0)
	{
		fprintf(stderr, "dvsim: --limit-scope is \"server\" or \"shared\", not \"%s\"\n",
				flags->limit_scope);
		return false;
	}
	if (strcmp(flags->delta_token, "first") != 0 && strcmp(flags->delta_token, "last") != 0)
	{
		fprintf(stderr, "dvsim: --delta-token is \"first\" or \"last\", not \"%s\"\n",
				flags->delta_token);
		return false;
	}
	if (flags->canned && flags->data != NULL)
	{
		fprintf(stderr, "dvsim: --canned keeps no rows, so it cannot be used with --data\n");
		return false;
	}
	return true;
}

bool
sim_flags_parse(struct sim_flags *flags, int argc, char **argv)
{
	set_defaults(flags);
	for (int i = 1; i < argc; i++)
	{
		const char *name = argv[i];
		const char *equals = strchr(name, '=');
		size_t		len = equals ? (size_t) (equals - name) : strlen(name);
		const char *value = equals ? equals + 1 : NULL;
		const struct flag *flag = NULL;

		if (len > 2 && strncmp(name, "--", 2) == 0)
			flag = find_flag(name + 2, len - 2);
		if (flag == NULL)
		{
			fprintf(stderr, "dvsim: unknown argument \"%s\" (see --help)\n", name);
			return false;
		}
		if (flag->type == FLAG_BOOL && value != NULL)
		{
			fprintf(stderr, "dvsim: --%s takes no value\n", flag->name);
			return false;
		}
		if (flag->type != FLAG_BOOL && value == NULL)
		{
			if (i + 1 >= argc)
			{
				fprintf(stderr, "dvsim: --%s wants %s\n", flag->name, flag->value);
				return false;
			}
			value = argv[++i];
		}
		if (!store(flags, flag, value))
			return false;
	}
	return check(flags);
}

void
sim_flags_free(struct sim_flags *flags)
{
	free(flags->app_users.items);
	free(flags->registrations.items);
	free(flags->quirks.items);
}

void
sim_flags_help(FILE *out)
{
	fprintf(out, "dvsim simulates the Dataverse Web API.\n\nUsage: dvsim [flags]\n\n");
	for (int i = 0; i < NFLAGS; i++)
	{
		const struct flag *flag = &flag_table[i];
		const char *line = flag->help;
		int			width = fprintf(out, "  --%s%s%s", flag->name, flag->value ? " " : "",
									flag->value ? flag->value : "");

		while (*line)
		{
			size_t		len = strcspn(line, "\n");

			fprintf(out, "%*s%.*s\n", width < 29 ? 30 - width : 2, "", (int) len, line);
			line += len;
			line += *line == '\n';
			width = 0;
		}
	}
	fprintf(out, "\nQuirks:\n\n");
	sim_quirks_help(out);
	fprintf(out, "\nTIME is a number with ms, s, min or h; without a unit it is seconds.\n"
			"The control plane is at /_dvsim/ (README.md).\n");
}
