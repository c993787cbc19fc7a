# 020_crud.t
#		Single rows: create, upsert, conditional forms, delete, single
#		properties, alternate keys, and the refusals.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $s = Dvsim->start('--seed', 20);
my $root = $s->base . '/api/data/v9.2/';
my $guid = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
my $none = '11111111-0000-0000-0000-000000000001';
my %rep = (Prefer => 'return=representation');

sub id { return sprintf '22222222-0000-0000-0000-%012d', $_[0]; }

sub refused
{
	my ($r, $status, $code, $message, $name) = @_;
	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
}

subtest 'create' => sub {
	my $r = $s->post('accounts', { name => 'A' });
	is($r->status, 204);
	like($r->header('OData-EntityId'), qr/^\Q${root}\Eaccounts\($guid\)$/);
	is($r->header('Location'), undef, 'no Location outside of $batch');
	is($r->body, '');

	$r = $s->post('accounts?$select=name', { name => 'B', accountid => id(1) }, %rep);
	is($r->status, 201);
	is($r->header('OData-EntityId'), undef);
	is($r->header('Preference-Applied'), 'return=representation');
	is($r->json->{accountid}, id(1));
	is($r->json->{name}, 'B');
	like($r->json->{'@odata.etag'}, qr{^W/"\d+"$});
	like($r->json->{'@odata.context'}, qr/#accounts\(name\)\/\$entity$/);
	ok(!exists $r->json->{telephone1}, '$select applies');

	refused($s->post('accounts', { name => 'again', accountid => id(1) }),
		412, '0x80040237', qr/^A record with matching key values already exists\.$/, 'same id');
	is($s->get('accounts(' . id(1) . ')')->json->{name}, 'B', 'and the row is unchanged');
	is($s->post('accounts?$select=nonsense', { accountid => id(2) }, %rep)->status, 400);
	is($s->get('accounts(' . id(2) . ')')->status, 404, 'a bad $select leaves nothing behind');
};

subtest 'upsert' => sub {
	my $r = $s->patch('accounts(' . id(10) . ')', { name => 'new' });
	is($r->status, 204);
	is($r->header('OData-EntityId'), "${root}accounts(" . id(10) . ')');
	$r = $s->patch('accounts(' . id(10) . ')', { telephone1 => '1' });
	is($r->status, 204);
	$r = $s->get('accounts(' . id(10) . ')')->json;
	is("$r->{name} $r->{telephone1}", 'new 1', 'an update keeps the rest');
	is($s->patch('accounts(' . id(11) . ')?$select=name', { name => 'x' }, %rep)->status, 201);
	$r = $s->patch('accounts(' . id(11) . ')?$select=name&$expand=primarycontactid',
		{ name => 'y' }, %rep);
	is($r->status, 200);
	is($r->json->{name}, 'y');
	ok(!exists $r->json->{primarycontactid}, '$expand is ignored');
};

subtest 'update only, insert only' => sub {
	refused($s->patch("accounts($none)", { name => 'x' }, 'If-Match' => '*'),
		404, '0x80040217', qr/^Entity 'account' With Id = $none Does Not Exist$/, 'no row');
	is($s->patch('accounts(' . id(10) . ')', { name => 'z' }, 'If-Match' => '*')->status, 204);
	is($s->patch('accounts(' . id(12) . ')', { name => 'i' }, 'If-None-Match' => '*')->status, 204);
	refused($s->patch('accounts(' . id(12) . ')', { name => 'j' }, 'If-None-Match' => '*'),
		412, '0x80040237', qr/^A record with matching key values already exists\.$/, 'exists');
	is($s->get('accounts(' . id(12) . ')')->json->{name}, 'i');
};

subtest 'etags' => sub {
	my $url = 'accounts(' . id(20) . ')';
	$s->patch($url, { name => 'a' });
	my $etag = $s->get($url)->json->{'@odata.etag'};

	is($s->patch($url, { name => 'b' }, 'If-Match' => $etag)->status, 204);
	refused($s->patch($url, { name => 'c' }, 'If-Match' => $etag), 412, '0x80060882',
		qr/^The version of the existing record doesn't match the RowVersion property/, 'stale');
	is($s->get($url)->json->{name}, 'b');
	isnt($s->get($url)->json->{'@odata.etag'}, $etag, 'a write makes a new version');
	refused($s->delete($url, 'If-Match' => $etag), 412, '0x80060882', qr/RowVersion/, 'delete');
	is($s->delete($url, 'If-Match' => $s->get($url)->json->{'@odata.etag'})->status, 204);
	is($s->get($url)->status, 404);
	is($s->patch($url, { name => 'x' }, 'If-Match' => $etag)->status, 404, 'etag of a deleted row');
	is($s->patch('accounts(' . id(10) . ')', {}, 'If-Match' => 'W/"x"')->status, 412);
};

subtest 'delete' => sub {
	my $id = $s->create('accounts', { name => 'gone' });
	my $r = $s->delete("accounts($id)");
	is($r->status, 204);
	is($r->body, '');
	refused($s->delete("accounts($id)"), 404, '0x80040217', qr/Does Not Exist$/, 'twice');
	is($s->post('accounts', { name => 'back', accountid => $id })->status, 204, 'the id is available again');
};

subtest 'alternate keys' => sub {
	my $url = "new_meters(new_serial='A-1')";
	my $r = $s->patch($url, { new_name => 'one' });
	is($r->status, 204);
	is($r->header('OData-EntityId'), "$root$url", 'the key form is used');
	$r = $s->get($url)->json;
	is("$r->{new_serial} $r->{new_name}", 'A-1 one', 'the key becomes a value');
	$s->patch($url, { new_name => 'two', new_serial => 'dropped' });
	$r = $s->get($url)->json;
	is("$r->{new_serial} $r->{new_name}", 'A-1 two', 'key columns are not updated');
	$s->patch("new_meters(new_serial='A-2')", { new_serial => 'A-3', new_name => 'n' });
	is($s->get("new_meters(new_serial='A-2')")->status, 404);
	is($s->get("new_meters(new_serial='A-3')")->status, 200, 'on create, the body takes precedence');
	is($s->patch("new_meters(new_serial='O''Neil')", { new_name => 'q' })->status, 204);
	is($s->get("new_meters(new_serial='O''Neil')")->json->{new_serial}, "O'Neil");

	refused($s->patch("new_meters(new_serial='none')", {}, 'If-Match' => '*'), 404, '0x80060891',
		qr/^A record with the specified key values does not exist in new_meter entity$/, 'none');
	refused($s->delete("new_meters(new_serial='none')"), 404, '0x80060891', qr/./, 'delete none');
	refused($s->patch("new_meters(new_name='x')", {}), 400, '0x80060890',
		qr/^The specified key attributes are not a defined key for the new_meter entity$/, 'no key');
	is($s->delete("new_meters(new_serial='A-3')")->status, 204);

	my $account = $s->create('accounts', { name => 'site' });
	my $pair = "new_meters(_new_accountid_value=$account,new_number=4)";
	is($s->patch($pair, { new_name => 'pair' })->status, 204);
	$r = $s->get($pair)->json;
	is("$r->{_new_accountid_value} $r->{new_number}", "$account 4", 'a lookup in a key');
	is($s->patch("new_meters(new_number=4,_new_accountid_value=$account)",
			{ new_name => 'any order' }, 'If-Match' => '*')->status, 204);
	is($s->get($pair)->json->{new_name}, 'any order');
};

# such values can exist all the same, and $filter finds them
subtest 'alternate keys that no URL can contain' => sub {
	for my $character (qw(/ < > * % & : \\ ? +), '#')
	{
		my $value = "a${character}b";
		my $escaped = sprintf 'a%%%02Xb', ord $character;
		my $id = $s->create('new_meters', { new_serial => $value });
		for my $method (qw(get delete))
		{
			refused($s->$method("new_meters(new_serial='$escaped')"), 400, '0x80060888',
				qr/^Bad Request - Error in query syntax\.$/, "$method $value");
		}
		is($s->patch("new_meters(new_serial='$escaped')", {})->status, 400, "patch $value");
		is($s->get("new_meters?\$filter=new_serial eq '$escaped'")->json->{value}[0]{new_meterid},
			$id, "filter $value");
	}
	is($s->patch("new_meters(new_serial='a#c')", {})->status, 400, 'nor a value that looks like a fragment');
	is($s->get('new_meters?$select=new_serial&$filter=' . "new_serial eq 'a'")->json->{value}[0],
		undef, 'which is not truncated');
	my $blank = $s->create('new_meters', { new_serial => "b l\"\x{e4}nk,=()" });
	is($s->get("new_meters(new_serial='b%20l%22%C3%A4nk,%3D%28%29')")->json->{new_meterid}, $blank,
		'other encoded characters are decoded');
};

subtest 'duplicate alternate key' => sub {
	my @row = ('new_meters', { new_serial => 'a-1 ', new_name => 'dup' });
	my $r = $s->post(@row);
	refused($r, 412, '0x80060892',
		qr/^Entity Key new_SerialKey violated\. A record with the same value for .+ already exists\. A duplicate record cannot be created\./,
		'keys ignore case and trailing blanks');
	ok(!grep(/^@/, keys %{ $r->json->{error} }), 'no details unless requested');
	$r = $s->post(@row, Prefer => 'odata.include-annotations="*"')->json->{error};
	my $d = '@Microsoft.PowerApps.CDS.ErrorDetails.';
	like($r->{"${d}DuplicateAttributes"},
		qr{^<DuplicateAttributes><new_serial>a-1 ?</new_serial></DuplicateAttributes>$});
	like($r->{"${d}DuplicateEntity"}, qr{<new_name>dup</new_name>});
	ok(exists $r->{"${d}0"} && exists $r->{"${d}1"}, 'names of the key');
	is($s->post('new_meters', { new_name => 'null' })->status, 204);
	is($s->post('new_meters', { new_name => 'null' })->status, 204, 'null disables it');
	my $id = $s->create('new_meters', { new_serial => 'free' });
	refused($s->patch("new_meters($id)", { new_serial => 'A-1' }), 412, '0x80060892', qr/violated/,
		'update');
};

subtest 'keys of principals' => sub {
	my $me = $s->get('WhoAmI')->json->{UserId};
	is($s->patch("systemusers($me)", { title => 'x' })->status, 204);
	is($s->patch("systemusers(ownerid=$me)", { title => 'y' })->status, 204);
	is($s->patch("systemusers(systemuserid=$me)", { title => 'z' })->status, 400);
	is($s->get("systemusers($me)")->json->{title}, 'y');
};

subtest 'single properties' => sub {
	my $url = 'accounts(' . id(30) . ')';
	$s->patch($url, { name => 'p', telephone1 => '1' });
	is($s->put("$url/telephone1", { value => '2' })->status, 204);
	is($s->get($url)->json->{telephone1}, '2');
	is($s->delete("$url/telephone1")->status, 204);
	is($s->get($url)->json->{telephone1}, undef);
	is($s->get($url)->json->{name}, 'p');
	refused($s->put("$url/Telephone1", { value => '2' }), 404, '0x80060888',
		qr/^Resource not found for the segment 'Telephone1'\.$/, 'wrong case');
	is($s->put("$url/telephone1", { wrong => 1 })->status, 400);
	is($s->put("accounts($none)/telephone1", { value => '2' })->status, 404);
	is($s->post("$url/telephone1", { value => '2' })->status, 405);
};

subtest 'files and pictures' => sub {
	my $id = $s->create('new_alltypeses', { new_name => 'f' });
	my $url = "new_alltypeses($id)";
	my %bytes = ('Content-Type' => 'application/octet-stream', 'x-ms-file-name' => 'a.bin');
	is($s->patch("$url/new_file", "some\x00bytes", %bytes)->status, 204);
	my $row = $s->get($url)->json;
	like($row->{new_file}, qr/^$guid$/);
	is($row->{new_file_name}, 'a.bin');
	is($s->patch("$url/new_file", 'x', %bytes, 'x-ms-file-name' => undef)->status, 400);
	is($s->delete("$url/new_file")->status, 204);
	is($s->get($url)->json->{new_file}, undef);

	my $picture = encode_base64("\x89PNG bytes", '');
	is($s->patch($url, { new_image => $picture })->status, 204);
	$row = $s->get($url)->json;
	is($row->{new_image}, $picture);
	like($row->{new_imageid}, qr/^$guid$/);
	is($s->patch($url, { new_image => undef })->status, 204);
	is($s->get($url)->json->{new_imageid}, undef);
	is($s->patch("$url/new_image", "\x89PNG bytes",
			'Content-Type' => 'application/octet-stream')->status, 204);
	is($s->get($url)->json->{new_image}, $picture, 'as bytes');
	is($s->get("$url/new_image/\$value?size=full")->body, "\x89PNG bytes", 'and back, in full size');
	is($s->patch($url, { new_image => 'not base64!' })->status, 400);
};

subtest 'bodies that are not declared as JSON' => sub {
	my $before = $s->get('accounts/$count')->body;
	for my $type ('text/plain', 'application/jsonp', 'application/x-www-form-urlencoded', undef)
	{
		my $shown = $type // 'application/octet-stream';
		refused($s->post('accounts', { name => 'x' }, 'Content-Type' => $type), 415, '',
			qr/^The request entity's media type '\Q$shown\E' is not supported/, $shown);
	}
	is($s->get('accounts/$count')->body, $before, 'nothing was changed');
	is($s->post('accounts', { name => 'x' }, 'Content-Type' => $_)->status, 204, $_)
	  for 'application/json', 'Application/JSON;charset=utf-8', 'application/json; type=entry';
};

subtest 'not a request' => sub {
	is($s->post('accounts', '{"name":')->status, 400);
	is($s->post('accounts', '[]')->status, 400);
	is($s->post('accounts', '')->status, 400);
	refused($s->post('accounts', '{"name":"x"} x'), 400, '0x80048d19',
		qr/^Error identified in Payload provided by the user for Entity :'accounts', .*InnerException : Microsoft\.OData\.ODataException: Invalid JSON/,
		'text after the body');
	is($s->put('accounts(' . id(30) . ')', { name => 'x' })->status, 405);
	is($s->post('accounts(' . id(30) . ')', { name => 'x' })->status, 405);
	is($s->patch('accounts', { name => 'x' })->status, 405);
	is($s->delete('accounts')->status, 405);
	is($s->patch('accounts(x)', { name => 'x' })->status, 400);
	is($s->patch("accounts('$none')", { name => 'x' })->status, 400);
	refused($s->post('new_account_contactset', { accountid => id(1) }), 405, '0x80040800',
		qr/method does not support entities of type 'new_account_contact'/, 'intersect');
	refused($s->post('nothings', {}), 404, '0x80060888', qr/segment 'nothings'/, 'no such set');
};

done_testing;
