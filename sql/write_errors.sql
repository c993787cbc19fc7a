-- Rows that the service refuses: the error, the written rows, on_error = continue.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER write_errors_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER write_errors_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  accountid uuid,
  name text,
  revenue numeric(19,2) OPTIONS (type 'money'),
  employees integer OPTIONS ("column" 'numberofemployees'),
  industrycode integer OPTIONS (type 'choice'),
  industry text OPTIONS (label_of 'industrycode'),
  ownerid uuid OPTIONS (type 'owner'),
  ownertype text OPTIONS (ref_type_of 'ownerid'),
  statecode integer OPTIONS (type 'state'),
  statuscode integer OPTIONS (type 'status'),
  createdon timestamptz OPTIONS (readonly 'true')
) SERVER write_errors_crm OPTIONS (entity_set 'accounts', batch_size '10');
ALTER SERVER write_errors_crm OPTIONS (ADD max_parallel '1');
CREATE SCHEMA dv_write_errors;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER write_errors_crm INTO dv_write_errors;
SET search_path = dv_write_errors, public;

-- the fields of the error
CREATE FUNCTION write_errors_try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; s text; n text; t text; c text; k text; d text; h text;
BEGIN
  EXECUTE sql;
  RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, s = RETURNED_SQLSTATE, n = SCHEMA_NAME, t = TABLE_NAME,
    c = COLUMN_NAME, k = CONSTRAINT_NAME, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
  RETURN concat_ws(E'\n', s, regexp_replace(m, 'with Id [-0-9a-f]{36}', 'with Id'), 'table ' || n || '.' || t, 'column ' || nullif(c, ''), 'constraint ' || nullif(k, ''),
    regexp_replace(regexp_replace(d, '(request id|with Id) [-0-9a-f]+', '\1', 'g'), '\([-0-9a-f]{36}\)', '(id)', 'g'), nullif(h, ''));
END $$;
SET client_min_messages = error;
\t on
SELECT write_errors_try($$INSERT INTO account (name) VALUES (repeat('x', 161))$$);
SELECT write_errors_try($$INSERT INTO account (name) SELECT repeat('x', 150 + i) FROM generate_series(1, 15) i$$);
SELECT write_errors_try($$INSERT INTO new_meter (new_serial) VALUES ('S'), ('S')$$);
SELECT write_errors_try($$INSERT INTO new_meter (new_name, new_accountid) VALUES ('x', '00000000-0000-0000-0000-00000000000a')$$);
SELECT write_errors_try($$INSERT INTO account (revenue) VALUES (1), ('NaN')$$);
SELECT write_errors_try($$INSERT INTO account (name) VALUES ('own'); UPDATE account SET ownerid = NULL WHERE name = 'own'$$);
SELECT write_errors_try($$INSERT INTO account (accountid, name, statecode, statuscode) VALUES ('00000000-0000-0000-0000-0000000000aa', 'x', 1, 77)$$);
SELECT write_errors_try($$INSERT INTO account (industrycode) VALUES (-5)$$);
\t off
RESET client_min_messages;
DELETE FROM account;

-- rows written before are kept
\set VERBOSITY terse
-- psql prints ERROR and WARNING in either order: t/write/write_cancel.pl has the WARNING
SET client_min_messages = error;
INSERT INTO account (name) SELECT repeat('x', 140 + i) FROM generate_series(1, 40) i;
RESET client_min_messages;
\set VERBOSITY default
SELECT count(*) FROM account;
DELETE FROM account;

-- on_error = continue
SET dataverse_fdw.on_error = 'continue';
INSERT INTO account (name) SELECT repeat('x', 140 + i) FROM generate_series(1, 40) i;
SELECT count(*) FROM account;
INSERT INTO account (name) SELECT repeat('x', 150 + i) FROM generate_series(1, 20) i RETURNING length(name);
INSERT INTO account (revenue) VALUES (1), ('NaN'), (3);
DO $$
DECLARE n int;
BEGIN
  INSERT INTO account (name) SELECT repeat('x', 150 + i) FROM generate_series(1, 20) i;
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
  UPDATE account SET name = name || 'xxxxx';
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
END $$;
SELECT pg_temp.explain('ANALYZE', $$INSERT INTO account (name) SELECT repeat('x', 150 + i) FROM generate_series(1, 20) i$$);
COPY account (name) FROM PROGRAM 'for i in 1 2 3; do echo $i; done; printf "%0200d" 1';
-- not forever
ALTER FOREIGN TABLE account OPTIONS (ADD max_errors '2');
\set VERBOSITY terse
-- psql prints ERROR and WARNING in either order: t/write/write_cancel.pl has the WARNING
SET client_min_messages = error;
INSERT INTO account (name) SELECT repeat('x', 155 + i) FROM generate_series(1, 10) i;
RESET client_min_messages;
\set VERBOSITY default
INSERT INTO account (name) SELECT repeat('x', 155 + i) FROM generate_series(1, 7) i;
SET client_min_messages = error;
\t on
SELECT write_errors_try($$INSERT INTO account (name) SELECT repeat('x', 155 + i) FROM generate_series(1, 10) i$$);
ALTER FOREIGN TABLE account OPTIONS (SET max_errors '1');
SELECT write_errors_try($$INSERT INTO account (name, statecode, statuscode)
  SELECT 'limit ' || i, 1, CASE WHEN i < 2 THEN 2 ELSE 1 END FROM generate_series(1, 3) i$$);
ALTER FOREIGN TABLE account OPTIONS (SET max_errors '0');
SELECT write_errors_try($$INSERT INTO account (name) VALUES (repeat('x', 161))$$);
ALTER FOREIGN TABLE account OPTIONS (SET max_errors '2');
\t off
RESET client_min_messages;
-- rows whose state is refused have been created
INSERT INTO account (name, statecode, statuscode)
SELECT 'state ' || i, 1, CASE WHEN i = 2 THEN 1 ELSE 2 END FROM generate_series(1, 3) i;
INSERT INTO account (name, statecode, statuscode)
SELECT 'state ' || i, 1, CASE WHEN i > 3 THEN 1 ELSE 2 END FROM generate_series(1, 5) i;
SELECT count(*) FROM account WHERE name LIKE 'state %';
RESET dataverse_fdw.on_error;

-- PostgreSQL refuses an overlong text before the extension gets it, so the statement ends; a column without
-- a length leaves it to the service, which refuses the row
SET dataverse_fdw.on_error = 'continue';
INSERT INTO new_meter (new_name) SELECT repeat('x', 60 * i) FROM generate_series(1, 20) i;
CREATE SCHEMA dv_write_errors_text;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER write_errors_crm INTO dv_write_errors_text
  OPTIONS (import_text_lengths 'off');
INSERT INTO dv_write_errors_text.new_meter (new_name) SELECT repeat('x', 60 * i) FROM generate_series(1, 20) i;
SELECT sqlstate, length(row ->> 'new_name') > 100 AS long, count(*) > 0 AS some FROM dataverse.rejects
WHERE foreign_table = 'dv_write_errors_text.new_meter' GROUP BY 1, 2;
DELETE FROM dataverse.rejects WHERE foreign_table = 'dv_write_errors_text.new_meter';
RESET dataverse_fdw.on_error;

SET client_min_messages = warning;
DROP SCHEMA dv_write_errors_text CASCADE;
DROP SERVER write_errors_crm CASCADE;
DROP SCHEMA IF EXISTS dv_write_errors CASCADE;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
