--
-- Messages about invalid calls: what happened, to which object, and what to do.
--
\set SHOW_CONTEXT never
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET client_min_messages = warning;
SET statement_timeout = '60s';
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA mistakes_dv;
CREATE SCHEMA mistakes;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER mistakes INTO mistakes_dv;
INSERT INTO mistakes_dv.account (name) SELECT 'account ' || i FROM generate_series(1, 3) AS i;

-- ---- invalid or missing names of tables: no run, and no copy

CALL dataverse.pull(NULL, 'mistakes.account');
CALL dataverse.pull('mistakes_dv.account', NULL);
CALL dataverse.sync(NULL, 'mistakes.account');
CALL dataverse.sync('mistakes_dv.account', NULL);
CALL dataverse.track(NULL);
CALL dataverse.untrack(NULL);
SELECT dataverse.resolve('', 'local');
SELECT dataverse.forget_copy('a b');
CALL dataverse.pull('pg_class', 'mistakes.account');
CALL dataverse.sync('pg_class', 'mistakes.account');
CALL dataverse.pull('mistakes_dv.account', 'My Table');
CALL dataverse.pull('mistakes_dv.account', 'mistakes_nowhere.account');
CALL dataverse.pull('mistakes_dv.account', 'mistakes_dv.contact');
CALL dataverse.pull_all('mistakes_dv', NULL);
CALL dataverse.pull_all(NULL, 'mistakes');
CALL dataverse.pull_all('mistakes_dv', 'mistakes_nowhere');
CALL dataverse.pull_all('mistakes', 'mistakes');
SELECT count(*) FROM dataverse.sync_state WHERE target LIKE 'mistakes%';

-- ---- invalid values; no run either

CALL dataverse.pull('mistakes_dv.account', '');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', columns => '{}');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', deletes => '');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', drift => NULL);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', full => NULL);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', sweep => '-1 day');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', wait => NULL);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', on_error => 'skip');
CALL dataverse.pull_all('mistakes_dv', '');
CALL dataverse.pull_all('', 'mistakes');
CALL dataverse.pull_all('mistakes_dv', 'mistakes', sweep => '1 day -25 hours');
CALL dataverse.pull_all('mistakes_dv', 'mistakes', wait => NULL);
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', conflict => '');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', column_conflicts => '{"name": ""}');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', strict => NULL);
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', columns => '{}');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', sweep => '-1 s');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', wait => NULL);
SELECT count(*) FROM dataverse.sync_state WHERE target LIKE 'mistakes%';

-- ---- contexts without COMMIT

BEGIN;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account');
ROLLBACK;
SET work_mem = '4MB' \; CALL dataverse.sync('mistakes_dv.account', 'mistakes.account');
BEGIN;
CALL dataverse.pull_all('mistakes_dv', 'mistakes');
ROLLBACK;
CREATE FUNCTION pg_temp.pull() RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN CALL dataverse.pull('mistakes_dv.account', 'mistakes.account'); END $$;
SELECT pg_temp.pull();
DO $$ BEGIN CALL dataverse.sync('mistakes_dv.account', 'mistakes.account'); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
DO $$ BEGIN CALL dataverse.pull('mistakes_dv.contact', 'mistakes.contact'); END $$;
SELECT count(*) FROM mistakes.contact;

-- ---- columns

CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', columns => '{name,revenu}');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', columns => '{name,NULL}');
CREATE TABLE mistakes.account (accountid integer PRIMARY KEY, name text);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account');
ALTER TABLE mistakes.account ALTER COLUMN accountid TYPE text;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account');
ALTER TABLE mistakes.account ALTER COLUMN accountid TYPE uuid USING accountid::uuid;
CREATE FOREIGN TABLE mistakes_dv.by_hand (accountid text, name text) SERVER mistakes
  OPTIONS ("table" 'account', entity_set 'accounts', primary_id 'accountid');
CALL dataverse.pull('mistakes_dv.by_hand', 'mistakes.by_hand');
ALTER FOREIGN TABLE mistakes_dv.by_hand ALTER COLUMN accountid TYPE uuid;
CALL dataverse.pull('mistakes_dv.by_hand', 'mistakes.by_hand');
CALL dataverse.sync('mistakes_dv.by_hand', 'mistakes.by_hand');
ALTER FOREIGN TABLE mistakes_dv.by_hand ADD COLUMN versionnumber bigint OPTIONS (readonly 'true');
CALL dataverse.sync('mistakes_dv.by_hand', 'mistakes.by_hand');
DROP TABLE mistakes.by_hand;
DROP FOREIGN TABLE mistakes_dv.by_hand;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account');
SELECT count(*) FROM mistakes.account;
CREATE TABLE mistakes.other (id uuid PRIMARY KEY, name text);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.other');
CREATE DOMAIN mistakes.document AS jsonb;
CREATE TABLE mistakes.typed (accountid uuid PRIMARY KEY, name mistakes.document, fax text, revenue real, "number Of" text, numberofemployees date);
CALL dataverse.pull('mistakes_dv.account', 'mistakes.typed');
ALTER TABLE mistakes.typed ALTER COLUMN name TYPE character varying(160) USING name::text::character varying(160), ALTER COLUMN numberofemployees TYPE integer USING numberofemployees::text::integer;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.typed', columns => '{name,fax,revenue,numberofemployees}');
SELECT dataverse.forget_copy('mistakes.typed');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account');
DROP TABLE mistakes.account, mistakes.other;
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account');
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', column_conflicts => '{"nme": "local"}');
CALL dataverse.pull('mistakes_dv.contact', 'mistakes.account');
SELECT target, status, phase, error FROM dataverse.runs WHERE target LIKE 'mistakes.%' AND status <> 'succeeded' ORDER BY id;

-- ---- a recreated row has values that nobody has changed

UPDATE mistakes.account SET fax = '3' WHERE name = 'account 3';
DELETE FROM mistakes_dv.account WHERE name = 'account 3';
CALL dataverse.sync('mistakes_dv.account', 'mistakes.account', conflict => 'local');
SELECT name, fax FROM mistakes_dv.account ORDER BY name;

-- ---- unsent changes are forgotten, but stay in the table

INSERT INTO mistakes.account (name) VALUES ('here');
CALL dataverse.untrack('mistakes.account');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account', full => true);
SELECT name FROM mistakes.account ORDER BY name;

-- ---- decisions

SELECT dataverse.resolve('mistakes.account', 'theirs');
SELECT dataverse.resolve('mistakes.acount', 'local');

-- ---- privileges

CREATE ROLE mistakes_copier;
CREATE ROLE mistakes_owner;
ALTER TABLE mistakes.account OWNER TO mistakes_owner;
GRANT USAGE ON SCHEMA mistakes, mistakes_dv TO mistakes_copier;
CREATE USER MAPPING FOR mistakes_copier SERVER mistakes OPTIONS (client_id 'app1', client_secret 'secret1');
SET ROLE mistakes_copier;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.account');
CALL dataverse.pull('mistakes_dv.account', 'mistakes.mine');
RESET ROLE;
GRANT USAGE, CREATE ON SCHEMA mistakes TO mistakes_copier;
SET ROLE mistakes_copier;
CALL dataverse.pull('mistakes_dv.account', 'mistakes.mine');
RESET ROLE;
GRANT SELECT ON mistakes_dv.account TO mistakes_copier;
GRANT USAGE ON FOREIGN SERVER mistakes TO mistakes_copier;
SET ROLE mistakes_copier;
CALL dataverse.sync('mistakes_dv.account', 'mistakes.mine');
UPDATE mistakes.mine SET name = 'mine' WHERE name = 'account 1';
CALL dataverse.sync('mistakes_dv.account', 'mistakes.mine');
RESET ROLE;
GRANT INSERT, UPDATE, DELETE ON mistakes_dv.account TO mistakes_copier;
SET ROLE mistakes_copier;
SET client_min_messages = error;
CALL dataverse.pull_all('mistakes_dv', 'mistakes');
SET client_min_messages = warning;
CALL dataverse.sync('mistakes_dv.account', 'mistakes.mine');
RESET ROLE;
SELECT name FROM mistakes_dv.account ORDER BY name;

SELECT count(*) FROM (SELECT dataverse.forget_copy(target) FROM dataverse.sync_state WHERE target LIKE 'mistakes.%') AS f;
DROP SCHEMA mistakes CASCADE;
DROP SERVER mistakes CASCADE;
DROP SCHEMA mistakes_dv;
DROP OWNED BY mistakes_copier;
DROP ROLE mistakes_copier, mistakes_owner;
