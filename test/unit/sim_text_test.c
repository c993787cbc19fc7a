/*
 * sim_text_test.c
 *		Text as the service compares it: order, equality, LIKE, lengths.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/text.h"

static int
compare(const char *a, const char *b)
{
	int			forth = sim_text_compare(a, strlen(a), b, strlen(b));
	int			back = sim_text_compare(b, strlen(b), a, strlen(a));

	assert_int_equal(forth, -back);
	return forth;
}

static bool
like(const char *s, const char *pattern)
{
	return sim_text_like(s, strlen(s), pattern, strlen(pattern));
}

static void
equal_without_case_accents_and_trailing_blanks(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""}, {"", "   "}, {"abc", "ABC"}, {"abc  ", "ABC"}, {"Köln", "koln"},
		{"CAFÉ", "cafe"}, {"cafe\xcc\x81", "café"}, {"straße", "STRASSE"}, {"Ærø", "aero"},
		{"Łódź", "lodz"}, {"Ångström", "angstrom"}, {"ΑΘΗΝΑ", "αθήνα"}, {"ΟΔΟΣ", "οδος"},
		{"МОСКВА", "москва"}, {"Ёлка", "елка"}, {"x²", "x2"}, {"Ｆｕｌｌ", "full"},
		{"Œuvre", "oeuvre"}, {"Ắ", "a"},
		/* signs, ligatures, width, kana */
		{"Kiwi", "kiwi"}, {"Ångström", "angstrom"}, {"dotless ı", "dotless i"},
		{"①ⓐ⒜Ⅰ", "1aa1"}, {"٣", "3"}, {"ﬁn", "fin"}, {"カ", "ｶ"}, {"か", "カ"},
		{"Đorđe", "dorde"}, {"Þor", "THor"}, {"ð", "d"},
		/* no weight */
		{"\xf0\x9f\x98\x80", ""}, {"a\xf0\x9f\x98\x80" "b", "AB"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\xa2"}, {"ግዜ", "ግ"}, {"a\xe2\x80\x8e" "b", "ab"},
		{"\xf0\x9d\x90\x9a", ""},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
	{
		if (compare(pairs[i][0], pairs[i][1]) != 0)
			fail_msg("\"%s\" differs from \"%s\"", pairs[i][0], pairs[i][1]);
	}
}

static void
order_is_blank_punctuation_digit_letter(void **state)
{
	static const char *const ascending[] = {
		"", "a", "a b", "a-b", "a.b", "a+b", "a1", "a10", "a2", "ab", "aé b", "az", "b", "ß", "zz",
		"Ω", "я", "漢"
	};
	size_t		i;
	size_t		j;

	(void) state;
	for (i = 0; i < sizeof(ascending) / sizeof(ascending[0]); i++)
	{
		for (j = i + 1; j < sizeof(ascending) / sizeof(ascending[0]); j++)
		{
			if (compare(ascending[i], ascending[j]) >= 0)
				fail_msg("\"%s\" is not before \"%s\"", ascending[i], ascending[j]);
		}
	}
}

static void
different_stays_different(void **state)
{
	static const char *const pairs[][2] = {
		{"abc", "abd"}, {" abc", "abc"}, {"a b", "ab"}, {"n", "m"}, {"ŋ", "n"}, {"漢", "字"},
		{"a\xff", "a\xfe"}, {"\xc3", "a"}, {"и", "н"}, {"æ", "a"}, {"ss", "s"},
		{"soft\xc2\xadhyphen", "softhyphen"}, {"co-op", "coop"}, {"a\xc2\xa0" "b", "a b"},
		{"ſ", "s"}, {"ŧ", "t"}, {"™", "tm"}, {"\xe2\x80\xa6", "..."},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
	{
		if (compare(pairs[i][0], pairs[i][1]) == 0)
			fail_msg("\"%s\" equals \"%s\"", pairs[i][0], pairs[i][1]);
	}
}

static void
like_has_live_wildcards(void **state)
{
	static const struct
	{
		const char *s;
		const char *pattern;
		bool		matches;
	}			cases[] = {
		{"Contoso Ltd", "contoso%", true}, {"Contoso", "%TOSO", true}, {"Contoso", "%nto%", true},
		{"Contoso", "contoso_", false}, {"Contoso", "_ontos_", true}, {"", "%", true},
		{"", "", true}, {"a", "", false}, {"", "_", false}, {"50% off", "50[%] off", true},
		{"500 off", "50[%] off", false}, {"a_b", "a[_]b", true}, {"axb", "a[_]b", false},
		{"a[b", "a[[]b", true}, {"cat", "[b-d]at", true}, {"rat", "[b-d]at", false},
		{"rat", "[^b-d]at", true}, {"CAT", "[b-d]at", true}, {"a-b", "a[x-]b", true},
		{"a]b", "a]b", true}, {"ab", "a[", false}, {"ab", "a[b", false}, {"ab", "a[]b", false},
		{"Köln", "ko%", true}, {"Straße", "%asse", true}, {"Straße", "stra__e", true},
		{"abc ", "abc", false}, {"abc ", "abc ", true}, {"aXbXc", "a%b%c", true},
		{"mississippi", "m%iss%p_", true}, {"mississippi", "m%iss%p", false}, {"mississippi", "m%iss%p%", true},
		{"line\nbreak", "line%break", true}, {"a\xff", "a_", true},
		{"e\xcc\x81t\xc3\xa9", "ete", true}, {"ab", "%%%%", true}, {"ab", "%_%_%", true},
		{"a", "%_%_%", false},
		{"abc", "%\xf0\x9f\x98\x80%", true}, {"abc", "a\xf0\x9f\x98\x80%", true}, {"a\xf0\x9f\x98\x80" "c", "ac", true}, {"abc", "%\xcc\x81%", true},
		{"abc", "b\xf0\x9f\x98\x80%", false}, {"a", "[b\xcc\x81" "a]", true},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		if (like(cases[i].s, cases[i].pattern) != cases[i].matches)
			fail_msg("\"%s\" LIKE \"%s\"", cases[i].s, cases[i].pattern);
	}
}

/* A pattern full of '%' must not take exponential time. */
static void
like_is_not_exponential(void **state)
{
	char		s[4001];
	char		pattern[402];
	int			i;

	(void) state;
	memset(s, 'a', 4000);
	s[4000] = '\0';
	for (i = 0; i < 200; i++)
		memcpy(pattern + 2 * i, "a%", 2);
	memcpy(pattern + 400, "b", 2);
	assert_false(like(s, pattern));
}

static void
units_are_utf16(void **state)
{
	(void) state;
	assert_int_equal(sim_text_units("", 0), 0);
	assert_int_equal(sim_text_units("abc", 3), 3);
	assert_int_equal(sim_text_units("Köln", 5), 4);
	assert_int_equal(sim_text_units("漢字", 6), 2);
	assert_int_equal(sim_text_units("\xf0\x9f\x98\x80", 4), 2);
}

static void
valid_is_utf8_of_xml(void **state)
{
	static const char *const good[] = {"", "abc\t\r\n", "Köln", "漢", "\xf0\x9f\x98\x80"};
	static const char *const bad[] = {
		"\x01", "a\x1f", "\xc3", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
		"\xef\xbf\xbe", "\xe2\x82", "\xf0\x80\x80\x80"
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(sim_text_valid(good[i], strlen(good[i])));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sim_text_valid(bad[i], strlen(bad[i])));
	assert_false(sim_text_valid("a\0b", 3));
	assert_true(sim_text_valid("\x7f", 1));
}

static void
folded_texts_are_equal_bytes(void **state)
{
	struct sim_buf a = {0};
	struct sim_buf b = {0};

	(void) state;
	sim_text_fold("Ærø STRASSE Ё  ", strlen("Ærø STRASSE Ё  "), &a);
	sim_text_fold("aero straße е", strlen("aero straße е"), &b);
	assert_string_equal(a.s, b.s);
	assert_string_equal(a.s, "aero strasse е");
	sim_buf_free(&a);
	sim_buf_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_without_case_accents_and_trailing_blanks),
		cmocka_unit_test(order_is_blank_punctuation_digit_letter),
		cmocka_unit_test(different_stays_different),
		cmocka_unit_test(like_has_live_wildcards),
		cmocka_unit_test(like_is_not_exponential),
		cmocka_unit_test(units_are_utf16),
		cmocka_unit_test(valid_is_utf8_of_xml),
		cmocka_unit_test(folded_texts_are_equal_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
