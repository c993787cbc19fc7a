/*
 * sim_odata_test.c
 *		$filter as SQL: the resulting text and values, and the messages of
 *		errors.
 *
 * These tests need only the schema; no SQL is run, except that the last tests
 * pass every statement to SQLite's parser, because they are about its limits.
 * The time is always 2026-03-18 10:30:00 UTC, a Wednesday.
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

#include "store/guid.h"
#include "odata/odata_page.h"
#include "odata/window.h"

#define NOW INT64_C(1773829800)
#define DAY INT64_C(86400)
#define ID "8f521234-aaaa-bbbb-cccc-0123456789ab"

static struct sim simulator;
static struct sim_arena *arena;
static struct sim_req request;
static struct sim_res response;
static struct sim_sql sql;
static struct sim_from from;
static struct sim_buf where;

static int
set_up(void **state)
{
	(void) state;
	simulator.schema = sim_schema_load(NULL);
	simulator.time_scale = 0;
	simulator.epoch_us = NOW * 1000000;
	strcpy(simulator.business_unit_id, "00000000-0000-0000-0000-0000000000b1");
	return simulator.schema == NULL;
}

static int
unload(void **state)
{
	(void) state;
	sim_schema_free(simulator.schema);
	return 0;
}

static int
begin(void **state)
{
	(void) state;
	arena = sim_arena_new();
	memset(&request, 0, sizeof(request));
	memset(&response, 0, sizeof(response));
	request.sim = &simulator;
	request.arena = arena;
	request.method = "GET";
	request.query = (char *) "";
	request.base_url = "http://localhost";
	strcpy(request.user_id, "00000000-0000-0000-0000-0000000000a1");
	return 0;
}

static int
end(void **state)
{
	(void) state;
	sim_buf_free(&where);
	sim_buf_free(&response.body);
	sim_arena_free(arena);
	return 0;
}

/* if true, where, from, and sql have the translation; if false, response has the error */
static bool
translate(const char *table, const char *filter)
{
	struct sim_node *node;

	sim_buf_free(&where);
	sim_buf_free(&response.body);
	memset(&response, 0, sizeof(response));
	sim_sql_init(&sql, &request, &response);
	sim_from_init(&sql, &from, sim_table_by_name(simulator.schema, table));
	assert_non_null(from.table);
	return sim_filter_parse(&request, &response, filter, true, &node) &&
		sim_filter_sql(&sql, &from, node, &where);
}

/* the condition of a filter on new_alltypes */
static void
assert_where(const char *filter, const char *text)
{
	if (!translate("new_alltypes", filter))
		fail_msg("%s: %s %s", filter, response.error_code, response.error_message);
	assert_string_equal(where.s, text);
}

static void
assert_refused(const char *filter, const char *code, const char *message)
{
	if (translate("new_alltypes", filter))
		fail_msg("accepted: %s", filter);
	assert_int_equal(response.status, 400);
	assert_string_equal(response.error_code, code);
	assert_string_equal(response.error_message, message);
}

static void
assert_bad(const char *filter, const char *code)
{
	if (translate("new_alltypes", filter))
		fail_msg("accepted: %s", filter);
	if (response.status != 400 || strcmp(response.error_code, code) != 0)
		fail_msg("%s: %d %s %s", filter, response.status, response.error_code,
				 response.error_message);
}

static void
assert_int(int param, int64_t i)
{
	assert_true(param <= sql.nbinds);
	assert_int_equal(sql.binds[param - 1].kind, SIM_V_INT);
	assert_int_equal(sql.binds[param - 1].i, i);
}

static void
assert_text(int param, const char *text)
{
	assert_true(param <= sql.nbinds);
	assert_int_equal(sql.binds[param - 1].kind, SIM_V_TEXT);
	assert_int_equal(sql.binds[param - 1].len, strlen(text));
	assert_memory_equal(sql.binds[param - 1].s, text, strlen(text));
}

static void
assert_guid(int param, const char *text)
{
	char		id[37] = "";

	assert_true(param <= sql.nbinds);
	assert_int_equal(sql.binds[param - 1].kind, SIM_V_BLOB);
	sim_guid_print(sql.binds[param - 1].fixed, id);
	assert_string_equal(id, text);
}

/* ----------
 * Comparisons
 * ----------
 */

static void
compares(void **state)
{
	(void) state;
	assert_where("new_integer eq 5", "t0.\"new_integer\"=?1");
	assert_int(1, 5);
	assert_where("new_integer ge -5", "t0.\"new_integer\">=?1");
	assert_int(1, -5);
	assert_where("new_text lt 'it''s'", "t0.\"new_text\"<?1");
	assert_text(1, "it's");
	assert_where("new_text eq ''", "t0.\"new_text\"=?1");
	assert_text(1, "");
	assert_where("_new_meterid_value eq " ID, "t0.\"new_meterid\"=?1");
	assert_guid(1, ID);
	assert_where("new_boolean eq true", "t0.\"new_boolean\"=?1");
	assert_int(1, 1);
	assert_where("new_datetime gt 2026-03-18T10:30:00Z", "t0.\"new_datetime\">?1");
	assert_int(1, NOW);
	assert_where("new_datetime gt 2026-03-18T12:30:00+02:00", "t0.\"new_datetime\">?1");
	assert_int(1, NOW);
	assert_where("new_date le 2026-03-18", "t0.\"new_date\"<=?1");
	assert_int(1, NOW / DAY * DAY);
	assert_where("new_datetime ge 2026-03-18", "t0.\"new_datetime\">=?1");
	assert_where("new_choices eq '9,1'", "t0.\"new_choices\"=?1");
	assert_text(1, ",1,9,");
	assert_where("new_integer lt 12.5", "t0.\"new_integer\"<?1");
	assert_int_equal(sql.binds[0].kind, SIM_V_REAL);
	assert_where("new_decimal eq 12.5", "t0.\"new_decimal\"=?1");
	assert_int_equal(sql.binds[0].kind, SIM_V_BLOB);
	assert_where("new_bigint eq 9007199254740993", "t0.\"new_bigint\"=?1");
	assert_int(1, INT64_C(9007199254740993));
}

static void
compares_with_null(void **state)
{
	(void) state;
	assert_where("new_text eq null", "t0.\"new_text\" IS NULL");
	assert_where("new_text ne null", "t0.\"new_text\" IS NOT NULL");
	assert_where("new_text gt null", "0");
	assert_where("not (new_text eq null)", "t0.\"new_text\" IS NOT NULL");
	/* an alias without a value */
	assert_where("new_text eq @p", "t0.\"new_text\" IS NULL");
	assert_int_equal(sql.nbinds, 0);
}

static void
negations_let_null_through(void **state)
{
	(void) state;
	assert_where("new_integer ne 5", "(t0.\"new_integer\"<>?1 OR t0.\"new_integer\" IS NULL)");
	assert_where("not (new_integer eq 5)",
				 "(t0.\"new_integer\"<>?1 OR t0.\"new_integer\" IS NULL)");
	assert_where("not (new_integer ne 5)", "t0.\"new_integer\"=?1");
	/* negating a comparison of order gives another one, which is not true for NULL */
	assert_where("not (new_integer gt 5)", "t0.\"new_integer\"<=?1");
	assert_where("not (new_integer le 5)", "t0.\"new_integer\">?1");
	assert_where("not contains(new_text,'x')",
				 "(NOT dv_like(t0.\"new_text\",?1) OR t0.\"new_text\" IS NULL)");
	assert_where("not not contains(new_text,'x')", "dv_like(t0.\"new_text\",?1)");
}

static void
logic(void **state)
{
	(void) state;
	assert_where("new_integer eq 1 or new_integer eq 2 and new_integer eq 3",
				 "(t0.\"new_integer\"=?1 OR (t0.\"new_integer\"=?2 AND t0.\"new_integer\"=?3))");
	assert_where("(new_integer eq 1 or new_integer eq 2) and new_integer eq 3",
				 "((t0.\"new_integer\"=?1 OR t0.\"new_integer\"=?2) AND t0.\"new_integer\"=?3)");
	assert_where("((new_integer eq 1 and (new_integer eq 2)) and new_integer eq 3)",
				 "(t0.\"new_integer\"=?1 AND t0.\"new_integer\"=?2 AND t0.\"new_integer\"=?3)");
	/* De Morgan */
	assert_where("not (new_integer eq 1 and new_text ne 'x')",
				 "((t0.\"new_integer\"<>?1 OR t0.\"new_integer\" IS NULL) OR t0.\"new_text\"=?2)");
}

static void
columns_with_each_other(void **state)
{
	(void) state;
	assert_where("new_text eq new_name", "(t0.\"new_text\"=t0.\"new_name\")");
	/* only NULL on the left side makes it true */
	assert_where("new_text ne new_name",
				 "(t0.\"new_text\"<>t0.\"new_name\" OR t0.\"new_text\" IS NULL)");
	assert_where("new_money le new_money4", "(t0.\"new_money\"<=t0.\"new_money4\")");
	assert_bad("new_integer eq new_bigint", SIM_BAD_QUERY);
	assert_bad("new_text eq new_memo", SIM_BAD_QUERY);
	assert_refused("new_text eq new_integer", SIM_BAD_QUERY,
				   "A binary operator with incompatible types was detected. Found operand types "
				   "'Edm.String' and 'Edm.Int32' for operator kind 'Equal'.");
}

static void
text_functions(void **state)
{
	(void) state;
	assert_where("contains(new_text,'50%')", "dv_like(t0.\"new_text\",?1)");
	assert_text(1, "%50%%");
	assert_where("startswith(new_memo,'a')", "dv_like(t0.\"new_memo\",?1)");
	assert_text(1, "a%");
	assert_where("endswith(new_name,'[_]')", "dv_like(t0.\"new_name\",?1)");
	assert_text(1, "%[_]");
	assert_bad("contains(new_integer,'5')", SIM_BAD_QUERY);
	assert_bad("contains(new_text,5)", SIM_BAD_QUERY);
	assert_bad("contains('x',new_text)", SIM_BAD_QUERY);
	assert_bad("contains(new_text)", SIM_BAD_QUERY);
	assert_bad("contains(new_choices,'1')", SIM_BAD_QUERY);
}

/* ----------
 * Paths and lambdas
 * ----------
 */

static void
assert_from(const char *text)
{
	struct sim_buf buf = {0};

	sim_from_sql(&from, &buf);
	assert_string_equal(buf.s, text);
	sim_buf_free(&buf);
}

static void
lookups(void **state)
{
	(void) state;
	assert_where("new_MeterId/new_serial eq 'a' and new_MeterId/new_AccountId/name ne 'b'",
				 "(t1.\"new_serial\"=?1 AND (t2.\"name\"<>?2 OR t2.\"name\" IS NULL))");
	assert_from("\"new_alltypes\" AS t0 LEFT JOIN \"new_meter\" AS t1 ON "
				"t1.\"new_meterid\"=t0.\"new_meterid\" LEFT JOIN \"account\" AS t2 ON "
				"t2.\"accountid\"=t1.\"new_accountid\"");
	assert_where("new_customerid_contact/lastname eq 'a'", "t1.\"lastname\"=?1");
	assert_from("\"new_alltypes\" AS t0 LEFT JOIN \"contact\" AS t1 ON "
				"t1.\"contactid\"=t0.\"new_customerid\" AND t0.\"new_customerid.type\"='contact'");
	/* elastic rows cannot be joined */
	assert_bad("new_ReadingId/new_name eq 'a'", "0x80048d0b");
}

static void
lambdas(void **state)
{
	(void) state;
	/* columns are compared within one row */
	assert_false(translate("account", "contact_customer_accounts/any(o:o/lastname eq name)"));
	assert_string_equal(response.error_code, SIM_BAD_QUERY);
	assert_true(translate("account", "contact_customer_accounts/any()"));
	assert_string_equal(where.s, "t0.\"accountid\" IN (SELECT t1.\"parentcustomerid\" FROM "
						"\"contact\" AS t1 WHERE t1.\"parentcustomerid\" IS NOT NULL AND "
						"t1.\"parentcustomerid.type\"='account')");
	assert_true(translate("account", "new_account_new_meter/all(m:m/new_number gt 1)"));
	assert_string_equal(where.s, "t0.\"accountid\" NOT IN (SELECT t1.\"new_accountid\" FROM "
						"\"new_meter\" AS t1 WHERE t1.\"new_accountid\" IS NOT NULL AND "
						"(t1.\"new_number\">?1) IS NOT TRUE)");
	assert_true(translate("account", "not new_account_new_meter/any(m:m/new_number gt 1)"));
	assert_string_equal(where.s, "t0.\"accountid\" NOT IN (SELECT t1.\"new_accountid\" FROM "
						"\"new_meter\" AS t1 WHERE t1.\"new_accountid\" IS NOT NULL AND "
						"(t1.\"new_number\">?1))");
	/* nested, with a lookup inside and a function on the variable */
	assert_true(translate("account", "new_account_new_meter/any(m:m/new_meter_new_meter/any(c:"
						  "c/new_ContactId/lastname eq 'x') and "
						  "m/Microsoft.Dynamics.CRM.In(PropertyName='new_number',"
						  "PropertyValues=[\"1\",\"2\"]))"));
	assert_string_equal(where.s, "t0.\"accountid\" IN (SELECT t1.\"new_accountid\" FROM "
						"\"new_meter\" AS t1 WHERE t1.\"new_accountid\" IS NOT NULL AND "
						"((t1.\"new_meterid\" IN (SELECT t2.\"new_parentid\" FROM \"new_meter\" "
						"AS t2 LEFT JOIN \"contact\" AS t3 ON t3.\"contactid\"="
						"t2.\"new_contactid\" WHERE t2.\"new_parentid\" IS NOT NULL AND "
						"(t3.\"lastname\"=?1)) AND t1.\"new_number\" IN (?2,?3))))");
	/* N:N */
	assert_true(translate("account", "new_Account_Contact/any(c:c/lastname eq 'x')"));
	assert_non_null(strstr(where.s, "JOIN \"new_account_contact\" AS i ON"));
	/* not below a lookup, not without a body, and only on collections */
	assert_false(translate("account", "primarycontactid/contact_customer_contacts/any()"));
	assert_false(translate("account", "contact_customer_accounts/all()"));
	assert_false(translate("account", "nothing/any()"));
	assert_string_equal(response.error_code, "0x0");
}

/* ----------
 * Query functions
 * ----------
 */

#define FN(name, args) "Microsoft.Dynamics.CRM." name "(PropertyName='" args ")"

static void
lists(void **state)
{
	(void) state;
	assert_where(FN("In", "new_text',PropertyValues=[\"O'Brian\",\"a\\\"b\",\"c\"]"),
				 "t0.\"new_text\" IN (?1,?2,?3,?3)");
	assert_text(1, "O'Brian");
	assert_text(2, "a\"b");
	assert_where(FN("In", "new_text',PropertyValues=['x','y']"), "t0.\"new_text\" IN (?1,?2)");
	assert_text(2, "y");
	assert_where(FN("In", "new_meterid',PropertyValues=[\"" ID "\"]"),
				 "t0.\"new_meterid\" IN (?1)");
	assert_guid(1, ID);
	assert_where(FN("In", "_new_meterid_value',PropertyValues=[\"" ID "\"]"),
				 "t0.\"new_meterid\" IN (?1)");
	assert_where(FN("NotIn", "new_integer',PropertyValues=[\"1\",\"2\"]"),
				 "(t0.\"new_integer\" NOT IN (?1,?2) OR t0.\"new_integer\" IS NULL)");
	assert_int(2, 2);
	assert_where(FN("Between", "new_integer',PropertyValues=[\"5\",\"2000\"]"),
				 "t0.\"new_integer\" BETWEEN ?1 AND ?2");
	assert_where(FN("NotBetween", "new_integer',PropertyValues=[\"5\",\"9\"]"),
				 "(t0.\"new_integer\" NOT BETWEEN ?1 AND ?2 OR t0.\"new_integer\" IS NULL)");
	assert_where(FN("ContainValues", "new_choices',PropertyValues=[\"1\",\"9\"]"),
				 "(instr(t0.\"new_choices\",?1) OR instr(t0.\"new_choices\",?2))");
	assert_text(2, ",9,");
	assert_where(FN("DoesNotContainValues", "new_choices',PropertyValues=[\"1\"]"),
				 "(NOT (instr(t0.\"new_choices\",?1)) OR t0.\"new_choices\" IS NULL)");
	assert_bad(FN("In", "new_text',PropertyValues=['O'Brian']"), SIM_BAD_QUERY);
	assert_bad(FN("In", "new_text',PropertyValues=[]"), "0x80040203");
	assert_bad(FN("In", "new_text',PropertyValues=[null]"), SIM_BAD_QUERY);
	assert_bad(FN("In", "new_text',PropertyValues='x'"), SIM_BAD_QUERY);
	assert_bad(FN("In", "new_text'"), SIM_BAD_QUERY);
	assert_bad(FN("In", "new_integer',PropertyValues=[\"x\"]"), SIM_BAD_QUERY);
	assert_bad(FN("In", "New_Text',PropertyValues=[\"x\"]"), "0x80041103");
	assert_bad(FN("Between", "new_integer',PropertyValues=[\"5\"]"), "0x80040203");
	assert_bad(FN("ContainValues", "new_choice',PropertyValues=[\"1\"]"), "0x80040203");
	assert_bad(FN("ContainValues", "new_choices',PropertyValues=[\"x\"]"), "0x80040203");
}

static void
aliases(void **state)
{
	(void) state;
	sim_pair_add(arena, &request.params, "@p1", "'new_text'");
	sim_pair_add(arena, &request.params, "@p2", "[\"O'Brian\",\"Bo\"]");
	sim_pair_add(arena, &request.params, "@p3", "@p1");
	sim_pair_add(arena, &request.params, "@p4", "'a' eq");
	assert_where("Microsoft.Dynamics.CRM.In(PropertyName=@p1,PropertyValues=@p2)",
				 "t0.\"new_text\" IN (?1,?2)");
	assert_text(1, "O'Brian");
	assert_where("new_text eq @p1", "t0.\"new_text\"=?1");
	assert_text(1, "new_text");
	/* an alias is a literal */
	assert_bad("new_text eq @p3", SIM_BAD_QUERY);
	assert_bad("new_text eq @p4", SIM_BAD_QUERY);
}

static void
identities(void **state)
{
	(void) state;
	assert_where(FN("EqualUserId", "ownerid'"), "t0.\"ownerid\"=?1");
	assert_guid(1, "00000000-0000-0000-0000-0000000000a1");
	assert_where(FN("NotEqualBusinessId", "owningbusinessunit'"),
				 "(t0.\"owningbusinessunit\"<>?1 OR t0.\"owningbusinessunit\" IS NULL)");
	assert_guid(1, "00000000-0000-0000-0000-0000000000b1");
	assert_bad(FN("EqualUserId", "new_text'"), "0x80040203");
}

static void
dates(void **state)
{
	int64_t		today = NOW / DAY * DAY;

	(void) state;
	assert_where(FN("Today", "new_datetime'"),
				 "(t0.\"new_datetime\">=?1 AND t0.\"new_datetime\"<?2)");
	assert_int(1, today);
	assert_int(2, today + DAY);
	assert_where(FN("LastXDays", "new_datetime',PropertyValue=3"),
				 "(t0.\"new_datetime\">=?1 AND t0.\"new_datetime\"<?2)");
	assert_int(1, today - 3 * DAY);
	assert_int(2, NOW + 1);
	assert_where(FN("LastXDays", "new_datetime',PropertyValue='3'"),
				 "(t0.\"new_datetime\">=?1 AND t0.\"new_datetime\"<?2)");
	assert_where(FN("NextXHours", "new_datetime',PropertyValue=2"),
				 "(t0.\"new_datetime\">=?1 AND t0.\"new_datetime\"<?2)");
	assert_int(1, NOW);
	assert_int(2, NOW + 7201);
	assert_where(FN("OlderThanXMonths", "new_datetime',PropertyValue=1"),
				 "(t0.\"new_datetime\"<?1)");
	assert_int(1, today - 28 * DAY);
	assert_where(FN("ThisWeek", "new_date'"), "(t0.\"new_date\">=?1 AND t0.\"new_date\"<?2)");
	assert_int(1, today - 3 * DAY);
	assert_int(2, today + 4 * DAY);
	assert_where(FN("On", "new_datetime',PropertyValue=2026-03-18"),
				 "(t0.\"new_datetime\">=?1 AND t0.\"new_datetime\"<?2)");
	assert_int(1, today);
	assert_where(FN("OnOrAfter", "new_datetime',PropertyValue='2026-03-18T23:00:00Z'"),
				 "(t0.\"new_datetime\">=?1)");
	assert_int(1, today);
	assert_where(FN("OnOrBefore", "new_datetime',PropertyValue=2026-03-18"),
				 "(t0.\"new_datetime\"<?1)");
	assert_int(1, today + DAY);
	assert_where(FN("InFiscalPeriodAndYear", "new_date',PropertyValue1=1,PropertyValue2=2026"),
				 "(t0.\"new_date\">=?1 AND t0.\"new_date\"<?2)");
	assert_bad(FN("LastXHours", "new_date',PropertyValue=2"), "0x80040203");
	assert_bad(FN("LastXDays", "new_datetime',PropertyValue=0"), "0x80040203");
	assert_bad(FN("LastXDays", "new_datetime',PropertyValue=x"), SIM_BAD_QUERY);
	assert_bad(FN("LastXDays", "new_datetime'"), SIM_BAD_QUERY);
	assert_bad(FN("Today", "new_text'"), "0x80040203");
	assert_bad(FN("On", "new_datetime',PropertyValue='soon'"), SIM_BAD_QUERY);
	assert_bad(FN("On", "new_datetime',PropertyValue=1066-10-14"), "0x80040239");
}

/* the calendar on which they are based */
static void
windows(void **state)
{
	static const struct
	{
		const char *name;
		int64_t		now;
		int64_t		x;
		int64_t		from;
		int64_t		to;
	}			cases[] = {
		/* a month before 31 March 2024 is 29 February */
		{"LastXMonths", 1711843200, 1, 1709164800, 1711843201},
		{"LastXYears", 1709164800, 1, 1677542400, 1709164801},	/* 29 February 2024 */
		{"LastMonth", 1709164800, 0, 1704067200, 1706745600},
		{"NextYear", 1709164800, 0, 1735689600, 1767225600},
		{"LastWeek", 1711843200, 0, 1711238400, 1711843200},	/* on a Sunday */
		{"Yesterday", 1, 0, -DAY, 0},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const struct sim_window_op *op = sim_window_by_function(cases[i].name,
																strlen(cases[i].name));
		struct sim_window window;

		assert_non_null(op);
		window = sim_window_of(op, cases[i].now, cases[i].x, false);
		assert_int_equal(window.from, cases[i].from);
		assert_int_equal(window.to, cases[i].to);
	}
	/* as far back as possible */
	assert_true(sim_window_of(sim_window_by_function("OlderThanXYears", 15), NOW, INT32_MAX,
							  false).to < -NOW * 1000);
	assert_null(sim_window_by_function("LastXdays", 9));
	assert_ptr_equal(sim_window_by_function("Last7Days", 9),
					 sim_window_by_condition("last-seven-days", 15));
}

/* ----------
 * Refusals
 * ----------
 */

static void
types_that_do_not_fit(void **state)
{
	static const char *const filters[] = {
		"new_integer eq '5'", "new_text eq 5", "new_text eq " ID, "new_boolean eq 1",
		"new_boolean eq 'true'", "_new_meterid_value eq '" ID "'", "new_datetime eq '2026-03-18'",
		"new_date eq 2026-03-18T10:30:00Z", "new_choice eq 'First'", "new_decimal eq '1'",
		"new_integer eq true", "new_text eq Microsoft.Dynamics.CRM.Kind'X'", "new_image eq 'x'",
		"new_managed eq true",
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
	{
		assert_bad(filters[i], SIM_BAD_QUERY);
		assert_non_null(strstr(response.error_message, "A binary operator with incompatible "
							   "types was detected. Found operand types 'Edm.") ?
						response.error_message : strstr(response.error_message, "Boolean"));
	}
	assert_refused("new_MeterId eq " ID, SIM_BAD_QUERY,
				   "A binary operator with incompatible types was detected. Found operand types "
				   "'Microsoft.Dynamics.CRM.new_meter' and 'Edm.Guid' for operator kind 'Equal'.");
	assert_bad("new_datetime lt 1066-10-14", "0x80040239");
}

static void
unknown_names(void **state)
{
	(void) state;
	assert_refused("Name eq 'x'", "0x0", "Could not find a property named 'Name' on type "
				   "'Microsoft.Dynamics.CRM.new_alltypes'.");
	assert_refused("new_meterid eq " ID, "0x0", "Could not find a property named 'new_meterid' on "
				   "type 'Microsoft.Dynamics.CRM.new_alltypes'.");
	assert_refused("new_MeterId/nothing eq 1", "0x0", "Could not find a property named 'nothing' "
				   "on type 'Microsoft.Dynamics.CRM.new_meter'.");
	assert_bad("nothing/new_name eq 'x'", "0x0");
	/* a column that cannot be read has no property to filter by */
	assert_bad("new_hidden eq 'x'", "0x0");
	assert_bad("new_text eq nothing", "0x0");
}

static void
unsupported(void **state)
{
	static const char *const filters[] = {
		"tolower(new_text) eq 'x'", "length(new_text) gt 3", "year(new_datetime) eq 2026",
		"indexof(new_text,'x') eq 1", "concat(new_text,'x') eq 'y'", "trim(new_text) eq 'x'",
		"new_integer in (1,2)", "new_integer add 1 eq 2", "1 eq new_integer add 1",
		"new_choices has Microsoft.Dynamics.CRM.X'a'", "new_datetime gt now()",
		"cast(new_text,Edm.Int32) eq 1", "1 eq 1", "5 lt new_integer", "new_boolean", "true",
		"new_text", "not new_text", "not new_boolean", "contains(new_text,'x') eq true",
		"new_integer eq 1 eq true", "(new_integer eq 1) eq true",
		"Microsoft.Dynamics.CRM.Nothing(PropertyName='new_text')",
		"Microsoft.Dynamics.CRM.Under(PropertyName='new_meterid',PropertyValue='x')",
		"Microsoft.Dynamics.CRM.EqualUserTeams(PropertyName='ownerid')",
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		assert_bad(filters[i], SIM_BAD_QUERY);
	assert_refused("not " FN("In", "new_text',PropertyValues=[\"x\"]"), SIM_BAD_QUERY,
				   "Not operator along with the Custom Named Condition operators is not allowed");
	assert_bad("not (new_text eq 'x' or " FN("Today", "new_datetime'") ")", SIM_BAD_QUERY);
}

static void
syntax_errors(void **state)
{
	static const char *const filters[] = {
		"", " ", "new_text eq", "eq 'x'", "new_text eq 'x", "new_text eq 'it''", "'",
		"(new_text eq 'x'", "new_text eq 'x')", "new_text eq 'x' and", "not", "()",
		"new_text eq 'x' new_text eq 'y'", "new_text = 'x'", "new_text eq 5x", "new_text EQ 'x'",
		"new_text/ eq 'x'", "/new_text eq 'x'", "new_text eq \"x\"", "@", "new_text eq @",
		"contains(new_text,'x'", "contains(,)", "o/any(", "o/any(o", "o/any(o:", "o/any(o:)",
		"Microsoft.Dynamics.CRM.In(", "Microsoft.Dynamics.CRM.In(PropertyName",
		"Microsoft.Dynamics.CRM.In(PropertyName=", "Microsoft.Dynamics.CRM.In(PropertyName='x'",
		"Microsoft.Dynamics.CRM.In(PropertyName='x',PropertyValues=[\"a\"", "new_integer eq -",
		"new_integer eq 1.", "new_integer eq 1e", "new_datetime eq 2026-03-18T", "#", "\x80\xff",
		"new_datetime eq 2026-03-18T10:00:00 02:00", "new_integer eq --1",
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		assert_bad(filters[i], SIM_BAD_QUERY);
	assert_refused("new_text = 'x'", SIM_BAD_QUERY,
				   "Syntax error at position 9 in 'new_text = 'x''.");
	assert_refused("new_text eq 'x", SIM_BAD_QUERY,
				   "There is an unterminated string literal at position 12 in 'new_text eq 'x'.");
}

/* ----------
 * Limits
 * ----------
 */

/* repeats the text n times, with a separator */
static char *
repeat(const char *text, const char *separator, int n)
{
	struct sim_buf buf = {0};
	char	   *copy;
	int			i;

	for (i = 0; i < n; i++)
		sim_putf(&buf, "%s%s", i > 0 ? separator : "", text);
	copy = sim_strndup(arena, buf.s, buf.len);
	sim_buf_free(&buf);
	return copy;
}

/*
 * returns true if SQLite can parse it (names need not exist, because syntax errors are reported
 * first)
 */
static void
assert_parsable(void)
{
	sqlite3    *db;
	sqlite3_stmt *stmt = NULL;
	struct sim_buf text = {0};

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	sim_puts(&text, "SELECT t0.a,(SELECT n.b FROM c AS n WHERE n.d=t0.a) FROM ");
	sim_from_sql(&from, &text);
	sim_putf(&text, " WHERE t0.e=1 AND %s ORDER BY 1 LIMIT 5", where.s);
	sqlite3_prepare_v2(db, text.s, -1, &stmt, NULL);
	assert_string_equal(strstr(sqlite3_errmsg(db), "no such table") ? "" : sqlite3_errmsg(db), "");
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	sim_buf_free(&text);
}

static void
conditions(void **state)
{
	(void) state;
	assert_true(translate("new_alltypes", repeat("new_integer ne 1", " or ", 500)));
	assert_parsable();
	assert_bad(repeat("new_integer ne 1", " or ", 501), "0x8004430C");
}

/* makes a filter that is nested n levels deep: and, or, and, … */
static char *
nested(int n)
{
	struct sim_buf buf = {0};
	char	   *copy;
	int			i;

	for (i = 0; i < n; i++)
		sim_putf(&buf, "(new_integer ne 1 %s ", i % 2 ? "and" : "or");
	sim_puts(&buf, "not contains(new_text,'x')");
	for (i = 0; i < n; i++)
		sim_putc(&buf, ')');
	copy = sim_strndup(arena, buf.s, buf.len);
	sim_buf_free(&buf);
	return copy;
}

/* makes nested collections */
static char *
nested_lambdas(int n)
{
	struct sim_buf buf = {0};
	char	   *copy;
	int			i;

	for (i = 0; i < n; i++)
		sim_putf(&buf, "v%d/new_meter_new_meter/any(v%d:v%d/new_number ne 1 and ", i, i + 1, i + 1);
	sim_putf(&buf, "v%d/new_number ne 1", n);
	for (i = 0; i < n; i++)
		sim_putc(&buf, ')');
	/* the first one starts at the row itself */
	copy = sim_fmt(arena, "%s", buf.s + 3);
	sim_buf_free(&buf);
	return copy;
}

static void
depth(void **state)
{
	int			i;

	(void) state;
	for (i = 1; translate("new_alltypes", nested(i)); i++)
		assert_parsable();
	assert_true(i > 20);
	assert_string_equal(response.error_message, "Recursion depth exceeded allowed limit.");
	for (i = 1; translate("new_meter", nested_lambdas(i)); i++)
		assert_parsable();
	assert_true(i > 3);
	assert_string_equal(response.error_message, "Recursion depth exceeded allowed limit.");
	/* no number of parentheses and nots leads to a crash */
	assert_bad(repeat("(", "", 30000), SIM_BAD_QUERY);
	assert_bad(repeat("not", " ", 10000), SIM_BAD_QUERY);
	assert_bad(repeat("a", "/", 10000), SIM_BAD_QUERY);
	assert_bad(sim_fmt(arena, "new_text eq %s", repeat("''", " eq ", 10000)), SIM_BAD_QUERY);
}

/* ----------
 * Cookies
 * ----------
 */

static void
cookies(void **state)
{
	struct sim_mark marks[3] = {
		{.name = "name", .last = "a\"<&>\n%'\xc3\xa9", .first = "b"},
		{.name = "revenue", .null = true, .first_null = true},
		{.name = "accountid", .last = "{8F52}", .first = "{8F51}"}
	};
	struct sim_cookie cookie = {3, true, marks, 3};
	struct sim_cookie back;
	struct sim_buf url = {0};
	char	   *text;

	(void) state;
	sim_link_cookie(&url, &cookie);
	assert_memory_equal(url.s, "$skiptoken=%3Ccookie%20pagenumber=%223%22%20pagingcookie=%22"
						"%253ccookie%2520page%253d%25222%2522%253e%253cname%2520last%253d%2522",
						30);
	text = sim_strdup(arena, strchr(url.s, '=') + 1);

	assert_true(sim_url_decode(text, true));
	assert_true(sim_cookie_parse(&request, &response, text, &back));
	assert_int_equal(back.page, 3);
	assert_true(back.tracking);
	assert_int_equal(back.n, 3);
	assert_string_equal(sim_cookie_mark(&back, "name")->last, marks[0].last);
	assert_true(sim_cookie_mark(&back, "revenue")->null);
	assert_string_equal(sim_cookie_mark(&back, "accountid")->last, "{8F52}");
	assert_null(sim_cookie_mark(&back, "nothing"));
	sim_buf_free(&url);
}

static void
bad_cookies(void **state)
{
	static const char *const texts[] = {
		"", "2", "<cookie", "<cookie/>", "<cookie pagenumber='2'/>",
		"<cookie pagenumber='1' pagingcookie='%3ccookie%20page=%220%22%3e%3c/cookie%3e'/>",
		"<cookie pagenumber='2' pagingcookie='%3ccookie%20page=%221%22%3e%3c/cookie%3e'/>",
		"<cookie pagenumber='2' pagingcookie='%zz'/>", "<cookie pagenumber='2' pagingcookie='x'/>",
		"<a><cookie pagenumber='2' pagingcookie='%3ccookie%3e%3ca/%3e'/></a>",
	};
	struct sim_cookie cookie;
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		assert_false(sim_cookie_parse(&request, &response, texts[i], &cookie));
		assert_string_equal(response.error_code, "0x8004112A");
		sim_buf_free(&response.body);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(compares, begin, end),
		cmocka_unit_test_setup_teardown(compares_with_null, begin, end),
		cmocka_unit_test_setup_teardown(negations_let_null_through, begin, end),
		cmocka_unit_test_setup_teardown(logic, begin, end),
		cmocka_unit_test_setup_teardown(columns_with_each_other, begin, end),
		cmocka_unit_test_setup_teardown(text_functions, begin, end),
		cmocka_unit_test_setup_teardown(lookups, begin, end),
		cmocka_unit_test_setup_teardown(lambdas, begin, end),
		cmocka_unit_test_setup_teardown(lists, begin, end),
		cmocka_unit_test_setup_teardown(aliases, begin, end),
		cmocka_unit_test_setup_teardown(identities, begin, end),
		cmocka_unit_test_setup_teardown(dates, begin, end),
		cmocka_unit_test_setup_teardown(windows, begin, end),
		cmocka_unit_test_setup_teardown(types_that_do_not_fit, begin, end),
		cmocka_unit_test_setup_teardown(unknown_names, begin, end),
		cmocka_unit_test_setup_teardown(unsupported, begin, end),
		cmocka_unit_test_setup_teardown(syntax_errors, begin, end),
		cmocka_unit_test_setup_teardown(conditions, begin, end),
		cmocka_unit_test_setup_teardown(depth, begin, end),
		cmocka_unit_test_setup_teardown(cookies, begin, end),
		cmocka_unit_test_setup_teardown(bad_cookies, begin, end),
	};

	return cmocka_run_group_tests(tests, set_up, unload);
}
