-- With dataverse_fdw.dry_run, rows are only encoded, and nothing is kept.
CREATE FUNCTION dataverse.push_rehearse(
  foreign_table regclass, query text, operation text, key text[], schemas name[], path text, on_error text, max_errors integer)
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  staged CONSTANT jsonb := dataverse.push_stage(format('dataverse_push_dry_%s', substr(gen_random_uuid()::text, 1, 8)), foreign_table, query,
                                                operation, key, schemas, path);
  staging CONSTANT regclass := to_regclass(staged ->> 'staging');
  plan CONSTANT jsonb := dataverse.push_statements(foreign_table, staging, operation, key, NULL, clock_timestamp());
  n bigint;
BEGIN
  n := (dataverse.push_run(plan, plan ->> 'send', false, path, 0, (staged ->> 'rows')::bigint, NULL,
                           dataverse.push_settings(plan, on_error, max_errors))).n;
  EXECUTE format('DROP TABLE %s', staging);
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.push_rehearse(regclass, text, text, text[], name[], text, text, integer) IS
  'performs a dry run of dataverse.push()';

CREATE FUNCTION dataverse.push_summary(r dataverse.run_log)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('pushed to %s: %s sent%s%s%s; %s, %s, %s', r.foreign_table, dataverse.run_count(r.sent, 'row'),
                CASE WHEN r.unchanged > 0 THEN format(', %s already done', r.unchanged) END,
                CASE WHEN r.missing > 0 THEN format(', %s not found', r.missing) END,
                CASE WHEN r.rejected > 0 THEN format(', %s refused', r.rejected) END,
                dataverse.run_count(r.requests, 'request'), dataverse.run_count(r.throttles, 'throttle'), date_trunc('milliseconds', r.ended_at - r.started_at))
$$;

COMMENT ON FUNCTION dataverse.push_summary(dataverse.run_log) IS
  'one line about a run; for dataverse.push()';

-- Returns the message of dataverse.push() after a failure.
CREATE FUNCTION dataverse.push_problem(push bigint, foreign_table regclass, phase text, message text, detail text, hint text)
RETURNS jsonb
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state CONSTANT dataverse.push_states := dataverse.push_get(push);
BEGIN
  RETURN jsonb_build_object(
    'message', format('could not push to foreign table %s: %s', coalesce(state.foreign_table, foreign_table::text), message),
    'detail', concat_ws(E'\n', nullif(detail, ''), CASE
      WHEN state.staging IS NULL THEN format('The run was in phase "%s".  Nothing has been sent.', phase)
      ELSE format('The run was in phase "%s".  Of %s, %s done; %s being sent.', phase, dataverse.run_count(state.rows, 'row'),
                  state.done || CASE state.done WHEN 1 THEN ' is' ELSE ' are' END,
                  CASE state.marked WHEN state.done + 1 THEN format('row %s was', state.marked)
                                    ELSE format('rows %s to %s were', state.done + 1, state.marked) END) END),
    'hint', concat_ws(E'\n', nullif(hint, ''), CASE
      WHEN state.staging IS NOT NULL THEN
        format('The next call with the same query continues where this one stopped, without running the query again.  '
               'SELECT dataverse.forget_push(%s) abandons the push.', push)
      WHEN coalesce(hint, '') = '' THEN 'The next call runs the query again.' END));
END
$$;

COMMENT ON FUNCTION dataverse.push_problem(bigint, regclass, text, text, text, text) IS
  'an error of dataverse.push()';

-- A procedure that commits cannot set the search path, so all names are qualified.
CREATE PROCEDURE dataverse.push(
  query text,
  foreign_table regclass,
  key text[] DEFAULT NULL,
  operation text DEFAULT NULL,
  on_error text DEFAULT 'abort',
  max_errors integer DEFAULT NULL,
  chunk integer DEFAULT 50000,
  wait boolean DEFAULT true)
LANGUAGE plpgsql
AS $$
DECLARE
  path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
  schemas CONSTANT pg_catalog.name[] := pg_catalog.current_schemas(false);
  what CONSTANT pg_catalog.text := coalesce(operation, CASE WHEN key IS NULL THEN 'insert' ELSE 'upsert' END);
  keys CONSTANT pg_catalog.text[] := coalesce(key, '{}');
  push bigint;
  run bigint;
  ended dataverse.run_log;
  plan pg_catalog.jsonb;
  problem pg_catalog.jsonb;
  more boolean := true;
  failed boolean := false;
  state pg_catalog.text;
  message pg_catalog.text;
  detail pg_catalog.text;
  hint pg_catalog.text;
  exceeded pg_catalog.text;
  phase pg_catalog.text := 'stage';
BEGIN
  PERFORM dataverse.push_check(foreign_table, query, key, what, on_error, max_errors, chunk, wait);
  IF pg_catalog.current_setting('dataverse_fdw.dry_run', true)::boolean THEN
    RAISE NOTICE 'dry run of a push to %: % would be sent', foreign_table,
      dataverse.run_count(dataverse.push_rehearse(foreign_table, query, what, keys, schemas, path, on_error, max_errors), 'row');
    RETURN;
  END IF;
  PERFORM dataverse.pull_must_commit('dataverse.push()');
  -- concurrent updates by other sessions' pushes must not make this one fail; no
  -- statement, not even an expression, may come between the beginning of a
  -- transaction and this
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  LOOP
    push := dataverse.push_open(foreign_table, query, what, keys);
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF NOT dataverse.push_lock(push, wait) THEN
      PERFORM dataverse.run_begin_push(push, 'skipped');
      RAISE NOTICE 'skipped push to %: another session is running it', foreign_table;
      RETURN;
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    -- while this session waited, another one may have finished the push
    EXIT WHEN (dataverse.push_get(push)).id IS NOT NULL;
    PERFORM dataverse.run_unlock();
  END LOOP;
  run := dataverse.run_begin_push(push, 'running');
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  WHILE more AND NOT failed LOOP
    BEGIN
      IF plan IS NULL THEN
        plan := dataverse.push_prepare(push, run, foreign_table, query, what, keys, schemas, path, chunk);
      ELSE
        phase := 'send';
        more := dataverse.push_step(push, run, plan, path, chunk, on_error, max_errors);
      END IF;
      -- If a push were closed while its run has not ended, the next call would send everything
      -- again.
      IF NOT more THEN
        ended := dataverse.run_end(run, 'succeeded', NULL, NULL);
      END IF;
    EXCEPTION
      WHEN query_canceled OR assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
          hint = PG_EXCEPTION_HINT, exceeded = CONSTRAINT_NAME;
        failed := dataverse.run_waits(exceeded) IS NOT TRUE;
        IF NOT failed THEN
          -- some of the rows that were being sent may have been written
          plan := plan OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('doubt', (dataverse.push_get(push)).marked);
          more := true;
        END IF;
    END;
    IF state IS NOT NULL THEN
      PERFORM dataverse.run_add(run, phase, '{}');
    END IF;
    IF NOT failed THEN
      state := NULL;
    ELSE
      hint := pg_catalog.concat_ws('  ', dataverse.pull_cure(foreign_table, '', state,
        ARRAY['SELECT', CASE what WHEN 'upsert' THEN 'INSERT' ELSE pg_catalog.upper(what) END]), nullif(hint, ''));
      problem := dataverse.push_problem(push, foreign_table, phase, message, detail, hint);
      -- without a completed query, there is nothing to continue
      IF (dataverse.push_get(push)).staging IS NULL THEN
        PERFORM dataverse.push_close(push);
      END IF;
      ended := dataverse.run_end(run, 'failed', state, message);
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  END LOOP;
  PERFORM dataverse.run_unlock();
  IF failed THEN
    RAISE EXCEPTION USING
      errcode = state, message = problem OPERATOR(pg_catalog.->>) 'message', detail = problem OPERATOR(pg_catalog.->>) 'detail',
      hint = problem OPERATOR(pg_catalog.->>) 'hint';
  END IF;
  IF ended.missing OPERATOR(pg_catalog.>) 0 AND what OPERATOR(pg_catalog.=) 'update' THEN
    RAISE WARNING '% not found for update in foreign table %', dataverse.run_count(ended.missing, 'row'), foreign_table;
  END IF;
  RAISE NOTICE '%', dataverse.push_summary(ended);
END
$$;

COMMENT ON PROCEDURE dataverse.push(text, regclass, text[], text, text, integer, integer, boolean) IS
  'writes the result of a query to a foreign table, in chunks that are committed, each row once';
