-- Writes that others depend on: CTEs, functions, and triggers within one statement.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER interplay_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER interplay_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE FOREIGN TABLE account (
  accountid uuid,
  name text,
  employees integer OPTIONS ("column" 'numberofemployees'),
  description text,
  createdon timestamptz OPTIONS (readonly 'true')
) SERVER interplay_crm OPTIONS (entity_set 'accounts', batch_size '10');
CREATE FOREIGN TABLE meter (
  meterid uuid OPTIONS ("column" 'new_meterid'),
  name text OPTIONS ("column" 'new_name'),
  accountid uuid OPTIONS ("column" 'new_accountid', type 'lookup', target 'account', target_set 'accounts', navigation 'new_AccountId'),
  parentid uuid OPTIONS ("column" 'new_parentid', type 'lookup', target 'new_meter', target_set 'new_meters', navigation 'new_ParentId')
) SERVER interplay_crm OPTIONS (table 'new_meter', entity_set 'new_meters', batch_size '1');

-- rows written by WITH exist before those that refer to them
WITH a AS (INSERT INTO account (name) SELECT 'a' || i FROM generate_series(1, 25) i RETURNING accountid, name)
INSERT INTO meter (name, accountid) SELECT name, accountid FROM a;
WITH a AS (INSERT INTO account (name) SELECT 'b' || i FROM generate_series(1, 25) i RETURNING accountid, name),
  p AS (INSERT INTO meter (name, accountid) SELECT name, accountid FROM a RETURNING meterid, name)
INSERT INTO meter (name, parentid) SELECT name, meterid FROM p;
SELECT count(*), count(accountid), count(parentid) FROM meter;
-- batches of the former are full nevertheless
SELECT pg_temp.explain('ANALYZE', $$
WITH a AS (INSERT INTO account (name) SELECT 'c' || i FROM generate_series(1, 25) i RETURNING accountid, name)
INSERT INTO meter (name, accountid) SELECT name, accountid FROM a$$);
DELETE FROM meter;
DELETE FROM account;

-- a tree with its root first, although the first request is retried
CREATE FUNCTION interplay_id(i int) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT md5(i::text)::uuid $$;
SET dataverse_fdw.batch_size = 5;
\! curl -s -o /dev/null $DVSIM_URL/_dvsim/faults -d '[{"path":"CreateMultiple","times":1,"action":"reset_before_commit"}]'
INSERT INTO meter (meterid, name, parentid) SELECT interplay_id(i), i, CASE WHEN i > 1 THEN interplay_id(i / 2) END FROM generate_series(1, 40) i;
SELECT count(*), count(parentid) FROM meter;
\! curl -s -o /dev/null -X DELETE $DVSIM_URL/_dvsim/faults
RESET dataverse_fdw.batch_size;
DELETE FROM meter;

-- a volatile function sees the rows that the statement has written so far, a stable one does not
CREATE FUNCTION interplay_count() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT count(*)::int FROM account';
CREATE FUNCTION interplay_before() RETURNS int LANGUAGE sql STABLE AS 'SELECT count(*)::int FROM account';
INSERT INTO account (name, employees) SELECT 'v', interplay_count() FROM generate_series(1, 5);
SELECT array_agg(employees ORDER BY employees) FROM account;
INSERT INTO account (name, employees) SELECT 's', interplay_before() FROM generate_series(1, 5);
SELECT array_agg(employees ORDER BY employees) FROM account WHERE name = 's';
DELETE FROM account;

-- triggers BEFORE ROW do, and find the rows that they change
CREATE FUNCTION interplay_raise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN
    UPDATE account SET employees = employees + 1;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER raise BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION interplay_raise();
INSERT INTO account (name, employees) SELECT 'r' || i, 0 FROM generate_series(1, 4) i;
COPY account (name, employees) FROM STDIN;
c1	0
c2	0
\.
SELECT name, employees FROM account ORDER BY employees;
DROP TRIGGER raise ON account;
-- refused rows are reported to the first reader
SET client_min_messages = error;
DO $$
DECLARE state text;
BEGIN
  INSERT INTO account (name, employees) SELECT repeat('x', 150 + 5 * i), interplay_count() FROM generate_series(1, 5) i;
EXCEPTION WHEN string_data_right_truncation THEN
  RAISE INFO '%, % rows', SQLERRM, interplay_count();
END $$;
RESET client_min_messages;
DELETE FROM account;

-- a rolled back savepoint of a function does not undo rows that others have written
CREATE FUNCTION interplay_rolled_back() RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  n := interplay_count();
  RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
  RETURN n;
END $$;
INSERT INTO account (name, employees) SELECT 'v', interplay_rolled_back() FROM generate_series(1, 3);
SELECT array_agg(employees ORDER BY employees) FROM account;
DELETE FROM account;
-- nor rows refused meanwhile, which are filed for the role that runs the statement
CREATE ROLE regress_interplay;
GRANT SELECT ON account TO regress_interplay;
GRANT CREATE ON SCHEMA public TO regress_interplay;
GRANT USAGE ON FOREIGN SERVER interplay_crm TO regress_interplay;
CREATE USER MAPPING FOR regress_interplay SERVER interplay_crm OPTIONS (client_id 'app1', client_secret 'secret1');
ALTER FUNCTION interplay_rolled_back SECURITY DEFINER;
ALTER FUNCTION interplay_rolled_back OWNER TO regress_interplay;
SET dataverse_fdw.on_error = 'continue';
INSERT INTO account (name, employees) SELECT repeat('x', 140 + i * 10), interplay_rolled_back() FROM generate_series(1, 4) i;
SELECT length(name), employees FROM account ORDER BY 1;
SELECT role = current_user AS mine, row_number, sqlstate FROM dataverse.rejects WHERE foreign_table = 'public.account' ORDER BY row_number;
RESET dataverse_fdw.on_error;
DELETE FROM dataverse.rejects WHERE foreign_table = 'public.account';
DELETE FROM account;

-- triggers AFTER STATEMENT see the rows written by WITH, although they are not read
CREATE FUNCTION interplay_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '%: % rows', TG_OP, interplay_count();
  RETURN NULL;
END $$;
CREATE TRIGGER tell AFTER INSERT OR DELETE ON account FOR EACH STATEMENT EXECUTE FUNCTION interplay_tell();
INSERT INTO account (name) VALUES ('x'), ('y');
WITH i AS (INSERT INTO account (name) VALUES ('z1'), ('z2'), ('z3')) DELETE FROM account WHERE name = 'x';
DROP TRIGGER tell ON account;
DELETE FROM account;

-- triggers AFTER ROW get the final row
CREATE FUNCTION interplay_see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() = 1 THEN
    RAISE NOTICE '% %: id %, created %, % employees', TG_OP, NEW.name, NEW.accountid IS NOT NULL, NEW.createdon IS NOT NULL, NEW.employees;
    UPDATE account SET description = 'seen' WHERE accountid = NEW.accountid;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE ON account FOR EACH ROW EXECUTE FUNCTION interplay_see();
INSERT INTO account (name) VALUES ('i1'), ('i2');
COPY account (name, employees) FROM STDIN;
c1	1
\.
UPDATE account SET employees = 2 WHERE name = 'i1';
SELECT name, employees, description FROM account ORDER BY name COLLATE "C";
DELETE FROM account;

-- WITH CHECK OPTION: not written if the check uses only given values; generated ids
CREATE VIEW interplay_few AS SELECT name, employees FROM account WHERE employees < 10 WITH CHECK OPTION;
CREATE VIEW interplay_identified AS SELECT accountid, name FROM account WHERE accountid IS NOT NULL WITH CHECK OPTION;
SET client_min_messages = error;
INSERT INTO interplay_few VALUES ('few', 1), ('many', 11);
RESET client_min_messages;
SELECT name FROM account;
DROP TRIGGER see ON account;
INSERT INTO interplay_identified (name) VALUES ('with an id');
DELETE FROM account;

SET client_min_messages = warning;
DROP SERVER interplay_crm CASCADE;
DROP FUNCTION interplay_id, interplay_count, interplay_before, interplay_raise, interplay_tell, interplay_see, interplay_rolled_back;
DROP OWNED BY regress_interplay;
DROP ROLE regress_interplay;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
