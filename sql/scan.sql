-- Reading foreign tables: columns, pages, rescans, cursors, cached
-- plans, errors.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=120" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=contact&rows=10" >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER scan_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER scan_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  accountid uuid,
  name varchar(160),
  revenue numeric(19,2) OPTIONS (type 'money'),
  employees integer OPTIONS ("column" 'numberofemployees'),
  creditonhold boolean,
  parentaccountid uuid,
  industrycode integer OPTIONS (type 'choice'),
  industry text OPTIONS (label_of 'industrycode'),
  ownerid uuid OPTIONS (type 'owner'),
  ownertype text OPTIONS (ref_type_of 'ownerid'),
  createdon timestamptz
) SERVER scan_crm OPTIONS (entity_set 'accounts', page_size '50');

-- only the necessary columns are requested
EXPLAIN (VERBOSE, COSTS OFF) SELECT name, employees + 1 FROM account;
SELECT name, revenue, employees, creditonhold, createdon FROM account ORDER BY createdon LIMIT 5;
EXPLAIN (VERBOSE, COSTS OFF) SELECT ownertype, industry, count(*) FROM account GROUP BY 1, 2;
SELECT ownertype, industry, count(*) FROM account GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT 1 FROM account;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a FROM account a;
SELECT count(a), count(DISTINCT a.accountid) FROM account a;

-- rows cannot be locked: reported for each table and statement, except for rows that UPDATE reads
SELECT count(*) FROM (SELECT name FROM account LIMIT 2 FOR UPDATE) AS a;
SELECT count(*) FROM (SELECT a.name FROM account AS a, generate_series(1, 2) AS g LIMIT 2 FOR SHARE OF a) AS a;
EXPLAIN (COSTS OFF) SELECT name FROM account FOR UPDATE;
CREATE TEMP TABLE local_names AS SELECT 1 AS n;
UPDATE local_names SET n = 2 FROM account;
SELECT n FROM local_names, account FOR UPDATE OF local_names LIMIT 1;
DROP TABLE local_names;

-- 120 rows are three pages
SELECT pg_temp.explain('ANALYZE', $$SELECT name FROM account$$);

-- above the scan: LIMIT, OFFSET, ORDER BY, and COUNT, if no other node remains
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account WHERE employees > 1000 ORDER BY employees LIMIT 3 OFFSET 2;
SELECT count(*) FROM (SELECT name FROM account LIMIT 70 OFFSET 60) s;
SELECT pg_temp.explain('ANALYZE', $$SELECT name FROM account LIMIT 70$$);
SELECT pg_temp.explain('ANALYZE', $$SELECT name FROM account LIMIT 0$$);
SELECT name FROM account LIMIT -1;
-- nulls sort at the other end in the service: two requests
EXPLAIN (VERBOSE, COSTS OFF) SELECT revenue FROM account ORDER BY revenue DESC LIMIT 3;
SELECT revenue IS NULL AS unknown, count(*) FROM (SELECT revenue FROM account ORDER BY revenue DESC LIMIT 100) s GROUP BY 1 ORDER BY 1;
SELECT (SELECT array_agg(revenue) FROM (SELECT revenue FROM account ORDER BY revenue LIMIT 110) a) =
       (SELECT array_agg(revenue) FROM (SELECT revenue FROM (SELECT revenue FROM account OFFSET 0) b ORDER BY revenue LIMIT 110) c) AS same;
-- not by text, ids, choices, booleans
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account ORDER BY name LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT accountid FROM account ORDER BY accountid NULLS FIRST LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT industrycode FROM account ORDER BY industrycode NULLS FIRST LIMIT 3;
-- not below intermediate nodes
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account WHERE name LIKE 'A%' LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT DISTINCT creditonhold FROM account LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account FOR UPDATE LIMIT 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM account WHERE employees > 10;
SELECT count(*) = (SELECT count(name) FROM account WHERE employees > 1000) AS same FROM account WHERE employees > 1000;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM account WHERE name = 'x';
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*), max(employees) FROM account;

-- values from the other side of a join
CREATE TEMP TABLE wanted (id uuid);
INSERT INTO wanted SELECT accountid FROM account LIMIT 2;
ANALYZE wanted;
SET enable_hashjoin = off;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.name FROM wanted w JOIN account a ON a.accountid = w.id;
SELECT pg_temp.explain('ANALYZE', $$SELECT a.name FROM wanted w JOIN account a ON a.accountid = w.id$$);
RESET enable_hashjoin;
SELECT a.name FROM wanted w JOIN account a ON a.accountid = w.id ORDER BY 1;
SELECT v.n, s.name FROM (VALUES (1), (NULL), (2)) v(n), LATERAL (SELECT name FROM account WHERE industrycode = v.n ORDER BY createdon LIMIT 2) s;
SELECT n, (SELECT count(*) FROM account WHERE industrycode = n) FROM generate_series(1, 3) n;
-- a column above a scan has the name that it has in the rest of the plan
SELECT pg_temp.explain('VERBOSE', $$SELECT name FROM account WHERE name = (SELECT 'a')$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT name FROM account WHERE name = (SELECT 'a') || 'y'$$);
SELECT pg_temp.explain('VERBOSE', $$WITH c AS MATERIALIZED (SELECT name FROM account WHERE name = (SELECT 'a') || 'y') SELECT FROM c$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT (SELECT count(*) FROM account WHERE name = v.t || 'y') FROM (VALUES ('a'), ('b')) v(t)$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT s.* FROM (VALUES ('a', 1), ('b', 2)) v(t, n), LATERAL (SELECT accountid FROM account WHERE industrycode = v.n + 1 LIMIT v.n) s$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT s.* FROM (VALUES ('a', 1), ('b', 2)) v(t, n), LATERAL (SELECT name FROM account WHERE name = v.t UNION ALL SELECT name FROM account WHERE employees = v.n + 1) s$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT a.name FROM wanted w LEFT JOIN account a ON a.name = w.id::text || 'y'$$);
SELECT pg_temp.explain('VERBOSE', $$UPDATE account SET employees = 1 WHERE name = (SELECT 'a')$$);
SELECT pg_temp.explain('VERBOSE', $$DELETE FROM account WHERE name = (SELECT 'a') || 'y'$$);
-- except where a scan has neither output nor filter
SELECT pg_temp.explain('VERBOSE', $$SELECT v.n FROM (VALUES (1), (2)) v(n), LATERAL (SELECT FROM account WHERE employees = v.n + 1 OFFSET 0) s$$);
SELECT pg_temp.explain('VERBOSE', $$SELECT FROM account WHERE createdon < now() - interval '1 day'$$);
PREPARE above(int) AS SELECT FROM account WHERE employees = $1 + 1;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.explain('VERBOSE', 'EXECUTE above(1)');
RESET plan_cache_mode;

-- a cached plan
PREPARE by_size(int, text) AS SELECT count(*) FROM account WHERE employees >= $1 AND name ILIKE $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_size(1000, 'a%');
EXECUTE by_size(1000, '%a%');
EXECUTE by_size(1000000, '%a%');
EXECUTE by_size(NULL, '%a%');
SELECT pg_temp.explain('ANALYZE', $$EXECUTE by_size(NULL, 'a%')$$);
RESET plan_cache_mode;

-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT name FROM account ORDER BY createdon;
FETCH 2 FROM c;
MOVE 70 IN c;
FETCH 1 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT name FROM account ORDER BY createdon;
COMMIT;
FETCH 1 FROM h;
CLOSE h;
BEGIN;
DECLARE s SCROLL CURSOR FOR SELECT employees FROM account WHERE employees IS NOT NULL ORDER BY employees;
FETCH FORWARD 2 FROM s;
FETCH BACKWARD 1 FROM s;
COMMIT;

-- a request of a failed subtransaction is sent again
CREATE FUNCTION read_with_failures() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  c CURSOR FOR SELECT name FROM account;
  r record;
  n bigint := 0;
BEGIN
  OPEN c;
  LOOP
    BEGIN
      FETCH c INTO r;
      EXIT WHEN NOT FOUND;
      n := n + 1;
      IF n % 40 = 0 THEN
        RAISE division_by_zero;
      END IF;
    EXCEPTION WHEN division_by_zero THEN
    END;
  END LOOP;
  RETURN n;
END $$;
SELECT read_with_failures();
DROP FUNCTION read_with_failures;

-- now() is a value, random() is not
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM account WHERE createdon < now() AND employees > random();

-- no request at all
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$SELECT name FROM account WHERE employees = NULL::int$$);
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$SELECT name FROM account WHERE employees = ANY ('{}')$$);
SELECT pg_temp.explain('ANALYZE, VERBOSE', $$SELECT name FROM account WHERE employees > 3000000000$$);
SELECT count(*) FROM account WHERE employees > 3000000000;

-- errors
CREATE FOREIGN TABLE bare (accountid uuid) SERVER scan_crm;
SELECT * FROM bare;
ALTER FOREIGN TABLE bare OPTIONS (ADD "table" 'account', ADD entity_set 'accounts?$top=1');
ALTER FOREIGN TABLE bare OPTIONS (ADD "table" 'account', ADD entity_set 'accounts');
SELECT count(accountid) FROM bare;
ALTER FOREIGN TABLE bare ADD COLUMN name integer;
SELECT * FROM bare;
ALTER FOREIGN TABLE bare DROP COLUMN name, ADD COLUMN nmae text;
\set VERBOSITY terse
SELECT * FROM bare;
\set VERBOSITY default
ALTER FOREIGN TABLE bare ALTER COLUMN nmae OPTIONS (ADD "column" 'na me');
ALTER FOREIGN TABLE bare RENAME COLUMN nmae TO "na me";
SELECT * FROM bare;
ALTER FOREIGN TABLE bare DROP COLUMN "na me";
ALTER FOREIGN TABLE bare OPTIONS (ADD primary_id 'id');
\set VERBOSITY terse
SELECT * FROM bare;
\set VERBOSITY default
ALTER FOREIGN TABLE bare OPTIONS (DROP primary_id);

-- an incomplete page is requested again, and never taken for the end
\! curl -s $DVSIM_URL/_dvsim/faults -d '[{"path":"/accounts","after":1,"times":1,"action":"garble"}]' >/dev/null
SELECT count(name) FROM account;
\! curl -s -X DELETE $DVSIM_URL/_dvsim/faults >/dev/null
\! curl -s $DVSIM_URL/_dvsim/faults -d '[{"path":"/accounts","after":1,"times":2,"action":"truncate","bytes":2000},{"path":"/accounts","after":2,"times":1,"action":"status","status":503}]' >/dev/null
SELECT count(name) FROM account;
\! curl -s -X DELETE $DVSIM_URL/_dvsim/faults >/dev/null

DROP SERVER scan_crm CASCADE;
