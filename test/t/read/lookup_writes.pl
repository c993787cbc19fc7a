# lookup_writes.pl
#		Updates and deletes by the keys of many rows: the number of requests that
#		read, by dvsim's journal; local rows that another session changes while a
#		statement waits for them; and random statements, compared with the same
#		ones on local tables.
#
# ROUNDS sets the number of random statements (default 150), and SEED the seed
# (default: the time; it is printed).
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Session;

my $rows = 100_000;
my $keys = 10_000;
my $many = 1_000_000;    # assumed number of rows of small tables
my $statements = $ENV{ROUNDS} // 150;
my $seed = $ENV{SEED} // time;
my $crm = Crm->start('lookup_writes');

srand $seed;
diag "SEED=$seed";

# Runs a statement; checks its plan, its reads, and its writes.
sub changes
{
	my ($statement, %want) = @_;
	my $plan = $crm->sql("EXPLAIN $statement");
	my $title = $statement =~ s/\s+/ /gr;
	my ($read, $written, $got) = (0, 0, 0);
	my $session = Session->new($crm->node);
	my $result;
	my $early = 0;

	$crm->requests;
	$result = $session->try($statement);
	for my $request ($crm->requests)
	{
		if ($request->{method} eq 'GET')
		{
			$read++;
			$got += $request->{rows};
			$early = 1 if $written > 0;
			next;
		}
		$written++;
	}
	is($plan =~ /DataverseLookup/ ? 'by keys' : 'otherwise', $want{plan} // 'by keys', "$title: the plan");
	is($result->{message} // $result->{tag}, $want{tag}, '… the tag');
	is($read, $want{reads}, '… the number of requests that read') or diag $plan;
	cmp_ok($got, '<=', $want{rows}, "… which return no more rows than needed ($got)") if defined $want{rows};
	cmp_ok($written, '<=', $want{writes}, "… the number of requests that write ($written)");
	ok(!$early, '… all of them after the reads');
	return;
}

$crm->dvsim->control('POST', "/_dvsim/seed?table=new_meter&rows=$rows");
$crm->sql(
	qq{CREATE SCHEMA dv; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, account) FROM SERVER crm INTO dv;
	ANALYZE dv.new_meter (new_meterid, new_serial, new_number);
	CREATE TABLE l.new_meter AS SELECT new_meterid, new_name, new_serial, new_number FROM dv.new_meter;
	CREATE TABLE wanted AS SELECT row_number() OVER (ORDER BY random()) AS n, new_meterid AS id, new_serial AS serial FROM l.new_meter LIMIT $keys;
	CREATE TABLE twice AS SELECT * FROM wanted UNION ALL SELECT * FROM wanted;
	ANALYZE});

# ---- how many requests

my $of_batches = $keys / 100;

changes('UPDATE dv.new_meter m SET new_lastreading = w.n FROM wanted w WHERE m.new_serial = w.serial',
	tag => "UPDATE $keys", reads => 20, rows => $keys, writes => $of_batches);
is($crm->sql('SELECT count(*), count(*) FILTER (WHERE m.new_lastreading = w.n) FROM wanted w JOIN dv.new_meter m ON m.new_meterid = w.id'),
	"$keys|$keys", 'a table is updated by alternate key');
changes('UPDATE dv.new_meter m SET new_lastreading = m.new_lastreading + 1 FROM wanted w WHERE m.new_meterid = w.id',
	tag => "UPDATE $keys", reads => 20, rows => $keys, writes => $of_batches);
changes('UPDATE dv.new_meter m SET new_lastreading = m.new_lastreading + 1 FROM twice w WHERE m.new_meterid = w.id AND w.n <= 5000',
	tag => 'UPDATE 5000', reads => 10, rows => 5000, writes => 50);
is($crm->sql('SELECT count(*) FILTER (WHERE m.new_lastreading = w.n + 1 + (w.n <= 5000)::int) FROM wanted w JOIN dv.new_meter m ON m.new_meterid = w.id'),
	$keys, 'each row is updated once, however often its key occurs');
# no reads are necessary
changes('UPDATE dv.new_meter m SET new_lastreading = w.n FROM wanted w WHERE m.new_meterid = w.id',
	plan => 'otherwise', tag => "UPDATE $keys", reads => 0, writes => $of_batches);
changes(q{UPDATE dv.new_meter m SET new_name = 'no. ' || w.n FROM wanted w WHERE m.new_serial = w.serial AND m.new_lastreading <= 500 AND w.n <= 600},
	tag => 'UPDATE 500', reads => 2, rows => 500, writes => 5);
changes(q{UPDATE dv.new_meter m SET new_serial = 'T' || m.new_serial FROM wanted w WHERE m.new_serial = w.serial AND w.n <= 600},
	tag => 'UPDATE 600', reads => 2, rows => 600, writes => 6);
changes(q{UPDATE dv.new_meter m SET new_serial = substr(m.new_serial, 2) FROM wanted w WHERE m.new_meterid = w.id AND w.n <= 600},
	tag => 'UPDATE 600', reads => 2, rows => 600, writes => 6);
changes('DELETE FROM dv.new_meter m USING wanted w WHERE m.new_serial = w.serial AND w.n > 9000',
	tag => 'DELETE 1000', reads => 2, rows => 1000, writes => 10);
is($crm->sql('SELECT count(*), count(*) FILTER (WHERE m.new_lastreading = w.n) FROM wanted w JOIN dv.new_meter m ON m.new_serial = w.serial'),
	'9000|9000', 'rows are deleted by alternate key');
changes('UPDATE wanted w SET serial = m.new_name FROM dv.new_meter m WHERE m.new_meterid = w.id',
	tag => 'UPDATE 9000', reads => 20, rows => 9000, writes => 0);

# an answer is lost
$crm->fault(action => 'status', path => '/api/data', method => 'GET', status => 503, after => 3, times => 2);
changes('UPDATE dv.new_meter m SET new_lastreading = m.new_lastreading + 1 FROM wanted w WHERE m.new_meterid = w.id',
	tag => 'UPDATE 9000', reads => 22, writes => 90);
$crm->no_faults;

# ---- rows that the id alone does not identify: of elastic and intersect tables

$crm->dvsim->control('POST', "/_dvsim/seed?table=$_") for 'account&rows=40', 'contact&rows=40', 'new_reading&rows=300';
$crm->sql(
	qq{IMPORT FOREIGN SCHEMA dataverse LIMIT TO (contact, new_reading, new_account_contact) FROM SERVER crm INTO dv;
	INSERT INTO dv.new_account_contact (accountid, contactid)
		SELECT a.accountid, c.contactid FROM (SELECT accountid FROM dv.account LIMIT 20) a, (SELECT contactid FROM dv.contact LIMIT 20) c;
	CREATE TABLE readings AS SELECT row_number() OVER () AS n, new_readingid AS id, partitionid AS partition FROM dv.new_reading;
	CREATE TABLE pairs AS SELECT row_number() OVER () AS n, new_account_contactid AS id, accountid, contactid FROM dv.new_account_contact;
	ANALYZE readings, pairs;
	ANALYZE dv.new_reading, dv.new_account_contact;
	UPDATE pg_class SET reltuples = $many WHERE relname IN ('new_reading', 'new_account_contact')});
changes(q{UPDATE dv.new_reading r SET new_name = 'no. ' || w.n FROM readings w WHERE r.new_readingid = w.id},
	tag => 'UPDATE 300', reads => 1, rows => 300, writes => 3);
is($crm->sql(q{SELECT count(*), count(*) FILTER (WHERE r.new_name = 'no. ' || w.n) FROM readings w JOIN dv.new_reading r ON r.new_readingid = w.id AND r.partitionid IS NOT DISTINCT FROM w.partition}),
	'300|300', 'rows of an elastic table are written in their partitions');
changes('DELETE FROM dv.new_account_contact p USING pairs w WHERE p.new_account_contactid = w.id AND w.n <= 150',
	tag => 'DELETE 150', reads => 1, rows => 150, writes => 2);
is($crm->sql('SELECT count(*), count(p.accountid) FROM pairs w LEFT JOIN dv.new_account_contact p USING (accountid, contactid) WHERE (w.n <= 150) = (p.accountid IS NULL)'),
	'400|250', 'pairs are deleted');

# ---- local rows that another session changes meanwhile

# Rows to be updated, of the service and of a local copy.
$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=500');
$crm->sql(
	qq{UPDATE dv.account SET numberofemployees = 5000 WHERE numberofemployees IS NULL OR numberofemployees > 5000;
	ANALYZE dv.account;
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, parentaccountid FROM dv.account;
	ALTER TABLE l.account ADD PRIMARY KEY (accountid);
	CREATE TABLE start AS SELECT row_number() OVER (ORDER BY name, accountid)::int AS id, accountid AS account, 0 AS least, 0 AS done, NULL::text AS note
		FROM l.account WHERE numberofemployees > 100 AND parentaccountid IS NOT NULL LIMIT 6;
	CREATE TABLE tasks (LIKE start);
	CREATE TABLE others AS SELECT id, account FROM start;
	INSERT INTO tasks TABLE start;
	UPDATE pg_class SET reltuples = $many WHERE oid = 'dv.account'::regclass;
	ANALYZE tasks, others, l.account});
my $session = Session->new($crm->node);
my $other = Session->new($crm->node);
my $elsewhere = $session->value(q{SELECT accountid FROM l.account WHERE accountid NOT IN (SELECT account FROM start) AND numberofemployees > 100 LIMIT 1});

$other->query('SET enable_nestloop = off');

# Returns the result and the effect of a statement if rows change while it waits for them; also the requests meanwhile.
sub conflict
{
	my ($statement, $change) = @_;
	my $r;

	$session->query('TRUNCATE tasks; INSERT INTO tasks TABLE start');
	$session->query('BEGIN');
	$session->query($change);
	$other->start($statement);
	$crm->node->poll_query_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = ' . $other->pid . " AND wait_event_type = 'Lock'")
	  or die 'does not wait';
	$crm->requests;
	$session->query('COMMIT');
	$r = $other->finish;
	my @sent = $crm->requests;
	return (join("\n", $r->{message} // $r->{tag}, sort map { join ' ', map { $_ // '' } @$_ } @{ $r->{rows} // [] }),
		$session->query('SELECT * FROM tasks ORDER BY id, account'), scalar @sent);
}

my @changes = (
	[ 'a row that still fits', 'UPDATE tasks SET least = 1 WHERE id = 1' ],
	[ 'a row that belongs to another one now', "UPDATE tasks SET account = '$elsewhere' WHERE id = 2" ],
	[ 'a row without a key', 'UPDATE tasks SET account = NULL WHERE id = 3' ],
	[ 'a row for which the condition is not met any more', 'UPDATE tasks SET least = 1000000 WHERE id = 4' ],
	[ 'a row that is gone', 'DELETE FROM tasks WHERE id = 5' ],
	[ 'all of these', "UPDATE tasks SET account = '$elsewhere' WHERE id = 2; DELETE FROM tasks WHERE id = 5;
		UPDATE tasks SET account = NULL WHERE id = 3; UPDATE tasks SET least = id * id * id * id * 20, note = 'seen'" ]);
my @found = (
	'UPDATE tasks t SET note = a.name, done = t.done + 1 FROM @account a WHERE a.accountid = t.account AND a.numberofemployees >= t.least',
	'UPDATE tasks t SET note = a.name FROM @account a WHERE a.accountid = t.account AND a.numberofemployees >= t.least RETURNING t.*, a.name',
	'UPDATE tasks t SET note = coalesce(t.note, a.name) || a.numberofemployees FROM @account a WHERE a.name > \'\' AND a.accountid = t.account',
	'DELETE FROM tasks t USING @account a WHERE a.accountid = t.account AND a.numberofemployees >= t.least RETURNING t.id, a.name',
	'UPDATE tasks t SET note = a.name FROM others o JOIN @account a ON a.accountid = o.account WHERE o.id = t.id AND a.numberofemployees >= t.least',
	'UPDATE tasks t SET note = a.name, done = done + 1 FROM others o LEFT JOIN @account a ON a.accountid = o.account AND a.numberofemployees % 2 = 0
		WHERE o.id = t.id AND coalesce(a.numberofemployees, 50) >= t.least',
	'UPDATE tasks t SET note = p.name FROM @account a LEFT JOIN @account p ON p.accountid = a.parentaccountid
		WHERE a.accountid = t.account AND coalesce(p.numberofemployees, 0) + 1000 >= t.least',
	'UPDATE tasks t SET done = done + 1 FROM others o WHERE o.id = t.id AND t.account IN (SELECT accountid FROM @account WHERE numberofemployees > 100) AND t.least < 1000',
	'UPDATE tasks t SET done = done + 1 FROM others o WHERE o.id = t.id AND NOT EXISTS (SELECT FROM @account a WHERE a.accountid = t.account AND a.numberofemployees % 7 = 0) AND t.least < 1000');

for my $statement (@found)
{
	my $title = $statement =~ s/\s+/ /gr =~ s/@//gr;
	my $remote = $statement =~ s/@/dv./gr;

	like($other->query("EXPLAIN $remote"), qr/DataverseLookup/, "$title: by keys");
	for (@changes)
	{
		my ($what, $change) = @$_;
		my ($result, $left, $requests) = conflict($remote, $change);
		my ($wanted, $left_here) = conflict($statement =~ s/@/l./gr, $change);

		is($result, $wanted, "… $what: the same result");
		is($left, $left_here, '… and the same rows');
		is($requests, 0, '… without a request');
	}
}
is($session->value(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active' AND wait_event_type = 'Lock'}),
	0, 'no session waits any more');

# ---- random statements, and the same ones on local tables

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }

$crm->dvsim->control('POST', '/_dvsim/reset');
$crm->dvsim->control('POST', "/_dvsim/seed?table=$_") for 'account&rows=300', 'new_meter&rows=400';
my $columns = 'new_meterid, new_name, new_serial, new_number, new_kind, new_active, new_lastreading, new_installedon, new_checkedon, new_notes, new_accountid, new_parentid';
$session->query(
	qq{DROP TABLE l.new_meter, l.account;
	DO \$\$ DECLARE name text; BEGIN
		FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'dv.new_meter'::regclass AND attnum > 0 AND attname <> ALL (string_to_array('$columns', ', ')) LOOP
			EXECUTE format('ALTER FOREIGN TABLE dv.new_meter DROP %I', name);
		END LOOP;
	END \$\$;
	ANALYZE dv.new_meter; ANALYZE dv.account;
	CREATE TABLE l.new_meter AS SELECT $columns FROM dv.new_meter;
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, parentaccountid FROM dv.account;
	UPDATE pg_class SET reltuples = $many WHERE relnamespace = 'dv'::regnamespace;
	CREATE TABLE corrections AS SELECT row_number() OVER () AS n, m.*, md5(new_serial) AS text FROM l.new_meter m ORDER BY md5(new_serial) LIMIT 150;
	INSERT INTO corrections SELECT n + 1000, new_meterid, upper(new_name), lower(new_serial), new_number + 1, new_kind, NOT new_active, new_lastreading,
		new_installedon, new_checkedon, new_notes, new_accountid, new_parentid, text FROM corrections WHERE n % 5 = 0;
	INSERT INTO corrections SELECT n + 2000, new_meterid, new_name, new_serial, new_number, new_kind, new_active, new_lastreading,
		new_installedon, new_checkedon, new_notes, new_accountid, new_parentid, text FROM corrections WHERE n % 7 = 0;
	INSERT INTO corrections (n, new_meterid, new_serial) VALUES (5000, NULL, NULL), (5001, gen_random_uuid(), 'nobody'), (5002, NULL, ''), (5003, NULL, '  ');
	ANALYZE corrections; ANALYZE l.new_meter; ANALYZE l.account});

# Values of SET depend only on the row, since any one of several matching corrections may apply.
my @set = (
	'new_lastreading = coalesce(m.new_lastreading, 0) + 1',
	q{new_name = left('x' || m.new_name, 100)},
	q{new_serial = left('s' || m.new_serial, 40)},
	'new_active = NOT m.new_active, new_lastreading = coalesce(m.new_lastreading, 0) + 0.5',
	q{new_notes = left(m::text, 200)},
	'new_parentid = m.new_meterid',
	q{new_installedon = m.new_installedon + interval '1 hour'},
	q{new_lastreading = length(m.new_serial)});
my @on = (
	(map { "m.$_ = c.$_" } qw(new_meterid new_meterid new_serial new_serial new_number new_installedon new_checkedon new_lastreading new_accountid new_parentid)),
	'm.new_number = c.new_number + 1', q{m.new_serial = 's' || c.new_serial}, 'm.new_parentid = c.new_meterid', 'm.new_meterid = c.new_parentid');
my @further = (
	'c.n % 3 = 0', 'm.new_number > c.n', 'm.new_active', 'm.new_name > c.new_name', 'c.n < 60', 'length(m.new_name) > c.n % 20', 'm.new_kind = 100000001',
	'EXISTS (SELECT FROM @account a WHERE a.accountid = m.new_accountid)', 'c.new_accountid IN (SELECT accountid FROM @account WHERE numberofemployees > 500000)',
	'NOT EXISTS (SELECT FROM corrections d WHERE d.new_serial = m.new_serial AND d.n < 30)', q{m::text < 'x'}, 'm.new_notes IS NOT NULL');
my @from = (
	('corrections c') x 4,
	'(SELECT DISTINCT ON (new_meterid) * FROM corrections ORDER BY new_meterid, n) c',
	'corrections c JOIN @account o ON o.accountid = c.new_accountid',
	'corrections c LEFT JOIN @account o ON o.accountid = c.new_accountid AND o.numberofemployees > c.n',
	'(SELECT * FROM corrections OFFSET 10) c');

sub random_statement
{
	my $where = join ' AND ', pick(@on), map { pick(@further) } 1 .. int rand 3;
	my $from = pick(@from);
	my $returning = chance(0.3) ? ' RETURNING m.new_meterid, m.new_lastreading, m.new_name, m.new_serial' : '';

	return "DELETE FROM \@new_meter m USING $from WHERE $where AND c.n % 40 = " . int(rand 40) . $returning if chance(0.1);
	return "UPDATE corrections c SET text = md5(coalesce(text, '') || coalesce(c.n, 0)) FROM \@new_meter m WHERE $where" if chance(0.2);
	if (chance(0.1))
	{
		$where =~ s/\bc\./e./g;
		return 'UPDATE @new_meter m SET ' . pick(@set) . " WHERE EXISTS (SELECT FROM corrections e WHERE $where)$returning";
	}
	return 'UPDATE @new_meter m SET ' . pick(@set) . " FROM $from WHERE $where$returning";
}

my ($by_keys, $changed, $wrong) = (0, 0, 0);
my $digest = q{SELECT (SELECT count(*) || md5(string_agg(t::text, ',' ORDER BY t::text COLLATE "C")) FROM (SELECT %s FROM %s) t)};
my $of_corrections = sprintf $digest, '*', 'corrections';

$session->query('SET work_mem = ' . pick('64', '4096'));
for (1 .. $statements)
{
	my $statement = random_statement();
	my $local = $statement =~ s/@/l./gr;
	my $remote = $statement =~ s/@/dv./gr;
	my $generic = chance(0.2);
	my (@result, $r);

	my $plan = $session->query("EXPLAIN $remote");
	$by_keys++ if $plan =~ /DataverseLookup/;
	for ($local, $remote)
	{
		# corrections are changed twice, with the same result
		$session->query('BEGIN') if $statement =~ /^UPDATE corrections/;
		$session->query('SET plan_cache_mode = force_generic_plan') if $generic;
		$r = $session->try($generic ? "PREPARE p AS $_" : $_);
		$r = $session->try('EXECUTE p') if $generic;
		push @result, join "\n", $r->{message} // $r->{tag}, sort map { join '|', map { $_ // '' } @$_ } @{ $r->{rows} // [] };
		$session->query('DEALLOCATE p; RESET plan_cache_mode') if $generic;
		next unless $statement =~ /^UPDATE corrections/;
		$result[-1] .= $session->query($of_corrections);
		$session->query('ROLLBACK');
	}
	# as the service does when a referenced row is deleted
	$session->query('UPDATE l.new_meter m SET new_parentid = NULL WHERE NOT EXISTS (SELECT FROM l.new_meter p WHERE p.new_meterid = m.new_parentid)')
	  if $statement =~ /^DELETE/;
	push @{ $r->{states} }, map { $session->query(sprintf $digest, $columns, $_) } 'l.new_meter', 'dv.new_meter';
	$changed++ if $r->{tag} && $r->{tag} !~ / 0$/;
	next if $result[0] eq $result[1] && $r->{states}[0] eq $r->{states}[1];
	$wrong++;
	diag substr("$statement\n$plan\n$result[0]", 0, 2000), "\n", substr($result[1], 0, 1000) if $wrong <= 3;
	# the next statement begins with the same rows again
	$session->query("TRUNCATE l.new_meter; INSERT INTO l.new_meter SELECT $columns FROM dv.new_meter");
}
is($wrong, 0, "$statements random statements have the same effects on foreign and local tables");
cmp_ok($by_keys, '>', $statements / 2, "… more than half of them request keys ($by_keys)");
cmp_ok($changed, '>', $statements / 2, "… and change rows ($changed)");

$crm->stop;
done_testing;
