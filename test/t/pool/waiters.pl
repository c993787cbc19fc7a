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
use Time::HiRes qw(time);

use PoolTest;
use Dvsim;

plan skip_all => 'needs /proc, which counts how often a process has slept' unless -r "/proc/$$/status";

use constant BATCHES => 20;		# of each session

my $dvsim = Dvsim->start('--latency', 'create=30ms', map { ('--app-user', "app$_:secret") } 1 .. 2);
my $node = new_node('waiters', preload => 1);
my $watcher = Session->new($node);

# Returns how often the process of a session has slept.
sub sleeps
{
	my ($session) = @_;
	return slurp_file('/proc/' . $session->pid . '/status') =~ /^voluntary_ctxt_switches:\s*(\d+)/m ? $1 : die;
}

# Loads these tables in a session each; returns how often they slept for each batch, and how many
# batches they sent in a second.  With "single", a session sends one batch after the other.
sub load
{
	my %option = (batches => BATCHES, ref $_[-1] ? %{ pop @_ } : ());
	my @tables = @_;
	my @sessions = map { Session->new($node) } @tables;
	my $insert = sub {
		my ($batches) = @_;

		for my $i (0 .. $#sessions)
		{
			my $rows = "INSERT INTO $tables[$i] (name) SELECT 'row ' || i FROM (SELECT generate_series(1, 5 * ";

			$sessions[$i]->start($option{single}
				? "DO \$\$ BEGIN FOR n IN 1 .. $batches LOOP ${rows}1) AS i) AS s; END LOOP; END \$\$"
				: "${rows}$batches) AS i) AS s");
		}
		my @failed = grep { defined $_->{sqlstate} } map { $_->finish } @sessions;
		die $failed[0]{message} if @failed;
	};

	# tokens, connections, and what a session learns only once
	$insert->(1);
	my $before = sum(map { sleeps($_) } @sessions);
	my $start = time;
	$insert->($option{batches});
	my $seconds = time - $start;
	my $batches = @tables * $option{batches};
	my $sleeps = sum(map { sleeps($_) } @sessions) - $before;
	$_->close for @sessions;
	is(in_flight($watcher), 0, @tables . ' sessions: nothing is left in flight');
	return ($sleeps / $batches, $batches / $seconds);
}

sub server
{
	my ($crm, $options, %mapping) = @_;

	create_server($node, $crm,
		{ url => $dvsim->base, budget_pacing => 'off', max_parallel => 2, initial_parallelism_factor => 1, batch_size => 5, %$options },
		\%mapping);
	$watcher->query("CREATE FOREIGN TABLE $crm (accountid uuid, name text) SERVER $crm"
		  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	return;
}

# A batch takes a wake-up for its slot and one for its answer.  The sleeps for a lock or for the
# socket of a client are few beside that.
sub few_sleeps
{
	my ($what, @loads) = @_;
	my ($sleeps, $rate) = load(@loads);

	cmp_ok($sleeps, '<', 5, sprintf '%s sleep %.1f times for each batch', $what, $sleeps);
	return $rate;
}

for my $useful ('on', 'off')
{
	my @servers = map { "${_}_$useful" } 'one', 'two', 'other';

	server($servers[0], { useful_limit => $useful }, client_id => 'app1', client_secret => 'secret');
	server($servers[1], { useful_limit => $useful }, client_id => 'app1', client_secret => 'secret', client_id_2 => 'app2', client_secret_2 => 'secret');
	server($servers[2], { useful_limit => $useful }, client_id => 'app2', client_secret => 'secret');
	for my $n (4, 16)
	{
		few_sleeps("useful_limit $useful: $n sessions that share $_", ($_) x $n) for @servers[ 0, 1 ];
	}
	few_sleeps("useful_limit $useful: two times 8 sessions with a user for each 8", (@servers[ 0, 2 ]) x 8);
}

# Sessions that have a single request each: all of them are short, and there is no load to pass.
few_sleeps('16 sessions with one request at a time', ('one_off') x 16, { single => 1 });

# Half of the requests that the service grants are used up, so that they are paced: each waiter
# sleeps until its turn, and no turn is lost.
{
	my $paced = Dvsim->start('--latency', 'create=20ms', '--app-user', 'app1:secret');

	server('paced', { url => $paced->base, budget_pacing => 'on', useful_limit => 'off', max_parallel => 30 },
		client_id => 'app1', client_secret => 'secret', name => 'paced one');
	load('paced', { batches => 3100 });
	like(pool($watcher, 'paced one', 'limited_by'), qr/^budget: /, 'requests are paced');
	my $one = few_sleeps('one session that is paced', 'paced', { batches => 30 });
	my $many = few_sleeps('16 sessions that are paced', ('paced') x 16, { batches => 5 });
	cmp_ok($many, '>', 0.85 * $one, sprintf 'they send %.1f batches a second, beside %.1f of one session', $many, $one);
}

$watcher->close;
$node->stop;
done_testing();
