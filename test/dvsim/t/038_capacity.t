# 038_capacity.t
#		A capacity that requests share, what overload costs, and jitter.
#
#		How long requests take at least is exact; how long they take at most depends
#		on the machine, so such bounds are wide.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);

# the durations of n reads that are sent at once, in seconds
sub reads
{
	my ($s, $n) = @_;
	my $since = $s->control('GET', '/_dvsim/requests')->json->{next} // 0;
	my @running = map { $s->spawn('GET', 'accounts?$top=1') } 1 .. $n;
	is(join(' ', map { $_->result->status } @running), join(' ', (200) x $n), "$n reads");
	my $requests = $s->control('GET', "/_dvsim/requests?since=$since")->json->{requests};
	return map { $_->{duration_ms} / 1000 } grep { $_->{target} =~ /accounts/ } @$requests;
}

sub await_in_flight
{
	my ($s, $n) = @_;
	my $deadline = time + 60;
	while (time < $deadline)
	{
		return if ($s->control('GET', '/_dvsim/stats')->json->{users}{app1}{in_flight} // 0) == $n;
		sleep 0.02;
	}
	die "no $n requests in flight";
}

my @started = ('--latency', 'read=500ms');
my $s = Dvsim->start(@started, '--capacity', 1);
$s->get('accounts?$top=1');
my @alone = reads($s, 1);
cmp_ok($alone[0], '>=', 0.49, 'a request alone takes its time');
my @together = reads($s, 4);
# the work of all is 2 s, so the last one to arrive ends after the others have got at least that
cmp_ok(max(@together), '>=', 1.4, 'four share a capacity of one');
cmp_ok(min(@together), '>=', 0.8, 'each of them is slower');

my $wide = Dvsim->start(@started, '--capacity', 8);
$wide->get('accounts?$top=1');
cmp_ok(max(reads($wide, 4)), '<', max(@together), 'below the capacity, they do not wait');

# work that is charged includes the time spent waiting
my $left = $s->get('accounts?$top=1')->header('x-ms-ratelimit-time-remaining-xrm-requests');
$left =~ tr/,//d;
cmp_ok($left, '<=', 1200 - 0.5 - $alone[0] - max(@together), 'waiting counts as execution time');

# at four requests, two are beyond twice the capacity, so a quarter of it is left
my $loaded = Dvsim->start(@started, '--capacity', 1, '--overload', 50);
$loaded->get('accounts?$top=1');
cmp_ok(max(reads($loaded, 4)), '>', 2, 'overload costs capacity');

# a client that hangs up leaves its part to the others
my $hung = Dvsim->start('--latency', 'read=100s', '--capacity', 1);
my $lost = $hung->spawn('GET', 'accounts?$top=1');
await_in_flight($hung, 1);
kill 'KILL', $lost->{pid};
await_in_flight($hung, 0);
my $next = $hung->spawn('GET', 'accounts?$top=1');
await_in_flight($hung, 1);
$hung->control('POST', '/_dvsim/clock', { advance => '101s' });
is($next->result->status, 200, 'the next request has it for itself');

# jitter of all latencies that have none of their own
my $uneven = Dvsim->start('--latency', 'read=100ms', '--jitter', 100);
my @uneven = map { reads($uneven, 1) } 1 .. 8;
cmp_ok(min(@uneven), '<', 0.1, 'with jitter, some take less');
cmp_ok(max(@uneven), '>', 0.1, 'and some more');

for my $bad ([ '--capacity', 'x' ], [ '--capacity', '-1' ], [ '--overload', '101' ], [ '--jitter', '200' ])
{
	my $out = `@{[ Dvsim::program() ]} $bad->[0] $bad->[1] 2>&1`;
	like($out, qr/^dvsim: $bad->[0] wants a number above 0/, "$bad->[0] $bad->[1]");
}

done_testing();
