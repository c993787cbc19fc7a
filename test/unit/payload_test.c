/*
 * payload_test.c
 *		Values as the service writes them: expected texts, and whether
 *		dv_value_*() reads back what was written.
 *
 * Each value is written to a block of exactly the size that payload.h requires,
 * so that AddressSanitizer detects if it is too long.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/payload.h"
#include "dataverse/value.h"

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)

static uint64_t
chance(void)
{
	static uint64_t state = 42;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void
expect(const char *start, const char *end, const char *wanted)
{
	if ((size_t) (end - start) != strlen(wanted) || memcmp(start, wanted, strlen(wanted)) != 0)
		fail_msg("\"%.*s\" instead of \"%s\"", (int) (end - start), start, wanted);
}

/* the value of a JSON string with this text */
static dv_value
string_value(const char *text, size_t len)
{
	dv_value	value = {text, (uint32_t) len, DV_VALUE_STRING, false};

	value.escaped = memchr(text, '\\', len) != NULL;
	return value;
}

static void
check_text(const char *text, size_t len, const char *wanted)
{
	/* the text ends where its block ends, too */
	char	   *copy = malloc(len + 1);
	char	   *in = memcpy(copy + 1, text, len);
	size_t		extra = dv_payload_extra(in, len);
	char	   *out = malloc(len + extra + 1);
	char	   *end = dv_payload_text(out, in, len, extra);
	char	   *back = malloc(len + extra + 1);
	dv_value	value;
	size_t		n = 0;

	assert_int_equal(end - out, len + extra);
	if (wanted != NULL)
		expect(out, end, wanted);
	value = string_value(out, len + extra);
	assert_int_equal(dv_value_string(&value, back, &n), DV_VALUE_OK);
	assert_int_equal(n, len);
	assert_memory_equal(back, text, len);
	free(copy);
	free(out);
	free(back);
}

static void
texts(void **state)
{
	static const struct
	{
		const char *text;
		const char *json;
	}			cases[] = {
		{"", ""},
		{"a", "a"},
		{"Contoso Ltd. (Wien)", "Contoso Ltd. (Wien)"},
		{"\"", "\\\""},
		{"say \"hello\" twice", "say \\\"hello\\\" twice"},
		{"C:\\temp\\", "C:\\\\temp\\\\"},
		{"a/b", "a/b"},
		{"one\ntwo\r\n\tthree", "one\\ntwo\\r\\n\\tthree"},
		{"\b\f\x01\x0b\x1f\x7f", "\\b\\f\\u0001\\u000b\\u001f\x7f"},
		{"Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x98\x80", "Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"\xc2\xa2\xc2\x9c\xc2\x85\xc3\xa2 \xe2\x80\xa8", "\xc2\xa2\xc2\x9c\xc2\x85\xc3\xa2 \xe2\x80\xa8"},
		{"!#[] 0123456789", "!#[] 0123456789"},
	};
	int			i;

	(void) state;
	for (i = 0; i < LENGTH(cases); i++)
		check_text(cases[i].text, strlen(cases[i].text), cases[i].json);
}

/* each character that needs an escape, at each position of a word, next to each other one */
static void
every_place(void **state)
{
	char		text[24];
	int			c;
	int			around;
	int			place;

	(void) state;
	for (c = 0; c < 128; c++)
		for (around = 0x20; around < 128; around += 5)
			for (place = 0; place < (int) sizeof(text); place++)
			{
				bool		plain = c >= 0x20 && c != '"' && c != '\\';
				bool		plain_around = around != '"' && around != '\\';

				memset(text, around, sizeof(text));
				text[place] = (char) c;
				if (plain_around)
					assert_int_equal(dv_payload_extra(text, sizeof(text)) == 0, plain);
				if (c != 0)
					check_text(text, sizeof(text), NULL);
			}
}

/* Checks a writer against a result for which "room" bytes are promised to be enough. */
static void
check_written(char *(*write) (char *, const char *, size_t), size_t room, const char *text,
			  const char *wanted)
{
	char	   *out = malloc(room);

	expect(out, write(out, text, strlen(text)), wanted);
	free(out);
}

static void
check_key(const char *text, const char *wanted)
{
	check_written(dv_payload_key, DV_PAYLOAD_KEY(strlen(text)), text, wanted);
}

static void
keys(void **state)
{
	(void) state;
	check_key("", "''");
	check_key("A-1_b.c~9", "'A-1_b.c~9'");
	check_key("O'Neil", "'O''Neil'");
	check_key("''", "''''''");
	check_key("a b,c)=\"\\", "'a b,c)=\"\\'");
	check_key("\xc3\xbc/%41\n\xff", "'\xc3\xbc/%41\n\xff'");
}

static void
check_line(const char *address, const char *wanted)
{
	check_written(dv_payload_line, DV_PAYLOAD_LINE(strlen(address)), address, wanted);
}

static void
lines(void **state)
{
	(void) state;
	check_line("accounts(k='A-1_b.c~9')", "accounts(k='A-1_b.c~9')");
	check_line("accounts(k='O''Neil',n=-4)", "accounts(k='O''Neil',n=-4)");
	check_line("accounts(k='''',l='''a''')", "accounts(k='''',l='''a''')");
	check_line("accounts(k='a b,c)=(\"')", "accounts(k='a%20b%2Cc%29%3D%28%22')");
	check_line("accounts(k='\xc3\xbc\xff')", "accounts(k='%C3%BC%FF')");
	check_line("accounts(d=2026-01-31T10:00:00Z)", "accounts(d=2026-01-31T10%3A00%3A00Z)");
}

static void
check_filter(const char *address, const char *wanted)
{
	check_written(dv_payload_filter, DV_PAYLOAD_FILTER(strlen(address)), address, wanted);
}

static void
filters(void **state)
{
	(void) state;
	check_filter("accounts(k='')", "k%20eq%20''");
	check_filter("accounts(k='it''s 5/6 & #7',n=1.50)",
				 "k%20eq%20'it''s%205%2F6%20%26%20%237'%20and%20n%20eq%201.50");
	check_filter("accounts(k='a,b)=(c')", "k%20eq%20'a%2Cb%29%3D%28c'");
	check_filter("accounts(d=2026-01-31T10:00:00Z,_l_value=0-0)",
				 "d%20eq%202026-01-31T10%3A00%3A00Z%20and%20_l_value%20eq%200-0");
	check_filter("s(a=1,b=2,c=3)", "a%20eq%201%20and%20b%20eq%202%20and%20c%20eq%203");
}

static void
check_fit(const char *address, size_t len, dv_key_fit wanted)
{
	char	   *copy = malloc(len);

	memcpy(copy, address, len);
	if (dv_payload_key_fit(copy, len) != wanted)
		fail_msg("%.*s", (int) len, address);
	free(copy);
}

static void
fits(void **state)
{
	static const char reserved[] = "/<>*%&:\\?+#";
	char		address[400];
	char	   *end;
	int			c;

	(void) state;
	for (c = 1; c < 128; c++)
	{
		char		text[] = {(char) c, '\0'};
		dv_key_fit	wanted = strchr(reserved, c) != NULL ? DV_KEY_FITS_NOWHERE :
		c < 0x20 || c == 0x7f ? DV_KEY_FITS_BODIES : DV_KEY_FITS;

		end = dv_payload_key(address + sprintf(address, "s(k="), text, 1);
		*end++ = ')';
		check_fit(address, (size_t) (end - address), wanted);
	}
	check_fit("s(d=2026-01-31T10:00:00Z)", strlen("s(d=2026-01-31T10:00:00Z)"), DV_KEY_FITS_NOWHERE);
	/* encoded, a segment has at most 260 characters */
	memset(address, 'x', sizeof(address));
	check_fit(address, 260, DV_KEY_FITS);
	check_fit(address, 261, DV_KEY_FITS_BODIES);
	address[0] = ' ';
	check_fit(address, 258, DV_KEY_FITS);
	check_fit(address, 259, DV_KEY_FITS_BODIES);
	address[399] = '/';
	check_fit(address, 400, DV_KEY_FITS_NOWHERE);
}

static void
check_int(int64_t n)
{
	char	   *out = malloc(DV_PAYLOAD_INT);
	char	   *end = dv_payload_int(out, n);
	char		wanted[32];
	int64_t		back;
	dv_value	value = {out, (uint32_t) (end - out), DV_VALUE_NUMBER, false};

	snprintf(wanted, sizeof(wanted), "%lld", (long long) n);
	expect(out, end, wanted);
	assert_int_equal(dv_value_int64(&value, &back), DV_VALUE_OK);
	assert_int_equal(back, n);
	free(out);
}

static void
integers(void **state)
{
	int			shift;
	int			n;

	(void) state;
	for (n = -1100; n < 1100; n++)
		check_int(n);
	for (shift = 0; shift < 64; shift++)
		for (n = 0; n < 100; n++)
			check_int((int64_t) (chance() >> shift));
	check_int(INT64_MAX);
	check_int(INT64_MIN);
	check_int(INT32_MIN);
}

static void
uuids(void **state)
{
	static const uint8_t golden[16] = {
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10
	};
	char	   *out = malloc(DV_PAYLOAD_UUID);
	uint8_t		id[16];
	uint8_t		back[16];
	dv_value	value;
	int			i;
	int			j;

	(void) state;
	expect(out, dv_payload_uuid(out, golden), "01234567-89ab-cdef-fedc-ba9876543210");
	for (i = 0; i < 1000; i++)
	{
		for (j = 0; j < 16; j++)
			id[j] = (uint8_t) chance();
		assert_int_equal(dv_payload_uuid(out, id) - out, DV_PAYLOAD_UUID);
		value = string_value(out, DV_PAYLOAD_UUID);
		assert_int_equal(dv_value_uuid(&value, back), DV_VALUE_OK);
		assert_memory_equal(back, id, 16);
	}
	free(out);
}

static void
check_timestamp(int64_t t, const char *wanted)
{
	char	   *out = malloc(DV_PAYLOAD_TIMESTAMP);
	char	   *end = dv_payload_timestamp(out, t);
	dv_value	value;
	int64_t		back;

	assert_non_null(end);
	if (wanted != NULL)
		expect(out, end, wanted);
	value = string_value(out, (size_t) (end - out));
	assert_int_equal(dv_value_timestamp(&value, &back), DV_VALUE_OK);
	assert_int_equal(back, t);
	free(out);
}

static void
timestamps(void **state)
{
	const int64_t first = -730119 * DAY;	/* 0001-01-01 */
	const int64_t end = 2921940 * DAY;	/* 10000-01-01 */
	char		out[DV_PAYLOAD_TIMESTAMP];
	int			i;

	(void) state;
	check_timestamp(0, "2000-01-01T00:00:00Z");
	check_timestamp(-1, "1999-12-31T23:59:59.999999Z");
	check_timestamp(1, "2000-01-01T00:00:00.000001Z");
	check_timestamp(120000, "2000-01-01T00:00:00.12Z");
	check_timestamp(59 * DAY + 12 * 3600 * SECOND + 34 * 60 * SECOND + 56 * SECOND,
					"2000-02-29T12:34:56Z");
	check_timestamp(60 * DAY, "2000-03-01T00:00:00Z");
	check_timestamp(-10957 * DAY, "1970-01-01T00:00:00Z");
	check_timestamp(-90214 * DAY, "1753-01-01T00:00:00Z");
	check_timestamp(first, "0001-01-01T00:00:00Z");
	check_timestamp(end - 1, "9999-12-31T23:59:59.999999Z");
	assert_null(dv_payload_timestamp(out, first - 1));
	assert_null(dv_payload_timestamp(out, end));
	assert_null(dv_payload_timestamp(out, INT64_MAX));
	assert_null(dv_payload_timestamp(out, INT64_MIN));
	for (i = 0; i < 100000; i++)
		check_timestamp(first + (int64_t) (chance() % (uint64_t) (end - first)), NULL);
}

static void
dates(void **state)
{
	char	   *out = malloc(DV_PAYLOAD_DATE);
	int32_t		d;
	int32_t		back;
	dv_value	value;

	(void) state;
	expect(out, dv_payload_date(out, 0), "2000-01-01");
	expect(out, dv_payload_date(out, -730119), "0001-01-01");
	expect(out, dv_payload_date(out, 2921939), "9999-12-31");
	expect(out, dv_payload_date(out, 36584), "2100-03-01");
	assert_null(dv_payload_date(out, -730120));
	assert_null(dv_payload_date(out, 2921940));
	assert_null(dv_payload_date(out, INT32_MAX));
	assert_null(dv_payload_date(out, INT32_MIN));
	for (d = -730119; d < 2921940; d++)
	{
		dv_payload_date(out, d);
		value = string_value(out, DV_PAYLOAD_DATE);
		if (dv_value_date(&value, &back) != DV_VALUE_OK || back != d)
			fail_msg("%.10s", out);
	}
	free(out);
}

static void
bytes(void **state)
{
	static const char *const golden[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
	uint8_t		in[300];
	size_t		len;
	size_t		n;

	(void) state;
	for (len = 0; len < sizeof(in); len++)
	{
		char	   *out = malloc(DV_PAYLOAD_BASE64(len) + 1);
		uint8_t    *back = malloc(DV_PAYLOAD_BASE64(len) + 1);
		char	   *end;
		dv_value	value;

		if (len < (size_t) LENGTH(golden))
			expect(out, dv_payload_base64(out, (const uint8_t *) "foobar", len), golden[len]);
		for (n = 0; n < len; n++)
			in[n] = (uint8_t) chance();
		end = dv_payload_base64(out, in, len);
		assert_int_equal(end - out, DV_PAYLOAD_BASE64(len));
		value = string_value(out, (size_t) (end - out));
		assert_int_equal(dv_value_base64(&value, back, &n), DV_VALUE_OK);
		assert_int_equal(n, len);
		assert_memory_equal(back, in, len);
		free(out);
		free(back);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(every_place),
		cmocka_unit_test(keys),
		cmocka_unit_test(lines),
		cmocka_unit_test(filters),
		cmocka_unit_test(fits),
		cmocka_unit_test(integers),
		cmocka_unit_test(uuids),
		cmocka_unit_test(timestamps),
		cmocka_unit_test(dates),
		cmocka_unit_test(bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
