# throttle_acceptance.pl
#		The acceptance criteria of throttle detection and routing, each of them
#		verified by real writes (R039-R043, R054-R058):
#
#	 1	service protection errors (all three codes) are detected
#	 2	Retry-After is extracted
#	 3	each throttle is recorded
#	 4	requests are routed away from throttled users
#	 5	another user replaces it at once if one is free
#	 6	if all are throttled, the request waits and is sent again
#	 7	retries are bounded
#	 8	the number of throttled users is current
#	 9	the number of throttles is complete
#	10	the log has user, code, and Retry-After
#	11	all of it can be configured
#	12	unit tests pass
#	13	integration tests show routing over several users
#	14	a load test shows it under pressure
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
use WriteTest;

my @codes = ('0x80072322', '0x80072321', '0x80072326');
my %names = (
	'0x80072322' => 'Number of requests exceeded the limit of 6000 over time window of 300 seconds.',
	'0x80072321' => 'Combined execution time of incoming requests exceeded limit of 1,200,000 milliseconds over time window of 300 seconds.',
	'0x80072326' => 'Number of concurrent requests exceeded the limit of 52.');

my $w = WriteTest->start('throttle_acceptance', users => 3, dop => 4);
my $dvsim = $w->dvsim;
my $watcher = $w->watcher;
my $n = 600;

# The statements that must handle throttles, and the expected contents before and after them.
my @operations = (
	{
		name => 'CreateMultiple',
		path => 'CreateMultiple',
		kind => 'standard',
		sql => $w->insert('standard', 2, $n, given => 1),
		operation => 'create',
	},
	{
		name => 'UpdateMultiple',
		path => 'UpdateMultiple',
		kind => 'standard',
		before => $n,
		sql => $w->update('standard', 2, 'N > 0'),
		operation => 'update',
	},
	{
		name => 'UpsertMultiple',
		path => 'UpsertMultiple',
		kind => 'standard',
		before => $n / 2,
		settings => 'SET dataverse_fdw.insert_mode = upsert',
		sql => $w->insert('standard', 2, $n, given => 1),
		operation => 'upsert',
	},
	{
		name => 'DeleteMultiple of an elastic table',
		path => 'DeleteMultiple',
		kind => 'elastic',
		before => $n,
		sql => $w->delete('elastic', 'N > 0'),
		operation => 'delete',
		upto => 0,
	},
	{
		name => 'deletes of a standard table',
		path => '$batch',
		kind => 'standard',
		before => $n,
		sql => $w->delete('standard', 'N > 0'),
		operation => 'delete',
		upto => 0,
	});

sub throttle
{
	my ($code, $path, %rule) = @_;
	return faults($dvsim, { status => 429, code => $code, message => $names{$code}, path => $path, %rule });
}

# Restores the contents that a statement requires.
sub prepare
{
	my ($o) = @_;

	$w->reset;
	$w->fill($o->{kind}, $o->{before}) if $o->{before};
	$watcher->query("SELECT dataverse.reset_pool('crm'), dataverse.reset_stats('crm')");
	return;
}

# A user is used only once the session has a token for it, and each of them must be throttled.
my $all_take_part = q{DO $$
DECLARE
	seen text[] := '{}';
BEGIN
	WHILE cardinality(seen) < 3 LOOP
		seen := ARRAY(SELECT unnest(seen) UNION SELECT application_user FROM dataverse.whoami('crm'));
	END LOOP;
END $$};

sub write_rows
{
	my ($o) = @_;
	return $w->run($o->{sql}, settings => [ $o->{settings} // (), $all_take_part, 'SET client_min_messages = debug1' ]);
}

sub all_written
{
	my ($o, $what, $r) = @_;

	is($r->{sqlstate}, undef, "$what: the statement succeeds") || diag explain $r;
	like($r->{tag}, qr/ $n$/, "$what: $r->{tag}") if $r->{tag};
	$w->is_whole($o->{kind}, $what, upto => $o->{upto} // $n, given => 1, generation => 2);
	return;
}

# Returns user, status, and seconds of the writes in dvsim's journal.
sub writes
{
	my ($since, $path) = @_;
	my ($next, @all) = sent($dvsim, $since);

	return map {
		my ($h, $m, $s) = $_->{time} =~ /T(\d+):(\d+):([\d.]+)Z/;
		{ user => $_->{user}, status => $_->{status}, at => $h * 3600 + $m * 60 + $s }
	} grep { index($_->{target}, $path) >= 0 } @all;
}

sub mark { my ($next) = sent($dvsim, 0); return $next; }

# ---- each operation, each code: detected, extracted, recorded, routed away

for my $o (@operations)
{
	for my $i (0 .. $#codes)
	{
		# a different user for each code, so that a record of the wrong user is noticed
		my ($code, $app) = ($codes[$i], 'app' . ($i + 1));
		my $what = "$o->{name}, $code";
		my ($since, $log, $r, @writes, $throttled);

		prepare($o);
		$since = mark();
		$log = log_size($w->node);
		throttle($code, $o->{path}, app_user => $app, retry_after => 77);
		$r = write_rows($o);
		all_written($o, $what, $r);
		@writes = writes($since, $o->{path});
		($throttled) = grep { $_->{status} == 429 } @writes;

		# by dvsim's count, the rule has fired once
		is_deeply(user_stats($dvsim, $app)->{throttles}, { $code => 1 }, "criterion 1: $what is detected: it was sent");
		is(pool($watcher, $app, 'throttles'), qq({"$code": 1}), "criterion 1: $what: and counted by its code");
		is( $watcher->query("SELECT name, code, retry_after, fallback, operation FROM dataverse.throttle_history"),
			"$app|$code|00:01:17|f|$o->{operation}",
			"criteria 2 and 3: $what: Retry-After is extracted, the event recorded");
		is( pool($watcher, $app, "throttled_until - now() BETWEEN '60 s' AND '79 s'"), 't',
			"criterion 2: $what: for as long as the service said");
		is(scalar(grep { $_->{user} eq $app && $_->{at} > $throttled->{at} + 0.5 } @writes),
			0, "criterion 4: $what: the throttled user gets no more requests");
		cmp_ok(scalar(grep { $_->{user} ne $app && $_->{status} < 300 } @writes),
			'>=', 1, "criterion 4: $what: the other users do the work");
		cmp_ok($r->{seconds}, '<', 20, sprintf 'criterion 5: %s: at once (%.2f s)', $what, $r->{seconds});
		like(
			join("\n", map { $_->{message} } @{ $r->{notices} }),
			qr/request continues with application user "(?!$app")app[1-3]"/,
			"criterion 5: $what: the same request continues with another user");
		is($watcher->query('SELECT users, throttled_users, total_throttle_events FROM dataverse.pool_summary'),
			'3|1|1', "criteria 8 and 9: $what: the summary");
		like(
			log_since($w->node, $log),
			qr/Dataverse throttled application user "$app" of server "crm"\n.*Attempt 1 was refused with code $code and a Retry-After of 77 s\.  0 of 3 retries have been used\./,
			"criterion 10: $what: the log has user, code, Retry-After and attempt");
	}
}

# ---- all users throttled: wait for the first one to become free, then continue

for my $o (@operations)
{
	my $what = "$o->{name}, all throttled";
	my ($since, $log, $r, @writes, %until);
	my %retry_after = (app1 => 5, app2 => 1, app3 => 6);

	prepare($o);
	$since = mark();
	$log = log_size($w->node);
	throttle($codes[0], $o->{path}, app_user => $_, retry_after => $retry_after{$_}) for sort keys %retry_after;
	$r = write_rows($o);
	all_written($o, $what, $r);
	@writes = writes($since, $o->{path});
	for my $write (grep { $_->{status} == 429 } @writes)
	{
		$until{ $write->{user} } //= $write->{at} + $retry_after{ $write->{user} };
	}
	is(join(' ', sort keys %until), 'app1 app2 app3', "$what: all were throttled");
	is(scalar(grep { $_->{status} != 429 && $_->{at} < ($until{ $_->{user} } // 0) && $_->{at} > $until{ $_->{user} } - $retry_after{ $_->{user} } + 0.5 } @writes),
		0, "criterion 6: $what: nothing is sent before the time has passed");
	cmp_ok($r->{seconds}, '>=', 1, sprintf 'criterion 6: %s: it waits (%.2f s)', $what, $r->{seconds});
	cmp_ok($r->{seconds}, '<', 4.5, "criterion 6: $what: for the shortest Retry-After");
	like(log_since($w->node, $log), qr/all application users of server "crm" are throttled, waiting \d\.\d s/,
		"criterion 10: $what: the wait is in the log");
	is($watcher->query('SELECT total_throttle_events FROM dataverse.pool_summary'), 3, "criterion 9: $what: three throttles");
	is($watcher->query('SELECT count(*) FROM dataverse.throttle_history'), 3, "criterion 3: $what: each is recorded");
}

# ---- bounded

{
	my $o = $operations[0];
	my ($r, $since, @writes);

	prepare($o);
	$w->set(max_throttle_retries => 2);
	$since = mark();
	throttle($codes[1], $o->{path}, retry_after => 0, times => 0);
	$r = write_rows($o);
	is($r->{sqlstate}, '53400', 'criterion 7: throttled more often than allowed: an error');
	like($r->{message}, qr/could not insert into foreign table "new_meter" on server "crm"/, 'criterion 7: that names the failed operation')
	  || diag explain $r;
	like("$r->{message} $r->{detail}", qr/Combined execution time/, 'criterion 7: in the words of the service');
	like($r->{detail}, qr/$codes[1]/, 'criterion 7: with the code');
	ok($r->{hint}, 'criterion 7: and a hint');
	is($w->rows_there('standard'), 0, 'criterion 7: nothing was written');
	@writes = writes($since, $o->{path});
	# other requests may be throttled for the same reason before the first one fails
	cmp_ok(scalar @writes, '<=', 3 * $n / WriteTest::BATCH, 'criterion 7: no endless loop');
	$since = mark();
	$r = $w->run($w->insert('standard', 2, WriteTest::BATCH, given => 1));
	is($r->{sqlstate}, '53400', 'criterion 7: the same for a single request');
	is(scalar(writes($since, $o->{path})), 3, 'criterion 7: which is sent three times: two retries are allowed');
	is(in_flight($watcher), 0, 'criterion 7: no slot is held');
	$w->set(max_throttle_retries => undef);
	clear_faults($dvsim);
}

# ---- current: the number of throttled users decreases as throttles end

{
	my $o = $operations[0];
	my (@seen, $r);

	prepare($o);
	throttle($codes[2], $o->{path}, app_user => $_, retry_after => 2) for 'app1', 'app2';
	$r = write_rows($o);
	all_written($o, 'two of three', $r);
	is($watcher->value('SELECT throttled_users FROM dataverse.pool_summary'), 2, 'criterion 8: two users are throttled');
	wait_for(sub { $watcher->value('SELECT throttled_users FROM dataverse.pool_summary') == 0 }, 'it ends');
	is($watcher->value('SELECT total_throttle_events FROM dataverse.pool_summary'), 2, 'criterion 9: past throttles stay counted');
}

# ---- configured

{
	my $o = $operations[0];
	my ($r, $since, @writes);

	# no Retry-After
	prepare($o);
	$w->set(fallback_retry_after => '33s');
	throttle($codes[0], $o->{path}, app_user => 'app1');
	$r = write_rows($o);
	all_written($o, 'no Retry-After', $r);
	is($watcher->query('SELECT retry_after, fallback FROM dataverse.throttle_history'),
		'00:00:33|t', 'criterion 11: fallback_retry_after is assumed');
	$w->set(fallback_retry_after => undef);

	# no tracking: other requests do not know about it
	prepare($o);
	$w->set(throttle_tracking => 'off');
	throttle($codes[0], $o->{path}, app_user => 'app1', retry_after => 1);
	$r = write_rows($o);
	all_written($o, 'no tracking', $r);
	is(pool($watcher, 'app1', 'throttled'), 'f', 'criterion 11: throttle_tracking off: the user is not marked');
	$w->set(throttle_tracking => 'on');

	# a buffer
	prepare($o);
	$w->set(retry_after_buffer => '1s');
	$since = mark();
	throttle($codes[0], $o->{path}, app_user => $_, retry_after => 1) for 'app1', 'app2', 'app3';
	$r = write_rows($o);
	cmp_ok($r->{seconds}, '>=', 2, sprintf 'criterion 11: retry_after_buffer is added (%.2f s)', $r->{seconds});
	$w->set(retry_after_buffer => undef);

	# no patience
	prepare($o);
	$w->set(max_retry_after_tolerance => '10s');
	throttle($codes[0], $o->{path}, retry_after => 600, times => 0);
	$r = write_rows($o);
	is($r->{sqlstate}, '53400', 'criterion 11: max_retry_after_tolerance: fail at once instead of waiting');
	cmp_ok($r->{seconds}, '<', 9, 'criterion 11: at once');
	$w->set(max_retry_after_tolerance => '1h');
	clear_faults($dvsim);
}

# ---- routing over three users: one is throttled, the others continue, and it returns (R052)

{
	my $what = 'criterion 13: three users';
	my $session = $w->session;
	my $part = 0;
	my (%used, $since);
	my $write = sub {
		my $mark = mark();

		$session->query($w->insert('standard', 1, ++$part * $n, from => ($part - 1) * $n + 1));
		return map { ($_->{user} => 1) } grep { $_->{status} == 200 } writes($mark, 'CreateMultiple');
	};

	$w->reset;
	take_turns($session, 'crm', 'app1', 'app2', 'app3');
	%used = $write->();
	is(join(' ', sort keys %used), 'app1 app2 app3', "$what are used");
	throttle($codes[0], 'CreateMultiple', app_user => 'app1', retry_after => 3);
	$write->();
	wait_for(sub { $write->() if pool($watcher, 'app1', 'throttled') eq 'f' && !hits($dvsim); hits($dvsim) }, 'the throttle');
	%used = $write->();
	is(join(' ', sort keys %used), 'app2 app3', "$what: one is throttled, two are used");
	wait_for(sub { pool($watcher, 'app1', 'throttled') eq 'f' }, 'the throttle ends');
	%used = map { $write->() } 1 .. 2;
	is(join(' ', sort keys %used), 'app1 app2 app3', "$what: afterwards it is used again");
	$w->is_whole('standard', $what, upto => $part * $n);
	$session->close;
}
$w->stop;

# ---- under load: several backends, until dvsim's own limits throttle them

{
	my $backends = 4;
	my $each = 5000;
	my $load = WriteTest->start(
		'throttle_load',
		dop => 8,
		options => { batch_size => 20, retry_after_buffer => '0ms' },
		flags => [ '--limit-requests', 100, '--window', '3s', '--latency', 'create=10ms~50%' ]);
	my @sessions = map { $load->session } 1 .. $backends;
	my $log = log_size($load->node);
	my ($start, $seconds, @results, %sent, %recorded);
	my $admitted = 0;

	$start = time;
	$sessions[$_]->start($load->insert('standard', 1, ($_ + 1) * $each, from => $_ * $each + 1)) for 0 .. $#sessions;
	@results = map { $_->finish(200) } @sessions;
	$seconds = time - $start;
	is(scalar(grep { defined $_->{sqlstate} } @results), 0, 'criterion 14: under pressure every statement succeeds')
	  || diag explain [ grep { defined $_->{sqlstate} } @results ];
	is(join(' ', map { $_->{tag} // '' } @results), join(' ', ("INSERT 0 $each") x $backends), 'criterion 14: with all rows');
	$load->is_whole('standard', 'criterion 14', upto => $backends * $each);
	for my $user ('app1', 'app2', 'app3')
	{
		my $stats = user_stats($load->dvsim, $user);

		$sent{$_} += $stats->{throttles}{$_} for keys %{ $stats->{throttles} };
		$admitted += $stats->{requests}{create} // 0;
		is($load->watcher->value("SELECT coalesce(sum(value::int), 0) FROM dataverse.pool, jsonb_each_text(throttles) WHERE name = '$user'"),
			eval { my $sum = 0; $sum += $_ for values %{ $stats->{throttles} }; $sum },
			"criterion 14: $user: as many throttles as dvsim sent");
	}
	%recorded = map { split /\|/ } split /\n/,
	  $load->watcher->query('SELECT code, count(*) FROM dataverse.throttle_history GROUP BY 1');
	is_deeply(\%recorded, \%sent, 'criterion 14: by code, in the history') || diag explain \%sent;
	my $throttles = eval { my $sum = 0; $sum += $_ for values %sent; $sum };
	cmp_ok($throttles, '>=', 3, "criterion 14: it was throttled ($throttles times)");
	is(scalar(() = log_since($load->node, $log) =~ /Dataverse throttled application user/g),
		$throttles, 'criterion 14: and each throttle is in the log');
	# 100 requests in 3 s for each of three users, plus an initial burst
	my $possible = 3 * (100 + 100 / 3 * $seconds);
	cmp_ok($admitted / $possible, '>', 0.5,
		sprintf 'criterion 14: throughput: %d requests in %.1f s, %.0f %% of what the limits let through, %d throttles',
		$admitted, $seconds, 100 * $admitted / $possible, $throttles);
	is(in_flight($load->watcher), 0, 'criterion 14: no slot is held');
	$_->close for @sessions;
	$load->stop;
}

# ---- the unit tests

SKIP:
{
	my $unit = "$FindBin::Bin/../../unit";
	my $build = PostgreSQL::Test::Utils::tempdir() . '/unit';

	for my $test ('throttle', 'select', 'rate', 'multipart', 'date')
	{
		my $program = "build/${test}_test";
		my $status = system("make -s -C $unit $program >$build.log 2>&1 && cd $unit && ./$program >>$build.log 2>&1");

		is($status, 0, "criterion 12: unit test $test") || diag slurp_file("$build.log");
	}
}

done_testing();
