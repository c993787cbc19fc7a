# ranges.pl
#		Tables read as several ranges of ids at a time (scan_parallelism): each row
#		is returned once, for any distribution of ids, any concurrent writes, and
#		any fault; few requests are wasted, little memory is used, and no more slots
#		than are free.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use PoolTest qw(wait_for hits);
use Session;

use constant PROMPT => 1;       # s; the promise is 200 ms, but the test must not fail on a busy machine

my $page = 40;
my $rows = 2100;
my $seed = $ENV{SEED} || int(rand(1_000_000));

diag "SEED=$seed";
srand $seed;

# enough requests for writes that go on during reads
my $crm = Crm->start('ranges', preload => 1, flags => [ '--latency', 'read=0', '--limit-requests', 1000000 ]);
my $dvsim = $crm->dvsim;

$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_reading) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page', ADD batch_size '1000');
	ALTER FOREIGN TABLE dv.contact OPTIONS (ADD page_size '$page', ADD batch_size '1000');
	CREATE TABLE ids (id uuid PRIMARY KEY, n int)});

# ---- ids

# Builds an id from its six, two, and eight bytes in SQL Server's order, the latter as two numbers.
sub id_of
{
	my ($node, $boot, $high, $low) = @_;
	my @bytes = reverse unpack 'C8', pack 'NN', $high, $low;
	my $hex = join '', map { sprintf '%02x', $_ } @bytes;

	return join '-', substr($hex, 0, 8), substr($hex, 8, 4), substr($hex, 12, 4), $boot, $node;
}

sub hex_of { return join '', map { sprintf '%02x', int rand 256 } 1 .. $_[0]; }
sub random_id { return id_of(hex_of(6), hex_of(2), int rand 2**32, int rand 2**32); }

my %ids_of = (
	# sequential ids of one machine
	dense => sub { return map { id_of('000d3a1b2c3d', 'b6e6', 0x11eb0000, $_) } 1 .. $rows; },
	random => sub { return map { random_id() } 1 .. $rows; },
	# as the service generates them: machines of three vendors, each with a few starts and bursts of rows
	clustered => sub {
		return map {
			my ($node, $boot) = ((qw(000d3a 002248 6045bd))[ $_ % 3 ] . hex_of(3), hex_of(2));
			my ($day, $burst) = (0x11eb0000 + int rand 500, int rand 2**31);
			map { id_of($node, $boot, $day, $burst + 37 * $_) } 1 .. $rows / 30;
		} 1 .. 30;
	},
	# nearly all in one place, a few elsewhere
	skewed => sub {
		return ((map { random_id() } 1 .. $rows / 50),
			(map { id_of('7c1e520a0b0c', '9f00', 0x11ec0000, 7 * $_) } 1 .. $rows - $rows / 50));
	},
	# increasingly dense towards the beginning, so that each half has as many rows as its second half
	halves => sub {
		my @ids = map {
			my $bits = $_;
			map {
				my $id = '0' x (127 - $bits) . '1' . join '', map { int rand 2 } 1 .. $bits;
				my $hex = unpack 'H*', pack 'B128', $id;
				id_of(substr($hex, 0, 12), substr($hex, 12, 4), hex(substr $hex, 16, 8), hex(substr $hex, 24, 8));
			} 1 .. $rows / 110;
		} 10 .. 119;
		return @ids;
	},
	# the two extreme ids, and two in the middle
	ends => sub {
		return ('02000000-0000-0000-0000-000000000000', '01000000-0000-0000-0000-000000000000',
			'ffffffff-ffff-ffff-ffff-ffffffffffff', 'feffffff-ffff-ffff-ffff-ffffffffffff',
			'00000000-0000-0000-0000-800000000000', 'ffffffff-ffff-ffff-ffff-7fffffffffff',
			map { random_id() } 1 .. 5 * $page);
	},
	empty => sub { return (); },
	one => sub { return random_id(); },
	page => sub { return map { random_id() } 1 .. $page; },
	page_and_one => sub { return map { random_id() } 0 .. $page; },
	two_pages => sub { return map { id_of('000d3a1b2c3d', 'b6e6', 0x11eb0000, $_) } 1 .. 2 * $page; });

# Replaces all accounts; returns their number.
sub sow
{
	my ($kind) = @_;
	my $n = 0;
	my %seen;
	my @ids = grep { !$seen{$_}++ } $ids_of{$kind}->();
	my $list = join ',', map { "('$_'," . $n++ . ')' } @ids;

	$dvsim->control('POST', '/_dvsim/reset');
	$crm->sql('TRUNCATE ids');
	return 0 if $n == 0;
	$crm->sql("INSERT INTO ids VALUES $list;
		INSERT INTO dv.account (accountid, name, numberofemployees)
		  SELECT id, CASE n % 3 WHEN 0 THEN 'Alpha ' WHEN 1 THEN 'Beta ' ELSE 'Gamma ' END || n, n FROM ids");
	return $n;
}

# Returns the errors in the rows of a query, as "missing|twice|foreign".
sub differences
{
	my ($query, $set, $where) = @_;

	$where //= 'true';
	return $crm->sql(
		"SET dataverse_fdw.scan_parallelism = $set;
		WITH got AS MATERIALIZED (SELECT accountid AS id, count(*) AS times FROM ($query OFFSET 0) q GROUP BY 1),
		  wanted AS (SELECT id FROM ids WHERE $where)
		SELECT (SELECT count(*) FROM wanted WHERE id NOT IN (SELECT id FROM got)),
		  (SELECT count(*) FROM got WHERE times > 1),
		  (SELECT count(*) FROM got WHERE id NOT IN (SELECT id FROM wanted))");
}

# Returns the figures of EXPLAIN ANALYZE.
sub figures
{
	my ($query, $settings) = @_;
	my $plan = $crm->sql("$settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
	my %figure = $plan =~ /^\s*([A-Z][A-Za-z ]+): (\d+)$/mg;

	return \%figure;
}

my $everything = 'SELECT accountid, name FROM dv.account';

for my $kind (sort keys %ids_of)
{
	my $n = sow($kind);

	for my $most ($kind eq 'clustered' ? (1, 2, 16, 64) : (2 + int rand 15, 64))
	{
		my $figure;
		my $pages = int(($n + $page - 1) / $page);
		my $ranges;

		# the answer about the order of ids may arrive after the last page of a small table
		for (1 .. 10)
		{
			$figure = figures($everything, "SET dataverse_fdw.scan_parallelism = $most");
			$ranges = $figure->{'Ranges at a Time'} // 1;
			last if $ranges > 1 || $most == 1 || $n <= 5 * $page;
		}
		is(differences($everything, $most), '0|0|0', "$kind, $most at a time: each row once");
		cmp_ok($ranges, '<=', $most, '… and no more ranges');
		cmp_ok($ranges, '>=', $most == 1 ? 1 : 2, '… which are read concurrently') if $n > 5 * $page;
		is($ranges, 1, '… but one is enough for a small table') if $n <= $page;
		# the second figure is the allowance of ranges.c, with as many probes as ranges
		cmp_ok($figure->{'Requests Answered'}, '<=',
			$most == 1 ? $pages || 1 : $kind =~ /clustered|skewed|halves/ ? 5 * $pages + 6 * $most + 4 : 2 * $pages + 3 * $most + 4,
			'… with few requests');
	}
}

# ---- queries

sow('clustered');
for my $case (
	[ q{SELECT accountid FROM dv.account WHERE name LIKE 'Beta%'}, 'n % 3 = 1', 'a filter' ],
	[ q{SELECT accountid FROM dv.account WHERE name LIKE 'Beta%' OR numberofemployees < 500}, 'n % 3 = 1 OR n < 500', 'alternatives' ],
	[ q{SELECT accountid FROM dv.account WHERE name LIKE 'Beta%' AND numberofemployees > 100 AND length(name) = 8}, 'n % 3 = 1 AND n BETWEEN 101 AND 999', 'a filter with a part that is checked here' ],
	[ 'SELECT accountid FROM dv.account WHERE numberofemployees IN (' . join(',', 0 .. 1499) . ')', 'n < 1500', 'a list' ],
	[ 'SELECT accountid FROM dv.account WHERE accountid = ANY (ARRAY(SELECT id FROM ids WHERE n < 1500))', 'n < 1500', 'a list of ids' ],
	[ q{SELECT accountid FROM dv.account WHERE accountid > '00000000-0000-0000-0000-000000000000'}, 'true', 'a comparison of ids' ],
	[ q{SELECT accountid FROM dv.account WHERE numberofemployees IS NULL}, 'false', 'nothing' ])
{
	my ($query, $where, $what) = @$case;

	is(differences($query, 16, $where), '0|0|0', "$what: each row once");
}
is($crm->sql(q{SET dataverse_fdw.scan_parallelism = 16; SELECT count(name), count(DISTINCT name) FROM (SELECT name FROM dv.account OFFSET 0) q}), "$rows|$rows", 'without the id');
{
	my $descending = join "\n", reverse 0 .. $rows - 1;

	for my $order ('DESC NULLS FIRST', 'DESC NULLS LAST')
	{
		my $query = "SELECT numberofemployees FROM dv.account ORDER BY numberofemployees $order";
		my $figure = figures($query, 'SET dataverse_fdw.scan_parallelism = 16');

		# a local sort would not need an ordered scan
		unlike($crm->sql("EXPLAIN $query"), qr/Sort/, "$order is left to the service");
		is($figure->{Ranges}, undef, '… so rows are read sequentially');
		ok($crm->sql("SET dataverse_fdw.scan_parallelism = 16; $query") eq $descending, '… in order');
	}
}

# ---- options

is(figures($everything, 'SELECT')->{Ranges}, undef, 'one range, unless answers are slow');
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD scan_parallelism '3')});
is(figures($everything, 'SELECT')->{'Ranges at a Time'}, 3, 'option of the server');
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD scan_parallelism '5')});
is(figures($everything, 'SELECT')->{'Ranges at a Time'}, 5, 'option of the table');
is(figures($everything, 'SET dataverse_fdw.scan_parallelism = 7')->{'Ranges at a Time'}, 7, 'setting');
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_parallel '4')});
{
	my $peak = figures($everything, 'SET dataverse_fdw.scan_parallelism = 64')->{'Ranges at a Time'};

	cmp_ok($peak, '>', 1, 'at least one of four slots');
	cmp_ok($peak, '<=', 5, '… and at most all');
}
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP scan_parallelism, DROP max_parallel); ALTER FOREIGN TABLE dv.account OPTIONS (DROP scan_parallelism)});

# ---- broken answers at any time

my @distributions = qw(dense clustered skewed halves);
for my $round (1 .. 8)
{
	my $kind = $distributions[ $round % @distributions ];
	my @rules;

	sow($kind) if $round <= @distributions || $round % 3 == 0;
	for (1 .. 6)
	{
		my $action = (qw(garble shorten truncate reset_before_commit reset_after_commit status status delay))[ rand 8 ];
		my %rule = (method => 'GET', path => (rand() < 0.3 ? 'desc' : '/accounts'), action => $action,
			after => int rand 40, every => 1 + int rand 9, times => 1 + int rand 3);

		$rule{bytes} = int rand 4000 if $action =~ /garble|shorten|truncate/;
		$rule{delay_ms} = int rand 300 if $action eq 'delay';
		@rule{qw(status code message)} = (500, '0x80040216', 'An unexpected error occurred.') if $action eq 'status';
		@rule{qw(status code message retry_after)} = (429, '0x80072322', 'Number of requests exceeded the limit', 0)
		  if $action eq 'status' && rand() < 0.5;
		push @rules, \%rule;
	}
	$crm->fault(%$_) for @rules;
	is(differences($everything, 16), '0|0|0', "$kind, round $round: each row once")
	  or diag explain \@rules;
	$crm->no_faults;
}

# ---- the service refuses bounds, before and after the first range has been divided

sow('dense');
# throttles have left few slots
$crm->sql(q{SELECT dataverse.reset_pool('crm')});
{
	my $session = Session->new($crm->node);
	my $ask = 'SELECT count(*), count(DISTINCT accountid) FROM (SELECT accountid FROM dv.account OFFSET 0) q';
	my $refusal = { status => 400, code => '0x80060888', message => 'not supported' };

	$session->query('SET dataverse_fdw.scan_parallelism = 8');
	$crm->fault(%$refusal, path => 'desc', times => 0);
	is($session->query($ask), "$rows|$rows", 'no probes: sequential');
	is(hits($dvsim), 1, '… after one refusal');
	is($session->query($ask), "$rows|$rows", 'the session remembers');
	is(hits($dvsim), 1, '… and does not try again');
	$crm->no_faults;
	$session->close;

	$session = Session->new($crm->node);
	$session->query('SET dataverse_fdw.scan_parallelism = 4');
	# except for the question whether ids are ordered as expected, which comes first
	$crm->fault(%$refusal, path => '%20ge%20', after => 1, times => 0);
	is($session->query($ask), "$rows|$rows", 'no ranges: each range reads all rows, and keeps its own');
	is(hits($dvsim), 3, '… if it was begun');
	$crm->no_faults;
	$session->close;

	# a service that sorts differently: a row outside of the range
	$session = Session->new($crm->node);
	$session->query('SET dataverse_fdw.scan_parallelism = 4');
	$crm->fault(status => 200, path => '%20ge%20', after => 1, body => { value => [ { accountid => '00000000-0000-0000-0000-000000000001', name => 'x' } ] });
	my $r = $session->try($ask);
	is($r->{message}, 'could not read foreign table "account" on server "crm": Dataverse returned rows in an unexpected order', 'unexpectedly ordered ids are detected');
	is($r->{hint}, 'Set "scan_parallelism" to 1 to read all rows one after the other.', '… with a hint');
	$crm->no_faults;
	$session->close;
}

# ---- LIMIT, cursors, rescans

sow('dense');
for my $limit (1, $page, 10 * $page, 20 * $page + 7)
{
	my $figure = figures("SELECT accountid FROM dv.account LIMIT $limit", 'SET dataverse_fdw.scan_parallelism = 16');

	is($crm->sql("SET dataverse_fdw.scan_parallelism = 16; SELECT count(DISTINCT accountid) FROM (SELECT accountid FROM dv.account LIMIT $limit) q"),
		$limit, "LIMIT $limit");
	cmp_ok($figure->{Pages}, '<=', 2 * int(($limit + $page - 1) / $page) + 2, '… reads few pages');
	$crm->idle_ok("after LIMIT $limit");
}
sow('clustered');
{
	my $session = Session->new($crm->node);
	my %times;
	my $fetch = sub {
		my $r = $session->try($_[0]);
		BAIL_OUT($r->{message}) if defined $r->{message};
		$times{ $_->[0] }++ for @{ $r->{rows} };
		return;
	};

	$session->query('SET dataverse_fdw.scan_parallelism = 16');
	$session->query('BEGIN');
	$session->query('DECLARE c CURSOR FOR SELECT accountid FROM dv.account');
	$fetch->('FETCH 10 FROM c');
	$session->query('SAVEPOINT s');
	$fetch->('FETCH 200 FROM c');
	$session->query('ROLLBACK TO s');
	$fetch->('FETCH 100 FROM c');
	$session->query('SAVEPOINT t');
	$fetch->('FETCH 1 FROM c');
	$session->query('ROLLBACK TO t');
	$fetch->('FETCH ALL FROM c');
	$session->query('COMMIT');
	is(scalar(keys %times), $rows, 'a cursor continues after its requests ended with subtransactions');
	is(scalar(grep { $_ > 1 } values %times), 0, '… with each row once');
	$session->query('BEGIN');
	$session->query('DECLARE c CURSOR FOR SELECT accountid FROM dv.account');
	$session->query('FETCH 1000 FROM c');
	$session->query('CLOSE c');
	$session->query('COMMIT');
	$session->query('SET enable_material = off');
	is($session->query('SELECT count(*), count(DISTINCT (i, accountid)) FROM generate_series(1, 3) i, LATERAL (SELECT accountid FROM dv.account WHERE numberofemployees >= i * 500 OFFSET 0) q'),
		join('|', (3 * $rows - 3000) x 2), 'a rescan with other values');
	$session->close;
	$crm->idle_ok('after cursors');
}

# ---- below an Append, which waits for two tables at the same time

$crm->sql(q{INSERT INTO dv.contact (contactid, lastname) SELECT id, 'L' || n FROM ids});
is($crm->sql(
	q{SET dataverse_fdw.scan_parallelism = 8;
	SELECT count(*), count(DISTINCT (kind, id)) FROM (SELECT 'a' AS kind, accountid AS id FROM dv.account
	  UNION ALL SELECT 'c', contactid FROM dv.contact OFFSET 0) q}), join('|', (2 * $rows) x 2), 'below an Append');

# ---- concurrent writes: rows that exist throughout are returned once

{
	my $writer = Session->new($crm->node);
	my $others = q{(SELECT md5(random()::text || i)::uuid AS id FROM generate_series(1, 150) i)};
	my ($wrong, $reads, $end) = (0, 0, time + 4);

	# rows that appear and disappear everywhere, and next to those that stay
	$writer->start(
		qq{DO \$\$ BEGIN FOR round IN 1 .. 1000 LOOP
			INSERT INTO dv.account (accountid, name) SELECT id, 'other' FROM $others o;
			DELETE FROM dv.account WHERE name = 'other';
		END LOOP; END \$\$});
	while (time < $end)
	{
		my $got = $crm->sql(
			"SET dataverse_fdw.scan_parallelism = 16;
			WITH got AS MATERIALIZED (SELECT accountid AS id, count(*) AS times FROM ($everything OFFSET 0) q GROUP BY 1)
			SELECT (SELECT count(*) FROM ids WHERE id NOT IN (SELECT id FROM got)), (SELECT count(*) FROM got WHERE times > 1)");

		$reads++;
		$wrong++, diag $got if $got ne '0|0';
	}
	is($wrong, 0, "$reads reads during writes: each row that stays is returned once");
	kill 'INT', $writer->pid;
	$writer->finish;
	$writer->close;
}

$crm->stop;
$dvsim->stop;

# ---- a service that compares ids as text

my $text = Crm->start('text', preload => 1, flags => ['--ids-as-text']);
$text->dvsim->control('POST', '/_dvsim/seed?table=account&rows=1000');
$text->sql(
	q{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '100', ADD scan_parallelism '8');
	INSERT INTO dv.account (accountid, name) SELECT md5(i::text)::uuid, 'x' FROM generate_series(1, 1000) i});
{
	my $session = Session->new($text->node);
	my $ask = 'SELECT count(*), count(DISTINCT accountid) FROM (SELECT accountid FROM dv.account OFFSET 0) q';

	for my $time ('the first', 'the second')
	{
		$text->requests;
		is($session->query($ask), '2000|2000', "ids compared as text, $time time: each row once");
		is(scalar(grep { $_->{target} =~ /%20ge%20/ && $_->{target} !~ /%20eq%20/ } $text->requests), 0, '… sequentially');
	}
	$session->close;
}
$text->stop;
$text->dvsim->stop;

# ---- a slow service

$page = 500;
$rows = 12_000;
my $slow = Crm->start('slow', preload => 1, flags => [ '--latency', 'read=300ms' ]);
$slow->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$slow->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page')});
{
	my $count = 'SELECT count(DISTINCT accountid) FROM (SELECT accountid FROM dv.account OFFSET 0) q';
	my ($one) = $slow->time_of("SET dataverse_fdw.scan_parallelism = 1; $count");
	my ($many) = $slow->time_of("SET dataverse_fdw.scan_parallelism = 16; $count");
	my ($automatic) = $slow->time_of($count);

	is($slow->sql("SET dataverse_fdw.scan_parallelism = 16; $count"), $rows, 'each row once');
	is($slow->sql($count), $rows, '… also without the setting');
	note "one range: $one ms, sixteen: $many ms, automatic: $automatic ms";
	# 24 sequential pages, or 16 at a time after two requests; the rest allows for a busy machine
	cmp_ok($many, '<', $one / 4, 'sixteen ranges are read much faster than one');
	cmp_ok($automatic, '<', $one / 2, '… also without the setting');
}
{
	# memory: 8 ranges have at most one page each, plus one; the bound fails if each requested two
	my $session = Session->new($slow->node);
	my $peak = sub { return $session->value(q{SELECT substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s*(\d+)')}); };
	my $scan = 'SELECT count(a) FROM (SELECT a FROM dv.account a OFFSET 0) q';
	my ($bytes, $before);

  SKIP:
	{
		skip 'no /proc', 2 unless -e '/proc/self/status';
		$session->query('SET jit = off');
		$session->query('SET dataverse_fdw.scan_parallelism = 1');
		$slow->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '2000')});
		$session->query($scan);
		$before = $peak->();
		$bytes = $slow->dvsim->get('accounts', Prefer => 'odata.maxpagesize=2000')->body;
		$session->query('SET dataverse_fdw.scan_parallelism = 8');
		is($session->value($scan), $rows, 'a scan of many columns');
		my ($grown, $most) = ($peak->() - $before, 8 * 1.5 * length($bytes) / 1024);
		cmp_ok($grown, '<', $most + Crm::quarantine(), sprintf '… takes a page and a half for each range at most (%d kB grown, page of %d kB)', $grown, length($bytes) / 1024);
	}
	$slow->sql(qq{ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '$page')});
	$session->close;
}
{
	my $session = Session->new($slow->node);
	my $watcher = Session->new($slow->node);

	$session->query('SET dataverse_fdw.scan_parallelism = 16');
	$session->start('SELECT count(name) FROM (SELECT name FROM dv.account OFFSET 0) q');
	wait_for(sub { $watcher->value('SELECT sum(in_flight) FROM dataverse.pool') >= 10 }, 'many requests are under way');
	cmp_ok($watcher->value(q{SELECT max(in_flight) FROM dataverse.progress WHERE operation = 'read'}), '>=', 1, 'progress shows them');
	my $began = time;

	kill 'INT', $session->pid;
	my $r = $session->finish;
	is($r->{sqlstate}, '57014', 'a scan of many ranges is canceled');
	cmp_ok($r->{ended_at} - $began, '<', PROMPT, sprintf '… at once (%.0f ms)', 1000 * ($r->{ended_at} - $began));
	is($watcher->value('SELECT sum(in_flight) FROM dataverse.pool'), 0, '… and no slot is held');
	$_->close for $session, $watcher;
}
{
	# a throttle leaves fewer slots than ranges, which then wait for each other
	my ($ms, $err);

	$slow->sql(q{ALTER SERVER crm OPTIONS (ADD slot_timeout '250ms', ADD max_parallel '16', ADD retry_after_buffer '0')});
	$slow->sql(q{SELECT dataverse.reset_pool('crm')});
	$slow->fault(status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit', retry_after => 1,
		path => '%20ge%20', after => 2, times => 2);
	($ms, $err) = $slow->time_of('SET dataverse_fdw.scan_parallelism = 16; SELECT count(name) FROM (SELECT name FROM dv.account OFFSET 0) q');
	is($err, '', 'ranges that wait for slots of their own session do not time out');
	is(hits($slow->dvsim), 2, '… after throttles');
	$slow->no_faults;
}
$slow->stop;
$slow->dvsim->stop;

done_testing;
