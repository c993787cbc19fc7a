# 029_files.t
#		Files that are uploaded and downloaded in parts, as documented on the
#		page of file columns.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 7);
my $id = $s->create('new_alltypeses', { new_name => 'f' });
my $other = $s->create('new_alltypeses', { new_name => 'g' });
my $url = "new_alltypeses($id)/new_file";
my $bytes = join '', map { chr($_ % 256) } 0 .. 2999;
my %octets = ('Content-Type' => 'application/octet-stream');

# The address of an upload, below the service root.
sub begin
{
	my ($to, %headers) = @_;
	my $r = $s->patch($to, '', 'x-ms-transfer-mode' => 'chunked', %headers);

	return ($r, ($r->header('Location') // '') =~ m{/api/data/v9\.2/(.*)});
}

sub part
{
	my ($to, $first, $last, $size, %headers) = @_;
	return $s->patch($to, substr($bytes, $first, $last - $first + 1), %octets, 'Content-Range' => "bytes $first-$last/$size", %headers);
}

my ($r, $address) = begin("$url?x-ms-file-name=all%20bytes.bin");
is($r->status, 200, 'an upload begins');
like($r->header('Location'), qr{^\Q@{[ $s->base ]}\E/api/data/v9\.2/\Q$url\E\?sessiontoken=[-0-9a-f]{36}$}, '… with the address of its parts');
is($r->header('x-ms-chunk-size'), 4194304, '… and their size');
is($r->header('Accept-Ranges'), 'bytes', '… in bytes');
is(part($address, 0, 999, 3000, 'x-ms-file-name' => 'all bytes.bin')->status, 206, 'the first part');
is($s->get($url)->status, 204, 'the row has no file yet');
is(part($address, 1000, 1999, 3000)->status, 206, '… the next one without a name, as some clients send it');
is(part($address, 2500, 2999, 3000)->status, 400, 'no part can be skipped');
is(part($address, 0, 999, 3000)->status, 400, '… or sent twice');
is($s->patch($address, 'x', %octets, 'Content-Range' => 'bytes 2000-2999/3000')->status, 400, '… or be of another length');
is($s->patch($address, 'x', %octets)->status, 400, '… or come without a range');
is(part($address =~ s/\Q$id\E/$other/r, 2000, 2999, 3000)->status, 400, '… or be for another row');
is(part($address, 2000, 2999, 3000, 'x-ms-transfer-mode' => 'chunked')->status, 204, 'the last one, with the header of the first request');
is($s->get("$url/\$value")->body, $bytes, 'the row has the file');
is($s->get("new_alltypeses($id)")->json->{new_file_name}, 'all bytes.bin', '… and its name');
is(part($address, 0, 2999, 3000)->status, 400, 'the upload has ended');

# ---- downloads

$r = $s->get("$url/\$value");
is(join(' ', map { $r->header($_) } qw(x-ms-file-size x-ms-file-name mimetype Access-Control-Expose-Headers)),
	'3000 all bytes.bin application/octet-stream x-ms-file-size; x-ms-file-name; mimetype', 'the headers of a file');
$r = $s->get("$url/\$value", Range => 'bytes=1000-1999');
is($r->status . ' ' . $r->header('x-ms-file-size') . ' ' . $r->header('x-ms-chunk-size'), '206 3000 4194304', '… and of a part of it');
is($r->body, substr($bytes, 1000, 1000), '… with that part');

# ---- refusals

is((begin($url))[0]->status, 400, 'an upload without a name');
is($s->patch("$url?x-ms-file-name=a", '', 'x-ms-transfer-mode' => 'whole')->status, 400, '… of another mode');
is($s->patch("$url?x-ms-file-name=a", 'x', 'x-ms-transfer-mode' => 'chunked', %octets)->status, 400, '… with content');
is($s->patch("$url?sessiontoken=$other", 'x', %octets, 'Content-Range' => 'bytes 0-0/1')->status, 400, 'an invalid token');
is($s->patch("$url?sessiontoken=x", 'x', %octets, 'Content-Range' => 'bytes 0-0/1')->status, 400, '… or no id at all');
(undef, $address) = begin("$url?x-ms-file-name=large");
is(part($address, 0, 999, 33 * 1024 * 1024)->error_code, '0x80044a02', 'a file that is too large for its column');
is($s->get("$url/\$value")->body, $bytes, '… keeps the former file');
is($s->control('POST', '/_dvsim/reset')->status, 200, 'a reset');
is(part($address, 0, 999, 1000)->status, 404, '… ends uploads');

ok($s->stop, 'dvsim ends cleanly');
done_testing();
