--
-- Staying in step: names of columns, tables that existed before or are
-- recreated, and settings of the session.
--
\set VERBOSITY terse
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = warning;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER odd FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER odd OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA odd_dv;
CREATE SCHEMA odd;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_account_contact, new_reading) FROM SERVER odd INTO odd_dv;
CREATE FUNCTION pg_temp.id(i integer) RETURNS uuid LANGUAGE sql AS
  $$ SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid $$;
INSERT INTO odd_dv.account (accountid, name) SELECT pg_temp.id(i), 'account ' || i FROM generate_series(1, 9) AS i;
CREATE VIEW pg_temp.last_run AS
  SELECT operation, status, rows_read, inserted, updated, deleted, sent, conflicts, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1;
CREATE FUNCTION pg_temp.differences(here text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (SELECT accountid, name, versionnumber FROM odd_dv.account) AS f'
                 ' FULL JOIN (SELECT accountid, name, versionnumber FROM %s) AS t USING (accountid, name, versionnumber)'
                 ' WHERE f.accountid IS NULL OR t.accountid IS NULL', here) INTO n;
  RETURN n;
END
$$;

-- Columns with the names of the statements' aliases: the user's own ones, and copied ones.
CREATE TABLE odd.own (accountid uuid PRIMARY KEY, name text, versionnumber bigint,
  s text, t text, f text, p text, i text, x text, u text, r text, d text, n text, id text, version text, image text, "select" text);
CALL dataverse.sync('odd_dv.account', 'odd.own');
UPDATE odd.own SET name = 'ours', d = 'own' WHERE accountid = pg_temp.id(1);
DELETE FROM odd.own WHERE accountid = pg_temp.id(2);
INSERT INTO odd.own (name) VALUES ('new');
DELETE FROM odd_dv.account WHERE accountid = pg_temp.id(3);
UPDATE odd_dv.account SET name = 'theirs' WHERE accountid = pg_temp.id(4);
CALL dataverse.sync('odd_dv.account', 'odd.own');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('odd_dv.account', 'odd.own', "full" => true);
SELECT pg_temp.differences('odd.own');
CREATE FOREIGN TABLE odd_dv.aliases (
  accountid uuid OPTIONS ("column" 'accountid', type 'uniqueidentifier'), s text OPTIONS ("column" 'name'), t text OPTIONS ("column" 'description'),
  f text OPTIONS ("column" 'fax'), p text OPTIONS ("column" 'telephone1'), i text OPTIONS ("column" 'telephone2'),
  x text OPTIONS ("column" 'accountnumber'), u text OPTIONS ("column" 'sic'), r text OPTIONS ("column" 'tickersymbol'),
  d text OPTIONS ("column" 'stockexchange'), n text OPTIONS ("column" 'address1_city'), id text OPTIONS ("column" 'address1_line1'),
  version bigint OPTIONS ("column" 'versionnumber'), "select" text OPTIONS ("column" 'address1_line2'))
  SERVER odd OPTIONS ("table" 'account', entity_set 'accounts', primary_id 'accountid');
CALL dataverse.sync('odd_dv.aliases', 'odd.aliases', on_error => 'continue');
UPDATE odd.aliases SET s = 's', t = 't', f = 'f', p = 'p', i = 'i', x = 'x', u = 'u', r = 'r', d = 'd', n = 'n', id = 'id', "select" = 'select'
  WHERE accountid = pg_temp.id(5);
UPDATE odd.aliases SET s = 'ours', x = 'ours' WHERE accountid = pg_temp.id(6);
UPDATE odd_dv.aliases SET s = 'theirs', x = 'theirs' WHERE accountid = pg_temp.id(6);
DELETE FROM odd.aliases WHERE accountid = pg_temp.id(7);
INSERT INTO odd.aliases (s, x) VALUES ('new', 'x');
DELETE FROM odd_dv.aliases WHERE accountid = pg_temp.id(8);
CALL dataverse.sync('odd_dv.aliases', 'odd.aliases');
SELECT * FROM pg_temp.last_run;
SELECT kind, columns, ours ->> 's' AS ours, theirs ->> 's' AS theirs FROM dataverse.conflicts;
SELECT dataverse.resolve('odd.aliases', 'local');
CALL dataverse.sync('odd_dv.aliases', 'odd.aliases');
SELECT count(*) FROM (TABLE odd_dv.aliases EXCEPT TABLE odd.aliases) AS x;
SELECT id, "row" ->> 's' AS s, "row" ->> 'x' AS x FROM dataverse.changes('odd_dv.aliases') WHERE id = pg_temp.id(6);

-- A table that is recreated, or takes the name of another one, must be read completely.
CREATE TABLE odd.anew (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CALL dataverse.sync('odd_dv.account', 'odd.anew');
UPDATE odd.anew SET name = 'not sent' WHERE accountid = pg_temp.id(1);
DROP TABLE odd.anew;
CREATE TABLE odd.anew (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CALL dataverse.pull('odd_dv.account', 'odd.anew');
SELECT * FROM pg_temp.last_run;
SELECT pg_temp.differences('odd.anew');
CREATE TABLE odd.parts (accountid uuid PRIMARY KEY, name text, versionnumber bigint) PARTITION BY HASH (accountid);
CREATE TABLE odd.part PARTITION OF odd.parts FOR VALUES WITH (MODULUS 1, REMAINDER 0);
ALTER TABLE odd.anew RENAME TO before;
ALTER TABLE odd.parts RENAME TO anew;
CALL dataverse.pull('odd_dv.account', 'odd.anew');
SELECT pg_temp.differences('odd.anew');

-- A column that is dropped and added again is filled again, and so are those that exchange their names; once.
CREATE TABLE odd.again (accountid uuid PRIMARY KEY, name text, telephone1 text, versionnumber bigint);
CALL dataverse.pull('odd_dv.account', 'odd.again');
ALTER TABLE odd.again DROP name;
ALTER TABLE odd.again ADD name text;
CALL dataverse.pull('odd_dv.account', 'odd.again');
SELECT pg_temp.differences('odd.again');
ALTER TABLE odd.again RENAME name TO exchanged;
ALTER TABLE odd.again RENAME telephone1 TO name;
ALTER TABLE odd.again RENAME exchanged TO telephone1;
CALL dataverse.pull('odd_dv.account', 'odd.again');
SELECT rows_read > 0 AS read FROM pg_temp.last_run;
SELECT pg_temp.differences('odd.again');
SELECT count(*) FROM odd.again WHERE telephone1 IS NOT NULL;
CALL dataverse.pull('odd_dv.account', 'odd.again');
SELECT rows_read > 0 AS read FROM pg_temp.last_run;

-- Rows that existed before the first read, and that Dataverse does not have.
CREATE TABLE odd.ghosts (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
INSERT INTO odd.ghosts VALUES (pg_temp.id(1), 'other', 0), (pg_temp.id(99), 'ghost', 1);
CALL dataverse.pull('odd_dv.account', 'odd.ghosts');
SELECT pg_temp.differences('odd.ghosts');
-- Rows in children of the table.
CREATE TABLE odd.parent (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CREATE TABLE odd.child () INHERITS (odd.parent);
INSERT INTO odd.child SELECT accountid, name, versionnumber FROM odd_dv.account ORDER BY accountid LIMIT 3;
CALL dataverse.pull('odd_dv.account', 'odd.parent');
SELECT pg_temp.differences('odd.parent'), (SELECT count(*) FROM odd.parent) = (SELECT count(*) FROM odd_dv.account) AS each_once;
-- TRUNCATE has the effect of a crash on an unlogged table.
CREATE UNLOGGED TABLE odd.unlogged (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CALL dataverse.pull('odd_dv.account', 'odd.unlogged');
TRUNCATE odd.unlogged;
CALL dataverse.pull('odd_dv.account', 'odd.unlogged');
SELECT pg_temp.differences('odd.unlogged');

-- Overlong names.
CALL dataverse.pull('odd_dv.account', 'odd.' || repeat('long', 16), columns => '{accountid, versionnumber}');
SELECT target, length(target) FROM dataverse.sync_state WHERE target LIKE '%longlong%';

-- Runs under other defaults.
SET default_transaction_isolation = 'serializable';
UPDATE odd.own SET name = 'serializable' WHERE accountid = pg_temp.id(1);
CALL dataverse.sync('odd_dv.account', 'odd.own');
SELECT operation, status, sent FROM pg_temp.last_run;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory';
RESET default_transaction_isolation;
SELECT pg_temp.differences('odd.own');
SET statement_timeout = '20s';
SET search_path = '';
SET quote_all_identifiers = on;
SET DateStyle = 'SQL, DMY';
SET extra_float_digits = -5;
-- (19 has no other strings)
SELECT :SERVER_VERSION_NUM < 190000 AS has_other_strings \gset
\if :has_other_strings
SET standard_conforming_strings = off;
\endif
CALL dataverse.sync('odd_dv.account', 'odd.own');
RESET ALL;
SET client_min_messages = warning;

-- Unsupported targets.
CALL dataverse.pull(NULL, 'odd.own');
CALL dataverse.sync(NULL, 'odd.own');
SELECT * FROM dataverse.changes(NULL);
CALL dataverse.sync('odd_dv.new_account_contact', 'odd.pairs');
CALL dataverse.pull('odd_dv.new_account_contact', 'odd.pairs');

-- An id in two partitions of an elastic table: found in the first read, and in a later one.
INSERT INTO odd_dv.new_reading (new_readingid, new_name, partitionid) VALUES (pg_temp.id(1), 'one', 'a'), (pg_temp.id(2), 'two', 'a');
CALL dataverse.pull('odd_dv.new_reading', 'odd.reading');
INSERT INTO odd_dv.new_reading (new_readingid, new_name, partitionid) VALUES (pg_temp.id(1), 'one', 'b');
CALL dataverse.pull('odd_dv.new_reading', 'odd.reading');
CALL dataverse.pull('odd_dv.new_reading', 'odd.names', columns => '{new_name}', on_error => 'continue');
-- one that has moved exists once
DELETE FROM odd_dv.new_reading WHERE new_readingid = pg_temp.id(1) AND partitionid = 'a';
CALL dataverse.pull('odd_dv.new_reading', 'odd.reading', sweep => '0');
SELECT new_name, partitionid FROM odd.reading ORDER BY new_readingid;

SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
DROP SCHEMA odd_dv, odd CASCADE;
DROP SERVER odd CASCADE;
