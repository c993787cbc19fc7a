# faults_insert.pl
#		Fault matrix, INSERT: whatever the network and the service do,
#		each row arrives once.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $n = WriteTest::ROWS;
my $w = WriteTest->start('faults_insert', data => 1);

# ids made by the extension, ids given by the user, single requests, two requests for each row
for my $row ([ 'standard' ], [ 'elastic' ], [ 'standard', given => 1, few => 1 ], [ 'single', few => 1 ],
	[ 'inactive', few => 1 ])
{
	my ($kind, %how) = @$row;

	$w->row(
		operation => 'Create',
		kind => $kind,
		few => $how{few},
		sql => $w->insert($kind, 1, $n, given => $how{given}),
		tag => "INSERT 0 $n",
		whole => { upto => $n, given => $how{given} });
}

# every other row exists already, and remains as it is; rows that a first attempt has written before its answer
# was lost must not be mistaken for existing ones
$w->row(
	operation => 'Create',
	what => 'half of them duplicates',
	kind => 'standard',
	few => 1,
	prepare => sub {
		# these were written long ago
		$w->watcher->query($w->insert('standard', 1, $n, given => 1, where => 'n % 2 = 0')
			  =~ s/ \(/ (overriddencreatedon, /r =~ s/SELECT /SELECT '2020-02-20', /r);
	},
	sql => $w->insert('standard', 2, $n, given => 1, behind => ' ON CONFLICT DO NOTHING'),
	tag => 'INSERT 0 ' . ($n - int($n / 2)),
	whole => { upto => $n, given => 1, generation => 'CASE WHEN N % 2 = 0 THEN 1 ELSE 2 END' });

# some rows are refused, and all others are written
my $bad = int($n / 97);
$w->row(
	operation => 'Create',
	what => 'some of them bad',
	kind => 'standard',
	few => 1,
	path => '/api/data',
	settings => ['SET dataverse_fdw.on_error = continue'],
	# this choice does not exist
	sql => $w->insert('standard', 1, $n) =~ s/ \(/ (new_kind, /r =~ s/SELECT /SELECT CASE WHEN n % 97 = 0 THEN 4711 END, /r,
	tag => 'INSERT 0 ' . ($n - $bad),
	whole => { upto => $n, where => 'N % 97 <> 0' });

# ---- a refused row ends the statement, whose error names the row and says which rows stay

for my $kind ('standard', 'elastic')
{
	my $choice = $kind eq 'standard' ? 'new_kind' : 'new_quality';

	for my $rule (
		{ action => 'reset_after_commit' },
		{ action => 'truncate' },
		{ action => 'garble' },
		{ status => 429, code => '0x80072322', retry_after => 0 },
		{ status => 429, code => '0x80072322', retry_after => 0, batch_part => 7, path => '$batch', every => 1, times => 2 })
	{
		my $what = "a bad row, $kind, " . join ' ', map { $rule->{$_} // () } qw(action status batch_part);
		my ($r, $stay, $doubt, $there);

		$w->reset;
		faults($w->dvsim, { path => '/api/data', every => 5, times => 0, %$rule });
		$r = $w->run($w->insert($kind, 1, 3000) =~ s/ \(/ ($choice, /r =~ s/SELECT /SELECT CASE WHEN n = 1511 THEN 4711 END, /r);
		clear_faults($w->dvsim);
		like($r->{message} // 'none', qr/The value 4711 of '$choice'/, "$what: the statement fails for that reason") || diag explain $r;
		like($r->{detail} // 'none', qr/^Refused row: 1511\b/, "$what: and names it");
		($stay) = ($r->{detail} // '') =~ /^(\d+) rows of this \w+ have been written to Dataverse and stay there/m;
		($doubt) = ($r->{detail} // '') =~ /^(\d+) more rows were sent without/m;
		$there = $w->rows_there($kind);
		cmp_ok($there, '>=', $stay, "$what: $stay rows stay, $there are there");
		cmp_ok($there, '<=', $stay + ($doubt // 0), "$what: no more than it says");
	}
}

# ---- without ids, the outcome may be unknown: the statement fails, and says for how many rows

$w->set(generate_ids => 'off');
for my $rule (
	{ action => 'reset_after_commit' },
	{ action => 'reset_before_commit' },
	{ action => 'truncate' },
	{ action => 'garble' },
	{ status => 502 })
{
	my $what = 'no ids, ' . ($rule->{action} // $rule->{status});
	my ($r, $stay, $doubt, $there);

	$w->reset;
	faults($w->dvsim, { path => 'CreateMultiple', after => 5, %$rule });
	$r = $w->run($w->insert('standard', 1, 1000));
	like($r->{sqlstate} // 'none', qr/^(?:08|HV)/, "$what: the statement fails") || diag explain $r;
	($stay) = ($r->{detail} // '') =~ /^(\d+) rows of this \w+ have been written to Dataverse and stay there/m;
	($doubt) = ($r->{detail} // '') =~ /^(\d+) more rows were sent without/m;
	is($doubt, WriteTest::BATCH, "$what: one batch is in doubt");
	$there = $w->rows_there('standard');
	cmp_ok($there, '>=', $stay, "$what: $stay rows stay, $there are there");
	cmp_ok($there, '<=', $stay + $doubt, "$what: no more than it says");
	like($r->{detail} // '', qr/without a conclusive answer/, "$what: the error says so, too");
}

# what was certainly refused is sent again
$w->reset;
faults($w->dvsim, { path => 'CreateMultiple', every => 5, times => 0, status => 429, code => '0x80072322', retry_after => 0 });
{
	my $r = $w->run($w->insert('standard', 1, 1000));

	is($r->{tag}, 'INSERT 0 1000', 'no ids, 429: every row is written') || diag explain $r;
	clear_faults($w->dvsim);
	$w->is_whole('standard', 'no ids, 429', upto => 1000);
}

$w->stop;
done_testing();
