# memory.pl
#		Shared memory exists with and without preloading, and no warning is
#		given.  If it is too small, a session works on its own and warns once.
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

my $dvsim = Dvsim->start(map { ('--app-user', "app$_:secret$_") } 1 .. 130);
my $node = new_node('memory');
my $warning = qr/dataverse_fdw has no shared memory for this session$/;

sub mapping
{
	my (@users) = @_;
	my %mapping;

	for my $i (1 .. @users)
	{
		my $suffix = $i > 1 ? "_$i" : '';

		$mapping{"client_id$suffix"} = "app$users[$i - 1]";
		$mapping{"client_secret$suffix"} = "secret$users[$i - 1]";
	}
	return \%mapping;
}

# Returns the warnings of a session that uses a server.
sub warnings_of
{
	my ($session, $crm) = @_;
	my $r = $session->try("SELECT application_user FROM dataverse.whoami('$crm')");

	is($r->{sqlstate}, undef, 'the request is answered') or diag $r->{message};
	return grep { $_->{S} eq 'WARNING' } @{ $r->{notices} };
}

create_server($node, 'small', { url => $dvsim->base }, mapping(1, 2));
create_server($node, 'large', { url => $dvsim->base }, mapping(3 .. 62));

# ---- the usual cases: no warning

for my $preload (0, 1)
{
	my $offset = log_size($node);

	preload($node, $preload);
	my $session = Session->new($node);
	my $other = Session->new($node);
	my $how = $preload ? 'preloaded' : 'not preloaded';

	is(scalar(warnings_of($session, 'small')), 0, "$how: no warning");
	is($other->query('SELECT name, requests, this_session_only FROM dataverse.pool WHERE requests > 0'),
		'app1|1|f', 'another session sees its changes');
	is(scalar(warnings_of($other, 'small')), 0, 'and is not warned either');
	is($session->value('SELECT sum(requests) FROM dataverse.pool'), 2, 'the counts are shared');
	unlike(log_since($node, $offset), $warning, 'and the log is empty');
	$_->close for $session, $other;
}

# ---- preloaded, but too small

$node->append_conf('postgresql.conf', 'dataverse_fdw.max_application_users = 4');
$node->restart;
{
	my $session = Session->new($node);
	my $other = Session->new($node);
	my @warnings;

	is(scalar(warnings_of($session, 'small')), 0, 'users that fit are shared, without a warning');
	@warnings = warnings_of($session, 'large');
	is(scalar @warnings, 1, 'for those that do not fit: one warning');
	like($warnings[0]{message}, $warning, 'that explains the consequence');
	like($warnings[0]{hint}, qr/"shared_preload_libraries", or raise "dataverse_fdw.max_application_users"/,
		'and gives a hint');
	is(scalar(warnings_of($session, 'large')), 0, 'it is not repeated');
	is( $session->value('SELECT count(*) FROM dataverse.pool WHERE this_session_only AND in_flight = 0'),
		60, 'the view marks the state that is local to this session');
	is($other->value(q{SELECT count(*) FROM dataverse.pool WHERE server = 'large'}), 0, 'other sessions do not see it');
	is($other->value('SELECT count(*) FROM dataverse.pool WHERE NOT this_session_only'), 2,
		'but see the shared state');

	# throttles work as usual in this session
	faults($dvsim, { path => 'WhoAmI', retry_after => 600 });
	is($session->try(q{SELECT dataverse.whoami('large')})->{sqlstate}, undef, 'a throttle routes to another user');
	is($session->value('SELECT count(*) FROM dataverse.pool WHERE throttled AND this_session_only'), 1,
		'the throttled one is marked');
	is($session->value(q{SELECT count(*) FROM dataverse.throttle_history}), 1, 'and in the history');
	is(scalar(warnings_of($other, 'large')), 1, 'every session is warned itself');

	# a hanging request is canceled
	faults($dvsim, { path => 'WhoAmI', action => 'stall' });
	$session->query(q{SET statement_timeout = '300ms'});
	is($session->try(q{SELECT dataverse.whoami('large')})->{sqlstate}, '57014', 'a request is canceled');
	is($session->value('SELECT sum(in_flight) FROM dataverse.pool'), 0, 'and leaves no slot');
	$_->close for $session, $other;
}

# ---- not preloaded: PostgreSQL 15 and 16 have memory for only a few users

preload($node, 0);
{
	my $session = Session->new($node);
	my @warnings = warnings_of($session, 'large');
	my $version = $session->value('SHOW server_version_num');

	if ($version < 170000)
	{
		is(scalar @warnings, 1, 'not preloaded, many users: one warning');
		like($warnings[0]{message}, $warning, 'the same');
	}
	else
	{
		is(scalar @warnings, 0, 'not preloaded, many users: no warning');
	}
	is(scalar(warnings_of($session, 'small')), 0, 'few users: none');
	$session->close;
}

$node->stop;
done_testing();
