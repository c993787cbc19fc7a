-- Special columns: calculated ones, helpers of others, sets of choices.
\getenv url DVSIM_URL
\getenv srcdir PG_ABS_SRCDIR
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER special_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
CREATE USER MAPPING FOR CURRENT_USER SERVER special_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA dv;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes, new_meter) FROM SERVER special_crm INTO dv OPTIONS (import_labels 'off');
SET search_path = dv, public;

-- as imported
SELECT attname, attfdwoptions FROM pg_attribute
 WHERE attrelid = 'new_alltypes'::regclass AND attfdwoptions::text ~ 'source|helper_of' ORDER BY attname;
ALTER FOREIGN TABLE new_alltypes
  ALTER new_formula OPTIONS (DROP source),
  ALTER new_calculated OPTIONS (SET source 'rollup'),
  ALTER new_rollup OPTIONS (DROP source),
  ALTER new_image_url OPTIONS (DROP helper_of),
  ALTER new_name OPTIONS (ADD source 'prompt');
SELECT column_name, drift, here, there, statement FROM dataverse.import_diff('dv') ORDER BY column_name;
SELECT string_agg(statement, '; ') AS repair FROM dataverse.import_diff('dv') \gset
:repair;
SELECT * FROM dataverse.import_diff('dv');
ALTER FOREIGN TABLE new_alltypes ALTER new_name OPTIONS (ADD source 'guessed');

SELECT count(dataverse.request('special_crm', 'POST', 'new_meters',
  jsonb_build_object('new_meterid', format('0000000%s-1111-4000-8000-000000000000', i), 'new_name', i::text, 'new_serial', i::text)))
 FROM generate_series(1, 2) i;
SELECT count(dataverse.request('special_crm', 'POST', 'new_alltypeses', row)) FROM (VALUES
 ('{"new_alltypesid":"00000001-0000-4000-8000-000000000000","new_name":"c","new_integer":3,"new_choices":"1,2","new_image":"iVBORw0KGgo="}'::jsonb),
 ('{"new_alltypesid":"00000002-0000-4000-8000-000000000000","new_name":"b","new_integer":1,"new_choices":"2,3"}'),
 ('{"new_alltypesid":"00000003-0000-4000-8000-000000000000","new_name":"d","new_choices":"3","new_MeterId@odata.bind":"/new_meters(00000001-1111-4000-8000-000000000000)"}'),
 ('{"new_alltypesid":"00000004-0000-4000-8000-000000000000","new_name":"a","new_integer":2}')
) v(row);

-- the requests, local operations, and the answer in its order
CREATE FUNCTION ask(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN SELECT pg_temp.explain('VERBOSE', query) LOOP
    IF line ~ 'Request' THEN
      RETURN NEXT replace(trim(line), 'GET new_alltypeses?$select=', '');
    ELSIF line ~ 'Rechecked|Filter|Sort Key|Merge Append' THEN
      RETURN NEXT '  ' || trim(line);
    END IF;
  END LOOP;
  EXECUTE format('SELECT string_agg(q::text, '' '') FROM (%s) q', query) INTO line;
  RETURN NEXT '  → ' || coalesce(line, 'none');
END $$;
\pset format unaligned
\pset tuples_only on

-- the service ignores such an order, so it is never requested
SELECT ask('SELECT new_calculated FROM new_alltypes ORDER BY 1');
SELECT ask('SELECT new_calculated FROM new_alltypes ORDER BY 1 DESC NULLS LAST LIMIT 2');
SELECT ask('SELECT new_calculated FROM new_alltypes WHERE new_calculated > 2 ORDER BY 1 LIMIT 1');
SELECT ask('SELECT new_formula FROM new_alltypes ORDER BY 1 LIMIT 2 OFFSET 1');
SELECT ask('SELECT new_integer, new_calculated FROM new_alltypes ORDER BY 1 DESC NULLS LAST, 2 LIMIT 1');
SELECT ask('SELECT max(new_calculated), min(new_calculated), min(new_formula) FROM new_alltypes');
SELECT ask('SELECT DISTINCT new_calculated FROM new_alltypes ORDER BY 1');
SELECT ask('SELECT DISTINCT ON (new_calculated) new_calculated, new_name FROM new_alltypes ORDER BY 1, 2');
SELECT ask('SELECT new_calculated FROM new_alltypes UNION ALL SELECT new_calculated FROM new_alltypes WHERE new_integer = 2 ORDER BY 1 LIMIT 3');
SELECT ask('SELECT new_calculated, row_number() OVER (ORDER BY new_calculated) FROM new_alltypes');
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT ask('SELECT a.new_calculated FROM new_alltypes a JOIN new_alltypes b ON a.new_calculated = b.new_calculated');
RESET enable_hashjoin;
RESET enable_nestloop;
-- without an order, and without a sort, LIMIT is still pushed down
SELECT ask('SELECT new_calculated FROM new_alltypes LIMIT 1');
-- it can filter by their values, however
SELECT ask('SELECT new_calculated FROM new_alltypes WHERE new_calculated = 4');
SELECT ask('SELECT count(*) FROM new_alltypes WHERE new_calculated > 2');
-- columns calculated in advance are stored
SELECT ask('SELECT new_rollup FROM new_alltypes ORDER BY 1 DESC NULLS LAST LIMIT 2');
SELECT ask('SELECT new_rollup FROM new_alltypes UNION ALL SELECT new_rollup FROM new_alltypes WHERE new_integer = 2 ORDER BY 1 LIMIT 3');

-- the service has no conditions on helpers
SELECT ask('SELECT new_name FROM new_alltypes WHERE new_image_url IS NOT NULL');
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_image_url LIKE '/Image/%' AND new_integer = 3$$);
SELECT ask('SELECT new_name FROM new_alltypes WHERE new_image_timestamp > 5 OR new_integer = 2');
SELECT ask('SELECT new_image_timestamp > 0 AS t FROM new_alltypes ORDER BY new_image_timestamp LIMIT 1');
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_file_name = ANY ('{a,b}') OR new_file_name = 'c'$$);
SELECT ask('SELECT count(*) FROM new_alltypes WHERE new_imageid IS NULL');
-- those of tables without the option are recognized by their names
ALTER FOREIGN TABLE new_alltypes ALTER new_image_url OPTIONS (DROP helper_of), ALTER new_file_name OPTIONS (DROP helper_of);
SELECT ask('SELECT new_name FROM new_alltypes WHERE new_image_url IS NOT NULL');
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_file_name = 'a'$$);
-- a column whose name only looks like that of a helper
CREATE FOREIGN TABLE bare (new_alltypesid uuid, new_text text, new_url text OPTIONS (type 'string')) SERVER special_crm
  OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
SELECT ask($$SELECT new_url FROM bare WHERE new_url IS NOT NULL$$);

-- single values of a set are in a full-text index, which lags
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices && '{1,9}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices @> '{2,3}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices @> '{}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE 3 = ANY (new_choices)$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE NOT new_choices && '{1}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices && '{}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices && (SELECT '{1}'::int[])$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices IS NULL$$);
ALTER SERVER special_crm OPTIONS (ADD full_text_filters 'on');
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices && '{1,9}'$$);
SELECT ask($$SELECT new_name FROM new_alltypes WHERE new_choices && (SELECT '{1}'::int[])$$);
ALTER FOREIGN TABLE new_alltypes OPTIONS (ADD full_text_filters 'off');
SELECT ask($$SELECT new_name FROM new_alltypes WHERE 3 = ANY (new_choices)$$);
\pset format aligned
\pset tuples_only off

\set ECHO errors
SET client_min_messages = warning;
DROP SCHEMA dv CASCADE;
DROP SERVER special_crm CASCADE;
