# image_volume.pl
#		A server of PostgreSQL 18 or later whose own folders do not have the
#		extension loads it from the layout of CloudNativePG's image volumes,
#		with the libraries that its machine lacks.
#
# packaging/image-volume makes the layout, here as in packaging/Containerfile.cnpg.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Dvsim;

my $top = "$FindBin::Bin/../../..";
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
my ($major) = `$pg_config --version` =~ /(\d+)/;

plan skip_all => "PostgreSQL $major has no extension_control_path" if $major < 18;

my $folder = PostgreSQL::Test::Utils::tempdir_short;
my %dir = map { my $dir = `$pg_config --$_`; chomp $dir; ($_ => $dir) } qw(bindir pkglibdir sharedir);

# ---- the volume, for a machine without json-c and libcurl

my @lacking = grep { /^\s*lib(?:json-c|curl|nghttp2)\.so/ } `/sbin/ldconfig -p`;
cmp_ok(scalar @lacking, '>=', 3, 'this machine has the libraries');
append_to_file("$folder/libraries", join '', grep { !/^\s*lib(?:json-c|curl|nghttp2)\.so/ } `/sbin/ldconfig -p`);
my $volume = "$folder/volume";
command_ok([ "$top/packaging/image-volume", $volume, "$folder/libraries" ], 'image-volume makes the layout');

my @files = map { s{^\Q$volume\E}{}r } sort split /\n/, `find $volume -type f`;
my @libraries = grep { m{^/lib/} } @files;
my @scripts = map { s{^.*/}{}r } glob "$top/sql/dataverse_fdw--*.sql";
is( join(' ', grep { m{^/share/} } @files),
	join(' ', sort map { "/share/extension/$_" } 'dataverse_fdw.control', @scripts),
	'/share/extension has the control file and the scripts');
is(join(' ', @libraries), join(' ', map { "/lib/$_" } qw(dataverse_fdw.so libcurl.so.4 libjson-c.so.5 libnghttp2.so.14)),
	'/lib has the library, and those that the machine lacks');
ok(-f "$volume/licenses/dataverse_fdw", 'and its licence');

# ---- a server without the extension: a copy, which finds its folders relative to its programs

my $root = $dir{bindir};
$root =~ s{/[^/]+$}{} while grep { index($_, "$root/") != 0 } @dir{qw(pkglibdir sharedir)};
die "the server is not a copy, but that of the machine: $root" if $root =~ m{^(?:/usr(?:/local)?)?$};
my %copy = map { $_ => $dir{$_} =~ s/^\Q$root\E/$folder\/server/r } keys %dir;
system_or_bail('cp', '-a', '-L', $root, "$folder/server");
my @removed = glob "$copy{pkglibdir}/dataverse_fdw.so $copy{sharedir}/extension/dataverse_fdw*";
is(unlink(@removed), @scripts + 2, 'the copy of a server has no extension');

my $dvsim = Dvsim->start;
my $node = PostgreSQL::Test::Cluster->new('volume', install_path => $copy{bindir} =~ s{/bin$}{}r);
$node->init;
$node->start;
like((psql_fails('CREATE EXTENSION dataverse_fdw')), qr/extension "dataverse_fdw" is not available/, 'a server does not have the extension');
$node->append_conf('postgresql.conf', "extension_control_path = '\$system:$volume/share'\ndynamic_library_path = '\$libdir:$volume/lib'\n");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('extension_control_path') LIKE '%volume%'") or die;
is($node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw; SELECT extension FROM dataverse.version()'), '1.0', 'two settings give it the extension');

my $base = $dvsim->base;
is( $node->safe_psql(
		'postgres', qq{
		CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url '$base', authority '$base', tenant_id 'any');
		CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
		CREATE SCHEMA dv;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
		INSERT INTO dv.account (name) VALUES ('Contoso');
		SELECT name FROM dv.account}),
	'Contoso',
	'which reads and writes');

# ---- the libraries beside it are those that are loaded

my $session = $node->background_psql('postgres');
$session->query_safe('SELECT extension FROM dataverse.version()');
my $maps = slurp_file('/proc/' . $session->query_safe('SELECT pg_backend_pid()') =~ s/\s+//gr . '/maps');
$session->quit;
for my $library (@libraries)
{
	my ($name) = $library =~ m{([^/]+?)\.so};
	my %from = map { $_ => 1 } $maps =~ m{(/\S*/\Q$name\E\.so\S*)$}mg;

	is(join(' ', keys %from), "$volume$library", "$name is loaded from the volume");
}

# ---- preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dataverse_fdw'");
$node->restart;
like(psql_fails('SET dataverse_fdw.dryrun = on'), qr/invalid configuration parameter name/, 'it can be preloaded');

sub psql_fails
{
	my ($sql) = @_;
	my ($out, $err);

	isnt($node->psql('postgres', $sql, stdout => \$out, stderr => \$err), 0, 'a statement fails');
	return $err;
}

done_testing();
