/* sql/dataverse_fdw--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION dataverse_fdw" to load this file. \quit

-- Every name is qualified: some of them (version) exist in pg_catalog too,
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

CREATE FUNCTION dataverse.version(
  OUT extension text,
  OUT postgresql text,
  OUT libcurl text,
  OUT tls text,
  OUT json_c text)
RETURNS record
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_version';

COMMENT ON FUNCTION dataverse.version() IS
  'versions of the extension, the server and the libraries they run with';

-- What lives here is for everyone; each object that is not says so itself.
GRANT USAGE ON SCHEMA dataverse TO PUBLIC;
