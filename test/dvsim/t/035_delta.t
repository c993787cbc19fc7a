# 035_delta.t
#		Change tracking: full reads, delta links, tombstones.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

my $s = Dvsim->start('--seed', 35);
my $root = $s->base . '/api/data/v9.2/';
my $track = 'odata.track-changes';
my $bom = "\xEF\xBB\xBF";
my %id = map { $_ => $s->create('new_meters', { new_name => $_ }) } qw(a b c d e);

# the contents of a delta: names of changed rows in order, then the names of deleted ones
sub told
{
	my ($json, %names) = @_;

	return join ' ', map { $_->{reason} ? '-' . ($names{ $_->{id} } // $_->{id}) : $_->{new_name} }
		@{ $json->{value} };
}

sub refused
{
	my ($path, $code, $message, $name, %headers) = @_;
	my $r = $s->get($path, %headers);

	is($r->status, 400, $name);
	is($r->json->{error}{code}, $code, "$name: code");
	like($r->json->{error}{message}, $message, "$name: message");
	return;
}

# ---- from a full read to changes
my $r = $s->get('new_meters?$select=new_name', Prefer => $track);
my $link = $r->json->{'@odata.deltaLink'};

is(@{ $r->json->{value} }, 5, 'the full set');
is($r->header('Preference-Applied'), $track, 'the preference is acknowledged');
like($link, qr{^\Q$root\Enew_meters\?\$select=new_name&\$deltatoken=\d+%21\d\d%2f\d\d%2f\d{4}%20\d\d%3a\d\d%3a\d\d$},
	'a delta link');

$r = $s->get($link);
is($r->status, 200, 'nothing has changed');
is($r->json->{'@odata.context'}, $root . '$metadata#new_meters(new_name)/$delta', 'context');
is_deeply($r->json->{value}, [], 'no rows');
ok($r->json->{'@odata.deltaLink'}, 'but a new link');
is($s->get($link =~ s/\?\$select=new_name&/\/\$count?/r)->body, $bom . '0', 'counted');

$s->patch("new_meters($id{b})", { new_name => 'b2' });
$id{f} = $s->create('new_meters', { new_name => 'f' });
$s->patch("new_meters($id{a})", { new_name => 'a2' });
$s->delete("new_meters($id{c})");
$id{g} = $s->create('new_meters', { new_name => 'g' });
$s->delete("new_meters($id{g})");
$s->patch("new_meters($id{b})", { new_name => 'b3' });

my %names = reverse %id;

$r = $s->get($link);
is(told($r->json, %names), 'f a2 b3 -c -g', 'changes in their order, then tombstones');
is_deeply($r->json->{value}[3], { '@odata.context' => $root . '$metadata#new_meters/$deletedEntity',
		id => $id{c}, reason => 'deleted' }, 'a tombstone');
is($r->json->{value}[0]{new_meterid}, $id{f}, 'rows have their key');
is($s->get($link =~ s/\?\$select=new_name&/\/\$count?/r)->body, $bom . '5', 'counted');
is(told($s->get($link)->json, %names), 'f a2 b3 -c -g', 'a link can be used repeatedly');

my $second = $r->json->{'@odata.deltaLink'};
is(told($s->get($second)->json), '', 'the next link begins after that');
$s->patch("new_meters($id{d})", { new_name => 'd2' });
is(told($s->get($second)->json), 'd2', 'and returns later changes');

# ---- pages
{
	my $page = "$track,odata.maxpagesize=2";
	my @names;

	$r = $s->get('new_meters?$select=new_name', Prefer => $page);
	ok(!$r->json->{'@odata.deltaLink'}, 'no delta link before the last page');
	like($r->json->{'@odata.nextLink'}, qr/istracking=%22True%22/, 'the link continues tracking');
	push @names, map { $_->{new_name} } @{ $r->json->{value} };
	# a change between pages, to a row that was already read
	my ($read) = map { $_->{new_meterid} } @{ $r->json->{value} };
	$s->patch("new_meters($read)", { new_notes => 'changed' });
	while ($r->json->{'@odata.nextLink'})
	{
		$r = $s->get($r->json->{'@odata.nextLink'}, Prefer => $page);
		push @names, map { $_->{new_name} } @{ $r->json->{value} };
	}
	is(join(' ', sort @names), 'a2 b3 d2 e e f', 'all rows, in the order of their versions: the changed one is returned again');
	my $delta = $r->json->{'@odata.deltaLink'};
	is(@{ $s->get($delta)->json->{value} }, 1, 'the change meanwhile is not lost');

	$s->patch("new_meters($id{$_})", { new_notes => 'again' }) for qw(e d a);
	$s->delete("new_meters($id{$_})") for qw(f b);
	my @told;
	my $pages = 0;
	$r = $s->get($delta, Prefer => 'odata.maxpagesize=2');
	my $late = 0;
	for (;; $pages++)
	{
		push @told, split ' ', told($r->json, %names);
		last if !$r->json->{'@odata.nextLink'} || $pages > 20;
		# changes while the pages are read are in the next delta
		$s->patch("new_meters($id{e})", { new_notes => 'late' }) if !$late++;
		$r = $s->get($r->json->{'@odata.nextLink'}, Prefer => 'odata.maxpagesize=2');
	}
	my %expected = map { $_ => 1 } qw(a2 d2 -f -b);
	is(scalar(grep { $expected{$_} } @told), 4, 'changed rows and tombstones over pages')
		or diag("@told");
	is(told($s->get($r->json->{'@odata.deltaLink'})->json, %names), 'e', 'and none is lost');
}

# ---- a recreated row is no tombstone
{
	my $delta = $s->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};

	$s->delete("new_meters($id{e})");
	$s->create('new_meters', { new_name => 'e', new_meterid => $id{e} });
	is(told($s->get($delta)->json, %names), 'e', 'deleted and created again');
}

my ($organization) = map { $_->{organizationid} } @{ $s->get('organizations?$select=name')->json->{value} };

# ---- refusals
refused("new_meters?\$select=new_name&$_", '0x80060888',
	qr/^The "\Q@{[ (split '=')[0] ]}\E" query parameter isn't supported when Change Tracking is enabled\.$/,
	"no $_", Prefer => $track)
	for "\$filter=new_name eq 'a'", '$orderby=new_name', '$top=1', '$expand=new_AccountId';
refused('tasks?$select=subject', '0x80072491', qr/'task'/, 'a table without it', Prefer => $track);
refused('new_meters?$deltatoken=nonsense', '0x80060888', qr/nonsense/, 'no token');
refused('new_meters?$deltatoken=99999999%2101%2f01%2f2026%2000%3a00%3a00', '0x80044352', qr/expired/,
	'an expired token');
{
	my $delta = $s->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};

	$s->control('POST', '/_dvsim/clock', { advance => 6 * 86400 });
	$s->forget_token;
	is($s->get($delta)->status, 200, 'after six days');
	$s->control('POST', '/_dvsim/clock', { advance => 2 * 86400 });
	$s->forget_token;
	refused($delta =~ s/.*v9.2.//r, '0x80044352', qr/expired/, 'after eight');
	refused($delta =~ s/.*v9.2.//r =~ s/\?\$select=new_name&/\/\$count?/r, '0x80044352', qr/expired/,
		'nor counted');

	$delta = $s->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};
	$s->patch("organizations($organization)", { expirechangetrackingindays => 30 });
	$s->control('POST', '/_dvsim/clock', { advance => 29 * 86400 });
	$s->forget_token;
	is($s->get($delta)->status, 200, 'the organization has the number of days for which a token is valid');
	$s->patch("organizations($organization)", { expirechangetrackingindays => 1 });
	refused($delta =~ s/.*v9.2.//r, '0x80044352', qr/expired/, 'which applies when it is used');
}

# ---- which time of a first read its token represents
for my $when ('first', 'last')
{
	my $t = Dvsim->start('--seed', 36, '--delta-token', $when);
	my @ids = map { $t->create('new_meters', { new_name => $_ }) } qw(a b c d);
	my $page = $t->get('new_meters?$select=new_name', Prefer => "$track,odata.maxpagesize=3");

	$t->patch("new_meters($ids[0])", { new_name => 'a2' });
	$t->delete("new_meters($ids[1])");
	$page = $t->get($page->json->{'@odata.nextLink'}, Prefer => "$track,odata.maxpagesize=3");
	$t->patch("new_meters($ids[2])", { new_name => 'c2' });
	is(told($t->get($page->json->{'@odata.deltaLink'})->json, $ids[1] => 'b'), $when eq 'first' ? 'a2 c2 -b' : 'c2',
		"--delta-token $when: changes while the first read runs");
}

# ---- a user without the right to read all rows
{
	my $delta = $s->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};

	$s->quirks('limited-read');
	for my $path ('new_meters?$select=new_name', $delta, $delta =~ s/\?\$select=new_name&/\/\$count?/r)
	{
		my $r = $s->get($path, Prefer => $track);

		is($r->status . ' ' . ($r->error_code // ''), '403 0x80040220', 'no right to all rows');
		like($r->json->{error}{message}, qr/prvReadnew_Meter/, 'the privilege is named');
	}
	is($s->get('new_meters?$select=new_name')->status, 200, 'other reads succeed');
	$s->quirks;
}

# ---- more than a page of changes
{
	my $delta = $s->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};
	my ($token) = $delta =~ /(\$deltatoken=[^&]+)/;
	my (%seen, @sizes, $last, $ordered);

	$s->control('POST', '/_dvsim/seed?table=new_meter&rows=5003');
	$s->delete("new_meters($id{a})");
	$ordered = 1;
	for (my $link = $delta; $link;)
	{
		my $page = $s->get($link, Prefer => 'odata.maxpagesize=50000')->json;
		my @rows = @{ $page->{value} };

		push @sizes, scalar @rows;
		$link = $page->{'@odata.nextLink'};
		like($link, qr/\Q$token\E/, 'a link to the next page contains the token') if $link;
		is(!$link, defined $page->{'@odata.deltaLink'}, 'a delta link on the last page and no other');
		for my $row (@rows)
		{
			$seen{ $row->{id} // $row->{new_meterid} }++;
			next if $row->{reason};
			my ($version) = $row->{'@odata.etag'} =~ /(\d+)/;
			$ordered = 0 if defined $last && $version < $last;
			$last = $version;
		}
	}
	is("@sizes", '5000 4', 'at most 5,000 changes on a page');
	is(keys %seen, 5004, 'each once');
	ok($ordered, 'oldest first');
	is($s->get($delta =~ s/\?\$select=new_name&/\/\$count?/r)->body, $bom . '5004', 'counted, without a limit');
}

# ---- each kind of write increases the version
{
	my %last;
	my $higher = sub {
		my ($path, $what) = @_;
		my $version = $s->get("$path?\$select=versionnumber")->json->{versionnumber};

		cmp_ok($version, '>', $last{max} // 0, "$what: a higher version");
		$last{max} = $version;
	};
	my $account = $s->create('accounts', { name => 'v' });
	my $contact = $s->create('contacts', { lastname => 'v' });

	$higher->("accounts($account)", 'create');
	$s->patch("accounts($account)", { name => 'v' });
	$higher->("accounts($account)", 'the same value again');
	$s->put("accounts($account)/name", { value => 'w' });
	$higher->("accounts($account)", 'one property');
	$s->delete("accounts($account)/name");
	$higher->("accounts($account)", 'no value');
	$s->put("accounts($account)/primarycontactid/\$ref", { '@odata.id' => "contacts($contact)" });
	$higher->("accounts($account)", 'a reference');
	$s->post('accounts/Microsoft.Dynamics.CRM.UpdateMultiple',
		{ Targets => [ { '@odata.type' => 'Microsoft.Dynamics.CRM.account', accountid => $account, name => 'x' } ] });
	$higher->("accounts($account)", 'UpdateMultiple');
	$s->delete("contacts($contact)");
	$higher->("accounts($account)", 'a link that was removed');
}

# ---- tables whose modifiedon is unreliable
{
	my $user = $s->get('WhoAmI')->json->{UserId};
	my $before = $s->get("systemusers($user)?\$select=modifiedon,versionnumber")->json;

	$s->control('POST', '/_dvsim/clock', { advance => 60 });
	is($s->patch("systemusers($user)", { title => 'Clerk' })->status, 204, 'a user is changed');
	my $after = $s->get("systemusers($user)?\$select=modifiedon,versionnumber,title")->json;
	is($after->{title}, 'Clerk', 'really');
	is($after->{modifiedon}, $before->{modifiedon}, 'but not its modifiedon');
	cmp_ok($after->{versionnumber}, '>', $before->{versionnumber}, 'only its version');
}

# ---- rows of elastic tables
{
	my $t = Dvsim->start('--seed', 37);

	is($t->get('new_readings?$select=new_name', Prefer => $track)->error_code, '0x80072491', 'not tracked at first');
	$t->change_schema({ change => 'alter_table', table => 'new_reading', set => { change_tracking => JSON::PP::true } });
	my $delta = $t->get('new_readings?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};
	my $count = $delta =~ s/\?\$select=new_name&/\/\$count?/r;
	my $short = $t->create('new_readings', { new_name => 'short', partitionid => 'p', ttlinseconds => 60 });
	my $long = $t->create('new_readings', { new_name => 'long', partitionid => 'p' });
	my $gone = $t->create('new_readings', { new_name => 'gone', partitionid => 'p' });
	my $told = sub {
		return join ' ', map { $_->{reason} ? '-' . ($_->{id} eq $gone ? 'gone' : $_->{id}) : $_->{new_name} }
			@{ $t->get($_[0])->json->{value} };
	};

	is($t->delete("new_readings($gone)?partitionId=p")->status, 204, 'one is deleted');
	is($told->($delta), 'short long -gone', 'changes of an elastic table');
	is($t->get($count)->body, $bom . '3', 'counted');
	my $next = $t->get($delta)->json->{'@odata.deltaLink'};
	$t->control('POST', '/_dvsim/clock', { advance => 120 });
	is($told->($next), '', 'an expired row leaves no tombstone');
	is($told->($delta), 'long -gone', 'and is not returned as changed');
	is($t->get($count)->body, $bom . '2', 'nor counted');
}

# ---- after a crash, no version is reused, not even one that was rolled back
{
	my $dir = tempdir(CLEANUP => 1);
	my $t = Dvsim->start('--seed', 38, '--data', "$dir/rows");
	my $kept = $t->create('new_meters', { new_name => 'kept', new_serial => 'S-1' });

	is($t->post('new_meters/Microsoft.Dynamics.CRM.CreateMultiple',
		{ Targets => [ map { { '@odata.type' => 'Microsoft.Dynamics.CRM.new_meter', new_name => "n$_", new_serial => "S-$_" } } 2 .. 1000, 1 ] })->error_code, '0x80060892', 'rolled back');
	my $delta = $t->get('new_meters?$select=new_name', Prefer => $track)->json->{'@odata.deltaLink'};
	$t->crash;
	$t->start_again;
	$t->patch("new_meters($kept)", { new_name => 'changed' });
	is(told($t->get($delta)->json), 'changed', 'changes after a crash are returned');
}

done_testing();
