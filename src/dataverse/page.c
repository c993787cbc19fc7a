/*
 * page.c
 *		Reads the service's pages row by row.
 *
 * This is a strict JSON reader that makes a single pass over the body.  It
 * supports only one grammar, {..., "value": [{...}, ...], ...}, and builds
 * nothing: the wanted members of a row are recorded as slices, the others are
 * checked and skipped.
 *
 * The rows of a page have the same members in the same order, except for nulls
 * that may be left out, so names.c foresees most names: they are compared, not
 * parsed.
 *
 * Invariants:
 * - The functions that read take the position to start from and return the
 *	 position where they stopped, or NULL after fail().  Once page->json has an
 *	 error, the page is broken.
 * - DV_PAGE_AT_END is set in one place, after the last byte of the body.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/header.h"
#include "dataverse/page.h"

/* Maximum length of a name with escapes.  Other names can have any length. */
#define LONGEST_ESCAPED_NAME 512

/* Types that a member of the envelope may have. */
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
	{"@odata.nextLink", offsetof(dv_page, next_link), STRINGS, true},
	{"@odata.deltaLink", offsetof(dv_page, delta_link), STRINGS, true},

	/* the names in OData 4.01: overlooking a link would look like the end */
	{"@nextLink", offsetof(dv_page, next_link), STRINGS, true},
	{"@deltaLink", offsetof(dv_page, delta_link), STRINGS, true},
	{"@" DV_ANNOTATION_COOKIE, offsetof(dv_page, paging_cookie), STRINGS, true},
	/* some answers contain it as a string */
	{"@" DV_ANNOTATION_MORE, offsetof(dv_page, more_records), BOOLEANS | STRINGS, false},
	{"@" DV_ANNOTATION_METADATA, offsetof(dv_page, metadata_version), NUMBERS | STRINGS, false},
};

#define N_ENVELOPE (sizeof(envelope) / sizeof(envelope[0]))

/* Records where and why the page is broken. */
static const char *
fail(dv_page *page, const char *p, const char *reason)
{
	return dv_cursor_fail(&page->json, p, reason);
}

/* ----------
 * Rows
 * ----------
 */

static bool
check_name(dv_page *page, const char *at, const char *name, size_t len)
{
	page->misnamed = dv_names_is_of_link(name, len);
	if (page->misnamed)
		fail(page, at, "a column of a joined table does not have the name that was requested");
	return !page->misnamed;
}

/*
 * Reads a name that was not foreseen, for example because it is the first of its kind on the
 * page.
 */
static const char *
look_up_name(dv_page *page, const char *p, dv_name **entry)
{
	char		meaning[LONGEST_ESCAPED_NAME];
	const char *start = p;
	dv_value	name;
	size_t		len;

	p = dv_cursor_read_name(&page->json, p, &name);
	if (p == NULL)
		return NULL;
	if (!name.escaped)
	{
		/* a name can be foreseen if no blanks precede the colon */
		*entry = dv_names_find(page->names, *entry, name.text, name.len, start[name.len + 2] == ':');
		return check_name(page, start, name.text, name.len) ? p : NULL;
	}
	if (name.len > sizeof(meaning))
		return fail(page, start, "member name is too long");
	/* no wanted name contains half a surrogate pair */
	if (dv_value_string(&name, meaning, &len) != DV_VALUE_OK)
		len = 0;
	*entry = dv_names_find(page->names, *entry, meaning, len, false);
	return check_name(page, start, meaning, len) ? p : NULL;
}

/* Reads the name of a member, which follows *entry; returns the position after the colon. */
static inline const char *
read_name(dv_page *page, const char *p, dv_name **entry)
{
	dv_name    *found = dv_names_foresee(page->names, *entry, p, (size_t) (page->json.end - p));

	if (found == NULL)
		return look_up_name(page, p, entry);
	*entry = found;
	return p + found->len;
}

/* The members of a row that determine its kind. */
typedef struct row_nature
{
	dv_value	context;
	dv_value	id;
	dv_value	reason;
	bool		removed;
} row_nature;

/* Returns the error in the member, or NULL. */
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
 * Determines whether this is a row, or one of the other things that a delta
 * can contain.  Nothing else must be mistaken for a row: all its members would
 * seem to be null.
 */
static dv_page_step
judge_row(dv_page *page, const char *start, const row_nature *nature)
{
	if (nature->context.kind == DV_VALUE_ABSENT && !nature->removed)
		return DV_PAGE_ROW;
	if (nature->context.kind == DV_VALUE_STRING &&
		dv_value_ends_with(&nature->context, "/$deletedEntity"))
	{
		if (nature->id.kind != DV_VALUE_STRING)
			fail(page, start, "deleted row without an id");
		else if (!dv_value_is_null(&nature->reason) && nature->reason.kind != DV_VALUE_STRING)
			fail(page, start, "deleted row with an invalid reason");
		page->deleted_id = nature->id;
		page->deleted_reason = nature->reason;
		return page->json.error != NULL ? DV_PAGE_BROKEN : DV_PAGE_TOMBSTONE;
	}
	if (nature->removed || dv_value_ends_with(&nature->context, "/$link") ||
		dv_value_ends_with(&nature->context, "/$deletedLink"))
	{
		fail(page, start, "neither a row nor a deleted row");
		return DV_PAGE_BROKEN;
	}
	return DV_PAGE_ROW;
}

/* Reads the members of a row; "p" is after its brace. */
static const char *
read_members(dv_page *page, const char *p, dv_value *values, row_nature *nature)
{
	dv_name    *entry = dv_names_row_start(page->names);
	dv_value	unwanted;

	p = dv_cursor_skip_blanks(p);
	if (*p == '}')
		return p + 1;
	for (;;)
	{
		const char *start = p;
		dv_value   *value = &unwanted;

		p = read_name(page, p, &entry);
		if (p == NULL)
			return NULL;
		if (entry->wanted >= 0 && values != NULL)
		{
			/* read it where it belongs: a copy would wait for its parts to be stored */
			value = &values[entry->wanted];
			if (value->kind != DV_VALUE_ABSENT)
				return fail(page, start, "member given twice");
		}
		p = dv_cursor_read_part(&page->json, dv_cursor_skip_blanks(p), 0, value);
		if (p == NULL)
			return NULL;
		if (entry->mark != DV_MARK_NONE)
		{
			const char *wrong = note_mark((dv_mark) entry->mark, value, nature);

			if (wrong != NULL)
				return fail(page, start, wrong);
		}
		p = dv_cursor_skip_blanks(p);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return fail(page, p, "\",\" or \"}\" expected");
		p = dv_cursor_skip_blanks(p + 1);
	}
}

/* ----------
 * The envelope
 * ----------
 */

/* Ends the page after its last brace, the only place where it is complete. */
static void
finish(dv_page *page, const char *p)
{
	const char *rest = dv_cursor_skip_blanks(p);

	if (!page->value_seen)
		fail(page, p - 1, "\"value\" is missing");
	else if (rest != page->json.end)
		fail(page, rest, "text after the end");
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

/* Records a member of the page; returns the error in it, or NULL. */
static const char *
note_member(dv_page *page, const dv_value *name, const dv_value *value)
{
	const struct envelope_member *member = find_member(name);
	dv_value   *to;

	/* the service may notice late that it cannot continue */
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
 * Reads the members of the page itself, up to the first row or the end.  "p"
 * is after the opening brace or after a member's value.
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

		p = dv_cursor_skip_blanks(p);
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
		start = is_first ? p : dv_cursor_skip_blanks(p + 1);
		is_first = false;
		p = dv_cursor_read_name(&page->json, start, &name);
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
				page->json.at = p + 1;
			}
			return;
		}
		p = dv_cursor_read_value(&page->json, p, &value);
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
	dv_cursor_open(&page->json, body, len);
	page->names = names;
	page->state = DV_PAGE_IN_FRONT;
	dv_names_new_page(names);
	if (page->json.error != NULL)
		return;
	if (len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	p = dv_cursor_skip_blanks(p);
	if (*p == '{')
		read_envelope(page, p + 1, true);
	else
		fail(page, p, "\"{\" expected");
}

/* Reads the text at p among the rows, which is not their end. */
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
		p = dv_cursor_skip_blanks(p + 1);
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
	page->json.at = p;
	page->rows++;
	return step;
}

dv_page_step
dv_page_next(dv_page *page, dv_value *values)
{
	if (page->state == DV_PAGE_IN_ROWS && page->json.error == NULL)
	{
		const char *p = dv_cursor_skip_blanks(page->json.at);

		if (*p != ']')
			return read_row(page, p, values);
		read_envelope(page, p + 1, false);
	}
	return page->state == DV_PAGE_AT_END && page->json.error == NULL ? DV_PAGE_END : DV_PAGE_BROKEN;
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

/* Moves backwards over blanks; "p" is after the byte of interest. */
static const char *
blanks_back(const char *body, const char *p)
{
	while (p > body && dv_cursor_is_blank(p[-1]))
		p--;
	return p;
}

bool
dv_page_peek_link(const char *body, size_t len, dv_value *link)
{
	static const char name[] = "\"@odata.nextLink\":";
#define NAME_LEN (sizeof(name) - 1)
	dv_cursor	cursor;
	const char *p = blanks_back(body, body + len);
	const char *close;
	const char *before;

	dv_cursor_open(&cursor, body, len);
	if (cursor.error != NULL || p == body || *--p != '}')
		return false;
	p = blanks_back(body, p);
	if (p == body || *--p != '"')
		return false;
	close = p;
	/* the opening quote is the nearest one before it that is not escaped */
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
	return dv_cursor_read_string(&cursor, p + 1, link) == close + 1 && link->len > 0;
#undef NAME_LEN
}

bool
dv_page_peek_last(const char *body, size_t len, const char *name, dv_value *value)
{
	size_t		name_len = strlen(name);
	dv_cursor	cursor;
	const char *p;

	dv_cursor_open(&cursor, body, len);
	if (cursor.error != NULL || len < name_len + 4)
		return false;
	/* "name":"…": inside of a text its quotes would be escaped */
	for (p = body + len - name_len - 4; p >= body; p--)
	{
		const char *after = p + 1 + name_len;

		if (*p != '"' || *after != '"' || after[1] != ':' || after[2] != '"' ||
			memcmp(p + 1, name, name_len) != 0)
			continue;
		return dv_cursor_read_string(&cursor, after + 3, value) != NULL;
	}
	return false;
}

void
dv_page_metadata(const dv_page *page, char *out)
{
	const dv_value *version = &page->metadata_version;
	size_t		len = dv_value_is_null(version) ? 0 : version->len;

	if (len >= DV_METADATA_VERSION)
		len = DV_METADATA_VERSION - 1;
	if (len > 0)
		memcpy(out, version->text, len);
	out[len] = '\0';
}
