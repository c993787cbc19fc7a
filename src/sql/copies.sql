-- A copy is identified by the names of its tables.  Their OIDs are derived
-- from the names, as in dataverse_private.rejected_rows, so that a restored dump
-- finds its tables.
CREATE TABLE dataverse_private.copies (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  foreign_table text NOT NULL,
  target text NOT NULL UNIQUE,
  role text NOT NULL,
  known text[] NOT NULL DEFAULT '{}',
  columns text[] NOT NULL DEFAULT '{}',
  types text[] NOT NULL DEFAULT '{}',
  followed jsonb NOT NULL DEFAULT '{}',
  unfed text[] NOT NULL DEFAULT '{}',
  numbers bigint[],
  types_here text[],
  storage bigint[],
  tracked boolean,
  tracking_refused boolean NOT NULL DEFAULT false,
  phase text NOT NULL DEFAULT 'backfill' CHECK (phase IN ('backfill', 'compare', 'settle', 'current')),
  whole boolean NOT NULL DEFAULT false,
  again boolean NOT NULL DEFAULT false,
  link text,
  expected double precision,
  token text,
  token_at timestamptz,
  token_life interval,
  token_life_at timestamptz,
  metadata text,
  schema jsonb,
  source text,
  ids bigint NOT NULL DEFAULT 0,
  refused bigint NOT NULL DEFAULT 0,
  behind boolean NOT NULL DEFAULT false,
  marks bigint[] NOT NULL DEFAULT '{}',
  marked_at timestamptz[] NOT NULL DEFAULT '{}',
  compared_at timestamptz,
  filled boolean NOT NULL DEFAULT false,
  succeeded_at timestamptz,
  id_column text,
  version_column text,
  foreign_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED,
  target_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(target)) STORED,
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED
);

COMMENT ON TABLE dataverse_private.copies IS
  'the tables that dataverse.pull() keeps in step, and the state of each of them';
COMMENT ON COLUMN dataverse_private.copies.known IS
  'the columns that existed when they were last copied; any others are new';
COMMENT ON COLUMN dataverse_private.copies.columns IS
  'the columns that are copied; "types" are their types in the foreign table';
COMMENT ON COLUMN dataverse_private.copies.followed IS
  'the types of local columns that follow the foreign table, as of the last run';
COMMENT ON COLUMN dataverse_private.copies.unfed IS 'local columns that were copied once, but no longer are';
COMMENT ON COLUMN dataverse_private.copies.numbers IS
  'the OID of the table in which the columns were filled, and their numbers in that table';
COMMENT ON COLUMN dataverse_private.copies.types_here IS 'the types of the columns in that table';
COMMENT ON COLUMN dataverse_private.copies.tracking_refused IS
  'Dataverse has refused to track changes, although the definition may indicate that it does';
COMMENT ON COLUMN dataverse_private.copies.storage IS 'the files of the table when a step of a run last looked';
COMMENT ON COLUMN dataverse_private.copies.whole IS
  'the comparison under way reads whole rows, rather than ids and versions';
COMMENT ON COLUMN dataverse_private.copies.again IS 'the comparison under way has to be followed by another one';
COMMENT ON COLUMN dataverse_private.copies.link IS
  'where reading continues: a link to the next page, or the ranges of ids that are left';
COMMENT ON COLUMN dataverse_private.copies.expected IS 'about how many rows there are, as told with the token';
COMMENT ON COLUMN dataverse_private.copies.token_life IS
  'how long tokens live, as read from the organization at token_life_at';
COMMENT ON COLUMN dataverse_private.copies.metadata IS 'the version of all definitions when those in schema were read';
COMMENT ON COLUMN dataverse_private.copies.schema IS
  'names, ids, and types of the columns that are copied, as defined in Dataverse, and which are set in updates or in creation only; under the empty name, name and id of the table';
COMMENT ON COLUMN dataverse_private.copies.source IS 'the address that the rows were read from';
COMMENT ON COLUMN dataverse_private.copies.ids IS
  'the number of ids in dataverse_private.copy_ids; in a first read, the digest of the ids of inserted rows';
COMMENT ON COLUMN dataverse_private.copies.id_column IS
  'the column of ids, if changes of the copy are captured; version_column is that of versions';
COMMENT ON COLUMN dataverse_private.copies.filled IS 'the table has had rows';
COMMENT ON COLUMN dataverse_private.copies.refused IS 'the number of rows in dataverse_private.copy_refused';
COMMENT ON COLUMN dataverse_private.copies.behind IS
  'rows may be older than the token, because since the last comparison they could not be read, or a trigger has kept them as they were';
COMMENT ON COLUMN dataverse_private.copies.marks IS 'greatest versions that were seen, each at the time in marked_at';

-- dataverse_private.capture() finds the copy of a table by this OID, so it must be unique
CREATE UNIQUE INDEX copies_target_oid_idx ON dataverse_private.copies (target_oid);

CREATE TABLE dataverse_private.copy_ids (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  version bigint,
  PRIMARY KEY (copy, id)
);

COMMENT ON TABLE dataverse_private.copy_ids IS
  'ids that the comparison under way has found in Dataverse or still has to read';

-- Rows whose references were missing ("dangling") are retried separately from the
-- others, because they may need each other.
CREATE TABLE dataverse_private.copy_refused (
  copy bigint NOT NULL,
  id uuid NOT NULL,
  deleted boolean NOT NULL,
  at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  number bigint GENERATED ALWAYS AS IDENTITY,
  attempts integer NOT NULL DEFAULT 1,
  sqlstate text NOT NULL,
  message text NOT NULL,
  detail text,
  "row" jsonb,
  reject bigint,
  dangling boolean NOT NULL GENERATED ALWAYS AS (sqlstate OPERATOR(pg_catalog.=) '23503') STORED,
  PRIMARY KEY (copy, id)
);

CREATE INDEX copy_refused_number_idx ON dataverse_private.copy_refused (copy, dangling, number);

COMMENT ON TABLE dataverse_private.copy_refused IS
  'rows whose insertion, update, or deletion the table of a copy has refused, and which will be tried again';
COMMENT ON COLUMN dataverse_private.copy_refused.reject IS
  'the entry in dataverse_private.rejected_rows, if the row was filed';

CREATE TABLE dataverse_private.run_log (
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
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  CHECK ((copy IS NULL) <> (push IS NULL))
);

CREATE INDEX run_log_copy_idx ON dataverse_private.run_log (copy, started_at) WHERE copy IS NOT NULL;
CREATE INDEX run_log_push_idx ON dataverse_private.run_log (role_oid, started_at) WHERE push IS NOT NULL;

COMMENT ON TABLE dataverse_private.run_log IS
  'the runs behind the view dataverse.runs, of all roles; each belongs to a copy or to a push';
COMMENT ON COLUMN dataverse_private.run_log.foreign_table IS
  'for a push, whose state is not kept when it is done; likewise query';

-- A dump identifies tables only by their names.  A role that has registered the name
-- of a nonexistent table must not own the table that gets this name later, so entries
-- without a table are excluded.  Its names may be quoted differently (pg_dump --quote-all-identifiers).
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copies', '
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                WHERE c.oid = target_oid AND pg_catalog.parse_ident(target) = ARRAY[n.nspname::text, c.relname::text])');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copies_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_ids', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_refused', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.copy_refused_number_seq', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.run_log', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.run_log_id_seq', '');

-- Functions of state, which alone use these tables, are written in this language: PL/pgSQL
-- that runs as the owner of the extension, after the caller has been checked
-- (src/sync/state_function.c).  They never call each other: the caller would be the owner.
CREATE FUNCTION dataverse_private.state_handler()
RETURNS language_handler
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_state_handler';

COMMENT ON FUNCTION dataverse_private.state_handler() IS
  'carries out functions of state';

REVOKE ALL ON FUNCTION dataverse_private.state_handler() FROM PUBLIC;

CREATE LANGUAGE dataverse_state HANDLER dataverse_private.state_handler;

COMMENT ON LANGUAGE dataverse_state IS
  'PL/pgSQL that runs as the owner of dataverse_fdw; only for functions of the extension itself';

CREATE FUNCTION dataverse_private.copy_owner(copy dataverse_private.copies)
RETURNS oid
LANGUAGE C STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'dataverse_copy_owner';

COMMENT ON FUNCTION dataverse_private.copy_owner(dataverse_private.copies) IS
  'the role that a copy belongs to: the owner of its table, or the role that has requested it; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_check(copy bigint, caller oid)
RETURNS void
LANGUAGE C STABLE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_copy_check';

COMMENT ON FUNCTION dataverse_private.copy_check(bigint, oid) IS
  'refuses roles that a copy does not belong to; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_check(bigint, oid) FROM PUBLIC;

CREATE FUNCTION dataverse_private.copy_get(copy bigint)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state STABLE STRICT
AS $$
DECLARE
  found_copy dataverse_private.copies;
BEGIN
  SELECT c.* INTO STRICT found_copy FROM dataverse_private.copies AS c WHERE c.id = copy;
  RETURN found_copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_get(bigint) IS
  'the state of a copy, for its owner; for dataverse.pull()';

-- If an interrupted run has left changes or a comparison unfinished, they are as
-- old as that run: later changes are read after they are done.  A first read is
-- followed by all of this in any case.
CREATE FUNCTION dataverse_private.copy_resumes(copy bigint)
RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT c.phase <> 'backfill' AND (c.phase <> 'current' OR c.link IS NOT NULL) FROM dataverse_private.copy_get($1) AS c $$;

COMMENT ON FUNCTION dataverse_private.copy_resumes(bigint) IS
  'whether a run continues an interrupted one, after which it has to look for further changes; for dataverse.pull()';

-- Tables may have been renamed, and their names given to others.  Copies follow
-- the names of their tables, and the previous holder of a name is the copy of a
-- dropped table.  Names are unique, so they are released before they are assigned.
-- Only the caller's own copies, and the holders of this name, are examined,
-- because tables of other roles may be locked for any time.
CREATE FUNCTION dataverse_private.copy_follow_names(target text, caller oid)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  copies bigint[];
  names text[];
  others bigint[];
BEGIN
  WITH RECURSIVE moved (copy, name) AS (
    SELECT c.id, n.name
    FROM dataverse_private.copies AS c JOIN pg_class AS t ON t.oid = c.target_oid,
      LATERAL (SELECT dataverse_private.pull_target(NULL, t.oid, NULL)) AS n (name)
    WHERE c.target <> n.name AND (c.target = copy_follow_names.target OR c.target_oid = to_regclass(copy_follow_names.target)
                                  OR dataverse_private.copy_owner(c) = caller)
    UNION
    SELECT c.id, n.name
    FROM moved AS m JOIN dataverse_private.copies AS c ON c.target = m.name JOIN pg_class AS t ON t.oid = c.target_oid,
      LATERAL (SELECT dataverse_private.pull_target(NULL, t.oid, NULL)) AS n (name)
    WHERE c.target <> n.name)
  SELECT array_agg(m.copy), array_agg(m.name) INTO copies, names FROM moved AS m;
  IF copies IS NULL THEN
    RETURN;
  END IF;
  others := ARRAY(SELECT c.id FROM dataverse_private.copies AS c WHERE c.target = ANY (names) AND c.id <> ALL (copies));
  PERFORM dataverse_private.copy_remove(o) FROM unnest(others) AS o;
  UPDATE dataverse_private.copies AS c SET target = format('"renamed %s"', c.id) WHERE c.id = ANY (copies);
  UPDATE dataverse_private.copies AS c SET target = n.name FROM unnest(copies, names) AS n (copy, name) WHERE c.id = n.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_follow_names(text, oid) IS
  'updates the names of copies to those of their tables; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_follow_names(text, oid) FROM PUBLIC;

-- Called by functions of state.
CREATE FUNCTION dataverse_private.copy_remove(copy bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  -- in the order of a run that has not locked the table of the copy
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_remove.copy;
  PERFORM FROM dataverse_private.copies AS c WHERE c.id = copy_remove.copy FOR UPDATE;
  PERFORM dataverse_private.copy_forget_changes(copy);
  DELETE FROM dataverse_private.rejected_rows AS e USING dataverse_private.copy_refused AS r
  WHERE r.copy = copy_remove.copy AND e.id = r.reject AND e.operation = 'pull';
  DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_remove.copy;
  DELETE FROM dataverse_private.run_log AS r WHERE r.copy = copy_remove.copy;
  DELETE FROM dataverse_private.copies AS c WHERE c.id = copy_remove.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_remove(bigint) IS
  'removes all state of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_remove(bigint) FROM PUBLIC;

-- If the table has not been read into, everything has to be read.
CREATE FUNCTION dataverse_private.copy_restart(copy bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_restart.copy;
  PERFORM dataverse_private.copy_admit_all(copy);
  UPDATE dataverse_private.copies AS c
  SET phase = 'backfill', tracked = NULL, tracking_refused = false, known = '{}', columns = '{}', types = '{}',
      followed = '{}', unfed = '{}', numbers = NULL, types_here = NULL, storage = NULL, link = NULL, expected = NULL,
      token = NULL, token_at = NULL, marks = '{}', marked_at = '{}', ids = 0, refused = 0, behind = false, whole = false, again = false,
      metadata = NULL, schema = NULL, source = NULL, filled = false, compared_at = NULL, succeeded_at = NULL
  WHERE c.id = copy_restart.copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_restart(bigint) IS
  'discards the progress of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_restart(bigint) FROM PUBLIC;

-- Returns the owner of a table that may become a copy; null if it does not exist.
CREATE FUNCTION dataverse_private.copy_check_target(target text, caller oid)
RETURNS oid
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  schema CONSTANT oid := to_regnamespace(quote_ident((parse_ident(target))[1]));
  owner oid;
  kind "char";
BEGIN
  IF starts_with((parse_ident(target))[1], 'pg_') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('table %s cannot be a copy', target),
      detail = 'A copy cannot be a system catalog or a temporary table.';
  END IF;
  SELECT c.relowner, c.relkind INTO owner, kind FROM pg_class AS c WHERE c.oid = to_regclass(target);
  IF schema IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'invalid_schema_name', message = format('schema "%s" does not exist', (parse_ident(target))[1]),
      hint = format('Create it: CREATE SCHEMA %I;', (parse_ident(target))[1]);
  END IF;
  -- a role that could create the table may register it as a copy
  IF owner IS NULL AND NOT has_schema_privilege(caller, schema, 'CREATE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for schema %s', schema::regnamespace),
      hint = format('Grant the privileges to create the table: GRANT USAGE, CREATE ON SCHEMA %s TO %s;', schema::regnamespace, caller::regrole);
  END IF;
  IF NOT pg_has_role(caller, owner, 'USAGE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('must be owner of table %s', target),
      hint = format('Do this as role %s, the owner of the table, or as a member of that role.', owner::regrole);
  END IF;
  IF kind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION USING
      errcode = 'wrong_object_type', message = format('%s is not a table', target),
      hint = 'A copy is an ordinary or a partitioned table.  If no table of this name exists, one is created.';
  END IF;
  RETURN owner;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_check_target(text, oid) IS
  'refuses targets that cannot be a copy of the caller''s; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_check_target(text, oid) FROM PUBLIC;

CREATE FUNCTION dataverse_private.copy_open(foreign_table regclass, target text, caller oid DEFAULT 0)
RETURNS bigint
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  owner oid;
  opened dataverse_private.copies;
  forgotten bigint;
  gone dataverse_private.copies;
BEGIN
  LOOP
    -- a table has one entry, however its name is written
    target := dataverse_private.pull_target(target, to_regclass(target), NULL);
    owner := dataverse_private.copy_check_target(target, caller);
    PERFORM dataverse_private.copy_follow_names(target, caller);
    SELECT c.* INTO opened FROM dataverse_private.copies AS c
    WHERE c.target_oid = to_regclass(copy_open.target) OR c.target = copy_open.target
    ORDER BY c.target_oid = to_regclass(copy_open.target) DESC NULLS LAST LIMIT 1;
    IF opened.id IS NOT NULL AND owner IS NOT NULL AND opened.target_oid IS NOT DISTINCT FROM to_regclass(copy_open.target)::oid
       AND coalesce(opened.foreign_oid, 0) <> copy_open.foreign_table AND opened.foreign_table <> copy_open.foreign_table::text
    THEN
      RAISE EXCEPTION USING
        errcode = 'object_not_in_prerequisite_state',
        message = format('table %s is a copy of another foreign table, %s', target, opened.foreign_table),
        hint = format('To make it a copy of this one, first call SELECT dataverse.forget_copy(%L).', target);
    END IF;
    -- a previous copy of this name starts over; what another role's runs have reported must not be
    -- visible to others
    FOR gone IN
      SELECT c.* FROM dataverse_private.copies AS c WHERE c.target = copy_open.target AND (c.id <> opened.id
        OR c.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid AND NOT pg_has_role(caller, dataverse_private.copy_owner(c), 'USAGE'))
    LOOP
      PERFORM dataverse_private.copy_remove(gone.id);
      IF gone.id = opened.id THEN
        opened := NULL;
      END IF;
    END LOOP;
    EXIT WHEN opened.id IS NOT NULL;
    INSERT INTO dataverse_private.copies AS c (foreign_table, target, role)
    VALUES (copy_open.foreign_table::text, copy_open.target, pg_get_userbyid(caller))
    ON CONFLICT DO NOTHING
    RETURNING * INTO opened;
    IF opened.id IS NOT NULL THEN
      RETURN opened.id;
    END IF;
    -- another session, perhaps of another role, has just done the same
  END LOOP;
  -- changes in a dropped table do not concern the rows of another one
  IF opened.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid THEN
    forgotten := dataverse_private.copy_forget_changes(opened.id);
    IF forgotten > 0 THEN
      RAISE WARNING 'discarded unsent local changes of another table %: %', target, forgotten;
    END IF;
    UPDATE dataverse_private.copies AS c SET id_column = NULL, version_column = NULL WHERE c.id = opened.id;
  END IF;
  -- an update could have to wait for a run
  UPDATE dataverse_private.copies AS c
  SET foreign_table = CASE WHEN owner IS NULL THEN c.foreign_table ELSE copy_open.foreign_table::text END,
      target = copy_open.target, role = pg_get_userbyid(caller)
  WHERE c.id = opened.id
    AND (c.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid OR c.target <> copy_open.target
         OR owner IS NOT NULL AND (c.foreign_oid IS DISTINCT FROM copy_open.foreign_table::oid OR c.foreign_table <> copy_open.foreign_table::text)
         OR c.role <> pg_get_userbyid(caller) OR c.role_oid IS DISTINCT FROM caller);
  -- by now, the name may be that of another role's table
  PERFORM dataverse_private.copy_check(opened.id, caller);
  -- the earlier rows went into the other table; this one needs everything
  IF owner IS NOT NULL AND opened.target_oid IS DISTINCT FROM to_regclass(copy_open.target)::oid THEN
    PERFORM dataverse_private.copy_restart(opened.id);
  END IF;
  RETURN opened.id;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_open(regclass, text, oid) IS
  'finds the state of a copy, or creates it; for dataverse.pull()';

-- If the table is gone, everything has to be read again.  Only the session that
-- holds the lock of the copy may decide this: other sessions do not see a table
-- that is just being created.
CREATE FUNCTION dataverse_private.copy_begin_anew(copy bigint, foreign_table regclass)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  begun dataverse_private.copies;
BEGIN
  PERFORM dataverse_private.copy_restart(copy);
  UPDATE dataverse_private.copies AS c SET foreign_table = copy_begin_anew.foreign_table::text WHERE c.id = copy
  RETURNING c.* INTO begun;
  RETURN begun;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_begin_anew(bigint, regclass) IS
  'discards the progress of a copy whose table will be created; for dataverse.pull()';

-- Writes the state of a copy, as it was read by copy_get() and then changed, and
-- returns it as it is now.  Each column has one writer:
--
--   foreign_table, target, role   copy_open(), copy_begin_anew(), and copy_follow_names()
--   id_column, version_column     dataverse.track() and untrack()
--   refused                       copy_refuse() and copy_admit(), which count
--   succeeded_at                  the end of a run
--   all others                    this function, for the run that holds the lock of the copy
--
-- So a step of a run reads the state when it begins and writes it when it ends, and
-- undoes nothing of what others write meanwhile.  Only copy_restart() resets these
-- columns in other sessions, if the copy gets another table; then the state that a run has read
-- does not count any more.
CREATE FUNCTION dataverse_private.copy_put(state dataverse_private.copies, caller oid DEFAULT 0)
RETURNS dataverse_private.copies
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  put dataverse_private.copies;
BEGIN
  PERFORM dataverse_private.copy_check(state.id, caller);
  UPDATE dataverse_private.copies AS c
  SET known = state.known, columns = state.columns, types = state.types, followed = state.followed, unfed = state.unfed,
      numbers = state.numbers, types_here = state.types_here, storage = state.storage, source = state.source,
      tracked = state.tracked, tracking_refused = state.tracking_refused, metadata = state.metadata, schema = state.schema,
      phase = state.phase, whole = state.whole, again = state.again, link = state.link, expected = state.expected, ids = state.ids,
      token = state.token, token_at = state.token_at, token_life = state.token_life, token_life_at = state.token_life_at,
      behind = state.behind, marks = state.marks, marked_at = state.marked_at, compared_at = state.compared_at, filled = state.filled
  WHERE c.id = state.id AND c.target_oid IS NOT DISTINCT FROM state.target_oid
  RETURNING c.* INTO put;
  IF put.id IS NULL THEN
    RAISE EXCEPTION USING
      errcode = 'object_not_in_prerequisite_state',
      message = format('table %s was replaced by another one during the run', state.target),
      hint = 'Call the procedure again to read all rows.';
  END IF;
  -- set the target to itself so that its OID is found once it exists, but not the
  -- OID of another table, or of one that another role has created
  IF put.target_oid IS NULL THEN
    UPDATE dataverse_private.copies AS c SET target = c.target WHERE c.id = state.id RETURNING c.* INTO put;
    PERFORM dataverse_private.copy_check(state.id, caller);
  END IF;
  RETURN put;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_put(dataverse_private.copies, oid) IS
  'writes the state of a copy; for dataverse.pull()';

-- The following functions return the state of a copy after it has changed in a way that has several causes.

-- All rows are compared from the beginning: as a whole, or by their ids and versions.
CREATE FUNCTION dataverse_private.copy_to_compare(INOUT state dataverse_private.copies, whole boolean)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  state.phase := 'compare';
  state.whole := whole;
  state.link := NULL;
  state.ids := 0;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_to_compare(dataverse_private.copies, boolean) IS
  'the state of a copy whose rows have to be compared; for dataverse.pull()';

-- All rows are read again: a first read starts over, and rows that have been read are compared.
CREATE FUNCTION dataverse_private.copy_to_reread(INOUT state dataverse_private.copies, whole boolean)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  first_read CONSTANT boolean := state.phase = 'backfill';
BEGIN
  state := dataverse_private.copy_to_compare(state, whole);
  IF first_read THEN
    state.phase := 'backfill';
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_to_reread(dataverse_private.copies, boolean) IS
  'the state of a copy whose rows have to be read again; for dataverse.pull()';

-- It is not known any more from where on changes have to be read.
CREATE FUNCTION dataverse_private.copy_without_token(INOUT state dataverse_private.copies)
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  state.token := NULL;
  state.token_at := NULL;
  state.marks := '{}';
  state.marked_at := '{}';
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_without_token(dataverse_private.copies) IS
  'the state of a copy whose token and marks are invalid; for dataverse.pull()';

-- Adds ids to those found, and returns the number of new ones; without arrays, forgets them all.
CREATE FUNCTION dataverse_private.copy_note_ids(copy bigint, ids uuid[], versions bigint[])
RETURNS bigint
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT
AS $$
DECLARE
  n bigint := 0;
BEGIN
  IF ids IS NULL THEN
    DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_note_ids.copy;
  ELSE
    INSERT INTO dataverse_private.copy_ids AS i (copy, id, version)
    SELECT copy_note_ids.copy, u.id, u.version FROM unnest(ids, versions) AS u (id, version)
    ON CONFLICT ON CONSTRAINT copy_ids_pkey DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
  END IF;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_note_ids(bigint, uuid[], bigint[]) IS
  'records the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_drop_ids(copy bigint, dropped uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  DELETE FROM dataverse_private.copy_ids AS i WHERE i.copy = copy_drop_ids.copy AND i.id = ANY (dropped);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_drop_ids(bigint, uuid[]) IS
  'removes ids that have been read; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_ids_of(copy bigint, most bigint DEFAULT NULL)
RETURNS TABLE (id uuid, version bigint)
LANGUAGE dataverse_state VOLATILE CALLED ON NULL INPUT ROWS 100000
AS $$
BEGIN
  RETURN QUERY SELECT i.id, i.version FROM dataverse_private.copy_ids AS i
    WHERE i.copy = copy_ids_of.copy ORDER BY i.id LIMIT most;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_ids_of(bigint, bigint) IS
  'the ids that a comparison has found; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_refuse(copy bigint, rows dataverse_private.copy_refused[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH noted AS (
    INSERT INTO dataverse_private.copy_refused AS r (copy, id, deleted, sqlstate, message, detail, "row")
    SELECT copy_refuse.copy, n.id, n.deleted, n.sqlstate, n.message, n.detail, n."row" FROM unnest(rows) AS n
    ON CONFLICT ON CONSTRAINT copy_refused_pkey DO UPDATE
    SET deleted = excluded.deleted, sqlstate = excluded.sqlstate, message = excluded.message, detail = excluded.detail,
        "row" = excluded."row", attempts = r.attempts + 1, at = clock_timestamp()
    RETURNING attempts)
  UPDATE dataverse_private.copies AS c SET refused = c.refused + (SELECT count(*) FROM noted AS n WHERE n.attempts = 1)
  WHERE c.id = copy;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refuse(bigint, dataverse_private.copy_refused[]) IS
  'records rows that the table of a copy has refused; for dataverse.pull()';

-- These rows are in step: removes their notes and refused rows.
CREATE FUNCTION dataverse_private.copy_admit(copy bigint, admitted uuid[])
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  WITH gone AS (
    DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_admit.copy AND r.id = ANY (admitted)
    RETURNING r.reject),
  entries AS (
    DELETE FROM dataverse_private.rejected_rows AS e USING gone AS g WHERE e.id = g.reject AND e.operation = 'pull')
  UPDATE dataverse_private.copies AS c SET refused = c.refused - (SELECT count(*) FROM gone)
  WHERE c.id = copy AND EXISTS (SELECT FROM gone);
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_admit(bigint, uuid[]) IS
  'removes refused rows that the table of a copy has accepted; for dataverse.pull()';

-- Returns the refused rows that a comparison has not found.
CREATE FUNCTION dataverse_private.copy_refused_missing(copy bigint)
RETURNS uuid[]
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  RETURN CASE WHEN (SELECT c.refused FROM dataverse_private.copies AS c WHERE c.id = copy) = 0 THEN '{}' ELSE ARRAY(
    SELECT r.id FROM dataverse_private.copy_refused AS r
    WHERE r.copy = copy_refused_missing.copy AND NOT r.deleted
      AND NOT EXISTS (SELECT FROM dataverse_private.copy_ids AS i WHERE i.copy = r.copy AND i.id = r.id)) END;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refused_missing(bigint) IS
  'refused rows that no longer seem to exist; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_admit_all(copy bigint)
RETURNS void
LANGUAGE sql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
  WITH gone AS (
    DELETE FROM dataverse_private.copy_refused AS r WHERE r.copy = $1 RETURNING r.reject)
  DELETE FROM dataverse_private.rejected_rows AS e USING gone AS g WHERE e.id = g.reject AND e.operation = 'pull'
$$;

COMMENT ON FUNCTION dataverse_private.copy_admit_all(bigint) IS
  'forgets all refused rows of a copy; for functions of state';

REVOKE ALL ON FUNCTION dataverse_private.copy_admit_all(bigint) FROM PUBLIC;

-- Returns refused rows of one kind, forwards or backwards from a position.
CREATE FUNCTION dataverse_private.copy_refused_of(
  copy bigint, dangling boolean, "position" bigint, backwards boolean, most bigint)
RETURNS SETOF dataverse_private.copy_refused
LANGUAGE dataverse_state VOLATILE STRICT ROWS 1000
AS $$
BEGIN
  IF backwards THEN
    RETURN QUERY SELECT r.* FROM dataverse_private.copy_refused AS r
      WHERE r.copy = copy_refused_of.copy AND r.dangling = copy_refused_of.dangling AND r.number < copy_refused_of."position"
      ORDER BY r.number DESC LIMIT most;
  ELSE
    RETURN QUERY SELECT r.* FROM dataverse_private.copy_refused AS r
      WHERE r.copy = copy_refused_of.copy AND r.dangling = copy_refused_of.dangling AND r.number > copy_refused_of."position"
      ORDER BY r.number LIMIT most;
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_refused_of(bigint, boolean, bigint, boolean, bigint) IS
  'refused rows of a copy that are tried again; for dataverse.pull()';

-- Files the rows that are noted, each once.
CREATE FUNCTION dataverse_private.copy_file(copy bigint, server text, caller oid DEFAULT 0)
RETURNS void
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  state dataverse_private.copies;
  noted dataverse_private.copy_refused;
  entry bigint;
BEGIN
  SELECT c.* INTO state FROM dataverse_private.copies AS c WHERE c.id = copy;
  FOR noted IN SELECT r.* FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_file.copy ORDER BY r.number LOOP
    UPDATE dataverse_private.rejected_rows AS e
    SET at = noted.at, pid = pg_backend_pid(), "row" = noted."row", sqlstate = noted.sqlstate,
        message = format('%s: %s', state.target, noted.message), attempts = noted.attempts
    WHERE e.id = noted.reject AND e.operation = 'pull';
    CONTINUE WHEN FOUND;
    INSERT INTO dataverse_private.rejected_rows (at, role, server, foreign_table, operation, row_id, "row", sqlstate, message, attempts)
    VALUES (noted.at, pg_get_userbyid(caller), copy_file.server, state.foreign_table, 'pull', noted.id, noted."row", noted.sqlstate,
            format('%s: %s', state.target, noted.message), noted.attempts)
    RETURNING id INTO entry;
    UPDATE dataverse_private.copy_refused AS r SET reject = entry WHERE r.copy = copy_file.copy AND r.id = noted.id;
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_file(bigint, text, oid) IS
  'files the rows that a copy has refused in dataverse.rejects; for dataverse.pull()';

-- Returns the number of refused rows, except those that only wait for another
-- row, and the first of all.
CREATE FUNCTION dataverse_private.copy_first_refused(
  copy bigint, OUT firm bigint, OUT first dataverse_private.copy_refused)
RETURNS record
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
BEGIN
  SELECT count(*) INTO firm FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_first_refused.copy AND NOT r.dangling;
  SELECT r.* INTO first FROM dataverse_private.copy_refused AS r WHERE r.copy = copy_first_refused.copy
  ORDER BY r.dangling, r.number LIMIT 1;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_first_refused(bigint) IS
  'the first of the rows that a copy has refused, for error messages; for dataverse.pull()';

CREATE FUNCTION dataverse_private.copy_forget(target text, caller oid DEFAULT 0)
RETURNS boolean
LANGUAGE dataverse_state VOLATILE STRICT
AS $$
DECLARE
  forgotten bigint;
BEGIN
  SELECT c.id INTO forgotten FROM dataverse_private.copies AS c
  WHERE c.target_oid = to_regclass(copy_forget.target) OR c.target = copy_forget.target
  ORDER BY c.target_oid = to_regclass(copy_forget.target) DESC NULLS LAST LIMIT 1;
  IF forgotten IS NULL THEN
    RETURN false;
  END IF;
  PERFORM dataverse_private.copy_check(forgotten, caller);
  PERFORM dataverse_private.copy_remove(forgotten);
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_forget(text, oid) IS
  'removes the state of a copy by the qualified name of its table; for dataverse.forget_copy()';
