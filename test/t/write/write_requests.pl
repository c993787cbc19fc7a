# write_requests.pl
#		The requests of modifications, by dvsim's journal: addresses, bodies, and
#		headers of requests and of their parts, and the absence of other requests.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $id = '00000000-0000-0000-0000-00000000000';
my $caller = '11111111-2222-3333-4444-555555555555';
# in the end, a fault delays all answers, which for a few rounds looks like load
my $crm = Crm->start('write_requests', options => { max_parallel => 1, useful_limit => 'off' });

$crm->sql(
	"CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO dv;
	ALTER SERVER crm OPTIONS (ADD batch_size '10')");

sub requests { return $crm->requests; }
sub target { return Crm::target(@_); }
sub sent { return $crm->sent(@_); }

sub lines
{
	return [ map { "$_->{method} " . target($_) } @_ ];
}

# Returns the rows of a bulk message as text, in the order in which they were written.
sub rows
{
	my ($request) = @_;
	my ($list) = $request->{body} =~ /^\{"Targets":\[(.*)\]\}$/s;

	return [ map { s/"\@odata.type":"Microsoft.Dynamics.CRM.\w+",?//r } $list =~ /\{[^{}]*\}/g ];
}

# ---- INSERT

my @r = sent("INSERT INTO dv.account (accountid, name, numberofemployees, parentaccountid, creditonhold)
	VALUES ('${id}a', 'A \"1\"', NULL, NULL, true), ('${id}b', '', 7, '${id}a', NULL)");
is_deeply(lines(@r), ['POST accounts/Microsoft.Dynamics.CRM.CreateMultiple'], 'INSERT is one bulk message');
is_deeply(
	rows($r[0]),
	[
		qq({"accountid":"${id}a","name":"A \\"1\\"","creditonhold":true,"numberofemployees":null}),
		qq({"accountid":"${id}b","name":"","creditonhold":null,"numberofemployees":7,"parentaccountid\@odata.bind":"/accounts(${id}a)"})
	],
	'… with the columns that it names: nulls as well, except lookups');
is($r[0]{headers}{'Content-Type'}, 'application/json; charset=utf-8', '… as JSON');
is($r[0]{headers}{Prefer}, 'odata.include-annotations="*"', '… that requests the names of errors');
ok(!grep({ /^MSCRM/i } keys %{ $r[0]{headers} }), '… and bypasses nothing');

@r = sent("INSERT INTO dv.account (name) SELECT 'n' || i FROM generate_series(1, 25) i");
is_deeply([ map { scalar @{ rows($_) } } @r ], [ 10, 10, 5 ], '25 rows in batches of ten are three');
is(scalar(grep { /^\{"accountid":"[-0-9a-f]{36}","name":"n\d+"\}$/ } map { @{ rows($_) } } @r),
	25, '… each with a generated id');

@r = sent("ALTER SERVER crm OPTIONS (ADD generate_ids 'off');
	INSERT INTO dv.account (name) VALUES ('theirs');
	ALTER SERVER crm OPTIONS (DROP generate_ids)");
is_deeply(rows($r[0]), ['{"name":"theirs"}'], '… or without, if the service generates it');

@r = sent("INSERT INTO dv.account (accountid, name, statecode, statuscode) VALUES ('${id}1', 'active', 0, 1), ('${id}2', 'inactive', 1, 2)");
is_deeply(
	lines(@r),
	[ map { "POST accounts/Microsoft.Dynamics.CRM.${_}Multiple" } 'Create', 'Update' ],
	'an inactive row is a create and an update');
is_deeply(
	[ map { @{ rows($_) } } @r ],
	[
		qq({"accountid":"${id}1","name":"active","statuscode":1}), qq({"accountid":"${id}2","name":"inactive"}),
		qq({"accountid":"${id}2","statecode":1,"statuscode":2})
	],
	'… and the update sets the state');

# ---- images: only the primary one is created with its row

my $picture = "\\x89504e47";
@r = sent("INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_image, new_picture) VALUES
	('${id}1', 'both', '$picture', '$picture'), ('${id}2', 'primary', '$picture', NULL), ('${id}3', 'other', NULL, '$picture')");
is_deeply(
	lines(@r),
	[ map { "POST new_alltypeses/Microsoft.Dynamics.CRM.${_}Multiple" } 'Create', 'Update' ],
	'rows with an image that is not the primary one are a create and an update');
is_deeply(
	[ map { @{ rows($_) } } @r ],
	[
		qq({"new_alltypesid":"${id}1","new_name":"both","new_image":"iVBORw=="}),
		qq({"new_alltypesid":"${id}2","new_name":"primary","new_image":"iVBORw=="}),
		qq({"new_alltypesid":"${id}3","new_name":"other","new_image":null}),
		map { qq({"new_alltypesid":"$id$_","new_picture":"iVBORw=="}) } 1, 3
	],
	'… for the rows that have one');
@r = sent("INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_picture, statecode, statuscode) VALUES ('${id}4', 'off', '$picture', 1, 2)");
is_deeply(rows($r[1]), [qq({"new_alltypesid":"${id}4","statecode":1,"statuscode":2,"new_picture":"iVBORw=="})], '… together with the state');
@r = sent("INSERT INTO dv.new_alltypes (new_name, new_image) VALUES ('p', '$picture')");
is(scalar @r, 1, '… and a row with the primary image needs no update');
@r = sent("SET dataverse_fdw.insert_mode = 'upsert';
	INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_picture) VALUES ('${id}1', 'there', NULL), ('${id}5', 'new', '$picture')");
is_deeply(
	[ map { @{ rows($_) } } @r ],
	[
		qq({"new_alltypesid":"${id}1","new_name":"there"}), qq({"new_alltypesid":"${id}5","new_name":"new"}),
		qq({"new_alltypesid":"${id}1","new_picture":null}), qq({"new_alltypesid":"${id}5","new_picture":"iVBORw=="})
	],
	'an upsert may create a row, so its images follow as well, including those that are cleared');
is($crm->sql("SELECT string_agg(new_name || (new_image IS NOT NULL)::text || (new_picture IS NOT NULL)::text, ' ' ORDER BY new_name) FROM dv.new_alltypes WHERE new_name <> 'p'"),
	'newfalsetrue offfalsetrue otherfalsetrue primarytruefalse theretruefalse', '… and every row has its images');
@r = sent("SET dataverse_fdw.dry_run = on; INSERT INTO dv.new_alltypes (new_name, new_picture) VALUES ('dry', '$picture')");
is(scalar @r, 0, 'a dry run sends neither');
$crm->dvsim->control('POST', '/_dvsim/faults', [{ path => 'UpdateMultiple', status => 400, code => '0x80040265', message => 'no picture', times => 0 },
	{ path => '$batch', batch_part => 1, status => 400, code => '0x80040265', message => 'no picture', times => 0 }]);
my (undef, undef, $refused) = $crm->node->psql('postgres', "INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_picture) VALUES ('${id}6', 'kept', '$picture')");
like($refused, qr/ERROR:  could not insert into foreign table "new_alltypes" .*: no picture/, 'an image that is refused is an error');
like($refused, qr/The update that completes row 1 \(${id}6\) was refused; the row itself was written\./, '… which reports that the row exists');
$crm->sql("SET dataverse_fdw.on_error = 'continue'; SET client_min_messages = error;
	INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_picture) VALUES ('${id}7', 'kept', '$picture'), ('${id}8', 'fine', NULL)");
is($crm->sql("SELECT operation, row_number, message FROM dataverse.rejects WHERE foreign_table = 'dv.new_alltypes'"),
	"update|1|no picture", '… or the update is filed');
$crm->dvsim->control('DELETE', '/_dvsim/faults');
is($crm->sql("SELECT count(*) FROM dv.new_alltypes WHERE new_name IN ('kept', 'fine') AND new_picture IS NULL"), 3, '… and the rows exist');
$crm->sql("TRUNCATE dataverse_private.rejected_rows; DELETE FROM dv.new_alltypes");

@r = sent("INSERT INTO dv.account (name) VALUES ('known') RETURNING accountid, name");
is_deeply(lines(@r), ['POST accounts/Microsoft.Dynamics.CRM.CreateMultiple'], 'RETURNING of known values needs no request');
@r = sent("INSERT INTO dv.account (name) VALUES ('asked') RETURNING createdon, name");
is(scalar @r, 2, 'RETURNING of values that only the service knows reads them back');
like(target($r[1]), qr/^accounts\?\$select=createdon&\$filter=accountid eq [-0-9a-f]{36}&/,
	'… by id, and only these columns');

# ---- repetitions are reported by cause

$crm->fault(path => 'CreateMultiple', status => 503, times => 1);
my $told = ($crm->time_of("SET dataverse_fdw.summary = on; INSERT INTO dv.account (name) VALUES ('repeated')"))[1];
like($told, qr/: 1 row, 1 batch, 1 request, 1 repeated \(server 1\), 0 throttled, /, 'the summary reports why a request was repeated');
$crm->fault(path => 'CreateMultiple', action => 'reset_before_commit', times => 2);
like($crm->sql("EXPLAIN (ANALYZE, COSTS OFF) INSERT INTO dv.account (name) VALUES ('repeated')"),
	qr/Requests Repeated: 2\n +Causes of Repetition: connection 2\n/, '… and so does EXPLAIN ANALYZE');
$crm->no_faults;

# ---- UPDATE and DELETE

@r = sent("UPDATE dv.account SET numberofemployees = 8 WHERE accountid IN ('${id}a', '${id}b')");
is_deeply(lines(@r), ['POST accounts/Microsoft.Dynamics.CRM.UpdateMultiple'], 'UPDATE by id reads nothing');
is_deeply(
	[ sort @{ rows($r[0]) } ],
	[ map { qq({"accountid":"$id$_","numberofemployees":8}) } 'a', 'b' ],
	'… and writes only the columns in SET');
@r = sent("UPDATE dv.account SET numberofemployees = numberofemployees + 1 WHERE numberofemployees = 8");
is(target($r[0]), 'accounts?$select=accountid,numberofemployees&$filter=numberofemployees eq 8&$orderby=accountid',
	'another UPDATE reads what it computes from, and ids');
is_deeply(
	[ sort @{ rows($r[1]) } ],
	[ map { qq({"accountid":"$id$_","numberofemployees":9}) } 'a', 'b' ],
	'… before it writes');
@r = sent("UPDATE dv.account SET parentaccountid = NULL WHERE accountid = '${id}b'");
is_deeply(rows($r[0]), [qq({"accountid":"${id}b","parentaccountid":null})], 'a lookup is cleared by null');

# ---- polymorphic lookups: only the existing reference is cleared

$crm->sql("INSERT INTO dv.contact (contactid, lastname) VALUES ('${id}c', 'c');
	INSERT INTO dv.new_alltypes (new_alltypesid, new_name, new_customerid, new_customeridtype, new_relatedid, new_relatedidtype) VALUES
		('${id}1', 'l', '${id}a', 'account', '${id}c', 'contact'), ('${id}2', 'l', '${id}c', 'contact', NULL, NULL), ('${id}3', 'l', NULL, NULL, NULL, NULL)");
@r = sent("UPDATE dv.new_alltypes SET new_customerid = NULL, new_relatedid = NULL, new_relatedidtype = NULL WHERE new_name = 'l'");
is_deeply(
	lines(@r),
	[ 'GET new_alltypeses?$select=new_alltypesid,new_name,_new_customerid_value,_new_relatedid_value&$filter=new_name eq \'l\'&$orderby=new_alltypesid',
		'POST new_alltypeses/Microsoft.Dynamics.CRM.UpdateMultiple' ],
	'clearing polymorphic lookups of rows that differ is one read and one bulk message') or diag(join("\n", map { target($_) } @r));
is_deeply(
	[ sort @{ rows($r[1]) } ],
	[
		qq({"new_alltypesid":"${id}1","new_customerid_account":null,"new_RelatedId_contact":null}),
		qq({"new_alltypesid":"${id}2","new_customerid_contact":null,"new_RelatedId_account":null}),
		qq({"new_alltypesid":"${id}3","new_customerid_account":null,"new_RelatedId_account":null})
	],
	'… and each row names its referenced tables');
is($crm->sql("SELECT count(new_customerid), count(new_relatedid), count(new_customeridtype) FROM dv.new_alltypes"), '0|0|0', '… all are cleared');
$crm->sql("UPDATE dv.new_alltypes SET new_customerid = '${id}a', new_customeridtype = 'account' WHERE new_name = 'l'");
@r = sent("UPDATE dv.new_alltypes SET new_customerid = NULL WHERE new_alltypesid = '${id}1'");
is($r[0]{method}, 'GET', 'a row given by its id is read first');
is_deeply(rows($r[1]), [qq({"new_alltypesid":"${id}1","new_customerid_account":null})], '… for the same reason');
@r = sent("UPDATE dv.new_alltypes SET new_customerid = '${id}c', new_customeridtype = 'contact' WHERE new_alltypesid = '${id}1'");
is_deeply(rows($r[0]), [qq({"new_alltypesid":"${id}1","new_customerid_contact\@odata.bind":"/contacts(${id}c)"})], 'a reference to another table replaces it without that');
is(scalar @r, 1, '… and nothing is read');
is($crm->sql("SELECT string_agg(new_customeridtype, ' ' ORDER BY new_alltypesid) FROM dv.new_alltypes"), 'contact account account', '… and it is replaced');
$crm->sql("DELETE FROM dv.new_alltypes; DELETE FROM dv.contact");

$crm->sql(q{CREATE FUNCTION dv.number() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN NEW.accountnumber := 'n' || NEW.numberofemployees; RETURN NEW; END $$;
	CREATE TRIGGER number BEFORE UPDATE ON dv.account FOR EACH ROW EXECUTE FUNCTION dv.number()});
@r = sent("UPDATE dv.account SET numberofemployees = 10 WHERE accountid = '${id}a'");
is_deeply(
	rows($r[1]),
	[qq({"accountid":"${id}a","numberofemployees":10,"accountnumber":"n10"})],
	'columns changed by a trigger are written, and no others');
$crm->sql('DROP TRIGGER number ON dv.account; DROP FUNCTION dv.number');

@r = sent("DELETE FROM dv.account WHERE accountid = '${id}2'");
is_deeply(lines(@r), ['POST $batch'], 'DELETE is a $batch');
is($r[0]{headers}{Prefer}, 'odata.continue-on-error', '… of which every part counts');
like($r[0]{body}, qr{\r\nDELETE /api/data/v9\.2/accounts\(${id}2\) HTTP/1\.1\r\n}, '… of requests for each row');

# ---- upsert

@r = sent("SET dataverse_fdw.insert_mode = 'upsert';
	INSERT INTO dv.account (accountid, name, statecode) VALUES ('${id}a', 'u', 0)");
is_deeply(lines(@r), ['POST accounts/Microsoft.Dynamics.CRM.UpsertMultiple'], 'upsert has a message of its own');
is_deeply(rows($r[0]), [qq({"accountid":"${id}a","name":"u","statecode":0})], '… by id');
@r = sent("ALTER FOREIGN TABLE dv.new_meter OPTIONS (ADD insert_mode 'upsert', ADD upsert_key 'new_serial');
	INSERT INTO dv.new_meter (new_serial, new_name) VALUES ('it''s \"5\" ä', 'm')");
is_deeply(lines(@r), ['POST new_meters/Microsoft.Dynamics.CRM.UpsertMultiple'], '… or by alternate key');
is_deeply(
	rows($r[0]),
	[qq({"\@odata.id":"new_meters(new_serial='it''s \\"5\\" \x{e4}')","new_name":"m"})],
	'… which is not encoded, and not repeated');
@r = sent("INSERT INTO dv.new_meter (new_serial, new_name) VALUES ('it''s 5/6', 'm'), ('56', 'n')");
is_deeply(
	[ sort @{ lines(@r) } ],
	[ 'POST $batch', ('POST new_meters/Microsoft.Dynamics.CRM.UpsertMultiple') x 2 ],
	'a key that cannot be part of an address is looked up');
like($r[0]{body},
	qr{\r\nGET /api/data/v9\.2/new_meters\?\$select=new_meterid&\$top=2&\$filter=new_serial%20eq%20'it''s%205%2F6' HTTP/1\.1\r\n},
	'… by a filter');
is(scalar(() = $r[0]{body} =~ /\r\nGET /g), 1, '… and only that column');
my ($made) = map { /"new_meterid":"([-0-9a-f]{36})"/ ? $1 : () } map { @{ rows($_) } } @r[ 1, 2 ];
is_deeply(
	[ sort map { @{ rows($_) } } @r[ 1, 2 ] ],
	[ qq({"\@odata.id":"new_meters(new_serial='56')","new_name":"n"}),
		qq({"new_meterid":"$made","new_serial":"it's 5/6","new_name":"m"}) ],
	'… and created with its key as a member');
@r = sent("INSERT INTO dv.new_meter (new_serial, new_name) VALUES ('it''s 5/6', 'o')");
is_deeply(
	lines(@r),
	[ 'POST $batch', 'POST new_meters/Microsoft.Dynamics.CRM.UpdateMultiple' ],
	'… or, when it exists, updated');
is_deeply(rows($r[1]), [qq({"new_meterid":"$made","new_name":"o"})], '… by id, without the key');
@r = sent("ALTER FOREIGN TABLE dv.new_meter OPTIONS (SET upsert_key 'new_accountid,new_number');
	INSERT INTO dv.new_meter (new_accountid, new_number, new_name) VALUES ('${id}a', 4, 'm')");
is_deeply(
	rows($r[0]),
	[qq({"\@odata.id":"new_meters(_new_accountid_value=${id}a,new_number=4)","new_name":"m"})],
	'… and so is one with a lookup');

# ---- elastic and intersect tables

@r = sent("SET dataverse_fdw.insert_mode = 'upsert';
	INSERT INTO dv.new_reading (new_readingid, new_name, partitionid) VALUES ('${id}e', 'r', 'dev 1'), ('${id}e', 's', 'dev 2'), ('${id}e', 't', NULL)");
is_deeply(
	[ map { @{ rows($_) } } @r ],
	[
		qq({"new_readingid":"${id}e","partitionid":"dev 1","new_name":"r"}),
		qq({"new_readingid":"${id}e","partitionid":"dev 2","new_name":"s"}),
		qq({"new_readingid":"${id}e","new_name":"t"})
	],
	'an elastic row is upserted by id and partition as members');
$crm->sql('DELETE FROM dv.new_reading');

# Runs a statement while dvsim offers no bulk messages; returns the part of the row.
sub single
{
	my ($message, $sql) = @_;

	$crm->fault(path => "${message}Multiple", action => 'status', status => 404, code => '0x80060888',
		message => "Resource not found for the segment 'Microsoft.Dynamics.CRM.${message}Multiple'.", times => 0);
	my ($batch) = grep { target($_) eq '$batch' } sent($sql);
	$crm->no_faults;
	my ($part) = ($batch // {})->{body} =~ m{\r\n((?:PATCH|DELETE) .*?)\r\n--}s;
	return ($part // '') =~ s{ HTTP/1\.1\r\n(?:[^\r]+\r\n)*\r\n}{ | }sr;
}

for my $case ([ 'dev 1', 'dev%201' ], [ "it's", "it''s" ], [ 'dev#2', undef ], [ 'x' x 250, undef ])
{
	my ($partition, $encoded) = @$case;
	my $sql = $partition =~ s/'/''/gr;
	my $member = qq("partitionid":"$partition");
	my $key = '/api/data/v9.2/new_readings(' . (defined $encoded ? "new_readingid=${id}f,partitionid='$encoded')" : "${id}f)");
	my $name = substr $partition, 0, 10;

	is(single('Upsert', "SET dataverse_fdw.insert_mode = 'upsert';
			INSERT INTO dv.new_reading (new_readingid, new_name, partitionid) VALUES ('${id}f', 'u', '$sql')"),
		qq(PATCH /api/data/v9.2/new_readings(${id}f) | {$member,"new_name":"u"}),
		"$name: a single upsert has the partition as a member as well");
	is($crm->sql("SELECT new_name FROM dv.new_reading WHERE partitionid = '$sql'"), 'u', '… which takes effect');
	is(single('Update', "UPDATE dv.new_reading SET new_name = 'v' WHERE partitionid = '$sql'"),
		"PATCH $key | {" . (defined $encoded ? '' : "$member,") . '"new_name":"v"}',
		'… a single update either in its address or as a member');
	is($crm->sql("SELECT new_name FROM dv.new_reading WHERE partitionid = '$sql'"), 'v', '… which takes effect');
	my $option = $partition =~ s/([^\w-])/sprintf '%%%02X', ord $1/ger;
	is(single('Delete', "DELETE FROM dv.new_reading WHERE partitionid = '$sql'"),
		"DELETE $key" . (defined $encoded ? '' : "?partitionId=$option") . ' | ',
		'… a single delete in its address, or as an option');
	is($crm->sql('SELECT count(*) FROM dv.new_reading'), '0', '… which takes effect');
}

@r = sent("INSERT INTO dv.new_reading (new_readingid, new_name, partitionid) VALUES ('${id}a', 'r', 'dev 1')");
is_deeply(rows($r[0]), [qq({"new_readingid":"${id}a","partitionid":"dev 1","new_name":"r"})], 'an elastic row is created in its partition');
@r = sent("UPDATE dv.new_reading SET new_name = 's'; DELETE FROM dv.new_reading");
is_deeply(
	[ grep { /^POST/ } @{ lines(@r) } ],
	[ map { "POST new_readings/Microsoft.Dynamics.CRM.${_}Multiple" } 'Update', 'Delete' ],
	'… changed and deleted by bulk messages');
is_deeply(
	[ map { @{ rows($_) } } grep { $_->{method} eq 'POST' } @r ],
	[ qq({"new_readingid":"${id}a","partitionid":"dev 1","new_name":"s"}), qq({"new_readingid":"${id}a","partitionid":"dev 1"}) ],
	'… that name the partition');
@r = sent("INSERT INTO dv.contact (contactid, lastname) VALUES ('${id}c', 'c');
	INSERT INTO dv.new_account_contact (accountid, contactid) VALUES ('${id}a', '${id}c');
	DELETE FROM dv.new_account_contact");
like($r[1]{body}, qr{\r\nPOST /api/data/v9\.2/accounts\(${id}a\)/new_Account_Contact/\$ref HTTP/1\.1\r\n}, 'a pair is associated');
like($r[1]{body}, qr{\r\n\{"\@odata\.id":"http://[^"]*/contacts\(${id}c\)"\}\r\n}, '… with the other row');
like($r[3]{body}, qr{\r\nDELETE /api/data/v9\.2/accounts\(${id}a\)/new_Account_Contact\(${id}c\)/\$ref HTTP/1\.1\r\n}, '… and disassociated');

# ---- a refused row

@r = sent("DO \$\$ BEGIN
		INSERT INTO dv.account (name, industrycode) SELECT 'refused ' || i, CASE i WHEN 15 THEN 999 END
			FROM generate_series(1, 60) i;
	EXCEPTION WHEN check_violation THEN NULL; END \$\$");
is_deeply(
	lines(@r),
	[ ('POST accounts/Microsoft.Dynamics.CRM.CreateMultiple') x 2, 'POST $batch' ],
	'when one of several rows of a batch was refused, nothing is sent until it is identified, and then nothing at all');
like($r[2]{body}, qr/multipart\/mixed; boundary="?changeset/, '… by one change set');
is($crm->sql("SELECT count(*) FROM dv.account WHERE name LIKE 'refused %'"), 10, '… which writes nothing');

# for a batch of an elastic table, the answer has the outcome of each row, but not the reason

@r = sent("SET dataverse_fdw.on_error = 'continue';
	INSERT INTO dv.new_reading (new_name, new_quality) SELECT 'r' || i, CASE WHEN i % 4 = 0 THEN 4700 + i END FROM generate_series(1, 10) i");
is_deeply(
	lines(@r),
	[ 'POST new_readings/Microsoft.Dynamics.CRM.CreateMultiple', 'POST $batch' ],
	'rows of an elastic table that were refused are sent once more');
is(scalar(() = $r[1]{body} =~ /\r\nPOST /g), 2, '… and no others');
is( $crm->sql("SELECT string_agg(substring(message FROM 'The value .* is outside'), ', ' ORDER BY row_number)
		FROM dataverse.rejects WHERE foreign_table = 'dv.new_reading'"),
	join(', ', map { "The value $_ of 'new_quality' on record of type 'new_reading' is outside" } 4704, 4708),
	'… to get the reason');
is($crm->sql('SELECT count(*) FROM dv.new_reading'), 8, '… the others are written once');

# ---- headers

my $options = "SET dataverse_fdw.bypass_custom_logic = 'all'; SET dataverse_fdw.bypass_flows = on;
	SET dataverse_fdw.suppress_duplicate_detection = off; SET dataverse_fdw.tag = 'load 1&2';";
my %header = (
	'MSCRM.BypassBusinessLogicExecution' => 'CustomSync,CustomAsync',
	'MSCRM.SuppressCallbackRegistrationExpanderJob' => 'true',
	'MSCRM.SuppressDuplicateDetection' => 'false');

@r = sent("$options INSERT INTO dv.account (name) VALUES ('headers')");
is($r[0]{headers}{$_}, $header{$_}, "$_ goes with a bulk message") for sort keys %header;
like($r[0]{target}, qr/CreateMultiple\?tag=load%201%262$/, 'and so does the tag');
@r = sent("$options DELETE FROM dv.account WHERE accountid IN ('${id}1', '${id}b')");
my ($part) = $r[0]{body} =~ m{(DELETE .*?\r\n\r\n)}s;
like($part, qr/\r\n\Q$_: $header{$_}\E\r\n/, "$_ goes with the parts of a \$batch") for sort keys %header;
like($part, qr/^DELETE \S+\?tag=load%201%262 /, 'and so does the tag');
@r = sent("SET dataverse_fdw.bypass_custom_logic = 'async'; INSERT INTO dv.account (name) VALUES ('x')");
is($r[0]{headers}{'MSCRM.BypassBusinessLogicExecution'}, 'CustomAsync', 'one kind of logic alone');

$crm->sql("ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD caller_id '$caller')");
requests();
$crm->node->psql('postgres', "INSERT INTO dv.account (name) VALUES ('impersonated')");
$crm->node->psql('postgres', "DELETE FROM dv.account WHERE accountid = '${id}a'");
@r = requests();
is($_->{headers}{CallerObjectId}, $caller, 'who is impersonated goes with ' . target($_)) for @r;
($part) = map { $_->{body} =~ m{(DELETE .*?\r\n\r\n)}s } grep { target($_) eq '$batch' } @r;
like($part // '', qr/\r\nCallerObjectId: $caller\r\n/, '… and with each part');
$crm->sql("ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (DROP caller_id)");

# ---- requests that are not sent

@r = sent("SET dataverse_fdw.dry_run = on; INSERT INTO dv.account (name) SELECT 'dry' FROM generate_series(1, 25)");
is(scalar @r, 0, 'a dry run sends nothing');
@r = sent("EXPLAIN INSERT INTO dv.account (name) VALUES ('x')");
is(scalar @r, 0, 'nor does EXPLAIN');
@r = sent("INSERT INTO dv.account (name) SELECT 'none' WHERE false");
is(scalar @r, 0, 'nor an INSERT of no rows');

# ---- a summary, and its number of concurrent requests

my (undef, undef, $said) = $crm->node->psql('postgres',
	"SET dataverse_fdw.summary = on; INSERT INTO dv.account (name) SELECT 'summed up' FROM generate_series(1, 25)");
like($said,
	qr{NOTICE:  insert into foreign table "account": 25 rows, 3 batches, 3 requests, 0 repeated, 0 throttled, [\d.]+ s, \d+ rows/s$}m,
	'a summary reports the cost');

# Sends another 60 rows concurrently, in slow requests.
sub peak
{
	my ($settings) = @_;
	my $dvsim = $crm->dvsim;

	$dvsim->control('POST', '/_dvsim/reset');
	$dvsim->control('POST', '/_dvsim/faults', [{ path => 'CreateMultiple', action => 'delay', delay_ms => 100, times => 0 }]);
	$crm->sql("$settings INSERT INTO dv.account (name) SELECT 'at once' FROM generate_series(1, 60)");
	my $stats = $dvsim->control('GET', '/_dvsim/stats')->json;
	is($stats->{tables}{account}, 60, 'all rows are written');
	return $stats->{users}{app1}{peak_in_flight};
}

$crm->sql('ALTER SERVER crm OPTIONS (DROP max_parallel)');
cmp_ok(peak(''), '>', 2, 'requests are concurrent');
is(peak('SET dataverse_fdw.max_parallel = 2;'), 2, '… as many as the session allows');

$crm->stop;
done_testing();
