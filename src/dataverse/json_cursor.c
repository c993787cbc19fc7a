/*
 * json_cursor.c
 *		A strict JSON reader that goes front to back and builds nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "dataverse/json_cursor.h"
#include "net/hex.h"

/* Lengths of values have 32 bits, which is more than any answer needs. */
#define LONGEST_TEXT ((size_t) INT32_MAX)

const char *
dv_cursor_fail(dv_cursor *cursor, const char *p, const char *reason)
{
	if (cursor->error == NULL)
	{
		cursor->error = p < cursor->end ? reason : "unexpected end of the text";
		cursor->error_at = (size_t) (p - cursor->text);
	}
	return NULL;
}

/* ----------
 * Pieces of values
 * ----------
 */

static const char *
read_escape(dv_cursor *cursor, const char *p)
{
	int			i;

	switch (*++p)
	{
		case '"':
		case '\\':
		case '/':
		case 'b':
		case 'f':
		case 'n':
		case 'r':
		case 't':
			return p + 1;
		case 'u':
			break;
		default:
			return dv_cursor_fail(cursor, p, "invalid escape sequence");
	}
	for (i = 1; i <= 4; i++)
		if (dv_hex_value(p[i]) < 0)
			return dv_cursor_fail(cursor, p + i, "hexadecimal digit expected");
	return p + 5;
}

/* Returns the position after a character that is not ASCII. */
static const char *
read_utf8(dv_cursor *cursor, const char *p)
{
	const unsigned char *s = (const unsigned char *) p;
	unsigned int least = 0x80;
	unsigned int most = 0xbf;
	int			n;
	int			i;

	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return dv_cursor_fail(cursor, p, "invalid UTF-8");
	/* no overlong forms, no surrogates, nothing above U+10FFFF */
	if (s[0] == 0xe0)
		least = 0xa0;
	else if (s[0] == 0xed)
		most = 0x9f;
	else if (s[0] == 0xf0)
		least = 0x90;
	else if (s[0] == 0xf4)
		most = 0x8f;
	if (s[1] < least || s[1] > most)
		return dv_cursor_fail(cursor, p + 1, "invalid UTF-8");
	for (i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return dv_cursor_fail(cursor, p + i, "invalid UTF-8");
	return p + n;
}

/* Reads an escape, or a run of characters beyond ASCII. */
const char *
dv_cursor_read_character(dv_cursor *cursor, const char *p)
{
	if (*p == '\\')
		return read_escape(cursor, p);
	if ((unsigned char) *p < 0x20)
		return dv_cursor_fail(cursor, p, "control character in a string");
	do
		p = read_utf8(cursor, p);
	while (p != NULL && (unsigned char) *p >= 0x80);
	return p;
}

/* Returns true if the text continues with the word. */
static inline bool
is_word(const dv_cursor *cursor, const char *p, const char *word, size_t len)
{
	return (size_t) (cursor->end - p) >= len && memcmp(p, word, len) == 0;
}

const char *
dv_cursor_read_word(dv_cursor *cursor, const char *p, dv_value *value)
{
	dv_value_kind kind;
	uint32_t	len = 4;

	if (is_word(cursor, p, "null", 4))
		kind = DV_VALUE_NULL;
	else if (is_word(cursor, p, "true", 4))
		kind = DV_VALUE_TRUE;
	else if (is_word(cursor, p, "false", 5))
	{
		kind = DV_VALUE_FALSE;
		len = 5;
	}
	else
		return dv_cursor_fail(cursor, p, "value expected");
	value->text = p;
	value->len = len;
	value->kind = (uint8_t) kind;
	value->escaped = false;
	return p + len;
}

const char *
dv_cursor_read_name(dv_cursor *cursor, const char *p, dv_value *name)
{
	if (*p != '"')
		return dv_cursor_fail(cursor, p, "member name expected");
	p = dv_cursor_read_string(cursor, p + 1, name);
	if (p == NULL)
		return NULL;
	p = dv_cursor_skip_blanks(p);
	if (*p != ':')
		return dv_cursor_fail(cursor, p, "\":\" expected");
	return dv_cursor_skip_blanks(p + 1);
}

static const char *
expected(char close)
{
	return close == '}' ? "\",\" or \"}\" expected" : "\",\" or \"]\" expected";
}

const char *
dv_cursor_read_nested(dv_cursor *cursor, const char *p, int depth, dv_value *value)
{
	const char *start = p;
	bool		is_object = *p == '{';
	char		close = is_object ? '}' : ']';
	dv_value	part;

	if (depth == DV_CURSOR_MAX_DEPTH)
		return dv_cursor_fail(cursor, p, "nested too deeply");
	p = dv_cursor_skip_blanks(p + 1);
	if (*p != close)
	{
		for (;;)
		{
			if (is_object)
				p = dv_cursor_read_name(cursor, p, &part);
			if (p != NULL)
				p = dv_cursor_read_part(cursor, p, depth + 1, &part);
			if (p == NULL)
				return NULL;
			p = dv_cursor_skip_blanks(p);
			if (*p == close)
				break;
			if (*p != ',')
				return dv_cursor_fail(cursor, p, expected(close));
			p = dv_cursor_skip_blanks(p + 1);
		}
	}
	value->text = start;
	value->len = (uint32_t) (p + 1 - start);
	value->kind = is_object ? DV_VALUE_OBJECT : DV_VALUE_ARRAY;
	value->escaped = false;
	return p + 1;
}

const char *
dv_cursor_read_value(dv_cursor *cursor, const char *p, dv_value *value)
{
	return dv_cursor_read_part(cursor, p, 0, value);
}

/* ----------
 * Step by step
 * ----------
 */

void
dv_cursor_open(dv_cursor *cursor, const char *text, size_t len)
{
	memset(cursor, 0, sizeof(*cursor));
	cursor->text = text;
	cursor->end = text + len;
	cursor->at = text;
	if (len > LONGEST_TEXT)
		dv_cursor_fail(cursor, text, "the text is too long");
}

bool
dv_cursor_enter(dv_cursor *cursor, char open)
{
	if (cursor->error != NULL)
		return false;
	cursor->at = dv_cursor_skip_blanks(cursor->at);
	if (*cursor->at != open)
	{
		dv_cursor_fail(cursor, cursor->at, open == '{' ? "\"{\" expected" : "\"[\" expected");
		return false;
	}
	cursor->at++;
	cursor->is_first = true;
	return true;
}

bool
dv_cursor_next(dv_cursor *cursor, char close)
{
	bool		is_first = cursor->is_first;
	const char *p;

	if (cursor->error != NULL)
		return false;
	p = dv_cursor_skip_blanks(cursor->at);
	cursor->is_first = false;
	cursor->at = p;
	if (*p == close)
	{
		cursor->at++;
		return false;
	}
	if (!is_first && *p != ',')
	{
		dv_cursor_fail(cursor, p, expected(close));
		return false;
	}
	if (!is_first)
		cursor->at = dv_cursor_skip_blanks(p + 1);
	return true;
}

bool
dv_cursor_name(dv_cursor *cursor, dv_value *name)
{
	const char *p = cursor->error == NULL ? dv_cursor_read_name(cursor, cursor->at, name) : NULL;

	if (p != NULL)
		cursor->at = p;
	return p != NULL;
}

bool
dv_cursor_value(dv_cursor *cursor, dv_value *value)
{
	const char *p = cursor->error == NULL ? dv_cursor_read_value(cursor, cursor->at, value) : NULL;

	if (p != NULL)
		cursor->at = p;
	return p != NULL;
}

bool
dv_cursor_ended(dv_cursor *cursor)
{
	if (cursor->error != NULL)
		return false;
	cursor->at = dv_cursor_skip_blanks(cursor->at);
	if (cursor->at != cursor->end)
		dv_cursor_fail(cursor, cursor->at, "text after the end");
	return cursor->error == NULL;
}
