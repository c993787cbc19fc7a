# write_cancel.pl
#		Interrupted writes: they end at once, the WARNING reports how many rows have
#		been written and for how many the outcome is unknown, and dvsim's count lies
#		in that range.  Also savepoints, prepared and read-only transactions, and a
#		killed backend.
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
use WriteTest;

# The promise is 200 ms, but the test must not fail on a busy machine.
use constant PROMPT => 1;

my $many = 100_000;
my $w = WriteTest->start(
	'write_cancel',
	flags => [ '--latency', 'create=40ms~50%,update=40ms~50%,upsert=40ms~50%,delete=40ms~50%,batch=40ms~50%' ],
	conf => "max_prepared_transactions = 2\nlog_min_messages = warning\nrestart_after_crash = on\n");
my $watcher = $w->watcher;
my %latency;

# Returns the number of written rows and of rows in doubt, from the error or from a WARNING.
sub told
{
	my ($r, $what) = @_;
	my @warnings = grep { $_->{S} eq 'WARNING' } @{ $r->{notices} };
	my $detail = $r->{detail} // '';
	my ($stay, $doubt) = (0, 0);

	if ($detail =~ /^(\d+) rows? of this (?:transaction|statement) ha(?:s|ve) been written to Dataverse and stays? there\.$/m)
	{
		$stay = $1;
		$doubt = $1 if $detail =~ /^(\d+) more rows? (?:was|were) sent without a conclusive answer and may or may not have been written\.$/m;
	}
	elsif ($detail =~ /^(\d+) rows? of this (?:transaction|statement) (?:was|were) sent without a conclusive answer/m)
	{
		$doubt = $1;
	}
	if ($stay + $doubt > 0)
	{
		is(scalar @warnings, 0, "$what: the error says it, and no WARNING") || diag explain \@warnings;
		return ($stay, $doubt);
	}
	is(scalar @warnings, 1, "$what: one WARNING") || diag explain $r;
	my ($w) = @warnings or return (0, 0);
	if ($w->{message} =~ /^(?:the|part of the) transaction was rolled back, but (\d+) rows? written to Dataverse stays? there$/)
	{
		$stay = $1;
		$doubt = $1 if ($w->{detail} // '') =~ /^(\d+) more rows? (?:was|were) sent without a conclusive answer and may or may not have been written\.$/;
	}
	elsif ($w->{message} =~ /^(?:the|part of the) transaction was rolled back, but (\d+) rows? (?:was|were) sent to Dataverse without/)
	{
		$doubt = $1;
	}
	else { fail("$what: the WARNING is known: $w->{message}"); }
	return ($stay, $doubt);
}

# Waits until dvsim has carried out all requests that have reached it.
sub quiet
{
	wait_for(
		sub {
			my $users = $w->dvsim->control('GET', '/_dvsim/stats')->json->{users};
			return !grep { $_->{in_flight} } values %$users;
		},
		'dvsim is idle');
	return;
}

sub rows_sent
{
	my ($kind) = @_;
	my $users = $w->dvsim->control('GET', '/_dvsim/stats')->json->{users};
	my $sum = 0;

	$sum += $_->{rows}{$kind} // 0 for values %$users;
	return $sum;
}

# ---- in the middle of many rows

# written: rows that were sent to dvsim; count: rows that it has changed
my %statements = (
	insert => {
		sql => $w->insert('standard', 2, $many),
		written => sub { rows_sent('create') },
		count => sub { $w->rows_there('standard') }
	},
	upsert => {
		sql => $w->insert('standard', 2, $many, given => 1),
		settings => 'SET dataverse_fdw.insert_mode = upsert',
		written => sub { rows_sent('upsert') },
		count => sub { $w->rows_there('standard') }
	},
	update => {
		rows => 20_000,
		sql => $w->update('standard', 2, 'N > 0'),
		written => sub { rows_sent('update') },
		count => sub { $watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name LIKE '% of 2'") }
	},
	'delete' => {
		rows => 20_000,
		sql => $w->delete('standard', 'N > 0'),
		written => sub { 20_000 - $w->rows_there('standard') },
		count => sub { 20_000 - $w->rows_there('standard') }
	});

my %how = (
	cancel => {
		sqlstate => '57014',
		act => sub { $watcher->value('SELECT pg_cancel_backend(' . $_[0]->pid . ')') }
	},
	terminate => {
		sqlstate => '57P01',
		act => sub { $watcher->value('SELECT pg_terminate_backend(' . $_[0]->pid . ')') }
	},
	'statement_timeout' => { sqlstate => '57014', timeout => 1.0 });

for my $operation (sort keys %statements)
{
	my $statement = $statements{$operation};

	for my $how (sort keys %how)
	{
		my $what = "$operation, $how";
		my $way = $how{$how};
		my $session = $w->session;
		my $log = log_size($w->node);
		my ($at, $r, $stay, $doubt, $count, $before);

		next if $operation eq 'upsert' && $how ne 'cancel';
		$w->reset;
		$w->fill('standard', $statement->{rows}) if $statement->{rows};
		$before = $statement->{written}->();
		$session->query($statement->{settings}) if $statement->{settings};
		$session->query("SET statement_timeout = '$way->{timeout}s'") if $way->{timeout};
		$session->start($statement->{sql});
		$at = time + ($way->{timeout} // 0);
		if ($way->{act})
		{
			wait_for(sub { $session->done || $statement->{written}->() - $before >= 1500 }, "$what: it is in the middle");
			ok(!$session->done, "$what: it is under way");
			$at = time;
			$way->{act}->($session);
		}
		$r = $session->finish;
		$latency{$what} = ($r->{ended_at} - $at) * 1000;
		is($r->{sqlstate}, $way->{sqlstate}, "$what: it ends") || diag $r->{message};
		cmp_ok($latency{$what} / 1000, '<', PROMPT, sprintf '%s: within %.0f ms', $what, $latency{$what});
		if ($r->{gone})
		{
			# the client may not have received it; the log must have it
			wait_for(sub { log_since($w->node, $log) =~ /rolled back, but/ }, "$what: the log has it");
			my ($message) = log_since($w->node, $log) =~ /WARNING:  (the transaction was rolled back, but.*)/;
			my ($detail) = log_since($w->node, $log) =~ /DETAIL:  (\d+ more rows? .*)/;
			$r->{detail} = undef;
			$r->{notices} = [ { S => 'WARNING', message => $message, detail => $detail } ];
		}
		($stay, $doubt) = told($r, $what);
		quiet();
		$count = $statement->{count}->();
		cmp_ok($count, '>=', $stay, "$what: $stay rows reported, $count found");
		cmp_ok($count, '<=', $stay + $doubt, "$what: $doubt in doubt");
		# besides requests in flight: answers that have not been read, whose slots were released at once
		cmp_ok($doubt, '<=', 2 * 12 * WriteTest::BATCH, "$what: at most the rows that were under way");
		cmp_ok($stay + $doubt, '>', 0, "$what: and some rows were written");
		cmp_ok($count, '<', $many, "$what: but not all");
		is(in_flight($watcher), 0, "$what: no slot is held");
		$session->close;
	}
}

# ---- during waits: for answers, for a throttle, between two attempts

for my $state (
	[ 'answers that do not come', { action => 'stall', path => 'CreateMultiple', times => 0, after => 20 } ],
	[ 'all are throttled', { status => 429, path => 'CreateMultiple', times => 0, after => 20, code => '0x80072322', retry_after => 600 } ],
	[ 'a backoff', { status => 502, path => 'CreateMultiple', times => 0, after => 20, retry_after => 60 } ])
{
	my ($what, $rule) = @$state;
	my $session = $w->session;
	my ($at, $r, $stay, $doubt, $count);

	$w->reset;
	faults($w->dvsim, $rule);
	$session->start($w->insert('standard', 1, $many));
	wait_for(sub { $session->done || hits($w->dvsim) >= 3 }, "$what: faults");
	# wait until all requests in flight have been answered
	wait_for(sub { $session->done || $w->rows_there('standard') >= 20 * WriteTest::BATCH }, "$what: rows");
	ok(!$session->done, "$what: it waits");
	$at = time;
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	$r = $session->finish;
	$latency{$what} = ($r->{ended_at} - $at) * 1000;
	is($r->{sqlstate}, '57014', "$what: canceled");
	cmp_ok($latency{$what} / 1000, '<', PROMPT, sprintf '%s: within %.0f ms', $what, $latency{$what});
	($stay, $doubt) = told($r, $what);
	clear_faults($w->dvsim);
	$count = $w->rows_there('standard');
	cmp_ok($count, '>=', $stay, "$what: $stay rows reported, $count found");
	cmp_ok($count, '<=', $stay + $doubt, "$what: $doubt in doubt");
	is(in_flight($watcher), 0, "$what: no slot is held");
	$session->close;
}

diag sprintf 'latencies, ms: %s', join ', ', map { sprintf '%s %.0f', $_, $latency{$_} } sort keys %latency;

# ---- nothing in flight: the number is exact

my $session = $w->session;
my $done = 0;

# Checks a statement, or the result of one, and its WARNING.
sub stays
{
	my ($what, $sql, $stay) = @_;
	my $r = ref $sql ? $sql : $session->try($sql);
	my ($said, $doubt) = told($r, $what);

	is("$said, $doubt", "$stay, 0", "$what: $stay rows reported");
	return $r;
}

sub quietly
{
	my ($what, @statements) = @_;

	for my $sql (@statements)
	{
		my $r = $session->try($sql);

		is($r->{sqlstate}, undef, "$what: $sql") || diag $r->{message};
		is(scalar(grep { $_->{S} eq 'WARNING' } @{ $r->{notices} }), 0, "$what: no WARNING");
	}
	return;
}

sub some { my ($n) = @_; $done += $n; return $w->insert('standard', 1, $done, from => $done - $n + 1); }

$w->reset;
quietly('ROLLBACK', 'BEGIN', some(120), some(30));
stays('ROLLBACK', 'ROLLBACK', 150);
quietly('COMMIT', 'BEGIN', some(20), 'COMMIT');
quietly('ROLLBACK of nothing', 'BEGIN', 'SELECT 1', 'ROLLBACK');

quietly('a savepoint', 'BEGIN', some(60), 'SAVEPOINT s', some(40));
stays('ROLLBACK TO', 'ROLLBACK TO s', 40);
quietly('COMMIT after ROLLBACK TO', 'COMMIT');

quietly('a savepoint that is released', 'BEGIN', 'SAVEPOINT s', some(10), 'SAVEPOINT t', some(5), 'RELEASE s');
stays('its transaction rolled back', 'ROLLBACK', 15);

quietly('both', 'BEGIN', some(7), 'SAVEPOINT s', some(3));
stays('the savepoint', 'ROLLBACK TO s', 3);
stays('the transaction', 'ROLLBACK', 7);

{
	my $r = stays('an exception that is caught',
		'DO $$ BEGIN BEGIN ' . some(25) . '; RAISE EXCEPTION USING ERRCODE = \'DV001\'; '
		  . 'EXCEPTION WHEN SQLSTATE \'DV001\' THEN NULL; END; END $$', 25);
	is($r->{sqlstate}, undef, 'and the statement succeeds');
}

# canceled after everything has been answered
quietly('a quiet end', 'BEGIN', some(500));
{
	my $count = $w->rows_there('standard');

	is($count, $done, 'dvsim has the written rows, rolled back or not');
	$session->start('SELECT pg_sleep(600)');
	wait_for(
		sub { $watcher->value('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $session->pid) eq 'PgSleep' },
		'it sleeps');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	my $r = $session->finish;
	is($r->{sqlstate}, '57014', 'canceled in a later statement');
	stays('canceled', $r, 500);
	quietly('it has been told', 'ROLLBACK');
	is($w->rows_there('standard'), $count, 'which exist');
}

# ---- an error of the source in the middle: sent rows are completed or in doubt

{
	my $r;
	my ($stay, $doubt, $count);

	$w->reset;
	$r = $session->try("INSERT INTO dv.new_meter (new_name, new_number) SELECT 'x', 1000 / (3000 - n) FROM generate_series(1, 5000) n");
	is($r->{sqlstate}, '22012', 'the source fails');
	($stay, $doubt) = told($r, 'an error of the source');
	quiet();
	$count = $w->rows_there('standard');
	cmp_ok($count, '>=', $stay, "an error of the source: $stay rows reported, $count found");
	cmp_ok($count, '<=', $stay + $doubt, "$doubt in doubt");
}

# ---- PREPARE TRANSACTION

{
	my $r;

	$w->reset;
	$done = 0;
	quietly('PREPARE', 'BEGIN', some(10));
	$r = $session->try("PREPARE TRANSACTION 'dv'");
	is($r->{sqlstate}, '0A000', 'a transaction that has written cannot be prepared');
	is($r->{message}, 'cannot prepare a transaction that has written to Dataverse', 'with a reason');
	is(join(' ', told($r, 'PREPARE')), '10 0', 'and the number of written rows');
	is($session->value('SELECT count(*) FROM pg_prepared_xacts'), 0, 'no transaction is prepared');
	quietly('one that has read can be', 'BEGIN', 'SELECT count(*) FROM dv.new_meter', "PREPARE TRANSACTION 'dv'", "COMMIT PREPARED 'dv'");
}

# ---- read-only transactions

for my $sql (
	$w->insert('standard', 1, 10),
	$w->update('standard', 1, 'N > 0'),
	$w->delete('standard', 'N > 0'),
	'COPY dv.new_meter (new_name) FROM STDIN')
{
	my $before = rows_sent('create') + rows_sent('update') + rows_sent('delete');
	my $r;
	my ($verb) = $sql =~ /^(\w+)/;

	$session->query('BEGIN READ ONLY');
	$r = $session->try($sql);
	is($r->{sqlstate}, '25006', "$verb in a read-only transaction is refused") || diag $r->{message};
	$r = $session->try('ROLLBACK');
	is(scalar @{ $r->{notices} }, 0, "$verb: no row is written");
	is(rows_sent('create') + rows_sent('update') + rows_sent('delete'), $before, "$verb: no request was sent");
}
is($w->rows_there('standard'), 10, 'the rows are unchanged');
$session->close;

# ---- kill -9 in the middle

{
	my $victim = $w->session;

	$w->reset;
	$victim->start($w->insert('standard', 1, $many));
	wait_for(sub { rows_sent('create') >= 2000 || $victim->done }, 'it is in the middle');
	cmp_ok(in_flight($watcher), '>', 0, 'requests are under way');
	kill 'KILL', $victim->pid;
	ok($victim->finish->{gone}, 'kill -9 in the middle of a write');
	wait_for(sub { !eval { $watcher->value('SELECT 1') } }, 'the server has noticed');
	wait_for(sub { eval { $watcher = $w->{watcher} = $w->session; $watcher->value('SELECT 1') } }, 'the server is back');
	is(in_flight($watcher), 0, 'no slot is held');
	quiet();
	$w->reset;
	$w->fill('standard', 1000);
	$w->is_whole('standard', 'and the next write', upto => 1000, given => 1);
	is(in_flight($watcher), 0, 'and none by the next session');
}

$w->stop;
done_testing();
