# PoolTest.pm
#		What tests of the pool share: clusters with and without preloading, a
#		server that is dvsim, and ways to wait for something to happen.
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
  pool faults clear_faults hits user_stats sent log_since log_size);

# Bounds what never should take long, on whatever machine.
use constant PATIENCE => 60;

# A cluster that is started, with the extension in it.
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

# Restarts it with or without preloading.
sub preload
{
	my ($node, $on) = @_;

	# the last line counts
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

# create_server($node, $name, { option => value }, { of the mapping })
sub create_server
{
	my ($node, $name, $server, $mapping) = @_;

	$node->safe_psql('postgres',
		    "CREATE SERVER $name FOREIGN DATA WRAPPER dataverse_fdw OPTIONS ("
		  . options_of(tenant_id => 'contoso', authority => $server->{url}, %$server) . ");"
		  . "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (" . options_of(%$mapping) . ')');
	return;
}

# Until the condition holds; dies when it does not in time.
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

# Until that backend waits in the extension ("Extension: DataverseSlot" from 17 on).
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

# Requests under way, as the pool sees it.
sub in_flight
{
	my ($watcher) = @_;
	return $watcher->value('SELECT coalesce(sum(in_flight), 0) FROM dataverse.pool');
}

# A column of a user in the pool.
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

sub clear_faults
{
	my ($dvsim) = @_;
	$dvsim->control('DELETE', '/_dvsim/faults');
	return;
}

# How often rules have acted.
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

# Requests that arrived after number "since": ($next, requests…)
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
