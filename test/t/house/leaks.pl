# leaks.pl
#		Failures leak nothing.  Only connections are kept, until the server or
#		the mapping is altered.
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

my $dvsim = Dvsim->start('--app-user', 'app1:secret1', '--app-user', 'app2:secret2');
my $node = new_node('leaks', preload => 1, conf => "log_statement = none\n");
my $watcher = Session->new($node);
my $has_proc = -d "/proc/$$/fd";

create_server($node, 'crm', { url => $dvsim->base, max_retries => 0, budget_pacing => 'off',
		max_retry_after_tolerance => '10ms', user_agent => 'first' },
	{ client_id => 'app1', client_secret => 'secret1' });

sub descriptors { my @fds = glob "/proc/$_[0]/fd/*"; return scalar @fds; }

# files of PostgreSQL itself do not count
sub sockets { return scalar grep { (readlink($_) // '') =~ /^(?:socket|anon_inode):/ } glob "/proc/$_[0]/fd/*"; }

# Returns the inodes of TCP sockets connected to dvsim.
sub connections
{
	my ($pid) = @_;
	my ($port) = $dvsim->base =~ /:(\d+)$/;
	my $hex = sprintf ':%04X 01 ', $port;
	my %to_dvsim = map { my @field = split ' '; ("socket:[$field[9]]" => 1) }
	  grep { /^\s*\d+: \S+ \S+\Q$hex\E/ } split /\n/, slurp_file('/proc/net/tcp');
	my @own = grep { $to_dvsim{$_} } map { readlink($_) // '' } glob "/proc/$pid/fd/*";

	return join ' ', sort @own;
}

sub resident
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^VmRSS:\s+(\d+)/m;
	return $kb;
}

# ---- a cancel that is noticed while a page is requested that no scan will read

{
	my $session = Session->new($node);
	my $result;

	$dvsim->control('POST', '/_dvsim/seed?table=account&rows=40');
	$watcher->query('IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO public');
	$watcher->query("ALTER FOREIGN TABLE account OPTIONS (ADD page_size '10')");
	# the scan ends after its first row; the function does not check for interrupts in between
	$watcher->query(q{CREATE FUNCTION cancel_itself() RETURNS bool LANGUAGE sql AS
		'SELECT pg_cancel_backend(pg_backend_pid()) FROM account'});
	faults($dvsim, { path => 'accounts', after => 1, action => 'delay', delay_ms => 60_000 });
	# writing a log message checks for interrupts
	$session->query('SET log_min_messages = debug5');
	$result = $session->try('SELECT cancel_itself()');
	is($result->{sqlstate}, '57014', 'a cancel while a scan ends');
	is($result->{gone}, undef, '... ends the statement, not the session');
	clear_faults($dvsim);
	is($session->value('SELECT count(*) FROM account'), 40, '... which continues') unless $result->{gone};
	is(in_flight($watcher), 0, '... and no slot is held') unless $result->{gone};
	$session->close;
}

# ---- subtransactions

{
	my $session = Session->new($node);
	my $request = q{dataverse.request('crm', 'GET', 'WhoAmI')};

	$session->query('BEGIN');
	is($session->value("SELECT $request IS NOT NULL"), 't', 'in a transaction');
	$session->query('SAVEPOINT s');
	is($session->try(q{SELECT dataverse.request('crm', 'GET', 'nonsense')})->{sqlstate},
		'HV00R', 'a request fails in a subtransaction');
	is(in_flight($watcher), 0, 'its slot is released at once');
	$session->query('ROLLBACK TO s');
	is($session->value("SELECT $request IS NOT NULL"), 't', 'the transaction continues after ROLLBACK TO');
	$session->query('RELEASE s');

	# a request that hangs
	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$session->query('SAVEPOINT hangs');
	$session->start("SELECT $request");
	wait_for(sub { hits($dvsim) == 1 }, 'a request hangs');
	is(in_flight($watcher), 1, 'a hanging request holds a slot');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57014', 'it is canceled');
	is(in_flight($watcher), 0, 'the slot is free before ROLLBACK TO');
	$session->query('ROLLBACK TO hangs');
	is($session->value("SELECT $request IS NOT NULL"), 't', 'then the next request succeeds');
	$session->query('COMMIT');

	# an error caught by a function in a transaction that continues
	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$session->start(
		q{
		DO $$
		BEGIN
		  PERFORM dataverse.request('crm', 'GET', 'WhoAmI');
		EXCEPTION WHEN query_canceled THEN
		  IF (SELECT in_flight FROM dataverse.pool) <> 0 THEN
		    RAISE 'a slot is taken';
		  END IF;
		  PERFORM dataverse.request('crm', 'GET', 'WhoAmI');
		END $$});
	wait_for(sub { hits($dvsim) == 2 }, 'another request hangs');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, undef, 'an exception block that catches the cancel continues');

	# the same while it waits for a throttle; the pool does not wake it later
	faults($dvsim, { path => 'WhoAmI', retry_after => 600 });
	is( $session->try(
			q{
		DO $$
		BEGIN
		  PERFORM dataverse.request('crm', 'GET', 'WhoAmI');
		  RAISE 'it succeeded';
		EXCEPTION WHEN configuration_limit_exceeded THEN
		  PERFORM dataverse.reset_pool('crm');
		  PERFORM dataverse.request('crm', 'GET', 'WhoAmI');
		END $$})->{sqlstate},
		undef, 'and so does one that catches a throttle');
	is(in_flight($watcher), 0, 'nothing is left');
	$session->close;
	clear_faults($dvsim);
}

# ---- a thousand failures of all kinds in one session

{
	my $session = Session->new($node);
	my $pid = $session->pid;
	my $used = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts};
	my (@memory, @descriptors, @resident);

	# of each hundred: 10 truncated answers, 10 garbled ones, 10 resets, 10 errors, 10 throttles
	faults(
		$dvsim,
		map {
			{ path => 'WhoAmI', app_user => 'app1', times => 0, every => 10, after => $_->[0], %{ $_->[1] } }
		} (
			[ 0, { action => 'truncate' } ],
			[ 2, { action => 'garble' } ],
			[ 4, { action => 'reset_before_commit' } ],
			[ 6, { status => 500 } ],
			[ 8, { retry_after => 1 } ]));
	for my $round (0 .. 10)
	{
		$session->query(
			q{
			DO $$
			BEGIN
			  FOR i IN 1 .. 100 LOOP
			    BEGIN
			      IF i % 2 = 0 THEN
			        PERFORM dataverse.request('crm', 'GET', 'WhoAmI');
			      ELSE
			        PERFORM dataverse.request('crm', 'GET', 'nonsense(' || i || ')');
			      END IF;
			    EXCEPTION WHEN OTHERS THEN
			      PERFORM dataverse.reset_pool('crm');
			    END;
			  END LOOP;
			END $$});
		push @memory, $session->value($used);
		push @descriptors, descriptors($pid) if $has_proc;
		push @resident, resident($pid) if $has_proc;
	}
	my ($n) = $session->query(q{SELECT failures + (SELECT count(*) FROM dataverse.throttle_history) FROM dataverse.pool});
	cmp_ok($n, '>=', 100, "many requests failed ($n in transport or with 5xx and 429)");
	is(in_flight($watcher), 0, 'a thousand failures leave no slot');
	cmp_ok($memory[10] - $memory[1], '<', 65536, "nor memory contexts (@memory)");
  SKIP:
	{
		skip 'no /proc', 2 unless $has_proc;
		cmp_ok($descriptors[10], '<=', $descriptors[0] + 1, "nor descriptors (@descriptors)");
		cmp_ok($resident[10] - $resident[1], '<', 2048, "nor memory of libcurl (@resident kB)");
	}
	clear_faults($dvsim);

	# separate statements, each a transaction that aborts
	$session->try(q{SELECT dataverse.request('crm', 'GET', 'nonsense')}) for 1 .. 50;
	my $before = $session->value($used);
	my $fds = $has_proc ? descriptors($pid) : 0;
	$session->try(q{SELECT dataverse.request('crm', 'GET', 'nonsense')}) for 1 .. 500;
	cmp_ok($session->value($used) - $before, '<', 65536, 'five hundred transactions that abort cost no memory');
	is($has_proc ? descriptors($pid) : 0, $fds, 'and no descriptors');
	$session->close;
}

# ---- connections are kept, and dropped when they are outdated

SKIP:
{
	skip 'no /proc', 12 unless $has_proc && -r '/proc/net/tcp';
	my $session = Session->new($node);
	my $pid = $session->pid;
	my $whoami = q{SELECT count(*) FROM dataverse.whoami('crm')};

	$session->query($whoami);
	my $kept = connections($pid);
	like($kept, qr/^socket:\S+$/, 'a session has one connection');
	$session->query($whoami) for 1 .. 30;
	is(connections($pid), $kept, 'and keeps it across statements');
	$session->query("BEGIN; $whoami; ROLLBACK");
	is(connections($pid), $kept, 'and across transactions');
	$session->try(q{SELECT dataverse.request('crm', 'GET', 'nonsense')});
	is(connections($pid), $kept, 'and after an error of the service');

	for my $alter (
		q{ALTER SERVER crm OPTIONS (SET user_agent 'second')},
		q{ALTER USER MAPPING FOR PUBLIC SERVER crm OPTIONS (SET client_id 'app2', SET client_secret 'secret2')})
	{
		$watcher->query($alter);
		$session->query($whoami);
		my $now = connections($pid);
		like($now, qr/^socket:\S+$/, "one connection after: $alter");
		isnt($now, $kept, 'but a new one');
		$kept = $now;
	}
	my ($next, @requests) = sent($dvsim, 0);
	is($requests[-1]{headers}{'User-Agent'}, 'second', 'the new user agent is in use');
	is($requests[-1]{user}, 'app2', 'and the new user');

	# in the session's own transaction, between two requests
	$session->query("BEGIN; $whoami; ALTER SERVER crm OPTIONS (SET user_agent 'third'); $whoami; COMMIT");
	($next, @requests) = sent($dvsim, 0);
	is($requests[-1]{headers}{'User-Agent'}, 'third', 'a change in the same transaction takes effect at once');
	like(connections($pid), qr/^socket:\S+$/, 'and leaves one connection');

	# create and drop mappings
	my $before = sockets($pid);
	for my $i (1 .. 5)
	{
		$session->query(
			qq{CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
			$whoami;
			DROP USER MAPPING FOR CURRENT_USER SERVER crm});
	}
	$session->query($whoami);
	is(sockets($pid), $before, 'dropped mappings leave no connections');
	$watcher->query('DROP SERVER crm CASCADE');
	$session->query('SELECT 1');
	is(connections($pid), '', 'and neither does a server dropped by another session');
	$session->close;
}

$watcher->close;
$node->stop;
done_testing();
