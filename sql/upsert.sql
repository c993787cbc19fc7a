-- Rows that may exist already: upsert by id and by alternate key, duplicates.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER upsert_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER upsert_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  accountid uuid,
  name text,
  revenue numeric(19,2) OPTIONS (type 'money'),
  employees integer OPTIONS ("column" 'numberofemployees'),
  industrycode integer OPTIONS (type 'choice'),
  industry text OPTIONS (label_of 'industrycode'),
  ownerid uuid OPTIONS (type 'owner'),
  ownertype text OPTIONS (ref_type_of 'ownerid'),
  statecode integer OPTIONS (type 'state'),
  statuscode integer OPTIONS (type 'status'),
  createdon timestamptz OPTIONS (readonly 'true')
) SERVER upsert_crm OPTIONS (entity_set 'accounts', batch_size '10');

-- by id
ALTER FOREIGN TABLE account OPTIONS (ADD insert_mode 'upsert');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO account (accountid, name) VALUES (gen_random_uuid(), 'u');
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'u1'), ('00000000-0000-0000-0000-00000000000b', 'u2');
INSERT INTO account (accountid, name, revenue) VALUES ('00000000-0000-0000-0000-00000000000a', 'u3', 3);
INSERT INTO account (accountid, revenue) VALUES ('00000000-0000-0000-0000-00000000000b', 4);
SELECT accountid, name, revenue FROM account ORDER BY 1;
-- the same row again: in order
INSERT INTO account (accountid, name) SELECT '00000000-0000-0000-0000-00000000000a', 'again ' || i FROM generate_series(1, 25) i;
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000c', 'c1'), ('00000000-0000-0000-0000-00000000000c', 'c2') RETURNING name, statecode;
SELECT accountid, name, revenue FROM account ORDER BY 1;
-- ambiguous rows
INSERT INTO account (name) VALUES ('x');
INSERT INTO account (accountid, name) VALUES (NULL, 'x');
ALTER FOREIGN TABLE account OPTIONS (ADD keys 'accountnumber;name,revenue');
INSERT INTO account (name) VALUES ('x');
ALTER FOREIGN TABLE account OPTIONS (DROP keys);
-- columns that are not a key of the table
ALTER FOREIGN TABLE account OPTIONS (ADD upsert_key 'name');
DO $$
DECLARE hint text;
BEGIN
  INSERT INTO account (name) VALUES ('no key');
EXCEPTION WHEN fdw_invalid_attribute_value THEN
  GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
  RAISE NOTICE '%', hint;
END $$;
ALTER FOREIGN TABLE account OPTIONS (DROP upsert_key);
-- states
INSERT INTO account (accountid, name, statecode, statuscode) VALUES ('00000000-0000-0000-0000-00000000000a', 'was there', 1, 2), ('00000000-0000-0000-0000-00000000000d', 'new', 1, 2);
SELECT name, statecode, statuscode FROM account WHERE statecode = 1 ORDER BY name;
INSERT INTO account (accountid, statecode, statuscode) VALUES ('00000000-0000-0000-0000-00000000000a', 0, 1);
SELECT name, statecode, statuscode FROM account WHERE statecode = 1 ORDER BY name;
ALTER FOREIGN TABLE account OPTIONS (DROP insert_mode);

-- duplicates
\set VERBOSITY terse
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'dup');
\echo :SQLSTATE
\set VERBOSITY default
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'dup'), ('00000000-0000-0000-0000-00000000000e', 'new') ON CONFLICT DO NOTHING;
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'dup'), ('00000000-0000-0000-0000-00000000000f', 'new') ON CONFLICT DO NOTHING RETURNING name;
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'dup') ON CONFLICT (accountid) DO NOTHING;
SELECT pg_temp.explain('ANALYZE', $$INSERT INTO account (accountid, name)
VALUES ('00000000-0000-0000-0000-00000000000a', 'dup'), ('00000000-0000-0000-0000-0000000000f1', 'explained') ON CONFLICT DO NOTHING RETURNING name$$);
DELETE FROM account WHERE name = 'explained';
SET dataverse_fdw.insert_mode = 'ignore_duplicates';
INSERT INTO account (accountid, name) SELECT '00000000-0000-0000-0000-00000000000a', 'dup' FROM generate_series(1, 3);
DO $$
DECLARE n int;
BEGIN
  INSERT INTO account (accountid, name) SELECT ('00000000-0000-0000-0000-0000000000' || to_char(i, 'FM00'))::uuid, 'some' FROM generate_series(1, 25) i;
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
  INSERT INTO account (accountid, name) SELECT ('00000000-0000-0000-0000-0000000000' || to_char(i, 'FM00'))::uuid, 'some' FROM generate_series(11, 35) i;
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
END $$;
RESET dataverse_fdw.insert_mode;
SELECT name, count(*) FROM account WHERE name IN ('dup', 'new', 'some') GROUP BY 1 ORDER BY 1;

-- by alternate key
CREATE SCHEMA dv_upsert;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, new_reading) FROM SERVER upsert_crm INTO dv_upsert;
SET search_path = dv_upsert, public;
ALTER FOREIGN TABLE new_meter OPTIONS (insert_mode 'upsert', upsert_key 'new_serial');
INSERT INTO new_meter (new_serial, new_name) VALUES ('S/1 ''q"', 'one'), ('S-2', 'two');
INSERT INTO new_meter (new_serial, new_name) VALUES ('S/1 ''q"', 'one!'), ('S-3', 'three') RETURNING new_serial, new_name, new_meterid IS NOT NULL AS id;
SELECT new_serial, new_name FROM new_meter ORDER BY new_serial COLLATE "C";
INSERT INTO new_meter (new_serial, new_name) VALUES (NULL, 'x');
INSERT INTO new_meter (new_serial, statecode) VALUES ('S-2', 1);
ALTER FOREIGN TABLE new_meter OPTIONS (SET upsert_key 'new_accountid, new_number');
INSERT INTO new_meter (new_accountid, new_number, new_name) VALUES ('00000000-0000-0000-0000-00000000000a', 1, 'n1'), ('00000000-0000-0000-0000-00000000000a', 2, 'n2');
INSERT INTO new_meter (new_accountid, new_number, new_name) VALUES ('00000000-0000-0000-0000-00000000000a', 1, 'n1!') RETURNING new_number, new_name, new_meterid IS NOT NULL AS id;
SELECT new_number, new_name FROM new_meter WHERE new_number IS NOT NULL ORDER BY 1;
ALTER FOREIGN TABLE new_meter OPTIONS (SET upsert_key 'new_nothing');
INSERT INTO new_meter (new_accountid, new_number, new_name) VALUES ('00000000-0000-0000-0000-00000000000a', 1, 'x');
ALTER FOREIGN TABLE new_meter OPTIONS (SET upsert_key 'new_accountid,,new_number');

-- choices are equal in upper case
SET dataverse_fdw.insert_mode = 'UPSERT';
ALTER FOREIGN TABLE new_meter OPTIONS (DROP upsert_key);
-- the key of a session
SET dataverse_fdw.upsert_key = 'new_serial';
INSERT INTO new_meter (new_serial, new_name) VALUES ('S-session', 'one'), ('S-session', 'two');
SELECT new_name FROM new_meter WHERE new_serial = 'S-session';
DELETE FROM new_meter WHERE new_serial = 'S-session';
RESET dataverse_fdw.upsert_key;
ALTER FOREIGN TABLE new_meter OPTIONS (ADD upsert_key 'new_serial', SET insert_mode 'create');
INSERT INTO new_meter (new_serial, new_name) VALUES ('S-2', 'upper case');
SELECT new_name FROM new_meter WHERE new_serial = 'S-2';
RESET dataverse_fdw.insert_mode;

-- a default of new_id() does not identify the row
ALTER FOREIGN TABLE new_meter ALTER COLUMN new_meterid SET DEFAULT dataverse.new_id();
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO new_meter (new_serial, new_name) VALUES ('S-3', 'inserted');
SELECT new_meterid AS id FROM new_meter WHERE new_serial = 'S-3' \gset
INSERT INTO new_meter (new_serial, new_name) VALUES ('S-3', 'upserted'), ('S-4', 'inserted');
COPY new_meter (new_serial, new_name) FROM stdin;
S-3	copied
S-5	copied
\.
SELECT new_serial, new_name, new_meterid = :'id' AS first FROM new_meter WHERE new_serial IN ('S-3', 'S-4', 'S-5') ORDER BY 1;
DELETE FROM new_meter WHERE new_serial IN ('S-3', 'S-4', 'S-5');
SET dataverse_fdw.insert_mode = 'create';
INSERT INTO new_meter (new_serial, new_name) VALUES ('S-6', 'created') RETURNING new_meterid AS id \gset
SELECT new_meterid = :'id' AS returned FROM new_meter WHERE new_serial = 'S-6';
COPY new_meter (new_serial, new_name) FROM stdin;
S-7	copied
\.
SELECT count(*) FROM new_meter WHERE new_serial IN ('S-6', 'S-7');
DELETE FROM new_meter WHERE new_serial IN ('S-6', 'S-7');
RESET dataverse_fdw.insert_mode;

-- elastic tables
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO new_reading (new_readingid, new_name, partitionid) VALUES ('00000000-0000-0000-0000-00000000000a', 'u', 'd'), ('00000000-0000-0000-0000-00000000000a', 'u2', 'd2'), ('00000000-0000-0000-0000-00000000000a', 'u3', 'd') RETURNING new_name, partitionid, createdon IS NOT NULL AS created;
SELECT new_name, partitionid FROM new_reading ORDER BY new_name COLLATE "C";
RESET dataverse_fdw.insert_mode;

SET client_min_messages = warning;
DROP SERVER upsert_crm CASCADE;
DROP SCHEMA IF EXISTS dv_upsert CASCADE;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
