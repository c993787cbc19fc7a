# oversize.pl
#		Values that do not fit the type of their column: refused or cut, with the
#		same answers whether the service or PostgreSQL evaluates a condition.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $crm = Crm->start('oversize', initdb => [ '--encoding', 'UTF8', '--locale', 'C' ]);
my @ids = map { "b0000000-0000-4000-8000-00000000000$_" } 1 .. 3;
my $number = 0;

# Returns the result and the messages of a statement.
sub run
{
	my ($sql) = @_;
	my ($status, $out, $err) = $crm->node->psql('postgres', $sql);

	return wantarray ? ($out, $err) : $out;
}

# Creates a foreign table with the id and one column of this type, and returns its name.
sub narrow
{
	my ($type, $column, $options, $of_table) = @_;
	my $name = 'narrow' . ++$number;

	$options = $options ? ", $options" : '';
	$of_table = $of_table ? ", $of_table" : '';
	$crm->sql(
		qq{CREATE FOREIGN TABLE $name (new_alltypesid uuid, v $type OPTIONS ("column" '$column'$options))
		   SERVER crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses'$of_table)});
	return $name;
}

sub refuses
{
	my ($type, $column, $sqlstate, $shown) = @_;
	my $table = narrow($type, $column);
	my ($out, $err) = run("\\set VERBOSITY verbose\nSELECT v FROM $table WHERE new_alltypesid = '$ids[0]'");

	subtest "$type refuses a longer value" => sub {
		is($out, '', 'no row');
		like($err, qr/\b$sqlstate\b/, 'SQLSTATE');
		like($err, qr/"v" of foreign table "$table"/, 'names the column and the table');
		like($err, qr/\Q$ids[0]/, 'names the row');
		like($err, qr/\Q$shown\E/, 'gives the reason');
	};
	return;
}

sub cuts
{
	my ($type, $column, $expected) = @_;
	my $table = narrow($type, $column, "on_oversize 'truncate'");
	my ($out, $err) = run("SELECT v FROM $table WHERE new_alltypesid = '$ids[0]'");

	subtest "$type cuts a longer value" => sub {
		is($out, $expected, 'the value is cut');
		like($err, qr/WARNING:  value of column "v" of foreign table "$table" is cut to type/, 'a WARNING');
		like($err, qr/DETAIL:  The id of the row is \Q$ids[0]/, 'names the row');
		is(() = $err =~ /WARNING/g, 1, 'and gives an example');
	};
	return;
}

$crm->sql(
	qq{IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO public;
	   INSERT INTO new_alltypes (new_alltypesid, new_text, new_memo, new_decimal10, new_zonefree, new_integer)
	   VALUES ('$ids[0]', 'Zoë was here', '{Zoë was here}', 1.005, '2026-11-18 12:34:56', 1),
			  ('$ids[1]', 'Zoë', '{1011}', 1.01, '2026-11-18 12:00:00', 2),
			  ('$ids[2]', 'Zoë     ', '1 day 02:03:04', 123456.7, '2026-11-18 12:00:00', 3)});

# ---- the default: an error

refuses('varchar(5)', 'new_text', '22001', 'does not fit type character varying(5)');
refuses('char(5)', 'new_text', '22001', 'does not fit type character(5)');
refuses('numeric(10,2)', 'new_decimal10', '22003', 'does not fit type numeric(10,2)');
refuses('"char"', 'new_text', 'HV004', 'out of range');
refuses('varchar(5)[]', 'new_memo', '22001', 'does not fit type character varying(5)[]');
$crm->sql('CREATE DOMAIN short AS varchar(5); CREATE DOMAIN named AS text CHECK (VALUE NOT LIKE \'%here\')');
refuses('short', 'new_text', '22001', 'does not fit type character varying(5)');
refuses('named', 'new_text', '23514', 'violates check constraint');
$crm->sql('CREATE DOMAIN present AS text NOT NULL');
refuses('present', 'new_name', '23502', 'does not allow null values');

my ($out, $err) = run('SELECT v FROM ' . narrow('numeric(5,2)', 'new_decimal10') . " WHERE new_alltypesid = '$ids[2]'");
like($err, qr/ERROR:  numeric field overflow.*CONTEXT:.*"v" of foreign table.*\Q$ids[2]/s,
	'a number with too many digits is refused');
($out, $err) = run('SELECT v FROM ' . narrow('interval second(0)', 'new_memo') . " WHERE new_alltypesid = '$ids[0]'");
like($err, qr/ERROR:  invalid input syntax for type interval.*CONTEXT:.*"v" of foreign table.*\Q$ids[0]/s,
	'an error of an input function names the row');

is(run('SELECT v FROM ' . narrow('varchar(12)', 'new_text') . " WHERE new_alltypesid = '$ids[0]'"),
	'Zoë was here', 'length is counted in characters, not bytes');
is(run('SELECT v FROM ' . narrow('numeric(4,3)', 'new_decimal10') . " WHERE new_alltypesid = '$ids[0]'"),
	'1.005', 'a number that just fits');
is(run("SELECT v || '|' FROM " . narrow('char(5)', 'new_text') . " WHERE new_alltypesid = '$ids[2]'"),
	'Zoë|', 'trailing blanks of a char(n) do not count');
like((run('SELECT v FROM ' . narrow('varchar(5)', 'new_text') . " WHERE new_alltypesid = '$ids[2]'"))[1],
	qr/does not fit/, 'trailing blanks of a varchar do');
is(run('SELECT v FROM ' . narrow('numeric(6,-2)', 'new_integer') . " WHERE new_alltypesid = '$ids[0]'"), '', 'a negative scale');

# a value that is not read cannot be too long
my $t = narrow('varchar(5)', 'new_text');
is(run("SELECT count(*) FROM $t"), 3, 'columns that are not read are not checked');

# other ways to read
like((run("ANALYZE $t"))[1], qr/does not fit type character varying\(5\)/, 'ANALYZE refuses it as well');
like((run("CREATE TABLE copy AS SELECT * FROM $t"))[1], qr/does not fit/, 'and it cannot be inserted into a table');
$crm->sql(
	qq{CREATE FOREIGN TABLE returned (new_alltypesid uuid, new_integer integer,
		v varchar(5) OPTIONS ("column" 'new_text', readonly 'true'))
	   SERVER crm OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses')});
like((run("DELETE FROM returned WHERE new_alltypesid = '$ids[0]' RETURNING v"))[1], qr/does not fit/, 'DELETE … RETURNING');
is(run("SELECT count(*) FROM new_alltypes WHERE new_alltypesid = '$ids[0]'"), 1, 'which then deletes nothing');

# ---- the option: cut

cuts('varchar(5)', 'new_text', 'Zoë w');
cuts('char(5)', 'new_text', 'Zoë w');
cuts('numeric(10,2)', 'new_decimal10', '1.01');
cuts('varchar(5)[]', 'new_memo', '{"Zoë w"}');
cuts('short', 'new_text', 'Zoë w');

my $all = narrow('varchar(2)', 'new_text', undef, "on_oversize 'truncate'");
($out, $err) = run("SELECT v FROM $all");
is($out, "Zo\nZo\nZo", 'an option of the table');
is(() = $err =~ /WARNING/g, 2, 'not one WARNING for each value');
like($err, qr/WARNING:  3 values of column "v" of foreign table "$all" were cut/, 'but their number');
($out, $err) = run('SELECT v FROM ' . narrow('varchar(2)', 'new_text', "on_oversize 'error'", "on_oversize 'truncate'"));
like($err, qr/does not fit/, 'an option of the column takes precedence');

# ---- conditions on cut values have the answers that PostgreSQL would give

my @columns = (
	[ 'varchar(5)', 'new_text', [ "'Zoë w'", "'Zoë was here'", "'Zoë'", "'Zoë  '" ] ],
	[ 'varchar(3)', 'new_text', [ "'Zoë'", "'zoe'" ] ],
	[ 'numeric(10,2)', 'new_decimal10', [ '1.005', '1.01', '1.00' ] ]);
my @conditions = (
	'v = VALUE', 'v <> VALUE', 'v < VALUE', 'v >= VALUE', 'v IN (VALUE, VALUE)', 'v NOT IN (VALUE, VALUE)',
	'v IS DISTINCT FROM VALUE',
	'v IS NOT DISTINCT FROM VALUE', 'v IS NOT NULL', 'NOT v = VALUE', 'v = ANY (ARRAY[VALUE, NULL])',
	"v::text LIKE VALUE || '%'", "v::text LIKE '%' || VALUE", 'starts_with(v::text, VALUE::text)');

# Returns rows, without WARNINGs.
sub answer
{
	my ($table, $end) = @_;

	return scalar run("SET client_min_messages = error; SELECT new_alltypesid, v FROM $table $end");
}

for my $column (@columns)
{
	my ($type, $name, $values) = @$column;
	my $far = narrow($type, $name, "on_oversize 'truncate'");

	$crm->sql("SET client_min_messages = error; CREATE TABLE near_$far AS SELECT * FROM $far");
	for my $value (@$values)
	{
		my @wrong = grep {
			my $condition = s/VALUE/$value/gr;
			answer($far, "WHERE $condition ORDER BY 1") ne answer("near_$far", "WHERE $condition ORDER BY 1")
		} @conditions;

		is_deeply(\@wrong, [], "$type, $value: no condition has another answer");
	}
	for my $end ('ORDER BY v LIMIT 2', 'ORDER BY v DESC, new_alltypesid OFFSET 1')
	{
		is(answer($far, $end), answer("near_$far", $end), "$type: $end");
	}
}
# A list is never split across requests, each of which would return the rows with cut values.
my $long = join ', ', "'Zoë w'", map { "'Zoë w$_'" } 1 .. 600;
for my $list ("($long)", "ANY ((SELECT ARRAY[$long])::text[])")
{
	my $far = narrow('varchar(5)', 'new_text', "on_oversize 'truncate'");
	my $operator = $list =~ /^ANY/ ? '=' : 'IN';

	is(answer($far, "WHERE v $operator $list"), "$ids[0]|Zoë w", 'a long list, ' . ($operator eq 'IN' ? 'known to the planner' : 'and not known'));
}
like(run("EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM " . narrow('varchar(5)', 'new_text', "on_oversize 'truncate'") . " WHERE v = 'Zoë'"),
	qr/filter=new_text/, 'equality with a shorter text is still sent');

# columns imported from correct metadata fit every value, also where bytes are counted
$crm->sql(
	qq{UPDATE new_alltypes SET new_text = repeat('€', 100) WHERE new_alltypesid = '$ids[1]';
	   UPDATE new_alltypes SET new_text = repeat('😀', 50) WHERE new_alltypesid = '$ids[2]'});
is((run('SET client_min_messages = warning; SELECT count(*) FROM (SELECT * FROM new_alltypes OFFSET 0) s'))[1], '', 'IMPORT makes columns wide enough');
like((run('SELECT v FROM ' . narrow('name', 'new_text', "on_oversize 'truncate'") . " WHERE new_alltypesid = '$ids[1]'"))[1],
	qr/out of range for type name/, 'the input function of a type does not cut either');

$crm->sql(q{CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0});
my $definition = join ';', map { $crm->sql("SELECT $_") }
  q{format('CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (%s)', (SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM pg_options_to_table(srvoptions)))  FROM pg_foreign_server};
$crm->node->safe_psql('bytes',
	qq{CREATE EXTENSION dataverse_fdw; $definition;
	   CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
	   IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO public});
is( $crm->node->safe_psql('bytes', q{SELECT string_agg(octet_length(new_text)::text, ' ' ORDER BY new_alltypesid) FROM new_alltypes}),
	'13 300 200', 'and wide enough for bytes');

done_testing();
