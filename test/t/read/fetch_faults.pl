# fetch_faults.pl
#		Joins read page by page when answers are broken, incomplete, or do not say
#		what follows; cursors that wait while others need their slots; ranges of ids
#		when rows appear and disappear where pages break.  Each row is returned once,
#		or the query fails.  A broken page is never taken for the end.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use PoolTest qw(wait_for hits);
use Session;

my $page = 100;
my $seed = $ENV{SEED} || int(rand(1_000_000));

diag "SEED=$seed";
srand $seed;

my $crm = Crm->start('fetch', preload => 1, flags => [ '--journal-bytes', 268_435_456 ]);
my $dvsim = $crm->dvsim;
my $true = \1;
my ($cookie_name, $more_name) = map { "\@Microsoft.Dynamics.CRM.$_" } qw(fetchxmlpagingcookie morerecords);

$dvsim->control('POST', '/_dvsim/seed?table=account&rows=200');
$dvsim->control('POST', '/_dvsim/seed?table=contact&rows=700', { lookups => { parentcustomerid => { table => 'account' } } });
$crm->sql(
	qq{CREATE SCHEMA dv; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page');
	ALTER FOREIGN TABLE dv.contact OPTIONS (ADD page_size '$page');
	CREATE TABLE l.contact AS SELECT contactid, lastname, parentcustomerid, parentcustomeridtype FROM dv.contact;
	CREATE TABLE l.account AS SELECT accountid, name FROM dv.account;
	ANALYZE dv.account, dv.contact});

my %ask = (
	with_id => 'SELECT c.contactid, c.lastname, a.name FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid',
	without_id => 'SELECT c.lastname, a.name FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid');
my %answer = map { $_ => sorted($crm->sql($ask{$_} =~ s/\bdv\./l./gr)) } keys %ask;
my $rows = 700;

sub sorted { return join "\n", sort split /\n/, $_[0]; }

# Asks a question under these fault rules; returns the messages and the error.
sub under
{
	my ($query, @rules) = @_;
	my ($out, $err);

	$crm->fault(path => 'fetchXml', %$_) for @rules;
	$crm->node->psql('postgres', $query, stdout => \$out, stderr => \$err, on_error_stop => 0);
	$crm->no_faults;
	return (sorted($out), $err);
}

# shorten long lists of differences
sub same_ok
{
	my ($got, $what) = @_;

	ok($got eq $answer{with_id}, $what) or diag scalar(split /\n/, $got), " rows instead of $rows";
	return;
}

like($crm->sql("EXPLAIN $_"), qr/Joined by Dataverse/, 'the service joins') for values %ask;

# ---- answers that are not pages, for the first page and for others

for my $name (sort keys %ask)
{
	for my $case (
		(map { my $action = $_; map { { action => $action, bytes => $_ } } 10, 500, 3000, 2000 + int rand 10_000 } qw(garble shorten truncate)),
		{ status => 206, body => { value => [] } }, { status => 204, body => '' }, { status => 200, body => '{}' },
		{ status => 503 }, { status => 500, code => '0x80040216', message => 'An unexpected error occurred.' },
		{ status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit', retry_after => 0 },
		# more rows follow, but without a link to them
		{ status => 200, body => { value => [], $more_name => $true } },
		{ status => 200, body => { value => [], $more_name => $true, $cookie_name => 'nowhere' } },
		{ status => 200, body => { value => [], $more_name => 17 } })
	{
		my $after = int rand 4;
		my $what = join ' ', map { ref $case->{$_} ? () : "$_=$case->{$_}" } sort keys %$case;
		my ($out, $err) = under($ask{$name}, { %$case, after => $after, times => 2 });

		is($err, '', "$name: $what, on page " . ($after + 1));
		ok($out eq $answer{$name}, '… and each row is returned once');
	}
}

# ---- pages that announce further pages in unusual ways

{
	my ($first) = grep { $_->{target} =~ /fetchXml/ } $crm->sent($ask{with_id});
	my $answer = $dvsim->get($first->{target} =~ s{^/api/data/v9\.2/}{}r, Prefer => 'odata.include-annotations="*"');
	my $whole = $answer->json;
	my $cut = sub { my %body = (%$whole, @_); delete $body{$_} for grep { !defined $body{$_} } keys %body; return \%body; };
	my ($out, $err);

	is(scalar @{ $whole->{value} }, $page, 'the first page as the service answers it');
	($out, $err) = under($ask{with_id}, { status => 200, body => $cut->() });
	same_ok("$err$out", '… is followed by the others');
	($out, $err) = under($ask{with_id}, { status => 200, body => $cut->($more_name => 'true') });
	same_ok("$err$out", '… also if the flag is a text');
	($out, $err) = under($ask{with_id}, { status => 200, body => $cut->($more_name => undef) });
	same_ok("$err$out", '… and if only the cookie announces them');
	($out, $err) = under($ask{with_id}, { status => 200, body => $cut->($more_name => undef, $cookie_name => undef, '@odata.nextLink' => $dvsim->base . '/api/data/v9.2/contacts?$skiptoken=x') });
	same_ok("$err$out", '… and it is requested again if it has a link for the other language');
	($out, $err) = under($ask{with_id}, { status => 200, body => $cut->($more_name => undef, $cookie_name => undef) });
	same_ok("$err$out", 'a full page without a flag is requested again, and further pages follow');
	($out, $err) = under($ask{with_id}, { path => "page%3D'1'", status => 200, times => 0, body => $cut->($more_name => undef, $cookie_name => undef) });
	like($err, qr/ERROR:  could not read foreign tables "contact" and "account" on server "crm": an answer from Dataverse was incomplete\nDETAIL:  The previous page did not announce another page\./,
		'… and a repeated page without a flag is not the end of the rows');
	($out, $err) = under($ask{with_id}, { status => 200, times => 0, body => $cut->() });
	like($err, qr/Dataverse returned the same page again/, 'a repeated cookie is an error');

	# a page size that the service does not reach
	my $limit = $page - 10;
	($out, $err) = under("$ask{with_id} LIMIT $limit", { status => 200, body => $cut->(value => [ @{ $whole->{value} }[ 0 .. 9 ] ]) });
	is($err, '', 'a page with fewer rows than requested that is not the last one');
	is(scalar(split /\n/, $out), $limit, '… is requested again');
}

# ---- a few rows are requested first, then the rest

{
	# few enough that a hundred of them may suffice, which is less than half a page
	$crm->sql(q{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '250')});
	my $query = "SELECT contactid FROM ($ask{with_id}) q WHERE hashtext(contactid::text) < -2100000000 LIMIT 5";
	my $want = sorted($crm->sql($query));
	my @sent = grep { $_->{target} =~ /fetchXml/ } $crm->sent($query);

	cmp_ok(scalar(grep { $_->{target} =~ /top%3D/ } @sent), '>=', 1, 'a few rows are requested first') or diag explain [ map { $_->{target} } @sent ];
	cmp_ok(scalar(@sent), '>=', 2, '… and then the others');
	for my $case (
		{ action => 'garble', bytes => 700 }, { action => 'shorten', bytes => 700 }, { status => 206, body => { value => [] } }, { status => 503 },
		{ status => 200, body => { value => [], $more_name => $true } }, { action => 'garble', bytes => 4000, after => 1 },
		{ action => 'reset_after_commit', after => 1 }, { action => 'garble', bytes => 900, every => 2, times => 3 })
	{
		my ($out, $err) = under($query, $case);

		is("$err$out", $want, '… ' . join ' ', map { ref $case->{$_} ? () : "$_=$case->{$_}" } sort keys %$case);
	}
	$crm->sql(qq{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '$page')});
}

# as many rows as a page can have
$crm->sql("DELETE FROM dv.contact WHERE contactid IN (SELECT contactid FROM l.contact OFFSET $page)");
is(scalar(split /\n/, $crm->sql($ask{with_id})), $page, 'all rows fill one page');
is(scalar(grep { $_->{target} =~ /fetchXml/ } $crm->sent($ask{with_id})), 2, '… after which another page is requested');

# … and has rows that were inserted after the silent page: at the end, at the front, and so many that the rows of the page move to the next one
for my $case ([ 1, 'f' ], [ 1, '0' ], [ 3, '0' ], [ $page + 5, '0' ], [ $page + 5, 'f' ])
{
	my ($n, $digit) = @$case;
	my $session = Session->new($crm->node);
	my %times;

	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR $ask{with_id}");
	my @got = @{ $session->try("FETCH $page FROM c")->{rows} };
	# ids sort by their last digits first
	$crm->sql(qq{INSERT INTO dv.contact (contactid, lastname, parentcustomerid, parentcustomeridtype)
		SELECT overlay(gen_random_uuid()::text placing repeat('$digit', 8) from 25 for 8)::uuid, 'later', accountid, 'account' FROM l.account LIMIT $n});
	my $r = $session->try('FETCH ALL FROM c');
	is($r->{message}, undef, "$n rows follow a full page that was the last one");
	$times{ $_->[0] }++ for @got, @{ $r->{rows} // [] };
	is(scalar(grep { $_ > 1 } values %times), 0, '… no row is returned twice');
	is(join(' ', grep { !$times{$_} } split /\n/, $crm->sql("SELECT contactid FROM l.contact LIMIT $page")), '', '… and none is missing') if @got == $page;
	$session->close;
	$crm->sql(q{DELETE FROM dv.contact WHERE lastname = 'later'});
}
$crm->sql('INSERT INTO dv.contact (contactid, lastname, parentcustomerid, parentcustomeridtype) SELECT * FROM l.contact OFFSET ' . $page);

# ---- EXPLAIN agrees with dvsim; only libcurl knows about requests without a body that it
# repeats itself when a reused connection has closed without an answer

my $for_ids = qr/\$orderby=contactid desc|contactid eq \S+ and contactid (?:ge|lt) |fetch top='1'|attribute='contactid' operator='eq'/;
for my $query ($ask{with_id}, 'SELECT contactid, lastname FROM dv.contact OFFSET 0', 'SELECT gendercode, count(*) FROM dv.contact GROUP BY gendercode',
	"SELECT k.contactid, c.lastname FROM (SELECT contactid FROM l.contact LIMIT 150) k LEFT JOIN dv.contact c ON c.contactid = k.contactid")
{
	for my $case (
		{ action => 'delay', delay_ms => 1 }, { status => 503 }, { status => 206, body => { value => [] } }, { action => 'garble', bytes => 600 },
		{ action => 'truncate', bytes => 200 },
		{ status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit', retry_after => 0 })
	{
		my $ranges = 1 + int rand 4;

		$crm->fault(method => 'GET', path => '/contacts', %$case, times => 2, every => 2);
		$crm->requests;
		my $plan = $crm->sql("SET dataverse_fdw.scan_parallelism = $ranges; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
		my @sent = $crm->requests;
		# requests only for ids, which decide where and whether to divide rows, are not repeated
		my $hits = grep { $_->{fault} && Crm::target($_) !~ $for_ids } @sent;
		my %figure = $plan =~ /^\s*([A-Z][A-Za-z ]+): (\d+)$/mg;

		my $awaited = $figure{'Requests Answered'} + ($figure{'Requests Repeated'} // 0);
		my $all = $awaited + ($figure{'Requests Abandoned'} // 0);

		# a request that is abandoned while being sent may not arrive
		ok($awaited <= @sent && @sent <= $all, 'EXPLAIN counts ' . ($case->{action} // $case->{status})) or diag scalar(@sent), $plan;
		# a repeated request may have been abandoned later
		cmp_ok(($figure{'Requests Repeated'} // 0) + ($figure{'Requests Abandoned'} // 0), '>=', $case->{action} && $case->{action} eq 'delay' ? 0 : $hits, '… and the repetitions') or diag $plan;
		$crm->no_faults;
	}
}

# a question about the order of ids that no scan waits for counts as well
{
	my $query = "SELECT k.contactid, c.lastname FROM (SELECT contactid FROM l.contact LIMIT 150) k LEFT JOIN dv.contact c ON c.contactid = k.contactid";

	# the throttles above have left so few slots that the question might get none
	$crm->sql("SELECT dataverse.reset_pool('crm')");
	$crm->fault(method => 'GET', path => 'contactid%20eq', action => 'delay', delay_ms => 60_000);
	$crm->requests;
	my $plan = $crm->sql("SET dataverse_fdw.scan_parallelism = 4; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
	my ($answered, $abandoned) = map { $plan =~ /Requests $_: (\d+)/ ? $1 : 0 } qw(Answered Abandoned);

	cmp_ok($abandoned, '>=', 1, 'a question that no scan waits for is abandoned with its ranges');
	cmp_ok($answered + $abandoned, '>=', scalar(@{ [ $crm->requests ] }), '… and EXPLAIN counts it') or diag $plan;
	$crm->no_faults;
}

# ---- dataverse.fetchxml(), for queries written by the user

{
	my $xml = "<fetch count='$page'><entity name='contact'><attribute name='contactid'/><order attribute='contactid'/></entity></fetch>";
	my $query = qq{SELECT count(*), count(DISTINCT r->>'contactid') FROM dataverse.fetchxml('crm', \$x\$$xml\$x\$) r};
	my ($first) = grep { $_->{target} =~ /fetchXml/ } $crm->sent($query);
	my $whole = $dvsim->get($first->{target} =~ s{^/api/data/v9\.2/}{}r, Prefer => 'odata.include-annotations="*"')->json;
	my ($out, $err) = under($query);

	is("$err$out", "$rows|$rows", 'dataverse.fetchxml: all pages');
	($out, $err) = under($query, { status => 206, body => { value => [] }, after => 2 });
	is($err =~ s/^psql:\S+ //r, qq{ERROR:  could not read from "contact" on server "crm": an answer from Dataverse was incomplete\nDETAIL:  It has HTTP status 206, not 200.}, '… one of which is broken');
	delete $whole->{$more_name};
	($out, $err) = under($query, { status => 200, body => $whole });
	is("$err$out", "$rows|$rows", '… one of which has the cookie of another one');
	($out, $err) = under("SET statement_timeout = '20s'; $query", { status => 200, times => 0, body => { %$whole, $more_name => $true } });
	like($err, qr/Dataverse returned the same page again/, '… one of which is repeated');
}

# ---- joins by the keys of many rows

{
	my $query = "SELECT k.contactid, c.lastname FROM l.contact k LEFT JOIN dv.contact c ON c.contactid = k.contactid AND c.lastname > 'D' WHERE k.contactid < 'c0000000-0000-0000-0000-000000000000'";
	my $want = sorted($crm->sql($query =~ s/\bdv\./l./gr));

	# force this plan: the other would read all rows
	$crm->sql(q{UPDATE pg_class SET reltuples = 1000000 WHERE oid = 'dv.contact'::regclass});
	like($crm->sql("EXPLAIN $query"), qr/DataverseLookup/, 'a join by keys');
	for my $case (
		(map { my $action = $_; map { { action => $action, bytes => $_ } } 50, 900, int rand 6000 } qw(garble shorten truncate)),
		{ status => 206, body => { value => [] } }, { status => 503 }, { action => 'reset_after_commit' },
		{ status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit', retry_after => 0 })
	{
		my ($out, $err) = under($query, { %$case, path => '/contacts', after => int rand 3, every => 1 + int rand 2, times => 2 });

		is($err, '', 'keys: ' . ($case->{action} // $case->{status}));
		ok($out eq $want, '… and each row is returned once') or diag scalar(split /\n/, $out), ' rows';
	}
	$crm->sql(qq{UPDATE pg_class SET reltuples = $rows WHERE oid = 'dv.contact'::regclass});
}

# ---- cursors that have returned rows of a page before it breaks, while rows appear and disappear

for my $round (1, 2)
{
	my $session = Session->new($crm->node);
	my $other = Session->new($crm->node);
	my (@got, %times, %gone, $error);

	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR $ask{with_id}");
	$crm->fault(path => 'fetchXml', action => 'garble', bytes => 2000 + int rand 6000, every => 2, times => 0);
	while (!defined $error)
	{
		my $r = $session->try('FETCH ' . (1 + int rand 9) . ' FROM c');
		my @ids = map { $_->[0] } @{ $r->{rows} // [] };

		$error = $r->{message} // '' if @ids == 0;
		push @got, @ids;
		next if @ids == 0 || rand() > 0.2;
		# requests are made in the subtransaction, and end with it
		$session->query('SAVEPOINT s');
		$r = $session->try('FETCH 2 FROM c');
		push @got, map { $_->[0] } @{ $r->{rows} // [] };
		my $id = $got[-1];
		$gone{$id} = 1;
		$other->query("DELETE FROM dv.contact WHERE contactid = '$id'");
		$other->query(q{INSERT INTO dv.contact (contactid, lastname, parentcustomerid, parentcustomeridtype) SELECT gen_random_uuid(), 'new', accountid, 'account' FROM l.account LIMIT 3});
		$session->query('ROLLBACK TO s') if rand() < 0.5;
	}
	cmp_ok(hits($dvsim), '>', 1, "round $round: pages were broken");
	$crm->no_faults;
	is($error, '', '… which causes no error');
	$session->try('COMMIT');
	$times{$_}++ for @got;
	is(scalar(grep { $_ > 1 } values %times), 0, '… no row is returned twice');
	is(join(' ', grep { !$times{$_} } split /\n/, $crm->sql('SELECT contactid FROM l.contact')), '', '… and no row that existed throughout is missing');
	$crm->sql(q{DELETE FROM dv.contact WHERE lastname = 'new'});
	$crm->sql('INSERT INTO dv.contact (contactid, lastname, parentcustomerid, parentcustomeridtype) SELECT * FROM l.contact WHERE contactid IN (' . join(',', map { "'$_'" } keys %gone) . ')') if %gone;
	$_->close for $session, $other;
}

# ---- one slot: for idle cursors, and for nested scans

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_parallel '1')});
{
	my $idle = Session->new($crm->node);
	my $other = Session->new($crm->node);
	my %cursor = (of_join => $ask{with_id}, of_ranges => 'SELECT contactid FROM dv.contact', of_groups => 'SELECT lastname, count(*) FROM dv.contact GROUP BY 1');
	my %got;

	$_->query(q{SET statement_timeout = '60s'; SET dataverse_fdw.scan_parallelism = 16}) for $idle, $other;
	$idle->query('BEGIN');
	for my $name (sort keys %cursor)
	{
		$idle->query("DECLARE $name CURSOR FOR $cursor{$name}");
		$got{$name} += @{ $idle->try("FETCH 1 FROM $name")->{rows} };
	}
	my $began = time;
	is($other->value("SELECT count(*) FROM ($ask{with_id} OFFSET 0) q"), $rows, 'another session reads while cursors are open');
	cmp_ok(time - $began, '<', 20, '… soon');
	for my $name (sort keys %cursor)
	{
		my $r = $idle->try("FETCH ALL FROM $name");

		is($r->{message}, undef, "cursor $name: continues");
		is($got{$name} + @{ $r->{rows} // [] }, $crm->sql("SELECT count(*) FROM ($cursor{$name} OFFSET 0) q"), '… to its end');
	}
	$idle->query('COMMIT');
	$idle->query('SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off');
	for my $query (
		q{SELECT count(*) FROM (SELECT accountid, name FROM dv.account WHERE name < 'B' OFFSET 0) a, LATERAL (SELECT contactid FROM dv.contact c WHERE c.lastname > a.name OFFSET 0) x},
		q{SELECT count(*) FROM (SELECT contactid, lastname FROM dv.contact OFFSET 0) c JOIN dv.account a ON left(a.name, 1) = left(c.lastname, 1) WHERE a.name < 'A' AND c.lastname < 'D'},
		q{SELECT count(*) FROM dv.contact c, LATERAL (SELECT count(*) FROM dv.account a WHERE a.name < c.lastname OFFSET 0) x WHERE c.lastname < 'C'})
	{
		my $r = $idle->try($query);

		is($r->{message}, undef, 'nested scans with one slot');
		is($r->{rows}[0][0], $crm->sql($query =~ s/\bdv\./l./gr), '… and their rows') if !defined $r->{message};
	}
	$_->close for $idle, $other;
	$crm->idle_ok('afterwards');
}
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_parallel)});

# ---- few slots: a scan of many ranges gives way to others

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_parallel '4')});
{
	my $greedy = Session->new($crm->node);
	my $other = Session->new($crm->node);
	my $longest = 0;
	my $asked = 0;

	$crm->fault(path => '/contacts', action => 'delay', delay_ms => 300, times => 0);
	$crm->sql(q{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '10')});
	$greedy->query('SET dataverse_fdw.scan_parallelism = 16');
	$other->query('SELECT name FROM dv.account LIMIT 1');
	$greedy->start('SELECT count(*) FROM (SELECT contactid FROM dv.contact OFFSET 0) c');
	until ($greedy->done(0.05))
	{
		my $r = $other->try('SELECT name FROM dv.account LIMIT 1');

		$asked++;
		$longest = $r->{seconds} if $r->{seconds} > $longest;
	}
	is($greedy->finish->{rows}[0][0], $rows, 'a scan of many ranges with four slots');
	cmp_ok($asked, '>=', 3, "… during which another session sent $asked queries");
	# a request of the scan takes 300 ms
	cmp_ok($longest, '<', 2, sprintf '… and waited for %.0f ms at most', 1000 * $longest);
	$crm->no_faults;
	$crm->sql(qq{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '$page')});
	$_->close for $greedy, $other;
	$crm->idle_ok('after that');
}
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_parallel)});

# ---- ranges: the last returned row is deleted when its page breaks, and others are inserted just before it

my $with_parent = 'SELECT a.accountid, p.name FROM dv.account a LEFT JOIN dv.account p ON p.accountid = a.parentaccountid';
for my $query ('SELECT accountid FROM dv.account', $with_parent)
{
	my $session = Session->new($crm->node);
	my $other = Session->new($crm->node);
	my ($n, $size) = (400, 40);
	my (@got, %times, $error);
	my $id_of = sub { return sprintf '%02x%02x0000-0000-eb11-b6e6-000d3a1b2c3d', $_[0] % 256, $_[0] / 256; };

	$dvsim->control('POST', '/_dvsim/reset');
	$crm->sql("ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '$size');
		DROP TABLE IF EXISTS ids;
		CREATE TABLE ids (id uuid);
		INSERT INTO ids VALUES " . join(',', map { "('" . $id_of->(16 * $_ + 8) . "')" } 1 .. $n) . ';
		INSERT INTO dv.account (accountid, name) SELECT id, id FROM ids');
	$session->query('SET dataverse_fdw.scan_parallelism = 4');
	$session->query('BEGIN');
	$session->query("DECLARE c CURSOR FOR $query");
	# some rows of every page are returned before it breaks
	$crm->fault(method => 'GET', path => '/accounts', action => 'garble', bytes => 3000, every => 2, times => 0);
	while (!defined $error)
	{
		my $r = $session->try('FETCH 1 FROM c');

		$error = $r->{message} // '' if !@{ $r->{rows} // [] };
		last if defined $error;
		my $id = $r->{rows}[0][0];
		push @got, $id;
		next if rand() < 0.3 || $id !~ /^.[8]/;
		$other->query("DELETE FROM dv.account WHERE accountid = '$id'");
		$other->query(q{INSERT INTO dv.account (accountid, name) VALUES ('} . ($id =~ s/^(.)8/${1}4/r) . q{', 'new')});
	}
	cmp_ok(hits($dvsim), '>', 3, "$query: pages of ranges were broken");
	$crm->no_faults;
	is($error, '', '… and inserted rows cause no error');
	$session->try('COMMIT');
	$times{$_}++ for @got;
	is(scalar(grep { $_ > 1 } values %times), 0, '… no row is returned twice');
	is(join(' ', grep { !$times{$_} } split /\n/, $crm->sql('SELECT id FROM ids')), '', '… and none is missing');
	$_->close for $session, $other;
}

# ---- a page breaks after so many inserts that its returned rows are on the next page, or the one after it

for my $case (
	[ 'SELECT accountid FROM dv.account', 1 ], [ 'SELECT accountid FROM dv.account', 4 ],
	map { [ $with_parent, $_ ] } 1, 4)
{
	my ($query, $ranges) = @$case;

	for my $gaps (2, 8)
	{
		my $session = Session->new($crm->node);
		my (@got, %times);
		my $id_of = sub { return sprintf '%02x%02x0000-0000-eb11-b6e6-000d3a1b2c3d', $_[0] % 256, $_[0] / 256; };

		$dvsim->control('POST', '/_dvsim/reset');
		$crm->sql("INSERT INTO dv.account (accountid, name) SELECT id, id FROM ids");
		$session->query("SET dataverse_fdw.scan_parallelism = $ranges");
		$session->query('BEGIN');
		$session->query("DECLARE c CURSOR FOR $query");
		$crm->fault(method => 'GET', path => '/accounts', action => 'garble', bytes => 3500);
		push @got, map { $_->[0] } @{ $session->try('FETCH 15 FROM c')->{rows} };
		is(hits($dvsim), 1, "$query: $ranges ranges: the first page is broken");
		$crm->sql("INSERT INTO dv.account (accountid, name) VALUES " . join ',', map { my $gap = $_; map { "('" . $id_of->(16 * $gap + 8 + $_) . "', 'new')" } 1 .. 15 } 1 .. $gaps);
		my $r = $session->try('FETCH ALL FROM c');
		is($r->{message}, undef, "… and other rows are inserted into it in $gaps places");
		push @got, map { $_->[0] } @{ $r->{rows} // [] };
		$session->try('COMMIT');
		$crm->no_faults;
		$times{$_}++ for @got;
		is(scalar(grep { $_ > 1 } values %times), 0, '… no row is returned twice');
		is(join(' ', grep { !$times{$_} } split /\n/, $crm->sql('SELECT id FROM ids')), '', '… and none is missing');
		$session->close;
	}
}

$crm->stop;
done_testing;
