-- dataverse.push(): the result of a query, written to a foreign table (src/sync/push.c).
CREATE PROCEDURE dataverse.push(
  query text,
  foreign_table regclass,
  key text[] DEFAULT NULL,
  operation text DEFAULT NULL,
  on_error text DEFAULT 'abort',
  max_errors integer DEFAULT NULL,
  chunk integer DEFAULT 250000,
  wait boolean DEFAULT true)
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_push';

COMMENT ON PROCEDURE dataverse.push(text, regclass, text[], text, text, integer, integer, boolean) IS
  'writes the result of a query to a foreign table, in chunks that are committed, each row once';
