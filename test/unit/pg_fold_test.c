/*
 * pg_fold_test.c
 *		Folds of keys: values that the service considers equal have the
 *		same fold.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "common/unicode_norm.h"
#include "mb/pg_wchar.h"

#include "dataverse/fold.h"
#include "pg_stand_in.h"
#include "../dvsim/store/text.h"

extern pg_wchar * __real_unicode_normalize(UnicodeNormalizationForm form, const pg_wchar * input);
extern pg_wchar * __wrap_unicode_normalize(UnicodeNormalizationForm form, const pg_wchar * input);

/* In the server, the result is palloc'd. */
pg_wchar *
__wrap_unicode_normalize(UnicodeNormalizationForm form, const pg_wchar * input)
{
	pg_wchar   *found = __real_unicode_normalize(form, input);
	pg_wchar   *copy;
	int			n = 0;

	while (found[n] != 0)
		n++;
	copy = palloc(sizeof(pg_wchar) * (n + 1));
	memcpy(copy, found, sizeof(pg_wchar) * (n + 1));
	free(found);
	return copy;
}

static const char *
fold_with(void (*fold) (const char *, size_t, StringInfo), const char *text, size_t len)
{
	StringInfoData out;

	initStringInfo(&out);
	fold(text, len, &out);
	return out.data;
}

static const char *
fold_bytes(const char *text, size_t len)
{
	return fold_with(dv_fold_text, text, len);
}

static const char *
fold(const char *text)
{
	return fold_bytes(text, strlen(text));
}

static int
tear_down(void **state)
{
	(void) state;
	pg_stand_in_reset();
	return 0;
}

/* For dvsim, each character equals its form without case, accents, and so on. */
static void
equal_for_the_service(void **state)
{
	int			wrong = 0;
	pg_wchar	c;

	(void) state;
	for (c = ' '; c < 0x20000; c++)
	{
		struct sim_buf common = {0};
		char		text[8] = "x";
		const char *a;
		const char *b;
		size_t		len = 1;

		if (c >= 0xd800 && c <= 0xdfff)
			continue;
		if (c < 0x80)
			text[len++] = (char) c;
		else
		{
			unicode_to_utf8(c, (unsigned char *) text + 1);
			len += strlen(text + 1);
		}
		text[len++] = 'y';
		sim_text_fold(text, len, &common);
		a = fold_bytes(text, len);
		b = fold_bytes(common.s, common.len);
		if (strcmp(a, b) != 0)
		{
			print_error("U+%04X: \"%s\" and \"%.*s\" have the folds \"%s\" and \"%s\"\n", c, text,
						(int) common.len, common.s, a, b);
			wrong++;
		}
		sim_buf_free(&common);
		pg_stand_in_reset();
	}
	assert_int_equal(wrong, 0);
}

/* These are equal for dvsim, or in other versions of the collation. */
static void
equal_texts(void **state)
{
	static const char *const pairs[][2] = {
		{"KEY", "key"}, {"key  ", "KEY"}, {"kéy", "KEY"}, {"ke\314\201y", "key"},
		{"Straße", "STRASSE"}, {"Ærø", "aero"}, {"Łódź", "lodz"},
		{"\u2460\u24d0\u249c\u2160", "1aa1"}, {"\u0663", "3"}, {"\ufb01n", "fin"},
		{"\uff26\uff55\uff4c\uff4c", "full"}, {"\u30ab", "\uff76"}, {"\u304b", "\u30ab"},
		{"\u304c", "\u304b"}, {"\u30ab\u30fc", "\u30ab\u30a2"}, {"\u6642\u3005", "\u6642\u6642"},
		{"\u0391\u0398\u0397\u039d\u0391", "\u03b1\u03b8\u03ae\u03bd\u03b1"},
		{"\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2"},
		{"\u0401\u043b\u043a\u0430", "\u0435\u043b\u043a\u0430"},
		{"\u049a\u0430\u043b\u0430", "\u043a\u0430\u043b\u0430"},
		{"\ud55c\uae00", "\341\204\222\341\205\241\341\206\253\uae00"}, {"", "  "},
		{"", "\U0001f600"}, {"a\U0001f600 ", "A"}, {"a\302\240", "a"}, {"a\302\255b", "ab"},
		{"a\342\200\216b", "AB"}, {"co\342\200\221op", "co-op"}, {"it\u2019s", "it's"},
		{"\304\260", "\304\261"}, {"a\tb", "ab"}
	};
	size_t		i;

	(void) state;
	for (i = 0; i < lengthof(pairs); i++)
		if (strcmp(fold(pairs[i][0]), fold(pairs[i][1])) != 0)
			fail_msg("\"%s\" and \"%s\" have the folds \"%s\" and \"%s\"", pairs[i][0], pairs[i][1],
					 fold(pairs[i][0]), fold(pairs[i][1]));
}

/* Each of these keys differs from all others, so none of them has to wait. */
static void
ordinary_keys(void **state)
{
	static const char *const keys[] = {
		"", "1", "10", "01", "1-11", "11-1", "1/11", "1 11", " 111", "111", "A-1", "A_1", "A.1",
		"A1", "AU", "AY", "AAB", "ABB", "a@example.com", "a+b@example.com", "müller", "miller",
		"möller", "\u0391\u03b8\u03ae\u03bd\u03b1", "\u03a0\u03ac\u03c4\u03c1\u03b1",
		"\u0391\u03b8\u03ae\u03bd\u03b1\u03c2", "\u041c\u043e\u0441\u043a\u0432\u0430",
		"\u041c\u0438\u043d\u0441\u043a", "\u043c\u043e\u0441\u043a\u0432\u0438\u0447",
		"\u5317\u4eac", "\u6771\u4eac", "\u4eac\u90fd", "\u5357\u4eac", "\uc11c\uc6b8",
		"\ubd80\uc0b0", "\ub300\uc804", "\u3068\u3046\u304d\u3087\u3046",
		"\u304a\u304a\u3055\u304b", "\u306a\u3054\u3084",
		"\u0627\u0644\u0642\u0627\u0647\u0631\u0629", "\u062f\u0645\u0634\u0642",
		"\u05d9\u05e8\u05d5\u05e9\u05dc\u05d9\u05dd", "\u05d7\u05d9\u05e4\u05d4",
		"\u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e",
		"\u0e40\u0e0a\u0e35\u0e22\u0e07\u0e43\u0e2b\u0e21\u0e48",
		"\u0926\u093f\u0932\u094d\u0932\u0940", "\u092e\u0941\u0902\u092c\u0908",
		"\u0535\u0580\u0587\u0561\u0576", "\u10d7\u10d1\u10d8\u10da\u10d8\u10e1\u10d8"
	};
	size_t		i;
	size_t		j;

	(void) state;
	for (i = 0; i < lengthof(keys); i++)
		for (j = 0; j < i; j++)
			if (strcmp(fold(keys[i]), fold(keys[j])) == 0)
				fail_msg("\"%s\" and \"%s\" have the fold \"%s\"", keys[i], keys[j], fold(keys[i]));
}

static const char *
fold_number(const char *text)
{
	return fold_with(dv_fold_number, text, strlen(text));
}

static const char *
fold_time(const char *text)
{
	return fold_with(dv_fold_time, text, strlen(text));
}

static void
numbers_and_times(void **state)
{
	(void) state;
	assert_string_equal(fold_number("10"), "10");
	assert_string_equal(fold_number("10.0"), "10");
	assert_string_equal(fold_number("10.500"), "10.5");
	assert_string_equal(fold_number("0.00"), "0");
	assert_string_equal(fold_number("-0.0"), "0");
	assert_string_equal(fold_number("-1.10"), "-1.1");
	assert_string_equal(fold_number("1e+20"), "1e+20");
	assert_string_equal(fold_number("1.50e-10"), "1.50e-10");
	assert_string_equal(fold_time("2026-01-31T10:00:00Z"), "2026-01-31T10:00:00Z");
	assert_string_equal(fold_time("2026-01-31T10:00:00.25Z"), "2026-01-31T10:00:00Z");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(equal_for_the_service, tear_down),
		cmocka_unit_test_teardown(equal_texts, tear_down),
		cmocka_unit_test_teardown(ordinary_keys, tear_down),
		cmocka_unit_test_teardown(numbers_and_times, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
