--
-- Rejected rows: how they are filed, which roles see them, and retries.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
DELETE FROM dataverse.rejects;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE ROLE regress_rejects_writer;
CREATE ROLE regress_rejects_other;
CREATE ROLE regress_rejects_reader IN ROLE pg_read_all_data;
CREATE SERVER rejects FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off', on_error 'continue');
CREATE USER MAPPING FOR PUBLIC SERVER rejects OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA rejects_dv;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_alltypes, new_meter, new_reading) FROM SERVER rejects INTO rejects_dv;
ALTER FOREIGN TABLE rejects_dv.new_reading ALTER new_name TYPE text;
GRANT USAGE ON FOREIGN SERVER rejects TO regress_rejects_writer;
GRANT USAGE ON SCHEMA rejects_dv TO regress_rejects_writer;
GRANT ALL ON ALL TABLES IN SCHEMA rejects_dv TO regress_rejects_writer;
CREATE FOREIGN TABLE rejects_dv.client (
  id uuid OPTIONS ("column" 'accountid'),
  "the name" text OPTIONS ("column" 'name'),
  size integer OPTIONS ("column" 'numberofemployees'),
  volume numeric OPTIONS ("column" 'revenue', type 'money'),
  boss uuid OPTIONS ("column" 'primarycontactid', type 'lookup', target 'contact', target_set 'contacts')
) SERVER rejects OPTIONS (table 'account', entity_set 'accounts');
GRANT ALL ON rejects_dv.client TO regress_rejects_writer;

SET ROLE regress_rejects_writer;
CREATE VIEW pg_temp.filed AS
  SELECT foreign_table, operation, row_number, row_id, "row", code, sqlstate, left(message, 40) AS message, attempts
  FROM dataverse.rejects ORDER BY id;

-- names of columns are local; numbers are unchanged
INSERT INTO rejects_dv.client VALUES
  ('10000000-0000-0000-0000-000000000001', 'good', 1, 1.10, NULL),
  ('10000000-0000-0000-0000-000000000002', repeat('x', 161), 2, 20000000000000000.20, NULL),
  ('10000000-0000-0000-0000-000000000003', 'no boss', 3, NULL, '20000000-0000-0000-0000-000000000001');
SELECT "the name", size FROM rejects_dv.client ORDER BY id;
SELECT operation, row_number, row_id, code, sqlstate, attempts, "row" - 'the name' AS "row" FROM pg_temp.filed;
SELECT role, server, foreign_table, pid = pg_backend_pid() AS pid, at > now() - interval '1 min' AS at, length("row" ->> 'the name')
FROM dataverse.rejects ORDER BY id;

-- which roles see it, and can delete it
RESET ROLE;
SET ROLE regress_rejects_other;
SELECT count(*) FROM dataverse.rejects;
DELETE FROM dataverse.rejects RETURNING id;
INSERT INTO dataverse_private.rejected_rows (role, server, foreign_table, operation, sqlstate, message, attempts)
VALUES ('regress_rejects_writer', 's', 'pg_class', 'insert', '00000', '', 0);
UPDATE dataverse.rejects SET message = '';
SELECT * FROM dataverse.retry_rejects();
RESET ROLE;
SET ROLE regress_rejects_reader;
SELECT count(*) FROM dataverse.rejects;
DELETE FROM dataverse.rejects RETURNING id;
SELECT * FROM dataverse.retry_rejects();
RESET ROLE;
SET ROLE regress_rejects_writer;

-- again: both are refused again, and keep their ids; then one is not
CREATE TEMP TABLE ids_before AS SELECT id, row_id FROM dataverse.rejects;
SELECT * FROM dataverse.retry_rejects();
SELECT row_id, row_number, attempts FROM pg_temp.filed;
SELECT count(*) AS same FROM ids_before JOIN dataverse.rejects USING (id, row_id);
DROP TABLE ids_before;
INSERT INTO rejects_dv.contact (contactid, lastname) VALUES ('20000000-0000-0000-0000-000000000001', 'Boss');
SELECT * FROM dataverse.retry_rejects(foreign_table => 'rejects_dv.account');
SELECT * FROM dataverse.retry_rejects(since => now() + interval '1 day');
SELECT * FROM dataverse.retry_rejects(foreign_table => 'rejects_dv.client');
SELECT row_id, attempts FROM pg_temp.filed;
SELECT "the name", size, volume, boss FROM rejects_dv.client ORDER BY id;
SHOW dataverse_fdw.on_error;
DELETE FROM dataverse.rejects RETURNING row_id;

-- rows without ids keep their numbers as well, and the same row in another statement is another one
RESET ROLE;
ALTER SERVER rejects OPTIONS (ADD generate_ids 'off');
SET ROLE regress_rejects_writer;
INSERT INTO rejects_dv.client ("the name", size) SELECT repeat('x', 158 + i), i FROM generate_series(1, 4) i;
INSERT INTO rejects_dv.client (id, "the name") VALUES ('10000000-0000-0000-0000-000000000009', repeat('x', 161));
INSERT INTO rejects_dv.client (id, "the name") VALUES ('10000000-0000-0000-0000-000000000008', 'not this one'), ('10000000-0000-0000-0000-000000000009', repeat('x', 161));
SELECT * FROM dataverse.retry_rejects();
SELECT * FROM dataverse.retry_rejects();
SELECT row_number, row_id, "row" -> 'size' AS size, attempts FROM pg_temp.filed;
DELETE FROM rejects_dv.client WHERE length("the name") > 100 OR "the name" = 'not this one';
WITH d AS (DELETE FROM dataverse.rejects RETURNING id, row_id IS NULL AS no_id) SELECT no_id FROM d ORDER BY id;
RESET ROLE;
ALTER SERVER rejects OPTIONS (DROP generate_ids);
SET ROLE regress_rejects_writer;

-- an update, also of another set of columns
UPDATE rejects_dv.client SET boss = '20000000-0000-0000-0000-000000000002', size = 7 WHERE "the name" = 'good';
SELECT operation, row_id, "row", code FROM pg_temp.filed;
INSERT INTO rejects_dv.contact (contactid, lastname) VALUES ('20000000-0000-0000-0000-000000000002', 'Chief');
SELECT * FROM dataverse.retry_rejects();
SELECT "the name", size, volume, boss FROM rejects_dv.client ORDER BY id;

-- a delete
\setenv FAULTS '[{"action":"status","path":"$batch","batch_part":1,"status":403,"code":"0x80040220","message":"no right"}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
DELETE FROM rejects_dv.client WHERE "the name" = 'good';
SELECT operation, row_id, "row", code, sqlstate FROM pg_temp.filed;
SELECT * FROM dataverse.retry_rejects();
SELECT "the name" FROM rejects_dv.client ORDER BY id;

-- nothing would be sent
SET dataverse_fdw.dry_run = on;
SELECT * FROM dataverse.retry_rejects();
RESET dataverse_fdw.dry_run;

-- all types survive the round trip
CREATE TEMP TABLE original AS SELECT new_alltypesid, new_name, new_text, new_memo, new_integer, new_percent, new_bigint, new_decimal, new_money,
  new_double, new_boolean, new_choice, new_choices, new_datetime, new_date, new_zonefree, new_customerid, new_customeridtype,
  new_relatedid, new_relatedidtype, new_image
FROM rejects_dv.new_alltypes LIMIT 0;
INSERT INTO original VALUES ('30000000-0000-0000-0000-000000000001', 'All', E'"quoted" \\ é\n', 'm', -5, 101, 9007199254740993, 12345.6789, 0.10,
  1e-5, false, 100000001, '{1,9}', '2020-02-29 12:34:56+00', '1999-12-31', '2001-01-01 00:00:00',
  '20000000-0000-0000-0000-000000000001', 'contact', '10000000-0000-0000-0000-000000000003', 'account', '\x00ff10');
INSERT INTO rejects_dv.new_alltypes (new_alltypesid, new_name, new_text, new_memo, new_integer, new_percent, new_bigint, new_decimal, new_money,
  new_double, new_boolean, new_choice, new_choices, new_datetime, new_date, new_zonefree, new_customerid, new_customeridtype,
  new_relatedid, new_relatedidtype, new_image)
SELECT * FROM original;
SELECT code, jsonb_pretty("row") FROM pg_temp.filed;
SELECT o IS NOT DISTINCT FROM jsonb_populate_record(NULL::original, f."row") AS same FROM original o, pg_temp.filed f;
-- corrected by hand
SELECT * FROM original EXCEPT SELECT p.* FROM pg_temp.filed f, jsonb_populate_record(NULL::original, f."row") p;
INSERT INTO rejects_dv.new_alltypes (new_alltypesid, new_name, new_text, new_memo, new_integer, new_percent, new_bigint, new_decimal, new_money,
  new_double, new_boolean, new_choice, new_choices, new_datetime, new_date, new_zonefree, new_customerid, new_customeridtype,
  new_relatedid, new_relatedidtype, new_image)
SELECT p.* FROM pg_temp.filed f, jsonb_populate_record(NULL::original, f."row" || '{"new_percent": 100}') p;
SELECT new_name, new_percent, new_choices, new_customeridtype, new_image FROM rejects_dv.new_alltypes;
DELETE FROM dataverse.rejects RETURNING row_id;
-- a lookup that is set to null
UPDATE rejects_dv.new_alltypes SET new_relatedid = NULL, new_percent = 102;
SELECT "row" FROM pg_temp.filed;
DELETE FROM dataverse.rejects RETURNING row_id;

-- upsert by a key, whose columns are in the address
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.new_meter OPTIONS (ADD insert_mode 'upsert', ADD upsert_key 'new_accountid,new_number');
SET ROLE regress_rejects_writer;
INSERT INTO rejects_dv.new_meter (new_name, new_accountid, new_number, new_contactid)
VALUES ('By two', '10000000-0000-0000-0000-000000000003', 4, '20000000-0000-0000-0000-00000000000f');
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.new_meter OPTIONS (SET upsert_key 'new_serial');
SET ROLE regress_rejects_writer;
INSERT INTO rejects_dv.new_meter (new_name, new_serial, new_contactid)
VALUES ('By one', 'It''s 100% ü, (x=1)', '20000000-0000-0000-0000-00000000000f');
SELECT operation, row_id, "row" - 'new_contactid' AS "row", code FROM pg_temp.filed;
SELECT * FROM dataverse.retry_rejects();
-- the first is now refused locally, and filed unchanged
SELECT operation, row_id, "row", code, sqlstate, message FROM pg_temp.filed;
INSERT INTO rejects_dv.contact (contactid, lastname) VALUES ('20000000-0000-0000-0000-00000000000f', 'Customer');
SELECT * FROM dataverse.retry_rejects();
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.new_meter OPTIONS (SET upsert_key 'new_accountid,new_number');
SET ROLE regress_rejects_writer;
SELECT * FROM dataverse.retry_rejects();
SELECT new_name, new_serial, new_number, new_accountid, new_contactid FROM rejects_dv.new_meter ORDER BY new_name COLLATE "C";
SHOW dataverse_fdw.insert_mode;
SELECT count(*) FROM dataverse.rejects;

-- refused before it was sent
INSERT INTO rejects_dv.client (id, size, volume, "the name") VALUES ('10000000-0000-0000-0000-000000000004', 4, 'NaN', 'not a number');
UPDATE rejects_dv.client SET size = 5, volume = 'infinity' WHERE "the name" = 'no boss';
SELECT operation, row_id, "row", code, sqlstate, message FROM pg_temp.filed;
SELECT * FROM dataverse.retry_rejects();
SELECT operation, row_id, "row", attempts FROM pg_temp.filed;
DELETE FROM dataverse.rejects RETURNING row_id;

-- corrected where it was filed, and written again
INSERT INTO rejects_dv.client (id, "the name", size) VALUES ('10000000-0000-0000-0000-000000000021', repeat('x', 161), 21),
  ('10000000-0000-0000-0000-000000000022', repeat('y', 161), 22);
UPDATE dataverse.rejects SET "row" = "row" || '{"the name": "corrected"}' WHERE row_id = '10000000-0000-0000-0000-000000000021';
UPDATE dataverse.rejects SET "row" = "row" || '{"no such column": 1}';
UPDATE dataverse.rejects SET "row" = '7';
UPDATE dataverse.rejects SET "row" = NULL;
UPDATE dataverse.rejects SET message = '';
UPDATE dataverse_private.correctable_rejects SET "row" = "row" || '{"the name": "Yes"}' WHERE "row" ->> 'size' = '22' RETURNING "row" ->> 'the name' AS name;
SELECT * FROM dataverse.retry_rejects();
SELECT id, "the name", size FROM rejects_dv.client WHERE size > 20 ORDER BY size;
DELETE FROM rejects_dv.client WHERE size > 20;
INSERT INTO rejects_dv.client (id, "the name", size) VALUES ('10000000-0000-0000-0000-000000000023', repeat('z', 161), 23);
-- a row that cannot be written is refused at once: with the column and the reason
CREATE FUNCTION pg_temp.correct(which uuid, what jsonb, OUT state text, OUT message text, OUT detail text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE dataverse.rejects SET "row" = what WHERE row_id = which;
  message := 'corrected';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  message := regexp_replace(message, 'row [0-9]+', 'row N');
  hint := regexp_replace(hint, 'row [0-9]+', 'row N');
END $$;
INSERT INTO rejects_dv.new_alltypes (new_alltypesid, new_name, new_percent, new_customerid, new_customeridtype)
VALUES ('30000000-0000-0000-0000-000000000031', 'all', 101, '20000000-0000-0000-0000-000000000001', 'contact');
UPDATE rejects_dv.client SET boss = '20000000-0000-0000-0000-00000000dead' WHERE id = '10000000-0000-0000-0000-000000000003';
\x on
SELECT c.* FROM dataverse.rejects AS r, (VALUES
    ('{"new_interger": 1}'::jsonb), ('{"new_integer": "many"}'), ('{"new_integer": 3000000000}'), ('{"new_integer": [1]}'), ('{"new_boolean": 7}'),
    ('{"new_choices": 1}'), ('{"new_datetime": "tomorrowish"}'), ('{"new_relatedid": "Boss"}'), (jsonb_build_object('new_name', repeat('x', 1000))),
    ('{"createdon": "2020-01-01"}'), ('{"createdon": null}'), ('{"new_alltypesid": "30000000-0000-0000-0000-000000000032"}'),
    ('{"new_integer": "7", "new_text": null}')) AS v (part),
  pg_temp.correct(r.row_id, r."row" || v.part) AS c
WHERE row_id = '30000000-0000-0000-0000-000000000031';
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.new_alltypes ALTER new_double OPTIONS (ADD update_only 'on');
SET ROLE regress_rejects_writer;
SELECT c.* FROM dataverse.rejects AS r, pg_temp.correct(r.row_id, r."row" || '{"new_double": 1}') AS c
WHERE row_id = '30000000-0000-0000-0000-000000000031';
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.client ALTER size OPTIONS (ADD create_only 'on');
SET ROLE regress_rejects_writer;
SELECT c.* FROM dataverse.rejects AS r, pg_temp.correct(r.row_id, r."row" || '{"size": 3}') AS c
WHERE row_id = '10000000-0000-0000-0000-000000000003';
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.client ALTER size OPTIONS (DROP create_only);
SET ROLE regress_rejects_writer;
SELECT c.* FROM dataverse.rejects AS r, (VALUES ('new_alltypesid'), ('new_customerid')) AS v (part), pg_temp.correct(r.row_id, r."row" - v.part) AS c
WHERE row_id = '30000000-0000-0000-0000-000000000031';
SELECT c.* FROM dataverse.rejects AS r, (VALUES ('{}'::jsonb), ('[]'), ('{"id": "10000000-0000-0000-0000-000000000003"}'), ('{"size": 3}'),
    ('{"id": "10000000-0000-0000-0000-000000000004", "size": 3}'), ('{"id": "10000000-0000-0000-0000-000000000003", "size": "3"}')) AS v (whole),
  pg_temp.correct(r.row_id, v.whole) AS c
WHERE row_id = '10000000-0000-0000-0000-000000000003';
\x off
SELECT operation, "row" FROM dataverse.rejects WHERE row_id = '10000000-0000-0000-0000-000000000003';
UPDATE dataverse.rejects SET "row" = "row" || '{"new_percent": 1}' WHERE row_id = '30000000-0000-0000-0000-000000000031';
DELETE FROM dataverse.rejects WHERE length("row" ->> 'the name') > 100;
SELECT * FROM dataverse.retry_rejects();
SELECT new_name, new_integer, new_percent, new_customeridtype FROM rejects_dv.new_alltypes WHERE new_alltypesid = '30000000-0000-0000-0000-000000000031';
SELECT size FROM rejects_dv.client WHERE id = '10000000-0000-0000-0000-000000000003';
-- a row to be deleted has nothing to correct
\setenv FAULTS '[{"action":"status","path":"$batch","batch_part":1,"status":403,"code":"0x80040220","message":"no right"}]'
\set told `curl -s -o /dev/null -X POST "$DVSIM_URL/_dvsim/faults" -d "$FAULTS"`
DELETE FROM rejects_dv.new_alltypes WHERE new_alltypesid = '30000000-0000-0000-0000-000000000031';
\x on
SELECT c.* FROM dataverse.rejects AS r, pg_temp.correct(r.row_id, r."row" || '{"new_integer": 1}') AS c WHERE operation = 'delete';
\x off
DELETE FROM dataverse.rejects RETURNING operation;
DELETE FROM rejects_dv.new_alltypes WHERE new_alltypesid = '30000000-0000-0000-0000-000000000031';
-- an elastic row is found in its partition
INSERT INTO rejects_dv.new_reading (new_readingid, partitionid, new_name) VALUES ('40000000-0000-0000-0000-000000000001', 'p', 'short');
UPDATE rejects_dv.new_reading SET new_name = repeat('x', 101);
\x on
SELECT c.* FROM dataverse.rejects AS r, pg_temp.correct(r.row_id, r."row" || '{"partitionid": "q"}') AS c;
\x off
UPDATE dataverse.rejects SET "row" = "row" || '{"new_name": "corrected"}';
SELECT * FROM dataverse.retry_rejects();
SELECT new_name, partitionid FROM rejects_dv.new_reading;
DELETE FROM rejects_dv.new_reading;
INSERT INTO rejects_dv.client (id, "the name", size) VALUES ('10000000-0000-0000-0000-000000000023', repeat('z', 161), 23);
-- by no other role: neither a member of the role, nor one that may see or write everything; a superuser may, in the table
RESET ROLE;
CREATE ROLE regress_rejects_member IN ROLE regress_rejects_writer;
CREATE ROLE regress_rejects_all IN ROLE pg_read_all_data, pg_write_all_data;
SET ROLE regress_rejects_member;
UPDATE dataverse.rejects SET "row" = "row" || '{"the name": "member"}';
UPDATE dataverse_private.correctable_rejects SET "row" = '{}';
SET ROLE regress_rejects_all;
UPDATE dataverse.rejects SET "row" = "row" || '{"the name": "all"}';
UPDATE dataverse_private.rejected_rows SET "row" = "row" || '{"the name": "all"}';
UPDATE dataverse_private.rejected_rows SET role = 'regress_rejects_all';
SET ROLE regress_rejects_writer;
UPDATE dataverse_private.rejected_rows SET "row" = '{}';
SELECT length("row" ->> 'the name') FROM dataverse.rejects;
DELETE FROM dataverse.rejects RETURNING row_id;
RESET ROLE;
DROP ROLE regress_rejects_member, regress_rejects_all;
SET ROLE regress_rejects_writer;
-- a list selects the rows to retry
SELECT dataverse_private.retrying('{1,NULL}');
SELECT dataverse_private.retrying('{{1,2},{3,4}}');

-- at most this number: the statement fails, and the filed rows are rolled back
RESET ROLE;
ALTER FOREIGN TABLE rejects_dv.client OPTIONS (ADD max_errors '1');
SET ROLE regress_rejects_writer;
INSERT INTO rejects_dv.client ("the name") SELECT repeat('x', 161) FROM generate_series(1, 3);
SELECT count(*) FROM dataverse.rejects;
DROP VIEW pg_temp.filed;
DROP TABLE original;

-- the caller's settings have no effect
RESET ROLE;
CREATE SCHEMA rejects_evil;
GRANT USAGE ON SCHEMA rejects_evil TO regress_rejects_writer;
CREATE FUNCTION rejects_evil.evil(jsonb, jsonb) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$;
CREATE FUNCTION rejects_evil.to_jsonb(text) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$;
CREATE OPERATOR rejects_evil.= (function = rejects_evil.evil, leftarg = jsonb, rightarg = jsonb);
\c -
SET client_min_messages = error;
SET ROLE regress_rejects_writer;
-- (19 has no other strings)
SELECT :SERVER_VERSION_NUM < 190000 AS has_other_strings \gset
SET search_path = rejects_evil, pg_catalog;
\if :has_other_strings
SET standard_conforming_strings = off;
\endif
SELECT '1'::jsonb = '1';
INSERT INTO rejects_dv.client ("the name", boss) VALUES ('x', '20000000-0000-0000-0000-00000000000e');
RESET standard_conforming_strings;
RESET search_path;
SELECT "row" - 'id' AS "row" FROM dataverse.rejects;

-- a rollback removes filed rows
BEGIN;
INSERT INTO rejects_dv.client ("the name") VALUES (repeat('x', 161));
SELECT count(*) FROM dataverse.rejects;
ROLLBACK;
SELECT count(*) FROM dataverse.rejects;

-- pairs of an intersect table, which are identified by the ids of both rows
RESET ROLE;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_account_contact) FROM SERVER rejects INTO rejects_dv;
GRANT ALL ON rejects_dv.new_account_contact TO regress_rejects_writer;
SET ROLE regress_rejects_writer;
DELETE FROM dataverse.rejects;
INSERT INTO rejects_dv.account (accountid, name) VALUES ('30000000-0000-0000-0000-00000000000a', 'a');
INSERT INTO rejects_dv.contact (contactid, lastname) VALUES ('30000000-0000-0000-0000-0000000000c1', 'c1');
INSERT INTO rejects_dv.new_account_contact (accountid, contactid)
SELECT '30000000-0000-0000-0000-00000000000a', ('30000000-0000-0000-0000-0000000000c' || i)::uuid FROM generate_series(1, 4) AS i;
INSERT INTO rejects_dv.new_account_contact (contactid) VALUES ('30000000-0000-0000-0000-0000000000c1');
SELECT operation, row_number, row_id, "row", attempts FROM dataverse.rejects ORDER BY id;
INSERT INTO rejects_dv.contact (contactid, lastname) VALUES ('30000000-0000-0000-0000-0000000000c3', 'c3'), ('30000000-0000-0000-0000-0000000000c5', 'c5');
UPDATE dataverse.rejects SET "row" = "row" || '{"contactid": "30000000-0000-0000-0000-0000000000c5"}' WHERE "row" ->> 'contactid' LIKE '%c4';
UPDATE dataverse.rejects SET "row" = "row" || '{"contactid": "c5"}' WHERE "row" ->> 'contactid' LIKE '%c2';
UPDATE dataverse.rejects SET "row" = "row" || '{"new_account_contactid": "30000000-0000-0000-0000-0000000000c5"}' WHERE "row" ->> 'contactid' LIKE '%c2';
SELECT * FROM dataverse.retry_rejects();
SELECT operation, row_id, "row", attempts FROM dataverse.rejects ORDER BY id;
SELECT accountid, contactid FROM rejects_dv.new_account_contact ORDER BY contactid;
DELETE FROM dataverse.rejects;
-- one that is not released
\! curl -s -d '{"path":"$batch","batch_part":1,"status":400,"code":"0x80040216","message":"No.","times":2}' "$DVSIM_URL/_dvsim/faults" >/dev/null
DELETE FROM rejects_dv.new_account_contact WHERE contactid = '30000000-0000-0000-0000-0000000000c3';
SELECT operation, row_id, "row", attempts FROM dataverse.rejects ORDER BY id;
SELECT * FROM dataverse.retry_rejects();
SELECT operation, row_id, "row", attempts FROM dataverse.rejects ORDER BY id;
SELECT * FROM dataverse.retry_rejects();
SELECT accountid, contactid FROM rejects_dv.new_account_contact ORDER BY contactid;
\! curl -s -X DELETE "$DVSIM_URL/_dvsim/faults" >/dev/null

-- entries of accepted rows would stay
RESET ROLE;
SET session_replication_role = replica;
SELECT * FROM dataverse.retry_rejects();
RESET session_replication_role;

-- a dropped foreign table
SET ROLE regress_rejects_writer;
INSERT INTO rejects_dv.client ("the name") VALUES (repeat('x', 161));
RESET ROLE;
DROP FOREIGN TABLE rejects_dv.client;
SET ROLE regress_rejects_writer;
UPDATE dataverse.rejects SET "row" = "row" || '{"the name": "corrected"}' WHERE "row" ? 'the name';
DELETE FROM dataverse.rejects WHERE "row" ? 'the name';
RESET ROLE;
SELECT * FROM dataverse.retry_rejects();
SELECT count(*) FROM dataverse.rejects;

DELETE FROM dataverse.rejects;
DROP SERVER rejects CASCADE;
DROP SCHEMA rejects_dv, rejects_evil CASCADE;
DROP ROLE regress_rejects_writer, regress_rejects_other, regress_rejects_reader;
