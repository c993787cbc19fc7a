--
-- The extension itself: the objects that CREATE EXTENSION creates, the
-- remainder after DROP EXTENSION, and refusals of missing features.
--
\set VERBOSITY default

-- the library is that of the installed script, and every version is a version
SELECT v.extension = e.extversion AS same_version,
       v.postgresql = current_setting('server_version') AS postgresql,
       v.libcurl ~ '^\d+\.\d+' AS libcurl,
       v.tls ~ '\d' AS tls,
       v.json_c ~ '^\d+\.\d+' AS json_c,
       coalesce(v.libdeflate ~ '^\d+\.\d+', true) AS libdeflate
FROM pg_extension e, dataverse.version() v
WHERE e.extname = 'dataverse_fdw';

-- any role may ask
CREATE ROLE regress_dataverse;
SET ROLE regress_dataverse;
SELECT count(*) FROM dataverse.version();
RESET ROLE;
DROP ROLE regress_dataverse;

-- every object has a comment; those for users are in schema dataverse (or in none), and others in
-- dataverse_private
\pset format unaligned
\pset footer off
SELECT pg_describe_object(classid, objid, 0) AS object,
       obj_description(objid, classid::regclass::name) AS comment
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dataverse_fdw')
  AND (pg_describe_object(classid, objid, 0) !~ 'dataverse_private\.' OR obj_description(objid, classid::regclass::name) IS NULL)
  AND classid <> 'pg_type'::regclass	-- of views and tables, which are members from 17 on
  AND classid <> 'pg_collation'::regclass	-- a member where the database and the server allow it
ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";
\pset footer on

-- no function runs as its owner
SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.prosecdef AND p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace);
-- those in this language do, for roles that the copy belongs to; those without a copy check their
-- caller by themselves
\pset tuples_only on
SELECT p.oid::regprocedure || CASE p.proargnames[1] WHEN 'copy' THEN '' ELSE ' checks its caller' END
FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
WHERE l.lanname = 'dataverse_state' ORDER BY p.oid::regprocedure::text COLLATE "C";
-- everyone may call these as well, which are in C
SELECT p.oid::regprocedure FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
WHERE p.pronamespace = 'dataverse_private'::regnamespace AND l.lanname = 'c' AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text COLLATE "C";
\pset tuples_only off
-- functions of state do not call each other, not even by way of other functions
WITH RECURSIVE function AS (
  SELECT p.oid, 'dataverse_private.' || p.proname || '(' AS call, p.prosrc, l.lanname = 'dataverse_state' AS is_of_state
  FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang WHERE p.pronamespace = 'dataverse_private'::regnamespace),
called AS (
  SELECT o.oid, o.prosrc, o.is_of_state FROM function AS f JOIN function AS o ON position(o.call IN f.prosrc) > 0 WHERE f.is_of_state
  UNION
  SELECT o.oid, o.prosrc, o.is_of_state FROM called AS c JOIN function AS o ON position(o.call IN c.prosrc) > 0)
SELECT c.oid::regprocedure AS called FROM called AS c WHERE c.is_of_state;
-- other functions that name the tables of state cannot be called by everyone
SELECT p.oid::regprocedure AS function
FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang, pg_class AS c
WHERE p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND l.lanname IN ('sql', 'plpgsql')
  AND c.relnamespace = 'dataverse_private'::regnamespace AND c.relkind = 'r' AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
  AND p.prosrc ~* ('\m(from|into|update|join|using) dataverse_private\.' || c.relname || '\M');
\pset format aligned

-- ... and so has every column of the views that users look at
SELECT c.relname, a.attname
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'dataverse'::regnamespace AND c.relkind = 'v' AND col_description(c.oid, a.attnum) IS NULL
  AND obj_description(c.oid, 'pg_class') !~ 'use the view|for dataverse'
ORDER BY 1, a.attnum;

-- the function of that name in pg_catalog is not affected
SELECT obj_description('pg_catalog.version()'::regprocedure, 'pg_proc');

-- it stays in its schema
ALTER EXTENSION dataverse_fdw SET SCHEMA public;

-- missing features are refused, without side effects
CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url 'https://contoso.crm.dynamics.com');
CREATE USER MAPPING FOR CURRENT_USER SERVER crm
  OPTIONS (client_id 'app', client_secret 'secret');
CREATE FOREIGN TABLE account (accountid uuid, name text)
  SERVER crm OPTIONS (entity_set 'accounts');
INSERT INTO account (name) VALUES ('Contoso');
UPDATE account SET name = 'Contoso';
DELETE FROM account;
TRUNCATE account;
COPY account FROM stdin;
\.
ANALYZE account;

-- DROP removes dependent objects, and only if requested
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION dataverse_fdw;
DROP EXTENSION dataverse_fdw CASCADE;
SELECT count(*) FROM pg_foreign_data_wrapper WHERE fdwname = 'dataverse_fdw';
CREATE EXTENSION dataverse_fdw;
SELECT count(*) FROM dataverse.version();
