--
-- IMPORT FOREIGN SCHEMA and dataverse.import_diff, against dvsim's own tables.
--
\set VERBOSITY default
\getenv url DVSIM_URL
CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url :'url', authority :'url', tenant_id 'any');
CREATE USER MAPPING FOR CURRENT_USER SERVER crm
  OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA dv;

-- the imported columns, without names that are unchanged
CREATE VIEW columns AS
  SELECT c.relnamespace::regnamespace::text AS schema, c.relname AS "table", a.attnum,
         a.attname AS "column", format_type(a.atttypid, a.atttypmod) AS type,
         array_to_string(ARRAY(SELECT o FROM unnest(a.attfdwoptions) o
                               WHERE o <> 'column=' || a.attname), ' ') AS options,
         a.attnotnull, a.attcollation, col_description(c.oid, a.attnum) AS comment
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relkind = 'f' AND a.attnum > 0 AND NOT a.attisdropped;

-- every type
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO dv;
SELECT "column", type, options FROM columns WHERE "table" = 'new_alltypes' ORDER BY attnum;
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'dv.new_alltypes'::regclass;

-- tables of all kinds
IMPORT FOREIGN SCHEMA dataverse
  LIMIT TO (account, task, new_meter, new_reading, new_account_contact, systemuser)
  FROM SERVER crm INTO dv;
SELECT ftrelid::regclass AS "table", ftoptions FROM pg_foreign_table ORDER BY ftrelid::regclass::text COLLATE "C";
SELECT "column", type, options FROM columns
WHERE "table" = 'new_account_contact' ORDER BY attnum;
SELECT "column", type, options FROM columns
WHERE "table" = 'task' AND ("column" LIKE 'regarding%' OR "column" LIKE 'owner%') ORDER BY attnum;

-- a column that lives in another table has no reliable length
SELECT "column", type FROM columns
WHERE "table" = 'account' AND "column" IN ('name', 'address1_city') ORDER BY attnum;

-- a guarantee that the service does not give is not declared
SELECT count(*) AS columns, count(*) FILTER (WHERE attnotnull) AS not_null FROM columns;

-- generated ids have a default
SELECT d.adrelid::regclass AS "table", a.attname AS "column", pg_get_expr(d.adbin, d.adrelid) AS "default"
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE d.adrelid IN (SELECT ftrelid FROM pg_foreign_table) ORDER BY d.adrelid::regclass::text COLLATE "C";

-- comments: display names and choices
SELECT obj_description('dv.account'::regclass, 'pg_class') AS account;
SELECT "column", comment FROM columns
WHERE "table" = 'account'
  AND "column" IN ('accountid', 'emailaddress1', 'accountcategorycode', 'creditonhold', 'owneridtype')
ORDER BY attnum;

-- no change since then
SELECT * FROM dataverse.import_diff('dv');

-- the remaining tables
IMPORT FOREIGN SCHEMA dataverse
  EXCEPT (account, task, new_meter, new_reading, new_account_contact, systemuser, new_alltypes)
  FROM SERVER crm INTO dv;
SELECT string_agg(relname, ' ' ORDER BY relname COLLATE "C") AS tables
FROM pg_class WHERE relnamespace = 'dv'::regnamespace;
SELECT * FROM dataverse.import_diff('dv');

-- the tables of a solution
CREATE SCHEMA energy;
IMPORT FOREIGN SCHEMA new_energy FROM SERVER crm INTO energy;
SELECT string_agg(relname, ' ' ORDER BY relname COLLATE "C") AS tables
FROM pg_class WHERE relnamespace = 'energy'::regnamespace;
DROP SCHEMA energy CASCADE;

-- some of them; the service ignores case
CREATE SCHEMA energy;
IMPORT FOREIGN SCHEMA "New_Energy" LIMIT TO (new_meter, task) FROM SERVER crm INTO energy;
IMPORT FOREIGN SCHEMA new_energy EXCEPT (new_meter, account, contact) FROM SERVER crm INTO energy;
SELECT string_agg(relname, ' ' ORDER BY relname COLLATE "C") AS tables
FROM pg_class WHERE relnamespace = 'energy'::regnamespace;
DROP SCHEMA energy CASCADE;

-- missing tables
CREATE SCHEMA other;
IMPORT FOREIGN SCHEMA nowhere FROM SERVER crm INTO other;
IMPORT FOREIGN SCHEMA "it's" FROM SERVER crm INTO other;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (acount, nothing_like_it) FROM SERVER crm INTO other;
SELECT count(*) FROM columns WHERE schema = 'other';

-- without labels and read-only columns
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (opportunity) FROM SERVER crm INTO other
  OPTIONS (import_labels 'on', import_readonly 'off', import_comments 'off');
SELECT "column", type, options FROM columns WHERE schema = 'other' ORDER BY attnum;
SELECT count(*) AS comments FROM columns WHERE schema = 'other' AND comment IS NOT NULL;
SELECT * FROM dataverse.import_diff('other');

-- text without lengths, which do not count as drift
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (contact) FROM SERVER crm INTO other OPTIONS (import_text_lengths 'off');
SELECT type, count(*) > 0 AS some FROM columns WHERE schema = 'other' AND "table" = 'contact' AND type ~ 'text|char' GROUP BY 1;
SELECT * FROM dataverse.import_diff('other');
ALTER FOREIGN TABLE other.contact DROP lastname;
SELECT drift, there, statement FROM dataverse.import_diff('other');
DROP FOREIGN TABLE other.contact;

-- a type that is shorter than in Dataverse
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO other;
ALTER FOREIGN TABLE other.account ALTER sic TYPE varchar(5);
SELECT column_name, statement FROM dataverse.import_diff('other') WHERE column_name = 'sic';

-- options
IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO other OPTIONS (import_label 'on');
IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO other OPTIONS (import_labels 'perhaps');

-- all kinds of drift, and the statements that repair it
DROP FOREIGN TABLE dv.team;
CREATE FOREIGN TABLE dv.gone (goneid uuid) SERVER crm;
CREATE FOREIGN TABLE dv.by_hand (accountid uuid, name varchar(160), parent uuid OPTIONS (column 'parentaccountid'))
  SERVER crm OPTIONS (table 'account');
ALTER FOREIGN TABLE dv.account OPTIONS (SET entity_set 'acounts');
ALTER FOREIGN TABLE dv.account RENAME name TO "the name";
ALTER FOREIGN TABLE dv.account ALTER "the name" TYPE varchar(80);
ALTER FOREIGN TABLE dv.account DROP revenue, DROP owneridtype, ADD invented integer;
ALTER FOREIGN TABLE dv.account ALTER primarycontactid OPTIONS (SET navigation 'x', DROP target_set),
  ALTER fax OPTIONS (ADD readonly 'yes');
SELECT foreign_table, column_name, drift, here, there, statement
FROM dataverse.import_diff('dv') WHERE foreign_table <> 'by_hand';
SELECT DISTINCT drift FROM dataverse.import_diff('dv') WHERE foreign_table = 'by_hand';
DROP FOREIGN TABLE dv.by_hand;
SELECT string_agg(statement, ';') AS repair FROM dataverse.import_diff('dv') \gset
:repair;
SELECT * FROM dataverse.import_diff('dv');

-- tables that were not imported are new only on request
SELECT foreign_table, drift FROM dataverse.import_diff('other');
SELECT count(*) FROM dataverse.import_diff('other', true) WHERE drift = 'new table';
SELECT * FROM dataverse.import_diff('nowhere');
SELECT * FROM dataverse.import_diff(NULL);

-- it requires the privilege to use the server
CREATE ROLE regress_dataverse;
SET ROLE regress_dataverse;
SELECT * FROM dataverse.import_diff('other');
RESET ROLE;
DROP ROLE regress_dataverse;

SET client_min_messages = warning;
DROP VIEW columns;
DROP SCHEMA dv, other CASCADE;
DROP SERVER crm CASCADE;
