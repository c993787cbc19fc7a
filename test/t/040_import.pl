# 040_import.pl
#		IMPORT FOREIGN SCHEMA, as far as it needs a dvsim of its own: odd names,
#		the number of requests, hundreds of tables, malformed answers.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Dvsim;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw');

my $since = 0;    # position in the journal of the current dvsim

# Starts a dvsim with these tables, and makes it the server "crm".
sub serve
{
	my (@tables) = @_;
	my $file = $node->basedir . '/schema.json';
	my $s;

	open my $out, '>', $file or die $!;
	print $out JSON::PP->new->utf8->encode({ tables => \@tables });
	close $out;
	$s = Dvsim->start('--schema', $file);
	$since = 0;
	$node->safe_psql(
		'postgres', sprintf q{
		SET client_min_messages = warning;
		DROP SERVER IF EXISTS crm CASCADE;
		DROP SCHEMA IF EXISTS dv CASCADE;
		CREATE SCHEMA dv;
		CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
		  OPTIONS (url '%1$s', authority '%1$s', tenant_id 'any', max_retries '1');
		CREATE USER MAPPING FOR CURRENT_USER SERVER crm
		  OPTIONS (client_id 'app1', client_secret 'secret1')}, $s->base);
	return $s;
}

# Returns the requests that have arrived since the last call, without those for tokens.
sub requests
{
	my ($s) = @_;
	my $log = $s->control('GET', "/_dvsim/requests?since=$since")->json;

	$since = $log->{next};
	return map { $_->{target} =~ s{^/api/data/v[^/]*/}{}r }
	  grep { $_->{kind} ne 'token' } @{ $log->{requests} };
}

sub import_schema
{
	my ($what, $options) = @_;

	return sprintf 'IMPORT FOREIGN SCHEMA %s FROM SERVER crm INTO dv %s', $what, $options // '';
}

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# ---- odd names

my $long_table = 'new_a_table_with_a_name_that_is_longer_than_any_that_postgresql_takes';
my $long_column = 'new_a_column_with_a_name_that_is_longer_than_any_that_postgresql_takes';
my $unicode = "Größe \x{9078}\x{629e} \x{1F600} \"x\" 'y' \\";
my $s = serve(
	{
		name => 'Select', label => $unicode, solutions => ['new_energy'],
		columns => [
			{ name => 'Order', type => 'string' },
			{ name => 'ctid', type => 'integer' },
			{ name => 'Table', type => 'picklist', label => $unicode, options => [ [ 1, $unicode ] ] },
			{ name => 'User', type => 'lookup', targets => [ 'systemuser', 'team', 'select' ] },
			map { { name => "${long_column}_$_", type => 'boolean' } } 1 .. 2
		]
	},
	map {
		{ name => "${long_table}_$_", set => "longs$_", columns => [ { name => 'new_Name', type => 'string' } ] }
	} 1 .. 2);

query(import_schema('dataverse', "OPTIONS (import_labels 'on')"));
is(query(q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
	WHERE attrelid = 'dv."select"'::regclass AND attnum BETWEEN 1 AND 12}),
	join(' ', qw(selectid order ctid_2 table tablename user usertype username),
		substr($long_column, 0, 63), map { substr($long_column, 0, 61) . "_$_" } 3, 2, 4),
	'columns with odd names, each followed by its label');
is(query(qq{SELECT attfdwoptions[1] FROM pg_attribute
	WHERE attrelid = 'dv."select"'::regclass AND attname = '} . substr($long_column, 0, 61) . q{_2'}),
	"column=${long_column}_2", 'whose real names are kept');
is(query(q{SELECT string_agg(relname || ' ' || ftoptions[1], ', ' ORDER BY relname)
	FROM pg_class JOIN pg_foreign_table ON ftrelid = oid WHERE relname LIKE 'new_a%'}),
	substr($long_table, 0, 61) . "_2 table=${long_table}_2, "
	  . substr($long_table, 0, 63) . " table=${long_table}_1", 'tables, too');
utf8::encode(my $bytes = $unicode);
is(query(q{SELECT obj_description('dv."select"'::regclass, 'pg_class')}), $bytes,
	'comments may have any character');
is(query(q{SELECT col_description('dv."select"'::regclass, 4)}), "$bytes (1 = $bytes)",
	'choices, too');
is(query(q{SELECT count(*) FROM dataverse.import_diff('dv')}), 0, 'nothing has drifted');

# the names do not depend on what else is imported, and can also be given in full
query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
query(import_schema(
	sprintf 'dataverse LIMIT TO (%s_1, %s_2)', $long_table, substr($long_table, 0, 61)));
is(query(q{SELECT count(*) FROM pg_foreign_table}), 2, 'LIMIT TO with long names');

# ---- dump and restore

my $dump = $node->basedir . '/import.sql';
query(import_schema('new_energy'));
$node->command_ok([ 'pg_dump', '-n', 'dv', '-f', $dump, 'postgres' ], 'pg_dump');
query('DROP SCHEMA dv CASCADE');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'postgres' ],
	'restores');
is(query(q{SELECT count(*) FROM dataverse.import_diff('dv')}), 0, 'and nothing is lost');

# ---- a failed import does not affect the next one

requests($s);
for my $fault (
	[ 'truncate', qr/could not import foreign schema/ ],
	[ 'garble', qr/could not import foreign schema/ ])
{
	my ($action, $message) = @$fault;
	my ($code, $out, $err);

	$s->control('POST', '/_dvsim/faults',
		[ { path => 'RetrieveMetadataChanges', action => $action, times => 0 } ]);
	($code, $out, $err) =
	  $node->psql('postgres', import_schema('dataverse EXCEPT ("select")'));
	isnt($code, 0, "$action: an import from a broken answer fails");
	like($err, $message, 'and says so');
	$s->control('DELETE', '/_dvsim/faults');
}
is(query(q{SELECT count(*) FROM pg_foreign_table}), 3, 'and has made no table');
is($node->psql('postgres', 'DO $$ BEGIN BEGIN '
	. import_schema('dataverse') . '; EXCEPTION WHEN duplicate_table THEN NULL; END; '
	. import_schema('dataverse LIMIT TO (team)') . '; END $$'), 0,
	'an import after one that failed, in one statement');
is(query(q{SELECT obj_description('dv.team'::regclass, 'pg_class')}), 'Team', 'has its comments');
$s->stop;

# ---- hundreds of tables take as many requests as one

my @columns = map {
	(
		{ name => "new_Text$_", type => 'string' }, { name => "new_Number$_", type => 'decimal' },
		{ name => "new_Kind$_", type => 'picklist', options => [ map { [ $_, "Option $_" ] } 1 .. 8 ] },
		{ name => "new_Ref$_", type => 'lookup', targets => ['systemuser'] })
} 1 .. 10;
my $many = 500;
$s = serve(
	map {
		{
			name => sprintf('new_Table%03d', $_), set => "new_table${_}s",
			columns => \@columns, solutions => $_ % 2 ? ['new_energy'] : []
		}
	} 1 .. $many);

# name, statement, tables, requests
my @imports = (
	[ 'everything', 'dataverse', undef, 3 ],
	[ 'one table', 'dataverse LIMIT TO (new_table007)', 1, 2 ],
	[ 'all but two', 'dataverse EXCEPT (new_table007, new_table008)', undef, 3 ],
	[ 'a solution', 'new_energy', $many / 2, 3 ],
	[ 'a part of a solution', 'new_energy LIMIT TO (new_table007)', 1, 3 ],
	[ 'the rest of a solution', 'new_energy EXCEPT (new_table007)', $many / 2 - 1, 3 ]);
my $total;
my %definitions;    # the request for them, by name

for my $import (@imports)
{
	my ($name, $statement, $tables, $limit) = @$import;
	my ($start, @sent, $n);

	query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
	requests($s);
	$start = time;
	query(import_schema($statement));
	note sprintf '%s: %.2f s', $name, time - $start;
	@sent = requests($s);
	cmp_ok(scalar @sent, '<=', $limit, "$name: at most $limit requests");
	@sent = grep { /^RetrieveMetadataChanges/ } @sent;
	is(scalar @sent, 1, 'one of them for definitions');
	$definitions{$name} = $sent[0];
	$n = query('SELECT count(*) FROM pg_foreign_table');
	$total //= $n;
	is($n, $tables // ($name eq 'everything' ? $total : $total - 2), "$n tables");
}
cmp_ok($total, '>', $many, 'everything is more than what we made');

# only what is needed is requested
like($definitions{'one table'}, qr/%22In%22.*%5B%27new_table007%27%5D/,
	'LIMIT TO is part of the request');
like($definitions{'all but two'}, qr/%22NotIn%22.*%5B%27new_table007%27%2C%27new_table008%27%5D/,
	'so is EXCEPT');
like($definitions{'one table'}, qr/OptionSet.*DisplayName|DisplayName.*OptionSet/, 'comments take more');
query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
query(import_schema('dataverse LIMIT TO (new_table001)', "OPTIONS (import_comments 'off')"));
unlike((grep { /^RetrieveMetadataChanges/ } requests($s))[0],
	qr/OptionSet|DisplayName/, 'than is asked for without them');

# the comparison requests no more, either
query(q{SELECT count(*) FROM dataverse.import_diff('dv')});
cmp_ok(scalar requests($s), '<=', 3, 'import_diff takes no more requests');
$s->stop;

$node->stop;
done_testing();
