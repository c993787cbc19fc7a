# pull_gone.pl
#		When a copy takes rows for deleted or new: pages that skip a row, copies that
#		are emptied while they are read, environments restored from a backup, refused
#		change tracking, failing requests for versions.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;
use Dvsim;

my $crm = Crm->start('gone', options => { page_size => 100, budget_pacing => 'off', max_retries => 1 });
my %set = (task => 'tasks', account => 'accounts');

$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (task, account) FROM SERVER crm INTO dv');
$crm->sql(q{INSERT INTO dv.task (subject) SELECT 'task ' || i FROM generate_series(1, 250) AS i});
$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=1000');

sub pull
{
	my ($table, $more) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', "CALL dataverse.pull('dv.$table', 'public.$table'" . ($more // '') . ')', stderr => \$err);

	return ($status, $err);
}

sub pulls_ok { my ($table, $what, $more) = @_; my ($status, $err) = pull($table, $more); return is($status, 0, $what) || diag $err; }
sub last_run { return $crm->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }

sub same_ok
{
	my ($table, $what) = @_;
	my $id = $table eq 'task' ? 'activityid' : 'accountid';

	return is($crm->sql("SELECT (SELECT count(*) FROM (SELECT $id, versionnumber FROM dv.$table EXCEPT SELECT $id, versionnumber FROM $table) AS x) || ' ' ||
		(SELECT count(*) FROM (SELECT $id, versionnumber FROM $table EXCEPT SELECT $id, versionnumber FROM dv.$table) AS x)"), '0 0', $what);
}

# Has a comparison get a page without its first rows, after "after" other pages.
sub skip_rows
{
	my ($path, $n) = @_;
	my ($page) = grep { $_->{target} =~ m{/$path\?} && $_->{target} !~ /top=1/ } reverse $crm->requests;
	my $answer = $crm->sql("SELECT dataverse.request('crm', 'GET', '$path?\$select=activityid,versionnumber&\$orderby=activityid')");
	my $rows = decode_json($answer)->{value};

	splice @$rows, 0, $n;
	$crm->fault(method => 'GET', path => "/$path", times => 1, status => 200, action => 'status', after => 1, body => { value => $rows });
	return;
}

# ---- pages of a table without change tracking

pulls_ok('task', 'a table without change tracking is copied');
same_ok('task', 'exactly');
$crm->requests;
pulls_ok('task', 'and compared', q{, sweep => '0'});
my @compared = grep { $_ =~ /^tasks\?/ && $_ !~ /\$top=1/ } map { Crm::target($_) } $crm->requests;
cmp_ok(scalar @compared, '>=', 3, 'in pages');
like($compared[0], qr/\$orderby=activityid/, 'in the order of ids');

skip_rows('tasks', 30);
$crm->requests;
pulls_ok('task', 'a page skips rows', q{, sweep => '0'});
$crm->no_faults;
is(last_run('deleted'), 0, 'no row is deleted because of that');
same_ok('task', 'and no row is missing');

$crm->sql(q{DELETE FROM dv.task WHERE activityid IN (SELECT activityid FROM dv.task ORDER BY 1 LIMIT 20)});
skip_rows('tasks', 30);
$crm->requests;
pulls_ok('task', 'a page skips rows, and others are gone', q{, sweep => '0'});
$crm->no_faults;
is(last_run('deleted'), 20, 'these are deleted');
same_ok('task', 'and no others');
my @asked = grep { /activityid eq|In\(/ } map { Crm::target($_) } $crm->requests;
cmp_ok(scalar @asked, '<=', 3, 'they are requested in bulk') or diag explain \@asked;

# a row that was refused, and is skipped by a page, is still wanted
$crm->sql(q{ALTER TABLE task ADD CHECK (subject <> 'bad')});
$crm->sql(q{UPDATE dv.task SET subject = 'bad' WHERE activityid = (SELECT min(activityid::text)::uuid FROM task)});
pulls_ok('task', 'a row is refused', q{, sweep => '0', on_error => 'continue'});
is($crm->sql('SELECT refused FROM dataverse.sync_state'), 1, 'and recorded');
$crm->sql(q{DELETE FROM task WHERE activityid = (SELECT min(activityid::text)::uuid FROM task)});
skip_rows('tasks', 30);
pulls_ok('task', 'a page skips it', q{, sweep => '0', on_error => 'continue'});
$crm->no_faults;
is($crm->sql('SELECT refused FROM dataverse.sync_state'), 1, 'it stays recorded');
$crm->sql('ALTER TABLE task DROP CONSTRAINT task_subject_check');
pulls_ok('task', 'until it is accepted');
same_ok('task', 'and copied');

# ---- the environment was restored: versions are smaller than before

$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
pulls_ok('task', 'changes are found by version');
is(last_run('rows_compared'), 0, 'and no rows are compared');
# rows of the copy from a discarded future
$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m),
	marks = ARRAY(SELECT m + 100000 FROM unnest(marks) AS m);
	UPDATE task SET versionnumber = versionnumber + 100000, subject = 'of the future' WHERE activityid IN (SELECT activityid FROM task ORDER BY 1 LIMIT 40)});
pulls_ok('task', 'after a restoration, the greatest version is smaller than it was');
same_ok('task', 'and all rows are compared at once');
is($crm->sql(q{SELECT count(*) FROM task WHERE subject = 'of the future'}), 0, 'so that no value of the future is left');
$crm->sql(q{INSERT INTO dv.task (subject) VALUES ('after the restoration')});
pulls_ok('task', 'later changes');
same_ok('task', 'are read as well');

# the newest row is deleted: this is detected, and changes are found by version again
$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
$crm->sql(q{DELETE FROM dv.task WHERE activityid = (SELECT activityid FROM task ORDER BY versionnumber DESC LIMIT 1)});
pulls_ok('task', 'the newest row is deleted');
same_ok('task', 'and is deleted from the copy');
pulls_ok('task', 'the next run');
is(last_run('rows_compared'), 0, 'compares no rows');

# ---- the greatest version cannot be requested

$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
$crm->sql(q{INSERT INTO dv.task (subject) VALUES ('unasked'); UPDATE dv.task SET subject = 'unasked' WHERE subject = 'task 9'});
my %slow = ( method => 'GET', path => '$top=1', times => 0, status => 500, code => '0x80044151', message => 'Sql error: Execution Timeout Expired', action => 'status');
$crm->fault(%slow);
pulls_ok('task', 'the service takes too long to find the greatest version');
$crm->no_faults;
same_ok('task', 'and rows are read nevertheless');
is(last_run('rows_compared'), 0, 'without a comparison');
$crm->sql(q{SELECT dataverse.forget_copy('public.task'); DROP TABLE task});
$crm->fault(%slow);
pulls_ok('task', 'and so they are in a first read');
$crm->no_faults;
same_ok('task', 'of all rows');

# ---- change tracking that is refused, although the definition says it is enabled

for my $code ('0x80072492', '0x80044358')
{
	# the first request reads the greatest version
	$crm->fault(method => 'GET', path => '/accounts', after => 1, times => 1, status => 400, code => $code, message => 'no tracking', action => 'status');
	pulls_ok('account', "change tracking is refused with $code");
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'versions', 'changes are found by version');
	same_ok('account', 'from a read without tracking');
	pulls_ok('account', 'later');
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'versions', 'as well');
	pulls_ok('account', 'until all is read', q{, "full" => true});
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'change tracking', 'which requests change tracking again');
	$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});
	$crm->no_faults;
}

# a token that is older than the one before
pulls_ok('account', 'changes are tracked');
my $link = $crm->dvsim->base . '/api/data/v9.2/accounts?$deltatoken=1%2101%2f01%2f2020%2000%3a00%3a00';
$crm->sql(q{UPDATE account SET versionnumber = versionnumber + 100000, name = 'of the future' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 40)});
$crm->fault(method => 'GET', path => 'deltatoken', times => 1, status => 200, action => 'status', body => { value => [], '@odata.deltaLink' => $link });
pulls_ok('account', 'a token goes back');
$crm->no_faults;
same_ok('account', 'and all rows are compared');
$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});

# ---- a copy that is emptied while it is read

# the token of a first read is not later than the newest row, so no comparison is necessary
$crm->sql(q{UPDATE dv.account SET name = name || '.' WHERE accountid = (SELECT min(accountid::text)::uuid FROM dv.account)});
pulls_ok('account', 'a copy that is not changed while it is read');
is(last_run('rows_compared'), 0, 'is not compared');
is($crm->sql(q{SELECT idx_scan FROM pg_stat_user_indexes WHERE relid = 'account'::regclass}), 0, 'nor are its rows looked up before they are inserted');
$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});

my @emptied = (
	[ 'TRUNCATE', 'TRUNCATE account' ],
	[ 'DELETE', 'DELETE FROM account' ],
	[ 'a DELETE of some', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70)} ],
	[ 'a DELETE of some and an INSERT of more', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70);
		INSERT INTO account (accountid, name) SELECT gen_random_uuid(), 'nowhere else' FROM generate_series(1, 80)} ],
	[ 'a DELETE of some and an INSERT of as many', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70);
		INSERT INTO account (accountid, name) SELECT gen_random_uuid(), 'nowhere else' FROM generate_series(1, 70)} ],
	[ 'an INSERT of rows that are still to be read', q{INSERT INTO account (accountid, name) SELECT accountid, 'too early' FROM dv.account ON CONFLICT DO NOTHING} ]);

for my $case (@emptied)
{
	my ($what, $sql) = @$case;

	# the greatest version, a page, the greatest version again, a token, and three pages
	$crm->fault(method => 'GET', path => '/accounts', after => 7, times => 1, action => 'delay', delay_ms => 1500);
	my $h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'first');
	ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 300 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), "$what while a copy is first read");
	$crm->sql($sql);
	$crm->finish($h);
	$crm->no_faults;
	is(last_run('status'), 'succeeded', "$what: the run succeeds");
	same_ok('account', "$what: with all rows");
	$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});
}

# between two calls, the first of which was killed, and in the middle of a later run
$crm->fault(method => 'GET', path => '/accounts', after => 7, times => 1, action => 'delay', delay_ms => 5000);
my $h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'killed');
ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 300 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), 'a first read');
$crm->sql("SELECT pg_terminate_backend($h->{pid}, 5000)");
$crm->finish($h);
$crm->no_faults;
$crm->sql('TRUNCATE account');
pulls_ok('account', 'is killed, and its table is emptied');
same_ok('account', 'the next run has all rows');

$crm->sql(q{UPDATE dv.account SET name = name || '!' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 300)});
$crm->fault(method => 'GET', path => '/accounts', after => 1, times => 1, action => 'delay', delay_ms => 1500);
$h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'later');
ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 100 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), 'a later run');
$crm->sql('TRUNCATE account');
$crm->finish($h);
$crm->no_faults;
pulls_ok('account', 'and the next one');
same_ok('account', 'have all rows as well');
$crm->sql('VACUUM FULL account');
pulls_ok('account', 'a rewritten table');
is(last_run('rows_read, deleted'), '0|0', 'loses no rows');

$crm->stop;
done_testing();
