-- COPY: batches larger than its buffer, triggers, read-only columns.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER copy_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L)', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER copy_crm OPTIONS (client_id 'app1', client_secret 'secret1');
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
) SERVER copy_crm OPTIONS (entity_set 'accounts', batch_size '10');

COPY account (name, employees) FROM stdin;
c1	1
c2	\N
c3	3
\.
SELECT name, employees, statecode FROM account ORDER BY name COLLATE "C";
-- all columns: nulls are left to the service
COPY account FROM stdin;
\N	all	1.50	\N	\N	\N	\N	\N	\N	\N	\N
\.
SELECT name, revenue, statecode, createdon IS NOT NULL AS created FROM account WHERE name = 'all';
COPY account (name, statecode, statuscode) FROM stdin;
inactive	1	2
\.
SELECT name, statecode, statuscode FROM account WHERE name = 'inactive';
COPY account (name, createdon) FROM stdin;
x	2020-01-01
\.
COPY account (name, industry) FROM stdin;
x	y
\.
COPY account (name, employees) FROM stdin;
x	y
\.
\set VERBOSITY terse
-- psql prints ERROR and WARNING in either order: t/write/write_cancel.pl has the WARNING
SET client_min_messages = error;
COPY account (name) FROM PROGRAM 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; done; printf "%0200d" 1';
RESET client_min_messages;
\set VERBOSITY default
SELECT count(*) FROM account WHERE length(name) < 3;
COPY account (name) FROM PROGRAM 'seq 1 2500';
SELECT count(*) FROM account;
CREATE FUNCTION copy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% %, % rows there', TG_WHEN, TG_LEVEL, (SELECT count(*) FROM account WHERE name LIKE 'trigger%');
  RETURN NEW;
END $$;
CREATE TRIGGER s AFTER INSERT ON account EXECUTE FUNCTION copy_trigger();
COPY account (name) FROM stdin;
trigger1
trigger2
\.
DROP TRIGGER s ON account;
CREATE TRIGGER a AFTER INSERT ON account FOR EACH ROW EXECUTE FUNCTION copy_trigger();
COPY account (name) FROM stdin;
trigger3
\.
DROP TRIGGER a ON account;
DROP FUNCTION copy_trigger;
CREATE TABLE copy_parent (accountid uuid, name text, n int) PARTITION BY RANGE (n);
CREATE TABLE copy_local PARTITION OF copy_parent FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE copy_remote PARTITION OF copy_parent FOR VALUES FROM (10) TO (1000) SERVER copy_crm OPTIONS (entity_set 'accounts', "table" 'account');
ALTER FOREIGN TABLE copy_remote ALTER n OPTIONS (ADD "column" 'numberofemployees');
DELETE FROM account;
COPY copy_parent (name, n) FROM PROGRAM 'for i in $(seq 1 300); do printf "p$i\t$i\n"; done';
SELECT tableoid::regclass, count(*), min(n), max(n) FROM copy_parent GROUP BY 1 ORDER BY 1;
DROP TABLE copy_parent;

SET client_min_messages = warning;
DROP SERVER copy_crm CASCADE;
DROP SCHEMA IF EXISTS dv_copy CASCADE;
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
