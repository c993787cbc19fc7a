# faults_delete.pl
#		Fault matrix, DELETE: under any fault of the network or the service, the
#		selected rows are deleted, and no others.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use WriteTest;

my $n = WriteTest::ROWS;
my $w = WriteTest->start('faults_delete', data => 1);

my $tenth = int($n / 10);

for my $kind ('standard', 'elastic')
{
	$w->row(
		operation => 'Delete',
		kind => $kind,
		prepare => sub { $w->fill($kind, $n) },
		written => $n - $tenth,
		sql => $w->delete($kind, 'N % 10 <> 0'),
		tag => 'DELETE ' . ($n - $tenth),
		whole => { upto => $n, given => 1, where => 'N % 10 = 0' });
}

$w->stop;
done_testing();
