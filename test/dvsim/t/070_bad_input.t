# 070_bad_input.t
#		Malformed HTTP, URLs, JSON, multipart, and XML: each must be refused
#		as the service refuses it (or the connection closed if HTTP itself is
#		violated), and dvsim must survive and end cleanly.  072_mutations.t
#		searches for unforeseen cases.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use RawClient;
use Test::More;

my $s = Dvsim->start('--seed', 70);
my $bearer = 'Bearer ' . $s->token('app1', 'secret1');
my $client = RawClient->new($s, $bearer);
my $row = $s->create('accounts', { name => 'Row' });
my $root = RawClient::ROOT;
my $deep = 100_000;

# Each line: a description, the request, the allowed statuses.
sub refused
{
	my ($title, @cases) = @_;

	subtest $title => sub {
		for (@cases)
		{
			my ($what, $request, $allowed) = @$_;
			my $answer = eval { $client->ask($request) };
			my $problem = $@ || ($answer ? complaint($answer) : 'the connection was closed');

			$client->hang_up unless $answer;
			is($problem, '', $what);
			like($answer->{status}, qr/^(?:$allowed)$/, "$what: status")
			  or diag(substr($request->{target}, 0, 200) . "\n" . substr $answer->{body}, 0, 500)
			  if $answer;
		}
	};
	return;
}

refused(
	'paths and keys',
	[ 'unknown segment', get('nothing'), 404 ],
	[ 'empty key', get('accounts()'), '4..' ],
	[ 'unclosed key', get('accounts('), '4..' ],
	[ 'key that is no guid', get('accounts(1)'), 400 ],
	[ 'key of quotes', get("accounts(''''''')"), '4..' ],
	[ 'key with an unclosed quote', get("new_meters(new_serial='x)"), '4..' ],
	[ 'NUL in a key', get("new_meters(new_serial='x%00y')"), '4..' ],
	[ 'percent in the path', get('accounts%'), '4..' ],
	[ 'dots', get("${root}../../../../etc/passwd"), '4..' ],
	[ 'encoded dots', get('%2e%2e/%2e%2e/etc/passwd'), '4..' ],
	[ 'double slash', get("$root/accounts"), '200|4..' ],
	[ 'another version', get('/api/data/v1.0/accounts'), '4..' ],
	[ 'outside', get('/'), '4..' ],
	[ 'method of no kind', { method => 'BREW', target => "${root}accounts" }, '4..|501' ],
	[ 'lower-case method', { method => 'get', target => "${root}accounts" }, '4..|501' ],
	[ 'TRACE', { method => 'TRACE', target => "${root}accounts" }, '4..|501' ],
	[ 'asterisk', { method => 'OPTIONS', target => '*' }, '2..|4..' ],
	[ 'metadata of rubbish', get('EntityDefinitions(LogicalName='), '4..' ],
	[ 'metadata of nobody', get("EntityDefinitions(LogicalName='nothing')"), 404 ],
	[ 'cast of no kind',
		get("EntityDefinitions(LogicalName='account')/Attributes/Nothing"), '4..' ],
	[ 'function of rubbish', get('RetrieveTotalRecordCount(EntityNames=@p1)?@p1=[['), '4..' ],
	[ 'function without its argument', get('RetrieveTotalRecordCount'), '4..' ],
	[ 'changes of rubbish', get('RetrieveMetadataChanges(Query=@p1)?@p1={{{'), '4..' ],
	[ 'changes of depth', get('RetrieveMetadataChanges(Query=@p1)?@p1=' . '[' x 10000), '4..' ]);

my $any = 'contact_customer_accounts/any(o:';
my $expand = 'contact_customer_accounts($expand=';

refused(
	'queries',
	[ 'NUL in a filter', get("accounts?\$filter=name eq 'x%00y'"), '200|400' ],
	[ 'invalid UTF-8 in a filter', get("accounts?\$filter=name eq '%ff%fe'"), '200|400' ],
	[ 'surrogate in a filter', get("accounts?\$filter=name eq '%ed%a0%80'"), '200|400' ],
	[ 'broken percent escape', get('accounts?$filter=name eq %zz'), 400 ],
	[ 'percent at the end', get('accounts?$filter=name%'), 400 ],
	[ 'open parentheses', get('accounts?$filter=' . '(' x 10000), 400 ],
	[ 'pairs', get('accounts?$filter=' . '(' x 8000 . 'name eq null' . ')' x 8000), '200|400' ],
	[ 'not upon not', get('accounts?$filter=' . 'not ' x 4000 . 'name eq null'), '200|400' ],
	[ 'minus upon minus', get('accounts?$filter=revenue eq ' . '-' x 10000), 400 ],
	[ 'one quote', get("accounts?\$filter='"), 400 ],
	[ 'many digits', get('accounts?$filter=revenue eq ' . '9' x 10000), '200|400' ],
	[ 'a huge exponent', get('accounts?$filter=revenue eq 1e999999999'), '200|400' ],
	[ '600 conditions', get('accounts?$filter=' . join ' or ', ('revenue eq 1') x 600), 400 ],
	[ 'any in any', get('accounts?$filter=' . $any x 400 . ')' x 400), 400 ],
	[ 'expand in expand', get('accounts?$expand=' . $expand x 400 . ')' x 400), 400 ],
	[ 'select of commas', get('accounts?$select=' . ',' x 10000), 400 ],
	[ 'orderby of commas', get('accounts?$orderby=' . ',' x 10000), 400 ],
	[ 'apply that is cut', get('accounts?$apply=groupby(('), 400 ],
	[ 'top that is huge', get('accounts?$top=99999999999999999999'), '200|400' ],
	[ 'top that is negative', get('accounts?$top=-1'), 400 ],
	[ 'skiptoken that is cut', get('accounts?$skiptoken=%3Ccookie%20pagenumber=%22x'), 400 ],
	[ 'skiptoken of quotes', get('accounts?$skiptoken=%22%22%22%3E%3C'), 400 ],
	[ 'deltatoken of rubbish', get('new_meters?$select=new_serial&$deltatoken=%00!!!'), '4..' ],
	[ 'two filters', get('accounts?$filter=name eq null&$filter=name ne null'), '200|400' ],
	[ 'alias without a value', get('accounts?$filter=name eq @p&@p'), '200|400' ],
	[ 'alias of itself', get('accounts?$filter=name eq @p&@p=@p'), '200|400' ],
	[ 'aliases of each other', get('accounts?$filter=name eq @p&@p=@q&@q=@p'), '200|400' ],
	[ 'over 32,768 characters', get('accounts?$filter=' . 'x' x 33000), 400 ],
	[ 'a megabyte', get('accounts?$filter=' . 'x' x 1_000_000), '4..' ]);

my $whoami = get('WhoAmI');
my $accounts = get('accounts');
my $patch = { method => 'PATCH', target => "${root}accounts($row)", body => '{}' };

refused(
	'headers',
	[ '60,000 bytes', with($whoami, 'X-Long' => 'x' x 60000), '200|4..' ],
	[ '500 of them', with($whoami, map { ("X-$_" => $_) } 1 .. 500), '200|4..' ],
	[ 'open quote', with($accounts, Prefer => 'odata.include-annotations="'), '200|400' ],
	[ 'commas', with($accounts, Prefer => ',,,=;"=",'), '200|400' ],
	[ 'huge page', with($accounts, Prefer => 'odata.maxpagesize=9' . '9' x 30), '200|400' ],
	[ 'negative page', with($accounts, Prefer => 'odata.maxpagesize=-1'), '200|400' ],
	[ 'no token', with($accounts, Authorization => ''), 401 ],
	[ 'half a token', with($accounts, Authorization => 'Bearer'), 401 ],
	[ 'token of dots', with($accounts, Authorization => 'Bearer ' . '.' x 5000), 401 ],
	[ 'token that is cut', with($accounts, Authorization => substr $bearer, 0, -3), 401 ],
	[ 'caller of no kind', with($accounts, MSCRMCallerID => q('; drop)), '4..' ],
	[ 'etag of no kind', with($patch, 'If-Match' => 'W/"x'), '4..' ],
	[ 'body of no kind', with(post('accounts', '{}'), 'Content-Type' => 'x'), '204|4..' ]);

sub account { return post('accounts', $_[0]); }

refused(
	'JSON',
	[ 'no body', { method => 'POST', target => "${root}accounts" }, 400 ],
	[ 'empty', account(''), 400 ],
	[ 'blanks', account(" \n\t"), 400 ],
	[ 'NUL', account("\0"), 400 ],
	[ 'NUL at the end', account("{}\0"), 400 ],
	[ 'one brace', account('{'), 400 ],
	[ 'array', account('[]'), 400 ],
	[ 'number', account('1'), 400 ],
	[ 'open string', account('{"name":"x'), 400 ],
	[ 'escape at the end', account('{"name":"x\\'), 400 ],
	[ 'half an escape', account('{"name":"\\u12'), 400 ],
	[ 'lone surrogate', account('{"name":"\\ud800"}'), '204|400' ],
	[ 'surrogates the wrong way round', account('{"name":"\\udc00\\ud800"}'), '204|400' ],
	[ 'escaped NUL', account('{"name":"a\\u0000b"}'), 400 ],
	[ 'NUL in a string', account("{\"name\":\"a\0b\"}"), 400 ],
	[ 'invalid UTF-8 in a value', account("{\"name\":\"\xff\xfe\"}"), 400 ],
	[ 'invalid UTF-8 in a name', account("{\"\xff\":1}"), 400 ],
	[ 'overlong UTF-8', account("{\"name\":\"\xc0\x80\"}"), 400 ],
	[ 'control character', account("{\"name\":\"\x01\"}"), 400 ],
	[ 'byte order mark', account("\xef\xbb\xbf{\"name\":\"x\"}"), '204|400' ],
	[ 'arrays in arrays', account('[' x $deep), 400 ],
	[ 'objects in objects', account('{"a":' x $deep), 400 ],
	[ 'bind of an object', account('{"primarycontactid@odata.bind":{}}'), 400 ],
	[ 'bind of rubbish', account('{"primarycontactid@odata.bind":"((((contacts"}'), 400 ],
	[ 'bind without a name', account('{"@odata.bind":"contacts(1)"}'), '204|400' ],
	[ 'many digits', account('{"revenue":' . '9' x 50000 . '}'), 400 ],
	[ 'huge exponent', account('{"revenue":1e999999999}'), 400 ],
	[ 'tiny exponent', account('{"revenue":1e-999999999}'), '204|400' ],
	[ 'over 64 bits', account('{"numberofemployees":18446744073709551616}'), 400 ],
	[ 'same member twice', account('{"name":"a","name":"b"}'), '204|400' ],
	[ 'member without a name', account('{"":1}'), 400 ],
	[ 'name of a megabyte', account('{"' . 'n' x 1_000_000 . '":1}'), 400 ],
	[ 'value of a megabyte', account('{"name":"' . 'n' x 1_000_000 . '"}'), 400 ],
	[ 'many members', account('{' . join(',', map { "\"m$_\":1" } 1 .. $deep) . '}'), 400 ],
	[ 'Targets that are not there', bulk('Create', '{}'), 400 ],
	[ 'Targets of no kind', bulk('Create', '{"Targets":1}'), 400 ],
	[ 'Targets of nulls', bulk('Create', '{"Targets":[null]}'), 400 ],
	[ 'type of no kind', bulk('Create', '{"Targets":[{"@odata.type":7}]}'), 400 ],
	[ 'message of no kind', bulk('Nothing', '{}'), '4..' ],
	[ 'Targets that end in a key', bulk('Upsert', '{"Targets":[{"@odata.id":"accounts(",'
			. '"@odata.type":"Microsoft.Dynamics.CRM.account"}]}'), '4..' ],
	[ 'BulkDelete of rubbish', post('BulkDelete', '{"QuerySet":[{"Criteria":[[]]}]}'), '4..' ]);

my $mixed = 'Content-Type: multipart/mixed; boundary=';
my @get = part('b', undef, "GET ${root}WhoAmI HTTP/1.1", '', '');

# a batch with a change set of one request
sub changeset
{
	return batch([ '--b', "${mixed}c", '', part('c', 1, @_), '--c--', '--b--' ]);
}

refused(
	'multipart',
	[ 'no boundary', batch(['--b--'], 'multipart/mixed'), 400 ],
	[ 'empty boundary', batch(['----'], 'multipart/mixed; boundary='), '200|400' ],
	[ 'boundary of an open quote', batch(['--b--'], 'multipart/mixed; boundary="b'), '200|400' ],
	[ 'JSON', batch(['{}'], 'application/json'), 400 ],
	[ 'empty', batch([]), '200|400' ],
	[ 'another boundary', batch([ '--c', '', '--c--' ]), 200 ],
	[ 'ends in a part', batch([ part('b', undef) ]), '4..' ],
	[ 'ends in a request line', batch([ part('b', undef, 'GET ') ]), '4..' ],
	[ 'no blank lines',
		batch([ part('b', undef, "GET ${root}WhoAmI HTTP/1.1"), '--b--' ]), '200|400' ],
	[ 'batch in batch',
		batch([ part('b', undef, "POST ${root}\$batch HTTP/1.1", '', ''), '--b--' ]), '4..' ],
	[ 'changeset in changeset',
		batch([ '--b', "${mixed}c", '', '--c', "${mixed}d", '', '--d--', '--c--', '--b--' ]),
		'4..' ],
	[ 'changeset in itself',
		batch([ '--b', "${mixed}c", '', '--c', "${mixed}c", '', '--c--', '--b--' ]), '4..' ],
	[ 'changeset bounded as the batch',
		batch([ '--b', "${mixed}b", '', '--b--', '--b--' ]), '200|4..' ],
	[ 'reference to nothing', changeset('PATCH $9 HTTP/1.1', '', '{}'), 400 ],
	[ 'reference to itself', changeset('PATCH $1 HTTP/1.1', '', '{}'), 400 ],
	[ 'reference of no kind', changeset('PATCH $99999999999999999999 HTTP/1.1', '', '{}'), 400 ],
	[ 'GET in a changeset', changeset("GET ${root}WhoAmI HTTP/1.1", '', ''), '4..' ],
	[ 'length that lies', batch([ part('b', undef, "POST ${root}accounts HTTP/1.1",
				'Content-Type: application/json', 'Content-Length: 99999999', '', '{}'), '--b--' ]),
		'200|400' ],
	[ '1,001 parts', batch([ (@get) x 1001, '--b--' ]), 400 ]);

# "billion laughs": each entity consists of ten of the previous one
my $laughs = '<!DOCTYPE fetch [<!ENTITY e0 "ha">';
$laughs .= "<!ENTITY e$_ \"" . ('&e' . ($_ - 1) . ';') x 10 . '">' for 1 .. 12;
$laughs .= ']><fetch><entity name="account"><attribute name="&e12;"/></entity></fetch>';

my $outside = '<!DOCTYPE f [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
  . '<fetch><entity name="account"><attribute name="&x;"/></entity></fetch>';
my $link = '<link-entity name="contact" from="parentcustomerid" to="accountid">';

sub entity { return fetch('<fetch><entity name="account">' . $_[0] . '</entity></fetch>'); }

sub condition
{
	return entity("<filter><condition attribute='$_[0]' operator='$_[1]' $_[2]</filter>");
}

sub paged { return fetch("<fetch $_[0]><entity name='account'/></fetch>"); }

refused(
	'XML',
	[ 'none', fetch('x'), 400 ],
	[ 'empty', fetch(''), 400 ],
	[ 'open', fetch('<fetch><entity name="account">'), 400 ],
	[ 'crossed', fetch('<fetch><entity name="account"></fetch></entity>'), 400 ],
	[ 'two roots', fetch('<fetch><entity name="account"/></fetch><fetch/>'), 400 ],
	[ 'attribute twice', fetch('<fetch><entity name="account" name="contact"/></fetch>'), 400 ],
	[ 'entity of no kind', fetch('<fetch><entity name="nothing"/></fetch>'), 400 ],
	[ 'no entity', fetch('<fetch/>'), 400 ],
	[ 'entities in entities', fetch($laughs), 400 ],
	[ 'external entity', fetch($outside), 400 ],
	[ 'UTF-16 that is not', fetch('<?xml version="1.0" encoding="utf-16"?><fetch/>'), '4..' ],
	[ 'encoding of no kind', fetch('<?xml version="1.0" encoding="nothing"?><fetch/>'), 400 ],
	[ 'invalid UTF-8', fetch("<fetch><entity name=\"\xff\xfe\"/></fetch>"), 400 ],
	[ 'elements in elements', fetch('<a>' x 3000), 400 ],
	[ 'filters in filters', entity('<filter>' x 600 . '</filter>' x 600), '200|400' ],
	[ 'links in links', entity($link x 100 . '</link-entity>' x 100), 400 ],
	[ 'count of no kind', paged('count="x"'), '200|400' ],
	[ 'page that is huge', paged('count="5000" page="9223372036854775807"'), '200|400' ],
	[ 'page below one', paged('count="5" page="-3"'), '200|400' ],
	[ 'top and page', paged('count="5" page="1" top="5"'), 400 ],
	[ 'cookie of rubbish', paged('count="5" page="2" paging-cookie="&lt;x"'), '200|400' ],
	[ 'operator of no kind', condition('name', 'x', '/>'), 400 ],
	[ 'many values', condition('name', 'in', '>' . '<value>x</value>' x 700 . '</condition>'),
		'200|400' ],
	[ 'many years',
		condition('createdon', 'last-x-years', 'value="99999999999999"/>'), '200|400' ]);

my $jwt = 'urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer';
my $assertion = "client_id=app1&grant_type=client_credentials&client_assertion_type=$jwt";

refused(
	'tokens and the control plane',
	[ 'form of rubbish', form('&&==%zz&client_id'), '4..' ],
	[ 'empty form', form(''), '4..' ],
	[ 'assertion of rubbish', form("$assertion&client_assertion=a.b.c"), '4..' ],
	[ 'assertion of dots', form("$assertion&client_assertion=" . '.' x 5000), '4..' ],
	[ 'unknown control', get('/_dvsim/nothing'), '4..' ],
	[ 'faults that are cut', post('/_dvsim/faults', '[[[{'), '4..' ],
	[ 'fault of no kind', post('/_dvsim/faults', '[{"action":"x"}]'), '4..' ],
	[ 'faults of numbers', post('/_dvsim/faults', '[1,2]'), '4..' ],
	[ 'seed of no table', post('/_dvsim/seed?table=nothing&rows=1', ''), '4..' ],
	[ 'seed of less than nothing', post('/_dvsim/seed?table=account&rows=-1', ''), '4..' ],
	[ 'clock of no kind', post('/_dvsim/clock', '{"advance":'), '4..' ]);

# Not even HTTP: an answer or a closed connection will do.  Each is a request for a path
# followed by these lines, or the given bytes.
sub lines
{
	my ($method, $path, @lines) = @_;
	return join "\r\n", "$method $root$path HTTP/1.1", 'Host: x', @lines;
}

my $auth = "Authorization: $bearer";
my $chunked = 'Transfer-Encoding: chunked';
my @broken = (
	[ 'nothing', '' ],
	[ 'noise', join '', map { chr($_ * 7919 % 256) } 1 .. 5000 ],
	[ 'blank lines', "\r\n" x 1000 ],
	[ 'no version', "GET ${root}WhoAmI\r\n\r\n" ],
	[ 'version of no kind', "GET ${root}WhoAmI HTTP/9.9\r\n\r\n" ],
	[ 'half a request line', "GET $root" ],
	[ 'half the headers', lines('GET', 'WhoAmI', 'Autho') ],
	[ 'header without a colon', lines('GET', 'WhoAmI', 'Thing', '', '') ],
	[ 'header without a name', lines('GET', 'WhoAmI', ': x', '', '') ],
	[ 'NUL in a header', lines('GET', 'WhoAmI', "X: x\0y", '', '') ],
	[ 'NUL in the target', lines('GET', "Who\0AmI", '', '') ],
	[ 'target with bytes above 127', lines('GET', "\xff\xfe", '', '') ],
	[ 'target without a slash', "GET accounts HTTP/1.1\r\nHost: x\r\n\r\n" ],
	[ 'no host', "GET ${root}WhoAmI HTTP/1.1\r\n$auth\r\n\r\n" ],
	[ 'host of rubbish', "GET ${root}WhoAmI HTTP/1.1\r\nHost: \"<>\\\r\n$auth\r\n\r\n" ],
	[ 'length of no kind', lines('POST', 'accounts', 'Content-Length: x', '', '{}') ],
	[ 'length below zero', lines('POST', 'accounts', 'Content-Length: -1', '', '{}') ],
	[ 'length of 20 digits', lines('POST', 'accounts', 'Content-Length: ' . '9' x 20, '', '{}') ],
	[ 'length beyond the end', lines('POST', 'accounts', $auth, 'Content-Length: 5000', '', '{}') ],
	[ 'two lengths',
		lines('POST', 'accounts', 'Content-Length: 2', 'Content-Length: 3', '', '{}') ],
	[ 'over 128 MB', lines('POST', 'accounts', $auth, 'Content-Length: 200000000', '', '{}') ],
	[ 'chunk of no kind', lines('POST', 'accounts', $chunked, '', 'zz', '{}', '') ],
	[ 'chunk of 18 digits', lines('POST', 'accounts', $chunked, '', 'f' x 18, '{}', '') ],
	[ 'chunk that is cut', lines('POST', 'accounts', $auth, $chunked, '', '9', '{}') ],
	[ 'coding of no kind', lines('POST', 'accounts', 'Transfer-Encoding: x', '', '{}') ],
	[ 'TLS', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . 'x' x 500 ]);

subtest 'malformed HTTP' => sub {
	for (@broken)
	{
		my ($what, $bytes) = @$_;
		my $answer = eval { $client->fling($bytes) };

		is($@ || ($answer ? complaint($answer) : ''), '', $what);
	}
};

ok($s->alive, 'dvsim survives');
is($s->get('WhoAmI')->status, 200, 'and answers');
is($s->get("accounts($row)")->status, 200, 'and has its rows');
ok($s->stop, 'and ends cleanly');

# ---------------------------------------------------------------- the command line

for my $case (
	[ '--nonsense',                 'unknown argument "--nonsense" (see --help)' ],
	[ '--quirk nonsense',           'there is no quirk "nonsense" (see --help)' ],
	[ '--app-user app1',            'a user is ID:SECRET or ID:@FILE, not "app1"' ],
	[ '--window 5x',                '--window wants a time such as 250ms, 30s, 5min or 1h, not "5x"' ],
	[ '--schema /no/such/file',     'cannot open schema file "/no/such/file": No such file or directory' ],
	[ '--data /no/such/file',       'cannot open data file "/no/such/file": unable to open database file' ],
	[ '--log /no/such/file',        'cannot write log file "/no/such/file": No such file or directory' ])
{
	my ($flags, $said) = @$case;
	my $program = Dvsim::program();

	is(`LC_ALL=C timeout 10 '$program' $flags 2>&1`, "dvsim: $said\n", $flags);
}
done_testing;
