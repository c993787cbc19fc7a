# 034_apply_count.t
#		$count, /$count and $apply with their caps.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 34);
my $bom = "\xEF\xBB\xBF";
my $all = 'odata.include-annotations="*"';
my $label = '@OData.Community.Display.V1.FormattedValue';

my $ann = $s->create('contacts', { firstname => 'Ann', lastname => 'Ash' });

for my $row ([ 'a', 1, 10.5, 5, 100000000 ], [ 'Á', 2, 20.25, 6, 100000000 ],
	[ 'b', 3, undef, undef, 100000001 ], [ undef, undef, undef, undef, undef ])
{
	my ($text, $integer, $money, $percent, $choice) = @$row;
	my %columns = (new_name => 'x', new_date => '2024-01-0' . ($integer // 9));

	$columns{new_text} = $text if defined $text;
	$columns{new_integer} = $integer if defined $integer;
	$columns{new_bigint} = 9007199254740993 if defined $integer && $integer == 1;
	$columns{new_money} = $columns{new_decimal} = $money if defined $money;
	$columns{new_double} = $money if defined $money;
	$columns{new_percent} = $percent if defined $percent;
	$columns{new_choice} = $choice if defined $choice;
	$columns{'new_customerid_contact@odata.bind'} = "/contacts($ann)" if defined $money;
	$s->create('new_alltypeses', \%columns);
}

sub apply
{
	my ($text, @rest) = @_;
	my $r = $s->get("new_alltypeses?\$apply=$text", @rest);

	die "$text: " . $r->body if $r->status != 200;
	return $r;
}

sub refused
{
	my ($path, $code, $message, $name) = @_;
	my $r = $s->get($path);

	is($r->status, 400, $name);
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
	return;
}

# ---- counts
{
	my $r = $s->get('new_alltypeses/$count');

	is($r->body, $bom . '4', 'a number after a byte order mark');
	is($r->header('Content-Type'), 'text/plain', 'as text');
	is($s->get("new_alltypeses/\$count?\$filter=new_text eq 'A'")->body, $bom . '2', 'filtered');
	is($s->get("new_alltypeses/\$count?\$filter=x eq 1")->status, 400, 'badly filtered');
	$r = $s->get("new_alltypeses?\$select=new_name&\$count=true&\$filter=new_text ne null",
		Prefer => 'odata.maxpagesize=2');
	is($r->json->{'@odata.count'}, 3, '$count=true counts all pages');
	is(@{ $r->json->{value} }, 2, 'not the page');
	is($s->get($r->json->{'@odata.nextLink'}, Prefer => 'odata.maxpagesize=2')->json->{'@odata.count'},
		3, 'on each of them');
	ok(!exists $s->get('new_alltypeses?$count=false')->json->{'@odata.count'}, '$count=false');
	is($s->get('new_alltypeses?$count=1')->status, 400, 'no other value');
	$r = $s->get('new_alltypeses?$select=new_name&$count=true', Prefer => $all)->json;
	is($r->{'@Microsoft.Dynamics.CRM.totalrecordcount'}, 4, 'as an annotation');
	ok(!$r->{'@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded'}, 'below the cap');
	ok($r->{'@Microsoft.Dynamics.CRM.globalmetadataversion'}, 'with the version of the metadata');
	is($s->get('new_alltypeses?$select=new_name', Prefer => $all)
			->json->{'@Microsoft.Dynamics.CRM.totalrecordcount'}, -1, 'not requested');
}

# ---- groups and sums
{
	my $r = apply('aggregate($count as n,new_integer with sum as s,new_integer with average as a,new_integer with min as lo,new_integer with max as hi)');

	is_deeply($r->json->{value}, [ { n => 4, s => 6, a => 2, lo => 1, hi => 3 } ],
		'all rows: only $count counts NULL');
	is($r->json->{'@odata.context'}, $s->base . '/api/data/v9.2/$metadata#new_alltypeses', 'context');
	like(apply('aggregate(new_money with sum as t)')->body, qr/"t":30\.75000000/, 'money, exactly');
	like(apply('aggregate(new_decimal with average as t)')->body, qr/"t":15\.375/, 'decimal');
	like(apply('aggregate(new_double with max as t)')->body, qr/"t":20\.25\}/, 'double');
	like(apply('aggregate(new_bigint with max as t)')->body, qr/"t":9007199254740993\}/, 'bigint');
	like(apply('aggregate(new_date with min as t)')->body, qr/"t":"2024-01-01"\}/, 'date');
	like(apply('aggregate(new_duration with sum as t,$count as n)')->body, qr/\[\{"n":4\}\]/,
		'a sum of no values is omitted');

	$r = apply('groupby((new_text),aggregate($count as n))')->json->{value};
	is_deeply([ map { $_->{n} } @$r ], [ 1, 2, 1 ], 'equal texts are one group');
	ok(!exists $r->[0]{new_text}, 'a group of NULL has no member');
	is($r->[2]{new_text}, 'b', 'others have');

	$r = apply('groupby((new_choice))', Prefer => $all)->json->{value};
	is_deeply($r, [ {}, { new_choice => 100000000, "new_choice$label" => 'First' },
			{ new_choice => 100000001, "new_choice$label" => 'Second' } ], 'groups without aggregates');

	$r = apply('groupby((new_choice,new_percent),aggregate(new_money with sum as t))')->json->{value};
	is(@$r, 4, 'two columns');
	$r = apply("filter(new_integer gt 1)/groupby((new_choice),aggregate(\$count as n))")->json->{value};
	is_deeply([ map { $_->{n} } @$r ], [ 1, 1 ], 'filtered before');
	my $in = "filter(Microsoft.Dynamics.CRM.In(PropertyName='new_integer',PropertyValues=[\"1\",\"2\"]))/aggregate(\$count as n)";
	my $n = apply("filter(new_integer eq 1 or new_integer eq 2)/aggregate(\$count as n)")->json->{value}[0]{n};
	is(apply($in)->json->{value}[0]{n}, $n, 'functions in a filter');
	$s->quirks('no-apply-functions');
	is($s->get('new_alltypeses?$apply=' . $in)->json->{error}{code}, '0x80060888', 'are refused under a quirk');
	is(apply("filter(new_integer eq 1 or new_integer eq 2)/aggregate(\$count as n)")->json->{value}[0]{n},
		$n, 'operators are accepted');
	$s->quirks();
	$r = apply("filter(new_text eq 'a')/filter(new_integer eq 2)/aggregate(\$count as n)")->json->{value};
	is_deeply($r, [ { n => 1 } ], 'filtered twice');

	$r = apply('groupby((_new_customerid_value),aggregate($count as n))', Prefer => $all)->json->{value};
	is($r->[1]{_new_customerid_value}, $ann, 'a lookup');
	is($r->[1]{"_new_customerid_value$label"}, 'Ann Ash', 'its label');
	$r = apply('groupby((new_customerid_contact/fullname),aggregate($count as n))')->json->{value};
	is_deeply($r, [ { n => 2 }, { contact_fullname => 'Ann Ash', n => 2 } ], 'a path');
	$r = apply('groupby((new_choice),aggregate($count as n))&$orderby=new_choice desc&$top=2')->json->{value};
	is_deeply([ map { $_->{new_choice} } @$r ], [ 100000001, 100000000 ], 'ordered by a group');
}

# ---- refusals
my $set = 'new_alltypeses?$apply=';

refused("${set}groupby((new_text),aggregate(\$count as n))&\$orderby=n", '0x80060888',
	qr/^The query node SingleValueOpenPropertyAccess is not supported\.$/, 'order by an aggregate');
refused("${set}groupby((new_datetime))", '0x80060888', qr/new_datetime/, 'groups of times');
refused("${set}groupby((nothing))", '0x0', qr/'nothing'/, 'unknown name');
refused("${set}aggregate(new_text with countdistinct as n)", '0x80060888', qr/countdistinct/,
	'distinct counts');
refused("${set}aggregate(new_choice with sum as n)", '0x80040203', qr/new_choice/, 'sum of a choice');
refused("${set}aggregate(new_text with min as n)", '0x80040203', qr/new_text/, 'minimum of text');
refused("${set}aggregate(new_integer with sum as n,\$count as n)", '0x80060888', qr/twice/, 'one name');
refused("${set}aggregate(new_integer with sum as 1n)", '0x80060888', qr/alias/, 'no name');
refused("$set$_", '0x80060888', qr/./, "syntax: $_")
	for 'aggregate(new_integer)', 'groupby(new_text)', 'groupby((new_text),)', 'nothing', '',
	'filter(new_integer eq 1)', 'compute(new_integer as x)', 'aggregate($count as n)/filter(n gt 1)',
	'groupby((new_text),aggregate($count as n),x)', 'groupby((new_text';
refused("${set}groupby((new_text))&\$filter=new_integer eq 1", '0x80060888', qr/\$filter/,
	'$filter beside $apply');

# ---- caps
is($s->control('POST', '/_dvsim/seed?table=contact&rows=50000')->status, 200, 'many rows');
{
	my $r = $s->get('contacts/$count');

	is($r->body, $bom . '5000', '/$count stops at 5,000');
	$r = $s->get('contacts?$select=lastname&$count=true&$top=1', Prefer => $all)->json;
	is($r->{'@odata.count'}, 5000, 'so does $count');
	ok($r->{'@Microsoft.Dynamics.CRM.totalrecordcountlimitexceeded'}, 'and says so');
	refused('contacts?$apply=aggregate($count as n)', '0x8004E023',
		qr/^AggregateQueryRecordLimit exceeded\. Cannot perform this operation\.$/, '50,001 rows');
	$s->delete("contacts($ann)");
	is($s->get('contacts?$apply=aggregate($count as n)')->json->{value}[0]{n}, 50000, '50,000 rows');
}
is($s->control('POST', '/_dvsim/seed?table=new_reading&rows=600')->status, 200, 'elastic rows');
is($s->get('new_readings/$count')->body, $bom . '500', 'elastic: 500');

done_testing();
