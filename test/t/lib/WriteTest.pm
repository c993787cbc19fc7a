# WriteTest.pm
#		Writes identifiable rows while all kinds of faults occur, and checks
#		afterwards that each of them exists once, with the right values.
#
# A row is identified by a number.  Its name, value, partition, and (if
# supplied) id depend on the number and on the generation, which identifies the
# statement that wrote the row last.  The expected contents of a table are given
# as a set of numbers with a generation for each; is_whole() compares them.
#
#	my $w = WriteTest->start('faults');
#	$w->fill('standard', 1000);
#	my $r = $w->run($w->insert('standard', 1, 2000));
#	$w->is_whole('standard', 'after the insert', upto => 2000);
#
# DV_FAULT_ROWS rows are written by each statement of the fault matrix.
#
# SPDX-License-Identifier: PostgreSQL

package WriteTest;

use strict;
use warnings;

use Carp qw(croak);
use PostgreSQL::Test::Utils ();
use Test::More ();

use PoolTest;
use Dvsim;
use Session;

use constant ROWS => $ENV{DV_FAULT_ROWS} // 3000;

# Even few rows should result in many requests.
use constant BATCH => ROWS < 50_000 ? 50 : 100;

# The values that are written to each table.  All expressions can use N, the
# number, and G, the generation.
my %meter = (
	table => 'dv.new_meter',
	logical => 'new_meter',
	id => 'new_meterid',
	number => 'new_number',
	name => 'new_name',
	value => [ 'new_lastreading', 'N + G * 0.1' ]);

our %kinds = (
	standard => \%meter,
	elastic => {
		table => 'dv.new_reading',
		logical => 'new_reading',
		id => 'new_readingid',
		number => 'new_sequence',
		name => 'new_name',
		value => [ 'new_value', 'N + G * 0.1' ],
		more => [ [ 'partitionid', q{'p' || N % 5} ] ]
	},
	# a table without bulk messages
	single => {
		table => 'dv.task',
		logical => 'task',
		id => 'activityid',
		number => 'actualdurationminutes',
		name => 'subject',
		value => [ 'description', q{G || ' of ' || N} ]
	},
	# rows that are created, and then made inactive
	inactive => { %meter, more => [ [ 'statecode', '1' ], [ 'statuscode', '2' ] ] },
	# rows that are found by an alternate key
	key => { %meter, table => 'by_key.new_meter', more => [ [ 'new_serial', q{'S-' || N} ] ] });

# Enough slots, whatever faults delay, short waits, and many retries; throttles end a load as they do by default.
my %patient = (
	retry_after_buffer => '10ms',
	fallback_retry_after => '100ms',
	max_retries => 1000,
	budget_pacing => 'off',
	useful_limit => 'off',
	initial_parallelism_factor => 1,
	min_increase_interval => '0s',
	request_timeout => '30s',
	batch_size => BATCH);

# users, flags (of dvsim), options (of the server), conf, data (a file of rows)
sub start
{
	my ($class, $name, %arg) = @_;
	my $users = $arg{users} // 3;
	my @flags = map { ('--app-user', "app$_:secret$_") } 1 .. $users;
	my $self = bless { users => $users }, $class;
	my %mapping;

	push @flags, '--data', PostgreSQL::Test::Utils::tempdir() . '/rows' if $arg{data};
	push @flags, '--dop', $arg{dop} // 4, @{ $arg{flags} // [] };
	$self->{dvsim} = Dvsim->start(@flags);
	$self->{node} = new_node($name, preload => 1, conf => $arg{conf});
	for my $i (1 .. $users)
	{
		my $suffix = $i == 1 ? '' : "_$i";

		$mapping{"client_id$suffix"} = "app$i";
		$mapping{"client_secret$suffix"} = "secret$i";
	}
	$self->{options} = { url => $self->{dvsim}->base, %patient, %{ $arg{options} // {} } };
	create_server($self->{node}, 'crm', $self->{options}, \%mapping);
	$self->{watcher} = Session->new($self->{node});
	$self->{watcher}->query(
		'CREATE SCHEMA dv; CREATE SCHEMA by_key;
		 IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, new_reading, task) FROM SERVER crm INTO dv;
		 IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER crm INTO by_key;
		 ALTER FOREIGN TABLE by_key.new_meter OPTIONS (ADD upsert_key $$new_serial$$)');
	return $self;
}

sub watcher { return $_[0]{watcher}; }
sub dvsim { return $_[0]{dvsim}; }
sub node { return $_[0]{node}; }
sub session { my ($self, %option) = @_; return Session->new($self->{node}, %option); }

sub stop
{
	my ($self) = @_;

	$self->{watcher}->close;
	$self->{node}->stop('fast');
	return;
}

# Sets options of the server; undef restores the value at the start.
sub set
{
	my ($self, %options) = @_;

	for my $name (sort keys %options)
	{
		my $value = $options{$name} // $self->{options}{$name};
		my $is_set = $self->{set}{$name} || exists $self->{options}{$name};
		my $change = !defined $value ? "DROP $name" : $is_set ? "SET $name '$value'" : "ADD $name '$value'";

		next unless defined $value || $is_set;
		$self->{watcher}->query("ALTER SERVER crm OPTIONS ($change)");
		$self->{set}{$name} = defined $value;
	}
	return;
}

# Removes all rows, and the pool's knowledge of earlier requests.
sub reset
{
	my ($self) = @_;

	clear_faults($self->{dvsim});
	$self->{dvsim}->control('POST', '/_dvsim/reset');
	$self->{watcher}->query("SELECT dataverse.reset_pool('crm'), dataverse.reset_stats('crm')");
	return;
}

# ---------------------------------------------------------------- statements

sub expression
{
	my ($template, $n, $generation) = @_;
	return $template =~ s/\bN\b/$n/gr =~ s/\bG\b/$generation/gr;
}

# Returns the columns and expressions of a row, with or without its id.
sub columns
{
	my ($kind, $generation, $with_id) = @_;
	my $t = $kinds{$kind} // croak $kind;
	my @columns = (
		[ $t->{number}, 'N' ], [ $t->{name}, q{'row ' || N || ' of ' || G} ],
		$t->{value}, @{ $t->{more} // [] });

	push @columns, [ $t->{id}, 'md5(N::text)::uuid' ] if $with_id;
	return map { [ $_->[0], expression($_->[1], 'n', $generation) ] } @columns;
}

# insert('standard', generation, rows, given => 1 (with ids), where => condition on n,
# from => first number, source => another source of n, behind => ON CONFLICT …)
sub insert
{
	my ($self, $kind, $generation, $upto, %arg) = @_;
	my @columns = columns($kind, $generation, $arg{given});
	my $source = $arg{source} // 'generate_series(' . ($arg{from} // 1) . ", $upto) n";
	my $where = $arg{where} ? " WHERE $arg{where}" : '';

	return "INSERT INTO $kinds{$kind}{table} (" . join(', ', map { $_->[0] } @columns) . ') SELECT '
	  . join(', ', map { $_->[1] } @columns)
	  . " FROM $source$where" . ($arg{behind} // '');
}

# Updates the rows whose numbers satisfy a condition.
sub update
{
	my ($self, $kind, $generation, $condition) = @_;
	my $t = $kinds{$kind};
	my ($name, $value) = map { expression($_, $t->{number}, $generation) }
	  q{'row ' || N || ' of ' || G}, $t->{value}[1];

	return "UPDATE $t->{table} SET $t->{name} = $name, $t->{value}[0] = $value WHERE "
	  . expression($condition, $t->{number}, 0);
}

sub delete
{
	my ($self, $kind, $condition) = @_;
	my $t = $kinds{$kind};

	return "DELETE FROM $t->{table} WHERE " . expression($condition, $t->{number}, 0);
}

# Inserts rows of generation 1 with given ids.
sub fill
{
	my ($self, $kind, $upto, %arg) = @_;

	$self->{watcher}->query($self->insert($kind, 1, $upto, given => 1, %arg));
	return;
}

# ---------------------------------------------------------------- accounting

# Returns the number of rows, according to dvsim.
sub rows_there
{
	my ($self, $kind) = @_;
	my $tables = $self->{dvsim}->control('GET', '/_dvsim/stats')->json->{tables};

	return $tables->{ $kinds{$kind}{logical} } // 0;
}

# Checks that a table has the expected rows.  upto: the rows have the numbers from 1
# to this; where: only those that satisfy this condition; generation: an expression
# of N; given: also check the ids, which were given.
sub is_whole
{
	my ($self, $kind, $what, %arg) = @_;
	my $t = $kinds{$kind};
	my $where = expression($arg{where} // 'true', 'n', 0);
	my $generation = expression($arg{generation} // 1, 'n', 0);
	my @columns = columns($kind, 'g', $arg{given});
	my $select = join ', ', map { $_->[0] } @columns;
	my $differ = join ' OR ', map { "h.$_->[0] IS DISTINCT FROM $_->[1]" } @columns;
	my $n = $self->{watcher}->value("SELECT count(*) FROM generate_series(1, $arg{upto}) n WHERE $where");

	my $found = $self->{watcher}->start(
		"WITH want AS (SELECT n, $generation AS g FROM generate_series(1, $arg{upto}) n WHERE $where),
		 have AS MATERIALIZED (SELECT $select FROM $t->{table})
		 SELECT count(h.*) || ' rows, ' || count(DISTINCT n) FILTER (WHERE h.$t->{number} IS NOT NULL) || ' of those sent, ' ||
		 count(*) FILTER (WHERE h.* IS NULL) || ' lost, ' ||
		 count(h.*) FILTER (WHERE n IS NULL OR $differ) || ' wrong'
		 FROM have h FULL JOIN want ON h.$t->{number} = n")->finish(600);
	Test::More::is(
		$found->{rows}[0][0],
		"$n rows, $n of those sent, 0 lost, 0 wrong",
		"$what: rows and values") || Test::More::diag($found->{message} // '');
	Test::More::is($self->rows_there($kind), $n, "$what: and as many rows in dvsim");
	return;
}

# Runs a statement in a session of its own; "meanwhile" is called while it runs.
sub run
{
	my ($self, $sql, %arg) = @_;
	my $session = $self->session;
	my $result;

	$session->query("SET statement_timeout = '600s'");
	$session->query($_) for @{ $arg{settings} // [] };
	$session->start($sql);
	$arg{meanwhile}->($session) if $arg{meanwhile};
	$result = $session->finish(660);
	$session->close;
	return $result;
}

# ---------------------------------------------------------------- faults

my @throttles = (
	[ '0x80072322', 'Number of requests exceeded the limit of 6000 over time window of 300 seconds.' ],
	[ '0x80072321', 'Combined execution time of incoming requests exceeded limit of 1,200,000 milliseconds over time window of 300 seconds.' ],
	[ '0x80072326', 'Number of concurrent requests exceeded the limit of 52.' ]);

sub throttle_rule
{
	my ($which, %more) = @_;
	my ($code, $message) = @{ $throttles[$which] };

	return { status => 429, code => $code, message => $message, times => 0, %more };
}

my $deadlock = 'Generic SQL error. CRM ErrorCode: -2147204784 Sql ErrorCode: -2146232060 Sql Number: 1205';
my $sql_timeout = 'SQL timeout expired. CRM ErrorCode: -2147204783 Sql ErrorCode: -2146232060 Sql Number: -2';

# Each fault has a name, rules, and options of the server that it needs.
my @faults = (
	[ 'resets before commit', [ { action => 'reset_before_commit', every => 7, times => 0 } ] ],
	[ 'resets after commit', [ { action => 'reset_after_commit', every => 7, times => 0 } ] ],
	[
		'time-outs before commit',
		[ { action => 'stall', every => 13, times => 0 } ],
		{ request_timeout => '700ms' }
	],
	[
		'time-outs after commit',
		[ { action => 'delay', delay_ms => 20_000, every => 13, times => 0 } ],
		{ request_timeout => '700ms' }
	],
	[
		'502 and 503',
		[
			{ status => 502, body => '<html><body>Bad Gateway</body></html>', every => 11, times => 0 },
			{ status => 503, every => 13, times => 0 }
		]
	],
	[ '503 with Retry-After', [ { status => 503, retry_after => 1, every => 11, times => 5 } ] ],
	[
		'deadlocks and SQL time-outs',
		[
			{ status => 400, code => '0x80044150', message => $deadlock, every => 11, times => 0 },
			{ status => 500, code => '0x80044151', message => $sql_timeout, every => 13, times => 0 }
		]
	],
	[ 'tokens that expire', [ { action => 'expire_token', every => 19, times => 0 } ] ],
	[
		'a storm of all 429s',
		[
			throttle_rule(0, every => 5, retry_after => 0), throttle_rule(1, every => 6),
			throttle_rule(2, every => 7, retry_after => 0)
		]
	],
	[
		'429 in parts',
		[ map { throttle_rule($_ % 3, batch_part => (1, 2, 17, 50)[$_], every => 3 + $_, retry_after => 0) } 0 .. 3 ],
		undef,
		'parts'
	],
	# some rows appear before they are sent again, some afterwards, some after the statement
	[
		'late commits',
		[
			{ action => 'commit_late', delay_ms => 300, every => 5, times => 0 },
			{ action => 'commit_late', delay_ms => 3_000, every => 7, times => 0 },
			{ action => 'commit_late', delay_ms => 60_000, every => 11, times => 0 }
		]
	],
	[ 'truncated answers', [ { action => 'truncate', every => 7, times => 0 } ] ],
	[ 'garbled answers', [ { action => 'garble', every => 5, times => 0 } ] ]);

# Waits until the rules have fired this often, or the statement has ended.
sub wait_for_hits
{
	my ($self, $hits, $session) = @_;

	wait_for(sub { hits($self->{dvsim}) >= $hits || $session->done }, 'faults');
	return;
}

# dvsim accepts some batches, stops answering, and is then killed.
sub kill_it
{
	my ($self, $path, $requests) = @_;
	my $after = int($requests / 3);

	return (
		[
			{ path => $path, after => $after, every => 2, times => 0, action => 'delay', delay_ms => 600_000 },
			{ path => $path, after => $after, times => 0, action => 'stall' }
		],
		sub {
			my ($session) = @_;

			$self->wait_for_hits(3, $session);
			$self->{hits} = hits($self->{dvsim});
			$self->{dvsim}->crash;
			$self->{dvsim}->start_again;
		});
}

# The seed of the random numbers of "everything at once".
my $seed = $ENV{SEED} // int rand 2**31;

# Combines all kinds of rules, with random numbers, and kills dvsim in the middle.
sub everything
{
	my ($self, $path, $requests, $what, $not) = @_;
	my @rules;

	srand unpack '%32C*', "$seed $what";
	Test::More::note("$what: SEED=$seed");
	for my $fault (@faults)
	{
		next if $fault->[3] || $fault->[0] eq ($not // '');
		push @rules, map {
			{
				%$_,
				# a garbled page would end a read
				(rand() < 0.5 || ($_->{action} // '') eq 'garble' ? (path => $path) : ()),
				every => 15 + int(rand 40),
				after => int(rand 12)
			}
		} @{ $fault->[1] };
	}
	@rules = sort { $a->{order} <=> $b->{order} } map { { %$_, order => rand } } @rules;
	delete $_->{order} for @rules;
	return (
		\@rules,
		sub {
			my ($session) = @_;

			$self->wait_for_hits(1 + int($requests / 15), $session);
			$self->{hits} = hits($self->{dvsim});
			$self->{dvsim}->crash;
			$self->{dvsim}->start_again;
			faults($self->{dvsim}, @rules);
		});
}

# Tests a cell of the matrix: a statement under a fault.
#	operation, kind, fault; what: a name in place of the kind; path: of the requests
#	that are affected; requests: their number; sql; tag; whole: arguments of
#	is_whole; settings
sub cell
{
	my ($self, %cell) = @_;
	my $what = "$cell{operation}, " . ($cell{what} // $cell{kind}) . ", $cell{fault}";
	my ($known) = grep { $_->[0] eq $cell{fault} } @faults;
	my ($rules, $meanwhile, $options, $result);

	if ($known) { ($rules, $options) = ([ map { { path => $cell{path}, %$_ } } @{ $known->[1] } ], $known->[2]); }
	elsif ($cell{fault} eq 'dvsim killed') { ($rules, $meanwhile) = $self->kill_it($cell{path}, $cell{requests}); }
	else
	{
		($rules, $meanwhile) = $self->everything($cell{path}, $cell{requests}, $what, $cell{not});
		$options = { request_timeout => '2s' };
	}
	$self->{hits} = 0;
	$self->set(%$options) if $options;
	faults($self->{dvsim}, @$rules);
	$result = $self->run($cell{sql}, settings => $cell{settings}, meanwhile => $meanwhile);
	$self->{hits} += hits($self->{dvsim});
	clear_faults($self->{dvsim});
	$self->set(map { $_ => undef } keys %$options) if $options;
	# carry out late requests before counting rows
	$self->{dvsim}->control('POST', '/_dvsim/clock', { advance => 120 });

	Test::More::is($result->{sqlstate}, undef, "$what: the statement succeeds")
	  || Test::More::diag(join "\n", map { $_ // () } @{$result}{qw(message detail hint context)});
	Test::More::is($result->{tag}, $cell{tag}, "$what: its tag");
	Test::More::cmp_ok($self->{hits}, '>', 0, sprintf '%s: %d faults, %.1f s', $what, $self->{hits}, $result->{seconds});
	$self->is_whole($cell{kind}, $what, %{ $cell{whole} });
	Test::More::is(in_flight($self->{watcher}), 0, "$what: no slot is held");
	return $result;
}

# Returns the path of the requests of an operation on a kind of table.
sub path_of
{
	my ($operation, $kind) = @_;

	return 'Microsoft.Dynamics.CRM.' if $kind eq 'inactive';	# creates and updates
	return '$batch' if $kind eq 'single' || ($operation eq 'Delete' && $kind ne 'elastic');
	return "Microsoft.Dynamics.CRM.${operation}Multiple";
}

# Returns the faults of a row of the matrix: all, or only those relevant to an unusual way of
# writing.
sub faults_for
{
	my ($path, $few) = @_;
	my @names = map { $_->[0] } grep { $path eq '$batch' || !$_->[3] } @faults;

	@names = grep { /resets after|in parts|truncated|storm|late/ } @names if $few;
	return (@names, 'dvsim killed', 'everything at once');
}

# Tests a row of the matrix.  few => 1: not all faults; not: an excluded fault; prepare: called
# before each statement; all else as for cell(), but requests, and by default path, are computed.
sub row
{
	my ($self, %row) = @_;
	my $path = $row{path} // path_of($row{operation}, $row{kind});

	for my $fault (faults_for($path, $row{few}))
	{
		next if $fault eq ($row{not} // '');
		next if $ENV{DV_FAULT} && $fault !~ /$ENV{DV_FAULT}/;
		$self->reset;
		$row{prepare}->() if $row{prepare};
		$self->cell(%row, path => $path, fault => $fault, requests => ($row{written} // ROWS) / BATCH);
	}
	return;
}

1;
