# demo.pl
#		Runs the whole demo as a newcomer does, and checks its output, its picture,
#		the files and processes it leaves, and the commands that it suggests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::Bin/../../..";
my $scratch = tempdir('dXXXX', DIR => $ENV{TMPDIR} // '/tmp', CLEANUP => 1);
my $svg = "$scratch/demo.svg";

chdir $root or die $!;

sub shell
{
	my ($command) = @_;
	my $out = `$command`;
	return ($? >> 8, $out);
}

# Runs the demo with a temporary folder of its own.
sub demo
{
	my ($more) = @_;
	return shell("TMPDIR=$scratch DV_DEMO_SVG=$svg make -s demo $more </dev/null 2>&1");
}

# Returns the names of the programs running from a folder.
sub programs
{
	my ($folder) = @_;
	my %names;

	for (glob '/proc/[0-9]*/exe')
	{
		my $exe = readlink or next;
		$names{$1} = 1 if $exe =~ m{^\Q$folder\E/.*/([^/]+?)( \(deleted\))?$};
	}
	return join ' ', sort keys %names;
}

# Returns an error in the nesting or the text of a document, or ''.
sub malformed
{
	my ($xml) = @_;
	my @open;

	while ($xml =~ /\G(?:<(?<close>\/)?(?<name>\w+)(?<attributes>(?:\s+[\w-]+="[^"<&]*")*)\s*(?<empty>\/)?>|(?<text>[^<]+))/gc)
	{
		my %part = %+;

		if (defined $part{text})
		{
			return "text: $part{text}" if $part{text} =~ /&(?!amp;|lt;|gt;)/ || (!@open && $part{text} =~ /\S/);
		}
		elsif ($part{close})
		{
			return "</$part{name}>" if (pop @open // '') ne $part{name};
		}
		else
		{
			push @open, $part{name} unless $part{empty};
		}
	}
	return substr $xml, pos($xml) // 0, 60 if (pos($xml) // 0) < length $xml;
	return "@open";
}

# ---- the percentage in the picture, for known loads

# Draws a load of two users with two requests at a time each, which allows 400 rows per second.
sub picture
{
	my (@lines) = @_;

	open my $in, '>', "$scratch/samples" or die $!;
	print $in map { "$_\n" } @lines;
	close $in or die $!;
	return shell("test/picture $scratch/known.svg 2 2 1 100 <$scratch/samples 2>&1");
}

my ($status, $out) = picture('100 rows - 0', '110 rows - 1000', '120 rows - 4000');
is($status, 0, 'a load is drawn');
like($out, qr/reached 50 % .*; requests refused: 0$/, 'a load at half the possible rate');
($status, $out) = picture(
	'100 rows - 0', '105 refused b 0', '105.1 throttle b 0', '115 admitted b 0', '120 rows - 6000');
like($out, qr/reached 100 % .*; requests refused: 1$/, 'a refused user counts less');
is(malformed(slurp_file("$scratch/known.svg")), '', 'the picture is well-formed');
($status, $out) = picture('100 under_way a 2');
isnt($status, 0, 'no load is an error');

# ---- output files

($status, $out) = shell("DV_DEMO_SVG=$scratch/nonesuch/demo.svg make -s demo </dev/null 2>&1");
isnt($status, 0, 'a picture that cannot be written ends the demo');
like($out, qr/\Ademo: cannot write $scratch\/nonesuch\/demo\.svg; set DV_DEMO_SVG=FILE/, 'before anything is built');
($status, $out) = shell("DV_DEMO_SVG=test/nonesuch/demo.svg make -s demo </dev/null 2>&1");
like($out, qr/\Ademo: cannot write \S+\/test\/nonesuch\/demo\.svg;/, 'and its path is relative to the folder where the demo was started');

# ---- the demo

($status, $out) = demo('KEEP=1');
is($status, 0, 'the demo succeeds') or diag($out);
my ($folder) = $out =~ /^to end and remove it: test\/demo --stop (\S+)$/m;
ok($folder, 'the picture is kept') or BAIL_OUT('there is no demo to look at');

unlike($out, qr/\e/, 'no colors without a terminal');
my @wide = grep { length > 100 && !/\Q$folder\E/ } split /\n/, $out;
is("@wide", '', 'all lines fit on a terminal');

my ($percent, $refused) = $out =~ /^The load reached (\d+) % of what the limits allow; requests refused: (\d+)$/m;
cmp_ok($percent, '>=', 90, 'the load comes close to the limits');
cmp_ok($refused, '<=', 3, 'with few refused requests');
my $picture = slurp_file($svg);
is(malformed($picture), '', 'the picture is well-formed');
like($picture, qr/200,000 rows in \d+ s: $percent % of/, 'it shows the same percentage');
like($picture, qr/>app2 is refused</, 'and when the user was refused');

like($out, qr/^INSERT .*?meanwhile.*?meanwhile.*?meanwhile.*?^NOTICE:  insert/ms, 'progress is shown below the INSERT');
is(scalar(() = $out =~ /^ +\d+ \|.* \d\d:\d\d:\d\d \| \d\d:\d\d:\d\d$/mg), 3, 'always with the time remaining');
like($out, qr/^ app2 \| +0 \| throttle +\| +0 \| 00:\d\d:\d\d$/m, 'and which user is throttled, with its budget');
is(scalar(() = $out =~ /^Foreign Scan$/mg), 2, 'queries are pushed down');
like($out, qr/pull.*sync.*Joined by Dataverse: c, a/s, 'and the final join');

# ---- what remains after the demo

is(programs($folder), 'dvsim postgres', 'only the two servers run');
my ($psql) = $out =~ /^PostgreSQL: +(psql .+)$/m;
($status, my $sessions) = shell(
	qq($psql -XAtc "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"));
is($sessions, "1\n", 'no other session exists');

my ($try) = $out =~ /^Three things to try in psql:\n\n(.*?)^README/ms;
open my $in, '>', "$scratch/try.sql" or die $!;
print $in $try;
close $in or die $!;
($status, my $tried) = shell("$psql -X -v ON_ERROR_STOP=1 <$scratch/try.sql 2>&1");
is($status, 0, 'the suggested statements work') or diag($tried);
like($tried, qr/^limited_by .*^NOTICE:.*dry_run.*^DELETE 2000.*^NOTICE:  synced public.account: 1 row/ms, 'all of them');
($status, my $rows) = shell(qq($psql -XAtc "SELECT description, (SELECT count(*) FROM dv.contact)
	FROM dv.account WHERE accountnumber = 'C-1'"));
is($rows, "mine|2000\n", 'and print what the demo says');

my ($curl) = $out =~ /^dvsim: +(curl .+)$/m;
($status, my $stats) = shell("$curl --noproxy '*'");
like($stats, qr/"contact":2000\b/, 'dvsim answers');

($status) = shell("test/demo --stop $folder");
is($status, 0, 'the demo can be stopped');
is(programs($folder), '', 'then no process runs');
ok(!-e $folder, 'and no file remains');

# ---- a step with a wrong result

mkdir "$scratch/bin" or die $!;
open my $fake, '>', "$scratch/bin/curl" or die $!;
my ($curl_program) = grep { -x } map { "$_/curl" } split /:/, $ENV{PATH};
print $fake <<"END";
#!/usr/bin/env bash
# the service has fewer rows than the demo requested
exec $curl_program "\${@/rows=1000/rows=900}"
END
close $fake or die $!;
chmod 0755, "$scratch/bin/curl";
$ENV{PATH} = "$scratch/bin:$ENV{PATH}";
($status, $out) = demo('KEEP=1');
isnt($status, 0, 'the demo fails if a result is wrong');
like($out, qr/^demo: expected 1000\|2000 instead of 900\|2000: SELECT/m, 'it names the step');
unlike($out, qr/^== done/m, 'and exits');
is(join(' ', glob "$scratch/dataverse_fdw.*"), '', 'and leaves no files, even with KEEP');
is(programs($scratch), '', 'no process runs');

# make cannot build in a folder whose name contains a space
mkdir "$scratch/a b" or die $!;
($status, $out) = shell("TMPDIR='$scratch/a b' DV_DEMO_SVG=$svg make -s demo </dev/null 2>&1");
like($out, qr/^demo: expected 1000\|2000 instead/m, 'another folder is used if the name of the temporary folder contains a space');

done_testing();
