# group_parts.pl
#		Groups over more rows than the service aggregates, with distinct values:
#		how the rows are divided into parts, when it is better to read them, and
#		the number of requests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(sum0);
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

use constant ROWS => 60000;
use constant PAGES => ROWS / 5000;

my $crm = Crm->start('parts');

$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=' . ROWS);
$crm->sql(
	q{CREATE SCHEMA f; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO f;
	CREATE TABLE l.account AS SELECT accountid, numberofemployees, industrycode, creditonhold FROM f.account});

# Asks the service and the copy; returns the number of requests, and whether the service formed groups.
sub asks
{
	my ($what, $query, $settings) = @_;
	my $set = 'SET search_path = %s; SET dataverse_fdw.scan_parallelism = 1; ' . ($settings // '');
	my $there = $crm->sql(sprintf($set, 'l') . $query);
	my $plan = $crm->sql(sprintf($set, 'f') . "EXPLAIN $query");

	$crm->requests;
	is($crm->sql(sprintf($set, 'f') . $query), $there, "$what: the same groups");
	my $n = () = $crm->requests;
	return ($n, scalar($plan =~ /Grouped by Dataverse/), $plan);
}

my %query = (
	'values that hardly come twice' => 'SELECT count(DISTINCT numberofemployees) FROM account',
	'groups with such values' => 'SELECT industrycode, count(DISTINCT numberofemployees), count(*) FROM account GROUP BY 1 ORDER BY 1',
	'few values' => 'SELECT count(DISTINCT industrycode) FROM account',
	'groups with few values' => 'SELECT industrycode, count(DISTINCT creditonhold), count(*) FROM account GROUP BY 1 ORDER BY 1',
	'sums' => 'SELECT creditonhold, count(*), sum(numberofemployees) FROM account GROUP BY 1 ORDER BY 1');

# under any settings, grouping must not take many more requests than reading
my $prefer = 'SET enable_hashagg = off; SET enable_sort = off; ';
for my $known (0, 1)
{
	my $stage = $known ? 'with statistics' : 'without';

	$crm->sql('ANALYZE f.account') if $known;
	for my $what (sort keys %query)
	{
		my ($n, $there, $plan) = asks("$what, $stage", $query{$what});

		cmp_ok($n, '<=', 2 * PAGES, "… with $n requests" . ($there ? ', by the service' : '')) or diag $plan;
		ok($there, '… by the service, which is known to be better') if $known && $what =~ /^few|sums/;
	}
	my ($n) = asks("if only the service may form groups, $stage", $query{'groups with such values'}, $prefer);
	cmp_ok($n, '<=', 4 * PAGES, "… with $n requests");
}

$crm->stop;

# A service that compares ids as text would put rows into two parts, or none.
{
	my $text = Crm->start('text', flags => ['--ids-as-text']);
	my $only = 'SET enable_hashagg = off; SET enable_sort = off; ';
	my $ask = 'SELECT industrycode, count(*), sum(numberofemployees) FROM %s.account GROUP BY 1 ORDER BY 1';

	$text->dvsim->control('POST', '/_dvsim/seed?table=account&rows=10');
	$text->sql(
		q{CREATE SCHEMA f; CREATE SCHEMA l;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO f});
	# ids in no order, except that the first and the last one are the same in both orders
	$text->sql(q{INSERT INTO f.account (accountid, name, industrycode, numberofemployees)
		SELECT CASE i WHEN 1 THEN '00000000-0000-0000-0000-000000000001' WHEN 2 THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff' ELSE md5(i::text) END::uuid, 'x', i % 5 + 1, i
		FROM generate_series(1, 120000) i});
	$text->sql('CREATE TABLE l.account AS SELECT accountid, numberofemployees, industrycode FROM f.account; ANALYZE f.account');
	for my $time ('the first', 'the second')
	{
		$text->requests;
		like($text->sql($only . sprintf "EXPLAIN $ask", 'f'), qr/Grouped by Dataverse/, 'ids compared as text: the plan has the service form groups');
		is($text->sql($only . sprintf $ask, 'f'), $text->sql(sprintf $ask, 'l'), "… and correct, $time time");
		my @sent = grep { $_->{target} =~ /fetchXml/ } $text->requests;
		cmp_ok(scalar(@sent), '<=', 120000 / 5000 + 4, '… with ' . @sent . ' requests');
	}
	$text->stop;
}
done_testing;
