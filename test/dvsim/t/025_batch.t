# 025_batch.t
#		$batch: parts, change sets, references between them, errors, limits,
#		and the exact form of the answer.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 25);
my $path = '/api/data/v9.2/';
my $root = $s->base . $path;
my $guid = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
my $none = '11111111-0000-0000-0000-000000000001';
our $eol = "\r\n";
my %go_on = (Prefer => 'odata.continue-on-error');

sub id { return sprintf '22222222-0000-0000-0000-%012d', $_[0]; }

sub request
{
	my ($method, $url, $body, %headers) = @_;
	my $text = "$method $url HTTP/1.1$eol";

	$text .= "Content-Type: application/json; type=entry$eol" if defined $body;
	$text .= "$_: $headers{$_}$eol" for sort keys %headers;
	return $text . $eol . ($body // '') . $eol;
}

sub part
{
	my ($boundary, $request, $content_id) = @_;
	return "--$boundary${eol}Content-Type: application/http${eol}Content-Transfer-Encoding: binary$eol"
	  . (defined $content_id ? "Content-ID: $content_id$eol" : '') . $eol . $request;
}

# a change set of requests numbered from 1, or of [id, request]
sub changeset
{
	my @requests = @_;
	my $n = 0;
	return "--b1${eol}Content-Type: multipart/mixed; boundary=\"c1\"$eol$eol"
	  . join('', map { ref $_ ? part('c1', $_->[1], $_->[0]) : part('c1', $_, ++$n) } @requests)
	  . "--c1--$eol$eol";
}

sub send_batch
{
	my ($text, %headers) = @_;
	return $s->post('$batch', "$text--b1--$eol",
		'Content-Type' => 'multipart/mixed; boundary="b1"', %headers);
}

sub parts { return send_batch(join '', map { part('b1', $_) } @_); }

sub statuses
{
	my ($r) = @_;
	return join ' ', $r->status, ($r->body // '') =~ m{^HTTP/1\.1 (\d+)}mg;
}

sub name { my $r = $s->get('accounts(' . id($_[0]) . ')'); return $r->status == 200 ? $r->json->{name} : undef; }

subtest 'shape of the answer' => sub {
	my $r = send_batch(
		changeset(request('POST', "${path}accounts", '{"name":"a"}'))
		  . part('b1', request('GET', "${path}accounts?\$select=name&\$top=1")));
	is($r->status, 200);
	like($r->header('Content-Type'), qr/^multipart\/mixed; boundary=batchresponse_$guid$/);
	my ($boundary) = $r->header('Content-Type') =~ /=(.*)/;
	my $body = $r->body;
	my $text = qr/^--$boundary\r
Content-Type: multipart\/mixed; boundary=(changesetresponse_$guid)\r
\r
--\1\r
Content-Type: application\/http\r
Content-Transfer-Encoding: binary\r
Content-ID: 1\r
\r
HTTP\/1\.1 204 No Content\r
OData-Version: 4\.0\r
Location: \Q${root}\Eaccounts\($guid\)\r
OData-EntityId: \Q${root}\Eaccounts\($guid\)\r
\r
\r
--\1--\r
--$boundary\r
Content-Type: application\/http\r
Content-Transfer-Encoding: binary\r
\r
HTTP\/1\.1 200 OK\r
Content-Type: application\/json; odata\.metadata=minimal; odata\.streaming=true\r
OData-Version: 4\.0\r
\r
\{"\@odata\.context":.*"value":\[.*\]\}\r
--$boundary--\r
$/;
	like($body, $text);
};

subtest 'kinds of parts' => sub {
	my $id = id(1);
	my $r = parts(
		request('PATCH', "${path}accounts($id)", '{"name":"p"}'),
		request('GET', "${root}accounts($id)?\$select=name"),
		request('GET', "accounts?\$filter=name eq 'p' and accountid eq $id"),
		request('GET', "${path}accounts/\$count"),
		request('GET', "${path}WhoAmI"),
		request('POST', "${path}accounts/Microsoft.Dynamics.CRM.CreateMultiple",
			'{"Targets":[{"@odata.type":"Microsoft.Dynamics.CRM.account","name":"bulk"}]}'),
		request('PUT', "${path}accounts($id)/telephone1", '{"value":"5"}'),
		request('POST', "${path}accounts?\$select=name", '{"name":"rep"}',
			Prefer => 'return=representation'),
		request('DELETE', "${path}accounts($id)"));
	is(statuses($r), '200 204 200 200 200 200 200 204 201 204');
	like($r->body, qr/"name":"p"/);
	like($r->body, qr/Content-Type: text\/plain/);
	like($r->body, qr/"Ids":\["$guid"\]/);
	like($r->body, qr/Preference-Applied: return=representation/);
};

subtest 'headers apply only to their part' => sub {
	my $r = send_batch(part('b1', request('POST', "${path}accounts?\$select=name", '{"name":"x"}')),
		Prefer => 'return=representation');
	is(statuses($r), '200 204', 'outer preferences do not apply to the parts');
	my $etag = 'W/"1"';
	$s->patch('accounts(' . id(2) . ')', { name => 'v' });
	$r = parts(request('PATCH', "${path}accounts(" . id(2) . ')', '{"name":"w"}', 'If-Match' => $etag));
	is(statuses($r), '412 412', 'conditions of a part');
	is(name(2), 'v');
};

subtest 'etags of parts' => sub {
	my $url = sub { return "${path}accounts(" . id($_[0]) . ')'; };
	my $etag_of = sub { return $s->get('accounts(' . id($_[0]) . ')?$select=name')->json->{'@odata.etag'}; };
	my (%etag, $r);

	$s->patch('accounts(' . id($_) . ')', { name => "e$_" }) for 80 .. 86;
	$etag{$_} = $etag_of->($_) for 80 .. 86;
	$s->patch('accounts(' . id($_) . ')', { name => 'theirs' }) for 81, 84, 86;

	my @changes = map { part('b1', $_) }
	  (map { request('PATCH', $url->($_), '{"name":"ours"}', 'If-Match' => $etag{$_}) } 80, 81, 82),
	  (map { request('DELETE', $url->($_), undef, 'If-Match' => $etag{$_}) } 83, 84),
	  request('PATCH', "${path}accounts($none)", '{"name":"x"}', 'If-Match' => $etag{80}),
	  request('PATCH', $url->(85), '{"name":"ours"}', 'If-Match' => $etag{85});
	$r = send_batch(join('', @changes), %go_on);
	is(statuses($r), '200 204 412 204 204 412 404 204', 'each part has its own condition');
	is(() = $r->body =~ /"code":"0x80060882"/g, 2, 'and its own error');
	is(join(' ', map { name($_) } 80, 81, 82, 84, 85), 'ours theirs ours theirs ours', 'changed rows are not written');
	is($s->get('accounts(' . id(83) . ')')->status, 404, 'deleted');

	# the version created by an earlier part is the current one
	my $stale = $etag_of->(80);
	$r = parts(request('PATCH', $url->(80), '{"name":"one"}', 'If-Match' => $stale),
		request('PATCH', $url->(80), '{"name":"two"}', 'If-Match' => $stale));
	is(statuses($r), '412 204 412', 'a row twice');
	is(name(80), 'one', 'the first one wins');

	$r = send_batch(changeset(request('PATCH', $url->(82), '{"name":"set"}', 'If-Match' => $etag_of->(82)),
			request('PATCH', $url->(86), '{"name":"set"}', 'If-Match' => $etag{86})), %go_on);
	is(statuses($r), '200 412', 'a change set fails as a whole');
	is(name(82), 'ours', 'and changes nothing');

	my $currency = $s->get('transactioncurrencies?$select=currencyname')->json->{value}[0]{transactioncurrencyid};
	$r = parts(request('PATCH', "${path}transactioncurrencies($currency)", '{"currencyname":"u"}', 'If-Match' => 'W/"1"'));
	like($r->body, qr/"code":"0x8006088D"/, 'a table without optimistic concurrency');
	is($s->get("EntityDefinitions(LogicalName='$_->[0]')?\$select=IsOptimisticConcurrencyEnabled")->json
		->{IsOptimisticConcurrencyEnabled} ? 1 : 0, $_->[1], "the definition of $_->[0] agrees") for [ 'account', 1 ], [ 'transactioncurrency', 0 ];
};

subtest 'change sets' => sub {
	my $r = send_batch(changeset(
			request('POST', "${path}accounts", '{"name":"Parent","accountid":"' . id(10) . '"}'),
			request('POST', "${path}contacts",
				'{"lastname":"Child","contactid":"' . id(11) . '","parentcustomerid_account@odata.bind":"$1"}'),
			request('PATCH', '$1', '{"telephone1":"5"}'),
			request('PUT', '$1/fax', '{"value":"6"}'),
			request('PUT', "\$1/primarycontactid/\$ref", '{"@odata.id":"$2"}'),
			request('PATCH', "${path}\$2", '{"firstname":"C"}')));
	is(statuses($r), '200 204 204 204 204 204 204') or diag $r->body;
	my $row = $s->get('accounts(' . id(10) . ')')->json;
	is("$row->{telephone1} $row->{fax}", '5 6');
	is($row->{_primarycontactid_value}, id(11));
	is($s->get('contacts(' . id(11) . ')')->json->{_parentcustomerid_value}, id(10));
	is($s->get('contacts(' . id(11) . ')')->json->{fullname}, 'C Child');
	my @located = $r->body =~ /^(Content-ID: \d+|Location: \S+)/mg;
	is(scalar(grep { /^Content-ID/ } @located), 6, 'each part has its Content-ID');
	is(scalar(grep { /^Location/ } @located), 4, 'those that write rows have their location');
};

subtest 'all or nothing' => sub {
	my $r = send_batch(
		changeset([ 7, request('POST', "${path}accounts", '{"name":"x","accountid":"' . id(20) . '"}') ],
			[ 8, request('POST', "${path}accounts", '{"nonsense":1}') ],
			[ 9, request('POST', "${path}accounts", '{"name":"y"}') ]));
	is(statuses($r), '400 400', 'only the failure is answered');
	like($r->body, qr/Content-ID: 8\r/);
	unlike($r->body, qr/Content-ID: [79]\r/);
	like($r->body, qr/\r\nREQ_ID: $guid\r\n/);
	like($r->body, qr/"code":"0x80048d19"/);
	is(name(20), undef);

	$r = send_batch(
		part('b1', request('PATCH', "${path}accounts(" . id(21) . ')', '{"name":"before"}'))
		  . changeset(request('PATCH', "${path}accounts(" . id(22) . ')', '{"name":"in"}'),
			request('DELETE', "${path}accounts($none)"))
		  . part('b1', request('PATCH', "${path}accounts(" . id(23) . ')', '{"name":"after"}')),
		%go_on);
	is(statuses($r), '200 204 404 204');
	is_deeply([ map { name($_) } 21 .. 23 ], [ 'before', undef, 'after' ]);
};

subtest 'references' => sub {
	my $r = send_batch(changeset(
			[ 2, request('POST', "${path}contacts", '{"lastname":"x","parentcustomerid_account@odata.bind":"$1"}') ],
			[ 1, request('POST', "${path}accounts", '{"name":"late"}') ]));
	is(statuses($r), '400 400');
	like($r->body, qr/Content-ID Reference: '\$1' does not exist in the batch context\./);
	$r = send_batch(changeset(request('POST', "${path}accounts", '{"name":"x"}'))
		  . changeset([ 5, request('PATCH', '$1', '{"name":"y"}') ]));
	is(statuses($r), '400 204 400', 'not beyond the change set');
	$r = send_batch(changeset([ 'first', request('POST', "${path}accounts", '{"name":"n"}',
					Prefer => 'return=representation') ],
			[ 'second', request('PATCH', '$first', '{"name":"m"}') ]));
	is(statuses($r), '200 201 204', 'ids need not be numbers, nor the status 204');
};

subtest 'errors' => sub {
	my @three = (
		request('PATCH', "${path}accounts(" . id(30) . ')', '{"name":"one"}'),
		request('GET', "${path}accounts($none)"),
		request('PATCH', "${path}accounts(" . id(31) . ')', '{"name":"three"}'));
	my $r = parts(@three);
	is(statuses($r), '404 204 404', 'the first failure ends it and determines the status');
	like($r->header('Content-Type'), qr/^multipart\/mixed/);
	like($r->body, qr/--batchresponse_$guid--\r\n$/);
	is(name(30), 'one', 'earlier parts are kept');
	is(name(31), undef);
	$r = send_batch(join('', map { part('b1', $_) } @three), %go_on);
	is(statuses($r), '200 204 404 204');
	is($r->header('Preference-Applied'), 'odata.continue-on-error');
	is(name(31), 'three');
	is(statuses(parts(request('GET', "${path}nothings"))), '404 404');
	is(statuses(parts(request('GET', '/elsewhere'))), '404 404');
	is(statuses(parts(request('TRACE', "${path}accounts"))), '405 405');
	is(statuses(parts(request('POST', "${path}\$batch", 'x'))), '400 400', 'no batch in a batch');
	is(statuses(parts(request('POST', "${path}accounts", '{"name":'))), '400 400');
};

subtest 'rejected as a whole' => sub {
	my $whole = sub {
		my ($text, %headers) = @_;
		my $r = $s->post('$batch', $text, 'Content-Type' => 'multipart/mixed; boundary=b1', %headers);
		like($r->header('Content-Type'), qr/^application\/json/);
		return $r->status . ' ' . $r->json->{error}{code};
	};
	my $get = part('b1', request('GET', "${path}accounts"));

	is($whole->("$get--b1--", 'Content-Type' => 'application/json'), '400 0x80060888');
	is($whole->("$get--b1--", 'Content-Type' => 'multipart/mixed'), '400 0x80060888');
	is($whole->($get), '400 0x80048d19', 'no closing delimiter');
	like($s->post('$batch', $get, 'Content-Type' => 'multipart/mixed; boundary=b1')->json->{error}{message},
		qr/^Error identified in Payload.*Stream was not readable\.$/);
	is($whole->(part('b1', "GET ${path}accounts HTTP/1.1$eol") . "--b1--"), '400 0x80048d19',
		'no empty line after the request line');
	is($whole->(part('b1', "GET ${path}accounts HTTP/1.1${eol}Accept: application/json$eol") . "--b1--"),
		'400 0x80048d19', 'nor after the headers');
	is($whole->(part('b1', "DELETE ${path}accounts(" . id(30) . ") HTTP/1.1") . "--b1--"),
		'400 0x80048d19', 'no line end at all');
	is($whole->(part('b1', '') . "--b1--"), '400 0x80048d19', 'not a request');
	is($whole->(changeset(request('GET', "${path}accounts")) . "--b1--"), '400 0x80060888',
		'no GET in a change set');
	is($whole->(changeset([ 1, request('POST', "${path}accounts", '{}') ],
				[ 1, request('POST', "${path}accounts", '{}') ]) . '--b1--'), '400 0x80060888',
		'a Content-ID twice');
	like($s->post('$batch', changeset([ 1, request('POST', "${path}accounts", '{}') ],
				[ 1, request('POST', "${path}accounts", '{}') ]) . '--b1--',
			'Content-Type' => 'multipart/mixed; boundary=b1')->json->{error}{message},
		qr/content ID '1' was found more than once/, 'with its message');
	is($s->get('$batch')->status, 405);
};

subtest 'another boundary' => sub {
	my $before = $s->get('accounts/$count')->body;
	my $r = $s->post('$batch', part('other', request('POST', "${path}accounts", '{"name":"x"}')) . '--other--',
		'Content-Type' => 'multipart/mixed; boundary=b1');
	is($r->status, 200);
	like($r->body, qr/^--batchresponse_$guid--\r\n$/);
	is($s->get('accounts/$count')->body, $before, 'nothing was written');
};

subtest 'limits' => sub {
	my $one = part('b1', request('GET', "${path}accounts?\$select=name&\$top=1"));
	my $r = send_batch($one x 1000);
	is($r->status, 200);
	is(scalar(() = $r->body =~ m{^HTTP/1\.1 200}mg), 1000);
	is(send_batch($one x 1001)->status, 400);
	my $long = "${path}accounts?\$filter=name eq '" . 'x' x 40000 . "'";
	is(statuses(parts(request('GET', $long))), '200 200', 'a long URL');
	is(statuses(parts(request('GET', "${path}accounts?\$filter=name eq '" . 'x' x 66000 . "'"))),
		'400 400', 'too long');
};

subtest 'line feeds only' => sub {
	local $eol = "\n";
	my $r = send_batch(changeset(request('POST', "${path}accounts", '{"name":"lf","accountid":"' . id(60) . '"}'))
		  . part('b1', request('GET', "${path}accounts(" . id(60) . ')?$select=name')));
	is(statuses($r), '200 204 200');
	is(name(60), 'lf');
};

subtest 'faults in parts' => sub {
	$s->control('POST', '/_dvsim/faults',
		[ { path => '$batch', batch_part => 2, status => 429, code => '0x80072322', message => 'slow',
				retry_after => 7 } ]);
	my @two = map { request('PATCH', "${path}accounts(" . id($_) . ')', '{"name":"f"}') } 70, 71;
	my $r = send_batch(join('', map { part('b1', $_) } @two), %go_on);
	is(statuses($r), '200 204 429');
	like($r->body, qr/Retry-After: 7\r/);
	is(name(70), 'f');
	is(name(71), undef, 'a part that fails was not run');
	is(statuses(parts(@two)), '200 204 204', 'the rule is spent');
};

subtest 'an environment that accepts fewer parts' => sub {
	my $one = part('b1', request('GET', "${path}accounts?\$select=name&\$top=1"));

	$s->quirks('batch-250');
	is(send_batch($one x 250)->status, 200, '250 parts');
	my $r = send_batch($one x 251);
	is($r->status, 400, '251 parts');
	like($r->error_message, qr/contains too many parts\. A maximum number of '250'/, 'its message');
	$s->quirks();
};

done_testing;
