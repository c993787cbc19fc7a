# pull_state.pl
#		dataverse.sync_state and dataverse.runs when the service does not answer as
#		usual: the number of pending changes, the lifetime of tokens, and runs for
#		which all users are throttled for half an hour.
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
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;

my $rows = 2000;
my $page = 200;
my $scale = 120;
my $crm = Crm->start('state', users => 2, flags => [ '--time-scale', $scale ], options => { page_size => $page, budget_pacing => 'off' });
my $node = $crm->node;
my $pull = q{CALL dataverse.pull('dv.account', 'public.account')};

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, task) FROM SERVER crm INTO dv');

sub lag { return $crm->sql(q{SELECT coalesce(lag::text, 'null') FROM dataverse.sync_state WHERE target = 'public.} . $_[0] . q{'}); }
sub last_run { return $crm->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }

# Returns the rows of a statement and its duration, run by a role.
sub timed
{
	my ($sql, @params) = @_;
	my ($out, $err) = ('', '');
	my $began = time;

	$node->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => \@params);
	return ($out . $err, time - $began);
}

# ---- all users are throttled for half an hour, during a first read

# after the greatest version, a page, that version again, a token, and two pages
$crm->fault(method => 'GET', path => '/accounts', after => 6, times => 0, status => 429, code => '0x80072322',
	message => 'slow down', retry_after => 2);
my $h = $crm->background($pull, 'throttled');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 2 FROM dataverse.pool WHERE throttled'), 'all users are throttled');
sleep 0.3;
my $began = time;
my $read = last_run('rows_read');
my %said;
while (time - $began < 1800 / $scale)
{
	my $says = $crm->sql(q{SELECT r.status, r.phase, r.rows_read, p.operation, p.waiting_for, (SELECT bool_and(throttled) FROM dataverse.pool)
		FROM dataverse.runs AS r LEFT JOIN dataverse.progress AS p USING (pid) ORDER BY r.id DESC LIMIT 1});

	# between two refusals, one request is under way
	$says =~ s/\|(response|throttle|slot|)\|[tf]$/|$1/;
	$said{$says}++;
	sleep 0.2;
}
my ($most) = sort { $said{$b} <=> $said{$a} } keys %said;
is($most, "running|backfill|$read|pull|throttle", "for half an hour of the service's time, the run waits, and reports it");
is(scalar(grep { !/^running\|backfill\|$read\|/ } keys %said), 0, 'and nothing else') or diag explain \%said;
is($crm->sql('SELECT count(*) FROM account'), $read, 'rows that it has read are kept');
$crm->sql("SELECT pg_cancel_backend($h->{pid})");
cmp_ok(last_run('throttles'), '>', 3, 'throttles are counted');
like($crm->finish($h), qr/canceling statement due to user request.*phase "backfill"/s, 'when it is cancelled,');
is(last_run('status, sqlstate'), 'failed|57014', 'it has failed');
my ($err) = timed("SET statement_timeout = '1s'; $pull");
like($err, qr/canceling statement due to statement timeout/, 'after a timeout');
is(last_run('status, sqlstate, phase, rows_read'), 'failed|57014|backfill|0', 'it has failed as well, and shows the phase');
$crm->sql("ALTER SERVER crm OPTIONS (ADD max_retry_after_tolerance '1')");
($err) = timed($pull);
like($err, qr/exceeds "max_retry_after_tolerance"/, 'if waiting is not tolerated');
is(last_run('status'), 'failed', 'likewise');
$crm->sql('ALTER SERVER crm OPTIONS (DROP max_retry_after_tolerance)');
$crm->no_faults;
$crm->requests;
$crm->sql($pull);
is(last_run('status, inserted'), 'succeeded|' . ($rows - $read), 'the next run continues at the same position');
is($crm->sql(q{SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x}), '0', 'no row is missing');
is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'succeeded'}), '1', 'only one run has succeeded');

# ---- the number of changes in Dataverse, without reading them

is(lag('account'), '0', 'nothing has changed');
$crm->sql(q{UPDATE dv.account SET name = 'changed' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 7);
	DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 3)});
$crm->requests;
is(lag('account'), '10', 'changes and deletions are counted');
is(join(' ', map { Crm::target($_) =~ s/deltatoken=.*/deltatoken/r } $crm->requests), 'accounts/$count?$deltatoken', 'by one request');
$crm->sql('SELECT target, phase, age, refused, last_status, token_expires_at FROM dataverse.sync_state');
is(scalar($crm->requests), 0, 'without the request for it, nothing is sent');
$crm->sql($pull);
is(lag('account'), '0', 'then they are in the copy');

$crm->sql(q{INSERT INTO dv.task (subject) SELECT 'task' FROM generate_series(1, 5); CALL dataverse.pull('dv.task', 'public.task')});
is(lag('task'), '0', 'without change tracking,');
$crm->sql(q{INSERT INTO dv.task (subject) SELECT 'task' FROM generate_series(1, 4)});
is(lag('task'), '4', 'versions are compared');

# in spite of faults
$crm->fault(method => 'GET', path => '/accounts', times => 0, status => 429, code => '0x80072322', message => 'slow down', retry_after => 600);
$crm->fault(method => 'GET', path => '/tasks', times => 0, status => 429, code => '0x80072322', message => 'slow down', retry_after => 600);
my ($out, $took) = timed('SELECT target, lag FROM dataverse.sync_state ORDER BY 1');
is($out, "public.account|\npublic.task|", 'throttled: unknown');
cmp_ok($took, '<', 4, 'and no long wait for either copy');
$crm->no_faults;
$crm->sql(q{SELECT dataverse.reset_pool('crm')});
$crm->fault(method => 'GET', path => '/accounts', times => 0, action => 'stall');
($out, $took) = timed(q{SELECT lag FROM dataverse.sync_state WHERE target = 'public.account'});
is($out, '', 'no answer: unknown');
cmp_ok($took, '<', 4, 'after a short time');
$crm->no_faults;
my $url = $crm->sql(q{SELECT option_value FROM pg_options_to_table((SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'crm')) WHERE option_name = 'url'});
$crm->sql(q{ALTER SERVER crm OPTIONS (SET url 'http://127.0.0.1:9')});
($out, $took) = timed(q{SELECT lag FROM dataverse.sync_state WHERE target = 'public.account'});
is($out, '', 'unreachable: unknown');
cmp_ok($took, '<', 4, 'after a short time');
$crm->sql(qq{ALTER SERVER crm OPTIONS (SET url '$url')});
$crm->sql('CREATE ROLE auditor LOGIN; GRANT pg_read_all_data TO auditor');
($out) = timed('SELECT target, lag FROM dataverse.sync_state ORDER BY 1', '-U', 'auditor');
is($out, "public.account|\npublic.task|", 'without rights: unknown');
is(lag('account'), '0', 'and then known again');

# ---- the lifetime of tokens

is($crm->sql(q{SELECT token_expires_at - token_at FROM dataverse.sync_state WHERE target = 'public.account'}), '7 days', 'the organization reports the lifetime of tokens');
$crm->requests;
$crm->sql($pull);
is(scalar(grep { $_->{target} =~ /organizations/ } $crm->requests), 0, 'it is requested once a day');
$crm->sql(q{UPDATE dataverse_private.copies SET token_at = token_at - interval '3 days'});
($out) = timed($pull);
unlike($out, qr/WARNING/, 'less than half of it: no warning');
$crm->sql(q{SELECT dataverse.request('crm', 'PATCH', format('organizations(%s)', organizationid), '{"expirechangetrackingindays": 30}')
	FROM (SELECT dataverse.request('crm', 'GET', 'organizations?$select=organizationid') -> 'value' -> 0 ->> 'organizationid' AS organizationid) AS o});
$crm->sql(q{UPDATE dataverse_private.copies SET token_at = token_at - interval '4 days'});
($out) = timed($pull);
like($out, qr/WARNING:  the last run that brought public\.account up to date ended 4 days ago, and tokens of change tracking expire after 7 days/, 'more: a warning');
like($out, qr/HINT:  .*Schedule dataverse\.pull\(\) more often than every 3 days 12:00:00, for example once a day: SELECT cron\.schedule\('pull public\.account', '0 3 \* \* \*', 'CALL dataverse\.pull\(''dv\.account'', ''public\.account''\)'\)/,
	'that recommends a schedule');
is(last_run('status'), 'succeeded', 'the run succeeds');
$crm->sql(q{UPDATE dataverse_private.copies SET token_life_at = token_life_at - interval '25 hours', token_at = token_at - interval '4 days'});
($out) = timed($pull);
unlike($out, qr/WARNING/, 'the lifetime is extended');
is($crm->sql(q{SELECT token_expires_at - token_at FROM dataverse.sync_state WHERE target = 'public.account'}), '30 days', 'which is noticed a day later');

$crm->stop;
done_testing();
