# cluster.pl
#		Tests that need a cluster of their own: many concurrent sessions,
#		preloading, a restart, dump and restore.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql(
	'postgres', q{
	CREATE EXTENSION dataverse_fdw;
	CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
	  OPTIONS (url 'https://contoso.crm.dynamics.com', tenant_id 'contoso');
	CREATE USER MAPPING FOR CURRENT_USER SERVER crm
	  OPTIONS (client_id 'app1', client_secret 'it''s "secret"',
	           client_id_2 'app2', client_secret_2 'secret2');
	CREATE SCHEMA dv;
	CREATE FOREIGN TABLE dv.account (
	  accountid uuid,
	  parent uuid OPTIONS (navigation 'parentaccountid', target 'account')
	) SERVER crm OPTIONS (table 'account', page_size '100');
});

# ---- many sessions, each loading the library, each getting errors

my $sessions = 8;
my $script = $node->basedir . '/session.sql';
append_to_file(
	$script, q{
	DO $$
	BEGIN
	  PERFORM * FROM dv.account;
	  RAISE 'a foreign table without an entity set was read';
	EXCEPTION WHEN fdw_option_name_not_found THEN
	END $$;
	DO $$
	BEGIN
	  ALTER SERVER crm OPTIONS (ADD urll 'x');
	  RAISE 'an option that does not exist was taken';
	EXCEPTION WHEN fdw_invalid_option_name THEN
	END $$;
	SELECT extension FROM dataverse.version();
});
$node->command_checks_all(
	[
		'pgbench', '-n', '-C', '-c', $sessions, '-j', 2, '-t', 10, '-f', $script, 'postgres'
	],
	0,
	[qr/number of transactions actually processed: 80\/80/],
	[],
	"$sessions sessions at once, each transaction in a new backend");

# ---- leaks: a backend does not grow after many errors

my $growth = $node->safe_psql(
	'postgres', q{
	CREATE TEMP TABLE size (bytes bigint);
	DO $$
	DECLARE
	  hint text;
	BEGIN
	  FOR i IN 1 .. 3000 LOOP
	    BEGIN
	      ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_scret_3 'x');
	    EXCEPTION WHEN fdw_invalid_option_name THEN
	      GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	    END;
	    IF i % 1000 = 0 THEN
	      INSERT INTO size SELECT sum(used_bytes) FROM pg_backend_memory_contexts
	        WHERE name IN ('TopMemoryContext', 'CacheMemoryContext', 'MessageContext');
	    END IF;
	  END LOOP;
	END $$;
	SELECT max(bytes) - min(bytes) < 65536 FROM size;
});
is($growth, 't', 'thousands of errors leak no memory');

# ---- preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dataverse_fdw'");
$node->restart;
is($node->safe_psql('postgres', 'SELECT extension FROM dataverse.version()'),
	'1.0', 'works from shared_preload_libraries, after a restart');

# ---- an unknown setting is accepted until the library is loaded

sub says
{
	my ($sql, %option) = @_;
	my ($out, $said) = ('', '');

	local $ENV{PGOPTIONS} = $option{options} // '';
	$node->psql('postgres', $sql, stdout => \$out, stderr => \$said, on_error_stop => 0);
	return $said;
}

my $typo = 'SET dataverse_fdw.dryrun = on';
like(says($typo), qr/^\S+ ERROR:  invalid configuration parameter name "dataverse_fdw\.dryrun"/m, 'with the library preloaded, a misspelled setting is an error');
is(says('SET dataverse_fdw.dry_run = on'), '', '... and a correct one is not');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is(says($typo), '', 'without the library, PostgreSQL accepts it');
like(says("$typo; SELECT extension FROM dataverse.version()"),
	qr/WARNING:  invalid configuration parameter name "dataverse_fdw\.dryrun", removing it/, '... until the library is loaded');
like(says("SELECT extension FROM dataverse.version(); $typo"), qr/ERROR:  invalid configuration parameter name/, 'and then rejects it');
$node->safe_psql('postgres', "ALTER DATABASE postgres SET session_preload_libraries = 'dataverse_fdw'");
like(says($typo), qr/ERROR:  invalid configuration parameter name/, 'session_preload_libraries suffices');
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET session_preload_libraries');

# ---- PostgreSQL logs statements with secrets unless configured as the README says

sub logged
{
	my ($before, $secret) = @_;
	my $offset = -s $node->logfile;

	like(says("$before; ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_secret '$secret', ADD client_scret_3 'x')"),
		qr/invalid option "client_scret_3"/, 'a statement fails');
	my $log = slurp_file($node->logfile, $offset);
	return $log =~ /\Q$secret\E/ ? 'yes' : 'no';
}

is(logged('SELECT 1', 'seen-4711'), 'yes', '... and is logged with its secret');
is(logged('SET log_statement = none; SET log_min_error_statement = panic; SET log_min_duration_statement = -1', 'unseen-4712'), 'no',
	'... but not with these settings');

# ---- dump and restore: the validator accepts the output of pg_dump

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE again');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'again' ],
	'restores');

# pg_dump sorts the options
my $everything = q{
	SELECT srvname, option FROM pg_foreign_server, unnest(srvoptions) option ORDER BY 1, 2;
	SELECT option FROM pg_user_mappings, unnest(umoptions) option ORDER BY 1;
	SELECT option FROM pg_foreign_table, unnest(ftoptions) option ORDER BY 1;
	SELECT attname, option FROM pg_attribute, unnest(attfdwoptions) option ORDER BY 1, 2;
	SELECT nspname, nspacl FROM pg_namespace WHERE nspname IN ('dataverse', 'dataverse_private');
};
my $before = $node->safe_psql('postgres', $everything);
like($before, qr/^client_secret=it's "secret"$/m, 'the options are as set');
is($node->safe_psql('again', $everything), $before, 'and unchanged after the restore');

# ---- secrets are visible only to the owner of the mapping

is( $node->safe_psql(
		'postgres', q{
		CREATE ROLE somebody;
		GRANT USAGE ON FOREIGN SERVER crm TO somebody;
		SET ROLE somebody;
		SELECT count(umoptions) FROM pg_user_mappings;
	}),
	0,
	'another role cannot read the secret');

$node->stop;
done_testing();
