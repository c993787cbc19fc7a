--
-- Rows that the table of a copy refuses: constraints, triggers, values that do
-- not fit.
--
\set VERBOSITY terse
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = warning;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER refused FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', page_size '20');
CREATE USER MAPPING FOR CURRENT_USER SERVER refused OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA refused_dv;
CREATE SCHEMA refused;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER refused INTO refused_dv;

CREATE FUNCTION pg_temp.id(i integer) RETURNS uuid LANGUAGE sql AS
  $$ SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid $$;
CREATE VIEW pg_temp.last_run AS
  SELECT status, rows_read, inserted, updated, unchanged, deleted, rejected, sqlstate
  FROM dataverse.runs ORDER BY id DESC LIMIT 1;
INSERT INTO refused_dv.account (accountid, name, accountnumber, numberofemployees)
  SELECT pg_temp.id(i), 'account ' || i, 'A' || i, i FROM generate_series(1, 100) AS i;

-- All other rows are merged; the run fails with an error that names the row.
CREATE TABLE refused.account (
  accountid uuid PRIMARY KEY, name varchar(12) NOT NULL, accountnumber text UNIQUE, numberofemployees integer,
  parentaccountid uuid REFERENCES refused.account, versionnumber bigint,
  CONSTRAINT few CHECK (numberofemployees <> 42));
-- missing values, and excessive or different ones
CREATE VIEW pg_temp.differs AS
  SELECT a.name AS there, t.name AS here
  FROM refused_dv.account AS a FULL JOIN refused.account AS t USING (accountid)
  WHERE (a.name, a.accountnumber, a.numberofemployees) IS DISTINCT FROM (t.name, t.accountnumber, t.numberofemployees)
  ORDER BY 1, 2;
\set pull 'CALL dataverse.pull(''refused_dv.account'', ''refused.account'''
:pull);
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differs;
SELECT count(*) FROM dataverse.rejects;
-- again, as long as it is refused
:pull);
SELECT * FROM pg_temp.last_run;
-- filed
:pull, on_error => 'continue');
SELECT * FROM pg_temp.last_run;
:pull, on_error => 'continue');
SELECT server, foreign_table, operation, row_id, "row" ->> 'name' AS name, "row" ? 'description' AS whole, code, sqlstate, message, attempts
FROM dataverse.rejects;
SELECT * FROM dataverse.retry_rejects();
DO $$
DECLARE
  detail text;
  hint text;
BEGIN
  UPDATE dataverse.rejects SET "row" = '{}';
EXCEPTION WHEN feature_not_supported THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RAISE INFO '% %', detail, hint;
END $$;
SELECT refused, last_status FROM dataverse.sync_state;
-- it is merged once it is accepted, and its entry is deleted
ALTER TABLE refused.account DROP CONSTRAINT few;
:pull);
SELECT * FROM pg_temp.last_run;
SELECT count(*) FROM dataverse.rejects;
SELECT * FROM pg_temp.differs;

-- Corrected in Dataverse, deleted in Dataverse, and refused for several reasons.
UPDATE refused_dv.account SET name = 'a name that is too long' WHERE accountid = pg_temp.id(7);
UPDATE refused_dv.account SET name = NULL WHERE accountid = pg_temp.id(8);
INSERT INTO refused_dv.account (accountid, name, accountnumber) VALUES (pg_temp.id(201), 'double', 'A1');
INSERT INTO refused_dv.account (accountid, name, accountnumber) VALUES (pg_temp.id(202), 'double too', 'A2');
:pull);
:pull, on_error => 'continue');
SELECT row_id, sqlstate, message FROM dataverse.rejects ORDER BY row_id;
SELECT * FROM pg_temp.differs;
UPDATE refused_dv.account SET name = 'short' WHERE accountid = pg_temp.id(7);
UPDATE refused_dv.account SET name = 'none' WHERE accountid = pg_temp.id(8);
DELETE FROM refused_dv.account WHERE accountid = pg_temp.id(201);
:pull, on_error => 'continue');
SELECT row_id, sqlstate, attempts FROM dataverse.rejects ORDER BY row_id;
UPDATE refused_dv.account SET accountnumber = 'A202' WHERE accountid = pg_temp.id(202);
:pull);
SELECT * FROM pg_temp.differs;
SELECT count(*) FROM dataverse.rejects;

-- A value that moves from one row to another, and two rows that exchange values.
UPDATE refused_dv.account SET accountnumber = NULL WHERE accountid = pg_temp.id(1);
UPDATE refused_dv.account SET accountnumber = 'A1' WHERE accountid = pg_temp.id(3);
:pull);
SELECT * FROM pg_temp.differs;
UPDATE refused_dv.account SET accountnumber = CASE accountnumber WHEN 'A4' THEN 'A5' ELSE 'A4' END
WHERE accountid IN (pg_temp.id(4), pg_temp.id(5));
\set VERBOSITY default
:pull);
\set VERBOSITY terse
ALTER TABLE refused.account DROP CONSTRAINT account_accountnumber_key, ADD UNIQUE (accountnumber) DEFERRABLE;
:pull);
SELECT * FROM pg_temp.differs;

-- References to rows of other pages, of the table itself, also in cycles.
SELECT dataverse.forget_copy('refused.account');
TRUNCATE refused.account;
UPDATE refused_dv.account SET parentaccountid = pg_temp.id(numberofemployees + 1) WHERE numberofemployees < 100;
UPDATE refused_dv.account SET name = 'a name that is too long' WHERE accountid IN (pg_temp.id(100), pg_temp.id(50));
:pull, on_error => 'continue');
SELECT count(*) FROM refused.account;
SELECT row_id, sqlstate FROM dataverse.rejects WHERE sqlstate <> '23503' ORDER BY 1;
SELECT min(row_id::text), max(row_id::text), count(*) FROM dataverse.rejects WHERE sqlstate = '23503';
UPDATE refused_dv.account SET name = 'short' WHERE accountid IN (pg_temp.id(100), pg_temp.id(50));
:pull);
SELECT count(*) FROM refused.account;
SELECT * FROM pg_temp.differs;
SELECT count(*) FROM dataverse.rejects;

-- Constraints that are checked at the end.
SELECT dataverse.forget_copy('refused.account');
TRUNCATE refused.account;
ALTER TABLE refused.account DROP CONSTRAINT account_parentaccountid_fkey,
  ADD FOREIGN KEY (parentaccountid) REFERENCES refused.account DEFERRABLE INITIALLY DEFERRED;
UPDATE refused_dv.account SET parentaccountid = pg_temp.id(1) WHERE accountid = pg_temp.id(100);
:pull);
SELECT count(*) FROM refused.account;
CREATE FUNCTION refused.no_thirteen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.numberofemployees = 13 THEN RAISE EXCEPTION 'thirteen brings bad luck' USING errcode = 'LUCK1'; END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER no_thirteen AFTER INSERT OR UPDATE ON refused.account DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION refused.no_thirteen();
UPDATE refused_dv.account SET numberofemployees = 13 WHERE accountid IN (pg_temp.id(21), pg_temp.id(22));
UPDATE refused_dv.account SET numberofemployees = 14 WHERE accountid IN (pg_temp.id(23), pg_temp.id(24));
:pull);
SELECT * FROM pg_temp.last_run;
SELECT * FROM pg_temp.differs;
DROP TRIGGER no_thirteen ON refused.account;
:pull);
SELECT * FROM pg_temp.differs;

-- Local rows still need a deleted one: in deltas, and when ids are compared.
CREATE TABLE refused.child (accountid uuid REFERENCES refused.account);
INSERT INTO refused.child VALUES (pg_temp.id(30)), (pg_temp.id(31)), (pg_temp.id(32));
UPDATE refused_dv.account SET parentaccountid = NULL WHERE parentaccountid IN (pg_temp.id(30), pg_temp.id(31), pg_temp.id(32));
DELETE FROM refused_dv.account WHERE accountid IN (pg_temp.id(30), pg_temp.id(33));
\set VERBOSITY default
:pull);
\set VERBOSITY terse
SELECT * FROM pg_temp.last_run;
DELETE FROM refused.child WHERE accountid = pg_temp.id(30);
:pull);
SELECT * FROM pg_temp.last_run;
DELETE FROM refused_dv.account WHERE accountid IN (pg_temp.id(31), pg_temp.id(34));
:pull, sweep => '0', on_error => 'continue');
SELECT operation, row_id, "row", sqlstate, message FROM dataverse.rejects;
-- it is created again
INSERT INTO refused_dv.account (accountid, name) VALUES (pg_temp.id(31), 'again');
:pull);
SELECT count(*) FROM dataverse.rejects;
SELECT * FROM pg_temp.differs;

-- Tables that need each other are completed in any order.
DELETE FROM refused_dv.account WHERE accountid = pg_temp.id(32);
INSERT INTO refused_dv.contact (contactid, lastname) SELECT pg_temp.id(i), 'contact ' || i FROM generate_series(51, 53) AS i;
UPDATE refused_dv.account SET primarycontactid = pg_temp.id(51) WHERE accountid = pg_temp.id(60);
DROP TABLE refused.child;
CREATE TABLE refused.contact (contactid uuid PRIMARY KEY, lastname text, versionnumber bigint);
ALTER TABLE refused.account ADD primarycontactid uuid REFERENCES refused.contact;
CALL dataverse.pull_all('refused_dv', 'refused');
SELECT target, status, rejected FROM (SELECT * FROM dataverse.runs ORDER BY id DESC LIMIT 3) AS r ORDER BY id;
SELECT target, last_status, refused FROM dataverse.sync_state ORDER BY 1;
SELECT count(*) FROM refused.account WHERE primarycontactid IS NOT NULL;

-- A run that is bound to fail does not read everything first, and the next one continues.
SELECT dataverse.forget_copy('refused.contact');
DROP TABLE refused.contact CASCADE;
CREATE TABLE refused.contact (contactid uuid PRIMARY KEY, lastname text CHECK (lastname <> 'many'), versionnumber bigint);
INSERT INTO refused_dv.contact (contactid, lastname) SELECT pg_temp.id(1000 + i), 'many' FROM generate_series(1, 1100) AS i;
CALL dataverse.pull('refused_dv.contact', 'refused.contact');
SELECT phase, refused FROM dataverse.sync_state WHERE target = 'refused.contact';
ALTER TABLE refused.contact DROP CONSTRAINT contact_lastname_check;
CALL dataverse.pull('refused_dv.contact', 'refused.contact');
SELECT (SELECT count(*) FROM refused.contact) AS here, (SELECT count(*) FROM refused_dv.contact) AS there;
CALL dataverse.pull('refused_dv.contact', 'refused.contact', on_error => 'perhaps');

SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
SELECT (SELECT count(*) FROM dataverse_private.copy_refused), (SELECT count(*) FROM dataverse.rejects);
DROP SCHEMA refused_dv, refused CASCADE;
DROP SERVER refused CASCADE;
