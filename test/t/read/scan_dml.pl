# scan_dml.pl
#		Statements that read what they write: they see each row once, as it was
#		before.  Also writes without reads, and rows that are rechecked because
#		another session has changed the rows they are joined with.
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

my $rows = 230;
my $page = 50;
my $crm = Crm->start('scan_dml');
my $since = 0;

# Returns the methods of requests since the last call, without tokens, in order, without repetitions.
sub methods
{
	my $log = $crm->dvsim->control('GET', "/_dvsim/requests?since=$since")->json;
	my @methods = map { $_->{method} } grep { $_->{kind} ne 'token' } @{ $log->{requests} };

	$since = $log->{next};
	return join ' ', map { $methods[$_] } grep { $_ == 0 || $methods[$_] ne $methods[ $_ - 1 ] } 0 .. $#methods;
}

# Returns the tag of a statement, such as "UPDATE 3".
sub tag
{
	my ($session, $sql) = @_;

	$session->start($sql);
	my $r = $session->finish;
	return $r->{message} // $r->{tag};
}

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page', ADD batch_size '10');
	CREATE TABLE before AS SELECT accountid, name, row_number() OVER (ORDER BY random())::int n FROM dv.account});
my $session = Session->new($crm->node);

# ---- each row once

methods();
is(tag($session, 'UPDATE dv.account a SET numberofemployees = n FROM before b WHERE a.accountid = b.accountid'),
	"UPDATE $rows", 'an update by ids from a table');
is(methods(), 'POST', 'reads nothing');
is(tag($session, 'UPDATE dv.account SET numberofemployees = numberofemployees + 1000000 WHERE numberofemployees < 1000000'),
	"UPDATE $rows", 'an update that moves rows out of its own condition, over several pages');
is(methods(), 'GET POST', 'reads everything before it writes');
is($crm->sql('SELECT count(*) FROM before JOIN dv.account a USING (accountid) WHERE a.numberofemployees = n + 1000000'),
	$rows, 'each row was updated once');
is(tag($session, 'UPDATE dv.account SET numberofemployees = numberofemployees + 1 WHERE numberofemployees >= 1000000'),
	"UPDATE $rows", 'an update that leaves rows in its condition');
is($crm->sql('SELECT count(*) FROM before JOIN dv.account a USING (accountid) WHERE a.numberofemployees = n + 1000001'),
	$rows, 'each row was updated once');
is(tag($session, 'UPDATE dv.account a SET numberofemployees = b.n FROM before b WHERE a.name = b.name AND a.accountid = b.accountid'),
	"UPDATE $rows", 'an update by a join');
is(tag($session, q{INSERT INTO dv.account (name) SELECT 'copy of ' || name FROM dv.account}),
	"INSERT 0 $rows", 'rows inserted from their own table');
is($crm->sql('SELECT count(*) FROM dv.account'), 2 * $rows, 'the number of rows doubles');
is( $session->value(
		q{WITH w AS (INSERT INTO dv.account (name) SELECT 'new' FROM generate_series(1, 20) RETURNING createdon)
		SELECT (SELECT count(*) FROM w) || ' ' || (SELECT count(*) FROM dv.account) || ' ' || (SELECT count(name) FROM dv.account)}),
	'20 ' . 2 * $rows . ' ' . 2 * $rows,
	'rows inserted by a common table expression are not read by its statement');
is($session->value(q{SELECT count(*) FROM dv.account WHERE name = 'new'}), 20, 'but by the next one');
is(tag($session, q{UPDATE dv.account a SET description = coalesce((SELECT max(b.description) FROM dv.account b WHERE b.name = a.name), '') || 'x'
	WHERE name = 'new'}), 'UPDATE 20', 'an update from a subquery on its own table');
is($session->value(q{SELECT count(*) FROM dv.account WHERE name = 'new' AND description = 'x'}), 20,
	'which saw no updated row');
$session->query(q{CREATE TEMP TABLE steps AS SELECT n FROM generate_series(1, 30) n; ANALYZE steps;
	SET enable_hashjoin = off; SET enable_mergejoin = off});
is(tag($session, q{UPDATE dv.account a SET numberofemployees = numberofemployees + 1 FROM steps WHERE numberofemployees = steps.n}),
	'UPDATE 30', 'a join with the updated table');
is($session->value('SELECT count(*) FROM dv.account a JOIN before b USING (accountid) WHERE numberofemployees = b.n + (b.n <= 30)::int'),
	$rows, 'which saw no row again at its new position');
$session->query('RESET enable_hashjoin; RESET enable_mergejoin');
$session->query('UPDATE dv.account a SET numberofemployees = n FROM before b WHERE a.accountid = b.accountid');
is(tag($session, q{DELETE FROM dv.account a USING dv.account b WHERE a.name = 'copy of ' || b.name AND b.name NOT LIKE 'copy of %'}) =~ s/\d+/N/r,
	'DELETE N', 'a join of the table with itself');
is($session->value(q{SELECT count(*) FROM dv.account WHERE name LIKE 'copy of %'}), 0, 'which found all rows');
is(tag($session, q{DELETE FROM dv.account WHERE name = 'new'}), 'DELETE 20', 'rows are deleted');

# ---- unneeded columns are not read, and keep their values

$session->query(q{UPDATE dv.account SET description = 'some text'});
methods();
is(tag($session, q{UPDATE dv.account SET name = upper(name)}), "UPDATE $rows", 'names in uppercase');
is($session->value(q{SELECT count(*) FROM dv.account a JOIN before b USING (accountid)
	WHERE a.name = upper(b.name) AND a.description = 'some text' AND a.numberofemployees = b.n}), $rows,
	'and nothing else differs');

# ---- given keys

$session->query(q{CREATE TEMP TABLE picked AS SELECT accountid AS id, n FROM before ORDER BY name LIMIT 30; ANALYZE picked});
methods();
is(tag($session, q{UPDATE dv.account SET numberofemployees = 700000 FROM picked WHERE accountid = id}), 'UPDATE 30',
	'an update by some ids');
is(methods(), 'POST', 'reads nothing');
my ($id) = $session->value('SELECT id FROM picked LIMIT 1');
my $none = '00000000-0000-0000-0000-00000000dead';
is(tag($session, "UPDATE dv.account SET numberofemployees = 8 WHERE accountid = '$id'"), 'UPDATE 1', 'by one id');
is(tag($session, "DELETE FROM dv.account WHERE accountid = ANY (ARRAY['$id', NULL, '$none', '$id']::uuid[])"), 'DELETE 1',
	'by several ids of which one exists, named twice');
unlike(methods(), qr/GET/, 'reads nothing');
is(tag($session, "UPDATE dv.account SET numberofemployees = 9 WHERE accountid = '$none'"), 'UPDATE 0', 'by an id that does not exist');
is($session->value('SELECT count(*) FROM dv.account WHERE numberofemployees = 700000'), 29, 'the other rows are as expected');

# ---- rechecks

my $big = $session->value('SELECT accountid FROM dv.account ORDER BY createdon, accountid LIMIT 1');
my $small = $session->value('SELECT accountid FROM dv.account ORDER BY createdon, accountid OFFSET 1 LIMIT 1');
my $other = Session->new($crm->node);

$session->query(
	qq{UPDATE dv.account SET numberofemployees = 5000 WHERE accountid = '$big';
	UPDATE dv.account SET numberofemployees = 5 WHERE accountid = '$small';
	CREATE TABLE tasks (id int, account uuid, least int);
	INSERT INTO tasks SELECT n, '$big', 1000 FROM generate_series(1, 3) n;
	ANALYZE tasks});
my $looked_at = q{SELECT t.id FROM tasks t JOIN dv.account a ON a.accountid = t.account AND a.numberofemployees > 1000
	WHERE a.numberofemployees >= t.least ORDER BY t.id FOR UPDATE OF t};

# Returns the result of another session if the tasks change while it waits for them.
sub looks_again
{
	my ($change) = @_;

	$session->query('BEGIN');
	$session->query($change);
	$other->start($looked_at);
	$crm->node->poll_query_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = ' . $other->pid . " AND wait_event_type = 'Lock'")
	  or die 'does not wait';
	$session->query('COMMIT');
	my $r = $other->finish;
	return $r->{message} // join ' ', map { $_->[0] } @{ $r->{rows} };
}

for my $settings (
	'SET enable_hashjoin = on; SET enable_nestloop = off; SET enable_mergejoin = off',
	'SET enable_nestloop = on; SET enable_hashjoin = off; SET enable_mergejoin = off')
{
	my ($how) = $settings =~ /enable_(\w+) = on/;

	$session->query("UPDATE tasks SET account = '$big', least = 1000");
	$other->query($settings);
	like(join("\n", $other->query("EXPLAIN (VERBOSE) $looked_at")), qr/accountid eq :\d/, "$how: with a parameter")
	  if $how eq 'nestloop';
	is(looks_again('UPDATE tasks SET least = least + 1 WHERE id = 1'), '1 2 3',
		"$how: a row that still matches is kept");
	is(looks_again("UPDATE tasks SET account = '$small', least = 1 WHERE id = 2"), '1 3',
		"$how: a row that is now joined with another row is not");
	is(looks_again('UPDATE tasks SET least = 6000 WHERE id = 3'), '1',
		"$how: nor is a row that no longer meets the condition");
}

$crm->stop;
done_testing;
