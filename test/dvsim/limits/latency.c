/*
 * latency.c
 *		The latency model: reading its specification, computing the latency of
 *		a request.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "limits/latency.h"

/* longest base or price of a row; keeps every sum far from overflow */
#define MAX_SECONDS 100000.0

static const char *const kind_names[SIM_KINDS] = {
	[SIM_OTHER] = "other",
	[SIM_READ] = "read",
	[SIM_CREATE] = "create",
	[SIM_UPDATE] = "update",
	[SIM_UPSERT] = "upsert",
	[SIM_DELETE] = "delete",
	[SIM_BATCH] = "batch",
	[SIM_METADATA] = "metadata",
	[SIM_TOKEN] = "token"
};

/*
 * "real": a create of one row takes 100 ms and CreateMultiple of 100 a second
 * (a loop 10 s), ExecuteMultiple of 100 takes 4 s, UpsertMultiple with 500
 * rows in flight yields 202 rows/s.  The others have not been published; they
 * are proportional.
 */
static const struct
{
	const char *name;
	const char *spec;
}			presets[] = {
	{"none", "all=0,token=0"},
	{"real", "all=90ms+9.1ms/row~20%,upsert=95ms+24ms/row~20%,batch=60ms+40ms/row~20%,"
	"read=50ms+100us/row~20%,metadata=100ms~20%,other=30ms~20%,token=100ms~20%"}
};

/* reads a number and its unit; moves *s past them */
static bool
parse_time(const char **s, int64_t *ns)
{
	static const struct
	{
		const char *name;
		double		ns;
	}			units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	size_t		digits = strspn(*s, "0123456789.");
	char	   *end;
	double		number;
	size_t		i;

	if (digits == 0)
		return false;
	number = strtod(*s, &end);
	if (end != *s + digits)
		return false;
	*s = end;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		size_t		len = strlen(units[i].name);

		if (strncmp(end, units[i].name, len) != 0)
			continue;
		*s = end + len;
		if (number * units[i].ns > MAX_SECONDS * 1e9)
			return false;
		*ns = (int64_t) (number * units[i].ns + 0.5);
		return true;
	}
	*ns = 0;
	return number == 0;
}

static bool
parse_jitter(const char **s, double *jitter)
{
	char	   *end;

	if (strspn(*s, "0123456789.") == 0)
		return false;
	*jitter = strtod(*s, &end) / 100;
	if (*end != '%' || *jitter > 1)
		return false;
	*s = end + 1;
	return true;
}

/* "8ms/row" or "20us/input", after the plus */
static bool
parse_price(const char **s, struct sim_latency_of *cost)
{
	int64_t		ns;

	if (!parse_time(s, &ns))
		return false;
	if (strncmp(*s, "/row", 4) == 0)
	{
		cost->row_ns = ns;
		*s += 4;
	}
	else if (strncmp(*s, "/input", 6) == 0)
	{
		cost->input_ns = ns;
		*s += 6;
	}
	else
		return false;
	return true;
}

/* BASE[+PERROW/row][+PERINPUT/input][~JITTER%], up to the comma or the end */
static bool
parse_cost(const char **s, struct sim_latency_of *cost, const char **error)
{
	memset(cost, 0, sizeof(*cost));
	*error = "a latency needs a time with its unit, as in create=50ms";
	if (!parse_time(s, &cost->base_ns))
		return false;
	while (**s == '+')
	{
		*error = "a latency's price of a row is written as in +8ms/row or +20us/input";
		++*s;
		if (!parse_price(s, cost))
			return false;
	}
	if (**s == '~')
	{
		*error = "a latency's jitter is 0 to 100 per cent, as in ~20%";
		++*s;
		if (!parse_jitter(s, &cost->jitter))
			return false;
	}
	*error = "a latency has something behind its end";
	return **s == ',' || **s == '\0';
}

static bool
assign(struct sim_latency *latency, const char *name, size_t len,
	   const struct sim_latency_of *cost)
{
	bool		all = len == 3 && memcmp(name, "all", 3) == 0;
	bool		found = false;
	int			i;

	for (i = 0; i < SIM_KINDS; i++)
	{
		if (all ? i == SIM_TOKEN :
			strlen(kind_names[i]) != len || memcmp(name, kind_names[i], len) != 0)
			continue;
		latency->of[i] = *cost;
		found = true;
	}
	return found;
}

static const char *
preset(const char *name, size_t len)
{
	size_t		i;

	for (i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (strlen(presets[i].name) == len && memcmp(name, presets[i].name, len) == 0)
			return presets[i].spec;
	return NULL;
}

static bool
parse_items(struct sim_latency *latency, const char *s, const char **error)
{
	for (;;)
	{
		size_t		len = strcspn(s, "=,");
		const char *name = s;
		const char *items = preset(name, len);
		struct sim_latency_of cost;

		s += len;
		if (*s == '=')
		{
			s++;
			if (!parse_cost(&s, &cost, error))
				return false;
			*error = "a latency's operation is one of read, create, update, upsert, delete, "
				"batch, metadata, other, token, all";
			if (!assign(latency, name, len, &cost))
				return false;
		}
		else if (items == NULL)
		{
			*error = "a latency is OP=TIME, or one of the presets none and real";
			return false;
		}
		else if (!parse_items(latency, items, error))
			return false;

		if (*s == '\0')
			return true;
		s++;
	}
}

bool
sim_latency_parse(struct sim_latency *latency, const char *spec, const char **error)
{
	const char *problem = NULL;
	bool		ok;

	memset(latency, 0, sizeof(*latency));
	ok = parse_items(latency, spec, &problem);
	*error = ok ? NULL : problem;
	return ok;
}

int64_t
sim_latency_us(const struct sim_latency *latency, enum sim_kind kind, int rows, int input,
			   uint64_t random)
{
	const struct sim_latency_of *cost = &latency->of[kind];
	double		ns = (double) cost->base_ns;
	double		even = (double) (random >> 11) / (double) (UINT64_C(1) << 52) - 1;

	if (rows > 0)
		ns += (double) cost->row_ns * rows;
	if (input > 0)
		ns += (double) cost->input_ns * input;
	return (int64_t) (ns * (1 + cost->jitter * even) / 1000 + 0.5);
}
