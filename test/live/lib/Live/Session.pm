# Session.pm
#		A persistent psql: takes statements and returns their output and messages.
#
# Statements go through a pipe, so that none of them appears on a command line.
#
# SPDX-License-Identifier: PostgreSQL

package Live::Session;

use strict;
use warnings;

use IO::Select;
use IPC::Open3;
use Symbol qw(gensym);

# conninfo may be empty: then the variables PG… and the defaults of libpq apply.
sub new
{
	my ($class, $conninfo) = @_;
	my $self = bless { conninfo => $conninfo, serial => 0 }, $class;

	$self->connect;
	return $self;
}

sub connect
{
	my ($self) = @_;
	my $err = gensym;
	my %environment = %ENV;

	# explicit settings are not mixed with the variables of the caller
	if (length $self->{conninfo})
	{
		delete @environment{ grep { /^PG/ } keys %environment };
	}
	local %ENV = %environment;
	$self->{pid} = open3(my $in, my $out, $err, 'psql', '-X', '-A', '-t', '-d', $self->{conninfo});
	@{$self}{qw(in out err)} = ($in, $out, $err);
	$in->autoflush(1);
	$self->run("\\set VERBOSITY verbose\n");
	die "cannot connect to PostgreSQL: $self->{last}\n" unless $self->{alive};
	return;
}

sub alive { return $_[0]{alive}; }

# Returns the output and the messages.
sub run
{
	my ($self, $sql) = @_;
	my $mark = "--- end of step " . ++$self->{serial};
	my %text = map { $_ => '' } qw(out err);
	my %name = map { fileno $self->{$_} => $_ } qw(out err);
	my $select = IO::Select->new(@{$self}{qw(out err)});

	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } "$sql\n\\echo $mark\n\\warn $mark\n";
	while ($select->count)
	{
		for my $handle ($select->can_read)
		{
			my $which = $name{ fileno $handle };
			my $got = sysread $handle, $text{$which}, 65536, length $text{$which};

			next if !defined $got && $!{EINTR};
			$select->remove($handle) if !$got || $text{$which} =~ /^\Q$mark\E\n\z/m;
		}
	}
	$self->{alive} = ($text{err} =~ s/^\Q$mark\E\n//mg) ? 1 : 0;
	$text{out} =~ s/^\Q$mark\E\n//mg;
	$self->{last} = $text{err};
	return @text{ 'out', 'err' };
}

# Like run, but without command tags, and dies on an error.
sub must
{
	my ($self, $sql) = @_;
	my ($out, $err) = $self->run("\\set QUIET on\n$sql;\n\\set QUIET off");

	die "$1\n" if $err =~ /^(?:psql: )?((?:error|ERROR|FATAL|PANIC): .*)/m;
	die "the connection to PostgreSQL is gone: $err\n" unless $self->{alive};
	chomp $out;
	return $out;
}

# Cancels the current statement, and ends psql.
sub close
{
	my ($self) = @_;
	my $pid = delete $self->{pid} // return;

	kill 'INT', $pid;
	CORE::close $self->{in};
	for (1 .. 100)
	{
		return if waitpid($pid, 1) == $pid;
		select undef, undef, undef, 0.05;
	}
	kill 'TERM', $pid;
	waitpid $pid, 0;
	return;
}

1;
