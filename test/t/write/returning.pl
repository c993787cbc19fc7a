# returning.pl
#		RETURNING of rows that may be refused, ignored, or missing, and of values
#		that only the service knows: rows are still sent in batches, and exactly the
#		written rows are returned.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('returning', users => 2, options => { batch_size => 50 });
my $n = 1000;
my $bad = $n / 100;
my $batches = $n / 50;
my $go_on = "SET dataverse_fdw.on_error = 'continue'";
my $since = 0;

# every hundredth kind does not exist
my $kind = 'CASE WHEN n % 100 = 7 THEN 4711 END';
my $insert = "INSERT INTO dv.new_meter (new_meterid, new_number, new_name, new_kind)
	SELECT md5(n::text)::uuid, n, 'row ' || n, $kind FROM generate_series(1, $n) n";

sub requests
{
	my ($next, @all) = sent($w->dvsim, $since);

	$since = $next;
	return grep { $_->{kind} ne 'token' } @all;
}

# Runs a statement that returns numbers, and returns its result, the numbers, and its number of requests.
sub run
{
	my ($sql, @settings) = @_;
	my $result;

	requests();
	$result = $w->run($sql, settings => \@settings);
	diag("$result->{sqlstate}: $result->{message}") if $result->{sqlstate};
	return ($result, [ map { $_->[0] } @{ $result->{rows} } ], scalar(my @r = requests()));
}

sub numbers
{
	my ($condition) = @_;
	return [ grep { $condition->($_) } 1 .. $n ];
}

sub there
{
	my ($condition) = @_;
	return [ split /\n/, $w->watcher->query("SELECT new_number FROM dv.new_meter WHERE $condition ORDER BY 1") ];
}

my $good = numbers(sub { $_[0] % 100 != 7 });

# ---- refused rows

my ($r, $rows, $requests) = run("$insert RETURNING new_number", $go_on);
is_deeply($rows, $good, 'on_error = continue: written rows are returned, in order');
is_deeply(there('true'), $good, '… and exist');
is($r->{tag}, 'INSERT 0 ' . ($n - $bad), '… and are counted');
cmp_ok($requests, '<=', $batches + $bad, '… in as many requests as batches, plus one for each batch with a bad row')
  || diag($requests);

$w->reset;
$w->watcher->query('TRUNCATE dataverse_private.rejected_rows');
faults($w->dvsim, map { { times => 3, method => 'POST', path => '/api/data/', %$_ } }
	{ action => 'reset_after_commit', every => 5 },
	{ action => 'reset_before_commit', every => 7 },
	{ action => 'truncate', every => 6 },
	{ status => 503, every => 13 });
($r, $rows) = run("$insert RETURNING new_number", $go_on);
cmp_ok(hits($w->dvsim), '>', 5, 'under faults');
clear_faults($w->dvsim);
is_deeply($rows, $good, '… the same rows are returned, in order');
is($r->{tag}, 'INSERT 0 ' . ($n - $bad), '… and counted');
is_deeply(there('true'), $good, '… and exist');

# ---- all of it at random

my $seed = $ENV{SEED} // int rand 2**31;
my @troubles = ({ action => 'reset_after_commit' }, { action => 'reset_before_commit' }, { action => 'truncate' },
	{ action => 'garble' }, { status => 503 }, { status => 429, code => '0x80072322', retry_after => 0 },
	{ path => '$batch', batch_part => 2, status => 429, code => '0x80072322', retry_after => 0 });
srand $seed;
note "SEED=$seed";
for my $round (1 .. 8)
{
	my ($bad_is, $old_is) = map { 3 + int rand 60 } 1 .. 2;
	my $rows_sent = 50 + int rand 400;
	my $is_bad = rand() < 0.7 ? "n % $bad_is = 1" : 'false';
	my $is_old = rand() < 0.7 ? "n % $old_is = 2" : 'false';
	my $ignore = $is_old eq 'false' || rand() < 0.5 ? ' ON CONFLICT DO NOTHING' : '';
	my @chosen = map { { method => 'POST', path => '/api/data/', times => 2, every => 2 + int rand 6, %{ $troubles[rand @troubles] } } } 1 .. int rand 4;
	my $what = "round $round: $rows_sent rows, bad: $is_bad, old: $is_old,$ignore " . join(' ', map { $_->{action} // $_->{status} } @chosen);
	my $new;

	$w->reset;
	$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_name, new_number, overriddencreatedon)
		SELECT md5(n::text)::uuid, 'old', n, '2020-02-20' FROM generate_series(1, $rows_sent) n WHERE $is_old");
	faults($w->dvsim, @chosen) if @chosen;
	($r, $rows) = run("INSERT INTO dv.new_meter (new_meterid, new_number, new_name, new_kind)
		SELECT md5(n::text)::uuid, n, 'new', CASE WHEN $is_bad THEN 4711 END FROM generate_series(1, $rows_sent) n$ignore RETURNING new_number",
		$go_on, 'SET dataverse_fdw.batch_size = ' . (1 + int rand 60));
	clear_faults($w->dvsim);
	$new = there("new_name = 'new'");
	is_deeply($rows, $new, "$what: the returned rows exist");
	is($r->{tag}, 'INSERT 0 ' . @$new, "$what: and are counted");
	is_deeply($new, [ split /\n/, $w->watcher->query("SELECT n FROM generate_series(1, $rows_sent) n WHERE NOT ($is_bad) AND NOT ($is_old) ORDER BY n") ],
		"$what: and are as expected");

	faults($w->dvsim, @chosen) if @chosen;
	($r, $rows) = run("UPDATE dv.new_meter SET new_name = 'newer', new_kind = CASE WHEN new_number % $bad_is = 0 THEN 4711 END RETURNING new_number",
		$go_on, 'SET dataverse_fdw.batch_size = ' . (1 + int rand 60));
	clear_faults($w->dvsim);
	is_deeply([ sort { $a <=> $b } @$rows ], there("new_name = 'newer'"), "$what: UPDATE as well");
	is($r->{tag}, 'UPDATE ' . @$rows, "$what: and its count");
}

# ---- existing rows

$w->reset;
$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_name, new_number, overriddencreatedon)
	SELECT md5(n::text)::uuid, 'old', n, '2020-02-20' FROM generate_series(1, $n, 50) n");
($r, $rows, $requests) = run("INSERT INTO dv.new_meter (new_meterid, new_number, new_name)
	SELECT md5(n::text)::uuid, n, 'new' FROM generate_series(1, $n) n ON CONFLICT DO NOTHING RETURNING new_number");
is_deeply($rows, numbers(sub { $_[0] % 50 != 1 }), 'ON CONFLICT DO NOTHING: new rows are returned');
is($r->{tag}, 'INSERT 0 ' . ($n - $batches), '… and counted');
cmp_ok($requests, '<=', 2 * $batches, '… in batches') || diag($requests);

# ---- values that only the service knows

$w->reset;
$w->watcher->query("ALTER SERVER crm OPTIONS (ADD generate_ids 'off')");
($r, $rows, $requests) = run("INSERT INTO dv.new_meter (new_number, new_name) SELECT n, 'row ' || n FROM generate_series(1, $n) n
	RETURNING new_number || ' ' || new_meterid");
$w->watcher->query('ALTER SERVER crm OPTIONS (DROP generate_ids)');
is($requests, $batches, 'ids generated by the service: batches');
is_deeply($rows, [ split /\n/, $w->watcher->query("SELECT new_number || ' ' || new_meterid FROM dv.new_meter ORDER BY new_number") ],
	'… and each row has its own');

$w->reset;
($r, $rows, $requests) = run("INSERT INTO dv.new_meter (new_number, new_name) SELECT n, 'row' FROM generate_series(1, 100) n
	RETURNING CASE WHEN createdon IS NOT NULL AND statecode = 0 THEN new_number END");
is_deeply($rows, [ 1 .. 100 ], 'defaults of the service');
is($requests, 3, '… are written in batches, and read back together');

# ---- values that the service changes

$w->reset;
$w->watcher->query('IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO dv');
my $kept = "new_name, new_text IS NULL, new_memo, new_choices, new_datetime AT TIME ZONE 'UTC', new_zonefree, new_decimal, new_money";
for my $row ("('', '', 'm', '{}', '1969-12-31 23:59:59.5+00', '1753-12-31 23:59:59.999', 1.123456789012, 1.005)",
	"('x', 'y', '', '{1}', '2020-02-29 12:34:56.789+00', '2020-02-29 12:34:56', -0.5, NULL)")
{
	my $returned = $w->watcher->query("INSERT INTO dv.new_alltypes (new_name, new_text, new_memo, new_choices, new_datetime, new_zonefree, new_decimal, new_money)
		VALUES $row RETURNING $kept");

	is($returned =~ s/\|/,/gr, $w->watcher->query("SELECT $kept FROM dv.new_alltypes") =~ s/\|/,/gr, 'the returned values are those stored');
	$w->watcher->query('DELETE FROM dv.new_alltypes');
}

# ---- UPDATE and DELETE

$w->reset;
$w->watcher->query($insert =~ s/\Q$kind\E/NULL/r);
($r, $rows, $requests) = run("UPDATE dv.new_meter t SET new_name = v.name, new_kind = CASE WHEN v.n % 100 = 7 THEN 4711 END
	FROM (SELECT n, 'new ' || n AS name, md5(n::text)::uuid AS id FROM generate_series(1, $n) n) v WHERE t.new_meterid = v.id
	RETURNING CASE WHEN t.new_name = v.name AND t.new_meterid = v.id THEN v.n END", $go_on);
is_deeply([ sort { $a <=> $b } @$rows ], $good, 'UPDATE: changed rows are returned, each with its own row of FROM');
is($r->{tag}, 'UPDATE ' . ($n - $bad), '… and counted');
cmp_ok($requests, '<=', 4 * $batches, '… in batches') || diag($requests);

# the ids are given, so no rows are read before the write
($r, $rows, $requests) = run("UPDATE dv.new_meter SET new_name = 'x'
	WHERE new_meterid IN (md5('1')::uuid, md5('nobody')::uuid, md5('2')::uuid) RETURNING new_meterid = md5('nobody')::uuid");
is_deeply($rows, [ 'f', 'f' ], 'rows that do not exist are not returned');
is($r->{tag}, 'UPDATE 2', '… and not counted');

($r, $rows, $requests) = run('DELETE FROM dv.new_meter WHERE new_number > 500 RETURNING new_number', $go_on);
is_deeply([ sort { $a <=> $b } @$rows ], [ 501 .. $n ], 'DELETE returns what it has deleted');
is($r->{tag}, 'DELETE 500', '… and counts it');
cmp_ok($requests, '<=', 15, '… in batches') || diag($requests);
is_deeply(there('true'), [ 1 .. 500 ], '… and no more');

# from 18 on, RETURNING can refer to a row before and after the change
SKIP:
{
	skip 'no OLD and NEW before 18', 12 if $w->node->pg_version < 18;
	my $half = $n / 2;
	my $columns = "concat_ws(',', old.new_name, new.new_name, old.new_number, new.new_number, old IS NULL, new IS NULL)";

	$w->reset;
	($r, $rows) = run("$insert RETURNING $columns", $go_on);
	is_deeply($rows, [ map { "row $_,$_,t,f" } @{ numbers(sub { $_[0] % 100 != 7 }) } ], 'OLD and NEW of INSERT');
	is($r->{tag}, 'INSERT 0 ' . ($n - $bad), '… and its count');
	($r, $rows) = run("UPDATE dv.new_meter SET new_name = 'new ' || new_number, new_kind = CASE WHEN new_number % 100 = 8 THEN 4711 END
		WHERE new_number <= $half RETURNING $columns", $go_on);
	is_deeply([ sort @$rows ], [ sort map { "row $_,new $_,$_,$_,f,f" } grep { $_ % 100 != 7 && $_ % 100 != 8 } 1 .. $half ],
		'OLD and NEW of UPDATE: of changed rows');
	is($r->{tag}, 'UPDATE ' . @$rows, '… and its count');
	# the only reference to a column that is not written is to the old row
	($r, $rows) = run("WITH u AS (UPDATE dv.new_meter SET new_name = 'newer' WHERE new_number <= $half RETURNING old.new_name AS name, old.new_number AS n)
		SELECT count(*) FROM u WHERE name = CASE WHEN n % 100 = 8 THEN 'row ' ELSE 'new ' END || n", $go_on);
	is_deeply($rows, [ $half - $half / 100 ], 'OLD alone, in WITH');
	is(scalar(my @changed = @{ there("new_name = 'newer'") }), $rows->[0], '… and as many exist');
	for my $settings ([ $go_on ], [])
	{
		($r, $rows) = run("UPDATE dv.new_meter SET new_name = 'newest' WHERE new_number = 1
			RETURNING concat_ws(',', old.xmin, old.xmax, old.cmin, old.tableoid = new.tableoid, new.xmin, new.xmax, new.cmin)", @$settings);
		is_deeply($rows, ['0,0,0,t,0,0,0'], 'system columns of OLD and NEW');
		is($r->{tag}, 'UPDATE 1', '… of one row');
	}
	($r, $rows) = run("DELETE FROM dv.new_meter WHERE new_number > $half RETURNING $columns", $go_on);
	is_deeply([ sort @$rows ], [ sort map { "row $_,$_,f,t" } grep { $_ % 100 != 7 } $half + 1 .. $n ], 'OLD and NEW of DELETE');
	is($r->{tag}, 'DELETE ' . @$rows, '… and its count');
}

# ---- the target of the rows

$w->reset;
($r, $rows, $requests) = run("WITH i AS ($insert RETURNING new_number, new_meterid)
	INSERT INTO dv.new_meter (new_number, new_name) SELECT new_number + $n, new_meterid FROM i RETURNING new_number - $n", $go_on);
is_deeply($rows, $good, 'WITH: only written rows are passed on');
cmp_ok($requests, '<=', 2 * $batches + $bad, '… in batches') || diag($requests);

$w->reset;
$w->watcher->query("CREATE TABLE parts (new_meterid uuid, new_name text, new_number integer, new_kind integer) PARTITION BY RANGE (new_number);
	CREATE TABLE here PARTITION OF parts FOR VALUES FROM (0) TO (11);
	CREATE FOREIGN TABLE there PARTITION OF parts FOR VALUES FROM (11) TO (100000) SERVER crm OPTIONS (table 'new_meter', entity_set 'new_meters')");
($r, $rows, $requests) = run($insert =~ s/dv.new_meter/parts/r . ' RETURNING new_number', $go_on);
# the tenth row is the last local one, and the seventh of those
$good = [ sort { $a <=> $b } 7, @$good ];
is_deeply($rows, $good, 'rows that are routed to a partition');
is($r->{tag}, 'INSERT 0 ' . @$good, '… are counted');
cmp_ok($requests, '<=', $batches + $bad + 2, '… and sent in batches') || diag($requests);

# PostgreSQL does not ask about partitions that are not in the plan, but from 18 on it can be told
$w->reset;
SKIP:
{
	skip 'EXPLAIN cannot be extended before 18', 2 if $w->node->pg_version < 18;
	my $plan = $w->watcher->query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) " . $insert =~ s/dv.new_meter/parts/r =~ s/\Q$kind\E/NULL/r);

	like($plan, qr/Partition: there\n *Batches: $batches\n/, 'EXPLAIN ANALYZE shows the batches of a partition');
	like($w->watcher->query("EXPLAIN (ANALYZE, FORMAT JSON) INSERT INTO parts (new_name, new_number) VALUES ('x', 2000)"),
		qr/"Foreign Partitions": \[\s+\{\s+"Partition": "there",\s+"Batches": 1,/, '… in all formats');
}

$w->reset;
$w->watcher->query(q{CREATE FUNCTION loop() RETURNS text LANGUAGE plpgsql AS $$
	DECLARE r record; list int[]; one int;
	BEGIN
		FOR r IN INSERT INTO dv.new_meter (new_number, new_name, new_kind)
			SELECT n, 'row', CASE WHEN n % 10 = 7 THEN 4711 END FROM generate_series(1, 200) n RETURNING new_number AS n LOOP
			list := list || r.n;
		END LOOP;
		INSERT INTO dv.new_meter (new_number, new_name) VALUES (1000, 'one') RETURNING new_number INTO STRICT one;
		RETURN format('%s %s %s', cardinality(list), list[10], one);
	END $$});
is_deeply((run('SELECT loop()', $go_on))[1], ['180 11 1000'], 'PL/pgSQL');

# a caller that requests two rows gets two written, not a whole batch
$w->reset;
my $session = $w->session;
$w->watcher->query(q{CREATE FUNCTION first() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE one int;
	BEGIN
		INSERT INTO dv.new_meter (new_number, new_name) SELECT n, 'row' FROM generate_series(1, 200) n RETURNING new_number INTO one;
		RETURN one;
	END $$});
$session->query($go_on);
is($session->try('SELECT first()')->{sqlstate}, 'P0003', 'more rows than PL/pgSQL requested');
is_deeply(there('true'), [ 1, 2 ], '… are not written');

$session->close;
$w->stop;
done_testing;
