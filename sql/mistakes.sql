--
-- Messages for newcomers: what happened, to which object, and what to do.
--
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET client_min_messages = warning;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

-- all messages, without parts that differ from run to run
CREATE FUNCTION pg_temp.say(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  state text;
  message text;
  detail text;
  hint text;
BEGIN
  EXECUTE statement;
  RETURN NEXT 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  message := regexp_replace(message, ' Trace ID: .*', '');
  message := regexp_replace(message, 'after \d+ ms', 'after some ms');
  detail := regexp_replace(detail, '[0-9a-f]{8}-[-0-9a-f]{27}', 'id', 'g');
  RETURN NEXT state || ': ' || message;
  RETURN QUERY SELECT 'DETAIL: ' || detail WHERE detail <> '';
  RETURN QUERY SELECT 'HINT: ' || hint WHERE hint <> '';
END $$;
\t on
\pset format unaligned

-- ---- options under the names used elsewhere
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (host 'contoso.crm.dynamics.com')$$);
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'contoso.crm.dynamics.com')$$);
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', tenant 'x')$$);
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', fetch_size '100')$$);
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', client_id 'x')$$);
SELECT pg_temp.say($$CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', password 'x')$$);
CREATE SERVER mistakes FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url :'dvsim_url', token_url :'token_url', max_retries '0');
SELECT pg_temp.say($$CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (user 'app1', password 'x')$$);
SELECT pg_temp.say($$CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', password 'x')$$);
SELECT pg_temp.say($$CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'x', client_id_2 'app2')$$);
SELECT pg_temp.say($$CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'x', client_id2 'app2')$$);
SET client_min_messages = notice;
BEGIN;
CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'x', client_id_3 'APP1', client_secret_3 'x');
ROLLBACK;
SET client_min_messages = warning;
SELECT pg_temp.say($$CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'x', client_key_2 '/a.pem', client_id_2 'app2', client_secret_2 'y')$$);
CREATE SCHEMA mistakes_dv;
SELECT pg_temp.say($$CREATE FOREIGN TABLE mistakes_dv.t (id uuid) SERVER mistakes OPTIONS (table_name 'account')$$);
SELECT pg_temp.say($$CREATE FOREIGN TABLE mistakes_dv.t (id uuid OPTIONS (column_name 'accountid')) SERVER mistakes$$);

-- ---- credentials
CREATE ROLE regress_mistakes;
GRANT USAGE ON FOREIGN SERVER mistakes TO regress_mistakes;
GRANT USAGE ON SCHEMA mistakes_dv TO regress_mistakes;
SET ROLE regress_mistakes;
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes;
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'wrong');
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
SELECT error ~ '^could not get a token for application user "app1"', hint FROM dataverse.test_connection('mistakes');
ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (SET client_id 'app9');
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
-- options of further users are named in full
ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (DROP client_id, DROP client_secret, ADD client_id_3 'app1', ADD client_secret_3 'wrong');
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (SET client_id_3 'app9');
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (DROP client_id_3, DROP client_secret_3, ADD access_token_64 'stale');
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD password_2 'x')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD clientsecret_2 'x')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD host_2 'x')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD access_token_2 'a b')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD client_certificate_2 '/x.pem')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD client_secret_2 'x')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD managed_identity_2 'perhaps')$$);
SELECT pg_temp.say($$ALTER USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (ADD access_token_2 'x', ADD client_id_2 'y', ADD client_secret_2 'z')$$);
RESET ROLE;
CREATE USER MAPPING FOR CURRENT_USER SERVER mistakes OPTIONS (client_id 'app1', client_secret 'secret1');

-- ---- tables
SELECT pg_temp.say($$IMPORT FOREIGN SCHEMA crm FROM SERVER mistakes INTO mistakes_dv$$);
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (accounts, customers_of_mine, "Contact") FROM SERVER mistakes INTO mistakes_dv;
SET client_min_messages = notice;
SELECT * FROM dataverse.import_diff('mistakes_dv');
SET client_min_messages = warning;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER mistakes INTO mistakes_dv;
-- existing tables are reported before further requests to the service
SELECT pg_temp.say($$IMPORT FOREIGN SCHEMA dataverse LIMIT TO (task, contact) FROM SERVER mistakes INTO mistakes_dv$$);
SELECT pg_temp.say($$IMPORT FOREIGN SCHEMA dataverse FROM SERVER mistakes INTO mistakes_dv$$);
CREATE FOREIGN TABLE mistakes_dv.bare (accountid uuid, name text) SERVER mistakes;
SELECT pg_temp.say($$SELECT * FROM mistakes_dv.bare$$);
ALTER FOREIGN TABLE mistakes_dv.bare OPTIONS (ADD "table" 'account', ADD entity_set 'account');
SELECT pg_temp.say($$SELECT * FROM mistakes_dv.bare$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.bare (name) VALUES ('x')$$);
ALTER FOREIGN TABLE mistakes_dv.bare OPTIONS (SET entity_set 'accounts');
ALTER FOREIGN TABLE mistakes_dv.bare ADD COLUMN nam text, ADD COLUMN numberofemployees boolean, ADD COLUMN "my column" text;
SELECT pg_temp.say($$SELECT nam FROM mistakes_dv.bare$$);
SELECT pg_temp.say($$SELECT "my column" FROM mistakes_dv.bare$$);
ALTER FOREIGN TABLE mistakes_dv.bare DROP COLUMN "my column";
SELECT pg_temp.say($$SELECT nam FROM mistakes_dv.bare$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.bare (nam) VALUES ('x')$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.bare (numberofemployees) VALUES (true)$$);
INSERT INTO mistakes_dv.account (accountid, name, numberofemployees) VALUES ('00000000-0000-0000-0000-0000000000a1', 'one', 3);
UPDATE mistakes_dv.account SET lastusedincampaign = '2020-01-01 12:00+00';
SELECT pg_temp.say($$SELECT numberofemployees FROM mistakes_dv.bare$$);
ALTER FOREIGN TABLE mistakes_dv.bare ADD COLUMN lastusedincampaign date;
SELECT pg_temp.say($$SELECT lastusedincampaign FROM mistakes_dv.bare$$);
SELECT pg_temp.say($$SELECT dataverse.import_diff(NULL)$$);

-- ---- writing
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (createdon) VALUES (now())$$);
SELECT pg_temp.say($$UPDATE mistakes_dv.account SET accountid = gen_random_uuid()$$);
-- values that Dataverse ignores when it creates a row; it stores null instead
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name, lastusedincampaign) VALUES ('x', '2020-01-01')$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name, lastusedincampaign) SELECT 'x', NULL::date FROM generate_series(1, 2) RETURNING name$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name, lastusedincampaign) VALUES ('nothing', NULL)$$);
COPY mistakes_dv.account (name, lastusedincampaign) FROM STDIN;
nothing	\N
x	2020-01-01
\.
COPY mistakes_dv.account (name, lastusedincampaign) FROM STDIN;
nothing	\N
\.
CREATE FUNCTION pg_temp.set_it() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.lastusedincampaign := '2020-01-01'; RETURN NEW; END$$;
CREATE TRIGGER set_it BEFORE INSERT ON mistakes_dv.account FOR EACH ROW EXECUTE FUNCTION pg_temp.set_it();
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x')$$);
DROP TRIGGER set_it ON mistakes_dv.account;
SET dataverse_fdw.insert_mode = 'upsert';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (accountid, lastusedincampaign) VALUES ('00000000-0000-0000-0000-0000000000a1', '2020-01-02')$$);
RESET dataverse_fdw.insert_mode;
SELECT name, lastusedincampaign FROM mistakes_dv.account ORDER BY name;
DELETE FROM mistakes_dv.account WHERE name = 'nothing';
-- values that it ignores when it updates a row; it may accept them nevertheless
SELECT pg_temp.say($$UPDATE mistakes_dv.account SET overriddencreatedon = '2020-01-01'$$);
SELECT pg_temp.say($$UPDATE mistakes_dv.account SET name = 'one', importsequencenumber = NULL$$);
CREATE OR REPLACE FUNCTION pg_temp.set_it() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.importsequencenumber := 7; RETURN NEW; END$$;
CREATE TRIGGER set_it BEFORE UPDATE ON mistakes_dv.account FOR EACH ROW EXECUTE FUNCTION pg_temp.set_it();
SELECT pg_temp.say($$UPDATE mistakes_dv.account SET description = 'x' WHERE name = 'one'$$);
DROP TRIGGER set_it ON mistakes_dv.account;
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name, importsequencenumber) VALUES ('imported 1', 1)$$);
COPY mistakes_dv.account (name, importsequencenumber) FROM STDIN;
imported 2	2
\.
SET dataverse_fdw.insert_mode = 'upsert';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (accountid, name, importsequencenumber) VALUES (gen_random_uuid(), 'imported 3', 3)$$);
RESET dataverse_fdw.insert_mode;
ALTER FOREIGN TABLE mistakes_dv.account ALTER COLUMN importsequencenumber OPTIONS (SET create_only 'false');
SELECT pg_temp.say($$UPDATE mistakes_dv.account SET importsequencenumber = 7 WHERE name = 'one'$$);
SELECT statement FROM dataverse.import_diff('mistakes_dv') WHERE statement LIKE '%create\_only%';
ALTER FOREIGN TABLE mistakes_dv.account ALTER COLUMN importsequencenumber OPTIONS (SET create_only 'true');
SELECT name, description, importsequencenumber FROM mistakes_dv.account WHERE name = 'one' OR name LIKE 'imported%' ORDER BY name;
DELETE FROM mistakes_dv.account WHERE name LIKE 'imported%';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (accountid) VALUES ('00000000-0000-0000-0000-000000000000')$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.contact (lastname, parentcustomerid) VALUES ('x', '00000000-0000-0000-0000-0000000000a1')$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.contact (lastname, parentcustomerid, parentcustomeridtype) VALUES ('x', '00000000-0000-0000-0000-0000000000a1', 'accounts')$$);
SELECT pg_temp.say($$TRUNCATE mistakes_dv.account$$);
SET dataverse_fdw.insert_mode = 'upsert';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x')$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x') ON CONFLICT DO NOTHING$$);
SET dataverse_fdw.upsert_key = 'nam';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x')$$);
SELECT pg_temp.say($$SET dataverse_fdw.upsert_key = 'a b'$$);
SELECT pg_temp.say($$SET dataverse_fdw.upsert_key = 'a,,b'$$);
SELECT pg_temp.say($$ALTER FOREIGN TABLE mistakes_dv.account OPTIONS (ADD upsert_key 'a,,b')$$);
SELECT pg_temp.say($$ALTER FOREIGN TABLE mistakes_dv.account OPTIONS (ADD upsert_key 'a,""')$$);
SELECT pg_temp.say($$ALTER FOREIGN TABLE mistakes_dv.account OPTIONS (ADD upsert_key 'name, Name')$$);
SET dataverse_fdw.upsert_key = 'name';
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x')$$);
RESET dataverse_fdw.insert_mode;
RESET dataverse_fdw.upsert_key;

-- ---- answers from another source, and a service that does not answer
\! curl -s -d '{"path":"/accounts","times":0,"status":200,"body":"<html>Sign in</html>"}' "$DVSIM_URL/_dvsim/faults" >/dev/null
SELECT pg_temp.say($$SELECT name FROM mistakes_dv.account$$);
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null; curl -s -d '{"path":"WhoAmI","times":0,"status":200,"body":"<html>Sign in</html>"}' "$DVSIM_URL/_dvsim/faults" >/dev/null
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null; curl -s -d '{"path":"WhoAmI","times":0,"status":404,"body":"<html>Not here</html>"}' "$DVSIM_URL/_dvsim/faults" >/dev/null
SELECT pg_temp.say($$SELECT dataverse.whoami('mistakes')$$);
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null; curl -s -d '{"path":"/accounts","times":0,"action":"stall"}' "$DVSIM_URL/_dvsim/faults" >/dev/null
ALTER SERVER mistakes OPTIONS (ADD request_timeout '0.3');
SELECT pg_temp.say($$SELECT name FROM mistakes_dv.account$$);
SELECT pg_temp.say($$INSERT INTO mistakes_dv.account (name) VALUES ('x')$$);
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null
ALTER SERVER mistakes OPTIONS (DROP request_timeout);

-- ---- functions
SELECT pg_temp.say($$SELECT dataverse.request('mistakes', 'GET', 'nix')$$);
SELECT pg_temp.say($$SELECT dataverse.request('mistakes', 'FETCH', 'WhoAmI')$$);
SELECT pg_temp.say($$SELECT dataverse.fetchxml('mistakes', '<fetch><entity name="accounts"/></fetch>')$$);
SELECT pg_temp.say($$SELECT dataverse.fetchxml('mistakes', '<fetch><entity name="account"><attribute name="nam"/></entity></fetch>')$$);

-- ---- pushing, and its state
\set VERBOSITY default
\set SHOW_CONTEXT never
CALL dataverse.push(NULL, 'mistakes_dv.account');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', chunk => 0);
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', max_errors => -1);
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', key => '{}');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', key => '{name,name}');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', key => '{name,""}');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', wait => NULL);
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', key => '{name}', operation => 'insert');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', operation => '');
-- refused before the query runs, as its effects would show
CREATE FUNCTION mistakes_dv.run() RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'the query runs'; RETURN 'x'; END$$;
CALL dataverse.push('SELECT mistakes_dv.run() AS name', 'mistakes_dv.account', key => '{accountnumber}');
CALL dataverse.push('SELECT mistakes_dv.run() AS name', 'mistakes_dv.account', key => '{name}');
CALL dataverse.push('SELECT mistakes_dv.run() AS name, current_date AS lastusedincampaign', 'mistakes_dv.account');
CALL dataverse.push('SELECT mistakes_dv.run() AS accountid, current_date AS lastusedincampaign', 'mistakes_dv.account', operation => 'upsert');
CALL dataverse.push('SELECT mistakes_dv.run() AS accountid, 7 AS importsequencenumber', 'mistakes_dv.account', operation => 'update');
SELECT count(*) FROM dataverse.pushes;
CALL dataverse.push('SELECT 1', 'mistakes_dv.account');
CALL dataverse.push('INSERT INTO t VALUES (1)', 'mistakes_dv.account');
CALL dataverse.push('SELECT 1 AS name', 'pg_class');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account', key => '{nam}');
BEGIN;
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account');
ROLLBACK;
CALL dataverse.track('mistakes_dv.account');

-- ---- missing privileges in PostgreSQL
CREATE SCHEMA mistakes_closed;
SET ROLE regress_mistakes;
SET search_path = mistakes_closed;
CALL dataverse.pull('mistakes_dv.account', 'mistakes_closed.account');
CALL dataverse.pull('mistakes_dv.account', 'mistakes_dv.copy');
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account');
RESET ROLE;
GRANT INSERT ON mistakes_dv.account TO regress_mistakes;
SET ROLE regress_mistakes;
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account');
RESET ROLE;
GRANT CREATE ON SCHEMA mistakes_dv TO regress_mistakes;
SET ROLE regress_mistakes;
SET search_path = mistakes_dv;
CALL dataverse.push('SELECT 1 AS name', 'mistakes_dv.account');
RESET ROLE;
RESET search_path;
DROP SCHEMA mistakes_closed;

-- ---- the remedy for a missing column, without the many columns that the foreign table lacks
SELECT dataverse_private.pull_cure('mistakes_dv.bare', 'public.bare', 'HV005', '{SELECT}');
-- unless they may be renamed columns
ALTER FOREIGN TABLE mistakes_dv.contact DROP COLUMN lastname, ADD COLUMN familyname text;
SELECT dataverse_private.pull_cure('mistakes_dv.contact', 'public.contact', 'HV005', '{SELECT}');

-- ---- invalid answers of a token endpoint
\! curl -s -d '{"path":"oauth2","status":200,"body":"<html>Sign in</html>"}' "$DVSIM_URL/_dvsim/faults" >/dev/null
\c -
SELECT dataverse.whoami('mistakes');
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null

SET client_min_messages = warning;
DROP SCHEMA mistakes_dv CASCADE;
DROP USER MAPPING FOR regress_mistakes SERVER mistakes;
DROP SERVER mistakes CASCADE;
DROP ROLE regress_mistakes;
