# 057_write_timeouts.pl
#		A service whose database takes too long, for large requests or for all:
#		batches are halved, what comes of one of them has the retries of one
#		request, and a statement ends when single rows fail one after the other.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('write_timeouts', users => 1, options => { max_retries => 3, batch_size => 100 });
my $timeout = { status => 500, code => '0x80044151', message => 'SQL timeout expired.', method => 'POST', path => '/api/data/', times => 0 };

# the writes, and how often requests with so many rows were sent
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
	like($r->{message}, qr/SQL timeout expired/, '... in the words of the service');
	like($r->{hint} // '', qr/sent singly and failed as well/, '... although it was to go on') if $go_on;
	my $times = times_by_size();
	is($times->{100}, 2, '... the batch was sent twice');
	is($times->{50}, 2, '... and each half once');
	cmp_ok($times->{1}, '<=', 200, '... single rows no more often than a request may be repeated');
	cmp_ok(scalar(writes()), '<=', 2 + 4 + 4 + 8 + 16 + 32 + 64 + 200, '... in a bounded number of requests');
	clear_faults($w->dvsim);
	is($w->rows_there('standard'), 0, '... and nothing was written');
	is($w->watcher->value('SELECT count(*) FROM dataverse.rejects'), 0, '... nor filed');
}

done_testing();
