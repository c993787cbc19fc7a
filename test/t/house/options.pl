# options.pl
#		The options for the rate take effect, as seen in the requests that dvsim
#		receives or, if the effect is local, in dataverse.pool.
#
# Each test has an application user of its own, for which dvsim recommends 20 concurrent
# requests.  rows() writes a number of rows, each in its own request, and returns the peak
# number of concurrent requests at dvsim.  The number of rows determines the number of
# steps up: 58 rows make one step, after 30 requests, if stabilization_batches is 30 and
# min_increase_interval is 0.
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

my @app_users = map { ('--app-user', "app$_:secret$_") } 1 .. 24;
my $dvsim = Dvsim->start('--dop', 20, '--latency', 'create=40ms', @app_users);
my $node = new_node('options', preload => 1);
my $session = Session->new($node);
my $serial = 0;

# Creates a server with these options, and a user and a table "t" for it, and has the service report its hint.
sub server
{
	my (%option) = @_;
	my $name = 'crm' . ++$serial;

	create_server($node, $name,
		{ url => $dvsim->base, batch_size => 1, retry_after_buffer => '0s', min_increase_interval => '1h', %option },
		{ client_id => "app$serial", client_secret => "secret$serial", name => $name });
	$session->query("CREATE SCHEMA $name; CREATE FOREIGN TABLE $name.t (accountid uuid, name text)"
		  . " SERVER $name OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	who($name);
	start_over($name);
	return $name;
}

sub who { my ($crm) = @_; return $session->value("SELECT dataverse.request('$crm', 'GET', 'WhoAmI') IS NOT NULL"); }
sub start_over { my ($crm) = @_; return $session->value("SELECT dataverse.reset_pool('$crm')"); }
sub now_at { my ($crm) = @_; return pool($session, $crm, 'current_parallelism'); }

# Writes rows; returns the peak number of concurrent requests at dvsim.
sub rows
{
	my ($crm, $n) = @_;
	my ($app) = $crm =~ /(\d+)/;

	$dvsim->control('POST', '/_dvsim/reset');
	$session->query("INSERT INTO $crm.t (name) SELECT 'row ' || i FROM generate_series(1, $n) i");
	return user_stats($dvsim, "app$app")->{peak_in_flight};
}

# The service refuses one request, with a Retry-After of 0.
sub throttle
{
	my ($crm, %how) = @_;
	my ($app) = $crm =~ /(\d+)/;

	faults($dvsim,
		{ app_user => "app$app", path => 'WhoAmI', status => 429, code => '0x80072326', retry_after => 0,
			message => 'Number of concurrent requests exceeded the limit of 52.', %how });
	who($crm);
	clear_faults($dvsim);
	return;
}

my $crm;
my %all = (initial_parallelism_factor => 1);
my %steps = (stabilization_batches => 30, min_increase_interval => '0s');

# ---- the initial rate

$crm = server(initial_parallelism_factor => 0.1);
is(rows($crm, 58), 2, 'initial_parallelism_factor 0.1 of 20: two requests at once');
$crm = server(initial_parallelism_factor => 0.1, min_parallelism => 7);
is(rows($crm, 58), 7, 'min_parallelism 7: but at least seven');

$crm = server();
is(rows($crm, 58), 20, 'unset, with full budgets: all twenty');
$crm = server(initial_parallelism_factor => 0.5);
is(rows($crm, 58), 10, 'initial_parallelism_factor 0.5: half of it even then');
$crm = server(budget_pacing => 'off');
is(rows($crm, 58), 10, 'budget_pacing off: half of it');

{
	# others have used a fifth of 6000 requests
	my $busy = Dvsim->start('--dop', 20, '--limit-requests', 4800, @app_users);

	$crm = server(url => $busy->base);
	$session->query("INSERT INTO $crm.t (name) SELECT 'row ' || i FROM generate_series(1, 58) i");
	is(now_at($crm), 10, 'if others have used part of the budgets: half of it');
	throttle($crm = server());
	rows($crm, 58);
	is(now_at($crm), 5, 'after a throttle: the reduced rate');
	$busy->stop;
}

# ---- steps up

$crm = server(initial_parallelism_factor => 0.1, %steps, increase_rate => 9);
is(rows($crm, 29), 2, 'stabilization_batches 30: after 29 requests no step');
start_over($crm);
is(rows($crm, 58), 11, 'increase_rate 9: a step of nine after 30');
$crm = server(initial_parallelism_factor => 0.1, %steps, increase_rate => 9, min_increase_interval => '1h');
is(rows($crm, 58), 2, 'min_increase_interval 1h: no step yet');

# ---- throttles

$crm = server(%all, decrease_factor => 0.25);
is(rows($crm, 58), 20, 'initial_parallelism_factor 1: twenty requests at once');
throttle($crm);
is(rows($crm, 58), 5, 'decrease_factor 0.25: a throttle leaves five, although only one request was under way');

# ---- recovery

$crm = server(%all, %steps, increase_rate => 1, recovery_multiplier => 4);
throttle($crm);
is(rows($crm, 58), 14, 'recovery_multiplier 4: from ten on, a step four times as large');
$crm = server(%all, %steps, increase_rate => 1, recovery_multiplier => 4, last_known_good_ttl => '1s');
throttle($crm);
wait_for(sub { pool($session, $crm, 'last_known_good_stale') eq 't' }, 'the known good value is forgotten');
is(rows($crm, 58), 11, 'last_known_good_ttl 1s: a second later the step is small');

# ---- idle time

$crm = server(%all, idle_reset_period => '1s');
throttle($crm);
is(now_at($crm), 10, 'a throttle has left ten');
wait_for(sub { pool($session, $crm, "last_activity < clock_timestamp() - interval '1.01 s'") eq 't' }, 'a second passes');
is(rows($crm, 58), 20, 'idle_reset_period 1s: a second later it restarts with all');

# ---- slow batches: these take 40 ms

$crm = server(%all, slow_batch_threshold => '20ms', execution_time_ceiling_factor => 0.2);
rows($crm, 5);
my $most = rows($crm, 58);
cmp_ok($most, '<=', 5, "execution_time_ceiling_factor 0.2 by 0.04 s: at most five ($most)");
like(pool($session, $crm, "limited_by || ' ' || (execution_time_ceilings->>'create')"),
	qr/^execution-time ceiling [1-5]$/, 'as the view shows');
$crm = server(%all, slow_batch_threshold => '1h', execution_time_ceiling_factor => 0.2);
rows($crm, 5);
is(rows($crm, 58), 20, 'slow_batch_threshold 1h: such batches are not slow');
$crm = server(%all, slow_batch_threshold => '20ms', execution_time_ceiling_factor => 0);
rows($crm, 5);
is(rows($crm, 58), 20, 'execution_time_ceiling_factor 0: no ceiling');

# ---- slow requests beside fast ones: four updates at a time, the remaining slots for continuous inserts

{
	my $uneven = Dvsim->start('--dop', 20, '--latency', 'create=60ms~70%,update=200ms', @app_users);
	my $other = Session->new($node);

	$crm = server(%all, url => $uneven->base, slow_batch_threshold => '150ms', execution_time_ceiling_factor => 0.8);
	$session->query("INSERT INTO $crm.t (name) SELECT 'row ' || i FROM generate_series(1, 28) i");
	$session->query("UPDATE $crm.t SET name = 'warm ' || name WHERE name LIKE 'row 1%'");
	$other->start("INSERT INTO $crm.t (name) SELECT 'other ' || i FROM generate_series(1, 1500) i");
	wait_for(sub { in_flight($session) >= 20 }, 'inserts use all slots');
	is($session->try("UPDATE $crm.t SET name = 'slow ' || name WHERE name LIKE 'row%'")->{tag},
		'UPDATE 17', 'updates, which are slow, succeed');
	ok(!$other->done, 'beside inserts, which are fast');
	$session->value('SELECT pg_cancel_backend(' . $other->pid . ')');
	$other->finish;
	$other->close;
	$uneven->stop;
}

# ---- presets: a throttle leaves 0.4, 0.5, or 0.6 of 20

for ([ conservative => 8 ], [ balanced => 10 ], [ aggressive => 12 ])
{
	my ($preset, $left) = @$_;

	$crm = server(%all, rate_preset => $preset);
	throttle($crm);
	is(rows($crm, 58), $left, "rate_preset $preset alone: a throttle leaves $left");
}

# An explicit option overrides the preset: after 30 requests comes a step of four.
$crm = "crm$serial";
$session->query("ALTER SERVER $crm OPTIONS (ADD stabilization_batches '30', SET min_increase_interval '0s')");
for ([ conservative => 8 ], [ aggressive => 12 ])
{
	my ($preset, $left) = @$_;

	$session->query("ALTER SERVER $crm OPTIONS (SET rate_preset '$preset')");
	who($crm);
	start_over($crm);
	throttle($crm);
	is(now_at($crm), $left, "a server that is altered to $preset: a throttle leaves $left");
	is(rows($crm, 58), $left + 4, 'and the explicit stabilization_batches still applies');
}

# ---- the rate in the log

my $before = log_size($node);
$session->query('SET log_min_messages = debug2');
who($crm);
$session->query('RESET log_min_messages');
my ($current, $max, $successes, $throttles) = log_since($node, $before) =~
  /adaptive rate of application user "$crm": (\d+) of (\d+) requests at once, (\d+) successes since it changed, (\d+) throttles in total/;
is( "$current $max $successes $throttles",
	pool($session, $crm,
		q{concat_ws(' ', current_parallelism, maximum_parallelism, successes_since_throttle, (SELECT sum(value::int) FROM jsonb_each_text(throttles)))}),
	'the log at DEBUG2 agrees with the view');

$session->close;
$node->stop;
done_testing();
