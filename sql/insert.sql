-- INSERT: which columns are written, ids, states, RETURNING, triggers, views, partitions.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER insert_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER insert_crm OPTIONS (client_id 'app1', client_secret 'secret1');
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
) SERVER insert_crm OPTIONS (entity_set 'accounts', batch_size '10');

-- columns that are named are written, the service's defaults fill the others
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO account (name, employees) VALUES ('a', 1);
EXPLAIN (COSTS OFF) INSERT INTO account (name, employees) VALUES ('a', 1);
INSERT INTO account (name, employees) VALUES ('Contoso', 12), ('Fabrikam', NULL);
SELECT name, employees, statecode, statuscode, ownertype, accountid IS NOT NULL AS id FROM account ORDER BY name COLLATE "C";
INSERT INTO account (name, revenue) SELECT 'row ' || i, i FROM generate_series(1, 25) i;
SELECT count(*), sum(revenue) FROM account;
SELECT pg_temp.explain('ANALYZE', $$INSERT INTO account (name) SELECT 'more' FROM generate_series(1, 25) i$$);
-- read-only columns
INSERT INTO account (name, createdon) VALUES ('x', now());
INSERT INTO account (name, industry) VALUES ('x', 'y');
INSERT INTO account (name, createdon) VALUES ('null will do', NULL);
DELETE FROM account;
-- statements that name all columns omit nulls of read-only columns
PREPARE all_columns AS INSERT INTO account (name, createdon, industry, ownertype) VALUES ($1, $2, $3, NULL);
SET plan_cache_mode = force_generic_plan;
EXECUTE all_columns('null', NULL, NULL);
EXECUTE all_columns('not null', '2024-01-01', NULL);
EXECUTE all_columns('not null', NULL, 'label');
RESET plan_cache_mode;
EXECUTE all_columns('null again', NULL, NULL);
EXECUTE all_columns('not null', '2024-01-01', NULL);
DEALLOCATE all_columns;
INSERT INTO account (accountid, name, createdon, industry, ownerid, ownertype) VALUES (NULL, 'several', NULL, NULL, NULL, NULL), (NULL, 'rows', NULL, NULL, NULL, NULL)
  RETURNING name, createdon IS NOT NULL AS created, ownertype;
INSERT INTO account SELECT r.* FROM jsonb_populate_recordset(NULL::account, '[{"name": "populated", "industrycode": 1}, {"name": "also"}]') r RETURNING name, industry;
INSERT INTO account (name, createdon) SELECT 'row ' || i, CASE WHEN i = 3 THEN now() END FROM generate_series(1, 4) i;
INSERT INTO account (name, ownertype) SELECT 'no owner', NULLIF(i, 1)::text FROM generate_series(1, 1) i;
INSERT INTO account (name, ownertype) SELECT 'no owner', i::text FROM generate_series(1, 1) i;
-- the columns of a table are named one by one, so that this is a mistake
CREATE TEMP TABLE here AS SELECT 'x' AS name, NULL::timestamptz AS created;
INSERT INTO account (name, createdon) SELECT name, created FROM here;
INSERT INTO account (name, createdon) SELECT name, created FROM (SELECT * FROM here UNION ALL SELECT * FROM here) h ORDER BY name LIMIT 5;
INSERT INTO account (name, createdon) SELECT name, created FROM (VALUES ('v', NULL::timestamptz)) v (name, created) ORDER BY name LIMIT 5;
SET dataverse_fdw.on_error = 'continue';
INSERT INTO account (name, createdon) VALUES ('kept', NULL), ('filed', '2024-01-01') RETURNING name;
RESET dataverse_fdw.on_error;
-- in an UPDATE, all columns of a row are known, so null means null
UPDATE account SET createdon = NULL;
SELECT name, industrycode FROM account ORDER BY name COLLATE "C";
DELETE FROM account;

-- rows of all kinds of nodes arrive as they are, also in a table that has lost a column
CREATE FOREIGN TABLE taker (accountid uuid, lost text, name text, revenue numeric(19,2) OPTIONS (type 'money'), telephone text OPTIONS ("column" 'telephone1'),
  employees integer OPTIONS ("column" 'numberofemployees')) SERVER insert_crm OPTIONS ("table" 'account', entity_set 'accounts', batch_size '10');
ALTER FOREIGN TABLE taker DROP COLUMN lost;
CREATE TEMP TABLE given AS
  SELECT i AS n, repeat('name ' || i, i) AS name, NULLIF(i % 3, 0)::numeric(19,2) / 4 AS revenue, NULLIF('+' || i, '+7') AS telephone
  FROM generate_series(1, 20) i;
DO $$
DECLARE
  source text;
  differing bigint;
BEGIN
  FOREACH source IN ARRAY ARRAY[
    'SELECT * FROM given',
    'SELECT n + 0, name || '''', revenue, telephone FROM given',
    'SELECT * FROM given ORDER BY n DESC',
    'SELECT * FROM given ORDER BY n DESC LIMIT 20',
    'SELECT DISTINCT * FROM given',
    'SELECT n, max(name), max(revenue), max(telephone) FROM given GROUP BY n',
    'SELECT * FROM given WHERE n < 9 UNION ALL SELECT * FROM given WHERE n >= 9',
    'SELECT * FROM given UNION SELECT * FROM given',
    'WITH g AS MATERIALIZED (SELECT * FROM given) SELECT * FROM g',
    'SELECT n, name, revenue, max(telephone) OVER (PARTITION BY n) FROM given',
    'SELECT a.n, a.name, b.revenue, b.telephone FROM given a LEFT JOIN given b USING (n)',
    'SELECT r.* FROM (SELECT jsonb_agg(g) AS rows FROM given g) a, jsonb_populate_recordset(NULL::given, a.rows) r',
    'SELECT (g).* FROM (SELECT g FROM given g OFFSET 0) s',
    'SELECT t.employees, t.name, t.revenue, t.telephone FROM taker t'
  ] LOOP
    DELETE FROM taker WHERE source NOT LIKE '%FROM taker t';
    EXECUTE 'INSERT INTO taker (employees, name, revenue, telephone) ' || source;
    SELECT count(*) INTO differing FROM (
      (SELECT n, name, revenue, telephone FROM given EXCEPT SELECT employees, name, revenue, telephone FROM taker)
      UNION ALL (SELECT employees, name, revenue, telephone FROM taker EXCEPT SELECT n, name, revenue, telephone FROM given)) d;
    IF differing > 0 OR (SELECT count(*) FROM taker) <> 40 - 20 * (source NOT LIKE '%FROM taker t')::integer THEN
      RAISE EXCEPTION '% rows differ: %', differing, source;
    END IF;
  END LOOP;
END $$;
DELETE FROM taker;
DROP TABLE given;
DROP FOREIGN TABLE taker;
-- ids: given, generated in the order of SQL Server, or left to the service
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'given'), (NULL, 'made') RETURNING name, accountid = '00000000-0000-0000-0000-00000000000a' AS given;
INSERT INTO account (name) SELECT 'id ' || i FROM generate_series(1, 30) i;
SELECT bool_and(ord > before) AS ascending FROM (SELECT ord, lag(ord) OVER (ORDER BY n) AS before FROM (SELECT substr(name, 4)::int AS n, (substr(accountid::text, 25) || substr(accountid::text, 20, 4)) COLLATE "C" AS ord FROM account WHERE name LIKE 'id %') a) s;
ALTER FOREIGN TABLE account OPTIONS (ADD generate_ids 'off');
INSERT INTO account (name) VALUES ('theirs') RETURNING name, accountid IS NOT NULL AS id;
INSERT INTO account (name) SELECT 'theirs' FROM generate_series(1, 25);
SELECT count(DISTINCT accountid) FROM account WHERE name = 'theirs';
ALTER FOREIGN TABLE account OPTIONS (DROP generate_ids);
DELETE FROM account;

-- a row cannot be created inactive: an update follows
INSERT INTO account (name, statecode, statuscode) VALUES ('active', 0, 1), ('inactive', 1, 2), ('by default', NULL, NULL), ('inactive, status by default', 1, NULL);
SELECT name, statecode, statuscode FROM account ORDER BY name COLLATE "C";
INSERT INTO account (name, statecode, statuscode) SELECT 'many', i % 2, i % 2 + 1 FROM generate_series(1, 35) i;
SELECT statecode, statuscode, count(*) FROM account WHERE name = 'many' GROUP BY 1, 2 ORDER BY 1;
DELETE FROM account;

-- RETURNING: known values, and values that are read back
INSERT INTO account (name, revenue) VALUES ('r1', 1), ('r2', NULL) RETURNING name, revenue, accountid IS NOT NULL AS id;
INSERT INTO account (name, industrycode) VALUES ('r3', 1) RETURNING name, industry, statecode, ownertype, createdon IS NOT NULL AS created, tableoid::regclass;
WITH i AS (INSERT INTO account (name) VALUES ('cte') RETURNING accountid) SELECT count(*), count(accountid) FROM i;
INSERT INTO account (name) VALUES ('whole row') RETURNING (account).name, (account).statuscode;
-- nulls that the service replaces are read back, also if they are given
INSERT INTO account (name, ownerid, ownertype, statecode, statuscode) VALUES ('nulls', NULL, NULL, NULL, NULL) RETURNING name, ownerid IS NOT NULL AS owner, ownertype, statecode, statuscode;
INSERT INTO account (name, statecode, statuscode) VALUES ('null', NULL, NULL), ('inactive', 1, 2), ('active', 0, NULL) RETURNING name, statecode, statuscode;
DELETE FROM account;
-- rows without a value, with and without a default for the id
INSERT INTO account DEFAULT VALUES RETURNING name, accountid IS NOT NULL AS id;
ALTER FOREIGN TABLE account ALTER COLUMN accountid SET DEFAULT dataverse.new_id();
INSERT INTO account DEFAULT VALUES RETURNING name, accountid IS NOT NULL AS id;
INSERT INTO account (accountid, name) VALUES (DEFAULT, DEFAULT), (DEFAULT, DEFAULT) RETURNING name, accountid IS NOT NULL AS id;
INSERT INTO account (createdon) VALUES (NULL) RETURNING accountid IS NOT NULL AS id, createdon IS NOT NULL AS created;
ALTER FOREIGN TABLE account ALTER COLUMN createdon SET DEFAULT now();
INSERT INTO account DEFAULT VALUES;
ALTER FOREIGN TABLE account ALTER COLUMN createdon DROP DEFAULT;
ALTER FOREIGN TABLE account ALTER COLUMN accountid DROP DEFAULT;
SELECT count(*), count(DISTINCT accountid) FROM account WHERE name IS NULL;
DELETE FROM account;

-- triggers
CREATE FUNCTION insert_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% % %: %', TG_WHEN, TG_LEVEL, TG_OP, CASE WHEN TG_LEVEL = 'ROW' THEN NEW.name END;
  IF TG_WHEN = 'BEFORE' THEN NEW.revenue := 77; NEW.name := NEW.name || '!'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION insert_trigger();
CREATE TRIGGER a AFTER INSERT ON account FOR EACH ROW EXECUTE FUNCTION insert_trigger();
CREATE TRIGGER s AFTER INSERT ON account EXECUTE FUNCTION insert_trigger();
INSERT INTO account (name) VALUES ('t1'), ('t2');
SELECT name, revenue FROM account ORDER BY name COLLATE "C";
-- they run for rows that were written
SET dataverse_fdw.on_error = 'continue';
INSERT INTO account (name) VALUES ('t3'), (repeat('x', 200)), ('t4');
RESET dataverse_fdw.on_error;
DROP TRIGGER a ON account;
DROP TRIGGER b ON account;
DROP TRIGGER s ON account;
DROP FUNCTION insert_trigger;
DELETE FROM account;
-- they may set the id of a row, but no read-only columns
CREATE FUNCTION insert_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.accountid := '00000000-0000-0000-0000-0000000000ab';
  IF NEW.name = 'industry' THEN NEW.industry := 'Banks'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION insert_before();
INSERT INTO account (name) VALUES ('its id') RETURNING accountid;
DELETE FROM account;
INSERT INTO account (accountid, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'another id') RETURNING accountid;
SELECT accountid, name FROM account;
INSERT INTO account (name) VALUES ('industry');
DROP TRIGGER b ON account;
DROP FUNCTION insert_before;
DELETE FROM account;
-- the name of a table without the row
INSERT INTO account (name, ownertype) VALUES ('x', 'team');
INSERT INTO account (name, ownertype) VALUES ('x', NULL);
DELETE FROM account;

-- views: rows that they forbid are not even sent
CREATE VIEW insert_view AS SELECT name, employees FROM account WHERE employees > 10 WITH CHECK OPTION;
INSERT INTO insert_view VALUES ('v1', 11);
\set VERBOSITY terse
INSERT INTO insert_view VALUES ('v2', 1);
\set VERBOSITY default
SELECT name, employees FROM account;
DROP VIEW insert_view;
DELETE FROM account;

-- rows that are routed to a partition
CREATE TABLE insert_parent (accountid uuid, name text, n int) PARTITION BY RANGE (n);
CREATE TABLE insert_local PARTITION OF insert_parent FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE insert_remote PARTITION OF insert_parent FOR VALUES FROM (10) TO (100) SERVER insert_crm OPTIONS (entity_set 'accounts', "table" 'account');
ALTER FOREIGN TABLE insert_remote ALTER n OPTIONS (ADD "column" 'numberofemployees');
INSERT INTO insert_parent (name, n) SELECT 'p' || i, i FROM generate_series(1, 39) i;
SELECT tableoid::regclass, count(*), min(n), max(n) FROM insert_parent GROUP BY 1 ORDER BY 1;
INSERT INTO insert_parent (name, n) VALUES ('here', 5), ('there', 50) RETURNING tableoid::regclass, name, n, accountid IS NOT NULL AS id;
UPDATE insert_parent SET n = 10 WHERE n = 9;
-- the third row is the first one of the partition
DO $$
DECLARE detail text;
BEGIN
  INSERT INTO insert_parent (accountid, name, n) VALUES (NULL, 'x', 1), (NULL, 'y', 2), ('00000000-0000-0000-0000-0000000000aa', repeat('x', 200), 20);
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
  RAISE NOTICE '%', substring(detail FROM '(.*)  Dataverse code');
END $$;
SELECT tableoid::regclass, count(*), min(n), max(n) FROM insert_parent GROUP BY 1 ORDER BY 1;
DROP TABLE insert_parent;
DELETE FROM account;

-- functions, prepared statements, rollback
DO $$
DECLARE n int;
BEGIN
  INSERT INTO account (name) SELECT 'f' FROM generate_series(1, 25);
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
END $$;
PREPARE insert_p AS INSERT INTO account (name) VALUES ($1);
EXECUTE insert_p('p1');
EXECUTE insert_p('p2');
SELECT count(*) FROM account;
BEGIN;
INSERT INTO account (name) SELECT 'rolled back' FROM generate_series(1, 25);
ROLLBACK;
BEGIN;
SAVEPOINT s;
INSERT INTO account (name) VALUES ('rolled back');
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM account WHERE name = 'rolled back';
-- one report for each rollback, whatever the number of subtransactions
BEGIN;
INSERT INTO account (name) VALUES ('outside');
SAVEPOINT a;
INSERT INTO account (name) SELECT 'in a' FROM generate_series(1, 2);
SAVEPOINT b;
INSERT INTO account (name) SELECT 'in b' FROM generate_series(1, 3);
SAVEPOINT c;
INSERT INTO account (name) SELECT 'in c' FROM generate_series(1, 4);
ROLLBACK TO a;
SAVEPOINT d;
INSERT INTO account (name) SELECT 'in d' FROM generate_series(1, 5);
ROLLBACK;
DO $$
BEGIN
  BEGIN
    INSERT INTO account (name) SELECT 'outer block' FROM generate_series(1, 2);
    BEGIN
      INSERT INTO account (name) SELECT 'inner block' FROM generate_series(1, 3);
      PERFORM 1 / 0;
    EXCEPTION WHEN unique_violation THEN
      RAISE NOTICE 'not reached';
    END;
  EXCEPTION WHEN division_by_zero THEN
    PERFORM 1;
    RAISE NOTICE 'the handler goes on';
  END;
  BEGIN
    INSERT INTO account (name) SELECT 'last block' FROM generate_series(1, 4);
    RAISE EXCEPTION 'for the commit';
  EXCEPTION WHEN raise_exception THEN
    NULL;
  END;
END $$;
BEGIN READ ONLY;
INSERT INTO account (name) VALUES ('x');
ROLLBACK;

-- settings
SET dataverse_fdw.batch_size = '1001';
SET dataverse_fdw.insert_mode = 'merge';
SET dataverse_fdw.batch_size = '5';
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$INSERT INTO account (name) SELECT 'five' FROM generate_series(1, 12)$$);
RESET dataverse_fdw.batch_size;
SET dataverse_fdw.dry_run = on;
INSERT INTO account (name) SELECT 'dry' FROM generate_series(1, 12);
SELECT count(*) FROM account WHERE name = 'dry';
INSERT INTO account (name) VALUES ('dry');
SELECT pg_temp.explain('ANALYZE', $$INSERT INTO account (name) SELECT 'dry' FROM generate_series(1, 12)$$);
RESET dataverse_fdw.dry_run;
ALTER FOREIGN TABLE account OPTIONS (ADD updatable 'off');
INSERT INTO account (name) VALUES ('x');

SET client_min_messages = warning;
DROP SERVER insert_crm CASCADE;
DROP SCHEMA IF EXISTS dv_insert CASCADE;
DELETE FROM dataverse.rejects;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
