# long_queries.pl
#		Queries whose conditions are longer than a request may be, and lists that
#		take more requests than the table has pages: the answers are those of a
#		copy of the table, and no request is too long.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $rows = 1200;
my $page = 300;
my $crm = Crm->start('long');

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, new_reading) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page');
	UPDATE dv.account SET description = repeat('long ', 300) || accountnumber WHERE numberofemployees % 7 = 0;
	CREATE SCHEMA l;
	CREATE TABLE l.account AS SELECT * FROM dv.account;
	INSERT INTO dv.new_reading (new_name, partitionid) SELECT 'r' || i, 'p' || i % 2 FROM generate_series(1, 20) i;
	CREATE TABLE l.new_reading AS SELECT new_readingid, new_name, partitionid FROM dv.new_reading;
	ANALYZE l.account});

my $in_batches = 0;

sub requests { return $crm->requests; }

# Asks a question about {tables} on both sides; returns the requests.
sub agrees
{
	my ($title, $script, $check) = @_;
	my @answers;
	my ($out, $err, @sent);

	for my $schema (qw(l dv))
	{
		requests();
		$crm->node->psql('postgres', $script =~ s/\{(\w+)\}/$schema.$1/gr, stdout => \$out, stderr => \$err);
		push @answers, $out;
		@sent = requests();
		is(substr($err, 0, 300), '', "$title: no error ($schema)");
	}
	ok($answers[0] eq $answers[1], '… and the same answer') or diag substr($answers[1], 0, 300), "\ninstead of\n", substr($answers[0], 0, 300);
	is(scalar(grep { length($_->{target}) > 32_768 || length($_->{body} // '') > 66_000 } @sent), 0, '… with requests of bounded length');
	# except for links to further pages, which the service generates
	my @queries = grep { !/skiptoken/ } map { ($_->{body} // '') =~ m{^GET \S*?/api/data/v9\.2/(\S+) HTTP}m } @sent;
	$in_batches += @queries;
	is(scalar(grep { length > 50_000 } @queries), 0, '… and of queries');
	$check->(@sent) if $check;
	return;
}

sub is_asked { my ($what, $n) = @_; return sub { is(scalar @_, $n, "… and $n requests: $what"); } }

my $columns = 'count(*), count(DISTINCT accountid), sum(hashtext(accountid::text)), min(numberofemployees)';
my ($known, $other) = split /\n/, $crm->sql('SELECT description FROM l.account WHERE description LIKE \'long%\' ORDER BY 1 LIMIT 2');
my @long = map { ('x' x 700) . $_ } 1 .. 150;
my $q = sub { return "'" . ($_[0] =~ s/'/''/gr) . "'" };
my $ors = sub { my ($form, @values) = @_; return join ' OR ', map { sprintf $form, $q->($_) } @values };

# ---- constants

agrees('texts', "SELECT $columns FROM {account} WHERE " . $ors->('description = %s', @long, $known));
agrees('texts beside what fits', "SELECT $columns FROM {account} WHERE numberofemployees > 100000 AND (" . $ors->('description = %s', @long, $known, $other) . ')',
	sub { is(scalar(grep { $_->{target} !~ /numberofemployees%20gt%20100000/ } @_), 0, '… which is sent'); });
agrees('patterns', "SELECT $columns FROM {account} WHERE " . $ors->('description LIKE %s', map { "%$_%" } @long, substr($known, 20)));
agrees('negated patterns', "SELECT $columns FROM {account} WHERE NOT (" . $ors->('description LIKE %s', map { "%$_%" } @long, substr($known, 20)) . ')');
agrees('starts', "SELECT $columns FROM {account} WHERE " . $ors->('starts_with(description, %s)', @long, substr($known, 0, 1400)));
agrees('letters that take nine bytes', "SELECT $columns FROM {account} WHERE " . $ors->('name = %s', (map { ("\x{e4}\x{20ac}" x 40) . $_ } 1 .. 120), 'Alpine Bikes 931'));
agrees('wildcards that take nine bytes', "SELECT $columns FROM {account} WHERE " . $ors->('name LIKE %s', map { '\%\_[' x 100 . "$_%" } 1 .. 60));
agrees('a list of texts', "SELECT $columns FROM {account} WHERE description IN (" . join(',', map { $q->($_) } @long, $known) . ')');
agrees('a list that fits In', "SELECT $columns FROM {account} WHERE telephone1 IN (" . join(',', map { $q->($_) } map { 'y' x 400 . $_ } 1 .. 180) . ')');
agrees('alternatives', "SELECT $columns FROM {account} WHERE " . join ' OR ', map { "(name = " . $q->($long[$_]) . " AND numberofemployees = $_)" } 0 .. 100);
agrees('LIMIT', "SELECT count(*) FROM (SELECT FROM {account} WHERE " . $ors->('description = %s', @long, $known) . ' LIMIT 5) x');
agrees('an order', "SELECT numberofemployees FROM {account} WHERE " . $ors->('description <> %s', @long[ 0 .. 40 ]) . ' ORDER BY numberofemployees DESC LIMIT 7');

# exact conditions stay exact: counts and limits are still pushed down
my $numbers = join ' OR ', map { "numberofemployees = $_" } 1 .. 400;
my $ranges = join ' OR ', map { "createdon BETWEEN '2001-01-01 00:00:" . sprintf('%02d', $_ % 60) . "' AND '2002-01-01'" } 1 .. 240;

agrees('a count of many numbers', "SELECT count(*) FROM {account} WHERE $numbers OR numberofemployees > 1000000", is_asked('a count', 1));
agrees('a count of many times', "SELECT count(*) FROM {account} WHERE $ranges OR numberofemployees > 1000000");
agrees('a limit', "SELECT count(*) FROM (SELECT FROM {account} WHERE $numbers OR creditonhold LIMIT 3) x");

# ---- values that are known when the scan begins

my @names = split /\n/, $crm->sql('SELECT name FROM l.account WHERE numberofemployees % 3 = 0');
my $parameters = join ', ', map { "repeat('x', 900) || $_" } 1 .. 60;
my $types = join ', ', ('text') x 60;
for my $mode (qw(force_generic_plan force_custom_plan))
{
	for my $form ('description = $%d', 'description LIKE $%d', 'starts_with(description, $%d)', '(description = $%d AND numberofemployees > 0)')
	{
		my $condition = join ' OR ', map { sprintf $form, $_ } 1 .. 60;

		agrees("$mode, $form", "SET plan_cache_mode = $mode; PREPARE p ($types) AS SELECT $columns FROM {account} WHERE numberofemployees > 5000 AND ($condition OR revenue > 1000); EXECUTE p ($parameters)",
			sub { is(scalar(grep { !/numberofemployees%20gt%205000/ } map { $_->{target} . ($_->{body} // '') } @_), 0, '… and the part that fits is sent'); });
		agrees("$mode, $form, all of them", "SET plan_cache_mode = $mode; PREPARE p ($types) AS SELECT count(*) FROM {account} WHERE " . join(' AND ', map { sprintf "NOT coalesce($form, false)", $_ } 1 .. 60) . "; EXECUTE p ($parameters)");
	}
	agrees("$mode, a list and texts", "SET plan_cache_mode = $mode; PREPARE p (text[], text[]) AS SELECT $columns FROM {account} WHERE name = ANY (\$1) AND (description = ANY (\$2) OR revenue > 0); EXECUTE p ("
		  . 'ARRAY[' . join(',', (map { $q->('n' x 600 . $_) } 1 .. 300), map { $q->($_) } @names) . '], ARRAY[' . join(',', map { $q->('d' x 900 . $_) } 1 .. 90) . '])');
}
# the estimate for a list of unknown length is too low
agrees('a list that fits only without the other conditions', "SET plan_cache_mode = force_generic_plan; PREPARE p (text[]) AS SELECT count(x), min(name) FROM {account} x WHERE name = ANY (\$1) AND ("
	  . join(' OR ', 'numberofemployees > 5000', map { sprintf "overriddencreatedon BETWEEN '2001-01-01 00:%02d:%02d' AND '2002-01-01'", $_ / 60, $_ % 60 } 1 .. 190) . ') AND numberofemployees % 1 = 0; EXECUTE p (ARRAY[' . join(',', $q->($names[0]), map { $q->('n' x 190 . $_) } 101 .. 237) . '])',
	sub { my @paths = map { ($_->{body} // '') =~ m{^GET \S+?/api/data/v9\.2/(\S+)}mg } @_;
		is(scalar(grep { length > 50_000 } @paths), 0, '… with room for a link to the next page') or diag join ' ', map { length } @paths; });
# values that are longer than expected, and either fit into a batch or do not
for my $length (1300, 3000)
{
	my $long = join ', ', map { "repeat('x', $length) || $_" } 1 .. 30;

	agrees("thirty values of $length bytes", 'SET plan_cache_mode = force_generic_plan; PREPARE p (' . join(', ', ('text') x 30)
		  . ") AS SELECT $columns FROM {account} WHERE numberofemployees > 5000 AND (" . join(' OR ', map { "description = \$$_" } 1 .. 30) . " OR revenue > 1000); EXECUTE p ($long)");
}
agrees('values of a join', "SELECT count(*), sum(n) FROM (SELECT repeat('z', 1500 + n) AS t, n FROM generate_series(1, 5) n) v, LATERAL (SELECT FROM {account} WHERE "
	  . join(' OR ', map { "description = v.t || '$_'" } 1 .. 40) . ' OR numberofemployees > 1500000 OFFSET 0) x');
agrees('UPDATE', "UPDATE {account} SET address1_city = 'changed' WHERE numberofemployees > 300000 AND (" . $ors->('description = %s', @long, $known, $other) . "); SELECT $columns FROM {account} WHERE address1_city = 'changed'");
agrees('DELETE', "DELETE FROM {account} WHERE " . $ors->('description LIKE %s', map { "%$_%" } @long, substr($known, 50)) . "; SELECT $columns FROM {account}");
agrees('a partition of a long name', "SELECT new_name FROM {new_reading} WHERE partitionid = repeat('p', 1900) OR new_name = 'r3'; SELECT count(*) FROM {new_reading} WHERE partitionid = repeat('p', 1900)");

# ---- lists that take more requests than the table has pages

my $array = "ARRAY(SELECT accountid FROM l.account WHERE numberofemployees % 2 = 0) || ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 5000))";
my $pages = 4;

for my $known (0, 1)
{
	$crm->sql('ANALYZE dv.account') if $known;
	for my $case (
		[ 'ids', "accountid = ANY ($array)" ],
		[ 'ids without their column', "accountid = ANY ($array)", 'count(name), sum(hashtext(name))' ],
		[ 'numbers', 'numberofemployees = ANY (ARRAY(SELECT numberofemployees FROM l.account WHERE numberofemployees % 3 > 0) || ARRAY(SELECT i FROM generate_series(1, 20000) i))' ],
		[ 'decimals', 'revenue = ANY (ARRAY(SELECT revenue FROM l.account WHERE numberofemployees % 3 > 0) || ARRAY(SELECT i * 1.10 FROM generate_series(1, 9000) i))' ],
		[ 'times', "createdon = ANY (ARRAY(SELECT createdon FROM l.account WHERE numberofemployees % 3 > 0) || ARRAY(SELECT timestamptz '2031-01-01' + i * interval '1 s' FROM generate_series(1, 5000) i))" ],
		[ 'dates', "createdon = ANY (ARRAY(SELECT createdon::date FROM l.account) || ARRAY(SELECT date '2031-01-01' + i FROM generate_series(1, 3000) i))" ],
		[ 'texts', "name = ANY (ARRAY(SELECT upper(name) FROM l.account) || ARRAY(SELECT name FROM l.account WHERE numberofemployees % 5 = 1) || ARRAY(SELECT 'no ' || i FROM generate_series(1, 9000) i))" ],
		[ 'memos', "description = ANY (ARRAY(SELECT description FROM l.account WHERE numberofemployees % 5 = 1) || ARRAY(SELECT 'no ' || i FROM generate_series(1, 4000) i))" ],
		[ 'nulls among them', "accountid = ANY ($array || NULL::uuid)" ],
		[ 'another condition', "accountid = ANY ($array) AND name LIKE 'A%' AND revenue > 0" ])
	{
		my ($title, $condition, $what) = @$case;

		$what //= $columns;
		agrees($title . ($known ? ' of a table whose size is known' : ''), "SELECT $what FROM {account} WHERE $condition",
			sub { cmp_ok(scalar @_, '<=', $pages + ($known ? 0 : 1), '… and no more requests than pages') or diag join "\n", map { substr $_->{target}, 0, 100 } @_; });
		agrees("$title, in order", "SELECT numberofemployees FROM {account} WHERE $condition ORDER BY 1 LIMIT 20");
	}
	# LIMIT and count are pushed down only if the whole list is sent
	my $few = sub { cmp_ok(scalar @_, '<=', $pages + ($known ? 0 : 1), '… and no more requests than pages') };
	for my $condition ("accountid = ANY ($array)", 'numberofemployees = ANY (ARRAY(SELECT numberofemployees FROM l.account WHERE numberofemployees % 3 > 0) || ARRAY(SELECT i FROM generate_series(1, 20000) i))',
		"createdon = ANY (ARRAY(SELECT createdon FROM l.account WHERE numberofemployees % 3 > 0) || ARRAY(SELECT timestamptz '2031-01-01' + i * interval '1 s' FROM generate_series(1, 5000) i)) AND revenue > 0")
	{
		agrees('a count', "SELECT count(*) FROM {account} WHERE $condition", $few);
		agrees('a limit', "SELECT count(*), count(name) FROM (SELECT name FROM {account} WHERE $condition LIMIT 200) x", $known ? $few : undef);
		agrees('an offset', "SELECT count(*), count(name) FROM (SELECT name FROM {account} WHERE $condition OFFSET 150) x", $few);
		agrees('both', "SELECT count(*), count(name) FROM (SELECT name FROM {account} WHERE $condition LIMIT 1000 OFFSET 150) x", $known ? $few : undef);
	}
	agrees('a limit of one', "SELECT count(*) FROM (SELECT FROM {account} WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.account) || ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 3000))) LIMIT 1) x", $known ? $few : undef);
	agrees('a cursor', "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT accountid FROM {account} WHERE accountid = ANY ($array) ORDER BY accountid; MOVE 100 FROM c; FETCH 3 FROM c; MOVE BACKWARD 50 FROM c; FETCH 3 FROM c; COMMIT");
	agrees('rescans', "SELECT count(*), sum(hashtext(x.name)) FROM generate_series(1, 3) n, LATERAL (SELECT name FROM {account} WHERE accountid = ANY ($array) AND numberofemployees % 3 = n - 1 OFFSET 0) x");
	agrees('rescans with lists of their own', "SELECT n, count(*), sum(hashtext(x.name)) FROM generate_series(0, 2) n, LATERAL (SELECT name FROM {account} WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.account WHERE numberofemployees % 3 = n) || ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 3000 * n))) OFFSET 0) x GROUP BY n ORDER BY n");
}
agrees('a short list is sent', "SELECT $columns FROM {account} WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.account LIMIT 300))", is_asked('the list', 1));
my ($ms) = $crm->time_of(sprintf 'SELECT count(*) FROM dv.account WHERE description IN (%s)', join ',', map { "'text $_'" } 1 .. 50_000);
cmp_ok($ms, '<', 15_000, "fifty thousand constants take $ms ms");
agrees('UPDATE by a long list', "UPDATE {account} SET address1_city = 'listed' WHERE accountid = ANY ($array); SELECT $columns FROM {account} WHERE address1_city = 'listed'");

cmp_ok($in_batches, '>', 0, 'some queries were long enough for a batch');
$crm->stop;
done_testing;
