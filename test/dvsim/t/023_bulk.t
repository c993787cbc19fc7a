# 023_bulk.t
#		CreateMultiple, UpdateMultiple and UpsertMultiple on standard tables:
#		all or nothing, order of ids, duplicates, refusals.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 23);
my $root = $s->base . '/api/data/v9.2/';
my $guid = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
my $none = '11111111-0000-0000-0000-000000000001';

sub id { return sprintf '22222222-0000-0000-0000-%012d', $_[0]; }

sub bulk
{
	my ($set, $type, $message, $rows, %headers) = @_;
	return $s->post("$set/Microsoft.Dynamics.CRM.$message",
		{ Targets => [ map { { '@odata.type' => "Microsoft.Dynamics.CRM.$type", %$_ } } @$rows ] },
		%headers);
}

sub accounts { return bulk('accounts', 'account', @_); }
sub meters { return bulk('new_meters', 'new_meter', @_); }
sub count { my ($set) = @_; return $s->get("$set/\$count")->body =~ s/\D//gr; }
sub account { return $s->get('accounts(' . $_[0] . ')')->json; }
sub meter { return $s->get("new_meters(new_serial='$_[0]')")->json; }

sub refused
{
	my ($r, $status, $code, $message, $name) = @_;
	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
}

subtest 'CreateMultiple' => sub {
	my $r = accounts('CreateMultiple', [ map { { name => "n$_" } } 1 .. 250 ]);
	is($r->status, 200);
	is($r->header('Content-Type'), 'application/json; odata.metadata=minimal');
	is($r->json->{'@odata.context'},
		"${root}\$metadata#Microsoft.Dynamics.CRM.CreateMultipleResponse");
	my $ids = $r->json->{Ids};
	is(scalar @$ids, 250);
	is(account($ids->[0])->{name}, 'n1');
	is(account($ids->[249])->{name}, 'n250', 'ids are in the order of Targets');
	my %seen = map { $_ => 1 } @$ids;
	is(scalar keys %seen, 250);

	$r = accounts('CreateMultiple', [
			{ name => 'own', accountid => id(1) },
			{ telephone1 => '5', 'primarycontactid' => undef },
			{ revenue => 7.5 },
			{ name => 'again', accountid => id(2) } ]);
	is($r->status, 200, 'each target may have other columns');
	is($r->json->{Ids}[0], id(1));
	is($r->json->{Ids}[3], id(2));
	is(account($r->json->{Ids}[1])->{telephone1}, '5');
	is(account($r->json->{Ids}[1])->{revenue}, undef);
	is(account($r->json->{Ids}[2])->{revenue} + 0, 7.5);
	is(account(id(2))->{name}, 'again', 'the same columns as the first');
};

subtest 'more shapes than are cached' => sub {
	my @columns = qw(name telephone1 fax websiteurl emailaddress1 accountnumber);
	my @rows = map {
		my $n = $_;
		+{ map { $columns[$_] => "v$n" } grep { $n >> $_ & 1 } 0 .. $#columns }
	} 1 .. 63;
	my $ids = accounts('CreateMultiple', [ @rows, reverse @rows ])->json->{Ids};
	is(scalar @$ids, 126);
	is(account($ids->[62])->{fax}, 'v63');
	is(account($ids->[0])->{fax}, undef);
	is(account($ids->[0])->{name}, 'v1');
	is(account($ids->[125])->{name}, 'v1');
	is(account($ids->[125])->{telephone1}, undef);
};

subtest 'lookups and owners in bulk' => sub {
	my $a = $s->create('accounts', { name => 'A' });
	my $b = $s->create('accounts', { name => 'B' });
	my @rows = map { { name => "c$_", 'parentaccountid@odata.bind' => '/accounts(' . ($_ % 3 ? $a : $b) . ')' } }
	  1 .. 9;
	my $ids = accounts('CreateMultiple', \@rows)->json->{Ids};
	is(account($ids->[0])->{_parentaccountid_value}, $a);
	is(account($ids->[2])->{_parentaccountid_value}, $b);
	is(account($ids->[3])->{_parentaccountid_value}, $a);
	push @rows, { name => 'bad', 'parentaccountid@odata.bind' => "/accounts($none)" };
	refused(accounts('CreateMultiple', \@rows), 404, '0x80040217', qr/$none/, 'no such row');
};

subtest 'all or nothing' => sub {
	my $before = count('accounts');
	refused(accounts('CreateMultiple', [ { name => 'x' }, { name => 'y', accountid => id(1) } ]),
		412, '0x80040237', qr/^Cannot insert duplicate key$/, 'existing id');
	refused(accounts('CreateMultiple',
			[ { name => 'x', accountid => id(70) }, { name => 'y', accountid => id(70) } ]),
		412, '0x80040237', qr/^Cannot insert duplicate key$/, 'same id twice');
	refused(accounts('CreateMultiple', [ { name => 'x' }, { nonsense => 1 } ]),
		400, '0x80048d19', qr/Invalid property 'nonsense'/, 'unknown column');
	refused(bulk('tasks', 'task', 'CreateMultiple', [ { subject => 'x' } ]),
		404, '0x80060888', qr/CreateMultiple/, 'a table without it');
	refused(meters('CreateMultiple', [ { new_serial => 'D' }, { new_serial => 'd' } ]),
		412, '0x80060892', qr/^Entity Key new_SerialKey violated/, 'alternate key');
	is(count('accounts'), $before, 'no row remains');
	is(count('new_meters'), '0');
};

subtest 'form of the request' => sub {
	my $url = 'accounts/Microsoft.Dynamics.CRM.CreateMultiple';
	refused($s->post($url, { Targets => [ { name => 'x' } ] }), 400, '0x80048d19',
		qr/\@odata\.type/, 'no type');
	refused(bulk('accounts', 'contact', 'CreateMultiple', [ {} ]), 400, '0x80048d19',
		qr/not assignable/, 'another table');
	refused(bulk('accounts', 'nothing', 'CreateMultiple', [ {} ]), 400, '0x80048d19', qr/./,
		'no such type');
	is($s->post($url, { Targets => [] })->status, 400);
	is($s->post($url, { Targets => {} })->status, 400);
	is($s->post($url, { Targets => ['x'] })->status, 400);
	is($s->post($url, {})->status, 400);
	is($s->post($url, { Targets => [], Other => 1 })->status, 400);
	is($s->get($url)->status, 404) or diag 'GET of an action';
	refused($s->post('accounts/CreateMultiple', { Targets => [] }), 400, '0x80060888',
		qr/^Request message has unresolved parameters\.$/, 'without the namespace');
	refused($s->post('accounts/Microsoft.Dynamics.CRM.Nothing', {}), 404, '0x80060888',
		qr/segment 'Microsoft\.Dynamics\.CRM\.Nothing'/, 'no such message');
	refused(accounts('DeleteMultiple', [ { accountid => id(1) } ]), 400, '0x80040216',
		qr/^DeleteMultiple has not yet been implemented\.$/, 'DeleteMultiple');
};

subtest 'UpdateMultiple' => sub {
	accounts('CreateMultiple', [ map { { accountid => id($_), name => "u$_" } } 80 .. 83 ]);
	my $r = accounts('UpdateMultiple',
		[ map { { accountid => id($_), telephone1 => "t$_" } } 80 .. 83 ]);
	is($r->status, 204);
	is($r->body, '');
	is(account(id(83))->{telephone1}, 't83');
	is(account(id(83))->{name}, 'u83');
	my $updated = sub { $s->control('GET', '/_dvsim/stats')->json->{users}{app1}{rows}{update} };
	my $before = $updated->();
	$r = accounts('UpdateMultiple', [
			{ accountid => id(80), name => 'first' }, { accountid => id(80), name => 'second' },
			{ accountid => id(81), name => 'other' } ]);
	is($r->status, 204, 'duplicates are no error');
	is($updated->() - $before, 2, 'but count once');
	is(account(id(80))->{name}, 'first', 'only the first is applied');
	is(account(id(81))->{name}, 'other');
	refused(accounts('UpdateMultiple',
			[ { accountid => id(82), name => 'no' }, { accountid => $none, name => 'no' } ]),
		404, '0x80040217', qr/^Account With Ids = $none Do Not Exist$/, 'a missing row');
	is(account(id(82))->{name}, 'u82', 'and nothing was changed');
	is(accounts('UpdateMultiple', [ { name => 'no id' } ])->status, 400);
	is(meters('UpdateMultiple', [ { '@odata.id' => "new_meters(new_serial='x')" } ])->status, 400,
		'no alternate keys in this message');
	is(accounts('UpdateMultiple', [ { accountid => id(82), statecode => 1 } ])->status, 204);
	is(account(id(82))->{statuscode}, 2, 'state rules apply');
};

subtest 'UpsertMultiple' => sub {
	accounts('CreateMultiple', [ { accountid => id(90), name => 'old', telephone1 => '1' } ]);
	my $r = accounts('UpsertMultiple',
		[ { accountid => id(90), name => 'changed' }, { accountid => id(91), name => 'new' } ]);
	is($r->status, 204);
	is($r->body, '');
	is(account(id(90))->{name}, 'changed');
	is(account(id(90))->{telephone1}, '1', 'the rest is unchanged');
	is(account(id(91))->{name}, 'new');

	for my $form ("new_meters(new_serial='K1')", "/api/data/v9.2/new_meters(new_serial='K2')",
		"${root}new_meters(new_serial='K3')")
	{
		is(meters('UpsertMultiple', [ { '@odata.id' => $form, new_name => 'made' } ])->status, 204,
			$form);
		is(meters('UpsertMultiple', [ { '@odata.id' => $form, new_number => 5 } ])->status, 204);
	}
	is(meter("K$_")->{new_name}, 'made') for 1 .. 3;
	is(meter('K3')->{new_number}, 5, 'the second request found it');
	is(count('new_meters'), '3');
	refused(accounts('UpsertMultiple', [ map { { accountid => id(92), name => $_ } } qw(a b) ]),
		412, '0x80040237', qr/duplicate/, 'the same id twice');
	is($s->get('accounts(' . id(92) . ')')->status, 404, 'and no row was created');
	is(meters('UpsertMultiple', [ map { { '@odata.id' => "new_meters(new_serial='K9')",
						new_name => $_ } } qw(a b) ])->status, 412, 'the same key twice');
	is($s->get("new_meters(new_serial='K9')")->status, 404);
	is(accounts('UpsertMultiple', [ { '@odata.id' => "new_meters(new_serial='K1')" } ])->status, 400,
		'a row of another table');
};

sub upsert_by
{
	my ($serial, %members) = @_;
	return meters('UpsertMultiple', [ { '@odata.id' => "new_meters(new_serial='$serial')", %members } ]);
}

sub serials
{
	my ($name) = @_;
	my $rows = $s->get("new_meters?\$select=new_serial&\$filter=new_name eq '$name'")->json->{value};
	return join '|', sort map { $_->{new_serial} } @$rows;
}

subtest 'keys in bodies are literal' => sub {
	is(upsert_by('A%23000143', new_name => 'literal')->status, 204);
	is(serials('literal'), 'A%23000143', 'percent-encoding is not decoded');
	is(upsert_by('A%23000143', new_name => 'literal', new_number => 3)->status, 204);
	is(serials('literal'), 'A%23000143', '… whether a row is created or found');
	my $i = 0;
	for my $serial ('a b', "\x{e4}\x{20ac}", "it''s", 'say "x"', 'a%20b', "a\tb", 'a,b)=c(')
	{
		my $name = 'n' . ++$i;
		is(upsert_by($serial, new_name => $name)->status, 204, 'made') for 1 .. 2;
		is(serials($name), $serial =~ s/''/'/gr, 'once, as it was written');
	}
	refused(upsert_by('A#000143', new_name => 'none'), 400, '0x80060888',
		qr/^Bad Request - Error in query syntax\.$/, 'except the start of a fragment');
};

# an existing row keeps its key, whatever the body says
subtest 'key columns beside a key' => sub {
	refused(upsert_by('R1', new_serial => 'R1', new_name => 'r'), 400, '0x80040216',
		qr/^An unexpected error occurred\.$/, 'not for a new row');
	is($s->get("new_meters(new_serial='R1')")->status, 404, 'which is not created');
	is(upsert_by('R1', new_name => 'r')->status, 204);
	is(upsert_by('R1', new_serial => 'R2', new_name => 'r2')->status, 204, 'a row that exists');
	is(meter('R1')->{new_name}, 'r2');
	is($s->get("new_meters(new_serial='R2')")->status, 404);
	accounts('CreateMultiple', [ { accountid => id(95), name => 'site' } ]);
	my $site = "new_meters(_new_accountid_value=" . id(95) . ",new_number=1)";
	refused(meters('UpsertMultiple', [ { '@odata.id' => $site,
			'new_AccountId@odata.bind' => '/accounts(' . id(95) . ')' } ]), 400, '0x80040216',
		qr/./, 'nor the lookup of a key');
	is(meters('UpsertMultiple', [ { '@odata.id' => $site } ])->status, 204);
};

subtest 'messages that a table does not support' => sub {
	my %way = (
		tasks => [ task => 404, '0x80060888', qr/^Resource not found for the segment 'Microsoft\.Dynamics\.CRM\.CreateMultiple'/ ],
		teams => [ team => 400, '0x80040216', qr/^CreateMultiple is not enabled on the entity team$/ ],
		phonecalls => [ phonecall => 405, '0x80040800', qr/^The 'CreateMultiple' method does not support entities of type 'phonecall'/ ],
		annotations => [ annotation => 404, '', qr/^No HTTP resource was found/ ]);

	for my $set (sort keys %way)
	{
		my ($table, @refusal) = @{ $way{$set} };
		refused(bulk($set, $table, 'CreateMultiple', [ {} ]), @refusal, $set);
	}
	$s->quirks('bulk-disabled');
	refused(accounts('CreateMultiple', [ { name => 'x' } ]), 400, '0x80048d2d',
		qr/^CreateMultiple API is disabled for Organization with ID [-0-9a-f]{36}\.$/, 'disabled');
	$s->quirks();
};

subtest 'images of new rows' => sub {
	my $bytes = 'iVBORw==';
	my $r = $s->post('new_alltypeses', { new_name => 'p', new_image => $bytes, new_picture => undef });
	is($r->status, 204, 'the primary image');
	refused($s->post('new_alltypeses', { new_name => 'p', new_picture => $bytes }), 400, '0x80090487',
		qr/^Non-primary image attribute new_picture of entity new_alltypes is not allowed to upload during Create operation\.$/,
		'another one');
	refused(bulk('new_alltypeses', 'new_alltypes', 'CreateMultiple', [ { new_name => 'p', new_picture => $bytes } ]),
		400, '0x80090487', qr/new_picture/, 'in bulk');
	my ($id) = $r->header('OData-EntityId') =~ /\(([-0-9a-f]{36})\)/;
	is($s->patch("new_alltypeses($id)", { new_picture => $bytes }, 'If-Match' => '*')->status, 204, 'in an update');
};

done_testing;
