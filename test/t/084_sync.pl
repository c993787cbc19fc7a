# 084_sync.pl
#		dataverse.sync(): what is sent, and what is not, of many rows; edits that
#		are made while it runs, on both sides; runs that are killed anywhere;
#		rights; dumps.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../dvsim/t/lib";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;
use Session;

my $rows = 100_000;
my $sync = q{CALL dataverse.sync('dv.account', 'account')};
my $crm = Crm->start('sync', users => 2, options => { budget_pacing => 'off' });
my $node = $crm->node;

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

# Runs, and returns how many rows have been written in Dataverse.
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

# ---- many rows, of which few have changed

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv');
$crm->sql($sync);
$crm->sql('CREATE TABLE numbers AS SELECT accountid, row_number() OVER (ORDER BY accountid) AS n FROM account; CREATE INDEX ON numbers (n); ANALYZE');

# rows are named by their number modulo 100 here, or modulo 1000
sub edit
{
	my ($table, $of, $rest, $name, $how) = @_;
	$crm->sql("UPDATE $table SET name = '$name' WHERE accountid = ANY (ARRAY(SELECT accountid FROM numbers WHERE n % $of = $rest))");
	return;
}

edit('account', 100, 7, 'ours');
is(written_by($sync), 1000, 'exactly the rows that have changed are sent');
is(last_run('sent, conflicts, status'), '1000|0|succeeded', 'and counted');
is(written_by($sync), 0, 'none in the next run');
is(last_run('sent, updated, inserted, deleted, conflicts'), '0|0|0|0|0', 'in which what was sent changes nothing here');
same_ok('after 1000 changes');

edit('account', 100, 8, 'ours');
edit('dv.account', 1000, 8, 'theirs');
is(written_by($sync), 900, 'rows that have changed there as well are not sent');
is(last_run('sent, conflicts, status'), '900|100|succeeded', 'they are conflicts');
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name = 'theirs'}), '100', 'and not overwritten there');
is($crm->sql(q{SELECT count(*) FROM account WHERE name = 'ours' AND accountid IN (SELECT accountid FROM numbers WHERE n % 1000 = 8)}), '100',
	'nor here');
is($crm->sql(q{SELECT count(*) FROM dataverse.conflicts WHERE ours ->> 'name' = 'ours' AND theirs ->> 'name' = 'theirs' AND columns = '{name}'}),
	'100', 'both versions are filed');
is(written_by($sync), 0, 'they stay so');
is(last_run('conflicts'), '100', 'and are counted again');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
is(written_by($sync), 0, 'a decision for the service writes nothing there');
same_ok('after a decision for the service');

for my $policy ('service', 'local')
{
	my $rest = $policy eq 'service' ? 9 : 10;

	edit('account', 100, $rest, 'ours');
	edit('dv.account', 1000, $rest, 'theirs');
	is(written_by(qq{CALL dataverse.sync('dv.account', 'account', conflict => '$policy')}), $policy eq 'service' ? 900 : 1000,
		"policy $policy: what is sent");
	is(last_run('conflicts'), '0', 'nothing is left to decide');
	is($crm->sql("SELECT count(*) FROM account WHERE name = 'theirs' AND accountid IN (SELECT accountid FROM numbers WHERE n % 1000 = $rest)"),
		$policy eq 'service' ? 100 : 0, 'who wins');
	same_ok("policy $policy");
}
edit('account', 100, 11, 'ours');
edit('dv.account', 1000, 11, 'theirs');
is(written_by(q{CALL dataverse.sync('dv.account', 'account', strict => true)}), 900, 'strict: rows that have changed there are not sent');
is(last_run('conflicts'), '100', 'they are conflicts');
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
is(written_by(q{CALL dataverse.sync('dv.account', 'account', strict => true)}), 100, 'until somebody decides');
same_ok('strict');

# ---- strict: a change there between the look at the versions and the write

edit('account', 1000, 12, 'ours');
# the first request asks for changes, the second one for the versions
$crm->fault(method => 'GET', path => '/accounts', after => 1, action => 'delay', delay_ms => 2000);
{
	my $before = rows_written();
	my $h = $crm->background(q{CALL dataverse.sync('dv.account', 'account', strict => true)}, 'strict');

	wait_until('versions are read', sub { ($crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits} // 1) > 0 });
	edit('dv.account', 100000, 1012, 'theirs');
	$crm->finish($h);
	is(rows_written() - $before, 100, 'all rows but one are written, which was changed there');
}
is($crm->sql(q{SELECT name FROM dv.account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 1012)}), 'theirs', 'that change is kept');
is($crm->sql(q{SELECT kind || ' ' || count(*) FROM dataverse.conflicts GROUP BY kind}), 'changed 1', 'and is in conflict');
is($crm->sql('SELECT count(*) FROM dataverse.rejects'), '0', 'not among the rejects');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
$crm->sql($sync);
same_ok('after a strict run');

# ---- edits here while it runs

# one that is not committed yet, of a row that has changed there
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
		'an edit that was not committed is not overwritten');
	$crm->sql($sync);
	is($crm->sql(q{SELECT kind FROM dataverse.conflicts}), 'changed', 'but in conflict');
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

# deleted and inserted without being committed
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

	wait_until('rows are being sent', sub { $crm->sql(q{SELECT count(*) FROM dataverse.pending WHERE state = 'sending'}) eq '100' });
	$crm->sql(q{UPDATE account SET name = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 13);
		UPDATE account SET description = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 1013);
		DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 2013)});
	$crm->no_faults;
	$crm->finish($h);
}
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name = 'first'}), '100', 'what was there when sending began is sent');
is($crm->sql(q{SELECT count(*) FROM account WHERE name = 'second'}), '10', 'what was changed meanwhile stays');
is(written_by($sync), 30, 'and is sent by the next run');
is(last_run('conflicts'), '0', 'in which own changes are no conflicts');
# to delete a row changes others there, which the next run reads
is(written_by($sync), 0, 'then there is nothing to send');
same_ok('after edits of rows that were being sent');

# the same, while another column of the row is changed on both sides
edit('account', 1000, 14, 'first again');
# the rows are written at once, and are read back when the answer has come
$crm->fault(method => 'POST', path => 'UpdateMultiple', action => 'delay', delay_ms => 4000);
{
	my $before = rows_written();
	my $h = $crm->background($sync, 'reads back');

	wait_until('rows have been sent', sub { rows_written() == $before + 100 });
	$crm->sql(q{UPDATE account SET description = 'second' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 1014);
		UPDATE dv.account SET description = 'theirs' WHERE accountid = ANY (ARRAY(SELECT accountid FROM numbers WHERE n % 20000 = 1014))});
	$crm->finish($h);
}
is(written_by($sync), 5, 'what only this side has changed meanwhile is sent');
is(last_run('conflicts'), '5', 'what both have changed is a conflict');
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE description = 'theirs'}), '5', 'and is not overwritten there');
is($crm->sql(q{SELECT count(*) FROM account WHERE description = 'second' AND name = 'first again'}), '10', 'nor here');
$crm->sql(q{SELECT dataverse.resolve('account', 'local')});
is(written_by($sync), 5, 'until somebody decides');
same_ok('after edits of both sides of rows that were being sent');

# ---- killed anywhere

my $round = 0;
for my $fault (
	[ 'stall', 'POST', 'UpdateMultiple', 0 ], [ 'stall', 'POST', 'UpdateMultiple', 3 ],
	[ 'reset_after_commit', 'POST', 'UpdateMultiple', 0 ], [ 'stall', 'POST', 'CreateMultiple', 1 ],
	[ 'stall', 'GET', '/accounts', 0 ], [ 'stall', 'GET', '/accounts', 1 ], [ 'stall', 'GET', '/accounts', 2 ],
	[ 'stall', 'GET', '/accounts', 4 ], [ 'stall', 'GET', '/accounts', 7 ])
{
	my ($action, $method, $path, $after) = @$fault;
	my $what = "killed at $path, $action, after $after";
	my $from = 100 + 20 * $round++;

	$crm->sql("UPDATE account SET name = 'round $round', fax = '$round' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 200 = $from % 200);
		UPDATE account SET description = 'round $round' WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 400 = ($from + 1) % 400);
		DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 20000 = $from + 2);
		INSERT INTO account (name) SELECT 'new in round $round' FROM generate_series(1, 250)");
	edit('dv.account', 5000, $from + 5, "theirs in round $round");
	my $there = $crm->sql(q{SELECT dataverse.row_count('dv.account')});
	my $before = rows_written();
	$crm->fault(method => $method, path => $path, after => $after, times => 0, action => $action);
	my $h = $crm->background($sync, "killed $round");
	my $end = time + 20;
	until ($crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits} || time > $end || !$h->{run}->pumpable)
	{
		sleep 0.05;
		$h->{run}->pump_nb;
	}
	sleep 0.3;
	ok($crm->kill_backend($h), 'the server has restarted');
	$crm->no_faults;
	sleep 0.2;
	$crm->sql($sync);
	is(last_run('status, conflicts'), 'succeeded|0', "$what: the next run succeeds without conflicts");
	cmp_ok(rows_written() - $before, '<=', 500 + 250 + 250 + 5, "$what: nothing is written twice") if $action eq 'stall';
	is(written_by($sync), 0, "$what: then there is nothing to send");
	same_ok($what);
	is($crm->sql(q{SELECT dataverse.row_count('dv.account')}), $there + 250 - 5, "$what: no row is there twice");
	is($crm->sql('SELECT count(*) FROM dataverse.pending') . $crm->sql('SELECT count(*) FROM dataverse.local_changes'), '00', 'nothing is left over');
}
is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is left running');

# ---- a token that has expired, with changes on both sides

edit('account', 1000, 15, 'ours before the token expired');
edit('dv.account', 1000, 16, 'theirs before the token expired');
edit('account', 10000, 17, 'ours, too');
edit('dv.account', 10000, 17, 'theirs, too');
$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 18)});
$crm->sql(q{INSERT INTO account (name) VALUES ('ours before the token expired')});
$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
is(written_by($sync), 101, 'after a token has expired, what was changed here is sent');
is(last_run('conflicts, status'), '10|succeeded', 'and conflicts are found');
is($crm->sql(q{SELECT count(*) FROM account WHERE name IN ('ours, too', 'ours before the token expired')}), '111', 'nothing is lost here');
$crm->sql(q{SELECT dataverse.resolve('account', 'service')});
$crm->sql($sync);
same_ok('after a token has expired');

# ---- throttled, failing

edit('account', 1000, 20, 'throttled');
$crm->fault(method => 'POST', path => 'UpdateMultiple', status => 429, code => '0x80072322', message => 'slow down', retry_after => 1, times => 1);
is(written_by($sync), 100, 'throttles are waited out');
edit('account', 1000, 21, 'failing');
$crm->fault(method => 'POST', path => 'UpdateMultiple', status => 500, times => 0);
{
	my $err = '';
	$node->psql('postgres', $sync, stderr => \$err);
	like($err, qr/could not sync public\.account: /, 'a run that cannot send fails') || diag $err;
	like($err, qr/phase "send"/, 'and says where');
}
$crm->no_faults;
is(last_run('status'), 'failed', 'it is never shown as succeeded');
is(written_by($sync), 100, 'the next one sends what is left');
same_ok('after a failure');

# ---- rights

my $options = $crm->sql(q{SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM information_schema.user_mapping_options});
$crm->sql("CREATE ROLE syncer LOGIN; CREATE ROLE editor LOGIN; CREATE ROLE mallory LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO syncer;
	CREATE USER MAPPING FOR syncer SERVER crm OPTIONS ($options); GRANT USAGE ON SCHEMA dv TO syncer;
	GRANT SELECT, INSERT, UPDATE, DELETE ON dv.account TO syncer; CREATE SCHEMA mine AUTHORIZATION syncer; GRANT CREATE ON SCHEMA public TO mallory");
my $as = sub {
	my ($role, $sql) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => [ '-U', $role ]);
	return ($out, $err);
};
$as->('mallory', q{CREATE FUNCTION public.leak(uuid, uuid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.leak);
	CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE FUNCTION public.unnest(uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$});
my $own = q{SET search_path = public, pg_catalog; CALL dataverse.sync('dv.account', 'mine.account', columns => '{accountid,name,fax,versionnumber}')};
like(($as->('syncer', $own))[1], qr/synced mine\.account: 0 rows sent/, 'a role without rights of its own syncs');
$as->('syncer', 'GRANT USAGE ON SCHEMA mine TO editor; GRANT SELECT, UPDATE ON mine.account TO editor');
is(($as->('editor', q{UPDATE mine.account SET fax = 'editor' WHERE accountid IN (SELECT accountid FROM mine.account ORDER BY 1 LIMIT 3)}))[1], '',
	'who may only write to the table edits');
like(($as->('syncer', $own))[1], qr/synced mine\.account: 3 rows sent/, 'and the owner sends it');
$as->('syncer', q{UPDATE mine.account SET fax = 'ours' WHERE fax = 'editor'});
$crm->sql(q{UPDATE dv.account SET fax = 'theirs' WHERE fax = 'editor'});
$as->('syncer', $own);
is(($as->('syncer', 'SELECT count(*) FROM dataverse.conflicts'))[0], '3', 'the owner sees conflicts');
is(($as->('editor', 'SELECT count(*) FROM dataverse.conflicts'))[0], '0', 'others do not');
my $conflict = $crm->sql('SELECT min(id) FROM dataverse.conflicts');
my $copy = $crm->sql(q{SELECT id FROM dataverse.copies WHERE target = 'mine.account'});
for my $try ("SELECT dataverse.resolve($conflict, 'local')", "SELECT dataverse.resolve_copy('mine.account', 'local')",
	"SELECT dataverse.pending_take($copy, '{}')", "SELECT dataverse.pending_ids($copy, '{filed}')", "SELECT dataverse.pending_place($copy, '{}')",
	"SELECT dataverse.pending_among($copy, '{}')", "SELECT dataverse.pending_dirty($copy, '{}')", "SELECT dataverse.pending_retry($copy, NULL)",
	"SELECT dataverse.pending_stage($copy, '{}', '{}', '{}', '{}', '{}', '{}')",
	"SELECT dataverse.pending_loosen($copy, '{}')",
	"SELECT dataverse.pending_next($copy, '{filed}', 1)", "SELECT dataverse.pending_set($copy, '{}')", "SELECT dataverse.pending_drop($copy, NULL)",
	"SELECT dataverse.pending_count($copy)", 'TABLE dataverse.pending', 'DELETE FROM dataverse.conflicts')
{
	like(($as->('mallory', $try))[1], qr/must be owner of table|permission denied|cannot delete/, "refused: $try");
}
is(($as->('syncer', "SELECT dataverse.resolve($conflict, 'local')"))[0], 't', 'the owner decides');

# ---- a dump goes on where it was

$crm->sql($sync);
edit('account', 10000, 22, 'ours before the dump');
edit('dv.account', 20000, 22, 'theirs before the dump');
$crm->sql($sync);
edit('account', 10000, 23, 'ours before the dump');
command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-Fc', '-N', 'mine', '-f', $node->data_dir . '/dump' ], 'the database is dumped');
$crm->sql('CREATE DATABASE restored');
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), '--exit-on-error', $node->data_dir . '/dump' ], 'and restored');
{
	my $err = '';
	$node->psql('restored', $sync, stderr => \$err);
	like($err, qr/synced public\.account: 10 rows sent, 0 refused, 5 conflicts/, 'it sends what had not been sent');
	is($node->safe_psql('restored', q{SELECT dataverse.resolve('account', 'service')}), '5', 'and knows the conflicts');
}

# ---- a timeout while it waits for another run
{
	my $other = Session->new($node);

	$other->query(q{SELECT dataverse.copy_lock(id, true) FROM dataverse.copies WHERE target = 'public.account'});
	for my $call ([ pull => q{CALL dataverse.pull('dv.account', 'account')} ], [ sync => $sync ])
	{
		my ($what, $sql) = @$call;
		my $err = '';

		$node->psql('postgres', "SET lock_timeout = '200ms'; $sql", stderr => \$err);
		like($err, qr/could not $what public\.account: canceling statement due to lock timeout/, "$what: a run that waits for another one fails");
		like($err, qr/DETAIL:  It was waiting for another session .*\nHINT:  .*wait => false/, '… and says for what it waited');
	}
	$other->close;
}

$crm->idle_ok('at the end');
$crm->stop;
done_testing();
