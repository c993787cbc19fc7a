# Hostile.pm
#		An HTTP server that sends any bytes.
#
#	my $server = Hostile->start(
#		'/token' => sub { my ($socket, $request) = @_; print {$socket} "HTTP/1.1 200 OK\r\n…"; },
#		'/endless' => …);
#	is($server->count('/token'), 1);
#
# A handler is chosen by the end of the path (without the query).  It writes to the socket; if
# it returns false, the connection is closed.  A request is a hash with method, path, head, and
# body.  Every connection has its own process, so handlers share no variables; "n" is the
# number of requests for that path so far.
#
# SPDX-License-Identifier: PostgreSQL

package Hostile;

use strict;
use warnings;

use File::Temp qw(tempdir);
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

sub start
{
	my ($class, %handlers) = @_;
	my $listener = IO::Socket::INET->new(Listen => 256, LocalAddr => '127.0.0.1') or die $!;
	my $self = bless { handlers => \%handlers, log => tempdir(CLEANUP => 1) . '/log', owner => $$ }, $class;

	$self->{base} = 'http://127.0.0.1:' . $listener->sockport;
	$self->{pid} = fork // die $!;
	return $self if $self->{pid};
	# the END blocks of the test must not run in this process
	setpgrp;
	$SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
	$SIG{CHLD} = 'IGNORE';
	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my $socket = $listener->accept or next;

		setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
		if (!fork)
		{
			$self->serve($socket);
			require POSIX;
			POSIX::_exit(0);
		}
	}
}

sub base { return $_[0]{base}; }

# Returns the heads of the requests for this path.
sub requests
{
	my ($self, $path) = @_;
	open my $log, '<', $self->{log} or return ();
	local $/ = "\0";
	my @heads = map { chomp; $_ } <$log>;
	return grep { /^\S+ [^ ?]*\Q$path\E[ ?]/ } @heads;
}

sub count { my ($self, $path) = @_; return scalar(my @requests = $self->requests($path)); }

# Writes an answer with a body of its length.
sub answer
{
	my ($socket, $status, $body, @headers) = @_;

	return print {$socket} join "\r\n", "HTTP/1.1 $status X", 'Content-Type: application/json',
	  'Content-Length: ' . length $body, @headers, '', $body;
}

sub serve
{
	my ($self, $socket) = @_;
	my $buffer = '';

	while (1)
	{
		until ($buffer =~ /\r\n\r\n/) { sysread $socket, $buffer, 65536, length $buffer or return; }
		my ($head, $rest) = split /\r\n\r\n/, $buffer, 2;
		my ($length) = $head =~ /^Content-Length: (\d+)/mi;

		$length //= 0;
		while (length $rest < $length) { sysread $socket, $rest, 65536, length $rest or return; }
		my ($method, $path) = $head =~ /^(\S+) ([^ ?]*)/;
		my %request = (method => $method, path => $path, head => $head, body => substr $rest, 0, $length, '');
		my ($name) = grep { $path =~ /\Q$_\E$/ } keys %{ $self->{handlers} };

		$buffer = $rest;
		open my $log, '>>', $self->{log} or return;
		syswrite $log, "$head\0";
		close $log;
		$request{n} = $self->count($name // '');
		if (!defined $name) { answer($socket, 404, '{}') }
		elsif (!$self->{handlers}{$name}->($socket, \%request)) { return }
	}
}

sub stop
{
	my ($self) = @_;
	return unless $self->{pid} && $$ == $self->{owner};
	kill 'TERM', -$self->{pid}, $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

sub DESTROY { my ($self) = @_; local ($@, $!, $?); $self->stop; return; }

1;
