# virtual_columns.pl
#		Columns that PostgreSQL computes when they are read (18 and later), and
#		that the service does not know.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $crm = Crm->start('virtual');

plan skip_all => 'PostgreSQL 18 has virtual generated columns'
  if $crm->node->safe_psql('postgres', 'SHOW server_version_num') < 180000;

$crm->sql(
	q{CREATE FOREIGN TABLE account (
		accountid uuid,
		name text,
		shout text GENERATED ALWAYS AS (upper(name)) VIRTUAL,
		n integer OPTIONS ("column" 'numberofemployees'),
		twice integer GENERATED ALWAYS AS (n * 2) VIRTUAL,
		phone text OPTIONS ("column" 'telephone1') GENERATED ALWAYS AS (name || ' ' || n) STORED
	) SERVER crm OPTIONS (entity_set 'accounts')});

sub is_sql
{
	my ($sql, $expected, $name) = @_;
	my ($status, $out, $err) = $crm->node->psql('postgres', $sql);

	is($err, '', "$name: no error");
	return is($out, $expected, $name);
}

is_sql(q{INSERT INTO account (name, n) VALUES ('a', 1), ('b', 2)}, '', 'INSERT');
is_sql(q{INSERT INTO account (name, n, twice) VALUES ('c', 3, DEFAULT) RETURNING shout, twice, phone},
	'C|6|c 3', 'INSERT … RETURNING');
is_sql(q{COPY account (name, n) FROM PROGRAM 'printf "d\t4\n"'}, '', 'COPY');
is_sql(q{SELECT name, shout, n, twice, phone FROM account ORDER BY n},
	"a|A|1|2|a 1\nb|B|2|4|b 2\nc|C|3|6|c 3\nd|D|4|8|d 4", 'SELECT');
is_sql(q{SELECT name FROM account WHERE twice = 4 AND shout = 'B'}, 'b', 'WHERE');
is_sql(q{SELECT (a).name, (a).twice FROM (SELECT a FROM account a WHERE n = 2) s}, 'b|4', 'a whole row');
is_sql(q{UPDATE account SET n = 20 WHERE shout = 'B' RETURNING twice, phone}, '40|b 20', 'UPDATE');
is_sql(q{UPDATE account SET name = shout || twice WHERE n = 20}, '', 'UPDATE from one');
is_sql(q{SELECT name, phone FROM account WHERE twice = 40}, 'B40|B40 20', 'which was written');
is_sql(q{DELETE FROM account WHERE twice = 40 RETURNING shout}, 'B40', 'DELETE');
is_sql(q{ANALYZE account}, '', 'ANALYZE');
is_sql(
	q{SELECT attname FROM pg_stats WHERE tablename = 'account' ORDER BY attname},
	"accountid\nn\nname\nphone", 'statistics of the columns of the service');
is_sql(
	q{SELECT column_name, drift FROM dataverse.import_diff('public', false) WHERE column_name IN ('shout', 'twice')},
	'', 'import_diff');

done_testing();
