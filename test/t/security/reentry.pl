# reentry.pl
#		User code that runs in the middle of ours (constraints of domains, casts,
#		check options, functions in conditions and in RETURNING) and that reads,
#		writes, and alters the same tables.  Whatever it does, a statement succeeds
#		or raises an error, and the server survives.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $crm = Crm->start('reentry', preload => 1, flags => [ '--limit-requests', 1_000_000 ], options => { max_parallel => 2, batch_size => 2, page_size => 5 });
my $log = -s $crm->node->logfile;

$crm->sql(<<'SQL');
CREATE SCHEMA re;

-- executes the setting re.statement, once, when it has been called re.calls times
CREATE FUNCTION re.act() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  statement CONSTANT text := coalesce(current_setting('re.statement', true), '');
  calls CONSTANT integer := coalesce(nullif(current_setting('re.calls', true), ''), '0')::integer;
BEGIN
  PERFORM set_config('re.calls', (calls - 1)::text, false);
  IF statement <> '' AND calls <= 0 THEN
    PERFORM set_config('re.statement', '', false);
    BEGIN
      EXECUTE statement;
    EXCEPTION WHEN OTHERS THEN
      RAISE NOTICE 'inside: % %', SQLSTATE, SQLERRM;
    END;
  END IF;
  RETURN true;
END $$;
CREATE FUNCTION re.act(anyelement) RETURNS anyelement LANGUAGE plpgsql AS 'BEGIN PERFORM re.act(); RETURN $1; END';
CREATE DOMAIN re.word AS text CHECK (re.act());
CREATE TYPE re.mood AS ENUM ('happy', 'sad');
CREATE FUNCTION re.as_json(re.mood) RETURNS json LANGUAGE plpgsql AS 'BEGIN PERFORM re.act(); RETURN to_json($1::text); END';
CREATE CAST (re.mood AS json) WITH FUNCTION re.as_json(re.mood);

CREATE FOREIGN TABLE re.account (accountid uuid, name re.word, number text OPTIONS (column 'accountnumber'), fax re.mood OPTIONS (type 'string'),
  employees int OPTIONS (column 'numberofemployees'), versionnumber bigint OPTIONS (readonly 'true'))
  SERVER crm OPTIONS (table 'account', entity_set 'accounts');
CREATE FOREIGN TABLE re.plain (accountid uuid, name text, number text OPTIONS (column 'accountnumber'), employees int OPTIONS (column 'numberofemployees'))
  SERVER crm OPTIONS (table 'account', entity_set 'accounts');
CREATE VIEW re.checked AS SELECT * FROM re.plain WHERE re.act() AND name <> 'none' WITH CHECK OPTION;
CREATE FUNCTION re.pages() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  page_link text;
  n bigint := 0;
BEGIN
  LOOP
    SELECT r.link INTO page_link FROM dataverse_private.read_page('re.account', NULL, page_link, NULL, NULL, false) AS r;
    n := n + (SELECT count(a::text) FROM dataverse_private.page_rows(NULL::re.account) AS a);
    EXIT WHEN page_link IS NULL;
  END LOOP;
  RETURN n;
END $$;
SQL

$crm->sql("INSERT INTO re.account (name, number, fax) SELECT 'row ' || i, i, 'happy' FROM generate_series(1, 12) AS i");
$crm->sql("CREATE TABLE re.copy (accountid uuid PRIMARY KEY, name re.word, number text, fax re.mood, employees int, versionnumber bigint)");
$crm->sql("CALL dataverse.pull('re.account', 're.copy')");
$crm->sql("CALL dataverse.track('re.copy')");

my @inside = (
	'SELECT re.pages()',
	"SELECT dataverse_private.page_start('re.account')",
	"SELECT dataverse_private.read_page('re.plain', NULL, NULL, NULL, NULL, false)",
	'SELECT dataverse_private.end_pages()',
	'SELECT count(*) FROM re.account x WHERE x.name IS NOT NULL',
	'SELECT count(*), sum(employees) FROM re.plain',
	"INSERT INTO re.plain (name) VALUES ('of the code')",
	"UPDATE re.plain SET employees = 7",
	"DELETE FROM re.plain WHERE name = 'of the code'",
	'SELECT dataverse_private.retrying(NULL)',
	'ANALYZE re.plain',
	'SELECT * FROM dataverse.retry_rejects()',
	"ALTER SERVER crm OPTIONS (SET page_size '4'); SELECT count(name) FROM re.plain; ALTER SERVER crm OPTIONS (SET page_size '5')",
	"ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_secret 'wrong'); SELECT dataverse.whoami('crm')",
	"DROP USER MAPPING FOR CURRENT_USER SERVER crm; SELECT count(name) FROM re.plain",
	'SELECT pg_cancel_backend(pg_backend_pid())',
	q{SELECT dataverse_private.copy_put(jsonb_populate_record(c, '{"columns": ["name"]}')) FROM dataverse_private.copies AS c; UPDATE re.copy SET name = 'once more', fax = 'sad';
		SELECT dataverse_private.copy_put(jsonb_populate_record(c, '{"columns": ["name", "number", "fax", "employees"]}')) FROM dataverse_private.copies AS c},
	"SELECT dataverse.reset_pool('crm')",
	'SELECT 1/0');
my @outside = (
	'SELECT re.pages()',
	"SELECT count(c) FROM dataverse.changes('re.account') AS c",
	"SELECT count(x.name::text) FROM re.account x",
	"SELECT count(*) FROM re.plain WHERE re.act()",
	"SELECT count(*) FROM re.account a JOIN re.account b ON b.name = a.name",
	"SELECT name, max(employees) FROM re.account GROUP BY name",
	'ANALYZE re.account',
	"INSERT INTO re.account (name, number) SELECT 'new', i FROM generate_series(1, 7) AS i RETURNING name, versionnumber",
	"INSERT INTO re.plain (name, number) SELECT 'new', i FROM generate_series(1, 7) AS i RETURNING re.act(name), number",
	"INSERT INTO re.checked (name, number) SELECT 'new', i FROM generate_series(1, 7) AS i",
	"UPDATE re.account SET number = 'u' WHERE name LIKE 'n%' RETURNING name",
	"UPDATE re.plain SET number = re.act('u'::text) WHERE re.act() RETURNING re.act(number)",
	"UPDATE re.checked SET number = 'v'",
	"DELETE FROM re.plain WHERE name = 'new' AND re.act() RETURNING re.act(name)",
	# rows that are refused locally, and by Dataverse
	"INSERT INTO re.account (name, number, fax, employees) SELECT 'new', CASE WHEN i % 3 = 0 THEN repeat('x', 21) ELSE i::text END, 'sad', CASE WHEN i % 4 = 0 THEN -i END FROM generate_series(1, 9) AS i",
	"INSERT INTO re.account (accountid, fax) SELECT CASE WHEN i % 3 = 0 THEN '00000000-0000-0000-0000-000000000000'::uuid END, 'sad' FROM generate_series(1, 9) AS i",
	'SELECT * FROM dataverse.retry_rejects()',
	# changes of a copy, which are captured
	"UPDATE re.copy SET number = number || '!', fax = CASE fax WHEN 'sad' THEN 'happy' ELSE 'sad' END::re.mood",
	"DELETE FROM re.copy WHERE re.act()");
my $mapping = "DROP USER MAPPING IF EXISTS FOR CURRENT_USER SERVER crm; CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1')";

# Runs each statement of a list inside the outer one; returns the errors.
sub within
{
	my ($outside) = @_;
	my $script = "\\set VERBOSITY verbose\nSET dataverse_fdw.on_error = 'continue';\n";
	my $n = 0;

	for my $inside (@inside)
	{
		$script .= "$mapping; SELECT set_config('re.calls', '" . ($n++ % 2 * 3) . "', false), set_config('re.statement', \$i\$$inside\$i\$, false);
			\\echo $inside\n$outside;\n";
	}
	my ($status, $out, $err) = $crm->node->psql('postgres', $script, on_error_stop => 0);

	$crm->node->poll_query_until('postgres', 'SELECT true');
	return '' if $status == 0 && $err !~ /XX\d{3}|inside: XX/;
	return ($out =~ /.*\n(.*)/s)[0] . "\n" . join "\n", $err =~ /^(.*XX\d{3}.*)$/mg;
}

for my $outside (@outside)
{
	$crm->sql("$mapping; DELETE FROM re.plain WHERE name NOT LIKE 'row%'; DELETE FROM dataverse.rejects WHERE id % 100 > 0");
	is(within($outside), '', "code that runs within $outside");
}

unlike(slurp_file($crm->node->logfile, $log), qr/terminated by signal|AddressSanitizer|runtime error|TRAP:/, 'the server has not crashed');
$crm->idle_ok('at the end');
$crm->stop;

done_testing();
