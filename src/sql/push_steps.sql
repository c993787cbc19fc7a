CREATE FUNCTION dataverse_private.push_check(
  foreign_table regclass, query text, key text[], operation text, on_error text, max_errors integer, chunk integer,
  wait boolean)
RETURNS void
LANGUAGE plpgsql STABLE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  wrong text := CASE
    WHEN foreign_table IS NULL THEN 'argument "foreign_table" is null'
    WHEN query IS NULL THEN 'argument "query" is null'
    WHEN query ~ '^[;[:space:]]*$' THEN 'argument "query" is empty'
    WHEN chunk IS NULL OR chunk < 1 THEN
      format('invalid value for argument "chunk": "%s"', coalesce(chunk::text, 'null'))
    WHEN max_errors < 0 THEN format('invalid value for argument "max_errors": "%s"', max_errors)
    WHEN key = '{}' OR '' = ANY (key) OR array_position(key, NULL) IS NOT NULL
      OR cardinality(key) > (SELECT count(DISTINCT k) FROM unnest(key) AS k) THEN
      format('invalid value for argument "key": "%s"', key)
    WHEN wait IS NULL THEN 'argument "wait" is null'
    WHEN operation = 'insert' AND key IS NOT NULL THEN 'argument "key" is not allowed for operation "insert"'
  END;
BEGIN
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING errcode = 'invalid_parameter_value', message = wrong, hint = CASE
      WHEN foreign_table IS NULL OR coalesce(query, '') ~ '^[;[:space:]]*$' THEN
        'Give the query and the foreign table,'
        ' as in CALL dataverse.push(''SELECT name FROM customers'', ''dv.account'').'
      WHEN chunk IS NULL OR chunk < 1 THEN 'It is the number of rows between two commits, at least 1.'
      WHEN max_errors < 0 THEN 'It is the number of rows that may be refused, at least 0.'
      WHEN wrong LIKE '%"key":%' THEN
        'It takes the columns of an alternate key, as in ''{accountnumber}''.'
        '  Without it, rows are identified by their ids.'
      WHEN wait IS NULL THEN 'Valid values are true and false.'
      ELSE 'Set "operation" to "upsert" to update rows that exist, or omit "key".'
    END;
  END IF;
  IF NOT dataverse_private.pull_is_foreign(foreign_table) THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a foreign table of dataverse_fdw', foreign_table),
      hint = 'The first argument is the query, and the second one is the foreign table for its rows,'
        ' such as IMPORT FOREIGN SCHEMA creates.';
  END IF;
  PERFORM dataverse_private.check_choice('argument "operation"', operation, 'insert', 'update', 'upsert', 'delete');
  PERFORM dataverse_private.check_choice('argument "on_error"', on_error, 'abort', 'continue');
END
$$;

COMMENT ON FUNCTION dataverse_private.push_check(regclass, text, text[], text, text, integer, integer, boolean) IS
  'raises an error for invalid arguments of dataverse.push()';

-- Returns the information about this table that a push needs, and which columns identify rows
-- ("match").  Versions of elastic tables cannot be compared.
CREATE FUNCTION dataverse_private.push_info(
  foreign_table regclass, operation text, key text[], columns text[],
  OUT id_column text, OUT version_column text, OUT "match" text[], OUT pairs boolean, OUT by_id boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info CONSTANT record := dataverse_private.pull_info(foreign_table);
  id CONSTANT text := info.id_column;
  options CONSTANT jsonb := (
    SELECT coalesce((SELECT jsonb_object_agg(o.option_name, o.option_value)
                     FROM pg_options_to_table(s.srvoptions) AS o), '{}')
        || coalesce((SELECT jsonb_object_agg(o.option_name, o.option_value)
                     FROM pg_options_to_table(t.ftoptions) AS o), '{}')
    FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver WHERE t.ftrelid = foreign_table);
  wrong text;
  cure text;
BEGIN
  id_column := id;
  version_column := CASE WHEN NOT info.elastic THEN info.version_column END;
  pairs := coalesce(options ->> 'table_type' = 'intersect', false);
  SELECT c INTO wrong FROM unnest(columns || key) AS c
  WHERE NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = c AND a.attnum > 0
                      AND NOT a.attisdropped)
  LIMIT 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = format('column "%s" of foreign table %s does not exist', wrong, foreign_table),
      hint = CASE
        WHEN wrong = ANY (columns) THEN
          'The columns of the query must have the names of columns of the foreign table: name them with AS.'
        ELSE 'The argument "key" takes names of columns of the foreign table, as in ''{accountnumber}''.' END;
  END IF;
  IF pairs THEN
    match := columns;
  ELSIF key IS NOT NULL AND key <> '{}' THEN
    match := key;
  ELSE
    match := ARRAY[id];
    IF info.elastic AND 'partitionid' = ANY (columns) THEN
      match := match || 'partitionid'::text;
    END IF;
  END IF;
  SELECT c INTO wrong FROM unnest(match) AS c WHERE c <> ALL (columns) LIMIT 1;
  cure := CASE
    -- the table of rows to be pushed has columns of these names (push_table)
    WHEN columns && '{"row number","own id"}' THEN
      'Rename the columns "row number" and "own id" of the foreign table: push needs these names.'
    WHEN NOT pairs AND id IS NULL THEN
      'The foreign table has no column for the ids of its rows.  Import it again, or add the column.'
    WHEN pairs AND operation NOT IN ('insert', 'delete') THEN
      'Pairs of an intersect table can only be inserted and deleted.'
    WHEN operation = 'insert' AND NOT (options ->> 'generate_ids')::boolean AND id <> ALL (columns) THEN
      'The extension must generate the ids (option "generate_ids"),'
      ' because otherwise no row could be found again after a crash.'
    WHEN operation <> 'insert' AND wrong IS NOT NULL THEN
      format('The query must have column "%s", which identifies the rows.', wrong)
    WHEN operation = 'upsert' AND id <> ALL (match) AND id = ANY (columns) THEN
      format('A row is identified by its key or by its id: omit column "%s".', id)
    WHEN operation = 'update' AND columns <@ match THEN 'The query has no column to update.'
    WHEN operation = 'delete' AND NOT columns <@ match THEN
      'The query must have only the columns that identify the rows.'
  END;
  IF cure IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = format('cannot %s rows of foreign table %s', operation, foreign_table), hint = cure;
  END IF;
  by_id := match = ARRAY[id];
END
$$;

COMMENT ON FUNCTION dataverse_private.push_info(regclass, text, text[], text[]) IS
  'the meaning of a query''s columns for a push; for dataverse.push()';

-- An upsert by columns that are not an alternate key would be refused row by row,
-- after the query has run.  A key may be newer than the foreign table.
CREATE FUNCTION dataverse_private.push_check_key(foreign_table regclass, key text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  info CONSTANT record := dataverse_private.pull_info(foreign_table);
  wanted CONSTANT text[] := ARRAY(
    SELECT c.attribute FROM unnest(info.column_names, info.attribute_names) AS c (name, attribute)
    WHERE c.name = ANY (key) ORDER BY 1);
  known CONSTANT text := (SELECT o.option_value FROM pg_foreign_table AS t, pg_options_to_table(t.ftoptions) AS o
                          WHERE t.ftrelid = foreign_table AND o.option_name = 'keys');
  keys jsonb;
  status text;
  others text;
BEGIN
  IF EXISTS (SELECT FROM unnest(string_to_array(known, ';')) AS k
             WHERE ARRAY(SELECT btrim(c) FROM unnest(string_to_array(k, ',')) AS c ORDER BY 1) = wanted) THEN
    RETURN;
  END IF;
  keys := dataverse.request(info.server::name, 'GET', format(
    'EntityDefinitions(LogicalName=''%s'')/Keys?$select=KeyAttributes,EntityKeyIndexStatus',
    info.logical_name)) -> 'value';
  SELECT k.value ->> 'EntityKeyIndexStatus' INTO status FROM jsonb_array_elements(keys) AS k
  WHERE ARRAY(SELECT jsonb_array_elements_text(k.value -> 'KeyAttributes') ORDER BY 1) = wanted
  ORDER BY k.value ->> 'EntityKeyIndexStatus' LIMIT 1;
  IF status = 'Active' THEN
    RETURN;
  END IF;
  SELECT string_agg(n.names, '; ' ORDER BY n.names) INTO others
  FROM jsonb_array_elements(keys) AS k,
    LATERAL (SELECT string_agg(c, ',') AS names FROM jsonb_array_elements_text(k.value -> 'KeyAttributes') AS c) AS n
  WHERE k.value ->> 'EntityKeyIndexStatus' = 'Active';
  RAISE EXCEPTION USING
    errcode = 'invalid_parameter_value',
    message = format('columns "%s" of foreign table %s are not an alternate key',
                     array_to_string(key, ','), foreign_table),
    detail = CASE
      WHEN status IS NOT NULL THEN
        format('Dataverse has not built the index of the key: its status is "%s".', status)
      ELSE format('Alternate keys of table "%s" in Dataverse: %s.', info.logical_name, coalesce(others, 'none')) END,
    hint = CASE
      WHEN status IS NOT NULL THEN
        'Wait until the key is active.  If its index failed, remove duplicates, and activate it again.'
      ELSE
        'Name the columns of an alternate key, have the query return ids instead, or create the key in Dataverse.' END;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_check_key(regclass, text[]) IS
  'refuses columns that are not an alternate key; for dataverse.push()';

-- Returns the statements of a push: $1 and $2 are the numbers before the first and
-- of the last row, $3 selects among them, by their numbers or ids, $4 is the greatest version
-- before the push, and $5 the time when it began.  Statements that write run with the
-- caller's search path, which triggers may expect, so names and operators are
-- qualified.  "send" returns rows in the order in which they are stored, that of their numbers.
--
-- "existing" are rows whose ids exist.  "done" are rows that need not be sent
-- again: a row to create that exists and is ours, a row to change that has the
-- intended values, a row to delete that is gone.  An id that was generated for a
-- row belongs to no other one.  A row with a supplied id is ours if it has changed
-- since the push began, and has the values that were to be sent.
CREATE FUNCTION dataverse_private.push_statements(
  foreign_table regclass, staging regclass, operation text, key text[],
  OUT send text, OUT send_these text, OUT send_returning text, OUT "all" text, OUT firsts text, OUT existing text,
  OUT ours text,
  OUT with_ids text, OUT number_ids text, OUT duplicate text, OUT version text, OUT "match" text, OUT upsert_key text,
  OUT id_column text,
  OUT is_own boolean, OUT is_given boolean, OUT by_id boolean, OUT pairs boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  columns CONSTANT text[] := ARRAY(
    SELECT a.attname::text FROM pg_attribute AS a
    WHERE a.attrelid = staging AND a.attnum > 0 AND NOT a.attisdropped AND a.attname NOT IN ('row number', 'own id')
    ORDER BY a.attnum);
  own CONSTANT boolean := NOT EXISTS (
    SELECT FROM pg_attribute AS a WHERE a.attrelid = staging AND a.attname = 'own id');
  info CONSTANT record := dataverse_private.push_info(foreign_table, operation, key, columns);
  keys CONSTANT text[] := info.match;
  span CONSTANT text := 's."row number" OPERATOR(pg_catalog.>) $1 AND s."row number" OPERATOR(pg_catalog.<=) $2';
  these CONSTANT text := ' AND s."row number" OPERATOR(pg_catalog.=) ANY ($3)';
  source CONSTANT text := format('ONLY %s AS s', staging);
  names text := (
    SELECT string_agg(quote_ident(c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i));
  inputs text := (
    SELECT string_agg('s.' || quote_ident(c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i));
  sets text := (
    SELECT string_agg(format('%1$I = s.%1$I', c), ', ' ORDER BY i) FROM unnest(columns) WITH ORDINALITY AS u (c, i)
    WHERE c <> ALL (keys));
  matched text := (
    SELECT string_agg(format('t.%1$I OPERATOR(pg_catalog.=) s.%1$I', c), ' AND ') FROM unnest(keys) AS c);
  -- in a list, so that they are requested together
  listed text := format('t.%1$I OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT s.%1$I FROM %2$s WHERE %3$s%4$s))',
                        keys[1], source, span, these);
  same text;
  is_ours text;
BEGIN
  by_id := info.by_id;
  pairs := info.pairs;
  id_column := info.id_column;
  is_given := NOT own;
  is_own := own AND operation = 'insert' AND NOT pairs;
  SELECT string_agg(CASE
      WHEN a.attcollation <> 0 THEN
        format('nullif(t.%1$I COLLATE "C", '''') IS NOT DISTINCT FROM nullif(s.%1$I COLLATE "C", '''')', a.attname)
      WHEN a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype) THEN
        -- most tables have no fractions of seconds
        format('(t.%1$I IS NOT DISTINCT FROM s.%1$I OR t.%1$I = date_trunc(''second'', s.%1$I))', a.attname)
      WHEN a.atttypid = 'numeric'::regtype THEN
        format('(t.%1$I IS NOT DISTINCT FROM s.%1$I OR t.%1$I = round(s.%1$I, scale(t.%1$I)))', a.attname)
      WHEN a.atttypid = 'int4[]'::regtype THEN
        format('(t.%1$I @> s.%1$I AND t.%1$I <@ s.%1$I OR t.%1$I IS NULL AND coalesce(s.%1$I, ''{}'') = ''{}'')',
               a.attname)
      -- an image or a double may not be returned as it was sent; writing it again is safe,
      -- creating it again is not
      WHEN a.atttypid IN ('bytea'::regtype, 'float4'::regtype, 'float8'::regtype) THEN
        CASE operation WHEN 'insert' THEN 'true' ELSE 'false' END
      WHEN a.atttypid IN (SELECT o.oprleft FROM pg_operator AS o WHERE o.oprname = '=' AND o.oprleft = o.oprright
                            AND o.oprnamespace = 'pg_catalog'::regnamespace) THEN
        format('t.%1$I IS NOT DISTINCT FROM s.%1$I', a.attname)
      ELSE format('t.%1$I::text IS NOT DISTINCT FROM s.%1$I::text', a.attname) END, ' AND ')
  INTO same
  FROM pg_attribute AS a
  WHERE a.attrelid = foreign_table AND a.attname = ANY (columns) AND a.attname <> ALL (keys);
  same := coalesce(same, 'true');
  IF operation <> 'insert' THEN
    is_ours := same;
  ELSIF own OR pairs THEN
    is_ours := 'true';
  ELSE
    is_ours := format('(s."own id" OR %s AND %s AND NOT EXISTS (SELECT FROM ONLY %s AS e WHERE e.%4$I = s.%4$I'
                   ' AND e."row number" < s."row number"))',
      CASE
        WHEN info.version_column IS NOT NULL THEN format('t.%I > $4', info.version_column)
        WHEN EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = 'createdon'
                       AND a.atttypid = 'timestamptz'::regtype) THEN
          't.createdon >= $5 - interval ''5 minutes'''
        ELSE 'true' END,
      same, staging, id_column);
  END IF;
  send := CASE operation
    WHEN 'update' THEN
      format('UPDATE ONLY %s AS t SET %s FROM %s WHERE %s AND %s', foreign_table, sets, source, matched, span)
    WHEN 'delete' THEN format('DELETE FROM ONLY %s AS t USING %s WHERE %s AND %s', foreign_table, source, matched, span)
    ELSE format('INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s', foreign_table, names, inputs, source, span) END;
  -- rows that are not identified by their ids have to be read, many at once
  IF operation IN ('update', 'delete') AND NOT by_id AND NOT pairs THEN
    send := send || ' AND ' || replace(listed, these, '');
  END IF;
  send_these := send || these ||
    CASE WHEN operation IN ('insert', 'upsert') THEN ' ORDER BY s."row number"' ELSE '' END;
  send_returning := format('WITH w AS (%s%s ORDER BY s."row number" RETURNING %4$I)'
                           ' SELECT pg_catalog.array_agg(s."row number")'
                           ' FROM w AS t, %3$s WHERE t.%4$I OPERATOR(pg_catalog.=) s.%4$I AND %5$s%2$s',
                           send, these, source, id_column, span);
  "all" := format('SELECT array_agg(s."row number") FROM %s WHERE %s', source, span);
  firsts := format('SELECT array_agg(s."row number") FROM %s WHERE %s AND NOT EXISTS'
                   ' (SELECT FROM ONLY %s AS e WHERE e.%4$I = s.%4$I AND e."row number" < s."row number")',
                   source, span, staging, id_column);
  existing := format('SELECT array_agg(s."row number") FROM ONLY %s AS t, %s WHERE %s AND %s AND %s%s',
                     foreign_table, source, listed, matched, span, these);
  ours := format('SELECT array_agg(s."row number") FROM ONLY %s AS t, %s WHERE %s AND %s AND %s%s AND %s',
                 foreign_table, source, listed, matched, span, these, is_ours);
  with_ids := format('SELECT array_agg(s."row number") FROM %s WHERE %s AND s.%I = ANY ($3)', source, span, id_column);
  IF id_column = ANY (columns) THEN
    number_ids := format('SELECT array_agg(v.n ORDER BY v.i) FROM (SELECT u.i, max(s."row number") AS n'
                         ' FROM unnest($3) WITH ORDINALITY AS u (id, i)'
                         ' LEFT JOIN %s ON s.%I = u.id AND %s GROUP BY u.i) AS v', source, id_column, span);
  END IF;
  "match" := (SELECT string_agg(quote_ident(m), ', ') FROM unnest(keys) AS m);
  -- After a crash, the last one would be unknown.  Dataverse finds a row by a key without regard
  -- to case and to trailing spaces, while rows to be updated are looked up in PostgreSQL.
  IF operation IN ('update', 'upsert') THEN
    SELECT format('SELECT concat_ws('', '', %1$s) FROM ONLY %2$s AS s WHERE num_nonnulls(%3$s) = %4$s'
                  ' GROUP BY %5$s HAVING count(*) > 1 LIMIT 1',
                  string_agg(format('min(s.%I::text)', m), ', ' ORDER BY i), staging,
                  string_agg(format('s.%I', m), ', ' ORDER BY i), count(*),
                  string_agg(format(CASE WHEN operation = 'upsert' AND t.typcategory = 'S'
                                    THEN 'lower(rtrim(s.%I) COLLATE "default")' ELSE 's.%I' END, m), ', ' ORDER BY i))
    INTO duplicate
    FROM unnest(keys) WITH ORDINALITY AS u (m, i)
      JOIN pg_attribute AS a ON a.attrelid = staging AND a.attname = m JOIN pg_type AS t ON t.oid = a.atttypid;
  END IF;
  IF NOT own AND info.version_column IS NOT NULL THEN
    version := format('SELECT ARRAY(SELECT coalesce(t.%1$I, 0)::bigint FROM ONLY %2$s AS t'
                      ' ORDER BY t.%1$I DESC NULLS LAST LIMIT 1)', info.version_column, foreign_table);
  END IF;
  IF operation = 'upsert' AND NOT by_id AND key <> '{}' THEN
    upsert_key := (SELECT string_agg(quote_ident(k), ', ' ORDER BY i) FROM unnest(key) WITH ORDINALITY AS u (k, i));
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_statements(regclass, regclass, text, text[]) IS
  'the statements of a push; for dataverse.push()';

-- Creates the table for the rows of a query with these columns, in the first schema of the
-- caller's search path in which the caller can create tables, since owners of schemas in the
-- path are trusted anyway.  No other role gets rights to the table, not even by default
-- privileges.
--
-- The types are those of the foreign table, so that unsuitable values are refused
-- before anything is sent.  The rows of a heap stay in the order in which they are stored.
CREATE FUNCTION dataverse_private.push_table(
  name text, foreign_table regclass, columns text[], operation text, key text[], schemas name[])
RETURNS regclass
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  schema CONSTANT name := (
    SELECT n.nspname FROM unnest(schemas) WITH ORDINALITY AS u (s, i) JOIN pg_namespace AS n ON n.nspname = u.s
    WHERE has_schema_privilege(n.oid, 'CREATE') AND n.oid <> pg_my_temp_schema() AND NOT starts_with(n.nspname, 'pg_')
    ORDER BY u.i LIMIT 1);
  staging text;
  info record;
  id text;
  makes_ids boolean;
  grantee text;
BEGIN
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = 'could not find a schema for the rows to be pushed',
      detail = 'The result of the query is stored in a table in the first schema of search_path'
        ' in which the role can create tables.',
      hint = format('Create a schema, or ask an administrator to create one: CREATE SCHEMA AUTHORIZATION %I;',
                    current_user);
  END IF;
  staging := format('%I.%I', schema, name);
  info := dataverse_private.push_info(foreign_table, operation, key, columns);
  id := info.id_column;
  makes_ids := operation = 'insert' AND NOT info.pairs;
  IF operation = 'upsert' AND key <> '{}' AND NOT info.by_id THEN
    PERFORM dataverse_private.push_check_key(foreign_table, key);
  END IF;
  EXECUTE (
    SELECT format('CREATE TABLE %s ("row number" bigint%s%s, %s) USING heap WITH (autovacuum_enabled = off)', staging,
                  CASE WHEN makes_ids AND id = ANY (columns) THEN ', "own id" boolean' END,
                  CASE WHEN makes_ids AND id <> ALL (columns) THEN format(', %I uuid', id) END,
                  string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY u.i))
    FROM unnest(columns) WITH ORDINALITY AS u (c, i)
      JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = u.c);
  FOR grantee IN
    SELECT DISTINCT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS x WHERE c.oid = to_regclass(staging) AND x.grantee <> c.relowner
  LOOP
    EXECUTE format('REVOKE ALL ON TABLE %s FROM %s CASCADE', staging, grantee);
  END LOOP;
  RETURN staging::regclass;
END
$$;

COMMENT ON FUNCTION dataverse_private.push_table(text, regclass, text[], text, text[], name[]) IS
  'creates the table for the rows of a push; for dataverse.push()';
