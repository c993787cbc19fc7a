# 053_metadata_changes.t
#		RetrieveMetadataChanges: criteria, properties, the Complex types,
#		labels, stamps; and many tables in little time.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

my $s = Dvsim->start('--seed', 53);
my $ns = 'Microsoft.Dynamics.CRM.';
my $json = JSON::PP->new->canonical;

sub call
{
	my ($query, $stamp) = @_;
	my @parameters;
	my @values;

	if (defined $query)
	{
		push @parameters, 'Query=@p1';
		push @values, '@p1=' . Dvsim::escape(ref $query ? $json->encode($query) : $query);
	}
	if (defined $stamp)
	{
		push @parameters, 'ClientVersionStamp=@p2';
		push @values, '@p2=' . Dvsim::escape("'$stamp'");
	}
	return $s->get('RetrieveMetadataChanges(' . join(',', @parameters) . ')?' . join '&', @values);
}

sub condition
{
	my ($property, $operator, $value, $type) = @_;
	return {
		PropertyName => $property,
		ConditionOperator => $operator,
		Value => { Type => $type // 'System.String', Value => $value }
	};
}

# the names of the tables that match the criteria
sub tables
{
	my ($criteria) = @_;
	my $r = call({ Properties => { PropertyNames => ['LogicalName'] }, Criteria => $criteria });

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return join ' ', sort map { $_->{LogicalName} } @{ $r->json->{EntityMetadata} };
}

# ---------------------------------------------------------------- the documented example

my $example = {
	Criteria => {
		FilterOperator => 'And',
		Conditions => [ condition('LogicalName', 'Equals', 'account') ]
	},
	Properties => {
		AllProperties => JSON::PP::false,
		PropertyNames => [qw(LogicalName EntitySetName Attributes ManyToOneRelationships Keys)]
	},
	AttributeQuery => {
		Properties => {
			AllProperties => JSON::PP::false,
			PropertyNames => [qw(LogicalName AttributeTypeName MaxLength Precision Targets OptionSet)]
		}
	},
	LabelQuery => { FilterLanguages => [1033] }
};
my $r = call($example);
is($r->status, 200, 'the example');
is($r->json->{'@odata.context'},
	$s->base . "/api/data/v9.2/\$metadata#${ns}RetrieveMetadataChangesResponse", 'context');
is_deeply($r->json->{DeletedMetadata},
	{ Count => 0, IsReadOnly => JSON::PP::false, Keys => [], Values => [] },
	'nothing was deleted');
my $stamp = $r->json->{ServerVersionStamp};
like($stamp, qr{^\d+!\d\d/\d\d/\d{4} \d\d:\d\d:\d\d$}, 'stamp');

my ($account, @others) = @{ $r->json->{EntityMetadata} };
is(scalar @others, 0, 'one table');
is_deeply([ @$account{qw(LogicalName EntitySetName)} ], [qw(account accounts)],
	'the requested properties');
like($account->{MetadataId}, qr/^[0-9a-f-]{36}$/, 'MetadataId is always included');
ok(exists $account->{$_} && !defined $account->{$_}, "$_ was not requested: null")
  for qw(SchemaName DisplayName IsCustomEntity ObjectTypeCode OneToManyRelationships Privileges);
ok(!exists $account->{'@odata.type'}, 'a table has no type');

my %columns = map { $_->{LogicalName} => $_ } @{ $account->{Attributes} };
sub type_of { return ($columns{ $_[0] }{'@odata.type'} // '') =~ s/^#\Q$ns\E//r; }
is(type_of('name'), 'ComplexStringAttributeMetadata', 'a text');
is($columns{name}{MaxLength}, 160, 'its length');
ok(exists $columns{name}{FormatName} && !defined $columns{name}{FormatName},
	'its format was not requested');
ok(!exists $columns{name}{Targets}, 'it has no targets member');
is(type_of('revenue'), 'ComplexMoneyAttributeMetadata', 'money');
ok(defined $columns{revenue}{Precision}, 'its precision');
is_deeply($columns{ownerid}{Targets}, [qw(systemuser team)], 'targets');
is(type_of('accountcategorycode'), 'ComplexPicklistAttributeMetadata', 'a choice');
is_deeply(
	[
		map { [ $_->{Value}, $_->{Label}{UserLocalizedLabel}{Label} ] }
		  @{ $columns{accountcategorycode}{OptionSet}{Options} }
	],
	[ [ 1, 'Preferred Customer' ], [ 2, 'Standard' ] ],
	'its options');
is($columns{donotemail}{OptionSet}{TrueOption}{Value}, 1, 'those of a boolean');
is(type_of('accountid'), '', 'an id is of the base type');
is_deeply($account->{Keys}, [], 'keys');
my ($parent) = grep { $_->{ReferencingAttribute} eq 'parentaccountid' }
  @{ $account->{ManyToOneRelationships} };
is($parent->{ReferencingEntityNavigationPropertyName}, 'parentaccountid', 'relationships, whole');

# ---------------------------------------------------------------- criteria

is(
	tables({
		FilterOperator => 'Or',
		Conditions => [
			condition('LogicalName', 'Equals', 'account'),
			condition('LogicalName', 'Equals', 'contact')
		]
	}),
	'account contact', 'Or');
is(
	tables({
		FilterOperator => 'And',
		Conditions => [ condition('IsCustomEntity', 'Equals', 'True', 'System.Boolean') ],
		Filters => [
			{
				FilterOperator => 'Or',
				Conditions => [
					condition('LogicalName', 'Equals', 'account'),
					condition('LogicalName', 'Equals', 'new_meter'),
					condition('TableType', 'Equals', 'Elastic')
				]
			}
		]
	}),
	'new_meter new_reading', 'nested filters');
is(
	tables({
		Conditions => [
			condition('ObjectTypeCode', 'GreaterThan', '0', 'System.Int32'),
			condition('ObjectTypeCode', 'LessThan', '3', 'System.Int32')
		]
	}),
	'account contact', 'greater and less');
my $every = tables({});
is(tables({ Conditions => [] }), $every, 'no conditions: all');
is(
	join(' ', grep { $_ ne 'account' } split / /, $every),
	tables({ Conditions => [ condition('LogicalName', 'NotEquals', 'account') ] }),
	'NotEquals');
is(tables({ Conditions => [ condition('CanCreateAttributes', 'Equals', 'true',
	'System.Boolean') ] }),
	$every, 'a managed property compares its value');
like(
	tables({ Conditions => [ condition('OwnershipType', 'Equals', 'OrganizationOwned',
		'Microsoft.Xrm.Sdk.Metadata.OwnershipTypes') ] }),
	qr/\btransactioncurrency\b/, 'an enum');

$r = call({
	Properties => { PropertyNames => ['Attributes'] },
	Criteria => { Conditions => [ condition('LogicalName', 'Equals', 'new_alltypes') ] },
	AttributeQuery => {
		Properties => { PropertyNames => ['SchemaName'] },
		Criteria => {
			FilterOperator => 'And',
			Conditions => [
				condition('AttributeTypeName', 'Equals', 'DecimalType',
					'Microsoft.Xrm.Sdk.Metadata.AttributeTypeDisplayName'),
				condition('Precision', 'Equals', '10', 'System.Int32'),
				condition('IsValidForCreate', 'Equals', 'True', 'System.Boolean')
			]
		}
	}
});
is_deeply(
	[
		map { [ @$_{qw(LogicalName SchemaName AttributeOf)} ] }
		  @{ $r->json->{EntityMetadata}[0]{Attributes} }
	],
	[ [ 'new_decimal10', 'new_Decimal10', undef ] ],
	'columns by properties of some types only');

$r = call({
	Properties => { PropertyNames => [qw(ManyToOneRelationships ManyToManyRelationships)] },
	Criteria => { Conditions => [ condition('LogicalName', 'Equals', 'contact') ] },
	RelationshipQuery => {
		Properties => { PropertyNames => ['SchemaName'] },
		Criteria => { Conditions => [ condition('ReferencingAttribute', 'Equals',
			'parentcustomerid') ] }
	}
});
is(scalar @{ $r->json->{EntityMetadata}[0]{ManyToOneRelationships} }, 2,
	'relationships by criteria');
is_deeply($r->json->{EntityMetadata}[0]{ManyToManyRelationships}, [],
	'which those of the other kind do not meet');
is($r->json->{EntityMetadata}[0]{ManyToOneRelationships}[0]{ReferencedEntity}, undef,
	'with the requested properties');

$r = call({
	Properties => { PropertyNames => ['Keys'] },
	Criteria => { Conditions => [ condition('LogicalName', 'Equals', 'new_meter') ] },
	KeyQuery => {
		Properties => { PropertyNames => ['KeyAttributes'] },
		Criteria => { Conditions => [ condition('LogicalName', 'Equals', 'new_serialkey') ] }
	}
});
is_deeply([ map { $_->{KeyAttributes} } @{ $r->json->{EntityMetadata}[0]{Keys} } ],
	[ ['new_serial'] ], 'keys by criteria');

# ---------------------------------------------------------------- labels, everything

for my $test ([ [1031], undef ], [ [1031, 1033], 'Account' ], [ [], 'Account' ])
{
	my $labels = call({
		Properties => { PropertyNames => ['DisplayName'] },
		Criteria => { Conditions => [ condition('LogicalName', 'Equals', 'account') ] },
		LabelQuery => { FilterLanguages => $test->[0], MissingLabelBehavior => 0 }
	})->json->{EntityMetadata}[0]{DisplayName};

	is($labels->{UserLocalizedLabel} && $labels->{UserLocalizedLabel}{Label}, $test->[1],
		'labels of ' . join(' and ', @{ $test->[0] }, 'no other'));
}

my $all = call({ Properties => { AllProperties => JSON::PP::true },
	Criteria => { Conditions => [ condition('LogicalName', 'Equals',
		'new_meter') ] } })->json->{EntityMetadata}[0];
is($all->{SchemaName}, 'new_Meter', 'all properties');
ok(@{ $all->{Attributes} } > 30, 'and all columns');
is((grep { $_->{LogicalName} eq 'new_name' } @{ $all->{Attributes} })[0]{EntityLogicalName},
	'new_meter', 'whole');

is(join(' ', sort map { $_->{LogicalName} }
	@{ $s->get('RetrieveMetadataChanges')->json->{EntityMetadata} }),
	$every, 'no query: everything');
is($s->get('RetrieveMetadataChanges(Query=null)')->status, 200, 'the same');

# ---------------------------------------------------------------- stamps

$r = call($example, $stamp);
is($r->status, 200, 'with the stamp of the previous answer');
is_deeply($r->json->{EntityMetadata}, [], 'nothing has changed');
like($r->json->{ServerVersionStamp}, qr/^\d+!/, 'and a new stamp');
is($s->get("RetrieveMetadataChanges(ClientVersionStamp='" . Dvsim::escape($stamp)
	. "')")->json->{EntityMetadata}[0],
	undef, 'inside the parentheses as well');

sub expired
{
	my ($stamp, $what) = @_;
	my $r = call($example, $stamp);

	is($r->status, 400, $what);
	is($r->json->{error}{code}, '0x80044352', "$what: code");
	is($r->json->{error}{message},
		'Version stamp associated with the client has expired. Please perform a full sync.',
			"$what: message");
}

expired('nonsense', 'an invalid stamp');
expired("$stamp!", 'one with trailing characters');
expired('74812162!10/09/2022 22:10:22', 'an old one');
(my $foreign = $stamp) =~ s/^\d+/74812162/;
is(scalar @{ call($example, $foreign)->json->{EntityMetadata} }, 1,
	'one of another schema returns everything');

is($s->control('POST', '/_dvsim/clock', { advance => 91 * 86_400 })->status, 200,
	'three months later')
  or diag 'the clock did not move';
$s->forget_token;
expired($stamp, 'a stamp of 91 days');

# ---------------------------------------------------------------- refusals

sub refused
{
	my ($query, $code, $message, $what) = @_;
	my $r = call($query);

	is($r->status . ' ' . $r->json->{error}{code}, "400 $code", $what);
	like($r->json->{error}{message}, $message, "$what: message");
}

refused('{', '0x80060888', qr/RetrieveMetadataChanges/, 'broken JSON');
refused('[]', '0x80060888', qr/object/, 'no object');
refused({ Foo => 1 }, '0x80060888', qr/'Foo' does not exist/, 'an undeclared member');
refused({ Criteria => { Conditions => [ condition('Nope', 'Equals', 'x') ] } }, '0x80040203',
	qr/'Nope'/,
	'an unknown property');
refused({ Criteria => { Conditions => [ condition('DisplayName', 'Equals', 'x') ] } }, '0x80040203',
	qr/'DisplayName'/,
	'a label');
refused({ AttributeQuery => { Criteria => { Conditions => [ condition('SourceType', 'Equals',
	'0') ] } } },
	'0x80040203', qr/'SourceType'/, 'SourceType');
refused({ Criteria => { Conditions => [ condition('LogicalName', 'Like', 'x') ] } }, '0x80060888',
	qr/ConditionOperator/,
	'an unknown operator');
refused({ Criteria => { FilterOperator => 'Xor' } }, '0x80060888', qr/FilterOperator/,
	'an unknown connection');
for my $operator (qw(In NotIn))
{
	for my $list (q{['account','contact']}, '["account","contact"]', 'account')
	{
		refused({ Criteria => { Conditions => [ condition('LogicalName', $operator, $list, 'System.String[]') ] } },
			'0x80060888', qr/list/, "$operator $list: the syntax of lists is not documented");
	}
}
refused({ Criteria => { Conditions => [ condition('IsCustomEntity', 'Equals', 'maybe', 'System.Boolean') ] } },
	'0x80060888', qr/'maybe'/,
	'a value of another type');
for my $case (
	[ LogicalName => 'System.String[]' ],
	[ LogicalName => 'Edm.String' ],
	[ LogicalName => '' ],
	[ IsCustomEntity => 'System.String' ],
	[ ObjectTypeCode => 'System.String' ],
	[ OwnershipType => 'System.String' ],
	[ MetadataId => 'System.String' ])
{
	my ($property, $type) = @$case;

	refused({ Criteria => { Conditions => [ condition($property, 'Equals', '1', $type) ] } },
		'0x80060888', qr/'Type'.*'$property'/, "$property is not compared with a value of type '$type'");
}
refused({ Criteria => { Conditions => [
				{ PropertyName => 'LogicalName', ConditionOperator => 'Equals', Value => { Value => 'account' } } ] } },
	'0x80060888', qr/'Type'/, 'a value without its type');
is($s->get('RetrieveMetadataChanges(Foo=1)')->status, 400, 'an unknown parameter');

$s->control('POST', '/_dvsim/quirks', ['no-metadata-changes']);
refused({ Properties => { PropertyNames => ['LogicalName'] } }, '0x80060888', qr/not supported/, 'no-metadata-changes');
$s->control('POST', '/_dvsim/quirks', []);

# ---------------------------------------------------------------- many tables

my $dir = tempdir(CLEANUP => 1);
my @tables = map {
	{
		name => "new_Big$_",
		primary_name => 'new_name',
		columns => [
			{ name => 'new_Name', type => 'string' },
			map { { name => "new_Column$_",
				type => qw(string integer decimal memo datetime)[ $_ % 5 ] } } 1 .. 30
		]
	}
} 1 .. 500;
open my $file, '>', "$dir/schema.json" or die $!;
print {$file} $json->encode({ tables => \@tables });
close $file or die $!;
$s->stop;
$s = Dvsim->start('--schema', "$dir/schema.json");

# a debug build or a busy machine is slower; a quadratic one would need minutes
my $start = time;
$r = call({
	Properties => { PropertyNames => [qw(LogicalName EntitySetName Attributes)] },
	AttributeQuery => {
		Properties => { PropertyNames => [qw(LogicalName AttributeTypeName MaxLength Targets)] },
		Criteria => { Conditions => [ condition('IsCustomAttribute', 'Equals', 'true',
			'System.Boolean') ] }
	}
});
my $seconds = time - $start;
is($r->status, 200, '500 tables');
cmp_ok($seconds, '<', 10, sprintf 'in little time (%.0f ms, %d bytes)', 1000 * $seconds,
	length $r->body);
my $found = () = $r->body =~ /"LogicalName":"new_column/g;
is($found, 500 * 30, 'with all their columns');

done_testing;
