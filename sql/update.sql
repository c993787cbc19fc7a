-- UPDATE: only the columns in SET, which rows, how often.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER update_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER update_crm OPTIONS (client_id 'app1', client_secret 'secret1');
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
) SERVER update_crm OPTIONS (entity_set 'accounts', batch_size '10');
INSERT INTO account (name, employees, revenue) SELECT 'a' || i, i, 0.5 FROM generate_series(1, 40) i;

EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET employees = employees + 1 WHERE employees > 3;
UPDATE account SET employees = employees + 1 WHERE employees > 3;
SELECT count(*), sum(employees), sum(revenue) FROM account;
UPDATE account SET revenue = NULL, name = '' WHERE name = 'a1';
SELECT name, revenue, employees FROM account WHERE employees = 1;
UPDATE account SET employees = 1 WHERE name = 'not there';
-- by id, no rows are read
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'known');
EXPLAIN (VERBOSE, COSTS OFF) UPDATE account SET name = 'by id' WHERE accountid IN ('00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b');
UPDATE account SET name = 'by id' WHERE accountid IN ('00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b');
SELECT pg_temp.explain('ANALYZE', $$UPDATE account SET name = 'by id' WHERE accountid IN ('00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b')$$);
-- read-only columns
UPDATE account SET accountid = gen_random_uuid();
UPDATE account SET createdon = now();
UPDATE account SET industry = 'x';
UPDATE account SET ownertype = 'team';

-- a row that a join finds several times is changed once
CREATE TEMP TABLE source AS SELECT i % 5 + 1 AS employees, i AS v FROM generate_series(1, 20) i;
UPDATE account a SET revenue = 1000 + v FROM source s WHERE a.employees = s.employees;
SELECT count(*) FROM account WHERE revenue > 1000;
-- an update that moves rows in the order of reading reads all of them first
UPDATE account SET employees = employees + 100;
SELECT count(*) FROM account WHERE employees BETWEEN 101 AND 200;

-- state and owner
UPDATE account SET statecode = 1, statuscode = 2 WHERE name LIKE 'a2%';
SELECT statecode, statuscode, count(*) FROM account GROUP BY 1, 2 ORDER BY 1;
UPDATE account SET statecode = 0 WHERE name LIKE 'a2%' AND name > 'a25' RETURNING name, statecode, statuscode;

-- RETURNING
UPDATE account SET revenue = 7 WHERE name IN ('a10', 'a11') RETURNING name, revenue, employees, accountid IS NOT NULL AS id;
UPDATE account SET industrycode = 1 WHERE name = 'a12' RETURNING name, industrycode, industry;
UPDATE account SET name = 'x' WHERE accountid = '00000000-0000-0000-0000-00000000000c' RETURNING name;

-- triggers: columns that they change are written as well, others are not
CREATE FUNCTION update_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% %: % to %', TG_WHEN, TG_OP, OLD.revenue, NEW.revenue;
  IF TG_WHEN = 'BEFORE' THEN NEW.revenue := NEW.revenue + 1; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION update_trigger();
CREATE TRIGGER a AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION update_trigger();
UPDATE account SET employees = 5 WHERE name IN ('a10', 'a11');
SELECT name, employees, revenue FROM account WHERE name IN ('a10', 'a11') ORDER BY name;
DROP TRIGGER a ON account;
DROP TRIGGER b ON account;
DROP FUNCTION update_trigger;
-- they cannot change identifying columns, nor read-only ones
CREATE FUNCTION update_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.employees = 1 THEN NEW.accountid := gen_random_uuid(); END IF;
  IF NEW.employees = 2 THEN NEW.createdon := '2020-02-20'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION update_before();
\set VERBOSITY terse
UPDATE account SET employees = 1 WHERE name = 'a10';
UPDATE account SET employees = 2 WHERE name = 'a10';
\set VERBOSITY default
UPDATE account SET employees = 5 WHERE name = 'a10';
SELECT employees FROM account WHERE name = 'a10';
DROP TRIGGER b ON account;
DROP FUNCTION update_before;

-- columns that PostgreSQL computes are written when their source columns are
CREATE FOREIGN TABLE update_generated (accountid uuid, name text, n int OPTIONS ("column" 'numberofemployees'),
  phone text OPTIONS ("column" 'telephone1') GENERATED ALWAYS AS (name || ' ' || n) STORED, fax text) SERVER update_crm OPTIONS (entity_set 'accounts', "table" 'account');
INSERT INTO update_generated (name, n) VALUES ('generated', 1) RETURNING phone;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE update_generated SET n = 2 WHERE name = 'generated';
UPDATE update_generated SET n = 2 WHERE name = 'generated';
EXPLAIN (VERBOSE, COSTS OFF) UPDATE update_generated SET fax = 'f' WHERE name = 'generated';
UPDATE update_generated SET fax = 'f' WHERE name = 'generated' RETURNING name, n, phone, fax;
SELECT name, n, phone, fax FROM update_generated WHERE name = 'generated';
DROP FOREIGN TABLE update_generated;

-- a row that a join finds several times is written, and counted, once, however many rows are involved
SET work_mem = '64kB';
CREATE FOREIGN TABLE update_many (contactid uuid, lastname text, n int OPTIONS ("column" 'numberofchildren')) SERVER update_crm OPTIONS (entity_set 'contacts', "table" 'contact');
INSERT INTO update_many (lastname, n) SELECT 'm' || i, 0 FROM generate_series(1, 6000) i;
CREATE TEMP TABLE found AS SELECT contactid FROM update_many;
INSERT INTO found SELECT contactid FROM found;
WITH updated AS (UPDATE update_many AS m SET n = n + 1 FROM found AS f WHERE f.contactid = m.contactid RETURNING m.contactid) SELECT count(*), count(DISTINCT contactid) FROM updated;
WITH deleted AS (DELETE FROM update_many AS m USING found AS f WHERE f.contactid = m.contactid RETURNING m.contactid) SELECT count(*), count(DISTINCT contactid) FROM deleted;
RESET work_mem;
DROP FOREIGN TABLE update_many;

-- polymorphic lookups
CREATE SCHEMA dv_update;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (contact, new_alltypes, new_reading) FROM SERVER update_crm INTO dv_update;
SET search_path = dv_update, public;
INSERT INTO contact (contactid, lastname) VALUES ('00000000-0000-0000-0000-0000000000c1', 'c1');
INSERT INTO new_alltypes (new_name, new_customerid, new_customeridtype) VALUES ('p1', '00000000-0000-0000-0000-00000000000a', 'account'), ('p2', NULL, NULL);
SELECT new_name, new_customerid, new_customeridtype FROM new_alltypes ORDER BY 1;
UPDATE new_alltypes SET new_customerid = '00000000-0000-0000-0000-0000000000c1', new_customeridtype = 'contact' RETURNING new_name, new_customerid, new_customeridtype;
UPDATE new_alltypes SET new_customerid = NULL WHERE new_name = 'p1';
\set VERBOSITY terse
UPDATE new_alltypes SET new_customerid = '00000000-0000-0000-0000-0000000000c1';
UPDATE new_alltypes SET new_customerid = '00000000-0000-0000-0000-0000000000c1', new_customeridtype = 'lead';
\set VERBOSITY default
SELECT new_name, new_customerid, new_customeridtype FROM new_alltypes ORDER BY 1;

-- elastic tables
INSERT INTO new_reading (new_name, partitionid) SELECT 'r' || i, 'dev' || i % 3 FROM generate_series(1, 10) i;
UPDATE new_reading SET new_name = new_name || 'x' WHERE partitionid = 'dev1';
SELECT partitionid, string_agg(new_name, ' ' ORDER BY new_name) FROM new_reading GROUP BY 1 ORDER BY 1;
UPDATE new_reading SET partitionid = 'x';

SET client_min_messages = warning;
DROP SERVER update_crm CASCADE;
DROP SCHEMA IF EXISTS dv_update CASCADE;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
