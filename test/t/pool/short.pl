# short.pl
#		A request of a session that has nothing else under way does not wait
#		beside loads, neither for a slot nor for the budget.
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

use constant READS => 40;

my $node = new_node('short', preload => 1);
my $watcher = Session->new($node);
my $serial = 0;

# Starts a dvsim, and returns it with a server for it that has a table of the same name.
sub service
{
	my ($flags, %option) = @_;
	my $dvsim = Dvsim->start('--app-user', 'app1:secret', '--canned', @$flags);
	my $crm = 'crm' . ++$serial;

	create_server($node, $crm, { url => $dvsim->base, initial_parallelism_factor => 1, %option },
		{ client_id => 'app1', client_secret => 'secret', name => "$crm one" });
	$watcher->query("CREATE FOREIGN TABLE $crm (accountid uuid, name text) SERVER $crm"
		  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	return ($dvsim, $crm);
}

# Sends requests one after the other; returns what 95 % of them took at most, in milliseconds.
sub p95
{
	my ($session, $crm) = @_;
	my @ms = sort { $a <=> $b } map {
		my $start = time;
		$session->query("SELECT count(*) FROM dataverse.whoami('$crm')");
		1000 * (time - $start)
	} 1 .. READS;

	return $ms[ int(READS * 0.95) - 1 ];
}

# Compares short requests alone and beside so many loads, once the condition holds.
sub beside
{
	my ($crm, $n, $condition, $what) = @_;
	my $reader = Session->new($node);
	my @loads = map { Session->new($node) } 1 .. $n;

	$reader->query("SELECT count(*) FROM dataverse.whoami('$crm')");
	my $alone = p95($reader, $crm);
	$_->start("INSERT INTO $crm (name) SELECT 'row ' || i FROM (SELECT generate_series(1, 100000000) AS i) AS s") for @loads;
	wait_for($condition, $what);
	my $beside = p95($reader, $crm);
	cmp_ok($beside, '<=', 3 * $alone,
		sprintf '%s: 95 %% of short requests take at most %.0f ms beside %d loads, and %.0f ms alone', $what, $beside, $n, $alone);
	for my $load (@loads)
	{
		$watcher->value('SELECT pg_cancel_backend(' . $load->pid . ')');
		is($load->finish->{sqlstate}, '57014', '... which go on until they are canceled');
	}
	$_->close for $reader, @loads;
	is(in_flight($watcher), 0, '... and nothing is left in flight');
	return;
}

# ---- all slots are in use

for my $n (1, 12)
{
	my ($dvsim, $crm) = service([ '--latency', 'all=50ms,create=1s', '--dop', 4 ]);

	beside($crm, $n, sub { pool($watcher, "$crm one", 'in_flight') == 4 }, 'all slots are in use');
	my $stats = user_stats($dvsim, 'app1');
	cmp_ok($stats->{peak_in_flight}, '<=', 6, 'short requests go beyond the hint by two at most');
	is_deeply($stats->{throttles}, {}, '... without a throttle');
}

# ---- max_parallel is a wall for all requests; short ones get the next slot behind it

{
	my ($dvsim, $crm) = service([ '--latency', 'all=20ms,create=50ms', '--dop', 4 ], max_parallel => 3);

	beside($crm, 12, sub { pool($watcher, "$crm one", 'in_flight') == 3 }, 'max_parallel');
	is(user_stats($dvsim, 'app1')->{peak_in_flight}, 3, 'no request goes beyond max_parallel');
}

# ---- the budgets are paced

for my $case ([ 'requests', 'create=20ms' ], [ 'execution time', 'create=2s' ])
{
	my ($name, $latency) = @$case;
	# with 52 at once, half of the execution time is used up within 12 s
	my ($dvsim, $crm) = service([ '--latency', "all=50ms,$latency" ], batch_size => 10);

	beside($crm, 4, sub { pool($watcher, "$crm one", 'limited_by') =~ /^budget: .* \Q$name\E/ }, "the budget of $name is paced");
	is_deeply(user_stats($dvsim, 'app1')->{throttles}, {}, '... without a throttle');
}

# ---- the service is saturated: more requests would only wait for each other

{
	my ($dvsim, $crm) = service([ '--latency', 'all=50ms,create=500ms', '--jitter', 20, '--capacity', 5.5, '--overload', 2 ]);

	# until the useful limit has been found, twenty are under way at a time
	beside($crm, 4,
		sub { pool($watcher, "$crm one", "limited_by = 'latency' AND in_flight BETWEEN 5 AND 9 AND latency_ratio BETWEEN 1.05 AND 1.4") eq 't' },
		'the capacity is used up');
	is_deeply(user_stats($dvsim, 'app1')->{throttles}, {}, '... without a throttle');
}

# ---- sessions that send one short request after the other are a load themselves: they do not use up the window

{
	my ($dvsim, $crm) = service([ '--latency', 'all=1ms' ]);
	my @sessions = map { Session->new($node) } 1 .. 8;
	my $requests = sub { user_stats($dvsim, 'app1')->{requests}{other} // 0 };

	$_->start("DO \$\$ BEGIN LOOP PERFORM * FROM dataverse.whoami('$crm'); END LOOP; END \$\$") for @sessions;
	wait_for(sub { pool($watcher, "$crm one", 'limited_by') =~ /^budget: .* requests/ }, 'the budget of requests is paced');
	my $half = $requests->();
	sleep 10;
	my $then = $requests->();
	cmp_ok($then - $half, '<=', 600, 'short requests one after the other: ' . ($then - $half) . ' in 10 s, after the first ' . $half);
	ok(wait_for(sub { $requests->() > $then }, 'another one'), '... which go on');
	is_deeply(user_stats($dvsim, 'app1')->{throttles}, {}, '... without a throttle');
	$watcher->value('SELECT pg_cancel_backend(' . $_->pid . ')') for @sessions;
	$_->finish for @sessions;
	$_->close for @sessions;
}

$watcher->close;
$node->stop;
done_testing();
