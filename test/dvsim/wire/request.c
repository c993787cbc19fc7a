/*
 * request.c
 *		The contents of a request: headers, query options, preferences;
 *		also the clock and random numbers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "wire/request.h"

int64_t
sim_real_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
sim_now_us(const struct sim *sim)
{
	int64_t		real = sim_real_us() - sim->start_us;

	return (int64_t) ((double) real * sim->time_scale) + sim->clock_skew_us;
}

int64_t
sim_unix_now(const struct sim *sim)
{
	return (sim->epoch_us + sim_now_us(sim)) / 1000000;
}

uint64_t
sim_random_next(uint64_t *state)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t
sim_random(struct sim *sim)
{
	return sim_random_next(&sim->random_state);
}

static void
pair_push(struct sim_arena *arena, struct sim_pairs *pairs, const char *name, const char *value)
{
	if (pairs->n == pairs->cap)
	{
		int			cap = pairs->cap ? pairs->cap * 2 : 16;
		struct sim_pair *items = sim_alloc(arena, sizeof(struct sim_pair) * (size_t) cap);

		if (pairs->n > 0)
			memcpy(items, pairs->items, sizeof(struct sim_pair) * (size_t) pairs->n);
		pairs->items = items;
		pairs->cap = cap;
	}
	pairs->items[pairs->n].name = name;
	pairs->items[pairs->n].value = value;
	pairs->n++;
}

void
sim_pair_borrow(struct sim_arena *arena, struct sim_pairs *pairs, const char *name,
				const char *value)
{
	pair_push(arena, pairs, name, value);
}

void
sim_pair_add(struct sim_arena *arena, struct sim_pairs *pairs, const char *name, const char *value)
{
	pair_push(arena, pairs, sim_strdup(arena, name), sim_strdup(arena, value));
}

void
sim_res_header(struct sim_req *req, struct sim_res *res, const char *name, const char *value)
{
	sim_pair_add(req->arena, &res->headers, name, value);
}

const char *
sim_header(const struct sim_req *req, const char *name)
{
	for (int i = 0; i < req->headers.n; i++)
	{
		if (strcasecmp(req->headers.items[i].name, name) == 0)
			return req->headers.items[i].value;
	}
	return NULL;
}

const char *
sim_param(const struct sim_req *req, const char *name)
{
	for (int i = 0; i < req->params.n; i++)
	{
		if (strcmp(req->params.items[i].name, name) == 0)
			return req->params.items[i].value;
	}
	return NULL;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool
sim_url_decode(char *s, bool plus)
{
	char	   *out = s;

	for (; *s; s++)
	{
		if (*s == '%')
		{
			int			high = hex_digit(s[1]);
			int			low = high < 0 ? -1 : hex_digit(s[2]);

			/* a NUL would cut off the text unnoticed */
			if (low < 0 || (high == 0 && low == 0))
				return false;
			*out++ = (char) (high << 4 | low);
			s += 2;
		}
		else if (plus && *s == '+')
			*out++ = ' ';
		else
			*out++ = *s;
	}
	*out = '\0';
	return true;
}

bool
sim_query_parse(struct sim_arena *arena, const char *query, struct sim_pairs *params)
{
	while (*query)
	{
		size_t		len = strcspn(query, "&");

		if (len > 0)
		{
			char	   *name = sim_strndup(arena, query, len);
			char	   *value = strchr(name, '=');

			if (value != NULL)
				*value++ = '\0';
			else
				value = name + len;
			if (!sim_url_decode(name, true) || !sim_url_decode(value, true))
				return false;
			pair_push(arena, params, name, value);
		}
		query += len;
		query += *query == '&';
	}
	return true;
}

/* one item of a Prefer header: its name, its value without quotes; returns the rest */
struct preference
{
	const char *name;
	size_t		name_len;
	const char *value;
	size_t		value_len;
	bool		has_value;
};

static bool
separator(char c)
{
	return c == ' ' || c == '\t' || c == ',' || c == ';';
}

static const char *
next_preference(const char *s, struct preference *item)
{
	while (separator(*s))
		s++;
	if (*s == '\0')
		return NULL;
	memset(item, 0, sizeof(*item));
	item->name = s;
	while (*s && *s != '=' && !separator(*s))
		s++;
	item->name_len = (size_t) (s - item->name);
	item->value = s;
	while (*s == ' ' || *s == '\t')
		s++;
	if (*s != '=')
		return s;
	item->has_value = true;
	s++;
	while (*s == ' ' || *s == '\t')
		s++;
	if (*s == '"')
	{
		item->value = ++s;
		while (*s && *s != '"')
			s++;
		item->value_len = (size_t) (s - item->value);
		return *s ? s + 1 : s;
	}
	item->value = s;
	while (*s && !separator(*s))
		s++;
	item->value_len = (size_t) (s - item->value);
	return s;
}

static bool
find_preference(const struct sim_req *req, const char *name, struct preference *item)
{
	size_t		len = strlen(name);

	for (int i = 0; i < req->headers.n; i++)
	{
		const char *s = req->headers.items[i].value;

		if (strcasecmp(req->headers.items[i].name, "Prefer") != 0)
			continue;
		while ((s = next_preference(s, item)) != NULL)
		{
			if (item->name_len == len && strncasecmp(item->name, name, len) == 0)
				return true;
		}
	}
	return false;
}

const char *
sim_prefer(const struct sim_req *req, const char *name)
{
	struct preference item;

	if (!find_preference(req, name, &item))
		return NULL;
	return sim_strndup(req->arena, item.value, item.value_len);
}

long
sim_prefer_int(const struct sim_req *req, const char *name)
{
	struct preference item;
	long		number = 0;

	if (!find_preference(req, name, &item) || item.value_len == 0 || item.value_len > 10)
		return -1;
	for (size_t i = 0; i < item.value_len; i++)
	{
		if (item.value[i] < '0' || item.value[i] > '9')
			return -1;
		number = number * 10 + (item.value[i] - '0');
	}
	return number;
}

static bool
pattern_matches(const char *pattern, size_t len, const char *annotation)
{
	if (len > 0 && pattern[len - 1] == '*')
		return strncmp(pattern, annotation, len - 1) == 0;
	return strlen(annotation) == len && memcmp(pattern, annotation, len) == 0;
}

/* the next item of an annotation list, trimmed; NULL at the end */
static const char *
next_annotation(const char *s, const char *end, const char **item, size_t *len)
{
	const char *stop = s;

	if (s > end)
		return NULL;
	while (stop < end && *stop != ',')
		stop++;
	*item = s;
	*len = (size_t) (stop - s);
	while (*len > 0 && **item == ' ')
		(*item)++, (*len)--;
	while (*len > 0 && (*item)[*len - 1] == ' ')
		(*len)--;
	return stop + 1;
}

bool
sim_wants_annotation(const struct sim_req *req, const char *annotation)
{
	struct preference list;
	const char *s;
	const char *end;
	const char *item;
	size_t		len;
	bool		wanted = false;

	if (!find_preference(req, "odata.include-annotations", &list))
		return false;
	end = list.value + list.value_len;
	for (s = list.value; (s = next_annotation(s, end, &item, &len)) != NULL;)
	{
		/* "-pattern" excludes annotations that "*" included */
		if (len > 0 && item[0] == '-')
		{
			if (pattern_matches(item + 1, len - 1, annotation))
				return false;
		}
		else if (pattern_matches(item, len, annotation))
			wanted = true;
	}
	return wanted;
}

bool
sim_annotations_valid(const struct sim_req *req)
{
	static const char allowed[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-#@";
	struct preference list;
	const char *s;
	const char *end;
	const char *item;
	size_t		len;

	if (!find_preference(req, "odata.include-annotations", &list))
		return true;
	end = list.value + list.value_len;
	for (s = list.value; (s = next_annotation(s, end, &item, &len)) != NULL;)
	{
		size_t		star = len > 0 && item[len - 1] == '*' ? 1 : 0;

		if (len == 0)
			return false;
		for (size_t i = 0; i < len - star; i++)
		{
			if (item[i] == '\0' || strchr(allowed, item[i]) == NULL)
				return false;
		}
	}
	return true;
}

void
sim_guid_random(struct sim *sim, char out[37])
{
	static const char hex[] = "0123456789abcdef";
	uint64_t	bits[2] = {sim_random(sim), sim_random(sim)};
	int			nibble = 0;

	for (int i = 0; i < 36; i++)
	{
		if (i == 8 || i == 13 || i == 18 || i == 23)
			out[i] = '-';
		else
		{
			out[i] = hex[bits[nibble >> 4] >> (nibble & 15) * 4 & 15];
			nibble++;
		}
	}
	out[14] = '4';
	out[19] = hex[8 + (bits[1] >> 60 & 3)];
	out[36] = '\0';
}
