# 030_select.t
#		Single rows, $select, properties, navigation, annotations, conditional
#		reads, and reads that dvsim refuses.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

binmode Test::More->builder->$_, ":encoding(UTF-8)" for qw(output failure_output);

my $s = Dvsim->start('--seed', 30);
my $root = $s->base . '/api/data/v9.2/';

my $contact = $s->create('contacts', { firstname => 'Ann', lastname => 'Ash' });
my $account = $s->create('accounts', {
	name => 'Größe "A"\\B', revenue => 20000.5, numberofemployees => 7,
	'primarycontactid@odata.bind' => "/contacts($contact)" });
$s->patch("contacts($contact)",
	{ 'parentcustomerid_account@odata.bind' => "/accounts($account)" });

sub refused
{
	my ($path, $status, $code, $message, $name) = @_;
	my $r = $s->get($path);

	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
	return;
}

# ---- one row
{
	my $r = $s->get("accounts($account)?\$select=name,revenue,name");
	my $row = $r->json;

	is($r->status, 200, 'a row');
	is($r->header('Content-Type'), 'application/json; odata.metadata=minimal', 'content type');
	is($row->{'@odata.context'}, $root . '$metadata#accounts(name,revenue,name)/$entity',
		'context of a row');
	is($row->{name}, 'Größe "A"\\B', 'text is unchanged');
	is($row->{accountid}, $account, 'the primary key is always included');
	like($row->{'@odata.etag'}, qr{^W/"\d+"$}, 'etag');
	is($r->header('ETag'), $row->{'@odata.etag'}, 'ETag header');
	like($r->body, qr/"revenue":20000\.5000,/, 'money with its digits');
	ok(exists $row->{_transactioncurrencyid_value}, 'money includes its currency');
	is_deeply([ sort grep { !/^\@/ } keys %$row ],
		[ qw(_transactioncurrencyid_value accountid name revenue) ], 'and nothing else');
}

# ---- all columns, nulls are explicit
{
	my $row = $s->get("accounts($account)")->json;

	is($row->{'@odata.context'}, $root . '$metadata#accounts/$entity', 'context without select');
	ok(exists $row->{telephone1} && !defined $row->{telephone1}, 'null is explicit');
	is($row->{_primarycontactid_value}, $contact, 'a lookup');
	ok(!exists $row->{primarycontactid}, 'a lookup has no property of its plain name');
	ok(!exists $row->{primarycontactidname}, 'helper columns are omitted');
	is($row->{statecode}, 0, 'state');
	ok(!grep({ /\@OData/ } keys %$row), 'no annotations unless requested');
	is_deeply([ keys %{ $s->get("accounts($account)?\$select=")->json } ] > 50, 1,
		'an empty select is ignored');
}

# ---- refusals of $select
refused("accounts($account)?\$select=Name", 400, '0x0',
	qr/^Could not find a property named 'Name' on type 'Microsoft.Dynamics.CRM.account'\.$/,
	'wrong case');
refused("accounts?\$select=name,nothing", 400, '0x0', qr/named 'nothing'/, 'unknown name in a set');
refused("accounts?\$select=primarycontactid", 400, '0x80060888', qr/primarycontactid/,
	'a navigation property');
refused("accounts?\$select=contact_customer_accounts", 400, '0x80060888', qr/contact_customer/,
	'a collection');
refused("accounts?\$select=primarycontactidname", 400, '0x0', qr/primarycontactidname/,
	'a helper column');
refused("new_alltypeses?\$select=new_hidden", 400, '0x0', qr/new_hidden/,
	'a column that cannot be read');
refused("phonecalls?\$select=from", 400, '0x0', qr/'from'/, 'a party list');

# ---- rows that do not exist
refused('accounts(00000000-0000-0000-0000-00000000dead)', 404, '0x80040217',
	qr/^Entity 'account' With Id = 00000000-0000-0000-0000-00000000dead Does Not Exist$/,
	'no such row');
refused("new_meters(new_serial='nothing')", 404, '0x80060891', qr/new_meter entity/,
	'no row of that alternate key');
refused("accounts($account)/nothing", 404, '0x80060888',
	qr/^Resource not found for the segment 'nothing'\.$/, 'unknown segment');
refused('accounts/nothing', 404, '0x80060888', qr/segment 'nothing'/,
	'unknown segment below a set');
refused("accounts($account)?\$filter=name eq 'x'", 400, '0x80060888', qr/\$filter/,
	'no filter on one row');

# ---- options
refused('accounts?$skip=1', 400, '0x80060888', qr/^Skip Clause is not supported in CRM$/, '$skip');
refused("accounts?\$$_=1", 400, '0x80060888', qr/\$$_/, "\$$_")
	for qw(search format compute levels Select nothing);
refused('accounts?$select=name&$select=name', 400, '0x80060888', qr/more than once/, 'twice');
is($s->get("accounts($account)?\$select=name&tag=x&UnMaskedData=true")->status, 200,
	'other options are ignored');
refused("accounts($account)?\$select=name&unmaskeddata=true", 400, '0x80060888',
	qr/^The query parameter unmaskeddata is not supported\.$/, 'but not in another case');
refused('accounts?fetchxml=<fetch/>', 400, '0x80060888', qr/fetchxml is not supported/,
	'nor an unknown one');
is($s->get("accounts($account)?%24select=name")->json->{name}, 'Größe "A"\\B',
	'percent-encoded option names');

# ---- alternate keys
my $meter = $s->create('new_meters', { new_name => 'M', new_serial => 'S 1' });
is($s->get("new_meters(new_serial='S%201')?\$select=new_name")->json->{new_meterid}, $meter,
	'by alternate key');

# ---- conditional reads
{
	my $etag = $s->get("accounts($account)?\$select=name")->json->{'@odata.etag'};
	my $r = $s->get("accounts($account)?\$select=name", 'If-None-Match' => $etag);

	is($r->status, 304, 'not modified');
	is($r->body, '', 'without a body');
	is($s->get("accounts($account)?\$select=name", 'If-None-Match' => 'null')->status, 200,
		'the literal null says nothing');
	is($s->get("accounts($account)?\$select=name", 'If-None-Match' => 'W/"1"')->status, 200,
		'another version');
	$s->patch("accounts($account)", { telephone1 => '1' });
	is($s->get("accounts($account)?\$select=name", 'If-None-Match' => $etag)->status, 200,
		'modified');
}

# ---- properties
{
	my $r = $s->get("accounts($account)/name");

	is_deeply($r->json, { '@odata.context' => $root . "\$metadata#accounts($account)/name",
			value => 'Größe "A"\\B' }, 'one property');
	is($s->get("accounts($account)/_primarycontactid_value")->json->{value}, $contact,
		'a lookup as a property');
	is($s->get("accounts($account)/telephone2")->status, 204, 'null has no content');
	$r = $s->get("accounts($account)/name/\$value");
	is($r->header('Content-Type'), 'text/plain', 'raw value');
	my $raw = $r->body;
	utf8::decode($raw);
	is($raw, 'Größe "A"\\B', 'verbatim, neither quoted nor escaped');
	is($s->get("accounts($account)/numberofemployees/\$value")->body, '7', 'a raw number');
	is($s->get("accounts($account)/_primarycontactid_value/\$value")->body, $contact, 'a raw id');
	is($s->get("accounts($account)/name/\$value/x")->status, 404, 'nothing below a raw value');
}

# ---- navigation
{
	my $r = $s->get("accounts($account)/primarycontactid?\$select=lastname");

	is($r->json->{lastname}, 'Ash', 'a lookup leads to its row');
	is($r->json->{'@odata.context'}, $root . '$metadata#contacts(lastname)/$entity', 'its context');
	is($s->get("accounts($account)/primarycontactid/parentcustomerid_account/name")->json->{value},
		'Größe "A"\\B', 'and another one');
	is($s->get("accounts($account)/primarycontactid/\$ref")->json->{'@odata.id'},
		$root . "contacts($contact)", 'its reference');
	is($s->get("accounts($account)/parentaccountid")->status, 204, 'a lookup that is not set');
	is($s->get("contacts($contact)/parentcustomerid_contact")->status, 204,
		'a polymorphic lookup set to another table');
	is($s->get("accounts($account)/ownerid?\$select=fullname")->status, 200,
		'the owner, of any type');

	$r = $s->get("accounts($account)/contact_customer_accounts?\$select=lastname&\$count=true");
	is($r->json->{'@odata.context'}, $root . '$metadata#contacts(lastname)', 'a collection');
	is($r->json->{'@odata.count'}, 1, 'counted');
	is($r->json->{value}[0]{contactid}, $contact, 'and listed');
	is($s->get("accounts($account)/contact_customer_accounts/\$count")->body, "\xEF\xBB\xBF1",
		'number of a collection');
	is($s->get("accounts($account)/contact_customer_accounts/\$ref")->json->{value}[0]{'@odata.id'},
		$root . "contacts($contact)", 'references of a collection');
	is(@{ $s->get("accounts($account)/contact_customer_accounts?\$filter=lastname eq 'x'")
			->json->{value} }, 0, 'filtered');
}

# ---- annotations
{
	my $r = $s->get("contacts($contact)?\$select=_parentcustomerid_value,statecode,createdon",
		Prefer => 'odata.include-annotations="*"');
	my $row = $r->json;
	my $p = '_parentcustomerid_value@';

	is($row->{ $p . 'OData.Community.Display.V1.FormattedValue' }, 'Größe "A"\\B', 'label of a lookup');
	is($row->{ $p . 'Microsoft.Dynamics.CRM.lookuplogicalname' }, 'account', 'its table');
	is($row->{ $p . 'Microsoft.Dynamics.CRM.associatednavigationproperty' },
		'parentcustomerid_account', 'its navigation property');
	is($row->{'statecode@OData.Community.Display.V1.FormattedValue'}, 'Active', 'label of a choice');
	ok($row->{'createdon@OData.Community.Display.V1.FormattedValue'}, 'label of a date');
	like($r->header('Preference-Applied'), qr/odata\.include-annotations="\*"/, 'the preference is acknowledged');

	$row = $s->get("contacts($contact)?\$select=_parentcustomerid_value,statecode",
		Prefer => 'odata.include-annotations="Microsoft.Dynamics.CRM.lookuplogicalname"')->json;
	is($row->{ $p . 'Microsoft.Dynamics.CRM.lookuplogicalname' }, 'account', 'only the requested one');
	is(scalar(grep { /\@(OData|Microsoft)/ } keys %$row), 1, 'only that one is given');

	$row = $s->get("contacts($contact)?\$select=_parentcustomerid_value",
		Prefer => 'odata.include-annotations="Microsoft.Dynamics.CRM.a*"')->json;
	is(scalar(grep { /\@(OData|Microsoft)/ } keys %$row), 1, 'a prefix');
	$row = $s->get("contacts($contact)?\$select=_preferredsystemuserid_value,jobtitle",
		Prefer => 'odata.include-annotations="*"')->json;
	ok(!grep({ /^(_preferred|jobtitle).*\@/ } keys %$row), 'null has no annotations');
}

# ---- every type on the wire
{
	my $id = $s->create('new_alltypeses', {
		new_name => 'N', new_bigint => 9007199254740993, new_decimal => 12.5,
		new_decimal10 => 0.0000000001, new_double => 47.639583, new_boolean => \1,
		new_choices => '9,1', new_datetime => '2023-04-07T21:59:01-08:00',
		new_date => '2023-04-07', new_choice => 100000001,
		'new_MeterId@odata.bind' => "/new_meters($meter)" });
	my $body = $s->get("new_alltypeses($id)")->body;

	like($body, qr/"new_bigint":9007199254740993,/, 'a large integer');
	like($body, qr/"new_decimal10":0\.0000000001,/, 'a decimal, exactly');
	like($body, qr/"new_double":47\.63958,/, 'a double, rounded');
	like($body, qr/"new_boolean":true,/, 'a boolean');
	like($body, qr/"new_choices":"1,9",/, 'choices in order');
	like($body, qr/"new_datetime":"2023-04-08T05:59:01Z",/, 'a time in UTC');
	like($body, qr/"new_date":"2023-04-07",/, 'a date');
	like($body, qr/"_new_meterid_value":"$meter"/, 'a lookup');
	like($body, qr/"new_managed":\{"Value":true,/, 'a managed property');
	like($body, qr/"new_text":null/, 'no text');
}

# ---- elastic rows
{
	my $id = $s->create('new_readings', { new_name => 'R', partitionid => 'p1' });

	is($s->get("new_readings($id)")->status, 404, 'another partition');
	is($s->get("new_readings(new_readingid=$id,partitionid='p1')")->json->{new_name}, 'R', 'by key');
	is($s->get("new_readings($id)?partitionId=p1")->json->{partitionid}, 'p1', 'by option');
	is($s->get("new_readings($id)?partitionId='p1'")->json->{partitionid}, 'p1', 'in quotes');
	my $own = $s->create('new_readings', { new_name => 'Q' });
	my $row = $s->get("new_readings($own)")->json;
	ok(exists $row->{partitionid} && !defined $row->{partitionid}, 'no partition is null');
	is(@{ $s->get('new_readings?partitionId=p1')->json->{value} }, 1, 'rows of one partition');
	is(@{ $s->get('new_readings?$filter=partitionid eq null')->json->{value} }, 1,
		'rows of none');
}

done_testing();
