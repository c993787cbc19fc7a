-- Row security and security barriers: user functions must not see hidden rows, in any plan,
-- and no clause that could reveal them is sent to the service.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER barrier_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
\set ECHO all
CREATE ROLE regress_barrier_reader;
GRANT USAGE ON FOREIGN SERVER barrier_crm TO regress_barrier_reader;
CREATE USER MAPPING FOR PUBLIC SERVER barrier_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA barrier;
GRANT USAGE, CREATE ON SCHEMA barrier TO regress_barrier_reader;
SET search_path = barrier, public;

CREATE TABLE parent (id uuid, n text, s varchar(100), i integer, d numeric(15,4)) PARTITION BY LIST (i);
CREATE FOREIGN TABLE child (
  id uuid OPTIONS ("column" 'new_alltypesid'),
  n text OPTIONS ("column" 'new_name'),
  s varchar(100) OPTIONS ("column" 'new_text'),
  i integer OPTIONS ("column" 'new_integer'),
  d numeric(15,4) OPTIONS ("column" 'new_decimal')
) SERVER barrier_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
ALTER TABLE parent ATTACH PARTITION child DEFAULT;
CREATE TABLE here PARTITION OF parent FOR VALUES IN (100);
INSERT INTO child (n, s, i, d) VALUES
  ('1', 'abc', 1, 1.5), ('2', 'ABC', 2, 2.5), ('3', 'äbc', 3, 3.5), ('4', 'abcd', 4, 4.5),
  ('5', 'abd', 5, 5.5), ('6', 'xyz', 6, 6.5), ('7', 'Abc', 7, 7.5), ('8', 'abç', 8, 8.5);
INSERT INTO here (n, s, i, d) VALUES ('9', 'abc', 100, 100), ('10', 'xyz', 100, 101);
ANALYZE parent, child, here;
CREATE TABLE k (i integer, d numeric, s text);
INSERT INTO k VALUES (1, 1.5, 'abc'), (2, 2.5, 'ABC'), (6, 6.5, 'xyz');
ANALYZE k;

-- a user function that costs next to nothing and records its arguments
CREATE TABLE seen (what text);
CREATE FUNCTION leak(what text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 SECURITY DEFINER AS $$
BEGIN
  INSERT INTO barrier.seen VALUES (what);
  RETURN true;
END $$;
-- the request, the local filter in its order, the number of rows, and the leaks
CREATE FUNCTION try(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  n bigint;
BEGIN
  FOR line IN SELECT pg_temp.explain('VERBOSE', query) LOOP
    CONTINUE WHEN line !~ 'Request: GET|Filter: |Join|Nested Loop|Async|Count';
    RETURN NEXT '  ' || replace(regexp_replace(trim(line), '&\$orderby=new_alltypesid$', ''), 'GET new_alltypeses?$select=', '');
  END LOOP;
  EXECUTE query;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN NEXT n || ' rows, seen: ' || coalesce((SELECT string_agg(what, ' ' ORDER BY what COLLATE "C") FROM seen_by_leak()), 'nothing');
END $$;
CREATE FUNCTION seen_by_leak() RETURNS TABLE (what text) LANGUAGE sql VOLATILE SECURITY DEFINER AS
  'DELETE FROM barrier.seen RETURNING what';
GRANT SELECT, INSERT, UPDATE, DELETE ON parent, k TO regress_barrier_reader;
\pset format unaligned
\pset tuples_only on

--
-- Row security of a parent: a policy that the service answers exactly, roughly, or not at all
--
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON parent USING (s = 'abc');
SET ROLE regress_barrier_reader;
SELECT try($$SELECT n FROM parent WHERE leak(s)$$);
SELECT try($$SELECT n FROM parent WHERE leak(s) AND i < 50$$);
SET enable_async_append = off;
SELECT try($$SELECT n FROM parent WHERE leak(s)$$);
RESET enable_async_append;
SELECT try($$SELECT n FROM parent WHERE leak(s) ORDER BY i LIMIT 1$$);
SELECT try($$SELECT count(*) FROM parent WHERE leak(s)$$);
-- a leakproof user condition is sent, any other is not: LIKE, numeric comparisons
SELECT try($$SELECT n FROM parent WHERE s = 'ABC' AND i < 50$$);
SELECT try($$SELECT n FROM parent WHERE s LIKE 'x%' AND i < 50$$);
SELECT try($$SELECT n FROM parent WHERE d > 1 AND i = 6$$);
SELECT try($$SELECT n FROM parent WHERE (d > 1 OR i = 2) AND i < 50$$);
-- joins: the same for their conditions
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT try($$SELECT p.n FROM k JOIN parent p ON p.i = k.i WHERE leak(p.s)$$);
SELECT try($$SELECT p.n FROM k JOIN parent p ON p.d = k.d WHERE leak(p.s) AND p.i < 50$$);
SELECT try($$SELECT p.n FROM k JOIN parent p ON p.s = k.s WHERE leak(p.s) AND p.i < 50$$);
SELECT try($$SELECT k.i FROM k, LATERAL (SELECT n FROM parent p WHERE p.i = k.i AND leak(p.s) OFFSET 0) x$$);
RESET enable_material;
RESET enable_mergejoin;
RESET enable_hashjoin;
SELECT try($$SELECT p.n FROM k JOIN parent p ON p.i = k.i WHERE leak(p.s)$$);
-- writing
SELECT try($$UPDATE parent SET n = n || '!' WHERE leak(s) AND i < 50$$);
SELECT try($$DELETE FROM parent WHERE leak(s) AND s LIKE 'x%' AND i < 50$$);
SELECT try($$UPDATE parent p SET n = p.n || '!' FROM k WHERE p.i = k.i AND leak(p.s)$$);
RESET ROLE;

ALTER POLICY mine ON parent USING (s LIKE 'abc%');
SET ROLE regress_barrier_reader;
SELECT try($$SELECT n FROM parent WHERE leak(s) AND i < 50$$);
SELECT try($$SELECT p.n FROM k JOIN parent p ON p.i = k.i WHERE leak(p.s) AND p.i < 50$$);
RESET ROLE;
ALTER POLICY mine ON parent USING (i IN (2, 6));
SET ROLE regress_barrier_reader;
SELECT try($$SELECT n FROM parent WHERE leak(s) AND i < 50$$);
SELECT try($$SELECT n FROM parent WHERE leak(s) AND s LIKE 'x%' AND i < 50$$);
SELECT try($$DELETE FROM parent WHERE leak(s) AND d = 1 AND i < 50$$);
RESET ROLE;
ALTER POLICY mine ON parent USING (upper(s) = 'ABC');
SET ROLE regress_barrier_reader;
SELECT try($$SELECT n FROM parent WHERE leak(s) AND i < 50$$);
SELECT try($$SELECT n FROM parent WHERE leak(s) AND s = 'xyz' AND i < 50$$);
SELECT try($$SELECT n FROM parent WHERE s LIKE 'x%' AND i < 50$$);
SELECT try($$UPDATE parent SET n = n || '!' WHERE leak(s) AND d > 0 AND i < 50$$);
RESET ROLE;

--
-- Views with security_barrier
--
CREATE VIEW equal WITH (security_barrier) AS SELECT * FROM child WHERE s = 'abc';
CREATE VIEW likely WITH (security_barrier) AS SELECT * FROM child WHERE s LIKE 'abc%';
CREATE VIEW locally WITH (security_barrier) AS SELECT * FROM child WHERE upper(s) = 'ABC';
CREATE VIEW twice WITH (security_barrier) AS SELECT * FROM likely WHERE s = 'abc';
GRANT SELECT, UPDATE, DELETE ON equal, likely, locally, twice TO regress_barrier_reader;
SET ROLE regress_barrier_reader;
SELECT try($$SELECT n FROM equal WHERE leak(s)$$);
SELECT try($$SELECT n FROM likely WHERE leak(s) AND s LIKE 'x%'$$);
SELECT try($$SELECT n FROM locally WHERE leak(s) AND i = 1$$);
SELECT try($$SELECT n FROM twice WHERE leak(s)$$);
SELECT try($$SELECT count(*) FROM likely WHERE leak(s)$$);
SELECT try($$SELECT n FROM likely WHERE leak(s) LIMIT 1$$);
SELECT try($$UPDATE equal SET n = n || '?' WHERE leak(s)$$);
SELECT try($$UPDATE likely SET n = n || '?' WHERE leak(s) AND s LIKE '%d'$$);
SELECT try($$UPDATE locally SET n = n || '?' WHERE leak(s) AND d > 100$$);
SELECT try($$UPDATE twice SET n = n || '?' WHERE leak(s)$$);
SELECT try($$DELETE FROM likely WHERE leak(s) AND i = 6$$);
SELECT try($$DELETE FROM locally USING k WHERE locally.d = k.d AND leak(locally.s) AND k.i = 6$$);
RESET ROLE;

--
-- Without barriers, everything is sent to the service, and expensive clauses come last
--
CREATE FUNCTION slow(what text) RETURNS boolean LANGUAGE plpgsql COST 100000 AS 'BEGIN RETURN leak(what); END';
SELECT try($$SELECT n FROM child WHERE slow(s) AND s LIKE 'x%' AND d > 1$$);
SELECT try($$SELECT n FROM child WHERE slow(s) AND s = 'abc'$$);
SELECT try($$SELECT n FROM child WHERE slow(s) AND s LIKE 'a%' AND right(s, 1) = 'd'$$);
SELECT try($$UPDATE child SET n = n || '.' WHERE slow(s) AND s = 'abc'$$);

--
-- Malformed values are read before it is known that their rows are hidden
--
CREATE FOREIGN TABLE odd (id uuid OPTIONS ("column" 'new_alltypesid'), i integer OPTIONS ("column" 'new_integer'),
  number integer OPTIONS ("column" 'new_text', type 'integer'), network cidr OPTIONS ("column" 'new_text', type 'string'),
  short varchar(2) OPTIONS ("column" 'new_text', type 'string', on_oversize 'truncate'), shorter varchar(2) OPTIONS ("column" 'new_text', type 'string')
) SERVER barrier_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses', primary_id 'new_alltypesid');
CREATE VIEW none WITH (security_barrier) AS SELECT * FROM odd WHERE i + 0 > 1000;
GRANT SELECT ON none TO regress_barrier_reader;
CREATE FUNCTION told(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  message text;
  detail text;
  context text;
BEGIN
  EXECUTE query;
  RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
  RETURN concat_ws(E'\n  ', message, nullif(regexp_replace(detail, '[0-9a-f-]{36}', 'ID'), ''), CASE WHEN context ~ 'row [0-9a-f-]{36}' THEN 'ID' END);
END $$;
SELECT told('SELECT number FROM none');
SELECT told('SELECT network FROM none');
SELECT told('SELECT shorter FROM none');
SET ROLE regress_barrier_reader;
SELECT told('SELECT number FROM none');
SELECT told('SELECT network FROM none');
SELECT told('SELECT shorter FROM none');
SELECT short FROM none;
RESET ROLE;

\pset tuples_only off
\pset format aligned
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA barrier CASCADE;
DROP SERVER barrier_crm CASCADE;
DROP ROLE regress_barrier_reader;
