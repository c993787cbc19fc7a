# pull_stale.pl
#		Links and tokens of copies that the service does not know any more, and says so
#		with any other answer than that a token has expired.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;

my $page = 100;
my $crm = Crm->start('stale', options => { page_size => $page, budget_pacing => 'off', scan_parallelism => 1, max_retries => 1 });
my %id = (task => 'activityid', account => 'accountid');
my %refusal = (method => 'GET', status => 400, code => '0x80060888', message => 'Bad Request - Error in query syntax.');

$crm->sql('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (task, account) FROM SERVER crm INTO dv');
$crm->sql(q{INSERT INTO dv.task (subject) SELECT 'task ' || i FROM generate_series(1, 700) AS i});
$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=700');

sub pull
{
	my ($table) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', "CALL dataverse.pull('dv.$table', 'public.$table')", stderr => \$err);

	return ($status, $err);
}

sub pulls_ok { my ($table, $what) = @_; my ($status, $err) = pull($table); return is($status, 0, $what) || diag $err; }
sub copy { my ($table, $columns) = @_; return $crm->sql("SELECT $columns FROM dataverse_private.copies WHERE target = 'public.$table'"); }
sub last_run { return $crm->sql("SELECT $_[0] FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }

sub same_ok
{
	my ($table, $what) = @_;

	return is($crm->sql("SELECT (SELECT count(*) FROM (SELECT $id{$table}, versionnumber FROM dv.$table EXCEPT ALL SELECT $id{$table}, versionnumber FROM $table) AS x) || ' ' ||
		(SELECT count(*) FROM (SELECT $id{$table}, versionnumber FROM $table EXCEPT ALL SELECT $id{$table}, versionnumber FROM dv.$table) AS x)"), '0 0', $what);
}

# Has a run of the table fail after so many pages of a reading.
sub stop_after
{
	my ($table, $path, $phase, $pages) = @_;
	my ($status, $err);

	$crm->fault(%refusal, path => $path, after => $pages, times => 0);
	($status, $err) = pull($table);
	isnt($status, 0, "$table: a run fails in phase \"$phase\"");
	like($err, qr/phase "$phase"/, 'which it names');
	$crm->no_faults;
	like(copy($table, 'phase, link'), qr/^$phase\|.*skiptoken/i, 'the link to the next page is kept');
	return;
}

# Links as an older version of the service may have given them.
my %spoil = (
	'a malformed $skiptoken' => q{regexp_replace(link, 'skiptoken=.*', 'skiptoken=%3Ccookie')},
	'a column that does not exist' => q{replace(link, 'versionnumber', 'no_such_column')},
	'the address of another version' => q{replace(link, '/v9.2/', '/v9.0/')},
	'another table' => q{regexp_replace(link, '/(tasks|accounts)', '/nosuchtables')});

sub spoil_link
{
	my ($table, $how) = @_;
	my $before = copy($table, 'link');

	$crm->sql("UPDATE dataverse_private.copies SET link = $spoil{$how} WHERE target = 'public.$table'");
	isnt(copy($table, 'link'), $before, "with $how in the link,");
	return;
}

# Changes something, so that a reading has more than one page.
sub change { my ($table, $n) = @_; $crm->sql("UPDATE dv.$table SET description = 'changed $n' WHERE $id{$table} IN (SELECT $id{$table} FROM dv.$table ORDER BY 1 LIMIT 350)"); return; }
sub forget { my ($table) = @_; $crm->sql("SELECT dataverse.forget_copy('public.$table'); DROP TABLE $table"); return; }

# ---- links

for my $how (sort keys %spoil)
{
	for my $table (sort keys %id)
	{
		# the greatest version comes first; with change tracking, a first page, the version again, and a token
		stop_after($table, "/${table}s", 'backfill', $table eq 'task' ? 4 : 7);
		spoil_link($table, $how);
		pulls_ok($table, 'the next run succeeds');
		same_ok($table, 'with all rows');
	}

	# changes since a token
	change('account', $how);
	stop_after('account', '/accounts', 'current', 2);
	spoil_link('account', $how);
	pulls_ok('account', 'the next run succeeds');
	is(last_run('rows_compared'), 0, 'which reads all changes since the token');
	same_ok('account', 'with all rows');

	# a comparison, after which a token is read
	change('account', "$how again");
	$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
	stop_after('account', '/accounts', 'compare', 3);
	spoil_link('account', $how);
	pulls_ok('account', 'the next run succeeds');
	same_ok('account', 'with all rows');

	# changes above a version, of which the last ones are not read by the run that fails
	$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '1 hour' FROM unnest(marked_at) AS m) WHERE target = 'public.task'});
	change('task', $how);
	stop_after('task', '/tasks', 'current', 2);
	$crm->sql(q{UPDATE dataverse_private.copies SET marked_at = ARRAY(SELECT m - interval '1 hour' FROM unnest(marked_at) AS m) WHERE target = 'public.task'});
	spoil_link('task', $how);
	pulls_ok('task', 'the next run succeeds');
	same_ok('task', 'with all rows');
	pulls_ok('task', 'and so does another one');
	same_ok('task', 'with all rows');
	forget($_) for sort keys %id;
}

# ---- what says nothing about the link keeps it

stop_after('account', '/accounts', 'backfill', 7);
my $link = copy('account', 'link');
for my $answer ([ 403, '0x80040220' ], [ 429, '0x80072322', retry_after => 1 ], [ 500, '0x80040216' ], [ 503, '' ])
{
	my ($status, $code, @more) = @$answer;

	$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_throttle_retries '1')}) if $status == 429;
	$crm->fault(method => 'GET', path => '/accounts', status => $status, code => $code, message => 'not now', times => 0, @more);
	my ($failed) = pull('account');
	isnt($failed, 0, "after $status, a run fails");
	is(copy('account', 'phase, link'), "backfill|$link", 'and the link is kept');
	$crm->no_faults;
	$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_throttle_retries); SELECT dataverse.reset_pool('crm')}) if $status == 429;
}

# neither does a query that is refused without the link as well
$crm->fault(%refusal, path => '/accounts', times => 0, message => 'not for you');
my ($status, $err) = pull('account');
like($err, qr/could not read foreign table "account".*not for you/, 'a query that is refused in any case is an error');
is(copy('account', 'phase, link'), "backfill|$link", 'and the link is kept');
$crm->no_faults;

# ---- links that are refused whenever they are given

$crm->requests;
for my $round (1 .. 2)
{
	$crm->fault(%refusal, path => 'skiptoken', times => 0);
	($status, $err) = pull('account');
	$crm->no_faults;
	like($err, qr/Error in query syntax/, 'a reading that is refused again fails');
	my @links = grep { $_->{target} =~ /skiptoken/i } $crm->requests;
	is(scalar @links, 2, 'after one new link');
}
pulls_ok('account', 'the next run succeeds');
same_ok('account', 'with all rows');

# ---- tokens

change('account', 'a token');
$crm->sql(q{DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM dv.account ORDER BY 1 DESC LIMIT 20)});
$crm->fault(%refusal, path => 'deltatoken');
pulls_ok('account', 'if a token is refused, a run succeeds');
is(last_run('deleted, rows_compared >= 680'), '20|t', 'which compares all rows');
same_ok('account', 'with all rows');
pulls_ok('account', 'the next run');
is(last_run('rows_compared'), 0, 'has a new token');

my $token = copy('account', 'token');
$crm->fault(%refusal, path => '/accounts', times => 0, message => 'not for you');
($status, $err) = pull('account');
like($err, qr/could not read foreign table "account".*not for you/, 'a query that is refused in any case is an error');
is(copy('account', 'phase, token'), "current|$token", 'and the token is kept');
$crm->no_faults;

change('account', 'no token');
$crm->fault(%refusal, path => 'deltatoken', times => 0);
($status, $err) = pull('account');
like($err, qr/Error in query syntax.*phase "current"/s, 'if each token is refused, a run fails');
is(last_run('rows_compared'), 2 * 680, 'after a single comparison, which is repeated with the token');
same_ok('account', 'with all rows');
$crm->no_faults;
pulls_ok('account', 'the next run succeeds');
is(last_run('rows_compared'), 0, 'with the last token');

# both, one after the other
change('account', 'both');
stop_after('account', '/accounts', 'current', 2);
spoil_link('account', 'a malformed $skiptoken');
$crm->fault(%refusal, path => 'deltatoken');
pulls_ok('account', 'a link and a token that are both refused');
same_ok('account', 'with all rows');

$crm->stop;
done_testing();
