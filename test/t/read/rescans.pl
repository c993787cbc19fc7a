# rescans.pl
#		Rescans, for each row of an outer query or of the outer side of a join:
#		with the same values, the rows read before are returned, without a request;
#		with other values, the service is asked.  The results are those of local
#		tables, and a statement sees one snapshot of the answer.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Session;

my $crm = Crm->start('rescans');
my $dvsim = $crm->dvsim;

$dvsim->control('POST', "/_dvsim/seed?table=$_") for 'account&rows=60', 'contact&rows=180';
$crm->sql(
	q{CREATE SCHEMA f; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO f;
	ALTER FOREIGN TABLE f.account OPTIONS (ADD page_size '25');
	ALTER FOREIGN TABLE f.contact OPTIONS (ADD page_size '25');
	CREATE TABLE l.account AS SELECT * FROM f.account;
	CREATE TABLE l.contact AS SELECT * FROM f.contact;
	CREATE TABLE outer_rows AS SELECT i, i / 4 AS quarter, i % 3 AS third FROM generate_series(0, 19) i;
	ANALYZE});

# only nested loops, directly above the scans
my $plain = join ' ', 'SET client_min_messages = error;', map { "SET enable_$_ = off;" } qw(material memoize hashjoin mergejoin);

# Asks the foreign tables and the local ones; at most this number of requests may arrive.
sub asks
{
	my ($what, $query, $most, $settings) = @_;
	my $set = "$plain SET dataverse_fdw.scan_parallelism = 1; " . ($settings // '');
	my $there = $crm->sql("$set SET search_path = l, public; $query");

	$crm->requests;
	is($crm->sql("$set SET search_path = f, public; $query"), $there, "$what: the same rows");
	my @sent = $crm->requests;
	my $n = @sent;
	cmp_ok($n, '<=', $most, "… with $n requests")
	  or diag join "\n", (map { $crm->target($_) } @sent), $crm->sql("$set SET search_path = f, public; EXPLAIN (VERBOSE, COSTS OFF) $query");
	return $n;
}

# account has three pages, contact eight

asks('a subquery that does not depend on the outer row, but for what is computed here',
	'SELECT i, (SELECT count(*) FROM (SELECT name FROM account OFFSET 0) a WHERE length(a.name) > i) FROM outer_rows ORDER BY i', 3);
asks('two tables in such a subquery',
	'SELECT i, (SELECT count(*) FROM (SELECT * FROM account OFFSET 0) a, (SELECT * FROM contact OFFSET 0) c WHERE c.parentcustomerid = a.accountid AND length(a.name) > i) FROM outer_rows ORDER BY i', 11);
asks('a join of the service in such a subquery',
	'SELECT i, (SELECT sum(length(s.name) % (i + 1)) FROM (SELECT a.name FROM contact c JOIN account a ON c.parentcustomerid = a.accountid OFFSET 0) s) FROM outer_rows ORDER BY i', 8);
asks('groups of the service in such a subquery',
	'SELECT i, (SELECT sum(n % (i + 1)) FROM (SELECT gendercode, count(*) AS n FROM contact GROUP BY gendercode OFFSET 0) s) FROM outer_rows ORDER BY i', 1);
asks('a count of the service in such a subquery',
	'SELECT i, (SELECT n + i FROM (SELECT count(*) AS n FROM contact OFFSET 0) s) FROM outer_rows ORDER BY i', 1);
asks('a subquery that stops at its first row, earlier or later',
	'SELECT i FROM outer_rows WHERE EXISTS (SELECT FROM (SELECT row_number() OVER () AS n FROM account) a WHERE a.n > i * 3) ORDER BY i', 3);
asks('a nested loop',
	'SELECT i, count(*) FROM outer_rows JOIN account a ON length(a.name) % 20 = i GROUP BY i ORDER BY i', 3);
asks('a nested loop whose inner side comes to no end for most rows',
	'SELECT i, x.name IS NULL FROM outer_rows LEFT JOIN LATERAL (SELECT name FROM account WHERE length(name) > i ORDER BY 1 LIMIT 1) x ON true ORDER BY i', 4);
asks('no rows at all', q{SELECT i FROM outer_rows WHERE (SELECT count(*) FROM (SELECT * FROM account WHERE name = 'nobody' OFFSET 0) a WHERE length(name) > i) = 0 ORDER BY i}, 1);
asks('below an Append',
	'SELECT i, (SELECT count(*) FROM (SELECT name FROM account UNION ALL SELECT fullname FROM contact) a WHERE length(a.name) > i) FROM outer_rows ORDER BY i', 11);
asks('below an Append, with several scans that do not wait, and pages that are not read to their end',
	'SELECT i, (SELECT max(length(s.name)) FROM (SELECT name FROM (SELECT name FROM account UNION ALL SELECT fullname FROM contact) a LIMIT 5 + 3 * i) s) > 3 FROM outer_rows ORDER BY i', 9);
asks('a recursive query',
	'WITH RECURSIVE r (id, level) AS (SELECT accountid, 0 FROM account WHERE parentaccountid IS NULL UNION ALL SELECT a.accountid, r.level + 1 FROM r, (SELECT * FROM account OFFSET 0) a WHERE a.parentaccountid = r.id) SELECT level, count(*) FROM r GROUP BY 1 ORDER BY 1', 7);

# other values

my $by_value = 'SELECT o.%1$s, (SELECT count(*) FROM account a WHERE a.industrycode = o.%1$s) FROM outer_rows o ORDER BY i';
asks('values that change with each row', sprintf($by_value, 'i'), 20);
asks('values that come several times in a row', sprintf($by_value, 'quarter'), 5);
is(asks('values that come again, but not in a row', sprintf($by_value, 'third'), 20), 20, '… the service is asked for each');
is(asks('nulls among the values', 'SELECT i, (SELECT count(*) FROM account a WHERE a.industrycode IS NOT DISTINCT FROM nullif(o.quarter, 2)) FROM outer_rows o ORDER BY i', 5), 5,
	'… one of which is a request for NULL');
asks('a parameter that is computed, with the same result',
	'SELECT i, (SELECT string_agg(name, $$,$$ ORDER BY name) FROM account a WHERE a.name > chr(65 + o.i / 10)) FROM outer_rows o ORDER BY i', 6);

# more rows than fit into memory: the service is asked each time, with the same result

{
	my $wide = 'SELECT i, (SELECT count(*) FROM (SELECT * FROM contact OFFSET 0) a WHERE length(a::text) > i) FROM outer_rows ORDER BY i';

	asks('rows that fit', $wide, 8);
	cmp_ok(asks('rows that do not', $wide, 160, q{SET work_mem = '64kB';}), '>', 140, '… so that most scans send requests again');
}

# cursors

{
	my $nested = 'SELECT i, a.name FROM outer_rows, account a WHERE length(a.name) % 20 = i ORDER BY i, a.name';
	my $back = sub { my ($place, $query) = @_; return $crm->sql("$plain BEGIN; SET LOCAL search_path = $place, public; DECLARE c SCROLL CURSOR FOR $query; FETCH 7 FROM c; MOVE BACKWARD 4 IN c; FETCH 9 FROM c; FETCH ABSOLUTE 3 FROM c; MOVE BACKWARD ALL IN c; FETCH ALL FROM c; FETCH BACKWARD 3 FROM c; COMMIT") };

	is($back->('f', $nested), $back->('l', $nested), 'a cursor moves backward and forward in a nested loop');
	my $subquery = 'SELECT i, (SELECT count(*) FROM (SELECT name FROM account OFFSET 0) a WHERE length(a.name) > i) FROM outer_rows ORDER BY i';
	is($back->('f', $subquery), $back->('l', $subquery), '… and in a query with a subquery');
}

# a statement sees one answer, and the next statement another one

{
	my $session = Session->new($crm->node);

	$session->query(q{CREATE FUNCTION comes() RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO f.account (name) VALUES ('late'); RETURN 0; END $$});
	$session->query($plain);
	is($session->query('SELECT string_agg(DISTINCT n::text, $$,$$) FROM (SELECT (SELECT count(*) FROM (SELECT name FROM f.account OFFSET 0) a WHERE length(a.name) > i - 100) + comes() AS n FROM outer_rows WHERE i < 5) s'),
		'60', 'rows inserted while a statement runs do not change its result');
	is($session->query('SELECT count(*) FROM f.account'), '65', '… and the next statement sees them');
	$session->query(q{DELETE FROM f.account WHERE name = 'late'});
	$session->query('BEGIN');
	$session->query('DECLARE c CURSOR FOR SELECT i, (SELECT count(*) FROM (SELECT name FROM f.account OFFSET 0) a WHERE length(a.name) > i - 100) FROM outer_rows WHERE i < 5 ORDER BY i');
	is($session->query('FETCH 2 FROM c'), "0|60\n1|60", 'a cursor');
	$session->query('SAVEPOINT s');
	$session->query('SELECT comes()');
	$session->query('ROLLBACK TO s');
	is($session->query('FETCH ALL FROM c'), "2|60\n3|60\n4|60", '… does not see rows written after it was opened');
	$session->query('COMMIT');
	$session->query(q{DELETE FROM f.account WHERE name = 'late'});

	# statements that repeatedly write what they read
	is($session->query(q{WITH w AS (INSERT INTO f.account (name) SELECT 'late' FROM outer_rows WHERE i < 3 RETURNING 1)
		SELECT i, (SELECT count(*) FROM (SELECT name FROM f.account OFFSET 0) a WHERE length(a.name) > i - 100) FROM outer_rows WHERE i < 3 ORDER BY i}),
		"0|60\n1|60\n2|60", 'a statement does not see its own writes');
	is($session->query(q{DELETE FROM f.account WHERE name = 'late' AND (SELECT count(*) FROM (SELECT name FROM f.account OFFSET 0) a WHERE length(a.name) > length(account.name) - 100) = 63 RETURNING name}),
		"late\nlate\nlate", '… nor its own deletes');
	$session->close;
}

# a row that has changed meanwhile is rechecked (EvalPlanQual)

{
	my ($one, $two) = map { Session->new($crm->node) } 1 .. 2;

	$crm->sql('CREATE TABLE target AS SELECT i, 0 AS n FROM outer_rows');
	$one->query($plain);
	$two->query('BEGIN; UPDATE target SET n = 100 WHERE i IN (3, 4)');
	$one->start('UPDATE target t SET n = n + (SELECT count(*) FROM (SELECT name FROM f.account OFFSET 0) a WHERE length(a.name) > t.n - 1000)');
	$crm->node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
	$two->query('COMMIT');
	is($one->finish->{tag}, 'UPDATE 20', 'rows that another session has changed are rechecked');
	is($crm->sql('SELECT string_agg(DISTINCT n::text, $$,$$ ORDER BY n::text) FROM target'), '160,60', '… with the same answer');
	$_->close for $one, $two;
}

# requests that are refused or broken while a scan continues

for my $fault ({ action => 'reset_before_commit' }, { action => 'status', status => 503 }, { action => 'garble', bytes => 2000 })
{
	$crm->fault(method => 'GET', path => '/accounts', every => 2, times => 3, %$fault);
	asks("requests fail ($fault->{action})",
		'SELECT i FROM outer_rows WHERE EXISTS (SELECT FROM (SELECT row_number() OVER () AS n FROM account) a WHERE a.n > i * 3) ORDER BY i', 9);
	$crm->no_faults;
}

$crm->stop;
done_testing;
