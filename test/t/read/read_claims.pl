# read_claims.pl
#		EXPLAIN shows the requests that dvsim receives: for each kind of query, the
#		requests of EXPLAIN VERBOSE are those of dvsim's journal, except for the
#		parameters of later pages, and EXPLAIN ANALYZE counts as many requests,
#		pages, and rows.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $accounts = 420;
my $contacts = 1130;
my $opportunities = 250;
my $pairs = 160;
my $meters = 50_001;    # more than the service groups at a time
my $page = 100;

my $crm = Crm->start('claims');

sub seed
{
	my ($table, $rows, $lookups) = @_;
	my $answer = $crm->dvsim->control('POST', "/_dvsim/seed?table=$table&rows=$rows", $lookups ? { lookups => $lookups } : ());

	die $answer->body unless $answer->status == 200;
	return;
}

seed('account', $accounts);
seed('contact', $contacts, { parentcustomerid => { table => 'account', filled => 0.7, skew => 0.5 } });
seed('opportunity', $opportunities, { parentaccountid => { table => 'account', filled => 0.8 } });
seed('new_account_contact', $pairs);
seed('new_meter', $meters);
# values that need some kind of escaping
my @names = (q{Fish & Chips + 100%}, q{O'Neill #1 [x]_%}, qq{S\xc3\xb6hne "&" T\xc3\xb6chter?}, q{a/b\\c=d;e});
$crm->sql(
	qq{CREATE SCHEMA dv; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, opportunity, new_account_contact, new_meter) FROM SERVER crm INTO dv;
	INSERT INTO dv.account (name, numberofemployees) VALUES } . join(', ', map { '(' . quoted($_) . ', NULL)' } @names) . qq{;
	ANALYZE dv.account, dv.contact, dv.opportunity, dv.new_account_contact;
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, parentaccountid FROM dv.account;
	CREATE TABLE l.few AS SELECT row_number() OVER (ORDER BY accountid) AS n, accountid AS id, name, numberofemployees FROM l.account
	  WHERE numberofemployees IS NOT NULL LIMIT 3;
	CREATE TABLE l.many AS SELECT contactid AS id FROM dv.contact;
	ANALYZE l.account, l.few, l.many;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page');
	ALTER FOREIGN TABLE dv.contact OPTIONS (ADD page_size '$page');
	ALTER FOREIGN TABLE dv.opportunity OPTIONS (ADD page_size '$page')});

sub quoted { return "'" . ($_[0] =~ s/'/''/gr) . "'"; }

# ---------------------------------------------------------------- comparison

# Returns the requests of a plan: FetchXML as shown, OData with ambiguous characters encoded.
sub requests_of
{
	my ($plan) = @_;

	return map { /fetchXml=/ ? $_ : s/%([0-9A-Fa-f]{2})/chr hex $1/ger } $plan =~ /^ *Request: GET (.*)$/mg;
}

# The sum of a figure over all nodes of a plan.
sub total
{
	my ($plan, $label) = @_;
	my $sum = 0;

	$sum += $_ for $plan =~ /^ *\Q$label\E: (\d+)$/mg;
	return $sum;
}

# Returns a request, decoded, without the parameters of its page.
sub asked
{
	my ($request) = @_;
	my $target = $request->{target};

	# a query that is too long for a request line is sent in a batch
	($target) = $request->{body} =~ m{^GET \S*?(/api/data/v\S*) HTTP/1\.1\r?$}m if $target =~ m{/\$batch$};
	$target =~ s/[?&]\$skiptoken=[^&]*//;
	$target = Crm::target({ target => $target });
	$target =~ s{(<fetch)((?: [a-z-]+='[^']*')*)}{ my ($tag, $list) = ($1, $2); $tag . ($list =~ s/ (?:page|count|paging-cookie)='[^']*'//gr) }e;
	return $target;
}

# The pattern of a request as EXPLAIN shows it, with placeholders for values that are known only later.
sub pattern_of
{
	my ($request, $parts) = @_;

	$request =~ s/$parts/:0/ if $parts;
	return join '(.*?)', map { quotemeta } split /:\d+/, $request, -1;
}

# Explains a query, runs it, and compares.  The plan must match "like".  "settings" precede
# the query.  "values" are those of the requests, one line for each request.  "hidden" is
# called with each request of the journal, for requests that EXPLAIN does not show verbatim:
# if it returns 1, the request is only counted, and if it returns a text, the text is compared
# instead.  "parts" is the part that differs between otherwise equal requests.
sub claims
{
	my ($what, $query, %want) = @_;
	my $settings = join '; ', 'SET dataverse_fdw.scan_parallelism = 1', $want{settings} // ();
	my ($told, $plan, @journal, @shown, %seen, @strange, @values);

	$crm->requests;
	$told = $crm->sql("$settings; EXPLAIN (VERBOSE, COSTS OFF) $query");
	is(scalar($crm->requests), 0, "$what: EXPLAIN sends nothing");
	$plan = $crm->sql("$settings; EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
	@journal = $crm->requests;
	like($plan, $want{like}, '… the plan is of this kind');
	@shown = requests_of($plan);
	is_deeply([ requests_of($told) ], \@shown, '… with and without ANALYZE, it shows the same requests');

	for my $request (@journal)
	{
		my $asked = asked($request);
		my $hidden = $want{hidden} ? $want{hidden}->($asked) : undef;
		my $found;

		next if $hidden && $hidden eq '1';
		$asked = $hidden if $hidden;
		for my $i (0 .. $#shown)
		{
			my $pattern = pattern_of($shown[$i], $want{parts});

			next unless $asked =~ /^$pattern$/;
			push @values, join ' ', map { substr $asked, $-[$_], $+[$_] - $-[$_] } 1 .. $#-;
			$found = $seen{$i} = 1;
			last;
		}
		push @strange, $asked unless $found;
	}
	is_deeply([ \@strange, [ map { $shown[$_] } grep { !$seen{$_} } 0 .. $#shown ] ], [ [], [] ],
		'… and these are sent') or diag $plan;
	if ($want{values})
	{
		my %had;
		is_deeply([ sort grep { !$had{$_}++ } @values ], [ sort split /\n/, $crm->sql($want{values}) ], '… with these values');
	}

	# abandoned requests may not have been sent or answered; without ranges, they were the last ones
	my $abandoned = total($plan, 'Requests Abandoned');
	my $sent = total($plan, 'Requests Answered') + total($plan, 'Requests Repeated');
	my @awaited = grep { $_->{status} == 200 } @journal[ 0 .. $sent - 1 ];

	if ($abandoned > 0 && $plan =~ /^ *Ranges:/m)
	{
		cmp_ok(scalar @journal, '>=', $sent, '… and ANALYZE counts the requests');
		cmp_ok(scalar @journal, '<=', $sent + $abandoned, '… and the abandoned ones');
	}
	else
	{
		my $rows = 0;

		$rows += $_->{rows} for @awaited;
		ok(@journal >= $sent && @journal <= $sent + $abandoned, '… and ANALYZE counts the requests')
		  or diag scalar(@journal) . ' requests';
		is(total($plan, 'Pages'), scalar @awaited, '… the pages');
		is(total($plan, 'Rows Received'), $rows, '… and the rows')
		  or diag $plan, join "\n", map { asked($_) . " $_->{status} $_->{rows}" } @journal;
	}
	cmp_ok(scalar @journal, '>=', $want{at_least}, '… requests') if $want{at_least};
	is(scalar @journal, $want{requests}, '… requests') if defined $want{requests};
	return;
}

my $here = 'SET enable_hashjoin = off; SET enable_mergejoin = off';
my $all = $accounts + @names;
my $pages = int(($all + $page - 1) / $page);

# ---------------------------------------------------------------- one table

claims('a table', 'SELECT name, revenue FROM dv.account', like => qr/\$select=/, requests => $pages);
claims('no columns', 'SELECT 1 FROM dv.account', like => qr/Request/, requests => $pages);
claims('all columns', 'SELECT a FROM dv.account a', like => qr/Request/, requests => $pages);
claims('a filter', 'SELECT name FROM dv.account WHERE numberofemployees BETWEEN 1000 AND 1500000 AND (creditonhold OR industrycode IS NULL)',
	like => qr/\$filter=/, at_least => 2);
claims("a text: $_", 'SELECT accountid FROM dv.account WHERE name = ' . quoted($_), like => qr/\$filter=name eq/, requests => 1) for @names;
claims("a pattern: $_", 'SELECT accountid FROM dv.account WHERE name LIKE ' . quoted(s/([\\%_])/\\$1/gr . '%'), like => qr/startswith/, requests => 1)
  for @names;
claims('a filter that is checked here', 'SELECT name FROM dv.account WHERE length(name) > 10 AND revenue > 100', like => qr/Filter/);
claims('no row can match', 'SELECT name FROM dv.account WHERE industrycode IN (NULL)', like => qr/One-Time Filter|none: no row/, requests => 0);
claims('a list', 'SELECT name FROM dv.account WHERE industrycode IN (1, 2, 3, 4)', like => qr/\.In\(/);
claims('a list of texts', 'SELECT accountid FROM dv.account WHERE name IN (' . join(', ', map { quoted($_) } @names) . ')', like => qr/\.In\(/, requests => 1);
claims('what is not in a list', 'SELECT name FROM dv.account WHERE numberofemployees NOT IN (1, 2, 3)', like => qr/\.NotIn\(/);
claims('a count', 'SELECT count(*) FROM dv.account', like => qr/\$count as n/, requests => 1);
claims('a count with a filter', 'SELECT count(*) FROM dv.account WHERE revenue > 1000 AND name IS NOT NULL', like => qr/filter\(.*\$count as n|aggregate='count'/, requests => 1);
claims('a limit', 'SELECT name FROM dv.account LIMIT 7', like => qr/\$top=7/, requests => 1);
claims('a limit with an offset', 'SELECT name FROM dv.account WHERE revenue > 0 LIMIT 20 OFFSET 5', like => qr/\$top=25/, requests => 1);
claims('a limit of many pages', 'SELECT name FROM dv.account LIMIT 200', like => qr/Limit/, requests => 2);
claims('an order', 'SELECT name, numberofemployees FROM dv.account WHERE revenue > 0 ORDER BY numberofemployees DESC NULLS LAST',
	settings => 'SET enable_sort = off', like => qr/orderby=numberofemployees desc/);
claims('an order with a limit', 'SELECT numberofemployees FROM dv.account ORDER BY numberofemployees NULLS FIRST LIMIT 5', like => qr/\$orderby=numberofemployees,accountid&\$top=5/, requests => 1);
claims('an order with nulls at the other end', 'SELECT revenue FROM dv.account ORDER BY revenue DESC NULLS FIRST LIMIT 250', like => qr/eq null.*ne null/s);
claims('an order with nulls at the other end, of all rows', 'SELECT revenue FROM dv.account ORDER BY revenue NULLS LAST',
	settings => 'SET enable_sort = off', like => qr/ne null.*eq null/s);
claims('the greatest value', 'SELECT max(revenue_base) FROM dv.account', like => qr/orderby=|aggregate='max'/, requests => 1);
claims('few rows at first', 'SELECT name FROM dv.account WHERE length(name) > 1 LIMIT 4', like => qr/Limit/, requests => 1,
	# a page that is requested on speculation when rows are wanted; EXPLAIN shows the intended requests
	hidden => sub { return $_[0] =~ s/&\$top=\d+$//r; });

claims('more than the few rows', q{SELECT count(*) FROM (SELECT name FROM dv.account WHERE hashtext(accountid::text) % 20 = 0 LIMIT 15) s}, like => qr/Limit/, at_least => 4,
	hidden => sub { return $_[0] =~ s/&\$top=\d+$//r; });
claims('a limit above a join that is made here', 'SELECT a.name FROM dv.account a, generate_series(1, 3) i LIMIT 10', like => qr/Nested Loop/, hidden => sub { return $_[0] =~ s/&\$top=\d+$//r; });

# too long for a request line
my $long = join ' OR ', map { "name = '" . ('z' x 200) . "$_'" } 1 .. 150;

claims('a long filter', "SELECT accountid FROM dv.account WHERE $long OR name = " . quoted($names[0]), like => qr/\$filter=/);

# ---------------------------------------------------------------- lists, values that are known later

my $ids = quoted('{' . join(',', split /\n/, $crm->sql('SELECT id FROM l.many')) . '}') . '::uuid[]';
my $hundred = quoted('{' . join(',', split /\n/, $crm->sql('SELECT id FROM l.many LIMIT 100')) . '}') . '::uuid[]';
my $large = q{UPDATE pg_class SET reltuples = 10000000 WHERE oid = 'dv.contact'::regclass};
my $small = qq{UPDATE pg_class SET reltuples = $contacts WHERE oid = 'dv.contact'::regclass};

claims('ids', "SELECT fullname FROM dv.contact WHERE contactid = ANY ($hundred)", like => qr/\.In\(/, requests => 1);
$crm->sql($large);
{
	my %listed;

	claims('more ids than a request has', "SELECT fullname FROM dv.contact WHERE contactid = ANY ($ids)", like => qr/Requests Like This: 3$/m, requests => 12,
		# EXPLAIN shows the first part, and the number of parts
		hidden => sub { my ($asked) = @_; $listed{$_} = 1 for $asked =~ /"([0-9a-f-]{36})"/g; return undef; },
		parts => qr/PropertyValues=\[[^]]*\]/);
	is(scalar keys %listed, $contacts, '… with all of the ids');
}
$crm->sql($small);
$crm->sql(q{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '5000')});
claims('more ids than the table has pages', "SELECT fullname FROM dv.contact WHERE contactid = ANY ($ids)",
	like => qr/contacts\?\$select=(?:contactid,fullname|fullname,contactid)&\$orderby=contactid$/m, requests => 1);
$crm->sql(qq{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '$page')});
claims('values of an outer row', 'SELECT a.name FROM l.few f JOIN dv.account a ON a.numberofemployees >= f.numberofemployees',
	settings => 'SET enable_material = off', like => qr/Nested Loop.*ge :1/s, values => 'SELECT numberofemployees FROM l.few');
claims('ids of an outer row', 'SELECT f.n, a.name FROM l.few f LEFT JOIN LATERAL (SELECT * FROM dv.account WHERE parentaccountid = f.id AND name IS NOT NULL ORDER BY revenue NULLS FIRST LIMIT 2) a ON true',
	like => qr/eq :1&.*\$top=2/, values => 'SELECT id FROM l.few', requests => 3);
claims('the value of a subquery', 'SELECT name FROM dv.account WHERE numberofemployees > (SELECT max(numberofemployees) FROM l.few)', like => qr/gt :1/,
	values => 'SELECT max(numberofemployees) FROM l.few');
claims('a parameter', 'EXECUTE q(1500000)', settings => 'SET plan_cache_mode = force_generic_plan; PREPARE q(int) AS SELECT name FROM dv.account WHERE numberofemployees > $1',
	like => qr/gt :1.*Values: :1 = \$1/s, values => 'SELECT 1500000');
claims('a parameter that is a limit', 'EXECUTE q(20)', settings => 'SET plan_cache_mode = force_generic_plan; PREPARE q(int) AS SELECT name FROM dv.account LIMIT $1',
	like => qr/Limit: \$1/s, requests => 1, hidden => sub { return $_[0] =~ s/&\$top=20$//r; });
claims('an EXISTS for each row', 'SELECT EXISTS (SELECT FROM dv.account a WHERE a.numberofemployees >= f.numberofemployees) FROM l.few f',
	like => qr/SubPlan.*ge :1/s, values => 'SELECT numberofemployees FROM l.few', hidden => sub { return $_[0] =~ s/&\$top=1$//r; });

# ---------------------------------------------------------------- keys of many rows at once

$crm->sql($large);
{
	my %listed;
	my $keys = sub { my ($asked) = @_; $listed{$_} = 1 for $asked =~ /"([0-9a-f-]{36})"/g; return undef; };

	claims('keys of many rows', 'SELECT count(c.fullname) FROM l.many m JOIN dv.contact c ON c.contactid = m.id',
		like => qr/DataverseLookup/, hidden => $keys, at_least => 3);
	is(scalar keys %listed, $contacts, '… with all keys');
	claims('keys that have no match', 'SELECT count(*) FROM l.many m WHERE NOT EXISTS (SELECT FROM dv.contact c WHERE c.contactid = m.id AND c.gendercode = 1)',
		like => qr/DataverseLookup/, hidden => $keys, at_least => 3);
}
$crm->sql($small);

# ---------------------------------------------------------------- several tables

my $join = 'dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid';

claims('a join', "SELECT c.fullname, a.name FROM $join", like => qr/Joined by Dataverse: c, a.*link-type='inner'/s, at_least => 5);
claims('a join with conditions', "SELECT c.fullname, a.name FROM $join WHERE a.name LIKE 'A%' AND c.gendercode IN (1, 2) AND length(c.fullname) > 3",
	like => qr/Joined by Dataverse/);
claims("a join with a text: $_", "SELECT c.fullname, a.name FROM $join WHERE a.name = " . quoted($_), like => qr/Joined by Dataverse/, requests => 1) for @names;
claims('a join of three tables', "SELECT o.name, a.name, p.name FROM dv.opportunity o JOIN dv.account a ON a.accountid = o.parentaccountid LEFT JOIN dv.account p ON p.accountid = a.parentaccountid",
	like => qr/Joined by Dataverse: o, a, p/);
claims('a left join', 'SELECT c.fullname, a.name FROM dv.contact c LEFT JOIN dv.account a ON a.accountid = c.parentcustomerid AND a.numberofemployees > 1000',
	like => qr/Joined by Dataverse.*link-type='outer'/s, at_least => 10);
claims('the sides of an intersect table', 'SELECT a.name, c.fullname FROM dv.new_account_contact n JOIN dv.account a USING (accountid) JOIN dv.contact c USING (contactid)',
	like => qr/Joined by Dataverse: n, a, c/);
claims('what exists', 'SELECT name FROM dv.account a WHERE EXISTS (SELECT FROM dv.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)',
	like => qr/link-type='exists'/);
claims('what does not exist', 'SELECT name FROM dv.account a WHERE NOT EXISTS (SELECT FROM dv.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)',
	like => qr/link-type='not any'/);
claims('a limit above a join', "SELECT c.fullname, a.name FROM $join ORDER BY c.createdon NULLS FIRST LIMIT 7 OFFSET 3", like => qr/<fetch top='10'>/, requests => 1);
claims('a limit above a join, of many pages', "SELECT c.fullname, a.name FROM $join LIMIT 250", like => qr/Joined by Dataverse/, requests => 3);
claims('a join that is made here', 'SELECT c.fullname, a.name FROM dv.contact c JOIN dv.account a ON length(a.name) = length(c.fullname)', like => qr/(?:Hash|Merge) Join/);
claims('a join with values of an outer row', "SELECT f.n, x.fullname FROM l.few f LEFT JOIN LATERAL (SELECT c.fullname FROM $join WHERE a.numberofemployees >= f.numberofemployees OFFSET 0) x ON true",
	settings => $here, like => qr/Joined by Dataverse.*value=':1'/s, values => 'SELECT numberofemployees FROM l.few');
claims('two tables, one after the other', 'SELECT name FROM dv.account UNION ALL SELECT fullname FROM dv.contact', like => qr/Append/);

# ---------------------------------------------------------------- groups

claims('groups', 'SELECT industrycode, count(*) FROM dv.account GROUP BY 1', like => qr/groupby='true'/, requests => 1);
claims('groups of a join', "SELECT a.industrycode, c.gendercode, count(*), count(DISTINCT a.accountid) FROM $join GROUP BY 1, 2", like => qr/Grouped by Dataverse: c, a/, requests => 1);
claims('distinct values', 'SELECT DISTINCT industrycode, statecode FROM dv.account', like => qr/groupby='true'/, requests => 1);
claims('sums', 'SELECT sum(numberofemployees), avg(numberofemployees), min(createdon) FROM dv.account WHERE revenue > 10', like => qr/aggregate='sum'/, requests => 1);
claims('months', q{SELECT date_trunc('month', createdon), count(*) FROM dv.contact GROUP BY 1}, settings => q{SET TimeZone = 'UTC'}, like => qr/dategrouping='month'/, requests => 1);
claims('groups with a value of an outer row', 'SELECT f.n, (SELECT sum(a.revenue_base) FROM dv.account a WHERE a.numberofemployees >= f.numberofemployees) FROM l.few f',
	like => qr/aggregate='sum'.*value=':1'/, values => 'SELECT numberofemployees FROM l.few', requests => 3);
claims('groups that are formed here', 'SELECT name, count(*) FROM dv.account GROUP BY 1', like => qr/Aggregate/);

# more rows than the service groups: the query is sent for ranges of ids, whose ends are requested first
{
	my $bounds = qr{<condition attribute='new_meterid' operator='(?:ge|lt)' value='[0-9a-f-]{36}'/>};
	my $end = qr{<fetch top='1'><entity name='new_meter'><(?:attribute name='new_meterid'/><)?order attribute='new_meterid'};
	# whether ids are ordered as expected
	my $trial = qr{<fetch top='1'><entity name='new_meter'><attribute name='new_meterid'/><filter><condition attribute='new_meterid' operator='eq' value='[0-9a-f-]{36}'/>$bounds+</filter></entity></fetch>};
	my $part = sub {
		my ($asked) = @_;
		return '1' if $asked =~ $end || $asked =~ $trial;
		return $asked =~ s/<filter>$bounds+<\/filter>//r =~ s/$bounds//gr;
	};

	for my $known (0, 1)
	{
		$crm->sql('ANALYZE dv.new_meter') if $known;
		my $size = $known ? 'as is known' : 'as turns out';
		claims("sums in parts, $size", 'SELECT new_kind, count(*), sum(new_number) FROM dv.new_meter GROUP BY 1',
			like => qr/Parts: \d/, hidden => $part, at_least => 4);
		claims("sums of some rows in parts, $size", 'SELECT new_active, count(*), max(new_number) FROM dv.new_meter WHERE new_number >= 0 GROUP BY 1',
			like => qr/Parts: \d/, hidden => $part, at_least => 4);
		# a count that exceeds the service's limit is not predictable: the ids are read instead
		claims("a count of many rows, $size", 'SELECT count(*) FROM dv.new_meter', like => $known ? qr/aggregate='count'.*Parts: /s : qr/\$count as n/,
			hidden => sub { my ($asked) = @_; return $part->($asked =~ s/\?\$select=new_meterid&\$orderby=new_meterid$/?\$apply=aggregate(\$count as n)/r); });
	}
}

# ---------------------------------------------------------------- several ranges of ids at a time

{
	my $bound = qr/contactid (?:ge|gt|lt) [0-9a-f]{8}-[0-9a-f-]{27}/;
	my $range = sub {
		my ($asked) = @_;
		# the last id of a range, and whether ids are ordered as expected
		return '1' if $asked =~ /&\$orderby=contactid desc&\$top=1$/ || $asked =~ /contactid eq [0-9a-f-]{36} and $bound/;
		$asked =~ s/\$filter=$bound(?: and $bound)?&//;
		$asked =~ s/ and $bound//g;
		return $asked =~ s/\$filter=\((.*)\)&/\$filter=$1&/r;
	};

	for my $most (3, 16)
	{
		claims("$most ranges", 'SELECT fullname FROM dv.contact', settings => "SET dataverse_fdw.scan_parallelism = $most", like => qr/Ranges: \d/, hidden => $range);
		claims("$most ranges, with a filter", 'SELECT fullname FROM dv.contact WHERE gendercode = 1 OR lastname IS NOT NULL', settings => "SET dataverse_fdw.scan_parallelism = $most", like => qr/Ranges: \d/, hidden => $range);
	}
}

# ---------------------------------------------------------------- writes, and faults

$crm->fault(path => '/accounts', status => 503, after => 1, times => 2);
claims('requests that are repeated', 'SELECT name FROM dv.account', like => qr/Requests Repeated: 2$/m, requests => $pages + 2);
$crm->no_faults;

$crm->stop;
done_testing;
