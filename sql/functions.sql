--
-- Functions that talk to Dataverse.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET client_min_messages = warning;

CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', max_retries '0', max_throttle_retries '1',
           retry_after_buffer '0', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');

-- ids and times differ
SELECT application_user, user_id IS NOT NULL AS user_id, business_unit_id IS NOT NULL AS unit,
       organization_id IS NOT NULL AS organization
FROM dataverse.whoami('crm');
SELECT application_user, ok, user_id IS NOT NULL AS user_id,
       token_lifetime BETWEEN '1s' AND '2h' AS token_lifetime, round_trip < '10s' AS round_trip,
       dop_hint, abs(extract(epoch FROM clock_skew)) < 5 AS clock_skew, error, hint
FROM dataverse.test_connection('crm');

-- privileges: USAGE on the server, and a user mapping
CREATE ROLE regress_dataverse;
SET ROLE regress_dataverse;
SELECT dataverse.whoami('crm');
SELECT * FROM dataverse.test_connection('crm');
SELECT dataverse.request('crm', 'GET', 'WhoAmI');
SELECT dataverse.fetchxml('crm', '<fetch><entity name="account"/></fetch>');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER crm TO regress_dataverse;
SET ROLE regress_dataverse;
-- its text is another from 17 on
\set VERBOSITY sqlstate
SELECT dataverse.whoami('crm');
\set VERBOSITY terse
RESET ROLE;
SELECT dataverse.whoami('nowhere');

-- request: create, read, change, delete
SELECT substring(dataverse.request('crm', 'POST', 'accounts', '{"name": "R & D", "accountnumber": "F-1"}')
                 ->> '@odata.id' FROM '\((.*)\)') AS id \gset
SELECT dataverse.request('crm', 'get', '/accounts(' || :'id' || ')?$select=name') ->> 'name' AS name;
SELECT dataverse.request('crm', 'PATCH', 'accounts(' || :'id' || ')', '{"name": "Développement"}') IS NOT NULL AS done;
SELECT dataverse.request('crm', 'GET', 'accounts?$select=name&$filter=accountnumber eq ''F-1''') -> 'value' -> 0 ->> 'name' AS name;
SELECT dataverse.request('crm', 'DELETE', 'accounts(' || :'id' || ')');
SELECT dataverse.request('crm', 'GET', 'accounts(00000000-0000-0000-0000-000000000001)');
SELECT dataverse.request('crm', 'GET', NULL);
SELECT dataverse.request('crm', 'TRACE', 'WhoAmI');
SELECT dataverse.request('crm', 'GET', E'Who\nAmI');
SELECT dataverse.request('crm', 'GET', 'https://elsewhere.example.com/WhoAmI');
SELECT dataverse.request('crm', 'GET', :'dvsim_url' || '/api/data/v9.2/WhoAmI') ? 'UserId' AS own_origin;
START TRANSACTION READ ONLY;
SELECT dataverse.request('crm', 'POST', 'accounts', '{"name": "no"}');
ROLLBACK;

-- FetchXML: pages of two
SELECT count(dataverse.request('crm', 'POST', 'accounts',
                               jsonb_build_object('name', 'Page ' || i, 'accountnumber', 'F-2')))
FROM generate_series(1, 5) i;
SELECT row ->> 'name' AS name FROM dataverse.fetchxml('crm', '
  <fetch count="2"><entity name="account"><attribute name="name"/><order attribute="name"/>
  <filter><condition attribute="accountnumber" operator="eq" value="F-2"/></filter></entity></fetch>') AS f (row);
SELECT count(*) FROM dataverse.fetchxml('crm', '
  <fetch top="3"><entity name="account"><filter><condition attribute="accountnumber" operator="eq" value="F-2"/></filter></entity></fetch>');
SELECT row ->> 'name' AS name FROM dataverse.fetchxml('crm', '
  <fetch count="2" page="3"><entity name="account"><attribute name="name"/><order attribute="name"/>
  <filter><condition attribute="accountnumber" operator="eq" value="F-2"/></filter></entity></fetch>') AS f (row);
SELECT dataverse.fetchxml('crm', '
  <fetch aggregate="true"><entity name="account"><attribute name="accountid" alias="n" aggregate="count"/>
  <filter><condition attribute="accountnumber" operator="eq" value="F-2"/></filter></entity></fetch>') ->> 'n' AS n;
SELECT count(*) FROM dataverse.fetchxml('crm', '<fetch><entity name="account"><filter><condition attribute="name" operator="eq" value="none"/></filter></entity></fetch>');
SELECT dataverse.fetchxml('crm', 'SELECT 1');
SELECT dataverse.fetchxml('crm', '<fetch count="0"><entity name="account"/></fetch>');
SELECT dataverse.fetchxml('crm', '<fetch><entity name="nonesuch"/></fetch>');
SELECT dataverse.fetchxml('crm', '<fetch><entity name="account"><attribute name="nonesuch"/></entity></fetch>');
SELECT count(coalesce(dataverse.request('crm', 'DELETE', 'accounts(' || (row ->> 'accountid') || ')'), '0'))
FROM dataverse.fetchxml('crm', '<fetch><entity name="account"><filter><condition attribute="accountnumber" operator="eq" value="F-2"/></filter></entity></fetch>') AS f (row);

-- row_count: only for the table in Dataverse, with the caller's privileges on the foreign table
CREATE SCHEMA "of functions";
CREATE FOREIGN TABLE "of functions"."Meter's" (id uuid OPTIONS ("column" 'new_meterid'), n text OPTIONS ("column" 'new_name'))
SERVER crm OPTIONS ("table" 'new_meter', entity_set 'new_meters');
CREATE TABLE "of functions".child () INHERITS ("of functions"."Meter's");
INSERT INTO "of functions".child (n) VALUES ('here');
SELECT count(*) AS before FROM ONLY "of functions"."Meter's" \gset
SELECT count(dataverse.request('crm', 'POST', 'new_meters', jsonb_build_object('new_name', 'Meter ' || i, 'new_serial', 'F-4-' || i)))
FROM generate_series(1, 7) i;
SELECT dataverse.row_count('"of functions"."Meter''s"') - :before AS new, dataverse.row_count(NULL) AS nothing;
SELECT dataverse.row_count('"of functions".child');
SELECT dataverse.row_count('pg_class');
SELECT dataverse.row_count(1);
GRANT USAGE ON SCHEMA "of functions" TO regress_dataverse;
SET ROLE regress_dataverse;
SELECT dataverse.row_count('"of functions"."Meter''s"');
RESET ROLE;
DELETE FROM "of functions"."Meter's" WHERE n LIKE 'Meter _';
SELECT dataverse.row_count('"of functions"."Meter''s"') - :before AS new;
DROP TABLE "of functions".child;

-- choices: values and labels, with the caller's privileges on the column
CREATE FOREIGN TABLE "of functions".kinds (id uuid OPTIONS ("column" 'new_alltypesid'), kind int OPTIONS ("column" 'new_choice'),
  kinds int[] OPTIONS ("column" 'new_choices'), state int OPTIONS ("column" 'statecode'), status int OPTIONS ("column" 'statuscode'),
  yes boolean OPTIONS ("column" 'new_boolean'), name text OPTIONS ("column" 'new_name'), gone int OPTIONS ("column" 'new_gone', type 'choice'))
SERVER crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses');
SELECT c.name, v.* FROM (VALUES ('kind'), ('kinds'), ('state'), ('status'), ('yes')) AS c (name), dataverse.choices('"of functions".kinds', c.name) AS v;
\set VERBOSITY default
SELECT * FROM dataverse.choices('"of functions".kinds', 'name');
SELECT * FROM dataverse.choices('"of functions".kinds', 'gone');
\set VERBOSITY terse
SELECT * FROM dataverse.choices('"of functions".kinds', 'nonesuch');
SELECT * FROM dataverse.choices('"of functions".kinds', 'ctid');
SELECT * FROM dataverse.choices('pg_class', 'relname');
SELECT * FROM dataverse.choices('"of functions".kinds', NULL);
-- the same labels as in the comments of an import
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO "of functions";
SELECT position(string_agg(value || ' = ' || label, ', ' ORDER BY n) IN col_description('"of functions".account'::regclass, (
  SELECT attnum FROM pg_attribute WHERE attrelid = '"of functions".account'::regclass AND attname = 'industrycode'))) > 0 AS same
FROM dataverse.choices('"of functions".account', 'industrycode') WITH ORDINALITY AS c (value, label, n);
DROP FOREIGN TABLE "of functions".account;
GRANT SELECT (kind) ON "of functions".kinds TO regress_dataverse;
REVOKE USAGE ON FOREIGN SERVER crm FROM regress_dataverse;
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
SET ROLE regress_dataverse;
SELECT count(*) FROM dataverse.choices('"of functions".kinds', 'kind');
SELECT count(*) FROM dataverse.choices('"of functions".kinds', 'state');
RESET ROLE;
DROP USER MAPPING FOR regress_dataverse SERVER crm;
GRANT USAGE ON FOREIGN SERVER crm TO regress_dataverse;
-- if the service does not accept RetrieveMetadataChanges, the plain way
\! curl -s -X POST "$DVSIM_URL/_dvsim/quirks" -d '["no-metadata-changes"]' >/dev/null
SELECT * FROM dataverse.choices('"of functions".kinds', 'kinds');
\! curl -s -X POST "$DVSIM_URL/_dvsim/quirks" -d '[]' >/dev/null
DROP FOREIGN TABLE "of functions".kinds;

-- Errors of the service, and the resulting SQL errors: each fault answers one WhoAmI.
CREATE FUNCTION pg_temp.error_of(id int, OUT state text, OUT message text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM dataverse.whoami('crm');
  message := 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
END $$;
CREATE TEMP TABLE fault (id int GENERATED ALWAYS AS IDENTITY, rule jsonb);
INSERT INTO fault (rule)
SELECT jsonb_build_object('status', status, 'code', code, 'message', message)
FROM (VALUES
  (400, '0x80040203', 'a'), (400, '0x80044331', 'a'), (400, '0x8004431A', 'a'),
  (400, '0x80040239', 'a'), (400, '0x80044330', 'a'), (400, '0x80048d19', 'a'),
  (400, '0x80040265', 'a'), (400, '0x0', 'a'), (400, '0x8004430C', 'a'),
  (400, '0x8004E023', 'a'), (400, '', 'a'), (400, '0x8000ffff', 'a'),
  (403, '0x80072560', 'a'), (403, '0x80040225', 'a'), (403, '0x80040220', 'a'), (403, '', 'a'),
  (404, '0x80040217', 'a'), (404, '0x8006088a', 'a'), (404, '', 'a'),
  (405, '0x80040227', 'a'), (412, '0x80040237', 'a'), (412, '0x80060892', 'a'),
  (412, '0x80060882', 'a'), (412, '', 'a'), (413, '', 'a'), (501, '', 'a'),
  (500, '', 'a'), (502, '', 'a'), (503, '', 'a'), (504, '', 'a'), (408, '', 'a'),
  (400, '0x80044151', 'SQL timeout expired.'),
  (400, '0x80044150', 'Generic SQL error. Sql Number: 1205'),
  (400, '0x80044150', 'Generic SQL error. Sql Number: 208'),
  (400, '0x80044150', 'Generic SQL error. Sql Number: 547')) AS t (status, code, message);
-- other shapes, and no answer at all
INSERT INTO fault (rule) VALUES
  ('{"status": 400, "body": "{\"Message\":\"from the host\",\"ErrorCode\":\"0x80040203\"}"}'),
  ('{"status": 412, "body": "{\"error\":{\"code\":\"0x80040237\",\"message\":\"twice\",\"@Microsoft.PowerApps.CDS.ErrorDetails.ApiExceptionMessageName\":\"DuplicateRecord\"}}"}'),
  ('{"status": 502, "body": "<html>Bad gateway</html>"}'),
  ('{"status": 400, "body": ""}'),
  ('{"status": 400, "body": "{\"error\":"}'),
  ('{"action": "truncate", "bytes": 20}');
SELECT jsonb_agg('{"action": "status", "path": "WhoAmI"}' || rule ORDER BY id) AS faults FROM fault \gset
\setenv FAULTS :faults
\set told `curl -s -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS" | grep -c '"id":1,'`
\echo :told
SELECT rule ->> 'status' AS status, coalesce(rule ->> 'code', rule ->> 'action', rule ->> 'body') AS code, e.state,
       regexp_replace(e.message, '^could not identify the application user on server "crm": ([^:]*).*', '\1') AS message, e.hint
FROM fault, LATERAL pg_temp.error_of(id) e
ORDER BY id;

-- every detail; endless throttles are retried once, as max_throttle_retries says
CREATE FUNCTION pg_temp.detail_of(OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM dataverse.whoami('crm');
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  detail := regexp_replace(detail, 'request id [0-9a-f-]{36}', 'request id …');
END $$;
\setenv FAULTS '[{"action":"status","path":"WhoAmI","status":412,"body":"{\\"error\\":{\\"code\\":\\"0x80040237\\",\\"message\\":\\"twice\\",\\"@Microsoft.PowerApps.CDS.ErrorDetails.ApiExceptionMessageName\\":\\"DuplicateRecord\\"}}"},{"action":"status","path":"WhoAmI","status":429,"code":"0x80072321","message":"Combined execution time exceeded","retry_after":0,"times":2},{"action":"status","path":"WhoAmI","status":503,"code":"0x8004A001","message":"The server is busy","retry_after":0,"times":2}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
\x on
SELECT * FROM pg_temp.detail_of();
SELECT * FROM pg_temp.detail_of();
SELECT * FROM pg_temp.detail_of();
\x off
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`
-- a write whose outcome is unknown is not retried
\setenv FAULTS '[{"action":"reset_after_commit","path":"accounts","method":"POST","times":5}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
DO $$
BEGIN
  PERFORM dataverse.request('crm', 'POST', 'accounts', '{"accountnumber": "F-3"}');
EXCEPTION WHEN connection_failure THEN
  RAISE WARNING '%', regexp_replace(SQLERRM, 'the answer: .*', 'the answer');
END $$;
\set told `curl -s -o /dev/null -X DELETE "$DVSIM_URL/_dvsim/faults"`
SELECT count(coalesce(dataverse.request('crm', 'DELETE', 'accounts(' || (row ->> 'accountid') || ')'), '0'))
FROM dataverse.fetchxml('crm', '<fetch><entity name="account"><filter><condition attribute="accountnumber" operator="eq" value="F-3"/></filter></entity></fetch>') AS f (row);
-- what an error reveals about a wrong secret
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_secret 'hush hush');
SELECT application_user, ok, regexp_replace(error, 'Trace ID.*', '…') AS error, hint
FROM dataverse.test_connection('crm');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_id 'nobody', SET client_secret 'secret1');
SELECT ok, regexp_replace(error, 'Trace ID.*', '…') AS error, hint FROM dataverse.test_connection('crm');
ALTER SERVER crm OPTIONS (SET url 'http://127.0.0.1:1');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (DROP client_id, DROP client_secret, ADD access_token 'hush-hush');
SELECT ok, regexp_replace(error, 'after [0-9]+ ms.*', '…') AS error, hint FROM dataverse.test_connection('crm');

-- a name that needs no resolver
SELECT format('https://%s.invalid', repeat('x', 64)) AS nowhere \gset
ALTER SERVER crm OPTIONS (SET url :'nowhere', SET max_retries '0');
SELECT error, hint FROM dataverse.test_connection('crm');

-- without a user mapping
DROP USER MAPPING FOR CURRENT_USER SERVER crm;
DO $$
DECLARE hint text;
BEGIN
  PERFORM dataverse.whoami('crm');
EXCEPTION WHEN undefined_object THEN
  GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
  RAISE WARNING '% --- %', replace(SQLERRM, CURRENT_USER, 'me'), replace(hint, CURRENT_USER, 'me');
END $$;

DROP SERVER crm CASCADE;
DROP SCHEMA "of functions";
DROP ROLE regress_dataverse;
