/*
 * sim_value_test.c
 *		Values: those that columns accept from bodies and literals, and how
 *		they are returned.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"
#include "store/value.h"

static struct sim sim;
static struct sim_req req;
static struct sim_res res;

static int
begin(void **state)
{
	(void) state;
	sim.schema = sim_schema_load(NULL);
	sim.time_scale = 1;
	if (sim.schema == NULL || sim_store_open(&sim, NULL) == NULL)
		return -1;
	req.sim = &sim;
	req.arena = sim_arena_new();
	req.method = "POST";
	req.path = req.query = (char *) "";
	req.target = "";
	req.base_url = "http://127.0.0.1";
	return 0;
}

static int
end(void **state)
{
	(void) state;
	sim_buf_free(&res.body);
	sim_arena_free(req.arena);
	sim_store_close(sim.store);
	sim_schema_free(sim.schema);
	return 0;
}

static struct sim_column *
column_of(const char *table, const char *name)
{
	struct sim_table *t = sim_table_by_name(sim.schema, table);
	struct sim_column *column;

	assert_non_null(t);
	column = sim_column_by_name(t, name, strlen(name));
	if (column == NULL)
		fail_msg("%s has no column %s", table, name);
	return column;
}

static void
clear(void)
{
	sim_buf_free(&res.body);
	memset(&res, 0, sizeof(res));
}

/* Writes a value to SQLite and reads it: as JSON, as a literal, or as a label ("" for none). */
static const char *
printed(struct sim_column *column, const struct sim_value *value, char how)
{
	sqlite3_stmt *stmt = sim_stmt_get(sim.store, "SELECT ?1");
	struct sim_buf out = {0};
	const char *text;

	assert_non_null(stmt);
	assert_int_equal(sim_value_bind(stmt, 1, value), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	if (how == 'j')
		sim_value_print(&out, column, stmt, 0);
	else if (how == 'l')
		sim_value_print_literal(&out, column, stmt, 0);
	else if (!sim_value_label(&out, column, stmt, 0))
		assert_int_equal(out.len, 0);
	sim_stmt_put(sim.store, stmt);
	text = sim_strndup(req.arena, out.s != NULL ? out.s : "", out.len);
	sim_buf_free(&out);
	return text;
}

static bool
read_json(struct sim_column *column, const char *json, struct sim_value *value)
{
	const char *error = NULL;
	char	   *text = sim_strdup(req.arena, json);
	struct sim_json *parsed = sim_json_parse(req.arena, text, strlen(text), &error);

	if (parsed == NULL)
		fail_msg("%s: %s", json, error);
	memset(value, 0, sizeof(*value));
	clear();
	return sim_value_from_json(&req, &res, column, parsed, value);
}

static void
bodies_come_out_again(void **state)
{
	static const struct
	{
		const char *column;
		const char *in;
		const char *json;
		const char *label;
	}			cases[] = {
		{"new_text", "\"Köln \\\"x\\\"\\n\"", "\"Köln \\\"x\\\"\\n\"", ""},
		{"new_text", "\"\"", "null", ""},
		{"new_text", "\"\\u00e9\\ud83d\\ude00\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"", ""},
		{"new_text", "null", "null", ""},
		{"new_integer", "-2147483648", "-2147483648", "-2,147,483,648"},
		{"new_percent", "100", "100", "100"},
		{"new_bigint", "9007199254740993", "9007199254740993", "9,007,199,254,740,993"},
		{"new_bigint", "\"-9223372036854775808\"", "-9223372036854775808",
		"-9,223,372,036,854,775,808"},
		{"new_decimal", "12.5", "12.5000000000", "12.5000"},
		{"new_decimal", "12.34567", "12.3457000000", "12.3457"},
		{"new_decimal", "-1.23455", "-1.2346000000", "-1.2346"},
		{"new_decimal", "1e3", "1000.0000000000", "1,000.0000"},
		{"new_decimal10", "0.0000000001", "0.0000000001", "0.0000000001"},
		{"new_money", "20000", "20000.0000", "$20,000.00"},
		{"new_money", "-1234.565", "-1234.5700", "-$1,234.57"},
		{"new_money4", "0.00005", "0.0001", "$0.0001"},
		{"new_double", "47.639583", "47.63958", "47.63958"},
		{"new_double", "5", "5.0", "5.00000"},
		{"new_double", "-0.5", "-0.5", "-0.50000"},
		{"new_double", "1e11", "100000000000.0", "100,000,000,000.00000"},
		{"new_boolean", "true", "true", "Yes"},
		{"new_yesno", "false", "false", "Off"},
		{"new_choice", "100000001", "100000001", "Second"},
		{"new_globalchoice", "9", "9", "Black"},
		{"statecode", "1", "1", "Inactive"},
		{"new_choices", "\"9, 1,9\"", "\"1,9\"", "Red; Black"},
		{"new_choices", "\"\"", "null", ""},
		{"new_datetime", "\"2023-04-07T21:59:01Z\"", "\"2023-04-07T21:59:01Z\"",
		"4/7/2023 9:59 PM"},
		{"new_datetime", "\"2023-04-07T21:59:01.987-08:00\"", "\"2023-04-08T05:59:01Z\"",
		"4/8/2023 5:59 AM"},
		{"new_datetime", "\"2023-04-07T00:00:00\"", "\"2023-04-07T00:00:00Z\"",
		"4/7/2023 12:00 AM"},
		{"new_datetime", "\"1753-01-01T00:00:00Z\"", "\"1753-01-01T00:00:00Z\"",
		"1/1/1753 12:00 AM"},
		{"new_datetime", "\"9999-12-30T23:59:59Z\"", "\"9999-12-30T23:59:59Z\"",
		"12/30/9999 11:59 PM"},
		{"new_date", "\"2024-02-29\"", "\"2024-02-29\"", "2/29/2024"},
		{"new_userdate", "\"2023-04-07T05:00:00Z\"", "\"2023-04-07T05:00:00Z\"", "4/7/2023"},
		{"new_zonefree", "\"2023-04-07T12:30:00Z\"", "\"2023-04-07T12:30:00Z\"",
		"4/7/2023 12:30 PM"},
		{"new_alltypesid", "\"00112233-4455-6677-8899-AABBCCDDEEFF\"",
		"\"00112233-4455-6677-8899-aabbccddeeff\"", ""},
		{"new_image", "\"AQIDBA==\"", "\"AQIDBA==\"", ""},
		{"new_tablename", "\"account\"", "\"account\"", ""},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct sim_column *column = column_of("new_alltypes", cases[i].column);
		struct sim_value value;

		if (!read_json(column, cases[i].in, &value))
			fail_msg("%s refuses %s: %s", cases[i].column, cases[i].in, res.error_message);
		assert_string_equal(printed(column, &value, 'j'), cases[i].json);
		assert_string_equal(printed(column, &value, 'f'), cases[i].label);
	}
}

static void
bodies_are_refused_with_the_services_codes(void **state)
{
	static const struct
	{
		const char *column;
		const char *in;
		const char *code;
	}			cases[] = {
		{"new_text", "5", "0x80048d19"}, {"new_text", "true", "0x80048d19"},
		{"new_text", "{}", "0x80048d19"}, {"new_text", "[\"a\"]", "0x80048d19"},
		{"new_text", "\"\\u0001\"", "0x80040278"}, {"new_ticker", "\"12345678901\"", "0x80044331"},
		{"new_integer", "1.5", "0x80048d19"}, {"new_integer", "\"1\"", "0x80048d19"},
		{"new_integer", "2147483648", "0x80048d19"}, {"new_integer", "1e2", "0x80048d19"},
		{"new_percent", "101", "0x8004432F"}, {"new_percent", "-1", "0x8004432F"},
		{"new_bigint", "9223372036854775808", "0x80048d19"},
		{"new_bigint", "99999999999999999999999", "0x80048d19"},
		{"new_decimal", "100000000000.1", "0x80044330"}, {"new_decimal", "1e300", "0x80044330"},
		{"new_decimal", "\"1\"", "0x80048d19"}, {"new_smalldecimal", "1001", "0x80044330"},
		{"new_money", "922337203685478", "0x80044330"}, {"new_double", "1e12", "0x80044330"},
		{"new_double", "\"1\"", "0x80048d19"}, {"new_boolean", "1", "0x80048d19"},
		{"new_boolean", "\"true\"", "0x80048d19"}, {"new_choice", "4", "0x8004431A"},
		{"new_choice", "\"100000000\"", "0x80048d19"}, {"new_choice", "99999999999", "0x80048d19"},
		{"statecode", "7", "0x8004431A"}, {"new_choices", "\"1,4\"", "0x8004431A"},
		{"new_choices", "\"1,,2\"", "0x8004431A"}, {"new_choices", "\"1,\"", "0x8004431A"},
		{"new_choices", "\"x\"", "0x8004431A"}, {"new_choices", "1", "0x80048d19"},
		{"new_datetime", "\"2023-02-29T00:00:00Z\"", "0x80048d19"},
		{"new_datetime", "\"2023-04-07T24:00:00Z\"", "0x80048d19"},
		{"new_datetime", "\"2023-04-07T10:00:00-08:00Z\"", "0x80048d19"},
		{"new_datetime", "\"yesterday\"", "0x80048d19"}, {"new_datetime", "1680904741", "0x80048d19"},
		{"new_datetime", "\"1752-12-31T23:59:59Z\"", "0x80040239"},
		{"new_date", "\"2023-04-07T00:00:00Z\"", "0x80048d19"},
		{"new_date", "\"0001-01-01\"", "0x80040239"},
		{"new_alltypesid", "\"{0}\"", "0x80048d19"}, {"new_image", "\"!!!=\"", "0x80048d19"},
		{"new_image", "\"AAA\"", "0x80048d19"}, {"new_file", "\"AAAA\"", "0x80048d19"},
		{"new_meterid", "\"00112233-4455-6677-8899-aabbccddeeff\"", "0x80048d19"},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct sim_column *column = column_of("new_alltypes", cases[i].column);
		struct sim_value value;

		if (read_json(column, cases[i].in, &value))
			fail_msg("%s takes %s", cases[i].column, cases[i].in);
		assert_int_equal(res.status, 400);
		if (strcmp(res.error_code, cases[i].code) != 0)
			fail_msg("%s of %s: %s %s", cases[i].in, cases[i].column, res.error_code,
					 res.error_message);
	}
}

static void
length_counts_utf16_units(void **state)
{
	struct sim_column *column = column_of("new_alltypes", "new_ticker");
	struct sim_value value;

	(void) state;
	assert_int_equal(column->max_length, 10);
	assert_true(read_json(column, "\"ÄÖÜÄÖÜÄÖÜÄ\"", &value));
	assert_true(read_json(column, "\"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"
						  "\\ud83d\\ude00\"", &value));
	assert_false(read_json(column, "\"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"
						   "\\ud83d\\ude00x\"", &value));
	assert_string_equal(res.error_message,
						"A validation error occurred.  The length of the 'new_ticker' attribute "
						"of the 'new_alltypes' entity exceeded the maximum allowed length of '10'.");
}

static bool
read_literal(struct sim_column *column, const char *text, struct sim_value *value)
{
	clear();
	memset(value, 0, sizeof(*value));
	return sim_value_from_literal(&req, &res, column, text, strlen(text), value);
}

static void
literals_are_only_compared(void **state)
{
	struct sim_value none = {0};
	static const struct
	{
		const char *table;
		const char *column;
		const char *in;
		const char *literal;	/* as it is printed again; NULL: refused */
	}			cases[] = {
		{"new_alltypes", "new_text", "O'Neil", "O'Neil"}, {"new_alltypes", "new_ticker",
		"longer than the column", "longer than the column"},
		{"new_alltypes", "new_percent", "1000", "1000"}, {"new_alltypes", "new_percent", "x", NULL},
		{"new_alltypes", "new_choice", "77", "77"}, {"new_alltypes", "new_boolean", "true", "true"},
		{"new_alltypes", "new_boolean", "0", "false"}, {"new_alltypes", "new_boolean", "yes", NULL},
		{"new_alltypes", "new_decimal", "1.123456", "1.1234560000"},
		{"new_alltypes", "new_decimal", "1e30",
		"17014118346046923173168730371.5884105727"},
		{"new_alltypes", "new_decimal", "one", NULL}, {"new_alltypes", "new_double", "nan", NULL},
		{"new_alltypes", "new_choices", "9,1", "1,9"}, {"new_alltypes", "new_choices", "a", NULL},
		{"new_alltypes", "new_meterid", "{00112233-4455-6677-8899-aabbccddeeff}",
		"00112233-4455-6677-8899-aabbccddeeff"}, {"new_alltypes", "new_meterid", "1", NULL},
		{"new_alltypes", "new_datetime", "2023-01-31", "2023-01-31T00:00:00Z"},
		{"new_alltypes", "new_date", "2023-01-31", "2023-01-31"},
		{"new_alltypes", "new_datetime", "1066-10-14", NULL},
		{"annotation", "objecttypecode", "1", "account"},
		{"annotation", "objecttypecode", "contact", "contact"},
		{"new_alltypes", "new_image", "AAAA", NULL},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct sim_column *column = column_of(cases[i].table, cases[i].column);
		struct sim_value value;
		bool		taken = read_literal(column, cases[i].in, &value);

		if (taken != (cases[i].literal != NULL))
			fail_msg("%s and %s", cases[i].column, cases[i].in);
		if (taken)
			assert_string_equal(printed(column, &value, 'l'), cases[i].literal);
		else
			assert_int_equal(res.status, 400);
	}
	read_literal(column_of("new_alltypes", "new_datetime"), "1066-10-14", &none);
	assert_string_equal(res.error_code, "0x80040239");
}

/* whole numbers beyond int64, and numbers with a fraction, still compare correctly */
static void
large_and_broken_numbers_compare_as_reals(void **state)
{
	struct sim_column *column = column_of("new_alltypes", "new_integer");
	struct sim_value value;

	(void) state;
	assert_true(read_literal(column, "1.5", &value));
	assert_int_equal(value.kind, SIM_V_REAL);
	assert_true(value.r == 1.5);
	assert_true(read_literal(column, "99999999999999999999", &value));
	assert_int_equal(value.kind, SIM_V_REAL);
}

static void
times_go_both_ways(void **state)
{
	static const int64_t days[] = {-719162, -25567, -1, 0, 1, 59, 60, 10957, 11016, 19782, 2932895};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(days) / sizeof(days[0]); i++)
	{
		struct sim_buf text = {0};
		int64_t		seconds = days[i] * 86400 + 12345;
		int64_t		back;

		sim_time_print(&text, seconds, false);
		assert_true(sim_time_parse(text.s, text.len, &back));
		assert_true(back == seconds);
		text.len = 0;
		sim_time_print(&text, seconds, true);
		assert_int_equal(text.len, 10);
		assert_true(sim_time_parse(text.s, text.len, &back));
		assert_true(back == days[i] * 86400);
		sim_buf_free(&text);
	}
}

static void
malformed_times_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "2023", "2023-1-1", "2023-00-01", "2023-13-01", "2023-04-31", "0000-01-01",
		"2023-04-07T", "2023-04-07T1:00", "2023-04-07T10", "2023-04-07T10:60", "2023-04-07T10:00:60",
		"2023-04-07T10:00:00.", "2023-04-07T10:00:00+0800", "2023-04-07T10:00:00+15:00",
		"2023-04-07T10:00:00Zx", "2023-04-07x", "2023-04-07 ", "2023/04/07", "1900-02-29"
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		int64_t		seconds;

		if (sim_time_parse(bad[i], strlen(bad[i]), &seconds))
			fail_msg("\"%s\" is taken", bad[i]);
	}
}

static void
formulas_become_sql(void **state)
{
	static const struct
	{
		const char *table;
		const char *column;
		const char *sql;
	}			cases[] = {
		{"account", "name", "t0.\"name\""},
		{"account", "revenue_base", "(dv_base(t0.\"revenue\", t0.\"exchangerate\"))"},
		{"annotation", "objecttypecode", "(t0.\"objectid.type\" COLLATE DV)"},
		{"new_alltypes", "new_calculated", "(t0.\"new_integer\" * 2)"},
		{"new_reading", "partitionid", "nullif(t0.\"partitionid\", '')"},
		{"account", "owneridname", "NULL"},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		struct sim_buf sql = {0};

		sim_column_sql(&sql, "t0", column_of(cases[i].table, cases[i].column));
		assert_string_equal(sql.s, cases[i].sql);
		sim_buf_free(&sql);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_come_out_again),
		cmocka_unit_test(bodies_are_refused_with_the_services_codes),
		cmocka_unit_test(length_counts_utf16_units),
		cmocka_unit_test(literals_are_only_compared),
		cmocka_unit_test(large_and_broken_numbers_compare_as_reals),
		cmocka_unit_test(times_go_both_ways),
		cmocka_unit_test(malformed_times_are_refused),
		cmocka_unit_test(formulas_become_sql),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
