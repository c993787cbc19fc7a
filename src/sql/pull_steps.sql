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
