-- The meaning of the views' columns, as shown by \d+; README.md has more details.

COMMENT ON COLUMN dataverse.pool.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool.name IS 'the application user, by its option name or client_id';
COMMENT ON COLUMN dataverse.pool.url IS 'the environment';
COMMENT ON COLUMN dataverse.pool.throttled IS 'whether the user waits because the service throttled its requests';
COMMENT ON COLUMN dataverse.pool.throttled_until IS 'when the throttle ends, including retry_after_buffer';
COMMENT ON COLUMN dataverse.pool.current_parallelism IS 'how many requests at once the rate controller allows';
COMMENT ON COLUMN dataverse.pool.maximum_parallelism IS
  'the most requests at once that it may allow: max_parallel, or the service''s recommendation';
COMMENT ON COLUMN dataverse.pool.last_known_good IS 'how many requests at once worked before the last throttle';
COMMENT ON COLUMN dataverse.pool.last_known_good_stale IS 'whether last_known_good is older than last_known_good_ttl';
COMMENT ON COLUMN dataverse.pool.effective_limit IS 'how many requests the user may have under way now';
COMMENT ON COLUMN dataverse.pool.limited_by IS 'what sets that limit';
COMMENT ON COLUMN dataverse.pool.limited_until IS 'when that limit ends; null if not known';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling IS 'the limit set by the last throttles; null if none';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling_until IS 'when throttle_ceiling ends';
COMMENT ON COLUMN dataverse.pool.execution_time_ceilings IS 'the limit of each slow kind of operation';
COMMENT ON COLUMN dataverse.pool.useful_limit IS
  'beyond how many requests, of all users of the environment, they would only wait for each other; null if not known';
COMMENT ON COLUMN dataverse.pool.latency_ratio IS
  'how long requests to the environment last took, relative to base_ms; null if not known';
COMMENT ON COLUMN dataverse.pool.base_ms IS
  'milliseconds that each kind of operation takes while few requests are under way';
COMMENT ON COLUMN dataverse.pool.in_flight IS
  'requests of all sessions and servers that are being sent or have not been answered yet';
COMMENT ON COLUMN dataverse.pool.average_batch_ms IS
  'moving average of the milliseconds that each kind of operation takes';
COMMENT ON COLUMN dataverse.pool.read_request_ms IS
  'milliseconds that an answer to a read takes, apart from its rows; null if too few were measured';
COMMENT ON COLUMN dataverse.pool.read_row_ms IS 'milliseconds that each row adds';
COMMENT ON COLUMN dataverse.pool.read_row_bytes IS 'average size of a row';
COMMENT ON COLUMN dataverse.pool.remaining_requests IS
  'requests remaining in the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.remaining_time IS
  'execution time remaining in the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.successes_since_throttle IS
  'requests that succeeded since current_parallelism last changed';
COMMENT ON COLUMN dataverse.pool.last_throttle IS 'when the service last throttled a request';
COMMENT ON COLUMN dataverse.pool.last_retry_after IS 'how long the service then asked to wait';
COMMENT ON COLUMN dataverse.pool.last_increase IS 'when current_parallelism was last raised, or set to its start value';
COMMENT ON COLUMN dataverse.pool.last_activity IS 'when a request was last sent or answered';
COMMENT ON COLUMN dataverse.pool.requests IS 'requests that were sent and are no longer under way';
COMMENT ON COLUMN dataverse.pool.rows IS 'rows that were read or written, by kind of operation';
COMMENT ON COLUMN dataverse.pool.bytes_sent IS 'bytes of all requests';
COMMENT ON COLUMN dataverse.pool.bytes_received IS 'bytes of all answers';
COMMENT ON COLUMN dataverse.pool.failures IS 'requests that failed';
COMMENT ON COLUMN dataverse.pool.retries IS 'requests that were sent again, by cause';
COMMENT ON COLUMN dataverse.pool.throttles IS 'requests that the service throttled, by code';
COMMENT ON COLUMN dataverse.pool.total_throttle_events IS 'requests that the service throttled, in total';
COMMENT ON COLUMN dataverse.pool.total_backoff IS
  'how long throttles prevented the use of the user; overlapping throttles count once';
COMMENT ON COLUMN dataverse.pool.summed_waits IS
  'the sum of the times that requests waited to be sent; simultaneous waits are added up';
COMMENT ON COLUMN dataverse.pool.this_session_only IS
  'whether this state is not in shared memory, so that other sessions do not see it';

COMMENT ON COLUMN dataverse.pool_summary.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool_summary.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool_summary.users IS 'the number of its application users';
COMMENT ON COLUMN dataverse.pool_summary.throttled_users IS 'how many of its application users are throttled now';
COMMENT ON COLUMN dataverse.pool_summary.total_throttle_events IS 'how often its application users were throttled';
COMMENT ON COLUMN dataverse.pool_summary.total_backoff IS
  'how long its application users were throttled, in total; overlapping throttles count once';

COMMENT ON COLUMN dataverse.throttle_history.at IS 'when the request was refused';
COMMENT ON COLUMN dataverse.throttle_history.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.throttle_history.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.throttle_history.name IS 'the application user';
COMMENT ON COLUMN dataverse.throttle_history.code IS 'the error code of Dataverse';
COMMENT ON COLUMN dataverse.throttle_history.retry_after IS 'how long the service asked to wait';
COMMENT ON COLUMN dataverse.throttle_history.fallback IS
  'whether the service did not ask for a time, so that fallback_retry_after applied';
COMMENT ON COLUMN dataverse.throttle_history.operation IS 'the kind of operation';
COMMENT ON COLUMN dataverse.throttle_history.in_flight IS
  'the number of the application user''s requests that were under way';

COMMENT ON COLUMN dataverse.progress.pid IS 'the process of the session';
COMMENT ON COLUMN dataverse.progress.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.progress.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.progress.foreign_table IS 'the foreign table; of import and compare, the schema';
COMMENT ON COLUMN dataverse.progress.operation IS 'read, analyze, insert, and so on; import and compare count tables';
COMMENT ON COLUMN dataverse.progress.rows_expected IS
  'the expected number of rows; an estimate for a read, null if not known';
COMMENT ON COLUMN dataverse.progress.rows_taken IS 'rows that were read, or taken to be written';
COMMENT ON COLUMN dataverse.progress.rows_sent IS 'rows that were sent';
COMMENT ON COLUMN dataverse.progress.rows_acknowledged IS 'rows that were written';
COMMENT ON COLUMN dataverse.progress.rows_rejected IS 'rows that were refused';
COMMENT ON COLUMN dataverse.progress.in_flight IS 'its requests that are being sent or have not been answered yet';
COMMENT ON COLUMN dataverse.progress.rate_now IS 'rows per second in the last 30 s';
COMMENT ON COLUMN dataverse.progress.rate_overall IS 'rows per second since the operation started';
COMMENT ON COLUMN dataverse.progress.waiting_for IS
  'response, slot, throttle, backoff, token, or job; null while working';
COMMENT ON COLUMN dataverse.progress.started IS 'when the operation started';
COMMENT ON COLUMN dataverse.progress.eta IS 'the estimated time left; null if not known';

COMMENT ON COLUMN dataverse.doubts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.doubts.operation IS 'insert, upsert, update, or delete';
COMMENT ON COLUMN dataverse.doubts.row_number IS 'the position of the row in the statement';
COMMENT ON COLUMN dataverse.doubts.row_id IS
  'the id of the row; null if Dataverse was to generate it, or if the row has a key instead';
COMMENT ON COLUMN dataverse.doubts.noted_at IS 'when the statement failed';

COMMENT ON COLUMN dataverse.rejects.id IS 'the number of the entry, which stays the same when the row is refused again';
COMMENT ON COLUMN dataverse.rejects.at IS 'when the row was last refused';
COMMENT ON COLUMN dataverse.rejects.pid IS 'the process of the session in which the row was refused';
COMMENT ON COLUMN dataverse.rejects.role IS 'the role for which it was filed';
COMMENT ON COLUMN dataverse.rejects.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.rejects.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.rejects.operation IS
  'insert, upsert, update, or delete; pull if a local table refused the row';
COMMENT ON COLUMN dataverse.rejects.row_number IS 'the position of the row in the statement, or in the query of a push';
COMMENT ON COLUMN dataverse.rejects.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.rejects."row" IS 'the row by column name; it can be corrected by UPDATE';
COMMENT ON COLUMN dataverse.rejects.code IS
  'the error code of Dataverse; null if the extension or PostgreSQL refused the row';
COMMENT ON COLUMN dataverse.rejects.sqlstate IS 'the SQLSTATE of the error';
COMMENT ON COLUMN dataverse.rejects.message IS 'why the row was refused';
COMMENT ON COLUMN dataverse.rejects.attempts IS 'how often the row has been tried';

COMMENT ON COLUMN dataverse.runs.id IS 'the number of the run';
COMMENT ON COLUMN dataverse.runs.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.runs.target IS 'the table of the copy; null for push';
COMMENT ON COLUMN dataverse.runs.query IS 'the query of a push';
COMMENT ON COLUMN dataverse.runs.operation IS 'pull, sync, or push';
COMMENT ON COLUMN dataverse.runs.role IS 'the role that called the procedure';
COMMENT ON COLUMN dataverse.runs.pid IS 'the process of the session';
COMMENT ON COLUMN dataverse.runs.started_at IS 'when the run began';
COMMENT ON COLUMN dataverse.runs.ended_at IS 'when the run ended';
COMMENT ON COLUMN dataverse.runs.status IS 'running, succeeded, failed, interrupted, or skipped';
COMMENT ON COLUMN dataverse.runs.phase IS 'the last phase of the run';
COMMENT ON COLUMN dataverse.runs.rows_read IS 'rows that were read completely; for a push, the rows of its query';
COMMENT ON COLUMN dataverse.runs.rows_compared IS 'rows whose ids and versions were read';
COMMENT ON COLUMN dataverse.runs.inserted IS 'rows that were inserted in the local table';
COMMENT ON COLUMN dataverse.runs.updated IS 'rows that were updated in the local table';
COMMENT ON COLUMN dataverse.runs.unchanged IS 'rows that did not have to be changed';
COMMENT ON COLUMN dataverse.runs.deleted IS 'rows that were deleted or marked in the local table';
COMMENT ON COLUMN dataverse.runs.sent IS 'rows that were written to Dataverse';
COMMENT ON COLUMN dataverse.runs.missing IS 'rows to update or delete that were not found';
COMMENT ON COLUMN dataverse.runs.rejected IS 'rows that were refused, or that sync sent without effect';
COMMENT ON COLUMN dataverse.runs.conflicts IS 'rows whose conflicts await resolution';
COMMENT ON COLUMN dataverse.runs.requests IS 'requests that were sent, including repeated ones';
COMMENT ON COLUMN dataverse.runs.throttles IS 'requests that the service throttled';
COMMENT ON COLUMN dataverse.runs.time_waited IS 'how long the run did nothing but wait for Dataverse';
COMMENT ON COLUMN dataverse.runs.sqlstate IS 'the SQLSTATE of the error';
COMMENT ON COLUMN dataverse.runs.error IS 'why the run failed';

COMMENT ON COLUMN dataverse.sync_state.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.sync_state.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.sync_state.phase IS 'the next phase: backfill, compare, settle, or current';
COMMENT ON COLUMN dataverse.sync_state.method IS 'whether changes are found by change tracking or by versions';
COMMENT ON COLUMN dataverse.sync_state.token_at IS 'when the copy got its token of change tracking';
COMMENT ON COLUMN dataverse.sync_state.compared_at IS
  'when the copy was last compared with all rows, or all rows were read';
COMMENT ON COLUMN dataverse.sync_state.succeeded_at IS 'when the copy was last in step';
COMMENT ON COLUMN dataverse.sync_state.age IS 'how long ago the copy was last in step';
COMMENT ON COLUMN dataverse.sync_state.token_expires_at IS 'when the token expires; null if not known';
COMMENT ON COLUMN dataverse.sync_state.lag IS
  'how many rows have changed in Dataverse since then; selecting this column sends a request to the service';
COMMENT ON COLUMN dataverse.sync_state.refused IS 'how many rows the table has refused; they will be tried again';
COMMENT ON COLUMN dataverse.sync_state.unfed IS 'the columns that were copied once, but no longer get values';
COMMENT ON COLUMN dataverse.sync_state.last_status IS 'how the last run ended; running if it has not ended';
COMMENT ON COLUMN dataverse.sync_state.last_started_at IS 'when the last run began';
COMMENT ON COLUMN dataverse.sync_state.last_error IS 'why the last run failed';

COMMENT ON COLUMN dataverse.conflicts.id IS 'the number of the conflict, for dataverse.resolve()';
COMMENT ON COLUMN dataverse.conflicts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.conflicts.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.conflicts.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.conflicts.kind IS
  'changed (on both sides), deleted there, deleted here, exists (in Dataverse already), or refused';
COMMENT ON COLUMN dataverse.conflicts.columns IS 'the columns in conflict';
COMMENT ON COLUMN dataverse.conflicts.ours IS 'the row in the local table; null if it does not exist';
COMMENT ON COLUMN dataverse.conflicts.theirs IS 'the row in Dataverse; null if it does not exist';
COMMENT ON COLUMN dataverse.conflicts.sqlstate IS 'the SQLSTATE of the error with which Dataverse refused the row';
COMMENT ON COLUMN dataverse.conflicts.error IS 'why Dataverse refused the row';
COMMENT ON COLUMN dataverse.conflicts.found_at IS 'when the conflict was found';
COMMENT ON COLUMN dataverse.conflicts.decision IS
  'service or local, which the next dataverse.sync() carries out; null if not decided';

COMMENT ON COLUMN dataverse.pushes.id IS 'the number of the push, for dataverse.forget_push()';
COMMENT ON COLUMN dataverse.pushes.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.pushes.query IS 'the query; once staged_in has its rows, it is not run again';
COMMENT ON COLUMN dataverse.pushes.operation IS 'insert, update, upsert, or delete';
COMMENT ON COLUMN dataverse.pushes.key IS 'the columns that identify the rows; empty if the id does';
COMMENT ON COLUMN dataverse.pushes.role IS 'the role that the push belongs to';
COMMENT ON COLUMN dataverse.pushes.opened_at IS 'when the push was begun';
COMMENT ON COLUMN dataverse.pushes.staged_in IS 'the table with the rows of the query; null until it has run';
COMMENT ON COLUMN dataverse.pushes.rows IS 'the number of these rows';
COMMENT ON COLUMN dataverse.pushes.rows_done IS 'how many of these rows are done';

COMMENT ON COLUMN dataverse.metrics.name IS 'what is measured; numbers whose names end in _total only grow, until they are reset';
COMMENT ON COLUMN dataverse.metrics.labels IS 'what it is measured of: database, foreign_server, application_user, copy, and others';
COMMENT ON COLUMN dataverse.metrics.value IS 'the number';
