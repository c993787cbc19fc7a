-- Refused rows.  The extension files them.  A row is filed for the current user,
-- who may see it, retry it, and delete it.
--
-- pg_dump includes the rows.  It can do so for any role that may read the whole
-- table, which is why the table has no row security, and the views have the
-- conditions.  In a dump, roles and tables are identified by names, which are
-- looked up when the rows are restored, because OIDs of another database are
-- meaningless.

-- Generated columns are computed with the search path of the role that changes a
-- row, so the next two functions do not depend on it.
CREATE FUNCTION dataverse_private.role_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname::pg_catalog.text OPERATOR(pg_catalog.=) $1 $$;

COMMENT ON FUNCTION dataverse_private.role_oid(text) IS
  'the role that has this name when a row is filed or restored; for dataverse_private.rejected_rows';

CREATE FUNCTION dataverse_private.table_oid(name text)
RETURNS oid
LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT pg_catalog.to_regclass($1)::pg_catalog.oid $$;

COMMENT ON FUNCTION dataverse_private.table_oid(text) IS
  'the table that has this name when a row is filed or restored; for dataverse_private.rejected_rows';

-- Returns the role with this OID, by any name; entries of a dropped role belong
-- to superusers (10 is the bootstrap superuser).
CREATE FUNCTION dataverse_private.role_or_superuser(role oid)
RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce((SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.oid = $1), 10) $$;

COMMENT ON FUNCTION dataverse_private.role_or_superuser(oid) IS
  'the role that has this OID, or the first superuser if there is none';

CREATE TABLE dataverse_private.rejected_rows (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  pid integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
  role text NOT NULL,
  server text NOT NULL,
  foreign_table text NOT NULL,
  operation text NOT NULL,
  row_number bigint,
  row_id uuid,
  "row" jsonb,
  code text,
  sqlstate text NOT NULL,
  message text NOT NULL,
  attempts integer NOT NULL,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  table_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED
);

CREATE INDEX rejected_rows_row_id_idx ON dataverse_private.rejected_rows (row_id);

COMMENT ON TABLE dataverse_private.rejected_rows IS
  'the rows behind the view dataverse.rejects, of all roles';

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.rejected_rows', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.rejected_rows_id_seq', '');

-- No role can file a row for another one, not even a member of
-- pg_write_all_data.
CREATE FUNCTION dataverse_private.refuse_forgery()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF NOT (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c WHERE c.oid = TG_RELID) THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = 'rows of dataverse_private.rejected_rows are filed by the extension only';
  END IF;
  RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.refuse_forgery() IS
  'lets only the owner of dataverse_private.rejected_rows add rows';

REVOKE ALL ON FUNCTION dataverse_private.refuse_forgery() FROM PUBLIC;

CREATE TRIGGER refuse_forgery BEFORE INSERT ON dataverse_private.rejected_rows
  FOR EACH STATEMENT EXECUTE FUNCTION dataverse_private.refuse_forgery();

-- A row can be corrected by the role for which it was filed, which will write it;
-- not by members of that role, which could otherwise make it write values that it
-- has never seen.
--
-- The OIDs are generated again from the names, so these must be the current names
-- of role and table.  A name that another object has taken is rejected.
-- (Generated columns are not known yet.)
CREATE FUNCTION dataverse_private.refuse_change()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class AS c WHERE c.oid = TG_RELID)
     OR (OLD.role_oid = (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = CURRENT_USER)
         AND to_jsonb(NEW) - '{row,role_oid,table_oid}'::text[] = to_jsonb(OLD) - '{row,role_oid,table_oid}'::text[]) THEN
    IF NEW.role = OLD.role THEN
      NEW.role := coalesce((SELECT r.rolname FROM pg_roles AS r WHERE r.oid = OLD.role_oid),
                           CASE WHEN dataverse_private.role_oid(OLD.role) <> OLD.role_oid THEN pg_get_userbyid(OLD.role_oid) END, OLD.role);
    END IF;
    IF NEW.foreign_table = OLD.foreign_table THEN
      NEW.foreign_table := coalesce((SELECT c.oid::regclass::text FROM pg_class AS c WHERE c.oid = OLD.table_oid), OLD.foreign_table);
    END IF;
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    errcode = 'insufficient_privilege',
    message = 'rows of dataverse_private.rejected_rows are changed by the extension only';
END
$$;

COMMENT ON FUNCTION dataverse_private.refuse_change() IS
  'lets only the owner of dataverse_private.rejected_rows change rows, and the role for which a row was filed correct it';

REVOKE ALL ON FUNCTION dataverse_private.refuse_change() FROM PUBLIC;

CREATE TRIGGER refuse_change BEFORE UPDATE ON dataverse_private.rejected_rows
  FOR EACH ROW EXECUTE FUNCTION dataverse_private.refuse_change();

-- A row belongs to the role for which it was filed, whatever its name is now.
CREATE VIEW dataverse_private.visible_rejects WITH (security_barrier) AS
  SELECT x.id, x.at, x.pid, coalesce((SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.oid = x.role_oid), x.role) AS role, x.server,
         x.foreign_table, x.operation, x.row_number, x.row_id, x."row", x.code, x.sqlstate, x.message, x.attempts
  FROM dataverse_private.rejected_rows AS x
  WHERE pg_catalog.pg_has_role(dataverse_private.role_or_superuser(x.role_oid), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse_private.visible_rejects IS
  'the rows of dataverse_private.rejected_rows that the current user may see; use the view dataverse.rejects';

-- A role that may delete from a view may lock it, and with it all tables and
-- views in its definition, against all others.  No such view refers to the table,
-- because then any role could stop all others from filing rows: this function is
-- in between, which LOCK TABLE does not follow.
CREATE FUNCTION dataverse_private.read_rejects()
RETURNS SETOF dataverse_private.visible_rejects
LANGUAGE sql STABLE ROWS 1000
AS $$ SELECT * FROM dataverse_private.visible_rejects $$;

COMMENT ON FUNCTION dataverse_private.read_rejects() IS
  'the rows of the view dataverse.rejects';

CREATE VIEW dataverse.rejects AS
  SELECT id, at, pid, role, server, foreign_table, operation, row_number, row_id, "row", code, sqlstate,
         message, attempts
  FROM dataverse_private.read_rejects();

COMMENT ON VIEW dataverse.rejects IS
  'rows that Dataverse, or the table of a copy, refused under on_error = continue, and the reasons';

-- Roles that may only read all rows may not delete them.
CREATE RULE delete_own AS ON DELETE TO dataverse.rejects DO INSTEAD
  DELETE FROM dataverse_private.rejected_rows AS t
  WHERE t.id = OLD.id AND pg_catalog.pg_has_role(dataverse_private.role_or_superuser(t.role_oid), 'USAGE')
  RETURNING t.id, t.at, t.pid, OLD.role, t.server, t.foreign_table, t.operation, t.row_number, t.row_id, t."row", t.code,
            t.sqlstate, t.message, t.attempts;

-- Rows are corrected through this view.  The privilege to update a column does not
-- suffice to lock the view.
CREATE VIEW dataverse_private.correctable_rejects WITH (security_barrier) AS
  SELECT id, "row", table_oid
  FROM dataverse_private.rejected_rows
  WHERE role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER);

COMMENT ON VIEW dataverse_private.correctable_rejects IS
  'the rows that were filed for the current user, to be corrected; use the view dataverse.rejects';

-- Only these rows are retried.  Members of a role see and delete its rows, but
-- they have not written them.  Rows that a local table has refused are retried
-- by dataverse.pull().
CREATE VIEW dataverse_private.own_rejects WITH (security_barrier) AS
  SELECT id, at, pid, table_oid, operation, row_id, "row", attempts
  FROM dataverse_private.rejected_rows
  WHERE role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER) AND operation <> 'pull';

COMMENT ON VIEW dataverse_private.own_rejects IS
  'the rows that were filed for the current user; for dataverse.retry_rejects()';

-- The privilege to update a column, which locking rows requires as well, does not
-- suffice to lock the view.  No row is updated; retried rows are deleted.
CREATE RULE delete_retried AS ON UPDATE TO dataverse_private.own_rejects DO INSTEAD
  DELETE FROM dataverse_private.rejected_rows AS t
  WHERE t.id = OLD.id AND t.role_oid = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = CURRENT_USER);

-- "is_key": its value identifies the row.  "reason": why it cannot be written or
-- updated.
CREATE FUNCTION dataverse_private.writable_columns(foreign_table regclass)
RETURNS TABLE (name text, on_insert boolean, on_update boolean, nullable boolean, partner text, is_key boolean, reason text)
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_writable_columns';

COMMENT ON FUNCTION dataverse_private.writable_columns(regclass) IS
  'which columns of a foreign table can be written, and which pairs of columns are written together; for dataverse.sync() and dataverse.rejects';

-- Columns of types that do not come with PostgreSQL are left to retry_rejects(), which
-- checks whose code it runs.
CREATE FUNCTION dataverse_private.correct_check_type(foreign_table regclass, name text, value jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  type text := (
    SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute AS a
    WHERE a.attrelid = foreign_table AND a.attname = name AND a.atttypid < 16384);
BEGIN
  IF type IS NOT NULL THEN
    EXECUTE format('SELECT 1 FROM jsonb_to_record($1) AS r (%I %s)', name, type) USING jsonb_build_object(name, value);
  END IF;
EXCEPTION
  WHEN data_exception THEN
    RAISE EXCEPTION USING
      errcode = SQLSTATE,
      message = format('invalid value for column "%s" of foreign table %s', name, foreign_table),
      detail = format('The column is %s: %s.', type, SQLERRM);
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_check_type(regclass, text, jsonb) IS
  'refuses a value that a column cannot have; for dataverse.rejects';

-- Returns the corrections that retry_rejects() could not carry out.  Unchanged
-- values are known to be sendable.
CREATE FUNCTION dataverse_private.correct_check(entry dataverse.rejects, "row" jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  foreign_table CONSTANT regclass := (
    SELECT c.oid FROM dataverse_private.own_rejects AS o JOIN pg_class AS c ON c.oid = o.table_oid WHERE o.id = entry.id AND c.relkind = 'f');
  changed text[];
  wrong record;
BEGIN
  IF entry."row" IS NULL OR entry.operation IN ('delete', 'pull') THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('row %s of dataverse.rejects cannot be corrected', entry.id),
      detail = CASE
        WHEN entry.operation = 'pull' THEN 'It is a row of Dataverse that a local table has refused.'
        WHEN entry."row" IS NULL THEN 'Its values were not filed.'
        ELSE 'It was to be deleted, so none of its values are written.' END,
      hint = CASE entry.operation
        WHEN 'pull' THEN 'Change the row in Dataverse, or the local table that refuses it.  The next dataverse.pull() tries it again.'
        ELSE 'Delete it from dataverse.rejects, and make the intended change to the foreign table.' END;
  END IF;
  IF coalesce(jsonb_typeof("row"), 'null') <> 'object' OR "row" = '{}' THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = 'invalid value for column "row" of dataverse.rejects',
      detail = 'It must be a JSON object whose members have the names of columns of the foreign table.';
  END IF;
  IF foreign_table IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_table',
      message = format('foreign table %s no longer exists', entry.foreign_table),
      detail = format('Row %s of dataverse.rejects cannot be written again.', entry.id);
  END IF;
  -- a missing member counts as well, if it is a key
  changed := ARRAY(SELECT k FROM jsonb_object_keys(entry."row" || "row") AS k WHERE "row" -> k IS DISTINCT FROM entry."row" -> k ORDER BY k);

  SELECT k AS name INTO wrong FROM unnest(changed) AS k
  WHERE "row" ? k AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = foreign_table AND a.attname = k
                                    AND a.attnum > 0 AND NOT a.attisdropped)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'undefined_column',
      message = format('column "%s" of foreign table %s does not exist', wrong.name, foreign_table);
  END IF;

  SELECT w.name, w.is_key AND w.on_insert AS is_key, w.on_update AND a.attgenerated = '' AS on_update,
         CASE WHEN a.attgenerated <> '' THEN 'PostgreSQL computes it.' ELSE w.reason END AS reason
  INTO wrong
  FROM dataverse_private.writable_columns(foreign_table) AS w JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = w.name
  WHERE w.name = ANY (changed)
    AND CASE
      WHEN w.is_key THEN entry.operation = 'update' OR entry."row" ->> w.name = entry.row_id::text
      WHEN a.attgenerated <> '' THEN "row" ? w.name
      WHEN entry.operation = 'update' THEN "row" ? w.name AND NOT w.on_update
      ELSE "row" ? w.name AND NOT w.on_insert END
  ORDER BY w.name LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('column "%s" of foreign table %s cannot be %s', wrong.name, foreign_table,
                       CASE WHEN wrong.is_key THEN 'corrected' ELSE 'written' END),
      detail = wrong.reason,
      hint = CASE
        WHEN wrong.is_key THEN format('Write the other row to the foreign table, and delete row %s from dataverse.rejects.', entry.id)
        WHEN wrong.on_update THEN 'Omit it, and set it with UPDATE once the row exists.'
        ELSE 'Omit it.' END;
  END IF;

  -- the name of a lookup's table has no meaning without the id
  SELECT w.name, w.partner INTO wrong
  FROM dataverse_private.writable_columns(foreign_table) AS w JOIN pg_attribute AS a ON a.attrelid = foreign_table AND a.attname = w.name
  WHERE "row" ? w.name AND NOT "row" ? w.partner AND a.atttypid <> 'uuid'::regtype
  ORDER BY w.name LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = format('column "%s" of foreign table %s cannot be written without "%s"', wrong.name, foreign_table, wrong.partner),
      detail = format('It names the table that "%s" refers to.', wrong.partner),
      hint = 'Specify both columns, or neither.';
  END IF;
  IF entry.operation = 'update' AND NOT EXISTS (
    SELECT FROM dataverse_private.writable_columns(foreign_table) AS w WHERE "row" ? w.name AND NOT w.is_key)
  THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_parameter_value',
      message = 'invalid value for column "row" of dataverse.rejects',
      detail = 'It has no column to update.',
      hint = format('To discard it, delete row %s from dataverse.rejects.', entry.id);
  END IF;
  PERFORM dataverse_private.correct_check_type(foreign_table, k, "row" -> k) FROM unnest(changed) AS k WHERE "row" ? k;
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_check(dataverse.rejects, jsonb) IS
  'refuses corrections that dataverse.retry_rejects() could not write; for dataverse.rejects';

CREATE FUNCTION dataverse_private.correct_reject()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF to_jsonb(NEW) - 'row' <> to_jsonb(OLD) - 'row' THEN
    RAISE EXCEPTION USING
      errcode = 'feature_not_supported',
      message = 'only column "row" of dataverse.rejects can be changed';
  END IF;
  IF NOT EXISTS (SELECT FROM dataverse_private.correctable_rejects AS c WHERE c.id = OLD.id) THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = format('permission denied to correct a row that was filed for role "%s"', OLD.role),
      detail = format('Row %s of dataverse.rejects will be written with the rights of that role, which alone can correct it.', OLD.id),
      hint = 'Use SET ROLE, if you are a member of that role.';
  END IF;
  PERFORM dataverse_private.correct_check(OLD, NEW."row");
  UPDATE dataverse_private.correctable_rejects AS c SET "row" = NEW."row" WHERE c.id = OLD.id;
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION dataverse_private.correct_reject() IS
  'corrects a row of the view dataverse.rejects';

REVOKE ALL ON FUNCTION dataverse_private.correct_reject() FROM PUBLIC;

CREATE TRIGGER correct_reject INSTEAD OF UPDATE ON dataverse.rejects
  FOR EACH ROW EXECUTE FUNCTION dataverse_private.correct_reject();

CREATE FUNCTION dataverse_private.retrying(ids bigint[])
RETURNS void
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_retrying';

COMMENT ON FUNCTION dataverse_private.retrying(bigint[]) IS
  'which of the caller''s rejected rows the next statement tries again; for dataverse.retry_rejects()';

-- Runs one statement for each combination of table, operation, and set of columns.
-- The entry of a row that is refused again stays, with the new reason and one more
-- attempt; the others are deleted.  The caller has not named the tables, so tables
-- that may not be written, or would run code of other roles, are skipped.
CREATE FUNCTION dataverse.retry_rejects(
  foreign_table regclass DEFAULT NULL,
  since timestamptz DEFAULT NULL,
  OUT retried bigint,
  OUT succeeded bigint,
  OUT failed bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET dataverse_fdw.guard = everybody
SET dataverse_fdw.run_settings = ''
AS $$
#variable_conflict use_column
DECLARE
  part record;
  keys text[];
  last_id bigint;
  refused bigint[];
  message text;
  detail text;
BEGIN
  retried := 0;
  failed := 0;
  PERFORM dataverse_private.check_session('rejected rows cannot be retried');
  FOR part IN
    WITH mine AS MATERIALIZED (
      SELECT r.id, r.table_oid, r.operation, r.row, r.attempts
      FROM dataverse_private.own_rejects AS r
      WHERE (r.table_oid = retry_rejects.foreign_table OR retry_rejects.foreign_table IS NULL)
        AND (r.at >= since OR since IS NULL)
        AND r.row <> '{}'
      ORDER BY r.id
      FOR UPDATE OF r),
    tables AS MATERIALIZED (
      SELECT t.table_oid, format('%I.%I', n.nspname, c.relname) AS name
      FROM (SELECT DISTINCT m.table_oid FROM mine AS m) AS t JOIN pg_class AS c ON c.oid = t.table_oid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE dataverse_private.pull_is_foreign(t.table_oid) AND has_table_privilege(t.table_oid, 'INSERT, UPDATE, DELETE')
        AND NOT pg_is_other_temp_schema(n.oid))
    SELECT m.table_oid::regclass AS foreign_table, t.name, m.operation, c.names,
           array_agg(m.id ORDER BY m.id) AS ids, array_agg(m.row ORDER BY m.id) AS rows,
           array_agg(m.attempts ORDER BY m.id) AS attempts,
           (SELECT string_agg(quote_ident(c), ', ' ORDER BY i)
            FROM unnest(c.names) WITH ORDINALITY AS u (c, i)) AS columns,
           (SELECT string_agg('r.' || quote_ident(c), ', ' ORDER BY i)
            FROM unnest(c.names) WITH ORDINALITY AS u (c, i)) AS inputs
    FROM mine AS m JOIN tables AS t USING (table_oid), LATERAL (
      SELECT array_agg(a.attname ORDER BY a.attnum) AS names
      FROM pg_attribute AS a
      WHERE a.attrelid = m.table_oid AND a.attnum > 0 AND NOT a.attisdropped
        AND m.row ? a.attname) AS c
    WHERE c.names IS NOT NULL
    GROUP BY m.table_oid, t.name, m.operation, c.names
    ORDER BY min(m.id)
  LOOP
    SELECT coalesce(max(id), 0) INTO last_id FROM dataverse_private.own_rejects;
    PERFORM set_config('dataverse_fdw.run_settings', dataverse_private.run_settings(part.foreign_table, jsonb_strip_nulls(jsonb_build_object(
      'on_error', 'continue', 'insert_mode', CASE part.operation WHEN 'upsert' THEN 'upsert' END))), true);
    BEGIN
      PERFORM dataverse_private.hold(part.name, part.foreign_table);
      PERFORM dataverse_private.retrying(part.ids);
      CASE part.operation
        WHEN 'insert', 'upsert' THEN
          EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %3$s'
                         ' FROM unnest($1) WITH ORDINALITY AS u (value, i),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r ORDER BY u.i',
                         part.name, part.columns, part.inputs)
            USING part.rows;
        WHEN 'delete' THEN
          EXECUTE format('DELETE FROM ONLY %1$s AS t USING unnest($1) AS u (value),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE (%2$s) = (%3$s)',
                         part.name,
                         (SELECT string_agg('t.' || quote_ident(c), ', ' ORDER BY i)
                          FROM unnest(part.names) WITH ORDINALITY AS u (c, i)),
                         part.inputs)
            USING part.rows;
        ELSE
          keys := ARRAY(SELECT w.name FROM dataverse_private.writable_columns(part.foreign_table) AS w
                        WHERE w.is_key AND w.name = ANY (part.names));
          CONTINUE WHEN cardinality(keys) IN (0, cardinality(part.names));
          EXECUTE format('UPDATE ONLY %1$s AS t SET %2$s FROM unnest($1) AS u (value),'
                         ' jsonb_populate_record(NULL::%1$s, u.value) AS r WHERE %3$s',
                         part.name,
                         (SELECT string_agg(format('%1$I = r.%1$I', c), ', ') FROM unnest(part.names) AS c
                          WHERE c <> ALL (keys)),
                         (SELECT string_agg(format('t.%1$I = r.%1$I', c), ' AND ') FROM unnest(keys) AS c))
            USING part.rows;
      END CASE;
    EXCEPTION
      WHEN insufficient_privilege THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        RAISE WARNING USING
          errcode = 'insufficient_privilege',
          message = format('rejected rows of foreign table %s are not retried: %s', part.foreign_table, message),
          detail = detail, hint = 'To write them nevertheless, use INSERT with jsonb_populate_record().';
        CONTINUE;
    END;
    SELECT array_agg(u.id) FILTER (WHERE o.attempts > u.attempts),
           retried + count(*), failed + count(*) FILTER (WHERE o.attempts > u.attempts)
    INTO refused, retried, failed
    FROM unnest(part.ids, part.attempts) AS u (id, attempts) JOIN dataverse_private.own_rejects AS o USING (id);
    -- other rows that were refused meanwhile
    SELECT failed + count(*) INTO failed FROM dataverse_private.own_rejects WHERE id > last_id AND pid = pg_backend_pid();
    -- deletes them (rule delete_retried)
    UPDATE dataverse_private.own_rejects SET attempts = attempts
    WHERE id = ANY (part.ids) AND (refused IS NULL OR id <> ALL (refused));
  END LOOP;
  PERFORM dataverse_private.retrying(NULL);
  succeeded := retried - failed;
END
$$;

COMMENT ON FUNCTION dataverse.retry_rejects(regclass, timestamptz) IS
  'tries to write the caller''s rejected rows again and deletes those that succeed from dataverse.rejects';
