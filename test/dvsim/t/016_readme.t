# 016_readme.t
#		The tables of README.md against the program: flags, quirks, missing
#		features, and the rooms of the source; and the names of error codes
#		against the codes that the source uses.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $here = "$FindBin::Bin/..";
my $readme = Dvsim::slurp("$here/README.md");
my $program = Dvsim::program();
my $help = qx("$program" --help);

# the rows of the first table of a section, as lists of cells
sub table
{
	my ($section) = @_;
	my ($text) = $readme =~ /^## \Q$section\E\n(.*?)(?=^## |\z)/ms or return;
	my ($rows) = $text =~ /^\|---.*?\n((?:\|.*\n)*)/m or return;

	return map { /^\| (.*?) \| (.*) \|$/ ? [ $1, $2 ] : () } split /\n/, $rows;
}

sub sorted { return join ' ', sort @_; }

# ---------------------------------------------------------------- flags

my @flags = $help =~ /^  (--\S+)/gm;
my @documented = map { $_->[0] =~ /(--[\w-]+)/g } table('Flags');
cmp_ok(scalar @flags, '>', 15, 'the help lists flags');
is(sorted(@documented), sorted(@flags), 'the README has the flags of --help, each once');

# ---------------------------------------------------------------- quirks

my @quirks = Dvsim::all_quirks();
my %meaning = map { $_->[0] =~ /^`(.*)`$/ ? ($1 => $_->[1]) : ($_->[0] => '') } table('Quirks');
cmp_ok(scalar @quirks, '>', 3, 'the help lists quirks');
is(sorted(keys %meaning), sorted(@quirks), 'the README has the quirks of --help');
is(scalar(table('Quirks')), scalar @quirks, 'each once');
like($meaning{$_}, qr/\w{3}/, "$_: has a meaning") for @quirks;

my $s = Dvsim->start;
is_deeply([ sort @{ $s->control('POST', '/_dvsim/quirks', \@quirks)->json } ],
	[ sort @quirks ], 'the control plane knows all of them');
is($s->control('POST', '/_dvsim/quirks', [ keys %meaning ])->status, 200, 'by the names of the README');

# ---------------------------------------------------------------- missing features

my ($missing) = $readme =~ /^## What dvsim does not have\n(.*?)^## /ms;
my @messages = $missing =~ /\b((?:[A-Z][a-z]+){2,}[A-Za-z]*)\b/g;
@messages = grep { !/^(BulkDelete|DeleteMultiple|SolutionUniqueName)$/ } @messages;
cmp_ok(scalar @messages, '>', 25, 'the README lists missing features');
for my $message (@messages)
{
	my $get = $s->get($message)->status;
	my $post = $s->post($message, {})->status;

	like("$get $post", qr/^404 40[45]$/, "$message is missing");
}
is($s->get("accounts?$_=x")->status, 404, "$_ finds nothing") for 'savedQuery', 'userQuery';
is($s->get($_)->status, 404, "no $_")
  for qw(savedqueries userqueries roles privileges publishers audits emails leads queues entitymaps
  fileattachments attributeimageconfigs entityimageconfigs duplicaterules);

# ---------------------------------------------------------------- files

my @rooms = map { m{([^/]+)/[^/]+$} ? "$1/" : () } glob "$here/*/*.c";
my %described = map { $_->[0] =~ /^`(.*)`$/ ? ($1 => 1) : () } table('The source');
my @files = glob "$here/*.c $here/*/*.c";
my @headless = grep { my ($name) = m{([^/]+)$}; Dvsim::slurp($_) !~ m{\A/\*\n \* \Q$name\E\n \*\t\t\S} } @files;
cmp_ok(scalar @files, '>', 60, 'files exist');
is(sorted(keys %described), sorted(keys %{ { map { $_ => 1 } @rooms } }), 'the README describes each room');
is("@headless", '', 'each file begins with its name and purpose');

# ---------------------------------------------------------------- error codes

my %named = map { lc $_ => 1 } Dvsim::slurp("$here/wire/errors.c") =~ /\{(0x[0-9a-f]{8}), "\w+"\}/g;
my %raised;
for my $file (@files)
{
	$raised{ lc $_ } = $file for Dvsim::slurp($file) =~ /"(0x8[0-9a-fA-F]{7})"/g;
}
cmp_ok(scalar keys %raised, '>', 50, 'error codes exist');
is(join(' ', map { "$_ ($raised{$_})" } grep { !$named{$_} } sort keys %raised), '',
	'each has a symbolic name');

ok($s->stop, 'dvsim ends cleanly');
done_testing;
