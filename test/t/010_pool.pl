# 010_pool.pl
#		The pool across backends, with shared_preload_libraries and without:
#		throttles seen by one are known to all, slots are never lost, and all
#		together keep the service's limits.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;

sub whoami { my ($crm, $n) = @_; return $crm->sql("SELECT (dataverse.whoami('crm')).application_user;\n" x $n); }

# ---- R052: three users, one throttled, then free again; seen from any backend

sub test_routing
{
	my ($crm, $how) = @_;

	$crm->throttle(3, app_user => 'app2');
	my @first = split /\n/, whoami($crm, 4);
	is(scalar(@first), 4, "$how: a throttled user fails no request");
	ok(!grep({ $_ eq 'app2' } @first), "$how: the others take its place")
	  or diag("@first");
	is($crm->user_stats('app2')->{throttles}{'0x80072322'},
		1, "$how: it is asked once");

	my @other = split /\n/, whoami($crm, 6);
	ok(!grep({ $_ eq 'app2' } @other), "$how: another backend routes at once");
	is($crm->user_stats('app2')->{throttles}{'0x80072322'}, 1, "$how: without asking it");
	is( $crm->sql(
			"SELECT name, limited_by, throttled_until > now(), throttles FROM dataverse.pool WHERE throttled"),
		'app2|throttle|t|{"0x80072322": 1}',
		"$how: the view says so");
	is( $crm->sql("SELECT server, users, throttled_users, total_throttle_events FROM dataverse.pool_summary"),
		'crm|3|1|1',
		"$how: and the summary");
	is( $crm->sql(
			"SELECT name, code, retry_after, fallback, operation FROM dataverse.throttle_history"),
		'app2|0x80072322|00:00:03|f|other',
		"$how: and the history");

	# buffer of 1 s and up to 1 s of jitter
	sleep 5.2;
	like(whoami($crm, 3), qr/^app2$/m, "$how: free again, it is used again");
	return;
}

# ---- waiting

sub test_waiting
{
	my ($crm, $how) = @_;

	$crm->server('lone', users => 1);
	$crm->sql("SELECT dataverse.whoami('lone')");
	$crm->throttle(2, app_user => 'app1');
	my ($ms, $err) = $crm->time_of("SELECT dataverse.whoami('lone')");
	is($err, '', "$how: a wait is not an error");
	cmp_ok($ms, '>=', 3000, "$how: Retry-After and the buffer are waited out");
	cmp_ok($ms, '<=', 4600, "$how: and no more than the jitter on top");

	$crm->sql("ALTER SERVER lone OPTIONS (ADD max_retry_after_tolerance '5s')");
	$crm->throttle(60, app_user => 'app1');
	($ms, $err) = $crm->time_of("SELECT dataverse.whoami('lone')");
	like($err, qr/throttled for another \d+ s, which exceeds "max_retry_after_tolerance"/,
		"$how: longer than tolerated is an error");
	cmp_ok($ms, '<', 300, "$how: at once");
	my $asked = $crm->user_stats('app1')->{throttles}{'0x80072322'};
	($ms, $err) = $crm->time_of("SELECT dataverse.whoami('lone')");
	like($err, qr/exceeds/, "$how: also in another backend");
	is($crm->user_stats('app1')->{throttles}{'0x80072322'}, $asked, "$how: which does not ask");
	is($crm->sql("SELECT dataverse.reset_pool('lone')"), 1, "$how: reset_pool");
	like(whoami($crm, 3), qr/^app1$/m, "$how: makes it free");
	return;
}

# ---- many backends, one ceiling

sub test_ceiling
{
	my ($crm, $how) = @_;
	my $script = $crm->node->basedir . '/ceiling.sql';

	append_to_file($script,
		"SELECT dataverse.request('crm', 'GET', 'accounts?\$select=name&\$top=1');\n");
	$crm->node->command_checks_all(
		[ 'pgbench', '-n', '-c', 32, '-j', 2, '-t', 15, '-f', $script, 'postgres' ],
		0, [qr{actually processed: 480/480}], [qr/^(?!.*ERROR)/s], "$how: 32 backends");
	my $sum = 0;
	for my $user (map { "app$_" } 1 .. 3)
	{
		my $peak = $crm->user_stats($user)->{peak_in_flight};

		$sum += $peak;
		cmp_ok($peak, '<=', 6, "$how: $user never has more under way than the DOP hint");
	}
	cmp_ok($sum, '>=', 6, "$how: but they work in parallel ($sum)");
	$crm->idle_ok("when all have ended ($how)");
	return;
}

# ---- sessions that end in the middle

sub test_ends
{
	my ($crm, $how) = @_;

	$crm->sql("SELECT dataverse.reset_pool('crm')");
	$crm->fault(action => 'stall', path => 'WhoAmI', times => 2);
	my $h = $crm->background("SELECT dataverse.whoami('crm')", 'ended');
	ok($crm->node->poll_query_until('postgres', 'SELECT sum(in_flight) = 1 FROM dataverse.pool'),
		"$how: a request is under way");
	my $start = time;
	$crm->sql("SELECT pg_terminate_backend($h->{pid}, 5000)");
	cmp_ok(time - $start, '<', 0.2, "$how: pg_terminate_backend acts at once");
	like($crm->finish($h), qr/terminating connection/, "$how: with PostgreSQL's own message");
	$crm->idle_ok("by the terminated backend ($how)");

	$h = $crm->background("SELECT dataverse.whoami('crm')", 'killed');
	$crm->node->poll_query_until('postgres', 'SELECT sum(in_flight) = 1 FROM dataverse.pool');
	kill 'KILL', $h->{pid};
	$crm->finish($h);
	ok($crm->node->poll_query_until('postgres', 'SELECT true'), "$how: the cluster recovers");
	$crm->idle_ok("by the killed backend ($how)");
	$crm->no_faults;
	like(whoami($crm, 1), qr/^app/, "$how: and goes on");

	$crm->node->restart;
	$crm->idle_ok("after a restart ($how)");
	is($crm->sql('SELECT count(*) FROM dataverse.throttle_history'),
		0, "$how: a restart starts clean");
	like(whoami($crm, 1), qr/^app/, "$how: and works");
	return;
}

for my $preload (1, 0)
{
	my $how = $preload ? 'preloaded' : 'not preloaded';
	my $crm = Crm->start("pool$preload",
		preload => $preload, users => 3, flags => [ '--dop', 6, '--latency', 'read=30ms' ]);

	test_routing($crm, $how);
	test_waiting($crm, $how);
	test_ceiling($crm, $how);
	test_ends($crm, $how);

	# ---- nobody is told about memory as long as there is some
	unlike(slurp_file($crm->node->logfile), qr/shared memory/, "$how: no warning about memory");

	# ---- more users than fit: this session alone, and it says so
	if (!$preload && $crm->node->pg_version < 17)
	{
		$crm->server(
			'crowd', mapping => join(', ',
				map { ("client_id_$_ 'crowd$_'", "client_secret_$_ 'x'") } 2 .. 20)
			  . ", client_id 'app1', client_secret 'secret1'");
		my ($status, $out, $err) = $crm->node->psql('postgres',
			"SELECT (dataverse.test_connection('crowd')).ok LIMIT 1;
			 SELECT bool_and(this_session_only) FROM dataverse.pool WHERE server = 'crowd'");

		like($out, qr/t$/, 'more users than fit work in this session alone');
		is(() = $err =~ /WARNING:  dataverse_fdw has no shared memory for this session/g,
			1, 'with one warning');
		like($err, qr/HINT:  Add "dataverse_fdw" to "shared_preload_libraries"/, 'and a hint');
	}
	$crm->stop;
}

done_testing();
