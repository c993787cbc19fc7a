-- Joins that request the keys of many outer rows at once.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=1500" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=contact&rows=600" >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER lookup_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER lookup_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA remote;
CREATE SCHEMA local;
CREATE FOREIGN TABLE remote.account (
  accountid uuid,
  name varchar(160),
  revenue numeric(19,2) OPTIONS (type 'money'),
  employees integer OPTIONS ("column" 'numberofemployees'),
  creditonhold boolean,
  parentaccountid uuid,
  industrycode integer OPTIONS (type 'choice'),
  createdon timestamptz
) SERVER lookup_crm OPTIONS (table 'account', entity_set 'accounts');
CREATE FOREIGN TABLE remote.contact (
  contactid uuid,
  fullname text,
  parentcustomerid uuid OPTIONS (type 'customer')
) SERVER lookup_crm OPTIONS (table 'contact', entity_set 'contacts');
-- names that are equal to the service
INSERT INTO remote.account (name, employees) VALUES ('Twin', 1), ('TWIN', 2), ('twin ', 3), ('Twîn', 4), ('other', 5);
ANALYZE remote.account;
ANALYZE remote.contact;
CREATE TABLE local.account AS SELECT * FROM remote.account;
CREATE TABLE local.contact AS SELECT * FROM remote.contact;
-- from now on, the planner assumes that they are large
UPDATE pg_class SET reltuples = 1000000 WHERE relnamespace = 'remote'::regnamespace;
ANALYZE local.account;
ANALYZE local.contact;

-- keys: some of them twice or thrice, some null, some unknown
CREATE TABLE keys (n serial, id uuid, parent uuid, name text, employees bigint, revenue numeric, day timestamptz, upto integer);
INSERT INTO keys (id, parent, name, employees, revenue, day, upto)
  SELECT accountid, parentaccountid, name, employees, revenue, createdon, 100
  FROM (SELECT * FROM local.account WHERE name NOT ILIKE 'tw%' ORDER BY createdon, name LIMIT 700) a;
INSERT INTO keys (id, parent, name, employees, upto) SELECT id, parent, upper(name), employees + 1, 5000 FROM keys WHERE n % 3 = 0;
INSERT INTO keys (id, parent, name, employees, upto) SELECT id, parent, name, employees, 0 FROM keys WHERE n % 100 = 0;
INSERT INTO keys (upto) SELECT n FROM generate_series(1, 5) n;
INSERT INTO keys (id, parent, name, employees, revenue) SELECT gen_random_uuid(), gen_random_uuid(), 'nobody', -1, 0.001 FROM generate_series(1, 5);
INSERT INTO keys (name) VALUES ('Twin'), ('twin'), ('TWIN'), ('Twîn'), ('twin '), (''), ('  '), (E'a\nb'), ('''; x');
ANALYZE keys;

-- Asks the service and the copy.  Shows whether the plan is such a join, and
-- whether the answers are the same.
CREATE FUNCTION pg_temp.compare(question text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  joins boolean := false;
  differences bigint;
  total bigint;
  remote text := replace(question, '@', 'remote.');
  copy text := replace(question, '@', 'local.');
BEGIN
  FOR line IN EXECUTE 'EXPLAIN ' || remote LOOP
    joins := joins OR line ~ 'DataverseLookup';
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE r AS %s', remote);
  EXECUTE format('CREATE TEMP TABLE c AS %s', copy);
  SELECT count(*) INTO total FROM c;
  SELECT count(*) INTO differences FROM (
    (SELECT r::text FROM r EXCEPT ALL SELECT c::text FROM c) UNION ALL
    (SELECT c::text FROM c EXCEPT ALL SELECT r::text FROM r)) d;
  DROP TABLE r, c;
  RETURN format('%s: %s rows, %s differences', CASE WHEN joins THEN 'by keys' ELSE 'otherwise' END, total, differences);
END $$;

-- an example
SELECT pg_temp.explain('VERBOSE', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k LEFT JOIN remote.account a ON k.id = a.accountid AND a.employees > k.upto WHERE a.name IS DISTINCT FROM upper(k.name)');
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n FROM keys k WHERE k.id IN (SELECT accountid FROM remote.account)');
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n FROM keys k WHERE NOT EXISTS (SELECT FROM remote.account WHERE accountid = k.id)');
SELECT pg_temp.explain('ANALYZE', 'SELECT a.name FROM remote.account a WHERE accountid IN (SELECT id FROM keys)');

-- each kind of join, with each kind of key
SELECT kind, clause, pg_temp.compare(format(kind, clause)) FROM
  (VALUES ('SELECT k.n, a.name, a.employees FROM keys k JOIN @account a ON %s'),
          ('SELECT k.n, a.name, a.accountid FROM keys k LEFT JOIN @account a ON %s'),
          ('SELECT k.n FROM keys k WHERE EXISTS (SELECT FROM @account a WHERE %s)'),
          ('SELECT k.n, k.name FROM keys k WHERE NOT EXISTS (SELECT FROM @account a WHERE %s)'),
          ('SELECT k.n, a.name FROM keys k LEFT JOIN @account a ON %s WHERE a.accountid IS NULL')) kinds(kind),
  (VALUES ('a.accountid = k.id'), ('k.id = a.accountid'), ('a.parentaccountid = k.id'), ('a.accountid = k.parent'),
          ('a.name = k.name'), ('a.employees = k.employees'), ('a.revenue = k.revenue'), ('a.createdon = k.day'),
          ('a.accountid = k.id AND a.employees = k.employees'), ('a.accountid = k.id AND a.employees < k.upto'),
          ('a.accountid = k.id AND a.creditonhold'), ('a.employees = k.employees + 1'), ('a.name = k.name || ''x'''),
          ('a.parentaccountid = k.id AND length(a.name) > k.n % 20')) clauses(clause);
-- semijoins from the other side
SELECT pg_temp.compare('SELECT a.name FROM @account a WHERE a.accountid IN (SELECT id FROM keys)');
SELECT pg_temp.compare('SELECT a.name FROM @account a WHERE (a.accountid, a.employees) IN (SELECT id, employees FROM keys)');
SELECT pg_temp.compare('SELECT a.name FROM @account a WHERE a.parentaccountid IN (SELECT id FROM keys WHERE n < 200) AND a.employees > 100');
SELECT pg_temp.compare('SELECT a.name FROM @account a WHERE a.parentaccountid NOT IN (SELECT id FROM keys WHERE id IS NOT NULL)');
-- whole rows, system columns, expressions, no column
SELECT pg_temp.compare('SELECT k.n, a FROM keys k LEFT JOIN @account a ON a.accountid = k.id');
SELECT pg_temp.compare('SELECT k.n, a.ctid IS NULL AS missing, k.ctid::text AS place FROM keys k LEFT JOIN @account a ON a.accountid = k.id');
SELECT pg_temp.compare('SELECT k.n, coalesce(a.name, ''none'') || k.n FROM keys k LEFT JOIN @account a ON a.accountid = k.id');
SELECT pg_temp.compare('SELECT count(*) FROM keys k LEFT JOIN @account a ON a.accountid = k.id');
SELECT pg_temp.compare('SELECT k.n, s.x FROM keys k LEFT JOIN (SELECT *, coalesce(name, ''none'') AS x FROM @account) s ON s.accountid = k.id');
SELECT pg_temp.compare('SELECT k.n, s.x, t.y FROM (SELECT n, id, coalesce(name, ''no'') AS x FROM keys) s LEFT JOIN keys k ON k.n = s.n + 1 LEFT JOIN (SELECT accountid, coalesce(employees, 0) AS y FROM @account) t ON t.accountid = k.id');
-- more than one
SELECT pg_temp.compare('SELECT k.n, a.name, b.name AS parent FROM keys k JOIN @account a ON a.accountid = k.id LEFT JOIN @account b ON b.accountid = a.parentaccountid');
SELECT pg_temp.compare('SELECT k.n, a.name, b.name AS parent FROM keys k LEFT JOIN (@account a JOIN @account b ON b.accountid = a.parentaccountid) ON a.accountid = k.id WHERE k.n < 100');
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM @contact c JOIN @account a ON a.accountid = c.parentcustomerid WHERE c.fullname LIKE ''A%''');
SELECT pg_temp.compare('SELECT k.n, a.name, c.fullname FROM keys k JOIN @account a ON a.accountid = k.id LEFT JOIN @contact c ON c.parentcustomerid = a.accountid AND c.fullname > a.name');
SELECT pg_temp.compare('SELECT k.n, a.name FROM keys k LEFT JOIN @account a ON a.accountid = k.id LEFT JOIN keys j ON j.id = a.parentaccountid AND j.employees = a.employees WHERE j.n IS NULL');
SELECT pg_temp.compare('SELECT k.n, a.name FROM keys k JOIN @account a ON a.accountid = k.id AND a.accountid = a.parentaccountid');
SELECT pg_temp.compare('SELECT k.n, a.name FROM keys k FULL JOIN @account a ON a.accountid = k.id WHERE k.n < 10 OR a.employees < 100');
SELECT pg_temp.compare('SELECT k.n, a.name FROM @account a LEFT JOIN keys k ON a.accountid = k.id WHERE a.employees < 100');
-- conditions of subqueries
SELECT pg_temp.compare('SELECT k.n, a.name FROM keys k JOIN @account a ON a.accountid = k.id WHERE a.employees > (SELECT avg(employees) FROM local.account)');
SELECT pg_temp.compare('SELECT k.n, a.name FROM keys k LEFT JOIN @account a ON a.accountid = k.id AND a.employees + k.n > (SELECT min(x.employees) FROM local.account x WHERE x.accountid = k.id OR x.employees > a.employees) WHERE k.n < 20');

-- many batches; the same key in several of them
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT line FROM pg_temp.explain('ANALYZE', 'SELECT k.n, a.name FROM keys k LEFT JOIN remote.account a ON a.accountid = k.id') line WHERE line ~ 'Batches|Join|Lookup';
SELECT kind, pg_temp.compare(kind) FROM
  (VALUES ('SELECT k.n, a.name, k.name AS wanted, k.parent FROM keys k JOIN @account a ON a.accountid = k.id'),
          ('SELECT k.n, a.name, k.name AS wanted, k.parent FROM keys k LEFT JOIN @account a ON a.accountid = k.id AND a.employees > 50'),
          ('SELECT k.n, k.name, k.parent FROM keys k WHERE EXISTS (SELECT FROM @account a WHERE a.accountid = k.id AND a.employees < k.upto)'),
          ('SELECT k.n, k.name, k.parent FROM keys k WHERE NOT EXISTS (SELECT FROM @account a WHERE a.accountid = k.id AND a.employees < k.upto)'),
          ('SELECT k.n, a.name, a.employees FROM keys k JOIN @account a ON a.name = k.name')) kinds(kind);
RESET work_mem;
RESET hash_mem_multiplier;

-- rescans
SET enable_material = off;
SET enable_memoize = off;
SELECT pg_temp.compare('SELECT o.x, (SELECT string_agg(a.name, '','' ORDER BY a.name) FROM keys k JOIN @account a ON a.accountid = k.id WHERE k.n % 100 = o.x) FROM generate_series(1, 3) o(x)');
SELECT pg_temp.compare('SELECT o.x, (SELECT count(*) FROM keys k LEFT JOIN @account a ON a.accountid = k.id AND a.employees > o.x WHERE k.n < 50 AND a.name IS NULL) FROM generate_series(0, 5000, 1000) o(x)');
SELECT pg_temp.compare('SELECT o.x, (SELECT count(*) FROM keys k LEFT JOIN @account a ON a.accountid = k.id WHERE a.employees > o.x + k.n OR a.name IS NULL) FROM generate_series(0, 5000, 1000) o(x)');
SELECT pg_temp.compare('SELECT o.x, s.n, s.name FROM generate_series(1, 3) o(x) LEFT JOIN (keys k JOIN @account a ON a.accountid = k.id AND k.n < 10) AS s(n, id, parent, key, ek, rk, day, upto, accountid, name) ON o.x > s.n % 3');
SELECT pg_temp.compare('SELECT o.x, s.name FROM generate_series(1, 3) o(x), LATERAL (SELECT a.name FROM keys k JOIN @account a ON a.accountid = k.id WHERE k.n > o.x ORDER BY k.n, a.name LIMIT 2) s');
SELECT pg_temp.compare('SELECT o.x FROM generate_series(1, 30) o(x) WHERE EXISTS (SELECT FROM keys k JOIN @account a ON a.accountid = k.id WHERE k.n = o.x)');
SELECT pg_temp.compare('SELECT o.x, (SELECT count(*) FROM keys k JOIN @account a ON a.accountid = k.id WHERE a.employees % 10 IN (SELECT v FROM generate_series(1, 5) v WHERE v <> o.x) OR a.name = ''Twin'') FROM generate_series(1, 3) o(x)');
SELECT pg_temp.compare('SELECT o.x, (SELECT count(*) FROM (SELECT * FROM keys WHERE n % 10 IN (SELECT v FROM generate_series(1, 5) v WHERE v <> o.x) OR n < 5) k LEFT JOIN @account a ON a.accountid = k.id AND ((k.n + a.employees) % 10 IN (SELECT v FROM generate_series(1, 5) v WHERE v <> o.x) OR a.name = ''Twin'') WHERE a.name IS NULL) FROM generate_series(1, 3) o(x)');
RESET enable_material;
RESET enable_memoize;

-- few rows are needed
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id LIMIT 3');
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n, a.name FROM keys k LEFT JOIN remote.account a ON a.accountid = k.id WHERE a.name IS DISTINCT FROM k.name LIMIT 30');
SELECT count(*), count(DISTINCT n) FROM (SELECT k.n, a.name FROM keys k LEFT JOIN remote.account a ON a.accountid = k.id LIMIT 900) s;
SELECT EXISTS (SELECT FROM keys k JOIN remote.account a ON a.accountid = k.id AND a.name = k.name);
SELECT pg_temp.explain('ANALYZE', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id LIMIT 0');

-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT a.name = k.name AS same FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n <= 10;
FETCH 2 FROM c;
MOVE 6 IN c;
FETCH ALL FROM c;
DECLARE s SCROLL CURSOR FOR SELECT a.name = k.name AS same FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n <= 3;
FETCH ALL FROM s;
FETCH BACKWARD ALL FROM s;
DECLARE h CURSOR WITH HOLD FOR SELECT a.name = k.name AS same FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n <= 3;
FETCH 1 FROM h;
COMMIT;
FETCH ALL FROM h;
CLOSE h;

-- functions
CREATE FUNCTION pg_temp.names(few integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  row record;
  same bigint := 0;
BEGIN
  FOR row IN SELECT k.n, a.name, k.name AS wanted FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n <= few LOOP
    same := same + (row.name = row.wanted)::integer;
    BEGIN
      PERFORM 1 / (row.n - 5);
    EXCEPTION WHEN division_by_zero THEN
      PERFORM count(*) FROM keys k LEFT JOIN remote.account a ON a.accountid = k.id WHERE k.n <= 7;
    END;
  END LOOP;
  RETURN same;
END $$;
SELECT x, pg_temp.names(x) FROM generate_series(96, 103) x;

-- cached plans
PREPARE joined(integer, text, uuid) AS SELECT count(*), count(a.name), min(k.n) FROM keys k LEFT JOIN remote.account a ON a.accountid = coalesce(k.id, $3) AND a.name >= $2 WHERE k.n > $1;
PREPARE copied(integer, text, uuid) AS SELECT count(*), count(a.name), min(k.n) FROM keys k LEFT JOIN local.account a ON a.accountid = coalesce(k.id, $3) AND a.name >= $2 WHERE k.n > $1;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.explain('VERBOSE', $$EXECUTE joined(1, 'A', NULL)$$);
EXECUTE joined(100, 'A', NULL);
EXECUTE copied(100, 'A', NULL);
EXECUTE joined(0, 'M', '00000000-0000-0000-0000-000000000000');
EXECUTE copied(0, 'M', '00000000-0000-0000-0000-000000000000');
EXECUTE joined(NULL, NULL, NULL);
RESET plan_cache_mode;
EXECUTE joined(500, 'B', NULL);
EXECUTE copied(500, 'B', NULL);

-- partitions: on the outer side, and on both
CREATE TABLE parts (n integer, id uuid) PARTITION BY RANGE (n);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (300);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT n, id FROM keys;
ANALYZE parts;
SELECT pg_temp.compare('SELECT p.n, a.name FROM parts p LEFT JOIN @account a ON a.accountid = p.id');
CREATE TABLE split (accountid uuid, name varchar(160)) PARTITION BY RANGE (accountid);
CREATE FOREIGN TABLE split_1 PARTITION OF split FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0001-000000000000') SERVER lookup_crm OPTIONS (table 'account', entity_set 'accounts');
CREATE TABLE split_2 PARTITION OF split FOR VALUES FROM ('00000000-0000-0000-0001-000000000000') TO (MAXVALUE);
CREATE TABLE ids (n integer, id uuid) PARTITION BY RANGE (id);
CREATE TABLE ids_1 PARTITION OF ids FOR VALUES FROM (MINVALUE) TO ('00000000-0000-0000-0001-000000000000');
CREATE TABLE ids_2 PARTITION OF ids FOR VALUES FROM ('00000000-0000-0000-0001-000000000000') TO (MAXVALUE);
INSERT INTO ids SELECT n, '00000000-0000-0000-0000-000000000001' FROM generate_series(1, 3) n;
INSERT INTO ids SELECT n, 'ffffffff-0000-0000-0000-000000000001' FROM generate_series(4, 5) n;
ANALYZE ids;
UPDATE pg_class SET reltuples = 1000000 WHERE relname = 'split_1';
INSERT INTO split_2 VALUES ('ffffffff-0000-0000-0000-000000000001', 'here');
SET enable_partitionwise_join = on;
SELECT pg_temp.explain('VERBOSE off', 'SELECT i.n, s.name FROM ids i LEFT JOIN split s ON s.accountid = i.id');
SELECT i.n, s.name FROM ids i LEFT JOIN split s ON s.accountid = i.id ORDER BY 1;
RESET enable_partitionwise_join;

-- updates and deletes
CREATE TABLE remote.tasks AS SELECT n, id, parent, name, employees, revenue, 0 AS done FROM keys;
CREATE TABLE local.tasks AS SELECT * FROM remote.tasks;
ALTER FOREIGN TABLE remote.account ALTER parentaccountid OPTIONS (type 'lookup', target 'account', target_set 'accounts', navigation 'parentaccountid');
ANALYZE remote.tasks;
ANALYZE local.tasks;
SELECT pg_temp.explain('VERBOSE', 'UPDATE remote.account a SET employees = a.employees + 1 FROM keys k WHERE a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE', 'DELETE FROM remote.account a USING keys k WHERE a.name = k.name AND k.upto > 100 RETURNING a.revenue, k.n');
SELECT pg_temp.explain('VERBOSE', 'UPDATE remote.tasks t SET name = a.name FROM remote.account a WHERE a.accountid = t.id');
-- given ids need no request, unless something must be read
SELECT pg_temp.explain('VERBOSE off', 'UPDATE remote.account a SET name = upper(k.name) FROM keys k WHERE a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'UPDATE remote.account a SET name = upper(k.name) FROM keys k WHERE a.accountid = k.id RETURNING a.revenue');
SELECT pg_temp.explain('VERBOSE off', 'DELETE FROM remote.account a USING keys k WHERE a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'DELETE FROM remote.account a USING keys k WHERE a.accountid = k.id AND a.employees > k.upto');

-- Changes the service and the copy.  Shows whether the plan has such a join, and
-- whether both report the same and are the same afterwards.
CREATE FUNCTION pg_temp.change(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  joins boolean := false;
  version text;
  rows bigint[];
  n bigint;
  returned text[];
  digest text;
  differences bigint;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN ' || replace(statement, '@', 'remote.') LOOP
    joins := joins OR line ~ 'DataverseLookup';
  END LOOP;
  FOREACH version IN ARRAY ARRAY['remote.', 'local.'] LOOP
    IF statement ~ 'RETURNING' THEN
      EXECUTE format($q$WITH w AS (%s) SELECT count(*), coalesce(md5(string_agg(w::text, ',' ORDER BY w::text COLLATE "C")), '') FROM w$q$,
                     replace(statement, '@', version)) INTO n, digest;
      returned := returned || digest;
    ELSE
      EXECUTE replace(statement, '@', version);
      GET DIAGNOSTICS n = ROW_COUNT;
    END IF;
    rows := rows || n;
  END LOOP;
  CREATE TEMP TABLE r AS SELECT * FROM remote.account;
  SELECT count(*) INTO differences FROM (
    (SELECT r::text FROM r EXCEPT ALL SELECT l::text FROM local.account l) UNION ALL
    (SELECT l::text FROM local.account l EXCEPT ALL SELECT r::text FROM r) UNION ALL
    (SELECT t::text FROM remote.tasks t EXCEPT ALL SELECT t::text FROM local.tasks t) UNION ALL
    (SELECT t::text FROM local.tasks t EXCEPT ALL SELECT t::text FROM remote.tasks t)) d;
  DROP TABLE r;
  RETURN format('%s: %s rows, %s differences%s', CASE WHEN joins THEN 'by keys' ELSE 'otherwise' END, rows[2],
                differences + abs(rows[1] - rows[2]), CASE WHEN returned[1] <> returned[2] THEN ', returns something else' END);
END $$;
-- each row once, however often the list has it
SELECT clause, pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM keys k WHERE ' || clause) FROM
  (VALUES ('a.accountid = k.id'), ('k.id = a.accountid AND a.employees > k.upto'), ('a.parentaccountid = k.id'), ('a.name = k.name'),
          ('a.revenue = k.revenue'), ('a.createdon = k.day'), ('a.employees = k.employees'), ('a.employees = k.employees + 1'),
          ('a.name = k.name AND a.accountid = k.id'), ('a.accountid = k.id AND length(a.name) > k.n % 20')) clauses(clause);
-- the result does not depend on the writes
SELECT pg_temp.change('UPDATE @account a SET name = left(k.name, 150) || '' Ltd'' FROM (SELECT DISTINCT name FROM keys WHERE n < 200) k WHERE a.name = k.name');
SELECT pg_temp.change('UPDATE @account a SET name = left(a.name, length(a.name) - 4) FROM (SELECT DISTINCT name FROM keys) k WHERE a.name = k.name || '' Ltd''');
SELECT pg_temp.change('UPDATE @account a SET parentaccountid = k.parent FROM (SELECT DISTINCT id, parent FROM keys WHERE n % 2 = 0) k WHERE a.parentaccountid = k.id');
-- sources: values, subqueries, functions, other tables, the same table
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + v.x FROM (VALUES (''Twin'', 1), (''TWIN'', 2), (''twîn'', 3), (''twin '', 4), ('' '', 5)) v(name, x) WHERE a.name = v.name');
SELECT pg_temp.change('UPDATE @account a SET employees = s.most, creditonhold = NOT a.creditonhold FROM (SELECT id, max(n) AS most FROM keys GROUP BY id) s WHERE a.accountid = s.id');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees - 1 FROM unnest(ARRAY[''Twin'', ''TWIN'']) v(name) WHERE a.name = v.name');
SELECT pg_temp.change('WITH k AS MATERIALIZED (SELECT id, min(n) AS least FROM keys GROUP BY id) UPDATE @account a SET employees = a.employees + k.least FROM k WHERE a.accountid = k.id');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM keys k JOIN keys j ON j.n = k.n + 1 WHERE a.accountid = k.id AND j.employees > k.employees');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM keys k JOIN @account b ON b.accountid = k.parent WHERE a.accountid = k.id AND b.employees > a.employees');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM keys k LEFT JOIN @contact c ON c.parentcustomerid = k.id WHERE a.accountid = k.id AND (c.fullname IS NULL OR c.fullname > a.name)');
SELECT pg_temp.change('UPDATE @account a SET employees = p.employees FROM @account p WHERE p.accountid = a.parentaccountid AND p.name < ''F''');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 WHERE a.accountid IN (SELECT id FROM keys)');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 WHERE EXISTS (SELECT FROM keys k WHERE k.id = a.accountid AND k.name = a.name)');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 WHERE NOT EXISTS (SELECT FROM keys k WHERE k.id = a.accountid)');
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM keys k WHERE a.accountid = k.id AND k.n > 1000000');
-- whole rows, and RETURNING
SELECT pg_temp.change('UPDATE @account a SET name = left(md5(a::text), 20) || left(a.name, 100) FROM keys k WHERE a.accountid = k.id AND k.n BETWEEN 100 AND 120 RETURNING a.*');
SELECT pg_temp.change('UPDATE @account a SET name = upper(k.name) FROM (SELECT DISTINCT id, upper(name) AS name FROM keys) k WHERE a.accountid = k.id RETURNING a.accountid, a.name, a.revenue, k.name, k');
SELECT pg_temp.change('UPDATE @account a SET revenue = a.revenue + 1 FROM (VALUES (''Twin''), (''TWIN'')) v(name) WHERE a.name = v.name RETURNING a, v, a.revenue * 2');
SELECT pg_temp.change('UPDATE @account a SET name = left(a.name, 100) || ''!'' FROM keys k WHERE a.accountid = k.id AND a::text < k.name');
-- triggers
CREATE TABLE remote.log (operation text, old text, new text);
CREATE TABLE local.log (LIKE remote.log);
CREATE FUNCTION pg_temp.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_WHEN = 'BEFORE' THEN
    NEW.employees := NEW.employees + 1000;
    RETURN NEW;
  END IF;
  EXECUTE format('INSERT INTO %I.log VALUES ($1, $2, $3)', TG_TABLE_SCHEMA) USING TG_OP, OLD::text, NEW::text;
  RETURN NULL;
END $$;
CREATE TRIGGER before BEFORE UPDATE ON remote.account FOR EACH ROW EXECUTE FUNCTION pg_temp.note();
CREATE TRIGGER before BEFORE UPDATE ON local.account FOR EACH ROW EXECUTE FUNCTION pg_temp.note();
CREATE TRIGGER after AFTER UPDATE ON remote.account FOR EACH ROW EXECUTE FUNCTION pg_temp.note();
CREATE TRIGGER after AFTER UPDATE ON local.account FOR EACH ROW EXECUTE FUNCTION pg_temp.note();
SELECT pg_temp.change('UPDATE @account a SET name = left(lower(k.name), 150) FROM keys k WHERE a.accountid = k.id AND k.n < 40');
SELECT pg_temp.compare('SELECT operation, old, new FROM @log');
DROP TRIGGER before ON remote.account;
DROP TRIGGER before ON local.account;
DROP TRIGGER after ON remote.account;
DROP TRIGGER after ON local.account;
-- many batches; more rows than fit into memory
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT line FROM pg_temp.explain('ANALYZE', 'UPDATE remote.account a SET employees = a.employees FROM keys k WHERE a.accountid = k.id') line WHERE line ~ 'Batches|Join|Lookup|Spooled';
SELECT pg_temp.change('UPDATE @account a SET employees = a.employees + 1 FROM (SELECT DISTINCT id FROM keys) k WHERE a.accountid = k.id RETURNING a.name, a.employees');
RESET work_mem;
RESET hash_mem_multiplier;
-- in a common table expression, with writes of others in the statement
SELECT pg_temp.explain('VERBOSE off', 'WITH w AS (UPDATE remote.account a SET employees = a.employees + 1 FROM keys k WHERE a.accountid = k.id RETURNING a.name) SELECT count(*) FROM w');
SELECT pg_temp.explain('VERBOSE off', 'WITH w AS (DELETE FROM remote.account WHERE name = ''Twin'') UPDATE remote.account a SET employees = a.employees + 1 FROM keys k WHERE a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'UPDATE remote.account a SET employees = (SELECT count(*) FROM keys k JOIN remote.account b ON b.accountid = k.id) WHERE a.name = ''Twin''');
-- cached plans
PREPARE updated(integer, text) AS UPDATE remote.account a SET employees = a.employees + $1 FROM keys k WHERE a.accountid = k.id AND a.name >= $2 AND k.n > $1;
PREPARE updated_copy(integer, text) AS UPDATE local.account a SET employees = a.employees + $1 FROM keys k WHERE a.accountid = k.id AND a.name >= $2 AND k.n > $1;
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.explain('VERBOSE off', 'EXECUTE updated(1, ''A'')');
EXECUTE updated(3, 'C');
EXECUTE updated_copy(3, 'C');
EXECUTE updated(500, 'B');
EXECUTE updated_copy(500, 'B');
RESET plan_cache_mode;
SELECT pg_temp.compare('SELECT a.accountid, a.employees FROM @account a');
-- versions
CREATE FOREIGN TABLE remote.versions (accountid uuid, employees integer OPTIONS ("column" 'numberofemployees'), versionnumber bigint)
  SERVER lookup_crm OPTIONS (table 'account', entity_set 'accounts', match_version 'on');
ANALYZE remote.versions;
UPDATE pg_class SET reltuples = 1000000 WHERE oid = 'remote.versions'::regclass;
SELECT pg_temp.explain('VERBOSE', 'UPDATE remote.versions a SET employees = 77 FROM keys k WHERE a.accountid = k.id AND k.n < 400');
WITH u AS (UPDATE remote.versions a SET employees = 77 FROM keys k WHERE a.accountid = k.id AND k.n < 400 RETURNING 1) SELECT count(*) FROM u;
SELECT count(*), min(employees), max(employees) FROM remote.account WHERE accountid IN (SELECT id FROM keys WHERE n < 400);
DROP FOREIGN TABLE remote.versions;
UPDATE local.account SET employees = 77 WHERE accountid IN (SELECT id FROM keys WHERE n < 400);

-- local tables that are joined with a foreign one
SELECT pg_temp.change('UPDATE @tasks t SET name = a.name FROM @account a WHERE a.accountid = t.id');
SELECT pg_temp.change('UPDATE @tasks t SET done = done + 1 FROM @account a WHERE a.name = t.name AND a.accountid = t.id AND a.employees > t.n RETURNING t.n, a.name, a.revenue');
SELECT pg_temp.change('UPDATE @tasks t SET done = done + 1, name = b.name FROM @account a LEFT JOIN @account b ON b.accountid = a.parentaccountid WHERE a.accountid = t.id');
SELECT pg_temp.change('UPDATE @tasks t SET done = done + 1 FROM keys k LEFT JOIN @account a ON a.accountid = k.parent AND a.employees > 100 WHERE k.n = t.n AND a.name IS NULL');
SELECT pg_temp.change('UPDATE @tasks t SET done = done + 1 WHERE t.id IN (SELECT accountid FROM @account WHERE employees > 100)');
SELECT pg_temp.change('UPDATE @tasks t SET done = done + 1 FROM keys k WHERE k.n = t.n AND NOT EXISTS (SELECT FROM @account a WHERE a.accountid = t.id)');
SELECT pg_temp.change('DELETE FROM @tasks t USING @account a WHERE a.accountid = t.id AND a.name < ''C'' RETURNING t.*, a');
SELECT pg_temp.change('DELETE FROM @tasks t USING keys k, @account a WHERE a.accountid = k.parent AND k.n = t.n AND t.done = 0');

-- targets with partitions are joined in other ways
CREATE TABLE shares (n integer, id uuid, done integer DEFAULT 0) PARTITION BY RANGE (n);
CREATE TABLE shares_1 PARTITION OF shares FOR VALUES FROM (0) TO (300);
CREATE TABLE shares_2 PARTITION OF shares DEFAULT;
INSERT INTO shares SELECT n, id FROM keys;
ANALYZE shares;
SET enable_nestloop = off;
SELECT pg_temp.explain('VERBOSE off', 'UPDATE shares s SET done = 1 FROM remote.account a WHERE a.accountid = s.id');
SELECT count(*) AS lookups FROM pg_temp.explain('VERBOSE', 'DELETE FROM shares WHERE id IN (SELECT accountid FROM remote.account)') line WHERE line ~ 'Lookup';
SELECT pg_temp.explain('VERBOSE off', 'UPDATE shares s SET done = 1 FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n = s.n');
SELECT pg_temp.explain('VERBOSE off', 'UPDATE split s SET name = ''x'' FROM ids i WHERE s.accountid = i.id');
SET enable_partitionwise_join = on;
SELECT pg_temp.explain('VERBOSE off', 'UPDATE split s SET name = ''x'' FROM ids i WHERE s.accountid = i.id');
RESET enable_partitionwise_join;
RESET enable_nestloop;
WITH u AS (UPDATE shares s SET done = 1 FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n = s.n AND a.employees = 77 RETURNING s.n, a.accountid = s.id AS same)
  SELECT count(*), count(DISTINCT n), bool_and(same) FROM u;
DROP TABLE shares;

-- deletes, which clear the lookups of other rows
CREATE FUNCTION pg_temp.remove(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  joins boolean := false;
  version text;
  rows bigint[];
  n bigint;
  differences bigint;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN ' || replace(statement, '@', 'remote.') LOOP
    joins := joins OR line ~ 'DataverseLookup';
  END LOOP;
  FOREACH version IN ARRAY ARRAY['remote.', 'local.'] LOOP
    EXECUTE replace(statement, '@', version);
    GET DIAGNOSTICS n = ROW_COUNT;
    rows := rows || n;
  END LOOP;
  SELECT count(*) INTO differences FROM remote.account r FULL JOIN local.account l USING (accountid) WHERE r.name IS DISTINCT FROM l.name;
  RETURN format('%s: %s rows, %s differences', CASE WHEN joins THEN 'by keys' ELSE 'otherwise' END, rows[2],
                differences + abs(rows[1] - rows[2]));
END $$;
SELECT pg_temp.remove('DELETE FROM @account a USING keys k WHERE a.name = k.name AND k.n < 0');
SELECT pg_temp.remove('DELETE FROM @account a USING (VALUES (''TWIN''), (''other'')) v(name) WHERE a.name = v.name');
SELECT pg_temp.remove('DELETE FROM @account a USING keys k WHERE a.accountid = k.id AND a.employees = 77 AND k.n < 30');
SELECT pg_temp.remove('DELETE FROM @account a WHERE a.name IN (SELECT upper(name) FROM keys WHERE n BETWEEN 30 AND 60)');
SELECT pg_temp.remove('DELETE FROM @account a USING keys k WHERE a.accountid = k.id AND k.n BETWEEN 60 AND 90');
WITH d AS (DELETE FROM remote.account a USING keys k WHERE a.accountid = k.id AND k.n BETWEEN 90 AND 110 RETURNING a.accountid, a.name, k.id)
  SELECT count(*), count(DISTINCT d.id), bool_and(d.accountid = d.id), bool_and(d.name = l.name) FROM d JOIN local.account l USING (accountid);

-- not with row locks, nor if a barrier hides rows from the clause, nor to read the target of an insert
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id FOR UPDATE OF k');
SELECT pg_temp.explain('VERBOSE off', 'MERGE INTO remote.tasks t USING remote.account a ON a.accountid = t.id WHEN MATCHED THEN UPDATE SET name = a.name');
SELECT pg_temp.explain('VERBOSE off', 'INSERT INTO remote.account (name) SELECT a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'INSERT INTO remote.contact (fullname) SELECT a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
CREATE TABLE money (revenue numeric, name varchar(160)) PARTITION BY RANGE (revenue);
CREATE FOREIGN TABLE money_1 PARTITION OF money FOR VALUES FROM (0) TO (100) SERVER lookup_crm OPTIONS (table 'account', entity_set 'accounts');
ALTER FOREIGN TABLE money_1 ALTER revenue OPTIONS (type 'money');
ANALYZE money_1;
UPDATE pg_class SET reltuples = 1000000 WHERE relname = 'money_1';
CREATE TABLE sums (n integer, revenue numeric) PARTITION BY RANGE (revenue);
CREATE TABLE sums_1 PARTITION OF sums FOR VALUES FROM (0) TO (100);
INSERT INTO sums SELECT n, n FROM generate_series(1, 20) n;
ANALYZE sums;
CREATE ROLE regress_lookup_reader;
GRANT SELECT ON ids, split, sums, money TO regress_lookup_reader;
GRANT USAGE ON FOREIGN SERVER lookup_crm TO regress_lookup_reader;
CREATE USER MAPPING FOR regress_lookup_reader SERVER lookup_crm OPTIONS (client_id 'app1', client_secret 'secret1');
ALTER TABLE split ENABLE ROW LEVEL SECURITY;
CREATE POLICY named ON split USING (length(name) > 3);
ALTER TABLE money ENABLE ROW LEVEL SECURITY;
CREATE POLICY named ON money USING (length(name) > 3);
SET enable_partitionwise_join = on;
SELECT pg_temp.explain('VERBOSE off', 'SELECT s.n, m.name FROM sums s LEFT JOIN money m ON m.revenue = s.revenue');
SET ROLE regress_lookup_reader;
-- the equality of uuid reveals nothing, that of numeric may
EXPLAIN (COSTS OFF) SELECT i.n, s.name FROM ids i LEFT JOIN split s ON s.accountid = i.id;
EXPLAIN (COSTS OFF) SELECT s.n, m.name FROM sums s LEFT JOIN money m ON m.revenue = s.revenue;
RESET ROLE;
RESET enable_partitionwise_join;
-- nor if hash joins are disabled
SET enable_hashjoin = off;
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
RESET enable_hashjoin;
-- nor if the condition already has a list of any length, or the column cannot be part of a condition
PREPARE lists(uuid[]) AS SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE a.parentaccountid = ANY ($1);
SET plan_cache_mode = force_generic_plan;
SELECT pg_temp.explain('VERBOSE off', 'EXECUTE lists(NULL)');
RESET plan_cache_mode;
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON lower(a.name) = k.name');
-- a short table is read completely
ANALYZE remote.account;
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id');
SELECT pg_temp.explain('VERBOSE off', 'SELECT k.n, a.name FROM keys k JOIN remote.account a ON a.accountid = k.id WHERE k.n < 100');

DROP TABLE keys, parts, split, ids, money, sums CASCADE;
DROP SCHEMA local CASCADE;
DROP SCHEMA remote CASCADE;
DROP SERVER lookup_crm CASCADE;
DROP ROLE regress_lookup_reader;
