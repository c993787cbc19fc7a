# runs_wait.pl
#		Runs of dataverse.pull(), push(), and sync() that are throttled continue,
#		however often that happens and whatever the source: the service with a code,
#		a gateway without a code or with a page of HTML, a server that is busy for a
#		while, the token endpoint, or another service that the run reads from.  They
#		fail if the server's options say so, as do all other statements.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;

my $rows = 300;
# more often than a statement tolerates (max_throttle_retries: 3)
my $times = 6;
my $crm = Crm->start('waits', options => { page_size => 50, batch_size => 50, budget_pacing => 'off', retry_after_buffer => '0', fallback_retry_after => '0.2s' });

$crm->sql("CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	CREATE TABLE source AS SELECT 'contact ' || i AS lastname FROM generate_series(1, $rows) AS i");
$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");

my %throttles = (
	'a 429 with a code' => { status => 429, code => '0x80072322', message => 'slow down', retry_after => 0 },
	'a 429 without a code' => { status => 429, message => 'slow down', retry_after => 0 },
	'a 429 as a page of HTML' => { status => 429, body => '<html><body>Too many requests</body></html>', retry_after => 0 },
	'a 429 without Retry-After' => { status => 429, body => '<html><body>Too many requests</body></html>' },
	'a 503 with Retry-After' => { status => 503, message => 'busy', retry_after => 0 });

# A run, its expected result, and how to undo it.
my %runs = (
	pull => {
		sql => q{CALL dataverse.pull('dv.account', 'public.account')},
		path => '/accounts', method => 'GET',
		differs => q{SELECT count(*) FROM (SELECT accountid, name FROM dv.account EXCEPT SELECT accountid, name FROM account) AS x},
		undo => q{SELECT dataverse.forget_copy('public.account'); DROP TABLE account} },
	push => {
		sql => q{CALL dataverse.push('SELECT * FROM source', 'dv.contact', chunk => 120)},
		path => '/contacts', method => 'POST',
		differs => qq{SELECT abs($rows - count(*)) + abs($rows - count(DISTINCT lastname)) FROM dv.contact},
		undo => q{DELETE FROM dv.contact} },
	sync => {
		before => q{CALL dataverse.sync('dv.account', 'public.account'); UPDATE account SET name = name || ' edited'},
		sql => q{CALL dataverse.sync('dv.account', 'public.account')},
		path => '/accounts', method => 'POST',
		differs => q{SELECT count(*) FROM (SELECT accountid, name FROM account EXCEPT SELECT accountid, name FROM dv.account) AS x},
		undo => q{CALL dataverse.untrack('public.account'); SELECT dataverse.forget_copy('public.account'); DROP TABLE account} });

sub quietly { return $crm->sql("SET client_min_messages = warning; $_[0]"); }

sub run
{
	my ($sql) = @_;
	my $err = '';
	my $status = $crm->node->psql('postgres', $sql, stderr => \$err);

	return ($status, $err);
}

for my $kind (sort keys %runs)
{
	my $run = $runs{$kind};

	for my $throttle (sort keys %throttles)
	{
		my $what = "$kind under $throttle";

		quietly($run->{before}) if $run->{before};
		# not the first request, so that the run has already made progress
		$crm->fault(path => $run->{path}, method => $run->{method}, after => 1, times => $times, action => 'status', %{ $throttles{$throttle} });
		my ($status, $err) = run($run->{sql});
		is($status, 0, "$what: the run continues") or diag $err;
		my $seen = $crm->sql('SELECT throttles FROM dataverse.runs ORDER BY id DESC LIMIT 1');
		is($seen, $times, "$what: after all refusals");
		$crm->no_faults;
		$crm->sql(q{SELECT dataverse.reset_pool('crm')});
		is($crm->sql($run->{differs}), '0', "$what: each row exists once");
		quietly($run->{undo});
	}
}

# ---- the token endpoint can be as busy as the service

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retries '1')});
for my $kind (sort keys %runs)
{
	my $run = $runs{$kind};

	for my $throttle ('a 429 without a code', 'a 503 with Retry-After')
	{
		for my $when ('at the beginning', 'later')
		{
			my $what = "$kind under $throttle of the token endpoint $when";

			quietly($run->{before}) if $run->{before};
			$crm->fault(path => $run->{path}, method => $run->{method}, after => 1, action => 'expire_token') if $when eq 'later';
			$crm->fault(path => '/oauth2/', method => 'POST', after => $when eq 'later' ? 1 : 0, times => $times, action => 'status', %{ $throttles{$throttle} });
			my ($status, $err) = run($run->{sql});
			is($status, 0, "$what: the run continues") or diag $err;
			is($crm->dvsim->control('GET', '/_dvsim/faults')->json->[-1]{hits}, $times, "$what: after all refusals");
			$crm->no_faults;
			is($crm->sql($run->{differs}), '0', "$what: each row exists once");
			quietly($run->{undo});
		}
	}
}
{
	my $err;

	$crm->fault(path => '/oauth2/', method => 'POST', times => 0, action => 'status', status => 500);
	(undef, $err) = run($runs{pull}{sql});
	like($err, qr/ERROR:.*could not get a token/, 'a failing endpoint is not waited for');
	is($crm->sql('SELECT status, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1'), 'failed|28000', 'and the run reports it');
	$crm->no_faults;
	quietly($runs{pull}{sql});
	quietly($runs{pull}{undo});
}
$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_retries)});

# ---- the options of the server that raised the error decide

$crm->server('other', base => $crm->dvsim->base . '/', options => { page_size => 50, budget_pacing => 'off', retry_after_buffer => '0', fallback_retry_after => '0.2s' });
$crm->sql('CREATE SCHEMA other; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER other INTO other');
for my $bounded ('crm', 'other')
{
	$crm->sql("ALTER SERVER $bounded OPTIONS (ADD max_throttle_retries '1')");
	$crm->fault(path => '/accounts', method => 'GET', times => $times, action => 'status', %{ $throttles{'a 429 without a code'} });
	my ($status, $err) = run(q{CALL dataverse.push('SELECT left(name, 50) AS lastname FROM other.account', 'dv.contact', chunk => 120)});
	if ($bounded eq 'crm')
	{
		is($status, 0, 'a throttle of the source is waited out even if the target has a limit') or diag $err;
	}
	else
	{
		isnt($status, 0, 'and ends the run if the source has one');
		is($crm->sql('SELECT status, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1'), 'failed|53400', 'as a run that was throttled');
	}
	$crm->no_faults;
	$crm->sql("SELECT dataverse.reset_pool('$_')") for 'crm', 'other';
	$crm->sql("ALTER SERVER $bounded OPTIONS (DROP max_throttle_retries)");
	quietly('DELETE FROM dv.contact');
}

# ---- with a limit, a run fails

for my $option ([ max_throttle_retries => 1 ], [ max_retry_after_tolerance => 0 ])
{
	my ($name, $value) = @$option;

	$crm->sql("ALTER SERVER crm OPTIONS (ADD $name '$value')");
	for my $kind ('pull', 'push')
	{
		my $run = $runs{$kind};

		$crm->fault(path => $run->{path}, method => $run->{method}, times => 0, action => 'status', %{ $throttles{'a 429 without a code'} }, retry_after => 1);
		my ($status, $err) = run($run->{sql});
		isnt($status, 0, "$kind fails with $name");
		is($crm->sql('SELECT status, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1'), 'failed|53400', 'as a run that was throttled');
		$crm->no_faults;
		$crm->sql(q{SELECT dataverse.reset_pool('crm')});
		($status, $err) = run($run->{sql});
		is($status, 0, 'and the next one continues') or diag $err;
		is($crm->sql($run->{differs}), '0', 'with each row once');
		quietly($run->{undo});
	}
	$crm->sql("ALTER SERVER crm OPTIONS (DROP $name)");
}

# ---- an error with the same SQLSTATE that the service did not cause

my $limited = q{CREATE OR REPLACE FUNCTION brimful() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'temporary file size exceeds a limit' USING errcode = '53400', detail = 'Dataverse code 0x80072322'; END $$};
quietly(q{CALL dataverse.pull('dv.account', 'public.account')});
$crm->sql("$limited; CREATE TRIGGER brimful BEFORE INSERT OR UPDATE ON account EXECUTE FUNCTION brimful()");
$crm->sql(q{UPDATE dv.account SET name = 'changed' WHERE accountid = (SELECT min(accountid::text)::uuid FROM account)});
my ($status, $err) = run($runs{pull}{sql});
isnt($status, 0, 'a limit of PostgreSQL is not waited out');
like($err, qr/temporary file size exceeds a limit/, 'but reported');

# ---- an error that only looks like the service's

my $forged = q{CREATE OR REPLACE FUNCTION brimful() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'busy' USING errcode = '53400', constraint = 'dataverse_throttle'; END $$};
my $throttled = q{INSERT INTO dv.contact (lastname) VALUES ('throttled')};
$crm->sql("$forged; CREATE TRIGGER brimful BEFORE INSERT ON dv.contact FOR EACH ROW EXECUTE FUNCTION brimful();
	DROP TABLE IF EXISTS contact_source; CREATE TABLE contact_source AS SELECT 'forged' AS lastname");
my %forgers = (
	pull => q{CALL dataverse.pull('dv.account', 'public.account')},
	sync => q{CALL dataverse.sync('dv.account', 'public.account')},
	push => q{CALL dataverse.push('SELECT * FROM contact_source', 'dv.contact')});
for my $kind (sort keys %forgers)
{
	($status, $err) = run("SET statement_timeout = '20s'; $forgers{$kind}");
	isnt($status, 0, "$kind does not wait for a trigger that names the limit of the service");
	like($err, qr/busy/, '… but reports its error');
	is($crm->sql('SELECT status, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1'), 'failed|53400', '… and fails');

	# A throttle that the session has met before is none of the run.
	$crm->sql('ALTER FOREIGN TABLE dv.contact DISABLE TRIGGER brimful');
	$crm->fault(path => '/contacts', method => 'POST', times => 4, action => 'status', %{ $throttles{'a 429 with a code'} });
	my $out;
	$crm->node->psql('postgres', qq{\\set ON_ERROR_STOP 0\n$throttled;\nALTER FOREIGN TABLE dv.contact ENABLE TRIGGER brimful;\nSET statement_timeout = '20s';\n$forgers{$kind};},
		stdout => \$out, stderr => \$err, on_error_stop => 0, timeout => 60);
	like($err, qr/0x80072322.*busy/s, "$kind after a throttle: the trigger's error is reported");
	is($crm->sql('SELECT status, sqlstate FROM dataverse.runs ORDER BY id DESC LIMIT 1'), 'failed|53400', '… and the run fails');
	$crm->no_faults;
	$crm->sql(q{SELECT dataverse.reset_pool('crm')});
}

$crm->stop;
done_testing();
