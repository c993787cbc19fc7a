# 001_readme.pl
#		Runs the SQL of the README as it is against dvsim.
#
# All blocks of SQL are run in order in one database.  Blocks after the line
# "<!-- planned -->" do not work yet and must fail, so that the mark is removed
# when they work.  Only what depends on the environment is replaced.  Blocks that
# need pg_cron are left out where it is not installed.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Dvsim;

my $dvsim = Dvsim->start;
my $node = PostgreSQL::Test::Cluster->new('readme');
my $cron = -e qx(pg_config --pkglibdir) =~ s/\s+$//r . '/pg_cron.so';

$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_cron'\ncron.database_name = 'postgres'\n") if $cron;
$node->start;

my $readme = slurp_file("$FindBin::Bin/../../README.md");
my $ran = 0;

while ($readme =~ /^(<!-- planned -->\n)?```sql\n(.*?)^```$/msg)
{
	my ($planned, $sql) = ($1, $2);
	my ($title) = $sql =~ /^\s*(.+)/;

	next if !$cron && $sql =~ /\bcron\b|pg_cron/;

	# dvsim also issues the tokens
	$sql =~ s{(url) '(https://contoso\.crm\.dynamics\.com)'}{"$1 '$2', authority '$2'"}ge;
	$sql =~ s{https://contoso\.crm\.dynamics\.com}{$dvsim->base}ge;
	$sql =~ s/your-client-id/app1/g;
	$sql =~ s/your-client-secret/secret1/g;

	# a planned block may depend on another one, so each of its statements is tried
	my @parts = $planned ? ($sql =~ /(.*?;[^\n]*\n)/sg) : ($sql);
	for my $part (@parts)
	{
		my ($status, $out, $err) = $node->psql('postgres', $part);

		if ($planned)
		{
			isnt($status, 0, "planned, and refused: $part");
		}
		else
		{
			is($status, 0, "runs: $title") or diag($err);
			$ran++;
		}
	}
}

cmp_ok($ran, '>=', 2, 'the README has examples that run');

# what the blocks have created exists, and works
is( $node->safe_psql('postgres', "SELECT application_user FROM dataverse.whoami('crm')"),
	'app1', 'the server of the example answers');
is($node->safe_psql('postgres', 'SELECT count(*) FROM dataverse.version()'),
	1, 'the extension answers');
is( $node->safe_psql('postgres', "SELECT unnest(srvoptions) FROM pg_foreign_server LIMIT 1"),
	'url=' . $dvsim->base,
	'the server of the example is dvsim');
is($dvsim->get('WhoAmI')->status, 200, 'and dvsim answers');
is( $node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE creditonhold) FROM dv.account"),
	'1889|1', 'the rows of the examples are in Dataverse');

is( $node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE age IS NULL) FROM dataverse.sync_state'),
	'4|0', 'the copies of the examples are in step');
if ($cron)
{
	is($node->safe_psql('postgres', q{SELECT string_agg(jobname || ' ' || username, ', ' ORDER BY jobname) FROM cron.job}),
		'clean copier, contacts copier, crm copier, crm-full copier', 'the jobs of the examples are scheduled');
}

$node->stop;
done_testing();
