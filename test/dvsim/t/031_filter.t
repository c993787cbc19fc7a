# 031_filter.t
#		The rows that $filter finds: NULL, texts that are equal under the
#		collation, wildcards, numbers, dates, identifiers, lookups,
#		collections.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use POSIX qw(strftime);
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);

my $s = Dvsim->start('--seed', 31);

# a value for the query part of a URL
sub escape
{
	my ($text) = @_;

	utf8::encode($text);
	$text =~ s/([^A-Za-z0-9_.~\/(),:'=-])/sprintf('%%%02X', ord $1)/ge;
	return $text;
}

# the names of the rows that match the filter, sorted
sub found
{
	my ($set, $filter, $name, $more) = @_;
	my $r = $s->get("$set?\$select=$name&\$filter=" . escape($filter) . ($more // ''));

	return "$r->{status}: " . $r->body if $r->status != 200;
	return join ' ', sort map { $_->{$name} } @{ $r->json->{value} };
}

sub finds
{
	my ($filter, $expected, $more) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(found('new_alltypeses', $filter, 'new_name', $more), $expected, $filter);
	return;
}

sub refused
{
	my ($filter, $code, $message) = @_;
	my $r = $s->get('new_alltypeses?$select=new_name&$filter=' . escape($filter));

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($r->status, 400, "refused: $filter");
	is($r->json->{error}{code}, $code, "code: $filter");
	like($r->json->{error}{message}, $message, "message: $filter");
	return;
}

my %id;

sub row
{
	my ($name, %columns) = @_;

	$id{$name} = $s->create('new_alltypeses', { new_name => $name, %columns });
	return;
}

my $fn = 'Microsoft.Dynamics.CRM.';

# ---- text: variants in case, accents, trailing blanks; one row has NULL, one was written as ''
row('t1', new_text => 'Café');
row('t2', new_text => 'CAFE');
row('t3', new_text => 'cafe  ');
row('t4', new_text => 'Coffee 50% off');
row('t5', new_text => 'coffee_shop [x]');
row('t6', new_text => '');
row('t7');
row('t8', new_text => "O'Neil & Sons", new_longtext => "O'Neil & Sons");

my $texts = "startswith(new_name,'t') and ";

finds("new_text eq 'cafe'", 't1 t2 t3');
finds("new_text eq 'cafe   '", 't1 t2 t3');
finds("new_text eq ' cafe'", '');
finds("new_text eq ''", '');
finds("${texts}new_text eq null", 't6 t7');
finds("new_text ne null", 't1 t2 t3 t4 t5 t8');
finds("${texts}new_text ne 'CAFÉ'", 't4 t5 t6 t7 t8');
finds("${texts}not (new_text eq 'CAFÉ')", 't4 t5 t6 t7 t8');
finds("new_text gt 'cafe'", 't4 t5 t8');
finds("new_text le 'cafe'", 't1 t2 t3');
finds("${texts}not (new_text gt 'cafe')", 't1 t2 t3');
finds("new_text eq 'o''neil & sons'", 't8');
finds("contains(new_text,'AFÉ')", 't1 t2 t3');
finds("startswith(new_text,'c')", 't1 t2 t3 t4 t5');
finds("endswith(new_text,'OFF')", 't4');
finds("${texts}not startswith(new_text,'c')", 't6 t7 t8');
finds("${texts}not contains(new_text,'a')", 't4 t5 t6 t7 t8');
finds("contains(new_text,'')", 't1 t2 t3 t4 t5 t8');
# wildcards work in the values
finds("contains(new_text,'c_f')", 't1 t2 t3 t4 t5');
finds("contains(new_text,'50%off')", 't4');
finds("contains(new_text,'50[%]')", 't4');
finds("contains(new_text,'e[_]s')", 't5');
finds("contains(new_text,'[[]x]')", 't5');
finds("startswith(new_text,'[o]')", 't8');
finds("startswith(new_text,'[^c]')", 't8');
finds("startswith(new_text,'c[ao]')", 't1 t2 t3 t4 t5');
finds("new_text eq 'c%'", '');
finds("new_text eq new_longtext", 't8');
finds("${texts}new_text ne new_longtext", 't6 t7');
finds("${fn}In(PropertyName='new_text',PropertyValues=[\"CAFÉ\",\"O'Neil & Sons\"])",
	't1 t2 t3 t8');
finds("${texts}${fn}NotIn(PropertyName='new_text',PropertyValues=[\"cafe\"])", 't4 t5 t6 t7 t8');
finds("${fn}Between(PropertyName='new_text',PropertyValues=[\"CAFÉ\",\"cafe\"])", 't1 t2 t3');
finds("${fn}In(PropertyName=\@c,PropertyValues=\@v)", 't8',
	'&@c=' . escape("'new_text'") . '&@v=' . escape(q(["O'Neil & Sons","x"])));
finds("new_text eq \@v", 't1 t2 t3', '&@v=' . escape("'café'"));
finds("${texts}new_text eq \@v", 't6 t7');

# ---- numbers
row('n1', new_integer => 5, new_decimal => 12.5, new_double => 1.5, new_money => 10);
row('n2', new_integer => -7, new_decimal => -12.5, new_double => -1.5, new_money => 10.25);
row('n3', new_integer => 0, new_decimal => 0, new_double => 0, new_money => 0);
row('n4');
row('n5', new_bigint => 9007199254740993);
row('n6', new_bigint => 9007199254740992);

my $numbers = "startswith(new_name,'n') and ";

finds('new_integer eq 5', 'n1');
finds('new_integer lt 0', 'n2');
finds("${numbers}new_integer ne 5", 'n2 n3 n4 n5 n6');
finds("${numbers}not (new_integer ge 0)", 'n2');
finds('new_integer gt 4.5', 'n1');
finds('new_integer lt 99999999999999999999', 'n1 n2 n3');
finds('new_decimal eq 12.50', 'n1');
finds('new_decimal lt 0.0001', 'n2 n3');
finds('new_decimal ge -12.5', 'n1 n2 n3');
finds('new_double eq -1.5', 'n2');
finds('new_money gt 10', 'n2');
finds('new_money ge 1e1', 'n1 n2');
finds('new_bigint eq 9007199254740993', 'n5');
finds('new_bigint gt 9007199254740992', 'n5');
finds("${fn}In(PropertyName='new_integer',PropertyValues=[\"5\",\"0\"])", 'n1 n3');
finds("${fn}In(PropertyName='new_decimal',PropertyValues=[\"12.5\"])", 'n1');
finds("${fn}Between(PropertyName='new_integer',PropertyValues=[\"0\",\"5\"])", 'n1 n3');
finds("${numbers}${fn}NotBetween(PropertyName='new_integer',PropertyValues=[\"0\",\"5\"])",
	'n2 n4 n5 n6');
finds("${numbers}new_integer lt new_percent", '');

# ---- choices, booleans, choices in sets
row('c1', new_choice => 100000000, new_boolean => \1, new_choices => '1,2');
row('c2', new_choice => 100000001, new_boolean => \0, new_choices => '2');
row('c3');

my $choices = "startswith(new_name,'c') and ";

finds('new_choice eq 100000000', 'c1');
finds("${choices}new_choice ne 100000000", 'c2 c3');
finds('new_boolean eq false', 'c2');
finds("${choices}new_boolean ne true", 'c2 c3');
finds("${fn}ContainValues(PropertyName='new_choices',PropertyValues=[\"2\"])", 'c1 c2');
finds("${fn}ContainValues(PropertyName='new_choices',PropertyValues=[\"1\",\"3\"])", 'c1');
finds("${choices}${fn}DoesNotContainValues(PropertyName='new_choices',PropertyValues=[\"1\"])",
	'c2 c3');
finds("new_choices eq '2,1'", 'c1');

# helper columns are computed when the row is read
for my $helper (qw(new_image_url new_image_timestamp new_file_name))
{
	refused("$helper ne null", '0x80040203', qr/'$helper'.*cannot be used/);
	is($s->get("new_alltypeses?\$select=$helper&\$orderby=$helper")->status, 400, "nor in an order");
	like(
		$s->get('new_alltypeses?fetchXml=' . escape("<fetch><entity name='new_alltypes'><filter><condition attribute='$helper' operator='not-null'/></filter></entity></fetch>"))->body,
		qr/0x80040203/, 'nor in FetchXML');
}
refused("contains(new_file_name,'a')", '0x80040203', qr/new_file_name/);
refused("${fn}In(PropertyName='new_image_timestamp',PropertyValues=[\"1\"])", '0x80040203',
	qr/new_image_timestamp/);
finds("new_imageid ne null", '');

# ---- quirks
{
	my $since = "startswith(new_name,'q') and ";
	my $fetch = sub {
		my ($operator) = @_;
		my $r = $s->get('new_alltypeses?fetchXml=' . escape("<fetch><entity name='new_alltypes'><attribute name='new_name'/><filter><condition attribute='new_name' operator='begins-with' value='q'/><condition attribute='new_choices' operator='$operator'><value>2</value></condition></filter></entity></fetch>"));
		return join ' ', sort map { $_->{new_name} } @{ $r->json->{value} };
	};

	row('q1', new_choices => '1,2');
	$s->quirks('lagging-full-text');
	finds("${since}${fn}ContainValues(PropertyName='new_choices',PropertyValues=[\"2\"])", '');
	finds("${since}${fn}DoesNotContainValues(PropertyName='new_choices',PropertyValues=[\"2\"])", 'q1');
	is($fetch->('contain-values'), '', 'FetchXML uses the same index');
	is($fetch->('not-contain-values'), 'q1');
	finds("${since}new_choices ne null", 'q1');
	is($s->control('POST', '/_dvsim/clock', { advance => '6s' })->status, 200);
	finds("${since}${fn}ContainValues(PropertyName='new_choices',PropertyValues=[\"2\"])", 'q1');
	is($fetch->('contain-values'), 'q1');

	$s->quirks('no-in');
	refused("${fn}In(PropertyName='new_integer',PropertyValues=[\"5\"])", '0x80060888', qr/CRM\.In'/);
	refused("${fn}NotIn(PropertyName='new_integer',PropertyValues=[\"5\"])", '0x80060888', qr/CRM\.NotIn'/);
	finds("${fn}Between(PropertyName='new_integer',PropertyValues=[\"0\",\"5\"])", 'n1 n3');

	$s->quirks('property-values-100');
	my $list = sub { return join ',', map { "\"$_\"" } 5 .. $_[0] + 4 };
	finds("${fn}In(PropertyName='new_integer',PropertyValues=[" . $list->(100) . '])', 'n1');
	refused("${fn}In(PropertyName='new_integer',PropertyValues=[" . $list->(101) . '])', '0x8004430E',
		qr/exceeded maximum limit/);
	$s->quirks();
	finds("${fn}In(PropertyName='new_integer',PropertyValues=[" . $list->(101) . '])', 'n1');
}

# ---- dates
my $day = 86400;
my $now = time;

sub at { return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_[0]); }
sub on { return strftime('%Y-%m-%d', gmtime $_[0]); }

my $noon = int($now / $day) * $day + $day / 2;

row('d1', new_datetime => '2024-02-29T23:59:59Z', new_date => '2024-02-29');
row('d2', new_datetime => '2024-03-01T00:00:00Z', new_date => '2024-03-01');
row('d3', new_datetime => at($now - 3600), new_date => on($noon));
row('d4', new_datetime => at($noon - 3 * $day), new_date => on($noon - 3 * $day));
row('d5', new_datetime => at($noon + 2 * $day), new_date => on($noon + 2 * $day));
row('d6');

my $dates = "startswith(new_name,'d') and ";

finds('new_datetime eq 2024-02-29T23:59:59Z', 'd1');
finds('new_datetime lt 2024-03-01', 'd1');
finds('new_datetime lt 2024-03-01T01:00:00+01:00', 'd1');
finds('new_date eq 2024-02-29', 'd1');
finds('new_date le 2024-03-01', 'd1 d2');
finds("${dates}new_date ne 2024-02-29", 'd2 d3 d4 d5 d6');
finds("${fn}On(PropertyName='new_datetime',PropertyValue=2024-02-29)", 'd1');
finds("${fn}OnOrBefore(PropertyName='new_datetime',PropertyValue='2024-03-01')", 'd1 d2');
finds("${fn}OnOrAfter(PropertyName='new_datetime',PropertyValue=\@d)", 'd3 d4 d5',
	'&@d=' . on($noon - 3 * $day));
finds("${fn}Today(PropertyName='new_date')", 'd3');
finds("${fn}LastXHours(PropertyName='new_datetime',PropertyValue=2)", 'd3');
finds("${fn}LastXDays(PropertyName='new_datetime',PropertyValue=3)", 'd3 d4');
finds("${fn}Last7Days(PropertyName='new_date')", 'd3 d4');
finds("${fn}Next7Days(PropertyName='new_datetime')", 'd5');
finds("${fn}OlderThanXDays(PropertyName='new_datetime',PropertyValue=2)", 'd1 d2 d4');
finds("${fn}OlderThanXYears(PropertyName='new_datetime',PropertyValue=1)", 'd1 d2');
finds("${fn}Tomorrow(PropertyName='new_date')", '');

# ---- identifiers
finds("new_alltypesid eq $id{t1}", 't1');
finds("new_alltypesid eq " . uc $id{t1}, 't1');
finds("${fn}In(PropertyName='new_alltypesid',PropertyValues=[\"$id{t1}\",\"{$id{n2}}\"])", 'n2 t1');
finds("${texts}new_alltypesid ne $id{t1}", 't2 t3 t4 t5 t6 t7 t8');
# SQL Server's order: the last six bytes first
row('g1', new_alltypesid => 'ffffffff-0000-0000-0000-000000000001');
row('g2', new_alltypesid => '00000000-0000-0000-0000-000000000002');
row('g3', new_alltypesid => '00000000-0000-0000-0001-000000000001');
finds("startswith(new_name,'g') and new_alltypesid gt ffffffff-0000-0000-0000-000000000001",
	'g2 g3');
finds("new_alltypesid lt 00000000-0000-0000-0001-000000000001 and startswith(new_name,'g')", 'g1');
is(join(' ', map { $_->{new_name} } @{ $s->get('new_alltypeses?$select=new_name&$filter=' .
			escape("startswith(new_name,'g')") . '&$orderby=new_alltypesid')->json->{value} }),
	'g1 g3 g2', 'the same order for $orderby');
{
	my $me = $s->get('WhoAmI')->json->{UserId};

	is(found('new_alltypeses', "startswith(new_name,'g') and ${fn}EqualUserId(PropertyName='ownerid')",
			'new_name'), 'g1 g2 g3', 'EqualUserId');
	is(found('new_alltypeses', "${fn}NotEqualUserId(PropertyName='ownerid')", 'new_name'), '',
		'NotEqualUserId');
	is(found('new_alltypeses', "startswith(new_name,'g') and "
				. "${fn}NotEqualUserId(PropertyName='new_userid')", 'new_name'), 'g1 g2 g3',
		'NotEqualUserId matches null');
	is(found('new_alltypeses', "startswith(new_name,'g') and _ownerid_value eq $me", 'new_name'),
		'g1 g2 g3', 'the owner by id');
	is(found('new_alltypeses', "startswith(new_name,'g') and "
				. "${fn}EqualBusinessId(PropertyName='owningbusinessunit')", 'new_name'), 'g1 g2 g3',
		'EqualBusinessId');
}

# ---- lookups and collections
my $a1 = $s->create('accounts', { name => 'Alpha', numberofemployees => 1 });
my $a2 = $s->create('accounts', { name => 'Beta', 'parentaccountid@odata.bind' => "/accounts($a1)" });
my $a3 = $s->create('accounts', { name => 'Gamma', 'parentaccountid@odata.bind' => "/accounts($a2)" });
my $c1 = $s->create('contacts', { firstname => 'X', lastname => 'One',
		'parentcustomerid_account@odata.bind' => "/accounts($a1)" });
my $c2 = $s->create('contacts', { firstname => 'Y', lastname => 'Two', numberofchildren => 3,
		'parentcustomerid_account@odata.bind' => "/accounts($a1)" });
my $c3 = $s->create('contacts', { firstname => 'Z', lastname => 'Three',
		'parentcustomerid_contact@odata.bind' => "/contacts($c1)" });
$s->create('tasks', { subject => 'T', 'regardingobjectid_contact_task@odata.bind' => "/contacts($c2)" });
$s->post("accounts($a2)/new_Account_Contact/\$ref", { '@odata.id' => $s->base
			. "/api/data/v9.2/contacts($c3)" });

sub accounts { return found('accounts', $_[0], 'name'); }
sub contacts { return found('contacts', $_[0], 'lastname'); }

is(accounts("parentaccountid/name eq 'ALPHA'"), 'Beta', 'through a lookup');
is(accounts("parentaccountid/parentaccountid/name eq 'alpha'"), 'Gamma', 'through two');
is(accounts("parentaccountid/name ne 'Alpha'"), 'Alpha Gamma', 'a missing row is null');
is(accounts("parentaccountid/name eq null"), 'Alpha', 'null through a lookup');
is(accounts("_parentaccountid_value eq $a1"), 'Beta', 'a lookup\'s value');
is(accounts("_parentaccountid_value ne $a1"), 'Alpha Gamma', 'and its negation');
is(contacts("parentcustomerid_account/name eq 'Alpha'"), 'One Two', 'polymorphic');
is(contacts("parentcustomerid_contact/lastname eq 'one'"), 'Three', 'its other target');
is(accounts("contact_customer_accounts/any(c:c/lastname eq 'one')"), 'Alpha', 'any');
is(accounts("contact_customer_accounts/any()"), 'Alpha', 'any row');
is(accounts("not contact_customer_accounts/any()"), 'Beta Gamma', 'none');
is(accounts("contact_customer_accounts/any(c:c/lastname eq 'one' and c/firstname eq 'Y')"), '',
	'any: one row must meet all conditions');
is(accounts("contact_customer_accounts/all(c:c/lastname eq 'one')"), 'Beta Gamma', 'all');
is(accounts("contact_customer_accounts/all(c:startswith(c/lastname,'o') or c/numberofchildren eq 3)"),
	'Alpha Beta Gamma', 'all of them');
is(accounts("contact_customer_accounts/all(c:c/numberofchildren gt 2)"), 'Beta Gamma',
	'all: null does not match');
is(accounts("contact_customer_accounts/any(c:c/Contact_Tasks/any(t:t/subject eq 't'))"), 'Alpha',
	'nested');
is(accounts("contact_customer_accounts/any(c:c/parentcustomerid_account/name eq 'Alpha')"), 'Alpha',
	'a lookup within');
is(accounts("new_Account_Contact/any(c:c/lastname eq 'three')"), 'Beta', 'many to many');
is(contacts("new_Account_Contact/any(a:a/name eq 'beta')"), 'Three', 'from the other side');
is(accounts("contact_customer_accounts/any(c:c/${fn}In(PropertyName='lastname',"
			. "PropertyValues=[\"two\"]))"), 'Alpha', 'a query function within');

# ---- refusals, with the service's messages
refused("New_Text eq 'x'", '0x0',
	qr/^Could not find a property named 'New_Text' on type 'Microsoft.Dynamics.CRM.new_alltypes'\.$/);
refused("new_meterid eq $a1", '0x0', qr/'new_meterid'/);
refused("new_text eq 5", '0x80060888', qr/^A binary operator with incompatible types was detected\. /);
refused("tolower(new_text) eq 'x'", '0x80060888', qr/tolower/);
refused("not ${fn}In(PropertyName='new_text',PropertyValues=[\"x\"])", '0x80060888',
	qr/^Not operator along with the Custom Named Condition operators is not allowed$/);
refused("${fn}In(PropertyName='nothing',PropertyValues=[\"x\"])", '0x80041103', qr/'nothing'/);
refused("${fn}In(PropertyName='new_text',PropertyValues=['O'Neil'])", '0x80060888',
	qr/^Invalid JSON\. A comma character ',' was expected in scope 'Array'/);
refused(join(' or ', ("new_integer eq 1") x 501), '0x8004430C', qr/exceeded maximum limit/);
finds(join(' or ', ("new_integer eq 5") x 500), 'n1');
is(found('new_readings', "new_name eq 'x'", 'new_name'), '', 'an elastic table');
like(found('new_readings', "new_MeterId/new_name eq 'x'", 'new_name'), qr/0x80048d0b/,
	'elastic: no joins');
like(found('new_readings', "new_name eq new_raw", 'new_name'), qr/0x80048d0b/,
	'elastic: no comparison of columns');

# ---- a long list of values
{
	my @values = map { sprintf '"%d"', $_ } 1 .. 3000;
	my $list = join ',', @values;

	finds("${fn}In(PropertyName='new_integer',PropertyValues=[$list])", 'n1');
}

done_testing();
