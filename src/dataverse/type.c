/*
 * type.c
 *		Types of Dataverse columns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/type.h"

static const dv_number_range int32_range = {"-2147483648", "2147483647", 0, "1"};
static const dv_number_range int64_range = {
	"-9223372036854775808", "9223372036854775807", 0, "1"
};
static const dv_number_range decimal_range = {
	"-10000000000000", "10000000000000", 10, "0.0000000001"
};
static const dv_number_range money_range = {
	"-1000000000000000", "1000000000000000", 10, "0.0000000001"
};

const dv_type_info dv_types[DV_TYPES] = {
#define DV_TYPE(symbol, name, attribute_type, sql, wire, comparison, flags, range) \
	[DV_TYPE_##symbol] = {name, attribute_type, sql, DV_WIRE_##wire, DV_COMPARE_##comparison, flags, range},
#include "dataverse/type_list.h"
};

bool
dv_type_by_name(const char *name, dv_type *type)
{
	int			i;

	for (i = 0; i < DV_TYPES; i++)
	{
		if (strcmp(dv_types[i].name, name) == 0)
		{
			*type = (dv_type) i;
			return true;
		}
	}
	return false;
}
