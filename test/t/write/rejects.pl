# rejects.pl
#		Rejected rows are user data, so dumps contain them.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('rejects');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';

$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE DATABASE copy;
	CREATE ROLE writer LOGIN;
	CREATE EXTENSION dataverse_fdw;
	CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', tenant_id 'contoso');
	CREATE SCHEMA dv;
	CREATE FOREIGN TABLE dv.account (accountid uuid, name text) SERVER crm OPTIONS (entity_set 'accounts');
	INSERT INTO dataverse_private.rejected_rows (role, server, foreign_table, operation, row_number, row_id, "row", code, sqlstate, message, attempts)
	SELECT 'writer', 'crm', 'dv.account', 'insert', i, gen_random_uuid(), '{"name": "x"}', '0x80044331', '22001', 'too long', 1
	FROM generate_series(1, 3) i});
my $all = 'SELECT * FROM dataverse.rejects ORDER BY id';
my $before = $node->safe_psql('postgres', $all);

$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'a dump is written');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', $dump ], 'and restored');
is($node->safe_psql('copy', $all), $before, 'the rejected rows are in it');
is($node->safe_psql('copy', 'SET ROLE writer; SELECT count(*) FROM dataverse.rejects'), 3, 'for the role that wrote them');
is( $node->safe_psql('copy', q{
	INSERT INTO dataverse_private.rejected_rows (role, server, foreign_table, operation, sqlstate, message, attempts)
	VALUES ('writer', 'crm', 'dv.account', 'insert', '22001', '', 1) RETURNING id}) , 4, 'new ids continue after them');

# ---- dropped objects do no harm

$node->safe_psql('copy', 'DROP SERVER crm CASCADE');
is($node->safe_psql('copy', 'SELECT retried FROM dataverse.retry_rejects()'), 0, 'a dropped foreign table is skipped');
is($node->safe_psql('copy', 'SET ROLE writer; DELETE FROM dataverse.rejects; SELECT count(*) FROM dataverse.rejects'),
	0, 'a role can delete the rows that it wrote');

$node->stop;
done_testing();
