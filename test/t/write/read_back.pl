# read_back.pl
#		RETURNING of values that only the service knows: many rows are read back at
#		a time, each gets its own values, and no row is lost to events in the
#		meantime.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('read_back', users => 2, options => { batch_size => 50 });
my $n = 500;
my $batches = $n / 50;
my $session = $w->session;
my $since = 0;

sub requests
{
	my ($next, @all) = sent($w->dvsim, $since);

	$since = $next;
	return grep { $_->{kind} ne 'token' } @all;
}

# Runs a statement and returns its result, its rows as texts, and the requests that read and that write.
sub run
{
	my ($sql, @settings) = @_;
	my ($result, @reads, @writes);

	$session->query($_) for @settings;
	requests();
	$result = $session->start($sql)->finish(600);
	diag("$result->{sqlstate}: $result->{message}") if $result->{sqlstate};
	push @{ $_->{kind} eq 'read' ? \@reads : \@writes }, $_ for requests();
	$session->query('RESET ALL') if @settings;
	return ($result, lines($result->{rows}), \@reads, \@writes);
}

sub lines
{
	my ($rows) = @_;
	return [ map { join '|', map { $_ // '' } @$_ } @$rows ];
}

sub rows { return lines($w->watcher->start($_[0])->finish(60)->{rows}); }

sub values_of
{
	my ($from, $upto, $row) = @_;
	return 'VALUES ' . join ', ', map { $row =~ s/\bN\b/$_/gr } $from .. $upto;
}

# Checks that each returned row is in the result of a query, and that no other row is.
sub is_there
{
	my ($rows, $query, $what) = @_;
	my %there = map { $_ => 1 } @{ rows($query) };

	is(scalar(keys %there), scalar(@$rows), "$what: the number of rows");
	is(scalar(grep { !$there{$_} } @$rows), 0, "$what: each has what is there") || diag(join "\n", $rows->[0], sort keys %there);
	return;
}

$w->watcher->query('IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_account_contact, new_alltypes) FROM SERVER crm INTO dv;
	CREATE SCHEMA bare;
	CREATE FOREIGN TABLE bare.new_meter (new_number integer, new_name text, createdon timestamptz) SERVER crm
		OPTIONS (table $$new_meter$$, entity_set $$new_meters$$, primary_id $$new_meterid$$)');

# ---- requests

my $known = 'new_number, versionnumber, createdon, statecode';
my ($r, $rows, $reads, $writes) = run('INSERT INTO dv.new_meter (new_number, new_name) ' . values_of(1, $n, q{(N, 'row N')}) . " RETURNING $known");
is($r->{tag}, "INSERT 0 $n", 'INSERT of many VALUES');
is(scalar @$writes, $batches, '… in batches');
is(scalar @$reads, 1, '… which are read back at once');
is_deeply([ map { /^(\d+)/ } @$rows ], [ 1 .. $n ], '… and returned in order');
is_there($rows, "SELECT $known FROM dv.new_meter", '…');

($r, $rows, $reads, $writes) = run("UPDATE dv.new_meter SET new_name = 'new' WHERE new_number % 2 = 0 RETURNING $known");
is($r->{tag}, 'UPDATE ' . $n / 2, 'UPDATE');
is(scalar @$reads, 2, '… reads the rows once before and once after it');
is_there($rows, "SELECT $known FROM dv.new_meter WHERE new_number % 2 = 0", '…');

# as object-relational mappers write it: in an order that RETURNING must keep, ids in a list, repeatedly
$w->reset;
($r, $rows, $reads) = run('INSERT INTO dv.new_meter (new_number, new_name) SELECT p0::integer, p1 FROM ('
	  . values_of(1, $n, q{('N', 'row N', N)}) . ") AS imp_sen(p0, p1, sen_counter) ORDER BY sen_counter DESC
	RETURNING new_meterid, new_meterid AS new_meterid__1, createdon, new_number");
is(scalar @$reads, 1, 'insertmanyvalues of SQLAlchemy');
is_deeply([ map { /(\d+)$/ } @$rows ], [ reverse 1 .. $n ], '… in its order');
is(scalar(grep { /^(.*)\|\1\|\d{4}-/ } @$rows), $n, '… with ids and times');
for my $row (1 .. 3)
{
	($r, $rows, $reads, $writes) = run("INSERT INTO dv.new_meter (new_name, new_number) VALUES ('single $row', $n + $row) RETURNING createdon IS NOT NULL");
	is(@$reads . ' ' . @$writes . ' ' . $rows->[0], '1 1 t', 'a statement of one row takes two requests');
	like($reads->[0]{target}, qr/new_meterid%20eq%20[^&]*&.*\$top=1/, '… the second of which reads one row') if $row == 1;
}

# many batches: the rows of several of them are read together
$w->reset;
($r, $rows, $reads, $writes) = run("INSERT INTO dv.new_meter (new_number) SELECT n FROM generate_series(1, 4000) n RETURNING new_number, versionnumber");
is_deeply([ map { /^(\d+)/ } @$rows ], [ 1 .. 4000 ], 'more rows than are read at once');
cmp_ok(scalar @$reads, '<=', 16, '… take few requests');
is_there($rows, 'SELECT new_number, versionnumber FROM dv.new_meter', '…');

# ---- rows of other kinds

# in elastic tables, an id is unique in its partition only
$w->reset;
($r, $rows, $reads) = run('INSERT INTO dv.new_reading (new_readingid, partitionid, new_sequence) '
	  . values_of(1, 200, q{(md5((N / 2)::text)::uuid, CASE N % 2 WHEN 0 THEN 'dev-1' ELSE 'DEV-1' END, N)}) . ' RETURNING new_sequence, versionnumber');
is_deeply([ map { /^(\d+)/ } @$rows ], [ 1 .. 200 ], 'elastic rows with the same ids');
is_there($rows, 'SELECT new_sequence, versionnumber FROM dv.new_reading', '…');
cmp_ok(scalar @$reads, '<=', 4, '… in few requests');
($r, $rows, $reads) = run("INSERT INTO dv.new_reading (new_sequence, partitionid) " . values_of(201, 400, q{(N, nullif('p' || N % 3, 'p0'))}) . ' RETURNING new_sequence, versionnumber');
is_there($rows, 'SELECT new_sequence, versionnumber FROM dv.new_reading WHERE new_sequence > 200', 'rows without a partition');
cmp_ok(scalar @$reads, '<=', 4, '… in few requests');
($r, $rows, $reads) = run("UPDATE dv.new_reading SET new_value = new_sequence WHERE new_sequence <= 200 RETURNING new_sequence, versionnumber");
is_there($rows, 'SELECT new_sequence, versionnumber FROM dv.new_reading WHERE new_sequence <= 200', 'UPDATE of elastic rows');

# keys that the service may equate are matched by the service
my $upsert = "SET dataverse_fdw.insert_mode = 'upsert'";
$w->reset;
for my $what ('made', 'found')
{
	($r, $rows, $reads) = run("INSERT INTO by_key.new_meter (new_serial, new_name, new_number) " . values_of(1, 300, qq{('S-' || N, '$what', N)}) . ' RETURNING new_serial, new_number, new_meterid, versionnumber', $upsert);
	is_deeply([ map { /\|(\d+)\|/ } @$rows ], [ 1 .. 300 ], "rows with alternate keys that are $what");
	is_there($rows, 'SELECT new_serial, new_number, new_meterid, versionnumber FROM dv.new_meter', '…');
	cmp_ok(scalar @$reads, '<=', 4, '… in few requests') || diag(scalar @$reads);
}
$w->reset;
my @keys = ("'a'", "'A '", "'b'", "'ä'", "'x''y'", "'b  '", "E'\\t'", "'%_['", "'" . 'long ' x 20 . "'", "'B'", "'c'");
($r, $rows) = run('INSERT INTO by_key.new_meter (new_serial, new_number) VALUES ' . join(', ', map { "($keys[$_], $_)" } 0 .. $#keys) . ' RETURNING new_meterid, versionnumber', $upsert);
is(scalar @$rows, scalar @keys, 'keys that the service equates');
is_deeply([ sort keys %{ { map { $_ => 1 } @$rows } } ], [ sort @{ rows('SELECT new_meterid, versionnumber FROM dv.new_meter') } ], '… each row has the stored values');
is($rows->[0], $rows->[1], '… and equal ones have the same values');
is($rows->[2], $rows->[5], '… with blanks');

# pairs
$w->reset;
$w->watcher->query("INSERT INTO dv.account (accountid, name) SELECT md5('a' || n)::uuid, 'a' FROM generate_series(1, 10) n;
	INSERT INTO dv.contact (contactid, lastname) SELECT md5('c' || n)::uuid, 'c' FROM generate_series(1, 10) n");
($r, $rows, $reads) = run("INSERT INTO dv.new_account_contact (accountid, contactid) SELECT md5('a' || a)::uuid, md5('c' || c)::uuid FROM generate_series(1, 10) a, generate_series(1, 10) c RETURNING accountid, contactid, new_account_contactid");
is_there($rows, 'SELECT accountid, contactid, new_account_contactid FROM dv.new_account_contact', 'pairs');
is(scalar(grep { /\|$/ } @$rows), 0, '… with ids of their own');
cmp_ok(scalar @$reads, '<=', 2, '… in few requests');

# a table without a column for ids, and ids generated by the service
$w->reset;
($r, $rows, $reads) = run('INSERT INTO bare.new_meter (new_number) ' . values_of(1, 300, '(N)') . ' RETURNING new_number, createdon');
is_there($rows, 'SELECT new_number, createdon FROM dv.new_meter', 'no column for ids');
cmp_ok(scalar @$reads, '<=', 5, '… in few requests');
$w->reset;
$w->set(generate_ids => 'off');
($r, $rows, $reads) = run('INSERT INTO dv.new_meter (new_number) ' . values_of(1, $n, '(N)') . ' RETURNING new_meterid, new_number, versionnumber');
$w->set(generate_ids => undef);
is_there($rows, 'SELECT new_meterid, new_number, versionnumber FROM dv.new_meter', 'ids generated by the service');
is(scalar @$reads, 1, '… in one request');

# not every environment supports lists
$w->reset;
$w->dvsim->control('POST', '/_dvsim/quirks', ['no-in']);
($r, $rows, $reads) = run('INSERT INTO dv.new_meter (new_number) ' . values_of(1, $n, '(N)') . ' RETURNING new_number, versionnumber');
$w->dvsim->control('POST', '/_dvsim/quirks', []);
is_there($rows, 'SELECT new_number, versionnumber FROM dv.new_meter', 'no In');
cmp_ok(scalar @$reads, '<=', 8, '… in few requests') || diag(scalar @$reads);

# all types
$w->reset;
$session->close;
$session = $w->session;
my $all = "new_name, new_text, new_memo, new_choices, new_datetime, new_zonefree, new_decimal, new_money, versionnumber, statecode, ownerid, createdon, new_alltypesid";
($r, $rows, $reads) = run("INSERT INTO dv.new_alltypes (new_name, new_text, new_memo, new_choices, new_datetime, new_zonefree, new_decimal, new_money)
	SELECT 'row ' || n, CASE n % 3 WHEN 0 THEN '' WHEN 1 THEN 'ä' || n END, repeat('m', n), CASE n % 2 WHEN 0 THEN ARRAY[1] END, '2020-02-29 12:34:56.789+00', '2020-02-29', -n / 7.0, n
	FROM generate_series(1, 100) n RETURNING $all");
is_there($rows, "SELECT $all FROM dv.new_alltypes", 'columns of all types');

# ---- the source and the target of rows

$w->reset;
($r, $rows, $reads) = run("WITH i AS (INSERT INTO dv.new_meter (new_number) SELECT n FROM generate_series(1, $n) n RETURNING new_number, versionnumber, statecode)
	INSERT INTO dv.account (name, numberofemployees) SELECT versionnumber, new_number FROM i WHERE statecode = 0 RETURNING name, numberofemployees, createdon IS NOT NULL");
is_there($rows, 'SELECT versionnumber, new_number, true FROM dv.new_meter', 'WITH');
cmp_ok(scalar @$reads, '<=', 3, '… in few requests') || diag(scalar @$reads);

$w->reset;
($r, $rows, $reads) = run("INSERT INTO dv.new_meter (new_number, new_kind) SELECT n, CASE n % 100 WHEN 7 THEN 4711 END FROM generate_series(1, $n) n RETURNING new_number, versionnumber",
	"SET dataverse_fdw.on_error = 'continue'");
is_deeply([ map { /^(\d+)/ } @$rows ], [ grep { $_ % 100 != 7 } 1 .. $n ], 'refused rows are omitted');
is_there($rows, 'SELECT new_number, versionnumber FROM dv.new_meter', '…');
is($r->{tag}, 'INSERT 0 ' . @$rows, '… and not counted');
cmp_ok(scalar @$reads, '<=', 2, '… in few requests') || diag(scalar @$reads);

$w->reset;
$w->watcher->query('CREATE TABLE parts (new_number integer, versionnumber bigint, statecode integer) PARTITION BY RANGE (new_number);
	CREATE TABLE here PARTITION OF parts FOR VALUES FROM (0) TO (11);
	CREATE FOREIGN TABLE there PARTITION OF parts FOR VALUES FROM (11) TO (1000) SERVER crm OPTIONS (table $$new_meter$$, entity_set $$new_meters$$, primary_id $$new_meterid$$)');
($r, $rows, $reads) = run("INSERT INTO parts (new_number) SELECT n FROM generate_series(1, $n) n RETURNING new_number, versionnumber, statecode");
is_there([ grep { !/\|\|/ } @$rows ], 'SELECT new_number, versionnumber, statecode FROM there', 'rows that are routed to a partition');
cmp_ok(scalar @$reads, '<=', 7, '… in few requests') || diag(scalar @$reads);
$w->watcher->query('DROP TABLE parts');

# triggers need each row as soon as it is written
$w->reset;
$w->watcher->query('CREATE TABLE seen (number integer, version bigint);
	CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (new.new_number, new.versionnumber); RETURN NULL; END $$;
	CREATE TRIGGER see AFTER INSERT OR UPDATE ON dv.new_meter FOR EACH ROW EXECUTE FUNCTION see()');
($r, $rows) = run("INSERT INTO dv.new_meter (new_number) SELECT n FROM generate_series(1, 20) n RETURNING new_number, versionnumber");
is_there($rows, 'SELECT new_number, versionnumber FROM dv.new_meter', 'AFTER ROW triggers');
is_deeply(rows('SELECT * FROM seen ORDER BY 1'), $rows, '… see the same');
run("COPY dv.new_meter (new_number) FROM PROGRAM 'seq 21 30'");
is_there(rows('SELECT * FROM seen'), 'SELECT new_number, versionnumber FROM dv.new_meter', '… and those of COPY');
$w->watcher->query('DROP TRIGGER see ON dv.new_meter');

# ---- faults

my $insert = 'INSERT INTO dv.new_meter (new_number) ' . values_of(1, $n, '(N)') . ' RETURNING new_number, versionnumber, createdon';
for my $fault (
	[ 'errors', { status => 503, times => 2 } ],
	[ 'throttles', { status => 429, code => '0x80072322', retry_after => 0, times => 3 } ],
	[ 'connections that break', { action => 'reset_after_commit', times => 2 } ],
	[ 'truncated answers', { action => 'truncate', times => 2 } ],
	[ 'shortened answers', { action => 'shorten', times => 2 } ],
	[ 'garbled answers', { action => 'garble', times => 2 } ])
{
	my ($what, $rule) = @$fault;

	$w->reset;
	faults($w->dvsim, { method => 'GET', path => 'new_meters', %$rule });
	($r, $rows) = run($insert);
	is(hits($w->dvsim), $rule->{times}, "$what: the number of rows");
	clear_faults($w->dvsim);
	is($r->{tag}, "INSERT 0 $n", "$what: all rows are counted");
	is_there($rows, 'SELECT new_number, versionnumber, createdon FROM dv.new_meter', $what);
}

# pages that lack rows, although they exist
$w->reset;
$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_number) SELECT md5(n::text)::uuid, n FROM generate_series(1, $n) n");
my $page = { value => [ map { { new_meterid => $_, versionnumber => 4711 } } @{ rows('SELECT new_meterid FROM dv.new_meter WHERE new_number <= 3') } ] };
my $update = "UPDATE dv.new_meter SET new_name = 'x' WHERE new_meterid = ANY (ARRAY(SELECT md5(n::text)::uuid FROM generate_series(1, $n) n)) RETURNING new_number, versionnumber";
faults($w->dvsim, { method => 'GET', path => 'new_meters', after => 1, status => 200, body => $page, headers => { 'Content-Type' => 'application/json' } });
($r, $rows, $reads) = run($update);
# dvsim does not count the request that the rule has answered as a read
is(hits($w->dvsim), 1, 'a page that lacks rows');
clear_faults($w->dvsim);
is(scalar(grep { /\|4711$/ } @$rows), 3, '… requests no row twice');
is(scalar(grep { /\|$/ } @$rows), 0, '… and those that it lacks are asked for again') || diag(scalar(grep { /\|$/ } @$rows));
is(scalar @$reads, 2, '… together');

# rows that are deleted meanwhile are returned without the values that only the service knew
$w->reset;
faults($w->dvsim, { method => 'GET', path => 'CRM.In(', status => 503, times => 0 });
$session->start($insert);
wait_for(sub { hits($w->dvsim) > 0 || $session->done }, 'the first read');
$w->watcher->query('DELETE FROM dv.new_meter WHERE new_number % 50 = 0');
clear_faults($w->dvsim);
$r = $session->finish(600);
is($r->{tag}, "INSERT 0 $n", 'rows that are deleted meanwhile are counted');
is_deeply([ grep { /\|\|$/ } @{ lines($r->{rows}) } ], [ map { 50 * $_ . '||' } 1 .. $n / 50 ], '… and returned without the unknown values');
is_there([ grep { !/\|\|$/ } @{ lines($r->{rows}) } ], 'SELECT new_number, versionnumber, createdon FROM dv.new_meter', '… together with the others');

# an error while rows are read back
$w->reset;
$w->set(max_retries => 1);
faults($w->dvsim, { method => 'GET', path => 'new_meters', status => 503, times => 0 });
$r = $session->start($insert)->finish(600);
clear_faults($w->dvsim);
$w->set(max_retries => undef);
like($r->{message}, qr/^could not read back from foreign table "new_meter"/, 'an error while rows are read back');
like("$r->{detail}", qr/\b$n rows?\b/, '… says how many rows are there') || diag(explain $r);
is($w->rows_there('standard'), $n, '… and they are');

# cancelled while rows are read back
$w->reset;
faults($w->dvsim, { method => 'GET', path => 'new_meters', action => 'stall' });
$session->start($insert);
wait_for(sub { hits($w->dvsim) > 0 || $session->done }, 'the read');
kill 'INT', $session->pid;
$r = $session->finish(60);
is($r->{sqlstate}, '57014', 'cancelled while rows are read back');
clear_faults($w->dvsim);
is($w->rows_there('standard'), $n, '… all rows are written');
wait_for(sub { $w->watcher->value('SELECT coalesce(sum(in_flight), 0) FROM dataverse.pool') == 0 }, 'no request');
pass('… and no request is under way');
($r, $rows) = run('INSERT INTO dv.new_meter (new_number) VALUES (1000) RETURNING createdon IS NOT NULL');
is_deeply($rows, ['t'], '… and the session continues');

# ---- all of it at random

my $seed = $ENV{SEED} // int rand 2**31;
my @troubles = ({ action => 'reset_after_commit' }, { action => 'reset_before_commit' }, { action => 'truncate' }, { action => 'shorten' }, { action => 'garble' },
	{ status => 503 }, { status => 429, code => '0x80072322', retry_after => 0 });
srand $seed;
note "SEED=$seed";
for my $round (1 .. 6)
{
	my $rows_sent = 50 + int rand 1500;
	my $bad_is = 3 + int rand 60;
	my ($kind, $table, $order) = @{ ([ 'standard', 'dv.new_meter', 'new_number' ], [ 'elastic', 'dv.new_reading', 'new_sequence' ])[ int rand 2 ] };
	my $more = $kind eq 'elastic' ? [ ', partitionid', q{, 'p' || n % 7} ] : [ ', new_kind', ", CASE n % $bad_is WHEN 1 THEN 4711 END" ];
	my @chosen = map { { path => '/api/data/', times => 3, every => 2 + int rand 6, %{ $troubles[rand @troubles] } } } 1 .. int rand 4;
	my $what = "round $round: $rows_sent rows, $kind, bad: $bad_is, " . join(' ', map { $_->{action} // $_->{status} } @chosen);

	$w->reset;
	faults($w->dvsim, @chosen) if @chosen;
	($r, $rows) = run("INSERT INTO $table ($order$more->[0]) SELECT n$more->[1] FROM generate_series(1, $rows_sent) n RETURNING $order, versionnumber, createdon",
		"SET dataverse_fdw.on_error = 'continue'", 'SET dataverse_fdw.batch_size = ' . (1 + int rand 100));
	clear_faults($w->dvsim);
	is_deeply([ map { /^(\d+)/ } @$rows ], [ grep { $kind eq 'elastic' || $_ % $bad_is != 1 } 1 .. $rows_sent ], "$what: in order");
	is($r->{tag}, 'INSERT 0 ' . @$rows, "$what: counted");
	is_there($rows, "SELECT $order, versionnumber, createdon FROM $table", $what);
}

$session->close;
$w->stop;
done_testing;
