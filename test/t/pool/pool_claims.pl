# pool_claims.pl
#		A user mapping only claims its application users: until the service has
#		accepted a request, nothing that happens to the mapping affects others
#		that use the same application user.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use MIME::Base64 qw(encode_base64url);
use Test::More;
use Time::HiRes qw(sleep time);

use Dvsim;
use PoolTest;
use RawServer;

my $dvsim = Dvsim->start(map { ('--app-user', "app$_:secret$_") } 1 .. 8);
my $node = new_node('claims', preload => 1, conf => "dataverse_fdw.max_application_users = 16\n");
my $watcher = Session->new($node);
my %plain = (url => $dvsim->base, budget_pacing => 'off', retry_after_buffer => '10ms', max_throttle_retries => -1, max_retries => 0);

sub whoami { return "SELECT application_user FROM dataverse.whoami('$_[0]')"; }

# A role with its own session and mapping for a server.
sub role
{
	my ($name, $server, %mapping) = @_;

	$watcher->query("CREATE ROLE $name LOGIN; GRANT USAGE ON SCHEMA dataverse TO $name; GRANT USAGE ON FOREIGN SERVER $server TO $name;"
		  . " CREATE USER MAPPING FOR $name SERVER $server OPTIONS (" . options_of(%mapping) . ')');
	return Session->new($node, user => $name);
}

# Returns what the pool shows about the owner's user.
sub known
{
	return $watcher->query("SELECT requests, failures, in_flight, throttled, coalesce(limited_by, '') LIKE 'set aside%', retries"
		  . " FROM dataverse.pool WHERE name = 'good'");
}

sub untouched
{
	my ($what, $code) = @_;
	my $before = known();

	$code->();
	is(known(), $before, $what);
	return;
}

create_server($node, 'crm', { %plain, max_parallel => 1 }, { client_id => 'app1', client_secret => 'secret1', name => 'good' });
$watcher->query(whoami('crm'));

# ---- made-up credentials, of roles that may use the same server

my $claims = encode_base64url('{"appid":"app1"}');
my %made_up = (
	token => { access_token => "e30.$claims.c2ln", name => 'good too' },
	secret => { client_id => 'app1', client_secret => 'wrong', name => 'good too' },
	certificate => { client_id => 'app1', client_certificate => '/dev/null', name => 'good too' });

for my $kind (sort keys %made_up)
{
	my $session = role("made_up_$kind", 'crm', %{ $made_up{$kind} });

	untouched("a made-up $kind changes nothing of the user that it names",
		sub { is($session->try(whoami('crm'))->{sqlstate}, '28000', "a made-up $kind is refused") for 1 .. 3; });
	like($watcher->query("SELECT limited_by FROM dataverse.pool WHERE name = 'good too'"), qr/^set aside/, '... only its own entry is set aside');
	$session->close;
	$watcher->query("DROP OWNED BY made_up_$kind; DROP ROLE made_up_$kind");
}

# ---- answers of peers that only the owner of another server trusts

my $forger = RawServer->start(sub {
	my ($method, $target, $head, $body) = @_;

	return RawServer::answer(200, 'application/json', '{"access_token":"forged","expires_in":3600}') if $target =~ /token/;
	return RawServer::answer(429, 'application/json', '{"error":{"code":"0x80072322","message":"later"}}', 'Retry-After: 300');
});
create_server($node, 'by_proxy', { %plain, proxy => $forger->base }, { client_id => 'app1', client_secret => 'secret1', name => 'by proxy' });
untouched('what a proxy of another server answers', sub {
	my $session = Session->new($node);

	$session->start(whoami('by_proxy'));
	wait_for(sub { pool($watcher, 'by proxy', 'throttled') eq 't' }, 'it is throttled on that server');
	$watcher->value('SELECT pg_cancel_backend(' . $session->pid . ')');
	is($session->finish->{sqlstate}, '57014', 'it waits only for its own throttle');
	$session->close;
});

# a token endpoint that issues the token of one user to another
my $token = $dvsim->token('app2', 'secret2');
my $liar = RawServer->start(sub { return RawServer::answer(200, 'application/json', qq({"access_token":"$token","expires_in":3600})); });
create_server($node, 'by_liar', { %plain, token_url => $liar->base . '/token' }, { client_id => 'app1', client_secret => 'x', name => 'by liar' });
untouched('what happens to the user whose token another endpoint gives for it', sub {
	$watcher->query(whoami('by_liar')) for 1, 2;
	is(pool($watcher, 'by liar', 'requests'), 2, 'it is a separate user');
});

# ---- proved users are shared

my $second = role('second', 'crm', client_id => 'app1', client_secret => 'secret1', name => 'good too');
faults($dvsim, { app_user => 'app1', path => 'WhoAmI', status => 429, code => '0x80072326', retry_after => 60 });
my $throttled = Session->new($node);
$throttled->start(whoami('crm'));
wait_for(sub { pool($watcher, 'good', 'throttled') eq 't' }, 'the user is throttled');
my $since = (sent($dvsim, 0))[0];
$second->start(whoami('crm'));
wait_event($watcher, $second->pid, 'DataverseThrottle');
my ($next, @sent) = sent($dvsim, $since);
is(scalar(grep { $_->{target} =~ /WhoAmI/ } @sent), 0, 'another role with the same secret sees it at once, and sends nothing');
$watcher->value("SELECT dataverse.reset_pool('crm')");
$_->finish for $throttled, $second;
$throttled->close;
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE server = 'crm'"), 1, 'one user exists');

# another secret of the same user
$watcher->query("ALTER USER MAPPING FOR second SERVER crm OPTIONS (DROP client_id, DROP client_secret, ADD access_token '" . $dvsim->token('app1', 'secret1') . "')");
my $before = pool($watcher, 'good', 'requests');
$second->query(whoami('crm')) for 1, 2;
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE server = 'crm'"), 2, 'a token without a name is a separate user');
$watcher->query("ALTER USER MAPPING FOR second SERVER crm OPTIONS (DROP access_token, ADD client_id 'app1', ADD client_secret 'wrong')");
is($second->try(whoami('crm'))->{sqlstate}, '28000', 'the secret is wrong');
$watcher->query("ALTER USER MAPPING FOR second SERVER crm OPTIONS (SET client_secret 'secret1')");
$second->query(whoami('crm'));
is(pool($watcher, 'good', 'requests'), $before + 1, 'with the right secret it is the same user again');
$second->close;

# a token that the service has accepted states its application reliably
my $lenient = RawServer->start(sub {
	my ($method, $target) = @_;

	return RawServer::answer(200, 'application/json', '{"access_token":"opaque","expires_in":3600}') if $target =~ /token/;
	return RawServer::answer(200, 'application/json', '{"UserId":"00000000-0000-0000-0000-000000000001","BusinessUnitId":"00000000-0000-0000-0000-000000000002",'
		  . '"OrganizationId":"00000000-0000-0000-0000-000000000003"}');
});
my %lenient = (%plain, url => $lenient->base);
create_server($node, 'by_secret', \%lenient, { client_id => 'app1', client_secret => 'x', name => 'by secret' });
create_server($node, 'by_token', \%lenient, { access_token => $made_up{token}{access_token}, name => 'by token' });
$watcher->query(whoami($_)) for 'by_secret', 'by_token', 'by_token';
is($watcher->query("SELECT name, requests FROM dataverse.pool WHERE name IN ('by secret', 'by token') ORDER BY 1"),
	"by secret|3\nby token|3", 'an accepted token belongs to the application that it names');

# those that wait for a slot of a claim do not go on waiting for it once it has been proved
{
	my $slow = RawServer->start(sub {
		my ($method, $target) = @_;

		sleep 0.1;
		return RawServer::answer(200, 'application/json', $target =~ /token/ ? '{"access_token":"opaque","expires_in":3600}' :
			  '{"UserId":"00000000-0000-0000-0000-000000000001","BusinessUnitId":"00000000-0000-0000-0000-000000000002",'
			  . '"OrganizationId":"00000000-0000-0000-0000-000000000003"}');
	});
	my %slow = (%plain, url => $slow->base, max_parallel => 1);
	my $fastest;

	create_server($node, 'proved', \%slow, { client_id => 'app1', client_secret => 'x' });
	$watcher->query(whoami('proved'));
	for my $round (1 .. 3)
	{
		create_server($node, 'claimed', \%slow, { access_token => "e30.$claims.round$round" });
		my @sessions = map { Session->new($node) } 1 .. 4;
		my $start = time;

		$_->start(whoami('claimed')) for @sessions;
		is($_->finish->{sqlstate}, undef, 'a session that waits for a claim goes on') for @sessions;
		my $seconds = time - $start;
		$fastest = $seconds if !defined $fastest || $seconds < $fastest;
		$_->close for @sessions;
		$watcher->query('DROP SERVER claimed CASCADE');
	}
	cmp_ok($fastest, '<', 0.8, sprintf '... as soon as it has been proved (%.2f s for four requests of 0.1 s)', $fastest);
}
$watcher->query("DROP SERVER $_ CASCADE") for 'by_secret', 'by_token', 'by_liar', 'by_proxy', 'proved';

# ---- the table

# many users without a valid secret
sub crowd
{
	my ($name, $n) = @_;
	my %mapping = map { ("client_id_$_" => "$name$_", "client_secret_$_" => 'x') } 2 .. $n;

	@mapping{ 'client_id', 'client_secret' } = ("${name}1", 'x');
	return role($name, 'crm', %mapping);
}

my @crowds = map { crowd("crowd$_", 14) } 1, 2;
is($_->try(whoami('crm'))->{sqlstate}, '28000', 'a crowd of made-up users') for @crowds;
my $honest = role('honest', 'crm', map { my $s = $_ > 2 ? '_' . ($_ - 1) : ''; ("client_id$s" => "app$_", "client_secret$s" => "secret$_") } 2 .. 4);
my $r = $honest->try(whoami('crm'));
is($r->{sqlstate}, undef, 'other roles have their users');
is(scalar(@{ $r->{notices} }), 0, '... in shared memory') or diag $r->{notices}[0]{message};
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE name IN ('app2', 'app3', 'app4') AND NOT this_session_only"), 3, '... as the pool shows');
is(pool($watcher, 'good', 'requests'), $before + 1, 'and the state of proved users is kept');
for my $crowd (@crowds)
{
	$r = $crowd->try(whoami('crm'));
	is($r->{sqlstate}, '28000', 'the made-up users still work');
}
is($honest->try(whoami('crm'))->{sqlstate}, undef, 'and so do the others');
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE name IN ('app2', 'app3', 'app4') AND NOT this_session_only"), 3, '... in shared memory');

# a role with many proved users is spared, although others have fewer
$_->close for $honest, @crowds;
my @proved = map { "app$_" } 2 .. 8;
my $many = role('many', 'crm', map { my $s = $_ > 2 ? '_' . ($_ - 1) : ''; ("client_id$s" => "app$_", "client_secret$s" => "secret$_") } 2 .. 8);
take_turns($many, 'crm', @proved);
my @few = map { crowd("few$_", $_) } 3, 4;
push @few, crowd('last', 2);
is($_->try(whoami('crm'))->{sqlstate}, '28000', 'a few made-up users') for @few;
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE name LIKE 'app_' AND requests > 0 AND NOT this_session_only"), 7, 'the state of the proved users is kept');
like($watcher->value("SELECT string_agg(DISTINCT left(name, 4), ',') FROM dataverse.pool WHERE name ~ '^(few|last)'"), qr/last/, '... and the others are displaced by roles that have still fewer');
is(in_flight($watcher), 0, 'nothing is left in flight');

$_->close for $watcher, $many, @few;
$node->stop;
done_testing();
