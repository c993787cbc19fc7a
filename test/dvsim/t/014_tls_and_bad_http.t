# 014_tls_and_bad_http.t
#		HTTPS, and clients that violate HTTP: malformed heads, bodies that are
#		too long or too short, slow clients, many at once.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;
use Time::HiRes qw(sleep);

# ---------------------------------------------------------------- HTTPS

my $tls = Dvsim->start('--tls');
like($tls->base, qr{^https://127\.0\.0\.1:\d+$}, 'base URL');
like($tls->ca_file, qr{^/}, 'the CA file has an absolute path');
ok(-s $tls->ca_file, 'and exists');
like(Dvsim::slurp($tls->ca_file), qr/BEGIN CERTIFICATE/, 'a PEM file');
my $r = $tls->get('WhoAmI');
is($r->status, 200, 'verified with the CA file');
is($r->header('Strict-Transport-Security'), 'max-age=31536000; includeSubDomains', 'HSTS');
like($r->json->{'@odata.context'}, qr{^https://127\.0\.0\.1:}, 'URLs are https');
my ($port) = $tls->base =~ /:(\d+)$/;
my $other = Dvsim->start('--tls');
for my $case (
	[ 0, $tls->ca_file, 'the certificate is for localhost too' ],
	[ 60, $other->ca_file, 'another CA does not verify it' ])
{
	my ($status, $ca_file, $name) = @$case;
	my @curl = ('curl', '-q', '-s', '--noproxy', '*', '-o', '/dev/null', '--cacert', $ca_file);
	system(@curl, "https://localhost:$port/_dvsim/clock");
	is($? >> 8, $status, $name);
}
my $big = 'x' x 3_000_000;
is($tls->post('accounts', "{\"name\":\"$big\"}")->status, 400, 'a large body over TLS');
$tls->control('POST', '/_dvsim/seed?table=account&rows=3000');
my $page = $tls->get('accounts?$select=name,accountnumber');
is(scalar @{ $page->json->{value} }, 3000, 'a large page over TLS');
for my $action (qw(reset_before_commit reset_after_commit truncate stall))
{
	$tls->control('POST', '/_dvsim/faults', [ { action => $action } ]);
	my $pending = $tls->spawn('GET', 'WhoAmI');
	if ($action eq 'stall')
	{
		sleep 0.2;
		kill 'KILL', $pending->{pid};
	}
	ok($pending->result->curl != 0 || $pending->result->status == 0, "$action over TLS");
}
{
	my $plain = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port", Timeout => 10);
	print {$plain} "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	local $/;
	readline $plain;
	close $plain;
}
is($tls->get('WhoAmI')->status, 200, 'plain HTTP to the TLS port does no harm');
my $ca = $tls->ca_file;
ok($tls->stop, 'ends cleanly');
ok(!-e $ca, 'the CA file is removed');

# ---------------------------------------------------------------- malformed HTTP

my $s = Dvsim->start();
my $token = $s->token('app1', 'secret1');
my $auth = "Host: x\r\nAuthorization: Bearer $token\r\n";
my $get = "GET /api/data/v9.2/WhoAmI HTTP/1.1\r\n$auth";
my $close = "Connection: close\r\n\r\n";

sub alive { return $s->get('WhoAmI')->status; }
sub status_of { return $_[0] =~ m{^HTTP/1\.[01] (\d+)} ? $1 : 0; }

like($s->raw("$get$close"), qr{^HTTP/1.1 200 }, 'raw sockets work');
like($s->raw("GET /api/data/v9.2/WhoAmI HTTP/1.0\r\n$auth\r\n"), qr{^HTTP/1.[01] 200 }, 'HTTP/1.0');
like($s->raw("GET http://x/api/data/v9.2/WhoAmI HTTP/1.1\r\n$auth$close"), qr{^HTTP/1.1 200 },
	'absolute target');
my @pipelined = $s->raw("$get\r\n$get\r\n$get$close") =~ m{HTTP/1.1 200 }g;
is(scalar @pipelined, 3, 'pipelined requests');
for my $case (
	[ 'a b"<', qr{"http://127\.0\.0\.1:\d+/api}, 'an impossible Host is not repeated' ],
	[ 'org.test:8', qr{"http://org\.test:8/api}, 'a possible one is' ])
{
	like($s->raw("GET /api/data/v9.2/WhoAmI HTTP/1.1\r\nHost: $case->[0]\r\n"
			  . "Authorization: Bearer $token\r\n$close"), $case->[1], $case->[2]);
}

my $post = "POST /api/data/v9.2/accounts HTTP/1.1\r\n${auth}Content-Type: application/json\r\n";
my $chunked = "${post}Transfer-Encoding: chunked\r\n";
for my $case (
	[ 'no HTTP', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . "\xff" x 100 . "\r\n\r\n" ],
	[ 'nothing but a line end', "\r\n\r\n" ],
	[ 'no version', "GET /api/data/v9.2/WhoAmI\r\n\r\n" ],
	[ 'odd version', "GET / HTTP/9.9\r\n\r\n" ],
	[ 'no target', "GET\r\n\r\n" ],
	[ 'header without colon', "GET / HTTP/1.1\r\nHost x\r\n\r\n" ],
	[ 'NUL in a header', "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n" ],
	[ 'bad length', "${post}Content-Length: abc\r\n\r\n{}" ],
	[ 'negative length', "${post}Content-Length: -5\r\n\r\n{}" ],
	[ 'huge length', "${post}Content-Length: 99999999999999999999\r\n\r\n{}" ],
	[ 'bad chunk', "$chunked\r\nzz\r\n{}\r\n0\r\n\r\n" ],
	[ 'huge chunk', "$chunked\r\nffffffffffffffffff\r\n{}" ],
	[ 'head too large', "GET / HTTP/1.1\r\nX: " . 'y' x 300_000 . "\r\n\r\n" ],
	[ 'too many headers', "GET / HTTP/1.1\r\n" . 'A: b' . "\r\nA: b" x 30_000 . "\r\n\r\n" ],
	[ 'target too large', 'GET /' . 'z' x 300_000 . " HTTP/1.1\r\n\r\n" ],
	[ 'broken escapes', "GET /api/%/data/%zz HTTP/1.1\r\n$auth\r\n" ],
	[ 'a control character', "GET /\x01\x7f HTTP/1.1\r\n$auth\r\n" ])
{
	my ($name, $bytes) = @$case;
	my $status = status_of($s->raw($bytes, 0.5));
	ok($status == 0 || $status >= 400, "$name: refused ($status)");
	is(alive(), 200, "$name: dvsim survives");
}

# ---------------------------------------------------------------- bodies

like($s->raw("$chunked${close}7\r\n{\"name\"\r\n5\r\n:\"c\"}\r\n0\r\n\r\n"),
	qr{^HTTP/1.1 204 }, 'chunked body');
like($s->raw("${post}Expect: 100-continue\r\nContent-Length: 12\r\n$close\{\"name\":\"e\"}"),
	# the body has arrived already: libmicrohttpd 1.0 then omits the interim answer
	qr{^(?:HTTP/1.1 100 .*)?HTTP/1.1 204 }s, 'Expect: 100-continue');

my $rows = sub { return $s->control('GET', '/_dvsim/stats')->json->{tables}{account}; };
my $before = $rows->();
{
	my $socket = $s->socket;
	print {$socket} "${post}Content-Length: 100\r\n\r\n{\"name\":\"short\"}";
	$socket->flush;
	sleep 0.05;
	close $socket;
}
is(alive(), 200, 'a client that disconnects in the middle of its body');
is($rows->(), $before, 'has written nothing');
{
	my $socket = $s->socket;
	my $slow = "${post}Content-Length: 15\r\nConnection: close\r\n\r\n{\"name\":\"slow\"}";
	for my $byte (split //, $slow)
	{
		print {$socket} $byte;
		$socket->flush;
		sleep 0.001;
	}
	local $/;
	like(readline $socket, qr{^HTTP/1.1 204 }, 'a client that sends byte by byte');
}
is(status_of($s->raw("${post}Content-Length: 2000000000\r\n\r\n{", 2)), 413, 'far too large');
like($s->raw("${post}Content-Length: 2000000000\r\n\r\n{", 2), qr/0x8004418a/, 'with a code');

SKIP:
{
	skip 'needs 140 MB of disk: set DVSIM_LARGE=1', 3 unless $ENV{DVSIM_LARGE};
	$r = $s->post('accounts', '{"name":"' . 'x' x (128 << 20) . '"}');
	is($r->status, 413, 'over 128 MB: 413');
	is($r->error_code, '0x8004418a', 'code');
	is(alive(), 200, 'dvsim survives');
}

# ---------------------------------------------------------------- many clients

my @sockets = map { $s->socket } 1 .. 300;
for my $socket (@sockets)
{
	print {$socket} "$get\r\n";
	$socket->flush;
}
my $served = 0;
for my $socket (@sockets)
{
	sysread $socket, my $answer, 4096;
	$served++ if defined $answer && $answer =~ m{^HTTP/1.1 200 };
}
is($served, 300, '300 connections at once');
$s->control('POST', '/_dvsim/faults', [ { action => 'stall', times => 0 } ]);
for my $socket (@sockets)
{
	print {$socket} "$get\r\n";
	$socket->flush;
}
sleep 0.1;
close $_ for @sockets[ 0 .. 149 ];
$s->control('DELETE', '/_dvsim/faults');
is(alive(), 200, 'stalled connections do not block others');
ok($s->stop, 'ends cleanly with 150 connections stalled');

done_testing;
