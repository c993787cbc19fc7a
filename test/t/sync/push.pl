# push.pl
#		dataverse.push(): killed at and between all commits, rows with given ids,
#		requests that are carried out late, errors, concurrent sessions, rights,
#		dumps, memory, and speed.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use IPC::Run ();
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;
use Dvsim;
use Session;

my $crm = Crm->start('push', options => { budget_pacing => 'off' });
my $node = $crm->node;
my $rows = 3000;
my $chunk = 1000;
# the number of requests, of 100 rows each
my $requests = $chunk / 100;
my $insert = push_of(q{SELECT accountid, name, numberofemployees, description FROM local}, '');

$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, new_meter) FROM SERVER crm INTO dv');

sub push_of
{
	my ($query, $more) = @_;
	return "CALL dataverse.push(\$\$$query\$\$, 'dv.account', chunk => $chunk$more)";
}

# Pushes, and returns the messages.
sub say_of
{
	my ($sql, @role) = @_;
	my $err = '';

	$node->psql('postgres', "\\set VERBOSITY default\n$sql", stderr => \$err, @role ? (extra_params => [ '-U', @role ]) : ());
	return $err;
}

sub last_run
{
	my ($columns) = @_;
	return $crm->sql("SELECT $columns FROM dataverse.runs ORDER BY id DESC LIMIT 1");
}

sub kill_backend
{
	my ($h) = @_;
	ok($crm->kill_backend($h), 'the server has restarted');
	return;
}

# Creates the rows of the table "local", with ids if requested, and empties the table in Dataverse.
sub begin_anew
{
	my ($ids) = @_;

	$crm->no_faults;
	$crm->dvsim->control('POST', '/_dvsim/reset');
	$crm->{since} = 0;
	$crm->sql('DROP TABLE IF EXISTS local');
	$crm->sql("CREATE TABLE local AS SELECT " . ($ids ? 'gen_random_uuid()' : 'NULL::uuid') . " AS accountid, 'row ' || i AS name,
		i AS numberofemployees, repeat('x', i % 50) AS description FROM generate_series(1, $rows) AS i");
	return;
}

sub same_ok
{
	my ($what, $columns) = @_;
	$columns //= q{name, numberofemployees, nullif(description, '')};

	is($crm->sql(qq{SELECT (SELECT count(*) FROM (SELECT $columns FROM dv.account EXCEPT ALL SELECT $columns FROM local) AS x) || '|' ||
	                       (SELECT count(*) FROM (SELECT $columns FROM local EXCEPT ALL SELECT $columns FROM dv.account) AS x)}), '0|0',
		"$what: each row exists once");
	is($crm->sql('SELECT count(*) FROM dataverse.pushes') . $crm->sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'dataverse_push%'}),
		'00', 'no state of the push is left');
	return;
}

# Starts a push and returns once it waits, either for an answer or for a lock.
sub push_until_it_waits
{
	my ($sql, $tag, $event) = @_;
	my $h = $crm->background($sql, $tag);

	$tag =~ tr{ }{_};
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$tag' AND wait_event_type = '$event'"),
		"$tag waits");
	# the backend may have waited for an earlier request
	if ($event eq 'Extension')
	{
		for (1 .. 600)
		{
			last if $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits};
			sleep 0.05;
		}
		# requests under way arrive
		sleep 0.3;
	}
	return $h;
}

# Returns the number of ids in the requests since the last call.
sub ids_asked
{
	my $n = 0;

	for my $request ($crm->requests)
	{
		next unless $request->{method} eq 'GET' || ($request->{kind} // '') eq 'batch';
		my $text = Crm::target($request) . ($request->{body} // '');
		$n += () = $text =~ /'?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'?/g;
	}
	return $n;
}

# ---- killed while the query runs

begin_anew();
$crm->sql(q{CREATE FUNCTION held() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN true; END $$});
{
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(42)');
	my $query = 'SELECT name, numberofemployees, description FROM local WHERE held()';
	my $h = push_until_it_waits(push_of($query, ''), 'in the query', 'Lock');
	is(last_run('status, phase'), 'running|stage', 'the record of a run exists before it begins');
	kill_backend($h);
	eval { $holder->quit };
	is(last_run('status'), 'interrupted', 'and shows as interrupted when its session has ended');
	is($crm->sql('SELECT count(*) FROM dv.account'), '0', 'nothing was sent');
	like(say_of(push_of($query, '')), qr/NOTICE:  pushed to dv\.account: $rows rows sent; \d+ requests/, 'the next call runs the query again');
	same_ok('killed in the query');
}

# ---- killed before, in, and after each chunk

for my $given (0, 1)
{
	my $name = $given ? 'ids given' : 'ids made';
	my $n = 0;

	begin_anew($given);
	my $sql = $given ? $insert : push_of('SELECT name, numberofemployees, description FROM local', '');
	for my $c (0 .. $rows / $chunk - 1)
	{
		# first: nothing of the chunk was sent; then: a part of it
		for my $after (0, $requests / 2)
		{
			$crm->no_faults;
			$crm->fault(path => 'CreateMultiple', after => $after, times => 0, action => 'stall');
			$crm->requests;
			my $h = push_until_it_waits($sql, "$name $c $after", 'Extension');
			is(ids_asked(), $chunk, 'the chunk in flight is verified, and no other') if $c > 0 || $after;
			kill_backend($h);
			is(last_run('status'), 'interrupted', 'the run is interrupted');
			$crm->no_faults;
		}
		# finally: all of it was sent, but this was not recorded
		my $holder = $node->background_psql('postgres');
		$holder->query_safe('BEGIN; SELECT * FROM dataverse_private.push_states FOR UPDATE');
		my $h = push_until_it_waits($sql, "$name $c end", 'Lock');
		kill_backend($h);
		eval { $holder->quit };
		is($crm->sql('SELECT count(*) FROM dv.account'), ($c + 1) * $chunk, 'the chunk was sent') if $c < $rows / $chunk - 1;
		is($crm->sql('SELECT sum(rows_done) FROM dataverse.pushes'), $c * $chunk, 'which is not recorded');
		last if ++$n == $rows / $chunk;
		# and recorded: blocked at the first request of the next chunk
		$crm->fault(path => 'CreateMultiple', times => 0, action => 'stall');
		$h = push_until_it_waits($sql, "$name $c then", 'Extension');
		is($crm->sql('SELECT sum(rows_done) FROM dataverse.pushes'), ($c + 1) * $chunk, 'then it is');
		kill_backend($h);
		$crm->no_faults;
	}
	$crm->requests;
	my $err = say_of($sql);
	like($err, qr/NOTICE:  continuing the push started at .*: 2000 of 3000 rows are done/, "$name: the last call reports that it continues");
	like($err, qr/NOTICE:  pushed to dv\.account: 0 rows sent, 1000 already done; [1-4] requests/, 'and sends nothing twice');
	same_ok($name, $given ? undef : ());
	is($crm->sql('SELECT count(*) FROM local AS l JOIN dv.account AS a USING (accountid)'), $rows, 'with the ids that were given') if $given;
	is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status = 'running'}), '0', 'no run is shown as running');
}

# ---- killed when everything is sent and the run is about to end

begin_anew();
$crm->sql(q{CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(43); RETURN NEW; END $$;
	CREATE TRIGGER gate BEFORE UPDATE ON dataverse_private.run_log FOR EACH ROW WHEN (NEW.status IN ('succeeded', 'failed')) EXECUTE FUNCTION gate()});
{
	my $sql = push_of('SELECT name, numberofemployees, description FROM local', '');

	for my $cancelled (0, 1)
	{
		my $holder = $node->background_psql('postgres');
		$holder->query_safe('SELECT pg_advisory_lock(43)');
		my $h = push_until_it_waits($sql, "at the end $cancelled", 'Lock');
		if ($cancelled)
		{
			$crm->sql("SELECT pg_cancel_backend($h->{pid})");
			# recording its failure waits as well
			sleep 0.2;
			$holder->query_safe('SELECT pg_advisory_unlock(43)');
			like($crm->finish($h), qr/could not push.*canceling statement/s, 'a run is cancelled at its end');
			$holder->quit;
		}
		else
		{
			kill_backend($h);
			eval { $holder->quit };
		}
	}
	like(say_of($sql), qr/2000 of 3000 rows are done.*0 rows sent, 1000 already done/s, 'the next call only reports the completion');
	same_ok('killed and cancelled at the end');
}
$crm->sql('DROP TRIGGER gate ON dataverse_private.run_log');

# ---- killed while rows are upserted by an alternate key

begin_anew();
$crm->sql(q{INSERT INTO dv.new_meter (new_serial, new_name) SELECT 'S-' || numberofemployees, 'old' FROM local WHERE numberofemployees <= 1500});
{
	my $sql = qq{CALL dataverse.push('SELECT ''S-'' || numberofemployees AS new_serial, name AS new_name FROM local', 'dv.new_meter', key => '{new_serial}', chunk => $chunk)};

	# carried out, but not recorded
	$crm->fault(path => 'UpsertMultiple', after => 15, times => 0, action => 'delay', delay_ms => 600_000);
	kill_backend(push_until_it_waits($sql, 'by key', 'Extension'));
	$crm->no_faults;
	is($crm->sql('SELECT sum(rows_done) FROM dataverse.pushes'), $chunk, 'by key: one chunk is done');
	like(say_of($sql), qr/pushed to dv\.new_meter: \d+ rows sent, \d+ already done;/, 'the next call continues');
	is($crm->user_stats('app1')->{rows}{upsert}, $rows, 'and each row is written once');
	is($crm->sql(q{SELECT count(*) || '|' || count(*) FILTER (WHERE new_name LIKE 'row %') FROM dv.new_meter}), "$rows|$rows", 'with its values');
}

# ---- killed while rows are changed or deleted

for my $operation ('update', 'upsert', 'delete')
{
	begin_anew(1);
	$crm->sql('INSERT INTO dv.account (accountid, name, numberofemployees) SELECT accountid, name, numberofemployees FROM local');
	$crm->sql(q{UPDATE local SET name = name || '!', description = NULL});
	my $message = { update => 'UpdateMultiple', upsert => 'UpsertMultiple', delete => 'batch' }->{$operation};
	my $columns = $operation eq 'delete' ? 'accountid' : 'accountid, name, numberofemployees';
	my $sql = push_of("SELECT $columns FROM local", ", operation => '$operation'");

	$crm->fault(path => $message, after => 15, times => 0, action => 'stall');
	my $h = push_until_it_waits($sql, "$operation held", 'Extension');
	kill_backend($h);
	$crm->no_faults;
	is($crm->sql('SELECT sum(rows_done) FROM dataverse.pushes'), $chunk, "$operation: one chunk is done");
	# later changes to the rows of a finished chunk are not overwritten
	$crm->sql(q{UPDATE dv.account SET name = 'theirs' WHERE accountid = (SELECT accountid FROM local WHERE numberofemployees = 7)})
	  unless $operation eq 'delete';
	my $err = say_of($sql);
	like($err, qr/pushed to dv\.account: 1500 rows sent, 500 already done;/, 'the next call sends the others, and nothing twice');
	if ($operation eq 'delete')
	{
		is($crm->sql('SELECT count(*) FROM dv.account'), '0', 'all rows are gone');
	}
	else
	{
		$crm->sql(q{UPDATE local SET name = 'theirs' WHERE numberofemployees = 7});
		same_ok($operation);
	}
}

# ---- requests that are carried out after the session that sent them has ended

for my $given (0, 1)
{
	begin_anew($given);
	my $sql = $given ? $insert : push_of('SELECT name, numberofemployees, description FROM local', '');

	$crm->fault(path => 'CreateMultiple', after => 4, times => 2, action => 'reset_after_commit');
	$crm->fault(path => 'CreateMultiple', after => 8, times => 0, action => 'stall');
	kill_backend(push_until_it_waits($sql, "late $given", 'Extension'));
	$crm->no_faults;
	$crm->sql($sql);
	same_ok('after lost answers and a crash');
}

# ---- errors, refused rows, cancelled runs

begin_anew(1);
$crm->sql(q{INSERT INTO dv.account (accountid, name) SELECT accountid, 'was there' FROM local WHERE numberofemployees IN (1500, 2700)});
my $err = say_of($insert);
like($err, qr/ERROR:  could not push to foreign table dv\.account: could not insert into foreign table "account"/, 'an error names the table');
like($err, qr/phase "send"\.  Of 3000 rows, 1000 are done; rows 1001 to 2000 were being sent/, 'the phase');
like($err, qr/SELECT dataverse\.forget_push\(\d+\) abandons the push/, 'and the remedy');
like(last_run('status, sqlstate'), qr/^failed\|23505$/, 'and is recorded');
like(say_of(q{CALL dataverse.push('SELECT -1 AS numberofemployees', 'dv.account')}),
	qr/Of 1 row, 0 are done; row 1 was being sent\./, 'one row is one row');
$crm->sql(q{SELECT dataverse.forget_push(id) FROM dataverse.pushes WHERE rows = 1});
$err = say_of($insert);
like($err, qr/ERROR:  could not push/, 'an existing row is still a duplicate');
$err = say_of(push_of('SELECT accountid, name, numberofemployees, description FROM local', q{, on_error => 'continue'}));
like($err, qr/pushed to dv\.account: \d+ rows sent, \d+ already done, 2 refused;/, 'unless refused rows are to be filed');
is($crm->sql(q{SELECT string_agg(row_number::text, ' ' ORDER BY id) FROM dataverse.rejects}), '1500 2700', 'with their numbers in the query');
is($crm->sql(q{SELECT count(*), count(DISTINCT numberofemployees), count(*) FILTER (WHERE name = 'was there') FROM dv.account}), '3000|2998|2',
	'all others exist once');
$crm->sql('DELETE FROM dataverse.rejects');

begin_anew();
my $made = push_of('SELECT name, numberofemployees, description FROM local', '');
$crm->fault(path => 'CreateMultiple', after => 13, times => 0, action => 'stall');
my $h = push_until_it_waits($made, 'cancelled', 'Extension');
$err = '';
$node->psql('postgres', push_of('SELECT name, numberofemployees, description FROM local', ', wait => false'), stderr => \$err);
like($err, qr/NOTICE:  skipped push to dv\.account: another session is running it/, 'the same push is skipped, if it is not to wait');
is(last_run('status'), 'skipped', 'and says so');
$crm->sql("SELECT pg_cancel_backend($h->{pid})");
like($crm->finish($h), qr/could not push.*canceling statement/s, 'a run is cancelled');
is(last_run('operation, status'), 'push|skipped', 'which was not the last chunk');
is($crm->sql(q{SELECT status, sqlstate FROM dataverse.runs WHERE status = 'failed' ORDER BY id DESC LIMIT 1}), 'failed|57014', 'its end is recorded');
$crm->no_faults;
# a waiting push continues after the other one has ended; a different push does not wait
$crm->fault(path => 'CreateMultiple', after => 3, times => 1, action => 'delay', delay_ms => 3000);
$h = $crm->background($made, 'first');
my $other = $crm->background($made, 'second');
$crm->sql("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'");
like(say_of(q{CALL dataverse.push('SELECT ''x'' AS lastname', 'dv.contact')}), qr/pushed to dv\.contact: 1 row sent/, 'another push does not wait');
$crm->finish($_) for $h, $other;
my @all = map { $crm->background(q{CALL dataverse.push('SELECT ''y'' AS lastname, pg_sleep(0.2)::text AS description FROM generate_series(1, 3)', 'dv.contact', chunk => } . "$_)", "at once $_") } 1 .. 3;
unlike($crm->finish($_), qr/ERROR/, 'concurrent pushes do not make each other fail, at any isolation level') for @all;
$crm->sql('ALTER DATABASE postgres RESET default_transaction_isolation');
is($crm->sql('SELECT count(*) FROM dv.account'), 2 * $rows, 'the second call of the same push runs its query when the first has ended');
is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE locktype IN ('advisory', 'userlock')}), '0', 'no lock is held');
$crm->idle_ok('after pushes');

# ---- abandoned by another transaction, or by the query

begin_anew();
$crm->fault(path => 'CreateMultiple', after => 3, times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made"), qr/Of 3000 rows, 0 are done/, 'a push stops');
$crm->no_faults;
{
	my $forgetter = $node->background_psql('postgres');
	my $forget = 'SELECT dataverse.forget_push(id) FROM dataverse.pushes';
	my $skipping = push_of('SELECT name, numberofemployees, description FROM local', ', wait => false');

	# the table with the rows cannot be dropped
	$crm->sql(q{DO $$ BEGIN EXECUTE (SELECT 'CREATE VIEW dependent AS SELECT FROM ' || staged_in FROM dataverse.pushes); END $$});
	$forgetter->query_safe("DO \$\$ BEGIN PERFORM * FROM ($forget) AS f; EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END \$\$");
	is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), '0', 'a caught error of forget_push() leaves no lock');
	$crm->sql('DROP VIEW dependent');

	$forgetter->query_safe("BEGIN; $forget");
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE dataverse_private.run_log IN ACCESS EXCLUSIVE MODE');
	my $skips = push_until_it_waits($skipping, 'skips a push', 'Lock');
	my $waits = push_until_it_waits($made, 'waits for a push', 'Lock');
	$forgetter->query_safe('COMMIT');
	$locker->query_safe('COMMIT');
	$_->quit for $forgetter, $locker;
	like($crm->finish($skips), qr/^NOTICE:  skipped push to dv\.account: another session is running it$/, 'a push that is being abandoned is skipped');
	like($crm->finish($waits), qr/^NOTICE:  pushed to dv\.account: 3000 rows sent/, 'or begins again once it has been abandoned');
}
is($crm->sql('SELECT count(*) FROM dataverse.pushes') . $crm->sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'dataverse_push%'}),
	'00', 'no state of a push is left');
$crm->sql(q{CREATE FUNCTION abandon() RETURNS text LANGUAGE sql VOLATILE
	AS $$ SELECT dataverse.forget_push(max(id))::text FROM dataverse.pushes $$});
like(say_of(push_of('SELECT abandon() AS name', '')), qr/could not push to foreign table dv\.account: this session holds the lock of a run already/, 'a query cannot abandon its push');
is($crm->sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'dataverse_push%'}) . last_run('status'), '0failed', 'nor leave its rows');

# ---- the columns of a query change while the table for its rows is created

begin_anew();
$crm->sql(q{CREATE SCHEMA early; CREATE SCHEMA late; CREATE FUNCTION made() RETURNS TABLE (name text) LANGUAGE sql AS $$ SELECT 'made' $$});
{
	my ($holder, $pusher) = (Session->new($node), Session->new($node, options => '-c search_path=early,public,late'));

	$holder->query('BEGIN; DROP SCHEMA early');
	$pusher->start(q{CALL dataverse.push('SELECT f.* FROM made() AS f', 'dv.account')});
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = } . $pusher->pid);
	$crm->sql(q{DROP FUNCTION made; DROP SCHEMA late; CREATE FUNCTION made() RETURNS TABLE (name text, description text) LANGUAGE sql AS $$ SELECT 'made', 'anew' $$});
	$holder->query('ROLLBACK');
	my $result = $pusher->finish;
	is($result->{message}, 'could not push to foreign table dv.account: the columns of the query have changed', 'a query whose columns change is refused');
	like($result->{hint}, qr/^Call the procedure again\./, 'with a hint');
	is($pusher->try(q{CALL dataverse.push('SELECT f.* FROM made() AS f', 'dv.account')})->{message}, undef, 'and the next call has the new ones');
	is($crm->sql('SELECT name, description FROM dv.account'), 'made|anew', 'as the rows show');
	$_->close for $holder, $pusher;
}
$crm->sql('DROP FUNCTION made; DROP SCHEMA early');

# ---- numbers and versions of other types: of a table with rows that its owner has altered, and of a foreign table

begin_anew(1);
for my $type ('integer', 'numeric')
{
	my $update = push_of("SELECT accountid, '$type' AS name FROM local", q{, operation => 'upsert'});

	$crm->fault(method => 'POST', after => 15, times => 0, status => 403, code => '0x80040220', message => 'no');
	like(say_of($update), qr/Of 3000 rows, 1000 are done/, 'a push stops');
	$crm->no_faults;
	$crm->sql(q{DO $$ DECLARE staged text := (SELECT staged_in FROM dataverse.pushes); BEGIN
		EXECUTE (SELECT 'DROP INDEX ' || indexrelid::regclass FROM pg_index WHERE indrelid = staged::regclass);
		EXECUTE format('ALTER TABLE %s ALTER "row number" TYPE } . $type . q{', staged);
		END $$});
	my ($err) = say_of($update);
	like($err, qr/column "row number" of table public\.dataverse_push_\w+ is of type $type instead of bigint/, "the altered table is refused ($type)");
	my ($hint) = $err =~ /HINT:  (ALTER TABLE .*? TYPE bigint;)/;
	$crm->sql($hint);
	like(say_of($update), qr/NOTICE:  pushed to dv\.account: /, 'and continues when it is restored');
	is($crm->sql("SELECT count(*) FROM dv.account WHERE name = '$type'"), $rows, 'with all rows');
}
$crm->sql('ALTER FOREIGN TABLE dv.account ALTER versionnumber TYPE numeric');
like(say_of(q{CALL dataverse.push('SELECT dataverse.new_id() AS accountid, ''given'' AS name', 'dv.account')}), qr/: 1 row sent/, 'versions can be numeric');
$crm->sql('ALTER FOREIGN TABLE dv.account ALTER versionnumber TYPE bigint');

# ---- the server gets another address during a run

begin_anew();
$crm->fault(path => 'CreateMultiple', after => 13, times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made"), qr/1000 are done/, 'a push stops');
$crm->no_faults;
{
	my $url = $crm->dvsim->base;
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('BEGIN; SELECT * FROM dataverse_private.push_states FOR UPDATE');
	my $h = push_until_it_waits($made, 'moves', 'Lock');
	$crm->sql(sprintf q{ALTER SERVER crm OPTIONS (SET url '%s')}, $url =~ s/127\.0\.0\.1/localhost/r);
	$holder->query_safe('COMMIT');
	$holder->quit;
	like($crm->finish($h), qr/push \d+ was started to \Q$url\E, but the server of the foreign table is now .*localhost.*2000 of its 3000 rows were sent/s,
		'the rest of the rows does not go to another address');
	$crm->sql("ALTER SERVER crm OPTIONS (SET url '$url')");
}
like(say_of($made), qr/2000 of 3000 rows are done/, 'the push continues at the former one');
same_ok('another address');

# ---- with settings of the session

begin_anew();
$crm->sql('CREATE VIEW locals AS TABLE local');
like(say_of("SET escape_string_warning = off; SET standard_conforming_strings = off;\n" . push_of('SELECT name, numberofemployees, description FROM locals', '')),
	qr/3000 rows sent/, 'the query is not changed by settings of the session');
$crm->sql('DROP VIEW locals');
same_ok('settings');

# ---- rights

begin_anew();
my $options = $crm->sql(q{SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM information_schema.user_mapping_options});
$crm->sql("CREATE ROLE pusher LOGIN; CREATE ROLE mallory LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO pusher;
	CREATE USER MAPPING FOR pusher SERVER crm OPTIONS ($options); GRANT USAGE ON SCHEMA dv TO pusher;
	GRANT SELECT, INSERT ON dv.account TO pusher; CREATE SCHEMA pusher AUTHORIZATION pusher; GRANT SELECT ON local TO pusher;
	GRANT USAGE ON SCHEMA pusher TO mallory;
	ALTER DEFAULT PRIVILEGES FOR ROLE pusher GRANT SELECT ON TABLES TO mallory");
like(say_of('SET search_path = public, pg_catalog; ' . $made, 'mallory'), qr/permission denied|could not find a schema/, 'a role without the privilege cannot push');
$crm->fault(path => 'CreateMultiple', after => 3, times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made", 'pusher'), qr/could not push.*statement timeout/s, 'a role without further rights pushes');
$crm->no_faults;
my $staging = $crm->sql('SELECT staging FROM dataverse_private.push_states');
like($staging, qr/^pusher\.dataverse_push_/, 'through a table in its own schema');
like(say_of("SELECT * FROM $staging", 'mallory'), qr/permission denied for table/, 'which other roles cannot read, even with default privileges');
my $push = $crm->sql('SELECT id FROM dataverse_private.push_states');
like(say_of("SELECT dataverse.forget_push($push)", 'mallory'), qr/permission denied for push/, 'nor abandon');
like(say_of('TABLE dataverse_private.push_states', 'mallory'), qr/permission denied/, 'nor the state of other roles');
is($node->safe_psql('postgres', 'SELECT count(*) FROM dataverse.pushes', extra_params => [ '-U', 'mallory' ]), '0', 'or the view');
# a state that names a table of another role, and a statement
for my $name ('public.local', 'public.local; DROP TABLE public.local')
{
	$crm->sql(qq{UPDATE dataverse_private.push_states SET staging = '$name' WHERE id = $push});
	say_of("SELECT dataverse.forget_push(-1); BEGIN; SELECT dataverse.forget_push($push); ROLLBACK");
}
is($crm->sql('SELECT count(*) FROM local'), $rows, 'a role cannot make another one drop tables');
$crm->sql(qq{UPDATE dataverse_private.push_states SET staging = '$staging' WHERE id = $push});
like(say_of($made, 'pusher'), qr/continuing the push.*\d+ rows sent/s, 'and the push continues');
same_ok('as another role');
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM dataverse.runs', extra_params => [ '-U', 'pusher' ]), 't', 'a role sees its own runs');
is($node->safe_psql('postgres', 'SELECT count(*) FROM dataverse.runs', extra_params => [ '-U', 'mallory' ]), '0', 'and no others');

# ---- roles and tables that are renamed, or whose names are reused, during a push

begin_anew();
$crm->sql('GRANT SELECT ON local TO pusher');
$crm->fault(path => 'CreateMultiple', after => 13, times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made", 'pusher'), qr/1000 are done/, 'a push stops');
$crm->no_faults;
$crm->sql("ALTER ROLE pusher RENAME TO pushing; ALTER SCHEMA pusher RENAME TO pushing; CREATE ROLE pusher LOGIN NOINHERIT IN ROLE pushing; ALTER USER MAPPING FOR pushing SERVER crm OPTIONS (SET client_secret 'secret1')");
$push = $crm->sql('SELECT id FROM dataverse_private.push_states');
is($node->safe_psql('postgres', 'SELECT role FROM dataverse.pushes', extra_params => [ '-U', 'pushing' ]), 'pushing', 'a renamed role keeps its push');
is($node->safe_psql('postgres', 'SELECT count(*) FROM dataverse.pushes', extra_params => [ '-U', 'pusher' ]), '0',
	'which members that do not inherit its rights do not see');
like(say_of("SELECT dataverse.forget_push($push)", 'pusher'), qr/permission denied for push/, 'nor abandon');
is($node->safe_psql('postgres', "SET ROLE pushing; SELECT count(*) FROM dataverse.pushes", extra_params => [ '-U', 'pusher' ]), '1', 'unless they set the role');
$crm->sql('ALTER FOREIGN TABLE dv.account RENAME TO account_before; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	GRANT SELECT, INSERT ON dv.account TO pushing');
$crm->fault(path => 'CreateMultiple', times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made", 'pushing'), qr/Of 3000 rows, 0 are done/, 'a push to another table that now has the name is another push');
$crm->no_faults;
is($crm->sql(q{SELECT string_agg(foreign_table || ' ' || rows_done, ', ' ORDER BY id) FROM dataverse.pushes}), 'dv.account_before 1000, dv.account 0',
	'and both exist');
$crm->sql(q{SELECT dataverse.forget_push(id) FROM dataverse.pushes WHERE foreign_table = 'dv.account'});
$crm->sql('DROP FOREIGN TABLE dv.account; ALTER FOREIGN TABLE dv.account_before RENAME TO account');
like(say_of($made, 'pushing'), qr/1000 of 3000 rows are done.*\d+ rows sent/s, 'the first one continues');
same_ok('renamed');

# ---- a dump that is restored elsewhere continues; rows that were sent since are not sent again

begin_anew();
$crm->fault(path => 'CreateMultiple', after => 13, times => 0, action => 'stall');
like(say_of("SET statement_timeout = 1500;\n$made"), qr/1000 are done/, 'a push stops');
$crm->no_faults;
command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-Fc', '-f', $node->data_dir . '/dump' ], 'the database is dumped');
$crm->sql($made);
$crm->sql('CREATE DATABASE restored; CREATE DATABASE partly');
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), '--exit-on-error', $node->data_dir . '/dump' ], 'and restored');
$err = '';
$node->psql('restored', $made, stderr => \$err);
like($err, qr/continuing the push .* 1000 of 3000 rows are done.*pushed to dv\.account: 0 rows sent, 2000 already done/s, 'where the push continues');
is($crm->sql('SELECT count(*) FROM dv.account'), $rows, 'no row exists twice');
# without the rows
command_ok([ 'pg_restore', '-d', $node->connstr('partly'), '--exit-on-error', $node->data_dir . '/dump' ], 'and restored again');
$node->safe_psql('partly', q{DO $$ BEGIN EXECUTE (SELECT 'TRUNCATE ' || staging FROM dataverse_private.push_states); END $$});
$node->psql('partly', $made, stderr => \$err);
like($err, qr/the rows of push \d+ are lost.*1000 of them are in Dataverse, and 1000 more may be.*forget_push\(\d+\)/s, 'a dump without them gives a hint');

# ---- from another environment, through a foreign table

begin_anew();
$crm->sql(q{INSERT INTO dv.account (name, numberofemployees) SELECT name, numberofemployees FROM local LIMIT 500});
{
	my $second = Dvsim->start('--app-user', 'app1:secret1');
	$crm->server('crm2', base => $second->base, options => { token_url => $second->base . '/t/oauth2/v2.0/token' });
	$crm->sql('CREATE SCHEMA dv2; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm2 INTO dv2');
	$crm->sql(q{CALL dataverse.push('SELECT accountid, name, numberofemployees FROM dv.account', 'dv2.account', operation => 'upsert')});
	is($crm->sql('SELECT count(*) FROM (SELECT accountid, name FROM dv.account EXCEPT SELECT accountid, name FROM dv2.account) AS x'), '0',
		'rows go from one environment to another');
}

# ---- many rows: the memory of the backend is bounded

begin_anew();
{
	# requests under way take memory, and without this the session would gradually send more at a time
	$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_parallel '8', ADD initial_parallelism_factor '1', ADD useful_limit 'off')});
	my $session = $node->background_psql('postgres');
	my $many = q{SELECT 'row ' || i AS name, i AS numberofemployees, repeat('y', 200) AS description FROM generate_series(1, %d) AS i};
	my $size = sub {
		my $pid = $session->query_safe('SELECT pg_backend_pid()') + 0;
		open my $file, '<', "/proc/$pid/status" or return 0;
		my ($kb) = map { /^RssAnon:\s+(\d+)/ ? $1 : () } <$file>;
		return $kb // 0;
	};
	$session->query_safe('SET client_min_messages = error');
	$session->query_safe(sprintf "CALL dataverse.push(\$\$$many\$\$, 'dv.account')", 20000) for 1 .. 4;
	my $contexts = sub { $session->query_safe('SELECT sum(used_bytes) / 1024 FROM pg_backend_memory_contexts') + 0 };
	my $before = $size->();
	my $before_in = $contexts->();
	# allocators return freed memory when they like, so the least of three sizes counts
	my ($runs, $after) = (0);
	do
	{
		$session->query_safe(sprintf "CALL dataverse.push(\$\$$many\$\$, 'dv.account')", 200000);
		$after = min($after // $size->(), $size->());
	} while (++$runs < 3 && $after - $before >= 8192 + Crm::quarantine());
	# the rows are 50 MB; contexts may have allocated another block, so what is in use counts
	my $grown = int($contexts->() - $before_in);
	cmp_ok($grown, '<', 64, "no memory of 200000 rows stays in use ($grown kB)");
	# malloc() keeps the memory freed by requests (malloc_trim() returns it)
	cmp_ok($after - $before, '<', 8192 + Crm::quarantine(), "200000 rows take hardly more memory than 20000 ($before kB, $after kB)");
	is($crm->sql('SELECT count(*) FROM dv.account'), 80000 + 200000 * $runs, 'and all exist');
	$session->quit;
}

$crm->stop;
done_testing();
