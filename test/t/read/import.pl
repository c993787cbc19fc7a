# import.pl
#		IMPORT FOREIGN SCHEMA, as far as it needs a dvsim of its own: unusual names,
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

# Starts a dvsim with these tables (default: its own), and makes it the server "crm".
sub serve
{
	my (@tables) = @_;
	my $file = $node->basedir . '/schema.json';
	my $s;

	open my $out, '>', $file or die $!;
	print $out JSON::PP->new->utf8->encode({ tables => \@tables });
	close $out;
	$s = Dvsim->start(@tables > 0 ? ('--schema', $file) : ());
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

# Returns the requests since the last call, except those for tokens.
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

# ---- unusual names

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
	'columns with unusual names, each followed by its label');
is(query(qq{SELECT attfdwoptions[1] FROM pg_attribute
	WHERE attrelid = 'dv."select"'::regclass AND attname = '} . substr($long_column, 0, 61) . q{_2'}),
	"column=${long_column}_2", 'whose real names are kept');
is(query(q{SELECT string_agg(relname || ' ' || ftoptions[1], ', ' ORDER BY relname)
	FROM pg_class JOIN pg_foreign_table ON ftrelid = oid WHERE relname LIKE 'new_a%'}),
	substr($long_table, 0, 61) . "_2 table=${long_table}_2, "
	  . substr($long_table, 0, 63) . " table=${long_table}_1", 'tables as well');
utf8::encode(my $bytes = $unicode);
is(query(q{SELECT obj_description('dv."select"'::regclass, 'pg_class')}), $bytes,
	'comments may contain any character');
is(query(q{SELECT col_description('dv."select"'::regclass, 4)}), "$bytes (1 = $bytes)",
	'choices as well');
is(query(q{SELECT count(*) FROM dataverse.import_diff('dv')}), 0, 'no drift');

# the names do not depend on the other imported tables, and can also be given in full
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
is(query(q{SELECT count(*) FROM dataverse.import_diff('dv')}), 0, 'and restores everything');

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
	  $node->psql('postgres', import_schema('dataverse LIMIT TO (team)'));
	isnt($code, 0, "$action: an import from a broken answer fails");
	like($err, $message, 'with an error');
	$s->control('DELETE', '/_dvsim/faults');
}
is(query(q{SELECT count(*) FROM pg_foreign_table}), 3, 'and creates no table');
# PostgreSQL finds that the type name exists when comments for all tables are already pending
query('CREATE DOMAIN dv.team AS integer');
is($node->psql('postgres', 'DO $$ BEGIN BEGIN '
	. import_schema('dataverse LIMIT TO (businessunit, team)') . '; EXCEPTION WHEN duplicate_object THEN DROP DOMAIN dv.team; END; '
	. import_schema('dataverse LIMIT TO (team)') . '; END $$'), 0,
	'an import after a failed one, in one statement');
is(query(q{SELECT obj_description('dv.team'::regclass, 'pg_class')}), 'Team', 'has its comments');
$s->stop;

# ---- hundreds of tables take one request for every fifty

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

# name, statement, tables, requests besides those for definitions
my @imports = (
	[ 'everything', 'dataverse', undef, 4 ],
	[ 'one table', 'dataverse LIMIT TO (new_table007)', 1, 3 ],
	[ 'all but two', 'dataverse EXCEPT (new_table007, new_table008)', undef, 4 ],
	[ 'a solution', 'new_energy', $many / 2, 4 ],
	[ 'a part of a solution', 'new_energy LIMIT TO (new_table007)', 1, 4 ],
	[ 'the rest of a solution', 'new_energy EXCEPT (new_table007)', $many / 2 - 1, 4 ]);
my $total;
my %definitions;    # the requests for them, by name

# Returns the queries of the requests for definitions.
sub queries
{
	return map { decode_json(s{^RetrieveMetadataChanges\(Query=\@p1\)\?\@p1=}{}r =~ s{%([0-9A-F]{2})}{chr hex $1}ger) }
	  grep { /^RetrieveMetadataChanges/ } @_;
}

# Returns the names of the requested tables, in the documented form.
sub named
{
	return map {
		my $criteria = $_->{Criteria};

		is($criteria->{FilterOperator}, 'Or', 'tables are connected by Or');
		map {
			is_deeply($_, {
				ConditionOperator => 'Equals',
				PropertyName => 'LogicalName',
				Value => { Type => 'System.String', Value => $_->{Value}{Value} } },
				"and each is named as documented") if $_ == $criteria->{Conditions}[0];
			$_->{Value}{Value}
		} @{ $criteria->{Conditions} }
	} @_;
}

for my $import (@imports)
{
	my ($name, $statement, $tables, $others) = @$import;
	my ($start, @sent, @queries, $n);

	query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
	requests($s);
	$start = time;
	query(import_schema($statement));
	note sprintf '%s: %.2f s', $name, time - $start;
	@sent = requests($s);
	@queries = queries(@sent);
	$n = query('SELECT count(*) FROM pg_foreign_table');
	$total //= $n;
	is($n, $tables // ($name eq 'everything' ? $total : $total - 2), "$name: $n tables");
	is(scalar @queries, int(($n + 49) / 50), 'one request for every fifty');
	cmp_ok(scalar @sent - @queries, '<=', $others, "and at most $others others");
	is_deeply([ sort(named(@queries)) ],
		[ split /\n/, query(q{SELECT option_value FROM pg_foreign_table, pg_options_to_table(ftoptions)
			WHERE option_name = 'table' ORDER BY option_value COLLATE "C"}) ],
		'which name these tables and no others');
	is_deeply([ map { $_->{LabelQuery} } @queries ],
		[ map { { FilterLanguages => [1033], MissingLabelBehavior => 0 } } @queries ],
		'and the language of the labels');
	cmp_ok(length $_, '<', 32768, 'and fit into a request line') for @sent;
	$definitions{$name} = \@queries;
}
cmp_ok($total, '>', $many, 'all tables include our own');

# only the necessary metadata is requested
my @asked = @{ $definitions{'one table'}[0]{AttributeQuery}{Properties}{PropertyNames} };
is(scalar(grep { /^(?:OptionSet|DisplayName|Description)$/ } @asked), 3, 'comments take more');
query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
query(import_schema('dataverse LIMIT TO (new_table001)', "OPTIONS (import_comments 'off')"));
my @sent = requests($s);
unlike("@sent", qr/OptionSet|DisplayName|LabelQuery|languagecode/, 'than without them');
is(scalar @sent, 2, 'and two more requests');

# the comparison requests no more, either
query(q{SELECT count(*) FROM dataverse.import_diff('dv')});
@sent = requests($s);
is(scalar @sent, 2, 'import_diff takes two requests');
is_deeply([ named(queries(@sent)) ], ['new_table001'], 'for the existing tables');

# ---- other sessions see the progress of an import, which can be canceled

query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
$s->control('POST', '/_dvsim/faults',
	[ { path => 'RetrieveMetadataChanges', after => 3, action => 'delay', delay_ms => 60000, times => 0 } ]);
my $importer = $node->background_psql('postgres', on_error_stop => 0);
$importer->query_until(qr/begun/, "\\echo begun\n" . import_schema('new_energy', q{OPTIONS (import_comments 'off')}) . ";\n");
ok($node->poll_query_until('postgres',
	q{SELECT (operation, foreign_table, rows_expected, rows_taken) = ('import', 'new_energy', 250, 150) FROM dataverse.progress WHERE rows_taken = 150}),
	'dataverse.progress counts the tables of an import');
is(query('SELECT in_flight FROM dataverse.progress'), 1, 'some of them still being imported');
my $began = time;
query(q{SELECT pg_cancel_backend(pid) FROM dataverse.progress});
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM dataverse.progress'), 'and it can be canceled');
cmp_ok(time - $began, '<', 20, 'soon');
$importer->quit;
$s->control('DELETE', '/_dvsim/faults');
$s->stop;

# ---- a service that refuses RetrieveMetadataChanges: the plain way gives the same tables

my $columns = q{
	SELECT c.relname, ftoptions, obj_description(c.oid, 'pg_class'), attnum, attname, format_type(atttypid, atttypmod),
	       attfdwoptions, col_description(c.oid, attnum), attcollation
	FROM pg_class c JOIN pg_foreign_table ON ftrelid = c.oid JOIN pg_attribute ON attrelid = c.oid
	WHERE attnum > 0 AND relnamespace = '%s'::regnamespace};

$s = serve();    # dvsim's own tables

# Imports everything into the schema, in a session of its own, and returns its messages.
sub import_into
{
	my ($schema, $statement, $options) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; DROP SCHEMA IF EXISTS $schema CASCADE;
		CREATE SCHEMA $schema; SET client_min_messages = debug1;
		IMPORT FOREIGN SCHEMA $statement FROM SERVER crm INTO $schema $options;
		SELECT count(*) FROM dataverse.import_diff('$schema')");

	is($status, 0, "$statement $options") or diag $err;
	return $err;
}

for my $case (
	[ 'dataverse', '' ],
	[ 'dataverse', q{OPTIONS (import_labels 'on')} ],
	[ 'dataverse', q{OPTIONS (import_comments 'off', import_readonly 'off')} ],
	[ 'dataverse EXCEPT (account)', '' ],
	[ 'dataverse LIMIT TO (new_meter, new_alltypes)', '' ],
	[ 'new_energy', '' ])
{
	my ($statement, $options) = @$case;
	my ($err, @plain);

	requests($s);
	$s->quirks;
	$err = import_into('fast', $statement, $options);
	unlike($err, qr/Dataverse has refused/, 'nothing is refused');
	@sent = requests($s);
	is(scalar(grep { m{/Attributes/} } @sent), 0, 'by the short way');

	my $drift = query(q{SELECT string_agg(d::text, E'\n') FROM dataverse.import_diff('fast', false) d});
	requests($s);
	$s->quirks('no-metadata-changes');
	$err = import_into('plain', $statement, $options);
	is(scalar(() = $err =~ /DEBUG:  Dataverse has refused RetrieveMetadataChanges: /g), 1, 'a refusal is reported once');
	@sent = requests($s);
	is(scalar(grep { /^RetrieveMetadataChanges/ } @sent), 1, 'and received once, by the import and the comparison');
	@plain = grep { m{^EntityDefinitions\(LogicalName='\w+'\)(\?\$select=LogicalName|/Attributes/Microsoft\.Dynamics\.CRM\.\w+AttributeMetadata\?\$select=LogicalName)} } @sent;
	cmp_ok(scalar @plain, '>', 4, scalar(@plain) . ' plain requests');
	is(query('SELECT count(*) > 20 FROM (' . sprintf($columns, 'plain') . ') p'), 't', 'columns exist');
	is(query(sprintf "($columns EXCEPT ALL $columns) UNION ALL ($columns EXCEPT ALL $columns)", qw(fast plain plain fast)),
		'', 'the tables are the same');
	is(query(q{SELECT string_agg(d::text, E'\n') FROM dataverse.import_diff('fast', false) d}), $drift, 'and import_diff agrees');
}

# ---- no import is followed by drift

for my $options (map { my $labels = $_; map { "OPTIONS (import_labels '$labels', import_readonly '$_', import_comments 'off')" } qw(on off) } qw(on off))
{
	query("DROP SCHEMA IF EXISTS fast CASCADE; CREATE SCHEMA fast; IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO fast $options");
	is(query(q{SELECT string_agg(d::text, E'\n') FROM dataverse.import_diff('fast', false) d}), '', "no drift with $options");
}
# read-only columns count as new only if other read-only columns were imported
query(q{ALTER FOREIGN TABLE fast.account ADD createdon timestamptz OPTIONS ("column" 'createdon', type 'datetime', readonly 'true')});
is(query(q{SELECT count(*) > 3, bool_and(foreign_table = 'account' AND drift = 'new column' AND statement ~ 'readonly') FROM dataverse.import_diff('fast', false)}),
	't|t', 'a read-only column makes others missing');

# a refusal of the plain requests is an error
for my $path (q{EntityDefinitions(LogicalName='new_meter')}, q{/Attributes/Microsoft.Dynamics.CRM.StringAttributeMetadata})
{
	my ($status, $out, $err);

	$s->control('POST', '/_dvsim/faults', [ { path => $path, status => 400, code => '0x80040216', message => 'not that either', times => 0 } ]);
	($status, $out, $err) = $node->psql('postgres', import_schema('dataverse LIMIT TO (new_meter)'));
	like($err, qr/ERROR:  could not import foreign schema on server "crm": not that either/, "$path refused: an error");
	$s->control('DELETE', '/_dvsim/faults');
}

# a table that has just been deleted is missing either way
for my $quirks ([], ['no-metadata-changes'])
{
	my ($status, $out, $err);

	$s->quirks(@$quirks);
	$s->control('POST', '/_dvsim/faults', @$quirks
		? [ { path => q{EntityDefinitions(LogicalName='new_meter')}, status => 404, code => '0x80060888', message => 'gone', times => 0 } ]
		: [ { path => 'RetrieveMetadataChanges', status => 200, body => { EntityMetadata => [] }, times => 0 } ]);
	($status, $out, $err) = $node->psql('postgres', import_schema('dataverse LIMIT TO (new_meter)'));
	like($err, qr/ERROR:  could not import foreign schema on server "crm": the service did not send the definition of table "new_meter"\nHINT/,
		'a deleted table');
	$s->control('DELETE', '/_dvsim/faults');
}

# and it is not imported in part, if it is deleted before all metadata has been read
for my $answer ({ status => 404, code => '0x80060888', message => 'gone' }, { status => 200, body => {} })
{
	my ($status, $out, $err);

	$s->control('POST', '/_dvsim/faults', [ { path => 'LookupAttributeMetadata', times => 0, %$answer } ]);
	($status, $out, $err) = $node->psql('postgres', import_schema('dataverse LIMIT TO (new_meter)'));
	like($err, qr/ERROR:  could not import foreign schema on server "crm": (the service did not send the definition of table "new_meter"\nHINT|an answer from Dataverse did not have the expected form)/,
		"deleted columns: $answer->{status}");
	$s->control('DELETE', '/_dvsim/faults');
}

{
	my ($status, $out, $err);

	$s->quirks;
	$s->control('POST', '/_dvsim/faults', [ { path => 'RetrieveMetadataChanges', times => 0, status => 200,
		body => { EntityMetadata => [ { LogicalName => 'new_meter', EntitySetName => 'new_meters', PrimaryIdAttribute => 'new_meterid' } ] } } ]);
	($status, $out, $err) = $node->psql('postgres', import_schema('dataverse LIMIT TO (new_meter)'));
	like($err, qr/ERROR:  could not import foreign schema on server "crm": an answer from Dataverse did not have the expected form/, 'a definition without columns');
	$s->control('DELETE', '/_dvsim/faults');
}

# unknown languages: labels in all of them
$s->quirks;
$s->control('POST', '/_dvsim/faults', [ { path => '/organizations', status => 403, code => '0x80040220', message => 'no privilege', times => 0 } ]);
requests($s);
query('DROP SCHEMA dv CASCADE; CREATE SCHEMA dv');
query(import_schema('dataverse LIMIT TO (new_meter)'));
is_deeply([ map { exists $_->{LabelQuery} ? 1 : 0 } queries(requests($s)) ], [0], 'without privilege to read the language, labels are in all languages');
is(query(q{SELECT obj_description('dv.new_meter'::regclass, 'pg_class') IS NOT NULL}), 't', 'and comments');
$s->stop;

$node->stop;
done_testing();
