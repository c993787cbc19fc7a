-- Values at the edge of every type, as constants and as parameters, and system columns.
\getenv url DVSIM_URL
\getenv srcdir PG_ABS_SRCDIR
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER edges_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set file :srcdir '/sql/include/explain.sql'
\i :file
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER edges_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE t (
  id uuid OPTIONS ("column" 'new_alltypesid'),
  n text OPTIONS ("column" 'new_name'),
  i integer OPTIONS ("column" 'new_integer'),
  big bigint OPTIONS ("column" 'new_bigint'),
  d numeric(15,4) OPTIONS ("column" 'new_decimal'),
  d10 numeric(23,10) OPTIONS ("column" 'new_decimal10'),
  plain numeric OPTIONS ("column" 'new_decimal10'),
  m numeric(19,4) OPTIONS ("column" 'new_money', type 'money'),
  f double precision OPTIONS ("column" 'new_double'),
  t timestamptz OPTIONS ("column" 'new_datetime'),
  z timestamp OPTIONS ("column" 'new_zonefree'),
  day date OPTIONS ("column" 'new_date')
) SERVER edges_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
INSERT INTO t (id, n, i, big, d, d10, m, f, t, z, day) VALUES
  ('00000000-0000-0000-0000-000000000001', 'least', '-2147483648', '-9223372036854775808', '-99999999999.9999', '-99999999999.9999999999', '-922337203685477', -100000000000, '1753-01-01 00:00:00', '1753-01-01 00:00:00', '1753-01-01'),
  ('ffffffff-ffff-ffff-ffff-ffffffffffff', 'most', 2147483647, 9223372036854775807, 99999999999.9999, 99999999999.9999999999, 922337203685477, 100000000000, '9999-12-30 23:59:59', '9999-12-30 23:59:59', '9999-12-30'),
  ('00000000-0000-0000-0000-000000000002', 'middle', 0, 0, 0, 9999999999.5, 922337203685476.5, 0, '2024-02-29 12:00:00', '2024-02-29 12:00:00', '2024-02-29');
CREATE TABLE l AS SELECT * FROM t;

-- a number is shown with the column's decimal places, whatever its number of digits
SELECT n, d, d10, plain, m FROM t ORDER BY n;

-- as constants and as parameters: where do the answers differ from a local table's?  (see also t/read/differential)
CREATE FUNCTION answer(query text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  result text;
BEGIN
  IF value IS NULL THEN
    EXECUTE query INTO result;
  ELSE
    EXECUTE query INTO result USING value;
  END IF;
  RETURN result;
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE TABLE v (kind text, type text, value text);
INSERT INTO v VALUES ('number', 'int2', '-32768'), ('number', 'int2', '32767'), ('number', 'int4', '-2147483648'), ('number', 'int4', '2147483647'),
  ('number', 'int8', '-9223372036854775808'), ('number', 'int8', '9223372036854775807'), ('number', 'int8', '2147483648');
INSERT INTO v SELECT 'number', 'numeric', unnest(ARRAY['-9223372036854775809', '1e1000', '-1e-1000', 'NaN', 'Infinity', '-Infinity', '99999999999.9999999999', '-99999999999.99999999995', '922337203685477', '2147483646.5']);
INSERT INTO v SELECT 'double', 'float8', unnest(ARRAY['1.7976931348623157e308', '-1.7976931348623157e308', '5e-324', '-0', 'NaN', 'Infinity', '-Infinity', '100000000000']);
INSERT INTO v SELECT 'double', 'float4', unnest(ARRAY['3.4028235e38', '1e-45', '-Infinity']);
INSERT INTO v SELECT 'time', 'date', unnest(ARRAY['4713-01-01 BC', '1752-12-31', '1753-01-01', '9999-12-31', '10000-01-01', '300000-01-01', 'infinity', '-infinity']);
INSERT INTO v SELECT 'time', type, unnest(ARRAY['4713-01-01 00:00:00 BC', '1752-12-31 23:59:59.999999', '1753-01-01 00:00:00', '9999-12-30 23:59:59.5', '9999-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999', 'infinity', '-infinity'])
  FROM unnest(ARRAY['timestamp', 'timestamptz']) type;
INSERT INTO v SELECT 'id', 'uuid', unnest(ARRAY['00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000001', 'ffffffff-ffff-ffff-ffff-ffffffffffff']);
INSERT INTO v SELECT 'text', 'text', unnest(ARRAY['', ' ', 'MOST', 'most ', repeat('x', 5000), E'\x01', E'most\x7f', E'\uFFFF', '😀', 'mo%', '[m]ost', '\']);
INSERT INTO v SELECT kind, type, NULL FROM v GROUP BY 1, 2;
CREATE TABLE c (kind text, name text);
INSERT INTO c VALUES ('number', 'i'), ('number', 'big'), ('number', 'd'), ('number', 'd10'), ('number', 'm'), ('double', 'f'),
  ('time', 't'), ('time', 'z'), ('time', 'day'), ('id', 'id'), ('text', 'n');
-- forms with %1$s for the column and %2$s for the value
CREATE TABLE form (form text);
INSERT INTO form VALUES ('%1$s = %2$s'), ('%2$s < %1$s'), ('%1$s <= %2$s'), ('NOT %1$s IS NOT DISTINCT FROM %2$s');
CREATE FUNCTION differences(zone text) RETURNS TABLE (questions bigint, condition text, foreign_table text, local_table text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('TimeZone', zone, true);
  RETURN QUERY
    SELECT count(*) OVER (), x.condition || coalesce(' with ' || x.value, ''), x.f, x.l FROM (
      SELECT a.condition, a.value,
        answer('SELECT string_agg(n, '','' ORDER BY n) FROM t WHERE ' || a.condition, a.value) AS f,
        answer('SELECT string_agg(n, '','' ORDER BY n) FROM l WHERE ' || a.condition, a.value) AS l
      FROM (SELECT format(form.form, c.name, format('%L::%s', v.value, v.type)) AS condition, NULL AS value FROM v JOIN c USING (kind), form
            UNION ALL
            SELECT format('%s <> $1::%s', c.name, v.type), v.value FROM v JOIN c USING (kind) WHERE v.value IS NOT NULL) a
      OFFSET 0) x WHERE x.f IS DISTINCT FROM x.l;
END $$;
SELECT count(*) FROM v JOIN c USING (kind), form;
SELECT * FROM differences('UTC') LIMIT 10;
DELETE FROM c WHERE kind <> 'time';
SELECT * FROM differences('America/Los_Angeles') LIMIT 10;
SELECT * FROM differences('Pacific/Kiritimati') LIMIT 10;
SELECT e FROM unnest(ARRAY['f <= 1.7976931348623157e308', 'f = 1.7976931348623157e308', 'f = ''-1.7976931348623157e308''', 'f IN (0.5, 1.7976931348623157e308)',
  't < ''300000-01-01''::date', 'z >= ''4713-01-01 BC''::date', 'day <> ''infinity''']) c, pg_temp.explain('VERBOSE', 'SELECT n FROM t WHERE ' || c) e WHERE e ~ 'Request|One-Time';
-- in both zones, a bound is the same moment
SET TimeZone = 'Pacific/Kiritimati';
SELECT n FROM t WHERE t < '294276-12-31 23:59:59'::timestamp AND t > '4714-11-24 00:00:00 BC'::timestamp ORDER BY n;
SET TimeZone = 'America/Los_Angeles';
SELECT n FROM t WHERE t < '294276-12-31 23:59:59'::timestamp AND t > '4714-11-24 00:00:00 BC'::timestamp ORDER BY n;
SET TimeZone = 'UTC';

--
-- System columns: tableoid is right, ctid identifies the row (regress/ctid), the others are as in postgres_fdw for unknown rows
--
SELECT ctid IS NOT NULL AS ctid, xmin, xmax, cmin, cmax, tableoid::regclass, n FROM t ORDER BY n;
SELECT n, xmin FROM t WHERE xmin = '0' AND xmax::text = '0' AND cmin = '0' AND cmax = '0' AND tableoid = 't'::regclass AND i = 0;
SELECT n FROM t WHERE xmin = '1' OR ctid = '(0,1)' OR tableoid = 'l'::regclass;
SELECT w.*::text LIKE '%,middle,%' AS whole, w.xmin FROM t w WHERE i = 0;
SELECT a.n, a.xmin, b.cmax FROM t a JOIN t b USING (id) WHERE a.i = 0;
SELECT n, (SELECT b.xmax FROM t b WHERE b.id = a.id) FROM t a WHERE i = 0;
SELECT count(xmin), count(DISTINCT ctid) FROM t;
SELECT xmin, n FROM t ORDER BY i DESC LIMIT 1;
SELECT pg_temp.explain('VERBOSE', 'SELECT ctid, xmin, tableoid, n FROM t WHERE xmin = ''0'' AND i = 0');
INSERT INTO t (id, n, i) VALUES ('00000000-0000-0000-0000-000000000003', 'new', 3) RETURNING ctid IS NOT NULL AS ctid, xmin, xmax, cmin, cmax, tableoid::regclass, n;
UPDATE t SET i = 4 WHERE xmin = '0' AND n = 'new' RETURNING ctid IS NOT NULL AS ctid, xmin, xmax, cmin, cmax, tableoid::regclass, i;
UPDATE t SET i = i + 1 WHERE n = 'new' RETURNING xmin, t.i, id;
UPDATE t SET i = 6 FROM l WHERE l.n = 'least' AND t.n = 'new' RETURNING t.xmin, l.xmin IS NULL, t.i;
WITH d AS (DELETE FROM t WHERE n = 'new' AND cmin = '0' RETURNING tableoid::regclass AS tab, xmin, n) SELECT * FROM d;
INSERT INTO t (id, n) VALUES ('00000000-0000-0000-0000-000000000004', 'newer');
DELETE FROM t WHERE n = 'newer' RETURNING xmax;
-- below a partitioned parent
CREATE TABLE parent (id uuid, n text, i integer) PARTITION BY LIST (n);
CREATE FOREIGN TABLE away (id uuid OPTIONS ("column" 'new_alltypesid'), n text OPTIONS ("column" 'new_name'), i integer OPTIONS ("column" 'new_integer'))
  SERVER edges_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
CREATE TABLE home PARTITION OF parent FOR VALUES IN ('home');
ALTER TABLE parent ATTACH PARTITION away DEFAULT;
INSERT INTO parent VALUES ('00000000-0000-0000-0000-000000000005', 'home', 1);
INSERT INTO parent VALUES ('00000000-0000-0000-0000-000000000006', 'away', 2) RETURNING tableoid::regclass, n;
SELECT tableoid::regclass, xmin = '0' AS zero, n FROM parent ORDER BY n;
UPDATE parent SET i = 7 WHERE n IN ('home', 'away') RETURNING tableoid::regclass, xmin = '0' AS zero, n;
DELETE FROM parent WHERE tableoid = 'away'::regclass AND n = 'away' RETURNING tableoid::regclass, cmax, n;

DROP TABLE parent;
DROP FUNCTION differences, answer;
DROP TABLE v, c, form, l;
DROP FOREIGN TABLE t;
SET client_min_messages = warning;
DROP SERVER edges_crm CASCADE;
