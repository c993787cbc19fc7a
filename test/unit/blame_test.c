/*
 * blame_test.c
 *		Names in the service's messages.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataverse/blame.h"

static void
test_messages(void **state)
{
	static const struct
	{
		const char *message;
		const char *column;
		const char *key;
		bool		null;
	}			cases[] =

	{
		{"A validation error occurred.  The length of the 'subject' attribute of the 'task' entity exceeded the maximum allowed length of '200'.", "subject", "", false},
		{"Entity Key new_SerialKey violated. A record with the same value for Serial already exists.", "", "new_SerialKey", false},
		{"Attribute: ownerid cannot be set to NULL", "ownerid", "", true},
		{"Could not find a property named 'Name' on type 'Microsoft.Dynamics.CRM.account'.", "Name", "", false},
		{"Error identified in Payload ---->  InnerException : An undeclared property 'foo' which only has property annotations", "foo", "", false},
		{"The value of partitionid contains characters that are not allowed.", "partitionid", "", false},
		{"A validation error occurred. The value -5 of 'industrycode' on record of type 'account' is outside the valid range.", "industrycode", "", false},
		{"The length of the 'many words' attribute, and the length of the 'subject' attribute", "subject", "", false},
		{"The value of no column contains it, but the value of partitionid contains characters that are not allowed.", "partitionid", "", false},
		{"attribute '', attribute 'x'", "x", "", false},
		{"Cannot insert duplicate key", "", "", false},
		{"The length of the '' attribute", "", "", false},
		{"Entity Key a b violated", "", "", false},
		{"attribute 'unfinished", "", "", false},
		{"", "", "", false},
	};
	size_t		i;

	(void) state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		dv_blame	blame;

		dv_blame_read(cases[i].message, &blame);
		assert_string_equal(blame.column, cases[i].column);
		assert_string_equal(blame.key, cases[i].key);
		assert_int_equal(blame.null, cases[i].null);
	}
}

static void
test_long_name(void **state)
{
	char		message[600] = "attribute '";
	dv_blame	blame;

	(void) state;
	memset(message + 11, 'x', 500);
	strcpy(message + 511, "'");
	dv_blame_read(message, &blame);
	assert_string_equal(blame.column, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_long_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
