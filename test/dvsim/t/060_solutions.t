# 060_solutions.t
#		Solutions and their components, and the bulk messages of each table,
#		as rows.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 60);

sub list
{
	my $r = $s->get(@_);
	return $r->status == 200 ? $r->json->{value} : [ { error => $r->status . ' ' . $r->body } ];
}

# ---------------------------------------------------------------- solutions

my ($energy) = @{ list(q{solutions?$select=uniquename,version&$filter=uniquename eq 'new_energy'}) };
is($energy->{uniquename}, 'new_energy', 'a solution');
like($energy->{version}, qr/^\d+(?:\.\d+)+$/, 'its version');

# the components of type table in a solution that meets the condition
sub components
{
	my ($condition) = @_;
	return list('solutioncomponents?$select=objectid,componenttype'
		  . "&\$filter=componenttype eq 1 and $condition");
}

my $components = components(q{solutionid/uniquename eq 'new_energy'});
my %tables = map { $_->{MetadataId} => $_->{LogicalName} }
  @{ list('EntityDefinitions?$select=LogicalName') };
is_deeply(
	[ sort map { $tables{ $_->{objectid} // '' } // $_->{error} // 'unknown' } @$components ],
	[qw(account contact new_alltypes new_meter new_reading)],
	'its tables are those of EntityDefinitions');
is_deeply([ map { $_->{componenttype} } @$components ], [ (1) x 5 ], 'components of type table');
my $first = $components->[0]{objectid};
is($s->get("EntityDefinitions($first)?\$select=LogicalName")->json->{LogicalName},
	$tables{$first}, 'one by one');
is_deeply(components(q{solutionid/uniquename eq 'nope'}),
	[], 'an unknown solution has none');
is_deeply(
	[
		sort map { $tables{ $_->{objectid} } }
		  @{ components("_solutionid_value eq $energy->{solutionid}") }
	],
	[qw(account contact new_alltypes new_meter new_reading)],
	'by the solution\'s id');

# ---------------------------------------------------------------- bulk messages

# 0 rows: not available, 1 row: available
sub available
{
	my ($message, $table) = @_;
	return scalar @{ list(q{sdkmessagefilters?$select=sdkmessagefilterid}
			  . q{&$filter=sdkmessageid/name eq @m and primaryobjecttypecode eq @t}
			  . "&\@m='$message'&\@t='$table'") };
}

my %expected = (
	account => [ 1, 1, 0 ],
	contact => [ 1, 1, 0 ],
	new_meter => [ 1, 1, 0 ],
	new_alltypes => [ 1, 1, 0 ],
	new_reading => [ 1, 1, 1 ],
	annotation => [ 0, 0, 0 ],
	task => [ 0, 0, 0 ],
	new_account_contact => [ 0, 0, 0 ]);
for my $table (sort keys %expected)
{
	is_deeply(
		[ map { available($_, $table) } qw(CreateMultiple UpdateMultiple DeleteMultiple) ],
		$expected{$table}, "messages of $table");
}
is(available('UpsertMultiple', 'account'), 0, 'UpsertMultiple is never listed');
is(available('CreateMultiple', 'nope'), 0, 'no such table');

my $all = list(q{sdkmessagefilters?$select=primaryobjecttypecode&$expand=sdkmessageid($select=name)}
	  . q{&$filter=sdkmessageid/name eq 'CreateMultiple' or sdkmessageid/name eq 'UpdateMultiple'});
my %can;
$can{ $_->{primaryobjecttypecode} }{ $_->{sdkmessageid}{name} } = 1 for grep { !$_->{error} } @$all;
is_deeply([ sort keys %{ $can{account} } ], [qw(CreateMultiple UpdateMultiple)],
	'all tables at once');
ok(!$can{annotation}, 'tables without it are excluded');

done_testing;
