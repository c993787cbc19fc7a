/*
 * sim_store_test.c
 *		The database: statements, transactions, files, SQL functions, seeding.
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
#include <unistd.h>

#include <cmocka.h>

#include "store/guid.h"
#include "store/store.h"
#include "store/text.h"

static struct sim sim;

/* makes a simulator with this schema (the built-in one if NULL) */
static bool
open_sim(struct sim *s, const char *schema_text, const char *file)
{
	char		path[] = "/tmp/sim_store_test.XXXXXX";

	memset(s, 0, sizeof(*s));
	s->seed = 7;
	s->time_scale = 1;
	if (schema_text == NULL)
		s->schema = sim_schema_load(NULL);
	else
	{
		int			fd = mkstemp(path);

		assert_true(fd >= 0);
		assert_int_equal(write(fd, schema_text, strlen(schema_text)), strlen(schema_text));
		close(fd);
		s->schema = sim_schema_load(path);
		unlink(path);
	}
	assert_non_null(s->schema);
	return sim_store_open(s, file) != NULL;
}

static void
close_sim(struct sim *s)
{
	sim_store_close(s->store);
	sim_schema_free(s->schema);
}

static int
begin(void **state)
{
	(void) state;
	return open_sim(&sim, NULL, NULL) ? 0 : -1;
}

static int
end(void **state)
{
	(void) state;
	close_sim(&sim);
	return 0;
}

/* returns the first column of the first row as text; "" for NULL, "-" if there is no row */
static char *
query(struct sim *s, const char *sql)
{
	static char text[4096];
	sqlite3_stmt *stmt = sim_stmt_get(s->store, sql);

	assert_non_null(stmt);
	strcpy(text, "-");
	if (sqlite3_step(stmt) == SQLITE_ROW)
	{
		const char *value = (const char *) sqlite3_column_text(stmt, 0);

		snprintf(text, sizeof(text), "%s", value != NULL ? value : "");
	}
	sim_stmt_put(s->store, stmt);
	return text;
}

static int64_t
count(struct sim *s, const char *table)
{
	return sim_row_count(s->store, sim_table_by_name(s->schema, table));
}

static bool
seed(struct sim *s, const char *table, int64_t n)
{
	return sim_seed_rows(s, sim_table_by_name(s->schema, table), n, NULL);
}

static void
rows_are_there_from_the_start(void **state)
{
	(void) state;
	assert_string_equal(query(&sim, "SELECT name FROM organization"), "dvsim");
	assert_string_equal(query(&sim, "SELECT currencyname FROM transactioncurrency"), "US Dollar");
	assert_string_equal(query(&sim, "SELECT count(*) FROM solution WHERE uniquename='NEW_ENERGY'"),
						"1");
	assert_string_equal(query(&sim, "SELECT dv_guid(businessunitid) FROM businessunit"),
						sim.business_unit_id);
	assert_string_equal(query(&sim, "SELECT group_concat(m.name) FROM sdkmessagefilter f "
							  "JOIN sdkmessage m ON m.sdkmessageid=f.sdkmessageid "
							  "WHERE f.primaryobjecttypecode='task' AND m.name LIKE '%Multiple'"),
						"RetrieveMultiple");
	assert_string_equal(query(&sim, "SELECT count(*) FROM sdkmessagefilter f "
							  "JOIN sdkmessage m ON m.sdkmessageid=f.sdkmessageid "
							  "WHERE f.primaryobjecttypecode='new_reading' "
							  "AND m.name IN ('CreateMultiple','UpdateMultiple','DeleteMultiple')"),
						"3");
	assert_string_equal(query(&sim, "SELECT count(*) FROM solutioncomponent c "
							  "JOIN solution s ON s.solutionid=c.solutionid "
							  "WHERE s.uniquename='new_energy' AND c.componenttype=1"), "5");
	assert_int_equal(count(&sim, "owner"), count(&sim, "systemuser") + count(&sim, "team"));
}

static void
owners_follow_users_and_teams(void **state)
{
	(void) state;
	assert_true(sim_exec(sim.store, "INSERT INTO systemuser (systemuserid, firstname, lastname, "
						 "versionnumber) VALUES (randomblob(16), '#', 'app one', 1)"));
	assert_string_equal(query(&sim, "SELECT name FROM owner WHERE name='# APP ONE'"), "# app one");
	assert_true(sim_exec(sim.store, "UPDATE systemuser SET lastname='two' WHERE firstname='#'"));
	assert_string_equal(query(&sim, "SELECT count(*) FROM owner WHERE name='# two'"), "1");
	assert_true(sim_exec(sim.store, "DELETE FROM systemuser WHERE firstname='#'"));
	assert_string_equal(query(&sim, "SELECT count(*) FROM owner WHERE name LIKE '#%'"), "0");
}

static void
transactions_nest(void **state)
{
	int64_t		before = count(&sim, "contact");

	(void) state;
	assert_true(sim_begin(sim.store));
	assert_true(seed(&sim, "contact", 10));
	assert_true(sim_begin(sim.store));
	assert_true(seed(&sim, "contact", 10));
	assert_int_equal(count(&sim, "contact"), before + 20);
	sim_rollback(sim.store);
	assert_int_equal(count(&sim, "contact"), before + 10);
	assert_true(sim_begin(sim.store));
	assert_true(seed(&sim, "contact", 5));
	assert_true(sim_commit(sim.store));
	assert_int_equal(count(&sim, "contact"), before + 15);
	sim_rollback(sim.store);
	assert_int_equal(count(&sim, "contact"), before);
	assert_int_equal(sim.store->depth, 0);
}

static void
statements_are_kept_and_forgotten(void **state)
{
	sqlite3_stmt *a = sim_stmt_get(sim.store, "SELECT ?1");
	sqlite3_stmt *b = sim_stmt_get(sim.store, "SELECT ?1");
	char		sql[64];
	int			i;

	(void) state;
	assert_ptr_not_equal(a, b);
	sqlite3_bind_int(a, 1, 5);
	sim_stmt_put(sim.store, a);
	sim_stmt_put(sim.store, b);
	for (i = 0; i < 3; i++)
	{
		sqlite3_stmt *again = sim_stmt_get(sim.store, "SELECT ?1");

		assert_true(again == a || again == b);
		assert_int_equal(sqlite3_step(again), SQLITE_ROW);
		assert_int_equal(sqlite3_column_type(again, 0), SQLITE_NULL);
		sim_stmt_put(sim.store, again);
	}
	for (i = 0; i < 1500; i++)
	{
		snprintf(sql, sizeof(sql), "SELECT %d", i);
		assert_int_equal(atoi(query(&sim, sql)), i);
	}
	assert_null(sim_stmt_get(sim.store, "SELECT nonsense FROM nowhere"));
	assert_false(sim_exec(sim.store, "nonsense"));
	sim_stmt_put(sim.store, NULL);
}

static void
sql_knows_the_services_rules(void **state)
{
	static const char *const cases[][2] = {
		{"SELECT dv_like('Köln', 'KO%')", "1"}, {"SELECT dv_like(NULL, '%')", ""},
		{"SELECT dv_like('a', NULL)", ""}, {"SELECT dv_fold('ÄB  ')", "ab"},
		{"SELECT 'straße' = 'STRASSE ' COLLATE DV", "1"},
		{"SELECT hex(dv_dec('1.5'))", "8000000000000000000000037E11D600"},
		{"SELECT dv_dec('x')", ""}, {"SELECT dv_dec('2') > dv_dec('-3')", "1"},
		{"SELECT dec_sum(x) = dv_dec('6.75') FROM (SELECT dv_dec('1.5') x UNION ALL "
		"SELECT dv_dec('5.25') UNION ALL SELECT NULL)", "1"},
		{"SELECT dec_avg(x) = dv_dec('0.3333333333') FROM (SELECT dv_dec('1') x UNION ALL "
		"SELECT dv_dec('0') UNION ALL SELECT 0 UNION ALL SELECT NULL)", "1"},
		{"SELECT dec_sum(x) FROM (SELECT 1 x) WHERE 0", ""},
		{"SELECT dec_avg(x) FROM (SELECT NULL x)", ""},
		{"SELECT dv_base(dv_dec('10'), NULL) = dv_dec('10')", "1"},
		{"SELECT dv_base(dv_dec('10'), dv_dec('4')) = dv_dec('2.5')", "1"},
		{"SELECT dv_base(dv_dec('-1'), dv_dec('3')) = dv_dec('-0.3333')", "1"},
		{"SELECT dv_base(NULL, dv_dec('3'))", ""},
		{"SELECT dv_guid(x'00')", ""},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(query(&sim, cases[i][0]), cases[i][1]);
}

static void
keys_are_unique_but_for_null(void **state)
{
	static const char insert[] = "INSERT INTO new_meter (new_meterid, new_serial) VALUES ";
	char		sql[256];

	(void) state;
	snprintf(sql, sizeof(sql), "%s(x'01', 'S1'), (x'02', NULL), (x'03', NULL)", insert);
	assert_true(sim_exec(sim.store, sql));
	snprintf(sql, sizeof(sql), "%s(x'04', 's1 ')", insert);
	assert_false(sim_exec(sim.store, sql));
	assert_true(sim_exec(sim.store, "DELETE FROM new_meter"));
}

/* Returns all values of a table as one text. */
static char *
dump(struct sim *s, const char *table)
{
	struct sim_buf sql = {0};
	struct sim_table *t = sim_table_by_name(s->schema, table);
	sqlite3_stmt *stmt;
	struct sim_buf out = {0};
	int			i;

	sim_puts(&sql, "SELECT ");
	for (i = 0; i < t->ncolumns; i++)
	{
		if (t->columns[i].stored && &t->columns[i] != t->version)
			sim_putf(&sql, "hex(\"%s\")||'|'||", t->columns[i].name);
	}
	sim_putf(&sql, "'' FROM \"%s\"", table);
	sim_buf_free(&out);
	stmt = sim_stmt_get(s->store, sql.s);
	sim_buf_free(&sql);
	assert_non_null(stmt);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		sim_puts(&out, (const char *) sqlite3_column_text(stmt, 0));
	sim_stmt_put(s->store, stmt);
	return out.s;
}

static void
seeding_is_deterministic(void **state)
{
	static const char *const tables[] = {
		"account", "contact", "new_meter", "new_reading", "new_alltypes", "task", "opportunity"
	};
	struct sim	other;
	size_t		i;

	(void) state;
	assert_true(open_sim(&other, NULL, NULL));
	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
	{
		char	   *here;
		char	   *there;

		/* in one step, and in two steps */
		assert_true(seed(&sim, tables[i], 300));
		assert_true(seed(&other, tables[i], 100) && seed(&other, tables[i], 200));
		here = dump(&sim, tables[i]);
		there = dump(&other, tables[i]);
		if (strcmp(here, there) != 0)
			fail_msg("rows of %s differ", tables[i]);
		assert_int_equal(count(&sim, tables[i]), 300);
		assert_int_equal(count(&other, tables[i]), 300);
		free(here);
		free(there);
	}
	assert_true(seed(&sim, "new_account_contact", 500));
	assert_int_equal(count(&sim, "new_account_contact"), 500);
	assert_false(seed(&sim, "new_account_contact", 300 * 300));
	assert_int_equal(count(&sim, "new_account_contact"), 500);
	assert_string_equal(query(&sim, "SELECT count(*)>0 FROM contact c JOIN account a "
							  "ON a.accountid=c.parentcustomerid"), "1");
	assert_string_equal(query(&sim, "SELECT count(*) FROM account WHERE name IS NULL"), "0");
	assert_string_equal(query(&sim, "SELECT count(*)>0 FROM account WHERE telephone1 IS NULL"), "1");
	assert_string_equal(query(&sim, "SELECT count(*) FROM account WHERE numberofemployees<0"), "0");
	close_sim(&other);
	assert_true(sim_store_reset(&sim));
	assert_int_equal(count(&sim, "account"), 0);
	assert_int_equal(count(&sim, "organization"), 1);
}

#define SITE(more) "{\"tables\": [{\"name\": \"crf_Site\", \"columns\": [" \
	"{\"name\": \"crf_Name\", \"type\": \"string\"}" more "]}]}"

static void
files_survive(void **state)
{
	char		path[] = "/tmp/sim_store_file.XXXXXX";
	char		side[64];
	struct sim	s;
	int64_t		version;
	int			fd = mkstemp(path);

	(void) state;
	assert_true(fd >= 0);
	close(fd);
	assert_true(open_sim(&s, SITE(""), path));
	assert_true(seed(&s, "crf_site", 50));
	version = s.store->version;
	close_sim(&s);

	/* the rows and the counter still exist; a new column is added */
	assert_true(open_sim(&s, SITE(", {\"name\": \"crf_No\", \"type\": \"integer\"}"), path));
	assert_int_equal(count(&s, "crf_site"), 50);
	assert_true(s.store->version >= version);
	assert_string_equal(query(&s, "SELECT count(crf_no) FROM crf_site"), "0");
	assert_true(seed(&s, "crf_site", 50));
	assert_int_equal(count(&s, "crf_site"), 100);
	assert_int_equal(count(&s, "organization"), 1);
	close_sim(&s);

	/* another type of the column is refused */
	assert_false(open_sim(&s, SITE(", {\"name\": \"crf_No\", \"type\": \"string\"}"), path));
	sim_schema_free(s.schema);
	assert_false(open_sim(&s, "{\"tables\": [{\"name\": \"crf_Site\", \"type\": \"elastic\"}]}",
						  path));
	sim_schema_free(s.schema);
	unlink(path);
	snprintf(side, sizeof(side), "%s-wal", path);
	unlink(side);
}

static void
foreign_files_are_refused(void **state)
{
	char		path[] = "/tmp/sim_store_file.XXXXXX";
	struct sim	s;
	sqlite3    *db;
	int			fd = mkstemp(path);

	(void) state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "this is no database, and long enough to show it", 47), 47);
	close(fd);
	assert_false(open_sim(&s, SITE(""), path));
	sim_schema_free(s.schema);
	unlink(path);

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_false(open_sim(&s, SITE(""), path));
	sim_schema_free(s.schema);
	unlink(path);
	assert_false(open_sim(&s, SITE(""), "/nonexistent/file.db"));
	sim_schema_free(s.schema);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_there_from_the_start),
		cmocka_unit_test(owners_follow_users_and_teams),
		cmocka_unit_test(transactions_nest),
		cmocka_unit_test(statements_are_kept_and_forgotten),
		cmocka_unit_test(sql_knows_the_services_rules),
		cmocka_unit_test(keys_are_unique_but_for_null),
		cmocka_unit_test(seeding_is_deterministic),
		cmocka_unit_test(files_survive),
		cmocka_unit_test(foreign_files_are_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
