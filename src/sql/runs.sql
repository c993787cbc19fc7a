-- The session that works on a copy, or on a push, holds its lock, which is
-- released when the session ends.  A run without its lock has ended.
CREATE FUNCTION dataverse_private.copy_lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1685480816 $$;

COMMENT ON FUNCTION dataverse_private.copy_lock_class() IS
  'the first key of the locks of copies; the second one is the number of the copy';

CREATE FUNCTION dataverse_private.push_lock_class()
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 1685483635 $$;

COMMENT ON FUNCTION dataverse_private.push_lock_class() IS
  'the first key of the locks of pushes; the second one is the number of the push';

CREATE FUNCTION dataverse_private.copy_lock_key(copy bigint)
RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ($1 OPERATOR(pg_catalog.%) 2147483647)::pg_catalog.int4 $$;

COMMENT ON FUNCTION dataverse_private.copy_lock_key(bigint) IS
  'the second key of the lock of a copy or a push';

-- Row security is not used, so that pg_dump can read the tables; see dataverse.rejects.
CREATE VIEW dataverse.runs WITH (security_barrier) AS
  SELECT r.id, coalesce(c.foreign_table, r.foreign_table) AS foreign_table, c.target, r.query, r.operation, r.role, r.pid,
         r.started_at, r.ended_at,
         CASE WHEN r.status <> 'running' OR EXISTS (
                SELECT FROM pg_catalog.pg_locks AS l
                WHERE l.locktype = 'userlock'
                  AND l.classid = CASE WHEN r.push IS NULL THEN dataverse_private.copy_lock_class() ELSE dataverse_private.push_lock_class() END::oid
                  AND l.objid = dataverse_private.copy_lock_key(coalesce(r.copy, r.push))::oid
                  AND l.objsubid = 2 AND l.pid = r.pid AND l.granted
                  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()))
              THEN r.status ELSE 'interrupted' END AS status,
         r.phase, r.rows_read, r.rows_compared, r.inserted, r.updated, r.unchanged, r.deleted, r.sent, r.missing, r.rejected,
         r.conflicts, r.requests, r.throttles, r.time_waited, r.sqlstate, r.error
  FROM dataverse_private.run_log AS r LEFT JOIN dataverse_private.copies AS c ON c.id = r.copy
  WHERE (r.push IS NOT NULL OR c.id IS NOT NULL)
    AND (pg_catalog.pg_has_role(CASE WHEN c.id IS NULL THEN dataverse_private.role_or_superuser(r.role_oid)
                                     ELSE dataverse_private.copy_owner(c) END, 'USAGE')
         OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE'));

COMMENT ON VIEW dataverse.runs IS
  'a row for each run of dataverse.pull(), sync(), and push(): its results and its final status';

-- The number of changes in Dataverse that are not in the copy, counted by the
-- service.  If it cannot be determined for any reason, the result is null: a view
-- that shows problems must not fail for the same reason.
CREATE FUNCTION dataverse_private.copy_lag(copy bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  state dataverse_private.copies;
BEGIN
  state := dataverse_private.copy_get(copy);
  IF state.foreign_oid IS NULL OR state.phase = 'backfill' THEN
    RETURN NULL;
  END IF;
  RETURN dataverse_private.copy_count_changes(state.foreign_oid, state.token,
                                 CASE WHEN NOT state.tracked THEN state.marks[cardinality(state.marks)] END, 2000);
EXCEPTION
  WHEN OTHERS THEN
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.copy_lag(bigint) IS
  'how many changes of rows in Dataverse a copy lacks; null if not known; for dataverse.sync_state';

CREATE VIEW dataverse.sync_state WITH (security_barrier) AS
  SELECT c.foreign_table, c.target, c.phase,
         CASE WHEN c.tracked THEN 'change tracking' WHEN NOT c.tracked THEN 'versions' END AS method,
         c.token_at, c.compared_at, c.succeeded_at, pg_catalog.now() - c.succeeded_at AS age,
         c.token_at + c.token_life AS token_expires_at, dataverse_private.copy_lag(c.id) AS lag, c.refused, c.unfed,
         l.status AS last_status, l.started_at AS last_started_at, l.error AS last_error
  FROM dataverse_private.copies AS c LEFT JOIN LATERAL (
    SELECT r.status, r.started_at, r.error FROM dataverse.runs AS r
    WHERE r.target = c.target ORDER BY r.id DESC LIMIT 1) AS l ON true
  WHERE pg_catalog.pg_has_role(dataverse_private.copy_owner(c), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.sync_state IS
  'a row for each copy: its state, when it was last in step, and how its last run ended';
