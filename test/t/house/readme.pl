# readme.pl
#		Runs the SQL of the README and of the pages in doc/ unchanged against dvsim, except for
#		that of the cookbook, which has a test of its own.
#
# All blocks of SQL run in order in one database, except for the one that creates the server
# without an environment: it takes the place of the first one in another database.  A block of
# text after a block of SQL is the expected output.  Only what depends on the environment is
# replaced.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Dvsim;

my $dvsim = Dvsim->start('--app-user', 'app1:secret1', '--app-user', 'app2:secret2');
my $node = PostgreSQL::Test::Cluster->new('readme');

$node->init;
$node->start;

my $top = "$FindBin::Bin/../../..";
my $readme = slurp_file("$top/README.md");
my $pages = join '', map { slurp_file($_) } grep { !/cookbook/ } sort glob "$top/doc/*.md";
my ($try) = $readme =~ s/(^## Try it without an environment\n.*?)(?=^## )//ms ? $1 : die;
my $text = $readme . $pages;
my $ran = 0;

sub blocks { return $_[0] =~ /^```sql\n(.*?)^```$/msg; }

# without an environment
$node->safe_psql('postgres', 'CREATE DATABASE try');
$node->safe_psql('try', 'CREATE EXTENSION dataverse_fdw');
for my $sql (blocks($try), (blocks($readme =~ s/^## .*//msr))[1, 2])
{
	$sql =~ s{http://127\.0\.0\.1:8080}{$dvsim->base}ge;
	my ($status, undef, $err) = $node->psql('try', $sql, on_error_stop => 1);
	is($status, 0, 'runs without an environment') or diag($err);
}
is($node->safe_psql('try', q{SELECT count(*) FROM dv.account WHERE accountnumber LIKE 'demo-%'; DELETE FROM dv.account}), 889, '... and writes');
$node->safe_psql('postgres', 'DROP DATABASE try');

while ($text =~ /^```sql\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?/msg)
{
	my ($sql, $expected) = ($1, $2);
	my ($title) = $sql =~ /^\s*(.+)/;

	# dvsim issues the tokens as well
	$sql =~ s{(url) '(https://contoso\.crm\.dynamics\.com)'}{"$1 '$2', authority '$2'"}ge;
	$sql =~ s{https://contoso\.crm\.dynamics\.com}{$dvsim->base}ge;
	$sql =~ s{http://127\.0\.0\.1:8080}{$dvsim->base}ge;
	$sql =~ s/(?<=ADD client_id_2 ')your-client-id/app2/;
	$sql =~ s/(?<=ADD client_secret_2 ')your-client-secret/secret2/;
	$sql =~ s/your-client-id/app1/g;
	$sql =~ s/your-client-secret/secret1/g;

	my ($status, $out, $err) = $node->psql('postgres', $sql);

	is($status, 0, "runs: $title") or diag($err);
	is("$out\n", $expected, '... and prints the expected output') if defined $expected;
	$ran++;
}

cmp_ok($ran, '>=', 15, 'the README has runnable examples');

# the roles of the examples can run the queries for monitoring
my @queries = slurp_file("$top/doc/monitoring.md") =~ /^```sql\n(.*?)^```$.*?^```sql\n(.*?)^```$/ms;
for my $role (qw(watcher copier))
{
	my ($status, undef, $err) = $node->psql('postgres', "SET ROLE $role;" . shift(@queries), on_error_stop => 1);
	is($status, 0, "$role can run the queries for monitoring") or diag($err);
}

# the objects created by the blocks exist and work
is( $node->safe_psql('postgres', "SELECT string_agg(application_user, ' ' ORDER BY 1) FROM dataverse.test_connection('crm') WHERE ok"),
	'app1 second', 'the application users of the examples work');
is( $node->safe_psql('postgres', "SELECT string_agg(srvname || ' ' || unnest, ', ' ORDER BY srvname) FROM (
	SELECT srvname, unnest(srvoptions) FROM pg_foreign_server) AS o WHERE unnest LIKE 'url=%'"),
	'crm url=' . $dvsim->base, 'the server of the examples points to dvsim');
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE creditonhold) FROM dv.account'),
	'999|1', 'the rows of the examples are in Dataverse, those of the dry run are not');
is($node->safe_psql('postgres', q{SELECT string_agg(target || coalesce(age::text, ' never'), ' ') FROM dataverse.sync_state}) =~ s/\d\d:[\d:.]+//gr,
	'public.account', 'the copy of the examples is up to date');
is($node->safe_psql('postgres', q{SELECT string_agg(operation || ' ' || status, ', ' ORDER BY id) FROM dataverse.runs}),
	'pull succeeded, pull succeeded, sync succeeded, sync succeeded, sync succeeded, sync succeeded, push succeeded',
	'all runs have succeeded');

# ---- preloading and roles as the README describes

like(($node->psql('postgres', 'SET dataverse_fdw.dryrun = on'))[2], qr/^.*ERROR:  invalid configuration parameter name "dataverse_fdw\.dryrun"/,
	'preloaded as the README says, a misspelled setting is an error');

# Returns the SQLSTATE or the output of a statement run by a role.
sub as_role
{
	my ($role, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET ROLE $role;\n$sql");

	return $err =~ /ERROR:  (\w+)/ ? $1 : $out;
}

my %call = (
	read => 'SELECT count(*) > 0 FROM dv.account',
	write => "WITH u AS (UPDATE dv.account SET telephone1 = '1' WHERE accountnumber = 'demo-17' RETURNING 1) SELECT count(*) FROM u",
	request => "SELECT count(*) FROM dataverse.request('crm', 'GET', 'WhoAmI')",
	import => 'IMPORT FOREIGN SCHEMA dataverse LIMIT TO (task) FROM SERVER crm INTO copies',
	pull => "CALL dataverse.pull('dv.contact', 'copies.contact'); SELECT count(*) FROM copies.contact",
	watch => "SELECT count(*) FROM dataverse.pool WHERE server = 'crm'");
my %may = (
	loader => { read => 't', write => 1, request => 42501, import => 42501, pull => 42501, watch => 1 },
	copier => { read => 't', write => 42501, request => 1, import => '', pull => 0, watch => 1 },
	watcher => { read => 42704, write => 42501, request => 42501, import => 42501, pull => 42501, watch => 2 });
for my $role (sort keys %may)
{
	is(as_role($role, $call{$_}), $may{$role}{$_}, "the role $role: $_") for sort keys %call;
}
is(as_role('dba', "CREATE SERVER another FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', tenant_id 'x')"),
	'', 'the role dba can create servers');

$node->stop;
done_testing();
