# step_rights.pl
#		Copies and the roles around them: code that runs in sessions of others,
#		inconsistent states, tables that are altered, renamed, dropped, and
#		recreated, reused names, and runs that end with an error while their session
#		continues.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Crm;
use Dvsim;
use Session;

my $crm = Crm->start('rights', users => 1);
my $node = $crm->node;
my $options = q{client_id 'app1', client_secret 'secret1'};

$crm->sql('CREATE SCHEMA dv; GRANT USAGE ON SCHEMA dv TO PUBLIC; IMPORT FOREIGN SCHEMA "default" LIMIT TO (contact, task) FROM SERVER crm INTO dv');
$crm->sql(q{INSERT INTO dv.contact (lastname) SELECT 'L' || i FROM generate_series(1, 20) AS i});
for my $role (qw(alice bob mallory))
{
	$crm->sql("CREATE ROLE $role LOGIN; GRANT USAGE ON FOREIGN SERVER crm TO $role; CREATE USER MAPPING FOR $role SERVER crm OPTIONS ($options);
		GRANT ALL ON ALL TABLES IN SCHEMA dv TO $role; CREATE SCHEMA $role AUTHORIZATION $role; GRANT CREATE ON SCHEMA public TO $role");
}

my $columns = q{columns => '{contactid,lastname,firstname,versionnumber}'};
my $pull = "CALL dataverse.pull('dv.contact', 'alice.contact', $columns)";
my $sync = "CALL dataverse.sync('dv.contact', 'alice.contact', $columns)";
my $table = 'contactid uuid PRIMARY KEY, lastname text, firstname text, versionnumber bigint';

sub as { return $crm->as(@_); }

# ---- code that runs while another role maintains the table

as('alice', "$sync; UPDATE alice.contact SET firstname = 'ours' WHERE lastname IN ('L1', 'L2')");
my $copy = $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'alice.contact'});
as('mallory', qq{CREATE TABLE mallory.loot (t text); CREATE TABLE mallory.t (a int); INSERT INTO mallory.t VALUES (1);
	CREATE FUNCTION mallory.rob() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		INSERT INTO mallory.loot SELECT 'token ' || c.token FROM dataverse_private.copy_get($copy) AS c;
		PERFORM dataverse_private.pending_take($copy, '{}');
		INSERT INTO mallory.loot SELECT 'row ' || p FROM dataverse_private.pending_next($copy, '{taken}', 10) AS p;
		PERFORM dataverse_private.pending_drop($copy, NULL);
	EXCEPTION WHEN insufficient_privilege THEN
		INSERT INTO mallory.loot VALUES (SQLERRM);
	END \$\$;
	CREATE FUNCTION mallory.f(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM mallory.rob(); RETURN a; END';
	CREATE INDEX ON mallory.t (mallory.f(a)); TRUNCATE mallory.loot});
$crm->sql('TRUNCATE mallory.loot; REINDEX TABLE mallory.t');
is($crm->sql('SELECT string_agg(DISTINCT t, $$ $$) FROM mallory.loot'), 'cannot use copies of dataverse_fdw within security-restricted operation',
	'code that a superuser runs with the rights of its owner gets no data');
like((as('alice', $sync))[1], qr/: 2 rows sent/, 'and no change is lost');

# ---- functions that run with the rights of their owner

as('mallory', q{GRANT USAGE ON SCHEMA mallory TO PUBLIC; CREATE FUNCTION mallory.token_of(c bigint) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS
	$$ BEGIN RETURN (dataverse_private.copy_get(c)).token; END $$});
for my $role (qw(alice postgres mallory))
{
	like((as($role, "SELECT mallory.token_of($copy)"))[1], qr/must be owner of table alice\.contact/, "called by $role, such a function has the rights of its owner");
}
as('alice', qq{GRANT USAGE ON SCHEMA alice TO bob; CREATE FUNCTION alice.decide() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
	\$\$ SELECT dataverse.resolve('alice.contact', 'local') \$\$; CREATE FUNCTION alice.phase(c bigint) RETURNS text LANGUAGE sql SECURITY DEFINER AS
	'SELECT (dataverse_private.copy_get(c)).phase'});
is((as('bob', 'SELECT alice.decide()'))[0], '0', 'and allows others to do what its owner may do');
is((as('bob', "SELECT alice.phase($copy)"))[0], 'current', 'or see');
like((as('bob', "SELECT dataverse_private.copy_get($copy)"))[1], qr/must be owner/, 'which they may not do themselves');
like((as('alice', "SELECT alice.phase($copy), mallory.token_of($copy)"))[1], qr/must be owner/, 'not even afterwards');
$crm->sql('ALTER ROLE bob NOINHERIT; GRANT alice TO bob');
like((as('bob', "SELECT dataverse_private.copy_get($copy)"))[1], qr/must be owner/, 'a member that does not inherit the rights of a role has none of them');
is((as('bob', q{SELECT count(*) FROM dataverse.sync_state}))[0], '0', 'and sees nothing');
is((as('bob', q{SET ROLE alice; SELECT count(*) FROM dataverse.sync_state}))[0], '1', 'until it sets the role');
$crm->sql('REVOKE alice FROM bob; ALTER ROLE bob INHERIT');

# ---- every function of state, called for the copy of another role

# The calls name alice's copy and its conflict, and claim to be alice's.
my $conflict = $crm->sql("INSERT INTO dataverse_private.pending (copy, id, operation, state, kind)
	VALUES ($copy, gen_random_uuid(), 'U', 'filed', 'both') RETURNING number");
my @calls = split /;/, $crm->sql(qq{
	SELECT string_agg(format('SELECT %s(%s)', p.oid::regproc, a.list), ';')
	FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang, LATERAL (
		SELECT string_agg(CASE u.name
				WHEN 'copy' THEN '$copy' WHEN 'conflict' THEN '$conflict' WHEN 'caller' THEN quote_literal('alice') || '::regrole'
				WHEN 'target' THEN CASE WHEN t.type = 'text' THEN quote_literal('alice.contact') ELSE 'alice.contact'::regclass::oid::text END
				WHEN 'decision' THEN quote_literal('local')
				ELSE CASE t.type
					WHEN 'regclass' THEN quote_literal('dv.contact') WHEN 'text' THEN quote_literal('x') WHEN 'jsonb' THEN quote_literal('{}') WHEN 'bigint' THEN '1'
					WHEN 'boolean' THEN 'true' WHEN 'timestamp with time zone' THEN 'now()'
					ELSE CASE WHEN t.composite THEN format('jsonb_populate_record(NULL::%s, %L)', t.type, '{"id": $copy}') ELSE quote_literal('{}') || '::' || t.type END END END, ', ' ORDER BY u.i) AS list
		FROM unnest(p.proargtypes, p.proargnames[1:p.pronargs]) WITH ORDINALITY AS u (o, name, i),
			LATERAL (SELECT format_type(u.o, NULL), typtype = 'c' FROM pg_type WHERE oid = u.o) AS t (type, composite)) AS a
	WHERE l.lanname = 'dataverse_state'});
my $calls = '$calls$' . join(';', @calls) . '$calls$';
cmp_ok(scalar @calls, '>=', 25, 'the functions of state are found');
my $all_state = sub { return $crm->sql('SELECT ' . join(', ', map { "(SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM dataverse_private.$_ AS t)" }
	qw(copies copy_ids copy_refused run_log local_changes pending rejected_rows push_states))) };
my $before = $all_state->();
as('mallory', q{CREATE FUNCTION mallory.try(calls text) RETURNS TABLE (call text, said text) LANGUAGE plpgsql AS $$
	BEGIN
		FOREACH call IN ARRAY string_to_array(calls, ';') LOOP
			said := 'done';
			BEGIN
				EXECUTE call;
			EXCEPTION WHEN OTHERS THEN
				said := SQLERRM;
			END;
			RETURN NEXT;
		END LOOP;
	END $$;
	CREATE FUNCTION mallory.try_as_mallory(calls text) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS
	$$ SELECT substring(call from 'dataverse_private\.([a-z_]+)') || ' ' || said FROM mallory.try(calls) $$});
for my $role (qw(mallory alice postgres))
{
	my %said = map { split / /, $_, 2 } split /\n/, (as($role, "SELECT * FROM mallory.try_as_mallory($calls)"))[0];
	is(scalar keys %said, scalar @calls, "mallory's function, called by $role, tries all of them");
	is_deeply({ map { ($_, $said{$_}) } grep { $said{$_} ne 'must be owner of table alice.contact' } keys %said }, { copy_is_tracked => 'done', run_metrics => 'done' }, '… which refuse, except for two');
}
as('mallory', q{CREATE FUNCTION mallory.numbers() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
	$$ SELECT count(*) FROM dataverse_private.run_metrics('alice'::regrole) $$});
is((as('alice', 'SELECT mallory.numbers()'))[0], '0', 'one of which has no numbers of copies of others');
cmp_ok((as('alice', q{SELECT count(*) FROM dataverse.metrics WHERE labels ? 'copy'}))[0], '>', 3, '… but of those of its caller');
is($all_state->(), $before, 'and change nothing');
as('mallory', qq{CREATE OR REPLACE FUNCTION mallory.rob() RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN INSERT INTO mallory.loot SELECT said FROM mallory.try($calls); END \$\$});
$crm->sql('TRUNCATE mallory.loot; REINDEX TABLE mallory.t');
is($crm->sql('SELECT count(*), min(t), max(t) FROM mallory.loot'), @calls . ('|cannot use copies of dataverse_fdw within security-restricted operation' x 2),
	'code that a superuser runs with the rights of its owner calls none of them');
$crm->sql("DELETE FROM dataverse_private.pending WHERE number = $conflict");

# Their language is that of the extension alone.
like((as('mallory', q{CREATE FUNCTION mallory.own() RETURNS void LANGUAGE dataverse_state AS 'BEGIN ALTER ROLE mallory SUPERUSER; END'}))[1],
	qr/permission denied for language dataverse_state/, 'no role writes functions of state');
like((as('postgres', 'GRANT USAGE ON LANGUAGE dataverse_state TO mallory'))[1], qr/language "dataverse_state" is not trusted/, 'nor can it be allowed to');
like((as('mallory', 'SELECT dataverse_private.state_handler()'))[1], qr/permission denied for function state_handler/, 'or calls their handler');
like((as('postgres', 'SELECT dataverse_private.state_handler()'))[1], qr/knows neither a copy nor its caller/, 'which needs a function to carry out');
$crm->sql(q{CREATE FUNCTION public.anything(a text) RETURNS text LANGUAGE dataverse_state AS 'BEGIN RETURN CURRENT_USER; END'});
like((as('mallory', q{SELECT public.anything('')}))[1], qr/knows neither a copy nor its caller/, 'that identifies a copy');
$crm->sql('DROP FUNCTION public.anything');
$crm->sql(qq{CREATE PROCEDURE public.committing(copy bigint) LANGUAGE dataverse_state AS 'BEGIN COMMIT; END'});
like((as('alice', "CALL public.committing($copy); SELECT CURRENT_USER"))[1], qr/has the language of functions of state/, 'a procedure cannot make the owner the role of a session');
$crm->sql('DROP PROCEDURE public.committing');

# A role that is dropped while it acts.
$crm->sql('CREATE ROLE shortly; GRANT CREATE ON SCHEMA public TO PUBLIC');
my $dropped = Session->new($node);
$dropped->query('SET ROLE shortly');
$crm->sql('DROP ROLE shortly');
like($dropped->try(q{SELECT dataverse_private.copy_open('dv.contact', 'public.nobodys')})->{message}, qr/invalid role OID/, 'a role that has been dropped has no copies');
$dropped->close;
$crm->sql('REVOKE CREATE ON SCHEMA public FROM PUBLIC');

# ---- an inconsistent state

as('alice', qq{SELECT dataverse_private.copy_put(jsonb_populate_record(dataverse_private.copy_get($copy), jsonb_build_object('columns',
	(SELECT jsonb_agg('firstname'::text) || '["lastname", "contactid"]' FROM generate_series(1, 200000)))))});
is((as('alice', q{UPDATE alice.contact SET lastname = 'L3b' WHERE lastname = 'L3'; SELECT columns FROM alice.contact, LATERAL (SELECT 1 AS columns) AS c LIMIT 1}))[0],
	'1', 'repeated names in the state of a copy do no harm');
is($crm->sql('SELECT columns FROM dataverse_private.local_changes'), '{lastname}', 'and are captured once');
like((as('alice', $sync))[1], qr/: 1 row sent/, 'and sent');

# ---- a type that is altered between reading a page and using it

as('alice', q{CREATE FOREIGN TABLE alice.f (contactid uuid, lastname text, versionnumber bigint) SERVER crm OPTIONS ("table" 'contact', entity_set 'contacts')});
my $read = q{SELECT 1 FROM dataverse_private.read_page('alice.f', NULL, NULL, NULL, NULL, false)};
my $alter = 'ALTER FOREIGN TABLE alice.f ALTER COLUMN versionnumber TYPE';
my $rows = 'SELECT * FROM dataverse_private.page_rows(NULL::alice.f)';
my $altered = qr/type f has been altered since the page was read/;
like((as('alice', "BEGIN; $read; $alter text; $rows"))[1], $altered, 'rows have the type with which they were read');
like((as('alice', "BEGIN; DECLARE c CURSOR FOR $rows; $alter text; $read; FETCH ALL FROM c"))[1], $altered, 'even for an older cursor');
like((as('alice', "BEGIN; $read; $alter text; SELECT dataverse_private.page_add(gen_random_uuid(), ROW(gen_random_uuid(), 'x', 'y')::alice.f)"))[1],
	$altered, 'and for inserted rows');

# ---- operators and types that shadow those of pg_catalog

as('mallory', q{CREATE FUNCTION public.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE FUNCTION public.evil(jsonb, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE FUNCTION public.evil(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE FUNCTION public.evil(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mallory was here'; END $$;
	CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil);
	CREATE OPERATOR public.->> (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = public.evil);
	CREATE OPERATOR public.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.evil);
	CREATE OPERATOR public.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.evil)});
as('mallory', q{CREATE DOMAIN public.text AS pg_catalog.text CHECK (public.evil(VALUE)); CREATE DOMAIN public.jsonb AS pg_catalog.jsonb CHECK (public.evil(VALUE::pg_catalog.text))});
as('alice', q{UPDATE alice.contact SET firstname = 'again' WHERE lastname = 'L4'});
$crm->sql(q{UPDATE dv.contact SET firstname = 'theirs' WHERE lastname IN ('L5', 'L6'); DELETE FROM dv.contact WHERE lastname = 'L20'});
my $open = 'SET search_path = public, pg_catalog;';
like((as('alice', "$open $sync"))[1], qr/: 1 row sent, 0 refused, 0 conflicts; .* 2 updated, 1 deleted/, 'a run uses nothing from the search path of the caller');
like((as('alice', "$open CALL dataverse.untrack('alice.contact'); $pull"))[1], qr/pulled alice\.contact/, 'nor one that only pulls');
like((as('alice', "$open CALL dataverse.pull('dv.contact', 'alice.contact', columns => '{contactid,lastname,firstname,versionnumber}', sweep => '0')"))[1],
	qr/pulled alice\.contact: .* 19 compared/, 'nor does a comparison');
like((as('alice', "$open CALL dataverse.pull_all('dv', 'alice')"))[1], qr/pulled 1 table of schema dv/, 'nor does a pull of all tables');
like((as('alice', "$open CALL dataverse.push('SELECT ''pushed'' AS lastname', 'dv.contact')"))[1],
	qr/pushed to dv\.contact: 1 row sent/, 'nor does a push');
$crm->sql(q{DELETE FROM dv.contact WHERE lastname OPERATOR(pg_catalog.=) 'pushed'});
is((as('alice', "$open SELECT dataverse.forget_copy('alice.task')"))[0], 't', 'nor does forget_copy');
$crm->sql('DROP DOMAIN public.text, public.jsonb; DROP FUNCTION public.evil(text, text), public.evil(pg_catalog.jsonb, text), public.evil(bigint, bigint) CASCADE');

# ---- tables that reuse a name

my $bob = "CALL dataverse.pull('dv.contact', 'public.c', $columns)";
like((as('bob', $bob))[1], qr/: 19 rows read, 19 inserted/, 'a copy is created');
as('bob', "DROP TABLE public.c; CREATE TABLE public.c ($table)");
like((as('bob', $bob))[1], qr/19 inserted/, 'a table that is recreated by hand is filled again');
as('bob', "ALTER TABLE public.c RENAME TO c_old; CREATE TABLE public.c ($table)");
like((as('bob', $bob))[1], qr/19 inserted/, 'and so is one that replaces a renamed table');
like((as('bob', $bob =~ s/public\.c/public.c_old/r))[1], qr/: 0 rows read/, 'which is still a copy');
as('bob', 'DROP TABLE public.c');
as('mallory', "CREATE TABLE public.c ($table)");
like((as('mallory', $bob))[1], qr/19 inserted/, 'and so is one of another role');
is((as('mallory', q{SELECT count(*) FROM dataverse.runs WHERE target = 'public.c'}))[0], '1', 'which does not see the runs of the first one');
as('mallory', q{CALL dataverse.pull('dv.contact', 'public.taken', columns => '{nonesuch}')});
as('bob', 'CREATE TABLE public.taken (activityid uuid PRIMARY KEY, subject text, versionnumber bigint)');
like((as('bob', q{CALL dataverse.pull('dv.task', 'public.taken')}))[1], qr/pulled public\.taken/, 'a reserved name does not keep other roles from using it');

# A state noted under a name is not adopted by a table of another role.
my $current = q{'{"phase": "current", "tracked": true, "token": "1000", "columns": ["contactid"]}'};
my $claimed = sub { $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'public.claimed'}) };
my $claims = q{CALL dataverse.pull('dv.contact', 'public.claimed')};
as('mallory', q{SELECT dataverse_private.copy_open('dv.contact', 'public.claimed')});
as('alice', "CREATE TABLE public.claimed ($table)");
like((as('mallory', "SELECT dataverse_private.copy_put(jsonb_populate_record(dataverse_private.copy_get(@{[ $claimed->() ]}), $current))"))[1], qr/must be owner of table public\.claimed/, 'nor is a state that was noted before the table was created');
like((as('mallory', "SELECT dataverse_private.copy_track(@{[ $claimed->() ]}, 'contactid', 'versionnumber')"))[1], qr/must be owner of table public\.claimed/, 'nor are captured changes');
like((as('alice', $claims))[1], qr/: 19 rows read, 19 inserted/, 'the table is filled');
as('alice', q{SELECT dataverse.forget_copy('public.claimed'); DROP TABLE public.claimed});

# A run writes the state that it has read, but undoes nothing of what others write.
as('alice', "$claims; CALL dataverse.track('public.claimed')");
my $keeper = Session->new($node);
$keeper->query('SET ROLE alice');
$keeper->query("CREATE TEMP TABLE kept AS SELECT dataverse_private.copy_get(@{[ $claimed->() ]}) AS c");
as('alice', "CALL dataverse.untrack('public.claimed'); $claims");
my $others = q{SELECT id_column IS NULL, phase, succeeded_at FROM dataverse_private.copies WHERE target = 'public.claimed'};
my $restarted = $crm->sql($others);
like($restarted, qr/^t\|current\|/, 'a copy is no longer tracked, and pulled again');
$keeper->query(q{SELECT dataverse_private.copy_put(jsonb_populate_record(c, '{"link": "x"}')) FROM kept});
is($crm->sql($others), $restarted, 'which a state that was read before does not undo');
is($crm->sql(q{SELECT link FROM dataverse_private.copies WHERE target = 'public.claimed'}), 'x', 'and the run writes what is its own');
as('alice', "DROP TABLE public.claimed; CREATE TABLE public.claimed ($table); SELECT dataverse_private.copy_open('dv.contact', 'public.claimed')");
like($keeper->try('SELECT dataverse_private.copy_put(c) FROM kept')->{message}, qr/table public\.claimed was replaced by another one during the run/,
	'a state of another table is refused');
like((as('alice', $claims))[1], qr/: 19 rows read, 19 inserted/, 'so all rows are read');
as('alice', q{SELECT dataverse.forget_copy('public.claimed'); DROP TABLE public.claimed});

# A role cannot stop others by keeping its own entries locked.
my $locker = Session->new($node);
my $blocked = Session->new($node);
my $impatience = "SET statement_timeout = '20s';";
$locker->query('SET ROLE mallory');
$blocked->query('SET ROLE alice');
$locker->query('BEGIN');
$locker->query(q{SELECT dataverse_private.copy_open('dv.contact', 'public.claimed')});
$locker->query("SELECT dataverse_private.copy_put(jsonb_populate_record(dataverse_private.copy_get(id), $current)) FROM (SELECT dataverse_private.copy_open('dv.contact', 'public.claimed') AS id OFFSET 0) AS c");
$blocked->query("CREATE TABLE public.claimed ($table)");
$blocked->start($claims);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}) or die;
$locker->query('COMMIT');
is($blocked->finish->{message}, undef, 'a table is pulled while another session is noting its name');
is($crm->sql('SELECT count(*) FROM public.claimed'), '19', 'and is filled');
as('mallory', qq{CALL dataverse.pull('dv.contact', 'mallory.c', $columns); ALTER TABLE mallory.c RENAME TO renamed;
	CREATE FOREIGN TABLE mallory.f (contactid uuid, lastname text) SERVER crm OPTIONS ("table" 'contact', entity_set 'contacts')});
as('mallory', q{CALL dataverse.push('SELECT repeat(''x'', 1000) AS lastname', 'mallory.f')});
as('mallory', q{ALTER FOREIGN TABLE mallory.f RENAME TO renamed_too});
$locker->query('BEGIN');
$locker->query(q{SELECT dataverse_private.copy_put(dataverse_private.copy_get(dataverse_private.copy_of('mallory.renamed')))});
$locker->query(q{SELECT dataverse.forget_push(id) FROM dataverse.pushes});
unlike((as('alice', "$impatience $claims"))[1], qr/ERROR/, 'a locked, renamed copy of another role delays no run');
like((as('alice', "$impatience CALL dataverse.push('SELECT ''pushed'' AS lastname', 'dv.contact')"))[1],
	qr/1 row sent/, 'nor does a push to a renamed table');
$locker->query('ROLLBACK');
is((as('mallory', q{SELECT dataverse.forget_push(id) FROM dataverse.pushes; SELECT dataverse.forget_copy('mallory.renamed'); SELECT count(*) FROM dataverse.sync_state WHERE target LIKE 'mallory.%'}))[0],
	"t\nt\n0", 'both are found');
$_->close for $locker, $blocked;
as('alice', "CALL dataverse.pull('dv.contact', 'alice.before', $columns); ALTER TABLE alice.before RENAME TO later; $claims");
is((as('alice', q{SELECT string_agg(target, ' ') FROM dataverse.sync_state WHERE target IN ('alice.before', 'alice.later')}))[0], 'alice.later',
	'the names of all copies of a role are updated when it pulls any of them');
as('alice', q{SELECT dataverse.forget_copy('alice.later'); DROP TABLE alice.later});
$crm->sql(q{DELETE FROM dv.contact WHERE lastname = 'pushed'; SELECT dataverse.forget_copy('public.claimed'); DROP TABLE public.claimed});

# A table created by another role beforehand gets no rights of a superuser who pulls a whole schema.
$crm->sql('CREATE SCHEMA copies; GRANT ALL ON SCHEMA copies TO mallory');
as('mallory', qq{CREATE TABLE copies.contact ($table); CREATE FUNCTION mallory.rise() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN ALTER ROLE mallory SUPERUSER; RETURN NEW; EXCEPTION WHEN insufficient_privilege THEN RETURN NEW; END';
	CREATE TRIGGER rise BEFORE INSERT ON copies.contact FOR EACH ROW EXECUTE FUNCTION mallory.rise()});
my $all = q{CALL dataverse.pull_all('dv', 'copies')};
like((as('postgres', $all))[1], qr/could not pull copies\.contact: the table belongs to role "mallory"\nDETAIL:  Its triggers .*\nHINT:  .*SET ROLE mallory.*ERROR:  1 of 2 tables could not be pulled/s,
	'it is skipped, and the error gives the reason');
is($crm->sql(q{SELECT rolsuper, (SELECT count(*) FROM copies.contact) FROM pg_roles WHERE rolname = 'mallory'}), 'f|0', 'none of its code runs');
unlike((as('postgres', 'ALTER TABLE copies.contact OWNER TO CURRENT_USER; DROP TRIGGER rise ON copies.contact; ' . $all))[1], qr/ERROR/, 'a table of superusers is pulled');
$crm->sql(q{SELECT dataverse.forget_copy('copies.contact'), dataverse.forget_copy('copies.task'); DROP SCHEMA copies CASCADE});

# A page belongs to the role that has read it.
as('alice', q{CREATE FUNCTION alice.read_some() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
	$$ SELECT r.upserts FROM dataverse_private.read_page('dv.contact', NULL, NULL, NULL, NULL, false) AS r $$});
for my $peek (q{page_rows(NULL::dv.contact)}, q{page_deletions()}, q{page_window(0, 1)}, q{page_repeated()})
{
	like((as('bob', "BEGIN; SELECT alice.read_some(); SELECT * FROM dataverse_private.$peek"))[1], qr/page has been read by another role/, "no other role can access it: $peek");
}

# SELECT on a foreign table does not include other requests to its server.
$crm->sql('REVOKE USAGE ON FOREIGN SERVER crm FROM bob');
for my $request (q{dataverse_private.read_page('dv.contact', NULL, NULL, NULL, NULL, false)}, q{dataverse.changes('dv.contact')}, q{dataverse_private.pull_info('dv.contact')}, q{dataverse_private.first_token('dv.contact')},
	q{dataverse_private.copy_count_changes('dv.contact', NULL, 0, 1000)})
{
	like((as('bob', "SELECT FROM $request"))[1], qr/permission denied for foreign server crm/, "USAGE is needed: $request");
}
is((as('bob', 'SELECT count(*) > 0 FROM dv.contact'))[0], 't', 'but not for the table itself');
$crm->sql('GRANT USAGE ON FOREIGN SERVER crm TO bob');

# A row whose referenced row is still pending in a copy of another role waits for that row.
my $family = q{columns => '{contactid,lastname,parentcustomerid,parentcustomeridtype,versionnumber}'};
my $parent = $crm->sql('SELECT dataverse.new_id()');
as($_, "CALL dataverse.sync('dv.contact', '$_.people', $family)") for qw(alice bob);
as('bob', "INSERT INTO bob.people (contactid, lastname) VALUES ('$parent', 'parent')");
as('alice', "INSERT INTO alice.people (lastname, parentcustomerid, parentcustomeridtype) VALUES ('child', '$parent', 'contact')");
like((as('alice', "CALL dataverse.sync('dv.contact', 'alice.people', $family)"))[1], qr/: 0 rows sent, 1 refused, 1 conflict;/,
	'a row is not sent without its reference while that is pending in a copy of another role');
like((as('bob', "CALL dataverse.sync('dv.contact', 'bob.people', $family)"))[1], qr/: 1 row sent, 0 refused, 0 conflicts;/, 'the referenced row is sent');
like((as('alice', "CALL dataverse.sync('dv.contact', 'alice.people', $family)"))[1], qr/: 1 row sent, 0 refused, 0 conflicts;/, 'and then the first one');
is($crm->sql(q{SELECT parentcustomerid FROM dv.contact WHERE lastname = 'child'}), $parent, 'with its reference');
as($_, "SELECT dataverse.forget_copy('$_.people'); DROP TABLE $_.people") for qw(alice bob);
$crm->sql(q{DELETE FROM dv.contact WHERE lastname IN ('child', 'parent')});

# ---- tables that change while a run waits for them

my $session = Session->new($node);
my $waiting = Session->new($node);
my $mine = "CALL dataverse.pull('dv.contact', 'public.mine', $columns)";
$crm->sql($mine);

# Returns the error of a run that has waited until these statements were committed.
sub overtaken
{
	my ($sql) = @_;

	$crm->sql(q{UPDATE dv.contact SET firstname = firstname || 'x' WHERE lastname = 'L1'});
	$session->query('BEGIN');
	$session->query('LOCK TABLE public.mine IN SHARE MODE');
	$waiting->start($mine);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}) or die;
	$session->query($_) for split /; /, $sql;
	$session->query('COMMIT');
	return $waiting->finish->{message} // '';
}

like(overtaken("DROP TABLE public.mine; CREATE TABLE public.mine ($table)"), qr/table public\.mine was replaced by another one during the run/,
	'a run does not continue with another table of the same name');
$crm->sql($mine);
is($crm->sql('SELECT count(*) FROM public.mine'), '19', 'which the next one fills');
$crm->sql('ALTER TABLE public.mine OWNER TO alice;');
$waiting->query('SET ROLE alice');
like(overtaken('ALTER TABLE public.mine ENABLE ROW LEVEL SECURITY; ALTER TABLE public.mine FORCE ROW LEVEL SECURITY'),
	qr/row security of table public\.mine applies to role alice/, 'nor with a table that now hides rows');
$crm->sql('ALTER TABLE public.mine NO FORCE ROW LEVEL SECURITY');
$waiting->query('RESET ROLE');
$crm->sql(qq{DROP TABLE public.mine; CREATE TABLE public.mine ($table)});
$crm->sql(q{CALL dataverse.track('public.mine')});
$crm->sql($mine);
is($crm->sql('SELECT count(*) FROM public.mine'), '19', 'a table that is recreated and tracked at once is filled as well');
$crm->sql(q{UPDATE public.mine SET firstname = 'ours' WHERE lastname = 'L7'});
is($crm->sql(q{SELECT l.operation, l.columns FROM dataverse_private.local_changes AS l JOIN dataverse_private.copies AS c ON c.id = l.copy WHERE target = 'public.mine'}),
	'U|{firstname}', 'and its changes are captured');

# Local changes made while a row waits to be merged are kept.
$waiting->query("SET default_transaction_isolation = 'serializable'");
is(overtaken("UPDATE public.mine SET firstname = 'ours' WHERE lastname = 'L1'"), '', 'a run sees rows committed while it waited, at any isolation level');
$waiting->query('RESET default_transaction_isolation');
is($crm->sql(q{SELECT firstname FROM public.mine WHERE lastname = 'L1'}), 'ours', 'and does not change them');
$crm->sql("UPDATE dv.contact SET firstname = 'theirs' WHERE lastname = 'L1'");
$crm->sql("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'");
like((as('postgres', "CALL dataverse.sync('dv.contact', 'public.mine', $columns)"))[1], qr/1 conflict;/, 'neither does a run that also sends');
$crm->sql('ALTER DATABASE postgres RESET default_transaction_isolation');
my $shown = $crm->sql('SELECT id FROM dataverse.conflicts');
my $mine_id = $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'public.mine'});
my $row = $crm->sql('SELECT row_id FROM dataverse.conflicts');
$session->query('BEGIN');
$session->query("SELECT dataverse.resolve($shown, 'local')");
$waiting->start(qq{SELECT dataverse_private.pending_keep($mine_id, '{$row}', false)});
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}) or die;
$session->query('COMMIT');
$waiting->finish;
is($crm->sql('SELECT decision FROM dataverse.conflicts'), 'local', 'nor does it undo a decision made meanwhile');
$crm->sql(q{CALL dataverse.untrack('public.mine')});

# ---- a run that ends with an error while its session continues

# Starts a run of which dvsim does not answer a request; it has the lock then.
sub stalled
{
	my ($run, $after) = @_;

	$crm->fault(method => 'GET', path => '/contacts?', after => $after, times => 0, action => 'stall');
	$run->start($mine);
	for (1 .. 3000)
	{
		return if $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits};
		sleep 0.02;
	}
	die 'no request is stalled';
}

sub cancelled
{
	my ($run) = @_;

	$crm->sql('SELECT pg_cancel_backend(' . $run->pid . ')');
	is($run->finish->{sqlstate}, '57014', 'the run is cancelled');
	$crm->no_faults;
	return;
}

my $locks = q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'};

stalled($waiting, 0);
$session->start($mine);
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND NOT granted}) or die;
$crm->sql(q{SELECT dataverse.forget_copy('public.mine')});
cancelled($waiting);
my $result = $session->finish;
like($result->{message} // '', qr/could not pull public\.mine: the copy has been forgotten/, 'a copy is forgotten while a run waits for its turn');
is($crm->sql($locks), '0', 'and the run holds no lock');
$crm->sql($mine);
# the table refuses a row, which is requested again in another transaction
$crm->sql(q{ALTER TABLE public.mine ADD CHECK (lastname <> 'no'); UPDATE dv.contact SET lastname = 'no' WHERE lastname = 'L8'});
stalled($waiting, 1);
is($crm->sql('SELECT refused FROM dataverse.sync_state WHERE target = $$public.mine$$') . '|' . $crm->sql($locks), '1|1',
	'errors and commits within the procedure do not release a lock');
cancelled($waiting);
is($crm->sql($locks), '0', 'but an error that ends it does');
$crm->sql(q{ALTER TABLE public.mine DROP CONSTRAINT mine_lastname_check; UPDATE dv.contact SET lastname = 'L8' WHERE lastname = 'no'});

# No other role can take the lock.
my $id = $crm->sql(q{SELECT id FROM dataverse_private.copies WHERE target = 'public.mine'});
like((as('mallory', $mine))[1], qr/could not pull public\.mine: must be owner of table public\.mine/, 'only the owner of a table locks its copy');
is((as('mallory', "SELECT pg_advisory_lock(dataverse_private.copy_lock_class(), $id); SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'"))[0], "\n0",
	'unlike with advisory locks');

# Two sessions begin to create the same copy.
$_->query('SELECT 1') for $session, $waiting;
$session->query('BEGIN');
$session->query(q{SELECT dataverse_private.copy_open('dv.contact', 'public.twice')});
$waiting->start("CALL dataverse.pull('dv.contact', 'public.twice', $columns)");
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}) or die;
$session->query('COMMIT');
$result = $waiting->finish;
is($result->{message}, undef, 'a copy begun by two sessions at the same time is one copy');

# ---- a server that moves to another address

my $other = Dvsim->start('--app-user', 'app1:secret1');
my $url = $crm->dvsim->base;
my $moved = q{CALL dataverse.sync('dv.contact', 'public.moved')};
my $pushed = q{CALL dataverse.push('SELECT ''M'' || i AS lastname FROM generate_series(1, 300) AS i', 'dv.contact', chunk => 100)};
my $move = sub { $crm->sql(qq{ALTER SERVER crm OPTIONS (SET url '$_[0]', SET token_url '$_[0]/t/oauth2/v2.0/token')}) };
$crm->sql($moved);
$crm->sql(q{UPDATE public.moved SET firstname = 'ours' WHERE lastname = 'L8'});
$crm->fault(path => 'CreateMultiple', after => 1, times => 0, action => 'stall');
like((as('postgres', "SET statement_timeout = 1500; $pushed"))[1], qr/Of 300 rows, 100 are done/, 'a push stops');
$crm->no_faults;
$move->($other->base);
$crm->sql(q{INSERT INTO dv.contact (lastname) SELECT 'other ' || i FROM generate_series(1, 30) AS i});
my $said = (as('postgres', $moved))[1];
like($said, qr/because they were read from \S+, but its server is now \S+/, 'a run notices that the server has moved');
like($said, qr/0 rows sent, 0 refused, 1 conflicts?; 30 read, 30 inserted, 0 updated, 18 deleted/, 'and does not match its rows with those of the former address');
is($crm->sql(q{SELECT count(*) FROM (SELECT contactid, lastname, versionnumber FROM public.moved EXCEPT SELECT contactid, lastname, versionnumber FROM dv.contact) AS x}), '1',
	'except for the one with a local change');
unlike((as('postgres', $moved))[1], qr/because they were read/, 'then it continues');
like((as('postgres', $pushed))[1], qr/was started to \S+, but the server of the foreign table is now \S+\nDETAIL:  100 of its 300 rows were sent to the former address, and 100 more may have been/,
	'a push does not continue with another server');
is($crm->sql(q{SELECT count(*) FROM dv.contact WHERE lastname LIKE 'M%'}), '0', 'nothing is sent to it');
$move->($url);
like((as('postgres', $pushed))[1], qr/\d+ rows sent/, 'but with the first one');
is($crm->sql(q{SELECT count(*), count(DISTINCT lastname) FROM dv.contact WHERE lastname LIKE 'M%'}), '300|300', 'and sends each row once');
$crm->sql(q{DELETE FROM dv.contact WHERE lastname LIKE 'M%'; SELECT dataverse.forget_copy('public.moved')});

# ---- sessions that use a copy at the same time

# Starts a statement, and waits until one of its requests is delayed, or it waits for a lock.
sub start_and_wait
{
	my ($s, $sql, $event) = @_;

	$s->start($sql);
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = @{[ $s->pid ]} AND wait_event_type = '$event'") or die;
	for (1 .. $event eq 'Extension' ? 600 : 0)
	{
		last if $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits};
		sleep 0.05;
	}
	return;
}

# A run that waits for Dataverse does not block others.
my $impatient = "SET statement_timeout = '20s';";
for my $case ([ 'pull', 'contact', 'in a first read' ], [ 'pull', 'task', 'in a read without change tracking' ], [ 'sync', 'contact', 'at a page of changes' ])
{
	my ($procedure, $from, $what) = @$case;
	my $copy = "public.busy_$from";
	my $sql = "CALL dataverse.$procedure('dv.$from', '$copy')";

	$crm->sql("CALL dataverse.$procedure('dv.$from', '$copy')") unless $what =~ /first/;
	$crm->fault(method => 'GET', path => $procedure eq 'sync' ? '/contacts?' : "/${from}s", times => 1, action => 'delay', delay_ms => 4000);
	start_and_wait($session, $sql, 'Extension');
	is($crm->sql("SELECT string_agg(mode, ' ') FROM pg_locks WHERE relation = to_regclass('$copy') AND pid = " . $session->pid), '',
		"$what: the table is not locked");
	like((as('postgres', "$impatient " . $sql =~ s/\)$/, wait => false)/r))[1], qr/skipped $copy: another session is pulling or syncing it/,
		'another run does not wait if told so');
	unless ($what =~ /first/)
	{
		unlike((as('postgres', "$impatient CALL dataverse.untrack('$copy'); CALL dataverse.track('$copy')"))[1], qr/ERROR/, 'the capture of changes can end and begin');
	}
	is((as('postgres', "$impatient SELECT dataverse.forget_copy('$copy')"))[0], "t", 'and the copy can be forgotten');
	$crm->no_faults;
	like($session->finish->{message} // '', qr/could not $procedure $copy: the copy has been forgotten/, 'as the run reports');
	unlike((as('postgres', $sql))[1], qr/ERROR/, 'the next one starts over');
}
is($crm->sql(q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'}), '0', 'and no lock of a run is left');

# The table is locked before the state of the copy.
for my $statement (q{CALL dataverse.untrack('public.busy_task')}, q{SELECT dataverse.forget_copy('public.busy_task')})
{
	$crm->sql(q{CALL dataverse.track('public.busy_task')});
	$session->query('BEGIN');
	$session->query('LOCK TABLE public.busy_task IN SHARE ROW EXCLUSIVE MODE');
	$waiting->query('SET deadlock_timeout = 10');
	start_and_wait($waiting, q{CALL dataverse.pull('dv.task', 'public.busy_task')}, 'Lock');
	is($session->try($statement)->{message}, undef, "during a run: $statement");
	$session->query('COMMIT');
	$result = $waiting->finish;
	like($result->{message} // '', $statement =~ /forget/ ? qr/the copy has been forgotten/ : qr/^$/, 'and the run reports the correct state');
	$crm->sql(q{CALL dataverse.pull('dv.task', 'public.busy_task')});
}

# Triggers that another session is about to create do not outlive the copy.
for my $statement (q{CALL dataverse.untrack('public.busy_task')}, q{SELECT dataverse.forget_copy('public.busy_task')})
{
	$session->query('BEGIN');
	$session->query(q{CALL dataverse.track('public.busy_task')});
	start_and_wait($waiting, $statement, 'Lock');
	$session->query('COMMIT');
	is($waiting->finish->{message}, undef, "during track(): $statement");
	is($crm->sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.busy_task'::regclass AND tgname LIKE 'dataverse%'}), '0', 'no trigger is left');
	$crm->sql(q{UPDATE public.busy_task SET subject = subject; CALL dataverse.pull('dv.task', 'public.busy_task')});
}
# Other tables are not affected.
$session->query('BEGIN; LOCK TABLE public.mine');
is((as('postgres', "$impatient CALL dataverse.track('public.busy_task'); CALL dataverse.untrack('public.busy_task')"))[1], '', 'tables that are locked do not matter to others');
$session->query('COMMIT');

# The second of two concurrent calls finds the work done.
for my $statement (q{CALL dataverse.track('public.busy_task')}, q{CALL dataverse.untrack('public.busy_task')})
{
	$session->query('BEGIN');
	$session->query($statement);
	start_and_wait($waiting, $statement, 'Lock');
	$session->query('COMMIT');
	is($waiting->finish->{message}, undef, "twice concurrently: $statement");
	is($crm->sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.busy_task'::regclass AND tgname LIKE 'dataverse%'}),
		$statement =~ /untrack/ ? '0' : '4', 'and it is done');
}

$_->close for $session, $waiting;
$crm->stop;
done_testing();
