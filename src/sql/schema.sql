-- CREATE EXTENSION creates the schema, or uses one that exists, and puts it into
-- the search path.  What others have put there, or can put there, would run with
-- the rights of whoever uses the extension.  That includes this script: only
-- pg_catalog is searched for the operators and functions that it uses itself.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

DO $$
DECLARE
  reason text;
BEGIN
  SELECT CASE
    WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS o WHERE o.oid = n.nspowner AND o.rolsuper)
      THEN 'Its owner is not a superuser.'
    WHEN EXISTS (SELECT FROM pg_catalog.aclexplode(n.nspacl) AS a
                 WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner)
      THEN 'Other roles than its owner can create objects in it.'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                 WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid = n.oid
                   AND d.classid <> 'pg_catalog.pg_extension'::pg_catalog.regclass)
      THEN 'It is not empty.'
    END
  INTO reason
  FROM pg_catalog.pg_namespace AS n
  WHERE n.nspname = 'dataverse';
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'duplicate_schema',
      message = 'schema "dataverse" exists and cannot be used for the extension',
      detail = reason,
      hint = 'Rename or drop the schema, or have a superuser own it alone.';
  END IF;
END
$$;

-- Every name is qualified, because some (version) also exist in pg_catalog,
-- which comes first in every search path.

CREATE FUNCTION dataverse.dataverse_fdw_handler()
RETURNS fdw_handler
LANGUAGE C STRICT
AS 'MODULE_PATHNAME', 'dataverse_fdw_handler';

COMMENT ON FUNCTION dataverse.dataverse_fdw_handler() IS
  'Dataverse foreign-data wrapper handler';

CREATE FUNCTION dataverse.dataverse_fdw_validator(options text[], catalog oid)
RETURNS void
LANGUAGE C STRICT
AS 'MODULE_PATHNAME', 'dataverse_fdw_validator';

COMMENT ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) IS
  'Dataverse foreign-data wrapper options validator';

CREATE FOREIGN DATA WRAPPER dataverse_fdw
  HANDLER dataverse.dataverse_fdw_handler
  VALIDATOR dataverse.dataverse_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER dataverse_fdw IS
  'Microsoft Dataverse foreign-data wrapper';
