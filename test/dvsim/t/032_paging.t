# 032_paging.t
#		$orderby, $top, odata.maxpagesize and the links from page to page.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);

my $s = Dvsim->start('--seed', 32);
my $set = 'new_alltypeses';

# all pages of a query; dies instead of looping forever
sub walk
{
	my ($path, $size, %headers) = @_;
	my (@rows, @sizes);

	%headers = (Prefer => "odata.maxpagesize=$size", %headers);
	while (defined $path)
	{
		my $r = $s->get($path, %headers);

		die "$path: " . $r->body if $r->status != 200;
		push @rows, @{ $r->json->{value} };
		push @sizes, scalar @{ $r->json->{value} };
		die 'endless' if @sizes > 200;
		$path = $r->json->{'@odata.nextLink'};
	}
	return (\@rows, \@sizes);
}

sub names { return join ' ', map { $_->{new_name} } @{ $_[0] }; }

# ten rows with equal texts, NULLs, and values that need escapes
my @texts = ('b', undef, 'A', 'a  ', "x<&>\"'\n%", 'á', undef, '', 'B', "\x{20ac}uro");
my %id;

for my $i (0 .. 9)
{
	my %row = (new_name => "r$i", new_integer => $i % 3 ? $i % 3 : undef,
		new_double => $i / 7, new_money => $i * 1.25, new_boolean => $i % 2 ? \1 : \0);

	$row{new_text} = $texts[$i] if defined $texts[$i];
	$row{new_datetime} = sprintf '2024-01-%02dT00:00:00Z', 20 - $i if $i != 5;
	$id{"r$i"} = $s->create($set, \%row);
}

# ---- the shape of a link
{
	my $r = $s->get("$set?\$select=new_name&\$orderby=new_name", Prefer => 'odata.maxpagesize=4');
	my $link = $r->json->{'@odata.nextLink'};
	my $base = quotemeta $s->base;

	is(names($r->json->{value}), 'r0 r1 r2 r3', 'a page');
	is($r->header('Preference-Applied'), 'odata.maxpagesize=4', 'the size is acknowledged');
	like($link, qr{^$base/api/data/v9\.2/$set\?\$select=new_name&\$orderby=new_name&\$skiptoken=},
		'absolute, with the original options');
	like($link, qr{%3Ccookie%20pagenumber=%222%22%20pagingcookie=%22%253ccookie%2520page%253d%25221%2522%253e%253cnew_name%2520last%253d%2522r3%2522},
		'a cookie within a cookie');
	like($link, qr{%22%20istracking=%22False%22%20/%3E$}, 'to its end');
	$r = $s->get($link, Prefer => 'odata.maxpagesize=4');
	is(names($r->json->{value}), 'r4 r5 r6 r7', 'the next page');
	like($r->json->{'@odata.nextLink'}, qr/pagenumber=%223%22/, 'the page number increases');
	unlike($r->json->{'@odata.nextLink'}, qr/skiptoken.*skiptoken/, 'the old token is removed');
	$r = $s->get($r->json->{'@odata.nextLink'}, Prefer => 'odata.maxpagesize=4');
	is(names($r->json->{value}), 'r8 r9', 'the last page');
	ok(!exists $r->json->{'@odata.nextLink'}, 'has no link');
}

# ---- a page that ends with the last row
{
	my ($rows, $sizes) = walk("$set?\$select=new_name", 5);

	is("@$sizes", '5 5', 'no empty page at the end');
	is(join(' ', map { $_->{new_alltypesid} } @$rows),
		join(' ', map { $_->{new_alltypesid} }
				@{ $s->get("$set?\$select=new_name&\$orderby=new_alltypesid")->json->{value} }),
		'without an order: by the key');
}

# ---- every order returns all rows once, in the overall order, for any page size
for my $order ('new_alltypesid', 'new_alltypesid desc', 'new_text', 'new_text desc',
	'new_text asc,new_integer desc', 'new_integer desc,new_text', 'new_integer', 'new_double desc',
	'new_money', 'new_datetime', 'new_datetime desc', 'new_boolean,new_datetime desc',
	'_ownerid_value,new_money desc', 'new_formula', 'new_calculated desc', 'createdon desc',
	'new_integer,new_integer,new_name')
{
	my $path = "$set?\$select=new_name&\$orderby=$order";
	my $whole = names($s->get($path)->json->{value});

	is(scalar(split ' ', $whole), 10, "$order: all rows");
	for my $size (1, 3, 7)
	{
		my ($rows) = walk($path, $size);

		is(names($rows), $whole, "$order: pages of $size");
	}
}

# ---- the meaning of orders
is(join('|', map { $_->{new_text} // '-' }
			@{ $s->get("$set?\$select=new_text&\$orderby=new_text,new_name")->json->{value} }),
	join('|', '-', '-', '-', "\x{20ac}uro", 'A', 'a  ', 'á', 'b', 'B', $texts[4]),
	'text: NULL first, symbols before letters, equal ones by the next column');
is(names($s->get("$set?\$select=new_name&\$orderby=new_datetime&\$top=3")->json->{value}),
	'r5 r9 r8', 'NULL first ascending');
is(names($s->get("$set?\$select=new_name&\$orderby=new_datetime desc")->json->{value}),
	'r0 r1 r2 r3 r4 r6 r7 r8 r9 r5', 'NULL last descending');

# ---- an order by a column that is calculated on read is silently ignored
for my $column ('new_calculated', 'new_formula', 'new_calculated desc', 'new_formula desc')
{
	my $fetch = $column =~ s/ desc/' descending='true/r;
	my $plain = names($s->get("$set?\$select=new_name")->json->{value});

	is(names($s->get("$set?\$select=new_name&\$orderby=$column")->json->{value}), $plain,
		"$column: the order of the key");
	is(names($s->get("$set?\$select=new_name&\$orderby=$column,new_name desc")->json->{value}),
		'r9 r8 r7 r6 r5 r4 r3 r2 r1 r0', 'and other keys apply');
	is(names($s->get("$set?fetchXml=<fetch><entity name='new_alltypes'><attribute name='new_name'/>"
				. "<order attribute='$fetch'/></entity></fetch>")->json->{value}),
		$plain, 'in FetchXML as well');
}
{
	my $meter = $s->create('new_meters', { new_name => 'm', new_serial => 's1' });

	$s->patch("$set($id{r4})", { 'new_MeterId@odata.bind' => "/new_meters($meter)" });
	is(names($s->get("$set?\$select=new_name&\$orderby=new_rollup desc&\$top=1")->json->{value}),
		'r4', 'rollups are stored: they sort');
	like($s->get("$set?\$orderby=new_nothing")->body, qr/new_nothing/, 'names are checked nevertheless');
}

# ---- lookups sort by the name of their target
{
	my %account = map { $_ => $s->create('accounts', { name => $_ }) } qw(Zeta alpha Mid);
	my $n = 0;

	for my $name (qw(Zeta alpha Mid), undef)
	{
		$s->create('contacts', { lastname => $name // '-', $name
				? ('parentcustomerid_account@odata.bind' => "/accounts($account{$name})") : () });
	}
	my $path = 'contacts?$select=lastname&$orderby=_parentcustomerid_value';
	my ($rows) = walk($path, 1);

	is(join(' ', map { $_->{lastname} } @$rows), '- alpha Mid Zeta', 'a lookup, page by page');
	($rows) = walk("$path desc", 1);
	is(join(' ', map { $_->{lastname} } @$rows), 'Zeta Mid alpha -', 'descending');
	($rows) = walk('contacts?$select=lastname&$orderby=parentcustomerid_account/name desc', 1);
	is(join(' ', map { $_->{lastname} } @$rows), 'Zeta Mid alpha -', 'through the navigation property');
}

# ---- pages are no snapshot: rows changed and deleted meanwhile neither repeat nor hide others
{
	my $path = "$set?\$select=new_name&\$orderby=new_name";
	my $r = $s->get($path, Prefer => 'odata.maxpagesize=4');

	$s->delete("$set($id{r3})");			# the last row of the page
	$s->patch("$set($id{r0})", { new_name => 'r85' });
	my ($rows) = walk($r->json->{'@odata.nextLink'}, 4);
	is(names($rows), 'r4 r5 r6 r7 r8 r85 r9', 'evaluated again, by value');
	$s->patch("$set($id{r0})", { new_name => 'r0' });
}

# ---- values that are too long for a link
{
	$s->patch("$set($id{$_})", { new_longtext => ('y' x 900) . ($_ =~ /[13579]/ ? 'a' : 'b') })
		for grep { $_ ne 'r3' } keys %id;
	my $path = "$set?\$select=new_name&\$orderby=new_longtext,new_name";
	my ($rows) = walk($path, 2);

	is(names($rows), 'r1 r5 r7 r9 r0 r2 r4 r6 r8', 'long text, page by page');
	my $r = $s->get($path, Prefer => 'odata.maxpagesize=2');
	cmp_ok(length $r->json->{'@odata.nextLink'}, '<', 2000, 'and the link is short');
}

# ---- $top
is(names($s->get("$set?\$select=new_name&\$orderby=new_name&\$top=3")->json->{value}),
	'r0 r1 r2', '$top');
ok(!exists $s->get("$set?\$select=new_name&\$top=3")->json->{'@odata.nextLink'},
	'$top has no next page');
{
	my ($rows, $sizes) = walk("$set?\$select=new_name&\$top=3", 4);

	is("@$sizes", '4 4 1', '$top is ignored if a page size is given');
}
is($s->get("$set?\$top=$_")->status, 400, "\$top=$_ is refused") for qw(0 -1 x 1.5);
is($s->get("$set?\$select=new_name&\$top=6000")->status, 200, '$top above 5,000 is a page');

# ---- refusals
for my $order ('nothing', 'new_choices', 'new_image', 'new_text up', 'new_text,', 'length(new_text)',
	'new_meterid')
{
	is($s->get("$set?\$orderby=$order")->status, 400, "refused: \$orderby=$order");
}
for my $token ('2', '%3Ccookie', '%3Ccookie%20pagenumber=%222%22%20pagingcookie=%22%22/%3E')
{
	my $r = $s->get("$set?\$skiptoken=$token");

	is($r->status, 400, "refused: \$skiptoken=$token");
	is($r->json->{error}{code}, '0x8004112A', 'as a bad cookie');
}
{
	my $link = $s->get("$set?\$orderby=new_name", Prefer => 'odata.maxpagesize=2')
		->json->{'@odata.nextLink'};

	is($s->get($link =~ s/orderby=new_name/orderby=new_text/r)->status, 400,
		'a cookie of another order');
}

# ---- large pages
is($s->control('POST', '/_dvsim/seed?table=contact&rows=12000')->status, 200, 'many rows');
{
	my ($rows, $sizes) = walk('contacts?$select=contactid', 6000);
	my %seen = map { $_->{contactid} => 1 } @$rows;

	is("@$sizes", '5000 5000 2004', 'pages have at most 5,000 rows');
	is(scalar keys %seen, 12004, 'each row once');
	($rows, $sizes) = walk('contacts?$select=contactid&$orderby=lastname desc,firstname', 5000);
	%seen = map { $_->{contactid} => 1 } @$rows;
	is(scalar keys %seen, 12004, 'in another order as well');
	is(@{ $s->get('contacts?$select=contactid&$top=5000')->json->{value} }, 5000, '$top=5000');
}
is($s->control('POST', '/_dvsim/seed?table=new_reading&rows=1200')->status, 200, 'elastic rows');
{
	my ($rows, $sizes) = walk('new_readings?$select=new_name', 5000);

	is("@$sizes", '500 500 200', 'pages of elastic tables have at most 500 rows');
	my %seen = map { $_->{new_readingid} => 1 } @$rows;
	is(scalar keys %seen, 1200, 'each row once');
	($rows, $sizes) = walk('new_readings?$select=new_name&$orderby=new_readingid', 500);
	my @ids = map { $_->{new_readingid} } @$rows;
	is("@ids", join(' ', sort @ids), 'identifiers sort as text in these');
	my $r = $s->get('new_readings?$orderby=_new_meterid_value');
	is($r->json->{error}{code}, '0x80048d0b', 'no order by lookups');
	is($s->get('new_readings?$select=new_name', 'MSCRM.SessionToken' => '240:8#1#7=-1')->status, 200,
		'a session token is accepted');
}

done_testing();
