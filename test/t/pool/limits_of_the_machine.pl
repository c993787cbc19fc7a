# limits_of_the_machine.pl
#		Time, file descriptors, and memory: pauses of the backend do not count
#		as timeouts of the service, descriptors are not exhausted, and the
#		memory for answers is bounded.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Compress::Zlib ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use PoolTest;
use Dvsim;
use Hostile;

use constant FILES => 90;				# max_files_per_process
use constant EXTERNAL => FILES / 3;		# that PostgreSQL leaves to extensions
use constant PAUSE => 1.5;				# of the backend
use constant TIMEOUT => '1s';			# of requests, shorter than the pause

my @users = map { "app$_" } 1 .. 24;
my $dvsim = Dvsim->start('--dop', 52, map { ('--app-user', "$_:secret") } @users);
my $node = new_node('limits', preload => 1, conf => 'max_files_per_process = ' . FILES);
my $session = Session->new($node);
my %app1 = (client_id => 'app1', client_secret => 'secret');
my %quick = (budget_pacing => 'off', initial_parallelism_factor => 1, min_increase_interval => '0s');

sub server
{
	my ($name, $options, $mapping) = @_;
	return create_server($node, $name, { url => $dvsim->base, %quick, %$options }, $mapping // \%app1);
}

sub tables
{
	my ($server, %options) = @_;

	$session->query("DROP SCHEMA IF EXISTS $server CASCADE; CREATE SCHEMA $server;"
		  . "IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER $server INTO $server;"
		  . "ALTER FOREIGN TABLE $server.account OPTIONS (" . options_of(%options) . ')');
	return "$server.account";
}

sub mark { my ($next) = sent($dvsim, 0); return $next; }

sub statuses
{
	my ($since, $method) = @_;
	my ($next, @requests) = sent($dvsim, $since);
	return join ' ', map { $_->{status} } grep { $_->{method} eq $method && $_->{kind} ne 'token' } @requests;
}

sub memory
{
	my ($what) = slurp_file('/proc/' . $_[0]->pid . '/status') =~ /^VmHWM:\s*(\d+) kB/m;
	return $what / 1024;
}

sub descriptors
{
	my ($backend) = @_;
	opendir my $dir, '/proc/' . $backend->pid . '/fd' or die $!;
	return scalar grep { (readlink("/proc/" . $backend->pid . "/fd/$_") // '') =~ /^socket:/ } readdir $dir;
}

# ---- a pause is not a timeout

{
	server('patient', { request_timeout => TIMEOUT, max_parallel => 1 });
	my $table = tables('patient', generate_ids => 'off', batch_size => 5, page_size => 5);
	my $since = mark();

	# all rows have been taken before the answer arrives, so nothing reads it until the pause is over
	faults($dvsim, { path => 'CreateMultiple', action => 'delay', delay_ms => 600, times => 1 });
	$session->start("COPY $table (name) FROM STDIN");
	$session->copy(join '', map { "row $_\n" } 1 .. 12);
	wait_for(sub { statuses($since, 'POST') eq '200' }, 'a batch is written');
	sleep PAUSE;
	$session->copy(join '', map { "row $_\n" } 13 .. 20);
	$session->copy_end;
	my $r = $session->finish;
	is($r->{sqlstate}, undef, 'COPY: the client pauses for longer than request_timeout')
	  or diag $r->{message};
	is(statuses($since, 'POST'), '200 200 200 200', '... each batch is sent once');
	is($session->value("SELECT string_agg(name, ',' ORDER BY split_part(name, ' ', 2)::int) FROM $table"),
		join(',', map { "row $_" } 1 .. 20), '... and each row exists once');

	$since = mark();
	$session->query("BEGIN; DECLARE c CURSOR FOR SELECT accountid FROM $table");
	for my $fetch (1 .. 2)
	{
		$session->query('FETCH 6 FROM c');
		sleep PAUSE;
	}
	is(scalar(split /\n/, $session->query('FETCH ALL FROM c; COMMIT')), 8, 'cursor: all rows after two pauses');
	is(statuses($since, 'GET'), '200 200 200 200', '... and each page is requested once');

	# the service is silent
	server('hasty', { request_timeout => TIMEOUT, max_retries => 0 });
	faults($dvsim, { path => 'WhoAmI', action => 'stall', times => 1 });
	$r = $session->try("SELECT dataverse.whoami('hasty')");
	is($r->{sqlstate}, '08006', 'no answer: an error');
	like($r->{message}, qr/timed out: no complete answer after 1 s/, '... which names the timeout');
	cmp_ok(abs($r->{seconds} - 1.25), '<', 0.75, sprintf '... in time (%.1f s)', $r->{seconds});

	# the service was silent during a pause
	clear_faults($dvsim);
	faults($dvsim, { method => 'GET', path => 'accounts', after => 1, action => 'stall', times => 1 });
	$session->query("BEGIN; DECLARE c CURSOR FOR SELECT accountid FROM $table; FETCH 1 FROM c");
	wait_for(sub { hits($dvsim) == 1 }, 'the second page is requested');
	sleep PAUSE;
	my $start = time;
	is(scalar(split /\n/, $session->query('FETCH ALL FROM c; COMMIT')), 19, 'no answer during a pause: the request is retried');
	cmp_ok(time - $start, '<', 1, '... at once');
	clear_faults($dvsim);

	# a busy backend
	$since = mark();
	faults($dvsim, { method => 'POST', path => 'CreateMultiple', action => 'stall', times => 1 });
	tables('patient', batch_size => 5);
	$r = $session->try("INSERT INTO $table (name) SELECT 'busy ' || i FROM generate_series(1, 100) i,"
		  . ' LATERAL (SELECT pg_sleep(i * 0 + 0.02)) s');
	is($r->{sqlstate}, undef, 'one request is lost while others are answered') or diag $r->{message};
	cmp_ok($r->{seconds}, '<', 4, sprintf '... that is noticed in time (%.1f s)', $r->{seconds});
	is($session->value("SELECT count(DISTINCT name) || ' of ' || count(*) FROM $table WHERE name LIKE 'busy%'"), '100 of 100', '... each row exists once');
	clear_faults($dvsim);
}

# ---- nor does a pause count as waiting for a slot

{
	server('slot', { max_parallel => 1, slot_timeout => '1s' }, { client_id => 'app2', client_secret => 'secret' });
	my $table = tables('slot', page_size => 5);
	my $holder = Session->new($node);

	$session->query("BEGIN; DECLARE c CURSOR FOR SELECT accountid FROM $table; FETCH 1 FROM c");
	faults($dvsim, { path => 'WhoAmI', action => 'stall', times => 1 });
	$holder->start("SELECT dataverse.whoami('slot')");
	wait_for(sub { hits($dvsim) == 1 }, 'the slot of the cursor is lent');
	$session->query('FETCH 5 FROM c');
	sleep PAUSE;
	$session->query('FETCH 1 FROM c');
	$session->value('SELECT pg_cancel_backend(' . $holder->pid . ')');
	$holder->finish;
	my $r = $session->try('FETCH ALL FROM c');
	is($r->{sqlstate}, undef, 'a pause longer than slot_timeout') or diag $r->{message};
	is(scalar @{ $r->{rows} }, 113, '... all rows');
	$session->query('COMMIT');
	$holder->close;
	clear_faults($dvsim);
}

# ---- requests wait for descriptors

{
	my %mapping;

	for my $i (1 .. @users)
	{
		my $suffix = $i > 1 ? "_$i" : '';
		@mapping{ "client_id$suffix", "client_secret$suffix" } = ($users[ $i - 1 ], 'secret');
	}
	$dvsim->control('POST', '/_dvsim/reset');
	my $slow = Dvsim->start('--dop', 52, '--latency', 'create=100ms', map { ('--app-user', "$_:secret") } @users);
	server('many', { url => $slow->base, max_retries => 0 }, \%mapping);
	my $table = tables('many', batch_size => 1);
	my $writer = Session->new($node);
	my $r = $writer->try("INSERT INTO $table (name) SELECT 'many ' || i FROM generate_series(1, 300) i");
	is($r->{sqlstate}, undef, '24 users at DOP 52') or diag $r->{message};
	is($session->value("SELECT count(*) FROM $table WHERE name LIKE 'many%'"), 300, '... write their rows');
	my $peak = 0;
	$peak += user_stats($slow, $_)->{peak_in_flight} for @users;
	cmp_ok($peak, '>', 20, "... $peak requests at a time") or diag explain $slow->control('GET', '/_dvsim/stats')->json;
	my $open = descriptors($writer);
	cmp_ok($open, '<=', EXTERNAL + 4, "... $open sockets stay open, as many as PostgreSQL permits");

	# a backend that waits for descriptors can be canceled and terminated
	for my $signal ('INT', 'TERM')
	{
		my $waiter = Session->new($node);
		faults($slow, { method => 'POST', path => 'CreateMultiple', action => 'stall', times => 1000 });
		$waiter->start("INSERT INTO $table (name) SELECT 'never ' || i FROM generate_series(1, 300) i");
		my ($sent, $before) = (0, -1);
		wait_for(sub { sleep 0.2; ($before, $sent) = ($sent, hits($slow)); return $sent > 5 && $sent == $before; }, 'no further requests are sent');
		cmp_ok($sent, '<', EXTERNAL, "$sent requests are under way, and others wait for descriptors");
		my $start = time;
		kill $signal, $waiter->pid;
		like($waiter->finish->{sqlstate}, qr/^57(014|P01)$/, "$signal takes effect while they wait");
		cmp_ok(time - $start, '<', 1, '... acts at once');
		$waiter->close;
		clear_faults($slow);
	}

	# fewer descriptors than PostgreSQL expects; each session requests all tokens again
	SKIP: {
		skip 'no prlimit', 15 if system('prlimit', '--version') != 0;
		for my $more (1 .. 7)
		{
			$writer->close;
			$writer = Session->new($node);
			$writer->query("SELECT count(*) FROM $table");
			my $limit = $more + (() = glob '/proc/' . $writer->pid . '/fd/*');
			is(system('prlimit', '--pid', $writer->pid, "--nofile=$limit"), 0, "the kernel grants $more additional descriptors");
			$r = $writer->try("INSERT INTO $table (name) SELECT 'few ' || i FROM generate_series(1, 30) i");
			is($r->{sqlstate}, undef, '... and no others: the rest of the sessions write') or diag $r->{message}, ' ', $r->{detail} // '';
		}
		is($session->value("SELECT count(*) FROM $table WHERE name LIKE 'few%'"), 7 * 30, '... all rows');
	}
	$writer->close;
	$slow->stop;
}

# ---- connections are reused, but not kept forever

{
	my $backend = Session->new($node);

	server('crm', {});
	my $ids = $backend->value(q{SELECT string_agg(dataverse.request('crm', 'POST', 'accounts', '{"name": "x"}')->>'@odata.id', ' ') FROM generate_series(1, 100)});
	my $before = descriptors($backend);
	my ($i, $failed) = (0, 0);
	for my $id (split / /, $ids)
	{
		my ($path) = $id =~ m{/(accounts\(.*\))$};
		$failed++ if defined $backend->try("SELECT dataverse.request('crm', 'DELETE', '$path')")->{sqlstate};
	}
	is($failed, 0, '100 requests without a body');
	is(descriptors($backend), $before, '... use one connection');

	faults($dvsim, { method => 'DELETE', action => 'reset_before_commit', times => 1 });
	my $since = mark();
	my ($path) = $backend->value(q{SELECT dataverse.request('crm', 'POST', 'accounts', '{"name": "x"}')->>'@odata.id'}) =~ m{/(accounts\(.*\))$};
	my $r = $backend->try("SELECT dataverse.request('crm', 'DELETE', '$path')");
	my ($next, @requests) = sent($dvsim, $since);
	is($r->{sqlstate}, undef, 'DELETE on a connection that is closed: repeated by us') or diag $r->{message};
	is($backend->value(q{SELECT retries->>'connection' FROM dataverse.pool WHERE server = 'crm'}), 1, '... and counted');
	clear_faults($dvsim);

	# many user mappings in one backend
	my @roles = map { "role$_" } 1 .. 50;
	server('shared', {});
	$session->query(join ';', 'DROP USER MAPPING FOR PUBLIC SERVER shared', 'GRANT USAGE ON FOREIGN SERVER shared TO PUBLIC',
		map { "CREATE ROLE $_; CREATE USER MAPPING FOR $_ SERVER shared OPTIONS (" . options_of(%app1) . ')' } @roles);
	my $worst = 0;
	for my $role (@roles)
	{
		$backend->query("SET ROLE $role; SELECT dataverse.whoami('shared'); RESET ROLE");
		my $now = descriptors($backend);
		$worst = $now if $now > $worst;
	}
	cmp_ok($worst, '<=', EXTERNAL + 4, "50 user mappings: at most $worst sockets are open");
	$backend->query('BEGIN');
	$backend->query("SET ROLE $_; SELECT dataverse.whoami('shared'); RESET ROLE") for @roles;
	cmp_ok(descriptors($backend), '<=', EXTERNAL + 4, '... even in one transaction');
	$backend->query('COMMIT');
	$backend->close;
}

# ---- the size of an answer is bounded

my $flood = join '', map { sprintf "X-Line-%07d: %s\r\n", $_, 'x' x 1000 } 1 .. 64;
my $ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

sub pour { my ($socket, $megabytes) = @_; for (1 .. $megabytes * 16) { print {$socket} $flood or last; } return 0; }

sub compressed
{
	my ($megabytes) = @_;
	my ($gzip) = Compress::Zlib::deflateInit(-WindowBits => 31);
	my $out = join '', map { ($gzip->deflate(' ' x 1_048_576))[0] } 1 .. $megabytes;
	return $out . ($gzip->flush)[0];
}

sub gzip
{
	my ($data) = @_;
	my ($gzip) = Compress::Zlib::deflateInit(-WindowBits => 31);
	return ($gzip->deflate($data))[0] . ($gzip->flush)[0];
}

my $bomb = compressed(400);
my $zipped = sub {
	my ($status) = @_;
	return sub { my ($s) = @_; print {$s} "HTTP/1.1 $status X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: " . length($bomb) . "\r\n\r\n$bomb"; return 0; };
};
my $uuid = '"00000000-0000-0000-0000-000000000001"';
my @lifetimes = (14000000000000, '1e300', '-1e300', '-5', 0, '"3600"', '"soon"', '"inf"', '1800.5', 'null', '[]', '9223372036854775807');
my $nothing = gzip("\x1f\x8b\x08\0\0\0\0\0\0\x03" . "\0\0\0\xff\xff" x 10_000_000);
my $encoded = sub {
	my ($how, $body) = @_;
	return sub { my ($s) = @_; print {$s} "${ok}$how\r\nConnection: close\r\n\r\n$body"; return 0; };
};
my $dense = gzip('{"EntitySetName": [' . '1,' x 20_000_000 . '1]}');
my $large = gzip("{\"value\": [{\"accountid\": $uuid, \"name\": \"first\"}," . ' ' x 80_000_000 . "{\"accountid\": $uuid, \"name\": \"last\"}]}");
my $endless = '{"value": [], "filler": "' . 'x' x 10_000_000 . '", "@odata.nextLink": "components?page=%d"}';
my $hostile = Hostile->start(
	"(LogicalName='dense')" => $encoded->('Content-Encoding: gzip', $dense),
	'/EntityDefinitions' => sub { my ($s) = @_; Hostile::answer($s, 200, '{"value": []}') },
	'components' => sub { my ($s, $request) = @_; Hostile::answer($s, 200, sprintf $endless, $request->{n}) },
	'/nested' => $encoded->('Content-Encoding: gzip, gzip', $nothing),
	'/transfer' => $encoded->('Transfer-Encoding: gzip', gzip('{}')),
	'/switch' => sub { my ($s) = @_; print {$s} "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n{}"; return 0; },
	'/trickle' => sub { my ($s) = @_; print {$s} "${ok}Content-Length: 1000\r\n\r\n"; while (1) { sleep 0.5; syswrite $s, ' ' or last; } return 0; },
	'/trailers' => sub { my ($s) = @_; print {$s} "${ok}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"; pour($s, 610) },
	'/trailer' => sub { my ($s) = @_; print {$s} "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nOData-EntityId: http://evil/\r\nContent-Type: text/plain\r\n\r\n"; 1 },
	'/headers' => sub { my ($s) = @_; print {$s} $ok; pour($s, 610) },
	'/interim' => sub { my ($s) = @_; for (1 .. 10_000_000) { print {$s} "HTTP/1.1 102 Processing\r\nX: y\r\n\r\n" or last; } 0 },
	'/large' => $encoded->('Content-Encoding: gzip', $large),
	'/bomb' => $zipped->(200),
	'/error' => $zipped->(400),
	'/broken' => sub { my ($s) = @_; Hostile::answer($s, 200, 'x' x 20_000_000) },
	'/text' => sub { my ($s) = @_; Hostile::answer($s, 200, '{"a": "' . "\\u0000" . 'x' x 20_000_000) },
	'/WhoAmI' => sub { my ($s) = @_; Hostile::answer($s, 200, "{\"UserId\": $uuid, \"BusinessUnitId\": $uuid, \"OrganizationId\": $uuid}",
			(map { "Set-Cookie: junk$_-$$-" . rand() . '=' . 'x' x 1000 } 1 .. 20), 'Set-Cookie: ARRAffinity=host7; Path=/; HttpOnly') },
	'/accounts(1)' => sub { my ($s) = @_; Hostile::answer($s, 200, '{"UserId": "' . 'x' x 20_000_000 . '"}') },
	(map { my $status = $_; "/later$status" => sub { my ($s) = @_; Hostile::answer($s, $status, '{}', 'Retry-After: 3600') } } 408, 500, 502, 504),
	(map { my $lifetime = $lifetimes[$_]; "/token$_" => sub { my ($s) = @_; Hostile::answer($s, 200, "{\"access_token\": \"t\", \"expires_in\": $lifetime}") } }
	  0 .. $#lifetimes),
	'/accounts' => sub { my ($s) = @_; Hostile::answer($s, 200, "{\"value\": [{\"accountid\": $uuid, \"name\": \"first\"}], \"\@odata.nextLink\": \"/api/data/v9.2/next\"}") },
	'/next' => sub { my ($s) = @_; Hostile::answer($s, 200, "{\"value\": [{\"accountid\": $uuid, \"name\": \"" . 'n' x 60_000_000 . '"}]}') },
	'/token/refused' => sub { my ($s) = @_; Hostile::answer($s, 400, '{"error_description": "' . 'y' x 200_000 . '"}') },
	'/token/later' => sub { my ($s) = @_; Hostile::answer($s, 503, '{}', 'Retry-After: 3600') },
	'/token/large' => sub { my ($s) = @_; Hostile::answer($s, 200, '{"access_token": "' . 'z' x 1_000_000 . '"}') });

create_server($node, 'hostile', { url => $hostile->base, %quick, max_retries => 0, max_retry_after_tolerance => '2s', affinity_cookie => 'on' },
	{ access_token => 'token' });

sub ask { my ($backend, $path, $method) = @_; $method //= 'GET'; return $backend->try("SELECT dataverse.request('hostile', '$method', '$path')"); }

for my $case (
	[ trailers => 'GET', 'trailers without end', 50 ],
	[ headers => 'GET', 'headers without end', 50 ],
	[ interim => 'GET', 'interim answers without end', 50 ],
	[ bomb => 'PATCH', 'an answer to a write that swells', 60 ],
	[ error => 'GET', 'an error that swells', 50 ],
	[ bomb => 'GET', 'a page that swells', 350 ])
{
	my ($path, $method, $what, $most) = @$case;
	my $backend = Session->new($node);
	my $before = memory($backend);
	my $r = ask($backend, $path, $method);

	is($r->{sqlstate}, '54000', "$what: an error") or diag $r->{message};
	my $grown = memory($backend) - $before;
	cmp_ok($grown, '<', $most, sprintf '... and the backend has grown by %.0f MB', $grown);
	$backend->close;
}

# many answers that expand, each of them small enough
{
	my $backend = Session->new($node);
	my $before = memory($backend);
	my $fetch = sub { return $backend->try("DECLARE c$_[0] CURSOR FOR SELECT name FROM large$_[0]; FETCH 1 FROM c$_[0]"); };
	my @large = 1 .. 8;

	$backend->query(join ';', map { "CREATE FOREIGN TABLE large$_ (accountid uuid, name text) SERVER hostile OPTIONS (\"table\" 'account$_', entity_set 'large', primary_id 'accountid')" } @large);
	$backend->query('BEGIN');
	my ($r, $read);
	for (@large)
	{
		$r = $fetch->($_);
		last if defined $r->{sqlstate};
		$read++;
	}
	is($r->{sqlstate}, '54000', 'pages of open cursors that expand: an error');
	like($r->{message}, qr/answer was too large: answers held in memory by this session would exceed 256 MB/, '... that says so');
	cmp_ok($read, '>=', 2, "... after $read pages");
	my $grown = memory($backend) - $before;
	cmp_ok($grown, '<', 400, sprintf '... and the backend has grown by %.0f MB', $grown);
	$backend->query('ROLLBACK');
	$backend->query('BEGIN');
	is($fetch->(1)->{rows}[0][0], 'first', 'afterwards, memory is available again');
	$backend->close;
}

for my $case ([ nested => 'HV000' ], [ transfer => 'HV000' ])
{
	my $r = ask($session, $case->[0]);

	is($r->{sqlstate}, $case->[1], "$case->[0] encodings: an error") or diag $r->{message};
	like($r->{message}, qr/has an encoding that was not requested/, '... that says so');
}

{
	my $backend = Session->new($node);
	my $before = memory($backend);
	my $r = $backend->try(q{SELECT * FROM dataverse.fetchxml('hostile', '<fetch><entity name="dense"/></fetch>')});
	is($r->{sqlstate}, 'HV000', 'a document of twenty million values: an error') or diag $r->{message};
	cmp_ok(memory($backend) - $before, '<', 300, '... that uses little memory');
	$backend->close;

	$backend = Session->new($node);
	$before = memory($backend);
	$backend->query('CREATE SCHEMA solution');
	$backend->start('IMPORT FOREIGN SCHEMA solution FROM SERVER hostile INTO solution');
	wait_for(sub { $hostile->count('components') >= 30 }, 'thirty pages of a solution are read');
	kill 'INT', $backend->pid;
	is($backend->finish->{sqlstate}, '57014', 'a solution with endless pages can be canceled');
	cmp_ok(memory($backend) - $before, '<', 150, '... and its pages are not kept');
	$backend->close;
}

{
	my $r = ask($session, 'switch', 'PATCH');
	is($r->{sqlstate}, '08006', 'an answer that switches protocols is no final answer to a request') or diag explain $r;

	create_server($node, 'trickling', { url => $hostile->base, %quick, max_retries => 0, request_timeout => TIMEOUT }, { access_token => 'token' });
	$session->query("CREATE FOREIGN TABLE trickle_$_ (accountid uuid, name text) SERVER trickling OPTIONS (entity_set 'trickle')") for 1, 2;
	for my $from ('trickle_1', '(SELECT * FROM trickle_1 UNION ALL SELECT * FROM trickle_2)')
	{
		$r = $session->try("SELECT * FROM $from t");
		is($r->{sqlstate}, '08006', "an answer that trickles from $from: an error");
		cmp_ok(abs($r->{seconds} - 1.25), '<', 0.75, sprintf '... in time (%.1f s)', $r->{seconds});
	}
}

{
	my $r = ask($session, 'trailer');
	is($r->{rows}[0][0], undef, 'a trailer is not treated as a header');
	for my $path ('broken', 'text')
	{
		$r = ask($session, $path);
		isnt($r->{sqlstate}, undef, "a $path answer of 20 MB");
		cmp_ok(length join('', map { $_ // '' } @$r{qw(message detail hint context)}), '<', 3000, '... is not quoted in full');
	}

	$session->query("SELECT dataverse.whoami('hostile')") for 1 .. 10;
	my ($head) = reverse $hostile->requests('/WhoAmI');
	like($head, qr/^Cookie: ARRAffinity=host7\r?$/mi, 'of the cookies, only the one for affinity is sent');

	$session->query("ALTER SERVER hostile OPTIONS (SET max_retries '3')");
	for my $status (408, 500, 502, 504)
	{
		$r = ask($session, "later$status");
		like($r->{sqlstate}, qr/^(?:HV|08)/, "$status with a Retry-After beyond the tolerance: an error");
		cmp_ok($r->{seconds}, '<', 2, '... at once');
		is(scalar($hostile->requests("/later$status")), 1, '... without a retry');
	}
}

# ---- after a pause, an incomplete page continues to be read

{
	create_server($node, 'long', { url => $hostile->base, %quick, max_retries => 0, request_timeout => TIMEOUT }, { access_token => 'token' });
	$session->query('CREATE SCHEMA long; CREATE FOREIGN TABLE long.account (accountid uuid, name text) SERVER long'
		  . " OPTIONS (\"table\" 'account', entity_set 'accounts', primary_id 'accountid')");
	$session->query('BEGIN; DECLARE c CURSOR FOR SELECT length(name) FROM long.account; FETCH 1 FROM c');
	wait_for(sub { $hostile->count('/next') == 1 }, 'the next page is requested');
	sleep PAUSE;
	my $r = $session->try('FETCH ALL FROM c');
	is($r->{rows}[0][0], 60_000_000, 'a page of 60 MB that arrives during a pause') or diag $r->{message};
	is($hostile->count('/next'), 1, '... is requested once');
	$session->query('ROLLBACK');
}

# ---- tokens

my $n = 0;

sub with_token
{
	my ($path) = @_;
	my $name = 'token' . ++$n;

	create_server($node, $name, { url => $hostile->base, %quick, max_retry_after_tolerance => '2s', token_url => $hostile->base . $path },
		{ client_id => "app $n", client_secret => 's' });
	return "SELECT count(*) FROM generate_series(1, 20) i, LATERAL (SELECT i, dataverse.whoami('$name')) w";
}

for my $i (0 .. $#lifetimes)
{
	my $r = $session->try(with_token("/token$i"));

	is($r->{rows}[0][0], 20, "expires_in $lifetimes[$i]") or diag $r->{message};
	is($hostile->count("/token$i"), 1, '... one token is enough');
}

my $r = $session->try(with_token('/token/refused'));
cmp_ok(length $r->{message}, '<', 3000, 'a long refusal of the authority is not quoted in full');
$r = $session->try(with_token('/token/later'));
is($r->{sqlstate}, '53400', 'Retry-After of the authority beyond the tolerance: an error, as for other throttles') or diag $r->{message};
cmp_ok($r->{seconds}, '<', 2, '... at once');
$r = $session->try(with_token('/token/large'));
like($r->{message} // '', qr/answer was too large/, 'an endless token');

$session->close;
$hostile->stop;
$node->stop;
done_testing();
