# push_plans.pl
#		The requests of dataverse.push(), and the local time that they take: rows
#		that are updated by a key, rows of which something must be read, and long
#		lists of values in general.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use Crm;

my $crm = Crm->start('push_plans', options => { budget_pacing => 'off', batch_size => 1000 });
my $rows = 40_000;

$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv');
$crm->sql("INSERT INTO dv.account (accountnumber, numberofemployees) SELECT 'K' || i, 0 FROM generate_series(1, $rows) i");

# Runs a statement; returns the seconds, the requests that read, and the rows that these returned.
sub cost_of
{
	my ($sql) = @_;
	my ($reads, $rows_read) = (0, 0);

	$crm->requests;
	my $start = time;
	$crm->sql($sql);
	my $seconds = time - $start;

	for my $request (grep { $_->{method} eq 'GET' } $crm->requests)
	{
		$reads++;
		$rows_read += $request->{rows} // 0;
	}
	note sprintf '%.1f s, %d requests that read %d rows: %s', $seconds, $reads, $rows_read, $sql;
	return ($seconds, $reads, $rows_read);
}

#
# By a key: the values are requested in lists, and compared locally
#

$crm->sql("CREATE TABLE local AS SELECT 'K' || i AS accountnumber, i AS n FROM generate_series(1, $rows) i");

my ($joined) = cost_of('UPDATE dv.account a SET numberofemployees = l.n FROM local l WHERE l.accountnumber = a.accountnumber');
my ($seconds) = cost_of(
	"CALL dataverse.push('SELECT accountnumber, n + 1 AS numberofemployees FROM local', 'dv.account', key => '{accountnumber}', operation => 'update')");

is($crm->sql("SELECT count(*) FROM dv.account WHERE 'K' || (numberofemployees - 1) = accountnumber"), $rows, 'each row has got its value');
cmp_ok($seconds, '<', 3 * $joined + 2, 'by key it takes about as long as UPDATE ... FROM');

# the local comparison is the same for lists of any kind
my ($few) = cost_of("SELECT count(*) FROM dv.account WHERE accountnumber = ANY (ARRAY(SELECT accountnumber FROM local LIMIT 10))");

for my $list (
	[ 'texts', "accountnumber = ANY (ARRAY(SELECT accountnumber FROM local))", $rows ],
	[ 'texts in another table', "accountnumber = ANY (ARRAY(SELECT upper(l.accountnumber) FROM local l))", $rows ],
	[ 'ctids', "ctid = ANY (ARRAY(SELECT ctid FROM dv.account))", $rows ],
	[ 'none of them', "accountnumber = ANY (ARRAY(SELECT lower(accountnumber) FROM local) || ARRAY['K1'])", 1 ],
	[ 'nulls among them', "accountnumber = ANY (ARRAY(SELECT accountnumber FROM local WHERE n > 1) || ARRAY[NULL])", $rows - 1 ])
{
	my ($title, $condition, $want) = @$list;
	my ($time) = cost_of("SELECT count(*) FROM dv.account WHERE $condition");

	is($crm->sql("SELECT count(*) FROM dv.account WHERE $condition"), $want, "$title: the rows");
	cmp_ok($time, '<', $few + 2.5, '… in time that grows with the list, not with its square');
}

# another list for each outer row, and the rows that EXPLAIN counts
is( $crm->sql(q{
	SELECT string_agg(n || ':' || found, ' ' ORDER BY n) FROM (VALUES (1, ARRAY['K1', 'k2', 'K3', 'K4', 'K5', 'K6', 'K7', 'K8', 'K9', 'K10']),
	  (2, ARRAY['K11', 'K12', 'k13', 'k14', 'k15', 'k16', 'k17', 'k18', 'k19', 'k20', NULL]), (3, '{}'), (4, NULL), (5, '{K1}')) v (n, list),
	  LATERAL (SELECT count(*) AS found FROM dv.account WHERE accountnumber = ANY (v.list) OFFSET 0) c}),
	'1:9 2:2 3:0 4:0 5:1', 'lists that change');
like($crm->sql(q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
	SELECT FROM dv.account WHERE accountnumber = ANY (ARRAY(SELECT 'k' || i FROM generate_series(1, 20) i))}),
	qr/Rows Removed by Filter: 20\n/, 'filtered rows are counted');

#
# By ids, if something must be read: the table to which a polymorphic lookup refers
#

my $contacts = 2000;

$crm->sql("INSERT INTO dv.contact (contactid, lastname, parentcustomerid, parentcustomeridtype)
	SELECT gen_random_uuid(), 'c' || i, (SELECT accountid FROM dv.account LIMIT 1), 'account' FROM generate_series(1, $contacts) i");
$crm->sql('CREATE TABLE people AS SELECT contactid FROM dv.contact');

my ($none, $given) = cost_of(
	"CALL dataverse.push(\$\$SELECT contactid, 'given' AS lastname FROM people\$\$, 'dv.contact', operation => 'update')");
my (undef, $reads, $read) = cost_of(
	"CALL dataverse.push('SELECT contactid, NULL::uuid AS parentcustomerid, NULL AS parentcustomeridtype FROM people', 'dv.contact', operation => 'update')");

cmp_ok($given, '<', 15, 'no read if the ids are sufficient');
is($crm->sql('SELECT count(parentcustomerid) FROM dv.contact'), 0, 'the lookups have been cleared');
cmp_ok($reads, '<', 30, 'rows are not read one by one');
cmp_ok($read, '<=', $contacts + 50, '… and each once');

# the same in a table that is much larger than the pushed rows
$crm->sql("UPDATE pg_class SET reltuples = 1000000 WHERE oid = 'dv.contact'::regclass");
$crm->sql("UPDATE dv.contact SET parentcustomerid = (SELECT accountid FROM dv.account LIMIT 1), parentcustomeridtype = 'account'");
(undef, $reads, $read) = cost_of(
	"CALL dataverse.push('SELECT contactid, NULL::uuid AS parentcustomerid FROM people LIMIT 500', 'dv.contact', operation => 'update')");
is($crm->sql('SELECT count(*) FROM dv.contact WHERE parentcustomerid IS NULL'), 500, '500 of them have been cleared again');
cmp_ok($reads, '<', 20, '… by lists of ids');
cmp_ok($read, '<=', 600, '… and no other rows were read');

done_testing();
