# 018_clients.t
#		Runs the examples of clients in README.md unchanged, with HTTP and HTTPS, and its
#		faults and limits.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use File::Temp qw(tempdir);
use Test::More;

my ($section) = Dvsim::slurp("$FindBin::Bin/../README.md") =~ /^## Test a client against it\n(.*?)^## /ms;
my ($script, $program, $module) = map { $section =~ /^```$_\n(.*?)^```$/ms ? $1 : die "no example in $_\n" } qw(sh python js);
my $dir = tempdir(CLEANUP => 1);

sub file
{
	my ($name, $text) = @_;

	open my $out, '>', "$dir/$name" or die $!;
	print $out $text;
	close $out or die $!;
	return "$dir/$name";
}

my @clients = (
	[ curl => 'sh', file('client.sh', $script) ],
	[ Python => 'python3', file('client.py', $program) ],
	[ JavaScript => 'node', file('client.mjs', $module) ]);

# the examples are for programs of certain versions
my %can = (sh => 1, python3 => system("python3 -c 'import urllib.request, ssl' >$dir/out 2>&1") == 0,
	node => system(qq{node -e 'process.exit(typeof fetch == "function" ? 0 : 1)' >$dir/out 2>&1}) == 0);

for my $tls (0, 1)
{
	my $s = Dvsim->start($tls ? '--tls' : ());

	local $ENV{BASE} = $s->base;
	local @ENV{qw(CURL_CA_BUNDLE SSL_CERT_FILE NODE_EXTRA_CA_CERTS)} = ($s->ca_file) x 3 if $tls;
	for my $client (@clients)
	{
		my ($name, $how, $what) = @$client;

	  SKIP:
		{
			skip "$how is missing or too old", 3 unless $can{$how};
			is($s->control('POST', '/_dvsim/reset')->status, 200, 'no rows');
			is(qx($how $what 2>&1) =~ s/\n\z//r, 'Contoso', "$name, " . ($tls ? 'https' : 'http'));
			is($s->control('GET', '/_dvsim/stats')->json->{tables}{account}, 1, 'the row is there');
		}
	}
	ok($s->stop, 'dvsim ends cleanly');
}

# ---------------------------------------------------------------- faults

my $s = Dvsim->start;
local $ENV{BASE} = $s->base;
my @faults = $section =~ /^    (curl .*_dvsim\/faults .*)$/mg;
is(scalar @faults, 2, 'two faults');
like(qx($faults[0]), qr/"status":429/, 'a rule for the first one');
is($s->get('accounts')->status, 429, 'throttles the next request');
is($s->get('accounts')->status, 200, '... once');
like(qx($faults[1]), qr/reset_after_commit/, 'a rule for the second one');
is($s->post('accounts', { name => 'lost' })->status // 0, 0, 'loses the answer');
is($s->control('GET', '/_dvsim/stats')->json->{tables}{account}, 1, '... but not the row');
ok($s->stop, 'dvsim ends cleanly');

# ---------------------------------------------------------------- limits

my ($flags) = $section =~ m{^    test/dvsim/dvsim (--limit-requests.*)$}m;
$s = Dvsim->start(split ' ', $flags);
my %statuses;
$statuses{ $s->get('accounts?$top=1')->status }++ for 1 .. 61;
is_deeply(\%statuses, { 200 => 60, 429 => 1 }, "limits: $flags");
is_deeply($s->control('GET', '/_dvsim/stats')->json->{users}{app1}{throttles}, { '0x80072322' => 1 }, '... as the statistics say');
ok($s->stop, 'dvsim ends cleanly');

done_testing;
