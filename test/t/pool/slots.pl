# slots.pl
#		Slots and the order of waiting: a session that can send sends, and no
#		session waits for an idle one.
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

use constant SOON => 30;	# long enough that a defect shows as a hang

my @users = map { "app$_" } 1 .. 30;
# answers arrive when the backend is already busy elsewhere
my $dvsim = Dvsim->start('--latency', 'read=50ms,create=50ms', map { ('--app-user', "$_:secret") } @users);
my $node = new_node('slots', preload => 1);
my $watcher = Session->new($node);
my $serial = 0;
my $row = 'SELECT accountid FROM account';

# Creates a server for these application users.
sub server
{
	my ($users, %options) = @_;
	my $name = 'crm' . ++$serial;
	my %mapping;

	for my $i (1 .. @$users)
	{
		my $suffix = $i > 1 ? "_$i" : '';
		@mapping{ "client_id$suffix", "client_secret$suffix", "name$suffix" } =
		  ($users->[ $i - 1 ], 'secret', "$name $users->[$i - 1]");
	}
	create_server($node, $name,
		{
			url => $dvsim->base,
			budget_pacing => 'off',
			initial_parallelism_factor => 1,
			retry_after_buffer => '10ms',
			%options
		},
		\%mapping);
	return $name;
}

sub fresh { return shift @users; }

sub whoami { return "SELECT count(*) FROM dataverse.whoami('$_[0]')"; }

# Starts a session whose request hangs and holds its slot.
sub holder
{
	my ($crm, $user, $at) = (@_, $dvsim);
	my $hits = hits($at);
	my $session = Session->new($node);

	faults($at, { app_user => $user, path => 'WhoAmI', action => 'stall' });
	$session->start(whoami($crm));
	wait_for(sub { hits($at) > $hits }, 'a request hangs');
	return $session;
}

# Starts a session that has a token.
sub ready
{
	my ($crm) = @_;
	my $session = Session->new($node);

	$session->query(whoami($crm));
	return $session;
}

# Before 17, all waits have the same name; so the session must wait for nothing but a slot.
sub waiting
{
	my ($session, $sql) = @_;

	$session->start($sql);
	wait_event($watcher, $session->pid, 'DataverseSlot');
	return $session;
}

sub cancel
{
	my (@sessions) = @_;

	for my $session (@sessions)
	{
		$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
		$session->finish;
		$session->close;
	}
	return;
}

# ... the request that it waits for is answered soon
sub goes_on
{
	my ($session, $what) = @_;
	my $done = $session->done(SOON);

	ok($done, $what);
	cancel($session) unless $done;
	return unless $done;
	my $r = $session->finish;
	is($r->{sqlstate}, undef, '... without an error') or diag $r->{message};
	$session->close;
	return;
}

sub nothing_is_left { return is(in_flight($watcher), 0, "$_[0]: nothing is left in flight"); }

sub table
{
	my ($crm) = @_;

	$watcher->query("DROP FOREIGN TABLE IF EXISTS account;"
		  . " CREATE FOREIGN TABLE account (accountid uuid, name text) SERVER $crm"
		  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid', page_size '20')");
	return;
}

$dvsim->control('POST', '/_dvsim/seed?table=account&rows=100');

# ---- a free slot goes to a session that can use that user

sub free_slots
{
	my ($how) = @_;
	my ($one, $two) = (fresh(), fresh());
	my ($first, $second) = (server([$one], max_parallel => 1), server([$two], max_parallel => 1));
	my ($other, $waiting) = (ready($second), ready($first));
	my ($holder1, $holder2) = (holder($first, $one), holder($second, $two));

	waiting($other, whoami($second));
	waiting($waiting, whoami($first));

	cancel($holder1);
	goes_on($waiting, "$how: a slot goes to a session that can use that user, not to one that has waited longer for another");
	ok(!$other->done, 'a session that needs another user keeps waiting');
	cancel($holder2);
	goes_on($other, 'until that is free');
	nothing_is_left('two users');
	return;
}
free_slots('preloaded');

# ---- a session that cannot use a slot leaves it to the next one

{
	my ($one, $two) = (fresh(), fresh());
	my ($small, $large) = (server([$one], max_parallel => 1), server([$one], max_parallel => 4));
	my ($cannot, $waiting) = (ready($small), ready($large));
	my @held = (holder($small, $one), map { holder($large, $one) } 1 .. 3);

	waiting($cannot, whoami($small));
	waiting($waiting, whoami($large));

	cancel($held[1]);
	goes_on($waiting, 'a slot that the first in line cannot use goes to the next one');
	ok(!$cannot->done, '... while the first waits for its own server');
	cancel($held[0]);
	goes_on($cannot, '... until a slot of that is free');
	cancel(@held[ 2, 3 ]);
	nothing_is_left('two ceilings');
}

# ---- an idle backend in the queue does not delay the others

{
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1);
	my $cursor = ready($crm);
	my @ready = map { ready($crm) } 1 .. 2;

	table($crm);
	my $first = holder($crm, $user);
	$cursor->query("BEGIN; DECLARE c CURSOR FOR $row");
	waiting($cursor, 'FETCH 1 FROM c');
	my $hits = hits($dvsim);
	faults($dvsim, { app_user => $user, path => 'WhoAmI', action => 'stall' });
	my $second = waiting($ready[0], whoami($crm));
	cancel($first);
	$cursor->finish;
	wait_for(sub { hits($dvsim) > $hits }, 'the other session got the slot');
	my $third = waiting($ready[1], whoami($crm));
	cancel($second);
	goes_on($third, 'a wake-up is not wasted on a cursor that is not being read');
	is(scalar(split /\n/, $cursor->query('FETCH ALL FROM c')), 99, 'the cursor continues when it is read');
	$cursor->query('COMMIT');
	$cursor->close;
	nothing_is_left('an idle cursor that waits');
}

# ---- slots of a backend that is busy elsewhere are lent

{
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1);
	my $cursor = Session->new($node);
	my $locker = Session->new($node);

	table($crm);
	$watcher->query('CREATE TABLE locked (id int); INSERT INTO locked VALUES (1)');
	$cursor->query("BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
	is(pool($watcher, "$crm $user", 'in_flight'), 1, 'an idle cursor holds a slot for its next page');
	my $other = Session->new($node);
	my $start = time;
	$other->start(whoami($crm));
	goes_on($other, 'which is lent');
	cmp_ok(time - $start, '>=', 0.5, '... not at once');
	is(pool($watcher, "$crm $user", 'in_flight'), 0, 'the slot is no longer counted for it');
	is(scalar(split /\n/, $cursor->query('FETCH ALL FROM c')), 99, 'the cursor has all its rows');
	$cursor->query('COMMIT');
	nothing_is_left('afterwards');

	# even if the owner waits for the session that waits for the slot
	$locker->query('BEGIN; UPDATE locked SET id = 2');
	$cursor->query("BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
	$cursor->start('UPDATE locked SET id = 3');
	wait_for(
		sub {
			($watcher->value('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $cursor->pid) // '') eq 'Lock';
		},
		'it waits for a lock');
	is($locker->try(whoami($crm))->{rows}[0][0], 1, 'a lock and a slot cause no deadlock');
	$locker->query('COMMIT');
	$cursor->finish;
	is(scalar(split /\n/, $cursor->query('FETCH ALL FROM c')), 99, 'both continue');
	$cursor->query('ROLLBACK');
	nothing_is_left('a lock and a slot');

	# released once, even if the owner ends
	for my $end ('ROLLBACK', 'terminate', 'CLOSE c')
	{
		my $owner = Session->new($node);

		$owner->query("BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
		is($watcher->value(whoami($crm)), 1, "lent before $end");
		my $holder = holder($crm, $user);
		if ($end eq 'terminate')
		{
			my $pid = $owner->pid;
			$watcher->value("SELECT pg_terminate_backend($pid)");
			wait_for(sub { !kill 0, $pid }, 'it has ended');
		}
		else { $owner->query($end); }
		is(pool($watcher, "$crm $user", 'in_flight'), 1, '... the slot of the other session is still counted');
		cancel($holder);
		nothing_is_left($end);
	}
	$_->close for $cursor, $locker;
}

# ---- even if the slots are those of other users of the environment

{
	my @two = map { "shared$_" } 1, 2;
	my $environment = Dvsim->start('--latency', 'read=50ms', map { ('--app-user', "$_:secret") } @two);
	my ($held, $other) = map { server([$_], url => $environment->base) } @two;
	my $whoami = ready($other);
	my @cursors;

	$environment->control('POST', '/_dvsim/seed?table=account&rows=100');
	table($held);
	do
	{
		my $cursor = ready($held);

		push @cursors, $cursor;
		$cursor->query("BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
	} while (@cursors < 20 && pool($watcher, "$held $two[0]", 'in_flight < useful_limit') eq 't');
	is(pool($watcher, "$other $two[1]", 'effective_limit'), 0, 'idle cursors hold all slots of an environment');
	$whoami->start(whoami($other));
	goes_on($whoami, 'which are lent to other users of it');
	is(scalar(split /\n/, $_->query('FETCH ALL FROM c')), 99, 'a cursor has all its rows') for @cursors;
	$_->close for @cursors;
	nothing_is_left('an environment');
	is($watcher->value("SELECT useful_limit > 0 FROM dataverse.pool WHERE server = '$held'"), 't', 'its limit is known');
}

# ---- the first requests to an environment hang

{
	my @two = map { "hangs$_" } 1, 2;
	my $environment = Dvsim->start(map { ('--app-user', "$_:secret") } @two);
	my ($hangs, $other) = map { server([$_], url => $environment->base) } @two;
	my @held = map { holder($hangs, $two[0], $environment) } 1, 2;
	my $next = Session->new($node);

	$next->start(whoami($hangs));
	goes_on($next, 'requests that hang do not hold up others of a user of which nothing is known');
	my $beside = ready($other);
	is(pool($watcher, "$hangs $two[0]", 'in_flight'), 2, 'they take the slots of the environment');
	$beside->start(whoami($other));
	goes_on($beside, '... and do not hold up its other users');
	cancel(@held);
	nothing_is_left('requests that hang');
}

# ---- a COPY whose client pauses lends its slot, and borrows one from an idle cursor

sub copies_that_pause
{
	my ($how) = @_;
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1, batch_size => 5);
	my ($copier, $cursor) = map { ready($crm) } 1 .. 2;
	my $sent = sub { user_stats($dvsim, $user)->{requests}{create} // 0 };

	table($crm);
	$copier->start('COPY account (name) FROM STDIN');
	for my $pause (1 .. 2)
	{
		$copier->copy(join '', map { "$how $pause.$_\n" } 1 .. 7);
		wait_for(sub { $sent->() >= $pause }, 'a batch is sent');
		is(pool($watcher, "$crm $user", 'in_flight'), 1, "$how, pause $pause of a COPY: it holds a slot");
		my $other = Session->new($node);
		$other->start(whoami($crm));
		goes_on($other, '... which is lent');
	}
	$cursor->query("BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
	is(pool($watcher, "$crm $user", 'in_flight'), 1, 'now a cursor holds the slot');
	$copier->copy_end;
	ok($copier->done(SOON), 'which is lent to the COPY');
	is($copier->finish->{tag}, 'COPY 14', '... which finishes');
	$cursor->query('FETCH ALL FROM c; COMMIT');
	is($watcher->query("SELECT count(*), count(DISTINCT name) FROM account WHERE name LIKE '$how %'"), '14|14', 'each row is written once');
	nothing_is_left('a COPY that pauses');
	$_->close for $copier, $cursor;
	return;
}
copies_that_pause('preloaded');

# ---- a cancel noticed while a message is logged does not leave a request half sent

# The cursor's request belongs to the outer transaction, and continues after ROLLBACK TO.  The
# client does not read, so the backend blocks in one of the messages about that request.
{
	my $user = fresh();
	my $crm = server([$user], retry_after_buffer => 0, max_throttle_retries => -1, page_size => 1);

	table($crm);
	$watcher->query("ALTER FOREIGN TABLE account OPTIONS (SET page_size '1')");
	for my $round (1 .. 6)
	{
		my $session = Session->new($node);
		my $pid = $session->pid;

		$session->query("SET client_min_messages = debug2; BEGIN; DECLARE c CURSOR FOR $row; FETCH 1 FROM c");
		faults($dvsim, { app_user => $user, path => 'accounts', status => 429, code => '0x80072322', retry_after => 0, times => 1e6 });
		$session->query('FETCH 1 FROM c; SAVEPOINT a');
		$session->start('FETCH 1 FROM c');
		wait_for(sub { ($watcher->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid") // '') eq 'ClientWrite' },
			'the backend waits for its client');
		$watcher->value("SELECT pg_cancel_backend($pid)");
		is($session->finish->{sqlstate}, '57014', "canceled in the middle of a request, round $round");
		clear_faults($dvsim);
		$session->query('ROLLBACK TO a');
		is($session->try(whoami($crm))->{rows}[0][0], 1, '... the next request continues');
		is(in_flight($watcher), 0, '... and no slot is left');
		$session->close;
	}
}

# ---- an Append that does not respond gives up its wake-up

# a waiting backend looks for slots of busy backends only once a second: that would be later
{
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1);
	my $fastest = SOON;

	table($crm);
	for my $round (1 .. 3)
	{
		my ($append, $other) = map { ready($crm) } 1 .. 2;
		my $holder = holder($crm, $user);
		my $event;

		$append->start("$row UNION ALL $row");
		wait_for(
			sub {
				$event = $watcher->value('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $append->pid) // '';
				$event =~ /^(?:AppendReady|Extension|DataverseSlot)$/;
			},
			'the Append waits');
		waiting($other, whoami($crm));
		# stopped, it appears to wait for its scans
		kill 'STOP', $append->pid if $event eq 'AppendReady';
		my $start = time;
		$watcher->value('SELECT pg_cancel_backend(' . $holder->pid . ')');
		ok($other->done(SOON), 'a slot goes to the next session if the woken Append does not take it');
		$fastest = time - $start if time - $start < $fastest;
		kill 'CONT', $append->pid;
		is($_->finish->{sqlstate}, undef, '... and both continue') for $other, $append;
		$holder->finish;
		$_->close for $holder, $other, $append;
	}
	cmp_ok($fastest, '<', 0.5, sprintf '... soon (%.2f s)', $fastest);
	nothing_is_left('an Append');
}

# ---- sessions that wait for another user do not delay others

{
	my ($one, $two) = (fresh(), fresh());
	my ($first, $second) = (server([$one]), server([$two]));

	faults($dvsim, { app_user => $two, path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 120 });
	my @waiting = map { Session->new($node) } 1 .. 4;
	# one request is throttled; only then do the others know that they must wait
	$waiting[0]->start(whoami($second));
	wait_for(sub { pool($watcher, "$second $two", 'throttled') eq 't' }, 'it is throttled');
	$_->start(whoami($second)) for @waiting[1 .. 3];
	wait_event($watcher, $_->pid, 'DataverseThrottle') for @waiting;
	my $session = Session->new($node);
	$session->query(whoami($first));
	my $r = $session->try("SELECT count(*) FROM generate_series(1, 100) i, LATERAL (SELECT i, dataverse.whoami('$first')) x");
	is($r->{rows}[0][0], 100, 'requests of one user beside sessions that wait for another');
	cmp_ok($r->{seconds}, '<', 3, sprintf '... are not slowed down (%.2f s)', $r->{seconds});
	cancel(@waiting);
	clear_faults($dvsim);
	$session->close;
}

# ---- each server's ceiling is about its own requests

{
	my $user = fresh();
	my ($small, $large) = (server([$user], max_parallel => 1), server([$user], max_parallel => 20));

	$watcher->query(whoami($large));
	is(pool($watcher, "$large $user", "maximum_parallelism || ' ' || current_parallelism"), '20 20', 'the larger ceiling');
	my @held = map { holder($large, $user) } 1 .. 3;
	my $session = Session->new($node);
	$session->start(whoami($small));
	goes_on($session, 'max_parallel 1 does not wait for the requests of another server');
	is(pool($watcher, "$large $user", "maximum_parallelism || ' ' || current_parallelism"), '20 20', '... and does not limit the other server');
	is(pool($watcher, "$small $user", "maximum_parallelism || ' ' || effective_limit || ' ' || limited_by"), '1 1 maximum', 'the view shows its own ceiling');
	my $second = ready($small);
	my $own = holder($small, $user);
	waiting($second, whoami($small));
	ok(!$second->done(0.2), 'its second request waits for its first');
	cancel($own);
	goes_on($second, 'until that ends');
	cancel(@held);
	nothing_is_left('ceilings');
}

# ---- a timeout for slots

{
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1, slot_timeout => '300ms');
	my $holder = holder($crm, $user);
	my $r = Session->new($node)->try(whoami($crm));

	is($r->{sqlstate}, '53400', 'slot_timeout: an error');
	like($r->{message}, qr/all request slots of the application users remained in use for 0\.3 s, the value of "slot_timeout"/, 'with its own message');
	like($r->{hint}, qr/Add application users/, 'and a hint');
	cmp_ok($r->{seconds}, '>=', 0.3, 'not too early');
	cancel($holder);
	is($watcher->value(whoami($crm)), 1, 'with a free slot, no error');
	nothing_is_left('slot_timeout');
}

# ---- round_robin skips throttled users

{
	my @two = (fresh(), fresh());
	my $crm = server(\@two, selection => 'round_robin', max_retry_after_tolerance => '10s');

	faults($dvsim, { app_user => $two[0], path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 120 });
	my $r = $watcher->try("SELECT count(*) FROM generate_series(1, 4) i, LATERAL (SELECT i, dataverse.whoami('$crm')) x");
	is($r->{sqlstate}, undef, 'round_robin with a tolerance, one user throttled: no error') or diag $r->{message};
	cmp_ok($r->{seconds}, '<', SOON, 'and no waiting');
	clear_faults($dvsim);
}

# ---- stopped backends: by a signal, or in a debugger

{
	my $user = fresh();
	my $crm = server([$user], max_parallel => 1);
	my ($first, $second, $third) = map { ready($crm) } 1 .. 3;

	# its wake-up is passed on
	my $hits = hits($dvsim);
	faults($dvsim, { app_user => $user, path => 'WhoAmI', action => 'delay', delay_ms => 1000 });
	my $holder = Session->new($node);
	$holder->start(whoami($crm));
	wait_for(sub { hits($dvsim) > $hits }, 'a request is under way');
	waiting($_, whoami($crm)) for $first, $second, $third;
	kill 'STOP', $first->pid;
	goes_on($holder, 'its answer arrives');
	goes_on($_, 'a free slot is not kept for a stopped backend') for $second, $third;
	kill 'CONT', $first->pid;
	goes_on($first, '... which continues when it runs again');

	# the same when all of them wait for a throttle to end
	($first, $second, $third) = map { ready($crm) } 1 .. 3;
	faults($dvsim, { app_user => $user, path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 5 });
	for my $session ($first, $second, $third)
	{
		$session->start(whoami($crm));
		# before 17, a wait for an answer has the same name
		wait_for(sub { pool($watcher, "$crm $user", 'throttled') eq 't' }, 'the first one is throttled');
		wait_event($watcher, $session->pid, 'DataverseThrottle');
	}
	kill 'STOP', $first->pid;
	goes_on($_, 'nor when a throttle ends') for $second, $third;
	kill 'CONT', $first->pid;
	goes_on($first, '... and it continues itself');
	clear_faults($dvsim);

	# the end of a request wakes one that runs, which would otherwise try again within a second
	($first, $second, $third) = map { ready($crm) } 1 .. 3;
	faults($dvsim, { app_user => $user, path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 5 });
	for my $session ($first, $second, $third)
	{
		$session->start("SELECT clock_timestamp(), w.x FROM (SELECT dataverse.whoami('$crm') AS x OFFSET 0) AS w");
		# before 17, a wait for an answer has the same name
		wait_for(sub { pool($watcher, "$crm $user", 'throttled') eq 't' }, 'the first one is throttled');
		wait_event($watcher, $session->pid, 'DataverseThrottle');
	}
	kill 'STOP', $first->pid;
	clear_faults($dvsim);
	faults($dvsim, { app_user => $user, path => 'WhoAmI', times => 2, action => 'delay', delay_ms => 1100 });
	my @ends = map { $_->finish->{rows}[0][0] } $second, $third;
	my $apart = $watcher->value("SELECT abs(extract(epoch FROM '$ends[0]'::timestamptz - '$ends[1]'::timestamptz))");
	cmp_ok($apart, '<', 1.6, 'nor does the end of a request wake it instead of one that runs');
	kill 'CONT', $first->pid;
	goes_on($first, '... while the stopped one continues later');
	$_->close for $second, $third;
	clear_faults($dvsim);
	nothing_is_left('stopped backends');
}

# ---- the circuit breaker

{
	my $user = fresh();
	# limited_by is not what other requests of the environment leave
	my $crm = server([$user], max_throttle_retries => -1, max_parallel => 4, useful_limit => 'off');
	my $offset = log_size($node);
	my $session = Session->new($node);
	# the server does not wait for throttles, and has four slots whatever the rate control allows
	my $eager = server([$user], throttle_tracking => 'off', adaptive_rate => 'off', max_parallel => 4);
	my $second = ready($eager);

	faults($dvsim, { app_user => $user, path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 0, times => 0 });
	$session->start(whoami($crm));
	wait_for(sub { log_since($node, $offset) =~ /circuit breaker of application user "$crm $user" of server "$crm" has opened/ },
		'the circuit breaker opens, and the log says so');
	is(pool($watcher, "$crm $user", "effective_limit || ' ' || limited_by"), '0 circuit breaker', 'limited_by shows it');
	is(pool($watcher, "$crm $user", 'last_retry_after'), '00:00:00', 'the last Retry-After is shown');
	clear_faults($dvsim);
	my $probe = holder($eager, $user);
	waiting($second, whoami($eager));
	ok(!$second->done(0.2), 'while it is open, only one request at a time is sent');
	is(pool($watcher, "$eager $user", 'in_flight'), 1, '... although the user has four slots');
	is($watcher->value("SELECT dataverse.reset_pool('$crm', '$crm $user')"), 1, 'reset_pool of one user');
	is(pool($watcher, "$crm $user", 'limited_by'), 'maximum', 'closes it');
	goes_on($session, 'and the waiting session continues');
	goes_on($second, '... although the other request still hangs');
	cancel($probe);
	is($watcher->try("SELECT dataverse.reset_pool('$crm', 'nobody')")->{sqlstate}, '42704', 'an unknown name is an error');
	nothing_is_left('circuit breaker');
}

# ---- not preloaded: the memory is allocated on first use

$watcher->close;
preload($node, 0);
$watcher = Session->new($node);
free_slots('not preloaded');
copies_that_pause('not preloaded');

$watcher->close;
$node->stop;
done_testing();
