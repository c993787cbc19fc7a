/*
 * text.c
 *		Text as the service compares it.
 *
 * This is the Windows collation Latin1_General_CI_AI in its first version, which
 * ignores case, accents, width, and the difference between hiragana and
 * katakana.  It does not know characters newer than Unicode 3: supplementary
 * characters and many scripts have no weight, so an emoji equals the empty text.
 *
 * Each character becomes a weight: none if the collation ignores it, else its
 * class (blank, space, punctuation, digit, letter) above its place in the class.
 * Letters lose case and accents first (text_fold.h); a few become two weights.
 * ASCII uses a table.  Hyphens count, including soft ones, and a no-break space
 * is not a blank.
 *
 * Trailing blanks are ignored in a comparison, but not in LIKE, as in SQL Server
 * for Unicode text.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/text.h"

#include <stdint.h>
#include <string.h>

#include "store/text_fold.h"

#define CLASS_SPACE			0x01000000U
#define CLASS_PUNCTUATION	0x02000000U
#define CLASS_SYMBOL		0x03000000U
#define CLASS_DIGIT			0x04000000U
#define CLASS_LETTER		0x05000000U
#define CLASS_BROKEN		0x06000000U

/* place of each ASCII character: 1 blank, then controls, punctuation, digits, letters */
static const unsigned char ascii_rank[128] = {
	0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
	[' '] = 1, [0x7f] = 33,
	['\''] = 34, ['-'] = 35, ['!'] = 36, ['"'] = 37, ['#'] = 38, ['$'] = 39,
	['%'] = 40, ['&'] = 41, ['('] = 42, [')'] = 43, ['*'] = 44, [','] = 45,
	['.'] = 46, ['/'] = 47, [':'] = 48, [';'] = 49, ['?'] = 50, ['@'] = 51,
	['['] = 52, ['\\'] = 53, [']'] = 54, ['^'] = 55, ['_'] = 56, ['`'] = 57,
	['{'] = 58, ['|'] = 59, ['}'] = 60, ['~'] = 61, ['+'] = 62, ['<'] = 63,
	['='] = 64, ['>'] = 65,
	['0'] = 70, ['1'] = 71, ['2'] = 72, ['3'] = 73, ['4'] = 74,
	['5'] = 75, ['6'] = 76, ['7'] = 77, ['8'] = 78, ['9'] = 79,
	['A'] = 80, ['B'] = 81, ['C'] = 82, ['D'] = 83, ['E'] = 84, ['F'] = 85,
	['G'] = 86, ['H'] = 87, ['I'] = 88, ['J'] = 89, ['K'] = 90, ['L'] = 91,
	['M'] = 92, ['N'] = 93, ['O'] = 94, ['P'] = 95, ['Q'] = 96, ['R'] = 97,
	['S'] = 98, ['T'] = 99, ['U'] = 100, ['V'] = 101, ['W'] = 102, ['X'] = 103,
	['Y'] = 104, ['Z'] = 105,
	['a'] = 80, ['b'] = 81, ['c'] = 82, ['d'] = 83, ['e'] = 84, ['f'] = 85,
	['g'] = 86, ['h'] = 87, ['i'] = 88, ['j'] = 89, ['k'] = 90, ['l'] = 91,
	['m'] = 92, ['n'] = 93, ['o'] = 94, ['p'] = 95, ['q'] = 96, ['r'] = 97,
	['s'] = 98, ['t'] = 99, ['u'] = 100, ['v'] = 101, ['w'] = 102, ['x'] = 103,
	['y'] = 104, ['z'] = 105
};

/* fold() found two letters: the first at bit 7, the second at bit 0 */
#define PAIR				0x80000000U

#define FIRST_PUNCTUATION	34
#define FIRST_DIGIT			70
#define FIRST_LETTER		80

/* the rest of a piece of text */
struct cursor
{
	const unsigned char *p;
	const unsigned char *end;
	uint32_t	pending;		/* second weight of a character that has two */
};

static inline uint32_t
ascii_weight(unsigned c)
{
	unsigned	rank = ascii_rank[c];

	if (rank >= FIRST_LETTER)
		return CLASS_LETTER | rank;
	if (rank >= FIRST_DIGIT)
		return CLASS_DIGIT | rank;
	if (rank >= FIRST_PUNCTUATION)
		return CLASS_PUNCTUATION | rank;
	return CLASS_SPACE | rank;
}

/*
 * Length of the well-formed UTF-8 sequence at p, and its character; 0 when it
 * is broken.
 */
static int
decode(const unsigned char *p, const unsigned char *end, uint32_t *cp)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t	c = *p;
	int			n;
	int			i;

	if (c < 0x80)
	{
		*cp = c;
		return 1;
	}
	if (c >= 0xc2 && c <= 0xdf)
		n = 2;
	else if ((c & 0xf0) == 0xe0)
		n = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		n = 4;
	else
		return 0;
	if (end - p < n)
		return 0;
	c &= 0x7fU >> n;
	for (i = 1; i < n; i++)
	{
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*cp = c;
	return n;
}

struct range
{
	uint32_t	first;
	uint32_t	last;
};

/*
 * Characters that are ignored: combining marks, and characters that are newer
 * than the tables of this collation or missing from them, such as emoji and
 * whole scripts.
 */
static const struct range weightless[] = {
	{0x300, 0x36f}, {0x483, 0x487}, {0x591, 0x5bd}, {0x64b, 0x652}, {0xd80, 0xdff},
	{0x1000, 0x109f}, {0x1200, 0x18af}, {0x1900, 0x1dff}, {0x200c, 0x200f}, {0x202a, 0x202e},
	{0x2060, 0x206f}, {0x20d0, 0x20ff}, {0x2c00, 0x2e7f}, {0xa4d0, 0xabff}, {0xfe00, 0xfe0f},
	{0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xff9e, 0xff9f}, {0x10000, 0x10ffff}
};

static bool
ignorable(uint32_t cp)
{
	size_t		i;

	for (i = 0; i < sizeof(weightless) / sizeof(weightless[0]); i++)
	{
		if (cp <= weightless[i].last)
			return cp >= weightless[i].first;
	}
	return false;
}

static void
put_utf8(struct sim_buf *out, uint32_t cp)
{
	char		bytes[4];
	int			n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	int			i;

	for (i = n - 1; i > 0; i--)
	{
		bytes[i] = (char) (0x80 | (cp & 0x3f));
		cp >>= 6;
	}
	bytes[0] = (char) ((0xf00 >> n & 0xff) | cp);
	sim_put(out, bytes, (size_t) n);
}

/*
 * Ranges that are compared as another range: digits of other scripts, in circles,
 * in parentheses, or Roman, differ from ASCII's as accents do; signs that are
 * letters; hiragana.
 */
static const struct
{
	struct range from;
	uint32_t	to;
}			ranges[] =

{
	{{0x660, 0x669}, '0'}, {{0x6f0, 0x6f9}, '0'}, {{0x966, 0x96f}, '0'}, {{0x9e6, 0x9ef}, '0'},
	{{0xa66, 0xa6f}, '0'}, {{0xae6, 0xaef}, '0'}, {{0xb66, 0xb6f}, '0'}, {{0xbe7, 0xbef}, '1'},
	{{0xc66, 0xc6f}, '0'}, {{0xce6, 0xcef}, '0'}, {{0xd66, 0xd6f}, '0'}, {{0xe50, 0xe59}, '0'},
	{{0xed0, 0xed9}, '0'}, {{0x2070, 0x2070}, '0'}, {{0x2074, 0x2079}, '4'},
	{{0x2080, 0x2089}, '0'}, {{0x2126, 0x2126}, 0x3c9}, {{0x212a, 0x212a}, 'k'},
	{{0x212b, 0x212b}, 'a'}, {{0x2160, 0x2168}, '1'}, {{0x2170, 0x2178}, '1'},
	{{0x2460, 0x2468}, '1'}, {{0x2474, 0x247c}, '1'}, {{0x2488, 0x2490}, '1'},
	{{0x249c, 0x24b5}, 'a'}, {{0x24b6, 0x24cf}, 'a'}, {{0x24d0, 0x24e9}, 'a'},
	{{0x24ea, 0x24ea}, '0'}, {{0x2776, 0x277e}, '1'}, {{0x2780, 0x2788}, '1'},
	{{0x278a, 0x2792}, '1'}, {{0x3021, 0x3029}, '1'}, {{0x3041, 0x3096}, 0x30a1}
};

static uint32_t
fold_range(uint32_t cp)
{
	size_t		i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
	{
		if (cp <= ranges[i].from.last)
			return cp < ranges[i].from.first ? cp : ranges[i].to + (cp - ranges[i].from.first);
	}
	return cp;
}

/* Half-width katakana, from U+FF66. */
static const uint16_t half_width[56] = {
	0x30f2, 0x30a1, 0x30a3, 0x30a5, 0x30a7, 0x30a9, 0x30e3, 0x30e5, 0x30e7, 0x30c3, 0x30fc, 0x30a2,
	0x30a4, 0x30a6, 0x30a8, 0x30aa, 0x30ab, 0x30ad, 0x30af, 0x30b1, 0x30b3, 0x30b5, 0x30b7, 0x30b9,
	0x30bb, 0x30bd, 0x30bf, 0x30c1, 0x30c4, 0x30c6, 0x30c8, 0x30ca, 0x30cb, 0x30cc, 0x30cd, 0x30ce,
	0x30cf, 0x30d2, 0x30d5, 0x30d8, 0x30db, 0x30de, 0x30df, 0x30e0, 0x30e1, 0x30e2, 0x30e4, 0x30e6,
	0x30e8, 0x30e9, 0x30ea, 0x30eb, 0x30ec, 0x30ed, 0x30ef, 0x30f3
};

/* Ligatures of two ASCII letters, from U+FB00; those of three are taken as they are. */
static const char ligatures[7][3] = {"ff", "fi", "fl", "", "", "", "st"};

/*
 * Returns the replacement of a character beyond ASCII in comparisons
 * (text_fold.h): one character, or PAIR with two ASCII letters.
 */
static uint32_t
fold(uint32_t cp)
{
	uint32_t	folded = 0;

	if (cp >= 0xa0 && cp <= 0x24f)
		folded = fold_00a0[cp - 0xa0];
	else if (cp >= 0x370 && cp <= 0x52f)
		folded = fold_0370[cp - 0x370];
	else if (cp >= 0x1e00 && cp <= 0x1fff)
		folded = fold_1e00[cp - 0x1e00];
	else if (cp >= 0xfb00 && cp <= 0xfb06 && ligatures[cp - 0xfb00][0] != '\0')
		folded = 0x8000 | (uint32_t) ligatures[cp - 0xfb00][0] << 7 |
			(uint32_t) ligatures[cp - 0xfb00][1];
	else if (cp >= 0xff66 && cp <= 0xff9d)
		folded = half_width[cp - 0xff66];
	else if (cp >= 0xff01 && cp <= 0xff5e)
	{
		/* full-width forms of ASCII, in lower case */
		folded = cp - 0xff01 + '!';
		if (folded >= 'A' && folded <= 'Z')
			folded += 'a' - 'A';
		return folded;
	}
	if (folded & 0x8000)
		return PAIR | (folded & 0x3fff);
	return folded != 0 ? folded : fold_range(cp);
}

static uint32_t
wide_weight(uint32_t cp)
{
	if (cp <= 0xa0 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x3000)
		return CLASS_SPACE | cp;
	if (cp < 0xc0 || cp == 0xd7 || cp == 0xf7 ||
		(cp >= 0x2010 && cp <= 0x2bff) || (cp >= 0x3001 && cp <= 0x303f))
		return CLASS_SYMBOL | cp;
	return CLASS_LETTER | (cp + 0x100);
}

/* Returns the next weight of text that does not begin with ASCII; 0 at the end. */
static uint32_t
next_wide(struct cursor *cur)
{
	uint32_t	cp;
	int			n;

	if (cur->pending != 0)
	{
		cp = cur->pending;
		cur->pending = 0;
		return cp;
	}
	while (cur->p < cur->end)
	{
		n = decode(cur->p, cur->end, &cp);
		if (n == 0)
			return CLASS_BROKEN | *cur->p++;
		cur->p += n;
		if (ignorable(cp))
			continue;
		if (cp >= 0x80)
			cp = fold(cp);
		if (cp & PAIR)
		{
			cur->pending = ascii_weight(cp & 0x7f);
			return ascii_weight(cp >> 7 & 0x7f);
		}
		return cp < 0x80 ? ascii_weight(cp) : wide_weight(cp);
	}
	return 0;
}

/* Returns the next weight that counts, or 0 at the end. */
static inline uint32_t
next_weight(struct cursor *cur)
{
	if (cur->pending == 0 && cur->p < cur->end && *cur->p < 0x80)
		return ascii_weight(*cur->p++);
	return next_wide(cur);
}

static inline struct cursor
cursor_of(const char *s, size_t len)
{
	struct cursor cur = {(const unsigned char *) s, (const unsigned char *) s + len, 0};

	return cur;
}

static inline size_t
trim(const char *s, size_t len)
{
	while (len > 0 && s[len - 1] == ' ')
		len--;
	return len;
}

int
sim_text_compare(const char *a, size_t alen, const char *b, size_t blen)
{
	const unsigned char *ua = (const unsigned char *) a;
	const unsigned char *ub = (const unsigned char *) b;
	struct cursor ca;
	struct cursor cb;
	size_t		n;
	size_t		i;

	alen = trim(a, alen);
	blen = trim(b, blen);
	n = alen < blen ? alen : blen;
	for (i = 0; i < n && (ua[i] | ub[i]) < 0x80; i++)
	{
		if (ascii_rank[ua[i]] != ascii_rank[ub[i]])
			return ascii_rank[ua[i]] < ascii_rank[ub[i]] ? -1 : 1;
	}
	ca = cursor_of(a + i, alen - i);
	cb = cursor_of(b + i, blen - i);
	for (;;)
	{
		uint32_t	wa = next_weight(&ca);
		uint32_t	wb = next_weight(&cb);

		if (wa != wb)
			return wa < wb ? -1 : 1;
		if (wa == 0)
			return 0;
	}
}

void
sim_text_fold(const char *s, size_t len, struct sim_buf *out)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + trim(s, len);

	sim_buf_reserve(out, len);
	while (p < end)
	{
		uint32_t	cp;
		int			n = decode(p, end, &cp);

		if (n == 0)
		{
			sim_putc(out, (char) *p++);
			continue;
		}
		if (cp >= 0x80)
			cp = fold(cp);
		if (cp < 0x80)
			sim_putc(out, cp >= 'A' && cp <= 'Z' ? letters[cp - 'A'] : (char) cp);
		else if (cp & PAIR)
		{
			sim_putc(out, (char) (cp >> 7 & 0x7f));
			sim_putc(out, (char) (cp & 0x7f));
		}
		else if (!ignorable(cp))
			put_utf8(out, cp);
		p += n;
	}
}

/* Moves a pattern past ignored characters, so that a wildcard is seen. */
static void
skip_weightless(struct cursor *cur)
{
	uint32_t	cp;
	int			n;

	while (cur->pending == 0 && cur->p < cur->end && *cur->p >= 0x80)
	{
		n = decode(cur->p, cur->end, &cp);
		if (n == 0 || !ignorable(cp))
			return;
		cur->p += n;
	}
}

/*
 * Returns true if a [set] contains this weight.  "pattern" is after the
 * opening bracket and is moved past the closing one; false and the end of the
 * pattern if there is none, so that nothing matches.
 */
static bool
set_matches(struct cursor *pattern, uint32_t weight)
{
	bool		negated = false;
	bool		found = false;

	if (pattern->p < pattern->end && *pattern->p == '^')
	{
		negated = true;
		pattern->p++;
	}
	for (;;)
	{
		uint32_t	from;
		uint32_t	to;

		skip_weightless(pattern);
		if (pattern->pending == 0 && pattern->p < pattern->end && *pattern->p == ']')
		{
			pattern->p++;
			return weight != 0 && found != negated;
		}
		from = to = next_weight(pattern);
		if (from == 0)
			return false;
		if (pattern->end - pattern->p > 1 && pattern->p[0] == '-' && pattern->p[1] != ']')
		{
			pattern->p++;
			to = next_weight(pattern);
		}
		if (weight >= from && weight <= to)
			found = true;
	}
}

/* One step of a pattern that is not '%'; moves both on. */
static bool
step_matches(struct cursor *pattern, struct cursor *text)
{
	uint32_t	weight = next_weight(text);

	if (weight == 0)
		return false;
	if (pattern->pending == 0)
	{
		if (*pattern->p == '_')
		{
			pattern->p++;
			return true;
		}
		if (*pattern->p == '[')
		{
			pattern->p++;
			return set_matches(pattern, weight);
		}
	}
	return next_weight(pattern) == weight;
}

static inline bool
at_end(const struct cursor *cur)
{
	return cur->pending == 0 && cur->p == cur->end;
}

/* Returns true if the text has nothing more that counts. */
static bool
exhausted(const struct cursor *cur)
{
	struct cursor copy = *cur;

	return next_weight(&copy) == 0;
}

bool
sim_text_like(const char *s, size_t len, const char *pattern, size_t plen)
{
	struct cursor text = cursor_of(s, len);
	struct cursor pat = cursor_of(pattern, plen);
	struct cursor retry_text = text;	/* where the last '%' began to match */
	struct cursor retry_pat = pat;	/* behind that '%' */
	bool		starred = false;

	for (;;)
	{
		skip_weightless(&pat);
		if (pat.pending == 0 && pat.p < pat.end && *pat.p == '%')
		{
			pat.p++;
			retry_pat = pat;
			retry_text = text;

			starred = true;
			if (at_end(&pat))
				return true;
			continue;
		}
		if (at_end(&pat) ? exhausted(&text) : step_matches(&pat, &text))
		{
			if (at_end(&pat) && exhausted(&text))
				return true;
			continue;
		}
		if (!starred || next_weight(&retry_text) == 0)
			return false;
		pat = retry_pat;
		text = retry_text;
	}
}

size_t
sim_text_units(const char *s, size_t len)
{
	size_t		units = 0;
	size_t		i;

	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];

		units += (c & 0xc0) != 0x80;	/* first bytes */
		units += c >= 0xf0;		/* surrogate pair */
	}
	return units;
}

bool
sim_text_valid(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *) s;
	const unsigned char *end = p + len;
	uint32_t	cp;

	while (p < end)
	{
		int			n;

		if (*p >= 0x20 && *p < 0x80)
		{
			p++;
			continue;
		}
		n = decode(p, end, &cp);
		if (n == 0 || (cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\r') ||
			cp == 0xfffe || cp == 0xffff)
			return false;
		p += n;
	}
	return true;
}
