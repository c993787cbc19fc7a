-- The meaning of the views' columns, as shown by \d+; README.md has more details.

COMMENT ON COLUMN dataverse.pool.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool.name IS 'the application user, by its option name or client_id';
COMMENT ON COLUMN dataverse.pool.url IS 'the environment';
COMMENT ON COLUMN dataverse.pool.throttled IS 'whether it waits because the service has refused requests as too many';
COMMENT ON COLUMN dataverse.pool.throttled_until IS 'until when, including retry_after_buffer';
COMMENT ON COLUMN dataverse.pool.current_parallelism IS 'how many requests at once the rate controller allows';
COMMENT ON COLUMN dataverse.pool.maximum_parallelism IS 'the most it may allow: max_parallel, or what the service recommends';
COMMENT ON COLUMN dataverse.pool.last_known_good IS 'how many requests at once worked before the last throttle';
COMMENT ON COLUMN dataverse.pool.last_known_good_stale IS 'whether that is older than last_known_good_ttl';
COMMENT ON COLUMN dataverse.pool.effective_limit IS 'how many requests it may have under way now';
COMMENT ON COLUMN dataverse.pool.limited_by IS 'what sets that limit';
COMMENT ON COLUMN dataverse.pool.limited_until IS 'when that ends; null if nobody knows';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling IS 'the limit that the last throttles have left; null if there is none';
COMMENT ON COLUMN dataverse.pool.throttle_ceiling_until IS 'until when that applies';
COMMENT ON COLUMN dataverse.pool.execution_time_ceilings IS 'the limit of each kind of operation that is slow';
COMMENT ON COLUMN dataverse.pool.in_flight IS 'requests that are sent, or about to be, and not answered yet, of all sessions and servers';
COMMENT ON COLUMN dataverse.pool.average_batch_ms IS 'moving average of the milliseconds that each kind of operation takes';
COMMENT ON COLUMN dataverse.pool.read_request_ms IS
  'milliseconds that an answer to a read takes without its rows; null if too few were measured';
COMMENT ON COLUMN dataverse.pool.read_row_ms IS 'milliseconds that each row adds';
COMMENT ON COLUMN dataverse.pool.read_row_bytes IS 'average size of a row';
COMMENT ON COLUMN dataverse.pool.remaining_requests IS 'requests that are left of the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.remaining_time IS 'execution time that is left of the budget, as last reported by the service';
COMMENT ON COLUMN dataverse.pool.successes_since_throttle IS 'requests that were carried out since current_parallelism last changed';
COMMENT ON COLUMN dataverse.pool.last_throttle IS 'when the service last refused a request because there were too many';
COMMENT ON COLUMN dataverse.pool.last_retry_after IS 'how long it asked to wait then';
COMMENT ON COLUMN dataverse.pool.last_increase IS 'when current_parallelism was last raised, or set to its start value';
COMMENT ON COLUMN dataverse.pool.last_activity IS 'when a request was last sent or answered';
COMMENT ON COLUMN dataverse.pool.requests IS 'requests that were sent and are not under way any more';
COMMENT ON COLUMN dataverse.pool.rows IS 'rows that were read or written, by kind of operation';
COMMENT ON COLUMN dataverse.pool.bytes_sent IS 'bytes of all requests';
COMMENT ON COLUMN dataverse.pool.bytes_received IS 'bytes of all answers';
COMMENT ON COLUMN dataverse.pool.failures IS 'requests that failed';
COMMENT ON COLUMN dataverse.pool.retries IS 'requests that were sent again, by cause';
COMMENT ON COLUMN dataverse.pool.throttles IS 'requests that were refused because there were too many, by code';
COMMENT ON COLUMN dataverse.pool.total_throttle_events IS 'all of them';
COMMENT ON COLUMN dataverse.pool.total_backoff IS
  'how long they have kept the user from being used; time that several have in common counts once';
COMMENT ON COLUMN dataverse.pool.summed_waits IS
  'how long each request waited to be sent, added up: waits at the same time count several times';
COMMENT ON COLUMN dataverse.pool.this_session_only IS
  'whether there was no room in shared memory, so that other sessions know nothing of this';

COMMENT ON COLUMN dataverse.pool_metrics.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool_metrics.foreign_server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool_metrics.application_user IS 'the application user, by its option name or client_id';
COMMENT ON COLUMN dataverse.pool_metrics.throttled IS '1 if it waits because the service has refused requests as too many';
COMMENT ON COLUMN dataverse.pool_metrics.throttled_seconds_left IS 'for how long it will; 0 if it does not';
COMMENT ON COLUMN dataverse.pool_metrics.in_flight IS 'requests that have been sent, or are about to be, and are not answered yet';
COMMENT ON COLUMN dataverse.pool_metrics.effective_limit IS 'how many requests may be under way at once';
COMMENT ON COLUMN dataverse.pool_metrics.maximum_parallelism IS 'the most that this limit can become';
COMMENT ON COLUMN dataverse.pool_metrics.remaining_requests IS 'requests that the service will still accept, as it said last; -1 if it has not';
COMMENT ON COLUMN dataverse.pool_metrics.remaining_seconds IS 'execution time that the service will still give, as it said last; -1 if it has not';
COMMENT ON COLUMN dataverse.pool_metrics.requests_total IS 'requests that were sent';
COMMENT ON COLUMN dataverse.pool_metrics.rows_total IS 'rows that were written or read';
COMMENT ON COLUMN dataverse.pool_metrics.bytes_sent_total IS 'bytes that were sent';
COMMENT ON COLUMN dataverse.pool_metrics.bytes_received_total IS 'bytes that were received';
COMMENT ON COLUMN dataverse.pool_metrics.failures_total IS 'requests that failed for good';
COMMENT ON COLUMN dataverse.pool_metrics.retries_total IS 'requests that were sent again';
COMMENT ON COLUMN dataverse.pool_metrics.throttle_events_total IS 'how often it was throttled';
COMMENT ON COLUMN dataverse.pool_metrics.backoff_seconds_total IS 'for how long it was throttled, in total';
COMMENT ON COLUMN dataverse.pool_metrics.waits_seconds_total IS 'for how long requests have waited to be sent, added up';

COMMENT ON COLUMN dataverse.pool_summary.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.pool_summary.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.pool_summary.users IS 'its application users';
COMMENT ON COLUMN dataverse.pool_summary.throttled_users IS 'those of them that are throttled now';
COMMENT ON COLUMN dataverse.pool_summary.total_throttle_events IS 'how often they were throttled';
COMMENT ON COLUMN dataverse.pool_summary.total_backoff IS 'how long they were throttled, in total; throttles at the same time count once';

COMMENT ON COLUMN dataverse.throttle_history.at IS 'when the request was refused';
COMMENT ON COLUMN dataverse.throttle_history.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.throttle_history.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.throttle_history.name IS 'the application user';
COMMENT ON COLUMN dataverse.throttle_history.code IS 'the error code of Dataverse';
COMMENT ON COLUMN dataverse.throttle_history.retry_after IS 'how long the service asked to wait';
COMMENT ON COLUMN dataverse.throttle_history.fallback IS 'whether it did not say, so that fallback_retry_after applied';
COMMENT ON COLUMN dataverse.throttle_history.operation IS 'the kind of operation';
COMMENT ON COLUMN dataverse.throttle_history.in_flight IS 'requests of the application user that were under way';

COMMENT ON COLUMN dataverse.progress.pid IS 'the process of the session';
COMMENT ON COLUMN dataverse.progress.database IS 'the database that the foreign server is in';
COMMENT ON COLUMN dataverse.progress.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.progress.foreign_table IS 'the foreign table; of import and compare, the schema';
COMMENT ON COLUMN dataverse.progress.operation IS 'read, analyze, insert, and so on; import and compare count tables';
COMMENT ON COLUMN dataverse.progress.rows_expected IS 'how many rows there will be; an estimate for a read, null if not known';
COMMENT ON COLUMN dataverse.progress.rows_taken IS 'rows that were read, or taken to be written';
COMMENT ON COLUMN dataverse.progress.rows_sent IS 'rows that were sent';
COMMENT ON COLUMN dataverse.progress.rows_acknowledged IS 'rows that were written';
COMMENT ON COLUMN dataverse.progress.rows_rejected IS 'rows that were refused';
COMMENT ON COLUMN dataverse.progress.in_flight IS 'its requests that are sent, or about to be, and not answered yet';
COMMENT ON COLUMN dataverse.progress.rate_now IS 'rows per second in the last 30 s';
COMMENT ON COLUMN dataverse.progress.rate_overall IS 'rows per second since it started';
COMMENT ON COLUMN dataverse.progress.waiting_for IS 'response, slot, throttle, backoff, token, or job; null while it is working';
COMMENT ON COLUMN dataverse.progress.started IS 'when it started';
COMMENT ON COLUMN dataverse.progress.eta IS 'the estimated time left; null if nothing can be said';

COMMENT ON COLUMN dataverse.doubts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.doubts.operation IS 'insert, upsert, update, or delete';
COMMENT ON COLUMN dataverse.doubts.row_number IS 'the position of the row in the statement';
COMMENT ON COLUMN dataverse.doubts.row_id IS 'the id of the row; null if Dataverse was to make it, or if the row has a key instead';
COMMENT ON COLUMN dataverse.doubts.noted_at IS 'when the statement failed';

COMMENT ON COLUMN dataverse.rejects.id IS 'the number of the entry, which it keeps when the row is refused again';
COMMENT ON COLUMN dataverse.rejects.at IS 'when the row was refused last';
COMMENT ON COLUMN dataverse.rejects.pid IS 'by which session';
COMMENT ON COLUMN dataverse.rejects.role IS 'the role for which it was filed';
COMMENT ON COLUMN dataverse.rejects.server IS 'the foreign server';
COMMENT ON COLUMN dataverse.rejects.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.rejects.operation IS 'insert, upsert, update, or delete; pull if a local table refused the row';
COMMENT ON COLUMN dataverse.rejects.row_number IS 'the position of the row in the statement, or in the query of a push';
COMMENT ON COLUMN dataverse.rejects.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.rejects."row" IS 'the row by column name; it can be corrected by UPDATE';
COMMENT ON COLUMN dataverse.rejects.code IS 'the error code of Dataverse; null if the row was refused here';
COMMENT ON COLUMN dataverse.rejects.sqlstate IS 'the SQLSTATE of the error';
COMMENT ON COLUMN dataverse.rejects.message IS 'why the row was refused';
COMMENT ON COLUMN dataverse.rejects.attempts IS 'how often it has been tried';

COMMENT ON COLUMN dataverse.runs.id IS 'the number of the run';
COMMENT ON COLUMN dataverse.runs.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.runs.target IS 'the table of the copy; null for push';
COMMENT ON COLUMN dataverse.runs.query IS 'the query of a push';
COMMENT ON COLUMN dataverse.runs.operation IS 'pull, sync, or push';
COMMENT ON COLUMN dataverse.runs.role IS 'the role that called it';
COMMENT ON COLUMN dataverse.runs.pid IS 'the process of its session';
COMMENT ON COLUMN dataverse.runs.started_at IS 'when it began';
COMMENT ON COLUMN dataverse.runs.ended_at IS 'when it ended';
COMMENT ON COLUMN dataverse.runs.status IS 'running, succeeded, failed, interrupted, or skipped';
COMMENT ON COLUMN dataverse.runs.phase IS 'what it did last';
COMMENT ON COLUMN dataverse.runs.rows_read IS 'rows that were read as a whole; of a push, those of its query';
COMMENT ON COLUMN dataverse.runs.rows_compared IS 'rows of which ids and versions were read';
COMMENT ON COLUMN dataverse.runs.inserted IS 'rows that were inserted here';
COMMENT ON COLUMN dataverse.runs.updated IS 'rows that were updated here';
COMMENT ON COLUMN dataverse.runs.unchanged IS 'rows that were as they should be';
COMMENT ON COLUMN dataverse.runs.deleted IS 'rows that were deleted or marked here';
COMMENT ON COLUMN dataverse.runs.sent IS 'rows that were written in Dataverse';
COMMENT ON COLUMN dataverse.runs.missing IS 'rows that were not there to be updated or deleted';
COMMENT ON COLUMN dataverse.runs.rejected IS 'rows that were refused, or that sync sent in vain';
COMMENT ON COLUMN dataverse.runs.conflicts IS 'rows that wait for a decision';
COMMENT ON COLUMN dataverse.runs.requests IS 'requests that were sent, repeated ones included';
COMMENT ON COLUMN dataverse.runs.throttles IS 'requests that were refused because there were too many';
COMMENT ON COLUMN dataverse.runs.time_waited IS 'how long it had nothing to do but wait for Dataverse';
COMMENT ON COLUMN dataverse.runs.sqlstate IS 'the SQLSTATE of its error';
COMMENT ON COLUMN dataverse.runs.error IS 'why it failed';

COMMENT ON COLUMN dataverse.sync_state.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.sync_state.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.sync_state.phase IS 'what comes next: backfill, compare, settle, or current';
COMMENT ON COLUMN dataverse.sync_state.method IS 'whether change tracking or versions tell what has changed';
COMMENT ON COLUMN dataverse.sync_state.token_at IS 'when it got its token of change tracking';
COMMENT ON COLUMN dataverse.sync_state.compared_at IS 'when it was last compared with all rows, or all were read';
COMMENT ON COLUMN dataverse.sync_state.succeeded_at IS 'when it was last in step';
COMMENT ON COLUMN dataverse.sync_state.age IS 'how long ago that is';
COMMENT ON COLUMN dataverse.sync_state.token_expires_at IS 'when the token expires; null if not known';
COMMENT ON COLUMN dataverse.sync_state.lag IS 'how many rows have changed in Dataverse since; asks the service, but only if it is selected';
COMMENT ON COLUMN dataverse.sync_state.refused IS 'how many rows the table has refused; they are tried again';
COMMENT ON COLUMN dataverse.sync_state.unfed IS 'the columns that were copied once, and get no values any more';
COMMENT ON COLUMN dataverse.sync_state.last_status IS 'how the last run ended; running if it has not';
COMMENT ON COLUMN dataverse.sync_state.last_started_at IS 'when it began';
COMMENT ON COLUMN dataverse.sync_state.last_error IS 'why it failed';

COMMENT ON COLUMN dataverse.conflicts.id IS 'the number of the conflict, for dataverse.resolve()';
COMMENT ON COLUMN dataverse.conflicts.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.conflicts.target IS 'the table of the copy';
COMMENT ON COLUMN dataverse.conflicts.row_id IS 'the id of the row';
COMMENT ON COLUMN dataverse.conflicts.kind IS
  'changed (on both sides), deleted there, deleted here, exists (in Dataverse already), or refused';
COMMENT ON COLUMN dataverse.conflicts.columns IS 'the columns to decide about';
COMMENT ON COLUMN dataverse.conflicts.ours IS 'the row as it is here; null if it is not';
COMMENT ON COLUMN dataverse.conflicts.theirs IS 'the row as it is in Dataverse; null if it is not';
COMMENT ON COLUMN dataverse.conflicts.sqlstate IS 'the SQLSTATE of the error with which Dataverse refused the row';
COMMENT ON COLUMN dataverse.conflicts.error IS 'why Dataverse refused it';
COMMENT ON COLUMN dataverse.conflicts.found_at IS 'when it was found';
COMMENT ON COLUMN dataverse.conflicts.decision IS
  'service or local, which the next dataverse.sync() carries out; null if nobody has decided';

COMMENT ON COLUMN dataverse.pushes.id IS 'the number of the push, for dataverse.forget_push()';
COMMENT ON COLUMN dataverse.pushes.foreign_table IS 'the foreign table';
COMMENT ON COLUMN dataverse.pushes.query IS 'the query; once staged_in has its rows, it is not run again';
COMMENT ON COLUMN dataverse.pushes.operation IS 'insert, update, upsert, or delete';
COMMENT ON COLUMN dataverse.pushes.key IS 'the columns that say which row is meant; empty if the id does';
COMMENT ON COLUMN dataverse.pushes.role IS 'the role that the push belongs to';
COMMENT ON COLUMN dataverse.pushes.opened_at IS 'when it was begun';
COMMENT ON COLUMN dataverse.pushes.staged_in IS 'the table with the rows of the query; null until it has run';
COMMENT ON COLUMN dataverse.pushes.rows IS 'how many these are';
COMMENT ON COLUMN dataverse.pushes.rows_done IS 'how many of them are done';
