# users_that_fail.pl
#		Application users that fail: refused tokens, wrong secrets, disabled users,
#		lost privileges.  Such users are set aside, and the others do their work.
#		Also proxies that refuse tunnels.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use MIME::Base64 qw(encode_base64url);
use Test::More;
use Time::HiRes qw(sleep time);

use PoolTest;
use WriteTest;

my $w = WriteTest->start('users_that_fail', users => 3, dop => 8);
my $dvsim = $w->dvsim;
my $node = $w->node;
my $go_on = "SET dataverse_fdw.on_error = 'continue'";

# Creates a server for these users of dvsim, each with its secret or another one.
sub server
{
	my ($name, $users, %options) = @_;
	my %mapping;
	my $i = 0;

	for my $user (@$users)
	{
		my ($id, $secret) = ref $user ? @$user : ($user, $user =~ s/app/secret/r);
		my $suffix = $i++ ? "_$i" : '';

		$mapping{"client_id$suffix"} = $id;
		$mapping{"client_secret$suffix"} = $secret;
	}
	create_server($node, $name, { %{ $w->{options} }, %options }, \%mapping);
	$w->watcher->query("CREATE SCHEMA $name; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, task) FROM SERVER $name INTO $name");
	return;
}

sub whoami { return "SELECT application_user FROM dataverse.whoami('$_[0]')"; }

sub insert
{
	my ($schema, @arguments) = @_;
	return $w->insert(@arguments) =~ s/dv\./$schema./r;
}

sub mark { return (sent($dvsim, 0))[0]; }

# Returns the number of requests of a user since then, with "kind" only those of this kind.
sub arrived
{
	my ($since, $user, $kind) = @_;
	my ($next, @requests) = sent($dvsim, $since);

	return scalar grep { ($_->{user} // '') eq $user && (!$kind || $_->{kind} eq $kind) } @requests;
}

# Returns the number of token requests with this client id since then.
sub token_requests
{
	my ($since, $user) = @_;
	my ($next, @requests) = sent($dvsim, $since);

	return scalar grep { $_->{kind} eq 'token' && $_->{body} =~ /client_id=$user\b/ } @requests;
}

# Returns when a request arrived, in seconds of its day.
sub arrival
{
	my ($request) = @_;
	my ($h, $m, $s) = $request->{time} =~ /T(\d+):(\d+):([\d.]+)Z/;

	return ($h * 60 + $m) * 60 + $s;
}

sub lines
{
	my ($offset, $pattern) = @_;
	my $log = log_since($node, $offset);

	return scalar(() = $log =~ /$pattern/g);
}

sub succeeds
{
	my ($result, $tag, $what) = @_;

	is($result->{sqlstate}, undef, "$what: succeeds") or diag("$result->{message}\n" . ($result->{detail} // ''));
	is($result->{tag}, $tag, "$what: its tag");
	return;
}

# ---- tokens that expire repeatedly

server('one', ['app1']);
server('two', [ 'app2', 'app3' ]);
for my $case ([ 19, 30_000, 'every nineteenth request finds the token expired' ],
	[ 2, 2_000, 'a service that takes one request for each token' ])
{
	my ($every, $rows, $what) = @$case;

	$w->reset;
	faults($dvsim, { path => '/api/', action => 'expire_token', every => $every, times => 0 });
	succeeds($w->run(insert('one', 'standard', 1, $rows)), "INSERT 0 $rows", $what);
	cmp_ok(hits($dvsim), '>=', $rows / 50 / $every, 'it happened often: ' . hits($dvsim));
	clear_faults($dvsim);
	$w->is_whole('standard', $what, upto => $rows);
}

# the same while the authority fails for a reason unrelated to the user
{
	my $what = 'an authority that answers with 400 at times';

	$w->reset;
	faults($dvsim, { path => '/api/', action => 'expire_token', every => 7, times => 0 },
		{ path => '/token', status => 400, code => '0x80044150', message => 'Generic SQL error', every => 2, times => 0 });
	succeeds($w->run(insert('one', 'standard', 1, 3000)), 'INSERT 0 3000', $what);
	clear_faults($dvsim);
	$w->is_whole('standard', $what, upto => 3000);
}

# more requests are under way than a token is valid for, none of them answered yet
{
	my $slow = Dvsim->start('--dop', 40, '--latency', 'create=200ms');

	create_server($node, 'slow', { %{ $w->{options} }, url => $slow->base },
		{ client_id => 'app1', client_secret => 'secret1' });
	$w->watcher->query('CREATE SCHEMA slow; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER slow INTO slow');
	faults($slow, { path => '/api/', method => 'POST', action => 'expire_token', every => 7, times => 0 });
	succeeds($w->run(insert('slow', 'standard', 1, 3000)), 'INSERT 0 3000', 'tokens that are refused before they are accepted');
	is($slow->control('GET', '/_dvsim/stats')->json->{tables}{new_meter}, 3000, 'each row once');
	$slow->stop;
}

# ---- a service that refuses all tokens

{
	my $since = mark();
	my $began = time;
	faults($dvsim, { path => '/api/', action => 'expire_token', times => 0 });
	my $r = $w->run(insert('one', 'standard', 1, 1000));
	is($r->{sqlstate}, '28000', 'a service that refuses all tokens: an error');
	like($r->{message}, qr/could not insert into foreign table "new_meter" on server "one": /, 'that says so');
	cmp_ok(time - $began, '<', 5, 'soon');
	cmp_ok(token_requests($since, 'app1'), '<=', 10, 'after few tokens, although several requests are under way');

	$since = mark();
	$r = $w->run(whoami('one'));
	is($r->{sqlstate}, '28000', 'a single request: the same error');
	is(token_requests($since, 'app1'), 3, 'after three tokens');

	$r = $w->run(whoami('two'));
	is($r->{sqlstate}, '28000', 'all tokens of two users');
	like($r->{message}, qr/no application user can be used: "app2": .+; "app3": ./, 'the error names both');
	clear_faults($dvsim);
	like($w->run(whoami('two'))->{rows}[0][0] // '', qr/^app[23]$/, 'the next statement tries again');
}

# one user's tokens are refused, the others work
{
	my $since = mark();
	my $offset = log_size($node);

	$w->reset;
	my $session = $w->session;
	take_turns($session, 'crm', 'app1', 'app2', 'app3');
	faults($dvsim, { path => '/api/', app_user => 'app2', action => 'expire_token', times => 0 });
	# the others do not wait for its new tokens, three of which must be refused
	$session->start($w->insert('standard', 1, 8000));
	my $state;
	wait_for(sub { ($state = pool($w->watcher, "app2' AND server = 'crm", "effective_limit || ' ' || limited_by")) =~ /aside/ },
		'the tokens of one of three users are refused: it is set aside');
	like($state, qr/^0 set aside: /, 'and a reason in the pool, and no limit');
	succeeds($session->finish, 'INSERT 0 8000', 'the others write the rows');
	cmp_ok(arrived($since, 'app2'), '<', 40, 'which is not asked for long: ' . arrived($since, 'app2') . ' requests');
	is(lines($offset, qr/application user "app2" of server "crm" is set aside/), 1, 'one line in the log');
	clear_faults($dvsim);
	wait_for(sub { lines($offset, qr/application user "app2" of server "crm" is available again/) || !$session->query(whoami('crm')) },
		'it is tried again');
	is(pool($w->watcher, "app2' AND server = 'crm", 'limited_by') =~ /aside/, '', 'used again after the pause');
	$session->close;
	$w->is_whole('standard', 'the rows', upto => 8000);
}

# After the pause, one request tries the user, and the others do not wait for it.
for my $case (
	[ 'refused tokens', { action => 'expire_token' } ],
	[ 'a missing privilege', { path => 'new_meters/', status => 403, code => '0x80040220', message => 'is missing prvCreatenew_Meter privilege' } ])
{
	my ($what, $fault) = @$case;

	$w->reset;
	my $session = $w->session;
	my $aside = sub { return pool($w->watcher, "app2' AND server = 'crm", 'limited_by') =~ /aside/; };
	take_turns($session, 'crm', 'app1', 'app2', 'app3');
	faults($dvsim, { path => '/api/', app_user => 'app2', times => 0, %$fault });
	succeeds($session->start($w->insert('standard', 1, 8000))->finish, 'INSERT 0 8000', "$what of one of three users");
	ok($aside->(), '… which is set aside');
	clear_faults($dvsim);
	wait_for(sub { !$aside->() }, '… until the pause ends');
	faults($dvsim, { path => 'new_meters/', app_user => 'app2', action => 'delay', delay_ms => 3000, times => 0 });
	my $since = mark();
	succeeds($session->start($w->insert('standard', 1, 16000, from => 8001))->finish, 'INSERT 0 8000', '… the next rows');
	my (undef, @requests) = sent($dvsim, $since);
	my ($trial, @others) = grep { ($_->{user} // '') eq 'app2' && $_->{kind} ne 'token' } @requests;
	ok($trial, '… and a request tries the user');
	is(scalar(grep { arrival($_) < arrival($trial) + 3 } @others), 0, '… which gets no other one before it is answered');
	clear_faults($dvsim);
	$session->close;
	$w->is_whole('standard', $what, upto => 16000);
}

# While it is tried, requests wait for it, even if the others are throttled for longer than is tolerated.
{
	$w->reset;
	server('patient', [ 'app1', 'app2' ], max_retry_after_tolerance => '5s');
	my $session = $w->session;
	my $aside = sub { return pool($w->watcher, "app2' AND server = 'patient", 'limited_by') =~ /aside/; };
	take_turns($session, 'patient', 'app1', 'app2');
	faults($dvsim, { path => '/api/', app_user => 'app2', action => 'expire_token', times => 0 });
	succeeds($session->start(insert('patient', 'standard', 1, 4000))->finish, 'INSERT 0 4000', 'refused tokens of one of two users');
	clear_faults($dvsim);
	wait_for(sub { !$aside->() }, '… until the pause ends');
	faults($dvsim, { path => 'new_meters/', app_user => 'app1', status => 429, code => '0x80072322', retry_after => 60, times => 1 },
		{ path => 'new_meters/', app_user => 'app2', action => 'delay', delay_ms => 1000, times => 1 });
	succeeds($session->start(insert('patient', 'standard', 1, 8000, from => 4001))->finish, 'INSERT 0 4000', '… then the other one is throttled');
	clear_faults($dvsim);
	$session->close;
	$w->is_whole('standard', 'a throttle during a trial', upto => 8000);
}

# ---- one bad secret

server('bad', [ 'app1', [ 'app2', 'wrong' ] ], selection => 'throttle_aware');
for my $strategy ('throttle_aware', 'round_robin', 'least_connections')
{
	$w->reset;
	$w->watcher->query("ALTER SERVER bad OPTIONS (SET selection '$strategy')");
	my $since = mark();
	my $offset = log_size($node);
	my $aside = sub {
		wait_for(sub { (pool($w->watcher, "app2' AND server = 'bad", 'limited_by') // '') =~ /^set aside: AADSTS7000215/ }, 'the reason in the pool');
	};
	succeeds($w->run(insert('bad', 'standard', 1, 5000), meanwhile => $aside), 'INSERT 0 5000', "one wrong secret, $strategy");
	cmp_ok(token_requests($since, 'app2'), '<=', 2, 'few tokens are requested');
	is(lines($offset, qr/LOG: .*user "app2"/), 1, 'one line in the log');
}

# the secret is corrected
{
	$w->watcher->query("ALTER SERVER bad OPTIONS (SET selection 'round_robin')");
	my $session = $w->session;
	my $offset = log_size($node);
	my $aside = sub { return pool($w->watcher, "app2' AND server = 'bad", 'limited_by') =~ /aside/ ? 1 : 0; };
	$session->value(whoami('bad')) for 1 .. 2;
	is(lines($offset, qr/application user "app2" of server "bad" is set aside/) . $aside->(), '11', 'a secret that is still wrong');
	$w->watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER bad OPTIONS (SET client_secret_2 'secret2')");
	$session->value(whoami('bad')) for 1 .. 2;
	is($aside->(), 0, 'it is corrected: the user is no longer shown as set aside');
	$session->close;
}

# the secret is wrong in one role's mapping, and right in another's
{
	$w->watcher->query(
		"CREATE ROLE careless LOGIN; GRANT USAGE ON FOREIGN SERVER two TO careless; GRANT USAGE ON SCHEMA dataverse TO careless;
		 CREATE USER MAPPING FOR careless SERVER two OPTIONS (client_id 'app2', client_secret 'wrong', client_id_2 'app3', client_secret_2 'secret3')");
	my $careless = $w->session(user => 'careless');
	is($careless->value(whoami('two')), 'app3', 'a wrong secret of one role: it uses the other user') for 1 .. 4;
	my $session = $w->session;
	# a user whose token is being requested has no turn
	take_turns($session, 'two', 'app2', 'app3');
	my $since = mark();
	$session->value(whoami('two')) for 1 .. 10;
	is(arrived($since, 'app2', 'other'), 5, 'another role, with the right secret, uses the user as before');
	$_->close for $careless, $session;
}

# all secrets are wrong
{
	create_server($node, 'wrong', $w->{options},
		{ client_id => 'app1', client_secret => 'x', client_id_2 => 'app2', client_secret_2 => 'y' });
	my $r = $w->run(whoami('wrong'));
	is($r->{sqlstate}, '28000', 'all secrets are wrong: an error');
	like($r->{message}, qr/no application user can be used: "app1": AADSTS7000215: .*; "app2": AADSTS7000215: /, 'that names each user and its reason');
	like($r->{hint}, qr/client_secret/, 'with a hint');
}

# a user without a token does not delay the others
{
	my $session = $w->session;
	faults($dvsim, { path => '/token', status => 503, times => 1 });
	my $r = $session->start(whoami('two'))->finish;
	is($r->{sqlstate}, undef, 'the token endpoint is not available for one of two users: the other is used');
	cmp_ok($r->{seconds}, '<', 0.2, 'at once');
	my $other = $w->session;
	faults($dvsim, { path => '/token', status => 503, times => 2 });
	$r = $other->start(whoami('two'))->finish;
	is($r->{sqlstate}, undef, 'for both of them: they are retried');
	clear_faults($dvsim);
	$_->close for $session, $other;
}

# a token endpoint that never answers for one of three users: the others continue, in whatever order
{
	my $other = Dvsim->start((map { ('--app-user', "app$_:secret$_") } 1 .. 3), '--latency', 'create=20ms');
	my %mapping = map { ("client_id$_->[0]" => "app$_->[1]", "client_secret$_->[0]" => "secret$_->[1]") } [ '', 2 ], [ '_2', 1 ], [ '_3', 3 ];
	my $unanswered = sub {
		my ($next, @requests) = sent($other, 0);
		return scalar grep { $_->{target} =~ /token/ && !defined $_->{status} } @requests;
	};

	create_server($node, 'silent', { %{ $w->{options} }, url => $other->base, authority => $other->base }, \%mapping);
	$w->watcher->query('CREATE SCHEMA silent; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter) FROM SERVER silent INTO silent');
	# the users take turns: app2, which had its turn so long ago, comes next or last
	for my $before (3, 1)
	{
		my $session = $w->session;
		my $what = $before == 3 ? 'the first user to be asked for a token gets no answer' : 'the last one gets no answer';
		my @turns = ('', '', '');

		wait_for(sub {
			push @turns, $w->watcher->value(whoami('silent'));
			return $turns[-$before] eq 'app2' && $turns[-1] ne $turns[-2] && $turns[-2] ne $turns[-3] && $turns[-3] ne $turns[-1];
		}, 'app2 has its turn');
		$other->control('POST', '/_dvsim/reset');
		faults($other, { path => '/token', contains => 'client_id=app2', action => 'stall', times => 0 });
		succeeds($session->start(insert('silent', 'standard', 1, 3000))->finish, 'INSERT 0 3000', $what);
		is($unanswered->(), 1, '... and still waits for its token');
		my $users = $other->control('GET', '/_dvsim/stats')->json->{users};
		cmp_ok($users->{$_}{requests}{create} // 0, '>', 5, "... $_ has sent requests meanwhile") for 'app1', 'app3';
		my $r = $session->start(whoami('silent'))->finish;
		like($r->{rows}[0][0] // $r->{message}, qr/^app[13]$/, '... and a single request does not wait for it');
		is($unanswered->(), 1, '... nor does the next');
		$session->close;
	}
	$w->watcher->query('DROP SERVER silent CASCADE');
	$other->stop;
}

# ---- a user is disabled in the middle of a load

my %id = map { $_ => $dvsim->as($_, $_ =~ s/app/secret/r)->get('WhoAmI')->json->{UserId} } 'app1', 'app2', 'app3';

sub disable
{
	my ($user, $off) = @_;
	my $status = $dvsim->patch("systemusers($id{$user})", { isdisabled => $off ? \1 : \0 })->status;

	die "status $status" if $status != 204;
	return;
}

for my $kind ('standard', 'single', 'elastic')
{
	$w->reset;
	my $offset = log_size($node);
	# while all slots are held
	faults($dvsim, { path => '/api/', method => 'POST', action => 'delay', delay_ms => 500, after => 20, times => 24 });
	my $r = $w->run(
		$w->insert($kind, 1, 4000),
		settings => [$go_on],
		meanwhile => sub {
			wait_for(sub { hits($dvsim) >= 12 }, 'it works');
			disable('app3', 1);
		});
	succeeds($r, 'INSERT 0 4000', "a user is disabled in the middle of a load ($kind)");
	is(lines($offset, qr/application user "app3" of server "crm" is set aside\n.*is disabled/), 1, 'one line in the log');
	clear_faults($dvsim);
	disable('app3', 0);
	$w->is_whole($kind, 'others continue', upto => 4000);
}
{
	server('three', ['app3']);
	disable('app3', 1);
	my $r = $w->run(insert('three', 'standard', 1, 10), settings => [$go_on]);
	is($r->{sqlstate}, '28000', 'the only user is disabled: an error');
	like($r->{message}, qr/is disabled/, 'with the message of the service');
	disable('app3', 0);
}

# ---- a user loses a privilege

my %lost = (
	app_user => 'app2', times => 0, status => 403, code => '0x80040220',
	message => 'Principal user (Id=1, type=8) is missing prvCreatenew_Meter privilege (Id=2) on OTC=10001 for entity \'new_meter\'.');
my %denied = (%lost, message => 'User Id: 1 does not have CreateAccess right(s) for record with id 2 of entity new_meter.');

for my $case ([ 'standard', { %lost, path => 'CreateMultiple', after => 3 } ],
	[ 'elastic', { %lost, path => 'CreateMultiple', after => 3 } ],
	# each part of a $batch is refused
	[ 'single', map { { %lost, path => '$batch', after => 3, batch_part => $_ } } 1 .. 50 ])
{
	my ($kind, @rules) = @$case;

	for my $setting ($go_on, "SET dataverse_fdw.on_error = 'abort'")
	{
		$w->reset;
		my $since = mark();
		my $offset = log_size($node);
		faults($dvsim, @rules);
		my $r = $w->run($w->insert($kind, 1, 4000), settings => [$setting]);
		succeeds($r, 'INSERT 0 4000', "a user loses a privilege ($kind)");
		unlike(join('', map { $_->{message} } @{ $r->{notices} }), qr/refused/, 'no row is refused');
		clear_faults($dvsim);
		$w->is_whole($kind, 'others continue', upto => 4000);
		is(lines($offset, qr/"app2" of server "crm" is set aside for requests of kind "create" to "\w+"\n.*is missing prv/),
			1, 'one line in the log');
		cmp_ok(arrived($since, 'app2'), '<', 30, 'the user is not asked again and again: ' . arrived($since, 'app2') . ' requests');
	}
}

# it still does what it may do
{
	my $session = $w->session;
	$w->reset;
	take_turns($session, 'crm', 'app1', 'app2', 'app3');
	faults($dvsim, { %lost, path => 'new_meters/Microsoft.Dynamics.CRM.CreateMultiple' });
	$session->query($w->insert('standard', 1, 1000));
	like(pool($w->watcher, "app2' AND server = 'crm", 'limited_by'), qr/^set aside: create new_meters: .*is missing prv/, 'the pool has the reason');
	cmp_ok(pool($w->watcher, "app2' AND server = 'crm", 'effective_limit'), '>', 0, 'and the limit for everything else');
	my $since = mark();
	$session->query($w->insert('single', 1, 1000));
	$session->query($w->update('standard', 2, 'N <= 1000'));
	cmp_ok(arrived($since, 'app2', 'batch'), '>', 0, 'it writes to other tables');
	cmp_ok(arrived($since, 'app2', 'update'), '>', 0, 'and can use the same table otherwise');
	clear_faults($dvsim);
	$session->close;
}

# a refusal that may concern the row
for my $kind ('standard', 'single')
{
	$w->reset;
	my @parts = $kind eq 'single' ? map { { %denied, path => '$batch', batch_part => $_ } } 2, 7 : { %denied, path => 'CreateMultiple' };
	faults($dvsim, @parts);
	succeeds($w->run($w->insert($kind, 1, 1000), settings => [$go_on]), 'INSERT 0 1000', "one user has no access to some rows ($kind)");
	clear_faults($dvsim);
	$w->is_whole($kind, 'another has', upto => 1000);
}
{
	my %nobody = %denied;

	delete $nobody{app_user};
	$w->reset;
	faults($dvsim, { %nobody, path => '$batch', batch_part => 1 });
	my $r = $w->run($w->insert('single', 1, 50), settings => [$go_on]);
	is(join('', map { $_->{message} } @{ $r->{notices} }) =~ /^(\d+) rows? (?:was|were) refused/ ? $1 : 0, 1,
		'no user has access to a row: it is refused');
	clear_faults($dvsim);
	is($w->rows_there('single'), 49, 'and the others are written');

	$w->reset;
	faults($dvsim, { %nobody, path => 'CreateMultiple' }, map { { %nobody, path => '$batch', batch_part => $_ } } 1 .. 50);
	$r = $w->run($w->insert('standard', 1, 500));
	is($r->{sqlstate}, '42501', 'all users are refused: an error');
	like($r->{message}, qr/does not have CreateAccess right/, 'with the message of the service');
	clear_faults($dvsim);
}
{
	$w->reset;
	$w->fill('standard', 10);
	my $since = mark();
	faults($dvsim, { %lost, method => 'GET', path => 'new_meters', message => 'is missing prvReadnew_Meter' });
	my $session = $w->session;
	is($session->value('SELECT count(new_name) FROM dv.new_meter WHERE new_number % 2 >= 0'), 10, 'reads as well') for 1 .. 6;
	my ($next, @requests) = sent($dvsim, $since);
	is(scalar(grep { $_->{status} == 403 } @requests), 1, 'are refused once');
	clear_faults($dvsim);
	$session->close;
}
# a query that is too long for a URL still names its table
{
	my $session = $w->session;
	faults($dvsim, { %lost, path => '$batch', batch_part => 1, message => 'is missing prvReadnew_Meter' });
	is($session->value("SELECT count(*) FROM dv.new_meter WHERE new_name IN ('row 1 of 1', "
			  . join(', ', map { "'" . 'x' x 500 . "$_'" } 1 .. 75) . ')'), 1, 'a long query') for 1 .. 3;
	like(pool($w->watcher, "app2' AND server = 'crm", 'limited_by'), qr/^set aside: read new_meters: /, 'is refused for its table');
	clear_faults($dvsim);
	$session->close;
}

# rows that one user was refused for, when no other user can be asked
for my $case (
	[ 'has a wrong secret', 'wrong', 0 ],
	[ 'is disabled', 'secret2', 1 ])
{
	my ($what, $secret, $off) = @$case;
	my %refused = (%denied, app_user => 'app1');

	$w->watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER bad OPTIONS (SET client_secret_2 '$secret')");
	$w->watcher->query('DELETE FROM dataverse.rejects');
	for my $kind ('single', 'standard')
	{
		my @rules = { %refused, path => '$batch', batch_part => 2 };

		push @rules, { %refused, path => 'CreateMultiple' } if $kind eq 'standard';
		$w->reset;
		disable('app2', $off);
		faults($dvsim, @rules);
		my $r = $w->run(insert('bad', $kind, 1, 200), settings => [$go_on]);
		succeeds($r, 'INSERT 0 196', "refused to one user, and the other $what ($kind)");
		is(join('', map { $_->{message} } @{ $r->{notices} }) =~ /^(\d+) rows were refused/ ? $1 : 0, 4, 'the rows are filed');
		is($w->watcher->value('SELECT count(*) FROM dataverse.rejects WHERE message ~ $$does not have CreateAccess right$$'), 4,
			'with the message of the service');
		$w->watcher->query('DELETE FROM dataverse.rejects');
		is($w->rows_there($kind), 196, 'and the others are written');
	}
	$w->reset;
	disable('app2', $off);
	faults($dvsim, { %refused, path => 'CreateMultiple' }, { %refused, path => '$batch', batch_part => 1 });
	my $r = $w->run(insert('bad', 'standard', 1, 50));
	is($r->{sqlstate}, '42501', "refused to one user, and the other $what: an error");
	like($r->{message}, qr/does not have CreateAccess right/, 'with the message of the service');
	like($r->{detail}, qr/Refused row: 1 .*application user "app1"/, 'that names the row and the refused user');
	clear_faults($dvsim);

	my $offset = log_size($node);
	faults($dvsim, { %lost, app_user => 'app1', path => 'CreateMultiple' });
	$r = $w->run(insert('bad', 'standard', 1, 1));
	is($r->{sqlstate}, '42501', 'a single row: an error');
	like($r->{detail}, qr/^The application user is at fault, not a row\.  The request that failed was to write row 1 .*application user "app1"/,
		'that does not blame the row for the missing privilege');
	is(lines($offset, qr/"app1" of server "bad" is set aside for requests/), 1, 'the user that was refused is set aside for that');
	is(lines($offset, qr/"app2" of server "bad" is set aside for requests/), 0, 'but not the other one');
	clear_faults($dvsim);
}
disable('app2', 0);
$w->watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER bad OPTIONS (SET client_secret_2 'wrong')");

# a user that may read verifies rows in doubt, even if it may not write them
{
	$w->reset;
	faults($dvsim,
		{ app_user => 'app3', path => '$batch', action => 'reset_after_commit' },
		{ %lost, app_user => 'app2', path => '$batch', batch_part => 1 },
		{ %lost, app_user => 'app3', method => 'GET', path => 'tasks', message => 'is missing prvReadActivity' });
	my $r = $w->run(insert('two', 'single', 1, 50), settings => [$go_on]);
	succeeds($r, 'INSERT 0 50', 'one user may not create rows, and the other may not read them');
	clear_faults($dvsim);
	$w->is_whole('single', 'rows in doubt are verified', upto => 50);
}

# an error about a token does not name another user
{
	$w->reset;
	$w->watcher->query("ALTER SERVER bad OPTIONS (SET selection 'least_connections')");
	faults($dvsim, { app_user => 'app1', path => 'WhoAmI', status => 403, code => '0x80040225', message => 'The specified user is disabled.' });
	my $r = $w->run(whoami('bad'));
	is($r->{sqlstate}, '28000', 'no user is left');
	like($r->{message}, qr/"app1": .*is disabled.*; "app2": AADSTS7000215/, 'each with its reason');
	unlike($r->{detail} // '', qr/application user "app1"/i, 'and the last is not mistaken for another');
	clear_faults($dvsim);
}

# a call for one user cannot go to another
{
	disable('app2', 1);
	is($w->watcher->query("SELECT application_user, ok FROM dataverse.test_connection('crm')"),
		"app1|t\napp2|f\napp3|t", 'test_connection reports each user');
	disable('app2', 0);
	is($w->watcher->query("SELECT application_user, ok FROM dataverse.test_connection('crm')"),
		"app1|t\napp2|t\napp3|t", 'also when it works again');
}

# ---- fixed tokens

{
	my @tokens = map { $dvsim->token($_, $_ =~ s/app/secret/r) } 'app2', 'app3';

	for my $i (0, 1)
	{
		create_server($node, "fixed$i", $w->{options}, { access_token => $tokens[$i] });
		$w->watcher->value(whoami("fixed$i"));
	}
	$w->watcher->value(whoami('fixed1'));
	is($w->watcher->query("SELECT server, requests FROM dataverse.pool WHERE server LIKE 'fixed%' ORDER BY 1"),
		"fixed0|1\nfixed1|2", 'two users with tokens are not mistaken for one');

	# the application of a token is not the one with its client id until the token is accepted (pool/pool_claims)
	my $jwt = join '.', encode_base64url('{"alg":"none"}'), encode_base64url('{"aud":"x","appid":"app1","oid":"1"}'), 'signature';
	create_server($node, 'named', $w->{options}, { access_token => $jwt });
	$w->run(whoami('named'));
	is($w->watcher->value("SELECT requests FROM dataverse.pool WHERE server = 'named'"), 1, 'a token is not counted for the application that it names');
	my $person = join '.', encode_base64url('{}'), encode_base64url('{"appid":"app1","oid":"1","scp":"user_impersonation"}'), 'signature';
	create_server($node, 'person', $w->{options}, { access_token => $person });
	$w->run(whoami('person'));
	is($w->watcher->value("SELECT requests FROM dataverse.pool WHERE server = 'person'"), 1, 'or for the person who uses it');

	# a refusal does not end the session
	my $session = $w->session;
	is($session->value(whoami('fixed0')), 'token_1', 'a fixed token');
	faults($dvsim, { path => 'WhoAmI', status => 401, message => 'not today' });
	my $r = $session->start(whoami('fixed0'))->finish;
	is($r->{sqlstate}, '28000', 'is refused: an error');
	like($r->{message}, qr/not today/, 'with the message of the service');
	like($r->{hint}, qr/has refused option "access_token"/, 'that names the option');
	is($session->value(whoami('fixed0')), 'token_1', 'the next statement tries again');
	faults($dvsim, { path => 'WhoAmI', action => 'expire_token' });
	is($session->start(whoami('fixed0'))->finish->{sqlstate}, '28000', 'it has expired') for 1, 2;
	$w->watcher->query("ALTER USER MAPPING FOR PUBLIC SERVER fixed0 OPTIONS (SET access_token '" . $dvsim->token('app2', 'secret2') . "')");
	is($session->value(whoami('fixed0')), 'token_1', 'with another token the session continues');
	$session->close;
}

# ---- proxies

# Answers the first requests for a tunnel as specified, and opens tunnels afterwards.
sub proxy
{
	my (@answers) = @_;
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) // die $!;
	my $pid = fork // die $!;

	return ($pid, 'http://127.0.0.1:' . $listener->sockport) if $pid;
	$SIG{CHLD} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		my $answer = shift @answers;

		next if fork;
		my $head = '';
		while ($head !~ /\r\n\r\n/)
		{
			sysread($client, $head, 4096, length $head) or POSIX::_exit(0);
		}
		if (defined $answer)
		{
			syswrite $client, $answer;
			POSIX::_exit(0);
		}
		my ($host, $port) = $head =~ /^CONNECT (\S+):(\d+) /;
		my $service = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port) // POSIX::_exit(0);
		syswrite $client, "HTTP/1.1 200 OK\r\n\r\n";
		my $select = IO::Select->new($client, $service);
		while (my @ready = $select->can_read)
		{
			for my $from (@ready)
			{
				my $to = $from == $client ? $service : $client;
				sysread($from, my $data, 65536) or POSIX::_exit(0);
				for (my $at = 0; $at < length $data;)
				{
					$at += syswrite($to, $data, length($data) - $at, $at) // POSIX::_exit(0);
				}
			}
		}
	}
	POSIX::_exit(0);
}

{
	my $tls = Dvsim->start('--tls');
	my $n = 0;

	for my $case (
		[ '502', "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" ],
		[ '407', "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n" ],
		[ 'no answer', '' ],
		# the tunnel is opened, but closes before the service has answered
		[ 'a tunnel that leads nowhere', "HTTP/1.1 200 OK\r\n\r\n", 1 ])
	{
		my ($what, $answer, $final) = @$case;
		my ($pid, $address) = proxy($answer);
		my $crm = 'proxied' . ++$n;

		create_server($node, $crm,
			{ url => $tls->base, ca_file => $tls->ca_file, proxy => $address, max_retries => 3, budget_pacing => 'off' },
			{ access_token => $tls->token('app1', 'secret1') });
		# without an id, a request that may have been carried out is not retried
		$w->watcher->query(
			"CREATE FOREIGN TABLE $crm (new_number int, new_name text) SERVER $crm OPTIONS (table 'new_meter', entity_set 'new_meters', generate_ids 'off')");
		my $r = $w->run("INSERT INTO $crm SELECT n, 'x' FROM generate_series(1, 10) n");
		if ($final)
		{
			is($r->{sqlstate}, '08001', "a proxy's answer to CONNECT is $what: an error");
			unlike($r->{detail} // '', qr/not known/, 'and no row is in doubt');
			$w->run("INSERT INTO $crm SELECT n, 'x' FROM generate_series(1, 10) n");
		}
		else
		{
			is($r->{sqlstate}, undef, "a proxy's answer to CONNECT is $what: nothing was sent, so it is sent again")
			  or diag($r->{message});
		}
		is($tls->control('GET', '/_dvsim/stats')->json->{tables}{new_meter}, 10 * $n, 'each row once');
		kill 'KILL', $pid;
		waitpid $pid, 0;
	}

	my ($pid, $address) = proxy(("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n") x 100);
	$w->watcher->query("ALTER SERVER proxied1 OPTIONS (SET proxy '$address', SET max_retries '1')");
	my $r = $w->run("INSERT INTO proxied1 SELECT n, 'x' FROM generate_series(1, 10) n");
	is($r->{sqlstate}, '08001', 'a proxy that always refuses: an error');
	like($r->{message}, qr/502/, 'that says so');
	unlike($r->{detail} // '', qr/not known/, 'and no row is in doubt');
	kill 'KILL', $pid;
	waitpid $pid, 0;
	$tls->stop;
}

is(in_flight($w->watcher), 0, 'nothing is left in flight');
$w->stop;
done_testing();
