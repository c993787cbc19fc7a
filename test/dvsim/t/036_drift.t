# 036_drift.t
#		Changes of the schema at run time: columns, choices, tables, and
#		change tracking are added, changed, and removed.
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
my $s = Dvsim->start('--seed', 36, '--data', "$dir/rows");
my $track = 'odata.track-changes';
my $json = JSON::PP->new->canonical->allow_nonref;
my $true = JSON::PP::true;
my $false = JSON::PP::false;

sub outcome
{
	my ($r) = @_;
	return $r->status < 300 ? $r->status : $r->status . ' ' . $r->error_code;
}

sub refused
{
	my ($change, $message, $name) = @_;
	my $r = $s->control('POST', '/_dvsim/schema', $change);

	is($r->status, 400, "$name: refused");
	like($r->json->{error}, $message, $name);
	return;
}

sub column
{
	my ($table, $name) = @_;
	my $r = $s->get("EntityDefinitions(LogicalName='$table')/Attributes(LogicalName='$name')");
	return $r->status == 200 ? $r->json : undef;
}

sub value_of
{
	my ($path, $column) = @_;
	return $json->encode($s->get("$path?\$select=$column")->json->{$column});
}

sub version_of { return $s->get("$_[0]?\$select=versionnumber")->json->{versionnumber}; }

sub annotated_version
{
	return $s->get('new_meters?$select=new_name&$top=1',
		Prefer => 'odata.include-annotations="Microsoft.Dynamics.CRM.globalmetadataversion"')
	  ->json->{'@Microsoft.Dynamics.CRM.globalmetadataversion'};
}

sub delta_link
{
	return $s->get("$_[0]?\$select=$_[1]", Prefer => $track)->json->{'@odata.deltaLink'};
}

my $id = $s->create('new_meters', { new_name => 'one', new_serial => 'S-1', new_number => 7 });
my $meter = "new_meters($id)";
my $name = 'EntityDefinitions(LogicalName=\'new_meter\')';

# ---- a column is added
{
	my $before = version_of($meter);
	my $metadata = annotated_version();

	is(column('new_meter', 'new_extra'), undef, 'no such column yet');
	is($s->change_schema({ change => 'add_column', table => 'new_meter',
				definition => { name => 'new_Extra', type => 'integer', max => 100 } }), 1, 'one change');
	is(column('new_meter', 'new_extra')->{AttributeType}, 'Integer', 'a column has been added');
	like($s->get('$metadata')->body, qr/<Property Name="new_extra" Type="Edm.Int32"/, 'in $metadata');
	is(value_of($meter, 'new_extra'), 'null', 'null in existing rows');
	is(version_of($meter), $before, 'which have not changed');
	cmp_ok(annotated_version(), '>', $metadata, 'the version of the metadata has changed');
	is(outcome($s->patch($meter, { new_extra => 41 })), 204, 'written');
	is(outcome($s->patch($meter, { new_extra => 101 })), '400 0x8004432F', 'within its limits');
	is($s->get('new_meters?$select=new_name&$filter=new_extra eq 41')->json->{value}[0]{new_name}, 'one', 'it can be used in a filter');
}

# ---- wider, another label, another type
my $first_id = column('new_meter', 'new_extra')->{MetadataId};
$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_extra',
		set => { max => 1000, label => 'More' } });
is(column('new_meter', 'new_extra')->{MaxValue}, 1000, 'wider');
is(column('new_meter', 'new_extra')->{DisplayName}{UserLocalizedLabel}{Label}, 'More', 'another label');
is(column('new_meter', 'new_extra')->{MetadataId}, $first_id, 'the same column');
is(outcome($s->patch($meter, { new_extra => 101 })), 204, 'and its values');
{
	my $before = version_of($meter);

	$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_extra',
			set => { type => 'decimal', precision => 2, min => undef, max => undef } });
	is(column('new_meter', 'new_extra')->{AttributeType}, 'Decimal', 'Int to Decimal');
	like($s->get($meter . '?$select=new_extra')->body, qr/"new_extra":101\.0000000000/, 'with its value');
	is(version_of($meter), $before, 'no row was written');
	is(outcome($s->patch($meter, { new_extra => 1.25 })), 204, 'and a fraction');
	$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_extra', touch => $true,
			set => { type => 'string', length => 20, precision => undef } });
	is(value_of($meter, 'new_extra'), '"1.25"', 'Decimal to String');
	cmp_ok(version_of($meter), '>', $before, 'rows are written if requested');
}

# every type as text, and back
{
	my %value = (
		integer => [ 12, '12' ], bigint => [ '9007199254740993', '"9007199254740993"' ], decimal => [ 2.5, '"2.5"' ],
		double => [ 0.25, '"0.25"' ], boolean => [ $true, '"1"' ], datetime => [ '2026-01-02T03:04:05Z', '"2026-01-02T03:04:05Z"' ],
		memo => [ 'text', '"text"' ], uuid => [ $id, "\"$id\"" ]);

	for my $type (sort keys %value)
	{
		my ($given, $text) = @{ $value{$type} };

		$s->change_schema({ change => 'add_column', table => 'new_meter', definition => { name => 'new_Odd', type => $type } });
		is(outcome($s->patch($meter, { new_odd => $type eq 'bigint' ? $given + 0 : $given })), 204, "$type: a value");
		my $before = value_of($meter, 'new_odd');
		$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_odd', set => { type => 'string' } });
		$text = "\"$text\"" unless $text =~ /^"/;
		is(value_of($meter, 'new_odd'), $text, "$type: as text");
		$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_odd', set => { type => $type } });
		is(value_of($meter, 'new_odd'), $before, "$type: and back");
		$s->change_schema({ change => 'drop_column', table => 'new_meter', column => 'new_odd' });
	}
}
$s->patch($meter, { new_extra => 'nonsense' });
$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_extra', set => { type => 'integer' } });
is(value_of($meter, 'new_extra'), 'null', 'values that do not fit the new type are null');

# ---- a column is renamed
$s->patch($meter, { new_extra => 5 });
$s->change_schema({ change => 'rename_column', table => 'new_meter', column => 'new_extra', to => 'new_Other' });
is(column('new_meter', 'new_extra'), undef, 'renamed: the old name no longer exists');
is(value_of($meter, 'new_other'), '5', 'the value has the new name');
isnt(column('new_meter', 'new_other')->{MetadataId}, $first_id, 'it is another column');
is(outcome($s->get('new_meters?$select=new_extra')), '400 0x0', 'the old name is refused: $select');
is(outcome($s->get('new_meters?$select=new_name&$filter=new_extra eq 5')), '400 0x0', '$filter');
is(outcome($s->patch($meter, { new_extra => 5 })), '400 0x80048d19', 'PATCH');
is(outcome($s->get('new_meters?fetchXml=' .
			'%3Cfetch%3E%3Centity name=%22new_meter%22%3E%3Cattribute name=%22new_extra%22/%3E%3C/entity%3E%3C/fetch%3E')),
	'400 0x80041103', 'FetchXML');

# ---- a key and the primary name follow
$s->change_schema({ change => 'rename_column', table => 'new_meter', column => 'new_serial', to => 'new_Code' });
is(outcome($s->get("new_meters(new_code='S-1')?\$select=new_name")), 200, 'the key is on the new name');
is(outcome($s->post('new_meters', { new_name => 'x', new_code => 'S-1' })), '412 0x80060892', 'and enforced');
$s->change_schema({ change => 'rename_column', table => 'new_meter', column => 'new_code', to => 'new_Serial' });

# ---- lookups
{
	my $account = $s->create('accounts', { name => 'A' });

	$s->patch($meter, { 'new_AccountId@odata.bind' => "accounts($account)" });
	$s->change_schema({ change => 'rename_column', table => 'new_meter', column => 'new_accountid', to => 'new_SiteId' });
	is(value_of($meter, '_new_siteid_value'), "\"$account\"", 'a lookup under another name');
	$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_siteid',
			set => { targets => [ 'account', 'contact' ] } });
	is($s->get($meter . '?$select=_new_siteid_value', Prefer => 'odata.include-annotations="*"')
		->json->{'_new_siteid_value@Microsoft.Dynamics.CRM.lookuplogicalname'}, 'account', 'with another target');
	$s->change_schema({ change => 'alter_column', table => 'new_meter', column => 'new_siteid',
			set => { targets => ['contact'] } });
	is(value_of($meter, '_new_siteid_value'), 'null', 'without the target that it referred to');
	$s->change_schema({ change => 'rename_column', table => 'new_meter', column => 'new_siteid', to => 'new_AccountId' },
		{ change => 'alter_column', table => 'new_meter', column => 'new_accountid', set => { targets => ['account'] } });
	is(outcome($s->patch($meter, { 'new_AccountId@odata.bind' => "accounts($account)" })), 204, 'and restored');
}

# ---- a column is removed, and added again
$s->change_schema({ change => 'drop_column', table => 'new_meter', column => 'new_other' });
is(column('new_meter', 'new_other'), undef, 'dropped');
unlike($s->get('$metadata')->body, qr/new_other/, 'including $metadata');
$s->change_schema({ change => 'add_column', table => 'new_meter', definition => { name => 'new_Other', type => 'string' } });
is(value_of($meter, 'new_other'), 'null', 'added again, with another type, and empty');
{
	my $old = column('new_meter', 'new_notes')->{MetadataId};

	$s->patch($meter, { new_notes => 'note' });
	$s->change_schema({ change => 'drop_column', table => 'new_meter', column => 'new_notes' },
		{ change => 'add_column', table => 'new_meter', column => 'new_notes' });
	is(value_of($meter, 'new_notes'), 'null', 'added again with the original definition: empty');
	isnt(column('new_meter', 'new_notes')->{MetadataId}, $old, 'with another id');
}

# ---- choices
sub options_of
{
	my ($table, $name, $type) = @_;
	my $r = $s->get("EntityDefinitions(LogicalName='$table')/Attributes(LogicalName='$name')/" .
		"Microsoft.Dynamics.CRM.${type}AttributeMetadata?\$select=LogicalName&\$expand=OptionSet");
	return join ' ', map { "$_->{Value}=$_->{Label}{UserLocalizedLabel}{Label}" } @{ $r->json->{OptionSet}{Options} };
}
is(outcome($s->patch($meter, { new_kind => 7 })), '400 0x8004431A', 'no such option');
$s->change_schema({ change => 'add_option', table => 'new_meter', column => 'new_kind', value => 7, label => 'Heat' });
is(outcome($s->patch($meter, { new_kind => 7 })), 204, 'added');
like(options_of('new_meter', 'new_kind', 'Picklist'), qr/ 7=Heat$/, 'it is in the metadata');
$s->change_schema({ change => 'add_option', option_set => 'new_meterkind', value => 7, label => 'Warmth' });
is($s->get($meter . '?$select=new_kind', Prefer => 'odata.include-annotations="*"')
	->json->{'new_kind@OData.Community.Display.V1.FormattedValue'}, 'Warmth', 'another label');
$s->change_schema({ change => 'drop_option', option_set => 'new_meterkind', value => 7 });
is(value_of($meter, 'new_kind'), '7', 'rows keep the value of a removed option');
is(outcome($s->patch($meter, { new_kind => 7 })), '400 0x8004431A', 'which is no longer accepted');
$s->change_schema({ change => 'add_option', table => 'new_meter', column => 'new_features', value => 77, label => 'Loud' });
is(outcome($s->patch($meter, { new_features => '1,77' })), 204, 'an option of a local choice');
$s->change_schema({ change => 'add_option', table => 'new_meter', column => 'statuscode', state => 1, value => 5, label => 'Broken' });
is(outcome($s->patch($meter, { statecode => 1, statuscode => 5 })), 204, 'a status');
$s->patch($meter, { statecode => 0, statuscode => 1 });

# ---- change tracking
{
	my $link = delta_link('new_meters', 'new_name');
	my $gone = $s->create('new_meters', { new_name => 'short' });

	my $annotated = sub { return $s->get('$metadata?annotations=true')->body =~ /<EntitySet Name="new_meters".*?<\/EntitySet>/s ? $& : ''; };

	is($s->get($name)->json->{ChangeTrackingEnabled}, $true, 'tracked');
	like($annotated->(), qr/ChangeTracking/, 'including $metadata');
	$s->change_schema({ change => 'alter_table', table => 'new_meter', set => { change_tracking => $false } });
	is($s->get($name)->json->{ChangeTrackingEnabled}, $false, 'not tracked');
	unlike($annotated->(), qr/ChangeTracking/, 'nor in $metadata');
	is(outcome($s->get($link)), '400 0x80072491', 'a link is refused');
	is(outcome($s->get('new_meters?$select=new_name', Prefer => $track)), '400 0x80072491', 'and so is a first read');
	$s->delete("new_meters($gone)");
	$s->change_schema({ change => 'alter_table', table => 'new_meter', set => { change_tracking => $true } });
	is(outcome($s->get($link)), '400 0x80044352', 'tracked again: missed changes expire the link');
	$link = delta_link('new_meters', 'new_name');
	$s->patch($meter, { new_name => 'two' });
	is_deeply([ map { $_->{new_name} } @{ $s->get($link)->json->{value} } ], ['two'], 'and a new one works');
}

# a link that names a removed column
{
	my $link = delta_link('new_meters', 'new_name,new_other');

	$s->change_schema({ change => 'drop_column', table => 'new_meter', column => 'new_other' });
	is(outcome($s->get($link)), '400 0x0', 'a link names a removed column');
}

# ---- tables
{
	my $link = delta_link('new_meters', 'new_name');
	my $old = $s->get($name)->json;
	my $reading = $s->create('new_readings', { new_name => 'r' });

	refused({ change => 'drop_table', table => 'new_meter' }, qr/column "new_MeterId" of table "new_Reading"/, 'a lookup points to it');
	# a job that has not started yet must find the table
	$s->quirks('lagging-jobs');
	my $query = { EntityName => 'new_meter', ColumnSet => { AllColumns => $false, Columns => [] },
		Criteria => { FilterOperator => 'And', Conditions => [] } };
	my $r = $s->post('BulkDelete', { QuerySet => [$query], JobName => 'j', SendEmailNotification => $false, ToRecipients => [],
			CCRecipients => [], RecurrencePattern => '', StartDateTime => '2020-01-01T00:00:00Z' });
	is($r->status, 200, 'a job on the table') or diag($r->body);
	my $job = $r->json->{JobId};

	$s->change_schema({ change => 'drop_table', table => 'new_meter', cascade => $true });
	$s->control('POST', '/_dvsim/clock', { advance => 60 });
	is($s->get("asyncoperations($job)?\$select=statuscode")->json->{statuscode}, 30, 'has nothing left to do');
	$s->quirks;
	is(outcome($s->get('new_meters')), '404 0x80060888', 'a table is removed');
	is(outcome($s->get($name)), '404 0x80040217', 'with its definition');
	is(outcome($s->get($link)), '404 0x80060888', 'and its links');
	is(outcome($s->post('new_meters/Microsoft.Dynamics.CRM.CreateMultiple', { Targets => [] })), '404 0x80060888', 'and messages');
	is(outcome($s->get("new_readings($reading)?\$select=_new_meterid_value")), '400 0x0', 'and the lookup');
	is(outcome($s->get("new_readings($reading)?\$select=new_name")), 200, 'other columns are kept');
	is(@{ $s->get("sdkmessagefilters?\$select=sdkmessagefilterid&\$filter=primaryobjecttypecode eq 'new_meter'")->json->{value} },
		0, 'no list of messages contains it');
	is(@{ $s->get("solutioncomponents?\$select=solutioncomponentid&\$filter=objectid eq $old->{MetadataId}")->json->{value} },
		0, 'and no solution');

	$s->change_schema({ change => 'add_table', table => 'new_meter' });
	my $new = $s->get($name)->json;
	isnt($new->{MetadataId}, $old->{MetadataId}, 'added again: another id');
	cmp_ok($new->{ObjectTypeCode}, '>', $old->{ObjectTypeCode}, 'and type code');
	is(@{ $s->get('new_meters?$select=new_name')->json->{value} }, 0, 'and empty');
	is(outcome($s->get($link)), '400 0x80044352', 'links of the former table have expired');
	is(@{ $s->get("sdkmessagefilters?\$select=sdkmessagefilterid&\$filter=primaryobjecttypecode eq 'new_meter'")->json->{value} },
		7, 'it has messages');
	$s->change_schema({ change => 'add_column', table => 'new_reading', column => 'new_meterid' });

	$s->change_schema({ change => 'add_table', definition => { name => 'new_Site', primary_name => 'new_name', change_tracking => $true,
				columns => [ { name => 'new_Name', type => 'string' }, { name => 'new_Meter', type => 'lookup', targets => ['new_meter'] } ] } });
	$id = $s->create('new_meters', { new_name => 'again' });
	$meter = "new_meters($id)";
	my $site = $s->create('new_sites', { new_name => 's', 'new_Meter@odata.bind' => "/$meter" });
	is($s->get("new_sites($site)?\$select=new_name&\$expand=new_Meter(\$select=new_name)")->json->{new_Meter}{new_name},
		'again', 'a new table');
	is($s->get("EntityDefinitions(LogicalName='new_site')?\$select=ObjectTypeCode")->json->{ObjectTypeCode}, $new->{ObjectTypeCode} + 1,
		'its type code is new');
	$r = $s->control('POST', '/_dvsim/seed?table=new_site&rows=10');
	is($r->json->{rows}, 11, 'it can be seeded');
}

# the customer lookup loses a target, and its rows lose references to it
{
	my $account = $s->create('accounts', { name => 'Cust' });
	my $contact = $s->create('contacts', { lastname => 'C', 'parentcustomerid_account@odata.bind' => "/accounts($account)" });
	my $note = $s->create('annotations', { subject => 'n', 'objectid_account@odata.bind' => "/accounts($account)" });
	my $other = $s->create('annotations', { subject => 'o', 'objectid_contact@odata.bind' => "/contacts($contact)" });

	$s->change_schema({ change => 'drop_table', table => 'account', cascade => $true });
	is(value_of("contacts($contact)", '_parentcustomerid_value'), 'null', 'a lookup to several tables loses one of them');
	is(value_of("annotations($note)", '_objectid_value'), 'null', 'including lookups that keep several targets');
	is(value_of("annotations($other)", '_objectid_value'), "\"$contact\"", 'those references stay');
	is(outcome($s->get('new_account_contactset')), '404 0x80060888', 'N:N relationships are removed');
}

# ---- metadata of changed and deleted tables
{
	$s->control('POST', '/_dvsim/clock', { advance => 2 });
	my $stamp = $s->get('RetrieveMetadataChanges(Query=@q)?@q={"Properties":{"AllProperties":false,"PropertyNames":["LogicalName"]}}')
	  ->json->{ServerVersionStamp};
	my $ask = 'RetrieveMetadataChanges(Query=@q,ClientVersionStamp=@s)?@q={"Properties":{"AllProperties":false,' .
	  "\"PropertyNames\":[\"LogicalName\"]}}&\@s='$stamp'";

	$s->control('POST', '/_dvsim/clock', { advance => 2 });
	$s->change_schema({ change => 'add_option', option_set => 'new_meterkind', value => 9, label => 'Steam' });
	my %told = map { $_->{LogicalName} => 1 } @{ $s->get($ask)->json->{EntityMetadata} };
	ok($told{new_meter}, 'RetrieveMetadataChanges returns the table');
	ok(!$told{contact}, 'and no others') or diag(join ' ', sort keys %told);
}

# ---- keys that requests have created meanwhile
{
	my $r = $s->post("$name/Keys", { SchemaName => 'new_NumberKey', KeyAttributes => ['new_number'] });
	is($r->status, 204, 'a key');
	$s->change_schema({ change => 'add_column', table => 'new_meter', definition => { name => 'new_Third', type => 'integer' } });
	$s->control('POST', '/_dvsim/clock', { advance => 10 });
	is($s->get("$name/Keys(LogicalName='new_numberkey')")->json->{EntityKeyIndexStatus}, 'Active', 'its job continues');
	$s->patch($meter, { new_number => 3 });
	is(outcome($s->get('new_meters(new_number=3)?$select=new_name')), 200, 'the key works');
	refused({ change => 'drop_column', table => 'new_meter', column => 'new_number' }, qr/key "new_/, 'a column of a key');
}

# ---- refusals
refused({ change => 'drop_column', table => 'new_meter', column => 'new_name' }, qr/primary name/, 'the primary name');
refused({ change => 'drop_column', table => 'new_meter', column => 'statecode' }, qr/no column "statecode"/, 'a column of the service');
refused({ change => 'drop_column', table => 'new_meter', column => 'nothing' }, qr/no column "nothing"/, 'an unknown column');
refused({ change => 'drop_table', table => 'systemuser' }, qr/needs table "systemuser"/, 'a table of the service');
refused({ change => 'drop_table', table => 'nothing' }, qr/no table "nothing"/, 'an unknown table');
refused({ change => 'add_table', table => 'new_meter' }, qr/is a table/, 'an existing table');
refused({ change => 'add_column', table => 'new_meter', column => 'new_serial' }, qr/there twice/, 'an existing column');
refused({ change => 'explode' }, qr/no change "explode"/, 'an unknown change');
refused({ change => 'drop_table', table => 'new_meter', quickly => $true }, qr/no member "quickly"/, 'an unknown member');
refused({ change => 'alter_column', table => 'new_meter', column => 'new_number', set => { name => 'x' } }, qr/"name" cannot/, 'the name');
refused({ change => 'add_option', option_set => 'nothing', value => 1, label => 'x' }, qr/no option set/, 'an unknown choice');
refused([ { change => 'drop_column', table => 'new_meter', column => 'new_third' }, { change => 'drop_table', table => 'nothing' } ],
	qr/^change 1: /, 'one of two');
ok(column('new_meter', 'new_third'), 'all changes or none');
refused([ { change => 'drop_table', table => 'new_meter', cascade => $true },
		{ change => 'add_table', definition => { name => 'new_Bad', columns => [ { name => 'new_X', type => 'odd' } ] } } ],
	qr/^change 1: .*no type "odd"/, 'also if rows have already been deleted');
is(value_of($meter, 'new_name'), '"again"', 'they have not');

# ---- restarts and resets
is($s->control('GET', '/_dvsim/schema?table=NEW_Site')->json->{name}, 'new_Site', 'a definition');
is($s->control('GET', '/_dvsim/schema?table=account')->status, 404, 'none');
my $changes = $s->control('GET', '/_dvsim/schema')->json->{changes};
$s->crash;
$s->start_again;
is($s->control('GET', '/_dvsim/schema')->json->{changes}, $changes, 'a data file keeps the definitions');
is(value_of($meter, 'new_name'), '"again"', 'and the rows');
is(outcome($s->get('accounts')), '404 0x80060888', 'removed columns stay removed');
is($s->control('POST', '/_dvsim/reset')->status, 200, 'a reset');
is(outcome($s->get('accounts')), 200, 'restores all tables');
is(outcome($s->get('new_sites')), '404 0x80060888', 'and nothing else');
is($s->control('GET', '/_dvsim/schema')->json->{changes}, 0, 'no changes');
is(outcome($s->post('accounts', { name => 'new' })), 204, 'rows can be written');
is($s->control('POST', '/_dvsim/seed?table=new_meter&rows=3')->json->{rows}, 3, 'and seeded');
$s->crash;
$s->start_again;
is(outcome($s->get('accounts')), 200, 'also after a restart');

done_testing();
