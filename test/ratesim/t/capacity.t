#!/usr/bin/env perl
#
# The targets of the useful limit, where the service has a capacity.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;

exec "$FindBin::Bin/../ratesim", '--check', '--only', 'capacity' or die "ratesim: $!\n";
