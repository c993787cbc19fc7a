# replace.awk
#		Turns the parts of the script that creates the extension into one that brings an
#		earlier version up to date: functions, views, comments, and privileges are those of
#		the new version.
#
# What has state is left as it is: tables, their indexes and sequences, the schemas, and the
# collation.  So are privileges, except those that the script grants.  A script in this folder,
# which comes before, has what this cannot know: it drops functions and views that are gone, or
# have other columns now, and changes tables.
#
# SPDX-License-Identifier: PostgreSQL

/^CREATE (FUNCTION|PROCEDURE|VIEW|TRIGGER|RULE|LANGUAGE) / { sub(/^CREATE/, "CREATE OR REPLACE") }

# These are types of variables and arguments.
/^CREATE TYPE / { print "DROP TYPE IF EXISTS " $3 " CASCADE;" }

/^CREATE (TABLE|INDEX|UNIQUE INDEX|SEQUENCE|SCHEMA|FOREIGN DATA WRAPPER) / { left_out = ";$" }
/^DO / { left_out = "^\\$\\$;$" }

!left_out { print }
left_out && $0 ~ left_out { left_out = "" }
