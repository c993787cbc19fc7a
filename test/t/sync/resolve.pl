# resolve.pl
#		dataverse.resolve() decides what was looked at: a conflict that has changed
#		since, or was filed since, stays as it is, also if another session files it
#		while the statement runs.
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
use Session;

my $crm = Crm->start('resolve');
my $node = $crm->node;
my $sync = q{SET client_min_messages = error; CALL dataverse.sync('dv.account', 'public.account')};

$crm->sql(q{CREATE SCHEMA dv; IMPORT FOREIGN SCHEMA dataverse LIMIT TO (account) FROM SERVER crm INTO dv;
	INSERT INTO dv.account (name) SELECT 'row ' || i FROM generate_series(1, 3) AS i});
$crm->sql($sync);

sub edited { my ($table, $from, $to) = @_; $crm->sql("UPDATE $table SET name = '$to' WHERE name = '$from'"); return; }

# A conflict about each of these rows.
sub conflicts
{
	for my $i (@_)
	{
		$crm->sql("UPDATE account SET name = 'ours $i' WHERE name IN ('row $i', 'ours $i'); UPDATE dv.account SET name = 'theirs $i' WHERE name = 'row $i'");
	}
	$crm->sql($sync);
	return;
}

sub there { return $crm->sql(q{SELECT string_agg(name, ', ' ORDER BY name) FROM dv.account}); }

sub decided { return $crm->sql(q{SELECT string_agg(format('%s: %s', theirs ->> 'name', coalesce(decision, '-')), ', ' ORDER BY theirs ->> 'name') FROM dataverse.conflicts WHERE target = 'public.account'}); }

# ---- between a look at the view and the decision

conflicts(1, 2);
my $seen = $crm->sql('SELECT max(id) FROM dataverse.conflicts');
edited('dv.account', 'theirs 1', 'news 1');
conflicts(3);
is(decided(), 'news 1: -, theirs 2: -, theirs 3: -', 'one conflict has changed, one is new');
my ($out, $err) = $crm->as('postgres', "SELECT dataverse.resolve('account', 'local', up_to => $seen)");
is($out, '1', 'only the conflict that was looked at is resolved');
like($err, qr/NOTICE:  2 conflicts of public.account not resolved\n.*They were filed, or have changed, after conflict $seen\./s, 'and the others are counted');
is(decided(), 'news 1: -, theirs 2: local, theirs 3: -', 'the others await a decision');
$crm->sql($sync);
is(there(), 'news 1, ours 2, theirs 3', 'no value is overwritten that nobody has seen');

# ---- while the statement runs

is($crm->sql(q{SELECT count(*) FROM dataverse.conflicts}), 2, 'two conflicts are left');
$crm->sql(q{IMPORT FOREIGN SCHEMA dataverse LIMIT TO (contact) FROM SERVER crm INTO dv; INSERT INTO dv.contact (lastname) VALUES ('row')});
my $other = q{SET client_min_messages = error; CALL dataverse.sync('dv.contact', 'public.contact')};
$crm->sql($other);
$crm->sql(q{UPDATE contact SET lastname = 'ours'; UPDATE dv.contact SET lastname = 'theirs'});
my $run = Session->new($node);
my $user = Session->new($node);
$run->query('BEGIN');
# as a run does that finds other values in Dataverse
$run->query(q{SELECT dataverse_private.pending_set(p.copy, ARRAY[jsonb_populate_record(p, jsonb_build_object('theirs', p.theirs || '{"name": "newer 1"}'))])
	FROM dataverse_private.pending AS p WHERE p.theirs ->> 'name' = 'news 1'});
$crm->sql($other);
is($crm->sql(q{SELECT target FROM dataverse.conflicts ORDER BY id DESC LIMIT 1}), 'public.contact', 'another table has a greater id');
$user->start(q{SELECT dataverse.resolve('account', 'local')});
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'resolve')});
$run->query('COMMIT');
my $result = $user->finish;
is($result->{rows}[0][0], 1, 'a conflict that changes after the statement has begun is not resolved');
is($result->{notices}[0]{message}, '1 conflict of public.account not resolved', '… which it says');
is(decided(), 'newer 1: -, theirs 3: local', '… but the other one is');
is($user->value(q{SELECT dataverse.resolve('account', 'local')}), 2, 'the next statement resolves both');
is($crm->sql(q{SELECT decision IS NULL FROM dataverse.conflicts WHERE target = 'public.contact'}), 't', '… and none of the other table');
$_->close for $run, $user;

# ---- nothing to decide

$crm->sql($sync);
$crm->sql($sync);
($out, $err) = $crm->as('postgres', q{SELECT dataverse.resolve('account', 'local'), dataverse.resolve('account', 'local', up_to => NULL)});
is("$out$err", '0|0', 'without conflicts, nothing is resolved or said');

$crm->stop;
done_testing();
