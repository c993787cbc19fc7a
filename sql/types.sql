--
-- Values of all types on their way to Dataverse and back, and values that it
-- cannot store.
--
\set VERBOSITY default
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER types_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L)', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
CREATE USER MAPPING FOR CURRENT_USER SERVER types_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA types;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_alltypes, new_meter, team)
  FROM SERVER types_crm INTO types;
SET search_path = types;

-- targets of lookups
INSERT INTO account (accountid, name) VALUES ('a0000000-0000-4000-8000-000000000001', 'Contoso');
INSERT INTO contact (contactid, lastname) VALUES ('c0000000-0000-4000-8000-000000000001', 'Neil');
INSERT INTO new_meter (new_meterid, new_name, new_serial)
  VALUES ('e0000000-0000-4000-8000-000000000001', 'Meter', 'S-1');
INSERT INTO team (teamid, name) VALUES ('f0000000-0000-4000-8000-000000000001', 'Sales');

-- three rows: existing values, nulls, and limits
CREATE TABLE here AS
SELECT new_alltypesid, new_name, new_text, new_json, new_memo, new_integer, new_bigint, new_decimal,
       new_decimal10, new_money, new_double, new_boolean, new_choice, new_choices, new_datetime, new_date,
       new_zonefree, new_meterid, new_customerid, new_customeridtype, new_relatedid, new_relatedidtype,
       new_tablename
FROM new_alltypes LIMIT 0;
INSERT INTO here VALUES
  ('b0000000-0000-4000-8000-000000000001', 'row', 'Zoë says "hello" \ €', '{"a": "b"}',
   E'two\nlines,\ta tab', 42, 9007199254740993, 12.5, 0.1234567891, -1234.56, 47.63958, true, 100000001,
   '{1,2}', '2026-11-18 12:34:56+00', '2024-02-29', '2026-11-18 12:34:56',
   'e0000000-0000-4000-8000-000000000001', 'a0000000-0000-4000-8000-000000000001', 'account',
   'c0000000-0000-4000-8000-000000000001', 'contact', 'account'),
  ('b0000000-0000-4000-8000-000000000003', repeat('x', 100), repeat('€', 100), '[]', repeat('"\', 5000),
   -2147483648, -9223372036854775808, -100000000000, 99999999999.9999999999, 922337203685477, -1e-5, false,
   100000002, '{1}', '1753-01-01 00:00+00', '9999-12-31', '9999-12-31 23:59:59', NULL,
   'c0000000-0000-4000-8000-000000000001', 'contact', 'e0000000-0000-4000-8000-000000000001', 'new_meter', '');
INSERT INTO here VALUES ('b0000000-0000-4000-8000-000000000002');
INSERT INTO new_alltypes (new_alltypesid, new_name, new_text, new_json, new_memo, new_integer, new_bigint,
    new_decimal, new_decimal10, new_money, new_double, new_boolean, new_choice, new_choices, new_datetime,
    new_date, new_zonefree, new_meterid, new_customerid, new_customeridtype, new_relatedid,
    new_relatedidtype, new_tablename)
  SELECT * FROM here;
CREATE VIEW there AS
SELECT new_alltypesid, new_name, new_text, new_json, new_memo, new_integer, new_bigint, new_decimal,
       new_decimal10, new_money, new_double, new_boolean, new_choice, new_choices, new_datetime, new_date,
       new_zonefree, new_meterid, new_customerid, new_customeridtype, new_relatedid, new_relatedidtype,
       new_tablename
FROM new_alltypes;
-- Dataverse does not distinguish '' and null
UPDATE here SET new_tablename = NULL WHERE new_tablename = '';
SELECT count(*) FROM here;
SELECT count(*) FROM (SELECT * FROM here EXCEPT SELECT * FROM there) s;
SELECT count(*) FROM (SELECT * FROM there EXCEPT SELECT * FROM here) s;

-- a column set to null gets null, an omitted one its default
INSERT INTO new_alltypes (new_alltypesid, new_yesno) VALUES ('b0000000-0000-4000-8000-000000000004', NULL);
INSERT INTO new_alltypes (new_alltypesid) VALUES ('b0000000-0000-4000-8000-000000000005');
SELECT new_alltypesid, new_yesno, new_choicedefault FROM new_alltypes
  WHERE new_alltypesid >= 'b0000000-0000-4000-8000-000000000004' ORDER BY 1;

-- everything to null, including lookups with several targets
UPDATE new_alltypes SET new_name = NULL, new_text = NULL, new_json = NULL, new_memo = NULL, new_integer = NULL,
    new_bigint = NULL, new_decimal = NULL, new_decimal10 = NULL, new_money = NULL, new_double = NULL,
    new_boolean = NULL, new_choice = NULL, new_choices = '{}', new_datetime = NULL, new_date = NULL,
    new_zonefree = NULL, new_meterid = NULL, new_customerid = NULL, new_relatedid = NULL, new_tablename = NULL
  WHERE new_alltypesid < 'b0000000-0000-4000-8000-000000000004';
SELECT count(*) FROM there t
  WHERE new_alltypesid < 'b0000000-0000-4000-8000-000000000004' AND to_jsonb(t) - 'new_alltypesid' <>
    (SELECT to_jsonb(h) - 'new_alltypesid' FROM here h WHERE h.new_alltypesid = 'b0000000-0000-4000-8000-000000000002');

-- from one target to another
UPDATE new_alltypes SET new_customerid = 'c0000000-0000-4000-8000-000000000001', new_customeridtype = 'contact'
  WHERE new_alltypesid = 'b0000000-0000-4000-8000-000000000001';
SELECT new_customerid, new_customeridtype FROM new_alltypes
  WHERE new_alltypesid = 'b0000000-0000-4000-8000-000000000001';

-- images, owners, a creation in the past
INSERT INTO new_alltypes (new_alltypesid, new_image, ownerid, owneridtype, overriddencreatedon)
  VALUES ('b0000000-0000-4000-8000-000000000006', '\x89504e470d0a1a0a00ff', 'f0000000-0000-4000-8000-000000000001',
          'team', '2001-02-03');
SELECT new_image, ownerid, owneridtype, createdon FROM new_alltypes
  WHERE new_alltypesid = 'b0000000-0000-4000-8000-000000000006';
UPDATE new_alltypes SET new_image = NULL WHERE new_alltypesid = 'b0000000-0000-4000-8000-000000000006';
SELECT new_image FROM new_alltypes WHERE new_alltypesid = 'b0000000-0000-4000-8000-000000000006';

-- keys in addresses: the second time each row is found
ALTER FOREIGN TABLE new_meter OPTIONS (ADD insert_mode 'upsert', ADD upsert_key 'new_serial');
INSERT INTO new_meter (new_serial, new_name)
  SELECT unnest(ARRAY['S-1', 'O''Neil', 'a b', 'Zoë', 'x=(1),y=2', '"quoted"', '''']), 'first';
INSERT INTO new_meter (new_name, new_serial)
  SELECT 'second', unnest(ARRAY['S-1', 'O''Neil', 'a b', 'Zoë', 'x=(1),y=2', '"quoted"', '''']);
SELECT new_serial, new_name FROM new_meter ORDER BY new_serial COLLATE "C";
ALTER FOREIGN TABLE new_meter OPTIONS (SET upsert_key 'new_accountid,new_number');
INSERT INTO new_meter (new_accountid, new_number, new_name)
  SELECT 'a0000000-0000-4000-8000-000000000001', n, 'first' FROM generate_series(1, 2) n;
INSERT INTO new_meter (new_accountid, new_number, new_name)
  VALUES ('a0000000-0000-4000-8000-000000000001', 2, 'second');
SELECT new_number, new_name FROM new_meter WHERE new_number IS NOT NULL ORDER BY 1;
INSERT INTO new_meter (new_number, new_name) VALUES (3, 'no key');

-- values that Dataverse cannot store are not sent
\set VERBOSITY terse
INSERT INTO new_alltypes (new_decimal) VALUES ('NaN');
INSERT INTO new_alltypes (new_double) VALUES ('-Infinity');
INSERT INTO new_alltypes (new_datetime) VALUES ('infinity');
INSERT INTO new_alltypes (new_zonefree) VALUES ('0044-03-15 BC');
INSERT INTO new_alltypes (new_date) VALUES ('10000-01-01');
INSERT INTO new_alltypes (new_choices) VALUES ('{{1},{2}}');
INSERT INTO new_alltypes (new_choices) VALUES ('{1,NULL}');
INSERT INTO new_alltypes (new_customerid) VALUES ('a0000000-0000-4000-8000-000000000001');
INSERT INTO new_alltypes (new_customerid, new_customeridtype)
  VALUES ('a0000000-0000-4000-8000-000000000001', 'lead');
SELECT count(*) FROM new_alltypes;

-- read-only columns
\set VERBOSITY default
INSERT INTO new_alltypes (createdon) VALUES (now());
INSERT INTO new_alltypes (new_file) VALUES (gen_random_uuid());
UPDATE new_alltypes SET versionnumber = 1;
CREATE FOREIGN TABLE by_hand (accountid uuid, name text, contact uuid OPTIONS ("column" 'primarycontactid'),
    parent uuid OPTIONS ("column" 'parentaccountid', target_set 'accounts'),
    industry text OPTIONS (label_of 'industrycode'), place point,
    bad uuid OPTIONS (target 'a,b', target_set 'as,bs', navigation 'x,y,z'))
  SERVER types_crm OPTIONS ("table" 'account', entity_set 'accounts');
INSERT INTO by_hand (contact) VALUES ('c0000000-0000-4000-8000-000000000001');
INSERT INTO by_hand (industry) VALUES ('Consulting');
INSERT INTO by_hand (place) VALUES ('(1,2)');
INSERT INTO by_hand (bad) VALUES (gen_random_uuid());
INSERT INTO by_hand (name, parent) VALUES ('Fabrikam', 'a0000000-0000-4000-8000-000000000001');
SELECT name, parent FROM by_hand WHERE name = 'Fabrikam';

RESET search_path;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA types CASCADE;
DROP SERVER types_crm CASCADE;
