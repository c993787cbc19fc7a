# pull_cron.pl
#		dataverse.pull() and push() as jobs of pg_cron: scheduled runs, a job that
#		fails, jobs that overlap, over connections and in background workers.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;

my $library = qx(pg_config --pkglibdir) =~ s/\s+$//r . '/pg_cron.so';

plan skip_all => 'pg_cron is not installed for this server' unless -e $library;

my $pull = q{CALL dataverse.pull('dv.account', 'public.account')};
my $crm = Crm->start('cron', options => { page_size => 500, budget_pacing => 'off' });
my $node = $crm->node;

$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=3000');
$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv');
# jobs run as this role, which is no superuser
my $options = $crm->sql(
	q{SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM information_schema.user_mapping_options});
$crm->sql("CREATE ROLE copier LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO copier; GRANT USAGE ON SCHEMA dv TO copier;
	GRANT SELECT ON dv.account TO copier; GRANT CREATE ON SCHEMA public TO copier;
	CREATE USER MAPPING FOR copier SERVER crm OPTIONS ($options)");

# Restarts with these settings, and schedules the job again, every minute.
sub schedule
{
	my ($workers) = @_;

	$node->append_conf('postgresql.conf', "cron.use_background_workers = $workers\n");
	$node->restart;
	$crm->sql('DELETE FROM cron.job_run_details');
	$node->safe_psql('postgres', "SELECT cron.schedule('pull', '* * * * *', \$\$$pull\$\$)", extra_params => [ '-U', 'copier' ]);
	return;
}

# Waits for the next run of the job: until another one has ended, after calling a function.
sub tick
{
	my ($first) = @_;
	my $ended = q{FROM cron.job_run_details WHERE jobid = (SELECT jobid FROM cron.job WHERE jobname = 'pull') AND status IN ('succeeded', 'failed')};
	my $n = $crm->sql("SELECT count(*) $ended");

	$first->() if $first;
	ok($node->poll_query_until('postgres',
		"SELECT count(*) > $n $ended"), 'a run of the job');
	return $crm->sql("SELECT status $ended ORDER BY runid DESC LIMIT 1");
}

sub last_run
{
	my ($columns) = @_;
	return $crm->sql("SELECT $columns FROM dataverse.runs ORDER BY id DESC LIMIT 1");
}

sub same_ok
{
	my ($what) = @_;

	is( $crm->sql(q{SELECT (SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x) || '|' ||
	                       (SELECT count(*) FROM (TABLE account EXCEPT TABLE dv.account) AS x)}), '0|0', "the rows are the same $what");
	return;
}

$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pg_cron'\ncron.database_name = 'postgres'\ncron.host = '" . $node->host . "'\nmax_worker_processes = 20\n");
$node->restart;
$crm->sql('CREATE EXTENSION pg_cron; GRANT USAGE ON SCHEMA cron TO copier');

# ---- over a connection

schedule('off');
is(tick(), 'succeeded', 'the first run copies the table');
is(last_run('role, status, inserted'), 'copier|succeeded|3000', 'with the rights of its role, and reports it');
same_ok('after a run');

# a push, by a job of its own at the same time as one that fails
$crm->sql(q{CREATE SCHEMA copier AUTHORIZATION copier; GRANT INSERT ON dv.account TO copier});
$node->safe_psql('postgres', q{SELECT cron.schedule('push', '* * * * *', 'CALL dataverse.push(''SELECT ''''pushed'''' AS name'', ''dv.account'')')},
	extra_params => [ '-U', 'copier' ]);

# a job that fails
$crm->fault(method => 'GET', path => '/accounts', times => 0, status => 400, code => '0x80040216', message => 'no such luck');
is(tick(), 'failed', 'a failing job is recorded as failed');
$crm->no_faults;
is($crm->sql(q{SELECT status, error ~ 'no such luck' FROM dataverse.runs WHERE operation = 'pull' ORDER BY id DESC LIMIT 1}), 'failed|t', 'and so has its run');
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM dataverse.runs WHERE operation = 'push' AND status = 'succeeded' AND role = 'copier' AND sent = 1}),
	'a job pushes');
$node->safe_psql('postgres', q{SELECT cron.unschedule('push')}, extra_params => [ '-U', 'copier' ]);
$crm->sql(q{DELETE FROM cron.job_run_details; DELETE FROM dv.account WHERE name = 'pushed'});

# ---- in a background worker

schedule('on');
$crm->sql(q{UPDATE dv.account SET name = 'changed' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 10)});
$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 10)});

# another session is running when the job starts
$crm->fault(method => 'GET', path => '/accounts', action => 'stall');
my $h = $crm->background($pull, 'meanwhile');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND NOT granted}),
	'a job encounters another run, and waits');
is(tick(sub { $crm->sql("SELECT pg_cancel_backend($h->{pid})"); $crm->finish($h) }), 'succeeded', 'then it runs');
is(last_run('role, status, updated >= 10, deleted'), 'copier|succeeded|t|10', 'in a background worker');
same_ok('then');
is($crm->sql(q{SELECT string_agg(DISTINCT r.status, ' ') FROM cron.job_run_details AS d JOIN dataverse.runs AS r
               ON r.started_at BETWEEN d.start_time AND d.end_time AND r.pid = d.job_pid}), 'succeeded',
	'runs can be matched with jobs by time and process');

# ---- a load that fails: pg_cron keeps the last message of a background worker
$crm->sql('GRANT INSERT ON dv.contact TO copier');
$node->safe_psql('postgres',
	q{SELECT cron.schedule('load', '* * * * *', $$INSERT INTO dv.contact (lastname) SELECT 'load ' || 1000 / (250 - n) FROM generate_series(1, 300) n$$)},
	extra_params => [ '-U', 'copier' ]);

my $load = q{FROM cron.job_run_details WHERE jobid = (SELECT jobid FROM cron.job WHERE jobname = 'load') AND status IN ('succeeded', 'failed')};
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 $load"), 'the load has run');
like($crm->sql("SELECT status || ': ' || return_message $load ORDER BY runid LIMIT 1"), qr/^failed: .*division by zero/s, 'a failing load is recorded as failed, with the error message');
$crm->sql(q{SELECT cron.unschedule(jobid) FROM cron.job});

$crm->stop;
done_testing();
