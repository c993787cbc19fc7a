# wire.pl
#		The border of the database: which peers a connection trusts, which proxy it
#		uses, what a header or an address may contain, and the encodings of texts in
#		both directions.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use IO::Socket::INET;
use MIME::Base64;
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use RawServer;
use Dvsim;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $id = '00000000-0000-0000-0000-000000000001';

# ---------------------------------------------------------------- a service that sends the requested bytes

# Paths and names contain the bytes to be sent as hexadecimal digits.
sub respond
{
	my ($method, $target, $head, $body) = @_;
	my ($base) = $head =~ /^Host: (\S+)/mi;
	my ($bytes) = map { pack 'H*', $_ } $target =~ /[_\/]x([0-9a-f]+)/;

	if ($target =~ m{/token$})
	{
		my $token = $body =~ /client_id=evil/ ? 'good\r\nX-Smuggled: token' : 'good';
		return RawServer::answer(200, 'application/json', qq({"access_token": "$token", "expires_in": 3600}))
		  if $body !~ /client_id=refused/;
		return RawServer::answer(400, 'application/json',
			qq({"error": "invalid_client", "error_description": "AADSTS7000215: before \xff after"}));
	}
	return RawServer::answer(200, 'application/json', $bytes) if $target =~ m{/json/};
	return RawServer::answer(200, 'text/plain', $bytes) if $target =~ m{/text/};
	return RawServer::answer(200, 'application/json', $body) if $target =~ m{/echo};
	return RawServer::answer(200, 'application/json', qq({"EntitySetName": "$1"}))
	  if $target =~ /LogicalName='(\w+)'/;
	return RawServer::answer(200, 'application/json', qq({"value": [{"a": "$bytes"}, {"a": "b"}]}))
	  if $target =~ /fetchXml=/;
	return RawServer::answer(400, 'application/json',
		qq({"error": {"code": "0x80040265", "message": "before $bytes after"}}), "REQ_ID: id $bytes.")
	  if $target =~ m{/error/|/refuse_};
	return RawServer::answer(200, 'application/json', qq({"value": [{"thingid": "$id", "name": "$bytes"}]}))
	  if $target =~ m{/rows_};
	return RawServer::answer(200, 'application/json',
		qq({"value": [{"thingid": "$id", "name": "n"}], "\@odata.nextLink": "http://$base/api/data/v9.2/%2e%2E/secret"}))
	  if $target =~ m{/links\?};
	return RawServer::answer(200, 'application/json', qq({"UserId": "$id"}));
}

my $service = RawServer->start(\&respond);

# ---------------------------------------------------------------- an environment with variables that libraries would use

my $trap = IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1') or die $!;
my $tls = Dvsim->start('--tls');
my $quiet = '>/dev/null 2>&1';

sub run_or_die { system(@_) == 0 or die "@_"; return; }

# The directory of the system's authorities cannot be changed, so the process sees another one in its place.
{
	open my $c, '>', "$dir/shim.c" or die $!;
	print {$c} <<'C';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *
elsewhere(const char *path, char *buffer, size_t size)
{
	const char *name = strrchr(path, '/');
	const char *dir = getenv("TEST_CAPATH");

	if (name == NULL || dir == NULL || strspn(name + 1, "0123456789abcdef") != 8 || name[9] != '.')
		return path;
	snprintf(buffer, size, "%s%s", dir, name);
	return buffer;
}

#define REPLACE(type, name, more, arg) \
type \
name(const char *path, more) \
{ \
	static type (*real) (const char *, more); \
	char buffer[4096]; \
	if (real == NULL) \
		*(void **) &real = dlsym(RTLD_NEXT, #name); \
	return real(elsewhere(path, buffer, sizeof(buffer)), arg); \
}

REPLACE(FILE *, fopen, const char *mode, mode)
REPLACE(FILE *, fopen64, const char *mode, mode)
REPLACE(int, stat, struct stat *s, s)
REPLACE(int, stat64, struct stat64 *s, s)
REPLACE(int, lstat, struct stat *s, s)
REPLACE(int, lstat64, struct stat64 *s, s)
C
	close $c;
	mkdir "$dir/authorities" or die $!;
	my $hash = `openssl x509 -hash -noout -in @{[ $tls->ca_file ]}`;
	chomp $hash;
	run_or_die("cp @{[ $tls->ca_file ]} $dir/authorities/$hash.0");
	run_or_die(($ENV{CC} // 'cc') . " -shared -fPIC -w -o $dir/shim.so $dir/shim.c -ldl");
	run_or_die("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=other "
		  . "-keyout $dir/other.key -out $dir/other.pem $quiet");
}

my $proxy_url = 'http://127.0.0.1:' . $trap->sockport;
my %environment = (
	LD_PRELOAD => "$dir/shim.so",
	TEST_CAPATH => "$dir/authorities",
	SSL_CERT_DIR => "$dir/authorities",
	SSL_CERT_FILE => $tls->ca_file,
	SSLKEYLOGFILE => "$dir/keys",
	http_proxy => $proxy_url,
	https_proxy => $proxy_url,
	HTTPS_PROXY => $proxy_url,
	all_proxy => $proxy_url,
	ALL_PROXY => $proxy_url);
my $node;
{
	local @ENV{ keys %environment } = values %environment;
	$node = new_node('wire', preload => 1, conf => "log_min_messages = log\n");
}
my $session = Session->new($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub trapped { return IO::Select->new($trap)->can_read(0) ? 1 : 0; }

my %plain = (url => $service->base, token_url => $service->base . '/token', max_retries => 0);
my %app = (client_id => 'app1', client_secret => 'secret1');

create_server($node, 'crm', \%plain, \%app);

# ---------------------------------------------------------------- authorities

{
	my $whoami = sub { $session->try("SELECT * FROM dataverse.whoami('$_[0]')") };
	my %service = (url => $tls->base, max_retries => 0);
	my %elsewhere = (%service, token_url => $service->base . '/token');

	create_server($node, 'tls_system', \%service, \%app);
	create_server($node, 'tls_right', { %service, ca_file => $tls->ca_file }, \%app);
	create_server($node, 'tls_other', { %service, ca_file => "$dir/other.pem" }, \%app);
	create_server($node, 'tls_service', { %elsewhere, ca_file => "$dir/other.pem" }, \%app);

	my %proxied = (%plain, proxy => $tls->base);

	create_server($node, 'tls_proxy', { %proxied, ca_file => "$dir/other.pem" }, \%app);
	create_server($node, 'tls_proxy_system', \%proxied, \%app);

	my $r = $whoami->('tls_system');

  SKIP:
	{
		skip 'this libcurl knows no directory of authorities', 6 if defined $r->{sqlstate};
		pass('without ca_file, an authority of the system\'s directory is trusted');
		$r = $whoami->('tls_other');
		is($r->{sqlstate}, '28000', 'with ca_file, the token endpoint is not trusted')
		  or diag explain $r;
		like($r->{message}, qr/could not establish TLS/, 'because of its certificate');
		$r = $whoami->('tls_service');
		is($r->{sqlstate}, '08001', 'nor is the service');
		like($whoami->('tls_proxy')->{message}, qr/could not establish TLS/, 'nor is a proxy');
		unlike($whoami->('tls_proxy_system')->{message}, qr/TLS/, 'which is trusted without ca_file');
	}
	is($whoami->('tls_right')->{sqlstate}, undef, 'the authorities of the file are trusted');
	ok(!-e "$dir/keys", 'SSLKEYLOGFILE of the environment: no keys are written');
}

# ---------------------------------------------------------------- proxies

is($session->try(q{SELECT * FROM dataverse.whoami('crm')})->{sqlstate}, undef, 'requests are answered');
ok(!trapped(), 'and the proxies of the environment are not used');

{
	my $proxy = RawServer->start(\&respond);
	my $basic = encode_base64('me:Hush-4720', '');
	my %proxied = (%plain, url => 'http://127.0.0.1:1', token_url => 'http://127.0.0.1:1/token', proxy => $proxy->base);

	$session->close;
	{
		local @ENV{ 'no_proxy', 'NO_PROXY' } = ('*', '*');
		$node->restart;
	}
	$session = Session->new($node);
	create_server($node, 'proxied', \%proxied,
		{ %app, proxy_user => 'me', proxy_password => 'Hush-4720' });
	create_server($node, 'anonymous', \%proxied, \%app);
	is($session->try(q{SELECT * FROM dataverse.whoami('proxied')})->{sqlstate}, undef,
		'the option "proxy" applies, whatever no_proxy says');
	my @heads = $proxy->heads;
	is(scalar(@heads), 2, 'for the token and the request');
	is(scalar(grep { /^Proxy-Authorization: Basic \Q$basic\E\r$/m } @heads), 2, 'with the user and password of the mapping');
	$session->try(q{SELECT * FROM dataverse.whoami('anonymous')});
	@heads = $proxy->heads;
	is(scalar(grep { /^Proxy-Authorization/m } @heads), 2, 'or without them');
	unlike(join('', @heads), qr/Hush/, 'the password is not sent in another form');
}

# ---------------------------------------------------------------- headers

{
	# values that the validator refuses, as if they had been stored by other means
	my $n = $service->heads;
	my $store = sub {
		my ($server, $catalog, $option) = @_;
		my ($column, $where) = $catalog eq 'server'
		  ? ('srvoptions', "srvname = '$server'")
		  : ('umoptions', "umserver = (SELECT oid FROM pg_foreign_server WHERE srvname = '$server')");
		my $table = $catalog eq 'server' ? 'pg_foreign_server' : 'pg_user_mapping';

		create_server($node, $server, \%plain,
			$option =~ /^access_token/ ? { access_token => 'x' } : \%app);
		my ($name) = $option =~ /^(\w+)/;
		sql("UPDATE $table SET $column = array(SELECT o FROM unnest($column) AS o WHERE o NOT LIKE '$name=%') || ARRAY[E'$option'] WHERE $where");
		my $r = $session->try("SELECT * FROM dataverse.whoami('$server')");

		is($r->{sqlstate}, 'HV024', "stored: $server");
		unlike($r->{message}, qr/Smuggled/, 'and the message does not show it') if $option =~ /Smuggled/;
	};

	$store->('caller', 'mapping', 'caller_id=x\r\nX-Smuggled: 1');
	$store->('token', 'mapping', 'access_token=x\r\nX-Smuggled: 1');
	$store->('client', 'mapping', 'client_id=x\r\nX-Smuggled: 1');
	$store->('agent', 'server', 'user_agent=x\r\nX-Smuggled: 1');
	$store->('version', 'server', 'api_version=9.2/../../x');
	$store->('tenant', 'server', 'tenant_id=x/../y');
	$store->('address', 'server', "url=@{[ $service->base ]}\\n");
	is(scalar(my @now = $service->heads), $n, 'none of it is sent');

	create_server($node, 'evil', \%plain, { %app, client_id => 'evil' });
	my $r = $session->try(q{SELECT * FROM dataverse.whoami('evil')});
	is($r->{sqlstate}, '28000', 'a line break in a token of the token endpoint: an error');
	like($r->{message}, qr/cannot be put into a header/, 'as the message says');
	unlike(join('', $service->heads), qr/X-Smuggled/, 'no header is smuggled');
}

# ---------------------------------------------------------------- addresses

{
	my $send = sub {
		my ($path) = @_;
		return $session->try("SELECT dataverse.request('crm', 'GET', E'$path')");
	};
	my $n = $service->heads;

	for my $path ('..', '../x', 'a/../../x', '.', 'a/./b', '%2e%2e/x', '.%2E/x', 'a/%2E./x', 'a%2f..%2fx',
		'a%5C..%5cx', 'a\\\\..\\\\x', 'a\\\\b', '..;x/y', 'a/..?x=1', 'a#b', "a?x=%27#%27", 'a\rX-Smuggled: 1', 'a\nb',
		'http:\\\\\\\\x', 'a\u007f')
	{
		my $r = $send->($path);
		is($r->{sqlstate}, '22023', "path $path is refused") or diag $r->{message};
	}
	for my $url ("@{[ $service->base ]}/x", "@{[ $service->base ]}/api/data/v9.2/../../x",
		"@{[ $service->base ]}\@example.com/x", 'https://example.com/api/data/v9.2/x', 'file:///etc/passwd')
	{
		my $r = $send->($url);
		is($r->{sqlstate}, 'HV000', "address $url is refused") or diag $r->{message};
	}
	is(scalar(my @none = $service->heads), $n, 'none of it is sent');

	my %sent = (
		'//example.com/x' => 'example.com/x',
		'a(name=\\\'..\\\')' => "a(name='..')",
		'a(b=\\\'x.%2fy\\\')?c=../..' => "a(b='x.%2fy')?c=../..",
		'...' => '...',
		'@example.com/x' => '@example.com/x',
		"a b/\xc3\xa9" => 'a%20b/%C3%A9',
		"@{[ $service->base ]}/api/data/v9.2/a" => 'a');
	for my $path (sort keys %sent)
	{
		my $r = $send->($path);
		my ($last) = reverse $service->heads;
		my ($target) = $last =~ /\AGET (\S+) /;

		is($r->{sqlstate}, undef, "path $path is sent") or diag $r->{message};
		is($target, "/api/data/v9.2/$sent{$path}", 'below the service root, unchanged');
	}

	sql(q{CREATE FOREIGN TABLE links (thingid uuid, name text) SERVER crm OPTIONS ("table" 'thing', entity_set 'links')});
	my $r = $session->try('SELECT * FROM links');
	is($r->{sqlstate}, 'HV000', 'a link outside the service root: an error');
	like($r->{message}, qr/does not lead to the Web API/, 'as the message says');
	unlike(join('', $service->heads), qr/secret HTTP/, 'it is not followed');

	$r = $session->try(q{SELECT * FROM dataverse.fetchxml('crm', '<fetch><entity name="a'')/../x"/></fetch>')});
	is($r->{sqlstate}, '22023', 'an invalid name in FetchXML: an error');
}

# ---------------------------------------------------------------- encodings

my $e_acute = "\xc3\xa9";
my $sun = "\xe6\x97\xa5";
my $smile = "\xf0\x9f\x98\x80";

# a text, as the service and as the database write it, and one that the database cannot represent
my %encodings = (
	LATIN1 => { escape => '\u00E9', utf8 => $e_acute, here => "\xe9", lacking => $sun },
	EUC_JP => { escape => '\u65e5', utf8 => $sun, here => "\xc6\xfc", lacking => $smile },
	SQL_ASCII => { escape => '\u00e9', utf8 => $e_acute, here => $e_acute },
	UTF8 => { escape => '\u65e5', utf8 => $sun, here => $sun });
my %sessions;

sub hex_of { return 'x' . unpack 'H*', $_[0]; }

for my $encoding (sort keys %encodings)
{
	my ($escape, $utf8, $here, $lacking) = @{ $encodings{$encoding} }{qw(escape utf8 here lacking)};
	my $db = lc $encoding;

	sql("CREATE DATABASE $db ENCODING '$encoding' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
	my $s = $sessions{$encoding} = Session->new($node, dbname => $db);
	my $server = "crm $here";
	$s->query('CREATE EXTENSION dataverse_fdw');
	$s->query("CREATE SERVER \"$server\" FOREIGN DATA WRAPPER dataverse_fdw OPTIONS ("
		  . options_of(%plain, on_error => 'continue') . ')');
	$s->query("CREATE USER MAPPING FOR PUBLIC SERVER \"$server\" OPTIONS ("
		  . options_of(client_id => $db, client_secret => "hush $here", name => "user $here") . ')');
	$s->query("CREATE SERVER crm_ascii FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (" . options_of(%plain) . '); '
		  . 'CREATE USER MAPPING FOR PUBLIC SERVER crm_ascii OPTIONS (' . options_of(client_id => $db, client_secret => 'hush') . ')')
	  if $encoding eq 'UTF8';
	my $get = sub { $s->try("SELECT dataverse.request('$server', 'GET', '$_[0]')") };
	my $fetch = sub { $s->try("SELECT fetchxml->>'a' FROM dataverse.fetchxml('$server', '<fetch><entity name=\"t_$_[0]\"><filter value=\"$here\"/></entity></fetch>') AS fetchxml") };

	# data
	is($get->('json/' . hex_of("\"a${utf8}z\""))->{rows}[0][0], "\"a${here}z\"", "$encoding: JSON arrives");
	is($get->('json/' . hex_of("\"\\\\u00e9$escape\""))->{rows}[0][0], "\"\\\\u00e9${here}\"", 'also with escapes');
	is($get->('text/' . hex_of("a${utf8}z"))->{rows}[0][0], "\"a${here}z\"", 'and so does text');
	is($fetch->(hex_of("a${utf8}z"))->{rows}[0][0], "a${here}z", 'and FetchXML\'s rows');
	for my $bad ([ "\xff", '22021', 'not UTF-8' ], [ "\xc0\x80", '22021', 'overlong' ], [ "\xed\xa0\x80", '22021', 'a surrogate' ],
		[ "\0", '22021', 'a NUL' ], [ '\u0000', '22P05', 'an escaped NUL' ],
		$lacking ? [ $lacking, '22P05', 'a character that the database lacks' ] : ())
	{
		my ($bytes, $sqlstate, $what) = @$bad;
		my $r = $get->('json/' . hex_of("\"a${bytes}z\""));

		is($r->{sqlstate}, $sqlstate, "$encoding: $what in JSON") or diag explain $r->{rows};
		$r = $get->('text/' . hex_of("a${bytes}z"));
		is($r->{sqlstate}, $bytes =~ /u/ ? undef : $sqlstate, 'in text') or diag explain $r;
		$r = $fetch->(hex_of("a${bytes}z"));
		like($r->{sqlstate}, $sqlstate eq '22021' ? qr/^(22021|HV000)$/ : qr/^$sqlstate$/, 'in a row of FetchXML');
	}

	is($get->('json/' . hex_of('"\ud83d\ude00"'))->{sqlstate},
		'22P05', "$encoding: a pair of escapes that the database cannot represent") if $lacking;
	is($get->('json/' . hex_of('"\ud83d\ude00"'))->{rows}[0][0], "\"$smile\"", "$encoding: a pair of escapes") if !$lacking;
	is($get->('json/' . hex_of('"\ud83d"'))->{sqlstate}, '22P02', 'half a pair');

	# rows of foreign tables, and messages about them
	my $table = sub {
		my ($set) = @_;
		$s->query('DROP FOREIGN TABLE IF EXISTS thing');
		$s->query("CREATE FOREIGN TABLE thing (thingid uuid, name text) SERVER \"$server\" OPTIONS (entity_set '$set')");
	};
	$table->('rows_' . hex_of("a${utf8}z"));
	is($s->value('SELECT name FROM thing'), "a${here}z", 'a value of a row arrives');
	for my $said ([ $utf8, $here ], [ "\xff", '?' ], [ "\e", '?' ], $lacking ? [ $lacking, '?' ] : ())
	{
		my ($bytes, $shown) = @$said;
		my $message = "before $bytes after" =~ s/\e/\\u001b/r;
		my $r;

		$r = $get->('error/' . hex_of($bytes eq "\e" ? '\u001b' : $bytes));
		is($r->{sqlstate}, 'P0001', "$encoding: the service's error is reported") or diag explain $r;
		like($r->{message}, qr/before \Q$shown\E after$/, 'with its message');
		like($r->{detail}, $bytes eq "\e" ? qr/request id id / : qr/request id id \Q$shown\E\./, 'and its request id');
		$table->('refuse_' . hex_of($bytes eq "\e" ? '\u001b' : $bytes));
		$s->query("INSERT INTO thing (name) VALUES ('a${here}z')");
		is($s->query(q{SELECT message, "row"->>'name', code FROM dataverse.rejects ORDER BY id DESC LIMIT 1}),
			"before $shown after|a${here}z|0x80040265", 'a refused row is filed with it');
	}

	# outgoing texts
	is($s->value("SELECT dataverse.request('$server', 'POST', 'echo?x=$here', '{\"a\": \"$here\"}')->>'a'"), $here,
		"$encoding: a text survives the round trip");
	my ($last) = reverse $service->heads;
	my $percent = join '', map { sprintf '%%%02X', ord } split //, $utf8;
	like($last, qr/\APOST \S*echo\?x=\Q$percent\E .*\{"a": "\Q$utf8\E"\}\z/s, 'in UTF-8');
	my ($token) = grep { /client_id=$db&/ } $service->heads;
	like($token, qr/client_secret=hush%20\Q$percent\E$/, 'and so is a client secret');
	my ($query) = reverse grep { /fetchXml=/ } $service->heads;
	like($query, qr/fetchXml=\S*%22\Q$percent\E%22/, 'and FetchXML');
	is($s->value(q{SELECT application_user FROM dataverse.whoami('} . $server . q{')}), "user $here", 'the user\'s name');
}

# a client whose encoding lacks a character gets the error, and not one about the character
{
	my $s = $sessions{UTF8};
	for my $case ([ LATIN1 => "\xe9??" ], [ SJIS => "?\x93\xfa?" ], [ EUC_JP => "\x8f\xab\xb1\xc6\xfc?" ], [ UTF8 => "$e_acute$sun$smile" ])
	{
		my ($encoding, $shown) = @$case;
		my $said = hex_of("$e_acute$sun$smile");
		$s->query("SET client_encoding = $encoding");

		my $r = $s->try("SELECT dataverse.request('crm_ascii', 'GET', 'error/$said')");
		is($r->{sqlstate}, 'P0001', "client in $encoding: the service's error is reported") or diag explain $r;
		like($r->{message}, qr/before \Q$shown\E after$/, 'with its message');
		like($r->{detail}, qr/request id id \Q$shown\E\./, 'and its request id');
		$s->query('DROP FOREIGN TABLE IF EXISTS stopped');
		$s->query("CREATE FOREIGN TABLE stopped (thingid uuid, name text) SERVER crm_ascii OPTIONS (entity_set 'refuse_$said')");
		$r = $s->try("INSERT INTO stopped (name) VALUES ('a')");
		is($r->{sqlstate}, 'P0001', 'a refused row') or diag explain $r;
		$r = $s->try("SELECT dataverse.request('crm_ascii', 'GET', 'json/" . hex_of("{$sun$smile}") . "')");
		is($r->{sqlstate}, '22P02', 'malformed JSON') or diag explain $r;
	}
	$s->query('SET client_encoding = UTF8');

	for my $case ([ EUC_JP => 'SJIS', qr/.*\x93\xfa\?/ ], [ LATIN1 => 'UTF8', "$e_acute??" ], [ SQL_ASCII => 'EUC_JP', qr/.*/ ])
	{
		my ($database, $client, $shown) = @$case;
		$s = $sessions{$database};
		$s->query("SET client_encoding = $client");
		my $r = $s->try('SELECT dataverse.request(srvname, $$GET$$, $$error/' . hex_of("$e_acute$sun$smile")
			  . '$$) FROM (SELECT srvname FROM pg_foreign_server LIMIT 1) s');
		is($r->{sqlstate}, 'P0001', "client in $client, database in $database") or diag explain $r;
		like($r->{message}, ref $shown ? qr/before $shown after$/ : qr/before \Q$shown\E after$/, 'with its message');
		$s->query('RESET client_encoding');
	}
}

# every database sees the others' names in its own encoding
for my $encoding (sort keys %encodings)
{
	my $s = $sessions{$encoding};
	my %names = map { split /\|/ } split /\n/,
	  $s->query(q{SELECT server, name FROM dataverse.pool WHERE server LIKE 'crm %'});

	is($names{"crm $encodings{$encoding}{here}"}, "user $encodings{$encoding}{here}", "$encoding: its own names");
	is($s->value(q{SELECT dataverse.reset_pool('crm } . qq{$encodings{$encoding}{here}', 'user $encodings{$encoding}{here}')}), 1,
		'by which a user is found');
}
is($sessions{UTF8}->query(q{SELECT server COLLATE "C" FROM dataverse.pool WHERE server LIKE 'crm %' GROUP BY 1 ORDER BY 1}),
	"crm $e_acute\ncrm $sun", 'UTF8: the names of all databases');
is($sessions{LATIN1}->query(q{SELECT server COLLATE "C" FROM dataverse.pool WHERE server LIKE 'crm %' GROUP BY 1 ORDER BY 1}),
	"crm ?\ncrm \xe9", 'LATIN1: with replacements for missing characters');

# a client id that is not valid text in any encoding does not break the view
{
	my $s = $sessions{SQL_ASCII};
	my $some = q{SELECT count(*) > 0 FROM dataverse.pool WHERE database = current_database()};

	is($s->value($some), 't', 'SQL_ASCII: users exist');
	$s->query(q{CREATE ROLE garbled; CREATE USER MAPPING FOR garbled SERVER "crm } . $e_acute
		  . qq{" OPTIONS (client_id '\xff\xfe', client_secret '\xff')});
	is($s->value($some), 't', '... also if a mapping names one that is not valid UTF-8');
}

# progress of a table in another database
{
	my ($writer, $watcher) = @sessions{qw(LATIN1 EUC_JP)};

	$writer->query("CREATE FOREIGN TABLE \"t\xe9\" (thingid uuid, name text) SERVER \"crm \xe9\" OPTIONS (\"table\" 'thing', entity_set 'rows_x41')");
	$writer->query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM \"t\xe9\"; FETCH 1 FROM c");
	like($watcher->value('SELECT foreign_table FROM dataverse.progress'), qr/^public\."?t\x8f\xab\xb1"?$/, 'and progress');
	is($sessions{UTF8}->value('SELECT server FROM dataverse.progress'), "crm $e_acute", 'of any server');
	$writer->query('ROLLBACK');
}

# comments of imported tables
{
	my $schema = "$dir/schema.json";

	open my $out, '>:raw', $schema or die $!;
	print {$out} qq({"tables": [
		{"name": "new_e", "label": "$e_acute", "columns": [{"name": "new_Name", "type": "string"}]},
		{"name": "new_s", "label": "$sun", "columns": [{"name": "new_Name", "type": "string"}]}]});
	close $out;
	my $dvsim = Dvsim->start('--schema', $schema);
	for my $expected ([ LATIN1 => "new_e \xe9,new_s -" ], [ EUC_JP => "new_e \x8f\xab\xb1,new_s \xc6\xfc" ],
		[ SQL_ASCII => "new_e $e_acute,new_s $sun" ])
	{
		my ($encoding, $comments) = @$expected;
		my $s = $sessions{$encoding};

		$s->query('CREATE SERVER meta FOREIGN DATA WRAPPER dataverse_fdw OPTIONS ('
			  . options_of(url => $dvsim->base, authority => $dvsim->base, tenant_id => 'contoso') . ')');
		$s->query('CREATE USER MAPPING FOR PUBLIC SERVER meta OPTIONS (' . options_of(%app) . ')');
		$s->query('CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (new_e, new_s) FROM SERVER meta INTO dv');
		is($s->value(q{SELECT string_agg(relname || ' ' || coalesce(obj_description(oid, 'pg_class'), '-'), ',' ORDER BY relname)
				FROM pg_class WHERE relnamespace = 'dv'::regnamespace}),
			$comments, "$encoding: an import has the comments that the encoding can represent");
	}
}

# the log
{
	my $offset = log_size($node);

	create_server($node, 'two', \%plain,
		{ client_id => 'refused', client_secret => 'x', client_id_2 => 'app2', client_secret_2 => 'x' });
	$session->query(q{SELECT * FROM dataverse.whoami('two')});
	like(log_since($node, $offset), qr/AADSTS7000215: before \? after/, 'the log is valid text');
}

ok(!trapped(), 'no request went to a proxy of the environment');

$_->close for $session, values %sessions;
$node->stop;
done_testing();
