# 011_headers.t
#		URLs, headers of requests and answers, error bodies, and tolerances
#		except those of $batch and FetchXML.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use IO::Uncompress::Gunzip qw(gunzip);
use Test::More;

my $guid = qr/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
my $s = Dvsim->start('--dop', 7, '--web-servers', 4);
my $base = $s->base;

# ---------------------------------------------------------------- answers

my $r = $s->get('WhoAmI');
is($r->status, 200, 'WhoAmI');
like($r->json->{UserId}, qr/^$guid$/, 'UserId');
like($r->json->{BusinessUnitId}, qr/^$guid$/, 'BusinessUnitId');
like($r->json->{OrganizationId}, qr/^$guid$/, 'OrganizationId');
is($r->json->{'@odata.context'},
	"$base/api/data/v9.2/\$metadata#Microsoft.Dynamics.CRM.WhoAmIResponse", 'context');
for my $case (
	[ 'Content-Type', 'application/json; odata.metadata=minimal' ],
	[ 'Cache-Control', 'no-cache' ],
	[ 'Expires', '-1' ],
	[ 'Allow', 'OPTIONS,GET,HEAD,POST' ],
	[ 'Public', 'OPTIONS,GET,HEAD,POST' ],
	[ 'Vary', 'Accept-Encoding' ],
	[ 'OData-Version', '4.0' ],
	[ 'CRM.ServiceId', 'framework' ],
	[ 'x-ms-dop-hint', '7' ],
	[ 'x-ms-ratelimit-time-remaining-xrm-requests', '1,200.00' ])
{
	is($r->header($case->[0]), $case->[1], $case->[0]);
}
my @ids = $r->headers('x-ms-service-request-id');
is(scalar @ids, 2, 'two x-ms-service-request-id');
like($_, qr/^$guid$/, 'each a GUID') for @ids;
isnt($ids[0], $ids[1], 'they differ');
is($r->header('REQ_ID'), $ids[1], 'REQ_ID is the second');
like($r->header('AuthActivityId'), qr/^$guid$/, 'AuthActivityId');
is(scalar(my @source = $r->headers('X-Source')), 2, 'two X-Source');
my @cookies = $r->headers('Set-Cookie');
is(scalar(grep { /^ARRAffinity=[0-9a-f]{64}; path=\/; secure; HttpOnly$/ } @cookies), 2,
	'ARRAffinity twice');
is(scalar(grep { /^ReqClientId=$guid;/ } @cookies), 1, 'ReqClientId');
is(scalar(grep { /^orgId=\Q@{[ $r->json->{OrganizationId} ]}\E;/ } @cookies), 1, 'orgId');
is($r->header('Strict-Transport-Security'), undef, 'no Strict-Transport-Security without TLS');
isnt($s->get('WhoAmI')->header('REQ_ID'), $ids[1], 'other ids for the next request');

$r = $s->get('nothings');
is($r->status, 404, 'unknown segment: 404');
is($r->error_message, "Resource not found for the segment 'nothings'.", 'its message');
is($r->header('OData-Version'), '4.0', 'errors have the standard headers');
is(scalar(@ids = $r->headers('x-ms-service-request-id')), 2, 'including the duplicates');
is_deeply([ sort keys %{ $r->json->{error} } ], [qw(code message)], 'bare without annotations');

# ---------------------------------------------------------------- error annotations

my $details = '@Microsoft.PowerApps.CDS.ErrorDetails';
$r = $s->get('nothings', Prefer => 'odata.include-annotations="*"');
is($r->json->{error}{"$details.ApiExceptionHttpStatusCode"}, '404', 'status inside the error');
is($r->json->{error}{"$details.ApiExceptionMessageName"}, 'CrmHttpClientError', 'symbolic name');
is($r->json->{error}{'@Microsoft.PowerApps.CDS.InnerError.Message'}, $r->error_message,
	'inner message');
like($r->json->{error}{'@Microsoft.PowerApps.CDS.HelpLink'}, qr/%3a80060888&client=platform$/,
	'help link');
$r = $s->get('nothings',
	Prefer => 'odata.include-annotations="Microsoft.PowerApps.CDS.ErrorDetails*"');
ok(exists $r->json->{error}{"$details.ApiActivityIdKey"}, 'prefix wildcard: details');
ok(!exists $r->json->{error}{'@Microsoft.PowerApps.CDS.HelpLink'}, 'and nothing else');
$r = $s->get('nothings', Prefer => [ 'odata.maxpagesize=3',
		'return=representation, '
		  . 'odata.include-annotations="a.b,Microsoft.PowerApps.CDS.HelpLink"' ]);
is_deeply([ sort keys %{ $r->json->{error} } ],
	[ '@Microsoft.PowerApps.CDS.HelpLink', 'code', 'message' ],
	'repeated Prefer lines, exact name');
for my $list ('"a,,b"', '"a b"', '"*x"', '"a;b"', '""')
{
	$r = $s->get('WhoAmI', Prefer => "odata.include-annotations=$list");
	is($r->status, 400, "malformed list $list: 400");
	is($r->error_code, '0x80097303', "malformed list $list: code");
}

# ---------------------------------------------------------------- what is refused

my $steps = '00000000-0000-0000-0000-000000000001';
my $bypass = 'MSCRM.BypassBusinessLogicExecutionStepIds';
is($s->get('WhoAmI', $bypass => "$steps,$steps,$steps")->status, 200, 'three steps to bypass');
$r = $s->get('WhoAmI', $bypass => "$steps,$steps,$steps,$steps");
is($r->status, 400, 'four steps: 400');
like($r->error_message, qr/exceeds the limit of 3/, 'its message');
for my $encoding (qw(gzip deflate br))
{
	$r = $s->post('accounts', { name => 'x' }, 'Content-Encoding' => $encoding);
	is($r->status, 415, "a body in $encoding: 415");
	like($r->error_message, qr/content encoding '$encoding' is not supported/, 'its message');
}
$r = $s->post('$batch', "\x1f\x8b", 'Content-Type' => 'multipart/mixed; boundary=b',
	'Content-Encoding' => 'gzip');
is($r->status, 415, 'a compressed $batch is not taken for an empty one');
is($s->post('accounts', { name => 'x' }, 'Content-Encoding' => 'identity')->status, 204,
	'identity is no encoding');

# ---------------------------------------------------------------- Preference-Applied

$s->control('POST', '/_dvsim/seed?table=account&rows=10');
$r = $s->get('accounts?$select=name',
	Prefer => 'odata.include-annotations="*",odata.maxpagesize=3');
is($r->status, 200, 'a page');
is_deeply([ sort $r->headers('Preference-Applied') ],
	[ 'odata.include-annotations="*"', 'odata.maxpagesize=3' ], 'Preference-Applied');
for my $size (qw(0 -1 x))
{
	$r = $s->get('accounts?$select=name', Prefer => "odata.maxpagesize=$size");
	cmp_ok(scalar @{ $r->json->{value} }, '>=', 10, "a page of $size rows is not returned");
	is($r->header('Preference-Applied'), undef, 'nor acknowledged');
}
$r = $s->post('accounts?$select=name', { name => 'P' }, Prefer => 'return=representation');
is($r->status, 201, 'representation');
is($r->header('Preference-Applied'), 'return=representation', 'applied');
$r = $s->post('accounts', { name => 'Q' });
is($r->status, 204, 'no representation');
is($r->header('Preference-Applied'), undef, 'nothing applied');
is($r->header('Content-Type'), undef, 'no content type without a body');

# ---------------------------------------------------------------- affinity

my %seen;
for (1 .. 60)
{
	my ($cookie) = grep { /^ARRAffinity/ } $s->get('WhoAmI')->headers('Set-Cookie');
	$seen{$cookie}++;
}
is(scalar keys %seen, 4, 'requests without the cookie reach all four servers');
my ($pin) = (sort keys %seen)[0] =~ /^(ARRAffinity=[0-9a-f]+)/;
my $same = grep {
	my ($cookie) = grep { /^ARRAffinity/ }
	  $s->get('WhoAmI', Cookie => "a=b; $pin; ReqClientId=x")->headers('Set-Cookie');
	$cookie =~ /^\Q$pin\E;/
} 1 .. 10;
is($same, 10, 'the cookie pins the client to one');

# ---------------------------------------------------------------- compression

my $plain = $s->get('$metadata');
is($plain->status, 200, '$metadata');
is($plain->header('Content-Encoding'), undef, 'not compressed unless requested');
for my $accept ('gzip', 'gzip, deflate, br', 'deflate, gzip;q=0.5', 'GZIP')
{
	$r = $s->get('$metadata', 'Accept-Encoding' => $accept);
	is($r->header('Content-Encoding'), 'gzip', "compressed for $accept");
	my $packed = $r->body;
	my $unpacked;
	gunzip(\$packed => \$unpacked);
	is($unpacked, $plain->body, "and the same for $accept");
}
for my $accept ('identity', 'gzip;q=0', 'br', 'x-gzip-not')
{
	is($s->get('$metadata', 'Accept-Encoding' => $accept)->header('Content-Encoding'), undef,
		"not compressed for $accept");
}
is($s->get('WhoAmI', 'Accept-Encoding' => 'gzip')->header('Content-Encoding'), undef,
	'small answers are not compressed');

# ---------------------------------------------------------------- URLs and methods

for my $path ('WhoAmI()', 'WhoAmI', '/api/data/v9.0/WhoAmI', '/api/data/v9.1/WhoAmI()',
	'%57hoAmI', 'WhoAmI?tag=x+y%20z')
{
	is($s->get($path)->status, 200, "$path answers");
}
for my $path ('/api/data/v9.2', '/api/data/v9.2/')
{
	$r = $s->get($path);
	is($r->status, 200, "$path: service document");
	ok(scalar(grep { $_->{name} eq 'accounts' } @{ $r->json->{value} }), 'it lists accounts');
}
is(scalar @{ $s->get('accounts?%24select=name&%24top=2')->json->{value} }, 2,
	'percent-encoded option names');
is($s->get("accounts?\$select=name&\$filter=name+eq+'P'")->status, 200, '+ is a blank');
is($s->get(q($%6Detadata))->status, 200, 'percent-encoded segment');
is($s->get('whoami')->status, 404, 'names are case-sensitive');
is($s->get('Accounts')->status, 404, 'including those of sets');
is($s->post('WhoAmI', '{}')->status, 404, 'POST on a function: 404');
is($s->post('$metadata', '{}')->status, 405, 'POST on $metadata: 405');
is($s->get('$batch')->status, 405, 'GET on $batch: 405');
is($s->request('BREW', 'accounts')->status, 405, 'unknown method: 405');
is($s->request('DELETE', 'WhoAmI')->status, 404, 'DELETE on a function: 404');
is($s->get('accounts(00000000-0000-0000-0000-000000000001')->status, 400, 'open parenthesis');
is($s->get('accounts?$filter=%zz')->status, 400, 'broken escape in the query');
is($s->get('acc%0')->status, 400, 'broken escape in the path');
is($s->get('acc%00ounts')->status, 400, 'no NUL in the path');
for my $path ('/', '/favicon.ico', '/api/data/v8.2/WhoAmI', '/api/data/v9.2x/WhoAmI', '/api/data')
{
	$r = $s->get($path);
	is($r->status, 404, "$path: 404");
	unlike($r->body, qr/^\s*\{/, "$path: not JSON");
}
$r = $s->request('HEAD', 'WhoAmI');
is($r->status, 200, 'HEAD');
unlike($r->body, qr/UserId/, 'HEAD has no body');

# a URL may have 32,768 characters
my $room = 32768 - length "/api/data/v9.2/WhoAmI?tag=";
is($s->get('WhoAmI?tag=' . 'x' x $room)->status, 200, 'a URL of 32,768 characters');
for my $more (1, 60_000)
{
	$r = $s->get('WhoAmI?tag=' . 'x' x ($room + $more));
	is($r->status, 400, "longer by $more: 400");
	is($r->error_code, '0x80060888', 'code');
	is($r->error_message, 'Invalid URI: The Uri string is too long.', 'message');
}
$r = $s->get("accounts(name='" . 'x' x 260 . "')");
is($r->status, 400, 'a segment of more than 260 characters: 400');
like($r->body, qr/Bad Request - Invalid URL/, 'from the layer in front');
isnt($s->get("accounts(name='" . 'x' x 230 . "')")->body, $r->body, 'shorter ones are accepted');

# ---------------------------------------------------------------- request headers

$r = $s->spawn_plain('GET', '/api/data/v9.2/WhoAmI', undef,
	'authorization' => 'Bearer ' . $s->token('app1', 'secret1'),
	'ODATA-VERSION' => '4.0')->result;
is($r->status, 200, 'header names in any case');

my $caller = '12345678-1234-1234-1234-123456789abc';
for my $case ([ MSCRMCallerID => $caller ], [ CallerObjectId => $caller ])
{
	$r = $s->get('WhoAmI', @$case);
	is($r->status, 403, "$case->[0] of an unknown user: 403");
	is($r->error_code, '0x80072560', "$case->[0] of an unknown user: code");
	is($s->get('WhoAmI', $case->[0] => 'x')->status, 400, "$case->[0] must be a GUID");
}
my $other = Dvsim->start('--app-user', 'a:1', '--app-user', 'b:2');
my $a = $other->get('WhoAmI')->json->{UserId};
my $b = $other->as('b', 2)->get('WhoAmI')->json->{UserId};
isnt($a, $b, 'each user has an id');
is($other->get('WhoAmI', MSCRMCallerID => $b)->json->{UserId}, $b, 'MSCRMCallerID');
my $row = $other->get("systemusers($b)?\$select=azureactivedirectoryobjectid,fullname")->json;
is($row->{fullname}, 'b', 'application users have rows');
is($other->get('WhoAmI', CallerObjectId => $row->{azureactivedirectoryobjectid})->json->{UserId},
	$b, 'CallerObjectId');
my $account = $other->create('accounts', { name => 'of b' }, MSCRMCallerID => $b);
is($other->get("accounts($account)?\$select=_ownerid_value")->json->{_ownerid_value}, $b,
	'b owns the rows that it creates');
is($other->patch("systemusers($b)", { isdisabled => \1 })->status, 204, 'b is disabled');
$r = $other->as('b', 2)->get('WhoAmI');
is($r->status, 403, 'a disabled user: 403');
is($r->error_code, '0x80040225', 'a disabled user: code');

done_testing;
