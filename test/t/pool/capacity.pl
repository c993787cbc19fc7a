# capacity.pl
#		The useful limit against a dvsim with a capacity: by dvsim's count, as
#		many requests are in flight as it can carry out, and hardly more.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use PoolTest;
use Dvsim;

use constant CAPACITY => 4;

my $node = new_node('capacity', preload => 1);
my $watcher = Session->new($node);

# Starts a dvsim, a server for it, and a foreign table, and returns the dvsim.
sub environment
{
	my ($name, $users, $flags, %options) = @_;
	my @names = map { "app$_" } 1 .. $users;
	my $dvsim = Dvsim->start('--latency', 'create=200ms', '--jitter', 20, '--capacity', CAPACITY, @$flags,
		map { ('--app-user', "$_:secret") } @names);
	my %mapping;

	for my $i (1 .. $users)
	{
		my $suffix = $i > 1 ? "_$i" : '';
		@mapping{ "client_id$suffix", "client_secret$suffix", "name$suffix" } = ($names[ $i - 1 ], 'secret', "$name $i");
	}
	create_server($node, $name, { url => $dvsim->base, batch_size => 10, %options }, \%mapping);
	$watcher->query("CREATE SCHEMA $name; CREATE FOREIGN TABLE $name.account (accountid uuid, name text)"
		  . " SERVER $name OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	return $dvsim;
}

# Returns dvsim's count of requests in flight, of all users.
sub in_flight_there
{
	my ($dvsim) = @_;
	my $users = $dvsim->control('GET', '/_dvsim/stats')->json->{users};
	my $sum = 0;

	$sum += $_->{in_flight} for values %$users;
	return $sum;
}

# Loads this many batches, and returns what was seen meanwhile.
sub load
{
	my ($name, $dvsim, $batches) = @_;
	my $session = Session->new($node);
	my (@counts, %rules);

	$session->start("INSERT INTO $name.account (name) SELECT 'x' || i FROM generate_series(1, @{[ 10 * $batches ]}) AS i");
	until ($session->done)
	{
		push @counts, in_flight_there($dvsim);
		$rules{ $watcher->value("SELECT string_agg(DISTINCT limited_by, ', ') FROM dataverse.pool WHERE server = '$name' AND in_flight > 0") // '' }++;
		sleep 0.05;
	}
	is($session->finish->{sqlstate} // '', '', "$name: the load succeeds");
	$session->close;
	# the first third finds out
	@counts = sort { $a <=> $b } @counts[ @counts / 3 .. $#counts ];
	note("$name: @{[ scalar @counts ]} counts, median $counts[ @counts / 2 ], most $counts[-1]; " . join('; ', sort keys %rules));
	return { median => $counts[ @counts / 2 ], most => $counts[-1], rules => join(', ', keys %rules) };
}

sub state_of
{
	my ($name, $columns) = @_;
	return $watcher->value("SELECT DISTINCT $columns FROM dataverse.pool WHERE server = '$name'");
}

# one user, and a hint that promises much more
my $dvsim = environment('one', 1, [ '--dop', 48 ]);
is(state_of('one', 'count(*)'), '0', 'nothing is known');
my $seen = load('one', $dvsim, 300);
cmp_ok($seen->{median}, '>=', CAPACITY - 1, 'the capacity is used');
cmp_ok($seen->{median}, '<=', 2 * CAPACITY, 'hardly more is in flight');
like($seen->{rules}, qr/latency/, 'limited by latency');
is(state_of('one', "useful_limit BETWEEN 1 AND @{[ 3 * CAPACITY ]}"), 't', 'the view shows the useful limit,');
is(state_of('one', "latency_ratio BETWEEN 0.5 AND 5"), 't', 'how long answers take,');
is(state_of('one', "(base_ms ->> 'create')::numeric BETWEEN 150 AND 1500"), 't', 'and how long they would take without load');

# reset_pool forgets it
$watcher->query("SELECT dataverse.reset_pool('one')");
is(state_of('one', "useful_limit IS NULL AND latency_ratio IS NULL AND base_ms = '{}'"), 't', 'reset_pool forgets it');

# four users share the machine behind them
$dvsim = environment('four', 4, [ '--dop', 48 ]);
$seen = load('four', $dvsim, 300);
cmp_ok($seen->{median}, '>=', CAPACITY - 1, 'four users: the capacity is used');
cmp_ok($seen->{median}, '<=', 2 * CAPACITY, 'together, they have hardly more in flight');
is($watcher->value(q{SELECT count(DISTINCT useful_limit) FROM dataverse.pool WHERE server = 'four'}), '1', 'they share the useful limit');
is($watcher->value(q{SELECT count(*) FROM dataverse.pool WHERE server = 'four' AND requests > 0}), '4', 'and all of them send');

# a small hint is no wall where max_parallel is above it
$dvsim = environment('small', 1, [ '--dop', 2 ], max_parallel => 30);
$seen = load('small', $dvsim, 200);
cmp_ok($seen->{median}, '>=', CAPACITY - 1, 'a hint of 2, max_parallel 30: the capacity is used');
cmp_ok($seen->{median}, '<=', 2 * CAPACITY, 'and hardly more');

# off
for my $off ('useful_limit', 'adaptive_rate')
{
	$dvsim = environment("off_$off", 1, [ '--dop', 20 ], $off => 'off');
	$seen = load("off_$off", $dvsim, 100);
	cmp_ok($seen->{most}, '>', 2 * CAPACITY, "$off off: what the rate allows is in flight");
	unlike($seen->{rules}, qr/latency/, 'and not limited by latency');
}

$watcher->close;
$node->stop;
done_testing();
