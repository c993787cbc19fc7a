# 042_fetch_aggregate.t
#		FetchXML: aggregates, groups, distinct.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 7);

my $owner = $s->create('contacts', { lastname => 'Anna' });
my @rows = (
	{ name => 'a', numberofemployees => 1500, address1_city => 'Redmond', revenue => 10.5,
		industrycode => 2, address1_latitude => 1.5 },
	{ name => 'b', numberofemployees => 2900, address1_city => 'REDMOND ', revenue => 20.25,
		industrycode => 1, address1_latitude => 2 },
	{ name => 'c', numberofemployees => 2900, address1_city => 'Dallas', revenue => 0.25,
		industrycode => 1, 'primarycontactid@odata.bind' => "/contacts($owner)" },
	{ name => 'd' });
$s->create('accounts', $_) for @rows;

sub aggregate
{
	my ($inside, %o) = @_;
	my $xml = '<fetch aggregate="true"' . ($o{fetch} // '') . "><entity name='account'>$inside"
	  . '</entity></fetch>';

	return $s->get('accounts?fetchXml=' . Dvsim::escape($xml),
		$o{annotations} ? (Prefer => 'odata.include-annotations="*"') : ());
}

sub attribute
{
	my ($name, $alias, %more) = @_;
	return "<attribute name='$name' alias='$alias'"
	  . join('', map { " $_='$more{$_}'" } sort keys %more) . '/>';
}

sub rows
{
	my ($r, @members) = @_;

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return join ' ', map { my $row = $_; join ',', map { $row->{$_} // '-' } @members }
	  @{ $r->json->{value} };
}

sub refused
{
	my ($r, $code, $name) = @_;
	is($r->status . ' ' . ($r->json->{error}{code} // ''), "400 $code", $name)
	  or diag $r->body;
	return;
}

my %functions = (avg => 2433, count => 4, countcolumn => 3, max => 2900, min => 1500, sum => 7300);
my $r = aggregate(join '', map { attribute('numberofemployees', $_, aggregate => $_) }
	  sort keys %functions);
is_deeply($r->json->{value}, [ \%functions ], 'the six functions; null does not count')
  or diag $r->body;
is(rows(aggregate(attribute('numberofemployees', 'n', aggregate => 'countcolumn',
	distinct => 'true')), 'n'), 2, 'distinct countcolumn');
is(rows(aggregate(attribute('address1_city', 'n', aggregate => 'countcolumn',
	distinct => 'true')), 'n'), 2, 'distinct text without case and trailing blanks');
like(aggregate(attribute('revenue', 's', aggregate => 'sum')
	  . attribute('revenue', 'a', aggregate => 'avg'))->body,
	qr/"s":31\.0000,"a":10\.3333\b/, 'money is added up exactly');
is(rows(aggregate(attribute('address1_latitude', 'a', aggregate => 'avg')), 'a'), 1.75,
	'doubles');

# groups
my $count = attribute('accountid', 'n', aggregate => 'count');
is(rows(aggregate($count . attribute('address1_city', 'city', groupby => 'true')
	  . "<order alias='city'/>"), 'city', 'n') =~ s/redmond/Redmond/ir, '-,1 Dallas,1 Redmond,2',
	'group of text, null first');
for my $descending ('false', 'true')
{
	is(rows(aggregate($count . attribute('industrycode', 'i', groupby => 'true')
		  . "<order alias='i' descending='$descending'/>"), 'i', 'n'), '-,1 1,2 2,1',
		"groups are ascending, descending=$descending");
}
is(rows(aggregate($count . attribute('industrycode', 'i', groupby => 'true')
	  . "<order alias='n' descending='true'/><order alias='i'/>"), 'i', 'n'), '1,2 -,1 2,1',
	'order by an aggregate');
$r = aggregate($count . attribute('primarycontactid', 'p', groupby => 'true')
	  . attribute('ownerid', 'o', groupby => 'true') . "<order alias='p'/>",
	annotations => 1);
my $row = $r->json->{value}[-1];
is($row->{p}, $owner, 'group of a lookup');
is($row->{'p@OData.Community.Display.V1.FormattedValue'}, 'Anna', 'its label');
is($row->{'p@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'contact', 'its type');
is($row->{'o@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'systemuser', 'a polymorphic lookup');
is($row->{'n@OData.Community.Display.V1.AttributeName'}, 'accountid', 'the column of a count');
is($row->{'n@OData.Community.Display.V1.FormattedValue'}, '1', 'and its label');
ok(!exists $row->{'@odata.etag'} && !exists $row->{accountid}, 'no etag, no primary key');
is(rows(aggregate($count . "<link-entity name='contact' from='contactid' to='primarycontactid'>"
	  . attribute('lastname', 'who', groupby => 'true') . '</link-entity>'), 'who', 'n'), 'Anna,1',
	'group of a link');
my $filter = "<filter><condition attribute='name' operator='%s' value='%s'/></filter>";
is(rows(aggregate($count . sprintf $filter, 'gt', 'b'), 'n'), 2, 'filtered');
is(rows(aggregate($count . sprintf $filter, 'eq', 'x'), 'n'), 0, 'of no rows');
is_deeply(aggregate(attribute('revenue', 's', aggregate => 'sum')
	  . "<filter><condition attribute='name' operator='eq' value='d'/></filter>")->json->{value},
	[ {} ], 'a null result is omitted');

# sums that the column's type cannot represent
my @big = map { $s->create('accounts', { name => "big $_", numberofemployees => $_ }) }
  1_000_000_000, 1_000_000_000, 147_483_648;
my $of_big = "<filter><condition attribute='name' operator='begins-with' value='big'/></filter>";
for my $function (qw(sum avg))
{
	$r = aggregate(attribute('numberofemployees', 'n', aggregate => $function) . $of_big);
	refused($r, '0x80041136', "$function overflows");
	like($r->json->{error}{message}, qr/arithmetic overflow .* Sql Number: 8115$/,
		'with the number of SQL Server');
}
is(rows(aggregate(join('', map { attribute('numberofemployees', $_, aggregate => $_) } qw(min max))
	  . $of_big), 'min', 'max'), '147483648,1000000000', 'min and max do not');
$s->patch("accounts($big[2])", { numberofemployees => 147_483_647 });
is(rows(aggregate(attribute('numberofemployees', 'n', aggregate => 'sum') . $of_big), 'n'),
	2 ** 31 - 1, 'the largest sum');
$s->delete("accounts($_)") for @big;
$s->create('new_alltypeses', { new_name => "n$_", new_bigint => $_ }) for 2 ** 31, 2 ** 32;
sub bigints
{
	my ($function) = @_;
	return $s->get('new_alltypeses?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity "
		  . "name='new_alltypes'>" . attribute('new_bigint', 'n', aggregate => $function)
		  . '</entity></fetch>'));
}
is(rows(bigints('sum'), 'n'), 3 * 2 ** 31, 'big integers have 64 bits');
is(rows(bigints('avg'), 'n'), 3 * 2 ** 30, 'and so has their average');
$s->create('new_alltypeses', { new_name => 'n', new_bigint => 9223372036854775807 });
refused(bigints('sum'), '0x80041136', 'not more');

# money in two currencies
my $euro = $s->create('transactioncurrencies', { currencyname => 'Euro', isocurrencycode => 'EUR',
	currencysymbol => 'E', currencyprecision => 2, exchangerate => 0.5 });
my %price = (new_price => 100, 'transactioncurrencyid@odata.bind' => "/transactioncurrencies($euro)");
$s->create('new_meters', { new_name => 'money 1', %price });
$s->create('new_meters', { new_name => 'money 2', new_price => 150 });
my %amounts = (sum => '350.0000', avg => '175.0000', min => '150.0000', max => '200.0000');
my $money = $s->get('new_meters?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity "
	  . "name='new_meter'>" . join('', map { attribute('new_price', $_, aggregate => $_) }
	  sort keys %amounts) . attribute('new_price', 'n', aggregate => 'countcolumn')
	  . "<filter><condition attribute='new_name' operator='begins-with' value='money'/></filter>"
	  . '</entity></fetch>'))->body;
like($money, qr/"$_":\Q$amounts{$_}\E\d*[,}]/, "$_ is in the organization's currency")
  for sort keys %amounts;
like($money, qr/"n":2\b/, 'countcolumn');
$money = $s->get('new_meters?$apply=' . Dvsim::escape("filter(startswith(new_name,'money'))"
	  . '/aggregate(new_price with sum as s,new_price with max as m)'))->body;
like($money, qr/"s":350\b.*"m":200\b/, 'and so in $apply');

# parts of dates
$s->create('new_meters', { new_name => "m$_", new_installedon => $_ })
  for qw(2026-01-03T23:59:59Z 2026-01-04T00:00:00Z 2026-05-31T12:00:00Z 2024-12-31T12:00:00Z);
my %parts = (
	day => '3 4 31 31', week => '1 2 23 53', month => '1 1 5 12', quarter => '1 1 2 4',
	year => '2026 2026 2026 2024', 'fiscal-period' => '1 1 2 4',
	'fiscal-year' => '2026 2026 2026 2024');
for my $part (sort keys %parts)
{
	$r = $s->get('new_meters?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity "
		  . "name='new_meter'>" . attribute('new_installedon', 'p', groupby => 'true',
			dategrouping => $part, usertimezone => 'false') . attribute('new_name', 'name',
			groupby => 'true') . "<order alias='name'/></entity></fetch>"));
	my @got = map { $_->{p} } @{ $r->json->{value} };
	is("@got[1 .. 3] $got[0]", $parts{$part}, "dategrouping $part");
}

# hierarchy
my $parent = $s->create('new_meters', { new_name => 'parent' });
$s->create('new_meters', { new_name => $_, 'new_ParentId@odata.bind' => "/new_meters($parent)" })
  for qw(x y);
is(rows($s->get('new_meters?fetchXml=' . Dvsim::escape("<fetch><entity name='new_meter'>"
	  . "<attribute name='new_meterid' alias='n' rowaggregate='CountChildren'/><filter><condition "
	  . "attribute='new_name' operator='in'><value>parent</value><value>x</value></condition>"
	  . "</filter><order attribute='new_name'/></entity></fetch>")), 'n'), '2 0', 'CountChildren');

# distinct
$r = $s->get('accounts?fetchXml=' . Dvsim::escape("<fetch distinct='true' "
	  . "returntotalrecordcount='true'><entity name='account'><attribute "
	  . "name='numberofemployees'/></entity></fetch>"));
is(rows($r, 'numberofemployees'), '- 1500 2900', 'distinct');
is($r->json->{'@odata.count'}, 3, 'counted');
ok(!exists $r->json->{value}[1]{accountid}, 'no primary key with distinct');

# limits
is($s->control('POST', '/_dvsim/seed?table=contact&rows=50000')->status, 200, 'many rows')
  or BAIL_OUT('no seed');

sub contacts
{
	my ($fetch, $filter) = @_;
	return $s->get('contacts?fetchXml=' . Dvsim::escape("<fetch aggregate='true'$fetch><entity "
		  . "name='contact'><attribute name='contactid' alias='n' aggregate='count'/>$filter"
		  . '</entity></fetch>'));
}
refused(contacts('', ''), '0x8004E023', 'more than 50,000 rows');
is(rows(contacts('', "<filter><condition attribute='contactid' operator='ne' value='$owner'/>"
	  . '</filter>'), 'n'), 50000, '50,000 rows are counted');
is(rows(contacts(" aggregatelimit='10'", ''), 'n'), 11, 'aggregatelimit: one more, no error');
refused(contacts(" aggregatelimit='50001'", ''), '0x80041139', 'it cannot be raised');
$r = $s->get('contacts?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity name='contact'>"
	  . attribute('contactid', 'id', groupby => 'true') . "<filter><condition "
	  . "attribute='contactid' operator='ne' value='$owner'/></filter></entity></fetch>"),
	Prefer => 'odata.include-annotations="*"');
is(scalar @{ $r->json->{value} }, 5000, 'an answer has 5,000 groups at most');
ok(!exists $r->json->{"\@Microsoft.Dynamics.CRM.$_"}, "and no $_")
  for qw(morerecords fetchxmlpagingcookie);

# refusals
refused(aggregate("<attribute name='name' aggregate='count'/>"), '0x80041109', 'no alias');
refused(aggregate(attribute('name', 'n')), '0x80041107', 'neither aggregate nor group');
refused(aggregate(attribute('name', 'n', aggregate => 'sum')), '0x8004112F', 'sum of text');
refused(aggregate(attribute('industrycode', 'n', aggregate => 'max')), '0x8004112F',
	'max of a choice');
refused(aggregate(attribute('ownerid', 'n', aggregate => 'min')), '0x8004112F', 'min of a lookup');
refused(aggregate(attribute('createdon', 'n', groupby => 'true')), '0x80041135',
	'dates are grouped by a part');
refused(aggregate($count . attribute('primarycontactidname', 'g', groupby => 'true')), '0x8004112F',
	'no groups of a helper');
refused(aggregate(attribute('accountid', 'n', aggregate => $_)), '0x8004112F', "$_ of ids")
  for qw(min max);
refused(aggregate(attribute('donotphone', 'n', aggregate => $_)), '0x8004112F', "$_ of a boolean")
  for qw(sum avg min max);
refused($s->get('new_alltypeses?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity "
	  . "name='new_alltypes'>" . attribute('new_choices', 'g', groupby => 'true')
	  . '</entity></fetch>')), '0x8004112F', 'no groups of choices');
refused(aggregate($count . "<order attribute='name'/>"), '0x80041131', 'order by an attribute');

$s->create('new_readings', { new_name => 'r', new_value => 1.5 });
$r = $s->get('new_readings?fetchXml=' . Dvsim::escape("<fetch aggregate='true'><entity "
	  . "name='new_reading'>" . attribute('new_name', 'n', groupby => 'true')
	  . "<order alias='n'/></entity></fetch>"));
refused($r, '0x80048d0b', 'elastic: no order together with groups');

done_testing;
