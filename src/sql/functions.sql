CREATE FUNCTION dataverse.version(
  OUT extension text,
  OUT postgresql text,
  OUT libcurl text,
  OUT tls text,
  OUT json_c text,
  OUT libdeflate text)
RETURNS record
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_version';

COMMENT ON FUNCTION dataverse.version() IS
  'versions of the extension, the server, and the libraries in use';

CREATE FUNCTION dataverse.options(
  OUT name text,
  OUT place text,
  OUT type text,
  OUT default_value text,
  OUT accepts text,
  OUT numbered boolean,
  OUT secret boolean,
  OUT superuser_only boolean)
RETURNS SETOF record
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 80
AS 'MODULE_PATHNAME', 'dataverse_options';

COMMENT ON FUNCTION dataverse.options() IS
  'options of servers, user mappings, foreign tables, and columns: where they can be set, valid values, and defaults';

--
-- Requests.  These functions use the caller's user mapping and require the
-- USAGE privilege on the server.
--

CREATE FUNCTION dataverse.whoami(
  server name,
  OUT application_user text,
  OUT user_id uuid,
  OUT business_unit_id uuid,
  OUT organization_id uuid)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_whoami';

COMMENT ON FUNCTION dataverse.whoami(name) IS
  'returns the user in Dataverse as which the next request is sent';

CREATE FUNCTION dataverse.test_connection(
  server name,
  OUT application_user text,
  OUT ok boolean,
  OUT user_id uuid,
  OUT token_lifetime interval,
  OUT round_trip interval,
  OUT dop_hint integer,
  OUT clock_skew interval,
  OUT error text,
  OUT hint text)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 4
AS 'MODULE_PATHNAME', 'dataverse_test_connection';

COMMENT ON FUNCTION dataverse.test_connection(name) IS
  'tests each application user of the caller''s user mapping: gets a token, sends a request, and reports errors';

CREATE FUNCTION dataverse.request(
  server name,
  method text,
  path text,
  body jsonb DEFAULT NULL)
RETURNS jsonb
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_request';

COMMENT ON FUNCTION dataverse.request(name, text, text, jsonb) IS
  'sends a request to a path below the service root of the Web API and returns the answer';

CREATE FUNCTION dataverse.fetchxml(server name, xml text)
RETURNS SETOF jsonb
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_fetchxml';

COMMENT ON FUNCTION dataverse.fetchxml(name, text) IS
  'returns all rows of a FetchXML query';

-- Runs with the caller's privileges on the table, like any other query.  ONLY
-- because foreign tables can have local children, of which Dataverse knows
-- nothing.
CREATE FUNCTION dataverse.row_count(foreign_table regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  rows bigint;
BEGIN
  IF NOT EXISTS (
    SELECT FROM pg_foreign_table AS t
      JOIN pg_foreign_server AS s ON s.oid = t.ftserver
      JOIN pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw
    WHERE t.ftrelid = foreign_table
      AND w.fdwhandler = 'dataverse.dataverse_fdw_handler()'::regprocedure)
  THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type',
      message = format('"%s" is not a foreign table of dataverse_fdw',
                       coalesce((SELECT c.relname::text FROM pg_class AS c WHERE c.oid = foreign_table), foreign_table::text));
  END IF;
  EXECUTE format('SELECT count(*) FROM ONLY %s', foreign_table) INTO rows;
  RETURN rows;
END
$$;

COMMENT ON FUNCTION dataverse.row_count(regclass) IS
  'returns the exact number of rows of a table in Dataverse';
