-- The types of values that the functions of a run hand on to each other.

-- What a run of dataverse.sync() needs besides.
CREATE TYPE dataverse_private.sync_plan AS (
  -- the arguments of the call
  conflict text,
  column_conflicts jsonb,
  strict boolean,
  -- the caller's time zone, for the triggers of the copy
  timezone text,

  -- columns that the foreign table admits in an INSERT, in an UPDATE, and those that have to have a value
  on_insert text[],
  on_update text[],
  not_null text[],
  -- columns that Dataverse ignores when a row is created, or accepts only then
  update_only text[],
  create_only text[],
  -- those of the state and the status of rows, and those that may refer to other rows
  states text[],
  referring text[],
  -- for a lookup, the column with the name of its table, and the other way round
  partners jsonb,

  -- statements on the copy: the rows as jsonb; which rows are sent, and how (sync_stage); columns of rows that were
  -- read back (a format, with the assignments to come)
  images text,
  stage text,
  land_part text,
  -- statements that raise an error if values do not fit the columns of the foreign table: of rows as jsonb, or null if
  -- all do; of values last seen
  fits text,
  seen_fits text,
  -- statements on the page: how its rows differ from pending ones; which ids it lacks; which rows that were just
  -- written it has, and which it says are deleted
  judge text,
  absent text,
  back text
);

COMMENT ON TYPE dataverse_private.sync_plan IS
  'the statements of dataverse.sync() for one table, and what it knows about columns';

-- What the steps of a run need to know, and the statements that they execute.  A plan outlives transactions (see "What is
-- easily got wrong" in src/sync/README.md).
CREATE TYPE dataverse_private.copy_plan AS (
  -- arguments of the call; "named" is false for the tables of dataverse.pull_all()
  target text,
  drift text,
  on_error text,
  named boolean,

  -- the foreign table, its name when the run began, and the table in Dataverse
  foreign_table regclass,
  source text,
  server name,
  logical_name text,
  entity_set text,
  elastic boolean,
  -- all its columns, and those in Dataverse that they stand for
  column_names text[],
  attribute_names text[],
  -- the column of ids, and that of versions, or null if they are not copied
  id_column text,
  version_column text,
  -- the foreign table has versions, so rows that have changed can be found by them
  can_follow boolean,

  -- the columns that are copied, their types in the foreign table, the values that the copy gets for them (of rows
  -- "s"), and their definitions in Dataverse (dataverse_private.copies)
  columns text[],
  types text[],
  inputs text[],
  schema jsonb,

  -- statements that merge the page: those of a first read, which return the number of new rows and the digest of their
  -- ids, "fill" if no row is there, as long as the table has a unique index; the others, or null if there is nothing to do
  fill text,
  backfill text,
  insert text,
  update text,
  delete text,
  -- statements on the page: its ids; its ids and versions, which are null for deletions; whether the copy has other
  -- versions of its rows, except these; its only entry; a value that a column of the copy would change, or null if all
  -- have the types of the foreign table; elastic tables: ids that may be in several partitions, and the partitions of rows
  page_ids text,
  versions text,
  outdated text,
  entry text,
  changed text,
  twice text,
  partitions text,
  -- statements that take the ids of rows: reads them into the page; returns those that Dataverse has; locks them
  read text,
  there text,
  lock text,
  -- statements of comparisons: note the ids of the page; rows that it has not found; rows with other versions;
  -- whether Dataverse has smaller versions; the digest of all ids; the greatest version
  ids text,
  ghosts text,
  differing text,
  went_back text,
  digest text,
  greatest text,
  -- statement: which rows that were taken from the log exist
  existing text,

  -- null in a run that only pulls
  sync dataverse_private.sync_plan
);

COMMENT ON TYPE dataverse_private.copy_plan IS
  'the statements of a run for one table, and what it knows about the table; made by pull_prepare() and sync_prepare()';

-- Refused rows are tried again in rounds, each in one direction, rows with missing references first.
CREATE TYPE dataverse_private.retry_position AS (
  -- the number of refused rows when the round began
  before bigint,
  backwards boolean,
  dangling boolean,
  -- the number of the row that was tried last; null at the end of a round
  "position" bigint
);

COMMENT ON TYPE dataverse_private.retry_position IS
  'where the next step of dataverse_private.pull_retry() continues';

-- A pending row that is about to be sent (dataverse_private.pending).
CREATE TYPE dataverse_private.staged_row AS (
  id uuid,
  state text,
  tries integer,
  columns text[],
  held text[],
  image jsonb
);

COMMENT ON TYPE dataverse_private.staged_row IS
  'how a pending row is sent; for dataverse_private.pending_stage()';

-- What a step adds to the counts of its run: dv_run_counts (src/sync/state.h).  Null stands for 0.
CREATE TYPE dataverse_private.run_counts AS (
  rows_read bigint,
  rows_compared bigint,
  inserted bigint,
  updated bigint,
  unchanged bigint,
  deleted bigint,
  sent bigint,
  missing bigint,
  rejected bigint,
  conflicts bigint
);

COMMENT ON TYPE dataverse_private.run_counts IS
  'the rows that a step of a run has handled';
