# upgrade.pl
#		ALTER EXTENSION ... UPDATE from each earlier version: the objects are those of a new
#		installation, and state, privileges, and what users have built on the extension remain.
#
# upgrade/ has the scripts of the earlier versions.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use File::Copy qw(copy);
use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../dvsim/t/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my ($sharedir) = qx(pg_config --sharedir) =~ /(.*)/;
my $crm = Crm->start('upgrade', preload => 1);
my $node = $crm->node;

sub in
{
	my ($database, $sql) = @_;
	return $node->safe_psql($database, $sql);
}

# Everything that belongs to the extension, with its definition, comment, and privileges.
my $objects = q{
	SELECT o FROM (
		SELECT 'function', p.oid::regprocedure::text, concat_ws(E'\n', CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END,
			obj_description(p.oid, 'pg_proc'), p.proacl::text, p.proowner::regrole)
		FROM pg_proc AS p WHERE p.pronamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
		UNION ALL
		SELECT 'relation', c.oid::regclass::text, concat_ws(E'\n', c.relkind, c.reloptions, CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END,
			obj_description(c.oid, 'pg_class'), array(SELECT a FROM aclexplode(c.relacl) AS a ORDER BY 1)::text, c.relowner::regrole,
			CASE c.relkind WHEN 'i' THEN pg_get_indexdef(c.oid) END)
		FROM pg_class AS c WHERE c.relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND c.relkind <> 't'
		UNION ALL
		SELECT 'column', c.oid::regclass || '.' || a.attname, concat_ws(E'\n', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
			a.attgenerated, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum), a.attacl::text)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (c.oid, a.attnum)
		WHERE c.relnamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace) AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL
		SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint
		WHERE connamespace IN ('dataverse'::regnamespace, 'dataverse_private'::regnamespace)
		UNION ALL
		SELECT 'trigger', tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) FROM pg_trigger
		WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE 'dataverse%'
		UNION ALL
		SELECT 'rule', ev_class::regclass || '.' || rulename, pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class::regclass::text LIKE 'dataverse%'
		UNION ALL
		SELECT 'member', pg_describe_object(classid, objid, 0), '' FROM pg_depend
		WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dataverse_fdw')
		UNION ALL
		SELECT 'dumped', u::regclass::text, '' FROM pg_extension, unnest(extconfig) AS u WHERE extname = 'dataverse_fdw'
		UNION ALL
		SELECT 'version', extversion, '' FROM pg_extension WHERE extname = 'dataverse_fdw') AS t (kind, name, definition),
		LATERAL (SELECT concat_ws(' ', kind, name, definition)) AS l (o)
	ORDER BY o COLLATE "C"};

my @state = qw(copies copy_ids copy_refused run_log local_changes pending rejected_rows push_states);

sub state
{
	my ($database) = @_;
	return join "\n", map { "$_: " . in($database, "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '-') FROM dataverse_private.$_ AS t") } @state;
}

# ---- state of every kind, made by this version

$crm->dvsim->control('POST', '/_dvsim/seed?table=account&rows=30');
$crm->sql(q{
	CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	CALL dataverse.sync('dv.account', 'public.account');
	UPDATE account SET name = 'edited before' WHERE accountid = (SELECT min(accountid::text)::uuid FROM account);
	INSERT INTO account (name) VALUES ('new before');
	SET dataverse_fdw.on_error = 'continue';
	INSERT INTO dv.contact (lastname, parentcustomerid, parentcustomeridtype) VALUES ('refused', gen_random_uuid(), 'account')});
$crm->fault(action => 'status', method => 'POST', contains => 'pushed 15', status => 400, code => '0x80040203', times => 100);
$node->psql('postgres', q{CALL dataverse.push('SELECT ''pushed '' || i AS lastname FROM generate_series(1, 30) AS i', 'dv.contact', chunk => 10)});
$crm->no_faults;
unlike(state('postgres'), qr/^(?:copies|run_log|local_changes|rejected_rows|push_states): -/m, 'there is state of each kind');
my $fresh = in('postgres', $objects);
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'it is kept');
$crm->sql('CREATE ROLE auditor; CREATE ROLE nobody_else');

# a function of another version does not read values that the library does not set
$crm->sql(q{CREATE FUNCTION other_version(OUT a text, OUT b text) AS '$libdir/dataverse_fdw', 'dataverse_version' LANGUAGE C;
	CREATE FUNCTION other_options(OUT a text, OUT b text) RETURNS SETOF record AS '$libdir/dataverse_fdw', 'dataverse_options' LANGUAGE C});
for my $name (qw(other_version other_options))
{
	like(($node->psql('postgres', "SELECT * FROM $name()"))[2],
		qr/function $name\(\) belongs to another version of dataverse_fdw than its library.*\n.*ALTER EXTENSION dataverse_fdw UPDATE/, "$name");
}

# ---- each earlier version

for my $script (sort glob "$FindBin::Bin/upgrade/dataverse_fdw--*.sql")
{
	my ($version) = $script =~ /--(.+)\.sql$/;
	my $database = "from_$version" =~ s/\W/_/gr;

	copy($script, "$sharedir/extension") or die "$sharedir/extension: $!";
	in('postgres', "CREATE DATABASE $database");
	my $restored = slurp_file($dump) =~ s/^(CREATE EXTENSION (?:IF NOT EXISTS )?dataverse_fdw\b[^;]*);/$1 VERSION '$version';/mr;
	append_to_file("$dump.$version", $restored);
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dump.$version", $node->connstr($database) ], "$version: a database");
	my $state = state($database);
	is(in($database, q{SELECT extversion FROM pg_extension WHERE extname = 'dataverse_fdw'}), $version, '... of that version');
	unlike($state, qr/^(?:copies|run_log|local_changes|rejected_rows|push_states): -/m, '... with state of each kind');
	in($database, q{
		CREATE VIEW public.throttled AS SELECT name, throttled FROM dataverse.pool;
		CREATE VIEW public.failed AS SELECT target, error FROM dataverse.runs WHERE status = 'failed';
		CREATE TABLE public.staged (id uuid DEFAULT dataverse.new_id(), name text);
		CREATE FUNCTION public.newest() RETURNS SETOF dataverse.runs LANGUAGE sql AS 'SELECT * FROM dataverse.runs ORDER BY id DESC LIMIT 1';
		GRANT SELECT ON dataverse_private.run_log TO auditor;
		REVOKE EXECUTE ON FUNCTION dataverse.request(name, text, text, jsonb) FROM PUBLIC});

	# functions of the earlier version, called in this library, work, or say what to do
	for my $name (split(/\n/, in($database, q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'dataverse'::regnamespace AND relkind = 'v'})),
		'dataverse.version()', 'dataverse.options()', q{dataverse.whoami('crm')}, q{dataverse.test_connection('crm')}, q{dataverse.import_diff('dv')})
	{
		my ($status, undef, $err) = $node->psql($database, "SELECT * FROM $name");
		ok($status == 0 || $err =~ /belongs to another version .*\n.*ALTER EXTENSION dataverse_fdw UPDATE/, "$name with this library") or diag($err);
	}

	in($database, 'ALTER EXTENSION dataverse_fdw UPDATE');
	my (%was, %is);
	# the privileges that were changed above
	my $granted = qr/^(?:relation dataverse_private\.run_log|function dataverse\.request\()/;
	my $kind = qr/\n(?=(?:function|relation|column|constraint|trigger|rule|member|dumped|version) )/;
	@was{ grep { !/$granted/ } split $kind, $fresh } = ();
	@is{ grep { !/$granted/ } split $kind, in($database, $objects) } = ();
	is(join("\n", grep { !exists $is{$_} } sort keys %was), '', 'nothing of a new installation is missing');
	is(join("\n", grep { !exists $was{$_} } sort keys %is), '', 'and nothing else is left');
	ok(state($database) eq $state, 'state remains');
	is(in($database, q{SELECT has_table_privilege('auditor', 'dataverse_private.run_log', 'SELECT'),
		has_function_privilege('nobody_else', 'dataverse.request(name, text, text, jsonb)', 'EXECUTE')}), 't|f', 'and so do privileges');
	is(in($database, q{SELECT count(*) > 0 FROM throttled; SELECT count(*) > 0 FROM failed; INSERT INTO staged (name) VALUES ('x'); SELECT count(*) FROM newest()}),
		"t\nt\n1", 'and what users have built');
	is(in($database, 'SELECT count(*) > 10 FROM dataverse.metrics'), 't', 'new views work');

	# the work goes on where it was
	$node->safe_psql($database, q{CALL dataverse.push('SELECT ''pushed '' || i AS lastname FROM generate_series(1, 30) AS i', 'dv.contact', chunk => 10)});
	is($crm->sql(q{SELECT count(*), count(DISTINCT lastname) FROM dv.contact WHERE lastname LIKE 'pushed%'}), '30|30', 'the push continues');
	in($database, q{CALL dataverse.sync('dv.account', 'public.account')});
	is($crm->sql(q{SELECT string_agg(name, ', ' ORDER BY name) FROM dv.account WHERE name LIKE '% before'}), 'edited before, new before', 'captured changes are sent');
	is(in($database, 'SELECT count(*) FROM (TABLE dv.account EXCEPT TABLE account) AS x'), 0, 'and the copy is in step');
}
$crm->stop;
done_testing();
