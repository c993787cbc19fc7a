# sixteen_sessions.pl
#		Sixteen sessions with different roles, servers, and ceilings share six
#		application users, which fail one after another.  Some sessions pause:
#		with a cursor open, within a COPY, below a slow local node.  No session
#		waits longer than twice what the limits demand, and at the end each row
#		exists once.
#
#	DURATION=180	seconds (default 12); 180 is the demonstration, with each fault many times
#	SEED=N			seed of all random choices; it is printed
#
# All measurements come from dvsim's log alone, which has the arrival and the
# end of each request.  The address identifies the session of a request:
# readers ask for names that begin with the session's name, and writers send
# it as their tag.
#
# A session waits while one of its statements runs, its client is not pausing,
# and the service has none of its requests.  The limits demand:
#
#	closed	the time in which all of its users are closed: from a refusal until
#			its Retry-After is over, plus the margin that the server's options
#			add to it
#	turn	that all sessions that share its users are served once before it: one
#			slot of each open user, and the mean duration of a request
#	absence	slots of pausing backends are lent after a second, or twice the mean
#			duration
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(max min sum0);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Time::Local qw(timegm);

use PoolTest;
use Dvsim;

use constant DURATION => $ENV{DURATION} // 12;
use constant SESSIONS => 16;
use constant USERS => 6;
use constant LONG_PAUSE => DURATION / 2 < 20 ? DURATION / 2 : 20;
use constant MARGIN => 0.2;		# at most, for a retry_after_buffer of 100ms
use constant ABSENCE => 1;
use constant SERVED => 0.3;		# for a backend to be scheduled and to plan

my $seed = $ENV{SEED} // int(rand 1e9);
srand $seed;
note "SEED=$seed DURATION=@{[DURATION]}";

my $log = PostgreSQL::Test::Utils::tempdir() . '/requests';
my @users = map { "app$_" } 1 .. USERS;
my $dvsim = Dvsim->start((map { ('--app-user', "$_:secret") } @users),
	'--dop', 2, '--limit-concurrent', 10, '--log', $log,
	'--latency', 'all=200ms+4ms/row~40%,read=150ms+20us/row~40%,token=50ms~30%');
my $node = new_node('sixteen', preload => 1, conf => "log_statement = none\n");
my $watcher = Session->new($node);

# ---------------------------------------------------------------- servers and roles

# Their own ceilings, strategies, and rate control; they share users.
my %servers = (
	crm1 => [ {}, 1 .. 4 ],
	crm2 => [ { max_parallel => 1 }, 1, 2 ],
	crm3 => [ { max_parallel => 8, initial_parallelism_factor => 1 }, 3 .. 6 ],
	crm4 => [ { selection => 'round_robin', budget_pacing => 'off' }, 5, 6, 1 ],
	crm5 => [ { adaptive_rate => 'off', max_parallel => 2, selection => 'least_connections' }, 2, 4, 6 ]);
my %common = (
	url => $dvsim->base,
	batch_size => 10,
	page_size => 10,
	retry_after_buffer => '100ms',
	fallback_retry_after => '1s',
	max_retries => 20);

sub create_servers
{
	for my $server (sort keys %servers)
	{
		my ($options, @of) = @{ $servers{$server} };
		my %mapping;

		for my $i (0 .. $#of)
		{
			my $suffix = $i > 0 ? '_' . ($i + 1) : '';
			@mapping{ "client_id$suffix", "client_secret$suffix" } = ($users[ $of[$i] - 1 ], 'secret');
		}
		# this user never gets a token
		@mapping{ 'client_id_9', 'client_secret_9' } = ('app1', 'wrong') if $server eq 'crm3';
		create_server($node, $server, { %common, %$options }, \%mapping);
		$watcher->query("CREATE SCHEMA $server;"
			  . " CREATE FOREIGN TABLE $server.account (accountid uuid, name text, numberofemployees int) SERVER $server"
			  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	}
	for my $role (map { "role$_" } 1 .. 8)
	{
		$watcher->query("CREATE ROLE $role LOGIN");
		$watcher->query("GRANT USAGE ON SCHEMA $_ TO $role; GRANT USAGE ON FOREIGN SERVER $_ TO $role;"
			  . " GRANT ALL ON $_.account TO $role") for sort keys %servers;
	}
	return;
}

# ---------------------------------------------------------------- sessions

# What a session does repeatedly: a sub returns its next steps.  A step is [ statement ],
# [ pause => seconds ], [ copy => lines ], or [ end => 'copy' ]; the expected result may
# follow a statement.
my @sessions;

sub between { my ($from, $to) = @_; return $from + rand($to - $from); }
# Every second pause is long.
sub pause_of { return [ pause => int(rand 2) > 0 ? between(0.1, 1) : between(LONG_PAUSE / 2, LONG_PAUSE) ]; }
sub some { my ($from, $to) = @_; return int between($from, $to + 1); }

sub names
{
	my ($s, $n) = @_;
	my @numbers = ($s->{rows} + 1 .. $s->{rows} + $n);

	$s->{rows} += $n;
	return map { sprintf '%s-%06d', $s->{name}, $_ } @numbers;
}

sub insert
{
	my ($s) = @_;
	my $n = some(10, 150);
	my $from = $s->{rows} + 1;

	$s->{rows} += $n;
	return [ "INSERT INTO $s->{table} (name, numberofemployees)"
		  . " SELECT format('$s->{name}-%s', lpad(i::text, 6, '0')), 1 FROM generate_series($from, $s->{rows}) i", $n ];
}

my %work = (
	inserts => sub { my ($s) = @_; return (insert($s), [ pause => between(0, 0.2) ]); },
	copies => sub {
		my ($s) = @_;
		my @steps = [ "COPY $s->{table} (name, numberofemployees) FROM STDIN" ];

		for (1 .. some(1, 4))
		{
			push @steps, [ copy => join '', map { "$_\t1\n" } names($s, some(5, 60)) ], pause_of();
		}
		return (@steps, [ end => 'copy' ]);
	},
	cursors => sub {
		my ($s) = @_;
		my $n = $s->{rows};
		my @steps = insert($s);
		my $left = $s->{rows};

		push @steps, [ "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT name FROM $s->{table} WHERE name LIKE '$s->{name}-%'" ];
		for (my $rounds = 0; $left > 0 && $rounds < 5; $rounds++)
		{
			my $n = min($left, some(1, 9));

			push @steps, [ "FETCH $n FROM c", $n ], pause_of();
			$left -= $n;
		}
		push @steps, [ 'FETCH ALL FROM c', $left ];
		return (@steps, [ 'COMMIT' ]);
	},
	readers => sub {
		my ($s) = @_;
		return ($s->{rows} == 0 ? insert($s) : (),
			[ "SELECT name FROM $s->{table} WHERE name LIKE '$s->{name}-%' AND numberofemployees = 1", $s->{rows} || undef ]);
	},
	updates => sub {
		my ($s) = @_;
		my @steps = $s->{rows} < 200 ? insert($s) : ();

		return (@steps,
			[ "UPDATE $s->{table} SET numberofemployees = 3 - numberofemployees WHERE name LIKE '$s->{name}-%'", $s->{rows} ],
			[ "UPDATE $s->{table} SET numberofemployees = 3 - numberofemployees WHERE name LIKE '$s->{name}-%'", $s->{rows} ]);
	},
	dawdles => sub {
		my ($s) = @_;
		return ($s->{rows} < 30 ? insert($s) : (),
			[ "SELECT name, pg_sleep(0.03) FROM $s->{table} WHERE name LIKE '$s->{name}-%' OFFSET 0", undef, 'slow' ]);
	});

sub start_sessions
{
	# four sessions of crm2, which may send one request for each of two users, pause
	my @kinds = qw(inserts copies cursors cursors updates cursors dawdles copies cursors inserts readers copies updates cursors inserts readers);
	my @servers = qw(crm1 crm1 crm1 crm2 crm3 crm2 crm1 crm2 crm2 crm4 crm4 crm4 crm5 crm5 crm5 crm2);

	for my $i (0 .. SESSIONS - 1)
	{
		my $name = sprintf 's%02d', $i + 1;
		my $role = 'role' . ($i % 8 + 1);
		my %s = (name => $name, kind => $kinds[$i], server => $servers[$i], role => $role,
			table => "$servers[$i].account", rows => 0, steps => [], wants => [], failures => []);

		$s{users} = [ map { $users[ $_ - 1 ] } @{ $servers{ $s{server} } }[ 1 .. $#{ $servers{ $s{server} } } ] ];
		$s{session} = Session->new($node, user => $role);
		$s{session}->query("SET dataverse_fdw.tag = '$name'");
		$s{session}->query('SET dataverse_fdw.max_parallel = ' . some(1, 3)) if $i % 5 == 2;
		push @sessions, \%s;
	}
	return;
}

sub stops_wanting
{
	my ($s) = @_;

	push @{ $s->{wants} }, [ $s->{since}, time, $s->{running} ] if defined $s->{since};
	$s->{since} = undef;
	return;
}

# The running statement has ended.
sub ended
{
	my ($s) = @_;
	my $r = $s->{session}->finish;
	my ($sql, $expected) = @{ $s->{statement} };

	stops_wanting($s);
	$s->{running} = undef;
	if (defined $r->{sqlstate} || $r->{gone})
	{
		push @{ $s->{failures} }, "$sql: " . ($r->{message} // 'connection lost') . ' ' . ($r->{detail} // '');
		$s->{steps} = [];
	}
	elsif (defined $expected)
	{
		my ($count) = $r->{tag} =~ /(\d+)$/;
		push @{ $s->{failures} }, "$sql: $count rows instead of $expected" if $count != $expected;
	}
	return;
}

sub begin
{
	my ($s, $sql, $expected, $slow) = @_;

	$s->{statement} = [ $sql, $expected ];
	$s->{session}->start($sql);
	$s->{running} = $sql;
	$s->{since} = time unless $slow;
	return;
}

# Advances by one step if possible; false at the end.
sub step
{
	my ($s, $over) = @_;

	return 1 if defined $s->{until} && time < $s->{until};
	$s->{until} = undef;
	if (defined $s->{running} && (!$s->{copying} || $s->{session}->done))
	{
		return 1 unless $s->{session}->done;
		$s->{copying} = 0;
		ended($s);
	}
	if (!@{ $s->{steps} })
	{
		return 0 if $over;
		$s->{steps} = [ $work{ $s->{kind} }->($s) ];
	}
	my ($what, $value, @more) = @{ shift @{ $s->{steps} } };
	if ($what eq 'pause')
	{
		# the backend may process the data of a COPY during the pause, but need not
		stops_wanting($s);
		$s->{until} = time + ($over ? 0 : $value);
	}
	elsif ($what eq 'copy')
	{
		$s->{since} //= time;
		$s->{session}->copy($value);
	}
	elsif ($what eq 'end')
	{
		$s->{since} //= time;
		$s->{session}->copy_end;
		$s->{copying} = 0;
	}
	else
	{
		begin($s, $what, $value, @more);
		$s->{copying} = $what =~ /^COPY/;
	}
	return 1;
}

# ---------------------------------------------------------------- users that fail

my %throttled = (status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit of 6000 over time window of 300 seconds.');
my @troubles = (
	[ 'throttled', sub { return { %throttled, retry_after => some(2, 6) } } ],
	[ 'throttled without a time', sub { return { %throttled } } ],
	[ 'too many at once', sub { return { %throttled, code => '0x80072326', message => 'Number of concurrent requests exceeded the limit of 52.',
		retry_after => some(0, 1), times => 2 } } ],
	[ 'unavailable', sub { return { status => 503, times => 4 } } ],
	[ 'connections break', sub { return { action => 'reset_before_commit', times => 3 } } ],
	[ 'answers are lost', sub { return { action => 'reset_after_commit', times => 2 } } ],
	[ 'the token expires', sub { return { action => 'expire_token' } } ],
	[ 'tokens expire again and again', sub { return { action => 'expire_token', every => 3, times => 4 } } ],
	[ 'a privilege is lost', sub { return { status => 403, code => '0x80040220', message => 'is missing prvCreateAccount', method => 'POST', times => 2 } } ]);
my %suffered;

sub trouble
{
	my ($n) = @_;
	my $user = $users[ $n % USERS ];
	my ($name, $rule) = @{ $troubles[ $n % @troubles ] };

	faults($dvsim, { app_user => $user, path => '/api/data/', %{ $rule->() } });
	$suffered{$name}++;
	return;
}

# ---------------------------------------------------------------- the run

create_servers();
start_sessions();
my $end = time + DURATION;
my $next_trouble = time + 1;
my $troubles = 0;
my $patience = time + DURATION + 90;

while (1)
{
	my $over = time >= $end;
	my @busy = grep { step($_, $over) } @sessions;

	last if !@busy || time > $patience;
	if (!$over && time >= $next_trouble)
	{
		trouble($troubles++);
		$next_trouble += 1.3;
	}
	sleep 0.004;
}
note sprintf 'ended %.1f s after that', time - $end;
my @stuck = grep { defined $_->{running} } @sessions;
is(scalar @stuck, 0, 'every session has finished') or diag join "\n", map { "$_->{name}: $_->{running}" } @stuck;
clear_faults($dvsim);

for my $s (@sessions)
{
	is(scalar @{ $s->{failures} }, 0, "$s->{name}, $s->{role} on $s->{server}, $s->{kind}: nothing failed")
	  or diag join "\n", @{ $s->{failures} };
}
note join ', ', map { "$_ ($suffered{$_})" } sort keys %suffered;

# ---------------------------------------------------------------- exact rows

is(in_flight($watcher), 0, 'nothing is left in flight');
$watcher->query("ALTER FOREIGN TABLE crm1.account OPTIONS (page_size '5000')");
my %found = map { split /\|/ } split /\n/, $watcher->query(
	"SELECT left(name, 3), count(*) || ' ' || count(DISTINCT name) || ' ' || coalesce(min(name), '') || ' ' || coalesce(max(name), '')"
	  . " || ' ' || sum(numberofemployees) FROM crm1.account GROUP BY 1");
for my $s (@sessions)
{
	my $n = $s->{rows};
	is($found{ $s->{name} } // '', $n == 0 ? '' : sprintf('%d %d %s-%06d %s-%06d %d', $n, $n, $s->{name}, 1, $s->{name}, $n, $n),
		"$s->{name}: each of $n rows once");
}

# ---------------------------------------------------------------- dvsim's log

# "2026-11-18T11:18:59.776967Z" in seconds
sub seconds_of
{
	my ($y, $mon, $d, $h, $min, $s, $fraction) = $_[0] =~ /^(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(\.\d+)Z$/;
	return timegm($s, $min, $h, $d, $mon - 1, $y) + $fraction;
}

my %requests;		# by session: [ arrival, end ]
my %closed;			# by user: [ from, until ]
my @durations;
my %status;

for my $line (split /\n/, slurp_file($log))
{
	my ($at, $user, $kind, $status, $ms, $retry_after, $target) =
	  $line =~ /^(\S+) \d+ (\S+) (\S+) (\d+) ([\d.]+)ms .* retry_after=(\S+) fault=\S+ \S+ (\S+)$/;
	my $arrived = seconds_of($at);
	my $ended = $arrived + $ms / 1000;

	$status{$status}++;
	push @durations, $ms / 1000 if $status =~ /^2/ && $kind ne 'token';
	push @{ $requests{$1} }, [ $arrived, $ended ] if $target =~ /(?:tag=|%27|')(s\d\d)/;
	push @{ $closed{$user} }, [ $ended, $ended + MARGIN + ($retry_after eq '-' ? 1 : $retry_after) ] if $status == 429;
}
my $mean = sum0(@durations) / (@durations || 1);
note join(', ', map { "$status{$_} answers $_" } sort keys %status), sprintf ', %.0f ms on average', 1000 * $mean;

# Returns sorted intervals without overlaps.
sub united
{
	my @all;

	for my $i (sort { $a->[0] <=> $b->[0] } @_)
	{
		if (@all && $i->[0] <= $all[-1][1]) { $all[-1][1] = max($all[-1][1], $i->[1]); }
		else { push @all, [@$i]; }
	}
	return @all;
}

sub common_part
{
	my ($a, $b) = @_;
	my @both;

	for my $x (@$a)
	{
		push @both, grep { $_->[0] < $_->[1] } map { [ max($x->[0], $_->[0]), min($x->[1], $_->[1]) ] } @$b;
	}
	return \@both;
}

# Returns the intervals in which all users of a session are closed.
sub closed_for
{
	my ($s) = @_;
	my ($first, @others) = map { [ united(@{ $closed{$_} // [] }) ] } @{ $s->{users} };

	$first = common_part($first, $_) for @others;
	return $first;
}

# Returns the parts of an interval without a request at the service.
sub gaps
{
	my ($from, $until, @requests) = @_;
	my @gaps;

	for my $r (@requests)
	{
		push @gaps, [ $from, min($until, $r->[0]) ] if $r->[0] > $from;
		$from = max($from, $r->[1]);
		last if $from >= $until;
	}
	push @gaps, [ $from, $until ] if $from < $until;
	return grep { $_->[1] > $_->[0] } @gaps;
}

sub shares_a_user
{
	my ($s, $other) = @_;
	my %mine = map { $_ => 1 } @{ $s->{users} };

	return scalar grep { $mine{$_} } @{ $other->{users} };
}

my @table = ('session  role   server  does     rows  requests  waits  longest  demanded  closed');
for my $s (@sessions)
{
	my $sharing = grep { shares_a_user($s, $_) } @sessions;
	my $turn = $sharing * $mean / @{ $s->{users} };
	my $closed = closed_for($s);
	my @requests = united(@{ $requests{ $s->{name} } // [] });
	my ($longest, $demanded, $shut, $waits, $worst) = (0, 0, 0, 0, -1e9);
	my @late;

	for my $wanted (@{ $s->{wants} })
	{
		for my $gap (gaps($wanted->[0], $wanted->[1], @requests))
		{
			my $wait = $gap->[1] - $gap->[0];
			my $closed_then = sum0(map { $_->[1] - $_->[0] } @{ common_part([$gap], $closed) });
			my $demand = $closed_then + $turn + max(ABSENCE, 2 * $mean);

			$waits++;
			push @late, sprintf('%.2f s in %s, where %.2f s were demanded', $wait, substr($wanted->[2], 0, 60), $demand)
			  if $wait > 2 * $demand + SERVED;
			($longest, $demanded, $shut) = ($wait, $demand, $closed_then) if $wait > $longest;
		}
	}
	is(scalar @late, 0, "$s->{name}: no wait is longer than twice what the limits demand") or diag join "\n", @late;
	push @table, sprintf '%-7s  %-5s  %-6s  %-7s  %4d  %8d  %5d  %5.2f s  %6.2f s  %4.2f s', $s->{name}, $s->{role}, $s->{server},
	  $s->{kind}, $s->{rows}, scalar @{ $requests{ $s->{name} } // [] }, $waits, $longest, $demanded, $shut;
}
diag join "\n", '', @table;

$_->{session}->close for @sessions;
$watcher->close;
$node->stop;
done_testing();
