# RawClient.pm
#		An HTTP client that sends invalid requests over one keep-alive connection,
#		and checks answers strictly.
#
# Requests are hashes: method, target, headers (a hash), body; get() and similar functions
# create them.  ask() sends one and returns the answer, a hash of status, head, and body, or
# undef if dvsim closed the connection.  It dies on silence and on bytes that are not HTTP.
#
# SPDX-License-Identifier: PostgreSQL

package RawClient;

use strict;
use warnings;

use Dvsim;
use Exporter qw(import);
use IO::Uncompress::Gunzip qw(gunzip $GunzipError);
use JSON::PP;
use Time::HiRes qw(sleep);

our @EXPORT = qw(get post fetch bulk batch form with part text_of complaint);

use constant ROOT => '/api/data/v9.2/';
use constant PATIENCE => 30;    # seconds without an answer that count as a hang

my $decoder = JSON::PP->new->utf8;

# ---------------------------------------------------------------- requests

# Percent-encodes blanks and bytes above 127 of targets, and nothing else.
sub target
{
	my ($path) = @_;

	$path =~ s/([\x00-\x20\x7f-\xff])/sprintf '%%%02x', ord $1/ge;
	return $path =~ m{^/} ? $path : ROOT . $path;
}

sub get { return { method => 'GET', target => target($_[0]) }; }
sub fetch { return get('accounts?fetchXml=' . Dvsim::escape($_[0])); }
sub post { return { method => 'POST', target => target($_[0]), body => $_[1] }; }

# the request with these additional headers
sub with
{
	my ($r, %headers) = @_;
	return { %$r, headers => { %{ $r->{headers} // {} }, %headers } };
}

# a bulk message for accounts: "Create" and its body
sub bulk { return post("accounts/Microsoft.Dynamics.CRM.$_[0]Multiple", $_[1]); }

sub form
{
	return with(post('/tenant/oauth2/v2.0/token', $_[0]),
		'Content-Type' => 'application/x-www-form-urlencoded');
}

# A $batch of the given lines, joined by CRLF; an array after them is its type.
sub batch
{
	my ($lines, $type) = @_;
	return with(post('$batch', join "\r\n", @$lines, ''),
		'Content-Type' => $type // 'multipart/mixed; boundary=b');
}

# The lines of a part: its boundary, its id if any, and those of its request.
sub part
{
	my ($boundary, $id, @lines) = @_;
	return ("--$boundary", 'Content-Type: application/http', 'Content-Transfer-Encoding: binary',
		defined $id ? "Content-ID: $id" : (), '', @lines);
}

# A request as bytes; every header can be overridden.
sub text_of
{
	my ($r, $bearer) = @_;
	my %headers = (Authorization => $bearer, Accept => 'application/json', Host => 'dvsim');
	my $body = $r->{body};

	if (defined $body)
	{
		$headers{'Content-Type'} = 'application/json';
		$headers{'Content-Length'} = length $body;
	}
	%headers = (%headers, %{ $r->{headers} // {} });
	return join("\r\n", "$r->{method} $r->{target} HTTP/1.1",
		map({ "$_: $headers{$_}" } sort keys %headers),
		'', $body // '');
}

# ---------------------------------------------------------------- the connection

sub new
{
	my ($class, $server, $bearer) = @_;

	$SIG{PIPE} = 'IGNORE';
	return bless { server => $server, bearer => $bearer, buffer => '' }, $class;
}

sub hang_up
{
	my ($self) = @_;

	close $self->{socket} if $self->{socket};
	$self->{socket} = undef;
	$self->{buffer} = '';
	return;
}

# Reads more bytes; false if dvsim has closed the connection.
sub more
{
	my ($self) = @_;
	my $ready = '';

	vec($ready, fileno $self->{socket}, 1) = 1;
	select($ready, undef, undef, PATIENCE) or die 'no answer for ' . PATIENCE . " s\n";
	return sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
}

# dvsim may answer and close before it has read everything.
sub send_all
{
	my ($self, $bytes) = @_;
	my $sent = 0;

	while ($sent < length $bytes)
	{
		my $n = syswrite $self->{socket}, $bytes, 65536, $sent;

		last unless $n;
		$sent += $n;
	}
	return;
}

# Reads this number of bytes; fewer if dvsim closed the connection.
sub take
{
	my ($self, $length) = @_;

	while (length $self->{buffer} < $length)
	{
		$self->more or last;
	}
	return substr $self->{buffer}, 0, $length, '';
}

sub read_chunks
{
	my ($self) = @_;
	my $body = '';

	while (1)
	{
		my $size;

		until (defined $size)
		{
			$size = hex $1 if $self->{buffer} =~ s/^([0-9a-fA-F]+)[^\r\n]*\r\n//;
			defined $size or $self->more or return $body;
		}
		$body .= $self->take($size);
		$self->take(2);
		return $body if $size == 0;
	}
}

sub read_answer
{
	my ($self, $method) = @_;
	my %answer;

	while (1)
	{
		my $start = substr $self->{buffer}, 0, 7;

		@answer{qw(head status)} = ($1, $2), last
		  if $self->{buffer} =~ s/^(HTTP\/1\.\d (\d\d\d)[^\r\n]*\r\n.*?)\r\n\r\n//s;
		die 'not HTTP: ' . substr($self->{buffer}, 0, 200) . "\n"
		  if substr('HTTP/1.', 0, length $start) ne $start;
		$self->more or return;
	}
	return $self->read_answer($method) if $answer{status} < 200;

	if ($method eq 'HEAD' || $answer{status} == 204 || $answer{status} == 304)
	{
		$answer{body} = '';
	}
	elsif ($answer{head} =~ /^Transfer-Encoding:\s*chunked/mi)
	{
		$answer{body} = $self->read_chunks;
	}
	else
	{
		$answer{head} =~ /^Content-Length:\s*(\d+)/mi or die "an answer of unknown length\n";
		$answer{body} = $self->take($1);
	}
	unpack_body(\%answer) if $answer{head} =~ /^Content-Encoding:\s*gzip/mi;
	$self->hang_up if $answer{head} =~ /^Connection:\s*close/mi;
	return \%answer;
}

sub unpack_body
{
	my ($answer) = @_;
	my $plain;

	return if $answer->{body} eq '';
	gunzip(\$answer->{body} => \$plain) or die "not gzip: $GunzipError\n";
	$answer->{body} = $plain;
	return;
}

# Sends a well-framed request and returns the answer.
sub ask
{
	my ($self, $r) = @_;
	my $fresh = !$self->{socket};

	$self->{socket} //= $self->{server}->socket;
	$self->send_all(text_of($r, $self->{bearer}));
	my $answer = $self->read_answer($r->{method});
	return $answer if $answer;
	$self->hang_up;

	# the connection may have been closed before this request: retry once
	return $fresh ? undef : $self->ask($r);
}

# Sends bytes that may not be a request, and then closes the sending side.  That comes a
# little later, because libmicrohttpd (0.9.75, with epoll) does not see an end that arrives
# with the last bytes until its idle timeout.
sub fling
{
	my ($self, $bytes) = @_;

	$self->hang_up;
	$self->{socket} = $self->{server}->socket;
	$self->send_all($bytes);
	sleep 0.02;
	shutdown $self->{socket}, 1;
	my $answer = $self->read_answer('GET');
	$self->hang_up;
	return $answer;
}

# Returns the error in an answer, or ''.  A body declared as JSON must be JSON, and with an
# error status it must be the service's error.
sub complaint
{
	my ($answer) = @_;
	my $start = substr $answer->{body}, 0, 500;

	return "status $answer->{status}: $start"
	  if $answer->{status} >= 500 && $answer->{status} != 501 && $answer->{status} != 505;
	return '' unless $answer->{head} =~ m{^Content-Type:\s*application/json}mi;
	return '' if $answer->{body} eq '';
	my $decoded = eval { $decoder->decode($answer->{body}) };
	return "not JSON ($@): $start" unless defined $decoded;
	return '' if $answer->{status} < 400;
	my $error = ref $decoded eq 'HASH' ? $decoded->{error} : undef;

	# a string: the token endpoint and the control plane
	return '' if defined $error && !ref $error;
	return ref $error eq 'HASH' && defined $error->{code} && defined $error->{message}
	  ? ''
	  : "no error in it: $start";
}

1;
