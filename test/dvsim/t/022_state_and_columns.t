# 022_state_and_columns.t
#		State rules, audit columns, defaults, money, numbers, limits of
#		values, and columns that a write ignores.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 22, '--app-user', 'one:secret', '--app-user', 'two:secret');
my $one = $s->as('one', 'secret');
my $two = $s->as('two', 'secret');
my ($me, $you) = map { $_->get('WhoAmI')->json->{UserId} } $one, $two;

sub row { my ($url) = @_; return $one->get($url)->json; }

sub refused
{
	my ($r, $status, $code, $message, $name) = @_;
	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
}

subtest 'state on create' => sub {
	my $id = $one->create('accounts', { name => 'a', statecode => 1 });
	my $row = row("accounts($id)");
	is("$row->{statecode} $row->{statuscode}", '0 1', 'statecode is ignored');
	refused($one->post('accounts', { name => 'a', statuscode => 2 }), 400, '0x80048408',
		qr/^2 is not a valid status code for state code AccountState\.Active on account with Id /,
		'inactive status');
	$id = $one->create('tasks', { subject => 't', statuscode => 4 });
	is(row("tasks($id)")->{statuscode}, 4, 'another status of the state');
};

subtest 'state on update' => sub {
	my $id = $one->create('new_alltypeses', { new_name => 'a' });
	my $url = "new_alltypeses($id)";
	my $set = sub { $one->patch($url, {@_}) };
	my $state = sub { my $r = row($url); "$r->{statecode} $r->{statuscode}" };

	is($set->(statecode => 1)->status, 204);
	is($state->(), '1 2', 'the default status of the state');
	is($set->(statecode => 1, statuscode => 100000003)->status, 204);
	is($state->(), '1 100000003');
	is($set->(statuscode => 2)->status, 204);
	is($state->(), '1 2', 'a status within the state');
	refused($set->(statuscode => 1), 400, '0x80048408',
		qr/^1 is not a valid status code for state code new_AllTypesState\.Inactive on new_alltypes with Id $id\.$/,
		'status of another state');
	refused($set->(statecode => 0, statuscode => 2), 400, '0x80048408', qr/Active/, 'a state and a status that do not match');
	is($state->(), '1 2');
	is($set->(statecode => 7)->status, 400);
	is($set->(statecode => undef)->status, 400);
	is($set->(statecode => 0)->status, 204);
	is($state->(), '0 1');
};

subtest 'creation and modification' => sub {
	my $id = $one->create('accounts',
		{ name => 'a', createdon => '2001-01-01T00:00:00Z', versionnumber => 5 });
	my $url = "accounts($id)";
	my $row = row($url);
	is($row->{_createdby_value}, $me);
	is($row->{_modifiedby_value}, $me);
	is($row->{_createdonbehalfby_value}, undef);
	unlike($row->{createdon}, qr/^2001/, 'createdon is ignored');
	isnt($row->{versionnumber}, 5);
	$s->control('POST', '/_dvsim/clock?advance=100s');
	$one->forget_token;
	$two->forget_token;
	is($two->patch($url, { telephone1 => '1' })->status, 204);
	my $later = row($url);
	is($later->{_createdby_value}, $me);
	is($later->{_modifiedby_value}, $you);
	is($later->{createdon}, $row->{createdon});
	cmp_ok($later->{modifiedon}, 'gt', $row->{modifiedon});
	cmp_ok($later->{versionnumber}, '>', $row->{versionnumber});
	$one->patch($url, { telephone1 => '2' }, MSCRMCallerID => $you);
	$later = row($url);
	is($later->{_modifiedby_value}, $you, 'on behalf of whom');
	is($later->{_modifiedonbehalfby_value}, $me, 'by whom');
};

subtest 'overriddencreatedon' => sub {
	my $id = $one->create('accounts', { name => 'a', overriddencreatedon => '2001-02-03T00:00:00Z' });
	my $row = row("accounts($id)");
	is($row->{createdon}, '2001-02-03T00:00:00Z');
	is($row->{overriddencreatedon}, $row->{modifiedon}, 'contains the real time');
	is($one->patch("accounts($id)", { overriddencreatedon => '2002-02-03T00:00:00Z' })->status, 204);
	is(row("accounts($id)")->{createdon}, '2001-02-03T00:00:00Z', 'only on create');
};

subtest 'columns that the service fills' => sub {
	my $row = $one->post('new_alltypeses', { new_name => 'd' }, Prefer => 'return=representation')->json;
	is($row->{new_yesno}, JSON::PP::true);
	is($row->{new_choicedefault}, 2);
	is($row->{new_boolean}, undef);
	like($row->{new_autonumber}, qr/^A-\d{6}$/);
	my $next = $one->post('new_alltypeses', { new_name => 'd', new_yesno => undef },
		Prefer => 'return=representation')->json;
	isnt($next->{new_autonumber}, $row->{new_autonumber}, 'automatic numbers count');
	is($next->{new_yesno}, undef, 'an explicit null stays');
	$next = $one->post('new_alltypeses', { new_name => 'd', new_autonumber => 'mine' },
		Prefer => 'return=representation')->json;
	is($next->{new_autonumber}, 'mine');
};

subtest 'names, calculated columns' => sub {
	my $id = $one->create('contacts', { firstname => 'Ann', lastname => 'Lee', fullname => 'No' });
	is(row("contacts($id)")->{fullname}, 'Ann Lee');
	$one->patch("contacts($id)", { lastname => 'Bee' });
	is(row("contacts($id)")->{fullname}, 'Ann Bee');
	$id = $one->create('new_alltypeses', { new_name => 'c', new_integer => 21, new_calculated => 1 });
	is(row("new_alltypeses($id)")->{new_calculated}, 42, 'and given values are ignored');
};

subtest 'money' => sub {
	my $r = $one->post('new_alltypeses', '{"new_name":"m","new_money":12.5,"new_money4":0.12345}',
		Prefer => 'return=representation')->json;
	ok($r->{_transactioncurrencyid_value}, 'a currency');
	is($r->{exchangerate} + 0, 1);
	is($r->{new_money} + 0, 12.5);
	is($r->{new_money_base} + 0, 12.5);
	my $id = $one->create('new_alltypeses', { new_name => 'no money' });
	is(row("new_alltypeses($id)")->{exchangerate}, undef);
	is($one->patch("new_alltypeses($r->{new_alltypesid})", { new_money => undef })->status, 204);
	is(row("new_alltypeses($r->{new_alltypesid})")->{new_money_base}, undef);
};

subtest 'limits of values' => sub {
	my $post = sub { $one->post('new_alltypeses', "{\"new_name\":\"v\",$_[0]}") };
	refused($one->post('tasks', { subject => 'x' x 201 }), 400, '0x80044331',
		qr/^A validation error occurred\.  The length of the 'subject' attribute of the 'task' entity exceeded the maximum allowed length of '200'\.$/,
		'length');
	is($one->post('tasks', { subject => "\x{1F600}" x 100 })->status, 204, 'in UTF-16 units');
	is($one->post('tasks', { subject => "\x{1F600}" x 101 })->status, 400);
	is($post->('"new_percent":101')->json->{error}{code}, '0x8004432F');
	is($post->('"new_smalldecimal":1001')->json->{error}{code}, '0x80044330');
	is($post->('"new_choice":5')->json->{error}{code}, '0x8004431A');
	is($post->('"new_choices":"1,77"')->json->{error}{code}, '0x8004431A');
	is($post->('"new_datetime":"1752-12-31T00:00:00Z"')->json->{error}{code}, '0x80040239');
	is($post->('"new_integer":"5"')->json->{error}{code}, '0x80048d19');
	is($post->('"new_boolean":1')->status, 400);
	is($post->('"new_text":5')->status, 400);
	my $r = $one->post('new_alltypeses', '{"new_name":"e","new_text":""}',
		Prefer => 'return=representation')->json;
	is($r->{new_text}, undef, 'an empty text is null');
};

subtest 'text that is not valid XML' => sub {
	is($one->post('accounts', "{\"name\":\"a\\u0000b\"}")->status, 400);
	is($one->post('accounts', "{\"name\":\"a\\u0001b\"}")->status, 400);
	is($one->post('accounts', "{\"name\":\"a\xffb\"}")->status, 400);
};

subtest 'system columns are not written' => sub {
	my $id = $one->create('accounts', { name => 'x' });
	my $before = row("accounts($id)");
	is($one->patch("accounts($id)", { accountid => '33333333-0000-0000-0000-000000000001',
				modifiedon => '2001-01-01T00:00:00Z', 'createdby@odata.bind' => "/systemusers($you)" })->status,
		204);
	my $after = row("accounts($id)");
	is($after->{accountid}, $id);
	is($after->{_createdby_value}, $before->{_createdby_value});
	unlike($after->{modifiedon}, qr/^2001/);
};

subtest 'deletion and rows that refer to it' => sub {
	my $account = $one->create('accounts', { name => 'parent' });
	my $child = $one->create('accounts',
		{ name => 'child', 'parentaccountid@odata.bind' => "/accounts($account)" });
	my $contact = $one->create('contacts',
		{ lastname => 'c', 'parentcustomerid_account@odata.bind' => "/accounts($account)" });
	my $note = $one->create('annotations',
		{ subject => 'n', 'objectid_contact@odata.bind' => "/contacts($contact)" });
	my $meter = $one->create('new_meters', { new_name => 'm' });
	my $user = $one->create('new_alltypeses',
		{ new_name => 'u', 'new_MeterId@odata.bind' => "/new_meters($meter)" });
	is($one->delete("accounts($account)")->status, 204);
	is(row("accounts($child)")->{_parentaccountid_value}, undef, 'link removed');
	is($one->get("contacts($contact)")->status, 404, 'cascade');
	is($one->get("annotations($note)")->status, 404, 'and transitively');
	refused($one->delete("new_meters($meter)"), 405, '0x80040227', qr/associated with another object/,
		'restricted');
	is($one->get("new_meters($meter)")->status, 200);
	is($one->delete("new_alltypeses($user)")->status, 204);
	is($one->delete("new_meters($meter)")->status, 204);
};

done_testing;
