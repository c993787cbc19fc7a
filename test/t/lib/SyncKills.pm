# SyncKills.pm
#		Kills a backend, the postmaster, or dvsim at chosen points of a run of
#		dataverse.pull(), push(), or sync(), and counts the pages that are read
#		again.
#
# Points are found without waiting for any length of time.  Triggers on the tables
# of the schema dataverse count the transactions of a run, from 0, which writes its
# row.  In the session under test, two points of each transaction can be gates:
#
#	begun:N		transaction N has done what comes before its first write, and the one
#				before it is committed
#	done:N		transaction N has done everything, and is about to commit
#
# At a gate, the backend waits for an advisory lock that the test holds.  Other points are
# requests that dvsim delays:
#
#	held:N		N - 1 pages were answered, and the next one never is
#	sent:N		the same, but the request that is never answered was carried out
#
#	my $k = SyncKills->start('kills', page => 50);
#	$k->chain($sql, 'a first read');	# kills at each point until the run succeeds
#
# SPDX-License-Identifier: PostgreSQL

package SyncKills;

use strict;
use warnings;

use Carp qw(croak);
use PostgreSQL::Test::Utils ();
use Test::More ();
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;
use Session;

use constant CLASS => 77_081;		# of the locks of gates
use constant PATIENCE => 120;

my @kinds = qw(begun done held);
my @victims = qw(backend postmaster dvsim);

# page (rows), token (first or last), flags, options (of the server)
sub start
{
	my ($class, $name, %arg) = @_;
	# the test's million rows use up the budgets, and waiting for them would take hours
	my @limits = ($ENV{ROWS} // 0) > 10_000 ? ('--limit-requests', 1_000_000_000, '--limit-exec', '10000000s') : ();
	my $crm = Crm->start(
		$name,
		flags => [
			@limits,
			'--data', PostgreSQL::Test::Utils::tempdir() . "/$name.rows",
			'--delta-token', $arg{token} // 'first', @{ $arg{flags} // [] } ],
		options => {
			page_size => $arg{page} // 5000,
			budget_pacing => 'off',
			# longer than dvsim takes to restart
			max_retries => 100,
			%{ $arg{options} // {} }
		},
		conf => $arg{conf} // '');
	my $self = bless { crm => $crm, page => $arg{page} // 5000, kills => {}, most => 0, turn => 0 }, $class;

	$self->install;
	return $self;
}

sub crm { return $_[0]{crm}; }
sub sql { my ($self, $sql) = @_; return $self->{crm}->sql($sql); }
sub node { return $_[0]{crm}->node; }
sub dvsim { return $_[0]{crm}->dvsim; }

# ---------------------------------------------------------------- gates

sub install
{
	my ($self) = @_;
	my $class = CLASS;

	# Sequences are not rolled back.  The first write of a transaction is identified by its number.
	$self->sql(qq{
		CREATE SCHEMA gate;
		CREATE SEQUENCE gate.xid MINVALUE 0 CACHE 1;
		CREATE SEQUENCE gate.n MINVALUE 0 CACHE 1;
		CREATE FUNCTION gate.pass() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS \$\$
		DECLARE
		  stops text[] := string_to_array(current_setting('gate.stops', true), ',');
		  xid bigint := pg_current_xact_id()::text::bigint;
		  seen bigint;
		  n bigint;
		BEGIN
		  IF stops IS NULL THEN
		    RETURN NULL;
		  END IF;
		  SELECT last_value INTO seen FROM gate.xid;
		  IF TG_TABLE_NAME = 'run_log' AND TG_OP = 'INSERT' AND TG_ARGV[0] = 'begun' THEN
		    PERFORM setval('gate.n', 0), setval('gate.xid', xid);
		  ELSIF xid <> seen THEN
		    PERFORM nextval('gate.n'), setval('gate.xid', xid);
		  ELSIF TG_ARGV[0] = 'begun' THEN
		    RETURN NULL;
		  END IF;
		  SELECT last_value INTO n FROM gate.n;
		  IF TG_ARGV[0] || ':' || n = ANY (stops) THEN
		    PERFORM pg_advisory_xact_lock_shared($class, n::integer);
		  END IF;
		  RETURN NULL;
		END \$\$;
		CREATE PROCEDURE gate.install() LANGUAGE plpgsql AS \$\$
		DECLARE
		  t regclass;
		BEGIN
		  FOR t IN SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'dataverse_private'::regnamespace AND c.relkind = 'r'
		    AND NOT EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgname = 'gate_begun')
		  LOOP
		    EXECUTE format('CREATE TRIGGER gate_begun BEFORE INSERT OR UPDATE OR DELETE ON %s EXECUTE FUNCTION gate.pass(''begun'')', t);
		  END LOOP;
		  FOR t IN SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'dataverse_private'::regnamespace AND c.relkind = 'r'
		    AND c.relname NOT IN ('copy_ids', 'local_changes')
		    AND NOT EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgname = 'gate_done')
		  LOOP
		    EXECUTE format('CREATE CONSTRAINT TRIGGER gate_done AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED
		                    FOR EACH ROW EXECUTE FUNCTION gate.pass(''done'')', t);
		  END LOOP;
		END \$\$;
		CALL gate.install()});
	return;
}

# Opens the session that keeps gates closed.
sub watcher
{
	my ($self) = @_;
	my $until = time + PATIENCE;

	until ($self->{watcher})
	{
		$self->{watcher} = eval { Session->new($self->node) };
		last if $self->{watcher};
		croak "the server did not come back: $@" if time > $until;
		sleep 0.02;
	}
	return $self->{watcher};
}

# Starts a statement in a session of its own, with these gates closed.
sub begin
{
	my ($self, $sql, @stops) = @_;
	my $class = CLASS;
	my $w = $self->watcher;

	$w->query("SELECT pg_advisory_unlock_all()");
	$w->query("SELECT setval('gate.n', 0), setval('gate.xid', 0)");
	for my $stop (@stops)
	{
		my ($n) = $stop =~ /:(\d+)$/;
		$w->query("SELECT pg_advisory_lock($class, $n)");
	}
	my $s = Session->new($self->node, options => @stops ? '-c gate.stops=' . join(',', @stops) : '');
	$s->query("SET application_name = 'killed'");
	$s->start($sql);
	return $s;
}

# Returns the gate at which a session waits, if any.
sub gate_of
{
	my ($self, $s) = @_;
	my $class = CLASS;

	return $self->watcher->value(
		"SELECT max(objid::bigint) FROM pg_locks WHERE locktype = 'advisory' AND classid = $class AND objsubid = 2
		 AND NOT granted AND pid = " . $s->pid);
}

# Waits until a session has reached a gate; false if its statement has ended before.
sub await_gate
{
	my ($self, $s) = @_;
	my $until = time + PATIENCE;

	while (1)
	{
		return 1 if $self->gate_of($s);
		return 0 if $s->done(0.01);
		croak 'no gate' if time > $until;
	}
	return;
}

# The same, for another gate.
sub await_next
{
	my ($self, $s, $gate) = @_;
	my $until = time + PATIENCE;

	while (1)
	{
		return 1 if ($self->gate_of($s) // $gate) != $gate;
		return 0 if $s->done(0.01);
		croak "no gate after $gate" if time > $until;
	}
	return;
}

sub open_gate
{
	my ($self, $n) = @_;
	$self->watcher->query('SELECT pg_advisory_unlock(' . CLASS . ", $n)");
	return;
}

# Waits until dvsim delays a request, and the session only waits for it; or until it has
# reached a gate without such a request.
sub await_held
{
	my ($self, $s) = @_;
	my $until = time + PATIENCE;

	while (1)
	{
		my ($rule) = @{ $self->dvsim->control('GET', '/_dvsim/faults')->json };

		return 1
		  if $rule && $rule->{hits} > 0
		  && $self->watcher->value('SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = $$Extension$$ AND pid = ' . $s->pid) > 0;
		return 1 if $self->gate_of($s);
		return 0 if $s->done(0.01);
		croak 'no request is held back' if time > $until;
	}
	return;
}

# ---------------------------------------------------------------- kills

sub kill_backend
{
	my ($self, $s) = @_;

	kill 'KILL', $s->pid;
	$s->done(PATIENCE) or croak 'a session has survived';
	# the postmaster has noticed when the other sessions have ended as well
	my $until = time + PATIENCE;
	while (1)
	{
		my $result = $self->watcher->try('SELECT 1');
		last if $result->{gone} || defined $result->{sqlstate};
		croak 'the postmaster has not noticed' if time > $until;
		sleep 0.005;
	}
	delete $self->{watcher};
	$self->watcher;
	return;
}

sub kill_postmaster
{
	my ($self, $s) = @_;
	my $until = time + PATIENCE;
	my $pid = $self->node->{_pid};

	$self->node->kill9;
	# a backend without a postmaster has to end by itself
	$s->done(PATIENCE) or croak 'a session has survived its postmaster';
	delete $self->{watcher};
	# until it has been reaped, it looks alive to the next one
	while (kill 0, $pid)
	{
		croak 'the postmaster is still there' if time > $until;
		sleep 0.01;
	}
	until ($self->node->start(fail_ok => 1))
	{
		croak 'the server does not start' if time > $until;
		$self->node->{_pid} = undef;
		sleep 0.05;
	}
	$self->watcher;
	return;
}

sub kill_dvsim
{
	my ($self) = @_;

	$self->note_pages;
	$self->dvsim->crash;
	$self->dvsim->start_again;
	# it restarts the count of its requests
	$self->{since} = 0;
	$self->{noted} = {};
	return;
}

# -- pages read

# Returns the target of a page, and for a page of a range of ids its columns and the id that it
# follows: the same page is requested by a link or, after a kill, by the id from which it begins.
sub place_of
{
	my ($target) = @_;
	my ($columns) = $target =~ /(\$select=[^&]*)/;
	my $after;

	return $target if $target !~ /\$filter=/;
	if ($target =~ /accountid%20last%3d%22%7b([-0-9a-f]{36})/i) { $after = lc $1; }
	elsif ($target =~ /accountid ge (([0-9a-f]{2})([-0-9a-f]{34}))/)
	{
		# the first byte is the least significant one
		$after = $2 eq '00' ? "before $1" : sprintf '%02x%s', hex($2) - 1, $3;
	}
	return "$columns after " . ($after // 'nothing');
}

# Notes which pages have been answered since the last call, and counts those that had been
# answered before the last kill.
sub note_pages
{
	my ($self) = @_;

	my $log = $self->dvsim->control('GET', '/_dvsim/requests?since=' . ($self->{since} // 0))->json;

	$self->{since} = $log->{next};
	for my $request (@{ $log->{requests} })
	{
		# the request under way is sent again
		$self->{since} = $request->{n} - 1 if !defined $request->{status} && $self->{since} >= $request->{n};
		next if $self->{noted}{ $request->{n} } || !defined $request->{status};
		$self->{noted}{ $request->{n} } = 1;
		next unless $request->{method} eq 'GET' && $request->{status} == 200;
		my $target = Crm::target($request);

		# pages of reads: not the greatest version, nor rows by their ids
		next unless $request->{target} =~ m{/accounts\?} && $target !~ /\$top=|\$count/;
		next if $target =~ /\$filter=/ && $target !~ /\$filter=accountid (?:ge|lt) [^=]*\$orderby=accountid/;
		my $page = place_of($target);

		$self->{again}++ if $self->{seen}{$page};
		$self->{now}{$page} = 1;
		$self->{answered}++;
	}
	return;
}

# Called when a process has ended: checks how much it read again, and remembers its pages.
sub end_life
{
	my ($self, $what) = @_;
	my $phase = $self->sql(q{SELECT string_agg(phase || again::text || whole::text, ',' ORDER BY id) FROM dataverse_private.copies});

	$self->note_pages;
	my $again = $self->{again} // 0;
	if ($again > $self->{most_again})
	{
		Test::More::fail("$what: $again pages were read again");
		$self->{too_many}++;
	}
	$self->{most} = $again if $again > $self->{most};
	# the pages of another phase are read for the first time, even if they look alike
	$self->{seen} = {} if $phase ne ($self->{phase} // '');
	$self->{seen}{$_} = 1 for keys %{ $self->{now} // {} };
	$self->{phase} = $phase;
	$self->{now} = {};
	$self->{again} = 0;
	return;
}

sub begin_operation
{
	my ($self) = @_;

	$self->note_pages;
	@$self{qw(seen now again most too_many answered phase kills)} = ({}, {}, 0, 0, 0, 0, '', {});
	return;
}

# Returns the progress of the state: if it is the same after a kill, the run achieved
# nothing.  Each answer without changes has another token, which is no progress.
sub progress
{
	my ($self) = @_;
	return $self->sql(
		$self->{state}
		  // q{SELECT (SELECT string_agg(concat_ws(' ', phase, link, token IS NULL, ids, again), ',' ORDER BY id) FROM dataverse_private.copies) || ' ' ||
		              (SELECT sum(rows_read + rows_compared + inserted + updated + deleted) FROM dataverse_private.run_log)});
}

# Returns the number of rows that dvsim has written since its last start.
sub rows_written
{
	my ($self) = @_;
	my $rows = $self->{crm}->user_stats('app1')->{rows};
	my $n = 0;

	# requests of kind $batch are counted separately
	$n += $rows->{$_} // 0 for qw(create update upsert delete batch);
	return $n;
}

# ---------------------------------------------------------------- one kill, many kills

# Runs a statement and kills at a point; returns the result of the statement if it ended
# before, otherwise nothing.  A process that survives the death of dvsim runs for one
# more transaction, and is then cancelled.
sub attempt
{
	my ($self, $sql, $kind, $n, $victim) = @_;
	my $waits = $kind eq 'held' || $kind eq 'sent';
	my @stops = $waits ? () : ("$kind:$n");
	my $last = $waits ? $n : $n + 1;

	# some transactions do not end with a gate
	push @stops, "begun:$last" if $victim eq 'dvsim' || $kind eq 'done';
	if ($waits)
	{
		$self->{crm}->no_faults;
		# transaction 1 sends nothing, and then each of them reads a page
		$self->{crm}->fault(
			%{ $self->{request} // { method => 'GET', path => '/accounts?', after => $n < 2 ? 0 : $n - 2 } },
			$kind eq 'held' ? (action => 'stall') : (action => 'delay', delay_ms => 3_600_000));
	}
	my $s = $self->begin($sql, @stops);
	my $there = $waits ? $self->await_held($s) : $self->await_gate($s);

	if (!$there)
	{
		$self->{crm}->no_faults;
		return $s->finish;
	}
	$self->{kills}{"$victim $kind"}++;
	if ($victim eq 'backend') { $self->kill_backend($s); }
	elsif ($victim eq 'postmaster') { $self->kill_postmaster($s); }
	else
	{
		my $gate = $self->gate_of($s) // 0;

		$self->kill_dvsim;
		$self->open_gate($gate) if $gate && $gate < $last;
		# the run continues by itself
		return $s->finish unless $gate == $last || $self->await_next($s, $gate);
		$self->watcher->query('SELECT pg_cancel_backend(' . $s->pid . ')');
		$s->finish;
	}
	$self->{crm}->no_faults;
	return;
}

# All points of a chain, or one of them in turn; the one that makes progress is last.
sub points
{
	my ($self, %arg) = @_;
	my @all;

	for my $victim (@{ $arg{victims} // \@victims }) { push @all, map { [ $_, $victim ] } @{ $arg{kinds} // \@kinds }; }
	return @all if $arg{all};
	# in an order in which neighbours differ in both
	@all = map { $all[ ($_ * 5) % @all ] } 0 .. $#all if @all % 5;
	return $all[ $self->{turn}++ % @all ];
}

# Calls a procedure repeatedly, and kills each call one step later than the last one, until
# one ends by itself.  all => each step is killed in all ways; victims, kinds => only these;
# request => the requests that dvsim delays; state => a query whose result shows progress;
# again => the most pages that may be read again each time (2: the page under way, and the next one);
# most => the maximum number of kills
sub chain
{
	my ($self, $sql, $what, %arg) = @_;
	my $began = time;
	my $kills = 0;
	# the transaction that makes the first step is the second one
	my $first = 2;
	my $base = $first;
	my $phase = '';
	my $result;

	local $self->{request} = $arg{request};
	local $self->{state} = $arg{state};
	local $self->{most_again} = $arg{again} // 2;
	$self->begin_operation;
	until ($result)
	{
		my $before = $self->progress;

		for my $point ($self->points(%arg))
		{
			my ($kind, $victim) = @$point;
			# in turn, each call makes one step: of processes that survive dvsim anyway
			my $n = $arg{all} || ($victim eq 'dvsim' && ($kind eq 'begun' || $kind eq 'done')) ? $base : $base + 1;

			$result = $self->attempt($sql, $kind, $n, $victim);
			$self->end_life("$what: $victim, $kind:$n, after kill $kills");
			last if $result;
			$kills++;
		}
		last if $self->{too_many} > 10;
		# some runs have other work to do first, each time
		$base++ if $self->progress eq $before;
		$base = $first if $phase ne $self->{phase} && !$arg{state};
		$phase = $self->{phase};
		if ($base > 60 || $kills > ($arg{most} // 20_000)) { Test::More::fail("$what: no progress"); last; }
	}
	Test::More::is($result ? $result->{message} // '' : 'has not ended', '', "$what: killed $kills times, then it succeeds");
	$self->{last_result} = $result;
	Test::More::cmp_ok($self->{most}, '<=', $self->{most_again}, "$what: at most $self->{most_again} pages were read again each time");
	Test::More::note(sprintf '%s: %d kills in %.0f s (%s), %d pages answered', $what, $kills, time - $began,
		join(', ', map { "$self->{kills}{$_} $_" } sort keys %{ $self->{kills} }), $self->{answered} // 0);
	return $kills;
}

1;
