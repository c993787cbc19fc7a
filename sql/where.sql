-- Filters that are sent to the service, their form, and local filters.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER where_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER where_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE t (
  id uuid OPTIONS ("column" 'new_alltypesid'),
  n text OPTIONS ("column" 'new_name'),
  s varchar(100) OPTIONS ("column" 'new_text'),
  memo text OPTIONS ("column" 'new_memo', type 'memo'),
  i integer OPTIONS ("column" 'new_integer'),
  big bigint OPTIONS ("column" 'new_bigint'),
  d numeric(15,4) OPTIONS ("column" 'new_decimal'),
  m numeric(19,2) OPTIONS ("column" 'new_money', type 'money'),
  f double precision OPTIONS ("column" 'new_double'),
  b boolean OPTIONS ("column" 'new_boolean'),
  c integer OPTIONS ("column" 'new_choice', type 'choice'),
  label text OPTIONS (label_of 'c'),
  cs integer[] OPTIONS ("column" 'new_choices'),
  t timestamptz OPTIONS ("column" 'new_datetime'),
  z timestamp OPTIONS ("column" 'new_zonefree'),
  day date OPTIONS ("column" 'new_date'),
  customer uuid OPTIONS ("column" 'new_customerid', type 'customer'),
  customer_type text OPTIONS (ref_type_of 'new_customerid')
) SERVER where_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');

SELECT dataverse.request('where_crm', 'POST', 'accounts',
  '{"accountid":"aaaaaaaa-0000-4000-8000-000000000001","name":"A"}') IS NULL AS made;
SELECT count(dataverse.request('where_crm', 'POST', 'new_alltypeses', row)) FROM (VALUES
 ('{"new_alltypesid":"00000001-0000-4000-8000-000000000000","new_name":"1","new_text":"abc","new_memo":"abc","new_integer":1,"new_bigint":9007199254740993,"new_decimal":1.5,"new_money":10.01,"new_double":0.1,"new_boolean":true,"new_choice":100000000,"new_choices":"1,2","new_datetime":"2024-02-29T12:00:00Z","new_zonefree":"2024-02-29T12:00:00Z","new_date":"2024-02-29","new_customerid_account@odata.bind":"/accounts(aaaaaaaa-0000-4000-8000-000000000001)"}'::jsonb),
 ('{"new_alltypesid":"00000002-0000-4000-8000-000000000000","new_name":"2","new_text":"ABC","new_memo":"ABC","new_integer":2,"new_bigint":9007199254740992,"new_decimal":-1.5,"new_money":-10.01,"new_double":0.3,"new_boolean":false,"new_choice":100000001,"new_choices":"2,3","new_datetime":"2024-02-29T12:00:01Z","new_zonefree":"2024-02-29T12:00:01Z","new_date":"2024-03-01"}'),
 ('{"new_alltypesid":"00000003-0000-4000-8000-000000000000","new_name":"3","new_text":"äbc","new_integer":-2147483648}'),
 ('{"new_alltypesid":"00000004-0000-4000-8000-000000000000","new_name":"4","new_text":"abc ","new_integer":2147483647,"new_datetime":"1753-01-01T00:00:00Z","new_date":"1753-01-01"}'),
 ('{"new_alltypesid":"00000005-0000-4000-8000-000000000000","new_name":"5","new_text":"50%","new_datetime":"9999-12-30T23:59:59Z","new_date":"9999-12-30"}'),
 ('{"new_alltypesid":"00000006-0000-4000-8000-000000000000","new_name":"6","new_text":"a_b[c]"}'),
 ('{"new_alltypesid":"00000007-0000-4000-8000-000000000000","new_name":"7","new_text":"O''Neil & \"Co\" #1"}'),
 ('{"new_alltypesid":"00000008-0000-4000-8000-000000000000","new_name":"8","new_text":""}'),
 ('{"new_alltypesid":"00000009-0000-4000-8000-000000000000","new_name":"9","new_text":"axb"}')
) v(row);

-- the request, the local filter, and the answer
CREATE FUNCTION ask(condition text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT n FROM t WHERE ' || condition LOOP
    IF line ~ 'Request' THEN
      RETURN NEXT replace(regexp_replace(regexp_replace(trim(line), 'GET .*?filter=', ''), '&.orderby.*', ''), 'GET new_alltypeses?$select=', 'all rows: ');
    ELSIF line ~ 'Rechecked|Filter|Values|One-Time' THEN
      RETURN NEXT '  ' || trim(line);
    END IF;
  END LOOP;
  EXECUTE 'SELECT coalesce(string_agg(n, '','' ORDER BY n), ''none'') FROM t WHERE ' || condition INTO line;
  RETURN NEXT '  → ' || line;
END $$;
\pset format unaligned
\pset tuples_only on

-- numbers: exact, on the column's grid, within its range
SELECT ask('i = 1');
SELECT ask('i <> 1');
SELECT ask('NOT i > 1');
SELECT ask('i < 1.5');
SELECT ask('i >= 1.5');
SELECT ask('i = 1.5');
SELECT ask('i <> 1.5');
SELECT ask('i < 3000000000');
SELECT ask('i = 3000000000');
SELECT ask('i BETWEEN 1 AND 2');
SELECT ask('i IN (1, 2, 2, NULL)');
SELECT ask('i NOT IN (1, 2)');
SELECT ask('i NOT IN (1, NULL)');
SELECT ask('i IS DISTINCT FROM 1');
SELECT ask('i IS NOT DISTINCT FROM 1');
SELECT ask('i IS NOT DISTINCT FROM NULL');
SELECT ask('big = 9007199254740993');
SELECT ask('d = 1.5000');
SELECT ask('d > -1.50000000001');
SELECT ask('d < 1e30');
SELECT ask('d = ''NaN''');
SELECT ask('m >= 10.01');
SELECT ask('i % 2 = 1');
-- doubles: a little wider, and checked
SELECT ask('f = 0.1');
SELECT ask('f > 0.1');
SELECT ask('f <> 0.1');
-- booleans
SELECT ask('b');
SELECT ask('NOT b');
SELECT ask('b IS NOT TRUE');
SELECT ask('b IS UNKNOWN');
SELECT ask('b <> true');
-- text: the service ignores case, accents, and trailing blanks
SELECT ask($$s = 'abc'$$);
SELECT ask($$s <> 'abc'$$);
SELECT ask($$NOT s = 'abc'$$);
SELECT ask($$s IN ('abc', 'axb')$$);
SELECT ask($$memo IN ('abc', 'axb')$$);
SELECT ask($$s > 'abc'$$);
SELECT ask($$s = ''$$);
SELECT ask($$s IS NULL$$);
SELECT ask($$s IS NOT DISTINCT FROM 'ABC'$$);
SELECT ask($$s IS DISTINCT FROM 'ABC'$$);
SELECT ask($$s = 'O''Neil & "Co" #1'$$);
SELECT ask($$s = E'\x01'$$);
SELECT ask($$lower(s) = 'abc'$$);
SELECT ask($$s = current_user::text$$) WHERE false;
-- LIKE: escapes out, live wildcards between brackets
SELECT ask($$s LIKE 'ab%'$$);
SELECT ask($$s LIKE '%bc'$$);
SELECT ask($$s LIKE '%b%'$$);
SELECT ask($$s LIKE '50\%'$$);
SELECT ask($$s LIKE 'a\_b%'$$);
SELECT ask($$s LIKE 'a_b%'$$);
SELECT ask($$s LIKE '%[c]'$$);
SELECT ask($$s LIKE '%'$$);
SELECT ask($$s LIKE 'a!_b%' ESCAPE '!'$$);
-- it is not known how the service treats such characters, escaped or not
SELECT ask($$s LIKE 'ab😀%'$$);
SELECT ask($$s LIKE 'ab\😀%'$$);
SELECT ask($$s ILIKE '%\😀bc'$$);
SELECT ask($$s NOT LIKE 'ab%'$$);
SELECT ask($$s ILIKE 'AB%'$$);
SELECT ask($$s ILIKE '%neil%'$$);
SELECT ask($$s ^@ 'a_'$$);
SELECT ask($$'abc' LIKE s$$);
SELECT ask($$s ~ '^ab'$$);
-- dates and times: whole seconds, and only values that the service can store
SELECT ask($$t = '2024-02-29 12:00:00+00'$$);
SELECT ask($$t < '2024-02-29 12:00:00.5+00'$$);
SELECT ask($$t <= '2024-02-29 12:00:00+00'$$);
SELECT ask($$t = '2024-02-29 12:00:00.5+00'$$);
SELECT ask($$t <> '2024-02-29 13:00:00+01'$$);
SELECT ask($$t > '0001-01-01'$$);
SELECT ask($$t < '10000-01-01'$$);
SELECT ask($$t >= 'infinity'$$);
SELECT ask($$t > '2024-02-29 12:00:00'::timestamp$$);
SELECT ask($$z > '2024-02-29 12:00:00'$$);
SELECT ask($$z > '2024-02-29 12:00:00+00'::timestamptz$$);
SELECT ask($$day = '2024-02-29'$$);
SELECT ask($$day < '2024-03-01'::timestamp - interval '1 hour'$$);
SELECT ask($$day < '1700-01-01'$$);
-- intersect tables have whole seconds as well
ALTER FOREIGN TABLE t OPTIONS (ADD table_type 'intersect');
SELECT ask($$t = '2024-02-29 12:00:00.5+00'$$);
SELECT ask($$t <> '2024-02-29 13:00:00+01'$$);
ALTER FOREIGN TABLE t OPTIONS (DROP table_type);
-- ids, lookups, choices
SELECT ask($$id = '00000001-0000-4000-8000-000000000000'$$);
SELECT ask($$id > '00000001-0000-4000-8000-000000000000'$$);
SELECT ask($$customer = 'aaaaaaaa-0000-4000-8000-000000000001'$$);
SELECT ask($$customer <> 'aaaaaaaa-0000-4000-8000-000000000002'$$);
SELECT ask($$customer_type = 'account'$$);
SELECT ask($$customer_type IS NULL$$);
SELECT ask($$c = 100000000$$);
SELECT ask($$c > 100000000$$);
SELECT ask($$c IN (100000000, 100000001)$$);
SELECT ask($$label = 'Second'$$);
SELECT ask($$label IS NOT NULL$$);
ALTER FOREIGN TABLE t OPTIONS (ADD full_text_filters 'on');
SELECT ask($$cs && '{1,9}'$$);
SELECT ask($$cs @> '{1,2}'$$);
SELECT ask($$3 = ANY (cs)$$);
ALTER FOREIGN TABLE t OPTIONS (DROP full_text_filters);
SELECT ask($$3 = ANY (cs)$$);
SELECT ask($$cs = '{1,2}'$$);
SELECT ask($$NOT cs && '{1}'$$);
-- AND as far as possible, OR all or nothing, NOT down to the leaves
SELECT ask($$i = 1 AND s > 'a'$$);
SELECT ask($$i = 1 OR s > 'a'$$);
SELECT ask($$i = 1 OR s = 'axb' OR (b AND t IS NULL)$$);
SELECT ask($$NOT (i = 1 OR b)$$);
SELECT ask($$NOT (i = 1 AND s = 'x')$$);
SELECT ask($$(i = 1 OR i = 2) IS TRUE$$);
-- many conditions
SELECT ask((SELECT string_agg(format('(i = %s AND d = 1.5)', n), ' OR ') FROM generate_series(1, 260) n)) IS NOT NULL;
-- long lists take several requests; each row is returned once
SELECT regexp_replace(l, ',PropertyValues.*', '…') FROM ask(format('i = ANY (%L::int[])', (SELECT array_agg(n) FROM generate_series(1, 1200) n))) l;
SELECT count(*) FROM t WHERE i = ANY (ARRAY(SELECT n % 700 FROM generate_series(1, 3000) n));
SELECT count(*) FROM t WHERE s = ANY (ARRAY(SELECT ('abc' || repeat(' ', n % 5) || CASE WHEN n > 20 THEN n::text ELSE '' END) FROM generate_series(1, 2500) n));
SELECT count(*) FROM t WHERE t = ANY (ARRAY(SELECT '2024-02-29 12:00:00+00'::timestamptz + n * interval '1 second' FROM generate_series(0, 300) n));
-- a URL longer than a request line
SELECT count(*) FROM t WHERE s = repeat('x', 1900) OR s = repeat('y', 1900) OR s = repeat('%', 1900) OR s = repeat('&', 1900) OR s = repeat('ä', 900) OR s = repeat('ö', 900) OR s = repeat('ü', 900) OR s = repeat(' x', 900) OR s = repeat('#x', 900) OR s = 'abc';

-- an operator class may have an equality of its own, which the service does not know
CREATE FUNCTION same_size(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
  'BEGIN RETURN abs($1::bigint) = abs($2::bigint); END';
CREATE OPERATOR |=| (FUNCTION = same_size, LEFTARG = integer, RIGHTARG = integer);
CREATE OPERATOR FAMILY sizes USING btree;
ALTER OPERATOR FAMILY sizes USING btree ADD OPERATOR 3 |=| (integer, integer);
SELECT ask('i |=| -1');
SELECT ask('i |=| ANY (''{-1,-2}'')');
DROP OPERATOR FAMILY sizes USING btree;
DROP OPERATOR |=| (integer, integer);
DROP FUNCTION same_size;

-- rows hidden by a parent's row security stay hidden from leaky functions, also where the clause is evaluated locally
CREATE FUNCTION leak(what text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
  RAISE NOTICE 'sees %', what;
  RETURN true;
END $$;
CREATE TABLE parent (n text, s varchar(100)) PARTITION BY LIST (n);
CREATE FOREIGN TABLE child (n text OPTIONS ("column" 'new_name'), s varchar(100) OPTIONS ("column" 'new_text'))
  SERVER where_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
ALTER TABLE parent ATTACH PARTITION child DEFAULT;
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON parent USING (s = 'abc');
CREATE ROLE regress_where_reader;
GRANT SELECT ON parent TO regress_where_reader;
GRANT USAGE ON FOREIGN SERVER where_crm TO regress_where_reader;
CREATE USER MAPPING FOR regress_where_reader SERVER where_crm OPTIONS (client_id 'app1', client_secret 'secret1');
SET ROLE regress_where_reader;
SELECT n FROM parent WHERE leak(s);
RESET ROLE;
DROP TABLE parent;
DROP FUNCTION leak;
DROP USER MAPPING FOR regress_where_reader SERVER where_crm;
REVOKE ALL ON FOREIGN SERVER where_crm FROM regress_where_reader;
DROP ROLE regress_where_reader;

\pset tuples_only off
\pset format aligned
DROP FUNCTION ask;
DROP SERVER where_crm CASCADE;
