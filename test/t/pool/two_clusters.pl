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

# ---- the second cluster begins when the first has used half of the window: both go on, instead of using up the rest

{
	my $dvsim = Dvsim->start('--app-user', 'app1:secret1', '--canned', '--latency', 'all=20ms');
	my %load;
	my $begin = sub {
		my ($name) = @_;
		my $session = Session->new($node{$name});

		create_server($node{$name}, 'shared', { url => $dvsim->base, user_agent => $name, initial_parallelism_factor => 1, batch_size => 1 },
			{ client_id => 'app1', client_secret => 'secret1', name => "shared by $name" });
		$session->query("CREATE FOREIGN TABLE shared (accountid uuid, name text) SERVER shared"
			  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
		$session->start("INSERT INTO shared (name) SELECT 'row ' || i FROM (SELECT generate_series(1, 100000000) AS i) AS s");
		$load{$name} = $session;
	};
	my $answers = sub { user_stats($dvsim, 'app1')->{requests}{create} // 0 };

	$begin->('one');
	my $watcher = Session->new($node{one});
	wait_for(sub { pool($watcher, 'shared by one', 'limited_by') =~ /^budget: / }, 'the budget is paced');
	my ($since) = sent($dvsim, 0);
	$begin->('two');

	# in this time, it would otherwise use up what is left
	my $half = $answers->();
	my %last = (one => time, two => time);
	my %gap = (one => 0, two => 0);
	my %rows = (one => 0, two => 0);
	my $until = time + 30;
	while (time < $until)
	{
		my ($next, @requests) = sent($dvsim, $since);

		for my $request (grep { ($_->{kind} // '') eq 'create' } @requests)
		{
			my $name = $request->{headers}{'User-Agent'};
			my $now = time;

			$gap{$name} = $now - $last{$name} if $now - $last{$name} > $gap{$name};
			$last{$name} = $now;
			$rows{$name}++;
		}
		$since = $next;
		select undef, undef, undef, 0.1;
	}
	for my $name (sort keys %load)
	{
		$gap{$name} = time - $last{$name} if time - $last{$name} > $gap{$name};
		cmp_ok($gap{$name}, '<=', 10, sprintf 'cluster %s writes a row every few seconds (%d rows, longest gap %.1f s)', $name, $rows{$name}, $gap{$name});
	}
	cmp_ok($answers->() - $half, '<=', 1000,
		'and the rest of the window is not used up within 30 s: ' . ($answers->() - $half) . ' requests after the first ' . $half);
	is_deeply(user_stats($dvsim, 'app1')->{throttles}, {}, 'without a throttle');
	Session->new($node{$_})->value('SELECT pg_cancel_backend(' . $load{$_}->pid . ')') for keys %load;
	$_->finish for values %load;
	$_->close for values %load, $watcher;
	$dvsim->stop;
}

$_->stop for values %node;
done_testing();
