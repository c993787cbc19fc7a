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
