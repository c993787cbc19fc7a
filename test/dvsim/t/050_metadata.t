# 050_metadata.t
#		EntityDefinitions: addressing, $select, $filter, $expand, labels,
#		refusals.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 50);
my $ns = 'Microsoft.Dynamics.CRM.';
my $guid = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

# the logical names in an answer, or the refusal
sub names
{
	my ($path) = @_;
	my $r = $s->get($path);

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return [ sort map { $_->{LogicalName} } @{ $r->json->{value} } ];
}

# those of the tables that match a filter
sub filtered
{
	my ($filter) = @_;
	return names("EntityDefinitions?\$select=LogicalName&\$filter=$filter");
}

sub refused
{
	my ($path, $status, $code, $message, $what) = @_;
	my $r = $s->get($path);

	subtest $what => sub {
		is($r->status, $status, 'status');
		is($r->json->{error}{code}, $code, 'code');
		like($r->json->{error}{message}, $message, 'message');
	};
}

# ---------------------------------------------------------------- one table

my $r = $s->get(q{EntityDefinitions(LogicalName='account')?$select=DisplayName,EntitySetName});
is($r->status, 200, 'one table by its name');
is($r->header('Content-Type'), 'application/json; odata.metadata=minimal', 'content type');
is($r->header('OData-Version'), '4.0', 'OData version');

my $account = $r->json;
my $id = $account->{MetadataId};
like($id, $guid, 'MetadataId is always included');
is_deeply(
	[ sort keys %$account ],
	[ '@odata.context', 'DisplayName', 'EntitySetName', 'MetadataId' ],
	'and otherwise only the selected properties');
is($account->{'@odata.context'},
	$s->base . '/api/data/v9.2/$metadata#EntityDefinitions(DisplayName,EntitySetName)/$entity',
	'context');
is($account->{EntitySetName}, 'accounts', 'entity set');

my $label = $account->{DisplayName}{UserLocalizedLabel};
is_deeply([ $label->{Label}, $label->{LanguageCode} ], [ 'Account', 1033 ], 'label');
is_deeply($account->{DisplayName}{LocalizedLabels}, [$label], 'in the only language');

is($s->get("EntityDefinitions($id)?\$select=LogicalName")->json->{LogicalName},
	'account', 'by its id');
is($s->get("EntityDefinitions(MetadataId=$id)?\$select=LogicalName")->json->{LogicalName},
	'account', 'by its named id');
is($s->get('EntityDefinitions(' . uc($id) . ')?$select=LogicalName')->json
	  ->{LogicalName}, 'account', 'ids in any case');

$r = $s->get(q{EntityDefinitions(LogicalName='account')?$select=DisplayName&LabelLanguages=1031});
is_deeply($r->json->{DisplayName}, { LocalizedLabels => [], UserLocalizedLabel => undef },
	'LabelLanguages without the only language');
$r = $s->get(q{EntityDefinitions(LogicalName='account')?$select=DisplayName}
	  . '&LabelLanguages=1031,1033');
is($r->json->{DisplayName}{UserLocalizedLabel}{Label}, 'Account', 'and with it');

refused(q{EntityDefinitions(LogicalName='nope')}, 404, '0x80040217',
	qr/name = 'nope' was not found/, 'no such table');
refused('EntityDefinitions(00000000-0000-0000-0000-000000000001)', 404, '0x80040217', qr/not found/,
	'no such id');
refused(q{EntityDefinitions('account')}, 400, '0x80060888', qr/syntax/, 'a name that is not a key');
refused(q{EntityDefinitions(SchemaName='Account')}, 400, '0x80060888', qr/syntax/,
	'not by the schema name');

# ---------------------------------------------------------------- properties

my $all = $s->get(q{EntityDefinitions(LogicalName='account')})->json;
my @worth = qw(LogicalName SchemaName EntitySetName LogicalCollectionName CollectionSchemaName
  PrimaryIdAttribute PrimaryNameAttribute PrimaryImageAttribute ObjectTypeCode TableType
  OwnershipType IsIntersect IsActivity IsActivityParty IsCustomEntity IsPrivate IsLogicalEntity
  IsManaged IsValidForAdvancedFind DataProviderId DataSourceId ExternalName ChangeTrackingEnabled
  IsOptimisticConcurrencyEnabled IsStateModelAware EnforceStateTransitions IsAuditEnabled
  HasActivities HasNotes IsReadOnlyInMobileClient IsRetentionEnabled IsArchivalEnabled MetadataId
  DisplayName Description Privileges);
is_deeply([ grep { !exists $all->{$_} } @worth ], [], 'every property that clients read');
ok(!exists $all->{Attributes}, 'no columns unless expanded');

sub facts
{
	my ($table, %expected) = @_;
	my $json = $s->get("EntityDefinitions(LogicalName='$table')")->json;
	my %got = map { $_ => JSON::PP::is_bool($json->{$_}) ? !!$json->{$_} + 0 : $json->{$_} }
	  keys %expected;

	is_deeply(\%got, \%expected, "$table");
}

facts(
	'account',
	SchemaName => 'Account',
	EntitySetName => 'accounts',
	CollectionSchemaName => 'Accounts',
	PrimaryIdAttribute => 'accountid',
	PrimaryNameAttribute => 'name',
	PrimaryImageAttribute => 'entityimage',
	ObjectTypeCode => 1,
	TableType => 'Standard',
	OwnershipType => 'UserOwned',
	IsIntersect => 0,
	IsActivity => 0,
	IsActivityParty => 1,
	IsCustomEntity => 0,
	DataProviderId => undef,
	ChangeTrackingEnabled => 1,
	IsOptimisticConcurrencyEnabled => 1,
	IsStateModelAware => 1,
	HasNotes => 1,
	HasActivities => 1);
facts(
	'new_reading',
	SchemaName => 'new_Reading',
	CollectionSchemaName => 'new_Readings',
	TableType => 'Elastic',
	DataProviderId => '1d9bde74-9ebd-4da9-8ff5-aa74945b9f74',
	IsCustomEntity => 1,
	IsManaged => 0);
facts('task', IsActivity => 1, PrimaryIdAttribute => 'activityid', HasActivities => 0);
facts('transactioncurrency', EntitySetName => 'transactioncurrencies',
	OwnershipType => 'OrganizationOwned');
facts('new_account_contact', IsIntersect => 1, IsValidForAdvancedFind => 0,
	PrimaryNameAttribute => undef);

is_deeply(
	[ sort map { $_->{Name} } @{ $all->{Privileges} } ],
	[ map { "prv${_}Account" } qw(Append AppendTo Assign Create Delete Read Share Write) ],
	'privileges of a user-owned table');
my $currency = $s->get(q{EntityDefinitions(LogicalName='transactioncurrency')})->json;
is_deeply(
	[ sort map { $_->{PrivilegeType} } @{ $currency->{Privileges} } ],
	[qw(Append AppendTo Create Delete Read Write)],
	'and of an organization-owned one');

is_deeply($s->get(q{EntityDefinitions(LogicalName='account')/MetadataId})->json,
	{
		'@odata.context' => $s->base
		  . q{/api/data/v9.2/$metadata#EntityDefinitions('account')/MetadataId},
		value => $id
	},
	'a single property');
is_deeply($s->get(q{EntityDefinitions(LogicalName='account')/DisplayName})->json->{UserLocalizedLabel},
	$label, 'a complex one shows its members');
is($s->get(q{EntityDefinitions(LogicalName='account')/ExternalName})->status,
	204, 'null has no content');

# ---------------------------------------------------------------- all tables, filtered

$r = $s->get('EntityDefinitions?$select=LogicalName,TableType,IsIntersect');
is($r->json->{'@odata.context'},
	$s->base . '/api/data/v9.2/$metadata#EntityDefinitions(LogicalName,TableType,IsIntersect)',
	'context of a list');
my @all = sort map { $_->{LogicalName} } @{ $r->json->{value} };
my %have = map { $_ => 1 } @all;
is_deeply(
	[
		grep { !$have{$_} }
		  qw(account contact systemuser team businessunit transactioncurrency opportunity task
		  annotation new_meter new_reading new_alltypes)
	],
	[],
	'all tables in one answer, without paging');
ok(!exists $r->json->{'@odata.nextLink'}, 'no nextLink');

is_deeply(filtered(q{TableType eq 'Elastic'}), ['new_reading'], 'a string');
is_deeply(filtered(q{LogicalName eq 'account' or LogicalName eq 'contact'}),
	[qw(account contact)], 'or');
is_deeply(
	filtered('IsCustomEntity eq true and not (IsIntersect eq true)'),
	[ grep { /^new_/ && $_ ne 'new_account_contact' } @all ],
	'and, not, parentheses');
my @organization_owned = sort map { $_->{LogicalName} }
  grep { $_->{OwnershipType} eq 'OrganizationOwned' }
  @{ $s->get('EntityDefinitions?$select=LogicalName,OwnershipType')->json->{value} };
is_deeply(filtered("OwnershipType eq ${ns}OwnershipTypes'OrganizationOwned'"),
	\@organization_owned, 'an enum as a typed constant');
is_deeply(filtered('CanCreateAttributes/Value eq true'), \@all, 'a member of a complex property');
is_deeply(filtered('ObjectTypeCode ge 1 and ObjectTypeCode lt 3'),
	[qw(account contact)], 'numbers are ordered');
is_deeply(filtered("MetadataId eq $id"), ['account'], 'a GUID without quotes');
is_deeply(filtered('DataProviderId ne null'), ['new_reading'], 'null');
is_deeply(filtered(q{LogicalName eq 'no''such'}), [], 'quotes are doubled');
is_deeply(names(q{EntityDefinitions?$filter=LogicalName eq @p&@p='account'&$select=LogicalName}),
	['account'], 'a parameter alias');
is_deeply(names(q{EntityDefinitions?%24filter=LogicalName+eq+%27account%27&%24select=LogicalName}),
	['account'], 'fully encoded');

# enums as plain strings, as Microsoft's Python client compares them
is_deeply(filtered(q{OwnershipType eq 'OrganizationOwned' and LogicalName eq 'organization'}),
	filtered("OwnershipType eq ${ns}OwnershipTypes'OrganizationOwned' and LogicalName eq 'organization'"),
	'an enum as a string');
my $columns = q{EntityDefinitions(LogicalName='account')/Attributes?$select=LogicalName};
is_deeply(
	names("$columns&\$filter=AttributeType ne 'Virtual'"),
	names("$columns&\$filter=AttributeType ne ${ns}AttributeTypeCode'Virtual'"),
	'AttributeType ne a string');
cmp_ok(scalar @{ names("$columns&\$filter=AttributeType ne 'Virtual'") }, '<', scalar @{ names($columns) },
	'excludes some');
is_deeply(
	names("$columns&\$filter=AttributeType eq 'Lookup' or AttributeType eq 'Owner' or AttributeType eq 'Customer'"),
	names("$columns&\$filter=AttributeType eq ${ns}AttributeTypeCode'Lookup' or "
		  . "AttributeType eq ${ns}AttributeTypeCode'Owner' or "
		  . "AttributeType eq ${ns}AttributeTypeCode'Customer'"),
	'three of them');
is_deeply(names("$columns&\$filter=RequiredLevel/Value eq 'ApplicationRequired'"),
	['name'], 'the value of a managed property');
is_deeply(names("$columns&\$filter=LogicalName eq 'name' and AttributeType eq \@p&\@p='String'"),
	['name'], 'through an alias');

# ---------------------------------------------------------------- expanded

$r = $s->get(q{EntityDefinitions(LogicalName='new_meter')?$select=LogicalName}
	  . q{&$expand=Attributes($select=LogicalName,AttributeType;$filter=AttributeType eq }
	  . "${ns}AttributeTypeCode'Lookup' and IsCustomAttribute eq true),"
	  . q{Keys($select=KeyAttributes,EntityKeyIndexStatus),}
	  . q{ManyToOneRelationships($select=ReferencingAttribute,ReferencedEntity;}
	  . q{$filter=ReferencedEntity eq 'account')});
is($r->status, 200, 'three expansions');
my $meter = $r->json;
is($meter->{'@odata.context'},
	$s->base . '/api/data/v9.2/$metadata#EntityDefinitions(LogicalName,'
	  . 'Attributes(LogicalName,AttributeType),Keys(KeyAttributes,EntityKeyIndexStatus),'
	  . 'ManyToOneRelationships(ReferencingAttribute,ReferencedEntity))/$entity',
	'context');
is_deeply(
	[
		sort map { join ' ', @$_{qw(LogicalName AttributeType @odata.type)} }
		  @{ $meter->{Attributes} }
	],
	[
		map { "$_ Lookup #${ns}LookupAttributeMetadata" }
		  qw(new_accountid new_contactid new_parentid)
	],
	'columns, selected and filtered');
is_deeply(
	[ map { [ sort keys %$_ ] } $meter->{Attributes}[0] ],
	[ [ '@odata.type', 'AttributeType', 'LogicalName', 'MetadataId' ] ],
	'and nothing else');
is_deeply(
	[ sort { $a->[0] cmp $b->[0] } map { $_->{KeyAttributes} } @{ $meter->{Keys} } ],
	[ [qw(new_accountid new_number)], ['new_serial'] ], 'keys');
is_deeply(
	[
		map { "$_->{ReferencingAttribute} $_->{ReferencedEntity}" }
		  @{ $meter->{ManyToOneRelationships} }
	],
	['new_accountid account'], 'relationships');

$r = $s->get(q{EntityDefinitions(LogicalName='account')?$select=LogicalName}
	  . '&$expand=ManyToManyRelationships,OneToManyRelationships($select=SchemaName)');
is(scalar @{ $r->json->{ManyToManyRelationships} }, 1, 'several at once, N:N among them');
$r = $s->get(q{EntityDefinitions?$select=LogicalName&$filter=LogicalName eq 'account'}
	  . "&\$expand=Attributes/${ns}ImageAttributeMetadata(\$select=LogicalName,MaxSizeInKB)");
is_deeply(
	[ map { "$_->{LogicalName} $_->{MaxSizeInKB}" } @{ $r->json->{value}[0]{Attributes} } ],
	['entityimage 10240'], 'an expansion cast to one type');

# ---------------------------------------------------------------- refusals

refused("EntityDefinitions?\$$_", 400, '0x80060888',
	qr/^The query parameter \$\w+ is not supported$/, "\$$_")
  for 'top=1', 'orderby=LogicalName', 'count=true', 'skip=1', 'apply=x';
refused('EntityDefinitions?$select=Foo', 400, '0x0',
	qr/^Could not find a property named 'Foo' on type '\Q${ns}\EEntityMetadata'\.$/,
	'unknown property');
refused('EntityDefinitions?$select=logicalname', 400, '0x0', qr/named 'logicalname'/, 'wrong case');
refused(q{EntityDefinitions?$filter=Foo eq 1}, 400, '0x0', qr/named 'Foo'/, 'in a filter as well');
refused(q{EntityDefinitions?$expand=Foo}, 400, '0x0', qr/named 'Foo'/, 'and in an expansion');
refused(q{EntityDefinitions?$expand=LogicalName}, 400, '0x80060888', qr/not a navigation/,
	'a property cannot be expanded');
refused(q{EntityDefinitions?$expand=Attributes($expand=OptionSet)}, 400, '0x80060888', qr/level/,
	'one level only');
refused(q{EntityDefinitions?$expand=Attributes($top=1)}, 400, '0x80060888', qr/\$top/,
	'no $top inside');
refused(qq{EntityDefinitions?\$filter=OwnershipType eq $_}, 400, '0x80060888',
	qr/^The string '[ \w]*' is not a valid enumeration type constant\.$/, "no member: $_")
  for "'Nobody'", "'userowned'", "'Owned'", "' None'", "'None UserOwned'", "''", "${ns}OwnershipTypes'Nobody'";
refused(qq{EntityDefinitions?\$filter=OwnershipType eq $_}, 400, '0x80060888',
	qr/^A binary operator with incompatible types .*\.OwnershipTypes'/, "of another type: $_")
  for '1', 'true', "${ns}SecurityTypes'None'";
refused(q{EntityDefinitions?$filter=ObjectTypeCode eq '1'}, 400, '0x80060888',
	qr/incompatible types/, 'a number is no string');
refused(q{EntityDefinitions?$filter=IsCustomizable eq true}, 400, '0x80060888', qr{/Value},
	'a complex property needs its member');
refused(q{EntityDefinitions?$filter=DisplayName eq 'Account'}, 400, '0x80060888', qr/DisplayName/,
	'labels cannot be filtered');
refused("EntityDefinitions?\$filter=$_(LogicalName,'acc')", 501, '0x8006088a',
	qr/^The "$_" function isn't supported for Metadata Entities\.$/, "$_()")
  for qw(startswith contains endswith);
refused(q{EntityDefinitions?$filter=LogicalName eq 'a' banana}, 400, '0x80060888', qr/Syntax error/,
	'trailing words');
refused(q{EntityDefinitions?$filter=(((}, 400, '0x80060888', qr/Syntax error/,
	'nothing in parentheses');
refused('EntityDefinitions/Attributes', 404, '0x80060888', qr/'Attributes'/,
	'columns of no table');
refused(q{EntityDefinitions(LogicalName='account')/Foo}, 404, '0x80060888', qr/'Foo'/,
	'unknown segment');
is($s->post('EntityDefinitions', {})->status, 405, 'read only');

done_testing;
