# pull_drift.pl
#		dataverse.pull() while definitions in Dataverse change: between runs, and in
#		the middle of a first read and of a delta.  Afterwards the copy is exact, or
#		one error names the statements that repair it, after which it is exact.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;
use Dvsim;

my $rows = 300;
my $page = 50;
my $extra = { name => 'new_Extra', type => 'integer', min => 0, max => 1000000 };
my $crm = Crm->start('drift', options => { page_size => $page, budget_pacing => 'off' });
my $dvsim = $crm->dvsim;
my $pull = q{CALL dataverse.pull('dv.new_meter', 'public.new_meter')};

my %meter = (table => 'new_meter');
my %extra = (%meter, column => 'new_extra');

# The change; the changes of rows after it; the statement that repairs the copy, if any.
my @cases = (
	{ name => 'a column is added', cure => undef,
		drift => [ { change => 'add_column', %meter, definition => { name => 'new_More', type => 'integer' } } ] },
	{ name => 'a column is deleted', cure => qr/ALTER FOREIGN TABLE dv\.new_meter DROP COLUMN new_extra/,
		drift => [ { change => 'drop_column', %extra } ] },
	{ name => 'a column is renamed', cure => qr/ALTER FOREIGN TABLE dv\.new_meter .*new_other/,
		drift => [ { change => 'rename_column', %extra, to => 'new_Other' } ] },
	{ name => 'a column is widened', cure => qr/ALTER FOREIGN TABLE dv\.new_meter ALTER COLUMN new_name TYPE pg_catalog\.varchar\(1?500/,
		drift => [ { change => 'alter_column', %meter, column => 'new_name', set => { length => 500 } } ],
		edit => q{UPDATE small.new_meter SET new_name = repeat('x', 400) WHERE new_meterid IN (SELECT new_meterid FROM chosen LIMIT 1)} },
	{ name => 'a column is widened, and not used', cure => undef,
		drift => [ { change => 'alter_column', %meter, column => 'new_name', set => { length => 500 } } ] },
	{ name => 'an integer becomes a decimal', cure => qr/ALTER FOREIGN TABLE dv\.new_meter ALTER COLUMN new_extra TYPE pg_catalog\.numeric/,
		drift => [ { change => 'alter_column', %extra, set => { type => 'decimal', precision => 2 } } ],
		edit => q{SELECT dataverse.request('crm', 'PATCH', format('new_meters(%s)', new_meterid), '{"new_extra": 1.5}') FROM chosen} },
	{ name => 'an integer becomes a decimal, and no value shows it', cure => undef,
		drift => [ { change => 'alter_column', %extra, set => { type => 'decimal', precision => 2 } } ] },
	{ name => 'a column is made again with another type', cure => qr/ALTER FOREIGN TABLE dv\.new_meter .*new_extra/,
		drift => [ { change => 'drop_column', %extra },
			{ change => 'add_column', %meter, definition => { name => 'new_Extra', type => 'string', length => 20 } } ],
		edit => q{SELECT dataverse.request('crm', 'PATCH', format('new_meters(%s)', new_meterid), '{"new_extra": "text"}') FROM chosen} },
	{ name => 'a column is made again', cure => undef,
		drift => [ { change => 'drop_column', %extra }, { change => 'add_column', %meter, definition => $extra } ] },
	{ name => 'a choice is added', cure => undef,
		drift => [ { change => 'add_option', %meter, column => 'new_kind', value => 7, label => 'Heat' } ],
		edit => q{SELECT dataverse.request('crm', 'PATCH', format('new_meters(%s)', new_meterid), '{"new_kind": 7}') FROM chosen} },
	{ name => 'change tracking is switched off', cure => undef, drift => [ { change => 'alter_table', %meter, set => { change_tracking => \0 } } ] },
	{ name => 'change tracking is switched off and on', cure => undef,
		drift => [ { change => 'alter_table', %meter, set => { change_tracking => \0 } },
			{ change => 'alter_table', %meter, set => { change_tracking => \1 } } ] },
	{ name => 'the table is deleted', gone => 1, cure => qr/DROP FOREIGN TABLE dv\.new_meter.*SELECT dataverse\.forget_copy\('public\.new_meter'\)/,
		drift => [ { change => 'drop_table', table => 'new_meter', cascade => \1 } ], edit => 'SELECT 1' },
	{ name => 'the table is made again', cure => undef,
		drift => [ { change => 'drop_table', table => 'new_meter', cascade => \1 }, { change => 'add_table', table => 'new_meter' },
			{ change => 'add_column', %meter, definition => $extra } ],
		edit => q{INSERT INTO small.new_meter (new_name) SELECT 'of the new table' FROM generate_series(1, 70)} });

sub control
{
	my ($method, $path, $body) = @_;
	my $answer = $dvsim->control($method, $path, $body);

	die "$path: " . $answer->body unless $answer->status == 200;
	return $answer;
}

# Rows in Dataverse, foreign tables, and no copy.
sub anew
{
	$crm->no_faults;
	control('POST', '/_dvsim/reset');
	control('POST', '/_dvsim/schema', [ { change => 'add_column', %meter, definition => $extra } ]);
	$crm->sql(qq{
		SET client_min_messages = warning;
		DROP SCHEMA IF EXISTS dv, small, copies CASCADE;
		SELECT dataverse.forget_copy(target) FROM dataverse.sync_state;
		DROP TABLE IF EXISTS new_meter, chosen;
		CREATE SCHEMA dv; CREATE SCHEMA small; CREATE SCHEMA copies;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_meter, team) FROM SERVER crm INTO dv;
		CREATE FOREIGN TABLE small.new_meter (new_meterid uuid, new_name text)
			SERVER crm OPTIONS ("table" 'new_meter', entity_set 'new_meters');
		INSERT INTO dv.new_meter (new_name, new_extra) SELECT 'meter ' || i, i FROM generate_series(1, $rows) AS i;
		CREATE TABLE chosen AS SELECT new_meterid FROM small.new_meter ORDER BY 1 LIMIT 40});
	return;
}

sub drift
{
	my ($case) = @_;

	control('POST', '/_dvsim/schema', $case->{drift});
	# rows on the first pages, and others
	$crm->sql($case->{edit} // q{UPDATE small.new_meter SET new_name = 'edited' WHERE new_meterid IN (SELECT new_meterid FROM chosen)});
	return;
}

# Changes the definition while the third page is awaited.
sub drift_in_the_middle
{
	my ($case, $tag) = @_;
	my $seen = $crm->sql('SELECT count(*) FROM dataverse_private.run_log');

	$crm->fault(method => 'GET', path => '/new_meters', after => 2, times => 1, action => 'delay', delay_ms => 600);
	my $h = $crm->background($pull, $tag);
	sleep 0.02 until $crm->sql("SELECT coalesce(sum(rows_read), 0) >= $page FROM dataverse_private.run_log WHERE id > (SELECT coalesce(max(id) - 1, 0) FROM dataverse_private.run_log)") eq 't'
	  && $crm->sql('SELECT count(*) FROM dataverse_private.run_log') > $seen;
	drift($case);
	return $crm->finish($h);
}

my %moments = (
	'between runs' => sub {
		my ($case) = @_;
		$crm->sql($pull);
		drift($case);
		return '';
	},
	'in a first read' => sub { return drift_in_the_middle($_[0], 'first_read') },
	'in a delta' => sub {
		my ($case) = @_;
		$crm->sql($pull);
		$crm->sql(q{UPDATE small.new_meter SET new_name = new_name || '!' WHERE new_meterid IN (SELECT new_meterid FROM new_meter ORDER BY 1 DESC LIMIT 200)});
		return drift_in_the_middle($case, 'delta');
	});

# Returns the number of rows that differ, in the columns that the foreign table has, or the error.
sub difference
{
	my ($out, $err) = ('', '');
	my $columns = $crm->sql(q{SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = 'dv.new_meter'::regclass AND attnum > 0 AND NOT attisdropped});

	$crm->node->psql('postgres', "SELECT (SELECT count(*) FROM (SELECT $columns FROM dv.new_meter EXCEPT SELECT $columns FROM new_meter) AS x)
		|| ' ' || (SELECT count(*) FROM (SELECT $columns FROM new_meter EXCEPT SELECT $columns FROM dv.new_meter) AS x)",
		stdout => \$out, stderr => \$err);
	return $out . $err;
}

sub pull
{
	my ($sql) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', $sql // $pull, stderr => \$err);

	return ($status, $err);
}

for my $moment ('between runs', 'in a first read', 'in a delta')
{
	for my $case (@cases)
	{
		my $what = "$case->{name} $moment";

		anew();
		my $err = $moments{$moment}->($case);
		my ($status, $last) = (0, '');
		# the current run, and the next one, which may be the first to see the change
		if ($err !~ /ERROR/)
		{
			($status, $err) = pull();
		}
		if ($err =~ /ERROR/)
		{
			my ($hint) = $err =~ /HINT:\s+(.*)/;
			like($hint // $err, $case->{cure} // qr/^no cure is needed/, "$what: the error names the repair");
			my @statements = ($hint // '') =~ /((?:ALTER FOREIGN TABLE|DROP FOREIGN TABLE|SELECT dataverse)\b.*?;)/g;
			$crm->sql("BEGIN; @statements COMMIT");
			if ($case->{gone})
			{
				is($crm->sql('SELECT count(*) FROM dataverse.sync_state') . $crm->sql(q{SELECT to_regclass('dv.new_meter') IS NULL}), '0t', "$what: the repair works");
				next;
			}
			($status, $err) = pull();
		}
		else
		{
			is($case->{cure}, undef, "$what: no repair is needed");
		}
		is($status, 0, "$what: then the run succeeds") or diag $err;
		is(difference(), '0 0', "$what: and the copy is exact") or diag $err;
		like($crm->sql('SELECT status FROM dataverse.runs ORDER BY id DESC LIMIT 1'), qr/^succeeded$/, "$what: as its run reports");
	}
}

# ---- the effect of the argument "drift" on this and other tables

anew();
$crm->sql($pull);
control('POST', '/_dvsim/schema', [ { change => 'drop_column', %extra }, { change => 'add_column', %meter, definition => $extra } ]);
my (undef, $err) = pull(q{CALL dataverse.pull('dv.new_meter', 'public.new_meter', drift => 'stop')});
like($err, qr/ERROR:  could not pull public\.new_meter: the definition of foreign table dv\.new_meter in Dataverse has changed since/, 'drift => stop stops the run');
like($err, qr/Deleted or re-created: new_extra/, 'and names the columns');
(undef, $err) = pull();
like($err, qr/NOTICE:  reading all rows of foreign table dv\.new_meter again, because Dataverse has a new definition of new_extra/, 'otherwise a run reports what it does');
is(difference(), '0 0', 'and does it');
$crm->requests;
pull();
my @sent = $crm->requests;
is(join(' ', map { $_->{target} =~ m{/(EntityDefinitions|new_meters)} } @sent), 'new_meters EntityDefinitions', 'a run without changes takes two requests');
is($sent[1]{headers}{Consistency}, 'Strong', 'one of which bypasses caches of definitions');

# the foreign table gets other columns of Dataverse under the same names, while nothing changes there
for my $tracking (\1, \0)
{
	anew();
	control('POST', '/_dvsim/schema', [ { change => 'alter_table', %meter, set => { change_tracking => $tracking } } ]);
	$crm->sql(q{UPDATE dv.new_meter SET new_name = left('name of ' || new_meterid, 40), new_serial = left('serial of ' || new_meterid, 40)});
	pull();
	$crm->sql(q{ALTER FOREIGN TABLE dv.new_meter ALTER new_name OPTIONS (SET "column" 'new_serial'), ALTER new_serial OPTIONS (SET "column" 'new_name')});
	my (undef, $err) = pull();
	is(difference(), '0 0', 'columns that stand for others are read again, ' . ($$tracking ? 'with' : 'without') . ' change tracking') or diag $err;
	is($crm->sql(q{SELECT count(*) FROM public.new_meter WHERE new_name NOT LIKE 'serial of %'}), '0', 'as the copy shows');
	$crm->sql(q{ALTER FOREIGN TABLE dv.new_meter ALTER new_name OPTIONS (SET "column" 'new_name'), ALTER new_serial OPTIONS (SET "column" 'new_serial')});
}

anew();
$crm->sql($pull);
# definitions that are damaged in transit
for my $action ('garble', 'shorten')
{
	$crm->sql(q{UPDATE small.new_meter SET new_name = 'once more' WHERE new_meterid IN (SELECT new_meterid FROM chosen LIMIT 3)});
	$crm->fault(path => 'EntityDefinitions', action => $action, times => 2);
	my ($status, $said) = pull();
	is($status, 0, "a damaged answer ($action) is requested again") or diag $said;
	is(difference(), '0 0', 'and nothing is missing');
	$crm->fault(path => 'EntityDefinitions', action => $action, times => 0);
	(undef, $said) = pull();
	like($said, qr/could not read the definition of table "new_meter": an answer from Dataverse did not have the expected form/, 'but not forever');
	$crm->no_faults;
}

$crm->sql(q{CALL dataverse.pull_all('dv', 'copies')});
control('POST', '/_dvsim/schema', [ { change => 'drop_column', %extra } ]);
$crm->sql(q{INSERT INTO dv.team (name, businessunitid) SELECT 'new team', businessunitid FROM dv.team LIMIT 1});
my ($status, $said) = pull(q{CALL dataverse.pull_all('dv', 'copies')});
like($said, qr/WARNING:  could not pull copies\.new_meter.*ALTER FOREIGN TABLE dv\.new_meter DROP COLUMN new_extra.*ERROR:  1 of 2 tables could not be pulled/s,
	'pull_all names the repair');
is($crm->sql('SELECT (SELECT count(*) FROM copies.team) = (SELECT count(*) FROM dv.team)'), 't', 'and continues with other tables');

$crm->stop;
done_testing();
