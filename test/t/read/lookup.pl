# lookup.pl
#		Joins that request the keys of many rows at once: the number of requests,
#		by dvsim's journal, when the planner chooses them, how much memory they
#		take, and joins of tables of two services.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use Crm;

my $rows = 100_000;
my $few = 12_000;
my $keys = 10_000;
my $both = 22_087;
my $flat = 24 * 1024;    # kB that many batches may take beyond one batch

my $crm = Crm->start('lookup');
my $other = Dvsim->start('--app-user', 'app1:secret1');
my %since;

$crm->server('other', base => $other->base, token_url => $other->base . '/t/oauth2/v2.0/token');

# Returns the requests for data that a dvsim has received since the last call.
sub requests
{
	my ($dvsim) = @_;
	my $since = $since{ $dvsim->base } // 0;
	my $log = $dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	$since{ $dvsim->base } = $log->{next};
	return grep { $_->{kind} ne 'token' } @{ $log->{requests} };
}

# Runs a query, and checks the number of its requests, its answer, and its plan.
sub asks
{
	my ($query, %want) = @_;
	my ($answer, @sent, $received);
	my $plan = $crm->sql("EXPLAIN $query");
	my $title = $query =~ s/\s+/ /gr;

	requests($_) for $crm->dvsim, $other;
	$answer = $crm->sql($query);
	@sent = requests($crm->dvsim);
	$received += $_->{rows} for @sent;
	is($plan =~ /DataverseLookup/ ? 'by keys' : 'otherwise', $want{plan} // 'by keys', "$title: the plan");
	is(scalar @sent, $want{requests}, '… the number of requests') or diag $plan;
	cmp_ok($received, '<=', $want{rows}, "… which return no more rows than needed ($received)") if defined $want{rows};
	is($answer, $want{answer} // $crm->sql($query =~ s/\bdv\./l./gr), '… and the answer');
	return;
}

for ([ account => $rows ], [ contact => $few ])
{
	my $answer = $crm->dvsim->control('POST', "/_dvsim/seed?table=$_->[0]&rows=$_->[1]");

	die $answer->body unless $answer->status == 200;
}
$crm->sql(
	qq{CREATE SCHEMA dv; CREATE SCHEMA ds; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER other INTO ds;
	INSERT INTO dv.account (name, numberofemployees) VALUES ('Twin', 1), ('TWIN', 2), ('twin', 3), ('Twîn', 4);
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, parentaccountid FROM dv.account;
	CREATE TABLE l.contact AS SELECT contactid, fullname, parentcustomerid FROM dv.contact;
	ANALYZE dv.account (accountid, name, parentaccountid), dv.contact (contactid, parentcustomerid), l.account, l.contact;
	CREATE TABLE wanted AS SELECT row_number() OVER () AS n, accountid AS id, name FROM l.account LIMIT $keys;
	CREATE TABLE people AS SELECT contactid AS id FROM l.contact LIMIT $keys;
	CREATE TABLE repeated AS SELECT id FROM wanted, generate_series(1, 5) WHERE n <= 1000
		UNION ALL SELECT NULL FROM generate_series(1, 1000);
	ANALYZE});

# ---- how many requests

my $count = 'count(*), count(a.name), sum(hashtext(a.name))';

asks("SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id", requests => 20, rows => $keys);
asks("SELECT $count FROM wanted w LEFT JOIN dv.account a ON a.accountid = w.id AND a.name > 'M'", requests => 20, rows => $keys);
asks('SELECT count(*) FROM wanted WHERE id IN (SELECT accountid FROM dv.account)', requests => 20, rows => $keys);
asks('SELECT count(*) FROM wanted w WHERE NOT EXISTS (SELECT FROM dv.account WHERE accountid = w.id)', requests => 20, rows => $keys);
asks("SELECT $count FROM dv.account a WHERE accountid IN (SELECT id FROM wanted)", requests => 20, rows => $keys);
asks("SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id WHERE w.n <= 500", requests => 1, rows => 500);
asks("SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id WHERE w.n <= 501", requests => 2, rows => 501);
asks("SELECT $count FROM repeated w JOIN dv.account a ON a.accountid = w.id", requests => 2, rows => 1000);
asks("SELECT $count FROM repeated w LEFT JOIN dv.account a ON a.accountid = w.id WHERE w.id IS NULL", requests => 0, answer => '1000|0|');
asks("SELECT $count FROM wanted w LEFT JOIN dv.account a ON a.accountid = w.id WHERE w.n < 0", plan => 'otherwise', requests => 0);
asks("SELECT count(*) FROM (SELECT a.name FROM wanted w JOIN dv.account a ON a.accountid = w.id LIMIT 10) s", requests => 1, rows => 100);
asks("SELECT EXISTS (SELECT FROM wanted w JOIN dv.account a ON a.accountid = w.id)", requests => 1, rows => 100);
# a text of blanks matches NULL in the service, which is requested once
asks("SELECT count(*), sum(numberofemployees) FROM (VALUES ('twin'), ('Twin'), ('Twîn'), (''), ('  '), (NULL)) v(t) LEFT JOIN dv.account a ON a.name = v.t",
	requests => 1);
asks("SELECT count(*), count(a.name) FROM (SELECT 'key ' || n AS t FROM wanted WHERE n <= 700 UNION ALL VALUES (''), (' '), ('TWIN'), ('twin')) v LEFT JOIN dv.account a ON a.name = v.t",
	requests => 2, rows => 10);

# ---- the plan with fewer requests is chosen

asks("SELECT count(*), count(a.fullname) FROM people p JOIN dv.contact a ON a.contactid = p.id", plan => 'otherwise', requests => 3, rows => $few);
asks("SELECT count(*), count(a.fullname) FROM (SELECT id FROM people LIMIT 400) p LEFT JOIN dv.contact a ON a.contactid = p.id", requests => 1, rows => 400);
asks("SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id WHERE w.n = 1", plan => 'otherwise', requests => 1, rows => 1);
asks("SELECT $count FROM l.account w JOIN dv.account a ON a.accountid = w.accountid", plan => 'otherwise', requests => 21, rows => $rows + 4);
like($crm->sql("EXPLAIN SELECT FROM wanted w JOIN dv.account a ON a.accountid = w.id"), qr/DataverseLookup/, 'many rows: by keys');
$crm->sql(q{UPDATE pg_class SET reltuples = 12000 WHERE oid = 'dv.account'::regclass});
unlike($crm->sql("EXPLAIN SELECT FROM wanted w JOIN dv.account a ON a.accountid = w.id"), qr/DataverseLookup/, 'few rows: all of them are read');
$crm->sql(qq{UPDATE pg_class SET reltuples = $rows WHERE oid = 'dv.account'::regclass});

# ---- faults

$crm->fault(action => 'status', path => '/api/data', status => 503, after => 3, times => 2);
asks("SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id", requests => 22);
$crm->no_faults;
$crm->fault(action => 'delay', path => '/api/data', delay_ms => 60_000, after => 3);
my $began = time;
my (undef, $err) = $crm->time_of(
	"SET statement_timeout = 1000; SELECT $count FROM wanted w JOIN dv.account a ON a.accountid = w.id");
like($err, qr/canceling statement due to statement timeout/, 'a join that waits can be cancelled');
cmp_ok(time - $began, '<', 20, '… at once');
$crm->no_faults;

# ---- many batches: memory does not depend on their number

$crm->sql(
	q{CREATE FUNCTION peak() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+) kB'))[1]::bigint $$;
	-- so that all of it is asked for by keys
	UPDATE pg_class SET reltuples = 100000000 WHERE oid = 'dv.account'::regclass});
requests($crm->dvsim);
my ($before, $all, $after) = split /\n/, $crm->sql(
	qq{DO \$\$ BEGIN PERFORM a.name FROM wanted w JOIN dv.account a ON a.accountid = w.id; END \$\$;
	SELECT peak();
	SELECT $count FROM l.account w JOIN dv.account a ON a.accountid = w.accountid;
	SELECT peak()});
my @sent = requests($crm->dvsim);

is($all, $crm->sql("SELECT $count FROM l.account a"), 'a hundred thousand keys');
is(scalar @sent, 20 + 200 + 1, '… in lists of 500');
cmp_ok($after - $before, '<', $flat + Crm::quarantine(), 'the memory of the backend is flat: ' . ($after - $before) . " kB more than for one batch ($before kB)");
$crm->sql(qq{UPDATE pg_class SET reltuples = $rows WHERE oid = 'dv.account'::regclass});

# ---- two services

$crm->sql(
	qq{INSERT INTO ds.account (accountid, name, numberofemployees)
	SELECT accountid, upper(name), row_number() OVER () FROM l.account LIMIT $both;
	CREATE TABLE l.theirs AS SELECT accountid, name, numberofemployees FROM ds.account});
is($crm->sql('SELECT count(*) FROM l.theirs'), $both, 'another service has some of the rows');

# Returns the duration of a query, in seconds, and the requests that the two services receive.
sub asks_both
{
	my ($query) = @_;
	my ($answer, $seconds);

	requests($_) for $crm->dvsim, $other;
	$seconds = time;
	$answer = $crm->sql($query);
	$seconds = time - $seconds;
	is($answer, $crm->sql($query =~ s/\bdv\./l./gr =~ s/\bds\.account/l.theirs/gr), "$query: the answer is correct");
	return ($seconds, scalar requests($crm->dvsim), scalar requests($other));
}

# the same number of rows on both sides
$crm->sql("DELETE FROM l.account WHERE accountid NOT IN (SELECT accountid FROM l.theirs)");
for my $analyzed (0, 1)
{
	$crm->sql('ANALYZE ds.account (accountid)') if $analyzed;
	my ($seconds, $here, $there) = asks_both(
		"SELECT count(*), sum(t.numberofemployees) FROM ds.account t JOIN dv.account a ON a.accountid = t.accountid WHERE t.numberofemployees <= 300");

	cmp_ok($there, '<=', 1, 'a few rows of one service are read');
	is($here, 1, '… and as many of the other are requested together');
}

my $twin = Crm->start('twin', dvsim => $other);
my $size = $other->control('POST', '/_dvsim/reset') && $other->control('POST', "/_dvsim/seed?table=account&rows=$both")->json->{rows};
my $third = Dvsim->start('--app-user', 'app1:secret1');

is($size, $both, 'two services with the same rows');
$twin->server('third', base => $third->base, token_url => $third->base . '/t/oauth2/v2.0/token');
$twin->sql(
	q{CREATE SCHEMA a; CREATE SCHEMA b;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO a;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER third INTO b;
	INSERT INTO b.account (accountid, name) SELECT accountid, name FROM a.account});
for my $analyzed (0, 1)
{
	$twin->sql('ANALYZE a.account (accountid, name), b.account (accountid, name)') if $analyzed;
	requests($_) for $other, $third;
	my $seconds = time;
	my $answer = $twin->sql('SELECT count(*), sum((x.name = y.name)::integer) FROM a.account x JOIN b.account y ON y.accountid = x.accountid');

	$seconds = time - $seconds;
	is($answer, "$both|$both", 'the rows of two services are joined, ' . ($analyzed ? 'with' : 'without') . ' statistics');
	my $sent = requests($other) + requests($third);
	cmp_ok($sent, '<=', 12, "… with $sent requests");
	cmp_ok($seconds, '<', 5, sprintf '… in %.1f s', $seconds);
}

$twin->stop;
$crm->stop;
done_testing;
