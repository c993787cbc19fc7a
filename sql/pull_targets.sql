--
-- Possible tables of a copy: partitions, generated and identity columns,
-- row security, names that need quotes, and later changes.
--
\set VERBOSITY terse
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = warning;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER targets FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', page_size '20');
CREATE USER MAPPING FOR CURRENT_USER SERVER targets OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA "Targets dv";
CREATE SCHEMA "Targets";
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_meter) FROM SERVER targets INTO "Targets dv"
  OPTIONS (import_labels 'true');
CREATE FUNCTION pg_temp.id(i integer) RETURNS uuid LANGUAGE sql AS
  $$ SELECT format('00000000-0000-4000-8000-%s', lpad(i::text, 12, '0'))::uuid $$;
INSERT INTO "Targets dv".account (accountid, name, numberofemployees)
  SELECT pg_temp.id(i), 'account ' || i, i FROM generate_series(1, 50) AS i;
INSERT INTO "Targets dv".contact (contactid, lastname) SELECT pg_temp.id(i), 'contact ' || i FROM generate_series(1, 3) AS i;
INSERT INTO "Targets dv".new_meter (new_meterid, new_name, new_kind, new_features, new_contactid)
  SELECT pg_temp.id(i), 'meter ' || i, 100000000 + i, ARRAY[1, 9], pg_temp.id(i) FROM generate_series(1, 2) AS i;
CREATE VIEW pg_temp.last_run AS
  SELECT status, rows_read, inserted, updated, unchanged, deleted, rejected, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1;

-- Choices, lookups, and labels, as in the foreign table.
CALL dataverse.pull('"Targets dv".new_meter', '"Targets".meter');
SELECT new_name, new_kind, new_kindname, new_features, new_contactid, new_contactidname, ownerid IS NOT NULL AS owned FROM "Targets".meter ORDER BY 1;
SELECT count(*) FROM (TABLE "Targets dv".new_meter EXCEPT TABLE "Targets".meter) AS x;

-- Names that need quotes, also of columns; a schema of the search path.
ALTER FOREIGN TABLE "Targets dv".account RENAME name TO "The ""Name"" %s";
SET search_path = "Targets";
CALL dataverse.pull('"Targets dv".account', '"An Account"', columns => '{accountid, "The \"Name\" %s", versionnumber}', deletes => 'mark');
SELECT count(*) FROM "An Account";
UPDATE "Targets dv".account SET "The ""Name"" %s" = 'changed' WHERE accountid = pg_temp.id(1);
DELETE FROM "Targets dv".account WHERE accountid = pg_temp.id(2);
CALL dataverse.pull('"Targets dv".account', '"An Account"', columns => '{accountid, "The \"Name\" %s", versionnumber}', deletes => 'mark');
SELECT "The ""Name"" %s", deleted_at IS NOT NULL AS deleted FROM "An Account" ORDER BY accountid LIMIT 3;
CALL dataverse.pull('"Targets dv".account', '"An Account"', columns => '{accountid, "The \"Name\" %s", versionnumber}', deletes => 'mark', sweep => '0');
SELECT * FROM pg_temp.last_run;
RESET search_path;
ALTER FOREIGN TABLE "Targets dv".account RENAME "The ""Name"" %s" TO name;

-- Renamed, moved, and recreated.
ALTER TABLE "Targets"."An Account" RENAME TO moved;
ALTER TABLE "Targets".moved RENAME "The ""Name"" %s" TO name;
CREATE SCHEMA "Elsewhere";
ALTER TABLE "Targets".moved SET SCHEMA "Elsewhere";
CALL dataverse.pull('"Targets dv".account', '"Elsewhere".moved', columns => '{accountid, name, versionnumber}', deletes => 'mark');
SELECT * FROM pg_temp.last_run;
SELECT target, last_status FROM dataverse.sync_state ORDER BY 1;
DROP TABLE "Elsewhere".moved;
SELECT target, last_status FROM dataverse.sync_state ORDER BY 1;
CALL dataverse.pull('"Targets dv".account', '"Elsewhere".moved', columns => '{accountid, name, versionnumber}', deletes => 'mark');
SELECT * FROM pg_temp.last_run;

-- Partitions.
CREATE TABLE "Targets".account (
  accountid uuid PRIMARY KEY, name text, numberofemployees integer, versionnumber bigint) PARTITION BY HASH (accountid);
CREATE TABLE "Targets".account_0 PARTITION OF "Targets".account FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE "Targets".account_1 PARTITION OF "Targets".account FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CALL dataverse.pull('"Targets dv".account', '"Targets".account');
UPDATE "Targets dv".account SET numberofemployees = 0 WHERE numberofemployees < 5;
DELETE FROM "Targets dv".account WHERE numberofemployees BETWEEN 5 AND 8;
CALL dataverse.pull('"Targets dv".account', '"Targets".account');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('"Targets dv".account', '"Targets".account', sweep => '0');
SELECT * FROM pg_temp.last_run;
SELECT count(*), min(name) FROM (SELECT accountid, name, numberofemployees FROM "Targets dv".account
  EXCEPT SELECT accountid, name, numberofemployees FROM "Targets".account) AS x;
-- by a value that changes: rows move
CREATE TABLE "Targets".sized (
  accountid uuid, name text, numberofemployees integer, versionnumber bigint) PARTITION BY RANGE (numberofemployees);
CREATE TABLE "Targets".small PARTITION OF "Targets".sized FOR VALUES FROM (0) TO (20);
CREATE TABLE "Targets".large PARTITION OF "Targets".sized FOR VALUES FROM (20) TO (1000);
CREATE INDEX ON "Targets".sized (name, accountid);
CALL dataverse.pull('"Targets dv".account', '"Targets".sized');
CREATE INDEX ON "Targets".sized (accountid);
CALL dataverse.pull('"Targets dv".account', '"Targets".sized');
UPDATE "Targets dv".account SET numberofemployees = numberofemployees + 10 WHERE numberofemployees BETWEEN 15 AND 25;
INSERT INTO "Targets dv".account (accountid, name, numberofemployees) VALUES (pg_temp.id(60), 'none', NULL);
CALL dataverse.pull('"Targets dv".account', '"Targets".sized');
UPDATE "Targets dv".account SET numberofemployees = 60 WHERE accountid = pg_temp.id(60);
CALL dataverse.pull('"Targets dv".account', '"Targets".sized', sweep => '0');
SELECT * FROM pg_temp.last_run;
CALL dataverse.pull('"Targets dv".account', '"Targets".sized', "full" => true);
SELECT * FROM pg_temp.last_run;
SELECT (SELECT count(*) FROM "Targets".small) AS small, (SELECT count(*) FROM "Targets".large) AS large,
  (SELECT count(*) FROM "Targets dv".account) AS there,
  (SELECT count(*) FROM (SELECT accountid, name, numberofemployees FROM "Targets dv".account
   EXCEPT SELECT accountid, name, numberofemployees FROM "Targets".sized) AS x) AS missing;

-- Generated columns, identities, defaults, domains.
CREATE DOMAIN "Targets".positive AS integer CHECK (VALUE >= 0);
CREATE TABLE "Targets".own (
  number bigint GENERATED ALWAYS AS IDENTITY, other bigint GENERATED BY DEFAULT AS IDENTITY, accountid uuid PRIMARY KEY,
  numberofemployees "Targets".positive, name varchar(20), upper text GENERATED ALWAYS AS (upper(name)) STORED,
  since timestamptz DEFAULT '2026-01-01', versionnumber bigint GENERATED ALWAYS AS (numberofemployees::bigint) STORED);
CALL dataverse.pull('"Targets dv".account', '"Targets".own');
SELECT count(*), count(number), count(other), count(since), count(upper), bool_and(versionnumber = numberofemployees) FROM "Targets".own;
UPDATE "Targets dv".account SET name = 'generated' WHERE accountid = pg_temp.id(20);
CALL dataverse.pull('"Targets dv".account', '"Targets".own');
SELECT name, upper FROM "Targets".own WHERE accountid = pg_temp.id(20);

-- A text that is longer in Dataverse, and begins with the local one.
UPDATE "Targets dv".account SET name = '12345678901234567890' WHERE accountid = pg_temp.id(21);
CALL dataverse.pull('"Targets dv".account', '"Targets".own');
UPDATE "Targets dv".account SET name = '12345678901234567890!' WHERE accountid = pg_temp.id(21);
CALL dataverse.pull('"Targets dv".account', '"Targets".own');
UPDATE "Targets dv".account SET name = 'short' WHERE accountid = pg_temp.id(21);
CALL dataverse.pull('"Targets dv".account', '"Targets".own');

-- Row security: of the owner, who is not subject to it, and forced.
CREATE ROLE regress_targets;
GRANT USAGE ON FOREIGN SERVER targets TO regress_targets;
GRANT USAGE ON SCHEMA "Targets dv" TO regress_targets;
GRANT ALL ON SCHEMA "Targets" TO regress_targets;
GRANT SELECT ON "Targets dv".account TO regress_targets;
GRANT SELECT ON pg_temp.last_run TO regress_targets;
CREATE USER MAPPING FOR regress_targets SERVER targets OPTIONS (client_id 'app1', client_secret 'secret1');
SET ROLE regress_targets;
CALL dataverse.pull('"Targets dv".account', '"Targets".secured', columns => '{accountid, name, versionnumber}');
ALTER TABLE "Targets".secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY nobody ON "Targets".secured USING (false);
RESET ROLE;
UPDATE "Targets dv".account SET name = 'secured' WHERE accountid = pg_temp.id(22);
SET ROLE regress_targets;
CALL dataverse.pull('"Targets dv".account', '"Targets".secured', columns => '{accountid, name, versionnumber}');
SELECT * FROM pg_temp.last_run;
ALTER TABLE "Targets".secured FORCE ROW LEVEL SECURITY;
\set VERBOSITY default
CALL dataverse.pull('"Targets dv".account', '"Targets".secured', columns => '{accountid, name, versionnumber}');
\set VERBOSITY terse
RESET ROLE;

SELECT bool_and(dataverse.forget_copy(target)) FROM dataverse.sync_state;
DROP SCHEMA "Targets dv", "Targets", "Elsewhere" CASCADE;
DROP SERVER targets CASCADE;
DROP OWNED BY regress_targets;
DROP ROLE regress_targets;
