# guard.pl
#		Roles against roles: whose code runs while tables are pulled, synced, pushed
#		to, and retried, and what the functions granted to PUBLIC can lock, store,
#		wait for, and show.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use IO::Socket::INET;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Dvsim;
use Session;

my $crm = Crm->start('guard', users => 1);
my $node = $crm->node;
my $options = q{client_id 'app1', client_secret 'secret1'};

$crm->sql('CREATE SCHEMA dv; CREATE SCHEMA copies; GRANT USAGE ON SCHEMA dv, copies TO PUBLIC;
	IMPORT FOREIGN SCHEMA "default" LIMIT TO (contact, task) FROM SERVER crm INTO dv');
$crm->sql(q{INSERT INTO dv.contact (lastname) SELECT 'L' || i FROM generate_series(1, 20) AS i});
for my $role (qw(alice mallory))
{
	$crm->sql("CREATE ROLE $role LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO $role; CREATE USER MAPPING FOR $role SERVER crm OPTIONS ($options);
		CREATE SCHEMA $role AUTHORIZATION $role; GRANT USAGE ON SCHEMA $role TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA dv TO $role");
}

sub as { return $crm->as(@_); }

sub said { my ($role, $sql) = @_; return (as($role, $sql))[1]; }

# The code that mallory wants to run; an attempt without the rights leaves no trace.
is(said('mallory', q{SELECT dataverse.version(); CREATE TABLE mallory.ran (who text); GRANT INSERT ON mallory.ran TO PUBLIC;
	CREATE FUNCTION mallory.try() RETURNS void LANGUAGE plpgsql AS $$BEGIN INSERT INTO mallory.ran VALUES (current_user);
		BEGIN ALTER ROLE mallory SUPERUSER; EXCEPTION WHEN insufficient_privilege THEN NULL; END; END$$;
	CREATE FUNCTION mallory.rise(text DEFAULT '') RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM mallory.try(); RETURN $1; END';
	CREATE FUNCTION mallory.rise_by_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM mallory.try(); RETURN coalesce(NEW, OLD); END';
	CREATE FUNCTION mallory.rise_set() RETURNS trigger LANGUAGE plpgsql SET dataverse_fdw.guard = off AS 'BEGIN PERFORM mallory.try(); RETURN NEW; END';
	CREATE FUNCTION mallory.rise_inlined(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT mallory.rise($1) IS NOT NULL'}), '', 'the code that mallory wants to run');

# Only mallory has run mallory's code, and the refusal was reported.
sub refused_ok
{
	my ($said, $reason, $what) = @_;

	like($said, $reason, $what);
	is($crm->sql("SELECT rolsuper, (SELECT string_agg(DISTINCT who, ' ') FROM mallory.ran WHERE who <> 'mallory') FROM pg_roles WHERE rolname = 'mallory'"),
		'f|', '… and no code of mallory runs');
	$crm->sql('ALTER ROLE mallory NOSUPERUSER; TRUNCATE mallory.ran');
	return;
}

my $columns = q{columns => '{contactid,lastname,versionnumber}'};
my $table = 'contactid uuid PRIMARY KEY, lastname text, versionnumber bigint';
my $gain = qr/role "mallory", which would gain the rights of role "\w+"/;
my $stopped = qr/function mallory\.\w+\([^)]*\) of role "mallory" does not run with the rights of role "\w+"/;
my $super = $crm->sql('SELECT current_user');
my $all = q{CALL dataverse.pull_all('dv', 'copies')};
my $one = "CALL dataverse.pull('dv.contact', 'copies.contact', $columns)";
my $both = "CALL dataverse.sync('dv.contact', 'copies.contact', $columns)";

# ---- a table that is replaced while a superuser waits

{
	my ($mallory, $running, $postgres, $locker) = ((map { Session->new($node, user => 'mallory') } 1, 2), map { Session->new($node) } 1, 2);
	my $runs = q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND};

	$crm->sql('GRANT CREATE ON SCHEMA copies TO mallory');
	# a run of mallory has the lock of the copy, but cannot be recorded
	$locker->query('BEGIN');
	$locker->query('LOCK TABLE dataverse_private.run_log IN SHARE MODE');
	$running->start($one);
	$node->poll_query_until('postgres', "$runs granted") or die;
	$postgres->start($all);
	$node->poll_query_until('postgres', "$runs NOT granted") or die;
	$mallory->query("CREATE TABLE copies.contact ($table)");
	$mallory->query('CREATE TRIGGER rise BEFORE INSERT ON copies.contact FOR EACH ROW EXECUTE FUNCTION mallory.rise_by_trigger()');
	$crm->sql('SELECT pg_cancel_backend(' . $running->pid . ')');
	is($running->finish->{sqlstate}, '57014', 'a run ends');
	$locker->query('COMMIT');
	my $said = $postgres->finish;
	refused_ok(join(' ', $said->{message}, map { $_->{message} } @{ $said->{notices} }), qr/copies\.contact: the table belongs to role "mallory"/,
		'a table that appears while pull_all waits is checked once it is locked');
	is($crm->sql('SELECT count(*) FROM copies.contact'), 0, '… and gets no rows');
	$_->close for $mallory, $running, $postgres, $locker;
	$crm->sql(q{REVOKE CREATE ON SCHEMA copies FROM mallory; SELECT dataverse.forget_copy('copies.contact'); DROP TABLE copies.contact; DROP TABLE IF EXISTS copies.task});
}

# ---- types of foreign tables

$crm->sql('GRANT CREATE ON SCHEMA dv TO mallory');
for my $check ('mallory.rise(VALUE) IS NOT NULL', 'mallory.rise_inlined(VALUE)', q{pg_catalog.pg_read_file('postgresql.conf') <> ''})
{
	as('mallory', "CREATE DOMAIN mallory.checked AS text CHECK ($check);
		CREATE FOREIGN TABLE dv.evil (contactid uuid, lastname mallory.checked, versionnumber bigint) SERVER crm OPTIONS (\"table\" 'contact', entity_set 'contacts');
		GRANT ALL ON dv.evil TO PUBLIC");
	refused_ok(said('postgres', $all), $gain, "pull_all by a superuser: CHECK ($check) of a domain");
	refused_ok(said('postgres', q{CALL dataverse.pull('dv.evil', 'copies.evil')}), $gain, '… or by name');
	refused_ok(said('postgres', q{CALL dataverse.push('SELECT lastname FROM dv.contact LIMIT 1', 'dv.evil')}), $gain, '… nor does push use it');
	refused_ok(said('alice', q{CALL dataverse.pull_all('dv', 'alice')}), $gain, '… nor does the code run for another role that has not named the table');
	$crm->sql(q{SELECT dataverse.forget_copy(target) FROM dataverse.sync_state; DROP TABLE IF EXISTS copies.evil, copies.contact, copies.task, alice.contact, alice.task, alice.evil});
	as('mallory', 'DROP FOREIGN TABLE dv.evil; DROP DOMAIN mallory.checked');
}
as('mallory', "CREATE DOMAIN mallory.checked AS text CHECK (mallory.rise(VALUE) IS NOT NULL);
	CREATE FOREIGN TABLE dv.evil (contactid uuid, lastname mallory.checked, versionnumber bigint) SERVER crm OPTIONS (\"table\" 'contact', entity_set 'contacts');
	GRANT ALL ON dv.evil TO PUBLIC");
like(said('alice', q{CALL dataverse.pull('dv.evil', 'alice.evil')}), qr/20 rows read, 20 inserted/, 'a role that names such a table, and is no superuser, reads it like any other');
as('mallory', 'DROP FOREIGN TABLE dv.evil');
$crm->sql('TRUNCATE mallory.ran');
$crm->sql(q{REVOKE CREATE ON SCHEMA dv FROM mallory; SELECT dataverse.forget_copy('alice.evil'); DROP TABLE alice.evil});

# ---- code added by others than the owner of a table

my $conf = q{WHEN (pg_catalog.pg_read_file('postgresql.conf') <> '')};
my @added = (
	[ 'a trigger', 'CREATE TRIGGER rise BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION mallory.rise_by_trigger()', $gain ],
	[ 'a trigger that lowers the guard', 'CREATE TRIGGER rise BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION mallory.rise_set()', $gain ],
	[ 'a trigger of statements', 'CREATE TRIGGER rise AFTER INSERT OR UPDATE ON %s EXECUTE FUNCTION mallory.rise_by_trigger()', $gain ],
	[ 'a condition', "CREATE TRIGGER rise BEFORE INSERT ON %s FOR EACH ROW $conf EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		qr/The table has a condition of trigger "rise"/ ],
	[ 'a function in a condition', 'CREATE TRIGGER rise AFTER INSERT ON %s FOR EACH ROW WHEN (mallory.rise_inlined(NEW.lastname)) EXECUTE FUNCTION suppress_redundant_updates_trigger()',
		qr/The table has a condition of trigger "rise"/ ],
	[ 'an argument', q{CREATE TRIGGER rise BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION public.carry_out('TABLE pg_authid')},
		qr/The table has arguments of trigger "rise"/ ]);

$crm->sql(q{CREATE FUNCTION public.carry_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE TG_ARGV[0]; RETURN NEW; END'});
$crm->sql("CREATE TABLE copies.contact ($table); GRANT ALL ON copies.contact TO mallory");
for (@added,
	[ 'a trigger for later', 'CREATE CONSTRAINT TRIGGER rise AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mallory.rise_by_trigger()', $gain ])
{
	my ($what, $create, $reason) = @$_;

	as('mallory', sprintf $create, 'copies.contact');
	refused_ok(said('postgres', $_), $reason, "$what of a role with the privilege TRIGGER on a copy: $_") for $all, $one, $both;
	is($crm->sql('SELECT count(*) FROM copies.contact'), 0, '… and no row is inserted');
	$crm->sql('DROP TRIGGER rise ON copies.contact');
}
like(said('postgres', $both), qr/20 inserted/, 'without it, the copy is filled');

# A foreign key that references the copy is enough.
as('mallory', 'CREATE TABLE mallory.child (id uuid REFERENCES copies.contact ON DELETE CASCADE); INSERT INTO mallory.child SELECT contactid FROM copies.contact;
	CREATE TRIGGER rise AFTER DELETE ON mallory.child FOR EACH ROW EXECUTE FUNCTION mallory.rise_by_trigger()');
$crm->sql(q{DELETE FROM dv.contact WHERE lastname = 'L20'});
SKIP:
{
	# from 18 on, PostgreSQL runs it with the rights of mallory
	skip 'cascades', 2 if $node->pg_version >= 18;
	refused_ok(said('postgres', $one), $stopped, 'a trigger of a table that references the copy is refused when it is about to run');
}
as('mallory', 'DROP TABLE mallory.child');
like(said('postgres', $one), qr/1 deleted/, 'once that table is dropped, the row is deleted');

# The code that roles named themselves, and may change, runs.
$crm->sql("CREATE TABLE alice.contact ($table); ALTER TABLE alice.contact OWNER TO alice; GRANT TRIGGER ON alice.contact TO mallory");
as('mallory', sprintf $added[0][1], 'alice.contact');
like(said('alice', "CALL dataverse.pull('dv.contact', 'alice.contact', $columns)"), qr/19 inserted/, 'the owner of a table pulls it with its triggers');
is($crm->sql('SELECT string_agg(DISTINCT who, $$ $$) FROM mallory.ran'), 'alice', '… which run with its rights');
$crm->sql('TRUNCATE mallory.ran');
refused_ok(said('alice', q{CALL dataverse.pull_all('dv', 'alice', "full" => true)}), $gain, '… but not those of a whole schema');
refused_ok(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.contact', $columns, \"full\" => true)"), $gain, '… nor for a superuser');
$crm->sql('ALTER FUNCTION mallory.rise_by_trigger() OWNER TO alice');
refused_ok(said('alice', q{CALL dataverse.pull_all('dv', 'alice', "full" => true)}), qr/function mallory\.try\(\) of role "mallory" does not run/,
	'… nor in a function of the owner that another role calls');
$crm->sql('ALTER FUNCTION mallory.rise_by_trigger() OWNER TO mallory; DROP TRIGGER rise ON alice.contact');

# Code made by the owner of a table is harmless if it does not depend on the rights of the role that runs it.
my %made = (
	q{at timestamptz DEFAULT now()} => undef,
	q{name text GENERATED ALWAYS AS (upper(lastname)) STORED} => undef,
	q{CHECK (lastname <> '')} => undef,
	q{conf text DEFAULT pg_catalog.pg_read_file('postgresql.conf')} => qr/The table has a default or generated column/,
	q{roles xml DEFAULT pg_catalog.table_to_xml('pg_authid', true, true, '')} => qr/The table has a default or generated column/,
	q{CHECK (pg_catalog.pg_read_file('postgresql.conf') <> '')} => qr/The table has a check constraint/,
	q{CHECK (lastname <> alice.name())} => qr/The table has a check constraint/);
as('alice', q{CREATE FUNCTION alice.name() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT current_user::text'});
for my $part (sort keys %made)
{
	as('alice', "CREATE TABLE alice.c ($table, $part)");
	like(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), $made{$part} // qr/19 inserted/, "a table of another role with $part");
	is($crm->sql('SELECT count(*) FROM alice.c'), $made{$part} ? 0 : 19, '… which is filled unless refused');
	$crm->sql(q{SELECT dataverse.forget_copy('alice.c'); DROP TABLE alice.c});
}
# A role that takes over a table takes over its expressions.
as('alice', "CREATE TABLE alice.c ($table, version text DEFAULT pg_catalog.current_setting('server_version'))");
like(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), qr/The table has a default or generated column/, 'an expression counts as code of the owner of the table');
$crm->sql('ALTER TABLE alice.c OWNER TO CURRENT_USER');
like(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), qr/19 inserted/, '… and of its next owner');
$crm->sql(q{SELECT dataverse.forget_copy('alice.c'); DROP TABLE alice.c});

# Arguments are the owner's as long as no other role may create triggers.
$crm->sql("CREATE TABLE copies.c ($table); CREATE TRIGGER often BEFORE INSERT ON copies.c FOR EACH ROW EXECUTE FUNCTION public.carry_out('SELECT 1')");
like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns)"), qr/19 inserted/, 'arguments of a trigger of the owner');
$crm->sql('GRANT TRIGGER ON copies.c TO PUBLIC');
like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns, \"full\" => true)"), qr/of an unknown role.*arguments of trigger "often"/s,
	'… but not if everybody may create triggers');
$crm->sql('REVOKE TRIGGER ON copies.c FROM PUBLIC; ALTER TABLE copies.c OWNER TO alice');
like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns, \"full\" => true)"), qr/code of role "alice".*arguments of trigger "often"/s,
	'… or another role owns the table');
$crm->sql(q{SELECT dataverse.forget_copy('copies.c'); DROP TABLE copies.c});

# Partitions get the triggers of their parents, whose privileges count.
$crm->sql("CREATE TABLE copies.whole ($table) PARTITION BY RANGE (contactid); GRANT USAGE ON SCHEMA copies TO mallory; GRANT TRIGGER ON copies.whole TO mallory;
	GRANT mallory TO CURRENT_USER; SET ROLE mallory;
	CREATE TRIGGER often AFTER INSERT ON copies.whole FOR EACH ROW EXECUTE FUNCTION public.carry_out('TABLE pg_authid'); RESET ROLE;
	CREATE TABLE copies.c PARTITION OF copies.whole DEFAULT");
like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns)"), qr/of an unknown role.*arguments of trigger "often"/s,
	'arguments of a trigger that comes from a parent');
$crm->sql('REVOKE TRIGGER ON copies.whole FROM mallory');
like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns)"), qr/19 inserted/, '… of the owner');
$crm->sql(q{SELECT dataverse.forget_copy('copies.c'); DROP TABLE copies.whole});

# The owner of a table cannot add tables to it between the check and the write.
$crm->sql("CREATE TABLE copies.whole ($table) PARTITION BY RANGE (contactid); CREATE TABLE copies.c ($table, CHECK (pg_read_file(lastname) IS NULL));
	CREATE TABLE copies.plain ($table); ALTER TABLE copies.whole OWNER TO mallory; ALTER TABLE copies.c OWNER TO mallory; ALTER TABLE copies.plain OWNER TO mallory;
	CREATE FUNCTION public.held(name text) RETURNS void LANGUAGE sql SET dataverse_fdw.guard = superusers AS 'SELECT dataverse_private.hold(\$1, \$1::regclass)'");
for (['a partition', 'copies.whole', 'ALTER TABLE copies.whole ATTACH PARTITION copies.c DEFAULT'], [ 'a child', 'copies.plain', 'ALTER TABLE copies.c INHERIT copies.plain' ])
{
	my ($what, $name, $add) = @$_;
	my $run = $crm->node->background_psql('postgres', on_error_stop => 1);

	$run->query_safe("BEGIN; SELECT public.held('$name')");
	like(said('mallory', "SET lock_timeout = '200ms'; $add"), qr/canceling statement due to lock timeout/, "$what cannot be added to a table of another role while a run writes it");
	$run->query_safe('ROLLBACK');
	$run->quit;
}
$crm->sql('ALTER TABLE copies.whole OWNER TO CURRENT_USER; DROP TABLE copies.whole, copies.c, copies.plain; DROP FUNCTION public.held');

# Conditions of triggers must be harmless, whoever owns the table.
$crm->sql("CREATE TABLE copies.c ($table)");
for my $condition ([ 'pg_trigger_depth() = 0', qr/19 inserted/ ],
	[ q{current_setting('server_version') = NEW.lastname}, qr/table copies\.c has code of an unknown role, which would gain the rights of role "$super"\nDETAIL:  The table has a condition of trigger "often"/ ])
{
	$crm->sql("CREATE FUNCTION copies.often() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER often BEFORE INSERT ON copies.c FOR EACH ROW WHEN ($condition->[0]) EXECUTE FUNCTION copies.often()");
	like(said('postgres', "CALL dataverse.pull('dv.contact', 'copies.c', $columns, \"full\" => true)"), $condition->[1], "a condition of a trigger: $condition->[0]");
	$crm->sql(q{SELECT dataverse.forget_copy('copies.c'); TRUNCATE copies.c; DROP FUNCTION copies.often() CASCADE});
}
$crm->sql('DROP TABLE copies.c');
as('alice', "CREATE TABLE alice.c ($table); CREATE RULE also AS ON INSERT TO alice.c DO ALSO SELECT pg_catalog.pg_read_file('postgresql.conf')");
like(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), qr/The table has a rule/, 'a table of another role with a rule');
$crm->sql(q{SELECT dataverse.forget_copy('alice.c'); DROP TABLE alice.c});
as('alice', "CREATE TABLE alice.c ($table)");
as('alice', q{CREATE FUNCTION alice.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.lower($1)'; CREATE INDEX ON alice.c (alice.lower(lastname))});
like(said('postgres', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), qr/function alice\.lower\(text\) of role "alice" does not run with the rights of role/,
	'a table of another role with an index on a function of it');
like(said('alice', "CALL dataverse.pull('dv.contact', 'alice.c', $columns)"), qr/19 inserted/, '… can be pulled by that role');
$crm->sql(q{SELECT dataverse.forget_copy('alice.c'); DROP TABLE alice.c});

# ---- code of the superuser that calls functions of another role

$crm->sql(q{CREATE FUNCTION public.trusting(text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN mallory.rise($1) IS NOT NULL; END';
	CREATE FUNCTION mallory.quick(text) RETURNS boolean LANGUAGE sql AS 'SELECT pg_catalog.pg_read_file(''postgresql.conf'') <> $1'; ALTER FUNCTION mallory.quick OWNER TO mallory;
	CREATE DOMAIN copies.direct AS text CHECK (VALUE <> '') CHECK (mallory.rise(VALUE) IS NOT NULL);
	CREATE DOMAIN copies.quick AS text CHECK (mallory.quick(VALUE));
	CREATE DOMAIN copies.based AS copies.direct NOT NULL;
	CREATE DOMAIN copies.filled AS text DEFAULT mallory.rise('L');
	CREATE DOMAIN copies.coerced AS text CHECK (VALUE::copies.direct <> 'x');
	CREATE DOMAIN copies.trusting AS text CHECK (public.trusting(VALUE));
	CREATE DOMAIN copies.plain AS text CHECK (lower(VALUE) <> '');
	CREATE TYPE copies.composed AS (d copies.direct)});
for my $case ([ direct => $gain ], [ quick => $gain ], [ based => $gain ], [ filled => $gain ], [ coerced => $gain ], [ trusting => $stopped ], [ plain => undef ])
{
	my ($domain, $reason) = @$case;

	$crm->sql("CREATE FOREIGN TABLE dv.calls (contactid uuid, lastname copies.$domain, versionnumber bigint OPTIONS (readonly 'true')) SERVER crm OPTIONS (\"table\" 'contact', entity_set 'contacts')");
	my $rows = $crm->sql('SELECT count(*) FROM dv.contact');
	my $push = q{CALL dataverse.push('SELECT ''pushed'' AS lastname', 'dv.calls')};
	my $pull = q{CALL dataverse.pull('dv.calls', 'copies.calls')};
	if ($reason)
	{
		refused_ok(said('postgres', $push), $reason, "push into a domain of the superuser ($domain)");
		is($crm->sql('SELECT count(*) FROM dv.contact'), $rows, '… sends nothing');
		refused_ok(said('postgres', $pull), $reason, '… nor does pull read it');
		$crm->sql(q{SELECT dataverse.forget_push(id) FROM dataverse.pushes});
	}
	else
	{
		like(said('postgres', $push), qr/1 row sent/, 'a domain that calls no functions of others is pushed');
		like(said('postgres', $pull), qr/@{[ $rows + 1 ]} inserted/, '… and pulled');
		$crm->sql(q{DELETE FROM dv.contact WHERE lastname = 'pushed'});
	}
	$crm->sql(q{SELECT dataverse.forget_copy(target) FROM dataverse.sync_state WHERE target = 'copies.calls'; DROP TABLE IF EXISTS copies.calls; DROP FOREIGN TABLE dv.calls});
}
my %calling = (
	'nothing else' => [ '%s', '', undef ],
	'a default' => [ q{%s, extra text DEFAULT mallory.rise('x')}, '', $stopped ],
	'a generated column' => [ '%s, extra text GENERATED ALWAYS AS (mallory.rise(lastname)) STORED', '', $stopped ],
	'a check constraint' => [ '%s, CHECK (mallory.rise_inlined(lastname))', '', $stopped ],
	'a composite type' => [ '%s, extra copies.composed', '', $gain ],
	'an array' => [ '%s, extra copies.direct[]', '', $gain ],
	'an index' => [ '%s', '; CREATE INDEX ON copies.calls (mallory.rise(lastname))', $stopped ],
	'an index of some rows' => [ '%s', q{; CREATE INDEX ON copies.calls (lastname) WHERE mallory.rise(lastname) <> ''}, $stopped ],
	'a partition key' => [ 'contactid uuid, lastname text, versionnumber bigint', ') PARTITION BY RANGE (mallory.rise(lastname)', $stopped ]);
for my $what (sort keys %calling)
{
	my ($form, $more, $reason) = @{ $calling{$what} };

	$crm->sql(sprintf("CREATE TABLE copies.calls ($form", $table) . ($more =~ /^\)/ ? "$more); CREATE TABLE copies.part PARTITION OF copies.calls DEFAULT; CREATE INDEX ON copies.calls (contactid)" : ")$more"));
	refused_ok(said('postgres', q{CALL dataverse.pull('dv.contact', 'copies.calls', } . "$columns)"), $reason // qr/inserted/, "a copy of the superuser with $what");
	is($crm->sql('SELECT count(*) > 0 FROM copies.calls'), $reason ? 'f' : 't', $reason ? '… stays empty' : '… is filled');
	$crm->sql(q{SELECT dataverse.forget_copy('copies.calls'); DROP TABLE copies.calls});
}
$crm->sql('DROP TYPE copies.composed; DROP DOMAIN copies.coerced, copies.based, copies.direct, copies.quick, copies.filled, copies.trusting, copies.plain');

# ---- foreign tables: nothing is sent before all code is checked

$crm->sql(q{ALTER FOREIGN TABLE dv.contact ALTER lastname TYPE text; SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.contact (contactid, lastname) VALUES (gen_random_uuid(), repeat('x', 200));
	UPDATE dataverse.rejects SET row = row || '{"lastname": "corrected"}';
	UPDATE copies.contact SET lastname = 'changed here' WHERE lastname = 'L1'});
my $before = $crm->sql('SELECT count(*), max(versionnumber) FROM dv.contact');
for (@added)
{
	my ($what, $create, $reason) = @$_;

	as('mallory', sprintf $create, 'dv.contact');
	refused_ok(said('postgres', q{CALL dataverse.push('SELECT ''pushed'' AS lastname', 'dv.contact')}), $reason, "push: $what");
	$crm->sql('SELECT dataverse.forget_push(id) FROM dataverse.pushes');
	refused_ok(said('postgres', $both), $reason, '… nor does sync send');
	refused_ok(said('postgres', 'SELECT * FROM dataverse.retry_rejects()'),
		qr/WARNING:  rejected rows of foreign table dv\.contact are not retried: .*$reason/s, '… nor are rejected rows retried');
	is($crm->sql('SELECT count(*) FROM dataverse.rejects'), 1, '… which are kept');
	is($crm->sql('SELECT count(*), max(versionnumber) FROM dv.contact'), $before, '… and nothing has been sent');
	$crm->sql('DROP TRIGGER rise ON dv.contact');
}
is($crm->sql('SELECT * FROM dataverse.retry_rejects()'), '1|1|0', 'without the trigger, they are retried');
like(said('postgres', $both), qr/: 1 row sent/, '… and sync sends');

# ---- locks

$crm->sql('CREATE ROLE outsider LOGIN; CREATE ROLE loader LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO outsider, loader; CREATE USER MAPPING FOR loader SERVER crm OPTIONS (' . $options . ')');
{
	my $nobody = Session->new($node, user => 'outsider');

	for my $call (q{dataverse_private.page_start('dv.task')}, q{dataverse_private.read_page('dv.task', NULL, NULL, NULL, NULL, false)}, q{dataverse_private.pull_info('dv.task')}, q{dataverse_private.first_token('dv.task')}, q{dataverse.changes('dv.task')},
		q{dataverse_private.writable_columns('dv.task')}, q{dataverse_private.copy_count_changes('dv.task', NULL, 0, 1000)}, q{dataverse_private.hold('dv.task', 'dv.task'::regclass)}, q{dataverse.row_count('dv.task')})
	{
		$nobody->query('BEGIN');
		is($nobody->try("SELECT * FROM $call")->{sqlstate}, '42501', "a role without rights on a table is refused: $call");
		# locks of a refused call are released with the transaction
		is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE relation = 'dv.task'::regclass AND granted}), 0, '… and holds no lock');
		$nobody->query('ROLLBACK');
		$nobody->query('BEGIN');
		$nobody->query('SAVEPOINT s');
		$nobody->try("SELECT * FROM $call");
		is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE relation = 'dv.task'::regclass AND granted}), 0, '… not even in a transaction that continues');
		$nobody->query('ROLLBACK');
	}
	# the number of the next push
	my $next = $crm->sql('SELECT last_value + 1 FROM dataverse_private.push_states_id_seq');
	$nobody->query("SELECT dataverse.forget_push($next)");
	like(said('postgres', q{SET statement_timeout = '20s'; CALL dataverse.push('SELECT ''pushed'' AS lastname', 'dv.contact')}), qr/1 row sent/,
		'no role can lock the push of another role in advance');
	# a role that may delete from a table may lock it
	$nobody->query('BEGIN');
	$nobody->query('LOCK TABLE dataverse.rejects');
	$crm->sql(q{UPDATE copies.contact SET lastname = 'not waited' WHERE lastname = 'L2'});
	like(said('postgres', "SET lock_timeout = '3s'; $both"), qr/: 1 row sent/, 'no role can keep sync from sending by a lock on dataverse.rejects');
	$nobody->close;
}

# ---- storage

for my $call (q{CALL dataverse.push('SELECT 1 AS lastname -- ' || repeat('x', 1000000), 'dv.contact')},
	q{CALL dataverse.push('SELECT 1 AS lastname', 'dv.contact', wait => false)},
	q{SELECT dataverse_private.copy_open('dv.contact', 'pg_temp.t')}, q{SELECT dataverse_private.copy_open('dv.contact', 'public.t')})
{
	my $said = said('outsider', $call);
	like($said, qr/ERROR:  (permission denied for|schema "pg_temp" does not exist|table .* cannot be a copy)/, "a role without rights stores nothing: $call");
}
is((as('outsider', 'CREATE TEMP TABLE t (contactid uuid); SELECT dataverse_private.copy_open($$dv.contact$$, n.nspname || $$.t$$) FROM pg_namespace AS n WHERE n.oid = pg_my_temp_schema()'))[0],
	'', 'nor does a temporary table become a copy');
is($crm->sql(q{SELECT (SELECT count(*) FROM dataverse_private.run_log WHERE role = 'outsider') + (SELECT count(*) FROM dataverse_private.push_states WHERE role = 'outsider')
	+ (SELECT count(*) FROM dataverse_private.copies WHERE role = 'outsider')}), 0, 'nothing is stored');

# ---- names of tables that do not exist yet

$crm->sql('GRANT CREATE ON SCHEMA public TO mallory, alice');
for my $name ('public.planted', '"public".planted', 'PUBLIC.Planted', ' public . planted')
{
	as('mallory', "SELECT dataverse_private.copy_open('dv.contact', '$name')");
}
is($crm->sql(q{SELECT string_agg(target, '|') FROM dataverse_private.copies WHERE target ~* 'planted'}), 'public.planted', 'a table has one name');
as('alice', "CREATE TABLE public.planted ($table)");
for my $option ([], ['--quote-all-identifiers'])
{
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
	$node->command_ok([ 'pg_dump', @$option, '-d', $node->connstr('postgres'), '-f', $dump ], "a dump is written: @$option");
	$crm->sql('CREATE DATABASE restored');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], '… and restored');
	is($node->safe_psql('restored', q{SELECT string_agg(target, ' ' ORDER BY target) FROM dataverse_private.copies}), 'alice.contact alice.task copies.contact copies.task',
		'… with the existing copies, but without names that were only reserved');
	$crm->sql('DROP DATABASE restored');
}
like($crm->sql(q{SELECT count(*) FROM pg_index WHERE indexrelid = 'dataverse_private.copies_target_oid_idx'::regclass AND indisunique}), qr/1/, 'a table is one copy');
like(said('alice', q{CALL dataverse.pull('dv.contact', 'public.planted')}), qr/21 inserted/, 'the owner of the table can pull it');
is($crm->sql(q{SELECT string_agg(target || ' ' || role, '|') FROM dataverse_private.copies WHERE target ~* 'planted'}), 'public.planted alice', '… and is one copy');

# ---- visible values of rejected rows

$crm->sql(q{CREATE FOREIGN TABLE dv.c (contactid uuid, lastname text, firstname text DEFAULT 'secret', jobtitle text) SERVER crm OPTIONS ("table" 'contact', entity_set 'contacts');
	GRANT INSERT, UPDATE ON dv.c TO loader;
	CREATE FUNCTION dv.fill() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.jobtitle := 'secret'; RETURN NEW; END$$});
my $load = q{SET dataverse_fdw.on_error = 'continue'; INSERT INTO dv.c (lastname%s) VALUES (repeat('x', 200)%s)};
my $shown = sub { return (as('loader', q{SELECT string_agg(k, ' ' ORDER BY k) FROM dataverse.rejects AS r, jsonb_object_keys(r.row) AS k WHERE k <> 'contactid'}))[0]; };
as('loader', sprintf $load, '', '');
is($shown->(), 'lastname', 'a default that the role may not read is not shown');
as('loader', q{UPDATE dataverse.rejects SET row = row || '{"lastname": "Loaded"}'});
is((as('loader', 'SELECT * FROM dataverse.retry_rejects()'))[0], '1|1|0', '… and is applied again');
is($crm->sql(q{SELECT firstname FROM dv.c WHERE lastname = 'Loaded'}), 'secret', '… when the row is written');
as('loader', sprintf $load, ', firstname', q{, 'mine'});
is($shown->(), 'firstname lastname', 'values of the statement are shown');
$crm->sql('DELETE FROM dataverse.rejects; CREATE TRIGGER fill BEFORE INSERT ON dv.c FOR EACH ROW EXECUTE FUNCTION dv.fill()');
as('loader', sprintf $load, ', firstname', q{, 'mine'});
is($shown->(), '', 'but no values that a trigger may have changed');
$crm->sql('DELETE FROM dataverse.rejects; GRANT SELECT (lastname) ON dv.c TO loader');
as('loader', sprintf $load, '', '');
is($shown->(), 'lastname', '… except in columns that the role may read');
$crm->sql('DELETE FROM dataverse.rejects; DROP TRIGGER fill ON dv.c; REVOKE ALL ON dv.c FROM loader; GRANT SELECT, INSERT ON dv.c TO loader');
as('loader', sprintf $load, '', '');
is($shown->(), 'firstname lastname', '… which may be all columns');
$crm->sql(q{DELETE FROM dataverse.rejects; DELETE FROM dv.c WHERE lastname = 'Loaded'});

# ---- objects that are dropped during a run

for my $run (
	[ pull => q{CALL dataverse.pull('dv.d', 'copies.d')} ],
	[ sync => q{CALL dataverse.sync('dv.d', 'copies.d')} ],
	[ push => q{CALL dataverse.push('SELECT ''P'' || i AS lastname FROM generate_series(1, 20) AS i', 'dv.d', chunk => 5)} ])
{
	my ($what, $call) = @$run;

	for my $drop ('DROP FOREIGN TABLE dv.d', 'DROP SERVER d CASCADE', 'ALTER FOREIGN TABLE dv.d RENAME TO e', 'ALTER FOREIGN TABLE dv.d DROP COLUMN lastname',
		'DROP USER MAPPING FOR CURRENT_USER SERVER d', $what eq 'push' ? () : ('DROP TABLE copies.d', 'ALTER TABLE copies.d DROP COLUMN lastname'))
	{
		my $session = Session->new($node);

		$crm->server('d');
		$crm->sql(q{CREATE FOREIGN TABLE dv.d (contactid uuid, lastname text, versionnumber bigint OPTIONS (readonly 'true')) SERVER d OPTIONS ("table" 'contact', entity_set 'contacts', page_size '5')});
		$crm->fault(path => $what eq 'push' ? 'CreateMultiple' : 'contacts?', every => 1, times => 0, action => 'delay', delay_ms => 400);
		$session->start($call);
		$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM dataverse.runs WHERE foreign_table = 'dv.d' AND status = 'running' AND sent + rows_read > } . ($what eq 'push' ? 20 : 0)) or die;
		$crm->sql($drop);
		my $r = $session->finish;
		isnt($r->{sqlstate} // '', 'XX000', "$what: $drop: " . ($r->{message} // 'no error'));
		unlike($r->{message} // '', qr/cache lookup|\b\d{5,}\b/, '… with an error that explains the cause, if any');
		is($crm->sql(q{SELECT count(*) FROM dataverse.runs WHERE status NOT IN ('failed', 'succeeded')}), 0, '… and its end is recorded');
		$session->close;
		$crm->no_faults;
		$crm->sql(q{SET client_min_messages = error; DROP SERVER IF EXISTS d CASCADE; SELECT dataverse.forget_push(id) FROM dataverse.pushes;
			SELECT dataverse.forget_copy('copies.d'); DROP TABLE IF EXISTS copies.d});
	}
}

# ---- waits

{
	my @silent = map { IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') } 1 .. 8;

	for my $i (1 .. @silent)
	{
		my $port = $silent[ $i - 1 ]->sockport;
		$crm->server("silent$i");
		$crm->sql(qq{CREATE FOREIGN TABLE dv.s$i (contactid uuid, versionnumber bigint) SERVER silent$i OPTIONS ("table" 'contact', entity_set 'contacts');
			CALL dataverse.pull('dv.s$i', 'copies.s$i')});
		$crm->sql("ALTER SERVER silent$i OPTIONS (SET url 'http://127.0.0.1:$port', SET token_url 'http://127.0.0.1:$port/token')");
	}
	my ($ms) = $crm->time_of('SELECT count(*), count(lag) FROM dataverse.sync_state');
	cmp_ok($ms, '<', 6000, 'unresponsive servers delay a view of all copies by no more than four seconds in total');
	is($crm->sql(q{SELECT count(lag) > 0 FROM dataverse.sync_state WHERE target = 'copies.contact'}), 't', 'a responsive one is asked');
}

$crm->dvsim->stop;
done_testing;
