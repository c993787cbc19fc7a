# 043_fetch_paging.t
#		FetchXML: pages, cookies, top, counts and orders.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 7);
my $annotations =
  'odata.include-annotations="Microsoft.Dynamics.CRM.fetchxmlpagingcookie,'
  . 'Microsoft.Dynamics.CRM.morerecords"';
my $cookie_name = '@Microsoft.Dynamics.CRM.fetchxmlpagingcookie';
my $more_name = '@Microsoft.Dynamics.CRM.morerecords';

sub fetch
{
	my ($set, $attributes, $inside, %headers) = @_;
	my %table = (accounts => 'account', contacts => 'contact', new_readings => 'new_reading');

	return $s->get("$set?fetchXml=" . Dvsim::escape("<fetch$attributes><entity "
		  . "name='$table{$set}'>$inside</entity></fetch>"),
		Prefer => $annotations, %headers);
}

sub xml
{
	my ($text) = @_;
	my %entity = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;', "'" => '&apos;');

	return $text =~ s/([&<>"'])/$entity{$1}/gr;
}

sub unescape { return $_[0] =~ s/%([0-9a-f]{2})/chr hex $1/gier; }

# the cookie as the client returns it: decoded twice
sub decoded
{
	my ($annotation) = @_;
	my ($cookie) = $annotation =~ /pagingcookie="([^"]*)"/;
	return unescape(unescape($cookie));
}

# all rows, page after page, as a client reads them; dies if pages do not end
sub walk
{
	my ($set, $attributes, $inside, $max) = @_;
	my (@rows, $cookie, @sizes);

	for my $page (1 .. $max // 100)
	{
		my $r = fetch($set, " page='$page'$attributes"
			  . (defined $cookie ? " paging-cookie='" . xml($cookie) . "'" : ''), $inside);

		die $r->body unless $r->status == 200;
		push @rows, @{ $r->json->{value} };
		push @sizes, scalar @{ $r->json->{value} };
		if (!$r->json->{$more_name})
		{
			die 'a cookie without morerecords' if exists $r->json->{$cookie_name};
			return wantarray ? (\@rows, "@sizes") : \@rows;
		}
		$cookie = exists $r->json->{$cookie_name} ? decoded($r->json->{$cookie_name}) : undef;
	}
	die 'endless';
}

sub refused
{
	my ($r, $code, $name) = @_;
	is($r->status . ' ' . ($r->json->{error}{code} // ''), "400 $code", $name)
	  or diag $r->body;
	return;
}

sub column { my ($rows, $name) = @_; return join ' ', map { $_->{$name} // '-' } @$rows; }

# the wire
my @names = ('A & B', 'a <b>', "c'd\"", 'e', undef, 'g');
my %accounts;
for my $i (0 .. $#names)
{
	my %row = (numberofemployees => $i % 2);

	$row{name} = $names[$i] if defined $names[$i];
	$accounts{$i} = $s->create('accounts', \%row);
}
my $name = "<attribute name='name'/><order attribute='name'/>";
my $r = fetch('accounts', " count='2' page='1'", $name);
my @ids = map { $_->{accountid} } @{ $r->json->{value} };
is($r->json->{$more_name}, 1, 'morerecords');
my $annotation = $r->json->{$cookie_name};
like($annotation,
	qr/^<cookie pagenumber="2" pagingcookie="%253ccookie%2520page%253d%25221%2522%253e/,
	'the annotation begins');
like($annotation, qr/%253c%252fcookie%253e" istracking="False" \/>$/, 'and ends');
unlike($annotation =~ s/^.*pagingcookie="([^"]*)".*$/$1/r, qr/%(?!25)|[^A-Za-z0-9%._-]/,
	'encoded twice');
is(decoded($annotation), '<cookie page="1"><name last="A &amp; B" firstnull="1" />'
	  . '<accountid last="{' . uc($ids[1]) . '}" first="{' . uc($ids[0]) . '}" /></cookie>',
	'the cookie');
my ($rows, $sizes) = walk('accounts', " count='2'", $name);
is(column($rows, 'name'), "- A & B a <b> c'd\" e g", 'in order');
is($sizes, '2 2 2', 'the last page is full and has no annotations');
is(column(scalar walk('accounts', " count='4'",
	"<attribute name='name'/><order attribute='name' descending='true'/>"), 'name'),
	"g e c'd\" a <b> A & B -", 'descending, null last');
is(column(scalar walk('accounts', " count='1'", "<attribute name='name'/><order "
	  . "attribute='numberofemployees'/><order attribute='name' descending='1'/>"), 'name'),
	"c'd\" A & B - g e a <b>", 'two keys, one of them descending, pages of one row');
is(column(scalar walk('accounts', " count='1'", "<attribute name='accountid'/><order "
	  . "attribute='accountid' descending='true'/>"), 'accountid'),
	join(' ', reverse map { $_->{accountid} } @{ fetch('accounts', '',
		"<attribute name='accountid'/>")->json->{value} }), 'by the primary key, descending');
is(column(fetch('accounts', " count='2' page='2'", $name)->json->{value}, 'name'), 'a <b> c\'d"',
	'without a cookie, pages are counted');
is(column(fetch('accounts', " count='2' page='3' paging-cookie='" . xml(decoded($annotation)) . "'",
	$name)->json->{value}, 'name'), 'e g', 'the cookie of another page is ignored');
ok(!exists fetch('accounts', " count='2'", $name, Prefer => undef)->json->{$more_name},
	'annotations must be requested');
refused(fetch('accounts', " count='2' page='2' paging-cookie='" . xml(decoded($annotation)) . "'",
	"<attribute name='name'/>"), '0x80041129', 'a cookie of another order');
refused(fetch('accounts', " count='2' page='2' paging-cookie='&lt;cookie'", $name), '0x8004112A',
	'a broken cookie');
refused(fetch('accounts', " page='11'", $name), '0x8004430A', 'more than 50,000 without a cookie');

# top and counts
is(scalar @{ fetch('accounts', " top='2'", $name)->json->{value} }, 2, 'top');
ok(!exists fetch('accounts', " top='2'", $name)->json->{$more_name}, 'no more pages with top');
refused(fetch('accounts', " top='5001'", $name), '0x80041139', 'top has a limit');
for my $other ("page='1'", "count='2'", "returntotalrecordcount='true'")
{
	refused(fetch('accounts', " top='5' $other", $name), '0x80040203', "top and $other");
}
$r = fetch('accounts', " count='2' returntotalrecordcount='true'", $name,
	Prefer => 'odata.include-annotations="*"');
is($r->json->{'@odata.count'}, 6, 'returntotalrecordcount');
is($r->json->{'@Microsoft.Dynamics.CRM.totalrecordcount'}, 6, 'its annotation');
ok(!$r->json->{'@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded'}, 'not exceeded');

# links: rows of one root may span pages
my $number = 0;
for my $i (0, 0, 0, 1, 3, 3)
{
	$s->create('contacts', { lastname => 'c' . ++$number,
		'parentcustomerid_account@odata.bind' => "/accounts($accounts{$i})" });
}
my $staff = "<attribute name='name'/><link-entity name='contact' from='parentcustomerid' "
  . "to='accountid' link-type='outer' alias='c'><attribute name='lastname'/>";
my @found = ('', 'c1 - c5 - - c4', 'c1 c2 c4 - c5 c6 - -', 'c1 c2 c3 c4 - c5 - -',
	'c1 c2 c3 c4 - c5 c6 - -');
for my $size (1 .. 4)
{
	$rows = walk('accounts', " count='$size'", "$staff</link-entity>");
	is(join(' ', sort split / /, column($rows, 'c.lastname')), join(' ', sort split / /, $found[$size]),
		"pages of $size: the next page begins with the next account");
	my @pages = map { @{ fetch('accounts', " count='$size' page='$_'", "$staff</link-entity>")
		->json->{value} } } 1 .. 9;
	is(join(' ', sort split / /, column(\@pages, 'c.lastname')), '- - - c1 c2 c3 c4 c5 c6',
		"pages of $size: no row is lost without a cookie");
}
my @cookies = map { decoded($_->json->{$cookie_name}) }
  fetch('accounts', " count='2'", "$staff</link-entity>"),
  fetch('contacts', " count='2'", "<attribute name='lastname'/><link-entity "
	  . "name='account' from='accountid' to='parentcustomerid'/>");
like($cookies[0], qr{^<cookie page="1"><accountid [^>]*></cookie>$},
	'the cookie has only the key of the root');
like($cookies[1], qr{^<cookie page="1"><contactid [^>]*></cookie>$}, 'in both directions');
$r = fetch('accounts', " count='2'", "$staff<order attribute='lastname'/></link-entity>");
ok($r->json->{$more_name} && !exists $r->json->{$cookie_name},
	'an order on a link: more records, no cookie');
is(column(scalar walk('accounts', " count='2'", "$staff<order attribute='lastname'/>"
	  . '</link-entity>'), 'c.lastname'), '- - - c1 c2 c3 c4 c5 c6', 'simple paging');

# an order by a column that has an alias
$r = fetch('accounts', " count='3'", "<attribute name='name' alias='n'/><order attribute='name'/>");
is(column($r->json->{value}, 'n'), '- A & B a <b>', 'the first page');
like(decoded($r->json->{$cookie_name}),
	qr{^<cookie page="1"><name lastnull="1" firstnull="1" /><accountid last=}, 'the cookie lacks it');
$r = fetch('accounts', " count='3' page='2' paging-cookie='"
	  . xml(decoded($r->json->{$cookie_name})) . "'",
	"<attribute name='name' alias='n'/><order attribute='name'/>");
is(column($r->json->{value}, 'n'), '- A & B a <b>', 'and the same rows are returned again');
for my $harmless ("<attribute name='name' alias='n'/><attribute name='name'/><order attribute='name'/>",
	"<attribute name='fax' alias='n'/><order attribute='name'/>",
	"<attribute name='accountid' alias='n'/><order attribute='accountid'/>",
	"<attribute name='name' alias='n'/>")
{
	is(scalar @{ walk('accounts', " count='2'", $harmless) }, 6, "no harm: $harmless");
}

# orders that differ from those of the stored values
is(column(scalar walk('contacts', " count='2'", "<attribute name='lastname'/>"
	  . "<order attribute='parentcustomerid' descending='true'/><order attribute='lastname'/>"),
	'lastname'), 'c5 c6 c4 c1 c2 c3', 'by the name of a lookup');
$s->patch("accounts($accounts{0})", { preferredcontactmethodcode => 3 });
$s->patch("accounts($accounts{1})", { preferredcontactmethodcode => 4 });
my $method = "<attribute name='preferredcontactmethodcode'/><filter><condition "
  . "attribute='preferredcontactmethodcode' operator='in'><value>3</value><value>4</value>"
  . "</condition></filter><order attribute='preferredcontactmethodcode'/>";
is(column(scalar walk('accounts', " count='1'", $method), 'preferredcontactmethodcode'), '4 3',
	'choices by their labels: Fax, Phone');
is(column(scalar walk('accounts', " count='1' useraworderby='true'", $method),
	'preferredcontactmethodcode'), '3 4', 'useraworderby: by their values');

# distinct
is(column(scalar walk('accounts', " count='1' distinct='true'",
	"<attribute name='numberofemployees'/>"), 'numberofemployees'), '0 1', 'distinct');
is(column(scalar walk('accounts', " count='2' distinct='true'",
	"<attribute name='name'/><order attribute='name' descending='1'/>"), 'name'),
	"g e c'd\" a <b> A & B -", 'distinct in order');
ok(!exists fetch('accounts', " count='1' distinct='true'",
	"<attribute name='numberofemployees'/>")->json->{$cookie_name}, 'no cookie without an order');
my $two = "<attribute name='numberofemployees'/><attribute name='name'/>"
  . "<order attribute='numberofemployees'/>";
is(column(scalar walk('accounts', " count='2' distinct='true'", $two), 'numberofemployees'),
	'0 0 1 1', 'distinct: a cookie with one of two columns loses rows');
is(scalar @{ walk('accounts', " count='2' distinct='true'", "$two<order attribute='name'/>") }, 6,
	'but not if the order has all columns');

# values of every kind as keys
for my $i (1 .. 5)
{
	$s->create('new_meters', { new_name => "m$i", new_serial => "s$i",
		new_number => $i % 3 ? $i : undef, new_active => $i % 2 ? JSON::PP::true : JSON::PP::false,
		new_lastreading => $i == 2 ? undef : 10 - $i / 8, new_capacity => $i / 3,
		new_price => $i == 4 ? undef : 3.25, new_installedon => "2026-01-0${i}T01:02:03Z",
		new_checkedon => $i < 3 ? undef : '2026-02-01', new_kind => 100000000 + $i % 3 });
}
for my $key (qw(new_number new_active new_lastreading new_capacity new_price new_installedon
	new_checkedon new_kind ownerid createdon new_meterid versionnumber statecode new_serial))
{
	for my $descending ('false', 'true')
	{
		my ($all, $cookie, @walked);
		my $xml = sub {
			return $s->get('new_meters?fetchXml=' . Dvsim::escape("<fetch$_[0]><entity "
				  . "name='new_meter'><attribute name='new_name'/><order attribute='$key' "
				  . "descending='$descending'/></entity></fetch>"), Prefer => $annotations)->json;
		};
		$all = column($xml->('')->{value}, 'new_name');
		for my $page (1 .. 5)
		{
			my $json = $xml->(" count='1' page='$page'"
				  . ($cookie ? " paging-cookie='" . xml($cookie) . "'" : ''));
			push @walked, $json->{value}[0]{new_name} // $json->{error}{message} // '?';
			$cookie = $json->{$cookie_name} ? decoded($json->{$cookie_name}) : undef;
		}
		is("@walked", $all, "key $key, descending=$descending");
	}
}

# sizes
is($s->control('POST', '/_dvsim/seed?table=contact&rows=12000')->status, 200, 'many rows')
  or BAIL_OUT('no seed');
my $id = "<attribute name='contactid'/>";
$r = fetch('contacts', '', $id);
is(scalar @{ $r->json->{value} }, 5000, 'a page has 5,000 rows by default');
ok($r->json->{$more_name}, 'and announces more');
is(scalar @{ fetch('contacts', " count='9999'", $id)->json->{value} }, 5000, 'and cannot have more');
($rows, $sizes) = walk('contacts', " count='5000'", $id);
my %seen = map { $_->{contactid} => 1 } @$rows;
is(scalar keys %seen, 12006, 'all rows of all pages');
is($sizes, '5000 5000 2006', 'full pages');
$r = fetch('contacts', " count='1' returntotalrecordcount='true'", $id,
	Prefer => 'odata.include-annotations="*"');
is($r->json->{'@odata.count'}, 5000, 'counts end at 5,000');
ok($r->json->{'@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded'}, 'and say so');

is($s->control('POST', '/_dvsim/seed?table=new_reading&rows=1200')->status, 200, 'elastic rows');
($rows, $sizes) = walk('new_readings', '', "<attribute name='new_name'/>");
%seen = map { $_->{new_readingid} => 1 } @$rows;
is(scalar keys %seen, 1200, 'all rows of an elastic table');
is($sizes, '500 500 200', 'in pages of 500');

done_testing;
