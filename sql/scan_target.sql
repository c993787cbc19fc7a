-- Scans of rows to be updated or deleted.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=120" >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER target_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER target_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  name varchar(160),
  accountid uuid,
  revenue numeric(19,2) OPTIONS (type 'money'),
  employees integer OPTIONS ("column" 'numberofemployees'),
  description text
) SERVER target_crm OPTIONS (entity_set 'accounts');

-- of the whole row that an UPDATE requests, only the necessary columns are read
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET name = upper(name) WHERE employees > 1000;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 WHERE employees > 1000;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 WHERE name LIKE 'A%' AND employees > 1000 RETURNING revenue;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 WHERE employees > 1000 RETURNING *;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account a SET name = a::text WHERE employees > 1000;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account a SET employees = 1 WHERE a IS NOT NULL;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE employees > 1000;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE employees > 1000 RETURNING name, accountid;
-- all rows first, also under another name, and in tables that are only read
CREATE FOREIGN TABLE company (accountid uuid, name varchar(160)) SERVER target_crm OPTIONS ("table" 'account', entity_set 'accounts');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO account (name) SELECT name FROM company;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account a USING company c WHERE a.name = c.name AND a.employees > c.name::int;

-- given keys need no request
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 WHERE accountid = '00000000-0000-0000-0000-000000000001';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid IN ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002');
PREPARE by_id(uuid[]) AS DELETE FROM account WHERE accountid = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_id(NULL);
RESET plan_cache_mode;
SELECT pg_temp.explain('VERBOSE', $$DELETE FROM account WHERE accountid = NULL::uuid$$);
CREATE TEMP TABLE wanted (id uuid, n integer);
INSERT INTO wanted SELECT accountid, employees FROM account LIMIT 3;
ANALYZE wanted;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = w.n + 1 FROM wanted w WHERE accountid = w.id;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid IN (SELECT id FROM wanted);
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-000000000001' RETURNING accountid;
-- but not if more than the key is needed, or must be checked
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = employees + 1 WHERE accountid = '00000000-0000-0000-0000-000000000001';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-000000000001' AND employees = 1;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-000000000001' AND random() < 2;
EXPLAIN (VERBOSE, COSTS OFF) SELECT accountid FROM account WHERE accountid = '00000000-0000-0000-0000-000000000001';
CREATE FUNCTION noop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER looks BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION noop();
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 WHERE accountid = '00000000-0000-0000-0000-000000000001';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE accountid = '00000000-0000-0000-0000-000000000001';
DROP TRIGGER looks ON account;

-- piece by piece, as long as no piece can change another
SET enable_hashjoin = off;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET name = 'x' FROM wanted w WHERE employees = w.n;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = 1 FROM wanted w WHERE employees = w.n;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account USING wanted w WHERE employees = w.n;
RESET enable_hashjoin;
SELECT pg_temp.explain('VERBOSE', $$UPDATE account SET name = (SELECT min(c.name) FROM company c WHERE c.accountid = account.accountid)$$);

-- identification of rows that the id alone does not identify
CREATE FOREIGN TABLE reading (new_readingid uuid, partitionid varchar(100), new_name varchar(100)) SERVER target_crm OPTIONS ("table" 'new_reading', entity_set 'new_readings', table_type 'elastic', partition_id 'partitionid');
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM reading WHERE new_readingid = '00000000-0000-0000-0000-000000000001';
CREATE FOREIGN TABLE tie (accountid uuid OPTIONS (type 'uniqueidentifier'), contactid uuid OPTIONS (type 'uniqueidentifier'), new_account_contactid uuid) SERVER target_crm OPTIONS ("table" 'new_account_contact', entity_set 'new_account_contactset', table_type 'intersect');
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM tie WHERE accountid = '00000000-0000-0000-0000-000000000001';

-- foreign tables as parts of another, with the columns in another order
CREATE TABLE everywhere (name varchar(160), accountid uuid, accountnumber text) PARTITION BY LIST (accountnumber);
CREATE FOREIGN TABLE one PARTITION OF everywhere FOR VALUES IN ('1') SERVER target_crm OPTIONS ("table" 'account', entity_set 'accounts');
CREATE FOREIGN TABLE two (accountid uuid, accountnumber text, name varchar(160)) SERVER target_crm OPTIONS ("table" 'account', entity_set 'accounts');
ALTER TABLE everywhere ATTACH PARTITION two FOR VALUES IN ('2');
EXPLAIN (VERBOSE, COSTS OFF) UPDATE everywhere SET name = 'x' WHERE name LIKE 'A%';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM everywhere WHERE accountid = '00000000-0000-0000-0000-000000000001';

DROP TABLE everywhere;
DROP SERVER target_crm CASCADE;
DROP FUNCTION noop;
