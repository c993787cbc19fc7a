# package.pl
#		What packagers and developers rely on: one version number, file heads
#		that state the purpose, few exported symbols, refusal of old servers.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

chdir "$FindBin::Bin/../../.." or die $!;

my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my $null = '2>/dev/null';

sub capture
{
	my ($command) = @_;
	my $out = `$command`;

	chomp $out;
	return $out;
}

sub house
{
	my ($name) = @_;
	return capture("make -s print-$name DVSIM_URL=any PG_CONFIG=/nonexistent $null");
}

# ---- one version

my $version = house('EXTVERSION');
my $meta = decode_json(slurp_file('META.json'));
my ($control) = slurp_file('dataverse_fdw.control') =~ /^default_version = '(.*)'/m;

like($version, qr/^\d+\.\d+$/, 'the Makefile has a version');
is($control, $version, 'the control file has the same');
is($meta->{provides}{dataverse_fdw}{version}, "$version.0", 'and META.json');
ok(-f "sql/dataverse_fdw--$version.sql", 'its script exists');
is(join(' ', grep { slurp_file($_) =~ /[^\t\n -~]/ } glob 'sql/dataverse_fdw--*.sql'), '', '... and is ASCII, as it is run in databases of any encoding');
like(slurp_file('CHANGELOG.md'), qr/^## \Q$version\E\b/m, 'and the changelog has an entry for it');

# ---- file heads state the purpose

my @sources = glob 'src/*.[ch] src/*/*.[ch] src/*/*/*.[ch]';
my @dvsim = glob 'test/dvsim/*.[ch] test/dvsim/*/*.[ch]';
my @headless = grep { my ($name) = m{([^/]+)$}; slurp_file($_) !~ m{\A/\*\n \* \Q$name\E\n \*\t\t?\S} } @sources;
is("@headless", '', 'every C file begins with its name and purpose');

my (@long, @endless);
for my $file (@sources, @dvsim)
{
	my ($n, $begun) = (0);

	for my $line (split /\n/, slurp_file($file))
	{
		$n++;
		$begun = $n if $line eq '{';
		push @endless, "$file:$begun" if $line eq '}' && $n - $begun > 150;
	}
	push @long, "$file: $n" if $n > 1500;
}
is("@long", '', 'no C file has more than 1500 lines');
is("@endless", '', 'no function has more than 150 lines');

# ---- dependencies: each floor may use those below it, and all may use the language

my %below = (
	sync => [qw(sync fdw client pool net dataverse)],
	fdw => [qw(fdw client pool net dataverse)],
	client => [qw(client pool net dataverse)],
	pool => [qw(pool net)],
	net => [qw(net)],
	dataverse => [qw(dataverse)]);
# the language uses only these helpers of the floors, which use nothing themselves
my %helper = map { $_ => 1 } qw(net/clock.h net/date.h net/hex.h net/json.h net/text.h net/url.h);
my @upward;

for my $file (grep { m{^src/\w+/} } @sources)
{
	my ($floor) = $file =~ m{^src/(\w+)/};

	for my $header (slurp_file($file) =~ /^#include "([^"]+)"/mg)
	{
		# a name without a folder is PostgreSQL's
		my $near = $file =~ s{[^/]+$}{$header}r;
		my ($of) = $header =~ m{^(\w+)/};

		next if !-f "src/$header" && !-f $near;
		next if $header eq 'compat.h';
		push @upward, "$file: $header"
		  unless defined $of
		  && (grep { $_ eq $of } @{ $below{$floor} } or $floor eq 'dataverse' && $helper{$header});
	}
}
is(join("\n", @upward), '', 'headers are included with their floor, and none from above');

my @bare = grep { slurp_file($_) !~ /SPDX-License-Identifier: PostgreSQL/ }
  @sources, @dvsim, glob 'test/unit/*.c';
is("@bare", '', 'every C file names its license');

# ---- and in fdw/, each room may use some others
my %rooms = (
	'' => [''],
	plan => [ '', 'plan', 'scan' ],
	scan => [ '', 'plan', 'scan' ],
	modify => [ '', 'plan', 'scan', 'modify' ],
	admin => [ '', 'plan', 'scan', 'modify', 'admin' ]);
# the handler, EXPLAIN, and the hooks use all rooms; a scan waits for rows that were written
my %knows_all = map { $_ => 1 } qw(src/fdw/dataverse_fdw.c src/fdw/explain.c src/fdw/statement.c);
my @crossing;

for my $file (grep { m{^src/fdw/} && !$knows_all{$_} } @sources)
{
	my ($room) = $file =~ m{^src/fdw/(?:(\w+)/)?[^/]+$};

	for my $header (slurp_file($file) =~ m{^#include "fdw/([^"]+)"}mg)
	{
		my ($of) = $header =~ m{^(?:(\w+)/)?[^/]+$};

		next if $header eq 'modify/drain.h';
		push @crossing, "$file: $header" unless grep { $_ eq ($of // '') } @{ $rooms{ $room // '' } };
	}
}
is(join("\n", @crossing), '', 'rooms include only headers that they may use');

# ---- values of columns: a Datum is read only where its type is known

# file => the number of Datums read in it, and how their type is known
my %reads = (
	'bind.c' => [ 10, 'values of the types that ship.c (type_fits) lets through' ],
	'capture.c' => [ 7, 'values of the same column, compared by their images; the id, whose type column_of() compares' ],
	'captured.c' => [ 3, 'columns of the extension\'s tables' ],
	'changes.c' => [ 1, 'an argument, text[]' ],
	'encode.c' => [ 19, 'each function is called for its line of conversion_list.h only' ],
	'evaluate.c' => [ 1, 'LIMIT and OFFSET, which are bigint' ],
	'explain.c' => [ 3, 'LIMIT and OFFSET, which are bigint' ],
	'fit.c' => [ 1, 'the result of an operator' ],
	'grid.c' => [ 16, 'switches on the type of the value, of the kinds that ship.c lets through; results of functions' ],
	'group_merge.c' => [ 3, 'values made here; the result of a comparison' ],
	'group_scan.c' => [ 4, 'switches on the type' ],
	'list.c' => [ 4, 'arrays, by the operators whose argument they are' ],
	'list_check.c' => [ 1, 'an array, by the operator whose argument it is' ],
	'lookup.c' => [ 4, 'a key of the type that the join has; results of hash functions and operators' ],
	'merge_page.c' => [ 2, 'an argument, uuid[]' ],
	'hold.c' => [ 2, 'a privilege list and expressions: columns of catalogs' ],
	'identity.c' => [ 6, 'ids, partitions, table names, versions: relation.c (check_types) and find_version()' ],
	'read_back.c' => [ 1, 'an id' ],
	'returning.c' => [ 5, 'a switch on the type; the whole row' ],
	'row.c' => [ 2, 'table names: relation.c (check_types); a lookup that refers_here() has found to be a uuid' ],
	'copy_run.c' => [ 1, 'an argument that the procedure declares as boolean' ],
	'spi.c' => [ 4, 'switches on the type' ],
	'push.c' => [ 4, 'results of our own queries and of functions' ],
	'state.c' => [ 21, 'columns of the extension\'s tables' ],
	'state_function.c' => [ 5, 'the types are declared, or those of columns of the extension\'s tables' ],
	'plan_group.c' => [ 1, 'the first argument of date_trunc()' ],
	'rejects.c' => [ 1, 'a column of a query of our own' ],
	'read.c' => [ 1, 'a text of the kinds that ship.c lets through' ],
	'setting.c' => [ 1, 'the result of pg_trigger_depth()' ],
	'ship.c' => [ 5, 'switches on the type; arrays, by the operators whose argument they are' ],
	'tid.c' => [ 1, 'the id: relation.c (check_types)' ]);

for my $file (grep { m{^src/(?:fdw|sync)/} } @sources)
{
	my ($name) = $file =~ m{([^/]+)$};
	my $n = () = slurp_file($file) =~ /\b(?:DatumGet|TextDatumGet|PG_DETOAST_DATUM)\w*\(/g;

	is($n, ($reads{$name} // [0])->[0],
		"$name reads a Datum only where its type is known: see src/README.md, then give the reason in this test");
}

# ---- npm may use any registry, but must install exactly these packages

my $lock = decode_json(slurp_file('test/bench/npm/package-lock.json'))->{packages};
my $asked = decode_json(slurp_file('test/bench/npm/package.json'))->{dependencies};
my @locked = grep { $_ ne '' } sort keys %$lock;

ok(exists $lock->{'node_modules/dynamics-web-api'}, 'the npm client is locked');
is($lock->{"node_modules/$_"}{version}, $asked->{$_}, "$_ in the requested version") for keys %$asked;
is(join(' ', grep { !$lock->{$_}{integrity} } @locked), '', 'with the hash of each package');
is(join(' ', grep { exists $lock->{$_}{resolved} } @locked), '', 'and no address');

# ---- formatting

SKIP:
{
	my $unformatted = capture('test/indent --check 2>&1');

	if ($? >> 8 == 2)
	{
		diag($unformatted);
		skip 'there is nothing to format with', 1;
	}
	is($unformatted, '', 'every C file is formatted (make indent)');
}

# ---- exported symbols

my $library = capture("$pg_config --pkglibdir") . '/dataverse_fdw.so';
my %finfo = map { $_ => 1 }
  grep { !/^(?:_init|_fini|_PG_init|__bss_start|_edata|_end)$/ }
  map { /^\S+ [TDBR] (\S+)/ } split /\n/, capture("nm -D --defined-only $library");
my @extra = grep { !/^(?:Pg_magic_func|pg_finfo_.*)$/ && !$finfo{"pg_finfo_$_"} } sort keys %finfo;

ok($finfo{Pg_magic_func}, 'the library has its magic block');
ok($finfo{dataverse_fdw_handler}, 'and its handler');
is("@extra", '', 'and exports nothing that the server does not look up');

# ---- refusals

like(capture("make VERSION_NUM=150001 VERSION=15.1 PG_CONFIG=$pg_config all 2>&1"),
	qr/needs PostgreSQL 15\.2 or later.* 15\.1/, 'make refuses PostgreSQL 15.1');
like(
	capture("echo '#include \"compat.h\"' | cc -E -DPG_VERSION_NUM=150001 -Isrc - 2>&1"),
	qr/needs PostgreSQL 15\.2 or later/,
	'and so does the compiler');
like(capture('make PG_CONFIG=/nonexistent 2>&1'),
	qr/does not run: install/, 'make says that pg_config is missing');
for my $target (qw(test test-asan demo check-live fuzz dvsim bench-dvsim bench-peers indent clean dist))
{
	is(system("make -n $target PG_CONFIG=/nonexistent >/dev/null 2>&1"),
		0, "make $target does not need pg_config");
}

# ---- scripts run by hand

for my $call ('demo --halt', 'demo --stop', 'run regress', 'indent --chek', 'live/run --clean a b', 'newcomer readme', 'package', 'package remove', '../packaging/image-volume', 'picture', 'picture a.svg 3 8 0.5 rows',
	'asan regress', 'chroot', 'chroot sid', 'chroot trixie --only=t', 'bench/write --memory 5000', map { "bench/$_ 5000" } qw(encode peers read sync track write))
{
	my $said = capture("bash -c 'test/$call' 2>&1 </dev/null");

	isnt($?, 0, "test/$call is an error");
	like($said, qr/^usage: |^[a-z]+: .*\n  \S/, '... that shows the usage');
}

done_testing();
