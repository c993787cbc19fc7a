# sync_changes.pl
#		dataverse.sync() and change tracking: before and after rows are sent, a
#		run reads what has changed in Dataverse since it last looked, instead of
#		lists of ids.  The requests of runs, and rows of which these changes do not
#		tell, or not everything.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use Crm;
use Dvsim;
use SyncTest;

my $rows = 10_000;
my $crm = start_sync('sync_changes', $rows);
my $since = 'deltatoken';

# s by which answers are delayed
my $delay = 6;

# Counts requests by what they do.
sub kinds
{
	my %n;

	for my $request (@_)
	{
		my $target = Crm::target($request);
		my $kind = $target =~ /\$deltatoken=/ ? 'changes' : $target =~ /^EntityDefinitions/ ? 'definition'
		  : $target =~ /\.(\w+)Multiple/ ? lc $1 : $target =~ /PropertyValues|accountid eq/ ? 'list' : $request->{method} . ' ' . $target;
		$n{$kind}++;
	}
	return join ' ', map { "$_ $n{$_}" } sort keys %n;
}

sub sync_is
{
	my ($expected, $what, $call) = @_;
	return is(kinds($crm->sent($call // $sync)), $expected, "$what: the requests");
}

# Calls sync() and does something on the other side once a request has been answered, although the run does not have the answer yet.
sub meanwhile
{
	my ($do, %request) = @_;

	$crm->no_faults;
	$crm->requests;
	$crm->fault(action => 'delay', delay_ms => 1000 * $delay, %request);
	my $h = $crm->background($sync, 'meanwhile');
	wait_until('the run waits', sub { $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits} > 0 });
	my $began = time;
	my @before = $crm->requests;
	$do->();
	$crm->requests;
	cmp_ok(time - $began, '<', $delay - 0.5, 'the other side is done before the run continues');
	my $err = $crm->finish($h);
	unlike($err, qr/ERROR/, 'the run succeeds');
	$crm->no_faults;
	return kinds(@before, $crm->requests);
}

# after the changes have been read, and before rows are sent
my %pulled = (method => 'GET', path => '/EntityDefinitions');
# rows have been written
my %written = (method => 'POST', path => 'UpdateMultiple');

sub name_of { my ($there, $n) = @_; return $crm->sql("SELECT name FROM $there WHERE accountid = (SELECT accountid FROM numbers WHERE n = $n)"); }
sub conflicts { return $crm->sql(q{SELECT coalesce(string_agg(kind || ' ' || n, ', ' ORDER BY kind), '') FROM (SELECT kind, count(*) AS n FROM dataverse.conflicts GROUP BY kind) AS c}); }

sub settle
{
	my ($decision) = @_;
	$crm->sql("SELECT dataverse.resolve('account', '$decision'); $sync; $sync");
	is(conflicts(), '', "resolved in favor of $decision");
	return;
}

# ---- the requests of a run

edit('account', 10, 1, 'first');
sync_is('changes 3 definition 1 update 10', '1,000 edits');
is(last_run('sent, updated, conflicts'), '1000|0|0', 'all are sent');
same_ok('after 1,000 edits');
edit('account', 10, 1, 'second');
sync_is('changes 3 definition 1 update 10', '1,000 edits of rows that the last run has sent, as the first changes show');
same_ok('after edits of the same rows');
sync_is('changes 1 definition 1', 'nothing to be sent');
$crm->sql(q{INSERT INTO account (name) SELECT 'new ' || n FROM generate_series(1, 1000) AS n});
sync_is('changes 2 create 10 definition 1', '1,000 new rows');
same_ok('after 1,000 new rows');
$crm->sql(q{DELETE FROM account WHERE name LIKE 'new %'});
like(kinds($crm->sent($sync)), qr/^(?:POST \$batch \d+ )?changes 3 definition 1$/, 'they are deleted: the requests');
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name LIKE 'new %'}), '0', 'in Dataverse, too');
same_ok('after 1,000 deletions');

# ---- changes of others before rows are sent

edit('account', 100, 2, 'ours');
is(meanwhile(sub { edit('dv.account', 5000, 2, 'theirs'); }, %pulled), 'changes 3 definition 1 list 2 update 1',
	'rows that others change after the pull: their versions are requested, and the rows');
is(last_run('sent, conflicts'), '98|2', 'they are not sent,');
is(conflicts(), 'changed 2', 'but are conflicts');
is(name_of('dv.account', 2) . ', ' . name_of('account', 2), 'theirs, ours', 'nothing is overwritten on either side');
settle('local');
same_ok('after conflicts');

$crm->sql(q{UPDATE account SET name = 'ours' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 3);
	DELETE FROM account WHERE accountid IN (SELECT accountid FROM numbers WHERE n IN (4, 5))});
meanwhile(
	sub {
		$crm->sql(q{DELETE FROM dv.account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 3)});
		edit('dv.account', $rows, 4, 'theirs');
	},
	%pulled);
is(last_run('sent, conflicts'), '1|2', 'a row that others delete, and one deleted here that others change, are not sent');
is(conflicts(), 'deleted here 1, deleted there 1', 'but are conflicts');
is(name_of('dv.account', 4), 'theirs', 'the changed row is not deleted in Dataverse');
is(name_of('dv.account', 5), '', 'another one is');
settle('service');
same_ok('after deletions');

# in two chunks: while the first one is sent, others change a row of the second one
$crm->sql(q{UPDATE account SET name = 'all'});
{
	my $last = $crm->sql(q{SELECT n FROM numbers JOIN account USING (accountid) ORDER BY accountid DESC LIMIT 1});
	my $requests = meanwhile(sub { edit('dv.account', $rows, $last % $rows, 'theirs'); }, %written);

	is($requests, 'changes 7 definition 1 list 2 update 100', 'three chunks: each looks twice, and asks only for the row that others have changed');
	is(conflicts(), 'changed 1', 'which is a conflict');
	is(name_of('dv.account', $last), 'theirs', 'and is not overwritten');
}
settle('local');
same_ok('after three chunks');

# ---- changes of others after rows were written

edit('account', 100, 6, 'ours');
is(meanwhile(
	sub {
		edit('dv.account', 5000, 6, 'theirs');
		$crm->sql(q{UPDATE dv.account SET fax = 'theirs' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 106);
			DELETE FROM dv.account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 206)});
	},
	%written) =~ s/^GET \S+ 1 //r, 'changes 3 definition 1 list 1 update 1', 'rows that others change once they are written: only a deleted one is requested');
is(last_run('sent, conflicts'), '100|0', 'no conflicts');
is(name_of('account', 6), 'theirs', 'the copy has the later change');
# a deletion changes other rows
$crm->sql($sync);
same_ok('after changes of rows that were written');

# ---- changes that do not tell everything

my $expired = { action => 'status', path => $since, status => 400, code => '0x80044352', message => 'The version stamp has expired.' };

edit('account', 100, 7, 'ours');
edit('dv.account', 5000, 7, 'theirs');
$crm->fault(%$expired, after => 1);
sync_is('changes 2 definition 1 list 2 update 1', 'a token that expires before rows are sent');
is(last_run('sent, conflicts'), '98|2', 'conflicts are found');
settle('local');
edit('account', 100, 7, 'ours again');
$crm->fault(%$expired, after => 2);
sync_is('changes 3 definition 1 list 1 update 1', 'a token that expires before rows are read back');
is(last_run('sent, conflicts'), '100|0', 'all are sent');
same_ok('after tokens that have expired');

# the second changes are those before rows are sent, the third ones those after it
edit('account', 100, 8, 'ours');
{
	my ($id, $version) = split /\|/, $crm->sql(q{SELECT accountid, versionnumber FROM account JOIN numbers USING (accountid) WHERE n = 8});
	my $link = 'http://localhost/api/data/v9.2/accounts?$select=name&$deltatoken=' . ($version + 1_000_000) . '%2101%2f01%2f2030%2000%3a00%3a00';

	$crm->fault(path => $since, after => 2, action => 'status', status => 200, headers => { 'Content-Type' => 'application/json' },
		body => { value => [ { accountid => $id, versionnumber => $version + 0, name => 'stale' } ], '@odata.deltaLink' => $link });
	sync_is('changes 3 definition 1 list 1 update 1', 'changes that omit rows that were written, or have them as they were');
	is(last_run('sent, conflicts'), '100|0', 'all are sent');
	same_ok('after changes that do not tell everything');
}

# more than one page
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '50')});
edit('account', 500, 9, 'ours');
is(meanwhile(sub { edit('dv.account', 100, 9, 'theirs'); }, %pulled) =~ s/changes \d/changes/r, 'changes definition 1 list 2',
	'more changes than fit into a page');
is(last_run('sent, conflicts'), '0|20', 'conflicts are found');
settle('local');
edit('account', 500, 10, 'ours');
meanwhile(sub { edit('dv.account', 100, 11, 'theirs'); }, %written);
is(last_run('sent, conflicts'), '20|0', 'after rows were written');
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (DROP page_size)});
$crm->sql($sync);
same_ok('after many changes');

# ---- rows of which an earlier page has told

edit('account', 5000, 12, 'ours');
edit('dv.account', 5000, 12, 'theirs');
$crm->sql(q{CALL dataverse.pull('dv.account', 'account')});
$crm->sql($sync);
is(last_run('sent, conflicts'), '0|2', 'rows that a pull has left out, because they were changed here, are not sent');
$crm->sql($sync);
edit('account', 5000, 12, 'ours again');
$crm->sql($sync);
is(last_run('sent, conflicts'), '0|2', 'nor when they are changed once more');
is(name_of('dv.account', 12), 'theirs', 'nothing is overwritten');
settle('service');

$crm->sql(q{ALTER TABLE account ADD CONSTRAINT no_theirs CHECK (name <> 'refused')});
$crm->sql(q{UPDATE dv.account SET name = 'refused' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 13)});
my $go_on = q{SET client_min_messages = error; CALL dataverse.sync('dv.account', 'account', on_error => 'continue')};
$crm->sql($go_on);
$crm->sql(q{UPDATE account SET name = 'ours' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 13)});
$crm->sql($go_on);
is(conflicts(), 'changed 1', 'a change of a row that the copy has refused before is a conflict');
is(name_of('dv.account', 13), 'refused', 'and is not sent');
$crm->sql(q{ALTER TABLE account DROP CONSTRAINT no_theirs});
settle('service');
same_ok('after a refused row');

$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM numbers WHERE n IN (14, 15))});
$crm->sql(q{CALL dataverse.pull('dv.account', 'account', deletes => 'ignore')});
$crm->sql(q{UPDATE account SET name = 'ours' WHERE accountid = (SELECT accountid FROM numbers WHERE n = 14);
	DELETE FROM account WHERE accountid = (SELECT accountid FROM numbers WHERE n = 15)});
$crm->sql($sync);
is(last_run('sent, conflicts'), '0|1', 'rows that the copy has kept, although they were deleted');
is(conflicts(), 'deleted there 1', 'a change of such a row is a conflict');
settle('service');
same_ok('after rows that were kept');

# a trigger keeps the row of the copy as it was
$crm->sql(q{CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.name = $$kept$$ THEN RETURN NULL; END IF; RETURN NEW; END';
	CREATE TRIGGER keep BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION keep()});
edit('dv.account', $rows, 19, 'kept');
$crm->sql($sync);
edit('account', $rows, 19, 'ours');
$crm->sql($sync);
is(conflicts(), 'changed 1', 'a change of a row that the copy has not taken over is a conflict');
is(name_of('dv.account', 19), 'kept', 'and is not sent');
$crm->sql('DROP TRIGGER keep ON account');
settle('service');
$crm->sql(q{CALL dataverse.sync('dv.account', 'account', sweep => '0')});
same_ok('after a trigger');
edit('account', $rows, 19, 'ours');
sync_is('changes 3 definition 1 update 1', 'after a comparison');

# ---- lists only

edit('account', 100, 16, 'ours');
like(kinds($crm->sent(q{CALL dataverse.sync('dv.account', 'account', strict => true)})), qr/changes 1 .*list 2/, 'strict: versions and rows are requested by ids');
same_ok('strict');

# an application user that cannot read all rows is asked for a row that has changed, and another one for the changes
$crm->dvsim->limited('app2');
edit('dv.account', $rows, 17, 'theirs');
$crm->fault(%$expired);
$crm->fault(path => '/accounts', app_user => 'app1', times => 0, status => 429, code => '0x80072322', message => 'slow down', retry_after => 1,
	%$_) for { path => 'PropertyValues' }, { path => 'accountid%20eq' };
$crm->sql("SET client_min_messages = error; $sync");
is(name_of('account', 17), 'all', 'a comparison cannot read a row that has changed') or diag $crm->sql(q{TABLE dataverse_private.copies});
is($crm->sql(q{SELECT phase, tracked, token IS NOT NULL FROM dataverse_private.copies}), 'current|t|t', 'the copy has a token that is younger');
$crm->no_faults;
$crm->dvsim->limited;
edit('account', $rows, 17, 'ours');
$crm->sql($sync);
is(conflicts(), 'changed 1', 'a change of this row is a conflict nevertheless');
is(name_of('dv.account', 17), 'theirs', 'and is not sent');
settle('service');
$crm->sql(q{CALL dataverse.sync('dv.account', 'account', sweep => '0')});
edit('account', $rows, 18, 'ours');
sync_is('changes 3 definition 1 update 1', 'after a comparison that has found all rows');

$crm->idle_ok('at the end');
$crm->stop;
done_testing();
