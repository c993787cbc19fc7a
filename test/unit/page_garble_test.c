/*
 * page_garble_test.c
 *		Pages that were truncated or garbled in transit: every accepted page is
 *		JSON to the last byte, and the reader returns all of its rows.
 *
 * A simple reader of JSON, written for this test, decides what is JSON.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "page_sample.h"

/* ----------
 * A simple reader of JSON, which finds out whether a text is JSON, and how many
 * objects the first "value" at the top level has.
 * ----------
 */

static const char *json;
static const char *json_end;
static int	json_rows;

static bool plain_value(int depth, bool is_value);

static void
plain_blanks(void)
{
	while (json < json_end && strchr(" \t\r\n", *json) != NULL && *json != '\0')
		json++;
}

static bool
plain_char(char c)
{
	plain_blanks();
	if (json == json_end || *json != c)
		return false;
	json++;
	return true;
}

/* returns how many bytes this UTF-8 character has, or 0 if it is not valid */
static int
plain_utf8(void)
{
	const unsigned char *s = (const unsigned char *) json;
	long		left = json_end - json;
	int			n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf8 ? 4 : 0;
	uint32_t	c = s[0] & (n == 1 ? 0x7f : n == 2 ? 0x1f : n == 3 ? 0x0f : 0x07);
	int			i;

	if (n > left)
		return 0;
	for (i = 1; i < n; i++)
	{
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if ((n == 2 && c < 0x80) || (n == 3 && c < 0x800) || (n == 4 && c < 0x10000) ||
		c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return n;
}

static bool
plain_string(void)
{
	int			i;

	if (!plain_char('"'))
		return false;
	while (json < json_end && *json != '"')
	{
		int			n = plain_utf8();

		if (n == 0 || (unsigned char) *json < 0x20)
			return false;
		if (*json != '\\')
		{
			json += n;
			continue;
		}
		if (++json == json_end || *json == '\0' || strchr("\"\\/bfnrtu", *json) == NULL)
			return false;
		if (*json++ != 'u')
			continue;
		for (i = 0; i < 4; i++, json++)
			if (json == json_end || *json == '\0' || strchr("0123456789abcdefABCDEF", *json) == NULL)
				return false;
	}
	return json++ < json_end;
}

static bool
plain_number(void)
{
	char		copy[64];
	size_t		n = 0;
	const char *p = copy;

	while (json < json_end && n < sizeof(copy) - 1 && *json != '\0' &&
		   strchr("0123456789+-.eE", *json) != NULL)
		copy[n++] = *json++;
	copy[n] = '\0';
	p += *p == '-';
	if (*p == '0')
		p++;
	else if ((n = strspn(p, "0123456789")) > 0)
		p += n;
	else
		return false;
	if (*p == '.')
	{
		n = strspn(++p, "0123456789");
		if (n == 0)
			return false;
		p += n;
	}
	if (*p == 'e' || *p == 'E')
	{
		p++;
		p += *p == '+' || *p == '-';
		n = strspn(p, "0123456789");
		if (n == 0)
			return false;
		p += n;
	}
	return *p == '\0';
}

static bool
plain_members(int depth, char close, bool is_value)
{
	bool		is_object = close == '}';

	json++;
	if (plain_char(close))
		return true;
	do
	{
		bool		is_named_value = false;

		plain_blanks();
		if (is_object)
		{
			const char *name = json;

			if (!plain_string())
				return false;
			is_named_value = depth == 0 && json - name == 7 && memcmp(name, "\"value\"", 7) == 0;
			if (!plain_char(':'))
				return false;
		}
		if (is_value)
			json_rows++;
		if (!plain_value(depth + 1, is_named_value))
			return false;
	} while (plain_char(','));
	return plain_char(close);
}

static bool
plain_value(int depth, bool is_value)
{
	plain_blanks();
	if (json == json_end)
		return false;
	if (*json == '{' || *json == '[')
		return plain_members(depth, *json == '{' ? '}' : ']', is_value);
	if (*json == '"')
		return plain_string();
	if (json_end - json >= 4 && (memcmp(json, "true", 4) == 0 || memcmp(json, "null", 4) == 0))
		return json += 4, true;
	if (json_end - json >= 5 && memcmp(json, "false", 5) == 0)
		return json += 5, true;
	return plain_number();
}

static bool
is_json(const char *text, size_t len)
{
	json = text;
	json_end = text + len;
	json_rows = 0;
	if (!plain_value(0, false))
		return false;
	plain_blanks();
	return json == json_end;
}

/* ----------
 * Truncated and garbled bodies
 * ----------
 */

static void
cut_at_every_byte(void **state)
{
	size_t		len = strlen(SAMPLE);
	size_t		cut;

	(void) state;
	for (cut = 0; cut < len; cut++)
	{
		dv_value	link;

		open_bytes(SAMPLE, cut);
		if (read_all() != DV_PAGE_BROKEN)
			fail_msg("taken as a page when cut at %zu", cut);
		assert_int_equal(page.next_link.kind == DV_VALUE_STRING, cut == len - 1);
		assert_false(dv_page_peek_link(body, cut, &link));
	}
	open_page(SAMPLE);
	expect_end(2);
}

/* returns true if this may be refused although it is JSON */
static bool
means_something_else(const char *reason)
{
	static const char *const reasons[] = {
		"\"value\" is missing", "\"value\" is not an array", "member given twice",
		"member of the wrong type", "link is empty", "row expected", "\"{\" expected"
	};
	int			i;

	for (i = 0; i < LENGTH(reasons); i++)
		if (strcmp(reason, reasons[i]) == 0)
			return true;
	return false;
}

static void
check_garbled(const char *text, size_t len, const char *what, size_t at)
{
	bool		valid;

	open_bytes(text, len);
	valid = is_json(body, len);
	if (read_all() == DV_PAGE_END)
	{
		if (!valid)
			fail_msg("%s at %zu: taken as a page", what, at);
		if (page.rows != (uint64_t) json_rows)
			fail_msg("%s at %zu: %llu rows instead of %d", what, at, (unsigned long long) page.rows,
					 json_rows);
	}
	else if (valid && !means_something_else(page.json.error))
		fail_msg("%s at %zu: refused (%s), but it is JSON", what, at, page.json.error);
}

static void
garbled_at_every_byte(void **state)
{
	static const char sample[] = SAMPLE;
	size_t		len = sizeof(sample) - 1;
	char		text[sizeof(sample) + 1];
	size_t		at;
	int			c;

	(void) state;
	for (at = 0; at < len; at++)
	{
		memcpy(text, sample, sizeof(sample));
		for (c = 0; c < 256; c++)
		{
			text[at] = (char) c;
			check_garbled(text, len, "byte changed", at);
		}
		memmove(text + at, sample + at + 1, len - at);
		check_garbled(text, len - 1, "byte left out", at);
		memcpy(text, sample, at + 1);
		memcpy(text + at + 1, sample + at, len - at);
		check_garbled(text, len + 1, "byte doubled", at);
	}
}

/* removes a piece from the middle, as if a buffer had been lost */
static void
pieces_missing(void **state)
{
	static const char sample[] = SAMPLE;
	size_t		len = sizeof(sample) - 1;
	char		text[sizeof(sample)];
	size_t		from;
	size_t		n;

	(void) state;
	for (from = 0; from < len; from += 3)
	{
		for (n = 1; from + n <= len; n += 7)
		{
			memcpy(text, sample, from);
			memcpy(text + from, sample + from + n, len - from - n);
			check_garbled(text, len - n, "piece missing", from);
		}
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(garbled_at_every_byte),
		cmocka_unit_test(pieces_missing),
	};

	return cmocka_run_group_tests(tests, make_names, free_all);
}
