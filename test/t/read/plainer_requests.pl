# plainer_requests.pl
#		Forms of queries that an environment does not support: lists of values as
#		In, long lists, counts, counts of listed values.  Each is refused once for a
#		table in a session, plainer requests return the same rows, each of them
#		once, and that form is not tried again.
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $rows = 1200;
my $crm = Crm->start('plainer');
my $base = $crm->dvsim->base;

$crm->dvsim->control('POST', "/_dvsim/seed?table=account&rows=$rows");
$crm->dvsim->control('POST', '/_dvsim/seed?table=contact&rows=300');
$crm->sql(
	qq{CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account, contact) FROM SERVER crm INTO dv;
	ALTER FOREIGN TABLE dv.account OPTIONS (ADD page_size '60');
	CREATE SCHEMA l;
	CREATE TABLE l.account AS SELECT accountid, name, numberofemployees, createdon, description FROM dv.account;
	CREATE TABLE l.contact AS SELECT contactid, lastname FROM dv.contact;
	-- 700 of them, some of which differ only in case
	CREATE TABLE l.some AS SELECT accountid, CASE WHEN row_number() OVER (ORDER BY accountid) % 2 = 0 THEN upper(name) ELSE name END AS name,
		numberofemployees FROM l.account ORDER BY accountid LIMIT 700;});

sub requests { return $crm->requests; }
sub target { return Crm::target(@_); }

# the number of values in the longest In or NotIn of a request
sub values_of
{
	my ($request) = @_;
	my $most = 0;

	for my $list (target($request) =~ /CRM\.(?:Not)?In\(PropertyName='\w+',PropertyValues=\[(.*?)\]\)/g)
	{
		my $n = () = $list =~ /","/g;
		$most = $n + 1 if $n + 1 > $most;
	}
	return $most;
}

# as psql commands
sub quirks
{
	my $names = join ',', map { "\"$_\"" } @_;
	return "\\! curl -s -o /dev/null -d '[$names]' $base/_dvsim/quirks\n";
}

sub refuses
{
	my ($json) = @_;
	return "\\! curl -s -o /dev/null -d '[$json]' $base/_dvsim/faults\n";
}
my $no_faults = "\\! curl -s -o /dev/null -X DELETE $base/_dvsim/faults\n";

# Runs one session; returns its output, its messages, and its requests.
sub session
{
	my ($script) = @_;
	my ($out, $err);

	requests();
	$crm->node->psql('postgres', "SET client_min_messages = debug1;\n$script",
		stdout => \$out, stderr => \$err, on_error_stop => 0);
	$crm->dvsim->quirks();
	$crm->no_faults;
	return ($out =~ s/\n+\z//r, [ $err =~ /^(?:psql:\S+ )?(DEBUG:  Dataverse has refused .*)$/mg ], [ requests() ], $err);
}

# the questions, for the foreign tables and the copies
my %ask = (
	ids => q{SELECT count(*), count(DISTINCT accountid), sum(hashtext(accountid::text)) FROM (SELECT accountid FROM %s.account WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.some)) OFFSET 0) x},
	names => q{SELECT count(*), count(DISTINCT accountid), sum(hashtext(accountid::text)) FROM (SELECT accountid FROM %s.account WHERE name = ANY (ARRAY(SELECT name FROM l.some)) OFFSET 0) x},
	empty => q{SELECT count(*), sum(hashtext(name)) FROM (SELECT name FROM %s.account WHERE name = ANY (ARRAY(SELECT name FROM l.some ORDER BY accountid LIMIT 50) || ''::varchar) OFFSET 0) x},
	few => q{SELECT count(*), sum(hashtext(name)) FROM (SELECT name FROM %s.account WHERE numberofemployees = ANY ('{FEW}') OFFSET 0) x},
	none => q{SELECT count(*), sum(hashtext(name)) FROM (SELECT name FROM %s.account WHERE numberofemployees <> ALL ('{FEW}') OFFSET 0) x},
	two => q{SELECT count(*), sum(hashtext(name)) FROM (SELECT name FROM %s.account WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.some)) AND (numberofemployees = ANY ('{FEW}') OR numberofemployees IN (1,2,3)) OFFSET 0) x},
	count => q{SELECT count(*) FROM %s.account WHERE numberofemployees = ANY ('{FEW}')},
	long_count => q{SELECT count(*) FROM %s.account WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.some))},
	every => q{SELECT count(*) FROM %s.account},
	range => q{SELECT count(*) FROM %s.account WHERE numberofemployees > 1000000},
	lateral => q{SELECT count(*), sum(hashtext(x.name)) FROM (SELECT numberofemployees AS k FROM l.some ORDER BY 1 LIMIT 20) v, LATERAL (SELECT name FROM %s.account WHERE numberofemployees = ANY (ARRAY[v.k, v.k + 1]) OFFSET 0) x},
	append => q{SELECT count(*), sum(hashtext(id::text)) FROM (SELECT accountid AS id FROM %1$s.account WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.some)) UNION ALL SELECT contactid FROM %1$s.contact WHERE contactid = ANY (ARRAY(SELECT contactid FROM l.contact))) x},
	sorted => q{SELECT string_agg(numberofemployees::text, ',') FROM (SELECT numberofemployees FROM %s.account WHERE numberofemployees = ANY ('{FEW}') ORDER BY 1 DESC NULLS LAST LIMIT 7 OFFSET 2) x});
my $few = $crm->sql('SELECT string_agg(numberofemployees::text, \',\') FROM (SELECT DISTINCT numberofemployees FROM l.some WHERE numberofemployees IS NOT NULL ORDER BY 1 LIMIT 150) x');
s/FEW/$few/ for values %ask;

my %answer = map { $_ => $crm->sql(sprintf $ask{$_}, 'l') } keys %ask;
sub foreign { return join '', map { sprintf($ask{$_}, 'dv') . ";\n" } @_; }
sub answers { return join "\n", map { $answer{$_} } @_; }

sub refused { return grep { $_->{status} == 400 } @_; }
sub counts { return grep { target($_) =~ /\$apply/ } @_; }

# ---- no refusals
{
	my @all = sort keys %ask;
	my ($out, $told, $requests) = session(foreign(@all));

	is($out, answers(@all), 'with every form supported, the answers are correct');
	is(scalar @$told, 0, '… without a message');
	is(scalar refused(@$requests), 0, '… and without a refusal');
	cmp_ok(scalar(grep { values_of($_) == 500 } @$requests), '>', 0, '… and lists have as many values as a condition may have');
}

# ---- each question alone, under each quirk and under all of them
for my $quirks ([ 'no-in' ], [ 'property-values-100' ], [ 'no-apply-functions' ], [ Dvsim::all_quirks() ])
{
	for my $which (sort keys %ask)
	{
		my ($out, $told, $requests, $err) = session(quirks(@$quirks) . foreign($which, $which));
		my @late = @$requests[ @$requests / 2 .. $#$requests ];

		is($out, answers($which, $which), "@$quirks: $which, twice")
		  or diag $err;
		is(scalar refused(@late), 0, '… and nothing is refused the second time');
	}
}

# ---- without In
{
	my @some = qw(ids few none names two sorted lateral ids);
	my ($out, $told, $requests) = session(quirks('no-in') . foreign(@some));
	my @with = grep { values_of($_) } @$requests;

	is($out, answers(@some), 'without In, the answers are the same');
	is(scalar @with, 1, '… In is tried once in a session');
	is($with[0], $requests->[0], '… first');
	is(scalar refused(@$requests), 1, '… and nothing else is refused');
	is(scalar @$told, 1, '… which is reported in one line');
	like($told->[0], qr/long lists of values for table account: An unknown function/, '… with the reason');
	cmp_ok(scalar(grep { my $n = () = target($_) =~ / eq /g; $n > 500 } @$requests), '==', 0,
		'… each request has few enough conditions');
}
{
	my ($out, $told, $requests) = session(quirks('no-in') . foreign(qw(append append)));
	my @refused = refused(@$requests);

	is($out, answers(qw(append append)), 'tables that are scanned concurrently');
	is(scalar @refused, 2, '… detect it one by one');
	is(scalar(grep { values_of($_) } @$requests), 2, '… and once');
}

# ---- fewer values in a list
{
	my ($out, $told, $requests) = session(quirks('property-values-100') . foreign(qw(ids names few none ids)));

	is($out, answers(qw(ids names few none ids)), 'with shorter lists, the answers are the same');
	is(join(' ', map { values_of($_) } refused(@$requests)), '500 250 125', '… their length is halved until it is accepted');
	is((sort { $b <=> $a } map { values_of($_) } grep { $_->{status} == 200 } @$requests)[0], 62, '… and stays so');
	is(scalar @$told, 1, '… which is reported in one line');
}

{
	my ($out, $told, $requests) = session(quirks('property-values-100') . foreign(qw(count count)));

	is($out, answers(qw(count count)), 'counts over lists that are too long');
	is(join(' ', map { values_of($_) } @$requests), '150 75 75', '… become counts over shorter ones');
	is(scalar counts(@$requests), 3, '… by the service');
}

# ---- counts
{
	my ($out, $told, $requests) = session(quirks('no-apply-functions') . foreign(qw(count long_count range every count)));
	my @counts = counts(@$requests);

	is($out, answers(qw(count long_count range every count)), 'counts of listed values are computed locally');
	is(scalar refused(@$requests), 1, '… after one refusal');
	is(scalar(grep { values_of($_) } @counts), 1, '… and no further attempt');
	is(scalar @counts, 3, '… while the service still computes other counts');
	is(scalar @$told, 1, '… which is reported in one line');
}
{
	my ($out, $told, $requests) = session(quirks('no-in', 'no-apply-functions') . foreign(qw(count count)));

	is($out, answers(qw(count count)), 'neither In nor a count over it');
	is(scalar refused(@$requests), 2, '… both are refused once');
	is(scalar @$told, 2, '… and reported');
	is(scalar counts(@$requests), 2, '… then the service counts single conditions');
}
{
	my $rule = '{"path":"aggregate","times":1,"status":400,"code":"0x80060888","message":"no aggregates"}';
	my ($out, $told, $requests) = session(refuses($rule) . foreign(qw(every range count)));

	is($out, answers(qw(every range count)), 'a service without counts');
	is(scalar counts(@$requests), 1, '… is asked once');
	like("@$told", qr/refused counts for table account: no aggregates/, '… which is reported');
}
{
	my $rule = '{"path":"aggregate","times":1,"status":400,"code":"0x8004E023","message":"AggregateQueryRecordLimit exceeded"}';
	my ($out, $told, $requests) = session(refuses($rule) . foreign(qw(every every)));

	is($out, answers(qw(every every)), 'too many rows to be counted');
	is(scalar counts(@$requests), 2, '… do not affect the next count');
	is(scalar @$told, 0, '… and nothing is reported');
}

# ---- if even the plainest form fails, it is an error, and nothing is remembered
{
	my $rule = '{"path":"/accounts?","times":0,"status":400,"code":"0x80041103","message":"no such attribute"}';
	my ($out, $told, $requests, $err) = session(refuses($rule) . foreign('few', 'count') . $no_faults . foreign(qw(few count)));
	my @late = grep { $_->{status} == 200 && target($_) !~ /skiptoken/ } @$requests;

	is($out, answers(qw(few count)), 'after an error, everything is as before');
	is(scalar(() = $err =~ /ERROR:  could not read foreign table "account" on server "crm": no such attribute/g), 2, 'a query that is wrong is refused')
	  or diag $err;
	is(scalar refused(@$requests), 5, '… in every form');
	is(scalar @$told, 0, '… nothing is concluded from it');
	is(scalar(grep { values_of($_) } @late), 2, '… and lists are used again');
}
{
	my $rule = '{"path":"skiptoken","status":400,"code":"0x80060888","message":"bad page"}';
	my ($out, $told, $requests, $err) = session(refuses($rule) . foreign('ids'));

	like($err, qr/ERROR:  could not read foreign table "account" on server "crm": bad page/, 'the refusal of a later page does not concern the form');
	is(scalar refused(@$requests), 1, '… and the page is not requested in another form');
}

# ---- a scan in progress; a page holds the rows of one list
$crm->sql(q{ALTER FOREIGN TABLE dv.account OPTIONS (SET page_size '1000')});
for my $quirk ('no-in', 'property-values-100')
{
	my $move = 'FETCH FORWARD 100 FROM c';
	my $cursor = q{DECLARE c CURSOR FOR SELECT accountid FROM dv.account WHERE accountid = ANY (ARRAY(SELECT accountid FROM l.some))};
	# another scan finds out while this one is in the middle of a list
	my $script = "SET client_min_messages = error; BEGIN; $cursor; $move;\n" . quirks($quirk)
	  . "SELECT FROM dv.account WHERE numberofemployees IN (1, 2) AND name = 'x';\nFETCH ALL FROM c; COMMIT;\n";
	my ($out, $told, $requests, $err) = session($script);
	my @ids = grep { /^[0-9a-f-]{36}$/ } split /\n/, $out;
	my %seen = map { $_ => 1 } @ids;

	unlike($err, qr/ERROR/, "$quirk: a cursor continues");
	is(scalar @ids, 700, '… returns all rows');
	is(scalar keys %seen, 700, '… each of them once');

	# only the scan itself can find out; the result must not lack a row
	($out, $told, $requests, $err) = session("BEGIN; $cursor; $move;\n" . quirks($quirk) . "FETCH ALL FROM c; COMMIT;\n");
	@ids = grep { /^[0-9a-f-]{36}$/ } split /\n/, $out;
	%seen = map { $_ => 1 } @ids;
	is(scalar keys %seen, 700, '… also if it is refused itself');
	is(scalar @ids, 700, '… without duplicate rows');
	is(scalar @$told, 1, '… and reports it');

	($out, $told, $requests, $err) = session(quirks($quirk)
		. q{UPDATE dv.account a SET description = 'seen' WHERE name = ANY (ARRAY(SELECT name FROM l.account WHERE accountid IN (SELECT accountid FROM l.some)));});
	is($crm->sql(q{SELECT count(*) FROM dv.account WHERE description = 'seen'}),
		$crm->sql('SELECT count(*) FROM l.account WHERE name IN (SELECT name FROM l.account WHERE accountid IN (SELECT accountid FROM l.some))'),
		'UPDATE finds its rows');
	($out, $told, $requests, $err) = session(quirks($quirk) . q{UPDATE dv.account SET description = NULL WHERE numberofemployees = ANY ('{} ') OR description = 'seen';} =~ s/\{\} /{$few}/r);
	is($crm->sql(q{SELECT count(*) FROM dv.account WHERE description = 'seen'}), 0, '… also by lists within an OR');
	($out, $told, $requests, $err) = session(quirks($quirk) . 'ANALYZE dv.account;');
	unlike($err, qr/ERROR|WARNING/, 'ANALYZE does not need lists');
	($out, $told, $requests, $err) = session(quirks($quirk) . 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)' . foreign('few'));
	like($out, qr/Requests Answered/, 'EXPLAIN ANALYZE counts the answered requests');
}
{
	my ($out, $told, $requests, $err) = session(quirks('no-in')
		. q{DELETE FROM dv.account WHERE numberofemployees = ANY ('{FEW}') AND name IS NOT NULL;} =~ s/FEW/$few/r);

	is($crm->sql(sprintf $ask{count}, 'dv'), 0, 'DELETE finds its rows');
	is($crm->sql('SELECT count(*) FROM dv.account'), $answer{every} - $answer{count}, '… and no others');
}

$crm->stop;
done_testing;
