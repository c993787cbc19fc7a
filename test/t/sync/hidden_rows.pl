# hidden_rows.pl
#		Application users that cannot read all rows: rows that a run has written but
#		cannot read back, or that a comparison does not find, are not deleted.
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

use Crm;
use Dvsim;

# app1 reads everything; app2 does at first, and later reads only its own rows
my $crm = Crm->start('hidden', users => 2, options => { page_size => 100, budget_pacing => 'off' });
my $dvsim = $crm->dvsim;
# a user that cannot read all rows gets no changes, so such tables are compared
$dvsim->change_schema({ change => 'alter_table', table => 'account', set => { change_tracking => JSON::PP::false } });
my $hidden = qr/application users of server "low" cannot read some rows of public\.account that exist in Dataverse: /;

# server crm is for the test itself, and reads everything; mixed has both users
$crm->sql('ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (DROP client_id_2, DROP client_secret_2)');
$crm->server('low', options => { page_size => 100, budget_pacing => 'off' }, mapping => "client_id 'app2', client_secret 'secret2'");
$crm->server('mixed', options => { page_size => 100, budget_pacing => 'off' }, users => 2);
$crm->sql(qq{CREATE SCHEMA $_->[1]; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER $_->[0] INTO $_->[1]})
	for ([ 'crm', 'dv' ], [ 'low', 'low' ], [ 'mixed', 'shared' ]);
$crm->sql(q{CREATE TABLE users AS SELECT u.value ->> 'fullname' AS name, (u.value ->> 'systemuserid')::uuid AS id
	FROM jsonb_array_elements(dataverse.request('crm', 'GET', 'systemusers?$select=fullname') -> 'value') AS u});
my ($boss) = map { $crm->sql("SELECT id FROM users WHERE name LIKE '%app1%'") } 1;
like($boss, qr/^[0-9a-f-]{36}$/, 'app1 owns rows');

sub run
{
	my ($sql) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', $sql, stderr => \$err);
	return ($status, $err);
}

my $sync = q{CALL dataverse.sync('low.account', 'public.account')};
sub last_run { return $crm->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }
sub same_ok
{
	my ($what) = @_;
	my $columns = 'accountid, name, fax, ownerid, versionnumber';

	return is($crm->sql("SELECT (SELECT count(*) FROM (SELECT $columns FROM dv.account EXCEPT SELECT $columns FROM account) AS x) || '|' ||
		(SELECT count(*) FROM (SELECT $columns FROM account EXCEPT SELECT $columns FROM dv.account) AS x)"), '0|0', "$what: the rows are the same");
}
sub there { return $crm->sql("SELECT count(*) FROM dv.account WHERE $_[0]"); }
sub here { return $crm->sql("SELECT count(*) FROM account WHERE $_[0]"); }

# ---- rows that were written, and cannot be read back

$crm->sql(q{INSERT INTO low.account (name) SELECT 'row ' || i FROM generate_series(1, 50) AS i});
$dvsim->limited('app2');
my ($status, $err) = run($sync);
is($status, 0, 'a first run') or diag $err;
unlike($err, $hidden, 'of a user that can read all existing rows');
same_ok('after it');
$crm->sql("INSERT INTO account (accountid, name, ownerid, owneridtype) VALUES (dataverse.new_id(), 'given away', '$boss', 'systemuser');
	INSERT INTO account (accountid, name) VALUES (dataverse.new_id(), 'kept');
	UPDATE account SET ownerid = '$boss', owneridtype = 'systemuser' WHERE name IN ('row 1', 'row 2');
	UPDATE account SET fax = '1' WHERE name = 'row 3'");
($status, $err) = run($sync);
is($status, 0, 'rows that are given away') or diag $err;
like($err, qr/WARNING:  ${hidden}3$/m, 'the run reports that they cannot be read back');
like($err, qr/HINT:  .*security role/, 'and gives a hint');
is(last_run('sent, deleted, conflicts, status'), '5|0|0|succeeded', 'all were sent, and none was deleted');
like(last_run('error'), qr/^${hidden}3$/, 'the run records it');
like($crm->sql(q{SELECT last_error FROM dataverse.sync_state WHERE target = 'public.account'}), qr/^$hidden/, 'dataverse.sync_state shows it');
is(there('true'), 51 + 1, 'all rows are in Dataverse');
is(here('true'), 51 + 1, 'and all are in the copy');
is(here(q{name = 'given away' AND versionnumber IS NULL}), 1, 'those that cannot be read, as they were written');
my $wrote = there('versionnumber > 0');
my $greatest = $crm->sql('SELECT max(versionnumber) FROM dv.account');
for my $more ('', q{, sweep => '0'})
{
	($status, $err) = run(qq{CALL dataverse.sync('low.account', 'public.account'$more)});
	is($status, 0, "the next run$more") or diag $err;
	like($err, qr/WARNING:  ${hidden}3$/m, 'warns again');
	is(last_run('sent, deleted, conflicts'), '0|0|0', 'and sends nothing twice');
	is($crm->sql('SELECT max(versionnumber) FROM dv.account'), $greatest, 'nothing was written');
	is(here('true'), 52, 'all rows are still in the copy');
}
# edited meanwhile, on either side
$crm->sql(q{UPDATE account SET fax = 'ours' WHERE name IN ('given away', 'row 1')});
$crm->sql(q{UPDATE dv.account SET name = 'row 2, theirs' WHERE name = 'row 2'});
($status, $err) = run($sync);
is(here(q{fax = 'ours'}), 2, 'an edit of such a row is kept');
$dvsim->limited;
($status, $err) = run($sync);
is($status, 0, 'when the user may read all rows') or diag $err;
unlike($err, $hidden, 'no warning is given');
is(last_run('error'), '', 'nor recorded');
is(there(q{fax = 'ours'}), 2, 'the local edit is sent');
is(here(q{name = 'row 2, theirs'}), 1, 'the edit in Dataverse is read');
same_ok('afterwards');
is($crm->sql('SELECT count(*) FROM dataverse_private.pending'), 0, 'and nothing is pending');

# such a row is deleted if it is deleted in Dataverse
$dvsim->limited('app2');
$crm->sql(qq{UPDATE account SET ownerid = '$boss', owneridtype = 'systemuser' WHERE name = 'row 4'});
($status, $err) = run($sync);
like($err, qr/WARNING:  ${hidden}1$/m, 'one more is given away');
$crm->sql(q{DELETE FROM dv.account WHERE name = 'row 4'});
($status, $err) = run($sync);
like($err, qr/WARNING:  ${hidden}3$/m, 'a row is deleted in Dataverse, so all rows are compared; the user still cannot read those given away before');
is(here(q{name = 'row 4'}), 0, 'it is deleted from the copy');
is(there(q{name = 'row 4'}), 0, 'and is not created again');
$dvsim->limited;

# ---- comparisons

$crm->sql(q{CALL dataverse.sync('low.account', 'public.account', sweep => '0')});
$crm->sql('SELECT count(*) FROM low.account');
same_ok('before comparisons');
my $rows = here('true');
# owned by another user, and not changed locally
$crm->sql("UPDATE dv.account SET ownerid = '$boss', owneridtype = 'systemuser' WHERE name LIKE 'row 1_'");
$crm->sql($sync);
$dvsim->limited('app2');
for my $call ('pull', 'sync')
{
	($status, $err) = run(qq{CALL dataverse.$call('low.account', 'public.account', sweep => '0')});
	is($status, 0, "a comparison of $call") or diag $err;
	like($err, qr/WARNING:  ${hidden}(?:1[0-9])$/m, 'warns that the user cannot read all rows');
	is(last_run('deleted'), 0, 'and deletes none');
	like(last_run('error'), $hidden, 'which is recorded');
	is(here('true'), $rows, 'all rows are in the copy');
}
$dvsim->limited;
$crm->sql(q{DELETE FROM dv.account WHERE name = 'row 11'});
($status, $err) = run(q{CALL dataverse.pull('low.account', 'public.account', sweep => '0')});
unlike($err, $hidden, 'when the user may read all rows');
is(last_run('deleted, error'), '1|', 'rows that were deleted are deleted from the copy');
same_ok('after comparisons');

# ---- users that see different rows: those that see more are asked

$crm->sql(q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account});
$dvsim->limited('app2');
$crm->sql(q{SET client_min_messages = warning; CALL dataverse.sync('shared.account', 'public.account')});
same_ok('with two users, one of which cannot read all rows');
$crm->sql(q{INSERT INTO account (accountid, name) SELECT dataverse.new_id(), 'shared ' || i FROM generate_series(1, 30) AS i;
	UPDATE account SET fax = 'shared'});
($status, $err) = run(q{CALL dataverse.sync('shared.account', 'public.account')});
is($status, 0, 'they send rows') or diag $err;
is(last_run('deleted, conflicts'), '0|0', 'none of which is lost');
$crm->sql(q{CALL dataverse.sync('shared.account', 'public.account', sweep => '0')});
is(last_run('deleted, conflicts'), '0|0', 'nor by a comparison');
same_ok('with two users');

$crm->stop;
done_testing();
