# waiters.pl
#		Waiting for slots costs nothing: a session is woken only for a slot that
#		it can take.  Wake-ups are counted, not timed.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(sum);
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Dvsim;

plan skip_all => 'needs /proc, which counts how often a process has slept' unless -r "/proc/$$/status";

use constant BATCHES => 30;		# of each session

my $dvsim = Dvsim->start('--latency', 'create=30ms', map { ('--app-user', "app$_:secret") } 1 .. 2);
my $node = new_node('waiters', preload => 1);
my $watcher = Session->new($node);

# Returns how often the process of a session has slept.
sub sleeps
{
	my ($session) = @_;
	return slurp_file('/proc/' . $session->pid . '/status') =~ /^voluntary_ctxt_switches:\s*(\d+)/m ? $1 : die;
}

# Loads a table in so many sessions at once; returns how often they slept for each batch.
sub load
{
	my ($crm, $n) = @_;
	my @sessions = map { Session->new($node) } 1 .. $n;
	my $insert = sub {
		my ($batches) = @_;

		$_->start("INSERT INTO $crm (name) SELECT 'row ' || i FROM (SELECT generate_series(1, 5 * $batches) AS i) AS s") for @sessions;
		my @failed = grep { defined $_->{sqlstate} } map { $_->finish } @sessions;
		die $failed[0]{message} if @failed;
	};

	# tokens, connections, and what a session learns only once
	$insert->(1);
	my $before = sum(map { sleeps($_) } @sessions);
	$insert->(BATCHES);
	my $sleeps = (sum(map { sleeps($_) } @sessions) - $before) / ($n * BATCHES);
	$_->close for @sessions;
	is(in_flight($watcher), 0, "$n sessions: nothing is left in flight");
	return $sleeps;
}

sub server
{
	my ($crm, %mapping) = @_;

	create_server($node, $crm,
		{ url => $dvsim->base, budget_pacing => 'off', max_parallel => 2, initial_parallelism_factor => 1, batch_size => 5 },
		\%mapping);
	$watcher->query("CREATE FOREIGN TABLE $crm (accountid uuid, name text) SERVER $crm"
		  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	return;
}

server('one', client_id => 'app1', client_secret => 'secret');
server('two', client_id => 'app1', client_secret => 'secret', client_id_2 => 'app2', client_secret_2 => 'secret');

# A batch takes a wake-up for its slot and one for its answer.  The sleeps for a lock or for the
# socket of a client are few beside that.
for my $crm ('one', 'two')
{
	for my $n (4, 16)
	{
		my $sleeps = load($crm, $n);

		cmp_ok($sleeps, '<', 6, sprintf '%d sessions that share the users of "%s" sleep %.1f times for each batch', $n, $crm, $sleeps);
	}
}

$watcher->close;
$node->stop;
done_testing();
