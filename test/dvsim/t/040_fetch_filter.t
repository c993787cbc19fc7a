# 040_fetch_filter.t
#		FetchXML: conditions, filters, and refusals.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;
use POSIX qw(strftime);

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);

my $s = Dvsim->start('--seed', 7);
my $set = 'new_alltypeses';

sub fetch
{
	my ($path, $xml, %headers) = @_;
	return $s->get("$path?fetchXml=" . Dvsim::escape($xml), %headers);
}

sub all_types
{
	my ($inside, %headers) = @_;
	return fetch($set,
		"<fetch><entity name='new_alltypes'><attribute name='new_name'/>$inside</entity></fetch>",
		%headers);
}

# the names of the rows that match the conditions, in order
sub names
{
	my ($conditions) = @_;
	my $r = all_types("<filter>$conditions</filter><order attribute='new_name'/>");

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return join ' ', map { $_->{new_name} } @{ $r->json->{value} };
}

# one condition: attribute, operator, values
sub rows
{
	my ($attribute, $operator, @values) = @_;
	return names("<condition attribute='$attribute' operator='$operator'>"
		  . join('', map { "<value>$_</value>" } @values)
		  . '</condition>');
}

sub refused
{
	my ($r, $code, $name) = @_;
	is($r->status . ' ' . ($r->json->{error}{code} // ''), "400 $code", $name)
	  or diag $r->body;
	return;
}

sub at { return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(time + shift)); }

my $account = $s->create('accounts', { name => 'Contoso' });
my $one = $s->create($set, {
	new_name => 'one', new_text => 'Ärger', new_integer => 5, new_bigint => 9007199254740993,
	new_decimal => 1.5, new_double => 2.25, new_money => 10, new_boolean => JSON::PP::true,
	new_choice => 100000000, new_choices => '1,9', new_datetime => '2026-01-31T10:00:00Z',
	new_date => '2026-01-31', 'new_customerid_account@odata.bind' => "/accounts($account)" });
$s->create($set, {
	new_name => 'two', new_text => '50%_[x]', new_longtext => '50%_[X] ', new_integer => 7,
	new_bigint => 9007199254740992, new_decimal => 2.5, new_double => -1, new_money => 20,
	new_boolean => JSON::PP::false, new_choice => 100000001, new_choices => '9',
	new_datetime => '2026-02-01T00:00:00Z', new_date => '2026-02-01' });
$s->create($set, { new_name => 'void' });

# text: without case, accents and trailing blanks
is(rows('new_text', 'eq', 'arger '), 'one', 'eq on text');
is(rows('new_text', 'ne', 'ARGER'), 'two void', 'ne includes null');
is(rows('new_text', 'neq', 'ARGER'), 'two void', 'neq is ne');
is(rows('new_text', 'eq', ''), '', 'nothing equals an empty text');
is(rows('new_text', 'in', 'ÄRGER', 'x'), 'one', 'in');
is(rows('new_text', 'not-in', 'ÄRGER', 'x'), 'two void', 'not-in includes null');
is(rows('new_text', 'gt', '9'), 'one', 'gt');
is(rows('new_text', 'le', '9'), 'two', 'le excludes null');
is(rows('new_text', 'like', '%GE%'), 'one', 'like');
is(rows('new_text', 'like', '50[%]%'), 'two', 'like with a set');
is(rows('new_text', 'not-like', '%ge%'), 'two void', 'not-like includes null');
is(rows('new_text', 'begins-with', 'a'), 'one', 'begins-with');
is(rows('new_text', 'begins-with', '_r'), 'one', 'wildcards work in begins-with');
is(rows('new_text', 'not-begin-with', 'a'), 'two void', 'not-begin-with');
is(rows('new_text', 'ends-with', '[[]x]'), 'two', 'ends-with');
is(rows('new_text', 'not-end-with', 'er'), 'two void', 'not-end-with');
is(rows('new_text', 'null'), 'void', 'null');
is(rows('new_text', 'not-null'), 'one two', 'not-null');
is(names("<condition attribute='new_name' operator='eq' value='&#111;ne'/>"), 'one',
	'characters as numbers');
is(names("<condition attribute='new_text' operator='eq' valueof='new_longtext'/>"), 'two',
	'valueof');
is(names("<condition attribute='new_text' operator='ne' valueof='new_longtext'/>"), 'void',
	'valueof with ne: true where the column is null');

# numbers, exactly
is(rows('new_integer', 'ge', 7), 'two', 'integer');
is(rows('new_integer', 'between', 5, 6), 'one', 'between');
is(rows('new_integer', 'not-between', 5, 6), 'two void', 'not-between includes null');
is(rows('new_bigint', 'eq', '9007199254740993'), 'one', 'big integers are not treated as doubles');
is(rows('new_decimal', 'lt', '2.4999'), 'one', 'decimal');
is(rows('new_decimal', 'in', '1.50', '3'), 'one', 'decimal, in');
is(rows('new_double', 'lt', '0'), 'two', 'double');
is(rows('new_money', 'eq', '10.00'), 'one', 'money');
is(rows('new_calculated', 'eq', 14), 'two', 'calculated column');
is(rows('new_integer', 'eq-userlanguage'), '', 'eq-userlanguage');

# choices and booleans
is(rows('new_boolean', 'eq', 1), 'one', 'boolean as 1');
is(rows('new_boolean', 'eq', 'false'), 'two', 'boolean as a word');
is(rows('new_choice', 'ne', 100000000), 'two void', 'choice');
is(rows('new_choices', 'contain-values', 1, 3), 'one', 'contain-values');
is(rows('new_choices', 'contain-values', 9), 'one two', 'contain-values of both');
is(rows('new_choices', 'not-contain-values', 1), 'two void', 'not-contain-values');
is(rows('new_choices', 'eq', 1, 9), 'one', 'a set of choices as a whole');

# ids and lookups
is(rows('new_alltypesid', 'eq', uc "{$one}"), 'one', 'id with braces, in capitals');
is(rows('new_alltypesid', 'ne', $one), 'two void', 'id, ne');
is(rows('new_customerid', 'eq', $account), 'one', 'lookup');
is(rows('new_customerid', 'not-in', $account), 'two void', 'lookup, not-in');
is(rows('new_customeridname', 'eq', 'CONTOSO'), 'one', 'name of a lookup');
is(rows('new_customeridtype', 'eq', 1), 'one', 'type of a lookup as a number');
is(rows('new_customeridtype', 'eq', 'account'), 'one', 'type of a lookup as a name');
is(rows('ownerid', 'eq-userid'), 'one two void', 'eq-userid');
is(rows('ownerid', 'ne-userid'), '', 'ne-userid');
is(rows('ownerid', 'eq-useroruserteams'), 'one two void', 'eq-useroruserteams');
is(rows('ownerid', 'eq-userteams'), '', 'eq-userteams');
is(rows('owningbusinessunit', 'eq-businessid'), 'one two void', 'eq-businessid');

# dates
is(rows('new_datetime', 'eq', '2026-01-31T10:00:00'), 'one', 'without offset it is UTC');
is(rows('new_datetime', 'eq', '2026-01-31T12:00:00+02:00'), 'one', 'with an offset');
is(rows('new_datetime', 'lt', '2026-02-01'), 'one', 'a day is its midnight');
is(rows('new_datetime', 'on', '2026-01-31'), 'one', 'on');
is(rows('new_datetime', 'on-or-after', '2026-01-31T23:00:00Z'), 'one two', 'on-or-after');
is(rows('new_datetime', 'on-or-before', '2026-01-31'), 'one', 'on-or-before');
is(rows('new_datetime', 'not-between', '2026-02-01', '2026-03-01'), 'one void', 'not-between');
is(rows('new_datetime', 'in-fiscal-year', 2026), 'one two', 'in-fiscal-year');
is(rows('new_datetime', 'in-fiscal-period', 1), 'one two', 'in-fiscal-period');
is(rows('new_datetime', 'in-fiscal-period-and-year', 1, 2025), '', 'in-fiscal-period-and-year');
is(rows('new_date', 'eq', '2026-01-31'), 'one', 'date only');
refused(all_types("<filter><condition attribute='new_date' operator='last-x-hours' value='2'/>"
	  . '</filter>'), '0x80041120', 'date-only columns have no hours');

$s->create($set, { new_name => 'past', new_datetime => at(-3600) });
$s->create($set, { new_name => 'soon', new_datetime => at(1800) });
is(rows('new_datetime', 'last-x-hours', 2), 'past', 'last-x-hours');
is(rows('new_datetime', 'next-x-hours', 1), 'soon', 'next-x-hours');
is(rows('new_datetime', 'last-seven-days'), 'past', 'last-seven-days');
is(rows('new_datetime', 'next-x-months', 1), 'soon', 'next-x-months');
like(rows('new_datetime', 'olderthan-x-minutes', 30), qr/past/, 'olderthan-x-minutes');
unlike(rows('new_datetime', 'olderthan-x-hours', 2), qr/past/, 'olderthan-x-hours');

# hierarchy
my $root = $s->create('new_meters', { new_name => 'root' });
my $child = $s->create('new_meters',
	{ new_name => 'child', 'new_ParentId@odata.bind' => "/new_meters($root)" });
my $leaf = $s->create('new_meters',
	{ new_name => 'leaf', 'new_ParentId@odata.bind' => "/new_meters($child)" });

sub meters
{
	my ($operator, $id, $attribute) = @_;
	my $r = fetch('new_meters', "<fetch><entity name='new_meter'><attribute name='new_name'/>"
		  . "<order attribute='new_name'/><filter><condition attribute='"
		  . ($attribute // 'new_meterid') . "' operator='$operator' value='$id'/></filter>"
		  . "</entity></fetch>");

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return join ' ', map { $_->{new_name} } @{ $r->json->{value} };
}

is(meters('under', $root), 'child leaf', 'under');
is(meters('eq-or-under', $child), 'child leaf', 'eq-or-under');
is(meters('not-under', $root), 'root', 'not-under');
is(meters('above', $leaf), 'child root', 'above');
is(meters('eq-or-above', $child), 'child root', 'eq-or-above');
is(meters('eq-or-under', $child, 'new_parentid'), 'leaf', 'hierarchy of a lookup');

# filters
is(names("<filter type='or'><condition attribute='new_name' operator='eq' value='one'/>"
	  . "<filter><condition attribute='new_integer' operator='eq' value='7'/>"
	  . "<condition attribute='new_boolean' operator='eq' value='0'/></filter></filter>"),
	'one two', 'or with a nested and');
is(names("<condition attribute='new_integer' operator='not-null'/></filter><filter>"
	  . "<condition attribute='new_boolean' operator='eq' value='1'/>"),
	'one', 'several filters are and-ed');

# the answer
my $r = all_types("<attribute name='new_integer'/><attribute name='new_customerid'/>"
	  . "<attribute name='new_text' alias='t'/><filter><condition attribute='new_name' "
	  . "operator='in'><value>one</value><value>void</value></condition></filter>"
	  . "<order attribute='new_name'/>");
my ($first, $void) = @{ $r->json->{value} };
like($first->{'@odata.etag'}, qr/^W\/"\d+"$/, 'etag');
is($first->{_new_customerid_value}, $account, 'lookup under its property');
is($first->{t}, 'Ärger', 'alias');
is($first->{new_alltypesid}, $one, 'the primary key is always included');
is_deeply([ sort keys %$void ], [ '@odata.etag', 'new_alltypesid', 'new_name' ],
	'null members are omitted');
is($r->json->{'@odata.context'}, $s->base . '/api/data/v9.2/$metadata#new_alltypeses'
	  . '(new_name,new_integer,_new_customerid_value,new_alltypesid)', 'context');

$r = all_types("<attribute name='new_customerid'/><attribute name='new_customerid' alias='who'/>"
	  . "<attribute name='new_choice'/><attribute name='new_money'/>"
	  . "<filter><condition attribute='new_name' operator='eq' value='one'/></filter>",
	Prefer => 'odata.include-annotations="*"');
$first = $r->json->{value}[0];
is($first->{'_new_customerid_value@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'account',
	'lookuplogicalname');
is($first->{'_new_customerid_value@OData.Community.Display.V1.FormattedValue'}, 'Contoso',
	'formatted value of a lookup');
is($first->{who}, $account, 'aliased lookup: the bare id under the alias');
is($first->{'who@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'account', 'its type');
is($first->{'who@OData.Community.Display.V1.AttributeName'}, 'new_customerid', 'its column');
is($first->{'new_choice@OData.Community.Display.V1.FormattedValue'}, 'First', 'label');
ok(defined $first->{_transactioncurrencyid_value}, 'money includes its currency');
is($r->json->{'@Microsoft.Dynamics.CRM.totalrecordcount'}, -1, 'the count was not requested');
ok(!exists $r->json->{'@Microsoft.Dynamics.CRM.morerecords'}, 'no more rows, no annotation');

$r = fetch('accounts', "<fetch><entity name='account'><all-attributes/></entity></fetch>");
ok(exists $r->json->{value}[0]{createdon}, 'all-attributes');
ok(!exists $r->json->{value}[0]{fax}, 'all-attributes omits null as well');
$r = fetch('accounts', "<fetch><entity name='account'/></fetch>");
ok(exists $r->json->{value}[0]{createdon}, 'no attribute at all means all');
$r = fetch('accounts', "<fetch top='1'><entity name='account'><attribute name='name'/>"
	  . "</entity></fetch>&\$count=true");
refused($r, '0x80040201', 'text after the document is ignored');
$r = $s->get("accounts?\$count=true&fetchXml="
	  . Dvsim::escape("<fetch><entity name='account'><attribute name='name'/></entity></fetch>"));
is($r->json->{'@odata.count'}, 1, '$count=true may accompany it');
$r = $s->get("accounts?%24select=name&fetchXml="
	  . Dvsim::escape("<fetch><entity name='account'/></fetch>"));
refused($r, '0x80060888', '$select may not');

# refusals, as the client sees them
refused(fetch('accounts', ''), '0x80040201', 'no XML');
refused(fetch('accounts', "<fetch><entity name='contact'/></fetch>"), '0x80041128',
	'another table than the set says');
refused(fetch('accounts', "<fetch><entity name='acount'/></fetch>"), '0x80041102',
	'unknown table');
refused(all_types("<attribute name='new_nothing'/>"), '0x80041103', 'unknown column');
like(rows('new_integer', 'eq', 'x'), qr/^400 /, 'a value that is not a number');
like(rows('new_alltypesid', 'eq', 'x'), qr/^400 /, 'a value that is not an id');
like(rows('new_datetime', 'eq', '1700-01-01'), qr/^400 .*0x80040239/s, 'a date before 1753');
like(rows('new_integer', 'like', '1%'), qr/^400 .*0x80041106/s, 'like on a number');
my $bomb = '<!DOCTYPE f [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
  . "<fetch><entity name='account'><filter><condition attribute='name' operator='eq' "
  . "value='&b;'/></filter></entity></fetch>";
refused(fetch('accounts', $bomb), '0x80040201', 'no document types, no entities');

is($s->get('accounts')->status, 200, 'dvsim survives');

done_testing;
