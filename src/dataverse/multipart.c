/*
 * multipart.c
 *		The answer to a $batch, part by part.
 *
 * The answer to a changeset is a part that has parts of its own; there is no
 * deeper nesting.  A part between two delimiters is complete.  Only the last
 * delimiter shows that no part is missing, so an answer without it is broken.
 * JSON strings contain no line ends, so the text at the beginning of a line
 * belongs to the envelope.  The parser is lenient where this is harmless: it
 * accepts LF or CRLF, blanks around the colon of a header, and text before the
 * first delimiter and after the last.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include "dataverse/multipart.h"

#define MAX_ID_DIGITS 6

typedef enum delimiter
{
	NO_DELIMITER,
	NEXT_DELIMITER,
	LAST_DELIMITER
} delimiter;

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static dv_slice
trim(dv_slice s)
{
	while (s.len > 0 && is_blank(s.s[0]))
	{
		s.s++;
		s.len--;
	}
	while (s.len > 0 && is_blank(s.s[s.len - 1]))
		s.len--;
	return s;
}

/* Takes a line off the beginning.  A line ends with CRLF, LF, or the end of the text. */
static bool
next_line(dv_slice *rest, dv_slice *line)
{
	const char *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->s, '\n', rest->len);
	line->s = rest->s;
	line->len = end != NULL ? (size_t) (end - rest->s) : rest->len;
	rest->s += line->len + (end != NULL);
	rest->len -= line->len + (end != NULL);
	if (line->len > 0 && line->s[line->len - 1] == '\r')
		line->len--;
	return true;
}

/* ; boundary=x, or "x" */
static bool
read_boundary(dv_slice type, dv_slice *boundary)
{
	static const char name[] = "boundary=";
	const char *end = type.s + type.len;
	const char *p = type.s;

	while ((p = memchr(p, ';', end - p)) != NULL)
	{
		dv_slice	s = {p + 1, end - p - 1};
		const char *close;

		s = trim(s);
		p++;
		if (s.len < sizeof(name) || strncasecmp(s.s, name, sizeof(name) - 1) != 0)
			continue;
		s.s += sizeof(name) - 1;
		s.len -= sizeof(name) - 1;
		if (s.s[0] == '"')
		{
			s.s++;
			s.len--;
			if ((close = memchr(s.s, '"', s.len)) == NULL)
				return false;
		}
		else if ((close = memchr(s.s, ';', s.len)) == NULL)
			close = end;
		s.len = close - s.s;
		*boundary = trim(s);
		return boundary->len > 0;
	}
	return false;
}

static delimiter
is_delimiter(dv_slice line, dv_slice boundary)
{
	dv_slice	rest;

	if (line.len < boundary.len + 2 || memcmp(line.s, "--", 2) != 0 ||
		memcmp(line.s + 2, boundary.s, boundary.len) != 0)
		return NO_DELIMITER;
	rest.s = line.s + 2 + boundary.len;
	rest.len = line.len - 2 - boundary.len;
	rest = trim(rest);
	if (rest.len == 0)
		return NEXT_DELIMITER;
	return rest.len == 2 && memcmp(rest.s, "--", 2) == 0 ? LAST_DELIMITER : NO_DELIMITER;
}

/*
 * Moves past the next delimiter and returns the content before it, without the
 * line end, which belongs to the delimiter.
 */
static delimiter
seek_delimiter(dv_multipart_level *level, dv_slice *content)
{
	dv_slice	rest = {level->at, level->end - level->at};
	dv_slice	line;

	content->s = level->at;
	while (next_line(&rest, &line))
	{
		delimiter	found = is_delimiter(line, level->boundary);

		/* a truncated last delimiter looks like any other, so the line end is required */
		if (found == NO_DELIMITER || (found == NEXT_DELIMITER && rest.s[-1] != '\n'))
			continue;
		content->len = line.s - content->s;
		if (content->len > 0 && content->s[content->len - 1] == '\n')
			content->len--;
		if (content->len > 0 && content->s[content->len - 1] == '\r')
			content->len--;
		level->at = rest.s;
		return found;
	}
	return NO_DELIMITER;
}

static dv_part_step
next_content(dv_multipart_level *level, dv_slice *content)
{
	delimiter	found;

	if (!level->begun)
	{
		found = seek_delimiter(level, content);
		if (found == NO_DELIMITER)
			return DV_PART_BROKEN;
		level->begun = true;
		level->closed = found == LAST_DELIMITER;
	}
	if (level->closed)
		return DV_PART_END;
	found = seek_delimiter(level, content);
	if (found == NO_DELIMITER)
		return DV_PART_BROKEN;
	level->closed = found == LAST_DELIMITER;
	return DV_PART;
}

/* Takes the headers and the empty line after them. */
static dv_slice
take_headers(dv_slice *rest)
{
	dv_slice	headers = {rest->s, 0};
	dv_slice	line;

	while (next_line(rest, &line))
	{
		if (line.len == 0)
			break;
		headers.len = line.s + line.len - headers.s;
	}
	return headers;
}

static dv_slice
header(dv_slice headers, const char *name)
{
	dv_slice	none = {NULL, 0};
	dv_slice	line;

	while (next_line(&headers, &line))
	{
		const char *colon = memchr(line.s, ':', line.len);
		dv_slice	key = {line.s, colon != NULL ? colon - line.s : 0};
		dv_slice	value;

		key = trim(key);
		if (colon == NULL || key.len != strlen(name) || strncasecmp(key.s, name, key.len) != 0)
			continue;
		value.s = colon + 1;
		value.len = line.s + line.len - value.s;
		return trim(value);
	}
	return none;
}

dv_slice
dv_part_header(const dv_part *part, const char *name)
{
	return header(part->headers, name);
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int
number(dv_slice s)
{
	int			n = 0;
	size_t		i;

	if (s.len == 0 || s.len > MAX_ID_DIGITS)
		return -1;
	for (i = 0; i < s.len; i++)
	{
		if (!is_digit(s.s[i]))
			return -1;
		n = n * 10 + (s.s[i] - '0');
	}
	return n;
}

/* "HTTP/1.1 429 Too Many Requests"; 0 if it is anything else */
static int
read_status(dv_slice line)
{
	dv_slice	digits = {line.s + 9, 3};

	if (line.len < 12 || memcmp(line.s, "HTTP/1.", 7) != 0 || line.s[8] != ' ' ||
		(line.len > 12 && line.s[12] != ' ') || number(digits) < 100)
		return 0;
	return number(digits);
}

static bool
read_part(dv_slice mime, dv_slice content, dv_part *part)
{
	dv_slice	line;

	if (!next_line(&content, &line) || (part->status = read_status(line)) == 0)
		return false;
	part->content_id = number(header(mime, "Content-ID"));
	part->headers = take_headers(&content);
	part->body = content;
	return true;
}

/* Returns true if this Content-Type announces parts. */
static bool
is_container(dv_slice type)
{
	static const char mixed[] = "multipart/mixed";

	return type.len >= sizeof(mixed) - 1 && strncasecmp(type.s, mixed, sizeof(mixed) - 1) == 0;
}

bool
dv_multipart_open(dv_multipart *multipart, const char *content_type, const char *body, size_t len)
{
	dv_slice	type = {content_type, content_type != NULL ? strlen(content_type) : 0};

	memset(multipart, 0, sizeof(*multipart));
	multipart->broken = true;
	if (!is_container(type) || !read_boundary(type, &multipart->whole.boundary))
		return false;
	multipart->whole.at = body;
	multipart->whole.end = body + len;
	multipart->broken = false;
	return true;
}

/* Enters the answer to a changeset, whose parts come next. */
static bool
enter_changeset(dv_multipart *multipart, dv_slice type, dv_slice content)
{
	dv_multipart_level *level = &multipart->changeset;

	memset(level, 0, sizeof(*level));
	if (multipart->inside || !read_boundary(type, &level->boundary))
		return false;
	level->at = content.s;
	level->end = content.s + content.len;
	multipart->inside = true;
	multipart->changesets++;
	return true;
}

static dv_part_step
next_part(dv_multipart *multipart, dv_part *part)
{
	for (;;)
	{
		dv_multipart_level *level = multipart->inside ? &multipart->changeset : &multipart->whole;
		dv_slice	content;
		dv_slice	mime;
		dv_slice	type;
		dv_part_step step = next_content(level, &content);

		if (step == DV_PART_END && multipart->inside)
		{
			multipart->inside = false;
			continue;
		}
		if (step != DV_PART)
			return step;
		mime = take_headers(&content);
		type = header(mime, "Content-Type");
		if (!is_container(type))
		{
			part->changeset = multipart->inside ? multipart->changesets : 0;
			return read_part(mime, content, part) ? DV_PART : DV_PART_BROKEN;
		}
		if (!enter_changeset(multipart, type, content))
			return DV_PART_BROKEN;
	}
}

dv_part_step
dv_multipart_next(dv_multipart *multipart, dv_part *part)
{
	dv_part_step step;

	memset(part, 0, sizeof(*part));
	if (multipart->broken)
		return DV_PART_BROKEN;
	step = next_part(multipart, part);
	multipart->broken = step == DV_PART_BROKEN;
	return step;
}

bool
dv_multipart_failure(dv_multipart *multipart, dv_part *part)
{
	while (dv_multipart_next(multipart, part) == DV_PART)
		if (part->status >= 300)
			return true;
	return false;
}
