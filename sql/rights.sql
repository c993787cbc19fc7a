-- The rights of a role: upserts, settings, checks of views and policies.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER rights_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET client_min_messages = warning;
CREATE ROLE regress_rights_owner;
CREATE ROLE regress_rights_inserter;
CREATE ROLE regress_rights_writer;
CREATE ROLE regress_rights_viewer;
CREATE USER MAPPING FOR PUBLIC SERVER rights_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA rights;
GRANT USAGE, CREATE ON SCHEMA rights TO PUBLIC;
GRANT USAGE ON FOREIGN SERVER rights_crm TO regress_rights_owner;
SET search_path = rights, public;
CREATE FOREIGN TABLE account (
  accountid uuid,
  name text,
  accountnumber text,
  employees integer OPTIONS ("column" 'numberofemployees'),
  statecode integer OPTIONS (type 'state'),
  statuscode integer OPTIONS (type 'status'),
  createdon timestamptz OPTIONS (readonly 'true')
) SERVER rights_crm OPTIONS (entity_set 'accounts');
ALTER FOREIGN TABLE account OWNER TO regress_rights_owner;
GRANT SELECT ON account TO PUBLIC;
GRANT INSERT ON account TO regress_rights_inserter;
GRANT INSERT, UPDATE (name, employees) ON account TO regress_rights_writer;
GRANT INSERT, UPDATE, DELETE ON account TO regress_rights_viewer;
\set one '''00000000-0000-0000-0000-000000000001'''
\set two '''00000000-0000-0000-0000-000000000002'''
INSERT INTO account (accountid, name, accountnumber, employees) VALUES (:one, 'one', 'A1', 1), (:two, 'two', 'A2', 2);
-- the rows after an attempt
CREATE FUNCTION rows(OUT n text, OUT e integer) RETURNS SETOF record LANGUAGE sql AS 'SELECT name, employees FROM rights.account ORDER BY accountid';

--
-- An upsert requires UPDATE
--
SET ROLE regress_rights_inserter;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO account (accountid, name) VALUES (:one, 'overwritten');
COPY account (accountid, name) FROM STDIN;
00000000-0000-0000-0000-000000000001	copied
\.
SET dataverse_fdw.upsert_key = 'accountnumber';
INSERT INTO account (accountnumber, name) VALUES ('A1', 'by key');
RESET dataverse_fdw.upsert_key;
PREPARE upsert AS INSERT INTO account (accountid, name) VALUES (:one, 'prepared');
EXECUTE upsert;
SET dataverse_fdw.insert_mode = 'create';
EXPLAIN (COSTS OFF) EXECUTE upsert;
SET dataverse_fdw.insert_mode = 'upsert';
EXECUTE upsert;
DEALLOCATE upsert;
RESET dataverse_fdw.insert_mode;
RESET ROLE;
ALTER FOREIGN TABLE account OPTIONS (ADD insert_mode 'upsert');
SET ROLE regress_rights_inserter;
INSERT INTO account (accountid, name) VALUES (:one, 'by option of the table');
RESET ROLE;
ALTER FOREIGN TABLE account OPTIONS (DROP insert_mode);
ALTER SERVER rights_crm OPTIONS (ADD insert_mode 'upsert');
SET ROLE regress_rights_inserter;
INSERT INTO account (accountid, name) VALUES (:one, 'by option of the server');
RESET ROLE;
ALTER SERVER rights_crm OPTIONS (DROP insert_mode);
SELECT * FROM rows();
-- on the columns that are written, as granted when the statement runs
SET ROLE regress_rights_writer;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO account (accountid, name) VALUES (:one, 'One');
COPY account (accountid, name, employees) FROM STDIN;
00000000-0000-0000-0000-000000000001	one	11
\.
INSERT INTO account (accountid, name, accountnumber) VALUES (:one, 'x', 'x');
COPY account (accountid, accountnumber) FROM STDIN;
00000000-0000-0000-0000-000000000001	x
\.
PREPARE upsert AS INSERT INTO account (accountid, name) VALUES (:one, 'prepared');
EXECUTE upsert;
RESET ROLE;
REVOKE UPDATE (name) ON account FROM regress_rights_writer;
SET ROLE regress_rights_writer;
EXECUTE upsert;
RESET ROLE;
GRANT UPDATE (name) ON account TO regress_rights_writer;
SET ROLE regress_rights_inserter;
EXECUTE upsert;
RESET ROLE;
-- a default is written as well
ALTER FOREIGN TABLE account ALTER accountnumber SET DEFAULT 'none';
SET ROLE regress_rights_writer;
INSERT INTO account (accountid, name) VALUES (:one, 'x');
COPY account (accountid, name) FROM STDIN;
00000000-0000-0000-0000-000000000001	x
\.
RESET ROLE;
ALTER FOREIGN TABLE account ALTER accountnumber DROP DEFAULT;
EXECUTE upsert;
DEALLOCATE upsert;
SELECT * FROM rows();

--
-- Views
--
RESET dataverse_fdw.insert_mode;
SET ROLE regress_rights_viewer;
CREATE VIEW all_of AS SELECT accountid, name, employees FROM account;
CREATE VIEW small WITH (security_barrier) AS SELECT accountid, name, employees FROM account WHERE employees < 5 WITH CHECK OPTION;
CREATE VIEW unchecked AS SELECT accountid, name, employees FROM account WHERE employees < 5;
CREATE VIEW above AS SELECT * FROM unchecked;
CREATE VIEW invoked WITH (security_invoker) AS SELECT accountid, name FROM account;
CREATE VIEW ruled AS SELECT accountid, name FROM account WHERE employees < 5;
CREATE VIEW also AS SELECT accountid, name, employees FROM account WHERE employees < 5;
CREATE RULE also AS ON INSERT TO also DO ALSO NOTHING;
CREATE RULE ruled AS ON INSERT TO ruled DO INSTEAD INSERT INTO account (accountid, name) VALUES (NEW.accountid, NEW.name);
GRANT SELECT, INSERT ON all_of, small, unchecked, above, invoked, ruled, also TO regress_rights_inserter, regress_rights_writer;
GRANT UPDATE ON all_of, above, small, also TO regress_rights_writer;
SET ROLE regress_rights_inserter;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO all_of VALUES (:one, 'x', 1);
INSERT INTO small VALUES (:one, 'x', 1);
INSERT INTO unchecked VALUES (:one, 'x', 1);
INSERT INTO above VALUES (:one, 'x', 1);
INSERT INTO invoked VALUES (:one, 'x');
INSERT INTO ruled VALUES (:one, 'x');
SELECT * FROM rows();
RESET ROLE;
-- the option of the table applies to all roles
RESET dataverse_fdw.insert_mode;
ALTER FOREIGN TABLE account OPTIONS (ADD insert_mode 'upsert');
SET ROLE regress_rights_inserter;
INSERT INTO all_of VALUES (:one, 'x', 1);
INSERT INTO small VALUES (:one, 'x', 1);
INSERT INTO invoked VALUES (:one, 'x');
SET ROLE regress_rights_writer;
INSERT INTO all_of VALUES (:one, 'through a view', 1);
INSERT INTO small VALUES (:one, 'x', 1);
INSERT INTO above VALUES (:one, 'x', 1);
INSERT INTO also VALUES (:one, 'x', 1);
INSERT INTO ruled VALUES (:one, 'x');
INSERT INTO invoked VALUES (:one, 'as the invoker');
RESET ROLE;
-- the view's owner
REVOKE UPDATE ON account FROM regress_rights_viewer;
SET ROLE regress_rights_writer;
INSERT INTO all_of VALUES (:one, 'x', 1);
RESET ROLE;
GRANT UPDATE ON account TO regress_rights_viewer;
ALTER FOREIGN TABLE account OPTIONS (DROP insert_mode);
SELECT * FROM rows();

--
-- Settings: their makers, and the effects allowed to these
--
SET search_path = rights, public;
CREATE FUNCTION add(id uuid, n text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = rights AS
  'INSERT INTO account (accountid, name) VALUES (id, n)';
ALTER FUNCTION add OWNER TO regress_rights_owner;
CREATE FUNCTION add_as_set(id uuid, n text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = rights SET dataverse_fdw.insert_mode = 'upsert' AS
  'INSERT INTO account (accountid, name) VALUES (id, n)';
ALTER FUNCTION add_as_set OWNER TO regress_rights_owner;
SET ROLE regress_rights_inserter;
SET dataverse_fdw.insert_mode = 'upsert';
SELECT add(:one, 'by a function of the owner');
SET dataverse_fdw.insert_mode = 'ignore_duplicates';
SELECT add(:one, 'skipped');
RESET dataverse_fdw.insert_mode;
SET dataverse_fdw.dry_run = on;
SELECT add(gen_random_uuid(), 'not sent');
RESET dataverse_fdw.dry_run;
SET dataverse_fdw.on_error = 'continue';
SELECT add(:one, 'filed');
RESET dataverse_fdw.on_error;
-- any role may set the speed
SET dataverse_fdw.batch_size = 10;
SELECT add('00000000-0000-0000-0000-000000000003', 'three');
RESET dataverse_fdw.batch_size;
-- a setting of the function itself
SELECT add_as_set('00000000-0000-0000-0000-000000000003', 'three again');
RESET ROLE;
-- a superuser's setting applies everywhere
SET dataverse_fdw.insert_mode = 'upsert';
SELECT add('00000000-0000-0000-0000-000000000003', 'three for a superuser');
RESET dataverse_fdw.insert_mode;
SELECT * FROM rows();

-- the owner's options are the maximum
CREATE FUNCTION try(setting text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  detail text;
BEGIN
  PERFORM set_config('dataverse_fdw.' || setting, value, true);
  BEGIN
    UPDATE rights.account SET name = name WHERE accountid = '00000000-0000-0000-0000-000000000003';
  EXCEPTION WHEN insufficient_privilege THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    PERFORM set_config('dataverse_fdw.' || setting, '', true);
    RETURN SQLERRM || ': ' || detail;
  END;
  PERFORM set_config('dataverse_fdw.' || setting, '', true);
  RETURN 'done';
END $$;
CREATE FUNCTION try_all(OUT setting text, OUT value text, OUT result text) RETURNS SETOF record LANGUAGE sql AS $$
  SELECT s, v, rights.try(s, v) FROM (VALUES ('bypass_custom_logic', 'none'), ('bypass_custom_logic', 'sync'), ('bypass_custom_logic', 'async'),
    ('bypass_custom_logic', 'all'), ('bypass_flows', 'off'), ('bypass_flows', 'on'), ('suppress_duplicate_detection', 'off'),
    ('suppress_duplicate_detection', 'on'), ('tag', 'mine'), ('tag', 'theirs')) AS t (s, v) $$;
SET ROLE regress_rights_viewer;
SELECT * FROM try_all() \g (format=unaligned tuples_only=on)
RESET ROLE;
ALTER FOREIGN TABLE account OPTIONS (ADD bypass_custom_logic 'sync', ADD bypass_flows 'on', ADD suppress_duplicate_detection 'off', ADD tag 'theirs', ADD insert_mode 'create');
SET ROLE regress_rights_viewer;
SELECT * FROM try_all() \g (format=unaligned tuples_only=on)
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO account (accountid, name) VALUES (:one, 'x');
RESET dataverse_fdw.insert_mode;
-- the owner may set anything
SET ROLE regress_rights_owner;
SELECT setting, value, result FROM try_all() WHERE result <> 'done';
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO account (accountid, name) VALUES (:one, 'one');
RESET dataverse_fdw.insert_mode;
RESET ROLE;
ALTER FOREIGN TABLE account OPTIONS (DROP bypass_custom_logic, DROP bypass_flows, DROP suppress_duplicate_detection, DROP tag, DROP insert_mode);
SELECT * FROM rows();

--
-- Rows that are routed to a partition
--
CREATE TABLE parent (id uuid, n text, e integer DEFAULT 50) PARTITION BY RANGE (e);
CREATE FOREIGN TABLE remote (
  id uuid OPTIONS ("column" 'accountid'), n text OPTIONS ("column" 'name'), e integer OPTIONS ("column" 'numberofemployees')
) SERVER rights_crm OPTIONS ("table" 'account', entity_set 'accounts');
ALTER TABLE parent ATTACH PARTITION remote FOR VALUES FROM (50) TO (100);
CREATE TABLE local PARTITION OF parent FOR VALUES FROM (0) TO (50);
ALTER TABLE parent OWNER TO regress_rights_owner;
ALTER FOREIGN TABLE remote OWNER TO regress_rights_owner;
GRANT SELECT, INSERT ON parent TO regress_rights_inserter;
GRANT SELECT, INSERT, UPDATE ON parent TO regress_rights_writer;
UPDATE account SET employees = 51 WHERE accountid = :one;
SET ROLE regress_rights_inserter;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO parent VALUES (:one, 'x', 51);
COPY parent (id, n, e) FROM STDIN;
00000000-0000-0000-0000-000000000001	x	51
\.
-- not relevant to local rows
INSERT INTO parent VALUES (:one, 'here', 1);
SET ROLE regress_rights_writer;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO parent VALUES (:one, 'ONE', 51);
COPY parent (id, n, e) FROM STDIN;
00000000-0000-0000-0000-000000000001	Two	52
\.
UPDATE parent SET e = 53 WHERE n = 'here' AND e < 50;
SELECT tableoid::regclass, id, n, e FROM parent WHERE e >= 50;
INSERT INTO parent VALUES (:one, 'here', 1);
RESET ROLE;
-- a row that moves writes all columns
REVOKE UPDATE ON parent FROM regress_rights_writer;
GRANT UPDATE (e) ON parent TO regress_rights_writer;
SET ROLE regress_rights_writer;
UPDATE parent SET e = 54 WHERE n = 'here' AND e < 50;
RESET ROLE;
GRANT UPDATE ON parent TO regress_rights_writer;
-- policies
CREATE POLICY few ON parent USING (e < 52);
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
SET ROLE regress_rights_writer;
INSERT INTO parent VALUES (:one, 'x', 51);
UPDATE parent SET e = 51 WHERE n = 'here' AND e < 50;
RESET ROLE;
CREATE POLICY all_others ON parent USING (true);
DROP POLICY few ON parent;
SET ROLE regress_rights_writer;
INSERT INTO parent VALUES (:one, 'x', 51);
RESET ROLE;
ALTER TABLE parent DISABLE ROW LEVEL SECURITY;
DROP POLICY all_others ON parent;
-- a view above the parent
SET ROLE regress_rights_owner;
CREATE VIEW over_parent AS SELECT * FROM parent WHERE e < 52;
CREATE VIEW whole_parent AS SELECT * FROM parent;
GRANT INSERT ON over_parent, whole_parent TO regress_rights_writer;
ALTER FOREIGN TABLE remote OPTIONS (ADD insert_mode 'upsert');
SET ROLE regress_rights_writer;
RESET dataverse_fdw.insert_mode;
INSERT INTO over_parent VALUES (:one, 'x', 51);
INSERT INTO whole_parent VALUES (:one, 'x', 51);
RESET ROLE;
GRANT UPDATE ON over_parent, whole_parent TO regress_rights_writer;
SET ROLE regress_rights_writer;
INSERT INTO over_parent VALUES (:one, 'x', 51);
INSERT INTO whole_parent VALUES (:one, 'through the whole', 51);
SELECT * FROM rows() LIMIT 1;
MERGE INTO parent USING (VALUES (1)) AS v (i) ON false WHEN NOT MATCHED THEN INSERT VALUES (:one, 'merged', 51);
RESET ROLE;
ALTER FOREIGN TABLE remote OPTIONS (DROP insert_mode);
-- an inheritance parent gets its own rows, a child is a table like any other
CREATE TABLE above_remote (id uuid, n text);
CREATE FOREIGN TABLE below (id uuid OPTIONS ("column" 'accountid'), n text OPTIONS ("column" 'name')) INHERITS (above_remote)
  SERVER rights_crm OPTIONS ("table" 'account', entity_set 'accounts', insert_mode 'upsert');
GRANT INSERT ON above_remote, below TO regress_rights_inserter;
SET ROLE regress_rights_inserter;
INSERT INTO below VALUES (:one, 'x');
INSERT INTO above_remote VALUES (:one, 'x');
RESET ROLE;
-- a rule of another table
CREATE TABLE ruling (id uuid, n text);
CREATE RULE ruling AS ON INSERT TO ruling DO ALSO INSERT INTO rights.account (accountid, name) VALUES (NEW.id, NEW.n);
ALTER TABLE ruling OWNER TO regress_rights_owner;
GRANT INSERT ON ruling TO regress_rights_inserter;
SET ROLE regress_rights_inserter;
SET dataverse_fdw.insert_mode = 'upsert';
INSERT INTO ruling VALUES (:one, 'x');
RESET dataverse_fdw.insert_mode;
RESET ROLE;
SELECT * FROM rows() WHERE n = 'x';

--
-- Checks of views and policies: rows that they refuse are not written
--
DELETE FROM account WHERE accountid NOT IN (:one, :two);
UPDATE account SET name = 'one', employees = 1 WHERE accountid = :one;
CREATE VIEW checked AS SELECT * FROM account WHERE statuscode = 2 WITH CHECK OPTION;
CREATE VIEW checked_few AS SELECT * FROM account WHERE employees < 10 WITH CHECK OPTION;
CREATE VIEW checked_above AS SELECT accountid, name, employees, accountnumber FROM checked_few WITH CASCADED CHECK OPTION;
CREATE VIEW checked_created AS SELECT * FROM account WHERE createdon < '2000-01-01' WITH CHECK OPTION;
CREATE VIEW checked_empty AS SELECT * FROM account WHERE accountnumber <> 'x' WITH CHECK OPTION;
CREATE VIEW checked_id AS SELECT accountid, name FROM account WHERE accountid > '00000000-0000-0000-0000-000000000001' WITH CHECK OPTION;
CREATE VIEW checked_row AS SELECT accountid, name FROM account WHERE account IS NOT NULL WITH CHECK OPTION;
CREATE SEQUENCE times;
CREATE VIEW checked_once AS SELECT accountid, name FROM account WHERE nextval('times') < 2 WITH CHECK OPTION;
-- a column that the INSERT omits
INSERT INTO checked (name) VALUES ('never');
INSERT INTO checked_few (name) VALUES ('never');
INSERT INTO checked_above (name) VALUES ('never');
INSERT INTO checked_created (name) VALUES ('never');
INSERT INTO checked_row (name) VALUES ('never');
INSERT INTO checked (name, statuscode) VALUES ('never', 1);
INSERT INTO checked_few (name, employees) VALUES ('never', 10), ('never', NULL);
INSERT INTO checked_above (name, employees) VALUES ('never', 10);
-- the check sees the stored value: Dataverse stores an empty text as null
INSERT INTO checked_empty (name, accountnumber) VALUES ('never', '');
\set VERBOSITY terse
UPDATE checked_empty SET accountnumber = '' WHERE name = 'one';
-- the check is made once
INSERT INTO checked_once (name) VALUES ('once');
INSERT INTO checked_once (name) VALUES ('never');
-- generated ids
INSERT INTO checked_id (name) VALUES ('with an id');
INSERT INTO checked_id (accountid, name) VALUES (NULL, 'with another id');
INSERT INTO checked_id (accountid, name) VALUES ('00000000-0000-0000-0000-000000000000', 'never');
-- UPDATE
UPDATE checked_few SET employees = 10 WHERE name = 'one';
UPDATE checked_above SET employees = employees * 100;
\set VERBOSITY default
UPDATE checked_created SET name = 'never';
UPDATE checked_few SET name = 'One', statecode = 1 WHERE name = 'one';
UPDATE checked_few SET name = 'one', employees = 9 WHERE name = 'One' RETURNING name, employees, statecode;
UPDATE account SET statecode = 0 WHERE name = 'one';
-- the state determines the status
CREATE VIEW checked_active AS SELECT * FROM account WHERE statuscode = 1 WITH CHECK OPTION;
UPDATE checked_active SET statecode = 1;
\set VERBOSITY terse
UPDATE checked_active SET statecode = 1, statuscode = 2;
\set VERBOSITY default
-- RETURNING, many rows, a dry run
INSERT INTO checked_few (name, employees) SELECT 'many', i FROM generate_series(1, 9) i RETURNING employees, statuscode;
SET dataverse_fdw.dry_run = on;
INSERT INTO checked_few (name, employees) VALUES ('dry', 1);
INSERT INTO checked_few (name) VALUES ('never');
RESET dataverse_fdw.dry_run;
-- a trigger sets the column
CREATE FUNCTION set_employees() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.employees := nullif(length(NEW.name), 4); RETURN NEW; END $$;
CREATE TRIGGER set_employees BEFORE INSERT OR UPDATE ON account FOR EACH ROW EXECUTE FUNCTION set_employees();
INSERT INTO checked_few (name) VALUES ('trigger');
INSERT INTO checked_few (name) VALUES ('a name that is too long');
INSERT INTO checked_few (name) VALUES ('four');
\set VERBOSITY terse
UPDATE checked_few SET name = 'a name that is too long' WHERE name = 'trigger';
\set VERBOSITY default
DROP TRIGGER set_employees ON account;
SELECT name, employees, count(*) FROM account GROUP BY 1, 2 ORDER BY name COLLATE "C", 2;
-- policies of a partitioned table
DELETE FROM account;
CREATE POLICY small ON parent USING (e < 52);
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
SET ROLE regress_rights_writer;
INSERT INTO parent (id, n, e) VALUES (:one, 'allowed', 51);
INSERT INTO parent (id, n, e) VALUES (:two, 'never', 52);
INSERT INTO parent (id, n, e) VALUES (:two, 'local', 1), (gen_random_uuid(), 'never', 53);
UPDATE parent SET e = 52 WHERE n = 'allowed';
UPDATE parent SET e = 50, n = 'changed' WHERE n = 'allowed' RETURNING e;
UPDATE parent SET e = 60 WHERE n = 'here';
RESET ROLE;
ALTER POLICY small ON parent USING (e < 52) WITH CHECK (n IS NOT NULL AND e < 52);
SET ROLE regress_rights_writer;
INSERT INTO parent (id, e) VALUES (:two, 51);
RESET ROLE;
ALTER TABLE parent DISABLE ROW LEVEL SECURITY;
-- a view above it
CREATE VIEW checked_parent AS SELECT * FROM parent WHERE e < 52 WITH CHECK OPTION;
INSERT INTO checked_parent VALUES (:two, 'never', 53);
INSERT INTO checked_parent (n) VALUES ('with the default');
UPDATE checked_parent SET e = 53 WHERE e >= 50;
SELECT * FROM rows();

RESET search_path;
DROP SCHEMA rights CASCADE;
DROP SERVER rights_crm CASCADE;
DROP ROLE regress_rights_owner, regress_rights_inserter, regress_rights_writer, regress_rights_viewer;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
