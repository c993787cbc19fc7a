# append.pl
#		Several foreign tables below one Append: their requests are in flight at
#		the same time, the rows are the same as without concurrency, and an event
#		in one of them (throttle, error, cancel, no slot, rescan) has the right
#		effect on all.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use PoolTest qw(wait_for hits);
use Session;

use constant LATENCY => 150;    # ms of each read
use constant PROMPT => 1;       # s; the promise is 200 ms, but the test must not fail on a busy machine

# ---- tables: four kinds of rows, and one parent

my @kinds = (
	[ 'account', 'accounts', 'name', 250 ],
	[ 'contact', 'contacts', 'fullname', 150 ],
	[ 'opportunity', 'opportunities', 'name', 60 ],
	[ 'task', 'tasks', 'subject', 30 ]);
my $page = 100;

my $crm = Crm->start('append', preload => 1, flags => [ '--latency', 'read=' . LATENCY . 'ms' ]);
my $dvsim = $crm->dvsim;

# of an environment that has just been reset, only two requests are sent until they are answered
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD useful_limit 'off')});

# Clears dvsim's statistics by a reset, which removes all rows, and seeds the rows again.
sub sow
{
	$dvsim->control('POST', '/_dvsim/reset');
	for my $kind (@kinds)
	{
		my $answer = $dvsim->control('POST', "/_dvsim/seed?table=$kind->[0]&rows=$kind->[3]");

		die $answer->body unless $answer->status == 200;
	}
	$crm->sql(q{SELECT dataverse.reset_pool('crm')});
	return;
}

sub peak { return $crm->user_stats('app1')->{peak_in_flight}; }

$crm->sql('CREATE TABLE everything (label text, createdon timestamptz)');
for my $kind (@kinds)
{
	my ($table, $set, $column) = @$kind;

	$crm->sql(
		qq{CREATE FOREIGN TABLE every_$table (label text OPTIONS ("column" '$column'), createdon timestamptz)
		INHERITS (everything) SERVER crm OPTIONS (entity_set '$set', primary_id '}
		. ($table eq 'task' ? 'activityid' : "${table}id") . qq{', page_size '$page')});
}
$crm->sql(q{CREATE TABLE by_state (name text, statecode integer) PARTITION BY LIST (statecode);
	CREATE TABLE local_rows AS SELECT 'local ' || i AS label FROM generate_series(1, 500) i});
$crm->sql(
	qq{CREATE FOREIGN TABLE by_state_$_ (name text, statecode integer OPTIONS (type 'state'))
		SERVER crm OPTIONS (entity_set 'accounts', primary_id 'accountid', page_size '$page');
	ALTER TABLE by_state ATTACH PARTITION by_state_$_ FOR VALUES IN ($_)}) for 0, 1;
sow();

my $session = Session->new($crm->node);
my $watcher = Session->new($crm->node);
my $all = 0;

$all += $_->[3] for @kinds;

# Compares the results with and without asynchronous Append.
sub same_ok
{
	my ($what, $query, $expected) = @_;
	my ($async, $sync);

	like($session->query("EXPLAIN (COSTS OFF) $query"), qr/Async Foreign Scan/, "$what: scans are asynchronous");
	$async = $session->query($query);
	$session->query('SET enable_async_append = off');
	unlike($session->query("EXPLAIN (COSTS OFF) $query"), qr/Async Foreign Scan/, '… or not, if disabled');
	$sync = $session->query($query);
	$session->query('RESET enable_async_append');
	is($async, $sync, "$what: the rows are the same");
	is($async, $expected, '… and correct') if defined $expected;
	isnt($async, '', '… and not empty');
	return;
}

# ---- concurrency

my $result = $session->try('SELECT count(*) FROM everything');
is($result->{rows}[0][0], $all, 'all rows are read') or diag $result->{message};
is(peak(), scalar @kinds, 'all first requests are under way at the same time');
# the longest one has three pages, and the others are read in the meantime
my $alone = $session->try('SELECT count(*) FROM every_account WHERE length(label) >= 0');
cmp_ok($result->{seconds}, '<', $alone->{seconds} + 2 * LATENCY / 1000,
	sprintf 'all take %.1f s, the longest alone %.1f s', $result->{seconds}, $alone->{seconds});

sow();
$session->query('SET enable_async_append = off');
my $slow = $session->try('SELECT count(*) FROM everything');
is($slow->{rows}[0][0], $all, 'without asynchronous Append: the same');
is(peak(), 1, '… with one request at a time');
cmp_ok($slow->{seconds}, '>', $result->{seconds} + 3 * LATENCY / 1000, sprintf '… in %.1f s', $slow->{seconds});
$session->query('RESET enable_async_append');

# Checks that a waiting backend sleeps.
sub cpu_of
{
	my ($pid) = @_;
	my @stat = split ' ', slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;

	return ($stat[11] + $stat[12]) / 100;
}
SKIP:
{
	skip 'no /proc', 1 unless -r "/proc/$$/stat";
	my $before = cpu_of($session->pid);

	$crm->fault(path => '/tasks', action => 'delay', delay_ms => 2500);
	$session->query('SELECT count(*) FROM everything');
	cmp_ok(cpu_of($session->pid) - $before, '<', 1, 'the backend sleeps while it waits');
}

$result = $session->query('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT label FROM everything');
like($result, qr/Async Foreign Scan on every_$_->[0] \S+ \(actual rows=$_->[3](?:\.00)? loops=1\)\s+Requests Answered: @{[ int(($_->[3] + $page - 1) \/ $page) ]}\n/,
	"EXPLAIN ANALYZE: $_->[0]")
  for @kinds;

# ---- other shapes

$dvsim->control('POST', '/_dvsim/faults', []);
same_ok('UNION ALL', q{SELECT count(*), count(DISTINCT label), min(label) COLLATE "C" FROM (
	SELECT label FROM every_account UNION ALL SELECT upper(label) FROM every_contact WHERE length(label) > 3
	UNION ALL SELECT label FROM every_task) s});
same_ok('rows of a local table between them', q{SELECT count(*), count(DISTINCT label) FROM (
	SELECT label FROM every_account UNION ALL SELECT label FROM local_rows UNION ALL SELECT label FROM every_contact) s},
	join '|', $session->query(q{SELECT 900, (SELECT count(DISTINCT label) FROM (
	SELECT label FROM local_rows UNION SELECT label FROM every_account UNION SELECT label FROM every_contact) s)}));
same_ok('filters here and there', q{SELECT label, createdon FROM everything WHERE createdon > '2000-01-01' AND label LIKE '%9%' ORDER BY 1, 2});
same_ok('LIMIT in the parts', q{SELECT count(*), count(label) > 150 FROM ((SELECT label FROM every_account LIMIT 150)
	UNION ALL (SELECT label FROM every_contact LIMIT 20)) s}, '170|t');
same_ok('LIMIT above Append', 'SELECT count(*) FROM (SELECT label FROM everything LIMIT 140) s', 140);
same_ok('rescans with other values', q{SELECT v, n, l FROM (VALUES ('A'), ('B'), ('Z'), (NULL)) AS x (v),
	LATERAL (SELECT count(*) AS n, min(label) AS l FROM (SELECT label FROM every_account UNION ALL SELECT label FROM every_contact) s
	WHERE label > x.v) y ORDER BY 1});
same_ok('rescans while requests are under way', q{SELECT v, y.label IS NOT NULL FROM generate_series(1, 4) AS x (v),
	LATERAL (SELECT label FROM everything WHERE label <> 'x' || v LIMIT 1) y ORDER BY 1}, join "\n", map { "$_|t" } 1 .. 4);
same_ok('rescans of the same values', q{SELECT x.label, count(*) FROM (SELECT label FROM local_rows LIMIT 3) x
	LEFT JOIN LATERAL (SELECT label FROM (SELECT label FROM every_task UNION ALL SELECT label FROM every_opportunity) s OFFSET 0) y
	ON y.label > x.label COLLATE "C" GROUP BY 1 ORDER BY 1});

# both partitions have all rows, but only one of them is read
my $open = $session->query('SELECT count(name) FROM by_state_0 WHERE statecode = 0');
my $closed = $session->query('SELECT count(name) FROM by_state_1 WHERE statecode = 1');
$session->query(q{SET plan_cache_mode = force_generic_plan;
	PREPARE by_state (int) AS SELECT count(name) FROM by_state WHERE statecode = $1});
is($session->query('EXECUTE by_state (0)'), $open, 'a partition is pruned when the plan runs');
is($session->query('EXECUTE by_state (1)'), $closed, '… or the other one');
is($session->query('EXECUTE by_state (2)'), 0, '… or both');
$session->query('RESET plan_cache_mode');
same_ok('partitions left out in rescans', q{SELECT g, n FROM generate_series(0, 2) g,
	LATERAL (SELECT count(name) AS n FROM by_state WHERE statecode = g) s ORDER BY 1}, "0|$open\n1|$closed\n2|0");

# ---- a cursor, and a subtransaction that aborts with requests in flight

$session->query(q{BEGIN; DECLARE c CURSOR FOR SELECT label FROM everything});
$session->query('FETCH 10 FROM c');
$session->query('SAVEPOINT s; FETCH 1 FROM c; ROLLBACK TO s');
is($session->try('FETCH ALL FROM c')->{tag}, 'FETCH ' . ($all - 11), 'a cursor survives a failed subtransaction');
$session->query('COMMIT');
$crm->idle_ok('after a cursor');

# ---- faults in one scan

$crm->fault(path => '/tasks', status => 429, code => '0x80072322', message => 'slow down', retry_after => 1);
$crm->sql('ALTER SERVER crm OPTIONS (ADD throttle_tracking \'off\')');
$result = $session->try('SELECT count(*) FROM everything');
is($result->{rows}[0][0], $all, 'a throttle in one scan: all rows are returned') or diag $result->{message};
cmp_ok($result->{seconds}, '>', 1, '… after its Retry-After');
$crm->sql('ALTER SERVER crm OPTIONS (DROP throttle_tracking)');
$session->query(q{SELECT dataverse.reset_pool('crm')});
$crm->fault(path => '/tasks', status => 429, code => '0x80072322', message => 'slow down', retry_after => 1);
$result = $session->try('SELECT count(*) FROM everything');
is($result->{rows}[0][0], $all, 'a throttle of the user: the same') or diag $result->{message};
$session->query(q{SELECT dataverse.reset_pool('crm')});

$crm->fault(path => '/contacts', status => 503, times => 2);
is($session->query('SELECT count(*) FROM everything'), $all, 'a backoff in one scan: all rows are returned');

$crm->fault(path => '/contacts', after => 1, status => 400, code => '0x80040203', message => 'no such thing');
$result = $session->try('SELECT count(*) FROM everything');
like($result->{message} // '', qr/could not read foreign table "every_contact" on server "crm": no such thing/, 'an error in one scan fails the query');
$crm->no_faults;
is($session->query('SELECT count(*) FROM everything'), $all, 'and the next query succeeds');
$crm->fault(path => '/opportunities', action => 'truncate');
is($session->query('SELECT count(*) FROM everything'), $all, 'a truncated answer is requested again');
$crm->idle_ok('after errors');

# ---- slots

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_parallel '1')});
sow();
is($session->query('SELECT count(*) FROM everything'), $all, 'with only one slot: all rows are returned');
is(peak(), 1, '… one request at a time');
{
	my $holder = Session->new($crm->node);

	$crm->fault(path => 'WhoAmI', action => 'stall');
	$holder->start(q{SELECT dataverse.whoami('crm')});
	wait_for(sub { hits($dvsim) == 1 }, 'a request hangs');
	$session->start('SELECT count(*) FROM everything');
	ok(!$session->done(1), 'without a slot nothing is read');
	my $at = time;
	$watcher->value('SELECT pg_cancel_backend(' . $holder->pid . ')');
	$holder->finish;
	is($session->finish->{rows}[0][0], $all, 'a scan that waits for a slot is woken when another session releases it');
	$holder->close;
	$crm->no_faults;
}

# events that only set the latch are handled, whichever scan they concern
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retry_after_tolerance '2s')});
{
	my $holder = Session->new($crm->node);

	$crm->fault(path => 'WhoAmI', status => 429, code => '0x80072322', message => 'slow down', retry_after => 600,
		delay_ms => 1000);
	$holder->start(q{SELECT dataverse.whoami('crm')});
	wait_for(sub { hits($dvsim) == 1 }, 'a request is slow');
	$result = $session->try('SELECT count(*) FROM everything');
	like($result->{message} // '', qr/all application users are throttled for another 60\d s, which exceeds "max_retry_after_tolerance"/,
		'a scan that waits for a slot fails when the wait would be too long');
	cmp_ok($result->{seconds}, '<', 1 + PROMPT, '… at once');
	$holder->finish;
	$holder->close;
	$crm->no_faults;
}
$crm->sql('ALTER SERVER crm OPTIONS (DROP max_parallel, DROP max_retry_after_tolerance)');
$session->query(q{SELECT dataverse.reset_pool('crm')});

# ---- cancel

sub cancel_ok
{
	my ($what, $under_way) = @_;

	$session->start('SELECT count(*) FROM everything');
	wait_for($under_way, "a scan is $what");
	ok(!$session->done(0.3), "$what: it waits");
	my $at = time;
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	my $r = $session->finish;
	my $latency = $r->{ended_at} - $at;

	is($r->{sqlstate}, '57014', "$what: it is canceled");
	cmp_ok($latency, '<', PROMPT, sprintf '… within %.0f ms', $latency * 1000);
	$crm->no_faults;
	$session->query(q{SELECT dataverse.reset_pool('crm')});
	$crm->idle_ok("$what, canceled");
	return;
}

$crm->fault(path => '/tasks', action => 'stall', times => 0);
cancel_ok('waiting for an answer', sub { hits($dvsim) >= 1 });
$crm->fault(path => '/', status => 429, code => '0x80072322', message => 'slow down', retry_after => 600);
cancel_ok('throttled', sub { $watcher->value('SELECT count(*) FROM dataverse.pool WHERE throttled') == 1 });
$crm->fault(path => '/', status => 502, times => 0, retry_after => 60);
cancel_ok('in a backoff', sub { hits($dvsim) >= scalar @kinds });

# ---- statements that write what they read

$crm->sql('CREATE TABLE named (id uuid, label text)');
$crm->sql(qq{CREATE FOREIGN TABLE named_$_->[0] (id uuid OPTIONS ("column" '$_->[0]id'), label text OPTIONS ("column" '$_->[2]'))
	INHERITS (named) SERVER crm OPTIONS ("table" '$_->[0]', entity_set '$_->[1]', page_size '$page')})
  for [ 'account', 'accounts', 'name' ], [ 'contact', 'contacts', 'lastname' ];
is($session->try(q{UPDATE named SET label = coalesce(label, '') || '!' WHERE length(coalesce(label, '')) >= 0})->{tag},
	'UPDATE ' . ($kinds[0][3] + $kinds[1][3]), 'rows of both tables are updated');
is($session->query(q{SELECT count(*) FILTER (WHERE label LIKE '%!'), count(*) FILTER (WHERE label LIKE '%!!') FROM named}),
	($kinds[0][3] + $kinds[1][3]) . '|0', '… each of them once');
is($session->query(q{CREATE TEMP TABLE copied AS SELECT * FROM named; SELECT count(DISTINCT id) FROM copied}),
	$kinds[0][3] + $kinds[1][3], 'and copied');

# other sessions see its wait event, although PostgreSQL does the waiting
$crm->fault(path => '/accounts', after => 1, action => 'stall');
cancel_ok('in the middle of a table',
	sub { $watcher->query('SELECT rows_taken, waiting_for FROM dataverse.progress') eq "$page|response" });

is($session->query('SELECT count(*) FROM everything'), $all, 'finally it succeeds');
$_->close for $session, $watcher;
$crm->stop;
done_testing;
