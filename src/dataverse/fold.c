/*
 * fold.c
 *		Folds values of alternate keys, so that values that the service may
 *		consider equal have the same fold.
 *
 * The service compares texts with the collation of its database, usually
 * Latin1_General_CI_AI: without regard to case, accents, width, and the
 * difference between hiragana and katakana.  It ignores trailing blanks, and
 * characters that its version of the collation does not know.
 *
 * A fold need not be exact, but must err on one side only.  Rows with the same
 * fold are written one after the other, so equal folds of texts that differ cost
 * a wait, while different folds of texts that are equal would let the older row
 * win.  A character is kept only if it certainly has a weight.  It is replaced by
 * the simplest character that it may equal, and all others are left out.  The
 * remaining characters suffice to distinguish ordinary keys in any script: ASCII
 * without case, and the letters and ideographs of the larger scripts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/unicode_norm.h"
#include "mb/pg_wchar.h"

#include "dataverse/fold.h"

typedef struct range
{
	pg_wchar	first;
	pg_wchar	last;
	pg_wchar	to;				/* replaces the first one; the others follow */
} range;

/*
 * Digits of other scripts and in circles, and the like, which differ from
 * ASCII's as accents do.  They are looked up before they are decomposed, which
 * would make letters of Roman numerals.
 */
static const range digits[] = {
	{0x0660, 0x0669, '0'}, {0x06f0, 0x06f9, '0'}, {0x0966, 0x096f, '0'}, {0x09e6, 0x09ef, '0'},
	{0x0a66, 0x0a6f, '0'}, {0x0ae6, 0x0aef, '0'}, {0x0b66, 0x0b6f, '0'}, {0x0be6, 0x0bef, '0'},
	{0x0c66, 0x0c6f, '0'}, {0x0ce6, 0x0cef, '0'}, {0x0d66, 0x0d6f, '0'}, {0x0e50, 0x0e59, '0'},
	{0x0ed0, 0x0ed9, '0'}, {0x2160, 0x2168, '1'}, {0x2170, 0x2178, '1'}, {0x2474, 0x247c, '1'},
	{0x2488, 0x2490, '1'}, {0x249c, 0x24b5, 'a'}, {0x2776, 0x277e, '1'}, {0x2780, 0x2788, '1'},
	{0x278a, 0x2792, '1'}, {0x3021, 0x3029, '1'}
};

/*
 * Characters that are newer than the collation, so that it ignores them, whatever their
 * decomposition.
 */
static const range unknown[] = {
	{0x1d00, 0x1dff, 1}, {0x2c00, 0x2e7f, 1}, {0xa4d0, 0xabff, 1}, {0x10000, 0x10ffff, 1}
};

/* Characters that are kept once they are decomposed: letters without their case. */
static const range kept[] = {
	{0x0391, 0x03a9, 0x03b1}, {0x03b1, 0x03c9, 0x03b1}, /* Greek */
	{0x0400, 0x040f, 0x0450}, {0x0410, 0x042f, 0x0430}, {0x0430, 0x045f, 0x0430},	/* Cyrillic */
	{0x0531, 0x0556, 0x0561}, {0x0561, 0x0586, 0x0561}, /* Armenian */
	{0x05d0, 0x05ea, 0x05d0},	/* Hebrew */
	{0x0621, 0x063a, 0x0621}, {0x0641, 0x064a, 0x0641}, {0x0671, 0x06d3, 0x0671},	/* Arabic */
	{0x0905, 0x0939, 0x0905}, {0x0985, 0x09b9, 0x0985}, {0x0a05, 0x0a39, 0x0a05},	/* Indic scripts */
	{0x0a85, 0x0ab9, 0x0a85}, {0x0b05, 0x0b39, 0x0b05}, {0x0b85, 0x0bb9, 0x0b85},
	{0x0c05, 0x0c39, 0x0c05}, {0x0c85, 0x0cb9, 0x0c85}, {0x0d05, 0x0d39, 0x0d05},
	{0x0e01, 0x0e2e, 0x0e01}, {0x0e30, 0x0e30, 0x0e30}, {0x0e32, 0x0e32, 0x0e32},	/* Thai */
	{0x0e40, 0x0e44, 0x0e40}, {0x0e81, 0x0eae, 0x0e81}, /* Lao */
	{0x10a0, 0x10c5, 0x10d0}, {0x10d0, 0x10f0, 0x10d0}, /* Georgian */
	{0x1100, 0x1159, 0x1100}, {0x1161, 0x11a2, 0x1161}, {0x11a8, 0x11f9, 0x11a8},	/* Hangul */
	{0x2010, 0x2010, '-'}, {0x2011, 0x2011, '-'}, {0x2012, 0x2012, '-'}, {0x2013, 0x2013, '-'},
	{0x2014, 0x2014, '-'}, {0x2015, 0x2015, '-'}, {0x2018, 0x2018, '\''}, {0x2019, 0x2019, '\''},
	{0x201c, 0x201c, '"'}, {0x201d, 0x201d, '"'}, {0x2044, 0x2044, '/'}, {0x2212, 0x2212, '-'},
	{0x3041, 0x3096, 0x30a1}, {0x30a1, 0x30f6, 0x30a1}, /* kana */
	{0x3105, 0x312c, 0x3105},	/* Bopomofo */
	{0x4e00, 0x9fa5, 0x4e00}	/* ideographs of the first version of Unicode */
};

/* Letters that have no decomposition, but may still equal others. */
static const struct
{
	pg_wchar	letter;
	const char *equal;
}			letters[] =

{
	{0x00c6, "ae"}, {0x00d0, "d"}, {0x00d8, "o"}, {0x00de, "th"}, {0x00df, "ss"}, {0x00e6, "ae"},
	{0x00f0, "d"}, {0x00f8, "o"}, {0x00fe, "th"}, {0x0110, "d"}, {0x0111, "d"}, {0x0126, "h"},
	{0x0127, "h"}, {0x0131, "i"}, {0x0141, "l"}, {0x0142, "l"}, {0x0152, "oe"}, {0x0153, "oe"},
	{0x0166, "t"}, {0x0167, "t"}, {0x0180, "b"}, {0x0197, "i"}, {0x019a, "l"}, {0x01b5, "z"},
	{0x01b6, "z"}, {0x01e4, "g"}, {0x01e5, "g"}, {0x023a, "a"}, {0x023b, "c"}, {0x023c, "c"},
	{0x023d, "l"}, {0x0243, "b"}, {0x0246, "e"}, {0x0247, "e"}, {0x0248, "j"}, {0x0249, "j"},
	{0x024c, "r"}, {0x024d, "r"}, {0x024e, "y"}, {0x024f, "y"}, {0x03c2, "\317\203"},
	{0x1e9e, "ss"}
};

/*
 * The letters of Cyrillic from U+048A that differ from others by a stroke or
 * tail, in pairs of both cases: the letters that they may equal, above U+0400;
 * 0: none of the letters that are kept.
 */
static const unsigned char cyrillic[] = {
	0x38, 0x4c, 0x40, 0x33, 0x33, 0x33, 0x36, 0x37, 0x3a, 0x3a, 0x3a, 0x3a, 0x3d, 0x3d, 0x3f, 0,
	0x41, 0x42, 0x43, 0x43, 0x45, 0x46, 0x47, 0x47, 0x45, 0x47, 0x47
};

#define CYRILLIC_FIRST 0x048a
#define CYRILLIC_LAST (CYRILLIC_FIRST + 2 * lengthof(cyrillic) - 1)

/* The same for the pairs that begin with an odd number, from U+04C1. */
static const unsigned char cyrillic_odd[] = {0x36, 0x3a, 0x3b, 0x3d, 0x3d, 0x47, 0x3c};

#define CYRILLIC_ODD_FIRST 0x04c1
#define CYRILLIC_ODD_LAST (CYRILLIC_ODD_FIRST + 2 * lengthof(cyrillic_odd) - 1)

/* Returns the length of a character of UTF-8 that begins with this byte. */
static inline int
utf8_len(unsigned char first)
{
	return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* A fold that is being made. */
typedef struct fold
{
	StringInfo	out;
	pg_wchar	last;			/* the last character if it is not ASCII; else 0 */
} fold;

static void
put_ascii(fold *f, unsigned char c)
{
	/* control characters may have no weight */
	if (c < ' ' || c == 0x7f)
		return;
	if (c >= 'A' && c <= 'Z')
		c += 'a' - 'A';
	appendStringInfoChar(f->out, (char) c);
	f->last = 0;
}

static bool
is_kana(pg_wchar c)
{
	return c >= 0x30a1 && c <= 0x30f6;
}

/* Small kana differ from others as lower case does. */
static pg_wchar
large_kana(pg_wchar c)
{
	if ((c >= 0x30a1 && c <= 0x30a9) || (c >= 0x30e3 && c <= 0x30e8))
		return c + (c & 1);
	if (c == 0x30c3 || c == 0x30ee)
		return c + 1;
	return c == 0x30f5 ? 0x30ab : c == 0x30f6 ? 0x30b1 : c;
}

/*
 * Puts a character that is kept.  A mark that repeats the character before it
 * or prolongs its vowel is left out, so repetitions and vowels are left out, too.
 */
static void
put_kept(fold *f, pg_wchar c)
{
	unsigned char bytes[MAX_MULTIBYTE_CHAR_LEN];

	if (c < 0x80)
	{
		put_ascii(f, (unsigned char) c);
		return;
	}
	if (is_kana(c))
		c = large_kana(c);
	if (c == f->last || (c >= 0x30a2 && c <= 0x30aa && is_kana(f->last)))
		return;
	unicode_to_utf8(c, bytes);
	appendBinaryStringInfo(f->out, (const char *) bytes, utf8_len(bytes[0]));
	f->last = c;
}

/* Returns the replacement of a character in a table, or 0 if the table does not have it. */
static pg_wchar
replacement_in(const range *ranges, int n, pg_wchar c)
{
	int			i;

	for (i = 0; i < n && ranges[i].first <= c; i++)
		if (c <= ranges[i].last)
			return ranges[i].to + (c - ranges[i].first);
	return 0;
}

/* Puts a character that has been decomposed. */
static void
put_simple(fold *f, pg_wchar c)
{
	pg_wchar	found;
	int			i;

	if (c < 0x80)
	{
		put_ascii(f, (unsigned char) c);
		return;
	}
	for (i = 0; i < (int) lengthof(letters); i++)
	{
		const unsigned char *equal = (const unsigned char *) letters[i].equal;

		if (letters[i].letter != c)
			continue;
		for (; *equal != '\0'; equal += utf8_len(*equal))
			put_kept(f, utf8_to_unicode(equal));
		return;
	}
	if (c >= CYRILLIC_FIRST && c <= CYRILLIC_LAST)
		found = cyrillic[(c - CYRILLIC_FIRST) / 2];
	else if (c >= CYRILLIC_ODD_FIRST && c <= CYRILLIC_ODD_LAST)
		found = cyrillic_odd[(c - CYRILLIC_ODD_FIRST) / 2];
	else if (c == 0x04e8 || c == 0x04e9)
		found = 0x3e;
	else
	{
		found = replacement_in(kept, lengthof(kept), c);
		if (found != 0)
			put_kept(f, found);
		return;
	}
	if (found != 0)
		put_kept(f, 0x400 + found);
}

static void
put_wide(fold *f, pg_wchar c)
{
	pg_wchar	one[2] = {c, 0};
	pg_wchar	found;
	pg_wchar   *simple;
	int			i;

	/* most of these are ideographs, and none of them has a decomposition */
	if (c >= 0x4e00 && c <= 0x9fa5)
	{
		put_kept(f, c);
		return;
	}
	if (replacement_in(unknown, lengthof(unknown), c) != 0)
		return;
	found = replacement_in(digits, lengthof(digits), c);
	if (found != 0)
	{
		put_kept(f, found);
		return;
	}
	simple = unicode_normalize(UNICODE_NFKD, one);
	for (i = 0; simple[i] != 0; i++)
		put_simple(f, simple[i]);
	pfree(simple);
}

void
dv_fold_text(const char *text, size_t len, StringInfo out)
{
	const unsigned char *p = (const unsigned char *) text;
	const unsigned char *end = p + len;
	int			start = out->len;
	fold		f = {out, 0};

	while (p < end)
	{
		if (*p < 0x80)
			put_ascii(&f, *p++);
		else
		{
			put_wide(&f, utf8_to_unicode(p));
			p += utf8_len(*p);
		}
	}
	/* all characters after a blank may have been left out */
	while (out->len > start && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
}

void
dv_fold_number(const char *text, size_t len, StringInfo out)
{
	bool		negative = len > 0 && *text == '-';
	bool		scientific = memchr(text, 'e', len) != NULL;

	text += negative;
	len -= negative;
	if (memchr(text, '.', len) != NULL && !scientific)
	{
		while (text[len - 1] == '0')
			len--;
		len -= text[len - 1] == '.';
	}
	if (negative && !(len == 1 && *text == '0'))
		appendStringInfoChar(out, '-');
	appendBinaryStringInfo(out, text, (int) len);
}

void
dv_fold_time(const char *text, size_t len, StringInfo out)
{
	const char *point = memchr(text, '.', len);

	appendBinaryStringInfo(out, text, (int) (point != NULL ? (size_t) (point - text) : len));
	if (point != NULL)
		appendStringInfoChar(out, 'Z');
}
