# encodings.pl
#		Compressed answers: what is decompressed, what is refused, and what broken
#		ones cost.  The installed library decompresses with libdeflate, and another
#		one, which "make test" builds, leaves that to libcurl; both do the same.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use Compress::Zlib ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use PoolTest;
use Hostile;

my $json = '{"value": [' . join(',', map { qq({"accountid": "00000000-0000-0000-0000-0000000000$_", "name": "row $_"}) } 10 .. 59) . ']}';
my $name = 0;
my %handlers;

sub compress
{
	my ($data, $bits) = @_;
	my ($deflate) = Compress::Zlib::deflateInit(-WindowBits => $bits // 31);
	return ($deflate->deflate($data))[0] . ($deflate->flush)[0];
}

my $gzip = compress($json);
my $head = substr $gzip, 0, 10;
my $rest = substr $gzip, 10;

sub with_flags { my ($flags, $fields) = @_; my $changed = $head; substr $changed, 3, 1, chr $flags; return $changed . $fields . $rest; }
sub with_length { return substr($gzip, 0, -4) . pack 'V', $_[0]; }

# A handler that answers with this body; $how is a header, or a list of headers.
sub body
{
	my ($body, $how, $status) = @_;
	my @headers = ref $how ? @$how : ($how // 'Content-Encoding: gzip');
	return sub { my ($socket) = @_; return Hostile::answer($socket, $status // 200, $body, @headers); };
}

sub chunked
{
	my ($body, $size) = @_;
	return sub {
		my ($socket) = @_;
		print {$socket} "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
		for (my $at = 0; $at < length $body; $at += $size)
		{
			my $piece = substr $body, $at, $size;
			print {$socket} sprintf("%x\r\n%s\r\n", length $piece, $piece);
		}
		return print {$socket} "0\r\n\r\n";
	};
}

# what is asked, the answer, and the message if it is an error
my @cases = (
	[ 'gzip', body($gzip) ],
	[ 'x-gzip', body($gzip, 'Content-Encoding: X-GZIP') ],
	[ 'gzip in one layer and nothing in others', body($gzip, [ 'Content-Encoding: identity, gzip', 'Content-Encoding:', 'Content-Encoding: , identity' ]) ],
	[ 'identity', body($json, 'Content-Encoding: identity') ],
	[ 'no encoding', body($json, []) ],
	[ 'gzip in chunks of a byte', chunked($gzip, 1) ],
	[ 'gzip with a name, a comment, and extra fields', body(with_flags(4 + 8 + 16, pack('v', 3) . "abcname\0comment\0")) ],
	[ 'gzip of stored data', body(do { my ($d) = Compress::Zlib::deflateInit(-WindowBits => 31, -Level => 0); ($d->deflate($json))[0] . ($d->flush)[0] }) ],
	[ 'gzip of zlib', body(compress($json, 15), 'Content-Encoding: deflate'), 'encoding' ],
	[ 'brotli', body('x', 'Content-Encoding: br'), 'encoding' ],
	[ 'an unknown encoding', body('x', 'Content-Encoding: gzip2'), 'encoding' ],
	[ 'gzip of gzip', body(compress($gzip), 'Content-Encoding: gzip, gzip'), 'encoding' ],
	[ 'five layers', body(compress(compress(compress(compress($gzip)))), 'Content-Encoding: gzip, gzip, gzip, gzip, gzip'), 'encoding' ],
	[ 'five layers in five headers', body($gzip, [ ('Content-Encoding: gzip') x 5 ]), 'encoding' ],
	[ 'a transfer encoding', body($gzip, 'Transfer-Encoding: gzip'), 'encoding' ],
	[ 'data after the end', body("${gzip}x"), 'incomplete' ],
	[ 'zeros after the end', body($gzip . "\0" x 512), 'incomplete' ],
	[ 'no gzip', body($json), 'incomplete' ],
	[ 'another checksum', body(substr($gzip, 0, -8) . pack('V', 1) . substr($gzip, -4)), 'incomplete' ],
	(map { [ "a length of $_", body(with_length($_)), 'incomplete' ] } 0, 1, length($json) - 1, length($json) + 1, 1 << 28, 0xffffffff),
	[ 'another method', body(do { my $other = $gzip; substr $other, 2, 1, chr 7; $other }), 'incomplete' ],
	[ 'an invalid block', body($head . "\xff" x 100), 'incomplete' ]);
$handlers{"/case$_"} = $cases[$_][1] for 0 .. $#cases;

# gzip that is cut short, in an answer that is complete
my @cuts = (1, 5, 10, 11, 50, length($gzip) - 8, length($gzip) - 1);
$handlers{"/cut$_"} = body(substr $gzip, 0, $_) for @cuts;

# a swelling answer that says it is short, and one that is longer than any length that it could state
my $blanks = do {
	my ($d) = Compress::Zlib::deflateInit(-WindowBits => 31);
	join('', map({ ($d->deflate(' ' x 1_048_576))[0] } 1 .. 300), ($d->flush)[0]);
};
$handlers{'/members'} = body(join '', map { compress($_) } substr($json, 0, 700), '', substr($json, 700));
$handlers{'/swells'} = body(substr($blanks, 0, -4) . pack 'V', 100);
$handlers{'/nothing'} = body('', 'Content-Encoding: gzip', 204);
$handlers{'/empty'} = body('');
$handlers{'/refused'} = body(compress('{"error": {"code": "0x80040217", "message": "no such row"}}'), undef, 404);
$handlers{'/broken'} = body(substr $gzip, 0, -1);
$handlers{'/sometimes'} = sub {
	my ($socket, $request) = @_;
	return Hostile::answer($socket, 200, $request->{n} % 3 == 0 ? $gzip : substr($gzip, 0, 40 + $request->{n}), 'Content-Encoding: gzip');
};
my $hostile = Hostile->start(%handlers);

sub resident { my ($rss) = slurp_file('/proc/' . $_[0]->pid . '/status') =~ /^VmRSS:\s*(\d+) kB/m; return $rss; }

sub try_all
{
	my ($node, $library, $whole) = @_;

	create_server($node, 'hostile', { url => $hostile->base, max_retries => 0, budget_pacing => 'off' }, { access_token => 'token' });
	my $session = Session->new($node);
	my $ask = sub { my ($path, $method) = @_; $method //= 'GET'; return $session->try("SELECT dataverse.request('hostile', '$method', '$path')"); };
	my $count = "SELECT jsonb_array_length(dataverse.request('hostile', 'GET', 'case%d')->'value')";

	for my $i (0 .. $#cases)
	{
		my ($what, undef, $refused) = @{ $cases[$i] };
		my $r = $session->try(sprintf $count, $i);
		if (!defined $refused) { is($r->{rows}[0][0], 50, "$library: $what") or diag $r->{message}; next; }
		is($r->{sqlstate}, $refused eq 'encoding' ? 'HV000' : '08006', "$library: $what: an error") or diag explain $r;
		like($r->{message} // '', $refused eq 'encoding' ? qr/answer has an encoding that was not requested/ : qr/answer was incomplete/, '... that says so');
	}

	# libcurl knows one member only
	my $members = $session->try("SELECT jsonb_array_length(dataverse.request('hostile', 'GET', 'members')->'value')");
	if ($whole) { is($members->{rows}[0][0], 50, "$library: several members") or diag $members->{message}; }
	else { is($members->{sqlstate}, '08006', "$library: several members: an error"); }

	# a page is whole, or an error; libcurl does not notice that only the checksum is missing
	for my $cut (@cuts)
	{
		$session->query("CREATE FOREIGN TABLE cut$cut (accountid uuid, name text) SERVER hostile OPTIONS (entity_set 'cut$cut', primary_id 'accountid')");
		my $r = $session->try("SELECT count(*) FROM (SELECT * FROM cut$cut OFFSET 0) s");
		if ($whole || $cut < length($gzip) - 8) { isnt($r->{sqlstate}, undef, "$library: $cut bytes of " . length($gzip) . ': an error'); }
		else { is($r->{rows}[0][0], 50, "$library: all but the checksum: all rows"); }
	}

	is($ask->('nothing', 'PATCH')->{sqlstate}, undef, "$library: no body");
	is($ask->('empty', 'PATCH')->{sqlstate}, undef, "$library: an empty body");
	my %asked = map { my ($method) = /^(\S+)/; my ($encodings) = /^Accept-Encoding: (.*?)\r?$/mi; ($method => $encodings) } map { $hostile->requests($_) } '/case0', '/empty';
	is_deeply(\%asked, { GET => 'gzip', PATCH => $whole ? undef : 'gzip' }, "$library: what reads and writes of rows accept");
	like($ask->('refused')->{message}, qr/no such row/, "$library: a compressed error");
	is($ask->('swells')->{sqlstate}, '54000', "$library: an answer that swells to more than it says");
	is($ask->('swells', 'PATCH')->{sqlstate}, '54000', "$library: the same for a write");
	is($ask->('broken', 'PATCH')->{sqlstate}, '08006', "$library: a broken answer to a write") if $whole;

	# ... which is requested again
	$session->query("CREATE FOREIGN TABLE sometimes (accountid uuid, name text) SERVER hostile OPTIONS (entity_set 'sometimes', primary_id 'accountid');"
		  . "ALTER SERVER hostile OPTIONS (SET max_retries '5')");
	my $seen = $hostile->count('/sometimes');
	is($session->value('SELECT count(*) FROM (SELECT * FROM sometimes OFFSET 0) s'), 50, "$library: a broken page");
	is($hostile->count('/sometimes'), $seen + 3, '... is requested again');
	$session->query("ALTER SERVER hostile OPTIONS (SET max_retries '0')");

	# errors leave nothing behind
	my $errors = sub { $session->query("DO \$\$ BEGIN FOR i IN 1 .. $_[0] LOOP BEGIN PERFORM dataverse.request('hostile', 'GET', 'case' || i % " . @cases . ");"
			  . ' EXCEPTION WHEN OTHERS THEN END; END LOOP; END $$'); };
	$errors->(200);
	my $before = resident($session);
	$errors->(1000);
	my $grown = resident($session) - $before;
	cmp_ok($grown, '<', 1024, "$library: after 1000 answers, most of them broken, the backend has grown by $grown kB");
	$session->close;
	return;
}

my $node = new_node('encodings');
isnt($node->safe_psql('postgres', 'SELECT libdeflate FROM dataverse.version()'), '', 'the installed library has libdeflate');
try_all($node, 'libdeflate', 1);

SKIP: {
	skip 'DV_WITHOUT_LIBDEFLATE is not set: no library built with LIBDEFLATE=no', 1 if !defined $ENV{DV_WITHOUT_LIBDEFLATE};
	my $other = new_node('libcurl');
	$other->safe_psql('postgres', "UPDATE pg_proc SET probin = '$ENV{DV_WITHOUT_LIBDEFLATE}' WHERE probin = '\$libdir/dataverse_fdw'");
	is($other->safe_psql('postgres', 'SELECT libdeflate FROM dataverse.version()'), '', 'the other library has none');
	try_all($other, 'libcurl', 0);
}

done_testing();
