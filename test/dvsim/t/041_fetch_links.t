# 041_fetch_links.t
#		FetchXML: link-entity of every type.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 7);

# Anna is Alfa's primary contact and boss, Bert works for it as well; Carl is Bravo's clerk;
# Dora works for no account.  Charlie has no contacts.
my %id = map { $_ => $s->create('accounts', { name => $_ }) } qw(Alfa Bravo Charlie);
my %contact = (
	Anna => { jobtitle => 'boss', works => 'Alfa' },
	Bert => { jobtitle => 'clerk', works => 'Alfa', numberofchildren => 2 },
	Carl => { jobtitle => 'clerk', works => 'Bravo' },
	Dora => { jobtitle => 'boss' });
for my $name (sort keys %contact)
{
	my %row = (lastname => $name, %{ $contact{$name} });
	my $works = delete $row{works};

	$row{'parentcustomerid_account@odata.bind'} = "/accounts($id{$works})" if $works;
	$id{$name} = $s->create('contacts', \%row);
}
is($s->patch("accounts($id{Alfa})",
	{ 'primarycontactid@odata.bind' => "/contacts($id{Anna})" })->status, 204, 'rows exist');

sub fetch
{
	my ($set, $inside, %headers) = @_;
	my %table = (accounts => 'account', contacts => 'contact', tasks => 'task',
		new_alltypeses => 'new_alltypes');
	my %name = (accounts => 'name', contacts => 'lastname', tasks => 'subject',
		new_alltypeses => 'new_name');
	my $xml = "<fetch><entity name='$table{$set}'><attribute name='$name{$set}'/>"
	  . "$inside<order attribute='$name{$set}'/></entity></fetch>";

	return $s->get("$set?fetchXml=" . Dvsim::escape($xml), %headers);
}

# rows as "member,member …"; a missing member is "-"
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

my $primary = "name='contact' from='contactid' to='primarycontactid'";
my $staff = "name='contact' from='parentcustomerid' to='accountid'";
my $boss = "<filter><condition attribute='jobtitle' operator='eq' value='boss'/></filter>";
my $clerk = "<filter><condition attribute='jobtitle' operator='eq' value='clerk'/></filter>";

# inner
is(rows(fetch('accounts', "<link-entity $primary alias='p'><attribute name='lastname'/>"
	  . '</link-entity>'), 'name', 'p.lastname'), 'Alfa,Anna', 'inner, many to one');
is(rows(fetch('accounts', "<link-entity $staff alias='c'><attribute name='lastname' alias='who'/>"
	  . "<order attribute='lastname'/></link-entity>"), 'name', 'who'),
	'Alfa,Anna Alfa,Bert Bravo,Carl', 'inner, one to many, aliased column');
is(rows(fetch('accounts', "<link-entity $primary><attribute name='lastname'/></link-entity>"),
	'name', 'contact1.lastname'), 'Alfa,Anna', 'without an alias: table and number');
is(rows(fetch('accounts', "<link-entity $staff link-type='natural'>$clerk</link-entity>"), 'name'),
	'Alfa Bravo', 'filter of a link');
is(rows(fetch('contacts', "<link-entity name='account' from='accountid' to='parentcustomerid' "
	  . "alias='a'><attribute name='name'/></link-entity>"), 'lastname', 'a.name'),
	'Anna,Alfa Bert,Alfa Carl,Bravo', 'through a polymorphic lookup');

# outer
is(rows(fetch('accounts', "<link-entity $staff link-type='outer' alias='c'>"
	  . "<attribute name='lastname'/>$boss</link-entity>"), 'name', 'c.lastname'),
	'Alfa,Anna Bravo,- Charlie,-', 'an outer link filters before the join');
$s->create('new_alltypeses', { new_name => $_, new_integer => 5 }) for qw(One Two);
is(rows(fetch('new_alltypeses', "<link-entity name='new_alltypes' from='new_alltypesid' "
	  . "to='new_alltypesid' link-type='outer' alias='r'><attribute name='new_formula'/>"
	  . "<attribute name='new_rollup'/><filter><condition attribute='new_name' operator='eq' "
	  . "value='One'/></filter></link-entity>"), 'new_name', 'r.new_formula', 'r.new_rollup'),
	'One,One (5),0 Two,-,-', 'columns of a missing row are not calculated');
is(rows(fetch('accounts', "<link-entity $staff link-type='outer' alias='c'/><filter>"
	  . "<condition entityname='c' attribute='contactid' operator='null'/></filter>"), 'name'),
	'Charlie', 'entityname filters after it: an anti-join');
is(rows(fetch('accounts', "<link-entity $staff link-type='outer'/><filter>"
	  . "<condition entityname='contact' attribute='jobtitle' operator='ne' value='clerk'/>"
	  . '</filter>'), 'name'),
	'Alfa Charlie', 'a table name as entityname; ne includes missing rows');
is(rows(fetch('accounts', "<link-entity $staff link-type='outer' alias='c'/><filter>"
	  . "<condition attribute='primarycontactid' operator='eq' valueof='c.contactid'/></filter>"),
	'name'), 'Alfa', 'valueof a column of a link');

# nested
is(rows(fetch('contacts', "<link-entity name='account' from='accountid' to='parentcustomerid' "
	  . "alias='a'><link-entity name='contact' from='contactid' to='primarycontactid' alias='p'>"
	  . "<attribute name='lastname'/></link-entity></link-entity>"), 'lastname', 'p.lastname'),
	'Anna,Anna Bert,Anna', 'nested links');

# semi-joins
is(rows(fetch('accounts', "<link-entity $staff link-type='exists'/>"), 'name'), 'Alfa Bravo',
	'exists does not multiply');
is(rows(fetch('accounts', "<link-entity $staff link-type='in'>$boss</link-entity>"), 'name'),
	'Alfa', 'in');
is(rows(fetch('accounts', "<filter type='or'><link-entity $staff link-type='any'>$boss"
	  . "</link-entity><condition attribute='name' operator='eq' value='charlie'/></filter>"),
	'name'), 'Alfa Charlie', 'any, or-ed with a condition');
is(rows(fetch('accounts', "<filter><link-entity $staff link-type='not any'>$boss</link-entity>"
	  . '</filter>'), 'name'), 'Bravo Charlie', 'not any');
is(rows(fetch('accounts', "<filter><link-entity $staff link-type='all'>$boss</link-entity>"
	  . '</filter>'), 'name'), 'Bravo', 'all: some rows, none of which matches');
is(rows(fetch('accounts', "<filter><link-entity $staff link-type='not all'>$boss</link-entity>"
	  . '</filter>'), 'name'), 'Alfa', 'not all is any');
is(rows(fetch('accounts', "<filter><link-entity $staff link-type='any'><filter><link-entity "
	  . "name='account' from='primarycontactid' to='contactid' link-type='any'/></filter>"
	  . '</link-entity></filter>'), 'name'), 'Alfa', 'any inside any');
my $r = fetch('accounts', "<link-entity $staff link-type='matchfirstrowusingcrossapply'>"
	  . "<attribute name='lastname'/><attribute name='numberofchildren' alias='n'/>$clerk"
	  . '</link-entity>');
is(rows($r, 'name', 'LastName', 'n'), 'Alfa,Bert,2 Bravo,Carl,-',
	'only the first row; its columns under their schema names');

# N:N
for my $pair ([ 'Alfa', 'Carl' ], [ 'Alfa', 'Dora' ], [ 'Charlie', 'Dora' ])
{
	is($s->post("accounts($id{ $pair->[0] })/new_Account_Contact/\$ref",
			{ '@odata.id' => $s->base . "/api/data/v9.2/contacts($id{ $pair->[1] })" })->status,
		204, "@$pair");
}
my $friends = 'Alfa,Carl Alfa,Dora Charlie,Dora';
my $last = "<attribute name='lastname'/><order attribute='lastname'/>";
is(rows(fetch('accounts', "<link-entity name='new_account_contact' from='accountid' "
	  . "to='accountid' intersect='true'><link-entity name='contact' from='contactid' "
	  . "to='contactid' alias='f'>$last</link-entity></link-entity>"), 'name', 'f.lastname'),
	$friends, 'intersect table, written in full');
is(rows(fetch('accounts', "<link-entity name='new_account_contact' intersect='true'><link-entity "
	  . "name='contact' alias='f'>$last</link-entity></link-entity>"), 'name', 'f.lastname'),
	$friends, 'without from and to');
is(rows(fetch('accounts', "<link-entity name='contact' alias='f'>$last</link-entity>"),
	'name', 'f.lastname'), $friends, 'straight to the other end');
is(rows(fetch('accounts', "<filter><link-entity name='contact' link-type='not any'/></filter>"),
	'name'), 'Bravo', 'N:N as a filter');
refused(fetch('accounts', "<link-entity name='task'/>"), '0x80041102', 'no such N:N relationship');

# annotations of linked columns
$r = fetch('contacts', "<link-entity name='account' from='accountid' to='parentcustomerid' "
	  . "alias='a'><attribute name='primarycontactid'/><attribute name='statecode' alias='st'/>"
	  . '</link-entity>', Prefer => 'odata.include-annotations="*"');
my $row = $r->json->{value}[0];
is($row->{'a.primarycontactid'}, $id{Anna}, 'a lookup of a link: alias.column');
is($row->{'a.primarycontactid@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'contact', 'its type');
is($row->{'a.primarycontactid@OData.Community.Display.V1.AttributeName'}, 'primarycontactid',
	'its name');
is($row->{'a.primarycontactid@OData.Community.Display.V1.FormattedValue'}, 'Anna', 'its label');
is($row->{'st@OData.Community.Display.V1.FormattedValue'}, 'Active', 'label of a choice');

# orders
is(rows(fetch('contacts', "<order attribute='parentcustomerid' descending='true'/>"), 'lastname'),
	'Carl Anna Bert Dora', 'a lookup sorts by the name of its target');
is(rows($s->get('contacts?fetchXml=' . Dvsim::escape("<fetch><entity name='contact'>"
	  . "<attribute name='lastname'/><link-entity name='account' from='accountid' "
	  . "to='parentcustomerid' alias='a'/><order entityname='a' attribute='name' "
	  . "descending='true'/><order attribute='lastname'/></entity></fetch>")), 'lastname'),
	'Carl Anna Bert', 'entityname puts a link first in the order');

# refusals
my $link = "<link-entity $primary/>";
is(fetch('accounts', $link x 15)->status, 200, '15 links');
refused(fetch('accounts', $link x 16), '0x8004430D', '16 links');

# with minimal encoding, or the URL would be too long
sub many
{
	my ($conditions) = @_;
	my $xml = "<fetch><entity name='account'><filter>"
	  . "<condition attribute='fax' operator='null'/>" x $conditions
	  . "</filter>$link</entity></fetch>";

	return $s->get('accounts?fetchXml=' . $xml =~ tr/ /+/r);
}
is(many(499)->status, 200, '499 conditions and a link');
refused(many(500), '0x8004430C', '500 conditions and a link');

refused(fetch('accounts', "<link-entity name='contact' from='lastname' to='primarycontactid'/>"),
	'0x80041104', 'types must match');
refused(fetch('accounts', "<link-entity name='contact' from='nothing' to='accountid'/>"),
	'0x80041103', 'unknown column');
refused(fetch('accounts', "<link-entity name='nothing' from='a' to='accountid'/>"), '0x80041102',
	'unknown table');
refused(fetch('accounts', "<link-entity $staff link-type='exists'><attribute name='lastname'/>"
	  . '</link-entity>'), '0x80041121', 'exists returns no columns');
refused(fetch('accounts', "<link-entity $staff link-type='any'/>"), '0x80041121',
	'any belongs into a filter');

$r = $s->get('new_readings?fetchXml=' . Dvsim::escape("<fetch><entity name='new_reading'>"
	  . "<link-entity name='new_meter' from='new_meterid' to='new_meterid'/></entity></fetch>"));
refused($r, '0x80048d0b', 'no links on elastic tables');
like($r->json->{error}{message}, qr/Link entities are not supported/, 'the message says so');

done_testing;
