-- Default privileges of the role that installs the extension must not apply to
-- tables with rows of all roles.  Triggers on these tables, or functions that run as
-- their owner, would give all rights.
DO $$
DECLARE
  statement text;
BEGIN
  FOR statement IN
    SELECT format('REVOKE ALL ON %s %s FROM %s', o.what, o.name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
    FROM (
      SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relowner, c.relacl
      FROM pg_class AS c WHERE c.relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
      UNION ALL
      -- whether everyone may call a function is said where it is created
      SELECT 'ROUTINE', p.oid::regprocedure::text, p.proowner, p.proacl
      FROM pg_proc AS p WHERE p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
      UNION ALL
      SELECT 'SCHEMA', n.nspname, n.nspowner, n.nspacl FROM pg_namespace AS n WHERE n.nspname IN ('dataverse', 'dataverse_private')) AS o (what, name, owner, acl),
      aclexplode(o.acl) AS a
    WHERE a.grantee <> o.owner AND (a.grantee <> 0 OR o.what <> 'ROUTINE')
  LOOP
    EXECUTE statement;
  END LOOP;
END
$$;

-- Everyone may use the objects of these schemas, unless they have restrictions of
-- their own.  The steps of a run need the private one, because they run with the rights
-- of the role that has called the run.
GRANT USAGE ON SCHEMA dataverse, dataverse_private TO PUBLIC;

-- The views show each caller only the rows that the caller may see.
GRANT SELECT ON dataverse.pool, dataverse.pool_summary, dataverse.throttle_history, dataverse.progress, dataverse.doubts, dataverse.metrics
  TO PUBLIC;

GRANT SELECT, DELETE, UPDATE ("row") ON dataverse.rejects TO PUBLIC;
GRANT SELECT ON dataverse_private.visible_rejects TO PUBLIC;
GRANT SELECT, UPDATE (attempts) ON dataverse_private.own_rejects TO PUBLIC;
GRANT SELECT, UPDATE ("row") ON dataverse_private.correctable_rejects TO PUBLIC;

GRANT SELECT ON dataverse.runs, dataverse.sync_state, dataverse.conflicts, dataverse.pushes TO PUBLIC;

-- For pg_dump.
GRANT SELECT ON dataverse_private.rejected_rows, dataverse_private.rejected_rows_id_seq, dataverse_private.copies, dataverse_private.copies_id_seq,
  dataverse_private.copy_ids, dataverse_private.copy_refused, dataverse_private.copy_refused_number_seq, dataverse_private.local_changes, dataverse_private.local_changes_number_seq, dataverse_private.run_log,
  dataverse_private.run_log_id_seq, dataverse_private.pending, dataverse_private.pending_number_seq, dataverse_private.push_states,
  dataverse_private.push_states_id_seq TO pg_database_owner;

-- Nobody needs to call the handler or the validator directly; only DDL does.
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_handler() FROM PUBLIC;
REVOKE ALL ON FUNCTION dataverse.dataverse_fdw_validator(text[], oid) FROM PUBLIC;
