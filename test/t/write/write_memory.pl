# write_memory.pl
#		The memory of a backend that writes many rows does not depend on their
#		number.  ("make bench-write-memory" writes five million.)
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $warm = 20_000;
my $rows = 200_000;
my $most = 64 * 1024;    # kB above the start of the session
my $flat = 16 * 1024;    # kB more than for the first rows; four times as much is sent

# without limits, which would slow down the test
my $crm = Crm->start('write_memory',
	flags => [ '--limit-requests', 100_000_000, '--limit-exec', '1000000s', '--journal-bytes', 1_000_000 ]);

plan skip_all => 'there is no /proc here' unless -r '/proc/self/status';

$crm->sql(q{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	-- requests under way take memory, so the first rows have as many of them as the last ones
	ALTER SERVER crm OPTIONS (ADD max_parallel '8', ADD initial_parallelism_factor '1');
	-- the most memory that this backend ever had, in kB
	CREATE FUNCTION peak() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+) kB'))[1]::bigint $$});

sub accounts { return $crm->dvsim->control('GET', '/_dvsim/stats')->json->{tables}{account}; }

# Returns the figures that a session's statements print; the first rows are a warm-up.
sub check
{
	my ($what, $count, @statements) = @_;
	my ($start, $before, $after) = split /\n/,
	  $crm->sql(join ";\n", 'SELECT peak()', $statements[0], 'SELECT peak()', $statements[1], 'SELECT peak()');

	is(accounts(), $count, "$what: all accounts exist");
	cmp_ok($after - $start, '<', $most, "$what: " . ($after - $start) . " kB above the start of the session ($start kB)");
	cmp_ok($after - $before, '<', $flat, "$what: " . ($after - $before) . " kB more than for $warm rows");
	return;
}

# The rows are generated one by one, so that nothing else takes memory.
sub insert
{
	my ($n) = @_;

	return "INSERT INTO dv.account (name, accountnumber, description, revenue)
		SELECT 'Contoso ' || n, 'A-' || n, repeat('0123456789', 35), n * 1.25
		FROM (SELECT generate_series(1, $n) n) s";
}

check('INSERT', $warm + $rows, insert($warm), insert($rows));
check('COPY', 2 * ($warm + $rows),
	map { "COPY dv.account (name, description) FROM PROGRAM 'yes \"Contoso\t" . ('0123456789' x 40) . "\" | head -n $_'" } $warm, $rows);
# rows are kept until they are known to be written, in at most 32 MB; all of them would take 90 MB
$most += 32 * 1024;
$flat = 40 * 1024;
check('INSERT with RETURNING', 3 * ($warm + $rows),
	map { "SET dataverse_fdw.on_error = 'continue'; WITH i AS (" . insert($_) . ' RETURNING accountid, description) SELECT FROM i WHERE description IS NULL' } $warm, $rows);
check('INSERT with RETURNING of what is read back', 4 * ($warm + $rows),
	map { 'WITH i AS (' . insert($_) . ' RETURNING accountid, description, createdon, versionnumber) SELECT FROM i WHERE createdon IS NULL' } $warm, $rows);
# kept rows are freed when they have been returned
my $kept = $crm->sql(q{SET dataverse_fdw.on_error = 'continue';
	WITH i AS (INSERT INTO dv.account (name) SELECT n FROM generate_series(1, 20000) AS n
		RETURNING CASE WHEN name = '20000' THEN (SELECT sum(used_bytes) FROM pg_backend_memory_contexts
			WHERE pg_backend_memory_contexts.name = 'dataverse rows to return' AND account.name IS NOT NULL) END AS bytes)
	SELECT max(bytes) FROM i});
cmp_ok($kept, '<', 500_000, "after 20000 rows, $kept bytes are kept");
is($crm->sql('SELECT coalesce(sum(in_flight), 0) FROM dataverse.pool'), 0, 'no request is under way');

$crm->stop;
done_testing;
