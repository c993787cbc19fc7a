--
-- Records of runs, copies, conflicts, rejects, and application users, and how long they are kept.
--
\set VERBOSITY terse
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null
DELETE FROM dataverse.rejects;

CREATE SERVER books FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER books OPTIONS (client_id 'app1', client_secret 'secret1', name 'books');
CREATE SCHEMA books_dv;
CREATE SCHEMA books;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, task) FROM SERVER books INTO books_dv;
INSERT INTO books_dv.account (name, accountnumber) SELECT repeat('account ', 15) || i, i FROM generate_series(1, 20) AS i;
INSERT INTO books_dv.task (subject) SELECT 'task ' || i FROM generate_series(1, 3) AS i;
CREATE VIEW pg_temp.last_run AS
  SELECT operation, status, rows_read, rows_compared, sent, rejected, conflicts, phase FROM dataverse.runs ORDER BY id DESC LIMIT 1;

-- Copies are in step as of the end of a run, not of its beginning.
CALL dataverse.pull('books_dv.account', 'books.account');
CALL dataverse.pull('books_dv.task', 'books.task');
SELECT s.target, s.succeeded_at = r.ended_at AS at_its_end FROM dataverse.sync_state AS s JOIN dataverse.runs AS r USING (target) ORDER BY 1;
-- Concurrent changes are known only once all rows have been read.
SELECT lag FROM dataverse.sync_state WHERE target = 'books.account';
UPDATE dataverse_private.copies SET phase = 'backfill' WHERE target = 'books.account';
SELECT lag FROM dataverse.sync_state WHERE target = 'books.account';
UPDATE dataverse_private.copies SET phase = 'current' WHERE target = 'books.account';
-- Without change tracking, all rows are compared once a day; otherwise those above an earlier version are read.
UPDATE dataverse_private.copies SET compared_at = compared_at - interval '23 hours',
  marked_at = ARRAY(SELECT m - interval '10 minutes' FROM unnest(marked_at) AS m);
CALL dataverse.pull('books_dv.task', 'books.task');
SELECT * FROM pg_temp.last_run;
UPDATE dataverse_private.copies SET compared_at = compared_at - interval '2 hours';
CALL dataverse.pull('books_dv.task', 'books.task');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('books_dv.account', 'books.account');
SELECT * FROM pg_temp.last_run;

-- Ids that a comparison has found, and that were lost with a part of a dump, do not look like deleted rows.
ALTER SERVER books OPTIONS (ADD page_size '10');
UPDATE dataverse_private.copies SET phase = 'compare', ids = 0 WHERE target = 'books.account';
SELECT id AS copy FROM dataverse_private.copies WHERE target = 'books.account' \gset
BEGIN;
INSERT INTO dataverse_private.run_log (copy, operation, role) VALUES (:copy, 'pull', CURRENT_USER);
SELECT (dataverse_private.pull_step(:copy, dataverse_private.pull_prepare(:copy, 'books_dv.account', 'books.account', NULL, 'delete', 'add', false, NULL, 'abort', true), '', true, true)).more;
COMMIT;
SELECT ids, link IS NOT NULL AS more FROM dataverse_private.copies WHERE target = 'books.account';
DELETE FROM dataverse_private.copy_ids;
CALL dataverse.pull('books_dv.account', 'books.account');
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM books.account;
ALTER SERVER books OPTIONS (DROP page_size);

-- Runs are kept for 30 days; those of copies are deleted by the next run of the same copy, those of pushes by the next push.
CALL dataverse.push('SELECT ''pushed'' AS subject', 'books_dv.task');
UPDATE dataverse_private.run_log SET started_at = started_at - interval '29 days';
UPDATE dataverse_private.run_log SET started_at = started_at - interval '2 days' WHERE push IS NOT NULL OR copy = (SELECT id FROM dataverse_private.copies WHERE target = 'books.task');
CALL dataverse.pull('books_dv.task', 'books.task');
CALL dataverse.pull('books_dv.account', 'books.account');
SELECT operation, target, count(*) FROM dataverse.runs GROUP BY 1, 2 ORDER BY 1, 2;
CALL dataverse.push('SELECT ''pushed, too'' AS subject', 'books_dv.task');
SELECT operation, target, count(*) FROM dataverse.runs GROUP BY 1, 2 ORDER BY 1, 2;

-- A cancel of one table ends the call for all.
\setenv FAULTS '[{"action":"stall","method":"GET","path":"/accounts"}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
CREATE SCHEMA books_all;
SET statement_timeout = '1s';
CALL dataverse.pull_all('books_dv', 'books_all');
RESET statement_timeout;
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null
SELECT target, status, sqlstate FROM dataverse.runs WHERE target LIKE 'books_all.%' ORDER BY 1;
SELECT dataverse.forget_copy('books_all.account');

-- A row that the table of a copy refuses has one entry, with the time of the last refusal, which is deleted with the copy.
ALTER TABLE books.task ADD CONSTRAINT unfit CHECK (subject <> 'unfit');
INSERT INTO books_dv.task (subject) VALUES ('unfit');
CALL dataverse.pull('books_dv.task', 'books.task', on_error => 'continue');
SELECT id, at FROM dataverse.rejects \gset first_
UPDATE books_dv.task SET description = 'still' WHERE subject = 'unfit';
CALL dataverse.pull('books_dv.task', 'books.task', on_error => 'continue');
SELECT id = :first_id AS same, at > :'first_at' AS later, operation, attempts > 1 AS attempts FROM dataverse.rejects;
SELECT dataverse.forget_copy('books.task');
SELECT count(*) FROM dataverse.rejects;
DELETE FROM books_dv.task WHERE subject = 'unfit';

-- A conflict keeps the time at which it was found, until it changes.
CALL dataverse.sync('books_dv.account', 'books.account');
UPDATE books.account SET name = 'ours' WHERE accountnumber = '1';
UPDATE books_dv.account SET name = 'theirs' WHERE accountnumber = '1';
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT id, found_at FROM dataverse.conflicts \gset conflict_
UPDATE dataverse_private.pending SET touched = true;
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT id = :conflict_id AS same, found_at = :'conflict_found_at' AS found_then, theirs ->> 'name' AS theirs FROM dataverse.conflicts;
UPDATE books_dv.account SET name = 'theirs, too' WHERE accountnumber = '1';
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT id = :conflict_id AS same, found_at > :'conflict_found_at' AS found_later, theirs ->> 'name' AS theirs FROM dataverse.conflicts;
-- It can be resolved as long as it exists.
SELECT id AS conflict_id FROM dataverse.conflicts \gset
UPDATE dataverse_private.pending SET state = 'new';
SELECT dataverse.resolve(:conflict_id, 'local');
UPDATE dataverse_private.pending SET state = 'filed';
SELECT dataverse.resolve(:conflict_id, 'local');
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT * FROM pg_temp.last_run;

-- An edit that is sent in vain is neither a conflict nor forgotten.
CREATE FUNCTION books_dv.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER nothing BEFORE UPDATE ON books_dv.account FOR EACH ROW EXECUTE FUNCTION books_dv.nothing();
UPDATE books.account SET name = 'in vain' WHERE accountnumber = '3';
SET client_min_messages = warning;
CALL dataverse.sync('books_dv.account', 'books.account');
SET client_min_messages = error;
SELECT * FROM pg_temp.last_run;
DROP TRIGGER nothing ON books_dv.account;
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT * FROM pg_temp.last_run;
SELECT name FROM books_dv.account WHERE accountnumber = '3';

-- Rows that sync sends do not affect rejects filed by others.
SET dataverse_fdw.on_error = 'continue';
INSERT INTO books_dv.account (accountid, name) SELECT accountid, 'again' FROM books.account WHERE accountnumber = '2';
RESET dataverse_fdw.on_error;
SELECT operation, sqlstate FROM dataverse.rejects;
UPDATE books.account SET name = 'sent' WHERE accountnumber = '2';
CALL dataverse.sync('books_dv.account', 'books.account');
SELECT * FROM pg_temp.last_run;
SELECT operation, sqlstate FROM dataverse.rejects;
-- Retrying rows does not change the settings of the session.
SET dataverse_fdw.insert_mode = 'ignore_duplicates';
BEGIN;
SELECT retried FROM dataverse.retry_rejects();
SHOW dataverse_fdw.on_error;
SHOW dataverse_fdw.insert_mode;
COMMIT;
RESET dataverse_fdw.insert_mode;
DELETE FROM dataverse.rejects;

-- Bytes are counted by direction: written rows are sent, and read rows are received.
SELECT dataverse.reset_stats('books');
INSERT INTO books_dv.account (name, description) SELECT 'many', repeat('sent', 250) FROM generate_series(1, 100);
SELECT bytes_sent > 100000 AS sent, bytes_received < 50000 AS received FROM dataverse.pool WHERE server = 'books';
SELECT dataverse.reset_stats('books');
SELECT dataverse.request('books', 'GET', 'accounts') -> 'value' IS NOT NULL AS read;
SELECT bytes_received > bytes_sent AS received FROM dataverse.pool WHERE server = 'books';
-- No error since it was reset.
SELECT dataverse.reset_pool('books');
SELECT pg_sleep(0.01);
SELECT dataverse.request('books', 'GET', 'accounts?$top=1') -> 'value' IS NOT NULL AS read;
SELECT last_increase < last_activity AS earlier FROM dataverse.pool WHERE server = 'books';
-- A user that is not throttled is not counted as such.
SELECT users, throttled_users FROM dataverse.pool_summary WHERE server = 'books';
SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
DROP SCHEMA books_dv, books, books_all CASCADE;
DROP SERVER books CASCADE;
DELETE FROM dataverse_private.run_log;
