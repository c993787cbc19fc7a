# refused_joins.pl
#		Joins that the service refuses, under everything that can be around a scan:
#		cursors, rescans, little memory, functions, views, writes.  Each script runs in
#		a session of its own on the foreign tables and on local copies, and must print
#		the same.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $crm = Crm->start('refused_joins', preload => 1, flags => [ '--limit-requests', 10_000_000, '--limit-exec', '1000000s' ]);
my $dvsim = $crm->dvsim;

$dvsim->control('POST', '/_dvsim/seed?table=account&rows=60');
$dvsim->control('POST', '/_dvsim/seed?table=contact&rows=900', { lookups => { parentcustomerid => { table => 'account', filled => 0.8 } } });
$crm->sql(
	q{CREATE SCHEMA f; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO f;
	ALTER FOREIGN TABLE f.contact OPTIONS (ADD page_size '70');
	UPDATE f.account a SET primarycontactid = c.contactid FROM (SELECT DISTINCT ON (parentcustomerid) * FROM f.contact ORDER BY parentcustomerid, contactid) c
	WHERE c.parentcustomerid = a.accountid AND a.industrycode < 9;
	CREATE TABLE l.account AS SELECT * FROM f.account;
	CREATE TABLE l.contact AS SELECT * FROM f.contact;
	CREATE TABLE sink (contactid uuid, name text);
	CREATE ROLE somebody;
	GRANT USAGE ON SCHEMA f, l TO somebody;
	ANALYZE f.account, f.contact, l.account, l.contact});
for my $s ('f', 'l')
{
	$crm->sql(
		"CREATE VIEW $s.both AS SELECT c.contactid, c.lastname, c.gendercode, a.name, a.industrycode FROM $s.contact c LEFT JOIN $s.account a ON a.accountid = c.parentcustomerid;
		GRANT SELECT ON $s.both TO somebody;
		CREATE FUNCTION $s.names(g int) RETURNS SETOF text LANGUAGE sql STABLE AS 'SELECT a.name FROM $s.contact c JOIN $s.account a ON a.accountid = c.parentcustomerid WHERE c.gendercode = g ORDER BY c.contactid';
		CREATE FUNCTION $s.walk(g int) RETURNS text LANGUAGE plpgsql AS \$\$
		DECLARE
		  r record;
		  n int := 0;
		  t text := '';
		BEGIN
		  FOR r IN SELECT c.contactid, a.name FROM $s.contact c JOIN $s.account a ON a.accountid = c.parentcustomerid WHERE c.gendercode = g ORDER BY c.contactid LOOP
		    n := n + 1;
		    BEGIN
		      t := t || left(r.name, 1) || (SELECT count(*) FROM $s.account x JOIN $s.contact p ON p.contactid = x.primarycontactid WHERE x.name = r.name);
		      IF n % 3 = 0 THEN
		        RAISE division_by_zero;
		      END IF;
		    EXCEPTION WHEN division_by_zero THEN
		      t := t || '!';
		    END;
		    EXIT WHEN n = 20;
		  END LOOP;
		  RETURN t;
		END \$\$");
}

my $inner = 'S.contact c JOIN S.account a ON a.accountid = c.parentcustomerid';
my $outer = 'S.contact c LEFT JOIN S.account a ON a.accountid = c.parentcustomerid';
my $deep = "$outer LEFT JOIN S.contact p ON p.contactid = a.primarycontactid LEFT JOIN S.account q ON q.accountid = p.parentcustomerid";

my %scripts = (
	'a cursor that is left and closed' => "BEGIN; DECLARE x CURSOR FOR SELECT c.contactid, a.name FROM $inner ORDER BY c.contactid; FETCH 3 FROM x; FETCH 150 FROM x; CLOSE x; SELECT count(*) FROM $inner; COMMIT",
	'a cursor that goes back' => "BEGIN; DECLARE x SCROLL CURSOR FOR SELECT c.contactid, a.name FROM $outer ORDER BY c.contactid; FETCH 80 FROM x; FETCH BACKWARD 10 FROM x; FETCH ABSOLUTE 5 FROM x; FETCH LAST FROM x; FETCH FIRST FROM x; COMMIT",
	'a cursor WITH HOLD' => "DECLARE x CURSOR WITH HOLD FOR SELECT c.contactid, a.name FROM $inner ORDER BY c.contactid; FETCH 7 FROM x; FETCH ALL FROM x; CLOSE x",
	'two cursors in turn' => "BEGIN; DECLARE x CURSOR FOR SELECT c.contactid, a.name FROM $inner ORDER BY c.contactid; DECLARE y CURSOR FOR SELECT c.contactid, a.name FROM $outer ORDER BY c.contactid DESC; FETCH 90 FROM x; FETCH 90 FROM y; FETCH 90 FROM x; FETCH 90 FROM y; ROLLBACK",
	'a subtransaction that is rolled back' => "BEGIN; SAVEPOINT s; DECLARE x CURSOR FOR SELECT c.contactid, a.name FROM $inner ORDER BY c.contactid; FETCH 80 FROM x; ROLLBACK TO s; SELECT count(a.name) FROM $outer; COMMIT",
	'little memory' => "SET work_mem = '64kB'; SET hash_mem_multiplier = 1; SELECT c.*, a.* FROM $inner ORDER BY c.contactid; SELECT c.contactid, a.name, p.lastname, q.name FROM $deep ORDER BY c.contactid",
	'four tables' => "SELECT c.contactid, a.name, p.lastname, q.name, q.industrycode FROM $deep ORDER BY 1",
	'inner links above inner links' => 'SELECT c.contactid, a.name, p.lastname FROM S.contact c JOIN S.account a ON a.accountid = c.parentcustomerid JOIN S.contact p ON p.contactid = a.primarycontactid WHERE p.gendercode = 1 ORDER BY 1',
	'two links to one table' => 'SELECT a.accountid, p.lastname, r.lastname FROM S.account a JOIN S.contact p ON p.contactid = a.primarycontactid LEFT JOIN S.contact r ON r.contactid = a.primarycontactid AND r.gendercode = 1 ORDER BY 1',
	'whole rows and labels' => "SELECT c, a FROM $outer ORDER BY c.contactid LIMIT 20; SELECT c.contactid, a.accountid IS NULL FROM $inner ORDER BY 1",
	'LIMIT in other places' => "SELECT * FROM (SELECT c.contactid, a.name FROM $outer ORDER BY c.contactid LIMIT 5 OFFSET 3) x; SELECT c.contactid, a.name FROM $outer ORDER BY c.contactid DESC LIMIT 0; SELECT c.contactid, a.name FROM $outer ORDER BY c.contactid OFFSET 890; SELECT c.gendercode, a.name FROM $inner ORDER BY 1, 2 FETCH FIRST 3 ROWS WITH TIES",
	'EXISTS that needs one row' => "SELECT EXISTS (SELECT FROM $inner WHERE c.gendercode = 1), NOT EXISTS (SELECT FROM $inner WHERE c.gendercode = 7)",
	'minima and maxima' => "SELECT min(c.contactid::text), max(a.name), min(c.lastname) FROM $inner",
	'LATERAL' => "SELECT v, x.* FROM generate_series(1, 3) v, LATERAL (SELECT c.contactid, a.name FROM $inner WHERE c.gendercode = v AND a.industrycode <> v ORDER BY c.contactid LIMIT 4) x ORDER BY 1, 2",
	'a correlated subquery with HAVING' => "SELECT v, (SELECT string_agg(n::text, ',' ORDER BY n) FROM (SELECT count(*) AS n FROM $inner WHERE c.gendercode = v GROUP BY a.industrycode HAVING count(*) > v * 10) g) FROM generate_series(1, 3) v",
	'a parameter of HAVING alone' => "SELECT v, (SELECT count(*) FROM (SELECT 1 FROM $inner GROUP BY a.industrycode HAVING count(*) > v * 20) g) FROM generate_series(0, 4) v",
	'a parameter of a filter alone' => "SELECT v, (SELECT count(*) FROM $inner WHERE left(c.lastname, 1) || left(a.name, 1) > v) FROM (VALUES ('A'), ('M'), ('A'), ('Z'), ('')) x(v)",
	'a parameter of the select list alone' => "SELECT v, (SELECT max(a.name || v) FROM $inner) FROM (VALUES ('A'), ('M')) x(v)",
	'a nested loop around' => "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SELECT v, count(*) FROM generate_series(1, 4) v LEFT JOIN ($inner) ON c.gendercode >= v AND a.industrycode % 4 < v GROUP BY v ORDER BY v",
	'WITH RECURSIVE' => "WITH RECURSIVE w(id, n) AS (SELECT a.accountid, 0 FROM S.account a WHERE a.industrycode = 1 UNION ALL SELECT p.parentcustomerid, n + 1 FROM w JOIN S.account a ON a.accountid = w.id JOIN S.contact p ON p.contactid = a.primarycontactid WHERE n < 3) SELECT n, count(*) FROM w GROUP BY n ORDER BY n",
	'UNION ALL' => "SELECT c.contactid, a.name FROM $inner UNION ALL SELECT a.accountid, p.lastname FROM S.account a LEFT JOIN S.contact p ON p.contactid = a.primarycontactid UNION ALL SELECT contactid, name FROM S.both ORDER BY 1, 2",
	'a prepared statement' => "SET plan_cache_mode = force_generic_plan; PREPARE p(int, text) AS SELECT c.contactid, a.name FROM $inner WHERE c.gendercode = \$1 AND a.name ~ \$2 ORDER BY 1; EXECUTE p(1, '.'); EXECUTE p(2, '^A'); EXECUTE p(NULL, '.'); EXECUTE p(1, '^[B-Z]'); DEALLOCATE p",
	'a prepared list' => "SET plan_cache_mode = force_generic_plan; PREPARE p(uuid[]) AS SELECT c.contactid, a.name FROM $outer WHERE c.contactid = ANY (\$1) ORDER BY 1; SELECT array_agg(contactid ORDER BY contactid) AS ids FROM (SELECT contactid FROM l.contact UNION ALL SELECT md5(i::text)::uuid FROM generate_series(1, 900) i) x\\gset\nEXECUTE p(:'ids'); EXECUTE p('{}'); EXECUTE p(NULL)",
	'a list of a link' => "SELECT c.contactid, a.name FROM $inner WHERE a.accountid = ANY ((SELECT array_agg(accountid) FROM (SELECT accountid FROM S.account WHERE industrycode < 4 UNION ALL SELECT md5(i::text)::uuid FROM generate_series(1, 900) i) x)::uuid[]) ORDER BY 1",
	'CREATE TABLE AS, and INSERT' => "BEGIN; CREATE TEMP TABLE t AS SELECT c.contactid, a.name FROM $inner; SELECT count(*), count(name) FROM t; INSERT INTO sink SELECT c.contactid, a.name FROM $outer; SELECT count(*), count(name) FROM sink; ROLLBACK",
	'COPY' => "COPY (SELECT c.contactid, a.name FROM $inner ORDER BY 1) TO STDOUT",
	'an update of a local table' => "BEGIN; INSERT INTO sink SELECT contactid FROM l.contact; UPDATE sink SET name = a.name FROM $inner WHERE c.contactid = sink.contactid; SELECT count(*), count(name), min(name) FROM sink; DELETE FROM sink USING $inner WHERE c.contactid = sink.contactid; SELECT count(*) FROM sink; ROLLBACK",
	'a function in SQL' => 'SELECT * FROM S.names(1) LIMIT 9; SELECT count(*) FROM S.names(2)',
	'a function with a loop' => 'SELECT S.walk(1), S.walk(2)',
	'a view of another role' => 'SET ROLE somebody; SELECT * FROM S.both ORDER BY contactid; SELECT industrycode, count(*) FROM S.both GROUP BY 1 ORDER BY 1',
	'a constant condition' => "SELECT count(*) FROM $inner WHERE c.gendercode = 1 AND random() >= 0 AND current_user IS NOT NULL; SELECT count(*), count(a.name) FROM $outer AND a.industrycode = 99; SELECT count(*) FROM $inner WHERE a.accountid = '00000000-0000-0000-0000-000000000000'",
	'links without a row' => "SELECT c.contactid, a.name FROM S.contact c LEFT JOIN S.account a ON a.accountid = c.parentcustomerid AND a.industrycode = ANY ('{}') ORDER BY 1 LIMIT 9; SELECT count(*) FROM S.account a WHERE NOT EXISTS (SELECT FROM S.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = ANY ('{}'))",
	'semi-joins and anti-joins' => 'SELECT count(*) FROM S.account a WHERE EXISTS (SELECT FROM S.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1) AND NOT EXISTS (SELECT FROM S.contact c WHERE c.parentcustomerid = a.accountid AND c.lastname < a.name); SELECT c.contactid FROM S.contact c LEFT JOIN S.account a ON a.accountid = c.parentcustomerid WHERE a.accountid IS NULL ORDER BY 1; SELECT count(*) FROM S.account WHERE accountid IN (SELECT parentcustomerid FROM S.contact WHERE gendercode = 2); SELECT count(*) FROM S.account WHERE accountid NOT IN (SELECT parentcustomerid FROM S.contact WHERE gendercode = 2 AND parentcustomerid IS NOT NULL)',
	'groups' => "SELECT a.industrycode, c.gendercode, count(*), count(DISTINCT c.contactid), count(DISTINCT a.accountid), sum(c.numberofchildren), avg(c.numberofchildren), min(c.birthdate), max(a.createdon) FROM $outer GROUP BY 1, 2 ORDER BY 1, 2; SELECT DISTINCT a.industrycode FROM $inner ORDER BY 1; SELECT count(*) FROM $inner; SELECT date_trunc('month', c.birthdate::timestamp), count(*) FROM $inner GROUP BY 1 ORDER BY 1; SELECT a.industrycode, count(*) FROM $inner GROUP BY GROUPING SETS ((1), ()) ORDER BY 1, 2",
	'window functions' => "SELECT c.contactid, row_number() OVER (PARTITION BY a.industrycode ORDER BY c.contactid) FROM $inner ORDER BY 1",
	'compiled expressions' => "SET jit = on; SET jit_above_cost = 0; SET jit_optimize_above_cost = 0; SELECT count(*) FROM $inner WHERE c.lastname || a.name ~ 'a'",
	'many ranges' => "SET dataverse_fdw.scan_parallelism = 6; SELECT c.contactid, a.name FROM $inner; SELECT count(*), count(name) FROM (SELECT c.contactid, a.name FROM $outer OFFSET 0) x");

my $remote = join ' ', map { "SET enable_$_ = off;" } qw(hashjoin mergejoin nestloop hashagg sort);

# Without the order of rows where the statement does not determine it.
sub printed
{
	my ($schema, $script, $settings) = @_;
	my ($out, $err) = ('', '');

	$crm->node->psql('postgres', "SET jit = off; $settings " . ($script =~ s/\bS\./$schema./gr), stdout => \$out, stderr => \$err, on_error_stop => 0);
	return ($script =~ /scan_parallelism/ ? join "\n", sort split /\n/, $out : $out) . "\n$err";
}

my %expected = map { $_ => printed('l', $scripts{$_}, '') } keys %scripts;
is(join('; ', grep { $expected{$_} =~ /ERROR/ } sort keys %scripts), '', 'no script has a mistake') or diag map { $expected{$_} =~ /(ERROR.*)/ ? "$_: $1\n" : () } sort keys %scripts;

for my $case ([ 'answered', 0 ], [ 'refused', 400 ], [ 'failed', 500 ])
{
	my ($what, $status) = @$case;
	my $hits = 0;

	$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retries '0')}) if $status == 500;
	for my $name (sort keys %scripts)
	{
		$crm->fault(path => 'link-entity', status => $status, code => '0x80040216', message => 'Joins are not supported.', times => 0) if $status;
		for my $settings ('', $remote)
		{
			my $printed = printed('f', $scripts{$name}, $settings);

			ok($printed eq $expected{$name}, "$name: $what" . ($settings ? ', with other settings' : ''))
			  or diag substr($printed, 0, 1500), "\nexpected:\n", substr($expected{$name}, 0, 1500);
		}
		$hits += $dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits} if $status;
		$crm->no_faults;
	}
	cmp_ok($hits, '>', keys %scripts, "$hits requests were $what") if $status;
}

done_testing();
