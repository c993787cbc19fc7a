# 050_faults_upsert.pl
#		Fault matrix, upsert: whatever the network and the service do,
#		each row is there once, with the new values.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
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

$w->stop;
done_testing();
