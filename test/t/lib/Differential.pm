# Differential.pm
#		Code shared by the differential tests: difficult values, random
#		conditions on columns, queries of foreign tables (schema f) and of local
#		copies of them (schema l), ways to force the planner, and wrong policies.
#
# A column is described by [ sort, type, literals ]: how the service compares it,
# the PostgreSQL type of its literals, and the literals.  A question is [ query,
# sorted ], or [ query, type, value ] with a parameter "p" of that type.
#
#	my @found = Differential::ask($crm, @questions);
#	report_ok(\@found, 'the same answers');
#
# SPDX-License-Identifier: PostgreSQL

package Differential;

use strict;
use warnings;
use utf8;

use Encode qw(encode_utf8);
use Exporter qw(import);
use Test::More;

use Crm;

our @EXPORT = qw(pick chance quoted dollar json_text json_time create typed literal_of value_row_of
  pattern list_of leaf_of lengthy_of differing report_ok
  @texts @numbers @bigints @decimals @tiny @moneys @doubles @times @dates
  @text_values @integers @numerics @moments @far_days @days @doubles_at_edges @settings @zones);

use constant PER_CALL => 250;    # questions of one session
use constant SHOWN => 5;         # questions that are printed when answers differ

# counts of the questions so far: all of them, those with an empty answer, those with an error,
# those whose plans were examined, and those of the latter that send FetchXML
our %tally = (asked => 0, nothing => 0, planned => 0, fetch => 0);
our @errors;
our $look_at_plans = 0;

my $more_settings = $ENV{SETTINGS} // '';    # under which all questions are asked
my @statements;    # that created the tables and their rows

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub quoted { my ($s) = @_; $s =~ s/'/''/g; $s =~ s/\\/\\\\/g; return "E'$s'"; }
# the output of psql is bytes already
sub bytes { my ($s) = @_; utf8::encode($s) if utf8::is_utf8($s); return $s; }
sub dollar { my ($s) = @_; return "\$q\$$s\$q\$"; }

# ---------------------------------------------------------------- values of rows

our @texts = (
	'abc', 'ABC', 'Abc', 'abc ', 'abc  ', 'äbc', 'abç', 'ab', 'abcd', '%', 'a%b', 'a_b', 'axb',
	'a[b]c', '[abc]', 'b', "O'Neil", 'ONeil', 'back\\slash', '"quoted"', 'Müller', 'MULLER',
	'muller', 'Mueller', 'straße', 'strasse', '😀', 'a😀b', "new\nline", "tab\there", 'kiwi',
	'KIWI', 'Kiwi', "\x{212A}iwi", "\x{130}kiwi", 'æon', 'aeon', 'null', '1', 'true', ' lead',
	'a&b=c#d+e/f?g', '100%', '50 %', 'x' x 90, '^', 'a^b', 'a-b', ']', '日本語', "e\x{301}t\x{e9}");
our @numbers = (0, 1, -1, 2, 3, 41, 42, 43, 100, 2147483647, -2147483648);
our @bigints = (@numbers, '9007199254740992', '9007199254740993', '9223372036854775807',
	'-9223372036854775808', '2147483648');
our @decimals = ('0', '1', '1.5', '1.4999', '1.5001', '-1.5', '0.0001', '-0.0001', '99999999.9999',
	'99999999999.9999', '-99999999999.9999', '42', '41.9999');
our @tiny = (@decimals, '0.0000000001', '0.0000000002', '-0.0000000001', '1.0000000001');
our @moneys = ('0', '1', '1.5', '1.49', '-1.5', '0.01', '-0.01', '42', '922337203685477',
	'-922337203685477', '1000000.01');
our @doubles = ('0', '0.1', '0.3', '-0.1', '1.5', '123456.78901', '47.63958', '42', '99999999999');
our @times = ('1753-01-01 00:00:00', '1900-02-28 23:59:59', '1999-12-31 23:59:59',
	'2000-01-01 00:00:00', '2024-02-29 12:00:00', '2024-02-29 12:00:01', '2024-03-31 01:30:00',
	'2024-03-31 02:30:00', '2024-10-27 01:30:00', '9999-12-30 23:59:59');
our @dates = ('1753-01-01', '1900-02-28', '2000-01-01', '2024-02-29', '2024-03-01', '2024-03-31',
	'9999-12-30');

# ---------------------------------------------------------------- literals of conditions

our @text_values = map { quoted($_) } @texts, '', ' ', 'abc   ', 'nowhere', "\x01", 'x' x 3000;
our @integers = (@numbers, "'-32768'::int2", "'32767'::int2", "'-9223372036854775808'::int8",
	"'-2147483648'::int4", "'-Infinity'::numeric", '-1e1000', '1e-1000', '2147483648', '-2147483649', '9223372036854775807', '1.5', '41.9',
	"'NaN'::numeric", "'Infinity'::numeric", '1e40');
our @numerics = (@tiny, '1.50', '1.49995', '0.00000000005', '-0.00000000005', '1e12', '1e15', '1e30',
	'-1e30', "'NaN'", "'Infinity'", "'-Infinity'");
our @moments = map { "'$_'" } @times, '0001-01-01 00:00:00', '1752-12-31 23:59:59',
  '2024-02-29 12:00:00.000001', '2024-02-29 11:59:59.999999', '2024-02-29 12:00:00.5',
  '9999-12-31 23:59:59', '9999-12-31 23:59:59.5', '10000-01-01 00:00:00', 'infinity', '-infinity',
  '4713-01-01 00:00:00 BC', '294276-12-31 23:59:59.999999', '1752-12-31 23:59:59.999999';
our @far_days = map { "'$_'::date" } '4713-01-01 BC', '294277-01-01', '300000-01-01', '5874897-12-31',
  '1753-01-01', '9999-12-31', 'infinity', '-infinity';
our @days = map { "'$_'" } @dates, '0001-01-01', '1752-12-31', '9999-12-31', '10000-01-01',
  'infinity', '-infinity', '4713-01-01 BC', '300000-01-01', '5874897-12-31';
our @doubles_at_edges = map { "'$_'" } '1.7976931348623157e308', '-1.7976931348623157e308', '5e-324',
  '2.2250738585072014e-308', '-0', '1e15';

# ---------------------------------------------------------------- filling tables

# Statements of a script only: see write_script.
sub for_script { push @statements, @_; return; }

# The statements that create a server whose address is a variable of psql.
sub server_statements
{
	my ($name, $address) = @_;
	return (
		"\\set token :$address '/t/oauth2/v2.0/token'\nCREATE SERVER $name FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url :'$address', token_url :'token', request_cost '100', row_cost '0.05')",
		"CREATE USER MAPPING FOR CURRENT_USER SERVER $name OPTIONS (client_id 'app1', client_secret 'secret1')");
}

# Runs statements that a script needs as well.
sub set_up
{
	my ($crm, $sql) = @_;

	push @statements, $sql;
	return $crm->sql(encode_utf8 $sql);
}

sub json_text
{
	my ($s) = @_;
	$s =~ s/([\\"])/\\$1/g;
	$s =~ s/\n/\\n/g;
	$s =~ s/\t/\\t/g;
	return "\"$s\"";
}

sub json_time { my ($t) = @_; $t =~ tr/ /T/; return "\"${t}Z\""; }

# Writes objects with the bulk message, CreateMultiple unless another is named.
sub create
{
	my ($crm, $set, @objects) = @_;
	return write_multiple($crm, $set, 'CreateMultiple', @objects);
}

sub write_multiple
{
	my ($crm, $set, $message, @objects) = @_;

	while (my @some = splice @objects, 0, 100)
	{
		my $body = '{"Targets":[' . join(',', @some) . ']}';
		$body =~ s/'/''/g;
		set_up($crm,
			"SELECT 1 FROM dataverse.request('crm', 'POST', '$set/Microsoft.Dynamics.CRM.$message', '$body')");
	}
	return;
}

# ---------------------------------------------------------------- conditions on a column

sub typed { my ($literal, $type) = @_; return $literal =~ /::|NULL/ ? $literal : "$literal\::$type"; }

sub literal_of
{
	my ($column) = @_;
	my (undef, $type, $literals) = @$column;

	return "NULL::$type" if chance(0.03);
	return typed(pick(@$literals), $type);
}

# The same for a row of VALUES, which is cast to the type of the others when it is read: that must not fail.
sub value_row_of
{
	my ($column) = @_;
	my $l;

	do { $l = literal_of($column); } while $l =~ /::date/ && $column->[1] ne 'date';
	return "($l)";
}

sub pattern
{
	my @parts = map { pick('%', '%', '_', 'a', 'b', 'ab', 'abc', 'ABC', 'é', '\\%', '\\_', '[', ']', "'", 'ü', 'ki', 'K', '😀', '\\\\', "\n", ' ') }
	  1 .. 1 + int rand 4;
	return quoted(join '', @parts);
}

sub list_of
{
	my ($column) = @_;
	my $n = chance(0.1) ? 230 : chance(0.1) ? 0 : 1 + int rand 5;
	my @items = map { my $l = literal_of($column); $l } 1 .. $n;

	return "ARRAY[" . join(', ', @items) . "]\::$column->[1]\[]";
}

# values of no row, or of few
my %fillers = (
	uuid => 'gen_random_uuid()', text => "'filler ' || i", numeric => 'i * 1.5', float8 => 'i * 1.5', integer => 'i + 1000',
	timestamptz => "timestamptz '1999-12-31 23:00:00' + i * interval '1 s'", timestamp => "timestamp '1999-12-31 23:00:00' + i * interval '1 s'",
	date => "date '2001-01-01' - i");

# The same list among enough other values to need several requests, or more than the table has pages.
sub long_list_of
{
	my ($column) = @_;
	my $filler = $fillers{ $column->[1] };

	return list_of($column) unless $filler;
	return '(' . list_of($column) . " || ARRAY(SELECT ($filler)::$column->[1] FROM generate_series(1, " . pick(150, 700, 3000) . ') i))';
}

# A condition on the column, which the query calls $c.
sub leaf_of
{
	my ($column, $c) = @_;
	my ($sort) = @$column;
	my $how = rand;

	return pick("$c IS NULL", "$c IS NOT NULL") if $how < 0.08;
	return "$c IS " . pick('', 'NOT ') . "DISTINCT FROM " . literal_of($column) if $how < 0.16;
	if ($sort eq 'choices')
	{
		return pick(
			"$c && " . literal_of($column), "$c @> " . literal_of($column), "$c <@ " . literal_of($column),
			"$c = " . literal_of($column), pick(1, 2, 9) . " = ANY ($c)", "$c <> " . literal_of($column));
	}
	if ($sort eq 'boolean' && $how < 0.6)
	{
		return pick($c, "NOT $c", "$c IS TRUE", "$c IS NOT TRUE", "$c IS FALSE", "$c IS NOT FALSE",
			"$c IS UNKNOWN", "$c IS NOT UNKNOWN");
	}
	if ($sort eq 'text' && $how < 0.6)
	{
		return $c . pick(' LIKE ', ' NOT LIKE ', ' ILIKE ', ' NOT ILIKE ', ' ~~ ') . pattern()
		  if $how < 0.5;
		return "$c ^\@ " . pick(@text_values);
	}
	return "$c = ANY (" . (chance(0.2) ? long_list_of($column) : list_of($column)) . ")" if $how < 0.68;
	return "$c <> ALL (" . list_of($column) . ")" if $how < 0.74;
	return "$c BETWEEN " . literal_of($column) . ' AND ' . literal_of($column) if $how < 0.8;
	return "$c NOT BETWEEN " . literal_of($column) . ' AND ' . literal_of($column) if $how < 0.82;
	return literal_of($column) . pick(' = ', ' <> ', ' < ', ' <= ', ' > ', ' >= ') . $c if $how < 0.87;
	return $c . pick(' = ', ' = ', ' <> ', ' < ', ' <= ', ' > ', ' >= ') . literal_of($column);
}

# more bytes than a request may have, together with values that rows do have
sub lengthy_of
{
	my ($column, $c) = @_;
	my $n = 30 + int rand 30;
	my @long = map { quoted(pick('x', 'ü', '%', "\\\\'") x (300 + int rand 700) . $_) } 1 .. $n;
	my $op = pick(' = ', ' LIKE ', ' ^@ ');

	return "$c = ANY (ARRAY[" . join(', ', @long, literal_of($column)) . ']::text[])' if chance(0.3);
	return '(' . join(' OR ', map { "$c$op$_" } @long, $op eq ' LIKE ' ? pattern() : pick(@text_values)) . ')' if chance(0.7);
	return '(' . join(' AND ', map { "NOT $c$op$_" } @long) . ')';
}

# ---------------------------------------------------------------- asking and comparing

# Creates the schemas of foreign tables and of their copies, and the functions that query them.
sub prepare
{
	my ($crm) = @_;

	set_up($crm, 'CREATE SCHEMA f; CREATE SCHEMA l');
	$crm->sql(
		q{
		-- if the setting differential.forget is on, begins another session with the service, which knows nothing
		CREATE FUNCTION begin_session(place text) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
		  IF place = 'f' AND current_setting('differential.forget', true) = 'on' THEN
		    EXECUTE format('ALTER SERVER crm OPTIONS (%s user_agent ''dataverse_fdw/%s'')', CASE WHEN EXISTS (
		      SELECT FROM pg_foreign_server WHERE srvname = 'crm' AND srvoptions::text LIKE '%user_agent=%') THEN 'SET' ELSE 'ADD' END,
		      extract(epoch FROM clock_timestamp()) * 1000);
		  END IF;
		END $$;

		-- what a query answers, as one text; errors are answers, too
		CREATE FUNCTION answer(place text, query text, sorted boolean) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
		  result text;
		BEGIN
		  PERFORM begin_session(place);
		  EXECUTE 'SET LOCAL search_path = ' || place || ', public';
		  EXECUTE format('SELECT coalesce(string_agg(q::text, E''\n'' %s), ''nothing'') FROM (%s) q',
		                 CASE WHEN sorted THEN '' ELSE 'ORDER BY q::text' END, query) INTO result;
		  RETURN result;
		EXCEPTION WHEN query_canceled OR assert_failure THEN
		  RAISE;
		WHEN OTHERS THEN
		  RETURN 'error ' || CASE SQLSTATE WHEN '22025' THEN SQLSTATE ELSE SQLSTATE || ' ' || SQLERRM END;
		END $$;

		-- whether a plan for the foreign tables contains a request in FetchXML; NULL: there is no plan
		CREATE FUNCTION sends_fetchxml(query text) RETURNS boolean LANGUAGE plpgsql AS $$
		DECLARE
		  line text;
		BEGIN
		  SET LOCAL search_path = f, public;
		  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		    IF line LIKE '%fetchXml=%' THEN
		      RETURN true;
		    END IF;
		  END LOOP;
		  RETURN false;
		EXCEPTION WHEN query_canceled OR assert_failure THEN
		  RAISE;
		WHEN OTHERS THEN
		  RETURN NULL;
		END $$;

		-- the same as answer() with parameters in a plan that does not know them
		CREATE FUNCTION prepared(place text, query text, type text, value text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
		  result text;
		BEGIN
		  PERFORM begin_session(place);
		  EXECUTE 'SET LOCAL search_path = ' || place || ', public';
		  SET LOCAL plan_cache_mode = force_generic_plan;
		  EXECUTE format('CREATE FUNCTION pg_temp.asked(p %s) RETURNS text LANGUAGE plpgsql AS %L', type,
		    format('BEGIN RETURN (SELECT coalesce(string_agg(q::text, E''\n'' ORDER BY q::text), ''nothing'') FROM (%s) q); END', query));
		  EXECUTE format('SELECT pg_temp.asked(%s)', value) INTO result;
		  DROP FUNCTION pg_temp.asked;
		  RETURN result;
		EXCEPTION WHEN query_canceled OR assert_failure THEN
		  RAISE;
		WHEN OTHERS THEN
		  RETURN 'error ' || SQLSTATE || ' ' || SQLERRM;
		END $$; });
	return;
}

# Returns the queries whose results differ, with both results in comments.  (Plans that are
# avoided look so costly that each of them would be compiled.)
sub differing
{
	my ($crm, $settings, @questions) = @_;
	my @found;

	while (my @some = splice @questions, 0, PER_CALL)
	{
		my $values = join ",\n", map {
			defined $_->[2]
			  ? '(' . join(', ', dollar($_->[0]), 'false', dollar($_->[1]), dollar($_->[2])) . ')'
			  : '(' . join(', ', dollar($_->[0]), $_->[1] ? 'true' : 'false', 'NULL', 'NULL') . ')'
		} @some;
		my $plan = $look_at_plans ? 'CASE WHEN type IS NULL THEN sends_fetchxml(query) END' : 'NULL::boolean';
		my $out = $crm->sql(encode_utf8
			"SET client_min_messages = error; SET jit = off; SET TimeZone = 'Europe/Berlin'; $more_settings $settings
			 WITH a AS MATERIALIZED (SELECT query, value,
				CASE WHEN type IS NULL THEN answer('f', query, sorted) ELSE prepared('f', query, type, value) END AS f,
				CASE WHEN type IS NULL THEN answer('l', query, sorted) ELSE prepared('l', query, type, value) END AS l,
				$plan AS fetched
			  FROM (VALUES $values) AS v(query, sorted, type, value) OFFSET 0)
			 SELECT query || coalesce(E'\\n-- p: ' || replace(value, E'\\n', ' '), '') || E';\\n-- foreign: ' || left(replace(f, E'\\n', ' '), 300) || E'\\n-- local:   ' || left(replace(l, E'\\n', ' '), 300) || E'\\x02'
			 FROM a WHERE f IS DISTINCT FROM l
			 UNION ALL
			 SELECT E'\\x03' || query || E'\\n-- ' || l || E'\\x02' FROM a WHERE l LIKE 'error%'
			 UNION ALL
			 SELECT concat_ws(' ', E'\\x01', count(*), count(*) FILTER (WHERE l IN ('nothing', '(0)')),
				count(fetched), count(*) FILTER (WHERE fetched))
			 FROM a");
		$out =~ s/\x01 (\d+) (\d+) (\d+) (\d+)// or die "no tally: $out";
		my @counts = ($1, $2, $3, $4);
		$tally{$_} += shift @counts for qw(asked nothing planned fetch);
		my @answers = grep { /\S/ } split /\x02\n?/, $out;
		push @errors, map { s/^\x03//r } grep { /^\x03/ } @answers;
		push @found, grep { !/^\x03/ } @answers;
	}
	return @found;
}

# a few settings for as many questions each; SETTINGS adds some to all questions
our @settings = (
	'', '',
	(map { join ' ', map { "SET enable_$_ = off;" } split } 'hashjoin mergejoin', 'nestloop', 'nestloop hashjoin',
		'hashagg sort', 'material memoize bitmapscan', 'hashjoin mergejoin material memoize'),
	# GEQO, which otherwise plans only queries with many tables, and joins in the order of the query
	map { "SET geqo_threshold = 2; $_" } '', 'SET geqo_seed = 0.5; SET enable_hashjoin = off;', 'SET join_collapse_limit = 1;');
our @zones = qw(Europe/Berlin UTC America/Los_Angeles Pacific/Kiritimati Asia/Kolkata);

# Asks each question under one of the settings and in one of the time zones, and returns the
# differences.
sub ask
{
	my ($crm, @questions) = @_;
	my $share = int(@questions / @settings) + 1;
	my @found;

	for my $i (0 .. $#settings)
	{
		my $last = ($i + 1) * $share - 1;
		my $zone = $i == 0 ? $zones[0] : pick(@zones);

		$last = $#questions if $last > $#questions;
		my $set = "$settings[$i] SET TimeZone = '$zone';";
		push @found, map { "$more_settings $set\n$_" } differing($crm, $set, @questions[ $i * $share .. $last ]);
	}
	return @found;
}

# Reports the queries whose answers differ.
sub report_ok
{
	my ($found, $what) = @_;
	my $last = $#$found < SHOWN ? $#$found : SHOWN - 1;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(scalar(@$found), 0, $what);
	# as bytes: from 17 on, the modules of PostgreSQL's tests die of wide characters
	diag bytes($_) for @$found[ 0 .. $last ];
	return;
}

# Writes a script that recreates all tables in an empty database and on servers of its own, and
# runs the queries whose answers differ, on the foreign tables and on the copies.
sub write_script
{
	my ($path, @found) = @_;

	open my $out, '>:raw', $path or die "$path: $!";
	print {$out} "-- psql -v ON_ERROR_STOP=1 -v dvsim=http://127.0.0.1:PORT -v other=http://127.0.0.1:PORT -f FILE\n";
	print {$out} map { bytes("$_;\n") } "SET client_encoding = 'UTF8'", 'CREATE EXTENSION dataverse_fdw',
	  server_statements('crm', 'dvsim'), @statements;
	print {$out} "\\unset ON_ERROR_STOP\n";
	for my $place (qw(f l))
	{
		print {$out} map { bytes("SET search_path = $place, public;\n$_\nRESET ALL;\n") } @found;
	}
	close $out or die "$path: $!";
	return;
}

# Asks questions generated by $question while one quirk of dvsim after the other is on.
sub ask_under_quirks
{
	my ($crm, $n, $seed, $question) = @_;

	for my $quirk (Dvsim::harmless_quirks())
	{
		$crm->dvsim->quirks($quirk);
		my @found = differing($crm, '', map { $question->() } 1 .. $n);
		report_ok(\@found, "$quirk: $n questions, the same answers (SEED=$seed)");
	}
	$crm->dvsim->quirks();
	return;
}

# Returns those [ query, sorted, another ] whose other query has another answer on the copies.
sub telling
{
	my ($crm, $settings, @pairs) = @_;
	my $values = join ",\n", map { '(' . join(', ', dollar($_->[0]), $_->[1] ? 'true' : 'false', dollar($_->[2])) . ')' } @pairs;

	return split /\x02\n?/, $crm->sql(encode_utf8 "SET client_min_messages = error; $settings
		SELECT query || E'\\x02' FROM (VALUES $values) AS v(query, sorted, other)
		WHERE answer('l', query, sorted) IS DISTINCT FROM answer('l', other, sorted)");
}

# ---------------------------------------------------------------- wrong policies

# Makes new sessions (no others exist) load the library with wrong policies instead of the installed one.
sub use_flips
{
	my ($crm, $query, $answer) = @_;
	my $library = $ENV{DV_FLIPS};

	$crm->sql("UPDATE pg_proc SET probin = '$library' WHERE probin = '\$libdir/dataverse_fdw'");
	is($crm->sql("$query; SHOW dataverse_fdw.flip_policy"), "$answer\n",
		'the library with wrong policies is used');
	return;
}

# Makes each entry of { sort => [ operators ] } "exact", one at a time, and asks $each questions
# at once that $question generates for it, under $settings if any, until the error is noticed.
sub wrong_policies_ok
{
	my ($crm, $wrong, $each, $question, $settings) = @_;

	for my $sort (sort keys %$wrong)
	{
		for my $op (@{ $wrong->{$sort} })
		{
			my ($asked, @noticed) = (0);

			# some errors are detected by few queries only, so try repeatedly
			while (!@noticed && $asked < 5 * $each)
			{
				@noticed = differing($crm, ($settings // '') . " SET dataverse_fdw.flip_policy = '$sort.$op';",
					map { $question->($sort, $op) } 1 .. $each);
				$asked += $each;
			}
			cmp_ok(scalar(@noticed), '>', 0,
				"$sort.$op wrong: " . @noticed . "of $asked questions detect it");
			note bytes($noticed[0]) if @noticed;
		}
	}
	return;
}

1;
