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

--
-- Staying in step.
--
-- dataverse.pull() is a procedure that commits each page of rows together with
-- the place where reading goes on.  Where it is, is kept in tables of this schema,
-- which pg_dump includes.  They belong to the extension: the functions that write
-- them run as its owner, search nothing but pg_catalog, contain no dynamic SQL,
-- and change only what belongs to a copy whose table the caller owns.  Everything
-- else runs as the caller.
--

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
  SELECT * INTO STRICT info FROM dataverse.pull_info(changes.foreign_table);
  LOOP
    SELECT * INTO STRICT page
    FROM dataverse.read_page(changes.foreign_table, NULL, link, changes.token, NULL, changes.token IS NULL);
    RETURN QUERY EXECUTE format(
      'SELECT (s).%1$I, false, to_jsonb(s), NULL::text FROM dataverse.page_rows(NULL::%2$s) AS s', info.id_column, foreign_table);
    RETURN QUERY SELECT d, true, NULL::jsonb, NULL::text FROM dataverse.page_deletions() AS d;
    link := page.link;
    EXIT WHEN link IS NULL;
  END LOOP;
  IF page.token IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_unable_to_create_reply',
      message = format('Dataverse returned no token of change tracking for foreign table "%s"', foreign_table),
      hint = 'Turn on change tracking in the properties of the table in Dataverse.';
  END IF;
  PERFORM dataverse.end_pages();
  RETURN QUERY SELECT NULL::uuid, NULL::boolean, NULL::jsonb, page.token;
END
$$;

COMMENT ON FUNCTION dataverse.changes(regclass, text) IS
  'all rows of a table, or what has changed since a token; the last row has only the token to go on with';

CREATE FUNCTION dataverse.read_page(
  foreign_table regclass,
  columns text[],
  link text,
  token text,
  after bigint,
  track boolean,
  OUT link text,
  OUT token text,
  OUT upserts bigint,
  OUT deletions bigint,
  OUT requests bigint,
  OUT throttles bigint,
  OUT waited bigint)
RETURNS record
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_read_page';

COMMENT ON FUNCTION dataverse.read_page(regclass, text[], text, text, bigint, boolean) IS
  'reads a page of rows or changes and keeps it; for dataverse.pull()';

CREATE FUNCTION dataverse.page_rows(row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_rows';

COMMENT ON FUNCTION dataverse.page_rows(anyelement) IS
  'the rows of the page that was read last; for dataverse.pull()';

CREATE FUNCTION dataverse.page_deletions()
RETURNS SETOF uuid
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_deletions';

COMMENT ON FUNCTION dataverse.page_deletions() IS
  'the ids that are deleted according to the page that was read last; for dataverse.pull()';

CREATE FUNCTION dataverse.end_pages()
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_end_pages';

COMMENT ON FUNCTION dataverse.end_pages() IS
  'ends what dataverse.read_page() has begun; for dataverse.pull()';

CREATE FUNCTION dataverse.pull_info(
  foreign_table regclass,
  OUT server text,
  OUT logical_name text,
  OUT entity_set text,
  OUT id_column text,
  OUT version_column text,
  OUT elastic boolean)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_pull_info';

COMMENT ON FUNCTION dataverse.pull_info(regclass) IS
  'what a foreign table is in Dataverse; for dataverse.pull()';

-- A copy is named by its tables.  Their OIDs follow from the names, as in
-- dataverse.rejected_rows, so that a restored dump finds its tables.
CREATE TABLE dataverse.copies (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  foreign_table text NOT NULL,
  target text NOT NULL UNIQUE,
  role text NOT NULL,
  known text[] NOT NULL DEFAULT '{}',
  columns text[] NOT NULL DEFAULT '{}',
  types text[] NOT NULL DEFAULT '{}',
  tracked boolean,
  phase text NOT NULL DEFAULT 'backfill' CHECK (phase IN ('backfill', 'compare', 'settle', 'current')),
  whole boolean NOT NULL DEFAULT false,
  again boolean NOT NULL DEFAULT false,
  link text,
  token text,
  token_at timestamptz,
  ids bigint NOT NULL DEFAULT 0,
  marks bigint[] NOT NULL DEFAULT '{}',
  marked_at timestamptz[] NOT NULL DEFAULT '{}',
  compared_at timestamptz,
  succeeded_at timestamptz,
  foreign_oid oid GENERATED ALWAYS AS (dataverse.table_oid(foreign_table)) STORED,
  target_oid oid GENERATED ALWAYS AS (dataverse.table_oid(target)) STORED,
  role_oid oid GENERATED ALWAYS AS (dataverse.role_oid(role)) STORED
);

COMMENT ON TABLE dataverse.copies IS
  'the tables that dataverse.pull() keeps in step, and how far each of them is';
COMMENT ON COLUMN dataverse.copies.known IS 'the columns that there were to copy; what else there is now is new';
COMMENT ON COLUMN dataverse.copies.columns IS 'those of them that are copied; types are those in the foreign table';
COMMENT ON COLUMN dataverse.copies.whole IS 'the comparison under way reads whole rows, rather than ids and versions';
COMMENT ON COLUMN dataverse.copies.again IS 'the comparison under way has to be followed by another one';
COMMENT ON COLUMN dataverse.copies.ids IS 'the number of ids in dataverse.copy_ids';
COMMENT ON COLUMN dataverse.copies.marks IS 'greatest versions that were seen, each at the time in marked_at';

CREATE TABLE dataverse.copy_ids (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  version bigint,
  PRIMARY KEY (copy, id)
);

COMMENT ON TABLE dataverse.copy_ids IS
  'the ids that a comparison under way has found in Dataverse, or still has to read';

CREATE TABLE dataverse.run_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  copy bigint NOT NULL,
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
  requests bigint NOT NULL DEFAULT 0,
  throttles bigint NOT NULL DEFAULT 0,
  time_waited interval NOT NULL DEFAULT '0',
  sqlstate text,
  error text
);

CREATE INDEX run_log_copy_idx ON dataverse.run_log (copy, started_at);

COMMENT ON TABLE dataverse.run_log IS
  'the runs behind the view dataverse.runs, of all roles';

SELECT pg_catalog.pg_extension_config_dump('dataverse.copies', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.copies_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.copy_ids', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.run_log', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.run_log_id_seq', '');

-- Who calls a function that runs as its owner: the role of SET ROLE, or else that
-- of the session.
CREATE FUNCTION dataverse.caller()
RETURNS name
LANGUAGE sql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE pg_catalog.current_setting('role') WHEN 'none' THEN session_user
             ELSE pg_catalog.current_setting('role')::name END $$;

COMMENT ON FUNCTION dataverse.caller() IS
  'the role that calls a function that runs as its owner; for dataverse.pull()';

-- A copy belongs to the owner of its table; before there is one, to the role that
-- asked for it, as a rejected row does.
CREATE FUNCTION dataverse.copy_owner(copy dataverse.copies)
RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce((SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid = (copy).target_oid),
                      CASE WHEN pg_catalog.pg_get_userbyid((copy).role_oid) = (copy).role THEN (copy).role_oid
                           ELSE 10 END) $$;

COMMENT ON FUNCTION dataverse.copy_owner(dataverse.copies) IS
  'the role that a copy belongs to; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_get(copy bigint)
RETURNS dataverse.copies
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found_copy dataverse.copies;
BEGIN
  SELECT c.* INTO found_copy FROM dataverse.copies AS c WHERE c.id = copy;
  IF found_copy.id IS NULL OR NOT pg_has_role(dataverse.caller(), dataverse.copy_owner(found_copy), 'MEMBER') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = coalesce(format('must be owner of table %s', found_copy.target), 'there is no such copy');
  END IF;
  RETURN found_copy;
END
$$;

COMMENT ON FUNCTION dataverse.copy_get(bigint) IS
  'the state of a copy, for who owns it; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_open(foreign_table regclass, target text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  owner oid;
  kind "char";
  opened dataverse.copies;
  schema oid := to_regnamespace(quote_ident((parse_ident(target))[1]));
BEGIN
  SELECT c.relowner, c.relkind INTO owner, kind FROM pg_class AS c WHERE c.oid = to_regclass(target);
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_schema_name', message = format('schema "%s" does not exist', (parse_ident(target))[1]);
  END IF;
  -- who could create the table may say what it will be a copy of
  IF owner IS NULL AND NOT has_schema_privilege(dataverse.caller(), schema, 'CREATE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for schema %s', schema::regnamespace);
  END IF;
  IF NOT pg_has_role(dataverse.caller(), owner, 'MEMBER') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('must be owner of table %s', target);
  END IF;
  IF kind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a table', target);
  END IF;
  SELECT c.* INTO opened FROM dataverse.copies AS c
  WHERE c.target_oid = to_regclass(copy_open.target) OR c.target = copy_open.target
  ORDER BY c.target_oid = to_regclass(copy_open.target) DESC NULLS LAST LIMIT 1;
  IF opened.id IS NULL THEN
    INSERT INTO dataverse.copies AS c (foreign_table, target, role)
    VALUES (copy_open.foreign_table::text, copy_open.target, dataverse.caller())
    RETURNING * INTO opened;
    RETURN opened.id;
  END IF;
  IF owner IS NOT NULL AND coalesce(opened.foreign_oid, 0) <> copy_open.foreign_table AND opened.foreign_table <> copy_open.foreign_table::text THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s is a copy of another foreign table, %s', target, opened.foreign_table),
      hint = format('To make it a copy of this one, first call SELECT dataverse.forget_copy(%L).', target);
  END IF;
  -- tables may have been renamed, and made again; who had this name before begins anew
  DELETE FROM dataverse.copies AS c WHERE c.target = copy_open.target AND c.id <> opened.id;
  UPDATE dataverse.copies AS c
  SET foreign_table = copy_open.foreign_table::text, target = copy_open.target, role = dataverse.caller()
  WHERE c.id = opened.id;
  -- of a table that is gone, everything has to be read again
  IF owner IS NULL THEN
    DELETE FROM dataverse.copy_ids AS i WHERE i.copy = opened.id;
    UPDATE dataverse.copies AS c
    SET phase = 'backfill', known = '{}', columns = '{}', types = '{}', link = NULL, token = NULL, token_at = NULL, marks = '{}', marked_at = '{}',
        ids = 0, whole = false, again = false
    WHERE c.id = opened.id;
  END IF;
  RETURN opened.id;
END
$$;

COMMENT ON FUNCTION dataverse.copy_open(regclass, text) IS
  'finds the state of a copy, or begins one; for dataverse.pull()';

-- Changes what the members of "changes" say.
CREATE FUNCTION dataverse.copy_set(copy bigint, changes jsonb)
RETURNS dataverse.copies
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n dataverse.copies := jsonb_populate_record(dataverse.copy_get(copy), changes - 'id');
BEGIN
  -- the target is set to itself so that its OID is found once it exists
  UPDATE dataverse.copies AS c
  SET target = c.target, known = n.known, columns = n.columns, types = n.types, tracked = n.tracked, phase = n.phase, whole = n.whole, again = n.again,
      link = n.link, token = n.token, token_at = n.token_at, ids = n.ids, marks = n.marks, marked_at = n.marked_at,
      compared_at = n.compared_at, succeeded_at = n.succeeded_at
  WHERE c.id = copy
  RETURNING c.* INTO STRICT n;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.copy_set(bigint, jsonb) IS
  'changes the state of a copy; for dataverse.pull()';

-- Adds ids to those found, and returns how many are new; without arrays, forgets them all.
CREATE FUNCTION dataverse.copy_note_ids(copy bigint, ids uuid[], versions bigint[])
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n bigint := 0;
BEGIN
  PERFORM dataverse.copy_get(copy);
  IF ids IS NULL THEN
    DELETE FROM dataverse.copy_ids AS i WHERE i.copy = copy_note_ids.copy;
  ELSE
    INSERT INTO dataverse.copy_ids AS i (copy, id, version)
    SELECT copy_note_ids.copy, u.id, u.version FROM unnest(ids, versions) AS u (id, version)
    ON CONFLICT ON CONSTRAINT copy_ids_pkey DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.copy_note_ids(bigint, uuid[], bigint[]) IS
  'notes the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_drop_ids(copy bigint, dropped uuid[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  DELETE FROM dataverse.copy_ids AS i WHERE i.copy = copy_drop_ids.copy AND i.id = ANY (dropped);
END
$$;

COMMENT ON FUNCTION dataverse.copy_drop_ids(bigint, uuid[]) IS
  'forgets ids that have been read; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_ids_of(copy bigint, most bigint DEFAULT NULL)
RETURNS TABLE (id uuid, version bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER ROWS 100000
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  RETURN QUERY SELECT i.id, i.version FROM dataverse.copy_ids AS i
    WHERE i.copy = copy_ids_of.copy ORDER BY i.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse.copy_ids_of(bigint, bigint) IS
  'the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_forget(target text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  forgotten bigint;
BEGIN
  SELECT c.id INTO forgotten FROM dataverse.copies AS c
  WHERE c.target_oid = to_regclass(copy_forget.target) OR c.target = copy_forget.target
  ORDER BY c.target_oid = to_regclass(copy_forget.target) DESC NULLS LAST LIMIT 1;
  IF forgotten IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse.copy_get(forgotten);
  DELETE FROM dataverse.copy_ids AS i WHERE i.copy = forgotten;
  DELETE FROM dataverse.run_log AS r WHERE r.copy = forgotten;
  DELETE FROM dataverse.copies AS c WHERE c.id = forgotten;
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse.copy_forget(text) IS
  'forgets a copy by the qualified name of its table; for dataverse.forget_copy()';

-- The lock of a copy is held by the session that pulls it, so it is gone when the
-- session is.  A run without it does not run any more.
CREATE FUNCTION dataverse.copy_lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1685480816 $$;

COMMENT ON FUNCTION dataverse.copy_lock_class() IS
  'the first key of the advisory locks of copies; the second one is the number of the copy';

CREATE FUNCTION dataverse.copy_lock_key(copy bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ($1 OPERATOR(pg_catalog.%) 2147483647)::pg_catalog.int4 $$;

COMMENT ON FUNCTION dataverse.copy_lock_key(bigint) IS
  'the second key of the advisory lock of a copy';

CREATE FUNCTION dataverse.run_begin(copy bigint, status text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  begun bigint;
BEGIN
  PERFORM dataverse.copy_get(copy);
  IF status = 'running' THEN
    DELETE FROM dataverse.run_log AS r
    WHERE r.copy = run_begin.copy AND r.started_at < clock_timestamp() - interval '30 days';
    UPDATE dataverse.run_log AS r
    SET status = 'interrupted', ended_at = clock_timestamp(), error = 'the session that ran it has ended'
    WHERE r.copy = run_begin.copy AND r.status = 'running';
  END IF;
  INSERT INTO dataverse.run_log (copy, operation, role, status, ended_at)
  VALUES (run_begin.copy, 'pull', dataverse.caller(), run_begin.status,
          CASE WHEN run_begin.status <> 'running' THEN clock_timestamp() END)
  RETURNING id INTO begun;
  RETURN begun;
END
$$;

COMMENT ON FUNCTION dataverse.run_begin(bigint, text) IS
  'writes the row of a run; for dataverse.pull()';

CREATE FUNCTION dataverse.run_add(run bigint, phase text, counts jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n dataverse.run_log := jsonb_populate_record(NULL::dataverse.run_log, counts);
BEGIN
  PERFORM dataverse.copy_get(r.copy) FROM dataverse.run_log AS r WHERE r.id = run;
  UPDATE dataverse.run_log AS r
  SET phase = run_add.phase,
      rows_read = r.rows_read + coalesce(n.rows_read, 0), rows_compared = r.rows_compared + coalesce(n.rows_compared, 0),
      inserted = r.inserted + coalesce(n.inserted, 0), updated = r.updated + coalesce(n.updated, 0),
      unchanged = r.unchanged + coalesce(n.unchanged, 0), deleted = r.deleted + coalesce(n.deleted, 0),
      requests = r.requests + coalesce(n.requests, 0), throttles = r.throttles + coalesce(n.throttles, 0),
      time_waited = r.time_waited + coalesce(n.time_waited, '0')
  WHERE r.id = run AND r.status = 'running';
END
$$;

COMMENT ON FUNCTION dataverse.run_add(bigint, text, jsonb) IS
  'adds to the counts of a run; for dataverse.pull()';

CREATE FUNCTION dataverse.run_end(run bigint, status text, sqlstate text, error text)
RETURNS dataverse.run_log
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n dataverse.run_log;
BEGIN
  PERFORM dataverse.copy_get(r.copy) FROM dataverse.run_log AS r WHERE r.id = run;
  UPDATE dataverse.run_log AS r
  SET status = run_end.status, ended_at = clock_timestamp(), sqlstate = run_end.sqlstate, error = run_end.error
  WHERE r.id = run AND r.status = 'running'
  RETURNING r.* INTO n;
  UPDATE dataverse.copies AS c SET succeeded_at = n.ended_at
  WHERE c.id = n.copy AND n.status = 'succeeded';
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.run_end(bigint, text, text, text) IS
  'writes the end of a run; for dataverse.pull()';

-- Row security is not used, so that pg_dump can read the tables; see dataverse.rejects.
CREATE VIEW dataverse.runs WITH (security_barrier) AS
  SELECT r.id, c.foreign_table, c.target, r.operation, r.role, r.pid, r.started_at, r.ended_at,
         CASE WHEN r.status <> 'running' OR EXISTS (
                SELECT FROM pg_catalog.pg_locks AS l
                WHERE l.locktype = 'advisory' AND l.classid = dataverse.copy_lock_class()::oid AND l.objid = dataverse.copy_lock_key(r.copy)::oid
                  AND l.objsubid = 2 AND l.pid = r.pid AND l.granted
                  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()))
              THEN r.status ELSE 'interrupted' END AS status,
         r.phase, r.rows_read, r.rows_compared, r.inserted, r.updated, r.unchanged, r.deleted, r.requests, r.throttles,
         r.time_waited, r.sqlstate, r.error
  FROM dataverse.run_log AS r JOIN dataverse.copies AS c ON c.id = r.copy
  WHERE pg_catalog.pg_has_role(dataverse.copy_owner(c), 'MEMBER') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.runs IS
  'a row for each run of dataverse.pull(): what it did, and how it ended';

CREATE VIEW dataverse.sync_state WITH (security_barrier) AS
  SELECT c.foreign_table, c.target, c.phase,
         CASE WHEN c.tracked THEN 'change tracking' WHEN NOT c.tracked THEN 'versions' END AS method,
         c.token_at, c.compared_at, c.succeeded_at, pg_catalog.now() - c.succeeded_at AS age,
         l.status AS last_status, l.started_at AS last_started_at, l.error AS last_error
  FROM dataverse.copies AS c LEFT JOIN LATERAL (
    SELECT r.status, r.started_at, r.error FROM dataverse.runs AS r
    WHERE r.target = c.target ORDER BY r.id DESC LIMIT 1) AS l ON true
  WHERE pg_catalog.pg_has_role(dataverse.copy_owner(c), 'MEMBER') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.sync_state IS
  'a row for each copy: how far it is, when it was last in step, and how its last run ended';

-- Creates the table of a copy, with the types, the collations, and the comments of
-- the foreign table.
CREATE FUNCTION dataverse.pull_create(foreign_table regclass, target text, columns text[], id_column text, deletes text)
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

COMMENT ON FUNCTION dataverse.pull_create(regclass, text, text[], text, text) IS
  'creates the table of a copy; for dataverse.pull()';

-- The statements that merge, as the caller's search path may be anything when
-- they run: triggers expect theirs.  So every name and operator is qualified.
-- Rows are compared by their binary images, for which no operator of a type is
-- needed.
CREATE FUNCTION dataverse.pull_statements(foreign_table regclass, target regclass, columns text[], info jsonb, deletes text)
RETURNS jsonb
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  id CONSTANT text := quote_ident(info ->> 'id_column');
  rows CONSTANT text := format('dataverse.page_rows(NULL::%s) AS s', foreign_table);
  batch CONSTANT text := format(
    '(SELECT %s FROM ONLY %s AS f WHERE f.%s OPERATOR(pg_catalog.=) ANY ($1)) ',
    (SELECT string_agg('f.' || quote_ident(c), ', ') FROM unnest(columns) AS c), foreign_table, id);
  names text;
  inputs text;
  sets text;
  ours text;
  theirs text;
  new_only text;
  changed text;
BEGIN
  SELECT string_agg(quote_ident(c), ', ' ORDER BY i), string_agg('s.' || quote_ident(c), ', ' ORDER BY i),
         string_agg(format('%1$I = s.%1$I', c), ', ' ORDER BY i) FILTER (WHERE quote_ident(c) <> id),
         string_agg(format('t.%I', c), ', ' ORDER BY i) FILTER (WHERE quote_ident(c) <> id),
         string_agg(format('CAST(s.%I AS %s)', c, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY i)
           FILTER (WHERE quote_ident(c) <> id)
  INTO names, inputs, sets, ours, theirs
  FROM unnest(columns) WITH ORDINALITY AS u (c, i)
    JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = c AND NOT a.attisdropped;
  IF deletes = 'mark' THEN
    sets := concat_ws(', ', sets, 'deleted_at = NULL');
    ours := concat_ws(', ', ours, 't.deleted_at');
    theirs := concat_ws(', ', theirs, 'NULL::pg_catalog.timestamptz');
  END IF;
  -- OFFSET keeps it a lookup in the index for each row, so that the triggers of the
  -- table see only rows that are new
  new_only := format('NOT EXISTS (SELECT FROM %s AS x WHERE x.%2$s OPERATOR(pg_catalog.=) s.%2$s OFFSET 0)', target, id);
  changed := format('UPDATE %s AS t SET %s FROM %%s WHERE t.%3$s OPERATOR(pg_catalog.=) s.%3$s'
                    ' AND (ROW(%4$s))::record OPERATOR(pg_catalog.*<>) (ROW(%5$s))::record',
                    replace(target::text, '%', '%%'), replace(coalesce(sets, ''), '%', '%%'), replace(id, '%', '%%'),
                    replace(coalesce(ours, ''), '%', '%%'), replace(coalesce(theirs, ''), '%', '%%'));
  RETURN jsonb_build_object(
    'backfill', format('INSERT INTO %s AS t (%s) SELECT %s FROM %s ON CONFLICT (%s) DO NOTHING',
                       target, names, inputs, rows, id),
    'insert', format('INSERT INTO %s AS t (%s) SELECT %s FROM %s WHERE %s ON CONFLICT (%s) DO NOTHING',
                     target, names, inputs, rows, new_only, id),
    'update', CASE WHEN sets IS NOT NULL THEN format(changed, rows) END,
    'settle', format('WITH s AS MATERIALIZED %s, u AS (%s),'
                     ' i AS (INSERT INTO %s AS t (%s) SELECT %s FROM s WHERE %s ON CONFLICT (%s) DO NOTHING RETURNING 1)'
                     ' SELECT (SELECT pg_catalog.count(*) FROM s), (SELECT pg_catalog.count(*) FROM u),'
                     ' (SELECT pg_catalog.count(*) FROM i)',
                     batch, CASE WHEN sets IS NOT NULL THEN format(changed, 's') || ' RETURNING 1' ELSE 'SELECT WHERE false' END, target, names, inputs, new_only, id),
    'delete', CASE deletes
      WHEN 'delete' THEN format('DELETE FROM %s AS t USING dataverse.page_deletions() AS d'
                                ' WHERE t.%s OPERATOR(pg_catalog.=) d', target, id)
      WHEN 'mark' THEN format('UPDATE %s AS t SET deleted_at = pg_catalog.clock_timestamp() FROM dataverse.page_deletions() AS d'
                              ' WHERE t.%s OPERATOR(pg_catalog.=) d AND t.deleted_at IS NULL', target, id) END,
    'ghosts', CASE deletes
      WHEN 'delete' THEN format('DELETE FROM %s AS t', target)
      WHEN 'mark' THEN format('UPDATE %s AS t SET deleted_at = pg_catalog.clock_timestamp()', target) END
      || format(' WHERE %sNOT EXISTS (SELECT FROM dataverse.copy_ids_of($1) AS i WHERE i.id OPERATOR(pg_catalog.=) t.%s)',
                CASE deletes WHEN 'mark' THEN 't.deleted_at IS NULL AND ' ELSE '' END, id),
    'differing', format('SELECT pg_catalog.array_agg(i.id) FROM dataverse.copy_ids_of($1) AS i LEFT JOIN %s AS t'
                        ' ON t.%2$s OPERATOR(pg_catalog.=) i.id'
                        ' WHERE t.%2$s IS NULL OR (ROW(t.%3$s%4$s))::record OPERATOR(pg_catalog.*<>) (ROW(i.version%5$s))::record',
                        target, id, quote_ident(info ->> 'version_column'),
                        CASE deletes WHEN 'mark' THEN ', t.deleted_at' ELSE '' END,
                        CASE deletes WHEN 'mark' THEN ', NULL::pg_catalog.timestamptz' ELSE '' END),
    'ids', format('SELECT dataverse.copy_note_ids($1, pg_catalog.array_agg(s.%s), pg_catalog.array_agg(%s)) FROM %s HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0',
                  id, coalesce('s.' || quote_ident(info ->> 'version_column'), 'NULL::pg_catalog.int8'), rows));
END
$$;

COMMENT ON FUNCTION dataverse.pull_statements(regclass, regclass, text[], jsonb, text) IS
  'the statements that bring a copy up to date; for dataverse.pull()';

-- Prepares a run: creates the table, or looks at what it has; decides what to read.
CREATE FUNCTION dataverse.pull_prepare(
  copy bigint, foreign_table regclass, target text, columns text[], deletes text, drift text, "full" boolean, sweep interval)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info jsonb := (SELECT to_jsonb(i) FROM dataverse.pull_info(foreign_table) AS i);
  state dataverse.copies := dataverse.copy_get(copy);
  changes jsonb := '{}';
  wanted text[];
  new_columns text[];
  gone text[];
  copied text[];
  copied_types text[];
  missing text;
  alterations text;
  reread boolean := "full";
  retyped record;
BEGIN
  IF info ->> 'id_column' IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = format('foreign table %s has no column for the ids of its rows', foreign_table),
      hint = 'Import the table again, or add the column.';
  END IF;
  SELECT array_agg(a.attname::text ORDER BY a.attnum) INTO wanted FROM pg_attribute AS a
  WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped
    AND (columns IS NULL OR a.attname = ANY (columns) OR a.attname = info ->> 'id_column');
  SELECT c INTO missing FROM unnest(columns) AS c WHERE c <> ALL (wanted) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('column "%s" of foreign table %s does not exist', missing, foreign_table);
  END IF;
  IF to_regclass(target) IS NULL THEN
    PERFORM dataverse.pull_create(foreign_table, target, columns, info ->> 'id_column', deletes);
    state.known := wanted;
  END IF;

  -- what has become of the columns since the last run
  IF state.known = '{}' THEN
    state.known := wanted;
  END IF;
  new_columns := ARRAY(SELECT w FROM unnest(wanted) AS w WHERE w <> ALL (state.known));
  gone := ARRAY(SELECT k FROM unnest(state.known) AS k WHERE k <> ALL (wanted));
  IF drift = 'stop' AND (new_columns <> '{}' OR gone <> '{}') THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('the columns of foreign table %s are not those that were copied', foreign_table),
      detail = concat_ws(' ', 'New columns: ' || nullif(array_to_string(new_columns, ', '), '') || '.',
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

  -- columns whose types have changed: a local column of the type that it had, too
  FOR retyped IN
    SELECT o.name, o.type AS old_type, format_type(a.atttypid, a.atttypmod) AS new_type,
           format_type(b.atttypid, b.atttypmod) = o.type AS follows
    FROM unnest(state.columns, state.types) AS o (name, type)
      JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = o.name AND NOT a.attisdropped
      JOIN pg_attribute AS b ON b.attrelid = to_regclass(target) AND b.attname = o.name AND NOT b.attisdropped
    WHERE o.type <> format_type(a.atttypid, a.atttypmod)
  LOOP
    IF drift = 'stop' THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('column "%s" of foreign table %s has type %s now', retyped.name, foreign_table, retyped.new_type),
        detail = format('It was copied as %s.', retyped.old_type),
        hint = 'Call dataverse.pull() with drift => ''add'' or drift => ''ignore''.';
    END IF;
    reread := true;
    CONTINUE WHEN drift <> 'add' OR NOT retyped.follows;
    -- all rows are read again, so values that cannot be converted need not be
    BEGIN
      EXECUTE format('ALTER TABLE %1$s ALTER COLUMN %2$I TYPE %3$s USING CAST(%2$I AS %3$s)', target, retyped.name, retyped.new_type);
    EXCEPTION WHEN data_exception OR cannot_coerce THEN
      EXECUTE format('ALTER TABLE %1$s ALTER COLUMN %2$I TYPE %3$s USING NULL', target, retyped.name, retyped.new_type);
    END;
  END LOOP;

  -- columns of the same names; what the table computes itself is left to it
  SELECT array_agg(w ORDER BY i), array_agg(format_type(f.atttypid, f.atttypmod) ORDER BY i) INTO copied, copied_types
  FROM unnest(wanted) WITH ORDINALITY AS u (w, i)
    JOIN pg_attribute AS f ON f.attrelid = foreign_table AND f.attname = w
    JOIN pg_attribute AS a ON a.attrelid = to_regclass(target) AND a.attname = w AND NOT a.attisdropped
      AND a.attgenerated = '' AND a.attidentity <> 'a'
  WHERE drift <> 'ignore' OR w = ANY (state.known);
  IF copied IS NULL OR info ->> 'id_column' <> ALL (copied) THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('table %s has no column "%s"', target, info ->> 'id_column'),
      hint = format('Rows are found by it. Add it: ALTER TABLE %s ADD COLUMN %I uuid PRIMARY KEY;', target, info ->> 'id_column');
  END IF;
  IF NOT EXISTS (
    SELECT FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
    WHERE x.indrelid = to_regclass(target) AND x.indisunique AND x.indisvalid AND x.indimmediate
      AND x.indpred IS NULL AND x.indnkeyatts = 1 AND a.attname = info ->> 'id_column' AND a.atttypid = 'uuid'::regtype)
  THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s has no unique index on column "%s" of type uuid alone', target, info ->> 'id_column'),
      hint = format('Rows are found by it. Create it: CREATE UNIQUE INDEX ON %s (%I);', target, info ->> 'id_column');
  END IF;
  IF deletes = 'mark' AND NOT EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid = to_regclass(target) AND a.attname = 'deleted_at'
      AND NOT a.attisdropped AND a.atttypid = 'timestamptz'::regtype)
  THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('table %s has no column "deleted_at" of type timestamptz', target),
      hint = format('Deleted rows are marked in it. Add it: ALTER TABLE %s ADD COLUMN deleted_at timestamptz;', target);
  END IF;
  -- versions can be compared only if both sides have them
  IF info ->> 'version_column' <> ALL (copied) OR NOT EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid = to_regclass(target) AND a.attname = info ->> 'version_column'
      AND a.atttypid = 'int8'::regtype)
  THEN
    info := info || '{"version_column": null}';
  END IF;
  info := info || jsonb_build_object('can_follow', (SELECT i.version_column IS NOT NULL FROM dataverse.pull_info(foreign_table) AS i));

  -- a full read is also the time to look whether tracking has been turned on
  IF state.tracked IS NULL OR ("full" AND NOT state.tracked) THEN
    changes := changes || jsonb_build_object('tracked', coalesce((dataverse.request(
      (info ->> 'server')::name, 'GET',
      format('EntityDefinitions(LogicalName=''%s'')?$select=ChangeTrackingEnabled', info ->> 'logical_name'))
      ->> 'ChangeTrackingEnabled')::boolean, false));
  END IF;
  reread := reread OR EXISTS (SELECT FROM unnest(copied) AS u (w) WHERE w <> ALL (state.columns));
  -- an interrupted full read goes on, unless it has to read other columns
  IF state.phase <> 'backfill' AND reread AND NOT (state.phase = 'compare' AND state.whole AND state.columns = copied
                                                   AND state.types = copied_types) THEN
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    changes := changes || jsonb_build_object('phase', 'compare', 'whole', true, 'link', NULL, 'ids', 0,
                                             'again', state.again OR state.token IS NULL);
  ELSIF state.phase = 'backfill' AND state.columns <> copied THEN
    -- a page that other columns were requested with leads to pages with these
    changes := changes || '{"link": null}';
  ELSIF state.phase = 'current' AND state.compared_at + coalesce(
    sweep, CASE WHEN (info ->> 'elastic')::boolean OR NOT state.tracked THEN interval '1 day' END) <= clock_timestamp()
  THEN
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    changes := changes || jsonb_build_object(
      'phase', 'compare', 'whole', info ->> 'version_column' IS NULL, 'link', NULL, 'ids', 0);
  END IF;
  PERFORM dataverse.copy_set(copy, changes || jsonb_build_object(
    'columns', copied, 'types', copied_types, 'known', CASE drift WHEN 'ignore' THEN state.known ELSE wanted END));
  RETURN info || dataverse.pull_statements(foreign_table, to_regclass(target), copied, info, deletes)
    || jsonb_build_object('foreign_table', foreign_table::oid::bigint, 'columns', copied);
END
$$;

COMMENT ON FUNCTION dataverse.pull_prepare(bigint, regclass, text, text[], text, text, boolean, interval) IS
  'creates or checks the table of a copy, and decides what has to be read; for dataverse.pull()';

-- Runs statements as the caller would: with the caller's search path, and with
-- few rows looked up in the index rather than joined with all of them.
CREATE FUNCTION dataverse.pull_merge(plan jsonb, path text, phase text, upserts bigint, deletions bigint)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  inserted bigint := 0;
  updated bigint := 0;
  deleted bigint := 0;
BEGIN
  PERFORM set_config('search_path', path, true);
  IF upserts > 0 THEN
    EXECUTE plan ->> CASE phase WHEN 'backfill' THEN 'backfill' ELSE 'insert' END;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < upserts AND plan ->> 'update' IS NOT NULL THEN
      EXECUTE plan ->> 'update';
      GET DIAGNOSTICS updated = ROW_COUNT;
    END IF;
  END IF;
  IF deletions > 0 AND plan ->> 'delete' IS NOT NULL THEN
    EXECUTE plan ->> 'delete';
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  RETURN jsonb_build_object('inserted', inserted, 'updated', updated, 'deleted', deleted,
                            'unchanged', upserts - inserted - updated, 'rows_read', upserts + deletions);
END
$$;

COMMENT ON FUNCTION dataverse.pull_merge(jsonb, text, text, bigint, bigint) IS
  'merges the page that was read last; for dataverse.pull()';

-- What the ids and versions of all rows say: rows that are not there any more go,
-- and those that differ are noted.
CREATE FUNCTION dataverse.pull_compare(copy bigint, plan jsonb, path text, whole boolean)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  deleted bigint := 0;
  differing uuid[];
BEGIN
  PERFORM set_config('search_path', path, true);
  IF plan ->> 'ghosts' IS NOT NULL THEN
    EXECUTE plan ->> 'ghosts' USING copy;
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
  IF NOT whole THEN
    EXECUTE plan ->> 'differing' USING copy INTO differing;
  END IF;
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
  IF differing IS NOT NULL THEN
    PERFORM dataverse.copy_note_ids(copy, differing, ARRAY[]::bigint[]);
  END IF;
  RETURN jsonb_build_object('deleted', deleted);
END
$$;

COMMENT ON FUNCTION dataverse.pull_compare(bigint, jsonb, text, boolean) IS
  'compares a copy with the ids and versions of all rows; for dataverse.pull()';

CREATE FUNCTION dataverse.pull_settle(copy bigint, plan jsonb, path text)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  batch uuid[] := ARRAY(SELECT i.id FROM dataverse.copy_ids_of(copy, 1000) AS i);
  n bigint;
  inserted bigint;
  updated bigint;
BEGIN
  IF batch = '{}' THEN
    RETURN NULL;
  END IF;
  PERFORM set_config('search_path', path, true);
  EXECUTE plan ->> 'settle' USING batch INTO n, updated, inserted;
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  PERFORM dataverse.copy_drop_ids(copy, batch);
  RETURN jsonb_build_object('inserted', inserted, 'updated', updated, 'unchanged', n - inserted - updated, 'rows_read', n);
END
$$;

COMMENT ON FUNCTION dataverse.pull_settle(bigint, jsonb, text) IS
  'reads some of the rows that a comparison has found to differ; for dataverse.pull()';

-- One step of a run, which is then committed: a page, a comparison, or a batch of
-- rows that differ.  Returns false when the copy is in step.
--
-- The token of a first read may speak of its beginning or of its end; nothing
-- says which.  So what a first read may have missed is found by comparing ids and
-- versions after it, unless the number in the token is not greater than the
-- greatest version there was before: then the token speaks of the beginning.
CREATE FUNCTION dataverse.pull_step(run bigint, copy bigint, plan jsonb, path text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state dataverse.copies := dataverse.copy_get(copy);
  source CONSTANT regclass := (plan ->> 'foreign_table')::oid;
  -- a transaction of the service lasts two minutes at most
  overlap CONSTANT interval := '5 minutes';
  tracks boolean := state.tracked AND state.token IS NULL AND state.phase <> 'settle';
  after bigint;
  read_columns text[];
  page record;
  counts jsonb;
  top bigint;
  noted bigint;
  more boolean := true;
BEGIN
  IF state.phase = 'settle' THEN
    counts := dataverse.pull_settle(copy, plan, path);
    IF counts IS NOT NULL THEN
      PERFORM dataverse.run_add(run, 'settle', counts);
      RETURN true;
    END IF;
    IF state.again THEN
      PERFORM dataverse.copy_set(copy, jsonb_build_object(
        'phase', 'compare', 'again', false, 'whole', plan ->> 'version_column' IS NULL, 'ids', 0));
      RETURN true;
    END IF;
    PERFORM dataverse.copy_set(copy, jsonb_build_object('phase', 'current', 'compared_at', clock_timestamp()));
    -- without change tracking, the comparison was all there is to do
    RETURN state.tracked;
  END IF;

  -- of rows that are not tracked, those with a greater version than five minutes ago
  IF state.phase = 'current' AND NOT state.tracked THEN
    SELECT m INTO after FROM unnest(state.marks, state.marked_at) AS u (m, at)
    WHERE at <= clock_timestamp() - overlap ORDER BY at DESC LIMIT 1;
    IF after IS NULL OR NOT (plan ->> 'can_follow')::boolean THEN
      PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
      state := dataverse.copy_set(copy, jsonb_build_object(
        'phase', 'compare', 'whole', plan ->> 'version_column' IS NULL, 'link', NULL, 'ids', 0));
      after := NULL;
    END IF;
  END IF;
  IF state.link IS NULL AND (plan ->> 'can_follow')::boolean AND
     (NOT state.tracked OR (state.phase = 'backfill' AND NOT (plan ->> 'elastic')::boolean)) THEN
    EXECUTE format('SELECT f.%1$I FROM ONLY %2$s AS f ORDER BY f.%1$I DESC NULLS LAST LIMIT 1',
                   (SELECT i.version_column FROM dataverse.pull_info(source) AS i), source) INTO top;
    state := dataverse.copy_set(copy, jsonb_build_object(
      'marks', CASE WHEN state.phase = 'backfill' THEN '{}' ELSE ARRAY(
                 SELECT m FROM unnest(state.marks, state.marked_at) AS u (m, at) WHERE after IS NULL OR m >= after ORDER BY at)
               END || coalesce(top, 0),
      'marked_at', CASE WHEN state.phase = 'backfill' THEN '{}' ELSE ARRAY(
                 SELECT at FROM unnest(state.marks, state.marked_at) AS u (m, at) WHERE after IS NULL OR m >= after ORDER BY at)
               END || clock_timestamp()));
  END IF;

  IF state.phase = 'compare' AND NOT state.whole THEN
    read_columns := ARRAY[plan ->> 'id_column', plan ->> 'version_column'];
  ELSE
    read_columns := ARRAY(SELECT jsonb_array_elements_text(plan -> 'columns'));
  END IF;
  BEGIN
    SELECT * INTO STRICT page FROM dataverse.read_page(
      source, read_columns, state.link, CASE WHEN state.phase = 'current' THEN state.token END, after, tracks);
  EXCEPTION
    -- the token has expired: what differs is read
    WHEN SQLSTATE 'DV001' THEN
      PERFORM dataverse.end_pages();
      PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
      PERFORM dataverse.copy_set(copy, jsonb_build_object(
        'phase', 'compare', 'whole', plan ->> 'version_column' IS NULL, 'again', true, 'link', NULL, 'token', NULL,
        'token_at', NULL, 'ids', 0));
      RETURN true;
    -- the table is not tracked any more
    WHEN SQLSTATE 'DV002' THEN
      PERFORM dataverse.end_pages();
      PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
      PERFORM dataverse.copy_set(copy, jsonb_build_object(
        'tracked', false, 'phase', CASE state.phase WHEN 'backfill' THEN 'backfill' ELSE 'compare' END,
        'whole', plan ->> 'version_column' IS NULL, 'again', false, 'link', NULL, 'token', NULL, 'token_at', NULL, 'ids', 0,
        'marks', '{}'::bigint[], 'marked_at', '{}'::timestamptz[]));
      RETURN true;
  END;

  IF state.phase = 'compare' THEN
    EXECUTE plan ->> 'ids' USING copy INTO noted;
    counts := jsonb_build_object('rows_compared', page.upserts);
  END IF;
  IF state.phase <> 'compare' OR state.whole THEN
    counts := coalesce(counts, '{}') || dataverse.pull_merge(plan, path, state.phase, page.upserts, page.deletions);
  END IF;
  PERFORM dataverse.run_add(run, state.phase, counts || jsonb_build_object(
    'requests', page.requests, 'throttles', page.throttles, 'time_waited', make_interval(secs => page.waited / 1e6)));
  IF page.link IS NOT NULL THEN
    PERFORM dataverse.copy_set(copy, jsonb_build_object(
      'link', page.link, 'ids', state.ids + coalesce(noted, 0)));
    RETURN true;
  END IF;

  IF (tracks OR (state.phase = 'current' AND state.tracked)) AND page.token IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_unable_to_create_reply',
      message = format('Dataverse returned no token of change tracking for foreign table %s', source);
  END IF;
  counts := jsonb_build_object('link', NULL);
  IF page.token IS NOT NULL THEN
    counts := counts || jsonb_build_object('token', page.token, 'token_at', clock_timestamp());
  END IF;
  CASE state.phase
    WHEN 'backfill' THEN
      IF substring(page.token FROM '^(\d+)(?:!|%21)')::numeric <= state.marks[1] THEN
        counts := counts || jsonb_build_object('phase', 'current', 'compared_at', clock_timestamp());
      ELSE
        counts := counts || jsonb_build_object(
          'phase', 'compare', 'whole', plan ->> 'version_column' IS NULL, 'again', false, 'ids', 0);
      END IF;
    WHEN 'compare' THEN
      IF (SELECT count(*) FROM dataverse.copy_ids_of(copy)) < state.ids THEN
        -- a table of ids that was not restored: nothing may be deleted because of it
        PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
        counts := counts || '{"phase": "compare", "ids": 0}';
      ELSE
        PERFORM dataverse.run_add(run, 'compare', dataverse.pull_compare(copy, plan, path, state.whole));
        counts := counts || '{"phase": "settle", "ids": 0}';
      END IF;
    ELSE
      more := false;
  END CASE;
  PERFORM dataverse.copy_set(copy, counts);
  RETURN more;
END
$$;

COMMENT ON FUNCTION dataverse.pull_step(bigint, bigint, jsonb, text) IS
  'takes one step of a run, which dataverse.pull() then commits';

CREATE FUNCTION dataverse.pull_check(deletes text, drift text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF deletes IS NULL OR deletes NOT IN ('delete', 'mark', 'ignore') THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for "deletes": %L', deletes),
      hint = 'Valid values are "delete", "mark", and "ignore".';
  END IF;
  IF drift IS NULL OR drift NOT IN ('add', 'ignore', 'stop') THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for "drift": %L', drift),
      hint = 'Valid values are "add", "ignore", and "stop".';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pull_check(text, text) IS
  'refuses arguments of dataverse.pull() that are not valid';

CREATE FUNCTION dataverse.pull_summary(r dataverse.run_log, target text)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('pulled %s: %s rows read, %s inserted, %s updated, %s unchanged, %s deleted, %s compared; %s requests, %s throttles, %s',
                target, r.rows_read, r.inserted, r.updated, r.unchanged, r.deleted, r.rows_compared, r.requests, r.throttles,
                date_trunc('milliseconds', r.ended_at - r.started_at))
$$;

COMMENT ON FUNCTION dataverse.pull_summary(dataverse.run_log, text) IS
  'one line about a run; for dataverse.pull()';

-- The name of the table, qualified, as the caller's search path has it.
CREATE FUNCTION dataverse.pull_target(target text, existing regclass, schema name)
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
      errcode = 'invalid_name', message = format('invalid name of a table: %L', target);
  END IF;
  RETURN format('%I.%I', parts[1], parts[2]);
END
$$;

COMMENT ON FUNCTION dataverse.pull_target(text, regclass, name) IS
  'the qualified name of the table of a copy; for dataverse.pull()';

CREATE FUNCTION dataverse.forget_copy(target text)
RETURNS boolean
LANGUAGE sql VOLATILE STRICT
AS $$ SELECT dataverse.copy_forget(dataverse.pull_target($1, pg_catalog.to_regclass($1), pg_catalog.current_schema())) $$;

COMMENT ON FUNCTION dataverse.forget_copy(text) IS
  'forgets that a table is a copy, how far it is, and its runs; the table stays as it is';

CREATE FUNCTION dataverse.pull_problem(
  target text, phase text, "sqlstate" text, message text, detail text, hint text)
RETURNS jsonb
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT jsonb_build_object(
    'sqlstate', $3, 'message', format('could not pull %s: %s', $1, $4),
    'detail', concat_ws(' ', nullif($5, ''), coalesce('The run was in phase "' || $2 || '".', 'The run has not begun.')),
    'hint', nullif(concat_ws(' ', nullif($6, ''), CASE WHEN $2 IS NOT NULL THEN 'The next call goes on where this one stopped.' END), ''))
$$;

COMMENT ON FUNCTION dataverse.pull_problem(text, text, text, text, text, text) IS
  'an error as dataverse.run_pull() returns it';

-- Runs, and returns the error instead of raising it, so that its end is committed
-- first.  A procedure that commits cannot set the search path, so all names are
-- qualified.
CREATE PROCEDURE dataverse.run_pull(
  foreign_table regclass, target text, columns text[], deletes text, drift text, "full" boolean, sweep interval,
  wait boolean, INOUT problem jsonb)
LANGUAGE plpgsql
AS $$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
  name text;
  copy bigint;
  run bigint;
  ended dataverse.run_log;
  plan jsonb;
  more boolean := true;
  failed boolean := false;
  state text;
  message text;
  detail text;
  hint text;
  phase text := 'prepare';
BEGIN
  problem := NULL;
  BEGIN
    name := dataverse.pull_target(target, pg_catalog.to_regclass(target), pg_catalog.current_schema());
    copy := dataverse.copy_open(foreign_table, name);
  EXCEPTION
    -- there is no copy that the run could belong to
    WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
      problem := dataverse.pull_problem(target, NULL, state, message, detail, hint);
      RETURN;
  END;
  COMMIT;
  IF wait THEN
    PERFORM pg_catalog.pg_advisory_lock(dataverse.copy_lock_class(), dataverse.copy_lock_key(copy));
  ELSIF NOT pg_catalog.pg_try_advisory_lock(dataverse.copy_lock_class(), dataverse.copy_lock_key(copy)) THEN
    PERFORM dataverse.run_begin(copy, 'skipped');
    RAISE NOTICE 'did not pull %, because another session does', name;
    RETURN;
  END IF;
  run := dataverse.run_begin(copy, 'running');
  COMMIT;
  LOOP
    BEGIN
      IF plan IS NULL THEN
        plan := dataverse.pull_prepare(copy, foreign_table, name, columns, deletes, drift, "full", sweep);
      ELSE
        phase := (dataverse.copy_get(copy)).phase;
        more := dataverse.pull_step(run, copy, plan, path);
      END IF;
    EXCEPTION
      WHEN query_canceled OR assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
          hint = PG_EXCEPTION_HINT;
        failed := true;
    END;
    COMMIT;
    EXIT WHEN failed OR NOT more;
  END LOOP;
  PERFORM dataverse.end_pages();
  ended := dataverse.run_end(run, CASE WHEN failed THEN 'failed' ELSE 'succeeded' END, state, message);
  COMMIT;
  PERFORM pg_catalog.pg_advisory_unlock(dataverse.copy_lock_class(), dataverse.copy_lock_key(copy));
  IF failed THEN
    problem := dataverse.pull_problem(name, phase, state, message, detail, hint);
  ELSE
    RAISE NOTICE '%', dataverse.pull_summary(ended, name);
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.run_pull(regclass, text, text[], text, text, boolean, interval, boolean, jsonb) IS
  'does what dataverse.pull() and dataverse.pull_all() have to do for one table';

CREATE PROCEDURE dataverse.pull(
  foreign_table regclass,
  target text,
  columns text[] DEFAULT NULL,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true)
LANGUAGE plpgsql
AS $$
DECLARE
  problem jsonb;
BEGIN
  PERFORM dataverse.pull_check(deletes, drift);
  CALL dataverse.run_pull(foreign_table, target, columns, deletes, drift, "full", sweep, wait, problem);
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = problem OPERATOR(pg_catalog.->>) 'sqlstate', message = problem OPERATOR(pg_catalog.->>) 'message',
      detail = problem OPERATOR(pg_catalog.->>) 'detail',
      hint = coalesce(problem OPERATOR(pg_catalog.->>) 'hint', 'The view dataverse.runs shows what was done before.');
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.pull(regclass, text, text[], text, text, boolean, interval, boolean) IS
  'makes a local copy of a foreign table, and keeps it in step';

CREATE FUNCTION dataverse.tables_of(schema name)
RETURNS oid[]
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT array_agg(t.ftrelid ORDER BY c.relname)
  FROM pg_foreign_table AS t JOIN pg_class AS c ON c.oid = t.ftrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_foreign_server AS s ON s.oid = t.ftserver JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
  WHERE n.nspname = $1 AND w.fdwhandler = 'dataverse.dataverse_fdw_handler()'::regprocedure
$$;

COMMENT ON FUNCTION dataverse.tables_of(name) IS
  'the foreign tables of a schema that are tables of Dataverse; for dataverse.pull_all()';

CREATE FUNCTION dataverse.name_in(schema name, foreign_table oid)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%I.%I', $1, c.relname) FROM pg_class AS c WHERE c.oid = $2 $$;

COMMENT ON FUNCTION dataverse.name_in(name, oid) IS
  'the name of a table in another schema; for dataverse.pull_all()';

CREATE PROCEDURE dataverse.pull_all(
  schema name,
  target_schema name,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true)
LANGUAGE plpgsql
AS $$
DECLARE
  tables CONSTANT oid[] := dataverse.tables_of(schema);
  source oid;
  target text;
  problem jsonb;
  failures integer := 0;
BEGIN
  PERFORM dataverse.pull_check(deletes, drift);
  IF tables IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_table',
      message = pg_catalog.format('schema "%s" has no foreign tables of dataverse_fdw', schema),
      hint = 'Create them with IMPORT FOREIGN SCHEMA.';
  END IF;
  FOREACH source IN ARRAY tables LOOP
    target := dataverse.name_in(target_schema, source);
    -- a table that has been dropped meanwhile
    CONTINUE WHEN target IS NULL;
    CALL dataverse.run_pull(source::pg_catalog.regclass, target, NULL::pg_catalog.text[], deletes, drift, "full", sweep, wait, problem);
    IF problem IS NOT NULL THEN
      failures := failures OPERATOR(pg_catalog.+) 1;
      RAISE WARNING USING
        errcode = problem OPERATOR(pg_catalog.->>) 'sqlstate', message = problem OPERATOR(pg_catalog.->>) 'message',
        detail = problem OPERATOR(pg_catalog.->>) 'detail',
        hint = coalesce(problem OPERATOR(pg_catalog.->>) 'hint', 'The view dataverse.runs shows what was done before.');
    END IF;
  END LOOP;
  IF failures OPERATOR(pg_catalog.>) 0 THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_error',
      message = pg_catalog.format('%s of %s tables could not be pulled', failures, pg_catalog.cardinality(tables)),
      hint = 'The warnings and the view dataverse.runs say why. The other tables are in step.';
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.pull_all(name, name, text, text, boolean, interval, boolean) IS
  'makes local copies of all foreign tables of a schema, and keeps them in step';

-- Everyone may use the objects of this schema, unless they have restrictions of
-- their own.
GRANT USAGE ON SCHEMA dataverse TO PUBLIC;

-- The views show each caller only what this caller may see.
GRANT SELECT ON dataverse.pool, dataverse.pool_summary, dataverse.throttle_history, dataverse.progress, dataverse.doubts
  TO PUBLIC;

GRANT SELECT, DELETE ON dataverse.rejects TO PUBLIC;
GRANT SELECT ON dataverse.visible_rejects TO PUBLIC;
GRANT SELECT, UPDATE (attempts) ON dataverse.own_rejects TO PUBLIC;

GRANT SELECT ON dataverse.runs, dataverse.sync_state TO PUBLIC;

-- For pg_dump.
GRANT SELECT ON dataverse.rejected_rows, dataverse.rejected_rows_id_seq, dataverse.copies, dataverse.copies_id_seq,
  dataverse.copy_ids, dataverse.run_log, dataverse.run_log_id_seq TO pg_database_owner;

-- Nobody needs to call the handler or the validator directly; only DDL does.
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_handler() FROM PUBLIC;
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) FROM PUBLIC;
