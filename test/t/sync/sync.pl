# sync.pl
#		dataverse.sync(): which of many rows are sent, and which are not; edits on
#		both sides while it runs.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;
use Session;
use SyncTest;

my $crm = start_sync('sync');
my $node = $crm->node;

# ---- many rows, few of them changed

edit('account', 100, 7, 'ours');
is(written_by($sync), 1000, 'exactly the changed rows are sent');
is(last_run('sent, conflicts, status'), '1000|0|succeeded', 'and counted');
is(written_by($sync), 0, 'none in the next run');
is(last_run('sent, updated, inserted, deleted, conflicts'), '0|0|0|0|0', 'in which the sent rows change nothing in the copy');
same_ok('after 1000 changes');

edit('account', 100, 8, 'ours');
edit('dv.account', 1000, 8, 'theirs');
is(written_by($sync), 900, 'rows that have changed in Dataverse as well are not sent');
is(last_run('sent, conflicts, status'), '900|100|succeeded', 'they are conflicts');
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name = 'theirs'}), '100', 'and not overwritten in Dataverse');
is($crm->sql(q{SELECT count(*) FROM account WHERE name = 'ours' AND accountid IN (SELECT accountid FROM numbers WHERE n % 1000 = 8)}), '100',
	'nor in the copy');
is($crm->sql(q{SELECT count(*) FROM dataverse.conflicts WHERE ours ->> 'name' = 'ours' AND theirs ->> 'name' = 'theirs' AND columns = '{name}'}),
	'100', 'both versions are filed');
is(written_by($sync), 0, 'they are kept');
is(last_run('conflicts'), '100', 'and are counted again');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
is(written_by($sync), 0, 'a decision for the service writes nothing to Dataverse');
same_ok('after a decision for the service');

for my $policy ('service', 'local')
{
	my $rest = $policy eq 'service' ? 9 : 10;

	edit('account', 100, $rest, 'ours');
	edit('dv.account', 1000, $rest, 'theirs');
	is(written_by(qq{CALL dataverse.sync('dv.account', 'account', conflict => '$policy')}), $policy eq 'service' ? 900 : 1000,
		"policy $policy: the number of rows sent");
	is(last_run('conflicts'), '0', 'no conflict is left');
	is($crm->sql("SELECT count(*) FROM account WHERE name = 'theirs' AND accountid IN (SELECT accountid FROM numbers WHERE n % 1000 = $rest)"),
		$policy eq 'service' ? 100 : 0, 'the winner');
	same_ok("policy $policy");
}
edit('account', 100, 11, 'ours');
edit('dv.account', 1000, 11, 'theirs');
is(written_by(q{CALL dataverse.sync('dv.account', 'account', strict => true)}), 900, 'strict: rows that have changed in Dataverse are not sent');
is(last_run('conflicts'), '100', 'they are conflicts');
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
is(written_by(q{CALL dataverse.sync('dv.account', 'account', strict => true)}), 100, 'until they are resolved');
same_ok('strict');

# ---- strict: a change in Dataverse between reading the versions and writing

edit('account', 1000, 12, 'ours');
# the first request reads changes, the second one versions
$crm->fault(method => 'GET', path => '/accounts', after => 1, action => 'delay', delay_ms => 2000);
{
	my $before = rows_written();
	my $h = $crm->background(q{CALL dataverse.sync('dv.account', 'account', strict => true)}, 'strict');

	wait_until('versions are read', sub { ($crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits} // 1) > 0 });
	edit('dv.account', 100000, 1012, 'theirs');
	$crm->finish($h);
	is(rows_written() - $before, 100, 'all rows are written except the one that was changed in Dataverse');
}
is($crm->sql(q{SELECT name FROM dv.account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 1012)}), 'theirs', 'that change is kept');
is($crm->sql(q{SELECT kind || ' ' || count(*) FROM dataverse.conflicts GROUP BY kind}), 'changed 1', 'and is a conflict');
is($crm->sql('SELECT count(*) FROM dataverse.rejects'), '0', 'and not a rejected row');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
$crm->sql($sync);
same_ok('after a strict run');

# ---- local edits during a run

# an edit that is not committed yet, of a row that has changed in Dataverse
my $editor = Session->new($node);
edit('dv.account', 10000, 1, 'theirs');
$editor->query('BEGIN');
$editor->query(q{UPDATE account SET name = 'ours, uncommitted' WHERE accountid IN (SELECT accountid FROM numbers WHERE n = 1)});
for my $call ($sync, q{CALL dataverse.pull('dv.account', 'account', "full" => true)})
{
	my $h = $crm->background($call, 'waits');

	wait_until('the merge waits for the edit', sub {
		$crm->sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type = 'Lock'}) eq '1' });
	$editor->query('COMMIT');
	is($crm->finish($h) =~ /ERROR/ ? 1 : 0, 0, 'a run that has waited for an edit succeeds');
	is($crm->sql(q{SELECT name FROM account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 1)}), 'ours, uncommitted',
		'an edit that was not committed yet is not overwritten');
	$crm->sql($sync);
	is($crm->sql(q{SELECT kind FROM dataverse.conflicts}), 'changed', 'but a conflict');
	edit('dv.account', 10000, 1, 'theirs again');
	$editor->query('BEGIN');
	$editor->query(q{UPDATE account SET name = 'ours, uncommitted' WHERE accountid IN (SELECT accountid FROM numbers WHERE n = 1)});
}
$editor->query('ROLLBACK');
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
$crm->sql($sync);
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
$crm->sql($sync);
same_ok('after edits that were not committed');

# deleted and inserted, not committed yet
edit('dv.account', 20000, 2, 'theirs');
$editor->query('BEGIN');
$editor->query(q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 20000 = 2)});
my $new = $crm->sql(q{INSERT INTO dv.account (name) VALUES ('theirs') RETURNING accountid});
$editor->query("INSERT INTO account (accountid, name) VALUES ('$new', 'ours')");
{
	my $h = $crm->background($sync, 'waits');

	wait_until('the merge waits for the deletion', sub {
		$crm->sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event_type = 'Lock'}) eq '1' });
	$editor->query('COMMIT');
	$crm->finish($h);
}
$crm->sql($sync);
is($crm->sql(q{SELECT kind, count(*) FROM dataverse.conflicts GROUP BY 1 ORDER BY 1}), "deleted here|5\nexists|1", 'both are conflicts');
is($crm->sql("SELECT name FROM account WHERE accountid = '$new'"), 'ours', 'and nothing is overwritten');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
$crm->sql($sync);
same_ok('after rows that were deleted and inserted');

# edits of rows that are being sent: the same column, another one, deletions
edit('account', 1000, 13, 'first');
$crm->fault(method => 'POST', path => 'UpdateMultiple', action => 'delay', delay_ms => 1500, times => 0);
{
	my $h = $crm->background($sync, 'sends');

	wait_until('rows are being sent', sub { $crm->sql(q{SELECT count(*) FROM dataverse_private.pending WHERE state = 'sending'}) eq '100' });
	$crm->sql(q{UPDATE account SET name = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 13);
		UPDATE account SET description = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 1013);
		DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 2013)});
	$crm->no_faults;
	$crm->finish($h);
}
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name = 'first'}), '100', 'the values at the start of sending are sent');
is($crm->sql(q{SELECT count(*) FROM account WHERE name = 'second'}), '10', 'later changes are kept');
is(written_by($sync), 30, 'and is sent by the next run');
is(last_run('conflicts'), '0', 'in which own changes cause no conflicts');
# deleting a row changes other rows in Dataverse, which the next run reads
is(written_by($sync), 0, 'then nothing is left to send');
same_ok('after edits of rows that were being sent');

# the same, while another column of the row is changed on both sides
edit('account', 1000, 14, 'first again');
# the rows are written at once, and are read back when the answer has arrived
$crm->fault(method => 'POST', path => 'UpdateMultiple', action => 'delay', delay_ms => 4000);
{
	my $before = rows_written();
	my $h = $crm->background($sync, 'reads back');

	wait_until('rows have been sent', sub { rows_written() == $before + 100 });
	$crm->sql(q{UPDATE account SET description = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 1014);
		UPDATE dv.account SET description = 'theirs' WHERE accountid = ANY (ARRAY(SELECT accountid FROM numbers WHERE n % 20000 = 1014))});
	$crm->finish($h);
}
is(written_by($sync), 5, 'columns changed only locally are sent');
is(last_run('conflicts'), '5', 'columns changed on both sides are conflicts');
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE description = 'theirs'}), '5', 'and are not overwritten in Dataverse');
is($crm->sql(q{SELECT count(*) FROM account WHERE description = 'second' AND name = 'first again'}), '10', 'nor in the copy');
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
is(written_by($sync), 5, 'until they are resolved');
same_ok('after edits of both sides of rows that were being sent');

$crm->idle_ok('at the end');
$crm->stop;
done_testing();
