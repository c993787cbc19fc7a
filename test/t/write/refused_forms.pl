# refused_forms.pl
#		Forms of writes that an environment does not support: bulk messages, refused
#		with various errors, and long batches.  The plainer form is used instead, the
#		session remembers it, and each row is written once.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;

my $id = '00000000-0000-0000-0000-0000000000';
my $crm = Crm->start('refused_forms', options => { max_parallel => 1, batch_size => 10 });
my $dvsim = $crm->dvsim;
my $since = 0;

$crm->sql(q{
	CREATE SCHEMA dv;
	IMPORT FOREIGN SCHEMA dataverse FROM SERVER crm INTO dv;
	CREATE FUNCTION affected(sql text) RETURNS bigint LANGUAGE plpgsql AS
		$$ DECLARE n bigint; BEGIN EXECUTE sql; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END $$});

# Returns the writes since the last call: "CreateMultiple", or "$batch" with its number of parts.
sub writes
{
	my $log = $dvsim->control('GET', "/_dvsim/requests?since=$since")->json;

	$since = $log->{next};
	return [
		map {
			my $parts = () = $_->{body} =~ m{^(?:POST|PATCH|DELETE) \S+ HTTP/1\.1\r$}mg;
			my $set = $_->{body} =~ /boundary=changeset/ ? ' in a change set' : '';

			$_->{target} =~ /(\w+Multiple)/ ? $1 : "\$batch of $parts$set";
		} grep { $_->{method} eq 'POST' && $_->{kind} ne 'token' } @{ $log->{requests} } ];
}

# The same without repetitions: a request may have got its slot before the previous answer was read.
sub forms
{
	my ($sent) = @_;
	my @forms;

	for (@$sent)
	{
		push @forms, $_ if !@forms || $forms[-1] ne $_;
	}
	return \@forms;
}

# Runs a statement in a new session, and returns its row count, and the writes.
sub affected
{
	my ($sql, $settings) = @_;

	writes();
	my $n = $crm->sql(($settings // '') . "; SELECT affected(\$q\$$sql\$q\$)");
	return ($n, writes());
}

# ---- tables without bulk messages, each with another error

my %name = (task => 'subject', phonecall => 'subject', annotation => 'subject', team => 'name');
my %key = (task => 'activityid', phonecall => 'activityid', annotation => 'annotationid', team => 'teamid');

for my $table (sort keys %name)
{
	my ($name, $key) = ($name{$table}, $key{$table});
	my $rows = "INSERT INTO dv.$table ($key, $name) SELECT ('$id' || i)::uuid, 'r' || i FROM generate_series(10, 34) i";
	my ($n, $sent) = affected($rows);

	is($n, 25, "$table: INSERT");
	like(join(', ', @{ forms($sent) }), qr/^CreateMultiple(, \$batch of \d+( in a change set)?)+$/, '… tries the bulk message only at first');
	is($crm->sql("SELECT count(*), count(DISTINCT $name) FROM dv.$table WHERE $name LIKE 'r__'"), '25|25', '… and writes each row once');

	($n, $sent) = affected("UPDATE dv.$table SET $name = 'changed' WHERE $key = '${id}10'");
	is($n, 1, "$table: UPDATE of one row, which exists");
	is_deeply($sent, [ 'UpdateMultiple', '$batch of 1' ], '… although the error does not name it');
	is($crm->sql("SELECT $name FROM dv.$table WHERE $key = '${id}10'"), 'changed', '… and is changed');
	($n, $sent) = affected("UPDATE dv.$table SET $name = 'changed' WHERE $key = '${id}99'");
	is($n, 0, "$table: UPDATE of one row that does not exist");
	is_deeply($sent, [ 'UpdateMultiple', '$batch of 1' ], '… which is known after sending it alone');
	($n, $sent) = affected("UPDATE dv.$table SET $name = 'changed' WHERE $key IN ('${id}10', '${id}11', '${id}99')");
	is($n, 2, "$table: UPDATE of three rows, of which one does not exist");
	($n, $sent) = affected(
		"INSERT INTO dv.$table ($key, $name) VALUES ('${id}40', 'u'), ('${id}10', 'u')",
		"SET dataverse_fdw.insert_mode = 'upsert'");
	is($n, 2, "$table: upsert");
	is($sent->[0], 'UpsertMultiple', '… tries the message');
	is($crm->sql("SELECT count(*) FROM dv.$table WHERE $name = 'u'"), 2, '… and writes each row once');
}

# ---- a table with bulk messages

$crm->sql("INSERT INTO dv.account (accountid, name) SELECT ('$id' || i)::uuid, 'a' || i FROM generate_series(10, 39) i");
for my $n (1, 3)
{
	my $ids = join(', ', map { "'${id}$_'" } 99, $n == 1 ? () : (10, 11));
	my ($changed, $sent) = affected(
		"UPDATE dv.account SET fax = '1' WHERE accountid IN ($ids); UPDATE dv.account SET fax = '2' WHERE accountid IN ('${id}12', '${id}13')");

	is($sent->[0], 'UpdateMultiple', 'a row is missing');
	is($sent->[-1], 'UpdateMultiple', '… but this is not taken for a missing bulk message');
}

# Two statements of a session update thirty rows each while the bulk message is refused.
sub writes_plainly
{
	my ($value, $what) = @_;
	my ($changed, $sent) = affected(join '; ',
		map { "UPDATE dv.account SET fax = '$_ ' || $value WHERE accountid <= '${id}39'" } 'first', 'last');

	is($changed, 30, $what);
	# batches that had a slot already when the refusal was read have been refused as well
	like(join(', ', @$sent[ 0 .. $#$sent - 3 ]),
		qr/^UpdateMultiple(, \$batch of 10( in a change set)?){3}$/, '… their rows are sent once more');
	is_deeply([ @$sent[ -3 .. -1 ] ], [ ('$batch of 10') x 3 ], '… and the refusal is remembered');
	is($crm->sql("SELECT count(*) FROM dv.account WHERE fax = 'last $value'"), 30, '… and all are written');
	return;
}

# an unknown error of the bulk message, and a row that is refused with an unknown error
$crm->fault(path => 'UpdateMultiple', status => 404, code => '', message => 'Not here.', times => 0);
my ($n, $sent) = affected("UPDATE dv.account SET fax = '3' WHERE accountid = '${id}10'");
is($n, 1, 'a 404 without a code does not mean a missing row');
is($crm->sql("SELECT fax FROM dv.account WHERE accountid = '${id}10'"), '3', '… it is written');
writes_plainly(4, 'nor does it for many rows');
$crm->no_faults;
$crm->fault(path => 'UpdateMultiple', status => 404, code => '', message => "account With Id = ${id}10 Does Not Exist");
($n, $sent) = affected("UPDATE dv.account SET fax = 'missing' WHERE accountid = '${id}10'");
is($n, 0, 'but a 404 that names a row means that row');
is_deeply($sent, ['UpdateMultiple'], '… and no other form is tried');
$crm->no_faults;
$crm->fault(path => 'UpdateMultiple', status => 400, code => '0x80048d99', message => 'No.', times => 0);
writes_plainly(5, 'the same if the refusal is a 400 with an unknown code');
$crm->no_faults;
$crm->fault(path => 'UpdateMultiple', status => 400, code => '0x80040265', message => 'Refunds: this case has not yet been implemented.', times => 1);
($n, $sent) = affected("UPDATE dv.account SET fax = '6' WHERE accountid <= '${id}29'");
is(scalar(grep { $_ eq 'UpdateMultiple' } @$sent), 2,
	'but not if the code is about a row, whatever the message of a plug-in');
$crm->no_faults;

# ---- an organization without bulk messages

$dvsim->quirks('bulk-disabled');
($n, $sent) = affected(join '; ', ("INSERT INTO dv.account (name) SELECT 'd' FROM generate_series(1, 25)") x 2);
is($n, 25, 'bulk messages are disabled');
like(join(', ', @$sent), qr/^CreateMultiple(, CreateMultiple)*(, \$batch of (10|5)){6}$/, '… which is detected at first');
is($crm->sql("SELECT count(*) FROM dv.account WHERE name = 'd'"), 50, '… and each row is written once');

# ---- $batch of at most 250 parts

my $long = 'SET dataverse_fdw.batch_size = 1000';
$dvsim->quirks('batch-250');
my (undef, undef, $said) = $crm->node->psql('postgres', "SET client_min_messages = debug1; $long;
	INSERT INTO dv.task (subject) SELECT 'long ' || i FROM generate_series(1, 1400) i");
# of 1000 or 400 rows, whichever is answered first
like($said, qr/Dataverse has refused long batches: [^\n]*\n[^\n]*DETAIL:  No more than (?:500|200) will/, 'a $batch is too long, and is halved');
cmp_ok((sort { $a <=> $b } $said =~ /No more than (\d+)/g)[0], '<=', 250, '… until it is accepted');
is($crm->sql("SELECT count(*), count(DISTINCT subject) FROM dv.task WHERE subject LIKE 'long %'"), '1400|1400', '… and each row is written once');
($n, $sent) = affected("INSERT INTO dv.task (subject) SELECT 'more' FROM generate_series(1, 700)", $long);
is($n, 700, '… and counted once');
my @refused = grep { /(\d+)$/ && $1 > 250 } @$sent;
is_deeply(forms(\@refused), [ '$batch of 700', '$batch of 350' ], '… and no longer ones are sent');
($n, $sent) = affected("DELETE FROM dv.task WHERE subject = 'more'", $long);
is($n, 700, 'DELETE');
is($crm->sql("SELECT count(*) FROM dv.task WHERE subject = 'more'"), 0, '… for all rows');
($n, $sent) = affected("DELETE FROM dv.task WHERE subject = 'long 1'; INSERT INTO dv.task (subject) SELECT 'more' FROM generate_series(1, 300);
	DELETE FROM dv.task WHERE subject = 'more'", $long);
is_deeply($sent, [ '$batch of 1', 'CreateMultiple', '$batch of 300', ('$batch of 150') x 4 ], 'what is learned from INSERT holds for DELETE');

# a change set that identifies the refused row
$dvsim->quirks('batch-250');
(undef, undef, $said) = $crm->node->psql('postgres', "$long;
	INSERT INTO dv.account (name, industrycode) SELECT 'set ' || i, CASE i WHEN 270 THEN 999 END FROM generate_series(1, 300) i");
like($said, qr/ERROR:  could not insert into foreign table "account" on server "crm": .*\bindustrycode\b/, 'a change set is too long');
like($said, qr/Refused row: 270 /, '… but the row is found');
my ($stay) = $said =~ /^(\d+) rows of this statement have been written/m;
is($crm->sql("SELECT count(*) FROM dv.account WHERE name LIKE 'set %'"), $stay // 0, '… and the error reports how many rows were written');
($n, $sent) = affected(
	"INSERT INTO dv.account (name, industrycode) SELECT 'go ' || i, CASE i % 100 WHEN 70 THEN 999 END FROM generate_series(1, 600) i",
	"$long; SET dataverse_fdw.on_error = 'continue'; SET client_min_messages = error");
is($n, 594, 'or rows are refused one by one');
is($crm->sql("SELECT count(*), count(DISTINCT name) FROM dv.account WHERE name LIKE 'go %'"), '594|594', '… and the others are written once');
is($crm->sql("SELECT count(*), count(DISTINCT row_number) FROM dataverse.rejects WHERE foreign_table = 'dv.account'"), '6|6', '… and all are filed');

$crm->stop;
done_testing();
