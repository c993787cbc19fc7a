# export.pl
#		dataverse.export_schema(): a dvsim with the file has the same tables, by every request for
#		definitions and in IMPORT FOREIGN SCHEMA; and exporting them again makes the same file.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Crm;
use Dvsim;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $json = JSON::PP->new->canonical;
my $crm = Crm->start('export', options => { max_retries => 1 });
my $node = $crm->node;
my $files = 0;

sub write_file
{
	my ($text) = @_;
	my $file = $node->basedir . '/schema' . ++$files . '.json';

	open my $out, '>:raw', $file or die $!;
	print $out $text;
	close $out;
	return $file;
}

# Writes a file as a user does it, and returns its name.
sub export
{
	my ($server, $tables) = @_;
	my $call = sprintf q{SELECT dataverse.export_schema('%s'%s)}, $server, defined $tables ? ", '{$tables}'" : '';
	my ($out, $err) = run_command([ 'psql', '-XAtd', $node->connstr('postgres'), '-c', $call ]);

	is($err, '', "exports $server " . ($tables // ''));
	utf8::encode($out) if utf8::is_utf8($out);
	return write_file("$out\n");
}

sub parsed { return decode_json(slurp_file($_[0])); }

sub tables_of { return map { lc $_->{name} => $_ } @{ parsed($_[0])->{tables} }; }

# A server whose dvsim has the file as its schema, and all its tables as foreign tables.
sub serve
{
	my ($name, $file) = @_;
	my $s = Dvsim->start('--schema', $file);

	$crm->server($name, base => $s->base, token_url => $s->base . '/t/oauth2/v2.0/token', options => { max_retries => 1 });
	$crm->sql("CREATE SCHEMA dv_$name; IMPORT FOREIGN SCHEMA dataverse FROM SERVER $name INTO dv_$name OPTIONS (import_labels 'on')");
	return $s;
}

# All that IMPORT has made of the tables: columns, types, options, defaults, comments.
sub imported
{
	my ($schema, @tables) = @_;
	my $only = @tables ? "AND c.relname IN ('" . join("', '", @tables) . "')" : '';

	return [ split /\n/, $crm->sql(qq{
		SELECT jsonb_build_array(c.relname, t.ftoptions, obj_description(c.oid, 'pg_class'), a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
			a.attnotnull, a.attcollation::regcollation::text, a.attfdwoptions, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))
		FROM pg_class AS c JOIN pg_foreign_table AS t ON t.ftrelid = c.oid JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
			LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = '$schema'::regnamespace $only ORDER BY c.relname, a.attnum}) ];
}

# All definitions, by table, collection, and name.
sub definitions
{
	my ($s) = @_;
	my %all;

	for my $table (@{ $s->get('EntityDefinitions?$expand=Attributes,ManyToOneRelationships,ManyToManyRelationships,Keys')->json->{value} })
	{
		for my $kind (qw(Attributes ManyToOneRelationships ManyToManyRelationships Keys))
		{
			$all{"$table->{LogicalName} $kind $_->{SchemaName}"} = $json->encode($_) for @{ delete $table->{$kind} };
		}
		$all{ $table->{LogicalName} } = $json->encode($table);
	}
	return \%all;
}

# ---- all tables of the default schema

$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO dv OPTIONS (import_labels \'on\')');
my $file = export('crm');
my %tables = tables_of($file);
my $builtin = parsed("$FindBin::Bin/../../dvsim/schema.json");
my @core = sort map { lc $_->{name} } grep { $_->{core} } @{ $builtin->{tables} };
my @own = sort map { lc $_->{name} } grep { !$_->{core} } @{ $builtin->{tables} };

is(join(' ', sort keys %tables), "@own", 'the file has all tables but the core ones');
my ($listed) = slurp_file("$FindBin::Bin/../../../src/sql/export.sql") =~ /core CONSTANT text\[\] := ([^;]*);/;
is(join(' ', $listed =~ /(\w+)/g), "@core", 'which are those of schema.json');
is_deeply([ grep { exists $_->{formula} } map { @{ $_->{columns} } } values %tables ], [], 'formulas are not exported');

my $second = serve('second', $file);
my $here = imported('dv');
cmp_ok(scalar @$here, '>', 600, 'columns are compared');
is_deeply(imported('dv_second'), [ map { s/\bserver_crm\b/server_second/gr } @$here ], 'the foreign tables are the same');
my $definitions = definitions($crm->dvsim);
cmp_ok(scalar keys %$definitions, '>', 1000, 'definitions are compared');
is_deeply(definitions($second), $definitions, 'all definitions are the same');
is(slurp_file(export('second')), slurp_file($file), 'exported again, the file is the same');
is($crm->sql(q{INSERT INTO dv_second.new_alltypes (new_name, new_globalchoice) VALUES ('one', 3);
	SELECT new_yesno, new_choicedefault, new_globalchoice FROM dv_second.new_alltypes}), 't|2|3', 'rows get their defaults');

# ---- without RetrieveMetadataChanges

$second->control('POST', '/_dvsim/quirks', ['no-metadata-changes']);
is(slurp_file(export('second')), slurp_file($file), 'the file is the same if RetrieveMetadataChanges is refused');
my $part = export('second', 'phonecall');
like(($node->psql('postgres', q{SELECT dataverse.export_schema('second', '{account,"no''t there"}')}))[2],
	qr/ERROR:  table "no't there" is not available in the Web API\nHINT:  Specify the logical name/, '... and so is the error for an unknown table');
$second->control('POST', '/_dvsim/quirks', []);
is(slurp_file(export('second', 'phonecall')), slurp_file($part), '... and a file with tables that are only referred to');

# ---- a few tables

$file = export('crm', 'new_account_contact,phonecall,phonecall,systemuser');
%tables = tables_of($file);
is(join(' ', sort keys %tables), 'account contact new_account_contact new_meter opportunity phonecall', 'tables that they refer to are in the file');
is(join(' ', map { "$_->{name}:" . join ',', map { $_->{name} } @{ $_->{columns} } } @tables{qw(account contact new_meter)}),
	'Account:Name Contact:FullName new_Meter:new_Name', '... with their names only');
is_deeply($tables{new_account_contact}{many},
	{ name => 'new_Account_Contact', table1 => 'account', table2 => 'contact', navigation1 => 'new_Account_Contact', navigation2 => 'new_Account_Contact' },
	'the relationship of an intersect table');
my $few = serve('few', $file);
is_deeply(imported('dv_few', 'phonecall', 'new_account_contact'), imported('dv_second', 'phonecall', 'new_account_contact'), 'the foreign tables are the same');
is(slurp_file(export('few', 'new_account_contact,phonecall')), slurp_file($file), 'exported again, the file is the same');
$few->stop;

# ---- bulk messages that the environment does not tell

$second->control('POST', '/_dvsim/faults', { path => 'sdkmessagefilters', status => 403, code => '0x80040220', times => 0 });
%tables = tables_of(export('second', 'account'));
ok(!grep { /_multiple$/ } keys %{ $tables{account} }, 'nothing is said about bulk messages');
$second->control('DELETE', '/_dvsim/faults');
$second->stop;

# ---- unusual tables, and many

my $odd = qq{Größe "x" 'y' \\ \x{9078}\x{629e} \x{1F600} %41 {c}, \n <&> \x{1}};
my %hostile = (
	option_sets => { lab_grade => [ [ 1, $odd ], [ 2, 'zwei' ], [ 7, '"' ] ] },
	tables => [
		{
			name => 'lab_Odd', label => $odd, collection_label => "$odd$odd", primary_name => 'lab_name', update_multiple => JSON::PP::false,
			states => [ [ 0, "Offen $odd", [ [ 5, $odd ], [ 1, 'alt' ] ] ], [ 1, 'Zu', [ [ 2, 'zu' ] ] ] ],
			keys => [
				{ name => 'lab_CodeKey', label => $odd, columns => [ 'lab_code', 'lab_user' ] },
				{ name => 'lab_ACreatedKey', columns => [ 'createdon', 'lab_code' ], status => 'Failed' } ],
			columns => [
				{ name => 'lab_Name', type => 'string', length => 7, label => $odd, required => 'SystemRequired' },
				{ name => 'lab_Code', type => 'string', autonumber => q{X'{SEQNUM:4}"} },
				{ name => 'lab_User', type => 'lookup', targets => ['systemuser'] },
				{ name => 'lab_Empty', type => 'picklist', options => [] },
				{ name => 'lab_Grade', type => 'picklist', option_set => 'lab_grade', default => 2 },
				{ name => 'lab_Grades', type => 'multiselect', option_set => 'lab_grade' },
				{ name => 'lab_Many', type => 'picklist', options => [ map { [ $_ * 7 - 100, "$odd $_" ] } 0 .. 499 ] },
				{ name => 'lab_Sum', type => 'decimal', precision => 10, min => '-0.0000000001', max => '99999999999.9999999999' },
				{ name => 'lab_Big', type => 'bigint', min => '-9223372036854775807', max => '9223372036854775806' },
				{ name => 'lab_Pay', type => 'money', precision => 4, min => '-1.5' },
				{ name => 'lab_Day', type => 'datetime', behavior => 'DateOnly', format => 'DateOnly' },
				{ name => 'lab_Any', type => 'lookup', targets => [ { table => 'account', navigation => 'lab_Any_acc', delete => 'cascade' },
						{ table => 'lab_far', delete => 'restrict', collection => 'lab_odds_of_it' }, 'lab_elastic', 'team' ] },
				{ name => 'lab_Roll', type => 'integer', source_type => 2, formula => '1' },
				{ name => 'lab_Yes', type => 'boolean', options => [ [ 0, $odd ], [ 1, 'ja' ] ] },
				{ name => 'lab_Secret', type => 'string', read => JSON::PP::false },
				{ name => 'lab_Image', type => 'image' }, { name => 'lab_File', type => 'file', length => 5 } ]
		},
		{ name => 'lab_Far', primary_name => 'lab_title', columns => [
				{ name => 'lab_Title', type => 'string', length => 33, label => $odd },
				{ name => 'lab_Next', type => 'lookup', targets => ['lab_farther'] } ] },
		{ name => 'lab_Farther' },
		{ name => 'lab_Elastic', type => 'elastic', columns => [ { name => 'lab_J', type => 'string', format => 'Json', length => 5000 } ] },
		{ name => 'lab_Virtual', type => 'virtual', columns => [ { name => 'lab_X', type => 'string' } ] },
		{ name => 'lab_Bare', bare => JSON::PP::true, states => JSON::PP::false, ownership => 'none' },
		{ name => 'lab_System', system => JSON::PP::true, ownership => 'organization' },
		{ name => 'lab_Self', type => 'intersect', many => { table1 => 'lab_far', table2 => 'lab_far', navigation1 => 'lab_up', navigation2 => 'lab_down' } },
		{ name => 'Account', set => 'customers', primary_name => 'name', columns => [ { name => 'Name', type => 'string' } ] },
		map { { name => "lab_T$_", columns => [] } } 1 .. 60 ]);
my $labelled = serve('hostile', write_file(JSON::PP->new->utf8->encode(\%hostile)));
my $before = $labelled->control('GET', '/_dvsim/requests?since=0')->json->{next};

$file = export('hostile');
my @sent = map { $_->{target} =~ s{^/api/data/v[^/]*/}{}r =~ s/[(?].*//r } @{ $labelled->control('GET', "/_dvsim/requests?since=$before")->json->{requests} };
my %sent;
$sent{$_}++ for grep { !m{/oauth2/} } @sent;
is_deeply(\%sent, { EntityDefinitions => 1, organizations => 1, RetrieveMetadataChanges => 2, sdkmessagefilters => 2,
		'RelationshipDefinitions/Microsoft.Dynamics.CRM.ManyToManyRelationshipMetadata' => 1 }, 'a request for fifty tables');
my $copy = serve('copy', $file);
is_deeply(imported('dv_copy'), [ map { s/\bserver_hostile\b/server_copy/gr } @{ imported('dv_hostile') } ], 'the foreign tables are the same');
is_deeply(definitions($copy), definitions($labelled), 'all definitions are the same');
is(slurp_file(export('copy')), slurp_file($file), 'exported again, the file is the same');
my %lab = tables_of($file);
is($lab{lab_odd}{label}, $odd, 'a label with unusual characters');
is_deeply(parsed($file)->{option_sets}, $hostile{option_sets}, 'global choices');
is(scalar @{ (grep { $_->{name} eq 'lab_Many' } @{ $lab{lab_odd}{columns} })[0]{options} }, 500, 'a choice with many options');
$copy->control('POST', '/_dvsim/seed?table=account&rows=3');
is($copy->control('POST', '/_dvsim/seed?table=lab_odd&rows=3')->status, 200, 'rows can be seeded');
is($crm->sql('SELECT count(*), count(lab_empty) FROM dv_copy.lab_odd'), '3|0', 'a choice without options is null');
$_->stop for $copy, $labelled;

# ---- definitions as dvsim does not give them, but an environment may

sub column
{
	my ($name, $type, %other) = @_;
	return { LogicalName => lc $name, SchemaName => $name, AttributeTypeName => { Value => "${type}Type" }, %other };
}

my %definition = (
	LogicalName => 'new_rare', SchemaName => 'new_Rare', EntitySetName => 'new_rares', TableType => 'Activity', IsActivity => JSON::PP::true,
	PrimaryIdAttribute => 'activityid', PrimaryNameAttribute => 'new_rules', OwnershipType => 'TeamOwned', ObjectTypeCode => 10077,
	DisplayName => { LocalizedLabels => [ { Label => 'Selten' } ] },
	Attributes => [
		column('ActivityId', 'Uniqueidentifier', ColumnNumber => 1),
		column('EntityImage', 'Image', ColumnNumber => 2, MaxSizeInKB => 30720),
		column('EntityImageId', 'Uniqueidentifier', ColumnNumber => 3),
		column('new_Rules', 'CalendarRules', ColumnNumber => 4),
		column('new_Level', 'Memo', ColumnNumber => 5, RequiredLevel => { Value => 'Recommended' }, MaxLength => 9, Format => 'TextArea'),
		column('new_Nothing', 'Lookup', ColumnNumber => 6, Targets => []),
		column('new_Unknown', 'Lookup', ColumnNumber => 7, Targets => ['new_gone']),
		column('new_Some', 'Lookup', ColumnNumber => 8, Targets => [ 'new_gone', 'team' ]),
		column('new_SomeType', 'EntityName', ColumnNumber => 9, AttributeOf => 'new_some'),
		column('new_Contract', 'Lookup', ColumnNumber => 10, Targets => ['team']),
		column('new_ContractType', 'Picklist', ColumnNumber => 11, OptionSet => { Name => 'x', IsGlobal => JSON::PP::false, Options => [ { Value => 4 } ] }),
		column('new_Global', 'Picklist', ColumnNumber => 12, DefaultFormValue => -1, GlobalOptionSet => { Name => 'new_rarities', IsGlobal => JSON::PP::true, Options => [] }),
		column('new_Empty', 'Picklist', ColumnNumber => 13),
		column('new_Pay', 'Money', ColumnNumber => 14, SourceType => 1, IsValidForCreate => JSON::PP::true, MinValue => -1.5),
		column('new_Pay_Base', 'Money', ColumnNumber => 15, CalculationOf => 'new_pay'),
		column('CreatedOn', 'DateTime', ColumnNumber => 16),
		column('StateCode', 'State', ColumnNumber => 17, OptionSet => { Options => [ { Value => 0, DefaultStatus => 2 }, { Value => 1, DefaultStatus => 7 } ] }),
		column('StatusCode', 'Status', ColumnNumber => 18, OptionSet => { Options => [ { Value => 1, State => 0 }, { Value => 2, State => 0 } ] }) ],
	ManyToOneRelationships => [ { ReferencingAttribute => 'new_some', ReferencedEntity => 'team', SchemaName => 'team_rare',
			ReferencingEntityNavigationPropertyName => 'new_Some_team', ReferencedEntityNavigationPropertyName => '', CascadeConfiguration => { Delete => 'NoCascade' } } ],
	Keys => [ { SchemaName => 'new_LevelKey', KeyAttributes => ['new_level'] }, { SchemaName => 'new_RulesKey', KeyAttributes => [ 'new_level', 'new_rules' ] } ]);
my $rare = decode_json($crm->sql(sprintf q{SELECT dataverse_private.export_table('%s', '{team}', NULL, NULL)}, $json->encode(\%definition)));
my %rare = map { delete $_->{name} => $_ } @{ delete $rare->{columns} };
is_deeply($rare, {
		name => 'new_Rare', id => 'ActivityId', set => 'new_rares', type => 'standard', ownership => 'user', type_code => 10077, activity => JSON::PP::true, label => 'Selten',
		bare => JSON::PP::false, system => JSON::PP::true, states => [ [ 0, '0', [ [ 2, '2' ], [ 1, '1' ] ] ] ], keys => [ { name => 'new_LevelKey', columns => ['new_level'] } ] },
	'a table without a known name; a state without a status, and a key with an unknown column, are left out');
is_deeply(\%rare, {
		EntityImage => { type => 'image', length => 30720 },
		new_Level => { type => 'memo', length => 9, format => 'TextArea' },
		new_Some => { type => 'lookup', targets => [ { table => 'team', navigation => 'new_Some_team', relationship => 'team_rare', delete => 'remove_link' } ] },
		new_Contract => { type => 'lookup', targets => [ { table => 'team', delete => 'remove_link' } ] },
		new_ContractType => { type => 'picklist', options => [ [ 4, '4' ] ] },
		new_Global => { type => 'picklist', option_set => 'new_rarities' },
		new_Empty => { type => 'picklist', options => [] },
		new_Pay => { type => 'money', source_type => 1, create => JSON::PP::false, update => JSON::PP::false, min => '-1.5' } },
	'its columns');
Dvsim->start('--schema', write_file($json->encode({ option_sets => { new_rarities => [] },
			tables => [ { %$rare, columns => [ map { { name => $_, %{ $rare{$_} } } } sort keys %rare ] } ] })))->stop;

# ---- who may export what

$crm->sql(q{CREATE ROLE reader LOGIN; CREATE ROLE other LOGIN; GRANT USAGE ON SCHEMA dv TO reader, other;
	GRANT USAGE ON FOREIGN SERVER crm TO reader; GRANT SELECT (accountid) ON dv.account TO reader; GRANT SELECT ON dv.task TO other;
	CREATE USER MAPPING FOR reader SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1')});
is(($crm->as('reader', q{SELECT jsonb_path_query_array(dataverse.export_schema('crm'), '$.tables[*].name')}))[0], '["Account", "Contact"]',
	'the tables that a role may read, and those that they refer to');
like(($crm->as('other', q{SELECT dataverse.export_schema('crm')}))[1], qr/ERROR:  permission denied for foreign server crm/, 'takes USAGE on the server');
$crm->server('empty');
for my $call (
	[ q{'crm', '{account,nonsense,naught}'}, qr/ERROR:  table "naught" is not available in the Web API\nHINT:  Specify the logical name of the table, such as "account"\./ ],
	[ q{'crm', '{Account}'}, qr/ERROR:  table "Account" is not available/ ],
	[ q{'empty'}, qr/ERROR:  server "empty" has no foreign tables that you may read\nHINT:  Import them/ ],
	[ q{'nowhere'}, qr/ERROR:  server "nowhere" does not exist/ ])
{
	like(($crm->as('postgres', "SELECT dataverse.export_schema($call->[0])"))[1], $call->[1], "export_schema($call->[0])");
}
is($crm->sql(q{SELECT dataverse.export_schema(NULL) IS NULL, dataverse.export_schema('crm', '{}'), dataverse.export_schema('crm', '{team}')}),
	't|{"tables": [], "option_sets": {}}|{"tables": [], "option_sets": {}}', 'no server, no tables, only a core table');

ok($crm->dvsim->stop, 'dvsim ends cleanly');
done_testing;
