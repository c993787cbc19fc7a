# fetch_shapes.pl
#		Services that answer FetchXML in unexpected ways: other names for columns of
#		links, pages without cookies, groups that fail.  Also the options that leave
#		joins and groups to PostgreSQL.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(sum);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use Crm;
use Session;

my $crm = Crm->start('shapes', preload => 1, flags => [ '--journal-bytes', 268_435_456 ]);
my $dvsim = $crm->dvsim;
my $rows = 700;

$dvsim->control('POST', '/_dvsim/seed?table=account&rows=200');
$dvsim->control('POST', "/_dvsim/seed?table=contact&rows=$rows", { lookups => { parentcustomerid => { table => 'account', filled => 0.8 } } });
$crm->sql(
	q{CREATE SCHEMA dv; CREATE SCHEMA l;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.contact OPTIONS (ADD page_size '100');
	CREATE TABLE l.contact AS SELECT contactid, lastname, gendercode, parentcustomerid FROM dv.contact;
	CREATE TABLE l.account AS SELECT accountid, name, industrycode FROM dv.account;
	ANALYZE dv.account, dv.contact});

my %ask = (
	inner => 'SELECT c.contactid, c.lastname, a.name FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid',
	outer => 'SELECT c.contactid, c.lastname, a.name FROM dv.contact c LEFT JOIN dv.account a ON a.accountid = c.parentcustomerid',
	groups => 'SELECT gendercode, count(*), count(DISTINCT parentcustomerid) FROM dv.contact GROUP BY gendercode',
	groups_of_join => 'SELECT a.industrycode, count(*) FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid GROUP BY a.industrycode');
my %answer = map { $_ => sorted($crm->sql($ask{$_} =~ s/\bdv\./l./gr)) } keys %ask;

# settings that leave groups to the service
my $settings = q{SET enable_hashagg = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off};

sub sorted { return join "\n", sort split /\n/, $_[0]; }
sub decoded { return $_[0] =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ger; }
sub quirks { return $dvsim->control('POST', '/_dvsim/quirks', [@_]); }


# Runs in a session of its own; returns the output, the error, and the targets of the requests with FetchXML.
sub asked
{
	my ($query, $session) = @_;
	my ($out, $err) = ('', '');

	$crm->requests;
	$crm->node->psql('postgres', $query, stdout => \$out, stderr => \$err, on_error_stop => 0);
	return (sorted($out), $err, map { $_->{target} } grep { $_->{target} =~ /fetchXml/ } $crm->requests);
}

sub right_ok
{
	my ($name, $what) = @_;
	my ($out, $err, @sent) = asked($ask{$name});

	is($err, '', "$what: no error");
	ok($out eq $answer{$name}, '… and the correct rows');
	return @sent;
}

#
# Names of the columns of links
#

# Has the service answer a join with other names for the columns of links.
sub rename_links
{
	my ($name, $rename) = @_;
	my (undef, undef, $target) = asked($ask{$name});
	my $answer = $dvsim->get($target =~ s{^/api/data/v9\.2/}{}r, Prefer => 'odata.include-annotations="*"')->json;

	# the columns of the root are c0 and before
	for my $row (@{ $answer->{value} })
	{
		$row->{ $rename->($_) } = delete $row->{$_} for grep { /^c[1-9]/ } keys %$row;
	}
	$crm->fault(path => 'link-entity', status => 200, body => $answer, times => 0);
	return;
}

for my $case ([ 'a prefix', sub { "t1.$_[0]" } ], [ 'an encoded prefix', sub { "t1_x002e_$_[0]" } ], [ 'their own names', sub { "name_$_[0]" } ])
{
	my ($what, $rename) = @$case;

	rename_links('inner', $rename);
	my ($out, $err, @sent) = asked($ask{inner});

	like($err, qr/ERROR:  could not read foreign tables "contact" and "account" on server "crm": Dataverse does not name columns of joined tables as requested\n/,
		"$what: values under other names are not read as NULL");
	like($err, qr/HINT:  .*"push_joins"/, '… and the hint says what to do');
	is($out, '', '… without a row');
	cmp_ok(scalar(@sent), '<=', 2, '… and without repeated requests');
	$crm->no_faults;
}
rename_links('outer', sub { "t1.$_[0]" });
like((asked($ask{outer}))[1], qr/does not name columns of joined tables as requested/, 'the same for an outer join');
$crm->sql(q{ALTER SERVER crm OPTIONS (ADD push_joins 'off')});
right_ok($_, "$_, joined locally") for 'inner', 'outer', 'groups_of_join';
$crm->sql('ALTER SERVER crm OPTIONS (DROP push_joins)');
$crm->no_faults;

# Answers for groups: the members to remove or rename, and the error.
sub spoil_groups
{
	my ($name, $spoil) = @_;
	my (undef, undef, $target) = asked("$settings; $ask{$name}");
	my $answer = $dvsim->get($target =~ s{^/api/data/v9\.2/}{}r, Prefer => 'odata.include-annotations="*"')->json;
	my %alias = map { /name='(\w+)' alias='(c\d+)'(.*?)\// ? ("$1$3" => $2) : () } split /</, decoded($target);

	$spoil->($_, \%alias) for @{ $answer->{value} };
	$crm->fault(path => 'aggregate', status => 200, body => $answer, times => 0);
	return;
}

spoil_groups('groups', sub { my ($row, $alias) = @_; delete $row->{ $alias->{"contactid aggregate='count'"} // die }; });
like((asked("$settings; $ask{groups}"))[1], qr/ERROR:  could not read foreign table "contact" on server "crm": Dataverse returned no count$/, 'a missing count is not 0');
$crm->no_faults;

# Unknown names; "none" joins in the other direction and has no linked rows.
$ask{none} = 'SELECT a.accountid, c.lastname FROM dv.account a LEFT JOIN dv.contact c ON c.contactid = a.primarycontactid';
$ask{none_of_these} = "$ask{outer} WHERE c.parentcustomerid IS NULL";
$ask{some} = "$ask{outer} WHERE c.parentcustomerid IS NOT NULL";
$ask{groups_of_outer} = $ask{groups_of_join} =~ s/ JOIN/ LEFT JOIN/r;
$ask{no_columns} = 'SELECT c.contactid FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid AND a.industrycode = 1';
$crm->sql(q{UPDATE dv.account SET primarycontactid = NULL;
	DROP TABLE l.account; CREATE TABLE l.account AS SELECT accountid, name, industrycode, primarycontactid FROM dv.account});
$answer{$_} = sorted($crm->sql($ask{$_} =~ s/\bdv\./l./gr)) for 'none', 'none_of_these', 'some', 'groups_of_outer', 'no_columns';

quirks('link-names');
for my $name ('inner', 'outer', 'none_of_these', 'some', 'groups_of_join', 'groups_of_outer')
{
	my ($out, $err, @sent) = asked($ask{$name});

	like($err, qr/ERROR:  could not read .* on server "crm": Dataverse does not name columns of joined tables as requested\n/, "$name: values under other names are not read as NULL");
	is($out, '', '… without a row');
	cmp_ok(scalar(@sent), '<=', 3, '… and without repeated requests') or diag join "\n", @sent;
}
for my $name ('none', 'no_columns')
{
	my @sent = right_ok($name, "$name: no name can be wrong");

	is(scalar(grep { /'inner'.*'accountid'|top=/ } map { decoded($_) } @sent), $name eq 'none' ? 1 : 0, '… which is verified only if columns are selected') or diag join "\n", map { decoded($_) } @sent;
}
quirks();
for my $name ('none', 'none_of_these', 'some', 'groups_of_join', 'groups_of_outer')
{
	my $session = Session->new($crm->node);
	my @pairs;

	for (1 .. 2)
	{
		$crm->requests;
		ok(sorted($session->query($ask{$name})) eq sorted($answer{$name}), "$name, time $_ in a session: the correct rows");
		push @pairs, scalar grep { /top=/ } map { decoded($_->{target}) } $crm->requests;
	}
	is("@pairs", $name eq 'none' ? '1 1' : $name eq 'none_of_these' ? '1 0' : '0 0', '… with one more request if the rows do not decide');
}

# the service may refuse that question
$crm->fault(path => 'top=', status => 400, code => '0x80048D0B', message => 'Link entities are not supported.', times => 0);
is(scalar(grep { /top=/ } map { decoded($_) } right_ok('none_of_these', 'a question that is refused')), 1, '… was asked');
$crm->no_faults;

# the first join of a session requests the id of the linked row; later ones need not
{
	my $session = Session->new($crm->node);
	my @targets;

	for (1 .. 2)
	{
		$crm->requests;
		ok(sorted($session->query("$ask{inner} ORDER BY 1")) eq sorted($answer{inner}), "join $_ of a session");
		push @targets, (map { $_->{target} } grep { $_->{target} =~ /fetchXml/ } $crm->requests)[0];
	}
	like($targets[0], qr/link-entity.*accountid.*alias.*accountid/i, 'the first one is verified');
	cmp_ok(length $targets[1], '<', length $targets[0], '… and the second one is not');
}

#
# Pages without cookies
#

quirks('no-cookies');
for my $name ('inner', 'outer')
{
	my $start = time;
	my @sent = right_ok($name, "$name join without cookies");
	my $pages = $name eq 'outer' ? $rows / 100 : 1;

	cmp_ok(time - $start, '<', 10, '… and without waiting');
	cmp_ok(scalar(@sent), '>=', $pages, '… page by page');
	is(scalar(grep { /paging-cookie/ } @sent), 0, '… by their numbers');
}
# a partial page that announces another one is broken
$crm->fault(path => 'fetchXml', status => 200, body => { value => [], '@Microsoft.Dynamics.CRM.morerecords' => \1 }, after => 2, times => 1);
right_ok('outer', 'an empty page is requested again');
$crm->no_faults;

# beyond the service's limit
$dvsim->control('POST', '/_dvsim/seed?table=contact&rows=52000', { lookups => { parentcustomerid => { table => 'account', filled => 1 } } });
$crm->sql(q{ALTER FOREIGN TABLE dv.contact OPTIONS (SET page_size '5000')});
{
	my $total = $crm->sql('SELECT count(*) FROM dv.contact');
	my ($out, $err, @sent) = asked("SET statement_timeout = '60s'; SELECT count(c.lastname), count(a.name) FROM ($ask{outer} OFFSET 0) q (contactid, lastname, name), LATERAL (SELECT q.lastname) c, LATERAL (SELECT q.name) a");

	like($err, qr/the query returns more than 50000 rows, and Dataverse provides no paging cookies for it\n/, 'more than 50,000 rows are an error that says so');
	is(scalar @sent, 10, '… after those that can be read');
	$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (ADD push_joins 'off')});
	is($crm->sql("SELECT count(*) FROM ($ask{outer} OFFSET 0) q"), $total, 'joined locally, all rows are returned');
	$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (DROP push_joins)});
	quirks();
	is($crm->sql("SELECT count(*) FROM ($ask{outer} OFFSET 0) q"), $total, '… and with cookies as well');
}
$crm->sql('TRUNCATE l.contact; INSERT INTO l.contact SELECT contactid, lastname, gendercode, parentcustomerid FROM dv.contact');
$answer{$_} = sorted($crm->sql($ask{$_} =~ s/\bdv\./l./gr)) for keys %ask;

#
# Groups that fail, as for log tables
#

$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retries '1')});
for my $name ('groups', 'groups_of_join')
{
	for my $code ('0x80040216', '0x8004023B', '0x80040315')
	{
		$crm->fault(path => 'aggregate', status => 500, code => $code, message => 'The operation is not supported on this table.', times => 0);
		my ($out, $err, @sent) = asked("$settings; $ask{$name}");

		is($err, '', "$name, 500 $code: no error");
		ok($out eq $answer{$name}, '… and the correct groups, formed locally');
		cmp_ok(scalar(grep { /aggregate/ } @sent), '>=', 2, '… after retries');
		$crm->no_faults;
	}
	# a gateway's error is no statement about the query
	$crm->fault(path => 'aggregate', status => 502, times => 0);
	like((asked("$settings; $ask{$name}"))[1], qr/ERROR:  could not read foreign table/, "$name: 502 is an error");
	$crm->no_faults;
}
# everything fails
$crm->fault(path => 'contacts', status => 500, code => '0x80040216', message => 'An unexpected error occurred.', times => 0);
like((asked("$settings; $ask{groups}"))[1], qr/ERROR:  could not read foreign table .*An unexpected error occurred/s, 'an error that rows cause as well is raised');
$crm->no_faults;

#
# Joins that fail, in the same way: the tables are read one by one
#

$ask{limited} = "$ask{outer} WHERE c.gendercode = 1 ORDER BY c.contactid DESC OFFSET 2 LIMIT 7";
$ask{three} = 'SELECT c.contactid, a.name, p.contactid AS first FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid LEFT JOIN dv.contact p ON p.contactid = a.primarycontactid';
$ask{exists} = 'SELECT name FROM dv.account a WHERE EXISTS (SELECT FROM dv.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)';
$ask{not_exists} = 'SELECT name FROM dv.account a WHERE NOT EXISTS (SELECT FROM dv.contact c WHERE c.parentcustomerid = a.accountid AND c.gendercode = 1)';
$ask{again} = 'SELECT v, (SELECT count(c.lastname) + count(a.name) FROM (SELECT * FROM dv.contact WHERE gendercode = v OFFSET 0) x JOIN dv.contact c USING (contactid) JOIN dv.account a ON a.accountid = c.parentcustomerid) FROM generate_series(1, 3) v';
$ask{having} = "$ask{groups_of_join} HAVING count(*) > " . $crm->sql("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM (" . ($ask{groups_of_join} =~ s/\bdv\./l./gr) . ') g (code, n)');
$ask{limited_group} = "$ask{groups_of_join} ORDER BY 2 DESC, 1 LIMIT 2";
# the parameter of a filter that is checked here changes, and nothing that is sent
$ask{filter} = q{SELECT v.p, (SELECT count(c.lastname) + count(a.name) FROM dv.contact c JOIN dv.account a ON a.accountid = c.parentcustomerid WHERE c.lastname ~ v.p) FROM (VALUES ('^[A-K]'), ('^[L-Z]')) v(p)};
$ask{subplan} = "$ask{inner} WHERE c.lastname = 'x' OR c.gendercode IN (SELECT v FROM generate_series(1, 2) v)";
$crm->sql('ALTER FOREIGN TABLE dv.account ADD primarycontactid uuid; ALTER TABLE l.account ADD primarycontactid uuid') if $crm->sql("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'dv' AND column_name = 'primarycontactid'") eq '0';
$crm->sql('UPDATE l.account l SET primarycontactid = a.primarycontactid FROM dv.account a WHERE a.accountid = l.accountid');

my @joins = qw(inner outer limited three exists not_exists again having limited_group filter subplan groups_of_join);
$answer{$_} = sorted($crm->sql($ask{$_} =~ s/\bdv\./l./gr)) for @joins;
cmp_ok(scalar(split /\n/, $answer{having}), '<', scalar(split /\n/, $answer{groups_of_join}), 'HAVING leaves some groups out');
unlike($answer{filter}, qr/\|(\d+)\n.*\|\1$/, 'and the filter matters');
right_ok('filter', 'rows that are kept are filtered again');

for my $case ([ 500, '0x80040216', 'The operation is not supported on this table.' ], [ 400, '0x80048D0B', 'Link entities are not supported.' ], [ 501, '0x80060888', 'not implemented' ])
{
	my ($status, $code, $message) = @$case;

	$crm->fault(path => 'link-entity', status => $status, code => $code, message => $message, times => 0);
	for my $name (@joins)
	{
		my @sent = right_ok($name, "$name, $status");
		cmp_ok(scalar(@sent), '>=', ($status == 500 ? 2 : 1), '… after it has been tried as often as any request');
	}
	my ($out, $err, @sent) = asked("SET client_min_messages = debug1; $settings; $ask{outer}; $ask{limited}; $ask{outer}; $ask{inner}; $ask{groups_of_join}; $ask{three}");
	my @told = $err =~ /DEBUG:  Dataverse has refused joins for table (.*): \Q$message\E$/mg;
	is(join('; ', @told), 'contact, account (outer); contact, account (inner); account, contact (outer)', "$status: it is told once for each kind of join");
	is(scalar(grep { /link-entity/ } @sent), 3 * ($status == 500 ? 2 : 1), '… which the session does not ask for again') or diag map { decoded($_) . "\n" } @sent;
	is($out, join("\n", sort map { split /\n/, $answer{$_} } qw(outer limited outer inner groups_of_join three)), '… and gets all rows');
	for my $object ('SERVER crm', 'FOREIGN TABLE dv.account', 'FOREIGN TABLE dv.contact')
	{
		$crm->sql("ALTER $object OPTIONS (ADD push_joins 'off')");
		is(scalar(right_ok($_, "$_, with the option of $object")), 0, '… nothing is tried') for qw(outer groups_of_join);
		$crm->sql("ALTER $object OPTIONS (DROP push_joins)");
	}
	like($crm->sql("$settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $ask{outer}"), qr/Joined by Dataverse: c, a\n\s*Joined Here: true\n/, '… EXPLAIN tells');
	unlike($crm->sql("$settings; $ask{outer} OFFSET 100000; EXPLAIN (COSTS OFF) $ask{outer}"), qr/Joined by Dataverse/, '… and later plans do without');
	# plans that were made before, and scans that are run again
	($out, $err, @sent) = asked("$settings; SET plan_cache_mode = force_generic_plan; PREPARE q AS $ask{outer}; EXECUTE q; EXECUTE q; PREPARE g AS $ask{groups_of_join}; EXECUTE g; EXECUTE g");
	is($out, join("\n", sort map { split /\n/, $answer{$_} } qw(outer outer groups_of_join groups_of_join)), '… cached plans return all rows');
	is(scalar(grep { /link-entity/ } @sent), 3 * ($status == 500 ? 2 : 1), '… and do not ask again') or diag map { decoded($_) . "\n" } @sent;
	$crm->no_faults;
	unlike($crm->sql("$settings; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $ask{outer}"), qr/Joined Here/, '… but only where it happened');
}

# a list of which a part has been answered: the rest of it is read from the tables
{
	my $list = join ', ', map { "'$_'" } split /\n/, $crm->sql('SELECT contactid FROM dv.contact ORDER BY contactid LIMIT 1100');
	my $keys = join ', ', map { "'$_'" } split /\n/, $crm->sql("SELECT md5(i::text)::uuid FROM generate_series(1, 1085) i UNION ALL (SELECT accountid FROM dv.account ORDER BY md5(accountid::text) LIMIT 15)");
	my @lists = ("$ask{outer} WHERE c.contactid IN ($list)", "$ask{inner} WHERE a.accountid IN ($keys)");

	for my $n (0 .. $#lists)
	{
		$ask{listed} = "$settings; $lists[$n]";
		$answer{listed} = sorted($crm->sql($lists[$n] =~ s/\bdv\./l./gr));
		is(scalar(my @sent = right_ok('listed', "list $n")), 3, '… in three requests');
		for my $after (0 .. 2)
		{
			$crm->fault(path => 'link-entity', status => 400, code => '0x80048D0B', message => 'Link entities are not supported.', after => $after, times => 0);
			is(scalar(right_ok('listed', "list $n, refused after $after requests")), $after + 1, '… of which the last one was');
			$crm->no_faults;
		}
	}
}

# a link with a list: few keys are requested beside it, and its rows are kept only as far as memory allows
{
	my ($names, $listed) = split /\|/, $crm->sql('SELECT array_agg(DISTINCT a.name)::text, count(*) FROM (SELECT name FROM l.account OFFSET 20) n JOIN l.account a USING (name)');
	my $few = $crm->sql('SELECT array_agg(contactid)::text FROM (SELECT contactid FROM l.contact WHERE parentcustomerid IS NOT NULL ORDER BY md5(contactid::text) LIMIT 40) c');

	$crm->fault(path => 'link-entity', status => 400, code => '0x80048D0B', message => 'Link entities are not supported.', times => 0);
	for my $case ([ 'few rows', "AND c.contactid = ANY ('$few')", '4MB', 1, 40 ], [ 'many rows', '', '4MB', $listed, $listed ], [ 'many rows in little memory', '', '64kB', 2 * $listed, 500 * $listed ])
	{
		my ($what, $where, $memory, $least, $most) = @$case;
		my $prepare = "PREPARE q(text[]) AS $ask{inner} WHERE a.name = ANY (\$1) $where";
		my $execute = "EXECUTE q (\$\$$names\$\$)";
		my $begin = "$settings; SET plan_cache_mode = force_generic_plan; SET work_mem = '$memory'; SET hash_mem_multiplier = 1; $prepare";

		$ask{link_listed} = "$begin; $execute";
		$answer{link_listed} = sorted($crm->sql($ask{link_listed} =~ s/\bdv\./l./gr));
		right_ok('link_listed', "$what, and a list of the link");
		my $read = sum map { $_->{rows} // 0 } grep { $_->{target} =~ m{/accounts\?} } $crm->sent($ask{link_listed});
		cmp_ok($read, '>=', $least, "… $read rows of the link were read");
		cmp_ok($read, '<=', $most, '… and no more');
	}
	# with a variable, since EXECUTE opens no cursor
	my $kept = $crm->sql("$settings; SET work_mem = '64kB'; SET hash_mem_multiplier = 1; BEGIN;
		DO \$do\$ DECLARE k refcursor := 'k'; names text[] := \$\$$names\$\$; BEGIN SET LOCAL plan_cache_mode = force_generic_plan; OPEN k FOR $ask{inner} WHERE a.name = ANY (names); END \$do\$;
		MOVE 1000 FROM k; SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'dataverse listed links' OR parent = 'dataverse listed links'");
	cmp_ok($kept, '<', 65536, "… which need $kept bytes");
	$crm->no_faults;
}

# what the tables are refused for is no fault of the join's
$crm->fault(path => 'contacts', status => 400, code => '0x80048D0B', message => 'No contacts.', times => 0);
{
	my (undef, $err, @sent) = asked("SET client_min_messages = debug1; $settings; $ask{outer}; $ask{outer}");

	is(scalar(() = $err =~ /ERROR:  could not read foreign table "contact" .*No contacts\./g), 2, 'tables that are refused are an error');
	is(scalar(grep { /link-entity/ } @sent), 2, '… and say nothing about joins');
}
$crm->no_faults;
# an error unrelated to the query has another hint, or none
$crm->fault(path => 'link-entity', status => 502, times => 0);
unlike((asked($ask{outer}))[1], qr/push_joins/, '502: no such hint');
$crm->no_faults;
$crm->fault(path => 'contacts', status => 400, code => '0x80060888', message => 'no FetchXML', times => 0);
like((asked("$settings; $ask{groups}"))[1], qr/HINT:  To form the groups in PostgreSQL, set option "push_groups" of the server, or of the foreign table, to "off"\./, 'nor for groups that cannot be formed from rows');
$crm->no_faults;

#
# Options: cached plans are rebuilt
#

my $session = Session->new($crm->node);

$session->query(q{SET plan_cache_mode = force_generic_plan});
$session->query("SET enable_hashagg = off; SET enable_sort = off");
$session->query("PREPARE joined AS $ask{outer}");
$session->query("PREPARE grouped AS $ask{groups}");
for my $case (
	[ 'nothing', '', '', 1, 1 ],
	[ 'push_joins of the server', "ALTER SERVER crm OPTIONS (ADD push_joins 'off')", "ALTER SERVER crm OPTIONS (DROP push_joins)", 0, 1 ],
	[ 'push_groups of the server', "ALTER SERVER crm OPTIONS (ADD push_groups 'off')", "ALTER SERVER crm OPTIONS (DROP push_groups)", 1, 0 ],
	[ 'push_joins of one table', "ALTER FOREIGN TABLE dv.account OPTIONS (ADD push_joins 'off')", "ALTER FOREIGN TABLE dv.account OPTIONS (DROP push_joins)", 0, 1 ],
	[ 'push_groups of another table', "ALTER FOREIGN TABLE dv.account OPTIONS (ADD push_groups 'off')", "ALTER FOREIGN TABLE dv.account OPTIONS (DROP push_groups)", 1, 1 ],
	[ 'push_groups of the table', "ALTER FOREIGN TABLE dv.contact OPTIONS (ADD push_groups 'off')", "ALTER FOREIGN TABLE dv.contact OPTIONS (DROP push_groups)", 1, 0 ],
	[ 'a table that differs from the server', "ALTER SERVER crm OPTIONS (ADD push_joins 'off', ADD push_groups 'off'); ALTER FOREIGN TABLE dv.contact OPTIONS (ADD push_groups 'on')",
		"ALTER SERVER crm OPTIONS (DROP push_joins, DROP push_groups); ALTER FOREIGN TABLE dv.contact OPTIONS (DROP push_groups)", 0, 1 ])
{
	my ($what, $on, $off, $joins, $groups) = @$case;

	$crm->sql($on) if $on;
	is(($session->query('EXPLAIN (COSTS OFF) EXECUTE joined') =~ /Joined by Dataverse/) ? 1 : 0, $joins, "$what: joins");
	is(($session->query('EXPLAIN (COSTS OFF) EXECUTE grouped') =~ /Grouped by Dataverse/) ? 1 : 0, $groups, '… and groups');
	ok(sorted($session->query('EXECUTE grouped')) eq $answer{groups}, '… with the correct answer') or diag $session->query('EXECUTE grouped'), "\n", $answer{groups};
	$crm->sql($off) if $off;
}

done_testing();
