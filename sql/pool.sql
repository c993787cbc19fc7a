--
-- The views of the pool, and what each role sees.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET client_min_messages = warning;

CREATE ROLE regress_dataverse_owner;
CREATE ROLE regress_dataverse_user;
CREATE ROLE regress_dataverse_other;
CREATE ROLE regress_dataverse_monitor IN ROLE pg_read_all_stats;
CREATE SERVER pool FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', useful_limit 'off', max_parallel '20');
ALTER SERVER pool OWNER TO regress_dataverse_owner;
GRANT USAGE ON FOREIGN SERVER pool TO regress_dataverse_user;
CREATE USER MAPPING FOR CURRENT_USER SERVER pool
  OPTIONS (client_id 'app1', client_secret 'secret1', name 'first');

-- as the design has it
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'dataverse.pool'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'dataverse.pool_summary'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'dataverse.throttle_history'::regclass AND attnum > 0 ORDER BY attnum;

-- before the first request, and after it
SELECT count(*) FROM dataverse.pool WHERE server = 'pool';
SELECT count(dataverse.request('pool', 'GET', 'WhoAmI')) FROM generate_series(1, 3);
SELECT dataverse.reset_pool('pool'), dataverse.reset_stats('pool');
SELECT count(dataverse.request('pool', 'GET', 'WhoAmI')) FROM generate_series(1, 3);
SELECT dataverse.request('pool', 'POST', 'accounts', '{"name": "A", "accountnumber": "P-1"}') IS NOT NULL AS created;
SELECT name, throttled, throttled_until, current_parallelism, maximum_parallelism, last_known_good,
       last_known_good_stale, effective_limit, limited_by, in_flight
FROM dataverse.pool WHERE server = 'pool';
SELECT average_batch_ms ? 'read' AS read, average_batch_ms ? 'delete' AS delete,
       remaining_requests > 0 AS remaining_requests, remaining_time > '0' AS remaining_time,
       successes_since_throttle, last_throttle, last_increase <= now() AS last_increase,
       last_activity BETWEEN now() - interval '1 min' AND clock_timestamp() AS last_activity
FROM dataverse.pool WHERE server = 'pool';
SELECT requests, rows, bytes_sent > 500 AS bytes_sent, bytes_received > 500 AS bytes_received, failures, retries,
       throttles, summed_waits < '10s' AS summed_waits, this_session_only
FROM dataverse.pool WHERE server = 'pool';

-- rows that were read, not the capacity of a page
CREATE FOREIGN TABLE regress_pool_account (accountid uuid, name text, accountnumber text)
  SERVER pool OPTIONS ("table" 'account', entity_set 'accounts', primary_id 'accountid');
SELECT name FROM regress_pool_account WHERE accountnumber = 'P-1';
SELECT rows FROM dataverse.pool WHERE server = 'pool';
SELECT count(*) >= 0 AS one FROM (SELECT name FROM regress_pool_account LIMIT 1) AS r;
SELECT rows FROM dataverse.pool WHERE server = 'pool';
DROP FOREIGN TABLE regress_pool_account;

SELECT name, url = :'dvsim_url' AS url FROM dataverse.pool WHERE server = 'pool';

-- a throttle
\setenv FAULTS '[{"action":"status","path":"WhoAmI","status":429,"code":"0x80072326","message":"Number of concurrent requests exceeded the limit of 52.","retry_after":100}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
SET statement_timeout = '500ms';
SELECT dataverse.whoami('pool');
RESET statement_timeout;
SELECT throttled, throttled_until - now() BETWEEN '90s' AND '102s' AS throttled_until, current_parallelism, effective_limit,
       limited_by, limited_until - throttled_until < '1s' AS limited_until, in_flight, retries, throttles,
       total_throttle_events, total_backoff BETWEEN '90s' AND '103s' AS total_backoff,
       last_throttle > now() - interval '1 min' AS last_throttle
FROM dataverse.pool WHERE server = 'pool';
SELECT users, throttled_users, total_throttle_events, total_backoff BETWEEN '90s' AND '103s' AS total_backoff
FROM dataverse.pool_summary WHERE server = 'pool';
SELECT at > now() - interval '1 min' AS at, name, code, retry_after, fallback, operation, in_flight
FROM dataverse.throttle_history WHERE server = 'pool';
-- numbers for monitoring programs: flat, and never null
SELECT name, CASE WHEN name ~ 'throttled_seconds' THEN value BETWEEN 80 AND 103 ELSE value = 1 END AS expected, labels - 'database' AS labels
FROM dataverse.metrics WHERE labels ->> 'foreign_server' = 'pool' AND name ~ '^throttle' ORDER BY name COLLATE "C";
SELECT count(*) > 0 AS seen, count(*) FILTER (WHERE value IS NULL) AS nulls, count(*) - count(DISTINCT (name, labels)) AS repeated FROM dataverse.metrics;

-- visibility: the owner of the server, and roles that may see everything; not a role that may only use the server
SET ROLE regress_dataverse_owner;
SELECT count(*) FROM dataverse.pool WHERE server = 'pool';
SET ROLE regress_dataverse_user;
SELECT name, throttled FROM dataverse.pool WHERE server = 'pool';
SELECT users FROM dataverse.pool_summary WHERE server = 'pool';
SELECT name FROM dataverse.throttle_history WHERE server = 'pool';
SET ROLE regress_dataverse_other;
SELECT count(*) FROM dataverse.pool;
SELECT count(*) FROM dataverse.pool_summary;
SELECT count(*) FROM dataverse.throttle_history;
SET ROLE regress_dataverse_monitor;
SELECT name FROM dataverse.pool WHERE server = 'pool';
SELECT DISTINCT labels ->> 'application_user' AS application_user FROM dataverse.metrics WHERE labels ->> 'foreign_server' = 'pool';
RESET ROLE;

-- privilege to reset: its owner
SET ROLE regress_dataverse_user;
SELECT dataverse.reset_pool('pool');
SELECT dataverse.reset_stats('pool');
SET ROLE regress_dataverse_owner;
SELECT dataverse.reset_pool('pool');
SELECT throttled, current_parallelism, effective_limit, throttles FROM dataverse.pool WHERE server = 'pool';
SELECT dataverse.reset_stats('pool');
SELECT requests, rows, retries, throttles, failures, bytes_sent FROM dataverse.pool WHERE server = 'pool';
SELECT count(*) FROM dataverse.throttle_history WHERE server = 'pool';
RESET ROLE;

-- not to be called by users
SET ROLE regress_dataverse_other;
SELECT dataverse.dataverse_fdw_validator('{}', 0);
RESET ROLE;

-- settings of the library
SHOW dataverse_fdw.max_application_users;
SHOW dataverse_fdw.throttle_history;
-- the message depends on whether the library was preloaded
\set VERBOSITY sqlstate
SET dataverse_fdw.max_application_users = 1;
\set VERBOSITY terse
SET dataverse_fdw.wibble = 1;

SELECT count(coalesce(dataverse.request('pool', 'DELETE', 'accounts(' || (row ->> 'accountid') || ')'), '0'))
FROM dataverse.fetchxml('pool', '<fetch><entity name="account"><filter><condition attribute="accountnumber" operator="eq" value="P-1"/></filter></entity></fetch>') AS f (row);
DROP SERVER pool CASCADE;
DROP ROLE regress_dataverse_owner, regress_dataverse_user, regress_dataverse_other, regress_dataverse_monitor;
