# 054_functions_csdl.t
#		Unbound functions, the service document and $metadata.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 54);
my $root = $s->base . '/api/data/v9.2/';
my $guid = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

sub refused
{
	my ($path, $status, $code, $message, $what) = @_;
	my $r = $s->get($path);

	is($r->status . ' ' . $r->json->{error}{code}, "$status $code", $what);
	like($r->json->{error}{message}, $message, "$what: message");
}

# ---------------------------------------------------------------- user and organization

my $r = $s->get('WhoAmI');
my $me = $r->json;
is($r->status, 200, 'WhoAmI');
is($me->{'@odata.context'}, $root . '$metadata#Microsoft.Dynamics.CRM.WhoAmIResponse', 'context');
like($me->{$_}, $guid, $_) for qw(UserId BusinessUnitId OrganizationId);
is_deeply($s->get('WhoAmI()')->json, $me, 'with empty parentheses');
is($s->get("systemusers($me->{UserId})?\$select=fullname")->status, 200, 'the user is a row');
is($s->get("businessunits($me->{BusinessUnitId})?\$select=name")->status, 200,
	'and so is its business unit');
is($s->post('WhoAmI', {})->status, 404, 'a function does not accept POST');
refused('WhoAmI(x=1)', 400, '0x80060888', qr/unresolved parameters/, 'a parameter too many');

like($s->get('RetrieveVersion')->json->{Version}, qr/^9\.2\.\d+\.\d+$/, 'RetrieveVersion');
for my $path (
	q{RetrieveCurrentOrganization(AccessType=@p)?@p=Microsoft.Dynamics.CRM.EndpointAccessType'Default'},
	q{RetrieveCurrentOrganization(AccessType=Microsoft.Dynamics.CRM.EndpointAccessType'Default')},
	q{RetrieveCurrentOrganization(AccessType='Default')})
{
	is($s->get($path)->json->{Detail}{OrganizationId}, $me->{OrganizationId}, $path);
}
refused('RetrieveCurrentOrganization', 400, '0x80060888', qr/unresolved parameters/,
	'its parameter is required');
refused(q{RetrieveCurrentOrganization(AccessType='Sideways')}, 400, '0x80060888', qr/unresolved/,
	'and an enum');

refused('NoSuchFunction', 404, '0x80060888',
	qr/^Resource not found for the segment 'NoSuchFunction'\.$/, 'unknown function');
refused('NoSuchFunction(a=1)', 404, '0x80060888', qr/segment 'NoSuchFunction'/, 'with parameters');
refused('whoami', 404, '0x80060888', qr/segment 'whoami'/, 'names are case-sensitive');

# ---------------------------------------------------------------- counts

# the first number that a call returns
sub first_count
{
	my ($arguments) = @_;
	my $r = $s->get("RetrieveTotalRecordCount$arguments");

	return $r->status == 200 ? $r->json->{EntityRecordCountCollection}{Values}[0] : $r->body;
}

$s->create('accounts', { name => "A$_" }) for 1 .. 3;
$r = $s->get('RetrieveTotalRecordCount(EntityNames=@p1)?@p1=["account","new_meter"]');
is_deeply(
	$r->json,
	{
		'@odata.context' => $root
			. '$metadata#Microsoft.Dynamics.CRM.RetrieveTotalRecordCountResponse',
		EntityRecordCountCollection => {
			Count => 2,
			IsReadOnly => JSON::PP::false,
			Keys => [qw(account new_meter)],
			Values => [ 3, 0 ]
		}
	},
	'RetrieveTotalRecordCount');
is(first_count(q{(EntityNames=['account'])}), 3, 'with the names in place');
is(first_count('(EntityNames=%5B%27account%27%5D)'), 3, 'encoded');
is($s->control('POST', '/_dvsim/seed?table=contact&rows=12000')->status, 200, 'many rows');
is(first_count('(EntityNames=@p)?@p=["contact"]'), 12000, 'are counted beyond 5,000');
refused('RetrieveTotalRecordCount', 400, '0x80060888', qr/unresolved parameters/,
	'names are required');
refused('RetrieveTotalRecordCount(EntityNames=@p1)', 400, '0x80060888', qr/unresolved parameters/,
	'an alias without value');
refused('RetrieveTotalRecordCount(EntityNames=@p1)?@p1=account', 400, '0x80060888', qr/unresolved/,
	'not a list');
refused('RetrieveTotalRecordCount(EntityNames=@p1)?@p1=["nope"]', 400, '0x80041102', qr/'nope'/,
	'no such table');
$s->control('POST', '/_dvsim/quirks', ['failing-total-count']);
refused('RetrieveTotalRecordCount(EntityNames=@p1)?@p1=["account"]', 500, '0x80040216', qr/unexpected/,
	'failing-total-count');
$s->control('POST', '/_dvsim/quirks', []);

# ---------------------------------------------------------------- service document

$r = $s->get('');
is($r->json->{'@odata.context'}, $root . '$metadata', 'service document');
my %sets = map { $_->{name} => $_ } @{ $r->json->{value} };
is_deeply($sets{accounts}, { name => 'accounts', kind => 'EntitySet', url => 'accounts' }, 'a set');
is_deeply([ grep { !$sets{$_} } map { $_->{EntitySetName} }
		  @{ $s->get('EntityDefinitions?$select=EntitySetName')->json->{value} } ],
	[], 'all of them');

# ---------------------------------------------------------------- $metadata

# Elements with their attributes and the number of their parent; dies unless the text is
# well-formed as far as CSDL requires (no CDATA, no text between).
sub parse
{
	my ($xml) = @_;
	my @open = (0);
	my @elements = ({ name => '' });

	$xml =~ s/^<\?xml[^>]*\?>\s*// or die "no declaration\n";
	while ($xml =~ /\G\s*(?:<(\/?)([\w:]+)((?:\s+[\w:]+="[^"<]*")*)\s*(\/?)>|([^<\s][^<]*))/gc)
	{
		my ($end, $name, $attributes, $empty, $text) = ($1, $2, $3, $4, $5);

		next if defined $text;
		if ($end)
		{
			die "</$name> closes <$elements[$open[-1]]{name}>\n"
			  unless $elements[ pop @open ]{name} eq $name;
			next;
		}
		push @elements, { name => $name, parent => $open[-1],
			$attributes =~ /([\w:]+)="([^"]*)"/g, number => scalar @elements };
		$elements[-1]{Name} //= '';
		$elements[-1]{name} = $name;
		push @open, $#elements unless $empty;
	}
	die 'stopped at ' . substr($xml, pos($xml) // 0, 60) . "\n" unless ($xml =~ /\G\s*\z/gc);
	die "not closed\n" if @open > 1;
	return \@elements;
}

$r = $s->get('$metadata', Accept => 'application/xml');
is($r->status, 200, '$metadata');
like($r->header('Content-Type'), qr{^application/xml}, 'is XML');
my $elements = eval { parse($r->body) };
is($@, '', 'well-formed');

SKIP:
{
	skip 'no xmllint', 1 if system('command -v xmllint >/dev/null 2>&1');
	open my $lint, '|-', 'xmllint --noout - 2>/dev/null' or die $!;
	print {$lint} $r->body;
	ok(close $lint, 'xmllint agrees');
}

my ($schema) = grep { $_->{name} eq 'Schema' } @$elements;
is_deeply([ @$schema{qw(Namespace Alias)} ], [qw(Microsoft.Dynamics.CRM mscrm)],
	'namespace and alias');

my %types = map { $_->{Name} => $_ } grep { $_->{name} eq 'EntityType' } @$elements;

# the contents of an entity type, by kind and name
sub inside
{
	my ($type, $kind) = @_;
	return map { $_->{Name} => $_ }
		grep { $_->{name} eq $kind && $_->{parent} == $types{$type}{number} } @$elements;
}

my %tables = map { $_->{LogicalName} => $_ }
	@{ $s->get('EntityDefinitions?$select=LogicalName,EntitySetName')->json->{value} };
is_deeply([ grep { !$types{$_} } sort keys %tables ], [], 'a type for each table');
my %container = map { $_->{Name} => $_->{EntityType} }
	grep { $_->{name} eq 'EntitySet' } @$elements;
is_deeply(\%container,
	{ map { $_->{EntitySetName} => "Microsoft.Dynamics.CRM.$_->{LogicalName}" } values %tables },
	'a set for each table');

my %properties = inside('account', 'Property');
is_deeply(
	{
		map { $_ => $properties{$_}{Type} }
		  qw(accountid name revenue createdon donotemail numberofemployees industrycode
		  address1_latitude versionnumber _parentaccountid_value entityimage description)
	},
	{
		accountid => 'Edm.Guid',
		name => 'Edm.String',
		revenue => 'Edm.Decimal',
		createdon => 'Edm.DateTimeOffset',
		donotemail => 'Edm.Boolean',
		numberofemployees => 'Edm.Int32',
		industrycode => 'Edm.Int32',
		address1_latitude => 'Edm.Double',
		versionnumber => 'Edm.Int64',
		_parentaccountid_value => 'Edm.Guid',
		entityimage => 'Edm.Binary',
		description => 'Edm.String'
	},
	'properties and their types');
ok(!$properties{parentaccountid}, 'a lookup is not a property');
ok(!$properties{parentaccountidname}, 'nor is its helper column');
is({ inside('new_alltypes', 'Property') }->{new_date}{Type}, 'Edm.Date', 'a date');

my ($key) = grep { $_->{name} eq 'Key' && $_->{parent} == $types{account}{number} } @$elements;
my ($ref) = grep { $_->{name} eq 'PropertyRef' && $_->{parent} == $key->{number} } @$elements;
is($ref->{Name}, 'accountid', 'a key');

my %navigation = inside('account', 'NavigationProperty');
is($navigation{parentaccountid}{Type}, 'mscrm.account', 'a navigation property');
my ($constraint) = grep {
	$_->{name} eq 'ReferentialConstraint'
	  && $_->{parent} == $navigation{parentaccountid}{number}
} @$elements;
is_deeply([ @$constraint{qw(Property ReferencedProperty)} ], [qw(_parentaccountid_value accountid)],
	'its constraint');
is($navigation{ownerid}{Type}, 'mscrm.principal', 'owners are principals');
is($navigation{new_Account_Contact}{Type}, 'Collection(mscrm.contact)', 'many to many');
is({ inside('contact', 'NavigationProperty') }->{"parentcustomerid_$_"}{Type}, "mscrm.$_",
	"parent $_")
  for qw(account contact);

is($types{systemuser}{BaseType}, 'mscrm.principal', 'a user is a principal');
is($types{team}{BaseType}, 'mscrm.principal', 'so is a team');
($key) = grep { $_->{name} eq 'Key' && $_->{parent} == $types{principal}{number} } @$elements;
($ref) = grep { $_->{name} eq 'PropertyRef' && $_->{parent} == $key->{number} } @$elements;
is($ref->{Name}, 'ownerid', 'whose key is ownerid');
ok(!(grep { $_->{name} eq 'Key' && $_->{parent} == $types{systemuser}{number} } @$elements),
	'a user has no key of its own');
ok({ inside('systemuser', 'Property') }->{systemuserid}, 'except its id');

my %seen;
$seen{"$_->{parent} $_->{Name}"}++ for grep { $_->{name} =~ /Property$/ } @$elements;
is_deeply([ grep { $seen{$_} > 1 } keys %seen ], [], 'names in a type are unique');

my %actions;
for my $parameter (grep { $_->{name} eq 'Parameter' && $_->{Name} eq 'Targets' } @$elements)
{
	my $action = $elements->[ $parameter->{parent} ];

	is($action->{IsBound}, 'true', "$action->{Name} is bound") if !$actions{ $action->{Name} };
	$actions{ $action->{Name} }{ $parameter->{Type} } = 1;
}
is_deeply([ sort keys %actions ], [qw(CreateMultiple DeleteMultiple UpdateMultiple UpsertMultiple)],
	'bulk messages');
is_deeply([ sort keys %{ $actions{DeleteMultiple} } ], ['Collection(mscrm.new_reading)'],
	'deleting: elastic only');
ok($actions{CreateMultiple}{'Collection(mscrm.account)'}, 'creating: account');
ok(!$actions{CreateMultiple}{'Collection(mscrm.annotation)'}, 'but not annotation');

my $annotated = $s->get('$metadata?annotations=true', Accept => 'application/xml');
ok(length $annotated->body > length $r->body, 'annotations on request');
ok(eval { parse($annotated->body) }, 'which are well-formed as well');

# ---------------------------------------------------------------- languages

is_deeply($s->get('RetrieveProvisionedLanguages')->json->{RetrieveProvisionedLanguages}, [1033],
	'RetrieveProvisionedLanguages');
is_deeply($s->get('RetrieveAvailableLanguages()')->json->{LocaleIds}, [1033],
	'RetrieveAvailableLanguages()');

done_testing;
