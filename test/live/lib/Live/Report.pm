# Report.pm
#		The results of the check: a line for each step while it runs, and a report
#		with a line for each shape that can be attached to an issue.
#
# SPDX-License-Identifier: PostgreSQL

package Live::Report;

use strict;
use warnings;

use Live::Shapes;

# from good to bad
my %rank = (skipped => 0, ok => 1, differs => 2, failed => 3);

# file => path of the report, secrets => texts, names => pairs of text and replacement
sub new
{
	my ($class, %arg) = @_;
	return bless { %arg, steps => [], head => [] }, $class;
}

# All output goes through this function.
sub scrub
{
	my ($self, $text) = @_;

	$text =~ s/\Q$_\E/<secret>/g for @{ $self->{secrets} };
	$text =~ s/\Q$_->[0]\E/$_->[1]/gi for @{ $self->{names} };
	return $text;
}

sub say
{
	my ($self, $text) = @_;
	print $self->scrub($text);
	return;
}

sub head
{
	my ($self, @pairs) = @_;

	while (my ($name, $value) = splice @pairs, 0, 2)
	{
		push @{ $self->{head} }, "- $name: $value";
	}
	return;
}

# Either skipped, with the reason, or with the expected and actual result.
sub step
{
	my ($self, $name, $shapes, $verdict, $expected, $seen) = @_;
	my %step = (name => $name, shapes => $shapes, verdict => $verdict);

	if ($verdict eq 'skipped')
	{
		$step{reason} = $expected;
		$self->say(sprintf "%-8s %-22s %s\n", $verdict, $name, $expected);
	}
	else
	{
		# the same result by other requests is worth a note, but harmless
		$step{harmless} = $verdict eq 'differs' && $expected->{text} eq $seen->{text};
		@step{qw(expected seen)} = ($expected, $seen);
		$self->say(sprintf "%-8s %s%s\n", $verdict, $name, $step{harmless} ? ' (same result, different requests)' : '');
	}
	push @{ $self->{steps} }, \%step;
	return;
}

sub cell
{
	my ($text, $longest) = @_;

	$text =~ s/\s*\n\s*/; /g;
	$text =~ s/^(?:; )+|(?:; )+$//g;
	$text = substr($text, 0, $longest) . '…' if length $text > $longest;
	return $text =~ s/\|/\\|/gr;
}

# A summary of a step's result: its output if relevant, and its requests.
sub digest
{
	my ($step, $which) = @_;
	my $result = $step->{$which} or return '';
	my $same = $step->{verdict} eq 'ok' || $step->{harmless};

	return cell(($same ? '' : "$result->{text}\n") . ($step->{verdict} eq 'differs' && !$step->{harmless} ? '' : $result->{trail}), 160);
}

sub table
{
	my ($self) = @_;
	my @lines = ('| shape | verdict | expected | seen | request id | step |', '|---|---|---|---|---|---|');

	for my $shape (Live::Shapes::names())
	{
		my @steps = sort { $rank{ $b->{verdict} } <=> $rank{ $a->{verdict} } }
		  grep { grep { $_ eq $shape } @{ $_->{shapes} } } @{ $self->{steps} };
		my $step = $steps[0];

		# some shapes are only sent with another kind of token, or for a table that this environment lacks
		push @lines, !$step
		  ? "| $shape | skipped | | no step sends it with these settings | | |"
		  : $step->{reason} ? "| $shape | skipped | | " . cell($step->{reason}, 160) . " | | $step->{name} |"
		  : sprintf '| %s | %s | %s | %s | %s | %s |', $shape, $step->{verdict}, digest($step, 'expected'), digest($step, 'seen'),
		  join(' ', @{ $step->{seen}{ids} }[ 0 .. ($#{ $step->{seen}{ids} } > 2 ? 2 : $#{ $step->{seen}{ids} }) ]), $step->{name};
	}
	return @lines;
}

sub details
{
	my ($self) = @_;
	my @lines;

	for my $step (grep { $_->{verdict} =~ /differs|failed/ } @{ $self->{steps} })
	{
		push @lines, '', "### $step->{name}: $step->{verdict}" . ($step->{harmless} ? ' (same result, different requests)' : ''), '';
		for my $which (qw(expected seen))
		{
			my $result = $step->{$which};

			push @lines, "$which:", '', map { "    $_" } split(/\n/, $result->{text}), split(/\n/, $result->{trail}),
			  map { "! $_" } map { split /\n/ } @{ $result->{messages} };
			push @lines, '';
		}
		push @lines, 'request ids: ' . join ' ', @{ $step->{seen}{ids} };
	}
	return @lines;
}

# Writes the report; returns true if all results were as expected.
sub finish
{
	my ($self) = @_;
	my %count = map { $_ => 0 } keys %rank;

	$count{ $_->{verdict} }++ for @{ $self->{steps} };
	my $total = join ', ', map { "$count{$_} $_" } qw(ok differs failed skipped);

	open my $out, '>', $self->{file} or die "$self->{file}: $!\n";
	print {$out} $self->scrub(
		join "\n", '# Check against a live environment', '', @{ $self->{head} }, "- steps: $total", '', $self->table, $self->details, '');
	close $out or die "$self->{file}: $!\n";
	$self->say("\n$total\nThe report is in $self->{file}.  Please attach it to an issue.\n");
	return $count{ok} && !$count{differs} && !$count{failed};
}

1;
