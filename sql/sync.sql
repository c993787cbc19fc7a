--
-- Both ways: dataverse.sync(), conflicts, and resolve().
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
DELETE FROM dataverse.rejects;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER sync FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER sync OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA sync_dv;
CREATE SCHEMA sync_copy;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, task, new_meter, new_reading) FROM SERVER sync INTO sync_dv;
SET search_path = sync_copy, public;
-- Rows that a test can find, whatever their ids.
INSERT INTO sync_dv.account (accountid, accountnumber, name)
  SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid, i, 'account ' || i FROM generate_series(1, 12) AS i;

CREATE VIEW pg_temp.last_run AS
  SELECT operation, status, phase, rows_read, inserted, updated, deleted, sent, rejected, conflicts FROM dataverse.runs ORDER BY id DESC LIMIT 1;
CREATE VIEW pg_temp.open AS
  SELECT kind, columns, ours ->> 'name' AS ours, theirs ->> 'name' AS theirs, sqlstate, decision
  FROM dataverse.conflicts WHERE target = 'sync_copy.account' ORDER BY row_id;
-- The first run creates the copy, and captures changes from then on.
CALL dataverse.sync('sync_dv.account', 'account');
-- Both sides, row by row; nothing if they are the same.
CREATE FUNCTION pg_temp.differences() RETURNS TABLE (side text, number text, name text) LANGUAGE sql AS $$
  (SELECT 'here', accountnumber::text, name::text FROM (TABLE sync_copy.account EXCEPT TABLE sync_dv.account) AS x)
  UNION ALL (SELECT 'there', accountnumber::text, name::text FROM (TABLE sync_dv.account EXCEPT TABLE sync_copy.account) AS x) ORDER BY 2, 1
$$;
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'account'::regclass AND tgname LIKE 'dataverse%';

-- Each operation.
UPDATE account SET name = 'changed' WHERE accountnumber = '1';
UPDATE account SET name = 'changed', description = 'twice' WHERE accountnumber = '2';
UPDATE account SET description = 'thrice' WHERE accountnumber = '2';
DELETE FROM account WHERE accountnumber = '3';
INSERT INTO account (accountnumber, name, ownerid, owneridtype) SELECT '13', 'new', ownerid, owneridtype FROM account WHERE accountnumber = '1';
-- a row that is inserted and deleted, and one that is deleted and inserted
INSERT INTO account (accountnumber, name) VALUES ('14', 'short');
DELETE FROM account WHERE accountnumber = '14';
WITH gone AS (DELETE FROM account WHERE accountnumber = '4' RETURNING *)
INSERT INTO account (accountid, accountnumber, name) SELECT accountid, accountnumber, 'again' FROM gone;
SELECT id IS NOT NULL AS id, operation, CASE operation WHEN 'U' THEN columns END AS columns, base IS NOT NULL AS base
FROM dataverse_private.local_changes ORDER BY operation, columns, base;
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT accountnumber, name, description FROM sync_dv.account WHERE accountnumber IN ('1', '2', '3', '4', '13', '14') ORDER BY accountid;
SELECT * FROM pg_temp.differences();
-- Sent changes are read back, and are neither sent again nor conflicts.
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;

-- Changes in Dataverse and in the copy, of different rows.
UPDATE sync_dv.account SET name = 'there' WHERE accountnumber = '5';
UPDATE account SET name = 'here' WHERE accountnumber = '6';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();

-- A row that was changed, and deleted without being captured, is restored from Dataverse.
UPDATE account SET name = 'changed' WHERE accountnumber = '9';
SET dataverse_fdw.capture = off;
DELETE FROM account WHERE accountnumber = '9';
RESET dataverse_fdw.capture;
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
SELECT name FROM account WHERE accountnumber = '9';
SELECT * FROM pg_temp.differences();
SELECT count(*) FROM dataverse_private.local_changes;

-- Each kind of conflict is filed, and nothing is overwritten.
CREATE PROCEDURE pg_temp.quarrel() LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sync_dv.account SET name = 'theirs', websiteurl = 'theirs' WHERE accountnumber IN ('1', '2');
  UPDATE sync_copy.account SET name = 'ours', description = 'ours' WHERE accountnumber IN ('1', '2');
  DELETE FROM sync_dv.account WHERE accountnumber = '5';
  UPDATE sync_copy.account SET name = 'ours' WHERE accountnumber = '5';
  UPDATE sync_dv.account SET name = 'theirs' WHERE accountnumber = '6';
  DELETE FROM sync_copy.account WHERE accountnumber = '6';
  INSERT INTO sync_dv.account (accountid, accountnumber, name) VALUES ('00000000-0000-4000-8000-000000000020', '20', 'theirs');
  INSERT INTO sync_copy.account (accountid, accountnumber, name) VALUES ('00000000-0000-4000-8000-000000000020', '20', 'ours');
  -- no conflicts: both sides have made the same change
  UPDATE sync_dv.account SET name = 'same' WHERE accountnumber = '7';
  UPDATE sync_copy.account SET name = 'same' WHERE accountnumber = '7';
  DELETE FROM sync_dv.account WHERE accountnumber = '8';
  DELETE FROM sync_copy.account WHERE accountnumber = '8';
END $$;
CALL pg_temp.quarrel();
SET client_min_messages = warning;
CALL dataverse.sync('sync_dv.account', 'account');
SET client_min_messages = error;
SELECT * FROM pg_temp.last_run;
TABLE pg_temp.open;
SELECT * FROM pg_temp.differences();
-- They are unchanged, even if all rows are read or compared.
CALL dataverse.pull('sync_dv.account', 'account', "full" => true);
CALL dataverse.sync('sync_dv.account', 'account', sweep => '0');
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM pg_temp.differences();

-- Decisions, for one row and for all.
SELECT dataverse.resolve(id, 'local') FROM dataverse.conflicts WHERE ours ->> 'accountnumber' = '1';
SELECT dataverse.resolve(0, 'local');
SELECT dataverse.resolve(1, 'both');
SELECT dataverse.resolve('nowhere', 'local');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT name, description, websiteurl FROM sync_dv.account WHERE accountnumber = '1';
-- a decision about a conflict that has changed since is void
SELECT dataverse.resolve(id, 'local') FROM dataverse.conflicts WHERE ours ->> 'accountnumber' = '2';
UPDATE sync_dv.account SET name = 'theirs, later' WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
TABLE pg_temp.open;
UPDATE account SET name = 'ours, later' WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
TABLE pg_temp.open;
-- and so is one about a version that was not shown: with other values, a conflict has another id
SELECT id AS looked_at FROM dataverse.conflicts WHERE ours ->> 'accountnumber' = '2' \gset
UPDATE sync_dv.account SET name = 'theirs, latest' WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT dataverse.resolve(:looked_at, 'local');
UPDATE sync_dv.account SET name = 'theirs, later' WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT count(*) AS others, count(*) FILTER (WHERE id = :looked_at) AS same FROM dataverse.conflicts;
-- once both sides agree, no decision is needed
UPDATE account SET name = 'theirs, later', description = NULL WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
TABLE pg_temp.open;
SELECT dataverse.resolve('account', 'service');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
SELECT accountnumber, name FROM account WHERE accountnumber IN ('5', '6', '20') ORDER BY accountid;

-- Policies.
INSERT INTO account (accountid, accountnumber, name) VALUES
  ('00000000-0000-4000-8000-000000000005', '5', 'five'), ('00000000-0000-4000-8000-000000000008', '8', 'eight');
DELETE FROM account WHERE accountnumber = '20';
CALL dataverse.sync('sync_dv.account', 'account');
CALL dataverse.sync('sync_dv.account', 'account');
CALL pg_temp.quarrel();
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'service');
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
SELECT accountnumber, name, description FROM account WHERE accountnumber IN ('1', '5', '6', '20') ORDER BY accountid;
INSERT INTO account (accountid, accountnumber, name) VALUES
  ('00000000-0000-4000-8000-000000000005', '5', 'five'), ('00000000-0000-4000-8000-000000000008', '8', 'eight');
DELETE FROM account WHERE accountnumber = '20';
CALL dataverse.sync('sync_dv.account', 'account');
CALL dataverse.sync('sync_dv.account', 'account');
CALL pg_temp.quarrel();
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'local');
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
SELECT accountnumber, name, description, websiteurl FROM account WHERE accountnumber IN ('1', '5', '6', '20') ORDER BY accountid;

-- Policies of columns.
UPDATE sync_dv.account SET name = 'theirs', description = 'theirs', fax = 'theirs' WHERE accountnumber = '9';
UPDATE account SET name = 'ours', description = 'ours', fax = 'ours' WHERE accountnumber = '9';
CALL dataverse.sync('sync_dv.account', 'account', column_conflicts => '{"name": "service", "description": "local"}');
SELECT * FROM pg_temp.last_run;
TABLE pg_temp.open;
SELECT 'here' AS side, name, description, fax FROM account WHERE accountnumber = '9'
UNION ALL SELECT 'there', name, description, fax FROM sync_dv.account WHERE accountnumber = '9' ORDER BY 1;
SELECT dataverse.resolve('account', 'local');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.differences();
SELECT name, description, fax FROM account WHERE accountnumber = '9';

-- Edits of different columns are merged in one row, for all types and settings.
UPDATE sync_dv.account SET revenue = 12.5, description = 'theirs', lastusedincampaign = '2020-02-02 02:02:02+00', accountcategorycode = 2
  WHERE accountnumber IN ('9', '10');
CALL dataverse.sync('sync_dv.account', 'account');
SET TimeZone = 'Asia/Tokyo';
SET DateStyle = 'SQL, DMY';
UPDATE account SET revenue = 13.5, lastusedincampaign = '2021-01-01 00:00:00+00', creditonhold = true WHERE accountnumber IN ('9', '10');
UPDATE account SET revenue = 14.5 WHERE accountnumber IN ('9', '10');
RESET DateStyle;
SET TimeZone = 'UTC';
UPDATE sync_dv.account SET description = 'theirs alone', accountcategorycode = 1 WHERE accountnumber = '9';
UPDATE sync_dv.account SET description = 'theirs alone', revenue = 13.5 WHERE accountnumber = '10';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT kind, columns, ours ->> 'revenue' AS ours, theirs ->> 'revenue' AS theirs FROM dataverse.conflicts;
SELECT 'here' AS side, accountnumber, revenue, description, lastusedincampaign, accountcategorycode, creditonhold
FROM account WHERE accountnumber IN ('9', '10')
UNION ALL SELECT 'there', accountnumber, revenue, description, lastusedincampaign, accountcategorycode, creditonhold
FROM sync_dv.account WHERE accountnumber IN ('9', '10') ORDER BY 2, 1;
SELECT dataverse.resolve('account', 'local');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.differences();

-- Read-only columns.
UPDATE account SET createdon = '2001-01-01', modifiedon = '2001-01-01' WHERE accountnumber = '10';
UPDATE account SET createdon = '2001-01-01', name = 'written' WHERE accountnumber = '11';
SET client_min_messages = warning;
CALL dataverse.sync('sync_dv.account', 'account');
SET client_min_messages = error;
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
SELECT accountnumber, name, createdon > '2002-01-01' AS restored FROM account WHERE accountnumber IN ('10', '11') ORDER BY accountid;

-- Lookups with a companion are written as one.
UPDATE account SET ownerid = '00000000-0000-4000-8000-0000000000ff' WHERE accountnumber = '10';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT kind, columns, sqlstate FROM dataverse.conflicts;
SELECT dataverse.resolve('account', 'service');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.differences();

-- Rows that the service refuses; those that refer to others are retried.
INSERT INTO account (accountnumber, name, parentaccountid) VALUES ('31', 'child', '00000000-0000-4000-8000-000000000030');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT kind, sqlstate, theirs IS NULL AS nothing_there FROM dataverse.conflicts;
INSERT INTO account (accountid, accountnumber, name) VALUES ('00000000-0000-4000-8000-000000000030', '30', 'parent');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
SELECT count(*) FROM dataverse.rejects;
-- in one run, in any order
INSERT INTO account (accountid, accountnumber, name, parentaccountid) VALUES
  ('00000000-0000-4000-8000-000000000032', '32', 'child', 'ffffffff-0000-4000-8000-000000000033'),
  ('ffffffff-0000-4000-8000-000000000033', '33', 'parent', NULL);
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, conflicts FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();

-- Values that do not fit the foreign table.
ALTER TABLE account ALTER name TYPE text;
UPDATE account SET name = repeat('x', 161) WHERE accountnumber = '1';
UPDATE account SET name = 'fits' WHERE accountnumber = '2';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SELECT kind, columns, length(ours ->> 'name') AS ours, sqlstate, error FROM dataverse.conflicts;
SELECT dataverse.resolve('account', 'local');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
UPDATE sync_dv.account SET name = 'theirs' WHERE accountnumber = '1';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT kind, columns, length(ours ->> 'name') AS ours, theirs ->> 'name' AS theirs FROM dataverse.conflicts;
SELECT dataverse.resolve('account', 'service');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();
-- Values that Dataverse stores as null or without fractions are no difference.
UPDATE account SET description = '', lastusedincampaign = '2026-01-02 03:04:05.678' WHERE accountnumber = '1';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, conflicts FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();

-- A row that the local table refuses does not keep others from being sent.
ALTER TABLE account ADD CONSTRAINT named CHECK (name <> 'forbidden');
UPDATE sync_dv.account SET name = 'forbidden' WHERE accountnumber = '12';
UPDATE account SET name = 'sent' WHERE accountnumber = '11';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT name FROM sync_dv.account WHERE accountnumber = '11';
UPDATE sync_dv.account SET name = 'allowed' WHERE accountnumber = '12';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.differences();

-- Rows that are marked instead of deleted.
CALL dataverse.sync('sync_dv.contact', 'contact', deletes => 'mark');
INSERT INTO contact (lastname) VALUES ('one'), ('two');
CALL dataverse.sync('sync_dv.contact', 'contact', deletes => 'mark');
DELETE FROM sync_dv.contact WHERE lastname = 'one';
CALL dataverse.sync('sync_dv.contact', 'contact', deletes => 'mark');
SELECT lastname, deleted_at IS NOT NULL AS deleted, versionnumber IS NOT NULL AS has_version FROM contact ORDER BY 1;

-- Without change tracking.
CALL dataverse.sync('sync_dv.task', 'task');
INSERT INTO task (subject) VALUES ('one'), ('two');
CALL dataverse.sync('sync_dv.task', 'task');
UPDATE task SET subject = 'three' WHERE subject = 'one';
UPDATE sync_dv.task SET subject = 'four' WHERE subject = 'two';
CALL dataverse.sync('sync_dv.task', 'task');
SELECT (SELECT string_agg(subject, ' ' ORDER BY subject) FROM task) AS here, (SELECT string_agg(subject, ' ' ORDER BY subject) FROM sync_dv.task) AS there;

-- Etags.
UPDATE account SET name = 'strict' WHERE accountnumber = '11';
DELETE FROM account WHERE accountnumber = '12';
INSERT INTO account (accountnumber, name) VALUES ('40', 'strict');
CALL dataverse.sync('sync_dv.account', 'account', strict => true);
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differences();

-- Rows that refer to themselves, to each other, to rows of another table, and to no row; and a value that
-- Dataverse accepts only in an update.
CREATE FUNCTION pg_temp.i(i integer) RETURNS uuid LANGUAGE sql AS $$ SELECT format('00000000-0000-4000-9000-%s', lpad(i::text, 12, '0'))::uuid $$;
INSERT INTO account (accountid, name, parentaccountid, primarycontactid, lastusedincampaign) VALUES
  (pg_temp.i(1), 'of itself', pg_temp.i(1), NULL, NULL), (pg_temp.i(2), 'one', pg_temp.i(3), NULL, '2024-05-06'), (pg_temp.i(3), 'two', pg_temp.i(2), NULL, NULL),
  (pg_temp.i(4), 'with contact', NULL, pg_temp.i(7), NULL), (pg_temp.i(5), 'of nobody', pg_temp.i(6), NULL, NULL);
CALL dataverse.sync('sync_dv.contact', 'contact');
INSERT INTO contact (contactid, lastname, parentcustomerid, parentcustomeridtype) VALUES (pg_temp.i(7), 'with account', pg_temp.i(4), 'account');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT row_id, kind, columns, sqlstate, error FROM dataverse.conflicts WHERE row_id >= pg_temp.i(0) ORDER BY row_id;
-- no value is missing in the copy, or lost when the row is changed meanwhile
UPDATE account SET description = 'meanwhile' WHERE accountid = pg_temp.i(4);
CALL dataverse.sync('sync_dv.contact', 'contact');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT * FROM pg_temp.last_run;
SELECT name, right(parentaccountid::text, 1) AS parent, right(primarycontactid::text, 1) AS contact, lastusedincampaign, description
FROM sync_dv.account WHERE accountid BETWEEN pg_temp.i(0) AND pg_temp.i(9) ORDER BY accountid;
SELECT right(parentcustomerid::text, 1) AS parent, parentcustomeridtype FROM sync_dv.contact WHERE contactid = pg_temp.i(7);
SELECT * FROM pg_temp.differences();
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
DELETE FROM account WHERE accountid = pg_temp.i(5);
-- a cycle of many rows, which are written and read together; deleting a row changes those that refer to it
INSERT INTO account (accountid, name, parentaccountid) SELECT pg_temp.i(100 + i), 'ring', pg_temp.i(100 + i % 60 + 1) FROM generate_series(1, 60) AS i;
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts, (SELECT requests < 25 FROM dataverse.runs ORDER BY id DESC LIMIT 1) AS few_requests FROM pg_temp.last_run;
SELECT count(*) FROM sync_dv.account AS a JOIN sync_dv.account AS b ON b.accountid = a.parentaccountid WHERE a.name = 'ring';
DELETE FROM account WHERE name = 'ring';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts, (SELECT requests < 15 FROM dataverse.runs ORDER BY id DESC LIMIT 1) AS few_requests FROM pg_temp.last_run;
-- a missing contact with the id of the account seems to be the account
UPDATE account SET primarycontactid = pg_temp.i(1) WHERE accountid = pg_temp.i(1);
SET client_min_messages = warning;
CALL dataverse.sync('sync_dv.account', 'account');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SET client_min_messages = error;
UPDATE account SET primarycontactid = NULL WHERE accountid = pg_temp.i(1);
CALL dataverse.sync('sync_dv.account', 'account');
SELECT count(*) FROM pg_temp.differences();
-- A value that Dataverse accepts only in new rows is sent with these; later changes are not sent, and do not block others.
SET client_min_messages = warning;
INSERT INTO account (accountid, name, importsequencenumber) VALUES (pg_temp.i(20), 'imported', 5);
CALL dataverse.sync('sync_dv.account', 'account');
SELECT name, importsequencenumber FROM sync_dv.account WHERE accountid = pg_temp.i(20);
UPDATE account SET importsequencenumber = 6 WHERE accountid = pg_temp.i(20);
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
UPDATE account SET name = 'changed', importsequencenumber = 7 WHERE accountid = pg_temp.i(20);
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
SELECT name, importsequencenumber FROM account WHERE accountid = pg_temp.i(20);
UPDATE sync_dv.account SET name = 'there' WHERE accountid = pg_temp.i(20);
UPDATE account SET name = 'here', importsequencenumber = 8 WHERE accountid = pg_temp.i(20);
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'local');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
UPDATE sync_dv.account SET name = 'there again' WHERE accountid = pg_temp.i(20);
UPDATE account SET importsequencenumber = 9 WHERE accountid = pg_temp.i(20);
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'local');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
SELECT name, importsequencenumber FROM account WHERE accountid = pg_temp.i(20);
INSERT INTO sync_dv.account (accountid, name, importsequencenumber) VALUES (pg_temp.i(21), 'theirs', 1);
INSERT INTO account (accountid, name, importsequencenumber) VALUES (pg_temp.i(21), 'ours', 2);
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'local', column_conflicts => '{"name": "skip"}');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
SELECT kind, columns, ours ->> 'importsequencenumber' AS ours, theirs ->> 'importsequencenumber' AS theirs FROM dataverse.conflicts WHERE row_id = pg_temp.i(21);
SELECT dataverse.resolve(id, 'local') FROM dataverse.conflicts WHERE row_id = pg_temp.i(21);
CALL dataverse.sync('sync_dv.account', 'account');
CALL dataverse.sync('sync_dv.account', 'account');
SELECT sent, rejected, conflicts FROM pg_temp.last_run;
SELECT name, importsequencenumber FROM account WHERE accountid = pg_temp.i(21);
SET client_min_messages = error;
SELECT count(*) FROM pg_temp.differences();

-- Changes of columns that are no longer copied: dropped locally, or renamed on both sides.
CALL dataverse.sync('sync_dv.account', 'part', columns => '{accountid, accountnumber, name, fax, description, versionnumber}');
UPDATE part SET fax = 'ours', name = 'fax is dropped' WHERE accountnumber IN ('1', '2');
UPDATE part SET description = 'renamed' WHERE accountnumber IN ('6', '7', '9');
UPDATE sync_dv.account SET name = 'theirs' WHERE accountnumber = '9';
ALTER TABLE part DROP fax;
ALTER TABLE part RENAME description TO described;
ALTER FOREIGN TABLE sync_dv.account RENAME description TO described;
CREATE VIEW pg_temp.part_conflicts AS
  SELECT ours ->> 'accountnumber' AS number, kind, columns, sqlstate, error, ours ->> 'described' AS described, theirs ->> 'name' AS theirs
  FROM dataverse.conflicts WHERE target = 'sync_copy.part' ORDER BY row_id;
CREATE PROCEDURE pg_temp.sync_part() LANGUAGE plpgsql AS $$
BEGIN
  CALL dataverse.sync('sync_dv.account', 'sync_copy.part', conflict => 'skip', columns => '{accountid, accountnumber, name, described, versionnumber}', "full" => true);
END $$;
CALL pg_temp.sync_part();
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
TABLE pg_temp.part_conflicts;
-- they are unchanged until a decision; if the row has changed in Dataverse as well, it is a conflict
CALL pg_temp.sync_part();
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SELECT accountnumber, name, described FROM part WHERE accountnumber IN ('1', '2', '6', '7', '9') ORDER BY accountid;
SELECT dataverse.resolve(id, CASE ours ->> 'accountnumber' WHEN '2' THEN 'service' ELSE 'local' END) FROM dataverse.conflicts WHERE target = 'sync_copy.part';
CALL pg_temp.sync_part();
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
TABLE pg_temp.part_conflicts;
SELECT accountnumber, name, described, fax = 'ours' AS fax_sent FROM sync_dv.account WHERE accountnumber IN ('1', '2', '6', '7', '9') ORDER BY accountid;
SELECT dataverse.resolve('part', 'service');
CALL pg_temp.sync_part();
SELECT count(*) FROM pg_temp.part_conflicts;
SELECT count(*) FROM (TABLE part EXCEPT SELECT accountid, name, accountnumber, described, versionnumber FROM sync_dv.account) AS x;
SELECT dataverse.forget_copy('sync_copy.part');
ALTER FOREIGN TABLE sync_dv.account RENAME described TO description;
CALL dataverse.sync('sync_dv.account', 'account');

-- Changes of columns that are re-created before they are sent: a new column, and one that got the name of another one,
-- have other values than were set.
CREATE PROCEDURE pg_temp.sync_swap() LANGUAGE plpgsql AS $$
BEGIN
  CALL dataverse.sync('sync_dv.account', 'sync_copy.swap', columns => '{accountid, accountnumber, name, fax, description, versionnumber}');
END $$;
CALL pg_temp.sync_swap();
UPDATE swap SET name = 'conflict' WHERE accountnumber = '7';
UPDATE sync_dv.account SET name = 'theirs' WHERE accountnumber = '7';
CALL pg_temp.sync_swap();
SELECT dataverse.resolve(id, 'local') FROM dataverse.conflicts WHERE ours ->> 'accountnumber' = '7';
UPDATE swap SET name = 'renamed' WHERE accountnumber = '1';
UPDATE swap SET description = 'renamed', fax = 'sent' WHERE accountnumber = '2';
UPDATE swap SET fax = 'sent' WHERE accountnumber = '9';
CREATE TEMP TABLE former AS SELECT accountid, accountnumber, name, description FROM sync_dv.account;
ALTER TABLE swap RENAME name TO former_name;
ALTER TABLE swap RENAME description TO name;
ALTER TABLE swap ADD description text;
CREATE VIEW pg_temp.swap_conflicts AS
  SELECT ours ->> 'accountnumber' AS number, kind, columns, sqlstate, error, ours ->> 'name' AS ours, theirs ->> 'name' AS theirs
  FROM dataverse.conflicts WHERE target = 'sync_copy.swap' ORDER BY row_id;
CALL dataverse.pull('sync_dv.account', 'swap', columns => '{accountid, accountnumber, name, fax, description, versionnumber}');
TABLE pg_temp.swap_conflicts;
CALL pg_temp.sync_swap();
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
TABLE pg_temp.swap_conflicts;
-- nothing but the fax was sent, and rows without a conflict have the values of Dataverse
SELECT accountnumber, fax FROM sync_dv.account WHERE accountnumber IN ('1', '2', '7', '9') ORDER BY accountid;
SELECT count(*) FROM (SELECT accountid, accountnumber, name, description FROM sync_dv.account EXCEPT TABLE former) AS x;
SELECT accountnumber FROM (SELECT accountid, accountnumber, name, description FROM sync_dv.account EXCEPT
                           SELECT accountid, accountnumber, name, description FROM swap) AS x ORDER BY accountid;
SELECT dataverse.resolve('swap', 'service');
CALL pg_temp.sync_swap();
SELECT count(*) FROM (SELECT accountid, accountnumber, name, description FROM sync_dv.account EXCEPT
                      SELECT accountid, accountnumber, name, description FROM swap) AS x;
-- a column of the foreign table that has become another one in Dataverse
UPDATE swap SET description = 'described', fax = 'faxed' WHERE accountnumber = '9';
UPDATE swap SET fax = 'sent' WHERE accountnumber = '2';
ALTER FOREIGN TABLE sync_dv.account RENAME description TO described;
ALTER FOREIGN TABLE sync_dv.account RENAME telephone1 TO description;
CALL pg_temp.sync_swap();
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
TABLE pg_temp.swap_conflicts;
SELECT accountnumber, fax, described, description AS telephone FROM sync_dv.account WHERE accountnumber IN ('2', '9') ORDER BY accountid;
ALTER FOREIGN TABLE sync_dv.account RENAME description TO telephone1;
ALTER FOREIGN TABLE sync_dv.account RENAME described TO description;
SELECT dataverse.forget_copy('sync_copy.swap');
CALL dataverse.sync('sync_dv.account', 'account');

-- Values of an alternate key that other rows have released in the same run: a row that was deleted, one that was
-- changed, and a chain.  Values that rows exchange, and one in use, are refused once, not by each run.
INSERT INTO sync_dv.new_meter (new_meterid, new_serial) SELECT pg_temp.i(200 + i), 'S-' || i FROM generate_series(1, 19) AS i;
CALL dataverse.sync('sync_dv.new_meter', 'meter');
DELETE FROM meter WHERE new_serial = 'S-1';
INSERT INTO meter (new_meterid, new_serial) VALUES (pg_temp.i(301), 'S-1'), (pg_temp.i(302), 'S-2'), (pg_temp.i(303), 'S-3');
UPDATE meter SET new_serial = 'S-20' WHERE new_meterid = pg_temp.i(202);
UPDATE meter SET new_serial = 'S-' || split_part(new_serial, '-', 2)::integer + 1 WHERE new_meterid BETWEEN pg_temp.i(210) AND pg_temp.i(219);
UPDATE meter SET new_serial = CASE new_serial WHEN 'S-4' THEN 'S-5' ELSE 'S-4' END WHERE new_serial IN ('S-4', 'S-5');
UPDATE meter SET new_serial = 'S-21' WHERE new_meterid = pg_temp.i(202);
CALL dataverse.sync('sync_dv.new_meter', 'meter');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SELECT right(row_id::text, 3) AS row, kind, columns, sqlstate FROM dataverse.conflicts WHERE target = 'sync_copy.meter' ORDER BY row_id;
SELECT string_agg(right(new_meterid::text, 3) || ' ' || new_serial, ', ' ORDER BY new_meterid) FROM sync_dv.new_meter;
UPDATE meter SET new_name = 'sent' WHERE new_meterid = pg_temp.i(206);
CALL dataverse.sync('sync_dv.new_meter', 'meter');
SELECT status, sent, rejected, conflicts FROM pg_temp.last_run;
SELECT dataverse.forget_copy('sync_copy.meter');
DROP TABLE meter;
DELETE FROM sync_dv.new_meter;

-- Unsupported calls.
CALL dataverse.sync('sync_dv.account', 'account', conflict => 'mine');
CALL dataverse.sync('sync_dv.account', 'account', column_conflicts => '[]');
CALL dataverse.sync('sync_dv.account', 'account', column_conflicts => '{"name": "mine"}');
CALL dataverse.sync('sync_dv.account', 'account', column_conflicts => '{"nme": "local"}');
CALL dataverse.sync('sync_dv.account', 'unversioned', columns => '{accountid, name}');
CALL dataverse.sync('sync_dv.new_reading', 'reading', strict => true);
SET dataverse_fdw.dry_run = on;
UPDATE account SET name = 'dry' WHERE accountnumber = '11';
CALL dataverse.sync('sync_dv.account', 'account');
RESET dataverse_fdw.dry_run;
SET session_replication_role = replica;
CALL dataverse.sync('sync_dv.account', 'account');
RESET session_replication_role;
SELECT name FROM sync_dv.account WHERE accountnumber = '11';

-- A row that cannot be deleted because of others is deleted once these are deleted.
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER sync INTO sync_dv;
INSERT INTO sync_dv.new_meter (new_name) VALUES ('in use');
INSERT INTO sync_dv.new_alltypes (new_name, new_meterid) SELECT 'user', new_meterid FROM sync_dv.new_meter;
CALL dataverse.sync('sync_dv.new_meter', 'meter');
DELETE FROM meter;
CALL dataverse.sync('sync_dv.new_meter', 'meter');
SELECT * FROM pg_temp.last_run;
SELECT kind, sqlstate FROM dataverse.conflicts WHERE target = 'sync_copy.meter';
DELETE FROM sync_dv.new_alltypes;
CALL dataverse.sync('sync_dv.new_meter', 'meter');
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM sync_dv.new_meter;

-- Forgotten copies.
UPDATE account SET name = 'ours' WHERE accountnumber = '11';
UPDATE sync_dv.account SET name = 'theirs' WHERE accountnumber = '11';
CALL dataverse.sync('sync_dv.account', 'account');
SELECT count(*) FROM dataverse.conflicts;
CALL dataverse.untrack('account');
SELECT count(*) FROM dataverse.conflicts;
SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
SELECT (SELECT count(*) FROM dataverse_private.copies), (SELECT count(*) FROM dataverse_private.pending), (SELECT count(*) FROM dataverse_private.local_changes);
RESET search_path;
DROP SCHEMA sync_dv, sync_copy CASCADE;
DROP SERVER sync CASCADE;
