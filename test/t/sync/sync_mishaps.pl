# sync_mishaps.pl
#		Runs of dataverse.pull() and dataverse.sync() that are cancelled anywhere, or
#		end while rows are being sent; tables that were emptied, recreated, or have
#		exchanged their names; dumps that are older than both sides.
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
use SyncKills;

my $rows = 200;
my $k = SyncKills->start('mishaps', page => 50, options => { retry_after_buffer => '5ms', fallback_retry_after => '20ms' });
my $crm = $k->crm;
my $node = $k->node;
my %call = (
	pull => q{CALL dataverse.pull('dv.account', 'public.account')},
	sync => q{CALL dataverse.sync('dv.account', 'public.account')});

sub last_run { return $k->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }

sub same_ok
{
	my ($what, $table, $database) = @_;

	$table //= 'account';
	is( $node->safe_psql($database // 'postgres', qq{SELECT (SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE $table) AS x) || '|' ||
		(SELECT count(*) FROM (TABLE $table EXCEPT TABLE dv.account) AS x) || '|' || (SELECT count(*) > 100 FROM $table)}), '0|0|true', $what);
	return;
}

sub edit
{
	my ($table, $number, $name) = @_;
	$k->sql("UPDATE $table SET name = '$name' WHERE accountid = (SELECT accountid FROM numbers WHERE n = $number)");
	return;
}

sub name_of
{
	my ($table, $number) = @_;
	return $k->sql("SELECT name FROM $table WHERE accountid = (SELECT accountid FROM numbers WHERE n = $number)");
}

# Kills a session that waits for a request delayed by dvsim.
sub kill_at
{
	my ($sql, %rule) = @_;

	$crm->fault(times => 0, %rule);
	my $s = $k->begin($sql);
	ok($k->await_held($s), 'a request is delayed');
	$k->kill_backend($s);
	$crm->no_faults;
	return;
}

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$k->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv');
$k->sql($call{pull});
$k->sql('CREATE TABLE numbers AS SELECT accountid, row_number() OVER (ORDER BY accountid) AS n FROM account');

# ---- the table was emptied, recreated, renamed

$k->sql('TRUNCATE account');
$k->sql($call{pull});
same_ok('an emptied table is filled again');
is($k->sql("$call{pull}; SELECT rows_read + rows_compared FROM dataverse.runs ORDER BY id DESC LIMIT 1"), '0', 'once');
$k->sql('DELETE FROM account');
$k->sql(q{UPDATE dv.account SET name = 'changed' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 1)});
$k->sql($call{pull});
same_ok('also if a row has changed in Dataverse');
$k->sql('DROP TABLE account; CREATE TABLE account (LIKE dv.account, PRIMARY KEY (accountid))');
$k->sql($call{pull});
same_ok('a recreated table is filled');
my $swap = sub { my ($one, $other) = @_; return "ALTER TABLE $one RENAME TO swapped; ALTER TABLE $other RENAME TO $one; ALTER TABLE swapped RENAME TO $other" };
$k->sql('CREATE TABLE other (LIKE account INCLUDING ALL); INSERT INTO other SELECT * FROM account LIMIT 120');
$k->sql($swap->('account', 'other'));
$k->sql($call{pull});
same_ok('a table that has taken its name is filled');
edit('dv.account', 2, 'after the exchange');
$k->sql(q{CALL dataverse.pull('dv.account', 'other')});
is(last_run('rows_read'), '1', 'the former one continues at the same position');
same_ok('and is in step', 'other');

# both are copies, and one has an edit that was not sent
$k->sql($call{sync});
edit('account', 3, 'ours');
$k->sql($swap->('account', 'other'));
$k->sql($call{pull});
$k->sql(q{CALL dataverse.sync('dv.account', 'other')});
is(last_run('sent'), '1', 'an edit stays with the renamed table');
is(name_of('dv.account', 3), 'ours', 'and is sent');
$k->sql($swap->('account', 'other'));
$k->sql($call{sync});
same_ok('names that were exchanged back');
is($k->sql('SELECT count(*) FROM dataverse_private.copies'), '2', 'no copy is lost');
$k->sql(q{DROP TABLE other; SELECT dataverse.forget_copy('public.other')});

# captured, and emptied without being captured
edit('account', 4, 'ours');
$k->sql('SET session_replication_role = replica; TRUNCATE account');
$k->sql($call{sync});
same_ok('a captured table that was emptied is filled again');
is($k->sql(q{SELECT dataverse.row_count('dv.account')}), $rows, 'and no row of Dataverse is deleted');
# by captured deletions
$k->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM numbers WHERE n > 150)});
$k->sql($call{sync});
$k->sql('DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n > 140)');
$k->sql($call{sync});
is($k->sql(q{SELECT dataverse.row_count('dv.account')}), '140', 'deletions are sent');
same_ok('after deletions');

# ---- edits of rows that may have been sent when a run was killed

for my $action ('stall', 'reset_after_commit')
{
	edit('account', 5, "$action, first");
	if ($action eq 'stall')
	{
		kill_at($call{sync}, method => 'POST', path => '/api/data', action => 'stall');
	}
	else
	{
		# written; then the row cannot be read back
		kill_at($call{sync}, method => 'GET', path => '/accounts', after => 2, action => 'stall');
	}
	is($k->sql(q{SELECT state FROM dataverse_private.pending}), 'sending', "$action: the row was being sent");
	edit('account', 5, "$action, second");
	$k->sql($call{sync});
	is(name_of('dv.account', 5), "$action, second", "$action: a successful run has sent the changes made before it began");
	is($k->sql('SELECT (SELECT count(*) FROM dataverse_private.pending) + (SELECT count(*) FROM dataverse_private.local_changes)'), '0', 'nothing is left');
}
same_ok('after edits of rows being sent');

# ---- rows being sent whose values Dataverse stores in another form, later, or not at all

$k->sql(q{IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO dv;
	INSERT INTO dv.new_alltypes (new_name) VALUES ('both'), ('sent')});
my $sync_types = q{CALL dataverse.sync('dv.new_alltypes', 'public.types')};
my $types_ok = sub {
	my ($what, $warning, $sent) = @_;
	my $err = '';

	$node->psql('postgres', $sync_types, stderr => \$err);
	like($err, $warning, "$what: the run succeeds, and reports ignored values");
	is(last_run('status, sent, rejected, conflicts'), "succeeded|$sent|0|0", "$what: no row is a conflict, or sent again");
	is($k->sql('SELECT count(*) FROM (SELECT to_jsonb(t) FROM types AS t EXCEPT SELECT to_jsonb(f) FROM dv.new_alltypes AS f) AS x'), '0',
		"$what: the rows are the same");
	return;
};
my $ignored = qr/discarded changes of 1 row of public\.types in columns that cannot be written to Dataverse\n/;
my $fine = qr/\A(?!.*WARNING)/s;
$k->sql($sync_types);
$k->sql(q{UPDATE types SET new_choices = '{3,1}' WHERE new_name = 'both'; UPDATE dv.new_alltypes SET new_choices = '{1,3}' WHERE new_name = 'both'});
$types_ok->('a list in another order', $fine, 0);
# as for a table that claims to accept such values, so that the service must be asked
$k->sql(q{ALTER FOREIGN TABLE dv.new_alltypes ALTER importsequencenumber OPTIONS (SET create_only 'false')});
my $changes = q{new_choices = '{2,3,2,1}', importsequencenumber = %s, new_text = '%s', new_decimal = 1.00005, new_datetime = '2026-01-02 03:04:05.6'};
$k->sql('UPDATE types SET ' . sprintf($changes, 7, 'read back') . q{ WHERE new_name = 'sent'});
$types_ok->('sent and read back', $ignored, 1);
$k->sql('UPDATE types SET ' . sprintf($changes, 8, 'not read back') . q{ WHERE new_name = 'sent'});
# changes and versions are read, then the rows are written
kill_at($sync_types, method => 'GET', path => '/new_alltypes', after => 2, action => 'stall');
is($k->sql(q{SELECT new_text FROM dv.new_alltypes WHERE new_name = 'sent'}), 'not read back', 'the row has been written');
$types_ok->('sent and not read back', $ignored, 0);
# the state of a new row is sent in a second request
for my $fault ([ state => method => 'POST', after => 1 ], [ row => method => 'GET', path => '/new_alltypes', after => 1 ])
{
	my ($missing, @rule) = @$fault;

	$k->sql(qq{INSERT INTO types (new_name, new_choices, statecode, overriddencreatedon) VALUES ('$missing', '{2,1}', 1, '2020-01-01')});
	kill_at($sync_types, path => '/api/data', action => 'stall', @rule);
	is($k->sql(qq{SELECT statecode FROM dv.new_alltypes WHERE new_name = '$missing'}), $missing eq 'state' ? 0 : 1, 'the row has been created');
	$types_ok->("created, $missing missing", $fine, $missing eq 'state' ? 1 : 0);
	is($k->sql(qq{SELECT statecode, createdon = '2020-01-01' FROM dv.new_alltypes WHERE new_name = '$missing'}), '1|t', 'it has the expected state');
}

# ---- throttled while rows are sent, more often than a row is retried

for my $what ('insert', 'update', 'delete')
{
	$k->sql({ insert => q{INSERT INTO account (name) VALUES ('throttled')}, update => q{UPDATE account SET fax = 'throttled' WHERE name = 'throttled'},
		delete => q{DELETE FROM account WHERE name = 'throttled'} }->{$what});
	$crm->fault(method => 'POST', path => '/api/data', status => 429, code => '0x80072322', message => 'slow down', retry_after => 0, times => 40);
	my $s = Session->new($node)->start($call{sync});
	my $result = $s->finish;
	is($result->{message} // '', '', "$what: a run waits while all users are throttled");
	is($crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits}, 40, 'as long as the throttle lasts');
	$crm->no_faults;
	is(last_run('status, sent, rejected, conflicts'), 'succeeded|1|0|0', 'and has sent the row when it succeeds');
	is($k->sql(q{SELECT count(*) FROM dataverse_private.pending}), '0', 'nothing is left');
	$s->close;
}
same_ok('after throttles');

# ---- cancelled anywhere: the lock is released, and no run is shown as running

for my $what ('pull', 'sync')
{
	my $cancelled = 0;

	for my $kind ('begun', 'done')
	{
		for my $n (1 .. 30)
		{
			edit('account', 6, "$what $kind $n") if $what eq 'sync';
			edit('dv.account', 7, "$what $kind $n");
			my $s = $k->begin($call{$what}, "$kind:$n");
			if (!$k->await_gate($s))
			{
				my $result = $s->finish;
				is($result->{message} // '', '', "$what: not cancelled at $kind:$n");
				$s->close;
				last;
			}
			$cancelled++;
			$k->watcher->query('SELECT pg_cancel_backend(' . $s->pid . ')');
			my $result = $s->finish;
			is($result->{sqlstate}, '57014', "$what: cancelled at $kind:$n");
			is($k->watcher->value('SELECT count(*) FROM pg_locks WHERE locktype = $$userlock$$ AND pid = ' . $s->pid), '0', 'its session holds no lock');
			is(last_run(q{status IN ('failed', 'interrupted', 'succeeded')}), 't', 'the run is not running');
			is($k->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'succeeded' AND error IS NOT NULL}), '0', 'and has not succeeded');
			$k->sql(q{CALL dataverse.pull('dv.account', 'public.account', wait => false)});
			is(last_run('status'), 'succeeded', 'other sessions can run');
			$s->close;
		}
	}
	cmp_ok($cancelled, '>=', 6, "$what: cancelled at each transaction");
	$k->sql($call{sync});
	$k->sql($call{sync});
	same_ok("$what: after cancels");
}

# ---- a dump that is older than both sides

edit('account', 10, 'not sent in the dump');
$k->sql("UPDATE account SET name = 'sending in the dump' WHERE accountid IN (SELECT accountid FROM numbers WHERE n BETWEEN 11 AND 14)");
kill_at($call{sync}, method => 'POST', path => '/api/data', action => 'stall');
command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-Fc', '-f', $node->data_dir . '/dump' ], 'the database is dumped');
$k->sql($call{sync});
is(name_of('dv.account', 11), 'sending in the dump', 'the rows being sent in the dump have been sent');
edit('dv.account', 12, 'later changed in Dataverse');
$k->sql($call{sync});
edit('account', 13, 'later changed locally');
edit('account', 15, 'later changed locally');
$k->sql(q{DELETE FROM account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 16);
	DELETE FROM dv.account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 14);
	INSERT INTO account (name) VALUES ('new afterwards')});
$k->sql($call{sync});
for my $way ('token', 'expired')
{
	my $err = '';

	$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 }) if $way eq 'expired';
	$k->sql("CREATE DATABASE restored_$way");
	command_ok([ 'pg_restore', '-d', $node->connstr("restored_$way"), '--exit-on-error', $node->data_dir . '/dump' ], "$way: the dump is restored");
	my $before = $k->rows_written;
	$node->psql("restored_$way", $call{sync}, stderr => \$err);
	unlike($err, qr/ERROR/, "$way: the old copy is synced");
	is($k->rows_written - $before, 0, 'no row is sent again');
	is( $node->safe_psql("restored_$way", q{SELECT string_agg(kind || ' ' || n, ', ' ORDER BY n) FROM dataverse.conflicts JOIN numbers ON accountid = row_id}),
		'changed 12, changed 13, deleted there 14', 'rows that others have changed since are conflicts');
	$node->safe_psql("restored_$way", q{SELECT dataverse.resolve('public.account', 'service')});
	$node->safe_psql("restored_$way", $call{sync});
	is($k->rows_written - $before, 0, 'and the service keeps its values');
	same_ok("$way: the rows are the same", 'account', "restored_$way");
}

$crm->stop;
done_testing();
