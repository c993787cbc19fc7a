--
-- dataverse.push(): the result of a query, written to a foreign table.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER push FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', batch_size '3');
CREATE USER MAPPING FOR CURRENT_USER SERVER push OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA push_dv;
CREATE SCHEMA push_local;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, new_meter) FROM SERVER push INTO push_dv;
SET search_path = push_local;
CREATE TABLE source (id uuid, name text, number text, employees int, "limit" numeric);
INSERT INTO source SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid, 'account ' || i, 'A-' || i, i, i * 1.5
FROM generate_series(1, 8) AS i;
CREATE VIEW pg_temp.last_run AS
  SELECT operation, status, phase, rows_read, sent, unchanged, missing, rejected, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1;
CREATE VIEW pg_temp.left_over AS
  SELECT (SELECT count(*) FROM dataverse.pushes) AS pushes, (SELECT count(*) FROM pg_class WHERE relname LIKE 'dataverse\_push\_%' AND relkind = 'r') AS tables;

-- insert: ids are generated, or given; a query can return no rows
CALL dataverse.push('SELECT name, number AS accountnumber, employees AS numberofemployees FROM source WHERE employees <= 4;',
  'push_dv.account', chunk => 3);
SELECT * FROM pg_temp.last_run;
SELECT name, accountnumber, numberofemployees FROM push_dv.account ORDER BY 3;
CALL dataverse.push('SELECT id AS accountid, name, number AS accountnumber FROM source WHERE employees > 6 -- given', 'push_dv.account');
CALL dataverse.push('SELECT name FROM source WHERE false', 'push_dv.account');
SELECT * FROM pg_temp.last_run;
CALL dataverse.push($$VALUES ('from values', 1)$$, 'push_dv.account');
CALL dataverse.push($$SELECT 'a constant' AS name, '2020-02-03' AS overriddencreatedon$$, 'push_dv.account');
SELECT name, overriddencreatedon IS NOT NULL AS constant_is_sent FROM push_dv.account WHERE name = 'a constant';
SELECT query, status, error FROM dataverse.runs WHERE status = 'failed' AND foreign_table LIKE 'push_dv.%';

-- update, with missing rows, and by a key
SET client_min_messages = warning;
CALL dataverse.push('SELECT id AS accountid, employees * 10 AS numberofemployees FROM source', 'push_dv.account', operation => 'update');
SELECT * FROM pg_temp.last_run;
CALL dataverse.push('SELECT number AS accountnumber, employees * 100 AS numberofemployees FROM source WHERE employees < 3', 'push_dv.account',
  '{accountnumber}', 'update');
SELECT name, accountnumber, numberofemployees FROM push_dv.account WHERE accountnumber IS NOT NULL ORDER BY accountnumber;

-- upsert, by id and by an alternate key
SET client_min_messages = error;
CALL dataverse.push('SELECT id AS accountid, upper(name) AS name FROM source WHERE employees >= 6', 'push_dv.account', operation => 'upsert', chunk => 2);
SELECT * FROM pg_temp.last_run;
SELECT name, accountnumber FROM push_dv.account ORDER BY accountnumber, name;
CALL dataverse.push('SELECT number AS new_serial, name AS new_name FROM source WHERE employees < 4', 'push_dv.new_meter', key => '{new_serial}');
CALL dataverse.push('SELECT number AS new_serial, upper(name) AS new_name FROM source WHERE employees BETWEEN 2 AND 5', 'push_dv.new_meter', key => '{new_serial}');
SELECT new_serial, new_name FROM push_dv.new_meter WHERE new_serial LIKE 'A-%' ORDER BY 1;
-- a key that is newer than the foreign table, whose columns have other local names and another order
ALTER FOREIGN TABLE push_dv.new_meter OPTIONS (DROP keys);
ALTER FOREIGN TABLE push_dv.new_meter RENAME COLUMN new_number TO numero;
CALL dataverse.push($$SELECT 7 AS numero, a.accountid AS new_accountid, 'by two' AS new_name FROM push_dv.account AS a WHERE a.name = 'a constant'$$,
  'push_dv.new_meter', key => '{numero,new_accountid}');
SELECT numero, new_accountid IS NOT NULL AS account FROM push_dv.new_meter WHERE new_name = 'by two';
CALL dataverse.push('SELECT 7 AS numero, ''by one'' AS new_name', 'push_dv.new_meter', key => '{numero}');
DELETE FROM push_dv.new_meter WHERE new_name = 'by two';
ALTER FOREIGN TABLE push_dv.new_meter RENAME COLUMN numero TO new_number;

-- delete, of existing rows and others
CALL dataverse.push('SELECT id AS accountid FROM source', 'push_dv.account', operation => 'delete');
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM push_dv.account;
SELECT * FROM pg_temp.left_over;

-- refused rows, with their numbers in the query
CALL dataverse.push($$SELECT id AS accountid, name FROM source UNION ALL SELECT id, 'again' FROM source WHERE employees IN (5, 8)$$, 'push_dv.account',
  on_error => 'continue', chunk => 4);
SELECT * FROM pg_temp.last_run;
SELECT row_number, row_id, "row" ->> 'name' AS name, sqlstate FROM dataverse.rejects ORDER BY row_number;
DELETE FROM dataverse.rejects;
CALL dataverse.push($$SELECT id AS accountid, 'third' AS name FROM source$$, 'push_dv.account', on_error => 'continue', max_errors => 3);
SELECT * FROM pg_temp.last_run;
SELECT operation, rows, rows_done FROM dataverse.pushes;

-- an unfinished push continues, whatever its query would return now
DELETE FROM push_dv.account WHERE accountid IN (SELECT id FROM source);
INSERT INTO source SELECT gen_random_uuid(), 'later';
CALL dataverse.push($$SELECT id AS accountid, 'third' AS name FROM source$$, 'push_dv.account');
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM push_dv.account WHERE name = 'third';
CALL dataverse.push($$SELECT id AS accountid, 'third' AS name FROM source WHERE employees = 1$$, 'push_dv.account');
SELECT dataverse.forget_push(id) FROM dataverse.pushes;
SELECT dataverse.forget_push(0);
SELECT * FROM pg_temp.left_over;
DELETE FROM source WHERE name = 'later';
SELECT count(*) FROM push_dv.account WHERE name = 'third';

-- refused before anything is sent
CALL dataverse.push('SELECT nme FROM source', 'push_dv.account');
CALL dataverse.push('SELECT 1 / (employees - 3) AS numberofemployees FROM source', 'push_dv.account');
CALL dataverse.push('SELECT name AS nme FROM source', 'push_dv.account');
CALL dataverse.push('SELECT now() AS createdon', 'push_dv.account');
CALL dataverse.push($$SELECT repeat('x', 200) AS name$$, 'push_dv.account');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', operation => 'update');
CALL dataverse.push('SELECT id AS accountid FROM source', 'push_dv.account', operation => 'update');
CALL dataverse.push('SELECT id AS accountid, name FROM source', 'push_dv.account', operation => 'delete');
ALTER FOREIGN TABLE push_dv.account RENAME fax TO "own id";
CALL dataverse.push('SELECT id AS accountid, ''renamed'' AS name, ''lost'' AS "own id" FROM source', 'push_dv.account', operation => 'update');
ALTER FOREIGN TABLE push_dv.account RENAME "own id" TO fax;
CALL dataverse.push('SELECT id AS accountid, name, number AS accountnumber FROM source', 'push_dv.account', '{accountnumber}');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', '{accountnumber}');
CALL dataverse.push('SELECT id AS accountid, name FROM source UNION ALL SELECT id, number FROM source', 'push_dv.account', operation => 'upsert');
CALL dataverse.push('SELECT ''x-1'' AS new_serial, ''one'' AS new_name UNION ALL SELECT ''X-1 '', ''other''', 'push_dv.new_meter', '{new_serial}');
CALL dataverse.push('SELECT name FROM source', 'source');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', operation => 'merge');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', '{name}', 'insert');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', on_error => 'ignore');
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', chunk => 0);
CALL dataverse.push('SELECT name FROM source', 'push_dv.account', max_errors => -1);
CALL dataverse.push(NULL, 'push_dv.account');
CALL dataverse.push(' ; ', 'push_dv.account');
CALL dataverse.push('DELETE FROM source RETURNING name', 'push_dv.account');
CALL dataverse.push('SELECT $1 AS name', 'push_dv.account');
CALL dataverse.push('SELECT 1 AS name) AS q; DROP TABLE push_local.source; SELECT FROM (SELECT 2 AS name', 'push_dv.account');
CALL dataverse.push('SELECT now() AS numberofemployees', 'push_dv.account');
CALL dataverse.push('SELECT ''ten'' AS numberofemployees', 'push_dv.account');
CALL dataverse.push('SELECT name, name FROM source', 'push_dv.account');
CALL dataverse.push('SELECT FROM source', 'push_dv.account');
SELECT * FROM pg_temp.left_over;

-- rows that violate an alternate key are also refused when the push continues, with generated ids or without
CREATE TABLE pairs AS SELECT format('00000000-0000-4000-8001-%s', lpad(i::text, 12, '0'))::uuid AS id, i FROM generate_series(2, 13) AS i;
CALL dataverse.push('SELECT ''P-'' || i / 2 AS new_serial, ''pair '' || i AS new_name FROM pairs ORDER BY i', 'push_dv.new_meter', on_error => 'continue', max_errors => 2);
CALL dataverse.push('SELECT ''P-'' || i / 2 AS new_serial, ''pair '' || i AS new_name FROM pairs ORDER BY i', 'push_dv.new_meter', on_error => 'continue');
SELECT status, sent + unchanged AS done, rejected FROM pg_temp.last_run;
SELECT count(*), bool_and(row ->> 'new_name' = 'pair ' || row_number + 1) AS numbered FROM dataverse.rejects;
DELETE FROM dataverse.rejects;
CALL dataverse.push('SELECT id AS new_meterid, ''Q-'' || i / 2 AS new_serial, ''pair '' || i AS new_name FROM pairs ORDER BY i', 'push_dv.new_meter', on_error => 'continue', max_errors => 2);
CALL dataverse.push('SELECT id AS new_meterid, ''Q-'' || i / 2 AS new_serial, ''pair '' || i AS new_name FROM pairs ORDER BY i', 'push_dv.new_meter', on_error => 'continue');
SELECT status, sent + unchanged AS done, rejected FROM pg_temp.last_run;
SELECT count(*), bool_and(row ->> 'new_name' = 'pair ' || row_number + 1) AS numbered FROM dataverse.rejects;
SELECT count(*) AS both FROM dataverse.rejects AS r JOIN push_dv.new_meter AS m ON m.new_name = r.row ->> 'new_name' AND m.new_serial LIKE 'Q-%';
DELETE FROM dataverse.rejects;
SELECT left(new_serial, 1) AS way, count(*) FROM push_dv.new_meter WHERE new_serial LIKE 'P-%' OR new_serial LIKE 'Q-%' GROUP BY 1 ORDER BY 1;

-- defaults of the foreign table, and rows that cannot be encoded
ALTER FOREIGN TABLE push_dv.account ALTER accountnumber SET DEFAULT 'D';
CALL dataverse.push($$SELECT t.name, t.at AS overriddencreatedon FROM (VALUES ('at no time', 'infinity'::timestamptz), ('in time', '2020-02-03')) AS t (name, at)$$,
  'push_dv.account', on_error => 'continue');
SELECT row_number, "row" - 'accountid' AS "row", sqlstate FROM dataverse.rejects;
DELETE FROM dataverse.rejects;
SELECT name, accountnumber FROM push_dv.account WHERE name LIKE '%in time';
ALTER FOREIGN TABLE push_dv.account ALTER accountnumber DROP DEFAULT, DROP COLUMN telephone2;
CALL dataverse.push($$SELECT id AS accountid, NULL::text AS name, 'A-' || employees AS accountnumber FROM source WHERE employees = 8$$, 'push_dv.account', operation => 'upsert');
SELECT name, accountnumber FROM push_dv.account WHERE accountid = (SELECT id FROM source WHERE employees = 8);
DELETE FROM push_dv.account WHERE name = 'in time';

-- rows of different length stay in their order
CALL dataverse.push($$SELECT i AS numberofemployees, repeat('x', CASE WHEN i % 7 = 0 THEN 1900 ELSE i END) AS description, CASE WHEN i % 20 = 1 THEN 'infinity' END AS overriddencreatedon
  FROM generate_series(1, 500) AS i$$, 'push_dv.account', on_error => 'continue', chunk => 120);
SELECT count(*), bool_and(("row" ->> 'numberofemployees')::int = row_number) AS numbered FROM dataverse.rejects;
DELETE FROM dataverse.rejects;
DELETE FROM push_dv.account WHERE description IS NOT NULL;

-- called by code that can commit, and by code that cannot
DO $$
DECLARE
  n record;
BEGIN
  FOR n IN SELECT i, repeat('x', 3000) AS x FROM generate_series(1, 3) AS i LOOP
    CALL dataverse.push(format('SELECT ''from a loop'' AS name, i AS numberofemployees FROM generate_series(1, %s) AS i', n.i), 'push_dv.account', chunk => 1);
    RAISE INFO '% % %', n.i, length(n.x), (SELECT count(*) FROM push_dv.account WHERE name = 'from a loop');
  END LOOP;
END $$;
DO $$ BEGIN CALL dataverse.push('SELECT ''from a block'' AS name', 'push_dv.account'); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
CREATE FUNCTION calling() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL dataverse.push('SELECT ''from a function'' AS name', 'push_dv.account'); END $$;
SELECT calling();
DELETE FROM push_dv.account WHERE name LIKE 'from a %';
SELECT * FROM pg_temp.left_over;

-- a dry run sends nothing
SET dataverse_fdw.dry_run = on;
SET client_min_messages = notice;
CALL dataverse.push('SELECT name FROM source', 'push_dv.account');
SET client_min_messages = error;
RESET dataverse_fdw.dry_run;
SELECT count(*) FROM push_dv.account;
SELECT * FROM pg_temp.left_over;


-- the settings of a push affect nothing else: neither triggers, nor later statements of the transaction
CREATE FOREIGN TABLE push_dv.log (id uuid OPTIONS ("column" 'contactid'), lastname text OPTIONS ("column" 'lastname')) SERVER push
  OPTIONS ("table" 'contact', entity_set 'contacts', primary_id 'contactid');
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO push_dv.log (lastname) VALUES ('noted');
  RETURN NEW;
END $$;
CREATE TRIGGER note AFTER INSERT ON push_dv.new_meter FOR EACH ROW EXECUTE FUNCTION note();
SET dataverse_fdw.on_error = 'continue';
CALL dataverse.push($$SELECT 'S-' || i AS new_serial FROM generate_series(1, 2) AS i$$, 'push_dv.new_meter', key => '{new_serial}', on_error => 'abort');
SHOW dataverse_fdw.on_error;
RESET dataverse_fdw.on_error;
SELECT count(*) FROM push_dv.log WHERE lastname = 'noted';
DELETE FROM push_dv.log WHERE lastname = 'noted';
DROP TRIGGER note ON push_dv.new_meter;
SELECT name, current_setting(name) AS left_over
FROM unnest('{search_path, enable_seqscan, enable_mergejoin, enable_nestloop, dataverse_fdw.run_settings, dataverse_fdw.guard, transaction_isolation}'::text[]) AS name;

-- the query's functions remove what it returns and reads: values out of line that were returned before, the foreign table
CREATE TABLE long_text (t text);
ALTER TABLE long_text ALTER t SET STORAGE EXTERNAL;
CREATE FUNCTION make_long(i integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  TRUNCATE long_text;
  INSERT INTO long_text VALUES (repeat(chr(64 + i), 1999 + i));
  RETURN (SELECT t FROM long_text);
END $$;
ALTER FOREIGN TABLE push_dv.new_meter ALTER new_name TYPE text;
CALL dataverse.push($$SELECT make_long(i) AS new_name FROM generate_series(3, 5) AS i$$, 'push_dv.new_meter', on_error => 'continue');
SELECT left("row" ->> 'new_name', 3) AS value, length("row" ->> 'new_name') FROM dataverse.rejects WHERE foreign_table = 'push_dv.new_meter' ORDER BY 1;
DELETE FROM dataverse.rejects WHERE foreign_table = 'push_dv.new_meter';
CREATE FUNCTION lose() RETURNS text LANGUAGE plpgsql AS $$ BEGIN DROP FOREIGN TABLE push_dv.log; RETURN 'lost'; END $$;
CALL dataverse.push('SELECT lose() AS lastname', 'push_dv.log');
SET dataverse_fdw.dry_run = on;
CALL dataverse.push('SELECT lose() AS lastname', 'push_dv.log');
RESET dataverse_fdw.dry_run;
SELECT * FROM pg_temp.left_over;

RESET search_path;
DELETE FROM dataverse_private.run_log WHERE push IS NOT NULL;
DROP SERVER push CASCADE;
DROP SCHEMA push_dv CASCADE;
DROP SCHEMA push_local CASCADE;
