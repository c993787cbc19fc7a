# 015_limits.t
#		Service protection on the wire: the three codes and their bodies,
#		Retry-After, remaining budgets, and the scope of a budget.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;
use Time::HiRes qw(sleep time);

my $r;

sub burst { return $_[0]->header('x-ms-ratelimit-burst-remaining-xrm-requests'); }
sub seconds { return $_[0]->header('x-ms-ratelimit-time-remaining-xrm-requests'); }

sub bare
{
	my ($answer, $code, $message) = @_;
	is($answer->status, 429, "$code: 429");
	is($answer->body, "{\"error\":{\"code\":\"$code\",\"message\":\"$message\"}}", "$code: body");
	like($answer->header('Retry-After') // '', qr/^\d+$/, "$code: Retry-After");
	is(burst($answer), undef, "$code: no remaining requests");
	is(seconds($answer), undef, "$code: no remaining time");
	is($answer->header('OData-Version'), '4.0', "$code: standard headers");
	return;
}

# ---------------------------------------------------------------- number of requests

my $s = Dvsim->start('--limit-requests', 5, '--window', '60s', '--app-user', 'app1:secret1',
	'--app-user', 'app2:secret2');
is(join(' ', map { burst($s->get('accounts?$top=1')) } 1 .. 5), '4 3 2 1 0', 'requests count down');
$r = $s->get('accounts?$top=1', Prefer => 'odata.include-annotations="*"');
bare($r, '0x80072322',
	'Number of requests exceeded the limit of 5 over time window of 60 seconds.');
cmp_ok($r->header('Retry-After'), '>', 50, 'Retry-After: not before the window has moved');
cmp_ok($r->header('Retry-After'), '<=', 70, 'nor much later');
is($s->as('app2', 'secret2')->get('accounts?$top=1')->status, 200,
	'another user has a separate budget');
is($s->control('GET', '/_dvsim/stats')->json->{users}{app1}{throttles}{'0x80072322'}, 1, 'counted');
my $journal = $s->control('GET', '/_dvsim/requests')->json->{requests};
is(scalar(grep { $_->{status} == 429 } @$journal), 1, 'in the journal');
$s->control('POST', '/_dvsim/clock', { advance => '90s' });
is($s->get('accounts?$top=1')->status, 200, 'room after the window');
is(burst($s->get('accounts?$top=1')), 3, 'a fresh one');

# the cost of a batch
my $part = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
  . "GET /api/data/v9.2/accounts?\$top=1 HTTP/1.1\r\n\r\n\r\n";
$r = $s->post('$batch', "$part$part$part--b--\r\n",
	'Content-Type' => 'multipart/mixed; boundary=b');
is($r->status, 200, 'a batch');
is(burst($r), 2, 'is one request');

$s->control('POST', '/_dvsim/reset');
is(burst($s->get('WhoAmI')), 4, 'reset restores the budget');

# ---------------------------------------------------------------- execution time

my $exec = Dvsim->start('--limit-exec', '2s', '--window', '300s', '--time-scale', 100,
	'--latency', 'read=900ms', '--token-lifetime', '10h');
$r = $exec->get('accounts?$top=1');
is(seconds($r), '2.00', 'time before it was spent');
$r = $exec->get('accounts?$top=1');
# at least 0.9 s were used; a slow machine multiplies the excess by a hundred
cmp_ok(seconds($r), '<=', 1.10, 'time counts down');
$exec->get('accounts?$top=1');
$r = $exec->get('accounts?$top=1');
bare($r, '0x80072321', 'Combined execution time of incoming requests exceeded limit of 2000 '
	  . 'milliseconds over time window of 300 seconds. Decrease number of concurrent requests or '
	  . 'reduce the duration of requests and try again later.');
cmp_ok($r->header('Retry-After'), '>=', 1, 'Retry-After is real time');
cmp_ok($r->header('Retry-After'), '<=', 5, 'compressed by the time scale');
is($exec->get('WhoAmI')->status, 429, 'light requests need room in the window');
sleep $r->header('Retry-After');
my $status = 0;
for (1 .. 20)
{
	$status = $exec->get('accounts?$top=1')->status;
	last if $status == 200;
	$exec->control('POST', '/_dvsim/clock', { advance => '60s' });
}
is($status, 200, 'and then it is over');
my $default = Dvsim->start();
is(seconds($default->get('WhoAmI')), '1,200.00', 'a thousands comma');
is(burst($default->get('WhoAmI')), 5998, 'no comma in requests');

# ---------------------------------------------------------------- concurrency

my $busy = Dvsim->start('--limit-concurrent', 2, '--latency', 'all=1000s');
$busy->{bearer} = $busy->token('app1', 'secret1');
my @held = map { $busy->spawn('POST', 'accounts', { name => "held $_" }) } 1 .. 2;
for (1 .. 1000)
{
	last if $busy->control('GET', '/_dvsim/stats')->json->{users}{app1}{in_flight} == 2;
	sleep 0.01;
}
bare($busy->get('accounts?$top=1'), '0x80072326',
	'Number of concurrent requests exceeded the limit of 2.');
my $stats = $busy->control('GET', '/_dvsim/stats')->json;
is($stats->{users}{app1}{peak_in_flight}, 2, 'peak in flight');
is($stats->{tables}{account}, 2, 'requests in flight are committed');
is($stats->{users}{app1}{throttles}{'0x80072326'}, 1, 'counted');
$busy->control('POST', '/_dvsim/clock', { advance => '1001s' });
is($_->result->status, 204, 'both are answered') for @held;
$busy->control('POST', '/_dvsim/reset');
my $gone = $busy->spawn('GET', 'accounts');
for (1 .. 1000)
{
	last if $busy->control('GET', '/_dvsim/stats')->json->{users}{app1}{in_flight} == 1;
	sleep 0.01;
}
$busy->control('POST', '/_dvsim/reset');
kill 'KILL', $gone->{pid};
$gone->result;
for (1 .. 1000)
{
	last if $busy->control('GET', '/_dvsim/stats')->json->{users}{app1}{in_flight} == 0;
	sleep 0.01;
}
is($busy->control('GET', '/_dvsim/stats')->json->{users}{app1}{in_flight}, 0,
	'a reset during requests keeps the gauge correct');

# ---------------------------------------------------------------- latency

my $slow = Dvsim->start('--latency', 'create=200ms+50ms/row,read=0', '--time-scale', 1);
my $start = time;
is($slow->post('accounts', { name => 'x' })->status, 204, 'a create');
cmp_ok(time - $start, '>=', 0.25, 'takes the time of the request and of its row');

my $reads = Dvsim->start('--latency', 'read=20ms+96us/row+20us/input');
$reads->control('POST', '/_dvsim/seed?table=contact&rows=12000');
sub takes
{
	my ($path) = @_;
	my $began = time;
	is($reads->get($path)->status, 200, $path);
	return time - $began;
}
my $aggregate = Dvsim::escape("<fetch aggregate='true'><entity name='contact'><attribute "
	  . "name='contactid' alias='n' aggregate='count'/></entity></fetch>");
my @times = map { takes("contacts$_") } '?$select=contactid&$top=1', '?$select=contactid',
  "?fetchXml=$aggregate", '/$count', '?$apply=aggregate($count%20as%20n)';
cmp_ok($times[1], '>=', 0.5, 'a page takes the time of its rows');
cmp_ok($times[0], '<', $times[1], 'a row takes less');
cmp_ok($times[2], '>=', 0.26, 'an aggregate takes the time of its source rows');
cmp_ok($times[3], '>=', 0.12, 'a count takes the time of the 5,001 rows that it counts');
cmp_ok($times[4], '>=', 0.26, 'and so does $apply');
$start = time;
my @reads = map { $reads->spawn('GET', 'contacts?$select=contactid') } 1 .. 16;
is(join(' ', map { $_->status } map { $_->result } @reads), join(' ', (200) x 16),
	'16 pages at the same time');
cmp_ok(time - $start, '>=', 0.5, 'take the time of one');
cmp_ok(time - $start, '<', 6, 'rather than of 16');

my $scaled = Dvsim->start('--latency', 'all=20s', '--time-scale', 100);
$start = time;
is($scaled->get('WhoAmI')->status, 200, 'twenty virtual seconds');
cmp_ok(time - $start, '>=', 0.2, 'take at least 200 ms');
cmp_ok(time - $start, '<', 10, 'and less than twenty seconds');

# ---------------------------------------------------------------- web servers

sub spent
{
	my ($sim) = @_;
	my $passed = 0;
	$passed += $sim->get('accounts?$top=1')->status == 200 for 1 .. 60;
	return $passed;
}
cmp_ok(spent(Dvsim->start('--web-servers', 4, '--limit-requests', 5)), '==', 20,
	'each web server has its own budget');
is(spent(Dvsim->start('--web-servers', 4, '--limit-requests', 5, '--limit-scope', 'shared')), 5,
	'or they share one');

done_testing;
