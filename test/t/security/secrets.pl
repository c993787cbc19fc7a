# secrets.pl
#		Secrets are never visible: neither in the most verbose log, nor in errors,
#		notices, plans, views, or results.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Dvsim;

my $dir = PostgreSQL::Test::Utils::tempdir();
my %secret = (
	'client secret' => 'Secret-One-4711',
	'second client secret' => 'Secret-Two-4712',
	'wrong client secret' => 'Secret-Wrong-4713',
	'pass phrase' => 'Secret-Phrase-4714',
	'wrong pass phrase' => 'Secret-Phrase-4715',
	'fixed token' => 'Secret-Token-4716',
	'proxy password' => 'Secret-Proxy-4717');

my $quiet = '>/dev/null 2>&1';
system("openssl req -x509 -newkey rsa:2048 -days 30 -subj /CN=app -keyout $dir/app.key -out $dir/app.pem "
	  . "-passout 'pass:$secret{'pass phrase'}' $quiet") == 0
  or die 'openssl';

my $dvsim = Dvsim->start(
	'--app-user', "app1:$secret{'client secret'}", '--app-user', "app2:$secret{'second client secret'}",
	'--app-user', "cert:\@$dir/app.pem");
my $tls = Dvsim->start('--tls', '--app-user', "app1:$secret{'client secret'}");
my $node = new_node('secrets', preload => 1, conf => "log_statement = none\n");

# The secrets are set before the log is made verbose, because PostgreSQL logs these statements
# if it is configured to log statements.
my %base = (url => $dvsim->base, max_retries => 0, max_retry_after_tolerance => '1s');
my %app1 = (client_id => 'app1', client_secret => $secret{'client secret'});
my %app2 = (client_id_2 => 'app2', client_secret_2 => $secret{'second client secret'});
my %cert = (client_id => 'cert', client_certificate => "$dir/app.pem", client_key => "$dir/app.key");
my $closed = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die $!;
my $closed_port = $closed->sockport;
close $closed;

create_server($node, 'good', \%base, { %app1, %app2 });
create_server($node, 'wrong', \%base, { client_id => 'app1', client_secret => $secret{'wrong client secret'} });
create_server($node, 'cert', \%base, { %cert, client_key_password => $secret{'pass phrase'} });
create_server($node, 'wrong_cert', \%base, { %cert, client_key_password => $secret{'wrong pass phrase'} });
create_server($node, 'fixed', \%base, { access_token => $secret{'fixed token'} });
create_server($node, 'tls', { %base, url => $tls->base }, \%app1);
create_server($node, 'proxied', { %base, proxy => "http://127.0.0.1:$closed_port" },
	{ %app1, proxy_user => 'me', proxy_password => $secret{'proxy password'} });
create_server($node, 'closed', { %base, url => "http://127.0.0.1:$closed_port" }, \%app1);
$node->safe_psql('postgres', 'CREATE FOREIGN TABLE account (accountid uuid, name text) SERVER good');

$node->append_conf('postgresql.conf', "log_min_messages = debug5\nlog_min_error_statement = debug5\n"
	  . "log_error_verbosity = verbose\ndebug_print_parse = on\ndebug_print_plan = on\n"
	  . "log_connections = on\nlog_disconnections = on\n");
$node->restart;
my $offset = log_size($node);

my $session = Session->new($node, options => '-c client_min_messages=debug5');
my $said = '';

sub run
{
	my ($sql) = @_;
	my $r = $session->try($sql);

	for my $part ($r, @{ $r->{notices} })
	{
		$said .= join("\n", map { ref $part->{$_} ? () : $part->{$_} } keys %$part) . "\n";
	}
	$said .= join("\n", map { map { $_ // '' } @$_ } @{ $r->{rows} }) . "\n";
	return $r;
}

# ---- requests that succeed, and that fail in every possible way

for my $crm (qw(good wrong cert wrong_cert fixed tls proxied closed))
{
	run("SELECT * FROM dataverse.whoami('$crm')");
	run("SELECT * FROM dataverse.test_connection('$crm')");
}
is(run(q{SELECT dataverse.request('good', 'GET', 'WhoAmI')})->{sqlstate}, undef, 'requests work');
is(run(q{SELECT dataverse.request('good', 'GET', 'nonsense')})->{sqlstate} // '', 'HV00R', 'and fail');
for my $rule (
	{ action => 'expire_token' },
	{ action => 'expire_token', times => 3 },
	{ status => 500, body => '<html>oops</html>' },
	{ status => 429, code => '0x80072322' , retry_after => 0 },
	{ status => 429, code => '0x80072322', retry_after => 600, times => 2 },
	{ action => 'reset_before_commit' },
	{ action => 'truncate' },
	{ action => 'garble' })
{
	faults($dvsim, { path => 'WhoAmI', %$rule });
	run(q{SELECT dataverse.request('good', 'GET', 'WhoAmI')});
	clear_faults($dvsim);
	run(q{SELECT dataverse.reset_pool('good')}) if $rule->{retry_after};
}
faults($dvsim, { path => '/token', status => 400, body => { error => 'invalid_client', error_description => 'AADSTS1: no' } });
$session->close;
$session = Session->new($node, options => '-c client_min_messages=debug5');
run(q{SELECT * FROM dataverse.whoami('good')});
clear_faults($dvsim);

# a token endpoint that is broken
faults($dvsim, { path => '/token', status => 500, body => '<html>upstream failed</html>', times => 2 });
$session->close;
$session = Session->new($node, options => '-c client_min_messages=debug5');
run(q{SELECT * FROM dataverse.whoami('good')});
clear_faults($dvsim);

# a hanging request that is canceled
faults($dvsim, { path => 'WhoAmI', action => 'stall' });
run(q{SET statement_timeout = '300ms'});
run(q{SELECT dataverse.request('good', 'GET', 'WhoAmI')});
run(q{RESET statement_timeout});
clear_faults($dvsim);

# ---- places where secrets might be visible

run(q{EXPLAIN (VERBOSE, ANALYZE) SELECT * FROM dataverse.whoami('good')});
run(q{EXPLAIN (VERBOSE) SELECT * FROM account});
run(q{SELECT * FROM account});
run(qq{SELECT * FROM $_}) for qw(dataverse.pool dataverse.pool_summary dataverse.throttle_history dataverse.options()
  dataverse_private.pool_users() dataverse_private.throttle_events());
run(q{SELECT * FROM pg_stat_activity});
run(q{SELECT * FROM pg_backend_memory_contexts});
run(q{SELECT pg_log_backend_memory_contexts(pg_backend_pid())});
run(q{SELECT name, setting FROM pg_settings WHERE name LIKE 'dataverse%'});

# for a misspelled option, the message has its name, but not its value
run(q{ALTER USER MAPPING FOR PUBLIC SERVER good OPTIONS (ADD client_scret 'x')});

# another role sees that a mapping for PUBLIC exists, but not its options
$node->safe_psql('postgres', 'CREATE ROLE somebody; GRANT USAGE ON FOREIGN SERVER good TO somebody');
run(q{SET ROLE somebody});
is(run(q{SELECT dataverse.request('good', 'GET', 'WhoAmI') IS NOT NULL})->{rows}[0][0], 't',
	'another role may use the mapping for all');
run(q{SELECT * FROM pg_user_mappings});
run(q{SELECT * FROM information_schema.user_mapping_options});
is(run(q{SELECT * FROM dataverse.whoami('wrong')})->{sqlstate}, '42501', 'but no server without USAGE');
run(q{SELECT * FROM dataverse.pool});
run(q{RESET ROLE});
$session->close;

# ---- the texts to look for: the secrets, every token, every assertion

my %hidden = %secret;
for my $simulator ($dvsim, $tls)
{
	my ($next, @requests) = sent($simulator, 0);

	for my $request (@requests)
	{
		my $authorization = $request->{headers}{Authorization} // '';

		$hidden{"token $1"} = $1 if $authorization =~ /^Bearer (.+)/;
		$hidden{"assertion $1"} = $1 if $request->{body} =~ /client_assertion=([^&]{40})/;
	}
}
my ($private) = slurp_file("$dir/app.key") =~ /-----\n(.{40})/;
$hidden{'private key'} = $private;
cmp_ok(scalar(grep { /^token/ } keys %hidden), '>=', 4, 'tokens were sent');
is(scalar(grep { /^assertion/ } keys %hidden), 1, 'and an assertion');

my $log = log_since($node, $offset);
cmp_ok(length $log, '>', 100_000, 'the log is verbose');
like($log, qr/DEBUG:/, 'down to debug messages');
like($said, qr/AADSTS7000215/, 'the messages include errors');
like($said, qr/DEBUG/, 'and debug messages');
for my $name (sort keys %hidden)
{
	# an access token has no other name
	my $title = $name =~ s/^(token|assertion) .*/$1/r;

	ok(index($log, $hidden{$name}) < 0, "the log has no $title")
	  or diag grep { index($_, $hidden{$name}) >= 0 } split /^/, $log;
	ok(index($said, $hidden{$name}) < 0, "no message has a $title")
	  or diag grep { index($_, $hidden{$name}) >= 0 } split /^/, $said;
}
unlike($log . $said, qr/Bearer [0-9A-Za-z]/, 'and no Authorization header');

$node->stop;
done_testing();
