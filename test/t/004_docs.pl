# 004_docs.pl
#		Compares the reference tables of the README with what the extension
#		reports, and the table of the requirements with the tests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $readme = slurp_file("$top/README.md");
my $node = PostgreSQL::Test::Cluster->new('docs');

$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw');

# ---- options: name, type and marks, default, range or choices

my ($section) = $readme =~ /^## Options\n(.*?)^## /ms;
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
is_deeply(\%documented, \%real, 'the options of the README are those of dataverse.options()');

# ---- columns of the views and names of the functions

for my $view (qw(pool pool_summary throttle_history progress doubts rejects runs sync_state conflicts pushes))
{
	my @columns = split /\n/, $node->safe_psql('postgres',
		"SELECT attname FROM pg_attribute WHERE attrelid = 'dataverse.$view'::regclass AND attnum > 0");
	my @missing = grep { $readme !~ /`$_`/ } @columns;
	is("@missing", '', "the README speaks of every column of $view");
}
my @functions = split /\n/, $node->safe_psql(
	'postgres', q{
	SELECT proname FROM pg_proc WHERE pronamespace = 'dataverse'::regnamespace
	   AND proname !~ '^dataverse_fdw_|^pool_users$|^throttle_events$|^progress_rows$|^doubtful_rows$|^may_retry$|^retrying$|^read_rejects$|^role_oid$|^role_or_superuser$|^table_oid$|^refuse_(?:forgery|change)$|^correct_reject$|^(copy|run|page|pull|push|track|pending|sync)_|^resolve_(check|copy)$|^writable_columns$|^read_page$|^end_pages$|^capture$|^caller$|^tables_of$|^name_in$'});
my @missing = grep { $readme !~ /`dataverse\.$_\(/ } @functions;
is("@missing", '', 'and of every function');

# ---- what is pushed down

my ($pushed) = $readme =~ /<!-- made by test\/policy -->\n(.*?)<!-- end -->/s;
is($pushed, scalar `$^X $top/test/policy`, 'the README says what the table of policies says: test/policy --write');

# ---- codes of the service, and SQLSTATEs of statuses

my $source = slurp_file("$top/src/dataverse/error.c");
my ($rules) = $source =~ /code_rules\[\] = \{(.*?)^\};/ms;
my ($errors) = $readme =~ /^## Errors\n(.*?)^## /ms;
my %in_source = map { $_ => 1 } $rules =~ /"(0x\w+)"/g;
my %in_readme = map { $_ => 1 } $errors =~ /`(0x\w+)`/g;
is_deeply(\%in_readme, \%in_source, 'the codes of the README are those of error.c');
my ($statuses) = $source =~ /^\}\s+status_rules\[\] =\s*\{(.*?)^\};/ms;
is_deeply([ $errors =~ /^\| (\d{3}) \|/mg ], [ $statuses =~ /\{(\d{3}),/g ], 'and so are the statuses');

$node->stop;

# ---- tests by topic, and by requirement: all that are named exist

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

my @named = slurp_file("$top/test/README.md") =~ m{`((?:unit|t|regress)/[a-z0-9_]+)`}g;
cmp_ok(scalar @named, '>', 50, 'test/README.md names tests');
is(join(' ', grep { !-f file_of(split '/') } @named), '', 'which are there');

is(join(' ', sort keys %held), join(' ', map { sprintf 'R%03d', $_ } 1 .. 141), 'all requirements are in the table');
is(scalar @lines, 141, 'once');
for my $r (sort keys %held)
{
	my $tests = 0;

	while ($held{$r} =~ m{`(unit|t|ratesim|regress)/(\w+): ([^`]+)`}g)
	{
		my $file = file_of($1, $2);

		$tests++;
		push @gone, "$r: $1/$2: $3" unless -f $file && index(slurp_file($file), $3) >= 0;
	}
	push @gone, "$r: no test" unless $tests || $held{$r} =~ /^(?:not met:|partly:|no test|by construction:|documented)/;
}
is(join("\n", @gone), '', 'and the tests that hold them are there');

done_testing();
