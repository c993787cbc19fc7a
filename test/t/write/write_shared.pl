# write_shared.pl
#		Random statements whose rows share ids and keys, within a statement and
#		between sessions, while answers are lost and requests are carried out late:
#		the count of each statement is the number of its rows that exist, and every
#		missing row was refused, or reported to be in doubt.
#
# SEED repeats the random choices of a run, and ROUNDS sets the number of rounds.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use WriteTest;

use constant DOUBT => '40003';

my $seed = $ENV{SEED} // int rand 2**31;
my $rounds = $ENV{ROUNDS} // 24;
# without ROUNDS, a slow machine runs fewer of them
my $until = defined $ENV{ROUNDS} ? undef : time + 15;

srand $seed;
note "SEED=$seed ROUNDS=$rounds";

my $w = WriteTest->start('write_shared', users => 2, options => { batch_size => 20, max_parallel => 4, request_timeout => '2s' });
my $watcher = $w->watcher;

# The rows that were sent; their names identify the sender.
$watcher->query('CREATE TABLE sent (session int, n int, id uuid, part text, key text, same text, name text)');

sub one_of { return $_[ int rand @_ ]; }

# ---------------------------------------------------------------- statements

# Texts that the service considers the same key.
sub variant
{
	my ($key) = @_;
	my @ways = (sub { $_[0] }, sub { lc $_[0] }, sub { "$_[0]  " }, sub { $_[0] =~ s/E/\x{c9}/r }, sub { $_[0] =~ s/E/E\x{301}/r },
		sub { $_[0] =~ s/K/\x{212a}/r }, sub { "$_[0]\x{1f600}" });
	my $text = one_of(@ways)->($key);

	utf8::encode($text);
	return $text;
}

# Each has a table, the columns that identify a row, and settings.
my %modes = (
	create => { kinds => [ 'standard', 'elastic' ] },
	nothing => { kinds => [ 'standard', 'elastic' ], behind => ' ON CONFLICT DO NOTHING' },
	upsert => { kinds => [ 'standard', 'elastic' ], changes => 1, setting => "SET dataverse_fdw.insert_mode = 'upsert'" },
	key => { kinds => ['key'], changes => 1, setting => "SET dataverse_fdw.insert_mode = 'upsert'" });

# Chooses the rows of a session: few ids, so that some are given twice.
sub choose_rows
{
	my ($session, $round, $n, $ids) = @_;
	my @rows;

	for my $i (1 .. $n)
	{
		my $id = 1 + int rand $ids;
		my $part = $round->{kind} eq 'elastic' ? 'p' . int rand 2 : '';
		my $key = $round->{kind} eq 'key' ? variant("KE-$id") : '';

		push @rows, "($session, $i, md5('$id')::uuid, '$part', '$key', '" . ($round->{kind} eq 'key' ? "KE-$id" : "$id $part") . "', 's$session n$i')";
	}
	$watcher->query('INSERT INTO sent VALUES ' . join(', ', @rows));
	return;
}

sub statement
{
	my ($round, $session) = @_;
	my $t = $WriteTest::kinds{ $round->{kind} };
	my @columns = ([ $t->{name}, 'name' ], [ $t->{number}, 'n' ], [ $t->{value}[0], 'n * 1.5' ]);

	push @columns, [ $t->{id}, 'id' ] if $round->{kind} ne 'key';
	push @columns, [ 'partitionid', 'part' ] if $round->{kind} eq 'elastic';
	push @columns, [ 'new_serial', 'key' ] if $round->{kind} eq 'key';
	return "INSERT INTO $t->{table} (" . join(', ', map { $_->[0] } @columns) . ') SELECT '
	  . join(', ', map { $_->[1] } @columns)
	  . " FROM sent WHERE session = $session ORDER BY n" . ($round->{mode}{behind} // '');
}

sub choose_faults
{
	my ($round) = @_;
	my @actions = (
		{ action => 'reset_after_commit' }, { action => 'reset_before_commit' }, { action => 'truncate' }, { action => 'garble' },
		{ status => 503 }, { status => 502, body => 'Bad Gateway' });
	my @rules;

	# an upsert that is carried out late overwrites later writes
	push @actions, map { { action => 'commit_late', delay_ms => $_ } } 100, 1_000, 60_000 if !$round->{mode}{changes};
	for (1 .. 1 + int rand 3)
	{
		push @rules, { %{ one_of(@actions) }, path => one_of('Multiple', 'Multiple', '$batch'), every => 2 + int rand 5, after => int rand 3, times => 3 };
	}
	return @rules;
}

# ---------------------------------------------------------------- accounting

# Returns the numbers of rows that a session reported as written and as in doubt.
sub told
{
	my ($r) = @_;
	my $detail = $r->{detail} // '';

	my ($count) = ($r->{tag} // '') =~ /(\d+)$/;
	my ($written) = $detail =~ /^(\d+) rows? of this statement ha/m;
	my ($doubt) = $detail =~ /^(\d+) (?:more )?rows?(?: of this \w+)? w\w+ sent without/m;

	return defined $r->{sqlstate} ? ($written // 0, $doubt // 0) : ($count, 0);
}

# Counts with a query; only 0 is correct.
sub none
{
	my ($what, $sql) = @_;
	my $n = $watcher->value("SELECT count(*) FROM $sql");

	return $n == 0 ? 1 : do { diag("$what: $n"); 0 };
}

sub whole
{
	my ($round, @results) = @_;
	my $t = $WriteTest::kinds{ $round->{kind} };
	my $part = $round->{kind} eq 'elastic' ? 'partitionid' : "''::text";
	my $key = $round->{kind} eq 'key' ? 'new_serial' : "''::text";
	my $ok = 1;

	$watcher->query("DROP TABLE IF EXISTS have; CREATE TABLE have AS SELECT $t->{id} AS id, $t->{name} AS name, $t->{number} AS n, $t->{value}[0] AS value, $part AS part, $key AS key FROM $t->{table}");
	is($watcher->value('SELECT count(*) FROM have'), $w->rows_there($round->{kind}), "... all rows are visible") or $ok = 0;
	$ok &= none('rows that were not sent', 'have h LEFT JOIN sent s USING (name) WHERE s.name IS NULL OR h.n <> s.n OR h.value <> s.n * 1.5'
		  . ($round->{kind} eq 'key' ? '' : ' OR h.id <> s.id OR h.part <> s.part'));
	$ok &= none('duplicate rows', '(SELECT s.same FROM have JOIN sent s USING (name) GROUP BY 1 HAVING count(*) > 1) x');
	$watcher->query(q(DROP TABLE IF EXISTS refused; CREATE TABLE refused AS
		SELECT sqlstate, s.* FROM dataverse.rejects r JOIN pids p USING (pid) JOIN sent s ON s.session = p.session AND s.n = r.row_number));
	$ok &= none('filed rows that were not sent', '(SELECT 1 FROM dataverse.rejects OFFSET (SELECT count(*) FROM refused)) x');
	$ok &= none('rows filed twice', '(SELECT 1 FROM refused GROUP BY name HAVING count(*) > 1) x');
	$ok &= none('refused rows that exist', "refused r JOIN have USING (name) WHERE sqlstate <> '${\DOUBT}'");
	for my $session (0 .. $#results)
	{
		my $r = $results[$session];
		my ($written, $doubt) = told($r);
		my $sent = $watcher->value("SELECT count(*) FROM sent WHERE session = $session");
		my $there = $watcher->value("SELECT count(*) FROM have JOIN sent USING (name) WHERE session = $session");
		my $filed = $watcher->value("SELECT count(*) FROM refused WHERE session = $session");
		my $outcome = "session $session of $sent rows: " . ($r->{tag} // "$r->{sqlstate} $r->{message}") . ", $written written, $doubt in doubt, $filed filed, $there there";

		note $outcome;
		if ($round->{mode}{changes})
		{
			# a failure is not expected: nothing is refused
			$ok = 0, diag($outcome) if $written + $filed != $sent;
			next;
		}
		$doubt += $watcher->value("SELECT count(*) FROM refused WHERE session = $session AND sqlstate = '${\DOUBT}'");
		$ok = 0, diag($outcome) if $there < $written || $there > $written + $doubt;
		next if defined $r->{sqlstate};
		$ok = 0, diag($outcome) if !$round->{mode}{behind} && $written + $filed != $sent;
		$ok &= none('rows that are nowhere', "sent s WHERE session = $session AND NOT EXISTS (SELECT FROM sent JOIN have USING (name) WHERE sent.same = s.same) AND NOT EXISTS (SELECT FROM refused WHERE name = s.name AND sqlstate = '${\DOUBT}')");
	}
	# the last row of a statement wins
	$ok &= none('older rows that won', 'have JOIN sent s USING (name) WHERE EXISTS (SELECT FROM sent l WHERE l.session = s.session AND l.same = s.same AND l.n > s.n)')
	  if $round->{mode}{changes};
	$ok &= none('keys that are missing', '(SELECT same FROM sent EXCEPT SELECT same FROM have JOIN sent USING (name)) x') if $round->{mode}{changes};
	return $ok;
}

# ---------------------------------------------------------------- rounds

$watcher->query('CREATE TABLE pids (pid int, session int)');
for my $number (1 .. $rounds)
{
	last if defined $until && time > $until;
	my $name = one_of(sort keys %modes);
	my %round = (mode => $modes{$name}, kind => one_of(@{ $modes{$name}{kinds} }));
	my $sessions = 1 + int rand 3;
	my $go_on = $round{mode}{changes} || rand() < 0.7 ? 'continue' : 'abort';
	my $n = 40 + int rand 160;
	my $ids = int($n * (($round{mode}{changes} ? 2 : 0.3) + rand 3));
	my @faults = choose_faults(\%round);
	my (@sessions, @results);

	$w->reset;
	$watcher->query('TRUNCATE sent, pids, dataverse_private.rejected_rows');
	choose_rows($_, \%round, $n, $ids) for 0 .. $sessions - 1;
	faults($w->dvsim, @faults);
	for my $i (0 .. $sessions - 1)
	{
		my $session = $w->session;

		$watcher->query('INSERT INTO pids VALUES (' . $session->pid . ", $i)");
		$session->query("SET dataverse_fdw.on_error = '$go_on'");
		$session->query($round{mode}{setting}) if $round{mode}{setting};
		push @sessions, $session;
	}
	$sessions[$_]->start(statement(\%round, $_)) for 0 .. $#sessions;
	@results = map { $_->finish(120) } @sessions;
	my $hits = hits($w->dvsim);
	clear_faults($w->dvsim);
	# late requests are carried out before rows are counted
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 120 });
	my $what = "round $number: $name, $round{kind}, $go_on, $sessions sessions of $n rows with $ids ids, $hits faults";
	ok(whole(\%round, @results), $what) or diag("SEED=$seed\n" . join "\n", map { join ' ', map { $_ // () } @{$_}{qw(sqlstate message detail)} } @results);
	$_->close for @sessions;
}

$w->stop;
done_testing();
