# 055_keys.t
#		Alternate keys that requests create: the job that creates the index,
#		how a key can be used before and after, failure and reactivation,
#		deletion, stamps; and publishing.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

my $dir = tempdir(CLEANUP => 1);
my $s = Dvsim->start('--seed', 55, '--data', "$dir/rows", '--time-scale', 0.001);
my $root = $s->base . '/api/data/v9.2/';
my $guid = qr/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
my $json = JSON::PP->new->canonical;

sub keys_of { return "EntityDefinitions(LogicalName='$_[0]')/Keys"; }

sub outcome
{
	my ($r) = @_;
	return $r->status < 300 ? $r->status : $r->status . ' ' . $r->error_code;
}

sub make
{
	my ($table, $name, @columns) = @_;
	return $s->post(keys_of($table), { SchemaName => $name, KeyAttributes => \@columns });
}

sub later { $s->control('POST', '/_dvsim/clock', { advance => $_[0] }); return; }

# "status job's state/status": the job is the one that created the key
sub state_of
{
	my ($table, $name, $job) = @_;
	my $key = $s->get(keys_of($table) . "(LogicalName='$name')");
	my $row = $s->get("asyncoperations($job)?\$select=statecode,statuscode")->json;

	return ($key->status == 200 ? $key->json->{EntityKeyIndexStatus} : $key->status)
	  . " $row->{statecode}/$row->{statuscode}";
}

sub job_of { return $s->get(keys_of($_[0]) . "(LogicalName='$_[1]')")->json->{AsyncJob}; }

sub names_of
{
	return join ' ', sort map { $_->{LogicalName} } @{ $s->get(keys_of($_[0]) . '?$select=LogicalName')->json->{value} };
}

# ---------------------------------------------------------------- created and activated

my $one = $s->create('accounts', { name => 'One', accountnumber => 'A-1' });
my $r = $s->post(
	keys_of('account'),
	{
		'@odata.type' => '#Microsoft.Dynamics.CRM.EntityKeyMetadata',
		SchemaName => 'new_NumberKey',
		KeyAttributes => ['accountnumber'],
		DisplayName => {
			LocalizedLabels => [ { Label => 'Account Number', LanguageCode => 1033 } ]
		}
	});
is($r->status, 204, 'POST of a key');
like($r->header('OData-EntityId'), qr/^\Q$root\EEntityDefinitions\($guid\)\/Keys\($guid\)$/,
	'returns its location');
my ($id) = $r->header('OData-EntityId') =~ /Keys\((.*)\)/;
my $key = $s->get(keys_of('account') . "($id)")->json;
is_deeply(
	[ @$key{qw(SchemaName LogicalName EntityLogicalName KeyAttributes EntityKeyIndexStatus MetadataId)} ],
	[ 'new_NumberKey', 'new_numberkey', 'account', ['accountnumber'], 'Pending', $id ],
	'its definition');
is($key->{DisplayName}{UserLocalizedLabel}{Label}, 'Account Number', 'its label');
ok(!$key->{IsSynchronous}, 'its index is created by a job');
my $job = $key->{AsyncJob};
like($job, qr/^$guid$/, 'which it names');
$r = $s->get("asyncoperations($job)?\$select=name,operationtype,primaryentitytype")->json;
is_deeply([ @$r{qw(name operationtype primaryentitytype)} ],
	[ 'Create index for Account Number for table Account', 63, 'account' ], 'the job');
is(state_of('account', 'new_numberkey', $job), 'Pending 0/0', 'both are waiting');

my $pending = sub {
	my ($when) = @_;
	is(outcome($s->get("accounts(accountnumber='A-1')")), '400 0x80060890', "$when: no URL");
	is(outcome($s->patch("accounts(accountnumber='A-1')", { name => 'x' })), '400 0x80060890',
		"$when: no upsert");
	is(outcome($s->post('accounts/Microsoft.Dynamics.CRM.UpsertMultiple',
				{ Targets => [ { '@odata.type' => 'Microsoft.Dynamics.CRM.account',
						'@odata.id' => "accounts(accountnumber='A-1')", name => 'x' } ] })),
		'400 0x80060890', "$when: no UpsertMultiple");
	is(outcome($s->post('contacts', { lastname => 'x',
				'parentcustomerid_account@odata.bind' => "accounts(accountnumber='A-1')" })),
		'400 0x80060890', "$when: no reference");
};
$pending->('Pending');
later(2.5);
is(state_of('account', 'new_numberkey', $job), 'InProgress 2/20', 'the job runs');
$pending->('InProgress');
later(5);
is(state_of('account', 'new_numberkey', $job), 'Active 3/30', 'and has succeeded');
is(job_of('account', 'new_numberkey'), undef, 'an active key names no job');
$r = $s->get("asyncoperations($job)?\$select=startedon,completedon,errorcode,message")->json;
ok(defined $r->{startedon} && defined $r->{completedon}, 'with times');
is_deeply([ @$r{qw(errorcode message)} ], [ undef, undef ], 'and without an error');

is($s->get("accounts(accountnumber='A-1')?\$select=name")->json->{accountid}, $one, 'Active: a URL');
is(outcome($s->patch("accounts(accountnumber='A-2')", { name => 'Two' })), 204, 'an upsert');
is($s->get("accounts(accountnumber='a-2')?\$select=name")->json->{name}, 'Two', 'has created a row');
is(outcome($s->post('accounts', { name => 'x', accountnumber => 'A-1' })), '412 0x80060892',
	'enforced on create');
is(outcome($s->patch("accounts($one)", { accountnumber => 'A-2' })), '412 0x80060892', 'on update');
like($s->post('accounts', { name => 'x', accountnumber => 'A-1' })->json->{error}{message},
	qr/^Entity Key new_NumberKey violated\. A record with the same value for Account Number /,
	'with its name');

# the columns of one key are a subset of another's
is(outcome(make('account', 'new_PairKey', 'accountnumber', 'name')), 204, 'a key of two columns');
later(10);
is($s->get("accounts(name='One',accountnumber='A-1')?\$select=name")->json->{accountid}, $one,
	'in any order');

# ---------------------------------------------------------------- failed and reactivated

my @twins = map { $s->create('contacts', { lastname => $_, jobtitle => 'E-1' }) } 'a', 'b';
is(outcome(make('contact', 'new_EmployeeKey', 'jobtitle')), 204, 'a key that rows violate');
$job = job_of('contact', 'new_employeekey');
later(10);
is(state_of('contact', 'new_employeekey', $job), 'Failed 3/31', 'fails');
is(job_of('contact', 'new_employeekey'), $job, 'and keeps its job');
$r = $s->get("asyncoperations($job)?\$select=errorcode,message")->json;
is($r->{errorcode}, -2147088238, 'with the reason: code');
like($r->{message}, qr/duplicate key was found/, 'and message');
is(outcome($s->get("contacts(jobtitle='E-1')")), '400 0x80060890', 'a failed key has no URL');
is(outcome($s->post('contacts', { lastname => 'c', jobtitle => 'E-2' })), 204, 'other rows …');
is(outcome($s->post('contacts', { lastname => 'd', jobtitle => 'E-2' })), 204, '… are not refused');

my %again = (EntityLogicalName => 'contact', EntityKeyLogicalName => 'new_employeekey');
is(outcome($s->post('ReactivateEntityKey', \%again)), 204, 'ReactivateEntityKey');
isnt(job_of('contact', 'new_employeekey'), $job, 'starts a new job');
is(outcome($s->post('ReactivateEntityKey', \%again)), '400 0x80060897', 'not while it is pending');
later(10);
is(state_of('contact', 'new_employeekey', $job), 'Failed 3/31', 'which fails as well');
$s->delete("contacts($twins[0])");
$s->patch("contacts($_->{contactid})", { jobtitle => undef })
  for @{ $s->get("contacts?\$select=contactid&\$filter=jobtitle eq 'E-2'")->json->{value} };
$s->post('ReactivateEntityKey', \%again);
later(10);
is($s->get("contacts(jobtitle='E-1')?\$select=lastname")->json->{lastname}, 'b',
	'succeeds when no values are duplicates, except nulls');
is(outcome($s->post('ReactivateEntityKey', \%again)), '400 0x80060897', 'not when it is active');
is($s->post('ReactivateEntityKey', \%again)->json->{error}{message},
	'Reactivate entity key is only supported for failed job', 'with the documented message');
is(outcome($s->post('ReactivateEntityKey', { %again, EntityKeyLogicalName => 'nope' })),
	'404 0x80041140', 'no such key');
is(outcome($s->post('ReactivateEntityKey', { %again, EntityLogicalName => 'nope' })),
	'404 0x80040217', 'no such table');
is(outcome($s->post('ReactivateEntityKey', { EntityLogicalName => 'contact' })),
	'400 0x80040203', 'a parameter is missing');

# ---------------------------------------------------------------- deleted

is(outcome($s->delete(keys_of('account') . "($id)")), 204, 'DELETE by id');
is(names_of('account'), 'new_pairkey', 'only that one is deleted');
is(outcome($s->delete(keys_of('account') . "($id)")), '404 0x80040217', 'once');
is(outcome($s->get("accounts(accountnumber='A-1')")), '400 0x80060890', 'no URL any more');
is(outcome($s->post('accounts', { name => 'x', accountnumber => 'A-1' })), 204, 'not enforced');

is(outcome(make('contact', 'new_BirthKey', 'birthdate')), 204, 'a date can be a key');
is(outcome(make('account', 'new_FaxKey', 'fax')), 204, 'a key that is deleted');
$job = job_of('account', 'new_faxkey');
is(outcome($s->delete(keys_of('account') . q{(LogicalName='new_faxkey')})), 204,
	'by name, while it is pending');
is(state_of('account', 'new_faxkey', $job), '404 3/32', 'cancels its job');
later(10);
is(state_of('account', 'new_faxkey', $job), '404 3/32', 'for good');

# ---------------------------------------------------------------- stamps

sub changes
{
	my ($stamp) = @_;
	my $query = $json->encode({ Properties => { PropertyNames => [qw(LogicalName Keys)] } });
	my $r = $s->get('RetrieveMetadataChanges(Query=@q,ClientVersionStamp=@s)?@q='
		  . Dvsim::escape($query) . '&@s=' . Dvsim::escape("'$stamp'"))->json;

	return ($r->{ServerVersionStamp},
		{ map { $_->{LogicalName} => join ' ', sort map { "$_->{LogicalName}:" . ($_->{EntityKeyIndexStatus} // '') } @{ $_->{Keys} } }
			@{ $r->{EntityMetadata} } });
}

later(5);
my $stamp = $s->get('RetrieveMetadataChanges')->json->{ServerVersionStamp};
my $seen;
later(5);
($stamp, $seen) = changes($stamp);
is_deeply($seen, {}, 'nothing has changed');
later(5);
make('account', 'new_FaxKey', 'fax');
(undef, $seen) = changes($stamp);
is_deeply($seen, { account => 'new_faxkey:Pending new_pairkey:Active' }, 'a new key');
later(10);
job_of('account', 'new_faxkey');
later(5);
($stamp, $seen) = changes($stamp);
is_deeply($seen, { account => 'new_faxkey:Active new_pairkey:Active' }, 'it is active');
later(5);
($stamp, $seen) = changes($stamp);
is_deeply($seen, {}, 'nothing else');
later(5);
$s->delete(keys_of('account') . q{(LogicalName='new_faxkey')});
($stamp, $seen) = changes($stamp);
is_deeply($seen, { account => 'new_pairkey:Active' }, 'it is removed');

# ---------------------------------------------------------------- in a $batch

sub batch
{
	my ($method, $path, $body, $in_set) = @_;
	my $part = "Content-Type: application/http\r\n" . ($in_set ? "Content-ID: 1\r\n" : '')
	  . "\r\n$method /api/data/v9.2/$path HTTP/1.1\r\nContent-Type: application/json\r\n\r\n"
	  . ($body // '') . "\r\n";

	$part = "Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n$part--c--\r\n" if $in_set;
	$r = $s->post('$batch', "--b\r\n$part--b--\r\n", 'Content-Type' => 'multipart/mixed; boundary=b');
	return $r->body =~ /^HTTP\/1\.1 (\d+)/m ? $1 : $r->status;
}

my $fax = $json->encode({ SchemaName => 'new_FaxKey', KeyAttributes => ['fax'] });
is(batch('POST', keys_of('account'), $fax), 204, 'POST in a $batch');
is(batch('DELETE', keys_of('account') . q{(LogicalName='new_faxkey')}), 204, 'DELETE in a $batch');
is(batch('POST', keys_of('account'), $fax, 1), 400, 'not in a change set');
is(names_of('account'), 'new_pairkey', 'which changes nothing');

# ---------------------------------------------------------------- refusals

for (
	[ account => 'NumberKey', ['fax'], '400 0x80044366', 'a name without a prefix' ],
	[ account => undef, ['fax'], '400 0x80044366', 'no name' ],
	[ account => 'new_pairKEY', ['fax'], '400 0x80060893', 'a name that there is' ],
	[ account => 'new_Other', [qw(name accountnumber)], '400 0x80060894', 'the columns of another' ],
	[ account => 'new_Other', [], '400 0x8006088F', 'no columns' ],
	[ account => 'new_Other', undef, '400 0x8006088F', 'none at all' ],
	[ account => 'new_Other', ['nothing'], '400 0x8006088F', 'no such column' ],
	[ account => 'new_Other', ['Fax'], '400 0x8006088F', 'columns are logical names' ],
	[ account => 'new_Other', [qw(fax fax)], '400 0x8006088F', 'a column twice' ],
	[ account => 'new_Other', ['description'], '400 0x8006088F', 'a memo' ],
	[ account => 'new_Other', ['revenue'], '400 0x8006088F', 'money' ],
	[ account => 'new_Other', ['donotemail'], '400 0x8006088F', 'a yes or no' ],
	[ account => 'new_Other', ['accountid'], '400 0x8006088F', 'the primary key' ],
	[ account => 'new_Other', ['ownerid'], '400 0x8006088F', 'an owner' ],
	[ account => 'new_Other', ['createdon'], '400 0x80090112', 'not valid for create and update' ],
	[ account => 'new_Other', ['overriddencreatedon'], '400 0x80090111', 'not valid for update' ],
	[ account => 'new_Other', [qw(name websiteurl emailaddress1)], '400 0x80060895', 'more than 900 bytes' ],
	[ new_reading => 'new_Other', ['new_name'], '400 0x8009724F', 'an elastic table' ],
	[ new_account_contact => 'new_Other', ['accountid'], '400 0x8006088F', 'an intersect table' ],
	[ nothing => 'new_Other', ['fax'], '404 0x80040217', 'no such table' ])
{
	my ($table, $name, $columns, $expected, $what) = @$_;
	my %body = (SchemaName => $name, KeyAttributes => $columns);

	delete $body{$_} for grep { !defined $body{$_} } keys %body;
	is(outcome($s->post(keys_of($table), \%body)), $expected, "refused: $what");
}
is(outcome($s->post(keys_of('account'), { SchemaName => 'new_Other', KeyAttributes => ['fax'], Foo => 1 })),
	'400 0x80048d19', 'refused: a property that a key does not have');
is(outcome($s->post(keys_of('account'), '')), '400 0x80048d19', 'refused: nothing');
is(outcome($s->delete(keys_of('new_reading') . q{(LogicalName='keyfornosqlentitywithpkpartitionid')})),
	'400 0x8009724F', 'refused: the key of an elastic table');
is(outcome($s->request(@$_)), '405 0x80060888', "refused: $_->[0] $_->[1]")
  for [ DELETE => keys_of('account') ], [ POST => keys_of('account') . q{(LogicalName='new_pairkey')}, {} ],
  [ PATCH => keys_of('account') . q{(LogicalName='new_pairkey')}, {} ],
  [ POST => 'EntityDefinitions', {} ], [ DELETE => q{EntityDefinitions(LogicalName='account')} ],
  [ POST => q{EntityDefinitions(LogicalName='account')/Attributes}, {} ],
  [ POST => 'RelationshipDefinitions', {} ], [ POST => 'GlobalOptionSetDefinitions', {} ];
is(names_of('account'), 'new_pairkey', 'none was created');

my @columns = qw(fax telephone1 telephone2 emailaddress1 websiteurl sic stockexchange
  numberofemployees primarycontactid industrycode);
my @outcomes = map { outcome(make('account', "new_${_}Key", $_)) } @columns;
is(scalar(grep { $_ eq '204' } @outcomes), 9, 'ten keys of all the types, with the one before');
is($outcomes[-1], '400 0x8006088F', 'the last is refused');

# ---------------------------------------------------------------- reset and restart

is(outcome($s->delete(keys_of('new_meter') . q{(LogicalName='new_serialkey')})), 204,
	'a key of the schema can be deleted');
$s->create('new_meters', { new_name => "M$_", new_serial => 'twice' }) for 1, 2;
$s->control('POST', '/_dvsim/reset');
is(names_of('account'), '', 'a reset removes created keys');
is(names_of('contact'), '', 'everywhere');
is(names_of('new_meter'), 'new_serialkey new_sitekey', 'and restores deleted ones');
$s->create('new_meters', { new_name => 'M1', new_serial => 'once' });
is(outcome($s->post('new_meters', { new_name => 'M2', new_serial => 'once' })), '412 0x80060892',
	'with its index');
$s->create('accounts', { name => "A$_", accountnumber => 'twice' }) for 1, 2;

make('account', 'new_NumberKey', 'name');
later(10);
$s->delete(keys_of('new_meter') . q{(LogicalName='new_serialkey')});
$s->create('new_meters', { new_name => 'M3', new_serial => 'once' });
$s->delete(keys_of('new_meter') . q{(LogicalName='new_sitekey')});
ok($s->stop, 'dvsim ends');
$s->start_again;
is(names_of('account'), '', 'a created key does not survive a restart');
is(outcome($s->post('accounts', { name => 'A1' })), 204, 'and so is its index');
is(names_of('new_meter'), 'new_serialkey new_sitekey', 'those of the schema are restored');
is($s->get(keys_of('new_meter') . q{(LogicalName='new_serialkey')})->json->{EntityKeyIndexStatus},
	'Failed', 'but one that the rows violate has failed');
is($s->get(keys_of('new_meter') . q{(LogicalName='new_sitekey')})->json->{EntityKeyIndexStatus},
	'Active', 'the other is active');
$s->delete('new_meters(' . $_->{new_meterid} . ')')
  for @{ $s->get("new_meters?\$select=new_meterid&\$filter=new_serial eq 'once'")->json->{value} };
is(outcome($s->post('ReactivateEntityKey', { EntityLogicalName => 'new_meter', EntityKeyLogicalName => 'new_serialkey' })),
	204, 'and can be reactivated');
later(10);
is(outcome($s->patch("new_meters(new_serial='S')", { new_name => 'S' })), 204, 'which succeeds');

# ---------------------------------------------------------------- publishing

is(outcome($s->post('PublishXml',
			{ ParameterXml => '<importexportxml><entities><entity>account</entity></entities></importexportxml>' })),
	204, 'PublishXml');
is(outcome($s->post('PublishXml', { ParameterXml => '<importexportxml>' })), '400 0x80040203',
	'not with half of the XML');
is(outcome($s->post('PublishXml', {})), '400 0x80040203', 'nor without it');
is(outcome($s->post('PublishAllXml', undef)), 204, 'PublishAllXml');

ok($s->stop, 'dvsim ends cleanly');
done_testing;
