# write_timeouts.pl
#		A service whose database is too slow, for large requests or for all: batches
#		are halved, the halves share the retries of one request, and a statement ends
#		when single rows fail one after another, unless other rows are written at the
#		same time.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('write_timeouts', users => 1, options => { max_retries => 3, batch_size => 100 });
my $timeout = { status => 500, code => '0x80044151', message => 'SQL timeout expired.', method => 'POST', path => '/api/data/', times => 0 };

# the writes, and how often requests with this number of rows were sent
sub writes { return grep { $_->{method} eq 'POST' && $_->{kind} ne 'token' } @{ $w->dvsim->control('GET', '/_dvsim/requests')->json->{requests} }; }

sub times_by_size
{
	my %times;
	$times{ scalar(() = $_->{body} =~ /"new_number":/g) }++ for writes();
	return \%times;
}

for my $go_on (0, 1)
{
	my $what = $go_on ? 'on_error = continue' : 'on_error = abort';

	$w->reset;
	faults($w->dvsim, $timeout);
	my $r = $w->run($w->insert('standard', 1, 100), settings => [ $go_on ? "SET dataverse_fdw.on_error = 'continue'" : () ]);
	is($r->{sqlstate}, 'HV00L', "$what: everything times out: the statement fails");
	like($r->{message}, qr/SQL timeout expired/, '... with the message of the service');
	like($r->{hint} // '', qr/sent singly failed as well/, '... in spite of on_error = continue') if $go_on;
	my $times = times_by_size();
	is($times->{100}, 2, '... the batch was sent twice');
	is($times->{50}, 2, '... and each half once');
	cmp_ok($times->{1}, '<=', 200, '... single rows no more often than a request may be retried');
	cmp_ok(scalar(writes()), '<=', 2 + 4 + 4 + 8 + 16 + 32 + 64 + 200, '... in a bounded number of requests');
	clear_faults($w->dvsim);
	is($w->rows_there('standard'), 0, '... and no row was written');
	is($w->watcher->value('SELECT count(*) FROM dataverse.rejects'), 0, '... nor filed');
}

# ---- some rows fail, and others are written at the same time

$w->set(max_retries => 1);

# Inserts this number of rows singly while these parts of a $batch time out; all that time out are filed.
sub files
{
	my ($rows, $batch_size, $parts, $times, $filed, $what) = @_;

	$w->reset;
	$w->watcher->query(q{DELETE FROM dataverse.rejects});
	faults($w->dvsim, map { { %$timeout, path => '$batch', batch_part => $_, times => $times } } 1 .. $parts);
	my $r = $w->run($w->insert('single', 1, $rows),
		settings => [ "SET dataverse_fdw.on_error = 'continue'", "SET dataverse_fdw.batch_size = $batch_size" ]);
	is(hits($w->dvsim), 2 * $filed, "$what time out twice");
	clear_faults($w->dvsim);
	is($r->{tag}, 'INSERT 0 ' . ($rows - $filed), '... the others are written and counted') || diag($r->{message});
	is($w->rows_there('single'), $rows - $filed, '... and exist');
	is($w->watcher->query('SELECT count(*), count(DISTINCT row_number), min(code) FROM dataverse.rejects'), "$filed|$filed|0x80044151",
		'... and those that time out are filed');
	return;
}

files(50, 100, 10, 2, 10, 'ten rows of a batch');
# one abandoned request, whatever its number of rows, does not prove that the service is down
files(10, 100, 10, 2, 10, 'all rows of a batch');
# nor do several, if rows have been written since their first attempts
files(80, 10, 1, 0, 8, 'the first rows of eight batches');

# ---- rows that are slow themselves, before any other has been written

my $r;

for my $rows (300, 100)
{
	$w->reset;
	$w->set(max_parallel => 1);
	$w->watcher->query('TRUNCATE dataverse_private.rejected_rows');
	faults($w->dvsim, map { { %$timeout, contains => "\"row $_ of 1\"" } } 1 .. 4);
	$r = $w->run($w->insert('standard', 1, $rows), settings => ["SET dataverse_fdw.on_error = 'continue'"]);
	clear_faults($w->dvsim);
	is($r->{tag}, 'INSERT 0 ' . ($rows - 4), "the first four of $rows rows time out: the others are written") || diag($r->{message});
	is($w->watcher->value("SELECT string_agg(row_number::text, ' ' ORDER BY row_number) FROM dataverse.rejects"), '1 2 3 4', '... and these are filed');
	$w->is_whole('standard', '... each', upto => $rows, where => 'N > 4');
}
$w->set(max_parallel => 52);

# ---- a statement that fails after it has filed rows

$w->reset;
$w->set(max_parallel => 1);
faults($w->dvsim,
	{ path => 'CreateMultiple', contains => '"row 7 of 1"', status => 400, code => '0x80040265', message => 'no sevens', times => 0 },
	{ path => '$batch', batch_part => 7, status => 400, code => '0x80040265', message => 'no sevens', times => 0 },
	{ path => 'CreateMultiple', contains => '"row 145 of 1"', status => 403, code => '0x80072560', message => 'user is gone', times => 0 });
$r = $w->run($w->insert('standard', 1, 200), settings => [ "SET dataverse_fdw.on_error = 'continue'", 'SET dataverse_fdw.batch_size = 10' ]);
clear_faults($w->dvsim);
like($r->{message} // '', qr/: user is gone$/, 'the user fails after a row was refused');
like($r->{detail} // '', qr/^1 row was refused earlier\.  dataverse\.rejects does not contain it, because it is rolled back with the statement\.\nRefused row: 7 \(\S+\): no sevens$/m,
	'... the error quotes the row');
is($w->watcher->value("SELECT count(*) FROM dataverse.rejects WHERE message = 'no sevens'"), 0, '... because it is no longer filed');
$w->set(max_parallel => 52);

# ---- a change set in which another row fails each time

my $deadlock = 'Generic SQL error. CRM ErrorCode: -2147204784 Sql ErrorCode: -2146232060 Sql Number: 1205';
my @every_second = map { { path => '$batch', batch_part => 2 * $_, every => 2, times => 0, status => 400, code => '0x80044150', message => $deadlock } } 1 .. 50;
my $unlike = { path => 'CreateMultiple', status => 400, code => '0x80040216', message => 'An unexpected error occurred.', times => 0 };

$w->set(max_retries => 1000);
$w->reset;
faults($w->dvsim, @every_second, $unlike);
$r = $w->run($w->insert('single', 1, 200));
is($r->{tag}, 'INSERT 0 200', 'rows fail by turns in change sets: the statement ends') || diag($r->{message});
cmp_ok(hits($w->dvsim), '>', 50, '... although they do');
clear_faults($w->dvsim);
my @sets = grep { /boundary=changeset/ } map { $_->{body} } writes();
cmp_ok(scalar(@sets), '<=', 4, '... after no more than two for each batch');
$w->is_whole('single', '... each row is written once', upto => 200);

$w->reset;
$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_serial) VALUES (md5('taken')::uuid, 'S7')");
faults($w->dvsim, @every_second);
$r = $w->run("INSERT INTO dv.new_meter (new_number, new_name, new_serial) SELECT n, 'row ' || n, 'S' || n FROM generate_series(1, 50) n");
is($r->{sqlstate}, '23505', '... and a refused row ends it');
like($r->{detail} // '', qr/Refused row: 7 /, '... and is named');
my ($stay) = ($r->{detail} // '') =~ /(\d+) rows? of this statement ha(?:s|ve) been written/;
is($w->rows_there('standard'), 1 + ($stay // 0), '... with the number of written rows');

$w->stop;
done_testing();
