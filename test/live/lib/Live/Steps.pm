# Steps.pm
#		What the check does, in order: one line of SQL, or a few, for each step.
#
# A step has a name, what it needs of the environment beyond the standard
# tables, the shapes of requests that it sends (of Shapes.pm), and SQL.  In
# the SQL, words in braces stand for what is known only when it runs:
#
#	{tag}				how the names of all rows of this run begin
#	{run}				the eight digits of the run
#	{server} {schema}	of this run
#	{id.NAME}			an id, the same wherever NAME is the same
#	{ROLE.table} …		see @roles
#
# What it prints must not depend on anything but the service: no times, no
# ids that the service makes, no counts of rows that are not ours.
#
# SPDX-License-Identifier: PostgreSQL

package Live::Steps;

use strict;
use warnings;

# How the requests of these steps are divided depends on how long answers take.
our %by_time = map { $_ => 1 } qw(ranges);

# These tables are in every environment.
our @standard = qw(account contact task);

# What an environment may lack: columns that the standard tables do not have, which are looked
# for in the tables that the caller has named, and what the service may refuse.  The query
# "sql" returns the members of the role, if there is one; the query "refusal" is tried, and its
# error says why there is none.
our @roles = (
	(
		map {
			my ($role, $type) = @$_;
			{
				name => $role,
				what => "a column of type \"$type\"",
				sql => "SELECT c.\"table\", c.\"column\", t.id, t.label, format('''{%s}''', c.choice) FROM {schema}_roles.columns c
					JOIN {schema}_roles.tables t USING (\"table\")
					WHERE c.type = '$type' AND NOT c.readonly AND t.kind = 'standard' AND t.label IS NOT NULL
					ORDER BY t.rank, c.rank LIMIT 1",
				members => [qw(table column id name values)]
			}
		} [ choices => 'choices' ],
		[ local_time => 'datetime_independent' ],
		[ bigint => 'bigint' ],
		[ decimal => 'decimal' ]
	),
	{
		name => 'image',
		what => 'an image that is not the primary one',
		sql => "SELECT c.\"table\", c.\"column\", t.id, t.label FROM {schema}_roles.columns c
			JOIN {schema}_roles.tables t USING (\"table\")
			WHERE c.type = 'image' AND NOT c.primary_image AND NOT c.readonly AND t.kind = 'standard' AND t.label IS NOT NULL
			ORDER BY t.rank, c.rank LIMIT 1",
		members => [qw(table column id name)]
	},
	{
		name => 'file',
		what => 'a column of type "file"',
		sql => "SELECT c.\"table\", c.\"column\", t.id, t.label FROM {schema}_roles.columns c
			JOIN {schema}_roles.tables t USING (\"table\")
			WHERE c.type = 'file' AND t.label IS NOT NULL ORDER BY t.rank, c.rank LIMIT 1",
		members => [qw(table column id name)]
	},
	{
		name => 'keyed',
		what => 'an alternate key of one text column',
		sql => "SELECT c.\"table\", c.\"column\", t.id, t.label FROM {schema}_roles.columns c
			JOIN {schema}_roles.tables t USING (\"table\")
			WHERE c.type = 'string' AND NOT c.readonly AND t.kind = 'standard' AND t.label IS NOT NULL
			  AND c.\"column\" = ANY (string_to_array(t.keys, ';'))
			ORDER BY t.rank, c.rank LIMIT 1",
		members => [qw(table column id name)]
	},
	{
		name => 'elastic',
		what => 'an elastic table',
		sql => "SELECT t.\"table\", t.id, t.label, t.set FROM {schema}_roles.tables t
			WHERE t.kind = 'elastic' AND t.label IS NOT NULL ORDER BY t.rank LIMIT 1",
		members => [qw(table id name set)]
	},
	{
		name => 'pairs',
		what => 'an intersect table of accounts and contacts',
		sql => "SELECT t.\"table\", a.\"column\", c.\"column\" FROM {schema}_roles.tables t
			JOIN {schema}_roles.columns a USING (\"table\") JOIN {schema}_roles.columns c USING (\"table\")
			WHERE t.kind = 'intersect' AND a.target = 'account' AND c.target = 'contact' ORDER BY t.rank LIMIT 1",
		members => [qw(table account contact)]
	},
	# a copy of a table has all its rows
	{
		name => 'few',
		unless => 'there are more than 5000 accounts, all of which it would read',
		sql => "SELECT greatest(5, n / 4) FROM dataverse.row_count('account') n WHERE n <= 5000",
		members => [qw(page)]
	},
	{
		name => 'tracked',
		unless => 'changes of accounts cannot be read',
		refusal => "SELECT 1 FROM dataverse.changes(''{schema}.account'')",
		members => []
	},
	# known once CreateMultiple has been accepted: without it, the service carries out and refuses single rows
	{
		name => 'bulk',
		unless => 'this environment has no bulk messages for accounts'
	},
	{
		name => 'truncate',
		unless => 'no table to truncate is specified, or it is not a standard table',
		sql => "SELECT t.\"table\", t.id, t.label FROM {schema}_roles.tables t
			WHERE t.kind = 'standard' AND t.\"table\" = '{truncate}' AND t.label IS NOT NULL",
		members => [qw(table id name)]
	});

# The names of our accounts that a condition finds.
sub accounts
{
	return map { found('account', 'name', $_) } @_;
}

sub found
{
	my ($table, $name, $condition) = @_;

	return "SELECT string_agg(substr($name, length('{tag}') + 2), ' ' ORDER BY $name)"
	  . " FROM $table WHERE starts_with($name, '{tag}') AND $condition;";
}

# the rows of a table by the first letters of their names
sub row
{
	my ($values) = @_;
	return $values =~ s/\b([a-z]\d)\b/'{id.$1}', '{tag} $1'/r;
}

# Runs queries with tables that have pages of two rows, and so that the planner leaves joins and groups to the service.
sub pushed
{
	my ($tables, @queries) = @_;
	my @off = map { "enable_$_" } qw(hashjoin mergejoin nestloop hashagg sort);

	return join "\n", (map { "ALTER FOREIGN TABLE $_ OPTIONS (ADD page_size '2');" } @$tables), (map { "SET $_ = off;" } @off),
	  @queries, (map { "RESET $_;" } @off), map { "ALTER FOREIGN TABLE $_ OPTIONS (DROP page_size);" } @$tables;
}

# a column of text without what all names of this run begin with
sub short { return "substr($_[0], length('{tag}') + 2)"; }

# The names of some accounts in the order in which the service returns them.
sub ids_asked
{
	my ($path) = @_;

	return 'SELECT string_agg(' . short("r ->> 'name'") . ", ' ' ORDER BY n) FROM (SELECT string_agg('accountid eq ' || id, ' or ') AS ours,
			string_agg('<value>' || id || '</value>', '') AS listed FROM unnest(ARRAY[" . list(qw(a1 a2 a3 a4 a5 a6)) . "]) id) ids,
		LATERAL jsonb_array_elements(dataverse.request('{server}', 'GET', '$path', NULL) -> 'value') WITH ORDINALITY AS x (r, n);\n";
}

sub list { return join ', ', map { "'{id.$_}'" } @_; }

my @read = qw(select filter-starts-with);
my $contacts = 'c.contactid IN (' . list(qw(c1 c2 c3 j1 j2 j3 j4 j5)) . ')';
my $accounts = 'a.accountid IN (' . list(qw(a1 a2 a3 a4 a5 a6)) . ')';
my $of = 'JOIN account a ON a.accountid = c.parentcustomerid';
my $png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

our @steps = (

	# ---- connection

	[ 'whoami', [], [qw(headers request-id gzip whoami)],
		"SELECT user_id IS NOT NULL, business_unit_id IS NOT NULL, organization_id IS NOT NULL FROM dataverse.whoami('{server}');" ],
	[ 'test-connection', [], [qw(whoami)],
		"SELECT ok, user_id IS NOT NULL, round_trip > '0s', dop_hint > 0, abs(extract(epoch FROM clock_skew)) < 60 AS clock, error, hint
			FROM dataverse.test_connection('{server}');" ],
	# a change of the server takes a new token
	[ 'token', [], [qw(token token-certificate token-identity)],
		"ALTER SERVER {server} OPTIONS (ADD user_agent 'dataverse_fdw'); SELECT user_id IS NOT NULL FROM dataverse.whoami('{server}');
		ALTER SERVER {server} OPTIONS (DROP user_agent);" ],
	[ 'rate-headers', [], [],
		"SELECT remaining_requests > 0, remaining_time > 0, maximum_parallelism > 0, throttles FROM dataverse.pool WHERE server = '{server}';" ],

	# ---- import

	[ 'import-limit-to', [], [qw(catalog language-user language-base changes changes-tables changes-properties changes-labels)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact, task) FROM SERVER {server} INTO {schema}_all;
		SELECT attrelid::regclass::text LIKE '%account', attname, format_type(atttypid, atttypmod),
			(SELECT string_agg(o, ' ' ORDER BY o) FROM unnest(attfdwoptions) o WHERE o !~ '^target')
			FROM pg_attribute WHERE (attrelid, attname) IN (
				SELECT ('{schema}_all.' || t)::regclass, unnest(string_to_array(c, ' ')) FROM (VALUES
				('account', 'accountid name accountnumber numberofemployees revenue creditonhold industrycode parentaccountid statecode statuscode createdon ownerid entityimage'),
				('contact', 'contactid lastname birthdate parentcustomerid parentcustomeridtype'),
				('task', 'activityid subject scheduledend')) AS x (t, c)) ORDER BY 1, 2;" ],
	[ 'import-all', [], [qw(catalog changes sides)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse FROM SERVER {server} INTO {schema}_all;
		SELECT count(*) > 10, count(*) FILTER (WHERE relname IN ('account', 'contact', 'task', 'systemuser'))
			FROM pg_class WHERE relnamespace = '{schema}_all'::regnamespace;" ],
	[ 'import-except', [], [qw(catalog changes sides)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse EXCEPT (contact) FROM SERVER {server} INTO {schema}_all;
		SELECT count(*) > 10, count(*) FILTER (WHERE relname IN ('account', 'contact', 'task', 'systemuser'))
			FROM pg_class WHERE relnamespace = '{schema}_all'::regnamespace;" ],
	[ 'import-solution', [], [qw(components changes)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA \"Default\" LIMIT TO (account) FROM SERVER {server} INTO {schema}_all;
		SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}_all'::regnamespace;" ],
	[ 'import-no-solution', [], [qw(components solutions)],
		"IMPORT FOREIGN SCHEMA \"dataverse_fdw_check\" FROM SERVER {server} INTO {schema}_all;" ],
	[ 'import-labels', [], [qw(changes)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER {server} INTO {schema}_all
			OPTIONS (import_labels 'true', import_comments 'false');
		SELECT attname FROM pg_attribute WHERE attrelid = '{schema}_all.account'::regclass
			AND attname IN ('industrycodename', 'parentaccountidname', 'ownerid') ORDER BY 1;" ],
	[ 'import-diff', [], [qw(catalog changes)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER {server} INTO {schema}_all;
		SELECT count(*) FROM dataverse.import_diff('{schema}_all', false);" ],
	# what is sent if RetrieveMetadataChanges is refused
	[ 'plain-definitions', [], [qw(consistency plain-table plain-cast plain-choices label-language)],
		"SELECT r ->> 'PrimaryIdAttribute', jsonb_array_length(r -> 'Attributes') > 20, jsonb_array_length(r -> 'ManyToOneRelationships') > 3, jsonb_typeof(r -> 'Keys')
			FROM dataverse.request('{server}', 'GET', 'EntityDefinitions(LogicalName=''account'')?\$select=LogicalName,PrimaryIdAttribute,TableType,IsIntersect,DisplayName'
				'&\$expand=Attributes(\$select=LogicalName,AttributeTypeName,ColumnNumber,IsLogical),'
				'ManyToOneRelationships(\$select=ReferencedEntity,ReferencingAttribute,ReferencingEntityNavigationPropertyName),'
				'Keys(\$select=LogicalName,KeyAttributes,EntityKeyIndexStatus)&LabelLanguages=1033', NULL) r;
		SELECT type, (SELECT bool_and(c ? split_part(properties, ',', 1)) FROM jsonb_array_elements(r -> 'value') c) AS found
			FROM (VALUES ('String', 'MaxLength,DatabaseLength'), ('Decimal', 'Precision'), ('Money', 'Precision,PrecisionSource'),
				('DateTime', 'DateTimeBehavior'), ('Image', 'IsPrimaryImage'), ('Lookup', 'Targets')) AS x (type, properties),
				dataverse.request('{server}', 'GET', format('EntityDefinitions(LogicalName=''account'')/Attributes/Microsoft.Dynamics.CRM.%sAttributeMetadata'
					'?\$select=LogicalName,%s', type, properties), NULL) r ORDER BY 1;
		SELECT type, jsonb_typeof(r -> 'value'), type IN ('EntityName', 'MultiSelectPicklist') OR (SELECT bool_and(coalesce(c -> 'OptionSet', 'null') <> 'null'
				OR coalesce(c -> 'GlobalOptionSet', 'null') <> 'null') FROM jsonb_array_elements(r -> 'value') c)
			FROM (VALUES ('Picklist', 'Options'), ('MultiSelectPicklist', 'Options'), ('State', 'Options'), ('Status', 'Options'),
				('EntityName', 'Options'), ('Boolean', 'TrueOption,FalseOption')) AS x (type, choices),
				dataverse.request('{server}', 'GET', format('EntityDefinitions(LogicalName=''account'')/Attributes/Microsoft.Dynamics.CRM.%sAttributeMetadata'
					'?\$select=LogicalName&\$expand=OptionSet(\$select=%s),GlobalOptionSet(\$select=%s)&LabelLanguages=1033', type, choices, choices), NULL) r ORDER BY 1;" ],

	# ---- writing rows

	[ 'insert', [], [qw(create-multiple prefer-annotations odata-type bind value-text value-number value-boolean)],
		"SET dataverse_fdw.batch_size = 4;
		INSERT INTO account (accountid, name, accountnumber, numberofemployees, revenue, creditonhold, industrycode,
				address1_latitude, description, parentaccountid) VALUES
			(" . row("a1, '{run}-1', 10, 1000.50, true, 1, 1.5, E'two\\nlines \"quoted\" \\\\', NULL") . "),
			(" . row("a2, '{run}-2', 20, 2000.50, false, 1, 2.5, 'Ä é 漢 😀', '{id.a1}'") . "),
			(" . row("a3, '{run}-3', 30, NULL, NULL, 2, NULL, NULL, '{id.a1}'") . "),
			(" . row("a4, '{run}-4', NULL, 0, false, NULL, -1.25, '', NULL") . "),
			(" . row("a5, '{run}-5', 50, 99.99, true, 3, 0, '50% [x]_y', NULL") . ");
		RESET dataverse_fdw.batch_size;" . found('account', 'name', 'true') ],
	[ 'insert-nulls', [], [qw(create-multiple value-null)],
		"INSERT INTO account (accountid, name, numberofemployees, creditonhold) VALUES (" . row('a6, NULL, NULL') . ");
		SELECT numberofemployees, creditonhold FROM account WHERE accountid = '{id.a6}';" ],
	[ 'insert-ids-of-service', [], [qw(create-multiple)],
		"ALTER FOREIGN TABLE account OPTIONS (ADD generate_ids 'off');
		INSERT INTO account (name) VALUES ('{tag} b1'), ('{tag} b2');
		ALTER FOREIGN TABLE account OPTIONS (DROP generate_ids);" ],
	[ 'copy', [], [qw(create-multiple)],
		"COPY account (name, numberofemployees) FROM stdin;\n{tag} b3\t3\n{tag} b4\t4\n\\.\n" ],
	[ 'insert-contacts', [], [qw(create-multiple bind)],
		"INSERT INTO contact (contactid, lastname, birthdate, parentcustomerid, parentcustomeridtype) VALUES
			(" . row("c1, '1980-02-29', '{id.a1}', 'account'") . "), (" . row("c2, '1990-12-31', '{id.c1}', 'contact'") . "),
			(" . row('c3, NULL, NULL, NULL') . ");" ],
	[ 'insert-related', [], [qw(create-multiple bind update-multiple)],
		"INSERT INTO contact (contactid, lastname, birthdate, gendercode, familystatuscode, creditonhold, parentcustomerid, parentcustomeridtype) VALUES
			(" . row("j1, '1980-02-29', 1, 2, true, '{id.a1}', 'account'") . "), (" . row("j2, '1980-02-28', 2, 2, false, '{id.a1}', 'account'") . "),
			(" . row("j3, '1953-01-01', 2, 1, false, '{id.a2}', 'account'") . "), (" . row("j4, '2001-12-31', 1, NULL, true, '{id.a3}', 'account'") . "),
			(" . row("j5, '1999-12-31', NULL, NULL, false, '{id.a6}', 'account'") . ");
		UPDATE account SET customertypecode = 1 WHERE accountid IN ('{id.a1}', '{id.a3}');" ],
	[ 'insert-tasks', [], [qw(create-multiple batch batch-headers batch-continue part-create)],
		"INSERT INTO task (activityid, subject, scheduledend, regardingobjectid, regardingobjectidtype) VALUES
			(" . row("t1, '2026-01-31 10:00:00Z', '{id.a1}', 'account'") . "), (" . row("t2, '2026-02-28 23:59:59Z', '{id.c1}', 'contact'") . "),
			(" . row('t3, NULL, NULL, NULL') . ");" ],
	[ 'insert-inactive', [], [qw(create-multiple update-multiple)],
		"INSERT INTO account (accountid, name, statecode, statuscode) VALUES (" . row('s1, 1, 2') . ");
		SELECT statecode, statuscode FROM account WHERE accountid = '{id.s1}';" ],
	[ 'insert-created-on', [], [qw(create-multiple)],
		"INSERT INTO account (accountid, name, overriddencreatedon) VALUES (" . row("s2, '2020-02-29 12:00:00Z'") . ");
		SELECT createdon AT TIME ZONE 'UTC' FROM account WHERE accountid = '{id.s2}';" ],
	[ 'insert-image', [], [qw(create-multiple)],
		"INSERT INTO account (accountid, name, entityimage) VALUES (" . row("s3, decode('$png', 'base64')") . ");
		SELECT octet_length(entityimage) > 0 FROM account WHERE accountid = '{id.s3}';" ],
	[ 'insert-other-image', ['image'], [qw(create-multiple update-multiple)],
		"INSERT INTO {image.table} ({image.id}, {image.name}, {image.column}) VALUES (" . row("i1, decode('$png', 'base64')") . ");
		SELECT octet_length({image.column}) > 0 FROM {image.table} WHERE {image.id} = '{id.i1}';" ],
	[ 'returning', [], [qw(create-multiple select filter-eq)],
		"INSERT INTO account (accountid, name) VALUES (" . row('s4') . ") RETURNING accountid, statecode, createdon > '2026-01-01';" ],
	[ 'update', [], [qw(select filter-starts-with filter-eq update-multiple)],
		"UPDATE account SET numberofemployees = numberofemployees + 1 WHERE starts_with(name, '{tag}') AND numberofemployees = 50;
		SELECT numberofemployees FROM account WHERE accountid = '{id.a5}';" ],
	[ 'update-by-id', [], [qw(update-multiple)],
		"UPDATE account SET numberofemployees = 50, description = NULL WHERE accountid = '{id.a5}';" ],
	[ 'update-tasks', [], [qw(batch part-update if-match)],
		"UPDATE task SET description = 'changed' WHERE activityid IN ('{id.t1}', '{id.t2}');
		SELECT description FROM task WHERE activityid = '{id.t1}';" ],
	[ 'set-lookup', [], [qw(update-multiple bind)],
		"UPDATE account SET parentaccountid = '{id.a2}' WHERE accountid = '{id.a5}';
		SELECT parentaccountid FROM account WHERE accountid = '{id.a5}';" ],
	[ 'clear-lookup', [], [qw(update-multiple lookup-null)],
		"UPDATE account SET parentaccountid = NULL WHERE accountid = '{id.a5}';
		SELECT parentaccountid IS NULL FROM account WHERE accountid = '{id.a5}';" ],
	[ 'change-polymorphic', [], [qw(update-multiple bind)],
		"UPDATE contact SET parentcustomerid = '{id.a2}', parentcustomeridtype = 'account' WHERE contactid = '{id.c2}';
		SELECT parentcustomerid, parentcustomeridtype FROM contact WHERE contactid = '{id.c2}';" ],
	[ 'clear-polymorphic', [], [qw(update-multiple lookup-null)],
		"UPDATE contact SET parentcustomerid = NULL, parentcustomeridtype = NULL WHERE contactid = '{id.c2}';
		SELECT parentcustomerid, parentcustomeridtype FROM contact WHERE contactid = '{id.c2}';" ],
	[ 'clear-regarding', [], [qw(batch part-update lookup-null)],
		"UPDATE task SET regardingobjectid = NULL, regardingobjectidtype = NULL WHERE activityid = '{id.t2}';
		SELECT regardingobjectid FROM task WHERE activityid = '{id.t2}';" ],
	[ 'upsert', [], [qw(upsert-multiple)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		INSERT INTO account (accountid, name, numberofemployees) VALUES (" . row('a6, 60') . '), (' . row('u1, 61') . ");
		RESET dataverse_fdw.insert_mode;
		SELECT numberofemployees FROM account WHERE accountid IN ('{id.a6}', '{id.u1}') ORDER BY 1;" ],
	[ 'upsert-tasks', [], [qw(upsert-multiple batch part-upsert)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		INSERT INTO task (activityid, subject, description) VALUES (" . row("t3, 'upserted'") . '), (' . row("t4, 'upserted'") . ");
		RESET dataverse_fdw.insert_mode;
		SELECT description FROM task WHERE activityid IN ('{id.t3}', '{id.t4}');" ],
	[ 'insert-ignore', [], [qw(create-multiple batch part-create)],
		"INSERT INTO account (accountid, name) VALUES (" . row('a1') . '), (' . row('u2') . ") ON CONFLICT DO NOTHING;
		SELECT count(*) FROM account WHERE accountid IN ('{id.a1}', '{id.u2}');" ],
	[ 'bypass', [], [qw(bypass-logic bypass-flows detect-duplicates tag)],
		join(';', (map { "SET dataverse_fdw.bypass_custom_logic = '$_'; UPDATE account SET fax = '$_' WHERE accountid = '{id.a5}'" } qw(sync async all)),
			'RESET dataverse_fdw.bypass_custom_logic',
			"SET dataverse_fdw.bypass_flows = on; UPDATE account SET fax = 'flows' WHERE accountid = '{id.a5}'",
			'RESET dataverse_fdw.bypass_flows',
			"SET dataverse_fdw.suppress_duplicate_detection = off; UPDATE account SET fax = 'duplicates' WHERE accountid = '{id.a5}'",
			'RESET dataverse_fdw.suppress_duplicate_detection',
			"SET dataverse_fdw.tag = 'a tag & more'; UPDATE account SET fax = 'tag' WHERE accountid = '{id.a5}'",
			"UPDATE task SET description = 'tag' WHERE activityid = '{id.t1}'", 'RESET dataverse_fdw.tag;') ],

	[ 'match-version', [], [qw(create-multiple select batch part-update if-match-version part-delete-version)],
		"INSERT INTO account (accountid, name) VALUES (" . row('v1') . "); SET dataverse_fdw.match_version = on;
		UPDATE account SET fax = 'version' WHERE accountid = '{id.v1}' RETURNING fax;
		DELETE FROM account WHERE accountid = '{id.v1}' RETURNING fax; RESET dataverse_fdw.match_version;" ],

	# ---- errors on purpose

	[ 'duplicate-id', [], [qw(create-multiple)], "INSERT INTO account (accountid, name) VALUES (" . row('a1') . ");" ],
	[ 'missing-row', [], [qw(update-multiple)], "UPDATE account SET fax = '1' WHERE accountid = '{id.none}';" ],
	[ 'missing-task', [], [qw(batch part-update)], "UPDATE task SET description = '1' WHERE activityid = '{id.none}';" ],
	[ 'text-too-long', [], [qw(create-multiple)],
		"INSERT INTO account (name, accountnumber) SELECT '{tag} bad', repeat('x', 20) WHERE false;
		ALTER FOREIGN TABLE account ALTER COLUMN sic TYPE text; INSERT INTO account (name, sic) VALUES ('{tag} bad', repeat('x', 21));" ],
	[ 'bad-choice', [], [qw(create-multiple)], "INSERT INTO account (name, industrycode) VALUES ('{tag} bad', 999999999);" ],
	[ 'bad-lookup', [], [qw(create-multiple)], "INSERT INTO account (name, parentaccountid) VALUES ('{tag} bad', '{id.none}');" ],
	[ 'number-too-large', [], [qw(create-multiple)], "INSERT INTO account (name, numberofemployees) VALUES ('{tag} bad', -1);" ],
	[ 'bad-row-of-three', ['bulk'], [qw(create-multiple batch change-set)],
		"INSERT INTO account (accountid, name, numberofemployees) VALUES (" . row('e4, 1') . '), (' . row('e5, -1') . '), (' . row('e6, 3') . ");"
		  . found('account', 'name', "accountid IN ('{id.e4}', '{id.e5}', '{id.e6}')") ],
	[ 'on-error-continue', [], [qw(create-multiple batch part-create)],
		"SET dataverse_fdw.on_error = 'continue';
		INSERT INTO account (accountid, name, numberofemployees) VALUES (" . row('e1, 1') . '), (' . row('e2, -1') . '), (' . row('e3, 3') . ");
		RESET dataverse_fdw.on_error;
		SELECT sqlstate, code FROM dataverse.rejects WHERE server = '{server}'; DELETE FROM dataverse.rejects WHERE server = '{server}';"
		  . found('account', 'name', "accountid IN ('{id.e1}', '{id.e2}', '{id.e3}')") ],

	# ---- filters

	[ 'filter-text', [], [qw(select filter-starts-with filter-ends-with filter-contains filter-eq filter-in filter-and literal-text)],
		join "\n", accounts("accountnumber = '{run}-1'", "accountnumber IN ('{run}-1', '{run}-3')",
			"description LIKE '%é 漢%'", "name ILIKE '%A1'", "name LIKE '%a_'", "starts_with(description, '50% [x]_')", "description LIKE '%\\% [x]\\_%'", "description = 'x''y'") ],
	[ 'filter-number', [], [qw(select filter-starts-with filter-eq filter-ne filter-range filter-in filter-not-in filter-null filter-not-null literal-number)],
		join "\n", accounts(map { "numberofemployees $_" } '= 20', '<> 20', '< 20', '<= 20', '> 20', '>= 20', 'IN (10, 30)', 'NOT IN (10, 30)',
			'IS NULL', 'IS NOT NULL', 'IS DISTINCT FROM 20', 'IS NOT DISTINCT FROM 20') ],
	[ 'filter-money', [], [ @read, qw(filter-eq filter-range) ],
		join "\n", accounts('revenue = 1000.50', 'revenue > 1000.5', 'revenue BETWEEN 0 AND 100') ],
	[ 'filter-double', [], [ @read, qw(filter-range) ],
		join "\n", accounts('address1_latitude = 1.5', 'address1_latitude < 0', 'address1_latitude IS NULL') ],
	[ 'filter-boolean', [], [qw(filter-eq literal-boolean)],
		join "\n", accounts('creditonhold', 'NOT creditonhold', 'creditonhold IS NULL', 'creditonhold IS NOT TRUE') ],
	[ 'filter-choice', [], [ @read, qw(filter-eq filter-ne filter-in filter-not-in) ],
		join "\n", accounts('industrycode = 1', 'industrycode <> 1', 'industrycode IN (1, 3)', 'industrycode NOT IN (1, 3)', 'statecode = 1', 'statuscode = 1') ],
	[ 'filter-id', [], [qw(select filter-eq filter-in filter-ne literal-id)],
		join("\n", accounts("accountid = '{id.a1}'", "accountid IN ('{id.a1}', '{id.a2}', '{id.none}')", "accountid <> '{id.a1}' AND numberofemployees < 30")) ],
	[ 'filter-lookup', [], [ @read, qw(filter-eq filter-ne filter-in) ],
		join("\n", accounts("parentaccountid = '{id.a1}'", "parentaccountid <> '{id.a2}'", 'parentaccountid IS NOT NULL', "parentaccountid IN ('{id.a1}', '{id.a2}')")),
	],
	[ 'filter-polymorphic', [], [ @read, qw(filter-eq filter-not-null) ],
		join "\n", map { found('contact', 'lastname', $_) } "parentcustomerid = '{id.a1}'", "parentcustomeridtype = 'account'", 'parentcustomerid IS NOT NULL' ],
	[ 'filter-owner', [], [ @read, qw(filter-eq filter-not-null) ],
		join "\n", accounts("ownerid IS NOT NULL AND numberofemployees = 10", "ownerid = '{id.none}'") ],
	[ 'filter-date', [], [qw(filter-eq filter-range filter-or literal-date)],
		join "\n", map { found('contact', 'lastname', $_) } "birthdate = '1980-02-29'", "birthdate > '1980-02-29'", "birthdate IN ('1980-02-29', '1990-12-31')" ],
	[ 'filter-time', [], [qw(filter-range filter-null literal-time)],
		join "\n", map { found('task', 'subject', $_) } "scheduledend = '2026-01-31 10:00:00Z'", "scheduledend < '2026-02-01 00:00:00Z'",
		"scheduledend <= '2026-02-28 23:59:59.5Z'", 'scheduledend IS NULL' ],
	[ 'filter-version', [], [ @read, qw(filter-range) ], join "\n", accounts('versionnumber > 0 AND numberofemployees = 10', 'versionnumber = 1') ],
	[ 'filter-nested', [], [ @read, qw(filter-and filter-or) ],
		join "\n", accounts('(numberofemployees = 10 OR (revenue > 1000 AND creditonhold = false)) AND industrycode IS NOT NULL') ],
	[ 'filter-choices', ['choices'], [ qw(create-multiple filter-not-null filter-null), @read ],
		"INSERT INTO {choices.table} ({choices.id}, {choices.name}, {choices.column}) VALUES (" . row('m1, {choices.values}') . '), (' . row('m2, NULL') . ");"
		  . join "\n", map { found('{choices.table}', '{choices.name}', $_) } '{choices.column} && {choices.values}', '{choices.column} @> {choices.values}', '{choices.column} IS NULL' ],
	# the full-text index lags behind the rows
	[ 'filter-full-text', ['choices'], [ qw(create-multiple filter-contain-values fetchxml fetch-contain-values), @read ],
		"INSERT INTO {choices.table} ({choices.id}, {choices.name}, {choices.column}) VALUES (" . row('f1, {choices.values}') . '), (' . row('f2, NULL') . ");
		ALTER FOREIGN TABLE {choices.table} OPTIONS (ADD full_text_filters 'true');
		DO \$\$ BEGIN
			FOR i IN 1 .. 120 LOOP
				EXIT WHEN (SELECT string_agg({choices.name}, ' ') FROM {choices.table}
					WHERE starts_with({choices.name}, '{tag} f') AND {choices.column} && {choices.values}) IS NOT NULL;
				PERFORM pg_sleep(0.5);
			END LOOP;
		END \$\$;"
		  . join("\n", map { found('{choices.table}', '{choices.name}', $_) } '{choices.column} && {choices.values}', '{choices.column} @> {choices.values}')
		  . pushed([], "SELECT count(*) FROM {choices.table} t JOIN systemuser u ON u.systemuserid = t.createdby
				WHERE t.{choices.id} IN (" . list(qw(f1 f2)) . ') AND t.{choices.column} && {choices.values};')
		  . "ALTER FOREIGN TABLE {choices.table} OPTIONS (DROP full_text_filters);" ],
	# up to the first character of which it is not known what it equals
	[ 'filter-collation', [], [ @read, qw(filter-eq filter-starts-with) ],
		"ALTER FOREIGN TABLE account ALTER COLUMN description TYPE text COLLATE dataverse.ci_ai;
		ALTER FOREIGN TABLE account ALTER COLUMN accountnumber TYPE varchar(20) COLLATE dataverse.ci_ai;"
		  . join("\n", accounts("description = 'ä É 漢 😀'", "description = 'Two\nlines'", "accountnumber = '{run}-1'"))
		  . "ALTER FOREIGN TABLE account ALTER COLUMN description TYPE text COLLATE \"default\";
		ALTER FOREIGN TABLE account ALTER COLUMN accountnumber TYPE varchar(20) COLLATE \"default\";" ],
	[ 'filter-local-time', ['local_time'], [qw(create-multiple filter-range literal-time)],
		"INSERT INTO {local_time.table} ({local_time.id}, {local_time.name}, {local_time.column}) VALUES (" . row("l1, '2026-01-31 10:00:00'") . ");"
		  . join "\n", map { found('{local_time.table}', '{local_time.name}', "{local_time.column} $_") } "= '2026-01-31 10:00:00'", "> '2026-01-31 10:00:00'" ],
	[ 'filter-bigint', ['bigint'], [ qw(create-multiple filter-eq filter-range filter-in), @read ],
		"INSERT INTO {bigint.table} ({bigint.id}, {bigint.name}, {bigint.column}) VALUES (" . row('g1, 9007199254740993') . ");"
		  . join "\n", map { found('{bigint.table}', '{bigint.name}', "{bigint.column} $_") } '= 9007199254740993', '> 9007199254740992', 'IN (1, 9007199254740993)' ],
	[ 'filter-decimal', ['decimal'], [ qw(create-multiple filter-eq filter-range filter-in), @read ],
		"INSERT INTO {decimal.table} ({decimal.id}, {decimal.name}, {decimal.column}) VALUES (" . row('d1, 12.5') . ");"
		  . join "\n", map { found('{decimal.table}', '{decimal.name}', "{decimal.column} $_") } '= 12.5', '> 12.49', 'IN (12.5, 7)' ],
	[ 'filter-file', ['file'], [qw(select)],
		"SELECT count(*) FROM {file.table} WHERE starts_with({file.name}, '{tag}') AND {file.column} IS NOT NULL;" ],

	# ---- other parts of queries

	[ 'order', [], [qw(select order order-descending top)],
		"SELECT numberofemployees FROM account WHERE accountid IN ('{id.a1}', '{id.a2}', '{id.a3}') ORDER BY numberofemployees DESC NULLS LAST LIMIT 2;
		SELECT lastname FROM contact WHERE contactid IN ('{id.c1}', '{id.c2}', '{id.c3}') ORDER BY birthdate NULLS FIRST LIMIT 2;
		SELECT max(numberofemployees), min(numberofemployees) FROM account WHERE accountid IN ('{id.a1}', '{id.a2}', '{id.a3}');" =~
		  s/SELECT lastname/SELECT substr(lastname, length('{tag}') + 2)/r ],
	[ 'count', [], [qw(apply-count apply-filter)],
		"SELECT count(*) FROM account WHERE accountid IN ('{id.a1}', '{id.a2}', '{id.none}');
		SELECT count(*) FROM account WHERE numberofemployees = 20 AND parentaccountid = '{id.a1}';
		SELECT dataverse.row_count('account') > 0;" ],
	[ 'pages', [], [ @read, qw(page-size next-link) ],
		"ALTER FOREIGN TABLE account OPTIONS (ADD page_size '2');"
		  . found('account', 'name', 'numberofemployees > 0')
		  . "ALTER FOREIGN TABLE account OPTIONS (DROP page_size);" ],
	[ 'long-query', [], [qw(batch part-read)],
		"SELECT substr(name, length('{tag}') + 2) FROM account WHERE accountid = '{id.a1}' OR "
		  . join(' OR ', map { "description LIKE '%" . ('x' x 180) . sprintf("%03d", $_) . "'" } 1 .. 170) . ';' ],
	[ 'labels', [], [qw(read-annotations)],
		"DROP SCHEMA {schema}_all CASCADE; CREATE SCHEMA {schema}_all;
		IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER {server} INTO {schema}_all OPTIONS (import_labels 'true');
		SELECT creditonholdname IS NOT NULL, parentaccountidname = '{tag} a1', owneridtype FROM {schema}_all.account WHERE accountid = '{id.a2}';" ],
	[ 'estimate', [], [qw(row-count)],
		"ALTER FOREIGN TABLE contact OPTIONS (ADD use_remote_estimate 'true');
		SELECT count(*) FROM contact WHERE contactid = '{id.c1}' AND lastname <> '';
		ALTER FOREIGN TABLE contact OPTIONS (DROP use_remote_estimate);" ],
	[ 'analyze', [], [qw(row-count select order)],
		"SET default_statistics_target = 1; ANALYZE contact; RESET default_statistics_target;
		SELECT reltuples > 0 FROM pg_class WHERE oid = 'contact'::regclass;" ],
	[ 'virtual-id', [], [qw(select filter-not-null top)],
		"SELECT count(*) FROM (SELECT 1 FROM systemuser WHERE systemuserid IS NOT NULL LIMIT 1) u;" ],

	# ---- joins and groups, in FetchXML

	[ 'join-inner', [], [qw(fetchxml fetchxml-annotations fetch-columns fetch-alias fetch-page fetch-cookie fetch-link fetch-filter fetch-in)],
		pushed([qw(contact)],
			'SELECT ' . short('c.lastname') . ', ' . short('a.name') . ", a.numberofemployees, a.parentaccountid FROM contact c $of WHERE $contacts ORDER BY c.lastname || 'x';") ],
	[ 'join-outer', [], [qw(fetchxml fetch-page fetch-cookie fetch-link-outer)],
		pushed([qw(contact)],
			'SELECT ' . short('c.lastname') . ', ' . short('a.name') . ", a.creditonhold FROM contact c LEFT $of AND a.numberofemployees > 10 WHERE $contacts ORDER BY c.lastname || 'x';") ],
	[ 'join-chain', [], [qw(fetchxml fetch-link)],
		pushed([qw(contact)],
			'SELECT ' . short('c.lastname') . ', ' . short('p.name') . ", u.systemuserid = a.ownerid FROM contact c $of
				LEFT JOIN account p ON p.accountid = a.parentaccountid LEFT JOIN systemuser u ON u.systemuserid = a.ownerid
				WHERE $contacts ORDER BY c.lastname || 'x';") ],
	[ 'join-exists', [], [qw(fetchxml fetch-page fetch-link-exists fetch-range)],
		pushed([qw(account)],
			'SELECT ' . short('a.name') . " FROM account a WHERE $accounts
				AND EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.birthdate > '1960-01-01') ORDER BY a.name || 'x';") ],
	[ 'join-not-any', [], [qw(fetchxml fetch-page fetch-link-not-any fetch-equal)],
		pushed([qw(account)],
			'SELECT ' . short('a.name') . " FROM account a WHERE $accounts
				AND NOT EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid) ORDER BY a.name || 'x';",
			'SELECT ' . short('a.name') . " FROM account a WHERE $accounts
				AND NOT EXISTS (SELECT FROM contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1) ORDER BY a.name || 'x';") ],
	# a column is compared with a value, with several, with nothing, and with another one
	[ 'join-filters', [], [qw(fetchxml fetch-filter fetch-or fetch-equal fetch-range fetch-null fetch-in fetch-not-in fetch-text fetch-columns-compared)],
		pushed([],
			map { 'SELECT string_agg(' . short('c.lastname') . ", ' ' ORDER BY c.lastname) FROM (SELECT c.lastname FROM contact c $of WHERE $contacts AND $_ OFFSET 0) c;" }
			  'a.numberofemployees = 10', 'a.numberofemployees <> 10', 'a.numberofemployees BETWEEN 10 AND 20', 'c.birthdate < \'1980-02-29\'',
			  'a.industrycode NOT IN (1, 3)', 'c.gendercode NOT IN (2)', 'a.parentaccountid IS NULL', 'a.revenue IS NOT NULL', 'NOT c.creditonhold',
			  "(c.birthdate = '1953-01-01' OR c.gendercode = 1)", "starts_with(a.name, '{tag} a')", "a.name LIKE '%a1'", "c.lastname LIKE '%j%'",
			  'a.industrycode = a.customertypecode', 'c.gendercode <> c.familystatuscode', "a.createdon > '2020-01-01 00:00:00Z'") ],
	[ 'join-order', [], [qw(fetchxml fetch-order fetch-top)],
		pushed([], 'SELECT ' . short('c.lastname') . " FROM (SELECT c.lastname, c.birthdate FROM contact c $of WHERE $contacts ORDER BY c.birthdate DESC NULLS LAST LIMIT 3) c ORDER BY c.birthdate DESC;") ],
	[ 'group-choice', [], [qw(fetchxml fetch-aggregate fetch-group)],
		pushed([], "SELECT industrycode, count(*) FROM account a WHERE $accounts GROUP BY industrycode ORDER BY 1;") ],
	[ 'group-boolean', [], [qw(fetchxml fetch-aggregate fetch-group)],
		pushed([], "SELECT creditonhold, count(*), count(revenue) FROM account a WHERE $accounts GROUP BY creditonhold ORDER BY 1;") ],
	[ 'group-lookup', [], [qw(fetchxml fetch-aggregate fetch-group)],
		pushed([], "SELECT parentaccountid, count(*) FROM account a WHERE $accounts GROUP BY parentaccountid ORDER BY 2, 1;") ],
	[ 'group-month', [], [qw(fetchxml fetch-aggregate fetch-group-date)],
		pushed([], "SELECT date_trunc('month', scheduledend), count(*) FROM task WHERE activityid IN (" . list(qw(t1 t2 t3)) . ') GROUP BY 1 ORDER BY 1;',
			"SELECT date_trunc('day', scheduledend), count(*) FROM task WHERE activityid IN (" . list(qw(t1 t2 t3)) . ') GROUP BY 1 ORDER BY 1;') ],
	[ 'group-date', [], [qw(fetchxml fetch-aggregate fetch-group-date)],
		pushed([], "SELECT birthdate, creditonhold, count(*) FROM contact c WHERE $contacts GROUP BY birthdate, creditonhold ORDER BY 1, 2;",
			"SELECT date_trunc('year', birthdate), count(*) FROM contact c WHERE $contacts GROUP BY 1 ORDER BY 1;") ],
	[ 'group-join', [], [qw(fetchxml fetch-aggregate fetch-group fetch-link)],
		pushed([], "SELECT a.industrycode, count(*), max(c.birthdate) FROM contact c $of WHERE $contacts GROUP BY a.industrycode ORDER BY 1;") ],
	[ 'aggregate-number', [], [qw(fetchxml fetch-aggregate fetch-distinct)],
		pushed([], "SELECT sum(numberofemployees), avg(numberofemployees), min(numberofemployees), max(numberofemployees), count(numberofemployees),
			count(DISTINCT industrycode), count(*) FROM account a WHERE $accounts;") ],
	[ 'aggregate-date', [], [qw(fetchxml fetch-aggregate)],
		pushed([], "SELECT min(birthdate), max(birthdate), count(*) FROM contact c WHERE $contacts;",
			'SELECT min(scheduledend), max(scheduledend), count(*) FROM task WHERE activityid IN (' . list(qw(t1 t2 t3)) . ');') ],

	# ---- ranges of ids

	# what is asked when a large table is read, or grouped, in parts: here of few rows
	[ 'id-order', [], [qw(select order order-descending top filter-range-of-ids filter-or)],
		ids_asked("accounts?\$select=name&\$filter=' || ours || '&\$orderby=accountid")
		  . ids_asked("accounts?\$select=name&\$filter=' || ours || '&\$orderby=accountid desc&\$top=2")
		  . join '', map { my $name = $_; map { ids_asked("accounts?\$select=name&\$filter=accountid $_ {id.$name} and (' || ours || ')&\$orderby=accountid") } qw(ge lt) } qw(a1 a2 a3) ],
	[ 'id-order-fetchxml', [], [qw(fetchxml fetch-range-of-ids fetch-order)],
		join '', map { my $name = $_; map { ids_asked("accounts?fetchXml=<fetch><entity name=''account''><attribute name=''name''/><order attribute=''accountid''/>"
			. "<filter><condition attribute=''accountid'' operator=''$_'' value=''{id.$name}''/>"
			. "<condition attribute=''accountid'' operator=''in''>' || listed || '</condition></filter></entity></fetch>") } qw(ge lt) } qw(a1 a2 a3) ],
	[ 'ranges', [], [ @read, qw(page-size order) ],
		"SET dataverse_fdw.scan_parallelism = 3; ALTER FOREIGN TABLE account OPTIONS (ADD page_size '2');"
		  # a table so small may have been read before the question about the order of ids is answered
		  . found('account', 'name', 'true') x 3
		  . "ALTER FOREIGN TABLE account OPTIONS (DROP page_size); RESET dataverse_fdw.scan_parallelism;" ],

	# ---- functions

	[ 'fetchxml', [], [qw(entity-set fetchxml fetchxml-annotations)],
		"SELECT row ->> 'numberofemployees' FROM dataverse.fetchxml('{server}', '<fetch><entity name=\"account\"><attribute name=\"numberofemployees\"/>
			<filter><condition attribute=\"accountid\" operator=\"eq\" value=\"{id.a1}\"/></filter></entity></fetch>') AS f (row);" ],
	[ 'fetchxml-pages', [], [qw(entity-set fetchxml fetch-page fetch-cookie)],
		"SELECT count(*) FROM dataverse.fetchxml('{server}', '<fetch count=\"2\"><entity name=\"account\"><attribute name=\"name\"/>
			<filter><condition attribute=\"name\" operator=\"begins-with\" value=\"{tag} a\"/></filter></entity></fetch>') AS f (row);" ],
	[ 'request', [], [qw(request-create request-update request-put request-delete request-read)],
		"SELECT dataverse.request('{server}', 'POST', 'accounts', '{\"accountid\": \"{id.r1}\", \"name\": \"{tag} r1\"}') ->> '\@odata.id' LIKE '%accounts({id.r1})';
		SELECT dataverse.request('{server}', 'PATCH', 'accounts({id.r1})', '{\"fax\": \"1\"}') IS NOT NULL;
		SELECT dataverse.request('{server}', 'PUT', 'accounts({id.r1})/fax', '{\"value\": \"2\"}');
		SELECT dataverse.request('{server}', 'GET', 'accounts({id.r1})?\$select=fax', NULL) ->> 'fax';
		SELECT dataverse.request('{server}', 'DELETE', 'accounts({id.r1})', NULL);
		SELECT dataverse.request('{server}', 'GET', 'accounts({id.r1})?\$select=fax', NULL);" ],
	# what is sent after a lost answer, which cannot be had here
	[ 'verify', [], [qw(verify)],
		"SELECT jsonb_array_length(dataverse.request('{server}', 'GET',
			'accounts?\$select=accountid,createdon&\$filter=accountid eq {id.a1} or accountid eq {id.none}', NULL) -> 'value');
		SELECT jsonb_array_length(dataverse.request('{server}', 'GET',
			'accounts?\$select=accountid,overriddencreatedon&\$filter=accountid eq {id.s2}', NULL) -> 'value');" ],
	# what follows a job, for a job that does not exist
	[ 'no-job', [], [qw(job job-counts job-failures)],
		"SELECT jsonb_array_length(dataverse.request('{server}', 'GET',
			'bulkdeleteoperations?\$filter=_asyncoperationid_value eq {id.none}&\$select=bulkdeleteoperationid,successcount,failurecount', NULL) -> 'value');
		SELECT jsonb_array_length(dataverse.request('{server}', 'GET',
			'bulkdeletefailures?\$filter=_bulkdeleteoperationid_value eq {id.none}&\$select=errordescription&\$top=1', NULL) -> 'value');
		SELECT dataverse.request('{server}', 'GET', 'asyncoperations({id.none})?\$select=statecode,statuscode,message', NULL);" ],

	# ---- keys, elastic and intersect tables

	[ 'upsert-key', ['keyed'], [qw(upsert-multiple upsert-by-key)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		ALTER FOREIGN TABLE {keyed.table} OPTIONS (ADD upsert_key '{keyed.column}');
		INSERT INTO {keyed.table} ({keyed.column}, {keyed.name}) VALUES ('{run}''k1', '{tag} k1'), ('{run}''k1', '{tag} k2');"
		  . "SELECT count(*), min(substr({keyed.name}, length('{tag}') + 2)) FROM {keyed.table} WHERE starts_with({keyed.name}, '{tag} k');"
		  . "RESET dataverse_fdw.insert_mode; ALTER FOREIGN TABLE {keyed.table} OPTIONS (DROP upsert_key);" ],
	[ 'upsert-key-letters', ['keyed'], [qw(upsert-multiple key-unencoded)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		ALTER FOREIGN TABLE {keyed.table} OPTIONS (ADD upsert_key '{keyed.column}');
		INSERT INTO {keyed.table} ({keyed.column}, {keyed.name}) VALUES ('{run} ä', '{tag} q1');
		SELECT {keyed.column} = '{run} ä' FROM {keyed.table} WHERE starts_with({keyed.name}, '{tag} q');
		RESET dataverse_fdw.insert_mode; ALTER FOREIGN TABLE {keyed.table} OPTIONS (DROP upsert_key);" ],
	[ 'upsert-key-search', ['keyed'], [qw(batch part-search upsert-multiple update-multiple)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		ALTER FOREIGN TABLE {keyed.table} OPTIONS (ADD upsert_key '{keyed.column}');
		INSERT INTO {keyed.table} ({keyed.column}, {keyed.name}) VALUES ('{run}/a&b%20', '{tag} w1'), ('{run}:?', '{tag} w2');
		INSERT INTO {keyed.table} ({keyed.column}, {keyed.name}) VALUES ('{run}/a&b%20', '{tag} w3');
		RESET dataverse_fdw.insert_mode; ALTER FOREIGN TABLE {keyed.table} OPTIONS (DROP upsert_key);
		SELECT substr({keyed.name}, length('{tag}') + 2), {keyed.column} FROM {keyed.table} WHERE starts_with({keyed.name}, '{tag} w') ORDER BY 1;" ],
	[ 'upsert-key-continue', ['keyed'], [qw(upsert-multiple upsert-by-key batch part-upsert-by-key)],
		"SET dataverse_fdw.insert_mode = 'upsert'; SET dataverse_fdw.on_error = 'continue';
		ALTER FOREIGN TABLE {keyed.table} OPTIONS (ADD upsert_key '{keyed.column}');
		ALTER FOREIGN TABLE {keyed.table} ALTER COLUMN {keyed.name} TYPE text;
		INSERT INTO {keyed.table} ({keyed.column}, {keyed.name}) VALUES ('{run}k3', '{tag} k3'), ('{run}k4', '{tag} k4' || repeat('x', 4000));
		RESET dataverse_fdw.on_error; RESET dataverse_fdw.insert_mode; ALTER FOREIGN TABLE {keyed.table} OPTIONS (DROP upsert_key);
		SELECT sqlstate, code FROM dataverse.rejects WHERE server = '{server}'; DELETE FROM dataverse.rejects WHERE server = '{server}';" ],
	[ 'elastic', ['elastic'], [qw(create-multiple session-token partition)],
		"INSERT INTO {elastic.table} ({elastic.id}, {elastic.name}, partitionid) VALUES (" . row("x1, '{run}'") . '), (' . row("x2, '{run}'") . ");
		SELECT substr({elastic.name}, length('{tag}') + 2) FROM {elastic.table} WHERE partitionid = '{run}' ORDER BY 1;" ],
	[ 'elastic-update', ['elastic'], [qw(update-multiple)],
		"UPDATE {elastic.table} SET {elastic.name} = '{tag} x3' WHERE {elastic.id} = '{id.x1}' AND partitionid = '{run}';
		SELECT substr({elastic.name}, length('{tag}') + 2) FROM {elastic.table} WHERE partitionid = '{run}' ORDER BY 1;" ],
	[ 'elastic-upsert', ['elastic'], [qw(upsert-multiple)],
		"SET dataverse_fdw.insert_mode = 'upsert';
		INSERT INTO {elastic.table} ({elastic.id}, {elastic.name}, partitionid) VALUES (" . row("x1, '{run}'") . '), (' . row("x4, '{run}'") . ");
		RESET dataverse_fdw.insert_mode;
		SELECT substr({elastic.name}, length('{tag}') + 2) FROM {elastic.table} WHERE partitionid = '{run}' ORDER BY 1;" ],
	[ 'elastic-duplicate', [ 'elastic', 'bulk' ], [qw(create-multiple)],
		"INSERT INTO {elastic.table} ({elastic.id}, {elastic.name}, partitionid) VALUES (" . row("x1, '{run}'") . '), (' . row("x5, '{run}'") . ');' ],
	[ 'elastic-delete', ['elastic'], [qw(delete-multiple)],
		"DELETE FROM {elastic.table} WHERE partitionid = '{run}' AND {elastic.id} IN ('{id.x1}', '{id.x2}');
		SELECT substr({elastic.name}, length('{tag}') + 2) FROM {elastic.table} WHERE partitionid = '{run}' ORDER BY 1;" ],
	# what is sent if the table has no bulk messages
	[ 'elastic-single', ['elastic'], [qw(row-in-partition row-with-partition)],
		"SELECT dataverse.request('{server}', 'PATCH', '{elastic.set}({elastic.id}={id.x4},partitionid=''{run}'')', '{\"{elastic.name}\": \"{tag} x6\"}') IS NOT NULL;
		SELECT substr({elastic.name}, length('{tag}') + 2) FROM {elastic.table} WHERE partitionid = '{run}' ORDER BY 1;
		SELECT dataverse.request('{server}', 'DELETE', '{elastic.set}({id.x4})?partitionId={run}', NULL);" ],
	[ 'pairs', ['pairs'], [qw(batch part-associate associate-reference part-disassociate)],
		"INSERT INTO {pairs.table} ({pairs.account}, {pairs.contact}) VALUES ('{id.a1}', '{id.c1}'), ('{id.a1}', '{id.c2}');
		SELECT count(*) FROM {pairs.table} WHERE {pairs.account} = '{id.a1}';
		DELETE FROM {pairs.table} WHERE {pairs.account} = '{id.a1}' AND {pairs.contact} = '{id.c1}';
		SELECT count(*) FROM {pairs.table} WHERE {pairs.account} = '{id.a1}';" ],

	# ---- copies: of all accounts, of which a few columns are read

	[ 'changes', [qw(few tracked)], [qw(track-changes delta-link metadata-version)],
		"INSERT INTO account (accountid, name) VALUES (" . row('y1') . '), (' . row('y2') . '), (' . row('y3') . ");
		SELECT next_token AS token FROM dataverse.changes('account') WHERE next_token IS NOT NULL \\gset check_
		UPDATE account SET fax = 'changed' WHERE accountid = '{id.y1}'; DELETE FROM account WHERE accountid = '{id.y2}';
		INSERT INTO account (accountid, name) VALUES (" . row('y4') . ");
		SELECT id, deleted, " . short("row ->> 'name'") . ", row ->> 'fax' FROM dataverse.changes('account', :'check_token')
			WHERE id IN (" . list(qw(y1 y2 y3 y4)) . ") ORDER BY deleted, row ->> 'name';" ],
	# the second run finds changes, and the third one compares ids and versions
	[ 'pull', [qw(few tracked)], [qw(select order page-size track-changes delta-link definition expiry)],
		"ALTER FOREIGN TABLE account OPTIONS (ADD page_size '{few.page}');
		CALL dataverse.pull('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		DELETE FROM account WHERE accountid = '{id.y3}'; UPDATE account SET fax = 'pulled' WHERE accountid = '{id.y4}';
		INSERT INTO account (accountid, name) VALUES (" . row('y5') . ");
		CALL dataverse.pull('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		SELECT " . short('name') . ", fax FROM account_copy WHERE starts_with(name, '{tag} y') ORDER BY name;
		CALL dataverse.pull('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber'], sweep => '0');
		SELECT " . short('name') . ", fax FROM account_copy WHERE starts_with(name, '{tag} y') ORDER BY name;
		SELECT status, deleted > 0 FROM dataverse.runs WHERE target = '{schema}.account_copy' ORDER BY id;
		ALTER FOREIGN TABLE account OPTIONS (DROP page_size);" ],
	[ 'sync', [qw(few tracked)], [qw(create-multiple update-multiple select delta-link delta-count)],
		"CALL dataverse.sync('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		UPDATE account_copy SET fax = 'sent' WHERE accountid = '{id.y1}'; DELETE FROM account_copy WHERE accountid = '{id.y4}';
		INSERT INTO account_copy (accountid, name) VALUES (" . row('y6') . ");
		CALL dataverse.sync('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		SELECT " . short('name') . ", fax FROM account WHERE accountid IN (" . list(qw(y1 y4 y5 y6)) . ") ORDER BY name;
		UPDATE account SET fax = 'theirs' WHERE accountid IN ('{id.y5}', '{id.y6}'); UPDATE account_copy SET fax = 'ours' WHERE accountid = '{id.y6}';
		CALL dataverse.sync('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		SELECT " . short('name') . ", fax FROM account_copy WHERE accountid IN (" . list(qw(y1 y4 y5 y6)) . ") ORDER BY name;
		SELECT kind, row_id, columns, ours ->> 'fax', theirs ->> 'fax' FROM dataverse.conflicts WHERE target = '{schema}.account_copy';
		SELECT dataverse.resolve('{schema}.account_copy', 'local');
		CALL dataverse.sync('account', '{schema}.account_copy', columns => ARRAY['name', 'fax', 'versionnumber']);
		SELECT fax FROM account WHERE accountid = '{id.y6}';
		SELECT lag >= 0, token_expires_at > now() FROM dataverse.sync_state WHERE target = '{schema}.account_copy';
		CALL dataverse.untrack('{schema}.account_copy'); SELECT dataverse.forget_copy('{schema}.account_copy');" ],
	[ 'push', [], [qw(create-multiple update-multiple select)],
		"CALL dataverse.push(\$\$ VALUES ('{id.p1}'::uuid, '{tag} p1', 1), ('{id.p2}', '{tag} p2', 2) \$\$, 'account');"
		=~ s/VALUES (.*) \$\$/SELECT * FROM (VALUES $1) AS v (accountid, name, numberofemployees) \$\$/r
		. "CALL dataverse.push(\$\$ SELECT '{id.p2}'::uuid AS accountid, 22 AS numberofemployees \$\$, 'account', operation => 'update');
		SELECT " . short('name') . ", numberofemployees FROM account WHERE accountid IN (" . list(qw(p1 p2)) . ') ORDER BY name;' ],
	[ 'push-key', ['keyed'], [qw(upsert-multiple upsert-by-key)],
		join '', (map {
			"CALL dataverse.push(\$\$ SELECT '{run}p' || i AS {keyed.column}, '{tag} $_' || i AS {keyed.name} FROM generate_series(1, 3) i \$\$,
				'{keyed.table}', key => ARRAY['{keyed.column}'], chunk => 2);\n" } qw(p o)),
		'SELECT ' . short('{keyed.name}') . ", {keyed.column} = '{run}p1' FROM {keyed.table} WHERE {keyed.column} IN ('{run}p1', '{run}p2', '{run}p3') ORDER BY 1;" ],

	# ---- forms that a service may find too long: each falls back to a shorter one

	[ 'long-list', [], [qw(filter-in)],
		"SELECT count(name) FROM account WHERE accountid IN ('{id.a1}', " . join(', ', map { "'{id.none$_}'" } 1 .. 600) . ');' ],
	[ 'long-batch', [], [qw(batch part-delete)],
		'SET dataverse_fdw.batch_size = 300; DELETE FROM account WHERE accountid IN ('
		  . join(', ', map { "'{id.none$_}'" } 1 .. 300) . '); RESET dataverse_fdw.batch_size;' ],

	# ---- other settings of the connection

	[ 'impersonate', [], [qw(caller)],
		"SELECT u.azureactivedirectoryobjectid AS caller FROM systemuser u, dataverse.whoami('{server}') w WHERE u.systemuserid = w.user_id \\gset
		ALTER USER MAPPING FOR CURRENT_USER SERVER {server} OPTIONS (ADD caller_id :'caller');
		UPDATE account SET fax = 'caller' WHERE accountid = '{id.a5}';
		UPDATE task SET description = 'caller' WHERE activityid = '{id.t1}';
		SELECT fax FROM account WHERE accountid = '{id.a5}';
		ALTER USER MAPPING FOR CURRENT_USER SERVER {server} OPTIONS (DROP caller_id);" ],
	[ 'affinity', [], [qw(cookie)],
		"ALTER SERVER {server} OPTIONS (ADD affinity_cookie 'true');
		SELECT fax FROM account WHERE accountid = '{id.a5}'; SELECT fax FROM account WHERE accountid = '{id.a5}';
		ALTER SERVER {server} OPTIONS (DROP affinity_cookie);" ],

	# ---- deletes

	[ 'delete', [], [qw(batch part-delete)],
		"DELETE FROM account WHERE accountid IN ('{id.s1}', '{id.s2}', '{id.none}');
		DELETE FROM account WHERE starts_with(name, '{tag} b');
		SELECT count(*) FROM account WHERE starts_with(name, '{tag} b');" ],
	[ 'truncate', ['truncate'], [qw(bulk-delete bulk-delete-query job job-counts)],
		"INSERT INTO {truncate.table} ({truncate.name}) VALUES ('{tag} z1'), ('{tag} z2');
		SELECT count(*) FROM {truncate.table} WHERE NOT coalesce(starts_with({truncate.name}, '{tag}'), false) \\gset others_
		\\if :{?others_count} \\else \\set others_count 1 \\endif
		SELECT :others_count = 0 AS only_ours \\gset
		\\if :only_ours
		ALTER FOREIGN TABLE {truncate.table} OPTIONS (ADD truncatable 'true');
		TRUNCATE {truncate.table};
		ALTER FOREIGN TABLE {truncate.table} OPTIONS (DROP truncatable);
		\\else
		\\echo the table holds other rows
		\\endif
		SELECT count(*) FROM {truncate.table} WHERE starts_with({truncate.name}, '{tag}');" ]);

1;
