# write_own.pl
#		Rows with given ids whose outcome is unknown for a while, while others write
#		rows with the same ids: a row counts as written only if it is the one that
#		was sent.
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

my $w = WriteTest->start('write_own', users => 1);
my $go_on = "SET dataverse_fdw.on_error = 'continue'";
my $one_call = 'SET dataverse_fdw.max_parallel = 1';
my @lost = ({ path => 'Microsoft.Dynamics.CRM.Create', action => 'reset_after_commit', times => 1 });
my @never = ({ path => 'Microsoft.Dynamics.CRM.Create', action => 'reset_before_commit', times => 1 });
my $r;

# Runs a statement on empty tables, under these fault rules.
sub run
{
	my ($sql, %how) = @_;
	my $result;

	$w->reset;
	$w->watcher->query('TRUNCATE dataverse_private.rejected_rows');
	$how{prepare}->() if $how{prepare};
	faults($w->dvsim, @{ $how{rules} }) if $how{rules};
	$result = $w->run($sql, settings => $how{settings}, meanwhile => $how{meanwhile});
	$result->{hits} = hits($w->dvsim);
	clear_faults($w->dvsim);
	return $result;
}

sub rejects
{
	return $w->watcher->query('SELECT sqlstate, count(*), count(DISTINCT row_number) FROM dataverse.rejects GROUP BY 1 ORDER BY 1');
}

# Returns the number of rows in a command tag.
sub count_of { return ($_[0]{tag} // '') =~ /(\d+)$/ ? $1 : -1; }

# A statement that inserts rows of this name; row n has the id derived from the number "id".
sub meters
{
	my ($name, $upto, $id, $behind) = @_;

	return "INSERT INTO dv.new_meter (new_meterid, new_number, new_name, new_lastreading)
	 SELECT md5(($id)::text)::uuid, n, '$name ' || n, n * 1.5 FROM generate_series(1, $upto) n " . ($behind // '');
}

# ---------------------------------------------------------------- an id twice in a statement

my $twice = meters('row', 200, 'CASE n WHEN 51 THEN 1 ELSE n END');

# the second batch is sent twice, after the first
for my $case ([ 'lost after it was carried out', { action => 'reset_after_commit' } ],
	[ 'lost before it was carried out', { action => 'reset_before_commit' } ])
{
	my ($what, $how) = @$case;
	my @rules = ({ path => 'CreateMultiple', after => 1, times => 1, %$how });

	$r = run($twice, settings => [$one_call], rules => \@rules);
	is($r->{hits}, 1, "an id in two batches, an answer $what");
	is($r->{sqlstate}, '23505', '... the second row is a duplicate');
	like($r->{detail} // '', qr/Refused row: 51 /, '... and is named');
	$r = run($twice, settings => [ $one_call, $go_on ], rules => \@rules);
	is($r->{tag}, 'INSERT 0 199', '... with on_error = continue: it is not counted');
	is(rejects(), '23505|1|1', '... but filed');
	is($w->rows_there('standard'), 199, '... and the number of rows');
	$r = run("$twice ON CONFLICT DO NOTHING", settings => [$one_call], rules => \@rules);
	is($r->{tag}, 'INSERT 0 199', '... DO NOTHING: it is not counted');
}

# equal rows, whose values do not distinguish them, with many batches under way
$r = run("INSERT INTO dv.new_meter (new_meterid, new_name)
	SELECT md5((n % 200)::text)::uuid, 'row ' || n % 200 FROM generate_series(0, 399) n",
	settings => [$go_on], rules => [ { path => 'CreateMultiple', action => 'reset_after_commit', every => 2, times => 0 } ]);
is($r->{tag}, 'INSERT 0 200', 'each row twice, and lost answers: each is counted once');
is(rejects(), '23505|200|200', '... and the others are filed');
is($w->rows_there('standard'), 200, '... and the number of rows');

# the request of the second batch times out long after the first one; others are written meanwhile
$w->set(request_timeout => '12s');
$r = run("INSERT INTO dv.new_meter (new_meterid, new_name)
	SELECT md5((CASE n WHEN 6 THEN 1 ELSE n END)::text)::uuid, 'row ' || CASE n WHEN 6 THEN 1 ELSE n END
	FROM generate_series(1, 150) n, LATERAL (SELECT pg_sleep(CASE WHEN n > 10 THEN 0.1 ELSE 0 END)) s",
	settings => [ $go_on, 'SET dataverse_fdw.batch_size = 5' ],
	rules => [ { path => 'CreateMultiple', after => 1, action => 'stall' } ]);
$w->set(request_timeout => undef);
is($r->{hits}, 1, 'an id in two batches, the second of which times out');
is($r->{tag}, 'INSERT 0 149', '... the second row is not counted');
is($w->rows_there('standard'), 149, '... and the number of rows');

# ---------------------------------------------------------------- the rows of others

# Another session's rows, created just before.
sub theirs
{
	$w->watcher->query("INSERT INTO dv.new_meter (new_meterid, new_number, new_name, new_lastreading)
		SELECT md5(n::text)::uuid, n, 'theirs', n * 1.5 FROM generate_series(1, $_[0]) n");
	return;
}

my $doubt = '40003';

$r = run(meters('ours', 1, 'n'), prepare => sub { theirs(1) }, rules => \@never);
is($r->{hits}, 1, 'a row of another session that is less than a second old');
is($r->{sqlstate}, $doubt, '... cannot be proved to be ours');
like($r->{message}, qr/"new_name" is not the one that was sent/, '... and the column is named');
is($w->watcher->value('SELECT new_name FROM dv.new_meter'), 'theirs', '... it is unchanged');

$r = run(meters('ours', 1, 'n'), prepare => sub { theirs(1); $w->dvsim->control('POST', '/_dvsim/clock', { advance => 30 }) }, rules => \@never);
is($r->{sqlstate}, '23505', 'an older row is a duplicate');

$r = run(meters('ours', 100, 'n'), prepare => sub { theirs(3) }, rules => [ { %{ $never[0] }, times => 2 } ], settings => [$go_on]);
is($r->{tag}, 'INSERT 0 97', 'three such rows among others, with on_error = continue: they are not counted');
is(rejects(), "$doubt|3|3", '... but filed');
is(join("\n", map { $_->{message} } @{ $r->{notices} }),
	'3 rows were sent without a conclusive answer: could not insert into foreign table "new_meter" on server "crm"',
	'... and not reported as refused');
is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name LIKE 'ours %'"), 97, '... the others exist');

$r = run(meters('ours', 100, 'n', 'ON CONFLICT DO NOTHING'), prepare => sub { theirs(3) }, rules => [ { %{ $never[0] }, times => 2 } ]);
is($r->{tag}, 'INSERT 0 97', 'DO NOTHING: they are not counted');

# values do not distinguish these, but as one row existed before the request, the request wrote none of the others
$r = run(meters('same', 50, 'n'),
	prepare => sub {
		$w->watcher->query(meters('same', 1, 'n'));
		$w->dvsim->control('POST', '/_dvsim/clock', { advance => 30 });
		$w->watcher->query(meters('same', 50, 'n') . ' WHERE n > 20');
	},
	rules => [ { %{ $never[0] } } ], settings => [$go_on]);
is($r->{tag}, 'INSERT 0 19', 'equal rows of another session in a request that cannot have been carried out');
is(rejects(), '23505|31|31', '... are known to be of that session');

# only values can decide, and there are none
$r = run("INSERT INTO dv.new_meter (new_meterid) SELECT md5(n::text)::uuid FROM generate_series(1, 10) n", rules => \@lost);
is($r->{sqlstate}, $doubt, 'rows without values: undecidable');
like($r->{message}, qr/but it is not known whether/, '... as the message says');

# ---------------------------------------------------------------- values as they are stored

$w->watcher->query('IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes, account, contact) FROM SERVER crm INTO dv');
my $all = $w->watcher->query("SELECT attname FROM pg_attribute WHERE attrelid = 'dv.new_alltypes'::regclass AND attnum > 0 AND NOT attisdropped");
note $all;
$r = run("INSERT INTO dv.new_meter (new_meterid, new_name, new_lastreading, new_accountid)
	SELECT md5(n::text)::uuid, CASE WHEN n % 2 = 0 THEN '' ELSE E'line\\n\"' || n END, n + 0.123456,
	 CASE WHEN n % 3 = 0 THEN md5('a')::uuid END FROM generate_series(1, 100) n",
	prepare => sub { $w->watcher->query("INSERT INTO dv.account (accountid, name) VALUES (md5('a')::uuid, 'a')") },
	rules => [ { %{ $lost[0] }, times => 2 } ]);
is($r->{tag}, 'INSERT 0 100', 'values that the service changes slightly') or diag($r->{message});
is($r->{hits}, 2, '... whose answers were lost');

# ---------------------------------------------------------------- two sessions

# one is terminated while the other one loads the same ids
my $other = $w->session;

$other->query($go_on);
$r = run(meters('mine', 400, 'n'), settings => [$go_on],
	rules => [ { path => 'CreateMultiple', action => 'reset_before_commit', times => 8 } ],
	meanwhile => sub {
		$w->wait_for_hits(8, $_[0]);
		$other->start(meters('yours', 400, 'n'));
	});
my $yours = $other->finish(600);
is(count_of($r) + count_of($yours), 400, 'two sessions load the same ids, one is terminated: each row is counted once');
for (['mine', $r], ['yours', $yours])
{
	is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name LIKE '$_->[0] %'"), count_of($_->[1]), "... $_->[0]: the existing rows");
}
is($w->watcher->value('SELECT count(*) FROM dataverse.rejects'), 400, '... the others are filed');
$other->close;

# DO NOTHING in several sessions, with lost answers throughout
for my $seed (1 .. 3)
{
	my @sessions = map { $w->session } 1 .. 4;
	my @results;

	$w->reset;
	faults($w->dvsim, { path => 'CreateMultiple', action => 'reset_after_commit', every => 3, times => 0 },
		{ path => 'CreateMultiple', action => 'reset_before_commit', every => 5, times => 0 });
	$sessions[$_]->start(meters("session $_", 1000, "(n * 7 + $_ * $seed) % 1000", 'ON CONFLICT DO NOTHING')) for 0 .. $#sessions;
	@results = map { $_->finish(600) } @sessions;
	clear_faults($w->dvsim);
	is($w->rows_there('standard'), 1000, "DO NOTHING in four sessions, $seed: all rows exist");
	for my $i (0 .. $#sessions)
	{
		is($w->watcher->value("SELECT count(*) FROM dv.new_meter WHERE new_name LIKE 'session $i %'"), count_of($results[$i]), "... session $i counts its own")
		  or diag($results[$i]{message});
		$sessions[$i]->close;
	}
}

# ---------------------------------------------------------------- elastic tables

# ids are unique only within a partition
$r = run("INSERT INTO dv.new_reading (new_readingid, partitionid, new_sequence, new_name)
	SELECT md5(n::text)::uuid, 'p' || (n % 2), n, 'ours' FROM generate_series(1, 40) n",
	prepare => sub {
		$w->watcher->query("INSERT INTO dv.new_reading (new_readingid, partitionid, new_sequence, new_name)
		 SELECT md5(n::text)::uuid, 'p' || p, n, 'theirs' FROM generate_series(1, 40) n, generate_series(1, 2) p WHERE n % 4 <> p");
		$w->dvsim->control('POST', '/_dvsim/clock', { advance => 30 });
	},
	settings => [$go_on], rules => [ { path => 'CreateMultiple', action => 'reset_before_commit' } ]);
is($w->watcher->value("SELECT count(*) FROM dv.new_reading WHERE new_name = 'ours'"), count_of($r), 'an id in several partitions: refused rows are not counted');
is($w->watcher->value('SELECT count(*) FROM dataverse.rejects'), 40 - count_of($r), '... but filed');

# the same, with each row twice in its partition
$r = run("INSERT INTO dv.new_reading (new_readingid, partitionid, new_name)
	SELECT md5((n % 50)::text)::uuid, 'p' || (n / 50), 'row' FROM generate_series(0, 299) n",
	rules => [ { path => 'CreateMultiple', action => 'reset_after_commit', every => 2, times => 0 } ]);
is($r->{tag}, 'INSERT 0 300', 'each id in six partitions') or diag($r->{message});
is($w->rows_there('elastic'), 300, '... all exist');

# the first attempt writes all but the second row, and the next one is refused without details about rows
$r = run("INSERT INTO dv.new_reading (new_readingid, new_name, partitionid)
	SELECT md5(n::text)::uuid, 'row ' || n, 'p' FROM (SELECT CASE i WHEN 2 THEN 1 ELSE i END AS n FROM generate_series(1, 20) i) x",
	settings => [ $go_on, $one_call ], rules => [ @lost,
		{ path => 'Microsoft.Dynamics.CRM.Create', status => 400, code => '0x80040265', message => 'A plug-in says no.' } ]);
is($r->{hits}, 2, 'equal rows in a batch of an elastic table, whose rows are verified');
is($r->{tag}, 'INSERT 0 19', '... one of the two is counted');
is(rejects(), '23505|1|1', '... and the other is filed');
is($w->rows_there('elastic'), 19, '... and the number of rows');

# ---------------------------------------------------------------- invalid ids

my $zero = '00000000-0000-0000-0000-000000000000';

$r = run("INSERT INTO dv.new_meter (new_meterid, new_name) VALUES ('$zero', 'x')");
is($r->{sqlstate}, '22023', 'an id of zeros is refused');
is($w->rows_there('standard'), 0, '... locally');
$r = run("INSERT INTO dv.new_meter (new_meterid, new_name) SELECT CASE n WHEN 2 THEN '$zero' ELSE md5(n::text) END::uuid, 'x' FROM generate_series(1, 3) n", settings => [$go_on]);
is($r->{tag}, 'INSERT 0 2', '... with on_error = continue: as a row');
is(rejects(), '22023|1|1', '... which is filed');
$r = run("INSERT INTO dv.new_meter (new_meterid, new_name) VALUES ('$zero', 'x')", settings => [ $go_on, "SET dataverse_fdw.insert_mode = 'upsert'" ]);
is($r->{tag}, 'INSERT 0 0', '... and by an upsert');

# an answer that names an id other than the given one
my $id = '11111111-2222-3333-4444-555555555555';

for my $form ([ 'dv.new_meter', 'new_meterid', 'new_name', 'CreateMultiple', { status => 200, body => qq({"Ids":["$id"]}) } ],
	[ 'dv.task', 'activityid', 'subject', '$batch', { status => 204, batch_part => 1, headers => { 'OData-EntityId' => "https://x/api/data/v9.2/tasks($id)" } } ])
{
	my ($table, $key, $name, $path, $answer) = @$form;

	$r = run("INSERT INTO $table ($key, $name) VALUES (md5('1')::uuid, 'x')", rules => [ { path => $path, times => 0, %$answer } ]);
	is($r->{hits}, 1, "$path: an answer that names another id: the row is not sent again");
	is($r->{sqlstate}, 'HV00M', '... the statement fails');
	like($r->{message}, qr/an id other than the one it was given/, '... with the reason');
}

# ---------------------------------------------------------------- late commits, and lasting doubts

# the rows of the first attempt would appear after the statement; they are refused because they exist
my @late = ({ path => 'Microsoft.Dynamics.CRM.Create', action => 'commit_late', delay_ms => 600_000, times => 2 });

for my $kind ('standard', 'elastic')
{
	$r = run($w->insert($kind, 1, 100, given => 1), rules => \@late);
	is($r->{tag}, 'INSERT 0 100', "$kind: requests that are carried out after their repetition");
	is($r->{hits}, 2, '... both');
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 1200 });
	$w->is_whole($kind, '... in the end', upto => 100, given => 1);
}

# between the verification, which finds nothing, and the repetition
$r = run(meters('row', 50, 'n'), settings => [$go_on],
	rules => [
		{ path => 'CreateMultiple', action => 'commit_late', delay_ms => 2_000 },
		{ path => 'CreateMultiple', after => 1, status => 400, code => '0x80040203', message => 'wrong' },
		{ path => '$batch', action => 'delay', delay_ms => 1 },
		{ path => '$batch', action => 'reset_before_commit', times => 3 } ]);
is($r->{tag}, 'INSERT 0 50', 'rows that appear after the verification') or diag($r->{message});
is($w->rows_there('standard'), 50, '... once');

# all answers are lost: the statement fails, and the session knows which rows may exist
{
	my $session = $w->session;
	my ($found, $there);

	$w->reset;
	$w->set(max_retries => 1);
	faults($w->dvsim, { path => 'CreateMultiple', after => 1, times => 0, action => 'commit_late', delay_ms => 600_000 });
	$session->query($one_call);
	$r = $session->try(meters('row', 150, 'n'));
	clear_faults($w->dvsim);
	isnt($r->{sqlstate}, undef, 'no answers: the statement fails');
	like($r->{detail}, qr/^50 more rows were sent without a conclusive answer and may or may not have been written\.$/m, '... and reports the rows in doubt');
	like($r->{hint}, qr/dataverse\.doubts/, '... and how to resolve them');
	is($session->query('SELECT foreign_table, operation, count(*), min(row_number), max(row_number) FROM dataverse.doubts GROUP BY 1, 2'),
		'dv.new_meter|insert|50|51|100', '... with their ids');
	$found = 'SELECT count(*) FROM dataverse.doubts d JOIN dv.new_meter m ON m.new_meterid = d.row_id';
	is($session->value($found), 0, '... they do not exist yet');
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 1200 });
	is($session->value($found), 50, '... and now they do');
	is($w->watcher->value('SELECT count(*) FROM dataverse.doubts'), 0, '... other sessions have other doubts');
	is($session->value("SELECT string_agg(DISTINCT row_id::text, '' ORDER BY row_id::text) = (SELECT string_agg(md5(n::text)::uuid::text, '' ORDER BY md5(n::text)::uuid::text) FROM generate_series(51, 100) n) FROM dataverse.doubts"),
		't', '... and their ids are known');
	$session->query('CREATE ROLE stranger; SET ROLE stranger');
	is($session->value('SELECT count(*) FROM dataverse.doubts'), 0, '... but not to a role that did not write them');
	$session->close;
	$w->set(max_retries => undef);
}

# a refusal that names one row does not tell what a lost attempt did to the others
{
	my $session = $w->session;

	$w->reset;
	$w->watcher->query(meters('row', 50, 'n'));
	faults($w->dvsim, { path => 'UpdateMultiple', action => 'reset_before_commit' });
	$r = $session->try("UPDATE dv.new_meter SET new_name = 'changed', new_kind = CASE new_number WHEN 7 THEN 4711 END");
	is(hits($w->dvsim), 1, 'an update whose answer is lost');
	clear_faults($w->dvsim);
	is($r->{sqlstate}, '23514', '... and then refused because of a row');
	like($r->{detail}, qr/^49 rows of this statement were sent without a conclusive answer/m, '... reports the rows in doubt');
	is($session->query('SELECT operation, count(*), count(DISTINCT row_id) FROM dataverse.doubts GROUP BY 1'), 'update|49|49', '... with their ids');
	is($session->value(q{SELECT count(*) FROM dataverse.doubts WHERE row_id = md5('7')::uuid}), 0, '... except the refused one');
	$session->close;
}

# ---------------------------------------------------------------- partitions with any characters, in a query of limited length

for my $text ('ä b', "=#''", 'x')
{
	for my $settings ([], [$go_on])
	{
		$r = run("INSERT INTO dv.new_reading (new_readingid, partitionid, new_sequence)
			SELECT md5(n::text)::uuid, n || repeat('$text', 32), n FROM generate_series(1, 150) n",
			settings => [ 'SET dataverse_fdw.batch_size = 150', @$settings ],
			rules => [ { path => 'CreateMultiple', action => 'reset_after_commit' } ]);
		is($r->{hits}, 1, "partitions of '$text', and a lost answer");
		is($r->{tag}, 'INSERT 0 150', '... the rows are found') || diag($r->{message});
		is($w->rows_there('elastic'), 150, '... and not written twice');
	}
}

# ---------------------------------------------------------------- contradictory modes

$r = run("INSERT INTO dv.new_meter (new_meterid, new_name) VALUES (md5('1')::uuid, 'new') ON CONFLICT DO NOTHING",
	prepare => sub { theirs(1) }, settings => ["SET dataverse_fdw.insert_mode = 'upsert'"]);
is($r->{sqlstate}, '0A000', 'an upsert with DO NOTHING is refused');
is($w->watcher->value('SELECT new_name FROM dv.new_meter'), 'theirs', '... and the row is unchanged');

$w->stop;
done_testing();
