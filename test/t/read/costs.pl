# costs.pl
#		Plans depend on how long the service takes: requests that take a second
#		are avoided, and requests that take a millisecond are not.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;

my $seeded = 600;    # rows of the table
my $rows = 5000;     # rows that PostgreSQL expects: one page
my $keys = 2000;     # for four requests, which are assumed to take longer than a page
my $fewer = 600;     # for two requests, which are assumed to take less
my $soon = 100;      # ms; a request takes 1, but the test must not fail on a busy machine
my @app_user = ('--app-user', 'app1:secret1');
my %measured = (options => { request_cost => undef, row_cost => undef });

my $crm = Crm->start('costs', preload => 1, flags => [ '--latency', 'read=1ms+100us/row' ], %measured);
my $slow = Dvsim->start(@app_user, '--latency', 'read=1s');

sub seed
{
	my ($dvsim, $rows) = @_;
	my $answer = $dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");

	die $answer->body unless $answer->status == 200;
	return;
}

# Creates a table on a server, with this number of rows in pg_class.
sub table
{
	my ($schema, $server, $rows) = @_;
	$crm->sql(qq{
		CREATE SCHEMA IF NOT EXISTS $schema;
		CREATE FOREIGN TABLE $schema.account (accountid uuid, name varchar(160), accountnumber varchar(20))
		  SERVER $server OPTIONS ("table" 'account', entity_set 'accounts', primary_id 'accountid');
		UPDATE pg_class SET reltuples = $rows, relpages = 1 WHERE oid = '$schema.account'::regclass});
	return;
}

# Returns how the table is joined with this number of keys.
sub join_of
{
	my ($schema, $keys, $set) = @_;
	my $plan = $crm->sql(($set // '') . "EXPLAIN SELECT name FROM $keys JOIN $schema.account USING (accountid)");

	return $plan =~ /DataverseLookup/ ? 'lists of keys' : $plan =~ /Hash Join|Merge Join/ ? 'the whole table' : $plan;
}

sub cost_of
{
	my ($query, $set) = @_;
	return ($crm->sql(($set // '') . "EXPLAIN $query") =~ /cost=[\d.]+\.\.([\d.]+)/)[0];
}

sub pool
{
	my ($server, $column) = @_;
	return $crm->sql("SELECT $column FROM dataverse.pool WHERE server = '$server'");
}

seed($crm->dvsim, $seeded);
seed($slow, 6);
$crm->server('slow', base => $slow->base, token_url => $slow->base . '/t/oauth2/v2.0/token', %measured);
table('crm', 'crm', $rows);
table('slow', 'slow', $rows);
# ids are unique, whatever the number of rows
$crm->sql(qq{ANALYZE crm.account; ANALYZE slow.account;
	UPDATE pg_class SET reltuples = $rows WHERE relname = 'account' AND relkind = 'f';
	SELECT dataverse.reset_pool('crm'), dataverse.reset_pool('slow')});
for ([ wanted => $keys ], [ fewer => $fewer ])
{
	my ($name, $n) = @$_;
	$crm->sql("CREATE TABLE $name (accountid uuid); INSERT INTO $name SELECT gen_random_uuid() FROM generate_series(1, $n); ANALYZE $name");
}

# ---- defaults before anything is measured

is(join_of('crm', 'wanted'), 'the whole table', 'nothing measured: a page is read instead of four lists');
is(join_of('slow', 'fewer'), 'lists of keys', '... and two lists are sent');
is(cost_of('SELECT name FROM crm.account'), sprintf('%.2f', 100 + $rows * (0.05 + 0.01)), 'a request costs 100, a row 0.05');
is(pool('crm', 'read_request_ms IS NULL AND read_row_ms IS NULL AND read_row_bytes IS NULL'), 't', 'the view shows no measurement');

# ---- fast requests

$crm->sql(join ';', map { "SELECT name FROM crm.account WHERE accountid = '00000000-0000-0000-0000-00000000000$_'" } 1 .. 7);
is(join_of('crm', 'wanted'), 'the whole table', 'seven answers are too few');
$crm->sql(join ';', map { 'SELECT * FROM crm.account' } 1 .. 5);
$crm->sql(q{SELECT name FROM crm.account WHERE accountid = '00000000-0000-0000-0000-000000000008'});
cmp_ok(pool('crm', 'read_request_ms'), '<', $soon, 'a request is measured ...');
cmp_ok(pool('crm', 'read_row_ms'), '>', 0.09, '... and so is a row, which takes 0.1 ms and its share of the wire');
cmp_ok(pool('crm', 'read_row_ms'), '<', 0.2, '... and not more');
cmp_ok(pool('crm', 'read_row_bytes'), '>', 100, '... and its size ...');
cmp_ok(pool('crm', 'read_row_bytes'), '<', 400, '... in bytes');
is(join_of('crm', 'wanted'), 'lists of keys', 'four requests of a millisecond are cheaper than a page');
cmp_ok(cost_of('SELECT accountid FROM crm.account'), '<', 0.85 * cost_of('SELECT * FROM crm.account'), 'narrow rows cost less than wide ones');

# ---- a session that is busy elsewhere when an answer arrives

table('paged', 'crm', $seeded);
$crm->sql(q{ALTER FOREIGN TABLE paged.account OPTIONS (ADD page_size '10')});
$crm->sql(join ';', map { 'BEGIN; DECLARE c CURSOR FOR SELECT accountid FROM paged.account; FETCH 1 FROM c; SELECT pg_sleep(0.3); MOVE 15 IN c; COMMIT' } 1 .. 18);
cmp_ok(pool('crm', 'read_request_ms'), '<', $soon, 'the time until an answer is processed does not count');

# ---- slow requests

$crm->finish($_) for map { $crm->background("SELECT name FROM slow.account WHERE name = 'x$_'", "slow$_") } 1 .. 8;
cmp_ok(pool('slow', 'read_request_ms'), '>=', 1000, 'slow requests are measured');
cmp_ok(pool('slow', 'read_request_ms'), '<', 1500, '... without the time that they waited for a slot');
is(join_of('slow', 'fewer'), 'the whole table', 'a page is cheaper than two requests of a second');
is(join_of('crm', 'wanted'), 'lists of keys', '... which does not affect another server');

# ---- many requests are never cheap

$crm->sql(q{CREATE TABLE thousand (accountid uuid); INSERT INTO thousand SELECT gen_random_uuid() FROM generate_series(1, 1000); ANALYZE thousand});
for my $schema (qw(crm slow))
{
	my $one = pool($schema, 'read_request_ms');
	my $cost = cost_of("SELECT name FROM thousand LEFT JOIN $schema.account USING (accountid)",
		'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;');

	cmp_ok($cost, '>=', 1000 * $one, "$schema: a thousand requests cost as much as a thousand requests");
}

# this number of ids takes two requests; all rows would take four
table('listed', 'crm', $seeded);
$crm->sql(q{ALTER FOREIGN TABLE listed.account OPTIONS (ADD request_cost '100', ADD row_cost '0');
	ANALYZE listed.account;
	UPDATE pg_class SET reltuples = 20000 WHERE oid = 'listed.account'::regclass});

sub list_cost
{
	my ($n) = @_;
	my $ids = $crm->sql("SELECT array_agg(gen_random_uuid()) FROM generate_series(1, $n)");

	return cost_of("SELECT name FROM listed.account WHERE accountid = ANY ('$ids')");
}

cmp_ok(list_cost(600), '>=', 200, 'and so do the parts of a list');
cmp_ok(list_cost(600), '<', 300, '... and no more');
cmp_ok(list_cost(5000), '>=', 400, '... a long list costs as much as all rows');
cmp_ok(list_cost(5000), '<', 400 + 2 * 0.01 * 20000, '... and no more');

# ---- options

$crm->sql(q{ALTER SERVER slow OPTIONS (ADD request_cost '100', ADD row_cost '0.05')});
is(join_of('slow', 'fewer'), 'lists of keys', 'options of the server override the measurements');
is(cost_of('SELECT name FROM slow.account'), sprintf('%.2f', 100 + $rows * (0.05 + 0.01)), '... so that costs are fixed');
is(cost_of('SELECT name FROM slow.account LIMIT 1'), '100.06', 'one row costs a request');
$crm->sql(q{UPDATE pg_class SET reltuples = 1000000 WHERE oid = 'slow.account'::regclass});
cmp_ok(cost_of('SELECT count(*) FROM slow.account'), '>=', 20 * 100, 'a million rows are not counted in one request ...');
cmp_ok(cost_of('SELECT count(*) FROM slow.account'), '<', 200 * 100, '... but need not be read');
$crm->sql(qq{UPDATE pg_class SET reltuples = $rows WHERE oid = 'slow.account'::regclass});
$crm->sql(q{ALTER FOREIGN TABLE slow.account OPTIONS (ADD request_cost '1000')});
is(join_of('slow', 'fewer'), 'the whole table', 'options of the table override those of the server');

# ---- which roles measure

$crm->sql(q{CREATE ROLE guest; GRANT USAGE ON SCHEMA crm TO guest; GRANT SELECT ON crm.account, wanted TO guest});
is(join_of('crm', 'wanted', 'SET ROLE guest; '), 'the whole table', 'without a user mapping nothing is measured, and nothing is raised');
$crm->sql(q{SELECT dataverse.reset_pool('crm')});
is(join_of('crm', 'wanted'), 'the whole table', 'reset_pool discards the measurements');

done_testing();
