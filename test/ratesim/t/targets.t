#!/usr/bin/env perl
#
# What rate control and budget pacing must reach in virtual time.
#
# SPDX-License-Identifier: PostgreSQL

use strict;
use warnings;

use FindBin;

exec "$FindBin::Bin/../ratesim", '--check' or die "ratesim: $!\n";
