# column_types.pl
#		Columns of any PostgreSQL type, in every role that a column can have: a
#		statement either succeeds and values survive a round trip, or it raises an
#		error.  The server never misinterprets a value.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $seed = $ENV{SEED} // time;
note("SEED=$seed");
srand $seed;

my $crm = Crm->start('column_types', preload => 1, options => { max_parallel => 2 });
my $log = -s $crm->node->logfile;

$crm->sql(<<'SQL');
CREATE SCHEMA dv;
IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO dv;
CREATE SCHEMA ct;
CREATE TYPE ct.mood AS ENUM ('1', 'x');
CREATE TYPE ct.two AS (a int, b text);
CREATE DOMAIN ct.id AS uuid;
CREATE DOMAIN ct.id_again AS ct.id CHECK (VALUE IS DISTINCT FROM '99999999-0000-0000-0000-000000000000');
CREATE DOMAIN ct.words AS text;
CREATE DOMAIN ct.few_words AS varchar(100);
CREATE DOMAIN ct.number AS bigint;
CREATE DOMAIN ct.numbers AS int[];
CREATE DOMAIN ct.both AS ct.two;

-- what a statement returns, or its error
CREATE FUNCTION ct.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line record;
  n bigint;
  result text := '';
BEGIN
  IF statement ~ '^(SELECT|EXPLAIN|(INSERT|UPDATE|DELETE).* RETURNING )' THEN
    FOR line IN EXECUTE statement LOOP
      result := result || line::text;
    END LOOP;
    RETURN result;
  END IF;
  EXECUTE statement;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
EXCEPTION WHEN OTHERS THEN
  RETURN 'ERROR ' || SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION ct.try_all(statements text[]) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT s.i || ' ' || translate(ct.try(s.q), E'\n', ' ') FROM unnest(statements) WITH ORDINALITY AS s (q, i) $$;
SQL

# Types, each with a literal.
my $any = '12345678-1234-1234-1234-123456789abc';
my @types = (
	[ 'uuid', "'$any'" ], [ 'text', "'1'" ], [ 'varchar', "'1'" ], [ 'varchar(100)', "'1'" ],
	[ 'char(36)', "'1'" ], [ 'name', "'1'" ], [ '"char"', "'1'" ], [ 'int2', '1' ], [ 'int4', '1' ],
	[ 'int8', '1' ], [ 'numeric', '1' ], [ 'numeric(9,2)', '1' ], [ 'float4', '1' ], [ 'float8', '1' ],
	[ 'bool', 'true' ], [ 'bytea', "'\\x010203'" ], [ 'date', "'2024-02-29'" ], [ 'time', "'01:02:03'" ],
	[ 'timestamp', "'2024-02-29 01:02:03'" ], [ 'timestamptz', "'2024-02-29 01:02:03Z'" ],
	[ 'interval', "'1 day'" ], [ 'json', "'{\"a\":1}'" ], [ 'jsonb', "'{\"a\":1}'" ], [ 'oid', '1' ],
	[ 'regclass', "'pg_class'" ], [ 'uuid[]', "'{$any}'" ], [ 'text[]', "'{1}'" ], [ 'int4[]', "'{1,2}'" ],
	[ 'int8[]', "'{1}'" ], [ 'point', "'(1,2)'" ], [ 'box', "'(1,2),(3,4)'" ], [ 'inet', "'::1'" ],
	[ 'bit(8)', "'00000001'" ], [ 'tid', "'(1,2)'" ], [ 'int4range', "'[1,3)'" ], [ 'ct.mood', "'1'" ],
	[ 'ct.two', "'(1,x)'" ], [ 'ct.id', "'$any'" ], [ 'ct.id_again', "'$any'" ], [ 'ct.words', "'1'" ],
	[ 'ct.few_words', "'1'" ], [ 'ct.number', '1' ], [ 'ct.numbers', "'{1,2}'" ], [ 'ct.both', "'(1,x)'" ]);

my %is_id = map { $_ => 1 } qw(uuid ct.id ct.id_again);
my %is_word = map { $_ => 1 } ('text', 'varchar', 'varchar(100)', 'ct.words', 'ct.few_words');

my %literal = map { $_->[0] => "$_->[1]::$_->[0]" } @types;

# TYPES=all tests all of them; the default is these few and a random choice of others
my %always = map { $_ => 1 } qw(uuid text varchar(100) int8 float8 bytea timestamptz int4[] ct.id ct.number);

sub some_types
{
	return grep { $always{$_} || ($ENV{TYPES} // '') eq 'all' || rand() < 0.25 } map { $_->[0] } @types;
}

# Returns the result of each statement of a list.
sub try_all
{
	my (@statements) = @_;
	my $list = join ', ', map { s/'/''/gr =~ s/^|$/'/gr } @statements;
	my ($status, $out, $err) = $crm->node->psql('postgres', "SELECT ct.try_all(ARRAY[$list])");

	diag("$err: @statements") if $status != 0;
	return map { s/^\d+ //r } split /\n/, $out;
}

my $serial = 0;

sub fresh_id { return sprintf '00000000-0000-0000-0000-%012x', ++$serial; }

# Replaces the placeholders of a statement: <C> by the column, <N> by the name of the row, and so on.
sub fill
{
	my ($statement, %value) = @_;

	return $statement =~ s/<(\w+)>/$value{$1}/gr;
}

# ---- columns that the code reads itself: those of the right types work, and others are refused

# Tables with a column <C>: a simple one, one that rows are routed to, and one that inherits.
my @tables = (
	'DROP TABLE IF EXISTS ct.part, ct.parent CASCADE',
	'DROP FOREIGN TABLE IF EXISTS ct.t CASCADE',
	'CREATE FOREIGN TABLE ct.t (<columns>) <server>',
	'CREATE TABLE ct.part (filler int, <plain>) PARTITION BY LIST (<name>)',
	'ALTER TABLE ct.part DROP COLUMN filler',
	'CREATE FOREIGN TABLE ct.routed (<columns>) <server>',
	'ALTER TABLE ct.part ATTACH PARTITION ct.routed DEFAULT',
	'CREATE TABLE ct.parent (filler int, <plain>)',
	'ALTER TABLE ct.parent DROP COLUMN filler',
	'CREATE FOREIGN TABLE ct.child (<columns>) <server>',
	'ALTER FOREIGN TABLE ct.child INHERIT ct.parent');
my @reads = (
	'EXPLAIN SELECT <C> FROM ct.t',
	'ANALYZE ct.t',
	q{SELECT dataverse_private.read_page('ct.t', NULL, NULL, NULL, NULL, false)},
	'SELECT x FROM ct.t x WHERE <name> = <N>',
	'SELECT x.* FROM ct.parent x WHERE <name> = <N>',
	'SELECT a.<C> FROM ct.t a JOIN ct.t b USING (<name>) WHERE <name> = <N> LIMIT 1');
my @inserts = (
	'INSERT INTO ct.t (<name>, <C>) VALUES (<N>, <V1>)',
	'INSERT INTO ct.t (<name>, <C>) VALUES (<N>, <V2>) RETURNING t',
	'INSERT INTO ct.part (<name>, <C>) VALUES (<N>, <V3>) RETURNING <C>',
	'INSERT INTO ct.child (<name>, <C>) VALUES (<N>, <V4>)');
my @others = (
	'INSERT INTO ct.t (<name>) VALUES (<N>) RETURNING t',
	'INSERT INTO ct.t (<name>) VALUES (<N>) RETURNING <C>',
	'INSERT INTO ct.part (<name>) VALUES (<N>) RETURNING part',
	q{COPY ct.t (<name>) FROM PROGRAM 'echo <raw>'},
	'UPDATE ct.t SET <name> = <name> WHERE <name> = <N> RETURNING t',
	'UPDATE ct.t SET <C> = <V1> WHERE <name> = <N>',
	'UPDATE ct.part SET <name> = <name> WHERE <name> = <N> RETURNING <C>',
	'UPDATE ct.parent SET <name> = <name> WHERE <name> = <N>');
my @deletes = (
	'DELETE FROM ct.parent WHERE <name> = <N> AND <C> IS NULL RETURNING parent',
	'DELETE FROM ct.t USING pg_class p WHERE <name> = <N> AND p.oid = 1259 RETURNING t');

# "of" returns the replacements for a type.
sub check_role
{
	my ($what, $accepted, $of, @statements) = @_;

	for my $type (some_types())
	{
		my %value = $of->($type);
		my @made = grep { /^ERROR/ } try_all(map { fill($_, %value) } @tables);
		my @q = map { fill($_, %value) } @statements;
		my @got = try_all(@q);
		# an accepted column may be read-only; a refused type may lack comparison operators
		my $expected = $accepted->{$type} ? qr/^(?!ERROR)|^ERROR 0A000|^ERROR HV00B/ : qr/^ERROR HV004|^ERROR 42883/;
		my @bad = map { "$q[$_]: " . ($got[$_] // 'the server has gone away') }
		  grep { ($got[$_] // 'ERROR') !~ $expected } 0 .. $#q;

		is(join("\n", @made, @bad), '', "$what of type $type " . ($accepted->{$type} ? 'works' : 'is refused'));
	}
	return;
}

sub row { my $raw = 'row' . ++$serial; return (raw => $raw, N => "'$raw'", @_); }

check_role('the primary id', \%is_id,
	sub {
		my ($type) = @_;
		return row(C => 'accountid', name => 'name', columns => "accountid $type, name text", plain => "name text, accountid $type",
			server => "SERVER crm OPTIONS (table 'account', entity_set 'accounts')",
			map { ("V$_" => $is_id{$type} ? "'" . fresh_id() . "'::$type" : $literal{$type}) } 1 .. 4);
	},
	@reads, @inserts, @others, @deletes);

is($crm->sql("SELECT count(*) FROM dv.account WHERE accountid::text LIKE '00000000-0000-0000-0000-%' AND name LIKE 'row%'"), 0, '… and deleted rows are gone');

check_role('the partition', \%is_word,
	sub {
		my ($type) = @_;
		return row(C => 'partitionid', name => 'new_name', columns => "new_readingid uuid, new_name text, partitionid $type",
			plain => "partitionid $type, new_readingid uuid, new_name text",
			server => "SERVER crm OPTIONS (table 'new_reading', entity_set 'new_readings', table_type 'elastic', partition_id 'partitionid')",
			map { ("V$_" => $literal{$type}) } 1 .. 4);
	},
	@reads, @inserts, @others, @deletes);

# a row of an intersect table is a pair of ids, and has no name
my ($contact, @accounts) = map { fresh_id() } 0 .. 4;
my %link = map { $_ => "OPTIONS (type 'uniqueidentifier', target '$_', target_set '${_}s', navigation 'new_Account_Contact')" } qw(account contact);

$crm->sql("INSERT INTO dv.contact (contactid, lastname) VALUES ('$contact', 'c');
	INSERT INTO dv.account (accountid, name) SELECT id, 'a' FROM unnest('{@{[ join ',', @accounts ]}}'::uuid[]) id");
check_role('one id of a pair', \%is_id,
	sub {
		my ($type) = @_;
		my $i = 0;
		return (N => "'$contact'", C => 'accountid', name => 'contactid',
			columns => "accountid $type $link{account}, contactid uuid $link{contact}", plain => "contactid uuid, accountid $type",
			server => "SERVER crm OPTIONS (table 'new_account_contact', entity_set 'new_account_contactset', table_type 'intersect')",
			map { ("V$_" => $is_id{$type} ? "'$accounts[$_ - 1]'::$type" : $literal{$type}) } 1 .. 4);
	},
	@reads, @inserts, 'DELETE FROM ct.parent WHERE contactid = <N> AND accountid = <V1> RETURNING <C>', $deletes[1]);

# the name of a lookup's table, with and without the lookup
for my $lookup ("customer uuid OPTIONS (type 'customer', column 'new_customerid'), ", '')
{
	check_role('the name of a table' . ($lookup ? '' : ' whose lookup is not there'), \%is_word,
		sub {
			my ($type) = @_;
			return row(C => 'its_table', name => 'new_name', K => "'$contact'",
				columns => "new_alltypesid uuid, new_name text, ${lookup}its_table $type OPTIONS (ref_type_of 'new_customerid')",
				plain => 'new_alltypesid uuid, new_name text, ' . ($lookup ? 'customer uuid, ' : '') . "its_table $type",
				server => "SERVER crm OPTIONS (table 'new_alltypes', entity_set 'new_alltypeses')",
				V1 => $is_word{$type} ? "'contact'::$type" : $literal{$type});
		},
		@reads, @others,
		($lookup ? (
			'INSERT INTO ct.t (new_name, customer, <C>) VALUES (<N>, <K>, <V1>) RETURNING t',
			'INSERT INTO ct.part (new_name, customer, <C>) VALUES (<N>, <K>, <V1>)',
			'UPDATE ct.t SET customer = NULL WHERE new_name = <N> RETURNING <C>',
			'UPDATE ct.parent SET customer = <K>, <C> = <V1> WHERE new_name = <N> RETURNING <C>') : ()),
		@deletes);
}

# ---- values that are converted: a value that can be inserted can be read, unchanged

my @columns = (
	[ 'new_text', 'string' ], [ 'new_memo', 'memo' ], [ 'new_integer', 'integer' ], [ 'new_bigint', 'bigint' ],
	[ 'new_decimal', 'decimal' ], [ 'new_money', 'money' ], [ 'new_double', 'double' ], [ 'new_boolean', 'boolean' ],
	[ 'new_choice', 'choice' ], [ 'new_choices', 'choices' ], [ 'statecode', 'state' ], [ 'statuscode', 'status' ],
	[ 'new_datetime', 'datetime' ], [ 'new_date', 'date' ], [ 'new_zonefree', 'datetime_independent' ],
	[ 'new_image', 'image' ], [ 'new_file', 'file' ], [ 'new_managed', 'managed' ], [ 'new_tablename', 'entityname' ],
	[ 'ownerid', 'owner' ], [ 'new_formula', 'other' ],
	[ 'new_customerid', 'customer' ], [ 'new_customerid', 'lookup', ", target 'contact', target_set 'contacts', navigation 'new_customerid_contact'" ],
	[ 'new_choice', 'label' ]);
my %value_of = (
	new_choice => { map { $_ => "100000001::$_" } qw(int4 int8 numeric float4 float8 ct.number) },
	new_choices => { map({ $_ => "'{1,2}'::$_" } qw(int4[] ct.numbers)), map({ $_ => "'1,2'::$_" } keys %is_word) },
	new_customerid => { map { $_ => "'$contact'::$_" } keys %is_id },
	statecode => { map { $_ => "0::$_" } qw(int2 int4 int8 numeric ct.number) });
my @round_trip = (
	'INSERT INTO ct.t (new_name, v<also>) VALUES (<N>, <V><its>)',
	'SELECT v::text = (<V>)::text FROM ct.t WHERE new_name = <N>',
	'UPDATE ct.t SET v = <V><set> WHERE new_name = <N> RETURNING v::text = (<V>)::text',
	'SELECT v::text = (<V>)::text FROM ct.t WHERE new_name = <N>');
my @questions = (
	'SELECT count(*) FROM ct.t WHERE v = <V>',
	'SELECT count(*) FROM ct.t WHERE v IN (<V>, NULL)',
	'SELECT count(*) FROM ct.t WHERE v < <V> OR v IS DISTINCT FROM <V>',
	'SELECT count(*) FROM (SELECT v, count(*) FROM ct.t GROUP BY v) x',
	'SELECT min(v), max(v) FROM ct.t',
	'SELECT sum(v) FROM ct.t',
	'SELECT v::text IS NULL FROM ct.t ORDER BY v LIMIT 1',
	'SELECT count(a) FROM ct.t a JOIN ct.t b ON a.v = b.v WHERE a.new_name = <N>',
	'SELECT count(a) FROM ct.t a JOIN dv.contact c ON a.v = c.contactid',
	'INSERT INTO ct.t (new_name, v) SELECT x.new_name, x.v FROM ct.t x WHERE x.new_name = <N>',
	'INSERT INTO ct.t (new_name, v<also>) VALUES (<N>, <V><its>) RETURNING t',
	'UPDATE ct.t SET new_name = new_name WHERE v = <V> RETURNING v');

for my $c (@columns)
{
	my ($column, $declared, $more) = @$c;
	my $options = $declared eq 'label' ? "label_of '$column'" : "column '$column', type '$declared'" . ($more // '');
	my @also = $declared eq 'customer' ? (also => ', its', its => ", 'contact'", set => ", its = 'contact'") : (also => '', its => '', set => '');
	my (@q, @kind, @wrong, %inserted);

	for my $type (some_types())
	{
		my %value = row(V => $value_of{$column}{$type} // $literal{$type}, @also);
		my @of_type = (@round_trip, map({ $questions[ rand @questions ] } 1 .. 2),
			'DELETE FROM ct.t WHERE new_name = <N> RETURNING t');

		push @q, 'DROP FOREIGN TABLE IF EXISTS ct.t',
		  "CREATE FOREIGN TABLE ct.t (new_alltypesid uuid, new_name text, v $type OPTIONS ($options)"
		  . ($declared eq 'customer' ? ", its text OPTIONS (ref_type_of '$column')" : '')
		  . ") SERVER crm OPTIONS (table 'new_alltypes', entity_set 'new_alltypeses')", map { fill($_, %value) } @of_type;
		push @kind, map { [ $type, $_ ] } qw(made made inserted same same same), ('any') x 3;
	}
	my @got = try_all(@q);

	for my $i (0 .. $#q)
	{
		my ($type, $kind) = @{ $kind[$i] };
		my $got = $got[$i] // 'ERROR XX000: the server has gone away';

		$inserted{$type} = 1 if $kind eq 'inserted' && $got !~ /^ERROR/;
		# only inserted values have to be readable
		push @wrong, "$type: $q[$i]: $got"
		  if $got =~ /^ERROR XX/ || ($kind eq 'made' && $got =~ /^ERROR/) || ($kind eq 'same' && $inserted{$type} && $got ne '(t)');
	}
	is(join("\n", @wrong), '', "column $column, declared as $declared, of any type");
	note("$column can be inserted as: " . join ', ', sort keys %inserted);
}

# ---- values that dvsim generates can be read as their declared type

$crm->dvsim->control('POST', '/_dvsim/seed?table=new_alltypes&rows=300');
is($crm->sql('SELECT count(x::text) >= 300 FROM dv.new_alltypes x'), 't', 'seeded rows with all columns');

# ---- a key of several non-text columns is quoted, and its row is found again

my %another = (uuid => "'22345678-1234-1234-1234-123456789abc'", date => "'2024-03-01'", timestamptz => "'2024-03-01 01:02:03Z'", text => "'x'");
for my $type (sort keys %another)
{
	my $value = $literal{$type};

	is_deeply(
		[ try_all('DROP FOREIGN TABLE ct.t',
			"CREATE FOREIGN TABLE ct.t (new_meterid uuid, new_name text, key $type OPTIONS (column 'new_serial', type 'string'), createdon timestamptz OPTIONS (readonly 'true'))
				SERVER crm OPTIONS (table 'new_meter', entity_set 'new_meters', insert_mode 'upsert', upsert_key 'key')",
			map { "INSERT INTO ct.t (new_name, key) VALUES ('$_', $value) RETURNING key = $value, createdon IS NOT NULL" } qw(first second)),
			# several rows are read back together, and matched by their keys
			try_all("INSERT INTO ct.t (new_name, key) VALUES ('another', $another{$type}), ('second', $value) RETURNING key = $value, createdon IS NOT NULL"),
			try_all("SELECT new_name, key = $value FROM ct.t WHERE key = $value", "DELETE FROM ct.t WHERE key IN ($value, $another{$type})") ],
		[ 0, 0, '(t,t)', '(t,t)', '(f,t)(t,t)', '(second,t)', 2 ], "an alternate key of type $type");
}

# ---- a table that is altered after planning: SQL functions are planned as a whole

$crm->sql("DROP FOREIGN TABLE ct.t;
	CREATE FOREIGN TABLE ct.t (accountid uuid, name text, number text OPTIONS (column 'accountnumber'), employees int OPTIONS (column 'numberofemployees'))
		SERVER crm OPTIONS (table 'account', entity_set 'accounts');
	CREATE VIEW ct.contacts AS SELECT contactid, parentcustomerid, lastname FROM dv.contact;
	INSERT INTO ct.t (accountid, name, number, employees) VALUES ('" . fresh_id() . "', 'altered', 'A', 5);
	INSERT INTO dv.contact (lastname, parentcustomerid, parentcustomeridtype) SELECT 'of it', accountid, 'account' FROM ct.t WHERE name = 'altered'");

# the change, and how to undo it
my @alterations = (
	[ 'ALTER name TYPE bigint', 'ALTER name TYPE text' ],
	[ 'ALTER employees TYPE bytea', 'ALTER employees TYPE int' ],
	[ 'ALTER accountid TYPE bigint', 'ALTER accountid TYPE uuid' ],
	[ "ALTER number OPTIONS (SET column 'fax')", "ALTER number OPTIONS (SET column 'accountnumber')" ],
	[ 'DROP employees', "ADD employees int OPTIONS (column 'numberofemployees')" ]);

for my $a (@alterations)
{
	for my $q (
		"SELECT name, employees, number FROM ct.t WHERE name = 'altered'",
		"SELECT t.name, t.employees, t.number, c.lastname FROM ct.t JOIN ct.contacts c ON c.parentcustomerid = t.accountid WHERE t.name = 'altered'",
		"SELECT name, number, sum(employees) FROM ct.t WHERE employees = 5 GROUP BY name, number",
		'SELECT count(*) FROM ct.t WHERE employees = 5 AND number = \'A\'',
		"UPDATE ct.t SET employees = 5, number = 'A' WHERE name = 'altered' RETURNING name, accountid",
		"INSERT INTO ct.t (name, number, employees) VALUES ('n', 'A', 5) RETURNING accountid, name",
		"DELETE FROM ct.t WHERE number = 'none' AND employees = 5 RETURNING accountid")
	{
		my @got = try_all("DROP FUNCTION IF EXISTS ct.altering",
			"CREATE FUNCTION ct.altering() RETURNS void LANGUAGE sql AS \$f\$ ALTER FOREIGN TABLE ct.t $a->[0]; $q \$f\$",
			"SELECT ct.altering()");

		$crm->sql("ALTER FOREIGN TABLE ct.t $a->[1]") if $got[2] !~ /^ERROR/;
		is($got[1], 0, 'a function is created');
		like($got[2] // 'the server has gone away', qr/^ERROR (?!XX)|^\("?"?\)/, "$a->[0] before $q");
		note($got[2]);
	}
}

# a statement that is prepared is planned again
is($crm->sql("PREPARE p AS SELECT number FROM ct.t WHERE name = 'altered'; EXECUTE p; ALTER FOREIGN TABLE ct.t ALTER number OPTIONS (SET column 'name'); EXECUTE p"),
	"A\naltered", 'a prepared statement is replanned');

# ---- tables that cannot be opened

$crm->sql("CREATE FOREIGN TABLE ct.wrong (accountid bigint) SERVER crm OPTIONS (table 'account', entity_set 'accounts');
	CREATE FOREIGN TABLE ct.unset (accountid uuid) SERVER crm");
is($crm->sql("SELECT table_name, is_insertable_into FROM information_schema.tables WHERE table_name IN ('wrong', 'unset') ORDER BY 1"),
	"unset|YES\nwrong|YES", 'information_schema shows tables that cannot be opened');
like($crm->sql("SELECT statement FROM dataverse.import_diff('ct') WHERE foreign_table LIKE '%wrong' AND column_name = 'accountid'"),
	qr/ALTER COLUMN accountid TYPE (?:pg_catalog\.)?uuid/, '… and import_diff() says how to repair them');
my ($status, $out, $err) = $crm->node->psql('postgres', 'SELECT * FROM ct.wrong');
like($err, qr/column "accountid" of foreign table "wrong" has type bigint, but must have type uuid.*primary id.*ALTER FOREIGN TABLE ct\.wrong ALTER COLUMN accountid TYPE uuid;/s,
	'… as does the error');

# ---- the server has not crashed

unlike(slurp_file($crm->node->logfile, $log), qr/terminated by signal|AddressSanitizer|runtime error|TRAP:/, 'the server has not crashed');
$crm->idle_ok('at the end');
$crm->stop;

done_testing();
