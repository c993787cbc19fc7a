# 012_long_life.pl
#		What a long life and a hostile reader find: no leaks after thousands of
#		failures, no secrets anywhere, tokens renewed under load, sessions that
#		follow ALTER, two clusters that share a user.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;

# ---- failing again and again: memory, descriptors, slots

my $crm = Crm->start('long', users => 2, flags => [ '--token-lifetime', '3s' ]);

$crm->server('dead', base => 'http://127.0.0.1:1', mapping => "access_token 'x'",
	options => { max_retries => 0 });
$crm->fault(action => 'status', path => 'WhoAmI', status => 400, code => '0x80040203', times => 0);
my $leaks = $crm->sql(q{
	CREATE TEMP TABLE size (bytes bigint, files bigint);
	DO $$
	BEGIN
	  FOR i IN 1 .. 1500 LOOP
	    BEGIN
	      PERFORM dataverse.whoami('crm');
	    EXCEPTION WHEN invalid_parameter_value THEN
	    END;
	    BEGIN
	      PERFORM dataverse.whoami('dead');
	    EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
	    END;
	    BEGIN
	      PERFORM dataverse.fetchxml('crm', '<fetch><entity name="nonesuch"/></fetch>');
	    EXCEPTION WHEN OTHERS THEN
	    END;
	    IF i % 500 = 0 THEN
	      INSERT INTO size SELECT (SELECT sum(total_bytes) FROM pg_backend_memory_contexts),
	                              (SELECT count(*) FROM pg_ls_dir('/proc/self/fd'));
	    END IF;
	  END LOOP;
	END $$;
	SELECT max(bytes) - min(bytes) < 65536, max(files) - min(files) <= 1 FROM size;
});
is($leaks, 't|t', 'thousands of failures cost neither memory nor descriptors');
$crm->idle_ok('after them');
$crm->no_faults;

# ---- a subtransaction that is rolled back

$crm->fault(action => 'stall', path => 'WhoAmI', times => 1);
like( $crm->sql(q{
		BEGIN;
		SAVEPOINT a;
		SET LOCAL statement_timeout = '200ms';
		DO $$ BEGIN PERFORM dataverse.whoami('crm'); EXCEPTION WHEN query_canceled THEN END $$;
		ROLLBACK TO a;
		SELECT sum(in_flight) FROM dataverse.pool;
		SELECT (dataverse.whoami('crm')).application_user;
		COMMIT;
	}),
	qr/^0\napp\d$/m, 'ROLLBACK TO gives the slot back, and the session goes on');
$crm->no_faults;

# ---- tokens of three seconds, under load

my $script = $crm->node->basedir . '/load.sql';
append_to_file($script, "SELECT dataverse.request('crm', 'GET', 'accounts?\$top=1');\n");
$crm->node->command_checks_all(
	[ 'pgbench', '-n', '-c', 8, '-j', 2, '-T', 7, '-f', $script, 'postgres' ],
	0, [qr/number of failed transactions: 0 /], [qr/^(?!.*ERROR)/s], 'tokens that expire under load');
cmp_ok($crm->user_stats('app1')->{requests}{token}, '>=', 8 * 2, 'were renewed');

# ---- ALTER: the connection that is kept is replaced

my $session = $crm->node->background_psql('postgres') if $crm->node->can('background_psql');
SKIP:
{
	skip 'this PostgreSQL has no background_psql', 3 unless $session;
	my $ask = "SELECT (dataverse.whoami('lone')).application_user;";

	$crm->server('lone', mapping => "client_id 'app1', client_secret 'secret1'");
	is($session->query_safe($ask), 'app1', 'a session keeps its connection');
	$crm->sql("ALTER USER MAPPING FOR CURRENT_USER SERVER lone
		OPTIONS (SET client_id 'app2', SET client_secret 'secret2')");
	is($session->query_safe($ask), 'app2', 'and follows the user mapping');
	$crm->sql("ALTER SERVER lone OPTIONS (SET url 'http://127.0.0.1:1', ADD max_retries '0')");
	my ($out, $failed) = eval { ($session->query($ask)) };
	like($session->{stderr}, qr/could not ask who we are on server "lone"/, 'and the server');
	$session->quit;
}
is( $crm->sql(
		q{
		CREATE SERVER two FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url '} . $crm->dvsim->base . q{', token_url '}
		  . $crm->dvsim->base . q{/t/oauth2/v2.0/token');
		CREATE USER MAPPING FOR CURRENT_USER SERVER two OPTIONS (client_id 'app1', client_secret 'secret1');
		SELECT (dataverse.whoami('two')).application_user;
		ALTER USER MAPPING FOR CURRENT_USER SERVER two OPTIONS (SET client_id 'app2', SET client_secret 'secret2');
		SELECT (dataverse.whoami('two')).application_user;
		ALTER SERVER two OPTIONS (ADD max_parallel '3');
		SELECT (dataverse.whoami('two')).application_user;
		SELECT maximum_parallelism FROM dataverse.pool WHERE server = 'two' AND name = 'app2';
	}),
	"app1\napp2\napp2\n3",
	'a session follows ALTER of its user mapping and its server');

# ---- secrets: at debug5, in views, EXPLAIN and errors

my $log = $crm->node->logfile;
my $before = -s $log;
my $token = $crm->dvsim->token('app1', 'secret1');
$crm->sql("ALTER SYSTEM SET log_statement = 'none'");
$crm->sql("ALTER SYSTEM SET log_min_messages = debug5");
$crm->sql('SELECT pg_reload_conf()');
$crm->sql('SELECT 1');
$crm->throttle(1);
$crm->fault(action => 'status', path => 'WhoAmI', status => 503, times => 1);
$crm->fault(action => 'expire_token', path => 'WhoAmI', times => 1);
my $seen = '';
for my $sql (
	"SELECT * FROM dataverse.test_connection('crm')",
	"SELECT * FROM dataverse.whoami('crm')",
	"EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM dataverse.whoami('crm')",
	"SELECT dataverse.request('crm', 'GET', 'nothing')",
	"SELECT * FROM dataverse.pool",
	"SELECT * FROM dataverse.throttle_history",
	"SELECT * FROM dataverse.pool_users()",
	"SELECT dataverse.whoami('dead')")
{
	my ($status, $out, $err) = $crm->node->psql('postgres', $sql);
	$seen .= "$out\n$err\n";
}
$crm->no_faults;
my $logged = substr slurp_file($log), $before;
cmp_ok(length $logged, '>', 10000, 'the log is at debug5');
for my $where ([ 'the log', $logged ], [ 'what sessions see', $seen ])
{
	unlike($where->[1], qr/secret[12]/, "no client secret in $where->[0]");
	unlike($where->[1], qr/Bearer/i, "no Authorization in $where->[0]");
	unlike($where->[1], qr/eyJ[A-Za-z0-9_-]{20,}/, "no token in $where->[0]");
}
like($token, qr/^\S{20,}$/, 'a token is something that would be seen');
$crm->stop;

# ---- two clusters that know nothing of each other share one user

my %plain = (budget_pacing => 'off');
my $first = Crm->start('first', users => 1, preload => 1,
	options => \%plain,
	flags => [ '--dop', 48, '--limit-concurrent', 8, '--latency', 'read=100ms~20%' ]);
my $second = Crm->start('second', users => 1, preload => 1, dvsim => $first->dvsim,
	options => \%plain);
my @sides = map {
	my $side = $_;
	my $file = $side->node->basedir . '/share.sql';
	my %run = (out => '', err => '');

	append_to_file($file, "SELECT dataverse.request('crm', 'GET', 'accounts?\$top=1');\n");
	$run{h} = IPC::Run::start(
		[
			'pgbench', '-n', '-c', 16, '-j', 2, '-T', 45, '-f', $file,
			'-h', $side->node->host, '-p', $side->node->port, 'postgres'
		],
		'<', \undef, '>', \$run{out}, '2>', \$run{err});
	\%run;
} $first, $second;
my @done = map {
	IPC::Run::finish($_->{h});
	$_->{out} =~ /actually processed: (\d+)/ ? $1 : 0;
} @sides;
note "shares: @done";
cmp_ok($_, '>', 50, 'both get on') for @done;
cmp_ok($done[0], '<=', 2 * $done[1], 'shares within 2:1');
cmp_ok($done[1], '<=', 2 * $done[0], 'shares within 2:1');
cmp_ok($first->user_stats('app1')->{peak_in_flight}, '<=', 8, 'by the count of the service');
unlike($_->{err}, qr/ERROR/, 'without an error') for @sides;
$_->idle_ok('in the end') for $first, $second;
$_->stop for $first, $second;

done_testing();
