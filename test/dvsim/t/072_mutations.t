# 072_mutations.t
#		Some thousands of valid requests, each damaged at random places: every
#		one must get a well-formed answer, over one keep-alive connection.
#
# Mutations spare the framing of HTTP, so a closed connection is an error (a few are
# tolerated, for requests that libmicrohttpd itself cannot read).  SEED and COUNT of the
# environment repeat or lengthen a run.  Under AddressSanitizer this also proves that
# nothing leaks or reads out of bounds, because the exit status of dvsim is checked.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use RawClient;
use Test::More;

my $seed = $ENV{SEED} // 72;
my $count = $ENV{COUNT} // 4000;
my $s = Dvsim->start('--seed', 7, '--limit-requests', 100_000_000, '--limit-exec', '1000000s');
my $client = RawClient->new($s, 'Bearer ' . $s->token('app1', 'secret1'));
my $row = $s->create('accounts', { name => 'Row' });
my $root = RawClient::ROOT;
my $guid = '11111111-2222-3333-4444-555555555555';
my $ns = 'Microsoft.Dynamics.CRM';

note("SEED=$seed COUNT=$count");
srand $seed;

# ---------------------------------------------------------------- valid requests

my @reads = (
	'accounts',
	"accounts($row)?\$select=name,_primarycontactid_value",
	"new_meters(new_serial='A-17')?\$select=new_serial",
	'accounts?$select=name,revenue&$top=3&$count=true&$orderby=name desc,accountid',
	"accounts?\$filter=(name eq 'a''b' or startswith(name,'x%25')) and not (revenue gt 1.5)",
	"accounts?\$filter=createdon ge 2023-01-31T10:00:00Z and accountid ne $guid",
	"accounts?\$filter=$ns.In(PropertyName=\@p1,PropertyValues=\@p2)&\@p1='name'"
	  . '&@p2=["a","b"]',
	"accounts?\$filter=$ns.LastXDays(PropertyName='createdon',PropertyValue=7)",
	"accounts?\$filter=contact_customer_accounts/any(o:o/lastname eq 'x' and o/createdon ne null)",
	"contacts?\$filter=parentcustomerid_account/name eq 'x'&\$expand=parentcustomerid_account",
	'accounts?$expand=contact_customer_accounts($select=lastname;$top=2;$orderby=lastname)',
	'accounts?$expand=primarycontactid($select=fullname)&$filter=primarycontactid/fullname ne null',
	'accounts?$apply=filter(revenue gt 1)/groupby((name),aggregate($count as n,'
	  . 'revenue with sum as t))',
	'accounts?$select=name&$skiptoken=%3Ccookie%20pagenumber=%222%22%20pagingcookie=%22%253ccookie'
	  . '%2520page%253d%25221%2522%253e%253caccountid%2520last%253d%2522%257bD502%257d%2522%2520'
	  . '%252f%253e%253c%252fcookie%253e%22%20istracking=%22False%22%20/%3E',
	'accounts/$count',
	"accounts($row)/name/\$value",
	"accounts($row)/contact_customer_accounts?\$select=lastname",
	"new_readings?partitionId='p'&\$select=partitionid",
	"EntityDefinitions(LogicalName='account')/Attributes?\$select=LogicalName",
	"EntityDefinitions?\$select=LogicalName&\$expand=Keys&\$filter=LogicalName eq 'account'",
	"EntityDefinitions(LogicalName='account')/Attributes/$ns.StringAttributeMetadata",
	"RelationshipDefinitions/$ns.OneToManyRelationshipMetadata?\$filter=ReferencedEntity eq 'x'",
	'RetrieveTotalRecordCount(EntityNames=@p1)?@p1=["account","contact"]',
	'RetrieveMetadataChanges(Query=@p1)?@p1={"Criteria":{"FilterOperator":"And","Conditions":['
	  . '{"PropertyName":"LogicalName","ConditionOperator":"Equals","Value":{"Type":'
	  . '"System.String","Value":"account"}}]}}',
	'WhoAmI()',
	'$metadata');

my @fetches = (
	"<fetch count='5' page='1'><entity name='account'><attribute name='name'/>"
	  . "<order attribute='name' descending='true'/><filter type='or'>"
	  . "<condition attribute='name' operator='like' value='a%'/>"
	  . "<condition attribute='revenue' operator='between'><value>1</value><value>2</value>"
	  . "</condition></filter><link-entity name='contact' from='parentcustomerid' to='accountid'"
	  . " alias='c' link-type='outer'><attribute name='lastname' alias='l'/></link-entity>"
	  . '</entity></fetch>',
	"<fetch aggregate='true'><entity name='account'>"
	  . "<attribute name='name' alias='n' groupby='true'/>"
	  . "<attribute name='revenue' alias='s' aggregate='sum'/><order alias='n'/></entity></fetch>");

my $account = "\"\@odata.type\":\"$ns.account\"";
my $meter = "\"\@odata.type\":\"$ns.new_meter\"";
my @bodies = (
	[ 'accounts', '{"name":"Contoso","revenue":12.5,"numberofemployees":5,"creditonhold":true,'
		  . "\"primarycontactid\@odata.bind\":\"/contacts($guid)\",\"description\":null}" ],
	[ "accounts/$ns.CreateMultiple",
		"{\"Targets\":[{$account,\"name\":\"a\"},{$account,\"name\":\"b\",\"revenue\":1e3}]}" ],
	[ "accounts/$ns.UpdateMultiple",
		"{\"Targets\":[{$account,\"accountid\":\"$row\",\"name\":\"u\"}]}" ],
	[ "new_meters/$ns.UpsertMultiple",
		"{\"Targets\":[{$meter,\"\@odata.id\":\"new_meters(new_serial='A-17')\","
		  . '"new_name":"x"}]}' ],
	[ "accounts($row)/contact_customer_accounts/\$ref", "{\"\@odata.id\":\"contacts($guid)\"}" ],
	[ 'BulkDelete', "{\"QuerySet\":[{\"\@odata.type\":\"$ns.QueryExpression\","
		  . '"EntityName":"new_meter","Criteria":{"FilterOperator":"And","Conditions":['
		  . '{"AttributeName":"new_meterid","Operator":"In","Values":['
		  . "{\"Value\":\"$guid\",\"Type\":\"System.Guid\"}]}]}}],\"JobName\":\"x\","
		  . '"SendEmailNotification":false,"ToRecipients":[],"CCRecipients":[],'
		  . '"RecurrencePattern":"","StartDateTime":"2026-01-01T00:00:00Z"}' ]);

my @good = (
	map({ get($_) } @reads),
	map({ fetch($_) } @fetches),
	map({ post(@$_) } @bodies),
	{ method => 'PATCH', target => "${root}accounts($row)",
		body => '{"name":"New \\u00e4 \\ud83d\\ude00","revenue":-1.5e2}',
		headers => { 'If-Match' => '*', Prefer => 'return=representation' } },
	{ method => 'PUT', target => "${root}accounts($row)/name", body => '{"value":"x"}' },
	{ method => 'DELETE', target => "${root}accounts($guid)",
		headers => { 'If-Match' => 'W/"12345"' } },
	batch([
			'--b', 'Content-Type: multipart/mixed; boundary="c"', '',
			part('c', 1, "POST ${root}accounts HTTP/1.1",
				'Content-Type: application/json; type=entry', '', '{"name":"Parent"}'),
			part('c', 2, 'PATCH $1 HTTP/1.1', 'Content-Type: application/json', '',
				'{"name":"Child"}'),
			'--c--',
			part('b', undef, "GET ${root}accounts?\$select=name&\$top=1 HTTP/1.1",
				'Accept: application/json', '', ''),
			'--b--']));

# ---------------------------------------------------------------- damage

my @dictionary = (
	split(/ /, q{' " ( ) [ ] { } , : ; $ @ / ? & = < > ! % %% %0 %00 %zz %FF %C0%80 %ED%A0%80 %27}),
	split(/ /, q{%2F %20 + \\ \\u0000 \\ud800 \\" null true NaN - -- 1e999 0.0.0 $1 $ref $value}),
	split(/ /, q{$count $select= $filter= any( all( not%20 %20and%20 @odata.bind @odata.type --b}),
	split(/ /, q{--b-- --c <!-- ]]> <![CDATA[ &amp; &#0; &#x110000; /> -9223372036854775808}),
	"\xff", "\xc3", "\xed\xa0\x80", '18446744073709551616', '9' x 60, "$ns.", $guid,
	'0' x 100, 'x' x 300, '(' x 200, '[' x 200, '{"a":' x 100, '<a>' x 100, "\r\n", "\0");

my %header_values = (
	'Prefer' => 'odata.include-annotations="*",odata.maxpagesize=5,odata.track-changes',
	'If-Match' => 'W/"123"',
	'If-None-Match' => 'null',
	'Accept' => 'application/json;odata.metadata=minimal',
	'Accept-Encoding' => 'gzip, deflate',
	'Content-Type' => 'multipart/mixed; boundary="b"',
	'MSCRM.SessionToken' => '240:8#144100870#7=-1',
	'MSCRMCallerID' => $guid,
	'Cookie' => 'ARRAffinity=abc; x=y');

sub pick { return $_[ int rand @_ ]; }

# Changes a text at one random place.
sub damaged
{
	my ($text) = @_;
	my $at = int rand(1 + length $text);
	my $length = int rand pick(2, 8, 40);
	my $what = int rand 8;

	return substr $text, 0, $at if $what == 0;
	$length = length($text) - $at if $length > length($text) - $at;
	substr($text, $at, $length) = '' if $what == 1;
	substr($text, $at, $length) = pick(@dictionary) if $what == 2;
	substr($text, $at, $length) = chr int rand 256 if $what == 3;
	substr($text, $at, 0) = substr $text, int rand(1 + length $text), $length if $what == 4;
	substr($text, $at, 0) = pick(@dictionary) x (1 + int rand 50) if $what == 5;
	substr($text, $at, 0) = pick(@dictionary) if $what > 5;
	return $text;
}

# A valid request with its target, its body, or a header damaged.
sub mutation
{
	my %r = %{ pick(@good) };
	my $where = int rand(defined $r{body} ? 6 : 3);

	for (1 .. 1 + int rand 3)
	{
		if ($where == 0)
		{
			my $name = pick(sort keys %header_values);
			my $value = damaged($header_values{$name});

			$value =~ s/[^\x20-\x7e]/?/g;
			%r = %{ with(\%r, $name => $value) };
		}
		elsif ($where < 3)
		{
			$r{target} = RawClient::target('/' . damaged(substr $r{target}, 1));
		}
		else
		{
			$r{body} = damaged($r{body});
		}
	}
	$r{method} = pick(qw(GET POST PATCH PUT DELETE HEAD)) if rand() < 0.02;
	return \%r;
}

# ---------------------------------------------------------------- the run

my ($wrong, $closed, %statuses) = (0, 0);

for my $n (1 .. $count)
{
	my $mutation = mutation();
	my $answer = eval { $client->ask($mutation) };
	my $problem = $@ || ($answer ? complaint($answer) : '');

	$closed++ unless $answer;
	$statuses{ $answer->{status} }++ if $answer;
	next if $problem eq '';
	$client->hang_up;
	diag("mutation $n: $problem\n" . substr RawClient::text_of($mutation, ''), 0, 2000)
	  if ++$wrong <= 10;
	last unless $s->alive;
}

is($wrong, 0, "$count mutations, each with a well-formed answer")
  or diag("repeat with SEED=$seed");
note('statuses: ' . join ', ', map { "$_: $statuses{$_}" } sort keys %statuses);
cmp_ok($closed, '<', $count / 50, 'few of them close the connection');
cmp_ok($statuses{200} // 0, '>', $count / 50, 'some were still valid');
cmp_ok($statuses{400} // 0, '>', $count / 5, 'many were refused');
ok($s->alive, 'dvsim survives');
is($s->get('WhoAmI')->status, 200, 'and answers');
is($s->get('accounts?$top=1')->status, 200, 'and has its rows');
ok($s->stop, 'and ends cleanly');
done_testing;
