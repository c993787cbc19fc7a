# requests.pl
#		The requests of queries, by dvsim's journal: no metadata, and only the
#		columns and pages that are needed.  Also the memory of a long scan.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $rows = 1230;
my $page = 100;
my $many = 200_000;
my $flat = 16 * 1024;    # kB that a long scan may add

my $crm = Crm->start('requests');

sub seed
{
	my ($table, $n) = @_;
	my $answer = $crm->dvsim->control('POST', "/_dvsim/seed?table=$table&rows=$n");

	die $answer->body unless $answer->status == 200;
	return $answer->json->{rows};
}

sub requests { return $crm->requests; }
sub target { return Crm::target(@_); }

# Returns the columns of $select, sorted.
sub selected
{
	my ($request) = @_;
	my ($list) = target($request) =~ /[?&]\$select=([^&]*)/;

	return join ',', sort split /,/, $list // 'everything';
}

# Runs a query in a new session, and checks what it sends: only GETs of this entity
# set, for these columns, with these numbers of requests and rows.
sub asks
{
	my ($query, %want) = @_;
	my $set = $want{set} // 'accounts';
	my (@sent, @strange, $received, %selects);

	requests();
	$crm->sql($query);
	@sent = requests();
	@strange = map { "$_->{method} " . target($_) }
	  grep { $_->{method} ne 'GET' || target($_) !~ m{^\Q$set\E(?:[?(/]|$)} } @sent;
	$received += $_->{rows} for @sent;
	$selects{ selected($_) } = 1 for @sent;

	is("@strange", '', "$query: only rows are requested");
	is(scalar @sent, $want{requests}, '… in the expected number of requests')
	  or diag join "\n", map { target($_) } @sent;
	is(join(' or ', sort keys %selects), $want{select}, '… with the necessary columns')
	  if $want{select};
	is($received, $want{rows}, '… with the expected number of rows') if defined $want{rows};
	like(target($sent[0]), $want{like}, '… and the correct result') if $want{like} && @sent;
	return;
}

is(seed('account', $rows), $rows, 'rows exist');
$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page')});
cmp_ok(scalar(grep { target($_) =~ /EntityDefinitions|\$metadata/ } requests()),
	'>', 0, 'an import requests metadata, and the journal shows it');

my $pages = int(($rows + $page - 1) / $page);

# ---- columns

asks('SELECT name FROM dv.account', select => 'name', requests => $pages, rows => $rows);
asks('SELECT 1 FROM dv.account', select => 'accountid', requests => $pages, rows => $rows);
asks('SELECT name, revenue FROM dv.account', select => 'name,revenue', requests => $pages);
asks('SELECT max(name) FROM dv.account GROUP BY creditonhold',
	select => 'creditonhold,name', requests => $pages);
asks('SELECT a.name FROM dv.account a JOIN dv.account b USING (accountid) LIMIT 0', requests => 0);
asks(q{SELECT accountid FROM dv.account WHERE name = 'x'},
	select => 'accountid,name', requests => 1, rows => 0);
asks('SELECT accountid FROM dv.account WHERE numberofemployees < 0',
	select => 'accountid', requests => 1, rows => 0);
asks('SELECT name FROM dv.account ORDER BY length(name), name DESC', select => 'name', requests => $pages);

# ---- pages

asks('SELECT name FROM dv.account LIMIT 10',
	select => 'name', requests => 1, rows => 10, like => qr/[?&]\$top=10(?:&|$)/);
asks('SELECT name FROM dv.account LIMIT 10 OFFSET 5', requests => 1, rows => 15);
asks("SELECT name FROM dv.account LIMIT $page", requests => 1, rows => $page);
asks('SELECT name FROM dv.account LIMIT 250', requests => 3, rows => 3 * $page);
asks('SELECT numberofemployees FROM dv.account ORDER BY numberofemployees LIMIT 10',
	select => 'numberofemployees', requests => 1, rows => 10);
asks('SELECT count(*) FROM dv.account', requests => 1);
asks('SELECT name FROM dv.account LIMIT 0', requests => 0);
asks(q{SELECT name FROM dv.account WHERE accountid = '00000000-0000-0000-0000-000000000000'},
	requests => 1, rows => 0);
asks('SELECT fullname FROM dv.contact', set => 'contacts', select => 'fullname', requests => 1, rows => 0);
asks('EXPLAIN (VERBOSE) SELECT name FROM dv.account', requests => 0);

# ---- few rows: the nodes above the scan limit the number of rows

my $first = $crm->sql('SELECT accountid FROM dv.account LIMIT 1');

# Asks a question, and compares the answer with that of a copy.
sub agrees
{
	my ($query, %want) = @_;
	my $remote = $query =~ s/\{(\w+)\}/dv.$1/gr;

	asks($remote, %want);
	is($crm->sql($remote), $crm->sql($query =~ s/\{(\w+)\}/l.$1/gr), '… and the answer is correct');
	return;
}
$crm->sql('CREATE SCHEMA l; CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, revenue, createdon FROM dv.account; ANALYZE l.account');
agrees('SELECT EXISTS (SELECT 1 FROM {account})', requests => 1, rows => 1, like => qr/[?&]\$top=1(?:&|$)/);
agrees('SELECT 1 WHERE NOT EXISTS (SELECT FROM {account} WHERE numberofemployees > 10)', requests => 1, rows => 1);
agrees('SELECT max(numberofemployees) FROM {account}', requests => 1, rows => 1, like => qr/orderby=numberofemployees desc,accountid&\$top=1$/);
agrees('SELECT min(createdon), max(revenue) FROM {account}', requests => 2, rows => 2);
agrees('SELECT min(numberofemployees) FROM {account} WHERE numberofemployees > 500000', requests => 1);
agrees('SELECT (SELECT count(*) FROM (SELECT FROM {account} UNION ALL SELECT FROM {account} LIMIT 7) x)', requests => 2, rows => 14);
agrees('SELECT max(n) < 100000000 FROM (SELECT numberofemployees AS n FROM {account} UNION ALL SELECT numberofemployees FROM {account} ORDER BY n LIMIT 5) x',
	requests => 2, rows => 10);
agrees(q{SELECT count(*) FROM (SELECT FROM {account} WHERE length(name) > 0 LIMIT 3) x}, requests => 1, rows => $page);
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '1000')});
agrees(q{SELECT count(*) FROM (SELECT FROM {account} WHERE length(name) > 0 LIMIT 3) x}, requests => 1, rows => 100);
agrees(q{SELECT count(*) FROM (SELECT a.name FROM {account} a, generate_series(1, 2) i LIMIT 10) x}, requests => 1, rows => 10);
agrees(q{SET enable_hashjoin = off; SET enable_mergejoin = off;
	SELECT count(*) FROM (SELECT a.name FROM {account} a LEFT JOIN (SELECT accountid FROM l.account LIMIT 10) b USING (accountid) LIMIT 10) x}, requests => 1, rows => 100);
# more rows than expected: the rest comes in pages, each row once
agrees(q{SELECT accountid FROM (SELECT * FROM {account} WHERE hashtext(accountid::text) % 50 = 0 ORDER BY numberofemployees LIMIT 12) x ORDER BY 1},
	requests => 3);
agrees(q{SELECT EXISTS (SELECT FROM {account} WHERE name || 'x' = 'no such name')}, requests => 3, rows => 100 + $rows);
agrees(q{SELECT count(DISTINCT accountid), count(*) FROM (SELECT accountid FROM {account} WHERE hashtext(accountid::text) % 10 = 0 LIMIT 2000) x},
	requests => 2, rows => $rows);
agrees(q{SELECT n, (SELECT EXISTS (SELECT FROM {account} WHERE numberofemployees = n)) FROM generate_series(1, 4) n}, requests => 4);
agrees(qq{SELECT EXISTS (SELECT FROM {account} WHERE accountid = '$first')}, requests => 1, rows => 1);
agrees('SELECT EXISTS (SELECT FROM {account} WHERE numberofemployees < 0)', requests => 1, rows => 0);
asks('SELECT sum(numberofemployees + 0) FROM dv.account', requests => 2, rows => $rows);
asks('SELECT sum(numberofemployees) FROM dv.account', requests => 1, rows => 1);
# rows that a cursor has read are not requested again
my $cursor = $crm->sql(q{BEGIN; DECLARE c SCROLL CURSOR FOR SELECT accountid FROM dv.account WHERE length(name) > 0 ORDER BY revenue DESC NULLS LAST LIMIT 200;
	FETCH 150 FROM c; FETCH BACKWARD 150 FROM c; FETCH ALL FROM c; COMMIT});
my @cursor = split /\n/, $cursor;
is(scalar @cursor, 150 + 149 + 200, 'a cursor moves backward');
is_deeply([ reverse @cursor[ 150 .. 298 ] ], [ @cursor[ 0 .. 148 ] ], '… over the rows that it has returned');
is_deeply([ @cursor[ 299 .. 448 ] ], [ @cursor[ 0 .. 149 ] ], '… and forward');
$crm->sql(qq{ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '$page')});

# ---- ANALYZE requests the number of rows of each table once, below a parent first

sub counts { return scalar grep { target($_) =~ /^RetrieveTotalRecordCount/ } requests(); }

requests();
$crm->sql('ANALYZE dv.account');
is(counts(), 1, 'ANALYZE of a table counts its rows once');
$crm->sql('ANALYZE dv.account, dv.contact');
is(counts(), 2, 'ANALYZE of two tables counts each of them once');
$crm->sql(
	join ';', 'CREATE TABLE dv.whole (name text)',
	map { qq{CREATE FOREIGN TABLE dv.part$_ () INHERITS (dv.whole) SERVER crm OPTIONS ("table" 'account', entity_set 'accounts')} }
	  1, 2);
# since 18, ANALYZE of a parent also analyzes each child as a separate table
$crm->sql($crm->node->pg_version >= 18 ? 'ANALYZE ONLY dv.whole' : 'ANALYZE dv.whole');
is(counts(), 2, 'ANALYZE of a parent counts each child once');
is($crm->sql(q{SELECT reltuples FROM pg_class WHERE oid = 'dv.account'::regclass}), $rows, 'and knows their number');
$crm->sql('DROP TABLE dv.whole CASCADE');

# ---- a service without row counts: no error, and only one request in a session

# Returns the output of a session, and the number of requests for each kind of count.
sub uncounted
{
	my ($sql) = @_;
	my ($status, $out, $err, @sent);

	requests();
	($status, $out, $err) = $crm->node->psql('postgres', "SET client_min_messages = debug1; $sql");
	@sent = map { target($_) } requests();
	is($status, 0, $sql) or diag $err;
	return ($out, scalar(() = $err =~ /DEBUG:  Dataverse has refused RetrieveTotalRecordCount for table account: /g),
		map { my $what = $_; scalar grep { /$what/ } @sent } 'RetrieveTotalRecordCount', 'apply=aggregate');
}

my $reltuples = q{SELECT reltuples FROM pg_class WHERE oid = 'dv.account'::regclass};
$crm->dvsim->quirks('failing-total-count');
$crm->sql(q{UPDATE pg_class SET reltuples = -1 WHERE oid = 'dv.account'::regclass});
is_deeply([ uncounted("ANALYZE dv.account; ANALYZE dv.account; $reltuples") ], [ $rows, 1, 1, 2 ],
	'ANALYZE counts the rows instead');
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD use_remote_estimate 'on')});
is_deeply([ uncounted('SELECT count(name) FROM dv.account; SELECT count(name) FROM dv.account') ],
	[ "$rows\n$rows", 1, 1, 0 ], 'reading and planning work');
my ($plan) = uncounted('EXPLAIN SELECT name FROM dv.account');
like($plan, qr/rows=$rows\b/, 'with the result of ANALYZE');
$crm->fault(path => 'apply=aggregate', status => 400, code => '0x80060888', message => 'no $apply', times => 0);
is_deeply([ uncounted("ANALYZE dv.account; $reltuples") ], [ $rows, 1, 1, 1 ], 'without counts, ANALYZE uses its sample');
$crm->no_faults;
$crm->fault(path => 'apply=aggregate', status => 200, body => { count => 1 }, times => 0);
is_deeply([ uncounted("ANALYZE dv.account; $reltuples") ], [ $rows, 1, 1, 1 ], '… nor with an answer that has none');
$crm->no_faults;
$crm->fault(path => 'apply=aggregate', status => 400, code => '0x8004E023', message => 'AggregateQueryRecordLimit exceeded', times => 0);
$crm->sql(q{UPDATE pg_class SET reltuples = 700000 WHERE oid = 'dv.account'::regclass});
is_deeply([ uncounted("SET default_statistics_target = 1; ANALYZE dv.account; $reltuples") ], [ 700000, 1, 1, 1 ],
	'for a table that is too large to be counted, the number is kept');
$crm->no_faults;
$crm->dvsim->quirks;
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (DROP use_remote_estimate); ANALYZE dv.account});

# ---- a query that is too long for a request line is sent in a $batch, whose part may be throttled

my @names = map { ('z' x 250) . $_ } 1 .. 160;
my $names = join ' OR ', map { "name = '$_'" } @names;

$crm->sql(q{SELECT dataverse.reset_stats('crm')});
$crm->fault(path => '$batch', batch_part => 1, status => 429, code => '0x80072322',
	message => 'slow down', retry_after => 1);
requests();
is($crm->sql("SELECT count(name) FROM dv.account WHERE $names OR name = 'Alpine Bikes 931'"),
	$crm->sql(q{SELECT count(name) FROM dv.account WHERE name = 'Alpine Bikes 931'}),
	'an overlong query is answered although its part was throttled');
is(scalar(grep { $_->{target} =~ /\$batch/ } requests()), 2, 'it was sent twice');
is($crm->sql('SELECT code || retry_after FROM dataverse.throttle_history'),
	'0x8007232200:00:01', 'and the pool records the throttle of the part');
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_throttle_retries '1', ADD retry_after_buffer '0')});
$crm->fault(path => '$batch', batch_part => 1, status => 429, code => '0x80072322',
	message => 'slow down', retry_after => 0, times => 0);
my ($ms, $err) = $crm->time_of("SELECT count(name) FROM dv.account WHERE $names");
like($err, qr/slow down/, 'but not forever');
$crm->no_faults;
$crm->fault(path => '$batch', batch_part => 1, status => 503, times => 2);
requests();
is($crm->sql("SELECT count(name) FROM dv.account WHERE $names"), 0, 'a busy service is retried');
is(scalar(grep { $_->{target} =~ /\$batch/ } requests()), 3, '… as often as necessary');
$crm->fault(path => '$batch', batch_part => 1, status => 403, code => '0x80040220', message => 'no privilege');
($ms, $err) = $crm->time_of("SELECT count(name) FROM dv.account WHERE $names");
like($err, qr/ERROR:.*: no privilege\n.*code 0x80040220/, 'a refusal of the part is reported with the message of the service');
$crm->no_faults;
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_throttle_retries, DROP retry_after_buffer)});
$crm->sql(q{SELECT dataverse.reset_pool('crm')});

# ---- a long scan

is(seed('account', $many - $rows), $many, 'many rows exist');
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (DROP page_size);
	-- the most memory that this backend ever had, in kB
	CREATE FUNCTION peak() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+) kB'))[1]::bigint $$});
requests();
my ($before, $count, $after) = split /\n/, $crm->sql(
	q{-- otherwise a slow machine would make more ranges worthwhile
	SET dataverse_fdw.scan_parallelism = 1;
	DO $$ BEGIN PERFORM count(name), sum(revenue) FROM (SELECT name, revenue FROM dv.account LIMIT 20000) s; END $$;
	SELECT peak();
	SELECT count(name || '') + 0 * count(revenue + 1) + 0 * count(createdon::text) FROM dv.account;
	SELECT peak()});
my @sent = grep { selected($_) eq 'createdon,name,revenue' } requests();

is($count, $many, "$many rows are read");
cmp_ok(scalar @sent, '>=', $many / 5000, 'in pages of 5000');
cmp_ok(scalar @sent, '<=', $many / 5000 + 1, 'and not one request more');
cmp_ok($after - $before, '<', $flat + Crm::quarantine(),
	'the memory of the backend is flat: ' . ($after - $before) . " kB more than for 20,000 rows ($before kB)");

$crm->stop;
done_testing;
