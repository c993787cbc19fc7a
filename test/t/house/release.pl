# release.pl
#		What is published names the same versions and packages everywhere:
#		META.json, the Debian packages, the spec, the images, the workflows.
#		build.pl makes the archive for PGXN.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

chdir "$FindBin::Bin/../../.." or die $!;

my %make = map { $_ => `make -s print-$_ PG_CONFIG=/nonexistent` =~ s/\s+\z//r } qw(EXTENSION EXTVERSION DISTVERSION MAJORS);
my $meta = decode_json(slurp_file('META.json'));

# ---- META.json, by the rules of https://pgxn.org/spec/ (1.0.0)

my $text = qr/\S/;
my $term = qr{\A[^\s/\\[:cntrl:]]{2,}\z};
my $uri = qr{\Ahttps?://\S+\z};
my $path = qr{\A(?!/)(?!.*\.\./)\S{2,}\z};
my $semantic = qr/(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?/;
my $range = qr/\A(?:(?:[=!<>]=|[<>])?\s*(?:$semantic|0)(?:,\s*(?!\z)|\z))+\z/;
my $required = { requires => [ optional => { any => $range } ] };
my $relations = { map { $_ => [ optional => { any => $range } ] } qw(requires recommends suggests conflicts) };

# A value is a text that matches, a list of such texts, or an object: its keys, or "any" key.
my $rules = {
	name => $term,
	version => qr/\A$semantic\z/,
	abstract => $text,
	maintainer => [ list => $text ],
	license => qr/\A(?:postgresql|bsd|mit|apache_2_0)\z/,
	provides => {
		any => {
			file => $path,
			version => qr/\A$semantic\z/,
			abstract => [ optional => $text ],
			docfile => [ optional => $path ] } },
	'meta-spec' => { version => qr/\A1\.0\.\d+\z/, url => [ optional => $uri ] },
	description => [ optional => $text ],
	generated_by => [ optional => $text ],
	tags => [ optional => [ list => qr{\A[^/\\[:cntrl:]]{2,255}\z} ] ],
	prereqs => [ optional => { map { $_ => [ optional => $relations ] } qw(configure build test runtime develop) } ],
	release_status => [ optional => qr/\A(?:stable|testing|unstable)\z/ ],
	resources => [
		optional => {
			homepage => [ optional => $uri ],
			bugtracker => [ optional => { web => [ optional => $uri ], mailto => [ optional => qr/@/ ] } ],
			repository => [ optional => { map { $_ => [ optional => $text ] } qw(url web type) } ] } ] };

# Returns what is wrong with a value.
sub faults
{
	my ($rule, $value, $where) = @_;

	if (ref $rule eq 'Regexp')
	{
		return !defined $value || ref $value || $value !~ $rule ? $where : ();
	}
	if (ref $rule eq 'ARRAY')
	{
		my ($kind, $inner) = @$rule;

		return defined $value ? faults($inner, $value, $where) : () if $kind eq 'optional';
		return $where if ref $value ne 'ARRAY' || !@$value;
		return map { faults($inner, $value->[$_], "$where\[$_]") } 0 .. $#$value;
	}
	return $where if ref $value ne 'HASH' || !%$value;
	my %known = $rule->{any} ? map { $_ => $rule->{any} } keys %$value : %$rule;
	return map { $known{$_} ? faults($known{$_}, $value->{$_}, "$where/$_") : /^x_/i ? () : "$where/$_" }
	  sort keys %{ { %known, %$value } };
}

is(join(' ', faults($rules, $meta, '')), '', 'META.json keeps the rules of PGXN');

# the rules detect mistakes
for my $mistake (
	[ '/abstract' => sub { delete $_[0]{abstract} } ],
	[ '/version' => sub { $_[0]{version} = '1.0' } ],
	[ '/tag' => sub { $_[0]{tag} = ['fdw'] } ],
	[ '/tags' => sub { $_[0]{tags} = 'fdw' } ],
	[ '/maintainer[0]' => sub { $_[0]{maintainer} = [''] } ],
	[ '/provides/dataverse_fdw/file' => sub { $_[0]{provides}{dataverse_fdw}{file} = '/etc/passwd' } ],
	[ '/prereqs/runtime/requires/PostgreSQL' => sub { $_[0]{prereqs}{runtime}{requires}{PostgreSQL} = '15.2' } ],
	[ '/release_status' => sub { $_[0]{release_status} = 'candidate' } ])
{
	my ($where, $make_it) = @$mistake;
	my $wrong = decode_json(slurp_file('META.json'));

	$make_it->($wrong);
	is(join(' ', faults($rules, $wrong, '')), $where, "... which detect a mistake in $where");
}

# ---- one version

like($make{DISTVERSION}, qr/\A\Q$make{EXTVERSION}\E\.\d+(?:-rc\d+)?\z/, 'the distribution has the version of the extension');
is($meta->{version}, $make{DISTVERSION}, 'and META.json that of the distribution');
is($meta->{release_status}, $make{DISTVERSION} =~ /-rc/ ? 'testing' : 'stable', 'with its status');
my ($debian) = slurp_file('debian/changelog') =~ /\A\S+ \(([^)]+)-\d+\) /;
is($debian, $make{DISTVERSION} =~ s/-/~/r, 'and so have the packages, in Debian\'s way');

# ---- the Debian packages

my $control = slurp_file('debian/control.in');
my ($major) = slurp_file('debian/control') =~ /^Package: postgresql-(\d+)-/m;
is(slurp_file('debian/control'), $control =~ s/PGVERSION/$major/gr, 'debian/control is made from control.in');
is(slurp_file('debian/tests/control'), slurp_file('debian/tests/control.in') =~ s/PGVERSION/$major/gr, 'and so is that of the tests');
my ($oldest) = $meta->{prereqs}{runtime}{requires}{PostgreSQL} =~ /^(\d+)/;
is(slurp_file('debian/pgversions'), "$oldest+\n", 'packages are built for the servers that META.json names');
my ($documented) = slurp_file('README.md') =~ /^apt-get install (postgresql gcc .*)$/m;
is(join(' ', grep { $control !~ /^ \Q$_\E,$/m } grep { /^lib/ } split ' ', $documented), '', 'with the libraries of README.md');

my ($spec) = slurp_file('packaging/dataverse_fdw.spec');
like($spec, qr/^%global distversion \Q$make{DISTVERSION}\E$/m, 'the spec has the version of the distribution');
like($spec, qr/^Version: +\Q$debian\E$/m, 'and writes it as RPM does');

# ---- images: what README.md installs, and no more after the build

for my $image (qw(packaging/Containerfile packaging/Containerfile.cnpg))
{
	my ($build, $rest) = split /^FROM (?=docker|scratch)(?!.* AS )/m, slurp_file($image) =~ s/\\\n//gr;

	is(join(' ', grep { $build !~ /[ \t]\Q$_\E\b/ } grep { !/^postgresql/ } split ' ', $documented), '', "$image builds with what README.md names");
	unlike($rest, qr/-dev\b|\bgcc\b|\bmake\b/, 'and leaves none of it behind');
}

# ---- workflows: the servers, compilers, systems, and machines

my @majors = split ' ', $make{MAJORS};
my ($servers, $others) = map { slurp_file(".github/workflows/$_.yml") } qw(test release);

like(slurp_file('README.md'), qr/tested with $majors[0] to $majors[-1]\b/, 'README.md has the servers of the Makefile');
is($majors[0], $oldest, 'the first of which is the oldest that META.json names');
for my $workflow ($servers, $others)
{
	is(join(' ', grep { $_ ne join(', ', @majors) } $workflow =~ /^ +postgres: \[(.*)\]$/mg), '', 'a workflow has them');
	is(join(' ', grep { my $major = $_; !grep { $_ eq $major } @majors } $workflow =~ /(?:^ +- postgres: |REL_|pg-start )(\d+)/mg), '', 'and no others');
}
like($servers, qr/^ +postgres: \[/m, 'the tests run on each server');
for my $part ('compiler: clang', 'compiler: [gcc]', 'debian:trixie', 'ubuntu:noble', 'ubuntu-24.04-arm', 'make test-asan', 'WERROR=1')
{
	like($servers, qr/\Q$part\E/, "... and $part");
}
for my $part ('PACKAGE=1', 'pgxn-bundle', 'make dist', 'packaging/Containerfile ', 'packaging/Containerfile.cnpg')
{
	like($others, qr/\Q$part\E/, "a release consists of $part");
}
my @files_named = grep { m{^[a-z]+/[\w./-]+$} && !m{^(?:actions|library|postgres|postgresql|pgxn|extension)/} }
  "$servers $others" =~ m{(?<![\w/.:-])((?:packaging|test|debian|doc)/[\w./-]*\w)}g;
is(join(' ', grep { !-e } @files_named), '', 'the files that workflows name exist');

done_testing();
