/*
 * json.c
 *		A reader for the bodies of writes: in place, strict, quick.
 *
 * One pass, no copies: strings are unescaped where they stand (an escape is
 * never shorter than what it means), numbers are checked and left as text,
 * nodes come out of blocks so that a body of a hundred rows costs a handful
 * of allocations.  Runs of ordinary characters are skipped eight bytes at a
 * time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include <json-c/json.h>

#include "wire/json.h"

#define MAX_DEPTH 64
#define FIRST_BLOCK 48
#define NEXT_BLOCK 512

struct reader
{
	struct sim_arena *arena;
	char	   *start;
	char	   *p;
	char	   *end;
	struct sim_json *nodes;		/* rest of the block */
	int			nnodes;
	int			block;			/* nodes of the next block */
	int			depth;
	const char *error;
};

static bool read_value(struct reader *r, struct sim_json *node);

static bool
wrong(struct reader *r, const char *what)
{
	if (r->error == NULL)
		r->error = sim_fmt(r->arena, "%s at position %zu", what, (size_t) (r->p - r->start));
	return false;
}

static inline struct sim_json *
new_node(struct reader *r)
{
	if (r->nnodes == 0)
	{
		r->nodes = sim_alloc(r->arena, sizeof(struct sim_json) * r->block);
		r->nnodes = r->block;
		r->block = NEXT_BLOCK;
	}
	r->nnodes--;
	return r->nodes++;
}

static inline void
skip_blanks(struct reader *r)
{
	char	   *p = r->p;

	while (p < r->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	r->p = p;
}

/* returns true if one of the eight bytes ends a plain run: quote, backslash, control */
static inline bool
has_special(const char *p)
{
	const uint64_t ones = 0x0101010101010101ULL;
	const uint64_t high = 0x8080808080808080ULL;
	uint64_t	w,
				quote,
				slash;

	memcpy(&w, p, sizeof(w));
	quote = w ^ (ones * '"');
	slash = w ^ (ones * '\\');
	return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) |
			((w - ones * 0x20) & ~w)) & high;
}

static inline char *
skip_plain(char *p, char *end)
{
	while (end - p >= 8 && !has_special(p))
		p += 8;
	while (p < end && *p != '"' && *p != '\\' && (unsigned char) *p >= 0x20)
		p++;
	return p;
}

static bool
read_hex4(struct reader *r, const char *p, unsigned *out)
{
	unsigned	v = 0;
	int			i;

	if (r->end - p < 4)
		return wrong(r, "broken \\u escape");
	for (i = 0; i < 4; i++)
	{
		unsigned char c = p[i];

		if (c >= '0' && c <= '9')
			v = v << 4 | (c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | ((c | 0x20) - 'a' + 10);
		else
			return wrong(r, "broken \\u escape");
	}
	*out = v;
	return true;
}

static char *
put_utf8(char *out, unsigned c)
{
	if (c < 0x80)
		*out++ = c;
	else if (c < 0x800)
	{
		*out++ = 0xc0 | c >> 6;
		*out++ = 0x80 | (c & 0x3f);
	}
	else if (c < 0x10000)
	{
		*out++ = 0xe0 | c >> 12;
		*out++ = 0x80 | (c >> 6 & 0x3f);
		*out++ = 0x80 | (c & 0x3f);
	}
	else
	{
		*out++ = 0xf0 | c >> 18;
		*out++ = 0x80 | (c >> 12 & 0x3f);
		*out++ = 0x80 | (c >> 6 & 0x3f);
		*out++ = 0x80 | (c & 0x3f);
	}
	return out;
}

/* r->p is after "\u"; halves of a surrogate pair must come together */
static bool
read_unicode(struct reader *r, char **out)
{
	unsigned	c,
				low;

	if (!read_hex4(r, r->p, &c))
		return false;
	r->p += 4;
	if (c >= 0xdc00 && c <= 0xdfff)
		return wrong(r, "lone surrogate");
	if (c >= 0xd800 && c <= 0xdbff)
	{
		if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
			return wrong(r, "lone surrogate");
		if (!read_hex4(r, r->p + 2, &low))
			return false;
		if (low < 0xdc00 || low > 0xdfff)
			return wrong(r, "lone surrogate");
		r->p += 6;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*out = put_utf8(*out, c);
	return true;
}

static bool
read_escape(struct reader *r, char **out)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *which;
	char		c;

	if (r->end - r->p < 2)
		return wrong(r, "unterminated string");
	c = r->p[1];
	r->p += 2;
	if (c == 'u')
		return read_unicode(r, out);
	which = c == '\0' ? NULL : strchr(from, c);
	if (which == NULL)
		return wrong(r, "unknown escape");
	*(*out)++ = to[which - from];
	return true;
}

/* r->p is at the opening quote */
static bool
read_string(struct reader *r, const char **s, size_t *len)
{
	char	   *start = r->p + 1;
	char	   *out = NULL;		/* set by the first escape */
	char	   *p = start;

	for (;;)
	{
		char	   *run = p;

		p = skip_plain(p, r->end);
		if (out != NULL)
		{
			memmove(out, run, p - run);
			out += p - run;
		}
		r->p = p;
		if (p == r->end)
			return wrong(r, "unterminated string");
		if (*p == '"')
			break;
		if (*p != '\\')
			return wrong(r, "control character in string");
		if (out == NULL)
			out = p;
		if (!read_escape(r, &out))
			return false;
		p = r->p;
	}
	*s = start;
	*len = (out != NULL ? out : p) - start;
	r->p = p + 1;
	return true;
}

static inline char *
skip_digits(char *p, char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

static bool
read_number(struct reader *r, struct sim_json *node)
{
	char	   *start = r->p;
	char	   *p = start;
	char	   *digits;

	if (p < r->end && *p == '-')
		p++;
	digits = p;
	p = skip_digits(p, r->end);
	if (p == digits || (*digits == '0' && p - digits > 1))
		return wrong(r, "malformed number");
	if (p < r->end && *p == '.')
	{
		digits = ++p;
		p = skip_digits(p, r->end);
		if (p == digits)
			return wrong(r, "malformed number");
	}
	if (p < r->end && (*p == 'e' || *p == 'E'))
	{
		p++;
		if (p < r->end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = skip_digits(p, r->end);
		if (p == digits)
			return wrong(r, "malformed number");
	}
	node->type = SIM_JSON_NUMBER;
	node->s = start;
	node->len = p - start;
	r->p = p;
	return true;
}

static bool
read_word(struct reader *r, struct sim_json *node, const char *word, size_t len,
		  enum sim_json_type type)
{
	if ((size_t) (r->end - r->p) < len || memcmp(r->p, word, len) != 0)
		return wrong(r, "unexpected character");
	node->type = type;
	r->p += len;
	return true;
}

/* after an item: true at a comma, false at the end or on error (r->error set) */
static bool
more_items(struct reader *r, char close)
{
	skip_blanks(r);
	if (r->p < r->end && *r->p == ',')
	{
		r->p++;
		skip_blanks(r);
		return true;
	}
	if (r->p < r->end && *r->p == close)
		r->p++;
	else
		wrong(r, r->p == r->end ? "unexpected end" : "unexpected character");
	return false;
}

static bool
read_name(struct reader *r, struct sim_json *member)
{
	size_t		len;

	if (r->p == r->end || *r->p != '"')
		return wrong(r, r->p == r->end ? "unexpected end" : "member name expected");
	if (!read_string(r, &member->key, &len))
		return false;
	member->keylen = len;
	skip_blanks(r);
	if (r->p == r->end || *r->p != ':')
		return wrong(r, "':' expected");
	r->p++;
	skip_blanks(r);
	return true;
}

/* r->p is at the bracket or brace */
static bool
read_container(struct reader *r, struct sim_json *node, char close)
{
	struct sim_json **link = &node->child;
	bool		object = close == '}';

	if (++r->depth > MAX_DEPTH)
		return wrong(r, "nested too deeply");
	node->type = object ? SIM_JSON_OBJECT : SIM_JSON_ARRAY;
	r->p++;
	skip_blanks(r);
	if (r->p < r->end && *r->p == close)
		r->p++;
	else
	{
		do
		{
			struct sim_json *item = new_node(r);

			*link = item;
			link = &item->next;
			node->n++;
			if (object && !read_name(r, item))
				return false;
			if (!read_value(r, item))
				return false;
		} while (more_items(r, close));
		if (r->error != NULL)
			return false;
	}
	r->depth--;
	return true;
}

static bool
read_value(struct reader *r, struct sim_json *node)
{
	if (r->p == r->end)
		return wrong(r, "unexpected end");
	switch (*r->p)
	{
		case '"':
			node->type = SIM_JSON_STRING;
			return read_string(r, &node->s, &node->len);
		case '{':
			return read_container(r, node, '}');
		case '[':
			return read_container(r, node, ']');
		case 'n':
			return read_word(r, node, "null", 4, SIM_JSON_NULL);
		case 't':
			return read_word(r, node, "true", 4, SIM_JSON_TRUE);
		case 'f':
			return read_word(r, node, "false", 5, SIM_JSON_FALSE);
		default:
			if (*r->p == '-' || (*r->p >= '0' && *r->p <= '9'))
				return read_number(r, node);
			return wrong(r, "unexpected character");
	}
}

struct sim_json *
sim_json_parse(struct sim_arena *arena, char *text, size_t len, const char **error)
{
	struct reader r = {.arena = arena, .start = text, .p = text, .end = text + len,
	.block = FIRST_BLOCK};
	struct sim_json *node;

	*error = NULL;
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		r.p += 3;
	skip_blanks(&r);
	node = new_node(&r);
	if (read_value(&r, node))
	{
		skip_blanks(&r);
		if (r.p == r.end)
			return node;
		wrong(&r, "text after the value");
	}
	*error = r.error;
	return NULL;
}

struct json_object *
sim_json_document(struct sim_arena *arena, const char *text, size_t len, const char **error)
{
	char	   *copy = sim_strndup(arena, text, len);
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH + 2);
	struct json_object *document;

	json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
	/* with the byte after it, because a number has no end of its own */
	document = json_tokener_parse_ex(tokener, copy, (int) len + 1);
	if (sim_json_parse(arena, copy, len, error) == NULL)
	{
		json_object_put(document);
		document = NULL;
	}
	else if (document == NULL)
		*error = json_tokener_error_desc(json_tokener_get_error(tokener));
	json_tokener_free(tokener);
	return document;
}

struct sim_json *
sim_json_member(const struct sim_json *object, const char *key)
{
	size_t		len = strlen(key);
	struct sim_json *m;

	if (object == NULL || object->type != SIM_JSON_OBJECT)
		return NULL;
	for (m = object->child; m != NULL; m = m->next)
		if (m->keylen == len && memcmp(m->key, key, len) == 0)
			return m;
	return NULL;
}
