--
-- ANALYZE of foreign tables, and throttles in EXPLAIN ANALYZE.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
\set ECHO all
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET client_min_messages = warning;
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/reset"`
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=5000"`
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/seed?table=new_reading&rows=1000"`
CREATE SERVER analyze_crm FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', retry_after_buffer '0', request_cost '100', row_cost '0.05');
CREATE USER MAPPING FOR CURRENT_USER SERVER analyze_crm
  OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  id uuid OPTIONS ("column" 'accountid'),
  name varchar(160),
  gone text,
  employees integer OPTIONS ("column" 'numberofemployees'),
  industrycode integer OPTIONS (type 'choice'),
  industry text OPTIONS (label_of 'industrycode'),
  picture bytea OPTIONS ("column" 'entityimage', type 'image')
) SERVER analyze_crm OPTIONS (entity_set 'accounts', page_size '1000');
ALTER FOREIGN TABLE account DROP COLUMN gone;

-- a table that is read completely: its rows are counted, its statistics are correct
ANALYZE account;
SELECT reltuples, relpages > 10 AS weighs FROM pg_class WHERE oid = 'account'::regclass;
CREATE TEMP TABLE copied AS SELECT id, name, employees, industrycode, industry FROM account;
ANALYZE copied;
SELECT attname, f.null_frac = c.null_frac AS nulls, f.n_distinct = c.n_distinct AS values,
       f.avg_width = c.avg_width AS width, f.histogram_bounds::text IS NOT DISTINCT FROM c.histogram_bounds::text AS histogram
FROM pg_stats f JOIN pg_stats c USING (attname)
WHERE f.tablename = 'account' AND c.tablename = 'copied' ORDER BY 1;
SELECT null_frac FROM pg_stats WHERE tablename = 'account' AND attname = 'picture';
-- plans use them
EXPLAIN SELECT name FROM account WHERE id = '00000000-0000-0000-0000-000000000001';

-- a table that is too large for that: a bounded number of rows, none of them twice
SET default_statistics_target = 1;
\setenv SINCE `curl -s "$DVSIM_URL/_dvsim/requests" | grep -o '"next":[0-9]*' | tr -dc 0-9`
ANALYZE account;
\set asked `curl -s "$DVSIM_URL/_dvsim/requests?since=$SINCE" | grep -o '"target":"[^"]*"' | wc -l`
\set ranges `curl -s "$DVSIM_URL/_dvsim/requests?since=$SINCE" | grep -o '"target":"[^"]*accountid%20gt%20[^"]*top=19"' | wc -l`
\set images `curl -s "$DVSIM_URL/_dvsim/requests?since=$SINCE" | grep -c entityimage`
SELECT :asked <= 35 AS few, :ranges BETWEEN 2 AND 31 AS spread, :images AS images;
SELECT reltuples FROM pg_class WHERE oid = 'account'::regclass;
SELECT null_frac, n_distinct FROM pg_stats WHERE tablename = 'account' AND attname = 'id';

-- the service's count is too low: the table is read further
\set told `curl -s -o /dev/null "$DVSIM_URL/_dvsim/faults" -d '[{"path":"RetrieveTotalRecordCount","times":2,"status":200,"body":{"EntityRecordCountCollection":{"Values":[0]}}}]'`
ANALYZE account;
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`
SELECT reltuples BETWEEN 620 AND 1200 AS more FROM pg_class WHERE oid = 'account'::regclass;
SELECT null_frac, n_distinct FROM pg_stats WHERE tablename = 'account' AND attname = 'id';
-- or it does not return the number of rows, which are then counted
\set told `curl -s -o /dev/null "$DVSIM_URL/_dvsim/faults" -d '[{"path":"RetrieveTotalRecordCount","times":2,"status":404,"code":"0x80060888","message":"Resource not found for the segment"}]'`
ANALYZE account;
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`
SELECT reltuples FROM pg_class WHERE oid = 'account'::regclass;

-- ids of elastic tables have another order: the first rows, and the service's count
CREATE FOREIGN TABLE new_reading (new_readingid uuid, partitionid text)
  SERVER analyze_crm OPTIONS (entity_set 'new_readings', table_type 'elastic');
ANALYZE new_reading;
SELECT reltuples FROM pg_class WHERE oid = 'new_reading'::regclass;
SELECT null_frac, n_distinct FROM pg_stats WHERE tablename = 'new_reading' AND attname = 'new_readingid';

-- for a virtual table, only the first rows are read
CREATE FOREIGN TABLE seen (accountid uuid)
  SERVER analyze_crm OPTIONS ("table" 'account', entity_set 'accounts', table_type 'virtual');
ANALYZE seen;
SELECT reltuples FROM pg_class WHERE oid = 'seen'::regclass;
RESET default_statistics_target;

-- no rows
CREATE FOREIGN TABLE new_meter (new_meterid uuid) SERVER analyze_crm OPTIONS (entity_set 'new_meters');
ANALYZE new_meter;
SELECT reltuples FROM pg_class WHERE oid = 'new_meter'::regclass;

-- as a partition
CREATE TABLE readings (new_readingid uuid, partitionid text) PARTITION BY LIST (partitionid);
ALTER TABLE readings ATTACH PARTITION new_reading DEFAULT;
ANALYZE readings;
SELECT inherited, n_distinct FROM pg_stats WHERE tablename = 'readings' AND attname = 'new_readingid';

-- it can be cancelled
\set told `curl -s -o /dev/null "$DVSIM_URL/_dvsim/faults" -d '[{"path":"/accounts","action":"delay","delay_ms":20000}]'`
SET statement_timeout = '300ms';
ANALYZE account;
RESET statement_timeout;
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`

-- throttles are reported
\set told `curl -s -o /dev/null "$DVSIM_URL/_dvsim/faults" -d '[{"path":"/accounts","times":2,"status":429,"code":"0x80072322","message":"slow down","retry_after":0}]'`
SELECT pg_temp.explain('ANALYZE', $$SELECT name FROM account WHERE employees > 2147483646$$);
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`

DROP TABLE readings;
DROP SERVER analyze_crm CASCADE;
