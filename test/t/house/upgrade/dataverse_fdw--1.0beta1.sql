\echo Use "CREATE EXTENSION dataverse_fdw" to load this file. \quit

-- The schemas of the extension are its members, so that DROP EXTENSION drops them.
-- Neither may exist before: code that other roles had put into it would run with the rights of the extension's users.
CREATE SCHEMA dataverse;

COMMENT ON SCHEMA dataverse IS
  'views, functions, and procedures of dataverse_fdw';

CREATE SCHEMA dataverse_private;

COMMENT ON SCHEMA dataverse_private IS
  'the state of copies and pushes, and the steps of their runs; not to be used by anything else';

-- Every name is qualified, because some (version) also exist in pg_catalog,
-- which comes first in every search path.

CREATE FUNCTION dataverse.dataverse_fdw_handler()
RETURNS fdw_handler
LANGUAGE C STRICT
AS 'MODULE_PATHNAME', 'dataverse_fdw_handler';

COMMENT ON FUNCTION dataverse.dataverse_fdw_handler() IS
  'Dataverse foreign-data wrapper handler';

CREATE FUNCTION dataverse.dataverse_fdw_validator(options text[], catalog oid)
RETURNS void
LANGUAGE C STRICT
AS 'MODULE_PATHNAME', 'dataverse_fdw_validator';

COMMENT ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) IS
  'Dataverse foreign-data wrapper options validator';

CREATE FOREIGN DATA WRAPPER dataverse_fdw
  HANDLER dataverse.dataverse_fdw_handler
  VALIDATOR dataverse.dataverse_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER dataverse_fdw IS
  'Microsoft Dataverse foreign-data wrapper';

-- Checks of arguments and sessions, shared by several procedures.

CREATE FUNCTION dataverse_private.check_choice(what text, value text, VARIADIC valid text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n CONSTANT integer := cardinality(valid);
BEGIN
  IF value IS NULL OR value <> ALL (valid) THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for %s: "%s"', what, coalesce(value, 'null')),
      hint = format('Valid values are "%s"%s and "%s".', array_to_string(valid[:n - 1], '", "'), CASE WHEN n > 2 THEN ',' ELSE '' END, valid[n]);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_choice(text, text, text[]) IS
  'raises an error for a value that is not one of the valid ones';

CREATE FUNCTION dataverse_private.check_boolean(argument text, value boolean)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF value IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'null_value_not_allowed', message = format('argument "%s" is null', argument), hint = 'Valid values are true and false.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_boolean(text, boolean) IS
  'raises an error for null as a boolean argument';

-- In a replica session, the rules of dataverse.rejects do not apply, so entries of
-- rows that were accepted would stay.
CREATE FUNCTION dataverse_private.check_session(what text)
RETURNS void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('dataverse_fdw.dry_run', true)::boolean THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('%s while "dataverse_fdw.dry_run" is on', what),
      hint = 'RESET dataverse_fdw.dry_run;';
  END IF;
  IF current_setting('session_replication_role') = 'replica' THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('%s while "session_replication_role" is "replica"', what),
      hint = 'SET session_replication_role = origin;';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_session(text) IS
  'raises an error in sessions whose settings prevent rows from being sent and noted; "what" begins the message';

-- Statements find tables by their names.  Until the transaction ends, the name has to
-- refer to the same table, and no code may run with more rights than its owner has
-- (src/sync/hold.c).  Functions that run such statements, or that read tables of other
-- roles, have the same setting (src/fdw/guard.c).
CREATE FUNCTION dataverse_private.hold(name text, relation oid)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
SET dataverse_fdw.guard = superusers
AS 'MODULE_PATHNAME', 'dataverse_hold';

COMMENT ON FUNCTION dataverse_private.hold(text, oid) IS
  'locks the name and identity of a table, and refuses code of other roles that would gain rights when the table is written';

-- The value of dataverse_fdw.run_settings (fdw/setting.c) for the next statement of the calling
-- function.  An empty value stands for the option of the table, whatever the session has set.
CREATE FUNCTION dataverse_private.run_settings(foreign_table oid, settings jsonb)
RETURNS text
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('%s %s %s', $1, pg_trigger_depth(), coalesce((SELECT array_agg(s.key || '=' || s.value) FROM jsonb_each_text($2) AS s), '{}'))
$$;

COMMENT ON FUNCTION dataverse_private.run_settings(oid, jsonb) IS
  'how a statement writes a foreign table; for dataverse.sync() and retry_rejects()';

CREATE FUNCTION dataverse.version(
  OUT extension text,
  OUT postgresql text,
  OUT libcurl text,
  OUT tls text,
  OUT json_c text,
  OUT libdeflate text)
RETURNS record
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_version';

COMMENT ON FUNCTION dataverse.version() IS
  'versions of the extension, the server, and the libraries in use';

CREATE FUNCTION dataverse.options(
  OUT name text,
  OUT place text,
  OUT type text,
  OUT default_value text,
  OUT accepts text,
  OUT numbered boolean,
  OUT secret boolean,
  OUT superuser_only boolean)
RETURNS SETOF record
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 80
AS 'MODULE_PATHNAME', 'dataverse_options';

COMMENT ON FUNCTION dataverse.options() IS
  'options of servers, user mappings, foreign tables, and columns: where they can be set, valid values, and defaults';

--
-- Requests.  These functions use the caller's user mapping and require the
-- USAGE privilege on the server.
--

CREATE FUNCTION dataverse.whoami(
  server name,
  OUT application_user text,
  OUT user_id uuid,
  OUT business_unit_id uuid,
  OUT organization_id uuid)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_whoami';

COMMENT ON FUNCTION dataverse.whoami(name) IS
  'returns the user in Dataverse as which the next request is sent';

CREATE FUNCTION dataverse.test_connection(
  server name,
  OUT application_user text,
  OUT ok boolean,
  OUT user_id uuid,
  OUT token_lifetime interval,
  OUT round_trip interval,
  OUT dop_hint integer,
  OUT clock_skew interval,
  OUT error text,
  OUT hint text)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 4
AS 'MODULE_PATHNAME', 'dataverse_test_connection';

COMMENT ON FUNCTION dataverse.test_connection(name) IS
  'tests each application user of the caller''s user mapping: gets a token, sends a request, and reports errors';

CREATE FUNCTION dataverse.request(
  server name,
  method text,
  path text,
  body jsonb DEFAULT NULL)
RETURNS jsonb
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_request';

COMMENT ON FUNCTION dataverse.request(name, text, text, jsonb) IS
  'sends a request to a path below the service root of the Web API and returns the answer';

CREATE FUNCTION dataverse.fetchxml(server name, xml text)
RETURNS SETOF jsonb
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_fetchxml';

COMMENT ON FUNCTION dataverse.fetchxml(name, text) IS
  'returns all rows of a FetchXML query';

-- Runs with the caller's privileges on the table, like any other query.  ONLY
-- because foreign tables can have local children, of which Dataverse knows
-- nothing.
CREATE FUNCTION dataverse.row_count(foreign_table regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  rows bigint;
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_foreign_table AS t
      JOIN pg_foreign_server AS s ON s.oid = t.ftserver
      JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
    WHERE t.ftrelid = foreign_table
      AND w.fdwhandler = 'dataverse.dataverse_fdw_handler()'::regprocedure)
  THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type',
      message = format('"%s" is not a foreign table of dataverse_fdw',
                       coalesce((SELECT c.relname::text FROM pg_class AS c WHERE c.oid = foreign_table), foreign_table::text));
  END IF;
  EXECUTE format('SELECT count(*) FROM ONLY %s', foreign_table) INTO rows;
  RETURN rows;
END
$$;

COMMENT ON FUNCTION dataverse.row_count(regclass) IS
  'returns the exact number of rows of a table in Dataverse';

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

-- For programs that make a metric of each column: numbers without nulls, and
-- labels whose names differ from those that such programs set themselves.
CREATE VIEW dataverse.pool_metrics AS
  SELECT u.database, u.server AS foreign_server, u.name AS application_user,
         u.throttled::integer AS throttled,
         greatest(coalesce(extract(epoch FROM u.throttled_until - now()), 0), 0)::double precision AS throttled_seconds_left,
         u.in_flight, u.effective_limit, coalesce(u.maximum_parallelism, 0) AS maximum_parallelism,
         coalesce(u.remaining_requests, -1) AS remaining_requests,
         coalesce(extract(epoch FROM u.remaining_time), -1)::double precision AS remaining_seconds,
         u.requests AS requests_total,
         (SELECT coalesce(sum(e.value::bigint), 0)::bigint FROM jsonb_each_text(u.rows) AS e) AS rows_total,
         u.bytes_sent AS bytes_sent_total, u.bytes_received AS bytes_received_total, u.failures AS failures_total,
         (SELECT coalesce(sum(e.value::bigint), 0)::bigint FROM jsonb_each_text(u.retries) AS e) AS retries_total,
         u.throttle_events AS throttle_events_total, extract(epoch FROM u.backoff)::double precision AS backoff_seconds_total,
         extract(epoch FROM u.summed_waits)::double precision AS waits_seconds_total
  FROM dataverse_private.pool_users() AS u;

COMMENT ON VIEW dataverse.pool_metrics IS
  'numbers of dataverse.pool for monitoring programs, a row for each application user; names of totals end in _total, and -1 means not known';

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

-- Refused rows.  The extension files them.  A row is filed for the current user,
-- who may see it, retry it, and delete it.
--
-- pg_dump includes the rows.  It can do so for any role that may read the whole
-- table, which is why the table has no row security, and the views have the
-- conditions.  In a dump, roles and tables are identified by names, which are
-- looked up when the rows are restored, because OIDs of another database are
-- meaningless.

-- Generated columns are computed with the search path of the role that changes a
-- row, so the next two functions do not depend on it.
CREATE FUNCTION dataverse_private.role_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) $1 $$;

COMMENT ON FUNCTION dataverse_private.role_oid(text) IS
  'the role that has this name when a row is filed or restored; for dataverse_private.rejected_rows';

CREATE FUNCTION dataverse_private.table_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT pg_catalog.to_regclass($1)::pg_catalog.oid $$;

COMMENT ON FUNCTION dataverse_private.table_oid(text) IS
  'the table that has this name when a row is filed or restored; for dataverse_private.rejected_rows';

-- Returns the role with this OID, by any name; entries of a dropped role belong
-- to superusers (10 is the bootstrap superuser).
CREATE FUNCTION dataverse_private.role_or_superuser(role oid)
RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce((SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.oid = $1), 10) $$;

COMMENT ON FUNCTION dataverse_private.role_or_superuser(oid) IS
  'the role that has this OID, or the first superuser if there is none';

CREATE TABLE dataverse_private.rejected_rows (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  pid integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
  role text NOT NULL,
  server text NOT NULL,
  foreign_table text NOT NULL,
  operation text NOT NULL,
  row_number bigint,
  row_id uuid,
  "row" jsonb,
  code text,
  sqlstate text NOT NULL,
  message text NOT NULL,
  attempts integer NOT NULL,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  table_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED
);

CREATE INDEX rejected_rows_row_id_idx ON dataverse_private.rejected_rows (row_id);

COMMENT ON TABLE dataverse_private.rejected_rows IS
  'the rows behind the view dataverse.rejects, of all roles';

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.rejected_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.rejected_rows_id_seq', '');

-- No role can file a row for another one, not even a member of
-- pg_write_all_data.
CREATE FUNCTION dataverse_private.refuse_forgery()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c WHERE c.oid = TG_RELID) THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = 'rows of dataverse_private.rejected_rows are filed by the extension only';
  END IF;
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.refuse_forgery() IS
  'lets only the owner of dataverse_private.rejected_rows add rows';

REVOKE ALL ON FUNCTION dataverse_private.refuse_forgery() FROM PUBLIC;

CREATE TRIGGER refuse_forgery BEFORE INSERT ON dataverse_private.rejected_rows
  FOR EACH STATEMENT EXECUTE FUNCTION dataverse_private.refuse_forgery();

-- A row can be corrected by the role for which it was filed, which will write it;
-- not by members of that role, which could otherwise make it write values that it
-- has never seen.
--
-- The OIDs are generated again from the names, so these must be the current names
-- of role and table.  A name that another object has taken is rejected.
-- (Generated columns are not known yet.)
CREATE FUNCTION dataverse_private.refuse_change()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c WHERE c.oid = TG_RELID)
     OR (OLD.role_oid = (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = CURRENT_USER)
         AND to_jsonb(NEW) - '{row,role_oid,table_oid}'::text[] = to_jsonb(OLD) - '{row,role_oid,table_oid}'::text[]) THEN
    IF NEW.role = OLD.role THEN
      NEW.role := coalesce((SELECT r.rolname FROM pg_roles AS r WHERE r.oid = OLD.role_oid),
                           CASE WHEN dataverse_private.role_oid(OLD.role) <> OLD.role_oid THEN pg_get_userbyid(OLD.role_oid) END, OLD.role);
    END IF;
    IF NEW.foreign_table = OLD.foreign_table THEN
      NEW.foreign_table := coalesce((SELECT c.oid::regclass::text FROM pg_class AS c WHERE c.oid = OLD.table_oid), OLD.foreign_table);
    END IF;
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    errcode = 'insufficient_privilege',
    message = 'rows of dataverse_private.rejected_rows are changed by the extension only';
END
$$;

COMMENT ON FUNCTION dataverse_private.refuse_change() IS
  'lets only the owner of dataverse_private.rejected_rows change rows, and the role for which a row was filed correct it';

REVOKE ALL ON FUNCTION dataverse_private.refuse_change() FROM PUBLIC;

CREATE TRIGGER refuse_change BEFORE UPDATE ON dataverse_private.rejected_rows
  FOR EACH ROW EXECUTE FUNCTION dataverse_private.refuse_change();

-- A row belongs to the role for which it was filed, whatever its name is now.
CREATE VIEW dataverse_private.visible_rejects WITH (security_barrier) AS
  SELECT x.id, x.at, x.pid, coalesce((SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.oid = x.role_oid), x.role) AS role, x.server,
         x.foreign_table, x.operation, x.row_number, x.row_id, x."row", x.code, x.sqlstate, x.message, x.attempts
  FROM dataverse_private.rejected_rows AS x
  WHERE pg_catalog.pg_has_role(dataverse_private.role_or_superuser(x.role_oid), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse_private.visible_rejects IS
  'the rows of dataverse_private.rejected_rows that the current user may see; use the view dataverse.rejects';

-- A role that may delete from a view may lock it, and with it all tables and
-- views in its definition, against all others.  No such view refers to the table,
-- because then any role could stop all others from filing rows: this function is
-- in between, which LOCK TABLE does not follow.
CREATE FUNCTION dataverse_private.read_rejects()
RETURNS SETOF dataverse_private.visible_rejects
LANGUAGE sql STABLE ROWS 1000
AS $$ SELECT * FROM dataverse_private.visible_rejects $$;

COMMENT ON FUNCTION dataverse_private.read_rejects() IS
  'the rows of the view dataverse.rejects';

CREATE VIEW dataverse.rejects AS
  SELECT id, at, pid, role, server, foreign_table, operation, row_number, row_id, "row", code, sqlstate,
         message, attempts
  FROM dataverse_private.read_rejects();

COMMENT ON VIEW dataverse.rejects IS
  'rows that Dataverse, or the table of a copy, refused under on_error = continue, and the reasons';

-- Roles that may only read all rows may not delete them.
CREATE RULE delete_own AS ON DELETE TO dataverse.rejects DO INSTEAD
  DELETE FROM dataverse_private.rejected_rows AS t
  WHERE t.id = OLD.id AND pg_catalog.pg_has_role(dataverse_private.role_or_superuser(t.role_oid), 'USAGE')
  RETURNING t.id, t.at, t.pid, OLD.role, t.server, t.foreign_table, t.operation, t.row_number, t.row_id, t."row", t.code,
            t.sqlstate, t.message, t.attempts;

-- Rows are corrected through this view.  The privilege to update a column does not
-- suffice to lock the view.
CREATE VIEW dataverse_private.correctable_rejects WITH (security_barrier) AS
  SELECT id, "row", table_oid
  FROM dataverse_private.rejected_rows
  WHERE role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER);

COMMENT ON VIEW dataverse_private.correctable_rejects IS
  'the rows that were filed for the current user, to be corrected; use the view dataverse.rejects';

-- Only these rows are retried.  Members of a role see and delete its rows, but
-- they have not written them.  Rows that a local table has refused are retried
-- by dataverse.pull().
CREATE VIEW dataverse_private.own_rejects WITH (security_barrier) AS
  SELECT id, at, pid, table_oid, operation, row_id, "row", attempts
  FROM dataverse_private.rejected_rows
  WHERE role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER) AND operation <> 'pull';

COMMENT ON VIEW dataverse_private.own_rejects IS
  'the rows that were filed for the current user; for dataverse.retry_rejects()';

-- The privilege to update a column, which locking rows requires as well, does not
-- suffice to lock the view.  No row is updated; retried rows are deleted.
CREATE RULE delete_retried AS ON UPDATE TO dataverse_private.own_rejects DO INSTEAD
  DELETE FROM dataverse_private.rejected_rows AS t
  WHERE t.id = OLD.id AND t.role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER);

-- "is_key": its value identifies the row.  "reason": why it cannot be written or
-- updated.
CREATE FUNCTION dataverse_private.writable_columns(foreign_table regclass)
RETURNS TABLE (name text, on_insert boolean, on_update boolean, nullable boolean, partner text, is_key boolean, reason text)
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_writable_columns';

COMMENT ON FUNCTION dataverse_private.writable_columns(regclass) IS
  'which columns of a foreign table can be written, and which pairs of columns are written together; for dataverse.sync() and dataverse.rejects';

-- Columns of types that do not come with PostgreSQL are left to retry_rejects(), which
-- checks whose code it runs.
CREATE FUNCTION dataverse_private.correct_check_type(foreign_table regclass, name text, value jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  type text := (
    SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a
    WHERE a.attrelid = foreign_table AND a.attname = name AND a.atttypid < 16384);
BEGIN
  IF type IS NOT NULL THEN
    EXECUTE format('SELECT 1 FROM jsonb_to_record($1) AS r (%I %s)', name, type) USING jsonb_build_object(name, value);
  END IF;
EXCEPTION
  WHEN data_exception THEN
    RAISE EXCEPTION USING
      errcode = SQLSTATE,
      message = format('invalid value for column "%s" of foreign table %s', name, foreign_table),
      detail = format('The column is %s: %s.', type, SQLERRM);
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_check_type(regclass, text, jsonb) IS
  'refuses a value that a column cannot have; for dataverse.rejects';

-- Returns the corrections that retry_rejects() could not carry out.  Unchanged
-- values are known to be sendable.
CREATE FUNCTION dataverse_private.correct_check(entry dataverse.rejects, "row" jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  foreign_table CONSTANT regclass := (
    SELECT c.oid FROM dataverse_private.own_rejects AS o JOIN pg_class AS c ON c.oid = o.table_oid WHERE o.id = entry.id AND c.relkind = 'f');
  changed text[];
  wrong record;
BEGIN
  IF entry."row" IS NULL OR entry.operation IN ('delete', 'pull') THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('row %s of dataverse.rejects cannot be corrected', entry.id),
      detail = CASE
        WHEN entry.operation = 'pull' THEN 'It is a row of Dataverse that a local table has refused.'
        WHEN entry."row" IS NULL THEN 'Its values were not filed.'
        ELSE 'It was to be deleted, so none of its values are written.' END,
      hint = CASE entry.operation
        WHEN 'pull' THEN 'Change the row in Dataverse, or the local table that refuses it.  The next dataverse.pull() tries it again.'
        ELSE 'Delete it from dataverse.rejects, and make the intended change to the foreign table.' END;
  END IF;
  IF coalesce(jsonb_typeof("row"), 'null') <> 'object' OR "row" = '{}' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = 'invalid value for column "row" of dataverse.rejects',
      detail = 'It must be a JSON object whose members have the names of columns of the foreign table.';
  END IF;
  IF foreign_table IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_table',
      message = format('foreign table %s no longer exists', entry.foreign_table),
      detail = format('Row %s of dataverse.rejects cannot be written again.', entry.id);
  END IF;
  -- a missing member counts as well, if it is a key
  changed := ARRAY(SELECT k FROM jsonb_object_keys(entry."row" || "row") AS k WHERE "row" -> k IS DISTINCT FROM entry."row" -> k ORDER BY k);

  SELECT k AS name INTO wrong FROM unnest(changed) AS k
  WHERE "row" ? k AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = k
                                    AND a.attnum > 0 AND NOT a.attisdropped)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = format('column "%s" of foreign table %s does not exist', wrong.name, foreign_table);
  END IF;

  SELECT w.name, w.is_key AND w.on_insert AS is_key, w.on_update AND a.attgenerated = '' AS on_update,
         CASE WHEN a.attgenerated <> '' THEN 'PostgreSQL computes it.' ELSE w.reason END AS reason
  INTO wrong
  FROM dataverse_private.writable_columns(foreign_table) AS w JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = w.name
  WHERE w.name = ANY (changed)
    AND CASE
      WHEN w.is_key THEN entry.operation = 'update' OR entry."row" ->> w.name = entry.row_id::text
      WHEN a.attgenerated <> '' THEN "row" ? w.name
      WHEN entry.operation = 'update' THEN "row" ? w.name AND NOT w.on_update
      ELSE "row" ? w.name AND NOT w.on_insert END
  ORDER BY w.name LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('column "%s" of foreign table %s cannot be %s', wrong.name, foreign_table,
                       CASE WHEN wrong.is_key THEN 'corrected' ELSE 'written' END),
      detail = wrong.reason,
      hint = CASE
        WHEN wrong.is_key THEN format('Write the other row to the foreign table, and delete row %s from dataverse.rejects.', entry.id)
        WHEN wrong.on_update THEN 'Omit it, and set it with UPDATE once the row exists.'
        ELSE 'Omit it.' END;
  END IF;

  -- the name of a lookup's table has no meaning without the id
  SELECT w.name, w.partner INTO wrong
  FROM dataverse_private.writable_columns(foreign_table) AS w JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = w.name
  WHERE "row" ? w.name AND NOT "row" ? w.partner AND a.atttypid <> 'uuid'::regtype
  ORDER BY w.name LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('column "%s" of foreign table %s cannot be written without "%s"', wrong.name, foreign_table, wrong.partner),
      detail = format('It names the table that "%s" refers to.', wrong.partner),
      hint = 'Specify both columns, or neither.';
  END IF;
  IF entry.operation = 'update' AND NOT EXISTS (
    SELECT FROM dataverse_private.writable_columns(foreign_table) AS w WHERE "row" ? w.name AND NOT w.is_key)
  THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = 'invalid value for column "row" of dataverse.rejects',
      detail = 'It has no column to update.',
      hint = format('To discard it, delete row %s from dataverse.rejects.', entry.id);
  END IF;
  PERFORM dataverse_private.correct_check_type(foreign_table, k, "row" -> k) FROM unnest(changed) AS k WHERE "row" ? k;
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_check(dataverse.rejects, jsonb) IS
  'refuses corrections that dataverse.retry_rejects() could not write; for dataverse.rejects';

CREATE FUNCTION dataverse_private.correct_reject()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF to_jsonb(NEW) - 'row' <> to_jsonb(OLD) - 'row' THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = 'only column "row" of dataverse.rejects can be changed';
  END IF;
  IF NOT EXISTS (SELECT FROM dataverse_private.correctable_rejects AS c WHERE c.id = OLD.id) THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = format('permission denied to correct a row that was filed for role "%s"', OLD.role),
      detail = format('Row %s of dataverse.rejects will be written with the rights of that role, which alone can correct it.', OLD.id),
      hint = 'Use SET ROLE, if you are a member of that role.';
  END IF;
  PERFORM dataverse_private.correct_check(OLD, NEW."row");
  UPDATE dataverse_private.correctable_rejects AS c SET "row" = NEW."row" WHERE c.id = OLD.id;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_reject() IS
  'corrects a row of the view dataverse.rejects';

REVOKE ALL ON FUNCTION dataverse_private.correct_reject() FROM PUBLIC;

CREATE TRIGGER correct_reject INSTEAD OF UPDATE ON dataverse.rejects
  FOR EACH ROW EXECUTE FUNCTION dataverse_private.correct_reject();

CREATE FUNCTION dataverse_private.retrying(ids bigint[])
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_retrying';

COMMENT ON FUNCTION dataverse_private.retrying(bigint[]) IS
  'which of the caller''s rejected rows the next statement tries again; for dataverse.retry_rejects()';

-- Runs one statement for each combination of table, operation, and set of columns.
-- The entry of a row that is refused again stays, with the new reason and one more
-- attempt; the others are deleted.  The caller has not named the tables, so tables
-- that may not be written, or would run code of other roles, are skipped.
CREATE FUNCTION dataverse.retry_rejects(
  foreign_table regclass DEFAULT NULL,
  since timestamptz DEFAULT NULL,
  OUT retried bigint,
  OUT succeeded bigint,
  OUT failed bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = everybody
SET dataverse_fdw.run_settings = ''
AS $$
#variable_conflict use_column
DECLARE
  part record;
  keys text[];
  last_id bigint;
  refused bigint[];
  message text;
  detail text;
BEGIN
  retried := 0;
  failed := 0;
  PERFORM dataverse_private.check_session('rejected rows cannot be retried');
  FOR part IN
    WITH mine AS MATERIALIZED (
      SELECT r.id, r.table_oid, r.operation, r.row, r.attempts
      FROM dataverse_private.own_rejects AS r
      WHERE (r.table_oid = retry_rejects.foreign_table OR retry_rejects.foreign_table IS NULL)
        AND (r.at >= since OR since IS NULL)
        AND r.row <> '{}'
      ORDER BY r.id
      FOR UPDATE OF r),
    tables AS MATERIALIZED (
      SELECT t.table_oid, format('%I.%I', n.nspname, c.relname) AS name
      FROM (SELECT DISTINCT m.table_oid FROM mine AS m) AS t JOIN pg_class AS c ON c.oid = t.table_oid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE dataverse_private.pull_is_foreign(t.table_oid) AND has_table_privilege(t.table_oid, 'INSERT, UPDATE, DELETE')
        AND NOT pg_is_other_temp_schema(n.oid))
    SELECT m.table_oid::regclass AS foreign_table, t.name, m.operation, c.names,
           array_agg(m.id ORDER BY m.id) AS ids, array_agg(m.row ORDER BY m.id) AS rows,
           array_agg(m.attempts ORDER BY m.id) AS attempts,
           (SELECT string_agg(quote_ident(c), ', ' ORDER BY i)
            FROM unnest(c.names) WITH ORDINALITY AS u (c, i)) AS columns,
           (SELECT string_agg('r.' || quote_ident(c), ', ' ORDER BY i)
            FROM unnest(c.names) WITH ORDINALITY AS u (c, i)) AS inputs
    FROM mine AS m JOIN tables AS t USING (table_oid), LATERAL (
      SELECT array_agg(a.attname ORDER BY a.attnum) AS names
      FROM pg_attribute AS a
      WHERE a.attrelid = m.table_oid AND a.attnum > 0 AND NOT a.attisdropped
        AND m.row ? a.attname) AS c
    WHERE c.names IS NOT NULL
    GROUP BY m.table_oid, t.name, m.operation, c.names
    ORDER BY min(m.id)
  LOOP
    SELECT coalesce(max(id), 0) INTO last_id FROM dataverse_private.own_rejects;
    PERFORM set_config('dataverse_fdw.run_settings', dataverse_private.run_settings(part.foreign_table, jsonb_strip_nulls(jsonb_build_object(
      'on_error', 'continue', 'insert_mode', CASE part.operation WHEN 'upsert' THEN 'upsert' END))), true);
    BEGIN
      PERFORM dataverse_private.hold(part.name, part.foreign_table);
      PERFORM dataverse_private.retrying(part.ids);
      CASE part.operation
        WHEN 'insert', 'upsert' THEN
          EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %3$s'
                         ' FROM unnest($1) WITH ORDINALITY AS u (value, i),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r ORDER BY u.i',
                         part.name, part.columns, part.inputs)
            USING part.rows;
        WHEN 'delete' THEN
          EXECUTE format('DELETE FROM ONLY %1$s AS t USING unnest($1) AS u (value),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE (%2$s) = (%3$s)',
                         part.name,
                         (SELECT string_agg('t.' || quote_ident(c), ', ' ORDER BY i)
                          FROM unnest(part.names) WITH ORDINALITY AS u (c, i)),
                         part.inputs)
            USING part.rows;
        ELSE
          keys := ARRAY(SELECT w.name FROM dataverse_private.writable_columns(part.foreign_table) AS w
                        WHERE w.is_key AND w.name = ANY (part.names));
          CONTINUE WHEN cardinality(keys) IN (0, cardinality(part.names));
          EXECUTE format('UPDATE ONLY %1$s AS t SET %2$s FROM unnest($1) AS u (value),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE %3$s',
                         part.name,
                         (SELECT string_agg(format('%1$I = r.%1$I', c), ', ') FROM unnest(part.names) AS c
                          WHERE c <> ALL (keys)),
                         (SELECT string_agg(format('t.%1$I = r.%1$I', c), ' AND ') FROM unnest(keys) AS c))
            USING part.rows;
      END CASE;
    EXCEPTION
      WHEN insufficient_privilege THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        RAISE WARNING USING
          errcode = 'insufficient_privilege',
          message = format('rejected rows of foreign table %s are not retried: %s', part.foreign_table, message),
          detail = detail, hint = 'To write them nevertheless, use INSERT with jsonb_populate_record().';
        CONTINUE;
    END;
    SELECT array_agg(u.id) FILTER (WHERE o.attempts > u.attempts),
           retried + count(*), failed + count(*) FILTER (WHERE o.attempts > u.attempts)
    INTO refused, retried, failed
    FROM unnest(part.ids, part.attempts) AS u (id, attempts) JOIN dataverse_private.own_rejects AS o USING (id);
    -- other rows that were refused meanwhile
    SELECT failed + count(*) INTO failed FROM dataverse_private.own_rejects WHERE id > last_id AND pid = pg_backend_pid();
    -- deletes them (rule delete_retried)
    UPDATE dataverse_private.own_rejects SET attempts = attempts
    WHERE id = ANY (part.ids) AND (refused IS NULL OR id <> ALL (refused));
  END LOOP;
  PERFORM dataverse_private.retrying(NULL);
  succeeded := retried - failed;
END
$$;

COMMENT ON FUNCTION dataverse.retry_rejects(regclass, timestamptz) IS
  'tries to write the caller''s rejected rows again and deletes those that succeed from dataverse.rejects';

--
-- Import.
--

-- Ignores case and accents, much as Dataverse does.  (Dataverse also ignores
-- trailing blanks and all characters that its collation does not know.  This
-- collation does not, so PostgreSQL rechecks all rows.)  It is not created if the
-- server is built without ICU or ICU does not support the encoding of the
-- database.
DO $$
BEGIN
  CREATE COLLATION dataverse.ci_ai
    (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
  COMMENT ON COLLATION dataverse.ci_ai IS
    'ignores case and accents, as Dataverse does';
EXCEPTION
  WHEN feature_not_supported OR invalid_object_definition THEN
    NULL;
END
$$;

CREATE FUNCTION dataverse.choices(foreign_table regclass, "column" name, OUT value integer, OUT label text)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_choices';

COMMENT ON FUNCTION dataverse.choices(regclass, name) IS
  'the values of a choice in Dataverse, and their labels';

CREATE FUNCTION dataverse.import_diff(
  schema name,
  new_tables boolean DEFAULT NULL,
  OUT foreign_table text,
  OUT column_name text,
  OUT drift text,
  OUT here text,
  OUT there text,
  OUT statement text)
RETURNS SETOF record
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_import_diff';

COMMENT ON FUNCTION dataverse.import_diff(name, boolean) IS
  'compares the foreign tables of a schema with those that would be imported now, and shows statements that apply the changes';

-- Staying in step.
--
-- dataverse.pull() is a procedure that commits each page of rows together with the
-- place where reading continues.  This state is kept in tables of this schema,
-- which pg_dump includes.  They belong to the extension: the functions that write
-- them run as its owner, search only pg_catalog, contain no dynamic SQL, and
-- change only the state of copies whose tables the caller owns.  Everything else
-- runs as the caller.

CREATE FUNCTION dataverse.changes(foreign_table regclass, token text DEFAULT NULL)
RETURNS TABLE (id uuid, deleted boolean, "row" jsonb, next_token text)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  info record;
  page record;
  link text;
BEGIN
  PERFORM dataverse_private.pull_source(changes.foreign_table);
  SELECT * INTO STRICT info FROM dataverse_private.pull_info(changes.foreign_table);
  LOOP
    SELECT * INTO STRICT page
    FROM dataverse_private.read_page(changes.foreign_table, NULL, link, changes.token, NULL, changes.token IS NULL);
    RETURN QUERY EXECUTE format(
      'SELECT s.%1$I, false, to_jsonb(s.*), NULL::text FROM dataverse_private.page_rows(NULL::%2$s) AS s', info.id_column, foreign_table);
    RETURN QUERY SELECT d, true, NULL::jsonb, NULL::text FROM dataverse_private.page_deletions() AS d;
    link := page.link;
    EXIT WHEN link IS NULL;
  END LOOP;
  IF page.token IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_unable_to_create_reply',
      message = format('Dataverse returned no token of change tracking for foreign table "%s"', foreign_table),
      hint = 'Turn on change tracking in the properties of the table in Dataverse.';
  END IF;
  PERFORM dataverse_private.end_pages();
  RETURN QUERY SELECT NULL::uuid, NULL::boolean, NULL::jsonb, page.token;
END
$$;

COMMENT ON FUNCTION dataverse.changes(regclass, text) IS
  'all rows of a table, or the changes since a token; the last row contains only the token to continue with';

CREATE FUNCTION dataverse_private.read_page(
  foreign_table regclass,
  columns text[],
  link text,
  token text,
  after bigint,
  track boolean,
  expected double precision DEFAULT NULL,
  stored boolean DEFAULT false,
  OUT link text,
  OUT token text,
  OUT upserts bigint,
  OUT deletions bigint,
  OUT metadata text,
  OUT refused boolean)
RETURNS record
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_read_page';

COMMENT ON FUNCTION dataverse_private.read_page(regclass, text[], text, text, bigint, boolean, double precision, boolean) IS
  'reads a page of rows or changes and keeps it; for dataverse.pull()';

CREATE FUNCTION dataverse_private.first_token(foreign_table regclass, OUT token text, OUT "rows" double precision)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_first_token';

COMMENT ON FUNCTION dataverse_private.first_token(regclass) IS
  'a token of change tracking that is older than everything read later, null if the service gives none, and how many rows it expects; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_rows(row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_rows';

COMMENT ON FUNCTION dataverse_private.page_rows(anyelement) IS
  'the rows of the last page read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_left_out(row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_page_left_out';

COMMENT ON FUNCTION dataverse_private.page_left_out(anyelement) IS
  'the rows of the page that must not be merged; for dataverse.sync()';

CREATE FUNCTION dataverse_private.page_deletions()
RETURNS SETOF uuid
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_deletions';

COMMENT ON FUNCTION dataverse_private.page_deletions() IS
  'the ids of deleted rows in the last page read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_repeated()
RETURNS SETOF uuid
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'dataverse_page_repeated';

COMMENT ON FUNCTION dataverse_private.page_repeated() IS
  'the ids that occur more than once in the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_start(foreign_table regclass)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_start';

COMMENT ON FUNCTION dataverse_private.page_start(regclass) IS
  'begins an empty page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_add(id uuid, "row" anyelement)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_add';

COMMENT ON FUNCTION dataverse_private.page_add(uuid, anyelement) IS
  'puts a row into the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_leave_out(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_leave_out';

COMMENT ON FUNCTION dataverse_private.page_leave_out(uuid[]) IS
  'keeps rows of the page from being merged; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_keep(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_keep';

COMMENT ON FUNCTION dataverse_private.page_keep(uuid[]) IS
  'forgets all entries of the page but those with these ids; for dataverse.sync()';

CREATE FUNCTION dataverse_private.page_delete(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_delete';

COMMENT ON FUNCTION dataverse_private.page_delete(uuid[]) IS
  'puts ids of deleted rows into the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_window(first bigint, n bigint, OUT upserts bigint, OUT deletions bigint)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_window';

COMMENT ON FUNCTION dataverse_private.page_window(bigint, bigint) IS
  'restricts the results of the page to some of its entries; for dataverse.pull()';

CREATE FUNCTION dataverse_private.end_pages()
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_end_pages';

COMMENT ON FUNCTION dataverse_private.end_pages() IS
  'ends the reading begun by dataverse_private.read_page(); for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_info(
  foreign_table regclass,
  OUT server text,
  OUT logical_name text,
  OUT entity_set text,
  OUT id_column text,
  OUT version_column text,
  OUT elastic boolean,
  OUT column_names text[],
  OUT attribute_names text[])
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_pull_info';

COMMENT ON FUNCTION dataverse_private.pull_info(regclass) IS
  'properties of a foreign table''s table in Dataverse; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_count_changes(
  foreign_table regclass, token text, after bigint, milliseconds integer)
RETURNS bigint
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_count_changes';

COMMENT ON FUNCTION dataverse_private.copy_count_changes(regclass, text, bigint, integer) IS
  'how many rows have changed since a token or a version; null if the service does not answer in time; for dataverse.sync_state';

-- The types of values that the functions of a run hand on to each other.

-- What a run of dataverse.sync() needs besides.
CREATE TYPE dataverse_private.sync_plan AS (
  -- the arguments of the call
  conflict text,
  column_conflicts jsonb,
  strict boolean,
  -- the caller's time zone, for the triggers of the copy
  timezone text,

  -- columns that the foreign table admits in an INSERT, in an UPDATE, and those that have to have a value
  on_insert text[],
  on_update text[],
  not_null text[],
  -- columns that Dataverse ignores when a row is created, or accepts only then
  update_only text[],
  create_only text[],
  -- those of the state and the status of rows, and those that may refer to other rows
  states text[],
  referring text[],
  -- for a lookup, the column with the name of its table, and the other way round
  partners jsonb,

  -- statements on the copy: the rows as jsonb; which rows are sent, and how (sync_stage); columns of rows that were
  -- read back (a format, with the assignments to come)
  images text,
  stage text,
  land_part text,
  -- statements that raise an error if values do not fit the columns of the foreign table: of rows as jsonb, or null if
  -- all do; of values last seen
  fits text,
  seen_fits text,
  -- statements on the page: how its rows differ from pending ones; which ids it lacks; which rows that were just
  -- written it has, and which it says are deleted
  judge text,
  absent text,
  back text
);

COMMENT ON TYPE dataverse_private.sync_plan IS
  'the statements of dataverse.sync() for one table, and what it knows about columns';

-- What the steps of a run need to know, and the statements that they execute.  A plan outlives transactions (see "What is
-- easily got wrong" in src/sync/README.md).
CREATE TYPE dataverse_private.copy_plan AS (
  -- arguments of the call; "named" is false for the tables of dataverse.pull_all()
  target text,
  drift text,
  on_error text,
  named boolean,

  -- the foreign table, its name when the run began, and the table in Dataverse
  foreign_table regclass,
  source text,
  server name,
  logical_name text,
  entity_set text,
  elastic boolean,
  -- all its columns, and those in Dataverse that they stand for
  column_names text[],
  attribute_names text[],
  -- the column of ids, and that of versions, or null if they are not copied
  id_column text,
  version_column text,
  -- the foreign table has versions, so rows that have changed can be found by them
  can_follow boolean,

  -- the columns that are copied, their types in the foreign table, the values that the copy gets for them (of rows
  -- "s"), and their definitions in Dataverse (dataverse_private.copies)
  columns text[],
  types text[],
  inputs text[],
  schema jsonb,

  -- statements that merge the page: those of a first read, which return the number of new rows and the digest of their
  -- ids, "fill" if no row is there, as long as the table has a unique index; the others, or null if there is nothing to do
  fill text,
  backfill text,
  insert text,
  update text,
  delete text,
  -- statements on the page: its ids; its ids and versions, which are null for deletions; whether the copy has other
  -- versions of its rows, except these; its only entry; a value that a column of the copy would change, or null if all
  -- have the types of the foreign table; elastic tables: ids that may be in several partitions, and the partitions of rows
  page_ids text,
  versions text,
  outdated text,
  entry text,
  changed text,
  twice text,
  partitions text,
  -- statements that take the ids of rows: reads them into the page; returns those that Dataverse has; locks them
  read text,
  there text,
  lock text,
  -- statements of comparisons: note the ids of the page; rows that it has not found; rows with other versions;
  -- whether Dataverse has smaller versions; the digest of all ids; the greatest version
  ids text,
  ghosts text,
  differing text,
  went_back text,
  digest text,
  greatest text,
  -- statement: which rows that were taken from the log exist
  existing text,

  -- null in a run that only pulls
  sync dataverse_private.sync_plan
);

COMMENT ON TYPE dataverse_private.copy_plan IS
  'the statements of a run for one table, and what it knows about the table; made by pull_prepare() and sync_prepare()';

-- Refused rows are tried again in rounds, each in one direction, rows with missing references first.
CREATE TYPE dataverse_private.retry_position AS (
  -- the number of refused rows when the round began
  before bigint,
  backwards boolean,
  dangling boolean,
  -- the number of the row that was tried last; null at the end of a round
  "position" bigint
);

COMMENT ON TYPE dataverse_private.retry_position IS
  'where the next step of dataverse_private.pull_retry() continues';

-- A pending row that is about to be sent (dataverse_private.pending).
CREATE TYPE dataverse_private.staged_row AS (
  id uuid,
  state text,
  tries integer,
  columns text[],
  held text[],
  image jsonb
);

COMMENT ON TYPE dataverse_private.staged_row IS
  'how a pending row is sent; for dataverse_private.pending_stage()';

-- What a step adds to the counts of its run: dv_run_counts (src/sync/state.h).  Null stands for 0.
CREATE TYPE dataverse_private.run_counts AS (
  rows_read bigint,
  rows_compared bigint,
  inserted bigint,
  updated bigint,
  unchanged bigint,
  deleted bigint,
  sent bigint,
  missing bigint,
  rejected bigint,
  conflicts bigint
);

COMMENT ON TYPE dataverse_private.run_counts IS
  'the rows that a step of a run has handled';

-- A copy is identified by the names of its tables.  Their OIDs are derived
-- from the names, as in dataverse_private.rejected_rows, so that a restored dump
-- finds its tables.
CREATE TABLE dataverse_private.copies (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  foreign_table text NOT NULL,
  target text NOT NULL UNIQUE,
  role text NOT NULL,
  known text[] NOT NULL DEFAULT '{}',
  columns text[] NOT NULL DEFAULT '{}',
  types text[] NOT NULL DEFAULT '{}',
  followed jsonb NOT NULL DEFAULT '{}',
  unfed text[] NOT NULL DEFAULT '{}',
  numbers bigint[],
  types_here text[],
  storage bigint[],
  tracked boolean,
  tracking_refused boolean NOT NULL DEFAULT false,
  phase text NOT NULL DEFAULT 'backfill' CHECK (phase IN ('backfill', 'compare', 'settle', 'current')),
  whole boolean NOT NULL DEFAULT false,
  again boolean NOT NULL DEFAULT false,
  link text,
  expected double precision,
  token text,
  token_at timestamptz,
  token_life interval,
  token_life_at timestamptz,
  metadata text,
  schema jsonb,
  source text,
  ids bigint NOT NULL DEFAULT 0,
  refused bigint NOT NULL DEFAULT 0,
  behind boolean NOT NULL DEFAULT false,
  marks bigint[] NOT NULL DEFAULT '{}',
  marked_at timestamptz[] NOT NULL DEFAULT '{}',
  compared_at timestamptz,
  filled boolean NOT NULL DEFAULT false,
  succeeded_at timestamptz,
  id_column text,
  version_column text,
  foreign_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED,
  target_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(target)) STORED,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED
);

COMMENT ON TABLE dataverse_private.copies IS
  'the tables that dataverse.pull() keeps in step, and the state of each of them';
COMMENT ON COLUMN dataverse_private.copies.known IS
  'the columns that existed when they were last copied; any others are new';
COMMENT ON COLUMN dataverse_private.copies.columns IS
  'the columns that are copied; "types" are their types in the foreign table';
COMMENT ON COLUMN dataverse_private.copies.followed IS
  'the types of local columns that follow the foreign table, as of the last run';
COMMENT ON COLUMN dataverse_private.copies.unfed IS 'local columns that were copied once, but no longer are';
COMMENT ON COLUMN dataverse_private.copies.numbers IS
  'the OID of the table in which the columns were filled, and their numbers in that table';
COMMENT ON COLUMN dataverse_private.copies.types_here IS 'the types of the columns in that table';
COMMENT ON COLUMN dataverse_private.copies.tracking_refused IS
  'Dataverse has refused to track changes, although the definition may indicate that it does';
COMMENT ON COLUMN dataverse_private.copies.storage IS 'the files of the table when a step of a run last looked';
COMMENT ON COLUMN dataverse_private.copies.whole IS
  'the comparison under way reads whole rows, rather than ids and versions';
COMMENT ON COLUMN dataverse_private.copies.again IS 'the comparison under way has to be followed by another one';
COMMENT ON COLUMN dataverse_private.copies.link IS
  'where reading continues: a link to the next page, or the ranges of ids that are left';
COMMENT ON COLUMN dataverse_private.copies.expected IS 'about how many rows there are, as told with the token';
COMMENT ON COLUMN dataverse_private.copies.token_life IS
  'how long tokens live, as read from the organization at token_life_at';
COMMENT ON COLUMN dataverse_private.copies.metadata IS 'the version of all definitions when those in schema were read';
COMMENT ON COLUMN dataverse_private.copies.schema IS
  'names, ids, and types of the columns that are copied, as defined in Dataverse, and which are set in updates or in creation only; under the empty name, name and id of the table';
COMMENT ON COLUMN dataverse_private.copies.source IS 'the address that the rows were read from';
COMMENT ON COLUMN dataverse_private.copies.ids IS
  'the number of ids in dataverse_private.copy_ids; in a first read, the digest of the ids of inserted rows';
COMMENT ON COLUMN dataverse_private.copies.id_column IS
  'the column of ids, if changes of the copy are captured; version_column is that of versions';
COMMENT ON COLUMN dataverse_private.copies.filled IS 'the table has had rows';
COMMENT ON COLUMN dataverse_private.copies.refused IS 'the number of rows in dataverse_private.copy_refused';
COMMENT ON COLUMN dataverse_private.copies.behind IS
  'rows may be older than the token, because since the last comparison they could not be read, or a trigger has kept them as they were';
COMMENT ON COLUMN dataverse_private.copies.marks IS 'greatest versions that were seen, each at the time in marked_at';

-- dataverse_private.capture() finds the copy of a table by this OID, so it must be unique
CREATE UNIQUE INDEX copies_target_oid_idx ON dataverse_private.copies (target_oid);

CREATE TABLE dataverse_private.copy_ids (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  version bigint,
  PRIMARY KEY (copy, id)
);

COMMENT ON TABLE dataverse_private.copy_ids IS
  'ids that the comparison under way has found in Dataverse or still has to read';

-- Rows whose references were missing ("dangling") are retried separately from the
-- others, because they may need each other.
CREATE TABLE dataverse_private.copy_refused (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  deleted boolean NOT NULL,
  at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  number bigint GENERATED ALWAYS AS IDENTITY,
  attempts integer NOT NULL DEFAULT 1,
  sqlstate text NOT NULL,
  message text NOT NULL,
  detail text,
  "row" jsonb,
  reject bigint,
  dangling boolean NOT NULL GENERATED ALWAYS AS (sqlstate OPERATOR(pg_catalog.=) '23503') STORED,
  PRIMARY KEY (copy, id)
);

CREATE INDEX copy_refused_number_idx ON dataverse_private.copy_refused (copy, dangling, number);

COMMENT ON TABLE dataverse_private.copy_refused IS
  'rows whose insertion, update, or deletion the table of a copy has refused, and which will be tried again';
COMMENT ON COLUMN dataverse_private.copy_refused.reject IS
  'the entry in dataverse_private.rejected_rows, if the row was filed';

CREATE TABLE dataverse_private.run_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  copy bigint,
  push bigint,
  foreign_table text,
  query text,
  operation text NOT NULL,
  role text NOT NULL,
  pid integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
  started_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  ended_at timestamptz,
  status text NOT NULL DEFAULT 'running',
  phase text,
  rows_read bigint NOT NULL DEFAULT 0,
  rows_compared bigint NOT NULL DEFAULT 0,
  inserted bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0,
  unchanged bigint NOT NULL DEFAULT 0,
  deleted bigint NOT NULL DEFAULT 0,
  sent bigint NOT NULL DEFAULT 0,
  missing bigint NOT NULL DEFAULT 0,
  rejected bigint NOT NULL DEFAULT 0,
  conflicts bigint NOT NULL DEFAULT 0,
  requests bigint NOT NULL DEFAULT 0,
  throttles bigint NOT NULL DEFAULT 0,
  time_waited interval NOT NULL DEFAULT '0',
  sqlstate text,
  error text,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  CHECK ((copy IS NULL) <> (push IS NULL))
);

CREATE INDEX run_log_copy_idx ON dataverse_private.run_log (copy, started_at) WHERE copy IS NOT NULL;
CREATE INDEX run_log_push_idx ON dataverse_private.run_log (role_oid, started_at) WHERE push IS NOT NULL;

COMMENT ON TABLE dataverse_private.run_log IS
  'the runs behind the view dataverse.runs, of all roles; each belongs to a copy or to a push';
COMMENT ON COLUMN dataverse_private.run_log.foreign_table IS
  'for a push, whose state is not kept when it is done; likewise query';

-- A dump identifies tables only by their names.  A role that has registered the name
-- of a nonexistent table must not own the table that gets this name later, so entries
-- without a table are excluded.  Its names may be quoted differently (pg_dump --quote-all-identifiers).
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copies', '
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                WHERE c.oid = target_oid AND pg_catalog.parse_ident(target) = ARRAY[n.nspname::text, c.relname::text])');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copies_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_ids', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_refused', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_refused_number_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.run_log', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.run_log_id_seq', '');

-- Functions of state, which alone use these tables, are written in this language: PL/pgSQL
-- that runs as the owner of the extension, after the caller has been checked
-- (src/sync/state_function.c).  They never call each other: the caller would be the owner.
CREATE FUNCTION dataverse_private.state_handler()
RETURNS language_handler
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_state_handler';

COMMENT ON FUNCTION dataverse_private.state_handler() IS
  'carries out functions of state';

REVOKE ALL ON FUNCTION dataverse_private.state_handler() FROM PUBLIC;

CREATE LANGUAGE dataverse_state HANDLER dataverse_private.state_handler;

COMMENT ON LANGUAGE dataverse_state IS
  'PL/pgSQL that runs as the owner of dataverse_fdw; only for functions of the extension itself';

CREATE FUNCTION dataverse_private.copy_owner(copy dataverse_private.copies)
RETURNS oid
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_copy_owner';

COMMENT ON FUNCTION dataverse_private.copy_owner(dataverse_private.copies) IS
  'the role that a copy belongs to: the owner of its table, or the role that has requested it; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_check(copy bigint, caller oid)
RETURNS void
LANGUAGE C STABLE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_copy_check';

COMMENT ON FUNCTION dataverse_private.copy_check(bigint, oid) IS
  'refuses roles that a copy does not belong to; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_check(bigint, oid) FROM PUBLIC;

CREATE FUNCTION dataverse_private.copy_get(copy bigint)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state STABLE STRICT
AS $$
DECLARE
  found_copy dataverse_private.copies;
BEGIN
  SELECT c.* INTO STRICT found_copy FROM dataverse_private.copies AS c WHERE c.id = copy;
  RETURN found_copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_get(bigint) IS
  'the state of a copy, for its owner; for dataverse.pull()';

-- If an interrupted run has left changes or a comparison unfinished, they are as
-- old as that run: later changes are read after they are done.  A first read is
-- followed by all of this in any case.
CREATE FUNCTION dataverse_private.copy_resumes(copy bigint)
RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT c.phase <> 'backfill' AND (c.phase <> 'current' OR c.link IS NOT NULL) FROM dataverse_private.copy_get($1) AS c $$;

COMMENT ON FUNCTION dataverse_private.copy_resumes(bigint) IS
  'whether a run continues an interrupted one, after which it has to look for further changes; for dataverse.pull()';

-- Tables may have been renamed, and their names given to others.  Copies follow
-- the names of their tables, and the previous holder of a name is the copy of a
-- dropped table.  Names are unique, so they are released before they are assigned.
-- Only the caller's own copies, and the holders of this name, are examined,
-- because tables of other roles may be locked for any time.
CREATE FUNCTION dataverse_private.copy_follow_names(target text, caller oid)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  copies bigint[];
  names text[];
  others bigint[];
BEGIN
  WITH RECURSIVE moved (copy, name) AS (
    SELECT c.id, n.name
    FROM dataverse_private.copies AS c JOIN pg_class AS t ON t.oid = c.target_oid,
      LATERAL (SELECT dataverse_private.pull_target(NULL, t.oid, NULL)) AS n (name)
    WHERE c.target <> n.name AND (c.target = copy_follow_names.target OR c.target_oid = to_regclass(copy_follow_names.target)
                                  OR dataverse_private.copy_owner(c) = caller)
    UNION
    SELECT c.id, n.name
    FROM moved AS m JOIN dataverse_private.copies AS c ON c.target = m.name JOIN pg_class AS t ON t.oid = c.target_oid,
      LATERAL (SELECT dataverse_private.pull_target(NULL, t.oid, NULL)) AS n (name)
    WHERE c.target <> n.name)
  SELECT array_agg(m.copy), array_agg(m.name) INTO copies, names FROM moved AS m;
  IF copies IS NULL THEN
    RETURN;
  END IF;
  others := ARRAY(SELECT c.id FROM dataverse_private.copies AS c WHERE c.target = ANY (names) AND c.id <> ALL (copies));
  PERFORM dataverse_private.copy_remove(o) FROM unnest(others) AS o;
  UPDATE dataverse_private.copies AS c SET target = format('"renamed %s"', c.id) WHERE c.id = ANY (copies);
  UPDATE dataverse_private.copies AS c SET target = n.name FROM unnest(copies, names) AS n (copy, name) WHERE c.id = n.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_follow_names(text, oid) IS
  'updates the names of copies to those of their tables; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_follow_names(text, oid) FROM PUBLIC;

-- Called by functions of state.
CREATE FUNCTION dataverse_private.copy_remove(copy bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  -- in the order of a run that has not locked the table of the copy
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_remove.copy;
  PERFORM FROM dataverse_private.copies AS c WHERE c.id = copy_remove.copy FOR UPDATE;
  PERFORM dataverse_private.copy_forget_changes(copy);
  DELETE FROM dataverse_private.rejected_rows AS e USING dataverse_private.copy_refused AS r
  WHERE r.copy = copy_remove.copy AND e.id = r.reject AND e.operation = 'pull';
  DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_remove.copy;
  DELETE FROM dataverse_private.run_log AS r WHERE r.copy = copy_remove.copy;
  DELETE FROM dataverse_private.copies AS c WHERE c.id = copy_remove.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_remove(bigint) IS
  'removes all state of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_remove(bigint) FROM PUBLIC;

-- If the table has not been read into, everything has to be read.
CREATE FUNCTION dataverse_private.copy_restart(copy bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_restart.copy;
  PERFORM dataverse_private.copy_admit_all(copy);
  UPDATE dataverse_private.copies AS c
  SET phase = 'backfill', tracked = NULL, tracking_refused = false, known = '{}', columns = '{}', types = '{}',
      followed = '{}', unfed = '{}', numbers = NULL, types_here = NULL, storage = NULL, link = NULL, expected = NULL,
      token = NULL, token_at = NULL, marks = '{}', marked_at = '{}', ids = 0, refused = 0, behind = false, whole = false, again = false,
      metadata = NULL, schema = NULL, source = NULL, filled = false, compared_at = NULL, succeeded_at = NULL
  WHERE c.id = copy_restart.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_restart(bigint) IS
  'discards the progress of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_restart(bigint) FROM PUBLIC;

-- Returns the owner of a table that may become a copy; null if it does not exist.
CREATE FUNCTION dataverse_private.copy_check_target(target text, caller oid)
RETURNS oid
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  schema CONSTANT oid := to_regnamespace(quote_ident((parse_ident(target))[1]));
  owner oid;
  kind "char";
BEGIN
  IF starts_with((parse_ident(target))[1], 'pg_') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('table %s cannot be a copy', target),
      detail = 'A copy cannot be a system catalog or a temporary table.';
  END IF;
  SELECT c.relowner, c.relkind INTO owner, kind FROM pg_class AS c WHERE c.oid = to_regclass(target);
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_schema_name', message = format('schema "%s" does not exist', (parse_ident(target))[1]),
      hint = format('Create it: CREATE SCHEMA %I;', (parse_ident(target))[1]);
  END IF;
  -- a role that could create the table may register it as a copy
  IF owner IS NULL AND NOT has_schema_privilege(caller, schema, 'CREATE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for schema %s', schema::regnamespace),
      hint = format('Grant the privileges to create the table: GRANT USAGE, CREATE ON SCHEMA %s TO %s;', schema::regnamespace, caller::regrole);
  END IF;
  IF NOT pg_has_role(caller, owner, 'USAGE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('must be owner of table %s', target),
      hint = format('Do this as role %s, the owner of the table, or as a member of that role.', owner::regrole);
  END IF;
  IF kind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a table', target),
      hint = 'A copy is an ordinary or a partitioned table.  If no table of this name exists, one is created.';
  END IF;
  RETURN owner;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_check_target(text, oid) IS
  'refuses targets that cannot be a copy of the caller''s; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_check_target(text, oid) FROM PUBLIC;

CREATE FUNCTION dataverse_private.copy_open(foreign_table regclass, target text, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  owner oid;
  opened dataverse_private.copies;
  forgotten bigint;
  gone dataverse_private.copies;
BEGIN
  LOOP
    -- a table has one entry, however its name is written
    target := dataverse_private.pull_target(target, to_regclass(target), NULL);
    owner := dataverse_private.copy_check_target(target, caller);
    PERFORM dataverse_private.copy_follow_names(target, caller);
    SELECT c.* INTO opened FROM dataverse_private.copies AS c
    WHERE c.target_oid = to_regclass(copy_open.target) OR c.target = copy_open.target
    ORDER BY c.target_oid = to_regclass(copy_open.target) DESC NULLS LAST LIMIT 1;
    IF opened.id IS NOT NULL AND owner IS NOT NULL AND opened.target_oid IS NOT DISTINCT FROM to_regclass(copy_open.target)::oid
       AND coalesce(opened.foreign_oid, 0) <> copy_open.foreign_table AND opened.foreign_table <> copy_open.foreign_table::text
    THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('table %s is a copy of another foreign table, %s', target, opened.foreign_table),
        hint = format('To make it a copy of this one, first call SELECT dataverse.forget_copy(%L).', target);
    END IF;
    -- a previous copy of this name starts over; what another role's runs have reported must not be
    -- visible to others
    FOR gone IN
      SELECT c.* FROM dataverse_private.copies AS c WHERE c.target = copy_open.target AND (c.id <> opened.id
        OR c.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid AND NOT pg_has_role(caller, dataverse_private.copy_owner(c), 'USAGE'))
    LOOP
      PERFORM dataverse_private.copy_remove(gone.id);
      IF gone.id = opened.id THEN
        opened := NULL;
      END IF;
    END LOOP;
    EXIT WHEN opened.id IS NOT NULL;
    INSERT INTO dataverse_private.copies AS c (foreign_table, target, role)
    VALUES (copy_open.foreign_table::text, copy_open.target, pg_get_userbyid(caller))
    ON CONFLICT DO NOTHING
    RETURNING * INTO opened;
    IF opened.id IS NOT NULL THEN
      RETURN opened.id;
    END IF;
    -- another session, perhaps of another role, has just done the same
  END LOOP;
  -- changes in a dropped table do not concern the rows of another one
  IF opened.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid THEN
    forgotten := dataverse_private.copy_forget_changes(opened.id);
    IF forgotten > 0 THEN
      RAISE WARNING 'discarded unsent local changes of another table %: %', target, forgotten;
    END IF;
    UPDATE dataverse_private.copies AS c SET id_column = NULL, version_column = NULL WHERE c.id = opened.id;
  END IF;
  -- an update could have to wait for a run
  UPDATE dataverse_private.copies AS c
  SET foreign_table = CASE WHEN owner IS NULL THEN c.foreign_table ELSE copy_open.foreign_table::text END,
      target = copy_open.target, role = pg_get_userbyid(caller)
  WHERE c.id = opened.id
    AND (c.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid OR c.target <> copy_open.target
         OR owner IS NOT NULL AND (c.foreign_oid IS DISTINCT FROM copy_open.foreign_table::oid OR c.foreign_table <> copy_open.foreign_table::text)
         OR c.role <> pg_get_userbyid(caller) OR c.role_oid IS DISTINCT FROM caller);
  -- by now, the name may be that of another role's table
  PERFORM dataverse_private.copy_check(opened.id, caller);
  -- the earlier rows went into the other table; this one needs everything
  IF owner IS NOT NULL AND opened.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid THEN
    PERFORM dataverse_private.copy_restart(opened.id);
  END IF;
  RETURN opened.id;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_open(regclass, text, oid) IS
  'finds the state of a copy, or creates it; for dataverse.pull()';

-- If the table is gone, everything has to be read again.  Only the session that
-- holds the lock of the copy may decide this: other sessions do not see a table
-- that is just being created.
CREATE FUNCTION dataverse_private.copy_begin_anew(copy bigint, foreign_table regclass)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  begun dataverse_private.copies;
BEGIN
  PERFORM dataverse_private.copy_restart(copy);
  UPDATE dataverse_private.copies AS c SET foreign_table = copy_begin_anew.foreign_table::text WHERE c.id = copy
  RETURNING c.* INTO begun;
  RETURN begun;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_begin_anew(bigint, regclass) IS
  'discards the progress of a copy whose table will be created; for dataverse.pull()';

-- Writes the state of a copy, as it was read by copy_get() and then changed, and
-- returns it as it is now.  Each column has one writer:
--
--   foreign_table, target, role   copy_open(), copy_begin_anew(), and copy_follow_names()
--   id_column, version_column     dataverse.track() and untrack()
--   refused                       copy_refuse() and copy_admit(), which count
--   succeeded_at                  the end of a run
--   all others                    this function, for the run that holds the lock of the copy
--
-- So a step of a run reads the state when it begins and writes it when it ends, and
-- undoes nothing of what others write meanwhile.  Only copy_restart() resets these
-- columns in other sessions, if the copy gets another table; then the state that a run has read
-- does not count any more.
CREATE FUNCTION dataverse_private.copy_put(state dataverse_private.copies, caller oid DEFAULT 0)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  put dataverse_private.copies;
BEGIN
  PERFORM dataverse_private.copy_check(state.id, caller);
  UPDATE dataverse_private.copies AS c
  SET known = state.known, columns = state.columns, types = state.types, followed = state.followed, unfed = state.unfed,
      numbers = state.numbers, types_here = state.types_here, storage = state.storage, source = state.source,
      tracked = state.tracked, tracking_refused = state.tracking_refused, metadata = state.metadata, schema = state.schema,
      phase = state.phase, whole = state.whole, again = state.again, link = state.link, expected = state.expected, ids = state.ids,
      token = state.token, token_at = state.token_at, token_life = state.token_life, token_life_at = state.token_life_at,
      behind = state.behind, marks = state.marks, marked_at = state.marked_at, compared_at = state.compared_at, filled = state.filled
  WHERE c.id = state.id AND c.target_oid IS NOT DISTINCT FROM state.target_oid
  RETURNING c.* INTO put;
  IF put.id IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s was replaced by another one during the run', state.target),
      hint = 'Call the procedure again to read all rows.';
  END IF;
  -- set the target to itself so that its OID is found once it exists, but not the
  -- OID of another table, or of one that another role has created
  IF put.target_oid IS NULL THEN
    UPDATE dataverse_private.copies AS c SET target = c.target WHERE c.id = state.id RETURNING c.* INTO put;
    PERFORM dataverse_private.copy_check(state.id, caller);
  END IF;
  RETURN put;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_put(dataverse_private.copies, oid) IS
  'writes the state of a copy; for dataverse.pull()';

-- The following functions return the state of a copy after it has changed in a way that has several causes.

-- All rows are compared from the beginning: as a whole, or by their ids and versions.
CREATE FUNCTION dataverse_private.copy_to_compare(INOUT state dataverse_private.copies, whole boolean)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  state.phase := 'compare';
  state.whole := whole;
  state.link := NULL;
  state.ids := 0;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_to_compare(dataverse_private.copies, boolean) IS
  'the state of a copy whose rows have to be compared; for dataverse.pull()';

-- All rows are read again: a first read starts over, and rows that have been read are compared.
CREATE FUNCTION dataverse_private.copy_to_reread(INOUT state dataverse_private.copies, whole boolean)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  first_read CONSTANT boolean := state.phase = 'backfill';
BEGIN
  state := dataverse_private.copy_to_compare(state, whole);
  IF first_read THEN
    state.phase := 'backfill';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_to_reread(dataverse_private.copies, boolean) IS
  'the state of a copy whose rows have to be read again; for dataverse.pull()';

-- It is not known any more from where on changes have to be read.
CREATE FUNCTION dataverse_private.copy_without_token(INOUT state dataverse_private.copies)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  state.token := NULL;
  state.token_at := NULL;
  state.marks := '{}';
  state.marked_at := '{}';
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_without_token(dataverse_private.copies) IS
  'the state of a copy whose token and marks are invalid; for dataverse.pull()';

-- Adds ids to those found, and returns the number of new ones; without arrays, forgets them all.
CREATE FUNCTION dataverse_private.copy_note_ids(copy bigint, ids uuid[], versions bigint[])
RETURNS bigint
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  n bigint := 0;
BEGIN
  IF ids IS NULL THEN
    DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_note_ids.copy;
  ELSE
    INSERT INTO dataverse_private.copy_ids AS i (copy, id, version)
    SELECT copy_note_ids.copy, u.id, u.version FROM unnest(ids, versions) AS u (id, version)
    ON CONFLICT ON CONSTRAINT copy_ids_pkey DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_note_ids(bigint, uuid[], bigint[]) IS
  'records the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_drop_ids(copy bigint, dropped uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_drop_ids.copy AND i.id = ANY (dropped);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_drop_ids(bigint, uuid[]) IS
  'removes ids that have been read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_ids_of(copy bigint, most bigint DEFAULT NULL)
RETURNS TABLE (id uuid, version bigint)
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT ROWS 100000
AS $$
BEGIN
  RETURN QUERY SELECT i.id, i.version FROM dataverse_private.copy_ids AS i
    WHERE i.copy = copy_ids_of.copy ORDER BY i.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_ids_of(bigint, bigint) IS
  'the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_refuse(copy bigint, rows dataverse_private.copy_refused[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH noted AS (
    INSERT INTO dataverse_private.copy_refused AS r (copy, id, deleted, sqlstate, message, detail, "row")
    SELECT copy_refuse.copy, n.id, n.deleted, n.sqlstate, n.message, n.detail, n."row" FROM unnest(rows) AS n
    ON CONFLICT ON CONSTRAINT copy_refused_pkey DO UPDATE
    SET deleted = excluded.deleted, sqlstate = excluded.sqlstate, message = excluded.message, detail = excluded.detail,
        "row" = excluded."row", attempts = r.attempts + 1, at = clock_timestamp()
    RETURNING attempts)
  UPDATE dataverse_private.copies AS c SET refused = c.refused + (SELECT count(*) FROM noted AS n WHERE n.attempts = 1)
  WHERE c.id = copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refuse(bigint, dataverse_private.copy_refused[]) IS
  'records rows that the table of a copy has refused; for dataverse.pull()';

-- These rows are in step: removes their notes and refused rows.
CREATE FUNCTION dataverse_private.copy_admit(copy bigint, admitted uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH gone AS (
    DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_admit.copy AND r.id = ANY (admitted)
    RETURNING r.reject),
  entries AS (
    DELETE FROM dataverse_private.rejected_rows AS e USING gone AS g WHERE e.id = g.reject AND e.operation = 'pull')
  UPDATE dataverse_private.copies AS c SET refused = c.refused - (SELECT count(*) FROM gone)
  WHERE c.id = copy AND EXISTS (SELECT FROM gone);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_admit(bigint, uuid[]) IS
  'removes refused rows that the table of a copy has accepted; for dataverse.pull()';

-- Returns the refused rows that a comparison has not found.
CREATE FUNCTION dataverse_private.copy_refused_missing(copy bigint)
RETURNS uuid[]
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  RETURN CASE WHEN (SELECT c.refused FROM dataverse_private.copies AS c WHERE c.id = copy) = 0 THEN '{}' ELSE ARRAY(
    SELECT r.id FROM dataverse_private.copy_refused AS r
    WHERE r.copy = copy_refused_missing.copy AND NOT r.deleted
      AND NOT EXISTS (SELECT FROM dataverse_private.copy_ids AS i WHERE i.copy = r.copy AND i.id = r.id)) END;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refused_missing(bigint) IS
  'refused rows that no longer seem to exist; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_admit_all(copy bigint)
RETURNS void
LANGUAGE sql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH gone AS (
    DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = $1 RETURNING r.reject)
  DELETE FROM dataverse_private.rejected_rows AS e USING gone AS g WHERE e.id = g.reject AND e.operation = 'pull'
$$;

COMMENT ON FUNCTION dataverse_private.copy_admit_all(bigint) IS
  'forgets all refused rows of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_admit_all(bigint) FROM PUBLIC;

-- Returns refused rows of one kind, forwards or backwards from a position.
CREATE FUNCTION dataverse_private.copy_refused_of(
  copy bigint, dangling boolean, "position" bigint, backwards boolean, most bigint)
RETURNS SETOF dataverse_private.copy_refused
LANGUAGE dataverse_state VOLATILE STRICT ROWS 1000
AS $$
BEGIN
  IF backwards THEN
    RETURN QUERY SELECT r.* FROM dataverse_private.copy_refused AS r
      WHERE r.copy = copy_refused_of.copy AND r.dangling = copy_refused_of.dangling AND r.number < copy_refused_of."position"
      ORDER BY r.number DESC LIMIT most;
  ELSE
    RETURN QUERY SELECT r.* FROM dataverse_private.copy_refused AS r
      WHERE r.copy = copy_refused_of.copy AND r.dangling = copy_refused_of.dangling AND r.number > copy_refused_of."position"
      ORDER BY r.number LIMIT most;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refused_of(bigint, boolean, bigint, boolean, bigint) IS
  'refused rows of a copy that are tried again; for dataverse.pull()';

-- Files the rows that are noted, each once.
CREATE FUNCTION dataverse_private.copy_file(copy bigint, server text, caller oid DEFAULT 0)
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  state dataverse_private.copies;
  noted dataverse_private.copy_refused;
  entry bigint;
BEGIN
  SELECT c.* INTO state FROM dataverse_private.copies AS c WHERE c.id = copy;
  FOR noted IN SELECT r.* FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_file.copy ORDER BY r.number LOOP
    UPDATE dataverse_private.rejected_rows AS e
    SET at = noted.at, pid = pg_backend_pid(), "row" = noted."row", sqlstate = noted.sqlstate,
        message = format('%s: %s', state.target, noted.message), attempts = noted.attempts
    WHERE e.id = noted.reject AND e.operation = 'pull';
    CONTINUE WHEN FOUND;
    INSERT INTO dataverse_private.rejected_rows (at, role, server, foreign_table, operation, row_id, "row", sqlstate, message, attempts)
    VALUES (noted.at, pg_get_userbyid(caller), copy_file.server, state.foreign_table, 'pull', noted.id, noted."row", noted.sqlstate,
            format('%s: %s', state.target, noted.message), noted.attempts)
    RETURNING id INTO entry;
    UPDATE dataverse_private.copy_refused AS r SET reject = entry WHERE r.copy = copy_file.copy AND r.id = noted.id;
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_file(bigint, text, oid) IS
  'files the rows that a copy has refused in dataverse.rejects; for dataverse.pull()';

-- Returns the number of refused rows, except those that only wait for another
-- row, and the first of all.
CREATE FUNCTION dataverse_private.copy_first_refused(
  copy bigint, OUT firm bigint, OUT first dataverse_private.copy_refused)
RETURNS record
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  SELECT count(*) INTO firm FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_first_refused.copy AND NOT r.dangling;
  SELECT r.* INTO first FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_first_refused.copy
  ORDER BY r.dangling, r.number LIMIT 1;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_first_refused(bigint) IS
  'the first of the rows that a copy has refused, for error messages; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_forget(target text, caller oid DEFAULT 0)
RETURNS boolean
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  forgotten bigint;
BEGIN
  SELECT c.id INTO forgotten FROM dataverse_private.copies AS c
  WHERE c.target_oid = to_regclass(copy_forget.target) OR c.target = copy_forget.target
  ORDER BY c.target_oid = to_regclass(copy_forget.target) DESC NULLS LAST LIMIT 1;
  IF forgotten IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse_private.copy_check(forgotten, caller);
  PERFORM dataverse_private.copy_remove(forgotten);
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_forget(text, oid) IS
  'removes the state of a copy by the qualified name of its table; for dataverse.forget_copy()';

-- The session that works on a copy, or on a push, holds its lock, which is
-- released when the session ends.  A run without its lock has ended.
CREATE FUNCTION dataverse_private.copy_lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1685480816 $$;

COMMENT ON FUNCTION dataverse_private.copy_lock_class() IS
  'the first key of the locks of copies; the second one is the number of the copy';

CREATE FUNCTION dataverse_private.push_lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1685483635 $$;

COMMENT ON FUNCTION dataverse_private.push_lock_class() IS
  'the first key of the locks of pushes; the second one is the number of the push';

CREATE FUNCTION dataverse_private.copy_lock_key(copy bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ($1 OPERATOR(pg_catalog.%) 2147483647)::pg_catalog.int4 $$;

COMMENT ON FUNCTION dataverse_private.copy_lock_key(bigint) IS
  'the second key of the lock of a copy or a push';

-- Row security is not used, so that pg_dump can read the tables; see dataverse.rejects.
CREATE VIEW dataverse.runs WITH (security_barrier) AS
  SELECT r.id, coalesce(c.foreign_table, r.foreign_table) AS foreign_table, c.target, r.query, r.operation, r.role, r.pid,
         r.started_at, r.ended_at,
         CASE WHEN r.status <> 'running' OR EXISTS (
                SELECT FROM pg_catalog.pg_locks AS l
                WHERE l.locktype = 'userlock'
                  AND l.classid = CASE WHEN r.push IS NULL THEN dataverse_private.copy_lock_class() ELSE dataverse_private.push_lock_class() END::oid
                  AND l.objid = dataverse_private.copy_lock_key(coalesce(r.copy, r.push))::oid
                  AND l.objsubid = 2 AND l.pid = r.pid AND l.granted
                  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()))
              THEN r.status ELSE 'interrupted' END AS status,
         r.phase, r.rows_read, r.rows_compared, r.inserted, r.updated, r.unchanged, r.deleted, r.sent, r.missing, r.rejected,
         r.conflicts, r.requests, r.throttles, r.time_waited, r.sqlstate, r.error
  FROM dataverse_private.run_log AS r LEFT JOIN dataverse_private.copies AS c ON c.id = r.copy
  WHERE (r.push IS NOT NULL OR c.id IS NOT NULL)
    AND (pg_catalog.pg_has_role(CASE WHEN c.id IS NULL THEN dataverse_private.role_or_superuser(r.role_oid)
                                     ELSE dataverse_private.copy_owner(c) END, 'USAGE')
         OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE'));

COMMENT ON VIEW dataverse.runs IS
  'a row for each run of dataverse.pull(), sync(), and push(): its results and its final status';

-- The number of changes in Dataverse that are not in the copy, counted by the
-- service.  If it cannot be determined for any reason, the result is null: a view
-- that shows problems must not fail for the same reason.
CREATE FUNCTION dataverse_private.copy_lag(copy bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state dataverse_private.copies;
BEGIN
  state := dataverse_private.copy_get(copy);
  IF state.foreign_oid IS NULL OR state.phase = 'backfill' THEN
    RETURN NULL;
  END IF;
  RETURN dataverse_private.copy_count_changes(state.foreign_oid, state.token,
                                 CASE WHEN NOT state.tracked THEN state.marks[cardinality(state.marks)] END, 2000);
EXCEPTION
  WHEN OTHERS THEN
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_lag(bigint) IS
  'how many changes of rows in Dataverse a copy lacks; null if not known; for dataverse.sync_state';

CREATE VIEW dataverse.sync_state WITH (security_barrier) AS
  SELECT c.foreign_table, c.target, c.phase,
         CASE WHEN c.tracked THEN 'change tracking' WHEN NOT c.tracked THEN 'versions' END AS method,
         c.token_at, c.compared_at, c.succeeded_at, pg_catalog.now() - c.succeeded_at AS age,
         c.token_at + c.token_life AS token_expires_at, dataverse_private.copy_lag(c.id) AS lag, c.refused, c.unfed,
         l.status AS last_status, l.started_at AS last_started_at, l.error AS last_error
  FROM dataverse_private.copies AS c LEFT JOIN LATERAL (
    SELECT r.status, r.started_at, r.error FROM dataverse.runs AS r
    WHERE r.target = c.target ORDER BY r.id DESC LIMIT 1) AS l ON true
  WHERE pg_catalog.pg_has_role(dataverse_private.copy_owner(c), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.sync_state IS
  'a row for each copy: its state, when it was last in step, and how its last run ended';

-- The columns of a copy: how values are converted to other types, how their types
-- follow those of the foreign table, and which of them are no longer filled.
--
-- A copy has the value that Dataverse has, or it does not have the row.  PostgreSQL's
-- assignment rounds numbers and cuts spaces.  Therefore, if types differ, each
-- assigned value is converted back and compared, and a row with a changed value is
-- refused like one that violates a constraint.  If times have a zone on one side only,
-- those on the other side are in UTC; blanks at the end of char(n) are not
-- significant.

-- Returns the base type of a domain, or the type itself.
CREATE FUNCTION dataverse_private.pull_base_type(type oid)
RETURNS oid
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE b (oid, base) AS (
    SELECT t.oid, t.typbasetype FROM pg_type AS t WHERE t.oid = $1
    UNION ALL SELECT t.oid, t.typbasetype FROM b JOIN pg_type AS t ON t.oid = b.base)
  SELECT b.oid FROM b WHERE b.base = 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_base_type(oid) IS
  'the type that a domain is based on, or the type itself; for dataverse.pull()';

-- Returns the condition under which a value of the foreign table ("there") and the
-- value of the copy ("here") are the same.  Times are compared in UTC, texts as they
-- are shown.
CREATE FUNCTION dataverse_private.pull_sameness(there text, here text, source oid, target oid)
RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  times CONSTANT jsonb := jsonb_build_object(
    'timestamptz'::regtype::oid, 'pg_catalog.timezone(''UTC'', %s)', 'timestamp'::regtype::oid, '%s',
    'date'::regtype::oid, 'CAST(%s AS pg_catalog.timestamp)');
  kind CONSTANT "char" := (SELECT t.typcategory FROM pg_type AS t WHERE t.oid = source);
  target_kind CONSTANT "char" := (SELECT t.typcategory FROM pg_type AS t WHERE t.oid = target);
  back CONSTANT text := CASE
    WHEN source = target OR target_kind = 'S' OR EXISTS (SELECT FROM pg_cast AS c WHERE c.castsource = target AND c.casttarget = source)
      THEN 'CAST(%s AS %s)'
    WHEN target = 'money'::regtype THEN 'CAST(CAST(%s AS pg_catalog.numeric) AS %s)'
    ELSE 'CAST(CAST(%s AS pg_catalog.text) AS %s)' END;
BEGIN
  IF target = 'bpchar'::regtype AND kind = 'S' THEN
    RETURN format('pg_catalog.rtrim(pg_catalog.concat(%s)) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.rtrim(pg_catalog.concat(%s)) COLLATE pg_catalog."C"', there, here);
  ELSIF times ? source::text AND times ? target::text THEN
    RETURN format('%s OPERATOR(pg_catalog.=) %s', format(times ->> source::text, there), format(times ->> target::text, here));
  ELSIF kind <> 'S' AND (kind = 'A' OR EXISTS (SELECT FROM pg_operator AS o WHERE o.oprname = '=' AND o.oprnamespace = 'pg_catalog'::regnamespace
                                               AND o.oprleft = source AND o.oprright = source)) THEN
    RETURN format('%s OPERATOR(pg_catalog.=) %s', there, format(back, here, format_type(source, NULL)));
  ELSE
    RETURN format('pg_catalog.concat(%s) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.concat(%s) COLLATE pg_catalog."C"', there, here);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_sameness(text, text, oid, oid) IS
  'the condition that a conversion has not changed a value; for dataverse.pull()';

-- Returns for each column: the assigned value ("input"), this value in the type of
-- the column, without ("stored") and with the length of the column ("exact"), and, if
-- types differ, the condition under which the value has not changed ("stays").  If
-- the type of a column could not follow, and there is no cast, values are converted
-- through text.
CREATE FUNCTION dataverse_private.pull_conversions(
  foreign_table regclass, target regclass, columns text[], followed jsonb,
  OUT name text, OUT "position" bigint, OUT input text, OUT stored text, OUT exact text, OUT type text, OUT stays text)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT c.name, c.i, v.input, v.stored, v.exact, format_type(a.atttypid, a.atttypmod),
         CASE WHEN f.atttypid <> a.atttypid OR f.atttypmod <> a.atttypmod AND a.atttypmod <> -1
              THEN dataverse_private.pull_sameness(v.there, v.exact, v.source, v.target) END
  FROM unnest($3) WITH ORDINALITY AS c (name, i)
    JOIN pg_attribute AS f ON f.attrelid = $1 AND f.attname = c.name AND NOT f.attisdropped
    JOIN pg_attribute AS a ON a.attrelid = $2 AND a.attname = c.name AND NOT a.attisdropped,
    LATERAL (SELECT dataverse_private.pull_base_type(f.atttypid) AS source, dataverse_private.pull_base_type(a.atttypid) AS target) AS b,
    LATERAL (
      SELECT CASE WHEN b.source = 'timestamptz'::regtype AND b.target IN ('timestamp'::regtype, 'date'::regtype)
                    THEN format('pg_catalog.timezone(''UTC'', s.%I)', c.name)
                  WHEN b.source IN ('timestamp'::regtype, 'date'::regtype) AND b.target = 'timestamptz'::regtype
                    THEN format('pg_catalog.timezone(''UTC'', CAST(s.%I AS pg_catalog.timestamp))', c.name)
                  WHEN $4 ->> c.name = format_type(a.atttypid, a.atttypmod) AND b.source <> b.target
                    AND NOT EXISTS (SELECT FROM pg_type AS t WHERE t.oid = b.target AND t.typcategory = 'S')
                    AND NOT EXISTS (SELECT FROM pg_cast AS x WHERE x.castsource = b.source AND x.casttarget = b.target AND x.castcontext <> 'e')
                  THEN format('CAST(CAST(s.%I AS pg_catalog.text) AS %s)', c.name, format_type(a.atttypid, a.atttypmod))
                  ELSE format('s.%I', c.name) END AS input) AS i,
    LATERAL (
      SELECT i.input, b.source, b.target, format('s.%I', c.name) AS there,
             -- a cast would cut texts, which assignment does not
             format('CAST(%s AS %s)', i.input, format_type(
               a.atttypid, CASE WHEN a.atttypid IN ('varchar'::regtype, 'varbit'::regtype) THEN -1 ELSE a.atttypmod END)) AS stored,
             format('CAST(%s AS %s)', i.input, format_type(a.atttypid, a.atttypmod)) AS exact) AS v
$$;

COMMENT ON FUNCTION dataverse_private.pull_conversions(regclass, regclass, text[], jsonb) IS
  'how values of a foreign table are converted to columns of a copy; for dataverse.pull()';

-- Returns the statement that finds a value of the page which the column of the
-- copy would change, or NULL if all columns have the types of the foreign table.
CREATE FUNCTION dataverse_private.pull_changed_statement(
  foreign_table regclass, target regclass, columns text[], followed jsonb)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('SELECT v.* FROM dataverse_private.page_rows(NULL::%s) AS s, LATERAL (%s) AS v (name, there, here, type) LIMIT 1', $1,
                string_agg(format('SELECT CAST(%1$L AS pg_catalog.text), pg_catalog.concat(s.%1$I), pg_catalog.concat(%2$s), %3$L'
                                  ' WHERE s.%1$I IS NOT NULL AND (%4$s) IS NOT TRUE', c.name, c.exact, c.type, c.stays),
                           ' UNION ALL ' ORDER BY c."position"))
  FROM dataverse_private.pull_conversions($1, $2, $3, $4) AS c
  WHERE c.stays IS NOT NULL
  HAVING count(*) > 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_changed_statement(regclass, regclass, text[], jsonb) IS
  'the statement that finds values that a copy would change; for dataverse.pull()';

-- Refuses those of the merged rows whose values have changed.
CREATE FUNCTION dataverse_private.pull_check_values(plan dataverse_private.copy_plan, path text)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  statement CONSTANT text := plan.changed;
  most CONSTANT integer := 100;
  changed record;
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE statement INTO changed;
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF changed.name IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'data_exception',
      message = format('column "%s" (%s) of table %s would have %s instead of %s', changed.name, changed.type, plan.target,
                       quote_literal(left(changed.here, most)), quote_literal(left(changed.there, most)));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_values(dataverse_private.copy_plan, text) IS
  'refuses rows with values that a copy would change; for dataverse.pull()';

-- Returns the types of the copy's columns that follow the foreign table: those that
-- are the same, or were the same last time.  A column to which its owner has given
-- another type does not follow.
CREATE FUNCTION dataverse_private.pull_followed(foreign_table regclass, target regclass, columns text[], followed jsonb)
RETURNS jsonb
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(jsonb_object_agg(f.attname, t.type), '{}')
  FROM pg_attribute AS f JOIN pg_attribute AS a ON a.attrelid = $2 AND a.attname = f.attname AND NOT a.attisdropped,
    LATERAL (SELECT format_type(a.atttypid, a.atttypmod)) AS t (type)
  WHERE f.attrelid = $1 AND f.attname = ANY ($3) AND NOT f.attisdropped
    AND (format_type(f.atttypid, f.atttypmod) = t.type OR $4 ->> f.attname::text = t.type)
$$;

COMMENT ON FUNCTION dataverse_private.pull_followed(regclass, regclass, text[], jsonb) IS
  'the types of columns of a copy that follow those of the foreign table; for dataverse.pull()';

-- Gives a column the type that it has in the foreign table.  All rows are read
-- again afterwards, so values that cannot be converted are not needed.  If views or
-- other objects depend on the column, it stays as it is, and the run reports this.
CREATE FUNCTION dataverse_private.pull_retype(
  foreign_table regclass, target text, name text, old_type text, new_type text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  alter CONSTANT text := format('ALTER TABLE %1$s ALTER COLUMN %2$I TYPE %3$s USING ', target, name, new_type);
  why text;
BEGIN
  BEGIN
    EXECUTE alter || format('CAST(%I AS %s)', name, new_type);
  EXCEPTION
    WHEN data_exception OR cannot_coerce THEN
      EXECUTE alter || 'NULL';
  END;
  RETURN true;
EXCEPTION
  -- a lock, a limit, or a failure is temporary
  WHEN transaction_rollback OR insufficient_resources OR object_not_in_prerequisite_state OR operator_intervention OR system_error
    OR internal_error THEN
    RAISE;
  WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
    RAISE WARNING USING
      errcode = '01000',
      message = format('column "%s" of table %s keeps type %s, while that of foreign table %s has type %s: %s', name, target, old_type,
                       foreign_table, new_type, SQLERRM),
      -- before 19, PostgreSQL ends this detail without a period
      detail = concat_ws(E'\n', rtrim(nullif(why, ''), '.') || '.', 'Rows with values that the old type does not admit are refused.'),
      hint = 'Remove the objects that depend on the column.  The next run changes its type and reads all rows again.';
    RETURN false;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_retype(regclass, text, text, text, text) IS
  'changes the type of a copy''s column to that in the foreign table, if possible; for dataverse.pull()';

-- Returns the columns of a table that earlier runs have filled and this one does
-- not fill, whatever their names were then, as long as it is the same table.
CREATE FUNCTION dataverse_private.pull_unfed(state dataverse_private.copies, target regclass, copied text[])
RETURNS text[]
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT ARRAY(
    SELECT a.attname::text FROM pg_attribute AS a
    WHERE a.attrelid = $2 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity <> 'a' AND a.attname <> ALL ($3)
      AND (a.attname = ANY (($1).unfed)
           OR CASE WHEN ($1).numbers[1] = $2::oid::bigint THEN a.attnum = ANY (($1).numbers[2:]) ELSE a.attname = ANY (($1).columns) END)
    ORDER BY a.attnum)
$$;

COMMENT ON FUNCTION dataverse_private.pull_unfed(dataverse_private.copies, regclass, text[]) IS
  'the columns of a copy that no longer get values; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_warn_unfed(foreign_table regclass, target text, unfed text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF unfed <> '{}' THEN
    RAISE WARNING USING
      errcode = '01000',
      message = format('columns of table %s are no longer kept in step: %s', target, array_to_string(unfed, ', ')),
      detail = format('They keep the values of earlier runs, because foreign table %s has no columns of these names, or these columns are not to be copied.',
                      foreign_table),
      hint = format('Copy them, or drop them: ALTER TABLE %s %s;', target,
                    (SELECT string_agg(format('DROP COLUMN %I', u), ', ') FROM unnest(unfed) AS u));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_warn_unfed(regclass, text, text[]) IS
  'warns about columns of a copy that no longer get values; for dataverse.pull()';

-- The preparation of a run: the table of a copy and the statements that bring it
-- up to date, the definitions of the service, and changes since the last run.

-- Creates the table of a copy, with the types, the collations, and the comments of
-- the foreign table.
CREATE FUNCTION dataverse_private.pull_create(
  foreign_table regclass, target text, columns text[], id_column text, deletes text)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  comment record;
BEGIN
  EXECUTE (
    SELECT format('CREATE TABLE %s (%s%s, PRIMARY KEY (%I))', target,
                  string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                                    CASE WHEN a.attcollation <> t.typcollation
                                      THEN ' COLLATE ' || a.attcollation::regcollation::text ELSE '' END),
                             ', ' ORDER BY a.attnum),
                  CASE deletes WHEN 'mark' THEN ', deleted_at timestamptz' ELSE '' END, id_column)
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
    WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped
      AND (columns IS NULL OR a.attname = ANY (columns) OR a.attname = id_column));
  FOR comment IN
    SELECT a.attname, col_description(foreign_table, a.attnum) AS text FROM pg_attribute AS a
    WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped
      AND (columns IS NULL OR a.attname = ANY (columns) OR a.attname = id_column)
      AND col_description(foreign_table, a.attnum) IS NOT NULL
  LOOP
    EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', target, comment.attname, comment.text);
  END LOOP;
  IF obj_description(foreign_table, 'pg_class') IS NOT NULL THEN
    EXECUTE format('COMMENT ON TABLE %s IS %L', target, obj_description(foreign_table, 'pg_class'));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_create(regclass, text, text[], text, text) IS
  'creates the table of a copy; for dataverse.pull()';

-- Adds the statements to a plan.  They run with the caller's search path,
-- which triggers expect, so every name and operator is qualified.  Columns may
-- have the names of aliases, so rows are written as "s.*" and columns are
-- qualified everywhere.  Rows are compared by their binary images, which needs
-- no operators of their types.
CREATE FUNCTION dataverse_private.pull_statements(
  INOUT plan dataverse_private.copy_plan, target regclass, followed jsonb, keyed boolean, deletes text)
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  foreign_table CONSTANT regclass := plan.foreign_table;
  id CONSTANT text := quote_ident(plan.id_column);
  version CONSTANT text := quote_ident(plan.version_column);
  rows CONSTANT text := format('dataverse_private.page_rows(NULL::%s) AS s', foreign_table);
  -- of a set of ids: the same only for the same set
  digest CONSTANT text := 'coalesce(pg_catalog.bit_xor(pg_catalog.uuid_hash_extended(%s, 0)), 0)';
  names text;
  inputs text;
  sets text;
  ours text;
  theirs text;
  new_only text;
  inserts text;
  returns text;
  counted text;
  on_conflict CONSTANT text := format(' ON CONFLICT (%s) DO NOTHING', id);
  whole_row text;
  partition CONSTANT text := (
    SELECT quote_ident(c.name) FROM unnest(plan.column_names, plan.attribute_names) AS c (name, attribute)
    WHERE plan.elastic AND c.attribute = 'partitionid');
BEGIN
  SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c."position"), string_agg(c.input, ', ' ORDER BY c."position"),
         string_agg(format('%I = %s', c.name, c.input), ', ' ORDER BY c."position") FILTER (WHERE quote_ident(c.name) <> id),
         string_agg(format('t.%I', c.name), ', ' ORDER BY c."position") FILTER (WHERE quote_ident(c.name) <> id),
         string_agg(c.stored, ', ' ORDER BY c."position") FILTER (WHERE quote_ident(c.name) <> id),
         array_agg(c.input ORDER BY c."position")
  INTO names, inputs, sets, ours, theirs, plan.inputs
  FROM dataverse_private.pull_conversions(foreign_table, target, plan.columns, followed) AS c;
  IF deletes = 'mark' THEN
    sets := concat_ws(', ', sets, 'deleted_at = NULL');
    ours := concat_ws(', ', ours, 't.deleted_at');
    theirs := concat_ws(', ', theirs, 'NULL::pg_catalog.timestamptz');
  END IF;
  -- OFFSET makes this an index lookup for each row, so that the triggers of the
  -- table see only new rows
  new_only := format('NOT EXISTS (SELECT FROM %s AS x WHERE x.%2$s OPERATOR(pg_catalog.=) s.%2$s OFFSET 0)', target, id);
  -- a row of the type of the foreign table, with the columns that are copied
  SELECT string_agg(CASE WHEN a.attname = ANY (plan.columns) THEN format('f.%I', a.attname) ELSE 'NULL' END, ', ' ORDER BY a.attnum)
  INTO whole_row
  FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped;
  counted := format('WITH i AS (%%s) SELECT pg_catalog.count(*), %s FROM i', format(digest, 'i.id'));
  inserts := format('INSERT INTO %s AS t (%s) SELECT %s FROM %s', target, names, inputs, rows);
  returns := format(' RETURNING t.%s AS id', id);
  plan.backfill := format(counted, inserts || CASE WHEN keyed THEN on_conflict ELSE ' WHERE ' || new_only END || returns);
  plan.fill := CASE WHEN keyed THEN format(counted, inserts || returns) END;
  plan.insert := inserts || ' WHERE ' || new_only || CASE WHEN keyed THEN on_conflict ELSE '' END;
  IF sets IS NOT NULL THEN
    plan.update := format('UPDATE %s AS t SET %s FROM %s WHERE t.%4$s OPERATOR(pg_catalog.=) s.%4$s'
                          ' AND (ROW(%5$s))::record OPERATOR(pg_catalog.*<>) (ROW(%6$s))::record', target, sets, rows, id, ours, theirs);
  END IF;
  plan.delete := CASE deletes
    WHEN 'delete' THEN format('DELETE FROM %s AS t USING dataverse_private.page_deletions() AS d (id)'
                              ' WHERE t.%s OPERATOR(pg_catalog.=) d.id', target, id)
    WHEN 'mark' THEN format('UPDATE %s AS t SET deleted_at = pg_catalog.clock_timestamp() FROM dataverse_private.page_deletions() AS d (id)'
                            ' WHERE t.%s OPERATOR(pg_catalog.=) d.id AND t.deleted_at IS NULL', target, id) END;
  plan.page_ids := format('SELECT ARRAY(SELECT s.%s FROM %s UNION ALL SELECT d FROM dataverse_private.page_deletions() AS d)', id, rows);
  plan.versions := format('SELECT coalesce(array_agg(e.id), ''{}''), coalesce(array_agg(e.version), ''{}'') FROM (SELECT s.%s, %s FROM %s'
                          ' UNION ALL SELECT d, NULL FROM dataverse_private.page_deletions() AS d) AS e (id, version)',
                          id, coalesce('s.' || version, 'NULL::bigint'), rows);
  IF version IS NOT NULL THEN
    plan.outdated := format('SELECT EXISTS (SELECT FROM %1$s JOIN %2$s AS t ON t.%3$s OPERATOR(pg_catalog.=) s.%3$s'
                            ' WHERE t.%4$s OPERATOR(pg_catalog.<>) s.%4$s AND s.%3$s OPERATOR(pg_catalog.<>) ALL ($1))', rows, target, id, version);
  END IF;
  plan.entry := format(
    'SELECT s.%s AS id, false AS deleted, %s AS image FROM %s UNION ALL SELECT d, true, NULL FROM dataverse_private.page_deletions() AS d', id,
    CASE plan.on_error WHEN 'continue' THEN
      format('(SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(to_jsonb(s.*)) AS e WHERE e.key = ANY (%L))', plan.columns)
    ELSE 'NULL::jsonb' END, rows);
  plan.changed := dataverse_private.pull_changed_statement(foreign_table, target, plan.columns, followed);
  IF partition IS NOT NULL THEN
    plan.twice := 'SELECT array_agg(v.id) FROM (SELECT r AS id FROM dataverse_private.page_repeated() AS r'
      || CASE WHEN partition = ANY (ARRAY(SELECT quote_ident(c) FROM unnest(plan.columns) AS c)) THEN
           format(' UNION ALL SELECT s.%1$s FROM %2$s WHERE EXISTS (SELECT FROM %3$s AS t WHERE t.%1$s = s.%1$s'
                  ' AND t.%4$s::text COLLATE "C" IS DISTINCT FROM s.%4$s::text COLLATE "C" OFFSET 0)', id, rows, target, partition)
         ELSE '' END || ') AS v';
    plan.partitions := format('SELECT pg_catalog.min(v.id::text) AS id, pg_catalog.string_agg(v.p, '', '' ORDER BY v.p) AS names'
                              ' FROM (SELECT DISTINCT f.%1$s AS id, f.%2$s::text AS p FROM ONLY %3$s AS f WHERE f.%1$s = ANY ($1)) AS v'
                              ' GROUP BY v.id HAVING count(*) > 1 ORDER BY 1 LIMIT 1', id, partition, foreign_table);
  END IF;
  plan.read := format('SELECT pg_catalog.count(dataverse_private.page_add(f.%1$s, ROW(%2$s)::%3$s)) FROM ONLY %3$s AS f'
                      ' WHERE f.%1$s OPERATOR(pg_catalog.=) ANY ($1)', id, whole_row, foreign_table);
  plan.there := format('SELECT ARRAY(SELECT f.%1$s FROM ONLY %2$s AS f WHERE f.%1$s OPERATOR(pg_catalog.=) ANY ($1))', id, foreign_table);
  plan.lock := format('SELECT pg_catalog.count(*) FROM (SELECT FROM %1$s AS t WHERE t.%2$s OPERATOR(pg_catalog.=) ANY ($1)'
                      ' ORDER BY t.%2$s FOR NO KEY UPDATE) AS l', target, id);
  plan.ids := format(
    'SELECT dataverse_private.copy_note_ids($1, pg_catalog.array_agg(s.%s), pg_catalog.array_agg(%s)) FROM %s HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0',
    id, coalesce('s.' || version, 'NULL::pg_catalog.int8'), rows);
  IF deletes <> 'ignore' THEN
    plan.ghosts := format(
      'SELECT ARRAY(SELECT t.%1$s FROM %2$s AS t WHERE %3$sNOT EXISTS (SELECT FROM dataverse_private.copy_ids_of($1) AS i'
      ' WHERE i.id OPERATOR(pg_catalog.=) t.%1$s) AND NOT EXISTS (SELECT FROM %4$s WHERE s.%1$s OPERATOR(pg_catalog.=) t.%1$s))',
      id, target, CASE deletes WHEN 'mark' THEN 't.deleted_at IS NULL AND ' ELSE '' END, rows);
  END IF;
  plan.differing := format(
    'SELECT pg_catalog.array_agg(i.id) FROM dataverse_private.copy_ids_of($1) AS i LEFT JOIN %s AS t'
    ' ON t.%2$s OPERATOR(pg_catalog.=) i.id'
    ' WHERE t.%2$s IS NULL OR (ROW(t.%3$s%4$s))::record OPERATOR(pg_catalog.*<>) (ROW(i.version%5$s))::record', target, id, version,
    CASE deletes WHEN 'mark' THEN ', t.deleted_at' ELSE '' END, CASE deletes WHEN 'mark' THEN ', NULL::pg_catalog.timestamptz' ELSE '' END);
  plan.went_back := format('SELECT EXISTS (SELECT FROM dataverse_private.copy_ids_of($1) AS i JOIN %s AS t ON t.%s OPERATOR(pg_catalog.=) i.id'
                           ' WHERE i.version OPERATOR(pg_catalog.<) t.%s)', target, id, version);
  plan.digest := format('SELECT %s FROM %s AS t', format(digest, 't.' || id), target);
  plan.greatest := format('SELECT pg_catalog.max(t.%s) FROM %s AS t', version, target);
  plan.existing := format('SELECT pg_catalog.array_agg(t.%2$s) FROM %1$s AS t JOIN dataverse_private.pending_ids($1, ''{taken}'') AS p (id)'
                          ' ON p.id OPERATOR(pg_catalog.=) t.%2$s', target, id);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_statements(dataverse_private.copy_plan, regclass, jsonb, boolean, text) IS
  'the statements that bring a copy up to date; for dataverse.pull()';

-- A server can be altered, and a foreign table recreated for another one.  Rows
-- read before, tokens, and versions would then be those of another service.
CREATE FUNCTION dataverse_private.pull_source_address(foreign_table regclass)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT rtrim(lower(o.option_value), '/') FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver,
    pg_options_to_table(s.srvoptions) AS o
  WHERE t.ftrelid = $1 AND o.option_name = 'url'
$$;

COMMENT ON FUNCTION dataverse_private.pull_source_address(regclass) IS
  'the address of the service that a foreign table is in; for dataverse.pull() and push()';

-- Returns the definitions of the service: whether changes are tracked, and ids and types of the
-- columns that are copied, by their local names, and which of them cannot be set when a row is
-- created, or only then.  Recreated tables and columns have other ids.
CREATE FUNCTION dataverse_private.pull_schema(plan dataverse_private.copy_plan, OUT tracked boolean, OUT schema jsonb)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  path CONSTANT text := format('EntityDefinitions(LogicalName=''%s'')?$select=MetadataId,ChangeTrackingEnabled'
                               '&$expand=Attributes($select=LogicalName,AttributeType,MetadataId,IsValidForCreate,IsValidForUpdate)', plan.logical_name);
  most CONSTANT integer := 5;
  definition jsonb;
BEGIN
  -- an answer that was damaged in transit is requested again, like pages
  FOR attempt IN 1 .. most LOOP
    BEGIN
      definition := dataverse.request(plan.server, 'GET', path);
    EXCEPTION
      WHEN data_exception THEN
        definition := NULL;
    END;
    EXIT WHEN definition ->> 'MetadataId' IS NOT NULL AND jsonb_typeof(definition -> 'Attributes') = 'array';
    IF attempt = most THEN
      RAISE EXCEPTION USING
        errcode = 'fdw_unable_to_create_reply',
        message = format('could not read the definition of table "%s": an answer from Dataverse did not have the expected form', plan.logical_name);
    END IF;
  END LOOP;
  tracked := coalesce((definition ->> 'ChangeTrackingEnabled')::boolean, false);
  SELECT jsonb_object_agg(c.name, concat_ws(' ', c.attribute, a.value ->> 'MetadataId', a.value ->> 'AttributeType',
                                               CASE WHEN NOT (a.value ->> 'IsValidForCreate')::boolean THEN 'update'
                                                    WHEN NOT (a.value ->> 'IsValidForUpdate')::boolean THEN 'create' END))
    || jsonb_build_object('', concat_ws(' ', plan.logical_name, definition ->> 'MetadataId'))
  INTO schema
  FROM unnest(plan.column_names, plan.attribute_names) AS c (name, attribute)
    LEFT JOIN jsonb_array_elements(definition -> 'Attributes') AS a (value) ON a.value ->> 'LogicalName' = c.attribute
  WHERE c.name = ANY (plan.columns);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_schema(dataverse_private.copy_plan) IS
  'the current definition of a table in Dataverse; for dataverse.pull()';

-- Handles definitions that differ from those of the previous run: if the table or a
-- column was recreated, our copy is stale, which the rows do not show.  Returns
-- true if everything has to be read again.
CREATE FUNCTION dataverse_private.pull_drifted(
  INOUT state dataverse_private.copies, plan dataverse_private.copy_plan, tracked boolean, schema jsonb, metadata text,
  OUT drifted boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  other CONSTANT text[] := ARRAY(SELECT e.key FROM jsonb_each_text(state.schema) AS e
                        WHERE e.value IS DISTINCT FROM schema ->> e.key AND schema ? e.key ORDER BY 1);
  anew CONSTANT boolean := '' = ANY (other);
  -- columns that stand for other ones of the same table now
  exchanged CONSTANT text[] := ARRAY(SELECT o FROM unnest(other) AS o
                                     WHERE NOT anew AND (string_to_array(state.schema ->> o, ' '))[:2] <> (string_to_array(schema ->> o, ' '))[:2]);
  -- change tracking is available from now on
  follow CONSTANT boolean := tracked AND NOT state.tracked AND NOT state.tracking_refused;
BEGIN
  state.schema := schema;
  state.metadata := coalesce(metadata, state.metadata);
  state.tracking_refused := state.tracking_refused AND tracked;
  drifted := other <> '{}' OR follow;
  IF NOT drifted THEN
    RETURN;
  END IF;
  IF other <> '{}' THEN
    IF plan.drift = 'stop' THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('the definition of foreign table %s in Dataverse has changed since its rows were copied',
                         plan.foreign_table),
        detail = CASE WHEN anew THEN 'The table has been deleted and re-created.'
                 ELSE format('Deleted or re-created: %s.', array_to_string(other, ', ')) END,
        hint = 'Call dataverse.pull() with drift => ''add'' or drift => ''ignore''.';
    END IF;
    RAISE NOTICE USING
      message = format('reading all rows of foreign table %s again, because Dataverse has a new definition of %s',
                       plan.foreign_table,
                       CASE WHEN anew THEN 'the table' ELSE array_to_string(other, ', ') END);
    PERFORM dataverse_private.pending_disown(state.id, exchanged);
  END IF;
  PERFORM dataverse_private.end_pages();
  PERFORM dataverse_private.copy_note_ids(state.id, NULL, NULL);
  IF anew OR follow THEN
    state := dataverse_private.copy_without_token(state);
    state.tracked := tracked;
  END IF;
  state := dataverse_private.copy_to_compare(state, other <> '{}' OR plan.version_column IS NULL);
  state.again := state.again OR state.token IS NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_drifted(dataverse_private.copies, dataverse_private.copy_plan, boolean, jsonb, text) IS
  'determines the effect of changed definitions in Dataverse on a copy; for dataverse.pull()';

-- Reads once a day how long tokens are valid, and warns if the copy's token is old.
CREATE FUNCTION dataverse_private.pull_token_life(
  INOUT state dataverse_private.copies, plan dataverse_private.copy_plan)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  age CONSTANT interval := clock_timestamp() - state.token_at;
BEGIN
  IF coalesce(state.token_life_at < clock_timestamp() - interval '1 day', true) THEN
    BEGIN
      state.token_life := make_interval(days => (dataverse.request(
        plan.server, 'GET', 'organizations?$select=expirechangetrackingindays')
        -> 'value' -> 0 ->> 'expirechangetrackingindays')::integer);
    EXCEPTION
      -- without the privilege, no warning is given
      WHEN OTHERS THEN
        NULL;
    END;
    state.token_life_at := clock_timestamp();
  END IF;
  IF age > state.token_life / 2 THEN
    RAISE WARNING USING
      errcode = '01000',
      message = format('the last run that brought %s up to date ended %s ago, and tokens of change tracking expire after %s',
                       plan.target, date_trunc('minute', age), state.token_life),
      hint = format('After that time, all ids and versions have to be compared.  Schedule dataverse.pull() more often than every %s,'
                    ' for example once a day: %s;', state.token_life / 2,
                    format('SELECT cron.schedule(%L, ''0 3 * * *'', %L)', 'pull ' || plan.target,
                           format('CALL dataverse.pull(%L, %L)', plan.foreign_table, plan.target)));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_token_life(dataverse_private.copies, dataverse_private.copy_plan) IS
  'the lifetime of tokens of change tracking; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_check_id(relation regclass, id_column text, kind text)
RETURNS void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  actual CONSTANT text := (SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a
                           WHERE a.attrelid = relation AND a.attname = id_column);
BEGIN
  IF EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attname = id_column AND a.atttypid <> 'uuid'::regtype) THEN
    RAISE EXCEPTION USING
      errcode = 'datatype_mismatch',
      message = format('column "%s" of %s %s has type %s rather than uuid', id_column, lower(kind), relation, actual),
      hint = 'Rows are identified by their ids, which are of type uuid in Dataverse.  '
        || CASE WHEN kind = 'TABLE' AND actual <> 'text' AND actual NOT LIKE 'char%' THEN 'Name a table whose column has that type, or one that does not exist yet.'
           ELSE format('Change the column: ALTER %s %s ALTER COLUMN %I TYPE uuid%s;', kind, relation, id_column,
                       CASE kind WHEN 'TABLE' THEN format(' USING %I::uuid', id_column) ELSE '' END) END;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_id(regclass, text, text) IS
  'refuses tables whose ids are not of type uuid; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_is_empty(target text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $$
DECLARE
  filled boolean;
BEGIN
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', target) INTO filled;
  RETURN NOT filled;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_is_empty(text) IS
  'whether a table has no rows; for dataverse.pull()';

-- Returns the files that contain the rows of a table.  A file disappears by
-- TRUNCATE, when its partition is dropped, or when the table is rewritten.
CREATE FUNCTION dataverse_private.pull_storage(target regclass)
RETURNS bigint[]
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE t (oid) AS (
    SELECT $1::oid
    UNION SELECT h.inhrelid FROM t JOIN pg_inherits AS h ON h.inhparent = t.oid)
  SELECT coalesce(array_agg(c.relfilenode::bigint ORDER BY c.relfilenode), '{}') FROM t JOIN pg_class AS c USING (oid) WHERE c.relfilenode <> 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_storage(regclass) IS
  'the files of a table, which show that it was emptied; for dataverse.pull()';

-- Rows that a policy hides would seem to be missing.
CREATE FUNCTION dataverse_private.pull_check_policies(target regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF row_security_active(target) THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('row security of table %s applies to role %I', target, CURRENT_USER),
      detail = 'Rows hidden by a policy could not be kept in step.',
      hint = format('Call dataverse.pull() as a role with BYPASSRLS, or as the owner of the table after ALTER TABLE %s NO FORCE ROW LEVEL SECURITY;',
                    target);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_policies(regclass) IS
  'refuses a table whose policies apply to the caller; for dataverse.pull()';

-- A foreign table may be dropped or altered while a run waits, or another one may get
-- its name.  page_start() locks it and checks its types.
CREATE FUNCTION dataverse_private.pull_check_source(plan dataverse_private.copy_plan)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF to_regclass(plan.source) = plan.foreign_table THEN
    PERFORM dataverse_private.page_start(plan.foreign_table);
  END IF;
  IF to_regclass(plan.source) IS DISTINCT FROM plan.foreign_table THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_table',
      message = format('foreign table %s was dropped, renamed, or replaced by another one during the run', plan.source),
      hint = 'Call the procedure again with the new foreign table.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_source(dataverse_private.copy_plan) IS
  'refuses a foreign table other than the one with which the run began; for dataverse.pull()';

-- The caller has not named the tables of dataverse.pull_all(), so no role has agreed
-- to run their code.
CREATE FUNCTION dataverse_private.pull_guard(named boolean)
RETURNS void
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
AS $$ SELECT pg_catalog.set_config('dataverse_fdw.guard', CASE WHEN $1 THEN 'superusers' ELSE 'everybody' END, true) $$;

COMMENT ON FUNCTION dataverse_private.pull_guard(boolean) IS
  'which roles the calling function protects from the code of other roles; for dataverse.pull() and pull_all()';

-- Nor may superusers fill tables of other roles that they have not named with rows
-- that these roles may not read.
CREATE FUNCTION dataverse_private.pull_stranger(target regclass)
RETURNS void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  owner CONSTANT name := (
    SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c JOIN pg_roles AS r ON r.rolname = CURRENT_USER
    WHERE c.oid = target AND r.rolsuper AND NOT pg_has_role(c.relowner, r.oid, 'MEMBER'));
BEGIN
  IF owner IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('the table belongs to role "%s"', owner),
      detail = format('Its triggers and other code would gain the rights of role "%s".', CURRENT_USER),
      hint = format('Call the procedure as that role (SET ROLE %I;), or dataverse.pull() for this table.', owner);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_stranger(regclass) IS
  'refuses a table of another role that a superuser has not named; for dataverse.pull_all()';

-- The preparation of a run is valid for the table that it has locked: since then,
-- no other table has replaced it, and it has got no policies.  Neither can happen
-- before the step is committed.
CREATE FUNCTION dataverse_private.pull_check_target(copy bigint, plan dataverse_private.copy_plan)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  target CONSTANT regclass := plan.target;
BEGIN
  IF (dataverse_private.copy_get(copy)).target_oid IS DISTINCT FROM target THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s was replaced by another one during the run', plan.target),
      hint = 'Call the procedure again to read all rows.';
  END IF;
  IF NOT plan.named THEN
    PERFORM dataverse_private.pull_stranger(target);
  END IF;
  PERFORM dataverse_private.hold(plan.target, target);
  PERFORM dataverse_private.pull_check_policies(target);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_target(bigint, dataverse_private.copy_plan) IS
  'refuses a table that is not as it was when the run began; for dataverse.pull()';

-- Prepares a run: creates the table, or examines its contents; decides what to read.
CREATE FUNCTION dataverse_private.pull_prepare(
  copy bigint, foreign_table regclass, target text, columns text[], deletes text, drift text, "full" boolean,
  sweep interval,
  on_error text, named boolean)
RETURNS dataverse_private.copy_plan
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
AS $$
DECLARE
  plan dataverse_private.copy_plan;
  state dataverse_private.copies := dataverse_private.copy_get(copy);
  address CONSTANT text := dataverse_private.pull_source_address(foreign_table);
  wanted text[];
  new_columns text[];
  gone text[];
  numbers bigint[];
  types_here text[];
  adapted text[] := '{}';
  remade text[];
  missing text;
  alterations text;
  reread boolean := "full";
  retyped record;
  defined record;
  drifted record;
  keyed boolean;
  indexed boolean;
BEGIN
  PERFORM dataverse_private.pull_guard(named);
  SELECT i.server, i.logical_name, i.entity_set, i.id_column, i.version_column, i.version_column IS NOT NULL, i.elastic, i.column_names, i.attribute_names
  INTO plan.server, plan.logical_name, plan.entity_set, plan.id_column, plan.version_column, plan.can_follow, plan.elastic, plan.column_names, plan.attribute_names
  FROM dataverse_private.pull_info(foreign_table) AS i;
  plan.foreign_table := foreign_table;
  plan.source := foreign_table::text;
  plan.target := target;
  plan.drift := drift;
  plan.on_error := on_error;
  plan.named := named;
  IF plan.id_column IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = format('foreign table %s has no column for the ids of its rows', foreign_table),
      hint = 'Import the table again, or add the column.';
  END IF;
  SELECT array_agg(a.attname::text ORDER BY a.attnum) INTO wanted FROM pg_attribute AS a
  WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped
    AND (columns IS NULL OR a.attname = ANY (columns) OR a.attname = plan.id_column);
  SELECT c INTO missing FROM unnest(columns) AS c WHERE c <> ALL (wanted) LIMIT 1;
  IF missing IS NOT NULL OR EXISTS (SELECT FROM unnest(columns) AS c WHERE c IS NULL) THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = coalesce(CASE WHEN missing IS NOT NULL THEN format('column "%s" of foreign table %s does not exist', missing, foreign_table) END,
                         '"columns" contains a null'),
      hint = 'The argument "columns" takes names of columns of the foreign table, as in ''{name,revenue}''.';
  END IF;
  IF to_regclass(target) IS NULL THEN
    state := dataverse_private.copy_begin_anew(copy, foreign_table);
    PERFORM dataverse_private.pull_create(foreign_table, target, columns, plan.id_column, deletes);
    state.known := wanted;
  ELSIF coalesce(state.foreign_oid, 0) <> foreign_table AND state.foreign_table <> foreign_table::text THEN
    -- another session has created it after this one has checked
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s is a copy of another foreign table, %s', target, state.foreign_table),
      hint = 'Name another table.';
  END IF;

  -- compare the columns with those of the last run
  IF state.known = '{}' THEN
    state.known := wanted;
  END IF;
  new_columns := ARRAY(SELECT w FROM unnest(wanted) AS w WHERE w <> ALL (state.known));
  gone := ARRAY(SELECT k FROM unnest(state.known) AS k WHERE k <> ALL (wanted));
  IF drift = 'stop' AND (new_columns <> '{}' OR gone <> '{}') THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('the columns of foreign table %s have changed since they were copied', foreign_table),
      detail = concat_ws('  ', 'New columns: ' || nullif(array_to_string(new_columns, ', '), '') || '.',
                         'Missing columns: ' || nullif(array_to_string(gone, ', '), '') || '.'),
      hint = 'Call dataverse.pull() with drift => ''add'' or drift => ''ignore''.';
  END IF;
  IF drift = 'add' THEN
    SELECT string_agg(format('ADD COLUMN %I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                             CASE WHEN a.attcollation <> t.typcollation
                               THEN ' COLLATE ' || a.attcollation::regcollation::text ELSE '' END), ', ')
    INTO alterations
    FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
    WHERE a.attrelid = foreign_table AND a.attname = ANY (new_columns)
      AND NOT EXISTS (SELECT FROM pg_attribute AS b
                      WHERE b.attrelid = to_regclass(target) AND b.attname = a.attname AND NOT b.attisdropped);
    IF alterations IS NOT NULL THEN
      EXECUTE format('ALTER TABLE %s %s', target, alterations);
    END IF;
  END IF;

  -- columns whose types have changed since they were read
  FOR retyped IN
    SELECT o.name, o.type AS old_type, format_type(a.atttypid, a.atttypmod) AS new_type
    FROM unnest(state.columns, state.types) AS o (name, type)
      JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = o.name AND NOT a.attisdropped
    WHERE o.type <> format_type(a.atttypid, a.atttypmod)
  LOOP
    IF drift = 'stop' THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('column "%s" of foreign table %s now has type %s', retyped.name, foreign_table, retyped.new_type),
        detail = format('It was copied as %s.', retyped.old_type),
        hint = 'Call dataverse.pull() with drift => ''add'' or drift => ''ignore''.';
    END IF;
    reread := true;
  END LOOP;
  -- whenever that was
  FOR retyped IN
    SELECT w AS name, format_type(a.atttypid, a.atttypmod) AS old_type, format_type(f.atttypid, f.atttypmod) AS new_type
    FROM unnest(wanted) AS w
      JOIN pg_attribute AS f ON f.attrelid = foreign_table AND f.attname = w AND NOT f.attisdropped
      JOIN pg_attribute AS a ON a.attrelid = to_regclass(target) AND a.attname = w AND NOT a.attisdropped
    WHERE drift = 'add' AND state.followed ->> w = format_type(a.atttypid, a.atttypmod)
      AND format_type(f.atttypid, f.atttypmod) <> format_type(a.atttypid, a.atttypmod)
  LOOP
    IF dataverse_private.pull_retype(foreign_table, target, retyped.name, retyped.old_type, retyped.new_type) THEN
      reread := true;
      adapted := adapted || retyped.name;
      -- this has rewritten the table, but nothing is lost
      state.storage := dataverse_private.pull_storage(target);
    END IF;
  END LOOP;

  -- columns of the same names, except those that the table generates
  SELECT array_agg(w ORDER BY i), array_agg(format_type(f.atttypid, f.atttypmod) ORDER BY i) INTO plan.columns, plan.types
  FROM unnest(wanted) WITH ORDINALITY AS u (w, i)
    JOIN pg_attribute AS f ON f.attrelid = foreign_table AND f.attname = w
    JOIN pg_attribute AS a ON a.attrelid = to_regclass(target) AND a.attname = w AND NOT a.attisdropped
      AND a.attgenerated = '' AND a.attidentity <> 'a'
  WHERE drift <> 'ignore' OR w = ANY (state.known);
  IF plan.columns IS NULL OR plan.id_column <> ALL (plan.columns) THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('table %s has no column "%s"', target, plan.id_column),
      hint = format('Rows are identified by it.  Add it: ALTER TABLE %s ADD COLUMN %I uuid UNIQUE;', target, plan.id_column);
  END IF;
  PERFORM dataverse_private.pull_check_id(foreign_table, plan.id_column, 'FOREIGN TABLE');
  PERFORM dataverse_private.pull_check_id(to_regclass(target), plan.id_column, 'TABLE');
  -- a unique index on a partitioned table must include the partition key
  SELECT coalesce(bool_or(x.indisunique AND x.indimmediate AND x.indnkeyatts = 1), false), bool_or(true)
  INTO keyed, indexed
  FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
  WHERE x.indrelid = to_regclass(target) AND x.indisvalid AND x.indpred IS NULL AND a.attname = plan.id_column
    AND a.atttypid = 'uuid'::regtype;
  IF NOT keyed AND NOT (coalesce(indexed, false) AND EXISTS (
    SELECT FROM pg_partitioned_table AS p JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attname = plan.id_column
    WHERE p.partrelid = to_regclass(target) AND a.attnum <> ALL (p.partattrs::int2[])))
  THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s has no unique index on column "%s" of type uuid alone', target, plan.id_column),
      hint = format('Rows are identified by it.  Create it: CREATE UNIQUE INDEX ON %s (%I);', target, plan.id_column)
        || CASE WHEN EXISTS (SELECT FROM pg_partitioned_table AS p WHERE p.partrelid = to_regclass(target))
           THEN '  If the table is partitioned by other columns, a non-unique index suffices.' ELSE '' END;
  END IF;
  PERFORM dataverse_private.pull_check_policies(to_regclass(target));
  IF deletes = 'mark' AND NOT EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid = to_regclass(target) AND a.attname = 'deleted_at'
      AND NOT a.attisdropped AND a.atttypid = 'timestamptz'::regtype)
  THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('table %s has no column "deleted_at" of type timestamptz', target),
      hint = format('It marks deleted rows.  Add it: ALTER TABLE %s ADD COLUMN deleted_at timestamptz;', target);
  END IF;
  -- versions can be compared only if both sides have them, as bigint
  IF plan.version_column <> ALL (plan.columns) OR EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid IN (foreign_table, to_regclass(target)) AND a.attname = plan.version_column
      AND a.atttypid <> 'int8'::regtype)
  THEN
    plan.version_column := NULL;
  END IF;

  -- Change tracking does not tell that rows were removed locally, or lost in a
  -- crash, which may have come before the end of the first run.
  IF (state.filled OR ((state.phase <> 'backfill' OR state.link IS NOT NULL) AND EXISTS (
        SELECT FROM pg_class AS c WHERE c.oid = to_regclass(target) AND c.relpersistence = 'u')))
     AND dataverse_private.pull_is_empty(target)
  THEN
    RAISE NOTICE USING message = format('reading all rows of foreign table %s again, because table %s is empty', foreign_table, target);
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    state := dataverse_private.copy_without_token(state);
    state.phase := 'backfill';
    state := dataverse_private.copy_to_reread(state, false);
    state.again := false;
    state.filled := false;
  END IF;
  IF state.source <> address THEN
    RAISE NOTICE USING message = format('reading all rows of foreign table %s again, because they were read from %s, but its server is now %s',
                                        foreign_table, state.source, address);
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    state := dataverse_private.copy_to_reread(dataverse_private.copy_without_token(state), true);
    state.again := true;
    state.token_life_at := NULL;
    state.tracked := NULL;
    state.schema := NULL;
    state.metadata := NULL;
  END IF;
  state.source := address;
  -- Pages say whether definitions have changed since these were read.
  IF "full" THEN
    state.tracking_refused := false;
  END IF;
  -- The foreign table says which columns of Dataverse its columns stand for.
  IF state.tracked IS NULL OR state.schema IS NULL OR state.columns <> plan.columns OR "full"
    OR split_part(state.schema ->> '', ' ', 1) <> plan.logical_name
    OR EXISTS (SELECT FROM unnest(plan.column_names, plan.attribute_names) AS c (name, attribute)
               WHERE c.name = ANY (plan.columns) AND split_part(state.schema ->> c.name, ' ', 1) <> c.attribute)
  THEN
    SELECT * INTO defined FROM dataverse_private.pull_schema(plan);
    IF state.tracked IS NULL THEN
      state.tracked := defined.tracked;
    ELSIF state.schema IS NOT NULL THEN
      drifted := dataverse_private.pull_drifted(state, plan, defined.tracked, defined.schema, NULL);
      state := drifted.state;
    END IF;
    state.schema := defined.schema;
  END IF;
  -- columns that were dropped and added again are empty, and a change of type may have changed
  -- values
  SELECT to_regclass(target)::oid::bigint || array_agg(a.attnum::bigint ORDER BY u.i), array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY u.i)
  INTO numbers, types_here
  FROM unnest(plan.columns) WITH ORDINALITY AS u (c, i) JOIN pg_attribute AS a ON a.attrelid = to_regclass(target) AND a.attname = u.c;
  IF state.numbers[1] = numbers[1] THEN
    remade := (SELECT array_agg(c.name) FROM unnest(state.columns, state.numbers[2:], state.types_here) AS o (name, number, type)
                 JOIN unnest(plan.columns, numbers[2:], types_here) AS c (name, number, type)
                 ON c.name = o.name AND (c.number <> o.number OR c.type <> o.type AND c.name <> ALL (adapted)));
    PERFORM dataverse_private.pending_disown(copy, array_agg(c.name))
    FROM unnest(state.columns, state.numbers[2:]) AS o (name, number)
      JOIN unnest(plan.columns, numbers[2:]) AS c (name, number) ON c.name = o.name AND c.number <> o.number;
  END IF;
  IF remade IS NOT NULL THEN
    RAISE NOTICE USING message = format('reading all rows of foreign table %s again, because columns of table %s were re-created or changed type: %s',
                                        foreign_table, target, array_to_string(remade, ', '));
  END IF;
  state.followed := dataverse_private.pull_followed(foreign_table, to_regclass(target), plan.columns, state.followed);
  state.unfed := dataverse_private.pull_unfed(state, to_regclass(target), plan.columns);
  PERFORM dataverse_private.pull_warn_unfed(foreign_table, target, state.unfed);
  reread := reread OR remade IS NOT NULL OR EXISTS (SELECT FROM unnest(plan.columns) AS u (w) WHERE w <> ALL (state.columns));
  -- an interrupted full read continues, unless it has to read other columns
  IF state.phase <> 'backfill' AND reread AND NOT (state.phase = 'compare' AND state.whole AND state.columns = plan.columns
                                                   AND state.types = plan.types AND remade IS NULL) THEN
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    state := dataverse_private.copy_to_compare(state, true);
    state.again := state.again OR state.token IS NULL;
  ELSIF state.phase = 'backfill' AND (state.columns <> plan.columns OR state.types <> plan.types OR remade IS NOT NULL)
    OR state.columns <> plan.columns AND (state.phase <> 'compare' OR state.whole)
  THEN
    -- links of a page that was requested with other columns lead to pages with those
    state.link := NULL;
  ELSIF state.phase = 'current' AND state.compared_at + coalesce(
    sweep, CASE WHEN plan.elastic OR NOT state.tracked THEN interval '1 day' END) <= clock_timestamp()
  THEN
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    state := dataverse_private.copy_to_compare(state, plan.version_column IS NULL);
  END IF;
  IF state.tracked THEN
    state := dataverse_private.pull_token_life(state, plan);
  END IF;
  state.columns := plan.columns;
  state.types := plan.types;
  state.numbers := numbers;
  state.types_here := types_here;
  IF drift <> 'ignore' THEN
    state.known := wanted;
  END IF;
  PERFORM dataverse_private.copy_put(state);
  -- the index does not include rows of children
  keyed := keyed AND NOT EXISTS (SELECT FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
                                 WHERE h.inhparent = to_regclass(target) AND NOT c.relispartition);
  -- made anew, because the plan outlives the transaction, and so must not refer to values in tables
  plan.schema := (SELECT jsonb_object_agg(d.key, d.value) FROM jsonb_each(state.schema) AS d WHERE d.key = ANY (plan.columns));
  RETURN dataverse_private.pull_statements(plan, to_regclass(target), state.followed, keyed, deletes);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_prepare(bigint, regclass, text, text[], text, text, boolean, interval, text, boolean) IS
  'creates or checks the table of a copy, and determines which rows have to be read; for dataverse.pull()';

-- The steps of a run between two commits: merging a page, comparing ids, retrying
-- refused rows.

-- Returns true if this error concerns individual rows, so that others may be accepted:
-- values, constraints, and errors of triggers, including SQLSTATEs of classes that
-- PostgreSQL does not use.
CREATE FUNCTION dataverse_private.pull_is_row_error("sqlstate" text)
RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT left($1, 2) IN ('09', '20', '21', '22', '23', '27', '2F', '38', '39', '44', '54', 'P0')
    OR left($1, 2) NOT IN ('00', '01', '02', '03', '08', '0A', '0B', '0F', '0L', '0P', '0Z', '24', '25', '26', '28', '2B', '2D',
                           '34', '3B', '3D', '3F', '40', '42', '53', '55', '57', '58', '72', 'DV', 'F0', 'HV', 'XX')
$$;

COMMENT ON FUNCTION dataverse_private.pull_is_row_error(text) IS
  'whether an error concerns single rows rather than the whole statement; for dataverse.pull()';

-- Removes locally changed rows from the page.  Rows are locked first, and then
-- the log is read: earlier changes are in the log by then, and later ones wait
-- for the end of this transaction.
CREATE FUNCTION dataverse_private.pull_spare(copy bigint, plan dataverse_private.copy_plan, phase text, locks boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
-- a page has few rows of the table
SET random_page_cost = 1.1
AS $$
DECLARE
  ids uuid[];
  versions bigint[];
BEGIN
  EXECUTE plan.versions INTO ids, versions;
  IF locks THEN
    EXECUTE plan.lock USING ids;
  END IF;
  -- rows that are being settled are pending themselves
  IF phase = 'land' THEN
    ids := ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d);
  ELSE
    PERFORM dataverse_private.sync_take(copy, plan);
    PERFORM dataverse_private.pending_told(copy, ids, versions);
    ids := dataverse_private.pending_among(copy, ids);
  END IF;
  IF ids <> '{}' THEN
    PERFORM dataverse_private.page_leave_out(ids);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_spare(bigint, dataverse_private.copy_plan, text, boolean) IS
  'prevents rows that were changed locally from being merged; for dataverse.pull()';

-- Merges entries of the page.  Statements run as the caller would run them: with
-- the caller's search path, and with few rows looked up in the index rather than
-- joined with all of them.  Deferred constraints are checked now, because at the
-- COMMIT it would not be known which row violates them.
--
-- Looking up a row before it is inserted takes as long as inserting it.  So a first read
-- of a table that was empty ("fill") assumes that its rows are new.
CREATE FUNCTION dataverse_private.pull_merge_window(
  copy bigint, plan dataverse_private.copy_plan, path text, phase text, captured boolean, first bigint, n bigint,
  OUT "rows" bigint, OUT upserts bigint, OUT inserted bigint, OUT digest bigint, OUT updated bigint, OUT deleted bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.capture = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  -- in the caller's search path, operators may belong to any role
  first_read CONSTANT text := CASE phase WHEN 'fill' THEN plan.fill WHEN 'backfill' THEN plan.backfill END;
BEGIN
  SELECT w.upserts, w.upserts + w.deletions INTO upserts, rows FROM dataverse_private.page_window(first, n) AS w;
  inserted := 0;
  digest := 0;
  updated := 0;
  deleted := 0;
  IF upserts > 0 THEN
    PERFORM set_config('search_path', path, true);
    IF first_read IS NOT NULL THEN
      EXECUTE first_read INTO inserted, digest;
    ELSE
      EXECUTE plan.insert;
      GET DIAGNOSTICS inserted = ROW_COUNT;
    END IF;
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF inserted < upserts AND plan.update IS NOT NULL THEN
      -- some may just have been inserted
      IF captured THEN
        PERFORM dataverse_private.pull_spare(copy, plan, phase, false);
      END IF;
      PERFORM set_config('search_path', path, true);
      EXECUTE plan.update;
      GET DIAGNOSTICS updated = ROW_COUNT;
      SET LOCAL search_path = pg_catalog, pg_temp;
    END IF;
    IF plan.changed IS NOT NULL THEN
      PERFORM dataverse_private.pull_check_values(plan, path);
    END IF;
  END IF;
  IF rows > upserts AND plan.delete IS NOT NULL THEN
    PERFORM set_config('search_path', path, true);
    EXECUTE plan.delete;
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
  PERFORM pg_catalog.set_config('search_path', path, true);
  SET CONSTRAINTS ALL IMMEDIATE;
  SET LOCAL search_path = pg_catalog, pg_temp;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_merge_window(bigint, dataverse_private.copy_plan, text, text, boolean, bigint, bigint) IS
  'merges some rows of the last page read; for dataverse.pull()';

-- Elastic tables can have rows with the same id in several partitions, of which a
-- copy could have only one.
CREATE FUNCTION dataverse_private.pull_check_partitions(plan dataverse_private.copy_plan)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  ids uuid[];
  twice record;
BEGIN
  EXECUTE plan.twice INTO ids;
  IF ids IS NULL THEN
    RETURN;
  END IF;
  -- a row that was deleted, and created in another partition, exists only once
  EXECUTE plan.partitions USING ids INTO twice;
  IF twice.id IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'cardinality_violation',
      message = format('row %s exists in several partitions of foreign table %s: %s', twice.id, plan.foreign_table, twice.names),
      detail = 'Rows of a copy are identified by their ids alone, so all but one of these rows would be missing.',
      hint = 'Delete the rows that are not needed, by their ids and partitions, or omit this table.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_partitions(dataverse_private.copy_plan) IS
  'refuses pages with rows that a copy cannot tell apart; for dataverse.pull()';

-- Merges the page.  If rows are there that should be new, it is merged like any
-- other.  If the table refuses it, it is divided until the rows at
-- fault are known.  These are noted, and retried later.  "digest" is that of the ids
-- of inserted rows in a first read.  If triggers have kept rows of a captured copy as they
-- were, it is "behind".
CREATE FUNCTION dataverse_private.pull_merge(
  copy bigint, plan dataverse_private.copy_plan, path text, phase text, OUT counts dataverse_private.run_counts,
  OUT digest bigint, OUT behind boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  -- a stack of windows, whose last one is next
  firsts bigint[] := '{0}';
  sizes bigint[];
  whole bigint;
  noted CONSTANT bigint := (dataverse_private.copy_get(copy)).refused;
  captured boolean;
  first bigint;
  n bigint;
  part bigint;
  i integer;
  done record;
  entry dataverse_private.copy_refused;
  refused dataverse_private.copy_refused[] := '{}';
  all_ids uuid[];
BEGIN
  -- from now on, the lock keeps changes from being captured, if they are not yet
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan.target);
  PERFORM dataverse_private.pull_check_target(copy, plan);
  IF plan.twice IS NOT NULL THEN
    PERFORM dataverse_private.pull_check_partitions(plan);
  END IF;
  captured := dataverse_private.copy_is_captured(copy);
  IF captured THEN
    PERFORM dataverse_private.pull_spare(copy, plan, phase, true);
  END IF;
  SELECT ARRAY[w.upserts + w.deletions], w.upserts + w.deletions INTO sizes, whole FROM dataverse_private.page_window(0, 9223372036854775807) AS w;
  counts.rows_read := whole;
  counts.inserted := 0;
  counts.updated := 0;
  counts.unchanged := 0;
  counts.deleted := 0;
  digest := 0;
  WHILE cardinality(firsts) > 0 AND whole > 0 LOOP
    first := firsts[cardinality(firsts)];
    n := sizes[cardinality(sizes)];
    firsts := trim_array(firsts, 1);
    sizes := trim_array(sizes, 1);
    BEGIN
      SELECT * INTO done FROM dataverse_private.pull_merge_window(copy, plan, path, phase, captured, first, n);
      counts.inserted := counts.inserted + done.inserted;
      counts.updated := counts.updated + done.updated;
      counts.unchanged := counts.unchanged + done.upserts - done.inserted - done.updated;
      counts.deleted := counts.deleted + done.deleted;
      digest := digest # done.digest;
    EXCEPTION
      WHEN assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS entry.sqlstate = RETURNED_SQLSTATE, entry.message = MESSAGE_TEXT, entry.detail = PG_EXCEPTION_DETAIL;
        IF NOT dataverse_private.pull_is_row_error(entry.sqlstate) THEN
          RAISE;
        END IF;
        IF phase = 'fill' AND entry.sqlstate = '23505' THEN
          phase := 'backfill';
          firsts := firsts || first;
          sizes := sizes || n;
        ELSIF n = 1 THEN
          EXECUTE plan.entry INTO entry.id, entry.deleted, entry."row";
          entry.detail := nullif(entry.detail, '');
          refused := refused || entry;
        ELSE
          part := (n + 7) / 8;
          FOR i IN REVERSE (n - 1) / part .. 0 LOOP
            firsts := firsts || (first + i * part);
            sizes := sizes || least(part, n - i * part);
          END LOOP;
        END IF;
    END;
  END LOOP;
  PERFORM dataverse_private.page_window(0, whole);
  behind := false;
  IF captured AND counts.unchanged > 0 AND plan.outdated IS NOT NULL THEN
    EXECUTE plan.outdated USING ARRAY(SELECT r.id FROM unnest(refused) AS r) INTO behind;
  END IF;
  IF refused <> '{}' THEN
    PERFORM dataverse_private.copy_refuse(copy, refused);
  END IF;
  IF noted > 0 THEN
    EXECUTE plan.page_ids INTO all_ids;
    PERFORM dataverse_private.copy_admit(copy, ARRAY(SELECT a FROM unnest(all_ids) AS a EXCEPT SELECT r.id FROM unnest(refused) AS r));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_merge(bigint, dataverse_private.copy_plan, text, text) IS
  'merges the last page read, and records the rows that the table refuses; for dataverse.pull()';

-- Returns the result of a statement on the table of a copy, without keeping a lock on
-- it: the lock is released with the subtransaction.  Otherwise other sessions might
-- wait for it while we wait for Dataverse, or this session might deadlock when it
-- locks the table.
CREATE FUNCTION dataverse_private.pull_peek(statement text, copy bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found text;
  is_read boolean := false;
BEGIN
  EXECUTE statement INTO found USING copy;
  is_read := true;
  RAISE SQLSTATE 'DV000';
EXCEPTION
  WHEN SQLSTATE 'DV000' THEN
    -- other functions can raise it, too
    IF NOT is_read THEN
      RAISE;
    END IF;
    RETURN found;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_peek(text, bigint) IS
  'reads the table of a copy without keeping a lock; for dataverse.pull()';

-- Returns those of the rows that no query finds which may exist.  A query omits rows
-- that the application user may not read, but a request for one row by its id is
-- refused.  So up to "most" of the rows, evenly spread, are requested.  If one of
-- them exists, all of them may, but for those that the service says it does not have,
-- and ten requests are enough.  Rows of elastic tables cannot be requested by their
-- ids alone.
CREATE FUNCTION dataverse_private.pull_hidden(plan dataverse_private.copy_plan, ids uuid[], most bigint)
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  step CONSTANT bigint := greatest(1, (cardinality(ids) + most - 1) / most);
  attribute CONSTANT text := (
    SELECT c.attribute FROM unnest(plan.column_names, plan.attribute_names) AS c (name, attribute) WHERE c.name = plan.id_column);
  enough CONSTANT bigint := 10;
  requests bigint := 0;
  gone uuid[] := '{}';
  found boolean := false;
BEGIN
  IF plan.elastic THEN
    RETURN '{}';
  END IF;
  FOR i IN 1 .. cardinality(ids) BY step LOOP
    EXIT WHEN found AND requests >= enough;
    requests := requests + 1;
    BEGIN
      PERFORM dataverse.request(plan.server, 'GET', format('%s(%s)?$select=%s', plan.entity_set, ids[i], attribute));
      found := true;
    EXCEPTION
      WHEN insufficient_privilege THEN
        found := true;
      WHEN foreign_key_violation THEN
        gone := gone || ids[i];
    END;
  END LOOP;
  RETURN CASE WHEN found THEN ARRAY(SELECT u FROM unnest(ids) AS u EXCEPT SELECT g FROM unnest(gone) AS g ORDER BY 1) ELSE '{}' END;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_hidden(dataverse_private.copy_plan, uuid[], bigint) IS
  'rows that may exist in Dataverse, but are not found by any query; for dataverse.pull() and sync()';

-- Returns true if the page lacks some of these rows, which were just read into it, although
-- they may exist.
CREATE FUNCTION dataverse_private.pull_misses(plan dataverse_private.copy_plan, ids uuid[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  samples CONSTANT bigint := 10;
  found uuid[];
BEGIN
  EXECUTE plan.page_ids INTO found;
  RETURN dataverse_private.pull_hidden(plan, ARRAY(SELECT i FROM unnest(ids) AS i EXCEPT SELECT f FROM unnest(found) AS f ORDER BY 1), samples) <> '{}';
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_misses(dataverse_private.copy_plan, uuid[]) IS
  'whether rows that were requested by their ids may exist without having been returned; for dataverse.pull()';

-- Returns the message, for the record of the run.
CREATE FUNCTION dataverse_private.pull_warn_hidden(plan dataverse_private.copy_plan, hidden bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  message CONSTANT text := format('application users of server "%s" cannot read some rows of %s that exist in Dataverse: %s',
                                  plan.server, plan.target, hidden);
BEGIN
  RAISE WARNING USING
    errcode = '01000', message = message,
    detail = 'The local rows are left unchanged, and their values in Dataverse are not known.',
    hint = 'Give each application user of the user mapping a security role that may read all rows of the table ("Organization").';
  RETURN message;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_warn_hidden(dataverse_private.copy_plan, bigint) IS
  'warns about rows that cannot be read; for dataverse.pull() and sync()';

-- What became of the rows that a comparison has not found.  Pages may skip a row, so
-- the service is asked for them.  It has those in "skipped", it does not show those in
-- "hidden", and those in "gone" do not exist.  If the comparison begins "anew", ids of
-- an earlier one do not count.  Nothing is locked meanwhile.
CREATE FUNCTION dataverse_private.pull_ask(
  copy bigint, plan dataverse_private.copy_plan, anew boolean, OUT gone uuid[], OUT skipped uuid[], OUT hidden uuid[])
RETURNS record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT integer := 1000;
  samples CONSTANT bigint := 10;
  missing uuid[] := '{}';
  on_page uuid[];
  found uuid[];
  i integer;
BEGIN
  gone := '{}';
  skipped := '{}';
  IF plan.ghosts IS NOT NULL THEN
    missing := dataverse_private.pull_peek(plan.ghosts, CASE WHEN NOT anew THEN copy END)::uuid[];
  END IF;
  EXECUTE plan.page_ids INTO on_page;
  missing := ARRAY(SELECT m FROM unnest(missing) AS m UNION (
    SELECT r FROM unnest(dataverse_private.copy_refused_missing(copy)) AS r EXCEPT SELECT p FROM unnest(on_page) AS p) ORDER BY 1);
  FOR i IN 0 .. (cardinality(missing) - 1) / most LOOP
    CONTINUE WHEN missing = '{}';
    EXECUTE plan.there USING missing[i * most + 1 : (i + 1) * most] INTO found;
    skipped := skipped || found;
  END LOOP;
  gone := CASE WHEN skipped = '{}' THEN missing ELSE ARRAY(SELECT m FROM unnest(missing) AS m EXCEPT SELECT s FROM unnest(skipped) AS s ORDER BY 1) END;
  hidden := dataverse_private.pull_hidden(plan, gone, samples);
  IF hidden <> '{}' THEN
    gone := ARRAY(SELECT g FROM unnest(gone) AS g EXCEPT SELECT h FROM unnest(hidden) AS h);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_ask(bigint, dataverse_private.copy_plan, boolean) IS
  'asks Dataverse for rows that a comparison has not found; for dataverse.pull()';

-- Evaluates the ids and versions of all rows: deletes the rows that are gone, and
-- notes those that differ or were skipped.
CREATE FUNCTION dataverse_private.pull_compare(
  INOUT state dataverse_private.copies, plan dataverse_private.copy_plan, path text, gone uuid[], skipped uuid[],
  OUT counts dataverse_private.run_counts)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.capture = off
AS $$
DECLARE
  copy CONSTANT bigint := state.id;
  merged record;
  differing uuid[];
  went_back boolean;
BEGIN
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan.target);
  PERFORM dataverse_private.pull_check_target(copy, plan);
  -- the foreign table has been read; the page must be empty
  PERFORM dataverse_private.page_start(plan.foreign_table);
  counts.deleted := 0;
  IF gone <> '{}' THEN
    PERFORM dataverse_private.page_delete(gone);
    merged := dataverse_private.pull_merge(copy, plan, path, 'compare');
    counts.deleted := (merged.counts).deleted;
  END IF;
  IF NOT state.whole THEN
    EXECUTE plan.differing USING copy INTO differing;
    -- the environment was restored, so versions seen before are meaningless
    EXECUTE plan.went_back USING copy INTO went_back;
    IF went_back THEN
      state.marked_at := state.marked_at[cardinality(state.marks):];
      state.marks := state.marks[cardinality(state.marks):];
    END IF;
  END IF;
  PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
  differing := coalesce(differing, '{}') || skipped;
  IF differing <> '{}' THEN
    PERFORM dataverse_private.copy_note_ids(copy, differing, ARRAY[]::bigint[]);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_compare(dataverse_private.copies, dataverse_private.copy_plan, text, uuid[], uuid[]) IS
  'compares a copy with the ids and versions of all rows; for dataverse.pull()';

-- Merges some of the rows that differ; counts none if none are left.
CREATE FUNCTION dataverse_private.pull_settle(
  copy bigint, plan dataverse_private.copy_plan, path text, OUT counts dataverse_private.run_counts, OUT behind boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.capture = off
AS $$
DECLARE
  batch uuid[] := ARRAY(SELECT i.id FROM dataverse_private.copy_ids_of(copy, 1000) AS i);
  misses boolean;
  merged record;
BEGIN
  IF batch = '{}' THEN
    RETURN;
  END IF;
  PERFORM dataverse_private.page_start(plan.foreign_table);
  EXECUTE plan.read USING batch;
  -- without change tracking, versions are compared before a row is written
  misses := (dataverse_private.copy_get(copy)).tracked AND dataverse_private.pull_misses(plan, batch);
  merged := dataverse_private.pull_merge(copy, plan, path, 'settle');
  counts := merged.counts;
  behind := misses OR merged.behind;
  PERFORM dataverse_private.copy_drop_ids(copy, batch);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_settle(bigint, dataverse_private.copy_plan, text) IS
  'reads some of the rows that differed in a comparison; for dataverse.pull()';

-- Retries some of the refused rows.  A round visits all of them, once forwards and
-- once backwards, so that chains of references are resolved in either direction.
-- Returns where the next step continues, or NULL if the last round has accepted
-- none.
CREATE FUNCTION dataverse_private.pull_retry(
  copy bigint, plan dataverse_private.copy_plan, path text, INOUT "at" dataverse_private.retry_position,
  OUT counts dataverse_private.run_counts)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
AS $$
DECLARE
  most CONSTANT bigint := 1000;
  state dataverse_private.copies := dataverse_private.copy_get(copy);
  highest CONSTANT bigint := 9223372036854775807;
  batch uuid[];
  deletions uuid[];
  wanted uuid[];
  misses boolean;
  merged record;
  last bigint;
BEGIN
  PERFORM dataverse_private.pull_guard(plan.named);
  PERFORM dataverse_private.pull_check_source(plan);
  IF state.refused = 0 OR at.position IS NULL AND at.before = state.refused THEN
    at := NULL;
    RETURN;
  END IF;
  IF at.position IS NULL THEN
    at.before := state.refused;
    at.backwards := coalesce(NOT at.backwards, false);
    at.dangling := true;
    at.position := CASE WHEN at.backwards THEN highest ELSE 0 END;
  END IF;
  SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.deleted), CASE WHEN at.backwards THEN min(r.number) ELSE max(r.number) END
  INTO batch, deletions, last
  FROM dataverse_private.copy_refused_of(copy, at.dangling, at.position, at.backwards, most) AS r;
  IF batch IS NULL THEN
    at.position := CASE WHEN at.dangling THEN CASE WHEN at.backwards THEN highest ELSE 0 END END;
    at.dangling := false;
    RETURN;
  END IF;
  PERFORM dataverse_private.page_start(plan.foreign_table);
  -- a row that no longer exists must not be kept; the service tells whether it does
  wanted := ARRAY(SELECT b FROM unnest(batch) AS b EXCEPT SELECT d FROM unnest(deletions) AS d);
  EXECUTE plan.read USING wanted;
  misses := state.tracked AND dataverse_private.pull_misses(plan, wanted);
  PERFORM dataverse_private.page_delete(deletions);
  merged := dataverse_private.pull_merge(copy, plan, path, 'retry');
  counts := merged.counts;
  IF misses OR merged.behind THEN
    state.behind := true;
    PERFORM dataverse_private.copy_put(state);
  END IF;
  EXECUTE plan.page_ids INTO deletions;
  PERFORM dataverse_private.copy_admit(copy, ARRAY(SELECT b FROM unnest(batch) AS b EXCEPT SELECT d FROM unnest(deletions) AS d));
  at.position := last;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_retry(bigint, dataverse_private.copy_plan, text, dataverse_private.retry_position) IS
  'retries some of the rows that a copy has refused; for dataverse.pull()';

-- Returns a hint how to make the table accept the row.
CREATE FUNCTION dataverse_private.pull_refusal_hint("sqlstate" text, deleted boolean)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN $1 = '23503' AND $2 THEN 'Other local rows still refer to the row: pull their table, delete them, or change the foreign key (ON DELETE).'
    WHEN $1 = '23503' THEN 'The row that it refers to has not been copied: pull the table that contains it, or drop the foreign key.'
    WHEN $1 IN ('23505', '23P01')
      THEN 'Another local row has the same value.  Change one of them in Dataverse, or drop the constraint; if rows exchange their values, make it DEFERRABLE.'
    WHEN $1 LIKE '22%' THEN 'Alter the column to a type that admits the value.'
    WHEN $1 LIKE '23%' THEN 'Correct the row in Dataverse, or alter the table.'
    ELSE 'Correct the row in Dataverse, or change what raises the error.' END
$$;

COMMENT ON FUNCTION dataverse_private.pull_refusal_hint(text, boolean) IS
  'the hint for a row that the table of a copy refuses; for dataverse.pull()';

-- Reports the rows that were refused: not at all, by a WARNING once they are
-- filed, or by an error.
CREATE FUNCTION dataverse_private.pull_finish(
  copy bigint, plan dataverse_private.copy_plan, OUT "sqlstate" text, OUT message text, OUT detail text, OUT hint text,
  OUT counts dataverse_private.run_counts)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state dataverse_private.copies := dataverse_private.copy_get(copy);
  refused CONSTANT bigint := state.refused;
  row dataverse_private.copy_refused;
BEGIN
  IF NOT state.filled THEN
    state.filled := NOT dataverse_private.pull_is_empty(plan.target);
    PERFORM dataverse_private.copy_put(state);
  END IF;
  IF refused = 0 THEN
    RETURN;
  END IF;
  counts.rejected := refused;
  IF plan.on_error = 'continue' THEN
    PERFORM dataverse_private.copy_file(copy, plan.server);
    RAISE WARNING USING
      errcode = '01000',
      message = CASE refused WHEN 1 THEN '1 row was' ELSE refused || ' rows were' END || format(' refused by table %s', plan.target),
      hint = 'The view dataverse.rejects contains the refused rows and the reasons.  The next call tries them again.';
    RETURN;
  END IF;
  SELECT (f.first).* INTO row FROM dataverse_private.copy_first_refused(copy) AS f;
  sqlstate := row.sqlstate;
  message := CASE WHEN refused > 1 THEN refused || ' rows were refused; the first one is ' END
    || CASE WHEN row.deleted THEN 'deletion of ' ELSE '' END || format('row %s', row.id);
  message := coalesce(message, CASE WHEN row.deleted THEN 'deletion of ' ELSE '' END || format('row %s was refused', row.id))
    || ': ' || row.message;
  detail := row.detail;
  hint := dataverse_private.pull_refusal_hint(row.sqlstate, row.deleted)
    || '  With on_error => ''continue'', such rows are filed in dataverse.rejects and do not make the run fail.'
    || '  All other rows that were read have been copied.';
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_finish(bigint, dataverse_private.copy_plan) IS
  'files the rows that were refused in a run, or returns the error; for dataverse.pull()';

-- Returns the statements that grant missing privileges to the caller, change local
-- columns to suitable types, or adapt the foreign table to the service's definition,
-- if this may be the cause of the error; NULL if there are none.
CREATE FUNCTION dataverse_private.pull_cure(foreign_table regclass, target text, "sqlstate" text, needed text[])
RETURNS text
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  statements text;
  gone boolean;
  lacking text;
BEGIN
  IF sqlstate = '42501' THEN
    SELECT string_agg(p, ', ') INTO lacking FROM unnest(needed) AS p WHERE NOT has_table_privilege(CURRENT_USER, pull_cure.foreign_table, p);
    RETURN 'Grant the privileges that the role lacks in PostgreSQL: '
      || nullif(concat_ws(' ', 'GRANT ' || lacking || format(' ON %s TO %I;', pull_cure.foreign_table, CURRENT_USER),
                (SELECT format('GRANT USAGE ON FOREIGN SERVER %I TO %I;', s.srvname, CURRENT_USER)
                 FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver
                 WHERE t.ftrelid = pull_cure.foreign_table AND NOT has_server_privilege(CURRENT_USER, s.oid, 'USAGE'))), '');
  END IF;
  -- local columns to which those of the foreign table cannot be assigned
  IF sqlstate = '42804' THEN
    RETURN (
      SELECT format('Change the type, ALTER TABLE %1$s %2$s; or name the columns to be copied in the argument "columns".', target,
                    string_agg(format('ALTER COLUMN %1$I TYPE %2$s USING %1$I::text::%2$s', f.attname, format_type(f.atttypid, f.atttypmod)), ', '
                               ORDER BY f.attnum))
      FROM pg_attribute AS f JOIN pg_attribute AS a ON a.attrelid = to_regclass(target) AND a.attname = f.attname AND NOT a.attisdropped
        JOIN pg_type AS t ON t.oid = a.atttypid, LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END) AS b (oid)
      WHERE f.attrelid = pull_cure.foreign_table AND f.attnum > 0 AND NOT f.attisdropped AND b.oid <> f.atttypid AND t.typcategory <> 'S'
        AND f.attname <> (SELECT i.id_column FROM dataverse_private.pull_info(pull_cure.foreign_table) AS i)
        AND NOT EXISTS (SELECT FROM pg_cast AS c WHERE c.castsource = f.atttypid AND c.casttarget = b.oid AND c.castcontext <> 'e')
      HAVING count(*) > 0);
  END IF;
  -- table and column not found, values of another type, too long or too great values, and
  -- unspecified errors
  IF sqlstate NOT IN ('HV00R', 'HV005', 'HV004', 'HV000', '22001', '22003', '22P02', '22007', '22008') THEN
    RETURN NULL;
  END IF;
  SELECT string_agg(d.statement || ';', ' ' ORDER BY d.column_name, d.statement DESC), bool_or(d.statement LIKE 'DROP FOREIGN TABLE%') INTO statements, gone
  FROM (
    SELECT i.*, count(*) FILTER (WHERE i.drift = 'new column') OVER () AS added,
      count(*) FILTER (WHERE i.drift = 'removed column') OVER () AS removed
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, dataverse.import_diff(n.nspname, false) AS i
    WHERE c.oid = pull_cure.foreign_table AND i.foreign_table = c.relname AND i.statement IS NOT NULL) AS d
  -- new columns do not cause errors, but may be renamed ones
  WHERE d.drift <> 'new column' OR d.added <= d.removed;
  RETURN 'The foreign table differs from the table in Dataverse (see dataverse.import_diff()): ' || statements
    || CASE WHEN gone THEN format(' SELECT dataverse.forget_copy(%L);', target) ELSE '' END;
EXCEPTION
  -- report the original error
  WHEN OTHERS THEN
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_cure(regclass, text, text, text[]) IS
  'the hint for missing privileges, unsuitable types, or a foreign table that differs from the table in Dataverse; for dataverse.pull()';

-- Returns true if so many rows are refused that a run which will fail because of
-- them should end now.  Rows that wait for others do not count.
CREATE FUNCTION dataverse_private.pull_is_hopeless(copy bigint, plan dataverse_private.copy_plan)
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT bigint := 1000;
BEGIN
  RETURN plan.on_error = 'abort' AND (dataverse_private.copy_get(copy)).refused > most
    AND (SELECT f.firm FROM dataverse_private.copy_first_refused(copy) AS f) > most;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_is_hopeless(bigint, dataverse_private.copy_plan) IS
  'whether a run refuses too many rows to go on; for dataverse.pull()';

-- Returns the greatest version in Dataverse, or NULL if it cannot be determined.
-- Finding it can take the service too long; the greatest local version also came
-- from the service, so everything above it is certainly new.
CREATE FUNCTION dataverse_private.pull_top(plan dataverse_private.copy_plan)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  top bigint;
BEGIN
  EXECUTE format('SELECT f.%1$I FROM ONLY %2$s AS f ORDER BY f.%1$I DESC NULLS LAST LIMIT 1',
                 (SELECT i.version_column FROM dataverse_private.pull_info(plan.foreign_table) AS i), plan.foreign_table) INTO top;
  RETURN coalesce(top, 0);
EXCEPTION
  WHEN fdw_unable_to_create_execution OR connection_failure THEN
    RETURN CASE WHEN plan.version_column IS NOT NULL THEN dataverse_private.pull_peek(plan.greatest, NULL)::bigint END;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_top(dataverse_private.copy_plan) IS
  'the greatest version that a table has in Dataverse; for dataverse.pull()';

-- Rows were removed without notice to the runs, by TRUNCATE or with a partition: they
-- are read again.  If the table was only rewritten, the comparison finds nothing,
-- which is harmless.
CREATE FUNCTION dataverse_private.pull_emptied(
  INOUT state dataverse_private.copies, plan dataverse_private.copy_plan, storage bigint[])
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  state.storage := storage;
  state.again := state.again OR state.tracked AND state.token IS NULL AND state.phase <> 'backfill';
  state := dataverse_private.copy_to_reread(state, state.phase = 'compare' AND state.whole OR plan.version_column IS NULL);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_emptied(dataverse_private.copies, dataverse_private.copy_plan, bigint[]) IS
  'the state of a copy from which rows were removed by TRUNCATE; for dataverse.pull()';

-- The service does not know the place any more where reading was to continue.  If it was
-- a link, this reading begins again; only changes above a version cannot be read again,
-- because the version up to which they were to be read has been noted already.  If it was
-- the token, or if that has "expired", the rows that differ are read.
CREATE FUNCTION dataverse_private.pull_dropped(
  INOUT state dataverse_private.copies, plan dataverse_private.copy_plan, expired boolean)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  no_versions CONSTANT boolean := plan.version_column IS NULL;
BEGIN
  IF expired OR state.phase = 'current' AND state.link IS NULL THEN
    state := dataverse_private.copy_without_token(dataverse_private.copy_to_compare(state, no_versions));
    state.again := true;
  ELSIF state.phase = 'current' AND state.tracked THEN
    state.link := NULL;
  ELSIF state.phase = 'current' THEN
    state := dataverse_private.copy_to_compare(state, no_versions);
  ELSE
    state := dataverse_private.copy_to_reread(state, state.whole);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_dropped(dataverse_private.copies, dataverse_private.copy_plan, boolean) IS
  'the state of a copy whose link or token Dataverse does not know any more; for dataverse.pull()';

-- Returns the number at the beginning of a change-tracking token, which is a version.
CREATE FUNCTION dataverse_private.pull_token_version(token text)
RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT substring($1 FROM '^([0-9]+)(?:!|%21)')::numeric $$;

COMMENT ON FUNCTION dataverse_private.pull_token_version(text) IS
  'the version contained in a token of change tracking, if any; for dataverse.pull()';

-- One step of a run, which is then committed: a page, a comparison, or a batch of
-- rows that differ.  There is no more to read when the copy is in step.  "remark" is
-- for the record of the run.
--
-- If a read of all rows has more than one page, a token is obtained before it, if
-- the service gives one: then the rows can be read in ranges, and changes that are
-- made meanwhile come with the changes since the token.  Otherwise they are read for
-- the token, which may refer to the beginning or to the end of a first read.
-- Therefore rows that it may have missed are found by comparing ids and versions
-- after it, unless the number in the token is not greater than the greatest
-- version before it: then the token refers to the beginning.
--
-- What an earlier run has stored may be worthless to the service by now.  A run drops
-- "old_link", the one that it has found, and one token ("spare_token"), if they are
-- refused.  It does not drop what it has got instead, so that it ends in any case.
CREATE FUNCTION dataverse_private.pull_step(
  copy bigint, plan dataverse_private.copy_plan, path text, old_link boolean, INOUT spare_token boolean,
  OUT more boolean, OUT counts dataverse_private.run_counts, OUT remark text)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
AS $$
DECLARE
  state dataverse_private.copies := dataverse_private.copy_get(copy);
  -- a transaction of the service lasts two minutes at most
  overlap CONSTANT interval := '5 minutes';
  tracks boolean := state.tracked AND state.token IS NULL AND state.phase <> 'settle';
  after bigint;
  read_columns text[];
  page record;
  defined record;
  drifted record;
  compared record;
  merged record;
  settled record;
  digest bigint;
  top bigint;
  noted bigint;
  here bigint;
  lost boolean := false;
  missing record;
  storage CONSTANT bigint[] := dataverse_private.pull_storage(plan.target);
  no_versions CONSTANT boolean := plan.version_column IS NULL;
  first record;
  anew boolean := false;
  redefined boolean := false;
  went_back boolean;
  expired boolean := false;
  refused boolean := false;
BEGIN
  more := true;
  PERFORM dataverse_private.pull_guard(plan.named);
  PERFORM dataverse_private.pull_check_source(plan);
  IF NOT state.storage <@ storage THEN
    PERFORM dataverse_private.end_pages();
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    PERFORM dataverse_private.copy_put(dataverse_private.pull_emptied(state, plan, storage));
    RETURN;
  END IF;
  IF state.phase = 'settle' THEN
    settled := dataverse_private.pull_settle(copy, plan, path);
    counts := settled.counts;
    IF counts.rows_read IS NOT NULL THEN
      IF settled.behind THEN
        state.behind := true;
        PERFORM dataverse_private.copy_put(state);
      END IF;
      RETURN;
    END IF;
    IF state.again THEN
      state := dataverse_private.copy_to_compare(state, no_versions);
      state.again := false;
      PERFORM dataverse_private.copy_put(state);
      RETURN;
    END IF;
    state.phase := 'current';
    state.compared_at := clock_timestamp();
    PERFORM dataverse_private.copy_put(state);
    -- without change tracking, the comparison was the last step
    more := state.tracked;
    RETURN;
  END IF;

  -- files of new partitions are noted at the end, when the table is locked
  state.storage := storage;
  -- without change tracking, read rows with a greater version than five minutes ago
  IF state.phase = 'current' AND NOT state.tracked THEN
    SELECT m INTO after FROM unnest(state.marks, state.marked_at) AS u (m, at)
    WHERE at <= clock_timestamp() - overlap ORDER BY at DESC LIMIT 1;
    IF after IS NULL OR NOT plan.can_follow THEN
      state := dataverse_private.copy_to_compare(state, no_versions);
      after := NULL;
      anew := true;
    END IF;
  END IF;
  IF state.link IS NULL AND plan.can_follow AND
     (NOT state.tracked OR (state.phase = 'backfill' AND state.token IS NULL AND NOT plan.elastic)) THEN
    top := dataverse_private.pull_top(plan);
    -- the newest row was deleted, or the environment was restored from a backup
    IF state.phase = 'current' AND top < (SELECT max(m) FROM unnest(state.marks) AS m) THEN
      state := dataverse_private.copy_to_compare(state, no_versions);
      anew := true;
    END IF;
    -- if a version was assigned before that time, so were all smaller ones
    IF top IS NOT NULL THEN
      SELECT coalesce(array_agg(least(m, top) ORDER BY at), '{}') || top, coalesce(array_agg(at ORDER BY at), '{}') || clock_timestamp()
      INTO state.marks, state.marked_at
      FROM unnest(state.marks, state.marked_at) AS u (m, at) WHERE state.phase <> 'backfill' AND (after IS NULL OR m >= after);
    ELSIF state.phase = 'backfill' THEN
      state.marks := '{}';
      state.marked_at := '{}';
    END IF;
    after := CASE state.phase WHEN 'current' THEN after END;
  END IF;

  IF state.phase = 'compare' AND NOT state.whole THEN
    read_columns := ARRAY[plan.id_column, plan.version_column];
  ELSE
    read_columns := plan.columns;
  END IF;
  BEGIN
    SELECT * INTO STRICT page FROM dataverse_private.read_page(
      plan.foreign_table, read_columns, state.link, CASE WHEN state.phase = 'current' THEN state.token END, after, tracks, state.expected,
      CASE WHEN state.link IS NULL THEN spare_token AND state.phase = 'current' AND state.tracked ELSE old_link END);
    refused := page.refused;
  EXCEPTION
    WHEN SQLSTATE 'DV001' THEN
      expired := true;
    -- the table is no longer tracked, or not for us, whatever its definition says
    WHEN SQLSTATE 'DV002' THEN
      PERFORM dataverse_private.end_pages();
      PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
      state := dataverse_private.copy_without_token(dataverse_private.copy_to_reread(state, no_versions));
      state.tracked := false;
      state.tracking_refused := true;
      state.again := false;
      PERFORM dataverse_private.copy_put(state);
      RETURN;
  END;
  IF expired OR refused THEN
    spare_token := spare_token AND (expired OR state.link IS NOT NULL);
    PERFORM dataverse_private.end_pages();
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
    PERFORM dataverse_private.copy_put(dataverse_private.pull_dropped(state, plan, expired));
    RETURN;
  END IF;

  -- if there are more pages, they are read after the token, and so is this one: it has not been merged
  IF tracks AND state.link IS NULL AND page.link IS NOT NULL AND NOT plan.elastic THEN
    SELECT * INTO STRICT first FROM dataverse_private.first_token(plan.foreign_table);
    IF first.token IS NOT NULL THEN
      state.token := first.token;
      state.token_at := clock_timestamp();
      state.expected := first.rows;
      state.again := state.again AND state.phase = 'backfill';
      PERFORM dataverse_private.end_pages();
      PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
      PERFORM dataverse_private.copy_put(state);
      RETURN;
    END IF;
  END IF;

  -- if the pages of changes do not say so, the definition does, after they have been read
  IF page.metadata <> coalesce(state.metadata, '') OR page.metadata IS NULL AND page.link IS NULL THEN
    SELECT * INTO STRICT defined FROM dataverse_private.pull_schema(plan);
    redefined := true;
  END IF;

  -- a table of ids that was not restored says nothing about the rows
  IF state.phase = 'compare' AND page.link IS NULL THEN
    here := (SELECT count(*) FROM dataverse_private.copy_ids_of(copy));
    lost := here < state.ids;
    IF NOT lost THEN
      SELECT * INTO missing FROM dataverse_private.pull_ask(copy, plan, anew);
    END IF;
  END IF;

  -- Nothing local is locked while we wait for Dataverse.  Now the table is locked
  -- first, and then the state of the copy, in the same order as by
  -- dataverse.track() and others.
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan.target);
  -- existing rows may be missing from Dataverse: "again" in a first read means
  -- that they have to be compared in any case
  IF state.phase = 'backfill' AND state.link IS NULL THEN
    state.again := NOT dataverse_private.pull_is_empty(plan.target);
  END IF;
  IF anew THEN
    PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
  END IF;
  IF redefined THEN
    drifted := dataverse_private.pull_drifted(state, plan, defined.tracked, defined.schema, page.metadata);
    state := drifted.state;
    IF drifted.drifted THEN
      PERFORM dataverse_private.copy_put(state);
      RETURN;
    END IF;
  END IF;
  IF state.phase = 'compare' THEN
    EXECUTE plan.ids USING copy INTO noted;
  END IF;
  IF state.phase <> 'compare' OR state.whole THEN
    merged := dataverse_private.pull_merge(
      copy, plan, path, CASE WHEN state.phase = 'backfill' AND NOT state.again AND plan.fill IS NOT NULL THEN 'fill' ELSE state.phase END);
    counts := merged.counts;
    digest := merged.digest;
    state.behind := state.behind OR merged.behind;
  END IF;
  counts.rows_compared := CASE state.phase WHEN 'compare' THEN page.upserts END;
  state.ids := CASE state.phase WHEN 'backfill' THEN state.ids # digest ELSE state.ids + coalesce(noted, 0) END;
  state.link := page.link;
  IF page.link IS NOT NULL THEN
    PERFORM dataverse_private.copy_put(state);
    RETURN;
  END IF;

  IF (tracks OR (state.phase = 'current' AND state.tracked)) AND page.token IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_unable_to_create_reply',
      message = format('Dataverse returned no token of change tracking for foreign table %s', plan.foreign_table);
  END IF;
  -- the environment was restored from a backup
  went_back := coalesce(dataverse_private.pull_token_version(page.token) < dataverse_private.pull_token_version(state.token), false);
  IF page.token IS NOT NULL THEN
    state.token := page.token;
    state.token_at := clock_timestamp();
  END IF;
  CASE state.phase
    WHEN 'backfill' THEN
      -- inserted rows may have been deleted, or others added
      EXECUTE plan.digest INTO here;
      state.filled := state.filled OR state.ids <> 0;
      IF (page.token IS NULL AND state.token IS NOT NULL OR dataverse_private.pull_token_version(page.token) <= state.marks[1])
         AND NOT state.again AND here = state.ids
      THEN
        state.phase := 'current';
        state.compared_at := clock_timestamp();
        state.ids := 0;
      ELSE
        state := dataverse_private.copy_to_compare(state, no_versions);
        state.again := false;
      END IF;
    WHEN 'compare' THEN
      IF lost THEN
        -- nothing may be deleted because of it
        PERFORM dataverse_private.copy_note_ids(copy, NULL, NULL);
      ELSE
        state.behind := missing.hidden <> '{}';
        IF state.behind THEN
          remark := dataverse_private.pull_warn_hidden(plan, cardinality(missing.hidden));
        END IF;
        compared := dataverse_private.pull_compare(state, plan, path, missing.gone, missing.skipped);
        state := compared.state;
        counts.deleted := coalesce(counts.deleted, 0) + (compared.counts).deleted;
        state.phase := 'settle';
      END IF;
      state.ids := 0;
    ELSE
      more := went_back;
      IF went_back THEN
        state := dataverse_private.copy_without_token(dataverse_private.copy_to_compare(state, no_versions));
        state.again := true;
      END IF;
  END CASE;
  PERFORM dataverse_private.copy_put(state);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_step(bigint, dataverse_private.copy_plan, text, boolean, boolean) IS
  'takes one step of a run, which dataverse.pull() then commits';

CREATE FUNCTION dataverse_private.pull_check_columns(columns text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF columns = '{}' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = 'argument "columns" is empty',
      hint = 'It takes names of columns of the foreign table, as in ''{name,revenue}''.  Omit it to copy all columns.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_columns(text[]) IS
  'raises an error for an empty list of columns; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_check_sweep(sweep interval)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF sweep < interval '0' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for argument "sweep": "%s"', sweep),
      hint = 'It is the time between two comparisons of all ids, such as ''1 day''.  With ''0'', each run compares them.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_sweep(interval) IS
  'raises an error for a negative interval; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_check_name(target text)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM parse_ident(target);
EXCEPTION
  WHEN invalid_parameter_value THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_name', message = format('invalid name of a table: "%s"', target),
      hint = 'Write it as in SQL: account, public.account, or public."My Accounts".';
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_name(text) IS
  'raises an error for an invalid name of a table; for dataverse.pull()';

-- Returns true if this is a foreign table of ours.  Otherwise there would be
-- no copy, and so no run that could fail.
CREATE FUNCTION dataverse_private.pull_is_foreign(foreign_table regclass)
RETURNS boolean
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
    WHERE t.ftrelid = foreign_table AND w.fdwhandler = 'dataverse.dataverse_fdw_handler()'::regprocedure)
$$;

COMMENT ON FUNCTION dataverse_private.pull_is_foreign(regclass) IS
  'whether a table is a foreign table of dataverse_fdw; for dataverse.pull() and push()';

CREATE FUNCTION dataverse_private.pull_check_tables(foreign_table regclass, target text)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse_private.pull_check_name(target);
  IF foreign_table IS NULL OR target IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'null_value_not_allowed',
      message = format('argument "%s" is null', CASE WHEN foreign_table IS NULL THEN 'foreign_table' ELSE 'target' END),
      hint = 'Name the foreign table and its copy, as in CALL dataverse.pull(''dv.account'', ''public.account'').';
  END IF;
  IF NOT dataverse_private.pull_is_foreign(foreign_table) THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a foreign table of dataverse_fdw', foreign_table),
      hint = 'The first argument is the foreign table, such as IMPORT FOREIGN SCHEMA creates, and the second one is its copy.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_tables(regclass, text) IS
  'raises an error for tables that cannot be copied; for dataverse.pull()';

-- Returns the qualified name of the table, resolved by the caller's search path.
CREATE FUNCTION dataverse_private.pull_target(target text, existing regclass, schema name)
RETURNS text
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  parts text[];
BEGIN
  IF existing IS NOT NULL THEN
    RETURN (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE c.oid = existing);
  END IF;
  parts := parse_ident(target);
  IF cardinality(parts) = 1 THEN
    parts := ARRAY[schema::text] || parts;
  END IF;
  IF cardinality(parts) <> 2 OR parts[1] IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_name', message = format('invalid name of a table: "%s"', target),
      hint = 'Write it as in SQL: account, public.account, or public."My Accounts".';
  END IF;
  -- truncated to PostgreSQL's maximum length
  RETURN format('%I.%I', parts[1]::name, parts[2]::name);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_target(text, regclass, name) IS
  'the qualified name of the table of a copy; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_source(foreign_table regclass)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF foreign_table IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'null_value_not_allowed', message = 'argument "foreign_table" is null',
      hint = 'Name a foreign table of dataverse_fdw, such as IMPORT FOREIGN SCHEMA creates.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_source(regclass) IS
  'raises an error if no foreign table is given; for dataverse.pull()';

CREATE FUNCTION dataverse.forget_copy(target text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT
AS $$
DECLARE
  existing pg_catalog.regclass;
  name pg_catalog.text;
BEGIN
  PERFORM dataverse_private.pull_check_name(target);
  existing := pg_catalog.to_regclass(target);
  name := dataverse_private.pull_target(target, existing, pg_catalog.current_schema());
  IF dataverse_private.copy_of(existing) IS NOT NULL THEN
    PERFORM dataverse_private.track_do(existing, NULL);
  END IF;
  RETURN dataverse_private.copy_forget(name);
END
$$;

COMMENT ON FUNCTION dataverse.forget_copy(text) IS
  'removes the state and the runs of a copy; its table is left unchanged';

CREATE PROCEDURE dataverse.pull(
  foreign_table regclass,
  target text,
  columns text[] DEFAULT NULL,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_pull';

COMMENT ON PROCEDURE dataverse.pull IS
  'makes a local copy of a foreign table, and keeps it in step';

CREATE FUNCTION dataverse_private.tables_of(schema name)
RETURNS oid[]
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT array_agg(t.ftrelid ORDER BY c.relname)
  FROM pg_foreign_table AS t JOIN pg_class AS c ON c.oid = t.ftrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_foreign_server AS s ON s.oid = t.ftserver JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
  WHERE n.nspname = $1 AND w.fdwhandler = 'dataverse.dataverse_fdw_handler()'::regprocedure
$$;

COMMENT ON FUNCTION dataverse_private.tables_of(name) IS
  'the foreign tables of dataverse_fdw in a schema; for dataverse.pull_all()';

CREATE PROCEDURE dataverse.pull_all(
  schema name,
  target_schema name,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_pull_all';

COMMENT ON PROCEDURE dataverse.pull_all IS
  'makes local copies of all foreign tables of a schema, and keeps them in step';

-- Local changes of copies.
--
-- dataverse.track() adds triggers that call dataverse_private.capture() to the table of a
-- copy and all tables below it.  That function is written in C.  It appends the
-- changes of all roles to this log, but only for the copy to which the table
-- belongs.  dataverse.sync() takes them from there.
--
-- The log has no index and no constraints: capturing has to be cheap, and each
-- entry is read once.

CREATE SEQUENCE dataverse_private.local_changes_number_seq;

CREATE TABLE dataverse_private.local_changes (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  operation "char" NOT NULL,
  columns text[] NOT NULL,
  base bigint,
  number bigint NOT NULL,
  was jsonb[]
);

COMMENT ON TABLE dataverse_private.local_changes IS
  'local changes of copies since the last dataverse.sync()';
COMMENT ON COLUMN dataverse_private.local_changes.operation IS 'I, U, or D';
COMMENT ON COLUMN dataverse_private.local_changes.columns IS
  'for U: the copied columns that have changed, without the id and the version';
COMMENT ON COLUMN dataverse_private.local_changes.base IS 'the version that the row had; null for I';
COMMENT ON COLUMN dataverse_private.local_changes.number IS
  'the number of the statement; later changes of a row have greater numbers';
COMMENT ON COLUMN dataverse_private.local_changes.was IS 'for U: the former values of the columns';

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.local_changes', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.local_changes_number_seq', '');

CREATE FUNCTION dataverse_private.capture()
RETURNS trigger
LANGUAGE C VOLATILE
AS 'MODULE_PATHNAME', 'dataverse_capture';

COMMENT ON FUNCTION dataverse_private.capture() IS
  'records the changes made by a statement; called by triggers that dataverse.track() creates';

CREATE FUNCTION dataverse.new_id()
RETURNS uuid
LANGUAGE C VOLATILE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_new_id';

COMMENT ON FUNCTION dataverse.new_id() IS
  'returns an id for a new row, in an order that suits Dataverse';

-- Returns the copy whose target is the table, or null.
CREATE FUNCTION dataverse_private.copy_of(target regclass, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state STABLE STRICT
AS $$
DECLARE
  found_copy bigint;
BEGIN
  SELECT c.id INTO found_copy FROM dataverse_private.copies AS c
  WHERE c.target_oid = copy_of.target
    OR (c.target = dataverse_private.pull_target(NULL, copy_of.target, NULL)
        AND NOT EXISTS (SELECT FROM pg_class AS t WHERE t.oid = c.target_oid))
  ORDER BY c.target_oid = copy_of.target DESC NULLS LAST LIMIT 1;
  PERFORM dataverse_private.copy_check(found_copy, caller);
  RETURN found_copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_of(regclass, oid) IS
  'the copy that a table is the target of; for dataverse.track()';

-- Called by functions of state.
CREATE FUNCTION dataverse_private.copy_forget_changes(copy bigint)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n bigint;
  m bigint;
BEGIN
  DELETE FROM dataverse_private.local_changes AS l WHERE l.copy = copy_forget_changes.copy;
  GET DIAGNOSTICS n = ROW_COUNT;
  DELETE FROM dataverse_private.pending AS p WHERE p.copy = copy_forget_changes.copy;
  GET DIAGNOSTICS m = ROW_COUNT;
  RETURN n + m;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_forget_changes(bigint) IS
  'discards the changes of a copy, and returns their number; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_forget_changes(bigint) FROM PUBLIC;

-- Notes that the changes of a copy are captured, and by which columns; without
-- columns, that they are not, and returns how many changes are forgotten.
CREATE FUNCTION dataverse_private.copy_track(copy bigint, id_column text, version_column text, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  state dataverse_private.copies;
  replaced boolean;
  n bigint := 0;
BEGIN
  SELECT c.* INTO state FROM dataverse_private.copies AS c WHERE c.id = copy;
  UPDATE dataverse_private.copies AS c
  SET target = c.target, id_column = copy_track.id_column, version_column = copy_track.version_column
  WHERE c.id = copy;
  -- by now, the name may be that of another role's table
  PERFORM dataverse_private.copy_check(copy, caller);
  -- the entries may be those of a dropped table, and so may be the state of its rows
  replaced := coalesce(state.target_oid <> (SELECT c.target_oid FROM dataverse_private.copies AS c WHERE c.id = copy), false);
  IF copy_track.id_column IS NULL OR state.id_column IS NULL OR replaced THEN
    n := dataverse_private.copy_forget_changes(copy);
  END IF;
  IF replaced THEN
    PERFORM dataverse_private.copy_restart(copy);
    UPDATE dataverse_private.copies AS c SET columns = state.columns, types = state.types, followed = state.followed, known = state.known WHERE c.id = copy;
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_track(bigint, text, text, oid) IS
  'records that the changes of a copy are captured; for dataverse.track()';

CREATE FUNCTION dataverse_private.copy_is_tracked(target oid, caller oid DEFAULT 0)
RETURNS boolean
LANGUAGE dataverse_state STABLE STRICT
AS $$
BEGIN
  RETURN EXISTS (SELECT FROM dataverse_private.copies AS c WHERE c.target_oid = copy_is_tracked.target AND c.id_column IS NOT NULL);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_is_tracked(oid, oid) IS
  'whether a table is the target of a copy whose changes are captured; for dataverse.track()';

-- Returns a table, all tables below it, and those above it.
CREATE FUNCTION dataverse_private.track_tables_below(target regclass)
RETURNS SETOF oid
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE t (relid) AS (
    SELECT $1::oid UNION SELECT i.inhrelid FROM t JOIN pg_inherits AS i ON i.inhparent = t.relid)
  SELECT relid FROM t
$$;

COMMENT ON FUNCTION dataverse_private.track_tables_below(regclass) IS
  'a table and its partitions and children; for dataverse.track()';

CREATE FUNCTION dataverse_private.track_tables_above(target regclass)
RETURNS SETOF oid
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE t (relid) AS (
    SELECT i.inhparent FROM pg_inherits AS i WHERE i.inhrelid = $1
    UNION SELECT i.inhparent FROM t JOIN pg_inherits AS i ON i.inhrelid = t.relid)
  SELECT relid FROM t
$$;

COMMENT ON FUNCTION dataverse_private.track_tables_above(regclass) IS
  'the tables that a table is a partition or child of; for dataverse.track()';

-- Returns the triggers that a copy needs.  A copy that is itself a partition or a
-- child has triggers for each row, because a statement on the table above fires
-- only the statement triggers of that table.  PostgreSQL adds them to partitions by
-- itself.
CREATE FUNCTION dataverse_private.track_triggers(target regclass)
RETURNS TABLE (relid regclass, name name, type smallint, definition text, inherited boolean)
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT c.oid::regclass, k.name::name, k.type::smallint,
         format('CREATE TRIGGER %I %s ON %s %s EXECUTE FUNCTION dataverse_private.capture()',
                k.name, k.event, c.oid::regclass, k.clause),
         k.level IS NOT DISTINCT FROM 'row' AND c.relispartition AND c.oid <> $1
  FROM dataverse_private.track_tables_below($1) AS t (relid) JOIN pg_class AS c ON c.oid = t.relid,
    (SELECT CASE WHEN EXISTS (SELECT FROM dataverse_private.track_tables_above($1)) THEN 'row' ELSE 'statement' END) AS l (level),
    (VALUES
      ('dataverse_insert', 'statement', 4, 'AFTER INSERT', 'REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT'),
      ('dataverse_update', 'statement', 16, 'AFTER UPDATE',
       'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT'),
      ('dataverse_delete', 'statement', 8, 'AFTER DELETE', 'REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT'),
      ('dataverse_insert', 'row', 5, 'AFTER INSERT', 'FOR EACH ROW'),
      ('dataverse_update', 'row', 17, 'AFTER UPDATE', 'FOR EACH ROW'),
      ('dataverse_delete', 'row', 9, 'AFTER DELETE', 'FOR EACH ROW'),
      ('dataverse_truncate', NULL, 34, 'BEFORE TRUNCATE', 'FOR EACH STATEMENT')) AS k (name, level, type, event, clause)
  WHERE k.level IS NULL OR k.level = l.level
$$;

COMMENT ON FUNCTION dataverse_private.track_triggers(regclass) IS
  'the triggers that capture the changes of a copy; for dataverse.track()';

CREATE FUNCTION dataverse_private.track_check(
  target regclass, state dataverse_private.copies, id_column text, version_column text)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  other regclass;
BEGIN
  IF id_column IS NULL OR id_column <> ALL (state.columns) THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('changes of table %s cannot be captured, because the table has not been pulled', target),
      hint = format('First CALL dataverse.pull(%L, %L).', state.foreign_table, state.target);
  END IF;
  IF version_column IS NULL OR version_column <> ALL (state.columns) OR NOT EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid = target AND a.attname = version_column AND NOT a.attisdropped
      AND a.atttypid = 'int8'::regtype)
  THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('changes of table %s cannot be captured, because the versions of its rows are not copied', target),
      detail = 'Versions show whether a row has been changed in Dataverse in the meantime.',
      hint = 'Pull the table with its column for "versionnumber".';
  END IF;
  SELECT t INTO other FROM dataverse_private.track_tables_below(target) AS t JOIN pg_class AS c ON c.oid = t WHERE c.relkind = 'f' LIMIT 1;
  IF other IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type',
      message = format('changes of table %s cannot be captured, because %s is a foreign table', target, other);
  END IF;
  SELECT t INTO other
  FROM (SELECT dataverse_private.track_tables_above(target) UNION ALL SELECT dataverse_private.track_tables_below(target)) AS u (t)
  WHERE t <> target AND dataverse_private.copy_is_tracked(t) LIMIT 1;
  IF other IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('changes of table %s cannot be captured, because those of table %s are', target, other),
      detail = 'One of the tables contains the rows of the other.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.track_check(regclass, dataverse_private.copies, text, text) IS
  'refuses copies whose changes cannot be captured; for dataverse.track()';

-- Returns the work on the table of a copy and those below it that is needed to
-- capture changes or, without a column of ids, to stop capturing them: triggers and
-- defaults of ids to be dropped, and those to be created.
CREATE FUNCTION dataverse_private.track_work(target regclass, id_column text)
RETURNS TABLE (statement text, exclusive boolean)
LANGUAGE sql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass), true
  FROM dataverse_private.track_tables_below($1) AS t JOIN pg_trigger AS g ON g.tgrelid = t
  WHERE g.tgfoid = 'dataverse_private.capture()'::regprocedure AND g.tgparentid = 0
    AND ($2 IS NULL OR NOT EXISTS (
           SELECT FROM dataverse_private.track_triggers($1) AS w WHERE w.relid = g.tgrelid AND w.name = g.tgname AND w.type = g.tgtype))
  UNION ALL
  SELECT format('ALTER TABLE ONLY %s ALTER COLUMN %I DROP DEFAULT', d.adrelid::regclass, d.attname), true
  -- OFFSET keeps it from examining other tables, which pg_get_expr locks from PostgreSQL 18 on
  FROM (SELECT d.adrelid, a.attname, d.adbin
        FROM dataverse_private.track_tables_below($1) AS t JOIN pg_attribute AS a ON a.attrelid = t
          JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE $2 IS NULL OFFSET 0) AS d
  WHERE pg_get_expr(d.adbin, d.adrelid) = 'dataverse.new_id()'
  UNION ALL
  SELECT w.definition, false FROM dataverse_private.track_triggers($1) AS w
  WHERE $2 IS NOT NULL AND NOT w.inherited AND NOT EXISTS (
    SELECT FROM pg_trigger AS g WHERE g.tgrelid = w.relid AND g.tgname = w.name AND g.tgtype = w.type
      AND g.tgfoid = 'dataverse_private.capture()'::regprocedure)
  UNION ALL
  SELECT format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT dataverse.new_id()', t::regclass, a.attname), true
  FROM dataverse_private.track_tables_below($1) AS t JOIN pg_attribute AS a ON a.attrelid = t
  WHERE a.attname = $2 AND NOT a.attisdropped AND NOT a.atthasdef AND a.attidentity = ''
$$;

COMMENT ON FUNCTION dataverse_private.track_work(regclass, text) IS
  'the statements that begin or end the capture of changes; for dataverse.track() and untrack()';

-- Carries out this work.  Existing objects stay as they are, so a repeated call takes no
-- lock unless there are new partitions.  The tables are locked before the state of the
-- copy, as in a run, and at once in the strictest mode that is necessary.  Another
-- session may have done the work meanwhile.  To stop capturing, we wait for it even if
-- there is nothing to do, since it may be about to begin: triggers without a copy would
-- refuse all changes.
CREATE FUNCTION dataverse_private.track_do(target regclass, id_column text)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  lockable CONSTANT boolean := EXISTS (SELECT FROM pg_class AS c WHERE c.oid = target AND c.relkind IN ('r', 'p'));
  exclusive boolean;
  statement text;
BEGIN
  IF id_column IS NULL AND lockable THEN
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', target);
  END IF;
  exclusive := (SELECT bool_or(w.exclusive) FROM dataverse_private.track_work(target, id_column) AS w);
  IF exclusive IS NULL AND (id_column IS NOT NULL OR NOT lockable) THEN
    RETURN;
  END IF;
  EXECUTE format('LOCK TABLE %s IN %s MODE', target, CASE WHEN exclusive THEN 'ACCESS EXCLUSIVE' ELSE 'SHARE ROW EXCLUSIVE' END);
  FOR statement IN SELECT w.statement FROM dataverse_private.track_work(target, id_column) AS w LOOP
    EXECUTE statement;
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.track_do(regclass, text) IS
  'creates or drops the triggers that capture changes and the default of ids; for dataverse.track() and untrack()';

CREATE FUNCTION dataverse_private.track_given(target regclass, procedure text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF target IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'null_value_not_allowed', message = 'argument "target" is null',
      hint = format('Name the copy, as in CALL dataverse.%s(''public.account'').', procedure);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.track_given(regclass, text) IS
  'raises an error if no table is given; for dataverse.track() and untrack()';

CREATE PROCEDURE dataverse.track(target regclass)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  copy CONSTANT bigint := dataverse_private.copy_of(target);
  state dataverse_private.copies;
  info record;
  part record;
BEGIN
  PERFORM dataverse_private.track_given(target, 'track');
  IF copy IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s is not a copy of a foreign table', target),
      hint = 'First make it a copy with dataverse.pull().  The view dataverse.sync_state lists the copies.';
  END IF;
  state := dataverse_private.copy_get(copy);
  SELECT * INTO STRICT info FROM dataverse_private.pull_info(coalesce(to_regclass(state.foreign_table), state.foreign_oid));
  PERFORM dataverse_private.track_check(target, state, info.id_column, info.version_column);
  PERFORM dataverse_private.track_do(target, info.id_column);
  -- another session may have ended it meanwhile
  state := dataverse_private.copy_get(copy);
  IF (state.id_column, state.version_column) IS DISTINCT FROM (info.id_column, info.version_column) OR state.target_oid IS DISTINCT FROM target THEN
    PERFORM dataverse_private.copy_track(copy, info.id_column, info.version_column);
  END IF;
  FOR part IN
    SELECT g.tgname AS name, g.tgrelid::regclass AS relid
    FROM dataverse_private.track_triggers(target) AS w JOIN pg_trigger AS g ON g.tgrelid = w.relid AND g.tgname = w.name
    WHERE g.tgenabled = 'D'
  LOOP
    RAISE WARNING USING
      message = format('trigger "%s" of table %s is disabled, so not all changes are captured', part.name, part.relid),
      hint = format('Enable it: ALTER TABLE %s ENABLE TRIGGER %I;', part.relid, part.name);
  END LOOP;
END
$$;

COMMENT ON PROCEDURE dataverse.track(regclass) IS
  'begins to capture local changes of a copy, for dataverse.sync()';

CREATE PROCEDURE dataverse.untrack(target regclass)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  copy CONSTANT bigint := dataverse_private.copy_of(target);
  above regclass;
  forgotten bigint;
BEGIN
  PERFORM dataverse_private.track_given(target, 'untrack');
  SELECT t INTO above FROM dataverse_private.track_tables_above(target) AS t WHERE dataverse_private.copy_is_tracked(t) LIMIT 1;
  IF above IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('changes of table %s are captured with those of table %s', target, above),
      hint = format('CALL dataverse.untrack(%L), or detach the table first.', above);
  END IF;
  PERFORM dataverse_private.track_do(target, NULL);
  IF copy IS NOT NULL THEN
    forgotten := dataverse_private.copy_track(copy, NULL, NULL);
  END IF;
  IF forgotten > 0 THEN
    RAISE WARNING USING
      message = format('discarded unsent local changes of table %s: %s', target, forgotten),
      hint = format('The table still contains them.  To restore the rows of Dataverse: CALL dataverse.pull(%L, %L, full => true);',
                    (dataverse_private.copy_get(copy)).foreign_table, target);
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.untrack(regclass) IS
  'ends the capture of local changes of a copy, and discards unsent ones';

-- Changes of copies that are not in Dataverse yet.  dataverse_private.local_changes has
-- each change; this table has each row, with everything that is needed to send it,
-- and to find out after a crash whether it was sent.
--
-- "base" is the version of the row that was changed locally.  "against" is the
-- version that the row must have when it is written: usually the same one, or the
-- version that a user has decided to overwrite.  For a "fresh" row, the token of the
-- copy stands for "base": others have changed the row since then only if the changes
-- since that token say so.
CREATE TABLE dataverse_private.pending (
  number bigint GENERATED BY DEFAULT AS IDENTITY,
  copy bigint NOT NULL,
  id uuid NOT NULL,
  operation "char" NOT NULL,
  columns text[] NOT NULL DEFAULT '{}',
  held text[] NOT NULL DEFAULT '{}',
  was jsonb NOT NULL DEFAULT '{}',
  base bigint,
  against bigint,
  fresh boolean NOT NULL DEFAULT false,
  state text NOT NULL CHECK (state IN ('taken', 'new', 'sending', 'fetch', 'filed')),
  tries integer NOT NULL DEFAULT 0,
  arrived boolean NOT NULL DEFAULT false,
  touched boolean NOT NULL DEFAULT false,
  image jsonb,
  kind text,
  ours jsonb,
  theirs jsonb,
  seen bigint,
  sqlstate text,
  error text,
  found_at timestamptz,
  decision text,
  PRIMARY KEY (copy, id)
)
-- images are kept for a short time; compressing them would take longer than storing them
WITH (toast_tuple_target = 8160);

COMMENT ON TABLE dataverse_private.pending IS
  'locally changed rows of copies that are not settled yet; the view dataverse.conflicts shows the filed ones';
COMMENT ON COLUMN dataverse_private.pending.operation IS
  'I, U, or D; for a row that was taken, D if it was ever deleted, else U';
COMMENT ON COLUMN dataverse_private.pending.columns IS
  'the changed columns that have to be sent; for a filed row, those that await resolution';
COMMENT ON COLUMN dataverse_private.pending.held IS
  'columns that await resolution while others of the row are sent; for a row to be created, those to be sent once it exists';
COMMENT ON COLUMN dataverse_private.pending.was IS
  'the values of edited columns before the first edit, as last seen in Dataverse';
COMMENT ON COLUMN dataverse_private.pending.fresh IS
  'the row was edited in a copy that was in step, has not been judged, and no page has shown another version than base';
COMMENT ON COLUMN dataverse_private.pending.number IS
  'the number of the filed conflict; changes whenever its displayed contents change';
COMMENT ON COLUMN dataverse_private.pending.state IS
  'taken from the log; new; sending, if it may have been sent; fetch, if only the row in Dataverse has to be read; filed';
COMMENT ON COLUMN dataverse_private.pending.touched IS 'changes of the row in Dataverse were not merged';
COMMENT ON COLUMN dataverse_private.pending.tries IS
  'how often the row was sent in this run; 9 if the run leaves it to the next one';
COMMENT ON COLUMN dataverse_private.pending.arrived IS 'the row was sent and written, but could not be read back';
COMMENT ON COLUMN dataverse_private.pending.image IS 'the row as it is being sent';

-- of rows that have been filed
CREATE UNIQUE INDEX pending_number_idx ON dataverse_private.pending (number) WHERE kind IS NOT NULL;
CREATE INDEX pending_state_idx ON dataverse_private.pending (copy, state, operation);

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.pending', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.pending_number_seq', '');

-- Takes a new snapshot each time it is called, like a function of volatile statements.
CREATE FUNCTION dataverse_private.copy_is_captured(copy bigint)
RETURNS boolean
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  RETURN EXISTS (SELECT FROM dataverse_private.copies AS c WHERE c.id = copy AND c.id_column IS NOT NULL);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_is_captured(bigint) IS
  'whether changes of a copy are captured; for dataverse.pull()';

-- Moves the log to the pending rows.  Rows that are being sent stay in the log,
-- so that later changes can be distinguished from those being sent.  Rows that
-- were only updated can be sent as they are.  Returns true if there are others,
-- about which pending_place() decides.
CREATE FUNCTION dataverse_private.pending_take(copy bigint, columns text[])
RETURNS boolean
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH log AS (
    DELETE FROM dataverse_private.local_changes AS l
    WHERE l.copy = pending_take.copy AND NOT EXISTS (
      SELECT FROM dataverse_private.pending AS p WHERE p.copy = l.copy AND p.id = l.id AND p.state = 'sending')
    RETURNING l.id, l.operation, l.columns, l.base, l.number, l.was),
  -- a row that was deleted and inserted again has changed in all its columns
  net AS (
    SELECT l.id, min(l.base) AS base, CASE WHEN bool_or(l.operation = 'D') THEN 'D' ELSE 'U' END::"char" AS operation,
           bool_and(l.operation = 'U') AND min(l.base) IS NOT NULL AS updated,
           CASE WHEN bool_or(l.operation = 'I') THEN pending_take.columns
                ELSE coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') END AS columns
    FROM log AS l LEFT JOIN LATERAL unnest(l.columns) AS c ON true
    GROUP BY l.id),
  seen AS (
    SELECT f.id, jsonb_object_agg(f.c, f.w) AS was
    FROM (SELECT DISTINCT ON (l.id, u.c) l.id, u.c, u.w FROM log AS l, unnest(l.columns, l.was) AS u (c, w)
          WHERE l.operation = 'U' ORDER BY l.id, u.c, l.number) AS f
    GROUP BY f.id)
  -- for an inserted or deleted row, there are no values last seen
  INSERT INTO dataverse_private.pending AS p (copy, id, operation, columns, was, base, against, fresh, state)
  SELECT pending_take.copy, n.id, n.operation, n.columns, CASE WHEN n.updated THEN coalesce(s.was, '{}') ELSE '{}' END,
         n.base, CASE WHEN n.updated THEN n.base END, n.base IS NOT NULL, CASE WHEN n.updated THEN 'new' ELSE 'taken' END
  FROM net AS n LEFT JOIN seen AS s ON s.id = n.id
  ON CONFLICT ON CONSTRAINT pending_pkey DO UPDATE
  SET was = CASE WHEN excluded.state = 'new' AND p.operation = 'U' THEN excluded.was || coalesce(
        (SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(p.was) AS e WHERE e.key = ANY (p.columns || p.held)), '{}') ELSE '{}' END,
      columns = ARRAY(SELECT unnest(p.columns) UNION SELECT unnest(p.held) UNION SELECT unnest(excluded.columns) ORDER BY 1),
      held = '{}', base = coalesce(p.base, excluded.base), state = 'taken', decision = NULL,
      operation = CASE WHEN p.operation = 'D' THEN p.operation ELSE excluded.operation END;
  RETURN EXISTS (SELECT FROM dataverse_private.pending AS p WHERE p.copy = pending_take.copy AND p.state = 'taken');
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_take(bigint, text[]) IS
  'takes changes from the log of a copy; for dataverse.sync()';

CREATE FUNCTION dataverse_private.pending_ids(copy bigint, states text[], most bigint DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
BEGIN
  RETURN QUERY SELECT p.id FROM dataverse_private.pending AS p
    WHERE p.copy = pending_ids.copy AND p.state = ANY (states) ORDER BY p.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_ids(bigint, text[], bigint) IS
  'the ids of pending rows; for dataverse.sync()';

-- Decides about rows that were taken, depending on whether they exist locally, and
-- whether Dataverse ever had them.  A row that neither side has is forgotten,
-- unless Dataverse has a row with its id.  A row that is missing, but was not seen
-- to be deleted, comes back.
CREATE FUNCTION dataverse_private.pending_place(copy bigint, existing uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH placed AS (
    SELECT p.id, e.id IS NOT NULL AS here FROM dataverse_private.pending AS p LEFT JOIN unnest(existing) AS e (id) ON e.id = p.id
    WHERE p.copy = pending_place.copy AND p.state = 'taken')
  UPDATE dataverse_private.pending AS p
  SET operation = CASE WHEN NOT n.here THEN 'D' WHEN p.base IS NULL THEN 'I' ELSE 'U' END,
      against = p.base, image = NULL,
      state = CASE WHEN n.here OR (p.base IS NOT NULL AND p.operation = 'D') THEN 'new' ELSE 'fetch' END
  FROM placed AS n WHERE p.copy = pending_place.copy AND p.id = n.id;
  DELETE FROM dataverse_private.pending AS p
  WHERE p.copy = pending_place.copy AND p.state = 'fetch' AND p.operation = 'D' AND p.base IS NULL AND NOT p.touched AND p.kind IS NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_place(bigint, uuid[]) IS
  'decides what to do with changes that were taken; for dataverse.sync()';

-- Notes which versions the service has of rows that may be pending; it has deleted
-- those without a version.
CREATE FUNCTION dataverse_private.pending_told(copy bigint, ids uuid[], versions bigint[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p SET fresh = false
  FROM unnest(ids, versions) AS u (id, version)
  WHERE p.copy = pending_told.copy AND p.id = u.id AND p.fresh AND p.base IS DISTINCT FROM u.version;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_told(bigint, uuid[], bigint[]) IS
  'notes that pending rows have changed in Dataverse; for dataverse.pull() and sync()';

-- Returns the rows being sent that need not be read, given what the service has just told.
CREATE FUNCTION dataverse_private.pending_fresh(copy bigint, ids uuid[], versions bigint[])
RETURNS uuid[]
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  RETURN ARRAY(
    SELECT p.id FROM dataverse_private.pending AS p
    WHERE p.copy = pending_fresh.copy AND p.state = 'sending' AND p.fresh
      AND NOT EXISTS (SELECT FROM unnest(ids, versions) AS u (id, version) WHERE u.id = p.id AND u.version IS DISTINCT FROM p.base));
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_fresh(bigint, uuid[], bigint[]) IS
  'the rows that are being sent and have not changed in Dataverse; for dataverse.sync()';

-- Returns those of these rows that must not be merged.  Notes that the service
-- had news of them, so that filed rows are judged again.
CREATE FUNCTION dataverse_private.pending_among(copy bigint, ids uuid[])
RETURNS uuid[]
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p SET touched = true
  WHERE p.copy = pending_among.copy AND p.id = ANY (ids) AND NOT p.touched AND (p.state = 'filed' OR p.operation = 'I');
  RETURN ARRAY(SELECT p.id FROM dataverse_private.pending AS p WHERE p.copy = pending_among.copy AND p.id = ANY (ids));
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_among(bigint, uuid[]) IS
  'which rows have local changes; for dataverse.pull()';

-- Returns those of these rows that were changed since the log was taken, and in which columns.
CREATE FUNCTION dataverse_private.pending_dirty(copy bigint, ids uuid[])
RETURNS TABLE (id uuid, columns text[], whole boolean)
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  RETURN QUERY
    SELECT l.id, coalesce(array_agg(DISTINCT c) FILTER (WHERE c IS NOT NULL), '{}'), bool_or(l.operation <> 'U')
    FROM dataverse_private.local_changes AS l JOIN (SELECT DISTINCT u FROM unnest(ids) AS u) AS i (id) ON i.id = l.id
      LEFT JOIN LATERAL unnest(l.columns) AS c ON true
    WHERE l.copy = pending_dirty.copy
    GROUP BY l.id;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_dirty(bigint, uuid[]) IS
  'rows that were changed again after their changes were taken, in which columns, and whether completely; for dataverse.sync()';

-- At the beginning of a run, returns the rows to try.  Later ("since" it began),
-- returns the rows to retry: those that refer to others, which may exist by now, and
-- those with a unique value that another row had.
CREATE FUNCTION dataverse_private.pending_retry(copy bigint, since timestamptz)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  n bigint;
BEGIN
  IF since IS NULL THEN
    UPDATE dataverse_private.pending AS p SET tries = 0 WHERE p.copy = pending_retry.copy AND p.tries <> 0;
  END IF;
  UPDATE dataverse_private.pending AS p SET state = 'new', tries = 0
  WHERE p.copy = pending_retry.copy AND p.state = 'filed' AND p.decision IS NULL AND p.kind = 'refused'
    AND (p.sqlstate IN ('23503', '23001') OR (p.sqlstate = '23505' AND p.found_at >= since));
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_retry(bigint, timestamptz) IS
  'allows a retry of rows that were refused because of other rows; for dataverse.sync()';

-- Handles new rows that were refused because they refer to rows that are also
-- waiting to be created, perhaps because those refer to them in turn, or to
-- themselves.  They are created without these references; "held" are the columns to
-- be sent afterwards.  References to rows that will not be created are left as they
-- are.
CREATE FUNCTION dataverse_private.pending_loosen(copy bigint, sync dataverse_private.sync_plan, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  n bigint;
BEGIN
  WITH waiting AS (
    SELECT n.id::text AS id
    FROM (SELECT p.copy, p.id FROM dataverse_private.pending AS p WHERE p.operation = 'I'
          UNION SELECT l.copy, l.id FROM dataverse_private.local_changes AS l WHERE l.operation = 'I') AS n
      JOIN dataverse_private.copies AS c ON c.id = n.copy
    WHERE pg_has_role(caller, dataverse_private.copy_owner(c), 'USAGE')),
  loose AS (
    SELECT p.id, array_agg(DISTINCT u.c) AS columns
    FROM dataverse_private.pending AS p, unnest(sync.referring) AS r,
      LATERAL (VALUES (r), (sync.partners ->> r)) AS u (c)
    WHERE p.copy = pending_loosen.copy AND p.state = 'filed' AND p.decision IS NULL AND p.kind = 'refused'
      AND p.operation = 'I' AND p.sqlstate = '23503' AND u.c IS NOT NULL
      AND lower(p.ours ->> r) IN (SELECT w.id FROM waiting AS w)
    GROUP BY p.id)
  UPDATE dataverse_private.pending AS p SET state = 'new', tries = 0, held = l.columns
  FROM loose AS l WHERE p.copy = pending_loosen.copy AND p.id = l.id;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_loosen(bigint, dataverse_private.sync_plan, oid) IS
  'lets new rows that refer to each other be created first without these references; for dataverse.sync()';

-- Returns the next rows to send, to ask about, or to fetch: new rows of one
-- operation; filed ones that were decided or had news.  Deleting a row changes
-- those that refer to it, so as many rows as possible are examined before the
-- first one is deleted.
CREATE FUNCTION dataverse_private.pending_next(copy bigint, states text[], most bigint)
RETURNS dataverse_private.pending[]
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  wanted "char" := (SELECT p.operation FROM dataverse_private.pending AS p
                    WHERE p.copy = pending_next.copy AND p.state = 'new' AND p.tries < 3 AND 'new' = ANY (states)
                    ORDER BY position(p.operation IN 'IUD') LIMIT 1);
BEGIN
  RETURN ARRAY(
    SELECT p FROM dataverse_private.pending AS p
    WHERE p.copy = pending_next.copy AND p.state = ANY (states) AND CASE p.state WHEN 'new' THEN p.tries < 3 AND p.operation = wanted ELSE p.tries <> 9 END
      AND (p.state <> 'filed' OR p.touched OR p.decision IS NOT NULL)
    ORDER BY p.id LIMIT CASE WHEN wanted = 'D' OR 'sending' = ANY (states) THEN 10 * most ELSE most END);
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_next(bigint, text[], bigint) IS
  'the next pending rows; for dataverse.sync()';

-- Notes the rows that are sent, and how.
CREATE FUNCTION dataverse_private.pending_stage(copy bigint, rows dataverse_private.staged_row[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p SET state = n.state, tries = n.tries, arrived = false, columns = n.columns, held = n.held, image = n.image
  FROM unnest(rows) AS n WHERE p.copy = pending_stage.copy AND p.id = n.id;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_stage(bigint, dataverse_private.staged_row[]) IS
  'notes rows that are about to be sent; for dataverse.sync()';

-- Writes rows that the run has read with pending_next() and then changed.  A decision
-- applies to the state that was shown, so none is left.
CREATE FUNCTION dataverse_private.pending_set(copy bigint, rows dataverse_private.pending[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p
  SET operation = n.operation, columns = n.columns, held = n.held, base = n.base, against = n.against, fresh = false, state = n.state,
      tries = n.tries, arrived = n.arrived AND n.state = 'sending', touched = n.touched, image = n.image, kind = n.kind,
      ours = n.ours, theirs = n.theirs, seen = n.seen, sqlstate = n.sqlstate, error = n.error, found_at = n.found_at, decision = NULL,
      number = CASE WHEN n.state = 'filed' AND (n.kind, n.seen, n.columns, n.ours, n.theirs) IS DISTINCT FROM (p.kind, p.seen, p.columns, p.ours, p.theirs)
                 THEN nextval('dataverse_private.pending_number_seq') ELSE p.number END
  FROM unnest(rows) AS n
  WHERE p.copy = pending_set.copy AND p.id = n.id;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_set(bigint, dataverse_private.pending[]) IS
  'records the new state of pending rows; for dataverse.sync()';

-- Leaves filed rows as they are, since the service had no news of them.  A user may just
-- have decided about them; "forgets" is true if rows were edited, which decisions do not concern.
CREATE FUNCTION dataverse_private.pending_keep(copy bigint, ids uuid[], forgets boolean)
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p SET touched = false, decision = CASE WHEN NOT forgets THEN p.decision END
  WHERE p.copy = pending_keep.copy AND p.id = ANY (ids);
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_keep(bigint, uuid[], boolean) IS
  'leaves filed rows as they are; for dataverse.sync()';

-- Other columns have got the names of these ones, so rows no longer have the changed values under these names.
-- The changes become those of columns that are not copied (sync_file_uncopied).  What was shown of a conflict,
-- or decided about it, does not apply any more.
CREATE FUNCTION dataverse_private.pending_disown(copy bigint, columns text[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  suffix CONSTANT text := ' (re-created)';
BEGIN
  UPDATE dataverse_private.local_changes AS l
  SET columns = ARRAY(SELECT CASE WHEN c = ANY (pending_disown.columns) THEN c || suffix ELSE c END
                      FROM unnest(l.columns) WITH ORDINALITY AS u (c, i) ORDER BY i)
  WHERE l.copy = pending_disown.copy AND l.columns && pending_disown.columns;
  UPDATE dataverse_private.pending AS p
  SET columns = ARRAY(SELECT CASE WHEN c = ANY (pending_disown.columns) THEN c || suffix ELSE c END FROM unnest(p.columns) AS c ORDER BY 1),
      held = ARRAY(SELECT CASE WHEN c = ANY (pending_disown.columns) THEN c || suffix ELSE c END FROM unnest(p.held) AS c ORDER BY 1),
      ours = p.ours - pending_disown.columns, decision = NULL,
      number = CASE WHEN p.state = 'filed' THEN nextval('dataverse_private.pending_number_seq') ELSE p.number END
  WHERE p.copy = pending_disown.copy AND p.columns || p.held && pending_disown.columns;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_disown(bigint, text[]) IS
  'keeps changes of columns from being sent as those of others that have got their names; for dataverse.pull()';

-- Leaves rows that cannot be read to the next run; those in "sent" are known to be written.
CREATE FUNCTION dataverse_private.pending_hide(copy bigint, ids uuid[], sent uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  UPDATE dataverse_private.pending AS p
  SET tries = 9, arrived = p.state = 'sending' AND EXISTS (SELECT FROM unnest(sent) AS s WHERE s = p.id)
  WHERE p.copy = pending_hide.copy AND p.id = ANY (ids);
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_hide(bigint, uuid[], uuid[]) IS
  'leaves rows that cannot be read to the next run; for dataverse.sync()';

-- The following functions return a pending row in a new state.

-- It is to be sent.
CREATE FUNCTION dataverse_private.pending_to_send(INOUT p dataverse_private.pending)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  p.state := 'new';
  p.image := NULL;
  p.touched := false;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_to_send(dataverse_private.pending) IS
  'a pending row that is to be sent; for dataverse.sync()';

-- It was changed again, so it is examined together with the later changes.
CREATE FUNCTION dataverse_private.pending_to_take(INOUT p dataverse_private.pending)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  p.state := 'taken';
  p.image := NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_to_take(dataverse_private.pending) IS
  'a pending row that was changed again; for dataverse.sync()';

-- It is filed, with the row of the service and its version; "anew" if that was not seen before.
CREATE FUNCTION dataverse_private.pending_to_file(
  INOUT p dataverse_private.pending, theirs jsonb, version bigint, anew boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  p.state := 'filed';
  p.held := '{}';
  p.ours := coalesce(p.image, p.ours);
  p.image := NULL;
  p.theirs := theirs;
  p.seen := version;
  p.against := p.base;
  p.touched := false;
  p.sqlstate := NULL;
  p.error := NULL;
  IF anew OR p.found_at IS NULL THEN
    p.found_at := clock_timestamp();
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_to_file(dataverse_private.pending, jsonb, bigint, boolean) IS
  'a pending row that is filed; for dataverse.sync()';

CREATE FUNCTION dataverse_private.pending_drop(copy bigint, ids uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
BEGIN
  IF ids IS NULL THEN
    DELETE FROM dataverse_private.pending AS p WHERE p.copy = pending_drop.copy;
  ELSE
    DELETE FROM dataverse_private.pending AS p WHERE p.copy = pending_drop.copy AND p.id = ANY (ids);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_drop(bigint, uuid[]) IS
  'forgets pending rows that are settled, or all; for dataverse.sync()';

CREATE FUNCTION dataverse_private.pending_count(copy bigint, OUT open bigint, OUT unsent bigint, OUT hidden bigint)
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  SELECT count(*) FILTER (WHERE p.state = 'filed' OR p.held <> '{}'), count(*) FILTER (WHERE p.state = 'new' AND p.tries BETWEEN 3 AND 8),
         count(*) FILTER (WHERE p.state <> 'new' AND p.tries = 9)
  INTO open, unsent, hidden FROM dataverse_private.pending AS p WHERE p.copy = pending_count.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.pending_count(bigint) IS
  'how many rows of a copy have unresolved conflicts, were sent without effect, or cannot be read; for dataverse.sync()';

CREATE VIEW dataverse.conflicts WITH (security_barrier) AS
  SELECT p.number AS id, c.foreign_table, c.target, p.id AS row_id, p.kind,
         CASE p.state WHEN 'filed' THEN p.columns ELSE p.held END AS columns,
         p.ours, p.theirs, p.sqlstate, p.error, p.found_at, p.decision
  FROM dataverse_private.pending AS p JOIN dataverse_private.copies AS c ON c.id = p.copy
  WHERE (p.state = 'filed' OR p.held <> '{}')
    AND (pg_catalog.pg_has_role(dataverse_private.copy_owner(c), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE'));

COMMENT ON VIEW dataverse.conflicts IS
  'rows that were changed on both sides, or that Dataverse refused: both versions, until the conflict is resolved';

CREATE FUNCTION dataverse_private.resolve_check(decision text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF decision IS NULL OR decision NOT IN ('service', 'local') THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid decision: "%s"', coalesce(decision, 'null')),
      hint = 'Valid decisions are "service" and "local".';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.resolve_check(text) IS
  'raises an error for an invalid decision; for dataverse.resolve()';

REVOKE ALL ON FUNCTION dataverse_private.resolve_check(text) FROM PUBLIC;

CREATE FUNCTION dataverse_private.resolve_conflict(conflict bigint, decision text, caller oid DEFAULT 0)
RETURNS boolean
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  decided bigint;
BEGIN
  PERFORM dataverse_private.resolve_check(decision);
  SELECT p.copy INTO decided FROM dataverse_private.pending AS p WHERE p.number = conflict AND p.kind IS NOT NULL;
  IF decided IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse_private.copy_check(decided, caller);
  UPDATE dataverse_private.pending AS p SET decision = resolve_conflict.decision WHERE p.number = conflict AND p.kind IS NOT NULL AND p.state = 'filed';
  RETURN FOUND;
END
$$;

COMMENT ON FUNCTION dataverse_private.resolve_conflict(bigint, text, oid) IS
  'resolves a conflict by its number; for dataverse.resolve()';

CREATE FUNCTION dataverse.resolve(conflict bigint, decision text)
RETURNS boolean
LANGUAGE sql VOLATILE CALLED ON NULL INPUT
AS $$ SELECT dataverse_private.resolve_conflict($1, $2) $$;

COMMENT ON FUNCTION dataverse.resolve(bigint, text) IS
  'resolves a conflict in favor of one side, service or local, unless it has changed since; the next dataverse.sync() carries this out';

-- Each change of what the view shows of a conflict gives it a greater id (pending_set).  So
-- the greatest id of a copy determines which of its conflicts have been seen.  That of all copies
-- does not: runs of different copies file conflicts at the same time, and the one that has taken the
-- lesser id may commit later.
CREATE FUNCTION dataverse_private.resolve_seen()
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT jsonb_object_agg(l.target, l.id) FROM (SELECT c.target, max(c.id) AS id FROM dataverse.conflicts AS c GROUP BY c.target) AS l $$;

COMMENT ON FUNCTION dataverse_private.resolve_seen() IS
  'the greatest id of a conflict that the statement sees, for each table; for dataverse.resolve()';

CREATE FUNCTION dataverse_private.resolve_copy(
  target text, decision text, up_to bigint, seen jsonb, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  decided bigint;
  last bigint;
  n bigint;
  later bigint;
BEGIN
  PERFORM dataverse_private.resolve_check(decision);
  SELECT c.id, CASE WHEN up_to IS NOT NULL THEN least(up_to, coalesce((seen ->> c.target)::bigint, 0)) ELSE 0 END
  INTO decided, last
  FROM dataverse_private.copies AS c
  WHERE c.target_oid = to_regclass(resolve_copy.target) OR c.target = resolve_copy.target
  ORDER BY c.target_oid = to_regclass(resolve_copy.target) DESC NULLS LAST LIMIT 1;
  IF decided IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('table %s is not a copy of a foreign table', target),
      hint = 'The view dataverse.sync_state lists the copies.';
  END IF;
  PERFORM dataverse_private.copy_check(decided, caller);
  UPDATE dataverse_private.pending AS p SET decision = resolve_copy.decision WHERE p.copy = decided AND p.state = 'filed' AND p.number <= last;
  GET DIAGNOSTICS n = ROW_COUNT;
  SELECT count(*) INTO later FROM dataverse_private.pending AS p WHERE p.copy = decided AND p.state = 'filed' AND p.number > last;
  IF later > 0 THEN
    RAISE NOTICE USING
      message = format('%s conflict%s of %s not resolved', later, CASE later WHEN 1 THEN '' ELSE 's' END, target),
      detail = format('They were filed, or have changed, after conflict %s.', last),
      hint = 'Look at them in the view dataverse.conflicts.';
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.resolve_copy(text, text, bigint, jsonb, oid) IS
  'resolves conflicts of a copy by the qualified name of its table; for dataverse.resolve()';

-- "seen" is computed by the statement that calls the function, with its snapshot.
CREATE FUNCTION dataverse.resolve(
  target text, decision text, up_to bigint DEFAULT 9223372036854775807, seen jsonb DEFAULT dataverse_private.resolve_seen())
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
AS $$
BEGIN
  PERFORM dataverse_private.pull_check_name(target);
  RETURN dataverse_private.resolve_copy(dataverse_private.pull_target(target, pg_catalog.to_regclass(target), pg_catalog.current_schema()), decision, up_to, seen);
END
$$;

COMMENT ON FUNCTION dataverse.resolve(text, text, bigint, jsonb) IS
  'resolves the conflicts of a table that have been seen, up to an id, and returns their number; the next dataverse.sync() carries this out';

-- Both directions.  A run of dataverse.sync() pulls, and then sends local
-- changes.  Each step is committed:
--
--   stage     the rows that will be sent are noted with all their values;
--   send      they are written where the service still has the version that was
--             changed here; then they are read back and merged.
--
-- Rows that are noted as being sent when a run begins were interrupted between
-- these two, and are compared with those of the service.
--
-- Local changes are never overwritten: a row is locked before it is merged, and
-- then the log is read.  Earlier changes of the row are in the log by then; later
-- ones change the merged row.

CREATE FUNCTION dataverse_private.sync_check_columns(column_conflicts jsonb)
RETURNS void
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  name text;
  policy text;
BEGIN
  IF jsonb_typeof(column_conflicts) <> 'object' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = '"column_conflicts" is not an object',
      hint = 'Give the value for each column, as in {"creditlimit": "service"}.';
  END IF;
  FOR name, policy IN SELECT * FROM jsonb_each_text(column_conflicts) LOOP
    PERFORM dataverse_private.check_choice(format('column "%s" in "column_conflicts"', name), policy, 'skip', 'service', 'local');
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_check_columns(jsonb) IS
  'raises an error for invalid policies of columns; for dataverse.sync()';

-- Adds what a run needs to send rows to the plan of dataverse_private.pull_prepare().
-- Statements that can fire triggers run with the caller's search path, so every name
-- in them is qualified.
CREATE FUNCTION dataverse_private.sync_prepare(
  foreign_table regclass, target regclass, plan dataverse_private.copy_plan, conflict text, column_conflicts jsonb,
  strict boolean)
RETURNS dataverse_private.copy_plan
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  sync dataverse_private.sync_plan;
  columns CONSTANT text[] := plan.columns;
  id CONSTANT text := quote_ident(plan.id_column);
  version CONSTANT text := quote_ident(plan.version_column);
  source CONSTANT text := format('pg_catalog.unnest($1) AS u (r), LATERAL pg_catalog.jsonb_populate_record(NULL::%s, u.r) AS s', foreign_table);
  missing text;
  create_only text[];
  differs text;
  same text;
  other_types boolean;
BEGIN
  IF version IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = 'the versions of its rows are not copied',
      detail = 'Versions show which rows have changed on both sides.',
      hint = CASE WHEN (SELECT i.version_column FROM dataverse_private.pull_info(foreign_table) AS i) IS NULL
        THEN format('The foreign table lacks them.  Add the column: ALTER FOREIGN TABLE %s ADD COLUMN versionnumber bigint OPTIONS (readonly ''true'');',
                    foreign_table)
        ELSE 'Copy the column "versionnumber" as well; it must have type bigint in both tables.' END;
  END IF;
  IF NOT (SELECT w.on_insert FROM dataverse_private.writable_columns(foreign_table) AS w WHERE quote_ident(w.name) = id) THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('foreign table %s cannot be kept in step both ways', foreign_table),
      detail = 'Dataverse generates the ids of its rows, so rows that are inserted locally could not be found in Dataverse.',
      hint = format('Copy it with dataverse.pull(), and write to the foreign table: CALL dataverse.pull(%L, %L);', foreign_table, target);
  END IF;
  IF strict AND plan.elastic THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('rows of foreign table %s cannot be written with "strict"', foreign_table),
      detail = 'It is an elastic table, and Dataverse compares etags only in standard tables.',
      hint = 'Call dataverse.sync() without strict => true.  Versions are then compared right before the rows are written.';
  END IF;
  SELECT c INTO missing FROM jsonb_object_keys(column_conflicts) AS c WHERE c <> ALL (columns) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('column "%s" in "column_conflicts" is not copied', missing),
      hint = format('The columns are those that %s and %s both have.', foreign_table, target);
  END IF;
  sync.conflict := conflict;
  sync.column_conflicts := coalesce(column_conflicts, '{}');
  sync.strict := strict;
  sync.timezone := current_setting('TimeZone');
  SELECT coalesce(array_agg(w.name) FILTER (WHERE w.on_insert AND quote_ident(w.name) <> id), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE w.on_update AND quote_ident(w.name) <> id), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE w.on_insert AND NOT w.on_update AND NOT w.is_key), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE NOT w.nullable), '{}'),
         coalesce(jsonb_object_agg(w.name, w.partner) FILTER (WHERE w.partner = ANY (columns)), '{}')
  INTO sync.on_insert, sync.on_update, create_only, sync.not_null, sync.partners
  FROM dataverse_private.writable_columns(foreign_table) AS w WHERE w.name = ANY (columns) AND quote_ident(w.name) <> version;

  -- Dataverse stores empty texts and lists as nulls, lists in an order of its own, and no fractions of seconds
  SELECT string_agg(format('CASE WHEN %s AND (p.operation <> ''I'' OR i.%I IS NOT NULL) THEN %L END', replace(n.unequal, '<alias>', 'i'), c, c), ', '),
         string_agg(format('CASE WHEN p.was ? %L AND NOT (%s) THEN %1$L END', c, replace(n.unequal, '<alias>', 'w')), ', ')
  INTO differs, same
  FROM (SELECT DISTINCT unnest(sync.on_insert || sync.on_update)) AS u (c) JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = c JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_attribute AS l ON l.attrelid = target AND l.attname = c,
    LATERAL (SELECT CASE WHEN dataverse_private.pull_base_type(l.atttypid) = 'bpchar'::regtype THEN 'nullif(rtrim(%s.%I), '''' COLLATE "C")'
                         WHEN t.typcategory = 'A' THEN '(SELECT array_agg(DISTINCT e) FROM unnest(%s.%I) AS e)'
                         WHEN t.oid IN ('text'::regtype, 'varchar'::regtype) THEN 'nullif(%s.%I, '''' COLLATE "C")'
                         WHEN t.oid IN ('timestamptz'::regtype, 'timestamp'::regtype) THEN 'date_trunc(''second'', %s.%I)'
                         ELSE '%s.%I' END) AS f (form),
    LATERAL (SELECT format(CASE WHEN t.oid = 'numeric'::regtype THEN '%s IS DISTINCT FROM %s' ELSE 'ROW(%s)::record *<> ROW(%s)::record' END,
                           format(f.form, 'r', c), format(f.form, '<alias>', c))) AS n (unequal);

  sync.images := format('SELECT t.%2$s, to_jsonb(x.*) FROM %1$s AS t, LATERAL (SELECT %3$s) AS x WHERE t.%2$s = ANY ($1)', target, id,
                   (SELECT string_agg(format(CASE dataverse_private.pull_base_type(a.atttypid)
                                             WHEN 'bpchar'::regtype THEN 'CAST(t.%1$I AS pg_catalog.text) AS %1$I'
                                             WHEN 'money'::regtype THEN 'pg_catalog.trim_scale(CAST(t.%1$I AS pg_catalog.numeric)) AS %1$I'
                                             ELSE 't.%I' END, c), ', ')
                    FROM unnest(columns) AS c LEFT JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = c));
  SELECT bool_or((f.atttypid, f.atttypmod) IS DISTINCT FROM (t.atttypid, t.atttypmod)) INTO other_types
  FROM unnest(columns) AS c JOIN pg_attribute AS f ON f.attrelid = foreign_table AND f.attname = c
    LEFT JOIN pg_attribute AS t ON t.attrelid = target AND t.attname = c;

  -- Dataverse ignores them when a row is created; the foreign table sends states and images afterwards
  sync.update_only := ARRAY(SELECT c FROM unnest(sync.on_update) AS c
                            WHERE c <> ALL (sync.on_insert) OR plan.schema ->> c LIKE '% update' AND plan.schema ->> c !~ ' (State|Status|Virtual) ');
  -- and these when it is updated, or at least it may; columns that the foreign table refuses to update are not sent
  sync.create_only := ARRAY(SELECT c FROM unnest(sync.on_update || create_only) AS c
                            WHERE c = ANY (create_only) OR plan.schema ->> c LIKE '% create');
  sync.states := ARRAY(SELECT c FROM unnest(sync.on_update) AS c WHERE plan.schema ->> c ~ ' (State|Status)( |$)' ORDER BY c);
  sync.referring := ARRAY(SELECT c FROM unnest(sync.on_insert) AS c JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = c
                          WHERE a.atttypid = 'uuid'::regtype AND c <> ALL (sync.not_null));
  -- "candidates" are the columns that may be sent, "never_null" those of them whose nulls are
  -- not sent, and "readonly" those that have been changed and cannot be sent
  sync.stage := format($sql$
      WITH g AS MATERIALIZED (
        SELECT k.operation, k.columns, w.candidates, u.readonly,
               ARRAY(SELECT c FROM unnest(w.candidates) AS c WHERE k.operation = 'I' OR c = ANY (($3).not_null)) AS never_null, k.held
        FROM (SELECT DISTINCT n.operation, n.columns, n.held FROM unnest($2) AS n) AS k,
          LATERAL (SELECT CASE k.operation
                     WHEN 'U' THEN k.columns
                     WHEN 'I' THEN ARRAY(SELECT c FROM unnest($5) AS c
                                         WHERE c NOT IN (%2$L, %3$L) AND c <> ALL (k.held)
                                           AND c <> ALL (($3).update_only))
                     ELSE '{}' END AS edited) AS e,
          LATERAL (SELECT ARRAY(
                     SELECT c FROM (SELECT unnest(e.edited) UNION SELECT ($3).partners ->> c FROM unnest(e.edited) AS c) AS u (c)
                     WHERE c = ANY ($5) AND c = ANY (CASE k.operation WHEN 'I' THEN ($3).on_insert ELSE ($3).on_update END)
                     ORDER BY c) AS candidates) AS w,
          LATERAL (SELECT ARRAY(SELECT c FROM unnest(e.edited) AS c WHERE c <> ALL (w.candidates)) AS readonly) AS u)
      SELECT array_agg(ROW(s.id, s.state, s.tries, s.columns, s.held, s.image)::dataverse_private.staged_row) AS rows,
             count(*) FILTER (WHERE s.state = 'sending') AS staged, count(*) FILTER (WHERE s.unwritable) AS unwritable
      FROM (
        SELECT n.id,
               CASE WHEN d.id IS NOT NULL THEN 'new'
                    -- changed without being captured
                    WHEN (x.image IS NULL) <> (n.operation = 'D') THEN 'fetch'
                    WHEN n.operation = 'U' AND w.columns = '{}' AND n.held = '{}' THEN 'fetch'
                    ELSE 'sending' END AS state,
               -- rows that have just been changed again are left to the next run
               CASE WHEN d.id IS NOT NULL THEN 9 WHEN (x.image IS NULL) <> (n.operation = 'D') THEN n.tries ELSE n.tries + 1 END AS tries,
               CASE WHEN d.id IS NOT NULL OR (x.image IS NULL) <> (n.operation = 'D') THEN n.columns ELSE w.columns END AS columns,
               CASE WHEN d.id IS NULL AND n.operation = 'I' AND ($3).update_only <> '{}' THEN ARRAY(
                      SELECT unnest(n.held) UNION SELECT c FROM unnest(($3).update_only) AS c WHERE x.image -> c <> 'null')
                    ELSE n.held END AS held,
               CASE WHEN d.id IS NULL AND n.operation <> 'D' THEN x.image END AS image,
               -- if a row is created again, most of its values came from Dataverse
                d.id IS NULL AND n.operation <> 'D' AND EXISTS (
                  SELECT FROM unnest(g.readonly) AS c
                  WHERE x.image -> c <> 'null' AND (n.operation <> 'I' OR n.base IS NULL OR c = ANY (n.columns))) AS unwritable
        FROM unnest($2) AS n JOIN g ON g.operation = n.operation AND g.columns = n.columns AND g.held = n.held
          LEFT JOIN (%1$s) AS x (id, image) ON x.id = n.id
          LEFT JOIN unnest($4) AS d (id) ON d.id = n.id,
          LATERAL (SELECT CASE WHEN g.never_null = '{}' THEN g.candidates ELSE ARRAY(
                     SELECT c FROM unnest(g.candidates) AS c WHERE x.image -> c <> 'null' OR c <> ALL (g.never_null)) END AS columns) AS w) AS s
      $sql$, sync.images, plan.id_column, plan.version_column);
  -- values of the same types fit
  IF other_types THEN
    sync.fits := format('SELECT count(i.*) FROM unnest($1) AS u, LATERAL jsonb_populate_record(NULL::%s, u) AS i', foreign_table);
  END IF;
  sync.judge := format('WITH r AS MATERIALIZED (SELECT %1$s FROM (SELECT * FROM dataverse_private.page_rows(NULL::%2$s)'
                       ' UNION ALL SELECT * FROM dataverse_private.page_left_out(NULL::%2$s)) AS f)'
                       ' SELECT ROW(p.*)::dataverse_private.pending AS pending, r.%4$s AS version, CASE WHEN r.%3$s IS NOT NULL THEN to_jsonb(r.*) END AS theirs,'
                       ' array_remove(ARRAY[%5$s]::text[], NULL) AS differs, array_remove(ARRAY[%6$s]::text[], NULL) AS same'
                       ' FROM unnest($1) AS p LEFT JOIN r ON r.%3$s = p.id, LATERAL jsonb_populate_record(NULL::%2$s, coalesce(p.image, ''{}'')) AS i,'
                       ' LATERAL jsonb_populate_record(NULL::%2$s, p.was) AS w',
                       (SELECT string_agg(format('f.%I', c), ', ') FROM unnest(columns) AS c), foreign_table, id, version, differs, same);
  -- a column may now have another type than when its value was noted
  sync.seen_fits := format('SELECT count(w.*) FROM unnest($1) AS p, LATERAL jsonb_populate_record(NULL::%s, p.was) AS w', foreign_table);
  sync.absent := format('SELECT ARRAY(SELECT u.sought FROM unnest($1) AS u (sought) LEFT JOIN dataverse_private.page_rows(NULL::%1$s) AS s ON s.%2$s = u.sought WHERE s.%2$s IS NULL)',
                        foreign_table, id);
  sync.back := format('WITH w AS (SELECT p.id, p.operation, p.against FROM unnest($1) AS p JOIN unnest($2) AS w ON w = p.id)'
                      ' SELECT ARRAY(SELECT s.%2$s FROM dataverse_private.page_rows(NULL::%1$s) AS s JOIN w ON w.id = s.%2$s'
                      ' WHERE w.operation <> ''D'' AND s.%3$s IS DISTINCT FROM w.against),'
                      ' ARRAY(SELECT d FROM dataverse_private.page_deletions() AS d JOIN w ON w.id = d WHERE w.operation = ''D'')',
                      foreign_table, id, version);
  sync.land_part := format('UPDATE %1$s AS t SET %%s FROM %2$s WHERE t.%3$s OPERATOR(pg_catalog.=) s.%3$s',
                           replace(target::text, '%', '%%'), replace(source, '%', '%%'), replace(id, '%', '%%'));
  plan.sync := sync;
  RETURN plan;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_prepare(regclass, regclass, dataverse_private.copy_plan, text, jsonb, boolean) IS
  'the statements of a run of dataverse.sync()';

-- Returns the token since which changes in Dataverse are read when rows are sent, or null if
-- versions are read by the ids of the rows instead.  Without such a change, a row must have the
-- version that the copy had.  So all rows must have been merged up to the token, except pending
-- ones that the service had news of, and change tracking must tell of each row.
CREATE FUNCTION dataverse_private.sync_token(copy bigint, plan dataverse_private.copy_plan)
RETURNS text
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN c.phase = 'current' AND c.tracked AND c.refused = 0 AND NOT c.behind AND NOT ($2).elastic AND NOT (($2).sync).strict THEN c.token END
  FROM dataverse_private.copy_get($1) AS c
$$;

COMMENT ON FUNCTION dataverse_private.sync_token(bigint, dataverse_private.copy_plan) IS
  'the token since which changes are read when rows are sent; for dataverse.sync()';

-- Reads changes since a token into the page, and returns the ids and versions of rows, and the
-- token at their end.  This is null if the service does not return them in one page: then lists
-- of ids cost less.  The copy keeps its token, since these changes are not merged.
CREATE FUNCTION dataverse_private.sync_look(
  plan dataverse_private.copy_plan, columns text[], INOUT token text, OUT ids uuid[], OUT versions bigint[])
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  page record;
BEGIN
  ids := '{}';
  versions := '{}';
  IF token IS NULL THEN
    RETURN;
  END IF;
  BEGIN
    SELECT * INTO STRICT page FROM dataverse_private.read_page(plan.foreign_table, columns, NULL, token, NULL, false, NULL);
  EXCEPTION
    -- the token has expired, or the table is no longer tracked
    WHEN SQLSTATE 'DV001' OR SQLSTATE 'DV002' THEN
      token := NULL;
      RETURN;
  END;
  -- the token goes back if the environment was restored from a backup
  IF page.link IS NOT NULL OR dataverse_private.pull_token_version(page.token) < dataverse_private.pull_token_version(token) THEN
    PERFORM dataverse_private.end_pages();
    token := NULL;
    RETURN;
  END IF;
  token := page.token;
  EXECUTE plan.versions INTO ids, versions;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_look(dataverse_private.copy_plan, text[], text) IS
  'reads what has changed in Dataverse while rows are sent; for dataverse.sync()';

-- Takes local changes from the log.  Rows that are hidden by row security would
-- look like deleted ones.
CREATE FUNCTION dataverse_private.sync_take(copy bigint, plan dataverse_private.copy_plan)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
SET row_security = off
AS $$
DECLARE
  existing uuid[];
BEGIN
  -- before anything of the copy is locked, as in dataverse.untrack()
  EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', plan.target);
  IF dataverse_private.pending_take(copy, ARRAY(SELECT c FROM unnest(plan.columns) AS c
                                        WHERE c NOT IN (plan.id_column, plan.version_column))) THEN
    EXECUTE plan.existing USING copy INTO existing;
    PERFORM dataverse_private.pending_place(copy, coalesce(existing, '{}'));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_take(bigint, dataverse_private.copy_plan) IS
  'takes local changes from the log; for dataverse.sync()';

-- Puts the rows of the page into the table as the service has them, and removes those
-- that it does not have.  Rows that were changed locally since are left alone and
-- returned.
CREATE FUNCTION dataverse_private.sync_land(copy bigint, plan dataverse_private.copy_plan, path text, ids uuid[])
RETURNS TABLE (id uuid, columns text[], whole boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  absent uuid[];
BEGIN
  EXECUTE (plan.sync).absent USING ids INTO absent;
  PERFORM dataverse_private.page_delete(absent);
  -- for the triggers of the table
  PERFORM set_config('TimeZone', (plan.sync).timezone, true);
  PERFORM dataverse_private.pull_merge(copy, plan, path, 'land');
  SET LOCAL timezone = 'UTC';
  RETURN QUERY SELECT d.id, d.columns, d.whole FROM dataverse_private.pending_dirty(copy, ids) AS d;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_land(bigint, dataverse_private.copy_plan, text, uuid[]) IS
  'merges rows that were read back; for dataverse.sync()';

-- Copies single columns into rows that stay pending; "parts" are arrays of their names
-- as texts, since they differ in length.  Returns the rows that
-- were changed locally since, which are left alone.
CREATE FUNCTION dataverse_private.sync_land_part(
  copy bigint, plan dataverse_private.copy_plan, path text, ids uuid[], rows jsonb[], parts text[])
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET dataverse_fdw.capture = off
AS $$
DECLARE
  dirty uuid[];
  part record;
  statement text;
BEGIN
  PERFORM dataverse_private.pull_check_target(copy, plan);
  EXECUTE plan.lock USING ids;
  dirty := ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d);
  FOR part IN
    SELECT u.c AS names, array_agg(u.r) AS rows FROM unnest(ids, rows, parts) AS u (i, r, c) WHERE u.i <> ALL (dirty) GROUP BY u.c
  LOOP
    statement := format((plan.sync).land_part,
      (SELECT string_agg(format('%I = %s', c.name, c.input), ', ') FROM unnest(plan.columns, plan.inputs) AS c (name, input)
       WHERE c.name = ANY (part.names::text[])));
    PERFORM set_config('TimeZone', (plan.sync).timezone, true);
    PERFORM set_config('search_path', path, true);
    EXECUTE statement USING part.rows;
    -- at the COMMIT, triggers would run unguarded
    SET CONSTRAINTS ALL IMMEDIATE;
    SET LOCAL search_path = pg_catalog, pg_temp;
    SET LOCAL timezone = 'UTC';
  END LOOP;
  RETURN dirty;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_land_part(bigint, dataverse_private.copy_plan, text, uuid[], jsonb[], text[]) IS
  'takes single columns of rows that were read back; for dataverse.sync()';

-- Files rows with changes of columns that are no longer copied, and returns the
-- others: such a change can neither be sent nor compared, and a run must not
-- decide to forget it.  These rows are marked as if the service had news of them,
-- so that they are examined at once.
CREATE FUNCTION dataverse_private.sync_file_uncopied(
  copy bigint, plan dataverse_private.copy_plan, INOUT rows dataverse_private.pending[], OUT filed bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
DECLARE
  found_ids uuid[];
  images jsonb[];
  found record;
  p dataverse_private.pending;
  uncopied dataverse_private.pending[] := '{}';
BEGIN
  found_ids := ARRAY(SELECT r.id FROM unnest(rows) AS r
                     WHERE r.operation = 'U' AND NOT r.columns || r.held <@ plan.columns);
  filed := 0;
  IF found_ids = '{}' THEN
    RETURN;
  END IF;
  -- a row that is missing locally is treated as such
  EXECUTE format('SELECT array_agg(x.id), array_agg(x.image) FROM (%s) AS x (id, image)', (plan.sync).images)
    INTO found_ids, images USING found_ids;
  IF found_ids IS NULL THEN
    RETURN;
  END IF;
  FOR found IN SELECT r AS pending, f.image FROM unnest(found_ids, images) AS f (id, image) JOIN unnest(rows) AS r ON r.id = f.id LOOP
    p := dataverse_private.pending_to_file(found.pending, NULL, NULL, true);
    p.columns := (found.pending).columns || (found.pending).held;
    p.against := (found.pending).against;
    p.ours := found.image;
    p.kind := 'refused';
    p.touched := true;
    p.sqlstate := '42703';
    p.error := 'no longer copied: ' || (SELECT string_agg(c, ', ') FROM unnest(p.columns) AS c WHERE c <> ALL (plan.columns));
    uncopied := uncopied || p;
  END LOOP;
  PERFORM dataverse_private.pending_set(copy, uncopied);
  filed := cardinality(found_ids);
  rows := ARRAY(SELECT r FROM unnest(rows) AS r WHERE r.id <> ALL (found_ids));
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_file_uncopied(bigint, dataverse_private.copy_plan, dataverse_private.pending[]) IS
  'files rows with changes of columns that are no longer copied; for dataverse.sync()';

-- Chooses the rows that are sent next, and notes them with all values that the
-- service should have afterwards.
CREATE FUNCTION dataverse_private.sync_stage(
  copy bigint, plan dataverse_private.copy_plan, OUT chosen bigint, OUT staged bigint, OUT unwritable bigint,
  OUT refused bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
-- a chunk has few rows of the table, and they are made jsonb once
SET random_page_cost = 1.1
SET enable_nestloop = off
SET extra_float_digits = 1
AS $$
DECLARE
  -- a page of 5,000 changes has room for these and for those of others
  chunk CONSTANT bigint := 4000;
  rows dataverse_private.pending[] := dataverse_private.pending_next(copy, '{new}', chunk);
  ids uuid[];
  fits boolean := true;
  noted record;
  p dataverse_private.pending;
  misfits dataverse_private.pending[] := '{}';
  problem text;
  problem_state text;
BEGIN
  chosen := cardinality(rows);
  staged := 0;
  unwritable := 0;
  SELECT f.rows, f.filed INTO rows, refused FROM dataverse_private.sync_file_uncopied(copy, plan, rows) AS f;
  IF rows = '{}' THEN
    RETURN;
  END IF;
  ids := ARRAY(SELECT r.id FROM unnest(rows) AS r);
  EXECUTE plan.lock USING ids;
  EXECUTE (plan.sync).stage USING ids, rows, plan.sync, ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d), plan.columns
    INTO STRICT noted;
  unwritable := noted.unwritable;
  staged := noted.staged;
  PERFORM dataverse_private.pending_stage(copy, noted.rows);
  -- values that cannot be converted to the types of the foreign table
  IF (plan.sync).fits IS NOT NULL THEN
    BEGIN
      EXECUTE (plan.sync).fits USING ARRAY(SELECT r.image FROM unnest(noted.rows) AS r WHERE r.state = 'sending');
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      fits := false;
    END;
  END IF;
  IF NOT fits THEN
    FOR p IN SELECT * FROM unnest(dataverse_private.pending_next(copy, '{sending}', chunk)) LOOP
      BEGIN
        EXECUTE (plan.sync).fits USING ARRAY[p.image];
      EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
        GET STACKED DIAGNOSTICS problem_state = RETURNED_SQLSTATE, problem = MESSAGE_TEXT;
        p.state := 'filed';
        p.kind := 'refused';
        p.ours := p.image;
        p.image := NULL;
        p.theirs := NULL;
        p.seen := NULL;
        p.sqlstate := problem_state;
        p.error := problem;
        p.found_at := clock_timestamp();
        misfits := misfits || p;
        staged := staged - 1;
        refused := refused + 1;
      END;
    END LOOP;
    PERFORM dataverse_private.pending_set(copy, misfits);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_stage(bigint, dataverse_private.copy_plan) IS
  'records which rows will be sent; for dataverse.sync()';

-- Writes the rows that are noted, with a statement for each operation and set of
-- columns.  Rows with another version in Dataverse are left alone by the
-- statement itself, and are found when all rows are read back.  Rows in "fresh" are
-- known to have no other version, and are written without being read.
CREATE FUNCTION dataverse_private.sync_send(
  copy bigint, plan dataverse_private.copy_plan, rows dataverse_private.pending[], fresh uuid[], OUT written uuid[],
  OUT refused jsonb)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.run_settings = ''
SET client_min_messages = error
-- all versions are read before the first row is written, many in a request, however fast the
-- service is
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_hashjoin = on
AS $$
DECLARE
  source CONSTANT text := plan.source;
  id CONSTANT text := quote_ident(plan.id_column);
  version CONSTANT text := quote_ident(plan.version_column);
  last_reject CONSTANT bigint := (SELECT coalesce(max(r.id), 0) FROM dataverse_private.own_rejects AS r);
  part record;
  is_same text;
  input text;
  statement text;
  ids uuid[];
  filed bigint[];
BEGIN
  written := '{}';
  refused := '{}';
  PERFORM dataverse_private.hold(source, plan.foreign_table);
  FOR part IN
    SELECT p.operation, p.columns, array_agg(p.id ORDER BY p.id) AS ids, array_agg(p.against ORDER BY p.id) AS versions,
           array_agg(p.image ORDER BY p.id) AS images, f IS NOT NULL AS fresh
    FROM unnest(rows) AS p LEFT JOIN unnest(sync_send.fresh) AS f ON f = p.id GROUP BY p.operation, p.columns, f IS NOT NULL
    -- deleting a row changes those that refer to it
    ORDER BY f IS NOT NULL
  LOOP
    is_same := CASE WHEN part.fresh THEN 'true' ELSE format('f.%s = p.version', version) END;
    input := format('jsonb_to_record(p.image) AS i (%s)',
                     (SELECT string_agg(format('%I %s', c.name, c.type), ', ') FROM unnest(plan.columns, plan.types) AS c (name, type)
                      WHERE c.name = ANY (plan.id_column || part.columns)));
    statement := CASE part.operation
      WHEN 'I' THEN format('INSERT INTO %1$s AS f (%2$s) SELECT %3$s FROM unnest($1, $2, $3) WITH ORDINALITY AS p (id, version, image, n),'
                           ' %4$s ORDER BY p.n', source,
                           (SELECT string_agg(quote_ident(c), ', ') FROM unnest(plan.id_column || part.columns) AS c),
                           (SELECT string_agg(CASE quote_ident(c) WHEN id THEN 'p.id' ELSE 'i.' || quote_ident(c) END, ', ')
                            FROM unnest(plan.id_column || part.columns) AS c), input)
      WHEN 'U' THEN format('UPDATE ONLY %1$s AS f SET %2$s FROM unnest($1, $2, $3) AS p (id, version, image), %5$s'
                           ' WHERE f.%3$s = ANY ($1) AND f.%3$s = p.id AND %4$s', source,
                           (SELECT string_agg(format('%1$I = i.%1$I', c), ', ') FROM unnest(part.columns) AS c), id, is_same, input)
      ELSE format('DELETE FROM ONLY %1$s AS f USING unnest($1, $2) AS p (id, version)'
                  ' WHERE f.%2$s = ANY ($1) AND f.%2$s = p.id AND $3 IS NOT NULL AND %3$s', source, id, is_same) END;
    CONTINUE WHEN part.operation = 'U' AND part.columns = '{}';
    PERFORM set_config('dataverse_fdw.run_settings', dataverse_private.run_settings(plan.foreign_table, jsonb_build_object(
      'on_error', 'continue', 'insert_mode', 'create',
      'match_version', CASE WHEN NOT (plan.sync).strict THEN '' WHEN part.operation = 'I' THEN 'off' ELSE 'on' END)), true);
    EXECUTE format('WITH w AS (%s RETURNING f.%s AS id) SELECT array_agg(w.id) FROM w', statement, id)
      USING part.ids, part.versions, part.images INTO ids;
    written := written || coalesce(ids, '{}');
  END LOOP;
  -- the entries filed among the rejects belong to the pending row; any role may lock
  -- dataverse.rejects
  filed := ARRAY(SELECT o.id FROM dataverse_private.own_rejects AS o
                 WHERE o.id > last_reject AND o.pid = pg_backend_pid() AND o.row_id IN (SELECT p.id FROM unnest(rows) AS p));
  IF filed <> '{}' THEN
    refused := (SELECT jsonb_object_agg(r.row_id, jsonb_build_array(r.sqlstate, r.message)) FROM dataverse_private.visible_rejects AS r WHERE r.id = ANY (filed));
    -- deletes them (rule delete_retried)
    UPDATE dataverse_private.own_rejects AS o SET attempts = o.attempts WHERE o.id = ANY (filed);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_send(bigint, dataverse_private.copy_plan, dataverse_private.pending[], uuid[]) IS
  'writes rows in Dataverse; for dataverse.sync()';

-- Returns how to treat columns in conflict: by a decision, or as the call says.
CREATE FUNCTION dataverse_private.sync_policy(
  sync dataverse_private.sync_plan, decision text, columns text[], policy text)
RETURNS text[]
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT ARRAY(SELECT c FROM unnest($3) AS c WHERE coalesce($2, ($1).column_conflicts ->> c, ($1).conflict) = $4)
$$;

COMMENT ON FUNCTION dataverse_private.sync_policy(dataverse_private.sync_plan, text, text[], text) IS
  'the columns to which a policy applies; for dataverse.sync()';

-- Decides about a pending row, given the row of the service.  Returns what becomes of
-- it, or null if the row of the service is to be taken as it is, unless it stays ("keeps")
-- as it is.  "differs" are the columns in which the row of the service differs from ours,
-- "same" the edited ones in which it still has the value last seen.  "part" are columns to
-- be taken from it while the rest stays pending.
CREATE FUNCTION dataverse_private.sync_judge(
  plan dataverse_private.copy_plan, p dataverse_private.pending, theirs jsonb, version bigint, differs text[],
  same text[], written boolean, refusal jsonb,
  OUT next dataverse_private.pending, OUT keeps boolean, OUT part text[])
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  there CONSTANT boolean := theirs IS NOT NULL;
  sync CONSTANT dataverse_private.sync_plan := plan.sync;
  edited CONSTANT text[] := ARRAY(SELECT unnest(p.columns) UNION SELECT unnest(p.held) ORDER BY 1);
  unseen boolean := p.state <> 'filed' OR CASE WHEN p.kind = 'refused' AND p.seen IS NULL THEN version IS DISTINCT FROM p.against
                                               ELSE p.seen IS DISTINCT FROM version OR (p.theirs IS NOT NULL) <> there END;
  decision text := CASE WHEN NOT unseen THEN p.decision END;
  -- columns that are no longer copied cannot be compared
  uncopied CONSTANT boolean := p.operation = 'U' AND NOT edited <@ plan.columns;
  begins CONSTANT boolean := EXISTS (
    SELECT FROM unnest(sync.states) AS c WHERE plan.schema ->> c ~ ' State( |$)' AND theirs -> c = '0');
  columns text[];
  missing text[];
  alone text[];
  service text[];
  local text[];
  skip text[];
BEGIN
  keeps := false;
  part := '{}';
  -- values that cannot be compared are not the same
  IF p.image IS NULL AND p.operation <> 'D' THEN
    differs := edited;
  END IF;
  IF p.state = 'fetch' THEN
    RETURN;
  END IF;
  -- columns that Dataverse accepts only when a row is created cannot be changed any more
  differs := ARRAY(SELECT c FROM unnest(differs) AS c WHERE NOT (there AND c = ANY (sync.create_only)));
  -- send columns that were omitted when the row was created; also its state, if it still has the
  -- initial state of all rows
  missing := ARRAY(SELECT c FROM unnest(differs) AS c
                   WHERE c = ANY (sync.on_update) AND (c = ANY (p.held) AND theirs -> c = 'null' OR NOT written AND c = ANY (sync.states) AND begins));
  IF p.operation = 'I' AND there AND p.state = 'sending' AND missing <> '{}'
     AND (written OR (refusal IS NULL AND NOT EXISTS (SELECT FROM unnest(differs) AS c WHERE c = ANY (edited) AND c <> ALL (missing)))) THEN
    next := dataverse_private.pending_to_send(p);
    next.operation := 'U';
    next.base := version;
    next.against := version;
    next.tries := 0;
    next.held := '{}';
    next.columns := ARRAY(
      SELECT unnest(missing) UNION SELECT sync.partners ->> m FROM unnest(missing) AS m WHERE sync.partners ->> m = ANY (edited) ORDER BY 1);
    RETURN;
  END IF;
  IF written THEN
    IF p.held <> '{}' AND p.operation <> 'I' AND there THEN
      next := dataverse_private.pending_to_file(p, theirs, version, unseen);
      next.kind := 'changed';
      next.columns := p.held;
    END IF;
    RETURN;
  END IF;
  -- if the row exists, or has changed, this is recognized as such
  IF refusal IS NOT NULL AND NOT (refusal ->> 0 IN ('40001', '40003') OR (refusal ->> 0 = '23505' AND p.operation = 'I' AND there)) THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.kind := 'refused';
    next.columns := edited;
    next.sqlstate := refusal ->> 0;
    next.error := refusal ->> 1;
    -- the reason why it was refused with its references
    IF p.operation = 'I' AND NOT there AND p.held && sync.referring THEN
      next.sqlstate := p.sqlstate;
      next.error := p.error;
    END IF;
    -- the row was created, but could not get its state or its image
    IF p.operation = 'I' AND there THEN
      next.operation := 'U';
      next.base := version;
      next.against := version;
      next.columns := ARRAY(SELECT unnest(edited) INTERSECT SELECT unnest(differs) ORDER BY 1);
    END IF;
    RETURN;
  END IF;
  -- filed, without news
  IF NOT unseen AND decision IS NULL THEN
    keeps := true;
    RETURN;
  END IF;
  IF p.state = 'filed' AND decision IS NOT NULL AND p.kind = 'refused' THEN
    IF decision = 'local' THEN
      next := dataverse_private.pending_to_send(p);
      next.tries := 0;
      -- all differences are ours, whatever the name of the column is now, unless the row has
      -- changed in Dataverse, which makes this a conflict
      IF uncopied AND p.sqlstate = '42703' THEN
        next.columns := ARRAY(SELECT d FROM unnest(differs) AS d WHERE d = ANY (sync.on_update));
      END IF;
    END IF;
    RETURN;
  END IF;
  IF p.state = 'filed' AND there AND uncopied AND p.sqlstate = '42703' THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.columns := edited;
    next.sqlstate := p.sqlstate;
    next.error := p.error;
    RETURN;
  END IF;

  IF p.operation = 'D' THEN
    IF NOT there THEN
      RETURN;
    ELSIF version = p.against AND p.state = 'sending' THEN
      next := dataverse_private.pending_to_send(p);
      RETURN;
    END IF;
    CASE coalesce(decision, sync.conflict)
      WHEN 'service' THEN NULL;
      WHEN 'local' THEN
        next := dataverse_private.pending_to_send(p);
        next.against := version;
      ELSE
        next := dataverse_private.pending_to_file(p, theirs, version, unseen);
        next.kind := 'deleted here';
        next.columns := '{}';
    END CASE;
    RETURN;
  END IF;

  IF NOT there THEN
    IF p.operation = 'I' THEN
      next := dataverse_private.pending_to_send(p);
    ELSIF dataverse_private.sync_policy(sync, decision, edited, 'skip') <> '{}' THEN
      next := dataverse_private.pending_to_file(p, theirs, version, unseen);
      next.kind := 'deleted there';
      next.columns := edited;
    ELSIF dataverse_private.sync_policy(sync, decision, edited, 'local') <> '{}' THEN
      next := dataverse_private.pending_to_send(p);
      next.operation := 'I';
      next.against := NULL;
      next.held := '{}';
    END IF;
    RETURN;
  END IF;
  IF p.operation = 'U' AND version = p.against AND p.state = 'sending' THEN
    next := dataverse_private.pending_to_send(p);
    RETURN;
  END IF;
  columns := ARRAY(
    SELECT c FROM (SELECT unnest(differs) UNION SELECT sync.partners ->> d FROM unnest(differs) AS d) AS u (c) WHERE c = ANY (edited) ORDER BY c);
  IF columns = '{}' THEN
    -- to be filed as such
    IF uncopied AND decision IS DISTINCT FROM 'service' THEN
      next := dataverse_private.pending_to_send(p);
      next.against := version;
    END IF;
    RETURN;
  END IF;
  -- columns that are unchanged in Dataverse are not in conflict; a lookup and the name of its
  -- table go together
  alone := ARRAY(SELECT c FROM unnest(columns) AS c
                 WHERE decision IS NULL AND c = ANY (same) AND coalesce(sync.partners ->> c = ANY (same) OR NOT p.was ? (sync.partners ->> c), true));
  columns := ARRAY(SELECT c FROM unnest(columns) AS c WHERE c <> ALL (alone));
  service := dataverse_private.sync_policy(sync, decision, columns, 'service');
  local := alone || dataverse_private.sync_policy(sync, decision, columns, 'local');
  skip := dataverse_private.sync_policy(sync, decision, columns, 'skip');
  IF skip = '{}' AND local = '{}' THEN
    RETURN;
  END IF;
  -- a row that is sent is read back as a whole
  part := service || CASE WHEN skip <> '{}' THEN ARRAY(
    SELECT d FROM unnest(differs) AS d WHERE d <> ALL (edited) AND coalesce(sync.partners ->> d <> ALL (edited), true)) ELSE '{}' END;
  next := p;
  IF skip <> '{}' THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.kind := CASE p.operation WHEN 'I' THEN 'exists' ELSE 'changed' END;
    next.columns := skip;
  END IF;
  IF local <> '{}' THEN
    next := dataverse_private.pending_to_send(next);
    next.operation := 'U';
    next.against := version;
    next.columns := local;
    next.held := skip;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_judge(dataverse_private.copy_plan, dataverse_private.pending, jsonb, bigint, text[], text[], boolean, jsonb) IS
  'decides how to proceed with a pending row; for dataverse.sync()';

-- Rows that exist but are missing from the page stay as they are and pending:
-- without the row of the service, nothing can be decided.  Returns the other rows,
-- and which of all rows are known to have been written.
CREATE FUNCTION dataverse_private.sync_hide(
  copy bigint, plan dataverse_private.copy_plan, INOUT rows dataverse_private.pending[], INOUT written uuid[],
  refusals jsonb)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  samples CONSTANT bigint := 10;
  absent uuid[];
  sent uuid[];
  hidden uuid[];
BEGIN
  written := written || ARRAY(SELECT r.id FROM unnest(rows) AS r WHERE r.arrived);
  EXECUTE (plan.sync).absent USING ARRAY(
    SELECT r.id FROM unnest(rows) AS r
    WHERE NOT refusals ? r.id::text AND (r.operation <> 'D' OR NOT EXISTS (SELECT FROM unnest(written) AS w WHERE w = r.id))) INTO absent;
  IF absent = '{}' THEN
    RETURN;
  END IF;
  -- a row that was just written exists, unless it has been deleted since
  sent := ARRAY(SELECT a FROM unnest(absent) AS a JOIN unnest(written) AS w ON w = a ORDER BY 1);
  hidden := dataverse_private.pull_hidden(plan, sent, greatest(cardinality(sent), 1)) || dataverse_private.pull_hidden(
    plan, ARRAY(SELECT a FROM unnest(absent) AS a EXCEPT SELECT s FROM unnest(sent) AS s ORDER BY 1), samples);
  IF hidden = '{}' THEN
    RETURN;
  END IF;
  -- the user that may not read them is set aside now; another one may
  EXECUTE plan.read USING hidden;
  EXECUTE (plan.sync).absent USING hidden INTO hidden;
  PERFORM dataverse_private.pending_hide(copy, hidden, sent);
  rows := ARRAY(SELECT r FROM unnest(rows) AS r WHERE NOT EXISTS (SELECT FROM unnest(hidden) AS h WHERE h = r.id));
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_hide(bigint, dataverse_private.copy_plan, dataverse_private.pending[], uuid[], jsonb) IS
  'omits rows that exist but cannot be read; for dataverse.sync()';

-- Reads rows from the service into the page.  Changes since the token have those that were
-- written; others, and rows that still have the version from before, are read by their ids.
CREATE FUNCTION dataverse_private.sync_read_back(
  plan dataverse_private.copy_plan, rows dataverse_private.pending[], written uuid[], INOUT token text,
  OUT ids uuid[], OUT versions bigint[])
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  left_over uuid[] := ARRAY(SELECT r.id FROM unnest(rows) AS r);
  back uuid[];
  gone uuid[];
BEGIN
  SELECT k.* INTO token, ids, versions FROM dataverse_private.sync_look(plan, plan.columns, token) AS k;
  IF token IS NULL THEN
    PERFORM dataverse_private.page_start(plan.foreign_table);
  ELSE
    EXECUTE (plan.sync).back USING rows, written INTO back, gone;
    PERFORM dataverse_private.page_keep(back);
    left_over := ARRAY(SELECT l FROM unnest(left_over) AS l EXCEPT SELECT b FROM unnest(back || gone) AS b);
  END IF;
  IF left_over <> '{}' THEN
    EXECUTE plan.read USING left_over;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_read_back(dataverse_private.copy_plan, dataverse_private.pending[], uuid[], text) IS
  'reads pending rows from the service; for dataverse.sync()';

-- Reads rows from the service, as changes since a token if there is one, and settles their pending changes.
-- Rows that were written, and those of which only the row of the service is wanted,
-- need no decision.
CREATE FUNCTION dataverse_private.sync_settle(
  copy bigint, plan dataverse_private.copy_plan, path text, rows dataverse_private.pending[], written uuid[],
  refusals jsonb, INOUT token text DEFAULT NULL, OUT refused bigint, OUT ignored bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
DECLARE
  told_ids uuid[];
  told_versions bigint[];
  hiding record;
  was_written jsonb;
  unclear dataverse_private.pending[];
  read record;
  judged record;
  changes dataverse_private.pending[] := '{}';
  ids uuid[];
  kept uuid[] := '{}';
  unchanged uuid[] := '{}';
  part_ids uuid[] := '{}';
  part_rows jsonb[] := '{}';
  parts text[] := '{}';
  part_changes dataverse_private.pending[] := '{}';
  p dataverse_private.pending;
  dirty_ids uuid[] := '{}';
  dirty jsonb := '{}';
BEGIN
  refused := 0;
  ignored := 0;
  SELECT b.* INTO token, told_ids, told_versions FROM dataverse_private.sync_read_back(plan, rows, written, token) AS b;
  hiding := dataverse_private.sync_hide(copy, plan, rows, written, refusals);
  rows := hiding.rows;
  written := hiding.written;
  -- before anything of the copy is locked, as in dataverse.untrack()
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan.target);
  PERFORM dataverse_private.pending_told(copy, told_ids, told_versions);
  SELECT coalesce(array_agg(r.id) FILTER (WHERE s.settled), '{}'), coalesce(array_agg(r) FILTER (WHERE NOT s.settled), '{}'),
         coalesce(jsonb_object_agg(w, true) FILTER (WHERE w IS NOT NULL AND NOT s.settled), '{}')
  INTO ids, unclear, was_written
  FROM unnest(rows) AS r LEFT JOIN unnest(written) AS w ON w = r.id,
    LATERAL (SELECT r.state = 'fetch' OR (w IS NOT NULL AND r.held = '{}' AND NOT (plan.sync).create_only && r.columns) AS settled) AS s;
  IF unclear <> '{}' THEN
    BEGIN
      EXECUTE (plan.sync).seen_fits USING unclear;
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      unclear := ARRAY(SELECT jsonb_populate_record(u, '{"was": {}}') FROM unnest(unclear) AS u);
    END;
    FOR read IN EXECUTE (plan.sync).judge USING unclear LOOP
      p := read.pending;
      judged := dataverse_private.sync_judge(plan, p, read.theirs, read.version, read.differs, read.same, was_written ? p.id::text, refusals -> p.id::text);
      IF (judged.next).id IS NULL AND NOT judged.keeps THEN
        ids := ids || p.id;
        ignored := ignored + (p.operation = 'U' AND p.state = 'sending' AND EXISTS (
          SELECT FROM unnest(read.differs) AS d WHERE d = ANY (p.columns) AND d = ANY ((plan.sync).create_only)))::integer;
        CONTINUE;
      END IF;
      kept := kept || p.id;
      IF judged.keeps THEN
        unchanged := unchanged || p.id;
      ELSIF judged.part = '{}' THEN
        changes := changes || judged.next;
      ELSE
        part_changes := part_changes || judged.next;
        part_ids := part_ids || p.id;
        part_rows := part_rows || read.theirs;
        parts := parts || judged.part::text;
      END IF;
      -- each has whole rows, and appending copies the array
      IF cardinality(changes) >= 64 THEN
        PERFORM dataverse_private.pending_set(copy, changes);
        changes := '{}';
      END IF;
      refused := refused + (refusals ? p.id::text AND coalesce((judged.next).state = 'filed' AND (judged.next).kind = 'refused', false))::integer;
    END LOOP;
    PERFORM dataverse_private.page_leave_out(kept);
  END IF;
  IF ids <> '{}' THEN
    SELECT coalesce(array_agg(d.id), '{}'), coalesce(jsonb_object_agg(d.id, to_jsonb(d)), '{}') INTO dirty_ids, dirty
    FROM dataverse_private.sync_land(copy, plan, path, ids) AS d;
    -- later local changes are based on the row that the service has now, if
    -- only we have changed that
    IF dirty_ids <> '{}' THEN
      FOR read IN EXECUTE (plan.sync).judge
        USING ARRAY(SELECT jsonb_populate_record(r, '{"was": {}}') FROM unnest(rows) AS r JOIN unnest(dirty_ids) AS d ON d = r.id) LOOP
        p := dataverse_private.pending_to_take(read.pending);
        p.columns := '{}';
        p.held := '{}';
        IF read.version IS NOT NULL AND p.operation <> 'D' AND NOT EXISTS (
          SELECT FROM unnest(read.differs) AS d WHERE (dirty -> p.id::text ->> 'whole')::boolean OR dirty -> p.id::text -> 'columns' ? d)
        THEN
          p.base := read.version;
        END IF;
        changes := changes || p;
      END LOOP;
    END IF;
    PERFORM dataverse_private.pending_drop(copy, ARRAY(
      SELECT s FROM unnest(ids) AS s WHERE NOT EXISTS (SELECT FROM unnest(dirty_ids) AS d WHERE d = s)));
  END IF;
  IF part_ids <> '{}' THEN
    -- rows with later local changes are examined again as a whole
    dirty_ids := dataverse_private.sync_land_part(copy, plan, path, part_ids, part_rows, parts);
    changes := changes || ARRAY(SELECT c FROM unnest(part_changes) AS c WHERE c.id <> ALL (dirty_ids))
      || ARRAY(SELECT dataverse_private.pending_to_take(r) FROM unnest(rows) AS r WHERE r.id = ANY (dirty_ids));
  END IF;
  IF changes <> '{}' THEN
    PERFORM dataverse_private.pending_set(copy, changes);
  END IF;
  IF unchanged <> '{}' THEN
    PERFORM dataverse_private.pending_keep(copy, unchanged, false);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_settle(bigint, dataverse_private.copy_plan, text, dataverse_private.pending[], uuid[], jsonb, text) IS
  'compares pending rows with those of the service, and counts those refused and those ignored in part; for dataverse.sync()';

-- Returns filed rows with their current local values.  Values that cannot be
-- converted to the types of the foreign table cannot be compared either, so the
-- row has no image.
CREATE FUNCTION dataverse_private.sync_images(plan dataverse_private.copy_plan, rows dataverse_private.pending[])
RETURNS dataverse_private.pending[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
#variable_conflict use_column
DECLARE
  here_ids uuid[];
  here_rows jsonb[];
  filled dataverse_private.pending[];
BEGIN
  EXECUTE format('SELECT array_agg(x.id), array_agg(x.r) FROM (%s) AS x (id, r)', (plan.sync).images)
    USING ARRAY(SELECT r.id FROM unnest(rows) AS r) INTO here_ids, here_rows;
  filled := ARRAY(SELECT jsonb_populate_record(r, jsonb_build_object('image', h.image, 'ours', coalesce(h.image, r.ours)))
                  FROM unnest(rows) AS r LEFT JOIN unnest(here_ids, here_rows) AS h (id, image) ON h.id = r.id);
  IF (plan.sync).fits IS NULL THEN
    RETURN filled;
  END IF;
  BEGIN
    EXECUTE (plan.sync).fits USING ARRAY(SELECT f.image FROM unnest(filled) AS f);
    RETURN filled;
  EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
    NULL;
  END;
  FOR i IN 1 .. cardinality(filled) LOOP
    BEGIN
      EXECUTE (plan.sync).fits USING ARRAY[filled[i].image];
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      filled[i].image := NULL;
    END;
  END LOOP;
  RETURN filled;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_images(dataverse_private.copy_plan, dataverse_private.pending[]) IS
  'filed rows with their current values; for dataverse.sync()';

-- One step of sending, which is then committed.  "next" is "send" if rows are
-- noted to be sent in the next step, "more", or "done".  "token" is that of the last changes
-- in Dataverse that the run has seen, or null if it does not look at changes.
CREATE FUNCTION dataverse_private.sync_step(
  copy bigint, plan dataverse_private.copy_plan, path text, armed boolean, INOUT token text, OUT next text, OUT sent bigint,
  OUT unwritable bigint, OUT refused bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
SET row_security = off
SET extra_float_digits = 1
-- local times without a zone are in UTC
SET timezone = 'UTC'
-- the rows of a chunk are sorted in memory; compiling statements for so few rows takes longer
-- than running them
SET work_mem = '32MB'
SET jit = off
AS $$
DECLARE
  chunk CONSTANT bigint := 4000;
  rows dataverse_private.pending[] := dataverse_private.pending_next(copy, '{sending}', chunk);
  ids uuid[];
  dirty uuid[];
  told_ids uuid[] := '{}';
  told_versions bigint[] := '{}';
  fresh uuid[] := '{}';
  outcome record;
  settled record;
  staged record;
BEGIN
  PERFORM dataverse_private.pull_check_source(plan);
  sent := 0;
  unwritable := 0;
  refused := 0;
  next := 'more';
  IF rows <> '{}' THEN
    IF armed THEN
      -- new rows have no versions
      IF token IS NOT NULL AND (rows[1]).operation <> 'I' THEN
        SELECT k.* INTO token, told_ids, told_versions FROM dataverse_private.sync_look(plan, ARRAY[plan.id_column, plan.version_column], token) AS k;
        fresh := CASE WHEN token IS NOT NULL THEN dataverse_private.pending_fresh(copy, told_ids, told_versions) ELSE '{}' END;
      END IF;
      outcome := dataverse_private.sync_send(copy, plan, rows, fresh);
      sent := cardinality(outcome.written);
      settled := dataverse_private.sync_settle(copy, plan, path, rows, outcome.written, outcome.refused, token);
      token := settled.token;
      -- not earlier: while a run waits for Dataverse, it holds no lock on its state
      PERFORM dataverse_private.pending_told(copy, told_ids, told_versions);
    ELSE
      settled := dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
      -- later changes of rows that may have been sent have waited for this
      PERFORM dataverse_private.sync_take(copy, plan);
      -- these are based on rows as the copy has them
      token := dataverse_private.sync_token(copy, plan);
    END IF;
    refused := settled.refused;
    unwritable := settled.ignored;
    RETURN;
  END IF;

  rows := dataverse_private.pending_next(copy, '{fetch}', chunk);
  IF rows <> '{}' THEN
    PERFORM dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
    RETURN;
  END IF;

  -- filed rows that were decided, or that the service had news of
  rows := dataverse_private.pending_next(copy, '{filed}', chunk);
  IF rows <> '{}' THEN
    ids := ARRAY(SELECT r.id FROM unnest(rows) AS r);
    dirty := ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d);
    rows := dataverse_private.sync_images(plan, ARRAY(SELECT r FROM unnest(rows) AS r WHERE r.id <> ALL (dirty)));
    PERFORM dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
    -- rows that have just been changed again are taken by the next run
    PERFORM dataverse_private.pending_keep(copy, dirty, true);
    RETURN;
  END IF;

  staged := dataverse_private.sync_stage(copy, plan);
  unwritable := staged.unwritable;
  refused := staged.refused;
  next := CASE WHEN staged.staged > 0 THEN 'send' WHEN staged.chosen > 0 THEN 'more' ELSE 'done' END;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_step(bigint, dataverse_private.copy_plan, text, boolean, text) IS
  'takes one step of sending, which dataverse.sync() then commits';

-- When all rows that can be sent have been sent, retries rows that were refused
-- because of others, if others have been accepted since, or else once without their
-- references; likewise rows of a chain that is not resolved after some rounds.
CREATE FUNCTION dataverse_private.sync_again(
  run bigint, copy bigint, plan dataverse_private.copy_plan, progress boolean, INOUT loosened boolean,
  INOUT rounds integer, OUT retried bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT integer := 5;
  few CONSTANT integer := 100;
  since timestamptz := (SELECT r.started_at FROM dataverse.runs AS r WHERE r.id = run);
BEGIN
  retried := 0;
  IF progress THEN
    loosened := false;
    rounds := rounds + 1;
  END IF;
  -- if each round accepted one of many rows that wait for each other's values, there would be no
  -- end
  IF rounds > most AND (dataverse_private.pending_count(copy)).open > few THEN
    since := 'infinity';
  END IF;
  IF progress AND rounds <= most THEN
    retried := dataverse_private.pending_retry(copy, since);
  END IF;
  IF retried = 0 AND NOT loosened THEN
    retried := dataverse_private.pending_loosen(copy, plan.sync);
    loosened := true;
  END IF;
  IF retried = 0 AND progress THEN
    retried := dataverse_private.pending_retry(copy, since);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_again(bigint, bigint, dataverse_private.copy_plan, boolean, boolean, integer) IS
  'allows rows that were refused because of other rows to be sent again; for dataverse.sync()';

CREATE PROCEDURE dataverse.sync(
  foreign_table regclass,
  target text,
  conflict text DEFAULT 'skip',
  column_conflicts jsonb DEFAULT NULL,
  strict boolean DEFAULT false,
  columns text[] DEFAULT NULL,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_sync';

COMMENT ON PROCEDURE dataverse.sync IS
  'keeps a local copy and its foreign table in step both ways: pulls changes from Dataverse, and sends local changes';

-- The state of unfinished pushes, which src/sync/state.c reads and writes.
CREATE TABLE dataverse_private.push_states (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role text NOT NULL,
  foreign_table text NOT NULL,
  query text NOT NULL,
  operation text NOT NULL,
  key text[] NOT NULL DEFAULT '{}',
  opened_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  staging text,
  staged_as oid,
  staged_at timestamptz,
  source text,
  version_before bigint,
  rows bigint,
  done bigint NOT NULL DEFAULT 0,
  marked bigint NOT NULL DEFAULT 0,
  sent bigint NOT NULL DEFAULT 0,
  rejected bigint NOT NULL DEFAULT 0,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  foreign_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED
);

-- roles and tables can be renamed
CREATE UNIQUE INDEX push_states_what_idx ON dataverse_private.push_states
  (role_oid, foreign_oid, operation, key, pg_catalog.hashtextextended(query, 0));

COMMENT ON TABLE dataverse_private.push_states IS
  'unfinished pushes of all roles';
COMMENT ON COLUMN dataverse_private.push_states.staging IS 'the table with the rows; NULL until the query has been run';
COMMENT ON COLUMN dataverse_private.push_states.staged_as IS
  'the OID of that table, which changes if the database is restored';
COMMENT ON COLUMN dataverse_private.push_states.source IS 'the address that the rows are sent to';
COMMENT ON COLUMN dataverse_private.push_states.version_before IS
  'the greatest version in Dataverse before the first row was sent; rows that existed then have no greater version unless they have changed since';
COMMENT ON COLUMN dataverse_private.push_states.done IS 'the number of the last row of the chunks that are done';
COMMENT ON COLUMN dataverse_private.push_states.marked IS 'the number of the last row that may have been sent';

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.push_states', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.push_states_id_seq', '');

CREATE VIEW dataverse.pushes WITH (security_barrier) AS
  SELECT p.id, p.foreign_table, p.query, p.operation, p.key,
         coalesce((SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.oid = p.role_oid), p.role) AS role, p.opened_at, p.staging AS staged_in, p.rows, p.done AS rows_done
  FROM dataverse_private.push_states AS p
  WHERE pg_catalog.pg_has_role(dataverse_private.role_or_superuser(p.role_oid), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.pushes IS
  'unfinished pushes; the next dataverse.push() of the same query continues them';

CREATE FUNCTION dataverse.forget_push(push bigint)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_forget_push';

COMMENT ON FUNCTION dataverse.forget_push(bigint) IS
  'abandons an unfinished push: rows already sent remain in Dataverse, the rest is not sent';

CREATE FUNCTION dataverse_private.push_check(
  foreign_table regclass, query text, key text[], operation text, on_error text, max_errors integer, chunk integer,
  wait boolean)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  wrong text := CASE
    WHEN foreign_table IS NULL THEN 'argument "foreign_table" is null'
    WHEN query IS NULL THEN 'argument "query" is null'
    WHEN query ~ '^[;[:space:]]*$' THEN 'argument "query" is empty'
    WHEN chunk IS NULL OR chunk < 1 THEN format('invalid value for argument "chunk": "%s"', coalesce(chunk::text, 'null'))
    WHEN max_errors < 0 THEN format('invalid value for argument "max_errors": "%s"', max_errors)
    WHEN key = '{}' OR '' = ANY (key) OR array_position(key, NULL) IS NOT NULL
      OR cardinality(key) > (SELECT count(DISTINCT k) FROM unnest(key) AS k) THEN format('invalid value for argument "key": "%s"', key)
    WHEN wait IS NULL THEN 'argument "wait" is null'
    WHEN operation = 'insert' AND key IS NOT NULL THEN 'argument "key" is not allowed for operation "insert"'
  END;
  cure text := CASE
    WHEN foreign_table IS NULL OR coalesce(query, '') ~ '^[;[:space:]]*$' THEN
      'Give the query and the foreign table, as in CALL dataverse.push(''SELECT name FROM customers'', ''dv.account'').'
    WHEN chunk IS NULL OR chunk < 1 THEN 'It is the number of rows between two commits, at least 1.'
    WHEN max_errors < 0 THEN 'It is the number of rows that may be refused, at least 0.'
    WHEN wrong LIKE '%"key":%' THEN
      'It takes the columns of an alternate key, as in ''{accountnumber}''.  Without it, rows are identified by their ids.'
    WHEN wait IS NULL THEN 'Valid values are true and false.'
    ELSE 'Set "operation" to "upsert" to update rows that exist, or omit "key".'
  END;
BEGIN
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING errcode = 'invalid_parameter_value', message = wrong, hint = cure;
  END IF;
  IF NOT dataverse_private.pull_is_foreign(foreign_table) THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a foreign table of dataverse_fdw', foreign_table),
      hint = 'The first argument is the query, and the second one is the foreign table for its rows, such as IMPORT FOREIGN SCHEMA creates.';
  END IF;
  PERFORM dataverse_private.check_choice('argument "operation"', operation, 'insert', 'update', 'upsert', 'delete');
  PERFORM dataverse_private.check_choice('argument "on_error"', on_error, 'abort', 'continue');
END
$$;

COMMENT ON FUNCTION dataverse_private.push_check(regclass, text, text[], text, text, integer, integer, boolean) IS
  'raises an error for invalid arguments of dataverse.push()';

-- Returns the information about this table that a push needs, and which columns identify rows
-- ("match").  Versions of elastic tables cannot be compared.
CREATE FUNCTION dataverse_private.push_info(
  foreign_table regclass, operation text, key text[], columns text[],
  OUT id_column text, OUT version_column text, OUT "match" text[], OUT pairs boolean, OUT by_id boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info CONSTANT record := dataverse_private.pull_info(foreign_table);
  id CONSTANT text := info.id_column;
  options CONSTANT jsonb := (
    SELECT coalesce((SELECT jsonb_object_agg(o.option_name, o.option_value) FROM pg_options_to_table(s.srvoptions) AS o), '{}')
        || coalesce((SELECT jsonb_object_agg(o.option_name, o.option_value) FROM pg_options_to_table(t.ftoptions) AS o), '{}')
    FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver WHERE t.ftrelid = foreign_table);
  wrong text;
  cure text;
BEGIN
  id_column := id;
  version_column := CASE WHEN NOT info.elastic THEN info.version_column END;
  pairs := coalesce(options ->> 'table_type' = 'intersect', false);
  SELECT c INTO wrong FROM unnest(columns || key) AS c
  WHERE NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = c AND a.attnum > 0
                      AND NOT a.attisdropped)
  LIMIT 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('column "%s" of foreign table %s does not exist', wrong, foreign_table),
      hint = CASE
        WHEN wrong = ANY (columns) THEN 'The columns of the query must have the names of columns of the foreign table: name them with AS.'
        ELSE 'The argument "key" takes names of columns of the foreign table, as in ''{accountnumber}''.' END;
  END IF;
  IF pairs THEN
    match := columns;
  ELSIF key IS NOT NULL AND key <> '{}' THEN
    match := key;
  ELSE
    match := ARRAY[id];
    IF info.elastic AND 'partitionid' = ANY (columns) THEN
      match := match || 'partitionid'::text;
    END IF;
  END IF;
  SELECT c INTO wrong FROM unnest(match) AS c WHERE c <> ALL (columns) LIMIT 1;
  cure := CASE
    -- the table of rows to be pushed has columns of these names (push_table)
    WHEN columns && '{"row number","own id"}' THEN 'Rename the columns "row number" and "own id" of the foreign table: push needs these names.'
    WHEN NOT pairs AND id IS NULL THEN 'The foreign table has no column for the ids of its rows.  Import it again, or add the column.'
    WHEN pairs AND operation NOT IN ('insert', 'delete') THEN 'Pairs of an intersect table can only be inserted and deleted.'
    WHEN operation = 'insert' AND NOT (options ->> 'generate_ids')::boolean AND id <> ALL (columns) THEN
      'The extension must generate the ids (option "generate_ids"), because otherwise no row could be found again after a crash.'
    WHEN operation <> 'insert' AND wrong IS NOT NULL THEN
      format('The query must have column "%s", which identifies the rows.', wrong)
    WHEN operation = 'upsert' AND id <> ALL (match) AND id = ANY (columns) THEN
      format('A row is identified by its key or by its id: omit column "%s".', id)
    WHEN operation = 'update' AND columns <@ match THEN 'The query has no column to update.'
    WHEN operation = 'delete' AND NOT columns <@ match THEN 'The query must have only the columns that identify the rows.'
  END;
  IF cure IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('cannot %s rows of foreign table %s', operation, foreign_table), hint = cure;
  END IF;
  by_id := match = ARRAY[id];
END
$$;

COMMENT ON FUNCTION dataverse_private.push_info(regclass, text, text[], text[]) IS
  'the meaning of a query''s columns for a push; for dataverse.push()';

-- An upsert by columns that are not an alternate key would be refused row by row,
-- after the query has run.  A key may be newer than the foreign table.
CREATE FUNCTION dataverse_private.push_check_key(foreign_table regclass, key text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info CONSTANT record := dataverse_private.pull_info(foreign_table);
  wanted CONSTANT text[] := ARRAY(
    SELECT c.attribute FROM unnest(info.column_names, info.attribute_names) AS c (name, attribute) WHERE c.name = ANY (key) ORDER BY 1);
  known CONSTANT text := (SELECT o.option_value FROM pg_foreign_table AS t, pg_options_to_table(t.ftoptions) AS o
                          WHERE t.ftrelid = foreign_table AND o.option_name = 'keys');
  keys jsonb;
  status text;
  others text;
BEGIN
  IF EXISTS (SELECT FROM unnest(string_to_array(known, ';')) AS k
             WHERE ARRAY(SELECT btrim(c) FROM unnest(string_to_array(k, ',')) AS c ORDER BY 1) = wanted) THEN
    RETURN;
  END IF;
  keys := dataverse.request(info.server::name, 'GET', format(
    'EntityDefinitions(LogicalName=''%s'')/Keys?$select=KeyAttributes,EntityKeyIndexStatus', info.logical_name)) -> 'value';
  SELECT k.value ->> 'EntityKeyIndexStatus' INTO status FROM jsonb_array_elements(keys) AS k
  WHERE ARRAY(SELECT jsonb_array_elements_text(k.value -> 'KeyAttributes') ORDER BY 1) = wanted
  ORDER BY k.value ->> 'EntityKeyIndexStatus' LIMIT 1;
  IF status = 'Active' THEN
    RETURN;
  END IF;
  SELECT string_agg(n.names, '; ' ORDER BY n.names) INTO others
  FROM jsonb_array_elements(keys) AS k,
    LATERAL (SELECT string_agg(c, ',') AS names FROM jsonb_array_elements_text(k.value -> 'KeyAttributes') AS c) AS n
  WHERE k.value ->> 'EntityKeyIndexStatus' = 'Active';
  RAISE EXCEPTION USING
    errcode = 'invalid_parameter_value',
    message = format('columns "%s" of foreign table %s are not an alternate key', array_to_string(key, ','), foreign_table),
    detail = CASE WHEN status IS NOT NULL THEN format('Dataverse has not built the index of the key: its status is "%s".', status)
             ELSE format('Alternate keys of table "%s" in Dataverse: %s.', info.logical_name, coalesce(others, 'none')) END,
    hint = CASE WHEN status IS NOT NULL THEN 'Wait until the key is active.  If its index failed, remove duplicates, and activate it again.'
           ELSE 'Name the columns of an alternate key, have the query return ids instead, or create the key in Dataverse.' END;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_check_key(regclass, text[]) IS
  'refuses columns that are not an alternate key; for dataverse.push()';

-- Returns the statements of a push: $1 and $2 are the numbers before the first and
-- of the last row, $3 selects among them, by their numbers or ids, $4 is the greatest version
-- before the push, and $5 the time when it began.  Statements that write run with the
-- caller's search path, which triggers may expect, so names and operators are
-- qualified.  "send" returns rows in the order in which they are stored, that of their numbers.
--
-- "existing" are rows whose ids exist.  "done" are rows that need not be sent
-- again: a row to create that exists and is ours, a row to change that has the
-- intended values, a row to delete that is gone.  An id that was generated for a
-- row belongs to no other one.  A row with a supplied id is ours if it has changed
-- since the push began, and has the values that were to be sent.
CREATE FUNCTION dataverse_private.push_statements(
  foreign_table regclass, staging regclass, operation text, key text[],
  OUT send text, OUT send_these text, OUT send_returning text, OUT "all" text, OUT firsts text, OUT existing text,
  OUT ours text,
  OUT with_ids text, OUT number_ids text, OUT duplicate text, OUT version text, OUT "match" text, OUT upsert_key text,
  OUT id_column text,
  OUT is_own boolean, OUT is_given boolean, OUT by_id boolean, OUT pairs boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  columns CONSTANT text[] := ARRAY(
    SELECT a.attname::text FROM pg_attribute AS a
    WHERE a.attrelid = staging AND a.attnum > 0 AND NOT a.attisdropped AND a.attname NOT IN ('row number', 'own id') ORDER BY a.attnum);
  own CONSTANT boolean := NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = staging AND a.attname = 'own id');
  info CONSTANT record := dataverse_private.push_info(foreign_table, operation, key, columns);
  keys CONSTANT text[] := info.match;
  span CONSTANT text := 's."row number" OPERATOR(pg_catalog.>) $1 AND s."row number" OPERATOR(pg_catalog.<=) $2';
  these CONSTANT text := ' AND s."row number" OPERATOR(pg_catalog.=) ANY ($3)';
  source CONSTANT text := format('ONLY %s AS s', staging);
  names text := (SELECT string_agg(quote_ident(c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i));
  inputs text := (SELECT string_agg('s.' || quote_ident(c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i));
  sets text := (SELECT string_agg(format('%1$I = s.%1$I', c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i)
                WHERE c <> ALL (keys));
  matched text := (SELECT string_agg(format('t.%1$I OPERATOR(pg_catalog.=) s.%1$I', c), ' AND ') FROM unnest(keys) AS c);
  -- in a list, so that they are requested together
  listed text := format('t.%1$I OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT s.%1$I FROM %2$s WHERE %3$s%4$s))',
                        keys[1], source, span, these);
  same text;
  is_ours text;
BEGIN
  by_id := info.by_id;
  pairs := info.pairs;
  id_column := info.id_column;
  is_given := NOT own;
  is_own := own AND operation = 'insert' AND NOT pairs;
  SELECT string_agg(CASE
      WHEN a.attcollation <> 0 THEN
        format('nullif(t.%1$I COLLATE "C", '''') IS NOT DISTINCT FROM nullif(s.%1$I COLLATE "C", '''')', a.attname)
      WHEN a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype) THEN
        -- most tables have no fractions of seconds
        format('(t.%1$I IS NOT DISTINCT FROM s.%1$I OR t.%1$I = date_trunc(''second'', s.%1$I))', a.attname)
      WHEN a.atttypid = 'numeric'::regtype THEN
        format('(t.%1$I IS NOT DISTINCT FROM s.%1$I OR t.%1$I = round(s.%1$I, scale(t.%1$I)))', a.attname)
      WHEN a.atttypid = 'int4[]'::regtype THEN
        format('(t.%1$I @> s.%1$I AND t.%1$I <@ s.%1$I OR t.%1$I IS NULL AND coalesce(s.%1$I, ''{}'') = ''{}'')', a.attname)
      -- an image or a double may not be returned as it was sent; writing it again is safe,
      -- creating it again is not
      WHEN a.atttypid IN ('bytea'::regtype, 'float4'::regtype, 'float8'::regtype) THEN CASE operation WHEN 'insert' THEN 'true' ELSE 'false' END
      WHEN a.atttypid IN (SELECT o.oprleft FROM pg_operator AS o WHERE o.oprname = '=' AND o.oprleft = o.oprright
                            AND o.oprnamespace = 'pg_catalog'::regnamespace) THEN
        format('t.%1$I IS NOT DISTINCT FROM s.%1$I', a.attname)
      ELSE format('t.%1$I::text IS NOT DISTINCT FROM s.%1$I::text', a.attname) END, ' AND ')
  INTO same
  FROM pg_attribute AS a
  WHERE a.attrelid = foreign_table AND a.attname = ANY (columns) AND a.attname <> ALL (keys);
  same := coalesce(same, 'true');
  IF operation <> 'insert' THEN
    is_ours := same;
  ELSIF own OR pairs THEN
    is_ours := 'true';
  ELSE
    is_ours := format('(s."own id" OR %s AND %s AND NOT EXISTS (SELECT FROM ONLY %s AS e WHERE e.%4$I = s.%4$I'
                   ' AND e."row number" < s."row number"))',
      CASE
        WHEN info.version_column IS NOT NULL THEN format('t.%I > $4', info.version_column)
        WHEN EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = 'createdon'
                       AND a.atttypid = 'timestamptz'::regtype) THEN
          't.createdon >= $5 - interval ''5 minutes'''
        ELSE 'true' END,
      same, staging, id_column);
  END IF;
  send := CASE operation
    WHEN 'update' THEN format('UPDATE ONLY %s AS t SET %s FROM %s WHERE %s AND %s', foreign_table, sets, source, matched, span)
    WHEN 'delete' THEN format('DELETE FROM ONLY %s AS t USING %s WHERE %s AND %s', foreign_table, source, matched, span)
    ELSE format('INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s', foreign_table, names, inputs, source, span) END;
  -- rows that are not identified by their ids have to be read, many at once
  IF operation IN ('update', 'delete') AND NOT by_id AND NOT pairs THEN
    send := send || ' AND ' || replace(listed, these, '');
  END IF;
  send_these := send || these || CASE WHEN operation IN ('insert', 'upsert') THEN ' ORDER BY s."row number"' ELSE '' END;
  send_returning := format('WITH w AS (%s%s ORDER BY s."row number" RETURNING %4$I) SELECT pg_catalog.array_agg(s."row number")'
                           ' FROM w AS t, %3$s WHERE t.%4$I OPERATOR(pg_catalog.=) s.%4$I AND %5$s%2$s', send, these, source, id_column, span);
  "all" := format('SELECT array_agg(s."row number") FROM %s WHERE %s', source, span);
  firsts := format('SELECT array_agg(s."row number") FROM %s WHERE %s AND NOT EXISTS (SELECT FROM ONLY %s AS e WHERE e.%4$I = s.%4$I'
                   ' AND e."row number" < s."row number")', source, span, staging, id_column);
  existing := format('SELECT array_agg(s."row number") FROM ONLY %s AS t, %s WHERE %s AND %s AND %s%s',
                     foreign_table, source, listed, matched, span, these);
  ours := format('SELECT array_agg(s."row number") FROM ONLY %s AS t, %s WHERE %s AND %s AND %s%s AND %s',
                 foreign_table, source, listed, matched, span, these, is_ours);
  with_ids := format('SELECT array_agg(s."row number") FROM %s WHERE %s AND s.%I = ANY ($3)', source, span, id_column);
  IF id_column = ANY (columns) THEN
    number_ids := format('SELECT array_agg(v.n ORDER BY v.i) FROM (SELECT u.i, max(s."row number") AS n FROM unnest($3) WITH ORDINALITY AS u (id, i)'
                         ' LEFT JOIN %s ON s.%I = u.id AND %s GROUP BY u.i) AS v', source, id_column, span);
  END IF;
  "match" := (SELECT string_agg(quote_ident(m), ', ') FROM unnest(keys) AS m);
  -- After a crash, the last one would be unknown.  Dataverse finds a row by a key without regard
  -- to case and to trailing spaces, while rows to be updated are looked up in PostgreSQL.
  IF operation IN ('update', 'upsert') THEN
    SELECT format('SELECT concat_ws('', '', %1$s) FROM ONLY %2$s AS s WHERE num_nonnulls(%3$s) = %4$s GROUP BY %5$s HAVING count(*) > 1 LIMIT 1',
                  string_agg(format('min(s.%I::text)', m), ', ' ORDER BY i), staging, string_agg(format('s.%I', m), ', ' ORDER BY i), count(*),
                  string_agg(format(CASE WHEN operation = 'upsert' AND t.typcategory = 'S' THEN 'lower(rtrim(s.%I) COLLATE "default")' ELSE 's.%I' END, m), ', '
                             ORDER BY i))
    INTO duplicate
    FROM unnest(keys) WITH ORDINALITY AS u (m, i)
      JOIN pg_attribute AS a ON a.attrelid = staging AND a.attname = m JOIN pg_type AS t ON t.oid = a.atttypid;
  END IF;
  IF NOT own AND info.version_column IS NOT NULL THEN
    version := format('SELECT ARRAY(SELECT coalesce(t.%1$I, 0)::bigint FROM ONLY %2$s AS t ORDER BY t.%1$I DESC NULLS LAST LIMIT 1)', info.version_column, foreign_table);
  END IF;
  IF operation = 'upsert' AND NOT by_id AND key <> '{}' THEN
    upsert_key := (SELECT string_agg(quote_ident(k), ', ' ORDER BY i) FROM unnest(key) WITH ORDINALITY AS u (k, i));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_statements(regclass, regclass, text, text[]) IS
  'the statements of a push; for dataverse.push()';

-- Creates the table for the rows of a query with these columns, in the first schema of the
-- caller's search path in which the caller can create tables, since owners of schemas in the
-- path are trusted anyway.  No other role gets rights to the table, not even by default
-- privileges.
--
-- The types are those of the foreign table, so that unsuitable values are refused
-- before anything is sent.  The rows of a heap stay in the order in which they are stored.
CREATE FUNCTION dataverse_private.push_table(
  name text, foreign_table regclass, columns text[], operation text, key text[], schemas name[])
RETURNS regclass
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  schema CONSTANT name := (
    SELECT n.nspname FROM unnest(schemas) WITH ORDINALITY AS u (s, i) JOIN pg_namespace AS n ON n.nspname = u.s
    WHERE has_schema_privilege(n.oid, 'CREATE') AND n.oid <> pg_my_temp_schema() AND NOT starts_with(n.nspname, 'pg_')
    ORDER BY u.i LIMIT 1);
  staging text;
  info record;
  id text;
  makes_ids boolean;
  grantee text;
BEGIN
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = 'could not find a schema for the rows to be pushed',
      detail = 'The result of the query is stored in a table in the first schema of search_path in which the role can create tables.',
      hint = format('Create a schema, or ask an administrator to create one: CREATE SCHEMA AUTHORIZATION %I;', current_user);
  END IF;
  staging := format('%I.%I', schema, name);
  info := dataverse_private.push_info(foreign_table, operation, key, columns);
  id := info.id_column;
  makes_ids := operation = 'insert' AND NOT info.pairs;
  IF operation = 'upsert' AND key <> '{}' AND NOT info.by_id THEN
    PERFORM dataverse_private.push_check_key(foreign_table, key);
  END IF;
  EXECUTE (
    SELECT format('CREATE TABLE %s ("row number" bigint%s%s, %s) USING heap WITH (autovacuum_enabled = off)', staging,
                  CASE WHEN makes_ids AND id = ANY (columns) THEN ', "own id" boolean' END,
                  CASE WHEN makes_ids AND id <> ALL (columns) THEN format(', %I uuid', id) END,
                  string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY u.i))
    FROM unnest(columns) WITH ORDINALITY AS u (c, i) JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = u.c);
  FOR grantee IN
    SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS x WHERE c.oid = to_regclass(staging) AND x.grantee <> c.relowner
  LOOP
    EXECUTE format('REVOKE ALL ON TABLE %s FROM %s CASCADE', staging, grantee);
  END LOOP;
  RETURN staging::regclass;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_table(text, regclass, text[], text, text[], name[]) IS
  'creates the table for the rows of a push; for dataverse.push()';

-- dataverse.push(): the result of a query, written to a foreign table (src/sync/push.c).
CREATE PROCEDURE dataverse.push(
  query text,
  foreign_table regclass,
  key text[] DEFAULT NULL,
  operation text DEFAULT NULL,
  on_error text DEFAULT 'abort',
  max_errors integer DEFAULT NULL,
  chunk integer DEFAULT 250000,
  wait boolean DEFAULT true)
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_push';

COMMENT ON PROCEDURE dataverse.push(text, regclass, text[], text, text, integer, integer, boolean) IS
  'writes the result of a query to a foreign table, in chunks that are committed, each row once';

-- The meaning of the views' columns, as shown by \d+; README.md has more details.

COMMENT ON COLUMN dataverse.pool.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool.name IS 'the application user, by its option name or client_id';
COMMENT ON COLUMN dataverse.pool.url IS 'the environment';
COMMENT ON COLUMN dataverse.pool.throttled IS 'whether the user waits because the service throttled its requests';
COMMENT ON COLUMN dataverse.pool.throttled_until IS 'when the throttle ends, including retry_after_buffer';
COMMENT ON COLUMN dataverse.pool.current_parallelism IS 'how many requests at once the rate controller allows';
COMMENT ON COLUMN dataverse.pool.maximum_parallelism IS
  'the most requests at once that it may allow: max_parallel, or the service''s recommendation';
COMMENT ON COLUMN dataverse.pool.last_known_good IS 'how many requests at once worked before the last throttle';
COMMENT ON COLUMN dataverse.pool.last_known_good_stale IS 'whether last_known_good is older than last_known_good_ttl';
COMMENT ON COLUMN dataverse.pool.effective_limit IS 'how many requests the user may have under way now';
COMMENT ON COLUMN dataverse.pool.limited_by IS 'what sets that limit';
COMMENT ON COLUMN dataverse.pool.limited_until IS 'when that limit ends; null if not known';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling IS 'the limit set by the last throttles; null if none';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling_until IS 'when throttle_ceiling ends';
COMMENT ON COLUMN dataverse.pool.execution_time_ceilings IS 'the limit of each slow kind of operation';
COMMENT ON COLUMN dataverse.pool.useful_limit IS
  'beyond how many requests, of all users of the environment, they would only wait for each other; null if not known';
COMMENT ON COLUMN dataverse.pool.latency_ratio IS
  'how long requests to the environment last took, relative to base_ms; null if not known';
COMMENT ON COLUMN dataverse.pool.base_ms IS
  'milliseconds that each kind of operation takes while few requests are under way';
COMMENT ON COLUMN dataverse.pool.in_flight IS
  'requests of all sessions and servers that are being sent or have not been answered yet';
COMMENT ON COLUMN dataverse.pool.average_batch_ms IS
  'moving average of the milliseconds that each kind of operation takes';
COMMENT ON COLUMN dataverse.pool.read_request_ms IS
  'milliseconds that an answer to a read takes, apart from its rows; null if too few were measured';
COMMENT ON COLUMN dataverse.pool.read_row_ms IS 'milliseconds that each row adds';
COMMENT ON COLUMN dataverse.pool.read_row_bytes IS 'average size of a row';
COMMENT ON COLUMN dataverse.pool.remaining_requests IS
  'requests remaining in the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.remaining_time IS
  'execution time remaining in the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.successes_since_throttle IS
  'requests that succeeded since current_parallelism last changed';
COMMENT ON COLUMN dataverse.pool.last_throttle IS 'when the service last throttled a request';
COMMENT ON COLUMN dataverse.pool.last_retry_after IS 'how long the service then asked to wait';
COMMENT ON COLUMN dataverse.pool.last_increase IS 'when current_parallelism was last raised, or set to its start value';
COMMENT ON COLUMN dataverse.pool.last_activity IS 'when a request was last sent or answered';
COMMENT ON COLUMN dataverse.pool.requests IS 'requests that were sent and are no longer under way';
COMMENT ON COLUMN dataverse.pool.rows IS 'rows that were read or written, by kind of operation';
COMMENT ON COLUMN dataverse.pool.bytes_sent IS 'bytes of all requests';
COMMENT ON COLUMN dataverse.pool.bytes_received IS 'bytes of all answers';
COMMENT ON COLUMN dataverse.pool.failures IS 'requests that failed';
COMMENT ON COLUMN dataverse.pool.retries IS 'requests that were sent again, by cause';
COMMENT ON COLUMN dataverse.pool.throttles IS 'requests that the service throttled, by code';
COMMENT ON COLUMN dataverse.pool.total_throttle_events IS 'requests that the service throttled, in total';
COMMENT ON COLUMN dataverse.pool.total_backoff IS
  'how long throttles prevented the use of the user; overlapping throttles count once';
COMMENT ON COLUMN dataverse.pool.summed_waits IS
  'the sum of the times that requests waited to be sent; simultaneous waits are added up';
COMMENT ON COLUMN dataverse.pool.this_session_only IS
  'whether this state is not in shared memory, so that other sessions do not see it';

COMMENT ON COLUMN dataverse.pool_metrics.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool_metrics.foreign_server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool_metrics.application_user IS 'the application user, by its option name or client_id';
COMMENT ON COLUMN dataverse.pool_metrics.throttled IS '1 if the user waits because the service throttled its requests';
COMMENT ON COLUMN dataverse.pool_metrics.throttled_seconds_left IS
  'how long the user will be throttled; 0 if it is not';
COMMENT ON COLUMN dataverse.pool_metrics.in_flight IS 'requests that are being sent or have not been answered yet';
COMMENT ON COLUMN dataverse.pool_metrics.effective_limit IS 'how many requests may be under way at once';
COMMENT ON COLUMN dataverse.pool_metrics.maximum_parallelism IS 'the maximum of effective_limit';
COMMENT ON COLUMN dataverse.pool_metrics.remaining_requests IS
  'requests remaining in the budget, as last reported by the service; -1 if not reported';
COMMENT ON COLUMN dataverse.pool_metrics.remaining_seconds IS
  'execution time remaining in the budget, as last reported by the service; -1 if not reported';
COMMENT ON COLUMN dataverse.pool_metrics.requests_total IS 'requests that were sent';
COMMENT ON COLUMN dataverse.pool_metrics.rows_total IS 'rows that were written or read';
COMMENT ON COLUMN dataverse.pool_metrics.bytes_sent_total IS 'bytes that were sent';
COMMENT ON COLUMN dataverse.pool_metrics.bytes_received_total IS 'bytes that were received';
COMMENT ON COLUMN dataverse.pool_metrics.failures_total IS 'requests that failed permanently';
COMMENT ON COLUMN dataverse.pool_metrics.retries_total IS 'requests that were sent again';
COMMENT ON COLUMN dataverse.pool_metrics.throttle_events_total IS 'how often the user was throttled';
COMMENT ON COLUMN dataverse.pool_metrics.backoff_seconds_total IS 'how long the user was throttled, in total';
COMMENT ON COLUMN dataverse.pool_metrics.waits_seconds_total IS 'the sum of the times that requests waited to be sent';

COMMENT ON COLUMN dataverse.pool_summary.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool_summary.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool_summary.users IS 'the number of its application users';
COMMENT ON COLUMN dataverse.pool_summary.throttled_users IS 'how many of its application users are throttled now';
COMMENT ON COLUMN dataverse.pool_summary.total_throttle_events IS 'how often its application users were throttled';
COMMENT ON COLUMN dataverse.pool_summary.total_backoff IS
  'how long its application users were throttled, in total; overlapping throttles count once';

COMMENT ON COLUMN dataverse.throttle_history.at IS 'when the request was refused';
COMMENT ON COLUMN dataverse.throttle_history.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.throttle_history.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.throttle_history.name IS 'the application user';
COMMENT ON COLUMN dataverse.throttle_history.code IS 'the error code of Dataverse';
COMMENT ON COLUMN dataverse.throttle_history.retry_after IS 'how long the service asked to wait';
COMMENT ON COLUMN dataverse.throttle_history.fallback IS
  'whether the service did not ask for a time, so that fallback_retry_after applied';
COMMENT ON COLUMN dataverse.throttle_history.operation IS 'the kind of operation';
COMMENT ON COLUMN dataverse.throttle_history.in_flight IS
  'the number of the application user''s requests that were under way';

COMMENT ON COLUMN dataverse.progress.pid IS 'the process of the session';
COMMENT ON COLUMN dataverse.progress.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.progress.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.progress.foreign_table IS 'the foreign table; of import and compare, the schema';
COMMENT ON COLUMN dataverse.progress.operation IS 'read, analyze, insert, and so on; import and compare count tables';
COMMENT ON COLUMN dataverse.progress.rows_expected IS
  'the expected number of rows; an estimate for a read, null if not known';
COMMENT ON COLUMN dataverse.progress.rows_taken IS 'rows that were read, or taken to be written';
COMMENT ON COLUMN dataverse.progress.rows_sent IS 'rows that were sent';
COMMENT ON COLUMN dataverse.progress.rows_acknowledged IS 'rows that were written';
COMMENT ON COLUMN dataverse.progress.rows_rejected IS 'rows that were refused';
COMMENT ON COLUMN dataverse.progress.in_flight IS 'its requests that are being sent or have not been answered yet';
COMMENT ON COLUMN dataverse.progress.rate_now IS 'rows per second in the last 30 s';
COMMENT ON COLUMN dataverse.progress.rate_overall IS 'rows per second since the operation started';
COMMENT ON COLUMN dataverse.progress.waiting_for IS
  'response, slot, throttle, backoff, token, or job; null while working';
COMMENT ON COLUMN dataverse.progress.started IS 'when the operation started';
COMMENT ON COLUMN dataverse.progress.eta IS 'the estimated time left; null if not known';

COMMENT ON COLUMN dataverse.doubts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.doubts.operation IS 'insert, upsert, update, or delete';
COMMENT ON COLUMN dataverse.doubts.row_number IS 'the position of the row in the statement';
COMMENT ON COLUMN dataverse.doubts.row_id IS
  'the id of the row; null if Dataverse was to generate it, or if the row has a key instead';
COMMENT ON COLUMN dataverse.doubts.noted_at IS 'when the statement failed';

COMMENT ON COLUMN dataverse.rejects.id IS 'the number of the entry, which stays the same when the row is refused again';
COMMENT ON COLUMN dataverse.rejects.at IS 'when the row was last refused';
COMMENT ON COLUMN dataverse.rejects.pid IS 'the process of the session in which the row was refused';
COMMENT ON COLUMN dataverse.rejects.role IS 'the role for which it was filed';
COMMENT ON COLUMN dataverse.rejects.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.rejects.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.rejects.operation IS
  'insert, upsert, update, or delete; pull if a local table refused the row';
COMMENT ON COLUMN dataverse.rejects.row_number IS 'the position of the row in the statement, or in the query of a push';
COMMENT ON COLUMN dataverse.rejects.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.rejects."row" IS 'the row by column name; it can be corrected by UPDATE';
COMMENT ON COLUMN dataverse.rejects.code IS
  'the error code of Dataverse; null if the extension or PostgreSQL refused the row';
COMMENT ON COLUMN dataverse.rejects.sqlstate IS 'the SQLSTATE of the error';
COMMENT ON COLUMN dataverse.rejects.message IS 'why the row was refused';
COMMENT ON COLUMN dataverse.rejects.attempts IS 'how often the row has been tried';

COMMENT ON COLUMN dataverse.runs.id IS 'the number of the run';
COMMENT ON COLUMN dataverse.runs.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.runs.target IS 'the table of the copy; null for push';
COMMENT ON COLUMN dataverse.runs.query IS 'the query of a push';
COMMENT ON COLUMN dataverse.runs.operation IS 'pull, sync, or push';
COMMENT ON COLUMN dataverse.runs.role IS 'the role that called the procedure';
COMMENT ON COLUMN dataverse.runs.pid IS 'the process of the session';
COMMENT ON COLUMN dataverse.runs.started_at IS 'when the run began';
COMMENT ON COLUMN dataverse.runs.ended_at IS 'when the run ended';
COMMENT ON COLUMN dataverse.runs.status IS 'running, succeeded, failed, interrupted, or skipped';
COMMENT ON COLUMN dataverse.runs.phase IS 'the last phase of the run';
COMMENT ON COLUMN dataverse.runs.rows_read IS 'rows that were read completely; for a push, the rows of its query';
COMMENT ON COLUMN dataverse.runs.rows_compared IS 'rows whose ids and versions were read';
COMMENT ON COLUMN dataverse.runs.inserted IS 'rows that were inserted in the local table';
COMMENT ON COLUMN dataverse.runs.updated IS 'rows that were updated in the local table';
COMMENT ON COLUMN dataverse.runs.unchanged IS 'rows that did not have to be changed';
COMMENT ON COLUMN dataverse.runs.deleted IS 'rows that were deleted or marked in the local table';
COMMENT ON COLUMN dataverse.runs.sent IS 'rows that were written to Dataverse';
COMMENT ON COLUMN dataverse.runs.missing IS 'rows to update or delete that were not found';
COMMENT ON COLUMN dataverse.runs.rejected IS 'rows that were refused, or that sync sent without effect';
COMMENT ON COLUMN dataverse.runs.conflicts IS 'rows whose conflicts await resolution';
COMMENT ON COLUMN dataverse.runs.requests IS 'requests that were sent, including repeated ones';
COMMENT ON COLUMN dataverse.runs.throttles IS 'requests that the service throttled';
COMMENT ON COLUMN dataverse.runs.time_waited IS 'how long the run did nothing but wait for Dataverse';
COMMENT ON COLUMN dataverse.runs.sqlstate IS 'the SQLSTATE of the error';
COMMENT ON COLUMN dataverse.runs.error IS 'why the run failed';

COMMENT ON COLUMN dataverse.sync_state.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.sync_state.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.sync_state.phase IS 'the next phase: backfill, compare, settle, or current';
COMMENT ON COLUMN dataverse.sync_state.method IS 'whether changes are found by change tracking or by versions';
COMMENT ON COLUMN dataverse.sync_state.token_at IS 'when the copy got its token of change tracking';
COMMENT ON COLUMN dataverse.sync_state.compared_at IS
  'when the copy was last compared with all rows, or all rows were read';
COMMENT ON COLUMN dataverse.sync_state.succeeded_at IS 'when the copy was last in step';
COMMENT ON COLUMN dataverse.sync_state.age IS 'how long ago the copy was last in step';
COMMENT ON COLUMN dataverse.sync_state.token_expires_at IS 'when the token expires; null if not known';
COMMENT ON COLUMN dataverse.sync_state.lag IS
  'how many rows have changed in Dataverse since then; selecting this column sends a request to the service';
COMMENT ON COLUMN dataverse.sync_state.refused IS 'how many rows the table has refused; they will be tried again';
COMMENT ON COLUMN dataverse.sync_state.unfed IS 'the columns that were copied once, but no longer get values';
COMMENT ON COLUMN dataverse.sync_state.last_status IS 'how the last run ended; running if it has not ended';
COMMENT ON COLUMN dataverse.sync_state.last_started_at IS 'when the last run began';
COMMENT ON COLUMN dataverse.sync_state.last_error IS 'why the last run failed';

COMMENT ON COLUMN dataverse.conflicts.id IS 'the number of the conflict, for dataverse.resolve()';
COMMENT ON COLUMN dataverse.conflicts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.conflicts.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.conflicts.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.conflicts.kind IS
  'changed (on both sides), deleted there, deleted here, exists (in Dataverse already), or refused';
COMMENT ON COLUMN dataverse.conflicts.columns IS 'the columns in conflict';
COMMENT ON COLUMN dataverse.conflicts.ours IS 'the row in the local table; null if it does not exist';
COMMENT ON COLUMN dataverse.conflicts.theirs IS 'the row in Dataverse; null if it does not exist';
COMMENT ON COLUMN dataverse.conflicts.sqlstate IS 'the SQLSTATE of the error with which Dataverse refused the row';
COMMENT ON COLUMN dataverse.conflicts.error IS 'why Dataverse refused the row';
COMMENT ON COLUMN dataverse.conflicts.found_at IS 'when the conflict was found';
COMMENT ON COLUMN dataverse.conflicts.decision IS
  'service or local, which the next dataverse.sync() carries out; null if not decided';

COMMENT ON COLUMN dataverse.pushes.id IS 'the number of the push, for dataverse.forget_push()';
COMMENT ON COLUMN dataverse.pushes.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.pushes.query IS 'the query; once staged_in has its rows, it is not run again';
COMMENT ON COLUMN dataverse.pushes.operation IS 'insert, update, upsert, or delete';
COMMENT ON COLUMN dataverse.pushes.key IS 'the columns that identify the rows; empty if the id does';
COMMENT ON COLUMN dataverse.pushes.role IS 'the role that the push belongs to';
COMMENT ON COLUMN dataverse.pushes.opened_at IS 'when the push was begun';
COMMENT ON COLUMN dataverse.pushes.staged_in IS 'the table with the rows of the query; null until it has run';
COMMENT ON COLUMN dataverse.pushes.rows IS 'the number of these rows';
COMMENT ON COLUMN dataverse.pushes.rows_done IS 'how many of these rows are done';

-- Default privileges of the role that installs the extension must not apply to
-- tables with rows of all roles.  Triggers on these tables, or functions that run as
-- their owner, would give all rights.
DO $$
DECLARE
  statement text;
BEGIN
  FOR statement IN
    SELECT format('REVOKE ALL ON %s %s FROM %s', o.what, o.name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
    FROM (
      SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner, c.relacl
      FROM pg_class AS c WHERE c.relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
      UNION ALL
      -- whether everyone may call a function is said where it is created
      SELECT 'ROUTINE', p.oid::regprocedure::text, p.proowner, p.proacl
      FROM pg_proc AS p WHERE p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
      UNION ALL
      SELECT 'SCHEMA', n.nspname, n.nspowner, n.nspacl FROM pg_namespace AS n WHERE n.nspname IN ('dataverse', 'dataverse_private')) AS o (what, name, owner, acl),
      aclexplode(o.acl) AS a
    WHERE a.grantee <> o.owner AND (a.grantee <> 0 OR o.what <> 'ROUTINE')
  LOOP
    EXECUTE statement;
  END LOOP;
END
$$;

-- Everyone may use the objects of these schemas, unless they have restrictions of
-- their own.  The steps of a run need the private one, because they run with the rights
-- of the role that has called the run.
GRANT USAGE ON SCHEMA dataverse, dataverse_private TO PUBLIC;

-- The views show each caller only the rows that the caller may see.
GRANT SELECT ON dataverse.pool, dataverse.pool_metrics, dataverse.pool_summary, dataverse.throttle_history, dataverse.progress, dataverse.doubts
  TO PUBLIC;

GRANT SELECT, DELETE, UPDATE ("row") ON dataverse.rejects TO PUBLIC;
GRANT SELECT ON dataverse_private.visible_rejects TO PUBLIC;
GRANT SELECT, UPDATE (attempts) ON dataverse_private.own_rejects TO PUBLIC;
GRANT SELECT, UPDATE ("row") ON dataverse_private.correctable_rejects TO PUBLIC;

GRANT SELECT ON dataverse.runs, dataverse.sync_state, dataverse.conflicts, dataverse.pushes TO PUBLIC;

-- For pg_dump.
GRANT SELECT ON dataverse_private.rejected_rows, dataverse_private.rejected_rows_id_seq, dataverse_private.copies, dataverse_private.copies_id_seq,
  dataverse_private.copy_ids, dataverse_private.copy_refused, dataverse_private.copy_refused_number_seq, dataverse_private.local_changes, dataverse_private.local_changes_number_seq, dataverse_private.run_log,
  dataverse_private.run_log_id_seq, dataverse_private.pending, dataverse_private.pending_number_seq, dataverse_private.push_states,
  dataverse_private.push_states_id_seq TO pg_database_owner;

-- Nobody needs to call the handler or the validator directly; only DDL does.
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_handler() FROM PUBLIC;
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) FROM PUBLIC;
