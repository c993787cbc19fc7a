--
-- Local changes of copies: dataverse.track(), untrack(), and captured changes.
--
\set VERBOSITY terse
\getenv dvsim_url DVSIM_URL
SELECT :'dvsim_url' || '/t/oauth2/v2.0/token' AS token_url \gset
SET timezone = 'UTC';
SET client_min_messages = error;
\! curl -s -X POST "$DVSIM_URL/_dvsim/reset" >/dev/null

CREATE SERVER track FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'dvsim_url', token_url :'token_url', budget_pacing 'off');
CREATE USER MAPPING FOR CURRENT_USER SERVER track OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA track_dv;
CREATE SCHEMA track_copy;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, team) FROM SERVER track INTO track_dv;
-- ids that end in a number
CREATE FUNCTION pg_temp.i(integer) RETURNS uuid LANGUAGE sql IMMUTABLE
  AS $$ SELECT ('00000000-0000-4000-8000-' || lpad($1::text, 12, '0'))::uuid $$;
INSERT INTO track_dv.account (accountid, name, numberofemployees, description)
  SELECT pg_temp.i(i), 'account ' || i, i, (SELECT string_agg(md5(i || '.' || j), '') FROM generate_series(1, 60) AS j)
  FROM generate_series(1, 8) AS i;

-- Shows the changes captured since the last call, and deletes them.  Generated ids
-- are "new", bases that are versions of Dataverse "version".
CREATE FUNCTION pg_temp.captured(target regclass) RETURNS TABLE (operation "char", id text, columns text[], base text)
LANGUAGE sql AS $$
  WITH taken AS (DELETE FROM dataverse_private.local_changes AS l USING dataverse_private.copies AS c
                 WHERE l.copy = c.id AND c.target_oid = $1 RETURNING l.*)
  SELECT operation, CASE WHEN id::text LIKE '00000000-0000-4000-8000-%' THEN right(id::text, 4)::int::text ELSE 'new' END, columns,
         CASE WHEN base > 1000 THEN 'version' ELSE base::text END
  FROM taken ORDER BY 2, 1, 3
$$;

-- Only copies with versions can be tracked.
CREATE TABLE track_copy.other (accountid uuid PRIMARY KEY);
CALL dataverse.track('track_copy.other');
CALL dataverse.pull('track_dv.account', 'track_copy.bare', columns => '{name}');
CALL dataverse.track('track_copy.bare');
CALL dataverse.pull('track_dv.account', 'track_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
CALL dataverse.track('track_copy.account');
SELECT tgname, tgtype, tgenabled FROM pg_trigger WHERE tgrelid = 'track_copy.account'::regclass ORDER BY 1;
-- again: nothing to do, and no lock that blocks others
BEGIN;
CALL dataverse.track('track_copy.account');
SELECT mode FROM pg_locks WHERE relation = 'track_copy.account'::regclass AND mode <> 'AccessShareLock';
COMMIT;

-- Values stored out of line, which need not be fetched.
ALTER TABLE track_copy.account ALTER description SET STORAGE EXTERNAL;
SET dataverse_fdw.capture = off;
UPDATE track_copy.account SET description = description || description;
RESET dataverse_fdw.capture;
SELECT pg_relation_size(reltoastrelid) > 0 AS toasted FROM pg_class WHERE oid = 'track_copy.account'::regclass;

-- Statements of every kind.
UPDATE track_copy.account SET name = 'x', numberofemployees = numberofemployees WHERE numberofemployees IN (1, 2);
SELECT * FROM pg_temp.captured('track_copy.account');
UPDATE track_copy.account SET name = name, description = description;
UPDATE track_copy.account SET description = substr(description || '', 1) WHERE numberofemployees = 3;
UPDATE track_copy.account SET name = 'y' WHERE false;
SELECT * FROM pg_temp.captured('track_copy.account');
UPDATE track_copy.account SET description = description || '.', name = NULL WHERE numberofemployees = 3;
UPDATE track_copy.account SET description = overlay(description PLACING '!' FROM 1000 FOR 1) WHERE numberofemployees = 4;
UPDATE track_copy.account SET versionnumber = 7 WHERE numberofemployees = 5;
SELECT * FROM pg_temp.captured('track_copy.account');
BEGIN;
UPDATE track_copy.account SET name = 'one' WHERE numberofemployees = 5;
UPDATE track_copy.account SET numberofemployees = 55 WHERE numberofemployees = 5;
UPDATE track_copy.account SET name = 'two' WHERE numberofemployees = 55;
COMMIT;
SELECT * FROM pg_temp.captured('track_copy.account');
INSERT INTO track_copy.account (name) VALUES ('a'), ('b') RETURNING accountid IS NOT NULL AS id_at_once;
INSERT INTO track_copy.account (accountid, name, versionnumber) VALUES (pg_temp.i(20), 'c', 8);
COPY track_copy.account (accountid, name) FROM stdin;
00000000-0000-4000-8000-000000000021	copied
00000000-0000-4000-8000-000000000022	copied
\.
SELECT * FROM pg_temp.captured('track_copy.account');
UPDATE track_copy.account SET name = 'd' WHERE accountid = pg_temp.i(21);
INSERT INTO track_copy.account (accountid, name) VALUES (pg_temp.i(20), 'upserted'), (pg_temp.i(23), 'inserted')
  ON CONFLICT (accountid) DO UPDATE SET name = excluded.name;
INSERT INTO track_copy.account (accountid, name) VALUES (pg_temp.i(20), 'ignored') ON CONFLICT DO NOTHING;
SELECT * FROM pg_temp.captured('track_copy.account');
DELETE FROM track_copy.account WHERE accountid IN (pg_temp.i(1), pg_temp.i(23));
SELECT * FROM pg_temp.captured('track_copy.account');
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
\if :has_merge
MERGE INTO track_copy.account AS t
  USING (VALUES (2, 'merged'), (3, NULL), (24, 'merged'), (4, NULL)) AS s (i, name) ON t.accountid = pg_temp.i(s.i)
  WHEN MATCHED AND s.name IS NULL THEN DELETE
  WHEN MATCHED THEN UPDATE SET name = s.name
  WHEN NOT MATCHED THEN INSERT (accountid, name) VALUES (pg_temp.i(s.i), s.name);
\endif
SELECT * FROM pg_temp.captured('track_copy.account');
WITH gone AS (DELETE FROM track_copy.account WHERE accountid = pg_temp.i(24)),
  one AS (UPDATE track_copy.account SET name = 'first' WHERE accountid = pg_temp.i(6)),
  two AS (UPDATE track_copy.account SET numberofemployees = 70 WHERE accountid = pg_temp.i(7))
UPDATE track_copy.account SET name = 'last' WHERE accountid = pg_temp.i(8);
SELECT * FROM pg_temp.captured('track_copy.account');

-- A changed id is a deletion and an insertion, unless both ids exist.
UPDATE track_copy.account SET accountid = pg_temp.i(108), name = 'moved' WHERE accountid = pg_temp.i(8);
SELECT * FROM pg_temp.captured('track_copy.account');
CREATE TABLE track_copy.chain (accountid uuid, name text, description text, versionnumber bigint);
CREATE UNIQUE INDEX ON track_copy.chain (accountid);
CALL dataverse.pull('track_dv.account', 'track_copy.chain');
CALL dataverse.track('track_copy.chain');
DELETE FROM track_copy.chain;
-- rows are in order again
VACUUM track_copy.chain;
INSERT INTO track_copy.chain SELECT pg_temp.i(i), 'account ' || i, 'same', 2000 FROM generate_series(2, 7) AS i;
DELETE FROM dataverse_private.local_changes;
UPDATE track_copy.chain SET accountid = ('00000000-0000-4000-8000-' || lpad((right(accountid::text, 4)::int - 1)::text, 12, '0'))::uuid,
  name = left(name, 7);
SELECT * FROM pg_temp.captured('track_copy.chain');
-- more rows than are kept waiting
INSERT INTO track_copy.chain SELECT pg_temp.i(i), 'n', repeat('x', 900) FROM generate_series(1001, 3000) AS i;
DELETE FROM dataverse_private.local_changes;
SET work_mem = '64kB';
UPDATE track_copy.chain SET accountid = ('00000000-0000-4000-9000-' || right(accountid::text, 12))::uuid WHERE name = 'n';
RESET work_mem;
SELECT operation, count(*), count(DISTINCT id) FROM dataverse_private.local_changes GROUP BY 1 ORDER BY 1;
DELETE FROM dataverse_private.local_changes;
-- rows without an id cannot be captured
INSERT INTO track_copy.chain (accountid) VALUES (NULL);
UPDATE track_copy.chain SET accountid = NULL WHERE name = 'account';
SELECT * FROM pg_temp.captured('track_copy.chain');
-- many sets of columns at once
CALL dataverse.pull('track_dv.account', 'track_copy.wide');
CALL dataverse.track('track_copy.wide');
INSERT INTO track_copy.wide (accountid, name) SELECT gen_random_uuid(), i::text FROM generate_series(1, 3000) AS i;
DELETE FROM dataverse_private.local_changes;
DO $$
BEGIN
  FOR part IN 0..1 LOOP
    EXECUTE (SELECT 'UPDATE track_copy.wide SET ' ||
                    string_agg(format('%I = CASE WHEN name::int >> %s & 1 = 1 THEN ''x'' END', attname, n), ', ')
             FROM (SELECT attname, row_number() OVER (ORDER BY attnum) - 1 AS n FROM pg_attribute
                   WHERE attrelid = 'track_copy.wide'::regclass AND atttypid IN ('text'::regtype, 'varchar'::regtype)
                     AND attname <> 'name' AND attnum > 0 ORDER BY attnum LIMIT 12) AS a)
            || ' WHERE name ~ ''^\d+$'' AND (name::int > 500)::int = ' || part;
  END LOOP;
END
$$;
SELECT count(*), count(DISTINCT columns), max(cardinality(columns)), sum(cardinality(columns)) FROM dataverse_private.local_changes;
SELECT sum(length(replace(n::bit(12)::text, '0', ''))) FROM generate_series(1, 3000) AS n;
DELETE FROM dataverse_private.local_changes;

-- Other triggers read the same transition tables, before and after.
CREATE TABLE track_copy.counted (name text, rows bigint);
CREATE FUNCTION track_copy.count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO track_copy.counted SELECT TG_NAME, count(*) FROM o JOIN n USING (accountid);
  RETURN NULL;
END $$;
CREATE TRIGGER before_ours AFTER UPDATE ON track_copy.account REFERENCING OLD TABLE AS o NEW TABLE AS n
  FOR EACH STATEMENT EXECUTE FUNCTION track_copy.count();
CREATE TRIGGER later_than_ours AFTER UPDATE ON track_copy.account REFERENCING OLD TABLE AS o NEW TABLE AS n
  FOR EACH STATEMENT EXECUTE FUNCTION track_copy.count();
UPDATE track_copy.account SET name = 'counted' WHERE accountid IN (pg_temp.i(6), pg_temp.i(7));
DROP TRIGGER before_ours ON track_copy.account;
DROP TRIGGER later_than_ours ON track_copy.account;
TABLE track_copy.counted;
SELECT * FROM pg_temp.captured('track_copy.account');

-- Rollbacks.
BEGIN;
UPDATE track_copy.account SET name = 'kept' WHERE accountid = pg_temp.i(6);
SAVEPOINT a;
UPDATE track_copy.account SET name = 'rolled back' WHERE accountid = pg_temp.i(7);
ROLLBACK TO a;
UPDATE track_copy.account SET numberofemployees = 77 WHERE accountid = pg_temp.i(7);
COMMIT;
BEGIN;
DELETE FROM track_copy.account;
ROLLBACK;
SELECT * FROM pg_temp.captured('track_copy.account');

-- Changes by statements with the setting off are not captured; changes by their triggers are.
CREATE TABLE track_copy.note (accountid uuid);
CREATE FUNCTION track_copy.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE track_copy.account SET description = 'noted' WHERE accountid = NEW.accountid AND description IS DISTINCT FROM 'noted';
  RETURN NULL;
END $$;
CREATE FUNCTION track_copy.shout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.name := upper(NEW.name);
  RETURN NEW;
END $$;
CREATE TRIGGER note AFTER UPDATE OF name ON track_copy.account FOR EACH ROW EXECUTE FUNCTION track_copy.note();
CREATE TRIGGER shout BEFORE UPDATE ON track_copy.account FOR EACH ROW EXECUTE FUNCTION track_copy.shout();
UPDATE track_copy.account SET numberofemployees = 60 WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.account');
UPDATE track_copy.account SET name = 'named' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.account');
SET dataverse_fdw.capture = off;
UPDATE track_copy.account SET name = 'again' WHERE accountid = pg_temp.i(7);
SELECT * FROM pg_temp.captured('track_copy.account');
RESET dataverse_fdw.capture;
-- only the owner may set it, and the owner's functions ignore settings of others
CREATE ROLE regress_track_clerk;
GRANT USAGE ON SCHEMA track_copy TO regress_track_clerk;
GRANT SELECT, INSERT, UPDATE, DELETE ON track_copy.account TO regress_track_clerk;
CREATE FUNCTION track_copy.rename(integer, text) RETURNS void LANGUAGE sql SECURITY DEFINER AS
  $$ UPDATE track_copy.account SET name = $2 WHERE accountid = ('00000000-0000-4000-8000-' || lpad($1::text, 12, '0'))::uuid $$;
SET ROLE regress_track_clerk;
SET dataverse_fdw.capture = off;
UPDATE track_copy.account SET name = 'hidden' WHERE accountid = pg_temp.i(7);
INSERT INTO track_copy.account (name) VALUES ('hidden');
DELETE FROM track_copy.account WHERE accountid = pg_temp.i(7);
SELECT track_copy.rename(7, 'hidden');
RESET dataverse_fdw.capture;
UPDATE track_copy.account SET name = 'seen' WHERE accountid = pg_temp.i(7);
RESET ROLE;
SELECT name FROM track_copy.account WHERE lower(name) IN ('hidden', 'seen');
SELECT * FROM pg_temp.captured('track_copy.account');
DROP FUNCTION track_copy.rename;
DROP OWNED BY regress_track_clerk;
DROP ROLE regress_track_clerk;
DROP TRIGGER note ON track_copy.account;
DROP TRIGGER shout ON track_copy.account;
-- nor are writes of pull: new, changed, and deleted rows, and those found by a comparison
UPDATE track_dv.account SET name = 'from there' WHERE accountid IN (pg_temp.i(6), pg_temp.i(7));
DELETE FROM track_dv.account WHERE accountid = pg_temp.i(2);
INSERT INTO track_dv.account (accountid, name) VALUES (pg_temp.i(30), 'there');
CALL dataverse.pull('track_dv.account', 'track_copy.account',
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
SELECT inserted, updated, deleted FROM dataverse.runs ORDER BY id DESC LIMIT 1;
CALL dataverse.pull('track_dv.account', 'track_copy.account', sweep => '0',
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
CALL dataverse.pull('track_dv.account', 'track_copy.account', "full" => true,
  columns => '{accountid, name, numberofemployees, description, versionnumber}');
SELECT inserted, updated, deleted > 3 AS deleted FROM dataverse.runs ORDER BY id DESC LIMIT 2;
SELECT * FROM pg_temp.captured('track_copy.account');

-- TRUNCATE would not report the removed rows.
TRUNCATE track_copy.account;
SET dataverse_fdw.capture = off;
TRUNCATE track_copy.account;
RESET dataverse_fdw.capture;

-- Replicas fire triggers only if configured.
SET session_replication_role = replica;
UPDATE track_copy.account SET name = 'replica' WHERE accountid = pg_temp.i(6);
ALTER TABLE track_copy.account ENABLE ALWAYS TRIGGER dataverse_update;
UPDATE track_copy.account SET name = 'always' WHERE accountid = pg_temp.i(7);
RESET session_replication_role;
CALL dataverse.track('track_copy.account');
SELECT tgenabled FROM pg_trigger WHERE tgrelid = 'track_copy.account'::regclass AND tgname = 'dataverse_update';
SELECT * FROM pg_temp.captured('track_copy.account');
ALTER TABLE track_copy.account DISABLE TRIGGER dataverse_update;
SET client_min_messages = warning;
CALL dataverse.track('track_copy.account');
SET client_min_messages = error;
ALTER TABLE track_copy.account ENABLE TRIGGER dataverse_update;

-- Columns: dropped ones, generated ones, the user's own, and new ones; names in quotes.
CREATE TABLE track_copy."Quoted Name" (
  gone integer, "accountid" uuid PRIMARY KEY, mine text, name text, length integer GENERATED ALWAYS AS (length(name)) STORED,
  "Odd Name" text, versionnumber bigint, numberofemployees integer);
ALTER TABLE track_copy."Quoted Name" DROP COLUMN gone;
ALTER FOREIGN TABLE track_dv.account RENAME COLUMN telephone1 TO "Odd Name";
CALL dataverse.pull('track_dv.account', 'track_copy."Quoted Name"');
CALL dataverse.track('track_copy."Quoted Name"');
UPDATE track_copy."Quoted Name" SET name = 'named', "Odd Name" = 'odd', mine = 'mine' WHERE accountid = pg_temp.i(6);
UPDATE track_copy."Quoted Name" SET mine = 'more' WHERE accountid = pg_temp.i(7);
SELECT * FROM pg_temp.captured('track_copy."Quoted Name"');
ALTER TABLE track_copy."Quoted Name" DROP COLUMN numberofemployees;
ALTER TABLE track_copy."Quoted Name" ADD COLUMN fax text;
UPDATE track_copy."Quoted Name" SET name = 'again', fax = '1' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy."Quoted Name"');
CALL dataverse.pull('track_dv.account', 'track_copy."Quoted Name"');
UPDATE track_copy."Quoted Name" SET fax = '2' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy."Quoted Name"');
ALTER TABLE track_copy."Quoted Name" RENAME COLUMN versionnumber TO v;
UPDATE track_copy."Quoted Name" SET fax = '3' WHERE accountid = pg_temp.i(6);
ALTER TABLE track_copy."Quoted Name" RENAME COLUMN v TO versionnumber;
-- a copied column that is recreated as a generated one does not count, either
ALTER TABLE track_copy."Quoted Name" DROP COLUMN "Odd Name";
ALTER TABLE track_copy."Quoted Name" ADD COLUMN "Odd Name" text GENERATED ALWAYS AS ('odd ' || fax) STORED;
UPDATE track_copy."Quoted Name" SET fax = 'g' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy."Quoted Name"');
-- another name for the table, and another search path
ALTER TABLE track_copy."Quoted Name" RENAME TO renamed;
CREATE SCHEMA track_shadow;
CREATE TABLE track_shadow.local_changes (copy bigint);
CREATE TABLE track_shadow.copies (id bigint);
SET search_path = track_shadow, track_copy;
UPDATE renamed SET fax = '4' WHERE accountid = pg_temp.i(6);
CALL dataverse.track('renamed');
RESET search_path;
SELECT * FROM pg_temp.captured('track_copy.renamed');
DROP SCHEMA track_shadow CASCADE;

-- Partitions: statements on the table, on partitions, and rows that move.
CREATE TABLE track_copy.parted (versionnumber bigint, accountid uuid PRIMARY KEY, name text, numberofemployees integer) PARTITION BY RANGE (accountid);
CREATE TABLE track_copy.part_a PARTITION OF track_copy.parted FOR VALUES FROM (MINVALUE) TO ('00000000-0000-4000-8000-000000000007');
-- other numbers of the same columns
CREATE TABLE track_copy.part_b (x integer, name text, numberofemployees integer, accountid uuid NOT NULL, versionnumber bigint);
ALTER TABLE track_copy.part_b DROP COLUMN x;
ALTER TABLE track_copy.parted ATTACH PARTITION track_copy.part_b FOR VALUES FROM ('00000000-0000-4000-8000-000000000007') TO ('00000000-0000-4000-8000-000000001000');
CALL dataverse.pull('track_dv.account', 'track_copy.parted');
CALL dataverse.track('track_copy.parted');
SELECT tgrelid::regclass, count(*) FROM pg_trigger WHERE tgfoid = 'dataverse_private.capture'::regproc AND tgrelid::regclass::text ~ 'part' GROUP BY 1 ORDER BY tgrelid::regclass::text;
INSERT INTO track_copy.parted (name, accountid) VALUES ('routed', pg_temp.i(40));
INSERT INTO track_copy.part_b (name, accountid) VALUES ('direct', pg_temp.i(41));
UPDATE track_copy.parted SET name = 'both' WHERE accountid IN (pg_temp.i(6), pg_temp.i(7));
UPDATE track_copy.part_a SET numberofemployees = 600 WHERE accountid = pg_temp.i(6);
UPDATE track_copy.part_b SET numberofemployees = 700 WHERE accountid = pg_temp.i(7);
SELECT * FROM pg_temp.captured('track_copy.parted');
UPDATE track_copy.parted SET accountid = pg_temp.i(2) WHERE accountid = pg_temp.i(40);
UPDATE track_copy.parted SET accountid = pg_temp.i(right(accountid::text, 4)::int + 36), name = 'moved' WHERE accountid IN (pg_temp.i(2), pg_temp.i(7));
DELETE FROM track_copy.parted WHERE accountid = pg_temp.i(41);
DELETE FROM track_copy.part_a WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.parted');
TRUNCATE track_copy.part_a;
-- a trigger that keeps a row from its new partition
CREATE TABLE track_copy.listed (accountid uuid, name text, versionnumber bigint, numberofemployees integer, side integer) PARTITION BY LIST (side);
CREATE TABLE track_copy.listed_0 PARTITION OF track_copy.listed FOR VALUES IN (0);
CREATE TABLE track_copy.listed_1 PARTITION OF track_copy.listed DEFAULT;
CREATE TABLE track_copy.one (accountid uuid PRIMARY KEY, name text, versionnumber bigint, numberofemployees integer, side integer);
INSERT INTO dataverse_private.copies (foreign_table, target, role, columns, id_column, version_column)
  SELECT foreign_table, 'track_copy.listed', role, '{accountid, name, versionnumber, numberofemployees}', 'accountid', 'versionnumber'
  FROM dataverse_private.copies WHERE target = 'track_copy.account';
INSERT INTO track_copy.listed SELECT pg_temp.i(i), 'n', 2000, i, 0 FROM generate_series(1, 6) AS i;
CALL dataverse.track('track_copy.listed');
CREATE FUNCTION track_copy.lose() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE WHEN NEW.numberofemployees <> 2 THEN NEW END;
END $$;
CREATE TRIGGER lose BEFORE INSERT ON track_copy.listed_1 FOR EACH ROW EXECUTE FUNCTION track_copy.lose();
UPDATE track_copy.listed SET side = 1, name = 'm' WHERE numberofemployees < 5;
SELECT * FROM pg_temp.captured('track_copy.listed');
-- new partitions are found by another call, and detached ones have no copy any more
CREATE TABLE track_copy.part_c PARTITION OF track_copy.parted FOR VALUES FROM ('00000000-0000-4000-8000-000000001000') TO (MAXVALUE);
INSERT INTO track_copy.part_c (accountid, name) VALUES (pg_temp.i(1001), 'not seen');
INSERT INTO track_copy.parted (accountid, name) VALUES (pg_temp.i(1002), 'seen');
CALL dataverse.track('track_copy.parted');
INSERT INTO track_copy.part_c (accountid, name) VALUES (pg_temp.i(1003), 'seen');
SELECT * FROM pg_temp.captured('track_copy.parted');
CALL dataverse.untrack('track_copy.part_c');
ALTER TABLE track_copy.parted DETACH PARTITION track_copy.part_c;
UPDATE track_copy.part_c SET name = 'detached';
CALL dataverse.untrack('track_copy.part_c');
UPDATE track_copy.part_c SET name = 'detached';
SELECT * FROM pg_temp.captured('track_copy.parted');
CALL dataverse.pull('track_dv.account', 'track_copy.part_a');
CALL dataverse.track('track_copy.part_a');
SELECT dataverse.forget_copy('track_copy.part_a');
CALL dataverse.track('track_copy.parted');

-- Children, and a statement on the parent that affects them.
CREATE TABLE track_copy.parent (accountid uuid PRIMARY KEY, name text, versionnumber bigint);
CREATE TABLE track_copy.child (more text) INHERITS (track_copy.parent);
CALL dataverse.pull('track_dv.account', 'track_copy.parent', deletes => 'ignore');
CALL dataverse.track('track_copy.parent');
INSERT INTO track_copy.child (more, accountid, name) VALUES ('m', pg_temp.i(50), 'child');
UPDATE track_copy.child SET more = 'n';
UPDATE track_copy.parent SET name = 'both' WHERE accountid IN (pg_temp.i(50), pg_temp.i(6));
SELECT * FROM pg_temp.captured('track_copy.parent');

-- A copy that is a partition itself captures statements on the table above it.
CREATE TABLE track_copy.crm (side text NOT NULL, accountid uuid NOT NULL DEFAULT gen_random_uuid(), name text, versionnumber bigint) PARTITION BY LIST (side);
CREATE TABLE track_copy.crm_1 PARTITION OF track_copy.crm FOR VALUES IN ('1');
CREATE TABLE track_copy.crm_2 PARTITION OF track_copy.crm FOR VALUES IN ('2');
ALTER TABLE track_copy.crm_1 ALTER side SET DEFAULT '1', ADD UNIQUE (accountid);
ALTER TABLE track_copy.crm_2 ALTER side SET DEFAULT '2', ADD UNIQUE (accountid);
CALL dataverse.pull('track_dv.account', 'track_copy.crm_1');
CALL dataverse.pull('track_dv.account', 'track_copy.crm_2', deletes => 'ignore');
CALL dataverse.track('track_copy.crm_1');
UPDATE track_copy.crm SET name = 'above' WHERE accountid IN (pg_temp.i(6), pg_temp.i(7));
UPDATE track_copy.crm_1 SET name = 'self' WHERE accountid = pg_temp.i(6);
UPDATE track_copy.crm_1 SET name = name;
INSERT INTO track_copy.crm (side, name) VALUES ('1', 'new'), ('2', 'elsewhere');
DELETE FROM track_copy.crm_2 WHERE accountid = pg_temp.i(7);
UPDATE track_copy.crm SET side = '2' WHERE accountid = pg_temp.i(7);
DELETE FROM track_copy.crm WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.crm_1');
TRUNCATE track_copy.crm;
-- a copy that becomes a partition later gets triggers of the other kind
SELECT dataverse.forget_copy('track_copy.crm_1');
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'track_copy.crm_1'::regclass;
ALTER TABLE track_copy.crm DETACH PARTITION track_copy.crm_1;
CALL dataverse.pull('track_dv.account', 'track_copy.crm_1');
CALL dataverse.track('track_copy.crm_1');
ALTER TABLE track_copy.crm ATTACH PARTITION track_copy.crm_1 FOR VALUES IN ('1');
CALL dataverse.track('track_copy.crm_1');
UPDATE track_copy.crm SET name = 'above' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.crm_1');
ALTER TABLE track_copy.crm DETACH PARTITION track_copy.crm_1;
CALL dataverse.track('track_copy.crm_1');
SELECT tgname, tgtype FROM pg_trigger WHERE tgrelid = 'track_copy.crm_1'::regclass ORDER BY 1;
UPDATE track_copy.crm_1 SET name = 'alone' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.crm_1');

-- Foreign tables have no transition tables.
CREATE TABLE track_copy.mixed (LIKE track_copy.parent) PARTITION BY LIST (accountid);
CREATE FOREIGN TABLE track_copy.mixed_f PARTITION OF track_copy.mixed DEFAULT SERVER track OPTIONS (entity_set 'accounts');
CREATE UNIQUE INDEX ON ONLY track_copy.mixed (accountid);
INSERT INTO dataverse_private.copies (foreign_table, target, role, columns) SELECT foreign_table, 'track_copy.mixed', role, columns
  FROM dataverse_private.copies WHERE target = 'track_copy.parent';
CALL dataverse.track('track_copy.mixed');

-- Triggers created by others.
CREATE ROLE regress_track_writer;
CREATE ROLE regress_track_forger;
GRANT USAGE, CREATE ON SCHEMA track_copy TO regress_track_writer, regress_track_forger;
GRANT SELECT, UPDATE (name) ON track_copy.account TO regress_track_writer;
SELECT id AS bare FROM dataverse_private.copies WHERE target = 'track_copy.bare' \gset
SET ROLE regress_track_writer;
UPDATE track_copy.account SET name = 'by another role' WHERE accountid = pg_temp.i(6);
UPDATE track_copy.account SET numberofemployees = 1;
CALL dataverse.track('track_copy.account');
CALL dataverse.untrack('track_copy.account');
TABLE dataverse_private.local_changes;
INSERT INTO dataverse_private.local_changes VALUES (1, gen_random_uuid(), 'D', '{}', 1);
SELECT dataverse_private.copy_track(:bare, NULL, NULL);
SELECT dataverse_private.copy_forget_changes(:bare);
SET ROLE regress_track_forger;
CREATE TABLE track_copy.forged (accountid uuid, name text, versionnumber bigint);
CREATE TRIGGER dataverse_insert AFTER INSERT ON track_copy.forged REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION dataverse_private.capture();
CREATE TRIGGER dataverse_delete AFTER DELETE ON track_copy.forged FOR EACH ROW EXECUTE FUNCTION dataverse_private.capture();
INSERT INTO track_copy.forged VALUES (gen_random_uuid());
ALTER TABLE track_copy.forged DISABLE TRIGGER dataverse_insert;
INSERT INTO track_copy.forged VALUES (gen_random_uuid());
DELETE FROM track_copy.forged;
SELECT dataverse_private.capture();
CREATE TABLE track_copy.forged_child () INHERITS (track_copy.account);
RESET ROLE;
SELECT * FROM pg_temp.captured('track_copy.account');
-- on a tracked table, only as they are intended
CREATE TRIGGER a BEFORE UPDATE ON track_copy.account FOR EACH ROW EXECUTE FUNCTION dataverse_private.capture();
UPDATE track_copy.account SET name = 'a';
DROP TRIGGER a ON track_copy.account;
CREATE TRIGGER a AFTER UPDATE ON track_copy.account REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION dataverse_private.capture();
UPDATE track_copy.account SET name = 'a';
-- track() replaces triggers that differ
CALL dataverse.track('track_copy.account');
UPDATE track_copy.account SET name = 'a' WHERE accountid = pg_temp.i(6);
SELECT * FROM pg_temp.captured('track_copy.account');

-- A table that was dropped and recreated is independent of the old one's changes.
UPDATE track_copy.wide SET name = 'dropped' WHERE accountid = pg_temp.i(6);
DROP TABLE track_copy.wide;
CALL dataverse.pull('track_dv.account', 'track_copy.wide');
SELECT id_column FROM dataverse_private.copies WHERE target = 'track_copy.wide';
SELECT count(*) FROM dataverse_private.local_changes;

-- untrack() leaves nothing behind.
UPDATE track_copy.account SET name = 'b' WHERE accountid = pg_temp.i(6);
SET client_min_messages = warning;
CALL dataverse.untrack('track_copy.account');
SET client_min_messages = error;
UPDATE track_copy.account SET name = 'c' WHERE accountid = pg_temp.i(6);
SELECT count(*) FROM dataverse_private.local_changes;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'track_copy.account'::regclass;
SELECT count(*) FROM pg_attrdef WHERE adrelid = 'track_copy.account'::regclass;
SELECT id_column, version_column FROM dataverse_private.copies WHERE target = 'track_copy.account';
TRUNCATE track_copy.account;
-- the user's own default is kept
SELECT count(*) FROM pg_attrdef WHERE adrelid = 'track_copy.crm_1'::regclass;
CALL dataverse.untrack('track_copy.crm_1');
SELECT count(*) FROM pg_attrdef WHERE adrelid = 'track_copy.crm_1'::regclass;

-- Generated ids ascend in the order of SQL Server.
SELECT count(*), count(*) FILTER (WHERE right(id::text, 12) || substr(id::text, 20, 4) > right(before::text, 12) || substr(before::text, 20, 4)) AS ascending
FROM (SELECT id, lag(id) OVER (ORDER BY i) AS before FROM (SELECT i, dataverse.new_id() AS id FROM generate_series(1, 100) AS i) AS a) AS b;

SELECT count(dataverse.forget_copy(target)) FROM dataverse_private.copies;
DROP SCHEMA track_copy, track_dv CASCADE;
DROP ROLE regress_track_writer, regress_track_forger;
DROP SERVER track CASCADE;
