-- What was changed in copies and is not in Dataverse yet.  dataverse.local_changes
-- has each change; here is each row, with all that has to be known to send it,
-- and to find out after a crash whether it was sent.
--
-- "base" is the version of the row that was changed here.  "against" is the
-- version that the row must have when it is written: usually the same one, or the
-- version that somebody has decided to overwrite.
CREATE TABLE dataverse.pending (
  number bigint GENERATED ALWAYS AS IDENTITY,
  copy bigint NOT NULL,
  id uuid NOT NULL,
  operation "char" NOT NULL,
  columns text[] NOT NULL DEFAULT '{}',
  held text[] NOT NULL DEFAULT '{}',
  base bigint,
  against bigint,
  state text NOT NULL CHECK (state IN ('taken', 'new', 'sending', 'fetch', 'filed')),
  tries integer NOT NULL DEFAULT 0,
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
-- images are kept for a moment; to compress them would take longer than to store them
WITH (toast_tuple_target = 8160);

COMMENT ON TABLE dataverse.pending IS
  'the rows of copies that were changed here and are not settled yet; those that are filed are behind the view dataverse.conflicts';
COMMENT ON COLUMN dataverse.pending.operation IS 'I, U, or D; of a row that was taken, D if it was deleted at any time, or U';
COMMENT ON COLUMN dataverse.pending.columns IS 'the columns that were changed and have to be sent; of a row that is filed, those that wait for a decision';
COMMENT ON COLUMN dataverse.pending.held IS
  'columns that wait for a decision while others of the row are sent; of a row to be created, those that are sent once it exists';
COMMENT ON COLUMN dataverse.pending.state IS
  'taken from the log; new; sending, if it may have been sent; fetch, if only the row of the service is wanted; filed';
COMMENT ON COLUMN dataverse.pending.touched IS 'Dataverse had news of the row that were not merged';
COMMENT ON COLUMN dataverse.pending.image IS 'the row as it is being sent';

-- of rows that have been filed
CREATE UNIQUE INDEX pending_number_idx ON dataverse.pending (number) WHERE kind IS NOT NULL;
CREATE INDEX pending_state_idx ON dataverse.pending (copy, state, operation);

SELECT pg_catalog.pg_extension_config_dump('dataverse.pending', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.pending_number_seq', '');

-- Looks anew each time it is called, as a function of volatile statements does.
CREATE FUNCTION dataverse.copy_is_captured(copy bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN EXISTS (SELECT FROM dataverse.copies AS c WHERE c.id = copy AND c.id_column IS NOT NULL);
END
$$;

COMMENT ON FUNCTION dataverse.copy_is_captured(bigint) IS
  'whether what is changed in a copy is captured; for dataverse.pull()';

-- Moves the log to the pending rows.  Rows that are being sent stay in the log,
-- so that what was changed since can be told from what is sent.  Rows that were
-- only updated can be sent as they are.  Returns whether there are others, about
-- which pending_place() decides.
CREATE FUNCTION dataverse.pending_take(copy bigint, columns text[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  WITH log AS (
    DELETE FROM dataverse.local_changes AS l
    WHERE l.copy = pending_take.copy AND NOT EXISTS (
      SELECT FROM dataverse.pending AS p WHERE p.copy = l.copy AND p.id = l.id AND p.state = 'sending')
    RETURNING l.id, l.operation, l.columns, l.base),
  -- a row that was deleted and is there again has changed in all its columns
  net AS (
    SELECT l.id, min(l.base) AS base, CASE WHEN bool_or(l.operation = 'D') THEN 'D' ELSE 'U' END::"char" AS operation,
           bool_and(l.operation = 'U') AND min(l.base) IS NOT NULL AS updated,
           CASE WHEN bool_or(l.operation = 'I') THEN pending_take.columns
                ELSE coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') END AS columns
    FROM log AS l LEFT JOIN LATERAL unnest(l.columns) AS c ON true
    GROUP BY l.id)
  INSERT INTO dataverse.pending AS p (copy, id, operation, columns, base, against, state)
  SELECT pending_take.copy, n.id, n.operation, n.columns, n.base, CASE WHEN n.updated THEN n.base END,
         CASE WHEN n.updated THEN 'new' ELSE 'taken' END
  FROM net AS n
  ON CONFLICT ON CONSTRAINT pending_pkey DO UPDATE
  SET columns = ARRAY(SELECT unnest(p.columns) UNION SELECT unnest(p.held) UNION SELECT unnest(excluded.columns) ORDER BY 1),
      held = '{}', base = coalesce(p.base, excluded.base), state = 'taken', decision = NULL,
      operation = CASE WHEN p.operation = 'D' THEN p.operation ELSE excluded.operation END;
  RETURN EXISTS (SELECT FROM dataverse.pending AS p WHERE p.copy = pending_take.copy AND p.state = 'taken');
END
$$;

COMMENT ON FUNCTION dataverse.pending_take(bigint, text[]) IS
  'takes changes from the log of a copy; for dataverse.sync()';

CREATE FUNCTION dataverse.pending_ids(copy bigint, states text[], most bigint DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  RETURN QUERY SELECT p.id FROM dataverse.pending AS p
    WHERE p.copy = pending_ids.copy AND p.state = ANY (states) ORDER BY p.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse.pending_ids(bigint, text[], bigint) IS
  'the ids of pending rows; for dataverse.sync()';

-- What becomes of rows that were taken follows from whether they exist here, and
-- whether Dataverse ever had them.  One that nobody has is forgotten, unless
-- Dataverse has one with its id.  One that is gone, but was not seen to be deleted,
-- comes back.
CREATE FUNCTION dataverse.pending_place(copy bigint, existing uuid[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  WITH placed AS (
    SELECT p.id, e.id IS NOT NULL AS here FROM dataverse.pending AS p LEFT JOIN unnest(existing) AS e (id) ON e.id = p.id
    WHERE p.copy = pending_place.copy AND p.state = 'taken')
  UPDATE dataverse.pending AS p
  SET operation = CASE WHEN NOT n.here THEN 'D' WHEN p.base IS NULL THEN 'I' ELSE 'U' END,
      against = p.base, image = NULL,
      state = CASE WHEN n.here OR (p.base IS NOT NULL AND p.operation = 'D') THEN 'new' ELSE 'fetch' END
  FROM placed AS n WHERE p.copy = pending_place.copy AND p.id = n.id;
  DELETE FROM dataverse.pending AS p
  WHERE p.copy = pending_place.copy AND p.state = 'fetch' AND p.operation = 'D' AND p.base IS NULL AND NOT p.touched AND p.kind IS NULL;
END
$$;

COMMENT ON FUNCTION dataverse.pending_place(bigint, uuid[]) IS
  'decides what to do with changes that were taken; for dataverse.sync()';

-- Which of these rows must not be merged.  That the service had news of them is
-- noted, so that what is filed about them is looked at again.
CREATE FUNCTION dataverse.pending_among(copy bigint, ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  UPDATE dataverse.pending AS p SET touched = true
  WHERE p.copy = pending_among.copy AND p.id = ANY (ids) AND NOT p.touched AND (p.state = 'filed' OR p.operation = 'I');
  RETURN ARRAY(SELECT p.id FROM dataverse.pending AS p WHERE p.copy = pending_among.copy AND p.id = ANY (ids));
END
$$;

COMMENT ON FUNCTION dataverse.pending_among(bigint, uuid[]) IS
  'which rows have local changes; for dataverse.pull()';

-- Which of these rows were changed since the log was taken, and in which columns.
CREATE FUNCTION dataverse.pending_dirty(copy bigint, ids uuid[])
RETURNS TABLE (id uuid, columns text[], whole boolean)
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  RETURN QUERY
    SELECT l.id, coalesce(array_agg(DISTINCT c) FILTER (WHERE c IS NOT NULL), '{}'), bool_or(l.operation <> 'U')
    FROM dataverse.local_changes AS l JOIN (SELECT DISTINCT u FROM unnest(ids) AS u) AS i (id) ON i.id = l.id
      LEFT JOIN LATERAL unnest(l.columns) AS c ON true
    WHERE l.copy = pending_dirty.copy
    GROUP BY l.id;
END
$$;

COMMENT ON FUNCTION dataverse.pending_dirty(bigint, uuid[]) IS
  'which rows were changed after their changes were taken, in which columns, and whether as a whole; for dataverse.sync()';

-- At the beginning of a run, what it may try.  Later ("since" it began), what it may
-- try once more: rows that refer to others, which may exist by now, and those that
-- have a unique value which another row had.
CREATE FUNCTION dataverse.pending_retry(copy bigint, since timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM dataverse.copy_get(copy);
  IF since IS NULL THEN
    UPDATE dataverse.pending AS p SET tries = 0 WHERE p.copy = pending_retry.copy AND p.tries <> 0;
  END IF;
  UPDATE dataverse.pending AS p SET state = 'new', tries = 0
  WHERE p.copy = pending_retry.copy AND p.state = 'filed' AND p.decision IS NULL AND p.kind = 'refused'
    AND (p.sqlstate IN ('23503', '23001') OR (p.sqlstate = '23505' AND p.found_at >= since));
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.pending_retry(bigint, timestamptz) IS
  'lets rows be tried again that were refused because of other rows; for dataverse.sync()';

-- New rows that were refused because they refer to rows which wait to be created as
-- well, perhaps because those refer to them in turn, or which are the row itself.
-- They are created without these references; "held" are the columns to be sent
-- afterwards.  References to rows that nobody will create are left as they are.
CREATE FUNCTION dataverse.pending_loosen(copy bigint, plan jsonb)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n bigint;
BEGIN
  PERFORM dataverse.copy_get(copy);
  WITH waiting AS (
    SELECT n.id::text AS id
    FROM (SELECT p.copy, p.id FROM dataverse.pending AS p WHERE p.operation = 'I'
          UNION SELECT l.copy, l.id FROM dataverse.local_changes AS l WHERE l.operation = 'I') AS n
      JOIN dataverse.copies AS c ON c.id = n.copy
    WHERE pg_has_role(dataverse.caller(), dataverse.copy_owner(c), 'USAGE')),
  loose AS (
    SELECT p.id, array_agg(DISTINCT u.c) AS columns
    FROM dataverse.pending AS p, jsonb_array_elements_text(plan -> 'references') AS r,
      LATERAL (VALUES (r), (plan -> 'partners' ->> r)) AS u (c)
    WHERE p.copy = pending_loosen.copy AND p.state = 'filed' AND p.decision IS NULL AND p.kind = 'refused'
      AND p.operation = 'I' AND p.sqlstate = '23503' AND u.c IS NOT NULL
      AND lower(p.ours ->> r) IN (SELECT w.id FROM waiting AS w)
    GROUP BY p.id)
  UPDATE dataverse.pending AS p SET state = 'new', tries = 0, held = l.columns
  FROM loose AS l WHERE p.copy = pending_loosen.copy AND p.id = l.id;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.pending_loosen(bigint, jsonb) IS
  'lets new rows that refer to each other be created without that first; for dataverse.sync()';

-- The next rows to send, to ask about, or to fetch: new rows of one operation;
-- filed ones that were decided or had news.  To delete a row changes those that
-- refer to it, so as many as possible are looked at before the first one goes.
CREATE FUNCTION dataverse.pending_next(copy bigint, states text[], most bigint)
RETURNS dataverse.pending[]
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  wanted "char" := (SELECT p.operation FROM dataverse.pending AS p
                    WHERE p.copy = pending_next.copy AND p.state = 'new' AND p.tries < 3 AND 'new' = ANY (states)
                    ORDER BY position(p.operation IN 'IUD') LIMIT 1);
BEGIN
  PERFORM dataverse.copy_get(copy);
  RETURN ARRAY(
    SELECT p FROM dataverse.pending AS p
    WHERE p.copy = pending_next.copy AND p.state = ANY (states) AND (p.state <> 'new' OR (p.tries < 3 AND p.operation = wanted))
      AND (p.state <> 'filed' OR p.touched OR p.decision IS NOT NULL)
    ORDER BY p.id LIMIT CASE WHEN wanted = 'D' OR 'sending' = ANY (states) THEN 10 * most ELSE most END);
END
$$;

COMMENT ON FUNCTION dataverse.pending_next(bigint, text[], bigint) IS
  'the pending rows that are next; for dataverse.sync()';

-- Notes what is sent, and how: "columns" and "held" are arrays as texts, since they differ in length.
CREATE FUNCTION dataverse.pending_stage(copy bigint, ids uuid[], states text[], tries integer[], columns text[], held text[], images jsonb[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  UPDATE dataverse.pending AS p SET state = n.state, tries = n.tries, columns = n.columns::text[], held = n.held::text[], image = n.image
  FROM unnest(pending_stage.ids, pending_stage.states, pending_stage.tries, pending_stage.columns, pending_stage.held,
              pending_stage.images) AS n (id, state, tries, columns, held, image)
  WHERE p.copy = pending_stage.copy AND p.id = n.id;
END
$$;

COMMENT ON FUNCTION dataverse.pending_stage(bigint, uuid[], text[], integer[], text[], text[], jsonb[]) IS
  'notes rows that are about to be sent; for dataverse.sync()';

-- Changes rows: each object has an id, and what to set.
CREATE FUNCTION dataverse.pending_set(copy bigint, changes jsonb[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  UPDATE dataverse.pending AS p
  SET operation = n.operation, columns = n.columns, held = n.held, base = n.base, against = n.against, state = n.state,
      tries = n.tries, touched = n.touched, image = n.image, kind = n.kind, ours = n.ours, theirs = n.theirs, seen = n.seen,
      sqlstate = n.sqlstate, error = n.error, found_at = n.found_at,
      -- somebody may just have decided
      decision = CASE WHEN c ? 'decision' THEN n.decision ELSE p.decision END
  FROM unnest(changes) AS c, dataverse.pending AS o, jsonb_populate_record(o, c - 'id' - 'copy' - 'number') AS n
  WHERE o.copy = pending_set.copy AND o.id = (c ->> 'id')::uuid AND p.copy = o.copy AND p.id = o.id;
END
$$;

COMMENT ON FUNCTION dataverse.pending_set(bigint, jsonb[]) IS
  'notes what has become of pending rows; for dataverse.sync()';

CREATE FUNCTION dataverse.pending_drop(copy bigint, ids uuid[])
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  IF ids IS NULL THEN
    DELETE FROM dataverse.pending AS p WHERE p.copy = pending_drop.copy;
  ELSE
    DELETE FROM dataverse.pending AS p WHERE p.copy = pending_drop.copy AND p.id = ANY (ids);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pending_drop(bigint, uuid[]) IS
  'forgets pending rows that are settled, or all; for dataverse.sync()';

CREATE FUNCTION dataverse.pending_count(copy bigint, OUT open bigint, OUT unsent bigint)
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  SELECT count(*) FILTER (WHERE p.state = 'filed' OR p.held <> '{}'), count(*) FILTER (WHERE p.state = 'new' AND p.tries BETWEEN 3 AND 8)
  INTO open, unsent FROM dataverse.pending AS p WHERE p.copy = pending_count.copy;
END
$$;

COMMENT ON FUNCTION dataverse.pending_count(bigint) IS
  'how many rows of a copy wait for a decision, and how many were sent in vain; for dataverse.sync()';

CREATE VIEW dataverse.conflicts WITH (security_barrier) AS
  SELECT p.number AS id, c.foreign_table, c.target, p.id AS row_id, p.kind,
         CASE p.state WHEN 'filed' THEN p.columns ELSE p.held END AS columns,
         p.ours, p.theirs, p.sqlstate, p.error, p.found_at, p.decision
  FROM dataverse.pending AS p JOIN dataverse.copies AS c ON c.id = p.copy
  WHERE (p.state = 'filed' OR p.held <> '{}')
    AND (pg_catalog.pg_has_role(dataverse.copy_owner(c), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE'));

COMMENT ON VIEW dataverse.conflicts IS
  'rows that were changed on both sides, or that Dataverse refused: both versions, until somebody decides';

CREATE FUNCTION dataverse.resolve_check(decision text)
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

COMMENT ON FUNCTION dataverse.resolve_check(text) IS
  'refuses decisions that are not valid; for dataverse.resolve()';

CREATE FUNCTION dataverse.resolve(conflict bigint, decision text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  decided bigint;
BEGIN
  PERFORM dataverse.resolve_check(decision);
  SELECT p.copy INTO decided FROM dataverse.pending AS p WHERE p.number = conflict AND p.kind IS NOT NULL;
  IF decided IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse.copy_get(decided);
  UPDATE dataverse.pending AS p SET decision = resolve.decision WHERE p.number = conflict AND p.kind IS NOT NULL AND p.state = 'filed';
  RETURN FOUND;
END
$$;

COMMENT ON FUNCTION dataverse.resolve(bigint, text) IS
  'decides which side of a conflict is kept, service or local; the next dataverse.sync() carries it out';

CREATE FUNCTION dataverse.resolve_copy(target text, decision text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  decided bigint;
  n bigint;
BEGIN
  PERFORM dataverse.resolve_check(decision);
  SELECT c.id INTO decided FROM dataverse.copies AS c
  WHERE c.target_oid = to_regclass(resolve_copy.target) OR c.target = resolve_copy.target
  ORDER BY c.target_oid = to_regclass(resolve_copy.target) DESC NULLS LAST LIMIT 1;
  IF decided IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('table %s is not a copy of a foreign table', target),
      hint = 'The view dataverse.sync_state lists the copies.';
  END IF;
  PERFORM dataverse.copy_get(decided);
  UPDATE dataverse.pending AS p SET decision = resolve_copy.decision WHERE p.copy = decided AND p.state = 'filed';
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.resolve_copy(text, text) IS
  'decides all conflicts of a copy by the qualified name of its table; for dataverse.resolve()';

CREATE FUNCTION dataverse.resolve(target text, decision text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT
AS $$
BEGIN
  PERFORM dataverse.pull_check_name(target);
  RETURN dataverse.resolve_copy(dataverse.pull_target(target, pg_catalog.to_regclass(target), pg_catalog.current_schema()), decision);
END
$$;

COMMENT ON FUNCTION dataverse.resolve(text, text) IS
  'decides all conflicts of a table, and returns how many there are; the next dataverse.sync() carries it out';
