# 027_bulkdelete.t
#		BulkDelete: the request, the job's states by the virtual clock, the
#		rows that it deletes and keeps, its counts, and failures.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

my $s = Dvsim->start('--seed', 27);
my $guid = qr/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;

sub job
{
	my ($table, $criteria, %more) = @_;
	my $query = {
		'@odata.type' => 'Microsoft.Dynamics.CRM.QueryExpression', EntityName => $table,
		ColumnSet => { AllColumns => JSON::PP::false, Columns => ["${table}id"] },
		Distinct => JSON::PP::false };

	$query->{Criteria} = $criteria if $criteria;
	return $s->post('BulkDelete', {
			QuerySet => [$query], JobName => 'test', SendEmailNotification => JSON::PP::false,
			ToRecipients => [], CCRecipients => [], RecurrencePattern => '',
			StartDateTime => '2026-01-01T00:00:00Z', %more });
}

sub where
{
	my ($column, $operator, @values) = @_;
	return { FilterOperator => 'And', Filters => [], Conditions => [ {
				AttributeName => $column, Operator => $operator,
				Values => [ map { { Value => $_, Type => 'System.String' } } @values ] } ] };
}

sub state_of
{
	my ($id) = @_;
	my $r = $s->get("asyncoperations($id)?\$select=statecode,statuscode,message")->json;
	return "$r->{statecode} $r->{statuscode}";
}

sub counts
{
	my ($id) = @_;
	my $r = $s->get("bulkdeleteoperations?\$select=successcount,failurecount,statuscode"
		  . "&\$filter=_asyncoperationid_value eq $id")->json->{value}[0];
	return "$r->{successcount} $r->{failurecount}";
}

sub jump { $s->control('POST', "/_dvsim/clock?advance=$_[0]"); }

# all rows of a finished job: its counts
sub done
{
	my ($r) = @_;
	return $r->status . ' ' . $r->body unless $r->status == 200;
	my $id = $r->json->{JobId};
	jump('3s');
	state_of($id);
	jump('60s');
	return state_of($id) . ': ' . counts($id);
}

sub names
{
	return join ' ', map { $_->{new_name} }
	  @{ $s->get('new_meters?$select=new_name&$orderby=new_name')->json->{value} };
}

sub meters { $s->create('new_meters', { new_name => $_, new_serial => $_ }) for @_; }

subtest 'life of a job' => sub {
	meters(qw(a1 a2 b1));
	my $r = job('new_meter', where('new_name', 'BeginsWith', 'a'));
	is($r->status, 200);
	like($r->json->{'@odata.context'}, qr/#Microsoft\.Dynamics\.CRM\.BulkDeleteResponse$/);
	my $id = $r->json->{JobId};
	like($id, qr/^$guid$/);
	is(state_of($id), '0 0', 'waits');
	my $etag = $s->get("asyncoperations($id)")->json->{'@odata.etag'};
	is(counts($id), '0 0');
	is(names(), 'a1 a2 b1', 'and has no effect yet');
	meters('a0');
	jump('2s');
	is(state_of($id), '2 20', 'runs');
	meters('a3');
	jump('60s');
	is(state_of($id), '3 30', 'completes');
	is(names(), 'a3 b1', 'rows created after the start stay');
	is(counts($id), '3 0');
	my $row = $s->get("asyncoperations($id)")->json;
	is($row->{name}, 'test');
	is($row->{operationtype}, 13);
	ok($row->{startedon} && $row->{completedon});
	isnt($row->{'@odata.etag'}, $etag, 'another version');
	is($row->{modifiedon}, $row->{createdon}, 'but its modifiedon is unreliable');
};

subtest 'queries' => sub {
	is(done(job('new_meter', undef)), '3 30: 2 0', 'without criteria all rows');
	is(names(), '');
	meters(map { "m$_" } 1 .. 9);
	my $id = $s->get("new_meters(new_serial='m1')")->json->{new_meterid};
	is(done(job('new_meter', where('new_meterid', 'In', $id))), '3 30: 1 0', 'In');
	is(done(job('new_meter', where('new_name', 'Equal', 'M2'))), '3 30: 1 0', 'ignoring case');
	is(done(job('new_meter', { FilterOperator => 'Or', Conditions => [
						{ AttributeName => 'new_name', Operator => 'Equal', Values => ['m3'] } ],
				Filters => [ { FilterOperator => 'And', Conditions => [
							{ AttributeName => 'new_name', Operator => 'GreaterEqual', Values => ['m4'] },
							{ AttributeName => 'new_name', Operator => 'LessThan', Values => ['m6'] } ] } ] })),
		'3 30: 3 0', 'nested filters');
	is(names(), 'm6 m7 m8 m9');
	is(done(job('new_meter', where('new_number', 'NotNull'))), '3 30: 0 0');
	is(done(job('new_meter', where('new_number', 'NotEqual', 5))), '3 30: 4 0', 'null is not 5');
	is(done(job('new_meter', where('createdon', 'LastXDays', 2))), '3 30: 0 0');
};

subtest 'rows that cannot be deleted' => sub {
	my @ids = map { $s->create('new_meters', { new_name => "r$_" }) } 1 .. 3;
	$s->create('new_alltypeses', { new_name => 'x', 'new_MeterId@odata.bind' => "/new_meters($ids[1])" });
	my $r = job('new_meter', undef);
	is(done($r), '3 30: 2 1', 'do not keep the others');
	is(names(), 'r2');
	my $job = $r->json->{JobId};
	my $failures = $s->get("bulkdeletefailures?\$filter=_asyncoperationid_value eq $job")->json->{value};
	is(scalar @$failures, 1);
	is($failures->[0]{errornumber}, -2147220953);
	like($failures->[0]{errordescription}, qr/associated with another object/);
};

subtest 'start time' => sub {
	my $now = $s->control('GET', '/_dvsim/clock');
	my $id = job('new_reading', undef, StartDateTime => '2000-01-01T00:00:00Z')->json->{JobId};
	is(state_of($id), '0 0', 'one in the past means now');
	jump('2s');
	like(state_of($id), qr/^[23] /);
	like($now->body, qr/\d/);
};

subtest 'refusals' => sub {
	is(job('nothing', undef)->json->{error}{code}, '0x80041102');
	is(job('new_meter', where('nothing', 'Equal', 1))->status, 400);
	is(job('new_meter', where('new_name', 'Nonsense', 1))->status, 400);
	is(job('new_meter', where('new_name', 'Equal', {}))->status, 400);
	is(job('new_meter', undef, QuerySet => [])->status, 400);
	is(job('new_meter', undef, QuerySet => [5])->status, 400);
	is(job('new_meter', undef, JobName => 5)->status, 400);
	is($s->post('BulkDelete', { JobName => 'x' })->status, 400);
	is($s->post('BulkDelete', '{')->status, 400);
	is($s->post('Nothing', {})->status, 404);
	is($s->get('BulkDelete')->status, 404);
};

subtest 'a job that cannot be read at first' => sub {
	$s->quirks('lagging-jobs');
	$s->create('accounts', { name => 'late' });
	my $id = job('account', where('name', 'Equal', 'late'))->json->{JobId};
	is($s->get("asyncoperations($id)")->status, 404, 'at once');
	jump('10s');
	is($s->get("asyncoperations($id)")->status, 200, 'later');
	$s->quirks();
};

done_testing;
