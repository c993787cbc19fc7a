# 033_expand.t
#		$expand: lookups, collections, N:N, nesting, its limits.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 33);
my $root = $s->base . '/api/data/v9.2/';

my %account;
my %contact;

$account{$_} = $s->create('accounts', { name => $_ }) for qw(A B C);
$s->patch("accounts($account{B})", { 'parentaccountid@odata.bind' => "/accounts($account{A})" });
$s->patch("accounts($account{C})", { 'parentaccountid@odata.bind' => "/accounts($account{B})" });

for my $row ([ 'a1', 'A' ], [ 'a2', 'A' ], [ 'a3', 'A' ], [ 'b1', 'B' ])
{
	my ($name, $parent) = @$row;

	$contact{$name} = $s->create('contacts', { lastname => $name, numberofchildren => length $name,
			'parentcustomerid_account@odata.bind' => "/accounts($account{$parent})" });
}
$contact{child} = $s->create('contacts', { lastname => 'child',
		'parentcustomerid_contact@odata.bind' => "/contacts($contact{a1})" });
$s->patch("accounts($account{A})", { 'primarycontactid@odata.bind' => "/contacts($contact{a1})" });
$s->patch("accounts($account{B})", { 'primarycontactid@odata.bind' => "/contacts($contact{a1})" });
for my $name (qw(a1 a2))
{
	$s->create('tasks', { subject => "$name-$_",
			'regardingobjectid_contact_task@odata.bind' => "/contacts($contact{$name})" }) for 1 .. 2;
}
$s->post("accounts($account{A})/new_Account_Contact/\$ref",
	{ '@odata.id' => $root . "contacts($contact{$_})" }) for qw(a3 child);
$s->post("accounts($account{B})/new_Account_Contact/\$ref",
	{ '@odata.id' => $root . "contacts($contact{a3})" });

my $accounts = 'accounts?$select=name&$orderby=name&$expand=';

# the rows of a query by their name
sub rows
{
	my ($path, %headers) = @_;
	my $r = $s->get($path, %headers);

	die "$path: " . $r->body if $r->status != 200;
	return map { $_->{name} // $_->{lastname} => $_ } @{ $r->json->{value} };
}

sub names { return join ' ', sort map { $_->{lastname} // $_->{name} // $_->{subject} } @{ $_[0] }; }

sub refused
{
	my ($path, $code, $name) = @_;
	my $r = $s->get($path);

	is($r->status, 400, $name);
	is($r->json->{error}{code}, $code, "$name: code");
	return;
}

# ---- lookups
{
	my %row = rows($accounts . 'primarycontactid($select=lastname),parentaccountid($select=name;$expand=primarycontactid($select=lastname))');

	is($row{A}{primarycontactid}{lastname}, 'a1', 'a lookup');
	is($row{A}{primarycontactid}{contactid}, $contact{a1}, 'has its key');
	like($row{A}{primarycontactid}{'@odata.etag'}, qr{^W/"\d+"$}, 'and etag');
	ok(exists $row{A}{parentaccountid} && !defined $row{A}{parentaccountid}, 'not set: null');
	is($row{B}{parentaccountid}{name}, 'A', 'two lookups');
	is($row{B}{parentaccountid}{primarycontactid}{lastname}, 'a1', 'a lookup below a lookup');
	is($row{C}{parentaccountid}{name}, 'B', 'for each row');
	%row = rows('contacts?$select=lastname&$expand=parentcustomerid_account($select=name),parentcustomerid_contact($select=lastname)');
	is($row{a1}{parentcustomerid_account}{name}, 'A', 'one target of a polymorphic lookup');
	is($row{a1}{parentcustomerid_contact}, undef, 'excludes the other');
	is($row{child}{parentcustomerid_contact}{lastname}, 'a1', 'and vice versa');
	%row = rows($accounts . 'primarycontactid/$ref');
	is($row{A}{primarycontactid}{'@odata.id'}, $root . "contacts($contact{a1})", '$ref');
	is($row{C}{primarycontactid}, undef, '$ref of nothing');
	%row = rows($accounts . 'ownerid,owninguser($select=systemuserid)');
	is($row{A}{ownerid}{ownerid}, $row{A}{owninguser}{systemuserid}, 'the owner');
	is($row{A}{ownerid}{'@odata.type'}, '#Microsoft.Dynamics.CRM.systemuser', 'and its type');
	my $r = $s->get($accounts . 'primarycontactid($select=_parentcustomerid_value)',
		Prefer => 'odata.include-annotations="OData.Community.Display.V1.FormattedValue"');
	is($r->json->{value}[0]{primarycontactid}{'_parentcustomerid_value@OData.Community.Display.V1.FormattedValue'},
		'A', 'annotations inside');
	is($r->json->{'@odata.context'},
		$root . '$metadata#accounts(name,primarycontactid(_parentcustomerid_value))', 'the context');
}

# ---- collections
{
	my %row = rows($accounts . 'contact_customer_accounts($select=lastname;$orderby=lastname desc)');
	my $link = $row{A}{'contact_customer_accounts@odata.nextLink'};

	is(join(' ', map { $_->{lastname} } @{ $row{A}{contact_customer_accounts} }), 'a3 a2 a1',
		'a collection in its order');
	is(names($row{B}{contact_customer_accounts}), 'b1', 'each row has its own');
	is_deeply($row{C}{contact_customer_accounts}, [], 'an empty one');
	is($link, $root . "accounts($account{A})/contact_customer_accounts?\$select=lastname&\$orderby=lastname%20desc",
		'a link that runs the query of the children');
	is(names($s->get($link)->json->{value}), 'a1 a2 a3', 'and returns the rest');
	%row = rows($accounts . "contact_customer_accounts(\$select=lastname;\$filter=lastname ne 'a2';\$top=1)");
	is(names($row{A}{contact_customer_accounts}), 'a1', '$filter and $top apply to each row');
	is(names($row{B}{contact_customer_accounts}), 'b1', 'in these as well');
	%row = rows($accounts . 'contact_customer_accounts($select=lastname)', Prefer => 'odata.maxpagesize=2');
	is(names($row{A}{contact_customer_accounts}), 'a1 a2 a3', 'one level is not paged');
	%row = rows($accounts . 'new_Account_Contact($select=lastname)');
	is(names($row{A}{new_Account_Contact}), 'a3 child', 'many to many');
	is(names($row{B}{new_Account_Contact}), 'a3', 'the same row under two');
	%row = rows('contacts?$select=lastname&$expand=new_Account_Contact($select=name)');
	is(names($row{a3}{new_Account_Contact}), 'A B', 'from the other side');
	%row = rows($accounts . 'contact_customer_accounts($select=lastname),new_Account_Contact($select=lastname),account_parent_account($select=name)');
	is(names($row{A}{contact_customer_accounts}) . '/' . names($row{A}{new_Account_Contact}) . '/'
			. names($row{A}{account_parent_account}), 'a1 a2 a3/a3 child/B', 'three at once');
}

# ---- one row
{
	my $row = $s->get("accounts($account{A})?\$select=name&\$expand=contact_customer_accounts(\$select=lastname),primarycontactid(\$select=lastname)")->json;

	is(names($row->{contact_customer_accounts}), 'a1 a2 a3', 'a collection of one row');
	is($row->{primarycontactid}{lastname}, 'a1', 'a lookup of one row');
	is($row->{name}, 'A', 'with its columns');
}

# ---- nesting
{
	my $path = $accounts . 'contact_customer_accounts($select=lastname;$expand=Contact_Tasks($select=subject))';
	my %row = rows($path);
	my %contact_row = map { $_->{lastname} => $_ } @{ $row{A}{contact_customer_accounts} };

	is(names($contact_row{a1}{Contact_Tasks}), 'a1-1 a1-2', 'children of children');
	is_deeply($contact_row{a3}{Contact_Tasks}, [], 'or none');
	ok(!exists $row{A}{'contact_customer_accounts@odata.nextLink'}, 'no link if all are returned');

	%row = rows($path, Prefer => 'odata.maxpagesize=2');
	is(@{ $row{A}{contact_customer_accounts} }, 2, 'nested collections are paged');
	my $link = $row{A}{'contact_customer_accounts@odata.nextLink'};
	like($link, qr/skiptoken/, 'with real links');
	my $next = $s->get($link, Prefer => 'odata.maxpagesize=2')->json->{value};
	is(names([ @{ $row{A}{contact_customer_accounts} }, @$next ]), 'a1 a2 a3', 'to the rest');
	ok($next->[0]{Contact_Tasks}, 'which is expanded in turn');

	%row = rows($accounts . 'primarycontactid($select=lastname;$expand=Contact_Tasks($select=subject))');
	is(names($row{A}{primarycontactid}{Contact_Tasks}), 'a1-1 a1-2', 'a collection below a lookup');
	is(names($row{B}{primarycontactid}{Contact_Tasks}), 'a1-1 a1-2', 'of a row shared by two');
	is($row{C}{primarycontactid}, undef, 'and of none');

	my $nested = 'accounts?$expand=contact_customer_accounts($expand=Contact_Tasks($select=subject;';
	refused($nested . '$top=1))', '0x80060888', '$top in a nested expand');
	refused($nested . '$orderby=subject))', '0x80060888', '$orderby in a nested expand');
	refused('accounts?$expand=contact_customer_accounts($top=1;$expand=Contact_Tasks)', '0x80060888',
		'$top beside a nested expand');
	refused('accounts?$expand=new_Account_Contact($expand=Contact_Tasks)', '0x80060888',
		'nested below many to many');
	refused('accounts?$expand=contact_customer_accounts($expand=new_Account_Contact)', '0x80060888',
		'many to many, nested');
}

# ---- limits and refusals
{
	# fifteen lookups are enough
	my @all = qw(primarycontactid parentaccountid owninguser createdby modifiedby
		owningbusinessunit transactioncurrencyid preferredsystemuserid createdonbehalfby
		modifiedonbehalfby contact_customer_accounts account_parent_account
		new_account_new_meter Account_Tasks new_Account_Contact);

	is($s->get('accounts?$select=name&$expand=' . join(',', @all))->status, 200, '15 expands');
	refused('accounts?$expand=' . join(',', @all, 'Account_Annotation'), '0x8004430D', '16 expands');
	refused('accounts?$expand=nothing', '0x0', 'unknown');
	refused('accounts?$expand=PrimaryContactId', '0x0', 'wrong case');
	refused('accounts?$expand=name', '0x80060888', 'not a navigation property');
	refused('accounts?$expand=primarycontactid,primarycontactid', '0x80060888', 'twice');
	refused('accounts?$expand=primarycontactid($select=nothing)', '0x0', 'unknown column inside');
	refused('accounts?$expand=primarycontactid($skip=1)', '0x80060888', 'unsupported option inside');
	refused('accounts?$expand=contact_customer_accounts($count=true)', '0x80060888', '$count inside');
	refused('accounts?$expand=primarycontactid($orderby=lastname)', '0x80060888', 'order of one row');
	refused('accounts?$expand=contact_customer_accounts/$ref', '0x80060888', '$ref of a collection');
	refused('accounts?$expand=primarycontactid(', '0x80060888', 'not closed');
	refused('accounts?$expand=primarycontactid($select)', '0x80060888', 'no value');
	refused("accounts?\$expand=contact_customer_accounts(\$filter=lastname eq \@p)&\@p='a1'",
		'0x80060888', 'no aliases inside');
	refused('accounts?$expand=ownerid($select=fullname)', '0x0', 'a principal has no names');
	refused('new_readings?$expand=new_MeterId', '0x80048d0b', 'elastic: no lookups of many rows');
	refused('new_meters?$expand=new_meter_new_reading', '0x80048d0b', 'elastic: no collections');
}

# ---- many children in one answer
{
	my $many = $s->create('accounts', { name => 'many' });
	my @targets = map { { lastname => "m$_", '@odata.type' => 'Microsoft.Dynamics.CRM.contact',
			'parentcustomerid_account@odata.bind' => "/accounts($many)" } } 1 .. 1000;

	is($s->post('contacts/Microsoft.Dynamics.CRM.CreateMultiple', { Targets => \@targets })->status,
		200, '1,000 children') for 1 .. 6;
	my $row = $s->get("accounts($many)?\$select=name&\$expand=contact_customer_accounts(\$select=lastname)")->json;
	my %seen = map { $_->{contactid} => 1 } @{ $row->{contact_customer_accounts} };
	is(scalar keys %seen, 5000, 'at most 5,000');
}

done_testing();
