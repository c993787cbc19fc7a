# tokens.pl
#		Tokens: all kinds of credentials, renewal in time and after a refusal,
#		helpful errors.  TLS as well.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use MIME::Base64 qw(decode_base64url);
use PostgreSQL::Test::Utils;
use File::Copy ();
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use Dvsim;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('tokens', preload => 1);
my $session = Session->new($node);
my $dvsim;
my $serial = 0;

sub server
{
	my ($mapping, %options) = @_;
	my $crm = 'crm' . ++$serial;

	create_server($node, $crm, { url => $dvsim->base, max_retries => 1, budget_pacing => 'off', %options },
		$mapping);
	return $crm;
}

sub whoami { return "SELECT application_user FROM dataverse.whoami('$_[0]')"; }

# Returns "kind status" of each request since then.
sub arrived
{
	my ($since) = @_;
	my ($next, @requests) = sent($dvsim, $since);
	return map { "$_->{kind} $_->{status}" } @requests;
}

sub mark { my ($next) = sent($dvsim, 0); return $next; }

# ---- expiry under load

$dvsim = Dvsim->start('--token-lifetime', '2s', '--latency', 'other=5ms', '--dop', 8);
{
	my $crm = server({ client_id => 'app1', client_secret => 'secret1' }, initial_parallelism_factor => 1);
	my @sessions = map { Session->new($node) } 1 .. 4;
	my $now = $session->value('SELECT clock_timestamp()');

	$_->start(
		qq{
		DO \$\$
		BEGIN
		  WHILE clock_timestamp() < timestamptz '$now' + interval '5 s' LOOP
		    PERFORM dataverse.whoami('$crm');
		  END LOOP;
		END \$\$}) for @sessions;
	my @failed = grep { defined $_->{sqlstate} } map { $_->finish } @sessions;
	is(scalar @failed, 0, 'tokens expire repeatedly under load, and every request succeeds')
	  or diag $failed[0]{message};
	my $stats = user_stats($dvsim, 'app1');
	cmp_ok($stats->{requests}{other}, '>', 200, "$stats->{requests}{other} requests");
	cmp_ok($stats->{requests}{token}, '>=', 8, 'every session renews its token');
	cmp_ok($stats->{requests}{token}, '<=', 24, "and not more often than necessary ($stats->{requests}{token} times)");
	my %seen;
	$seen{$_}++ for arrived(0);
	cmp_ok($seen{'other 401'} // 0, '<=', 0.01 * $stats->{requests}{other}, 'before the service refuses it');
	$_->close for @sessions;
	$dvsim->stop;
}

# ---- one token for all requests of a session

my $key = "$dir/app.key";
my $certificate = "$dir/app.pem";
my $locked = "$dir/locked.key";
my $both = "$dir/both.pem";
my $other = "$dir/other.pem";
my $quiet = '>/dev/null 2>&1';
system("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=app -keyout $key -out $certificate $quiet") == 0
  or die 'openssl';
system("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=app -keyout $dir/other.key -out $other $quiet") == 0
  or die 'openssl';
system("openssl pkcs8 -topk8 -v2 aes-256-cbc -in $key -out $locked -passout 'pass:open sesame' $quiet") == 0
  or die 'openssl';
append_to_file($both, slurp_file($certificate) . slurp_file($key));

$dvsim = Dvsim->start(
	'--app-user', 'app1:secret1', '--app-user', 'app2:secret2', '--app-user', 'app3:secret3',
	'--app-user', "cert:\@$certificate", '--app-registration', 'nobody:secret4');
{
	my $crm = server({ client_id => 'app1', client_secret => 'secret1' });

	$session->query("SELECT dataverse.request('$crm', 'GET', 'WhoAmI') FROM generate_series(1, 30)");
	is(user_stats($dvsim, 'app1')->{requests}{token}, 1, 'thirty requests, one token');

	# ---- one 401: the request is retried with a new token

	my $since = mark();
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token' });
	is($session->value(whoami($crm)), 'app1', '401: the request finally succeeds');
	is_deeply([ arrived($since) ], [ 'other 401', 'token 200', 'other 200' ], 'with a new token');
	is($session->value("SELECT retries FROM dataverse.pool WHERE server = '$crm'"), '{"token": 1}', 'which is counted');

	# ---- tokens that expire twice in a row: the second was never accepted

	$since = mark();
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token', times => 2 });
	is($session->value(whoami($crm)), 'app1', '401 again with a new token: the request succeeds');
	is_deeply([ arrived($since) ], [ 'other 401', 'token 200', 'other 401', 'token 200', 'other 200' ], 'with the third');

	# ---- a service that refuses all tokens

	$since = mark();
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token', times => 0 });
	my $r = $session->try(whoami($crm));
	is($r->{sqlstate}, '28000', '401 every time: an error');
	like($r->{message}, qr/could not identify the application user on server "$crm": /, 'that says so');
	is_deeply([ arrived($since) ], [ 'other 401', ('token 200', 'other 401') x 3 ], 'and no endless loop');
	clear_faults($dvsim);
	is($session->value(whoami($crm)), 'app1', 'the next request tries again');

	# ---- one refusal for each user: all tokens may have expired, as after a restart of the service

	my $two = server({ client_id => 'app2', client_secret => 'secret2', client_id_2 => 'app3', client_secret_2 => 'secret3' });
	$session->value(whoami($two)) for 1, 2;
	faults($dvsim, map { { app_user => $_, path => 'WhoAmI', action => 'expire_token' } } 'app2', 'app3');
	$since = mark();
	like($session->try(whoami($two))->{rows}[0][0] // 'failed', qr/^app[23]$/, 'two users, both tokens refused: the request succeeds');
	is_deeply([ grep { !/^token/ } arrived($since) ], [ 'other 401', 'other 401', 'other 200' ], 'after one refusal of each');

	# ---- one refusal in a row: a request that takes long may get another one

	$since = mark();
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token' }, { path => 'WhoAmI', status => 503, after => 1 },
		{ path => 'WhoAmI', action => 'expire_token', after => 2 });
	is($session->value(whoami($crm)), 'app1', '401, then 503, then 401: the request succeeds');
	is_deeply([ grep { !/^token/ } arrived($since) ], [ 'other 401', 'other 503', 'other 401', 'other 200' ], 'finally');
	clear_faults($dvsim);

	# ---- errors of the token endpoint

	my $fresh = Session->new($node);
	$since = mark();
	faults($dvsim, { path => '/token', status => 503 });
	is($fresh->value(whoami($crm)), 'app1', '503 of the token endpoint is retried');
	is_deeply([ arrived($since) ], [ 'other 503', 'token 200', 'other 200' ], 'once');
	$fresh->close;

	# a web server that issues no tokens
	$fresh = Session->new($node);
	$since = mark();
	faults($dvsim, { path => '/token', status => 501 });
	like($fresh->try(whoami($crm))->{hint}, qr/Check options "authority"/, '501 is the wrong address');
	is_deeply([ arrived($since) ], ['other 501'], 'and is not retried');
	$fresh->close;
}

# ---- refusals of the authority, and hints about them

{
	my $crm = server({ client_id => 'app1', client_secret => 'wrong' });
	my $r = $session->try(whoami($crm));
	is($r->{sqlstate}, '28000', 'wrong secret: an error');
	like($r->{message}, qr/could not get a token for application user "app1": AADSTS7000215: Invalid client secret/,
		'with the message of the authority');
	like($r->{hint}, qr/Check option "client_secret" of the user mapping/, 'with a hint');
	is_deeply(
		[ split /\|/, $session->query("SELECT application_user, ok, error ~ 'AADSTS7000215', hint ~ 'client_secret' FROM dataverse.test_connection('$crm')") ],
		[ 'app1', 'f', 't', 't' ],
		'test_connection returns it in a row');

	$session->query("ALTER USER MAPPING FOR PUBLIC SERVER $crm OPTIONS (SET client_secret 'secret1')");
	is($session->value(whoami($crm)), 'app1', 'once corrected, it works at once');

	$r = $session->try(whoami(server({ client_id => 'unknown', client_secret => 'x' })));
	like($r->{message}, qr/AADSTS700016: /, 'unknown client id');
	like($r->{hint}, qr/"client_id"/, 'with a hint');
	$r = $session->try(whoami(server({ client_id => 'app1', client_secret => 'x' }, tenant_id => 'unknown')));
	like($r->{message}, qr/AADSTS90002: /, 'unknown tenant');
	like($r->{hint}, qr/"tenant_id"/, 'with a hint');
	$r = $session->try(whoami(server({ client_id => 'nobody', client_secret => 'secret4' })));
	is($r->{sqlstate}, '28000', 'an app that is no user of the environment');
	like($r->{hint}, qr/Create an application user/, 'with a hint');

	# the error is kept while the other batches of the statement end
	for my $credential ([ client_secret => 'wrong' ], [ access_token => 'wrong' ])
	{
		my ($option, $value) = @$credential;

		$crm = server({ $option eq 'client_secret' ? (client_id => 'app1') : (), $option => $value }, batch_size => 10);
		$session->query("CREATE FOREIGN TABLE written (accountid uuid, name text) SERVER $crm OPTIONS (table 'account', entity_set 'accounts')");
		for my $statement (
			"INSERT INTO written (name) SELECT repeat('x', i % 90 + 1) FROM generate_series(1, 300) i",
			"UPDATE written SET name = 'y' WHERE accountid = ANY (ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 300)))",
			"DELETE FROM written WHERE accountid = ANY (ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 300)))")
		{
			$r = $session->try($statement);
			my ($what) = $statement =~ /^(\w+)/;
			is($r->{sqlstate}, '28000', "wrong $option, $what of many batches: an error");
			like($r->{hint}, $option eq 'client_secret'
				  ? qr/^Check option "client_secret" of the user mapping\.  It must be the secret's value, not its id\.$/
				  : qr/^The service has refused option "access_token" of the user mapping\.  Set a valid one, or use a client secret, which renews its tokens\.$/,
				'with its own hint');
			like($r->{message}, qr/^could not \w+ .*foreign table "written".*: \w/, 'and a whole message');
		}
		$session->query('DROP FOREIGN TABLE written');
	}

	# another user may work
	my $offset = log_size($node);
	$crm = server({ client_id => 'app2', client_secret => 'wrong', client_id_2 => 'app3', client_secret_2 => 'secret3' });
	is($session->value(whoami($crm)), 'app3', 'one of two users gets no token: the other is used') for 1 .. 3;
	like(log_since($node, $offset), qr/application user "app2" of server "$crm" is set aside.*?DETAIL:  AADSTS7000215/s,
		'and the log says so');
	is($session->query("SELECT application_user, ok FROM dataverse.test_connection('$crm')"),
		"app2|f\napp3|t", 'test_connection tests each');
}

# ---- a session that has missed invalidations because there were too many

{
	my $crm = server({ client_id => 'app1', client_secret => 'secret1' });
	my $asleep = Session->new($node);
	my $tables = q{DO $$ BEGIN FOR i IN 1 .. 400 LOOP
		EXECUTE format('CREATE TABLE many_%s (a int PRIMARY KEY, b text)', i);
		EXECUTE format('DROP TABLE many_%s', i); END LOOP; END $$};

	is($asleep->value(whoami($crm)), 'app1', 'a session has a token');
	kill 'STOP', $asleep->pid;
	$session->query($tables);
	kill 'CONT', $asleep->pid;
	my $since = mark();
	is($asleep->value(whoami($crm)), 'app1', 'it did not run while many objects were altered');
	is_deeply([ arrived($since) ], ['other 200'], 'and keeps its token');

	kill 'STOP', $asleep->pid;
	$session->query("ALTER USER MAPPING FOR PUBLIC SERVER $crm OPTIONS (SET client_id 'app3', SET client_secret 'secret3')");
	$session->query($tables);
	kill 'CONT', $asleep->pid;
	is($asleep->value(whoami($crm)), 'app3', 'unless its mapping was altered');
	$asleep->close;
}

# ---- certificates

# Returns the claims of the assertions sent since then.
sub claims
{
	my ($since) = @_;
	my ($next, @requests) = sent($dvsim, $since);

	return map { decode_json(decode_base64url($_->{body} =~ /client_assertion=[^.&]+\.([^.&]+)\./ ? $1 : '')) }
	  grep { $_->{kind} eq 'token' } @requests;
}

{
	my %cert = (client_id => 'cert');
	my $since = mark();

	is($session->value(whoami(server({ %cert, client_certificate => $certificate, client_key => $key }))),
		'cert', 'a certificate');
	is($session->value(whoami(server({ %cert, client_certificate => $both }))), 'cert', 'with its key in one file');
	is( $session->value(whoami(server({ %cert, client_certificate => $certificate, client_key => $locked, client_key_password => 'open sesame' }))),
		'cert', 'and with an encrypted key');

	# Entra asks for a lifetime of ten minutes at most
	my @claims = claims($since);
	is(scalar @claims, 3, 'three assertions');
	is_deeply([ map { $_->{exp} - $_->{nbf} } @claims ], [ (600) x 3 ], 'live for ten minutes');
	is_deeply([ map { $_->{iat} - $_->{nbf} } @claims ], [ (60) x 3 ], 'the first of them allows for clocks that are behind');
	for my $case (
		[ { client_key => $locked, client_key_password => 'wrong' }, 'wrong pass phrase' ],
		[ { client_key => $locked }, 'no pass phrase' ],
		[ { client_key => "$dir/missing" }, 'no such key' ])
	{
		my ($options, $what) = @$case;
		my $r = $session->try(whoami(server({ %cert, client_certificate => $certificate, %$options })));

		is($r->{sqlstate}, '28000', "certificate: $what");
		like($r->{hint} // '', qr/client_key/, 'with a hint');
	}
	my $r = $session->try(whoami(server({ %cert, client_certificate => $other, client_key => "$dir/other.key" })));
	like($r->{message}, qr/AADSTS700027: /, 'a certificate that is not registered');
	like($r->{hint}, qr/Upload the certificate/, 'with a hint');
	is(in_flight($session), 0, 'nothing is left in flight');
}

# ---- managed identity, fixed token

{
	my $crm = server({ managed_identity => 'on', client_id => 'app2', name => 'identity' },
		token_url => $dvsim->base . '/metadata/identity/oauth2/token');
	is($session->value(whoami($crm)), 'identity', 'managed identity');

	$crm = server({ access_token => $dvsim->token('app3', 'secret3'), name => 'fixed' });
	is($session->value(whoami($crm)), 'fixed', 'a fixed token');
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token' });
	my $r = $session->try(whoami($crm));
	is($r->{sqlstate}, '28000', 'an expired one: an error');
	like($r->{hint}, qr/access_token/, 'with a hint');
}
$dvsim->stop;

# ---- TLS

$dvsim = Dvsim->start('--tls');
{
	my %mapping = (client_id => 'app1', client_secret => 'secret1', name => 'tls');
	my $crm = server(\%mapping, ca_file => $dvsim->ca_file);

	is($session->value(whoami($crm)), 'tls', 'TLS with ca_file');
	$crm = server(\%mapping);
	my $r = $session->try(whoami($crm));
	is($r->{sqlstate}, '28000', 'TLS without it: refused before anything is sent');
	like($r->{message}, qr/could not establish TLS/, 'as the message says');
	like($r->{hint}, qr/ca_file/, 'with a hint');

	# the same with a token already obtained
	$crm = server({ access_token => $dvsim->token('app1', 'secret1') });
	$r = $session->try(whoami($crm));
	is($r->{sqlstate}, '08001', 'and no token is sent without it');
	like($r->{hint}, qr/ca_file/, 'with a hint');
}

# an open session uses a renewed file of authorities
{
	my ($address) = $dvsim->base =~ m{//(.*)};
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ca.pem';
	my $renew = sub { File::Copy::copy($dvsim->ca_file, "$file.new") && chmod(0644, "$file.new") && rename("$file.new", $file) or die $! };

	$renew->();
	my $crm = server({ client_id => 'app1', client_secret => 'secret1', name => 'tls' }, ca_file => $file, max_retries => 0);
	is($session->value(whoami($crm)), 'tls', 'a file of authorities');
	$dvsim->stop;
	$dvsim = Dvsim->start('--tls', '--listen', $address);
	is($session->try(whoami($crm))->{sqlstate}, '08001', 'the service has a certificate of another authority');
	$renew->();
	is($session->try(whoami($crm))->{sqlstate}, undef, 'the file is renewed: the open session trusts the new authority');

	# but not the old one
	$dvsim->stop;
	$dvsim = Dvsim->start('--tls', '--listen', $address);
	is($session->try(whoami($crm))->{sqlstate}, '08001', '... and no other one');
}
$dvsim->stop;

$session->close;
$node->stop;
done_testing();
