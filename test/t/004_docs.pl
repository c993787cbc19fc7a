# 004_docs.pl
#		The reference tables of the README against what the extension says.
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

for my $view (qw(pool pool_summary throttle_history progress rejects))
{
	my @columns = split /\n/, $node->safe_psql('postgres',
		"SELECT attname FROM pg_attribute WHERE attrelid = 'dataverse.$view'::regclass AND attnum > 0");
	my @missing = grep { $readme !~ /`$_`/ } @columns;
	is("@missing", '', "the README speaks of every column of $view");
}
my @functions = split /\n/, $node->safe_psql(
	'postgres', q{
	SELECT proname FROM pg_proc WHERE pronamespace = 'dataverse'::regnamespace
	   AND proname !~ '^dataverse_fdw_|^pool_users$|^throttle_events$|^progress_rows$'});
my @missing = grep { $readme !~ /`dataverse\.$_\(/ } @functions;
is("@missing", '', 'and of every function');

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
done_testing();
