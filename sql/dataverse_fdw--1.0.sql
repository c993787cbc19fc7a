/* sql/dataverse_fdw--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION dataverse_fdw" to load this file. \quit

-- CREATE EXTENSION creates the schema, or uses one that exists, and puts it into
-- the search path.  What others have put there, or can put there, would run with
-- the rights of whoever uses the extension.  That includes this script: only
-- pg_catalog is searched for the operators and functions that it uses itself.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

DO $$
DECLARE
  reason text;
BEGIN
  SELECT CASE
    WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS o WHERE o.oid = n.nspowner AND o.rolsuper)
      THEN 'Its owner is not a superuser.'
    WHEN EXISTS (SELECT FROM pg_catalog.aclexplode(n.nspacl) AS a
                 WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner)
      THEN 'Other roles than its owner can create objects in it.'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                 WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = n.oid
                   AND d.classid <> 'pg_catalog.pg_extension'::pg_catalog.regclass)
      THEN 'It is not empty.'
    END
  INTO reason
  FROM pg_catalog.pg_namespace AS n
  WHERE n.nspname = 'dataverse';
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'duplicate_schema',
      message = 'schema "dataverse" exists and cannot be used for the extension',
      detail = reason,
      hint = 'Rename or drop the schema, or have a superuser own it alone.';
  END IF;
END
$$;

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

CREATE FUNCTION dataverse.version(
  OUT extension text,
  OUT postgresql text,
  OUT libcurl text,
  OUT tls text,
  OUT json_c text)
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
  'returns the user in Dataverse that the next request is sent as';

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
-- because foreign tables can have children here, of which Dataverse knows nothing.
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
  'counts the rows of a table in Dataverse, exactly';

--
-- The pool of application users.  The functions show callers what belongs to
-- them, and show members of pg_read_all_stats everything.
--

CREATE FUNCTION dataverse.pool_users(
  OUT server text,
  OUT name text,
  OUT throttled boolean,
  OUT throttled_until timestamptz,
  OUT current_parallelism integer,
  OUT maximum_parallelism integer,
  OUT last_known_good integer,
  OUT last_known_good_stale boolean,
  OUT effective_limit integer,
  OUT limited_by text,
  OUT throttle_ceiling bigint,
  OUT throttle_ceiling_until timestamptz,
  OUT execution_time_ceilings jsonb,
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
  OUT time_waited interval,
  OUT throttle_events bigint,
  OUT backoff interval,
  OUT this_session_only boolean)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_pool_users';

COMMENT ON FUNCTION dataverse.pool_users() IS
  'state of the application users; use the view dataverse.pool';

CREATE VIEW dataverse.pool AS
  SELECT server, name, throttled, throttled_until, current_parallelism,
         maximum_parallelism, last_known_good, last_known_good_stale,
         effective_limit, limited_by, throttle_ceiling,
         throttle_ceiling_until, execution_time_ceilings, in_flight,
         average_batch_ms, read_request_ms, read_row_ms, read_row_bytes,
         remaining_requests, remaining_time,
         successes_since_throttle, last_throttle, last_retry_after,
         last_increase, last_activity, requests, rows,
         bytes_sent, bytes_received, failures, retries, throttles,
         time_waited, this_session_only
  FROM dataverse.pool_users();

COMMENT ON VIEW dataverse.pool IS
  'a row for each application user: whether it is throttled, its number of concurrent requests and what limits it, and what was sent';

CREATE VIEW dataverse.pool_summary AS
  SELECT server,
         count(*) AS users,
         count(*) FILTER (WHERE throttled) AS throttled_users,
         sum(throttle_events)::bigint AS total_throttle_events,
         sum(backoff) AS total_backoff
  FROM dataverse.pool_users()
  GROUP BY server;

COMMENT ON VIEW dataverse.pool_summary IS
  'a row for each server: its number of application users and how often they were throttled';

CREATE FUNCTION dataverse.throttle_events(
  OUT at timestamptz,
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

COMMENT ON FUNCTION dataverse.throttle_events() IS
  'the last throttle events; use the view dataverse.throttle_history';

CREATE VIEW dataverse.throttle_history AS
  SELECT at, server, name, code, retry_after, fallback, operation, in_flight
  FROM dataverse.throttle_events();

COMMENT ON VIEW dataverse.throttle_history IS
  'the last throttle events, oldest first';

CREATE FUNCTION dataverse.progress_rows(
  OUT pid integer,
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

COMMENT ON FUNCTION dataverse.progress_rows() IS
  'reads and writes that are under way; use the view dataverse.progress';

CREATE VIEW dataverse.progress AS
  SELECT pid, server, foreign_table, operation, rows_expected, rows_taken,
         rows_sent, rows_acknowledged, rows_rejected, in_flight, rate_now,
         rate_overall, waiting_for, started, eta
  FROM dataverse.progress_rows();

COMMENT ON VIEW dataverse.progress IS
  'a row for each read or write that is under way in any session: its progress, its speed, and what it waits for';

CREATE FUNCTION dataverse.doubtful_rows(
  OUT foreign_table regclass,
  OUT operation text,
  OUT row_number bigint,
  OUT row_id uuid,
  OUT noted_at timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'dataverse_doubtful_rows';

COMMENT ON FUNCTION dataverse.doubtful_rows() IS
  'rows that failed statements of this session sent without a conclusive answer; use the view dataverse.doubts';

CREATE VIEW dataverse.doubts AS
  SELECT foreign_table, operation, row_number, row_id, noted_at
  FROM dataverse.doubtful_rows();

COMMENT ON VIEW dataverse.doubts IS
  'the last 1000 rows that failed statements of this session sent without a conclusive answer: they may be in Dataverse or not';

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

--
-- Refused rows.  The extension files them.  A row is filed for the current
-- user, who may see it, try it again, and delete it.
--
-- pg_dump includes the rows.  It can do so for whoever may read the whole table,
-- which is why the table has no row security, and why the views have the
-- conditions.  In a dump, roles and tables are names, and what has these names
-- is looked up when the rows are restored: OIDs of another database mean nothing.
--

CREATE FUNCTION dataverse.role_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname::text = $1 $$;

COMMENT ON FUNCTION dataverse.role_oid(text) IS
  'the role that has this name when a row is filed or restored; for dataverse.rejected_rows';

CREATE FUNCTION dataverse.table_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT pg_catalog.to_regclass($1)::oid $$;

COMMENT ON FUNCTION dataverse.table_oid(text) IS
  'the table that has this name when a row is filed or restored; for dataverse.rejected_rows';

CREATE TABLE dataverse.rejected_rows (
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
  role_oid oid GENERATED ALWAYS AS (dataverse.role_oid(role)) STORED,
  table_oid oid GENERATED ALWAYS AS (dataverse.table_oid(foreign_table)) STORED
);

CREATE INDEX rejected_rows_row_id_idx ON dataverse.rejected_rows (row_id);

COMMENT ON TABLE dataverse.rejected_rows IS
  'the rows behind the view dataverse.rejects, of all roles';

SELECT pg_catalog.pg_extension_config_dump('dataverse.rejected_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.rejected_rows_id_seq', '');

-- Nobody can file a row for another role, not even a member of
-- pg_write_all_data.
CREATE FUNCTION dataverse.refuse_forgery()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT (SELECT pg_has_role(c.relowner, 'MEMBER') FROM pg_class AS c WHERE c.oid = TG_RELID) THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = 'rows of dataverse.rejected_rows are filed by the extension only';
  END IF;
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse.refuse_forgery() IS
  'lets only the owner of dataverse.rejected_rows add and change rows';

CREATE TRIGGER refuse_forgery BEFORE INSERT OR UPDATE ON dataverse.rejected_rows
  FOR EACH STATEMENT EXECUTE FUNCTION dataverse.refuse_forgery();

-- A role is the one for which a row was filed if it has the same OID (it is not
-- another one of that name) and the same name (the OID was not used again).  Rows
-- of roles that are gone belong to superusers (10 is the bootstrap superuser).
CREATE VIEW dataverse.visible_rejects WITH (security_barrier) AS
  SELECT id, at, pid, role, server, foreign_table, operation, row_number, row_id, "row", code, sqlstate,
         message, attempts
  FROM dataverse.rejected_rows
  WHERE pg_catalog.pg_has_role(
      CASE WHEN pg_catalog.pg_get_userbyid(role_oid) = role THEN role_oid ELSE 10 END, 'MEMBER')
    OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.visible_rejects IS
  'the rows of dataverse.rejected_rows that the current user may see; use the view dataverse.rejects';

-- Whoever may delete from a view may lock it, and with it all tables and views in
-- its definition, against everybody.  No such view leads to the table, because
-- then any role could stop all others from filing rows: this function is in
-- between, which LOCK TABLE does not follow.
CREATE FUNCTION dataverse.read_rejects()
RETURNS SETOF dataverse.visible_rejects
LANGUAGE sql STABLE ROWS 1000
AS $$ SELECT * FROM dataverse.visible_rejects $$;

COMMENT ON FUNCTION dataverse.read_rejects() IS
  'the rows of the view dataverse.rejects';

CREATE VIEW dataverse.rejects AS
  SELECT id, at, pid, role, server, foreign_table, operation, row_number, row_id, "row", code, sqlstate,
         message, attempts
  FROM dataverse.read_rejects();

COMMENT ON VIEW dataverse.rejects IS
  'rows that Dataverse refused with on_error = continue, and the reasons';

-- Who may only read all rows may not delete them.
CREATE RULE delete_own AS ON DELETE TO dataverse.rejects DO INSTEAD
  DELETE FROM dataverse.rejected_rows AS t
  WHERE t.id = OLD.id
    AND pg_catalog.pg_has_role(
      CASE WHEN pg_catalog.pg_get_userbyid(t.role_oid) = t.role THEN t.role_oid ELSE 10 END, 'MEMBER')
  RETURNING t.id, t.at, t.pid, t.role, t.server, t.foreign_table, t.operation, t.row_number, t.row_id, t."row", t.code,
            t.sqlstate, t.message, t.attempts;

-- Only these rows are tried again.  Members of a role see and delete its rows,
-- but they have not written them.
CREATE VIEW dataverse.own_rejects WITH (security_barrier) AS
  SELECT id, at, pid, table_oid, operation, row_id, "row", attempts
  FROM dataverse.rejected_rows
  WHERE role = CURRENT_USER AND pg_catalog.pg_get_userbyid(role_oid) = CURRENT_USER;

COMMENT ON VIEW dataverse.own_rejects IS
  'the rows that were filed for the current user; for dataverse.retry_rejects()';

-- The privilege to update a column, which locking rows requires as well, does not
-- suffice to lock the view.  No row is updated; those that were tried again go.
CREATE RULE delete_retried AS ON UPDATE TO dataverse.own_rejects DO INSTEAD
  DELETE FROM dataverse.rejected_rows AS t
  WHERE t.id = OLD.id AND t.role = CURRENT_USER AND pg_catalog.pg_get_userbyid(t.role_oid) = CURRENT_USER;

CREATE FUNCTION dataverse.may_retry(table_oid oid)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_may_retry';

COMMENT ON FUNCTION dataverse.may_retry(oid) IS
  'whether the caller can write to a foreign table without giving rights away; for dataverse.retry_rejects()';

CREATE FUNCTION dataverse.retrying(ids bigint[])
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_retrying';

COMMENT ON FUNCTION dataverse.retrying(bigint[]) IS
  'which of the caller''s rejected rows the next statement tries again; for dataverse.retry_rejects()';

-- Runs one statement for each combination of table, operation, and set of
-- columns.  A row that is refused again is filed again, with its number and one
-- more attempt, before the old entry is deleted.
CREATE FUNCTION dataverse.retry_rejects(
  foreign_table regclass DEFAULT NULL,
  since timestamptz DEFAULT NULL,
  OUT retried bigint,
  OUT succeeded bigint,
  OUT failed bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  settings CONSTANT text[] := ARRAY['dataverse_fdw.on_error', 'dataverse_fdw.insert_mode'];
  saved text[] := ARRAY(SELECT coalesce(current_setting(s, true), '') FROM unnest(settings) AS s);
  part record;
  key_column name;
  last_id bigint;
BEGIN
  retried := 0;
  failed := 0;
  IF current_setting('dataverse_fdw.dry_run', true)::boolean THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = 'rejected rows cannot be tried again while "dataverse_fdw.dry_run" is on';
  END IF;
  PERFORM set_config(settings[1], 'continue', true);
  FOR part IN
    WITH mine AS MATERIALIZED (
      SELECT r.id, r.table_oid, r.operation, r.row_id, r.row
      FROM dataverse.own_rejects AS r
      WHERE (r.table_oid = retry_rejects.foreign_table OR retry_rejects.foreign_table IS NULL)
        AND (r.at >= since OR since IS NULL)
        AND r.row <> '{}'
      ORDER BY r.id
      FOR UPDATE OF r),
    tables AS MATERIALIZED (
      SELECT t.table_oid
      FROM (SELECT DISTINCT m.table_oid FROM mine AS m ORDER BY m.table_oid) AS t
      WHERE dataverse.may_retry(t.table_oid))
    SELECT m.table_oid::regclass AS foreign_table, m.operation, c.names,
           array_agg(m.id ORDER BY m.id) AS ids, array_agg(m.row ORDER BY m.id) AS rows,
           array_agg(m.row_id ORDER BY m.id) AS row_ids,
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
    GROUP BY m.table_oid, m.operation, c.names
    ORDER BY min(m.id)
  LOOP
    SELECT coalesce(max(id), 0) INTO last_id FROM dataverse.own_rejects;
    PERFORM set_config(settings[2], CASE part.operation WHEN 'upsert' THEN 'upsert' ELSE saved[2] END, true);
    PERFORM dataverse.retrying(part.ids);
    CASE part.operation
      WHEN 'insert', 'upsert' THEN
        EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %3$s'
                       ' FROM unnest($1) WITH ORDINALITY AS u (value, i),'
                       ' jsonb_populate_record(NULL::%1$s, u.value) AS r ORDER BY u.i',
                       part.foreign_table, part.columns, part.inputs)
          USING part.rows;
      WHEN 'delete' THEN
        EXECUTE format('DELETE FROM ONLY %1$s AS t USING unnest($1) AS u (value),'
                       ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE (%2$s) = (%3$s)',
                       part.foreign_table,
                       (SELECT string_agg('t.' || quote_ident(c), ', ' ORDER BY i)
                        FROM unnest(part.names) WITH ORDINALITY AS u (c, i)),
                       part.inputs)
          USING part.rows;
      ELSE
        -- the column that contains the ids
        SELECT c INTO key_column FROM unnest(part.names) WITH ORDINALITY AS u (c, i)
        WHERE NOT EXISTS (SELECT FROM unnest(part.rows, part.row_ids) AS v (value, row_id)
                          WHERE v.value ->> c IS DISTINCT FROM v.row_id::text)
        ORDER BY i LIMIT 1;
        CONTINUE WHEN key_column IS NULL OR cardinality(part.names) < 2;
        EXECUTE format('UPDATE ONLY %1$s AS t SET %2$s FROM unnest($1) AS u (value),'
                       ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE t.%3$I = r.%3$I',
                       part.foreign_table,
                       (SELECT string_agg(format('%1$I = r.%1$I', c), ', ') FROM unnest(part.names) AS c
                        WHERE c <> key_column),
                       key_column)
          USING part.rows;
    END CASE;
    SELECT failed + count(*) INTO failed FROM dataverse.own_rejects
    WHERE id > last_id AND pid = pg_backend_pid();
    SELECT retried + count(*) INTO retried FROM dataverse.own_rejects WHERE id = ANY (part.ids);
    -- deletes them (rule delete_retried)
    UPDATE dataverse.own_rejects SET attempts = attempts WHERE id = ANY (part.ids);
  END LOOP;
  PERFORM dataverse.retrying(NULL);
  PERFORM set_config(s, v, true) FROM unnest(settings, saved) AS t (s, v);
  succeeded := retried - failed;
END
$$;

COMMENT ON FUNCTION dataverse.retry_rejects(regclass, timestamptz) IS
  'tries to write the caller''s rejected rows again and deletes those that succeed from dataverse.rejects';

--
-- Import.
--

-- Ignores case and accents, much as Dataverse does.  (Dataverse also ignores
-- trailing blanks and all characters that its collation does not know, which this
-- one does not: whatever the service returns is checked here.)  It is not created
-- if the server is built without ICU or ICU does not support the encoding of the
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
  'compares the foreign tables of a schema with those that would be imported today, and shows statements that apply the changes';

-- Everyone may use the objects of this schema, unless they have restrictions of
-- their own.
GRANT USAGE ON SCHEMA dataverse TO PUBLIC;

-- The views show each caller only what this caller may see.
GRANT SELECT ON dataverse.pool, dataverse.pool_summary, dataverse.throttle_history, dataverse.progress, dataverse.doubts
  TO PUBLIC;

GRANT SELECT, DELETE ON dataverse.rejects TO PUBLIC;
GRANT SELECT ON dataverse.visible_rejects TO PUBLIC;
GRANT SELECT, UPDATE (attempts) ON dataverse.own_rejects TO PUBLIC;

-- For pg_dump.
GRANT SELECT ON dataverse.rejected_rows, dataverse.rejected_rows_id_seq TO pg_database_owner;

-- Nobody needs to call the handler or the validator directly; only DDL does.
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_handler() FROM PUBLIC;
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) FROM PUBLIC;
