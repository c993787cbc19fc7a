# 013_control.t
#		The control plane and the flags: reset, seed, requests, stats, clock;
#		what --data keeps.
#
# SPDX-License-Identifier: PostgreSQL
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use File::Temp qw(tempdir);
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep time);

my $dir = tempdir(CLEANUP => 1);
my $s = Dvsim->start('--seed', 5, '--log', "$dir/log");
my $r;

sub requests
{
	my ($since) = @_;
	return $s->control('GET', '/_dvsim/requests?since=' . ($since // 0))->json;
}
sub stats { return $s->control('GET', '/_dvsim/stats')->json; }

# ---------------------------------------------------------------- seed

$r = $s->control('POST', '/_dvsim/seed?table=account&rows=250');
is($r->status, 200, 'seed');
is_deeply($r->json, { table => 'account', rows => 250 }, 'its answer');
is(stats()->{tables}{account}, 250, 'stats count the rows');
my $names = $s->get('accounts?$select=name&$orderby=accountid&$top=5')->body;
for my $case (
	[ 'no rows', '/_dvsim/seed?table=account', 400 ],
	[ 'no table', '/_dvsim/seed?rows=3', 400 ],
	[ 'unknown table', '/_dvsim/seed?table=nothing&rows=3', 404 ],
	[ 'no number', '/_dvsim/seed?table=account&rows=3x', 400 ],
	[ 'negative', '/_dvsim/seed?table=account&rows=-3', 400 ],
	[ 'too many', '/_dvsim/seed?table=account&rows=999999999999', 400 ],
	[ 'broken escape', '/_dvsim/seed?table=%zz&rows=3', 400 ])
{
	$r = $s->control('POST', $case->[1]);
	is($r->status, $case->[2], "seed, $case->[0]");
	ok($r->json->{error}, 'with a message');
}

# lookups in the form of the body
sub lookups
{
	my ($table, $rows, %lookups) = @_;
	return $s->control('POST', "/_dvsim/seed?table=$table&rows=$rows", { lookups => \%lookups });
}
is(lookups('contact', 4000, parentcustomerid => { table => 'account', filled => 0.5, skew => 1 })
	->json->{rows}, 4000, 'seeded with lookups');
my %employees;
$employees{ $_->{_parentcustomerid_value} // '' }++
  for @{ $s->get('contacts?$select=_parentcustomerid_value')->json->{value} };
my $without = delete $employees{''};
cmp_ok(abs($without - 2000), '<', 200, 'half of them');
my @accounts = map { $employees{ $_->{accountid} } // 0 }
  @{ $s->get('accounts?$select=accountid&$orderby=accountid')->json->{value} };
is(sum(@accounts), 4000 - $without, 'refer to accounts');
cmp_ok($accounts[0], '>', 200, 'the first one has many contacts');
cmp_ok($accounts[0], '>', 5 * $accounts[19], 'the twentieth has few');
is(scalar @{ $s->get("contacts?\$filter=parentcustomerid_account/accountid ne null&\$select=contactid")
	->json->{value} }, 4000 - $without, 'of the right table');
is(lookups('account', 10, parentaccountid => {})->status, 200, 'to the table itself');
is(lookups('task', 100, regardingobjectid => { table => 'contact' })->status, 200, 'another target');
is(scalar @{ $s->get('tasks?$filter=regardingobjectid_contact_task/contactid ne null')
	->json->{value} }, 100, 'all of which refer to a row');
for my $case (
	[ 'an unknown column', { lookups => { nothing => {} } } ],
	[ 'not a lookup', { lookups => { lastname => {} } } ],
	[ 'not a target', { lookups => { parentcustomerid => { table => 'task' } } } ],
	[ 'nothing to refer to', { lookups => { transactioncurrencyid => {} } } ],
	[ 'too full', { lookups => { parentcustomerid => { filled => 1.5 } } } ],
	[ 'too skewed', { lookups => { parentcustomerid => { skew => 11 } } } ],
	[ 'no number', { lookups => { parentcustomerid => { skew => '1' } } } ],
	[ 'an unknown member', { lookups => { parentcustomerid => { skewed => 1 } } } ],
	[ 'no object', { lookups => [] } ],
	[ 'an unknown part', { columns => {} } ],
	[ 'a list', [] ])
{
	$r = $s->control('POST', '/_dvsim/seed?table=contact&rows=1', $case->[1]);
	is($r->status, 400, "seed, $case->[0]");
	ok($r->json->{error}, 'with a message');
}
is(stats()->{tables}{contact}, 4000, 'and nothing is seeded');

# ---------------------------------------------------------------- quirks

my @quirks = Dvsim::all_quirks();
cmp_ok(scalar @quirks, '>', 3, 'the help lists quirks');
is_deeply($s->control('GET', '/_dvsim/quirks')->json, [], 'none is on');
is_deeply($s->control('POST', '/_dvsim/quirks', \@quirks)->json, \@quirks, 'all are turned on');
is_deeply($s->control('POST', '/_dvsim/quirks', [ 'no-in' ])->json, ['no-in'], 'only one is left');
is($s->control('POST', '/_dvsim/quirks', [ 'batch-250', 'no-such' ])->status, 400, 'an unknown one is refused');
is($s->control('POST', '/_dvsim/quirks', { 'no-in' => 1 })->status, 400, 'and so is a body that is not a list');
is_deeply($s->control('GET', '/_dvsim/quirks')->json, ['no-in'], 'and nothing has changed');
is_deeply($s->control('POST', '/_dvsim/quirks', [])->json, [], 'none is left');
{
	my $other = Dvsim->start('--quirk', 'no-in', '--quirk=lagging-jobs');
	is_deeply($other->control('GET', '/_dvsim/quirks')->json, [ 'lagging-jobs', 'no-in' ], 'as flags');
}

# ---------------------------------------------------------------- requests

my $from = requests()->{next};
my $body = "{\"name\":\"J\x{f6}rg \\\"x\\\"\"}";
utf8::encode(my $bytes = $body);
$s->post('accounts', $bytes, Prefer => [ 'a=b', 'c' ], 'X-Odd' => '"q" \\');
$s->get('accounts?$top=3&$select=name');
$s->get('nothings');
my $log = requests($from);
is(scalar @{ $log->{requests} }, 3, 'three requests since then');
is($log->{next}, $from + 3, 'next');
my ($create, $read, $error) = @{ $log->{requests} };
is($create->{n}, $from + 1, 'numbered');
is($create->{method}, 'POST', 'method');
is($create->{target}, '/api/data/v9.2/accounts', 'target');
is($create->{body}, $body, 'body verbatim');
is($create->{headers}{'X-Odd'}, '"q" \\', 'headers verbatim');
is($create->{headers}{Prefer}, 'a=b, c', 'repeated headers are joined');
is($create->{user}, 'app1', 'user');
is($create->{status}, 204, 'status');
is($create->{kind}, 'create', 'kind');
is($create->{rows}, 1, 'rows');
is($create->{fault}, undef, 'no fault');
like($create->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/, 'time');
cmp_ok($create->{duration_ms}, '>', 0, 'duration');
is($read->{target}, '/api/data/v9.2/accounts?$top=3&$select=name', 'target with query');
is($read->{kind}, 'read', 'a read');
is($read->{rows}, 3, 'of three rows');
is($error->{status}, 404, 'errors too');
is_deeply(requests($log->{next})->{requests}, [], 'nothing since');

$from = $log->{next};
$s->post('accounts', "\xff\xfe{", 'Content-Type' => 'application/json');
is(requests($from)->{requests}[0]{body}, "\xff\xfe{", 'bytes that are not UTF-8');
$from = requests()->{next};
$s->post('accounts', '[' . ' ' x 1_100_000 . ']');
$r = requests($from)->{requests}[0];
is(length $r->{body}, 1 << 20, 'long bodies are cut');
ok($r->{body_cut}, 'and marked as such');
is($s->control('GET', '/_dvsim/requests?since=x')->status, 400, 'since must be a number');
is($s->request('HEAD', 'WhoAmI')->status, 200, 'HEAD');
is(requests()->{requests}[-1]{method}, 'HEAD', 'shown as received');
is(scalar(grep { $_->{target} =~ /_dvsim/ } @{ requests()->{requests} }), 0,
	'requests to the control plane are not recorded');
ok(scalar(grep { $_->{kind} && $_->{kind} eq 'token' } @{ requests()->{requests} }),
	'token requests are');

my $small = Dvsim->start('--journal-bytes', 10_000);
$small->get("WhoAmI?tag=$_") for 1 .. 60;
my $kept = $small->control('GET', '/_dvsim/requests')->json;
is($kept->{next}, 61, 'a small journal numbers all');
cmp_ok(scalar @{ $kept->{requests} }, '<', 50, 'but keeps few');
is($kept->{requests}[-1]{target}, '/api/data/v9.2/WhoAmI?tag=60', 'the newest');
my $none = Dvsim->start('--journal-bytes', 0);
is($none->get('WhoAmI')->status, 200, 'without a journal');
is_deeply($none->control('GET', '/_dvsim/requests')->json->{requests}, [], 'nothing is kept');

# ---------------------------------------------------------------- stats

my $stats = stats();
my $user = $stats->{users}{app1};
is($user->{requests}{create} >= 1, 1, 'requests by kind');
is($user->{rows}{read} >= 8, 1, 'rows by kind');
is($user->{in_flight}, 0, 'nothing in flight');
is($user->{peak_in_flight}, 1, 'peak in flight');
is_deeply($user->{throttles}, {}, 'no throttles');
cmp_ok($stats->{bytes}{in}, '>', 1_000_000, 'bytes in');
cmp_ok($stats->{bytes}{out}, '>', 100, 'bytes out');
is($stats->{requests}, requests()->{next}, 'requests');
$s->get('WhoAmI');
is(stats()->{requests}, $stats->{requests} + 1, 'the control plane is not counted');

# ---------------------------------------------------------------- clock

my $clock = $s->control('GET', '/_dvsim/clock')->json;
is($clock->{time_scale}, 1, 'time scale');
cmp_ok(abs($clock->{unix} - time), '<', 60, 'now');
for my $advance ('90s', '1.5min', 90, '90000ms')
{
	my $then = $s->control('GET', '/_dvsim/clock')->json->{elapsed};
	my $now = $s->control('POST', '/_dvsim/clock', { advance => $advance })->json->{elapsed};
	cmp_ok($now - $then, '>=', 90, "advance by $advance");
	cmp_ok($now - $then, '<', 110, 'and little more');
}
is($s->control('POST', '/_dvsim/clock?advance=1h')->status, 200, 'advance in the query');
for my $bad ({ advance => -1 }, { advance => 'soon' }, {}, { advance => '1 h' }, [])
{
	is($s->control('POST', '/_dvsim/clock', $bad)->status, 400, 'no jump');
}
$s->forget_token;
my $id = $s->create('accounts', { name => 'late' });
my ($created) = $s->get("accounts($id)?\$select=createdon")->json->{createdon} =~ /^(.*)Z$/;
my ($now) = $s->control('GET', '/_dvsim/clock')->json->{now} =~ /^(.{19})/;
cmp_ok($created, 'le', $now, 'rows are created at virtual time');
cmp_ok($created, 'gt', substr($clock->{now}, 0, 19), 'not at real time');

my $fast = Dvsim->start('--time-scale', 1000);
my $t0 = $fast->control('GET', '/_dvsim/clock')->json->{elapsed};
sleep 0.2;
cmp_ok($fast->control('GET', '/_dvsim/clock')->json->{elapsed} - $t0, '>=', 200,
	'virtual time runs at the specified speed');

# an advance of the clock completes waiting answers
$s->control('POST', '/_dvsim/faults', [ { action => 'delay', delay_ms => 100_000 } ]);
my $start = time;
my $waiting = $s->spawn('GET', 'WhoAmI');
for (1 .. 500)
{
	last if stats()->{users}{app1}{in_flight};
	sleep 0.01;
}
$s->control('POST', '/_dvsim/clock', { advance => '200s' });
is($waiting->result->status, 200, 'a waiting answer completes after an advance of the clock');
cmp_ok(time - $start, '<', 90, 'long before its real time');

# ---------------------------------------------------------------- reset

$s->control('POST', '/_dvsim/faults', [ { status => 500, times => 0 } ]);
is($s->control('POST', '/_dvsim/reset')->status, 200, 'reset');
$stats = stats();
is($stats->{tables}{account}, 0, 'no rows');
is($stats->{requests}, 0, 'no requests');
is_deeply($stats->{users}{app1}{requests}, {}, 'no counters');
is_deeply($s->control('GET', '/_dvsim/faults')->json, [], 'no faults');
is_deeply(requests()->{requests}, [], 'no journal');
$s->forget_token;
is($s->get('WhoAmI')->status, 200, 'the users still exist');
$s->control('POST', '/_dvsim/seed?table=account&rows=250');
is($s->get('accounts?$select=name&$orderby=accountid&$top=5')->body =~ s/W\/[^,]*,//gr,
	$names =~ s/W\/[^,]*,//gr, 'seeded rows are the same');

# ---------------------------------------------------------------- missing paths and methods

is($s->control('GET', '/_dvsim/nothing')->status, 404, 'unknown');
is($s->control('GET', '/_dvsim/reset')->status, 405, 'wrong method');
is($s->control('PUT', '/_dvsim/clock')->status, 405, 'wrong method');

ok($s->stop, 'ends cleanly');
my @lines = split /\n/, Dvsim::slurp("$dir/log");
cmp_ok(scalar @lines, '>', 10, 'log file');
like($lines[0],
	qr{^\S+Z\ 1\ app1\ token\ 200\ [\d.]+ms\ in=\d+\ out=\d+\ rows=0\ retry_after=-\ fault=-
	\ POST\ /tenant/oauth2/v2.0/token$}x,
	'a line of it');

# ---------------------------------------------------------------- files and flags

my $data = "$dir/rows.db";
my $one = Dvsim->start('--data', $data);
$id = $one->create('accounts', { name => 'kept' });
ok($one->stop, 'ends');
my $two = Dvsim->start('--data', $data);
is($two->get("accounts($id)?\$select=name")->json->{name}, 'kept', '--data keeps rows');
is($two->get('WhoAmI')->status, 200, 'and users');

# acknowledged writes are in the file, however dvsim ends
my @acknowledged = map { $two->create('accounts', { name => "n$_" }) } 1 .. 20;
my $many = $two->post('accounts/Microsoft.Dynamics.CRM.CreateMultiple', {
	Targets => [ map { { '@odata.type' => 'Microsoft.Dynamics.CRM.account', name => "m$_" } }
			1 .. 300 ] });
is($many->status, 200, 'rows in bulk');
my $copy = "$dir/killed.db";
kill 'STOP', $two->pid;
system('cp', "$data$_", "$copy$_") for grep { -e "$data$_" } '', '-wal';
kill 'CONT', $two->pid;
my $three = Dvsim->start('--data', $copy);
is($three->control('GET', '/_dvsim/stats')->json->{tables}{account}, 321,
	'a kill loses no row and no part of a row');
is($three->get("accounts($_)?\$select=name")->status, 200, 'an acknowledged row exists')
  for $acknowledged[0], $acknowledged[19], $many->json->{Ids}[299];
my $late = $three->create('accounts', { name => 'late' });
cmp_ok($three->get("accounts($late)?\$select=versionnumber")->json->{versionnumber}, '>',
	$two->get("accounts($acknowledged[19])?\$select=versionnumber")->json->{versionnumber},
	'versions continue from the last one');
ok($_->stop, 'ends') for $two, $three;

my $program = $ENV{DVSIM} // "$FindBin::Bin/../dvsim";
for my $damage ([ 'no data file', 0 ], [ 'a damaged one', 8192 ])
{
	my ($what, $from) = @$damage;

	open my $file, '+<:raw', $copy or die "$copy: $!";
	seek $file, $from, 0;
	print {$file} "\xff" x ((-s $copy) - $from);
	close $file;
	my $said = `timeout 20 $program --data $copy --ready-file $dir/never 2>&1`;
	is($? >> 8, 1, "$what: refused");
	like($said, qr/^dvsim: .*(?:\Q$copy\E|malformed)/m, "$what: with a message");
	system('cp', $data, $copy);
}

like(scalar `$program --version`, qr/^dvsim \d+\.\d+/, '--version');
my $help = `$program --help`;
like($help, qr/^  --$_\b/m, "--help describes --$_")
  for qw(listen tls schema data seed app-user dop limit-requests limit-exec limit-concurrent
  window web-servers time-scale latency ready-file log token-lifetime limit-scope delta-token);
for my $bad ('--nothing', '--seed', '--seed x', '--dop 0', '--limit-exec soon', '--window 0',
	'--time-scale 0', '--time-scale -1', '--limit-scope all', '--delta-token soon', '--listen 127.0.0.1',
	'--listen 127.0.0.1:99999', '--app-user alone', '--app-user a:1 --app-user a:2',
	'--app-user a:@/nonexistent', '--latency nonsense', '--schema /nonexistent',
	'--log /nonexistent/log', '--tls=yes', '--listen nowhere.invalid:0')
{
	my $said = `timeout 20 $program --ready-file $dir/never $bad 2>&1`;
	is($? >> 8, 1, "$bad: refused");
	like($said, qr/\S/, "$bad: with a message");
}

done_testing;
