# alternate_keys.pl
#		Rows that are upserted by alternate keys of all types and with any
#		characters: the row that is created is the row that is found, even if
#		answers are lost, and if others upsert the same keys.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my @keys = (
	[ text => 'string', length => 300 ],
	[ mass => 'decimal', precision => 4 ],
	[ count => 'integer' ],
	[ grade => 'picklist', options => [ [ 1, 'Good' ], [ 2, 'Poor' ] ] ],
	[ moment => 'datetime' ],
	[ day => 'datetime', behavior => 'DateOnly', format => 'DateOnly' ],
	[ parent => 'lookup', targets => ['lab_sample'] ]);

# A table with all of these columns, each of which is a key.
sub table
{
	my ($name, $bulk) = @_;

	return {
		name => $name,
		primary_name => 'lab_name',
		bulk => $bulk,
		keys => [ (map { { name => "${name}_$_->[0]", columns => ["lab_$_->[0]"] } } @keys),
			{ name => "${name}_two", columns => [ 'lab_a', 'lab_b' ] } ],
		columns => [
			{ name => 'lab_name', type => 'string' },
			(map { my ($column, $type, @rest) = @$_; { name => "lab_$column", type => $type, @rest } } @keys),
			{ name => 'lab_a', type => 'string' },
			{ name => 'lab_b', type => 'integer' }
		]
	};
}

my $dir = PostgreSQL::Test::Utils::tempdir();
my $true = JSON::PP::true;
my $false = JSON::PP::false;
open my $schema, '>', "$dir/schema.json" or die $!;
print $schema encode_json({ tables => [ table('lab_sample', $true), table('lab_plain', $false) ] });
close $schema or die $!;

my $dvsim = Dvsim->start('--schema', "$dir/schema.json");
# Faults that delay answers look like load.  While the useful limit tries how long a single request
# takes, nothing else can be sent until it has been answered.
my $crm = Crm->start('alternate_keys', dvsim => $dvsim, initdb => [ '--encoding', 'UTF8' ],
	options => { max_parallel => 4, useful_limit => 'off' });

$crm->sql("CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (lab_sample, lab_plain) FROM SERVER crm INTO dv;
	ALTER SERVER crm OPTIONS (ADD insert_mode 'upsert')");

sub requests { return $crm->requests; }

sub lines
{
	return [ map { "$_->{method} " . $_->{target} =~ s{^/api/data/v9\.2/|Microsoft\.Dynamics\.CRM\.}{}gr } @_ ];
}

sub sent { return $crm->sent(@_); }

sub literal
{
	my ($text) = @_;

	$text =~ s/([\\'])/$1$1/g;
	$text =~ s/\n/\\n/g;
	$text =~ s/\r/\\r/g;
	return "E'$text'";
}

sub empty
{
	$crm->sql('DELETE FROM dv.lab_sample; DELETE FROM dv.lab_plain');
	return;
}

# ---- all types and characters

# the service accepts no other control characters
my @characters = ((map { chr } 9, 10, 13, 32 .. 126), '€', '😀');
my @texts = ((map { "a${_}b" } grep { !/[A-Z]/ } @characters),
	'A%23000143', 'a%20b', 'zä', "it's", "''", "'", 'say "x"', 'a,b)=(c', 'back\\slash', 'x' x 300, '€' x 100, 'a/b?c=d&e#f');
my %values = (
	text => [ map { literal($_) } @texts ],
	mass => [ '0', '1.5', '-2.25', '1.2345', '99999999' ],
	count => [ '0', '-7', '2147483647' ],
	grade => [ '1', '2' ],
	moment => [ "'2026-01-31 10:00:00+00'", "'1999-12-31 23:59:59+00'" ],
	day => [ "'2026-01-31'", "'1999-12-31'" ],
	parent => [ map { "'00000000-0000-0000-0000-00000000000$_'" } 1, 2 ]);

for my $table ('lab_sample', 'lab_plain')
{
	empty();
	$crm->sql("INSERT INTO dv.lab_sample (lab_sampleid, lab_name) SELECT ('00000000-0000-0000-0000-00000000000' || i)::uuid, 'parent' FROM generate_series(1, 2) i");
	$crm->sql("ALTER FOREIGN TABLE dv.$table OPTIONS (ADD upsert_key 'lab_text')");
	for my $key (map { $_->[0] } @keys)
	{
		my $column = $key eq 'parent' ? 'lab_parent' : "lab_$key";
		my @rows = @{ $values{$key} };
		my $n = @rows;

		$crm->sql("ALTER FOREIGN TABLE dv.$table OPTIONS (SET upsert_key '$column')");
		for my $name ('made', 'found')
		{
			my $rows = join(', ', map { "($rows[$_], '$key $name ' || $_)" } 0 .. $n - 1);
			my $type = $crm->sql("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'dv.$table'::regclass AND attname = '$column'");

			$crm->sql("INSERT INTO dv.$table ($column, lab_name) VALUES $rows");
			is($crm->sql("SELECT count(*) FROM dv.$table WHERE lab_name LIKE '$key %'"), $n, "$table: rows with key $key, $name");
			is( $crm->sql("WITH wanted (value, name) AS (VALUES $rows)
					SELECT string_agg(w.name || ' ' || w.value, ', ') FROM wanted w
						LEFT JOIN (SELECT * FROM dv.$table OFFSET 0) t ON t.lab_name = w.name AND t.$column = w.value::$type"
					  . ($key eq 'text' ? ' COLLATE "C"' : '') . ' WHERE t.lab_name IS NULL'),
				'', '… and each row has its own value');
		}
	}
	$crm->sql("ALTER FOREIGN TABLE dv.$table OPTIONS (SET upsert_key 'lab_a,lab_b')");
	$crm->sql("INSERT INTO dv.$table (lab_a, lab_b, lab_name) VALUES ('x/y', 1, '$_'), ('x/y', 2, '$_'), ('xy', 1, '$_')") for 'two', 'two!';
	is($crm->sql("SELECT count(*) FROM dv.$table WHERE lab_name = 'two!'"), '3', 'a key of two columns');
	is($crm->sql("SELECT count(*) FROM dv.$table WHERE lab_name LIKE 'two%'"), '3', '… once each');
	$crm->sql("ALTER FOREIGN TABLE dv.$table OPTIONS (SET upsert_key 'lab_text')");
}

# ---- requests

empty();
my $sql = "INSERT INTO dv.TABLE (lab_text, lab_name) VALUES ('plain', 'n'), ('1/2', 'n')";
my @upserts = ('POST $batch', ('POST lab_samples/UpsertMultiple') x 2);
is_deeply([ sort @{ lines(sent($sql =~ s/TABLE/lab_sample/r)) } ], \@upserts, 'rows are looked up, and upserted');
is_deeply(
	[ sort @{ lines(sent($sql =~ s/TABLE/lab_sample/r)) } ],
	[ 'POST $batch', 'POST lab_samples/UpdateMultiple', 'POST lab_samples/UpsertMultiple' ],
	'… or updated');
is_deeply(lines(sent("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES (repeat('é', 100), 'n')")),
	['POST lab_samples/UpsertMultiple'], 'a body can contain longer keys');
for my $value ("repeat('é', 100)", "E'a\\tb'", "'a#b'")
{
	my ($bulk, @r) = sent("INSERT INTO dv.lab_plain (lab_text, lab_name) VALUES ($value, 'n')");

	is_deeply(lines($bulk, @r), [ 'POST lab_plains/UpsertMultiple', 'POST $batch', 'POST $batch' ],
		"$value cannot be in a request line")
	  if $value ne "'a#b'";
	like($r[-1]{body}, qr{\r\nPATCH /api/data/v9\.2/lab_plains\([-0-9a-f]{36}\) HTTP}, '… but its id can');
}
my (undef, $single) = sent("INSERT INTO dv.lab_plain (lab_text, lab_name) VALUES ('it''s \"ä\"', 'n')");
like($single->{body}, qr{\r\nPATCH /api/data/v9\.2/lab_plains\(lab_text='it''s%20%22%C3%A4%22'\) HTTP/1\.1\r\n}, 'a request line is encoded');
like($single->{body}, qr{\r\n\{"lab_name":"n"\}\r\n}, '… and the key is not in the body');

# ---- keys that PostgreSQL distinguishes and the service does not

empty();
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('a/b', '1'), ('A/B', '2'), ('á/b', '3')");
is($crm->sql("SELECT count(*), max(lab_text) FROM dv.lab_sample"), '1|a/b', 'one row is created for them');
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('A/b', 'x'), ('a/B', 'y')");
is($crm->sql("SELECT lab_text, lab_name FROM dv.lab_sample"), 'a/b|y', '… and updated in order, except for its key');

# ---- such keys in concurrent requests

# The first batch of ten rows arrives after the second, unless the second waits for it.
sub overtaken
{
	my ($table, $column, $type, $older, $newer, $filler) = @_;

	# times have colons, so their rows are looked up as well
	$crm->fault(path => $older =~ m{/|:} ? '$batch' : 'UpsertMultiple', action => 'reset_before_commit');
	$crm->sql("SET dataverse_fdw.batch_size = 10;
		INSERT INTO dv.$table ($column, lab_name) SELECT CASE n WHEN 1 THEN $older WHEN 11 THEN $newer ELSE $filler END::$type,
		 CASE n WHEN 1 THEN 'older' WHEN 11 THEN 'newer' ELSE 'other' END FROM generate_series(1, 20) n");
	$crm->no_faults;
	return $crm->sql("SELECT string_agg(lab_name, ', ') FROM dv.$table WHERE lab_name <> 'other'");
}

for my $pair ([ 'case', 'KEY', 'key' ], [ 'accents', "K\x{e9}y", 'key' ], [ 'trailing blanks', 'key', 'key  ' ],
	[ 'case, where rows are looked for', 'A/B', 'a/b' ], [ 'marks', "ke\x{301}y", 'KEY' ], [ 'width', "\x{ff2b}EY", 'key' ],
	[ 'a character without weight', "k\x{1f600}ey", 'key' ], [ 'ligatures', "stra\x{df}e", 'STRASSE' ], [ 'kana', "\x{304b}", "\x{30ab}" ],
	[ 'case in another script', "\x{391}\x{3b8}\x{3ae}\x{3bd}\x{3b1}", "\x{391}\x{398}\x{397}\x{39d}\x{391}" ])
{
	my ($what, @texts) = @$pair;

	utf8::encode($_) for @texts;
	for my $table ('lab_sample', 'lab_plain')
	{
		empty();
		is(overtaken($table, 'lab_text', 'text', literal($texts[0]), literal($texts[1]), "'other ' || n"), 'newer', "$table: keys that differ in $what: the newer row wins");
	}
}
empty();
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_a,lab_b')");
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample ALTER COLUMN lab_mass TYPE numeric, ALTER COLUMN lab_moment TYPE timestamptz");
$crm->fault(path => 'UpsertMultiple', action => 'reset_before_commit');
$crm->sql("SET dataverse_fdw.batch_size = 10; INSERT INTO dv.lab_sample (lab_a, lab_b, lab_name)
	SELECT CASE n WHEN 11 THEN 'x' ELSE 'X' END, CASE n WHEN 11 THEN 1 ELSE n END, 'row ' || n FROM generate_series(1, 20) n");
$crm->no_faults;
is($crm->sql("SELECT count(*), max(lab_name) FILTER (WHERE lab_b = 1) FROM dv.lab_sample"), '19|row 11', 'a text in a key of two columns');
empty();
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_mass')");
is(overtaken('lab_sample', 'lab_mass', 'numeric', '1.50', '1.5', "n * 10"), 'newer', 'numbers with different trailing zeros');
empty();
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_moment')");
is(overtaken('lab_sample', 'lab_moment', 'timestamptz', "timestamptz '2026-01-31 10:00:00+00'", "timestamptz '2026-01-31 11:00:00.25+01'", "timestamptz '2026-02-01' + n * interval '1 s'"),
	'newer', 'times with fractions of a second');
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_text')");

# keys that the service distinguishes do not wait for each other
for my $alphabet ([ 'ASCII', '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ' ], [ 'Greek', join('', map { chr } 0x3b1 .. 0x3c1) ],
	[ 'Cyrillic', join('', map { chr } 0x430 .. 0x438, 0x43a .. 0x44f) ], [ 'Chinese', join('', map { chr } 0x4e00 .. 0x4e1f) ], [ 'Hangul', join('', map { chr 0xac00 + 28 * 21 * $_ } 0 .. 18) ],
	[ 'Katakana', join('', map { chr } 0x30ca .. 0x30ce, 0x30de .. 0x30e2, 0x30e9 .. 0x30ed) ])
{
	my ($what, $letters) = @$alphabet;
	my @letters = split //, $letters;
	my @texts = map { $letters[ $_ % @letters ] . '-' . $letters[ $_ / @letters ] } 0 .. 99;
	my @r;

	empty();
	utf8::encode($_) for @texts;
	@r = sent('SET dataverse_fdw.batch_size = 10; INSERT INTO dv.lab_sample (lab_text) VALUES ' . join(', ', map { '(' . literal($_) . ')' } @texts));
	is(scalar @r, 10, "$what: 100 keys in ten batches");
	is($crm->sql('SELECT count(*) FROM dv.lab_sample'), 100, '… and as many rows');
}

# ---- refused rows

empty();
my (undef, undef, $said) = $crm->node->psql('postgres', "INSERT INTO dv.lab_sample (lab_text, lab_grade) VALUES ('1/2', 1), ('3/4', 7)");
like($said, qr/ERROR:  could not upsert into .* 7 .*\n.*Refused row: 2\./, 'a row that is refused ends the statement');
$crm->sql("SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.lab_sample (lab_text, lab_grade) VALUES ('1/2', 1), ('3/\"4', 7), ('5ä\"', 7)");
is($crm->sql("SELECT string_agg(lab_text, ' ') FROM dv.lab_sample"), '1/2', 'or is filed');
is($crm->sql(q(SELECT string_agg(operation || ' ' || ("row"->>'lab_text') || ' ' || ("row"->>'lab_grade'), ', ' ORDER BY row_number) FROM dataverse.rejects)),
	'upsert 3/"4 7, upsert 5ä" 7', '… with its key');
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_name'); DELETE FROM dv.lab_sample");
$crm->sql("SET dataverse_fdw.insert_mode = 'create'; INSERT INTO dv.lab_sample (lab_name) VALUES ('no/key'), ('no/key')");
(undef, undef, $said) = $crm->node->psql('postgres', "INSERT INTO dv.lab_sample (lab_name, lab_count) VALUES ('no/key', 1)");
like($said, qr/ERROR: .*more than one row has this key\n.*\nHINT:  Name the columns of an alternate key of the table, in option "upsert_key"/,
	'columns that are not a key are detected');
$crm->sql("ALTER FOREIGN TABLE dv.lab_sample OPTIONS (SET upsert_key 'lab_text')");
empty();
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_count) VALUES ('taken', 5)");
(undef, undef, $said) = $crm->node->psql('postgres', "INSERT INTO dv.lab_sample (lab_text, lab_count) VALUES ('other/key', 5)");
like($said, qr/ERROR: .*lab_sample_count violated/, 'a duplicate of another key is finally an error');
is($crm->sql("SELECT string_agg(lab_text, ' ') FROM dv.lab_sample"), 'taken', '… and changes nothing');

# ---- lost answers

my $rows = "SELECT CASE i % 2 WHEN 0 THEN 'r/' || i ELSE 'r ' || i END, 'lost ' || i FROM generate_series(1, 40) i";

for my $case (
	(map { [ 'lab_sample', 0, $_ ], [ 'lab_plain', 0, $_ ], [ 'lab_plain', 1, $_ ] }
		'reset_after_commit', 'truncate', 'garble'),
	map { [ 'lab_sample', $_, 'reset_after_commit' ] } 'UpsertMultiple', 'UpdateMultiple')
{
	my ($table, $where, $action) = @$case;
	my ($path, $after) = $where =~ /\d/ ? ('$batch', $where) : ($where, 0);

	empty() if $path ne 'UpdateMultiple';
	$crm->fault(path => $path, action => $action, after => $after);
	$crm->sql("INSERT INTO dv.$table (lab_text, lab_name) $rows");
	$crm->no_faults;
	is($crm->sql("SELECT count(*), count(DISTINCT lab_text) FROM dv.$table WHERE lab_name = 'lost ' || substr(lab_text, 3)"),
		'40|40', "$table: $action of $path loses or duplicates no row");
	is($crm->sql("SELECT count(*) FROM dv.$table"), '40', '… at all');
}
$crm->fault(path => '$batch', batch_part => 3, status => 429, code => '0x80072322', retry_after => 0, times => 2);
empty();
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_name) $rows");
$crm->no_faults;
is($crm->sql("SELECT count(*) FROM dv.lab_sample"), '40', 'a throttled query is retried');

# ---- a collation that equates more keys than we know finds the same row twice

empty();
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('h/1', 'old')");
my $one = $crm->sql('SELECT lab_sampleid FROM dv.lab_sample');
my $found = "--found\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 200 OK\r\n"
  . "Content-Type: application/json; odata.metadata=minimal\r\n\r\n{\"value\":[{\"lab_sampleid\":\"$one\"}]}\r\n";
$crm->fault(path => '$batch', status => 200, body => $found x 2 . "--found--\r\n",
	headers => { 'Content-Type' => 'multipart/mixed; boundary=found' });
is_deeply(lines(sent("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('h/1', 'first'), ('h/2', 'second')")),
	[ ('POST $batch') x 2 ], 'a row that occurs twice is not updated by one bulk message');
$crm->no_faults;
is($crm->sql('SELECT count(*), min(lab_name) FROM dv.lab_sample'), '1|second', '… which would drop the second update');

# ---- a $batch of queries that is too long

$dvsim->quirks('batch-250');
for my $table ('lab_sample', 'lab_plain')
{
	empty();
	my @r = sent('SET dataverse_fdw.batch_size = 1000; '
		. join('; ', map { "INSERT INTO dv.$table (lab_text, lab_name) SELECT 'q/' || i % 600, 'long' FROM generate_series($_ + 1, $_ + 600) i" } 0, 600, 1200));
	my @long = grep { $_ > 250 } map { scalar(() = $_->{body} =~ /^GET /mg) } @r;

	is($long[0], 600, "$table: first, as many rows as a batch has are looked up");
	ok(!(grep { $_ != 300 } @long[ 1 .. $#long ]), '… then half of them, until that is accepted');
	cmp_ok(scalar(@long), '<=', 3, '… and never again') or diag("@long");
	is($crm->sql("SELECT count(*), count(DISTINCT lab_text) FROM dv.$table WHERE lab_name = 'long'"), '600|600', '… each row is created once');
}
$dvsim->quirks();

# ---- others

for my $table ('lab_sample', 'lab_plain')
{
	empty();
	# the answers arrive when all sessions have looked up their rows
	$crm->fault(path => $table eq 'lab_sample' ? '$batch' : 'UpsertMultiple', action => 'delay', delay_ms => 700, times => 3);
	my @sessions = map {
		$crm->background("INSERT INTO dv.$table (lab_text, lab_name) SELECT lab_text, 'from $_' FROM ($rows) AS r (lab_text, lab_name)", "session $_")
	} 1 .. 3;
	my @said = map { $crm->finish($_) } @sessions;
	$crm->no_faults;
	is(join('', @said), '', "$table: sessions upsert the same keys at the same time");
	is($crm->sql("SELECT count(*), count(DISTINCT lab_text) FROM dv.$table WHERE lab_name LIKE 'from %'"), '40|40', '… and each row exists once');
}

empty();
$crm->sql("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('g/1', 'old'), ('g/2', 'old')");
$crm->fault(path => '$batch', action => 'delay', delay_ms => 2000);
requests();
my $session = $crm->background("INSERT INTO dv.lab_sample (lab_text, lab_name) VALUES ('g/1', 'new'), ('g/2', 'new')", 'gone');
my @seen;
push @seen, requests() until @seen;
$dvsim->delete('lab_samples(' . $crm->sql("SELECT lab_sampleid FROM dv.lab_sample WHERE lab_text = 'g/1'") . ')');
is($crm->finish($session), '', 'a row that is deleted after it was found');
is($crm->sql("SELECT string_agg(lab_text || ' ' || lab_name, ', ' ORDER BY lab_text) FROM dv.lab_sample"), 'g/1 new, g/2 new', '… is created again, with its key');

$crm->stop;
done_testing();
