# throttles.pl
#		Throttles of parts of a $batch, logs and errors about throttles,
#		and which answers count as successes.
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

my $w = WriteTest->start('throttles', users => 1,
	options => { max_throttle_retries => 3, max_retries => 3, fallback_retry_after => '2s' });
my $watcher = $w->watcher;
my ($since, $offset);

# Runs a statement on a table of ten rows, subject to these rules.
sub run
{
	my ($sql, @rules) = @_;
	my $result;

	$w->reset;
	$w->fill('standard', 10);
	($since) = sent($w->dvsim);
	$offset = log_size($w->node);
	faults($w->dvsim, @rules) if @rules;
	$result = $w->run($sql);
	$result->{hits} = hits($w->dvsim);
	clear_faults($w->dvsim);
	return $result;
}

# Returns the requests with parts of the last statement, with their arrival times.
sub batches
{
	my ($next, @all) = sent($w->dvsim, $since);

	return map {
		my ($h, $m, $s) = $_->{time} =~ /T(\d+):(\d+):([\d.]+)Z/;
		{ at => $h * 3600 + $m * 60 + $s, parts => scalar(() = $_->{body} =~ /^DELETE /mg) }
	} grep { $_->{target} =~ /\$batch/ } @all;
}

# Returns the DETAIL lines about throttles that the last statement has logged.
sub details
{
	return log_since($w->node, $offset)
	  =~ /throttled application user "app1" of server "crm"\n.*? DETAIL:  (.*)\n/g;
}

sub of_user { return pool($watcher, 'app1', $_[0]); }

sub succeeds
{
	my ($result, $what) = @_;

	is($result->{sqlstate}, undef, $what) || diag(join "\n", map { $_ // () } @{$result}{qw(message detail)});
	return;
}

my $delete = $w->delete('standard', 'true');
my %requests = (path => '$batch', status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit.');
my %seconds = (path => '$batch', status => 429, code => '0x80072321', message => 'Combined execution time exceeded the limit.');
my %busy = (path => '$batch', status => 503, message => 'busy');
my %deadlock = (path => '$batch', status => 400, code => '0x80044150', message => 'Generic SQL error. Sql Number: 1205');
my ($r, @sent);

# ---- each throttle of a part is logged, recorded, counted, and waited for

$r = run($delete,
	{ %requests, batch_part => 2, retry_after => 1 },
	{ %seconds, batch_part => 5 },
	{ %busy, batch_part => 9, retry_after => 1 });
succeeds($r, 'three parts are throttled: the statement succeeds');
is($r->{tag}, 'DELETE 10', 'with all rows');
@sent = batches();
is(join(' ', map { $_->{parts} } @sent), '10 3', 'the three parts are sent again, together');
cmp_ok($sent[1]{at} - $sent[0]{at}, '>=', 2, 'after the fallback, although another part named 1 s');
is( join("\n", details()),
	"Part 2 of attempt 1 was refused with code 0x80072322 and a Retry-After of 1 s.  0 of 3 retries have been used.\n"
	  . "Part 5 of attempt 1 was refused with code 0x80072321 and without a Retry-After, so 2 s are assumed.  0 of 3 retries have been used.\n"
	  . "Part 9 of attempt 1 was refused with HTTP status 503 and a Retry-After of 1 s.  0 of 3 retries have been used.",
	'each is logged in one line');
is(scalar(() = log_since($w->node, $offset) =~ /DETAIL:  .*\n.*STATEMENT:  DELETE/g), 1, 'but the statement is logged only once');
is($watcher->query('SELECT code, retry_after, fallback, operation FROM dataverse.throttle_history ORDER BY code'),
	"0x80072321|00:00:02|t|delete\n0x80072322|00:00:01|f|delete\n429|00:00:01|f|delete", 'and a row in the history');
is(of_user('throttles'), '{"429": 1, "0x80072321": 1, "0x80072322": 1}', 'each is counted by its code');
is($watcher->value('SELECT total_throttle_events FROM dataverse.pool_summary'), 3, 'in total');
is(of_user('retries'), '{"throttle": 3}', 'and so is each retry');
is(of_user(q{rows->>'delete'}), 10, 'each row counts once');
is($watcher->value(q{SELECT total_backoff BETWEEN '2 s' AND '2.1 s' FROM dataverse.pool_summary}), 't', 'overlapping time counts once');

# ---- each row has its own retries

$r = run($delete,
	{ %requests, batch_part => 1, retry_after => 0 },
	{ %requests, batch_part => 1, retry_after => 0, after => 1, times => 2 });
succeeds($r, 'three throttles with three retries');
is(join("\n", map { /(?<=\.  )(.*)/ } details()),
	join("\n", map { "$_ of 3 retries have been used." } 0 .. 2), 'the log counts them from 0');
is(join(' ', map { /(attempt \d+)/ } details()), 'attempt 1 attempt 2 attempt 3', 'and counts the attempts across requests');

$w->set(max_throttle_retries => 1);
$r = run($delete,
	{ %requests, batch_part => 1, retry_after => 0 },
	{ %deadlock, batch_part => 2 },
	{ %requests, batch_part => 1, retry_after => 0, after => 2 });
succeeds($r, 'a row that had a deadlock is throttled once: only the other row has exhausted its retries');
is($r->{hits}, 3, 'as intended');
is(join(' ', map { $_->{parts} } batches()), '10 1 1 1', 'rows with different histories are sent separately');

$r = run($delete,
	{ %requests, retry_after => 0 },
	map { { %requests, batch_part => $_, retry_after => 0 } } 1 .. 10);
is($r->{sqlstate}, '53400', 'throttles of the whole request and of one of its parts add up');
is(scalar(batches()), 2, 'so there are two attempts');

# ---- the final error

my @twice = ({ %requests, batch_part => 3, retry_after => 0 }, { %requests, batch_part => 1, retry_after => 0, after => 1 });

$r = run($delete, @twice);
is($r->{sqlstate}, '53400', 'a part is throttled too often: an error');
like($r->{message}, qr/Number of requests exceeded the limit/, 'with the message of the service');
like($r->{detail}, qr/Dataverse code 0x80072322, HTTP status 429, Retry-After 0 s, request id [^,]+, application user "app1", attempts 2\./,
	'with code, Retry-After, user and attempts');
$w->set(max_throttle_retries => -1);
$r = run($delete, @twice);
succeeds($r, 'without a bound');
is(join("\n", map { /(?<=\.  )(.*)/ } details()),
	join("\n", map { "$_ of an unlimited number of retries have been used." } 0 .. 1), 'as the log shows');
$w->set(max_throttle_retries => undef);

# ---- throttles end a statement only if no request succeeds

{
	my $watched = $w->session;
	my $update = $w->update('standard', 2, 'true');
	my %refused = (path => 'UpdateMultiple', status => 429, code => '0x80072322', message => 'exceeded', retry_after => 0);

	# so that other requests succeed several times between two attempts
	$w->set(throttle_tracking => 'off', retry_after_buffer => '300ms');
	$r = run($update, { %refused, times => 0 });
	is($r->{sqlstate}, '53400', 'no request succeeds: throttles end the statement');
	is($r->{hits}, 4, '... after three retries');
	$watched->start(q{SELECT count(dataverse.request('crm', 'GET', 'WhoAmI') || pg_sleep(0.02)::text) FROM generate_series(1, 100000)});
	$r = run($update, { %refused, times => 9 });
	succeeds($r, 'others succeed meanwhile: the statement continues');
	is($r->{hits}, 9, '... after nine throttles');
	is(join(' ', map { /(\d of 3)/ } details()), join(' ', ('0 of 3') x 9), '... none of which is counted against the retries');
	$w->is_whole('standard', '... and everything is written', upto => 10, given => 1, generation => 2);
	$watcher->value('SELECT pg_cancel_backend(' . $watched->pid . ')');
	$watched->finish;
	$watched->close;
	$w->set(throttle_tracking => 'on', retry_after_buffer => undef);

	# the service accepts only the first part of each $batch
	$r = run($delete, map { { %requests, batch_part => $_, retry_after => 0, times => 11 - $_ } } 2 .. 10);
	succeeds($r, 'one part of each request is accepted: the statement continues');
	is(join(' ', map { $_->{parts} } batches()), '10 9 8 7 6 5 4 3 2 1', '... with one row less each time');
}

# ---- without tracking, only the throttled request waits

$w->set(throttle_tracking => 'off');
$r = run($delete,
	{ %requests, batch_part => 4, retry_after => 1 },
	{ %seconds, batch_part => 7, retry_after => 0 });
succeeds($r, 'throttle_tracking off: parts are throttled');
@sent = batches();
is(join(' ', map { $_->{parts} } @sent), '10 2', 'they are sent again, together');
cmp_ok($sent[1]{at} - $sent[0]{at}, '>=', 1, 'after the longest Retry-After');
cmp_ok($sent[1]{at} - $sent[0]{at}, '<', 1.9, 'and not after the fallback');
$r = run($delete, { %seconds, batch_part => 7 });
@sent = batches();
cmp_ok($sent[1]{at} - $sent[0]{at}, '>=', 2, 'without Retry-After, the fallback is waited');

$w->set(max_retry_after_tolerance => '5s');
for my $how ([ 'a part', batch_part => 2 ], ['a request'])
{
	my ($what, @part) = @$how;

	$r = run($delete, { %requests, @part, retry_after => 60 });
	is($r->{sqlstate}, '53400', "throttle_tracking off: $what gets a Retry-After beyond the tolerance");
	like($r->{detail}, qr/code 0x80072322, HTTP status 429, Retry-After 60 s, .*application user "app1", attempts 1\./, 'the error says how long');
	cmp_ok($r->{seconds}, '<', 10, 'at once');
	$r = run($delete, { %requests, @part, retry_after => 1 });
	succeeds($r, "$what gets a shorter one");
}
$w->set(throttle_tracking => 'on');
$r = run($delete, { %requests, batch_part => 2, retry_after => 60 });
is($r->{sqlstate}, '53400', 'with tracking: a part gets a Retry-After beyond the tolerance');
like($r->{message}, qr/throttled for another 60 s, which exceeds "max_retry_after_tolerance"/, 'the error says so');
like($r->{detail}, qr/Dataverse code 0x80072322, Retry-After 60 s, application user "app1"/, 'with code, Retry-After and user');
is(of_user('last_retry_after'), '00:01:00', 'the view shows the last Retry-After');
is(of_user(q{throttle_ceiling BETWEEN 1 AND 4 AND throttle_ceiling_until > now() + interval '60 s'}), 't', 'and how long a throttle lowers the ceiling');
$w->set(max_retry_after_tolerance => '86400s');

# ---- a busy service has not refused the user unless it sends a Retry-After

my $state = q{concat_ws(' ', throttled, throttles, current_parallelism)};

for my $how ([ 503, '0x8004A001' ], [ 400, '0x80072323' ], [ 429, '0x8005F103' ], [ 500, '0x80048559' ])
{
	my ($status, $code) = @$how;
	my %refused = (path => 'UpdateMultiple', status => $status, code => $code, message => 'busy');
	my $update = $w->update('standard', 2, 'true');

	$r = run($update, { %refused, times => 2 });
	succeeds($r, "busy, $status $code: the statement succeeds");
	is($r->{hits}, 2, '... after two retries');
	is(of_user($state), 'f {} 4', "... a busy service delays no other request, is no throttle, and leaves the rate unchanged");
	is(of_user('retries'), '{"server": 2}', '... both are counted by their code');
	$w->is_whole('standard', "busy, $status $code", upto => 10, given => 1, generation => 2);
	$r = run($update, { %refused, retry_after => 1 });
	succeeds($r, "busy, $status $code with Retry-After: the statement succeeds");
	is(of_user($state), 'f {"429": 1} 2', '... it is a throttle');
	cmp_ok($r->{seconds}, '>=', 1, '... which is waited for');
}

# ---- a query that the service throttles by failing some attempts is retried

for my $how ([ 400, '0x80048544' ], [ 429, '0x80048644' ], [ 500, '0x80048745' ], [ 400, '0x80048573' ])
{
	my ($status, $code) = @$how;
	my %refused = (path => '/new_meters', status => $status, code => $code, message => 'The query cannot be completed.');
	my $cause = $code eq '0x80048573' ? 'sql timeout' : 'server';

	for my $query ('SELECT count(new_name) FROM (SELECT new_name FROM dv.new_meter OFFSET 0) m',
		'SELECT count(*) FROM dv.new_meter a JOIN dv.new_meter b USING (new_meterid)')
	{
		$r = run($query, { %refused, times => 2 });
		is($r->{rows}[0][0], 10, "throttled query, $status $code: all rows") || diag explain $r;
		is($r->{hits}, 2, '... after two retries');
		is(of_user($state), 'f {} 4', '... that delay no other request');
		is(of_user('retries'), qq({"$cause": 2}), '... counted by their cause');
	}
	$r = run('SELECT new_name FROM dv.new_meter', { %refused, times => 0 });
	is($r->{sqlstate}, $cause eq 'server' ? '53000' : 'HV00L', "throttled query, $status $code: finally an error");
	is($r->{hits}, 4, '... after max_retries retries');
	like($r->{hint} // '', qr/narrow its conditions/, '... with a hint') if $cause eq 'server';
}

# ---- a refusal is no success, and does not count for durations

# Returns the average duration of creates (deletes) in milliseconds, and the successes.
sub average { return of_user("round((average_batch_ms->>'$_[0]')::numeric)"); }
sub successes { return of_user('successes_since_throttle'); }

$w->set(
	slow_batch_threshold => '300ms',
	execution_time_ceiling_factor => 1,
	max_parallel => 20,
	stabilization_batches => 1000,
	initial_parallelism_factor => 1);
$w->reset;
faults($w->dvsim,
	{ path => 'CreateMultiple', status => 400, code => '0x80040203', message => 'wrong', every => 2, times => 0 },
	{ path => 'CreateMultiple', action => 'delay', delay_ms => 400, times => 0 });
my @states = map { $watcher->try($w->insert('standard', 1, $_, from => $_))->{sqlstate} // 'written' } 1 .. 8;
clear_faults($w->dvsim);
is(join(' ', @states), join(' ', ('written', '22023') x 4), 'every second create is refused, quickly');
cmp_ok(average('create'), '>=', 400, 'the average is that of the others');
is(of_user('execution_time_ceilings'), '{"create": 2}', 'so the ceiling of slow requests holds');
is(successes(), 4, 'and only those are successes');
is(of_user(q{rows->>'create'}), 4, 'whose rows count');

# Deletes ten rows with some parts refused; the $batch takes the given time.
sub delete_ten
{
	my ($ms, @refused) = @_;

	$w->fill('standard', 10, from => 1);
	faults($w->dvsim,
		(map { { path => '$batch', batch_part => $_, status => 400, code => '0x80040203', message => 'wrong' } } @refused),
		$ms > 0 ? { path => '$batch', action => 'delay', delay_ms => $ms } : ());
	my $result = $w->run($delete, settings => ["SET dataverse_fdw.on_error = 'continue'"]);
	clear_faults($w->dvsim);
	return $result;
}

$w->reset;
is(delete_ten(400)->{tag}, 'DELETE 10', 'ten slow deletes');
my $before = average('delete');
my $count = successes();
cmp_ok($before, '>=', 400, 'have their average');
is(delete_ten(0, 1 .. 9)->{tag}, 'DELETE 1', 'nine of ten deletes are refused');
is(average('delete'), $before, 'a partly refused $batch does not lower the average');
is(of_user(q{rows->>'delete'}), 11, 'its written rows count');
is(successes(), $count + 3, 'it is a success, as the INSERT before it and the read were');
succeeds($w->run($delete), 'the rest');
cmp_ok(average('delete'), '<', $before, 'a $batch that was carried out does');

# ---- the circuit breaker opens and closes; the README quotes the log

$w->set(throttle_tracking => 'off', max_throttle_retries => -1);
$w->reset;
$offset = log_size($w->node);
faults($w->dvsim, { path => '/WhoAmI', status => 429, code => '0x80072322', retry_after => 0, times => 0 });
my $session = $w->session;
$session->start(q{SELECT dataverse.whoami('crm')});
wait_for(sub { log_since($w->node, $offset) =~ /circuit breaker of application user "app1" of server "crm" has opened/ }, 'it opens');
is(of_user('limited_by'), 'circuit breaker', 'the circuit breaker opens after five throttles in a row');
is(of_user('effective_limit'), 1, 'requests are sent one at a time');
unlike(log_since($w->node, $offset), qr/has closed/, 'while none succeeds, it stays open');
ok($w->run(q{SELECT dataverse.request('crm', 'GET', 'nonsense')})->{sqlstate}, 'another request is refused, but not throttled');
isnt(of_user('limited_by'), 'circuit breaker', 'which closes it');
clear_faults($w->dvsim);
succeeds($session->finish, 'the request goes through');
$session->close;
$w->set(throttle_tracking => 'on');
$w->reset;
faults($w->dvsim, { path => '/WhoAmI', status => 429, code => '0x80072322', retry_after => 1 });
succeeds($w->run(q{SELECT dataverse.whoami('crm')}), 'a throttle that all sessions wait for');

# a user that is set aside; see also pool/users_that_fail
my $whoami = q{SELECT dataverse.whoami('crm')};
$session = $w->session;
faults($w->dvsim, { path => '/WhoAmI', status => 403, code => '0x80040225', message => 'disabled' });
is($session->try($whoami)->{sqlstate}, '28000', 'the only user is disabled');
clear_faults($w->dvsim);
succeeds($session->try($whoami), 'and works again');
my $update = q{SELECT dataverse.request('crm', 'PATCH', 'accounts(00000000-0000-0000-0000-000000000001)', '{"name": "x"}')};
faults($w->dvsim, { path => '/accounts', status => 403, code => '0x80040220', message => 'Principal user is missing prvWriteAccount privilege' });
is($session->try($update)->{sqlstate}, '42501', 'it loses a privilege');
clear_faults($w->dvsim);
succeeds($session->try($update), 'and regains it');
$session->close;

my $log = log_since($w->node);
my ($section) = slurp_file("$FindBin::Bin/../../../doc/reference.md") =~ /^## The server log\n(.*?)(?:^## |\z)/ms;
my @quoted = $section =~ /^    ((?:LOG|DETAIL):  .*)$/mg;
cmp_ok(scalar @quoted, '>=', 8, 'the reference quotes the log');
for my $line (@quoted)
{
	my $pattern = quotemeta $line;

	# codes, numbers, and names vary
	$pattern =~ s/0x[0-9a-f]+/0x[0-9a-f]+/g;
	$pattern =~ s/(?<![x0-9a-f])\d+(?:\\\.\d+)?(?=\\[ .])/[\\d.]+/g;
	like($log, qr/ $pattern$/m, "the reference quotes the server: $line");
}

$w->stop;
done_testing();
