--
-- Import.
--

-- Ignores case and accents, much as Dataverse does.  (Dataverse also ignores
-- trailing blanks and all characters that its collation does not know.  This
-- collation does not, so PostgreSQL rechecks all rows.)  It is not created if the
-- server is built without ICU or ICU does not support the encoding of the
-- database.
DO $$
BEGIN
  CREATE COLLATION dataverse.ci_ai
    (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
  COMMENT ON COLLATION dataverse.ci_ai IS
    'ignores case and accents, as Dataverse does';
EXCEPTION
  WHEN feature_not_supported OR invalid_object_definition THEN
    NULL;
END
$$;

CREATE FUNCTION dataverse.choices(foreign_table regclass, "column" name, OUT value integer, OUT label text)
RETURNS SETOF record
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'dataverse_choices';

COMMENT ON FUNCTION dataverse.choices(regclass, name) IS
  'the values of a choice in Dataverse, and their labels';

CREATE FUNCTION dataverse.import_diff(
  schema name,
  new_tables boolean DEFAULT NULL,
  OUT foreign_table text,
  OUT column_name text,
  OUT drift text,
  OUT here text,
  OUT there text,
  OUT statement text)
RETURNS SETOF record
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_import_diff';

COMMENT ON FUNCTION dataverse.import_diff(name, boolean) IS
  'compares the foreign tables of a schema with those that would be imported now, and shows statements that apply the changes';
