# 010_token.t
#		Tokens: client secret, certificate, managed identity, and how each is
#		refused; which requests a token permits, and for how long.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Digest::SHA qw(sha1 sha256);
use Dvsim;
use File::Temp qw(tempdir);
use MIME::Base64 qw(decode_base64 encode_base64);
use Test::More;

my $dir = tempdir(CLEANUP => 1);
my $have_openssl = grep { -x "$_/openssl" } split /:/, $ENV{PATH};
my @certificate_user;

sub slurp
{
	my ($file) = @_;
	open my $in, '<:raw', $file or die "$file: $!";
	local $/;
	return scalar readline $in;
}

sub make_certificate
{
	my ($name) = @_;
	system("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=$name "
		  . "-keyout $dir/$name.key -out $dir/$name.pem 2>$dir/openssl.err") == 0
	  or die slurp("$dir/openssl.err");
	return;
}

if ($have_openssl)
{
	make_certificate('good');
	make_certificate('other');
	@certificate_user = ('--app-user', "certified:\@$dir/good.pem");
}

my $s = Dvsim->start(
	'--app-user', 'app1:secret1',
	'--app-user', '11111111-2222-3333-4444-555555555555:s&c=r%t +é',
	'--app-user', 'with:colons:secret3',
	'--app-registration', 'stranger:secret4',
	@certificate_user);
my $base = $s->base;
my %good = (
	client_id => 'app1',
	client_secret => 'secret1',
	grant_type => 'client_credentials',
	scope => "$base/.default");

sub without
{
	my ($name) = @_;
	my %form = %good;
	delete $form{$name};
	return %form;
}

sub refused
{
	my ($name, $status, $error, $code, $form, $path) = @_;
	my $body = join '&', map { "$_=" . Dvsim::escape($form->{$_}) } sort keys %$form;
	my $r = $s->spawn_plain('POST', $path // '/tenant/oauth2/v2.0/token', $body,
		'Content-Type' => 'application/x-www-form-urlencoded')->result;

	is($r->status, $status, "$name: status");
	is($r->json->{error}, $error, "$name: error");
	is_deeply($r->json->{error_codes}, [$code], "$name: code");
	like($r->json->{error_description}, qr/^AADSTS$code: .*Trace ID: \S+ Correlation ID: /,
		"$name: description");
	return;
}

# ---------------------------------------------------------------- client secret

my $r = $s->token_request(%good);
is($r->status, 200, 'token by client secret');
is($r->json->{token_type}, 'Bearer', 'token_type');
is($r->json->{expires_in}, 3599, 'expires_in');
is($r->json->{ext_expires_in}, 3599, 'ext_expires_in');
unlike($r->body, qr/"expires_in":"/, 'expires_in is a number');
like($r->header('Content-Type'), qr{^application/json}, 'token is JSON');
like($r->header('Cache-Control'), qr/no-store/, 'token must not be cached');
my $token = $r->json->{access_token};
isnt($s->token('app1', 'secret1'), $token, 'a different token each time');

is($s->get('WhoAmI', Authorization => "Bearer $token")->status, 200, 'the token is accepted');
is($s->get('WhoAmI', Authorization => "bearer  $token")->status, 200, 'scheme in any case');

$r = $s->token_request(%good,
	client_id => '11111111-2222-3333-4444-555555555555',
	client_secret => 's&c=r%t +é');
is($r->status, 200, 'id is a GUID, secret has characters to escape');
$r = $s->token_request(%good, client_id => 'with:colons', client_secret => 'secret3');
is($r->status, 200, 'an id may contain colons');
$r = $s->token_request(%good, client_id => 'APP1');
is($r->status, 200, 'ids in any case');
$r = $s->token_request(%good, scope => "$base//.default");
is($r->status, 200, 'scope of a resource with a trailing slash');
is($s->spawn_plain('POST', '/other.tenant/oauth2/v2.0/token',
		join('&', map { "$_=" . Dvsim::escape($good{$_}) } keys %good),
		'Content-Type' => 'application/x-www-form-urlencoded; charset=utf-8')->result->status,
	200, 'any tenant, charset in the content type');

refused('bad secret', 401, 'invalid_client', 7000215, { %good, client_secret => 'Secret1' });
refused('no secret', 401, 'invalid_client', 7000218, { without('client_secret') });
refused('unknown app', 400, 'unauthorized_client', 700016, { %good, client_id => 'nobody' });
refused('no client id', 400, 'invalid_request', 900144, { without('client_id') });
refused('no grant type', 400, 'invalid_request', 900144, { without('grant_type') });
refused('other grant type', 400, 'unsupported_grant_type', 70003,
	{ %good, grant_type => 'password' });
refused('no scope', 400, 'invalid_request', 900144, { without('scope') });
refused('scope of another origin', 400, 'invalid_resource', 500011,
	{ %good, scope => 'https://contoso.crm.dynamics.com/.default' });
refused('scope without .default', 400, 'invalid_scope', 1002012,
	{ %good, scope => "$base/user_impersonation" });
refused('unknown tenant', 400, 'invalid_request', 90002, {%good}, '/unknown/oauth2/v2.0/token');

# ---------------------------------------------------------------- where tokens are

my $openid = $s->spawn_plain('GET', '/ten%22ant/v2.0/.well-known/openid-configuration')->result;
is($openid->status, 200, 'the document about the endpoints');
like($openid->json->{token_endpoint}, qr{^\Q$base\E/ten(%22|")ant/oauth2/v2\.0/token$}, 'names that of tokens');
is($s->spawn_plain('GET', '/unknown/v2.0/.well-known/openid-configuration')->result->json->{error_codes}[0], 90002,
	'not for an unknown tenant');
refused('nothing at all', 400, 'invalid_request', 900144, {});
is($s->spawn_plain('POST', '/t/oauth2/v2.0/token', '{"client_id":"app1"}',
		'Content-Type' => 'application/json')->result->json->{error_codes}[0],
	900144, 'a JSON body is not a form');
is($s->spawn_plain('GET', '/t/oauth2/v2.0/token')->result->json->{error_codes}[0],
	900561, 'GET is refused');
is($s->spawn_plain('POST', '/t/oauth2/v2.0/token', 'grant_type=%zz',
		'Content-Type' => 'application/x-www-form-urlencoded')->result->status,
	400, 'broken escapes in the form');

# ---------------------------------------------------------------- bearer check

for my $case (
	[ 'no token', undef, '0x8005F101' ],
	[ 'unknown token', 'Bearer ' . 'a' x 64, '0x8005F101' ],
	[ 'short token', 'Bearer abc', '0x8005F101' ],
	[ 'other scheme', 'Basic YTpi', '0x8005F101' ])
{
	my ($name, $value, $code) = @$case;
	$r = $s->get('WhoAmI', Authorization => $value);
	is($r->status, 401, "$name: 401");
	is($r->error_code, $code, "$name: code");
	like($r->header('WWW-Authenticate'), qr{^Bearer authorization_uri=\S+, resource_id=\Q$base\E/$},
		"$name: WWW-Authenticate");
}
my $stranger = $s->token('stranger', 'secret4');
$r = $s->get('WhoAmI', Authorization => "Bearer $stranger");
is($r->status, 403, 'app without application user: 403');
is($r->error_code, '0x80072560', 'app without application user: code');
is($r->error_message, 'The user is not a member of the organization.', 'and message');

# ---------------------------------------------------------------- managed identity

my $imds = '/metadata/identity/oauth2/token?api-version=2018-02-01&resource='
  . Dvsim::escape($base);
$r = $s->spawn_plain('GET', $imds, undef, Metadata => 'true')->result;
is($r->status, 200, 'managed identity');
for my $name (qw(expires_in expires_on ext_expires_in not_before))
{
	like($r->body, qr/"$name":"\d+"/, "$name is a number in a string");
}
is($r->json->{resource}, $base, 'resource');
is($r->json->{client_id}, 'app1', 'the first user is the default');
is($s->get('WhoAmI', Authorization => 'Bearer ' . $r->json->{access_token})->status, 200,
	'its token is accepted');
$r = $s->spawn_plain('GET', "$imds&client_id=with%3Acolons", undef, Metadata => 'true')->result;
is($r->json->{client_id}, 'with:colons', 'another user');
$r = $s->spawn_plain('GET', "$imds%2F", undef, Metadata => 'true')->result;
is($r->status, 200, 'resource with a trailing slash');
for my $case (
	[ 'without Metadata', $imds, {}, 'invalid_request' ],
	[ 'without resource', '/metadata/identity/oauth2/token?api-version=2018-02-01',
		{ Metadata => 'true' }, 'invalid_request' ],
	[ 'without api-version', '/metadata/identity/oauth2/token?resource=' . Dvsim::escape($base),
		{ Metadata => 'true' }, 'invalid_request' ],
	[ 'unknown identity', "$imds&client_id=nobody", { Metadata => 'true' }, 'invalid_request' ],
	[ 'other resource', '/metadata/identity/oauth2/token?api-version=1&resource=https://a.b',
		{ Metadata => 'true' }, 'invalid_resource' ])
{
	my ($name, $path, $headers, $error) = @$case;
	$r = $s->spawn_plain('GET', $path, undef, %$headers)->result;
	is($r->status, 400, "managed identity, $name: 400");
	is($r->json->{error}, $error, "managed identity, $name: error");
}
$r = $s->spawn_plain('GET', '/msi/token?api-version=2019-08-01&resource=' . Dvsim::escape($base),
	undef, 'X-IDENTITY-HEADER' => 'x')->result;
is($r->status, 200, 'App Service identity');
like($r->body, qr/"expires_on":"\d+"/, 'its expires_on');
ok(!exists $r->json->{expires_in}, 'no expires_in');

# ---------------------------------------------------------------- expiry

$s->forget_token;
is($s->get('WhoAmI')->status, 200, 'before the jump');
is($s->control('POST', '/_dvsim/clock', { advance => '3500s' })->status, 200, 'jump');
is($s->get('WhoAmI')->status, 200, 'still valid at its end');
$s->control('POST', '/_dvsim/clock', { advance => '100s' });
$r = $s->get('WhoAmI');
is($r->status, 401, 'expired: 401');
is($r->error_code, '0x80041d52', 'expired: code');
$s->forget_token;
is($s->get('WhoAmI')->status, 200, 'a new token');

my $short = Dvsim->start('--token-lifetime', '10min', '--time-scale', 100);
$r = $short->token_request(%good, scope => $short->base . '/.default');
is($r->json->{expires_in}, 6, 'expires_in is in real seconds');

# ---------------------------------------------------------------- certificate

SKIP:
{
	skip 'no openssl to make certificates with', 1 unless $have_openssl;

	my $aud = "$base/tenant/oauth2/v2.0/token";
	my $now = time;

	my $b64 = sub {
		my $text = encode_base64($_[0], '');
		$text =~ tr{+/}{-_};
		$text =~ s/=+$//;
		return $text;
	};
	my $thumb = sub {
		my ($name, $digest) = @_;
		my ($body) = slurp("$dir/$name.pem") =~ /BEGIN CERTIFICATE-----(.*?)-----END/s;
		return $b64->($digest->(decode_base64($body)));
	};
	my $json = JSON::PP->new->canonical;
	my $assertion = sub {
		my (%change) = @_;
		my $alg = $change{alg} // 'PS256';
		my $key = $change{key} // 'good';
		my %header = (alg => $alg, typ => 'JWT');
		my %claims = (
			aud => $aud, iss => 'certified', sub => 'certified', jti => 'j1',
			nbf => $now, exp => $now + 300, %{ $change{claims} // {} });
		$alg eq 'PS256'
		  ? ($header{'x5t#S256'} = $thumb->($change{thumb} // 'good', \&sha256))
		  : ($header{x5t} = $thumb->($change{thumb} // 'good', \&sha1));
		delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
		my $signed = $b64->($json->encode(\%header)) . '.' . $b64->($json->encode(\%claims));
		my $pss = $alg eq 'PS256' ? '-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32' : '';
		Dvsim::spew("$dir/signed", $signed);
		system("openssl dgst -sha256 $pss -sign $dir/$key.key -out $dir/signature $dir/signed") == 0
		  or die 'openssl dgst';
		return "$signed." . $b64->(slurp("$dir/signature"));
	};
	my %form = (
		client_id => 'certified',
		grant_type => 'client_credentials',
		scope => "$base/.default",
		client_assertion_type => 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer');

	for my $alg (qw(PS256 RS256))
	{
		$r = $s->token_request(%form, client_assertion => $assertion->(alg => $alg));
		is($r->status, 200, "$alg assertion");
	}
	is($s->get('WhoAmI', Authorization => 'Bearer ' . $r->json->{access_token})->status, 200,
		'its token is accepted');
	$r = $s->token_request(%form, client_assertion => $assertion->(
			claims => { aud => 'https://login.microsoftonline.com/tenant/oauth2/v2.0/token' }));
	is($r->status, 200, "audience of the public cloud");

	refused('signed by another key', 401, 'invalid_client', 700027,
		{ %form, client_assertion => $assertion->(key => 'other') });
	refused('thumbprint of another certificate', 401, 'invalid_client', 700027,
		{ %form, client_assertion => $assertion->(key => 'other', thumb => 'other') });
	refused('other audience', 401, 'invalid_client', 700023,
		{ %form, client_assertion => $assertion->(claims => { aud => "$base/x" }) });
	refused('other subject', 401, 'invalid_client', 700021,
		{ %form, client_assertion => $assertion->(claims => { sub => 'app1' }) });
	refused('expired assertion', 401, 'invalid_client', 700024,
		{ %form, client_assertion => $assertion->(
				claims => { nbf => $now - 2000, exp => $now - 1000 }) });
	refused('assertion of the future', 401, 'invalid_client', 700024,
		{ %form, client_assertion => $assertion->(
				claims => { nbf => $now + 1000, exp => $now + 2000 }) });
	refused('no jti', 401, 'invalid_client', 50027,
		{ %form, client_assertion => $assertion->(claims => { jti => undef }) });
	refused('no exp', 401, 'invalid_client', 50027,
		{ %form, client_assertion => $assertion->(claims => { exp => undef }) });
	refused('garbage', 401, 'invalid_client', 50027, { %form, client_assertion => 'a.b.c' });
	refused('no dots', 401, 'invalid_client', 50027, { %form, client_assertion => 'abc' });
	refused('user without certificate', 401, 'invalid_client', 700027,
		{ %form, client_id => 'app1', client_assertion => $assertion->() });
	refused('certificate user with a secret', 401, 'invalid_client', 7000215,
		{ %form, client_secret => 'x' });
	delete $form{client_assertion_type};
	refused('no assertion type', 400, 'invalid_request', 900144,
		{ %form, client_assertion => $assertion->() });
}

done_testing;
