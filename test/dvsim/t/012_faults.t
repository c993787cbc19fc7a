# 012_faults.t
#		Faults: every action, whether the request was committed, how rules
#		match and count, and how malformed rules are refused.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;
use Time::HiRes qw(sleep time);

my $s = Dvsim->start('--app-user', 'app1:secret1', '--app-user', 'app2:secret2');
my $r;

sub faults
{
	my @rules = @_;
	$s->control('DELETE', '/_dvsim/faults');
	my $answer = $s->control('POST', '/_dvsim/faults', \@rules);
	is($answer->status, 200, 'rules accepted') or diag $answer->body;
	return;
}

sub hits { return map { $_->{hits} } @{ $s->control('GET', '/_dvsim/faults')->json }; }
sub journal { return @{ $s->control('GET', '/_dvsim/requests')->json->{requests} }; }
sub stats { return $s->control('GET', '/_dvsim/stats')->json; }
sub rows { return stats()->{tables}{account}; }

$s->get('WhoAmI');    # has a token from now on

# ---------------------------------------------------------------- status

faults({ status => 503, code => '0x8004A001', message => 'busy "now"', retry_after => 12,
		headers => { 'X-Test' => 'a', 'X-Many' => [ 'b', 'c' ] } });
$r = $s->post('accounts', { name => 'A' });
is($r->status, 503, 'status');
is($r->error_code, '0x8004A001', 'code');
is($r->error_message, 'busy "now"', 'message');
is($r->header('Retry-After'), '12', 'Retry-After');
is($r->header('X-Test'), 'a', 'header');
is_deeply([ $r->headers('X-Many') ], [ 'b', 'c' ], 'header given twice');
is($r->header('OData-Version'), '4.0', 'standard headers');
is($r->header('x-ms-ratelimit-burst-remaining-xrm-requests'), undef, 'not admitted');
is(rows(), 0, 'nothing was written');
is($s->post('accounts', { name => 'A' })->status, 204, 'the rule is spent');
is_deeply([hits()], [1], 'hit once');

# ---------------------------------------------------------------- other rules at once

$r = $s->control('PUT', '/_dvsim/faults', [ { status => 503, code => '0x1' }, { status => 504 } ]);
is_deeply([ map { "$_->{id} $_->{status}" } @{ $r->json } ], [ '2 503', '3 504' ], 'PUT replaces the rules');
is($s->control('PUT', '/_dvsim/faults', [ { action => 'no such' } ])->status, 400, 'but not by malformed rules');
is(scalar(my @left = hits()), 2, '… and the former ones stay');
$s->control('DELETE', '/_dvsim/faults');

faults({}, { retry_after => 'Wed, 21 Oct 2026 07:28:00 GMT' });
$r = $s->get('accounts');
is($r->status, 503, 'a rule without members: 503');
$r = $s->get('accounts');
is($r->status, 429, 'with retry_after: 429');
is($r->header('Retry-After'), 'Wed, 21 Oct 2026 07:28:00 GMT', 'Retry-After as a date');
is_deeply([ map { $_->{retry_after} } (journal())[ -2, -1 ] ], [ undef, 'Wed, 21 Oct 2026 07:28:00 GMT' ],
	'which the journal shows');

faults({ status => 502, body => '<html>Bad Gateway</html>' },
	{ status => 500, body => { odd => [ 1, 2 ] } },
	{ status => 500, body => 'text', headers => { 'Content-Type' => 'text/plain' } },
	{ status => 500, body => '' });
$r = $s->get('accounts');
is($r->body, '<html>Bad Gateway</html>', 'body verbatim');
is($r->header('Content-Type'), 'text/html', 'HTML');
is_deeply($s->get('accounts')->json, { odd => [ 1, 2 ] }, 'body as JSON');
is($s->get('accounts')->header('Content-Type'), 'text/plain', 'content type given');
$r = $s->get('accounts');
is($r->body, '', 'empty body');
is($r->header('Content-Length'), '0', 'of no length');

for my $code (qw(0x80072321 0x80072322 0x80072326))
{
	faults({ status => 429, code => $code, retry_after => 0 });
	$s->get('accounts');
	is(stats()->{users}{app1}{throttles}{$code}, 1, "$code counts as a throttle");
}

# ---------------------------------------------------------------- connections

my $before = rows();
faults({ action => 'reset_before_commit', method => 'POST' });
$r = $s->post('accounts', { name => 'B' });
is($r->curl, 56, 'reset_before_commit: connection reset');
is($r->status, 0, 'no answer');
is(rows(), $before, 'nothing was written');
is($s->post('accounts', { name => 'B' })->status, 204, 'and then it works');

$before = rows();
faults({ action => 'reset_after_commit', method => 'POST' });
$r = $s->post('accounts', { name => 'C' });
is($r->curl, 56, 'reset_after_commit: connection reset');
is($r->status, 0, 'no answer');
is(rows(), $before + 1, 'but it was written');

faults({ action => 'truncate', bytes => 20 }, { action => 'truncate' },
	{ action => 'truncate', bytes => 0 }, { action => 'truncate', bytes => 100_000 });
my $whole = $s->get('accounts?$select=name');
is($whole->status, 200, 'truncate: status');
is($whole->curl, 18, 'truncate: short');
is(length $whole->body, 20, 'truncate: bytes');
is(length($s->get('accounts?$select=name')->body) * 2 - $whole->header('Content-Length') > -2, 1,
	'truncate: half by default');
is($s->get('accounts')->body, '', 'truncate: nothing');
is($s->get('accounts')->curl, 0, 'truncate: beyond the end');
$before = rows();
faults({ action => 'truncate', method => 'POST' });
$r = $s->post('accounts', { name => 'D' });
is($r->status, 0, 'truncate: an answer without a body is lost');
is(rows(), $before + 1, 'after the commit');

faults({ action => 'garble' });
$r = $s->get('accounts?$select=name');
is($r->status, 200, 'garble: status');
is($r->curl, 0, 'garble: length is right');
is(length $r->body, $r->header('Content-Length'), 'garble: to the byte');
is(eval { $r->json; 1 }, undef, 'garble: no JSON');
for my $bytes (1, 200)
{
	my $good = $s->get('accounts?$select=name')->body;

	faults({ action => 'garble', bytes => $bytes });
	$r = $s->get('accounts?$select=name');
	is(substr($r->body, 0, $bytes), substr($good, 0, $bytes), "garble: the first $bytes bytes are intact");
	isnt(substr($r->body, $bytes, 1), substr($good, $bytes, 1), 'garble: the next one is not');
	is(eval { $r->json; 1 }, undef, 'garble: no JSON');
}
faults({ action => 'shorten', bytes => 30 }, { action => 'shorten', bytes => 0 }, { action => 'shorten', bytes => 100_000 });
$r = $s->get('accounts?$select=name');
is($r->status . ' ' . $r->curl . ' ' . length($r->body) . ' ' . $r->header('Content-Length'), '200 0 30 30', 'shorten: the length is adjusted');
is($s->get('accounts?$select=name')->body, '', 'shorten: nothing');
is(eval { $s->get('accounts?$select=name')->json; 1 }, 1, 'shorten: beyond the end');

faults({ action => 'delay', delay_ms => 400 });
my $start = time;
is($s->get('accounts')->status, 200, 'delay: answer');
cmp_ok(time - $start, '>=', 0.39, 'delay: at the right time');
faults({ status => 503, delay_ms => 300 });
$start = time;
is($s->get('accounts')->status, 503, 'a delayed status');
cmp_ok(time - $start, '>=', 0.29, 'is late too');

faults({ action => 'stall' });
my $stalled = $s->spawn('POST', 'accounts', { name => 'E' });
$before = rows();
is($s->get('WhoAmI')->status, 200, 'stall: other requests are answered');
my ($open) = grep { !defined $_->{status} } journal();
ok($open, 'stall: without status in the journal');
is(rows(), $before, 'stall: nothing was written');
kill 'KILL', $stalled->{pid};
$stalled->result;
for (1 .. 200)
{
	last unless grep { !exists $_->{duration_ms} } journal();
	sleep 0.01;
}
($open) = grep { $_->{n} == $open->{n} } journal();
is($open->{status}, 0, 'stall: ends when the client disconnects');
is($open->{fault}, 'stall', 'stall: shown in the journal');

# requests that are carried out after the client has given up
$before = rows();
faults({ action => 'commit_late', delay_ms => 100_000 }, { action => 'commit_late', delay_ms => 50_000 });
is($s->post('accounts', { name => 'late' })->status, 0, 'commit_late: no answer');
is($s->post('accounts', { name => 'less late' })->status, 0, 'commit_late: no answer to another request');
is(rows(), $before, 'commit_late: nothing is written yet');
$s->control('POST', '/_dvsim/clock', { advance => 60 });
is(rows(), $before + 1, 'commit_late: written when its time has come');
$s->control('POST', '/_dvsim/clock', { advance => 60 });
is(rows(), $before + 2, 'commit_late: each at its own time');
faults({ action => 'commit_late', delay_ms => 50_000 });
is($s->post('accounts', { name => 'never' })->status, 0, 'commit_late: again');
$s->control('POST', '/_dvsim/reset');
$before = rows();
$s->control('POST', '/_dvsim/clock', { advance => 60 });
is(rows(), $before, 'commit_late: not after a reset');

faults({ action => 'expire_token' });
$r = $s->get('WhoAmI');
is($r->status, 401, 'expire_token: 401');
is($r->error_code, '0x80041d52', 'expire_token: code');
like($r->header('WWW-Authenticate'), qr/^Bearer /, 'expire_token: WWW-Authenticate');
is($s->get('WhoAmI')->status, 401, 'the token stays invalid');
$s->forget_token;
is($s->get('WhoAmI')->status, 200, 'a new one is accepted');

# a client that disconnects while its answer waits frees its slot
faults({ action => 'delay', delay_ms => 60_000 });
my $waiting = $s->spawn('GET', 'accounts');
for (1 .. 500)
{
	last if stats()->{users}{app1}{in_flight} == 1;
	sleep 0.01;
}
is(stats()->{users}{app1}{in_flight}, 1, 'in flight while it waits');
kill 'KILL', $waiting->{pid};
$waiting->result;
for (1 .. 500)
{
	last if stats()->{users}{app1}{in_flight} == 0;
	sleep 0.01;
}
is(stats()->{users}{app1}{in_flight}, 0, 'but not after the client has disconnected');

# ---------------------------------------------------------------- matching

faults({ method => 'post', path => 'contacts', status => 500, times => 0 });
is($s->get('contacts')->status, 200, 'other method');
is($s->post('accounts', { name => 'F' })->status, 204, 'other path');
is($s->post('contacts', { lastname => 'F' })->status, 500, 'both match') for 1 .. 3;

faults({ path => 'top=1', status => 500, times => 0 });
is($s->get('accounts?$top=1')->status, 500, 'the query belongs to the path');

faults({ app_user => 'app2', status => 500, times => 0 });
is($s->get('WhoAmI')->status, 200, 'other user');
my $s2 = $s->as('app2', 'secret2');
is($s2->token_request(client_id => 'app2')->status, 500, 'its token requests match');
faults({ app_user => 'app2', path => '/api/', status => 500, times => 0 });
is($s2->get('WhoAmI')->status, 500, 'that user');

faults({ after => 2, every => 3, times => 2, status => 500 });
is(join(' ', map { $s->get('WhoAmI')->status } 1 .. 12),
	'200 200 200 200 500 200 200 500 200 200 200 200', 'after, every, times');
is_deeply([hits()], [2], 'hits');
is($s->control('GET', '/_dvsim/faults')->json->[0]{matches}, 12, 'matches');

faults({ status => 500 }, { status => 501 }, { status => 502, after => 1 });
is(join(' ', map { $s->get('WhoAmI')->status } 1 .. 4), '500 501 502 200',
	'the first matching rule acts, each in turn');

faults({ path => '/oauth2/', status => 429, retry_after => 3 },
	{ path => '/oauth2/', action => 'truncate', bytes => 5 });
my %form = (client_id => 'app1', client_secret => 'secret1', grant_type => 'client_credentials',
	scope => $s->base . '/.default');
is($s->token_request(%form)->status, 429, 'token endpoint throttles');
is(length $s->token_request(%form)->body, 5, 'token truncated');
is($s->token_request(%form)->status, 200, 'and works');

# ---------------------------------------------------------------- parts of a $batch

sub batch
{
	my ($n, @headers) = @_;
	my $body = join '', map {
		"--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
		  . "POST /api/data/v9.2/accounts HTTP/1.1\r\nContent-Type: application/json\r\n\r\n"
		  . "{\"name\":\"part $_\"}\r\n"
	} 1 .. $n;
	my $answer = $s->post('$batch', "$body--b--\r\n",
		'Content-Type' => 'multipart/mixed; boundary=b', @headers);
	return ($answer->status, join ' ', $answer->body =~ m{^HTTP/1.1 (\d+)}mg);
}

$before = rows();
faults({ batch_part => 2, status => 429, code => '0x80072326', message => 'm', retry_after => 5 });
is_deeply([ batch(3, Prefer => 'odata.continue-on-error') ], [ 200, '204 429 204' ],
	'429 inside a batch');
is(rows(), $before + 2, 'that part was not run');
is_deeply([hits()], [1], 'batch_part counts');
is_deeply([ batch(3) ], [ 200, '204 204 204' ], 'spent');
faults({ batch_part => 2, status => 503 });
is((batch(3))[0], 503, 'without continue-on-error the batch ends there');
faults({ batch_part => 5, status => 503 });
is_deeply([ batch(3) ], [ 200, '204 204 204' ], 'a part number beyond the batch');
is_deeply([hits()], [0], 'does not match');
$before = rows();
faults({ path => '$batch', batch_part => 2, action => 'reset_after_commit' });
is((batch(3))[0], 0, 'other actions apply to the whole batch');
is(rows(), $before + 3, 'after its commit');

# ---------------------------------------------------------------- the rules themselves

$s->control('DELETE', '/_dvsim/faults');
for my $case (
	[ '[{"actoin":"stall"}]', qr/rule 0: a rule has no member "actoin"/ ],
	[ '[{},{"action":"explode"}]', qr/rule 1: "action" must be status, / ],
	[ '[{"status":"503"}]', qr/"status" must be a whole number from 200 to 599/ ],
	[ '[{"status":99}]', qr/"status"/ ],
	[ '[{"times":-1}]', qr/"times"/ ],
	[ '[{"every":0}]', qr/"every"/ ],
	[ '[{"batch_part":0}]', qr/"batch_part"/ ],
	[ '[{"method":1}]', qr/"method" must be a string/ ],
	[ '[{"headers":{"a b":"c"}}]', qr/"headers"/ ],
	[ '[{"headers":{"a":"b\r\nc: d"}}]', qr/./ ],
	[ '[{"headers":["a"]}]', qr/"headers"/ ],
	[ '[{"retry_after":-1}]', qr/"retry_after"/ ],
	[ '[{"action":"delay"}]', qr/delay_ms/ ],
	[ '[{"action":"commit_late"}]', qr/"commit_late" wants "delay_ms"/ ],
	[ '[1]', qr/a rule is an object/ ],
	[ '"x"', qr/a rule is an object/ ],
	[ '[{"status":503}', qr/not JSON: unexpected end at position 15/ ],
	[ '[{"status":503}] x', qr/not JSON/ ],
	[ '', qr/not JSON/ ],
	[ "[\"\xff\"]", qr/not JSON/ ],
	[ "[\"\n\"]", qr/not JSON: control character/ ])
{
	my ($body, $message) = @$case;
	$r = $s->control('POST', '/_dvsim/faults', $body);
	is($r->status, 400, "$body: 400");
	like($r->json->{error}, $message, "$body: message");
}
is_deeply($s->control('GET', '/_dvsim/faults')->json, [], 'no rule of a bad list is kept');
is($s->control('POST', '/_dvsim/faults', { status => 504 })->status, 200, 'one rule, no array');
is($s->get('WhoAmI')->status, 504, 'it acts');
is_deeply($s->control('DELETE', '/_dvsim/faults')->json, [], 'DELETE clears');

done_testing;
