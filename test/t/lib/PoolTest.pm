# PoolTest.pm
#		Code shared by tests of the pool: clusters with and without preloading,
#		foreign servers that are dvsims, and ways to wait for events.
#
# SPDX-License-Identifier: PostgreSQL

package PoolTest;

use strict;
use warnings;

use Carp qw(croak);
use Exporter qw(import);
use Time::HiRes qw(sleep time);

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Session;

our @EXPORT = qw(PATIENCE new_node preload create_server options_of wait_for wait_event in_flight
  take_turns pool faults other_faults clear_faults hits user_stats sent log_since log_size);

# Limits waits that should never take long, on any machine.
use constant PATIENCE => 60;

# Starts a cluster with the extension.
sub new_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', "max_connections = 100\nlog_min_messages = log\n"
		  . "fsync = off\nautovacuum = off\n");
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'dataverse_fdw'")
	  if $option{preload};
	$node->append_conf('postgresql.conf', $option{conf}) if $option{conf};
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw');
	return $node;
}

# Restarts the cluster with or without preloading.
sub preload
{
	my ($node, $on) = @_;

	# the last line takes precedence
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = " . ($on ? "'dataverse_fdw'" : "''"));
	$node->restart;
	return;
}

sub options_of
{
	my (%options) = @_;

	return join ', ', map { my $v = $options{$_}; $v =~ s/'/''/g; "$_ '$v'" } sort keys %options;
}

# create_server($node, $name, { option => value }, { option of the mapping => value })
sub create_server
{
	my ($node, $name, $server, $mapping) = @_;

	$node->safe_psql('postgres',
		    "CREATE SERVER $name FOREIGN DATA WRAPPER dataverse_fdw OPTIONS ("
		  . options_of(tenant_id => 'contoso', authority => $server->{url}, %$server) . ");"
		  . "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (" . options_of(%$mapping) . ')');
	return;
}

# Waits until the condition holds; dies if that takes too long.
sub wait_for
{
	my ($condition, $what) = @_;
	my $until = time + PATIENCE;

	until ($condition->())
	{
		croak "waited in vain: $what" if time > $until;
		sleep 0.005;
	}
	return 1;
}

# Waits until the backend waits in the extension ("Extension: DataverseSlot" from 17 on).
sub wait_event
{
	my ($watcher, $pid, $event) = @_;

	return wait_for(
		sub {
			my $now = $watcher->query("SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = $pid");
			return $now =~ /^Extension\|(?:Extension|\Q$event\E)$/;
		},
		"backend waits in $event");
}

# Sends requests until the session has a token for each of the users, and the last one named has answered.
sub take_turns
{
	my ($session, $server, @users) = @_;
	my %seen;

	return wait_for(
		sub {
			my $user = $session->value("SELECT application_user FROM dataverse.whoami('$server')");

			$seen{$user} = 1;
			return $user eq $users[-1] && keys %seen == @users;
		},
		'all users take part');
}

# Returns the number of requests in flight, according to the pool.
sub in_flight
{
	my ($watcher) = @_;
	return $watcher->value('SELECT coalesce(sum(in_flight), 0) FROM dataverse.pool');
}

# Returns a column of an application user in the pool.
sub pool
{
	my ($watcher, $name, $column) = @_;
	return $watcher->value("SELECT $column FROM dataverse.pool WHERE name = '$name'");
}

# ---------------------------------------------------------------- dvsim

sub faults
{
	my ($dvsim, @rules) = @_;
	my $answer = $dvsim->control('POST', '/_dvsim/faults', \@rules);

	croak 'fault rule: ' . $answer->body unless $answer->status == 200;
	return;
}

# Replaces all rules at once, for uninterrupted requests.
sub other_faults
{
	my ($dvsim, @rules) = @_;
	my $answer = $dvsim->control('PUT', '/_dvsim/faults', \@rules);

	croak 'fault rule: ' . $answer->body unless $answer->status == 200;
	return;
}

sub clear_faults
{
	my ($dvsim) = @_;
	$dvsim->control('DELETE', '/_dvsim/faults');
	return;
}

# Returns the number of times that fault rules have fired.
sub hits
{
	my ($dvsim) = @_;
	my $sum = 0;

	$sum += $_->{hits} for @{ $dvsim->control('GET', '/_dvsim/faults')->json };
	return $sum;
}

sub user_stats
{
	my ($dvsim, $user) = @_;
	return $dvsim->control('GET', '/_dvsim/stats')->json->{users}{$user}
	  // { requests => {}, in_flight => 0, peak_in_flight => 0, throttles => {} };
}

# Returns the requests that arrived after number "since", as ($next, requests…).
sub sent
{
	my ($dvsim, $since) = @_;
	my $answer = $dvsim->control('GET', '/_dvsim/requests?since=' . ($since // 0))->json;
	return ($answer->{next}, @{ $answer->{requests} });
}

# ---------------------------------------------------------------- log

sub log_size { my ($node) = @_; return -s $node->logfile; }

sub log_since
{
	my ($node, $offset) = @_;
	return slurp_file($node->logfile, $offset // 0);
}

1;
