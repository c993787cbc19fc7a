# kills.pl
#		Backends, the postmaster, and dvsim are killed at each page and each commit
#		of a first read, of changes, and of comparisons, also in ranges of ids.
#		Afterwards the rows are the same, and hardly any were read twice.
#
#	KILLS=all		each point in all nine ways, instead of one of them in turn
#	ROWS=N			rows (500)
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use SyncKills;

my $all = ($ENV{KILLS} // '') eq 'all';
my $rows = $ENV{ROWS} // 500;
my $page = $rows <= 10_000 ? 50 : 5000;
my $pages = $rows / $page;
my $pull = q{CALL dataverse.pull('dv.account', 'public.account')};

sub same_ok
{
	my ($k, $what) = @_;

	is( $k->sql(q{SELECT (SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x) || '|' ||
	                     (SELECT count(*) FROM (TABLE account EXCEPT TABLE dv.account) AS x) || '|' ||
	                     (SELECT count(*) - count(DISTINCT accountid) FROM account) || '|' ||
	                     (SELECT count(*) - count(DISTINCT accountid) FROM dv.account)}), '0|0|0|0',
		"$what: the rows are the same, each once");
	return;
}

# Changes rows in Dataverse: updates every tenth, deletes and inserts some.
sub change
{
	my ($k, $mark) = @_;

	$k->sql("UPDATE dv.account SET name = 'changed $mark' WHERE accountid IN (
	           SELECT accountid FROM account WHERE hashtext(accountid::text || '$mark') % 5 = 0);
	         DELETE FROM dv.account WHERE accountid IN (
	           SELECT accountid FROM account WHERE hashtext(accountid::text || '$mark') % 50 = 1);
	         INSERT INTO dv.account (name) SELECT 'new $mark' FROM generate_series(1, $rows / 50)");
	return;
}

# the meaning of tokens, and the ranges of ids that are read at a time
for my $case ([ 'first', 1 ], [ 'last', 1 ], [ 'first', 6 ])
{
	my ($token, $ranges) = @$case;
	my $k = SyncKills->start("kills_${token}_$ranges", token => $token, page => $page, options => { scan_parallelism => $ranges });
	# with ranges, the pages under way are one of each, and the one that is merged
	my %again = (again => $ranges == 1 ? 2 : $ranges + 1);

	$k->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
	$k->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv');

	my $kills = $k->chain($pull, "$token: a first read", all => $all, %again);
	cmp_ok($kills, '>=', $ranges == 1 ? $pages - 2 : $pages / $ranges, 'at each page');
	same_ok($k, "$token, a first read");

	change($k, 'delta');
	$k->chain($pull, "$token: changes", all => $all);
	same_ok($k, "$token, changes");

	# the comparison is the same with both tokens
	next if $token eq 'last' && !$all;

	# an expired token, with deletions in the gap
	change($k, 'gap');
	$k->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
	$kills = $k->chain($pull, "$token: an expired token", all => $all, %again);
	same_ok($k, "$token, an expired token");
	is($k->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is shown as running');
	$k->sql($pull);
	is($k->sql('SELECT rows_compared FROM dataverse.runs ORDER BY id DESC LIMIT 1'), '0', 'then changes are tracked');
	$k->crm->stop;
}

done_testing();
