CREATE FUNCTION dataverse_private.pull_check_columns(columns text[])
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
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_columns(text[]) IS
  'raises an error for an empty list of columns; for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_check_sweep(sweep interval)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF sweep < interval '0' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for argument "sweep": "%s"', sweep),
      hint = 'It is the time between two comparisons of all ids, such as ''1 day''.  With ''0'', each run compares them.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.pull_check_sweep(interval) IS
  'raises an error for a negative interval; for dataverse.pull()';

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
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_pull';

COMMENT ON PROCEDURE dataverse.pull IS
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

CREATE PROCEDURE dataverse.pull_all(
  schema name,
  target_schema name,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_pull_all';

COMMENT ON PROCEDURE dataverse.pull_all IS
  'makes local copies of all foreign tables of a schema, and keeps them in step';
