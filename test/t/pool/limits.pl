# limits.pl
#		Requests in flight: by dvsim's count, many backends together never
#		exceed the limit of an application user, and share it fairly.
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

my $node = new_node('limits', preload => 1);
my $serial = 0;

# Has sessions send requests for some seconds; returns the number of answers of each.
sub load
{
	my ($crm, $n, $seconds) = @_;
	my @sessions = map { Session->new($node) } 1 .. $n;
	my $now = $sessions[0]->value('SELECT clock_timestamp()');

	$_->start(
		qq{
		DO \$\$
		DECLARE
		  n int := 0;
		BEGIN
		  WHILE clock_timestamp() < timestamptz '$now' + interval '$seconds s' LOOP
		    PERFORM dataverse.request('$crm', 'GET', 'WhoAmI');
		    n := n + 1;
		  END LOOP;
		  RAISE 'done %', n USING ERRCODE = 'DV000';
		END \$\$}) for @sessions;
	my @results = map { $_->finish } @sessions;
	my @failed = grep { $_->{sqlstate} ne 'DV000' } @results;

	is(scalar @failed, 0, "$n sessions: no request fails")
	  or diag "$failed[0]{sqlstate} $failed[0]{message}";
	$_->close for @sessions;
	return map { $_->{message} =~ /^done (\d+)/ ? $1 : 0 } @results;
}

sub jain
{
	my (@x) = @_;
	my ($sum, $squares) = (0, 0);

	for my $x (@x) { $sum += $x; $squares += $x * $x; }
	return $squares > 0 ? $sum * $sum / (@x * $squares) : 0;
}

for my $preload (1, 0)
{
	my $how = $preload ? 'preloaded' : 'not preloaded';
	my $watcher;
	my $crm;
	my $dvsim;
	my $stats;

	preload($node, 0) unless $preload;
	$watcher = Session->new($node);

	# ---- the DOP hint is the ceiling

	$crm = 'crm' . ++$serial;
	$dvsim = Dvsim->start('--dop', 10, '--latency', 'all=30ms', '--app-user', 'app1:secret1',
		'--app-user', 'app2:secret2');
	create_server($node, $crm,
		{ url => $dvsim->base, initial_parallelism_factor => 1, min_increase_interval => '0s' },
		{ client_id => 'app1', client_secret => 'secret1', name => "$crm one" });
	my @done = load($crm, 32, 3);
	$stats = user_stats($dvsim, 'app1');
	cmp_ok($stats->{peak_in_flight}, '<=', 10, "$how: 32 sessions never exceed the DOP hint");
	is($stats->{peak_in_flight}, 10, 'and use it');
	is_deeply($stats->{throttles}, {}, 'no throttle');
	is(pool($watcher, "$crm one", 'maximum_parallelism'), 10, 'the view knows the hint');
	is(pool($watcher, "$crm one", 'in_flight'), 0, 'nothing is left in flight');
	my $jain = jain(@done);
	cmp_ok($jain, '>=', 0.9, sprintf 'they share it fairly (Jain index %.3f)', $jain);
	cmp_ok((sort { $a <=> $b } @done)[0], '>', 0, 'no session starves');
	is( pool($watcher, "$crm one", 'requests'),
		eval { my $sum = 0; $sum += $_ for @done; $sum },
		'the pool has counted all requests');

	# ---- two users: the limit applies to each

	$dvsim->control('POST', '/_dvsim/reset');
	$crm = 'crm' . ++$serial;
	create_server($node, $crm,
		{ url => $dvsim->base, initial_parallelism_factor => 1 },
		{ client_id => 'app1', client_secret => 'secret1', client_id_2 => 'app2', client_secret_2 => 'secret2' });
	load($crm, 32, 1.5);
	for my $user ('app1', 'app2')
	{
		my $peak = user_stats($dvsim, $user)->{peak_in_flight};

		cmp_ok($peak, '<=', 10, "$how: two users, $user");
		cmp_ok($peak, '>=', 8, 'is used as well');
	}

	# ---- a hint for all users of the environment together

	$dvsim->control('POST', '/_dvsim/reset');
	$watcher->query("ALTER SERVER $crm OPTIONS (ADD dop_scope 'environment')");
	load($crm, 32, 1);
	cmp_ok(user_stats($dvsim, $_)->{peak_in_flight}, '<=', 5, "$how: dop_scope environment, $_")
	  for 'app1', 'app2';
	$dvsim->stop;

	# ---- 52 is the maximum, whatever the options say

	$crm = 'crm' . ++$serial;
	$dvsim = Dvsim->start('--dop', 80, '--latency', 'all=200ms');
	create_server($node, $crm, { url => $dvsim->base, adaptive_rate => 'off', budget_pacing => 'off' },
		{ client_id => 'app1', client_secret => 'secret1', name => "$crm one" });
	load($crm, 70, 2);
	$stats = user_stats($dvsim, 'app1');
	cmp_ok($stats->{peak_in_flight}, '<=', 52, "$how: 70 sessions never exceed 52");
	cmp_ok($stats->{peak_in_flight}, '>=', 45, "and come close ($stats->{peak_in_flight})");
	is_deeply($stats->{throttles}, {}, 'no throttle');
	is(pool($watcher, "$crm one", "in_flight || ' ' || maximum_parallelism"), '0 52', 'as the view shows');

	# ---- a released slot wakes a waiting backend at once

	my $stalled = Session->new($node);
	my $waiting = Session->new($node);

	$crm = 'crm' . ++$serial;
	create_server($node, $crm, { url => $dvsim->base, max_parallel => 1 },
		{ client_id => 'app1', client_secret => 'secret1', name => "$crm one" });
	$watcher->value("SELECT dataverse.request('$crm', 'GET', 'WhoAmI') IS NOT NULL");
	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$stalled->start("SELECT dataverse.request('$crm', 'GET', 'WhoAmI')");
	wait_for(sub { hits($dvsim) == 1 }, 'a request hangs');
	$waiting->start("SELECT dataverse.request('$crm', 'GET', 'WhoAmI') IS NOT NULL");
	wait_event($watcher, $waiting->pid, 'DataverseSlot');
	ok(!$waiting->done(0.3), "$how: max_parallel 1: the second request waits for the first");
	$watcher->value('SELECT pg_cancel_backend(' . $stalled->pid . ')');
	is($stalled->finish->{sqlstate}, '57014', 'when the first is canceled');
	my $r = $waiting->finish;
	is($r->{rows}[0][0], 't', 'the second continues');
	is(in_flight($watcher), 0, 'and nothing is left');

	# ---- a malformed budget header does not mean an exhausted budget

	faults($dvsim,
		{ path => 'WhoAmI', status => 200, body => {},
			headers => { 'x-ms-ratelimit-burst-remaining-xrm-requests' => 'many' } });
	$watcher->value("SELECT dataverse.request('$crm', 'GET', 'WhoAmI') IS NOT NULL");
	cmp_ok(pool($watcher, "$crm one", 'remaining_requests'), '>', 0,
		"$how: a budget that is not a number is ignored");
	$dvsim->stop;
}

$node->stop;
done_testing();
