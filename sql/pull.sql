--
-- Copies of foreign tables that are kept in step: dataverse.pull(), pull_all(),
-- and changes().
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null
-- The log keeps the runs of copies that were dropped.
DELETE FROM dataverse_private.run_log;

CREATE SERVER pull FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', page_size '3');
CREATE USER MAPPING FOR CURRENT_USER SERVER pull OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA pull_dv;
CREATE SCHEMA pull_copy;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_alltypes, task, team) FROM SERVER pull INTO pull_dv;
INSERT INTO pull_dv.account (accountid, name, numberofemployees)
  SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid, 'account ' || i, i FROM generate_series(1, 8) AS i;
INSERT INTO pull_dv.task (subject) VALUES ('first'), ('second');

CREATE VIEW pg_temp.last_run AS
  SELECT status, phase, rows_read, rows_compared, inserted, updated, unchanged, deleted, sqlstate
  FROM dataverse.runs ORDER BY id DESC LIMIT 1;

-- The first run creates the table, with types, key, and comments.
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT * FROM pg_temp.last_run;
SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
WHERE attrelid = 'pull_copy.account'::regclass AND attnum > 0 ORDER BY attnum;
SELECT col_description('pull_copy.account'::regclass, 2) = col_description('pull_dv.account'::regclass, attnum) AS same
FROM pg_attribute WHERE attrelid = 'pull_dv.account'::regclass AND attname = 'name';
SELECT foreign_table, target, phase, method, token_at IS NOT NULL AS has_token, last_status, last_error FROM dataverse.sync_state;

-- Further runs read the changes, and write the differences.
UPDATE pull_dv.account SET name = 'changed' WHERE accountid = '00000000-0000-4000-8000-000000000002';
UPDATE pull_dv.account SET description = 'not copied' WHERE accountid = '00000000-0000-4000-8000-000000000003';
DELETE FROM pull_dv.account WHERE accountid = '00000000-0000-4000-8000-000000000004';
INSERT INTO pull_dv.account (accountid, name) VALUES ('00000000-0000-4000-8000-000000000009', 'new');
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT * FROM pg_temp.last_run;
SELECT accountid, name, numberofemployees FROM pull_copy.account ORDER BY 1;

-- A run that finds no changes, one that compares, and one that reads everything.
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT * FROM pg_temp.last_run;
DELETE FROM pull_copy.account WHERE name = 'new';
UPDATE pull_copy.account SET versionnumber = 1 WHERE name = 'changed';
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, versionnumber}', sweep => '0');
SELECT * FROM pg_temp.last_run;
UPDATE pull_copy.account SET name = 'local' WHERE name = 'changed';
INSERT INTO pull_copy.account (accountid) VALUES (gen_random_uuid());
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, versionnumber}', "full" => true);
SELECT * FROM pg_temp.last_run;
SELECT accountid, name FROM pull_copy.account WHERE name = 'changed';

-- More columns, columns of another type, and other drift.
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}', drift => 'stop');
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}', drift => 'ignore');
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
SELECT * FROM pg_temp.last_run;
SELECT accountid, description FROM pull_copy.account WHERE description IS NOT NULL;
ALTER FOREIGN TABLE pull_dv.account ALTER numberofemployees TYPE numeric(20, 2);
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}', drift => 'stop');
CALL dataverse.pull('pull_dv.account', 'pull_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
SELECT accountid, numberofemployees FROM pull_copy.account ORDER BY 1 LIMIT 2;
ALTER FOREIGN TABLE pull_dv.account ALTER numberofemployees TYPE integer;

-- A table that exists: its own columns, defaults, and triggers stay.
CREATE TABLE pull_copy.mine (
  name text NOT NULL, accountid uuid PRIMARY KEY, mine text DEFAULT 'mine', length integer GENERATED ALWAYS AS (length(name)) STORED);
CREATE TABLE pull_copy.log (operation text, name text);
CREATE FUNCTION pull_copy.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES (TG_OP, coalesce(NEW.name, OLD.name));
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON pull_copy.mine FOR EACH ROW EXECUTE FUNCTION pull_copy.note();
-- sees new rows, and no others
CREATE FUNCTION pull_copy.note_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO log VALUES ('BEFORE INSERT', NEW.name);
  RETURN NEW;
END $$;
CREATE TRIGGER note_new BEFORE INSERT ON pull_copy.mine FOR EACH ROW EXECUTE FUNCTION pull_copy.note_new();
SET search_path = pull_copy, public;
CALL dataverse.pull('pull_dv.account', 'mine');
UPDATE mine SET mine = 'changed';
TRUNCATE log;
UPDATE pull_dv.account SET name = 'again' WHERE name = 'changed';
UPDATE pull_dv.account SET description = 'again' WHERE name = 'account 1';
DELETE FROM pull_dv.account WHERE name = 'new';
CALL dataverse.pull('pull_dv.account', 'mine');
TABLE log;
SELECT name, mine, length FROM mine ORDER BY accountid LIMIT 3;
RESET search_path;

-- Requirements for the target.
CREATE TABLE pull_copy.without_id (name text);
CALL dataverse.pull('pull_dv.account', 'pull_copy.without_id');
CREATE TABLE pull_copy.without_key (accountid uuid);
CALL dataverse.pull('pull_dv.account', 'pull_copy.without_key');
CALL dataverse.pull('pull_dv.account', 'pull_copy.mine', deletes => 'mark');
CALL dataverse.pull('pull_dv.contact', 'pull_copy.mine');
CALL dataverse.pull('pull_dv.account', 'pull_copy.x', columns => '{accountid, nme}');
CALL dataverse.pull('pull_dv.account', 'pull_copy.x', deletes => 'no');
CALL dataverse.pull('pull_dv.account', 'pull_copy.x', drift => 'no');
CALL dataverse.pull('pull_dv.account', 'nowhere.x');
CALL dataverse.pull('pull_dv.account', 'a.b.c');
CALL dataverse.pull('pull_copy.mine', 'pull_copy.x');
SELECT status, count(*) FROM dataverse.runs WHERE error IS NOT NULL GROUP BY 1;

-- Columns that the target lacks are not added later, unless they are new.
SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pull_copy.mine'::regclass AND attnum > 0;

-- Deleted rows can be marked, or kept.
CALL dataverse.pull('pull_dv.account', 'pull_copy.marked', columns => '{accountid, name}', deletes => 'mark');
CALL dataverse.pull('pull_dv.account', 'pull_copy.kept', columns => '{name}', deletes => 'ignore');
DELETE FROM pull_dv.account WHERE name IN ('account 5', 'account 6');
CALL dataverse.pull('pull_dv.account', 'pull_copy.marked', columns => '{accountid, name}', deletes => 'mark');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('pull_dv.account', 'pull_copy.kept', columns => '{name}', deletes => 'ignore');
SELECT name, deleted_at IS NOT NULL AS deleted FROM pull_copy.marked ORDER BY accountid;
SELECT count(*) FROM pull_copy.kept;
INSERT INTO pull_dv.account (accountid, name) VALUES ('00000000-0000-4000-8000-000000000005', 'account 5');
CALL dataverse.pull('pull_dv.account', 'pull_copy.marked', columns => '{accountid, name}', deletes => 'mark');
CALL dataverse.pull('pull_dv.account', 'pull_copy.marked', columns => '{accountid, name}', deletes => 'mark', "full" => true);
SELECT * FROM pg_temp.last_run;
SELECT name FROM pull_copy.marked WHERE deleted_at IS NOT NULL;

-- Without change tracking: versions, and comparisons.
CALL dataverse.pull('pull_dv.task', 'pull_copy.task');
SELECT method FROM dataverse.sync_state WHERE target = 'pull_copy.task';
INSERT INTO pull_dv.task (subject) VALUES ('third');
CALL dataverse.pull('pull_dv.task', 'pull_copy.task');
SELECT * FROM pg_temp.last_run;
-- five minutes later
UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m);
INSERT INTO pull_dv.task (subject) SELECT 'fourth' FROM generate_series(1, 5);
DELETE FROM pull_dv.task WHERE subject = 'third';
CALL dataverse.pull('pull_dv.task', 'pull_copy.task');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('pull_dv.task', 'pull_copy.task', sweep => '0');
SELECT * FROM pg_temp.last_run;
SELECT (SELECT count(*) FROM pull_copy.task) AS here, (SELECT count(*) FROM pull_dv.task) AS there;

-- All tables of a schema; one that cannot be copied does not stop the others.
CREATE SCHEMA pull_all;
CREATE VIEW pull_all.contact AS SELECT 1 AS one;
SET client_min_messages = warning;
CALL dataverse.pull_all('pull_dv', 'pull_all');
SET client_min_messages = error;
SELECT target, last_status FROM dataverse.sync_state WHERE target ~ '^pull_all' ORDER BY 1;
CALL dataverse.pull_all('pull_copy', 'pull_all');

-- The changes themselves.
SELECT id, deleted, "row" ->> 'name' AS name FROM dataverse.changes('pull_dv.account') WHERE id IS NOT NULL ORDER BY id;
SELECT next_token AS token FROM dataverse.changes('pull_dv.account') WHERE id IS NULL \gset
DELETE FROM pull_dv.account WHERE name = 'account 1';
UPDATE pull_dv.account SET name = 'changed' WHERE name = 'account 8';
SELECT id, deleted, "row" ->> 'name' AS name, next_token IS NOT NULL AS has_token
FROM dataverse.changes('pull_dv.account', :'token') ORDER BY id;
SELECT * FROM dataverse.changes('pull_dv.account', 'a&b');
SELECT * FROM dataverse.changes('pull_dv.account', '1%2101%2f01%2f2020%2000%3a00%3a00');
SELECT * FROM dataverse.changes('pull_dv.team');
SELECT * FROM dataverse_private.page_rows(NULL::pull_dv.team);

-- A table's definition cannot be changed while it is read.
BEGIN;
SELECT count(*) FROM dataverse_private.pull_info('pull_dv.account');
SELECT mode FROM pg_locks WHERE relation = 'pull_dv.account'::regclass AND pid = pg_backend_pid();
COMMIT;
BEGIN;
SELECT count(*) > 0 AS some FROM dataverse_private.writable_columns('pull_dv.account');
SELECT mode FROM pg_locks WHERE relation = 'pull_dv.account'::regclass AND pid = pg_backend_pid();
COMMIT;

SET search_path = pull_copy, public;
SELECT dataverse.forget_copy('mine'), dataverse.forget_copy('mine'), dataverse.forget_copy('marked');
RESET search_path;
SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
SELECT (SELECT count(*) FROM dataverse_private.copies), (SELECT count(*) FROM dataverse_private.copy_ids), (SELECT count(*) FROM dataverse_private.run_log);
DROP SCHEMA pull_dv, pull_copy, pull_all CASCADE;
DROP SERVER pull CASCADE;
