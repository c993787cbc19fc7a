# 017_canned.t
#		--canned: answers that are repeated until something changes; created
#		rows are checked and get their ids, but are not kept.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $guid = qr/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
my $type = 'Microsoft.Dynamics.CRM.account';
my $s = Dvsim->start('--canned');
my $plain = Dvsim->start();
my $r;

sub stats { return $s->control('GET', '/_dvsim/stats')->json; }
sub read_counted { return stats()->{users}{app1}{rows}{read} // 0; }

# ---------------------------------------------------------------- reading

is($s->control('POST', '/_dvsim/seed?table=account&rows=12')->status, 200, 'rows to read');
is($plain->control('POST', '/_dvsim/seed?table=account&rows=12')->status, 200, 'in both');
$r = $s->get('accounts?$select=name,revenue', Prefer => 'odata.maxpagesize=5');
my $again = $s->get('accounts?$select=name,revenue', Prefer => 'odata.maxpagesize=5');
is($again->body, $r->body, 'the same answer again');
is($again->header($_), $r->header($_), "the same $_")
  for 'Content-Type', 'Preference-Applied', 'OData-Version';
isnt($again->header('REQ_ID'), $r->header('REQ_ID'), 'but it is a new answer');
is(read_counted(), 10, 'whose rows are counted');
is(scalar @{ $again->json->{value} }, 5, 'a page');
my $usual = $plain->get('accounts?$select=name,revenue', Prefer => 'odata.maxpagesize=5');
is_deeply(
	[ map { $_->{name} } @{ $r->json->{value} } ],
	[ map { $_->{name} } @{ $usual->json->{value} } ],
	'with the same rows as without --canned');

my @names;
for (1 .. 2)
{
	my $page = $r;

	@names = ();
	while (1)
	{
		push @names, map { $_->{name} } @{ $page->json->{value} };
		my $next = $page->json->{'@odata.nextLink'} or last;
		$page = $s->get($next, Prefer => 'odata.maxpagesize=5');
	}
	is(scalar @names, 12, 'page after page');
}

# the answer depends on these
is(scalar @{ $s->get('accounts?$select=name,revenue', Prefer => 'odata.maxpagesize=4')->json->{value} },
	4, 'another preference, another answer');
is_deeply([ sort grep { !/^\@/ } keys %{ $s->get('accounts?$select=name')->json->{value}[0] } ],
	[ 'accountid', 'name' ], 'another target, another answer');
for (1 .. 2)
{
	$r = $s->get('accounts?$top=12', 'Accept-Encoding' => 'gzip');
	is($r->header('Content-Encoding'), 'gzip', 'compressed if requested');
	cmp_ok(length($r->body), '<', length($s->get('accounts?$top=12')->body), 'and only then');
}
is($s->get("accounts?\$filter=nonsense eq 1")->status, 400, 'errors') for 1 .. 2;
is($s->get('accounts', Authorization => 'Bearer nonsense')->status, 401, 'tokens are checked') for 1 .. 2;
is($s->get('accounts', Authorization => undef)->status, 401, 'including missing ones');

# changes that invalidate it
my $count = sub { return $s->get('accounts/$count')->body =~ /(\d+)$/ ? $1 : undef; };
my $row = $s->get('accounts?$top=1&$select=name')->json->{value}[0];
my $name = sub { return $s->get("accounts($row->{accountid})?\$select=name")->json->{name}; };
is($name->(), $row->{name}, 'a row') for 1 .. 2;
is($s->patch("accounts($row->{accountid})", { name => 'renamed' })->status, 204, 'is changed');
is($name->(), 'renamed', 'and read again') for 1 .. 2;
is($count->(), 12, 'a count') for 1 .. 2;
is($s->delete("accounts($row->{accountid})")->status, 204, 'a row less');
is($count->(), 11, 'counted again') for 1 .. 2;
$s->control('POST', '/_dvsim/seed?table=account&rows=4');
is($count->(), 15, 'more rows');
ok(!exists $s->get('accounts?$top=1')->json->{value}[0]{new_more}, 'columns') for 1 .. 2;
$s->change_schema({ change => 'add_column', table => 'account',
		definition => { name => 'new_More', type => 'string' } });
ok(exists $s->get('accounts?$top=1')->json->{value}[0]{new_more}, 'a new column');
my $label = sub
{
	return $s->get('accounts?$select=statuscode&$top=1', Prefer => 'odata.include-annotations="*"')
	  ->json->{value}[0]{'statuscode@OData.Community.Display.V1.FormattedValue'};
};
is($label->(), 'Active', 'a label') for 1 .. 2;
$s->change_schema({ change => 'add_option', table => 'account', column => 'statuscode', value => 1, state => 0,
		label => 'Alive' });
is($label->(), 'Alive', 'another label');
my $in = "accounts?\$filter=Microsoft.Dynamics.CRM.In(PropertyName='name',PropertyValues=['x'])";
is($s->get($in)->status, 200, 'a query function') for 1 .. 2;
$s->control('POST', '/_dvsim/quirks', ['no-in']);
isnt($s->get($in)->status, 200, 'a quirk');
$s->control('POST', '/_dvsim/quirks', []);
$s->control('POST', '/_dvsim/reset');
is($count->(), 0, 'a reset');

# ---------------------------------------------------------------- writing

sub create_multiple { return $s->post("accounts/Microsoft.Dynamics.CRM.CreateMultiple", { Targets => [@_] }); }

$r = create_multiple(map { +{ '@odata.type' => $type, name => "n$_", revenue => $_ + 0.25 } } 1 .. 5);
is($r->status, 200, 'CreateMultiple');
my @ids = @{ $r->json->{Ids} };
is(scalar(grep { /^$guid$/ } @ids), 5, 'has an id for each row');
is(scalar keys %{ { map { $_ => 1 } @ids } }, 5, 'a new one');
my $given = '11111111-2222-3333-4444-555555555555';
$r = create_multiple({ '@odata.type' => $type, accountid => $given, name => 'n' });
is_deeply($r->json->{Ids}, [$given], 'or the given one');
is(stats()->{users}{app1}{rows}{create}, 6, 'all are counted');
is(stats()->{tables}{account}, 0, 'and none is kept');
is($s->get("accounts($given)")->status, 404, 'nor found');
like($s->post('accounts', { name => 'single' })->header('OData-EntityId'), qr/accounts\($guid\)$/, 'a single row');
is($s->patch("accounts($given)", { name => 'upserted' })->status, 204, 'an upsert');
is($s->post('accounts', { name => 'single' }, Prefer => 'return=representation')->status, 501,
	'rows cannot be returned');
my $parts = join '', map { "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
	  . "POST /api/data/v9.2/accounts HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{\"name\":\"part $_\"}\r\n" } 1 .. 3;
$r = $s->post('$batch', "$parts--b--\r\n", 'Content-Type' => 'multipart/mixed; boundary=b');
is(scalar(() = $r->body =~ /OData-EntityId/g), 3, 'parts of a $batch');
is(stats()->{tables}{account}, 0, 'still none is kept');

# also rows within rows
is($s->post('accounts', { name => 'deep', primarycontactid => { lastname => 'one' } })->status, 204,
	'a row with the row that it refers to');
is($s->post('accounts', { name => 'deep', contact_customer_accounts => [ { lastname => 'two' } ] })->status, 501,
	'rows in collections are refused');
is($s->post('accounts', { name => 'deep', primarycontactid => { nonsense => 'one' } })->status, 400,
	'with something wrong in it');
is(stats()->{tables}{contact}, 0, 'keeps none of its rows');

# errors are refused as usual
my @wrong = (
	[ { name => 'no type' } ],
	[ { '@odata.type' => $type, nonsense => 1 } ],
	[ { '@odata.type' => $type, name => 'good' }, { '@odata.type' => $type, name => 'x' x 200 } ],
	[ { '@odata.type' => $type, revenue => 'much' } ],
	[ { '@odata.type' => $type, accountid => 'nonsense' } ],
	[ { '@odata.type' => $type, 'parentaccountid@odata.bind' => "/accounts($given)" } ],
	[ { '@odata.type' => 'Microsoft.Dynamics.CRM.contact', lastname => 'x' } ],
	[]);
for my $targets (@wrong)
{
	my $body = { Targets => $targets };
	my ($one, $other) = map { $_->post('accounts/Microsoft.Dynamics.CRM.CreateMultiple', $body) } $s, $plain;

	cmp_ok($one->status, '>=', 400, 'refused');
	is($one->status, $other->status, 'with the usual status');
	is($one->error_code, $other->error_code, 'code');
	is($one->error_message, $other->error_message, 'and message');
}
is($s->post('accounts/Microsoft.Dynamics.CRM.CreateMultiple', '{"Targets":[')->status, 400, 'no JSON');

# elastic rows
my $reading = 'Microsoft.Dynamics.CRM.new_reading';
$r = $s->post('new_readings', { new_name => 'single' });
is($r->status, 204, 'a row of an elastic table');
ok($r->header('x-ms-session-token'), 'has a token of consistency');
$r = $s->post('new_readings/Microsoft.Dynamics.CRM.CreateMultiple',
	{ Targets => [ map { +{ '@odata.type' => $reading, new_name => "n$_" } } 1 .. 3 ] });
is(scalar @{ $r->json->{Ids} }, 3, 'CreateMultiple of elastic rows');
$r = $s->post('new_readings/Microsoft.Dynamics.CRM.UpsertMultiple',
	{ Targets => [ { '@odata.type' => $reading, new_readingid => $given, new_name => 'upserted' } ] });
is($r->status, 204, 'and UpsertMultiple');
is(stats()->{tables}{new_reading}, 0, 'none of them is kept');

# rows that expire: this is not detected, so the second answer is the first one
my $fast = Dvsim->start('--canned', '--time-scale', 500);
$fast->control('POST', '/_dvsim/seed?table=new_reading&rows=1');
$row = $fast->get('new_readings?$select=partitionid')->json->{value}[0];
is($fast->post('new_readings/Microsoft.Dynamics.CRM.UpdateMultiple',
		{ Targets => [ { '@odata.type' => $reading, new_readingid => $row->{new_readingid},
				partitionid => $row->{partitionid}, new_name => 'short', ttlinseconds => 1000 } ] })->status,
	204, 'a row that expires');
$fast->get('new_readings?$select=new_name');
sleep 3;
is(scalar @{ $fast->get('new_readings?$select=new_name')->json->{value} }, 1, 'repeated');
is(scalar @{ $fast->get('new_readings?$select=new_name,new_value')->json->{value} }, 0, 'although it has expired');
$fast->control('POST', '/_dvsim/clock', { advance => '1s' });
is(scalar @{ $fast->get('new_readings?$select=new_name')->json->{value} }, 0, 'an advance of the clock is detected');

# ---------------------------------------------------------------- limits, faults, files

$r = $s->control('POST', '/_dvsim/faults', [ { status => 503 } ]);
is($r->status, 400, 'no faults');
like($r->body, qr/dvsim --canned has no faults/, 'and the reason');
is_deeply($s->control('GET', '/_dvsim/faults')->json, [], 'none at all');
my $limited = Dvsim->start('--canned', '--limit-requests', 3);
is($limited->get('accounts?$top=1')->status, 200, 'admitted') for 1 .. 3;
is($limited->get('accounts?$top=1')->status, 429, 'limits apply to repeated answers');

my $program = Dvsim::program();
my $refusal = qx("$program" --canned --data /nonexistent/file 2>&1);
isnt($?, 0, 'no file');
like($refusal, qr/--canned keeps no rows, so it cannot be used with --data/, 'and the reason');

ok($_->stop, 'dvsim ends cleanly') for $s, $plain, $fast, $limited;
done_testing;
