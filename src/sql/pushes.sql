-- The state of unfinished pushes, which src/sync/state.c reads and writes.
CREATE TABLE dataverse_private.push_states (
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
  role_oid oid GENERATED ALWAYS AS (dataverse_private.role_oid(role)) STORED,
  foreign_oid oid GENERATED ALWAYS AS (dataverse_private.table_oid(foreign_table)) STORED
);

-- roles and tables can be renamed
CREATE UNIQUE INDEX push_states_what_idx ON dataverse_private.push_states
  (role_oid, foreign_oid, operation, key, pg_catalog.hashtextextended(query, 0));

COMMENT ON TABLE dataverse_private.push_states IS
  'unfinished pushes of all roles';
COMMENT ON COLUMN dataverse_private.push_states.staging IS 'the table with the rows; NULL until the query has been run';
COMMENT ON COLUMN dataverse_private.push_states.staged_as IS
  'the OID of that table, which changes if the database is restored';
COMMENT ON COLUMN dataverse_private.push_states.source IS 'the address that the rows are sent to';
COMMENT ON COLUMN dataverse_private.push_states.version_before IS
  'the greatest version in Dataverse before the first row was sent; rows that existed then have no greater version unless they have changed since';
COMMENT ON COLUMN dataverse_private.push_states.done IS 'the number of the last row of the chunks that are done';
COMMENT ON COLUMN dataverse_private.push_states.marked IS 'the number of the last row that may have been sent';

SELECT pg_catalog.pg_extension_config_dump('dataverse_private.push_states', '');
SELECT pg_catalog.pg_extension_config_dump('dataverse_private.push_states_id_seq', '');

CREATE VIEW dataverse.pushes WITH (security_barrier) AS
  SELECT p.id, p.foreign_table, p.query, p.operation, p.key,
         coalesce((SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.oid = p.role_oid), p.role) AS role, p.opened_at, p.staging AS staged_in, p.rows, p.done AS rows_done
  FROM dataverse_private.push_states AS p
  WHERE pg_catalog.pg_has_role(dataverse_private.role_or_superuser(p.role_oid), 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_data', 'USAGE');

COMMENT ON VIEW dataverse.pushes IS
  'unfinished pushes; the next dataverse.push() of the same query continues them';

CREATE FUNCTION dataverse.forget_push(push bigint)
RETURNS boolean
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'dataverse_forget_push';

COMMENT ON FUNCTION dataverse.forget_push(bigint) IS
  'abandons an unfinished push: rows already sent remain in Dataverse, the rest is not sent';
