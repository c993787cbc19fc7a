-- Numbers for monitoring programs, in a form that needs no change for a new one.  Roles that
-- may read all statistics see those of all copies; they learn no value of any row.

CREATE FUNCTION dataverse_private.run_metrics(caller oid DEFAULT 0)
RETURNS TABLE (name text, labels jsonb, value double precision)
LANGUAGE dataverse_state STABLE STRICT ROWS 100
AS $$
DECLARE
  sees_all boolean := pg_has_role(caller, 'pg_read_all_stats', 'USAGE');
BEGIN
  RETURN QUERY
    SELECT m.name, jsonb_build_object('copy', c.target, 'foreign_table', c.foreign_table), m.value::double precision
    FROM dataverse_private.copies AS c
      LEFT JOIN LATERAL (
        SELECT r.status, r.started_at, r.ended_at FROM dataverse.runs AS r
        WHERE r.target = c.target AND r.status <> 'skipped' ORDER BY r.id DESC LIMIT 1) AS r ON true,
      LATERAL (VALUES
        ('copy_age_seconds', extract(epoch FROM clock_timestamp() - c.succeeded_at)),
        ('copy_running', (r.status = 'running')::integer),
        ('copy_failed', (r.status IN ('failed', 'interrupted'))::integer),
        ('copy_last_run_seconds', extract(epoch FROM coalesce(r.ended_at, clock_timestamp()) - r.started_at)),
        ('copy_token_seconds_left', extract(epoch FROM c.token_at + c.token_life - clock_timestamp())),
        ('copy_refused_rows', c.refused),
        ('copy_conflicts', (
          SELECT count(*) FROM dataverse_private.pending AS p WHERE p.copy = c.id AND (p.state = 'filed' OR p.held <> '{}'))),
        ('copy_rows_to_send', CASE WHEN c.id_column IS NOT NULL THEN (
          SELECT count(*) FROM (
            SELECT l.id FROM dataverse_private.local_changes AS l WHERE l.copy = c.id
            UNION SELECT p.id FROM dataverse_private.pending AS p WHERE p.copy = c.id AND p.state <> 'filed') AS u) END)) AS m (name, value)
    WHERE sees_all OR pg_has_role(caller, dataverse_private.copy_owner(c), 'USAGE')
    UNION ALL
    SELECT m.name, jsonb_build_object('push', p.id::text, 'foreign_table', p.foreign_table), m.value::double precision
    FROM dataverse_private.push_states AS p, LATERAL (VALUES
        ('push_rows', p.rows),
        ('push_rows_left', p.rows - p.done)) AS m (name, value)
    WHERE sees_all OR pg_has_role(caller, dataverse_private.role_or_superuser(p.role_oid), 'USAGE')
    UNION ALL
    SELECT 'rejects', jsonb_build_object('foreign_table', x.foreign_table, 'operation', x.operation), count(*)::double precision
    FROM dataverse_private.rejected_rows AS x
    WHERE sees_all OR pg_has_role(caller, dataverse_private.role_or_superuser(x.role_oid), 'USAGE')
    GROUP BY x.foreign_table, x.operation;
END
$$;

COMMENT ON FUNCTION dataverse_private.run_metrics(oid) IS
  'numbers of copies, unfinished pushes, and rejects; use the view dataverse.metrics';

-- An application user has several rows in the pool if several credentials name it.
CREATE VIEW dataverse.metrics AS
  WITH users AS MATERIALIZED (
    SELECT jsonb_build_object('foreign_server', p.server, 'application_user', p.name) AS labels, p.*
    FROM dataverse_private.pool_users() AS p WHERE p.database = current_database()),
  numbers (name, labels, value) AS (
    SELECT m.name, u.labels || m.labels, m.value::double precision
    FROM users AS u, LATERAL (
      VALUES
        ('throttled', '{}', u.throttled::integer),
        ('throttled_seconds_left', '{}', greatest(coalesce(extract(epoch FROM u.throttled_until - clock_timestamp()), 0), 0)),
        ('requests_in_flight', '{}', u.in_flight),
        ('requests_limit', '{}', u.effective_limit),
        ('requests_maximum', '{}', u.maximum_parallelism),
        ('limited', jsonb_build_object('by', split_part(u.limited_by, ':', 1)), 1),
        ('latency_ratio', '{}', u.latency_ratio),
        ('budget_requests_left', '{}', u.remaining_requests),
        ('budget_seconds_left', '{}', extract(epoch FROM u.remaining_time)),
        ('requests_total', '{}', u.requests),
        ('failures_total', '{}', u.failures),
        ('sent_bytes_total', '{}', u.bytes_sent),
        ('received_bytes_total', '{}', u.bytes_received),
        ('throttled_seconds_total', '{}', extract(epoch FROM u.backoff)),
        ('wait_seconds_total', '{}', extract(epoch FROM u.summed_waits))) AS m (name, labels, value)
    UNION ALL
    SELECT m.name, u.labels || jsonb_build_object(m.label, e.key), e.value::double precision
    FROM users AS u,
      LATERAL (VALUES ('rows_total', 'operation', u.rows), ('retries_total', 'cause', u.retries), ('throttles_total', 'code', u.throttles)) AS m (name, label, counts),
      LATERAL jsonb_each_text(m.counts) AS e
    UNION ALL
    SELECT m.name, jsonb_build_object('foreign_server', p.server, 'operation', p.operation) || m.labels, m.value::double precision
    FROM dataverse_private.progress_rows() AS p, LATERAL (
      VALUES
        ('operations_now', jsonb_build_object('waiting_for', coalesce(p.waiting_for, 'nothing')), 1),
        ('rows_per_second_now', '{}', p.rate_now)) AS m (name, labels, value)
    WHERE p.database = current_database() AND p.operation IS NOT NULL
    UNION ALL
    SELECT r.name, r.labels, r.value FROM dataverse_private.run_metrics() AS r)
  SELECT n.name, jsonb_build_object('database', current_database()) || n.labels AS labels,
         CASE WHEN n.name ~ '(_total|_now|_in_flight)$' THEN sum(n.value) ELSE max(n.value) END AS value
  FROM numbers AS n
  WHERE n.value IS NOT NULL
  GROUP BY n.name, n.labels;

COMMENT ON VIEW dataverse.metrics IS
  'numbers for monitoring programs: the application users, operations, copies, pushes, and rejects of this database';
