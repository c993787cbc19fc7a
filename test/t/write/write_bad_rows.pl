# write_bad_rows.pl
#		Rows that the service refuses, among others that it accepts, while requests
#		are throttled and answers are lost and truncated: each bad row is refused
#		once, each good row is written once, and the counts are correct.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('write_bad_rows', users => 2);
my $n = 400;
my $go_on = "SET dataverse_fdw.on_error = 'continue'";
my $busy = { status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit.', retry_after => 0 };
my $deadlock = 'Generic SQL error. CRM ErrorCode: -2147204784 Sql ErrorCode: -2146232060 Sql Number: 1205';

# all faults at once, on everything that writes; few of each, so that waits do not dominate the test
my @faults = map { { times => 3, method => 'POST', path => '/api/data/', %$_ } } (
	{ action => 'reset_after_commit', every => 5 },
	{ action => 'reset_before_commit', every => 7 },
	{ action => 'truncate', every => 6 },
	{ action => 'garble', every => 11 },
	{ status => 503, every => 13 },
	{ status => 400, code => '0x80044150', message => $deadlock, every => 9 },
	{ %$busy, every => 8 });
my @in_parts = ({ %$busy, path => '$batch', batch_part => 2, every => 3, times => 3 },
	{ status => 500, path => '$batch', batch_part => 4, every => 4, times => 2 });

sub run
{
	my ($what, $sql, %how) = @_;
	my $result;

	$w->watcher->query('TRUNCATE dataverse_private.rejected_rows');
	faults($w->dvsim, @faults, @{ $how{more} // [] });
	$result = $w->run($sql, settings => [ $how{abort} ? () : $go_on, 'SET dataverse_fdw.batch_size = 20', @{ $how{settings} // [] } ]);
	cmp_ok(hits($w->dvsim), '>', 5, "$what: faults") if $how{tag};
	clear_faults($w->dvsim);
	is($result->{sqlstate}, undef, "$what: succeeds") || diag("$result->{message}\n" . ($result->{detail} // ''))
	  if $how{tag};
	is($result->{tag}, $how{tag}, "$what: its tag");
	# some were created before the update that completes them was refused
	my $told = 0;
	$told += $_->{message} =~ /^(\d+) rows? (?:was|were) (?:refused|written, but)/ ? $1 : 0 for @{ $result->{notices} };
	is($told, $how{refused} // 0, "$what: rows refused");
	is($w->watcher->query('SELECT count(*), count(DISTINCT row_number) FROM dataverse.rejects'),
		join('|', ($how{refused} // 0) x 2), "$what: each of them is filed, once");
	return $result;
}

# ---------------------------------------------------------------- standard tables

# every tenth serial is taken
sub take_serials
{
	$w->reset;
	$w->watcher->query("INSERT INTO dv.new_meter (new_name, new_serial) SELECT 'taken', 'S' || n FROM generate_series(7, $n, 10) n");
	return;
}

sub free_serials
{
	is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name = 'taken'"), $n / 10, 'existing rows are unchanged');
	$w->watcher->query("DELETE FROM dv.new_meter WHERE new_name = 'taken'");
	return;
}

my @columns = ('new_number, new_name, new_lastreading, new_serial', "n, 'row ' || n || ' of 1', n + 1 * 0.1, 'S' || n");
my $bad = $n / 10;
my $good = $n - $bad;

for my $given (0, 1)
{
	my $what = 'INSERT' . ($given ? ' with ids' : '');

	take_serials();
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 10 });
	run($what,
		"INSERT INTO dv.new_meter ($columns[0]" . ($given ? ', new_meterid' : '') . ") SELECT $columns[1]"
		  . ($given ? ', md5(n::text)::uuid' : '') . " FROM generate_series(1, $n) n",
		tag => "INSERT 0 $good", refused => $bad, more => \@in_parts);
	free_serials();
	$w->is_whole('standard', $what, upto => $n, where => 'N % 10 <> 7', given => $given);
}

# the state of every tenth row cannot be set
$w->reset;
run('INSERT of inactive rows',
	"INSERT INTO dv.new_meter (new_number, new_name, statecode, statuscode)
	 SELECT n, 'x', 1, CASE WHEN n % 10 = 7 THEN 77 ELSE 2 END FROM generate_series(1, $n) n",
	tag => "INSERT 0 $good", refused => $bad);
is($w->watcher->query('SELECT statecode, statuscode, count(*), count(DISTINCT new_number), bool_or(new_number % 10 = 7) FROM dv.new_meter GROUP BY 1, 2 ORDER BY 1'),
	"0|1|$bad|$bad|t\n1|2|$good|$good|f", '... all exist, once');

# duplicate serials again
take_serials();
$w->watcher->query("INSERT INTO dv.new_meter (new_number, new_name, new_lastreading) SELECT n, 'old', 0 FROM generate_series(1, $n) n");
run('UPDATE',
	"UPDATE dv.new_meter SET new_serial = 'S' || new_number, new_name = 'row ' || new_number || ' of 1', new_lastreading = new_number + 1 * 0.1
	 WHERE new_name = 'old'",
	tag => "UPDATE $good", refused => $bad, more => \@in_parts);
free_serials();
is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name = 'old' AND new_number % 10 = 7"), $bad, '... bad rows are unchanged');
is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name = 'row ' || new_number || ' of 1' AND new_serial = 'S' || new_number AND new_number % 10 <> 7"),
	$good, '... good rows are updated');

# lookups without a target; half of the rows exist
$w->reset;
$w->watcher->query("INSERT INTO dv.new_meter (new_number, new_name, new_serial) SELECT n, 'old', 'S' || n FROM generate_series(1, $n / 2) n");
run('upsert by key',
	"INSERT INTO by_key.new_meter (new_number, new_name, new_lastreading, new_serial, new_accountid)
	 SELECT $columns[1], CASE WHEN n % 10 = 7 THEN md5('nobody')::uuid END FROM generate_series(1, $n) n",
	tag => "INSERT 0 $good", refused => $bad, more => \@in_parts,
	settings => ["SET dataverse_fdw.insert_mode = 'upsert'"]);
is($w->watcher->query("SELECT new_name = 'old', count(*), count(DISTINCT new_serial) FROM dv.new_meter GROUP BY 1 ORDER BY 1"),
	"f|$good|$good\nt|" . $bad / 2 . '|' . $bad / 2, '... each once, bad ones unchanged');

# meters that are in use cannot be deleted
$w->watcher->query('IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes, account, contact, new_account_contact) FROM SERVER crm INTO dv');
$w->reset;
$w->fill('standard', $n);
$w->watcher->query("INSERT INTO dv.new_alltypes (new_name, new_meterid) SELECT n::text, md5(n::text)::uuid FROM generate_series(7, $n, 10) n");
run('DELETE', 'DELETE FROM dv.new_meter', tag => "DELETE $good", refused => $bad, more => \@in_parts);
$w->is_whole('standard', '... bad rows', upto => $n, where => 'N % 10 = 7', given => 1);

# ---------------------------------------------------------------- other kinds of tables

# existing ids
$w->reset;
$w->fill('elastic', $n, where => 'n % 10 = 7');
$w->dvsim->control('POST', '/_dvsim/clock', { advance => 10 });
run('elastic INSERT', $w->insert('elastic', 2, $n, given => 1), tag => "INSERT 0 $good", refused => $bad);
$w->is_whole('elastic', '...', upto => $n, given => 1, generation => 'CASE WHEN N % 10 = 7 THEN 1 ELSE 2 END');

# pairs, some of which exist, and some of which have only one end
$w->reset;
$w->watcher->query("INSERT INTO dv.account (accountid, name) SELECT md5(n::text)::uuid, n::text FROM generate_series(1, 30) n");
$w->watcher->query("INSERT INTO dv.contact (contactid, lastname) SELECT md5('c' || n)::uuid, n::text FROM generate_series(1, 9) n");
run('pairs',
	"INSERT INTO dv.new_account_contact (accountid, contactid)
	 SELECT md5(a::text)::uuid, md5('c' || c)::uuid FROM generate_series(1, 30) a, generate_series(1, 10) c",
	tag => 'INSERT 0 270', refused => 30, more => \@in_parts);
is($w->watcher->query('SELECT count(*), count(DISTINCT (accountid, contactid)) FROM dv.new_account_contact'), '270|270', '... each once');
run('pairs that go', 'DELETE FROM dv.new_account_contact', tag => 'DELETE 270', more => \@in_parts);
is($w->watcher->value('SELECT count(*) FROM dv.new_account_contact'), 0, '... all');

# ---------------------------------------------------------------- abort

# the first bad row ends the statement, and the WARNING reports which rows have been written
take_serials();
my $r = run('abort', "INSERT INTO dv.new_meter ($columns[0]) SELECT $columns[1] FROM generate_series(1, $n) n", abort => 1);
is($r->{sqlstate}, '23505', 'abort: a duplicate');
my ($stay, $doubt) = (0, 0);
for (@{ $r->{notices} })
{
	$stay = $1 if $_->{message} =~ /but (\d+) rows? written/;
	$doubt = $1 if "$_->{message} " . ($_->{detail} // '') =~ /(\d+) (?:more )?rows? (?:was|were) sent (?:to Dataverse )?without/;
}
my $there = $w->rows_there('standard') - $bad;
ok($there >= $stay && $there <= $stay + $doubt, "abort: $there rows exist, $stay reported, $doubt in doubt");

# savepoints
$w->reset;
my $session = $w->session;
my @told;

$session->query('BEGIN');
for my $sql (
	$w->insert('standard', 1, 100), 'SAVEPOINT a', $w->insert('standard', 1, 50), 'SAVEPOINT b',
	$w->insert('standard', 1, 20), 'RELEASE b', 'SAVEPOINT c', $w->insert('standard', 1, 7), 'ROLLBACK TO c', 'ROLLBACK TO a',
	$w->insert('standard', 1, 3), 'ROLLBACK')
{
	push @told, map { $_->{message} =~ /but (\d+) rows?/ } @{ $session->try($sql)->{notices} };
}
is("@told", '7 70 103', 'savepoints: the written rows of each');
is($session->value("SELECT count(*) FROM dv.new_meter"), 180, '... are kept');

# an error that is caught while requests are in flight, and another statement after it
$session->query("DO \$\$ BEGIN
	BEGIN
		INSERT INTO dv.new_meter (new_number) SELECT 1 / (500 - n) FROM generate_series(1, 1000) n;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	INSERT INTO dv.new_meter (new_name) SELECT 'after' FROM generate_series(1, 120);
END \$\$");
is($session->value("SELECT count(*) FROM dv.new_meter WHERE new_name = 'after'"), 120, 'after a caught error');
is(in_flight($w->watcher), 0, '... no slot is held');
$session->close;

$w->stop;
done_testing();
