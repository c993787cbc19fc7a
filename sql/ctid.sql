-- The ctid of rows: within a session, it identifies them.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER ctid_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
CREATE USER MAPPING FOR CURRENT_USER SERVER ctid_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (name varchar(160), accountid uuid, employees integer OPTIONS ("column" 'numberofemployees'))
  SERVER ctid_crm OPTIONS (entity_set 'accounts');
CREATE FOREIGN TABLE contact (contactid uuid, fullname text, lastname text, parentcustomerid uuid OPTIONS (type 'customer'))
  SERVER ctid_crm OPTIONS (entity_set 'contacts');
INSERT INTO account (name, employees) SELECT format('a%s', n), n % 10 FROM generate_series(1, 30) n;
INSERT INTO contact (lastname) SELECT format('c%s', n) FROM generate_series(1, 5) n;

-- each row has its own, the same each time, in scans of all kinds
SELECT count(*), count(DISTINCT ctid), min((ctid::text::point)[0]) >= 2147483648 AS beyond FROM account;
CREATE TEMP TABLE seen AS SELECT ctid AS place, name FROM account;
SELECT count(*) FROM account a JOIN seen s ON a.ctid = s.place WHERE a.name = s.name;
SELECT count(*) FROM account a JOIN account b ON a.ctid = b.ctid WHERE a.name = b.name;
SELECT count(*) FROM account a JOIN account b ON a.ctid <> b.ctid;
SELECT count(*) FROM account a JOIN contact c ON a.ctid = c.ctid;
SELECT count(*) FROM (SELECT ctid FROM account UNION SELECT ctid FROM account UNION SELECT ctid FROM contact) u;
SELECT count(*) FROM (SELECT ctid, count(*) FROM account GROUP BY ctid HAVING count(*) = 1) g;
SELECT count(*) FROM (SELECT ctid FROM account ORDER BY ctid LIMIT 7) o;
COPY (SELECT a.ctid = s.place FROM account a JOIN seen s USING (name) WHERE a.employees = 3) TO STDOUT;

-- a row is found by it, and no other row
SELECT pg_temp.explain('VERBOSE', $$SELECT name FROM account WHERE ctid = (SELECT place FROM seen WHERE name = 'a7')$$);
SELECT name FROM account WHERE ctid = (SELECT place FROM seen WHERE name = 'a7');
SELECT name FROM account WHERE (SELECT place FROM seen WHERE name = 'a7') = ctid AND employees = 8;
SELECT name FROM account WHERE NOT ctid <> (SELECT place FROM seen WHERE name = 'a7');
SELECT name FROM account WHERE ctid IS NOT DISTINCT FROM (SELECT place FROM seen WHERE name = 'a7');
SELECT count(*) FROM account WHERE ctid <> (SELECT place FROM seen WHERE name = 'a7');
SELECT count(*) FROM account WHERE ctid IS NULL;
SELECT name FROM account WHERE ctid = ANY (ARRAY(SELECT place FROM seen WHERE name IN ('a7', 'a12')) || NULL::tid) ORDER BY name;
SELECT count(*) FROM account WHERE ctid <> ALL (ARRAY(SELECT place FROM seen WHERE name IN ('a7', 'a12')));
SELECT name FROM account WHERE ctid = (SELECT place FROM seen WHERE name = 'a7') OR name = 'a8' ORDER BY name;
SELECT name FROM account WHERE ctid = '(0,1)' OR ctid = '(4,0)' OR ctid = NULL;
SELECT pg_temp.explain('VERBOSE', $$SELECT name FROM account WHERE ctid = '(0,1)'$$);
SELECT count(*) FROM account WHERE ctid = '(0,1)';
SELECT count(*) FROM contact WHERE ctid = ANY (ARRAY(SELECT place FROM seen));
PREPARE by_ctid(tid) AS SELECT name FROM account WHERE ctid = $1;
SET plan_cache_mode = force_generic_plan;
SELECT place AS a9 FROM seen WHERE name = 'a9' \gset
EXECUTE by_ctid(:'a9');
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_ctid('(0,1)');
RESET plan_cache_mode;
-- an unknown ctid is an error
SELECT name FROM account WHERE ctid = '(4294967295,0)';
DELETE FROM account WHERE ctid = ANY ('{"(4294967295,1)","(0,1)"}');
UPDATE account SET employees = 0 FROM (VALUES ('(4294967295,7)'::tid)) v (place) WHERE ctid = v.place;

-- no position in a file: conditions that would miss rows
SELECT name FROM account WHERE ctid > '(0,1)';
DELETE FROM account WHERE ctid >= '(0,0)' AND ctid < '(1000,0)';
SELECT name FROM account WHERE ctid BETWEEN $$(0,0)$$ AND $$(4294967295,1)$$;
SELECT name FROM account WHERE (ctid::text::point)[0]::bigint % 4 = 1;
SELECT name FROM account WHERE hashtid(ctid) % 4 = 1;
SELECT name FROM account WHERE (employees, ctid) > (3, '(0,1)');
SELECT name FROM account a LEFT JOIN contact c ON a.ctid::text = c.fullname WHERE coalesce(c.ctid, '(0,1)') = '(0,1)';
SELECT name FROM account WHERE CASE WHEN employees = 1 THEN ctid END = '(0,1)';
PREPARE from_ctid(tid) AS SELECT name FROM account WHERE ctid > $1;
SELECT name FROM account a WHERE hashtid(ctid) NOT IN (SELECT a.employees + length(s.name) FROM seen s);
SELECT count(*) FROM account a WHERE ctid NOT IN (SELECT place FROM seen s WHERE s.name <> a.name);
BEGIN;
DECLARE c CURSOR FOR SELECT name FROM account ORDER BY name;
FETCH c;
DELETE FROM account WHERE CURRENT OF c;
ROLLBACK;

-- deleting in batches
DELETE FROM account WHERE ctid = ANY (ARRAY(SELECT ctid FROM account ORDER BY name LIMIT 2)) RETURNING name;
SELECT count(*) FROM account;
DELETE FROM account WHERE ctid IN (SELECT ctid FROM account WHERE employees = 2 LIMIT 2);
WITH batch AS (SELECT ctid FROM account WHERE employees = 5 LIMIT 2) DELETE FROM account a USING batch b WHERE a.ctid = b.ctid;
WITH batch AS MATERIALIZED (SELECT ctid AS place FROM account WHERE employees = 6 FOR UPDATE) DELETE FROM account WHERE ctid IN (SELECT place FROM batch);
DO $$
DECLARE
  place tid;
BEGIN
  FOR place IN SELECT ctid FROM account WHERE employees = 7 LOOP
    DELETE FROM account WHERE ctid = place;
  END LOOP;
END $$;
SELECT employees, count(*) FROM account GROUP BY employees ORDER BY employees;
SELECT pg_temp.explain('VERBOSE', $$DELETE FROM account WHERE ctid = ANY (ARRAY(SELECT ctid FROM account LIMIT 2))$$);
-- in a table that is assumed to be large, these rows are requested by their ids
ANALYZE account;
UPDATE pg_class SET reltuples = 1000000 WHERE oid = 'account'::regclass;
CREATE TEMP TABLE twenty AS SELECT place, name FROM seen LIMIT 20;
ANALYZE twenty;
SELECT pg_temp.explain('VERBOSE', $$UPDATE account a SET employees = 50 FROM twenty t WHERE a.ctid = t.place$$);
UPDATE account a SET employees = 50 FROM twenty t WHERE a.ctid = t.place;
SELECT (SELECT count(*) FROM account WHERE employees = 50) = count(*) AS same FROM account JOIN twenty USING (name);
-- a list that is longer than a request, and one that is longer than the table
INSERT INTO account (name, employees) SELECT format('many %s', n), 100 FROM generate_series(1, 700) n;
SELECT count(*) FROM account WHERE ctid = ANY (ARRAY(SELECT ctid FROM account WHERE employees = 100));
UPDATE pg_class SET reltuples = 1 WHERE oid = 'account'::regclass;
SELECT count(*) FROM account WHERE ctid = ANY (ARRAY(SELECT ctid FROM account WHERE employees = 100));
DELETE FROM account WHERE ctid = ANY (ARRAY(SELECT ctid FROM account WHERE employees = 100 ORDER BY name LIMIT 600));
SELECT count(*) FROM account WHERE employees = 100;
DELETE FROM account WHERE employees = 100;
UPDATE pg_class SET reltuples = -1 WHERE oid = 'account'::regclass;

-- duplicates
INSERT INTO account (name, employees) VALUES ('twin', 1), ('twin', 2), ('twin', 3), ('other twin', 1), ('other twin', 2);
BEGIN;
SET LOCAL enable_nestloop = off;
DELETE FROM account a USING account b WHERE a.name = b.name AND a.ctid < b.ctid;
COMMIT;
SELECT name, count(*) FROM account WHERE name LIKE '%twin' GROUP BY name ORDER BY name;
INSERT INTO account (name) VALUES ('twin'), ('twin'), ('other twin');
DELETE FROM account WHERE name LIKE '%twin' AND ctid NOT IN (SELECT min(ctid) FROM account GROUP BY name);
SELECT name, count(*) FROM account WHERE name LIKE '%twin' GROUP BY name ORDER BY name;
DELETE FROM account a WHERE name LIKE '%twin' AND EXISTS (SELECT FROM account b WHERE b.ctid = a.ctid);

-- RETURNING
INSERT INTO account (name, employees) VALUES ('returned', 40) RETURNING ctid AS place \gset
SELECT name FROM account WHERE ctid = :'place';
UPDATE account SET employees = 41 WHERE name = 'returned' RETURNING ctid = :'place' AS same, employees;
UPDATE account SET employees = employees + 1 WHERE ctid = :'place' RETURNING ctid = :'place' AS same, xmin, account.*::text LIKE '(returned%' AS whole;
WITH d AS (DELETE FROM account WHERE ctid = :'place' RETURNING ctid, name) SELECT ctid = :'place' AS same, name FROM d;
SELECT name FROM account WHERE ctid = :'place';
INSERT INTO account (name) SELECT format('kept %s', n) FROM generate_series(1, 3) n RETURNING ctid IS NOT NULL AS given;
WITH w AS (UPDATE account SET employees = 9 WHERE name LIKE 'kept%' RETURNING ctid AS place, name) SELECT count(*) FROM w a JOIN w b USING (place);
SET dataverse_fdw.insert_mode = 'upsert';
SET dataverse_fdw.upsert_key = 'name';
SELECT pg_temp.explain('VERBOSE', $$INSERT INTO account (name) VALUES ('kept 1') RETURNING ctid$$);
RESET dataverse_fdw.insert_mode;
RESET dataverse_fdw.upsert_key;

-- cursors, subqueries, views
BEGIN;
DECLARE c CURSOR FOR SELECT ctid, name FROM account WHERE name LIKE 'kept%' ORDER BY name;
FETCH c \gset first_
SELECT name = :'first_name' AS same FROM account WHERE ctid = :'first_ctid';
COMMIT;
CREATE VIEW placed AS SELECT ctid AS place, * FROM account WHERE employees = 9;
SELECT count(*) FROM placed a JOIN placed b USING (place) WHERE a.name = b.name;
SELECT name FROM placed WHERE place = :'first_ctid';
SELECT name FROM placed WHERE place > :'first_ctid';
UPDATE placed SET name = 'renamed' WHERE place = :'first_ctid';
SELECT name, (SELECT b.name FROM account b WHERE b.ctid = a.ctid) AS again FROM account a WHERE name = 'renamed';
SELECT count(*) FROM account a WHERE EXISTS (SELECT FROM account b WHERE b.ctid = a.ctid AND b.name = a.name) AND employees = 9;

-- joins and groups that the service could answer are computed locally
SELECT pg_temp.explain('VERBOSE', $$SELECT c.lastname, a.ctid FROM contact c JOIN account a ON a.accountid = c.parentcustomerid$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT count(*) FROM account WHERE ctid = '(0,1)'$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT ctid, count(*) FROM account GROUP BY ctid$$);

-- parents: a row of another table can have the same ctid as one of PostgreSQL's, but not as one of the service's
CREATE TABLE parent (name varchar(160), accountid uuid, employees integer) PARTITION BY LIST (employees);
CREATE TABLE home PARTITION OF parent FOR VALUES IN (1000);
CREATE FOREIGN TABLE away PARTITION OF parent DEFAULT SERVER ctid_crm OPTIONS ("table" 'account', entity_set 'accounts');
ALTER FOREIGN TABLE away ALTER COLUMN employees OPTIONS ("column" 'numberofemployees');
INSERT INTO home SELECT format('h%s', n), gen_random_uuid(), 1000 FROM generate_series(1, 5) n;
SELECT tableoid::regclass, count(*) FROM parent WHERE ctid IN ('(0,1)', '(0,2)') GROUP BY 1;
WITH counts AS (SELECT count(*) AS n FROM parent) SELECT n - 3 AS most FROM counts \gset
DELETE FROM parent WHERE ctid = ANY (ARRAY(SELECT ctid FROM away ORDER BY name LIMIT 2) || ARRAY(SELECT ctid FROM home LIMIT 1));
SELECT count(*) = :most AS exactly FROM parent;
UPDATE parent SET name = 'x' WHERE ctid = ANY (ARRAY(SELECT ctid FROM away ORDER BY name LIMIT 1)) RETURNING tableoid::regclass, ctid = ANY (ARRAY(SELECT ctid FROM away)) AS known;
DELETE FROM parent WHERE ctid < '(10,0)';
MERGE INTO parent p USING (SELECT ctid AS place FROM away) s ON p.ctid = s.place WHEN MATCHED THEN DELETE;

-- rows of an elastic table have one for each partition, and pairs have their own
CREATE FOREIGN TABLE reading (new_readingid uuid, partitionid varchar(100), new_name varchar(100)) SERVER ctid_crm OPTIONS ("table" 'new_reading', entity_set 'new_readings', table_type 'elastic', partition_id 'partitionid');
INSERT INTO reading VALUES ('00000000-0000-0000-0000-000000000001', 'p', 'one'), ('00000000-0000-0000-0000-000000000001', 'q', 'another'), ('00000000-0000-0000-0000-000000000002', 'q', 'two');
SELECT count(DISTINCT ctid) FROM reading;
DELETE FROM reading WHERE ctid = (SELECT ctid FROM reading WHERE new_name = 'another') RETURNING new_name, partitionid;
UPDATE reading SET new_name = 'zwei' WHERE ctid = ANY (ARRAY(SELECT ctid FROM reading WHERE new_name = 'two')) RETURNING ctid IS NOT NULL AS given, new_name;
SELECT new_name FROM reading ORDER BY new_name;
CREATE FOREIGN TABLE tie (accountid uuid OPTIONS (type 'uniqueidentifier', target_set 'accounts', navigation 'new_Account_Contact'),
  contactid uuid OPTIONS (type 'uniqueidentifier', target_set 'contacts', navigation 'new_Account_Contact'), new_account_contactid uuid)
  SERVER ctid_crm OPTIONS ("table" 'new_account_contact', entity_set 'new_account_contactset', table_type 'intersect');
INSERT INTO tie SELECT accountid, contactid FROM account, contact WHERE name = 'renamed' RETURNING ctid IS NOT NULL AS given;
DELETE FROM tie WHERE ctid IN (SELECT ctid FROM tie LIMIT 2) RETURNING ctid IS NOT NULL AS given;
SELECT count(*), count(DISTINCT ctid) FROM tie;

-- tables that cannot distinguish their rows
CREATE FOREIGN TABLE nameless (name varchar(160)) SERVER ctid_crm OPTIONS ("table" 'account', entity_set 'accounts');
SELECT ctid FROM nameless;
SELECT count(*) FROM nameless WHERE ctid = '(0,1)';
INSERT INTO nameless VALUES ('n') RETURNING ctid;
CREATE FOREIGN TABLE unparted (new_readingid uuid, new_name varchar(100)) SERVER ctid_crm OPTIONS ("table" 'new_reading', entity_set 'new_readings', table_type 'elastic', partition_id 'partitionid');
SELECT ctid FROM unparted;

DROP TABLE parent;
DROP VIEW placed;
SET client_min_messages = warning;
DROP SERVER ctid_crm CASCADE;
