# 050_faults_insert.pl
#		Fault matrix, INSERT: whatever the network and the service do,
#		each row arrives once.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

use WriteTest;

my $n = WriteTest::ROWS;
my $w = WriteTest->start('faults_insert', data => 1);

# ids made here, ids of the user's, single requests, two requests for a row
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

$w->stop;
done_testing();
