/*-------------------------------------------------------------------------
 *
 * multipart.c
 *		Throttles inside the answer to a $batch.
 *
 * The service may refuse single requests of a $batch while the whole is 200.
 * To the pool that is a throttle like any other.  JSON has no raw line ends,
 * so whatever stands at the beginning of a line is the envelope's.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <strings.h>

#include "dataverse/multipart.h"

typedef struct line
{
	const char *s;
	size_t		len;			/* without its end */
} line;

bool
dv_is_multipart(const char *content_type)
{
	return content_type != NULL && strncasecmp(content_type, "multipart/mixed", 15) == 0;
}

/* Lines end with CRLF or LF; false at the end of the body. */
static bool
next_line(const char *body, size_t len, size_t *at, line *l)
{
	const char *end;

	if (*at >= len)
		return false;
	l->s = body + *at;
	end = memchr(l->s, '\n', len - *at);
	l->len = end != NULL ? (size_t) (end - l->s) : len - *at;
	*at += l->len + 1;
	if (l->len > 0 && l->s[l->len - 1] == '\r')
		l->len--;
	return true;
}

/* "HTTP/1.1 429 Too Many Requests" */
static bool
is_throttle(const line *l)
{
	return l->len >= 12 && memcmp(l->s, "HTTP/1.", 7) == 0 && l->s[8] == ' ' &&
		memcmp(l->s + 9, "429", 3) == 0 && (l->len == 12 || l->s[12] == ' ');
}

static void
copy(char *to, size_t size, const char *from, size_t len)
{
	while (len > 0 && *from == ' ')
	{
		from++;
		len--;
	}
	if (len >= size)
		len = 0;				/* not what it should be */
	memcpy(to, from, len);
	to[len] = '\0';
}

/* The error's code: "code":"0x…" with or without blanks. */
static void
read_code(const line *l, dv_part_throttle *throttle)
{
	static const char name[] = "\"code\"";
	const char *p = l->s;
	const char *end = l->s + l->len;
	const char *close;

	for (; p + sizeof(name) - 1 < end; p++)
		if (memcmp(p, name, sizeof(name) - 1) == 0)
			break;
	p += sizeof(name) - 1;
	while (p < end && (*p == ' ' || *p == ':'))
		p++;
	if (p >= end || *p++ != '"' || (close = memchr(p, '"', end - p)) == NULL)
		return;
	copy(throttle->code, sizeof(throttle->code), p, close - p);
}

/* Headers of the part, then the line that is its body. */
static void
read_part(const char *body, size_t len, size_t *at, dv_part_throttle *throttle)
{
	static const char name[] = "Retry-After:";
	line		l;

	while (next_line(body, len, at, &l) && l.len > 0)
	{
		if (l.len >= sizeof(name) - 1 && strncasecmp(l.s, name, sizeof(name) - 1) == 0)
			copy(throttle->retry_after, sizeof(throttle->retry_after),
				 l.s + sizeof(name) - 1, l.len - (sizeof(name) - 1));
	}
	if (next_line(body, len, at, &l))
	{
		throttle->error = l.s;
		throttle->error_len = l.len;
		read_code(&l, throttle);
	}
}

bool
dv_multipart_throttle(const char *body, size_t len, size_t *at, dv_part_throttle *throttle)
{
	line		l;

	memset(throttle, 0, sizeof(*throttle));
	while (next_line(body, len, at, &l))
	{
		if (!is_throttle(&l))
			continue;
		read_part(body, len, at, throttle);
		return true;
	}
	return false;
}
