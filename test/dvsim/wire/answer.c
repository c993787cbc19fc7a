/*
 * answer.c
 *		The headers that every answer of the Web API carries, and
 *		its compression.
 *
 * This runs for every request, so constant text is made in advance, and the
 * rest goes into the request's arena in one piece.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "wire/request.h"
#include "store/store.h"
#include "wire/wire.h"

#define WORTH_COMPRESSING 1024

static const struct sim_pair standing[] = {
	{"Cache-Control", "no-cache"},
	{"Allow", "OPTIONS,GET,HEAD,POST"},
	{"Public", "OPTIONS,GET,HEAD,POST"},
	{"Expires", "-1"},
	{"Vary", "Accept-Encoding"},
	{"CRM.ServiceId", "framework"},
	{"OData-Version", "4.0"},
	{"X-Source",
	"2411218018413722415922617824311115720222212113510125315611522417922520713419616"},
	{"X-Source",
	"1482341791502081931082351201541061672314723313217224420815014212919324022017231"},
};

/* the service's spelling of seconds: thousands commas, two decimals */
static void
format_seconds(char *out, size_t size, int64_t us)
{
	char		digits[32];
	int64_t		hundredths = us / 10000;
	int			len = snprintf(digits, sizeof(digits), "%lld", (long long) (hundredths / 100));
	size_t		at = 0;

	for (int i = 0; i < len && at + 5 < size; i++)
	{
		if (i > 0 && (len - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	snprintf(out + at, size - at, ".%02d", (int) (hundredths % 100));
}

void
sim_answer_head(struct sim_wire *wire, struct sim_exchange *exchange, int server,
				const struct sim_verdict *verdict)
{
	struct text
	{
		char		request[2][37];
		char		activity[37];
		char		cookie[128];
		char		seconds[40];
		char		requests[24];
	}		   *text = sim_alloc(exchange->req.arena, sizeof(struct text));
	struct sim_arena *arena = exchange->req.arena;
	struct sim_pairs *head = &exchange->head;

	for (size_t i = 0; i < sizeof(standing) / sizeof(standing[0]); i++)
		sim_pair_borrow(arena, head, standing[i].name, standing[i].value);
	sim_guid_random(wire->sim, text->request[0]);
	sim_guid_random(wire->sim, text->request[1]);
	sim_guid_random(wire->sim, text->activity);
	sim_pair_borrow(arena, head, "x-ms-service-request-id", text->request[0]);
	sim_pair_borrow(arena, head, "x-ms-service-request-id", text->request[1]);
	sim_pair_borrow(arena, head, "REQ_ID", text->request[1]);
	sim_pair_borrow(arena, head, "AuthActivityId", text->activity);
	snprintf(text->cookie, sizeof(text->cookie), "ARRAffinity=%s; path=/; secure; HttpOnly",
			 wire->affinity[server]);
	sim_pair_borrow(arena, head, "Set-Cookie", text->cookie);
	sim_pair_borrow(arena, head, "Set-Cookie", text->cookie);
	sim_pair_borrow(arena, head, "Set-Cookie", wire->cookie_client);
	sim_pair_borrow(arena, head, "Set-Cookie", wire->cookie_organization);
	sim_pair_borrow(arena, head, "x-ms-dop-hint", wire->dop);
	if (wire->tls)
		sim_pair_borrow(arena, head, "Strict-Transport-Security",
						"max-age=31536000; includeSubDomains");
	if (verdict != NULL)
	{
		format_seconds(text->seconds, sizeof(text->seconds), verdict->remaining_execution_us);
		snprintf(text->requests, sizeof(text->requests), "%lld",
				 (long long) verdict->remaining_requests);
		sim_pair_borrow(arena, head, "x-ms-ratelimit-time-remaining-xrm-requests",
						text->seconds);
		sim_pair_borrow(arena, head, "x-ms-ratelimit-burst-remaining-xrm-requests",
						text->requests);
	}
	if (exchange->res.session_token)
		sim_pair_borrow(arena, head, "x-ms-session-token",
						sim_fmt(arena, "0:-1#%lld", (long long) wire->sim->store->version));
}

/* returns true if an Accept-Encoding header permits gzip */
static bool
takes_gzip(const char *accept)
{
	while (accept != NULL && *accept)
	{
		size_t		len;

		accept += strspn(accept, " \t,");
		len = strcspn(accept, ",");
		if (strncasecmp(accept, "gzip", 4) == 0 && strchr(" \t;,", accept[4]) != NULL)
		{
			const char *q = memchr(accept, 'q', len);

			return q == NULL || q[1] != '=' || strtod(q + 2, NULL) > 0;
		}
		accept += len;
	}
	return false;
}

/* one for all answers: creating one would cost more than compressing most bodies */
static z_stream deflater;
static bool deflater_ready;

void
sim_answer_compress(struct sim_exchange *exchange)
{
	struct sim_buf *body = &exchange->res.body;
	struct sim_buf out = {0};

	if (exchange->plain || body->len <= WORTH_COMPRESSING ||
		!takes_gzip(sim_header(&exchange->req, "Accept-Encoding")))
		return;
	if (!deflater_ready &&
		deflateInit2(&deflater, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return;
	deflater_ready = true;
	sim_buf_reserve(&out, deflateBound(&deflater, (uLong) body->len));
	deflater.next_in = (Bytef *) body->s;
	deflater.avail_in = (uInt) body->len;
	deflater.next_out = (Bytef *) out.s;
	deflater.avail_out = (uInt) out.cap;
	if (body->len < UINT32_MAX && deflate(&deflater, Z_FINISH) == Z_STREAM_END)
	{
		out.len = deflater.total_out;
		sim_buf_free(body);
		*body = out;
		sim_pair_borrow(exchange->req.arena, &exchange->head, "Content-Encoding", "gzip");
	}
	else
		sim_buf_free(&out);
	deflateReset(&deflater);
}

void
sim_answer_cleanup(void)
{
	if (deflater_ready)
		deflateEnd(&deflater);
	deflater_ready = false;
}
