-- Functions that run as the owner of the extension.
--
-- They have to know their caller, which PostgreSQL does not tell a SECURITY DEFINER
-- function.  Therefore they move to a schema of their own, and roles call a function
-- in C instead, which runs with the rights of its caller, notes the caller, and
-- calls them (src/sync/caller.c).
CREATE SCHEMA dataverse_owner;

COMMENT ON SCHEMA dataverse_owner IS
  'functions that run as the owner of dataverse_fdw; those of the same names in the other schemas call them';

DO $$
DECLARE
  f record;
BEGIN
  FOR f IN
    SELECT p.oid::regprocedure AS signature, p.pronamespace::regnamespace AS schema, p.proname AS name, pg_get_function_arguments(p.oid) AS arguments,
           pg_get_function_identity_arguments(p.oid) AS identity, pg_get_function_result(p.oid) AS result,
           CASE p.provolatile WHEN 'v' THEN 'VOLATILE' WHEN 's' THEN 'STABLE' ELSE 'IMMUTABLE' END
             || CASE WHEN p.proisstrict THEN ' STRICT' ELSE '' END || CASE WHEN p.proretset THEN ' ROWS ' || p.prorows ELSE '' END AS properties,
           obj_description(p.oid, 'pg_proc') AS comment
    FROM pg_proc AS p WHERE p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND p.prosecdef
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET SCHEMA dataverse_owner', f.signature);
    EXECUTE format('REVOKE ALL ON FUNCTION dataverse_owner.%I(%s) FROM PUBLIC', f.name, f.identity);
    EXECUTE format('CREATE FUNCTION %s.%I(%s) RETURNS %s LANGUAGE C %s PARALLEL UNSAFE AS ''MODULE_PATHNAME'', ''dataverse_as_owner''',
                   f.schema, f.name, f.arguments, f.result, f.properties);
    EXECUTE format('COMMENT ON FUNCTION %s.%I(%s) IS %L', f.schema, f.name, f.identity, f.comment);
  END LOOP;
END
$$;
