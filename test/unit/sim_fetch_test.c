/*
 * sim_fetch_test.c
 *		FetchXML as SQL: the resulting text, and queries that are refused.
 *
 * These tests need only the schema; no SQL is run.  The time is always
 * 2026-03-18 10:30:00 UTC, a Wednesday.
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

#include "fetch/fetch_fiscal.h"
#include "fetch/fetch_sql.h"

#define NOW INT64_C(1773829800)
#define DAY INT64_C(86400)

static struct sim simulator;
static struct sim_arena *arena;
static struct sim_req request;
static struct sim_res response;
static struct sim_fetch_query query;

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
	request.base_url = "http://localhost";
	strcpy(request.user_id, "00000000-0000-0000-0000-0000000000a1");
	return 0;
}

static int
end(void **state)
{
	(void) state;
	sim_fetch_free(&query);
	memset(&query, 0, sizeof(query));
	sim_buf_free(&response.body);
	sim_arena_free(arena);
	return 0;
}

/* if true, query has the translation; if false, response has the error */
static bool
translate(const char *set, const char *xml)
{
	sim_fetch_free(&query);
	memset(&query, 0, sizeof(query));
	sim_buf_free(&response.body);
	memset(&response, 0, sizeof(response));
	query.req = &request;
	query.res = &response;
	query.table = sim_table_by_set(simulator.schema, set, strlen(set));
	assert_non_null(query.table);
	return sim_fetch_parse(&request, &response, xml, &query.tree) &&
		sim_fetch_translate(&query) && sim_fetch_page(&query);
}

static void
assert_refused(const char *set, const char *xml, const char *code)
{
	if (translate(set, xml))
		fail_msg("accepted: %s", xml);
	if (strcmp(response.error_code, code) != 0)
		fail_msg("%s: %s", xml, response.error_message);
	assert_int_equal(response.status, 400);
}

/* the whole statement */
static void
assert_sql(const char *set, const char *xml, const char *sql)
{
	if (!translate(set, xml))
		fail_msg("%s: %s %s", xml, response.error_code, response.error_message);
	assert_string_equal(query.sql.s, sql);
}

static void
assert_no_sql(const char *xml, const char *code)
{
	assert_refused("accounts", xml, code);
}

/* the WHERE clause of conditions on account */
static void
assert_where(const char *conditions, const char *where)
{
	const char *xml = sim_fmt(arena, "<fetch><entity name='account'><attribute name='name'/>"
							  "<filter>%s</filter></entity></fetch>", conditions);
	const char *start;

	if (!translate("accounts", xml))
		fail_msg("%s: %s %s", conditions, response.error_code, response.error_message);
	start = strstr(query.sql.s, " WHERE 1 AND (");
	assert_non_null(start);
	start += strlen(" WHERE 1 AND (");
	assert_string_equal(sim_strndup(arena, start, strstr(start, ") ORDER BY") - start), where);
}

static void
refuse_condition(const char *condition, const char *code)
{
	assert_no_sql(sim_fmt(arena, "<fetch><entity name='account'><filter>%s</filter></entity>"
						  "</fetch>", condition), code);
}

static void
test_plain(void **state)
{
	(void) state;
	assert_sql("accounts", "<fetch><entity name='account'><attribute name='name'/></entity></fetch>",
			   "SELECT t0.\"versionnumber\",t0.\"name\",t0.\"accountid\" FROM \"account\" AS t0 "
			   "WHERE 1 ORDER BY t0.\"accountid\" LIMIT ?1");
	assert_int_equal(query.binds[0].i, 5001);
	assert_sql("accounts", "<fetch top='7'><entity name='account'><attribute name='name'/>"
			   "<order attribute='name' descending='1'/></entity></fetch>",
			   "SELECT t0.\"versionnumber\",t0.\"name\",t0.\"accountid\" FROM \"account\" AS t0 "
			   "WHERE 1 ORDER BY t0.\"name\" COLLATE DV DESC,t0.\"accountid\" LIMIT ?1");
	assert_int_equal(query.binds[0].i, 7);
	assert_sql("accounts", "<fetch distinct='true'><entity name='account'>"
			   "<attribute name='name'/></entity></fetch>",
			   "SELECT DISTINCT t0.\"name\" FROM \"account\" AS t0 WHERE 1 "
			   "ORDER BY t0.\"name\" COLLATE DV LIMIT ?1");
}

static void
test_tolerance(void **state)
{
	(void) state;
	assert_true(translate("accounts", "<?xml version='1.0'?>\n<!-- a --><fetch mapping='logical' "
						  "version='1.0' output-format='xml-platform' no-lock='true'>\n <!-- b -->"
						  "\n<entity name=\"account\">\n\t<attribute name='name'/>\n"
						  "<filter><condition attribute='name' operator='in' uiname='x'>"
						  "<!-- c --><value uitype='y'>a</value>\n</condition></filter>"
						  "</entity>\n</fetch>\n"));
}

static void
test_conditions(void **state)
{
	(void) state;
	assert_where("<condition attribute='name' operator='eq' value='a'/>", "(t0.\"name\"=?1)");
	assert_string_equal(query.binds[0].s, "a");
	assert_where("<condition attribute='name' operator='ne' value='a'/>",
				 "(t0.\"name\" IS NULL OR t0.\"name\"<>?1)");
	assert_where("<condition attribute='numberofemployees' operator='neq' value='3'/>",
				 "(t0.\"numberofemployees\" IS NULL OR t0.\"numberofemployees\"<>?1)");
	assert_int_equal(query.binds[0].i, 3);
	assert_where("<condition attribute='name' operator='not-in'><value>a</value><value>b</value>"
				 "</condition>",
				 "(t0.\"name\" IS NULL OR t0.\"name\" NOT IN (?1,?2))");
	assert_string_equal(query.binds[0].s, "a");
	assert_string_equal(query.binds[1].s, "b");
	assert_where("<condition attribute='name' operator='not-begin-with' value='a'/>",
				 "(t0.\"name\" IS NULL OR NOT dv_like(t0.\"name\",?1))");
	assert_string_equal(query.binds[0].s, "a%");
	assert_where("<condition attribute='name' operator='ends-with' value='a_'/>",
				 "(dv_like(t0.\"name\",?1))");
	assert_string_equal(query.binds[0].s, "%a_");
	assert_where("<condition attribute='numberofemployees' operator='not-between'>"
				 "<value>1</value><value>5</value></condition>",
				 "(t0.\"numberofemployees\" IS NULL OR "
				 "t0.\"numberofemployees\" NOT BETWEEN ?1 AND ?2)");
	assert_where("<condition attribute='name' operator='null'/>"
				 "<condition attribute='revenue' operator='not-null'/>",
				 "t0.\"name\" IS NULL AND t0.\"revenue\" IS NOT NULL");
	assert_where("<condition attribute='name' operator='ne' valueof='accountnumber'/>",
				 "(t0.\"name\" IS NULL OR t0.\"name\"<>t0.\"accountnumber\")");
	assert_where("<condition attribute='ownerid' operator='ne-userid'/>",
				 "(t0.\"ownerid\" IS NULL OR t0.\"ownerid\"<>?1)");
	assert_where("<filter type='or'><condition attribute='name' operator='null'/>"
				 "<filter><condition attribute='fax' operator='null'/></filter></filter>",
				 "(t0.\"name\" IS NULL OR (t0.\"fax\" IS NULL))");
}

static void
test_hierarchy(void **state)
{
	(void) state;
	assert_where("<condition attribute='accountid' operator='under' "
				 "value='{00000000-0000-0000-0000-000000000001}'/>",
				 "(t0.\"accountid\" IN (WITH RECURSIVE h(id) AS (SELECT \"accountid\" FROM "
				 "\"account\" WHERE \"parentaccountid\"=?1 UNION SELECT x.\"accountid\" FROM "
				 "\"account\" AS x JOIN h ON x.\"parentaccountid\"=h.id) "
				 "SELECT id FROM h WHERE id IS NOT NULL))");
	refuse_condition("<condition attribute='primarycontactid' operator='under' "
					 "value='00000000-0000-0000-0000-000000000001'/>", "0x80041106");
}

/* [from, to) of a fiscal operator */
static void
assert_fiscal(const char *name, long x, long y, int64_t from, int64_t to)
{
	const struct sim_fiscal_op *op = sim_fiscal_op(name);
	struct sim_window window;
	long		values[] = {x, y};

	assert_non_null(op);
	assert_true(sim_fiscal_window(op, NOW, values, &window));
	assert_int_equal(window.from, from);
	assert_int_equal(window.to, to);
}

static void
test_dates(void **state)
{
	long		fifth_quarter[] = {5, 2026};
	long		too_late[] = {1, 12026};
	const int64_t january = INT64_C(1767225600);
	const int64_t april = january + 90 * DAY;
	const struct sim_fiscal_op *op = sim_fiscal_op("in-fiscal-period-and-year");
	struct sim_window window;

	(void) state;
	assert_fiscal("this-fiscal-period", 0, 0, january, april);
	assert_fiscal("last-fiscal-period", 0, 0, january - 92 * DAY, january);
	assert_fiscal("next-fiscal-year", 0, 0, january + 365 * DAY, january + 730 * DAY);
	assert_fiscal("last-x-fiscal-periods", 2, 0, january - 184 * DAY, january);
	assert_fiscal("next-x-fiscal-years", 2, 0, january + 365 * DAY, january + 1096 * DAY);
	assert_fiscal("in-fiscal-year", 2026, 0, january, january + 365 * DAY);
	assert_fiscal("in-fiscal-period-and-year", 2, 2026, april, january + 181 * DAY);
	assert_fiscal("in-or-after-fiscal-period-and-year", 2, 2026, april, INT64_MAX);
	assert_fiscal("in-or-before-fiscal-period-and-year", 1, 2026, INT64_MIN, april);
	assert_false(sim_fiscal_window(op, NOW, fifth_quarter, &window));
	assert_false(sim_fiscal_window(op, NOW, too_late, &window));

	assert_where("<condition attribute='createdon' operator='on' value='2026-03-01'/>",
				 "(t0.\"createdon\">=?1 AND t0.\"createdon\"<?2)");
	assert_int_equal(query.binds[0].i, january + 59 * DAY);
	assert_int_equal(query.binds[1].i, january + 60 * DAY);
	assert_where("<condition attribute='createdon' operator='this-year'/>",
				 "(t0.\"createdon\">=?1 AND t0.\"createdon\"<?2)");
	assert_int_equal(query.binds[0].i, january);
	assert_int_equal(query.binds[1].i, january + 365 * DAY);
	assert_where("<condition attribute='createdon' operator='olderthan-x-days' value='1'/>",
				 "(t0.\"createdon\"<?1)");
}

/* the effect of a link on a query of account: result columns, joins, conditions, order */
static void
assert_link(const char *inside, const char *columns, const char *joins, const char *where,
			const char *order)
{
	const char *xml = sim_fmt(arena, "<fetch><entity name='account'><attribute name='name'/>"
							  "<attribute name='accountid'/>%s</entity></fetch>", inside);

	if (!translate("accounts", xml))
		fail_msg("%s: %s %s", xml, response.error_code, response.error_message);
	assert_string_equal(query.sql.s,
						sim_fmt(arena, "SELECT t0.\"versionnumber\",t0.\"name\",t0.\"accountid\""
								"%s FROM \"account\" AS t0%s WHERE 1%s ORDER BY "
								"t0.\"accountid\"%s LIMIT ?%d", columns, joins, where, order,
								query.nbinds));
}

#define TO_CONTACT "name='contact' from='contactid' to='primarycontactid'"
#define FROM_CONTACT "name='contact' from='parentcustomerid' to='accountid'"
#define BOSS "<filter><condition attribute='jobtitle' operator='eq' value='boss'/></filter>"

static void
test_joins(void **state)
{
	(void) state;
	/* the filter of an outer link belongs to the join, but an entityname condition does not */
	assert_link("<link-entity " TO_CONTACT " link-type='outer' alias='c'>"
				"<attribute name='jobtitle'/>" BOSS "</link-entity>"
				"<filter><condition entityname='c' attribute='contactid' operator='null'/>"
				"</filter>",
				",t1.\"jobtitle\"",
				" LEFT JOIN \"contact\" AS t1 ON t1.\"contactid\"=t0.\"primarycontactid\" AND "
				"((t1.\"jobtitle\"=?1))",
				" AND (t1.\"contactid\" IS NULL)", "");
	/* if a link multiplies rows, its key becomes part of the order, but not of the cookie */
	assert_link("<link-entity " FROM_CONTACT "/>", "",
				" CROSS JOIN \"contact\" AS t1 ON t1.\"parentcustomerid\"=t0.\"accountid\"", "",
				",t1.\"contactid\"");
	assert_string_equal(query.keys[1].name, "contact1.contactid");
	assert_int_equal(query.ncookie, 1);
	/* links are joined depth first; the default alias is the table's name */
	assert_link("<link-entity " TO_CONTACT "><link-entity name='systemuser' from='systemuserid' "
				"to='ownerid'/></link-entity><filter><condition entityname='contact' "
				"attribute='jobtitle' operator='null'/></filter>", "",
				" CROSS JOIN \"contact\" AS t1 ON t1.\"contactid\"=t0.\"primarycontactid\""
				" CROSS JOIN \"systemuser\" AS t2 ON t2.\"systemuserid\"=t1.\"ownerid\"",
				" AND (t1.\"jobtitle\" IS NULL)", "");
	assert_link("<link-entity " FROM_CONTACT " link-type='matchfirstrowusingcrossapply'>"
				"<attribute name='jobtitle'/>" BOSS "</link-entity>", ",t1.\"jobtitle\"",
				" CROSS JOIN \"contact\" AS t1 ON t1.\"contactid\"=(SELECT t1f.\"contactid\" FROM "
				"\"contact\" AS t1f WHERE t1f.\"parentcustomerid\"=t0.\"accountid\" AND "
				"((t1f.\"jobtitle\"=?1)) ORDER BY t1f.\"contactid\" LIMIT 1)", "", "");
	assert_string_equal(query.out.columns[2].name, "JobTitle");
	/* SQLite may begin with a link if an index finds its rows */
	assert_link("<link-entity " TO_CONTACT "><filter><condition attribute='contactid' "
				"operator='eq' value='00000000-0000-0000-0000-0000000000ff'/></filter></link-entity>",
				"", " JOIN \"contact\" AS t1 ON t1.\"contactid\"=t0.\"primarycontactid\" AND "
				"((t1.\"contactid\"=?1))", "", "");
}

static void
test_semi_joins(void **state)
{
	const char *all = "EXISTS (SELECT 1 FROM \"contact\" AS t1 WHERE "
	"t1.\"parentcustomerid\"=t0.\"accountid\")";
	const char *boss = "EXISTS (SELECT 1 FROM \"contact\" AS t1 WHERE "
	"t1.\"parentcustomerid\"=t0.\"accountid\" AND ((t1.\"jobtitle\"=?1)))";

	(void) state;
	assert_link("<link-entity " FROM_CONTACT " link-type='exists'>" BOSS "</link-entity>", "", "",
				sim_fmt(arena, " AND %s", boss), "");
	assert_link("<link-entity " FROM_CONTACT " link-type='in'>" BOSS "</link-entity>", "", "",
				sim_fmt(arena, " AND %s", boss), "");
	assert_link("<filter><link-entity " FROM_CONTACT " link-type='any'>" BOSS
				"</link-entity></filter>", "", "", sim_fmt(arena, " AND (%s)", boss), "");
	assert_link("<filter><link-entity " FROM_CONTACT " link-type='not any'>" BOSS
				"</link-entity></filter>", "", "", sim_fmt(arena, " AND (NOT %s)", boss), "");
	assert_link("<filter><link-entity " FROM_CONTACT " link-type='not all'>" BOSS
				"</link-entity></filter>", "", "", sim_fmt(arena, " AND (%s)", boss), "");
	assert_link("<filter><link-entity " FROM_CONTACT " link-type='all'>" BOSS
				"</link-entity></filter>", "", "",
				sim_fmt(arena, " AND ((%s AND NOT %s))", all, boss), "");
}

static void
test_many_to_many(void **state)
{
	(void) state;
	assert_link("<link-entity name='new_account_contact' intersect='true'><link-entity "
				"name='contact'/></link-entity>", "",
				" CROSS JOIN \"new_account_contact\" AS t1 ON t1.\"accountid\"=t0.\"accountid\""
				" CROSS JOIN \"contact\" AS t2 ON t2.\"contactid\"=t1.\"contactid\"", "",
				",t1.\"new_account_contactid\"");
	assert_link("<link-entity name='contact'/>", "",
				" CROSS JOIN \"contact\" AS t1 ON t1.\"contactid\" IN (SELECT \"contactid\" FROM "
				"\"new_account_contact\" WHERE \"accountid\"=t0.\"accountid\")", "",
				",t1.\"contactid\"");
	assert_no_sql("<fetch><entity name='account'><link-entity name='task'/></entity></fetch>",
				  "0x80041102");
}

static void
test_order(void **state)
{
	const char *xml = "<fetch%s><entity name='account'><attribute name='accountid'/>"
	"<order attribute='preferredcontactmethodcode'/></entity></fetch>";
	const char *start;

	(void) state;
	/* labels: Any, Email, Fax, Mail, Phone */
	assert_true(translate("accounts", sim_fmt(arena, xml, "")));
	start = strstr(query.sql.s, "ORDER BY");
	assert_string_equal(start, "ORDER BY CASE t0.\"preferredcontactmethodcode\" WHEN 1 THEN 0 "
						"WHEN 2 THEN 1 WHEN 4 THEN 2 WHEN 5 THEN 3 WHEN 3 THEN 4 END,"
						"t0.\"accountid\" LIMIT ?1");
	assert_true(translate("accounts", sim_fmt(arena, xml, " useraworderby='true'")));
	start = strstr(query.sql.s, "ORDER BY");
	assert_string_equal(start, "ORDER BY t0.\"preferredcontactmethodcode\",t0.\"accountid\" "
						"LIMIT ?1");
	assert_true(translate("accounts", "<fetch><entity name='account'>"
						  "<attribute name='accountid'/><order attribute='primarycontactid'/>"
						  "</entity></fetch>"));
	assert_true(query.cookie);
	assert_non_null(strstr(query.keys[0].expr, "FROM \"contact\" AS n"));
	/* there is no cookie if the order has a column of a link */
	assert_true(translate("accounts", "<fetch><entity name='account'>"
						  "<attribute name='accountid'/><link-entity " TO_CONTACT " alias='c'/>"
						  "<order entityname='c' attribute='jobtitle'/></entity></fetch>"));
	assert_false(query.cookie);
	/* a formula that is just a number is not a position in the select list */
	assert_true(translate("new_alltypeses", "<fetch><entity name='new_alltypes'>"
						  "<order attribute='new_rollup_state'/></entity></fetch>"));
	assert_string_equal(query.keys[0].expr, "0+(1)");
	assert_no_sql("<fetch><entity name='account'><order alias='x'/></entity></fetch>",
				  "0x80041132");
	assert_no_sql("<fetch><entity name='account'><order descending='true'/></entity></fetch>",
				  "0x80041133");
	assert_no_sql("<fetch><entity name='account'><order attribute='entityimage'/></entity></fetch>",
				  "0x8004111f");
	assert_no_sql("<fetch><entity name='account'><order entityname='c' attribute='name'/></entity>"
				  "</fetch>", "0x8004110a");
}

static void
test_aggregates(void **state)
{
	(void) state;
	assert_sql("accounts", "<fetch aggregate='true'><entity name='account'>"
			   "<attribute name='numberofemployees' alias='a' aggregate='avg'/>"
			   "<attribute name='revenue' alias='s' aggregate='sum'/>"
			   "<attribute name='name' alias='n' aggregate='countcolumn' distinct='true'/>"
			   "<attribute name='accountid' alias='c' aggregate='count'/></entity></fetch>",
			   "SELECT int_avg(c0),dec_sum(c1),COUNT(DISTINCT c2 COLLATE DV),COUNT(*) "
			   "FROM (SELECT t0.\"numberofemployees\" AS c0,"
			   "(dv_base(t0.\"revenue\", t0.\"exchangerate\")) AS c1,t0.\"name\" AS c2 "
			   "FROM \"account\" AS t0 WHERE 1) LIMIT ?1");
	assert_sql("accounts", "<fetch aggregate='true' aggregatelimit='10'><entity name='account'>"
			   "<attribute name='createdon' alias='m' groupby='true' dategrouping='month'/>"
			   "<attribute name='name' alias='n' groupby='true'/>"
			   "<attribute name='accountid' alias='c' aggregate='count'/>"
			   "<order alias='c' descending='true'/></entity></fetch>",
			   "SELECT c0,c1,COUNT(*) FROM (SELECT "
			   "CAST(strftime('%m',t0.\"createdon\",'unixepoch') AS INTEGER) AS c0,"
			   "t0.\"name\" AS c1 FROM \"account\" AS t0 WHERE 1 LIMIT 11) "
			   "GROUP BY c0,c1 COLLATE DV ORDER BY COUNT(*) DESC,c0,c1 COLLATE DV LIMIT ?1");
}

/* an attribute of an aggregate query */
static void
refuse_aggregate(const char *attribute, const char *code)
{
	assert_no_sql(sim_fmt(arena, "<fetch aggregate='true'><entity name='account'>%s</entity>"
						  "</fetch>", attribute), code);
}

static void
test_refused_aggregates(void **state)
{
	(void) state;
	refuse_aggregate("<attribute name='name' aggregate='count'/>", "0x80041109");
	refuse_aggregate("<attribute name='name' alias='a'/>", "0x80041107");
	refuse_aggregate("<all-attributes/>", "0x80041107");
	refuse_aggregate("<attribute name='name' alias='a' aggregate='count' groupby='true'/>",
					 "0x80041137");
	refuse_aggregate("<attribute name='name' alias='a' aggregate='sum'/>", "0x8004112F");
	refuse_aggregate("<attribute name='statecode' alias='a' aggregate='max'/>", "0x8004112F");
	refuse_aggregate("<attribute name='accountid' alias='a' aggregate='min'/>", "0x8004112F");
	refuse_aggregate("<attribute name='name' alias='a' aggregate='median'/>", "0x8004111a");
	refuse_aggregate("<attribute name='createdon' alias='a' groupby='true'/>", "0x80041135");
	refuse_aggregate("<attribute name='name' alias='a' groupby='true' dategrouping='day'/>",
					 "0x80041135");
	refuse_aggregate("<attribute name='createdon' alias='a' groupby='1' dategrouping='hour'/>",
					 "0x80041135");
	refuse_aggregate("<attribute name='name' alias='a' groupby='true'/><order attribute='name'/>",
					 "0x80041131");
	refuse_aggregate("<attribute name='name' alias='a' groupby='true'/><order/>", "0x80041134");
	refuse_aggregate("<attribute name='name' alias='a' groupby='true'/><order alias='b'/>",
					 "0x8004110a");
	refuse_aggregate("<attribute name='name' alias='a' groupby='true'/>"
					 "<attribute name='fax' alias='a' groupby='true'/>", "0x80041130");
	assert_no_sql("<fetch><entity name='account'><attribute name='name' alias='a' "
				  "aggregate='count'/></entity></fetch>", "0x8004111a");
	assert_refused("new_meters", "<fetch aggregate='true'><entity name='new_meter'>"
				   "<attribute name='new_features' alias='a' groupby='true'/></entity></fetch>",
				   "0x8004112F");
	assert_no_sql("<fetch aggregate='true' aggregatelimit='50001'><entity name='account'/></fetch>",
				  "0x80041139");
}

#define COOKIE(keys) "&lt;cookie page=&quot;2&quot;&gt;" keys "&lt;/cookie&gt;"
#define KEY(name, last) "&lt;" name " last=&quot;" last "&quot; first=&quot;x&quot; /&gt;"
#define NULL_KEY(name) "&lt;" name " lastnull=&quot;1&quot; first=&quot;x&quot; /&gt;"
#define ID KEY("accountid", "{00000000-0000-0000-0000-0000000000FF}")

/* page 3 by the cookie of page 2, ordered by name and by descending employees */
static const char *
paged(const char *page, const char *cookie)
{
	return sim_fmt(arena, "<fetch count='10' page='%s' paging-cookie='%s'><entity name='account'>"
				   "<attribute name='name'/><attribute name='accountid'/>"
				   "<order attribute='name'/><order attribute='numberofemployees' "
				   "descending='true'/></entity></fetch>", page, cookie);
}

static void
assert_after(const char *cookie, const char *where)
{
	const char *start;

	if (!translate("accounts", paged("3", cookie)))
		fail_msg("%s: %s", cookie, response.error_message);
	start = strstr(query.sql.s, " WHERE ");
	assert_non_null(start);
	start += strlen(" WHERE ");
	assert_non_null(strstr(start, " AND 1 ORDER BY"));
	assert_string_equal(sim_strndup(arena, start, strstr(start, " AND 1 ORDER BY") - start), where);
}

static void
test_paging(void **state)
{
	(void) state;
	assert_after(COOKIE(KEY("name", "b") KEY("numberofemployees", "7") ID),
				 "t0.\"name\" COLLATE DV>=?1 AND (t0.\"name\" COLLATE DV>?1 OR "
				 "t0.\"name\" COLLATE DV=?1 AND (t0.\"numberofemployees\"<?2 OR "
				 "t0.\"numberofemployees\" IS NULL) OR t0.\"name\" COLLATE DV=?1 AND "
				 "t0.\"numberofemployees\"=?2 AND t0.\"accountid\">?3)");
	assert_int_equal(query.binds[1].i, 7);
	assert_int_equal(query.binds[3].i, 11);
	/* null is the least value: first ascending, last descending */
	assert_after(COOKIE(NULL_KEY("name") NULL_KEY("numberofemployees") ID),
				 "(t0.\"name\" IS NOT NULL OR t0.\"name\" COLLATE DV IS NULL AND 0 OR "
				 "t0.\"name\" COLLATE DV IS NULL AND t0.\"numberofemployees\" IS NULL AND "
				 "t0.\"accountid\">?1)");
	/* the cookie of another page cannot be used, so rows are counted */
	assert_true(translate("accounts",
						  paged("4", COOKIE(KEY("name", "b") KEY("numberofemployees", "7") ID))));
	assert_non_null(strstr(query.sql.s, "LIMIT ?1 OFFSET ?2"));
	assert_int_equal(query.binds[1].i, 30);
	assert_no_sql(paged("3", COOKIE(KEY("name", "b") ID)), "0x80041129");
	assert_no_sql(paged("3", COOKIE(ID)), "0x80041129");
	assert_no_sql(paged("3", COOKIE(KEY("name", "b") KEY("numberofemployees", "x") ID)),
				  "0x8004112A");
	assert_no_sql(paged("3", "nonsense"), "0x8004112A");
	assert_no_sql(paged("3", "&lt;cookie/&gt;"), "0x8004112A");
	assert_no_sql(paged("3", "&lt;!DOCTYPE x&gt;&lt;cookie page=&quot;2&quot;/&gt;"),
				  "0x8004112A");
}

static void
test_page_limits(void **state)
{
	const char *entity = "<entity name='account'/></fetch>";

	(void) state;
	assert_true(translate("accounts", sim_fmt(arena, "<fetch count='9999'>%s", entity)));
	assert_int_equal(query.limit, 5000);
	assert_true(translate("new_readings", "<fetch><entity name='new_reading'/></fetch>"));
	assert_int_equal(query.limit, 500);
	assert_true(translate("accounts", sim_fmt(arena, "<fetch page='10'>%s", entity)));
	assert_no_sql(sim_fmt(arena, "<fetch page='11'>%s", entity), "0x8004430A");
	assert_no_sql(sim_fmt(arena, "<fetch page='999999999'>%s", entity), "0x8004430A");
	assert_true(translate("accounts", sim_fmt(arena, "<fetch top='5000'>%s", entity)));
	assert_false(query.may_have_more);
	assert_no_sql(sim_fmt(arena, "<fetch top='5001'>%s", entity), "0x80041139");
	assert_no_sql(sim_fmt(arena, "<fetch top='5' page='1'>%s", entity), "0x80040203");
	assert_no_sql(sim_fmt(arena, "<fetch top='5' count='1'>%s", entity), "0x80040203");
	assert_no_sql(sim_fmt(arena, "<fetch top='5' returntotalrecordcount='1'>%s", entity),
				  "0x80040203");
	assert_no_sql(sim_fmt(arena, "<fetch count='-1'>%s", entity), "0x80041139");
}

static void
test_cookie_text(void **state)
{
	const char *first[] = {"A & B", "{00000000-0000-0000-0000-0000000000AA}"};
	const char *last[] = {NULL, "{00000000-0000-0000-0000-0000000000FF}"};
	struct sim_buf text = {0};

	(void) state;
	assert_true(translate("accounts", "<fetch><entity name='account'><order attribute='name'/>"
						  "</entity></fetch>"));
	sim_fetch_put_cookie(&query, &text, first, last);
	assert_string_equal(text.s, "<cookie pagenumber=\"2\" pagingcookie=\""
						"%253ccookie%2520page%253d%25221%2522%253e"
						"%253cname%2520lastnull%253d%25221%2522%2520first%253d%2522"
						"A%2520%2526amp%253b%2520B%2522%2520%252f%253e"
						"%253caccountid%2520last%253d%2522%257b"
						"00000000-0000-0000-0000-0000000000FF%257d%2522%2520first%253d%2522%257b"
						"00000000-0000-0000-0000-0000000000AA%257d%2522%2520%252f%253e"
						"%253c%252fcookie%253e\" istracking=\"False\" />");
	sim_buf_free(&text);
}

/* makes a query with this many conditions and links */
static const char *
large(int conditions, int links)
{
	struct sim_buf xml = {0};
	const char *text;

	sim_puts(&xml, "<fetch><entity name='account'><filter>");
	while (conditions-- > 0)
		sim_puts(&xml, "<condition attribute='name' operator='null'/>");
	sim_puts(&xml, "</filter>");
	while (links-- > 0)
		sim_puts(&xml, "<link-entity " TO_CONTACT "/>");
	sim_puts(&xml, "</entity></fetch>");
	text = sim_strndup(arena, xml.s, xml.len);
	sim_buf_free(&xml);
	return text;
}

static const char *
nested(int depth)
{
	struct sim_buf xml = {0};
	const char *text;
	int			i;

	sim_puts(&xml, "<fetch><entity name='account'>");
	for (i = 0; i < depth; i++)
		sim_puts(&xml, "<filter>");
	for (i = 0; i < depth; i++)
		sim_puts(&xml, "</filter>");
	sim_puts(&xml, "</entity></fetch>");
	text = sim_strndup(arena, xml.s, xml.len);
	sim_buf_free(&xml);
	return text;
}

static void
test_limits(void **state)
{
	(void) state;
	assert_true(translate("accounts", large(500, 0)));
	assert_no_sql(large(501, 0), "0x8004430C");
	assert_true(translate("accounts", large(0, 15)));
	assert_no_sql(large(0, 16), "0x8004430D");
	assert_no_sql(large(499, 2), "0x8004430C");
	assert_true(translate("accounts", nested(60)));
	assert_no_sql(nested(5000), "0x8004111c");
}

static void
test_refused_form(void **state)
{
	(void) state;
	assert_no_sql("", "0x80040201");
	assert_no_sql("<fetch>", "0x80040201");
	assert_no_sql("<fetch><entity name='account'></fetch>", "0x80040201");
	assert_no_sql("<!DOCTYPE a [<!ENTITY b 'c'>]><fetch><entity name='account'/></fetch>",
				  "0x80040201");
	assert_no_sql("<fetch/>", "0x80041123");
	assert_no_sql("<entity name='account'/>", "0x8004111c");
	assert_no_sql("<fetch><entity/></fetch>", "0x8004111e");
	assert_no_sql("<fetch><entity name='account'/><entity name='account'/></fetch>",
				  "0x8004111c");
	assert_no_sql("<fetch><entity name='account'>text</entity></fetch>", "0x8004111c");
	assert_no_sql("<fetch><entity name='account'><column/></entity></fetch>", "0x8004111c");
	assert_no_sql("<fetch limit='3'><entity name='account'/></fetch>", "0x8004111c");
	assert_no_sql("<fetch distinct='yes'><entity name='account'/></fetch>", "0x80041115");
	assert_no_sql("<fetch mapping='x'><entity name='account'/></fetch>", "0x80041116");
	assert_no_sql("<fetch><entity name='account'><filter type='xor'/></entity></fetch>",
				  "0x80041122");
	assert_no_sql("<fetch><entity name='account'><attribute name='name' alias='a.b'/></entity>"
				  "</fetch>", "0x80041109");
	assert_no_sql("<fetch><entity name='account'><attribute name='name' alias='a'/>"
				  "<attribute name='fax' alias='a'/></entity></fetch>", "0x80041130");
	assert_no_sql("<fetch><entity name='account'><link-entity " TO_CONTACT " link-type='left'/>"
				  "</entity></fetch>", "0x80041117");
	assert_no_sql("<fetch><entity name='account'><link-entity " TO_CONTACT " link-type='any'/>"
				  "</entity></fetch>", "0x80041121");
	assert_no_sql("<fetch><entity name='account'><filter><link-entity " TO_CONTACT "/></filter>"
				  "</entity></fetch>", "0x80041121");
}

static void
test_refused_names(void **state)
{
	(void) state;
	assert_no_sql("<fetch><entity name='contact'/></fetch>", "0x80041128");
	assert_no_sql("<fetch><entity name='Account'/></fetch>", "0x80041102");
	assert_no_sql("<fetch><entity name='account'><attribute name='Name'/></entity></fetch>",
				  "0x80041103");
	assert_no_sql("<fetch><entity name='account'><link-entity name='nothing' from='a' to='b'/>"
				  "</entity></fetch>", "0x80041102");
	assert_no_sql("<fetch><entity name='account'><link-entity name='contact' from='contactid'/>"
				  "</entity></fetch>", "0x80041111");
	assert_no_sql("<fetch><entity name='account'><link-entity name='contact' from='a' "
				  "to='primarycontactid'/></entity></fetch>", "0x80041103");
	assert_no_sql("<fetch><entity name='account'><link-entity name='contact' from='fullname' "
				  "to='primarycontactid'/></entity></fetch>", "0x80041104");
	assert_no_sql("<fetch><entity name='account'><link-entity name='contact' from='entityimage' "
				  "to='entityimage'/></entity></fetch>", "0x80041104");
	assert_no_sql("<fetch><entity name='account'><link-entity " TO_CONTACT " alias='c'/>"
				  "<link-entity " TO_CONTACT " alias='c'/></entity></fetch>", "0x80041130");
}

static void
test_refused_conditions(void **state)
{
	(void) state;
	refuse_condition("<condition attribute='name'/>", "0x8004111e");
	refuse_condition("<condition attribute='name' operator='equals' value='a'/>", "0x80041120");
	refuse_condition("<condition attribute='nothing' operator='null'/>", "0x80041103");
	refuse_condition("<condition attribute='name' operator='eq'/>", "0x80041106");
	refuse_condition("<condition attribute='name' operator='null' value='a'/>", "0x80041106");
	refuse_condition("<condition attribute='name' operator='eq'><value>a</value><value>b</value>"
					 "</condition>", "0x80041106");
	refuse_condition("<condition attribute='name' operator='in' value='a'><value>b</value>"
					 "</condition>", "0x8004111c");
	refuse_condition("<condition attribute='numberofemployees' operator='like' value='1%'/>",
					 "0x80041106");
	refuse_condition("<condition attribute='statecode' operator='gt' value='1'/>", "0x80041106");
	refuse_condition("<condition attribute='name' operator='today'/>", "0x80041106");
	refuse_condition("<condition attribute='createdon' operator='last-x-days' value='x'/>",
					 "0x80041108");
	refuse_condition("<condition attribute='createdon' operator='last-x-days' value='0'/>",
					 "0x80041108");
	refuse_condition("<condition attribute='createdon' operator='in-fiscal-period' value='5'/>",
					 "0x80041108");
	refuse_condition("<condition attribute='name' operator='like' valueof='fax'/>", "0x80041106");
	refuse_condition("<condition attribute='name' operator='eq' valueof='revenue'/>",
					 "0x80041106");
	refuse_condition("<condition attribute='name' operator='eq' valueof='c.name'/>", "0x8004110a");
	refuse_condition("<condition entityname='c' attribute='name' operator='null'/>",
					 "0x8004110a");
	assert_refused("contacts", "<fetch><entity name='contact'><filter><condition "
				   "attribute='birthdate' operator='last-x-hours' value='3'/></filter></entity>"
				   "</fetch>", "0x80041120");
	/* an ON clause can refer only to tables that were joined before it */
	assert_no_sql("<fetch><entity name='account'><link-entity " TO_CONTACT " alias='a'><filter>"
				  "<condition entityname='b' attribute='contactid' operator='null'/></filter>"
				  "</link-entity><link-entity " TO_CONTACT " alias='b'/></entity></fetch>",
				  "0x8004110a");
}

static void
test_elastic(void **state)
{
	(void) state;
	assert_refused("new_readings", "<fetch><entity name='new_reading'><link-entity "
				   "name='new_meter' from='new_meterid' to='new_meterid'/></entity></fetch>",
				   "0x80048d0b");
	assert_refused("new_meters", "<fetch><entity name='new_meter'><link-entity "
				   "name='new_reading' from='new_meterid' to='new_meterid'/></entity></fetch>",
				   "0x80048d0b");
	assert_refused("new_readings", "<fetch><entity name='new_reading'><filter><condition "
				   "attribute='new_name' operator='eq' valueof='new_raw'/></filter></entity>"
				   "</fetch>", "0x80048d0b");
	assert_refused("new_readings", "<fetch><entity name='new_reading'><order "
				   "attribute='new_meterid'/></entity></fetch>", "0x80048d0b");
	assert_refused("new_readings", "<fetch><entity name='new_reading'><order "
				   "attribute='new_name'/><order attribute='new_value'/></entity></fetch>",
				   "0x80048d0b");
	assert_refused("new_readings", "<fetch aggregate='true'><entity name='new_reading'><attribute "
				   "name='new_name' alias='n' groupby='true'/><order alias='n'/></entity>"
				   "</fetch>", "0x80048d0b");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, begin, end),
		cmocka_unit_test_setup_teardown(test_tolerance, begin, end),
		cmocka_unit_test_setup_teardown(test_conditions, begin, end),
		cmocka_unit_test_setup_teardown(test_hierarchy, begin, end),
		cmocka_unit_test_setup_teardown(test_dates, begin, end),
		cmocka_unit_test_setup_teardown(test_joins, begin, end),
		cmocka_unit_test_setup_teardown(test_semi_joins, begin, end),
		cmocka_unit_test_setup_teardown(test_many_to_many, begin, end),
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_aggregates, begin, end),
		cmocka_unit_test_setup_teardown(test_refused_aggregates, begin, end),
		cmocka_unit_test_setup_teardown(test_paging, begin, end),
		cmocka_unit_test_setup_teardown(test_page_limits, begin, end),
		cmocka_unit_test_setup_teardown(test_cookie_text, begin, end),
		cmocka_unit_test_setup_teardown(test_limits, begin, end),
		cmocka_unit_test_setup_teardown(test_refused_form, begin, end),
		cmocka_unit_test_setup_teardown(test_refused_names, begin, end),
		cmocka_unit_test_setup_teardown(test_refused_conditions, begin, end),
		cmocka_unit_test_setup_teardown(test_elastic, begin, end),
	};

	return cmocka_run_group_tests_name("sim_fetch", tests, set_up, unload);
}
