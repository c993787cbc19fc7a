# 071_tolerances.t
#		Requests of common clients that deviate slightly: the service answers
#		them, so dvsim must.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 71);
my $base = $s->base;
my $root = '/api/data/v9.2/';

my $anna = $s->create('accounts', { name => 'Anna & Co', accountnumber => 'A-1' });
my $bert = $s->create('accounts', { name => 'Bert Ltd', accountnumber => 'B-1' });

sub names
{
	my ($r) = @_;
	return $r->status == 200
	  ? [ sort map { $_->{name} } @{ $r->json->{value} } ]
	  : $r->status . ' ' . $r->body;
}

sub batch
{
	my ($body, %headers) = @_;
	return $s->post('$batch', $body,
		'Content-Type' => 'multipart/mixed; boundary=batch_1', %headers);
}

# A batch of GETs, with the given line ends and end of the body.
sub batch_of
{
	my ($eol, $end, @targets) = @_;
	my $body = '';

	for my $target (@targets)
	{
		$body .= join $eol, '--batch_1', 'Content-Type: application/http',
		  'Content-Transfer-Encoding: binary', '', "GET $target HTTP/1.1",
		  'Accept: application/json', '', '', '';
	}
	return batch("$body--batch_1--$end");
}

sub statuses
{
	my ($r) = @_;
	return join ' ', $r->status, $r->body =~ /^HTTP\/1\.1 (\d+)/mg;
}

subtest 'line ends of $batch' => sub {
	my @two = ("${root}accounts($anna)?\$select=name", "${root}accounts($bert)?\$select=name");

	for (
		[ "\r\n", "\r\n", 'as the documentation has it' ],
		[ "\r\n", '', 'nothing behind the closing delimiter' ],
		[ "\n", "\n", 'LF only' ],
		[ "\n", '', 'LF only, nothing behind the closing delimiter' ],
		[ "\n", "\n\n\n", 'LF only, with the documented workaround' ])
	{
		my ($eol, $end, $what) = @$_;
		my $r = batch_of($eol, $end, @two);

		is(statuses($r), '200 200 200', $what);
		like($r->body, qr/Anna.*Bert/s, "$what: in order");
	}

	my $changeset = join "\n", '--batch_1', 'Content-Type: multipart/mixed; boundary=change_1', '',
	  '--change_1', 'Content-Type: application/http', 'Content-Transfer-Encoding: binary',
	  'Content-ID: 1', '', "POST ${root}accounts HTTP/1.1", 'Content-Type: application/json', '',
	  '{"name":"Changed","accountnumber":"LF"}', '--change_1--', '--batch_1--';
	is(statuses(batch($changeset)), '200 204', 'a changeset with LF only');
	is_deeply(names($s->get("accounts?\$select=name&\$filter=accountnumber eq 'LF'")),
		['Changed'], 'and it was carried out');
};

subtest 'request lines of $batch' => sub {
	my $query = "accounts?\$select=name&\$filter=name eq 'Bert Ltd'";

	for (
		[ "$base$root$query", 'absolute URL' ],
		[ "$root$query", 'absolute path' ],
		[ $query, 'relative to the service root' ])
	{
		my $r = batch_of("\r\n", "\r\n", $_->[0]);

		is(statuses($r), '200 200', "$_->[1], with unescaped blanks");
		like($r->body, qr/Bert Ltd/, "$_->[1]: the row is found");
		unlike($r->body, qr/Anna/, "$_->[1]: the filter is applied");
		(my $escaped = $_->[0]) =~ s/ /%20/g;
		is(batch_of("\r\n", "\r\n", $escaped)->body =~ /Bert Ltd/, 1, "$_->[1], with %20");
	}
};

subtest 'response boundary' => sub {
	my $r = batch_of("\r\n", "\r\n", "${root}WhoAmI");
	my $guid = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
	my ($boundary) = ($r->header('Content-Type') // '') =~
	  /^multipart\/mixed; boundary=(batchresponse_$guid)$/;

	ok($boundary, 'batchresponse_<guid>, unquoted')
	  or diag($r->header('Content-Type'));
	like($r->body, qr/^--\Q$boundary\E\r\n/, 'opens the body');
	like($r->body, qr/\r\n--\Q$boundary\E--\s*$/, 'closes the body');
};

subtest 'a long GET in a $batch of one' => sub {
	my $long = join ' or ', map { "accountnumber eq 'none-" . ('x' x 60) . "-$_'" } 1 .. 450;
	my $url = "${root}accounts?\$select=name&\$filter=accountnumber eq 'A-1' or $long";

	$url =~ s/ /%20/g;
	cmp_ok(length $url, '>', 32768, 'longer than a request line may be');
	cmp_ok(length $url, '<', 65536, 'not longer than a part may have');
	my $r = batch_of("\r\n", "\r\n", $url);
	is(statuses($r), '200 200', 'is answered');
	like($r->body, qr/Anna/, 'with its row');
	my $direct = $s->get($url);
	is($direct->status, 400, 'and refused outside');
	is($direct->error_code, '0x80060888', 'with the code for it');
};

subtest 'functions with and without parentheses' => sub {
	my $plain = $s->get('WhoAmI');
	my $empty = $s->get('WhoAmI()');

	is($plain->status, 200, 'WhoAmI');
	is($empty->status, 200, 'WhoAmI()');
	is($empty->json->{UserId}, $plain->json->{UserId}, 'have the same answer');
	is(statuses(batch_of("\r\n", "\r\n", "${root}WhoAmI()")), '200 200', 'in a $batch as well');
};

subtest 'encodings of query strings' => sub {
	for (
		[ "accounts?%24select=name&%24filter=accountnumber%20eq%20'B-1'", 'encoded option names' ],
		[ "accounts?\$select=name&\$filter=accountnumber+eq+'B-1'", '+ for a blank' ],
		[ "accounts?\$select=name&\$filter=name+eq+'Bert+Ltd'", '+ for a blank in a literal' ],
		[ "accounts?\$select=name&\$filter=accountnumber%20eq%20%27B%2d1%27",
			'lower-case escapes' ],
		[ "accounts?\$select=name&\$filter=accountnumber%20eq%20%27B%2D1%27",
			'upper-case escapes' ],
		[ "accounts?%24select=name&fetchXml=%3cfetch%3e%3Centity+name='account'%3e"
			. "%3Cattribute+name=%22name%22/%3E%3Cfilter%3E%3Ccondition+attribute='accountnumber'"
			. "+operator='eq'+value='B-1'/%3E%3C/filter%3E%3C/entity%3E%3C/fetch%3E",
			'FetchXML in both cases and with +' ])
	{
		my ($path, $what) = @$_;

		$path =~ s/^accounts\?%24select=name&fetch/accounts?fetch/;
		is_deeply(names($s->get($path)), ['Bert Ltd'], $what);
	}
	is_deeply(names($s->get("accounts?\$select=name&\$filter=name eq 'Anna %26 Co'")),
		['Anna & Co'], '%26 inside a literal');
};

subtest 'the service root' => sub {
	my $slash = $s->get('/api/data/v9.2/');
	my $none = $s->get('/api/data/v9.2');

	is($slash->status, 200, 'with a trailing slash');
	is($none->status, 200, 'without');
	is_deeply($none->json->{value}, $slash->json->{value}, 'list the same');
	is(scalar grep({ $_->{name} eq 'accounts' } @{ $slash->json->{value} }),
		1, 'and the accounts exist');
};

subtest '@odata.id in Targets' => sub {
	my @forms = (
		[ "$base${root}new_meters(new_serial='T-1')", 'absolute URL', 'T-1' ],
		[ "${root}new_meters(new_serial='T-2')", 'absolute path', 'T-2' ],
		[ "new_meters(new_serial='T-3')", 'relative', 'T-3' ]);

	for (@forms)
	{
		my ($id, $what, $serial) = @$_;
		my $r = $s->post(
			'new_meters/Microsoft.Dynamics.CRM.UpsertMultiple',
			{
				Targets => [
					{
						'@odata.type' => 'Microsoft.Dynamics.CRM.new_meter',
						'@odata.id' => $id,
						new_name => $what
					}
				]
			});

		is($r->status, 204, $what) or diag($r->body);
		$r = $s->get("new_meters(new_serial='$serial')?\$select=new_name");
		is($r->status == 200 && $r->json->{new_name}, $what, "$what: the row exists");
	}
};

subtest '@odata.bind' => sub {
	for (
		[ "$base${root}accounts($anna)", 'absolute URL' ],
		[ "${root}accounts($anna)", 'absolute path' ],
		[ "accounts($anna)", 'relative' ],
		[ "/accounts($anna)", 'relative with a slash, as the documentation has it' ])
	{
		my $id = eval {
			$s->create('contacts',
				{ lastname => $_->[1], 'parentcustomerid_account@odata.bind' => $_->[0] });
		};

		ok($id, $_->[1]) or diag($@);
		my $r = $s->get('contacts(' . ($id // '') . ')?$select=_parentcustomerid_value');
		is($r->status == 200 && $r->json->{_parentcustomerid_value}, $anna, "$_->[1]: is bound");
	}
};

subtest 'loose FetchXML' => sub {
	my $order = "<order attribute='name'/>";

	for (
		[ "<fetch version='1.0' mapping='logical'><entity name='account'><attribute name='name'/>"
			. "<filter><condition attribute='accountnumber' operator='like' value='_-1'/></filter>"
			. '</entity></fetch>', 'with version and mapping' ],
		[ "<fetch><entity name='account'><attribute name='name'/>"
			. "<filter><condition attribute='accountnumber' operator='like' value='_-1'/></filter>"
			. '</entity></fetch>', 'without' ],
		[ "\n <!-- all -->\n<fetch>\n\t<entity name=\"account\">\r\n <!-- a > b -->\n"
			. "  <attribute name='name' ></attribute>\n <filter >\n<!----> <condition"
			. "\n attribute = 'accountnumber'\n operator='like' value='_-1' />\n </filter>\n"
			. " </entity>\n</fetch>\n ", 'with blanks and comments between elements' ])
	{
		is_deeply(names($s->get('accounts?fetchXml=' . Dvsim::escape($_->[0]))),
			[ 'Anna & Co', 'Bert Ltd' ], $_->[1]);
	}
};

subtest 'a paging cookie passed back decoded' => sub {
	my @all = sort 'Changed', 'Anna & Co', 'Bert Ltd', map { "Page $_" } 1 .. 5;
	my @seen;
	my $cookie = '';

	$s->create('accounts', { name => $_ }) for map { "Page $_" } 1 .. 5;
	for my $page (1 .. 20)
	{
		my $xml = "<fetch count='3' page='$page'$cookie><entity name='account'>"
		  . "<attribute name='name'/><order attribute='accountid'/></entity></fetch>";
		my $r = $s->get('accounts?fetchXml=' . Dvsim::escape($xml),
			Prefer => 'odata.include-annotations="*"');

		is($r->status, 200, "page $page") or diag($r->body), last;
		push @seen, map { $_->{name} } @{ $r->json->{value} };
		my $annotation = $r->json->{'@Microsoft.Dynamics.CRM.fetchxmlpagingcookie'} // last;
		my ($twice) = $annotation =~ /pagingcookie="([^"]*)"/;
		s/%([0-9A-Fa-f]{2})/chr hex $1/ge for $twice, $twice;
		like($twice, qr/^<cookie page="$page">/, 'decoded twice it is XML') if $page == 1;
		$twice =~ s/&/&amp;/g;
		$twice =~ s/</&lt;/g;
		$twice =~ s/>/&gt;/g;
		$twice =~ s/"/&quot;/g;
		$cookie = " paging-cookie=\"$twice\"";
	}
	is_deeply([ sort @seen ], \@all, 'every row once');
};

subtest 'headers' => sub {
	my %as_is = (Authorization => undef, 'Content-Type' => undef, Prefer => undef);
	my $bearer = 'Bearer ' . $s->token('app1', 'secret1');

	for my $change (sub { lc $_[0] }, sub { uc $_[0] })
	{
		my %headers = (
			$change->('Authorization') => $bearer,
			$change->('Content-Type') => 'application/json',
			$change->('Prefer') => 'return=representation');
		my $r = $s->post('accounts', { name => 'Case' }, %headers);

		is($r->status, 201, 'names as ' . join ', ', sort keys %headers) or diag($r->body);
	}

	my $annotation = '_parentcustomerid_value@Microsoft.Dynamics.CRM.lookuplogicalname';
	for (
		[ 'odata.maxpagesize=2,odata.include-annotations="*"', 'one Prefer' ],
		[ 'odata.maxpagesize=2, odata.include-annotations="*"', 'one Prefer with a blank' ],
		[ [ 'odata.maxpagesize=2', 'odata.include-annotations="*"' ], 'two of them' ],
		[ 'odata.include-annotations="*",odata.maxpagesize=2', 'the other order' ])
	{
		my $r = $s->get('contacts?$select=_parentcustomerid_value', Prefer => $_->[0]);

		is($r->status, 200, $_->[1]) or diag($r->body), next;
		is(scalar @{ $r->json->{value} }, 2, "$_->[1]: the page size is applied");
		is($r->json->{value}[0]{$annotation}, 'account', "$_->[1]: the annotations are included");
	}

	for (
		'application/json', 'application/json; charset=utf-8', 'application/json;charset=UTF-8',
		'application/json; odata.metadata=minimal', 'application/json; type=entry')
	{
		is($s->post('accounts', { name => 'Type' }, 'Content-Type' => $_)->status, 204, $_);
	}
};

# Parts that end with their headers: only the line end of the delimiter follows the empty
# line.  Microsoft's Python client sends them, with CRLF …
sub python_part
{
	my ($boundary, $id, $method, $url, $body, @headers) = @_;
	my @lines = ("--$boundary", 'Content-Type: application/http',
		'Content-Transfer-Encoding: binary', defined $id ? "Content-ID: $id" : (), '',
		"$method $url HTTP/1.1",
		defined $body ? 'Content-Type: application/json; type=entry' : (), @headers, '',
		$body // ());

	return join("\r\n", @lines) . "\r\n";
}

sub python_changeset
{
	my @parts = @_;
	my $text = "--batch_1\r\nContent-Type: multipart/mixed; boundary=\"changeset_1\"\r\n\r\n";

	return $text . join('', map { python_part('changeset_1', @$_) } @parts)
	  . "--changeset_1--\r\n\r\n";
}

sub python_batch
{
	return batch(join('', @_) . "--batch_1--\r\n",
		'Content-Type' => 'multipart/mixed; boundary="batch_1"');
}

# … and the dynamics-web-api of npm, with LF.
sub dwa_batch
{
	my @requests = @_;
	my @lines;
	my $sets = 0;
	my $in_set = 0;

	for my $request (@requests)
	{
		my ($set, $id, $method, $url, $body, @headers) = @$request;

		push @lines, "\n--changeset_$sets--" if $in_set && !$set;
		if (!$in_set || !$set)
		{
			push @lines, "\n--dwa_batch_1";
			push @lines, 'Content-Type: multipart/mixed;boundary=changeset_' . ++$sets if $set;
		}
		$in_set = $set;
		push @lines, "\n--changeset_$sets" if $set;
		push @lines, 'Content-Type: application/http', 'Content-Transfer-Encoding: binary';
		push @lines, "Content-ID: $id" if $set;
		push @lines, "\n$method $url HTTP/1.1";
		push @lines, $method eq 'GET' ? 'Accept: application/json' : 'Content-Type: application/json';
		push @lines, @headers;
		push @lines, "\n$body" if defined $body;
	}
	push @lines, "\n--changeset_$sets--" if $in_set;
	push @lines, "\n--dwa_batch_1--";
	return batch(join("\n", @lines), 'Content-Type' => 'multipart/mixed;boundary=dwa_batch_1');
}

subtest 'parts of $batch that end with their headers' => sub {
	my @ids = map { $s->create('accounts', { name => "Part $_" }) } 1 .. 4;
	my @urls = map { "$base${root}accounts($_)" } @ids;
	my $r;

	$r = python_batch(
		python_part('batch_1', undef, 'GET', "$urls[0]?\$select=name"),
		python_part('batch_1', undef, 'GET', "$urls[1]?\$select=name", undef,
			'Prefer: odata.include-annotations="*"'),
		python_part('batch_1', undef, 'DELETE', $urls[0], undef, 'If-Match: *'));
	is(statuses($r), '200 200 200 204', 'Python client: without and with headers')
	  or diag($r->body);
	like($r->body, qr/"Part 1".*"Part 2"/s, 'Python client: the rows');

	$r = python_batch(
		python_changeset(
			[ 1, 'POST', "$base${root}accounts", '{"name":"Python set","accountnumber":"PY"}' ],
			[ 2, 'PATCH', '$1', '{"name":"Python set 2"}' ],
			[ 3, 'DELETE', $urls[1], undef, 'If-Match: *' ]),
		python_part('batch_1', undef, 'GET', $urls[1]),
	);
	is(statuses($r), '404 204 204 204 404', 'Python client: DELETE at the end of a change set')
	  or diag($r->body);
	is_deeply(names($s->get("accounts?\$select=name&\$filter=accountnumber eq 'PY'")),
		['Python set 2'], 'Python client: the change set was carried out');
	is(statuses(python_batch(python_part('batch_1', undef, 'GET', "$base${root}WhoAmI()"))),
		'200 200', 'Python client: a function');
	is(statuses(python_batch(python_changeset([ 1, 'GET', $urls[2] ]))), '400',
		'no GET in a change set');

	$r = dwa_batch(
		[ 0, undef, 'GET', "$urls[2]?\$select=name" ],
		[ 0, undef, 'GET', "$urls[3]?\$select=name", undef, 'Prefer: odata.maxpagesize=3' ],
		[ 1, 100001, 'POST', "$base${root}accounts", '{"name":"Dwa","accountnumber":"DWA"}' ],
		[ 1, 100002, 'DELETE', $urls[2] ],
		[ 0, undef, 'GET', "$base${root}accounts?\$select=name&\$top=1" ],
		[ 1, 100001, 'DELETE', $urls[3] ],
		[ 1, 100002, 'POST', "$base${root}contacts", '{"lastname":"Dwa"}' ]);
	is(statuses($r), '200 200 200 204 204 200 204 204',
		'dynamics-web-api: change sets that count from the same number') or diag($r->body);
	is_deeply(names($s->get("accounts?\$select=name&\$filter=accountnumber eq 'DWA'")),
		['Dwa'], 'dynamics-web-api: the change set was carried out');
	is($s->get("accounts($_)")->status, 404, 'dynamics-web-api: deleted') for @ids[ 2, 3 ];

	for (
		[ "--batch_1\r\nContent-Type: application/http\r\n\r\nGET ${root}WhoAmI HTTP/1.1\r\n"
			. "--batch_1--\r\n", 'the request line alone' ],
		[ "--batch_1\r\nContent-Type: application/http\r\n\r\nGET ${root}WhoAmI HTTP/1.1\r\n"
			. "Accept: application/json\r\n--batch_1--\r\n", 'headers without the empty line' ],
		[ "--batch_1\r\nContent-Type: application/http\r\n--batch_1--\r\n", 'no request' ])
	{
		$r = batch($_->[0]);
		is($r->status . ' ' . $r->error_code, '400 0x80048d19', "refused: $_->[1]");
	}
};

subtest 'aliases, and superfluous commas' => sub {
	my $only = '$select=name,revenue';
	my %of = (Cheap => 1, Dear => 9, Free => undef);

	$s->create('accounts', { name => $_, accountnumber => 'ALIAS', revenue => $of{$_} })
	  for sort keys %of;
	my $ordered = sub {
		my $r = $s->get("accounts?$only&$_[0]");
		return $r->status == 200 ? join(' ', map { $_->{name} } @{ $r->json->{value} })
		  : $r->status . ' ' . $r->error_code;
	};
	my $here = "accountnumber eq 'ALIAS'";

	is($ordered->("\$orderby=\@p1 asc,\@p2 desc&\$filter=\@p1 ne \@p3 and $here&\@p1=revenue&\@p2=name"),
		'Cheap Dear', 'the documented example: columns, and an alias without a value');
	is($ordered->("\$filter=contains(\@p1,'e') and \@p2 eq \@p3&\$orderby=\@p4 desc, \@p1 asc"
			. "&\@p1=name&\@p2=accountnumber&\@p3='ALIAS'&\@p4=revenue"), 'Dear Cheap Free',
		'the sample');
	is($ordered->("\$filter=$here&\$orderby=\@p1&\@p1=name"), 'Cheap Dear Free', 'no direction');
	is($ordered->("\$filter=$here&\$orderby=\@p1&\@p1=name desc"), '400 0x80060888',
		'a direction is not part of the value');
	is($ordered->("\$filter=$here&\$orderby=\@p1 desc"), '400 0x80060888', 'order by nothing');
	is($ordered->("\$filter=\@p1 eq 'ALIAS'&\@p1=nocolumn"), '400 0x0', 'no such column');
	is($ordered->("\$filter=\@p1 eq 'ALIAS'&\@p1=accountnumber eq 'ALIAS'"), '400 0x80060888',
		'an alias is no condition');
	is($ordered->("\$filter=Microsoft.Dynamics.CRM.EqualUserId(PropertyName=\@p1)&\@p1=ownerid"),
		'400 0x80060888', 'a name instead of a text');
	is($s->get("accounts?\$expand=contact_customer_accounts(\$orderby=\@p1)&\@p1=fullname")->status,
		400, 'not inside $expand');

	for ("accounts?\$select=name,&\$filter=$here", "accounts?\$select=name, &\$filter=$here",
		"accounts?\$select=name,&\$expand=owninguser(\$select=fullname,)&\$filter=$here")
	{
		my $r = $s->get($_);

		is_deeply(names($r), [qw(Cheap Dear Free)], $_);
		like($r->status == 200 && $r->json->{'@odata.context'}, qr/#accounts\(name(?:,owninguser\(fullname\))?\)$/,
			'the context has no extra comma');
	}
	is($s->get("accounts?\$select=$_")->status, 400, "\$select=$_") for ',', ',name', 'name,,revenue', 'name,,';
	is($s->get("EntityDefinitions(LogicalName='account')?\$select=LogicalName,")->status, 200,
		'in definitions');
};

subtest 'near misses' => sub {
	for (
		"not Microsoft.Dynamics.CRM.Last7Days(PropertyName=\@p1)&\@p1='createdon'",
		"not Microsoft.Dynamics.CRM.EqualUserId(PropertyName=\@p1)&\@p1='ownerid'",
		"not (Microsoft.Dynamics.CRM.Last7Days(PropertyName='createdon'))")
	{
		my $r = $s->get("accounts?\$select=name&\$filter=$_");

		is($r->status, 400, $_);
		is($r->json->{error}{message},
			'Not operator along with the Custom Named Condition operators is not allowed',
			'with the documented message');
	}
};

ok($s->stop, 'dvsim ends cleanly');
done_testing;
