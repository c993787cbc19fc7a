# pull_gone.pl
#		What a copy takes for gone, or for new: pages that skip a row, copies that are
#		emptied while they are read, environments that are restored from a backup,
#		change tracking that is refused, versions that cannot be asked for.
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

# Of a comparison, the page after "after" others comes without its first rows.
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

# ---- pages of a table that is not tracked

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
is(last_run('deleted'), 0, 'nothing is deleted because of that');
same_ok('task', 'and nothing is missing');

$crm->sql(q{DELETE FROM dv.task WHERE activityid IN (SELECT activityid FROM dv.task ORDER BY 1 LIMIT 20)});
skip_rows('tasks', 30);
$crm->requests;
pulls_ok('task', 'a page skips rows, and others are gone', q{, sweep => '0'});
$crm->no_faults;
is(last_run('deleted'), 20, 'these are deleted');
same_ok('task', 'and no others');
my @asked = grep { /activityid eq|In\(/ } map { Crm::target($_) } $crm->requests;
cmp_ok(scalar @asked, '<=', 3, 'they are asked for in bulk') or diag explain \@asked;

# a row that was refused, and is skipped, is still wanted
$crm->sql(q{ALTER TABLE task ADD CHECK (subject <> 'bad')});
$crm->sql(q{UPDATE dv.task SET subject = 'bad' WHERE activityid = (SELECT min(activityid::text)::uuid FROM task)});
pulls_ok('task', 'a row is refused', q{, sweep => '0', on_error => 'continue'});
is($crm->sql('SELECT refused FROM dataverse.sync_state'), 1, 'and noted');
$crm->sql(q{DELETE FROM task WHERE activityid = (SELECT min(activityid::text)::uuid FROM task)});
skip_rows('tasks', 30);
pulls_ok('task', 'a page skips it', q{, sweep => '0', on_error => 'continue'});
$crm->no_faults;
is($crm->sql('SELECT refused FROM dataverse.sync_state'), 1, 'it stays noted');
$crm->sql('ALTER TABLE task DROP CONSTRAINT task_subject_check');
pulls_ok('task', 'until it gets in');
same_ok('task', 'and is here');

# ---- the environment was restored: versions are smaller than those that were seen

$crm->sql(q{UPDATE dataverse.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
pulls_ok('task', 'versions are followed');
is(last_run('rows_compared'), 0, 'and nothing is compared');
# rows of the copy from a future that there never was
$crm->sql(q{UPDATE dataverse.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m),
	marks = ARRAY(SELECT m + 100000 FROM unnest(marks) AS m);
	UPDATE task SET versionnumber = versionnumber + 100000, subject = 'of the future' WHERE activityid IN (SELECT activityid FROM task ORDER BY 1 LIMIT 40)});
pulls_ok('task', 'after a restoration, the greatest version is smaller than it was');
same_ok('task', 'and all rows are compared at once');
is($crm->sql(q{SELECT count(*) FROM task WHERE subject = 'of the future'}), 0, 'so that no value of the future stays');
$crm->sql(q{INSERT INTO dv.task (subject) VALUES ('after the restoration')});
pulls_ok('task', 'what comes later');
same_ok('task', 'is read as well');

# the newest row is deleted: that is noticed, and versions are followed again
$crm->sql(q{UPDATE dataverse.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
$crm->sql(q{DELETE FROM dv.task WHERE activityid = (SELECT activityid FROM task ORDER BY versionnumber DESC LIMIT 1)});
pulls_ok('task', 'the newest row is deleted');
same_ok('task', 'and is not here any more');
pulls_ok('task', 'the next run');
is(last_run('rows_compared'), 0, 'compares nothing');

# ---- the greatest version cannot be asked for

$crm->sql(q{UPDATE dataverse.copies SET marked_at = ARRAY(SELECT m - interval '6 minutes' FROM unnest(marked_at) AS m)});
$crm->sql(q{INSERT INTO dv.task (subject) VALUES ('unasked'); UPDATE dv.task SET subject = 'unasked' WHERE subject = 'task 9'});
my %slow = ( method => 'GET', path => '$top=1', times => 0, status => 500, code => '0x80044151', message => 'Sql error: Execution Timeout Expired', action => 'status');
$crm->fault(%slow);
pulls_ok('task', 'the service takes too long to find the greatest version');
$crm->no_faults;
same_ok('task', 'and rows come all the same');
is(last_run('rows_compared'), 0, 'without a comparison');
$crm->sql(q{SELECT dataverse.forget_copy('public.task'); DROP TABLE task});
$crm->fault(%slow);
pulls_ok('task', 'so they do in a first read');
$crm->no_faults;
same_ok('task', 'of all rows');

# ---- change tracking that is refused, although the definition says that there is some

for my $code ('0x80072492', '0x80044358')
{
	# the first request asks for the greatest version
	$crm->fault(method => 'GET', path => '/accounts', after => 1, times => 1, status => 400, code => $code, message => 'no tracking', action => 'status');
	pulls_ok('account', "change tracking is refused with $code");
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'versions', 'versions are followed');
	same_ok('account', 'from a read without tracking');
	pulls_ok('account', 'later');
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'versions', 'as well');
	pulls_ok('account', 'until all is read', q{, "full" => true});
	is($crm->sql(q{SELECT method FROM dataverse.sync_state WHERE target = 'public.account'}), 'change tracking', 'which asks for change tracking again');
	$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});
	$crm->no_faults;
}

# a token that speaks of earlier times than the one before
pulls_ok('account', 'changes are tracked');
my $link = $crm->dvsim->base . '/api/data/v9.2/accounts?$deltatoken=1%2101%2f01%2f2020%2000%3a00%3a00';
$crm->sql(q{UPDATE account SET versionnumber = versionnumber + 100000, name = 'of the future' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 40)});
$crm->fault(method => 'GET', path => 'deltatoken', times => 1, status => 200, action => 'status', body => { value => [], '@odata.deltaLink' => $link });
pulls_ok('account', 'a token goes back');
$crm->no_faults;
same_ok('account', 'and all rows are compared');
$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});

# ---- a copy that is emptied while it is read

# the token of a first read is not later than the newest row, so that nothing has to be compared
$crm->sql(q{UPDATE dv.account SET name = name || '.' WHERE accountid = (SELECT min(accountid::text)::uuid FROM dv.account)});
pulls_ok('account', 'a copy that nobody touches while it is read');
is(last_run('rows_compared'), 0, 'is not compared');
$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});

my @emptied = (
	[ 'TRUNCATE', 'TRUNCATE account' ],
	[ 'DELETE', 'DELETE FROM account' ],
	[ 'a DELETE of some', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70)} ],
	[ 'a DELETE of some and an INSERT of more', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70);
		INSERT INTO account (accountid, name) SELECT gen_random_uuid(), 'nowhere else' FROM generate_series(1, 80)} ],
	[ 'a DELETE of some and an INSERT of as many', q{DELETE FROM account WHERE accountid IN (SELECT accountid FROM account LIMIT 70);
		INSERT INTO account (accountid, name) SELECT gen_random_uuid(), 'nowhere else' FROM generate_series(1, 70)} ]);

for my $case (@emptied)
{
	my ($what, $sql) = @$case;

	$crm->fault(method => 'GET', path => '/accounts', after => 5, times => 1, action => 'delay', delay_ms => 1500);
	my $h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'first');
	ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 300 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), "$what while a copy is first read");
	$crm->sql($sql);
	$crm->finish($h);
	$crm->no_faults;
	is(last_run('status'), 'succeeded', "$what: the run succeeds");
	same_ok('account', "$what: with all rows");
	$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});
}

# between two calls of which the first one was killed, and in the middle of a later run
$crm->fault(method => 'GET', path => '/accounts', after => 5, times => 1, action => 'delay', delay_ms => 5000);
my $h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'killed');
ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 300 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), 'a first read');
$crm->sql("SELECT pg_terminate_backend($h->{pid}, 5000)");
$crm->finish($h);
$crm->no_faults;
$crm->sql('TRUNCATE account');
pulls_ok('account', 'is ended, and its table is emptied');
same_ok('account', 'the next run has all rows');

$crm->sql(q{UPDATE dv.account SET name = name || '!' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 300)});
$crm->fault(method => 'GET', path => '/accounts', after => 1, times => 1, action => 'delay', delay_ms => 1500);
$h = $crm->background(q{CALL dataverse.pull('dv.account', 'public.account')}, 'later');
ok($crm->node->poll_query_until('postgres', q{SELECT rows_read >= 100 FROM dataverse.runs ORDER BY id DESC LIMIT 1}), 'a later run');
$crm->sql('TRUNCATE account');
$crm->finish($h);
$crm->no_faults;
pulls_ok('account', 'and the next one');
same_ok('account', 'have all rows, too');
$crm->sql('VACUUM FULL account');
pulls_ok('account', 'a table that is written anew');
is(last_run('rows_read, deleted'), '0|0', 'loses nothing');

$crm->stop;
done_testing();
