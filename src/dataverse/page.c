/*
 * page.c
 *		Pages of rows as the service answers them, read row by row.
 *
 * A strict JSON reader that goes over the body once, front to back.  It knows
 * one grammar only, {..., "value": [{...}, ...], ...}, and builds nothing: a
 * row's wanted members are noted as slices, the others are checked and
 * skipped.
 *
 * Rows of a page have the same members in the same order, but for nulls that
 * may be left out, so names.c foresees most names: they are compared, not
 * parsed.
 *
 * Invariants:
 * - A NUL stands behind the body and is no character of JSON, so whoever looks
 *	 at one more byte needs no check of bounds.  Words of eight bytes are read
 *	 only where there are as many left.
 * - Functions that read take where to start and return where they stopped, or
 *	 NULL after fail(), which is the only way to DV_PAGE_FAILED.
 * - DV_PAGE_AT_END is set in one place, behind the last byte of the body.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/page.h"

/* Slices have 32 bits for their length, and no answer comes near that. */
#define LONGEST_BODY ((size_t) INT32_MAX)

/* Longest name that has escapes.  A name without them may have any length. */
#define LONGEST_ESCAPED_NAME 512

/* Kinds that a member of the envelope may have. */
#define STRINGS  (1 << DV_VALUE_STRING)
#define NUMBERS  (1 << DV_VALUE_NUMBER)
#define BOOLEANS (1 << DV_VALUE_TRUE | 1 << DV_VALUE_FALSE)

static const struct envelope_member
{
	const char *name;
	size_t		offset;			/* in dv_page */
	unsigned int kinds;
	bool		is_link;
}			envelope[] = {
	{"@odata.context", offsetof(dv_page, context), STRINGS, false},
	{"@odata.count", offsetof(dv_page, count), NUMBERS, false},
	{"@odata.nextLink", offsetof(dv_page, next_link), STRINGS, true},
	{"@odata.deltaLink", offsetof(dv_page, delta_link), STRINGS, true},

	/* as OData 4.01 has them: a link that goes unseen looks like the end */
	{"@context", offsetof(dv_page, context), STRINGS, false},
	{"@count", offsetof(dv_page, count), NUMBERS, false},
	{"@nextLink", offsetof(dv_page, next_link), STRINGS, true},
	{"@deltaLink", offsetof(dv_page, delta_link), STRINGS, true},
	{"@Microsoft.Dynamics.CRM.fetchxmlpagingcookie", offsetof(dv_page, paging_cookie), STRINGS,
	true},
	/* some answers have it as a string */
	{"@Microsoft.Dynamics.CRM.morerecords", offsetof(dv_page, more_records), BOOLEANS | STRINGS,
	false},
	{"@Microsoft.Dynamics.CRM.totalrecordcount", offsetof(dv_page, total_count), NUMBERS, false},
	{"@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded",
	offsetof(dv_page, total_count_exceeded), BOOLEANS, false},
	{"@Microsoft.Dynamics.CRM.globalmetadataversion", offsetof(dv_page, metadata_version), STRINGS,
	false},
};

#define N_ENVELOPE (sizeof(envelope) / sizeof(envelope[0]))

static const char *read_value(dv_page *page, const char *p, int depth, dv_value *value);

/* ----------
 * JSON
 * ----------
 */

/* Where the text is wrong, and why.  What is missing at its very end was cut off. */
static const char *
fail(dv_page *page, const char *p, const char *reason)
{
	page->state = DV_PAGE_FAILED;
	page->error = p < page->end ? reason : "it ends too early";
	page->error_at = (size_t) (p - page->body);
	return NULL;
}

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/*
 * Marks the first byte of a word that is a quote, a backslash, a control
 * character or not ASCII (whose high bit survives at least one of the first
 * two subtractions).  Bytes above the first one may be marked wrongly.
 */
static inline uint64_t
special_bytes(const char *p)
{
	uint64_t	w = dv_load8(p);
	uint64_t	quotes;
	uint64_t	backslashes;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	quotes = (w ^ EACH_BYTE('"')) - EACH_BYTE(1);
	backslashes = (w ^ EACH_BYTE('\\')) - EACH_BYTE(1);
	return (quotes | backslashes | (w - EACH_BYTE(0x20))) & EACH_BYTE(0x80);
}

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *
skip_blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_hex(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static const char *
skip_escape(dv_page *page, const char *p)
{
	int			i;

	p++;
	if (*p != 'u')
		return *p != '\0' && strchr("\"\\/bfnrt", *p) != NULL ? p + 1
			: fail(page, p, "no such escape");
	for (i = 1; i <= 4; i++)
		if (!is_hex(p[i]))
			return fail(page, p + i, "hexadecimal digit expected");
	return p + 5;
}

/* Behind a character that is not ASCII. */
static const char *
skip_character(dv_page *page, const char *p)
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
		return fail(page, p, "invalid UTF-8");
	/* not what fits fewer bytes, no surrogates, nothing above U+10FFFF */
	if (s[0] == 0xe0)
		least = 0xa0;
	else if (s[0] == 0xed)
		most = 0x9f;
	else if (s[0] == 0xf0)
		least = 0x90;
	else if (s[0] == 0xf4)
		most = 0x8f;
	if (s[1] < least || s[1] > most)
		return fail(page, p + 1, "invalid UTF-8");
	for (i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return fail(page, p + i, "invalid UTF-8");
	return p + n;
}

/* "p" is behind the opening quote; returns behind the closing one. */
static inline const char *
read_string(dv_page *page, const char *p, dv_value *value)
{
	const char *start = p;
	bool		escaped = false;

	for (;;)
	{
		while (page->end - p >= 8)
		{
			uint64_t	special = special_bytes(p);

			if (special != 0)
			{
				p += __builtin_ctzll(special) / 8;
				break;
			}
			p += 8;
		}
		if (*p == '"')
			break;
		if (*p == '\\')
		{
			escaped = true;
			p = skip_escape(page, p);
		}
		else if ((unsigned char) *p < 0x20)
			return fail(page, p, "control character in a string");
		else if ((unsigned char) *p < 0x80)
			p++;
		else
			do
				p = skip_character(page, p);
			while (p != NULL && (unsigned char) *p >= 0x80);
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
skip_digits(dv_page *page, const char *p)
{
	if (!is_digit(*p))
		return fail(page, p, "digit expected");
	while (is_digit(*p))
		p++;
	return p;
}

static inline const char *
read_number(dv_page *page, const char *p, dv_value *value)
{
	const char *start = p;

	if (*p == '-')
		p++;
	if (*p == '0')
		p++;
	else
		p = skip_digits(page, p);
	if (p != NULL && *p == '.')
		p = skip_digits(page, p + 1);
	if (p != NULL && (*p == 'e' || *p == 'E'))
	{
		p++;
		if (*p == '+' || *p == '-')
			p++;
		p = skip_digits(page, p);
	}
	if (p == NULL)
		return NULL;
	value->text = start;
	value->len = (uint32_t) (p - start);
	value->kind = DV_VALUE_NUMBER;
	value->escaped = false;
	return p;
}

static const char *
read_word(dv_page *page, const char *p, const char *word, dv_value_kind kind, dv_value *value)
{
	size_t		len = strlen(word);

	if (strncmp(p, word, len) != 0)
		return fail(page, p, "value expected");
	value->text = p;
	value->len = (uint32_t) len;
	value->kind = (uint8_t) kind;
	value->escaped = false;
	return p + len;
}

/* A member's name and colon; returns where its value begins. */
static const char *
skip_name(dv_page *page, const char *p, dv_value *name)
{
	if (*p != '"')
		return fail(page, p, "member name expected");
	p = read_string(page, p + 1, name);
	if (p == NULL)
		return NULL;
	p = skip_blanks(p);
	if (*p != ':')
		return fail(page, p, "\":\" expected");
	return skip_blanks(p + 1);
}

/* An object or an array, whatever is in it. */
static const char *
read_nested(dv_page *page, const char *p, int depth, dv_value *value)
{
	const char *start = p;
	bool		is_object = *p == '{';
	char		close = is_object ? '}' : ']';
	dv_value	part;

	if (depth == DV_PAGE_MAX_DEPTH)
		return fail(page, p, "nested too deeply");
	p = skip_blanks(p + 1);
	if (*p != close)
	{
		for (;;)
		{
			if (is_object)
				p = skip_name(page, p, &part);
			if (p != NULL)
				p = read_value(page, p, depth + 1, &part);
			if (p == NULL)
				return NULL;
			p = skip_blanks(p);
			if (*p == close)
				break;
			if (*p != ',')
				return fail(page, p,
							is_object ? "\",\" or \"}\" expected" : "\",\" or \"]\" expected");
			p = skip_blanks(p + 1);
		}
	}
	value->text = start;
	value->len = (uint32_t) (p + 1 - start);
	value->kind = is_object ? DV_VALUE_OBJECT : DV_VALUE_ARRAY;
	value->escaped = false;
	return p + 1;
}

static inline const char *
read_value_inline(dv_page *page, const char *p, int depth, dv_value *value)
{
	switch (*p)
	{
		case '"':
			return read_string(page, p + 1, value);
		case 'n':
			return read_word(page, p, "null", DV_VALUE_NULL, value);
		case 't':
			return read_word(page, p, "true", DV_VALUE_TRUE, value);
		case 'f':
			return read_word(page, p, "false", DV_VALUE_FALSE, value);
		case '{':
		case '[':
			return read_nested(page, p, depth, value);
		default:
			if (is_digit(*p) || *p == '-')
				return read_number(page, p, value);
			return fail(page, p, "value expected");
	}
}

static const char *
read_value(dv_page *page, const char *p, int depth, dv_value *value)
{
	return read_value_inline(page, p, depth, value);
}

/* ----------
 * Rows
 * ----------
 */

/* A name that was not foreseen. */
static const char *
look_up_name(dv_page *page, const char *p, dv_name **entry)
{
	char		meaning[LONGEST_ESCAPED_NAME];
	const char *start = p;
	dv_value	name;
	size_t		len;

	p = skip_name(page, p, &name);
	if (p == NULL)
		return NULL;
	if (!name.escaped)
	{
		/* it can be foreseen if no blanks stand before the colon */
		*entry = dv_names_find(page->names, *entry, name.text, name.len, start[name.len + 2] == ':');
		return p;
	}
	if (name.len > sizeof(meaning))
		return fail(page, start, "member name is too long");
	/* half a surrogate pair is nobody's name */
	if (dv_value_string(&name, meaning, &len) != DV_VALUE_OK)
		len = 0;
	*entry = dv_names_find(page->names, *entry, meaning, len, false);
	return p;
}

/* The member's name at p, after *entry; returns behind the colon. */
static inline const char *
read_name(dv_page *page, const char *p, dv_name **entry)
{
	dv_name    *found = dv_names_foresee(page->names, *entry, p, (size_t) (page->end - p));

	if (found == NULL)
		return look_up_name(page, p, entry);
	*entry = found;
	return p + found->len;
}

/* What a row's members say about the row. */
typedef struct row_nature
{
	dv_value	context;
	dv_value	id;
	dv_value	reason;
	bool		removed;
} row_nature;

/* Returns what is wrong with it, or NULL. */
static const char *
note_mark(dv_mark mark, const dv_value *value, row_nature *nature)
{
	dv_value   *const slots[] = {
		[DV_MARK_CONTEXT] = &nature->context, [DV_MARK_ID] = &nature->id,
		[DV_MARK_REASON] = &nature->reason
	};
	dv_value   *to;

	if (mark == DV_MARK_REMOVED)
	{
		nature->removed = true;
		return NULL;
	}
	to = slots[mark];
	if (to->kind != DV_VALUE_ABSENT)
		return "member given twice";
	if (mark == DV_MARK_CONTEXT && value->kind != DV_VALUE_STRING)
		return "member of the wrong type";
	*to = *value;
	return NULL;
}

/*
 * A row, or something else among the rows of a delta?  What is not known to be
 * a row must not be taken for one: its members would all seem to be null.
 */
static dv_page_step
judge_row(dv_page *page, const char *start, const row_nature *nature)
{
	if (nature->context.kind == DV_VALUE_STRING &&
		dv_value_ends_with(&nature->context, "/$deletedEntity"))
	{
		if (nature->id.kind != DV_VALUE_STRING)
			fail(page, start, "tombstone without an id");
		else if (!dv_value_is_null(&nature->reason) && nature->reason.kind != DV_VALUE_STRING)
			fail(page, start, "tombstone with an odd reason");
		page->deleted_id = nature->id;
		page->deleted_reason = nature->reason;
		return page->state == DV_PAGE_FAILED ? DV_PAGE_BROKEN : DV_PAGE_TOMBSTONE;
	}
	if (nature->removed || dv_value_ends_with(&nature->context, "/$link") ||
		dv_value_ends_with(&nature->context, "/$deletedLink"))
	{
		fail(page, start, "neither a row nor a tombstone");
		return DV_PAGE_BROKEN;
	}
	return DV_PAGE_ROW;
}

/* The members of a row; "p" is behind its brace. */
static const char *
read_members(dv_page *page, const char *p, dv_value *values, row_nature *nature)
{
	dv_name    *entry = dv_names_row_start(page->names);

	p = skip_blanks(p);
	if (*p == '}')
		return p + 1;
	for (;;)
	{
		const char *start = p;
		dv_value	value;

		p = read_name(page, p, &entry);
		if (p == NULL)
			return NULL;
		p = read_value_inline(page, skip_blanks(p), 0, &value);
		if (p == NULL)
			return NULL;
		if (entry->wanted >= 0 && values != NULL)
		{
			if (values[entry->wanted].kind != DV_VALUE_ABSENT)
				return fail(page, start, "member given twice");
			values[entry->wanted] = value;
		}
		if (entry->mark != DV_MARK_NONE)
		{
			const char *wrong = note_mark((dv_mark) entry->mark, &value, nature);

			if (wrong != NULL)
				return fail(page, start, wrong);
		}
		p = skip_blanks(p);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return fail(page, p, "\",\" or \"}\" expected");
		p = skip_blanks(p + 1);
	}
}

/* ----------
 * The envelope
 * ----------
 */

/* Behind the last brace: only here a page is whole. */
static void
finish(dv_page *page, const char *p)
{
	const char *rest = skip_blanks(p);

	if (!page->value_seen)
		fail(page, p - 1, "\"value\" is missing");
	else if (rest != page->end)
		fail(page, rest, "text behind the end");
	else
		page->state = DV_PAGE_AT_END;
}

static const struct envelope_member *
find_member(const dv_value *name)
{
	size_t		i;

	for (i = 0; i < N_ENVELOPE; i++)
		if (dv_value_equals(name, envelope[i].name))
			return &envelope[i];
	return NULL;
}

/* Takes note of a member of the page; returns what is wrong with it, or NULL. */
static const char *
note_member(dv_page *page, const dv_value *name, const dv_value *value)
{
	const struct envelope_member *member = find_member(name);
	dv_value   *to;

	/* the service may find out late that it cannot go on */
	if (dv_value_equals(name, "error") || dv_value_equals(name, "@odata.error") ||
		dv_value_equals(name, "@error"))
		return "the service reports an error inside the page";
	if (member == NULL)
		return NULL;
	to = (dv_value *) ((char *) page + member->offset);
	if (to->kind != DV_VALUE_ABSENT)
		return "member given twice";
	if ((member->kinds & 1u << value->kind) == 0)
		return "member of the wrong type";
	if (member->is_link && value->len == 0)
		return "link is empty";
	*to = *value;
	if (to == &page->more_records && to->kind == DV_VALUE_STRING)
	{
		if (!dv_value_equals(to, "true") && !dv_value_equals(to, "false"))
			return "member of the wrong type";
		to->kind = dv_value_equals(to, "true") ? DV_VALUE_TRUE : DV_VALUE_FALSE;
	}
	return NULL;
}

/*
 * Members of the page itself, up to the first row or to the end.  "p" is
 * behind the opening brace or behind a member's value.
 */
static void
read_envelope(dv_page *page, const char *p, bool is_first)
{
	for (;;)
	{
		const char *start;
		const char *wrong;
		dv_value	name;
		dv_value	value;

		p = skip_blanks(p);
		if (*p == '}')
		{
			finish(page, p + 1);
			return;
		}
		if (!is_first && *p != ',')
		{
			fail(page, p, "\",\" or \"}\" expected");
			return;
		}
		start = is_first ? p : skip_blanks(p + 1);
		is_first = false;
		p = skip_name(page, start, &name);
		if (p == NULL)
			return;
		if (dv_value_equals(&name, "value"))
		{
			if (page->value_seen)
				fail(page, start, "member given twice");
			else if (*p != '[')
				fail(page, p, "\"value\" is not an array");
			else
			{
				page->value_seen = true;
				page->state = DV_PAGE_IN_ROWS;
				page->at = p + 1;
			}
			return;
		}
		p = read_value(page, p, 0, &value);
		if (p == NULL)
			return;
		wrong = note_member(page, &name, &value);
		if (wrong != NULL)
		{
			fail(page, start, wrong);
			return;
		}
	}
}

/* ----------
 * Pages
 * ----------
 */

void
dv_page_open(dv_page *page, dv_names *names, const char *body, size_t len)
{
	const char *p = body;

	memset(page, 0, sizeof(*page));
	page->body = body;
	page->end = body + len;
	page->names = names;
	page->state = DV_PAGE_IN_FRONT;
	dv_names_new_page(names);
	if (len > LONGEST_BODY)
	{
		fail(page, p, "it is too long");
		return;
	}
	if (len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	p = skip_blanks(p);
	if (*p == '{')
		read_envelope(page, p + 1, true);
	else
		fail(page, p, "\"{\" expected");
}

/* What stands at p among the rows, which is not their end. */
static dv_page_step
read_row(dv_page *page, const char *p, dv_value *values)
{
	row_nature	nature;
	dv_page_step step;
	const char *start;

	if (page->rows > 0)
	{
		if (*p != ',')
		{
			fail(page, p, "\",\" or \"]\" expected");
			return DV_PAGE_BROKEN;
		}
		p = skip_blanks(p + 1);
	}
	if (*p != '{')
	{
		fail(page, p, "row expected");
		return DV_PAGE_BROKEN;
	}
	start = p;
	memset(&nature, 0, sizeof(nature));
	if (values != NULL)
		memset(values, 0, sizeof(*values) * (size_t) page->names->n_wanted);
	p = read_members(page, p + 1, values, &nature);
	if (p == NULL)
		return DV_PAGE_BROKEN;
	step = judge_row(page, start, &nature);
	if (step == DV_PAGE_BROKEN)
		return step;
	page->at = p;
	page->rows++;
	return step;
}

dv_page_step
dv_page_next(dv_page *page, dv_value *values)
{
	if (page->state == DV_PAGE_IN_ROWS)
	{
		const char *p = skip_blanks(page->at);

		if (*p != ']')
			return read_row(page, p, values);
		read_envelope(page, p + 1, false);
	}
	return page->state == DV_PAGE_AT_END ? DV_PAGE_END : DV_PAGE_BROKEN;
}

dv_page_step
dv_page_drain(dv_page *page)
{
	dv_page_step step;

	do
		step = dv_page_next(page, NULL);
	while (step == DV_PAGE_ROW || step == DV_PAGE_TOMBSTONE);
	return step;
}

/* Back over blanks; "p" is behind the byte of interest. */
static const char *
blanks_back(const char *body, const char *p)
{
	while (p > body && is_blank(p[-1]))
		p--;
	return p;
}

bool
dv_page_peek_link(const char *body, size_t len, dv_value *link)
{
	static const char name[] = "\"@odata.nextLink\":";
#define NAME_LEN (sizeof(name) - 1)
	dv_page		page = {.body = body, .end = body + len};
	const char *p = blanks_back(body, page.end);
	const char *close;
	const char *before;

	if (len > LONGEST_BODY || p == body || *--p != '}')
		return false;
	p = blanks_back(body, p);
	if (p == body || *--p != '"')
		return false;
	close = p;
	/* the opening quote is the next one back that is not escaped */
	do
	{
		do
			if (p == body)
				return false;
		while (*--p != '"');
		for (before = p; before > body && before[-1] == '\\';)
			before--;
	}
	while ((p - before) % 2 != 0);
	before = blanks_back(body, p);
	if (before - body < (ptrdiff_t) NAME_LEN || memcmp(before - NAME_LEN, name, NAME_LEN) != 0)
		return false;
	before = blanks_back(body, before - NAME_LEN);
	if (before == body || before[-1] != ',')
		return false;
	return read_string(&page, p + 1, link) == close + 1 && link->len > 0;
#undef NAME_LEN
}
