#!/usr/bin/env perl
#
# The targets of rate control and budget pacing in virtual time.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;

exec "$FindBin::Bin/../ratesim", '--check', '--only', 'limits' or die "ratesim: $!\n";
