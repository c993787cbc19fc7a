# build.pl
#		Builds as packagers do: outside the source tree, with clang if it is
#		installed; runs installcheck without a service.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Cwd qw(getcwd);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = getcwd();
$source =~ s{/test$}{};

# remove the build products of the source tree, so that this build cannot find them
my $tree = PostgreSQL::Test::Utils::tempdir;
my $build = PostgreSQL::Test::Utils::tempdir;
system_or_bail('cp', '-R', map({ "$source/$_" } qw(Makefile dataverse_fdw.control src sql expected)), $tree);
unlink glob("$tree/src/*/*.{o,bc} $tree/src/*/*/*.{o,bc} $tree/sql/*--*.sql");

my ($compiler) = grep { system("$_ --version >/dev/null 2>&1") == 0 } qw(clang cc);
my @make = ('make', '-s', '-f', "$tree/Makefile", "VPATH=$tree", "PG_CONFIG=$ENV{PG_CONFIG}", 'with_llvm=no');

my ($out, $err);
my $built = IPC::Run::run [ @make, "CC=$compiler", 'CFLAGS=-O0', 'all' ], '>', \$out, '2>', \$err, init => sub { chdir $build };
ok($built, "builds in another folder with $compiler") or diag($err);
ok(-f "$build/dataverse_fdw.so", 'the library is built');
ok(-f glob("$build/sql/dataverse_fdw--*.sql"), 'and the script');
is(join("\n", grep { m{^\Q$tree\E/.*warning:} } split /\n/, $err), '', 'without a warning about the source');
is_deeply([ glob("$tree/src/*/*.o $tree/src/*/*/*.o $tree/sql/*--*.sql") ], [], 'and nothing is written to the source tree');

my $node = PostgreSQL::Test::Cluster->new('packager');
$node->init;
$node->append_conf('postgresql.conf', 'compute_query_id = on');	# as in pg_stat_statements
$node->start;
delete local $ENV{DVSIM_URL};
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
my $passed = IPC::Run::run [ @make, 'installcheck' ], '>', \$out, '2>', \$err, init => sub { chdir $build };
ok($passed, 'installcheck passes without a service') or diag($out, $err, -f "$build/regression.diffs" ? slurp_file("$build/regression.diffs") : "");

my $all = () = $out =~ /\bok\b/g;
cmp_ok($all, '>=', 3, 'and runs tests');

done_testing();
