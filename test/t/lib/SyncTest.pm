# SyncTest.pm
#		Code shared by tests of dataverse.sync() with many rows: a synced
#		table, edits of some of its rows, and the rows that a run has written.
#
#	my $crm = start_sync('sync');	# a Crm with accounts on both sides
#	edit('account', 100, 7, 'ours');
#	is(written_by($sync), 1000, 'exactly the rows that have changed are sent');
#	same_ok('afterwards');
#
# SPDX-License-Identifier: PostgreSQL

package SyncTest;

use strict;
use warnings;

use Exporter qw(import);
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;

our @EXPORT = qw($sync start_sync rows_written written_by last_run same_ok wait_until edit);

use constant ROWS => 100_000;

our $sync = q{CALL dataverse.sync('dv.account', 'account')};
my $crm;

sub start_sync
{
	my ($name, $rows) = @_;

	$crm = Crm->start($name, users => 2, options => { budget_pacing => 'off', useful_limit => 'off' });
	$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=' . ($rows // ROWS));
	$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv');
	$crm->sql($sync);
	$crm->sql('CREATE TABLE numbers AS SELECT accountid, row_number() OVER (ORDER BY accountid) AS n FROM account; CREATE INDEX ON numbers (n); ANALYZE');
	return $crm;
}

sub rows_written
{
	my $users = $crm->dvsim->control('GET', '/_dvsim/stats')->json->{users};
	my $n = 0;

	for my $user (values %$users)
	{
		$n += $user->{rows}{$_} // 0 for qw(create update upsert delete batch);
	}
	return $n;
}

# Runs a statement, and returns the number of rows written in Dataverse.
sub written_by
{
	my ($sql) = @_;
	my $before = rows_written();

	$crm->sql($sql);
	return rows_written() - $before;
}

sub last_run
{
	my ($columns) = @_;
	return $crm->sql("SELECT $columns FROM dataverse.runs ORDER BY id DESC LIMIT 1");
}

sub same_ok
{
	my ($what) = @_;

	# every change also changes the version
	is( $crm->sql(q{CREATE TEMP TABLE there AS SELECT accountid, name, fax, description, versionnumber FROM dv.account;
		CREATE TEMP VIEW here AS SELECT accountid, name, fax, description, versionnumber FROM account;
		SELECT (SELECT count(*) FROM (TABLE there EXCEPT TABLE here) AS x) || '|' ||
		       (SELECT count(*) FROM (TABLE here EXCEPT TABLE there) AS x)}), '0|0', "$what: the rows are the same");
	return;
}

sub wait_until
{
	my ($what, $test) = @_;
	my $end = time + 60;

	until ($test->())
	{
		if (time > $end)
		{
			fail("waited in vain: $what");
			return;
		}
		sleep 0.05;
	}
	return;
}

# Selects rows by their numbers: those with this remainder.
sub edit
{
	my ($table, $of, $rest, $name) = @_;

	$crm->sql("UPDATE $table SET name = '$name' WHERE accountid = ANY (ARRAY(SELECT accountid FROM numbers WHERE n % $of = $rest))");
	return;
}

1;
