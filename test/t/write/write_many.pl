# write_many.pl
#		Two and sixteen backends write concurrently: each row is written once, with
#		the correct values, and by dvsim's count, no application user ever exceeds
#		its limit of requests in flight.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $dop = 5;
my $w = WriteTest->start('write_many', dop => $dop,
	flags => [ '--latency', 'create=15ms~50%,update=15ms~50%,upsert=15ms~50%,delete=15ms~50%,batch=15ms~50%' ],
	options => { batch_size => 20 });

# Runs statements concurrently, each in a backend of its own: [ sql, tag, settings… ]
sub at_once
{
	my ($what, @statements) = @_;
	my @sessions = map { $w->session } @statements;
	my (@results, @wrong);

	for my $i (0 .. $#sessions)
	{
		my ($sql, $tag, @settings) = @{ $statements[$i] };

		$sessions[$i]->query($_) for "SET statement_timeout = '120s'", @settings;
	}
	$sessions[$_]->start($statements[$_][0]) for 0 .. $#sessions;
	@results = map { $_->finish(150) } @sessions;
	$_->close for @sessions;
	@wrong = grep { ($results[$_]{tag} // '') ne $statements[$_][1] } 0 .. $#results;
	is(scalar @wrong, 0, "$what: every statement succeeds with the correct count")
	  || diag explain $results[ $wrong[0] ];
	is(in_flight($w->watcher), 0, "$what: no slot is held");
	return;
}

# Checks that no user has exceeded its limit, and that the users were well used.
sub limits_ok
{
	my ($what, $limit, $used) = @_;

	for my $user ('app1', 'app2', 'app3')
	{
		my $stats = user_stats($w->dvsim, $user);

		cmp_ok($stats->{peak_in_flight}, '<=', $limit, "$what: at most $limit requests of $user at once");
		cmp_ok($stats->{peak_in_flight}, '>=', $used, "$what: and as many as $used");
	}
	return;
}

# ---- requests that wait for their retry do not delay the others

{
	my $session = $w->session;
	my $waiting = 8;

	$w->reset;
	faults($w->dvsim, { path => 'CreateMultiple', status => 502, retry_after => 60, times => $waiting });
	$session->start($w->insert('standard', 1, 2000));
	wait_for(sub { $session->done || $w->rows_there('standard') == 2000 - $waiting * 20 }, 'all other rows are written');
	ok(!$session->done, "$waiting batches wait for their second attempt while all others are written");
	$w->watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57014', 'they can be canceled');
	is(in_flight($w->watcher), 0, 'and hold no slot');
	$session->close;
}

for my $backends (2, 16)
{
	my $each = int(8000 / $backends);
	my $all = $each * $backends;
	my @ranges = map { [ $_ * $each + 1, ($_ + 1) * $each ] } 0 .. $backends - 1;

	# ---- all insert, into two tables

	for my $limit ($dop, 2)
	{
		my $what = "$backends backends, $limit requests";

		$w->reset;
		$w->set(max_parallel => $limit);
		at_once("$what, INSERT",
			map { [ $w->insert('standard', 1, $_->[1], from => $_->[0]), "INSERT 0 $each" ] } @ranges);
		limits_ok("$what, INSERT", $limit, $limit);
		$w->is_whole('standard', "$what, INSERT", upto => $all);
		is_deeply([ map { user_stats($w->dvsim, $_)->{throttles} } 'app1', 'app2', 'app3' ], [ {}, {}, {} ],
			"$what: no user was throttled");
	}
	$w->set(max_parallel => $dop);

	# ---- all operations concurrently, each in its own range, with occasional throttles and lost connections

	my $what = "$backends backends, all operations";
	my $block = "((N - 1) / $each)";
	my @kinds = ('standard', 'elastic');
	my @statements;

	$w->reset;
	for my $i (0 .. $#ranges)
	{
		my $kind = $kinds[ int($i / 4) % 2 ];
		my ($from, $upto) = @{ $ranges[$i] };
		my $range = "N BETWEEN $from AND $upto";

		$w->fill($kind, $upto, from => $from, where => (undef, undef, 'n % 2 = 0', undef)[ $i % 4 ])
		  if $i % 4 > 0;
		push @statements, (
			sub { [ $w->insert($kind, 2, $upto, from => $from, given => 1), "INSERT 0 $each" ] },
			sub { [ $w->update($kind, 2, $range), "UPDATE $each" ] },
			sub {
				[
					$w->insert($kind, 2, $upto, from => $from, given => 1),
					"INSERT 0 $each", 'SET dataverse_fdw.insert_mode = upsert'
				]
			},
			sub { [ $w->delete($kind, $range), "DELETE $each" ] })[ $i % 4 ]->();
	}
	faults($w->dvsim,
		{ method => 'POST', action => 'reset_after_commit', every => 23, times => 0 },
		{ method => 'POST', status => 429, code => '0x80072326', retry_after => 0, every => 17, times => 0 },
		{ method => 'POST', action => 'reset_before_commit', every => 29, times => 0 });
	at_once($what, @statements);
	cmp_ok(hits($w->dvsim), '>', 5, "$what: faults occurred");
	clear_faults($w->dvsim);
	$w->is_whole(
		$kinds[$_], $what,
		upto => $all,
		given => 1,
		where => "$block / 4 % 2 = $_ AND $block % 4 <> 3",
		generation => 2) for 0, 1;
	limits_ok($what, $dop, 1);
}

$w->stop;
done_testing();
