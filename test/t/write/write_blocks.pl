# write_blocks.pl
#		Requests of a statement that are sent while a function called by it is in a
#		block: if the block is rolled back, the statement continues.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('write_blocks', users => 1);
my $n = 200;

# the first batch is retried while the block reads the accounts
$w->watcher->query(q{
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	CREATE FUNCTION try() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.new_number = 60 THEN
			BEGIN
				PERFORM count(*) FROM dv.account;
				RAISE EXCEPTION 'rolled back';
			EXCEPTION WHEN raise_exception THEN
				RAISE NOTICE '%', SQLERRM;
			END;
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER try BEFORE INSERT ON dv.new_meter FOR EACH ROW EXECUTE FUNCTION try()});

for my $fault ({ status => 503 }, { status => 429, code => '0x80072322', retry_after => 0 }, { action => 'expire_token' },
	{ action => 'reset_after_commit' })
{
	for my $returning ('', ' RETURNING new_number')
	{
		my $what = ($fault->{action} // $fault->{status}) . $returning;
		my $r;

		$w->reset;
		faults($w->dvsim,
			{ path => 'CreateMultiple', times => 1, %$fault },
			{ path => 'CreateMultiple', times => 1, action => 'delay', delay_ms => 2500 },
			{ path => '/accounts', times => 1, action => 'delay', delay_ms => 1000 });
		$r = $w->run($w->insert('standard', 1, $n, given => 1) . $returning);
		is(hits($w->dvsim), 3, "$what: a block is rolled back while a request is under way");
		clear_faults($w->dvsim);
		is($r->{tag}, "INSERT 0 $n", "$what: the statement goes on") || diag($r->{message});
		$w->is_whole('standard', $what, upto => $n, given => 1);
	}
}

$w->stop;
done_testing();
