# joins.pl
#		Joins, groups, and aggregates whose translation to FetchXML has pitfalls:
#		each question is asked of foreign tables and of local copies of them, with
#		plans forced one way or the other, and the answers must be the same.
#
# The service refuses to aggregate more than 50,000 rows, silently returns no more than
# 5,000 groups, ignores case in groups, orders lookups and choices by their names, compares
# columns of one row only, and pages a join by its first table.  There are 50,001 meters, each
# with an account, and a quarter of them with a contact and with a parent.
#
# The requests that dvsim has seen must not contain anything that FetchXML answers
# differently from SQL.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Differential;

use constant ROWS => 50_001;        # meters: one more than the service aggregates
use constant GROUPS => 5_001;       # accounts: one more than the groups it returns
use constant CONTACTS => 6_000;

my @flags = ('--limit-requests', 10000000, '--limit-exec', '1000000s', '--journal-bytes', 268435456);
my $crm = Crm->start('joins', initdb => [ '--encoding', 'UTF8' ], flags => \@flags);
my $dvsim = $crm->dvsim;

# ---------------------------------------------------------------- tables

my %columns = (
	account => 'accountid uuid, name varchar(160), revenue numeric(17,2) OPTIONS (type \'money\'),
		creditlimit numeric(17,2) OPTIONS (type \'money\'), numberofemployees integer,
		industrycode integer OPTIONS (type \'choice\'), creditonhold boolean, address1_city text, createdon timestamptz,
		parentaccountid uuid OPTIONS (type \'lookup\', navigation \'parentaccountid\', target \'account\', target_set \'accounts\'),
		primarycontactid uuid OPTIONS (type \'lookup\', navigation \'primarycontactid\', target \'contact\', target_set \'contacts\')',
	contact => 'contactid uuid, firstname varchar(50), lastname varchar(50), fullname varchar(160) OPTIONS (readonly \'true\'),
		birthdate date OPTIONS (type \'date\'), anniversary date OPTIONS (type \'date\'),
		annualincome numeric(17,2) OPTIONS (type \'money\'), creditlimit numeric(17,2) OPTIONS (type \'money\'),
		numberofchildren integer, gendercode integer OPTIONS (type \'choice\'), createdon timestamptz,
		parentcustomerid uuid OPTIONS (type \'customer\', navigation \'parentcustomerid_account,parentcustomerid_contact\', target \'account,contact\', target_set \'accounts,contacts\')',
	new_meter => 'new_meterid uuid, new_name varchar(100), new_notes text OPTIONS (type \'memo\'), new_number integer,
		new_kind integer OPTIONS (type \'choice\'), new_active boolean, new_lastreading numeric(16,4), new_price numeric(17,2) OPTIONS (type \'money\'),
		new_installedon timestamptz, new_localtime timestamp OPTIONS (type \'datetime_independent\'), new_checkedon date OPTIONS (type \'date\'),
		createdon timestamptz,
		new_accountid uuid OPTIONS (type \'lookup\', navigation \'new_AccountId\', target \'account\', target_set \'accounts\'),
		new_contactid uuid OPTIONS (type \'lookup\', navigation \'new_ContactId\', target \'contact\', target_set \'contacts\'),
		new_parentid uuid OPTIONS (type \'lookup\', navigation \'new_ParentId\', target \'new_meter\', target_set \'new_meters\')');

Differential::prepare($crm);
for my $table (qw(account contact new_meter))
{
	my $rows = $table eq 'account' ? GROUPS : $table eq 'contact' ? CONTACTS : ROWS;
	my $answer = $dvsim->control('POST', "/_dvsim/seed?table=$table&rows=$rows");

	die $answer->body if $answer->status != 200;
	$crm->sql("CREATE FOREIGN TABLE f.$table ($columns{$table}) SERVER crm OPTIONS (\"table\" '$table', entity_set '${table}s');
		CREATE FOREIGN TABLE f.${table}_paged ($columns{$table}) SERVER crm OPTIONS (\"table\" '$table', entity_set '${table}s', page_size '7')");
}

# rows beyond the seed: equal texts in other case, equal columns, cyclic parents, a row with only NULLs
my $first = sub { my ($table, $id, $n) = @_; return "(SELECT $id FROM f.$table ORDER BY createdon, $id LIMIT $n)"; };
$crm->sql(
	"CREATE TABLE numbered AS SELECT accountid AS id, row_number() OVER (ORDER BY accountid) AS n FROM " . $first->('account', 'accountid', 60) . " a;
	 UPDATE f.account SET name = (ARRAY['twin', 'TWIN', 'Twin', 'twin ', 'tw\x{c3}\x{ad}n', 'other'])[1 + n % 6] FROM numbered WHERE accountid = id;
	 UPDATE f.account SET address1_city = name FROM numbered WHERE accountid = id AND n % 4 = 0;
	 UPDATE f.account SET creditlimit = revenue FROM numbered WHERE accountid = id AND n % 3 = 0;
	 UPDATE f.account SET creditlimit = NULL FROM numbered WHERE accountid = id AND n % 7 = 0;
	 UPDATE f.account SET revenue = NULL FROM numbered WHERE accountid = id AND n % 5 = 0;
	 UPDATE f.account a SET parentaccountid = o.id FROM numbered s JOIN numbered o ON o.n = 1 + s.n % 10 WHERE a.accountid = s.id AND s.n <= 10;
	 UPDATE f.contact SET lastname = upper(firstname) WHERE contactid IN " . $first->('contact', 'contactid', 40) . ";
	 UPDATE f.contact SET firstname = lastname WHERE contactid IN " . $first->('contact', 'contactid', 20) . ";
	 UPDATE f.contact SET anniversary = birthdate WHERE contactid IN " . $first->('contact', 'contactid', 200) . ";
	 UPDATE f.new_meter SET new_kind = NULL, new_active = NULL, new_lastreading = NULL, new_price = NULL, new_installedon = NULL, new_checkedon = NULL
	 WHERE new_meterid IN " . $first->('new_meter', 'new_meterid', 3));
for my $table (qw(account contact new_meter))
{
	$crm->sql("CREATE TABLE l.$table AS SELECT * FROM f.$table; CREATE VIEW l.${table}_paged AS SELECT * FROM l.$table");
}
$crm->sql('CREATE INDEX ON l.account (accountid); CREATE INDEX ON l.contact (contactid); CREATE INDEX ON l.new_meter (new_meterid);
	CREATE INDEX ON l.contact (parentcustomerid); CREATE INDEX ON l.new_meter (new_accountid); ANALYZE l.account, l.contact, l.new_meter');

# preconditions of the limits below
is($crm->sql('SELECT count(*), count(DISTINCT new_number), min(new_number), max(new_number), count(DISTINCT createdon) FROM l.new_meter'),
	join('|', ROWS, ROWS, 0, ROWS - 1, ROWS), 'each meter has a distinct number and time');
is($crm->sql('SELECT count(*) FROM l.account'), GROUPS, 'the number of accounts exceeds the limit of groups');
cmp_ok($crm->sql('SELECT count(*) FROM l.new_meter WHERE new_contactid IS NULL'), '>', ROWS / 2, 'most meters have no contact');
cmp_ok($crm->sql('SELECT count(*) FROM (SELECT lower(name) FROM l.account GROUP BY 1 HAVING count(DISTINCT name) > 1) g'), '>', 0, 'some texts differ only in case');

my $fifty = ROWS - 1;
my $five = GROUPS - 1;

# ---------------------------------------------------------------- asking

# all plans are allowed; joins of two scans are avoided; so are sorting and hashing
our @ways = ('', join(' ', map { "SET enable_$_ = off;" } qw(hashjoin mergejoin nestloop)),
	join ' ', map { "SET enable_$_ = off;" } qw(hashagg sort));
my @all_ways = @ways;

# Asks queries in all these ways; those with "!" in front are sorted.
sub same_ok
{
	my ($what, @queries) = @_;
	my @questions = map { s/^!// ? [ $_, 1 ] : [ $_, 0 ] } map { s/\s+/ /gr } @queries;
	my @found;

	for my $way (@ways)
	{
		my $set = "$way SET TimeZone = 'America/Los_Angeles';";
		push @found, map { "$set\n$_" } differing($crm, $set, @questions);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	report_ok(\@found, "$what: " . @queries . ' questions, the same answers');
	return;
}

my ($before) = $dvsim->control('GET', '/_dvsim/requests?since=0')->json->{next};
my $joined = 'new_meter m JOIN account a ON a.accountid = m.new_accountid';
my $outer = 'new_meter m LEFT JOIN contact c ON c.contactid = m.new_contactid';
my $low = 'm.new_number < 400';    # few rows, for conditions that match many

same_ok('columns of one row (4)',
	'SELECT accountid FROM account WHERE revenue = creditlimit',
	'SELECT accountid FROM account WHERE revenue <> creditlimit AND numberofemployees < 400000',
	'SELECT accountid FROM account WHERE revenue IS DISTINCT FROM creditlimit AND numberofemployees < 400000',
	'SELECT accountid FROM account WHERE revenue IS NOT DISTINCT FROM creditlimit',
	'SELECT accountid FROM account WHERE NOT (revenue = creditlimit) AND numberofemployees < 400000',
	'SELECT accountid FROM account WHERE revenue = creditlimit OR creditlimit IS NULL',
	'SELECT count(*) FROM account WHERE revenue <= creditlimit',
	'SELECT count(*) FROM account WHERE NOT (revenue > creditlimit)',
	# texts that are equal to the service
	'SELECT accountid, name FROM account WHERE name = address1_city',
	'SELECT contactid FROM contact WHERE firstname = lastname',
	'SELECT count(*) FROM contact WHERE firstname <> lastname',
	'SELECT contactid FROM contact WHERE anniversary = birthdate',
	'SELECT count(*) FROM contact WHERE numberofchildren = gendercode',
	'SELECT accountid FROM account WHERE primarycontactid = parentaccountid OR accountid = parentaccountid',
	'SELECT count(*) FROM new_meter WHERE new_installedon < new_checkedon',
	'SELECT count(*) FROM new_meter WHERE new_localtime > new_installedon');

same_ok('columns of two tables (4, 5)',
	"SELECT m.new_meterid FROM $joined WHERE m.new_price > a.revenue AND $low",
	"SELECT m.new_meterid, a.accountid FROM new_meter m LEFT JOIN account a ON a.accountid = m.new_accountid AND a.createdon < m.new_installedon WHERE $low",
	'SELECT a.accountid, c.contactid FROM account a JOIN contact c ON c.contactid = a.primarycontactid WHERE a.name = c.fullname OR a.creditlimit < c.creditlimit',
	'SELECT a.accountid, p.accountid FROM account a JOIN account p ON p.accountid = a.parentaccountid WHERE a.name = p.name OR a.revenue = p.revenue',
	# below a nested link
	"SELECT m.new_meterid FROM $joined JOIN contact c ON c.contactid = a.primarycontactid WHERE c.firstname = c.lastname",
	"SELECT m.new_meterid FROM $joined JOIN contact c ON c.contactid = a.primarycontactid AND c.annualincome < c.creditlimit WHERE $low",
	"SELECT m.new_meterid, c.contactid FROM $joined LEFT JOIN contact c ON c.contactid = a.primarycontactid AND c.annualincome < c.creditlimit WHERE $low",
	"SELECT m.new_meterid FROM $joined JOIN contact c ON c.contactid = a.primarycontactid WHERE c.creditlimit < a.creditlimit AND $low",
	"SELECT m.new_meterid FROM $joined JOIN contact c ON c.contactid = a.primarycontactid WHERE c.creditlimit < m.new_price AND $low",
	'SELECT c.contactid FROM contact c WHERE EXISTS (SELECT FROM account a WHERE a.primarycontactid = c.contactid AND a.revenue < a.creditlimit)',
	'SELECT c.contactid FROM contact c WHERE NOT EXISTS (SELECT FROM account a WHERE a.accountid = c.parentcustomerid AND a.creditlimit < c.creditlimit) AND c.numberofchildren < 50000');

same_ok('an order of which the service knows a part (23)',
	"!SELECT m.new_number, a.name, m.new_meterid FROM $joined WHERE $low ORDER BY m.new_number, a.name, m.new_meterid LIMIT 20",
	"!SELECT a.revenue, a.name, m.new_meterid FROM $joined WHERE $low ORDER BY a.revenue DESC NULLS LAST, a.name, m.new_meterid LIMIT 20",
	"!SELECT a.name, m.new_number FROM $joined WHERE $low ORDER BY a.name, m.new_number LIMIT 20",
	"!SELECT m.new_kind, m.new_number FROM $joined WHERE $low ORDER BY m.new_kind, m.new_number LIMIT 20",
	"!SELECT a.industrycode, m.new_number FROM $joined WHERE $low ORDER BY a.industrycode DESC, m.new_number LIMIT 20",
	"!SELECT m.new_accountid, m.new_number FROM $joined WHERE $low ORDER BY m.new_accountid, m.new_number LIMIT 20",
	"!SELECT m.new_active, m.new_number FROM $joined WHERE $low ORDER BY m.new_active, m.new_number DESC LIMIT 20 OFFSET 3",
	"!SELECT c.birthdate, m.new_number FROM $outer WHERE $low ORDER BY c.birthdate, m.new_number DESC LIMIT 30",
	"!SELECT c.birthdate, m.new_number FROM $outer WHERE $low ORDER BY c.birthdate NULLS FIRST, m.new_number LIMIT 30 OFFSET 290",
	"!SELECT a.accountid, c.contactid FROM account a LEFT JOIN contact c ON c.parentcustomerid = a.accountid WHERE a.numberofemployees < 100000 ORDER BY a.revenue, a.accountid, c.contactid LIMIT 50",
	"!SELECT m.new_number FROM $joined WHERE m.new_number < 3000 ORDER BY a.numberofemployees, m.new_number LIMIT 10");
# all rows, joined only in the best way
{
	local @ways = ('');
	same_ok('an order of all rows (23)',
		"!SELECT m.new_number FROM $joined ORDER BY m.new_number DESC LIMIT 3 OFFSET $fifty",
		"!SELECT m.new_number FROM $joined ORDER BY a.numberofemployees, m.new_number LIMIT 10",
		"!SELECT m.new_number FROM $joined ORDER BY m.new_number DESC LIMIT 10000");
}

same_ok('conditions on what may be missing (30)', map { "SELECT m.new_meterid, c.contactid, c.firstname FROM $outer WHERE $low AND $_" }
	'c.contactid IS NOT NULL', 'c.contactid IS NULL', 'c.firstname IS NOT NULL', 'c.firstname IS NULL', "c.lastname = 'Weber'", "c.lastname <> 'Weber'",
	'NOT (c.numberofchildren > 100000)', 'c.numberofchildren IS DISTINCT FROM 3', 'coalesce(c.numberofchildren, 7) = 7', '(c.numberofchildren > 100000) IS NOT TRUE',
	'(c.contactid IS NOT NULL OR m.new_number < 10)', 'c.annualincome IS NOT NULL AND c.contactid IS NOT NULL', 'c.gendercode IN (1)', 'c.gendercode NOT IN (1)');

same_ok('alternatives (31)', map { my $from = $_; map { "SELECT m.new_meterid, c.contactid FROM new_meter m $from contact c ON c.contactid = m.new_contactid WHERE $low AND ($_)" }
	'c.gendercode = 1 OR c.numberofchildren < 100000', 'm.new_kind = 100000001 OR c.gendercode = 2', 'c.gendercode IS NULL OR c.numberofchildren < 100000',
	'(m.new_number < 50 AND c.gendercode = 1) OR (m.new_number > 350 AND c.gendercode = 2)', 'NOT (c.gendercode = 1 OR m.new_number < 200)',
	"c.lastname = 'weber' OR c.firstname = 'Maria'" } 'JOIN', 'LEFT JOIN');
same_ok('alternatives of the join itself (31)',
	"SELECT m.new_meterid, c.contactid FROM new_meter m LEFT JOIN contact c ON c.contactid = m.new_contactid AND (c.gendercode = 1 OR m.new_number < 100) WHERE $low",
	"SELECT m.new_meterid, c.contactid FROM new_meter m LEFT JOIN contact c ON c.contactid = m.new_contactid AND m.new_number < 100 WHERE $low",
	"SELECT m.new_meterid, a.accountid, c.contactid FROM new_meter m JOIN account a ON a.accountid = m.new_accountid LEFT JOIN contact c ON c.contactid = a.primarycontactid AND c.gendercode = 1 WHERE $low AND (a.creditonhold OR c.contactid IS NULL)");

same_ok('NOT IN and NOT EXISTS (32)',
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND m.new_contactid NOT IN (SELECT contactid FROM contact WHERE gendercode = 1)",
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND m.new_contactid NOT IN (SELECT contactid FROM contact WHERE gendercode = 77)",
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND m.new_contactid NOT IN (SELECT primarycontactid FROM account)",
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND m.new_contactid NOT IN (SELECT primarycontactid FROM account WHERE primarycontactid IS NOT NULL)",
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND NOT EXISTS (SELECT FROM account a WHERE a.primarycontactid = m.new_contactid)",
	"SELECT m.new_meterid FROM new_meter m WHERE $low AND NOT EXISTS (SELECT FROM contact c WHERE c.contactid = m.new_contactid AND c.gendercode = 1)",
	'SELECT a.accountid FROM account a WHERE a.accountid NOT IN (SELECT parentcustomerid FROM contact)',
	'SELECT a.accountid FROM account a WHERE a.accountid NOT IN (SELECT parentcustomerid FROM contact WHERE parentcustomerid IS NOT NULL AND gendercode = 1) AND a.numberofemployees < 200000',
	'SELECT a.accountid FROM account a WHERE NOT EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid) AND a.numberofemployees < 200000',
	# more than one row on the other side, or the row itself
	'SELECT count(*) FROM account a WHERE EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 2)',
	'SELECT count(*) FROM account a WHERE a.accountid IN (SELECT new_accountid FROM new_meter WHERE new_number < 2000)',
	'SELECT count(*) FROM account a WHERE NOT EXISTS (SELECT FROM account c WHERE c.parentaccountid = a.accountid) AND a.numberofemployees < 200000',
	'SELECT a.accountid FROM account a WHERE a.parentaccountid NOT IN (SELECT p.accountid FROM account p WHERE p.parentaccountid = a.accountid) AND a.numberofemployees < 100000',
	"SELECT count(*) FROM new_meter m WHERE $low AND m.new_kind NOT IN (SELECT new_kind FROM new_meter WHERE new_number < 3)");

same_ok('aggregates that the service does not have (36)',
	'SELECT min(new_kind), max(new_kind), min(industrycode) FROM new_meter m JOIN account a ON a.accountid = m.new_accountid WHERE new_number < 400',
	'SELECT bool_and(creditonhold), bool_or(creditonhold), sum(industrycode), avg(industrycode) FROM account',
	'SELECT new_kind, min(new_number), max(new_lastreading), min(new_checkedon), max(new_installedon) FROM new_meter GROUP BY new_kind',
	# the first and the last id: FetchXML sorts them differently
	'!SELECT accountid FROM account ORDER BY accountid LIMIT 1', '!SELECT accountid FROM account ORDER BY accountid DESC LIMIT 1',
	'!SELECT new_accountid FROM new_meter ORDER BY new_accountid LIMIT 1',
	'SELECT new_installedon, count(*) FROM new_meter WHERE new_number < 400 GROUP BY new_installedon',
	'SELECT new_checkedon, count(*), sum(new_lastreading) FROM new_meter WHERE new_number < 4000 GROUP BY new_checkedon',
	'SELECT new_localtime, count(*) FROM new_meter WHERE new_number < 400 GROUP BY new_localtime',
	map { ("SELECT date_trunc('$_', new_installedon), count(*), sum(new_price) FROM new_meter GROUP BY 1", "SELECT date_trunc('$_', new_localtime), count(*) FROM new_meter GROUP BY 1") }
	  qw(year quarter month week));
same_ok('days (36)',
	"SELECT date_trunc('day', new_installedon), count(*) FROM new_meter GROUP BY 1",
	"SELECT new_installedon::date, count(*) FROM new_meter WHERE new_number < 4000 GROUP BY 1",
	"SELECT date_trunc('day', new_installedon, 'UTC'), max(new_number) FROM new_meter GROUP BY 1",
	"SELECT extract(year FROM new_installedon), extract(month FROM new_installedon), count(*) FROM new_meter GROUP BY 1, 2");

same_ok('twins are different (37)',
	'SELECT name, count(*) FROM account GROUP BY name HAVING count(*) > 1',
	"SELECT DISTINCT name FROM account WHERE name ILIKE 'tw_n%'",
	'SELECT count(DISTINCT name), count(DISTINCT lower(name)), count(DISTINCT address1_city) FROM account',
	"SELECT a.accountid, b.accountid FROM account a JOIN account b ON a.name = b.name AND a.accountid <> b.accountid WHERE a.name ILIKE 'tw_n%' AND b.name ILIKE 'tw_n%'",
	"SELECT a.name, count(*), count(DISTINCT m.new_kind) FROM $joined WHERE a.name ILIKE 'tw_n%' GROUP BY a.name",
	'SELECT min(name), max(name) FROM account',
	'SELECT firstname, lastname, count(*) FROM contact GROUP BY firstname, lastname HAVING count(*) > 1',
	"SELECT a.accountid FROM account a WHERE a.name ILIKE 'tw_n%' AND a.name IN (SELECT b.address1_city FROM account b)",
	'SELECT name FROM account EXCEPT SELECT address1_city FROM account',
	'!SELECT DISTINCT name FROM account ORDER BY name LIMIT 100');

# scans of all rows, with groups formed locally in two ways
@ways = @ways[ 0, 2 ];
my $all = 'count(*), count(new_contactid), count(new_price), sum(new_number), sum(new_price), sum(new_lastreading), avg(new_number), avg(new_price), min(new_installedon), max(new_checkedon), min(new_lastreading)';
same_ok("aggregates of $fifty rows and of one more (5.3)",
	(map { "SELECT $all FROM new_meter WHERE new_number < $_" } $fifty - 1, $fifty, ROWS),
	"SELECT $all FROM new_meter", "SELECT $all FROM new_meter WHERE new_number < 0",
	'SELECT count(DISTINCT new_number), count(DISTINCT new_accountid), count(DISTINCT new_contactid), count(DISTINCT new_kind) FROM new_meter',
	(map { "SELECT new_kind, new_active, $all FROM new_meter WHERE new_number < $_ GROUP BY new_kind, new_active" } $fifty, ROWS),
	"SELECT a.industrycode, count(*), sum(m.new_price), count(DISTINCT m.new_kind) FROM $joined GROUP BY a.industrycode",
	"SELECT count(*), sum(a.revenue), count(c.contactid), max(c.birthdate) FROM $joined LEFT JOIN contact c ON c.contactid = m.new_contactid",
	"SELECT count(*), sum(a.revenue) FROM $joined WHERE m.new_number < $fifty",
	'SELECT sum(new_number) FILTER (WHERE new_kind = 100000001), count(*) FILTER (WHERE new_contactid IS NULL) FROM new_meter');

same_ok("$five groups and one more (5.3)",
	(map { my $n = $_; map { "SELECT new_number, count(*), sum(new_price) FROM new_meter WHERE new_number < $n GROUP BY new_number$_" } '', ' HAVING sum(new_price) > 500000' } $five - 1, $five, GROUPS),
	(map { "SELECT DISTINCT new_number FROM new_meter WHERE new_number < $_" } $five, GROUPS),
	(map { "!SELECT new_number, max(new_lastreading) FROM new_meter WHERE new_number < $_ GROUP BY new_number ORDER BY new_number DESC LIMIT 3" } $five, GROUPS),
	'SELECT new_accountid, count(*), max(new_number) FROM new_meter GROUP BY new_accountid',
	"SELECT a.accountid, count(*), min(m.new_installedon) FROM $joined GROUP BY a.accountid",
	'SELECT a.accountid, count(m.new_meterid), sum(m.new_price) FROM account a LEFT JOIN new_meter m ON m.new_accountid = a.accountid AND m.new_number < 9000 GROUP BY a.accountid',
	'SELECT count(*), sum(n) FROM (SELECT new_number, count(*) AS n FROM new_meter GROUP BY new_number) g',
	'SELECT accountid, count(*) FROM account GROUP BY accountid');

same_ok('groups of what is NULL (5.3)',
	'SELECT new_contactid, count(*), count(new_contactid), sum(new_number) FROM new_meter GROUP BY new_contactid HAVING count(*) > 5 OR new_contactid IS NULL',
	'SELECT new_parentid IS NULL, count(*) FROM new_meter GROUP BY 1',
	'SELECT new_kind, count(*), count(new_kind), sum(new_price), avg(new_price), min(new_installedon) FROM new_meter WHERE new_number < 100 GROUP BY new_kind',
	"SELECT c.gendercode, c.contactid IS NULL, count(*), sum(c.annualincome) FROM $outer GROUP BY 1, 2",
	"SELECT c.birthdate, count(*) FROM $outer WHERE $low GROUP BY c.birthdate",
	'SELECT parentaccountid, primarycontactid, count(*) FROM account GROUP BY parentaccountid, primarycontactid HAVING count(*) > 1',
	'SELECT DISTINCT parentaccountid FROM account WHERE numberofemployees < 100000');

@ways = @all_ways;
# seven rows a page: the last row of a page has none, one, or several rows on the other side
my $some = 'a.numberofemployees < 100000';
same_ok('joins across the edges of pages (5.3)',
	"SELECT a.accountid, c.contactid FROM account_paged a LEFT JOIN contact_paged c ON c.parentcustomerid = a.accountid WHERE $some AND (c.contactid IS NULL OR c.contactid IS NOT NULL)",
	"SELECT a.accountid, c.contactid FROM account_paged a LEFT JOIN contact c ON c.parentcustomerid = a.accountid WHERE $some",
	"SELECT a.accountid, c.contactid FROM account_paged a JOIN contact c ON c.parentcustomerid = a.accountid WHERE $some",
	"SELECT a.accountid, m.new_meterid FROM account_paged a JOIN new_meter m ON m.new_accountid = a.accountid WHERE $some AND m.new_number < 9000",
	"SELECT a.accountid, m.new_meterid FROM account_paged a LEFT JOIN new_meter m ON m.new_accountid = a.accountid AND m.new_kind = 100000001 WHERE $some AND (m.new_number IS NULL OR m.new_number < 9000)",
	"SELECT a.accountid, p.accountid, p.name FROM account_paged a LEFT JOIN account_paged p ON p.accountid = a.parentaccountid WHERE $some",
	"SELECT a.accountid, p.accountid, g.accountid FROM account_paged a LEFT JOIN account p ON p.accountid = a.parentaccountid LEFT JOIN account g ON g.accountid = p.parentaccountid WHERE $some",
	"SELECT a.accountid, c.contactid, s.contactid FROM account_paged a JOIN contact c ON c.contactid = a.primarycontactid LEFT JOIN contact s ON s.parentcustomerid = a.accountid WHERE $some",
	"SELECT a.accountid FROM account_paged a WHERE $some AND EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid)",
	"SELECT DISTINCT a.industrycode, c.gendercode FROM account_paged a LEFT JOIN contact c ON c.parentcustomerid = a.accountid WHERE $some",
	"!SELECT a.accountid, c.contactid FROM account_paged a LEFT JOIN contact c ON c.parentcustomerid = a.accountid WHERE $some ORDER BY a.numberofemployees DESC, a.accountid, c.contactid LIMIT 15 OFFSET 7",
	'SELECT m.new_meterid, c.contactid, c.lastname FROM new_meter m LEFT JOIN contact c ON c.contactid = m.new_contactid WHERE m.new_number BETWEEN 4990 AND 10010');

report_ok(\@Differential::errors, 'no answer is an error');

# ---------------------------------------------------------------- parts of FetchXML that must not be sent

# Parts of FetchXML that the service does not evaluate as SQL does.  "types" lists what must not
# be requested, by table and column.
my %types = (
	new_kind => 'choice', industrycode => 'choice', gendercode => 'choice', new_active => 'boolean', creditonhold => 'boolean',
	accountid => 'id', contactid => 'id', new_meterid => 'id', new_accountid => 'lookup', new_contactid => 'lookup', new_parentid => 'lookup',
	parentaccountid => 'lookup', primarycontactid => 'lookup', parentcustomerid => 'lookup',
	new_installedon => 'time', new_localtime => 'time', createdon => 'time',
	(map { $_ => 'text' } qw(name address1_city firstname lastname fullname new_name new_notes)));

sub objections
{
	my ($xml) = @_;
	my ($depth, @found) = (0);

	while ($xml =~ /<(\/?)([\w-]+)((?:\s+[\w-]+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*(\/?)>/g)
	{
		my ($end, $name, $rest, $empty) = ($1, $2, $3, $4);
		my %is = $rest =~ /([\w-]+)\s*=\s*["']([^"']*)["']/g;
		my $type = $types{ $is{name} // $is{attribute} // '' } // '';
		my $aggregate = $is{aggregate} // '';

		$depth += $end ? -1 : $empty ? 0 : 1 if $name eq 'link-entity';
		next if $end;
		push @found, "$aggregate of a $type: $is{name}" if $aggregate =~ /^(?:min|max|sum|avg)$/ && $type =~ /^(?:choice|boolean|id|lookup|text)$/;
		push @found, "group of a $type: $is{name}"
		  if ($is{groupby} // '') eq 'true' && ($type eq 'text' || $type eq 'time' && !$is{dategrouping});
		push @found, "different values of a text: $is{name}" if $aggregate eq 'countcolumn' && ($is{distinct} // '') eq 'true' && $type eq 'text';
		push @found, "columns compared in a nested link: $is{attribute}" if $name eq 'condition' && $is{valueof} && $depth > 1;
		push @found, "texts compared: $is{attribute}" if $name eq 'condition' && $is{valueof} && $type eq 'text' && $is{operator} ne 'eq';
		push @found, "order by a $type: " . ($is{attribute} // $is{name})
		  if $name eq 'order' && $type =~ /^(?:choice|boolean|lookup|text)$/;
	}
	return @found;
}

# requests that it reports, and requests that it accepts
my $link = '<link-entity name="account" from="accountid" to="new_accountid">';
my %sample = (
	"<fetch aggregate='true'><entity name='new_meter'><attribute name='new_kind' alias='c0' aggregate='min'/></entity></fetch>" => 1,
	'<fetch aggregate="true"><entity name="new_meter"><attribute name="new_number" alias="c0" aggregate="min"/><attribute name="new_kind" alias="c1" groupby="true"/></entity></fetch>' => 0,
	'<fetch aggregate="true"><entity name="new_meter"><attribute name="new_installedon" alias="c0" groupby="true"/></entity></fetch>' => 1,
	'<fetch aggregate="true"><entity name="new_meter"><attribute name="new_installedon" alias="c0" groupby="true" dategrouping="year"/></entity></fetch>' => 0,
	'<fetch aggregate="true"><entity name="account"><attribute name="name" alias="c0" groupby="true"/><attribute name="name" alias="c1" aggregate="countcolumn" distinct="true"/></entity></fetch>' => 2,
	"<fetch><entity name='new_meter'>$link<filter><condition attribute='revenue' operator='lt' valueof='creditlimit'/></filter></link-entity></entity></fetch>" => 0,
	"<fetch><entity name='new_meter'>$link<link-entity name='contact'><filter><condition attribute='creditlimit' operator='lt' valueof='annualincome'/></filter></link-entity></link-entity></entity></fetch>" => 1,
	"<fetch><entity name='new_meter'>$link<link-entity name='contact'/><filter><condition attribute='revenue' operator='lt' valueof='creditlimit'/></filter></link-entity><order attribute='new_kind'/></entity></fetch>" => 1);
is_deeply({ map { $_ => scalar objections($_) } keys %sample }, \%sample, 'wrong parts of FetchXML are detected');

sub decoded { my ($s) = @_; $s =~ tr/+/ /; $s =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge; return $s; }

my ($since, @sent) = ($before);
while (1)
{
	my $answer = $dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	last if !@{ $answer->{requests} };
	push @sent, map { my $request = $_; map { /[?&]fetchXml=([^& ]+)/ig } $request->{target}, $request->{body} // '' } @{ $answer->{requests} };
	$since = $answer->{next};
}
my @fetch = map { decoded($_) } @sent;
my %objections = map { my $xml = $_; map { $_ => $xml } objections($xml) } @fetch;
diag scalar(@fetch) . ' requests were FetchXML';
is_deeply([ sort keys %objections ], [], 'none of them requests what the service lacks');
diag "$_: $objections{$_}" for sort keys %objections;

$crm->stop;
done_testing;
