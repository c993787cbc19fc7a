# docs.pl
#		Compares the README and doc/ with what the extension reports, with its
#		messages, and with each other; and the table of requirements with the tests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../../..";
my @pages = ('README.md', map { s{^\Q$top\E/}{}r } sort glob "$top/doc/*.md");
my %page = map { $_ => slurp_file("$top/$_") } @pages;
my ($readme, $reference) = @page{ 'README.md', 'doc/reference.md' };
my $node = PostgreSQL::Test::Cluster->new('docs');

$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw');

# ---- options: name, type and marks, default, range or choices

my ($section) = $reference =~ /^## Options\n(.*?)^## /ms;
my %documented;
while ($section =~ /^\| `(\w+)` \| ([^|]*?) *\| ([^|]*?) *\| ([^|]*?) *\| \S.*\|$/mg)
{
	ok(!exists $documented{$1}, "option $1 is documented once");
	$documented{$1} = "$2|$3|$4";
}
my %real = map { my ($name, $rest) = split /\|/, $_, 2; ($name => $rest) } split /\n/,
  $node->safe_psql(
	'postgres', q{
	SELECT name, type || CASE WHEN secret THEN ', secret' ELSE '' END
	            || CASE WHEN superuser_only THEN ', superuser' ELSE '' END,
	       coalesce(default_value, ''), coalesce(replace(accepts, '"', ''), '')
	FROM dataverse.options()});
is_deeply(\%documented, \%real, 'the options of the reference are those of dataverse.options()');

my ($settings) = $reference =~ /^## Settings\n(.*?)^## /ms;
is(join(' ', sort $settings =~ /`(dataverse_fdw\.\w+)`/g),
	$node->safe_psql('postgres', q{LOAD 'dataverse_fdw';
		SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM pg_settings WHERE name LIKE 'dataverse\_fdw.%'}),
	'and so are the settings');

# ---- columns of the views and names of the functions

for my $view (qw(pool pool_summary throttle_history progress doubts rejects runs sync_state conflicts pushes metrics))
{
	my @columns = split /\n/, $node->safe_psql('postgres',
		"SELECT attname FROM pg_attribute WHERE attrelid = 'dataverse.$view'::regclass AND attnum > 0");
	my @missing = grep { $reference !~ /`$_`/ } @columns;
	is("@missing", '', "the reference describes every column of $view");
}
my @functions = split /\n/, $node->safe_psql(
	'postgres', q{
	SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'dataverse'::regnamespace AND proname !~ '^dataverse_fdw_'});
my @missing = grep { $reference !~ /`dataverse\.$_\(/ } @functions;
is("@missing", '', 'and of every function');
cmp_ok(scalar @functions, '<=', 30, 'what users do not call is in schema dataverse_private');

my $views = $node->safe_psql('postgres',
	q{SELECT relname FROM pg_class WHERE relnamespace = 'dataverse'::regnamespace AND relkind = 'v' ORDER BY 1});

# ---- what is pushed down

my ($pushed) = $reference =~ /<!-- made by test\/policy -->\n(.*?)<!-- end -->/s;
is($pushed, scalar `$^X $top/test/policy`, 'the reference agrees with the table of policies: test/policy --write');

# ---- error codes of the service, and SQLSTATEs of HTTP statuses

my $source = slurp_file("$top/src/dataverse/error.c");
my ($rules) = $source =~ /code_rules\[\] = \{(.*?)^\};/ms;
my ($errors) = $reference =~ /^## Errors\n(.*?)^## /ms;
my %in_source = map { $_ => 1 } $rules =~ /"(0x\w+)"/g;
my %in_readme = map { $_ => 1 } $errors =~ /`(0x\w+)`/g;
is_deeply(\%in_readme, \%in_source, 'the codes of the reference are those of error.c');
my ($statuses) = $source =~ /^\}\s+status_rules\[\] =\s*\{(.*?)^\};/ms;
is_deeply([ $errors =~ /^\| (\d{3}) \|/mg ], [ $statuses =~ /\{(\d{3}),/g ], 'and so are the statuses');

$node->stop;

# ---- the README names everything that the reference describes

is(join(' ', grep { $readme !~ /`$_`/ } split /\n/, $views), '', 'the README names every view');
cmp_ok($readme =~ tr/\n//, '<=', 450, '... in at most 450 lines');

# ---- messages: those that the page quotes exist in the sources

my $literals = join "\n", map { slurp_file($_) } glob "$top/src/*/*.[ch] $top/src/*/*/*.[ch] $top/src/sql/*.sql";
$literals =~ s/"\s*\n\s*"//g;
$literals =~ s/\\"/"/g;
$literals =~ s/''/'/g;
my $troubles = $page{'doc/troubleshooting.md'};
my @rows = $troubles =~ /^\| (?!message )([^|]*`[^|]*) \|/mg;
cmp_ok(scalar @rows, '>=', 25, 'troubleshooting explains messages');
for my $row (@rows)
{
	# placeholders for names, and quotations of the service, are ignored
	my @parts = grep { /\w{3}/ && !/^(?:AADSTS\d+|HV\w{3}|\d{5})$/ } map { split /…/ } $row =~ /`([^`]+)`/g;
	my @unknown;

	for my $part (@parts)
	{
		push @unknown, $part unless quoted($part);
	}
	is(join(' / ', @unknown), '', "the sources have: $row");
}

# True if the sources contain a part of a message, possibly split by a placeholder.
sub quoted
{
	my ($part) = @_;
	my @words = split / /, $part =~ s/^\W+|\W+$//gr;

	return 1 if index($literals, join(' ', @words)) >= 0;
	for my $n (1 .. $#words)
	{
		my ($start, $end) = (join(' ', @words[ 0 .. $n - 1 ]), join(' ', @words[ $n .. $#words ]));
		return 1 if $literals =~ /\Q$start\E %s/ && $literals =~ /["']\Q$end\E/;
	}
	return 0;
}

# ---- links resolve, and sentences are not too long

sub anchors
{
	my ($text) = @_;

	$text =~ s/^```.*?^```$//msg;
	return map { lc =~ s/[^\w\- ]//gr =~ s/ /-/gr } $text =~ /^#+ (.+)$/mg;
}

# the pages for developers have links as well
my @linked = (@pages, map { s{^\Q$top\E/}{}r } sort glob "$top/CONTRIBUTING.md $top/src{,/*}/README.md $top/test/*.md $top/test/*/README.md $top/SECURITY.md");
$page{$_} //= slurp_file("$top/$_") for @linked;
my %anchors = map { my $p = $_; $p => { map { $_ => 1 } anchors($page{$p}) } } @linked;
for my $page (@linked)
{
	my @lost;
	my ($folder) = $page =~ m{^(.*/)?};

	while ($page{$page} =~ /\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)
	{
		my ($file, $anchor) = ($1, $2);
		my $target = $file eq '' ? $page : ($folder // '') . $file;

		1 while $target =~ s{[^/]+/\.\./}{};
		push @lost, "$file#" . ($anchor // '')
		  unless -e "$top/$target" && (!defined $anchor || !$anchors{$target} || $anchors{$target}{$anchor});
	}
	is("@lost", '', "the links of $page resolve");
}
is(join("\n", long_sentences($page{$_})), '', "no sentence of $_ has 40 words") for @pages;

# ---- pages of the source: the files and symbols that they name exist

my @sources = glob "$top/src/*.[ch] $top/src/*/*.[ch] $top/src/*/*/*.[ch] $top/src/sql/*.sql";
my %file = map { m{([^/]+)$} ? ($1 => 1) : () } @sources;
my $code = join '', map { slurp_file($_) } @sources;
for my $page (grep { m{^src/} } @linked)
{
	my @files = grep { !$file{$_} } $page{$page} =~ m{`(?:\w+/)*(\w+\.(?:c|h|sql))`}g;
	my @symbols = grep { $code !~ /\b$_\b/ } $page{$page} =~ /`(dv_\w+)`/g;
	is("@files @symbols", ' ', "$page names only existing files and symbols");
}

# Returns the sentences of prose and of table cells with 40 words or more; code counts as a word.
sub long_sentences
{
	my ($text) = @_;
	my @long;

	$text =~ s/^```.*?^```$//msg;
	$text =~ s/^    .*$//mg;
	$text =~ s/`[^`]*`/X/g;
	$text =~ s/\]\([^)]*\)/]/g;
	for my $paragraph (split /\n\s*\n|\n(?=\s*(?:-|\d+\.) )|\|/, $text)
	{
		for my $sentence (split /(?<=[.?!:])["*)]*\s+/, $paragraph)
		{
			push @long, $sentence if (grep { /\w/ } split ' ', $sentence) >= 40;
		}
	}
	return @long;
}

# ---- figures state the command that produces them

for my $paragraph (map { $page{$_} =~ /^(##+ .*?)(?=^##|\z)/msg } @pages)
{
	next unless $paragraph =~ s/^    .*$//mgr =~ /\d(?: to \d[\d.]*)? (?:%|times (?:as|less|the)|rows\/s|µs)/;
	like($paragraph, qr/`make [a-z-]+/, 'figures come with their command: ' . ($paragraph =~ /^#+ (.+)/)[0]);
}

# ---- tests by topic and by requirement: those named exist

my %where = (
	unit => [ 'test/unit/', '_test.c' ],
	t => [ 'test/t/', '.pl' ],
	ratesim => [ 'test/ratesim/', '.c' ],
	regress => [ 'sql/', '.sql' ]);
my %held = slurp_file("$top/test/REQUIREMENTS.md") =~ /^\| (R\d{3}) \| [^|]+ \| (\S[^|]+) \|$/mg;
my @lines = slurp_file("$top/test/REQUIREMENTS.md") =~ /^\| R\d{3} /mg;
my @gone;

sub file_of
{
	my ($layer, $name) = @_;
	my ($before, $after) = @{ $where{$layer} };

	return "$top/$before$name$after";
}

my @named = slurp_file("$top/test/README.md") =~ m{`((?:unit|t|regress)/[a-z0-9_/]+)`}g;
cmp_ok(scalar @named, '>', 50, 'test/README.md names tests');
is(join(' ', grep { !-f file_of(split '/', $_, 2) } @named), '', 'which exist');

is(join(' ', sort keys %held), join(' ', map { sprintf 'R%03d', $_ } 1 .. 141), 'all requirements are in the table');
is(scalar @lines, 141, 'once');
for my $r (sort keys %held)
{
	my $tests = 0;

	while ($held{$r} =~ m{`(unit|t|ratesim|regress)/([\w/]+): ([^`]+)`}g)
	{
		my $file = file_of($1, $2);

		$tests++;
		push @gone, "$r: $1/$2: $3" unless -f $file && index(slurp_file($file), $3) >= 0;
	}
	push @gone, "$r: no test" unless $tests || $held{$r} =~ /^(?:not met:|partly:|no test|by construction:|documented)/;
}
is(join("\n", @gone), '', 'and the tests that verify them exist');

done_testing();
