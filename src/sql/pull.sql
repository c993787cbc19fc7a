CREATE FUNCTION dataverse_private.pull_check(
  columns text[], deletes text, drift text, "full" boolean, sweep interval, wait boolean, on_error text)
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
  PERFORM dataverse_private.check_choice('argument "deletes"', deletes, 'delete', 'mark', 'ignore');
  PERFORM dataverse_private.check_choice('argument "drift"', drift, 'add', 'ignore', 'stop');
  PERFORM dataverse_private.check_choice('argument "on_error"', on_error, 'abort', 'continue');
  IF sweep < interval '0' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for argument "sweep": "%s"', sweep),
      hint = 'It is the time between two comparisons of all ids, such as ''1 day''.  With ''0'', each run compares them.';
  END IF;
  PERFORM dataverse_private.check_boolean('full', "full");
  PERFORM dataverse_private.check_boolean('wait', wait);
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check(text[], text, text, boolean, interval, boolean, text) IS
  'raises an error for invalid arguments of dataverse.pull()';

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

CREATE FUNCTION dataverse_private.pull_must_commit(procedure text)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_must_commit';

COMMENT ON FUNCTION dataverse_private.pull_must_commit(text) IS
  'raises an error in a transaction block, where procedures cannot commit; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_summary(r dataverse_private.run_log, target text)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('pulled %s: %s read, %s inserted, %s updated, %s unchanged, %s deleted, %s compared%s; %s, %s, %s',
                target, dataverse_private.run_count(r.rows_read, 'row'), r.inserted, r.updated, r.unchanged, r.deleted, r.rows_compared,
                CASE WHEN r.rejected > 0 THEN format(', %s refused', r.rejected) ELSE '' END,
                dataverse_private.run_count(r.requests, 'request'), dataverse_private.run_count(r.throttles, 'throttle'),
                date_trunc('milliseconds', r.ended_at - r.started_at))
$$;

COMMENT ON FUNCTION dataverse_private.pull_summary(dataverse_private.run_log, text) IS
  'one line about a run; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_has_changed(r dataverse_private.run_log)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT r.inserted + r.updated + r.deleted + r.rejected > 0 $$;

COMMENT ON FUNCTION dataverse_private.pull_has_changed(dataverse_private.run_log) IS
  'whether a run has changed the local table or has refused rows; for dataverse.pull_all()';

-- A schedule may run each minute, so a call reports one line, plus one for each
-- table in which something has changed (run_pull).
CREATE FUNCTION dataverse_private.pull_all_summary(schema name, tables bigint, since timestamptz)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('pulled %s of schema %I: %s with changes', dataverse_private.run_count($2, 'table'), $1, count(DISTINCT r.target))
  FROM dataverse.runs AS r
  WHERE r.pid = pg_backend_pid() AND r.started_at >= $3 AND r.operation = 'pull' AND r.inserted + r.updated + r.deleted + r.rejected > 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_all_summary(name, bigint, timestamptz) IS
  'one line about all runs of a call; for dataverse.pull_all()';

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

CREATE FUNCTION dataverse_private.pull_problem(
  target text, phase text, "sqlstate" text, message text, detail text, hint text)
RETURNS jsonb
LANGUAGE sql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT jsonb_build_object(
    'sqlstate', $3, 'message', format('could not pull %s: %s', $1, $4),
    'detail', concat_ws('  ', nullif($5, ''), coalesce('The run was in phase "' || $2 || '".', 'The run has not begun.')),
    'hint', concat_ws('  ', nullif(btrim($6), ''), CASE WHEN $2 <> 'prepare' THEN 'The next call continues where this one stopped.'
                                                -- PostgreSQL looks up the table first
                                                WHEN coalesce(btrim($6), '') = '' AND $2 IS NULL AND $3 = '42501' THEN
                                                  format('Grant the privileges that are needed: GRANT USAGE, CREATE ON SCHEMA %I TO %I;',
                                                         (parse_ident($1))[1], current_user)
                                                WHEN coalesce(btrim($6), '') = '' THEN 'Nothing was changed.  Remove the cause, and call the procedure again.' END))
$$;

COMMENT ON FUNCTION dataverse_private.pull_problem(text, text, text, text, text, text) IS
  'an error as dataverse_private.run_pull() returns it';

-- Runs, and returns the error instead of raising it, so that the end of the run
-- is committed first.  A procedure that commits cannot set the search path, so
-- all names are qualified.
CREATE PROCEDURE dataverse_private.run_pull(
  foreign_table regclass, target text, columns text[], deletes text, drift text, "full" boolean, sweep interval,
  wait boolean, on_error text, named boolean, INOUT problem jsonb)
LANGUAGE plpgsql
AS $$
DECLARE
  path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
  name pg_catalog.text;
  copy bigint;
  run bigint;
  ended dataverse_private.run_log;
  plan pg_catalog.jsonb;
  more boolean := true;
  retry pg_catalog.jsonb;
  retrying boolean := false;
  resumes boolean;
  failed boolean := false;
  state pg_catalog.text;
  message pg_catalog.text;
  detail pg_catalog.text;
  hint pg_catalog.text;
  exceeded pg_catalog.text;
  phase pg_catalog.text := 'prepare';
BEGIN
  problem := NULL;
  -- concurrent updates by runs of other copies must not make this one fail
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    name := dataverse_private.pull_target(target, pg_catalog.to_regclass(target), pg_catalog.current_schema());
    PERFORM dataverse_private.pull_source(foreign_table);
    IF NOT named THEN
      PERFORM dataverse_private.pull_stranger(pg_catalog.to_regclass(name));
    END IF;
    copy := dataverse_private.copy_open(foreign_table, name);
  EXCEPTION
    -- there is no copy to which the run could belong
    WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
      problem := dataverse_private.pull_problem(target, NULL, state, message, detail, hint);
      RETURN;
  END;
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SELECT s.run, s.state, s.message, s.detail, s.hint INTO run, state, message, detail, hint
  FROM dataverse_private.run_start(copy, 'pull', name, wait) AS s;
  IF run IS NULL THEN
    IF state IS NOT NULL THEN
      problem := dataverse_private.pull_problem(name, NULL, state, message, detail, hint);
    END IF;
    RETURN;
  END IF;
  COMMIT;
  -- after locking rows, see what has been committed meanwhile; even EXIT takes a snapshot
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  LOOP
    BEGIN
      IF plan IS NULL THEN
        resumes := dataverse_private.copy_resumes(copy);
        plan := dataverse_private.pull_prepare(copy, foreign_table, name, columns, deletes, drift, "full", sweep, on_error, named);
        phase := (dataverse_private.copy_get(copy)).phase;
        PERFORM dataverse_private.run_add(run, phase, '{}');
      ELSIF more AND NOT retrying THEN
        phase := (dataverse_private.copy_get(copy)).phase;
        more := dataverse_private.pull_step(run, copy, plan, path);
        IF resumes AND NOT more THEN
          resumes := false;
          more := true;
        END IF;
        -- the next step may have to wait
        IF more AND (dataverse_private.copy_get(copy)).phase OPERATOR(pg_catalog.<>) phase THEN
          PERFORM dataverse_private.run_add(run, (dataverse_private.copy_get(copy)).phase, '{}');
        END IF;
        retrying := NOT more OR dataverse_private.pull_is_hopeless(copy, plan);
      ELSE
        -- refused rows may be accepted now, and may be needed for it
        phase := 'retry';
        retry := dataverse_private.pull_retry(run, copy, plan, path, retry);
        retrying := retry IS NOT NULL;
        IF NOT retrying AND (NOT more OR dataverse_private.pull_is_hopeless(copy, plan)) THEN
          SELECT f.sqlstate, f.message, f.detail, f.hint INTO state, message, detail, hint
          FROM dataverse_private.pull_finish(run, copy, plan) AS f;
          failed := state IS NOT NULL;
          more := false;
          -- the last action of a run is committed together with its end
          IF NOT failed THEN
            PERFORM dataverse_private.end_pages();
            ended := dataverse_private.run_end(run, 'succeeded', NULL, NULL);
          END IF;
        END IF;
      END IF;
    EXCEPTION
      WHEN query_canceled OR assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
          hint = PG_EXCEPTION_HINT, exceeded = CONSTRAINT_NAME;
        failed := dataverse_private.run_waits(exceeded) IS NOT TRUE;
    END;
    IF state IS NOT NULL AND NOT failed THEN
      PERFORM dataverse_private.run_add(run, phase, '{}');
      state := NULL;
      message := NULL;
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXIT WHEN failed OR NOT more AND NOT retrying;
  END LOOP;
  IF failed THEN
    -- an error at this point, such as a cancel, also ends the run
    BEGIN
      PERFORM dataverse_private.end_pages();
      -- it is not known on which side a privilege is missing
      SELECT pg_catalog.concat_ws('  ', c.cure, CASE WHEN c.cure IS NULL OR state OPERATOR(pg_catalog.=) '42501' THEN hint END) INTO hint
      FROM dataverse_private.pull_cure(foreign_table, name, state, '{SELECT}') AS c(cure);
      ended := dataverse_private.run_end(run, 'failed', state, message);
    EXCEPTION
      WHEN query_canceled OR assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
          hint = PG_EXCEPTION_HINT;
        ended := dataverse_private.run_end(run, 'failed', state, message);
    END;
    COMMIT;
  END IF;
  PERFORM dataverse_private.run_unlock();
  IF failed THEN
    problem := dataverse_private.pull_problem(name, phase, state, message, detail, hint);
  -- tables that the caller has not named are reported only if something has changed in them
  ELSIF named OR dataverse_private.pull_has_changed(ended) THEN
    RAISE NOTICE '%', dataverse_private.pull_summary(ended, name);
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse_private.run_pull(regclass, text, text[], text, text, boolean, interval, boolean, text, boolean, jsonb) IS
  'carries out dataverse.pull() and dataverse.pull_all() for one table';

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
LANGUAGE plpgsql
AS $$
DECLARE
  problem pg_catalog.jsonb;
BEGIN
  PERFORM dataverse_private.pull_must_commit('dataverse.pull()');
  PERFORM dataverse_private.pull_check_tables(foreign_table, target);
  PERFORM dataverse_private.pull_check(columns, deletes, drift, "full", sweep, wait, on_error);
  CALL dataverse_private.run_pull(foreign_table, target, columns, deletes, drift, "full", sweep, wait, on_error, true, problem);
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = problem OPERATOR(pg_catalog.->>) 'sqlstate', message = problem OPERATOR(pg_catalog.->>) 'message',
      detail = problem OPERATOR(pg_catalog.->>) 'detail',
      hint = problem OPERATOR(pg_catalog.->>) 'hint';
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.pull(regclass, text, text[], text, text, boolean, interval, boolean, text) IS
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

CREATE FUNCTION dataverse_private.name_in(schema name, foreign_table oid)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%I.%I', $1, c.relname) FROM pg_class AS c WHERE c.oid = $2 $$;

COMMENT ON FUNCTION dataverse_private.name_in(name, oid) IS
  'the name of a table in another schema; for dataverse.pull_all()';

-- Returns the copies that refuse rows because others are missing, and the number of these rows.
CREATE FUNCTION dataverse_private.pull_waiting(target_schema name, foreign_tables oid[], OUT tables oid[], OUT "rows" bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  SELECT array_agg(DISTINCT c.foreign_oid), count(*) INTO tables, rows
  FROM dataverse_private.copies AS c JOIN dataverse_private.copy_refused AS r ON r.copy = c.id AND r.dangling
  WHERE c.refused > 0 AND c.foreign_oid = ANY (foreign_tables) AND c.target = dataverse_private.name_in(target_schema, c.foreign_oid)
    AND pg_has_role(dataverse_private.caller(), dataverse_private.copy_owner(c), 'USAGE');
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_waiting(name, oid[]) IS
  'copies with rows that wait for rows of other copies; for dataverse.pull_all()';

CREATE PROCEDURE dataverse.pull_all(
  schema name,
  target_schema name,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE plpgsql
AS $$
DECLARE
  begun CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  tables CONSTANT pg_catalog.oid[] := dataverse_private.tables_of(schema);
  due pg_catalog.oid[] := tables;
  source pg_catalog.oid;
  target pg_catalog.text;
  problem pg_catalog.jsonb;
  problems pg_catalog.jsonb := '{}';
  waiting bigint;
  before bigint;
  cancelled boolean := false;
  failures integer := 0;
  causes pg_catalog.text;
BEGIN
  PERFORM dataverse_private.pull_must_commit('dataverse.pull_all()');
  PERFORM dataverse_private.pull_check(NULL, deletes, drift, "full", sweep, wait, on_error);
  IF coalesce(schema, '') OPERATOR(pg_catalog.=) '' OR coalesce(target_schema, '') OPERATOR(pg_catalog.=) '' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = pg_catalog.format('argument "%s" is null or empty',
                                  CASE WHEN coalesce(schema, '') OPERATOR(pg_catalog.=) '' THEN 'schema' ELSE 'target_schema' END),
      hint = 'Name the schema of the foreign tables and that of their copies, as in CALL dataverse.pull_all(''dv'', ''crm'').';
  END IF;
  IF tables IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_table',
      message = pg_catalog.format('schema "%s" has no foreign tables of dataverse_fdw', schema),
      hint = 'Create them with IMPORT FOREIGN SCHEMA.';
  END IF;
  IF pg_catalog.to_regnamespace(pg_catalog.quote_ident(target_schema)) IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_schema_name', message = pg_catalog.format('schema "%s" does not exist', target_schema),
      hint = pg_catalog.format('Create it: CREATE SCHEMA %I;', target_schema);
  END IF;
  LOOP
    FOREACH source IN ARRAY due LOOP
      target := dataverse_private.name_in(target_schema, source);
      -- a table that has been dropped meanwhile
      CONTINUE WHEN target IS NULL;
      CALL dataverse_private.run_pull(source::pg_catalog.regclass, target, NULL::pg_catalog.text[], deletes, drift, "full", sweep, wait, on_error,
                              false, problem);
      problems := problems OPERATOR(pg_catalog.-) source::pg_catalog.text;
      IF problem IS NOT NULL THEN
        problems := problems OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object(source::pg_catalog.text, problem);
        cancelled := problem OPERATOR(pg_catalog.->>) 'sqlstate' OPERATOR(pg_catalog.=) '57014';
        EXIT WHEN cancelled;
      END IF;
    END LOOP;
    EXIT WHEN cancelled;
    -- rows may have waited for rows of other tables
    SELECT w.tables, w.rows INTO due, waiting FROM dataverse_private.pull_waiting(target_schema, due) AS w;
    EXIT WHEN waiting OPERATOR(pg_catalog.=) 0 OR waiting OPERATOR(pg_catalog.>=) before;
    before := waiting;
  END LOOP;
  FOREACH source IN ARRAY tables LOOP
    problem := problems OPERATOR(pg_catalog.->) source::pg_catalog.text;
    CONTINUE WHEN problem IS NULL;
    failures := failures OPERATOR(pg_catalog.+) 1;
    IF failures OPERATOR(pg_catalog.<=) 5 THEN
      causes := pg_catalog.concat_ws(E'\n', causes, problem OPERATOR(pg_catalog.->>) 'message');
    END IF;
    RAISE WARNING USING
      errcode = problem OPERATOR(pg_catalog.->>) 'sqlstate', message = problem OPERATOR(pg_catalog.->>) 'message',
      detail = problem OPERATOR(pg_catalog.->>) 'detail',
      hint = problem OPERATOR(pg_catalog.->>) 'hint';
  END LOOP;
  IF cancelled THEN
    RAISE EXCEPTION USING errcode = 'query_canceled', message = 'dataverse.pull_all() was canceled';
  END IF;
  RAISE NOTICE '%', dataverse_private.pull_all_summary(schema, pg_catalog.cardinality(tables) OPERATOR(pg_catalog.-) failures, begun);
  IF failures OPERATOR(pg_catalog.>) 0 THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_error',
      message = pg_catalog.format('%s of %s tables could not be pulled', failures, pg_catalog.cardinality(tables)),
      detail = causes,
      hint = 'The warnings and the view dataverse.runs contain the reasons.'
        OPERATOR(pg_catalog.||) CASE WHEN failures OPERATOR(pg_catalog.<) pg_catalog.cardinality(tables) THEN '  The other tables are in step.' ELSE '' END;
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.pull_all(name, name, text, text, boolean, interval, boolean, text) IS
  'makes local copies of all foreign tables of a schema, and keeps them in step';
