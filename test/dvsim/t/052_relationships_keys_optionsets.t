# 052_relationships_keys_optionsets.t
#		Relationships, alternate keys and global choices.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 52);
my $ns = 'Microsoft.Dynamics.CRM.';
my $guid = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

sub list
{
	my $r = $s->get(@_);
	return $r->status == 200 ? $r->json->{value} : [ $r->status . ' ' . $r->body ];
}

sub refused
{
	my ($path, $status, $code, $message, $what) = @_;
	my $r = $s->get($path);

	is($r->status . ' ' . $r->json->{error}{code}, "$status $code", $what);
	like($r->json->{error}{message}, $message, "$what: message");
}

# ---------------------------------------------------------------- N:1 and 1:N

my ($meter) = grep { $_->{ReferencingAttribute} eq 'new_accountid' }
  @{ list(q{EntityDefinitions(LogicalName='new_meter')/ManyToOneRelationships}) };
is_deeply(
	[
		grep { !exists $meter->{$_} }
		  qw(SchemaName ReferencingEntity ReferencingAttribute ReferencedEntity ReferencedAttribute
		  ReferencingEntityNavigationPropertyName ReferencedEntityNavigationPropertyName
		  RelationshipType IsHierarchical CascadeConfiguration RelationshipBehavior MetadataId)
	],
	[],
	'every property that clients read');
is_deeply(
	[
		@$meter{
			qw(ReferencingEntity ReferencedEntity ReferencedAttribute RelationshipType
			  ReferencingEntityNavigationPropertyName)
		}
	],
	[qw(new_meter account accountid OneToManyRelationship new_AccountId)],
	'a lookup of a custom table');
like($meter->{MetadataId}, $guid, 'it has an id');
ok(!exists $meter->{'@odata.type'}, 'without its type');
is_deeply(
	[ sort keys %{ $meter->{CascadeConfiguration} } ],
	[qw(Archive Assign Delete Merge Reparent RollupView Share Unshare)], 'cascades');

# the bind name of every target, as a client has to find it
my $navigation = 'ReferencingEntityNavigationPropertyName';
my %bind = map { ("$_->{ReferencingAttribute} $_->{ReferencedEntity}" => $_->{$navigation}) }
  @{ list(q{EntityDefinitions(LogicalName='contact')/ManyToOneRelationships}
	  . "?\$select=ReferencingAttribute,ReferencedEntity,$navigation") };
is_deeply(
	{ map { $_ => $bind{$_} } grep { /^parentcustomerid/ } keys %bind },
	{
		'parentcustomerid account' => 'parentcustomerid_account',
		'parentcustomerid contact' => 'parentcustomerid_contact'
	},
	'several targets, one name each');
is($bind{'ownerid owner'}, 'ownerid', 'owners share one');

my $far = list(q{EntityDefinitions(LogicalName='account')/OneToManyRelationships}
	  . q{?$filter=ReferencingEntity eq 'new_meter'});
is_deeply($far, [$meter], 'the same from the other end');

# ---------------------------------------------------------------- RelationshipDefinitions

my $one = "RelationshipDefinitions/${ns}OneToManyRelationshipMetadata";
my $r = $s->get("$one?\$select=SchemaName,ReferencedEntity&\$filter=ReferencedEntity eq 'account'");
is($r->json->{'@odata.context'},
	$s->base . "/api/data/v9.2/\$metadata#$one(SchemaName,ReferencedEntity)", 'context');
my @there = sort map { $_->{SchemaName} } @{ $r->json->{value} };
is_deeply(
	\@there,
	[
		sort map { $_->{SchemaName} }
		  @{ list(q{EntityDefinitions(LogicalName='account')/OneToManyRelationships?$select=SchemaName}) }
	],
	'all that refer to a table, in both directions');

my $all = list('RelationshipDefinitions?$select=SchemaName,RelationshipType');
my %types;
$types{ join ' ', @$_{qw(RelationshipType @odata.type)} }++ for @$all;
is_deeply(
	[ sort keys %types ],
	[
		"ManyToManyRelationship #${ns}ManyToManyRelationshipMetadata",
		"OneToManyRelationship #${ns}OneToManyRelationshipMetadata"
	],
	'both kinds in one list have their type');
is(scalar @{ list("$one?\$select=SchemaName") },
	$types{"OneToManyRelationship #${ns}OneToManyRelationshipMetadata"},
	'a cast excludes the others');
is(
	scalar @{ list('RelationshipDefinitions?$select=SchemaName'
		  . "&\$filter=RelationshipType eq ${ns}RelationshipType'ManyToManyRelationship'") },
	$types{"ManyToManyRelationship #${ns}ManyToManyRelationshipMetadata"}, 'and so does a filter');

$r = $s->get("RelationshipDefinitions(SchemaName='$meter->{SchemaName}')");
is($r->json->{MetadataId}, $meter->{MetadataId}, 'by name');
is($r->json->{'@odata.type'}, "#${ns}OneToManyRelationshipMetadata", 'with its type');
$r = $s->get("RelationshipDefinitions($meter->{MetadataId})/${ns}OneToManyRelationshipMetadata");
is($r->json->{ReferencingAttribute}, 'new_accountid', 'by id, cast');
is($r->json->{'@odata.context'},
	$s->base . "/api/data/v9.2/\$metadata#$one/\$entity", 'context of one');

my %deletes = map { $_->{SchemaName} => $_->{CascadeConfiguration}{Delete} }
  @{ list("$one?\$select=SchemaName,CascadeConfiguration") };
is($deletes{owner_accounts}, 'Restrict', 'an owner cannot be deleted');
is($deletes{lk_accountbase_createdby}, 'RemoveLink', 'a creator can');

refused('RelationshipDefinitions?$select=ReferencedEntity', 400, '0x0',
	qr/'ReferencedEntity' on type 'Microsoft\.Dynamics\.CRM\.RelationshipMetadataBase'/,
	'without a cast, only common properties');
refused(q{RelationshipDefinitions(SchemaName='nope')}, 404, '0x80040217', qr/nope/,
	'no such relationship');
refused("RelationshipDefinitions($meter->{MetadataId})/${ns}ManyToManyRelationshipMetadata", 404,
	'0x80060888', qr/ManyToMany/, 'of the other kind');
refused('RelationshipDefinitions?$top=1', 400, '0x80060888', qr/\$top/, 'no $top');

# ---------------------------------------------------------------- N:N

my ($many) = @{ list("RelationshipDefinitions/${ns}ManyToManyRelationshipMetadata"
	  . q{?$filter=IntersectEntityName eq 'new_account_contact'}) };
is_deeply(
	[
		@$many{
			qw(Entity1LogicalName Entity1IntersectAttribute Entity1NavigationPropertyName
			  Entity2LogicalName Entity2IntersectAttribute Entity2NavigationPropertyName)
		}
	],
	[qw(account accountid new_Account_Contact contact contactid new_Account_Contact)],
	'many to many');
for my $table (qw(account contact))
{
	is_deeply(list("EntityDefinitions(LogicalName='$table')/ManyToManyRelationships"), [$many],
		"the same from $table");
}

# ---------------------------------------------------------------- keys

my $keys = list(q{EntityDefinitions(LogicalName='new_meter')/Keys});
my ($serial) = grep { $_->{LogicalName} eq 'new_serialkey' } @$keys;
is_deeply(
	[ @$serial{qw(SchemaName EntityLogicalName EntityKeyIndexStatus KeyAttributes)},
		!!$serial->{IsSynchronous} ],
	[ 'new_SerialKey', 'new_meter', 'Active', ['new_serial'], !!1 ],
	'an alternate key');
is_deeply(
	[ map { $_->{SchemaName} }
		@{ list(q{EntityDefinitions(LogicalName='new_meter')/Keys?$select=SchemaName}
			  . "&\$filter=EntityKeyIndexStatus ne ${ns}EntityKeyIndexStatus'Active'") } ],
	[],
	'all are active');
$r = $s->get(q{EntityDefinitions(LogicalName='new_meter')/Keys(LogicalName='new_sitekey')});
is_deeply($r->json->{KeyAttributes},
	[qw(new_accountid new_number)], 'one by its name');
is_deeply(
	[ map { $_->{KeyAttributes} } @{ list(q{EntityDefinitions(LogicalName='new_reading')/Keys}) } ],
	[ [qw(new_readingid partitionid)] ],
	'the key of an elastic table');
is_deeply(list(q{EntityDefinitions(LogicalName='annotation')/Keys}), [], 'none');

# ---------------------------------------------------------------- global choices

$r = $s->get(q{GlobalOptionSetDefinitions(Name='new_color')});
is($r->json->{'@odata.context'},
	$s->base . '/api/data/v9.2/$metadata#GlobalOptionSetDefinitions/$entity', 'context');
is($r->json->{'@odata.type'}, "#${ns}OptionSetMetadata", 'a global choice');
is_deeply(
	[ map { [ $_->{Value}, $_->{Label}{UserLocalizedLabel}{Label} ] } @{ $r->json->{Options} } ],
	[ [ 1, 'Red' ], [ 2, 'Green' ], [ 3, 'Blue' ], [ 9, 'Black' ] ],
	'its options');
ok($r->json->{IsGlobal}, 'is global');
my $id = $r->json->{MetadataId};
$r = $s->get("GlobalOptionSetDefinitions($id)/${ns}OptionSetMetadata?\$select=Name,Options");
is($r->json->{Name}, 'new_color', 'by its id, cast');
is(scalar @{ $r->json->{Options} }, 4, 'with its options');
is_deeply(
	[ sort map { $_->{Name} } @{ list('GlobalOptionSetDefinitions?$select=Name') } ],
	[qw(new_color new_meterkind)], 'all of them');
refused(q{GlobalOptionSetDefinitions?$filter=Name eq 'new_color'}, 400, '0x80060888', qr/\$filter/,
	'they cannot be filtered');
refused('GlobalOptionSetDefinitions?$select=Options', 400, '0x0', qr/OptionSetMetadataBase/,
	'the base type has no options');
refused(q{GlobalOptionSetDefinitions(Name='nope')}, 404, '0x80040217', qr/nope/, 'no such choice');

done_testing;
