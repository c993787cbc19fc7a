-- Scans of rows that a statement writes: all rows first. And tables whose rows
-- cannot be distinguished.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=120" >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER dml_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER dml_crm OPTIONS (client_id 'app1', client_secret 'secret1');

-- a target of which the foreign table is a part: all rows are read first
CREATE TABLE everywhere (accountid uuid, name varchar(160), numberofemployees integer, accountnumber text) PARTITION BY LIST (accountnumber);
CREATE FOREIGN TABLE account PARTITION OF everywhere FOR VALUES IN ('there') SERVER dml_crm OPTIONS (entity_set 'accounts', page_size '50');
CREATE TABLE here PARTITION OF everywhere FOR VALUES IN ('here');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO everywhere SELECT accountid, name, numberofemployees, 'here' FROM account;
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$INSERT INTO everywhere SELECT accountid, name, numberofemployees, 'here' FROM account$$);
SELECT count(*), count(DISTINCT accountid) FROM here;
-- but not for an unrelated table
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO here SELECT accountid, name, numberofemployees, 'here' FROM account;
-- reread from the spool, unless a parameter has changed
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$
INSERT INTO everywhere SELECT a.accountid, a.name, v.n, 'here' FROM (VALUES (1), (2)) v(n) LEFT JOIN account a ON a.numberofemployees > v.n + random() * 0$$);
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$
INSERT INTO everywhere SELECT a.accountid, a.name, v.n, 'here' FROM (VALUES (1000), (2000)) v(n), LATERAL (SELECT * FROM account WHERE numberofemployees > v.n LIMIT 3) a$$);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
-- values that change from row to row do not cause new requests: a row may have been written meanwhile
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$
INSERT INTO everywhere SELECT NULL, (SELECT min(name) FROM account WHERE numberofemployees > v.n), v.n, 'here' FROM (VALUES (1000), (2000)) v(n)$$);
CREATE TEMP TABLE numbers AS SELECT n FROM generate_series(1, 3) n;
ANALYZE numbers;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO everywhere SELECT accountid, name, n, 'here' FROM numbers JOIN account ON numberofemployees = n;
EXPLAIN (VERBOSE, COSTS OFF) SELECT accountid, name, n, 'here' FROM numbers JOIN account ON numberofemployees = n;
-- in a common table expression
EXPLAIN (VERBOSE, COSTS OFF) WITH w AS (INSERT INTO everywhere VALUES (NULL, 'x', 1, 'here') RETURNING name) SELECT a.name FROM w, account a WHERE a.name = w.name;
TRUNCATE here;
-- more than fits into work_mem
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=2000" >/dev/null
SET work_mem = '64kB';
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$
INSERT INTO everywhere SELECT accountid, name, 1, 'here' FROM account$$);
SELECT count(*), count(DISTINCT accountid) FROM here WHERE numberofemployees = 1 AND name IS NOT NULL;
RESET work_mem;
DROP TABLE everywhere;

-- a deletion changes rows that refer to the deleted one, in any table: they are read before the first row is deleted
CREATE FOREIGN TABLE parent (accountid uuid, n integer OPTIONS ("column" 'numberofemployees'),
  parentaccountid uuid OPTIONS (type 'lookup', navigation 'parentaccountid', target 'account', target_set 'accounts'))
  SERVER dml_crm OPTIONS ("table" 'account', entity_set 'accounts', batch_size '1', page_size '5', request_cost '1');
CREATE FOREIGN TABLE child (lastname text, n integer OPTIONS ("column" 'numberofchildren'),
  parentcustomerid uuid OPTIONS (type 'customer', navigation 'parentcustomerid_account', target 'account', target_set 'accounts'))
  SERVER dml_crm OPTIONS ("table" 'contact', entity_set 'contacts', page_size '5', request_cost '1');
DELETE FROM parent;
INSERT INTO parent (accountid, n) SELECT md5(i::text)::uuid, i FROM generate_series(1, 40) i;
UPDATE parent SET parentaccountid = md5((n - 1)::text)::uuid WHERE n > 1;
INSERT INTO child SELECT 'c' || i, i, md5((41 - i)::text)::uuid FROM generate_series(1, 40) i;
CREATE TEMP TABLE first AS SELECT md5(i::text)::uuid AS id FROM generate_series(1, 9) i;
ANALYZE first;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
-- an update changes the labels of lookups that refer to the row
CREATE FOREIGN TABLE kin (accountid uuid, n integer OPTIONS ("column" 'numberofemployees'), name text,
  parentaccountid uuid OPTIONS (type 'lookup', navigation 'parentaccountid', target 'account', target_set 'accounts'),
  parent text OPTIONS (label_of 'parentaccountid'))
  SERVER dml_crm OPTIONS ("table" 'account', entity_set 'accounts', batch_size '1', request_cost '1');
UPDATE kin SET name = 'a' || n;
UPDATE kin SET name = concat('after ', parent) FROM first WHERE accountid = id;
SELECT name FROM kin WHERE n < 4 ORDER BY n;
-- in other tables as well
CREATE FOREIGN TABLE kid (n integer OPTIONS ("column" 'numberofchildren'),
  parentcustomerid uuid OPTIONS (type 'customer', navigation 'parentcustomerid_account', target 'account', target_set 'accounts'),
  parent text OPTIONS (label_of 'parentcustomerid'))
  SERVER dml_crm OPTIONS ("table" 'contact', entity_set 'contacts', page_size '1', request_cost '1');
UPDATE kin SET name = 'a' || n;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE kin SET name = concat('after ', kid.parent) FROM kid WHERE kin.n = 38 - kid.n;
UPDATE kin SET name = concat('after ', kid.parent) FROM kid WHERE kin.n = 38 - kid.n;
SELECT name FROM kin WHERE n BETWEEN 29 AND 39 ORDER BY n;
-- but not if the changed values are not read
EXPLAIN (VERBOSE, COSTS OFF) UPDATE kin SET name = kid.n FROM kid WHERE kin.n = kid.n;
DO $$ DECLARE n integer; BEGIN DELETE FROM parent USING first WHERE parentaccountid = id; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '% rows', n; END $$;
DO $$ DECLARE n integer; BEGIN DELETE FROM parent USING child WHERE parent.n = child.n; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '% rows', n; END $$;
INSERT INTO parent (accountid, n) SELECT md5(i::text)::uuid, i FROM generate_series(1, 4) i;
INSERT INTO child SELECT 'c' || i, i, md5((5 - i)::text)::uuid FROM generate_series(1, 4) i;
WITH deleted AS (DELETE FROM parent RETURNING n) SELECT count(child.lastname) FROM deleted LEFT JOIN child USING (n);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- identification of rows
CREATE FOREIGN TABLE nameless (name varchar(160)) SERVER dml_crm OPTIONS ("table" 'account', entity_set 'accounts');
EXPLAIN DELETE FROM nameless;
CREATE FOREIGN TABLE reading (new_readingid uuid, new_name varchar(100)) SERVER dml_crm OPTIONS ("table" 'new_reading', entity_set 'new_readings', table_type 'elastic', partition_id 'partitionid');
EXPLAIN DELETE FROM reading;
CREATE FOREIGN TABLE tie (new_account_contactid uuid, accountid uuid OPTIONS (type 'uniqueidentifier')) SERVER dml_crm OPTIONS ("table" 'new_account_contact', entity_set 'new_account_contactset', table_type 'intersect');
EXPLAIN DELETE FROM tie;

DROP SERVER dml_crm CASCADE;
