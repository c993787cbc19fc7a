-- The schemas of the extension are its members, so that DROP EXTENSION drops them.
-- Neither may exist before: code that other roles had put into it would run with the rights of the extension's users.
CREATE SCHEMA dataverse;

COMMENT ON SCHEMA dataverse IS
  'views, functions, and procedures of dataverse_fdw';

CREATE SCHEMA dataverse_private;

COMMENT ON SCHEMA dataverse_private IS
  'the state of copies and pushes, and the steps of their runs; not to be used by anything else';

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
