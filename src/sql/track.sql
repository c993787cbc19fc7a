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
