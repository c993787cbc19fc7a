# crash.pl
#		The death of a backend or the postmaster leaks nothing.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use Dvsim;

my $dvsim = Dvsim->start('--dop', 8);
my $node = new_node('crash', preload => 1, conf => "restart_after_crash = on\n");
my $whoami = "SELECT count(*) FROM dataverse.whoami('crm')";

create_server($node, 'crm', { url => $dvsim->base, max_parallel => 2, initial_parallelism_factor => 1, budget_pacing => 'off' },
	{ client_id => 'app1', client_secret => 'secret1' });

# Starts a session that holds a slot until the session ends.
sub holder
{
	my ($hits) = (hits($dvsim));
	my $session = Session->new($node);

	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$session->start($whoami);
	wait_for(sub { hits($dvsim) > $hits }, 'a request hangs');
	return $session;
}

# Starts a session as soon as the server accepts connections again.
sub reconnect
{
	my $session;

	wait_for(sub { $session = eval { Session->new($node) } }, 'the server is back');
	return $session;
}

sub gone
{
	my (@pids) = @_;
	return wait_for(sub { !grep { kill 0, $_ } @pids }, 'the processes have ended');
}

for my $preload (1, 0)
{
	my $how = $preload ? 'preloaded' : 'not preloaded';

	preload($node, 0) unless $preload;
	my $watcher = Session->new($node);
	$watcher->query($whoami);

	# ---- the slot of a terminated backend goes to a waiting backend

	my @holders = (holder(), holder());
	my $waiting = Session->new($node);
	is(in_flight($watcher), 2, "$how: all slots are taken");
	$waiting->start($whoami);
	wait_event($watcher, $waiting->pid, 'DataverseSlot');
	my $start = time;
	$watcher->value('SELECT pg_terminate_backend(' . $holders[0]->pid . ')');
	is($holders[0]->finish->{sqlstate}, '57P01', 'one is terminated');
	is($waiting->finish->{rows}[0][0], 1, 'the waiting backend continues');
	cmp_ok(time - $start, '<', 5, 'at once');
	is(in_flight($watcher), 1, 'one slot is still held');

	# ---- kill -9: the server restarts, and so does the pool

	kill 'KILL', $holders[1]->pid;
	ok($holders[1]->finish->{gone}, "$how: kill -9 in the middle of a request");
	gone($watcher->pid);
	$watcher = reconnect();
	is(in_flight($watcher), 0, 'leaks no slot');
	is($watcher->value($whoami), 1, 'and requests succeed again');
	@holders = (holder(), holder());
	is(in_flight($watcher), 2, 'with as many slots as before');
	$watcher->value('SELECT pg_cancel_backend(' . $_->pid . ')') for @holders;
	$_->finish for @holders;
	is(in_flight($watcher), 0, 'and none is held at the end');

	# ---- a client that disconnects during a request

	my $deserter = Session->new($node, options => '-c client_connection_check_interval=100ms');
	my $pid = $deserter->pid;
	my $hits = hits($dvsim);
	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$deserter->start($whoami);
	wait_for(sub { hits($dvsim) > $hits }, 'a request hangs');
	undef $deserter;
	gone($pid);
	is(in_flight($watcher), 0, "$how: a client that disconnects leaves no slot");

	# ---- a restart resets everything

	faults($dvsim, { path => 'WhoAmI', retry_after => 600 });
	my $throttled = Session->new($node);
	$throttled->start($whoami);
	wait_event($watcher, $throttled->pid, 'DataverseThrottle');
	# before 17, all waits have the same name, including that for the answer
	wait_for(sub { pool($watcher, 'app1', 'throttled') eq 't' }, 'the answer has arrived');
	is(pool($watcher, 'app1', 'throttled'), 't', "$how: a user is throttled");
	is(in_flight($watcher), 0, 'a backend that waits for a throttle holds no slot');
	$start = time;
	$node->restart;
	cmp_ok(time - $start, '<', 30, 'a restart does not wait for it');
	is($throttled->finish->{sqlstate}, '57P01', 'the session got the message');
	$watcher = Session->new($node);
	is($watcher->value('SELECT count(*) FROM dataverse.pool'), 0, 'afterwards the pool is empty');
	is($watcher->value('SELECT count(*) FROM dataverse.throttle_history'), 0, 'and so is the history');
	is($watcher->value($whoami), 1, 'requests are sent');
	is(pool($watcher, 'app1', "in_flight || ' ' || requests"), '0 1', 'and counted from one');

	# ---- no backend survives its postmaster

	my @orphans = (holder(), Session->new($node));
	$orphans[1]->query($whoami);
	faults($dvsim, { path => 'WhoAmI', retry_after => 600 });
	$orphans[1]->start($whoami);
	wait_event($watcher, $orphans[1]->pid, 'DataverseThrottle');
	$node->kill9;
	gone(map { $_->pid } @orphans);
	ok($_->finish->{gone}, "$how: a backend ends with its postmaster") for @orphans;
	gone($watcher->pid);
	wait_for(
		sub {
			local $ENV{PGDATA} = $node->data_dir;
			return eval { $node->start; 1 };
		},
		'it starts again');
	clear_faults($dvsim);
	$watcher = Session->new($node);
	is(in_flight($watcher), 0, 'and the next one starts empty');
	is($watcher->value($whoami), 1, 'and works');
	$watcher->close;
}

$node->stop;
done_testing();
