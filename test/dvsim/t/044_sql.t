# 044_sql.t
#		Queries in SQL (?sql=): the features that Microsoft's page documents,
#		those it declares unsupported, and those that Microsoft's Python
#		client sends nevertheless.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 7);
my $all = 'odata.include-annotations="*"';

my %id = map { $_->{name} => $s->create('accounts', $_) } (
	{ name => 'Alfa', numberofemployees => 10, telephone1 => '111', industrycode => 1, address1_city => 'Ulm' },
	{ name => 'Bravo', numberofemployees => 20, industrycode => 2, address1_city => 'Bonn' },
	{ name => '50% off', numberofemployees => 30, telephone1 => '333', industrycode => 1, address1_city => 'Ulm' },
	{ name => "O'Hara" });
my %works = (Anna => 'Alfa', Bert => 'Alfa', Carl => 'Bravo', Dora => undef);
for my $name (sort keys %works)
{
	$id{$name} = $s->create('contacts',
		{
			lastname => $name, firstname => 'X', numberofchildren => ord($name) - 64, creditonhold => $name eq 'Bert' ? \1 : \0, birthdate => '2000-01-0' . (ord($name) - 64),
			$works{$name} ? ('parentcustomerid_account@odata.bind' => "/accounts($id{$works{$name}})") : ()
		});
}
is($s->patch("accounts($id{Bravo})", { 'parentaccountid@odata.bind' => "/accounts($id{Alfa})" })->status, 204, 'rows exist');

sub sql
{
	my ($set, $query, %headers) = @_;
	return $s->get("$set?sql=" . Dvsim::escape($query), %headers);
}

# rows as "member,member …"; a missing member is "-"
sub rows
{
	my ($r, @members) = @_;

	return $r->status . ' ' . $r->body unless $r->status == 200;
	return join ' ', map { my $row = $_; join ',', map { $row->{$_} // '-' } @members } @{ $r->json->{value} };
}

# ---- the form of the answer

{
	my $r = sql('accounts', "SELECT name \r\nFROM account AS a \r\nWHERE a.name LIKE 'alfa'", Prefer => $all);
	my $answer = $r->json;

	is($answer->{'@odata.context'}, $s->base . '/api/data/v9.2/$metadata#accounts(name,accountid)', 'the context');
	is($answer->{'@Microsoft.Dynamics.CRM.totalrecordcount'}, -1, '… and the annotations');
	is_deeply([ sort keys %{ $answer->{value}[0] } ], [ '@odata.etag', 'accountid', 'name' ], 'the id is always included');
	is($answer->{value}[0]{name}, 'Alfa', 'case does not matter');
}
{
	my ($row) = @{ sql('accounts', "SELECT a.name AS account_name, a.telephone1 phone FROM account a WHERE a.name = 'Alfa'", Prefer => $all)->json->{value} };

	is_deeply(
		{ map { $_ => $row->{$_} } grep { /account_name|phone/ } keys %$row },
		{
			account_name => 'Alfa', phone => '111', 'account_name@OData.Community.Display.V1.AttributeName' => 'name',
			'phone@OData.Community.Display.V1.AttributeName' => 'telephone1'
		},
		'aliases');
}

# ---- conditions, each on accounts by name

for my $case (
	[ "statecode = 0 AND telephone1 IS NOT NULL", '50% off Alfa' ],
	[ "(numberofemployees = 10 OR numberofemployees = 20) AND telephone1 IS NULL", 'Bravo' ],
	[ "numberofemployees = 10 OR numberofemployees = 20 AND telephone1 IS NOT NULL", 'Alfa' ],
	[ "numberofemployees <> 10", '50% off Bravo' ],
	[ "numberofemployees != 10", '50% off Bravo' ],
	[ "numberofemployees >= 20 AND numberofemployees < 30", 'Bravo' ],
	[ "numberofemployees > -1 AND numberofemployees <= 10", 'Alfa' ],
	[ "name > 'M'", "O'Hara" ],
	[ "name = 'O''Hara'", "O'Hara" ],
	[ "name = N'Alfa'", 'Alfa' ],
	[ "name LIKE '[%]off' OR name LIKE '%[%]%'", '50% off' ],
	[ "name LIKE '_lfa'", 'Alfa' ],
	[ "telephone1 NOT LIKE '1%'", '50% off' ],
	[ "name IN ('Alfa', 'bravo', 'nobody')", 'Alfa Bravo' ],
	[ "numberofemployees NOT IN (10, 20)", '50% off' ],
	[ "numberofemployees NOT IN (10, NULL)", '' ],
	[ "name BETWEEN 'A' AND 'B'", 'Alfa' ],
	[ "numberofemployees = NULL", '' ],
	[ "accountid = '$id{Alfa}'", 'Alfa' ],
	[ "parentaccountid = '$id{Alfa}'", 'Bravo' ],
	[ "createdon >= DATEADD(day, -3, GETUTCDATE())", "50% off Alfa Bravo O'Hara" ],
	[ "createdon < DATEADD(month, 1, DATEADD(day, -60, GETUTCDATE()))", '' ],
	[ "createdon > '2023-01-01 17:00:00'", "50% off Alfa Bravo O'Hara" ],
	[ "createdon < DATEADD(month, 1, '2024-01-31 17:00:00')", '' ],
	[ "[name] = 'Alfa' -- a comment\n/* and another */;", 'Alfa' ])
{
	my ($condition, $wanted) = @$case;
	my @found = sort split / \| /, join ' | ', map { $_->{name} } @{ sql('accounts', "SELECT name FROM account WHERE $condition")->json->{value} // [] };

	is(join(' ', @found), $wanted, $condition);
}
# a year that is not a leap year, and an invalid date
is(rows(sql('contacts', "SELECT lastname FROM contact WHERE birthdate = DATEADD(year, -4, '2004-01-02')"), 'lastname'), 'Bert', 'DATEADD of a date');
is(rows(sql('contacts', "SELECT lastname FROM contact WHERE birthdate < DATEADD(month, -1, '2000-02-29') ORDER BY lastname"), 'lastname'), 'Anna Bert Carl Dora',
	'… and of the end of a month');

# ---- joins

is(rows(sql('accounts', 'SELECT a.name, c.lastname FROM account AS a INNER JOIN contact AS c ON a.accountid = c.parentcustomerid ORDER BY c.lastname DESC'), 'name', 'lastname'),
	'Bravo,Carl Alfa,Bert Alfa,Anna', 'an inner join: columns keep their names');
is(rows(sql('contacts', 'SELECT name, lastname FROM contact JOIN account ON contact.parentcustomerid = account.accountid ORDER BY name, lastname DESC'), 'name', 'lastname'),
	'Alfa,Bert Alfa,Anna Bravo,Carl', '… without aliases, and in the order of both');
is(rows(sql('contacts', 'SELECT c.lastname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid ORDER BY c.lastname'), 'lastname', 'name'),
	'Anna,Alfa Bert,Alfa Carl,Bravo Dora,-', 'a left join');
is(rows(sql('contacts', "SELECT c.lastname FROM contact c LEFT OUTER JOIN account a ON a.accountid = c.parentcustomerid WHERE a.name IS NULL"), 'lastname'), 'Dora', '… with a condition on it');
is(rows(sql('contacts', "SELECT c.lastname, a.name FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid AND (a.name LIKE 'B%' OR a.name = 'x') ORDER BY c.lastname"), 'lastname', 'name'),
	'Anna,- Bert,- Carl,Bravo Dora,-', '… and one within it');
is(rows(sql('accounts', 'SELECT child.name AS account, parent.name AS parent_account FROM account AS child INNER JOIN account AS parent ON child.parentaccountid = parent.accountid'), 'account', 'parent_account'),
	'Bravo,Alfa', 'a table joined to itself');
is(rows(sql('contacts', "SELECT c.lastname, p.name FROM contact c JOIN account a ON c.parentcustomerid = a.accountid JOIN account p ON p.accountid = a.parentaccountid"), 'lastname', 'name'),
	'Carl,Alfa', 'a chain of tables');

# ---- groups

is(rows(sql('accounts', 'SELECT COUNT(*) AS n, SUM(numberofemployees) AS s, AVG(numberofemployees) AS a, MIN(numberofemployees) AS low, MAX(numberofemployees) AS high, COUNT(telephone1) AS phones FROM account'),
	qw(n s a low high phones)), '4,60,20,10,30,2', 'aggregates');
is(rows(sql('accounts', 'SELECT address1_city, COUNT(*) AS n FROM account WHERE address1_city IS NOT NULL GROUP BY address1_city ORDER BY address1_city'), 'address1_city', 'n'), 'Bonn,1 Ulm,2', 'groups');
is(rows(sql('accounts', 'SELECT a.name, COUNT(c.contactid) AS contacts FROM account AS a INNER JOIN contact AS c ON a.accountid = c.parentcustomerid GROUP BY a.name ORDER BY a.name'), 'name', 'contacts'),
	'Alfa,2 Bravo,1', '… of a join');
is(rows(sql('accounts', 'SELECT DISTINCT a.address1_city FROM account AS a WHERE address1_city IS NOT NULL ORDER BY address1_city'), 'address1_city'), 'Bonn Ulm', 'DISTINCT');

# ---- pages

my @pages;
{
	my $query = 'SELECT c.lastname FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid ORDER BY c.lastname';
	my $r = sql('contacts', $query, Prefer => 'odata.maxpagesize=3');

	while (@pages < 5)
	{
		push @pages, rows($r, 'lastname');
		my $link = $r->json->{'@odata.nextLink'} // last;
		like($link, qr/\$skiptoken=.*pagenumber.*pagingcookie/, 'a link to the next page') if @pages == 1;
		my ($path) = $link =~ m{/api/data/v9\.2/(.*)};
		$r = $s->get($path, Prefer => 'odata.maxpagesize=3');
	}
	is(join(' | ', @pages), 'Anna Bert Carl | Dora', 'all rows, page by page');
	@pages = ();
	# cookies do not contain columns of links
	$r = sql('contacts', 'SELECT c.lastname FROM contact c LEFT JOIN account a ON a.accountid = c.parentcustomerid ORDER BY a.name, c.lastname', Prefer => 'odata.maxpagesize=3');
	push @pages, rows($r, 'lastname');
	my ($path) = $r->json->{'@odata.nextLink'} =~ m{/api/data/v9\.2/(.*)};
	push @pages, rows($s->get($path, Prefer => 'odata.maxpagesize=3'), 'lastname');
	is(join(' | ', @pages), 'Dora Anna Bert | Carl', '… by number, without a cookie');
}
is(rows(sql('contacts', "SELECT lastname, contactid FROM contact WHERE contactid > '00000000-0000-0000-0000-000000000000' ORDER BY contactid")), '   ', '… or by the ids seen last');
is($s->get('accounts?sql=' . Dvsim::escape('SELECT name FROM account') . '&$skiptoken=x')->status, 400, 'an invalid token');

# ---- statements that Microsoft's Python client sends, although the page declares them unsupported

is(rows(sql('contacts', 'SELECT TOP 2 lastname FROM contact ORDER BY lastname DESC'), 'lastname'), 'Dora Carl', 'TOP');
is(rows(sql('contacts', 'SELECT TOP (0) lastname FROM contact'), 'lastname'), '', 'TOP 0');
is(sql('contacts', 'SELECT TOP 1 lastname FROM contact', Prefer => 'odata.maxpagesize=1')->json->{'@odata.nextLink'}, undef, '… has no next page');
is(rows(sql('accounts', 'SELECT DISTINCT TOP 1 address1_city FROM account WHERE address1_city IS NOT NULL ORDER BY address1_city'), 'address1_city'), 'Bonn', 'DISTINCT TOP');
is(rows(sql('contacts', 'SELECT lastname FROM contact ORDER BY lastname OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY'), 'lastname'), 'Bert Carl', 'OFFSET and FETCH NEXT');
is(rows(sql('contacts', 'SELECT lastname FROM contact WHERE creditonhold = 1'), 'lastname'), 'Bert', 'numbers for booleans');

# ---- unsupported features

for my $query (
	'SELECT * FROM account', 'SELECT name FROM account; SELECT name FROM account', 'DELETE FROM account', 'WITH x AS (SELECT name FROM account) SELECT name FROM x',
	"SELECT 'abc' FROM account", 'SELECT 1+2 AS n FROM account', 'SELECT revenue * 2 AS r FROM account', 'SELECT DATEADD(day, -3, modifiedon) AS d FROM account', 'SELECT UPPER(name) FROM account',
	'SELECT a.name FROM account a RIGHT JOIN contact c ON a.accountid = c.parentcustomerid', 'SELECT a.name FROM account a FULL OUTER JOIN contact c ON a.accountid = c.parentcustomerid',
	'SELECT a.name FROM account a CROSS JOIN contact c', 'SELECT a.name FROM account a, contact c',
	"SELECT a.name FROM account AS a INNER JOIN contact AS c ON c.emailaddress1 LIKE 'B%'", 'SELECT a.name FROM account AS a INNER JOIN contact AS c ON a.accountid <> c.parentcustomerid',
	"SELECT a.name FROM account AS a INNER JOIN contact AS c ON a.accountid = c.parentcustomerid OR c.emailaddress1 LIKE 'B%'",
	"SELECT a.name FROM account AS a INNER JOIN contact AS c ON a.accountid = c.parentcustomerid AND a.name LIKE 'A%'",
	'SELECT name FROM account ORDER BY LEN(name)', 'SELECT name FROM account ORDER BY 1',
	'SELECT name FROM account WHERE accountid IN (SELECT accountid FROM account)', 'SELECT name FROM account WHERE EXISTS (SELECT name FROM account)',
	'SELECT name FROM account WHERE 1=1', 'SELECT name FROM account WHERE modifiedon > createdon', 'SELECT name FROM account WHERE revenue > 500.0 + 125.0',
	"SELECT name FROM account WHERE DATEADD(day, 3, createdon) >= GETUTCDATE()", "SELECT name FROM account WHERE createdon >= DATEADD(day, 1, createdon)", 'SELECT name FROM account WHERE name = UPPER(name)',
	'SELECT name, COUNT(*) AS n FROM account GROUP BY name HAVING COUNT(*) > 1', 'SELECT COUNT(*) AS n FROM account GROUP BY MONTH(createdon)', 'SELECT name, COUNT(*) AS n FROM account',
	'SELECT name FROM account UNION SELECT lastname FROM contact', 'SELECT TOP 5001 name FROM account', 'SELECT name FROM nothing', 'SELECT nothing FROM account', 'SELECT x.name FROM account',
	'SELECT c.createdon, a.createdon FROM account a JOIN contact c ON c.parentcustomerid = a.accountid', 'SELECT createdon FROM account a JOIN contact c ON c.parentcustomerid = a.accountid',
	'SELECT name FROM account WHERE name = ', 'SELECT name FROM account WHERE (name = \'x\'', 'SELECT name FROM account WHERE name = \'x', 'SELECT', '', 'SELECT name FROM account WHERE ' . ('(' x 2000) . "name = 'x'" . (')' x 2000),
	'SELECT name FROM account x JOIN contact x ON x.accountid = x.parentcustomerid')
{
	my $r = sql('accounts', $query);

	is($r->status, 400, 'refused: ' . substr $query, 0, 90) or diag $r->body;
}
is(sql('contacts', 'SELECT name FROM account')->error_code, '0x80041128', 'a query of another table');
is($s->get('accounts?sql=' . Dvsim::escape('SELECT name FROM account') . '&$top=1')->status, 400, 'options of OData beside it');

ok($s->stop, 'dvsim ends cleanly');
done_testing();
