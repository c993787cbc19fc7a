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
-- Columns may have the names of aliases, so that rows are "s.*" and columns are
-- qualified everywhere.  Rows are compared by their binary images, for which no
-- operator of a type is needed.
CREATE FUNCTION dataverse.pull_statements(foreign_table regclass, target regclass, columns text[], info jsonb, keyed boolean, deletes text, on_error text)
RETURNS jsonb
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  id CONSTANT text := quote_ident(info ->> 'id_column');
  rows CONSTANT text := format('dataverse.page_rows(NULL::%s) AS s', foreign_table);
  names text;
  inputs text;
  sets text;
  ours text;
  theirs text;
  new_only text;
  whole_row text;
  partition CONSTANT text := (
    SELECT quote_ident(c.name)
    FROM ROWS FROM (jsonb_array_elements_text(info -> 'column_names'), jsonb_array_elements_text(info -> 'attribute_names')) AS c (name, attribute)
    WHERE (info ->> 'elastic')::boolean AND c.attribute = 'partitionid');
BEGIN
  SELECT string_agg(quote_ident(c), ', ' ORDER BY i), string_agg('s.' || quote_ident(c), ', ' ORDER BY i),
         string_agg(format('%1$I = s.%1$I', c), ', ' ORDER BY i) FILTER (WHERE quote_ident(c) <> id),
         string_agg(format('t.%I', c), ', ' ORDER BY i) FILTER (WHERE quote_ident(c) <> id),
         -- a cast would cut texts, which assignment does not
         string_agg(format('CAST(s.%I AS %s)', c, format_type(
                      a.atttypid, CASE WHEN a.atttypid IN ('varchar'::regtype, 'varbit'::regtype) THEN -1 ELSE a.atttypmod END)),
                    ', ' ORDER BY i)
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
  -- a row of the type of the foreign table, of columns that are copied
  SELECT string_agg(CASE WHEN a.attname = ANY (columns) THEN format('f.%I', a.attname) ELSE 'NULL' END, ', ' ORDER BY a.attnum)
  INTO whole_row
  FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attnum > 0 AND NOT a.attisdropped;
  RETURN jsonb_build_object(
    'backfill', format('INSERT INTO %s AS t (%s) SELECT %s FROM %s ', target, names, inputs, rows)
      || CASE WHEN keyed THEN format('ON CONFLICT (%s) DO NOTHING', id) ELSE 'WHERE ' || new_only END,
    'insert', format('INSERT INTO %s AS t (%s) SELECT %s FROM %s WHERE %s', target, names, inputs, rows, new_only)
      || CASE WHEN keyed THEN format(' ON CONFLICT (%s) DO NOTHING', id) ELSE '' END,
    'update', CASE WHEN sets IS NOT NULL THEN
      format('UPDATE %s AS t SET %s FROM %s WHERE t.%4$s OPERATOR(pg_catalog.=) s.%4$s'
             ' AND (ROW(%5$s))::record OPERATOR(pg_catalog.*<>) (ROW(%6$s))::record', target, sets, rows, id, ours, theirs) END,
    'read', format('SELECT pg_catalog.count(dataverse.page_add(f.%1$s, ROW(%2$s)::%3$s)) FROM ONLY %3$s AS f'
                   ' WHERE f.%1$s OPERATOR(pg_catalog.=) ANY ($1)', id, whole_row, foreign_table),
    'twice', CASE WHEN partition IS NOT NULL THEN 'SELECT array_agg(v.id) FROM (SELECT r AS id FROM dataverse.page_repeated() AS r'
      || CASE WHEN partition = ANY (ARRAY(SELECT quote_ident(c) FROM unnest(columns) AS c)) THEN
           format(' UNION ALL SELECT s.%1$s FROM %2$s WHERE EXISTS (SELECT FROM %3$s AS t WHERE t.%1$s = s.%1$s'
                  ' AND t.%4$s::text COLLATE "C" IS DISTINCT FROM s.%4$s::text COLLATE "C" OFFSET 0)', id, rows, target, partition)
         ELSE '' END || ') AS v' END,
    'partitions', format('SELECT pg_catalog.min(v.id::text) AS id, pg_catalog.string_agg(v.p, '', '' ORDER BY v.p) AS names'
                         ' FROM (SELECT DISTINCT f.%1$s AS id, f.%2$s::text AS p FROM ONLY %3$s AS f WHERE f.%1$s = ANY ($1)) AS v'
                         ' GROUP BY v.id HAVING count(*) > 1 ORDER BY 1 LIMIT 1', id, partition, foreign_table),
    'has_rows', format('SELECT EXISTS (SELECT FROM %s)', target),
    'lock', format('SELECT pg_catalog.count(*) FROM (SELECT FROM %1$s AS t WHERE t.%2$s OPERATOR(pg_catalog.=) ANY ($1)'
                   ' ORDER BY t.%2$s FOR NO KEY UPDATE) AS l', target, id),
    'existing', format('SELECT pg_catalog.array_agg(t.%2$s) FROM %1$s AS t JOIN dataverse.pending_ids($1, ''{taken}'') AS p (id)'
                       ' ON p.id OPERATOR(pg_catalog.=) t.%2$s', target, id),
    'page_ids', format('SELECT ARRAY(SELECT s.%s FROM %s UNION ALL SELECT d FROM dataverse.page_deletions() AS d)', id, rows),
    'entry', format('SELECT s.%s AS id, false AS deleted, %s AS image FROM %s UNION ALL SELECT d, true, NULL FROM dataverse.page_deletions() AS d', id,
                    CASE on_error WHEN 'continue' THEN
                      format('(SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(to_jsonb(s.*)) AS e WHERE e.key = ANY (%L))',
                             columns)
                    ELSE 'NULL::jsonb' END, rows),
    'delete', CASE deletes
      WHEN 'delete' THEN format('DELETE FROM %s AS t USING dataverse.page_deletions() AS d (id)'
                                ' WHERE t.%s OPERATOR(pg_catalog.=) d.id', target, id)
      WHEN 'mark' THEN format('UPDATE %s AS t SET deleted_at = pg_catalog.clock_timestamp() FROM dataverse.page_deletions() AS d (id)'
                              ' WHERE t.%s OPERATOR(pg_catalog.=) d.id AND t.deleted_at IS NULL', target, id) END,
    'ghosts', CASE deletes
      WHEN 'delete' THEN format('DELETE FROM %s AS t', target)
      WHEN 'mark' THEN format('UPDATE %s AS t SET deleted_at = pg_catalog.clock_timestamp()', target) END
      || format(' WHERE %sNOT EXISTS (SELECT FROM dataverse.copy_ids_of($1) AS i WHERE i.id OPERATOR(pg_catalog.=) t.%s)',
                CASE deletes WHEN 'mark' THEN 't.deleted_at IS NULL AND ' ELSE '' END, id),
    'ghost_ids', format('SELECT ARRAY(SELECT t.%1$s FROM %2$s AS t WHERE %3$sNOT EXISTS ('
                        'SELECT FROM dataverse.copy_ids_of($1) AS i WHERE i.id OPERATOR(pg_catalog.=) t.%1$s))', id, target,
                        CASE deletes WHEN 'mark' THEN 't.deleted_at IS NULL AND ' ELSE '' END),
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

COMMENT ON FUNCTION dataverse.pull_statements(regclass, regclass, text[], jsonb, boolean, text, text) IS
  'the statements that bring a copy up to date; for dataverse.pull()';

-- A server can be altered, and a foreign table be made again for another one, while
-- what was read before, and tokens and versions, are those of another service.
CREATE FUNCTION dataverse.pull_source_address(foreign_table regclass)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT rtrim(lower(o.option_value), '/') FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver,
    pg_options_to_table(s.srvoptions) AS o
  WHERE t.ftrelid = $1 AND o.option_name = 'url'
$$;

COMMENT ON FUNCTION dataverse.pull_source_address(regclass) IS
  'the address of the service that a foreign table is in; for dataverse.pull() and push()';

-- What the service defines: whether changes are tracked, and ids and types of the
-- columns that are copied, by their names here, and which cannot be set when a row is created.  What is made again has another id.
CREATE FUNCTION dataverse.pull_schema(info jsonb, copied text[], OUT tracked boolean, OUT schema jsonb)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  path CONSTANT text := format('EntityDefinitions(LogicalName=''%s'')?$select=MetadataId,ChangeTrackingEnabled'
                               '&$expand=Attributes($select=LogicalName,AttributeType,MetadataId,IsValidForCreate)', info ->> 'logical_name');
  most CONSTANT integer := 5;
  definition jsonb;
BEGIN
  -- an answer that was damaged on its way is asked for again, as pages are
  FOR attempt IN 1 .. most LOOP
    BEGIN
      definition := dataverse.request((info ->> 'server')::name, 'GET', path);
    EXCEPTION
      WHEN data_exception THEN
        definition := NULL;
    END;
    EXIT WHEN definition ->> 'MetadataId' IS NOT NULL AND jsonb_typeof(definition -> 'Attributes') = 'array';
    IF attempt = most THEN
      RAISE EXCEPTION USING
        errcode = 'fdw_unable_to_create_reply',
        message = format('could not read the definition of table "%s": an answer from Dataverse did not have the expected form', info ->> 'logical_name');
    END IF;
  END LOOP;
  tracked := coalesce((definition ->> 'ChangeTrackingEnabled')::boolean, false);
  SELECT jsonb_object_agg(c.name, concat_ws(' ', a.value ->> 'MetadataId', a.value ->> 'AttributeType',
                                               CASE WHEN NOT (a.value ->> 'IsValidForCreate')::boolean THEN 'update' END))
    || jsonb_build_object('', definition ->> 'MetadataId')
  INTO schema
  FROM ROWS FROM (jsonb_array_elements_text(info -> 'column_names'), jsonb_array_elements_text(info -> 'attribute_names')) AS c (name, attribute)
    LEFT JOIN jsonb_array_elements(definition -> 'Attributes') AS a (value) ON a.value ->> 'LogicalName' = c.attribute
  WHERE c.name = ANY (copied);
END
$$;

COMMENT ON FUNCTION dataverse.pull_schema(jsonb, text[]) IS
  'what a table is in Dataverse now; for dataverse.pull()';

-- What a run does that has found other definitions than those of the run before: if
-- the table or a column was made again, everything here is of yesterday, and
-- nothing in the rows tells.  Returns whether everything has to be read again.
CREATE FUNCTION dataverse.pull_drifted(copy bigint, plan jsonb, tracked boolean, schema jsonb, metadata text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state CONSTANT dataverse.copies := dataverse.copy_get(copy);
  changes jsonb := jsonb_build_object('schema', schema, 'metadata', coalesce(metadata, state.metadata));
  other text[] := ARRAY(SELECT e.key FROM jsonb_each_text(state.schema) AS e
                        WHERE e.value IS DISTINCT FROM schema ->> e.key AND schema ? e.key ORDER BY 1);
  anew CONSTANT boolean := '' = ANY (other);
  -- it can be followed by change tracking from now on
  follow CONSTANT boolean := tracked AND NOT state.tracked;
BEGIN
  IF other = '{}' AND NOT follow THEN
    PERFORM dataverse.copy_set(copy, changes);
    RETURN false;
  END IF;
  IF other <> '{}' THEN
    IF plan ->> 'drift' = 'stop' THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('the definition of foreign table %s in Dataverse is not that of the rows that were copied',
                         (plan ->> 'foreign_table')::oid::regclass),
        detail = CASE WHEN anew THEN 'The table has been deleted and made again.'
                 ELSE format('Deleted or made again: %s.', array_to_string(other, ', ')) END,
        hint = 'Call dataverse.pull() with drift => ''add'' or drift => ''ignore''.';
    END IF;
    RAISE NOTICE USING
      message = format('reading all rows of foreign table %s again, because Dataverse has another definition of %s',
                       (plan ->> 'foreign_table')::oid::regclass,
                       CASE WHEN anew THEN 'the table' ELSE array_to_string(other, ', ') END);
  END IF;
  PERFORM dataverse.end_pages();
  PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
  IF anew OR follow THEN
    changes := changes || jsonb_build_object('tracked', tracked, 'token', NULL, 'token_at', NULL, 'marks', '{}'::bigint[],
                                             'marked_at', '{}'::timestamptz[]);
  END IF;
  PERFORM dataverse.copy_set(copy, changes || jsonb_build_object(
    'phase', 'compare', 'whole', other <> '{}' OR plan ->> 'version_column' IS NULL, 'link', NULL, 'ids', 0,
    'again', anew OR follow OR state.again OR state.token IS NULL));
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse.pull_drifted(bigint, jsonb, boolean, jsonb, text) IS
  'decides what other definitions in Dataverse mean for a copy; for dataverse.pull()';

-- Reads once a day how long tokens live, and warns if the one there is has got old.
CREATE FUNCTION dataverse.pull_token_life(state dataverse.copies, info jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  age CONSTANT interval := clock_timestamp() - (state).token_at;
  life interval := (state).token_life;
  changes jsonb := '{}';
BEGIN
  IF coalesce((state).token_life_at < clock_timestamp() - interval '1 day', true) THEN
    BEGIN
      life := make_interval(days => (dataverse.request(
        (info ->> 'server')::name, 'GET', 'organizations?$select=expirechangetrackingindays')
        -> 'value' -> 0 ->> 'expirechangetrackingindays')::integer);
    EXCEPTION
      -- who may not read it goes without warnings
      WHEN OTHERS THEN
        NULL;
    END;
    changes := jsonb_build_object('token_life', life, 'token_life_at', clock_timestamp());
  END IF;
  IF age > life / 2 THEN
    RAISE WARNING USING
      errcode = '01000',
      message = format('the last run that brought %s up to date ended %s ago, and tokens of change tracking live %s',
                       info ->> 'target', date_trunc('minute', age), life),
      hint = format('After that time, all ids and versions have to be compared. Schedule dataverse.pull() more often than every %s,'
                    ' for example once a day: %s;', life / 2,
                    format('SELECT cron.schedule(%L, ''0 3 * * *'', %L)', 'pull ' || (info ->> 'target'),
                           format('CALL dataverse.pull(%L, %L)', (info ->> 'foreign_table')::oid::regclass, info ->> 'target')));
  END IF;
  RETURN changes;
END
$$;

COMMENT ON FUNCTION dataverse.pull_token_life(dataverse.copies, jsonb) IS
  'how long tokens of change tracking live; for dataverse.pull()';

CREATE FUNCTION dataverse.pull_check_id(relation regclass, id_column text, kind text)
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
      hint = 'Rows are found by their ids, which are of type uuid in Dataverse. '
        || CASE WHEN kind = 'TABLE' AND actual <> 'text' AND actual NOT LIKE 'char%' THEN 'Name a table of which this column has that type, or one that does not exist yet.'
           ELSE format('Change the column: ALTER %s %s ALTER COLUMN %I TYPE uuid%s;', kind, relation, id_column,
                       CASE kind WHEN 'TABLE' THEN format(' USING %I::uuid', id_column) ELSE '' END) END;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pull_check_id(regclass, text, text) IS
  'refuses tables whose ids are not of the type that ids have; for dataverse.pull()';

CREATE FUNCTION dataverse.pull_is_empty(target text)
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

COMMENT ON FUNCTION dataverse.pull_is_empty(text) IS
  'whether a table has no rows; for dataverse.pull()';

-- Rows that a policy hides would look as if they were not there.
CREATE FUNCTION dataverse.pull_check_policies(target regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF row_security_active(target) THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('row security of table %s applies to role %I', target, dataverse.caller()),
      detail = 'Rows that a policy hides could not be kept in step.',
      hint = format('Have the owner of the table, for whom ALTER TABLE %s NO FORCE ROW LEVEL SECURITY; lifts it, or a role with BYPASSRLS call dataverse.pull().',
                    target);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pull_check_policies(regclass) IS
  'refuses a table whose policies apply to the caller; for dataverse.pull()';

-- What a run has prepared holds for the table that it has locked: nobody has put
-- another one in its place, or given it policies, since.
CREATE FUNCTION dataverse.pull_check_target(copy bigint, plan jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  target CONSTANT regclass := plan ->> 'target';
BEGIN
  IF (dataverse.copy_get(copy)).target_oid IS DISTINCT FROM target THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s was replaced by another one during the run', plan ->> 'target'),
      hint = 'Call it again: everything will be read.';
  END IF;
  PERFORM dataverse.pull_check_policies(target);
END
$$;

COMMENT ON FUNCTION dataverse.pull_check_target(bigint, jsonb) IS
  'refuses a table that is not as it was when the run began; for dataverse.pull()';

-- Prepares a run: creates the table, or looks at what it has; decides what to read.
CREATE FUNCTION dataverse.pull_prepare(
  copy bigint, foreign_table regclass, target text, columns text[], deletes text, drift text, "full" boolean, sweep interval,
  on_error text)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info jsonb := (SELECT to_jsonb(i) FROM dataverse.pull_info(foreign_table) AS i);
  state dataverse.copies := dataverse.copy_get(copy);
  address CONSTANT text := dataverse.pull_source_address(foreign_table);
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
  defined record;
  keyed boolean;
  indexed boolean;
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
  IF missing IS NOT NULL OR EXISTS (SELECT FROM unnest(columns) AS c WHERE c IS NULL) THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = coalesce(CASE WHEN missing IS NOT NULL THEN format('column "%s" of foreign table %s does not exist', missing, foreign_table) END,
                         '"columns" contains a null'),
      hint = 'The argument "columns" takes names of columns of the foreign table, as in ''{name,revenue}''.';
  END IF;
  IF to_regclass(target) IS NULL THEN
    state := dataverse.copy_begin_anew(copy, foreign_table);
    PERFORM dataverse.pull_create(foreign_table, target, columns, info ->> 'id_column', deletes);
    state.known := wanted;
  ELSIF coalesce(state.foreign_oid, 0) <> foreign_table AND state.foreign_table <> foreign_table::text THEN
    -- another session has made it after this one has looked
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s is a copy of another foreign table, %s', target, state.foreign_table),
      hint = 'Name another table.';
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
      hint = format('Rows are found by it. Add it: ALTER TABLE %s ADD COLUMN %I uuid UNIQUE;', target, info ->> 'id_column');
  END IF;
  PERFORM dataverse.pull_check_id(foreign_table, info ->> 'id_column', 'FOREIGN TABLE');
  PERFORM dataverse.pull_check_id(to_regclass(target), info ->> 'id_column', 'TABLE');
  -- a partitioned table can have a unique index only on columns that include those it is divided by
  SELECT coalesce(bool_or(x.indisunique AND x.indimmediate AND x.indnkeyatts = 1), false), bool_or(true)
  INTO keyed, indexed
  FROM pg_index AS x JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
  WHERE x.indrelid = to_regclass(target) AND x.indisvalid AND x.indpred IS NULL AND a.attname = info ->> 'id_column'
    AND a.atttypid = 'uuid'::regtype;
  IF NOT keyed AND NOT (coalesce(indexed, false) AND EXISTS (
    SELECT FROM pg_partitioned_table AS p JOIN pg_attribute AS a ON a.attrelid = p.partrelid AND a.attname = info ->> 'id_column'
    WHERE p.partrelid = to_regclass(target) AND a.attnum <> ALL (p.partattrs::int2[])))
  THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s has no unique index on column "%s" of type uuid alone', target, info ->> 'id_column'),
      hint = format('Rows are found by it. Create it: CREATE UNIQUE INDEX ON %s (%I);', target, info ->> 'id_column')
        || CASE WHEN EXISTS (SELECT FROM pg_partitioned_table AS p WHERE p.partrelid = to_regclass(target))
           THEN ' If the table is divided by other columns, an index that is not unique suffices.' ELSE '' END;
  END IF;
  PERFORM dataverse.pull_check_policies(to_regclass(target));
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

  info := info || jsonb_build_object('foreign_table', foreign_table::oid::bigint, 'target', target, 'columns', copied,
                                     'on_error', on_error, 'drift', drift);
  -- Change tracking does not tell that the rows were removed here, or were lost in a
  -- crash, which may have come before the end of the first run.
  IF (state.filled OR ((state.phase <> 'backfill' OR state.link IS NOT NULL) AND EXISTS (
        SELECT FROM pg_class AS c WHERE c.oid = to_regclass(target) AND c.relpersistence = 'u')))
     AND dataverse.pull_is_empty(target)
  THEN
    RAISE NOTICE USING message = format('reading all rows of foreign table %s again, because table %s is empty', foreign_table, target);
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    state := dataverse.copy_set(copy, jsonb_build_object(
      'phase', 'backfill', 'whole', false, 'again', false, 'link', NULL, 'token', NULL, 'token_at', NULL, 'ids', 0,
      'marks', '{}'::bigint[], 'marked_at', '{}'::timestamptz[], 'filled', false));
  END IF;
  IF state.source <> address THEN
    RAISE NOTICE USING message = format('reads all rows of foreign table %s again, because they were read from %s, and its server is %s now',
                                        foreign_table, state.source, address);
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    state := dataverse.copy_set(copy, jsonb_build_object(
      'phase', CASE state.phase WHEN 'backfill' THEN 'backfill' ELSE 'compare' END, 'whole', true, 'again', true, 'link', NULL,
      'token', NULL, 'token_at', NULL, 'token_life_at', NULL, 'ids', 0, 'marks', '{}'::bigint[], 'marked_at', '{}'::timestamptz[],
      'tracked', NULL, 'schema', NULL, 'metadata', NULL));
  END IF;
  changes := jsonb_build_object('source', address);
  -- Pages say whether definitions have changed since these were read.
  IF state.tracked IS NULL OR state.schema IS NULL OR state.columns <> copied OR "full" THEN
    SELECT * INTO defined FROM dataverse.pull_schema(info, copied);
    IF state.tracked IS NULL THEN
      changes := changes || jsonb_build_object('tracked', defined.tracked);
    ELSIF state.schema IS NOT NULL THEN
      PERFORM dataverse.pull_drifted(copy, info, defined.tracked, defined.schema, NULL);
      state := dataverse.copy_get(copy);
    END IF;
    changes := changes || jsonb_build_object('schema', defined.schema);
  END IF;
  reread := reread OR EXISTS (SELECT FROM unnest(copied) AS u (w) WHERE w <> ALL (state.columns));
  -- an interrupted full read goes on, unless it has to read other columns
  IF state.phase <> 'backfill' AND reread AND NOT (state.phase = 'compare' AND state.whole AND state.columns = copied
                                                   AND state.types = copied_types) THEN
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    changes := changes || jsonb_build_object('phase', 'compare', 'whole', true, 'link', NULL, 'ids', 0,
                                             'again', state.again OR state.token IS NULL);
  ELSIF state.phase = 'backfill' AND (state.columns <> copied OR state.types <> copied_types)
    OR state.columns <> copied AND (state.phase <> 'compare' OR state.whole)
  THEN
    -- a page that other columns were requested with leads to pages with these
    changes := changes || '{"link": null}';
  ELSIF state.phase = 'current' AND state.compared_at + coalesce(
    sweep, CASE WHEN (info ->> 'elastic')::boolean OR NOT state.tracked THEN interval '1 day' END) <= clock_timestamp()
  THEN
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
    changes := changes || jsonb_build_object(
      'phase', 'compare', 'whole', info ->> 'version_column' IS NULL, 'link', NULL, 'ids', 0);
  END IF;
  IF coalesce((changes ->> 'tracked')::boolean, state.tracked) THEN
    changes := changes || dataverse.pull_token_life(state, info);
  END IF;
  PERFORM dataverse.copy_set(copy, changes || jsonb_build_object(
    'columns', copied, 'types', copied_types, 'known', CASE drift WHEN 'ignore' THEN state.known ELSE wanted END));
  -- the index knows nothing of rows in children
  keyed := keyed AND NOT EXISTS (SELECT FROM pg_inherits AS h JOIN pg_class AS c ON c.oid = h.inhrelid
                                 WHERE h.inhparent = to_regclass(target) AND NOT c.relispartition);
  RETURN info || jsonb_build_object('schema', (dataverse.copy_get(copy)).schema) || dataverse.pull_statements(foreign_table, to_regclass(target), copied, info, keyed, deletes, on_error);
END
$$;

COMMENT ON FUNCTION dataverse.pull_prepare(bigint, regclass, text, text[], text, text, boolean, interval, text) IS
  'creates or checks the table of a copy, and decides what has to be read; for dataverse.pull()';

-- Whether this error is about rows, so that others may get in: values, constraints,
-- and what triggers raise, also with SQLSTATEs of classes that PostgreSQL does not use.
CREATE FUNCTION dataverse.pull_is_row_error("sqlstate" text)
RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT left($1, 2) IN ('09', '20', '21', '22', '23', '27', '2F', '38', '39', '44', '54', 'P0')
    OR left($1, 2) NOT IN ('00', '01', '02', '03', '08', '0A', '0B', '0F', '0L', '0P', '0Z', '24', '25', '26', '28', '2B', '2D',
                           '34', '3B', '3D', '3F', '40', '42', '53', '55', '57', '58', '72', 'DV', 'F0', 'HV', 'XX')
$$;

COMMENT ON FUNCTION dataverse.pull_is_row_error(text) IS
  'whether an error speaks of single rows rather than of the whole statement; for dataverse.pull()';

-- Leaves out of the page what was changed here.  Rows are locked first, and then
-- the log is looked at: whoever has changed a row before is there by then, and
-- whoever is about to do so waits for the end of this transaction.
CREATE FUNCTION dataverse.pull_spare(copy bigint, plan jsonb, phase text, locks boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
-- a page has few rows of the table
SET random_page_cost = 1.1
AS $$
DECLARE
  ids uuid[];
BEGIN
  EXECUTE plan ->> 'page_ids' INTO ids;
  IF locks THEN
    EXECUTE plan ->> 'lock' USING ids;
  END IF;
  -- rows that are being settled are pending themselves
  IF phase = 'land' THEN
    ids := ARRAY(SELECT d.id FROM dataverse.pending_dirty(copy, ids) AS d);
  ELSE
    PERFORM dataverse.sync_take(copy, plan);
    ids := dataverse.pending_among(copy, ids);
  END IF;
  IF ids <> '{}' THEN
    PERFORM dataverse.page_leave_out(ids);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pull_spare(bigint, jsonb, text, boolean) IS
  'keeps rows that were changed here from being merged; for dataverse.pull()';

-- Merges entries of the page.  Statements run as the caller would run them: with
-- the caller's search path, and with few rows looked up in the index rather than
-- joined with all of them.  Constraints that could be checked later are checked
-- here: at the COMMIT, nobody could say which row it was.
CREATE FUNCTION dataverse.pull_merge_window(
  plan jsonb, path text, phase text, first bigint, n bigint,
  OUT "rows" bigint, OUT upserts bigint, OUT inserted bigint, OUT updated bigint, OUT deleted bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.capture = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  -- in the caller's search path, operators may be anybody's
  insert_statement CONSTANT text := plan ->> CASE phase WHEN 'backfill' THEN 'backfill' ELSE 'insert' END;
  update_statement CONSTANT text := plan ->> 'update';
  delete_statement CONSTANT text := plan ->> 'delete';
BEGIN
  SELECT w.upserts, w.upserts + w.deletions INTO upserts, rows FROM dataverse.page_window(first, n) AS w;
  inserted := 0;
  updated := 0;
  deleted := 0;
  IF upserts > 0 THEN
    PERFORM set_config('search_path', path, true);
    EXECUTE insert_statement;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    SET LOCAL search_path = pg_catalog, pg_temp;
    IF inserted < upserts AND update_statement IS NOT NULL THEN
      -- some may just have been inserted here
      IF plan ? 'captured' THEN
        PERFORM dataverse.pull_spare((plan ->> 'captured')::bigint, plan, phase, false);
      END IF;
      PERFORM set_config('search_path', path, true);
      EXECUTE update_statement;
      GET DIAGNOSTICS updated = ROW_COUNT;
      SET LOCAL search_path = pg_catalog, pg_temp;
    END IF;
  END IF;
  IF rows > upserts AND delete_statement IS NOT NULL THEN
    PERFORM set_config('search_path', path, true);
    EXECUTE delete_statement;
    GET DIAGNOSTICS deleted = ROW_COUNT;
  END IF;
  PERFORM pg_catalog.set_config('search_path', path, true);
  SET CONSTRAINTS ALL IMMEDIATE;
  SET LOCAL search_path = pg_catalog, pg_temp;
END
$$;

COMMENT ON FUNCTION dataverse.pull_merge_window(jsonb, text, text, bigint, bigint) IS
  'merges some of the rows of the page that was read last; for dataverse.pull()';

-- Rows of elastic tables with the same id in several partitions are different ones,
-- of which a copy could have only one.
CREATE FUNCTION dataverse.pull_check_partitions(plan jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
  source CONSTANT regclass := (plan ->> 'foreign_table')::oid;
  ids uuid[];
  twice record;
BEGIN
  EXECUTE plan ->> 'twice' INTO ids;
  IF ids IS NULL THEN
    RETURN;
  END IF;
  -- one that was deleted, and created in another partition, is there only once
  EXECUTE plan ->> 'partitions' USING ids INTO twice;
  IF twice.id IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'cardinality_violation',
      message = format('row %s exists in several partitions of foreign table %s: %s', twice.id, source, twice.names),
      detail = 'Rows of a copy are found by their ids alone, so that all but one of these rows would be missing.',
      hint = 'Delete those that are not needed, with their ids and partitions, or leave this table out.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse.pull_check_partitions(jsonb) IS
  'refuses pages with rows that a copy cannot tell apart; for dataverse.pull()';

-- Merges the page.  If the table refuses it, it is divided until the rows are
-- known that are at fault.  These are noted, and tried again later.
CREATE FUNCTION dataverse.pull_merge(copy bigint, plan jsonb, path text, phase text)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  -- a stack of windows, of which the last one is next
  firsts bigint[] := '{0}';
  sizes bigint[];
  whole bigint;
  noted CONSTANT bigint := (dataverse.copy_get(copy)).refused;
  first bigint;
  n bigint;
  part bigint;
  i integer;
  done record;
  total record;
  entry record;
  state text;
  message text;
  detail text;
  failed uuid[] := '{}';
  deletions boolean[] := '{}';
  states text[] := '{}';
  messages text[] := '{}';
  details text[] := '{}';
  images jsonb[] := '{}';
  all_ids uuid[];
BEGIN
  -- the lock keeps changes from being captured from now on, if they are not yet
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan ->> 'target');
  PERFORM dataverse.pull_check_target(copy, plan);
  IF plan ->> 'twice' IS NOT NULL THEN
    PERFORM dataverse.pull_check_partitions(plan);
  END IF;
  IF dataverse.copy_is_captured(copy) THEN
    PERFORM dataverse.pull_spare(copy, plan, phase, true);
    plan := plan || jsonb_build_object('captured', copy);
  END IF;
  SELECT ARRAY[w.upserts + w.deletions], w.upserts + w.deletions INTO sizes, whole FROM dataverse.page_window(0, 9223372036854775807) AS w;
  SELECT 0::bigint AS rows, 0::bigint AS upserts, 0::bigint AS inserted, 0::bigint AS updated, 0::bigint AS deleted INTO total;
  WHILE cardinality(firsts) > 0 AND whole > 0 LOOP
    first := firsts[cardinality(firsts)];
    n := sizes[cardinality(sizes)];
    firsts := trim_array(firsts, 1);
    sizes := trim_array(sizes, 1);
    BEGIN
      SELECT * INTO done FROM dataverse.pull_merge_window(plan, path, phase, first, n);
      SELECT total.rows + done.rows AS rows, total.upserts + done.upserts AS upserts, total.inserted + done.inserted AS inserted,
             total.updated + done.updated AS updated, total.deleted + done.deleted AS deleted INTO total;
    EXCEPTION
      WHEN assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        IF NOT dataverse.pull_is_row_error(state) THEN
          RAISE;
        END IF;
        IF n = 1 THEN
          EXECUTE plan ->> 'entry' INTO entry;
          failed := failed || entry.id;
          deletions := deletions || entry.deleted;
          states := states || state;
          messages := messages || message;
          details := details || nullif(detail, '');
          images := images || entry.image;
        ELSE
          part := (n + 7) / 8;
          FOR i IN REVERSE (n - 1) / part .. 0 LOOP
            firsts := firsts || (first + i * part);
            sizes := sizes || least(part, n - i * part);
          END LOOP;
        END IF;
    END;
  END LOOP;
  PERFORM dataverse.page_window(0, whole);
  IF failed <> '{}' THEN
    PERFORM dataverse.copy_refuse(copy, failed, deletions, states, messages, details, images);
  END IF;
  IF noted > 0 THEN
    EXECUTE plan ->> 'page_ids' INTO all_ids;
    PERFORM dataverse.copy_admit(copy, ARRAY(SELECT a FROM unnest(all_ids) AS a EXCEPT SELECT f FROM unnest(failed) AS f));
  END IF;
  RETURN jsonb_build_object('inserted', total.inserted, 'updated', total.updated, 'deleted', total.deleted,
                            'unchanged', total.upserts - total.inserted - total.updated, 'rows_read', whole);
END
$$;

COMMENT ON FUNCTION dataverse.pull_merge(bigint, jsonb, text, text) IS
  'merges the page that was read last, and notes the rows that the table refuses; for dataverse.pull()';

-- What the ids and versions of all rows say: rows that are not there any more go,
-- and those that differ are noted.
CREATE FUNCTION dataverse.pull_compare(copy bigint, plan jsonb, path text, whole boolean)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.capture = off
AS $$
DECLARE
  counts jsonb;
  deleted bigint := 0;
  ghosts uuid[];
  differing uuid[];
  statement text;
  state text;
BEGIN
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan ->> 'target');
  PERFORM dataverse.pull_check_target(copy, plan);
  -- the foreign table has been read; nothing of it is left in the page
  PERFORM dataverse.page_start((plan ->> 'foreign_table')::oid);
  IF plan ->> 'ghosts' IS NOT NULL AND dataverse.copy_is_captured(copy) THEN
    EXECUTE plan ->> 'ghost_ids' USING copy INTO ghosts;
    PERFORM dataverse.page_delete(ghosts);
    counts := dataverse.pull_merge(copy, plan, path, 'compare');
    deleted := (counts ->> 'deleted')::bigint;
  ELSIF plan ->> 'ghosts' IS NOT NULL THEN
    BEGIN
      statement := plan ->> 'ghosts';
      PERFORM set_config('search_path', path, true);
      EXECUTE statement USING copy;
      GET DIAGNOSTICS deleted = ROW_COUNT;
      SET CONSTRAINTS ALL IMMEDIATE;
      SET LOCAL search_path = pg_catalog, pg_temp;
    EXCEPTION
      WHEN assert_failure OR OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE;
        IF NOT dataverse.pull_is_row_error(state) THEN
          RAISE;
        END IF;
        EXECUTE plan ->> 'ghost_ids' USING copy INTO ghosts;
        PERFORM dataverse.page_delete(ghosts);
        counts := dataverse.pull_merge(copy, plan, path, 'compare');
        deleted := (counts ->> 'deleted')::bigint;
    END;
  END IF;
  PERFORM dataverse.copy_admit_missing(copy);
  IF NOT whole THEN
    EXECUTE plan ->> 'differing' USING copy INTO differing;
  END IF;
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
SET dataverse_fdw.capture = off
AS $$
DECLARE
  batch uuid[] := ARRAY(SELECT i.id FROM dataverse.copy_ids_of(copy, 1000) AS i);
  counts jsonb;
BEGIN
  IF batch = '{}' THEN
    RETURN NULL;
  END IF;
  PERFORM dataverse.page_start((plan ->> 'foreign_table')::oid);
  EXECUTE plan ->> 'read' USING batch;
  counts := dataverse.pull_merge(copy, plan, path, 'settle');
  PERFORM dataverse.copy_drop_ids(copy, batch);
  RETURN counts;
END
$$;

COMMENT ON FUNCTION dataverse.pull_settle(bigint, jsonb, text) IS
  'reads some of the rows that a comparison has found to differ; for dataverse.pull()';

-- Tries some of the refused rows again.  A round goes through all of them, once
-- forwards and once backwards, so that chains of references come right whatever
-- their direction.  Returns where the next step goes on, or NULL if the last round
-- has let none in.
CREATE FUNCTION dataverse.pull_retry(run bigint, copy bigint, plan jsonb, path text, "at" jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT bigint := 1000;
  state dataverse.copies := dataverse.copy_get(copy);
  backwards boolean := coalesce((at ->> 'backwards')::boolean, true);
  dangling boolean := (at ->> 'dangling')::boolean;
  begin_at CONSTANT jsonb := '{"false": 0, "true": 9223372036854775807}';
  batch uuid[];
  deletions uuid[];
  last bigint;
BEGIN
  IF state.refused = 0 THEN
    RETURN NULL;
  END IF;
  IF at IS NULL OR at ->> 'position' IS NULL THEN
    IF (at ->> 'before')::bigint = state.refused THEN
      RETURN NULL;
    END IF;
    backwards := NOT backwards;
    dangling := true;
    at := jsonb_build_object('before', state.refused, 'backwards', backwards, 'dangling', dangling,
                             'position', begin_at -> backwards::text);
  END IF;
  SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.deleted), CASE WHEN backwards THEN min(r.number) ELSE max(r.number) END
  INTO batch, deletions, last
  FROM dataverse.copy_refused_of(copy, dangling, (at ->> 'position')::bigint, backwards, most) AS r;
  IF batch IS NULL THEN
    RETURN at || jsonb_build_object('dangling', false, 'position', CASE WHEN dangling THEN begin_at -> backwards::text END);
  END IF;
  PERFORM dataverse.page_start((plan ->> 'foreign_table')::oid);
  -- a row that is not there any more has no claim to be here; if it is, the service tells
  EXECUTE plan ->> 'read' USING ARRAY(SELECT b FROM unnest(batch) AS b EXCEPT SELECT d FROM unnest(deletions) AS d);
  PERFORM dataverse.page_delete(deletions);
  PERFORM dataverse.run_add(run, 'retry', dataverse.pull_merge(copy, plan, path, 'retry'));
  EXECUTE plan ->> 'page_ids' INTO deletions;
  PERFORM dataverse.copy_admit(copy, ARRAY(SELECT b FROM unnest(batch) AS b EXCEPT SELECT d FROM unnest(deletions) AS d));
  RETURN at || jsonb_build_object('position', last);
END
$$;

COMMENT ON FUNCTION dataverse.pull_retry(bigint, bigint, jsonb, text, jsonb) IS
  'tries some of the rows that a copy has refused again; for dataverse.pull()';

-- What has to be done so that a row gets in.
CREATE FUNCTION dataverse.pull_refusal_hint("sqlstate" text, deleted boolean)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE
    WHEN $1 = '23503' AND $2 THEN 'Other rows here still refer to the row: pull their table, delete them, or change the foreign key (ON DELETE).'
    WHEN $1 = '23503' THEN 'The row that it refers to is not here: pull the table that has it, or drop the foreign key.'
    WHEN $1 IN ('23505', '23P01')
      THEN 'Another row here has the same value. Change one of them in Dataverse, or drop the constraint; if rows exchange their values, make it DEFERRABLE.'
    WHEN $1 LIKE '22%' THEN 'Alter the column to a type that admits the value.'
    WHEN $1 LIKE '23%' THEN 'Correct the row in Dataverse, or alter the table.'
    ELSE 'Correct the row in Dataverse, or change what raises the error.' END
$$;

COMMENT ON FUNCTION dataverse.pull_refusal_hint(text, boolean) IS
  'how to cure that the table of a copy refuses a row; for dataverse.pull()';

-- What a run has to say of the rows that did not get in: nothing, a WARNING once
-- they are filed, or an error.
CREATE FUNCTION dataverse.pull_finish(
  run bigint, copy bigint, plan jsonb, OUT "sqlstate" text, OUT message text, OUT detail text, OUT hint text)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  refused CONSTANT bigint := (dataverse.copy_get(copy)).refused;
  row dataverse.copy_refused;
BEGIN
  PERFORM dataverse.copy_set(copy, jsonb_build_object('filled', NOT dataverse.pull_is_empty(plan ->> 'target')));
  IF refused = 0 THEN
    RETURN;
  END IF;
  PERFORM dataverse.run_add(run, 'retry', jsonb_build_object('rejected', refused));
  IF plan ->> 'on_error' = 'continue' THEN
    PERFORM dataverse.copy_file(copy, plan ->> 'server');
    RAISE WARNING USING
      errcode = '01000',
      message = CASE refused WHEN 1 THEN '1 row was' ELSE refused || ' rows were' END || format(' refused by table %s', plan ->> 'target'),
      hint = 'The view dataverse.rejects contains the refused rows and the reasons. The next call tries them again.';
    RETURN;
  END IF;
  SELECT (f.first).* INTO row FROM dataverse.copy_first_refused(copy) AS f;
  sqlstate := row.sqlstate;
  message := CASE WHEN refused > 1 THEN refused || ' rows were refused; the first one is ' END
    || CASE WHEN row.deleted THEN 'deletion of ' ELSE '' END || format('row %s', row.id);
  message := coalesce(message, CASE WHEN row.deleted THEN 'deletion of ' ELSE '' END || format('row %s was refused', row.id))
    || ': ' || row.message;
  detail := row.detail;
  hint := dataverse.pull_refusal_hint(row.sqlstate, row.deleted)
    || ' With on_error => ''continue'', such rows are filed in dataverse.rejects and do not make the run fail.'
    || ' All other rows that were read are here.';
END
$$;

COMMENT ON FUNCTION dataverse.pull_finish(bigint, bigint, jsonb) IS
  'files the rows that were refused in a run, or says what the error is; for dataverse.pull()';

-- Whether an error says that the service was too busy, so that the run goes on
-- waiting: that is what a schedule wants, unless the server's options say how long
-- to wait.
CREATE FUNCTION dataverse.pull_waits(foreign_table regclass, "sqlstate" text, detail text)
RETURNS boolean
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT $2 = '53400' AND strpos($3, 'Dataverse code ') > 0 AND NOT EXISTS (
    SELECT FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver, pg_options_to_table(s.srvoptions) AS o
    WHERE t.ftrelid = $1 AND o.option_name IN ('max_throttle_retries', 'max_retry_after_tolerance'))
$$;

COMMENT ON FUNCTION dataverse.pull_waits(regclass, text, text) IS
  'whether a run that was throttled goes on waiting; for dataverse.pull()';

-- The statements that grant what the caller lacks, or that make the foreign table
-- what the service's is now, if the error may come from that; NULL if there are none.
CREATE FUNCTION dataverse.pull_cure(foreign_table regclass, target text, "sqlstate" text, needed text[])
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
    SELECT string_agg(p, ', ') INTO lacking FROM unnest(needed) AS p WHERE NOT has_table_privilege(dataverse.caller(), pull_cure.foreign_table, p);
    RETURN 'Grant what the role needs here: '
      || nullif(concat_ws(' ', 'GRANT ' || lacking || format(' ON %s TO %I;', pull_cure.foreign_table, dataverse.caller()),
                (SELECT format('GRANT USAGE ON FOREIGN SERVER %I TO %I;', s.srvname, dataverse.caller())
                 FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver
                 WHERE t.ftrelid = pull_cure.foreign_table AND NOT has_server_privilege(dataverse.caller(), s.oid, 'USAGE'))), '');
  END IF;
  -- table and column not found, values of another type, that are too long or too great, and unspecified
  IF sqlstate NOT IN ('HV00R', 'HV005', 'HV004', 'HV000', '22001', '22003', '22P02', '22007', '22008') THEN
    RETURN NULL;
  END IF;
  SELECT string_agg(d.statement || ';', ' ' ORDER BY d.column_name, d.statement DESC), bool_or(d.statement LIKE 'DROP FOREIGN TABLE%') INTO statements, gone
  FROM (
    SELECT i.*, count(*) FILTER (WHERE i.drift = 'new column') OVER () AS added,
      count(*) FILTER (WHERE i.drift = 'removed column') OVER () AS removed
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, dataverse.import_diff(n.nspname, false) AS i
    WHERE c.oid = pull_cure.foreign_table AND i.foreign_table = c.relname AND i.statement IS NOT NULL) AS d
  -- new columns are the cause of no error, but may be what has become of others
  WHERE d.drift <> 'new column' OR d.added <= d.removed;
  RETURN 'The foreign table is not as the table in Dataverse (dataverse.import_diff): ' || statements
    || CASE WHEN gone THEN format(' SELECT dataverse.forget_copy(%L);', target) ELSE '' END;
EXCEPTION
  -- the error that there was before is the one to be reported
  WHEN OTHERS THEN
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse.pull_cure(regclass, text, text, text[]) IS
  'how to cure that privileges are missing here, or that a foreign table is not as the table in Dataverse; for dataverse.pull()';

-- Whether so many rows are refused that a run which will fail because of them had
-- better end.  Those that wait for others do not count.
CREATE FUNCTION dataverse.pull_is_hopeless(copy bigint, plan jsonb)
RETURNS boolean
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT bigint := 1000;
BEGIN
  RETURN plan ->> 'on_error' = 'abort' AND (dataverse.copy_get(copy)).refused > most
    AND (SELECT f.firm FROM dataverse.copy_first_refused(copy) AS f) > most;
END
$$;

COMMENT ON FUNCTION dataverse.pull_is_hopeless(bigint, jsonb) IS
  'whether a run refuses too many rows to go on; for dataverse.pull()';

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
  defined record;
  counts jsonb;
  top bigint;
  noted bigint;
  found boolean;
  changes jsonb := '{}';
  anew boolean := false;
  redefined boolean := false;
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
      changes := jsonb_build_object('phase', 'compare', 'whole', plan ->> 'version_column' IS NULL, 'link', NULL, 'ids', 0);
      state := jsonb_populate_record(state, changes);
      after := NULL;
      anew := true;
    END IF;
  END IF;
  IF state.link IS NULL AND (plan ->> 'can_follow')::boolean AND
     (NOT state.tracked OR (state.phase = 'backfill' AND NOT (plan ->> 'elastic')::boolean)) THEN
    EXECUTE format('SELECT f.%1$I FROM ONLY %2$s AS f ORDER BY f.%1$I DESC NULLS LAST LIMIT 1',
                   (SELECT i.version_column FROM dataverse.pull_info(source) AS i), source) INTO top;
    changes := changes || jsonb_build_object(
      'marks', CASE WHEN state.phase = 'backfill' THEN '{}' ELSE ARRAY(
                 SELECT m FROM unnest(state.marks, state.marked_at) AS u (m, at) WHERE after IS NULL OR m >= after ORDER BY at)
               END || coalesce(top, 0),
      'marked_at', CASE WHEN state.phase = 'backfill' THEN '{}' ELSE ARRAY(
                 SELECT at FROM unnest(state.marks, state.marked_at) AS u (m, at) WHERE after IS NULL OR m >= after ORDER BY at)
               END || clock_timestamp());
    state := jsonb_populate_record(state, changes);
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
      PERFORM dataverse.copy_set(copy, changes || jsonb_build_object(
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

  -- if pages of changes do not say it, the definition itself does, once they are read
  IF page.metadata <> coalesce(state.metadata, '') OR page.metadata IS NULL AND page.link IS NULL THEN
    SELECT * INTO STRICT defined FROM dataverse.pull_schema(plan, ARRAY(SELECT jsonb_array_elements_text(plan -> 'columns')));
    redefined := true;
  END IF;

  -- While Dataverse is waited for, nothing is locked here.  Now first the table is,
  -- and then the state of the copy: dataverse.track() and others do the same.
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan ->> 'target');
  -- rows that were there before may not exist in Dataverse: "again" in a first read
  -- means that they have to be compared in any case
  IF state.phase = 'backfill' AND state.link IS NULL THEN
    EXECUTE plan ->> 'has_rows' INTO found;
    changes := changes || jsonb_build_object('again', found);
    state := jsonb_populate_record(state, changes);
  END IF;
  IF anew THEN
    PERFORM dataverse.copy_note_ids(copy, NULL, NULL);
  END IF;
  IF changes <> '{}' THEN
    PERFORM dataverse.copy_set(copy, changes);
  END IF;
  IF redefined THEN
    IF dataverse.pull_drifted(copy, plan, defined.tracked, defined.schema, page.metadata) THEN
      RETURN true;
    END IF;
  END IF;
  IF state.phase = 'compare' THEN
    EXECUTE plan ->> 'ids' USING copy INTO noted;
    counts := jsonb_build_object('rows_compared', page.upserts);
  END IF;
  IF state.phase <> 'compare' OR state.whole THEN
    counts := coalesce(counts, '{}') || dataverse.pull_merge(copy, plan, path, state.phase);
  END IF;
  PERFORM dataverse.run_add(run, state.phase, counts);
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
      IF substring(page.token FROM '^(\d+)(?:!|%21)')::numeric <= state.marks[1] AND NOT state.again THEN
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
