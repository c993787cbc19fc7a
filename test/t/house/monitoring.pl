# monitoring.pl
#		dataverse.metrics agrees with the views of the extension, shows roles what they may see,
#		and reaches Prometheus; the files in contrib/monitoring use what exists.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $top = "$FindBin::Bin/../../..";
my $files = "$top/contrib/monitoring";
my $crm = Crm->start('monitoring', users => 2, preload => 1, options => { budget_pacing => 'off' });

$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=300');
$crm->sql(q{
	CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
	CREATE ROLE stranger LOGIN;
	CREATE ROLE loader LOGIN;
	GRANT USAGE ON SCHEMA dv TO loader;
	GRANT USAGE ON FOREIGN SERVER crm TO loader;
	GRANT CREATE ON SCHEMA public TO loader;
	GRANT SELECT, INSERT, UPDATE, DELETE ON dv.account TO loader});
my $mapping = $crm->sql(
	q{SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM information_schema.user_mapping_options});
$crm->sql("CREATE USER MAPPING FOR loader SERVER crm OPTIONS ($mapping)");

sub value
{
	my ($name, $labels) = @_;
	return $crm->sql(
		"SELECT value FROM dataverse.metrics WHERE name = '$name' AND labels \@> '" . encode_json($labels // {}) . "'");
}

# ---- one of everything happens

$crm->as('loader', q{CALL dataverse.sync('dv.account', 'public.account')});
$crm->sql(q{UPDATE account SET name = 'edited' WHERE accountid = (SELECT accountid FROM account ORDER BY 1 LIMIT 1)});
$crm->sql(q{SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.contact (lastname, parentcustomerid, parentcustomeridtype)
	VALUES ('x', gen_random_uuid(), 'account'), ('y', NULL, NULL)});
# the service refuses a row of a push, which then cannot go on
$crm->fault(action => 'status', method => 'POST', contains => 'pushed 25', status => 400, code => '0x80040203', times => 100);
my (undef, $refused) = $crm->as('loader',
	q{CALL dataverse.push('SELECT ''pushed '' || i AS name FROM generate_series(1, 50) AS i', 'dv.account', chunk => 10)});
$crm->no_faults;
# and throttles one request
$crm->fault(action => 'status', path => 'accounts', status => 429, code => '0x80072322', retry_after => 1, times => 1);
$crm->sql('SELECT count(name) FROM dv.account');

# ---- numbers are those of the views

is(value('requests_total', { application_user => 'app1' }),
	$crm->sql(q{SELECT sum(requests) FROM dataverse.pool WHERE name = 'app1'}), 'requests of an application user');
is( $crm->sql(q{SELECT string_agg(labels ->> 'operation' || ' ' || value, ', ' ORDER BY labels ->> 'operation') FROM (
		SELECT jsonb_build_object('operation', labels ->> 'operation') AS labels, sum(value) AS value
		FROM dataverse.metrics WHERE name = 'rows_total' GROUP BY 1) AS m}),
	$crm->sql(q{SELECT string_agg(key || ' ' || n, ', ' ORDER BY key) FROM (
		SELECT key, sum(value::bigint) AS n FROM dataverse.pool, jsonb_each_text(rows) GROUP BY 1) AS r}), 'rows by operation');
is($crm->sql(q{SELECT sum(value) FROM dataverse.metrics WHERE name = 'throttles_total'}), 1, 'throttles');
is(value('copy_rows_to_send', { copy => 'public.account' }), 1, 'changes that wait to be sent');
cmp_ok(value('copy_age_seconds', { copy => 'public.account' }), '<', 600, 'the age of a copy');
is(value('copy_failed', { copy => 'public.account' }), 0, '... whose last run was successful');
is(value('rejects', { foreign_table => 'dv.contact' }), 1, 'a refused row');
like($refused, qr/could not push/, 'the push has stopped');
is(value('push_rows_left', { foreign_table => 'dv.account' }),
	$crm->sql('SELECT rows - rows_done FROM dataverse.pushes'), 'rows of an unfinished push');
$crm->fault(action => 'status', path => 'accounts', status => 403, times => 100);
$crm->as('loader', q{CALL dataverse.sync('dv.account', 'public.account')});
$crm->no_faults;
is(value('copy_failed', { copy => 'public.account' }), 1, 'a run that has failed');
is($crm->sql('SELECT count(*) - count(DISTINCT (name, labels)) + count(*) FILTER (WHERE value IS NULL) FROM dataverse.metrics'),
	0, 'labels distinguish all numbers, none of which is null');

# ---- roles

my $names = q{SELECT string_agg(DISTINCT name, ' ' ORDER BY name) FROM dataverse.metrics};

is(($crm->as('watcher', $names))[0], $crm->sql($names), 'members of pg_monitor see all numbers');
is(($crm->as('stranger', $names))[0], '', 'a role without rights sees none');
like(($crm->as('loader', $names))[0], qr/copy_age_seconds.*push_rows_left.*requests_total/, 'the owner of a copy sees it');
unlike(($crm->as('loader', $names))[0], qr/rejects/, '... but not the rejects of others');

# ---- the files

my $source = slurp_file("$top/src/sql/metrics.sql");
my %known = map { $_ => 1 } $source =~ /^\s+(?:SELECT |.*?VALUES )?\(?'([a-z_]+)', /mg, $source =~ /\('([a-z]+_total)', /g;
my ($described) = slurp_file("$top/doc/reference.md") =~ /^### Metrics\n(.*?)^### /ms;

is(join(' ', grep { $described !~ /`$_`/ } sort keys %known), '', 'the reference describes each number');
is(join(' ', grep { !$known{$_} } split / /, $crm->sql($names)), '', 'which are those of the source');

my ($exporter, $collector) = map { slurp_file("$files/$_") } 'postgres_exporter.yaml', 'otel_collector.yaml';
my ($query) = $exporter =~ /query: \|\n(.*?)^  metrics:/ms;
my ($same) = $collector =~ /sql: \|\n(.*?)^        metrics:/ms;
is($same =~ s/^ +//mgr, $query =~ s/^ +//mgr, 'the exporter and the collector ask the same');
my %labels = map { $_ => 1 } $exporter =~ /- (\w+): \{usage: LABEL/g;
my ($attributes) = $collector =~ /attribute_columns: \[(.*?)\]/;
is(join(' ', sort split /, /, $attributes), join(' ', sort keys %labels), '... and give the same labels');

sub expressions
{
	my ($node) = @_;
	return ref $node eq 'ARRAY' ? map { expressions($_) } @$node
	  : ref $node eq 'HASH' ? (map { $_ eq 'expr' ? $node->{$_} : expressions($node->{$_}) } sort keys %$node)
	  : ();
}
my $alerts = slurp_file("$files/alerts.yaml");
my %expressions = (
	'the dashboard' => [ expressions(decode_json(slurp_file("$files/dashboard.json"))) ],
	'the alerts' => [ $alerts =~ /expr: (.*)/g ]);
for my $file (sort keys %expressions)
{
	my @all = @{ $expressions{$file} };
	my @used = map { split /\|/ } map { /\bname=~?"([^"]+)"/g } @all;
	my @by = map { split /, / } map { /(?:by|without) \(([^)]*)\)/g } @all;

	cmp_ok(scalar @all, '>', 8, "$file: expressions");
	is(join(' ', grep { !$known{$_} } @used), '', '... use numbers that exist');
	is(join(' ', grep { !$labels{$_} } @by, (map { /\b(\w+)=~?"/g } @all)), '', '... and labels');
}
is(join(' ', grep { !$labels{$_} } $alerts =~ /\$labels\.(\w+)/g), '', 'the texts of alerts as well');

# ---- Prometheus gets the numbers

SKIP:
{
	my $program = 'prometheus-postgres-exporter';
	skip "$program is not installed", 3 unless grep { -x "$_/$program" } split /:/, $ENV{PATH};

	my $port = PostgreSQL::Test::Cluster::get_free_port();
	local $ENV{DATA_SOURCE_NAME} = 'user=watcher dbname=postgres sslmode=disable host=' . $crm->node->host . ' port=' . $crm->node->port;
	my $log = '';
	my $h = IPC::Run::start([ $program, "--web.listen-address=127.0.0.1:$port", '--disable-default-metrics', '--disable-settings-metrics',
		'--no-collector.database', '--no-collector.bgwriter', "--extend.query-path=$files/postgres_exporter.yaml" ],
		'>&', \$log);
	my $page = '';

	for (1 .. 200)
	{
		$h->pump_nb;
		IPC::Run::run([ 'curl', '-sf', "http://127.0.0.1:$port/metrics" ], '>', \$page);
		last if $page =~ /dataverse_value/;
		select undef, undef, undef, 0.05;
	}
	$h->kill_kill;
	diag($log) unless like($page, qr/^pg_exporter_last_scrape_error\S* 0$/m, 'the exporter reads the view');
	my %got = map { $_ => 1 } $page =~ /^dataverse_value\{[^}]*\bname="(\w+)"/mg;
	is(join(' ', sort keys %got), $crm->sql($names), 'all numbers');
	like($page, qr/^dataverse_value\{(?=[^}]*copy="public\.account")(?=[^}]*name="copy_rows_to_send")[^}]*\} 1$/m, 'with their labels');
}
$crm->stop;
done_testing();
