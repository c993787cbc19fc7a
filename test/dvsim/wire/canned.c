/*
 * canned.c
 *		Answers of reads, kept until something changes.
 *
 * The key of an answer contains everything that may matter to it: the user,
 * the target, and the headers, except those that identify the client or the
 * request.  It can be used as long as SQLite has changed no row, and neither
 * schema, quirks, nor clock have changed.  Changes by mere passage of time
 * (rows of elastic tables that expire, dates relative to now) are not noticed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/auth.h"
#include "wire/canned.h"
#include "wire/request.h"
#include "store/schema.h"
#include "store/store.h"

#define BUCKETS 4096
#define MOST_BYTES (INT64_C(2) << 30)

struct answer
{
	struct answer *next;
	char	   *key;
	struct sim_buf body;
	const char *content_type;
	bool		gzip;
	struct sim_pairs headers;
	int			rows;
	int			input;
};

/* the state on which all answers depend */
struct moment
{
	int			changes;
	int			schema_changes;
	uint64_t	quirks;
	int64_t		clock_skew_us;
};

struct sim_canned
{
	struct answer *buckets[BUCKETS];
	struct moment moment;
	int64_t		bytes;
	struct sim_arena *arena;	/* keys and headers */
};

struct sim_canned *
sim_canned_new(void)
{
	struct sim_canned *canned = sim_xalloc(sizeof(*canned));

	canned->arena = sim_arena_new();
	return canned;
}

static void
forget(struct sim_canned *canned)
{
	for (int i = 0; i < BUCKETS; i++)
	{
		struct answer *answer;

		while ((answer = canned->buckets[i]) != NULL)
		{
			canned->buckets[i] = answer->next;
			sim_buf_free(&answer->body);
			free(answer);
		}
	}
	sim_arena_free(canned->arena);
	canned->arena = sim_arena_new();
	canned->bytes = 0;
}

void
sim_canned_free(struct sim_canned *canned)
{
	forget(canned);
	sim_arena_free(canned->arena);
	free(canned);
}

/* returns true if something has changed since the answers were given */
static void
check_moment(struct sim *sim)
{
	struct sim_canned *canned = sim->canned;
	struct moment now;

	memset(&now, 0, sizeof(now));
	now.changes = sqlite3_total_changes(sim->store->db);
	now.schema_changes = sim->schema->changes;
	now.quirks = sim->quirks;
	now.clock_skew_us = sim->clock_skew_us;
	if (memcmp(&now, &canned->moment, sizeof(now)) == 0)
		return;
	forget(canned);
	canned->moment = now;
}

static bool
names_the_client(const char *header)
{
	return strcasecmp(header, "Authorization") == 0 || strcasecmp(header, "User-Agent") == 0 ||
		strcasecmp(header, "x-ms-client-request-id") == 0;
}

/* NULL if the request is never answered from the cache */
static const char *
key_of(const struct sim_exchange *exchange)
{
	const struct sim_req *req = &exchange->req;
	struct sim_buf buf = {0};
	const char *key;

	if (strcmp(req->method, "GET") != 0)
		return NULL;
	sim_putf(&buf, "%s %d\n%s\n", req->user_id, req->user->limited, req->target);
	for (int i = 0; i < req->headers.n; i++)
	{
		if (!names_the_client(req->headers.items[i].name))
			sim_putf(&buf, "%s:%s\n", req->headers.items[i].name, req->headers.items[i].value);
	}
	key = sim_strndup(req->arena, buf.s, buf.len);
	sim_buf_free(&buf);
	return key;
}

static struct answer **
bucket_of(struct sim_canned *canned, const char *key)
{
	uint64_t	h = UINT64_C(14695981039346656037);

	for (; *key; key++)
		h = (h ^ (unsigned char) *key) * UINT64_C(1099511628211);
	return &canned->buckets[(h >> 32) % BUCKETS];
}

static struct answer *
find(struct sim_canned *canned, const char *key)
{
	struct answer *answer = *bucket_of(canned, key);

	while (answer != NULL && strcmp(answer->key, key) != 0)
		answer = answer->next;
	return answer;
}

bool
sim_canned_replay(struct sim_exchange *exchange)
{
	struct sim *sim = exchange->req.sim;
	struct sim_res *res = &exchange->res;
	const char *key = sim->canned ? key_of(exchange) : NULL;
	struct answer *answer;

	if (key == NULL)
		return false;
	sim_advance(sim);
	check_moment(sim);
	answer = find(sim->canned, key);
	if (answer == NULL)
		return false;
	res->status = 200;
	res->kind = SIM_READ;
	res->rows = answer->rows;
	res->input = answer->input;
	res->content_type = answer->content_type;
	sim_put(&res->body, answer->body.s, answer->body.len);
	for (int i = 0; i < answer->headers.n; i++)
		sim_res_header(&exchange->req, res, answer->headers.items[i].name,
					   answer->headers.items[i].value);
	if (answer->gzip)
		sim_res_header(&exchange->req, res, "Content-Encoding", "gzip");
	/* it was compressed then, or was not worth compressing */
	exchange->plain = true;
	return true;
}

static bool
is_compressed(const struct sim_exchange *exchange)
{
	for (int i = 0; i < exchange->head.n; i++)
	{
		if (strcasecmp(exchange->head.items[i].name, "Content-Encoding") == 0)
			return true;
	}
	return false;
}

void
sim_canned_keep(struct sim_exchange *exchange)
{
	struct sim *sim = exchange->req.sim;
	struct sim_canned *canned = sim->canned;
	const struct sim_res *res = &exchange->res;
	const char *key;
	struct answer *answer;
	struct answer **bucket;

	if (canned == NULL || res->status != 200 || res->kind != SIM_READ || res->body.len == 0 ||
		(key = key_of(exchange)) == NULL)
		return;
	check_moment(sim);
	if (find(canned, key) != NULL ||
		canned->bytes + (int64_t) res->body.len > MOST_BYTES)
		return;
	answer = sim_xalloc(sizeof(*answer));
	answer->key = sim_strdup(canned->arena, key);
	answer->gzip = is_compressed(exchange);
	answer->content_type = sim_strdup(canned->arena, res->content_type);
	answer->rows = res->rows;
	answer->input = res->input;
	sim_put(&answer->body, res->body.s, res->body.len);
	for (int i = 0; i < res->headers.n; i++)
		sim_pair_add(canned->arena, &answer->headers, res->headers.items[i].name,
					 res->headers.items[i].value);
	bucket = bucket_of(canned, key);
	answer->next = *bucket;
	*bucket = answer;
	canned->bytes += (int64_t) (res->body.len + strlen(key));
}
