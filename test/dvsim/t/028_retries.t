# 028_retries.t
#		What a client may rely on when an answer is lost: whether the rows
#		exist, and the result of the same request when it is repeated.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 28);
my $bulk = 'Microsoft.Dynamics.CRM.';

# the token comes before the first fault
is($s->get('WhoAmI')->status, 200);

sub id { return sprintf '28282828-0000-0000-%04d-%012d', @_; }

sub rows
{
	my ($table) = @_;
	return $s->control('GET', '/_dvsim/stats')->json->{tables}{ $table // 'account' };
}

# Carries out the next request or not, and loses its answer.
sub lose
{
	my ($action) = @_;
	is($s->control('POST', '/_dvsim/faults', [ { action => $action } ])->status, 200, $action);
}

sub targets
{
	my ($type, @rows) = @_;
	return { Targets => [ map { { '@odata.type' => "$bulk$type", %$_ } } @rows ] };
}

sub refused
{
	my ($r, $status, $code, $name) = @_;
	is($r->status, $status, "$name: status");
	is($r->json->{error}{code}, $code, "$name: code");
}

# Sends the request with its answer lost; 0 is the status of no answer at all.
sub lost
{
	my ($action, $method, @request) = @_;

	lose($action);
	my $r = eval { $s->$method(@request) };
	ok(!$r || !$r->status, 'no answer');
}

subtest 'CreateMultiple with ids of the client' => sub {
	my @request = ("accounts/${bulk}CreateMultiple",
		targets('account', map { { accountid => id(1, $_), name => "n$_" } } 1 .. 50));

	lost('reset_before_commit', post => @request);
	is(rows(), 0, 'nothing was written');
	lost('reset_after_commit', post => @request);
	is(rows(), 50, 'everything was written');
	refused($s->post(@request), 412, '0x80040237', 'again');
	is(rows(), 50, 'nothing twice');
	is($s->get('accounts(' . id(1, 50) . ')?$select=name')->json->{name}, 'n50',
		'any of its ids proves it');
};

subtest 'single rows' => sub {
	my $url = 'accounts(' . id(2, 1) . ')';

	lost('reset_after_commit', post => 'accounts', { accountid => id(2, 1), name => 'a' });
	refused($s->post('accounts', { accountid => id(2, 1), name => 'a' }), 412, '0x80040237',
		'create again');
	lost('reset_after_commit', patch => $url, { name => 'b' });
	is($s->patch($url, { name => 'b' })->status, 204, 'update again');
	is($s->get($url)->json->{name}, 'b', 'the same row');
	lost('reset_after_commit', delete => $url);
	refused($s->delete($url), 404, '0x80040217', 'delete again');
	lost('reset_after_commit', patch => $url, { name => 'c' }, 'If-None-Match' => '*');
	refused($s->patch($url, { name => 'c' }, 'If-None-Match' => '*'), 412, '0x80040237',
		'insert by PATCH again');
	is(rows(), 51, 'one row');
};

subtest 'UpsertMultiple and UpdateMultiple' => sub {
	my @upsert = ("new_meters/${bulk}UpsertMultiple",
		targets('new_meter', map { {
			'@odata.id' => "new_meters(new_serial='R-$_')",
			new_name => "r$_"
		} } 1 .. 20));

	lost('reset_before_commit', post => @upsert);
	is(rows('new_meter'), 0, 'nothing was written');
	lost('reset_after_commit', post => @upsert);
	is(rows('new_meter'), 20, 'everything was written');
	is($s->post(@upsert)->status, 204, 'again: no error');
	is(rows('new_meter'), 20, 'and nothing twice');
	my @update = ("accounts/${bulk}UpdateMultiple",
		targets('account', map { { accountid => id(1, $_), telephone1 => "t$_" } } 1 .. 50));
	lost('reset_after_commit', post => @update);
	is($s->post(@update)->status, 204, 'update again: no error');
	is($s->get('accounts(' . id(1, 7) . ')?$select=telephone1')->json->{telephone1}, 't7');
};

subtest 'elastic rows' => sub {
	my @rows = map { { new_readingid => id(3, $_), partitionid => 'p', new_name => "r$_" } } 1 .. 9;
	my @request = ("new_readings/${bulk}UpsertMultiple", targets('new_reading', @rows));

	lost('reset_after_commit', post => @request);
	is($s->post(@request)->status, 204, 'again');
	is(rows('new_reading'), 9, 'nothing twice');
	@request = ("new_readings/${bulk}DeleteMultiple", targets('new_reading', @rows));
	lost('reset_after_commit', post => @request);
	is($s->post(@request)->status, 400, 'deleting again: deleted rows are refused');
	is(rows('new_reading'), 0, 'all are deleted');
};

subtest '$batch' => sub {
	my $body = join '', (map {
		"--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
		  . "POST /api/data/v9.2/accounts HTTP/1.1\r\nContent-Type: application/json\r\n\r\n"
		  . '{"accountid":"' . id(4, $_) . "\"}\r\n"
	} 1 .. 5), "--b--\r\n";
	my @request = ('$batch', $body, 'Content-Type' => 'multipart/mixed; boundary=b',
		'Prefer' => 'odata.continue-on-error');
	my $before = rows();

	lost('reset_before_commit', post => @request);
	is(rows(), $before, 'nothing was written');
	lost('reset_after_commit', post => @request);
	is(rows(), $before + 5, 'everything was written');
	my $r = $s->post(@request);
	is($r->status, 200, 'again');
	is(scalar(() = $r->body =~ /^HTTP\/1\.1 412 /mg), 5, 'the answer of each part agrees');
	is(rows(), $before + 5, 'nothing twice');
};

# a client that follows changes sees each row once, however often it was sent
subtest 'change tracking' => sub {
	my $link = $s->get('accounts?$select=name', Prefer => 'odata.track-changes')
	  ->json->{'@odata.deltaLink'};
	my @request = ("accounts/${bulk}CreateMultiple",
		targets('account', map { { accountid => id(5, $_), name => "d$_" } } 1 .. 30));

	lost('reset_after_commit', post => @request);
	is($s->post(@request)->status, 412, 'again');
	$s->post("accounts/${bulk}CreateMultiple",
		targets('account', { name => 'rolled back' }, { nothing => 1 }));
	is(join(' ', sort map { $_->{name} } @{ $s->get($link)->json->{value} }),
		join(' ', sort map { "d$_" } 1 .. 30), 'each row once, and none that was rolled back');
};

done_testing;
