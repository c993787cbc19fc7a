# Settings.pm
#		How to reach the environment: from variables DV_… or a service file.
#
# Secrets leave the environment of this process as soon as they are read, so
# that no program that it starts inherits them.
#
# SPDX-License-Identifier: PostgreSQL

package Live::Settings;

use strict;
use warnings;

# option of the extension, where it is set, whether it is secret
my @options = (
	[ url => 'server' ],
	[ tenant_id => 'server' ],
	[ authority => 'server' ],
	[ token_url => 'server' ],
	[ api_version => 'server' ],
	[ ca_file => 'server' ],
	[ proxy => 'server' ],
	[ client_id => 'user' ],
	[ client_secret => 'user', 'secret' ],
	[ client_certificate => 'user' ],
	[ client_key => 'user' ],
	[ client_key_password => 'user', 'secret' ],
	[ managed_identity => 'user' ],
	[ access_token => 'user', 'secret' ],
	[ proxy_user => 'user' ],
	[ proxy_password => 'user', 'secret' ]);

sub read
{
	my ($class) = @_;
	my $self = bless { value => {} }, $class;
	my %service = service();

	for my $option (@options)
	{
		my ($name, undef, $secret) = @$option;
		my $variable = 'DV_' . uc $name;
		my $value = delete $ENV{$variable};
		my $file = $secret ? delete $ENV{"${variable}_FILE"} : undef;

		$value = first_line($file) if !length($value // '') && length($file // '');
		if (!length($value // ''))
		{
			$value = delete $service{$name};
			$file = $secret ? delete $service{"${name}_file"} : undef;
			$value = first_line($file) if !defined $value && defined $file;
		}
		delete @service{ $name, "${name}_file" };
		$self->{value}{$name} = $value if length($value // '');
	}
	die "unknown setting in the service: $_\n" for sort keys %service;
	$self->check;
	return $self;
}

# The section of the service file that DV_SERVICE names.
sub service
{
	my $name = $ENV{DV_SERVICE} // return;
	my $file = $ENV{DV_SERVICEFILE} // ($ENV{HOME} // '') . '/.dataverse_service.conf';
	my ($section, %found) = ('');

	open my $in, '<', $file or die "cannot read service file \"$file\": $!\n";
	die "service file \"$file\" can be read by others; make it private (chmod 600)\n"
	  if (stat $in)[2] & 077;
	while (my $line = <$in>)
	{
		if ($line =~ /^\s*(?:#|$)/) { next }
		elsif ($line =~ /^\s*\[\s*(.*?)\s*\]\s*$/) { $section = $1; $found{''} = 1 if $1 eq $name }
		elsif ($line =~ /^\s*(\w+)\s*=\s*(.*?)\s*$/) { $found{$1} = $2 if $section eq $name }
		else { die "line $. of service file \"$file\" is not of the form name=value\n" }
	}
	delete $found{''} or die "service file \"$file\" has no section [$name]\n";
	return %found;
}

sub first_line
{
	my ($file) = @_;

	open my $in, '<', $file or die "cannot read file \"$file\": $!\n";
	my $line = readline($in) // '';
	$line =~ s/\r?\n\z//;
	return $line;
}

# The secrets are sent to all of these addresses.
sub check
{
	my ($self) = @_;

	die "no environment is specified: set DV_URL, or DV_SERVICE and a section of ~/.dataverse_service.conf\n"
	  unless $self->{value}{url};
	for my $name (qw(url authority token_url))
	{
		my $value = $self->{value}{$name} // next;
		my ($scheme, $host) = $value =~ m{^(\w+)://(\[[^\]]*\]|[^/:?#\@]+)(?::\d+)?(?:[/?#]|$)}
		  or die "setting \"$name\" is not a URL\n";

		die "setting \"$name\" must begin with https://\n"
		  unless lc $scheme eq 'https'
		  || lc $scheme eq 'http' && $host =~ /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i;
	}
	return;
}

# The name that the caller must give: the host, with its port if any.
sub environment
{
	my ($self) = @_;
	my ($name) = $self->{value}{url} =~ m{^\w+://([^/]+)};
	return lc $name;
}

sub get { my ($self, $name) = @_; return $self->{value}{$name}; }

# Texts that must not appear anywhere, including their URL-encoded form.
sub secrets
{
	my ($self) = @_;
	my @secrets = grep { length($_ // '') } map { $self->{value}{ $_->[0] } } grep { $_->[2] } @options;
	my @encoded = map { s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/ger } @secrets;

	return @secrets, @encoded;
}

# Texts that identify the owner of the environment.
sub names
{
	my ($self) = @_;
	return map { [ $self->{value}{$_}, "<$_>" ] } grep { length($self->{value}{$_} // '') } qw(tenant_id client_id proxy_user);
}

# The options of the server or the user mapping, as SQL.
sub sql
{
	my ($self, $where) = @_;
	my %value = %{ $self->{value} };

	return join ', ', map {
		"$_->[0] '" . $value{ $_->[0] } =~ s/'/''/gr . "'"
	} grep { $_->[1] eq $where && defined $value{ $_->[0] } } @options;
}

# The shape of the request for a token.
sub token
{
	my ($self) = @_;
	return $self->{value}{managed_identity} ? 'token-identity' : $self->{value}{client_certificate} ? 'token-certificate' : 'token';
}

# A dvsim, as the environment to compare with.
sub simulator
{
	my ($class, $url) = @_;
	return bless {
		value => { url => $url, token_url => "$url/t/oauth2/v2.0/token", client_id => 'app1', client_secret => 'secret1' }
	}, $class;
}

1;
