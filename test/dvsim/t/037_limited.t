# 037_limited.t
#		Application users that can read only the rows they own.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Dvsim;
use Test::More;

# the users
our $s = Dvsim->start('--app-user', 'app1:secret1', '--app-user', 'app2:secret2');
my $track = 'odata.track-changes';

sub as_user { my ($n, $code) = @_; local $s = $s->as("app$n", "secret$n"); return $code->(); }
sub names { return join ' ', sort map { $_->{name} } @{ $s->get("accounts?\$select=name$_[0]")->json->{value} }; }
sub fetched
{
	my ($xml) = @_;
	return join ' ', sort map { $_->{name} } @{ $s->get('accounts?fetchXml=' . Dvsim::escape($xml))->json->{value} };
}

my %id = (
	one => as_user(1, sub { $s->create('accounts', { name => 'one' }) }),
	two => as_user(2, sub { $s->create('accounts', { name => 'two' }) }));
my $contact = as_user(2, sub { $s->create('contacts', { lastname => 'c', 'parentcustomerid_account@odata.bind' => "/accounts($id{one})" }) });
my $unit = as_user(2, sub { $s->get('businessunits?$select=businessunitid')->json->{value} });

is(as_user(2, sub { names('') }), 'one two', 'at first, all users read everything');
$s->limited('APP2');
is_deeply($s->control('GET', '/_dvsim/limited')->json, ['app2'], 'one can read only its own rows');
is(as_user(1, sub { names('') }), 'one two', 'others read everything');
as_user(2, sub {
	is(names(''), 'two', 'a query omits rows of others');
	is(names("&\$filter=accountid eq $id{one}"), '', 'even if it selects one of them');
	is(names("&\$filter=accountid eq $id{two}"), 'two', 'own rows are found');
	is($s->get('accounts/$count')->body =~ s/\D//gr, '1', 'counted');
	is(fetched('<fetch><entity name="account"><attribute name="name"/></entity></fetch>'), 'two', 'FetchXML');
	is(fetched('<fetch><entity name="account"><attribute name="name"/><link-entity name="contact" from="parentcustomerid" to="accountid" link-type="exists"/>'
		. '</entity></fetch>'), '', 'FetchXML with a link');
	my $r = $s->get("accounts($id{one})");
	is($r->status . ' ' . $r->error_code, '403 0x80040220', 'a row of others is refused');
	like($r->error_message, qr/does not have ReadAccess right\(s\) for record with id $id{one}/, 'with its id');
	is($s->get("accounts($id{two})")->status, 200, 'an own row is not');
	is($s->get("accounts(20000000-0000-0000-0000-000000000001)")->status, 404, 'one that does not exist is missing');
	is($s->get("contacts($contact)?\$select=lastname&\$expand=parentcustomerid_account(\$select=name)")->json->{parentcustomerid_account}, undef,
		'nor is it expanded');
	$r = $s->get('accounts?$select=name', Prefer => $track);
	is($r->status . ' ' . $r->error_code, '403 0x80040220', 'changes are refused');
	is($s->patch("accounts($id{one})", { name => 'changed' })->status, 204, 'rows of others can be written');
	is_deeply($s->get('businessunits?$select=businessunitid')->json->{value}, $unit, 'tables without owners are read completely'); });
is(as_user(1, sub { names('') }), 'changed two', 'it was written');
$s->limited;
is(as_user(2, sub { names('') }), 'changed two', 'and read by all users again');
is($s->control('POST', '/_dvsim/limited', ['app3'])->status, 400, 'of existing users');

done_testing();
