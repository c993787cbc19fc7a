# kills_push.pl
#		Backends, the postmaster, and dvsim are killed at each commit of
#		dataverse.push(), and while it writes.  Afterwards Dataverse has each row
#		once, with its values, and no row was written twice.
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

use Session;
use SyncKills;

my $all = ($ENV{KILLS} // '') eq 'all';
my $rows = $ENV{ROWS} // 300;
my $chunk = $rows <= 10_000 ? 50 : 20_000;
my %writes = (method => 'POST', path => '/api/data');
my $state = q{SELECT ' ' || coalesce(string_agg(concat_ws(' ', staging IS NULL, done, marked), ',' ORDER BY id), '') FROM dataverse_private.push_states};
my $k = SyncKills->start('kills_push');

$k->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER crm INTO dv;
	CREATE TABLE source (id uuid, serial text, number integer, name text)');

# Dataverse has the rows of this query, each once.
sub same_ok
{
	my ($query, $what) = @_;
	my $there = 'SELECT new_serial, new_number, new_name FROM dv.new_meter';

	is( $k->sql("SELECT (SELECT count(*) FROM ($there EXCEPT $query) AS x) || '|' || (SELECT count(*) FROM ($query EXCEPT $there) AS x) || '|' ||
	             (SELECT count(*) FROM dv.new_meter) - (SELECT count(*) FROM ($query) AS q) || '|' ||
	             (SELECT count(*) - count(DISTINCT new_serial) FROM dv.new_meter)"), '0|0|0|0', "$what: Dataverse has each row once");
	return;
}

# Each transaction of a push of two chunks, including the last one.
for my $kind (qw(begun done))
{
	my $points = 0;

	for my $n (1 .. 20)
	{
		my $mark = "$kind:$n";

		$k->sql("DELETE FROM dv.new_meter; TRUNCATE source; INSERT INTO source (serial, number, name) SELECT 'S-' || n, n, '$mark' FROM generate_series(1, $chunk * 2) AS n");
		my $push = "CALL dataverse.push(\$\$SELECT serial AS new_serial, number AS new_number, name AS new_name FROM source WHERE name = '$mark'\$\$, 'dv.new_meter', chunk => $chunk)";
		$k->begin_operation;
		my $before = $k->sql('SELECT coalesce(max(id), 0) FROM dataverse.runs');
		my $result = $k->attempt($push, $kind, $n, 'backend');
		last if $result;
		$points++;
		# after the end of the run, nothing is left to continue
		if ($k->sql("SELECT count(*) FROM dataverse.runs WHERE id > $before AND status = 'succeeded'") eq '0')
		{
			is(Session->new($k->node)->try($push)->{message} // '', '', "killed at $mark: the next call continues");
		}
		is($k->sql("SELECT count(*) || '|' || count(DISTINCT new_serial) FROM dv.new_meter WHERE new_name = '$mark'"), join('|', $chunk * 2, $chunk * 2),
			"killed at $mark: Dataverse has each row once");
	}
	cmp_ok($points, '>=', 3, "killed at each transaction, $kind");
}
$k->sql('DELETE FROM dv.new_meter');

my @groups = ([ 'backends and the postmaster', qw(backend postmaster) ], [ 'dvsim', 'dvsim' ]);
for my $group (@groups)
{
	my ($who, @victims) = @$group;
	my $push = sub {
		my ($operation, $query, $more, $count) = @_;
		my $before = $k->rows_written;

		$k->chain("CALL dataverse.push(\$\$$query\$\$, 'dv.new_meter', operation => '$operation', chunk => $chunk$more)", "$who, $operation",
			all => $all, victims => \@victims, kinds => [qw(begun done held sent)], request => \%writes, state => $state,
			most => $all ? undef : 50);
		is($k->rows_written - $before, $count, "$who, $operation: each row was written once")
		  || diag explain $k->crm->user_stats('app1')
		  if $who ne 'dvsim';
		is($k->sql('SELECT count(*) FROM dataverse_private.push_states'), '0', "$who, $operation: no state is left");
		is($k->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', "$who, $operation: no run is shown as running");
		return;
	};

	$k->sql("TRUNCATE source; INSERT INTO source (serial, number, name) SELECT 'S-' || n, n, 'row ' || n FROM generate_series(1, $rows) AS n");
	$push->('insert', 'SELECT serial AS new_serial, number AS new_number, name AS new_name FROM source', '', $rows);
	same_ok('SELECT serial, number, name FROM source', "$who, insert");

	$k->sql("UPDATE source AS s SET id = m.new_meterid, name = 'updated ' || number FROM dv.new_meter AS m WHERE m.new_serial = s.serial");
	$push->('update', 'SELECT id AS new_meterid, name AS new_name FROM source', '', $rows);
	same_ok('SELECT serial, number, name FROM source', "$who, update");

	# half of the rows exist
	$k->sql("UPDATE source SET name = 'upserted ' || number WHERE number > $rows / 2;
		INSERT INTO source (serial, number, name) SELECT 'S-' || n, n, 'new ' || n FROM generate_series($rows + 1, $rows * 3 / 2) AS n");
	$push->('upsert', "SELECT serial AS new_serial, number AS new_number, name AS new_name FROM source WHERE number > $rows / 2", ", key => '{new_serial}'", $rows);
	same_ok('SELECT serial, number, name FROM source', "$who, upsert");

	$k->sql('UPDATE source AS s SET id = m.new_meterid FROM dv.new_meter AS m WHERE m.new_serial = s.serial');
	$push->('delete', 'SELECT id AS new_meterid FROM source', '', $rows * 3 / 2);
	same_ok('SELECT serial, number, name FROM source WHERE false', "$who, delete");
}

$k->crm->stop;
done_testing();
