-- DELETE: of standard, elastic and intersect tables.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER delete_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER delete_crm OPTIONS (client_id 'app1', client_secret 'secret1');
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
) SERVER delete_crm OPTIONS (entity_set 'accounts', batch_size '10');
INSERT INTO account (name, employees) SELECT 'a' || i, i FROM generate_series(1, 40) i;
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'known');

EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE employees <= 15;
SELECT pg_temp.explain('ANALYZE', $$DELETE FROM account WHERE employees <= 15$$);
SELECT count(*) FROM account;
DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-00000000000b';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-00000000000a';
DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-00000000000a';
DELETE FROM account WHERE employees IN (16, 17) RETURNING name, employees, statecode, ownertype, accountid IS NOT NULL AS id;
DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-00000000000b' RETURNING name;
CREATE TEMP TABLE source AS SELECT 20 + i % 5 AS employees FROM generate_series(1, 20) i;
DELETE FROM account a USING source s WHERE a.employees = s.employees;
WITH d AS (DELETE FROM account WHERE employees = 18 RETURNING name) SELECT name FROM d;
CREATE FUNCTION delete_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% %: %', TG_WHEN, TG_OP, OLD.name;
  RETURN CASE WHEN OLD.employees <> 31 THEN OLD END;
END $$;
CREATE TRIGGER b BEFORE DELETE ON account FOR EACH ROW EXECUTE FUNCTION delete_trigger();
CREATE TRIGGER a AFTER DELETE ON account FOR EACH ROW EXECUTE FUNCTION delete_trigger();
DELETE FROM account WHERE employees BETWEEN 30 AND 32;
DROP TRIGGER a ON account;
DROP TRIGGER b ON account;
DROP FUNCTION delete_trigger;
DELETE FROM account;
SELECT count(*) FROM account;

CREATE SCHEMA dv_delete;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (contact, task, new_reading, new_account_contact) FROM SERVER delete_crm INTO dv_delete;
SET search_path = dv_delete, public;
-- elastic tables
INSERT INTO new_reading (new_name, partitionid) SELECT 'r' || i, 'dev' || i % 3 FROM generate_series(1, 10) i;
INSERT INTO new_reading (new_name) VALUES ('without a partition');
SELECT pg_temp.explain('ANALYZE', $$DELETE FROM new_reading WHERE partitionid = 'dev2'$$);
SELECT count(*) FROM new_reading;
DELETE FROM new_reading;
SELECT count(*) FROM new_reading;
-- tables without bulk messages
INSERT INTO task (subject) SELECT 't' || i FROM generate_series(1, 120) i;
UPDATE task SET subject = subject || 'u';
SELECT count(*) FROM task WHERE subject LIKE 't%u';
DELETE FROM task;
SELECT count(*) FROM task;
-- intersect tables
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'a');
INSERT INTO contact (contactid, lastname) SELECT ('00000000-0000-0000-0000-0000000000c' || i)::uuid, 'c' || i FROM generate_series(1, 3) i;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO new_account_contact (accountid, contactid) SELECT '00000000-0000-0000-0000-00000000000a', contactid FROM contact;
INSERT INTO new_account_contact (accountid, contactid) SELECT '00000000-0000-0000-0000-00000000000a', contactid FROM contact RETURNING contactid, new_account_contactid IS NOT NULL AS id;
INSERT INTO new_account_contact (accountid, contactid) VALUES ('00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-0000000000c1') ON CONFLICT DO NOTHING;
INSERT INTO new_account_contact (accountid) VALUES ('00000000-0000-0000-0000-00000000000a');
UPDATE new_account_contact SET accountid = NULL;
DELETE FROM new_account_contact WHERE contactid <> '00000000-0000-0000-0000-0000000000c2' RETURNING contactid;
SELECT accountid, contactid FROM new_account_contact;
-- a pair that a join finds several times is deleted, and counted, once
INSERT INTO new_account_contact (accountid, contactid) SELECT '00000000-0000-0000-0000-00000000000a', contactid FROM contact WHERE lastname <> 'c2';
WITH deleted AS (DELETE FROM new_account_contact USING generate_series(1, 3) AS i RETURNING contactid) SELECT count(*), count(DISTINCT contactid) FROM deleted;
SELECT count(*) FROM new_account_contact;

SET client_min_messages = warning;
DROP SERVER delete_crm CASCADE;
DROP SCHEMA IF EXISTS dv_delete CASCADE;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
