# run_settings.pl
#		How dataverse.push(), sync(), and retry_rejects() write concerns the rows that
#		they write: triggers on the foreign table, which write another foreign table
#		or this one, write as the session says.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;

my $crm = Crm->start('settings');

$crm->sql(q{CREATE SCHEMA dv;
	CREATE FOREIGN TABLE dv.contact (contactid uuid, lastname text, versionnumber bigint) SERVER crm OPTIONS ("table" 'contact', entity_set 'contacts');
	CREATE FOREIGN TABLE dv.log (accountid uuid, name text) SERVER crm OPTIONS ("table" 'account', entity_set 'accounts');
	CREATE FUNCTION refused_there() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO dv.log (name) VALUES (repeat('x', 200)); RETURN NEW; END $$;
	CREATE FUNCTION refused_here() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF pg_trigger_depth() = 1 THEN INSERT INTO dv.contact (lastname) VALUES (repeat('x', 200)); END IF; RETURN NEW; END $$;
	CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
	CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO dv.log (accountid, name) VALUES ('40000000-0000-0000-0000-000000000001', 'again'); RETURN NEW; END $$});

# What a run does, and what has to exist before it.
my %runs = (
	push => {
		before => '',
		call => q{CALL dataverse.push($$SELECT 'new' AS lastname$$, 'dv.contact', on_error => '%s')} },
	'push by key' => {
		before => q{INSERT INTO dv.contact (contactid, lastname) VALUES ('50000000-0000-0000-0000-000000000001', 'old')},
		call => q{CALL dataverse.push($$SELECT '50000000-0000-0000-0000-000000000001'::uuid AS contactid, 'new' AS lastname$$, 'dv.contact', operation => 'update', on_error => '%s')} },
	sync => {
		before => q{INSERT INTO dv.contact (lastname) VALUES ('old'); CALL dataverse.sync('dv.contact', 'public.contact'); UPDATE contact SET lastname = 'new'},
		call => q{CALL dataverse.sync('dv.contact', 'public.contact')} },
	'sync of a new row' => {
		before => q{CALL dataverse.sync('dv.contact', 'public.contact'); INSERT INTO contact (contactid, lastname) VALUES (gen_random_uuid(), 'new')},
		call => q{CALL dataverse.sync('dv.contact', 'public.contact', strict => true)} },
	retry_rejects => {
		before => q{SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.contact (lastname) VALUES (repeat('y', 200)); RESET dataverse_fdw.on_error;
			UPDATE dataverse.rejects SET row = row || '{"lastname": "new"}'},
		call => q{SELECT * FROM dataverse.retry_rejects()} });

sub outcome
{
	my ($run, $settings, $on_error) = @_;
	my ($out, $err) = ('', '');

	$crm->sql("SET client_min_messages = error; $run->{before}") if $run->{before};
	$crm->sql("CREATE TRIGGER also AFTER INSERT OR UPDATE ON dv.contact FOR EACH ROW EXECUTE FUNCTION $settings->{trigger}()");
	my $status = $crm->node->psql('postgres', "$settings->{set}; " . sprintf($run->{call}, $on_error), stdout => \$out, stderr => \$err, on_error_stop => 1);
	$crm->sql(q{DROP TRIGGER also ON dv.contact});
	my $filed = $crm->sql(q{SELECT string_agg(operation || ' ' || left(coalesce(row ->> 'name', row ->> 'lastname'), 1), ', ') FROM dataverse.rejects});
	my $written = $crm->sql(q{SELECT count(*) FROM dv.contact WHERE lastname = 'new'});
	$crm->sql(q{SET client_min_messages = error; DELETE FROM dataverse.rejects; DO $$ BEGIN IF to_regclass('public.contact') IS NOT NULL THEN
			CALL dataverse.untrack('public.contact'); PERFORM dataverse.forget_copy('public.contact'); DROP TABLE contact; END IF; END $$});
	$crm->sql(q{DELETE FROM dv.contact});
	$crm->sql(q{SELECT dataverse.forget_push(id) FROM dataverse.pushes}) if $run->{call} =~ /push/;
	return ($status, $err, $filed, $written);
}

for my $name (sort keys %runs)
{
	my $run = $runs{$name};

	for my $trigger ('refused_there', 'refused_here')
	{
		my ($status, $err, $filed, $written) = outcome($run, { set => 'RESET ALL', trigger => $trigger }, 'continue');
		isnt($status, 0, "$name: a row of a trigger ($trigger) that is refused ends the run");
		like($err, qr/value too long|exceeds|length/i, '… with its error');
		unlike($filed, qr/insert x/, '… and is not filed');

		($status, $err, $filed, $written) = outcome($run, { set => q{SET dataverse_fdw.on_error = 'continue'}, trigger => $trigger }, 'abort');
		is($status, 0, "$name: … but not if the session says so") or diag $err;
		is($filed, 'insert x', '… and it is filed');
		is($written, '1', '… and the row of the run is written');
	}
}

# ---- how rows are inserted

$crm->sql(q{INSERT INTO dv.log (accountid, name) VALUES ('40000000-0000-0000-0000-000000000001', 'before')});
for my $name (sort keys %runs)
{
	my ($status, $err) = outcome($runs{$name}, { set => q{SET dataverse_fdw.insert_mode = 'upsert'}, trigger => 'again' }, 'abort');

	is($status, 0, "$name: a trigger inserts as the session says") or diag $err;
	is($crm->sql(q{WITH u AS (UPDATE dv.log SET name = 'before' WHERE accountid = '40000000-0000-0000-0000-000000000001' AND name = 'again' RETURNING 1) SELECT count(*) FROM u}),
		'1', '… which overwrites the row');
}

# ---- functions that the statement calls write as the session says, too

$crm->sql(q{CREATE FUNCTION called() RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO dv.contact (lastname, firstname) VALUES (repeat('x', 200), 'inner'); RETURN 'outer'; END $$;
	ALTER FOREIGN TABLE dv.contact ADD firstname text DEFAULT called()});
for my $case ([ 'RESET ALL', 1 ], [ q{SET dataverse_fdw.on_error = 'continue'}, 0 ])
{
	my ($set, $fails) = @$case;
	my ($status, $err, $filed, $written) = outcome($runs{push}, { set => $set, trigger => 'nothing' }, $fails ? 'continue' : 'abort');

	is($status == 0 ? 0 : 1, $fails, "$set: a row of a function that is refused ends the run or not") or diag $err;
	is($filed, $fails ? '' : 'insert x', '… and is filed if the session says so');
	is($written, $fails ? '0' : '1', '… and the row of the run is written then');
}
$crm->sql('ALTER FOREIGN TABLE dv.contact DROP firstname');

# ---- what is set is left

is($crm->sql(q{SET client_min_messages = error; SET dataverse_fdw.on_error = 'continue'; SET dataverse_fdw.insert_mode = 'upsert';
	CALL dataverse.push($$SELECT 'new' AS lastname$$, 'dv.contact');
	SELECT current_setting('dataverse_fdw.on_error') || ' ' || current_setting('dataverse_fdw.insert_mode') || ' "' || current_setting('dataverse_fdw.run_settings') || '"'}),
	'continue upsert ""', 'a run leaves the settings of the session as they are, and none of its own');

my $contact = $crm->sql(q{SELECT 'dv.contact'::regclass::oid});
for my $wrong (
	[ "$contact 0 {insert_mode=anything}", qr/invalid value for parameter "dataverse_fdw.run_settings": "anything"/ ],
	[ "$contact 0 {", qr/malformed array literal/ ],
	[ "$contact 0 {ids_made=perhaps}", qr/ids_made requires a Boolean value/ ])
{
	my ($value, $says) = @$wrong;
	my (undef, $err) = $crm->as('postgres', "SET dataverse_fdw.run_settings = '$value'; INSERT INTO dv.contact (lastname) VALUES ('new')");

	like($err, $says, "settings that no run makes are refused: $value");
}

# ---- plans that are kept

# The function of another role runs in a session that has planned its statement under settings of a
# run, which are not in force when it is executed.
$crm->sql(q{CREATE ROLE alice LOGIN; CREATE ROLE owner_of_code; GRANT USAGE ON SCHEMA dv TO alice, owner_of_code; GRANT SELECT, UPDATE ON dv.contact TO owner_of_code;
	GRANT CREATE ON SCHEMA public TO owner_of_code; GRANT USAGE ON FOREIGN SERVER crm TO owner_of_code;
	CREATE USER MAPPING FOR owner_of_code SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
	INSERT INTO dv.contact (lastname) VALUES ('kept');
	SET ROLE owner_of_code;
	CREATE FUNCTION rename() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN UPDATE dv.contact SET lastname = 'kept' WHERE lastname = 'kept'; END $$;
	CREATE FUNCTION rename_too() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM rename(); RETURN NEW; END $$;
	CREATE TABLE renamed (i int);
	CREATE TRIGGER also AFTER INSERT ON renamed FOR EACH ROW EXECUTE FUNCTION rename_too();
	GRANT INSERT ON renamed TO alice});
for my $on_table ('off', 'on')
{
	my $opposite = $on_table eq 'on' ? 'off' : 'on';
	my $batch = qr/\$batch/;

	$crm->sql("ALTER FOREIGN TABLE dv.contact OPTIONS (" . ($on_table eq 'off' ? 'ADD' : 'SET') . " match_version '$on_table')");
	for my $case (
		[ 'that are no longer in force', "E'$contact 0 {match\\\\_version=$opposite}'", q{SET dataverse_fdw.run_settings = ''; SELECT rename()} ],
		[ 'that apply to another depth of triggers', "'$contact 0 {match_version=$opposite}'", 'INSERT INTO renamed VALUES (1)' ])
	{
		my ($what, $value, $later) = @$case;

		$crm->requests;
		my ($status, $out, $err) = $crm->node->psql('postgres', "\\set ON_ERROR_STOP 0\nSET dataverse_fdw.run_settings = $value;\n"
			. "SELECT rename();\n" x 4 . "$later;\n$later;", on_error_stop => 0, extra_params => [ '-U', 'alice' ]);
		my @writes = grep { $_->{method} ne 'GET' } $crm->requests;

		is(scalar(() = $err =~ /under a setting of another role/g), 4, "match_version $on_table: a function heeds no settings of a run of another role");
		like($err, qr/"match_version" of foreign table "contact" has changed since the statement was planned/, "… nor a plan made under settings $what");
		is(scalar(@writes), 1, '… and is planned again');
		is(scalar(grep { $_->{method} eq 'POST' && ($_->{path} // $_->{target} // '') =~ $batch } @writes), $on_table eq 'on' ? 1 : 0, '… as the owner of the table says');
	}
}

$crm->stop;
done_testing();
