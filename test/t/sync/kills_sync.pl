# kills_sync.pl
#		Backends, the postmaster, and dvsim are killed at each commit of
#		dataverse.sync(), and while it writes.  Afterwards both sides have the
#		edits of both sides, and nothing was sent twice.
#
#	KILLS=all		each point in all ways, instead of one of them in turn
#	ROWS=N			rows (300)
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
my $rows = $ENV{ROWS} // 300;
my $page = $rows <= 10_000 ? 50 : 5000;
my $sync = q{CALL dataverse.sync('dv.account', 'public.account', conflict => 'local', column_conflicts => '{"description": "service"}')};
# requests that write
my %writes = (method => 'POST', path => '/api/data');
my $state = q{SELECT ' ' || count(*) || ' ' || (SELECT count(*) FROM dataverse_private.local_changes) || ' ' ||
	coalesce(string_agg(state || n, ',' ORDER BY state), '') FROM (SELECT state, count(*) AS n FROM dataverse_private.pending GROUP BY state) AS p};

# Changes one row in ten locally, one in Dataverse, and one in forty on both sides.
my $n = 0;

sub edit
{
	my ($k) = @_;
	my %share = (here => 'r % 10 = 1', there => 'r % 10 = 2', both => 'r % 40 = 3', taken => 'r % 40 = 4',
		gone_here => 'r % 40 = 5', gone_there => 'r % 40 = 6');
	my %ids;

	$n++;
	$k->sql('CREATE TABLE IF NOT EXISTS edit (id uuid, what text, n integer)');
	for my $what (sort keys %share)
	{
		$k->sql("INSERT INTO edit SELECT accountid, '$what', $n FROM (SELECT accountid, row_number() OVER (ORDER BY accountid) AS r FROM account) AS a
		         WHERE $share{$what}");
	}
	my $of = sub { return "accountid IN (SELECT id FROM edit WHERE n = $n AND what = '$_[0]')" };
	$k->sql("UPDATE account SET name = 'here $n' WHERE " . $of->('here') . ";
		UPDATE account SET telephone1 = 'here $n' WHERE " . $of->('both') . ";
		UPDATE account SET description = 'here $n' WHERE " . $of->('taken') . ";
		DELETE FROM account WHERE " . $of->('gone_here') . ";
		INSERT INTO account (name) SELECT 'new here $n' FROM generate_series(1, $rows / 20)");
	$k->sql("UPDATE dv.account SET name = 'there $n' WHERE " . $of->('there') . ";
		UPDATE dv.account SET telephone1 = 'there $n' WHERE " . $of->('both') . ";
		UPDATE dv.account SET description = 'there $n' WHERE " . $of->('taken') . ";
		DELETE FROM dv.account WHERE " . $of->('gone_there') . ";
		INSERT INTO dv.account (name) SELECT 'new there $n' FROM generate_series(1, $rows / 20)");
	# counts the local updates, deletions, and inserts to be sent
	return $k->sql("SELECT count(*) + $rows / 20 FROM edit WHERE n = $n AND what IN ('here', 'both', 'gone_here')");
}

sub outcome_ok
{
	my ($k, $what) = @_;
	my $both = sub {
		my ($condition) = @_;
		return "(SELECT count(*) FROM account WHERE $condition) || ' ' || (SELECT count(*) FROM dv.account WHERE $condition)";
	};
	my $expected = sub { my ($w) = @_; my $c = $k->sql("SELECT count(*) FROM edit WHERE n = $n AND what = '$w'"); return "$c $c" };
	my $new = int($rows / 20);

	# read the changes that the service has made as a consequence, such as lookups to deleted rows
	$k->sql($sync);
	is($k->sql('SELECT sent FROM dataverse.runs ORDER BY id DESC LIMIT 1'), '0', "$what: the next run sends nothing");
	is( $k->sql(q{SELECT (SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x) || '|' ||
	                     (SELECT count(*) FROM (TABLE account EXCEPT TABLE dv.account) AS x) || '|' ||
	                     (SELECT count(*) - count(DISTINCT accountid) FROM dv.account)}), '0|0|0', "$what: the rows are the same, each once");
	is($k->sql('SELECT ' . $both->("name = 'here $n'")), $expected->('here'), "$what: local changes are in Dataverse");
	is($k->sql('SELECT ' . $both->("name = 'there $n'")), $expected->('there'), "$what: changes in Dataverse are in the copy");
	is($k->sql('SELECT ' . $both->("telephone1 = 'here $n'")), $expected->('both'), "$what: local edits have won where they should");
	is($k->sql('SELECT ' . $both->("description = 'there $n'")), $expected->('taken'), "$what: edits in Dataverse have won where they should");
	is($k->sql('SELECT ' . $both->("name IN ('new here $n', 'new there $n')")), join(' ', 2 * $new, 2 * $new), "$what: new rows exist once");
	is($k->sql("SELECT count(*) FROM account WHERE accountid IN (SELECT id FROM edit WHERE n = $n AND what LIKE 'gone%')"), '0',
		"$what: deleted rows are gone");
	is($k->sql(q{SELECT (SELECT count(*) FROM dataverse.conflicts) + (SELECT count(*) FROM dataverse_private.pending) +
	                    (SELECT count(*) FROM dataverse_private.local_changes)}), '0', "$what: nothing is left to send");
	is($k->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is shown as running');
	return;
}

my $k = SyncKills->start('kills_sync', page => $page);

$k->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$k->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv');
$k->sql($sync);
$k->sql('CALL gate.install()');

my $edits = edit($k);
my $before = $k->rows_written;
$k->chain($sync, 'backends and the postmaster', all => $all, victims => [qw(backend postmaster)], kinds => [qw(begun done held sent)],
	request => \%writes, state => $state);
is($k->rows_written - $before, $edits, 'each row was sent once');
outcome_ok($k, 'backends and the postmaster');

edit($k);
$k->chain($sync, 'dvsim', all => $all, victims => ['dvsim'], kinds => [qw(begun done held sent)], request => \%writes, state => $state);
outcome_ok($k, 'dvsim');

$k->crm->stop;
done_testing();
