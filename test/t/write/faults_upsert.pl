# faults_upsert.pl
#		Fault matrix, upsert: under any fault of the network or the service, each
#		row exists once, with the new values.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use WriteTest;

my $n = WriteTest::ROWS;
my $w = WriteTest->start('faults_upsert', data => 1);

# even numbers exist already; elastic rows are replaced
for my $row ([ 'standard' ], [ 'elastic' ], [ 'key', few => 1 ])
{
	my ($kind, %how) = @$row;
	my $given = $kind ne 'key';

	$w->row(
		operation => 'Upsert',
		kind => $kind,
		few => $how{few},
		prepare => sub { $w->fill($kind, $n, where => 'n % 2 = 0') },
		settings => [ 'SET dataverse_fdw.insert_mode = upsert' ],
		sql => $w->insert($kind, 2, $n, given => $given),
		tag => "INSERT 0 $n",
		whole => { upto => $n, given => $given, generation => 2 });
}

# each row many times in sequence; the last one wins, unless an attempt to write an earlier one
# is carried out after it, which cannot be prevented
for my $kind ('standard', 'elastic')
{
	my $rows = 200;
	my $times = int($n / $rows);

	$w->row(
		operation => 'Upsert',
		what => "$kind, $times times the same rows",
		kind => $kind,
		few => 1,
		not => 'late commits',
		settings => [ 'SET dataverse_fdw.insert_mode = upsert' ],
		sql => $w->insert($kind, 'g', 0, given => 1,
			source => "(SELECT i % $rows + 1 AS n, i / $rows AS g FROM generate_series(0, $times * $rows - 1) i) s"),
		tag => 'INSERT 0 ' . $times * $rows,
		whole => { upto => $rows, given => 1, generation => $times - 1 });
}

$w->stop;
done_testing();
