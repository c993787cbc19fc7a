-- The columns of a copy: how values are converted to other types, how their types
-- follow those of the foreign table, and which of them are no longer filled.
--
-- A copy has the value that Dataverse has, or it does not have the row.  PostgreSQL's
-- assignment rounds numbers and cuts spaces.  Therefore, if types differ, each
-- assigned value is converted back and compared, and a row with a changed value is
-- refused like one that violates a constraint.  If times have a zone on one side only,
-- those on the other side are in UTC; blanks at the end of char(n) are not
-- significant.

-- Returns the base type of a domain, or the type itself.
CREATE FUNCTION dataverse_private.pull_base_type(type oid)
RETURNS oid
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE b (oid, base) AS (
    SELECT t.oid, t.typbasetype FROM pg_type AS t WHERE t.oid = $1
    UNION ALL SELECT t.oid, t.typbasetype FROM b JOIN pg_type AS t ON t.oid = b.base)
  SELECT b.oid FROM b WHERE b.base = 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_base_type(oid) IS
  'the type that a domain is based on, or the type itself; for dataverse.pull()';

-- Returns the condition under which a value of the foreign table ("there") and the
-- value of the copy ("here") are the same.  Times are compared in UTC, texts as they
-- are shown.
CREATE FUNCTION dataverse_private.pull_sameness(there text, here text, source oid, target oid)
RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  times CONSTANT jsonb := jsonb_build_object(
    'timestamptz'::regtype::oid, 'pg_catalog.timezone(''UTC'', %s)', 'timestamp'::regtype::oid, '%s',
    'date'::regtype::oid, 'CAST(%s AS pg_catalog.timestamp)');
  kind CONSTANT "char" := (SELECT t.typcategory FROM pg_type AS t WHERE t.oid = source);
  target_kind CONSTANT "char" := (SELECT t.typcategory FROM pg_type AS t WHERE t.oid = target);
  back CONSTANT text := CASE
    WHEN source = target OR target_kind = 'S' OR EXISTS (SELECT FROM pg_cast AS c WHERE c.castsource = target AND c.casttarget = source)
      THEN 'CAST(%s AS %s)'
    WHEN target = 'money'::regtype THEN 'CAST(CAST(%s AS pg_catalog.numeric) AS %s)'
    ELSE 'CAST(CAST(%s AS pg_catalog.text) AS %s)' END;
BEGIN
  IF target = 'bpchar'::regtype AND kind = 'S' THEN
    RETURN format('pg_catalog.rtrim(pg_catalog.concat(%s)) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.rtrim(pg_catalog.concat(%s)) COLLATE pg_catalog."C"', there, here);
  ELSIF times ? source::text AND times ? target::text THEN
    RETURN format('%s OPERATOR(pg_catalog.=) %s', format(times ->> source::text, there), format(times ->> target::text, here));
  ELSIF kind <> 'S' AND (kind = 'A' OR EXISTS (SELECT FROM pg_operator AS o WHERE o.oprname = '=' AND o.oprnamespace = 'pg_catalog'::regnamespace
                                               AND o.oprleft = source AND o.oprright = source)) THEN
    RETURN format('%s OPERATOR(pg_catalog.=) %s', there, format(back, here, format_type(source, NULL)));
  ELSE
    RETURN format('pg_catalog.concat(%s) COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) pg_catalog.concat(%s) COLLATE pg_catalog."C"', there, here);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_sameness(text, text, oid, oid) IS
  'the condition that a conversion has not changed a value; for dataverse.pull()';

-- Returns for each column: the assigned value ("input"), this value in the type of
-- the column, without ("stored") and with the length of the column ("exact"), and, if
-- types differ, the condition under which the value has not changed ("stays").  If
-- the type of a column could not follow, and there is no cast, values are converted
-- through text.
CREATE FUNCTION dataverse_private.pull_conversions(
  foreign_table regclass, target regclass, columns text[], followed jsonb,
  OUT name text, OUT "position" bigint, OUT input text, OUT stored text, OUT exact text, OUT type text, OUT stays text)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT c.name, c.i, v.input, v.stored, v.exact, format_type(a.atttypid, a.atttypmod),
         CASE WHEN f.atttypid <> a.atttypid OR f.atttypmod <> a.atttypmod AND a.atttypmod <> -1
              THEN dataverse_private.pull_sameness(v.there, v.exact, v.source, v.target) END
  FROM unnest($3) WITH ORDINALITY AS c (name, i)
    JOIN pg_attribute AS f ON f.attrelid = $1 AND f.attname = c.name AND NOT f.attisdropped
    JOIN pg_attribute AS a ON a.attrelid = $2 AND a.attname = c.name AND NOT a.attisdropped,
    LATERAL (SELECT dataverse_private.pull_base_type(f.atttypid) AS source, dataverse_private.pull_base_type(a.atttypid) AS target) AS b,
    LATERAL (
      SELECT CASE WHEN b.source = 'timestamptz'::regtype AND b.target IN ('timestamp'::regtype, 'date'::regtype)
                    THEN format('pg_catalog.timezone(''UTC'', s.%I)', c.name)
                  WHEN b.source IN ('timestamp'::regtype, 'date'::regtype) AND b.target = 'timestamptz'::regtype
                    THEN format('pg_catalog.timezone(''UTC'', CAST(s.%I AS pg_catalog.timestamp))', c.name)
                  WHEN $4 ->> c.name = format_type(a.atttypid, a.atttypmod) AND b.source <> b.target
                    AND NOT EXISTS (SELECT FROM pg_type AS t WHERE t.oid = b.target AND t.typcategory = 'S')
                    AND NOT EXISTS (SELECT FROM pg_cast AS x WHERE x.castsource = b.source AND x.casttarget = b.target AND x.castcontext <> 'e')
                  THEN format('CAST(CAST(s.%I AS pg_catalog.text) AS %s)', c.name, format_type(a.atttypid, a.atttypmod))
                  ELSE format('s.%I', c.name) END AS input) AS i,
    LATERAL (
      SELECT i.input, b.source, b.target, format('s.%I', c.name) AS there,
             -- a cast would cut texts, which assignment does not
             format('CAST(%s AS %s)', i.input, format_type(
               a.atttypid, CASE WHEN a.atttypid IN ('varchar'::regtype, 'varbit'::regtype) THEN -1 ELSE a.atttypmod END)) AS stored,
             format('CAST(%s AS %s)', i.input, format_type(a.atttypid, a.atttypmod)) AS exact) AS v
$$;

COMMENT ON FUNCTION dataverse_private.pull_conversions(regclass, regclass, text[], jsonb) IS
  'how values of a foreign table are converted to columns of a copy; for dataverse.pull()';

-- Returns the statement that finds a value of the page which the column of the
-- copy would change, or NULL if all columns have the types of the foreign table.
CREATE FUNCTION dataverse_private.pull_changed_statement(
  foreign_table regclass, target regclass, columns text[], followed jsonb)
RETURNS text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('SELECT v.* FROM dataverse_private.page_rows(NULL::%s) AS s, LATERAL (%s) AS v (name, there, here, type) LIMIT 1', $1,
                string_agg(format('SELECT CAST(%1$L AS pg_catalog.text), pg_catalog.concat(s.%1$I), pg_catalog.concat(%2$s), %3$L'
                                  ' WHERE s.%1$I IS NOT NULL AND (%4$s) IS NOT TRUE', c.name, c.exact, c.type, c.stays),
                           ' UNION ALL ' ORDER BY c."position"))
  FROM dataverse_private.pull_conversions($1, $2, $3, $4) AS c
  WHERE c.stays IS NOT NULL
  HAVING count(*) > 0
$$;

COMMENT ON FUNCTION dataverse_private.pull_changed_statement(regclass, regclass, text[], jsonb) IS
  'the statement that finds values that a copy would change; for dataverse.pull()';

-- Refuses those of the merged rows whose values have changed.
CREATE FUNCTION dataverse_private.pull_check_values(plan dataverse_private.copy_plan, path text)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  statement CONSTANT text := plan.changed;
  most CONSTANT integer := 100;
  changed record;
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE statement INTO changed;
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF changed.name IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'data_exception',
      message = format('column "%s" (%s) of table %s would have %s instead of %s', changed.name, changed.type, plan.target,
                       quote_literal(left(changed.here, most)), quote_literal(left(changed.there, most)));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_values(dataverse_private.copy_plan, text) IS
  'refuses rows with values that a copy would change; for dataverse.pull()';

-- Returns the types of the copy's columns that follow the foreign table: those that
-- are the same, or were the same last time.  A column to which its owner has given
-- another type does not follow.
CREATE FUNCTION dataverse_private.pull_followed(foreign_table regclass, target regclass, columns text[], followed jsonb)
RETURNS jsonb
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(jsonb_object_agg(f.attname, t.type), '{}')
  FROM pg_attribute AS f JOIN pg_attribute AS a ON a.attrelid = $2 AND a.attname = f.attname AND NOT a.attisdropped,
    LATERAL (SELECT format_type(a.atttypid, a.atttypmod)) AS t (type)
  WHERE f.attrelid = $1 AND f.attname = ANY ($3) AND NOT f.attisdropped
    AND (format_type(f.atttypid, f.atttypmod) = t.type OR $4 ->> f.attname::text = t.type)
$$;

COMMENT ON FUNCTION dataverse_private.pull_followed(regclass, regclass, text[], jsonb) IS
  'the types of columns of a copy that follow those of the foreign table; for dataverse.pull()';

-- Gives a column the type that it has in the foreign table.  All rows are read
-- again afterwards, so values that cannot be converted are not needed.  If views or
-- other objects depend on the column, it stays as it is, and the run reports this.
CREATE FUNCTION dataverse_private.pull_retype(
  foreign_table regclass, target text, name text, old_type text, new_type text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  alter CONSTANT text := format('ALTER TABLE %1$s ALTER COLUMN %2$I TYPE %3$s USING ', target, name, new_type);
  why text;
BEGIN
  BEGIN
    EXECUTE alter || format('CAST(%I AS %s)', name, new_type);
  EXCEPTION
    WHEN data_exception OR cannot_coerce THEN
      EXECUTE alter || 'NULL';
  END;
  RETURN true;
EXCEPTION
  -- a lock, a limit, or a failure is temporary
  WHEN transaction_rollback OR insufficient_resources OR object_not_in_prerequisite_state OR operator_intervention OR system_error
    OR internal_error THEN
    RAISE;
  WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
    RAISE WARNING USING
      errcode = '01000',
      message = format('column "%s" of table %s keeps type %s, while that of foreign table %s has type %s: %s', name, target, old_type,
                       foreign_table, new_type, SQLERRM),
      -- before 19, PostgreSQL ends this detail without a period
      detail = concat_ws(E'\n', rtrim(nullif(why, ''), '.') || '.', 'Rows with values that the old type does not admit are refused.'),
      hint = 'Remove the objects that depend on the column.  The next run changes its type and reads all rows again.';
    RETURN false;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_retype(regclass, text, text, text, text) IS
  'changes the type of a copy''s column to that in the foreign table, if possible; for dataverse.pull()';

-- Returns the columns of a table that earlier runs have filled and this one does
-- not fill, whatever their names were then, as long as it is the same table.
CREATE FUNCTION dataverse_private.pull_unfed(state dataverse_private.copies, target regclass, copied text[])
RETURNS text[]
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT ARRAY(
    SELECT a.attname::text FROM pg_attribute AS a
    WHERE a.attrelid = $2 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity <> 'a' AND a.attname <> ALL ($3)
      AND (a.attname = ANY (($1).unfed)
           OR CASE WHEN ($1).numbers[1] = $2::oid::bigint THEN a.attnum = ANY (($1).numbers[2:]) ELSE a.attname = ANY (($1).columns) END)
    ORDER BY a.attnum)
$$;

COMMENT ON FUNCTION dataverse_private.pull_unfed(dataverse_private.copies, regclass, text[]) IS
  'the columns of a copy that no longer get values; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_warn_unfed(foreign_table regclass, target text, unfed text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF unfed <> '{}' THEN
    RAISE WARNING USING
      errcode = '01000',
      message = format('columns of table %s are no longer kept in step: %s', target, array_to_string(unfed, ', ')),
      detail = format('They keep the values of earlier runs, because foreign table %s has no columns of these names, or these columns are not to be copied.',
                      foreign_table),
      hint = format('Copy them, or drop them: ALTER TABLE %s %s;', target,
                    (SELECT string_agg(format('DROP COLUMN %I', u), ', ') FROM unnest(unfed) AS u));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_warn_unfed(regclass, text, text[]) IS
  'warns about columns of a copy that no longer get values; for dataverse.pull()';
