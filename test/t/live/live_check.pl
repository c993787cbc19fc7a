# live_check.pl
#		The check against a live environment (test/live), with a dvsim in place of
#		the environment: it finds what is wrong, and nothing else; it leaves neither
#		secrets nor rows; and its table of shapes matches the extension's requests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../live/lib";
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Dvsim;
use Live::Settings;
use Live::Shapes;
use Live::Side;
use Live::Steps;

my $top = "$FindBin::Bin/../../..";
my $check = "$top/test/live/check";
my $secret = 'Geheim+4711/ä=';
my $dir = PostgreSQL::Test::Utils::tempdir();
my @tables = qw(new_alltypes new_meter new_reading new_account_contact);
my @standard = qw(account contact task);

system("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=app -keyout $dir/app.key -out $dir/app.pem >/dev/null 2>&1") == 0
  or die 'openssl';
system("cat $dir/app.key $dir/app.pem > $dir/both.pem") == 0 or die 'cat';

# jobs take some seconds, here of virtual time
my $live = Dvsim->start('--time-scale', 5, '--app-user', "app1:$secret", '--app-user', "cert:\@$dir/app.pem");
my $reference = Dvsim->start('--time-scale', 5);
my $node = PostgreSQL::Test::Cluster->new('live_check');
my ($environment) = $live->base =~ m{//(.*)};
my %settings = (
	DV_URL => $live->base,
	DV_TOKEN_URL => $live->base . '/t/oauth2/v2.0/token',
	DV_CLIENT_ID => 'app1',
	DV_CLIENT_SECRET => $secret);

# maximum verbosity, to search for secrets
$node->init;
$node->append_conf('postgresql.conf', "log_min_messages = debug2\nlog_statement = all\nlog_min_duration_statement = 0\n");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE live');
$node->safe_psql('postgres', 'CREATE DATABASE reference');

# the seeded rows must survive
for my $table (@standard)
{
	$live->control('POST', "/_dvsim/seed?table=$table&rows=20");
}
my %before = rows();
my $written = '';    # all output and reports of the runs

sub rows
{
	my $tables = $live->control('GET', '/_dvsim/stats')->json->{tables};
	return map { $_ => $tables->{$_} // 0 } @standard, @tables;
}

sub arguments
{
	return ($^X, $check, '--reference', $reference->base, '--reference-db', $node->connstr('reference'),
		'--report', "$dir/report.md", @_, $environment);
}

# Runs the check; returns its status, and its output.
sub run_check
{
	my ($more, %env) = @_;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %settings, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'live', %env);

	delete $ENV{$_} for grep { !defined $ENV{$_} } keys %ENV;
	unlink "$dir/report.md";
	IPC::Run::run([ arguments(@$more) ], '<', \undef, '>', \$out, '2>', \$err);
	my $exit = $? >> 8;
	$written .= $out . $err . (-e "$dir/report.md" ? report() : '');
	return ($exit, "$out$err");
}

# verdicts by step, from its output
sub verdicts
{
	my ($out) = @_;
	return map { /^(ok|differs|failed|skipped) +(\S+)/ ? ($2 => $1) : () } split /\n/, $out;
}

sub report { return slurp_file("$dir/report.md"); }

sub line_of_shape
{
	my ($shape) = @_;
	my ($line) = report() =~ /^(\| \Q$shape\E \|.*)$/m;
	return $line // '';
}

# Nothing that the check created is left, neither in the environment nor in PostgreSQL.
sub clean_ok
{
	my ($what) = @_;
	my %now = rows();

	is_deeply(\%now, \%before, "$what: the environment has the rows that it had");
	for my $db ('live', 'reference')
	{
		is($node->safe_psql($db, q{SELECT count(*) FROM pg_namespace WHERE nspname ~ 'check' UNION ALL SELECT count(*) FROM pg_foreign_server}),
			"0\n0", "… and database $db has no objects of the check");
	}
	return;
}

my @all = ('--tables', join(',', @tables));

# ---- everything is as expected

my ($status, $out) = run_check([ @all, '--truncate', 'new_alltypes' ]);
my %verdict = verdicts($out);
my @bad = grep { $verdict{$_} ne 'ok' } sort keys %verdict;
is("@bad", '', 'a dvsim behaves like a dvsim') or diag $out, -e "$dir/report.md" ? report() : '';
is($status, 0, '… so the status is 0');
is(scalar keys %verdict, scalar @Live::Steps::steps, '… and no step was skipped');
like($out, qr/creates about seventy rows in account, contact, task, new_alltypes.*truncates new_alltypes/s, 'it announces what it will do');
for my $shape (Live::Shapes::names())
{
	my $wanted = $shape =~ /^token-/ ? qr/^\| \Q$shape\E \| skipped \|/ : qr/^\| \Q$shape\E \| ok \|/;
	my $line = line_of_shape($shape);
	next if $line =~ $wanted;
	fail("the report has for $shape: $line");
}
like(report(), qr/^- versions: dataverse_fdw \S+, PostgreSQL \d/m, '… and versions');
like(line_of_shape('create-multiple'), qr/POST accounts\S*CreateMultiple 200 \|.* [-0-9a-f]{36}[ |]/, 'the report has ids of requests');
like(report(), qr/^- environment: \Q$environment\E$/m, '… and the environment');
clean_ok('a run');

($status, $out) = run_check([ @all, '--mask', '--steps', 'whoami' ]);
is($status, 0, 'some of the steps');
unlike(report(), qr/\Q$environment\E|app1/, 'names can be removed from the report');
like(report(), qr/^- environment: <environment>$/m, '… which says so');

# ---- a bare environment

($status, $out) = run_check([]);
%verdict = verdicts($out);
is($status, 0, 'without tables of its own, it needs only the standard tables');
is_deeply(
	[ grep { $verdict{$_} eq 'skipped' } map { $_->[0] } @Live::Steps::steps ],
	[ map { $_->[0] } grep { grep { !/^(?:bulk|few|tracked)$/ } @{ $_->[1] } } @Live::Steps::steps ],
	'… and skips steps that need others');
like($out, qr/^skipped  elastic +it needs an elastic table, but found none in account, contact, task/m, '… with the reason');
clean_ok('a run without tables');

# ---- other ways to get a token

# The environment's requests, to be compared with the table of shapes at the end.
my @journal;
my $read = $live->control('GET', '/_dvsim/requests?since=0')->json->{next};

sub read_journal
{
	my $log = $live->control('GET', "/_dvsim/requests?since=$read")->json;

	$read = $log->{next};
	return @{ $log->{requests} };
}

($status, $out) = run_check([ '--steps', 'token' ], DV_CLIENT_SECRET => undef, DV_CLIENT_ID => 'cert', DV_CLIENT_CERTIFICATE => "$dir/both.pem");
is($status, 0, 'a certificate') or diag $out;
like(line_of_shape('token-certificate'), qr/\| ok \|/, '… is a separate shape');
($status, $out) = run_check([ '--steps', 'token' ],
	DV_CLIENT_SECRET => undef, DV_MANAGED_IDENTITY => 'on', DV_TOKEN_URL => $live->base . '/metadata/identity/oauth2/token');
is($status, 0, 'a managed identity') or diag $out;
like(line_of_shape('token-identity'), qr/\| ok \|/, '… too');

push @journal, read_journal();

# ---- a temporary key

my $keys = "EntityDefinitions(LogicalName='account')/Keys?\$select=LogicalName";
my $keys_before = $live->get($keys)->body;
($status, $out) = run_check([ '--create-key', '--steps', '^upsert-key' ]);
is($status, 0, 'a key is created') or diag $out;
is_deeply(
	[ map { /^(ok +upsert-key\S*)/ ? $1 =~ s/ +/ /r : () } split /\n/, $out ],
	[ map { $_->[0] =~ /^upsert-key/ ? "ok $_->[0]" : () } @Live::Steps::steps ],
	'… so rows of accounts can be addressed by it');
is($live->get($keys)->body, $keys_before, '… and is deleted afterwards');
clean_ok('a run with a key');

# ---- errors are found

sub fault
{
	my ($step, $rule, $verdict, $like, $what) = @_;

	$live->control('POST', '/_dvsim/faults', [ { times => 0, %$rule } ]);
	($status, $out) = run_check([ '--steps', "^$step\$" ]);
	$live->control('DELETE', '/_dvsim/faults');
	my %found = verdicts($out);
	is($found{ $step =~ s/\$.*//r }, $verdict, $what) or diag $out;
	like(report(), $like, '… and the report has it');
	is($status, 1, '… and the status shows it');
	return;
}

fault('count', { path => 'accounts?$apply=', status => 200, body => { value => [ { n => 4711 } ] } },
	'differs', qr/^### count: differs\n.*^seen:\s+4711\n/ms, 'a changed answer differs');
fault('fetchxml', { path => 'fetchXml', status => 403, code => '0x80040220', message => 'no, thanks' },
	'failed', qr/^### fetchxml: failed\n.*ERROR 42501 0x80040220.*no, thanks/ms, 'a refusal fails');
fault('whoami$|^test-connection', { path => 'WhoAmI', status => 400, code => '0x80040216', message => 'no' },
	'failed', qr/^\| whoami \| failed \|.*\| whoami \|$/m, 'a shape has the verdict of its worst step');
fault('no-job', { path => 'asyncoperations(', status => 400, code => '0x80044331', message => 'too long' },
	'differs', qr/^### no-job: differs\n.*ERROR \w+ 0x80040217.*ERROR 22001 0x80044331/ms, 'another error than the expected one differs');

# Several at a time: the first rule that matches applies; for each step its verdict, its entry in the report, and a name.
sub faults
{
	my ($rules, @cases) = @_;

	$live->control('POST', '/_dvsim/faults', [ map { { times => 0, %$_ } } @$rules ]);
	($status, $out) = run_check([ '--steps', '^(?:' . join('|', map { $_->[0] } @cases) . ')$' ]);
	$live->control('DELETE', '/_dvsim/faults');
	my %found = verdicts($out);
	for my $case (@cases)
	{
		my ($step, $verdict, $like, $what) = @$case;

		is($found{$step}, $verdict, $what) or diag $out;
		like(report() =~ /^(### \Q$step\E: .*?)(?=^### |\z)/ms ? $1 : '', $like, '… and the report has it');
	}
	is($status, 1, '… and the status shows it');
	return;
}

# ids in the order of their texts, for example: the names are as long as those of any run
my @other_order = map { { accountid => "11111111-0000-4000-8000-00000000000$_", name => "dataverse-fdw check 00000000 a$_" } } 1 .. 6;
my $link = $live->base . '/api/data/v9.2/accounts?$select=name&$deltatoken=1';
my $here = qr/\(same result, different requests\)\n.*^seen:\n.*fetchXml 400$/ms;

faults(
	[
		# Ranges are requested only if the order of ids has been verified before the last page has arrived; so the verification
		# is exempt from the rules below, also where it compares with "ge", and pages are delayed.
		{ path => '$select=accountid&$filter=accountid%20eq', action => 'delay', delay_ms => 1 },
		{ path => '&$skiptoken=', action => 'delay', delay_ms => 200 },
		{ path => "aggregate%3D'min'", status => 200, body => { value => [ { c0 => '31.12.2001', c1 => '31.12.2001', c2 => 8 } ] } },
		{ path => "usertimezone%3D'false'", status => 200, body => { value => [ { c0 => 2026, c1 => 3, c2 => 1, c3 => 3 } ] } },
		{ path => "aggregate%3D'true'", status => 400, code => '0x80040216', message => 'no groups' },
		{ path => "link-type%3D'inner'", status => 200, body => { value => [ { c0 => 'x', 't1.c1' => 'y', 't1.c2' => 1, contactid => '11111111-0000-4000-8000-000000000001' } ] } },
		{ path => "link-type%3D'outer'", status => 400, code => '0x80041102', message => 'no outer joins' },
		{ path => "link-type%3D'not%20any'", status => 200, body => { value => [] } },
		{ path => "link-type%3D'exists'", status => 400, code => '0x80041121', message => 'no such link' },
		{ path => 'accountid%20ge', status => 200, body => { value => \@other_order } },
		{ path => 'fetchXml=<fetch><entity', status => 200, body => { value => \@other_order } } ],
	[ 'join-inner', 'failed', qr/does not name columns of joined tables as requested/, 'other names of the columns of joins' ],
	(map { [ $_, 'differs', $here, "$_: refused, and joined here" ] } qw(join-outer join-exists)),
	[ 'join-not-any', 'differs', qr/^expected:\n.*^    a4\n.*^seen:\n/ms, 'one that finds no rows' ],
	(map { [ $_, 'differs', $here, "$_: refused, and grouped here" ] } qw(group-choice group-boolean group-lookup)),
	[ 'group-month', 'differs', qr/^    2026-03-01 00:00:00\+00\|/m, 'months of another time zone' ],
	[ 'aggregate-date', 'failed', qr/ERROR/, 'dates in another form' ],
	[ 'id-order', 'differs', qr/^seen:\n.*^    a1 a2 a3 a4 a5 a6$/ms, 'another order of ids' ],
	[ 'id-order-fetchxml', 'differs', qr/^seen:\n.*^    a1 a2 a3 a4 a5 a6$/ms, '… in FetchXML' ],
	[ 'ranges', 'failed', qr/in an unexpected order/, 'rows outside of the requested range' ]);
faults(
	[
		{ path => '$deltatoken', status => 200, body => { '@odata.deltaLink' => $link, value => [] } },
		{ contains => '"numberofemployees":22', status => 400, code => '0x80044331', message => 'no updates' } ],
	[ 'changes', 'differs', qr/^expected:\n.*^    <y2>\|t\|.*^seen:\n/ms, 'changes that are not reported' ],
	[ 'pull', 'differs', qr/^expected:\n.*^    y4\|pulled\n.*^seen:\n.*^    y3\|\n/ms, '… so that a copy misses them' ],
	[ 'push', 'failed', qr/no updates/, 'a push that is refused' ]);
clean_ok('runs with faults');

# ---- quirks

# The steps that a quirk affects (all, if it is not listed), and the requests that it replaces.
my %concerned = (
	'batch-250' => [ '^(?:long|delete$)', qr/^ +POST \$batch 400$/m ],
	'bulk-disabled' => [
		'^(?:insert|copy|returning|update|set|clear|change|upsert|bypass|duplicate|missing|text|bad|number|on-error|elastic|pairs|pull|sync|push|impersonate|delete)',
		qr/^ +POST accounts\S*UpdateMultiple 400$/m ],
	'failing-total-count' => [ '^(?:estimate|analyze)', qr/^ +GET contacts\?\$apply 200$/m ],
	'lagging-full-text' => [ '^filter-(?:choices|full-text)' ],
	'lagging-jobs' => [ '^(?:truncate|no-job)', qr/^ +GET asyncoperations\S* 404$/m ],
	'limited-read' => ['^(?:changes|pull|sync)$'],
	'no-apply-functions' => [ '^(?:count|order|analyze|filter-(?:text|number|choice|id|lookup))', qr/^ +GET accounts\?\$apply 400$/m ],
	'no-cookies' => ['^(?:fetchxml|join|group)'],
	'no-in' => [ '^(?:filter|count|order|long|upsert|update|pull|sync|push)', qr/^ +GET accounts\?\$select&\$filter\S* 400$/m ],
	'no-metadata-changes' => [ '^(?:import|labels|plain)', qr/^ +GET EntityDefinitions\S*ImageAttributeMetadata\?\$select 200$/m ],
	'property-values-100' => [ '^(?:count|filter-id|long)', qr/^ +GET accounts\?\S* 400$|^ +POST \$batch 400$/m ]);

# Steps with this need are skipped under a quirk.
my %left_out = ('bulk-disabled' => 'bulk', 'limited-read' => 'tracked');

sub steps_with
{
	my (@needs) = @_;
	my %wanted = map { $_ => 1 } @needs;

	return map { $_->[0] } grep { grep { $wanted{$_} } @{ $_->[1] } } @Live::Steps::steps;
}

is_deeply([ sort keys %concerned ], [ sort { $a cmp $b } Dvsim::harmless_quirks() ], 'the affected steps of each quirk are known');

# The result is the same under each quirk, although the requests may differ.
read_journal();
for my $quirks ((map { [$_] } Dvsim::harmless_quirks()), [ Dvsim::harmless_quirks() ])
{
	my $name = @$quirks > 1 ? 'all quirks' : $quirks->[0];
	my ($steps, $bite) = @$quirks > 1 ? () : @{ $concerned{$name} };
	my @needs = grep { defined } @left_out{@$quirks};

	$live->quirks(@$quirks);
	($status, $out) = run_check([ @all, '--truncate', 'new_alltypes', (defined $steps ? ('--steps', $steps) : ()) ]);
	my @lines = split /\n/, $out;
	my @wrong = grep { /^(?:failed|differs)/ && !/\(same result, different requests\)$/ } @lines;
	is("@wrong", '', "$name: the same results") or diag report();
	is_deeply(
		[ sort map { /^skipped +(\S+)/ ? $1 : () } @lines ],
		[ sort { $a cmp $b } steps_with(@needs) ],
		'… of all steps' . (@needs ? " but those that need @needs" : ''));
	like($out, qr/^skipped  pull +changes of accounts cannot be read: .*Dataverse code 0x80040220, HTTP status 403/m, '… with the reason')
	  if $name eq 'limited-read';
	my @requests = read_journal();
	push @journal, @requests;
	like(report(), $bite, '… by other requests') if $bite;
	cmp_ok(scalar(grep { $_->{target} =~ /\bContainValues\b/ && $_->{status} == 200 } @requests), '>', 3, '… after a retry')
	  if $name =~ /full-text/;
	is($status, $out =~ /^differs/m ? 1 : 0, '… and the status shows whether requests differed');
}
$live->quirks();
clean_ok('runs under quirks');

# ---- refusals

for my $case (
	[ 'another environment', qr/not for "other\.crm\.dynamics\.com"/, {}, 'other.crm.dynamics.com' ],
	[ 'no environment', qr/name the environment/, {} ],
	[ 'plain HTTP', qr/must begin with https/, { DV_URL => 'http://contoso.crm.dynamics.com' }, 'contoso.crm.dynamics.com' ],
	[ 'plain HTTP for tokens', qr/"token_url" must begin with https/, { DV_TOKEN_URL => 'http://example.com/token' }, $environment ],
	[ 'no address', qr/set DV_URL/, { DV_URL => '' }, $environment ],
	[ 'a table to truncate that is not named', qr/must be one of the other tables/, {}, '--truncate', 'account', $environment ])
{
	my ($what, $like, $env, @arguments) = @$case;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %settings, %$env);

	IPC::Run::run([ $^X, $check, '--reference', $reference->base, @arguments ], '<', \undef, '>', \$out, '2>', \$err);
	is($? >> 8, 2, "$what is refused");
	like($err, $like, '… with the reason');
}
{
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %settings);

	IPC::Run::run([ "$top/test/live/run", 'other.crm.dynamics.com' ], '<', \undef, '>', \$out, '2>', \$err);
	isnt($?, 0, 'and so it is by the script that prepares it');
	is($out, '', '… before it creates anything');
	like($err, qr/not for "other\.crm\.dynamics\.com"/, '… with the reason');
}

# ---- a role that cannot keep secrets out of the log

$node->safe_psql('live', 'CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE live TO plain; GRANT USAGE ON FOREIGN DATA WRAPPER dataverse_fdw TO plain');
($status, $out) = run_check([ '--steps', 'whoami' ], PGUSER => 'plain');
is($status, 1, 'a role that is no superuser is refused if statements are logged');
like($out, qr/setting "log_statement" of PostgreSQL could put secrets into its log/, '… with the reason');

# ---- a service file

append_to_file("$dir/service.conf", "# environments\n[other]\nurl = https://other.crm.dynamics.com\n\n[dev]\nurl=$settings{DV_URL}\n"
	  . "token_url=$settings{DV_TOKEN_URL}\nclient_id=app1\nclient_secret_file=$dir/secret\n");
append_to_file("$dir/secret", "$secret\n");
my %service = ((map { $_ => undef } keys %settings), DV_SERVICE => 'dev', DV_SERVICEFILE => "$dir/service.conf");
chmod 0644, "$dir/service.conf";
($status, $out) = run_check([ '--steps', 'whoami' ], %service);
is($status, 2, 'a service file that others can read is refused');
like($out, qr/can be read by others/, '… with the reason');
chmod 0600, "$dir/service.conf";
($status, $out) = run_check([ '--steps', 'whoami' ], %service);
is($status, 0, 'a service file with a file of the secret') or diag $out;

# ---- interrupted, and killed

# Runs the check until it has inserted rows, and sends it a signal.
sub interrupt
{
	my ($signal) = @_;
	local %ENV = (%ENV, %settings, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => 'live');
	my ($shown, $err) = ('', '');
	my $h = IPC::Run::start([ arguments(@all) ], '<', \undef, '>', \$shown, '2>', \$err);

	$h->pump until $shown =~ /^ok +insert-contacts$/m || !$h->pumpable;
	$h->signal($signal);
	$h->finish;
	return $shown;
}

like(interrupt('INT'), qr/^check-live: interrupted$/m, 'Ctrl-C');
like(report(), qr/^- incomplete: interrupted$/m, '… is in the report');
clean_ok('Ctrl-C');
interrupt('KILL');
my %now = rows();
cmp_ok($now{account}, '>', $before{account}, 'a killed run leaves rows');
# its sessions end by themselves
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname IN ('live', 'reference')});
($status, $out) = run_check([ '--clean', '--tables', join ',', @tables ]);
is($status, 0, '… which another command removes') or diag $out;
%now = rows();
is_deeply(\%now, \%before, '… all of them');
is($node->safe_psql('live', 'SELECT count(*) FROM pg_foreign_server'), 0, '… and the objects in the database');
$node->safe_psql('reference', q{DROP SERVER IF EXISTS x});

# ---- secrets

my $log = slurp_file($node->logfile);
my $escaped = 'Geheim%2B4711%2F%C3%A4%3D';
unlike($log, qr/\Q$secret\E|$escaped|BEGIN (?:RSA )?PRIVATE/, 'no secret is in the log of the server');
like($log, qr/Dataverse answered/, '… which is complete otherwise');
unlike($written, qr/\Q$secret\E|$escaped|Bearer|BEGIN (?:RSA )?PRIVATE/, '… nor in the output and reports of the runs');
cmp_ok(length $written, '>', 100_000, '… which are long');
my $answers = join '', $log =~ /(Dataverse answered .*)/g;
unlike($answers, qr/dataverse-fdw check|\?\S*=/, 'the log has the shapes of addresses, and no values');
like($answers, qr/GET accounts\?\$select&\$filter&\$orderby with HTTP status 200, request id [-0-9a-f]{36}/, '… of accepted requests');

# ---- the table of shapes

# Each step sends what it declares, and every request has a shape.
my $side = Live::Side->new(
	settings => Live::Settings->simulator($reference->base),
	db => $node->connstr('reference'),
	run => '12345678',
	tables => \@tables,
	truncate => 'new_alltypes',
	label => '_shapes');
my $since = 0;

sub journal
{
	my $log = $reference->control('GET', "/_dvsim/requests?since=$since")->json;

	$since = $log->{next};
	return @{ $log->{requests} };
}

$side->set_up;
journal();
my (%unknown, %sent);
my %token_elsewhere = map { $_ => 1 } qw(token-certificate token-identity);
for my $step (@Live::Steps::steps)
{
	my ($name, $needs, $shapes, $sql) = @$step;
	my %found;

	$side->run($sql, @$needs);
	for my $request (journal())
	{
		my ($known, @strange) = Live::Shapes::shapes_of($request);

		@found{ keys %$known } = (1) x keys %$known;
		$unknown{$_} = $name for @strange;
	}
	@sent{ keys %found } = (1) x keys %found;
	my @missing = grep { !$found{$_} && !$token_elsewhere{$_} } @$shapes;
	is("@missing", '', "step $name sends what it declares");
}
is(join("\n", map { "$_ in step $unknown{$_}" } sort keys %unknown), '', 'the shapes of each request are in the table');
is(join(' ', grep { !$sent{$_} && !$token_elsewhere{$_} } Live::Shapes::names()), '', '… and each shape has been sent');
$side->tear_down;

# the requests of runs with other tokens, and under quirks
%unknown = ();
my %seen;
for my $request (@journal)
{
	# most differ from others only in ids
	my $same = join "\n", @{$request}{qw(method target body)}, %{ $request->{headers} }{ sort keys %{ $request->{headers} } };
	$same =~ s/[0-9a-f]{8}-[-0-9a-f]{27}|(?<![0-9A-Za-z])[0-9a-f]{8}(?![0-9a-z])|(?<=%20)[0-9a-f]{8}//g;
	next if $seen{$same}++;

	my ($known, @strange) = Live::Shapes::shapes_of($request);

	delete @token_elsewhere{ keys %$known };
	@unknown{@strange} = (1) x @strange;
}
is(join(' ', sort keys %token_elsewhere), '', '… including other ways to get a token');
is(join("\n", sort keys %unknown), '', '… and no request has another form');

# A new part of FetchXML, and malformed FetchXML.
my %xml = (
	"<fetch><entity name='account'><attribute name='name'/></entity></fetch>" => '',
	"<fetch no-lock='true'><entity name='account'><attribute name='name'/></entity></fetch>" => 'fetch: fetch no-lock=true',
	"<fetch><entity name='account'><filter><condition attribute='name' operator='not-like' value='x'/></filter></entity></fetch>" => 'fetch: condition operator=not-like',
	"<fetch><entity name='account'><link-entity name='a' from='b' to='c' link-type='any'/></entity></fetch>" => 'fetch: link-entity link-type=any',
	"<fetch><entity name='account'><filter><value>1</value></filter></entity></fetch>" => 'fetch: <filter><value>',
	"<fetch><entity name='account' enableprefiltering='1'/></fetch>" => 'fetch: entity enableprefiltering',
	"<fetch><entity name='account'/>x</fetch>" => 'fetch: x</fetch>; fetch: no end of <fetch>',
	"<fetch><entity name='account'></fetch>" => 'fetch: </fetch>; fetch: no end of <entity>',
	"<fetch><!-- --><entity name='account'/></fetch>" => "fetch: <!-- --><entity name='account'/></fetch>; fetch: no end of <fetch>");
is_deeply(
	{
		map {
			my (undef, @strange) = Live::Shapes::shapes_of({ method => 'GET', target => '/api/data/v9.2/accounts?fetchXml=' . s/([^\w])/sprintf '%%%02X', ord $1/ger, headers => {}, body => '' });
			($_ => join '; ', @strange)
		} keys %xml
	},
	\%xml,
	'FetchXML is split by element and attribute');

my ($strange) = (Live::Shapes::shapes_of({
	method => 'GET', target => "/api/data/v9.2/accounts?\$select=name&\$filter=name%20like%20'x'", body => '',
	headers => { 'X-New' => 1 } }))[1];
is($strange, 'header: x-new: 1', 'a new part has no shape');
my @encoded = (Live::Shapes::shapes_of({
	method => 'POST', target => '/api/data/v9.2/accounts/Microsoft.Dynamics.CRM.UpsertMultiple', headers => {},
	body => q({"Targets":[{"@odata.id":"accounts(accountnumber='a%20b')"}]}) }))[ 1 .. 1 ];
is("@encoded", 'reference: accounts(KEY) encoded', '… nor has a key that is encoded in a body');
my %declared = map { $_ => 1 } map { @{ $_->[2] } } @Live::Steps::steps;
is(join(' ', grep { !$declared{$_} } Live::Shapes::names()), '', 'each shape is sent by a step');

my ($documented) = slurp_file("$top/test/live/README.md") =~ /^(\| shape \| request .*?)\n\n/ms;
is($documented, join("\n", Live::Shapes::table(@Live::Steps::steps)), 'test/live/README.md contains the table (test/live/check --table prints it)');

$node->stop('fast');
ok($live->stop, 'the environment ends cleanly');
ok($reference->stop, '… and so does the other dvsim');
done_testing();
