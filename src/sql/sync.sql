-- When all rows that can be sent have been sent, retries rows that were refused
-- because of others, if others have been accepted since, or else once without their
-- references; likewise rows of a chain that is not resolved after some rounds.
CREATE FUNCTION dataverse_private.sync_again(
  run bigint, copy bigint, plan dataverse_private.copy_plan, progress boolean, INOUT loosened boolean,
  INOUT rounds integer, OUT retried bigint)
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  most CONSTANT integer := 5;
  few CONSTANT integer := 100;
  since timestamptz := (SELECT r.started_at FROM dataverse.runs AS r WHERE r.id = run);
BEGIN
  retried := 0;
  IF progress THEN
    loosened := false;
    rounds := rounds + 1;
  END IF;
  -- if each round accepted one of many rows that wait for each other's values, there would be no
  -- end
  IF rounds > most AND (dataverse_private.pending_count(copy)).open > few THEN
    since := 'infinity';
  END IF;
  IF progress AND rounds <= most THEN
    retried := dataverse_private.pending_retry(copy, since);
  END IF;
  IF retried = 0 AND NOT loosened THEN
    retried := dataverse_private.pending_loosen(copy, plan.sync);
    loosened := true;
  END IF;
  IF retried = 0 AND progress THEN
    retried := dataverse_private.pending_retry(copy, since);
  END IF;
END
$$;

COMMENT ON FUNCTION dataverse_private.sync_again(bigint, bigint, dataverse_private.copy_plan, boolean, boolean, integer) IS
  'allows rows that were refused because of other rows to be sent again; for dataverse.sync()';

CREATE PROCEDURE dataverse.sync(
  foreign_table regclass,
  target text,
  conflict text DEFAULT 'skip',
  column_conflicts jsonb DEFAULT NULL,
  strict boolean DEFAULT false,
  columns text[] DEFAULT NULL,
  deletes text DEFAULT 'delete',
  drift text DEFAULT 'add',
  "full" boolean DEFAULT false,
  sweep interval DEFAULT NULL,
  wait boolean DEFAULT true,
  on_error text DEFAULT 'abort')
LANGUAGE C
AS 'MODULE_PATHNAME', 'dataverse_sync';

COMMENT ON PROCEDURE dataverse.sync IS
  'keeps a local copy and its foreign table in step both ways: pulls changes from Dataverse, and sends local changes';
