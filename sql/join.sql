-- Joins, groups, and limits above joins that the service answers: the requests,
-- and that the result is the one that PostgreSQL computes.
\getenv url DVSIM_URL
\! curl -s -X POST $DVSIM_URL/_dvsim/reset >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=account&rows=60" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=contact&rows=300" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=opportunity&rows=200" >/dev/null
\! curl -s -X POST "$DVSIM_URL/_dvsim/seed?table=new_account_contact&rows=100" >/dev/null
\set ECHO errors
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/explain.sql'
\i :file
SELECT format('CREATE SERVER join_crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url %L, token_url %L, request_cost ''100'', row_cost ''0.05'')', :'url', :'url' || '/t/oauth2/v2.0/token') \gexec
\set ECHO all
SET TimeZone = 'UTC';
-- joins by keys are those of regress/lookup
SET enable_hashjoin = off;
CREATE USER MAPPING FOR CURRENT_USER SERVER join_crm OPTIONS (client_id 'app1', client_secret 'secret1');
CREATE SCHEMA join_dv;
CREATE SCHEMA join_here;
IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, opportunity, systemuser, new_account_contact) FROM SERVER join_crm INTO join_dv;
SELECT format('CREATE TABLE join_here.%I AS SELECT * FROM join_dv.%1$I', t) FROM unnest('{account,contact,opportunity,systemuser,new_account_contact}'::text[]) t \gexec

\a
\t on
-- shows the plan, and whether the result is that of local tables
CREATE FUNCTION pg_temp.compare(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  difference bigint;
BEGIN
  SET LOCAL search_path = join_dv, pg_temp;
  FOR line IN SELECT pg_temp.explain('VERBOSE', statement) LOOP
    CONTINUE WHEN line ~ '^\s*Output: ';
    RETURN NEXT line;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE there AS %s', statement);
  SET LOCAL search_path = join_here, pg_temp;
  EXECUTE format('CREATE TEMP TABLE here AS %s', statement);
  SELECT count(*) INTO difference FROM
    (SELECT t::text, count(*) FROM there t GROUP BY 1 EXCEPT SELECT h::text, count(*) FROM here h GROUP BY 1) d;
  RETURN NEXT format('-- %s rows, %s', (SELECT count(*) FROM there),
    CASE WHEN difference = 0 AND (SELECT count(*) FROM there) = (SELECT count(*) FROM here)
      THEN 'the same' ELSE 'DIFFERENT' END);
  DROP TABLE there, here;
END $$;

-- along lookups: one, several levels, several at once, the same table twice
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid');
SELECT pg_temp.compare('SELECT o.name, a.name AS a, p.name AS p FROM opportunity o JOIN account a ON a.accountid = o.parentaccountid JOIN account p ON p.accountid = a.parentaccountid WHERE o.closeprobability > 20 AND p.numberofemployees < 1500000');
SELECT pg_temp.compare('SELECT o.name, a.name AS a, c.fullname, u.fullname AS u FROM opportunity o JOIN account a ON a.accountid = o.parentaccountid JOIN contact c ON o.parentcontactid = c.contactid JOIN systemuser u ON u.systemuserid = o.ownerid');
SELECT pg_temp.compare('SELECT a.name, c.fullname FROM new_account_contact n JOIN account a USING (accountid) JOIN contact c USING (contactid)');
-- further join conditions are evaluated locally
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid AND a.createdon < c.createdon WHERE c.fullname LIKE ''A%'' AND length(a.name) > 12');

-- outer joins
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid AND a.numberofemployees > 1000000');
SELECT pg_temp.compare('SELECT c.fullname, a.name AS a, p.name AS p FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid LEFT JOIN account p ON p.accountid = a.parentaccountid');
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM account a RIGHT JOIN contact c ON a.accountid = c.parentcustomerid WHERE a.name IS NULL OR a.industrycode = 3');
SELECT pg_temp.compare('SELECT o.name, a.name AS a, c.fullname FROM opportunity o JOIN account a ON a.accountid = o.parentaccountid LEFT JOIN contact c ON c.contactid = a.primarycontactid');
-- not those that the service would evaluate differently from PostgreSQL
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid AND a.name = ''x''');
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid AND c.gendercode = 1');
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c FULL JOIN account a ON a.accountid = c.parentcustomerid');
SELECT pg_temp.compare('SELECT c.fullname, x.name FROM contact c LEFT JOIN (SELECT a.accountid, p.name FROM account a JOIN account p ON p.accountid = a.parentaccountid) x ON x.accountid = c.parentcustomerid');
-- nor those that multiply rows
SELECT pg_temp.compare('SELECT c.fullname, o.name FROM contact c JOIN opportunity o ON o.parentaccountid = c.parentcustomerid WHERE o.closeprobability > 90');

-- whether any match exists
SELECT pg_temp.compare('SELECT name FROM account a WHERE EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)');
SELECT pg_temp.compare('SELECT name FROM account a WHERE NOT EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)');
SELECT pg_temp.compare('SELECT name FROM account WHERE accountid IN (SELECT parentcustomerid FROM contact WHERE gendercode = 2) AND NOT EXISTS (SELECT FROM opportunity o WHERE o.parentaccountid = accountid)');
SELECT pg_temp.compare('SELECT fullname FROM contact WHERE parentcustomerid IN (SELECT accountid FROM account WHERE industrycode = 3)');
SELECT pg_temp.compare('SELECT fullname FROM contact c WHERE NOT EXISTS (SELECT FROM account a WHERE a.accountid = c.parentcustomerid AND a.industrycode = 3)');
SELECT pg_temp.compare('SELECT c.fullname FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid WHERE a.accountid IS NULL');
-- not if texts are compared: the service finds more than PostgreSQL
SELECT pg_temp.compare('SELECT name FROM account a WHERE NOT EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.fullname = ''x'')');
-- NOT IN is not an anti-join
SELECT pg_temp.compare('SELECT name FROM account WHERE accountid NOT IN (SELECT parentcustomerid FROM contact WHERE parentcustomerid IS NOT NULL)');

-- lists of values, including those that take several requests, for the root and for a table with a match for each row
CREATE FUNCTION pg_temp.shorter(line text) RETURNS text LANGUAGE sql AS $$
  SELECT regexp_replace(regexp_replace(regexp_replace($1, '<value>[^<]*(</value><value>[^<]*)+</value>', '<value>…</value>', 'g'),
    '\{[^{}]{200,}\}', '{…}', 'g'), 'PropertyValues=\[[^]]*\]', 'PropertyValues=[…]', 'g')
$$;
SELECT format('{%s}', string_agg(coalesce(a.accountid::text, md5(i::text)::uuid::text), ',')) AS many_accounts FROM generate_series(1, 700) i LEFT JOIN (SELECT accountid, row_number() OVER (ORDER BY accountid) AS n FROM join_here.account) a ON a.n = i / 20 AND i % 20 = 0 \gset
SELECT format('{%s}', string_agg(coalesce(c.contactid::text, md5(i::text)::uuid::text), ',')) AS many_contacts FROM generate_series(1, 1100) i LEFT JOIN (SELECT contactid, row_number() OVER (ORDER BY contactid) AS n FROM join_here.contact) c ON c.n = i / 5 AND i % 5 = 0 \gset
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE a.accountid = ANY (%L)', :'many_accounts')) c;
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT c.fullname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid WHERE c.contactid = ANY (%L)', :'many_contacts')) c;
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE a.name = ANY (%L)', (SELECT array_agg(v) FROM (SELECT name FROM join_here.account WHERE numberofemployees % 2 = 0 UNION SELECT upper(name) FROM join_here.account UNION SELECT 'Man ' || i FROM generate_series(1, 900) i) n(v)))) c;
-- for a table with no match, or several, rows of the root would be returned several times
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT c.fullname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid AND a.accountid = ANY (%L)', :'many_accounts')) c;
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT name FROM account a WHERE EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.contactid = ANY (%L))', :'many_contacts')) c;
-- two such lists
SELECT pg_temp.shorter(c) FROM pg_temp.compare(format('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE a.accountid = ANY (%L) AND c.contactid = ANY (%L)', :'many_accounts', :'many_contacts')) c;

-- groups
SELECT pg_temp.compare('SELECT industrycode, count(*) AS n, count(numberofemployees) AS known, sum(numberofemployees), avg(numberofemployees), min(createdon), max(numberofemployees) FROM account GROUP BY 1');
SELECT pg_temp.compare('SELECT a.industrycode, c.gendercode, count(*) AS n, count(DISTINCT a.accountid) AS accounts FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE c.statecode = 0 GROUP BY 1, 2 HAVING count(*) > 2');
-- for money, the service sums the values in the base currency
SELECT pg_temp.compare('SELECT sum(estimatedvalue_base), avg(estimatedvalue_base), max(estimatedvalue_base) FROM opportunity');
SELECT pg_temp.compare('SELECT sum(estimatedvalue), max(estimatedvalue) FROM opportunity');
SELECT pg_temp.compare('SELECT sum(exchangerate), avg(exchangerate), min(exchangerate), count(DISTINCT statuscode) FROM opportunity WHERE closeprobability > 1000');
SELECT pg_temp.compare('SELECT ownerid, donotphone, max(numberofchildren) - min(numberofchildren) AS spread, count(*) * 2 AS twice FROM contact GROUP BY 1, 2');
SELECT pg_temp.compare('SELECT DISTINCT industrycode, statecode FROM account');
SELECT pg_temp.compare('SELECT DISTINCT a.industrycode FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid');
SELECT pg_temp.compare('SELECT industrycode, n FROM (SELECT industrycode, count(*) AS n FROM account GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3) s');
-- periods: only in UTC, but dates have no time zone
SELECT pg_temp.compare('SELECT date_trunc(''month'', createdon), count(*) FROM contact GROUP BY 1');
SELECT pg_temp.compare('SELECT estimatedclosedate, date_trunc(''quarter'', actualclosedate), count(*) FROM opportunity GROUP BY 1, 2');
-- a quarter consists of months, a week of days, and their values overlap
SELECT pg_temp.compare('SELECT date_trunc(''quarter'', estimatedclosedate), count(DISTINCT ownerid) AS owners, count(DISTINCT statuscode) AS codes, count(*) AS n FROM opportunity GROUP BY 1');
SELECT pg_temp.compare('SELECT date_trunc(''week'', estimatedclosedate), statecode, count(DISTINCT ownerid) AS owners, count(DISTINCT actualclosedate) AS days FROM opportunity GROUP BY 1, 2');
SET TimeZone = 'Asia/Kathmandu';
SELECT pg_temp.compare('SELECT date_trunc(''week'', estimatedclosedate), min(estimatedclosedate), count(*) FROM opportunity GROUP BY 1');
SELECT pg_temp.compare('SELECT date_trunc(''day'', createdon), count(*) FROM contact GROUP BY 1');
-- a plan may outlive the time zone in which it was created
SET TimeZone = 'UTC';
SET plan_cache_mode = force_generic_plan;
PREPARE days AS SELECT date_trunc('day', createdon) AS day, count(*) FROM join_dv.contact GROUP BY 1;
EXECUTE days;
SET TimeZone = 'Asia/Kathmandu';
EXECUTE days;
SET TimeZone = 'UTC';
RESET plan_cache_mode;
-- not by texts, doubles, points in time, or other values that the service would compute differently
SELECT pg_temp.compare('SELECT name, count(*) FROM account GROUP BY 1');
SELECT pg_temp.compare('SELECT address1_latitude, count(*) FROM account GROUP BY 1');
SELECT pg_temp.compare('SELECT createdon, count(*) FROM account GROUP BY 1');
SELECT pg_temp.compare('SELECT min(accountid::text), max(industrycode), bool_or(creditonhold) FROM account');
SELECT pg_temp.compare('SELECT count(*) FILTER (WHERE creditonhold), sum(DISTINCT numberofemployees) FROM account');
SELECT pg_temp.compare('SELECT industrycode, count(*) FROM account WHERE name LIKE ''A%'' GROUP BY 1');
SELECT pg_temp.compare('SELECT industrycode, statecode, count(*) FROM account GROUP BY ROLLUP (1, 2)');
-- constants make a group of rows, but not of no rows
SELECT 'all' AS what, count(*), sum(closeprobability) FROM join_dv.opportunity GROUP BY 1;
SELECT 'all' AS what, count(*), sum(closeprobability) FROM join_dv.opportunity WHERE closeprobability = -7 GROUP BY 1;
SELECT pg_temp.compare('SELECT ''all'' AS what, industrycode, count(*) AS n FROM account GROUP BY 1, 2');

-- LIMIT above a join
SELECT pg_temp.compare('SELECT c.contactid, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid ORDER BY c.createdon NULLS FIRST LIMIT 7 OFFSET 3');
EXPLAIN (VERBOSE, COSTS OFF) SELECT c.fullname, a.name FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid ORDER BY a.name LIMIT 5;

-- a few rows are requested first, if no more are needed
SELECT pg_temp.explain('ANALYZE', 'SELECT EXISTS (SELECT FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid)');

-- also by one of two columns that are equal in the service, over several pages
ALTER FOREIGN TABLE join_dv.contact ADD children integer OPTIONS ("column" 'numberofchildren', type 'integer'), OPTIONS (ADD page_size '20');
ALTER TABLE join_here.contact ADD children integer;
UPDATE join_here.contact SET children = numberofchildren;
SET enable_nestloop = off;
SET enable_mergejoin = off;
SET enable_sort = off;
SELECT pg_temp.compare('SELECT c.numberofchildren FROM contact c JOIN account a ON a.accountid = c.parentcustomerid ORDER BY c.children NULLS FIRST LIMIT 60');
RESET enable_nestloop;
RESET enable_mergejoin;
RESET enable_sort;
ALTER FOREIGN TABLE join_dv.contact DROP children, OPTIONS (DROP page_size);
ALTER TABLE join_here.contact DROP children;

-- more columns than fit into a request: some tables are joined locally
SET enable_mergejoin = off;
SET enable_nestloop = off;
CREATE FUNCTION pg_temp.all_columns(place text, tables integer) RETURNS text LANGUAGE plpgsql SET jit = off AS $$
DECLARE
  columns text;
  joins text;
  result text;
BEGIN
  SELECT string_agg(format('t%s.%I::text', i, attname), ' || ') INTO columns
    FROM pg_attribute, generate_series(1, tables) i
    WHERE attrelid = 'join_dv.account'::regclass AND attnum > 0 AND NOT attisdropped;
  SELECT string_agg(format('LEFT JOIN %s.account t%s ON t%2$s.accountid = t%s.parentaccountid', place, i, i - 1), ' ' ORDER BY i) INTO joins
    FROM generate_series(2, tables) i;
  columns := 'coalesce(' || replace(columns, ' || ', $q$, '-') || coalesce($q$) || $q$, '-')$q$;
  EXECUTE format('SELECT count(*) || md5(string_agg(t, NULL ORDER BY t)) FROM (SELECT %s AS t FROM %s.account t1 %s) t', columns, place, joins) INTO result;
  RETURN result;
END $$;
SELECT pg_temp.all_columns('join_dv', 16) = pg_temp.all_columns('join_here', 16) AS the_same;
-- values that are longer than expected: some conditions are evaluated only locally
CREATE FUNCTION pg_temp.long_values(place text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  conditions text;
  result bigint;
BEGIN
  SELECT string_agg(format($q$(c.description = (SELECT repeat('<', 1990)) OR a.description = (SELECT repeat('<', 1980)) OR c.gendercode <> %s)
    AND (c.description = (SELECT repeat('<', 1990)) OR c.familystatuscode <> %1$s)$q$, i), ' AND ') INTO conditions FROM generate_series(5, 10) i;
  EXECUTE format('SELECT count(*) FROM %s.contact c JOIN %1$s.account a ON a.accountid = c.parentcustomerid WHERE ', place) || conditions INTO result;
  RETURN result;
END $$;
SELECT pg_temp.long_values('join_dv') = pg_temp.long_values('join_here') AS the_same, pg_temp.long_values('join_here') AS n;
RESET enable_mergejoin;
RESET enable_nestloop;

-- pages, with a list of values
ALTER SERVER join_crm OPTIONS (ADD page_size '20');
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT pg_temp.compare('SELECT c.fullname, a.name FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE a.industrycode IN (1, 2, 3, 4, 5, 6) AND c.gendercode <> 7');
RESET enable_mergejoin;
RESET enable_nestloop;
ALTER SERVER join_crm OPTIONS (DROP page_size);

-- parameters, correlated subqueries, writing from a join
PREPARE by_code(integer) AS SELECT count(*), max(c.createdon) FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid WHERE a.industrycode = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_code(3);
EXECUTE by_code(3);
EXECUTE by_code(NULL);
RESET plan_cache_mode;
SELECT pg_temp.compare('SELECT v, (SELECT count(*) FROM contact c JOIN account a ON a.accountid = c.parentcustomerid WHERE a.industrycode = v) AS n FROM generate_series(1, 3) v');
BEGIN;
CREATE TEMP TABLE pairs AS SELECT c.contactid, a.accountid FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid;
SELECT count(*) = (SELECT count(*) FROM join_here.contact c JOIN join_here.account a ON a.accountid = c.parentcustomerid) AS all_pairs FROM pairs;
ROLLBACK;
-- rows to be changed are not read by a join of the service
EXPLAIN (COSTS OFF) UPDATE join_dv.contact c SET jobtitle = 'x' FROM join_dv.account a WHERE a.accountid = c.parentcustomerid AND a.industrycode = 3;
EXPLAIN (COSTS OFF) SELECT c.fullname FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid FOR UPDATE;

-- a security barrier keeps tables apart
CREATE VIEW join_here.some_contacts WITH (security_barrier) AS SELECT * FROM join_dv.contact WHERE gendercode = 1;
EXPLAIN (COSTS OFF) SELECT s.fullname, a.name FROM join_here.some_contacts s JOIN join_dv.account a ON a.accountid = s.parentcustomerid;

-- the service refuses to form groups: they are formed locally
\! curl -s -X POST -d '[{"path":"aggregate","status":400,"code":"0x80040216","message":"Aggregates are not supported","times":100}]' $DVSIM_URL/_dvsim/faults >/dev/null
SELECT pg_temp.compare('SELECT industrycode, count(*) AS n, count(DISTINCT ownerid) AS owners, sum(numberofemployees), avg(numberofemployees), min(createdon), max(createdon), date_trunc(''month'', createdon) FROM account GROUP BY 1, 8');
SELECT count(*), sum(c.numberofchildren) FROM join_dv.contact c JOIN join_dv.account a ON a.accountid = c.parentcustomerid WHERE a.industrycode = 99;
\! curl -s -X DELETE $DVSIM_URL/_dvsim/faults >/dev/null

-- groups that PostgreSQL may form below joins (from 19 on) are not rows of a table
SELECT count(set_config(name, '0', false)) < 2 AS set FROM pg_settings WHERE name = 'min_eager_agg_group_size';
SELECT * FROM pg_temp.compare('SELECT a.industrycode, avg(c.numberofchildren + 1) FROM contact c JOIN account a ON a.accountid = c.parentcustomerid GROUP BY 1') line WHERE line LIKE '-- %';
SELECT * FROM pg_temp.compare('SELECT p.industrycode, sum(o.closeprobability * 2) FROM opportunity o LEFT JOIN account a ON a.accountid = o.parentaccountid LEFT JOIN account p ON p.accountid = a.parentaccountid GROUP BY 1') line WHERE line LIKE '-- %';
RESET enable_hashjoin;
SELECT * FROM pg_temp.compare('SELECT h.industrycode, count(*), sum(c.numberofchildren) FROM join_here.account h JOIN contact c ON c.parentcustomerid = h.accountid GROUP BY 1') line WHERE line LIKE '-- %';
SELECT * FROM pg_temp.compare('SELECT a.industrycode, count(*), sum(h.numberofchildren) FROM join_here.contact h JOIN account a ON a.accountid = h.parentcustomerid GROUP BY 1') line WHERE line LIKE '-- %';

DROP SCHEMA join_here CASCADE;
DROP SERVER join_crm CASCADE;
DROP SCHEMA join_dv;
