-- When all rows that can be sent have been sent, retries rows that were refused
-- because of others, if others have been accepted since, or else once without their
-- references; likewise rows of a chain that is not resolved after some rounds.
CREATE FUNCTION dataverse_private.sync_again(run bigint, copy bigint, plan jsonb, progress boolean, INOUT loosened boolean, INOUT rounds integer, OUT any_rows boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT integer := 5;
  few CONSTANT integer := 100;
  since timestamptz := (SELECT r.started_at FROM dataverse.runs AS r WHERE r.id = run);
  n bigint := 0;
BEGIN
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
    n := dataverse_private.pending_retry(copy, since);
  END IF;
  IF n = 0 AND NOT loosened THEN
    n := dataverse_private.pending_loosen(copy, plan);
    loosened := true;
  END IF;
  IF n = 0 AND progress THEN
    n := dataverse_private.pending_retry(copy, since);
  END IF;
  -- they were counted when they were refused
  PERFORM dataverse_private.run_add(run, 'send', jsonb_build_object('rejected', -n));
  any_rows := n > 0;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_again(bigint, bigint, jsonb, boolean, boolean, integer) IS
  'allows rows that were refused because of other rows to be sent again; for dataverse.sync()';

CREATE FUNCTION dataverse_private.sync_summary(r dataverse_private.run_log, target text, open bigint)
RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('synced %s: %s sent, %s refused, %s; %s read, %s inserted, %s updated, %s deleted, %s compared; %s',
                target, dataverse_private.run_count(r.sent, 'row'), r.rejected, dataverse_private.run_count(open, 'conflict'), r.rows_read, r.inserted, r.updated, r.deleted, r.rows_compared,
                date_trunc('milliseconds', r.ended_at - r.started_at))
$$;

COMMENT ON FUNCTION dataverse_private.sync_summary(dataverse_private.run_log, text, bigint) IS
  'one line about a run; for dataverse.sync()';

CREATE FUNCTION dataverse_private.sync_problem(
  target text, phase text, "sqlstate" text, message text, detail text, hint text)
RETURNS jsonb
LANGUAGE sql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT dataverse_private.pull_problem($1, $2, $3, $4, $5, $6)
    || jsonb_build_object('message', format('could not sync %s: %s', $1, $4))
$$;

COMMENT ON FUNCTION dataverse_private.sync_problem(text, text, text, text, text, text) IS
  'an error as dataverse_private.run_sync() returns it';

-- Runs, and returns the error instead of raising it, like dataverse_private.run_pull().
CREATE PROCEDURE dataverse_private.run_sync(
  foreign_table regclass, target text, conflict text, column_conflicts jsonb, strict boolean, columns text[], deletes text,
  drift text, "full" boolean, sweep interval, wait boolean, on_error text, INOUT problem jsonb)
LANGUAGE plpgsql
AS $$
DECLARE
  path CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
  name pg_catalog.text;
  copy bigint;
  run bigint;
  ended dataverse_private.run_log;
  plan pg_catalog.jsonb;
  step record;
  again record;
  retry pg_catalog.jsonb;
  more boolean;
  -- the next task: prepare, track, pull, retry, take, send, finish, done
  task pg_catalog.text := 'prepare';
  resumes boolean;
  armed boolean := false;
  progress boolean := false;
  loosened boolean := false;
  rounds integer := 0;
  unwritable bigint := 0;
  open bigint;
  unsent bigint;
  hidden bigint;
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
    copy := dataverse_private.copy_open(foreign_table, name);
  EXCEPTION
    WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
      problem := dataverse_private.sync_problem(target, NULL, state, message, detail, hint);
      RETURN;
  END;
  COMMIT;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SELECT s.run, s.state, s.message, s.detail, s.hint INTO run, state, message, detail, hint
  FROM dataverse_private.run_start(copy, 'sync', name, wait) AS s;
  IF run IS NULL THEN
    IF state IS NOT NULL THEN
      problem := dataverse_private.sync_problem(name, NULL, state, message, detail, hint);
    END IF;
    RETURN;
  END IF;
  COMMIT;
  -- after locking rows, see what has been committed meanwhile; no statement, not
  -- even an expression, may come between the beginning of a transaction and this
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  LOOP
    BEGIN
      CASE
        WHEN task OPERATOR(pg_catalog.=) 'prepare' THEN
          resumes := dataverse_private.copy_resumes(copy);
          plan := dataverse_private.pull_prepare(copy, foreign_table, name, columns, deletes, drift, "full", sweep, on_error, true);
          plan := dataverse_private.sync_prepare(foreign_table, pg_catalog.to_regclass(name), plan, conflict, column_conflicts, strict);
          task := 'track';
        -- in a transaction of its own: it locks the table before the state of the copy
        WHEN task OPERATOR(pg_catalog.=) 'track' THEN
          CALL dataverse.track(pg_catalog.to_regclass(name));
          phase := (dataverse_private.copy_get(copy)).phase;
          PERFORM dataverse_private.run_add(run, phase, '{}');
          task := 'pull';
        WHEN task OPERATOR(pg_catalog.=) 'pull' THEN
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
          IF NOT more OR dataverse_private.pull_is_hopeless(copy, plan) THEN
            task := 'retry';
          END IF;
        WHEN task OPERATOR(pg_catalog.=) 'retry' THEN
          phase := 'retry';
          retry := dataverse_private.pull_retry(run, copy, plan, path, retry);
          IF retry IS NULL THEN
            task := CASE WHEN NOT more THEN 'take' WHEN dataverse_private.pull_is_hopeless(copy, plan) THEN 'finish' ELSE 'pull' END;
          END IF;
        WHEN task OPERATOR(pg_catalog.=) 'take' THEN
          phase := 'send';
          PERFORM dataverse_private.sync_take(copy, plan);
          PERFORM dataverse_private.pending_retry(copy, NULL);
          PERFORM dataverse_private.run_add(run, phase, '{}');
          task := 'send';
        WHEN task OPERATOR(pg_catalog.=) 'finish' THEN
          SELECT f.sqlstate, f.message, f.detail, f.hint INTO state, message, detail, hint
          FROM dataverse_private.pull_finish(run, copy, plan) AS f;
          failed := state IS NOT NULL;
          SELECT c.open, c.unsent, c.hidden INTO open, unsent, hidden FROM dataverse_private.pending_count(copy) AS c;
          IF hidden OPERATOR(pg_catalog.>) 0 THEN
            PERFORM dataverse_private.pull_warn_hidden(run, plan, hidden);
          END IF;
          PERFORM dataverse_private.run_add(run, phase, pg_catalog.jsonb_build_object('conflicts', open, 'rejected', unsent));
          -- the last action of a run is committed together with its end
          IF NOT failed THEN
            PERFORM dataverse_private.end_pages();
            ended := dataverse_private.run_end(run, 'succeeded', NULL, NULL);
          END IF;
          task := 'done';
        ELSE
          step := dataverse_private.sync_step(run, copy, plan, path, armed);
          armed := step.next OPERATOR(pg_catalog.=) 'send';
          progress := progress OR step.sent OPERATOR(pg_catalog.>) 0;
          unwritable := unwritable OPERATOR(pg_catalog.+) step.unwritable;
          IF step.next OPERATOR(pg_catalog.=) 'done' THEN
            -- rows that were refused because of others may be accepted now
            again := dataverse_private.sync_again(run, copy, plan, progress, loosened, rounds);
            loosened := again.loosened;
            rounds := again.rounds;
            IF NOT again.any_rows THEN
              task := 'finish';
            END IF;
            progress := false;
          END IF;
      END CASE;
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
      -- some of the rows may have been written; a throttle does not count as an attempt
      armed := false;
      PERFORM dataverse_private.run_add(run, phase, pg_catalog.jsonb_build_object('rejected', OPERATOR(pg_catalog.-) dataverse_private.pending_retry(copy, NULL)));
    END IF;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXIT WHEN failed OR task OPERATOR(pg_catalog.=) 'done';
  END LOOP;
  IF failed THEN
    -- an error at this point, such as a cancel, also ends the run
    BEGIN
      PERFORM dataverse_private.end_pages();
      IF open IS NULL THEN
        open := (dataverse_private.pending_count(copy)).open;
        PERFORM dataverse_private.run_add(run, phase, pg_catalog.jsonb_build_object('conflicts', open));
      END IF;
      -- it is not known on which side a privilege is missing
      SELECT pg_catalog.concat_ws('  ', c.cure, CASE WHEN c.cure IS NULL OR state OPERATOR(pg_catalog.=) '42501' THEN hint END) INTO hint
      FROM dataverse_private.pull_cure(foreign_table, name, state, '{SELECT,INSERT,UPDATE,DELETE}') AS c(cure);
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
    problem := dataverse_private.sync_problem(name, phase, state, message, detail, hint);
    RETURN;
  END IF;
  IF unwritable OPERATOR(pg_catalog.>) 0 THEN
    RAISE WARNING USING
      errcode = '01000',
      message = pg_catalog.format('discarded changes of %s of %s in columns that cannot be written to Dataverse', dataverse_private.run_count(unwritable, 'row'), name),
      detail = 'These changes were not sent to Dataverse or were ignored by it; its values have replaced them.';
  END IF;
  IF unsent OPERATOR(pg_catalog.>) 0 THEN
    RAISE WARNING USING
      errcode = '01000',
      message = pg_catalog.format('Dataverse neither changed nor refused %s sent from %s', dataverse_private.run_count(unsent, 'row'), name),
      hint = 'The next run sends them again.';
  END IF;
  IF open OPERATOR(pg_catalog.>) 0 THEN
    RAISE WARNING USING
      errcode = '01000',
      message = pg_catalog.format('%s in %s %s resolution', dataverse_private.run_count(open, 'conflict'), name,
                                  CASE WHEN open OPERATOR(pg_catalog.=) 1 THEN 'awaits' ELSE 'await' END),
      hint = 'The view dataverse.conflicts shows both versions.  Resolve conflicts with SELECT dataverse.resolve(id, ''service''); or with ''local'','
             ' and sync again.';
  END IF;
  RAISE NOTICE '%', dataverse_private.sync_summary(ended, name, open);
END
$$;

COMMENT ON PROCEDURE dataverse_private.run_sync(regclass, text, text, jsonb, boolean, text[], text, text, boolean, interval, boolean, text, jsonb) IS
  'carries out dataverse.sync()';

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
LANGUAGE plpgsql
AS $$
DECLARE
  problem pg_catalog.jsonb;
BEGIN
  PERFORM dataverse_private.pull_must_commit('dataverse.sync()');
  PERFORM dataverse_private.pull_check_tables(foreign_table, target);
  PERFORM dataverse_private.pull_check(columns, deletes, drift, "full", sweep, wait, on_error);
  PERFORM dataverse_private.sync_check(conflict, column_conflicts, strict);
  CALL dataverse_private.run_sync(foreign_table, target, conflict, column_conflicts, strict, columns, deletes, drift, "full", sweep,
                          wait, on_error, problem);
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = problem OPERATOR(pg_catalog.->>) 'sqlstate', message = problem OPERATOR(pg_catalog.->>) 'message',
      detail = problem OPERATOR(pg_catalog.->>) 'detail',
      hint = problem OPERATOR(pg_catalog.->>) 'hint';
  END IF;
END
$$;

COMMENT ON PROCEDURE dataverse.sync(regclass, text, text, jsonb, boolean, text[], text, text, boolean, interval, boolean, text) IS
  'keeps a local copy and its foreign table in step both ways: pulls changes from Dataverse, and sends local changes';
