# run_steps.pl
#		How runs are carried out: their memory, errors while an error is handled, and
#		calls by code that can commit.
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
use Dvsim;
use Session;

my ($rows, $page) = (6000, 10);
my $crm = Crm->start('steps', options => { page_size => $page, budget_pacing => 'off' });
my $node = $crm->node;
my $locks = q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'};

sub last_run { return $crm->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }

sub cancel
{
	my ($session) = @_;

	$crm->sql('SELECT pg_cancel_backend(' . $session->pid . ')');
	return $session->finish;
}

# Waits until a session waits for a lock, or dvsim does not answer one of its requests.
sub await_lock
{
	my ($session) = @_;
	return $node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = ' . $session->pid) || die;
}

sub await_stall
{
	for (1 .. 3000)
	{
		return if $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits};
		sleep 0.02;
	}
	die 'no request is stalled';
}

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, task) FROM SERVER crm INTO dv');

# ---- memory: what the session uses after each page, as a trigger of the copy sees it

for my $call (q{CALL dataverse.pull('dv.account', 'public.account')}, q{CALL dataverse.sync('dv.account', 'public.account')})
{
	$crm->sql(q{DROP TABLE IF EXISTS account, used; SELECT dataverse.forget_copy('public.account');
		CREATE TABLE account (LIKE dv.account, PRIMARY KEY (accountid)); CREATE TABLE used (n serial, bytes bigint);
		CREATE OR REPLACE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO used (bytes) SELECT sum(used_bytes) FROM pg_backend_memory_contexts; RETURN NULL; END $$;
		CREATE TRIGGER measure AFTER INSERT ON account EXECUTE FUNCTION measure()});
	$crm->sql("SET client_min_messages = warning; $call");
	cmp_ok($crm->sql('SELECT count(*) FROM used'), '>=', $rows / $page, "$call: it has taken as many steps as there are pages");
	# some of them have a page more in memory than others
	my $growth = $crm->sql(q{SELECT (SELECT max(bytes) FROM used WHERE n > 400) - (SELECT max(bytes) FROM used WHERE n BETWEEN 100 AND 300)});
	cmp_ok($growth, '<', 4096, "and uses no more memory after 600 than after 300 ($growth bytes)");
}
$crm->sql('DROP TABLE used; DROP FUNCTION measure CASCADE');

# ---- a cancel while the failure of a run is handled: the hint is asked for, and the service does not answer

for my $what ('pull', 'sync')
{
	my $session = Session->new($node);

	$crm->sql(q{ALTER FOREIGN TABLE dv.account ALTER COLUMN name OPTIONS (SET column 'gone')});
	$crm->fault(method => 'GET', path => 'EntityDefinitions', after => 1, times => 0, action => 'stall');
	$session->start("CALL dataverse.$what('dv.account', 'public.account', full => true)");
	await_stall();
	my $result = cancel($session);
	is($result->{sqlstate}, '57014', "$what: a failure is canceled while its hint is made");
	like($result->{message}, qr/^could not $what public\.account: canceling statement due to user request$/, '… as the error says');
	like($result->{detail} // '', qr/^The run was in phase "\w+"\.$/, '… with the phase');
	is(last_run('status, sqlstate'), 'failed|57014', 'the run has failed, and does not seem to be interrupted');
	is($crm->sql($locks), '0', 'and holds no lock');
	$session->close;
	$crm->no_faults;
	$crm->sql(q{ALTER FOREIGN TABLE dv.account ALTER COLUMN name OPTIONS (SET column 'name')});
}

# ---- a cancel before a run begins

{
	my ($session, $locker) = map { Session->new($node) } 1, 2;

	$crm->sql('CREATE SCHEMA copies');
	for my $call (
		[ q{CALL dataverse.pull('dv.contact', 'copies.contact')}, qr/^could not pull copies\.contact: canceling/ ],
		[ q{CALL dataverse.sync('dv.contact', 'copies.contact')}, qr/^could not sync copies\.contact: canceling/ ],
		[ q{CALL dataverse.pull_all('dv', 'copies')}, qr/^dataverse\.pull_all\(\) was canceled$/ ])
	{
		my ($sql, $message) = @$call;

		$locker->query('BEGIN');
		$locker->query('LOCK TABLE dataverse_private.copies IN SHARE MODE');
		$session->start($sql);
		await_lock($session);
		my $result = cancel($session);
		like($result->{message}, $message, "$sql is canceled");
		is($result->{sqlstate}, '57014', '… as its SQLSTATE says');
		my ($table) = $sql =~ /pull_all/ ? @{ $result->{notices} } : $result;
		like($table->{detail} // $table->{D} // '', qr/^The run has not begun\.$/, '… and where');
		$locker->query('COMMIT');
		is($crm->sql('SELECT count(*) FROM dataverse.runs WHERE target LIKE $$copies.%$$'), '0', 'no run is recorded');
	}
	$_->close for $session, $locker;
}

# ---- calls by code

is( $node->psql('postgres', q{DO $$
	DECLARE
		names text[] := '{}';
		source regclass := 'dv.contact';
		target CONSTANT text := 'called.contact';
	BEGIN
		CREATE SCHEMA called;
		COMMIT;
		FOR i IN 1 .. 2 LOOP
			names := names || (ARRAY['contactid', 'versionnumber'])[i];
		END LOOP;
		names := names || 'lastname'::text;
		CALL dataverse.pull(source, target, names, sweep => '1 day', wait => false);
		CALL dataverse.sync(target => target, foreign_table => source, columns => names, column_conflicts => jsonb_build_object('lastname', repeat('', 3) || 'local'));
		CALL dataverse.pull_all('dv', target_schema => 'called', "full" => true);
	END $$}), 0, 'code that can commit calls them, with values of variables');
is($crm->sql(q{SELECT string_agg(operation || ' ' || target || ' ' || status, ', ' ORDER BY id) FROM dataverse.runs WHERE target LIKE 'called.%'}),
	'pull called.contact succeeded, sync called.contact succeeded, pull called.account succeeded, pull called.contact succeeded, pull called.task succeeded',
	'and all of them have run');
{
	my $err = '';

	$crm->sql(q{CREATE FUNCTION calls() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL dataverse.pull('dv.contact', 'called.contact'); END $$});
	$node->psql('postgres', 'SELECT calls()', stderr => \$err);
	like($err, qr/dataverse\.pull\(\) cannot run inside a transaction block or a function/, 'code that cannot commit is told so');
}
$crm->idle_ok('at the end');

$crm->stop;
done_testing();
