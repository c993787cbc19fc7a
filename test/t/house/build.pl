# build.pl
#		Builds as packagers do: from the archive of "make dist", outside the
#		source tree, with clang if it is installed; runs installcheck without
#		a service.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Cwd qw(getcwd);
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = getcwd();
$source =~ s{/test$}{};

# ---- the archive, made in a repository of its own: this source tree may be a copy without one

my $folder = PostgreSQL::Test::Utils::tempdir;
my $build = PostgreSQL::Test::Utils::tempdir;
my $checkout = "$folder/checkout";

mkdir $checkout or die $!;
system_or_bail('sh', '-c', "tar -c -C $source --exclude=.git --exclude=tmp_check -f - . | tar -x -C $checkout -f -");
my @git = ('git', '-C', $checkout, '-c', 'user.name=nobody', '-c', 'user.email=nobody@localhost');
system_or_bail(@git, @$_) for [qw(init -q)], [qw(add .)], [qw(commit -q -m all)];
my $name = 'dataverse_fdw-' . `make -s -C $checkout print-DISTVERSION` =~ s/\s+\z//r;
command_ok([ 'make', '-s', '-C', $checkout, 'dist' ], 'make dist');
system_or_bail('unzip', '-q', "$checkout/$name.zip", '-d', $folder);

my $tree = "$folder/$name";
my @files = map { s{^\Q$tree/\E}{}r } split /\n/, `find $tree -type f`;
my %file = map { $_ => 1 } @files;
my $meta = decode_json(slurp_file("$tree/META.json"));
is(join(' ', grep { !$file{$_} } map { @$_{qw(file docfile)} } values %{ $meta->{provides} }), '', 'the archive has the files that META.json names');
is(join(' ', grep { !$file{$_} } qw(Makefile README.md LICENSE CHANGELOG.md doc/reference.md test/run)), '', 'the documents, and the tests');
is(join(' ', grep { m{^\.(?!editorconfig)|^debian/|\.(?:o|so|bc|zip)$|^sql/.*--} } @files), '', 'and nothing that is built, or belongs to the repository');

# ---- the build

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
