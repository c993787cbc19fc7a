# roles.pl
#		What roles can do to each other: refused rows and the code that runs when
#		they are retried, schemas created by others, dumps, and what each role sees
#		in the views.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use PoolTest;
use Session;

my $crm = Crm->start('roles', users => 4);
my $node = $crm->node;
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
my $nobody = '20000000-0000-0000-0000-000000000001';
my $account = "accountid uuid, name text, primarycontactid uuid OPTIONS (type 'lookup', target 'contact', target_set 'contacts')";

sub as { my ($role, $sql) = @_; return $crm->sql("SET ROLE $role; $sql"); }

# Runs a statement; returns its error or warning.
sub complaint
{
	my ($sql, $dbname) = @_;
	my ($status, $out, $err) = $node->psql($dbname // 'postgres', $sql, on_error_stop => 1);
	return $err;
}

# A row of a table that is refused as long as the contact does not exist.
sub file
{
	my ($role, $table, $name) = @_;
	return as($role, "SET dataverse_fdw.on_error = 'continue'; SET client_min_messages = error;
		INSERT INTO $table (accountid, name, primarycontactid) VALUES (gen_random_uuid(), '$name', '$nobody')");
}

sub retry { my ($role) = @_; return as($role, 'SELECT retried, succeeded FROM dataverse.retry_rejects()'); }
sub names { return $crm->sql("SELECT string_agg(name, ' ' ORDER BY name) FROM dv.account"); }

$crm->sql(
	"CREATE ROLE mallory LOGIN; CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE boss LOGIN IN ROLE alice;
	 CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE reader LOGIN IN ROLE pg_read_all_data;
	 CREATE ROLE forger LOGIN IN ROLE pg_write_all_data; CREATE ROLE stranger LOGIN; CREATE ROLE super LOGIN SUPERUSER; CREATE ROLE dba LOGIN;
	 GRANT USAGE ON FOREIGN SERVER crm TO mallory, alice, bob, dba; GRANT CREATE ON DATABASE postgres TO mallory;
	 CREATE USER MAPPING FOR super SERVER crm OPTIONS (client_id 'app1', client_secret 'secret1');
	 CREATE USER MAPPING FOR alice SERVER crm OPTIONS (client_id 'app2', client_secret 'secret2');
	 CREATE USER MAPPING FOR bob SERVER crm OPTIONS (client_id 'app3', client_secret 'secret3');
	 CREATE USER MAPPING FOR PUBLIC SERVER crm OPTIONS (client_id 'app4', client_secret 'secret4');
	 CREATE SCHEMA dv; CREATE SCHEMA wild AUTHORIZATION mallory; GRANT USAGE ON SCHEMA dv, wild TO PUBLIC;
	 CREATE FOREIGN TABLE dv.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts');
	 CREATE FOREIGN TABLE dv.contact (contactid uuid, lastname text) SERVER crm OPTIONS (\"table\" 'contact', entity_set 'contacts');
	 GRANT ALL ON dv.account TO alice, bob, boss; GRANT SELECT ON dv.contact TO bob");
as('mallory', "CREATE FOREIGN TABLE wild.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts');
	GRANT ALL ON wild.account TO PUBLIC;
	CREATE FUNCTION wild.try() RETURNS void LANGUAGE plpgsql AS
		'BEGIN ALTER ROLE mallory SUPERUSER; EXCEPTION WHEN insufficient_privilege THEN NULL; END';
	CREATE FUNCTION wild.rise(text DEFAULT '') RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM wild.try(); RETURN \$1; END';
	CREATE FUNCTION wild.rise_by_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM wild.try(); RETURN NEW; END'");

sub is_low { my ($what) = @_; return is($crm->sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'f', $what); }

# ---- the owner of rejected rows

file($_, 'dv.account', $_) for qw(alice bob super);
is(as('boss', 'SELECT string_agg(role, $$ $$ ORDER BY role) FROM dataverse.rejects'), 'alice', 'a member of a role sees its rows');
is(as('mallory', 'SELECT count(*) FROM dataverse.rejects'), 0, 'others do not');
is(as($_, 'SELECT count(*) FROM dataverse.rejects'), 3, "$_ sees all rows") for qw(super reader);
is(as('reader', 'WITH d AS (DELETE FROM dataverse.rejects RETURNING id) SELECT count(*) FROM d'), 0, 'and reader cannot delete any');
$crm->sql("INSERT INTO dv.contact VALUES ('$nobody', 'Somebody')");
is(retry('boss'), '0|0', 'a member of a role does not retry the rows of that role');
is(retry('super'), '1|1', 'nor does a superuser retry rows of other roles');
is(retry('alice'), '1|1', 'the role that filed them does');
is(names(), 'alice super', 'as many rows are written');
$crm->sql("CREATE FUNCTION dv.as_postgres() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT retried FROM dataverse.retry_rejects()'");
is(as('bob', 'SELECT dv.as_postgres()'), 0, 'a function of another role retries the rows of that role');
is(as('bob', 'WITH d AS (DELETE FROM dataverse.rejects RETURNING role) SELECT string_agg(role, $$ $$) FROM d'), 'bob', 'the role that filed a row can delete it');

$crm->sql("DELETE FROM dv.contact; DELETE FROM dv.account");
# Roles and tables are identified by OID: a later object of the same name is a different one.
file('alice', 'dv.account', 'of before');
$crm->sql('ALTER ROLE alice RENAME TO alice_before; CREATE ROLE alice; ALTER FOREIGN TABLE dv.account RENAME TO account_before;
	CREATE ROLE heir NOINHERIT IN ROLE alice_before');
is(as('alice', 'SELECT count(*) FROM dataverse.rejects'), 0, 'a role does not inherit rows by its name');
is(as('alice_before', 'SELECT role, attempts FROM dataverse.rejects'), 'alice_before|1', 'a renamed role keeps its rows');
is(as('heir', 'SELECT count(*) FROM dataverse.rejects'), 0, 'a member that does not inherit the rights of a role does not see its rows');
is(as('heir', 'WITH d AS (DELETE FROM dataverse.rejects RETURNING id) SELECT count(*) FROM d'), 0, '… and cannot delete any');
is(as('heir', 'SET ROLE alice_before; SELECT count(*) FROM dataverse.rejects'), 1, '… unless it sets that role');
like(complaint("SET ROLE alice_before; UPDATE dataverse.rejects SET row = row || '{\"nothing\": 1}'"), qr/column "nothing" of foreign table dv.account_before/,
	'a row is corrected against its renamed table');
as('alice_before', "UPDATE dataverse.rejects SET row = row || '{\"name\": \"corrected\"}'");
is(as('alice_before', 'SELECT role, foreign_table FROM dataverse.rejects'), 'alice_before|dv.account_before', '… and still belongs to role and table');
is(retry('alice_before'), '1|0', '… which retry it');
is(as('alice_before', "SELECT role, foreign_table, row ->> 'name', attempts FROM dataverse.rejects"), 'alice_before|dv.account_before|corrected|2', '… and refuse it again');
is(as('alice', 'SELECT count(*) FROM dataverse.rejects'), 0, 'the new role of that name still has no rows');
$crm->sql('DROP ROLE heir; CREATE ROLE short; GRANT USAGE ON SCHEMA dv TO short; GRANT ALL ON dv.account_before TO short;
	GRANT USAGE ON FOREIGN SERVER crm TO short');
file('short', 'dv.account_before', 'of short');
$crm->sql('DROP OWNED BY short; DROP ROLE short; CREATE ROLE short');
is(as('short', 'SELECT count(*) FROM dataverse.rejects'), 0, 'rows of a dropped role do not belong to a new role of that name');
is($crm->sql("UPDATE dataverse_private.rejected_rows SET attempts = 7 WHERE role = 'short' RETURNING attempts"), 7, '… but to superusers');
is(as('short', 'SELECT count(*) FROM dataverse.rejects'), 0, '… and still do after an update');
is($crm->sql('WITH d AS (DELETE FROM dataverse.rejects WHERE attempts = 7 RETURNING id) SELECT count(*) FROM d'), 1, '… which delete them');
$crm->sql('DROP ROLE short; DROP ROLE alice; ALTER ROLE alice_before RENAME TO alice; ALTER FOREIGN TABLE dv.account_before RENAME TO account');
is(as('alice', 'WITH d AS (DELETE FROM dataverse.rejects RETURNING role) SELECT string_agg(role, $$ $$) FROM d'), 'alice', 'and back');

for my $target (qw(dataverse.rejects dataverse_private.own_rejects dataverse_private.rejected_rows))
{
	like(complaint("SET ROLE forger; INSERT INTO $target (" . ($target =~ /own_rejects/ ? 'pid, operation, attempts) VALUES (1, $$insert$$, 1)'
			: 'role, server, foreign_table, operation, sqlstate, message, attempts) VALUES ($$super$$, $$crm$$, $$dv.account$$, $$insert$$, $$$$, $$$$, 1)')),
		qr/filed by the extension only|cannot insert into view/, "a member of pg_write_all_data cannot insert into $target");
}
$crm->sql("INSERT INTO dataverse_private.rejected_rows (role, server, foreign_table, operation, sqlstate, message, attempts)
	VALUES ('forger', 'crm', 'dv.account', 'insert', '22001', 'forged', 1)");
like(complaint("SET ROLE forger; UPDATE dataverse_private.rejected_rows SET role = 'super'"), qr/changed by the extension only/, 'nor change the owner of its rows');
$crm->sql('DELETE FROM dataverse_private.rejected_rows');
# The owner of a row does not depend on operators and types of the role.
$crm->sql('CREATE SCHEMA fools AUTHORIZATION alice');
as('alice', q{CREATE FUNCTION fools.equal(text, text) RETURNS boolean LANGUAGE sql AS $$SELECT $1 OPERATOR(pg_catalog.=) 'super'$$;
	CREATE OPERATOR fools.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fools.equal)});
for my $view (qw(dataverse_private.correctable_rejects dataverse.rejects))
{
	file('alice', 'dv.account', 'mine');
	as('alice', qq{SET search_path = fools, pg_catalog; UPDATE $view SET "row" = "row"});
	is($crm->sql('SELECT string_agg(role_oid::regrole::text, $$ $$) FROM dataverse_private.rejected_rows'), 'alice', "a corrected row still belongs to its role: $view");
	$crm->sql('DELETE FROM dataverse_private.rejected_rows');
}
$crm->sql('DROP SCHEMA fools CASCADE');
like(complaint('SET ROLE alice; UPDATE dataverse.rejects SET attempts = 0'), qr/permission denied for view rejects/, 'no other role updates rows');
like(complaint('SET ROLE alice; SELECT FROM dataverse_private.rejected_rows'), qr/permission denied/, 'nor reads those of all roles');

$crm->sql("INSERT INTO dataverse_private.rejected_rows (role, server, foreign_table, operation, sqlstate, message, attempts)
	VALUES ('bob', 'crm', 'dv.account', 'insert', '22001', 'of bob', 1), ('alice', 'crm', 'dv.account', 'insert', '22001', 'of alice', 1)");
my $leak = "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS 'BEGIN RAISE WARNING ''leak %'', \$1; RETURN true; END'";
for my $sql ('SELECT FROM dataverse.rejects WHERE pg_temp.leak(message)', 'DELETE FROM dataverse.rejects WHERE pg_temp.leak(message)')
{
	is(join(' ', complaint("SET ROLE alice; $leak; $sql") =~ /leak (.*)/g), 'of alice', "no function exposes more: $sql");
}
as('alice', 'UPDATE dataverse_private.own_rejects SET attempts = attempts');
is($crm->sql('SELECT string_agg(role, $$ $$) FROM dataverse.rejects'), 'bob', 'rows of other roles survive such updates');

# A role may have the privilege to delete, and hence to lock, but not tables that others need.
my $locker = Session->new($node, user => 'stranger');
$locker->query('BEGIN');
for my $view ($crm->sql("SELECT string_agg(oid::regclass::text, ' ') FROM pg_class WHERE relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND relkind IN ('r', 'v')") =~ /\S+/g)
{
	$locker->query('SAVEPOINT s');
	my $got = $locker->try("LOCK TABLE $view IN ROW SHARE MODE");
	is($got->{sqlstate} // 'locked', $view eq 'dataverse.rejects' ? 'locked' : '42501', "whether a role without rights can lock $view");
	$locker->query('ROLLBACK TO s');
}
$locker->query('LOCK TABLE dataverse.rejects IN ACCESS EXCLUSIVE MODE');
$crm->sql('ALTER ROLE bob SET lock_timeout = 100');
my $unlocked = Session->new($node, user => 'bob');
like($unlocked->try('SELECT FROM dataverse.rejects')->{message}, qr/lock timeout/, 'a lock on the view prevents other roles from reading it');
$unlocked->query("SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.account (name) VALUES (repeat('x', 161))");
is($unlocked->query('SELECT retried, failed FROM dataverse.retry_rejects()'), '1|1', 'but neither from filing rows nor from retrying them');
is(complaint("SET lock_timeout = '100ms'; BEGIN; LOCK TABLE dataverse_private.rejected_rows IN ACCESS SHARE MODE"), '', 'nor pg_dump from reading them');
$_->close for $locker, $unlocked;
$crm->sql('ALTER ROLE bob RESET lock_timeout');
$crm->sql('DELETE FROM dataverse.rejects');

# ---- the rights of code in foreign tables

my @code = (
	[ 'trigger "rise"', 'CREATE TRIGGER rise BEFORE INSERT ON wild.account FOR EACH ROW EXECUTE FUNCTION wild.rise_by_trigger()',
		'DROP TRIGGER rise ON wild.account' ],
	[ 'trigger "rise"', 'CREATE TRIGGER rise AFTER INSERT ON wild.account EXECUTE FUNCTION wild.rise_by_trigger();
		ALTER FOREIGN TABLE wild.account ENABLE ALWAYS TRIGGER rise', 'DROP TRIGGER rise ON wild.account' ],
	[ 'a default', 'ALTER FOREIGN TABLE wild.account ADD telephone1 text DEFAULT wild.rise()', 'ALTER FOREIGN TABLE wild.account DROP telephone1' ],
	[ 'a default or generated', 'ALTER FOREIGN TABLE wild.account ADD fax text GENERATED ALWAYS AS (wild.rise(name)) STORED',
		'ALTER FOREIGN TABLE wild.account DROP fax' ],
	[ 'a check constraint', 'ALTER FOREIGN TABLE wild.account ADD CONSTRAINT rise CHECK (name <> wild.rise()) NOT VALID',
		'ALTER FOREIGN TABLE wild.account DROP CONSTRAINT rise' ],
	[ undef, 'CREATE STATISTICS wild.rise ON (name || wild.rise()), accountid FROM wild.account', 'DROP STATISTICS wild.rise' ],
	[ 'a domain as type of column', 'CREATE DOMAIN wild.checked AS text CHECK (wild.rise(VALUE) <> $$$$); ALTER FOREIGN TABLE wild.account ALTER name TYPE wild.checked',
		'ALTER FOREIGN TABLE wild.account ALTER name TYPE text; DROP DOMAIN wild.checked' ],
	[ undef, 'CREATE TABLE wild.parts (accountid uuid, name text, primarycontactid uuid) PARTITION BY LIST ((name || wild.rise()));
		ALTER TABLE wild.parts ATTACH PARTITION wild.account DEFAULT', 'ALTER TABLE wild.parts DETACH PARTITION wild.account; DROP TABLE wild.parts' ]);

file('super', 'wild.account', 'mine');
for (@code)
{
	my ($what, $set, $drop) = @$_;

	as('mallory', $set);
	my $said = complaint('SET ROLE super; SELECT * FROM dataverse.retry_rejects()');
	like($said, qr/^psql:\S+ WARNING:  rejected rows of foreign table wild\.account are not retried: .* role "mallory", which would gain the rights of role "super"\nDETAIL:  The table has $what/s,
		"a superuser's row does not run $what of the table's owner") if defined $what;
	is_low($what ? '… and no role gains rights' : "no role gains rights by: $set");
	is($crm->sql('SELECT count(*) FROM dataverse.rejects'), 1, '… and the row is kept');
	as('mallory', $drop);
}
is(retry('super'), '1|0', 'without code of its owner, the table is written');
my $retrying = Session->new($node, user => 'super');
$retrying->query('BEGIN');
$retrying->query('SELECT * FROM dataverse.retry_rejects()');
for my $change ('ALTER SCHEMA wild RENAME TO tame', 'ALTER FOREIGN TABLE wild.account RENAME TO tame', $code[0][1])
{
	like(complaint("SET ROLE mallory; SET lock_timeout = '100ms'; $change"), qr/lock timeout/, "meanwhile it cannot be replaced: $change");
}
$retrying->close;
as('mallory', 'CREATE FUNCTION wild.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE WARNING \'% runs\', current_user; RETURN NEW; END$$;
	CREATE TRIGGER note BEFORE INSERT ON wild.account FOR EACH ROW EXECUTE FUNCTION wild.note()');
file('alice', 'wild.account', 'of alice');
my $refused = qr/would gain the rights of role "alice"/;
like(complaint('SET ROLE alice; SELECT * FROM dataverse.retry_rejects()'), $refused, 'nor does it run for a role that is no superuser');
$crm->sql('GRANT alice TO mallory');
like(complaint('SET ROLE alice; SELECT * FROM dataverse.retry_rejects()'), qr/WARNING:  alice runs/, 'except if the owner could set that role anyway');
$crm->sql('REVOKE alice FROM mallory; ALTER FOREIGN TABLE wild.account OWNER TO super');
like(complaint('SET ROLE alice; SELECT * FROM dataverse.retry_rejects()'), $refused, 'whoever owns the table now');
$crm->sql('ALTER FUNCTION wild.note() OWNER TO super');
like(complaint('SET ROLE alice; SELECT * FROM dataverse.retry_rejects()'), qr/WARNING:  alice runs/, 'as a superuser can');
$crm->sql('DROP TRIGGER note ON wild.account; ALTER FOREIGN TABLE wild.account OWNER TO mallory; DROP FUNCTION wild.note()');

$crm->sql("INSERT INTO dv.contact VALUES ('$nobody', 'Somebody')");
as('mallory', "ALTER FOREIGN TABLE wild.account RENAME TO account_before;
	CREATE FOREIGN TABLE wild.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts');
	CREATE TABLE wild.child () INHERITS (wild.account_before);
	GRANT ALL ON wild.account TO PUBLIC; DROP FOREIGN TABLE wild.account_before CASCADE");
is(retry('super'), '0|0', 'a new table with the name of the old one gets none of its rows');
is(retry('alice'), '0|0', 'from any role');
is($crm->sql('SELECT count(*) FROM dataverse.rejects'), 2, 'they are kept');
$crm->sql('DELETE FROM dataverse.rejects; DELETE FROM dv.contact');

# ---- read-only transactions

my $of_all = $crm->sql('SELECT count(*) FROM dv.account');
for my $sql ('INSERT INTO account (name) VALUES ($$written$$)', 'UPDATE account SET name = $$written$$', 'DELETE FROM account')
{
	like(complaint("CREATE FOREIGN TABLE pg_temp.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts');
		INSERT INTO account (name) VALUES ('before'); BEGIN READ ONLY; $sql"),
		qr/cannot write to foreign table "account" in a read-only transaction/, "a temporary foreign table is not temporary data: $sql");
}
is($crm->sql('SELECT count(*) FROM dv.account WHERE name <> $$written$$'), $of_all + 3, 'nothing was written');

# ---- ids that a role claims were generated for new rows

my $there = '40000000-0000-0000-0000-000000000001';
$crm->sql("CREATE FOREIGN TABLE dv.state (accountid uuid, name text, statecode int OPTIONS (type 'state')) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts');
	GRANT INSERT ON dv.state TO alice, bob; GRANT UPDATE (statecode) ON dv.state TO bob;
	INSERT INTO dv.state (accountid, name) VALUES ('$there', 'there before')");
my $state_oid = $crm->sql(q{SELECT 'dv.state'::regclass::oid});
for ([ 'alice', qr/it is not known whether this statement created it/, '0' ], [ 'bob', qr/^$/, '1' ])
{
	my ($role, $said, $state) = @$_;

	$crm->fault(action => 'reset_before_commit', path => 'accounts', times => 1);
	like(complaint("SET ROLE $role; SET dataverse_fdw.run_settings = '$state_oid 0 {ids_made=on}'; INSERT INTO dv.state VALUES ('$there', 'mine', 1)"),
		$said, "$role claims a generated id for a row whose first attempt is lost");
	is($crm->sql("SELECT name, statecode FROM dv.state WHERE accountid = '$there'"), "there before|$state",
		'… which takes UPDATE to complete a row that has that id');
	$crm->no_faults;
}
$crm->sql("DROP FOREIGN TABLE dv.state; DELETE FROM dv.account WHERE accountid = '$there'");

# ---- rows of temporary foreign tables

my $temporary = Session->new($node);
$temporary->query("CREATE FOREIGN TABLE pg_temp.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts')");
$temporary->query("SET dataverse_fdw.on_error = 'continue'; SET client_min_messages = error; INSERT INTO account (name) VALUES (repeat('x', 161))");
is($crm->sql('SELECT * FROM dataverse.retry_rejects()'), '0|0|0', 'rows of a temporary foreign table are not retried by other sessions');
is($temporary->query('SELECT retried, failed FROM dataverse.retry_rejects()'), '1|1', '… but by its own');
$temporary->close;
$crm->sql('DELETE FROM dataverse.rejects');

# ---- how rows are filed

$crm->sql('CREATE FUNCTION public.rise() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
	CREATE CONSTRAINT TRIGGER later AFTER INSERT ON dataverse_private.rejected_rows DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.rise()');
my $insert = "SET dataverse_fdw.on_error = 'continue'; SET ROLE alice; INSERT INTO dv.account (name) VALUES (repeat('x', 161))";
like(complaint($insert), qr/cannot fire deferred trigger within security-restricted operation/, 'no code keeps the rights with which a row is filed');
$crm->sql('DROP TRIGGER later ON dataverse_private.rejected_rows; ALTER EXTENSION dataverse_fdw DROP TABLE dataverse_private.rejected_rows');
like(complaint($insert), qr/ERROR:  table "rejected_rows" of foreign-data wrapper "dataverse_fdw" does not exist/, 'another table of that name is not written');
$crm->sql('ALTER EXTENSION dataverse_fdw ADD TABLE dataverse_private.rejected_rows');

# ---- a schema created by another role

$crm->sql('CREATE DATABASE other; GRANT CREATE ON DATABASE other TO mallory; CREATE ROLE second_super SUPERUSER');
sub other { my ($sql) = @_; return $node->safe_psql('other', $sql); }
for my $schema (qw(dataverse dataverse_private))
{
	other("CREATE SCHEMA $schema");
	like(complaint('CREATE EXTENSION dataverse_fdw', 'other'), qr/ERROR:  schema "$schema" already exists/, "schema $schema of another role is refused");
	other("DROP SCHEMA $schema");
}
other('CREATE EXTENSION dataverse_fdw; DROP EXTENSION dataverse_fdw');
is(other("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^dataverse'"), 0, 'DROP EXTENSION drops all schemas');
other('SET ROLE second_super; CREATE EXTENSION dataverse_fdw');
my $given = q{FROM pg_class AS o, aclexplode(relacl) AS a WHERE relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND a.grantee = 'mallory'::regrole};
other('DROP EXTENSION dataverse_fdw');
other("ALTER DEFAULT PRIVILEGES GRANT $_ TO mallory") for 'ALL ON TABLES', 'ALL ON SEQUENCES', 'EXECUTE ON FUNCTIONS', 'ALL ON SCHEMAS';
other('CREATE EXTENSION dataverse_fdw');
is(other("SELECT count(*) $given"), 0, 'default privileges give other roles no more rights on tables');
is(other("SELECT has_schema_privilege('mallory', 'dataverse', 'CREATE') OR has_schema_privilege('mallory', 'dataverse_private', 'CREATE')"), 'f', '… nor on schemas');
is(other(q{SELECT string_agg(oid::regprocedure::text, ' ') FROM pg_proc WHERE has_function_privilege('mallory', oid, 'EXECUTE')
	AND pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND NOT has_function_privilege('stranger', oid, 'EXECUTE')}), '', '… nor on functions');
is(other("SET ROLE mallory; SELECT count(*) FROM dataverse.runs"), 0, '… and PUBLIC keeps its rights');

# ---- dumps by roles that are not superusers

$crm->sql('CREATE DATABASE owned OWNER dba; CREATE DATABASE copy OWNER dba');
like(complaint('SET ROLE dba; CREATE EXTENSION dataverse_fdw', 'owned'), qr/permission denied to create extension/, 'the owner of a database cannot install the extension');
my $server = "OPTIONS (url '" . $crm->dvsim->base . "', token_url '" . $crm->dvsim->base . "/t/oauth2/v2.0/token', on_error 'continue')";
my $mapping = "CREATE USER MAPPING FOR alice SERVER elsewhere OPTIONS (client_id 'app2', client_secret 'secret2')";
$node->safe_psql('owned', "CREATE EXTENSION dataverse_fdw; CREATE SERVER elsewhere FOREIGN DATA WRAPPER dataverse_fdw $server;
	CREATE ROLE gone LOGIN; GRANT USAGE ON FOREIGN SERVER elsewhere TO dba, alice, gone; $mapping;
	CREATE USER MAPPING FOR gone SERVER elsewhere OPTIONS (client_id 'app2', client_secret 'secret2');
	SET ROLE dba; CREATE SCHEMA \"D v\"; GRANT USAGE ON SCHEMA \"D v\" TO alice, gone;
	CREATE FOREIGN TABLE \"D v\".\"An account\" ($account) SERVER elsewhere OPTIONS (\"table\" 'account', entity_set 'accounts');
	GRANT ALL ON \"D v\".\"An account\" TO alice, gone");
my $add = "INSERT INTO \"D v\".\"An account\" VALUES (gen_random_uuid(), 'dumped', '$nobody')";
$node->psql('owned', "SET ROLE alice; $add; $add");
$node->psql('owned', "SET ROLE gone; $add");
$node->safe_psql('owned', 'DROP USER MAPPING FOR gone SERVER elsewhere; DROP OWNED BY gone; DROP ROLE gone');
my $all = 'SELECT * FROM dataverse.rejects ORDER BY id';
my $before = $node->safe_psql('owned', $all);

sub dump_as
{
	my ($role, @options) = @_;
	return ('pg_dump', '-d', $node->connstr('owned'), '-U', $role, '-f', $dump, @options);
}
$node->command_ok([ dump_as('reader') ], 'a member of pg_read_all_data writes a dump');
$node->command_fails([ dump_as('stranger') ], 'a role without read privileges cannot');
$node->command_ok([ dump_as('stranger', '--exclude-table-data=dataverse_private.*', '--exclude-schema=D v') ], 'but can exclude the rows');
$node->command_ok([ dump_as('dba') ], 'the owner of the database writes a dump');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copy'), '-f', $dump ], '… which can be restored');
is($node->safe_psql('copy', $all), $before, '… with all rows');
is($node->safe_psql('copy', "SET ROLE alice; SELECT count(*), min(foreign_table) FROM dataverse.rejects"), '2|"D v"."An account"', '… for the roles that filed them');
$node->safe_psql('copy', "DROP USER MAPPING IF EXISTS FOR alice SERVER elsewhere; $mapping");
$node->psql('copy', "SET ROLE alice; $add");
is($node->safe_psql('copy', 'SELECT array_agg(id ORDER BY id) FROM dataverse.rejects'), '{1,2,3,4}', '… to which rows can be added');
$crm->sql("INSERT INTO dv.contact VALUES ('$nobody', 'Somebody')");
is($node->safe_psql('copy', 'SET ROLE alice; SELECT retried, succeeded FROM dataverse.retry_rejects()'), '3|3', '… and retried');
is($node->safe_psql('copy', 'SELECT string_agg(role, $$ $$) FROM dataverse.rejects'), 'gone', '… except those of a dropped role');

# ---- the user mapping that is used

# Each statement is bob's.  Objects of alice send as app2, his own as app3.
$crm->sql("CREATE SCHEMA mine AUTHORIZATION alice; GRANT USAGE ON SCHEMA mine TO bob; DELETE FROM dv.account; DELETE FROM dv.contact");
as('alice', "CREATE FOREIGN TABLE mine.account ($account) SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts', use_remote_estimate 'on', truncatable 'on');
	CREATE TABLE mine.parts (accountid uuid, name text) PARTITION BY LIST (name);
	CREATE FOREIGN TABLE mine.part PARTITION OF mine.parts DEFAULT SERVER crm OPTIONS (\"table\" 'account', entity_set 'accounts')");
as('alice', 'CREATE VIEW mine.accounts AS SELECT * FROM mine.account; CREATE VIEW mine.all_parts AS SELECT * FROM mine.parts;
	CREATE FUNCTION mine.of_alice() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT application_user FROM dataverse.whoami(\'crm\')$$;
	CREATE FUNCTION mine.of_caller() RETURNS text LANGUAGE sql AS $$SELECT application_user FROM dataverse.whoami(\'crm\')$$;
	CREATE VIEW mine.caller AS SELECT mine.of_caller();
	GRANT ALL ON ALL TABLES IN SCHEMA mine TO bob');
my ($next) = sent($crm->dvsim);
my $row = "'30000000-0000-0000-0000-000000000001'";
for (
	[ 'app2', "INSERT INTO mine.accounts VALUES ($row, 'x')" ],
	[ 'app2', "INSERT INTO mine.accounts (name) VALUES ('y') RETURNING name, primarycontactid" ],
	[ 'app2', 'INSERT INTO mine.all_parts (name) VALUES ($$z$$)' ],
	[ 'app2', 'SELECT * FROM mine.accounts' ],
	[ 'app2', 'SELECT count(*) FROM mine.accounts' ],
	[ 'app2', 'SELECT * FROM mine.all_parts' ],
	[ 'app2', 'EXPLAIN SELECT * FROM mine.accounts' ],
	[ 'app2', "UPDATE mine.accounts SET name = 'new' WHERE name = 'x'" ],
	[ 'app2', "DELETE FROM mine.accounts WHERE accountid = $row" ],
	[ 'app2', 'SELECT mine.of_alice()' ],
	[ 'app3', 'SELECT mine.of_caller()' ],
	[ 'app3', 'SELECT * FROM mine.caller' ],
	[ 'app3', "INSERT INTO mine.account VALUES ($row, 'x') RETURNING *" ],
	[ 'app3', 'INSERT INTO mine.parts (name) VALUES ($$z$$)' ],
	[ 'app3', 'COPY mine.part (name) FROM PROGRAM $$echo c$$' ],
	[ 'app3', 'SELECT count(*) FROM mine.account' ],
	[ 'app3', 'EXPLAIN SELECT * FROM mine.account' ],
	[ 'app3', "UPDATE mine.account SET name = 'new' WHERE name = 'x'" ],
	[ 'app3', 'TRUNCATE mine.account' ])
{
	my ($user, $sql) = @$_;
	my %users;

	$crm->sql('GRANT pg_execute_server_program TO bob') if $sql =~ /PROGRAM/;
	as('bob', $sql);
	($next, my @requests) = sent($crm->dvsim, $next);
	$users{ $_->{user} // '' }++ for grep { $_->{target} =~ m{/api/} } @requests;
	is(join(' ', sort keys %users), $user, "$sql: sent as $user");
}
$crm->sql('ANALYZE mine.account');
($next, my @analyzed) = sent($crm->dvsim, $next);
is_deeply([ grep { $_ ne 'app2' } map { $_->{user} } grep { $_->{target} =~ m{/api/} } @analyzed ], [], 'ANALYZE sends as the owner of the table');
$crm->sql("INSERT INTO dv.contact VALUES ('$nobody', 'Somebody')");

# ---- what each role sees in the views

sub whoami { my ($role) = @_; return as($role, "SELECT count(*) FROM dataverse.whoami('crm')"); }
sub seen
{
	my ($role, $what) = @_;
	return as($role, "SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM dataverse.$what WHERE server = 'crm'");
}

# sessions of their own, so that the state is shared
$crm->sql("ALTER SERVER crm OPTIONS (ADD max_retry_after_tolerance '1s', ADD budget_pacing 'off')");
whoami($_) for qw(alice bob super mallory);
$crm->fault(action => 'status', path => 'WhoAmI', app_user => 'app3', status => 429, code => '0x80072322', message => 'Too many.', retry_after => 20);
complaint("SET ROLE bob; SELECT dataverse.whoami('crm')");
my %sees = (
	alice => [ 'app2 app4', '' ],
	bob => [ 'app3 app4', 'app3' ],
	mallory => [ 'app4', '' ],
	stranger => [ '', '' ],
	boss => [ 'app2 app4', '' ],
	monitor => [ 'app1 app2 app3 app4', 'app3' ],
	super => [ 'app1 app2 app3 app4', 'app3' ]);
for my $role (sort keys %sees)
{
	is(seen($role, 'pool'), $sees{$role}[0], "$role sees these application users");
	is(seen($role, 'throttle_history'), $sees{$role}[1], '… and their throttles');
	my $n = split / /, $sees{$role}[0];
	is(as($role, "SELECT coalesce(max(users), 0) FROM dataverse.pool_summary WHERE server = 'crm'"), $n, '… and their counts');
}
$crm->sql('ALTER SERVER crm OWNER TO mallory');
is(seen('mallory', 'pool'), $sees{super}[0], "the owner of the server sees all of its users");
$crm->sql('ALTER SERVER crm OWNER TO super; GRANT USAGE ON FOREIGN SERVER crm TO mallory');
as('mallory', "CREATE USER MAPPING FOR mallory SERVER crm OPTIONS (client_id 'app1x', client_secret 'x', name 'app1')");
is(seen('mallory', 'pool'), 'app4', 'a role does not see a user because it knows its name');

$crm->no_faults;
$crm->sql("SELECT dataverse.reset_pool('crm')");
for (
	[ 'token_1', "access_token 'none'" ],
	[ 'machine', "managed_identity 'on', name 'machine'" ])
{
	my ($name, $options) = @$_;

	$crm->sql("CREATE USER MAPPING FOR dba SERVER crm OPTIONS ($options)");
	complaint("SET ROLE dba; SELECT dataverse.whoami('crm')");
	is(seen('dba', 'pool'), "app4 $name", "$name has no client id, but an owner");
	is(seen('alice', 'pool'), 'app2 app4', 'and other roles do not see it');
	$crm->sql('DROP USER MAPPING FOR dba SERVER crm');
}
my $session = Session->new($node, user => 'bob');
$session->query("SET max_parallel_workers_per_gather = 0; BEGIN; DECLARE c CURSOR FOR SELECT * FROM dv.contact; FETCH 1 FROM c");
my $pid = $session->pid;
my %progress = (
	bob => "$pid|crm|dv.contact|read|",
	monitor => "$pid|crm|dv.contact|read|",
	alice => "$pid|crm||||f|",
	stranger => '');
for my $role (sort keys %progress)
{
	like(as($role, "SELECT pid, server, foreign_table, operation, rows_taken, in_flight IS NULL, rate_now, rows_acknowledged FROM dataverse.progress WHERE pid = $pid"),
		$progress{$role} eq '' ? qr/^$/ : qr/^\Q$progress{$role}\E/, "what $role sees of bob's reads");
}
$session->close;

# ---- settings that are made before the library is loaded, which happens in the function of another role

$crm->sql("CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA dv TO clerk;
	CREATE FUNCTION dv.note(text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = dv AS 'INSERT INTO account (name) VALUES (\$1)';
	ALTER FUNCTION dv.note(text) OWNER TO alice");
my $note = 'SELECT dv.note($$noted$$)';
my $denied = qr/permission denied to insert into foreign table "account" under a setting of another role\nDETAIL:  Role "clerk" has set "dataverse_fdw.dry_run"/;
sub clerk
{
	my ($sql, %arg) = @_;
	local $ENV{PGOPTIONS} = $arg{options} // '';
	my ($status, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1, extra_params => [ '-U', 'clerk' ]);
	return $err;
}
like(clerk("SET dataverse_fdw.dry_run = on; $note"), $denied, 'a setting belongs to the role that made it, even if the library was loaded later');
like(clerk($note, options => '-c dataverse_fdw.dry_run=on'), $denied, '… even if it was made by the connection');
is(clerk('SELECT FROM dataverse.options() LIMIT 1; ALTER ROLE clerk SET dataverse_fdw.dry_run = on'), '', 'a role can have settings');
like(clerk($note), $denied, '… which belong to it');
$crm->sql('ALTER ROLE clerk RESET dataverse_fdw.dry_run');
is(clerk("SET dataverse_fdw.dry_run = on; RESET dataverse_fdw.dry_run; $note"), '', 'without settings the function works');
$node->append_conf('postgresql.conf', "dataverse_fdw.dry_run = on\n");
$node->reload;
like(clerk($note), qr/1 row was encoded but not sent/, 'the configuration applies to all roles');
$node->append_conf('postgresql.conf', "dataverse_fdw.dry_run = off\n");
$node->reload;
is($crm->sql(q{SELECT count(*) FROM dv.account WHERE name = 'noted'}), 1, 'one row was written');

$crm->stop;
done_testing();
