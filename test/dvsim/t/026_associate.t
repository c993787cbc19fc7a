# 026_associate.t
#		$ref on lookups and on collections, 1:N and N:N.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 26);
my $root = $s->base . '/api/data/v9.2/';
my $none = '11111111-0000-0000-0000-000000000001';
my ($a, $b) = map { $s->create('accounts', { name => $_ }) } qw(A B);
my ($ann, $bob) = map { $s->create('contacts', { lastname => $_ }) } qw(Ann Bob);

sub to { return { '@odata.id' => "${root}$_[0]" }; }

sub linked
{
	my ($set, $id, $nav) = @_;
	my $r = $s->get("$set($id)?\$select=createdon&\$expand=$nav(\$select=createdon)");
	my $key = $nav =~ /contact/i && $set eq 'accounts' ? 'contactid' : 'accountid';
	return join ' ', sort map { $_->{$key} } @{ $r->json->{$nav} };
}

subtest 'lookups' => sub {
	my $url = "accounts($a)/primarycontactid/\$ref";
	my $r = $s->put($url, to("contacts($ann)"));
	is($r->status, 204);
	is($r->header('OData-EntityId'), undef);
	is($s->get("accounts($a)")->json->{_primarycontactid_value}, $ann);
	is($s->put($url, { '@odata.id' => "contacts($bob)" })->status, 204, 'relative');
	is($s->get("accounts($a)")->json->{_primarycontactid_value}, $bob);
	is($s->delete($url)->status, 204);
	is($s->get("accounts($a)")->json->{_primarycontactid_value}, undef);
	is($s->put($url, to("contacts($none)"))->status, 404);
	is($s->put($url, to("accounts($b)"))->status, 400, 'another table');
	is($s->put($url, {})->status, 400);
	is($s->put($url, { '@odata.id' => 5 })->status, 400);
	is($s->post($url, to("contacts($ann)"))->status, 405);
	is($s->put("accounts($a)/PrimaryContactId/\$ref", to("contacts($ann)"))->status, 404);
	is($s->put("accounts($none)/primarycontactid/\$ref", to("contacts($ann)"))->status, 404);
};

subtest 'several targets' => sub {
	my $url = "contacts($ann)/parentcustomerid_account/\$ref";
	is($s->put($url, to("accounts($a)"))->status, 204);
	is($s->get("contacts($ann)")->json->{_parentcustomerid_value}, $a);
	is($s->delete("contacts($ann)/parentcustomerid_contact/\$ref")->status, 204);
	is($s->get("contacts($ann)")->json->{_parentcustomerid_value}, $a, 'it points to an account');
	is($s->delete($url)->status, 204);
	is($s->get("contacts($ann)")->json->{_parentcustomerid_value}, undef);
};

subtest 'one to many' => sub {
	my $nav = 'contact_customer_accounts';
	is($s->post("accounts($a)/$nav/\$ref", to("contacts($_)"))->status, 204) for $ann, $bob;
	is(linked('accounts', $a, $nav), join ' ', sort $ann, $bob);
	is($s->post("accounts($b)/$nav/\$ref", to("contacts($bob)"))->status, 204, 'a row moves');
	is(linked('accounts', $a, $nav), $ann);
	is($s->delete("accounts($a)/$nav($bob)/\$ref")->status, 204);
	is(linked('accounts', $b, $nav), $bob, 'it belonged to another row');
	is($s->delete("accounts($b)/$nav($bob)/\$ref")->status, 204);
	is(linked('accounts', $b, $nav), '');
	is($s->delete("accounts($a)/$nav/\$ref?\$id=${root}contacts($ann)")->status, 204);
	is(linked('accounts', $a, $nav), '');
	is($s->post("accounts($a)/$nav/\$ref", to("accounts($b)"))->status, 400);
	is($s->post("accounts($a)/$nav/\$ref", to("contacts($none)"))->status, 404);
	is($s->put("accounts($a)/$nav/\$ref", to("contacts($ann)"))->status, 405);
	is($s->delete("accounts($a)/$nav/\$ref")->status, 400, 'ambiguous');
};

subtest 'many to many' => sub {
	my $nav = 'new_Account_Contact';
	is($s->post("accounts($a)/$nav/\$ref", to("contacts($_)"))->status, 204) for $ann, $bob;
	is($s->post("contacts($bob)/$nav/\$ref", to("accounts($b)"))->status, 204, 'from the other end');
	is(linked('accounts', $a, $nav), join ' ', sort $ann, $bob);
	is(linked('accounts', $b, $nav), $bob);
	is(linked('contacts', $bob, $nav), join ' ', sort $a, $b);
	my $r = $s->post("accounts($a)/$nav/\$ref", to("contacts($ann)"));
	is($r->status, 412, 'already linked');
	is($r->json->{error}{code}, '0x80040237');
	is($s->delete("accounts($a)/$nav($ann)/\$ref")->status, 204);
	is($s->delete("contacts($bob)/$nav/\$ref?\$id=${root}accounts($a)")->status, 204);
	is(linked('accounts', $a, $nav), '');
	is(linked('accounts', $b, $nav), $bob);
	is($s->post("accounts($a)/$nav/\$ref", to("accounts($b)"))->status, 400);
	is($s->delete("contacts($bob)")->status, 204);
	is(linked('accounts', $b, $nav), '', 'a deleted row takes its links along');
};

subtest 'new rows in a collection' => sub {
	my $url = "accounts($a)/contact_customer_accounts";
	my $before = linked('accounts', $a, 'contact_customer_accounts');
	my $r = $s->post($url, { lastname => 'Eve' });
	is($r->status, 204);
	my ($eve) = $r->header('OData-EntityId') =~ m{/contacts\(([-0-9a-f]{36})\)$} or BAIL_OUT('no id');
	is($s->get("contacts($eve)")->json->{_parentcustomerid_value}, $a, 'it refers to the row');
	is(linked('accounts', $a, 'contact_customer_accounts'), join ' ', sort split(/ /, $before), $eve);
	$r = $s->post($url, { lastname => 'Fay' }, Prefer => 'return=representation');
	is($r->status . ' ' . $r->json->{lastname}, '201 Fay', 'with its representation');
	is($s->post("accounts($none)/contact_customer_accounts", { lastname => 'x' })->status, 404, 'for a missing row');
	is($s->post($url, { nothing => 'x' })->status, 400);
	is($s->post("accounts($a)/primarycontactid", { lastname => 'x' })->status, 404, 'a lookup is no collection');
	is($s->put($url, { lastname => 'x' })->status, 404);
	# as dynamics-web-api sends it in a change set
	my $batch = join "\r\n", '--b', 'Content-Type: multipart/mixed;boundary=c', '', '--c', 'Content-Type: application/http', 'Content-Transfer-Encoding: binary',
	  'Content-ID: 1', '', 'POST /api/data/v9.2/accounts HTTP/1.1', 'Content-Type: application/json', '', '{"name":"Parent"}', '--c',
	  'Content-Type: application/http', 'Content-Transfer-Encoding: binary', 'Content-ID: 2', '', 'POST $1/contact_customer_accounts HTTP/1.1',
	  'Content-Type: application/json', '', '{"lastname":"Child"}', '--c--', '', '--b--', '';
	$r = $s->post('$batch', $batch, 'Content-Type' => 'multipart/mixed;boundary=b');
	is(scalar(() = $r->body =~ /HTTP\/1\.1 204/g), 2, 'to a row of the same change set') or diag $r->body;
	is($s->get("contacts?\$select=lastname&\$filter=parentcustomerid_account/name eq 'Parent'")->json->{value}[0]{lastname}, 'Child');
};

subtest 'unknown' => sub {
	my $r = $s->post("accounts($a)/nothing/\$ref", to("contacts($ann)"));
	is($r->status, 404);
	like($r->json->{error}{message}, qr/^Resource not found for the segment 'nothing'\.$/);
	is($s->post("accounts($a)/name/\$ref", to("contacts($ann)"))->status, 404);
	is($s->delete("accounts($a)/contact_customer_accounts($ann/\$ref")->status, 404);
	is($s->delete("accounts($a)/primarycontactid(x)/\$ref")->status, 404);
};

done_testing;
