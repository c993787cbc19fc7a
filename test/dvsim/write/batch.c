/*
 * batch.c
 *		$batch: runs the parts in order and answers with theirs.
 *
 * A part is a request of its own, routed as any other, in the arena of the
 * whole.  A change set is a transaction, unless all its parts write to elastic
 * tables: those know none.  Without continue-on-error, the first failure ends
 * the batch and determines its status.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "write/batch_parse.h"
#include "wire/faults.h"
#include "wire/quirks.h"
#include "wire/request.h"
#include "write/row_write.h"

struct batch
{
	struct sim_req *outer;
	struct sim_res *res;
	int			number;			/* of the request that is run, from 1 */
	bool		go_on;			/* odata.continue-on-error */
	struct sim_pairs content_ids;	/* of the change set */
};

static const struct
{
	int			status;
	const char *text;
}			reasons[] = {
	{200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"},
	{304, "Not Modified"}, {400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"},
	{404, "Not Found"}, {405, "Method Not Allowed"}, {409, "Conflict"},
	{412, "Precondition Failed"}, {413, "Request Entity Too Large"},
	{415, "Unsupported Media Type"}, {429, "Too Many Requests"},
	{500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
	{503, "Service Unavailable"}, {504, "Gateway Timeout"}
};

static const char *
reason(int status)
{
	size_t		i;

	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

/* the response to one request, without the delimiter before it */
static void
put_response(struct batch *b, const struct sim_part *part, const struct sim_res *res,
			 bool in_changeset)
{
	struct sim_buf *out = &b->res->body;
	char		id[37];
	int			i;

	sim_puts(out, "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n");
	if (in_changeset && part->content_id != NULL)
		sim_putf(out, "Content-ID: %s\r\n", part->content_id);
	sim_putf(out, "\r\nHTTP/1.1 %d %s\r\n", res->status, reason(res->status));
	if (res->content_type != NULL)
	{
		bool		stream = res->status == 200 &&
		strncmp(res->content_type, "application/json", 16) == 0;

		sim_putf(out, "Content-Type: %s%s\r\n", res->content_type,
				 stream ? "; odata.streaming=true" : "");
	}
	if (res->status >= 400)
	{
		sim_guid_random(b->outer->sim, id);
		sim_putf(out, "REQ_ID: %s\r\n", id);
	}
	sim_puts(out, "OData-Version: 4.0\r\n");
	for (i = 0; i < res->headers.n; i++)
		sim_putf(out, "%s: %s\r\n", res->headers.items[i].name, res->headers.items[i].value);
	sim_puts(out, "\r\n");
	if (res->body.len > 0)
		sim_put(out, res->body.s, res->body.len);
	sim_puts(out, "\r\n");
}

/* "$1" or "$1/lastname": returns the path with the row created by that request in its place */
static char *
resolve_content_id(struct batch *b, struct sim_req *req, struct sim_res *res, char *path)
{
	size_t		len = strcspn(path + 1, "/?(");
	bool		digits = len > 0;
	size_t		i;
	int			j;

	for (i = 1; i <= len; i++)
		digits = digits && isdigit((unsigned char) path[i]);
	for (j = 0; j < b->content_ids.n; j++)
	{
		const struct sim_pair *pair = &b->content_ids.items[j];

		if (strlen(pair->name) == len && memcmp(pair->name, path + 1, len) == 0)
			return sim_fmt(req->arena, "%s%s", pair->value, path + 1 + len);
	}
	if (!digits)
		return path;			/* $metadata and the like */
	sim_fail(req, res, 400, "0x80060888",
			 "Content-ID Reference: '%.*s' does not exist in the batch context.",
			 (int) len + 1, path);
	return NULL;
}

/* the part of the URL below the service root; relative ones are below it already */
static char *
below_root(char *url)
{
	char	   *s = url;

	if (strncasecmp(s, "http://", 7) == 0 || strncasecmp(s, "https://", 8) == 0)
	{
		s = strchr(s + 8, '/');
		if (s == NULL)
			return url + strlen(url);
	}
	if (strncmp(s, "/api/data/v", 11) == 0)
	{
		s += 11 + strcspn(s + 11, "/?");
		return *s == '/' ? s + 1 : s;
	}
	return *s == '/' ? s + 1 : s;
}

static void
make_request(struct batch *b, struct sim_part *part, struct sim_req *req, bool in_changeset)
{
	char	   *query;

	*req = *b->outer;
	req->method = part->method;
	req->target = part->url;
	req->path = sim_strdup(req->arena, below_root(part->url));
	query = strchr(req->path, '?');
	if (query != NULL)
		*query++ = '\0';
	req->query = query != NULL ? query : sim_strdup(req->arena, "");
	memset(&req->params, 0, sizeof(req->params));
	req->headers = part->headers;
	req->body = part->body;
	req->body_len = part->body_len;
	req->in_batch = true;
	req->content_ids = in_changeset ? &b->content_ids : NULL;
}

/* blank lines at the end of a part belong to the multipart, not to its body */
static void
trim_body(struct sim_req *req)
{
	while (req->body_len > 0 && (req->body[req->body_len - 1] == '\n' ||
								 req->body[req->body_len - 1] == '\r'))
		req->body[--req->body_len] = '\0';
}

static bool
is_binary(const struct sim_part *part)
{
	int			i;

	for (i = 0; i < part->headers.n; i++)
		if (strcasecmp(part->headers.items[i].name, "Content-Type") == 0)
			return strncasecmp(part->headers.items[i].value, "application/octet-stream", 24) == 0;
	return false;
}

/* runs one request; the caller frees the response's body */
static bool
run_part(struct batch *b, struct sim_part *part, bool in_changeset, struct sim_res *res)
{
	struct sim_req req;

	memset(res, 0, sizeof(*res));
	b->number++;
	if (sim_fault_part(b->outer, b->number, res))
		return res->status < 400;
	make_request(b, part, &req, in_changeset);
	if (!is_binary(part))
		trim_body(&req);
	if (in_changeset && req.path[0] == '$')
		req.path = resolve_content_id(b, &req, res, req.path);
	if (req.path != NULL)
		sim_dispatch(&req, res);
	b->res->rows += res->rows;
	b->res->input += res->input;
	b->res->session_token |= res->session_token;
	if (res->status < 400 && in_changeset && part->content_id != NULL && res->entity != NULL)
		sim_pair_add(b->outer->arena, &b->content_ids, part->content_id, res->entity);
	return res->status < 400;
}

static bool
run_single(struct batch *b, struct sim_part *part)
{
	struct sim_res res;
	bool		ok = run_part(b, part, false, &res);

	put_response(b, part, &res, false);
	if (!ok && !b->go_on)
		b->res->status = res.status;
	sim_buf_free(&res.body);
	return ok;
}

/* elastic tables have no transactions, so their change sets are none */
static bool
all_elastic(struct batch *b, const struct sim_part *changeset)
{
	const struct sim_part *part;

	for (part = changeset->parts; part != NULL; part = part->next)
	{
		const char *path = below_root(part->url);
		struct sim_table *table;

		table = sim_table_by_set(b->outer->sim->schema, path, strcspn(path, "(/?"));
		if (table == NULL || table->type != SIM_ELASTIC)
			return false;
	}
	return true;
}

/* all responses, or only the one that failed (identified by its Content-ID) */
static bool
run_changeset(struct batch *b, struct sim_part *changeset)
{
	struct sim_buf *out = &b->res->body;
	struct sim_store *store = b->outer->sim->store;
	bool		atomic = !all_elastic(b, changeset);
	int			rows = b->res->rows;
	struct sim_part *part;
	char		boundary[37];
	size_t		start;
	bool		ok = true;

	memset(&b->content_ids, 0, sizeof(b->content_ids));
	sim_guid_random(b->outer->sim, boundary);
	sim_putf(out, "Content-Type: multipart/mixed; boundary=changesetresponse_%s\r\n\r\n", boundary);
	start = out->len;
	if (atomic && !sim_begin(store))
		return false;
	for (part = changeset->parts; ok && part != NULL; part = part->next)
	{
		struct sim_res res;

		ok = run_part(b, part, true, &res);
		if (!ok)
		{
			out->len = start;
			b->res->status = b->go_on ? 200 : res.status;
		}
		sim_putf(out, "--changesetresponse_%s\r\n", boundary);
		put_response(b, part, &res, true);
		sim_buf_free(&res.body);
	}
	sim_putf(out, "--changesetresponse_%s--\r\n", boundary);
	if (atomic && ok)
		ok = sim_commit(store);
	else if (atomic)
	{
		sim_rollback(store);
		b->res->rows = rows;
	}
	return ok;
}

bool
sim_batch(struct sim_req *req, struct sim_res *res)
{
	struct batch b = {.outer = req, .res = res};
	struct sim_part *parts;
	struct sim_part *part;
	const char *error;
	bool		unreadable;
	bool		ok = true;
	char		boundary[37];

	res->kind = SIM_BATCH;
	if (!sim_batch_parse(req->arena, sim_header(req, "Content-Type"), req->body, req->body_len,
						 sim_quirk(req->sim, SIM_QUIRK_BATCH_250) ? 250 : SIM_BATCH_MAX, &parts, &error, &unreadable))
	{
		if (unreadable)
			return sim_payload_fail(req, res, NULL, "%s", error);
		return sim_fail(req, res, 400, "0x80060888", "%s", error);
	}
	b.go_on = sim_prefer(req, "odata.continue-on-error") != NULL;
	sim_guid_random(req->sim, boundary);
	res->status = 200;
	res->content_type = sim_fmt(req->arena, "multipart/mixed; boundary=batchresponse_%s", boundary);
	for (part = parts; part != NULL && (ok || b.go_on); part = part->next)
	{
		sim_putf(&res->body, "--batchresponse_%s\r\n", boundary);
		ok = part->is_changeset ? run_changeset(&b, part) : run_single(&b, part);
	}
	sim_putf(&res->body, "--batchresponse_%s--\r\n", boundary);
	return true;
}
