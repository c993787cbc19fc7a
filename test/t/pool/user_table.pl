# user_table.pl
#		The table of application users: it does not fill up permanently, servers
#		share it while each sees only its own users, and no role has more entries
#		than its user mappings name.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Dvsim;

my $long = 'a' x 100;
my @users = ('one', 'two', 'three', (map { "app$_" } 1 .. 12), "${long}1", "${long}2");
my $dvsim = Dvsim->start(map { ('--app-user', "$_:secret") } @users);
my $node = new_node('user_table', preload => 1, conf => "dataverse_fdw.max_application_users = 4\n");
my $watcher = Session->new($node);

sub whoami { return "SELECT count(*) FROM dataverse.whoami('$_[0]')"; }

sub server
{
	my ($name, $user, %options) = @_;

	create_server($node, $name, { url => $dvsim->base, budget_pacing => 'off', retry_after_buffer => '10ms', %options },
		{ client_id => $user, client_secret => 'secret', name => "$name user" });
	return;
}

# ---- two servers that share a user

server('first', 'one');
server('second', 'one', max_parallel => 3);
$watcher->query(whoami($_)) for 'first', 'second', 'first';
is($watcher->query("SELECT server, name, requests FROM dataverse.pool ORDER BY 1"),
	"first|first user|3\nsecond|second user|3", 'each server has its own view of a shared user');
faults($dvsim, { app_user => 'one', path => 'WhoAmI', status => 429, code => '0x80072326', retry_after => 60 });
my $waiting = Session->new($node);
$waiting->start(whoami('first'));
wait_for(sub { pool($watcher, 'first user', 'throttled') eq 't' }, 'it is throttled');
is(pool($watcher, 'second user', 'throttled'), 't', 'both servers see the throttle');
is($watcher->query("SELECT server, name FROM dataverse.throttle_history ORDER BY 1"),
	"first|first user\nsecond|second user", 'and both see it in the history');
is($watcher->value("SELECT dataverse.reset_pool('second')"), 1, 'the owner of either server can reset it');
ok($waiting->done(10), 'and waiting sessions are woken');
$waiting->finish;
$waiting->close;

# ---- knowing a client id does not allow a reset of a user that others depend on

my $known = sub { return $watcher->query("SELECT requests, effective_limit, throttles::text FROM dataverse.pool WHERE server = 'first'"); };
my $before = $known->();
server('third', 'one', token_url => $dvsim->base . '/unknown/oauth2/v2.0/token');
is($watcher->try(whoami('third'))->{sqlstate} // 'none', '28000', 'a server that gets no token');
is($watcher->value("SELECT dataverse.reset_pool('third', 'third user') + dataverse.reset_stats('third')"), 2, 'resets its own user');
is($known->(), $before, '... and not the user of others that has the same client id');
$watcher->query('DROP SERVER third CASCADE');

# ---- a server that moves: its former state is shown as long as a session uses it

my $elsewhere = Dvsim->start('--app-user', 'one:secret');
my $behind = Session->new($node);
server('moved', 'one');
$behind->query(whoami('moved'));
$watcher->query("ALTER SERVER moved OPTIONS (SET url '" . $elsewhere->base . "', SET authority '" . $elsewhere->base . "')");
$watcher->query(whoami('moved'));
sub urls { return $watcher->query("SELECT name, url FROM dataverse.pool WHERE server = 'moved' ORDER BY url = '" . $elsewhere->base . "'"); }
is(urls(), "moved user|" . $dvsim->base . "\nmoved user|" . $elsewhere->base, 'the URL distinguishes the former service from the present one');
$behind->query(whoami('moved'));
is(urls(), "moved user|" . $elsewhere->base, 'the former one disappears when no session uses it any more');
$watcher->query("ALTER SERVER moved OPTIONS (SET url '" . $dvsim->base . "')");
$behind->query('SELECT 1');
is(urls(), '', '... even if no session has used the present one');
$watcher->query("ALTER SERVER moved OPTIONS (SET authority '" . $dvsim->base . "')");

# ---- the same with users that the mapping no longer names

$watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER moved OPTIONS (client_id_2 'three', client_secret_2 'secret', name_2 'second')");
$_->query(whoami('moved')) for $behind, $watcher;
sub named { return $watcher->query("SELECT name FROM dataverse.pool WHERE server = 'moved' ORDER BY 1"); }
is(named(), "moved user\nsecond", 'a second user');
$watcher->query('ALTER USER MAPPING FOR PUBLIC SERVER moved OPTIONS (DROP client_id_2, DROP client_secret_2, DROP name_2)');
is(named(), "moved user\nsecond", 'a user dropped from the mapping is shown as long as a session uses it');
$behind->query('SELECT 1');
is(named(), 'moved user', 'and then disappears');
is($watcher->query("SELECT users FROM dataverse.pool_summary WHERE server = 'moved'"), 1, '... and is not counted');
$watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER moved OPTIONS (client_id_2 'three', client_secret_2 'secret')");
is($watcher->query("SELECT requests > 0 FROM dataverse.pool WHERE server = 'moved' AND name <> 'moved user'"), 't',
	'its state is kept for when it is named again');
$behind->close;
$watcher->query('DROP SERVER moved CASCADE');

# ---- servers of two databases that have the same name

$watcher->query('CREATE DATABASE twin');
$node->safe_psql('twin', 'CREATE EXTENSION dataverse_fdw');
my $twin = Session->new($node, dbname => 'twin');
$twin->query("CREATE SERVER first FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url '" . $dvsim->base . "', authority '" . $dvsim->base
	  . "', tenant_id 'contoso'); CREATE USER MAPPING FOR CURRENT_USER SERVER first OPTIONS (client_id 'one', client_secret 'secret', name 'first user')");
$twin->query(whoami('first'));
is($watcher->query("SELECT database, server FROM dataverse.$_ WHERE server = 'first' ORDER BY 1"), "postgres|first\ntwin|first",
	"$_ distinguishes them") for 'pool', 'pool_summary', 'throttle_history';
$watcher->query('CREATE ROLE onlooker; GRANT USAGE ON FOREIGN SERVER first TO onlooker; SET ROLE onlooker');
is($watcher->query('SELECT database, server FROM dataverse.pool'), 'postgres|first', 'users of other databases are visible only to roles that see everything');
$watcher->query('RESET ROLE');
$twin->query('DROP SERVER first CASCADE');

# ---- dropped servers leave the views

$watcher->query('DROP SERVER second CASCADE');
is($watcher->query("SELECT server FROM dataverse.pool WHERE database = current_database() ORDER BY 1"), 'first', 'a dropped server leaves the pool');
is($watcher->query("SELECT server FROM dataverse.throttle_history WHERE database = current_database() ORDER BY 1"), 'first', 'and the history');
$watcher->query('DROP SERVER first CASCADE');
is($watcher->value('SELECT count(*) FROM dataverse.pool WHERE database = current_database()'), 0, 'both');

# ---- the changing mappings of one role take one entry of an empty table

$_->close for $watcher, $twin;
$node->restart;
$watcher = Session->new($node);
$twin = Session->new($node, dbname => 'twin');
$watcher->query("CREATE ROLE changing LOGIN; CREATE SERVER changing FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url '"
	  . $dvsim->base . "', authority '" . $dvsim->base . "', tenant_id 'contoso', budget_pacing 'off'); GRANT USAGE ON FOREIGN SERVER changing TO changing;"
	  . " GRANT USAGE ON SCHEMA dataverse TO changing");
my $private = 0;
for my $i (1 .. 12)
{
	my $session = Session->new($node, user => 'changing');

	$session->query("CREATE USER MAPPING FOR CURRENT_USER SERVER changing OPTIONS (client_id 'app$i', client_secret 'secret')");
	my $r = $session->try(whoami('changing'));
	is($r->{sqlstate}, undef, "mapping $i works") or diag $r->{message};
	$private += grep { $_->{message} =~ /no shared memory for this session/ } @{ $r->{notices} };
	$session->query('DROP USER MAPPING FOR CURRENT_USER SERVER changing');
	$session->close;
}
is($private, 0, 'a table of four entries suffices for twelve successive mappings');
is($twin->value("SELECT count(*) FROM dataverse.pool WHERE server = 'changing'"), 1, 'which leave one entry');
is($watcher->value("SELECT count(*) FROM dataverse.pool WHERE server = 'changing'"), 0, '... which is not shown where no mapping names it');
$twin->close;
$watcher->query('DROP DATABASE twin');

# ---- entries in use are not displaced

my @sessions;
for my $name ('one', 'two', 'three')
{
	server($name, $name);
	push @sessions, Session->new($node);
	$sessions[-1]->query(whoami($name));
}
$watcher->query("CREATE USER MAPPING FOR changing SERVER changing OPTIONS (client_id 'app12', client_secret 'secret')");
push @sessions, Session->new($node, user => 'changing');
$sessions[-1]->query(whoami('changing'));
server('four', "${long}1");
my $late = Session->new($node);
my $r = $late->try(whoami('four'));
is($r->{sqlstate}, undef, 'all four entries are in use: the fifth works');
is(scalar(grep { $_->{message} =~ /no shared memory for this session/ } @{ $r->{notices} }), 1, 'on its own, and says so');
is($late->value("SELECT this_session_only FROM dataverse.pool WHERE server = 'four'"), 't', 'in the view as well');
is($watcher->value('SELECT count(*) FROM dataverse.pool WHERE NOT this_session_only'), 4, 'the four still have their entries');
$late->close;
$_->close for @sessions;

# ---- long client ids are distinguished and found again

$node->append_conf('postgresql.conf', "dataverse_fdw.max_application_users = 20\n");
$node->restart;
$watcher = Session->new($node);
server('five', "${long}2");
for (1 .. 3)
{
	my $session = Session->new($node);
	$session->query(whoami($_)) for 'four', 'five';
	$session->close;
}
is($watcher->query("SELECT server, requests FROM dataverse.pool ORDER BY 1"), "five|3\nfour|3",
	'long client ids are shared by sessions, even if they begin alike');

$watcher->close;

# ---- without preloading: a small table before PostgreSQL 17, a full one since 17

preload($node, 0);
$watcher = Session->new($node);
my $room = $watcher->value("SELECT current_setting('server_version_num')::int >= 170000") eq 't' ? 128 : 8;
server('shared', 'one');
my ($here, $there) = map { Session->new($node) } 1 .. 2;
$_->query(whoami('shared')) for $here, $there;
is(pool($watcher, 'shared user', 'requests'), 2, 'not preloaded: sessions share a user');
faults($dvsim, { app_user => 'one', path => 'WhoAmI', status => 429, code => '0x80072322', retry_after => 60 });
$here->start(whoami('shared'));
wait_for(sub { pool($watcher, 'shared user', 'throttled') eq 't' }, 'it is throttled');
$there->start(whoami('shared'));
wait_event($watcher, $there->pid, 'DataverseThrottle');
$watcher->value("SELECT dataverse.reset_pool('shared')");
ok($_->done(10), '... and both sessions see it') for $here, $there;
$_->finish for $here, $there;

my @full;
for (my $left = $room - 1; $left > 0; $left -= 64)
{
	my $name = 'full' . @full;
	my $n = $left < 64 ? $left : 64;
	my %mapping = map { ("client_id_$_" => "$name.$_", "client_secret_$_" => 'secret') } 2 .. $n;

	# a token is requested only for the first one
	@mapping{ 'client_id', 'client_secret' } = ('app' . (@full + 1), 'secret');
	create_server($node, $name, { url => $dvsim->base, budget_pacing => 'off' }, \%mapping);
	$there->query(whoami($name));
	push @full, $name;
}
is($watcher->value('SELECT count(*) FROM dataverse.pool WHERE NOT this_session_only'), $room, "$room users fit");
server('six', 'app12');
$late = Session->new($node);
$r = $late->try(whoami('six'));
is($r->{sqlstate}, undef, 'one more works');
is($late->value("SELECT this_session_only FROM dataverse.pool WHERE server = 'six'"), 't', '... on its own');
$_->close for $late, $here, $there;
$watcher->query(join ';', map { "DROP SERVER $_ CASCADE" } @full);
$late = Session->new($node);
$late->query(whoami('six'));
is($late->value("SELECT this_session_only FROM dataverse.pool WHERE server = 'six'"), 'f',
	'former users of the same role are displaced');
$late->close;

$watcher->close;
$node->stop;
done_testing();
