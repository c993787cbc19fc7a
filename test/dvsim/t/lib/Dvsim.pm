# Dvsim.pm
#		Starts dvsim for a TAP test and talks to it through curl.
#
# Only modules of Perl's core.  Synopsis:
#
#	use FindBin;
#	use lib "$FindBin::Bin/lib";
#	use Dvsim;
#	use Test::More;
#
#	my $s = Dvsim->start('--seed', 7);			# any flags of dvsim
#	my $id = $s->create('accounts', { name => 'A' });
#	my $r = $s->get("accounts($id)?\$select=name", Prefer => 'odata.maxpagesize=5');
#	is($r->status, 200);
#	is($r->json->{name}, 'A');
#	done_testing;
#
# The program is $ENV{DVSIM}, or ../dvsim relative to t/.  It is stopped when the test ends
# for any reason, and if it did not end with status 0 (a crash, a report of a sanitizer), its
# stderr is shown and the test script fails through its exit status, whatever the number of
# its tests.
#
# Paths are relative to /api/data/v9.2/ unless they start with "/" or are a complete URL (a
# nextLink).  Blanks, quotes, and characters outside ASCII may be written as they are and are
# percent-encoded here; the caller encodes everything else, and "%" above all.  Headers are
# name => value; undef omits a standard header, '' sends it empty, an array sends it several
# times.
#
# SPDX-License-Identifier: PostgreSQL

package Dvsim;

use strict;
use warnings;

use Carp qw(croak);
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP ();
use POSIX qw(:sys_wait_h);
use Test::More ();
use Time::HiRes qw(sleep time);

use constant ROOT => '/api/data/v9.2/';

# A sanitizer or a busy machine slows the start.
use constant START_TIMEOUT => 20;
use constant STOP_TIMEOUT => 30;
use constant REQUEST_TIMEOUT => 120;

my $json = JSON::PP->new->utf8->canonical->allow_nonref->allow_blessed->convert_blessed;
my $owner = $$;
my %running;    # pid => process
my $unclean = 0;

# An interrupted test must stop its dvsim.
for my $signal (qw(INT TERM HUP))
{
	$SIG{$signal} = sub { exit 130 }
	  unless $SIG{$signal};
}

# ---------------------------------------------------------------- process

sub program { return $ENV{DVSIM} // abs_path(dirname(__FILE__)) . '/../../dvsim'; }

# the names of all quirks, as the help lists them
sub all_quirks
{
	my $program = program();
	my ($list) = qx("$program" --help) =~ /^Quirks:\n\n(.*?)\n\n/ms;
	return $list =~ /^  (\S+)/gm;
}

# … and those under which each query can still be answered
sub harmless_quirks { return grep { $_ ne 'link-names' } all_quirks(); }

sub start
{
	my ($class, @args) = @_;
	my $program = program();
	my $dir = tempdir('dvsim-XXXXXX', TMPDIR => 1, CLEANUP => 1);
	my %proc = (
		dir => $dir,
		ready => "$dir/ready",
		stderr => "$dir/stderr",
		serial => 0);

	croak "there is no dvsim at $program (build it, or set DVSIM)"
	  unless -x $program;

	push @args, '--app-user', 'app1:secret1'
	  unless grep { /^--app-user/ } @args;
	push @args, '--listen', '127.0.0.1:0'
	  unless grep { /^--listen/ } @args;

	# every request uses the name and secret (after the last colon) of the first user
	my $user;
	for my $i (0 .. $#args)
	{
		$user //= $args[ $i + 1 ] if $args[$i] eq '--app-user';
		$user //= $1 if $args[$i] =~ /^--app-user=(.*)/s;
	}
	my ($client, $secret) = $user =~ /^(.*):(.*)$/s;

	$proc{command} = [ $program, @args ];
	my $self = bless { proc => \%proc, client => $client, secret => $secret }, $class;
	$self->launch;
	return $self;
}

sub launch
{
	my ($self) = @_;
	my $proc = $self->{proc};
	my @command = @{ $proc->{command} };

	unlink $proc->{ready};
	$proc->{pid} = fork_exec({ stdout => "$proc->{dir}/stdout", stderr => $proc->{stderr} },
		@command, '--ready-file', $proc->{ready});
	$running{ $proc->{pid} } = $proc;
	$self->wait_ready(grep { $_ eq '--tls' } @command);
	return;
}

# Kills dvsim at once, without an answer to its clients.
sub crash
{
	my ($self) = @_;
	my $proc = $self->{proc};

	kill 'KILL', $proc->{pid};
	waitpid $proc->{pid}, 0;
	delete $running{ $proc->{pid} };
	return;
}

# The same dvsim at the same address; with "--data" it has the committed rows, and no other
# state.
sub start_again
{
	my ($self) = @_;
	my ($address) = $self->{base} =~ m{^https?://([^/]+)$};
	my $command = $self->{proc}{command};

	for my $i (0 .. $#$command - 1)
	{
		$command->[ $i + 1 ] = $address if $command->[$i] eq '--listen';
	}
	delete $self->{bearer};
	$self->launch;
	return;
}

# The ready file may be visible before it is complete, so its lines are counted.
sub wait_ready
{
	my ($self, $tls) = @_;
	my $proc = $self->{proc};
	my $deadline = time + START_TIMEOUT;
	my $lines = $tls ? 2 : 1;

	while (1)
	{
		my @ready = split /\n/, slurp($proc->{ready}) // '', -1;

		if (@ready > $lines)
		{
			($self->{base}, $proc->{ca}) = @ready;
			$self->{base} =~ s{/+$}{};
			return;
		}
		$self->give_up('ended while it started')
		  if waitpid($proc->{pid}, WNOHANG) != 0;
		$self->give_up('was not ready after ' . START_TIMEOUT . ' s')
		  if time > $deadline;
		sleep 0.003;
	}
}

sub give_up
{
	my ($self, $why) = @_;
	my $proc = $self->{proc};

	kill 'KILL', $proc->{pid};
	waitpid $proc->{pid}, 0;
	delete $running{ $proc->{pid} };
	croak "dvsim $why; its stderr:\n" . (slurp($proc->{stderr}) // '');
}

# Ends dvsim; false (and the script will fail) if it did not end cleanly.
sub stop
{
	my ($self) = @_;
	return stop_process($self->{proc});
}

sub stop_process
{
	my ($proc) = @_;
	my $pid = $proc->{pid};
	my $deadline = time + STOP_TIMEOUT;
	my $how;

	return $proc->{clean} unless delete $running{$pid};

	kill 'TERM', $pid unless defined $proc->{status};
	until (defined $proc->{status})
	{
		if (waitpid($pid, WNOHANG) == $pid)
		{
			$proc->{status} = $?;
		}
		elsif (time > $deadline)
		{
			kill 'KILL', $pid;
			waitpid $pid, 0;
			$proc->{status} = $?;
			$how = 'did not stop within ' . STOP_TIMEOUT . ' s';
		}
		else
		{
			sleep 0.003;
		}
	}

	my $status = $proc->{status};
	$how //= 'died of signal ' . ($status & 127) if $status & 127;
	$how //= 'ended with status ' . ($status >> 8) if $status;
	if ($how)
	{
		Test::More::diag("dvsim $how; its stderr:\n" . (slurp($proc->{stderr}) // ''));
		$unclean = 1;
	}
	return $proc->{clean} = !$how;
}

# Returns true if the process still exists.
sub alive
{
	my ($self) = @_;
	my $proc = $self->{proc};

	return 0 if defined $proc->{status};
	return 1 if waitpid($proc->{pid}, WNOHANG) == 0;
	$proc->{status} = $?;
	return 0;
}

END
{
	if ($$ == $owner)
	{
		my $status = $?;

		stop_process($_) for values %running;
		$? = $status || $unclean;
	}
}

# ---------------------------------------------------------------- properties

sub base { return $_[0]{base}; }
sub pid { return $_[0]{proc}{pid}; }
sub ca_file { return $_[0]{proc}{ca}; }
sub stderr { return slurp($_[0]{proc}{stderr}) // ''; }

# ---------------------------------------------------------------- tokens

# A new token; dies with the endpoint's answer if it is refused.
sub token
{
	my ($self, $client, $secret) = @_;
	my $r = $self->token_request(
		client_id => $client,
		client_secret => $secret,
		grant_type => 'client_credentials',
		scope => "$self->{base}/.default");

	croak "no token for $client: " . $r->status . ' ' . $r->body
	  unless $r->status == 200;
	return $r->json->{access_token};
}

# Posts a form to the token endpoint.
sub token_request
{
	my ($self, %form) = @_;
	my $body = join '&',
	  map { escape($_) . '=' . escape($form{$_}) } sort keys %form;

	return $self->spawn_plain(
		'POST', '/tenant/oauth2/v2.0/token', $body,
		'Content-Type' => 'application/x-www-form-urlencoded')->result;
}

# The same dvsim, as another application user.
sub as
{
	my ($self, $client, $secret) = @_;
	return bless { %$self, client => $client, secret => $secret, bearer => undef }, ref $self;
}

# Makes the next request use a new token (after clock jumps, expire_token).
sub forget_token
{
	my ($self) = @_;
	delete $self->{bearer};
	return $self;
}

# ---------------------------------------------------------------- requests

sub get { my ($s, $path, %h) = @_; return $s->request('GET', $path, undef, %h); }
sub post { my ($s, $path, $body, %h) = @_; return $s->request('POST', $path, $body, %h); }
sub patch { my ($s, $path, $body, %h) = @_; return $s->request('PATCH', $path, $body, %h); }
sub put { my ($s, $path, $body, %h) = @_; return $s->request('PUT', $path, $body, %h); }
sub delete { my ($s, $path, %h) = @_; return $s->request('DELETE', $path, undef, %h); }

sub request
{
	my ($self, @what) = @_;
	return $self->spawn(@what)->result;
}

# Sends a request without waiting; ->result of the returned object waits.
sub spawn
{
	my ($self, $method, $path, $body, %headers) = @_;
	my %standing = (
		'Accept' => 'application/json',
		'OData-MaxVersion' => '4.0',
		'OData-Version' => '4.0',
		'If-None-Match' => 'null');
	my %given = map { lc $_ => 1 } keys %headers;

	$standing{Authorization} =
	  'Bearer ' . ($self->{bearer} //= $self->token($self->{client}, $self->{secret}))
	  unless $given{authorization};
	$standing{'Content-Type'} = 'application/json; charset=utf-8' if defined $body;
	delete @standing{ grep { $given{ lc $_ } } keys %standing };
	return $self->spawn_plain($method, $path, $body, %standing, %headers);
}

# The control plane takes no token.
# turns on exactly these quirks
sub quirks
{
	my ($self, @names) = @_;
	my $answer = $self->control('POST', '/_dvsim/quirks', \@names);
	croak $answer->body if $answer->status != 200;
	return;
}

# exactly these application users can read only their own rows, from now on
sub limited
{
	my ($self, @users) = @_;
	my $answer = $self->control('POST', '/_dvsim/limited', \@users);
	croak $answer->body if $answer->status != 200;
	return;
}

# Changes the schema; dies if a change is refused.
sub change_schema
{
	my ($self, @changes) = @_;
	my $answer = $self->control('POST', '/_dvsim/schema', \@changes);
	croak $answer->body if $answer->status != 200;
	return $answer->json->{changes};
}

sub control
{
	my ($self, $method, $path, $body) = @_;
	return $self->spawn_plain($method, $path, $body,
		defined $body ? ('Content-Type' => 'application/json') : ())->result;
}

# Creates a row and returns its id; dies if it is refused.
sub create
{
	my ($self, $set, $row, %headers) = @_;
	my $r = $self->post($set, $row, %headers);
	my $where = $r->header('OData-EntityId') // '';

	croak "$set: " . $r->status . ' ' . $r->body
	  unless $r->status == 204;
	croak "$set: no id in OData-EntityId '$where'"
	  unless $where =~ /\((?:.*=)?([0-9a-fA-F-]{36})\b/;
	return lc $1;
}

# With only the given headers and the few that HTTP requires.
sub spawn_plain
{
	my ($self, $method, $path, $body, %headers) = @_;
	my $proc = $self->{proc};
	my $file = "$proc->{dir}/" . ++$proc->{serial};
	my @args = (
		'curl', '-q', '-sS', '-g', '--http1.1', '--path-as-is', '--noproxy', '*',
		'--max-time', REQUEST_TIMEOUT, '-D', "$file.head", '-o', "$file.body");

	push @args, $method eq 'HEAD' ? '-I' : ('-X', $method);
	push @args, '--cacert', $proc->{ca} if $proc->{ca};
	if (defined $body)
	{
		spew("$file.data", ref $body ? $json->encode($body) : bytes_of($body));
		push @args, '--data-binary', "\@$file.data";
	}

	# curl's own additions, unless the caller has given them
	for my $name (qw(Expect Content-Type Accept User-Agent))
	{
		$headers{$name} = undef unless grep { lc $_ eq lc $name } keys %headers;
	}
	for my $name (sort keys %headers)
	{
		for my $value (ref $headers{$name} ? @{ $headers{$name} } : $headers{$name})
		{
			push @args, '-H',
			  !defined $value ? "$name:" : $value eq '' ? "$name;" : "$name: " . bytes_of($value);
		}
	}
	push @args, '--url', $self->url($path);

	my $pid = fork_exec({ stdout => '/dev/null', stderr => "$file.err" }, @args);
	return bless { pid => $pid, file => $file }, 'Dvsim::Pending';
}

sub url
{
	my ($self, $path) = @_;

	$path = bytes_of($path);
	$path =~ s/([^\x21\x23-\x3b\x3d\x3f-\x7e])/sprintf '%%%02X', ord $1/ge;
	return $path if $path =~ m{^https?://};
	return $self->{base} . ($path =~ m{^/} ? $path : ROOT . $path);
}

# A separate socket for bytes that curl would not send; not with --tls.
sub socket
{
	my ($self) = @_;
	my ($peer) = $self->{base} =~ m{^http://([^/]+)$};

	croak "no plain socket to $self->{base}" unless $peer;
	return IO::Socket::INET->new(PeerAddr => $peer, Proto => 'tcp', Timeout => 10)
	  // croak "cannot connect to $peer: $!";
}

# Sends bytes as they are and returns everything until dvsim closes the connection, or is
# silent for that many seconds.
sub raw
{
	my ($self, $bytes, $patience) = @_;
	my $socket = $self->socket;
	my $answer = '';

	local $SIG{PIPE} = 'IGNORE';
	print {$socket} $bytes;
	$socket->flush;
	while (1)
	{
		my $ready = '';

		vec($ready, fileno $socket, 1) = 1;
		last unless select $ready, undef, undef, $patience // 5;
		last unless sysread $socket, $answer, 65536, length $answer;
	}
	return $answer;
}

# ---------------------------------------------------------------- utilities

# Starts a program with its output in files; returns its process id.
sub fork_exec
{
	my ($to, @command) = @_;
	my $pid = fork // croak "fork: $!";

	return $pid if $pid;

	# No code of the test may run in this process, so no die and no exit.
	open STDIN, '<', '/dev/null' or POSIX::_exit(126);
	open STDOUT, '>', $to->{stdout} or POSIX::_exit(126);
	open STDERR, '>', $to->{stderr} or POSIX::_exit(126);
	{
		no warnings 'exec';
		exec { $command[0] } @command;
	}
	syswrite STDERR, "cannot run $command[0]: $!\n";
	POSIX::_exit(127);
}

sub escape
{
	my ($text) = @_;

	$text = bytes_of($text);
	$text =~ s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/ge;
	return $text;
}

# Returns text as UTF-8; text without characters beyond 255 passes as bytes.
sub bytes_of
{
	my ($text) = @_;
	utf8::encode($text) if utf8::is_utf8($text);
	return $text;
}

sub slurp
{
	my ($file) = @_;

	open my $in, '<:raw', $file or return;
	local $/;
	return scalar readline $in;
}

sub spew
{
	my ($file, $bytes) = @_;

	open my $out, '>:raw', $file or croak "$file: $!";
	print {$out} $bytes;
	close $out or croak "$file: $!";
	return;
}

# ---------------------------------------------------------------- answers

package Dvsim::Pending;

sub result
{
	my ($self) = @_;
	my $file = $self->{file};
	my %answer = (status => 0, reason => '', headers => [], error => '');

	return $self->{answer} if $self->{answer};

	{
		local $?;
		waitpid $self->{pid}, 0;
		$answer{curl} = $? >> 8;
	}
	my $head = Dvsim::slurp("$file.head") // '';
	$answer{body} = Dvsim::slurp("$file.body") // '';
	$answer{error} = Dvsim::slurp("$file.err") // '' if $answer{curl};
	unlink map { "$file.$_" } qw(head body data err);

	# an interim answer ("100 Continue") precedes it in a separate block
	my ($block) = $head =~ /.*^(HTTP\/.*)/ms;
	for my $line (split /\r?\n/, $block // '')
	{
		if ($line =~ /^HTTP\/\S+ (\d+) ?(.*)/)
		{
			@answer{ 'status', 'reason' } = ($1, $2);
		}
		elsif ($line =~ /^([^:]+):\s*(.*?)\s*$/)
		{
			push @{ $answer{headers} }, [ $1, $2 ];
		}
	}
	return $self->{answer} = bless \%answer, 'Dvsim::Answer';
}

package Dvsim::Answer;

sub status { return $_[0]{status}; }      # 0 when there was no answer
sub reason { return $_[0]{reason}; }
sub body { return $_[0]{body}; }
sub curl { return $_[0]{curl}; }          # curl's exit status: 0, 18 short, 52 empty, 56 reset …
sub error { return $_[0]{error}; }        # what curl says when that is not 0

# All values of a header, or the last; undef if it is absent.
sub headers
{
	my ($self, $name) = @_;
	return map { $_->[1] } grep { lc $_->[0] eq lc $name } @{ $self->{headers} };
}

sub header
{
	my ($self, $name) = @_;
	my @values = $self->headers($name);
	return $values[-1];
}

sub json
{
	my ($self) = @_;
	return $self->{json} //= eval { $json->decode($self->{body}) }
	  // Carp::croak("status $self->{status}, not JSON ($@): $self->{body}");
}

# The error of the service in a body; undef if there is none.
sub error_code { return $_[0]->error_member('code'); }
sub error_message { return $_[0]->error_member('message'); }

sub error_member
{
	my ($self, $member) = @_;
	my $decoded = eval { $self->json };
	return ref $decoded eq 'HASH' && ref $decoded->{error} eq 'HASH'
	  ? $decoded->{error}{$member}
	  : undef;
}

1;
