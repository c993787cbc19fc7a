# write_doubt.pl
#		Rows whose outcome is unknown for a while, and what else may happen to
#		them at the same time: the right outcome of each row is reported once.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('write_doubt', users => 1, options => { max_retries => 3 });
my $since = 0;

# Runs a case: a statement on empty tables, to which the rules apply.
sub run
{
	my ($sql, %how) = @_;
	my $result;

	$w->reset unless $how{keep};
	$how{prepare}->() if $how{prepare};
	$since = $w->dvsim->control('GET', '/_dvsim/requests')->json->{next};
	faults($w->dvsim, @{ $how{rules} }) if $how{rules};
	$result = $w->run($sql, settings => $how{settings});
	$result->{hits} = hits($w->dvsim);
	clear_faults($w->dvsim);
	return $result;
}

# Returns the requests of the last case, without those for tokens.
sub requests
{
	my $log = $w->dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	return grep { $_->{kind} ne 'token' } @{ $log->{requests} };
}

sub notices { return join "\n", map { $_->{message} } @{ $_[0]{notices} }; }

sub ok_tag
{
	my ($result, $tag, $what) = @_;

	is($result->{sqlstate}, undef, "$what: succeeds") || diag("$result->{message}\n" . ($result->{detail} // ''));
	is($result->{tag}, $tag, "$what: its tag");
	return;
}

my $go_on = "SET dataverse_fdw.on_error = 'continue'";
my $busy = { status => 429, code => '0x80072322', message => 'Number of requests exceeded the limit.' };
my $n = 100;
my $r;

# ---------------------------------------------------------------- ids made by the service

$w->watcher->query('CREATE SCHEMA no_ids;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, new_reading, task) FROM SERVER crm INTO no_ids;
	ALTER FOREIGN TABLE no_ids.new_meter OPTIONS (ADD generate_ids $$off$$);
	ALTER FOREIGN TABLE no_ids.new_reading OPTIONS (ADD generate_ids $$off$$);
	ALTER FOREIGN TABLE no_ids.task OPTIONS (ADD generate_ids $$off$$)');

$r = run($w->insert('inactive', 1, $n) =~ s/dv\./no_ids./r);
ok_tag($r, "INSERT 0 $n", 'rows without ids that become inactive');
$w->is_whole('inactive', 'rows without ids that become inactive', upto => $n);

$r = run($w->insert('standard', 1, $n) =~ s/dv\./no_ids./r,
	rules => [ { path => 'CreateMultiple', status => 503, retry_after => 0 } ]);
is($r->{sqlstate}, '57P03', 'a 503 with Retry-After, without ids: the statement fails');
like($r->{detail} // '', qr/^50 more rows were sent without a conclusive answer and may or may not have been written/m, '... and says what is in doubt');
like($r->{detail} // '', qr/^No row was refused\.  The request that failed was to write rows \d+ to \d+\./, '... and not that rows were refused');
is((grep { $_->{status} == 503 } requests()), 1, '... and is not repeated');

# ---------------------------------------------------------------- given ids

# ids that existed before
sub before
{
	my (@rows) = @_;

	$w->watcher->query($w->insert('standard', 0, $n, given => 1, where => 'n IN (' . join(', ', @rows) . ')'));
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 60 });
	return;
}

my $lost = { path => 'Microsoft.Dynamics.CRM.', action => 'reset_after_commit', every => 2, times => 0 };

$r = run($w->insert('standard', 1, $n, given => 1), prepare => sub { before(30) }, rules => [$lost]);
is($r->{sqlstate}, '23505', 'given ids, one there before, lost answers: a duplicate');
like($r->{detail}, qr/Refused row: 30 /, '... which is named');
cmp_ok(scalar(requests()), '<', 12, '... in few requests') or diag(scalar requests());
is($w->watcher->query('SELECT new_name FROM dv.new_meter WHERE new_number = 30'), 'row 30 of 0', '... and is as it was');

$r = run(
	$w->insert('standard', 1, $n, given => 1),
	prepare => sub { before(30, 31, 77) },
	settings => [$go_on],
	rules => [ $lost, { path => '$batch', action => 'reset_after_commit', times => 1 } ]);
ok_tag($r, 'INSERT 0 97', 'the same, going on');
like(notices($r), qr/^3 rows were refused/, '... three are told');
$w->is_whole('standard', '... and', upto => $n, given => 1, generation => 'CASE WHEN N IN (30, 31, 77) THEN 0 ELSE 1 END');

# the same id twice in a batch: only one of the rows is written
$r = run(
	"INSERT INTO dv.new_meter (new_meterid, new_number, new_name)
	 SELECT md5(least(n, 9)::text)::uuid, n, 'x' FROM generate_series(1, 10) n",
	settings => [$go_on],
	rules => [ { path => 'CreateMultiple', action => 'reset_before_commit' } ]);
ok_tag($r, 'INSERT 0 9', 'an id twice in a batch whose answer is lost');
is($w->rows_there('standard'), 9, '... one row');

# rows that are given a time of creation have the real one in another column
$r = run(
	"INSERT INTO dv.new_meter (new_meterid, new_number, overriddencreatedon)
	 SELECT md5(n::text)::uuid, n, CASE WHEN n % 2 = 0 THEN timestamptz '2001-02-03 04:05:06Z' END FROM generate_series(1, $n) n",
	settings => [$go_on],
	rules => [$lost]);
ok_tag($r, "INSERT 0 $n", 'lost answers to rows some of which say when they were created');
is(notices($r), '', '... and none is refused');

# ---------------------------------------------------------------- malformed answers

$r = run(
	$w->update('standard', 2, 'true'),
	prepare => sub { $w->fill('standard', $n) },
	rules => [ { path => 'UpdateMultiple', status => 200, body => '<html>sign in</html>' } ]);
ok_tag($r, "UPDATE $n", 'a page of HTML in answer to an UPDATE');
$w->is_whole('standard', '... which is repeated', upto => $n, given => 1, generation => 2);

# ---------------------------------------------------------------- elastic tables

# a throttle of the whole request whose details have each row
sub partly
{
	my ($outer, @statuses) = @_;
	my $i = 0;
	my $details = encode_json([ map { { RequestIndex => $i++, Id => '00000000-0000-0000-0000-000000000000', StatusCode => $_ } } @statuses ]);

	return {
		path => 'CreateMultiple', %$outer,
		headers => { 'Content-Type' => 'application/json' },
		body => { error => { code => $outer->{code}, message => 'partly',
			'@Microsoft.PowerApps.CDS.ErrorDetails.Plugin.BulkApiErrorDetails' => $details } } };
}

for my $outer ({ status => 429, code => '0x80072322', retry_after => 0 }, { status => 400, code => '0x80048d04' },
	{ status => 503, code => '' }, { status => 400, code => '0x80048d0b' })
{
	my $what = "elastic, $outer->{status} $outer->{code} that tells of rows";

	$r = run($w->insert('elastic', 1, 4), rules => [ partly($outer, 201, 429, 201, 429) ]);
	ok_tag($r, 'INSERT 0 4', $what);
	my @sent = requests();
	is(scalar(@sent), 2, "$what: two requests");
	is(scalar(() = $sent[-1]{body} =~ /odata\.type/g), 2, "$what: only what was throttled goes again");
}

# ---------------------------------------------------------------- throttles of parts

# the change set that should find a bad row is throttled more often than other faults are tolerated
# a serial that is taken
sub taken
{
	$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_serial) VALUES (md5('taken')::uuid, 'S7')");
	return;
}
$w->set(max_throttle_retries => -1);
my $bad = "INSERT INTO dv.new_meter (new_number, new_name, new_serial)
	SELECT n, 'row ' || n, 'S' || n FROM generate_series(1, 50) n";
$r = run($bad, prepare => \&taken, rules => [ { path => '$batch', batch_part => 3, %$busy, retry_after => 0, times => 6 } ]);
is($r->{hits}, 6, 'a change set that is throttled often');
like($r->{detail} // '', qr/Refused row: 7 /, '... names its row') or diag($r->{message});

$w->set(max_throttle_retries => 1);
$r = run($w->delete('standard', 'true'),
	prepare => sub { $w->fill('standard', 10) },
	rules => [ { path => '$batch', batch_part => 1, %$busy, retry_after => 0, times => 3 } ]);
is($r->{sqlstate}, '53400', 'a part that is throttled more often than is borne');
is($r->{hits}, 2, '... which is twice');

# throttles count, too, if they have been waited for as the service asked, and nothing is sent before
for my $how ({ %$busy, retry_after => 1 }, { status => 503, retry_after => 1 }, { status => 400, code => '0x8005F103', retry_after => 1 })
{
	my $what = "a part that is throttled by $how->{status}";

	$r = run($w->delete('standard', 'true'),
		prepare => sub { $w->fill('standard', 10) },
		rules => [ { path => '$batch', batch_part => 1, times => 20, %$how } ]);
	isnt($r->{sqlstate}, undef, "$what: the statement fails");
	is($r->{hits}, 2, '... after two attempts');
	$r = run($bad,
		prepare => \&taken,
		rules => [ { path => '$batch', batch_part => 3, times => 20, %$how } ]);
	isnt($r->{sqlstate}, '23505', "$what, in a change set: the statement fails");
	is($r->{hits}, 2, '... after two attempts');
}

# throttles of the rows of an elastic table, of which the pool does not know
$r = run($w->insert('elastic', 1, 4), rules => [ partly({ status => 400, code => '0x80048d0b', times => 20 }, (429) x 4) ]);
cmp_ok($r->{hits}, '<=', 2, 'rows of an elastic table that are throttled: in few requests');
$w->set(max_throttle_retries => undef);

# ---------------------------------------------------------------- missing rows

# a refusal that has the code of a missing row, but another status, is about something else
for my $kind ('standard', 'elastic')
{
	my %missing = (status => 400, code => '0x80040217', message => 'Entity With Id = 1 Does Not Exist');

	$r = run($w->delete($kind, 'true'),
		prepare => sub { $w->fill($kind, 10) },
		rules => [ { path => 'DeleteMultiple', %missing }, { path => '$batch', batch_part => 3, %missing } ]);
	is($r->{sqlstate}, '23503', "$kind: a row that cannot be deleted is not missing");
	is($w->rows_there($kind), 1, '... and is still there');
}

# ---------------------------------------------------------------- verification

# repeated verification does not change that an id is a duplicate
$w->set(max_retries => 1000);
$r = run($w->insert('standard', 1, $n, given => 1), prepare => sub { before(30) }, rules => [$lost]);
is($r->{sqlstate}, '23505', 'patience does not help against a duplicate');
cmp_ok(scalar(requests()), '<', 15, '... in few requests') or diag(scalar requests());
$w->set(max_retries => undef);

# a change set that was carried out, and whose repetition is refused for another reason
$r = run($w->insert('standard', 1, 50, given => 1),
	rules => [
		{ path => 'CreateMultiple', status => 400, code => '0x80040203', message => 'wrong' },
		{ path => '$batch', action => 'reset_after_commit' },
		{ path => '$batch', after => 1, batch_part => 1, status => 403, code => '0x80040220', message => 'no privilege' } ]);
ok_tag($r, 'INSERT 0 50', 'a change set that was carried out before it was refused');
$w->is_whole('standard', '... and', upto => 50, given => 1);

# ---------------------------------------------------------------- waiting

# a batch that must be repeated needs the only slot, and must wait for it without spinning
sub ticks
{
	open my $stat, '<', "/proc/$_[0]/stat" or return;
	my @fields = split ' ', <$stat> =~ s/^.*\) //r;
	return $fields[11] + $fields[12];
}

SKIP:
{
	my $session = $w->session;
	my $before;

	skip 'no /proc', 1 unless defined ticks($session->pid);
	$w->reset;
	$w->fill('single', 120);
	$session->query('SET dataverse_fdw.max_parallel = 1');
	$session->query('SELECT count(*) FROM dv.task');
	faults($w->dvsim, { path => '$batch', batch_part => 2, %$busy, retry_after => 0, delay_ms => 0 },
		{ path => '$batch', after => 1, action => 'delay', delay_ms => 3000 });
	$before = ticks($session->pid);
	$r = $session->try($w->delete('single', 'true'));
	ok_tag($r, 'DELETE 120', 'a batch that waits for the only slot');
	cmp_ok(ticks($session->pid) - $before, '<', 100, '... does so quietly');
	$session->close;
}

$w->stop;
done_testing();
