# 051_attributes.t
#		Columns as definitions: the common properties, the derived types
#		behind casts, choices.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 51);
my $ns = 'Microsoft.Dynamics.CRM.';
my $types = q{EntityDefinitions(LogicalName='new_alltypes')/Attributes};

# true and false as 1 and 0
sub plain
{
	my ($x) = @_;

	return $x ? 1 : 0 if ref $x eq 'JSON::PP::Boolean';
	return { map { $_ => plain($x->{$_}) } keys %$x } if ref $x eq 'HASH';
	return [ map { plain($_) } @$x ] if ref $x eq 'ARRAY';
	return $x;
}

sub column
{
	my ($name, $type, $options) = @_;
	my $r = $s->get("$types(LogicalName='$name')/$ns${type}AttributeMetadata" . ($options // ''));

	return $r->status == 200 ? plain($r->json) : { error => $r->status . ' ' . $r->body };
}

# these properties have these values
sub has
{
	my ($what, $got, %expected) = @_;

	is_deeply({ map { $_ => $got->{$_} } keys %expected }, \%expected, $what)
	  or diag explain $got->{error};
}

# ---------------------------------------------------------------- all columns of a table

my $r = $s->get("$types?\$select=LogicalName,AttributeType,AttributeTypeName,AttributeOf");
is($r->status, 200, 'the columns');
is($r->json->{'@odata.context'},
	$s->base . q{/api/data/v9.2/$metadata#EntityDefinitions('new_alltypes')/Attributes}
	  . '(LogicalName,AttributeType,AttributeTypeName,AttributeOf)',
	'context');
my %by_name = map { $_->{LogicalName} => $_ } @{ $r->json->{value} };
my %kinds;
push @{ $kinds{ $_->{AttributeTypeName}{Value} } }, $_->{LogicalName} for values %by_name;
is_deeply(
	[ sort keys %kinds ],
	[
		map { $_ . 'Type' }
		  qw(BigInt Boolean Customer DateTime Decimal Double EntityName File Image Integer Lookup
		  ManagedProperty Memo Money MultiSelectPicklist Owner Picklist State Status String
		  Uniqueidentifier Virtual)
	],
	'every type occurs');

# AttributeType, and the derived type
my %expected = (
	new_text => [ 'String', 'String' ],
	new_memo => [ 'Memo', 'Memo' ],
	new_integer => [ 'Integer', 'Integer' ],
	new_bigint => [ 'BigInt', 'BigInt' ],
	new_decimal => [ 'Decimal', 'Decimal' ],
	new_money => [ 'Money', 'Money' ],
	new_double => [ 'Double', 'Double' ],
	new_boolean => [ 'Boolean', 'Boolean' ],
	new_choice => [ 'Picklist', 'Picklist' ],
	new_choices => [ 'Virtual', 'MultiSelectPicklist' ],
	new_datetime => [ 'DateTime', 'DateTime' ],
	new_meterid => [ 'Lookup', 'Lookup' ],
	new_customerid => [ 'Customer', 'Lookup' ],
	ownerid => [ 'Owner', 'Lookup' ],
	statecode => [ 'State', 'State' ],
	statuscode => [ 'Status', 'Status' ],
	new_image => [ 'Virtual', 'Image' ],
	new_file => [ 'Virtual', 'File' ],
	new_tablename => [ 'EntityName', 'EntityName' ],
	new_managed => [ 'ManagedProperty', 'ManagedProperty' ],
	new_alltypesid => [ 'Uniqueidentifier', undef ],
	new_choicename => [ 'Virtual', undef ]);
is_deeply(
	{
		map {
			my $type = $by_name{$_}{'@odata.type'};

			$type =~ s/^#\Q$ns\E(\w+)AttributeMetadata$/$1/ if $type;
			$_ => [ $by_name{$_}{AttributeType}, $type ];
		} keys %expected
	},
	\%expected,
	'types and derived types');
is($by_name{new_choicename}{AttributeOf}, 'new_choice', 'a helper column names its main column');
is($by_name{new_text}{AttributeOf}, undef, 'others name none');

# ---------------------------------------------------------------- common properties

my $name = $s->get("$types(LogicalName='new_name')")->json;
is_deeply(
	[
		grep { !exists $name->{$_} }
		  qw(LogicalName SchemaName AttributeType AttributeTypeName AttributeOf ColumnNumber
		  IsPrimaryId IsPrimaryName IsLogical IsValidForCreate IsValidForRead IsValidForUpdate
		  IsValidForAdvancedFind IsValidODataAttribute IsSecured CanBeSecuredForRead
		  CanBeSecuredForCreate CanBeSecuredForUpdate RequiredLevel SourceType IsFilterable
		  IsSearchable IsRetrievable IsCustomAttribute IsManaged EntityLogicalName MetadataId
		  DisplayName Description DeprecatedVersion HasChanged InheritsFrom ExternalName)
	],
	[],
	'every common property that clients read');
is($name->{'@odata.type'}, "#${ns}StringAttributeMetadata", 'the row has its type');
is($name->{'@odata.context'},
	$s->base . q{/api/data/v9.2/$metadata#EntityDefinitions('new_alltypes')/Attributes/$entity},
	'context of one column');
has(
	'a primary name',
	plain($name),
	SchemaName => 'new_Name',
	EntityLogicalName => 'new_alltypes',
	IsPrimaryName => 1,
	IsPrimaryId => 0,
	IsCustomAttribute => 1,
	IsManaged => 0,
	SourceType => 0);
is_deeply([ sort keys %{ $name->{RequiredLevel} } ],
	[qw(CanBeChanged ManagedPropertyLogicalName Value)], 'RequiredLevel');
has('a primary id',
	plain($s->get("$types(LogicalName='new_alltypesid')")->json),
	IsPrimaryId => 1, IsValidForCreate => 1, IsValidForUpdate => 0, SourceType => undef);
$r = $s->get("$types(LogicalName='new_alltypesid')?\$select=RequiredLevel");
is($r->json->{RequiredLevel}{Value}, 'SystemRequired', 'is required by the system');
has('a system column',
	plain($s->get("$types(LogicalName='createdon')")->json),
	IsValidForCreate => 0, IsValidForUpdate => 0, IsValidForRead => 1);
has('a calculated column',
	plain($s->get("$types(LogicalName='new_calculated')")->json),
	SourceType => 1, IsValidForCreate => 0, IsValidForUpdate => 0);
has('a rollup', plain($s->get("$types(LogicalName='new_rollup')")->json), SourceType => 2);
has('a helper is not part of the Web API',
	plain($s->get("$types(LogicalName='new_choicename')")->json),
	IsValidODataAttribute => 0, IsLogical => 1);

$r = $s->get("$types?\$select=LogicalName"
	  . "&\$filter=RequiredLevel/Value eq ${ns}AttributeRequiredLevel'SystemRequired'");
my @required = map { $_->{LogicalName} } @{ $r->json->{value} };
ok((grep { $_ eq 'new_alltypesid' } @required), 'filtered by required level');
is(scalar(grep { $_ eq 'new_memo' } @required), 0, 'which excludes others');
$r = $s->get("$types?\$select=LogicalName&\$filter=AttributeTypeName/Value eq 'FileType'");
is_deeply([ map { $_->{LogicalName} } @{ $r->json->{value} } ], ['new_file'], 'filtered by type name');

my $id = $s->get("$types(LogicalName='new_text')?\$select=MetadataId")->json->{MetadataId};
is($s->get("$types($id)?\$select=LogicalName")->json->{LogicalName}, 'new_text',
	'a column by its id');
is_deeply(
	$s->get("$types(LogicalName='new_text')/MetadataId")->json,
	{
		'@odata.context' => $s->base
		  . q{/api/data/v9.2/$metadata#EntityDefinitions('new_alltypes')}
		  . q{/Attributes('new_text')/MetadataId},
		value => $id
	},
	'one property of it');

# ---------------------------------------------------------------- derived types

has('text', column('new_text', 'String'),
	MaxLength => 100, DatabaseLength => 200, Format => 'Text', FormatName => { Value => 'Text' },
	IsLocalizable => 0, AutoNumberFormat => undef, SourceTypeMask => 0);
has('an address', column('new_email', 'String'), FormatName => { Value => 'Email' });
has('a memo', column('new_memo', 'Memo'), FormatName => { Value => 'TextArea' });
has('a large integer', column('new_bigint', 'BigInt'),
	MaxValue => '9223372036854775807', MinValue => '-9223372036854775808');
has('a decimal', column('new_decimal10', 'Decimal'), Precision => 10);
has('money', column('new_money4', 'Money'),
	Precision => 4, MaxValue => '922337203685477', IsBaseCurrency => 0, CalculationOf => undef);
has('and its base', column('new_money4_base', 'Money'), IsBaseCurrency => 1,
	CalculationOf => 'new_money4');
has('a double', column('new_double', 'Double'), MaxValue => '100000000000',
	MinValue => '-100000000000');
has('a file', column('new_file', 'File'), MaxSizeInKB => 32768);
has('an image', column('new_image', 'Image'), IsPrimaryImage => 1, MaxHeight => 144,
	MaxWidth => 144);
like(column('new_autonumber', 'String')->{AutoNumberFormat}, qr/\{SEQNUM/, 'an automatic number');
has('an integer', column('new_duration', 'Integer'), Format => 'Duration');

my %dates = (
	new_datetime => [ 'DateAndTime', 'UserLocal' ],
	new_userdate => [ 'DateOnly', 'UserLocal' ],
	new_date => [ 'DateOnly', 'DateOnly' ],
	new_zonefree => [ 'DateAndTime', 'TimeZoneIndependent' ]);
has("date $_", column($_, 'DateTime'),
	Format => $dates{$_}[0], DateTimeBehavior => { Value => $dates{$_}[1] },
	MinSupportedValue => '1753-01-01T00:00:00Z', MaxSupportedValue => '9999-12-30T23:59:59Z')
  for sort keys %dates;

is_deeply(column('new_meterid', 'Lookup')->{Targets}, ['new_meter'], 'a lookup');
is_deeply(column('ownerid', 'Lookup')->{Targets}, [qw(systemuser team)], 'an owner');
is_deeply([ sort @{ column('new_customerid', 'Lookup')->{Targets} } ], [qw(account contact)],
	'a customer');

$r = $s->get("$types/${ns}LookupAttributeMetadata?\$select=LogicalName,Targets");
is($r->json->{'@odata.context'},
	$s->base . q{/api/data/v9.2/$metadata#EntityDefinitions('new_alltypes')/Attributes/}
	  . "${ns}LookupAttributeMetadata(LogicalName,Targets)",
	'context of a cast list');
is(scalar(grep { !$_->{Targets} || $_->{'@odata.type'} } @{ $r->json->{value} }),
	0, 'a cast returns only rows of the type, without their type');
ok((grep { $_->{LogicalName} eq 'owninguser' } @{ $r->json->{value} }), 'all of them');

# ---------------------------------------------------------------- choices

sub options
{
	my ($set) = @_;
	return join ' ', map { "$_->{Value}=$_->{Label}{UserLocalizedLabel}{Label}" }
		@{ $set->{Options} };
}

$r = $s->get(q{EntityDefinitions(LogicalName='account')/Attributes/}
	  . "${ns}PicklistAttributeMetadata?\$select=LogicalName"
	  . '&$expand=OptionSet($select=Options,IsGlobal,Name),GlobalOptionSet($select=Options,Name)');
my ($category) = grep { $_->{LogicalName} eq 'accountcategorycode' } @{ $r->json->{value} };
is(options($category->{OptionSet}), '1=Preferred Customer 2=Standard', 'a local choice');
is($category->{OptionSet}{Name}, 'account_accountcategorycode', 'its name');
ok(!$category->{OptionSet}{IsGlobal}, 'it is not global');
ok(exists $category->{GlobalOptionSet} && !defined $category->{GlobalOptionSet},
	'no global one');
is_deeply(
	[ sort keys %{ $category->{OptionSet}{Options}[0] } ],
	[
		qw(Color Description ExternalValue HasChanged IsHidden IsManaged Label MetadataId
		  ParentValues Tag Value)
	],
	'an option');

my $global = column('new_globalchoice', 'Picklist',
	'?$select=LogicalName&$expand=OptionSet,GlobalOptionSet');
is($global->{OptionSet}{IsGlobal}, 1, 'a global choice');
is($global->{GlobalOptionSet}{MetadataId}, $global->{OptionSet}{MetadataId},
	'is the same in both');
is($global->{'@odata.context'},
	$s->base . q{/api/data/v9.2/$metadata#EntityDefinitions('new_alltypes')/Attributes/}
	  . "${ns}PicklistAttributeMetadata(LogicalName,OptionSet(),GlobalOptionSet())/\$entity",
	'context with expansions');
ok(scalar @{ column('new_choices', 'MultiSelectPicklist',
	'?$expand=OptionSet')->{OptionSet}{Options} },
	'several choices');

my $choice = q{EntityDefinitions(LogicalName='account')/Attributes(LogicalName='accountcategorycode')}
  . "/${ns}PicklistAttributeMetadata";
$r = $s->get("$choice/OptionSet?\$select=Options");
is(options($r->json), '1=Preferred Customer 2=Standard', 'options as a path');
is($r->json->{'@odata.context'},
	$s->base
	  . q{/api/data/v9.2/$metadata#EntityDefinitions('account')/Attributes('accountcategorycode')}
	  . "/${ns}PicklistAttributeMetadata/OptionSet(Options)/\$entity",
	'its context');
is($s->get("$choice/GlobalOptionSet")->status, 204, 'no global one: no content');

my $state = $s->get(q{EntityDefinitions(LogicalName='account')/Attributes(LogicalName='statecode')/}
	  . "${ns}StateAttributeMetadata?\$expand=OptionSet")->json->{OptionSet};
is($state->{OptionSetType}, 'State', 'states');
is_deeply(
	[ map { [ @$_{qw(Value InvariantName DefaultStatus)}, $_->{'@odata.type'} ] }
		@{ $state->{Options} } ],
	[
		[ 0, 'Active', 1, "#${ns}StateOptionMetadata" ],
		[ 1, 'Inactive', 2, "#${ns}StateOptionMetadata" ]
	],
	'with their default status');
my $reasons = $s->get(q{EntityDefinitions(LogicalName='account')/Attributes(LogicalName='statuscode')}
	  . "/${ns}StatusAttributeMetadata/OptionSet")->json;
is_deeply(
	[ map { [ @$_{qw(Value State)} ] } @{ $reasons->{Options} } ],
	[ [ 1, 0 ], [ 2, 1 ] ],
	'status reasons and their states');

my $boolean = column('new_boolean', 'Boolean', '?$expand=OptionSet');
is($boolean->{OptionSet}{OptionSetType}, 'Boolean', 'booleans');
is_deeply([ map { $boolean->{OptionSet}{$_}{Value} } qw(TrueOption FalseOption) ], [ 1, 0 ],
	'have options as well');
ok(exists $boolean->{DefaultValue}, 'with a default');
is(column('new_tablename', 'EntityName', '?$expand=OptionSet')->{OptionSet}, undef,
	'a table name has no options');

# ---------------------------------------------------------------- refusals

sub refused
{
	my ($path, $status, $code, $message, $what) = @_;
	my $r = $s->get($path);

	is($r->status . ' ' . $r->json->{error}{code}, "$status $code", $what);
	like($r->json->{error}{message}, $message, "$what: message");
}

refused("$types?\$select=MaxLength", 400, '0x0',
	qr/^Could not find a property named 'MaxLength' on type '\Q${ns}\EAttributeMetadata'\.$/,
	'a derived property needs a cast');
refused("$types?\$expand=OptionSet", 400, '0x0', qr/'OptionSet'/, 'and so do options');
refused("$types/${ns}EnumAttributeMetadata", 400, '0x80060888', qr/EnumAttributeMetadata/,
	'no cast to the abstract type');
refused("$types/${ns}StringAttributeMetadata?\$select=Precision", 400, '0x0',
	qr/StringAttributeMetadata/,
	'a property of another type');
refused("$types/${ns}StringAttributeMetadata/${ns}MemoAttributeMetadata", 400, '0x80060888',
	qr/Memo/,
	'one cast');
refused("$types(LogicalName='new_text')/${ns}MoneyAttributeMetadata", 404, '0x80060888', qr/Money/,
	'a column of another type');
refused("$types(LogicalName='nope')", 404, '0x80040217', qr/nope/, 'no such column');
refused("$types(LogicalName='new_text')/OptionSet", 404, '0x80060888', qr/OptionSet/,
	'options of a text');

done_testing;
