# 024_elastic.t
#		Elastic tables: partitions, upserts that replace, partial success with
#		its details, DeleteMultiple, session tokens.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use JSON::PP qw(decode_json);
use Test::More;

my $s = Dvsim->start('--seed', 24);
my $none = '11111111-0000-0000-0000-000000000001';
my $details = '@Microsoft.PowerApps.CDS.ErrorDetails.Plugin.BulkApiErrorDetails';

sub id { return sprintf '22222222-0000-0000-0000-%012d', $_[0]; }

sub url
{
	my ($n, $partition) = @_;
	my $id = id($n);
	return defined $partition ? "new_readings(new_readingid=$id,partitionid='$partition')"
	  : "new_readings($id)";
}

sub row { my $r = $s->get(url(@_)); return $r->status == 200 ? $r->json : undef; }

sub bulk
{
	my ($message, $rows, %headers) = @_;
	return $s->post("new_readings/Microsoft.Dynamics.CRM.$message",
		{ Targets => [ map { { '@odata.type' => 'Microsoft.Dynamics.CRM.new_reading', %$_ } } @$rows ] },
		%headers);
}

sub statuses
{
	my ($r) = @_;
	my $list = decode_json($r->json->{error}{$details} // '[]');
	return join ' ', map { "$_->{RequestIndex}:$_->{StatusCode}" } @$list;
}

subtest 'partitions' => sub {
	my $r = $s->post('new_readings',
		{ new_readingid => id(1), partitionid => 'p1', new_name => 'one' });
	is($r->status, 204);
	like($r->header('x-ms-session-token') // '', qr/^\d+:/, 'a session token');
	is($s->post('new_readings', { new_readingid => id(1), partitionid => 'p2', new_name => 'two' })
		->status, 204, 'the same id in another partition is another row');
	is(row(1, 'p1')->{new_name}, 'one');
	is(row(1, 'p2')->{new_name}, 'two');
	is(row(1), undef, 'and neither is found without it');
	is($s->get(url(1) . '?partitionId=p2')->json->{new_name}, 'two', 'partitionId=');
	is($s->get(url(1) . "?partitionId='p2'")->json->{new_name}, 'two', 'quoted');
	$r = $s->post('new_readings', { new_readingid => id(1), partitionid => 'p1' });
	is($r->status, 412);
	is($r->json->{error}{code}, '0x80040237');
	is($s->post('new_readings', { new_readingid => id(2), new_name => 'plain' })->status, 204);
	is(row(2)->{new_name}, 'plain', 'without a partition');
	is($s->post('new_readings', { partitionid => 'a/b' })->status, 400, 'characters');
	is($s->post('new_readings', { partitionid => 'x' x 1025 })->status, 400, 'length');
	is($s->post('new_readings', { partitionid => "it's", new_readingid => id(3) },
			Prefer => 'return=representation')->status, 201);
	is(row(3, "it''s")->{partitionid}, "it's");
};

subtest 'updates' => sub {
	my $r = $s->patch(url(1, 'p1'), { new_value => 1.5 }, 'If-Match' => '*');
	is($r->status, 204);
	ok($r->header('x-ms-session-token'));
	is(row(1, 'p1')->{new_name}, 'one', 'an update keeps the rest');
	is($s->patch(url(1), { new_value => 2, partitionid => 'p2' }, 'If-Match' => '*')->status, 204,
		'the partition in the body');
	is(row(1, 'p2')->{new_value} + 0, 2);
	for my $partition ('p1', 'p9')
	{
		my $r = $s->patch(url(1, 'p1'), { partitionid => $partition }, 'If-Match' => '*');
		is($r->status . $r->json->{error}{code}, '4000x80040216', 'not beside a key that has it');
		is($s->patch(url(1, 'p1'), { partitionid => $partition })->status, 400, '… in an upsert');
		is(bulk('UpdateMultiple', [ { '@odata.id' => url(1, 'p1'), partitionid => $partition } ])->status,
			400, '… in a bulk message');
		is(bulk('UpsertMultiple', [ { '@odata.id' => url(1, 'p1'), partitionid => $partition } ])->status,
			400, '… that upserts');
	}
	is(row(1, 'p1')->{new_name}, 'one', 'and the row is unchanged');
	is($s->patch(url(1), { new_value => 2 }, 'If-Match' => '*')->status, 404);
	is($s->patch(url(1) . '?partitionId=p1', { new_value => 2 }, 'If-Match' => '*')->status, 404,
		'the option has no effect on PATCH');
};

subtest 'upserts replace' => sub {
	is($s->patch(url(1, 'p1'), { new_name => 'again' })->status, 204);
	my $r = row(1, 'p1');
	is($r->{new_name}, 'again');
	is($r->{new_value}, undef, 'missing members become null');
	is($s->patch(url(5, 'p1'), { new_name => 'made' })->status, 204);
	is(row(5, 'p1')->{new_name}, 'made');
};

subtest 'delete' => sub {
	is($s->delete(url(5))->status, 404);
	my $r = $s->delete(url(5) . '?partitionId=p1');
	is($r->status, 204);
	is($r->header('x-ms-session-token'), undef, 'no token on delete');
	is(row(5, 'p1'), undef);
};

subtest 'bulk' => sub {
	my $r = bulk('CreateMultiple',
		[ map { { new_readingid => id($_), partitionid => 'b', new_name => "n$_", new_value => $_ } } 10 .. 14 ]);
	is($r->status, 200);
	ok($r->header('x-ms-session-token'));
	is_deeply($r->json->{Ids}, [ map { id($_) } 10 .. 14 ]);
	is(bulk('UpdateMultiple', [ { new_readingid => id(10), partitionid => 'b', new_name => 'u' } ])
		->status, 204);
	is(row(10, 'b')->{new_name}, 'u');
	is(row(10, 'b')->{new_value} + 0, 10);
	is(bulk('UpsertMultiple', [
				{ '@odata.id' => url(10, 'b'), new_name => 'r' },
				{ new_readingid => id(15), partitionid => 'b', new_name => 'new' } ])->status, 204);
	is(row(10, 'b')->{new_value}, undef, 'replaced');
	is(row(15, 'b')->{new_name}, 'new');
	is(bulk('DeleteMultiple', [ map { { new_readingid => id($_), partitionid => 'b' } } 14, 15 ])->status,
		204);
	is(row(14, 'b'), undef);
	ok(row(13, 'b'));
};

subtest 'partial success' => sub {
	my @rows = (
		{ new_readingid => id(20), partitionid => 'c' },
		{ new_readingid => id(10), partitionid => 'b' },
		{ new_readingid => id(21), partitionid => 'c', new_quality => 77 },
		{ new_readingid => id(22), partitionid => 'c' });
	my $r = bulk('CreateMultiple', \@rows);
	is($r->status, 400);
	ok(!exists $r->json->{error}{$details}, 'no details unless requested');
	ok(row(20, 'c') && row(22, 'c'), 'successful rows stay');
	$r = bulk('CreateMultiple', \@rows, Prefer => 'odata.include-annotations="*"');
	is(statuses($r), '0:409 1:409 2:400 3:409');
	is(decode_json($r->json->{error}{$details})->[2]{Id}, id(21));
	$s->delete(url(20, 'c'));
	$r = bulk('CreateMultiple', \@rows,
		Prefer => 'odata.include-annotations="Microsoft.PowerApps.CDS.ErrorDetails.*"');
	is(statuses($r), '0:201 1:409 2:400 3:409', 'successes are listed as well');
	$r = bulk('UpdateMultiple', [
			{ new_readingid => id(20), partitionid => 'c', new_name => 'ok' },
			{ new_readingid => id(20), partitionid => 'zz', new_name => 'no' } ],
		Prefer => 'odata.include-annotations="*"');
	is(statuses($r), '0:200 1:404');
	is(row(20, 'c')->{new_name}, 'ok');
	$r = bulk('DeleteMultiple', [
			{ new_readingid => $none, partitionid => 'c' },
			{ new_readingid => id(20), partitionid => 'c' } ],
		Prefer => 'odata.include-annotations="*"');
	is(statuses($r), '0:404 1:204');
	is(row(20, 'c'), undef);
};

subtest 'time to live' => sub {
	$s->create('new_readings', { new_readingid => id(40), ttlinseconds => 60 });
	ok(row(40));
	$s->control('POST', '/_dvsim/clock?advance=61s');
	is(row(40), undef, 'expired');
	is($s->patch(url(40), { new_name => 'x' }, 'If-Match' => '*')->status, 404);
};

subtest 'no transactions' => sub {
	my $part = sub {
		my ($id, $body) = @_;
		return "--c1\nContent-Type: application/http\nContent-ID: $id\n\n"
		  . "POST /api/data/v9.2/new_readings HTTP/1.1\nContent-Type: application/json\n\n$body\n";
	};
	my $r = $s->post('$batch',
		"--b1\nContent-Type: multipart/mixed; boundary=c1\n\n"
		  . $part->(1, '{"new_readingid":"' . id(50) . '"}')
		  . $part->(2, '{"new_quality":77}')
		  . "--c1--\n--b1--\n",
		'Content-Type' => 'multipart/mixed; boundary=b1');
	is($r->status, 400);
	ok(row(50), 'a change set is not rolled back');
};

done_testing;
