/*
 * sim_guid_test.c
 *		GUIDs: conversion from and to text, SQL Server's order, new ids, ids of names.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/guid.h"

static bool
parse(const char *s, unsigned char out[16])
{
	return sim_guid_parse(s, strlen(s), out);
}

static void
text_both_ways(void **state)
{
	static const char text[] = "00112233-4455-6677-8899-aabbccddeeff";
	static const unsigned char stored[16] = {
		0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x88, 0x99,
		0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00
	};
	unsigned char guid[16];
	char		out[37] = {0};

	(void) state;
	assert_true(parse(text, guid));
	assert_memory_equal(guid, stored, 16);
	sim_guid_print(guid, out);
	assert_string_equal(out, text);
	assert_true(parse("{00112233-4455-6677-8899-AABBCCDDEEFF}", guid));
	assert_memory_equal(guid, stored, 16);
}

static void
malformed_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "00112233-4455-6677-8899-aabbccddeef", "00112233-4455-6677-8899-aabbccddeeff0",
		"00112233x4455-6677-8899-aabbccddeeff", "0011223g-4455-6677-8899-aabbccddeeff",
		"00112233-4455-6677-8899-aabbccddee/f", "{00112233-4455-6677-8899-aabbccddeeff",
		"(00112233-4455-6677-8899-aabbccddeeff)", "00112233445566778899aabbccddeeff",
		"00112233-4455-6677-8899-aabbccddeef\xc3"
	};
	unsigned char guid[16];
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse(bad[i], guid));
}

/* ascending, according to SQL Server's documentation of uniqueidentifier */
static void
order_of_sql_server(void **state)
{
	static const char *const ascending[] = {
		"ffffffff-ffff-ffff-ffff-000000000000", "01000000-0000-0000-0000-000000000001",
		"00010000-0000-0000-0000-000000000001", "00000100-0000-0000-0000-000000000001",
		"00000001-0000-0000-0000-000000000001", "00000000-0100-0000-0000-000000000001",
		"00000000-0001-0000-0000-000000000001", "00000000-0000-0100-0000-000000000001",
		"00000000-0000-0001-0000-000000000001", "00000000-0000-0000-0001-000000000001",
		"00000000-0000-0000-0100-000000000001", "00000000-0000-0000-0000-000000000100",
		"00000000-0000-0000-0000-010000000000"
	};
	unsigned char guid[2][16];
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(ascending) / sizeof(ascending[0]); i++)
	{
		assert_true(parse(ascending[i], guid[i % 2]));
		if (i > 0 && memcmp(guid[(i + 1) % 2], guid[i % 2], 16) >= 0)
			fail_msg("%s is not before %s", ascending[i - 1], ascending[i]);
	}
}

static void
new_ids_ascend_and_differ(void **state)
{
	unsigned char before[16] = {0};
	unsigned char guid[16];
	char		text[37] = {0};
	uint64_t	i;

	(void) state;
	for (i = 0; i < 100000; i++)
	{
		/* some share a microsecond, some have a random salt, and once time goes back */
		uint64_t	now = UINT64_C(1767225600000000) + i / 7 - (i == 5000 ? 1000000 : 0);

		sim_guid_make(now, i * i, guid);
		assert_true(memcmp(before, guid, 16) < 0);
		memcpy(before, guid, 16);
	}
	sim_guid_print(guid, text);
	assert_true(strncmp(text + 24, "000d3a", 6) == 0);
	assert_true(strchr("89ab", text[19]) != NULL);
	assert_true(text[16] == '1');	/* version, in SQL Server's swapped order */
}

static void
names_have_fixed_ids(void **state)
{
	unsigned char seen[200][16];
	unsigned char guid[16];
	char		text[37];
	char		name[32];
	int			i;
	int			j;

	(void) state;
	sim_guid_text_of_name("organization", text);
	assert_string_equal(text, "f9f0013b-1770-5837-b0ba-6e46d311bdbc");
	for (i = 0; i < 200; i++)
	{
		snprintf(name, sizeof(name), "name %d", i);
		sim_guid_of_name(name, seen[i]);
		for (j = 0; j < i; j++)
			assert_memory_not_equal(seen[i], seen[j], 16);
		sim_guid_text_of_name(name, text);
		for (j = 0; j < 36; j++)
			assert_true(text[j] == '-' || isdigit((unsigned char) text[j]) ||
						(text[j] >= 'a' && text[j] <= 'f'));
		assert_true(parse(text, guid));
		assert_memory_equal(guid, seen[i], 16);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_both_ways),
		cmocka_unit_test(malformed_is_refused),
		cmocka_unit_test(order_of_sql_server),
		cmocka_unit_test(new_ids_ascend_and_differ),
		cmocka_unit_test(names_have_fixed_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
