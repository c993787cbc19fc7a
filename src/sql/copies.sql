-- A copy is named by its tables.  Their OIDs follow from the names, as in
-- dataverse.rejected_rows, so that a restored dump finds its tables.
CREATE TABLE dataverse.copies (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  foreign_table text NOT NULL,
  target text NOT NULL UNIQUE,
  role text NOT NULL,
  known text[] NOT NULL DEFAULT '{}',
  columns text[] NOT NULL DEFAULT '{}',
  types text[] NOT NULL DEFAULT '{}',
  tracked boolean,
  phase text NOT NULL DEFAULT 'backfill' CHECK (phase IN ('backfill', 'compare', 'settle', 'current')),
  whole boolean NOT NULL DEFAULT false,
  again boolean NOT NULL DEFAULT false,
  link text,
  token text,
  token_at timestamptz,
  ids bigint NOT NULL DEFAULT 0,
  marks bigint[] NOT NULL DEFAULT '{}',
  marked_at timestamptz[] NOT NULL DEFAULT '{}',
  compared_at timestamptz,
  succeeded_at timestamptz,
  id_column text,
  version_column text,
  foreign_oid oid GENERATED ALWAYS AS (dataverse.table_oid(foreign_table)) STORED,
  target_oid oid GENERATED ALWAYS AS (dataverse.table_oid(target)) STORED,
  role_oid oid GENERATED ALWAYS AS (dataverse.role_oid(role)) STORED
);

COMMENT ON TABLE dataverse.copies IS
  'the tables that dataverse.pull() keeps in step, and how far each of them is';
COMMENT ON COLUMN dataverse.copies.known IS 'the columns that there were to copy; what else there is now is new';
COMMENT ON COLUMN dataverse.copies.columns IS 'those of them that are copied; types are those in the foreign table';
COMMENT ON COLUMN dataverse.copies.whole IS 'the comparison under way reads whole rows, rather than ids and versions';
COMMENT ON COLUMN dataverse.copies.again IS 'the comparison under way has to be followed by another one';
COMMENT ON COLUMN dataverse.copies.ids IS 'the number of ids in dataverse.copy_ids';
COMMENT ON COLUMN dataverse.copies.id_column IS
  'the column of ids, if changes of the copy are captured; version_column is that of versions';
COMMENT ON COLUMN dataverse.copies.marks IS 'greatest versions that were seen, each at the time in marked_at';

-- dataverse.capture() finds the copy of a table by it.
CREATE INDEX copies_target_oid_idx ON dataverse.copies (target_oid);

CREATE TABLE dataverse.copy_ids (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  version bigint,
  PRIMARY KEY (copy, id)
);

COMMENT ON TABLE dataverse.copy_ids IS
  'the ids that a comparison under way has found in Dataverse, or still has to read';

CREATE TABLE dataverse.run_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  copy bigint,
  push bigint,
  foreign_table text,
  query text,
  operation text NOT NULL,
  role text NOT NULL,
  pid integer NOT NULL DEFAULT pg_catalog.pg_backend_pid(),
  started_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  ended_at timestamptz,
  status text NOT NULL DEFAULT 'running',
  phase text,
  rows_read bigint NOT NULL DEFAULT 0,
  rows_compared bigint NOT NULL DEFAULT 0,
  inserted bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0,
  unchanged bigint NOT NULL DEFAULT 0,
  deleted bigint NOT NULL DEFAULT 0,
  sent bigint NOT NULL DEFAULT 0,
  missing bigint NOT NULL DEFAULT 0,
  rejected bigint NOT NULL DEFAULT 0,
  conflicts bigint NOT NULL DEFAULT 0,
  requests bigint NOT NULL DEFAULT 0,
  throttles bigint NOT NULL DEFAULT 0,
  time_waited interval NOT NULL DEFAULT '0',
  sqlstate text,
  error text,
  role_oid oid GENERATED ALWAYS AS (dataverse.role_oid(role)) STORED,
  CHECK ((copy IS NULL) <> (push IS NULL))
);

CREATE INDEX run_log_copy_idx ON dataverse.run_log (copy, started_at) WHERE copy IS NOT NULL;
CREATE INDEX run_log_push_idx ON dataverse.run_log (role, started_at) WHERE push IS NOT NULL;

COMMENT ON TABLE dataverse.run_log IS
  'the runs behind the view dataverse.runs, of all roles; each belongs to a copy or to a push';
COMMENT ON COLUMN dataverse.run_log.foreign_table IS 'of a push, which is not kept when it is done; as is query';

SELECT pg_catalog.pg_extension_config_dump('dataverse.copies', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.copies_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.copy_ids', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.run_log', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.run_log_id_seq', '');

-- Who calls a function that runs as its owner: the role of SET ROLE, or else that
-- of the session.
CREATE FUNCTION dataverse.caller()
RETURNS name
LANGUAGE sql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE pg_catalog.current_setting('role') WHEN 'none' THEN session_user
             ELSE pg_catalog.current_setting('role')::name END $$;

COMMENT ON FUNCTION dataverse.caller() IS
  'the role that calls a function that runs as its owner; for dataverse.pull()';

-- A copy belongs to the owner of its table; before there is one, to the role that
-- asked for it, as a rejected row does.
CREATE FUNCTION dataverse.copy_owner(copy dataverse.copies)
RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce((SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid = (copy).target_oid),
                      CASE WHEN pg_catalog.pg_get_userbyid((copy).role_oid) = (copy).role THEN (copy).role_oid
                           ELSE 10 END) $$;

COMMENT ON FUNCTION dataverse.copy_owner(dataverse.copies) IS
  'the role that a copy belongs to; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_get(copy bigint)
RETURNS dataverse.copies
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found_copy dataverse.copies;
BEGIN
  SELECT c.* INTO found_copy FROM dataverse.copies AS c WHERE c.id = copy;
  IF found_copy.id IS NULL OR NOT pg_has_role(dataverse.caller(), dataverse.copy_owner(found_copy), 'MEMBER') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege',
      message = coalesce(format('must be owner of table %s', found_copy.target), 'there is no such copy');
  END IF;
  RETURN found_copy;
END
$$;

COMMENT ON FUNCTION dataverse.copy_get(bigint) IS
  'the state of a copy, for who owns it; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_open(foreign_table regclass, target text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  owner oid;
  kind "char";
  opened dataverse.copies;
  schema oid := to_regnamespace(quote_ident((parse_ident(target))[1]));
BEGIN
  SELECT c.relowner, c.relkind INTO owner, kind FROM pg_class AS c WHERE c.oid = to_regclass(target);
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_schema_name', message = format('schema "%s" does not exist', (parse_ident(target))[1]);
  END IF;
  -- who could create the table may say what it will be a copy of
  IF owner IS NULL AND NOT has_schema_privilege(dataverse.caller(), schema, 'CREATE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for schema %s', schema::regnamespace);
  END IF;
  IF NOT pg_has_role(dataverse.caller(), owner, 'MEMBER') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('must be owner of table %s', target);
  END IF;
  IF kind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a table', target);
  END IF;
  SELECT c.* INTO opened FROM dataverse.copies AS c
  WHERE c.target_oid = to_regclass(copy_open.target) OR c.target = copy_open.target
  ORDER BY c.target_oid = to_regclass(copy_open.target) DESC NULLS LAST LIMIT 1;
  IF opened.id IS NULL THEN
    INSERT INTO dataverse.copies AS c (foreign_table, target, role)
    VALUES (copy_open.foreign_table::text, copy_open.target, dataverse.caller())
    RETURNING * INTO opened;
    RETURN opened.id;
  END IF;
  IF owner IS NOT NULL AND coalesce(opened.foreign_oid, 0) <> copy_open.foreign_table AND opened.foreign_table <> copy_open.foreign_table::text THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s is a copy of another foreign table, %s', target, opened.foreign_table),
      hint = format('To make it a copy of this one, first call SELECT dataverse.forget_copy(%L).', target);
  END IF;
  -- what was changed in a table that is gone concerns no rows of another one
  IF opened.target_oid <> coalesce(to_regclass(copy_open.target)::oid, 0) THEN
    PERFORM dataverse.copy_forget_changes(opened.id);
    UPDATE dataverse.copies AS c SET id_column = NULL, version_column = NULL WHERE c.id = opened.id;
  END IF;
  -- tables may have been renamed, and made again; who had this name before begins anew
  PERFORM dataverse.copy_forget_changes(c.id) FROM dataverse.copies AS c WHERE c.target = copy_open.target AND c.id <> opened.id;
  DELETE FROM dataverse.copies AS c WHERE c.target = copy_open.target AND c.id <> opened.id;
  UPDATE dataverse.copies AS c
  SET foreign_table = copy_open.foreign_table::text, target = copy_open.target, role = dataverse.caller()
  WHERE c.id = opened.id;
  -- of a table that is gone, everything has to be read again
  IF owner IS NULL THEN
    DELETE FROM dataverse.copy_ids AS i WHERE i.copy = opened.id;
    UPDATE dataverse.copies AS c
    SET phase = 'backfill', known = '{}', columns = '{}', types = '{}', link = NULL, token = NULL, token_at = NULL, marks = '{}', marked_at = '{}',
        ids = 0, whole = false, again = false
    WHERE c.id = opened.id;
  END IF;
  RETURN opened.id;
END
$$;

COMMENT ON FUNCTION dataverse.copy_open(regclass, text) IS
  'finds the state of a copy, or begins one; for dataverse.pull()';

-- Changes what the members of "changes" say.
CREATE FUNCTION dataverse.copy_set(copy bigint, changes jsonb)
RETURNS dataverse.copies
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n dataverse.copies := jsonb_populate_record(dataverse.copy_get(copy), changes - 'id');
BEGIN
  -- the target is set to itself so that its OID is found once it exists
  UPDATE dataverse.copies AS c
  SET target = c.target, known = n.known, columns = n.columns, types = n.types, tracked = n.tracked, phase = n.phase, whole = n.whole, again = n.again,
      link = n.link, token = n.token, token_at = n.token_at, ids = n.ids, marks = n.marks, marked_at = n.marked_at,
      compared_at = n.compared_at, succeeded_at = n.succeeded_at
  WHERE c.id = copy
  RETURNING c.* INTO STRICT n;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.copy_set(bigint, jsonb) IS
  'changes the state of a copy; for dataverse.pull()';

-- Adds ids to those found, and returns how many are new; without arrays, forgets them all.
CREATE FUNCTION dataverse.copy_note_ids(copy bigint, ids uuid[], versions bigint[])
RETURNS bigint
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n bigint := 0;
BEGIN
  PERFORM dataverse.copy_get(copy);
  IF ids IS NULL THEN
    DELETE FROM dataverse.copy_ids AS i WHERE i.copy = copy_note_ids.copy;
  ELSE
    INSERT INTO dataverse.copy_ids AS i (copy, id, version)
    SELECT copy_note_ids.copy, u.id, u.version FROM unnest(ids, versions) AS u (id, version)
    ON CONFLICT ON CONSTRAINT copy_ids_pkey DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.copy_note_ids(bigint, uuid[], bigint[]) IS
  'notes the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_drop_ids(copy bigint, dropped uuid[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  DELETE FROM dataverse.copy_ids AS i WHERE i.copy = copy_drop_ids.copy AND i.id = ANY (dropped);
END
$$;

COMMENT ON FUNCTION dataverse.copy_drop_ids(bigint, uuid[]) IS
  'forgets ids that have been read; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_ids_of(copy bigint, most bigint DEFAULT NULL)
RETURNS TABLE (id uuid, version bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER ROWS 100000
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.copy_get(copy);
  RETURN QUERY SELECT i.id, i.version FROM dataverse.copy_ids AS i
    WHERE i.copy = copy_ids_of.copy ORDER BY i.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse.copy_ids_of(bigint, bigint) IS
  'the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse.copy_forget(target text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  forgotten bigint;
BEGIN
  SELECT c.id INTO forgotten FROM dataverse.copies AS c
  WHERE c.target_oid = to_regclass(copy_forget.target) OR c.target = copy_forget.target
  ORDER BY c.target_oid = to_regclass(copy_forget.target) DESC NULLS LAST LIMIT 1;
  IF forgotten IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse.copy_get(forgotten);
  DELETE FROM dataverse.copy_ids AS i WHERE i.copy = forgotten;
  PERFORM dataverse.copy_forget_changes(forgotten);
  DELETE FROM dataverse.run_log AS r WHERE r.copy = forgotten;
  DELETE FROM dataverse.copies AS c WHERE c.id = forgotten;
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse.copy_forget(text) IS
  'forgets a copy by the qualified name of its table; for dataverse.forget_copy()';
