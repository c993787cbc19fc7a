# Side.pm
#		One of the two environments that are compared: its foreign server, its
#		tables, and the output of a step in it.
#
# SPDX-License-Identifier: PostgreSQL

package Live::Side;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);

use Live::Session;
use Live::Steps;

# without characters that are wildcards in a filter, so that cleaning up does not depend on them
use constant PREFIX => 'dataverse-fdw check';

# settings => Live::Settings, db => conninfo, run => eight digits, tables => names, truncate => name, create_key => bool, label => text
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {%arg}, $class;

	$self->{local} = "dataverse_check_$arg{run}$arg{label}";
	$self->{tag} = PREFIX . " $arg{run}";
	$self->{more} = $arg{tables};
	$self->{tables} = [ @Live::Steps::standard, 'systemuser', @{ $arg{tables} } ];
	$self->{session} = Live::Session->new($arg{db});
	return $self;
}

sub session { return $_[0]{session}; }
sub settings { return $_[0]{settings}; }

# Replaces placeholders in braces.
sub fill
{
	my ($self, $sql) = @_;
	my %value = (
		tag => $self->{tag},
		run => $self->{run},
		server => $self->{local},
		schema => $self->{local},
		truncate => $self->{truncate} // '');

	$sql =~ s/\{id\.(\w+)\}/$self->id($1)/ge;
	$sql =~ s/\{(\w+)\.(\w+)\}/($self->role($1) \/\/ {})->{$2} || die "no $2 of $1"/ge;
	$sql =~ s/\{(tag|run|server|schema|truncate)\}/$value{$1}/g;
	return $sql;
}

sub id
{
	my ($self, $name) = @_;
	my $id = md5_hex("$self->{run} $name") =~ s/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/$1-$2-4$3-8$4-$5/r;

	$self->{ids}{$id} = $name;
	return $id;
}

# ---------------------------------------------------------------- beginning and end

# PostgreSQL must not log the statement that contains the secrets.
sub keep_secrets
{
	my ($self) = @_;
	my $session = $self->{session};
	my @quiet = (
		[ log_statement => 'none' ], [ log_min_duration_statement => -1 ], [ log_min_duration_sample => -1 ],
		[ log_min_error_statement => 'panic' ], [ log_transaction_sample_rate => 0 ], [ log_parameter_max_length => 0 ],
		[ debug_print_parse => 'off' ], [ 'pg_stat_statements.track_utility' => 'off' ], [ 'pgaudit.log' => 'none' ],
		[ 'auto_explain.log_min_duration' => -1 ]);

	for my $setting (@quiet)
	{
		my ($name, $value) = @$setting;
		my $now = $session->must("SELECT current_setting('$name', true) IS NOT DISTINCT FROM '$value' OR current_setting('$name', true) IS NULL");

		next if $now eq 't';
		$session->run("SET $name = '$value';");
		die "setting \"$name\" of PostgreSQL could put secrets into its log, and only a superuser can change it\n"
		  if $session->must("SELECT current_setting('$name') = '$value'") ne 't';
	}
	return;
}

sub set_up
{
	my ($self) = @_;
	my $session = $self->{session};
	my $user = $self->{settings}->sql('user');
	my $tables = join ', ', map { '"' . s/"/""/gr . '"' } @{ $self->{tables} };
	my $list = join ',', @{ $self->{tables} };

	$session->must('SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS dataverse_fdw;');
	$self->keep_secrets;
	$session->must($self->fill('CREATE SCHEMA {schema}; CREATE SCHEMA {schema}_all; CREATE SCHEMA {schema}_roles;
		CREATE SERVER {server} FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (' . $self->{settings}->sql('server') . ');
		CREATE USER MAPPING FOR CURRENT_USER SERVER {server}') . ($user ? " OPTIONS ($user);" : ';'));
	$self->create_key if $self->{create_key};
	$session->must($self->fill("IMPORT FOREIGN SCHEMA dataverse LIMIT TO ($tables) FROM SERVER {server} INTO {schema};
		SET search_path = {schema}; SET TimeZone = 'UTC'; SET bytea_output = hex; SET extra_float_digits = 1;"));
	$session->must($self->fill(<<"END"));
		CREATE VIEW {schema}_roles.columns AS
			SELECT c.relname AS "table", a.attname AS "column", a.attnum AS rank, format_type(atttypid, atttypmod) AS sql,
				max(v) FILTER (WHERE k = 'type') AS type, coalesce(bool_or(v = 'true') FILTER (WHERE k IN ('readonly', 'update_only', 'create_only')), false) AS readonly,
				coalesce(bool_or(v = 'true') FILTER (WHERE k = 'primary_image'), false) AS primary_image, max(v) FILTER (WHERE k = 'target') AS target,
				substring(col_description(c.oid, a.attnum) FROM '(?:^|[^0-9])([0-9]+) ?[=:]') AS choice
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, LATERAL (SELECT split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)
				FROM unnest(a.attfdwoptions) o) AS x (k, v)
			WHERE c.relnamespace = '{schema}'::regnamespace GROUP BY c.oid, c.relname, a.attname, a.attnum, atttypid, atttypmod;
		CREATE VIEW {schema}_roles.tables AS
			SELECT t.*, (SELECT c."column" FROM {schema}_roles.columns c WHERE c."table" = t."table" AND c.type = 'string' AND NOT c.readonly
					AND (c."column" IN ('name', 'lastname', 'subject') OR c."column" ~ '^[a-z0-9]+_name\$' AND c."column" !~ '^address')
					ORDER BY c."column" IN ('name', 'lastname', 'subject') DESC, c.rank LIMIT 1) AS label
			FROM (SELECT c.relname AS "table", max(v) FILTER (WHERE k = 'primary_id') AS id, max(v) FILTER (WHERE k = 'table_type') AS kind,
					max(v) FILTER (WHERE k = 'keys') AS keys, max(v) FILTER (WHERE k = 'entity_set') AS set, array_position(string_to_array('$list', ','), c.relname::text) AS rank
				FROM pg_class c JOIN pg_foreign_table ft ON ft.ftrelid = c.oid, LATERAL (SELECT split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)
					FROM unnest(ft.ftoptions) o) AS x (k, v)
				WHERE c.relnamespace = '{schema}'::regnamespace GROUP BY c.relname) AS t;
		CREATE FUNCTION {schema}_roles.refusal(query text) RETURNS text LANGUAGE plpgsql AS \$\$
			DECLARE
				detail text;
			BEGIN
				EXECUTE query;
				RETURN '';
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
				RETURN concat_ws(' ', regexp_replace(SQLERRM, '^could not [^:]*: ', ''), nullif(detail, ''));
			END \$\$;
END
	$self->{set} = { map { split /\|/ } split /\n/, $session->must($self->fill('SELECT "table" || \'|\' || set FROM {schema}_roles.tables')) };
	$self->{ready} = 1;
	$session->must('SET client_min_messages = debug2;');
	return;
}

# An alternate key of account.accountnumber, for environments without one.  The service builds
# its index in the background.
sub create_key
{
	my ($self) = @_;
	my $name = "new_dataverse_fdw_check_$self->{run}";
	my $keys = "EntityDefinitions(LogicalName=''account'')/Keys";
	my $label = '{"LocalizedLabels": [{"Label": "dataverse_fdw check", "LanguageCode": 1033}]}';
	my $status = '';

	$self->{session}->must($self->fill("SELECT dataverse.request('{server}', 'POST', '$keys',
		'{\"SchemaName\": \"$name\", \"DisplayName\": $label, \"KeyAttributes\": [\"accountnumber\"]}')"));
	for (1 .. 150)
	{
		$status = $self->{session}->must($self->fill("SELECT dataverse.request('{server}', 'GET',
			'$keys(LogicalName=''$name'')?\$select=EntityKeyIndexStatus', NULL) ->> 'EntityKeyIndexStatus'"));
		last unless $status =~ /^(?:Pending|InProgress)$/;
		sleep 2;
	}
	die "the service could not activate the alternate key: its status is $status\n" if $status ne 'Active';
	return;
}

# Removes our alternate keys: that of this run, or those of all runs.
sub drop_keys
{
	my ($self, $run) = @_;
	my $keys = "EntityDefinitions(LogicalName=''account'')/Keys";
	my @names = split /\n/, $self->{session}->must($self->fill("SELECT k ->> 'LogicalName' FROM jsonb_array_elements(
		dataverse.request('{server}', 'GET', '$keys?\$select=LogicalName', NULL) -> 'value') k
		WHERE starts_with(k ->> 'LogicalName', 'new_dataverse_fdw_check_$run')"));

	$self->{session}->must($self->fill("SELECT dataverse.request('{server}', 'DELETE', '$keys(LogicalName=''$_'')', NULL)"))
	  for @names;
	return;
}

# An object that the steps refer to, looked up when first needed; undef if none exists.
sub role
{
	my ($self, $name) = @_;
	my ($role) = grep { $_->{name} eq $name } @Live::Steps::roles;

	return $self->{role}{$name} if exists $self->{role}{$name} || !($role->{sql} || $role->{refusal});
	$self->{role}{$name} = undef;
	if ($role->{refusal})
	{
		my $refusal = $self->{session}->must($self->fill("SELECT {schema}_roles.refusal('$role->{refusal}')"));

		return $self->{role}{$name} = {} unless length $refusal;
		$self->{refusal}{$name} = $self->mask($refusal =~ s/\s+/ /gr);
		return;
	}
	my @values = split /\|/, $self->{session}->must($self->fill($role->{sql}));

	$self->{role}{$name} = { map { $role->{members}[$_] => $values[$_] } 0 .. $#{ $role->{members} } } if @values;
	return $self->{role}{$name};
}

# What a step needs and the environment lacks, or undef.
sub lacks
{
	my ($self, @needs) = @_;

	for my $need (@needs)
	{
		next if $self->role($need);
		my ($role) = grep { $_->{name} eq $need } @Live::Steps::roles;
		return "$role->{unless}: $self->{refusal}{$need}" if length($self->{refusal}{$need} // '');
		return $role->{unless}
		  // "it needs $role->{what}, but found none in " . join ', ', @Live::Steps::standard, @{ $self->{more} };
	}
	return;
}

# The state of our copies and pushes in the extension, when their tables are dropped.
sub forget
{
	my ($self, $schemas) = @_;

	$self->{session}->must("SET client_min_messages = warning;
		SELECT count(dataverse.forget_copy(target)) FROM dataverse.sync_state WHERE target ~ '^($schemas)';
		SELECT count(dataverse.forget_push(id)) FROM dataverse.pushes WHERE foreign_table ~ '^($schemas)';
		DELETE FROM dataverse_private.run_log WHERE foreign_table ~ '^($schemas)'");
	return;
}

# Deletes our rows: those of this run, or of all runs.  Returns the rest, as text, or ''.
sub delete_rows
{
	my ($self, $tag) = @_;
	my $session = $self->{session};
	my @left;
	my @tables = split /\n/, $session->must($self->fill('SELECT "table" || \'|\' || label FROM {schema}_roles.tables
		WHERE label IS NOT NULL AND "table" <> \'systemuser\' AND kind <> \'intersect\' ORDER BY rank DESC'));

	$session->must("RESET ALL; SET client_min_messages = warning; SET search_path = $self->{local}");
	for my $line (@tables)
	{
		my ($table, $label) = split /\|/, $line;
		my ($out, $err) = $session->run("DELETE FROM $table WHERE starts_with($label, '$tag');
			SELECT count(*) FROM $table WHERE starts_with($label, '$tag');");

		push @left, "$table: " . ($err || "$out rows") unless $out =~ /^0$/m;
	}
	return join '; ', @left;
}

# Removes everything that was created, in the environment and in PostgreSQL.
sub tear_down
{
	my ($self, $tag) = @_;
	my ($left, $failed) = ('', '');

	$self->{session}->close;
	eval {
		$self->{session} = Live::Session->new($self->{db});
		$self->{session}->run('SET client_min_messages = warning;');
		# before it is ready, it has created no rows
		if ($self->{ready})
		{
			$left = $self->delete_rows($tag // $self->{tag});
		}
		if ($self->{session}->must($self->fill("SELECT count(*) FROM pg_foreign_server WHERE srvname = '{server}'")))
		{
			$self->drop_keys($self->{run}) if $self->{create_key};
			$self->drop_keys('') if $tag;
		}
		$self->forget($self->{local}) if $self->{ready};
		$self->{session}->must($self->fill('RESET ALL; SET client_min_messages = warning;
			DROP SCHEMA IF EXISTS {schema}, {schema}_all, {schema}_roles CASCADE; DROP SERVER IF EXISTS {server} CASCADE;'));
		1;
	} or $failed = $@;
	$self->{session}->close if $self->{session};
	die "could not remove all rows: $left\n" if $left;
	die "could not clean up: $failed" if $failed;
	return;
}

# Drops objects in the database that killed runs have left.
sub drop_leftovers
{
	my ($self) = @_;
	my $session = $self->{session};

	$self->forget('dataverse_check_[0-9a-f]{8}');
	$session->must("SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace WHERE nspname ~ '^dataverse_check_[0-9a-f]{8}'
			AND nspname !~ '^$self->{local}' \\gexec
		SELECT format('DROP SERVER %I CASCADE', srvname) FROM pg_foreign_server WHERE srvname ~ '^dataverse_check_[0-9a-f]{8}'
			AND srvname !~ '^$self->{local}' \\gexec\n");
	return;
}

# ---------------------------------------------------------------- a step

# Runs a step.  Returns text (its output), trail (the requests, each once), ids (of the
# requests), messages, and failed.  The names of the step's tables are masked.
sub run
{
	my ($self, $sql, @roles) = @_;
	my ($out, $err) = $self->{session}->run($self->fill($sql));
	my (%trail, @ids, @messages, @errors);

	for my $entry (split /^(?=(?:DEBUG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|LOG):  )/m, $err)
	{
		if ($entry =~ /^DEBUG:  \w+: Dataverse answered (.*) with HTTP status (\d+), request id (\S+)$/m)
		{
			# repetitions are not compared
			$trail{"$1 $2"} = 1 unless $2 == 429 || $2 == 401 || $2 >= 500;
			push @ids, $3;
			push @messages, "$1: HTTP status $2" if $2 == 429 || $2 == 401 || $2 >= 500;
		}
		elsif ($entry =~ /^DEBUG:  \w+: ((?:Dataverse did not answer|Dataverse has refused) .*)/)
		{
			push @messages, $1;
		}
		elsif ($entry =~ /^(WARNING|ERROR|FATAL|PANIC):  (\w{5}): (.*)/)
		{
			my ($level, $sqlstate, $message) = ($1, $2, $3);
			my ($detail) = $entry =~ /^DETAIL:  (.*)/m;
			my ($code) = ($detail // '') =~ /\b(0x[0-9a-f]{8})\b/i;

			push @errors, join ' ', $level, $sqlstate, lc($code // '');
			push @ids, $1 if ($detail // '') =~ /request id ([-0-9a-f]+)/;
			push @messages, "$level: $message" . ($detail ? " ($detail)" : '');
		}
	}
	push @errors, 'FATAL: the session has ended' unless $self->{session}->alive;
	push @messages, $err unless $self->{session}->alive;
	my %seen;
	my @tables = grep { defined } map { $self->role($_) ? $self->role($_)->{table} : undef } @roles;
	$self->{role}{bulk} //= {} if $trail{'POST accounts/Microsoft.Dynamics.CRM.CreateMultiple 200'};
	return {
		text => $self->mask(join('', $out, map { "$_\n" } sort @errors), @tables),
		trail => $self->mask(join("\n", sort keys %trail), @tables),
		ids => [ grep { !$seen{$_}++ } @ids ],
		messages => [ map { $self->mask($_) } @messages ],
		failed => scalar(grep { !/^WARNING/ } @errors)
	};
}

# Masks text that varies from run to run and between environments.
sub mask
{
	my ($self, $text, @tables) = @_;

	$text =~ s/(?<!request id )\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b/exists $self->{ids}{lc $1} ? "<$self->{ids}{lc $1}>" : '<id>'/gie;
	$text =~ s/\Q$self->{tag}\E/<tag>/g;
	$text =~ s/\Q$self->{local}\E/<local>/g;
	$text =~ s/\b\Q$self->{run}\E/<run>/g;
	for my $name (map { ($self->{set}{$_}, $_) } @tables)
	{
		$text =~ s/\b\Q$name\E\b/<table>/g;
	}
	$text =~ s/\Q$_\E/<secret>/g for $self->{settings}->secrets;
	return $text;
}

1;
