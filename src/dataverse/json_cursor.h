/*
 * json_cursor.h
 *		A strict JSON reader that goes front to back and builds nothing.
 *
 * Values are slices of the text.  Everything is checked, including skipped
 * parts: UTF-8, escapes, numbers, brackets, and the depth of nesting.  The
 * cursor stops at the first error and keeps its reason and position.
 *
 *		dv_cursor_open(&cursor, text, len);
 *		dv_cursor_enter(&cursor, '{');
 *		while (dv_cursor_next(&cursor, '}') && dv_cursor_name(&cursor, &name))
 *			dv_cursor_value(&cursor, &value);
 *		whole = dv_cursor_ended(&cursor);
 *
 * A NUL must follow the last byte of the text.  It is not a character of JSON,
 * so looking at one more byte needs no check of bounds.  Blocks of bytes
 * are read only where that many are left.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_JSON_CURSOR_H
#define DV_JSON_CURSOR_H

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "dataverse/value.h"

/* The greatest depth of arrays and objects inside a value. */
#define DV_CURSOR_MAX_DEPTH 64

typedef struct dv_cursor
{
	const char *text;
	const char *end;
	const char *at;				/* position; only used by the functions that take none */
	bool		is_first;		/* "at" is right after an opening bracket */
	const char *error;			/* a fragment, "member name expected"; NULL if there is none so
								 * far */
	size_t		error_at;		/* byte position in the text, from 0 */
} dv_cursor;

extern void dv_cursor_open(dv_cursor *cursor, const char *text, size_t len);

/* Moves past an opening bracket, which must come next. */
extern bool dv_cursor_enter(dv_cursor *cursor, char open);

/*
 * Moves to the next member or item.  Returns false after the closing bracket,
 * and if something else comes next, which is an error.
 */
extern bool dv_cursor_next(dv_cursor *cursor, char close);

/*
 * Read a member's name with its colon, and a value of any kind.  They return
 * false after an error.
 */
extern bool dv_cursor_name(dv_cursor *cursor, dv_value *name);
extern bool dv_cursor_value(dv_cursor *cursor, dv_value *value);

/* Returns whether all of the text was read without an error. */
extern bool dv_cursor_ended(dv_cursor *cursor);

/* ----------
 * Functions for readers that must be fast.  They take the position to start
 * from and return the position where they stopped, or NULL after an error.
 * ----------
 */

/*
 * Records the first error.  At the very end of the text, the reason is that
 * the text was cut off.
 */
extern const char *dv_cursor_fail(dv_cursor *cursor, const char *p, const char *reason);

extern const char *dv_cursor_read_name(dv_cursor *cursor, const char *p, dv_value *name);
extern const char *dv_cursor_read_value(dv_cursor *cursor, const char *p, dv_value *value);

/* used by the inline functions below */
extern const char *dv_cursor_read_character(dv_cursor *cursor, const char *p);
extern const char *dv_cursor_read_word(dv_cursor *cursor, const char *p, dv_value *value);
extern const char *dv_cursor_read_nested(dv_cursor *cursor, const char *p, int depth,
										 dv_value *value);

static inline uint64_t
dv_load8(const char *p)
{
	uint64_t	w;

	memcpy(&w, p, 8);
	return w;
}

#define DV_EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/*
 * Marks the first one of eight bytes that is a quote, a backslash, a control character,
 * or not ASCII (whose high bit survives at least one of the first two subtractions), by
 * the high bit of that byte.  Bytes above the first one may be marked wrongly.
 */
static inline uint64_t
dv_cursor_special_in_8(const char *p)
{
	uint64_t	w = dv_load8(p);
	uint64_t	quotes;
	uint64_t	backslashes;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	quotes = (w ^ DV_EACH_BYTE('"')) - DV_EACH_BYTE(1);
	backslashes = (w ^ DV_EACH_BYTE('\\')) - DV_EACH_BYTE(1);
	return (quotes | backslashes | (w - DV_EACH_BYTE(0x20))) & DV_EACH_BYTE(0x80);
}

#ifdef __SSE2__

/* Marks each one of sixteen bytes by one bit. */
static inline uint64_t
dv_cursor_special_in_16(const char *p)
{
	__m128i		bytes = _mm_loadu_si128((const __m128i *) p);
	__m128i		quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
	__m128i		backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));

	/* bytes are signed here, so that those beyond ASCII are less, too */
	__m128i		others = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));

	return (uint64_t) _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), others));
}

#define DV_CURSOR_BLOCK 16
#define DV_CURSOR_MARK_BITS 1
#define dv_cursor_special_bytes dv_cursor_special_in_16

#else

#define DV_CURSOR_BLOCK 8
#define DV_CURSOR_MARK_BITS 8
#define dv_cursor_special_bytes dv_cursor_special_in_8

#endif

static inline bool
dv_cursor_is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline bool
dv_cursor_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline const char *
dv_cursor_skip_blanks(const char *p)
{
	while (dv_cursor_is_blank(*p))
		p++;
	return p;
}

/* "p" is after the opening quote; returns the position after the closing one. */
static inline const char *
dv_cursor_read_string(dv_cursor *cursor, const char *p, dv_value *value)
{
	const char *start = p;
	bool		escaped = false;

	for (;;)
	{
		while (cursor->end - p >= DV_CURSOR_BLOCK)
		{
			uint64_t	special = dv_cursor_special_bytes(p);

			if (special != 0)
			{
				p += __builtin_ctzll(special) / DV_CURSOR_MARK_BITS;
				break;
			}
			p += DV_CURSOR_BLOCK;
		}
		if (*p == '"')
			break;
		if ((unsigned char) *p >= 0x20 && (unsigned char) *p < 0x80 && *p != '\\')
		{
			p++;
			continue;
		}
		escaped |= *p == '\\';
		/* each row has two of these in its version, W/\"1234\" */
		if (*p == '\\' && p[1] == '"')
		{
			p += 2;
			continue;
		}
		p = dv_cursor_read_character(cursor, p);
		if (p == NULL)
			return NULL;
	}
	value->text = start;
	value->len = (uint32_t) (p - start);
	value->kind = DV_VALUE_STRING;
	value->escaped = escaped;
	return p + 1;
}

static inline const char *
dv_cursor_skip_digits(dv_cursor *cursor, const char *p)
{
	if (!dv_cursor_is_digit(*p))
		return dv_cursor_fail(cursor, p, "digit expected");
	while (dv_cursor_is_digit(*p))
		p++;
	return p;
}

static inline const char *
dv_cursor_read_number(dv_cursor *cursor, const char *p, dv_value *value)
{
	const char *start = p;

	if (*p == '-')
		p++;
	if (*p == '0')
		p++;
	else
		p = dv_cursor_skip_digits(cursor, p);
	if (p != NULL && *p == '.')
		p = dv_cursor_skip_digits(cursor, p + 1);
	if (p != NULL && (*p == 'e' || *p == 'E'))
	{
		p++;
		if (*p == '+' || *p == '-')
			p++;
		p = dv_cursor_skip_digits(cursor, p);
	}
	if (p == NULL)
		return NULL;
	value->text = start;
	value->len = (uint32_t) (p - start);
	value->kind = DV_VALUE_NUMBER;
	value->escaped = false;
	return p;
}

/* "depth" is the number of open brackets around this part of a value. */
static inline const char *
dv_cursor_read_part(dv_cursor *cursor, const char *p, int depth, dv_value *value)
{
	if (*p == '"')
		return dv_cursor_read_string(cursor, p + 1, value);
	if (dv_cursor_is_digit(*p) || *p == '-')
		return dv_cursor_read_number(cursor, p, value);
	if (*p == '{' || *p == '[')
		return dv_cursor_read_nested(cursor, p, depth, value);
	return dv_cursor_read_word(cursor, p, value);
}

#endif							/* DV_JSON_CURSOR_H */
