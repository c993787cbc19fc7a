# Session.pm
#		A session with a cluster, for statements that run in the background.
#
# It implements PostgreSQL's protocol itself, so a test can start a statement, do
# something else, and find out to the millisecond when and how the statement
# ended.  It needs no process for each session, and only core modules of Perl.
# Synopsis:
#
#	my $s = Session->new($node);
#	is($s->value('SELECT 1'), 1);
#	$s->start('SELECT pg_sleep(10)');		# does not wait
#	kill 'INT', $s->pid;
#	my $r = $s->finish;						# waits
#	is($r->{sqlstate}, '57014');
#	note "$r->{seconds} s";
#
#	$s->start('COPY t FROM STDIN');
#	$s->copy("1\tone\n");					# as often as is liked, with pauses
#	$s->copy_end;
#	is($s->finish->{tag}, 'COPY 1');
#
# A result has rows (arrays of texts), tag, seconds, and ended_at; if the statement
# failed, sqlstate, message, detail, hint, and context; notices (an array of
# hashes with the same members); and gone, if the connection was lost.
#
# SPDX-License-Identifier: PostgreSQL

package Session;

use strict;
use warnings;

use Carp qw(croak);
use IO::Select;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

use constant PATIENCE => 120;

my %fields = (C => 'sqlstate', M => 'message', D => 'detail', H => 'hint', W => 'context');

# options: dbname, user, options (as in PGOPTIONS)
sub new
{
	my ($class, $node, %option) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	my $socket = IO::Socket::UNIX->new(Peer => $path) // croak "$path: $!";
	my $self = bless { socket => $socket, buffer => '' }, $class;
	my %startup = (
		user => $option{user} // $ENV{PGUSER} // scalar getpwuid($<),
		database => $option{dbname} // 'postgres');

	$startup{options} = $option{options} if $option{options};
	$socket->blocking(0);
	my $packet = pack('N', 196608) . join('', map { "$_\0$startup{$_}\0" } sort keys %startup) . "\0";
	$self->put(pack('N', length($packet) + 4) . $packet);
	$self->begin;
	my $result = $self->finish;
	# a server that is restarting may close the connection without a message
	croak 'no session: ' . ($result->{message} // 'connection lost')
	  if defined $result->{sqlstate} || $result->{gone};
	return $self;
}

sub pid { return $_[0]{pid}; }

# Starts a statement (or several, separated by semicolons).
sub start
{
	my ($self, $sql) = @_;

	croak 'a statement is still running' if $self->{result};
	$self->begin;
	$self->send_message('Q', "$sql\0");
	return $self;
}

# Returns true if the statement has ended.  Waits at most "patience" seconds, by default not at
# all.
sub done
{
	my ($self, $patience) = @_;
	my $until = time + ($patience // 0);

	while (!$self->{complete})
	{
		my $left = $until - time;

		last unless $self->receive($left > 0 ? $left : 0);
	}
	return $self->{complete};
}

# Waits for the statement and returns its result.
sub finish
{
	my ($self, $patience) = @_;

	$patience //= PATIENCE;
	$self->done($patience) or croak "a statement did not end within $patience s";
	return delete $self->{result};
}

# Runs a statement and returns its result, even if it fails.
sub try
{
	my ($self, $sql) = @_;
	return $self->start($sql)->finish;
}

# Runs a statement; returns the rows as psql -At would print them, or dies if it fails.
sub query
{
	my ($self, $sql) = @_;
	my $r = $self->try($sql);

	croak "$sql: " . ($r->{sqlstate} // '') . ' ' . ($r->{message} // 'connection lost')
	  if defined $r->{sqlstate} || $r->{gone};
	return join "\n", map { join '|', map { $_ // '' } @$_ } @{ $r->{rows} };
}

# Runs a statement; returns the first column of the first row, or dies if it fails.
sub value
{
	my ($self, $sql) = @_;
	my $r = $self->try($sql);

	croak "$sql: " . ($r->{sqlstate} // '') . ' ' . ($r->{message} // 'connection lost')
	  if defined $r->{sqlstate} || $r->{gone};
	return $r->{rows}[0][0];
}

# Ends the session normally.
sub close
{
	my ($self) = @_;
	my $socket = delete $self->{socket} or return;

	local $SIG{PIPE} = 'IGNORE';
	syswrite $socket, pack('aN', 'X', 4);
	# wait until the backend is gone
	my $select = IO::Select->new($socket);
	my $until = time + 30;
	while (time < $until && $select->can_read($until - time))
	{
		my $n = sysread $socket, my $rest, 65536;
		last if defined $n && $n == 0;
		last if !defined $n && !$!{EAGAIN};
	}
	return;
}

# Sends lines of a COPY FROM STDIN; waits only until the server is ready for them.
sub copy
{
	my ($self, $lines) = @_;
	$self->await_copy;
	return $self->send_message('d', $lines);
}

sub copy_end
{
	my ($self) = @_;
	$self->await_copy;
	return $self->send_message('c', '');
}

# If the COPY has already failed, the server ignores further data.
sub await_copy
{
	my ($self) = @_;
	my $until = time + PATIENCE;

	until ($self->{result}{copies} || $self->{complete})
	{
		croak 'the COPY did not begin' if time > $until;
		$self->receive(1);
	}
	return;
}

# ---------------------------------------------------------------- protocol

sub begin
{
	my ($self) = @_;

	$self->{complete} = 0;
	$self->{result} = { rows => [], notices => [] };
	$self->{began} = time;
	return;
}

sub put
{
	my ($self, $bytes) = @_;
	my $select = IO::Select->new($self->{socket});

	local $SIG{PIPE} = 'IGNORE';
	while (length $bytes)
	{
		my $n = syswrite $self->{socket}, $bytes;

		if (defined $n) { substr($bytes, 0, $n) = ''; next; }
		last unless $!{EAGAIN};
		$select->can_write(10);
	}
	return;
}

sub send_message
{
	my ($self, $type, $body) = @_;
	return $self->put($type . pack('N', length($body) + 4) . $body);
}

# Processes messages of the server, after waiting at most "patience"; false if there were none.
sub receive
{
	my ($self, $patience) = @_;

	return 0 unless IO::Select->new($self->{socket})->can_read($patience);
	my $n = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
	if (!$n)
	{
		return 1 if !defined $n && $!{EAGAIN};
		$self->{result}{gone} = 1;
		$self->complete;
		return 1;
	}
	while (length $self->{buffer} >= 5)
	{
		my ($type, $length) = unpack 'aN', $self->{buffer};

		last if length $self->{buffer} < $length + 1;
		my $message = substr $self->{buffer}, 0, $length + 1, '';
		$self->message($type, substr $message, 5);
	}
	return 1;
}

sub complete
{
	my ($self) = @_;

	$self->{complete} = 1;
	$self->{result}{ended_at} = time;
	$self->{result}{seconds} = time - $self->{began};
	return;
}

sub message
{
	my ($self, $type, $body) = @_;
	my $result = $self->{result};

	if ($type eq 'Z') { $self->complete; }
	elsif ($type eq 'K') { ($self->{pid}) = unpack 'N', $body; }
	elsif ($type eq 'G') { $result->{copies} = 1; }
	elsif ($type eq 'C') { ($result->{tag}) = unpack 'Z*', $body; }
	elsif ($type eq 'D')
	{
		my ($n, $rest) = unpack 'n a*', $body;
		my @row;

		while ($n-- > 0)
		{
			my $length = unpack 'l>', $rest;

			$rest = substr $rest, 4;
			push @row, $length < 0 ? undef : substr $rest, 0, $length, '';
		}
		push @{ $result->{rows} }, \@row;
	}
	elsif ($type eq 'E' || $type eq 'N')
	{
		my %said = map { my ($f, $t) = unpack 'a a*', $_; ($fields{$f} // $f) => $t }
		  grep { length } split /\0/, $body;

		if ($type eq 'E') { %$result = (%$result, %said); }
		else { push @{ $result->{notices} }, \%said; }
	}
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($@, $!, $?);
	$self->{socket}->close if $self->{socket};
	return;
}

1;
