-- dataverse.push(): the result of a query, written to a foreign table.
--
-- The query runs once, into a table of the caller's own with the rows, their
-- numbers, and their future ids.  From there they are sent in chunks.  Before a
-- chunk is sent, this intention is committed.  After a crash, only rows of this
-- chunk can be in Dataverse without being known to be, and we ask which of them
-- are.
--
-- Functions that run as the owner of the extension keep the state of a push.  They
-- know that table only by name; all access to it runs as the caller.

CREATE TABLE dataverse.push_states (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role text NOT NULL,
  foreign_table text NOT NULL,
  query text NOT NULL,
  operation text NOT NULL,
  key text[] NOT NULL DEFAULT '{}',
  opened_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  staging text,
  staged_as oid,
  staged_at timestamptz,
  source text,
  version_before bigint,
  rows bigint,
  done bigint NOT NULL DEFAULT 0,
  marked bigint NOT NULL DEFAULT 0,
  sent bigint NOT NULL DEFAULT 0,
  rejected bigint NOT NULL DEFAULT 0,
  role_oid oid GENERATED ALWAYS AS (dataverse.role_oid(role)) STORED,
  foreign_oid oid GENERATED ALWAYS AS (dataverse.table_oid(foreign_table)) STORED
);

-- roles and tables can be renamed
CREATE UNIQUE INDEX push_states_what_idx ON dataverse.push_states
  (role_oid, foreign_oid, operation, key, pg_catalog.hashtextextended(query, 0));

COMMENT ON TABLE dataverse.push_states IS
  'unfinished pushes of all roles';
COMMENT ON COLUMN dataverse.push_states.staging IS 'the table with the rows; NULL until the query has been run';
COMMENT ON COLUMN dataverse.push_states.staged_as IS 'the OID of that table, which changes if the database is restored';
COMMENT ON COLUMN dataverse.push_states.source IS 'the address that the rows are sent to';
COMMENT ON COLUMN dataverse.push_states.version_before IS
  'the greatest version in Dataverse before the first row was sent; rows that existed then have no greater version unless they have changed since';
COMMENT ON COLUMN dataverse.push_states.done IS 'the number of the last row of the chunks that are done';
COMMENT ON COLUMN dataverse.push_states.marked IS 'the number of the last row that may have been sent';

SELECT pg_catalog.pg_extension_config_dump('dataverse.push_states', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse.push_states_id_seq', '');

CREATE FUNCTION dataverse.push_owner(push dataverse.push_states)
RETURNS oid
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT dataverse.role_or_superuser((push).role_oid) $$;

COMMENT ON FUNCTION dataverse.push_owner(dataverse.push_states) IS
  'the role that a push belongs to; for dataverse.push()';

-- Returns NULL if the push has ended.
CREATE FUNCTION dataverse.push_get(push bigint)
RETURNS dataverse.push_states
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  found_push dataverse.push_states;
BEGIN
  SELECT p.* INTO found_push FROM dataverse.push_states AS p WHERE p.id = push;
  IF found_push.id IS NOT NULL AND NOT pg_has_role(dataverse.caller(), dataverse.push_owner(found_push), 'USAGE') THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for push %s', push);
  END IF;
  RETURN found_push;
END
$$;

COMMENT ON FUNCTION dataverse.push_get(bigint) IS
  'the state of a push, for the role that it belongs to; for dataverse.push()';

CREATE FUNCTION dataverse.push_open(foreign_table regclass, query text, operation text, key text[])
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  me CONSTANT oid := dataverse.role_oid(dataverse.caller());
  opened bigint;
BEGIN
  -- a role without the privilege to write has no use for a push, and could only fill the table
  IF NOT dataverse.pull_is_foreign(foreign_table) OR NOT (
    has_table_privilege(me, foreign_table, 'INSERT, UPDATE, DELETE') OR has_any_column_privilege(me, foreign_table, 'INSERT, UPDATE'))
  THEN
    RAISE EXCEPTION USING
      errcode = 'insufficient_privilege', message = format('permission denied for foreign table %s', foreign_table),
      hint = dataverse.pull_cure(foreign_table, '', '42501',
                                 ARRAY['SELECT', CASE operation WHEN 'upsert' THEN 'INSERT' ELSE upper(operation) END]);
  END IF;
  -- a dump has names, which new roles and tables may have taken; entries of
  -- other roles are skipped, because they may be locked for any time
  UPDATE dataverse.push_states AS p SET role = r.rolname
  FROM pg_roles AS r WHERE r.oid = p.role_oid AND r.rolname <> p.role AND (p.role_oid = me OR p.role = dataverse.caller());
  UPDATE dataverse.push_states AS p SET foreign_table = p.foreign_oid::regclass::text
  FROM pg_class AS c WHERE c.oid = p.foreign_oid AND p.role_oid = me AND p.foreign_table <> p.foreign_oid::regclass::text;
  LOOP
    -- a recreated table replaces one that is gone, but not one that has another name now
    SELECT p.id INTO opened FROM dataverse.push_states AS p
    WHERE p.role_oid = me
      AND (p.foreign_oid = push_open.foreign_table
           OR p.foreign_table = push_open.foreign_table::text AND NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = p.foreign_oid))
      AND p.operation = push_open.operation AND p.key = push_open.key AND p.query = push_open.query
    ORDER BY p.foreign_oid = push_open.foreign_table DESC NULLS LAST LIMIT 1;
    IF opened IS NULL THEN
      -- of a dropped role that had the same name
      DELETE FROM dataverse.push_states AS p WHERE p.role = dataverse.caller() AND p.role_oid <> me;
      INSERT INTO dataverse.push_states AS p (role, foreign_table, query, operation, key)
      VALUES (dataverse.caller(), push_open.foreign_table::text, push_open.query, push_open.operation, push_open.key)
      ON CONFLICT DO NOTHING
      RETURNING p.id INTO opened;
    END IF;
    EXIT WHEN opened IS NOT NULL;
  END LOOP;
  UPDATE dataverse.push_states AS p SET foreign_table = push_open.foreign_table::text
  WHERE p.id = opened AND p.foreign_oid IS DISTINCT FROM push_open.foreign_table::oid;
  RETURN opened;
END
$$;

COMMENT ON FUNCTION dataverse.push_open(regclass, text, text, text[]) IS
  'finds the caller''s unfinished push, or begins one; for dataverse.push()';

-- Sets the members of "changes".  The subject of a push, its role, and its start do not change.
CREATE FUNCTION dataverse.push_set(push bigint, changes jsonb)
RETURNS dataverse.push_states
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  n dataverse.push_states := jsonb_populate_record(dataverse.push_get(push), changes - 'id');
BEGIN
  UPDATE dataverse.push_states AS p
  SET staging = n.staging, staged_as = n.staged_as, staged_at = n.staged_at, source = n.source, version_before = n.version_before, rows = n.rows,
      done = n.done, marked = n.marked, sent = n.sent, rejected = n.rejected
  WHERE p.id = push
  RETURNING p.* INTO STRICT n;
  RETURN n;
END
$$;

COMMENT ON FUNCTION dataverse.push_set(bigint, jsonb) IS
  'changes the state of a push; for dataverse.push()';

CREATE FUNCTION dataverse.push_close(push bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM dataverse.push_get(push);
  DELETE FROM dataverse.push_states AS p WHERE p.id = push;
END
$$;

COMMENT ON FUNCTION dataverse.push_close(bigint) IS
  'forgets a push; for dataverse.push() and forget_push()';

-- Rows are refused with their numbers in the statement.  These are replaced by
-- their numbers in the query: the given ones, or increased by the number of rows
-- sent before.
CREATE FUNCTION dataverse.push_number_rejects(ids bigint[], numbers bigint[], before bigint)
RETURNS void
LANGUAGE sql VOLATILE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
  UPDATE dataverse.rejected_rows AS r SET row_number = coalesce(u.n, r.row_number + $3)
  FROM unnest($1, $2) AS u (id, n)
  WHERE r.id = u.id AND r.role_oid = dataverse.role_oid(dataverse.caller()) AND r.pid = pg_backend_pid()
$$;

COMMENT ON FUNCTION dataverse.push_number_rejects(bigint[], bigint[], bigint) IS
  'numbers the rows that this session has filed as in the query of a push; for dataverse.push()';

CREATE VIEW dataverse.pushes WITH (security_barrier) AS
  SELECT p.id, p.foreign_table, p.query, p.operation, p.key,
         coalesce((SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.oid = p.role_oid), p.role) AS role, p.opened_at, p.staging AS staged_in, p.rows, p.done AS rows_done
  FROM dataverse.push_states AS p
  WHERE pg_catalog.pg_has_role(dataverse.push_owner(p), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.pushes IS
  'unfinished pushes; the next dataverse.push() of the same query continues them';

-- Returns the table of a push, locked, so that it cannot change.  It has the right
-- owner and no code that would run: no other role could give it any.  In a restored
-- database, it is found by its name; otherwise, the table or its schema may have
-- been renamed.
CREATE FUNCTION dataverse.push_staging(push dataverse.push_states)
RETURNS regclass
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  staging regclass := coalesce(to_regclass((push).staging)::oid, (push).staged_as);
BEGIN
  IF NOT EXISTS (SELECT FROM pg_class AS c WHERE c.oid = staging AND c.relkind = 'r' AND c.relowner = dataverse.push_owner(push)
                   AND starts_with(c.relname, 'dataverse_push_')) THEN
    RETURN NULL;
  END IF;
  EXECUTE format('LOCK TABLE ONLY %s IN ROW SHARE MODE', staging);
  RETURN (SELECT c.oid FROM pg_class AS c
          WHERE c.oid = coalesce(to_regclass((push).staging)::oid, (push).staged_as) AND c.oid = staging AND c.relkind = 'r' AND c.relowner = dataverse.push_owner(push));
END
$$;

COMMENT ON FUNCTION dataverse.push_staging(dataverse.push_states) IS
  'the table with the rows of a push; for dataverse.push()';

CREATE FUNCTION dataverse.forget_push(push bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state dataverse.push_states;
  staging regclass;
BEGIN
  IF NOT dataverse.push_lock(push, false) THEN
    RAISE EXCEPTION USING
      errcode = 'lock_not_available', message = format('push %s is under way', push),
      hint = 'Cancel the session that runs it.';
  END IF;
  state := dataverse.push_get(push);
  IF state.id IS NULL THEN
    PERFORM dataverse.run_unlock();
    RETURN false;
  END IF;
  staging := dataverse.push_staging(state);
  IF staging IS NOT NULL THEN
    EXECUTE format('DROP TABLE %s', staging);
  END IF;
  PERFORM dataverse.push_close(push);
  PERFORM dataverse.run_unlock();
  RETURN true;
END
$$;

COMMENT ON FUNCTION dataverse.forget_push(bigint) IS
  'abandons an unfinished push: rows already sent remain in Dataverse, the rest is not sent';
