-- Staying in step.
--
-- dataverse.pull() is a procedure that commits each page of rows together with the
-- place where reading continues.  This state is kept in tables of this schema,
-- which pg_dump includes.  They belong to the extension: the functions that write
-- them run as its owner, search only pg_catalog, contain no dynamic SQL, and
-- change only the state of copies whose tables the caller owns.  Everything else
-- runs as the caller.

CREATE FUNCTION dataverse.changes(foreign_table regclass, token text DEFAULT NULL)
RETURNS TABLE (id uuid, deleted boolean, "row" jsonb, next_token text)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  info record;
  page record;
  link text;
BEGIN
  PERFORM dataverse_private.pull_source(changes.foreign_table);
  SELECT * INTO STRICT info FROM dataverse_private.pull_info(changes.foreign_table);
  LOOP
    SELECT * INTO STRICT page
    FROM dataverse_private.read_page(changes.foreign_table, NULL, link, changes.token, NULL, changes.token IS NULL);
    RETURN QUERY EXECUTE format(
      'SELECT s.%1$I, false, to_jsonb(s.*), NULL::text FROM dataverse_private.page_rows(NULL::%2$s) AS s', info.id_column, foreign_table);
    RETURN QUERY SELECT d, true, NULL::jsonb, NULL::text FROM dataverse_private.page_deletions() AS d;
    link := page.link;
    EXIT WHEN link IS NULL;
  END LOOP;
  IF page.token IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_unable_to_create_reply',
      message = format('Dataverse returned no token of change tracking for foreign table "%s"', foreign_table),
      hint = 'Turn on change tracking in the properties of the table in Dataverse.';
  END IF;
  PERFORM dataverse_private.end_pages();
  RETURN QUERY SELECT NULL::uuid, NULL::boolean, NULL::jsonb, page.token;
END
$$;

COMMENT ON FUNCTION dataverse.changes(regclass, text) IS
  'all rows of a table, or the changes since a token; the last row contains only the token to continue with';

CREATE FUNCTION dataverse_private.read_page(
  foreign_table regclass,
  columns text[],
  link text,
  token text,
  after bigint,
  track boolean,
  expected double precision DEFAULT NULL,
  stored boolean DEFAULT false,
  OUT link text,
  OUT token text,
  OUT upserts bigint,
  OUT deletions bigint,
  OUT metadata text,
  OUT refused boolean)
RETURNS record
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_read_page';

COMMENT ON FUNCTION dataverse_private.read_page(regclass, text[], text, text, bigint, boolean, double precision, boolean) IS
  'reads a page of rows or changes and keeps it; for dataverse.pull()';

CREATE FUNCTION dataverse_private.first_token(foreign_table regclass, OUT token text, OUT "rows" double precision)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_first_token';

COMMENT ON FUNCTION dataverse_private.first_token(regclass) IS
  'a token of change tracking that is older than everything read later, null if the service gives none, and how many rows it expects; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_rows(row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_rows';

COMMENT ON FUNCTION dataverse_private.page_rows(anyelement) IS
  'the rows of the last page read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_left_out(row_type anyelement)
RETURNS SETOF anyelement
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_page_left_out';

COMMENT ON FUNCTION dataverse_private.page_left_out(anyelement) IS
  'the rows of the page that must not be merged; for dataverse.sync()';

CREATE FUNCTION dataverse_private.page_deletions()
RETURNS SETOF uuid
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 5000
AS 'MODULE_PATHNAME', 'dataverse_page_deletions';

COMMENT ON FUNCTION dataverse_private.page_deletions() IS
  'the ids of deleted rows in the last page read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_repeated()
RETURNS SETOF uuid
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 1
AS 'MODULE_PATHNAME', 'dataverse_page_repeated';

COMMENT ON FUNCTION dataverse_private.page_repeated() IS
  'the ids that occur more than once in the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_start(foreign_table regclass)
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_start';

COMMENT ON FUNCTION dataverse_private.page_start(regclass) IS
  'begins an empty page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_add(id uuid, "row" anyelement)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_add';

COMMENT ON FUNCTION dataverse_private.page_add(uuid, anyelement) IS
  'puts a row into the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_leave_out(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_leave_out';

COMMENT ON FUNCTION dataverse_private.page_leave_out(uuid[]) IS
  'keeps rows of the page from being merged; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_keep(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_keep';

COMMENT ON FUNCTION dataverse_private.page_keep(uuid[]) IS
  'forgets all entries of the page but those with these ids; for dataverse.sync()';

CREATE FUNCTION dataverse_private.page_delete(ids uuid[])
RETURNS void
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_delete';

COMMENT ON FUNCTION dataverse_private.page_delete(uuid[]) IS
  'puts ids of deleted rows into the page; for dataverse.pull()';

CREATE FUNCTION dataverse_private.page_window(first bigint, n bigint, OUT upserts bigint, OUT deletions bigint)
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_page_window';

COMMENT ON FUNCTION dataverse_private.page_window(bigint, bigint) IS
  'restricts the results of the page to some of its entries; for dataverse.pull()';

CREATE FUNCTION dataverse_private.end_pages()
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_end_pages';

COMMENT ON FUNCTION dataverse_private.end_pages() IS
  'ends the reading begun by dataverse_private.read_page(); for dataverse.pull()';

CREATE FUNCTION dataverse_private.pull_info(
  foreign_table regclass,
  OUT server text,
  OUT logical_name text,
  OUT entity_set text,
  OUT id_column text,
  OUT version_column text,
  OUT elastic boolean,
  OUT column_names text[],
  OUT attribute_names text[])
RETURNS record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_pull_info';

COMMENT ON FUNCTION dataverse_private.pull_info(regclass) IS
  'properties of a foreign table''s table in Dataverse; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_count_changes(
  foreign_table regclass, token text, after bigint, milliseconds integer)
RETURNS bigint
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_count_changes';

COMMENT ON FUNCTION dataverse_private.copy_count_changes(regclass, text, bigint, integer) IS
  'how many rows have changed since a token or a version; null if the service does not answer in time; for dataverse.sync_state';
