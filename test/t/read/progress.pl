# progress.pl
#		Operations in progress, how far they are, and what they wait for, as seen
#		by another session.  Nothing is left afterwards.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Dvsim;

my $rows = 1000;
my $page = 100;
my $dvsim = Dvsim->start('--dop', 8);
my $node = new_node('progress', conf => "restart_after_crash = on\n");
my $read = 'SELECT name FROM dv.account';
my $stalls = 0;

create_server($node, 'crm', { url => $dvsim->base, page_size => $page, budget_pacing => 'off' },
	{ client_id => 'app1', client_secret => 'secret1' });
is($dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows")->status, 200, 'rows exist');
$node->safe_psql('postgres',
	q{CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	  CREATE ROLE stranger LOGIN; CREATE ROLE user_of_crm LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats;
	  CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA dv TO reader; GRANT SELECT ON dv.account TO reader;
	  GRANT USAGE ON FOREIGN SERVER crm TO user_of_crm});

# Lets this number of pages pass, and delays the next one.
sub hold_after
{
	my ($pages) = @_;

	clear_faults($dvsim);
	faults($dvsim, { path => 'accounts', after => $pages, action => 'stall' });
	return;
}

sub running
{
	my ($session, $columns) = @_;
	return $session->query("SELECT $columns FROM dataverse.progress ORDER BY started, pid");
}

# Starts a session that reads, and hangs after this number of pages.
sub reading
{
	my ($watcher, $pages, %option) = @_;
	my $session = Session->new($node, user => $option{user});

	hold_after($pages);
	$session->start($option{sql} // $read);
	wait_for(sub { running($watcher, 'rows_taken, waiting_for') eq $pages * $page . '|response' },
		"$pages pages are read");
	return $session;
}

sub gone_ok
{
	my ($watcher, $what) = @_;
	return is(running($watcher, 'count(*) OVER ()'), '', "nothing is left $what");
}

for my $preload (1, 0)
{
	my $how = $preload ? 'preloaded' : 'not preloaded';

	preload($node, $preload);
	my $watcher = Session->new($node);

	# ---- how far a read is

	is(running($watcher, 'pid'), '', "$how: nothing is running");
	my $session = reading($watcher, 3);
	is( running($watcher, 'pid, server, foreign_table, operation, in_flight, rows_sent, rows_acknowledged, rows_rejected'),
		$session->pid . '|crm|dv.account|read|1|||', 'a read, page by page');
	is(running($watcher, 'rows_expected, eta'), '|', 'the number of rows is unknown') if $preload;
	is( running($watcher, q{started BETWEEN now() - interval '5 min' AND clock_timestamp(), rate_overall >= 0, rate_now >= 0}),
		't|t|t', 'its start and its rate');
	wait_for(sub { running($watcher, 'rate_overall > 0 AND rate_now > 0') eq 't' }, 'the rate is known');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57014', 'it is canceled');
	gone_ok($watcher, 'after an error');

	# the same session, in a transaction, with an unfinished cursor
	clear_faults($dvsim);
	$session->query("BEGIN; DECLARE c CURSOR FOR $read; FETCH 150 FROM c");
	is(running($watcher, 'rows_taken, waiting_for'), "$page|", 'a cursor is shown between fetches');
	$session->query('FETCH 100 FROM c');
	is(running($watcher, 'rows_taken'), 2 * $page, 'and grows');
	$session->query('MOVE ALL FROM c');
	gone_ok($watcher, 'when all rows have been read');
	$session->query("DECLARE d CURSOR FOR SELECT * FROM (VALUES (1), (2)) v (x),
		LATERAL (SELECT name FROM dv.account WHERE createdon < now() + x * interval '1 day' OFFSET 0) a; FETCH @{[ $rows + 150 ]} FROM d");
	is(running($watcher, 'rows_taken'), $rows + $page, 'and again when it is rescanned with another value');
	$session->query('ROLLBACK');
	gone_ok($watcher, 'after ROLLBACK');
	is(scalar @{ $session->try($read)->{rows} }, $rows, 'all is read');
	gone_ok($watcher, 'at the end');

	# ---- the remaining time

	$node->safe_psql('postgres', 'ANALYZE dv.account') if $preload;
	$session = reading($watcher, 4);
	is(running($watcher, 'rows_expected'), $rows, 'after ANALYZE the number of rows is known');
	wait_for(sub { running($watcher, 'eta > interval \'0\'') eq 't' }, 'and so is the time of the last one');
	pass('and so is the time of the last one');

	# ---- visibility

	my %sees = (stranger => '', user_of_crm => $session->pid, monitor => $session->pid, reader => '');
	for my $role (sort keys %sees)
	{
		my $other = Session->new($node, user => $role);
		is(running($other, 'pid'), $sees{$role}, "$role sees " . ($sees{$role} ? 'it' : 'nothing'));
		is(running($other, 'database, server'), 'postgres|crm', '... and to the owner of the server') if $sees{$role};
		$other->close;
	}

	# ---- a terminated backend

	$watcher->value('SELECT pg_terminate_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57P01', 'it is terminated');
	gone_ok($watcher, 'of it');

	# ---- a write

	$session = Session->new($node);
	clear_faults($dvsim);
	faults($dvsim, { path => 'CreateMultiple', after => 3, action => 'stall' });
	$session->query('SET dataverse_fdw.max_parallel = 1');
	$session->start(q{INSERT INTO dv.account (name) SELECT 'new ' || i FROM generate_series(1, 1000) i});
	wait_for(sub { running($watcher, 'rows_acknowledged, waiting_for') eq '300|response' }, 'three batches are written');
	is( running($watcher, 'operation, rows_expected, rows_sent, rows_rejected, in_flight, rows_taken BETWEEN 400 AND 1000'),
		'insert|1000|400|0|1|t', 'a write: sent and acknowledged are counted separately');
	wait_for(sub { running($watcher, 'rate_now > 0 AND rate_overall > 0 AND eta > \'0\'') eq 't' }, 'its rate');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57014', 'it is canceled');
	gone_ok($watcher, 'of a write');
	clear_faults($dvsim);
	$session->query(q{DELETE FROM dv.account WHERE name LIKE 'new %'});
	gone_ok($watcher, 'of a delete');

	# ---- without USAGE, a role sees only its own operations

	$session = reading($watcher, 2, user => 'reader');
	my $own = Session->new($node, user => 'reader');
	is(running($own, 'pid'), $session->pid, 'a role sees its own operations');
	$own->close;

	# ---- a throttle

	faults($dvsim, { path => 'accounts', retry_after => 600, times => 99 });
	my $throttled = Session->new($node);
	$throttled->start($read);
	wait_for(sub { running($watcher, 'waiting_for') eq "response\nthrottle" }, 'the reason for the wait');
	is(running($watcher, "rows_taken, in_flight, waiting_for"), "200|1|response\n0|0|throttle",
		'a different one for each');
	$watcher->value('SELECT pg_cancel_backend(' . $_->pid . ')') for $session, $throttled;
	is($_->finish->{sqlstate}, '57014', 'canceled') for $session, $throttled;
	gone_ok($watcher, 'of both');
	clear_faults($dvsim);
	$watcher->value(q{SELECT dataverse.reset_pool('crm')});

	# ---- kill -9

	$session = reading($watcher, 1);
	kill 'KILL', $session->pid;
	ok($session->finish->{gone}, 'kill -9');
	wait_for(sub { !kill 0, $watcher->pid }, 'the processes have ended');
	undef $watcher;
	wait_for(sub { $watcher = eval { Session->new($node) } }, 'the server is back');
	gone_ok($watcher, 'after a crash');
	clear_faults($dvsim);
	is(scalar @{ $watcher->try($read)->{rows} }, $rows, 'and reads succeed again');
	$watcher->close;
}

# ---- more operations than fit: the rest are not shown, but work nevertheless

my $many = 40;
my $watcher = Session->new($node);
my @sessions = map { Session->new($node) } 1 .. $many;

clear_faults($dvsim);
# one page: no request is in flight except during a fetch
$watcher->query(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '5000')});
$_->query("BEGIN; DECLARE c CURSOR FOR $read; FETCH 10 FROM c") for @sessions;
my $seen = $watcher->value('SELECT count(*) FROM dataverse.progress');
cmp_ok($seen, '>=', 24, 'some are seen');
cmp_ok($seen, '<=', $many, 'perhaps all');
is(scalar @{ $_->try('FETCH ALL FROM c')->{rows} }, $rows - 10, 'but each continues') for @sessions[ 0, -1 ];
$_->close for @sessions;
is($watcher->value('SELECT count(*) FROM dataverse.progress'), 0, 'finally all have left');


# ---- the remaining time with scarce budgets: 100 pages, of which five minutes admit 40

my $scarce = Dvsim->start('--limit-requests', 40);
create_server($node, 'scarce', { url => $scarce->base, page_size => 10, budget_pacing => 'off' }, { client_id => 'app1', client_secret => 'secret1' });
is($scarce->control('POST', "/_dvsim/seed?table=account&rows=$rows")->status, 200, 'rows exist');
$watcher->query(q{CREATE SCHEMA scarce; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER scarce INTO scarce});
$watcher->query(q{ALTER FOREIGN TABLE scarce.account OPTIONS (ADD use_remote_estimate 'on')});
faults($scarce, { path => 'accounts', after => 12, action => 'stall' });
my $slow = Session->new($node);
$slow->start('SELECT name FROM scarce.account');
wait_for(sub { running($watcher, 'rows_taken, waiting_for, rate_overall > 0') =~ /^1[0-9]0\|response\|t$/ }, 'some pages are read');
cmp_ok(running($watcher, 'extract(epoch FROM (rows_expected - rows_taken) / rate_overall * interval \'1 s\')'), '<', 100,
	'the rate so far would take seconds');
my $eta = running($watcher, 'extract(epoch FROM eta)');
cmp_ok($eta, '>', 300, 'the budget does not allow that rate');
cmp_ok($eta, '<', 900, '... as the estimate shows');
$watcher->value('SELECT pg_cancel_backend(' . $slow->pid . ')');
$slow->finish;

# ---- which budget limits a user, its remainder, and its end

clear_faults($scarce);
$watcher->query(q{ALTER SERVER scarce OPTIONS (SET budget_pacing 'on')});
$slow->start('SELECT name FROM scarce.account');
wait_for(sub { $watcher->value(q{SELECT limited_by ~ '^budget: [0-9]+ of [0-9]+ requests left$' AND
	limited_until BETWEEN now() AND now() + '5 min' FROM dataverse.pool WHERE server = 'scarce'}) eq 't' }, 'limited by its budget');
wait_for(sub { running($watcher, 'waiting_for, in_flight') =~ /^(?:slot|throttle)\|0$/ }, 'the read waits for it, with no request in flight');
$watcher->value('SELECT pg_cancel_backend(' . $slow->pid . ')');
$slow->finish;
pass('as the pool shows');

$node->stop;
done_testing();
