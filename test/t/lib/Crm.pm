# Crm.pm
#		A cluster with the extension, a foreign server that is a dvsim, and
#		helpers for tests of the pool.
#
#	my $crm = Crm->start('name', preload => 1, users => 3, flags => [ '--dop', 6 ]);
#	$crm->sql('SELECT ...');		# dies on errors
#	my ($ms, $err) = $crm->time_of('SELECT ...');
#
# SPDX-License-Identifier: PostgreSQL

package Crm;

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes qw(sleep time);

use Dvsim;

# From PostgreSQL 17 on, wide characters in the output of a test are fatal; make them so with any version.
$SIG{__WARN__} = sub { die $_[0] if $_[0] =~ /^Wide character/; warn $_[0] };

# dvsim => an existing Dvsim to share; initdb => its options; users => N application users app1, app2, …
sub start
{
	my ($class, $name, %arg) = @_;
	my $users = $arg{users} // 1;
	my $dvsim = $arg{dvsim}
	  // Dvsim->start((map { ('--app-user', "app$_:secret$_") } 1 .. $users), @{ $arg{flags} // [] });
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(extra => $arg{initdb} // []);
	$node->append_conf('postgresql.conf', "max_connections = 80\nrestart_after_crash = on\n" . ($arg{conf} // ''));
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dataverse_fdw'\n")
	  if $arg{preload};
	$node->start;

	my $self = bless { node => $node, dvsim => $dvsim, users => $users }, $class;
	$self->sql('CREATE EXTENSION dataverse_fdw');
	$self->server('crm', users => $users, options => $arg{options});
	return $self;
}

# Creates another foreign server; base => its address; token_url => the address of its tokens.
# Plans do not depend on measurements, unless options say so: request_cost => undef.
sub server
{
	my ($self, $name, %arg) = @_;
	my $base = $arg{base} // $self->{dvsim}->base;
	my %option = (
		url => $base,
		token_url => $arg{token_url} // $self->{dvsim}->base . '/t/oauth2/v2.0/token',
		request_cost => 100,
		row_cost => 0.05,
		%{ $arg{options} // {} });
	my $options = join ', ', map { "$_ '$option{$_}'" } grep { defined $option{$_} } sort keys %option;
	my $mapping = $arg{mapping} // join ', ', map {
		my $suffix = $_ == 1 ? '' : "_$_";
		"client_id$suffix 'app$_', client_secret$suffix 'secret$_'"
	} 1 .. ($arg{users} // 1);

	$self->sql(
		"CREATE SERVER $name FOREIGN DATA WRAPPER dataverse_fdw OPTIONS ($options);
		 CREATE USER MAPPING FOR CURRENT_USER SERVER $name OPTIONS ($mapping)");
	return;
}

# A server without ICU does not have the collation.
sub has_ci_ai { return $_[0]->sql(q{SELECT to_regcollation('dataverse.ci_ai') IS NOT NULL}) eq 't'; }

sub node { return $_[0]{node}; }
sub dvsim { return $_[0]{dvsim}; }

sub sql
{
	my ($self, $sql) = @_;
	return $self->{node}->safe_psql('postgres', $sql);
}

# Runs it as a role; returns the output, and the errors and notices.
sub as
{
	my ($self, $role, $sql) = @_;
	my ($out, $err) = ('', '');

	$self->{node}->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => [ $role eq 'postgres' ? () : ('-U', $role) ]);
	return ($out, $err);
}

# Returns the milliseconds that the last statement took, and the error output.
sub time_of
{
	my ($self, $sql) = @_;
	my ($status, $out, $err) =
	  $self->{node}->psql('postgres', "\\timing on\n$sql", on_error_stop => 0);
	my @times = $out =~ /^Time: ([\d.]+) ms/mg;

	return ($times[-1] // -1, $err);
}

# Kills the backend of a statement that "background" has started, and waits until the server has recovered.
sub kill_backend
{
	my ($self, $h) = @_;
	my $checkpointer = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'};
	my $before = $self->sql($checkpointer);
	# a session that has already ended is not killed
	my $killed = $h->{pid} && kill 'KILL', $h->{pid};

	eval { IPC::Run::finish($h->{run}) };
	# the postmaster may not notice at once, or the session was just about to end
	for (1 .. $killed ? 100 : 0)
	{
		my ($status, $now) = eval { $self->node->psql('postgres', $checkpointer) };
		return 1 if defined $status && $status == 0 && $now =~ /^\d+$/ && $now ne $before;
		sleep 0.1;
	}
	# psql may have ended before it has read the query
	for (1 .. 20)
	{
		return 1 if eval { $self->node->poll_query_until('postgres', 'SELECT true') };
		sleep 0.2;
	}
	return 0;
}

# Starts a statement in a session of its own, and waits until it is active, or has
# ended without an error.
sub background
{
	my ($self, $sql, $tag) = @_;
	my %h = (in => '', out => '', err => '');

	$tag =~ tr{ }{_};

	$h{run} = IPC::Run::start(
		[ 'psql', '-X', '-At', '-d', $self->{node}->connstr('postgres') . " application_name=$tag", '-c', $sql ],
		'<', \$h{in}, '>', \$h{out}, '2>', \$h{err}, IPC::Run::timeout(120));
	until ($self->sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$tag' AND state = 'active'") eq '1')
	{
		last unless $h{run}->pumpable;
		$h{run}->pump_nb;
	}
	die "no session $tag: $h{err}" if $h{err} =~ /^(?:psql: error|\S*:?\s*(?:ERROR|FATAL)):/m;
	$h{pid} = $self->sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$tag'");
	return \%h;
}

sub finish
{
	my ($self, $h) = @_;
	eval { IPC::Run::finish($h->{run}) };
	return $h->{err};
}

# Returns the requests that have reached dvsim since the last call, except those for tokens.
sub requests
{
	my ($self) = @_;
	my $log = $self->{dvsim}->control('GET', '/_dvsim/requests?since=' . ($self->{since} // 0))->json;

	$self->{since} = $log->{next};
	return grep { ($_->{kind} // '') ne 'token' } @{ $log->{requests} };
}

# Runs statements in a new session, and returns their requests.
sub sent
{
	my ($self, $sql) = @_;

	$self->requests;
	$self->sql($sql);
	return $self->requests;
}

# Returns the target of a request, decoded, from the entity set on.
sub target
{
	my ($request) = @_;

	return $request->{target} =~ s{^/api/data/v[^/]*/}{}r =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ger;
}

sub fault
{
	my ($self, %rule) = @_;
	my $answer = $self->{dvsim}->control('POST', '/_dvsim/faults', [ \%rule ]);

	die $answer->body unless $answer->status == 200;
	return;
}

sub no_faults { $_[0]{dvsim}->control('DELETE', '/_dvsim/faults'); return; }

# Throttles WhoAmI.
sub throttle
{
	my ($self, $retry_after, %more) = @_;
	$self->fault(
		action => 'status', path => 'WhoAmI', status => 429, code => '0x80072322',
		message => 'Number of requests exceeded the limit of 6000 over time window of 300 seconds.',
		(defined $retry_after ? (retry_after => $retry_after) : ()), %more);
	return;
}

sub user_stats
{
	my ($self, $user) = @_;
	return $self->{dvsim}->control('GET', '/_dvsim/stats')->json->{users}{$user};
}

# Checks that the pool has no requests in flight.
sub idle_ok
{
	my ($self, $what) = @_;
	my $in_flight = $self->sql('SELECT coalesce(sum(in_flight), 0) FROM dataverse.pool');

	return Test::More::is($in_flight, 0, "no slot is held $what");
}

# Returns how many kB of freed memory AddressSanitizer keeps, which the system considers in use.
sub quarantine
{
	return ($ENV{ASAN_OPTIONS} // '') =~ /quarantine_size_mb=(\d+)/ ? $1 * 1024 : 0;
}

sub stop { $_[0]{node}->stop('fast'); return; }

1;
