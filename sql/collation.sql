-- Text compared under dataverse.ci_ai: the answer is that of a local table, for any plan and any question.
-- A server without ICU does not have it (collation_1.out).
\set VERBOSITY terse
\getenv url DVSIM_URL
\getenv srcdir PG_ABS_SRCDIR
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER collation_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set file :srcdir '/sql/include/explain.sql'
\i :file
\set ECHO all
CREATE USER MAPPING FOR CURRENT_USER SERVER collation_crm OPTIONS (client_id 'app1', client_secret 'secret1');
-- as it is imported
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER collation_crm INTO public OPTIONS (import_collation 'on');
SELECT to_regcollation('dataverse.ci_ai') IS NULL AS none \gset
\if :none
  SET client_min_messages = warning;
  DROP SERVER collation_crm CASCADE;
  \quit
\endif
SELECT format_type(atttypid, atttypmod) AS type, attcollation::regcollation AS collation, count(*)
FROM pg_attribute WHERE attrelid = 'account'::regclass AND attcollation <> 0 AND (atttypid = 'text'::regtype OR attname IN ('name', 'fax'))
GROUP BY 1, 2 ORDER BY 1, 2;
ALTER FOREIGN TABLE account ALTER sic TYPE varchar(5) COLLATE dataverse.ci_ai;
SELECT column_name, statement FROM dataverse.import_diff('public') WHERE column_name = 'sic';
SELECT 'Société' = 'societe' COLLATE dataverse.ci_ai AS "case and accents",
       'a' = 'b' COLLATE dataverse.ci_ai AS letters,
       'a' = 'a ' COLLATE dataverse.ci_ai AS "blanks at the end";
DROP FOREIGN TABLE account;

-- as it is compared
CREATE FOREIGN TABLE t (
  id uuid OPTIONS ("column" 'new_alltypesid'),
  n text OPTIONS ("column" 'new_name'),
  s varchar(100) OPTIONS ("column" 'new_text') COLLATE dataverse.ci_ai,
  memo text OPTIONS ("column" 'new_memo', type 'memo') COLLATE dataverse.ci_ai,
  narrow varchar(5) OPTIONS ("column" 'new_text') COLLATE dataverse.ci_ai
) SERVER collation_crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses', page_size '10');
INSERT INTO t (n, s) SELECT i, v FROM unnest(ARRAY[
  'kiwi', 'KIWI', 'Kíwi', U&'\212Aiwi', U&'k\0131wi', U&'\0130kiwi', 'kiwi ', 'kiwi  ', ' kiwi', 'kiwis',
  'Müller', 'MULLER', 'mueller', U&'mu\0308ller', 'straße', 'STRASSE', 'strase', 'æon', 'AEON', 'Łódź', 'lodz', 'Øre', 'ore',
  'John Smith', U&'John\00A0Smith', 'JOHN  SMITH', 'JohnSmith', 'a...', U&'a\2026', '😀', '😢', 'a😀', 'a', '', U&'\1230', U&'\200E',
  'x-1', 'x_1', 'x%1', 'x1', 'O''Neil', 'ONEIL', U&'\FF41\FF42', 'ab', U&'a\24D1', 'x²', 'X2', 'tab	end', NULL]) WITH ORDINALITY u(v, i);
CREATE TABLE local_t AS SELECT n, s, memo FROM t;
CREATE TABLE k (k text COLLATE dataverse.ci_ai);
INSERT INTO k SELECT DISTINCT s COLLATE "C" FROM local_t UNION SELECT unnest(ARRAY['KÍWI', E'\x01kiwi', 'JOHN SMITH', 'zzz', repeat('x', 3000), ' ']);

-- the request, and the local filter
SELECT pg_temp.explain('VERBOSE', 'SELECT n FROM t WHERE s = ''kiwi''');
SELECT l FROM unnest(ARRAY[$$s = 'Müller-&/@_+#''1'$$, $$s = 'John Smith'$$, $$s = 'a...'$$, $$s = '😀'$$, $$s = ''$$, $$s = E'\x01kiwi'$$,
    $$s = repeat('é', 300)$$, $$s IN ('kiwi', 'Müller', 'John Smith')$$, $$s IN ('kiwi', ' ')$$, $$s <> 'kiwi'$$, $$s NOT IN ('kiwi', 'x')$$,
    $$NOT s = 'kiwi'$$, $$s IS DISTINCT FROM 'kiwi'$$, $$s IS NOT DISTINCT FROM 'kiwi'$$, $$s = 'kiwi' AND s = 'kiwi' COLLATE "C"$$,
    $$memo = 'kiwi'$$, $$narrow = 'kiwi'$$, $$s = 'kiwi' OR n = '5'$$]) c,
  LATERAL (SELECT c || ': ' || regexp_replace(e, '^ *Request: GET new_alltypeses\?(.*filter=)?(.*?)&\$orderby.*', '\2') AS l
           FROM pg_temp.explain('VERBOSE', 'SELECT n FROM t WHERE ' || c) e WHERE e ~ 'Request') x;

-- each of these texts, as a constant, from the outer side of a nested loop, hashed, merged, and in a list
CREATE FUNCTION answers(tab regclass, k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  result text;
BEGIN
  EXECUTE format('SELECT string_agg(n, '','' ORDER BY n::int) FROM %s WHERE s = %L', tab, k) INTO result;
  RETURN result;
END $$;
SELECT k.k, answers('t', k), answers('local_t', k) FROM k WHERE answers('t', k) IS DISTINCT FROM answers('local_t', k);
CREATE VIEW joined AS SELECT k.k COLLATE "C" AS k, t.n FROM k JOIN t ON k.k = t.s;
CREATE VIEW local_joined AS SELECT k.k COLLATE "C" AS k, t.n FROM k JOIN local_t t ON k.k = t.s;
CREATE TABLE expected AS SELECT * FROM local_joined;
SELECT count(*) > 60 AS many FROM expected;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
ANALYZE k;
SELECT e FROM pg_temp.explain('VERBOSE', 'SELECT t.n FROM (SELECT k FROM k LIMIT 1) k JOIN t ON k.k = t.s') e WHERE e ~ 'Loop|Hash|Request';
SELECT count(*) FROM (SELECT k FROM k OFFSET 0) k, LATERAL (SELECT n FROM t WHERE t.s = k.k OFFSET 0) x;
SELECT count(*) FROM expected;
SELECT k, n FROM (TABLE joined EXCEPT ALL TABLE expected) x;
SELECT k, n FROM (TABLE expected EXCEPT ALL TABLE joined) x;
RESET enable_material; RESET enable_hashjoin; SET enable_nestloop = off;
SELECT k, n FROM (TABLE joined EXCEPT ALL TABLE expected) x;
SELECT k, n FROM (TABLE expected EXCEPT ALL TABLE joined) x;
SET enable_hashjoin = off; RESET enable_mergejoin;
SELECT k, n FROM (TABLE joined EXCEPT ALL TABLE expected) x;
SELECT k, n FROM (TABLE expected EXCEPT ALL TABLE joined) x;
RESET enable_hashjoin; RESET enable_nestloop;
SELECT n FROM t WHERE s = ANY (ARRAY(SELECT k FROM k)) EXCEPT SELECT n FROM local_t WHERE s = ANY (ARRAY(SELECT k FROM k));
SELECT count(*) FROM t WHERE s = ANY (ARRAY(SELECT k FROM k));
SELECT count(*) FROM local_t WHERE s = ANY (ARRAY(SELECT k FROM k));
-- the same with parameters, and without a filter
PREPARE p(text) AS SELECT string_agg(n, ',' ORDER BY n::int) FROM t WHERE s = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p('kiwi');
EXECUTE p('John Smith');
EXECUTE p('😀');
EXECUTE p(NULL);
RESET plan_cache_mode;
SELECT (SELECT count(*) FROM t WHERE s <> 'kiwi') = (SELECT count(*) FROM local_t WHERE s <> 'kiwi') AS "not equal",
  (SELECT count(DISTINCT s) FROM t) = (SELECT count(DISTINCT s) FROM local_t) AS "distinct",
  (SELECT array_agg(c ORDER BY c) FROM (SELECT count(*) c FROM t GROUP BY s) x) = (SELECT array_agg(c ORDER BY c) FROM (SELECT count(*) c FROM local_t GROUP BY s) x) AS "grouped",
  (SELECT array_agg(n ORDER BY s, n) FROM t) = (SELECT array_agg(n ORDER BY s, n) FROM local_t) AS "ordered";

DROP VIEW joined, local_joined;
DROP TABLE expected, k, local_t;
DROP FUNCTION answers;
DROP FOREIGN TABLE t;
SET client_min_messages = warning;
DROP SERVER collation_crm CASCADE;
