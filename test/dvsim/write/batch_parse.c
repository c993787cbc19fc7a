/*
 * batch_parse.c
 *		The body of a $batch as a list of requests.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include "write/batch_parse.h"

#define MAX_BOUNDARY 200

struct parser
{
	struct sim_arena *arena;
	int			requests;
	int			most;			/* requests that are accepted */
	struct sim_part **ids;		/* parts that have a Content-ID */
	int			first_id;		/* of the present change set */
	int			nids;
	const char *error;
	bool		unreadable;
};

/* bytes between two delimiters */
struct range
{
	char	   *s;
	char	   *end;
};

static bool
unreadable(struct parser *p)
{
	p->unreadable = true;
	p->error = "System.ArgumentException: Stream was not readable.";
	return false;
}

static bool
forbidden(struct parser *p, const char *error)
{
	p->error = error;
	return false;
}

char *
sim_batch_boundary(struct sim_arena *arena, const char *type)
{
	static const char wanted[] = "multipart/mixed";
	const char *s;
	size_t		len;

	if (type == NULL)
		return NULL;
	type += strspn(type, " \t");
	if (strncasecmp(type, wanted, sizeof(wanted) - 1) != 0)
		return NULL;
	for (s = strchr(type, ';'); s != NULL; s = strchr(s, ';'))
	{
		s += 1 + strspn(s + 1, " \t");
		if (strncasecmp(s, "boundary", 8) != 0)
			continue;
		s += 8 + strspn(s + 8, " \t");
		if (*s != '=')
			continue;
		s += 1 + strspn(s + 1, " \t");
		len = *s == '"' ? strcspn(++s, "\"") : strcspn(s, "; \t\r\n");
		return len > 0 && len <= MAX_BOUNDARY ? sim_strndup(arena, s, len) : NULL;
	}
	return NULL;
}

/* returns the end of the line that starts at s: after its line feed, or the end */
static char *
next_line(char *s, char *end)
{
	char	   *lf = s < end ? memchr(s, '\n', end - s) : NULL;

	return lf != NULL ? lf + 1 : end;
}

/* 0: no delimiter; 1: a delimiter; 2: the closing one */
static int
delimiter(const char *s, const char *end, const char *boundary, size_t len)
{
	int			kind = 1;

	if ((size_t) (end - s) < len + 2 || s[0] != '-' || s[1] != '-' ||
		memcmp(s + 2, boundary, len) != 0)
		return 0;
	s += len + 2;
	if (end - s >= 2 && s[0] == '-' && s[1] == '-')
	{
		kind = 2;
		s += 2;
	}
	while (s < end && (*s == ' ' || *s == '\t' || *s == '\r'))
		s++;
	return s == end || *s == '\n' ? kind : 0;
}

/*
 * The next part of a multipart body: *pos is after a delimiter line ("inside")
 * or before the first one.  False at the end or on error.
 */
static bool
next_range(struct parser *p, char **pos, char *end, const char *boundary, bool *inside,
		   struct range *range)
{
	size_t		len = strlen(boundary);
	char	   *line = *pos;

	range->s = line;
	while (line < end)
	{
		int			kind = delimiter(line, end, boundary, len);
		bool		was_inside = *inside;

		if (kind != 0)
		{
			range->end = line;
			*inside = kind == 1;
			*pos = next_line(line, end);
			if (was_inside)
			{
				if (range->end > range->s && range->end[-1] == '\n')
					range->end--;
				if (range->end > range->s && range->end[-1] == '\r')
					range->end--;
				return true;
			}
			if (kind == 2)
				return false;
			range->s = *pos;
		}
		line = next_line(line, end);
	}
	if (*inside)
		unreadable(p);
	return false;
}

/*
 * "Name: value" lines up to the empty one; false if it never comes.  A request
 * may be "last", with nothing after its headers.  The line end before a
 * delimiter belongs to the delimiter, so the empty line is then no longer in
 * the range; the line end before it shows that it existed.
 */
static bool
read_headers(struct parser *p, struct range *r, bool last, struct sim_pairs *headers)
{
	while (r->s < r->end)
	{
		char	   *line = r->s;
		char	   *end = next_line(line, r->end);
		char	   *colon;
		char	   *value;

		r->s = end;
		while (end > line && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
			end--;
		if (end == line)
			return true;
		colon = memchr(line, ':', end - line);
		if (colon == NULL)
			return unreadable(p);
		for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++)
			;
		sim_pair_add(p->arena, headers, sim_strndup(p->arena, line, colon - line),
					 sim_strndup(p->arena, value, end - value));
	}
	return (last && r->s[-1] == '\n') || unreadable(p);
}

static const char *
header(const struct sim_pairs *headers, const char *name)
{
	int			i;

	for (i = 0; i < headers->n; i++)
		if (strcasecmp(headers->items[i].name, name) == 0)
			return headers->items[i].value;
	return NULL;
}

/* "METHOD url HTTP/1.1"; the URL is the text between the first and the last blank */
static bool
read_request_line(struct parser *p, struct range *r, struct sim_part *part)
{
	char	   *line = r->s;
	char	   *end;
	char	   *url;
	char	   *version;

	while (line < r->end && (*line == '\r' || *line == '\n'))
		line++;
	r->s = end = next_line(line, r->end);
	while (end > line && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
		end--;
	for (url = line; url < end && *url != ' '; url++)
		;
	for (version = end; version > url && *version != ' '; version--)
		;
	if (url >= end || version == url || strncmp(version, " HTTP/", 6) != 0)
		return unreadable(p);
	part->method = sim_strndup(p->arena, line, url - line);
	while (url < version && *url == ' ')
		url++;
	while (version > url && version[-1] == ' ')
		version--;
	part->url = sim_strndup(p->arena, url, version - url);
	return true;
}

/* In OData 4.0, ids are unique within their change set; clients number each from 1. */
static bool
remember_id(struct parser *p, struct sim_part *part)
{
	int			i;

	if (part->content_id == NULL || *part->content_id == '\0')
		return true;
	for (i = p->first_id; i < p->nids; i++)
		if (strcmp(p->ids[i]->content_id, part->content_id) == 0)
			return forbidden(p, sim_fmt(p->arena, "The content ID '%.100s' was found more than "
										"once in the same change set.", part->content_id));
	p->ids[p->nids++] = part;
	return true;
}

static bool
read_request(struct parser *p, struct range *r, struct sim_part *part)
{
	if (++p->requests > p->most)
		return forbidden(p, sim_fmt(p->arena, "The current batch message contains too many parts. "
									"A maximum number of '%d' query operations and change sets "
									"are allowed in a batch message.", p->most));
	if (!read_request_line(p, r, part) || !read_headers(p, r, true, &part->headers))
		return false;
	part->body = r->s;
	part->body_len = r->end - r->s;
	*r->end = '\0';				/* a line end of the delimiter */
	return remember_id(p, part);
}

static bool
check_in_changeset(struct parser *p, const struct sim_part *part)
{
	static const char *const allowed[] = {"POST", "PUT", "DELETE", "PATCH"};
	size_t		i;

	for (i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (strcmp(part->method, allowed[i]) == 0)
			return true;
	return forbidden(p, sim_fmt(p->arena, "An invalid HTTP method '%.20s' was detected for a "
								"request in a change set. Requests in change sets only support "
								"the HTTP methods 'POST', 'PUT', 'DELETE', and 'PATCH'.", part->method));
}

static bool read_parts(struct parser *p, struct range *r, const char *boundary, bool in_changeset,
					   struct sim_part **list);

static bool
read_changeset(struct parser *p, struct range *r, const char *type, struct sim_part *part)
{
	const char *boundary = sim_batch_boundary(p->arena, type);
	int			outer = p->first_id;
	bool		ok;

	if (boundary == NULL)
		return forbidden(p, "The Content-Type of a change set has no boundary.");
	part->is_changeset = true;
	p->first_id = p->nids;
	ok = read_parts(p, r, boundary, true, &part->parts);
	p->nids = p->first_id;
	p->first_id = outer;
	return ok;
}

static bool
read_part(struct parser *p, struct range *r, bool in_changeset, struct sim_part *part)
{
	struct sim_pairs headers = {0};
	const char *type;

	if (!read_headers(p, r, false, &headers))
		return false;
	type = header(&headers, "Content-Type");
	part->content_id = header(&headers, "Content-ID");
	if (type != NULL && strncasecmp(type, "multipart/", 10) == 0)
	{
		if (in_changeset)
			return forbidden(p, "Nested change sets are not supported.");
		return read_changeset(p, r, type, part);
	}
	if (type == NULL || strncasecmp(type, "application/http", 16) != 0)
		return forbidden(p, "The Content-Type of a batch part must be 'application/http' or "
						 "'multipart/mixed'.");
	return read_request(p, r, part) && (!in_changeset || check_in_changeset(p, part));
}

static bool
read_parts(struct parser *p, struct range *r, const char *boundary, bool in_changeset,
		   struct sim_part **list)
{
	struct range range;
	char	   *pos = r->s;
	bool		inside = false;

	while (next_range(p, &pos, r->end, boundary, &inside, &range))
	{
		struct sim_part *part = sim_alloc(p->arena, sizeof(*part));

		if (!read_part(p, &range, in_changeset, part))
			return false;
		*list = part;
		list = &part->next;
		if (!inside)
			break;
	}
	return p->error == NULL;
}

bool
sim_batch_parse(struct sim_arena *arena, const char *content_type, char *body, size_t len,
				int most, struct sim_part **parts, const char **error, bool *was_unreadable)
{
	struct parser p = {.arena = arena, .most = most};
	struct range all = {.s = body, .end = body + len};
	const char *boundary = sim_batch_boundary(arena, content_type);
	bool		ok;

	*parts = NULL;
	*was_unreadable = false;
	if (boundary == NULL)
	{
		*error = "The Content-Type of a batch request must be 'multipart/mixed' with a boundary.";
		return false;
	}
	p.ids = sim_alloc(arena, sizeof(*p.ids) * SIM_BATCH_MAX);
	ok = read_parts(&p, &all, boundary, false, parts);
	*error = p.error;
	*was_unreadable = p.unreadable;
	return ok;
}
