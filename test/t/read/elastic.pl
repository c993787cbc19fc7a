# elastic.pl
#		Elastic tables: a condition on the partition is sent as partitionId, and
#		a session reads its own writes.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

# dataverse.ci_ai exists only in UTF-8
my $crm = Crm->start('elastic', initdb => [ '--encoding', 'UTF8' ]);
my $since = 0;

# Returns the reads of the table since the last call.
sub reads
{
	my $log = $crm->dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	$since = $log->{next};
	return grep { $_->{method} eq 'GET' && $_->{target} =~ /new_readings/ } @{ $log->{requests} };
}

# Returns the partition of each of them, or '-'.
sub partitions
{
	return join ' ', map { $_->{target} =~ /[?&]partitionId=([^&]*)/ ? $1 : '-' } reads();
}

# Returns the session token of each of them.
sub tokens
{
	return join ' ', map { $_->{headers}{'MSCRM.SessionToken'} // '-' } reads();
}

$crm->sql(
	q{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_reading) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.new_reading OPTIONS (ADD page_size '2');
	CREATE FUNCTION add(name text, partition text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT dataverse.request('crm', 'POST', 'new_readings',
		jsonb_build_object('new_name', name, 'partitionid', partition)) $$;
	DO $$ BEGIN
		PERFORM add('row ' || n, p) FROM generate_series(1, 5) n, unnest(ARRAY['dev-1', 'DEV-1', 'ä b']) p;
	END $$});

# ---- partitions

sub asks
{
	my ($condition, $partitions, $rows) = @_;

	reads();
	is($crm->sql("SELECT count(new_name) FROM dv.new_reading WHERE $condition"), $rows, $condition);
	is(partitions(), $partitions, '… is sent for the right partition');
	return;
}

asks("partitionid = 'dev-1'", 'dev-1 dev-1 dev-1', 5);
asks("partitionid = 'ä b' AND new_name <> 'row 1' AND new_name LIKE 'row%'", '%C3%A4%20b %C3%A4%20b %C3%A4%20b', 4);
asks("partitionid = 'dev-1' AND (partitionid = 'dev-1' OR new_name = 'x')", 'dev-1 dev-1 dev-1', 5);
asks("partitionid = 'dev-1' OR new_name = 'row 1'", join(' ', ('-') x 6), 7);
asks("partitionid = 'no:such'", '-', 0);
asks("partitionid = 'none'", 'none', 0);
asks(qq{partitionid = '"dev-1"'}, '-', 0);
asks("partitionid = ''", '-', 0);
asks("partitionid <> 'dev-1'", join(' ', ('-') x 8), 10);
asks("partitionid IN ('dev-1', 'none')", join(' ', ('-') x 5), 5);
if ($crm->has_ci_ai)
{
	asks("partitionid COLLATE dataverse.ci_ai = 'dev-1'", join(' ', ('-') x 8), 10);
	asks("partitionid COLLATE dataverse.ci_ai = 'dev-1' AND partitionid = 'dev-1'", 'dev-1 dev-1 dev-1', 5);
}
like($crm->sql(q{SET plan_cache_mode = force_generic_plan;
	PREPARE p(text) AS SELECT new_name FROM dv.new_reading WHERE partitionid = $1;
	EXPLAIN (VERBOSE) EXECUTE p('x')}), qr/&partitionId=:1\n\s*Values: :1 = \$1$/m, 'EXPLAIN shows it');

# ---- written rows are visible

reads();
$crm->sql('SELECT count(*) FROM dv.new_reading');
unlike(tokens(), qr/[^- ]/, 'a session without writes sends no token');
$crm->sql(q{SELECT add('new', 'dev-1'); SELECT new_name FROM dv.new_reading WHERE partitionid = 'dev-1'});
my $first = tokens();
like($first, qr/^(\S+#\d+) \1 \1$/, 'a session with writes sends the token of its last write for each page');
$crm->sql(q{SELECT add('new', 'dev-1');
	SELECT new_name FROM dv.new_reading LIMIT 1;
	SELECT add('new', 'dev-1');
	SELECT new_name FROM dv.new_reading LIMIT 1});
my ($second, $third) = split / /, tokens();
isnt($second, '-', 'each write has a token');
isnt($second, $third, 'and the last one is sent');
my $long = join ' OR ', map { "new_name = '" . ('z' x 250) . "$_'" } 1 .. 160;
$crm->sql("SELECT add('new', 'dev-1'); SELECT count(new_name) FROM dv.new_reading WHERE $long");
my ($batch) = grep { $_->{target} =~ /\$batch/ } @{ $crm->dvsim->control('GET', "/_dvsim/requests?since=$since")->json->{requests} };
like($batch->{body}, qr/^MSCRM\.SessionToken: \S+#\d+\r$/m, 'also within a $batch');

$crm->stop;
done_testing;
