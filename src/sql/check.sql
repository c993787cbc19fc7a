-- Checks of arguments and sessions, shared by several procedures.

CREATE FUNCTION dataverse_private.check_choice(what text, value text, VARIADIC valid text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n CONSTANT integer := cardinality(valid);
BEGIN
  IF value IS NULL OR value <> ALL (valid) THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value', message = format('invalid value for %s: "%s"', what, coalesce(value, 'null')),
      hint = format('Valid values are "%s"%s and "%s".', array_to_string(valid[:n - 1], '", "'), CASE WHEN n > 2 THEN ',' ELSE '' END, valid[n]);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_choice(text, text, text[]) IS
  'raises an error for a value that is not one of the valid ones';

CREATE FUNCTION dataverse_private.check_boolean(argument text, value boolean)
RETURNS void
LANGUAGE plpgsql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF value IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'null_value_not_allowed', message = format('argument "%s" is null', argument), hint = 'Valid values are true and false.';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_boolean(text, boolean) IS
  'raises an error for null as a boolean argument';

-- In a replica session, the rules of dataverse.rejects do not apply, so entries of
-- rows that were accepted would stay.
CREATE FUNCTION dataverse_private.check_session(what text)
RETURNS void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('dataverse_fdw.dry_run', true)::boolean THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('%s while "dataverse_fdw.dry_run" is on', what),
      hint = 'RESET dataverse_fdw.dry_run;';
  END IF;
  IF current_setting('session_replication_role') = 'replica' THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state', message = format('%s while "session_replication_role" is "replica"', what),
      hint = 'SET session_replication_role = origin;';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.check_session(text) IS
  'raises an error in sessions whose settings prevent rows from being sent and noted; "what" begins the message';

-- Statements find tables by their names.  Until the transaction ends, the name has to
-- refer to the same table, and no code may run with more rights than its owner has
-- (src/sync/hold.c).  Functions that run such statements, or that read tables of other
-- roles, have the same setting (src/fdw/guard.c).
CREATE FUNCTION dataverse_private.hold(name text, relation oid)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
SET dataverse_fdw.guard = superusers
AS 'MODULE_PATHNAME', 'dataverse_hold';

COMMENT ON FUNCTION dataverse_private.hold(text, oid) IS
  'locks the name and identity of a table, and refuses code of other roles that would gain rights when the table is written';

-- The value of dataverse_fdw.run_settings (fdw/setting.c) for the next statement of the calling
-- function.  An empty value stands for the option of the table, whatever the session has set.
CREATE FUNCTION dataverse_private.run_settings(foreign_table oid, settings jsonb)
RETURNS text
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT format('%s %s %s', $1, pg_trigger_depth(), coalesce((SELECT array_agg(s.key || '=' || s.value) FROM jsonb_each_text($2) AS s), '{}'))
$$;

COMMENT ON FUNCTION dataverse_private.run_settings(oid, jsonb) IS
  'how a statement writes a foreign table; for dataverse.sync() and retry_rejects()';
