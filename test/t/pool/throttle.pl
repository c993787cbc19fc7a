# throttle.pl
#		Throttles: all backends see them at once, and wait as long as the service
#		demands but no longer, within the configured bounds.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use RawServer;
use Dvsim;

my @users = map { "user$_" } 1 .. 40;
my $dvsim = Dvsim->start(map { ('--app-user', "$_:secret of $_") } @users);
my $node = new_node('throttle', preload => 1);
my $serial = 0;

# Creates a server with this number of unused application users.
sub fresh_server
{
	my ($n, %options) = @_;
	my $name = 'crm' . ++$serial;
	my %mapping;

	for my $i (1 .. $n)
	{
		my $suffix = $i > 1 ? "_$i" : '';
		my $user = shift @users;

		$mapping{"client_id$suffix"} = $user;
		$mapping{"client_secret$suffix"} = "secret of $user";
		$mapping{"name$suffix"} = "$name number $i";
	}
	# 429s of fault rules contradict the budgets that dvsim reports
	create_server($node, $name,
		{ url => $dvsim->base, retry_after_buffer => '100ms', budget_pacing => 'off', %options },
		\%mapping);
	return ($name, map { $mapping{ 'client_id' . ($_ > 1 ? "_$_" : '') } } 1 .. $n);
}

sub whoami { return "SELECT application_user FROM dataverse.whoami('$_[0]')"; }

# Returns the times and statuses of a user's requests in dvsim's journal.
sub attempts
{
	my ($user, $since) = @_;
	my ($next, @all) = sent($dvsim, $since);

	return map {
		my ($h, $m, $s) = $_->{time} =~ /T(\d+):(\d+):([\d.]+)Z/;
		{ status => $_->{status}, at => $h * 3600 + $m * 60 + $s }
	} grep { ($_->{user} // '') eq $user && $_->{kind} ne 'token' } @all;
}

sub throttle
{
	my ($user, %rule) = @_;
	return faults($dvsim,
		{
			app_user => $user,
			path => '/WhoAmI',
			status => 429,
			code => '0x80072322',
			message => 'Number of requests exceeded the limit of 6000',
			%rule
		});
}

for my $preload (1, 0)
{
	my $how = $preload ? 'preloaded' : 'not preloaded';

	preload($node, 0) unless $preload;
	my $a = Session->new($node, options => '-c client_min_messages=debug1');
	my $b = Session->new($node);

	# ---- a throttle seen by one backend redirects the others at once

	my ($crm, $first, $second) = fresh_server(2);
	my $offset = log_size($node);

	throttle($first, retry_after => 300);
	my $r = $a->try(whoami($crm));
	is($r->{rows}[0][0], "$crm number 2", "$how: a throttled request continues with the other user");
	cmp_ok($r->{seconds}, '<', 30, 'without waiting');
	like(
		join("\n", map { $_->{message} } @{ $r->{notices} }),
		qr/request continues with application user "$crm number 2"/,
		'and reports it to its client');
	is($b->value(whoami($crm)), "$crm number 2", 'the other backend avoids the user as well')
	  for 1 .. 3;
	is(scalar(attempts($first)), 1, 'so the throttled user has sent one request');
	is(pool($b, "$crm number 1", 'throttled'), 't', 'the view says that it is throttled');
	is( pool($b, "$crm number 1",
			q{throttled_until - now() BETWEEN '290 s' AND '301 s' AND effective_limit = 0 AND limited_by = 'throttle'}),
		't', 'for how long and why');
	is(pool($b, "$crm number 1", 'this_session_only'), 'f', 'to all sessions');
	is(pool($b, "$crm number 1", q{throttles->>'0x80072322'}), 1, 'by which limit');
	is( $b->query(
			"SELECT users, throttled_users, total_throttle_events, total_backoff > '299 s' FROM dataverse.pool_summary WHERE server = '$crm'"
		),
		'2|1|1|t',
		'the summary shows it');
	is( $b->query(
			"SELECT name, code, retry_after, fallback, operation FROM dataverse.throttle_history WHERE server = '$crm'"
		),
		"$crm number 1|0x80072322|00:05:00|f|other",
		'and the history');
	my $log = log_since($node, $offset);
	like(
		$log,
		qr/Dataverse throttled application user "$crm number 1" of server "$crm"\n.*DETAIL:  Attempt 1 was refused with code 0x80072322 and a Retry-After of 300 s\.  0 of 3 retries have been used\.\n/,
		'the log names user, code, Retry-After and attempt');

	# ---- the owner can reset the pool

	is($a->value("SELECT dataverse.reset_pool('$crm')"), 2, 'reset_pool returns the number of users');
	is(pool($b, "$crm number 1", 'throttled'), 'f', 'and the throttle is cleared');
	is(pool($b, "$crm number 1", 'throttles'), '{"0x80072322": 1}', 'but not the counters');
	$a->value("SELECT dataverse.reset_stats('$crm')");
	is( pool($b, "$crm number 1", "throttles || (SELECT coalesce(jsonb_agg(code), '{}') FROM dataverse.throttle_history WHERE server = '$crm')"),
		'{}', 'reset_stats resets those');

	# ---- three users, one throttled for a while (R052)

	my @three;
	($crm, @three) = fresh_server(3);
	throttle($three[0], retry_after => 2);
	$a->value(whoami($crm));
	my %used = map { ($_->value(whoami($crm)) => 1) } ($a, $b) x 4;
	is(join(' ', sort keys %used),
		"$crm number 2 $crm number 3",
		"$how: one of three is throttled, the other two are used");
	wait_for(sub { pool($b, "$crm number 1", 'throttled') eq 'f' }, 'the throttle ends');
	%used = map { ($_->value(whoami($crm)) => 1) } $a, $b, $a, $b, $a, $b;
	is(join(' ', sort keys %used),
		"$crm number 1 $crm number 2 $crm number 3",
		'after the throttle the user is used again');
	my @of_first = attempts($three[0]);
	is($of_first[0]{status}, 429, 'the throttle was on its first request');
	cmp_ok($of_first[1]{at} - $of_first[0]{at}, '>=', 2, 'and its second at the earliest possible time');

	# ---- many backends wait for one user, and all are served when the throttle ends

	($crm, $first) = fresh_server(1);
	throttle($first, retry_after => 1);
	my @many = map { Session->new($node) } 1 .. 6;
	$_->start(whoami($crm)) for @many;
	is(join(' ', map { $_->finish->{rows}[0][0] // 'failed' } @many),
		join(' ', ("$crm number 1") x 6), "$how: the wait is transparent to all sessions");
	is(pool($b, "$crm number 1", 'in_flight'), 0, 'nothing is left in flight');
	$_->close for @many;
}

# the rest needs more users than fit without preloading
preload($node, 1);
my $session = Session->new($node);

# ---- the wait is as long as the service demands, plus buffer and jitter

for my $how ('seconds', 'a date')
{
	my ($crm, $user) = fresh_server(1);
	my $offset = log_size($node);

	throttle($user,
		retry_after => $how eq 'seconds' ? 1 : strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time + 3)));
	my $r = $session->try(whoami($crm));
	my @at = attempts($user);
	my $gap = $at[1]{at} - $at[0]{at};

	is(scalar @at, 2, "Retry-After in $how: one more request");
	cmp_ok($gap, '>=', $how eq 'seconds' ? 1.1 : 1.5, 'not before the time has passed');
	cmp_ok($gap, '<', 10, sprintf 'and soon after it has (%.2f s)', $gap);
	like(log_since($node, $offset),
		qr/all application users of server "$crm" are throttled, waiting \d\.\d s/,
		'the wait is in the log');
	is(pool($session, "$crm number 1", "summed_waits > '1 s' AND retries = '{\"throttle\": 1}'"),
		't', 'and in the view');
}

# ---- the default buffer is one second, plus up to another second

{
	my ($crm, $user) = fresh_server(1);

	$session->query("ALTER SERVER $crm OPTIONS (DROP retry_after_buffer)");
	throttle($user, retry_after => 0);
	$session->value(whoami($crm));
	my @at = attempts($user);
	cmp_ok($at[1]{at} - $at[0]{at}, '>=', 1, 'Retry-After 0: the buffer is waited');
}

# ---- without Retry-After

{
	my ($crm, $user) = fresh_server(1, fallback_retry_after => '1s');
	my $offset = log_size($node);

	throttle($user, code => '0x80072321');
	$session->value(whoami($crm));
	my @at = attempts($user);
	cmp_ok($at[1]{at} - $at[0]{at}, '>=', 1.1, 'no Retry-After: the fallback is waited');
	like(
		log_since($node, $offset),
		qr/throttled application user "$crm number 1" of server "$crm"\n.*Attempt 1 was refused with code 0x80072321 and without a Retry-After, so 1 s are assumed\./,
		'with a line in the log');
	is( $session->query(
			"SELECT code, retry_after, fallback FROM dataverse.throttle_history WHERE server = '$crm'"),
		'0x80072321|00:00:01|t',
		'and a mark in the history');
}

# ---- 503 with Retry-After is a throttle as well

{
	my ($crm, $user) = fresh_server(1);

	throttle($user, status => 503, code => '', retry_after => 1);
	$session->value(whoami($crm));
	my @at = attempts($user);
	cmp_ok($at[1]{at} - $at[0]{at}, '>=', 1.1, '503 with Retry-After is waited for as well');
	is(pool($session, "$crm number 1", 'throttles'), '{"429": 1}', 'and counted');
}

# ---- bounds: tolerance

{
	my ($crm, $user) = fresh_server(1, max_retry_after_tolerance => '10s');

	throttle($user, retry_after => 600);
	my $r = $session->try(whoami($crm));
	is($r->{sqlstate}, '53400', 'more than the tolerance: an error');
	like($r->{message}, qr/throttled for another 600 s, which exceeds "max_retry_after_tolerance"/,
		'that gives the reason');
	like($r->{detail}, qr/^Dataverse code 0x80072322, Retry-After 600 s, application user "$crm number 1", attempts 1\.$/,
		'the user, the code, and the duration');
	like($r->{hint}, qr/Add application users/, 'and a hint');
	cmp_ok($r->{seconds}, '<', 9, 'at once');
	$r = $session->try(whoami($crm));
	is($r->{sqlstate}, '53400', 'the next request fails');
	like($r->{detail}, qr/^Dataverse code 0x80072322, Retry-After 600 s, application user "$crm number 1"\.$/,
		'for the same reason');
	is(scalar(attempts($user)), 1, 'without being sent');
	is(in_flight($session), 0, 'nothing is left in flight');

	# within the tolerance, the request waits
	($crm, $user) = fresh_server(1, max_retry_after_tolerance => '10s');
	throttle($user, retry_after => 1);
	is($session->value(whoami($crm)), "$crm number 1", 'a shorter throttle is waited for');
}

# ---- bounds: retries

{
	my ($crm, $user) = fresh_server(1, max_throttle_retries => 2, retry_after_buffer => '10ms');

	my %refused = (app_user => $user, path => '/WhoAmI', status => 429, code => '0x80072322', message => 'exceeded');

	faults($dvsim, { %refused, retry_after => 0, times => 2 }, { %refused, retry_after => 30 });
	my $r = $session->try(whoami($crm));
	like($r->{detail}, qr/Retry-After 30 s, .*attempts 3/, 'the last attempt is throttled');
	cmp_ok($r->{seconds}, '<', 20, 'no wait follows the last attempt');
	clear_faults($dvsim);
	($crm, $user) = fresh_server(1, max_throttle_retries => 2, retry_after_buffer => '10ms');
	throttle($user, retry_after => 0, times => 0);
	$r = $session->try(whoami($crm));
	is($r->{sqlstate}, '53400', 'throttled more often than allowed: an error');
	like($r->{message}, qr/could not identify the application user on server "$crm": Number of requests exceeded/,
		'with the message of the service');
	like($r->{detail}, qr/Dataverse code 0x80072322, HTTP status 429, Retry-After 0 s, .*"$crm number 1", attempts 3/,
		'code, Retry-After, user and attempts');
	ok($r->{hint}, 'and a hint');
	is(scalar(attempts($user)), 3, 'one request and two retries');
	clear_faults($dvsim);

	# without a limit, the request is retried until it is canceled
	($crm, $user) = fresh_server(1, max_throttle_retries => -1, retry_after_buffer => '10ms');
	throttle($user, retry_after => 0, times => 4);
	is($session->value(whoami($crm)), "$crm number 1", 'without a bound it continues');
	is(scalar(attempts($user)), 5, 'until it succeeds');
}

# ---- a storm: every third request of one user, every fifth of another

{
	my ($crm, @two) = fresh_server(2, retry_after_buffer => '10ms');
	my @sessions = map { Session->new($node) } 1 .. 8;

	faults($dvsim,
		{ app_user => $two[0], path => '/WhoAmI', retry_after => 0, every => 3, times => 0, code => '0x80072326' },
		{ app_user => $two[1], path => '/WhoAmI', retry_after => 0, every => 5, times => 0, code => '0x80072321' });
	$_->start("SELECT count(*) FROM generate_series(1, 25) i, LATERAL (SELECT i, dataverse.whoami('$crm')) x")
	  for @sessions;
	my @failed = grep { defined $_->{sqlstate} } map { $_->finish } @sessions;
	is(scalar @failed, 0, 'a storm of 429s: every request succeeds')
	  or diag $failed[0]{message};
	is(in_flight($session), 0, 'and nothing is left in flight');
	my %count = map { ($_ => scalar(grep { $_->{status} == 429 } attempts($_))) } @two;
	cmp_ok($count{ $two[0] } + $count{ $two[1] }, '>=', 20, 'many requests were throttled');
	is(pool($session, "$crm number 1", q{throttles->>'0x80072326'}), $count{ $two[0] }, 'the pool has counted them');
	is(pool($session, "$crm number 2", q{throttles->>'0x80072321'}), $count{ $two[1] }, 'all');
	is($session->value("SELECT count(*) FROM dataverse.throttle_history WHERE server = '$crm'"),
		$count{ $two[0] } + $count{ $two[1] }, 'and the history has them');
	clear_faults($dvsim);
	$_->close for @sessions;
}

# ---- a date is relative to the clock of the service

{
	my $slow = RawServer->start(sub {
		my ($method, $target) = @_;

		return RawServer::answer(200, 'application/json', '{"access_token":"a","expires_in":3600}') if $target =~ /token/;
		return RawServer::answer(429, 'application/json', '{"error":{"code":"0x80072322","message":"later"}}',
			'Date: Sun, 06 Nov 1994 08:49:37 GMT', 'Retry-After: Sun, 06 Nov 1994 08:50:07 GMT');
	});
	create_server($node, 'slow', { url => $slow->base, max_retry_after_tolerance => '10s' }, { client_id => 'slow', client_secret => 'x', name => 'slow' });
	is($session->try(whoami('slow'))->{sqlstate}, '53400', 'a date half a minute after the date of the answer exceeds the tolerance');
	is(pool($session, 'slow', 'last_retry_after'), '00:00:30', '... as the pool shows');
}

# ---- selection

{
	my ($crm, @three) = fresh_server(3);
	my $in_turn = sub {
		take_turns($session, $crm, map { "$crm number $_" } 1 .. 3);
		return join ' ', map { $session->value(whoami($crm)) =~ /(\d+)$/ } 1 .. 6;
	};

	like($in_turn->(), qr/^(\d) (?!\1)(\d) 3 \1 \2 3$/, 'throttle_aware takes the least recently used user');
	$session->query("ALTER SERVER $crm OPTIONS (ADD selection 'round_robin')");
	is($in_turn->(), '1 2 3 1 2 3', 'round_robin takes them in turn');

	$session->query("ALTER SERVER $crm OPTIONS (SET selection 'least_connections')");
	my $holder = Session->new($node);
	faults($dvsim, { app_user => $three[0], path => '/WhoAmI', action => 'stall' });
	my $hits = hits($dvsim);
	$holder->start(whoami($crm));
	wait_for(sub { hits($dvsim) > $hits }, 'a request hangs');
	is($session->value(whoami($crm)), "$crm number 2", 'least_connections avoids a busy user')
	  || diag $session->query("SELECT name, in_flight, effective_limit, limited_by, throttled, requests, failures, retries FROM dataverse.pool WHERE server = '$crm' ORDER BY 1")
	  for 1 .. 2;
	$session->value('SELECT pg_cancel_backend(' . $holder->pid . ')');
	$holder->finish;
	$holder->close;
	ok(wait_for(sub { $session->value(whoami($crm)) eq "$crm number 1" }, 'its token'), 'and takes the first of the idle ones');
	is($session->value(whoami($crm)), "$crm number 1", '... each time');
	clear_faults($dvsim);
}

# ---- without tracking, only the throttled request waits

{
	my ($crm, $user) = fresh_server(1, throttle_tracking => 'off');
	my $other = Session->new($node);

	throttle($user, retry_after => 6);
	$session->start(whoami($crm));
	wait_event($other, $session->pid, 'DataverseBackoff');
	wait_for(sub { scalar(attempts($user)) == 1 }, 'the throttle arrives');
	my $r = $other->try(whoami($crm));
	is($r->{rows}[0][0], "$crm number 1", 'throttle_tracking off: others continue');
	cmp_ok($r->{seconds}, '<', 3, 'throttle_tracking off: at once');
	ok(!$session->done, 'while it waits');
	is(pool($other, "$crm number 1", 'throttled'), 'f', 'and the view shows no throttle');
	is($session->finish->{rows}[0][0], "$crm number 1", 'until the request succeeds');
	my @at = attempts($user);
	cmp_ok($at[2]{at} - $at[0]{at}, '>=', 6.1, 'at the required time');
	$other->close;
}

$session->close;
$node->stop;
done_testing();
