# 021_lookups.t
#		Lookups in write bodies: binds in all spellings, several targets,
#		owners, deep inserts, and the service's refusals.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 21);
my $root = $s->base . '/api/data/v9.2/';
my $none = '11111111-0000-0000-0000-000000000001';
my $acme = $s->create('accounts', { name => 'Acme' });
my $other = $s->create('accounts', { name => 'Other' });
my $ann = $s->create('contacts', { lastname => 'Ann' });
my $meter = $s->create('new_meters', { new_name => 'm', new_serial => 'S-1' });

sub to { my ($nav, $value) = @_; return ("$nav\@odata.bind" => $value); }
sub account { return $s->get("accounts($_[0])")->json; }
sub contact { return $s->get("contacts($_[0])",
	Prefer => 'odata.include-annotations="*"')->json; }

sub refused
{
	my ($r, $status, $code, $message, $name) = @_;
	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
}

subtest 'spellings' => sub {
	for my $url ("/accounts($acme)", "accounts($acme)", "/api/data/v9.2/accounts($acme)",
		"${root}accounts($acme)", 'accounts(' . uc($acme) . ')', "accounts(accountid=$acme)")
	{
		my $id = $s->create('accounts', { name => 'x', to('parentaccountid', $url) });
		is(account($id)->{_parentaccountid_value}, $acme, $url);
	}
	my $id = $s->create('new_alltypeses', {
		new_name => 'k', to('new_MeterId', "new_meters(new_serial='S-1')") });
	is($s->get("new_alltypeses($id)")->json->{_new_meterid_value}, $meter, 'by alternate key');
	is($s->post('accounts', { name => 'x', to('parentaccountid', "accounts%28$acme%29") })->status, 400,
		'a body is no address: nothing is percent-encoded');
};

subtest 'keys are literal' => sub {
	for my $serial ('S 1', "\x{e4}'s", 'A%23000143')
	{
		my $to = $s->create('new_meters', { new_name => 'm', new_serial => $serial });
		my $key = $serial =~ s/'/''/gr;
		my $id = $s->create('new_alltypeses', { new_name => 'k', to('new_MeterId', "/new_meters(new_serial='$key')") });
		is($s->get("new_alltypeses($id)")->json->{_new_meterid_value}, $to, $serial);
	}
	my $row = sub { return $s->post('new_alltypeses', { new_name => 'k', to('new_MeterId', "/new_meters(new_serial='$_[0]')") }) };
	$s->create('new_meters', { new_name => 'm', new_serial => 'A#000144' });
	refused($row->('A%23000144'), 404, '0x80060891',
		qr/^A record with the specified key values does not exist in new_meter entity$/, 'encoded');
	refused($row->('S%201'), 404, '0x80060891', qr/./, 'a blank, encoded');
	refused($row->('A#000144'), 400, '0x80060888', qr/^Bad Request - Error in query syntax\.$/, 'raw');
};

subtest 'set, change, clear' => sub {
	my $id = $s->create('accounts', { name => 'x', to('primarycontactid', "/contacts($ann)") });
	my $url = "accounts($id)";
	is(account($id)->{_primarycontactid_value}, $ann);
	$s->patch($url, { telephone1 => '1' });
	is(account($id)->{_primarycontactid_value}, $ann, 'untouched');
	is($s->patch($url, { to('primarycontactid', undef) })->status, 204);
	is(account($id)->{_primarycontactid_value}, undef);
	$s->patch($url, { to('primarycontactid', "/contacts($ann)") });
	is($s->patch($url, { primarycontactid => undef })->status, 204);
	is(account($id)->{_primarycontactid_value}, undef, 'the other spelling of null');
};

subtest 'several targets' => sub {
	my $id = $s->create('contacts', {
		lastname => 'P', to('parentcustomerid_account', "/accounts($acme)") });
	my $type = '_parentcustomerid_value@Microsoft.Dynamics.CRM.lookuplogicalname';
	is(contact($id)->{$type}, 'account');
	$s->patch("contacts($id)", { to('parentcustomerid_contact', "/contacts($ann)") });
	is(contact($id)->{_parentcustomerid_value}, $ann);
	is(contact($id)->{$type}, 'contact', 'one replaces the other');
	$s->patch("contacts($id)", { to('parentcustomerid_account', undef) });
	is(contact($id)->{_parentcustomerid_value}, $ann, 'null for another target keeps it');
	$s->patch("contacts($id)", {
		to('parentcustomerid_contact', undef), to('parentcustomerid_account', "/accounts($acme)") });
	is(contact($id)->{_parentcustomerid_value}, $acme, 'null together with a value');
	is(contact($id)->{$type}, 'account');
	$s->patch("contacts($id)", { to('parentcustomerid_account', undef) });
	is(contact($id)->{_parentcustomerid_value}, undef, 'null for its own target clears it');
	is(contact($id)->{$type}, undef);
	is($s->patch("contacts($id)", { to('parentcustomerid_account', "/accounts($acme)"),
				to('parentcustomerid_contact', "/contacts($ann)") })->status, 400, 'not both');

	my $task = $s->create('tasks', {
		subject => 't', to('regardingobjectid_account_task', "/accounts($acme)") });
	is($s->get("tasks($task)")->json->{_regardingobjectid_value}, $acme);
};

subtest 'owner' => sub {
	my $me = $s->get('WhoAmI')->json->{UserId};
	my $unit = $s->get('WhoAmI')->json->{BusinessUnitId};
	my $team = $s->create('teams', { name => 'T', to('businessunitid', "/businessunits($unit)") });
	my $id = $s->create('accounts', { name => 'o' });
	my $row = account($id);
	is($row->{_ownerid_value}, $me, 'the creator becomes the owner');
	is($row->{_owninguser_value}, $me);
	is($row->{_owningteam_value}, undef);
	is($row->{_owningbusinessunit_value}, $unit);
	is($s->patch("accounts($id)", { to('ownerid', "/teams($team)") })->status, 204);
	$row = account($id);
	is($row->{_ownerid_value}, $team);
	is($row->{_owningteam_value}, $team);
	is($row->{_owninguser_value}, undef);
	is($s->patch("accounts($id)", { to('ownerid', "/systemusers($me)") })->status, 204);
	is(account($id)->{_owninguser_value}, $me);
	is($s->patch("accounts($id)", { to('ownerid', undef) })->status, 400, 'an owner cannot be null');
	is($s->patch("accounts($id)", { to('ownerid', "/accounts($acme)") })->status, 400);
	is($s->patch("accounts($id)", { to('ownerid', "/teams($none)") })->status, 404);
	$id = $s->create('accounts', { name => 'o', to('ownerid', "/teams($team)") });
	is(account($id)->{_owningteam_value}, $team, 'on create');
};

subtest 'refusals' => sub {
	my $undeclared = qr/^Error identified in Payload provided by the user for Entity :'accounts', For more information on this error please follow this help link https:\S+  ---->  InnerException : Microsoft\.OData\.ODataException: An undeclared property 'PrimaryContactId' which only has property annotations in the payload/;
	refused($s->post('accounts', { to('PrimaryContactId', "/contacts($ann)") }),
		400, '0x80048d19', $undeclared, 'wrong case');
	refused($s->post('new_meters', { to('new_accountid', "/accounts($acme)") }),
		400, '0x80048d19', qr/undeclared property 'new_accountid'/, 'logical name');
	is($s->post('new_meters', { to('new_AccountId', "/accounts($acme)") })->status, 204);
	refused($s->post('accounts', { nonsense => 1 }), 400, '0x80048d19',
		qr/Invalid property 'nonsense' was found in entity 'Microsoft\.Dynamics\.CRM\.account'.*The property 'nonsense' does not exist on type/,
		'unknown');
	refused($s->post('accounts', { Name => 'x' }), 400, '0x80048d19', qr/Invalid property 'Name'/,
		'case of a column');
	refused($s->post('accounts', { _primarycontactid_value => $ann }), 400, '0x80048d19',
		qr/CRM do not support direct update of Entity Reference properties, Use Navigation properties instead\./,
		'_x_value');
	refused($s->post('accounts', { primarycontactid => $ann }), 400, '0x80048d19',
		qr/A 'PrimitiveValue' node with non-null value was found .* property 'primarycontactid'/,
		'bare id');
	refused($s->post('accounts', { to('primarycontactid', "/contacts($none)") }),
		404, '0x80040217', qr/^Entity 'contact' With Id = $none Does Not Exist$/, 'no such row');
	refused($s->post('new_alltypeses', { to('new_MeterId', "new_meters(new_serial='none')") }),
		404, '0x80060891', qr/./, 'no such key');
	refused($s->post('accounts', { to('primarycontactid', "/accounts($acme)") }),
		400, '0x80048d19', qr/not assignable/, 'of another table');
	refused($s->post('accounts', { to('primarycontactid', "/persons($ann)") }),
		400, '0x80048d19', qr/Resource not found for the segment 'persons'/, 'no such set');
	for my $bad ('', 'contacts', "contacts($ann", 'contacts(x)', 'contacts()', '%', '$9')
	{
		is($s->post('accounts', { to('primarycontactid', $bad) })->status, 400, "'$bad'");
	}
	is($s->post('accounts', { to('primarycontactid', 5) })->status, 400, 'a number');
	is($s->post('accounts', '{"name":"a","name":"b"}')->status, 400, 'a member twice');
	is($s->get('accounts/$count?$filter=contains(name,%27zzz%27)')->body =~ s/\D//gr, '0');
};

subtest 'annotations and types in a body' => sub {
	is($s->post('accounts', {
			'@odata.type' => '#Microsoft.Dynamics.CRM.account', '@odata.etag' => 'W/"1"', name => 'x',
			'name@OData.Community.Display.V1.FormattedValue' => 'x',
			'_ownerid_value@OData.Community.Display.V1.FormattedValue' => 'me' })->status, 204);
	refused($s->post('accounts', { '@odata.type' => 'Microsoft.Dynamics.CRM.contact' }),
		400, '0x80048d19', qr/not assignable to the expected type 'Microsoft\.Dynamics\.CRM\.account'/,
		'another type');
};

subtest 'rows of elastic tables' => sub {
	my $id = $s->create('new_alltypeses', { new_name => 'e',
		to('new_ReadingId', "new_readings(new_readingid=$none,partitionid='p1')") });
	my $row = $s->get("new_alltypeses($id)")->json;
	is($row->{_new_readingid_value}, $none, 'the target need not exist');
	is($row->{new_readingidpid}, 'p1', 'the partition is a separate member');
	$id = $s->create('new_alltypeses', { new_name => 'e', new_readingidpid => 'p2',
		to('new_ReadingId', "new_readings($none)") });
	is($s->get("new_alltypeses($id)")->json->{new_readingidpid}, 'p2', 'or is derived');
};

subtest 'deep inserts' => sub {
	my $r = $s->post('accounts?$select=name,_primarycontactid_value', {
			name => 'Deep',
			primarycontactid => { lastname => 'Inner' },
			contact_customer_accounts => [ { lastname => 'C1' }, { lastname => 'C2' } ],
			new_Account_Contact => [ { lastname => 'Linked' } ],
			to('opportunity_parent_account', []) }, Prefer => 'return=representation');
	is($r->status, 201) or diag $r->body;
	my $id = $r->json->{accountid};
	ok($r->json->{_primarycontactid_value});
	my $all = $s->get("accounts($id)?\$expand=contact_customer_accounts(\$select=lastname),new_Account_Contact(\$select=lastname)")->json;
	is_deeply([ sort map { $_->{lastname} } @{ $all->{contact_customer_accounts} } ], [ 'C1', 'C2' ]);
	is_deeply([ map { $_->{lastname} } @{ $all->{new_Account_Contact} } ], ['Linked']);
	my $before = $s->get('accounts/$count')->body;
	is($s->post('accounts', { name => 'No', contact_customer_accounts => [ { nonsense => 1 } ] })->status,
		400);
	is($s->get('accounts/$count')->body, $before, 'a refused child undoes its parent');
	is($s->patch("accounts($id)", { contact_customer_accounts => [] })->status, 400, 'only on create');
	is($s->post('new_readings', { new_MeterId => { new_name => 'x' } })->status, 400, 'not elastic');
};

done_testing;
