# pull_ranges.pl
#		First reads and comparisons in ranges of ids: the token comes first; each
#		row is there, whatever is written, refused, or throttled meanwhile; a run
#		that was killed leaves ranges, and nothing else is read again.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Crm;
use Dvsim;
use PoolTest qw(hits);
use Session;

use constant PATIENCE => 60;

my $page = 40;
my $rows = 1500;
my $most = 6;			# ranges at a time
my $pull = q{CALL dataverse.pull('dv.account', 'public.account')};
my $seed = $ENV{SEED} || int(rand(1_000_000));

diag "SEED=$seed";
srand $seed;

sub set_up
{
	my ($crm) = @_;

	$crm->sql(
		qq{SELECT setseed($seed / 1000000.0);
		CREATE SCHEMA dv;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, task) FROM SERVER crm INTO dv;
		ALTER FOREIGN TABLE dv.account OPTIONS (ADD scan_parallelism '$most');
		ALTER FOREIGN TABLE dv.task OPTIONS (ADD scan_parallelism '$most');
		INSERT INTO dv.account (accountid, name) SELECT md5(random()::text || i)::uuid, 'row ' || i FROM generate_series(1, $rows) i});
	return;
}

sub same_ok
{
	my ($crm, $what, $table) = @_;

	$table //= 'account';
	return is(
		$crm->sql(
			qq{SET dataverse_fdw.scan_parallelism = 1;
			SELECT (SELECT count(*) FROM (TABLE dv.$table EXCEPT TABLE $table) AS x) || ' ' ||
			       (SELECT count(*) FROM (TABLE $table EXCEPT TABLE dv.$table) AS x)}), '0 0', "$what: the rows are the same");
}

sub last_run { my ($crm, $columns) = @_; return $crm->sql("SELECT $columns FROM dataverse.runs ORDER BY id DESC LIMIT 1"); }
sub link_of { return $_[0]->sql(q{SELECT coalesce(link, '') FROM dataverse_private.copies WHERE target = 'public.account'}); }

sub pulls_ok
{
	my ($crm, $what, $sql) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', $sql // $pull, stderr => \$err);

	return is($status, 0, "$what: the run succeeds") || diag $err;
}

sub forget { return $_[0]->sql(q{SELECT dataverse.forget_copy('account'); DROP TABLE account}); }

# The requests for accounts that were sent since the last call, in short.
sub sent { return map { Crm::target($_) } grep { $_->{target} =~ m{/accounts\?} } $_[0]->requests; }

sub in_ranges { return grep { /accountid (?:ge|lt) / && !/ eq / && !/top=1/ } @_; }

# Ids as the service sorts them.
sub order { my $x = uc $_[0] =~ s/-//gr; return join '', map { substr $x, 2 * $_, 2 } (10 .. 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0); }

# ---- what is sent

my $crm = Crm->start('ranges', options => { page_size => $page, budget_pacing => 'off' });
set_up($crm);

$crm->requests;
pulls_ok($crm, 'a first read');
my @sent = sent($crm);
my ($token) = grep { $sent[$_] =~ /deltatoken/ } 0 .. $#sent;
my ($first) = grep { $sent[$_] =~ /orderby=accountid/ } 0 .. $#sent;
cmp_ok($token, '<', $first, 'a token is requested before the rows');
is(scalar(grep { /top=1/ && /versionnumber/ } @sent), 2, 'made of the greatest version');
cmp_ok(scalar(in_ranges(@sent)), '>', $rows / $page / 2, 'the rows are read in ranges');
cmp_ok(scalar(@sent), '<=', $rows / $page + 5 * $most + 8, 'with few other requests');
is(last_run($crm, 'rows_read, rows_compared, inserted'), "$rows|0|$rows", 'each row is read once');
is($sent[-1] =~ s/.*(?=deltatoken)//r =~ s/=.*//r, 'deltatoken', 'then the changes');
same_ok($crm, 'a first read');
$crm->requests;
pulls_ok($crm, 'changes');
is(scalar(sent($crm)), 1, 'changes take one request');

$crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 });
$crm->sql(q{UPDATE dv.account SET name = 'in the gap' WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 LIMIT 25);
	DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM account ORDER BY 1 DESC LIMIT 30);
	INSERT INTO dv.account (name) SELECT 'new' FROM generate_series(1, 20)});
$crm->requests;
pulls_ok($crm, 'an expired token');
@sent = sent($crm);
cmp_ok(scalar(grep { /select=accountid,versionnumber&/ } in_ranges(@sent)), '>', $rows / $page / 2, 'ids are compared in ranges');
is(last_run($crm, 'rows_compared, deleted, updated, inserted'), $rows - 10 . '|30|25|20', 'once, because the token came first');
same_ok($crm, 'an expired token');

pulls_ok($crm, 'a full read', q{CALL dataverse.pull('dv.account', 'public.account', "full" => true)});
is(last_run($crm, 'rows_read, updated'), $rows - 10 . '|0', 'reads all rows again');
cmp_ok(scalar(in_ranges(sent($crm))), '>', $rows / $page / 2, 'in ranges');
$crm->sql(q{UPDATE account SET name = 'here'});
pulls_ok($crm, 'another one', q{CALL dataverse.pull('dv.account', 'public.account', "full" => true)});
same_ok($crm, 'a full read');

# what is small, or must not be divided
forget($crm);
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (SET scan_parallelism '1')});
$crm->requests;
pulls_ok($crm, 'one range');
@sent = sent($crm);
is(scalar(grep { /accountid (?:ge|lt)/ } @sent), 0, 'scan_parallelism 1: the rows are not divided');
same_ok($crm, 'one range');
$crm->sql(q{INSERT INTO dv.contact (lastname) SELECT 'L' || i FROM generate_series(1, 30) i});
$crm->requests;
pulls_ok($crm, 'a small table', q{CALL dataverse.pull('dv.contact', 'public.contact')});
is(join(' ', map { /deltatoken/ ? 'changes' : /top=1/ ? 'version' : 'page' } grep { /^contacts\?/ } map { Crm::target($_) } $crm->requests),
	'version page changes', 'a table of one page takes no requests for a token');
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (SET scan_parallelism '6')});

# without change tracking
$crm->sql("INSERT INTO dv.task (activityid, subject) SELECT md5(random()::text || i)::uuid, 'task ' || i FROM generate_series(1, $rows) i");
$crm->requests;
pulls_ok($crm, 'an untracked table', q{CALL dataverse.pull('dv.task', 'public.task')});
cmp_ok(scalar(grep { Crm::target($_) =~ /^tasks.*activityid (?:ge|lt) / } $crm->requests), '>', $rows / $page, 'rows are read, and ids compared, in ranges');
same_ok($crm, 'an untracked table', 'task');

# ---- refusals

my %refusal = (method => 'GET', status => 400, code => '0x80060888', message => 'not supported');
my $next = $crm->dvsim->base . '/api/data/v9.2/accounts?$deltatoken=1%2101%2f01%2f2020%2000%3a00%3a00&$skiptoken=2';

for my $case (
	[ 'a token that was not given by the service', { %refusal, path => 'deltatoken', times => 1 }, 'compared' ],
	[ 'changes of many pages', { method => 'GET', path => 'deltatoken', times => 1, status => 200, body => { value => [], '@odata.nextLink' => $next } }, 'compared' ],
	[ 'the greatest version', { %refusal, path => 'top=1', after => 1, times => 1 }, 'compared' ],
	[ 'the question how ids are compared', { %refusal, path => '%20eq%20', times => 0 }, '' ],
	[ 'bounds of ranges', { %refusal, path => '%20ge%20', times => 0 }, '' ],
	[ 'the last row', { %refusal, path => 'accountid%20desc', times => 0 }, '' ])
{
	my ($what, $rule, $compared) = @$case;

	forget($crm);
	# so that the number in a token is greater than any in the table
	$crm->sql(q{INSERT INTO dv.contact (lastname) VALUES ('x')});
	$crm->fault(%$rule);
	pulls_ok($crm, "$what: refused");
	cmp_ok(hits($crm->dvsim), '>', 0, '… indeed');
	$crm->no_faults;
	same_ok($crm, "$what: refused");
	is(last_run($crm, 'rows_compared > 0'), $compared ? 't' : 'f', $compared ? 'rows are read for a token, and compared' : 'the token came first');
}

# all ranges that are refused are read by the same requests, also when another session has left them
forget($crm);
$crm->fault(%refusal, path => '%20ge%20', times => 0);
$crm->requests;
pulls_ok($crm, 'bounds are refused');
cmp_ok(scalar(sent($crm)), '<=', 2 * $rows / $page + 3 * $most + 8, '… and all rows are requested once more');
same_ok($crm, 'bounds are refused');
$crm->no_faults;
forget($crm);
$crm->fault(method => 'GET', path => '/accounts', after => 20, times => 0, action => 'stall');
my $left = $crm->background($pull, 'leaves ranges');
sleep 0.02 until hits($crm->dvsim) >= $most;
$crm->sql("SELECT pg_cancel_backend($left->{pid})");
$crm->finish($left);
$crm->no_faults;
like(link_of($crm), qr/^ids (?:\S+ ){2}/, 'ranges are left');
$crm->fault(%refusal, path => '%20ge%20', times => 0);
$crm->requests;
pulls_ok($crm, 'bounds of ranges that were left');
cmp_ok(hits($crm->dvsim), '>', 0, '… are refused');
cmp_ok(scalar(sent($crm)), '<=', $rows / $page + 2 * $most + 8, '… and all rows are requested once');
$crm->no_faults;
same_ok($crm, 'bounds of ranges that were left');
is(last_run($crm, 'rows_compared'), 0, '… and not compared');

# ---- writes meanwhile, faults, cancels: after each run, changes are read, and nothing else

my $writer = Session->new($crm->node);

for my $round (1 .. 8)
{
	my ($kind) = (qw(first first compare full))[ $round % 4 ];
	my @rules;

	if ($kind eq 'first') { forget($crm); }
	if ($kind eq 'compare') { $crm->dvsim->control('POST', '/_dvsim/clock', { advance => 8 * 86400 }); }
	$crm->fault(method => 'GET', path => '/accounts', times => 0, action => 'delay', delay_ms => 30);
	for (1 .. 3)
	{
		my %rule = (method => 'GET', path => '/accounts', after => int rand 40, every => 1 + int rand 9, times => 1 + int rand 3,
			action => (qw(garble truncate reset_before_commit status status))[ rand 5 ]);

		$rule{bytes} = int rand 4000 if $rule{action} =~ /garble|truncate/;
		@rule{qw(status code message retry_after)} = (429, '0x80072322', 'Number of requests exceeded the limit', 0)
		  if $rule{action} eq 'status';
		$crm->fault(%rule);
	}
	$writer->start(
		qq{DO \$\$ DECLARE mark text; BEGIN FOR i IN 1 .. 60 LOOP
			mark := '$round.' || i;
			UPDATE dv.account SET name = 'changed ' || mark WHERE accountid IN (SELECT accountid FROM pool_of_ids ORDER BY random() LIMIT 5);
			DELETE FROM dv.account WHERE accountid IN (SELECT accountid FROM pool_of_ids ORDER BY random() LIMIT 2);
			INSERT INTO dv.account (accountid, name) SELECT md5(mark || n)::uuid, 'new ' || mark FROM generate_series(1, 2) n;
			INSERT INTO pool_of_ids SELECT md5(mark || n)::uuid FROM generate_series(1, 2) n;
		END LOOP; END \$\$})
	  if $crm->sql(q{DROP TABLE IF EXISTS pool_of_ids; CREATE TABLE pool_of_ids AS SELECT accountid FROM dv.account}) || 1;
	my $h = $crm->background($kind eq 'full' ? q{CALL dataverse.pull('dv.account', 'public.account', "full" => true)} : $pull, "round $round");
	# some are cancelled, and continue
	if (rand() < 0.5)
	{
		sleep 0.2 + rand 0.6;
		$crm->sql("SELECT pg_cancel_backend($h->{pid})");
	}
	$crm->finish($h);
	pulls_ok($crm, "round $round, $kind, in the end");
	$writer->finish;
	$crm->no_faults;
	$crm->sql(q{SELECT dataverse.reset_pool('crm')});
	pulls_ok($crm, "round $round, $kind, then changes");
	is(last_run($crm, 'rows_compared'), 0, '… are all that is read');
	same_ok($crm, "round $round, $kind");
}
$writer->close;

# ---- killed: what is left is read, and nothing else

forget($crm);
my $before = $crm->sql('SELECT count(*) FROM dv.account');
my $read = 0;
my $lives = 0;
while ($lives < 20)
{
	my $link = $lives ? link_of($crm) : '';
	my $copied = $lives ? $crm->sql('SELECT count(*) FROM account') : 0;
	my @left = map { my ($from, $to) = /^(.*)\.\.(.*)$/; [ order($from), $to eq '' ? 'Z' : order($to) ] } grep { /\.\./ } split / /, $link;

	$crm->requests;
	$crm->fault(method => 'GET', path => '/accounts', after => $lives ? 8 : 13, times => 0, action => 'stall');
	my $h = $crm->background($pull, "life $lives");
	my $until = time + PATIENCE;
	my $over = 0;
	while (time < $until)
	{
		last if $over = !$crm->sql("SELECT count(*) FROM pg_stat_activity WHERE pid = $h->{pid}");
		# all answers have been merged, and it waits for one that will never come
		last if hits($crm->dvsim) > 0 && $crm->sql("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $h->{pid}") eq 't'
		  && (sleep(0.2), 1);
		sleep 0.02;
	}
	$crm->kill_backend($h) if !$over;
	$crm->no_faults;
	@sent = sent($crm);
	if ($link =~ /^ids /)
	{
		my @outside = grep {
			my ($from) = /accountid ge ([-0-9a-f]{36})/;
			my ($last) = /accountid%20last%3d%22%7b([-0-9a-fA-F]{36})/;
			my $begins = order($last // $from // '00000000-0000-0000-0000-000000000000');

			!grep { $_->[0] le $begins && $begins le $_->[1] } @left;
		} in_ranges(@sent);

		is(scalar(@outside), 0, 'life ' . $lives . ': no page outside of the ranges that were left is read')
		  or diag explain { left => $link, outside => \@outside };
	}
	$lives++;
	last if $over;
	$crm->finish($h);
}
cmp_ok($lives, '>', 4, "$lives lives");
pulls_ok($crm, 'in the end');
is($crm->sql('SELECT sum(rows_read) FROM (SELECT rows_read FROM dataverse.runs ORDER BY id DESC LIMIT ' . ($lives + 1) . ') AS r'),
	$before, 'each row is merged once');
same_ok($crm, 'killed');
$crm->stop;

# ---- a service that compares ids as text: they are not divided

{
	my $text = Crm->start('text', flags => ['--ids-as-text'], options => { page_size => $page, budget_pacing => 'off' });

	set_up($text);
	$text->requests;
	for my $n (6, 9)
	{
		$text->fault(method => 'GET', path => '/accounts', after => $n, times => 0, action => 'stall');
		my $h = $text->background($pull, "text $n");
		sleep 0.02 until hits($text->dvsim) > 0;
		sleep 0.3;
		$text->kill_backend($h);
		$text->no_faults;
		$text->finish($h);
		like(link_of($text), qr/^http/, 'ids compared as text: reading continues with a link of the service');
	}
	pulls_ok($text, 'ids compared as text');
	is(scalar(grep { / ge / && !/ eq / } sent($text)), 0, 'the rows are not divided');
	same_ok($text, 'ids compared as text');
	$text->stop;
}

done_testing();
