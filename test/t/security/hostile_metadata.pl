# hostile_metadata.pl
#		Answers that a service should not give: oversized metadata, cyclic pages,
#		malformed counts.  Their cost grows linearly with their size, and every
#		statement can be canceled.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding', 'UTF8', '--locale', 'C' ]);
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION dataverse_fdw; CREATE SCHEMA dv');

# ---- a service with scripted answers: [pattern of the target, body, headers]

my @children;
END { kill 'TERM', @children if @children; }

sub answer
{
	my ($client, $answers) = @_;

	while (defined(my $request = <$client>))
	{
		my ($target) = $request =~ m{^\w+ (\S+)};
		while (defined(my $line = <$client>)) { last if $line =~ /^\r?$/; }
		my ($found) = grep { $target =~ $_->[0] } @$answers;
		my $body = $found->[1] // '{}';
		$body = $body->($target) if ref $body;
		my $headers = $found->[2] // '';
		print $client "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${headers}Content-Length: "
		  . length($body) . "\r\n\r\n$body";
	}
	return;
}

sub serve
{
	my (@answers) = @_;
	my $listener = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die $!;
	my $port = $listener->sockport;
	my $base = "http://127.0.0.1:$port";

	ref $_->[1] or $_->[1] =~ s/BASE/$base/g for @answers;
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		$SIG{TERM} = 'DEFAULT';
		@children = ();
		local $SIG{CHLD} = 'IGNORE';
		while (my $client = $listener->accept)
		{
			next if fork;
			$client->autoflush(1);
			answer($client, \@answers);
			POSIX::_exit(0);
		}
		POSIX::_exit(0);
	}
	push @children, $pid;
	$node->safe_psql('postgres', qq{
		SET client_min_messages = warning;
		DROP SERVER IF EXISTS crm CASCADE;
		CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url '$base');
		CREATE USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (access_token 'x')});
	return;
}

sub run
{
	my ($sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $sql);

	return ($out, $err);
}

# Returns the duration of a statement in seconds, after checking its errors.
sub time_of
{
	my ($sql, $errors, $name) = @_;
	my $began = time;
	my (undef, $err) = run($sql);

	like($err, $errors, $name);
	return time - $began;
}

sub list { return '{"value":[' . join(',', @_) . ']}'; }
sub table { return sprintf '{"LogicalName":"%s","EntitySetName":"%s"}', $_[0], $_[1] // 'ts'; }
sub attribute { return sprintf '{"LogicalName":"%s","AttributeTypeName":{"Value":"%s"}%s}', $_[0], $_[1], $_[2] // ''; }

sub definition
{
	my ($name, $attributes, $more) = @_;
	return sprintf '{"LogicalName":"%s","PrimaryIdAttribute":"id","Attributes":[%s]%s}', $name, join(',', @$attributes), $more // '';
}
sub definitions { return '{"EntityMetadata":[' . join(',', @_) . ']}'; }

my $import = 'IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO dv';
my $long = 'new_' . 'x' x 70;
my $id = attribute('id', 'UniqueidentifierType');

# ---- names

my @names = map { sprintf "$long%05d", $_ } 1 .. 20000;
my $second = substr($long, 0, 61) . '_2';
serve(
	[ qr/EntityDefinitions/, list(map { table($_) } @names) ],
	[ qr/RetrieveMetadataChanges/, definitions(map { definition($_, [$id]) } @names) ]);
my $seconds = time_of($import =~ s/FROM/LIMIT TO ($second) FROM/r, qr/^$/, 'one of 20,000 tables that share one long name is imported');
cmp_ok($seconds, '<', 10, 'in reasonable time');
is($node->safe_psql('postgres', qq{SELECT option_value FROM pg_foreign_table, pg_options_to_table(ftoptions)
		WHERE ftrelid = 'dv.$second'::regclass AND option_name = 'table'}),
	$names[1], 'under a name of its own');

my @columns = map { attribute("$long$_", 'StringType', ',"MaxLength":10') } 1 .. 40000;
serve(
	[ qr/EntityDefinitions/, list(table('t')) ],
	[ qr/RetrieveMetadataChanges/, definitions(definition('t', [ $id, @columns ])) ]);
$seconds = time_of($import, qr/WARNING:  table "t" is not imported\nDETAIL:  It would have 40001 columns/, 'too many columns with one long name');
cmp_ok($seconds, '<', 10, 'are refused in time');

# ---- lookups and labels

my @lookups = map { attribute("l$_", 'LookupType', ',"Targets":["t"]') } 1 .. 20000;
my @helpers = map { attribute("h${_}name", 'VirtualType', qq{,"AttributeOf":"l$_","IsValidODataAttribute":false}) } 1 .. 20000;
my @relationships = map { qq{{"ReferencingAttribute":"l$_","ReferencedEntity":"t","ReferencingEntityNavigationPropertyName":"n$_"}} } 1 .. 20000;
serve(
	[ qr/EntityDefinitions/, list(table('t')) ],
	[ qr/RetrieveMetadataChanges/, definitions(definition('t', [ $id, @lookups, @helpers ],
		',"ManyToOneRelationships":[' . join(',', @relationships) . ']')) ]);
$seconds = time_of("$import OPTIONS (import_labels 'true')", qr/WARNING:  table "t" is not imported/, 'excessive lookups, labels, and relationships');
cmp_ok($seconds, '<', 10, 'are refused in time');

# ---- choices

my @choices = map { qq{{"Value":$_,"Label":{"UserLocalizedLabel":{"Label":"Choice $_"}}}} } 1 .. 100000;
serve(
	[ qr/EntityDefinitions/, list(table('t')) ],
	[ qr/RetrieveMetadataChanges/, definitions(definition('t', [ $id, attribute('c', 'PicklistType',
		',"OptionSet":{"Options":[' . join(',', @choices) . ']}') ])) ]);
$seconds = time_of($import, qr/^$/, '100,000 choices are imported');
cmp_ok($seconds, '<', 10, 'in time');
is($node->safe_psql('postgres',
		q{SELECT count(*) FROM regexp_matches(col_description('dv.t'::regclass, 2), '(\d+) = Choice \1[,)]', 'g')}),
	100000, 'with a comment that lists them all');

# ---- cancel

sub cancels
{
	my ($sql, $name) = @_;
	my $began = time;
	my ($out, $err) = run("SET statement_timeout = '300ms'; $sql");

	like($err, qr/canceling statement due to statement timeout/, "$name can be canceled");
	cmp_ok(time - $began, '<', 2, 'soon');
	return;
}

my $many = join ',', map { table("t$_") } 1 .. 20000;
serve([ qr/EntityDefinitions/, '{"value":[' . join(',', ($many) x 40) . ']}' ]);
cancels($import, 'the list of tables');

serve(
	[ qr/EntityDefinitions/, list(table('t')) ],
	[ qr/RetrieveMetadataChanges/, definitions(definition('t', [ $id, (@columns) x 20 ])) ]);
cancels($import, 'a table with 800,000 columns');

my $rows = join ',', ('{"id":"a0000000-0000-4000-8000-000000000001"}') x 1000000;
my $pages = 0;
serve([ qr/ts\?/, sub { sprintf '{"value":[%s],"@odata.nextLink":"%s?skip=%d"}', $rows, $_[0] =~ s/\?.*//r, ++$pages } ]);
my $create = q{CREATE FOREIGN TABLE IF NOT EXISTS dv.rows (id uuid, n integer) SERVER crm OPTIONS ("table" 't', entity_set 'ts', primary_id 'id')};
$node->safe_psql('postgres', $create);
cancels('SELECT id FROM dv.rows OFFSET 100000000', 'endless large pages');

# ---- cycles

serve(
	[ qr/EntityDefinitions/, list(table('t')) ],
	[ qr/skip=1/, '{"value":[{"objectid":"x"}],"@odata.nextLink":"BASE/api/data/v9.2/solutioncomponents?skip=2"}' ],
	[ qr/skip=2/, '{"value":[{"objectid":"x"}],"@odata.nextLink":"BASE/api/data/v9.2/solutioncomponents?skip=3"}' ],
	[ qr/solutioncomponents/, '{"value":[{"objectid":"x"}],"@odata.nextLink":"BASE/api/data/v9.2/solutioncomponents?skip=1"}' ]);
time_of("SET statement_timeout = '10s'; IMPORT FOREIGN SCHEMA circle FROM SERVER crm INTO dv",
	qr/ERROR:  could not import foreign schema on server "crm": Dataverse returned the same page again/, 'a cyclic solution');

serve(
	[ qr/skip=1/, '{"value":[{"id":"a0000000-0000-4000-8000-000000000001"}],"@odata.nextLink":"BASE/api/data/v9.2/ts?skip=2"}' ],
	[ qr/skip=2/, '{"value":[{"id":"a0000000-0000-4000-8000-000000000001"}],"@odata.nextLink":"BASE/api/data/v9.2/ts?skip=3"}' ],
	[ qr/ts/, '{"value":[{"id":"a0000000-0000-4000-8000-000000000001"}],"@odata.nextLink":"BASE/api/data/v9.2/ts?skip=1"}' ]);
$node->safe_psql('postgres', $create);
time_of("SET statement_timeout = '10s'; SELECT id FROM dv.rows",
	qr/ERROR:  could not read foreign table "rows" on server "crm": Dataverse returned the same page again/, 'cyclic pages of rows');

# ---- counts and numbers

for my $answer ('{"value":[]}', '{"value":[{}]}', '{"value":[{"n":null}]}', '{"value":[{"n":-1}]}', '{"value":[{"n":1},{"n":1}]}', '{"value":[{"n":1e300}]}')
{
	serve([ qr/ts\?/, $answer ]);
	$node->safe_psql('postgres', $create);
	is_deeply([ run('SELECT count(*) FROM dv.rows') ], [ '', 'psql:<stdin>:1: ERROR:  could not read foreign table "rows" on server "crm": Dataverse returned no count' ],
		"COUNT answered with $answer");
}
for my $hint ('1e300', '-5', 'nan', '99999999999999999999', 'inf')
{
	serve([ qr/WhoAmI/, '{"UserId":"a0000000-0000-4000-8000-000000000001"}', "x-ms-dop-hint: $hint\r\n" ]);
	is(join('|', run(q{SELECT ok, dop_hint FROM dataverse.test_connection('crm')})), 't||', "x-ms-dop-hint: $hint");
}

done_testing();
