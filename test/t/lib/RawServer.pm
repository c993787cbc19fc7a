# RawServer.pm
#		A server that answers with any bytes, for answers that dvsim would never
#		send.
#
#	my $server = RawServer->start(sub {
#		my ($method, $target, $head, $body) = @_;
#		return RawServer::answer(200, 'application/json', '{}');
#	});
#	$server->base;				# http://127.0.0.1:…
#	my @heads = $server->heads;	# of all requests so far, as they came
#
# The function runs in another process, which serves one connection after the other.
#
# SPDX-License-Identifier: PostgreSQL

package RawServer;

use strict;
use warnings;

use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::INET;
use POSIX ();

my $owner = $$;
my %running;

sub start
{
	my ($class, $function) = @_;
	my $dir = tempdir('raw-XXXXXX', TMPDIR => 1, CLEANUP => 1);
	my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', ReuseAddr => 1)
	  or die "listen: $!";
	my $self = bless {
		base => 'http://127.0.0.1:' . $listener->sockport,
		log => "$dir/log" }, $class;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		$SIG{TERM} = 'DEFAULT';
		$SIG{PIPE} = 'IGNORE';
		eval { $self->serve($listener, $function) };
		syswrite STDERR, "RawServer: $@";
		POSIX::_exit(1);
	}
	$self->{pid} = $pid;
	$running{$pid} = 1;
	return $self;
}

sub base { return $_[0]{base}; }

# Returns the request lines and headers of all requests, and the text after them.
sub heads
{
	my ($self) = @_;

	open my $in, '<:raw', $self->{log} or return;
	local $/;
	return split /\0\0\n/, readline $in;
}

# Returns a complete answer; further headers may follow the body.
sub answer
{
	my ($status, $type, $body, @headers) = @_;
	return join("\r\n", "HTTP/1.1 $status Status", "Content-Type: $type",
		'Content-Length: ' . length($body), @headers) . "\r\n\r\n$body";
}

sub serve
{
	my ($self, $listener, $function) = @_;
	my $select = IO::Select->new($listener);
	my %input;

	open my $log, '>>:raw', $self->{log} or die "$self->{log}: $!";
	$log->autoflush(1);
	while (1)
	{
		for my $socket ($select->can_read)
		{
			if ($socket == $listener)
			{
				$select->add(scalar $listener->accept);
				next;
			}
			$input{$socket} //= '';
			if (!sysread $socket, $input{$socket}, 65536, length $input{$socket})
			{
				$select->remove($socket);
				delete $input{$socket};
				close $socket;
				next;
			}
			while ($input{$socket} =~ /\A(.*?\r\n)\r\n/s)
			{
				my $head = $1;
				my ($length) = $head =~ /^Content-Length: (\d+)/mi;
				my $whole = length($head) + 2 + ($length // 0);

				last if length $input{$socket} < $whole;
				my $request = substr $input{$socket}, 0, $whole, '';
				my $body = substr $request, length($head) + 2;
				my ($method, $target) = $head =~ /\A(\S+) (\S+)/;

				print {$log} "$request\0\0\n";
				my $answer = $function->($method, $target, $head, $body);
				while (length $answer)
				{
					my $n = syswrite $socket, $answer or last;
					substr $answer, 0, $n, '';
				}
			}
		}
	}
	return;
}

END
{
	if ($$ == $owner)
	{
		my $status = $?;

		for my $pid (keys %running)
		{
			kill 'TERM', $pid;
			waitpid $pid, 0;
		}
		$? = $status;
	}
}

1;
