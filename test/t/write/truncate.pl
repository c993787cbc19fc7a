# truncate.pl
#		TRUNCATE of foreign tables: it works only where it is permitted, and deletes
#		all rows, or reports the remaining ones.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use PoolTest;
use Dvsim;

# bulk-delete jobs take some seconds, here of virtual time
my $dvsim = Dvsim->start('--time-scale', 50);
my $node = new_node('truncate', preload => 1);
my $session = Session->new($node);
my $watcher = Session->new($node);

create_server($node, 'crm', { url => $dvsim->base, max_retries => 0 },
	{ client_id => 'app1', client_secret => 'secret1' });
$node->safe_psql('postgres', q{
	CREATE FOREIGN TABLE account (accountid uuid, name text) SERVER crm OPTIONS (entity_set 'accounts');
	CREATE FOREIGN TABLE contact (contactid uuid) SERVER crm
		OPTIONS (entity_set 'contacts', truncatable 'on');
	CREATE FOREIGN TABLE meter (new_meterid uuid, new_name text) SERVER crm
		OPTIONS ("table" 'new_meter', entity_set 'new_meters', truncatable 'on');
	CREATE FOREIGN TABLE alltypes (new_alltypesid uuid, new_name text) SERVER crm
		OPTIONS ("table" 'new_alltypes', entity_set 'new_alltypeses', truncatable 'on');
});

sub rows
{
	my ($table) = @_;
	return $dvsim->control('GET', '/_dvsim/stats')->json->{tables}{$table} // 0;
}

sub seed { $dvsim->control('POST', "/_dvsim/seed?table=$_[0]&rows=$_[1]"); return; }

# Returns method, path, and body of the requests since then, except reads.
my $seen = (sent($dvsim, 0))[0];
sub writes
{
	my ($next, @requests) = sent($dvsim, $seen);

	$seen = $next;
	return grep { $_->{method} ne 'GET' && $_->{kind} ne 'token' } @requests;
}

sub refused
{
	my ($sql, $sqlstate, $message, $what) = @_;
	my $result = $session->try($sql);

	is($result->{sqlstate}, $sqlstate, "$what: refused");
	like($result->{message}, $message, "$what: the message");
	is(scalar writes(), 0, "$what: nothing was sent");
	return $result;
}

seed('account', 30);
seed('contact', 20);

# ---- refusals

my $result = refused('TRUNCATE account', '55000',
	qr/^foreign table "account" does not allow truncates$/, 'without the option');
like($result->{hint}, qr/Set options "truncatable" and "updatable"/, 'the hint');
refused('TRUNCATE contact, account', '55000', qr/"account" does not allow/, 'all or none');
refused('TRUNCATE contact CASCADE', '0A000',
	qr/^cannot truncate foreign table "contact" with CASCADE$/, 'CASCADE');
$session->query(q{ALTER FOREIGN TABLE contact OPTIONS (updatable 'off')});
refused('TRUNCATE contact', '55000', qr/"contact" does not allow/, 'a table that is not writable');
$session->query(q{ALTER FOREIGN TABLE contact OPTIONS (SET updatable 'on')});
refused('BEGIN READ ONLY; TRUNCATE contact', '25006', qr/read-only transaction/, 'READ ONLY');
$session->query('ROLLBACK');

# ---- a job

my $accounts = rows('account');
cmp_ok(rows('contact'), '>=', 20, 'contacts exist');
$session->query('TRUNCATE contact RESTART IDENTITY');
is(rows('contact'), 0, 'all rows are gone');
is(rows('account'), $accounts, 'those of other tables are not');
my @writes = writes();
is(join(' ', map { "$_->{method} $_->{target}" } @writes), 'POST /api/data/v9.2/BulkDelete', 'one request');
my $body = JSON::PP::decode_json($writes[0]{body});
my $start = delete $body->{StartDateTime};
is_deeply(
	$body,
	{
		QuerySet => [
			{
				'@odata.type' => 'Microsoft.Dynamics.CRM.QueryExpression',
				EntityName => 'contact',
				ColumnSet => { AllColumns => JSON::PP::false, Columns => ['contactid'] },
				Distinct => JSON::PP::false,
			}
		],
		JobName => 'dataverse_fdw: TRUNCATE contact',
		SendEmailNotification => JSON::PP::false,
		ToRecipients => [],
		CCRecipients => [],
		RecurrencePattern => '',
	},
	'its body');
like($start, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, '… with a time at which the job starts');
cmp_ok(abs($session->value("SELECT extract(epoch FROM now() - '$start')")), '<', 60, '… which is the current time');
$session->query('TRUNCATE contact');
is(scalar writes(), 1, 'a table without rows is no different');

# ---- a job that cannot be read at first

$dvsim->quirks('lagging-jobs');
seed('contact', 20);
$seen = (sent($dvsim, 0))[0];
$session->query('TRUNCATE contact');
is(rows('contact'), 0, 'a job that cannot be read at first is waited for');
my (undef, @all) = sent($dvsim, $seen);
my @polls = map { $_->{status} } grep { $_->{target} =~ /asyncoperations\(/ } @all;
is($polls[0], 404, '… although the service reports that it does not exist');
is($polls[-1], 200, '… until it does');
$dvsim->quirks();
writes();

# ---- a TRUNCATE is not rolled back

seed('contact', 20);
my $contacts = rows('contact');
$result = $session->try('BEGIN; TRUNCATE contact; ROLLBACK');
is(rows('contact'), 0, 'a ROLLBACK restores no rows');
is(scalar @{ $result->{notices} }, 1, 'the message says so');
like($result->{notices}[0]{message}, qr/rolled back, but $contacts rows written to Dataverse stay there/,
	'with the number of rows');

# ---- two tables at once

seed('contact', 5);
$session->query(q{ALTER FOREIGN TABLE account OPTIONS (truncatable 'on')});
$seen = (sent($dvsim, 0))[0];
$session->query('TRUNCATE contact, account');
is(rows('contact') + rows('account'), 0, 'two tables are empty');
my @order = map { $_->{target} =~ /BulkDelete$/ ? 'start' : $_->{target} =~ /asyncoperations/ ? 'wait' : () } grep { ref } sent($dvsim, $seen);
is("@order[0 .. 2]", 'start start wait', 'both jobs are started before either is waited for');

# ---- rows that cannot be deleted

$session->query(q{SELECT dataverse.request('crm', 'POST', 'new_meters', '{"new_name":"kept"}')});
my $meter = $session->value(q{
	SELECT dataverse.request('crm', 'GET', 'new_meters?$select=new_name') -> 'value' -> 0 ->> 'new_meterid'});
$session->query(qq{SELECT dataverse.request('crm', 'POST', 'new_alltypeses',
	'{"new_name":"holder","new_MeterId\@odata.bind":"/new_meters($meter)"}')});
seed('new_meter', 10);
my $meters = rows('new_meter');
$result = $session->try('TRUNCATE meter');
my $left = rows('new_meter');
cmp_ok($left, '>', 0, 'a row that another row references is kept');
is($result->{sqlstate}, 'HV000', 'TRUNCATE failed');
is($result->{message}, 'could not truncate foreign table "meter"', 'the table');
like($result->{detail}, qr/^Bulk-delete job \S+ deleted ${\($meters - $left)} rows\.  It could not delete $left rows?\.  Dataverse says: \S/,
	'the number of deleted rows');
like($result->{detail}, qr/^${\($meters - $left)} rows of this transaction have been written to Dataverse and stay there\.$/m, 'and this is permanent');

# ---- jobs that fail

sub job_says
{
	my ($body, $times) = @_;

	faults($dvsim, { path => 'asyncoperations(', status => 200, body => $body, times => $times });
	return;
}

job_says('{"statecode":3,"statuscode":31,"message":"out of order"}', 1);
$result = $session->try('TRUNCATE alltypes');
is($result->{message}, 'could not truncate foreign table "alltypes"', 'a job that failed');
# the job may have made progress nevertheless
like($result->{detail}, qr/Dataverse says: out of order$/m, 'the reason');
clear_faults($dvsim);

# one of two tables fails: the other is waited for, and counted
seed('contact', 20);
faults($dvsim, { path => 'asyncoperations(', status => 200, body => '{"statecode":3,"statuscode":31,"message":"out of order"}', times => 1 });
$result = $session->try('TRUNCATE alltypes, contact');
is($result->{message}, 'could not truncate foreign table "alltypes"', 'one of two jobs fails');
is(rows('contact'), 0, '… and the other one has ended');
like($result->{detail}, qr/^2[01] rows of this transaction have been written to Dataverse and stay there\.$/m, '… and is counted');
clear_faults($dvsim);

faults($dvsim, { path => 'BulkDelete', after => 1, status => 400, code => '0x80040265', message => 'no job' });
$result = $session->try('TRUNCATE alltypes, contact');
is($result->{message}, 'could not truncate foreign table "contact" on server "crm": no job', 'the second job cannot be started');
like($result->{context}, qr/^waiting for bulk-delete job \S+, which continues in Dataverse$/m, '… and the first one continues');
clear_faults($dvsim);

faults($dvsim, { path => 'BulkDelete', status => 403, code => '0x80040220', message => 'missing prvBulkDelete' });
$result = $session->try('TRUNCATE alltypes');
is($result->{sqlstate}, '42501', 'no privilege');
clear_faults($dvsim);

faults($dvsim, { path => 'BulkDelete', status => 200, body => '{"JobId":"x/y"}' });
$result = $session->try('TRUNCATE alltypes');
like($result->{message}, qr/did not return the id of the bulk-delete job/, 'a malformed answer');
clear_faults($dvsim);

# ---- tables without such jobs: DELETE

$node->safe_psql('postgres', q{
	CREATE FOREIGN TABLE "Reading" (new_readingid uuid, partitionid text, new_name text) SERVER crm
		OPTIONS ("table" 'new_reading', entity_set 'new_readings', table_type 'elastic',
			partition_id 'partitionid', truncatable 'on');
});
seed('new_reading', 250);
my $readings = rows('new_reading');
cmp_ok($readings, '>=', 250, 'readings exist');
writes();
$session->query('SET dataverse_fdw.dry_run = on');
$result = $session->try('TRUNCATE "Reading", contact');
is(scalar writes(), 0, 'a dry run sends nothing');
is_deeply(
	[ sort map { $_->{message} } @{ $result->{notices} } ],
	[
		qq{delete from foreign table "Reading": "dataverse_fdw.dry_run" is on; $readings rows were encoded but not sent},
		'truncate foreign table "contact": "dataverse_fdw.dry_run" is on; no request was sent'
	],
	'… and says so');
$session->query('RESET dataverse_fdw.dry_run');
$result = $session->try('BEGIN; TRUNCATE "Reading"; ROLLBACK');
is(rows('new_reading'), 0, 'elastic rows are gone');
is(join(' ', map { "$_->{method} $_->{target}" } writes()),
	join(' ', ('POST /api/data/v9.2/new_readings/Microsoft.Dynamics.CRM.DeleteMultiple') x (($readings + 99) / 100)),
	'in bulk');
like($result->{notices}[0]{message}, qr/$readings rows written to Dataverse stay there/, 'permanently');

$session->query(q{
	CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
	CREATE TRIGGER watch BEFORE DELETE ON "Reading" FOR EACH ROW EXECUTE FUNCTION watch();
});
refused('TRUNCATE "Reading"', '0A000', qr/because it has DELETE triggers$/, 'triggers of DELETE');

# ---- cancel

job_says('{"statecode":0,"statuscode":0}', 100000);
$seen = (sent($dvsim, 0))[0];
$session->start('TRUNCATE alltypes');
wait_for(
	sub {
		my ($next, @requests) = sent($dvsim, $seen);
		return scalar grep { $_->{target} =~ /asyncoperations/ } @requests;
	},
	'the job is polled');
wait_for(
	sub {
		return ($watcher->value(
				q{SELECT waiting_for FROM dataverse.progress WHERE operation = 'truncate'}) // '') eq 'job';
	},
	'the progress view shows the reason for the wait');
other_faults($dvsim, { path => 'asyncoperations(', action => 'stall', times => 0 });
wait_for(
	sub {
		return ($watcher->value(
				q{SELECT waiting_for || in_flight FROM dataverse.progress WHERE operation = 'truncate'}) // '') eq 'response1';
	},
	'… and the requests under way');
my $cancelled = time;
$watcher->query('SELECT pg_cancel_backend(' . $session->pid . ')');
$result = $session->finish;
is($result->{sqlstate}, '57014', 'it can be cancelled');
cmp_ok($result->{ended_at} - $cancelled, '<', 1, 'at once');
like($result->{context}, qr/^waiting for bulk-delete job \S+, which continues in Dataverse$/m,
	'the table');
is(in_flight($watcher), 0, 'no slot is held');

done_testing();
