# import_stats.pl
#		Option import_stats (PostgreSQL 19 and later): ANALYZE requests only the
#		row count, or reads a sample if that does not suffice.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $rows = 70;
my $crm = Crm->start('import_stats', options => { import_stats => 'on' });
my $since = 0;

plan skip_all => 'PostgreSQL 19 lets ANALYZE take over statistics'
  if $crm->sql('SHOW server_version_num') < 190000;

is($crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows")->status, 200, 'rows exist');
$crm->sql(
	q{CREATE FOREIGN TABLE account (accountid uuid, name text, n integer OPTIONS ("column" 'numberofemployees'))
	  SERVER crm OPTIONS (entity_set 'accounts')});

# Returns the requests and warnings of ANALYZE, and the statistics of the table after it.
sub analyzes
{
	my ($what, $asked, $warning, $known) = @_;
	my $name = "ANALYZE $what";

	$crm->sql(q{SELECT pg_clear_relation_stats('public', 'account');
		SELECT pg_clear_attribute_stats('public', 'account', a, false) FROM unnest('{accountid,name,n}'::text[]) a});
	$since = $crm->dvsim->control('GET', "/_dvsim/requests?since=$since")->json->{next};
	my ($status, $out, $err) = $crm->node->psql('postgres', "ANALYZE $what");
	my $log = $crm->dvsim->control('GET', "/_dvsim/requests?since=$since")->json;
	my %seen = map { ($_->{target} =~ m{/v[^/]*/(\w+)} ? $1 : '-') => 1 }
	  grep { $_->{kind} ne 'token' } @{ $log->{requests} };

	is($status, 0, $name);
	is(join(' ', sort keys %seen), $asked, "$name: requests");
	like($err, $warning, "$name: warnings");
	is($crm->sql(q{SELECT reltuples FROM pg_class WHERE oid = 'account'::regclass}), $rows, "$name: rows");
	return is(
		$crm->sql(q{SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_stats WHERE tablename = 'account'}),
		$known, "$name: columns");
}

my $nothing = qr/^$/;
my $sampled = 'RetrieveTotalRecordCount accounts';

analyzes('account', 'RetrieveTotalRecordCount', $nothing, '');
analyzes('account (name)', $sampled, $nothing, 'name');

$crm->fault(path => 'RetrieveTotalRecordCount', status => 404, code => '0x80060888', message => 'no such segment');
analyzes('account', $sampled, $nothing, 'accountid n name');
$crm->dvsim->control('DELETE', '/_dvsim/faults');

$crm->sql('CREATE STATISTICS together ON name, n FROM account');
analyzes('account', $sampled,
	qr/^.*WARNING:  cannot import statistics for foreign table "account" --- this foreign table has extended statistics objects$/,
	'accountid n name');
is($crm->sql(q{SELECT n_distinct IS NOT NULL FROM pg_stats_ext WHERE statistics_name = 'together'}),
	't', 'which are built from the sample');
$crm->sql('DROP STATISTICS together');

$crm->sql(q{ALTER FOREIGN TABLE account OPTIONS (ADD import_stats 'off')});
analyzes('account', $sampled, $nothing, 'accountid n name');

done_testing();
