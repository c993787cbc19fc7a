# SyncHistory.pm
#		The history of writes to a table on both sides, and the values that are
#		therefore possible in the end.
#
# Time is counted in runs of dataverse.sync(): a write before run N began has time
# N, a write while it ran N + 0.5.  Each statement writes values of its own, so
# that a value identifies the statement that has written it.
#
# A successful run has sent the local writes, and has fetched those of the
# service, that were made before it began; but rows that are written locally while
# it runs are left to the next one.  A failed run may have sent or fetched some of
# them.  Rows that were filed have been decided.
#
# SPDX-License-Identifier: PostgreSQL

package SyncHistory;

use strict;
use warnings;

use POSIX ();

# policy => { column => 'local' or 'service' }, default => the policy of whole rows,
# tracked => whether the service tells which rows were deleted
sub new
{
	my ($class, %arg) = @_;
	return bless { rows => {}, runs => [], %arg }, $class;
}

# Notes the initial rows of both sides.
sub begins_with
{
	my ($self, %rows) = @_;

	$self->{rows}{$_} = { first => $rows{$_}, local => [], service => [] } for keys %rows;
	return;
}

sub row { my ($self, $id) = @_; return $self->{rows}{$id} //= { local => [], service => [] }; }

# Notes that a statement has written these values (insert, update), or deleted the row.
sub wrote
{
	my ($self, $side, $time, $operation, $id, %values) = @_;

	my $row = $self->row($id);

	push @{ $row->{$side} }, { side => $side, time => $time, operation => $operation, values => \%values, row => $row };
	return;
}

# Notes that the service may have changed a row by itself, because it referred to a deleted one.
sub touched { my ($self, $id) = @_; $self->{rows}{$id}{touched} = 1 if $self->{rows}{$id}; return; }

# Notes that a row has been filed, because Dataverse has refused it.
sub filed { my ($self, $id) = @_; $self->row($id)->{decided} = 1; return; }

sub ran { my ($self, $succeeded) = @_; push @{ $self->{runs} }, $succeeded ? 1 : 0; return; }

# Returns the earliest time at which a write may have reached the other side.
sub earliest { my ($write) = @_; return $write->{time} == int $write->{time} ? $write->{time} + 0.25 : $write->{time}; }

# Returns the latest time at which it has: the end of a run that began after it and succeeded.
sub latest
{
	my ($self, $write) = @_;

	# otherwise a comparison finds it, at an unknown time
	return 1e9 if $write->{operation} eq 'delete' && $write->{side} eq 'service' && !$self->{tracked};
	my %busy = map { $_->{time} => 1 } @{ $write->{row}{local} };

	for (my $n = POSIX::ceil($write->{time}); $n < @{ $self->{runs} }; $n++)
	{
		return $n + 0.75 if $self->{runs}[$n] && !$busy{ $n + 0.5 };
	}
	return 1e9;
}

# Returns true if one side may have written without knowing of the other's write.
sub may_conflict
{
	my ($self, $one, $other) = @_;
	return $one->{time} <= $self->latest($other) && $other->{time} <= $self->latest($one);
}

sub must_conflict
{
	my ($self, $one, $other) = @_;
	return $one->{time} < earliest($other) && $other->{time} < earliest($one);
}

# Returns true if a write of this column in the service may have been unknown to a local write.
# For a row that did not exist at first, the values last seen are not known in all columns.
sub may_meet
{
	my ($self, $row, $ours, $column) = @_;
	return 1 if $row->{touched};
	return scalar grep { $self->may_conflict($ours, $_) && (!$row->{first} || exists $_->{values}{$column}) } @{ $row->{service} };
}

sub last_write
{
	my ($row, $side, $column) = @_;
	my @writes = grep { $_->{operation} ne 'delete' && exists $_->{values}{$column} } @{ $row->{$side} };
	return $writes[-1];
}

# Returns the error in a value, or nothing.
sub wrong_value
{
	my ($self, $row, $column, $value) = @_;
	my $ours = last_write($row, 'local', $column);
	my $theirs = last_write($row, 'service', $column);
	my $policy = $self->{policy}{$column};
	my $is = sub { my ($write) = @_; return $write && $write->{values}{$column} eq $value; };
	my @known = map { $_->{values}{$column} } grep { exists $_->{values}{$column} } @{ $row->{local} }, @{ $row->{service} };

	push @known, $row->{first}{$column} if $row->{first};
	return 'no statement has written this' unless grep { $_ eq $value } @known;
	if ($is->($theirs))
	{
		return unless $ours;
		return if $theirs->{time} >= earliest($ours);
		return if $policy eq 'service' && $self->may_meet($row, $ours, $column);
		return 'a local edit is lost';
	}
	if ($is->($ours))
	{
		return unless $theirs;
		return 'a later edit in Dataverse is lost' if $theirs->{time} > $self->latest($ours);
		return if $ours->{time} >= earliest($theirs);
		return if $policy eq 'local';
		# without etags, a write of the service between the check and our write is lost
		return if !$self->{strict} && $theirs->{time} >= earliest($ours);
		return 'an edit in Dataverse is lost';
	}
	return unless $ours || $theirs;
	return 'an edit in Dataverse is lost' if $theirs && !$ours;
	# the values that had been sent before, as the last edit has been dropped
	return if $policy eq 'service' && $self->may_meet($row, $ours, $column);
	return 'a local edit is lost';
}

# Returns why a row must not exist, or must not be missing, or nothing.
sub wrong_existence
{
	my ($self, $row, $exists) = @_;
	my $ours = $row->{local}[-1];
	my $theirs = $row->{service}[-1];
	my %deleted = map { my $side = $_; $side => scalar grep { $_->{operation} eq 'delete' } @{ $row->{$side} } } qw(local service);

	return $exists ? undef : 'a row is missing that no side deleted' unless $deleted{local} || $deleted{service};
	return if $row->{touched} && $deleted{local};
	if ($exists)
	{
		# a deletion was undone: a conflicting write of the other side must exist
		for my $side (qw(local service))
		{
			my $other = $side eq 'local' ? 'service' : 'local';
			for my $delete (grep { $_->{operation} eq 'delete' } @{ $row->{$side} })
			{
				# the side itself has written the row again
				next if grep { $_->{operation} ne 'delete' && $_->{time} >= $delete->{time} && $_ != $delete } @{ $row->{$side} };
				next if grep { $_->{operation} ne 'delete' && $self->may_conflict($delete, $_) } @{ $row->{$other} };
				return $side eq 'local' ? 'a local deletion is lost' : 'a deletion in Dataverse is lost';
			}
		}
		return;
	}
	# writes of the other side that came after the deletion was known must remain
	for my $side (qw(local service))
	{
		my $other = $side eq 'local' ? 'service' : 'local';
		my ($delete) = reverse grep { $_->{operation} eq 'delete' } @{ $row->{$side} };
		next unless $delete;
		my $write = $row->{$other}[-1];
		return if !$write || $write->{operation} eq 'delete' || $write->{time} < earliest($delete);
		return if $self->may_conflict($delete, $write);
	}
	return 'a row that was written after its deletion is gone';
}

# Returns true if the values are not checked: the row was deleted on a side, and a
# conflict may have restored it.
sub was_deleted
{
	my ($row) = @_;
	return scalar grep { $_->{operation} eq 'delete' } @{ $row->{local} }, @{ $row->{service} };
}

# Returns the number of writes that conflicted with an unknown write of the other side.
sub conflicts
{
	my ($self) = @_;
	my $n = 0;

	for my $row (values %{ $self->{rows} })
	{
		for my $ours (@{ $row->{local} }) { $n++ if grep { $self->must_conflict($ours, $_) } @{ $row->{service} }; }
	}
	return $n;
}

# Compares the final rows ({ id => { column => value } }) with the writes;
# returns the errors as sentences.
sub wrong
{
	my ($self, %found) = @_;
	my @wrong;

	for my $id (sort keys %found)
	{
		push @wrong, "$id: nobody has inserted this row" unless $self->{rows}{$id};
	}
	for my $id (grep { !$self->{rows}{$_}{decided} } sort keys %{ $self->{rows} })
	{
		my $row = $self->{rows}{$id};
		my $existence = $self->wrong_existence($row, exists $found{$id});

		push @wrong, "$id: $existence\n" . $self->story($row) if $existence;
		next if $existence || !$found{$id} || was_deleted($row);
		for my $column (sort keys %{ $self->{policy} })
		{
			my $value = $self->wrong_value($row, $column, $found{$id}{$column});
			push @wrong, "$id, $column (policy $self->{policy}{$column}) is \"$found{$id}{$column}\": $value\n" . $self->story($row, $column)
			  if $value;
		}
	}
	return @wrong;
}

# Returns all writes of a row, in order, with the failed runs among them.
sub story
{
	my ($self, $row, $column) = @_;
	my @writes = sort { $a->{time} <=> $b->{time} } @{ $row->{local} }, @{ $row->{service} };
	my @lines;

	push @lines, '      at first: ' . ($row->{first} ? join(', ', map { "$_ = $row->{first}{$_}" } sort keys %{ $row->{first} }) : 'not there');
	for my $write (@writes)
	{
		my $run = POSIX::ceil($write->{time});
		push @lines, sprintf '      %.1f %s %s %s (next run %s, known at %.2f)', $write->{time}, $write->{side}, $write->{operation},
			join(', ', map { "$_ = $write->{values}{$_}" } sort keys %{ $write->{values} }),
			($self->{runs}[$run] // 0) ? 'succeeded' : 'failed', $self->latest($write);
	}
	return join "\n", @lines;
}

1;
