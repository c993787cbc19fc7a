# ctid.pl
#		The ctid of rows of the service: another cluster reads and writes them
#		through postgres_fdw, which identifies rows by ctid alone; the use of a ctid
#		in another session; the number of rows that a session remembers; and local
#		rows that change while a statement waits for them.
#
# ROUNDS sets the number of random statements of the gateway (default 40), and
# SEED the seed (default: the time; it is printed).
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Session;

my $seed = $ENV{SEED} // time;
my $rows = 60;
my $crm = Crm->start('ctid');

srand $seed;
diag "SEED=$seed";

$crm->sql(
	q{CREATE FOREIGN TABLE account (accountid uuid, name varchar(160), employees integer OPTIONS ("column" 'numberofemployees'))
	    SERVER crm OPTIONS (entity_set 'accounts')});

# Recreates the rows of the service.
sub fill
{
	my ($n) = @_;

	$crm->sql('DELETE FROM account');
	$crm->sql("INSERT INTO account (name, employees) SELECT 'a' || n, n % 7 FROM generate_series(1, $n) n");
	return;
}

sub contents { return $crm->sql(q{SELECT string_agg(name || '=' || employees, ' ' ORDER BY name) FROM account}); }

#
# A gateway
#

# A cluster whose foreign table refers to that of the first cluster, and a local table with the same rows.
sub gateway
{
	my $node = PostgreSQL::Test::Cluster->new('gateway');
	my ($host, $port) = ($crm->node->host, $crm->node->port);

	$node->init;
	$node->start;
	$node->safe_psql('postgres',
		"CREATE EXTENSION postgres_fdw;
		 CREATE SERVER first FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres', fetch_size '7');
		 CREATE USER MAPPING FOR CURRENT_USER SERVER first;
		 IMPORT FOREIGN SCHEMA public LIMIT TO (account) FROM SERVER first INTO public;
		 CREATE FUNCTION plus(integer, integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN \$1 + \$2; END';
		 CREATE TABLE keys AS SELECT 'a' || n AS name, n % 5 AS k FROM generate_series(1, $rows, 2) n;
		 CREATE TABLE model (accountid uuid, name varchar(160), employees integer)");
	return $node;
}

sub refill
{
	my ($session) = @_;

	fill($rows);
	$session->query('TRUNCATE model');
	$session->query('INSERT INTO model SELECT * FROM account');
	return;
}

# Runs a statement on the service and on the local table; @ stands for either.
sub same
{
	my ($session, $statement) = @_;
	my ($remote, $local) = map { $session->try($statement =~ s/@/$_/gr) } 'account', 'model';
	my $told = sub { $_[0]{message} // join ' ', $_[0]{tag}, sort map { join ',', @$_ } @{ $_[0]{rows} // [] } };
	my $model = $session->value(q{SELECT string_agg(name || '=' || employees, ' ' ORDER BY name) FROM model});

	is($told->($remote), $told->($local), "$statement: the result");
	is(contents(), $model // '', '… and the rows');
	return;
}

# Statements that postgres_fdw cannot push down.
my @indirect = (
	'DELETE FROM @ WHERE plus(employees, 0) = 3',
	'UPDATE @ SET employees = plus(employees, 10) WHERE name LIKE \'a1%\'',
	'UPDATE @ t SET employees = k.k + 100 FROM keys k WHERE k.name = t.name',
	'DELETE FROM @ t USING keys k WHERE k.name = t.name AND k.k = 2 RETURNING t.name, k.k',
	'UPDATE @ SET name = name || \'x\' WHERE plus(employees, 0) % 2 = 1 RETURNING name, employees',
	'DELETE FROM @ WHERE name IN (SELECT name FROM @ ORDER BY name LIMIT 5)',
	'DELETE FROM @ WHERE ctid = ANY (ARRAY(SELECT ctid FROM @ WHERE employees > 100 ORDER BY name LIMIT 3))',
	'DELETE FROM @ a USING @ b WHERE a.ctid = b.ctid AND plus(b.employees, 0) = 4',
	'UPDATE @ SET employees = plus(employees, 1)',
	'DELETE FROM @ WHERE plus(employees, 0) IS NOT NULL');

sub random_statement
{
	my $n = int rand 20;
	my $where = ("plus(employees, 0) % 5 = " . $n % 5, "name IN (SELECT name FROM keys WHERE k = " . $n % 5 . ")",
		"name LIKE '%$n' AND plus(employees, 0) IS NOT NULL",
		"ctid IN (SELECT ctid FROM @ WHERE employees % 7 = " . $n % 7 . ")",
		"accountid = ANY (ARRAY(SELECT accountid FROM @ ORDER BY name LIMIT $n)) AND plus(employees, 0) > 0")[rand 5];

	return ("DELETE FROM @ WHERE $where", "UPDATE @ SET employees = plus(employees, $n) WHERE $where RETURNING name, employees",
		"UPDATE @ SET employees = employees + $n WHERE $where", "UPDATE @ SET name = name || '/$n' WHERE $where")[rand 4];
}

SKIP:
{
	skip 'no postgres_fdw', 1
	  if $crm->sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") == 0;
	my $node = gateway();
	my $session = Session->new($node);

	refill($session);
	like($session->query('EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM account WHERE plus(employees, 0) = 3'),
		qr/Remote SQL: DELETE FROM public\.account WHERE ctid = \$1/, 'the gateway identifies rows by ctid');
	same($session, $_) for @indirect;
	for my $round (1 .. $ENV{ROUNDS} // 40)
	{
		refill($session) if $round % 10 == 1;
		same($session, random_statement());
	}

	# two sessions of the gateway, whose rows have different numbers in the first cluster
	my $other = Session->new($node);

	refill($session);
	$session->start("UPDATE account SET employees = plus(employees, 1000) WHERE name LIKE '%1'");
	$other->start("UPDATE account SET employees = plus(employees, 2000) WHERE name LIKE '%2'");
	is($_->finish->{tag}, 'UPDATE 6', 'two sessions at a time') for $session, $other;
	is($crm->sql("SELECT string_agg(DISTINCT right(name, 1) || ' ' || employees / 1000, ', ') FROM account WHERE employees >= 1000"),
		'1 1, 2 2', 'each has updated its own rows');

	# a ctid that the gateway has kept beyond the end of its connection
	my $place = $session->value("SELECT ctid FROM account WHERE name = 'a1'");

	$session->query('SELECT postgres_fdw_disconnect_all()');
	like($session->try("DELETE FROM account WHERE ctid = '$place'")->{message}, qr/^ctid .* is not known to this session$/,
		'an old ctid is refused');
	is($crm->sql('SELECT count(*) FROM account'), $rows, '… and nothing is deleted');
}

#
# Other sessions
#

fill(20);
my @session = map { Session->new($crm->node) } 1 .. 4;
my @places = map { [ split /\n/, $_->query('SELECT ctid FROM account ORDER BY name') ] } @session;
my %seen;

$seen{$_}++ for map { @$_ } @places;
is(scalar keys %seen, 20 * @session, 'no two sessions generate the same ctid');
for my $i (0 .. $#session)
{
	my $list = join ',', map { qq{"$_"} } @{ $places[ ($i + 1) % @session ] }[ 0 .. 4 ];

	like($session[$i]->try("DELETE FROM account WHERE ctid = ANY ('{$list}')")->{message},
		qr/is not known to this session/, 'the ctid of another session is refused');
}
is($crm->sql('SELECT count(*) FROM account'), 20, 'no row has been deleted');
is($session[0]->try("DELETE FROM account WHERE ctid = '$places[0][3]'")->{tag}, 'DELETE 1', 'a session knows its own ctids');

#
# A local row that changes while a statement waits for it
#

$crm->sql('CREATE TABLE local (id uuid, place tid, n integer)');
$session[0]->query('INSERT INTO local SELECT accountid, ctid, 0 FROM account');
for my $case (
	[ 'UPDATE local l SET n = n + 10 FROM account a WHERE a.ctid = l.place', 19, '11' ],
	[ 'UPDATE local l SET n = n + 10 FROM account a WHERE a.accountid = l.id AND a.ctid = l.place', 19, '11' ],
	[ 'UPDATE local l SET n = n + 10 FROM account a WHERE a.ctid = l.place AND a.name = ANY (ARRAY(SELECT name FROM account))', 19, '11' ],
	[ 'UPDATE local l SET n = n + 10 FROM account a WHERE a.accountid = l.id AND a.ctid <> l.place', 0, '1' ])
{
	my ($statement, $updated, $n) = @$case;

	$crm->sql('UPDATE local SET n = 0');
	$session[1]->query('BEGIN');
	$session[1]->query('UPDATE local SET n = 1');
	$session[0]->start($statement);
	$crm->node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = @{[ $session[0]->pid ]} AND wait_event_type = 'Lock'")
	  if $updated > 0;
	$session[1]->query('COMMIT');
	is($session[0]->finish->{tag}, "UPDATE $updated", $statement);
	is($crm->sql('SELECT DISTINCT n FROM local'), $n, '… of rows that another session has changed meanwhile');
}

#
# How many rows a session knows
#

my $crowd = Session->new($crm->node);
my $most = 1 << 20;

$crm->dvsim->control('POST', '/_dvsim/seed?table=contact&rows=' . ($most / 8 + 1000));
$crm->sql(qq{CREATE FOREIGN TABLE contact_$_ (contactid uuid, lastname text) SERVER crm OPTIONS ("table" 'contact', entity_set 'contacts')})
  for 1 .. 8;
is($crowd->value("SELECT count(ctid) FROM contact_$_"), $most / 8 + 1000, "table $_ of the crowd") for 1 .. 4;
cmp_ok(
	$crowd->value("SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'dataverse ctids'"),
	'<', 70_000_000, 'the number of remembered rows is bounded');
my $first = $crowd->value('SELECT ctid FROM account LIMIT 1');

cmp_ok(
	$crowd->value("SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'dataverse ctids'"),
	'<', 1_000_000, 'they are forgotten when another query begins');
is($crowd->try("SELECT name FROM account WHERE ctid = '$first'")->{tag}, 'SELECT 1', '… whose rows are remembered');
like(
	$crowd->try('SELECT count(ctid) FROM (' . join(' UNION ALL ', map { "SELECT ctid FROM contact_$_" } 1 .. 8) . ') u')->{message},
	qr/^too many rows of foreign tables with a ctid$/, 'more rows than can be remembered are an error');

done_testing();
