-- Queries with enough tables for GEQO: it builds joins in memory that it
-- frees after each attempt, where nothing that the planner keeps may be allocated.  The
-- results are those of local tables.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=40" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=contact&rows=80" >/dev/null
\set ECHO errors
SELECT format('CREATE SERVER geqo_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
CREATE USER MAPPING FOR CURRENT_USER SERVER geqo_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA geqo_dv;
CREATE SCHEMA geqo_here;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER geqo_crm INTO geqo_dv;
CREATE TABLE geqo_here.contact AS SELECT * FROM geqo_dv.contact;
UPDATE geqo_dv.account a SET primarycontactid = c.contactid FROM geqo_here.contact c WHERE c.parentcustomerid = a.accountid AND c.fullname > 'C';
CREATE TABLE geqo_here.account AS SELECT * FROM geqo_dv.account;
ANALYZE geqo_here.account;
ANALYZE geqo_here.contact;

-- The tables of a query that are foreign: all, one of them, or every other one.
CREATE FUNCTION pg_temp.place(kind text, i int, tables int) RETURNS text LANGUAGE sql AS $$
  SELECT CASE WHEN kind = 'all' OR kind = 'one' AND i = 1 + tables / 2 OR kind = 'every other' AND i % 2 = 1
    THEN 'geqo_dv' ELSE 'geqo_here' END $$;

-- Contacts and their accounts, these accounts' primary contacts, and so on.  Odd tables are
-- contacts, even ones are accounts; each joins one of the tables before it by its id.
CREATE FUNCTION pg_temp.query(kind text, tables int, way int) RETURNS text LANGUAGE sql AS $$
  SELECT format('SELECT count(*), sum(hashtext(concat_ws('','', %s))::bigint) FROM %s.contact t1',
      string_agg(format('t%s.%s', i, CASE i % 2 WHEN 1 THEN 'fullname' ELSE 'name' END), ', ' ORDER BY i),
      pg_temp.place(kind, 1, tables)) ||
    string_agg(format(' %1$s %2$s.%3$s t%4$s ON t%4$s.%3$sid = t%5$s.%6$s',
        CASE WHEN (i + way) % 3 = 0 THEN 'JOIN' ELSE 'LEFT JOIN' END, pg_temp.place(kind, i, tables),
        CASE i % 2 WHEN 1 THEN 'contact' ELSE 'account' END, i, CASE WHEN way % 2 = 1 AND i > 3 THEN i - 3 ELSE i - 1 END,
        CASE i % 2 WHEN 1 THEN 'primarycontactid' ELSE 'parentcustomerid' END), '' ORDER BY i) FILTER (WHERE i > 1) ||
    CASE way % 4 WHEN 3 THEN format(' WHERE EXISTS (SELECT FROM %s.account x WHERE x.primarycontactid = t1.contactid)', pg_temp.place(kind, 1, tables))
                 WHEN 2 THEN ' WHERE t1.fullname > ''F''' ELSE '' END
  FROM generate_series(1, tables) i $$;

-- Runs such queries, each with another seed of GEQO, and shows those whose results are not those of local tables.
CREATE FUNCTION pg_temp.compare(fewest int DEFAULT 3, OUT asked bigint, OUT with_rows bigint, OUT differing text) LANGUAGE plpgsql AS $$
DECLARE
  tables int;
  kind text;
  there text;
  here text;
BEGIN
  asked := 0;
  with_rows := 0;
  FOR tables IN fewest .. 14 LOOP
    EXECUTE format('SELECT q::text FROM (%s) q', pg_temp.query('none', tables, tables)) INTO here;
    FOREACH kind IN ARRAY '{all,one,every other}'::text[] LOOP
      PERFORM set_config('geqo_seed', (asked * 7 % 10 / 10.0)::text, true);
      EXECUTE format('SELECT q::text FROM (%s) q', pg_temp.query(kind, tables, tables)) INTO there;
      asked := asked + 1;
      with_rows := with_rows + (here NOT LIKE '(0,%')::int;
      IF there IS DISTINCT FROM here THEN
        differing := concat_ws(E'\n', differing, format('%s: %s instead of %s', pg_temp.query(kind, tables, tables), there, here));
      END IF;
    END LOOP;
  END LOOP;
END $$;

-- by default, GEQO plans queries with twelve tables
SELECT * FROM pg_temp.compare(12);
SET geqo_threshold = 2;
SELECT * FROM pg_temp.compare();
-- all tables of a query in one search, at any cost
SET join_collapse_limit = 14;
SET from_collapse_limit = 14;
SELECT * FROM pg_temp.compare();
-- with fewer attempts: joins by keys only, requests for each row only, sorted rows only
SET geqo_effort = 1;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT * FROM pg_temp.compare();
RESET enable_nestloop;
SET enable_hashjoin = off;
SELECT * FROM pg_temp.compare();
RESET enable_mergejoin;
SET enable_nestloop = off;
SELECT * FROM pg_temp.compare();
RESET enable_hashjoin;
RESET enable_nestloop;
-- in the order of the query
SET join_collapse_limit = 1;
SELECT * FROM pg_temp.compare();
RESET ALL;

-- groups, limits, and statements that write above such a join
SET geqo_threshold = 2;
CREATE FUNCTION pg_temp.agree(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  there text;
  here text;
BEGIN
  SET LOCAL search_path = geqo_dv, pg_temp;
  EXECUTE format('SELECT string_agg(q::text, E''\n'' ORDER BY q::text) FROM (%s) q', statement) INTO there;
  SET LOCAL search_path = geqo_here, pg_temp;
  EXECUTE format('SELECT string_agg(q::text, E''\n'' ORDER BY q::text) FROM (%s) q', statement) INTO here;
  RETURN CASE WHEN there IS NOT DISTINCT FROM here THEN 'the same' ELSE format('%s instead of %s', there, here) END;
END $$;
SELECT pg_temp.agree('SELECT a.industrycode, count(*) FROM contact c JOIN account a ON a.accountid = c.parentcustomerid JOIN contact p ON p.contactid = a.primarycontactid GROUP BY 1');
SELECT pg_temp.agree('SELECT c.contactid, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid JOIN contact p ON p.contactid = a.primarycontactid ORDER BY c.contactid LIMIT 7');
SELECT pg_temp.agree('SELECT c.fullname, (SELECT count(*) FROM account a JOIN contact p ON p.contactid = a.primarycontactid JOIN account q ON q.accountid = p.parentcustomerid WHERE a.accountid = c.parentcustomerid) FROM contact c');
UPDATE geqo_dv.account a SET description = p.fullname FROM geqo_dv.contact c, geqo_here.contact p
  WHERE a.primarycontactid = c.contactid AND p.contactid = a.primarycontactid AND c.fullname > 'M';
UPDATE geqo_here.account a SET description = p.fullname FROM geqo_here.contact c, geqo_here.contact p
  WHERE a.primarycontactid = c.contactid AND p.contactid = a.primarycontactid AND c.fullname > 'M';
SELECT pg_temp.agree('SELECT accountid, description FROM account');

-- partitions that are joined one by one
SET enable_partitionwise_join = on;
SET join_collapse_limit = 14;
CREATE TABLE geqo_dv.accounts (accountid uuid, name text, primarycontactid uuid) PARTITION BY LIST (primarycontactid);
CREATE TABLE geqo_dv.contacts (contactid uuid, fullname text, parentcustomerid uuid) PARTITION BY LIST (contactid);
CREATE TABLE geqo_dv.no_accounts PARTITION OF geqo_dv.accounts FOR VALUES IN ('00000000-0000-0000-0000-000000000000');
CREATE TABLE geqo_dv.no_contacts PARTITION OF geqo_dv.contacts FOR VALUES IN ('00000000-0000-0000-0000-000000000000');
CREATE FOREIGN TABLE geqo_dv.other_accounts PARTITION OF geqo_dv.accounts DEFAULT SERVER geqo_crm OPTIONS (table 'account', entity_set 'accounts');
CREATE FOREIGN TABLE geqo_dv.other_contacts PARTITION OF geqo_dv.contacts DEFAULT SERVER geqo_crm OPTIONS (table 'contact', entity_set 'contacts');
CREATE VIEW geqo_here.accounts AS TABLE geqo_here.account;
CREATE VIEW geqo_here.contacts AS TABLE geqo_here.contact;
SELECT pg_temp.agree('SELECT a.name, c.fullname, b.name, d.fullname FROM accounts a JOIN contacts c ON c.contactid = a.primarycontactid JOIN accounts b ON b.primarycontactid = c.contactid LEFT JOIN contacts d ON d.contactid = b.primarycontactid');
SELECT pg_temp.agree('SELECT c.fullname, l.* FROM contacts c JOIN accounts a ON a.primarycontactid = c.contactid, LATERAL (SELECT d.fullname AS d, b.name FROM contacts d JOIN accounts b ON b.primarycontactid = d.contactid WHERE d.contactid = c.contactid AND b.name >= a.name) l');
SET client_min_messages = warning;
DROP SCHEMA geqo_dv, geqo_here CASCADE;
DROP SERVER geqo_crm CASCADE;
