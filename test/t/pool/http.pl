# http.pl
#		Faults of the network: compressed, truncated, and garbled answers,
#		connections lost before or after a request is carried out, redirects,
#		cookies.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Dvsim;
use Hostile;

my $dvsim = Dvsim->start('--web-servers', 4);
my $node = new_node('http', preload => 1);
my $session = Session->new($node);
my %app1 = (client_id => 'app1', client_secret => 'secret1');

create_server($node, 'crm', { url => $dvsim->base, budget_pacing => 'off' }, \%app1);

sub get { return "SELECT dataverse.request('crm', 'GET', '$_[0]')"; }
sub mark { my ($next) = sent($dvsim, 0); return $next; }

sub statuses
{
	my ($since) = @_;
	my ($next, @requests) = sent($dvsim, $since);
	return join ' ', map { "$_->{method} $_->{status}" } grep { $_->{kind} ne 'token' } @requests;
}

sub accounts
{
	my ($name) = @_;
	return $session->value("SELECT jsonb_array_length(dataverse.request('crm', 'GET', 'accounts?\$select=name&\$filter=name eq ''$name''')->'value')");
}

# ---- compression

$dvsim->control('POST', '/_dvsim/seed?table=account&rows=2000');
$session->query('SELECT dataverse.whoami(\'crm\')');
my $size = $session->value(
	q{SELECT length(dataverse.request('crm', 'GET', 'accounts?$select=name,telephone1,address1_city')::text)});
cmp_ok($size, '>', 100_000, 'a large answer arrives');
cmp_ok($session->value('SELECT bytes_received FROM dataverse.pool'), '<', $size / 2, 'compressed');

# ---- reads are retried

for my $case (
	[ { action => 'truncate' }, 'an answer that is cut' ],
	[ { action => 'reset_before_commit' }, 'a connection that breaks' ],
	[ { action => 'reset_after_commit' }, 'a connection that breaks later' ],
	[ { status => 503 }, '503' ],
	[ { status => 502, body => '<html>Bad Gateway</html>' }, '502 with HTML' ],
	[ { status => 500 }, '500' ])
{
	my ($rule, $title) = @$case;
	my $since = mark();

	faults($dvsim, { path => 'WhoAmI', %$rule });
	is($session->try(get('WhoAmI'))->{sqlstate}, undef, "GET: $title is retried");
	like(statuses($since), qr/^GET \d+ GET 200$/, 'once');
}
is(pool($session, 'app1', q{retries->>'server'}), 3, 'the causes are counted');

# ---- writes are not retried

{
	my $create = sub { "SELECT dataverse.request('crm', 'POST', 'accounts', '{\"name\": \"$_[0]\"}')" };

	faults($dvsim, { method => 'POST', path => 'accounts', action => 'reset_after_commit' });
	my $r = $session->try($create->('after'));
	is($r->{sqlstate}, '08006', 'POST: no answer is an error');
	is(accounts('after'), 1, 'and the request is not sent again, because it was carried out');

	faults($dvsim, { method => 'POST', path => 'accounts', action => 'reset_before_commit' });
	$r = $session->try($create->('before'));
	is($r->{sqlstate}, '08006', 'whether it was carried out is unknown');
	is(accounts('before'), 0, 'so it is not sent again');

	# libcurl remembers that it wanted to retry a request, which must not affect the next one
	faults($dvsim, { method => 'POST', path => 'accounts', action => 'reset_before_commit' });
	$session->try($create->('broken'));
	my $since = mark();
	is($session->try($create->('next'))->{sqlstate}, undef, 'the next request is sent nevertheless');
	is(accounts('next'), 1, 'and arrives');
	is(statuses($since), 'POST 204 GET 200', 'each at the first attempt');

	faults($dvsim, { method => 'POST', path => 'accounts', status => 429, retry_after => 0, code => '0x80072322' });
	is($session->try($create->('throttled'))->{sqlstate}, undef, '429: it was not carried out, and is sent again');
	is(accounts('throttled'), 1, 'once');
	is($session->try(q{BEGIN READ ONLY; SELECT dataverse.request('crm', 'POST', 'accounts', '{}')})->{sqlstate},
		'25006', 'not in a read-only transaction');
	$session->query('ROLLBACK');
}

# libcurl would repeat a request on a new connection if the one that it had kept is closed before the answer
{
	my $hostile = Hostile->start('/WhoAmI' => sub { Hostile::answer($_[0], 200, '{}') }, '/accounts' => sub { 0 });

	create_server($node, 'closing', { url => $hostile->base, max_retries => 0, budget_pacing => 'off' }, { access_token => 'token' });
	for my $length (10, 60_000, 1_000_000)
	{
		my $before = $hostile->count('/accounts');
		$session->query(q{SELECT dataverse.request('closing', 'GET', 'WhoAmI')});
		my $r = $session->try("SELECT dataverse.request('closing', 'POST', 'accounts', jsonb_build_object('name', repeat('x', $length)))");
		is($r->{sqlstate}, '08006', "a POST of $length bytes whose connection is closed: an error");
		is($hostile->count('/accounts') - $before, 1, '... and it is sent once');
	}
}

# ---- malformed answers

faults($dvsim, { path => 'accounts', action => 'garble' });
like($session->try(get('accounts?$top=1'))->{sqlstate} // '', qr/^(22P02|HV|22)/, 'a garbled answer is an error');
faults($dvsim, { path => 'WhoAmI', status => 400, body => '<html>no</html>' });
my $r = $session->try(get('WhoAmI'));
like($r->{message}, qr/could not carry out GET WhoAmI on server "crm": the service answered with HTTP status 400/, 'HTML is not quoted as a message');

# ---- redirects are not followed, because the token would be sent to another host

{
	my $trap = IO::Socket::INET->new(Listen => 4, LocalAddr => '127.0.0.1') or die $!;

	faults($dvsim, { path => 'WhoAmI', status => 302,
			headers => { Location => 'http://127.0.0.1:' . $trap->sockport . '/' } });
	$r = $session->try(get('WhoAmI'));
	ok(!IO::Select->new($trap)->can_read(0.2), 'a redirect is not followed');
	is($r->{sqlstate}, 'HV000', 'it is an error')
	  or diag 'answer: ', $r->{rows}[0][0] // 'NULL';
	like($r->{hint}, qr/option "url"/, 'with a hint');

	# paths must not lead to another host, either
	$r = $session->try(get('http://127.0.0.1:' . $trap->sockport . '/x'));
	like($r->{message}, qr/does not lead to the host/, 'and a path cannot lead to another host');
	ok(!IO::Select->new($trap)->can_read(0), 'nothing is sent to it');
}

# ---- a connection that the service has closed in the meantime

{
	my ($host) = $dvsim->base =~ m{^http://(.*)};

	$session->query(get('WhoAmI'));
	$dvsim->stop;
	$dvsim = Dvsim->start('--listen', $host, '--web-servers', 4);
	$r = $session->try(q{SELECT dataverse.request('crm', 'POST', 'accounts', '{"name": "reopened"}')});
	is($r->{sqlstate}, undef, 'dvsim was restarted: a POST opens a new connection and requests a new token')
	  or diag $r->{message};
	is(accounts('reopened'), 1, 'and arrives once');
}

# ---- at most "max_retries" retries, after half a second, a second, two, …; up to half of each pause is random

{
	my $since = mark();
	my $r;

	create_server($node, 'patient', { url => $dvsim->base, budget_pacing => 'off', max_retries => 3 }, \%app1);
	faults($dvsim, { path => 'WhoAmI', status => 502, times => 0 });
	$r = $session->try("SELECT dataverse.request('patient', 'GET', 'WhoAmI')");
	is($r->{sqlstate}, '08006', '502 repeatedly: finally an error');
	is(statuses($since), join(' ', ('GET 502') x 4), 'max_retries 3: four attempts');
	cmp_ok($r->{seconds}, '>=', 1.75, sprintf 'with pauses that grow (%.1f s)', $r->{seconds});
	cmp_ok($r->{seconds}, '<', 3.5 + 1.5, 'and not too long');
	clear_faults($dvsim);
}

# ---- cookies

{
	my ($next) = sent($dvsim, 0);
	my @requests;

	$session->query(get('WhoAmI')) for 1 .. 4;
	($next, @requests) = sent($dvsim, $next);
	is(scalar(grep { $_->{headers}{Cookie} } @requests), 0, 'no cookies');
	$session->query(q{ALTER SERVER crm OPTIONS (ADD affinity_cookie 'on')});
	$session->query(get('WhoAmI'));
	($next) = sent($dvsim, 0);
	$session->query(get('WhoAmI')) for 1 .. 4;
	($next, @requests) = sent($dvsim, $next);
	my %cookies = map { ($_->{headers}{Cookie} // 'none') => 1 } @requests;
	like(join(',', keys %cookies), qr/^[^,]*ARRAffinity=\w+[^,]*$/, 'affinity_cookie: always the same');
}

$session->close;
$node->stop;
done_testing();
