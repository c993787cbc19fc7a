-- Both directions.  A run of dataverse.sync() pulls, and then sends local
-- changes.  Each step is committed:
--
--   stage     the rows that will be sent are noted with all their values;
--   send      they are written where the service still has the version that was
--             changed here; then they are read back and merged.
--
-- Rows that are noted as being sent when a run begins were interrupted between
-- these two, and are compared with those of the service.
--
-- Local changes are never overwritten: a row is locked before it is merged, and
-- then the log is read.  Earlier changes of the row are in the log by then; later
-- ones change the merged row.

CREATE FUNCTION dataverse_private.sync_check_columns(column_conflicts jsonb)
RETURNS void
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  name text;
  policy text;
BEGIN
  IF jsonb_typeof(column_conflicts) <> 'object' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = '"column_conflicts" is not an object',
      hint = 'Give the value for each column, as in {"creditlimit": "service"}.';
  END IF;
  FOR name, policy IN SELECT * FROM jsonb_each_text(column_conflicts) LOOP
    PERFORM dataverse_private.check_choice(format('column "%s" in "column_conflicts"', name), policy, 'skip', 'service', 'local');
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_check_columns(jsonb) IS
  'raises an error for invalid policies of columns; for dataverse.sync()';

-- Adds what a run needs to send rows to the plan of dataverse_private.pull_prepare().
-- Statements that can fire triggers run with the caller's search path, so every name
-- in them is qualified.
CREATE FUNCTION dataverse_private.sync_prepare(
  foreign_table regclass, target regclass, plan dataverse_private.copy_plan, conflict text, column_conflicts jsonb,
  strict boolean)
RETURNS dataverse_private.copy_plan
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  sync dataverse_private.sync_plan;
  columns CONSTANT text[] := plan.columns;
  id CONSTANT text := quote_ident(plan.id_column);
  version CONSTANT text := quote_ident(plan.version_column);
  source CONSTANT text := format('pg_catalog.unnest($1) AS u (r), LATERAL pg_catalog.jsonb_populate_record(NULL::%s, u.r) AS s', foreign_table);
  missing text;
  create_only text[];
  differs text;
  same text;
  other_types boolean;
BEGIN
  IF version IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = 'the versions of its rows are not copied',
      detail = 'Versions show which rows have changed on both sides.',
      hint = CASE WHEN (SELECT i.version_column FROM dataverse_private.pull_info(foreign_table) AS i) IS NULL
        THEN format('The foreign table lacks them.  Add the column: ALTER FOREIGN TABLE %s ADD COLUMN versionnumber bigint OPTIONS (readonly ''true'');',
                    foreign_table)
        ELSE 'Copy the column "versionnumber" as well; it must have type bigint in both tables.' END;
  END IF;
  IF NOT (SELECT w.on_insert FROM dataverse_private.writable_columns(foreign_table) AS w WHERE quote_ident(w.name) = id) THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('foreign table %s cannot be kept in step both ways', foreign_table),
      detail = 'Dataverse generates the ids of its rows, so rows that are inserted locally could not be found in Dataverse.',
      hint = format('Copy it with dataverse.pull(), and write to the foreign table: CALL dataverse.pull(%L, %L);', foreign_table, target);
  END IF;
  IF strict AND plan.elastic THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('rows of foreign table %s cannot be written with "strict"', foreign_table),
      detail = 'It is an elastic table, and Dataverse compares etags only in standard tables.',
      hint = 'Call dataverse.sync() without strict => true.  Versions are then compared right before the rows are written.';
  END IF;
  SELECT c INTO missing FROM jsonb_object_keys(column_conflicts) AS c WHERE c <> ALL (columns) LIMIT 1;
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column', message = format('column "%s" in "column_conflicts" is not copied', missing),
      hint = format('The columns are those that %s and %s both have.', foreign_table, target);
  END IF;
  sync.conflict := conflict;
  sync.column_conflicts := coalesce(column_conflicts, '{}');
  sync.strict := strict;
  sync.timezone := current_setting('TimeZone');
  SELECT coalesce(array_agg(w.name) FILTER (WHERE w.on_insert AND quote_ident(w.name) <> id), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE w.on_update AND quote_ident(w.name) <> id), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE w.on_insert AND NOT w.on_update AND NOT w.is_key), '{}'),
         coalesce(array_agg(w.name) FILTER (WHERE NOT w.nullable), '{}'),
         coalesce(jsonb_object_agg(w.name, w.partner) FILTER (WHERE w.partner = ANY (columns)), '{}')
  INTO sync.on_insert, sync.on_update, create_only, sync.not_null, sync.partners
  FROM dataverse_private.writable_columns(foreign_table) AS w WHERE w.name = ANY (columns) AND quote_ident(w.name) <> version;

  -- Dataverse stores empty texts and lists as nulls, lists in an order of its own, and no fractions of seconds
  SELECT string_agg(format('CASE WHEN %s AND (p.operation <> ''I'' OR i.%I IS NOT NULL) THEN %L END', replace(n.unequal, '<alias>', 'i'), c, c), ', '),
         string_agg(format('CASE WHEN p.was ? %L AND NOT (%s) THEN %1$L END', c, replace(n.unequal, '<alias>', 'w')), ', ')
  INTO differs, same
  FROM (SELECT DISTINCT unnest(sync.on_insert || sync.on_update)) AS u (c) JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = c JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_attribute AS l ON l.attrelid = target AND l.attname = c,
    LATERAL (SELECT CASE WHEN dataverse_private.pull_base_type(l.atttypid) = 'bpchar'::regtype THEN 'nullif(rtrim(%s.%I), '''' COLLATE "C")'
                         WHEN t.typcategory = 'A' THEN '(SELECT array_agg(DISTINCT e) FROM unnest(%s.%I) AS e)'
                         WHEN t.oid IN ('text'::regtype, 'varchar'::regtype) THEN 'nullif(%s.%I, '''' COLLATE "C")'
                         WHEN t.oid IN ('timestamptz'::regtype, 'timestamp'::regtype) THEN 'date_trunc(''second'', %s.%I)'
                         ELSE '%s.%I' END) AS f (form),
    LATERAL (SELECT format(CASE WHEN t.oid = 'numeric'::regtype THEN '%s IS DISTINCT FROM %s' ELSE 'ROW(%s)::record *<> ROW(%s)::record' END,
                           format(f.form, 'r', c), format(f.form, '<alias>', c))) AS n (unequal);

  sync.images := format('SELECT t.%2$s, to_jsonb(x.*) FROM %1$s AS t, LATERAL (SELECT %3$s) AS x WHERE t.%2$s = ANY ($1)', target, id,
                   (SELECT string_agg(format(CASE dataverse_private.pull_base_type(a.atttypid)
                                             WHEN 'bpchar'::regtype THEN 'CAST(t.%1$I AS pg_catalog.text) AS %1$I'
                                             WHEN 'money'::regtype THEN 'pg_catalog.trim_scale(CAST(t.%1$I AS pg_catalog.numeric)) AS %1$I'
                                             ELSE 't.%I' END, c), ', ')
                    FROM unnest(columns) AS c LEFT JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = c));
  SELECT bool_or((f.atttypid, f.atttypmod) IS DISTINCT FROM (t.atttypid, t.atttypmod)) INTO other_types
  FROM unnest(columns) AS c JOIN pg_attribute AS f ON f.attrelid = foreign_table AND f.attname = c
    LEFT JOIN pg_attribute AS t ON t.attrelid = target AND t.attname = c;

  -- Dataverse ignores them when a row is created; the foreign table sends states and images afterwards
  sync.update_only := ARRAY(SELECT c FROM unnest(sync.on_update) AS c
                            WHERE c <> ALL (sync.on_insert) OR plan.schema ->> c LIKE '% update' AND plan.schema ->> c !~ ' (State|Status|Virtual) ');
  -- and these when it is updated, or at least it may; columns that the foreign table refuses to update are not sent
  sync.create_only := ARRAY(SELECT c FROM unnest(sync.on_update || create_only) AS c
                            WHERE c = ANY (create_only) OR plan.schema ->> c LIKE '% create');
  sync.states := ARRAY(SELECT c FROM unnest(sync.on_update) AS c WHERE plan.schema ->> c ~ ' (State|Status)( |$)' ORDER BY c);
  sync.referring := ARRAY(SELECT c FROM unnest(sync.on_insert) AS c JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = c
                          WHERE a.atttypid = 'uuid'::regtype AND c <> ALL (sync.not_null));
  -- "candidates" are the columns that may be sent, "never_null" those of them whose nulls are
  -- not sent, and "readonly" those that have been changed and cannot be sent
  sync.stage := format($sql$
      WITH g AS MATERIALIZED (
        SELECT k.operation, k.columns, w.candidates, u.readonly,
               ARRAY(SELECT c FROM unnest(w.candidates) AS c WHERE k.operation = 'I' OR c = ANY (($3).not_null)) AS never_null, k.held
        FROM (SELECT DISTINCT n.operation, n.columns, n.held FROM unnest($2) AS n) AS k,
          LATERAL (SELECT CASE k.operation
                     WHEN 'U' THEN k.columns
                     WHEN 'I' THEN ARRAY(SELECT c FROM unnest($5) AS c
                                         WHERE c NOT IN (%2$L, %3$L) AND c <> ALL (k.held)
                                           AND c <> ALL (($3).update_only))
                     ELSE '{}' END AS edited) AS e,
          LATERAL (SELECT ARRAY(
                     SELECT c FROM (SELECT unnest(e.edited) UNION SELECT ($3).partners ->> c FROM unnest(e.edited) AS c) AS u (c)
                     WHERE c = ANY ($5) AND c = ANY (CASE k.operation WHEN 'I' THEN ($3).on_insert ELSE ($3).on_update END)
                     ORDER BY c) AS candidates) AS w,
          LATERAL (SELECT ARRAY(SELECT c FROM unnest(e.edited) AS c WHERE c <> ALL (w.candidates)) AS readonly) AS u)
      SELECT array_agg(ROW(s.id, s.state, s.tries, s.columns, s.held, s.image)::dataverse_private.staged_row) AS rows,
             count(*) FILTER (WHERE s.state = 'sending') AS staged, count(*) FILTER (WHERE s.unwritable) AS unwritable
      FROM (
        SELECT n.id,
               CASE WHEN d.id IS NOT NULL THEN 'new'
                    -- changed without being captured
                    WHEN (x.image IS NULL) <> (n.operation = 'D') THEN 'fetch'
                    WHEN n.operation = 'U' AND w.columns = '{}' AND n.held = '{}' THEN 'fetch'
                    ELSE 'sending' END AS state,
               -- rows that have just been changed again are left to the next run
               CASE WHEN d.id IS NOT NULL THEN 9 WHEN (x.image IS NULL) <> (n.operation = 'D') THEN n.tries ELSE n.tries + 1 END AS tries,
               CASE WHEN d.id IS NOT NULL OR (x.image IS NULL) <> (n.operation = 'D') THEN n.columns ELSE w.columns END AS columns,
               CASE WHEN d.id IS NULL AND n.operation = 'I' AND ($3).update_only <> '{}' THEN ARRAY(
                      SELECT unnest(n.held) UNION SELECT c FROM unnest(($3).update_only) AS c WHERE x.image -> c <> 'null')
                    ELSE n.held END AS held,
               CASE WHEN d.id IS NULL AND n.operation <> 'D' THEN x.image END AS image,
               -- if a row is created again, most of its values came from Dataverse
                d.id IS NULL AND n.operation <> 'D' AND EXISTS (
                  SELECT FROM unnest(g.readonly) AS c
                  WHERE x.image -> c <> 'null' AND (n.operation <> 'I' OR n.base IS NULL OR c = ANY (n.columns))) AS unwritable
        FROM unnest($2) AS n JOIN g ON g.operation = n.operation AND g.columns = n.columns AND g.held = n.held
          LEFT JOIN (%1$s) AS x (id, image) ON x.id = n.id
          LEFT JOIN unnest($4) AS d (id) ON d.id = n.id,
          LATERAL (SELECT CASE WHEN g.never_null = '{}' THEN g.candidates ELSE ARRAY(
                     SELECT c FROM unnest(g.candidates) AS c WHERE x.image -> c <> 'null' OR c <> ALL (g.never_null)) END AS columns) AS w) AS s
      $sql$, sync.images, plan.id_column, plan.version_column);
  -- values of the same types fit
  IF other_types THEN
    sync.fits := format('SELECT count(i.*) FROM unnest($1) AS u, LATERAL jsonb_populate_record(NULL::%s, u) AS i', foreign_table);
  END IF;
  sync.judge := format('WITH r AS MATERIALIZED (SELECT %1$s FROM (SELECT * FROM dataverse_private.page_rows(NULL::%2$s)'
                       ' UNION ALL SELECT * FROM dataverse_private.page_left_out(NULL::%2$s)) AS f)'
                       ' SELECT ROW(p.*)::dataverse_private.pending AS pending, r.%4$s AS version, CASE WHEN r.%3$s IS NOT NULL THEN to_jsonb(r.*) END AS theirs,'
                       ' array_remove(ARRAY[%5$s]::text[], NULL) AS differs, array_remove(ARRAY[%6$s]::text[], NULL) AS same'
                       ' FROM unnest($1) AS p LEFT JOIN r ON r.%3$s = p.id, LATERAL jsonb_populate_record(NULL::%2$s, coalesce(p.image, ''{}'')) AS i,'
                       ' LATERAL jsonb_populate_record(NULL::%2$s, p.was) AS w',
                       (SELECT string_agg(format('f.%I', c), ', ') FROM unnest(columns) AS c), foreign_table, id, version, differs, same);
  -- a column may now have another type than when its value was noted
  sync.seen_fits := format('SELECT count(w.*) FROM unnest($1) AS p, LATERAL jsonb_populate_record(NULL::%s, p.was) AS w', foreign_table);
  sync.absent := format('SELECT ARRAY(SELECT u.sought FROM unnest($1) AS u (sought) LEFT JOIN dataverse_private.page_rows(NULL::%1$s) AS s ON s.%2$s = u.sought WHERE s.%2$s IS NULL)',
                        foreign_table, id);
  sync.back := format('WITH w AS (SELECT p.id, p.operation, p.against FROM unnest($1) AS p JOIN unnest($2) AS w ON w = p.id)'
                      ' SELECT ARRAY(SELECT s.%2$s FROM dataverse_private.page_rows(NULL::%1$s) AS s JOIN w ON w.id = s.%2$s'
                      ' WHERE w.operation <> ''D'' AND s.%3$s IS DISTINCT FROM w.against),'
                      ' ARRAY(SELECT d FROM dataverse_private.page_deletions() AS d JOIN w ON w.id = d WHERE w.operation = ''D'')',
                      foreign_table, id, version);
  sync.land_part := format('UPDATE %1$s AS t SET %%s FROM %2$s WHERE t.%3$s OPERATOR(pg_catalog.=) s.%3$s',
                           replace(target::text, '%', '%%'), replace(source, '%', '%%'), replace(id, '%', '%%'));
  plan.sync := sync;
  RETURN plan;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_prepare(regclass, regclass, dataverse_private.copy_plan, text, jsonb, boolean) IS
  'the statements of a run of dataverse.sync()';

-- Returns the token since which changes in Dataverse are read when rows are sent, or null if
-- versions are read by the ids of the rows instead.  Without such a change, a row must have the
-- version that the copy had.  So all rows must have been merged up to the token, except pending
-- ones that the service had news of, and change tracking must tell of each row.
CREATE FUNCTION dataverse_private.sync_token(copy bigint, plan dataverse_private.copy_plan)
RETURNS text
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN c.phase = 'current' AND c.tracked AND c.refused = 0 AND NOT c.behind AND NOT ($2).elastic AND NOT (($2).sync).strict THEN c.token END
  FROM dataverse_private.copy_get($1) AS c
$$;

COMMENT ON FUNCTION dataverse_private.sync_token(bigint, dataverse_private.copy_plan) IS
  'the token since which changes are read when rows are sent; for dataverse.sync()';

-- Reads changes since a token into the page, and returns the ids and versions of rows, and the
-- token at their end.  This is null if the service does not return them in one page: then lists
-- of ids cost less.  The copy keeps its token, since these changes are not merged.
CREATE FUNCTION dataverse_private.sync_look(
  plan dataverse_private.copy_plan, columns text[], INOUT token text, OUT ids uuid[], OUT versions bigint[])
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  page record;
BEGIN
  ids := '{}';
  versions := '{}';
  IF token IS NULL THEN
    RETURN;
  END IF;
  BEGIN
    SELECT * INTO STRICT page FROM dataverse_private.read_page(plan.foreign_table, columns, NULL, token, NULL, false, NULL);
  EXCEPTION
    -- the token has expired, or the table is no longer tracked
    WHEN SQLSTATE 'DV001' OR SQLSTATE 'DV002' THEN
      token := NULL;
      RETURN;
  END;
  -- the token goes back if the environment was restored from a backup
  IF page.link IS NOT NULL OR dataverse_private.pull_token_version(page.token) < dataverse_private.pull_token_version(token) THEN
    PERFORM dataverse_private.end_pages();
    token := NULL;
    RETURN;
  END IF;
  token := page.token;
  EXECUTE plan.versions INTO ids, versions;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_look(dataverse_private.copy_plan, text[], text) IS
  'reads what has changed in Dataverse while rows are sent; for dataverse.sync()';

-- Takes local changes from the log.  Rows that are hidden by row security would
-- look like deleted ones.
CREATE FUNCTION dataverse_private.sync_take(copy bigint, plan dataverse_private.copy_plan)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
SET row_security = off
AS $$
DECLARE
  existing uuid[];
BEGIN
  -- before anything of the copy is locked, as in dataverse.untrack()
  EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', plan.target);
  IF dataverse_private.pending_take(copy, ARRAY(SELECT c FROM unnest(plan.columns) AS c
                                        WHERE c NOT IN (plan.id_column, plan.version_column))) THEN
    EXECUTE plan.existing USING copy INTO existing;
    PERFORM dataverse_private.pending_place(copy, coalesce(existing, '{}'));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_take(bigint, dataverse_private.copy_plan) IS
  'takes local changes from the log; for dataverse.sync()';

-- Puts the rows of the page into the table as the service has them, and removes those
-- that it does not have.  Rows that were changed locally since are left alone and
-- returned.
CREATE FUNCTION dataverse_private.sync_land(copy bigint, plan dataverse_private.copy_plan, path text, ids uuid[])
RETURNS TABLE (id uuid, columns text[], whole boolean)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  absent uuid[];
BEGIN
  EXECUTE (plan.sync).absent USING ids INTO absent;
  PERFORM dataverse_private.page_delete(absent);
  -- for the triggers of the table
  PERFORM set_config('TimeZone', (plan.sync).timezone, true);
  PERFORM dataverse_private.pull_merge(copy, plan, path, 'land');
  SET LOCAL timezone = 'UTC';
  RETURN QUERY SELECT d.id, d.columns, d.whole FROM dataverse_private.pending_dirty(copy, ids) AS d;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_land(bigint, dataverse_private.copy_plan, text, uuid[]) IS
  'merges rows that were read back; for dataverse.sync()';

-- Copies single columns into rows that stay pending; "parts" are arrays of their names
-- as texts, since they differ in length.  Returns the rows that
-- were changed locally since, which are left alone.
CREATE FUNCTION dataverse_private.sync_land_part(
  copy bigint, plan dataverse_private.copy_plan, path text, ids uuid[], rows jsonb[], parts text[])
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET dataverse_fdw.capture = off
AS $$
DECLARE
  dirty uuid[];
  part record;
  statement text;
BEGIN
  PERFORM dataverse_private.pull_check_target(copy, plan);
  EXECUTE plan.lock USING ids;
  dirty := ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d);
  FOR part IN
    SELECT u.c AS names, array_agg(u.r) AS rows FROM unnest(ids, rows, parts) AS u (i, r, c) WHERE u.i <> ALL (dirty) GROUP BY u.c
  LOOP
    statement := format((plan.sync).land_part,
      (SELECT string_agg(format('%I = %s', c.name, c.input), ', ') FROM unnest(plan.columns, plan.inputs) AS c (name, input)
       WHERE c.name = ANY (part.names::text[])));
    PERFORM set_config('TimeZone', (plan.sync).timezone, true);
    PERFORM set_config('search_path', path, true);
    EXECUTE statement USING part.rows;
    -- at the COMMIT, triggers would run unguarded
    SET CONSTRAINTS ALL IMMEDIATE;
    SET LOCAL search_path = pg_catalog, pg_temp;
    SET LOCAL timezone = 'UTC';
  END LOOP;
  RETURN dirty;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_land_part(bigint, dataverse_private.copy_plan, text, uuid[], jsonb[], text[]) IS
  'takes single columns of rows that were read back; for dataverse.sync()';

-- Files rows with changes of columns that are no longer copied, and returns the
-- others: such a change can neither be sent nor compared, and a run must not
-- decide to forget it.  These rows are marked as if the service had news of them,
-- so that they are examined at once.
CREATE FUNCTION dataverse_private.sync_file_uncopied(
  copy bigint, plan dataverse_private.copy_plan, INOUT rows dataverse_private.pending[], OUT filed bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
DECLARE
  found_ids uuid[];
  images jsonb[];
  found record;
  p dataverse_private.pending;
  uncopied dataverse_private.pending[] := '{}';
BEGIN
  found_ids := ARRAY(SELECT r.id FROM unnest(rows) AS r
                     WHERE r.operation = 'U' AND NOT r.columns || r.held <@ plan.columns);
  filed := 0;
  IF found_ids = '{}' THEN
    RETURN;
  END IF;
  -- a row that is missing locally is treated as such
  EXECUTE format('SELECT array_agg(x.id), array_agg(x.image) FROM (%s) AS x (id, image)', (plan.sync).images)
    INTO found_ids, images USING found_ids;
  IF found_ids IS NULL THEN
    RETURN;
  END IF;
  FOR found IN SELECT r AS pending, f.image FROM unnest(found_ids, images) AS f (id, image) JOIN unnest(rows) AS r ON r.id = f.id LOOP
    p := dataverse_private.pending_to_file(found.pending, NULL, NULL, true);
    p.columns := (found.pending).columns || (found.pending).held;
    p.against := (found.pending).against;
    p.ours := found.image;
    p.kind := 'refused';
    p.touched := true;
    p.sqlstate := '42703';
    p.error := 'no longer copied: ' || (SELECT string_agg(c, ', ') FROM unnest(p.columns) AS c WHERE c <> ALL (plan.columns));
    uncopied := uncopied || p;
  END LOOP;
  PERFORM dataverse_private.pending_set(copy, uncopied);
  filed := cardinality(found_ids);
  rows := ARRAY(SELECT r FROM unnest(rows) AS r WHERE r.id <> ALL (found_ids));
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_file_uncopied(bigint, dataverse_private.copy_plan, dataverse_private.pending[]) IS
  'files rows with changes of columns that are no longer copied; for dataverse.sync()';

-- Chooses the rows that are sent next, and notes them with all values that the
-- service should have afterwards.
CREATE FUNCTION dataverse_private.sync_stage(
  copy bigint, plan dataverse_private.copy_plan, OUT chosen bigint, OUT staged bigint, OUT unwritable bigint,
  OUT refused bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
-- a chunk has few rows of the table, and they are made jsonb once
SET random_page_cost = 1.1
SET enable_nestloop = off
SET extra_float_digits = 1
AS $$
DECLARE
  -- a page of 5,000 changes has room for these and for those of others
  chunk CONSTANT bigint := 4000;
  rows dataverse_private.pending[] := dataverse_private.pending_next(copy, '{new}', chunk);
  ids uuid[];
  fits boolean := true;
  noted record;
  p dataverse_private.pending;
  misfits dataverse_private.pending[] := '{}';
  problem text;
  problem_state text;
BEGIN
  chosen := cardinality(rows);
  staged := 0;
  unwritable := 0;
  SELECT f.rows, f.filed INTO rows, refused FROM dataverse_private.sync_file_uncopied(copy, plan, rows) AS f;
  IF rows = '{}' THEN
    RETURN;
  END IF;
  ids := ARRAY(SELECT r.id FROM unnest(rows) AS r);
  EXECUTE plan.lock USING ids;
  EXECUTE (plan.sync).stage USING ids, rows, plan.sync, ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d), plan.columns
    INTO STRICT noted;
  unwritable := noted.unwritable;
  staged := noted.staged;
  PERFORM dataverse_private.pending_stage(copy, noted.rows);
  -- values that cannot be converted to the types of the foreign table
  IF (plan.sync).fits IS NOT NULL THEN
    BEGIN
      EXECUTE (plan.sync).fits USING ARRAY(SELECT r.image FROM unnest(noted.rows) AS r WHERE r.state = 'sending');
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      fits := false;
    END;
  END IF;
  IF NOT fits THEN
    FOR p IN SELECT * FROM unnest(dataverse_private.pending_next(copy, '{sending}', chunk)) LOOP
      BEGIN
        EXECUTE (plan.sync).fits USING ARRAY[p.image];
      EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
        GET STACKED DIAGNOSTICS problem_state = RETURNED_SQLSTATE, problem = MESSAGE_TEXT;
        p.state := 'filed';
        p.kind := 'refused';
        p.ours := p.image;
        p.image := NULL;
        p.theirs := NULL;
        p.seen := NULL;
        p.sqlstate := problem_state;
        p.error := problem;
        p.found_at := clock_timestamp();
        misfits := misfits || p;
        staged := staged - 1;
        refused := refused + 1;
      END;
    END LOOP;
    PERFORM dataverse_private.pending_set(copy, misfits);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_stage(bigint, dataverse_private.copy_plan) IS
  'records which rows will be sent; for dataverse.sync()';

-- Writes the rows that are noted, with a statement for each operation and set of
-- columns.  Rows with another version in Dataverse are left alone by the
-- statement itself, and are found when all rows are read back.  Rows in "fresh" are
-- known to have no other version, and are written without being read.
CREATE FUNCTION dataverse_private.sync_send(
  copy bigint, plan dataverse_private.copy_plan, rows dataverse_private.pending[], fresh uuid[], OUT written uuid[],
  OUT refused jsonb)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.run_settings = ''
SET client_min_messages = error
-- all versions are read before the first row is written, many in a request, however fast the
-- service is
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_hashjoin = on
AS $$
DECLARE
  source CONSTANT text := plan.source;
  id CONSTANT text := quote_ident(plan.id_column);
  version CONSTANT text := quote_ident(plan.version_column);
  last_reject CONSTANT bigint := (SELECT coalesce(max(r.id), 0) FROM dataverse_private.own_rejects AS r);
  part record;
  is_same text;
  input text;
  statement text;
  ids uuid[];
  filed bigint[];
BEGIN
  written := '{}';
  refused := '{}';
  PERFORM dataverse_private.hold(source, plan.foreign_table);
  FOR part IN
    SELECT p.operation, p.columns, array_agg(p.id ORDER BY p.id) AS ids, array_agg(p.against ORDER BY p.id) AS versions,
           array_agg(p.image ORDER BY p.id) AS images, f IS NOT NULL AS fresh
    FROM unnest(rows) AS p LEFT JOIN unnest(sync_send.fresh) AS f ON f = p.id GROUP BY p.operation, p.columns, f IS NOT NULL
    -- deleting a row changes those that refer to it
    ORDER BY f IS NOT NULL
  LOOP
    is_same := CASE WHEN part.fresh THEN 'true' ELSE format('f.%s = p.version', version) END;
    input := format('jsonb_to_record(p.image) AS i (%s)',
                     (SELECT string_agg(format('%I %s', c.name, c.type), ', ') FROM unnest(plan.columns, plan.types) AS c (name, type)
                      WHERE c.name = ANY (plan.id_column || part.columns)));
    statement := CASE part.operation
      WHEN 'I' THEN format('INSERT INTO %1$s AS f (%2$s) SELECT %3$s FROM unnest($1, $2, $3) WITH ORDINALITY AS p (id, version, image, n),'
                           ' %4$s ORDER BY p.n', source,
                           (SELECT string_agg(quote_ident(c), ', ') FROM unnest(plan.id_column || part.columns) AS c),
                           (SELECT string_agg(CASE quote_ident(c) WHEN id THEN 'p.id' ELSE 'i.' || quote_ident(c) END, ', ')
                            FROM unnest(plan.id_column || part.columns) AS c), input)
      WHEN 'U' THEN format('UPDATE ONLY %1$s AS f SET %2$s FROM unnest($1, $2, $3) AS p (id, version, image), %5$s'
                           ' WHERE f.%3$s = ANY ($1) AND f.%3$s = p.id AND %4$s', source,
                           (SELECT string_agg(format('%1$I = i.%1$I', c), ', ') FROM unnest(part.columns) AS c), id, is_same, input)
      ELSE format('DELETE FROM ONLY %1$s AS f USING unnest($1, $2) AS p (id, version)'
                  ' WHERE f.%2$s = ANY ($1) AND f.%2$s = p.id AND $3 IS NOT NULL AND %3$s', source, id, is_same) END;
    CONTINUE WHEN part.operation = 'U' AND part.columns = '{}';
    PERFORM set_config('dataverse_fdw.run_settings', dataverse_private.run_settings(plan.foreign_table, jsonb_build_object(
      'on_error', 'continue', 'insert_mode', 'create',
      'match_version', CASE WHEN NOT (plan.sync).strict THEN '' WHEN part.operation = 'I' THEN 'off' ELSE 'on' END)), true);
    EXECUTE format('WITH w AS (%s RETURNING f.%s AS id) SELECT array_agg(w.id) FROM w', statement, id)
      USING part.ids, part.versions, part.images INTO ids;
    written := written || coalesce(ids, '{}');
  END LOOP;
  -- the entries filed among the rejects belong to the pending row; any role may lock
  -- dataverse.rejects
  filed := ARRAY(SELECT o.id FROM dataverse_private.own_rejects AS o
                 WHERE o.id > last_reject AND o.pid = pg_backend_pid() AND o.row_id IN (SELECT p.id FROM unnest(rows) AS p));
  IF filed <> '{}' THEN
    refused := (SELECT jsonb_object_agg(r.row_id, jsonb_build_array(r.sqlstate, r.message)) FROM dataverse_private.visible_rejects AS r WHERE r.id = ANY (filed));
    -- deletes them (rule delete_retried)
    UPDATE dataverse_private.own_rejects AS o SET attempts = o.attempts WHERE o.id = ANY (filed);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_send(bigint, dataverse_private.copy_plan, dataverse_private.pending[], uuid[]) IS
  'writes rows in Dataverse; for dataverse.sync()';

-- Returns how to treat columns in conflict: by a decision, or as the call says.
CREATE FUNCTION dataverse_private.sync_policy(
  sync dataverse_private.sync_plan, decision text, columns text[], policy text)
RETURNS text[]
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT ARRAY(SELECT c FROM unnest($3) AS c WHERE coalesce($2, ($1).column_conflicts ->> c, ($1).conflict) = $4)
$$;

COMMENT ON FUNCTION dataverse_private.sync_policy(dataverse_private.sync_plan, text, text[], text) IS
  'the columns to which a policy applies; for dataverse.sync()';

-- Decides about a pending row, given the row of the service.  Returns what becomes of
-- it, or null if the row of the service is to be taken as it is, unless it stays ("keeps")
-- as it is.  "differs" are the columns in which the row of the service differs from ours,
-- "same" the edited ones in which it still has the value last seen.  "part" are columns to
-- be taken from it while the rest stays pending.
CREATE FUNCTION dataverse_private.sync_judge(
  plan dataverse_private.copy_plan, p dataverse_private.pending, theirs jsonb, version bigint, differs text[],
  same text[], written boolean, refusal jsonb,
  OUT next dataverse_private.pending, OUT keeps boolean, OUT part text[])
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  there CONSTANT boolean := theirs IS NOT NULL;
  sync CONSTANT dataverse_private.sync_plan := plan.sync;
  edited CONSTANT text[] := ARRAY(SELECT unnest(p.columns) UNION SELECT unnest(p.held) ORDER BY 1);
  unseen boolean := p.state <> 'filed' OR CASE WHEN p.kind = 'refused' AND p.seen IS NULL THEN version IS DISTINCT FROM p.against
                                               ELSE p.seen IS DISTINCT FROM version OR (p.theirs IS NOT NULL) <> there END;
  decision text := CASE WHEN NOT unseen THEN p.decision END;
  -- columns that are no longer copied cannot be compared
  uncopied CONSTANT boolean := p.operation = 'U' AND NOT edited <@ plan.columns;
  begins CONSTANT boolean := EXISTS (
    SELECT FROM unnest(sync.states) AS c WHERE plan.schema ->> c ~ ' State( |$)' AND theirs -> c = '0');
  columns text[];
  missing text[];
  alone text[];
  service text[];
  local text[];
  skip text[];
BEGIN
  keeps := false;
  part := '{}';
  -- values that cannot be compared are not the same
  IF p.image IS NULL AND p.operation <> 'D' THEN
    differs := edited;
  END IF;
  IF p.state = 'fetch' THEN
    RETURN;
  END IF;
  -- columns that Dataverse accepts only when a row is created cannot be changed any more
  differs := ARRAY(SELECT c FROM unnest(differs) AS c WHERE NOT (there AND c = ANY (sync.create_only)));
  -- send columns that were omitted when the row was created; also its state, if it still has the
  -- initial state of all rows
  missing := ARRAY(SELECT c FROM unnest(differs) AS c
                   WHERE c = ANY (sync.on_update) AND (c = ANY (p.held) AND theirs -> c = 'null' OR NOT written AND c = ANY (sync.states) AND begins));
  IF p.operation = 'I' AND there AND p.state = 'sending' AND missing <> '{}'
     AND (written OR (refusal IS NULL AND NOT EXISTS (SELECT FROM unnest(differs) AS c WHERE c = ANY (edited) AND c <> ALL (missing)))) THEN
    next := dataverse_private.pending_to_send(p);
    next.operation := 'U';
    next.base := version;
    next.against := version;
    next.tries := 0;
    next.held := '{}';
    next.columns := ARRAY(
      SELECT unnest(missing) UNION SELECT sync.partners ->> m FROM unnest(missing) AS m WHERE sync.partners ->> m = ANY (edited) ORDER BY 1);
    RETURN;
  END IF;
  IF written THEN
    IF p.held <> '{}' AND p.operation <> 'I' AND there THEN
      next := dataverse_private.pending_to_file(p, theirs, version, unseen);
      next.kind := 'changed';
      next.columns := p.held;
    END IF;
    RETURN;
  END IF;
  -- if the row exists, or has changed, this is recognized as such
  IF refusal IS NOT NULL AND NOT (refusal ->> 0 IN ('40001', '40003') OR (refusal ->> 0 = '23505' AND p.operation = 'I' AND there)) THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.kind := 'refused';
    next.columns := edited;
    next.sqlstate := refusal ->> 0;
    next.error := refusal ->> 1;
    -- the reason why it was refused with its references
    IF p.operation = 'I' AND NOT there AND p.held && sync.referring THEN
      next.sqlstate := p.sqlstate;
      next.error := p.error;
    END IF;
    -- the row was created, but could not get its state or its image
    IF p.operation = 'I' AND there THEN
      next.operation := 'U';
      next.base := version;
      next.against := version;
      next.columns := ARRAY(SELECT unnest(edited) INTERSECT SELECT unnest(differs) ORDER BY 1);
    END IF;
    RETURN;
  END IF;
  -- filed, without news
  IF NOT unseen AND decision IS NULL THEN
    keeps := true;
    RETURN;
  END IF;
  IF p.state = 'filed' AND decision IS NOT NULL AND p.kind = 'refused' THEN
    IF decision = 'local' THEN
      next := dataverse_private.pending_to_send(p);
      next.tries := 0;
      -- all differences are ours, whatever the name of the column is now, unless the row has
      -- changed in Dataverse, which makes this a conflict
      IF uncopied AND p.sqlstate = '42703' THEN
        next.columns := ARRAY(SELECT d FROM unnest(differs) AS d WHERE d = ANY (sync.on_update));
      END IF;
    END IF;
    RETURN;
  END IF;
  IF p.state = 'filed' AND there AND uncopied AND p.sqlstate = '42703' THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.columns := edited;
    next.sqlstate := p.sqlstate;
    next.error := p.error;
    RETURN;
  END IF;

  IF p.operation = 'D' THEN
    IF NOT there THEN
      RETURN;
    ELSIF version = p.against AND p.state = 'sending' THEN
      next := dataverse_private.pending_to_send(p);
      RETURN;
    END IF;
    CASE coalesce(decision, sync.conflict)
      WHEN 'service' THEN NULL;
      WHEN 'local' THEN
        next := dataverse_private.pending_to_send(p);
        next.against := version;
      ELSE
        next := dataverse_private.pending_to_file(p, theirs, version, unseen);
        next.kind := 'deleted here';
        next.columns := '{}';
    END CASE;
    RETURN;
  END IF;

  IF NOT there THEN
    IF p.operation = 'I' THEN
      next := dataverse_private.pending_to_send(p);
    ELSIF dataverse_private.sync_policy(sync, decision, edited, 'skip') <> '{}' THEN
      next := dataverse_private.pending_to_file(p, theirs, version, unseen);
      next.kind := 'deleted there';
      next.columns := edited;
    ELSIF dataverse_private.sync_policy(sync, decision, edited, 'local') <> '{}' THEN
      next := dataverse_private.pending_to_send(p);
      next.operation := 'I';
      next.against := NULL;
      next.held := '{}';
    END IF;
    RETURN;
  END IF;
  IF p.operation = 'U' AND version = p.against AND p.state = 'sending' THEN
    next := dataverse_private.pending_to_send(p);
    RETURN;
  END IF;
  columns := ARRAY(
    SELECT c FROM (SELECT unnest(differs) UNION SELECT sync.partners ->> d FROM unnest(differs) AS d) AS u (c) WHERE c = ANY (edited) ORDER BY c);
  IF columns = '{}' THEN
    -- to be filed as such
    IF uncopied AND decision IS DISTINCT FROM 'service' THEN
      next := dataverse_private.pending_to_send(p);
      next.against := version;
    END IF;
    RETURN;
  END IF;
  -- columns that are unchanged in Dataverse are not in conflict; a lookup and the name of its
  -- table go together
  alone := ARRAY(SELECT c FROM unnest(columns) AS c
                 WHERE decision IS NULL AND c = ANY (same) AND coalesce(sync.partners ->> c = ANY (same) OR NOT p.was ? (sync.partners ->> c), true));
  columns := ARRAY(SELECT c FROM unnest(columns) AS c WHERE c <> ALL (alone));
  service := dataverse_private.sync_policy(sync, decision, columns, 'service');
  local := alone || dataverse_private.sync_policy(sync, decision, columns, 'local');
  skip := dataverse_private.sync_policy(sync, decision, columns, 'skip');
  IF skip = '{}' AND local = '{}' THEN
    RETURN;
  END IF;
  -- a row that is sent is read back as a whole
  part := service || CASE WHEN skip <> '{}' THEN ARRAY(
    SELECT d FROM unnest(differs) AS d WHERE d <> ALL (edited) AND coalesce(sync.partners ->> d <> ALL (edited), true)) ELSE '{}' END;
  next := p;
  IF skip <> '{}' THEN
    next := dataverse_private.pending_to_file(p, theirs, version, unseen);
    next.kind := CASE p.operation WHEN 'I' THEN 'exists' ELSE 'changed' END;
    next.columns := skip;
  END IF;
  IF local <> '{}' THEN
    next := dataverse_private.pending_to_send(next);
    next.operation := 'U';
    next.against := version;
    next.columns := local;
    next.held := skip;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_judge(dataverse_private.copy_plan, dataverse_private.pending, jsonb, bigint, text[], text[], boolean, jsonb) IS
  'decides how to proceed with a pending row; for dataverse.sync()';

-- Rows that exist but are missing from the page stay as they are and pending:
-- without the row of the service, nothing can be decided.  Returns the other rows,
-- and which of all rows are known to have been written.
CREATE FUNCTION dataverse_private.sync_hide(
  copy bigint, plan dataverse_private.copy_plan, INOUT rows dataverse_private.pending[], INOUT written uuid[],
  refusals jsonb)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  samples CONSTANT bigint := 10;
  absent uuid[];
  sent uuid[];
  hidden uuid[];
BEGIN
  written := written || ARRAY(SELECT r.id FROM unnest(rows) AS r WHERE r.arrived);
  EXECUTE (plan.sync).absent USING ARRAY(
    SELECT r.id FROM unnest(rows) AS r
    WHERE NOT refusals ? r.id::text AND (r.operation <> 'D' OR NOT EXISTS (SELECT FROM unnest(written) AS w WHERE w = r.id))) INTO absent;
  IF absent = '{}' THEN
    RETURN;
  END IF;
  -- a row that was just written exists, unless it has been deleted since
  sent := ARRAY(SELECT a FROM unnest(absent) AS a JOIN unnest(written) AS w ON w = a ORDER BY 1);
  hidden := dataverse_private.pull_hidden(plan, sent, greatest(cardinality(sent), 1)) || dataverse_private.pull_hidden(
    plan, ARRAY(SELECT a FROM unnest(absent) AS a EXCEPT SELECT s FROM unnest(sent) AS s ORDER BY 1), samples);
  IF hidden = '{}' THEN
    RETURN;
  END IF;
  -- the user that may not read them is set aside now; another one may
  EXECUTE plan.read USING hidden;
  EXECUTE (plan.sync).absent USING hidden INTO hidden;
  PERFORM dataverse_private.pending_hide(copy, hidden, sent);
  rows := ARRAY(SELECT r FROM unnest(rows) AS r WHERE NOT EXISTS (SELECT FROM unnest(hidden) AS h WHERE h = r.id));
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_hide(bigint, dataverse_private.copy_plan, dataverse_private.pending[], uuid[], jsonb) IS
  'omits rows that exist but cannot be read; for dataverse.sync()';

-- Reads rows from the service into the page.  Changes since the token have those that were
-- written; others, and rows that still have the version from before, are read by their ids.
CREATE FUNCTION dataverse_private.sync_read_back(
  plan dataverse_private.copy_plan, rows dataverse_private.pending[], written uuid[], INOUT token text,
  OUT ids uuid[], OUT versions bigint[])
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  left_over uuid[] := ARRAY(SELECT r.id FROM unnest(rows) AS r);
  back uuid[];
  gone uuid[];
BEGIN
  SELECT k.* INTO token, ids, versions FROM dataverse_private.sync_look(plan, plan.columns, token) AS k;
  IF token IS NULL THEN
    PERFORM dataverse_private.page_start(plan.foreign_table);
  ELSE
    EXECUTE (plan.sync).back USING rows, written INTO back, gone;
    PERFORM dataverse_private.page_keep(back);
    left_over := ARRAY(SELECT l FROM unnest(left_over) AS l EXCEPT SELECT b FROM unnest(back || gone) AS b);
  END IF;
  IF left_over <> '{}' THEN
    EXECUTE plan.read USING left_over;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_read_back(dataverse_private.copy_plan, dataverse_private.pending[], uuid[], text) IS
  'reads pending rows from the service; for dataverse.sync()';

-- Reads rows from the service, as changes since a token if there is one, and settles their pending changes.
-- Rows that were written, and those of which only the row of the service is wanted,
-- need no decision.
CREATE FUNCTION dataverse_private.sync_settle(
  copy bigint, plan dataverse_private.copy_plan, path text, rows dataverse_private.pending[], written uuid[],
  refusals jsonb, INOUT token text DEFAULT NULL, OUT refused bigint, OUT ignored bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
DECLARE
  told_ids uuid[];
  told_versions bigint[];
  hiding record;
  was_written jsonb;
  unclear dataverse_private.pending[];
  read record;
  judged record;
  changes dataverse_private.pending[] := '{}';
  ids uuid[];
  kept uuid[] := '{}';
  unchanged uuid[] := '{}';
  part_ids uuid[] := '{}';
  part_rows jsonb[] := '{}';
  parts text[] := '{}';
  part_changes dataverse_private.pending[] := '{}';
  p dataverse_private.pending;
  dirty_ids uuid[] := '{}';
  dirty jsonb := '{}';
BEGIN
  refused := 0;
  ignored := 0;
  SELECT b.* INTO token, told_ids, told_versions FROM dataverse_private.sync_read_back(plan, rows, written, token) AS b;
  hiding := dataverse_private.sync_hide(copy, plan, rows, written, refusals);
  rows := hiding.rows;
  written := hiding.written;
  -- before anything of the copy is locked, as in dataverse.untrack()
  EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', plan.target);
  PERFORM dataverse_private.pending_told(copy, told_ids, told_versions);
  SELECT coalesce(array_agg(r.id) FILTER (WHERE s.settled), '{}'), coalesce(array_agg(r) FILTER (WHERE NOT s.settled), '{}'),
         coalesce(jsonb_object_agg(w, true) FILTER (WHERE w IS NOT NULL AND NOT s.settled), '{}')
  INTO ids, unclear, was_written
  FROM unnest(rows) AS r LEFT JOIN unnest(written) AS w ON w = r.id,
    LATERAL (SELECT r.state = 'fetch' OR (w IS NOT NULL AND r.held = '{}' AND NOT (plan.sync).create_only && r.columns) AS settled) AS s;
  IF unclear <> '{}' THEN
    BEGIN
      EXECUTE (plan.sync).seen_fits USING unclear;
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      unclear := ARRAY(SELECT jsonb_populate_record(u, '{"was": {}}') FROM unnest(unclear) AS u);
    END;
    FOR read IN EXECUTE (plan.sync).judge USING unclear LOOP
      p := read.pending;
      judged := dataverse_private.sync_judge(plan, p, read.theirs, read.version, read.differs, read.same, was_written ? p.id::text, refusals -> p.id::text);
      IF (judged.next).id IS NULL AND NOT judged.keeps THEN
        ids := ids || p.id;
        ignored := ignored + (p.operation = 'U' AND p.state = 'sending' AND EXISTS (
          SELECT FROM unnest(read.differs) AS d WHERE d = ANY (p.columns) AND d = ANY ((plan.sync).create_only)))::integer;
        CONTINUE;
      END IF;
      kept := kept || p.id;
      IF judged.keeps THEN
        unchanged := unchanged || p.id;
      ELSIF judged.part = '{}' THEN
        changes := changes || judged.next;
      ELSE
        part_changes := part_changes || judged.next;
        part_ids := part_ids || p.id;
        part_rows := part_rows || read.theirs;
        parts := parts || judged.part::text;
      END IF;
      -- each has whole rows, and appending copies the array
      IF cardinality(changes) >= 64 THEN
        PERFORM dataverse_private.pending_set(copy, changes);
        changes := '{}';
      END IF;
      refused := refused + (refusals ? p.id::text AND coalesce((judged.next).state = 'filed' AND (judged.next).kind = 'refused', false))::integer;
    END LOOP;
    PERFORM dataverse_private.page_leave_out(kept);
  END IF;
  IF ids <> '{}' THEN
    SELECT coalesce(array_agg(d.id), '{}'), coalesce(jsonb_object_agg(d.id, to_jsonb(d)), '{}') INTO dirty_ids, dirty
    FROM dataverse_private.sync_land(copy, plan, path, ids) AS d;
    -- later local changes are based on the row that the service has now, if
    -- only we have changed that
    IF dirty_ids <> '{}' THEN
      FOR read IN EXECUTE (plan.sync).judge
        USING ARRAY(SELECT jsonb_populate_record(r, '{"was": {}}') FROM unnest(rows) AS r JOIN unnest(dirty_ids) AS d ON d = r.id) LOOP
        p := dataverse_private.pending_to_take(read.pending);
        p.columns := '{}';
        p.held := '{}';
        IF read.version IS NOT NULL AND p.operation <> 'D' AND NOT EXISTS (
          SELECT FROM unnest(read.differs) AS d WHERE (dirty -> p.id::text ->> 'whole')::boolean OR dirty -> p.id::text -> 'columns' ? d)
        THEN
          p.base := read.version;
        END IF;
        changes := changes || p;
      END LOOP;
    END IF;
    PERFORM dataverse_private.pending_drop(copy, ARRAY(
      SELECT s FROM unnest(ids) AS s WHERE NOT EXISTS (SELECT FROM unnest(dirty_ids) AS d WHERE d = s)));
  END IF;
  IF part_ids <> '{}' THEN
    -- rows with later local changes are examined again as a whole
    dirty_ids := dataverse_private.sync_land_part(copy, plan, path, part_ids, part_rows, parts);
    changes := changes || ARRAY(SELECT c FROM unnest(part_changes) AS c WHERE c.id <> ALL (dirty_ids))
      || ARRAY(SELECT dataverse_private.pending_to_take(r) FROM unnest(rows) AS r WHERE r.id = ANY (dirty_ids));
  END IF;
  IF changes <> '{}' THEN
    PERFORM dataverse_private.pending_set(copy, changes);
  END IF;
  IF unchanged <> '{}' THEN
    PERFORM dataverse_private.pending_keep(copy, unchanged, false);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_settle(bigint, dataverse_private.copy_plan, text, dataverse_private.pending[], uuid[], jsonb, text) IS
  'compares pending rows with those of the service, and counts those refused and those ignored in part; for dataverse.sync()';

-- Returns filed rows with their current local values.  Values that cannot be
-- converted to the types of the foreign table cannot be compared either, so the
-- row has no image.
CREATE FUNCTION dataverse_private.sync_images(plan dataverse_private.copy_plan, rows dataverse_private.pending[])
RETURNS dataverse_private.pending[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
#variable_conflict use_column
DECLARE
  here_ids uuid[];
  here_rows jsonb[];
  filled dataverse_private.pending[];
BEGIN
  EXECUTE format('SELECT array_agg(x.id), array_agg(x.r) FROM (%s) AS x (id, r)', (plan.sync).images)
    USING ARRAY(SELECT r.id FROM unnest(rows) AS r) INTO here_ids, here_rows;
  filled := ARRAY(SELECT jsonb_populate_record(r, jsonb_build_object('image', h.image, 'ours', coalesce(h.image, r.ours)))
                  FROM unnest(rows) AS r LEFT JOIN unnest(here_ids, here_rows) AS h (id, image) ON h.id = r.id);
  IF (plan.sync).fits IS NULL THEN
    RETURN filled;
  END IF;
  BEGIN
    EXECUTE (plan.sync).fits USING ARRAY(SELECT f.image FROM unnest(filled) AS f);
    RETURN filled;
  EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
    NULL;
  END;
  FOR i IN 1 .. cardinality(filled) LOOP
    BEGIN
      EXECUTE (plan.sync).fits USING ARRAY[filled[i].image];
    EXCEPTION WHEN data_exception OR cannot_coerce OR integrity_constraint_violation THEN
      filled[i].image := NULL;
    END;
  END LOOP;
  RETURN filled;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_images(dataverse_private.copy_plan, dataverse_private.pending[]) IS
  'filed rows with their current values; for dataverse.sync()';

-- One step of sending, which is then committed.  "next" is "send" if rows are
-- noted to be sent in the next step, "more", or "done".  "token" is that of the last changes
-- in Dataverse that the run has seen, or null if it does not look at changes.
CREATE FUNCTION dataverse_private.sync_step(
  copy bigint, plan dataverse_private.copy_plan, path text, armed boolean, INOUT token text, OUT next text, OUT sent bigint,
  OUT unwritable bigint, OUT refused bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = superusers
SET row_security = off
SET extra_float_digits = 1
-- local times without a zone are in UTC
SET timezone = 'UTC'
-- the rows of a chunk are sorted in memory; compiling statements for so few rows takes longer
-- than running them
SET work_mem = '32MB'
SET jit = off
AS $$
DECLARE
  chunk CONSTANT bigint := 4000;
  rows dataverse_private.pending[] := dataverse_private.pending_next(copy, '{sending}', chunk);
  ids uuid[];
  dirty uuid[];
  told_ids uuid[] := '{}';
  told_versions bigint[] := '{}';
  fresh uuid[] := '{}';
  outcome record;
  settled record;
  staged record;
BEGIN
  PERFORM dataverse_private.pull_check_source(plan);
  sent := 0;
  unwritable := 0;
  refused := 0;
  next := 'more';
  IF rows <> '{}' THEN
    IF armed THEN
      -- new rows have no versions
      IF token IS NOT NULL AND (rows[1]).operation <> 'I' THEN
        SELECT k.* INTO token, told_ids, told_versions FROM dataverse_private.sync_look(plan, ARRAY[plan.id_column, plan.version_column], token) AS k;
        fresh := CASE WHEN token IS NOT NULL THEN dataverse_private.pending_fresh(copy, told_ids, told_versions) ELSE '{}' END;
      END IF;
      outcome := dataverse_private.sync_send(copy, plan, rows, fresh);
      sent := cardinality(outcome.written);
      settled := dataverse_private.sync_settle(copy, plan, path, rows, outcome.written, outcome.refused, token);
      token := settled.token;
      -- not earlier: while a run waits for Dataverse, it holds no lock on its state
      PERFORM dataverse_private.pending_told(copy, told_ids, told_versions);
    ELSE
      settled := dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
      -- later changes of rows that may have been sent have waited for this
      PERFORM dataverse_private.sync_take(copy, plan);
      -- these are based on rows as the copy has them
      token := dataverse_private.sync_token(copy, plan);
    END IF;
    refused := settled.refused;
    unwritable := settled.ignored;
    RETURN;
  END IF;

  rows := dataverse_private.pending_next(copy, '{fetch}', chunk);
  IF rows <> '{}' THEN
    PERFORM dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
    RETURN;
  END IF;

  -- filed rows that were decided, or that the service had news of
  rows := dataverse_private.pending_next(copy, '{filed}', chunk);
  IF rows <> '{}' THEN
    ids := ARRAY(SELECT r.id FROM unnest(rows) AS r);
    dirty := ARRAY(SELECT d.id FROM dataverse_private.pending_dirty(copy, ids) AS d);
    rows := dataverse_private.sync_images(plan, ARRAY(SELECT r FROM unnest(rows) AS r WHERE r.id <> ALL (dirty)));
    PERFORM dataverse_private.sync_settle(copy, plan, path, rows, '{}', '{}');
    -- rows that have just been changed again are taken by the next run
    PERFORM dataverse_private.pending_keep(copy, dirty, true);
    RETURN;
  END IF;

  staged := dataverse_private.sync_stage(copy, plan);
  unwritable := staged.unwritable;
  refused := staged.refused;
  next := CASE WHEN staged.staged > 0 THEN 'send' WHEN staged.chosen > 0 THEN 'more' ELSE 'done' END;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_step(bigint, dataverse_private.copy_plan, text, boolean, text) IS
  'takes one step of sending, which dataverse.sync() then commits';
