# broken_pages.pl
#		Reads whose answers are not pages: flipped bits, bodies truncated at any
#		byte, other statuses than 200, empty answers, HTML.  The page is requested
#		again, and each row is returned once, in order; or the query fails.  A
#		broken page is never taken for the end.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $rows = 300;
my $page = 100;
my $crm = Crm->start('pages');
my $seed = $ENV{SEED} || int(rand(1_000_000));

diag "SEED=$seed";
srand $seed;
$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, new_reading) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '$page');
	CREATE SCHEMA l;
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, revenue FROM dv.account;});

# all rows in their order
my %ask = (
	plain => 'SELECT accountid, name, numberofemployees FROM dv.account',
	ordered => 'SELECT numberofemployees, accountid FROM dv.account ORDER BY numberofemployees DESC NULLS FIRST',
	filtered => q{SELECT accountid FROM dv.account WHERE name LIKE 'A%' AND length(name) > 3},
	without_id => 'SELECT name FROM dv.account WHERE revenue IS NOT NULL',
	number => 'SELECT count(*) FROM dv.account',
	greatest => 'SELECT max(numberofemployees) FROM dv.account');
my %answer = map { $_ => $crm->sql($ask{$_}) } keys %ask;

is(scalar(split /\n/, $answer{plain}), $rows, 'rows exist');

sub page_like { return { path => '/accounts', %{ $_[0] } }; }

# Asks one question under these fault rules; returns the messages and the error.
sub under
{
	my ($name, @rules) = @_;
	my ($out, $err);

	$crm->fault(%{ page_like($_) }) for @rules;
	$crm->node->psql('postgres', $ask{$name}, stdout => \$out, stderr => \$err, on_error_stop => 0);
	$crm->no_faults;
	return ($out, $err);
}

sub survives
{
	my ($what, $name, @rules) = @_;
	my ($out, $err) = under($name, @rules);

	is($err, '', "$name: $what");
	# shorten long lists of differences
	ok($out eq $answer{$name}, '… and each row is returned once, in order')
	  or diag scalar(split /\n/, $out), ' rows instead of ', scalar(split /\n/, $answer{$name});
	return;
}

# ---- any page of any query, once or twice

my @lengths = (0, 1, 10, 60, 100, 500, 3000, 8000, map { int rand 12_000 } 1 .. 8);

for my $bytes (@lengths)
{
	my ($name) = (sort keys %ask)[ rand keys %ask ];
	my @actions = sort { rand() <=> 0.5 } qw(garble shorten truncate);

	survives("$actions[0] and $actions[1] after $bytes bytes", $name,
		map { { action => $actions[$_], bytes => $bytes, after => 2 * $_ } } 0, 1);
}
survives('shorter and shorter', 'plain', map { { action => 'shorten', bytes => $_ } } 7000, 6000, 3000);
survives('longer and longer', 'ordered', map { { action => 'garble', bytes => $_, after => 1 } } 10, 2000, 4000, 5000);
survives('every page is broken once', $_, map { { action => 'garble', bytes => 900, after => 2 * $_ } } 0 .. 3)
  for sort keys %ask;
{
	my @names = sort keys %ask;

	for my $case (
		[ 206, '{"value":[]}', '206 with an empty page' ],
		[ 206, '{"value":[{"accountid":"00000000-0000-0000-0000-000000000001"}]}', '206 with a row' ],
		[ 204, undef, '204' ], [ 201, '{"value":[]}', '201' ], [ 203, '{"value":[]}', '203' ], [ 304, undef, '304' ],
		[ 200, '', 'nothing' ], [ 200, '<html><body>Sign in</body></html>', 'HTML' ],
		[ 200, '{}', 'no rows at all' ], [ 200, '[]', 'an array' ], [ 200, '{"value":[', 'a beginning' ])
	{
		my ($status, $body, $what) = @$case;

		push @names, my $name = shift @names;
		survives("$what, on two pages", $name, map { { status => $status, body => $body // '', after => 2 * $_ } } 0, 1);
	}
}

# ---- the error names the problem once the retries are used up

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retries '2')});
for my $case (
	[ { status => 206, body => '{"value":[]}' }, qr/It has HTTP status 206, not 200/ ],
	[ { status => 200, body => '<html>' }, qr/At byte 0: / ],
	[ { action => 'garble', bytes => 3000 }, qr/At byte \d+: / ],
	[ { status => 204, body => '' }, qr/HTTP status 204/ ])
{
	my ($rule, $said) = @$case;
	my ($out, $err) = under('plain', { %$rule, times => 0 });

	like($err, qr/ERROR:  could not read foreign table "account" on server "crm": an answer from Dataverse was incomplete\n/, 'a page that stays broken is an error');
	like($err, $said, '… that names the problem');
	($out, $err) = under('plain', { %$rule, times => 0, after => 2 });
	like($err, qr/was incomplete/, '… also for the last page');
	($out, $err) = under('plain', { %$rule, times => 3 });
	like($err, qr/was incomplete/, '… after three attempts');
	($out, $err) = under('plain', { %$rule, times => 2 });
	is($err, '', '… and not after two');
}
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_retries)});

# ---- cursors that have returned rows of a page before it breaks, and changes in between

{
	my $base = $crm->dvsim->base;
	my ($out, $err);
	my @ids = map { (split /\|/)[0] } split /\n/, $answer{plain};
	my $row = sub { return "\\! curl -s -o /dev/null $_[0]\n" };
	my $fault = qq{\\! curl -s -o /dev/null -d '[{"path":"/accounts","action":"garble","bytes":5000}]' $base/_dvsim/faults\n};

	$crm->node->psql('postgres',
		"BEGIN;\n$fault"
		  . "DECLARE c CURSOR FOR SELECT accountid FROM dv.account; FETCH 20 FROM c; SAVEPOINT s; FETCH 10 FROM c; ROLLBACK TO s; FETCH ALL FROM c; COMMIT;",
		stdout => \$out, stderr => \$err);
	my @got = $out =~ /^([0-9a-f-]{36})$/mg;

	is($err, '', 'a cursor continues');
	is_deeply(\@got, \@ids, '… with each row once');
	$crm->no_faults;

	# the service loses the row that was read last, and gets one before all others
	$crm->node->psql('postgres',
		"BEGIN;\n$fault"
		  . "DECLARE c CURSOR FOR SELECT accountid FROM dv.account; FETCH 20 FROM c;\n"
		  . "DELETE FROM dv.account WHERE accountid = '$ids[19]';\n"
		  . "INSERT INTO dv.account (accountid, name) VALUES ('ffffffff-ffff-ffff-0000-000000000000', 'first');\n"
		  . 'FETCH ALL FROM c; COMMIT;',
		stdout => \$out, stderr => \$err);
	@got = $out =~ /^([0-9a-f-]{36})$/mg;
	my %times;
	$times{$_}++ for @got;
	is($err, '', 'rows that appear and disappear do no harm');
	is(join(' ', grep { $times{$_} > 1 } keys %times), '', '… no row is returned twice');
	is(join(' ', grep { !$times{$_} } @ids), '', '… and none is missing');
	$crm->no_faults;
}

# ---- a cursor whose next page was refused and awaits a retry when the subtransaction that requested it ends

{
	my ($out, $err);
	my $base = $crm->dvsim->base;

	$crm->node->psql('postgres',
		"BEGIN; SET dataverse_fdw.scan_parallelism = 1; DECLARE c CURSOR FOR SELECT accountid FROM dv.account; FETCH 20 FROM c; SAVEPOINT s;\n"
		  . qq{\\! curl -s -o /dev/null -d '[{"path":"/accounts","action":"status","status":503,"times":1}]' $base/_dvsim/faults\n}
		  . "FETCH 100 FROM c; SELECT count(*) FROM generate_series(1, 10), dataverse.whoami('crm'); ROLLBACK TO s; FETCH ALL FROM c; COMMIT;",
		stdout => \$out, stderr => \$err);
	$crm->no_faults;
	my %got = map { $_ => 1 } $out =~ /^([0-9a-f-]{36})$/mg;
	is($err, '', 'a cursor retries a request of an ended subtransaction');
	is(scalar(keys %got), $crm->sql('SELECT count(*) FROM dv.account'), '… and returns each row');
}

# ---- elastic tables, whose ids need not be unique across partitions: pages are checked before they are used

$crm->sql(q{INSERT INTO dv.new_reading (new_name, partitionid) SELECT 'm' || i, 'p' || i % 3 FROM generate_series(1, 60) i;
	ALTER FOREIGN TABLE dv.new_reading OPTIONS (ADD page_size '20')});
my $meters = $crm->sql('SELECT new_name, partitionid FROM dv.new_reading ORDER BY length(new_name), new_name');
is(scalar(split /\n/, $meters), 60, 'three partitions have rows');
for my $bytes (@lengths)
{
	$crm->fault(path => '/new_readings', action => (qw(garble shorten))[ $bytes % 2 ], bytes => int($bytes / 3), after => $bytes % 3);
	is($crm->sql('SELECT new_name, partitionid FROM dv.new_reading ORDER BY length(new_name), new_name'), $meters, "elastic: $bytes");
	$crm->no_faults;
}

$crm->stop;
done_testing;
