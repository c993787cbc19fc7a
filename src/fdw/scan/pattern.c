/*
 * pattern.c
 *		Translates LIKE patterns to string functions of the service.
 *
 * A pattern consists of literal text between wildcards.  The service has three
 * conditions for literal text: starts with, ends with, and contains.  The one
 * that probably excludes the most rows is used: the start of the pattern if it
 * has at least GOOD_START bytes, because the service has indexes for it and is
 * slow and strict about the others, and otherwise the longest literal text.
 * The rows that come back are always checked again locally.
 *
 * The service's collation gives no weight to characters that it does not know:
 * everything beyond U+FFFF, such as emoji, and some scripts.  Their meaning in a pattern
 * is not documented, so they count as wildcards.
 *
 * ILIKE ignores case by rules of its own, by which non-ASCII letters (the Kelvin sign,
 * the dotted I) can match K and I.  For ILIKE, these two and all non-ASCII letters
 * therefore count as wildcards.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "fdw/scan/bind.h"
#include "fdw/scan/pattern.h"

/* A start of this many bytes is selective enough. */
#define GOOD_START 3
/* Longer literal text is truncated. */
#define MAX_LITERAL 400

/* A piece of literal text. */
typedef struct piece
{
	const char *text;
	int			len;
	bool		at_start;
	bool		at_end;
} piece;

typedef struct like_pattern
{
	List	   *pieces;
	bool		broken;			/* PostgreSQL will raise an error for it */
} like_pattern;

bool
dv_text_possible(const char *text)
{
	const unsigned char *p;

	for (p = (const unsigned char *) text; *p != '\0'; p++)
	{
		if (*p < 0x20 && *p != '\t' && *p != '\n' && *p != '\r')
			return false;
		/* U+FFFE, U+FFFF */
		if (p[0] == 0xef && p[1] == 0xbf && (p[2] == 0xbe || p[2] == 0xbf))
			return false;
	}
	return true;
}

static bool
is_fickle(unsigned char c)
{
	return c >= 0x80 || c == 'k' || c == 'K' || c == 'i' || c == 'I';
}

/* Returns the length of a character that the service's collation may not know; else 0. */
static int
length_unknown(const char *text)
{
	const unsigned char *p = (const unsigned char *) text;
	int			c;

	if (p[0] >= 0xf0)
		return 4;
	if (p[0] != 0xe1)
		return 0;
	/* Burmese; Ethiopic to Mongolian */
	c = 0x1000 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	return c <= 0x109f || (c >= 0x1200 && c <= 0x18af) ? 3 : 0;
}

static void
add_piece(like_pattern *pat, const char *text, int len, bool at_start, bool at_end)
{
	piece	   *p = palloc(sizeof(*p));

	if (len == 0)
		return;
	p->text = pnstrdup(text, len);
	p->len = len;
	p->at_start = at_start;
	p->at_end = at_end;
	pat->pieces = lappend(pat->pieces, p);
}

static void
take_apart(like_pattern *pat, const char *text, bool fold)
{
	StringInfoData literal;
	bool		at_start = true;

	initStringInfo(&literal);
	for (; *text != '\0'; text++)
	{
		bool		wild = *text == '%' || *text == '_';
		int			unknown;

		if (*text == '\\')
		{
			text++;
			if (*text == '\0')
			{
				pat->broken = true;
				return;
			}
		}
		unknown = length_unknown(text);
		if (unknown > 0)
			text += unknown - 1;
		if (wild || unknown > 0 || (fold && is_fickle((unsigned char) *text)))
		{
			add_piece(pat, literal.data, literal.len, at_start, false);
			resetStringInfo(&literal);
			at_start = false;
		}
		else
			appendStringInfoChar(&literal, *text);
	}
	add_piece(pat, literal.data, literal.len, at_start, true);
}

static const piece *
best_piece(const like_pattern *pat)
{
	const piece *best = NULL;
	ListCell   *lc;

	foreach(lc, pat->pieces)
	{
		const piece *p = lfirst(lc);

		if (p->at_start && p->len >= GOOD_START)
			return p;
		if (best == NULL || p->len > best->len)
			best = p;
	}
	return best;
}

/* Truncates text at a character boundary, to a length that fits into a URL. */
static const char *
shortened(const char *text)
{
	int			len = MAX_LITERAL;

	if (strlen(text) <= MAX_LITERAL)
		return text;
	while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
		len--;
	return pnstrdup(text, len);
}

static dv_filter *
starts_with(const char *text, const dv_column *column)
{
	int			len = 0;

	if (!dv_text_possible(text))
		return dv_filter_of(DV_FALSE, NULL, NULL);
	while (text[len] != '\0' && length_unknown(text + len) == 0)
		len++;
	text = pnstrdup(text, len);
	if (*text == '\0')
		return dv_filter_of(DV_IS_NOT_NULL, column, NULL);
	return dv_filter_of(DV_STARTS_WITH, column, shortened(text));
}

dv_filter *
dv_pattern_filter(dv_op op, const char *text, const dv_column *column)
{
	like_pattern pat = {0};
	const piece *best;

	if (op == DV_OP_STARTS)
		return starts_with(text, column);
	take_apart(&pat, text, op == DV_OP_ILIKE);
	/* LIKE '' matches only '', which the service may store as null: request all rows */
	best = best_piece(&pat);
	if (pat.broken || *text == '\0')
		return dv_filter_of(DV_TRUE, NULL, NULL);
	if (best == NULL)
		return dv_filter_of(DV_IS_NOT_NULL, column, NULL);
	if (!dv_text_possible(best->text))
		return dv_filter_of(DV_FALSE, NULL, NULL);
	if (best->at_start && best->at_end && best->len <= MAX_LITERAL &&
		best->text[strspn(best->text, " ")] != '\0')
		return dv_filter_of(DV_EQ, column, best->text);
	if (best->at_start)
		return starts_with(best->text, column);
	if (best->at_end && best->len <= MAX_LITERAL)
		return dv_filter_of(DV_ENDS_WITH, column, best->text);
	return dv_filter_of(DV_CONTAINS, column, shortened(best->text));
}
