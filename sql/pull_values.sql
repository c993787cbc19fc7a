--
-- A copy has the values of Dataverse, or it does not have the row: columns of
-- other types, types that cannot follow, and columns that get no values any more.
--
\set VERBOSITY default
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER pull_values FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', page_size '20');
CREATE USER MAPPING FOR CURRENT_USER SERVER pull_values OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA values_dv;
CREATE SCHEMA values_copy;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, new_alltypes) FROM SERVER pull_values INTO values_dv;
CREATE FUNCTION pg_temp.id(i integer) RETURNS uuid LANGUAGE sql AS
  $$ SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid $$;
CREATE VIEW pg_temp.last_run AS
  SELECT status, inserted, updated, unchanged, rejected, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1;

-- Row 1 fits every column; each of the others does not fit one column.
INSERT INTO values_dv.new_alltypes (new_alltypesid, new_name, new_text, new_integer, new_bigint, new_decimal, new_double, new_boolean,
    new_choices, new_datetime, new_date, new_zonefree)
  VALUES (pg_temp.id(1), 'abcde', 'short', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(2), 'abc', 'short', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(3), 'abcde', 'short    ', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(4), 'abcde', 'short', 5, 16777217, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(5), 'abcde', 'short', 5, 7, 3.5, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(6), 'abcde', 'short', 5, 7, 3, 0.1, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(7), 'abcde', 'short', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 03:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(8), 'abcde', 'short', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00:01'),
         (pg_temp.id(9), 'abcdef', 'short', 5, 7, 3, 0.5, true, '{1,2}', '2026-01-02 00:00+00', '2026-01-02', '2026-01-02 00:00'),
         (pg_temp.id(10), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE DOMAIN values_copy.whole AS numeric(10, 0);
CREATE TABLE values_copy.other (
  new_alltypesid uuid PRIMARY KEY, new_name char(5), new_text varchar(5), new_integer text, new_bigint real, new_decimal values_copy.whole,
  new_double real, new_boolean text, new_choices text, new_datetime date, new_date timestamptz, new_zonefree timestamp(0), versionnumber numeric);
ALTER TABLE values_copy.other ALTER new_zonefree TYPE date;
CALL dataverse.pull('values_dv.new_alltypes', 'values_copy.other');
\set VERBOSITY terse
CALL dataverse.pull('values_dv.new_alltypes', 'values_copy.other', on_error => 'continue');
SELECT row_id, sqlstate, message FROM dataverse.rejects WHERE operation = 'pull' ORDER BY row_id;
SELECT new_alltypesid, new_name, new_text, new_integer, new_bigint, new_decimal, new_double, new_boolean, new_choices, new_datetime, new_date, new_zonefree
FROM values_copy.other ORDER BY 1;
-- the local value is compared with the one that the column would store, and is refused nevertheless
UPDATE values_dv.new_alltypes SET new_name = 'abcdef', new_bigint = 8 WHERE new_alltypesid = pg_temp.id(1);
UPDATE values_dv.new_alltypes SET new_name = 'abcde ' WHERE new_alltypesid = pg_temp.id(2);
UPDATE values_dv.new_alltypes SET new_decimal = 5 WHERE new_alltypesid = pg_temp.id(5);
CALL dataverse.pull('values_dv.new_alltypes', 'values_copy.other', on_error => 'continue');
SELECT row_id, sqlstate, message FROM dataverse.rejects WHERE row_id IN (pg_temp.id(1), pg_temp.id(2), pg_temp.id(5)) ORDER BY row_id;
SELECT new_alltypesid, new_name, new_bigint, new_decimal FROM values_copy.other ORDER BY 1 LIMIT 3;
SELECT dataverse.forget_copy('values_copy.other');
DROP TABLE values_copy.other;

-- Times without time zone are in UTC, in any session's time zone, and are sent in UTC.
-- Blanks at the end of char(n) are neither compared nor sent.
CREATE TABLE values_copy.times (new_alltypesid uuid PRIMARY KEY, new_name char(8), new_datetime timestamp, new_date timestamptz, new_zonefree timestamptz,
  versionnumber bigint, zone text);
CREATE FUNCTION values_copy.zone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.zone := current_setting('TimeZone'); RETURN NEW; END $$;
CREATE TRIGGER zone BEFORE INSERT OR UPDATE ON values_copy.times FOR EACH ROW EXECUTE FUNCTION values_copy.zone();
SET timezone = 'America/New_York';
CALL dataverse.sync('values_dv.new_alltypes', 'values_copy.times');
SET timezone = 'UTC';
SELECT new_alltypesid, new_name, new_datetime, new_date, new_zonefree, zone FROM values_copy.times WHERE new_alltypesid IN (pg_temp.id(7), pg_temp.id(8)) ORDER BY 1;
UPDATE values_copy.times SET new_datetime = '2026-07-01 12:00', new_name = 'xyz' WHERE new_alltypesid = pg_temp.id(7);
UPDATE values_copy.times SET new_name = 'here' WHERE new_alltypesid = pg_temp.id(8);
UPDATE values_dv.new_alltypes SET new_datetime = '2026-07-01 06:00+00' WHERE new_alltypesid = pg_temp.id(8);
UPDATE values_copy.times SET new_datetime = '2026-07-01 07:00' WHERE new_alltypesid = pg_temp.id(6);
UPDATE values_dv.new_alltypes SET new_name = 'there' WHERE new_alltypesid = pg_temp.id(6);
SET timezone = 'America/New_York';
CALL dataverse.sync('values_dv.new_alltypes', 'values_copy.times');
CALL dataverse.pull('values_dv.new_alltypes', 'values_copy.times', "full" => true);
SET timezone = 'UTC';
SELECT sent, conflicts FROM dataverse.runs WHERE operation = 'sync' ORDER BY id DESC LIMIT 1;
SELECT new_alltypesid, new_name, octet_length(new_name), new_datetime FROM values_dv.new_alltypes WHERE new_alltypesid IN (pg_temp.id(6), pg_temp.id(7), pg_temp.id(8)) ORDER BY 1;
SELECT new_alltypesid, new_name, new_datetime, zone FROM values_copy.times WHERE new_alltypesid IN (pg_temp.id(6), pg_temp.id(7), pg_temp.id(8)) ORDER BY 1;
CALL dataverse.untrack('values_copy.times');
SELECT dataverse.forget_copy('values_copy.times');
DROP TABLE values_copy.times;

INSERT INTO values_dv.account (accountid, name, numberofemployees) SELECT pg_temp.id(i), 'account ' || i, i FROM generate_series(1, 30) AS i;
-- money has no cast to integer
CREATE TABLE values_copy.cash (accountid uuid PRIMARY KEY, numberofemployees money, versionnumber bigint);
CALL dataverse.sync('values_dv.account', 'values_copy.cash');
SELECT count(*), sum(numberofemployees)::numeric FROM values_copy.cash;
UPDATE values_copy.cash SET numberofemployees = numberofemployees * 2 WHERE accountid IN (pg_temp.id(1), pg_temp.id(2));
UPDATE values_copy.cash SET numberofemployees = 3.5 WHERE accountid = pg_temp.id(3);
CALL dataverse.sync('values_dv.account', 'values_copy.cash');
SELECT row_id, kind, sqlstate, error FROM dataverse.conflicts;
SELECT name, numberofemployees FROM values_dv.account WHERE accountid IN (pg_temp.id(1), pg_temp.id(2), pg_temp.id(3)) ORDER BY 1;
CALL dataverse.untrack('values_copy.cash');
SELECT dataverse.forget_copy('values_copy.cash');
UPDATE values_dv.account SET numberofemployees = numberofemployees / 2 WHERE accountid IN (pg_temp.id(1), pg_temp.id(2));
DROP TABLE values_copy.cash;

-- A type follows that of the foreign table, also after this was disabled.
\set pull 'CALL dataverse.pull(''values_dv.account'', ''values_copy.account'''
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
ALTER FOREIGN TABLE values_dv.account ALTER numberofemployees TYPE numeric;
:pull, columns => '{accountid, name, numberofemployees, versionnumber}', drift => 'ignore');
:pull, columns => '{accountid, name, numberofemployees, versionnumber}', drift => 'ignore');
SELECT * FROM pg_temp.last_run;
SELECT pg_typeof(numberofemployees) FROM values_copy.account LIMIT 1;
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT pg_typeof(numberofemployees) FROM values_copy.account LIMIT 1;

-- A view prevents it: the old type is kept, with the values that fit.
CREATE VIEW values_copy.large AS SELECT accountid, numberofemployees FROM values_copy.account WHERE numberofemployees > 10;
ALTER FOREIGN TABLE values_dv.account ALTER numberofemployees TYPE text;
\set VERBOSITY default
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
\set VERBOSITY terse
UPDATE values_dv.account SET name = 'again' WHERE accountid = pg_temp.id(3);
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT * FROM pg_temp.last_run;
SELECT name, numberofemployees FROM values_copy.account WHERE accountid = pg_temp.id(3);
UPDATE values_dv.account SET fax = CASE accountid WHEN pg_temp.id(4) THEN '40' ELSE 'five' END WHERE accountid IN (pg_temp.id(4), pg_temp.id(5));
ALTER FOREIGN TABLE values_dv.account ALTER numberofemployees OPTIONS (SET "column" 'fax');
:pull, columns => '{accountid, name, numberofemployees, versionnumber}', on_error => 'continue');
SELECT row_id, sqlstate, message FROM dataverse.rejects WHERE operation = 'pull';
SELECT name, numberofemployees FROM values_copy.account WHERE accountid IN (pg_temp.id(4), pg_temp.id(5)) ORDER BY 1;
-- and the next run changes it once it can
DROP VIEW values_copy.large;
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT * FROM pg_temp.last_run;
SELECT name, numberofemployees FROM values_copy.account WHERE accountid IN (pg_temp.id(4), pg_temp.id(5)) ORDER BY 1;
SELECT unfed FROM dataverse.sync_state;

-- A local change of type changes existing values, so all rows are read again.
UPDATE values_dv.account SET revenue = 1.5 WHERE accountid = pg_temp.id(6);
CALL dataverse.pull('values_dv.account', 'values_copy.sums', columns => '{accountid, revenue, versionnumber}');
ALTER TABLE values_copy.sums ALTER revenue TYPE integer;
SELECT revenue FROM values_copy.sums WHERE accountid = pg_temp.id(6);
CALL dataverse.pull('values_dv.account', 'values_copy.sums', columns => '{accountid, revenue, versionnumber}', on_error => 'continue');
SELECT row_id, sqlstate, message FROM dataverse.rejects WHERE operation = 'pull';
ALTER TABLE values_copy.sums ALTER revenue TYPE numeric;
CALL dataverse.pull('values_dv.account', 'values_copy.sums', columns => '{accountid, revenue, versionnumber}');
SELECT revenue FROM values_copy.sums WHERE accountid = pg_temp.id(6);
SELECT dataverse.forget_copy('values_copy.sums');
DROP TABLE values_copy.sums;

-- Versions that are not bigint cannot be compared: values are.
ALTER FOREIGN TABLE values_dv.account ALTER versionnumber TYPE numeric;
CREATE TABLE values_copy.versions (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CALL dataverse.pull('values_dv.account', 'values_copy.versions');
UPDATE values_copy.versions SET name = 'changed here' WHERE accountid = pg_temp.id(6);
CALL dataverse.pull('values_dv.account', 'values_copy.versions', sweep => '0');
SELECT * FROM pg_temp.last_run;
SELECT dataverse.forget_copy('values_copy.versions');
DROP TABLE values_copy.versions;
ALTER FOREIGN TABLE values_dv.account ALTER versionnumber TYPE bigint;

-- Columns that no longer get values: excluded, renamed in Dataverse, and renamed locally.
:pull, columns => '{accountid, name, versionnumber}');
SELECT unfed FROM dataverse.sync_state;
:pull, columns => '{accountid, name, numberofemployees, versionnumber}');
SELECT unfed FROM dataverse.sync_state;
ALTER FOREIGN TABLE values_dv.account RENAME numberofemployees TO staff;
\set VERBOSITY default
:pull, columns => '{accountid, name, staff, versionnumber}');
\set VERBOSITY terse
:pull, columns => '{accountid, name, staff, versionnumber}');
SELECT * FROM pg_temp.last_run;
ALTER TABLE values_copy.account RENAME name TO title;
:pull, columns => '{accountid, name, staff, versionnumber}');
SELECT unfed FROM dataverse.sync_state;
:pull, columns => '{accountid, name, staff, versionnumber}', drift => 'ignore');
ALTER TABLE values_copy.account DROP numberofemployees, DROP title;
:pull, columns => '{accountid, name, staff, versionnumber}');
SELECT unfed FROM dataverse.sync_state;

SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
SELECT count(*) FROM dataverse.rejects WHERE operation = 'pull';
DROP SCHEMA values_dv, values_copy CASCADE;
DROP SERVER pull_values CASCADE;
