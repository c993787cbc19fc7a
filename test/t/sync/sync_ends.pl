# sync_ends.pl
#		dataverse.sync() of many rows: runs that are killed anywhere, that have an
#		expired token, that fail, or that wait in vain; rights; dumps.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;
use Session;
use SyncTest;

my $crm = start_sync('sync_ends');
my $node = $crm->node;

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
	is(written_by($sync), 0, "$what: then nothing is left to send");
	same_ok($what);
	is($crm->sql(q{SELECT dataverse.row_count('dv.account')}), $there + 250 - 5, "$what: no row exists twice");
	is($crm->sql('SELECT count(*) FROM dataverse_private.pending') . $crm->sql('SELECT count(*) FROM dataverse_private.local_changes'), '00', 'no state is left');
}
is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is shown as running');

# ---- an expired token, with changes on both sides

edit('account', 1000, 15, 'ours before the token expired');
edit('dv.account', 1000, 16, 'theirs before the token expired');
edit('account', 10000, 17, 'ours, too');
edit('dv.account', 10000, 17, 'theirs, too');
$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM numbers WHERE n % 10000 = 18)});
$crm->sql(q{INSERT INTO account (name) VALUES ('ours before the token expired')});
$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
is(written_by($sync), 101, 'after a token has expired, local changes are sent');
is(last_run('conflicts, status'), '10|succeeded', 'and conflicts are found');
is($crm->sql(q{SELECT count(*) FROM account WHERE name IN ('ours, too', 'ours before the token expired')}), '111', 'no local change is lost');
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
is(written_by($sync), 100, 'the next one sends the rest');
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
like(($as->('syncer', $own))[1], qr/synced mine\.account: 0 rows sent/, 'a role without further rights syncs');
$as->('syncer', 'GRANT USAGE ON SCHEMA mine TO editor; GRANT SELECT, UPDATE ON mine.account TO editor');
is(($as->('editor', q{UPDATE mine.account SET fax = 'editor' WHERE accountid IN (SELECT accountid FROM mine.account ORDER BY 1 LIMIT 3)}))[1], '',
	'a role that may only write to the table edits it');
like(($as->('syncer', $own))[1], qr/synced mine\.account: 3 rows sent/, 'and the owner sends the changes');
$as->('syncer', q{UPDATE mine.account SET fax = 'ours' WHERE fax = 'editor'});
$crm->sql(q{UPDATE dv.account SET fax = 'theirs' WHERE fax = 'editor'});
$as->('syncer', $own);
is(($as->('syncer', 'SELECT count(*) FROM dataverse.conflicts'))[0], '3', 'the owner sees conflicts');
is(($as->('editor', 'SELECT count(*) FROM dataverse.conflicts'))[0], '0', 'other roles do not');
my $conflict = $crm->sql('SELECT min(id) FROM dataverse.conflicts');
my $copy = $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'mine.account'});
for my $try ("SELECT dataverse.resolve($conflict, 'local')", "SELECT dataverse_private.resolve_copy('mine.account', 'local', 1000000, jsonb_build_object('mine.account', 1000000))",
	"SELECT dataverse_private.pending_take($copy, '{}')", "SELECT dataverse_private.pending_ids($copy, '{filed}')", "SELECT dataverse_private.pending_place($copy, '{}')",
	"SELECT dataverse_private.pending_among($copy, '{}')", "SELECT dataverse_private.pending_dirty($copy, '{}')", "SELECT dataverse_private.pending_retry($copy, NULL)",
	"SELECT dataverse_private.pending_stage($copy, '{}')",
	"SELECT dataverse_private.pending_loosen($copy, jsonb_populate_record(NULL::dataverse_private.sync_plan, '{}'))",
	"SELECT dataverse_private.pending_next($copy, '{filed}', 1)", "SELECT dataverse_private.pending_set($copy, '{}')",
	"SELECT dataverse_private.pending_disown($copy, '{name}')", "SELECT dataverse_private.pending_keep($copy, '{}', true)", "SELECT dataverse_private.pending_hide($copy, '{}', '{}')", "SELECT dataverse_private.pending_drop($copy, NULL)",
	"SELECT dataverse_private.pending_count($copy)", 'TABLE dataverse_private.pending', 'DELETE FROM dataverse.conflicts')
{
	like(($as->('mallory', $try))[1], qr/must be owner of table|permission denied|cannot delete/, "refused: $try");
}
is(($as->('syncer', "SELECT dataverse.resolve($conflict, 'local')"))[0], 't', 'the owner resolves them');

# ---- a dump continues at the same position

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
	like($err, qr/synced public\.account: 10 rows sent, 0 refused, 5 conflicts/, 'it sends the changes that had not been sent');
	is($node->safe_psql('restored', q{SELECT dataverse.resolve('account', 'service')}), '5', 'and has the conflicts');
}

# ---- a timeout while it waits for another run
{
	my ($locker, $other) = (Session->new($node), Session->new($node));

	# the other run has the lock of the copy, but cannot be recorded
	$locker->query('BEGIN');
	$locker->query('LOCK TABLE dataverse_private.run_log IN SHARE MODE');
	$other->start($sync);
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND granted}) or die;
	for my $call ([ pull => q{CALL dataverse.pull('dv.account', 'account')} ], [ sync => $sync ])
	{
		my ($what, $sql) = @$call;
		my $err = '';

		$node->psql('postgres', "SET lock_timeout = '200ms'; $sql", stderr => \$err);
		like($err, qr/could not $what public\.account: canceling statement due to lock timeout/, "$what: a run that waits for another one fails");
		like($err, qr/DETAIL:  It was waiting for another session .*\nHINT:  .*wait => false/, '… and names the reason for the wait');
	}
	$locker->query('COMMIT');
	is($other->finish->{message} // '', '', 'the other one continues');
	$_->close for $locker, $other;
}

$crm->idle_ok('at the end');
$crm->stop;
done_testing();
