# sync_histories.pl
#		Rows are written at random on both sides, also while dataverse.sync() runs
#		every five minutes of a day, and the service fails in all kinds of ways.  In
#		the end both sides have the same rows, and no edit is lost except by the
#		decision of a policy.
#
#	HISTORIES=N		number of histories (1), of a whole day each if more than one
#	SEED=N			seed of all random choices
#	RUNS=N			runs of a history (288; of a single history 60, or as many as 25 s allow)
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use JSON::PP ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;
use Session;
use SyncHistory;

my $histories = $ENV{HISTORIES} // 1;
my $runs = $ENV{RUNS} // ($histories > 1 ? 288 : 60);
my $patience = $histories > 1 || $ENV{RUNS} ? 1e9 : 25;		# s
my $seed = $ENV{SEED} // int(time) % 1_000_000;
my $rows = 120;
my $hot = 12;		# the most frequently written of them
my @columns = qw(name telephone1 description numberofemployees revenue);

note "SEED=$seed";

# dvsim with a table without change tracking
sub untracked
{
	my $file = "$FindBin::Bin/../../dvsim/schema.json";
	my $schema = JSON::PP->new->utf8->relaxed->decode(slurp_file($file));
	my $changed = PostgreSQL::Test::Utils::tempdir() . '/schema.json';

	$_->{change_tracking} = JSON::PP::false for grep { lc $_->{name} eq 'account' } @{ $schema->{tables} };
	open my $out, '>', $changed or die $!;
	print {$out} JSON::PP->new->utf8->encode($schema);
	close $out or die $!;
	return ('--schema', $changed);
}

sub pick { return $_[ int rand @_ ]; }

# Values that no other statement writes, for some of the columns.
my $serial = 0;

sub values_for
{
	my ($side, @some) = @_;
	my $n = ++$serial;
	my %value = (
		name => "$side name $n", telephone1 => "$side $n", description => "$side description $n",
		numberofemployees => 100_000 + $n, revenue => "$n.25");
	return map { $_ => $value{$_} } @some;
}

sub some_rows
{
	my ($h) = @_;
	return map { rand() < 0.4 ? $h->{hot}[ rand @{ $h->{hot} } ] : pick(sort keys %{ $h->{model}{rows} }) } 1 .. pick(1, 1, 2, 5);
}

sub literal { my ($value) = @_; return "'" . $value . "'"; }

# A statement of one side, and the notes to take when it has succeeded; for these rows, if any are given.
sub statement
{
	my ($h, $side, @ids) = @_;
	my $table = $side eq 'local' ? 'account' : 'remote.account';
	my $chance = @ids ? 0.10 + rand 0.9 : rand;

	if ($chance < 0.10)
	{
		my %values = values_for($side, @columns);
		my @names = sort keys %values;

		return { operation => 'insert', values => \%values,
			sql => "INSERT INTO $table (" . join(', ', @names) . ') VALUES (' . join(', ', map { literal($values{$_}) } @names) . ') RETURNING accountid' };
	}
	@ids = some_rows($h) unless @ids;
	my $list = "'{" . join(',', sort @ids) . "}'";

	if ($chance < 0.15)
	{
		# hot rows are not deleted
		$list = "'{" . pick(@ids) . "}'";
		return { operation => 'delete', values => {},
			sql => "DELETE FROM $table WHERE accountid = ANY ($list) AND accountid <> ALL ('{" . join(',', @{ $h->{hot} }) . "}') RETURNING accountid" };
	}
	my %values = values_for($side, grep { rand() < 0.35 } @columns);
	%values = values_for($side, pick(@columns)) unless %values;
	return { operation => 'update', values => \%values,
		sql => "UPDATE $table SET " . join(', ', map { "$_ = " . literal($values{$_}) } sort keys %values) . " WHERE accountid = ANY ($list) RETURNING accountid" };
}

# Notes what a statement has written, once it is known.
sub note_written
{
	my ($h, $side, $time, $statement, $result) = @_;

	if (defined $result->{sqlstate} || $result->{gone})
	{
		$h->{refused}{"$side $result->{sqlstate}"}++;
		# statements in Dataverse encounter no faults
		fail("a statement of the service: $result->{message}: $statement->{sql}") if $side eq 'service';
		return;
	}
	return if $statement->{rolled_back};
	for my $id (map { $_->[0] } @{ $result->{rows} })
	{
		next unless defined $id && $id =~ /^[0-9a-f-]{36}$/;
		$h->{model}->wrote($side, $time, $statement->{operation}, $id, %{ $statement->{values} });
		$h->{model}->touched($_) for $statement->{operation} eq 'delete' ? @{ $h->{children}{$id} // [] } : ();
		$h->{count}{"$side $statement->{operation}"}++;
	}
	return;
}

sub write_now
{
	my ($h, $side, $time, @ids) = @_;
	my $statement = statement($h, $side, @ids);

	note_written($h, $side, $time, $statement, $h->{$side}->try($statement->{sql}));
	return;
}

# Some of the possible faults of the next run's requests.
sub provoke
{
	my ($h) = @_;
	my @rules;

	# a write that arrives after its sender has continued can be told from a new one only by a version
	push @rules, { app_user => 'app1', method => 'POST', after => int rand 3, action => 'commit_late', delay_ms => pick(20, 200) }
	  if $h->{strict} && rand() < 0.1;
	for (1 .. pick(0, 0, 1, 1, 2, 3))
	{
		my %rule = %{ pick(
			{ status => 429, code => '0x80072322', retry_after => 0 },
			{ status => 503, message => 'busy' },
			{ status => 502, body => '<html>bad gateway</html>' },
			{ action => 'reset_before_commit' },
			{ action => 'reset_after_commit' },
			{ action => 'truncate' },
			{ action => 'garble' },
			{ action => 'shorten' },
			{ action => 'expire_token' },
			{ action => 'delay', delay_ms => pick(5, 20, 60) },
			# an error that ends the run
			{ status => 400, code => '0x80040216', message => 'no such luck' },
			{ status => 500, code => '0x80040216', message => 'unexpected', batch_part => 1 }) };

		$rule{method} = pick('GET', 'POST', 'PATCH', 'DELETE') if !exists $rule{batch_part} && rand() < 0.5;
		push @rules, { app_user => 'app1', after => int rand 6, times => pick(1, 1, 2), %rule };
	}
	$h->{crm}->no_faults;
	$h->{crm}->fault(%$_) for @rules;
	return;
}

sub sync
{
	my ($h, $busy, $call) = @_;
	my $runner = $h->{runner};
	my $n = $h->{n}++;

	$runner->start($call // $h->{call});
	if ($busy && rand() < 0.7)
	{
		for (1 .. pick(1, 2, 3))
		{
			last if $runner->done(rand 0.04);
			if (rand() < 0.5)
			{
				# a transaction that stays open for a while, and may roll back
				my $statement = statement($h, 'local');

				$statement->{rolled_back} = rand() < 0.15;
				$h->{local}->start("BEGIN; $statement->{sql}; SELECT pg_sleep(" . rand(0.04) . '); '
					  . ($statement->{rolled_back} ? 'ROLLBACK' : 'COMMIT'));
				my $result = $h->{local}->finish;
				$h->{local}->try('ROLLBACK') if defined $result->{sqlstate};
				note_written($h, 'local', $n + 0.5, $statement, $result);
			}
			else { write_now($h, 'service', $n + 0.5); }
		}
	}
	if ($busy && rand() < 0.08)
	{
		# cancel it, or end its session, at any point
		$runner->done(rand 0.03);
		$h->{local}->query('SELECT ' . pick('pg_cancel_backend', 'pg_terminate_backend') . '(' . $runner->pid . ')');
	}
	my $result = $runner->finish;
	$h->{runner} = Session->new($h->{crm}->node) if $result->{gone} || ($result->{sqlstate} // '') =~ /^57P/;

	if (defined $result->{sqlstate} || $result->{gone})
	{
		$result->{sqlstate} //= 'gone';
		$result->{message} //= '';
		$h->{failures}{"$result->{sqlstate} " . substr($result->{message}, 0, 160) =~ s/[0-9a-f]{8}-[0-9a-f-]{27}/…/gr}++;
	}
	$h->{model}->ran(!defined $result->{sqlstate});
	for my $id (split /\n/, $h->{crm}->sql('SELECT row_id FROM dataverse.conflicts'))
	{
		$h->{model}->filed($id);
		$h->{filed}++;
	}
	return $result;
}

# Without faults and writers, some runs suffice to leave nothing to do, and both sides have
# the expected rows.
sub rest_ok
{
	my ($h, $what) = @_;
	my $crm = $h->{crm};
	my ($result, $idle);
	my $ok = 1;

	$crm->no_faults;
	# rows that were refused because of a fault are retried
	$crm->sql(q{SELECT dataverse.resolve('public.account', 'local')});
	# without change tracking, only a comparison finds deletions; it is otherwise made once a day
	my $call = $h->{tracked} ? $h->{call} : $h->{call} =~ s/\)$/, sweep => '0')/r;
	for my $n (1 .. 12)
	{
		$result = sync($h, 0, $call);
		$idle = $crm->sql(q{SELECT status = 'succeeded' AND sent = 0 AND conflicts = 0 AND rejected = 0 AND inserted + updated + deleted = 0
			FROM dataverse.runs ORDER BY id DESC LIMIT 1});
		last if !defined $result->{sqlstate} && $idle eq 't';
	}
	$ok &&= is($result->{message} // '', '', "$what: a run succeeds");
	$ok &&= is($idle, 't', "$what: nothing is left to do")
	  || diag $crm->sql(q{SELECT r::text FROM dataverse.runs AS r ORDER BY id DESC LIMIT 3});
	my $differ = 'SELECT (SELECT count(*) FROM (TABLE remote.account EXCEPT TABLE account) AS x) || $$|$$ ||
	                     (SELECT count(*) FROM (TABLE account EXCEPT TABLE remote.account) AS x) || $$|$$ ||
	                     (SELECT count(*) FROM account) - (SELECT count(*) FROM remote.account)';
	$ok &&= is($crm->sql($differ), '0|0|0', "$what: both sides have the same rows");
	my %here = $h->{read}->('account');
	my @wrong = $h->{model}->wrong(%here);
	$ok &&= is(scalar @wrong, 0, "$what: no edit is lost") || diag join "\n", @wrong[ 0 .. ($#wrong > 4 ? 4 : $#wrong) ];
	return $ok;
}

sub history
{
	my ($number) = @_;
	my $began = time;

	srand($seed + $number);
	my $token = pick('first', 'last');
	my $tracked = $number % 4 != 3;
	my $strict = $number % 4 == 1;
	my %policy = map { $_ => pick('local', 'service') } @columns;
	my $default = pick('local', 'service');
	my $what = "history $number (SEED=$seed)";
	my $crm = Crm->start("history_$number", users => 1,
		flags => [ '--app-user', 'app2:secret2', '--delta-token', $token, $tracked ? () : untracked() ],
		options => {
			budget_pacing => 'off', page_size => pick(20, 50, 5000), retry_after_buffer => '5ms', fallback_retry_after => '20ms',
			request_timeout => '10s', min_increase_interval => '0s'
		});
	my %named = map { $_ => $policy{$_} } grep { $policy{$_} ne $default } @columns;
	my $h = { crm => $crm, strict => $strict, tracked => $tracked };

	note "$what: token $token, tracked " . ($tracked ? 'yes' : 'no') . ', strict ' . ($strict ? 'yes' : 'no')
	  . ", conflict $default, but " . join(' ', map { "$_ $named{$_}" } sort keys %named);
	$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
	$crm->server('other', mapping => "client_id 'app2', client_secret 'secret2'", options => { budget_pacing => 'off' });
	$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
		CREATE SCHEMA remote; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER other INTO remote');
	$h->{$_} = Session->new($crm->node) for qw(local service runner);
	$h->{call} = "CALL dataverse.sync('dv.account', 'public.account', conflict => '$default', column_conflicts => '"
	  . JSON::PP->new->canonical->encode(\%named) . "', strict => " . ($strict ? 'true' : 'false') . ')';
	my $names = join ', ', map { "coalesce(${_}::text, '')" } @columns;
	$h->{read} = sub {
		my ($table) = @_;
		my $result = $h->{service}->try("SELECT accountid, $names FROM $table");
		die $result->{message} if defined $result->{sqlstate};
		return map { my ($id, @values) = @$_; my %row; @row{@columns} = @values; $row{revenue} =~ s/\.?0+$// if $row{revenue} =~ /\./; ($id => \%row) }
		  @{ $result->{rows} };
	};
	my $begin = sub {
		$h->{model} = SyncHistory->new(policy => \%policy, strict => $strict, tracked => $tracked);
		$h->{model}->begins_with(@_);
		$h->{n} = 0;
	};
	$begin->($h->{read}->('remote.account'));
	push @{ $h->{children}{ $_->[1] } }, $_->[0]
	  for @{ $h->{service}->try('SELECT accountid, parentaccountid FROM remote.account WHERE parentaccountid IS NOT NULL')->{rows} };
	$h->{hot} = [ (sort keys %{ $h->{model}{rows} })[ map { $_ * 7 } 1 .. $hot ] ];
	my $first = $h->{runner}->try($h->{call});
	is($first->{message} // '', '', "$what: the first run") or do { $crm->stop; return; };

	my ($met, $checks, $played) = (0, 0, 0);
	my $until = pick(2 .. 12);
	for my $run (1 .. $runs)
	{
		my $is_last;

		$played++;
		write_now($h, pick('local', 'service'), $h->{n}) for 1 .. pick(0, 1, 1, 2, 3);
		if (rand() < 0.3)
		{
			# both sides write the same rows
			my @ids = some_rows($h);
			write_now($h, $_, $h->{n}, @ids) for pick([qw(local service)], [qw(service local)])->@*;
		}
		provoke($h);
		sync($h, 1);
		$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 300 });
		# and locally: without change tracking, changes are found by version in each run, and compared after a day
		$crm->sql(q{UPDATE dataverse_private.copies SET compared_at = compared_at - interval '5 minutes',
			marked_at = ARRAY(SELECT at - interval '5 minutes' FROM unnest(marked_at) WITH ORDINALITY AS u (at, n) ORDER BY n)});
		# an expired token, as if no run had taken place for a week
		$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 }) if $number % 4 == 2 && $run == int($runs / 2);

		# later edits would hide the fate of earlier ones, so there are pauses
		$is_last = $run == $runs || time - $began > $patience;
		next unless $run == $until || $is_last;
		$checks++;
		rest_ok($h, "$what, after run $run") or last;
		$met += $h->{model}->conflicts;
		last if $is_last;
		$begin->($h->{read}->('account'));
		$until = $run + pick(2 .. 12);
	}
	cmp_ok($met, '>', $played / 20, "$what: some edits were conflicts");
	note "$what: " . join(', ', map { "$h->{count}{$_} $_" } sort keys %{ $h->{count} });
	note "$what: $met local writes have met others, $checks times both sides were compared, " . ($h->{filed} // 0) . ' times a row was filed';
	note "$what: refused: " . join(', ', map { "$h->{refused}{$_} $_" } sort keys %{ $h->{refused} // {} });
	note "$what: failed runs: " . join('; ', map { "$h->{failures}{$_} × $_" } sort keys %{ $h->{failures} // {} });
	note "$what: " . $crm->sql(q{SELECT format('%s runs, %s sent, %s read, %s conflicts', count(*), sum(sent), sum(rows_read), sum(conflicts)) FROM dataverse.runs});
	note sprintf '%s: RUNS=%d, %.0f s', $what, $played, time - $began;
	$h->{$_}->close for qw(local service runner);
	$crm->stop;
	return;
}

history($_) for $histories > 1 ? 0 .. $histories - 1 : ($seed % 4);

done_testing();
