# faults_update.pl
#		Fault matrix, UPDATE: under any fault of the network or the service, each
#		row gets its value, and no other row is changed.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use WriteTest;

my $n = WriteTest::ROWS;
my $w = WriteTest->start('faults_update', data => 1);

my $tenth = int($n / 10);

# every tenth row is unchanged
for my $row ([ 'standard' ], [ 'elastic' ], [ 'single', few => 1 ])
{
	my ($kind, %how) = @$row;

	$w->row(
		operation => 'Update',
		kind => $kind,
		few => $how{few},
		prepare => sub { $w->fill($kind, $n) },
		written => $n - $tenth,
		sql => $w->update($kind, 2, 'N % 10 <> 0'),
		tag => 'UPDATE ' . ($n - $tenth),
		whole => { upto => $n, given => 1, generation => 'CASE WHEN N % 10 = 0 THEN 1 ELSE 2 END' });
}

$w->stop;
done_testing();
