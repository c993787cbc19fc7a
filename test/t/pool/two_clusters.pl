# two_clusters.pl
#		Two independent clusters share an application user: they keep to the
#		limits of the service, and both make progress.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use Dvsim;

my %node = map { ($_ => new_node($_, preload => 1)) } 'one', 'two';
my $serial = 0;

# Has both send requests for some seconds; returns the number of answers of each.
sub compete
{
	my ($dvsim, $sessions, $seconds, %options) = @_;
	my $crm = 'crm' . ++$serial;
	my %sessions;
	my %answered = (one => 0, two => 0, refused => 0, failed => 0);

	for my $name (sort keys %node)
	{
		create_server($node{$name}, $crm,
			{ url => $dvsim->base, user_agent => $name, retry_after_buffer => '50ms', %options },
			{ client_id => 'app1', client_secret => 'secret1' });
		$sessions{$name} = [ map { Session->new($node{$name}) } 1 .. $sessions ];
		$_->query("SET statement_timeout = '${seconds}s'") for @{ $sessions{$name} };
	}
	my $sql = qq{
		DO \$\$
		BEGIN
		  LOOP
		    PERFORM dataverse.request('$crm', 'GET', 'accounts?\$top=1');
		  END LOOP;
		END \$\$};
	for my $i (0 .. $sessions - 1)
	{
		$sessions{$_}[$i]->start($sql) for sort keys %sessions;
	}
	for my $session (map { @$_ } values %sessions)
	{
		my $r = $session->finish;

		next if ($r->{sqlstate} // '') eq '57014';
		$answered{failed}++;
		diag "$r->{sqlstate} $r->{message}";
	}
	$_->close for map { @$_ } values %sessions;

	my ($next, @requests) = sent($dvsim, 0);
	for my $request (grep { $_->{kind} ne 'token' } @requests)
	{
		my $status = $request->{status} // 0;

		$answered{ $request->{headers}{'User-Agent'} }++ if $status == 200;
		$answered{refused}++ if $status == 429;
	}
	return %answered;
}

sub fair
{
	my ($title, %answered) = @_;
	my ($less, $more) = sort { $a <=> $b } @answered{ 'one', 'two' };

	is($answered{failed}, 0, "$title: no request fails");
	cmp_ok($less, '>', 0, 'both make progress');
	cmp_ok($more, '<=', 2 * $less, "and share within 2:1 ($answered{one}, $answered{two})");
	return;
}

# ---- concurrency: each cluster stays below the limit, but both together exceed it

{
	my $dvsim = Dvsim->start('--dop', 20, '--limit-concurrent', 20, '--latency', 'all=40ms');
	my %answered = compete($dvsim, 20, 9, budget_pacing => 'off');
	my $stats = user_stats($dvsim, 'app1');
	my $all = $answered{one} + $answered{two};

	fair('concurrency', %answered);
	cmp_ok($stats->{peak_in_flight}, '<=', 20, 'the limit is kept');
	cmp_ok($stats->{throttles}{'0x80072326'} // 0, '>', 0, 'it was reached');
	cmp_ok($answered{refused}, '<=', 0.05 * $all,
		"few requests are refused ($answered{refused} of $all)");
	cmp_ok($all, '>=', 0.3 * 9 * 20 / 0.04, 'and the service is kept busy');
	$dvsim->stop;
}

# ---- the requests of the window: the faster cluster must not use them all

{
	my $dvsim = Dvsim->start;
	my %answered = compete($dvsim, 8, 9, initial_parallelism_factor => 1);
	my $all = $answered{one} + $answered{two};

	fair('requests', %answered);
	cmp_ok($all, '<=', 6000, 'the limit is kept');
	cmp_ok($all, '>=', 2500, "and used ($all)");
	cmp_ok($answered{refused}, '<=', 2, "without requests beyond it ($answered{refused} refused)");
	$dvsim->stop;
}

$_->stop for values %node;
done_testing();
