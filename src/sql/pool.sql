-- The pool of application users.  The functions show callers what belongs to
-- them, and members of pg_read_all_stats everything.

CREATE FUNCTION dataverse_private.pool_users(
  OUT database name,
  OUT server text,
  OUT name text,
  OUT url text,
  OUT throttled boolean,
  OUT throttled_until timestamptz,
  OUT current_parallelism integer,
  OUT maximum_parallelism integer,
  OUT last_known_good integer,
  OUT last_known_good_stale boolean,
  OUT effective_limit integer,
  OUT limited_by text,
  OUT limited_until timestamptz,
  OUT throttle_ceiling bigint,
  OUT throttle_ceiling_until timestamptz,
  OUT execution_time_ceilings jsonb,
  OUT useful_limit bigint,
  OUT latency_ratio double precision,
  OUT base_ms jsonb,
  OUT in_flight integer,
  OUT average_batch_ms jsonb,
  OUT read_request_ms double precision,
  OUT read_row_ms double precision,
  OUT read_row_bytes bigint,
  OUT remaining_requests bigint,
  OUT remaining_time interval,
  OUT successes_since_throttle integer,
  OUT last_throttle timestamptz,
  OUT last_retry_after interval,
  OUT last_increase timestamptz,
  OUT last_activity timestamptz,
  OUT requests bigint,
  OUT rows jsonb,
  OUT bytes_sent bigint,
  OUT bytes_received bigint,
  OUT failures bigint,
  OUT retries jsonb,
  OUT throttles jsonb,
  OUT summed_waits interval,
  OUT throttle_events bigint,
  OUT backoff interval,
  OUT this_session_only boolean)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_pool_users';

COMMENT ON FUNCTION dataverse_private.pool_users() IS
  'state of the application users; use the view dataverse.pool';

CREATE VIEW dataverse.pool AS
  SELECT database, server, name, url, throttled, throttled_until,
         current_parallelism, maximum_parallelism, last_known_good, last_known_good_stale,
         effective_limit, limited_by, limited_until, throttle_ceiling,
         throttle_ceiling_until, execution_time_ceilings, useful_limit, latency_ratio,
         base_ms, in_flight,
         average_batch_ms, read_request_ms, read_row_ms, read_row_bytes,
         remaining_requests, remaining_time,
         successes_since_throttle, last_throttle, last_retry_after,
         last_increase, last_activity, requests, rows,
         bytes_sent, bytes_received, failures, retries, throttles,
         throttle_events AS total_throttle_events, backoff AS total_backoff,
         summed_waits, this_session_only
  FROM dataverse_private.pool_users();

COMMENT ON VIEW dataverse.pool IS
  'a row for each application user: whether it is throttled, its concurrent requests and their limit, and its traffic';

CREATE VIEW dataverse.pool_summary AS
  SELECT database,
         server,
         count(*) AS users,
         count(*) FILTER (WHERE throttled) AS throttled_users,
         sum(throttle_events)::bigint AS total_throttle_events,
         sum(backoff) AS total_backoff
  FROM dataverse_private.pool_users()
  GROUP BY database, server;

COMMENT ON VIEW dataverse.pool_summary IS
  'a row for each server: its number of application users and how often they were throttled';

CREATE FUNCTION dataverse_private.throttle_events(
  OUT at timestamptz,
  OUT database name,
  OUT server text,
  OUT name text,
  OUT code text,
  OUT retry_after interval,
  OUT fallback boolean,
  OUT operation text,
  OUT in_flight integer)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_throttle_events';

COMMENT ON FUNCTION dataverse_private.throttle_events() IS
  'the last throttle events; use the view dataverse.throttle_history';

CREATE VIEW dataverse.throttle_history AS
  SELECT at, database, server, name, code, retry_after, fallback, operation, in_flight
  FROM dataverse_private.throttle_events();

COMMENT ON VIEW dataverse.throttle_history IS
  'the last throttle events, oldest first';

CREATE FUNCTION dataverse_private.progress_rows(
  OUT pid integer,
  OUT database name,
  OUT server text,
  OUT foreign_table text,
  OUT operation text,
  OUT rows_expected bigint,
  OUT rows_taken bigint,
  OUT rows_sent bigint,
  OUT rows_acknowledged bigint,
  OUT rows_rejected bigint,
  OUT in_flight integer,
  OUT rate_now double precision,
  OUT rate_overall double precision,
  OUT waiting_for text,
  OUT started timestamptz,
  OUT eta interval)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_progress_rows';

COMMENT ON FUNCTION dataverse_private.progress_rows() IS
  'reads and writes that are under way; use the view dataverse.progress';

CREATE VIEW dataverse.progress AS
  SELECT pid, database, server, foreign_table, operation, rows_expected,
         rows_taken, rows_sent, rows_acknowledged, rows_rejected, in_flight, rate_now,
         rate_overall, waiting_for, started, eta
  FROM dataverse_private.progress_rows();

COMMENT ON VIEW dataverse.progress IS
  'a row for each read or write that is under way in any session: its progress, its speed, and the event it waits for';

CREATE FUNCTION dataverse_private.doubtful_rows(
  OUT foreign_table regclass,
  OUT operation text,
  OUT row_number bigint,
  OUT row_id uuid,
  OUT noted_at timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_doubtful_rows';

COMMENT ON FUNCTION dataverse_private.doubtful_rows() IS
  'rows that failed statements of this session sent without a conclusive answer; use the view dataverse.doubts';

CREATE VIEW dataverse.doubts AS
  SELECT foreign_table, operation, row_number, row_id, noted_at
  FROM dataverse_private.doubtful_rows();

COMMENT ON VIEW dataverse.doubts IS
  'the last 1000 rows that failed statements of this session sent without a conclusive answer and that may or may not have been written';

CREATE FUNCTION dataverse.reset_pool(server name)
RETURNS integer
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_reset_pool';

COMMENT ON FUNCTION dataverse.reset_pool(name) IS
  'resets throttles and rates of a server''s application users; reserved for the owner of the server';

CREATE FUNCTION dataverse.reset_pool(server name, name text)
RETURNS integer
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_reset_pool';

COMMENT ON FUNCTION dataverse.reset_pool(name, text) IS
  'resets throttle and rate of one application user of a server; reserved for the owner of the server';

CREATE FUNCTION dataverse.reset_stats(server name)
RETURNS integer
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_reset_stats';

COMMENT ON FUNCTION dataverse.reset_stats(name) IS
  'resets the counters of a server''s application users and clears its throttle history; reserved for the owner of the server';
