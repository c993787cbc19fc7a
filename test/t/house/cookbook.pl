# cookbook.pl
#		Runs the recipes of doc/cookbook.md unchanged, each in one session of
#		psql, and checks their results.
#
# A block of text after a block of SQL is the expected output, as psql prints it.  Only
# addresses and secrets are replaced.  A recipe without a check fails, and so does a check
# without a recipe.  The recipe that needs pg_cron is skipped if pg_cron is not installed.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Cwd qw(getcwd);
use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;

my $cookbook = slurp_file("$FindBin::Bin/../../../doc/cookbook.md");
my $cron = -e qx(pg_config --pkglibdir) =~ s/\s+$//r . '/pg_cron.so';
my $crm = Crm->start('cookbook', preload => !$cron,
	conf => $cron ? "shared_preload_libraries = 'dataverse_fdw,pg_cron'\ncron.database_name = 'postgres'\n" : '');
my $node = $crm->node;
my $sandbox = Dvsim->start;
my $folder = PostgreSQL::Test::Utils::tempdir;

# ---- the environment of the recipes: the tables of README's first screen, and another database

$crm->sql(q{
	CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	CREATE ROLE reader LOGIN;
	CREATE DATABASE erp});
$node->safe_psql('erp', q{
	CREATE TABLE customers (code text, name text, phone text, changed_at timestamptz DEFAULT now());
	INSERT INTO customers SELECT 'E-' || i, 'From ERP ' || i, '555-' || i FROM generate_series(1, 3) i;
	GRANT SELECT ON customers TO reader});

# Creates an alternate key on the account number with the cookbook's request, and waits until it is active.
sub make_key
{
	my ($request) = $cookbook =~ /^(    SELECT dataverse\.request\('crm', 'POST', .*?;)$/ms;

	$crm->sql($request);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM dataverse.import_diff('dv') WHERE drift = 'option keys'}),
		'the key is active');
	return;
}

sub value_is
{
	my ($sql, $expected, $what) = @_;
	return is($crm->sql($sql), $expected, $what);
}

# ---- how to prepare a recipe, and how to check its result; "meanwhile" runs at the same time

my %before = (
	'A CSV file with lookups into two tables' => sub {
		my ($csv) = $cookbook =~ /^```csv\n(.*?)^```$/ms;
		append_to_file("$folder/deals.csv", $csv);
	},
	'From another database' => sub {
		make_key();
		$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD keys 'accountnumber')});
	},
	'Update by an alternate key' => sub { $crm->sql('ALTER FOREIGN TABLE dv.account OPTIONS (DROP keys)') });

my %after = (
	'Cookbook' => sub {
		value_is(q{SELECT reltuples FROM pg_class WHERE oid = 'dv.account'::regclass}, '20', 'the tables are analyzed');
	},
	'A CSV file with lookups into two tables' => sub {
		value_is(q{SELECT string_agg(concat_ws(' ', o.name, a.accountnumber, c.emailaddress1, o.estimatedvalue, o.estimatedclosedate), ', ' ORDER BY o.name)
			FROM dv.opportunity o JOIN dv.account a ON a.accountid = o.parentaccountid JOIN dv.contact c ON c.contactid = o.parentcontactid},
			'Maintenance C-7 p9@example.com 99.50 2026-12-24, Ten meters C-1 p3@example.com 1050.00 2026-12-01', 'both lookups are right');
		value_is('SELECT count(*) FROM dv.opportunity', '2', 'and no other row exists');
	},
	'Parents and children in one go' => sub {
		value_is(q{SELECT count(*) FROM dv.contact AS c JOIN staging_contact AS s ON s.id = c.contactid AND s.lastname = c.lastname}, '6', 'the ids are those of the tables');
		$crm->sql(q{DELETE FROM dv.contact WHERE lastname LIKE 'Child%'; DELETE FROM dv.account WHERE accountnumber LIKE 'P-%'});
	},
	'ORMs and other programs' => sub {
		value_is(q{SELECT obj_description('dv.account'::regclass) IS NOT NULL}, 't', 'comments are in the catalog');
	},
	'From another database' => sub {
		value_is(q{SELECT string_agg(concat_ws(' ', accountnumber, name, telephone1), ', ' ORDER BY 1) FROM dv.account WHERE accountnumber LIKE 'E-%'},
			'E-1 From ERP 1 555-1, E-2 From ERP 2 555-2, E-3 From ERP 3 555-3', 'the customers exist');
		$crm->sql(q{CALL dataverse.push('SELECT code AS accountnumber, name, phone AS telephone1 FROM erp.customers', 'dv.account', key => '{accountnumber}')});
		value_is(q{SELECT count(*) FROM dv.account WHERE accountnumber LIKE 'E-%'}, '3', 'once, however often it is called');
	},
	'From one environment to another' => sub {
		value_is('SELECT count(*) FROM (SELECT accountid, name, accountnumber, telephone1 FROM dv.account
			EXCEPT SELECT accountid, name, accountnumber, telephone1 FROM sandbox.account) AS x', '0', 'the accounts are the same');
		value_is('SELECT count(*) FROM dv.contact c JOIN sandbox.contact USING (contactid, lastname, emailaddress1)
			JOIN sandbox.account a ON a.accountid = c.parentcustomerid', '20', 'and the contacts refer to them');
	},
	'Update by an alternate key' => sub {
		my $limits = q{SELECT string_agg(accountnumber || ' ' || creditlimit, ', ' ORDER BY 1) FROM dv.account WHERE creditlimit IS NOT NULL};
		value_is($limits, 'C-1 1000.00, C-2 2000.00', 'the rows are corrected, and no others');
		# each way that the recipe's table lists
		$crm->sql(q{UPDATE corrections SET credit = credit + 1; DELETE FROM corrections WHERE code = 'C-nowhere';
			UPDATE dv.account a SET creditlimit = c.credit FROM corrections c WHERE a.accountnumber = c.code});
		value_is($limits, 'C-1 1001.00, C-2 2001.00', 'by UPDATE');
		$crm->sql(q{SET dataverse_fdw.insert_mode = upsert; SET dataverse_fdw.upsert_key = accountnumber;
			INSERT INTO dv.account (accountnumber, creditlimit) SELECT code, credit + 1 FROM corrections});
		value_is($limits, 'C-1 1002.00, C-2 2002.00', 'and by INSERT');
	},
	'Find, correct, and retry rejects' => sub {
		value_is(q{SELECT string_agg(name || ' ' || numberofemployees, ', ' ORDER BY name) FROM dv.account WHERE accountnumber LIKE 'N-%'},
			'Alpine Ski House 12, Bold Bikes 5, City Power 80', 'all three rows exist, one of them corrected');
	},
	'Choices by label' => sub {
		value_is(q{SELECT count(*), count(*) FILTER (WHERE label = 'Consulting' AND value = 7) FROM industries}, '12|1', 'the choices are in a table');
		value_is(q{SELECT string_agg(name || ' ' || industrycode, ', ' ORDER BY name) FROM dv.account WHERE name IN ('Wingtip', 'Tailspin')},
			'Tailspin 1, Wingtip 4', 'the numbers are written');
	},
	'Why is my load slow' => sub {
		my ($out) = @_;
		value_is(q{SELECT count(*) FROM dv.account WHERE name ~ '^x[0-9]'}, '0', 'a dry run sends nothing');
		like($out, qr{^ insert +\|.*\| response +\|}m, 'the progress view names what the load waits for');
		like($out, qr/^ app1 +\| +\d+ \| +\d+ \| (?:adaptive rate|latency)/m, 'and the pool names its limit');
		like($out, qr/dry_run" is on; 10000 rows were encoded but not sent/, 'the message says that it was a dry run');
	},
	'A role for the copies' => sub {
		value_is('SELECT (SELECT count(*) FROM crm.account) = (SELECT count(*) FROM dv.account), (SELECT count(*) FROM crm.contact)', 't|20', 'the copies have all rows');
		value_is(q{SELECT DISTINCT role FROM dataverse.runs WHERE target LIKE 'crm.%'}, 'copier', 'and belong to the role');
	},
	'Nightly sync' => sub {
		value_is(q{SELECT string_agg(jobname || ' ' || username, ', ' ORDER BY jobname) FROM cron.job},
			'clean copier, contacts copier, crm copier, crm-full copier, customers copier', 'the jobs are scheduled');
		# each job does its work when run as pg_cron runs it
		$crm->sql(q{UPDATE crm.contact SET jobtitle = 'here' WHERE emailaddress1 = 'p1@example.com'; UPDATE dv.contact SET jobtitle = 'there' WHERE emailaddress1 = 'p2@example.com'});
		# peer authentication needs no password; postgres_fdw requires a superuser's consent for that
		$crm->sql(q{ALTER USER MAPPING FOR copier SERVER erp OPTIONS (ADD password_required 'false')});
		for my $job (split /\x01/, $crm->sql(q{SELECT string_agg(command, E'\x01' ORDER BY jobname) FROM cron.job}))
		{
			my ($status, $out, $err) = $node->psql('postgres', $job, extra_params => [ '-U', 'copier' ]);
			is($status, 0, 'runs: ' . substr($job, 0, 60)) or diag($err);
		}
		for my $table (qw(dv.contact crm.contact))
		{
			value_is("SELECT string_agg(jobtitle, ' ' ORDER BY emailaddress1) FROM $table", 'here there', "both changes are in $table");
		}
	},
	'A copy in partitions' => sub {
		my ($out) = @_;
		like($out, qr/^ crm\.deal_new \| +2$/m, 'each row is in its partition');
		value_is(q{SELECT dataverse.forget_copy('crm.deal'), (SELECT count(*) FROM crm.deal)}, 't|2', 'a row leaves the table when it leaves the partition');
	});

# A load that the service answers slowly, so that its progress can be observed.
my %meanwhile = (
	'Why is my load slow' => sub {
		$crm->fault(method => 'POST', path => '/accounts', action => 'stall');
		my $load = $crm->background(q{INSERT INTO dv.account (name) VALUES ('slow')}, 'load');
		ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM dataverse.progress WHERE waiting_for = 'response'}), 'a load is running');
		return $load;
	});

# ---- the recipes

# Runs blocks in one session, and returns the output of each.
sub run_blocks
{
	my @blocks = @_;
	my $mark = '--- next block ---';
	my $script = "\\pset footer on\n" . join "\\echo '$mark'\n", @blocks;
	my ($out, $err) = ('', '');
	my $home = getcwd;

	chdir $folder or die $!;
	IPC::Run::run([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$script, '>', \$out, '2>', \$err);
	my $status = $?;
	chdir $home;
	return ($status, $err, split /^\Q$mark\E\n/m, $out, -1);
}

sub as_here
{
	my ($sql) = @_;
	my %base = ('contoso-test' => $sandbox->base, contoso => $crm->dvsim->base);

	$sql =~ s{(url) 'https://(contoso[-\w]*)\.crm\.dynamics\.com'}{"$1 '$base{$2}', authority '$base{$2}'"}ge;
	$sql =~ s/your-client-id/app1/g;
	$sql =~ s/your-client-secret/secret1/g;
	$sql =~ s{host 'erp\.example\.com'}{"host '" . $node->host . "', port '" . $node->port . "'"}ge;
	return $sql;
}

my %seen;
for my $recipe (split /^(?=##? )/m, $cookbook)
{
	my ($title) = $recipe =~ /^##? (.+)/;
	my (@blocks, @expected);

	while ($recipe =~ /^```(\w+)\n(.*?)^```$/msg)
	{
		if ($1 eq 'sql') { push @blocks, as_here($2); push @expected, undef; }
		elsif ($1 eq 'text') { $expected[-1] = $2; }
	}
	$seen{$title} = 1;
	next if !$cron && grep { /CREATE EXTENSION pg_cron/ } @blocks;
	$before{$title}->() if $before{$title};

	my $load = $meanwhile{$title} ? $meanwhile{$title}->() : undef;
	my ($status, $err, @printed) = run_blocks(@blocks);

	is($status, 0, "runs: $title") or diag($err);
	for my $i (grep { defined $expected[$_] } 0 .. $#expected)
	{
		is($printed[$i] =~ s/\n+\z/\n/r, $expected[$i], "$title: prints what the cookbook shows");
	}
	if ($load)
	{
		$crm->no_faults;
		$crm->sql("SELECT pg_cancel_backend($load->{pid})");
		$crm->finish($load);
	}
	ok($after{$title}, "$title: has a check") and $after{$title}->(join('', @printed) . $err);
}
is(join(', ', sort keys %seen), join(', ', sort keys %after), 'each recipe has a check');

# ---- the cookbook's tables list exactly the words that the product uses

my $source = join '', map { slurp_file($_) } glob "$FindBin::Bin/../../../src/{*/,*/*/}*.c";
for my $word (qw(response slot throttle backoff token))
{
	like($source, qr/\{"Dataverse\w+", "$word"\}/, "waiting_for can be $word");
}
for my $word ('adaptive rate', 'latency', 'maximum', 'execution-time ceiling', 'throttle', 'throttle ceiling', 'circuit breaker', 'budget: ', 'set aside: ')
{
	like($source, qr/"\Q$word\E/, "limited_by can be $word");
}

$crm->stop;
done_testing();
