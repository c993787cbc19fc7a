-- match_version: UPDATE and DELETE write only rows that have not been changed since they were read.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER match_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
\set VERBOSITY terse
CREATE USER MAPPING FOR CURRENT_USER SERVER match_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA match;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, new_reading, new_alltypes, account, contact, new_account_contact, transactioncurrency)
  FROM SERVER match_crm INTO match;
SET search_path = match;
INSERT INTO new_meter (new_meterid, new_number, new_name) SELECT md5(n::text)::uuid, n, 'm' || n FROM generate_series(1, 20) n;

-- the setting, the option of the table, and that of the server
SET dataverse_fdw.match_version = 'maybe';
SET dataverse_fdw.match_version = on;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE new_meter SET new_name = 'x' WHERE new_number > 3;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM new_meter WHERE new_number > 3;
-- ids do not identify versions, so rows are read
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM new_meter WHERE new_meterid = md5('1')::uuid;
INSERT INTO new_meter (new_number, new_name) VALUES (21, 'an insert');
RESET dataverse_fdw.match_version;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM new_meter WHERE new_meterid = md5('1')::uuid;
ALTER FOREIGN TABLE new_meter OPTIONS (ADD match_version 'on');
SELECT pg_temp.explain('VERBOSE', $$UPDATE new_meter SET new_name = 'x'$$);
SET dataverse_fdw.match_version = off;
SELECT pg_temp.explain('VERBOSE', $$UPDATE new_meter SET new_name = 'x'$$);
RESET dataverse_fdw.match_version;
ALTER FOREIGN TABLE new_meter OPTIONS (DROP match_version);
ALTER SERVER match_crm OPTIONS (ADD match_version 'on');
UPDATE new_meter SET new_name = 'server' WHERE new_number = 1;
ALTER SERVER match_crm OPTIONS (DROP match_version);

-- a prepared statement, and that of a function, follow the setting
SET plan_cache_mode = force_generic_plan;
PREPARE rename(text) AS UPDATE new_meter SET new_name = $1 WHERE new_number = 2;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE rename('a');
SET dataverse_fdw.match_version = on;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE rename('a');
EXECUTE rename('a');
BEGIN;
SET LOCAL dataverse_fdw.match_version = off;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE rename('b');
ROLLBACK;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE rename('b');
DEALLOCATE rename;
RESET plan_cache_mode;

-- rows that no other session has changed
SELECT pg_temp.explain('ANALYZE', $$UPDATE new_meter SET new_name = 'y' WHERE new_number <= 5$$);
UPDATE new_meter SET new_name = 'z' || new_number WHERE new_number <= 3 RETURNING new_number, new_name;
-- the new version is returned
CREATE TEMP TABLE before AS SELECT new_meterid, versionnumber FROM new_meter WHERE new_number = 4;
UPDATE new_meter m SET new_name = 'newer' FROM before b WHERE m.new_meterid = b.new_meterid
  RETURNING m.versionnumber > b.versionnumber AS newer, m.versionnumber \gset
SELECT :'newer' AS newer, versionnumber = :versionnumber AS "is returned" FROM new_meter WHERE new_number = 4;
DELETE FROM new_meter WHERE new_number = 5 RETURNING new_number, new_name;
DELETE FROM new_meter WHERE new_meterid = md5('6')::uuid;
SELECT count(*) FROM new_meter;
-- twice in one transaction
BEGIN;
UPDATE new_meter SET new_name = 'one' WHERE new_number = 7;
UPDATE new_meter SET new_name = 'two' WHERE new_number = 7;
COMMIT;
-- a row that a join finds several times is changed once
UPDATE new_meter m SET new_name = 'v' || s.v FROM (VALUES (8, 1), (8, 2), (9, 3)) s (n, v) WHERE m.new_number = s.n;

-- a row that is changed while the statement runs
CREATE FUNCTION change(n integer) RETURNS integer LANGUAGE plpgsql
  SET dataverse_fdw.match_version = off AS
$$
BEGIN
  UPDATE match.new_meter SET new_lastreading = 77 WHERE new_number = n;
  RETURN n;
END
$$;
\set VERBOSITY default
\set SHOW_CONTEXT never
DO $$
DECLARE detail text; hint text;
BEGIN
  UPDATE new_meter SET new_number = change(new_number) WHERE new_number = 10;
EXCEPTION WHEN serialization_failure THEN
  GET STACKED DIAGNOSTICS detail = pg_exception_detail, hint = pg_exception_hint;
  RAISE NOTICE '%: %', SQLSTATE, SQLERRM;
  RAISE NOTICE '%', regexp_replace(detail, ' *Dataverse code.*', '');
  RAISE NOTICE '%', hint;
END
$$;
SELECT new_lastreading FROM new_meter WHERE new_number = 10;
SET dataverse_fdw.on_error = 'continue';
UPDATE new_meter SET new_number = CASE WHEN new_number = 12 THEN change(12) ELSE new_number END, new_name = 'ours'
  WHERE new_number IN (11, 12, 13) RETURNING new_number;
SELECT new_number, new_name, new_lastreading FROM new_meter WHERE new_number IN (11, 12, 13) ORDER BY 1;
SELECT operation, row_id = md5('12')::uuid AS row_12, "sqlstate", code FROM dataverse.rejects WHERE server = 'match_crm';
SELECT count(*) FROM dataverse.retry_rejects('match.new_meter');
SELECT new_number, new_name, new_lastreading FROM new_meter WHERE new_number = 12;
SELECT count(*) FROM dataverse.rejects WHERE server = 'match_crm';
RESET dataverse_fdw.on_error;
\set VERBOSITY terse

-- triggers change the new values, but not the expected version
CREATE FUNCTION upper_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.new_name := upper(NEW.new_name); NEW.versionnumber := OLD.versionnumber; RETURN NEW; END $$;
CREATE TRIGGER upper_name BEFORE UPDATE ON new_meter FOR EACH ROW EXECUTE FUNCTION upper_name();
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE NOTICE '% %, %', NEW.new_name, NEW.new_lastreading, NEW.versionnumber > OLD.versionnumber; RETURN NULL; END $$;
CREATE TRIGGER tell AFTER UPDATE ON new_meter FOR EACH ROW EXECUTE FUNCTION tell();
UPDATE new_meter SET new_lastreading = 1 WHERE new_number IN (17, 18);
DROP TRIGGER upper_name ON new_meter;
DROP TRIGGER tell ON new_meter;

-- rows that a nested loop reads sequentially
SET enable_hashjoin = off;
SET enable_mergejoin = off;
UPDATE new_meter m SET new_name = 'loop' || k.n FROM (VALUES (19), (20), (19)) k (n) WHERE m.new_meterid = md5(k.n::text)::uuid;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT new_number, new_name FROM new_meter WHERE new_number IN (19, 20) ORDER BY 1;

-- a dry run sends nothing
SET dataverse_fdw.dry_run = on;
UPDATE new_meter SET new_name = 'dry' WHERE new_number = 19;
RESET dataverse_fdw.dry_run;

-- state, lookups to several tables, images: one request
INSERT INTO new_alltypes (new_alltypesid, new_name) VALUES (md5('all')::uuid, 'all');
UPDATE new_alltypes SET statecode = 1, statuscode = 2, new_picture = '\x89504e470d0a1a0a0000000d49484452', new_memo = 'm'
  WHERE new_alltypesid = md5('all')::uuid;
SELECT statecode, statuscode, length(new_picture) > 0 AS picture, new_memo FROM new_alltypes;
INSERT INTO account (accountid, name) VALUES (md5('a')::uuid, 'a');
INSERT INTO contact (contactid, lastname, parentcustomerid, parentcustomeridtype) VALUES (md5('c')::uuid, 'c', md5('a')::uuid, 'account');
UPDATE contact SET parentcustomerid = NULL, birthdate = '2001-02-03' WHERE contactid = md5('c')::uuid
  RETURNING parentcustomerid, parentcustomeridtype;
UPDATE contact SET parentcustomerid = md5('a')::uuid, parentcustomeridtype = 'account'
  RETURNING parentcustomerid = md5('a')::uuid AS set, parentcustomeridtype;

-- only some of Microsoft's tables compare versions
DO $$
DECLARE detail text; hint text;
BEGIN
  UPDATE transactioncurrency SET currencyname = 'Thaler';
EXCEPTION WHEN feature_not_supported THEN
  GET STACKED DIAGNOSTICS detail = pg_exception_detail, hint = pg_exception_hint;
  RAISE NOTICE '%', SQLERRM;
  RAISE NOTICE '%', regexp_replace(detail, ' *Dataverse code.*', '');
  RAISE NOTICE '%', hint;
END
$$;
-- even if refused rows are filed
SET dataverse_fdw.on_error = 'continue';
DELETE FROM transactioncurrency;
RESET dataverse_fdw.on_error;
SELECT currencyname FROM transactioncurrency;
SELECT count(*) FROM dataverse.rejects WHERE server = 'match_crm';
SELECT count(*) FROM dataverse.doubts;
ALTER FOREIGN TABLE transactioncurrency OPTIONS (ADD match_version 'off');
RESET dataverse_fdw.match_version;
UPDATE transactioncurrency SET currencyname = 'US Dollar';
SET dataverse_fdw.match_version = on;

-- tables without versions to compare
\set VERBOSITY default
UPDATE new_reading SET new_name = 'x';
DELETE FROM new_reading;
INSERT INTO new_reading (new_name, partitionid) VALUES ('r', 'p');
CREATE FOREIGN TABLE unversioned (new_meterid uuid, new_name text) SERVER match_crm OPTIONS ("table" 'new_meter', entity_set 'new_meters');
UPDATE unversioned SET new_name = 'x';
ALTER FOREIGN TABLE unversioned ADD versionnumber text;
DELETE FROM unversioned;
ALTER FOREIGN TABLE unversioned OPTIONS (ADD match_version 'off');
DELETE FROM unversioned WHERE new_name = 'none';
RESET dataverse_fdw.match_version;
DELETE FROM unversioned WHERE new_name = 'none';
-- a version by another name
CREATE FOREIGN TABLE renamed (id uuid OPTIONS ("column" 'new_meterid'), new_name text, v bigint OPTIONS ("column" 'versionnumber'))
  SERVER match_crm OPTIONS ("table" 'new_meter', entity_set 'new_meters', match_version 'on');
UPDATE renamed SET new_name = 'renamed' WHERE id = md5('14')::uuid RETURNING new_name;
-- pairs do not change
ALTER FOREIGN TABLE new_account_contact OPTIONS (ADD match_version 'on');
INSERT INTO new_account_contact (accountid, contactid) VALUES (md5('a')::uuid, md5('c')::uuid);
DELETE FROM new_account_contact;

-- partitions, of which one matches versions
CREATE TABLE meters (new_meterid uuid, new_name text, new_number integer, versionnumber bigint) PARTITION BY RANGE (new_number);
CREATE FOREIGN TABLE few PARTITION OF meters FOR VALUES FROM (1) TO (16) SERVER match_crm
  OPTIONS ("table" 'new_meter', entity_set 'new_meters', match_version 'on');
CREATE FOREIGN TABLE many PARTITION OF meters FOR VALUES FROM (16) TO (1000) SERVER match_crm
  OPTIONS ("table" 'new_meter', entity_set 'new_meters');
SELECT pg_temp.explain('VERBOSE', $$UPDATE meters SET new_name = 'part' WHERE new_number IN (15, 16)$$);
UPDATE meters SET new_name = 'part' WHERE new_number = 15 RETURNING new_number, new_name;
DELETE FROM meters WHERE new_number = 15;
SELECT count(*) FROM few;

\set VERBOSITY terse
DROP SCHEMA match CASCADE;
DROP SERVER match_crm CASCADE;
