# 011_cancel.pl
#		Whatever a session waits for, cancel, statement_timeout and termination
#		act within 200 ms and leave nothing behind.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use File::Temp qw(tempdir);
use IO::Socket::INET;
use POSIX ();
use Socket ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;

use constant LIMIT => 200;    # ms
use constant PSQL => 500;     # to start two psql on a busy machine

my $crm = Crm->start('cancel', users => 1);
my @children;

END { kill 'KILL', @children; }

# A server that accepts, says something, and then nothing more.
sub silent_server
{
	my ($says) = @_;
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, Proto => 'tcp')
	  or die $!;
	my $port = $listener->sockport;
	my $pid = fork // die $!;

	if ($pid == 0)
	{
		my @open;

		while (my $client = $listener->accept)
		{
			if ($says)
			{
				sysread $client, my $request, 65536;
				syswrite $client, $says;
			}
			push @open, $client;
		}
		POSIX::_exit(0);
	}
	push @children, $pid;
	return $port;
}

# A port whose queue of connections is full: one more is not answered.
my $full = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1, Proto => 'tcp') or die $!;
my @queued;
for (1 .. 8)
{
	my $s = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0) or die $!;
	connect $s, Socket::pack_sockaddr_in($full->sockport, Socket::inet_aton('127.0.0.1'));
	push @queued, $s;
}
sleep 0.2;

my $tls = silent_server('');
my $mute = silent_server('');
my $half = silent_server(
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"value\":");

$crm->server('connecting', base => 'http://127.0.0.1:' . $full->sockport, mapping => "access_token 'x'");
$crm->server('tls', base => "https://127.0.0.1:$tls", mapping => "access_token 'x'");
$crm->server('first_byte', base => "http://127.0.0.1:$mute", mapping => "access_token 'x'");
$crm->server('body', base => "http://127.0.0.1:$half", mapping => "access_token 'x'");
$crm->server('token', token_url => "http://127.0.0.1:$mute/token");
$crm->server('slot', mapping => "client_id 'app1', client_secret 'secret1', name 'slot'",
	options => { max_parallel => 1 });
$crm->server('throttled');
$crm->server('backoff');

my %measured;

sub measure
{
	my ($state, $server) = @_;
	my ($ms, $err) = $crm->time_of(
		"SET statement_timeout = 300; SELECT dataverse.whoami('$server')");

	like($err, qr/canceling statement due to statement timeout/, "$state: the statement ends");
	cmp_ok($ms, '>=', 295, "$state: not before its time");
	cmp_ok($ms - 300, '<', LIMIT, "$state: within 200 ms");
	$measured{$state} = $ms - 300;

	my $h = $crm->background("SELECT dataverse.whoami('$server')", "c_$state");
	sleep 0.3;
	my $start = time;
	$crm->sql("SELECT pg_cancel_backend($h->{pid})");
	like($crm->finish($h), qr/canceling statement due to user request/, "$state: cancel");
	cmp_ok((time - $start) * 1000, '<', LIMIT + PSQL, "$state: at once");

	$h = $crm->background("SELECT dataverse.whoami('$server')", "t_$state");
	sleep 0.3;
	$start = time;
	is($crm->sql("SELECT pg_terminate_backend($h->{pid}, 5000)"), 't', "$state: terminate");
	cmp_ok((time - $start) * 1000, '<', LIMIT + PSQL, "$state: at once");
	$crm->finish($h);
	return;
}

measure('connecting', 'connecting');
measure('TLS', 'tls');
measure('first byte', 'first_byte');
measure('body', 'body');
measure('token', 'token');
$crm->idle_ok('after any of them');

$crm->sql("SELECT dataverse.whoami('slot')");
$crm->fault(action => 'stall', path => 'WhoAmI', times => 1);
my $holder = $crm->background("SELECT dataverse.whoami('slot')", 'holder');
ok($crm->node->poll_query_until('postgres', 'SELECT sum(in_flight) = 1 FROM dataverse.pool'),
	'the only slot is taken');
measure('slot', 'slot');
$crm->sql("SELECT pg_cancel_backend($holder->{pid})");
$crm->finish($holder);
$crm->no_faults;
$crm->idle_ok('in the end');

$crm->fault(action => 'status', path => 'WhoAmI', status => 503, times => 1000);
measure('backoff', 'backoff');
$crm->no_faults;

$crm->throttle(100);
measure('throttle', 'throttled');
$crm->sql("SELECT dataverse.reset_pool('throttled')");
like($crm->sql("SELECT dataverse.whoami('crm')"), qr/app1/, 'the pool works as before');

# ---- the body of an answer that trickles

$crm->fault(action => 'truncate', path => 'WhoAmI', bytes => 10, delay_ms => 60000, times => 10);
measure('delayed', 'crm');
$crm->no_faults;
$crm->idle_ok('after all');

# ---- a dead name server: its own network, in which nothing answers on port 53

SKIP:
{
	my $dir = tempdir(CLEANUP => 1);
	my @unshare = ('unshare', '-Umn', '--map-current-user', '--keep-caps', 'sh', '-c');
	my $prepare = "ip link set lo up && mount --bind $dir/resolv.conf /etc/resolv.conf";

	append_to_file("$dir/resolv.conf", "nameserver 127.0.0.1\noptions timeout:5 attempts:3\n");
	append_to_file("$dir/sink.pl", <<'SINK');
use IO::Socket::INET;
use POSIX ();
use Socket ();
my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 53, Proto => 'udp') or die $!;
my $parent = getppid;
sleep 1 while getppid == $parent;    # until the postmaster has ended
SINK
	skip 'no namespaces for a dead name server', 8
	  if system(qq{@unshare '$prepare && perl -e "use IO::Socket::INET; IO::Socket::INET->new(LocalAddr => q{127.0.0.1}, LocalPort => 53, Proto => q{udp}) or exit 1"' >/dev/null 2>&1}) != 0;

	$crm->server('dns', base => 'https://contoso.crm.dynamics.com', mapping => "access_token 'x'");
	$crm->node->stop;
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		exec @unshare, "$prepare && (perl $dir/sink.pl & sleep 0.5; exec postgres -D "
		  . $crm->node->data_dir . " >>" . $crm->node->logfile . " 2>&1)";
	}
	ok($crm->node->poll_query_until('postgres', 'SELECT true'), 'a cluster without a name server');
	measure('name', 'dns');
	system('pg_ctl', 'stop', '-D', $crm->node->data_dir, '-m', 'fast', '-s');
	waitpid $pid, 0;
	$crm->node->start;
}

note sprintf 'statement_timeout was late by, in ms: %s',
  join ', ', map { sprintf '%s %.1f', $_, $measured{$_} } sort keys %measured;

$crm->stop;
done_testing();
