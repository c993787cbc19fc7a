# match_version.pl
#		UPDATE and DELETE that write only rows unchanged since they were read: other
#		sessions, lost answers, and both.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use PoolTest;
use WriteTest;

my $w = WriteTest->start('match_version', data => 1);
my $watcher = $w->watcher;
my $on = "SET dataverse_fdw.match_version = 'on'";
my $go_on = "SET dataverse_fdw.on_error = 'continue'";
my $n = WriteTest::ROWS;
my $since = 0;

# The tested statement stops at its second row, when all rows have been read and none has been
# sent, until pass() has been called.
$watcher->query(q{
	CREATE SEQUENCE calls;
	CREATE FUNCTION stop_at_second(v anyelement) RETURNS anyelement LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		IF nextval('calls') = 2 THEN
			PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
		END IF;
		RETURN v;
	END $$});

sub requests
{
	my $log = $w->dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	return grep { $_->{kind} ne 'token' } @{ $log->{requests} };
}

sub notices { return join "\n", map { $_->{message} } @{ $_[0]{notices} }; }

# Runs a statement while others change rows.  sql; others: their statement, or a function;
# later: seconds by which dvsim's clock is advanced afterwards; rules: faults, from then on;
# settings.
sub interleave
{
	my (%case) = @_;
	my $session = $w->session;
	my $result;

	$session->query("SET statement_timeout = '600s'");
	$session->query($_) for $on, @{ $case{settings} // [] };
	$watcher->query("SELECT setval('calls', 1, false), pg_advisory_lock(1)");
	$session->start($case{sql});
	wait_for(sub {
		$session->done || $watcher->query('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $session->pid) eq 'advisory';
	}, 'the statement has read its rows');
	ok(!$session->done, "$case{what}: others intervene");
	$since = $w->dvsim->control('GET', '/_dvsim/requests')->json->{next};
	$watcher->query($case{others}) if $case{others};
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => $case{later} }) if $case{later};
	$since = $w->dvsim->control('GET', '/_dvsim/requests')->json->{next};
	faults($w->dvsim, @{ $case{rules} }) if $case{rules};
	$watcher->query('SELECT pg_advisory_unlock(1)');
	$result = $session->finish(660);
	$session->query('SELECT 1');
	$result->{hits} = hits($w->dvsim);
	$result->{requests} = [ requests() ];
	clear_faults($w->dvsim);
	$session->close;
	return $result;
}

sub update
{
	my ($generation, $condition) = @_;

	return $w->update('standard', $generation, $condition) =~ s/(new_name = )(.*?)(, new_lastreading)/$1stop_at_second($2)$3/r;
}

sub rejects
{
	my ($columns, $where) = @_;
	my $what = $columns // "count(*) || ' ' || min(sqlstate) || ' ' || max(sqlstate)";

	return $watcher->query("SELECT $what FROM dataverse.rejects WHERE " . ($where // 'true'));
}

sub forget_rejects { $watcher->query('DELETE FROM dataverse.rejects'); return; }

# ---------------------------------------------------------------- many rows, some of which others change

my $many = 10_000;
my $r;

$w->fill('standard', $many);
$r = interleave(
	what => '10,000 rows, of which others change 100',
	settings => [$go_on],
	sql => update(2, 'true'),
	others => $w->update('standard', 7, 'N % 100 = 17'));
is($r->{sqlstate}, undef, '... the statement succeeds') || diag($r->{message});
is($r->{tag}, 'UPDATE 9900', '... all others are written');
like(notices($r), qr/^100 rows were refused/, '... and a WARNING counts them');
$w->is_whole('standard', '... none is overwritten', upto => $many, given => 1,
	generation => 'CASE WHEN N % 100 = 17 THEN 7 ELSE 2 END');
is(rejects(), '100 40001 40001', '... they are filed');
is($watcher->query(q{SELECT count(*) FROM generate_series(1, 10000) n JOIN dataverse.rejects r ON r.row_id = md5(n::text)::uuid WHERE n % 100 = 17}),
	100, '... each of them');
is(scalar(grep { $_->{target} !~ /\$batch/ } @{ $r->{requests} }), 0, '... all requests are $batch');
is(scalar(@{ $r->{requests} }), $many / WriteTest::BATCH, '... as many as there are batches');
forget_rejects();

$r = interleave(
	what => 'DELETE',
	settings => [$go_on],
	sql => "DELETE FROM dv.new_meter WHERE stop_at_second(new_number) > 0",
	others => $w->update('standard', 8, 'N % 100 = 18'));
is($r->{sqlstate}, undef, '... the statement succeeds') || diag($r->{message});
is($r->{tag}, 'DELETE 9900', '... rows that no other session has changed are deleted');
$w->is_whole('standard', '... and the rest is there', upto => $many, where => 'N % 100 = 18', given => 1, generation => 8);
is(rejects(), '100 40001 40001', '... and filed');
forget_rejects();

# ---------------------------------------------------------------- a single row

$w->reset;
$w->fill('standard', 100);
$r = interleave(
	what => 'on_error abort',
	sql => update(2, 'true'),
	others => $w->update('standard', 7, 'N = 17'));
is($r->{sqlstate}, '40001', '... the statement fails');
like($r->{detail}, qr/^Refused row: \d+ \($_\)\.  It has been changed since this statement read it\./, '... and names the row')
  for $watcher->query("SELECT md5('17')::uuid");
is($r->{hint}, 'Repeat the statement to read the current version of the row.', '... and gives a hint');
is($watcher->query('SELECT new_name FROM dv.new_meter WHERE new_number = 17'), 'row 17 of 7', '... which is not overwritten');
is($w->run(update(3, 'true'), settings => [$on])->{tag}, 'UPDATE 100', '... and the repeated statement writes it');

$r = interleave(
	what => 'RETURNING',
	settings => [$go_on],
	sql => update(4, 'N <= 10') . ' RETURNING new_number',
	others => $w->update('standard', 7, 'N IN (3, 4)'));
is(join(',', sort { $a <=> $b } map { $_->[0] } @{ $r->{rows} }), '1,2,5,6,7,8,9,10', '... returns only rows that were written');
is($r->{tag}, 'UPDATE 8', '... and counts it');
forget_rejects();

$r = interleave(
	what => 'rows that others delete',
	sql => update(5, 'N <= 10'),
	others => $w->delete('standard', 'N IN (3, 4)'));
is($r->{tag}, 'UPDATE 8', '... are missing, as usual');
is($r->{sqlstate}, undef, '... which is no error');

$watcher->query('ALTER FOREIGN TABLE by_key.new_meter OPTIONS (ADD max_errors $$1$$)');
$r = interleave(
	what => 'max_errors',
	settings => [$go_on],
	sql => 'UPDATE by_key.new_meter SET new_name = stop_at_second(new_name) WHERE new_number BETWEEN 20 AND 40',
	others => $w->update('standard', 7, 'N IN (22, 33)'));
is($r->{sqlstate}, '40001', '... applies to changed rows as well');
is($watcher->query('SELECT count(*) FROM dv.new_meter WHERE new_name LIKE $$row % of 7$$ AND new_number IN (22, 33)'), 2, '... which are unchanged');

# rows that are joined with their known versions
$w->reset;
$w->fill('standard', 3000);
$watcher->query('CREATE TABLE known AS SELECT new_meterid AS id, new_number AS n, versionnumber AS base FROM dv.new_meter; ANALYZE known');
$watcher->query($w->update('standard', 7, 'N % 100 = 18'));
$r = interleave(
	what => 'a join',
	settings => [ $go_on, 'SET enable_nestloop = off' ],
	sql => "UPDATE ONLY dv.new_meter m SET new_name = stop_at_second('row ' || k.n || ' of 2'), new_lastreading = k.n + 0.2
		FROM known k WHERE m.new_meterid = k.id AND m.versionnumber = k.base RETURNING m.new_number",
	others => $w->update('standard', 8, 'N % 100 = 17 AND N < 400'));
is($r->{tag}, 'UPDATE 2966', '... writes rows that no other session has changed, before or meanwhile') || diag($r->{message});
is(scalar(@{ $r->{rows} }), 2966, '... and returns it');
is(rejects(), '4 40001 40001', '... and files rows that were changed meanwhile');
$w->is_whole('standard', '... and overwrites nothing', upto => 3000, given => 1,
	generation => 'CASE WHEN N % 100 = 18 THEN 7 WHEN N % 100 = 17 AND N < 400 THEN 8 ELSE 2 END');
forget_rejects();

# ---------------------------------------------------------------- lost answers

my $lost = { path => '$batch', action => 'reset_after_commit', every => 3, times => 0 };

for my $fault ($lost, { %$lost, action => 'truncate' }, { %$lost, action => 'garble' },
	{ path => '$batch', action => 'commit_late', delay_ms => 200, every => 3, times => 0 })
{
	my $rows = 500;
	my $what = "update, $fault->{action}";

	$w->reset;
	$w->fill('standard', $rows);
	$r = interleave(what => $what, sql => update(2, 'true'), rules => [$fault]);
	is($r->{sqlstate}, undef, "$what: the statement succeeds") || diag("$r->{message}\n" . ($r->{detail} // ''));
	is($r->{tag}, "UPDATE $rows", "$what: our own changes are not taken for those of others");
	cmp_ok($r->{hits}, '>', 1, "$what: $r->{hits} faults");
	$w->dvsim->control('POST', '/_dvsim/clock', { advance => 60 });
	$w->is_whole('standard', $what, upto => $rows, given => 1, generation => 2);

	$r = interleave(what => "delete, $fault->{action}", sql => "DELETE FROM dv.new_meter WHERE stop_at_second(new_number) > 0", rules => [$fault]);
	is($r->{tag}, "DELETE $rows", "delete, $fault->{action}: all are gone") || diag($r->{message});
	cmp_ok($r->{hits}, '>', 1, "... after $r->{hits} faults");
	is($w->rows_there('standard'), 0, '... indeed');
}

# values that are set to NULL are recognized as well
$w->reset;
$w->fill('standard', 100);
$r = interleave(
	what => 'nulls',
	sql => 'UPDATE dv.new_meter SET new_lastreading = stop_at_second(NULL::numeric)',
	rules => [$lost]);
is($r->{tag}, 'UPDATE 100', '... whose answers are lost') || diag($r->{message});

# rows without comparable values are not recognized: images, and rows without a known time of change
$watcher->query(q{
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_alltypes) FROM SERVER crm INTO dv;
	INSERT INTO dv.new_alltypes (new_name) VALUES ('a'), ('b');
	CREATE FOREIGN TABLE dv.timeless (id uuid OPTIONS ("column" 'new_meterid'), new_name text, versionnumber bigint)
	  SERVER crm OPTIONS ("table" 'new_meter', entity_set 'new_meters')});
for my $case ([ 'images', q{UPDATE dv.new_alltypes SET new_picture = stop_at_second('\\x89504e470d0a1a0a0000000d49484452'::bytea)}, 2 ],
	[ 'no time', q{UPDATE dv.timeless SET new_name = stop_at_second('x'::text)}, 100 ])
{
	my ($what, $sql, $rows) = @$case;

	for my $fault ({ %$lost, times => 1, every => 1 }, { %$lost, every => 100 })
	{
		my $in_doubt = $fault->{every} == 1 ? ($rows == 2 ? 2 : WriteTest::BATCH) : 0;

		$r = interleave(what => $what, settings => [$go_on], sql => $sql, rules => [$fault]);
		is($r->{tag}, 'UPDATE ' . ($rows - $in_doubt), "... $in_doubt rows cannot be recognized") || diag($r->{message});
		is(rejects(q{count(*) || ' ' || count(*) FILTER (WHERE sqlstate = '40003')}), "$in_doubt $in_doubt", '... and are in doubt');
		forget_rejects();
	}
}

# ---------------------------------------------------------------- lost answers, and others

# others change rows long before they are sent: attributed to the others
$w->reset;
$w->fill('standard', 1000);
$r = interleave(
	what => 'lost answers, others long before',
	settings => [$go_on],
	sql => update(2, 'true'),
	others => $w->update('standard', 7, 'N % 100 = 17'),
	later => 60,
	rules => [$lost]);
is($r->{tag}, 'UPDATE 990', '... the others are written') || diag($r->{message});
is(rejects(), '10 40001 40001', '... and these are known to have been changed by another session');
$w->is_whole('standard', '... which is true', upto => 1000, given => 1, generation => 'CASE WHEN N % 100 = 17 THEN 7 ELSE 2 END');
forget_rejects();

# others have changed only columns that are not sent: undecidable
$w->reset;
$w->fill('standard', 100);
$r = interleave(
	what => 'the values were there before',
	settings => [ $go_on, 'SET dataverse_fdw.batch_size = 100' ],
	sql => update(1, 'true'),
	others => "UPDATE dv.new_meter SET new_serial = 's' || new_number WHERE new_number IN (17, 18)",
	later => 60,
	rules => [ { %$lost, every => 1, times => 1 } ]);
is($r->{tag}, 'UPDATE 98', '... is not counted');
is(rejects(), '2 40003 40003', '... but in doubt') || diag(rejects('sqlstate, message'));
like(notices($r), qr/^2 rows were sent without a conclusive answer/, '... as a WARNING reports');
forget_rejects();

# others change rows just before: attributed to them, or in doubt, but neither overwritten nor counted
$w->reset;
$w->fill('standard', 1000);
$r = interleave(
	what => 'lost answers, others a moment before',
	settings => [$go_on],
	sql => update(2, 'true'),
	others => $w->update('standard', 7, 'N % 100 = 17'),
	rules => [$lost]);
is($r->{tag}, 'UPDATE 990', '... the others are written') || diag($r->{message});
is(rejects("count(*) || ' ' || count(*) FILTER (WHERE sqlstate IN ('40001', '40003'))"), '10 10', '... and each of these is filed');
$w->is_whole('standard', '... and none overwritten', upto => 1000, given => 1, generation => 'CASE WHEN N % 100 = 17 THEN 7 ELSE 2 END');
forget_rejects();

# A lost attempt is carried out; before it is repeated, others change a row's value, change
# another column, and delete a row.
sub between
{
	my (@settings) = @_;
	my $session = $w->session;
	my $other = $w->dvsim->as('app3', 'secret3');
	my %url = map { ($_ => 'new_meters(' . $watcher->value("SELECT md5('$_')::uuid") . ')') } 3, 4, 5;
	my $result;

	$w->reset;
	$w->fill('standard', 20);
	$session->query($_) for $on, @settings;
	faults($w->dvsim, { path => '$batch', action => 'reset_after_commit', delay_ms => 3000 });
	$session->start($w->update('standard', 2, 'true'));
	wait_for(sub { $other->get($url{5})->json->{new_name} eq 'row 5 of 2' || $session->done }, 'the first attempt');
	is($other->patch($url{3}, { new_name => 'row 3 of 7' }, 'If-Match' => '*')->status, 204, 'others change a value,');
	is($other->patch($url{4}, { new_serial => 'another' }, 'If-Match' => '*')->status, 204, 'another column,');
	is($other->delete($url{5})->status, 204, 'and delete a row');
	ok(!$session->done, 'between two attempts');
	$result = $session->finish(120);
	$result->{doubts} = $session->query('SELECT string_agg(row_id::text, $$, $$) FROM dataverse.doubts');
	clear_faults($w->dvsim);
	$session->close;
	return $result;
}

$r = between($go_on);
is($r->{tag}, 'UPDATE 18', '... a row is in doubt, one is missing, all others are written') || diag($r->{message});
is(rejects("row_id || ' ' || sqlstate"), $watcher->value("SELECT md5('3')::uuid") . ' 40003', '... the one that has another value is in doubt');
like(rejects('message'), qr/the row no longer has the version that was read, but the value of "new_name" is not the one that was sent/, '... and the message gives the reason');
forget_rejects();
$r = between();
is($r->{sqlstate}, '40003', '... with on_error abort, the statement fails');
is($r->{doubts}, $watcher->value("SELECT md5('3')::uuid"), '... and dataverse.doubts has the row');

# ---------------------------------------------------------------- all faults

for my $case ([ 'Update', "UPDATE $n", sub { $w->update('standard', 2, 'true') }, { upto => $n, given => 1, generation => 2 } ],
	[ 'Delete', "DELETE " . ($n - int($n / 10)), sub { $w->delete('standard', 'N % 10 <> 0') }, { upto => $n, given => 1, where => 'N % 10 = 0' } ])
{
	my ($operation, $tag, $sql, $whole) = @$case;

	$w->row(
		operation => $operation,
		kind => 'standard',
		what => 'versions',
		path => '$batch',
		few => 1,
		settings => [$on],
		prepare => sub { $w->fill('standard', $n) },
		sql => $sql->(),
		tag => $tag,
		whole => $whole);
}

$w->stop;
done_testing();
