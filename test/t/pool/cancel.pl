# cancel.pl
#		Cancel, statement_timeout, and termination take effect at once, whatever
#		a request is waiting for, and release all slots.
#
# A library that makes getaddrinfo() hang is preloaded into PostgreSQL to simulate a name
# server that does not answer.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Socket qw(INADDR_LOOPBACK pack_sockaddr_in);
use Test::More;
use Time::HiRes qw(sleep time);

use PoolTest;
use Dvsim;

# The promise is 200 ms, but the test must not fail on a busy machine.
use constant PROMPT => 1;

my $dvsim = Dvsim->start('--app-user', 'app1:secret1', '--app-user', 'app2:secret2',
	'--app-user', 'app3:secret3');

# ---- a library that simulates an unresponsive name server

my $library = PostgreSQL::Test::Utils::tempdir() . '/dead_name_server.so';
my $source = $library =~ s/so$/c/r;
append_to_file(
	$source, q{
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
		(int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **)) dlsym(RTLD_NEXT, "getaddrinfo");
	if (node != NULL && strcmp(node, "dead.example.com") == 0)
	{
		sleep(60);
		return EAI_AGAIN;
	}
	return real(node, service, hints, res);
}
});
my $compiler = $ENV{CC} // 'cc';
my $has_library = $^O eq 'linux'
  && system("$compiler -shared -fPIC -o $library $source -ldl >/dev/null 2>&1") == 0;

my $node;
{
	local $ENV{LD_PRELOAD} = $has_library ? $library : '';
	$node = new_node('cancel', preload => 1, conf => "log_statement = none\n");
}
my $watcher = Session->new($node);

# ---- misbehaving peers

# If no process accepts connections on a socket, its backlog soon fills, and connects hang.
sub full_socket
{
	my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  or die "listen: $!";
	my @clients;

	listen $listener, 0;
	for (1 .. 8)
	{
		my $client = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0);

		connect $client, pack_sockaddr_in($listener->sockport, INADDR_LOOPBACK);
		push @clients, $client;
		sleep 0.02;
	}
	return ($listener, @clients);
}

# True if a connection to that port is being established (SYN_SENT).
sub connecting
{
	my ($port) = @_;
	my $hex = sprintf '%04X', $port;
	my $sockets = slurp_file('/proc/net/tcp');

	# sockets in state SYN_SENT whose peer is this port of the loopback address
	return scalar(() = $sockets =~ /^\s*\d+: \S+ 0100007F:$hex 02 /mg);
}

sub silent_socket
{
	return IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  // die "listen: $!";
}

sub threads { my @threads = glob "/proc/$_[0]/task/*"; return scalar @threads; }

# Reads the head of a request.
sub read_head
{
	my ($peer) = @_;
	my $head = '';

	while ($head !~ /\r\n\r\n/)
	{
		IO::Select->new($peer)->can_read(PATIENCE) or die 'no request came';
		sysread $peer, $head, 65536, length $head or die 'the request ended';
	}
	return $head;
}

# ---- the states: each has a server, and a test whether a backend is in it

my ($full, @full_clients) = full_socket();
my $already_connecting = $^O eq 'linux' ? connecting($full->sockport) : 0;
my $silent = silent_socket();
my $half = silent_socket();
my ($silent_peer, $half_peer);
my $holder = Session->new($node);

my @states = (
	{
		name => 'connecting',
		skip => $^O ne 'linux',
		options => { url => 'http://127.0.0.1:' . $full->sockport },
		mapping => { access_token => 'x' },
		is_in => sub {
			wait_for(sub { connecting($full->sockport) > $already_connecting }, 'it is connecting');
			wait_event($watcher, $_[0]->pid, 'DataverseConnect');
		},
	},
	{
		name => 'resolving the host name',
		skip => !$has_library,
		options => { url => 'https://dead.example.com' },
		mapping => { access_token => 'x' },
		is_in => sub { my ($s) = @_; wait_for(sub { threads($s->pid) > 1 }, 'a thread is resolving'); },
	},
	{
		name => 'in the TLS handshake',
		options => { url => 'https://127.0.0.1:' . $silent->sockport },
		mapping => { access_token => 'x' },
		is_in => sub {
			IO::Select->new($silent)->can_read(PATIENCE) or die 'nobody connects';
			$silent_peer = $silent->accept;
			IO::Select->new($silent_peer)->can_read(PATIENCE) or die 'no ClientHello';
		},
	},
	{
		name => 'waiting for a token',
		options => { url => $dvsim->base, token_url => 'http://127.0.0.1:' . $silent->sockport . '/token' },
		mapping => { client_id => 'app1', client_secret => 'secret1' },
		is_in => sub {
			my ($s) = @_;
			IO::Select->new($silent)->can_read(PATIENCE) or die 'nobody connects';
			$silent_peer = $silent->accept;
			read_head($silent_peer);
			wait_event($watcher, $s->pid, 'DataverseToken');
		},
	},
	{
		name => 'waiting for the first byte',
		options => { url => $dvsim->base },
		mapping => { client_id => 'app1', client_secret => 'secret1' },
		before => sub { faults($dvsim, { path => 'WhoAmI', action => 'stall' }) },
		is_in => sub { my ($s) = @_; wait_for(sub { hits($dvsim) == 1 }, 'a request hangs') },
		after => sub { clear_faults($dvsim) },
	},
	{
		name => 'in the middle of the body',
		options => { url => 'http://127.0.0.1:' . $half->sockport },
		mapping => { access_token => 'x' },
		is_in => sub {
			my ($s) = @_;
			IO::Select->new($half)->can_read(PATIENCE) or die 'nobody connects';
			$half_peer = $half->accept;
			read_head($half_peer);
			syswrite $half_peer,
			  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"half\":";
			# wait until the backend has read it
			wait_for(sub { unread($half_peer) == 0 }, 'half of the body is read');
			wait_event($watcher, $s->pid, 'DataverseResponse');
		},
	},
	{
		name => 'waiting for a slot',
		options => { url => $dvsim->base, max_parallel => 1 },
		mapping => { client_id => 'app2', client_secret => 'secret2' },
		before => sub {
			my ($crm) = @_;
			faults($dvsim, { path => 'WhoAmI', action => 'stall' });
			$holder->start("SELECT dataverse.whoami('$crm')");
			wait_for(sub { hits($dvsim) == 1 }, 'a request hangs');
		},
		is_in => sub { my ($s) = @_; wait_event($watcher, $s->pid, 'DataverseSlot') },
		after => sub {
			$watcher->value('SELECT pg_cancel_backend(' . $holder->pid . ')');
			$holder->finish;
			clear_faults($dvsim);
		},
	},
	{
		name => 'waiting out a throttle',
		options => { url => $dvsim->base },
		mapping => { client_id => 'app3', client_secret => 'secret3' },
		before => sub { faults($dvsim, { path => 'WhoAmI', retry_after => 600 }) },
		is_in => sub {
			my ($s) = @_;
			wait_for(sub { $watcher->value("SELECT count(*) FROM dataverse.pool WHERE throttled") == 1 },
				'the throttle arrives');
			wait_event($watcher, $s->pid, 'DataverseThrottle');
		},
		after => sub {
			my ($crm) = @_;
			clear_faults($dvsim);
			$watcher->value("SELECT dataverse.reset_pool('$crm')");
		},
	},
	{
		name => 'in a backoff',
		options => { url => $dvsim->base },
		mapping => { client_id => 'app1', client_secret => 'secret1' },
		before => sub {
			faults($dvsim, { path => 'WhoAmI', status => 502, times => 0, retry_after => 60 });
		},
		is_in => sub { my ($s) = @_; wait_for(sub { hits($dvsim) == 1 }, 'the error arrives');
			wait_event($watcher, $s->pid, 'DataverseBackoff') },
		after => sub { clear_faults($dvsim) },
	},
);

# Returns the number of bytes that the peer has not read yet (in our send queue).
sub unread
{
	my ($socket) = @_;
	my $queued = pack 'i', 0;

	# SIOCOUTQ: bytes that the other side has not acknowledged
	return 0 unless $^O eq 'linux' && defined ioctl $socket, 0x5411, $queued;
	return unpack 'i', $queued;
}

my %how = (
	cancel => {
		sqlstate => '57014',
		act => sub { $watcher->value('SELECT pg_cancel_backend(' . $_[0]->pid . ')') },
	},
	terminate => {
		sqlstate => '57P01',
		act => sub { $watcher->value('SELECT pg_terminate_backend(' . $_[0]->pid . ')') },
	},
	timeout => { sqlstate => '57014' },
);

my %measured;
my $serial = 0;

for my $state (@states)
{
  SKIP:
	{
		skip "$state->{name}: not here", 14 if $state->{skip};
		my $crm = 'crm' . ++$serial;

		create_server($node, $crm, { connect_timeout => '300s', request_timeout => '300s', %{ $state->{options} } },
			$state->{mapping});
		for my $way (sort keys %how)
		{
			my $session = Session->new($node);
			my $pid = $session->pid;
			my ($result, $at);

			$state->{before}->($crm) if $state->{before};
			# long enough to reach the state, but short enough for the test
			$session->query("SET statement_timeout = '1500ms'") if $way eq 'timeout';
			$session->start("SELECT dataverse.whoami('$crm')");
			$at = time + 1.5;
			$state->{is_in}->($session);
			if ($how{$way}{act})
			{
				ok(!$session->done, "$state->{name}: it waits");
				$at = time;
				$how{$way}{act}->($session);
			}
			$result = $session->finish;
			my $latency = $result->{ended_at} - $at;
			is($result->{sqlstate}, $how{$way}{sqlstate}, "$state->{name}: $way")
			  or diag $result->{message};
			cmp_ok($latency, '<', PROMPT, sprintf '%s: %s within %.0f ms', $state->{name}, $way, $latency * 1000);
			$measured{ $state->{name} }{$way} = $latency * 1000;
			$state->{after}->($crm) if $state->{after};
			if ($way eq 'terminate')
			{
				wait_for(sub { !kill 0, $pid }, 'the process ends');
				cmp_ok(time - $at, '<', PROMPT + 5, 'and the process is gone');
			}
			else
			{
				is($session->value('SELECT 1'), 1, 'the session survives');
			}
			is(in_flight($watcher), 0, 'no slot is held');
			$session->close;
			undef $silent_peer;
			undef $half_peer;
		}
	}
}

# the users still work
for my $i (5, 7, 8)
{
	is($holder->value("SELECT count(*) FROM dataverse.whoami('crm$i')"), 1, "crm$i answers again")
	  unless $states[ $i - 1 ]{skip};
}

diag sprintf 'cancel latencies, ms: %s', join ', ', map {
	my $name = $_->{name};
	$measured{$name}
	  ? sprintf '%s %.0f/%.0f/%.0f', $name, @{ $measured{$name} }{qw(cancel timeout terminate)}
	  : "$name -"
} @states;

$holder->close;
$watcher->close;
$node->stop;
done_testing();
