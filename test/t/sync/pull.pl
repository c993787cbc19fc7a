# pull.pl
#		dataverse.pull(): copies that are interrupted anywhere and continue, rows
#		that change meanwhile, expired tokens, the rights with which code runs,
#		dumps.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;
use Dvsim;

my $rows = 6000;
my $page = 300;
my $pages = $rows / $page;
my $pull = q{CALL dataverse.pull('dv.account', 'public.account')};

# both meanings that the token of a first read may have, if dvsim supports them
my $knows = do
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$FindBin::Bin/../../dvsim/dvsim", '--help' ], '>', \$out, '2>', \$err);
	"$out$err" =~ /--delta-token/;
};

sub kill_backend
{
	my ($crm, $h) = @_;

	ok($crm->kill_backend($h), 'the server has restarted');
	return;
}

# Returns the pages of accounts that were sent, oldest first.
sub pages_sent
{
	my ($crm) = @_;
	return map { Crm::target($_) } grep { $_->{method} eq 'GET' && $_->{status} == 200 && $_->{target} =~ m{/accounts} }
	  $crm->requests;
}

sub same_ok
{
	my ($crm, $what) = @_;

	is( $crm->sql(q{SELECT (SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x) || '|' ||
	                       (SELECT count(*) FROM (TABLE account EXCEPT TABLE dv.account) AS x)}), '0|0', "$what: the rows are the same");
	return;
}

sub last_run
{
	my ($crm, $columns) = @_;
	return $crm->sql("SELECT $columns FROM dataverse.runs ORDER BY id DESC LIMIT 1");
}

sub hold_after
{
	my ($crm, $n) = @_;

	$crm->no_faults;
	$crm->fault(method => 'GET', path => '/accounts', after => $n, action => 'stall');
	return;
}

for my $token ($knows ? ('first', 'last') : ('as it is'))
{
	my $crm = Crm->start($token =~ s/ /_/gr, flags => [ $knows ? ('--delta-token', $token) : () ],
		options => { page_size => $page, budget_pacing => 'off' });

	$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
	$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, team) FROM SERVER crm INTO dv');
	$crm->sql('CREATE TABLE before AS SELECT accountid, row_number() OVER (ORDER BY accountid) AS n FROM dv.account');

	# ---- a first read that is killed after some pages, while rows are changed and deleted

	$crm->requests;
	for my $n (5, 4, 3)
	{
		hold_after($crm, $n);
		my $h = $crm->background($pull, "backfill $n");

		sleep 0.05 until $crm->sql(q{SELECT coalesce(sum(rows_read), 0) FROM dataverse.runs}) >= $page
		  && $crm->sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'backfill_} . $n . q{' AND wait_event_type = 'Extension'});
		sleep 0.3;
		is(last_run($crm, 'status'), 'running', "$token: a run in progress is shown as such");
		# on pages that were read and on some that were not, and new rows
		$crm->sql("UPDATE dv.account SET name = 'changed $n' WHERE accountid IN (SELECT accountid FROM before WHERE n % 97 = $n)");
		$crm->sql("DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM before WHERE n % 89 = $n)");
		$crm->sql("INSERT INTO dv.account (name) SELECT 'new $n' FROM generate_series(1, 11)");
		kill_backend($crm, $h);
		is(last_run($crm, 'status'), 'interrupted', 'and as interrupted when its session has ended');
	}
	$crm->no_faults;
	my $left = $crm->sql('SELECT count(*) FROM account');
	cmp_ok($left, '>=', 3 * 2 * $page, 'pages that were read are kept');
	pages_sent($crm);
	my $err = '';
	$crm->node->psql('postgres', $pull, stderr => \$err);
	like($err, qr/NOTICE:  pulled public.account: \d+ rows read/, 'the next run continues');
	is(last_run($crm, 'status'), 'succeeded', 'and succeeds');
	my @sent = pages_sent($crm);
	my @full = grep { /\$select=\w+,\w+,\w+/ && !/deltatoken/ && /skiptoken/i } @sent;
	cmp_ok(scalar @full, '<=', ($rows - $left) / $page + 3, 'with at most two pages read again');
	same_ok($crm, "$token, after a first read");
	is($crm->sql('SELECT count(DISTINCT accountid) = count(*) FROM account'), 't', 'no id occurs twice');

	# ---- killed at any moment

	$crm->sql(q{SELECT dataverse.forget_copy('account'); DROP TABLE account});
	for my $round (1 .. 4)
	{
		$crm->fault(method => 'GET', path => '/accounts', times => 0, action => 'delay', delay_ms => 100);
		my $h = $crm->background($pull, "any $round");
		sleep 0.1 + 0.13 * $round;
		kill_backend($crm, $h);
		$crm->no_faults;
	}
	pages_sent($crm);
	$crm->sql($pull);
	same_ok($crm, 'killed four times');
	is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is shown as running');

	# ---- changes

	$crm->requests;
	$crm->sql(q{UPDATE dv.account SET name = 'later' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 40)});
	$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 30)});
	$crm->sql(q{SELECT 1});
	pages_sent($crm);
	$crm->sql($pull);
	is(scalar(pages_sent($crm)), 1, 'changes take one request');
	is(last_run($crm, 'inserted, updated >= 40, unchanged, deleted'), '0|t|0|30', 'and only changed rows are written');
	same_ok($crm, 'after changes');

	# ---- an expired token, with deletions in the gap

	$crm->sql(q{UPDATE dv.account SET name = 'in the gap' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 25)});
	$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 35)});
	$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
	$crm->sql($pull);
	same_ok($crm, 'after an expired token');
	is(last_run($crm, "status, deleted, rows_read < 200, rows_compared >= $rows - 600"), 'succeeded|35|t|t',
		'ids and versions are compared, and only differing rows are read');
	$crm->sql($pull);
	is(last_run($crm, 'rows_compared, requests'), '0|2', 'then changes are tracked again');

	# ---- killed during a comparison

	$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 15)});
	$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
	for my $n (6, 5)
	{
		hold_after($crm, $n);
		my $h = $crm->background($pull, "compare $n");
		sleep 1.2;
		kill_backend($crm, $h);
	}
	$crm->no_faults;
	cmp_ok($crm->sql('SELECT sum(rows_compared) FROM dataverse.runs WHERE status = \'interrupted\' AND rows_compared > 0'),
		'>=', 6 * $page, 'a comparison was interrupted');
	$crm->sql($pull);
	same_ok($crm, 'after a comparison that was killed');
	cmp_ok(last_run($crm, 'rows_compared'), '<=', 2 * $rows - 8 * $page, 'it continued at the same position');

	if ($token ne 'last')
	{
		failures($crm);
		rights($crm);
		begun_twice($crm);
		dumped($crm);
	}
	$crm->stop;
}

# Runs that fail, wait, or encounter another one.
sub failures
{
	my ($crm) = @_;
	my ($status, $err);

	$crm->fault(method => 'GET', path => '/accounts', times => 0, status => 400, code => '0x80040216', message => 'no such luck');
	$status = $crm->node->psql('postgres', "\\set VERBOSITY verbose\n$pull", stderr => \$err);
	$crm->no_faults;
	isnt($status, 0, 'a run fails');
	like($err, qr/could not pull public\.account: could not read foreign table "account".*no such luck/, 'with the error of the service');
	like($err, qr/phase "current"/, 'and the phase');
	like(last_run($crm, 'status, error'), qr/^failed\|.*no such luck/, 'its record is kept');
	is($crm->sql(q{SELECT last_status FROM dataverse.sync_state WHERE target = 'public.account'}), 'failed', 'and shown');
	$crm->sql($pull);
	is(last_run($crm, 'status'), 'succeeded', 'the next one succeeds');
	$crm->idle_ok('after a failure');
	is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), '0', 'nor a lock');

	# a run that continues an interrupted one also has the changes since the first one began
	$crm->sql("UPDATE dv.account SET fax = 'before' WHERE accountid IN (SELECT accountid FROM account ORDER BY accountid LIMIT @{[ 3 * $page ]})");
	$crm->fault(method => 'GET', path => '/accounts', after => 2, status => 400, code => '0x80040216', message => 'no such luck');
	isnt($crm->node->psql('postgres', $pull, stderr => \$err), 0, 'a run fails halfway');
	$crm->no_faults;
	cmp_ok($crm->sql(q{SELECT count(*) FROM account WHERE fax = 'before'}), '>=', $page, 'after some pages');
	$crm->sql(q{UPDATE dv.account SET fax = 'meanwhile' WHERE accountid IN (SELECT accountid FROM account WHERE fax = 'before' LIMIT 9)});
	$crm->sql($pull);
	is(last_run($crm, 'status, rows_compared'), 'succeeded|0', 'the next one continues');
	same_ok($crm, 'after an interrupted run');

	# and so does one that continues a comparison
	my $tasks = q{CALL dataverse.pull('dv.task', 'public.task')};
	$crm->sql("IMPORT FOREIGN SCHEMA dataverse LIMIT TO (task) FROM SERVER crm INTO dv;
		INSERT INTO dv.task (subject) SELECT 'before' FROM generate_series(1, @{[ 3 * $page ]})");
	$crm->sql($tasks);
	$crm->fault(method => 'GET', path => '/tasks', after => 3, status => 400, code => '0x80040216', message => 'no such luck');
	isnt($crm->node->psql('postgres', $tasks, stderr => \$err), 0, 'a comparison fails halfway');
	$crm->no_faults;
	like($err, qr/phase "compare"/, 'while an untracked table is compared');
	$crm->sql(q{UPDATE dv.task SET subject = 'meanwhile'});
	$crm->sql($tasks);
	is($crm->sql(q{SELECT count(*) FROM task WHERE subject = 'meanwhile'}), 3 * $page, 'the next one has all changes');
	$crm->sql(q{SELECT dataverse.forget_copy('public.task'); DROP TABLE task; DROP FOREIGN TABLE dv.task});

	# a target that refuses a row
	$crm->sql(q{ALTER TABLE account ADD CONSTRAINT named CHECK (name <> 'forbidden')});
	$crm->sql(q{INSERT INTO dv.account (name) VALUES ('forbidden')});
	$status = $crm->node->psql('postgres', $pull, stderr => \$err);
	like($err, qr/violates check constraint "named"/, 'a constraint stops a run');
	like(last_run($crm, 'status, sqlstate'), qr/^failed\|23514$/, 'which has failed');
	$crm->sql(q{ALTER TABLE account DROP CONSTRAINT named});
	$crm->sql($pull);
	same_ok($crm, 'after the constraint is dropped');

	# all users are throttled
	$crm->fault(method => 'GET', path => '/accounts', status => 429, code => '0x80072322', message => 'slow down', retry_after => 2);
	my $h = $crm->background($pull, 'throttled');
	sleep 1;
	is(last_run($crm, 'status'), 'running', 'a throttled run waits');

	# another run
	$err = '';
	$crm->node->psql('postgres', q{CALL dataverse.pull('dv.account', 'public.account', wait => false)}, stderr => \$err);
	like($err, qr/NOTICE:  skipped public\.account: another session is pulling or syncing it/, 'another run skips the copy');
	is(last_run($crm, 'status'), 'skipped', 'and says so');
	$crm->sql($pull);
	is($crm->sql('SELECT string_agg(status, $$ $$ ORDER BY id) FROM (SELECT id, status FROM dataverse.runs ORDER BY id DESC LIMIT 3) AS r'),
		'succeeded skipped succeeded', 'or waits');
	$crm->finish($h);
	is($crm->sql('SELECT throttles FROM (SELECT id, throttles FROM dataverse.runs ORDER BY id DESC LIMIT 3) AS r ORDER BY id LIMIT 1'), '1',
		'the throttle is counted');

	# cancelled
	$crm->fault(method => 'GET', path => '/accounts', action => 'stall');
	$h = $crm->background($pull, 'cancelled');
	sleep 0.5;
	$crm->sql("SELECT pg_cancel_backend($h->{pid})");
	like($crm->finish($h), qr/canceling statement/, 'a run is cancelled');
	is(last_run($crm, 'status, sqlstate'), 'failed|57014', 'and its end is recorded');
	$crm->no_faults;

	# one bad table
	$crm->sql(q{CREATE SCHEMA copies; CREATE VIEW copies.contact AS SELECT 1 AS one});
	$status = $crm->node->psql('postgres', q{CALL dataverse.pull_all('dv', 'copies')}, stderr => \$err);
	like($err, qr/1 of 3 tables could not be pulled/, 'pull_all fails if one table does');
	is($crm->sql('SELECT (SELECT count(*) FROM copies.account) = (SELECT count(*) FROM account) AND EXISTS (TABLE copies.team)'), 't',
		'and copies the others');
	# a schedule of every minute does not write a line for each table
	$crm->sql(q{DROP VIEW copies.contact; CALL dataverse.pull_all('dv', 'copies')});
	$crm->node->psql('postgres', q{CALL dataverse.pull_all('dv', 'copies')}, stderr => \$err);
	like($err, qr/^[^\n]*NOTICE:  pulled 3 tables of schema dv: 0 with changes$/, 'without changes, it reports one line');
	$crm->sql(q{UPDATE dv.account SET name = 'one line' WHERE accountid = (SELECT min(accountid::text)::uuid FROM copies.account)});
	$crm->node->psql('postgres', q{CALL dataverse.pull_all('dv', 'copies')}, stderr => \$err);
	like($err, qr/^[^\n]*NOTICE:  pulled copies\.account: 1 row read, 0 inserted, 1 updated,[^\n]*\n[^\n]*NOTICE:  pulled 3 tables of schema dv: 1 with changes$/, 'plus one for each table with changes');
	return;
}

# A role without further rights, and one that tries to gain more.
sub rights
{
	my ($crm) = @_;
	my ($status, $err);
	my $options = $crm->sql(q{SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM information_schema.user_mapping_options});

	$crm->sql("CREATE ROLE copier LOGIN; CREATE ROLE mallory LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO copier;
		CREATE USER MAPPING FOR copier SERVER crm OPTIONS ($options);
		GRANT USAGE ON SCHEMA dv TO copier; GRANT SELECT ON dv.account TO copier; CREATE SCHEMA mine AUTHORIZATION copier;
		GRANT CREATE ON SCHEMA public TO mallory");
	my $as = sub { return $crm->as(@_); };

	# operators and functions that shadow those of pg_catalog
	$as->('mallory', q{
		CREATE FUNCTION public.leak(uuid, uuid) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
		CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = public.leak);
		CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
		CREATE FUNCTION public.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
		CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
		CREATE FUNCTION public.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$});
	my ($out, $error) = $as->('copier', q{SET search_path = public, pg_catalog;
		CALL dataverse.pull('dv.account', 'mine.account', columns => '{accountid,name,versionnumber}')});
	like($error, qr/pulled mine\.account: [1-9]\d* rows read/, 'a role without rights of its own pulls');
	($out, $error) = $as->('copier', q{SET search_path = public, pg_catalog;
		CALL dataverse.pull('dv.account', 'mine.account', columns => '{accountid,name,versionnumber}', sweep => '0')});
	like($error, qr/pulled mine\.account: 0 rows read, .* [1-9]\d* compared/, 'and compares');
	($out, $error) = $as->('copier', 'SELECT target, status FROM dataverse.runs GROUP BY 1, 2');
	is($out, 'mine.account|succeeded', 'sees its own runs');
	is(($as->('copier', 'SELECT target FROM dataverse.sync_state'))[0], 'mine.account', 'and state');
	is(($as->('mallory', 'SELECT count(*) FROM dataverse.runs'))[0], '0', 'other roles do not');
	($out, $error) = $as->('copier', $pull);
	like($error, qr/must be owner of table public\.account/, 'no role pulls into the table of another role');
	($out, $error) = $as->('mallory', 'SELECT dataverse_private.copy_get(-1)');
	like($error, qr/the copy has been forgotten/, 'a copy that does not exist has no owner');

	my $theirs = $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'public.account'});
	for my $try ("SELECT dataverse_private.copy_get($theirs)", "SELECT dataverse_private.copy_put(jsonb_populate_record(NULL::dataverse_private.copies, '{\"id\": $theirs}'))",
		"SELECT dataverse_private.copy_begin_anew($theirs, 'dv.account')",
		"SELECT dataverse_private.copy_note_ids($theirs, NULL, NULL)", "SELECT dataverse_private.copy_drop_ids($theirs, '{}')",
		"SELECT * FROM dataverse_private.copy_ids_of($theirs)",
		"SELECT dataverse.forget_copy('public.account')", "SELECT dataverse_private.copy_open('dv.account', 'public.account')")
	{
		like(($as->('copier', $try))[1], qr/must be owner of table public\.account/, "refused: $try");
	}
	for my $try ('TABLE dataverse_private.copies', 'TABLE dataverse_private.copy_ids', 'TABLE dataverse_private.run_log', 'DELETE FROM dataverse.runs')
	{
		like(($as->('copier', $try))[1], qr/permission denied|cannot delete/, "refused: $try");
	}
	like(($as->('mallory', q{SELECT * FROM dataverse_private.read_page('dv.account', NULL, NULL, NULL, NULL, false)}))[1], qr/permission denied/,
		'no role reads a page of a table without the privilege');
	return;
}

# Two jobs begin the same copy at the same time.
sub begun_twice
{
	my ($crm) = @_;
	my $hold = 'SELECT pg_sleep(1); COMMIT';

	my $h = $crm->background("BEGIN; SELECT dataverse_private.copy_open('dv.account', 'public.twice'); $hold", 'opens');
	my ($status, $out, $err) = $crm->node->psql('postgres', q{CALL dataverse.pull('dv.account', 'public.twice', columns => '{name}')});
	is($status, 0, 'two sessions can begin a copy at once') or diag($err);
	$crm->finish($h);
	$crm->sql('DROP TABLE twice');

	# the table is being created, and the other session does not see it yet
	my $copy = $crm->sql(q{SELECT dataverse_private.copy_open('dv.account', 'public.twice')});
	$h = $crm->background("BEGIN; SELECT dataverse_private.pull_prepare($copy, 'dv.account', 'public.twice', '{name}', 'delete', 'add', false, NULL, 'abort', true); $hold",
		'makes');
	ok($crm->node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'makes' AND query ~ 'pg_sleep' AND wait_event = 'PgSleep'}),
		'a session has created the table');
	$crm->sql(q{SELECT dataverse_private.copy_open('dv.account', 'public.twice')});
	$crm->finish($h);
	is($crm->sql("SELECT columns FROM dataverse_private.copies WHERE id = $copy"), '{accountid,name}', 'which another one does not start over');
	($status, $out, $err) = $crm->node->psql('postgres',
		"SELECT dataverse_private.pull_prepare($copy, 'dv.contact', 'public.twice', NULL, 'delete', 'add', false, NULL, 'abort', true)");
	like($err, qr/table public\.twice is a copy of another foreign table, dv\.account/, 'and which does not become a copy of another foreign table');
	$crm->sql(q{DROP TABLE twice; SELECT dataverse.forget_copy('public.twice')});
	return;
}

# A dump, restored into another database, continues at the same position.
sub dumped
{
	my ($crm) = @_;
	my $node = $crm->node;

	$crm->sql(q{DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP SCHEMA copies CASCADE});
	$crm->sql(q{SELECT dataverse.forget_copy('public.account')});
	$crm->sql($pull);
	# a row that is refused, and filed
	$crm->sql(q{ALTER TABLE account ADD CONSTRAINT kind CHECK (name <> 'unkind'); INSERT INTO dv.account (name) VALUES ('unkind')});
	$crm->sql(q{CALL dataverse.pull('dv.account', 'public.account', on_error => 'continue')});
	is($crm->sql(q{SELECT refused || ' ' || (SELECT count(*) FROM dataverse.rejects) FROM dataverse.sync_state WHERE target = 'public.account'}), '1 1', 'a row is refused');
	$crm->sql(q{CALL dataverse.track('public.account')});
	$crm->sql(q{UPDATE account SET description = 'changed before the dump' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 2)});
	my $captured = $crm->sql('SELECT copy, id, operation, columns, base, jsonb_build_object(columns[1], was[1]) FROM dataverse_private.local_changes ORDER BY id');
	is(scalar(split /\n/, $captured), 2, 'local changes are captured');
	$crm->sql(q{INSERT INTO dv.account (name) SELECT 'after the dump' FROM generate_series(1, 3)});
	command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-Fc', '-f', $node->data_dir . '/dump' ], 'the database is dumped');
	$crm->sql('CREATE DATABASE restored');
	command_ok([ 'pg_restore', '-d', $node->connstr('restored'), '--exit-on-error', $node->data_dir . '/dump' ], 'and restored');
	my $err = '';
	$node->psql('restored', $pull, stderr => \$err);
	like($err, qr/could not pull public\.account: row \S+ was refused: .*"kind"/, 'where the row is retried');
	$node->safe_psql('restored', 'ALTER TABLE account DROP CONSTRAINT kind');
	$node->psql('restored', $pull, stderr => \$err);
	like($err, qr/pulled public\.account: 1 row read, 1 inserted, 0 updated, 0 unchanged, 0 deleted, 0 compared; 3 requests/,
		'and accepted');
	is($node->safe_psql('restored', 'SELECT count(*) FROM account WHERE name IN (\'after the dump\', \'unkind\')'), '4', 'and the copy continues');
	is($node->safe_psql('restored', 'SELECT count(*) FROM dataverse.rejects'), '0', 'and the entry is deleted');
	# a pull has removed it from the log, so as not to overwrite these rows
	is($node->safe_psql('restored', q{SELECT copy, id, operation, columns, base, was FROM dataverse_private.pending ORDER BY id}), $captured,
		'captured changes are restored, and nothing else');
	$node->safe_psql('restored', q{INSERT INTO account (name) VALUES ('new'); DELETE FROM account WHERE description = 'changed before the dump'});
	is($node->safe_psql('restored', 'SELECT operation, count(*), count(base), count(DISTINCT copy) FROM dataverse_private.local_changes GROUP BY 1 ORDER BY 1'),
		"D|2|2|1\nI|1|0|1", 'and capturing continues');
	is($node->safe_psql('restored', q{SELECT bool_and(l.copy = c.id) FROM dataverse_private.local_changes AS l, dataverse_private.copies AS c WHERE c.target_oid = 'account'::regclass}),
		't', 'for the same copy');
	$node->safe_psql('restored', q{CALL dataverse.track('account'); CALL dataverse.untrack('account'); TRUNCATE account});
	return;
}

done_testing();
