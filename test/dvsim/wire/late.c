/*
 * late.c
 *		Requests that are carried out long after their connection was closed.
 *
 * Such a request is copied, because its connection's memory is freed by then.
 * Its answer is discarded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "wire/request.h"
#include "wire/wire.h"

struct sim_late
{
	struct sim_late *next;		/* earliest due first */
	int64_t		due_us;			/* virtual */
	struct sim_req req;
};

static void
late_free(struct sim_late *late)
{
	sim_arena_free(late->req.arena);
	free(late);
}

static char *
copy_body(struct sim_arena *arena, const struct sim_req *req)
{
	char	   *copy = sim_alloc(arena, req->body_len + 1);

	memcpy(copy, req->body, req->body_len);
	copy[req->body_len] = '\0';
	return copy;
}

/* copies everything that sim_dispatch reads to an arena of its own */
static struct sim_late *
copy_request(const struct sim_req *req)
{
	struct sim_late *late = sim_xalloc(sizeof(*late));
	struct sim_arena *arena = sim_arena_new();
	struct sim_req *copy = &late->req;

	*copy = *req;
	copy->arena = arena;
	copy->method = sim_strdup(arena, req->method);
	copy->target = sim_strdup(arena, req->target);
	copy->path = sim_strdup(arena, req->path);
	copy->query = sim_strdup(arena, req->query);
	copy->base_url = sim_strdup(arena, req->base_url);
	copy->body = copy_body(arena, req);
	memset(&copy->params, 0, sizeof(copy->params));
	memset(&copy->headers, 0, sizeof(copy->headers));
	for (int i = 0; i < req->headers.n; i++)
		sim_pair_add(arena, &copy->headers, req->headers.items[i].name,
					 req->headers.items[i].value);
	return late;
}

void
sim_late_add(struct sim_wire *wire, const struct sim_req *req, int64_t due_us)
{
	struct sim_late *late = copy_request(req);
	struct sim_late **at = &wire->late;

	late->due_us = due_us;
	while (*at != NULL && (*at)->due_us <= due_us)
		at = &(*at)->next;
	late->next = *at;
	*at = late;
}

int64_t
sim_late_due(const struct sim_wire *wire)
{
	return wire->late != NULL ? wire->late->due_us : INT64_MAX;
}

void
sim_late_run(struct sim_wire *wire)
{
	while (wire->late != NULL && wire->late->due_us <= sim_now_us(wire->sim))
	{
		struct sim_late *late = wire->late;
		struct sim_res res = {0};

		wire->late = late->next;
		sim_dispatch(&late->req, &res);
		late->req.user->requests[res.kind]++;
		late->req.user->rows[res.kind] += (uint64_t) res.rows;
		sim_buf_free(&res.body);
		late_free(late);
	}
}

void
sim_late_clear(struct sim_wire *wire)
{
	while (wire->late != NULL)
	{
		struct sim_late *late = wire->late;

		wire->late = late->next;
		late_free(late);
	}
}
