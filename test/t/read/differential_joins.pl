# differential_joins.pl
#		Runs the same joins, semi-joins, groups, aggregates, and orders on foreign
#		tables and on local copies of them.  The results must be the same,
#		whatever is evaluated remotely, to the last digit that is displayed.
#
# The queries are generated: up to five tables along lookups or against them, in any nesting,
# in every kind of query that can contain a join.  The data contain lookups that are empty
# or refer to another table, an account with most of the contacts, chains and cycles of
# parents, NULLs, texts that differ only in case, accents, or trailing blanks, and numbers
# whose sums overflow their types.
#
# DIFFERENTIAL sets the number of queries (default 2000), and SEED the seed (default: the
# time; it is printed).  When answers differ, the queries are printed as statements, and a
# script that recreates everything is written to the log folder (which KEEP=1 keeps).
#
# As in t/read/differential, entries of the policy table are then falsified, one at a time, and
# each of these errors must be detected.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../../live/lib";
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;

use Crm;
use Differential;
use Live::Shapes;

# minimum percentage of queries whose plans must contain a request in FetchXML; 0: no minimum
use constant FETCHXML_AT_LEAST => 50;

my $seed = $ENV{SEED} // time;
my $wanted = $ENV{DIFFERENTIAL} // 2000;
my $directed = 60;    # queries for each wrong policy
my $most = 3;         # subqueries in a query

# avoid local joins, groups, and sorts
my $remote = join ' ', map { "SET enable_$_ = off;" } qw(hashjoin mergejoin nestloop hashagg sort);
push @settings, join(' ', map { "SET enable_$_ = off;" } qw(hashjoin mergejoin nestloop)), $remote;

srand $seed;
diag "SEED=$seed";

# ---------------------------------------------------------------- tables

my %rows = (account => 40, contact => 90, new_meter => 60, new_alltypes => 100, new_reading => 30);
my %prefix = (account => 'a', contact => 'c', new_meter => 'e', new_alltypes => 'd', new_reading => 'b');
my %ids = map {
	my $table = $_;
	$table => [ map { sprintf '%08x-0000-4000-8000-%s%011x', $_ * 77777777 % 4294967296, $prefix{$table}, $_ } 1 .. $rows{$table} ];
} keys %rows;
my @never = ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff');

my @counts = (0, 1, 2, 3, 41, 42, 43, 100, 1000000000);
my @amounts = ('0', '1', '1.5', '1.49', '0.01', '42', '99999999999999.99', '1000000.01');
my @quarters = map { $_ / 4 } -8 .. 8, 360;    # their sums are exact in any order
my @sets = ('1', '2', '1,2', '1,3', '2,3', '1,2,3');
my @rests = ('0', '1', '1.5', '1.4999', '1.5001', '-1.5', '0.0001', '-0.0001', '99999999999.9999', '-99999999999.9999', '42');

# whole numbers and choices in columns of int4 and similar types
my @id_values = map { my $t = $_; map { "'$_'" } @{ $ids{$t} }[ 0 .. 5 ], @never } sort keys %ids;
my @texts_here = (@texts[ 0 .. 30 ], '');

sub column { my ($sort, $type, @literals) = @_; return [ $sort, $type, \@literals ]; }
sub text_column { return column('text', 'text', @text_values); }
sub id_column { return column('id', 'uuid', @id_values); }
sub number_column { return column('number', 'numeric', @numerics, @_); }
sub integer_column { return column('number', 'numeric', @integers, @_); }
sub boolean_column { return column('boolean', 'boolean', 'true', 'false'); }
sub choice_column { return column('choice', 'integer', @_, 0, '-1', 5); }
sub double_column { return column('double', 'float8', @doubles, @quarters, "'NaN'", "'Infinity'", "'-Infinity'", '0.10000001'); }
sub choices_column { return column('choices', 'integer[]', map { "'{$_}'" } @sets, '', '9', '1,NULL'); }
# times within range in any time zone
sub time_column { my ($type) = @_; return column('time', $type, grep { !/BC|294276/ } @moments); }
sub date_column { return column('date', 'date', @days); }

my %alltypes = (
	new_name => text_column(), new_text => text_column(), new_memo => text_column(),
	new_folded => column('text_ci_ai', 'text', @text_values),
	new_integer => integer_column(), new_bigint => integer_column(@bigints),
	new_decimal => number_column(), new_decimal10 => number_column(), new_money => number_column(@moneys),
	new_double => double_column(), new_boolean => boolean_column(),
	new_choice => choice_column(100000000 .. 100000002), new_choices => choices_column(),
	new_datetime => time_column('timestamptz'), new_zonefree => time_column('timestamp'), new_date => date_column(),
	new_calculated => integer_column('4294967294', 84), new_rollup => integer_column());

# table => its id, its columns, its lookups with the tables that they refer to
my %tables = (
	account => {
		id => 'accountid',
		links => { parentaccountid => ['account'], primarycontactid => ['contact'] },
		columns => {
			name => text_column(), description => text_column(), revenue => number_column(@amounts),
			creditlimit => number_column(@amounts), numberofemployees => integer_column(@counts),
			creditonhold => boolean_column(), industrycode => choice_column(1 .. 5),
			address1_latitude => double_column(), address1_city => text_column() } },
	contact => {
		id => 'contactid',
		links => { parentcustomerid => [ 'account', 'contact' ] },
		columns => {
			lastname => text_column(), firstname => text_column(), fullname => text_column(),
			birthdate => date_column(), anniversary => date_column(), annualincome => number_column(@amounts),
			numberofchildren => integer_column(@counts), gendercode => choice_column(1, 2),
			creditonhold => boolean_column() } },
	new_meter => {
		id => 'new_meterid',
		links => { new_accountid => ['account'], new_contactid => ['contact'], new_parentid => ['new_meter'] },
		columns => {
			new_name => text_column(), new_notes => text_column(), new_number => integer_column(@counts),
			new_kind => choice_column(100000000 .. 100000002), new_features => choices_column(),
			new_active => boolean_column(), new_lastreading => number_column(@rests), new_capacity => double_column(),
			new_price => number_column(@moneys), new_installedon => time_column('timestamptz'),
			new_localtime => time_column('timestamp'), new_checkedon => date_column() } },
	new_alltypes => {
		id => 'new_alltypesid',
		links => {
			new_meterid => ['new_meter'], new_customerid => [ 'account', 'contact' ],
			new_relatedid => [ 'account', 'contact', 'new_meter' ], new_readingid => ['new_reading'] },
		columns => \%alltypes },
	new_reading => {
		id => 'new_readingid',
		links => { new_meterid => ['new_meter'] },
		columns => {
			new_name => text_column(), new_value => number_column(@rests), new_quality => choice_column(1 .. 3),
			new_valid => boolean_column(), new_sequence => integer_column(), new_readat => time_column('timestamptz') } },
	new_account_contact => {
		id => 'new_account_contactid',
		links => { accountid => ['account'], contactid => ['contact'] },
		columns => {} },
	# the same rows as new_alltypes, in a table declared by hand, with an unlimited number of digits
	loose => {
		id => 'new_alltypesid',
		links => { new_meterid => ['new_meter'], new_customerid => [ 'account', 'contact' ] },
		columns => { map { $_ => $alltypes{$_} } qw(new_name new_integer new_bigint new_decimal new_decimal10 new_money new_datetime new_date) } },
	# accounts of another environment, with the same ids and other values
	elsewhere => {
		id => 'accountid',
		links => { parentaccountid => [ 'account', 'elsewhere' ] },
		columns => { name => text_column(), revenue => number_column(@amounts), numberofemployees => integer_column(@counts) } },
	# not foreign
	here => {
		id => 'hereid',
		links => { accountid => ['account'], contactid => ['contact'], meterid => ['new_meter'] },
		columns => { name => text_column(), n => integer_column() } },
	# meters and their accounts
	placed => {
		id => 'new_meterid',
		links => { new_accountid => ['account'], new_contactid => ['contact'] },
		columns => { new_name => text_column(), new_price => number_column(@moneys), account_name => text_column(), revenue => number_column(@amounts) } });
my @often = ((('new_alltypes') x 5), (('new_meter') x 5), (('contact') x 4), (('account') x 3), (('new_account_contact') x 2), 'new_reading', 'loose', 'elsewhere', 'here', 'placed');

# references to a table: [ table, lookup ]
my %referring;
for my $table (sort keys %tables)
{
	$tables{$table}{columns}{ $tables{$table}{id} } = id_column();
	for my $lookup (sort keys %{ $tables{$table}{links} })
	{
		$tables{$table}{columns}{$lookup} = id_column();
		push @{ $referring{$_} }, [ $table, $lookup ] for @{ $tables{$table}{links}{$lookup} };
	}
	$tables{$table}{names} = [ sort keys %{ $tables{$table}{columns} } ];
}

# ---------------------------------------------------------------- rows

sub bind_to { my ($navigation, $set, $id) = @_; return "\"$navigation\@odata.bind\":\"/$set($id)\""; }

# members of an object for columns that have values in most rows
sub members
{
	my ($share, %values) = @_;
	return map { "\"$_\":" . pick(@{ $values{$_} }) } grep { chance($share) } sort keys %values;
}

sub object
{
	my ($type, @members) = @_;
	return '{' . join(',', "\"\@odata.type\":\"Microsoft.Dynamics.CRM.$type\"", @members) . '}';
}

sub identified { my ($table, $i) = @_; return "\"$tables{$table}{id}\":\"$ids{$table}[$i]\""; }

my @json_texts = map { json_text($_) } @texts_here;
my @json_times = map { json_time($_) } @times;
my @json_dates = map { "\"$_\"" } @dates;
my @json_sets = map { "\"$_\"" } @sets;
my @truths = ('true', 'false');

sub account_json
{
	my ($i) = @_;
	return object('account', identified('account', $i), '"name":' . pick(@json_texts),
		members(0.7, description => \@json_texts, address1_city => \@json_texts, revenue => \@amounts,
			creditlimit => \@amounts, numberofemployees => \@counts, creditonhold => \@truths,
			industrycode => [ 1 .. 5 ], address1_latitude => [ map { $_ / 4 } -8 .. 8 ]));
}

# half of the contacts belong to the first account
sub contact_json
{
	my ($i) = @_;
	my $how = rand;
	my @parent =
	    $how < 0.5 ? bind_to('parentcustomerid_account', 'accounts', $ids{account}[0])
	  : $how < 0.75 ? bind_to('parentcustomerid_account', 'accounts', pick(@{ $ids{account} }[ 1 .. 19 ]))
	  : $how < 0.85 && $i > 0 ? bind_to('parentcustomerid_contact', 'contacts', $ids{contact}[ int rand $i ])
	  : ();

	return object('contact', identified('contact', $i), '"lastname":' . pick(@json_texts), @parent,
		members(0.6, firstname => \@json_texts, birthdate => \@json_dates, anniversary => \@json_dates,
			annualincome => \@amounts, numberofchildren => \@counts, gendercode => [ 1, 2 ], creditonhold => \@truths));
}

sub meter_json
{
	my ($i) = @_;
	my $account = chance(0.3) ? 0 : int rand 25;
	my @owner = (
		(chance(0.7) ? bind_to('new_AccountId', 'accounts', $ids{account}[$account]) : ()),
		(chance(0.6) ? bind_to('new_ContactId', 'contacts', pick(@{ $ids{contact} }[ 0 .. 29 ])) : ()));
	# an alternate key: the numbers of one account's meters differ
	my @number = !@owner || $owner[0] !~ /account/i ? members(0.8, new_number => \@counts) : "\"new_number\":$i";

	return object('new_meter', identified('new_meter', $i), '"new_name":' . pick(@json_texts), @owner, @number,
		members(0.65, new_notes => \@json_texts, new_kind => [ 100000000 .. 100000002 ], new_features => \@json_sets,
			new_active => \@truths, new_lastreading => \@rests, new_capacity => \@quarters, new_price => \@moneys,
			new_installedon => \@json_times, new_localtime => \@json_times, new_checkedon => \@json_dates));
}

sub reading_json
{
	my ($i) = @_;
	return object('new_reading', identified('new_reading', $i), '"partitionid":"' . pick('p', 'P', 'q') . '"',
		members(0.7, new_name => \@json_texts, new_value => \@rests, new_quality => [ 1 .. 3 ], new_valid => \@truths,
			new_sequence => \@numbers, new_readat => \@json_times),
		(chance(0.7) ? bind_to('new_MeterId', 'new_meters', pick(@{ $ids{new_meter} })) : ()));
}

# columns with equal values in most rows, whose sums overflow their types
sub alltypes_json
{
	my ($i) = @_;
	my $many = chance(0.4);
	my $related = rand;
	my @links = (
		(chance(0.8) ? bind_to('new_MeterId', 'new_meters', pick(@{ $ids{new_meter} }[ chance(0.3) ? 0 : 0 .. 59 ])) : ()),
		(chance(0.6) ? bind_to('new_customerid_account', 'accounts', pick(@{ $ids{account} }[ chance(0.4) ? 0 : 0 .. 39 ]))
			: chance(0.5) ? bind_to('new_customerid_contact', 'contacts', pick(@{ $ids{contact} })) : ()),
		($related < 0.3 ? bind_to('new_RelatedId_account', 'accounts', pick(@{ $ids{account} }))
			: $related < 0.5 ? bind_to('new_RelatedId_contact', 'contacts', pick(@{ $ids{contact} }))
			: $related < 0.8 ? bind_to('new_RelatedId_new_meter', 'new_meters', pick(@{ $ids{new_meter} })) : ()));

	return object('new_alltypes', identified('new_alltypes', $i), '"new_name":' . pick(@json_texts), @links,
		members(0.65, new_text => \@json_texts, new_memo => \@json_texts,
			new_integer => $many ? [2147483647] : \@numbers,
			new_bigint => $many ? ['9223372036854775807'] : \@bigints,
			new_decimal => [ grep { $_ ne '99999999999.9999' } @decimals ],
			new_decimal10 => \@tiny, new_money => \@moneys, new_double => \@doubles, new_boolean => \@truths,
			new_choice => [ 100000000 .. 100000002 ], new_choices => \@json_sets, new_datetime => \@json_times,
			new_zonefree => \@json_times, new_date => \@json_dates));
}

# Parents: a chain, a cycle of two, a cycle of three, and a row that is its own parent.
sub parents
{
	my ($n) = @_;
	my @parent = map { $_ < 15 ? $_ - 1 : chance(0.5) ? int rand $n : undef } 0 .. $n - 1;

	@parent[ 0, 16 .. 22 ] = (undef, 17, 16, 19, 20, 18, 21, 21);
	return @parent;
}

sub updates
{
	my ($table, $set, $navigation) = @_;
	my @parent = parents($rows{$table});

	return map { object($table, identified($table, $_), bind_to($navigation, $set, $ids{$table}[ $parent[$_] ])) }
	  grep { defined $parent[$_] } 0 .. $#parent;
}

# Keeps only the selected columns, so that whole rows are the same in the copy.
sub copy_table
{
	my ($crm, $table) = @_;
	my @names = @{ $tables{$table}{names} };
	my $list = join ', ', map { "'$_'" } @names;
	my $drop = $crm->sql("SELECT string_agg('DROP ' || quote_ident(attname), ', ') FROM pg_attribute
		WHERE attrelid = 'f.$table'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ($list)");

	Differential::set_up($crm, "ALTER FOREIGN TABLE f.$table $drop") if $drop ne '';
	Differential::set_up($crm, "CREATE TABLE l.$table AS SELECT * FROM f.$table");
	return;
}

sub set_up_tables
{
	my ($crm, $other) = @_;
	my $alltypes = 'new_alltypesid uuid, new_name text, new_integer integer, new_bigint bigint,
		new_decimal numeric, new_decimal10 numeric, new_money numeric OPTIONS (type \'money\'),
		new_datetime timestamptz, new_date date OPTIONS (type \'date\'),
		new_meterid uuid OPTIONS (type \'lookup\', target \'new_meter\', target_set \'new_meters\'),
		new_customerid uuid OPTIONS (type \'customer\', target \'account,contact\', target_set \'accounts,contacts\')';

	Differential::prepare($crm);
	Differential::set_up($crm, 'IMPORT FOREIGN SCHEMA dataverse
		LIMIT TO (account, contact, new_meter, new_alltypes, new_reading, new_account_contact) FROM SERVER crm INTO f');
	Differential::set_up($crm, "ALTER FOREIGN TABLE f.contact OPTIONS (ADD page_size '25');
		ALTER FOREIGN TABLE f.new_alltypes OPTIONS (ADD page_size '40');
		ALTER FOREIGN TABLE f.new_alltypes ALTER new_calculated TYPE bigint;
		ALTER FOREIGN TABLE f.new_alltypes ALTER new_calculated OPTIONS (SET type 'bigint');
		ALTER FOREIGN TABLE f.new_alltypes ADD new_folded varchar(100) OPTIONS (\"column\" 'new_text') COLLATE dataverse.ci_ai;
		CREATE FOREIGN TABLE f.loose ($alltypes) SERVER crm OPTIONS (\"table\" 'new_alltypes', entity_set 'new_alltypeses')");

	create($crm, 'accounts', map { account_json($_) } 0 .. $rows{account} - 1);
	create($crm, 'contacts', map { contact_json($_) } 0 .. $rows{contact} - 1);
	create($crm, 'new_meters', map { meter_json($_) } 0 .. $rows{new_meter} - 1);
	create($crm, 'new_readings', map { reading_json($_) } 0 .. $rows{new_reading} - 1);
	create($crm, 'new_alltypeses', map { alltypes_json($_) } 0 .. $rows{new_alltypes} - 1);
	Differential::write_multiple($crm, 'accounts', 'UpdateMultiple', updates('account', 'accounts', 'parentaccountid'));
	Differential::write_multiple($crm, 'new_meters', 'UpdateMultiple', updates('new_meter', 'new_meters', 'new_ParentId'));
	# the second half of the accounts has no primary contacts
	Differential::write_multiple($crm, 'accounts', 'UpdateMultiple',
		map { object('account', identified('account', $_), bind_to('primarycontactid', 'contacts', pick(@{ $ids{contact} }))) } 0 .. 19);
	my %pair;
	$pair{"('" . pick(@{ $ids{account} }[ chance(0.4) ? 0 : 0 .. 29 ]) . "', '" . pick(@{ $ids{contact} }) . "')"} = 1 for 1 .. 60;
	Differential::set_up($crm, 'INSERT INTO f.new_account_contact (accountid, contactid) VALUES ' . join ', ', sort keys %pair);
	point_at_readings($crm);

	copy_table($crm, $_) for qw(account contact new_meter new_alltypes new_reading new_account_contact loose);
	set_up_elsewhere($crm, $other);
	for my $place (qw(f l))
	{
		Differential::set_up($crm, "CREATE TABLE $place.here AS
			SELECT md5(n::text)::uuid AS hereid, (ARRAY[a.accountid, NULL])[1 + n % 4 / 3] AS accountid, c.contactid, m.new_meterid AS meterid, a.name, n
			FROM (SELECT *, (row_number() OVER (ORDER BY accountid))::integer AS n FROM l.account) a
			LEFT JOIN (SELECT contactid, 2 * row_number() OVER (ORDER BY contactid) AS n FROM l.contact) c USING (n)
			LEFT JOIN (SELECT new_meterid, 3 * row_number() OVER (ORDER BY new_meterid) AS n FROM l.new_meter) m USING (n);
			CREATE VIEW $place.placed AS SELECT m.new_meterid, m.new_accountid, m.new_contactid, m.new_name, m.new_price, a.name AS account_name, a.revenue
			FROM $place.new_meter m LEFT JOIN $place.account a ON a.accountid = m.new_accountid");
	}
	# plans with and without statistics
	Differential::set_up($crm, 'ANALYZE f.contact, f.account, f.here, l.here');
	return;
}

# Rows refer to elastic rows by id and partition.
sub point_at_readings
{
	my ($crm) = @_;
	my %partition = map { split /\|/ } split /\n/,
	  $crm->sql('SELECT new_readingid, partitionid FROM f.new_reading');

	Differential::write_multiple($crm, 'new_alltypeses', 'UpdateMultiple',
		map {
			my $id = pick(@{ $ids{new_reading} });
			object('new_alltypes', identified('new_alltypes', $_),
				bind_to('new_ReadingId', 'new_readings', "new_readingid=$id,partitionid='$partition{$id}'"))
		} grep { chance(0.4) } 0 .. $rows{new_alltypes} - 1);
	return;
}

# The same ids in another environment, with other values: a join with it must not be pushed down.
sub set_up_elsewhere
{
	my ($crm, $other) = @_;

	$crm->server('elsewhere', base => $other->base, token_url => $other->base . '/t/oauth2/v2.0/token');
	Differential::for_script(Differential::server_statements('elsewhere', 'other'));
	Differential::set_up($crm, "CREATE FOREIGN TABLE f.elsewhere (accountid uuid, name varchar(160), revenue numeric(17,2) OPTIONS (type 'money'),
		numberofemployees integer, parentaccountid uuid OPTIONS (type 'lookup', navigation 'parentaccountid', target 'account', target_set 'accounts'))
		SERVER elsewhere OPTIONS (\"table\" 'account', entity_set 'accounts');
		INSERT INTO f.elsewhere SELECT accountid, reverse(coalesce(name, 'none')), revenue / 2, numberofemployees / 2 + 1, NULL FROM l.account WHERE revenue IS NULL OR revenue < 1000000;
		UPDATE f.elsewhere SET parentaccountid = '$ids{account}[0]' WHERE numberofemployees > 40 AND EXISTS (SELECT FROM f.elsewhere WHERE accountid = '$ids{account}[0]')");
	Differential::set_up($crm, 'CREATE TABLE l.elsewhere AS SELECT * FROM f.elsewhere');
	return;
}

# ---------------------------------------------------------------- tables in a query

# Tables of a query are [ alias, table ].  Names must differ in nested queries as well.
my ($aliases, $subqueries, $widenings);

sub named { my ($table) = @_; return [ substr($table =~ s/^new_//r, 0, 1) . ++$aliases, $table ]; }
sub said { my ($t) = @_; return "$t->[1] $t->[0]"; }
sub id_of { my ($t) = @_; return "$t->[0].$tables{ $t->[1] }{id}"; }
sub ids_of { return join ', ', map { id_of($_) } @_; }

# [ name in the query, description, table ]
sub columns_of
{
	my ($want, @scope) = @_;
	return grep { $want->($_->[1]) } map {
		my $t = $_;
		map { [ "$t->[0].$_", $tables{ $t->[1] }{columns}{$_}, $t->[1] ] } @{ $tables{ $t->[1] }{names} }
	} @scope;
}

sub any { return 1; }
sub is_number { return $_[0][0] eq 'number'; }
sub is_time { return $_[0][0] =~ /^(?:time|date)$/; }
sub is_text { return $_[0][0] eq 'text'; }
sub is_ordered { return $_[0][0] =~ /^(?:number|time|date|double)$/; }
# which of several equal texts represents a group depends on the order of rows
sub is_shown { return $_[0][0] ne 'text_ci_ai'; }

# A column of one of the tables; the intersect table has only ids.
sub some_column
{
	my ($want, @scope) = @_;
	my @found = columns_of($want, @scope);
	return @found ? pick(@found) : undef;
}

sub joined_by { my ($l, $r) = @_; return chance(0.5) ? "$l = $r" : "$r = $l"; }

# A further table and the condition that joins it to one of the tables so far.  Joins against a
# lookup, or by any other columns, multiply rows, and occur at most once in a query.
sub further
{
	my (@scope) = @_;
	my $from = chance(0.5) ? $scope[-1] : pick(@scope);
	my $table = $from->[1];
	my %links = %{ $tables{$table}{links} };
	my $how = rand;

	if ($how < 0.68 && %links)
	{
		my $lookup = pick(sort keys %links);
		my $to = named(pick(@{ $links{$lookup} }));
		return ($to, joined_by("$from->[0].$lookup", id_of($to)));
	}
	if ($how < 0.76)
	{
		my $to = named($table);
		return ($to, joined_by(id_of($from), id_of($to)));
	}
	if ($how < 0.8 && $table =~ /^(?:account|elsewhere)$/)
	{
		my $to = named($table eq 'account' ? 'elsewhere' : 'account');
		return ($to, joined_by(id_of($from), id_of($to)));
	}
	if ($widenings++ == 0)
	{
		if ($how < 0.9 || !%links)
		{
			my $referring = pick(@{ $referring{$table} // [] });
			if ($referring)
			{
				my $to = named($referring->[0]);
				return ($to, joined_by("$to->[0].$referring->[1]", id_of($from)));
			}
		}
		elsif ($how < 0.95)
		{
			my $to = named($table);
			my $lookup = pick(sort keys %links);
			return ($to, joined_by("$from->[0].$lookup", "$to->[0].$lookup"));
		}
		else
		{
			my $to = named(pick(@often));
			my ($l, $r) = alike($from, $to);
			return ($to, joined_by($l, $r)) if defined $l;
		}
	}
	my $to = named($table);
	return ($to, joined_by(id_of($from), id_of($to)));
}

# Comparable columns of two tables, or of the same table twice.
sub alike
{
	my ($s, $t) = @_;
	my $want = chance(0.15) ? \&any : sub { $_[0][0] ne 'id' };
	my $l = some_column(sub { $_[0][0] ne 'text_ci_ai' && $want->(@_) }, $s) // return;
	my @others = grep { $_->[0] ne $l->[0] } columns_of(
		sub {
			my $both = "$l->[1][0] $_[0][0]";
			return $l->[1][0] eq $_[0][0] || $both =~ /^(?:number|double) (?:number|double)$/ || $both =~ /^(?:time|date) (?:time|date)$/;
		},
		$t);

	return @others ? ($l->[0], pick(@others)->[0], $l->[1]) : ();
}

# Returns a FROM clause of up to $n tables, and the tables.
sub tables_joined
{
	my ($n, $depth) = @_;
	my @scope = (named(pick(@often)));
	my $text = said($scope[0]);
	my @where;
	my $commas = chance(0.12);

	for (2 .. $n)
	{
		my ($to, $on) = further(@scope);
		my @inside = ($to);
		my $new = said($to);

		# a join inside a join
		if (!$commas && $_ < $n && chance(0.15))
		{
			my ($inner, $inner_on) = further($to);
			push @inside, $inner;
			$new = "($new " . pick('JOIN', 'LEFT JOIN') . ' ' . said($inner) . " ON $inner_on)";
		}
		if ($commas)
		{
			$text .= ", $new";
			push @where, $on;
		}
		else
		{
			my $how = rand;
			my $kind = $how < 0.54 ? 'JOIN' : $how < 0.94 ? 'LEFT JOIN' : $how < 0.98 ? 'RIGHT JOIN' : 'FULL JOIN';
			my @on = ($on);

			if ($kind ne 'FULL JOIN' && chance(0.35))
			{
				my @about = chance(0.6) ? @inside : chance(0.5) ? @scope : (@scope, @inside);
				push @on, condition($depth > 0 ? int rand 2 : 0, 0, @about);
			}
			$text .= " $kind $new ON " . join ' AND ', @on;
		}
		push @scope, @inside;
		last if @scope >= $n;
	}
	return ($text, \@scope, \@where);
}

# ---------------------------------------------------------------- conditions

sub comparison { return pick(' = ', ' <> ', ' <> ', ' < ', ' <= ', ' > ', ' >= ', ' IS DISTINCT FROM ', ' IS DISTINCT FROM ', ' IS NOT DISTINCT FROM '); }

# comparisons of columns: of one row, of two tables
sub column_comparison
{
	my (@scope) = @_;
	my $s = pick(@scope);
	my ($l, $r, $column) = alike($s, chance(0.4) ? $s : pick(@scope));

	return leaf(@scope) if !defined $l;
	return pick("$l && $r", "$l = $r", "$l \@> $r") if $column->[0] eq 'choices';
	return $l . comparison() . $r;
}

# Values that occur in rows, so that conditions match some of them.
my %common = (
	text => [ map { quoted($_) } @texts_here ], text_ci_ai => [ map { quoted($_) } @texts_here ],
	number => [ 0, 1, 1, 1.5, 2, 42, 100, 2147483647 ], double => [ 0, 0.5, -0.25, 1.5, 42 ], boolean => [ 'true', 'false' ],
	choice => [ 1, 2, 3, 100000000, 100000001 ], time => [ map { "'$_'" } @times[ 1 .. 6 ] ], date => [ map { "'$_'" } @dates[ 1 .. 5 ] ]);

sub leaf
{
	my (@scope) = @_;
	my $c = some_column(\&any, @scope);

	# ids are rarely equal, and nearly always different
	$c = some_column(\&any, @scope) if $c->[1][0] eq 'id' && chance(0.7);
	my ($name, $column) = @$c;
	my ($sort, $type) = @$column;

	return leaf_of($column, $name) if !$common{$sort} || chance(0.22);
	return $name . pick(' IS NULL', ' IS NOT NULL', ' IS NOT NULL') if chance(0.15);
	my @values = map { typed(pick(@{ $common{$sort} }), $type) } 1 .. 4;
	return "$name " . pick('IN', 'NOT IN') . ' (' . join(', ', @values) . ')' if chance(0.2);
	return "$name NOT LIKE " . pattern() if $sort eq 'text' && chance(0.2);
	return $name . pick(' = ', ' <> ', ' <> ', ' < ', ' <= ', ' > ', ' >= ') . $values[0] if $sort ne 'text_ci_ai';
	return $name . pick(' = ', ' <> ') . $values[0];
}

sub expression_condition
{
	my (@scope) = @_;
	my $c = some_column(\&is_shown, @scope);
	my ($name, $column) = @$c;
	my $number = some_column(\&is_number, @scope);
	my $text = some_column(\&is_text, @scope);
	my $time = some_column(\&is_time, @scope);
	my @ways = (
		"coalesce($name, " . typed(pick(@{ $column->[2] }), $column->[1]) . ")" . comparison() . literal_of($column),
		'(' . $name . ' IS NULL)' . pick(' = ', ' <> ', ' AND ') . '(' . some_column(\&any, @scope)->[0] . ' IS NULL)',
		"num_nulls($name, " . some_column(\&any, @scope)->[0] . ') ' . pick('= 1', '< 2', '> 0'),
		"CASE WHEN " . leaf(@scope) . " THEN $name IS NULL ELSE " . leaf(@scope) . " END");

	push @ways, "$number->[0]::numeric * 2 " . pick('>', '<', '=') . ' ' . pick(0, 2, 84), "$number->[0]::numeric + 1 " . pick('>', '<', '=') . ' ' . pick(0, 2, 43)
	  if $number;
	push @ways, "length($text->[0]) " . pick('>', '<', '=') . ' ' . pick(2, 3, 4), "upper($text->[0]) = " . quoted(uc pick(@texts[ 0 .. 9 ])), "$text->[0] || '' LIKE " . pattern()
	  if $text;
	push @ways, 'date_trunc(' . pick("'year'", "'month'", "'day'") . ", $time->[0])" . comparison() . "'2024-01-01'",
	  "extract(" . pick('year', 'month', 'day') . " FROM $time->[0]) " . pick('=', '>') . ' ' . pick(2, 12, 28, 2024)
	  if $time;
	return pick(@ways);
}

# a table that refers to one of the tables, or is referred to by one: [ table, its column, column of the query ]
sub related
{
	my ($from) = @_;
	my %links = %{ $tables{ $from->[1] }{links} };
	my @referring = @{ $referring{ $from->[1] } // [] };

	if (%links && (!@referring || chance(0.5)))
	{
		my $lookup = pick(sort keys %links);
		my $table = pick(@{ $links{$lookup} });
		return ($table, $tables{$table}{id}, "$from->[0].$lookup");
	}
	my $referring = pick(@referring);
	return ($referring->[0], $referring->[1], id_of($from)) if $referring;
	return ($from->[1], $tables{ $from->[1] }{id}, id_of($from));
}

# EXISTS, IN, their negations, and scalar subqueries
sub subquery_condition
{
	my ($depth, @scope) = @_;
	my $from = pick(@scope);
	my ($table, $column, $outer) = related($from);
	my $inner = named($table);
	my $link = joined_by("$inner->[0].$column", $outer);
	my @where = map { condition($depth - 1, 1, chance(0.85) ? $inner : ($inner, $from)) } 1 .. int rand 3;
	my $how = rand;
	my $text = said($inner);

	$subqueries++;
	# a join in the subquery
	if (chance(0.2))
	{
		my ($to, $on) = further($inner);
		$text .= ' ' . pick('JOIN', 'LEFT JOIN') . ' ' . said($to) . " ON $on";
		push @where, condition(0, 0, $to) if chance(0.5);
	}
	return pick('', 'NOT ') . "EXISTS (SELECT " . pick(1, '*', $inner->[0]) . " FROM $text WHERE " . join(' AND ', $link, @where) . ')'
	  if $how < 0.55;
	my $filter = @where ? ' WHERE ' . join(' AND ', @where) : '';
	if ($how < 0.85)
	{
		my $not_null = chance(0.3) ? ($filter ? ' AND ' : ' WHERE ') . "$inner->[0].$column IS NOT NULL" : '';
		return "$outer " . pick('IN', 'IN', 'NOT IN') . " (SELECT $inner->[0].$column FROM $text$filter$not_null)";
	}
	# values that are not ids
	my ($l, $r) = alike($from, $inner);
	return "$l " . pick('IN', 'NOT IN') . " (SELECT $r FROM $text$filter)" if defined $l && chance(0.5);
	my $number = some_column(\&is_number, $inner);
	my $mine = some_column(\&is_number, $from);
	return "$mine->[0] " . pick('>=', '<', '=') . ' (SELECT ' . pick('max', 'min', 'avg', 'sum') . "($number->[0]) FROM $text$filter)"
	  if $number && $mine;
	return "EXISTS (SELECT 1 FROM $text WHERE " . join(' AND ', $link, @where) . ')';
}

# A condition on these tables; $nested: in a subquery.
sub condition
{
	my ($depth, $nested, @scope) = @_;
	my $how = rand;

	if ($depth > 0 && $how < 0.35)
	{
		my @parts = map { condition($depth - 1, 1, @scope) } 1 .. 2;
		return 'NOT (' . join(pick(' AND ', ' OR '), @parts) . ')' if $how < 0.08;
		return '(' . join(' OR ', @parts) . ')' if $how < 0.22;
		return '(' . join(' AND ', @parts) . ')' . pick('', '', ' IS TRUE', ' IS NOT TRUE', ' IS NOT FALSE');
	}
	return subquery_condition($nested ? 0 : 1, @scope) if $depth > 0 && $how < 0.5 && $subqueries < $most;
	return column_comparison(@scope) if $how < 0.62;
	return expression_condition(@scope) if $how < 0.72;
	return id_of(pick(@scope)) . pick(' IS NULL', ' IS NOT NULL', ' IS NOT NULL') if $how < 0.77;
	return leaf(@scope);
}

# FROM and WHERE with up to five tables, and the tables
sub source
{
	my ($n) = @_;

	($aliases, $subqueries, $widenings) = (0, 0, 0);
	return another_source($n);
}

sub another_source
{
	my ($n) = @_;
	my ($from, $scope, $where) = tables_joined($n // pick(1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5), 1);
	my @where = @$where;

	# about one table each, so that some can be evaluated remotely and others cannot
	push @where, condition(1, 0, chance(0.7) ? pick(@$scope) : @$scope) for 1 .. pick(0, 0, 0, 1, 1, 1, 1, 2);
	return ($from . (@where ? ' WHERE ' . join(' AND ', @where) : ''), @$scope);
}

# the same without WHERE or subqueries
sub bare_source
{
	my ($n) = @_;

	while (1)
	{
		($aliases, $subqueries, $widenings) = (0, $most, 0);
		my ($from, $scope, $where) = tables_joined($n, 0);
		return ($from, @$scope) if !@$where;
	}
	return;
}

# ---------------------------------------------------------------- what the queries compute

sub unique { my %seen; return grep { !$seen{$_}++ } @_; }

sub outputs
{
	my (@scope) = @_;
	my @list = map { some_column(\&any, @scope)->[0] } 1 .. 1 + int rand 4;

	# missing rows on the nullable side are NULL as a whole
	push @list, pick(@scope)->[0] if chance(0.06);
	push @list, '(' . some_column(\&any, @scope)->[0] . ' IS NULL)' if chance(0.1);
	return join ', ', unique(@list);
}

sub direction { return pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST', ' NULLS LAST'); }
sub limit { return pick('', ' LIMIT ' . pick(1, 3, 3, 10, 10, 50, 50, 1000, 1000, 0)) . pick('', '', '', ' OFFSET ' . pick(0, 1, 1, 1, 7, 30)); }

# an expression to group by, of one column or several
sub group_expression
{
	my (@scope) = @_;
	my $c = some_column(\&is_shown, @scope);
	my ($name, $column) = @$c;
	my $time = some_column(\&is_time, @scope);
	my $text = some_column(\&is_text, @scope);
	my $number = some_column(\&is_number, @scope);
	my $how = rand;

	if ($time && $how < 0.4)
	{
		my $part = "date_trunc('" . pick(qw(year quarter month month week day day hour)) . "', $time->[0]";
		my $zoned = $time->[1][1] eq 'timestamptz';

		return "$part)" if $how < 0.22;
		return "extract(" . pick(qw(year quarter month week day dow isoyear)) . " FROM $time->[0])" if $how < 0.28;
		return "$part, '" . pick('UTC', 'Asia/Kolkata', 'America/New_York') . "')" if $zoned && $how < 0.32;
		return "date_trunc('" . pick(qw(year month day)) . "', $time->[0] AT TIME ZONE 'UTC')" if $zoned && $how < 0.35;
		return "$time->[0]\::date" if $how < 0.38;
		return "to_char($time->[0], 'YYYY-MM')";
	}
	return pick("upper($text->[0])", "length($text->[0])", "left($text->[0], 1)", "coalesce($text->[0], '')") if $text && $how < 0.47;
	return pick("($number->[0] > 1)", "$number->[0]::numeric + 1", "sign($number->[0])") if $number && $how < 0.53;
	return "($name IS NULL)" if $how < 0.58;
	return $name;
}

my @exact_doubles = qw(new_capacity address1_latitude);    # quarters: their sums are the same in any order

sub aggregate
{
	my (@scope) = @_;
	my $any = some_column(\&any, @scope);
	my $number = some_column(\&is_number, @scope);
	my $ordered = some_column(\&is_ordered, @scope);
	my $other = some_column(\&is_number, @scope);
	my $text = some_column(\&is_text, @scope);
	my $choice = some_column(sub { $_[0][0] eq 'choice' }, @scope);
	my $boolean = some_column(sub { $_[0][0] eq 'boolean' }, @scope);
	my ($double) = grep { my $c = $_; grep { $c->[0] =~ /\.$_$/ } @exact_doubles } columns_of(\&any, @scope);
	my $distinct = chance(0.15) ? 'DISTINCT ' : '';
	my @ways = ('count(*)', 'count(*)', "count($any->[0])", "count($any->[0])", "count(DISTINCT $any->[0])", "count(DISTINCT $any->[0])");

	push @ways, (map { "$_($distinct$number->[0])" } qw(sum sum sum avg avg min max)),
	  "sum($number->[0]::numeric * 2)", "sum(coalesce($number->[0], 0))", "sum($number->[0]::numeric + $other->[0])", "avg($number->[0]::numeric - 1)",
	  "sum(CASE WHEN " . leaf(@scope) . " THEN $number->[0] END)"
	  if $number;
	push @ways, map { "$_($ordered->[0])" } qw(min min max max) if $ordered;
	push @ways, "count(DISTINCT $text->[0])", "min($text->[0])", "max(upper($text->[0]))", "string_agg($text->[0], ',' ORDER BY $text->[0])" if $text;
	push @ways, "min($choice->[0])", "max($choice->[0])", "sum($choice->[0])" if $choice;
	push @ways, "bool_or($boolean->[0])", "every($boolean->[0])" if $boolean;
	push @ways, "sum($double->[0])", "avg($double->[0])" if $double;
	my $aggregate = pick(@ways);
	$aggregate .= ' FILTER (WHERE ' . condition(0, 1, @scope) . ')' if chance(0.15);
	return $aggregate;
}

sub having
{
	my (@scope) = @_;
	my $number = some_column(\&is_number, @scope);
	my $any = some_column(\&any, @scope);
	my @ways = ('count(*) ' . pick('> 1', '= 1', '< 10', '> 0'), "count($any->[0]) " . pick('= 0', '> 0', '>= 2'), "count(DISTINCT $any->[0]) " . pick('= 1', '> 1'));

	push @ways, "sum($number->[0]) " . pick('> 0', '<> 1', 'IS NULL', '< 1000'), "max($number->[0]) " . pick('IS NOT NULL', '> 41', '<> 1'), "avg($number->[0]) >= 1"
	  if $number;
	return ' HAVING ' . join pick(' AND ', ' OR '), map { pick(@ways) } 1 .. 1 + int rand 2;
}

sub grouped
{
	my ($source, @scope) = @_;
	my @keys = unique(map { group_expression(@scope) } 1 .. pick(1, 1, 1, 2, 2, 3));
	my @aggregates = map { aggregate(@scope) } 1 .. 1 + int rand 4;
	my $by = join ', ', @keys;
	my $having = chance(0.35) ? having(@scope) : '';

	$by = pick("ROLLUP ($by)", "GROUPING SETS (($by), ())") if chance(0.04);
	# aggregates over equal texts, not the text itself
	push @keys, 'count(*)' if chance(0.2);
	return "SELECT " . join(', ', @keys, @aggregates) . " FROM $source GROUP BY $by$having";
}

# ---- each returns [ query, sorted ]

sub plain_question
{
	my ($source, @scope) = source();
	return [ "SELECT " . outputs(@scope) . " FROM $source", 0 ];
}

sub ordered_question
{
	my ($source, @scope) = source();

	# some select only the key, so that its order is total
	if (chance(0.4))
	{
		my $key = some_column(\&is_ordered, @scope);
		return [ "SELECT $key->[0] FROM $source ORDER BY $key->[0]" . direction() . limit(), 1 ] if $key;
	}
	my @keys = unique(map { some_column(\&is_shown, @scope)->[0] } 1 .. 1 + int rand 2);
	return [ "SELECT " . ids_of(@scope) . ', ' . outputs(@scope) . " FROM $source ORDER BY " . join(', ', (map { $_ . direction() } @keys), ids_of(@scope)) . limit(), 1 ];
}

sub distinct_question
{
	my ($source, @scope) = source();
	my @list = unique(map { chance(0.75) ? some_column(\&is_shown, @scope)->[0] : group_expression(@scope) } 1 .. 1 + int rand 3);
	my $query = 'SELECT DISTINCT ' . join(', ', @list) . " FROM $source";

	return [ $query . ' ORDER BY ' . join(', ', map { $_ . direction() } 1 .. @list) . limit(), 1 ] if chance(0.4);
	return [ "SELECT DISTINCT ON ($list[0]) " . ids_of(@scope) . " FROM $source ORDER BY " . join(', ', $list[0] . direction(), ids_of(@scope)), 1 ]
	  if chance(0.15);
	return [ $query, 0 ];
}

sub grouped_question
{
	my $query = grouped(source());
	my ($keys) = $query =~ / GROUP BY (.*?)(?: HAVING .*)?$/s;

	return [ $query . " ORDER BY $keys" . limit(), 1 ] if chance(0.25) && $keys !~ /ROLLUP|SETS/;
	return [ $query, 0 ];
}

# Periods that combine several of the service's groupings and overlap
sub period_question
{
	my ($source, @scope) = source();
	my $time = some_column(\&is_time, @scope) // return grouped_question();
	my @counts = map { 'count(DISTINCT ' . some_column(\&is_shown, @scope)->[0] . ')' } 1 .. 1 + int rand 2;

	return [ "SELECT date_trunc('" . pick(qw(quarter week)) . "', $time->[0]) AS period, " . join(', ', @counts, aggregate(@scope)) . " FROM $source GROUP BY period", 0 ];
}

sub aggregate_question
{
	my ($source, @scope) = source();

	# one group, or none
	return [ "SELECT 'all' AS what, " . join(', ', map { aggregate(@scope) } 1 .. 1 + int rand 2) . " FROM $source GROUP BY what", 0 ]
	  if chance(0.15);
	my $having = chance(0.1) ? having(@scope) : '';
	return [ 'SELECT ' . join(', ', map { aggregate(@scope) } 1 .. 1 + int rand 4) . " FROM $source$having", 0 ];
}

sub semi_question
{
	my ($source, @scope) = source(pick(1, 1, 1, 2, 2, 3));
	my $more = ($source =~ / WHERE / ? ' AND ' : ' WHERE ') . subquery_condition(1, @scope);

	$more .= (chance(0.7) ? ' AND ' : ' OR ') . subquery_condition(1, @scope) if chance(0.3) && $subqueries < $most;
	# an OR must not extend to the conditions that join tables
	$more =~ s/^( AND | WHERE )(.*)$/$1($2)/s;
	return [ "SELECT " . pick('count(*)', ids_of(@scope) . ', ' . outputs(@scope)) . " FROM $source$more", 0 ];
}

# One join within another: grouped, limited, or whole
sub nested_question
{
	my $how = rand;
	my $lateral = $how >= 0.6 && $how < 0.75;
	my ($source, @scope) = $lateral ? bare_source(pick(1, 2, 2, 3)) : source(pick(1, 2, 2, 3));
	my $from = pick(@scope);
	my ($table, $column, $outer) = related($from);
	my $to = named($table);
	my $kind = pick('JOIN', 'LEFT JOIN');
	my $n = aggregate(@scope);

	if ($how < 0.25)
	{
		return [ "SELECT g.k, g.n, " . outputs($to) . " FROM (SELECT $outer AS k, $n AS n FROM $source GROUP BY $outer) g $kind "
			  . said($to) . " ON $to->[0].$column = g.k WHERE " . condition(0, 0, $to), 0 ];
	}
	if ($how < 0.4)
	{
		my $order = some_column(\&is_ordered, @scope);
		my $first = $order ? "$order->[0]" . direction() . ', ' : '';
		return [ "SELECT g.k, " . outputs($to) . " FROM (SELECT $outer AS k FROM $source ORDER BY $first" . ids_of(@scope) . ' LIMIT ' . pick(1, 5, 20) . ") g $kind "
			  . said($to) . " ON $to->[0].$column = g.k", 0 ];
	}
	if ($how < 0.6)
	{
		my $materialized = pick('', 'MATERIALIZED ', 'NOT MATERIALIZED ');
		return [ "WITH g AS $materialized(SELECT " . ids_of(@scope) =~ s/(\w+)\.(\w+)/$1.$2 AS $1_id/gr . ", $outer AS k FROM $source)
			SELECT count(*), count(g.k), count(h.k), count(DISTINCT g.k) FROM g " . pick('JOIN', 'LEFT JOIN', 'FULL JOIN') . " g h ON h.k = g.k AND h.$from->[0]_id = g.$from->[0]_id", 0 ];
	}
	if ($lateral)
	{
		my ($text, $cond) = (said($to), condition(0, 1, $to));
		return [ "SELECT " . ids_of(@scope) . ", z.* FROM $source, LATERAL (SELECT count(*) AS n, " . aggregate($to) . " AS m FROM $text WHERE $to->[0].$column = $outer AND $cond) z", 0 ];
	}
	my @inner = ("SELECT " . aggregate($to) . " FROM " . said($to) . " WHERE $to->[0].$column = $outer");
	return [ "SELECT " . ids_of(@scope) . ", ($inner[0]) AS z FROM $source", 0 ] if $how < 0.88;
	return [ "SELECT z, count(*) FROM (SELECT ($inner[0])::text AS z FROM $source) q GROUP BY z", 0 ];
}

# The same column from two joins
sub union_question
{
	my ($source, @scope) = source(pick(1, 2, 2, 3));
	my $c = some_column(\&is_shown, @scope);
	my ($alias, $name) = split /\./, $c->[0];
	my ($other, @others) = another_source(pick(1, 2, 2));
	my @same = grep { $_->[0] =~ /\.$name$/ && $_->[2] eq $c->[2] } columns_of(\&is_shown, @others);
	my $second = @same ? $same[0][0] : "NULL::$c->[1][1]";
	my $type = $c->[1][0] eq 'text' ? '::text' : '';
	my $op = pick('UNION ALL', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'EXCEPT ALL');
	my $query = "SELECT $c->[0]$type AS u FROM $source $op SELECT $second$type FROM $other";

	return [ "SELECT u, count(*) FROM ($query) q GROUP BY u", 0 ] if chance(0.3);
	return [ "$query ORDER BY u" . direction() . limit(), 1 ] if chance(0.3);
	return [ $query, 0 ];
}

# Walks the tree of parents up or down, around its cycles
sub recursive_question
{
	my ($table, $parent) = pick([ 'account', 'parentaccountid' ], [ 'new_meter', 'new_parentid' ])->@*;
	my $id = $tables{$table}{id};
	my ($here, $there) = chance(0.5) ? ($id, $parent) : ($parent, $id);

	($aliases, $subqueries, $widenings) = (0, 0, $most);
	my ($s, $t) = (named($table), named($table));
	my $start = condition(1, 0, $s);
	my $go = chance(0.5) ? ' AND ' . condition(0, 1, $t) : '';
	my $deep = pick(3, 6, 16);
	return [ "WITH RECURSIVE w(id, depth) AS (
			SELECT $s->[0].$id, 0 FROM " . said($s) . " WHERE $start
			UNION SELECT $t->[0].$there, w.depth + 1 FROM w JOIN " . said($t) . " ON $t->[0].$here = w.id WHERE w.depth < $deep$go)
		SELECT depth, count(*), count(DISTINCT id) FROM w GROUP BY depth", 0 ];
}

sub window_question
{
	my ($source, @scope) = source(pick(1, 2, 2, 3));
	my $key = some_column(\&is_shown, @scope)->[0];
	my $number = some_column(\&is_number, @scope) // [1];
	my $part = some_column(\&is_shown, @scope)->[0];

	return [ "SELECT " . ids_of(@scope) . ", row_number() OVER (ORDER BY $key, " . ids_of(@scope) . "), sum($number->[0]) OVER (PARTITION BY $part) FROM $source", 0 ];
}

# [ query, type, value ]
sub parameter_question
{
	my ($source, @scope) = source(pick(1, 2, 2, 3));
	my $c = some_column(\&any, @scope);
	my ($name, $column) = @$c;
	my ($sort, $type) = @$column;
	my $and = $source =~ / WHERE / ? ' AND ' : ' WHERE ';
	my $what = pick('count(*)', ids_of(@scope), aggregate(@scope));
	my $value = chance(0.1) ? "NULL::$type" : '(' . literal_of($column) . ")::$type";

	return [ "SELECT $what FROM $source$and$name = ANY (p)", "${type}[]", list_of($column) ] if $sort ne 'choices' && chance(0.2);
	return [ "SELECT $what FROM $source$and$name && p", $type, $value ] if $sort eq 'choices';
	return [ "SELECT count(*), count($name) FROM $source GROUP BY $name HAVING $name " . pick('=', '<>', 'IS DISTINCT FROM') . ' p', $type, $value ]
	  if $sort ne 'text_ci_ai' && chance(0.2);
	return [ "SELECT $what FROM $source$and$name" . comparison() . 'p', $type, $value ];
}

# Joins that are read again because the parameter of a condition has changed, which only PostgreSQL knows
sub repeated_question
{
	my ($source, @scope) = source(pick(2, 2, 3));
	my $c = some_column(\&is_shown, @scope)->[0];
	my $and = $source =~ / WHERE / ? ' AND ' : ' WHERE ';
	my $inner = pick('count(*)', aggregate(@scope));

	return [ "SELECT v.p, (SELECT $inner FROM $source$and$c\::text ~ v.p) FROM (VALUES ('^[A-Fa-f0-4]'), ('.'), ('[5-9x-zX-Z]')) v(p)", 0 ];
}

# Joins that are read concurrently
sub appended_question
{
	my @parts = map {
		my ($source, @scope) = source(pick(1, 2, 2, 3));
		'SELECT ' . id_of($scope[0]) . " AS id FROM $source";
	} 1 .. pick(2, 2, 3);

	return [ join(' UNION ALL ', @parts), 0 ];
}

# Joins with a list of ids that takes several requests
sub listed_question
{
	my ($source, @scope) = source(pick(2, 2, 3));
	my $t = pick(@scope);
	my @some = grep { chance(0.5) } @{ $ids{ $t->[1] } // $ids{new_meter} };
	my @others = map { sprintf '%08x-0000-4000-8000-%012x', rand 4294967296, rand 65536 } 1 .. pick(300, 600, 1100);
	my $and = $source =~ / WHERE / ? ' AND ' : ' WHERE ';

	return [ 'SELECT ' . pick('count(*)', ids_of(@scope) . ', ' . outputs(@scope)) . " FROM $source$and" . id_of($t) . " = ANY ('{" . join(',', @others, @some) . "}')", 0 ];
}

my @kinds = (
	[ 14, \&plain_question ], [ 14, \&ordered_question ], [ 9, \&distinct_question ], [ 20, \&grouped_question ],
	[ 2, \&period_question ], [ 12, \&aggregate_question ], [ 12, \&semi_question ], [ 7, \&nested_question ], [ 4, \&union_question ],
	[ 2, \&repeated_question ], [ 1, \&recursive_question ], [ 1, \&window_question ], [ 6, \&parameter_question ]);
my @lots = map { ($_->[1]) x $_->[0] } @kinds;

sub question { return pick(@lots)->(); }

# ---------------------------------------------------------------- asking

my @flags = ('--limit-requests', 10000000, '--limit-exec', '1000000s');
my $other = Dvsim->start(@flags);
my $crm = Crm->start('differential_joins', initdb => [ '--encoding', 'UTF8' ], flags => \@flags);
plan skip_all => 'this PostgreSQL was built without ICU' unless $crm->has_ci_ai;

set_up_tables($crm, $other);
is($crm->sql("SELECT count(*) FROM l.$_"), $rows{$_}, "all rows of $_ are read") for sort keys %rows;
cmp_ok($crm->sql('SELECT count(*) FROM l.new_account_contact'), '>', 30, 'and of the intersect table');
cmp_ok($crm->sql('SELECT count(*) FROM l.contact c JOIN l.account a ON a.accountid = c.parentcustomerid GROUP BY a.accountid ORDER BY 1 DESC LIMIT 1'),
	'>', 30, 'one account has most of the contacts');

my @found;

sub same_ok
{
	my ($what) = @_;

	if (@found)
	{
		my $script = "$PostgreSQL::Test::Utils::log_path/differential_joins.sql";
		Differential::write_script($script, @found);
		diag "all of it as a script: $script";
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	report_ok(\@found, "$what, the same answers (SEED=$seed)");
	return;
}

my @questions = map { question() } 1 .. $wanted;

$Differential::look_at_plans = 1;
@found = Differential::ask($crm, @questions);
$Differential::look_at_plans = 0;
same_ok("$wanted questions");

my %tally = %Differential::tally;
diag sprintf '%d of %d plans send FetchXML, %d of %d answers are empty', @tally{qw(fetch planned nothing asked)};
# whether an expression raises an error depends on the plan
report_ok(\@Differential::errors, 'no answer is an error');
cmp_ok($tally{nothing}, '<', $tally{asked} * 0.4, 'and most answers are not empty');
cmp_ok($tally{fetch}, '>=', $tally{planned} * FETCHXML_AT_LEAST / 100, 'FetchXML answers enough of them')
  if FETCHXML_AT_LEAST > 0;

# ---- the same with ids of the root divided into ranges, several joins waiting at a time, and lists that take several requests

{
	my %small = (account => 7, contact => 11, new_meter => 9, new_alltypes => 13);
	my $some = int($wanted / 10) + 20;
	my $set = 'SET dataverse_fdw.scan_parallelism = 6;';
	my $page = sub { my ($size) = @_; $crm->sql("ALTER FOREIGN TABLE f.$_ OPTIONS (" . $size->($_) . ')') for sort keys %small; return; };

	$page->(sub { my ($table) = @_; return ($table =~ /^(?:contact|new_alltypes)$/ ? 'SET' : 'ADD') . " page_size '$small{$table}'" });
	@Differential::errors = ();
	@found = differing($crm, "$set $remote", (grep { !defined $_->[2] } @questions)[ 0 .. $some ]);
	push @found, differing($crm, $_, map { appended_question() } 0 .. $some) for $set, "$set $remote";
	push @found, differing($crm, $_, map { listed_question() } 0 .. $some / 2) for $set, $remote;
	same_ok('in ranges, below Append, and with long lists');
	report_ok(\@Differential::errors, 'and no answer is an error');
	my @ranges = map { $crm->sql("$set EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $_") }
		'SELECT d.new_alltypesid, e.new_name FROM f.new_alltypes d JOIN f.new_meter e ON e.new_meterid = d.new_meterid',
		'SELECT c.contactid, a.name FROM f.contact c LEFT JOIN f.account a ON a.accountid = c.parentcustomerid';
	is(scalar(grep { /Joined by Dataverse.*Ranges: \d/s } @ranges), 2, 'joins were read in ranges') or diag @ranges;
	like($crm->sql("SET enable_hashjoin = off; EXPLAIN (COSTS OFF) SELECT c.contactid FROM f.contact c JOIN f.account a ON a.accountid = c.parentcustomerid
		UNION ALL SELECT e.new_meterid FROM f.new_meter e JOIN f.account a ON a.accountid = e.new_accountid"), qr/Async Foreign Scan.*Joined by.*Async Foreign Scan.*Joined by/s, 'and concurrently');
	$page->(sub { my ($table) = @_; return $table eq 'contact' ? "SET page_size '25'" : $table eq 'new_alltypes' ? "SET page_size '40'" : 'DROP page_size' });
}

# ---- the questions are able to detect mistakes

# Possible mistakes in the translation to FetchXML, as another query; a mistake that changes nothing is skipped.
my $text = join '|', qw(name description address1_city lastname firstname fullname new_name new_notes new_text new_memo);
my $zoned = join '|', qw(new_datetime new_installedon new_readat);
my %mistakes = (
	'an outer join becomes an inner one' => sub { s/LEFT JOIN/JOIN/g },
	'a condition of an outer join is lost' => sub { s/(LEFT JOIN \w+ \w+ ON \S+ = \S+) AND \S+ [<>=]+ \S+(?= )/$1/ },
	'a filter outside of an outer join moves into it' => sub { s/(LEFT JOIN \w+ (\w+) ON \S+ = \S+) WHERE (\2\.\w+ (?:IS NULL|IS NOT NULL|[<>=]+ \S+))(?=$| ORDER BY| GROUP BY)/$1 AND $3/ },
	'NOT IN ignores NULL' => sub { s/NOT IN \(SELECT (\w+)\.(\w+) FROM (\w+) \1\b/NOT IN (SELECT $1.$2 FROM (SELECT * FROM $3 WHERE $2 IS NOT NULL) $1/ },
	'NOT EXISTS takes one of the rows' => sub { s/NOT EXISTS \(SELECT (\S+) FROM (\w+) (\w+) WHERE/NOT EXISTS (SELECT $1 FROM (SELECT * FROM $2 LIMIT 1) $3 WHERE/ },
	'EXISTS repeats rows' => sub { s/^SELECT count\(\*\) FROM (\w+ \w+) WHERE \(?EXISTS \(SELECT \S+ FROM (\w+ \w+) WHERE (\S+ = [\w.]+)(.*)\)\)?$/SELECT count(*) FROM $1 JOIN $2 ON $3$4/ },
	'"different" is true for NULL' => sub { s/(\w+\.\w+) <> (\S+)(?=$| )/$1 IS DISTINCT FROM $2/ },
	'IS DISTINCT FROM is false for NULL' => sub { s/IS DISTINCT FROM/<>/ },
	'NULL is counted' => sub { s/count\((?!\*|DISTINCT)[^()]+\)/count(*)/ },
	'equal values are counted' => sub { s/count\(DISTINCT /count(/ },
	'twins are counted once' => sub { s/count\(DISTINCT (\w+\.(?:$text))\)/count(DISTINCT lower(rtrim(translate($1, 'äçüé', 'acue'))))/ },
	'twins are joined' => sub { s/(\w+\.(?:$text)) = (\w+\.(?:$text))\b/lower($1) = lower($2)/ },
	'the group of NULL is lost' => sub { s/ GROUP BY (\w+\.\w+)$/ GROUP BY $1 HAVING $1 IS NOT NULL/ },
	'the sum of nothing is 0' => sub { s/\bsum\(([^()]+)\)(?! FILTER| OVER)/coalesce(sum($1), 0)/ },
	'sums are not exact' => sub { s/\bsum\(([^()]+)\)(?! FILTER| OVER)/sum(($1)::float8)/ },
	'averages have other digits' => sub { s/\bavg\((\w+\.\w+)\)(?! FILTER)/round(avg($1)::numeric, 10)/ },
	'HAVING is lost' => sub { s/ HAVING .*?(?= ORDER BY|$)// },
	'days are those of UTC' => sub { s/date_trunc\('(\w+)', (\w+\.(?:$zoned))\)/date_trunc('$1', $2, 'UTC')/g },
	'NULLs sort at the other end' => sub { s/( ORDER BY \w+\.\w+),/$1 NULLS FIRST,/ },
	'the first rows are skipped twice' => sub { s/ OFFSET ([1-9])/ OFFSET 1$1/ });

my @many = (@questions, map { question() } @questions .. 4000);
for my $mistake (sort keys %mistakes)
{
	my @pairs;

	for my $try (@many)
	{
		next if defined $try->[2];
		local $_ = $try->[0];
		$mistakes{$mistake}->();
		push @pairs, [ @$try, $_ ] if $_ ne $try->[0];
		last if @pairs == 150;
	}
	my @telling = @pairs ? Differential::telling($crm, "SET TimeZone = 'America/Los_Angeles';", @pairs) : ();
	cmp_ok(scalar(@telling), '>', 0, "$mistake: " . @telling . ' of ' . @pairs . ' questions would detect it');
}

# ---- each element, attribute, and operator of FetchXML has a source (only the last requests are examined)

use constant LAST_REQUESTS => 4000;

my $to = $crm->dvsim->control('GET', '/_dvsim/requests?since=1000000000')->json->{next};
my %without_source;
my $taken_apart = 0;

for my $request (@{ $crm->dvsim->control('GET', '/_dvsim/requests?since=' . ($to > LAST_REQUESTS ? $to - LAST_REQUESTS : 0))->json->{requests} })
{
	next unless $request->{target} =~ /[?&]fetchXml=/;
	$taken_apart++;
	$without_source{$_} = $request->{target} for grep { /^fetch: / } splice @{ [ Live::Shapes::shapes_of({ %$request, body => '' }) ] }, 1;
}
cmp_ok($taken_apart, '>', min($wanted / 10, LAST_REQUESTS / 20), "$taken_apart requests with FetchXML are examined");
is(join("\n", map { "$_ in $without_source{$_}" } sort keys %without_source), '', 'and each part has a source (test/live/lib/Live/Shapes.pm)');

# ---- joins that the service refuses are made here (with each question, a session begins that does not know it)

{
	my %refused = (400 => 'Link entities are not supported.', 500 => 'The operation is not supported on this table.');
	my $some = int($wanted / 5) + 20;
	my $page = sub { my ($contact, $alltypes) = @_; $crm->sql("ALTER FOREIGN TABLE f.contact OPTIONS (SET page_size '$contact'); ALTER FOREIGN TABLE f.new_alltypes OPTIONS (SET page_size '$alltypes')"); return; };
	my @sorts = (\&plain_question, \&ordered_question, \&grouped_question, \&aggregate_question, \&semi_question, \&nested_question, \&repeated_question, \&listed_question);

	$page->(11, 13);
	$crm->sql(q{ALTER SERVER crm OPTIONS (ADD max_retries '0')});
	@Differential::errors = @found = ();
	for my $status (sort keys %refused)
	{
		my $hits = 0;

		for my $set ("SET differential.forget = on; $remote", 'SET differential.forget = on; SET dataverse_fdw.scan_parallelism = 6;', $remote)
		{
			$crm->fault(path => 'link-entity', status => 0 + $status, code => '0x80040216', message => $refused{$status}, times => 0);
			push @found, differing($crm, $set, (map { question() } 0 .. $some / 3), (map { pick(@sorts)->() } 0 .. $some / 3), map { appended_question() } 0 .. $some / 10);
			$hits += $crm->dvsim->control('GET', '/_dvsim/faults')->json->[0]{hits};
			$crm->no_faults;
		}
		cmp_ok($hits, '>', $some / 4, "$hits joins were refused with $status");
		# a part of a list has been answered, by as many pages as there are requests
		$page->(500, 500);
		for my $after (1, 2)
		{
			for my $question (map { listed_question() } 0 .. $some / 20)
			{
				$crm->fault(path => 'link-entity', status => 0 + $status, code => '0x80040216', message => $refused{$status}, after => $after, times => 0);
				push @found, differing($crm, "SET differential.forget = on; $remote", $question);
				$crm->no_faults;
			}
		}
		$page->(11, 13);
	}
	$crm->sql(q{ALTER SERVER crm OPTIONS (DROP max_retries)});
	$page->(25, 40);
	same_ok('joins that are refused');
	report_ok(\@Differential::errors, 'and no answer is an error');
}

# ---- forms of queries that some environments do not support

Differential::ask_under_quirks($crm, $wanted < 40 ? $wanted : 40, $seed, \&question);

# ---- wrong policies are detected

# a table with a column of that sort, joined to another one
sub about
{
	my ($sort) = @_;

	while (1)
	{
		my ($source, @scope) = bare_source(2);
		my $c = some_column(sub { $_[0][0] eq $sort }, @scope) or next;
		next if $source =~ /elsewhere|here|new_reading/;
		return ($source, $c, @scope);
	}
	return;
}

# Each returns a question whose answer is wrong if the service is asked to apply the named operation to a column.
my %forms = (
	EQ => sub { my ($c) = @_; "$c->[0] = " . literal_of($c->[1]) },
	NE => sub { my ($c) = @_; "$c->[0] <> " . literal_of($c->[1]) },
	GE => sub { my ($c) = @_; "$c->[0] >= " . literal_of($c->[1]) },
	IN => sub { my ($c) = @_; "$c->[0] = ANY (" . list_of($c->[1]) . ')' });
my %asked = (
	GROUP => sub {
		my ($source, $c) = @_;
		return "SELECT count(*) FROM $source GROUP BY $c->[0]" if !is_shown($c->[1]);
		return pick("SELECT $c->[0], count(*) FROM $source GROUP BY $c->[0]", "SELECT DISTINCT $c->[0] FROM $source");
	},
	COUNT_DISTINCT => sub { my ($source, $c) = @_; "SELECT count(DISTINCT $c->[0]) FROM $source" },
	SUM => sub { my ($source, $c) = @_; 'SELECT ' . pick('sum', 'sum', 'avg') . "($c->[0]) FROM $source" . pick('', ' WHERE ' . leaf_of($c->[1], $c->[0])) },
	EXTREME => sub { my ($source, $c) = @_; 'SELECT ' . pick('min', 'max') . "($c->[0]) FROM $source" . pick('', " WHERE $c->[0] " . pick('<', '>') . ' ' . literal_of($c->[1])) },
	JOIN => sub {
		my ($source, $c, @scope) = @_;
		my $t = pick(@scope);
		my ($alias, $name) = split /\./, $c->[0];
		my ($mine) = grep { $_->[0] eq $alias } @scope;
		my $twin = named($mine->[1]);
		return 'SELECT ' . id_of($mine) . ' FROM ' . said($mine) . ' WHERE ' . pick('', 'NOT ') . 'EXISTS (SELECT 1 FROM ' . said($twin) . " WHERE $twin->[0].$name = $c->[0])"
		  if chance(0.5);
		return 'SELECT ' . id_of($mine) . ', ' . id_of($twin) . " FROM " . said($mine) . pick(' JOIN ', ' LEFT JOIN ') . said($twin) . " ON $twin->[0].$name = $c->[0]";
	});

# Entries that are correct in the table, but would be wrong if they were "exact".  Entries for
# which dvsim behaves like PostgreSQL are left out.
my %wrong = (
	text => [qw(EQ IN GROUP COUNT_DISTINCT)],
	text_ci_ai => [qw(EQ)],
	choices => [qw(EQ)]);
# sorts of columns for which PostgreSQL has sums, or minimum and maximum
my %possible = (SUM => qr/^(?:number|choice)$/, EXTREME => qr/^(?:text|number|double|choice|time|date)$/);

sub directed_question
{
	my ($sort, $op) = @_;
	my ($source, $c, @scope) = about($sort);

	return [ $asked{$op}->($source, $c, @scope), 0 ] if $asked{$op};
	return [ "SELECT " . ids_of(@scope) . " FROM $source WHERE " . $forms{$op}->($c), 0 ];
}

{
	my @each = map {
		my $op = $_;
		map { my $sort = $_; map { directed_question($sort, $op) } 1 .. 2 }
		  grep { $_ =~ ($possible{$op} // qr/./) } qw(id text text_ci_ai number double boolean choice choices time date)
	} sort keys %asked;

	@Differential::errors = ();
	@found = (differing($crm, '', @each), differing($crm, $remote, @each));
	same_ok(scalar(@each) . ' questions about each sort of columns');
	report_ok(\@Differential::errors, 'and no answer is an error');
}

SKIP:
{
	skip 'DV_FLIPS is not set: no library built with DV_TEST=1', 1 if !defined $ENV{DV_FLIPS};

	Differential::use_flips($crm, 'SELECT count(*) FROM f.account', $rows{account});
	is(scalar(differing($crm, "SET dataverse_fdw.flip_policy = '';", @questions[ 0 .. ($#questions < 99 ? $#questions : 99) ])),
		0, 'with correct policies, the answers are the same');
	Differential::wrong_policies_ok($crm, \%wrong, $directed, \&directed_question, $remote);
}

$crm->stop;
done_testing;
