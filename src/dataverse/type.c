/*
 * type.c
 *		Types of Dataverse columns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/type.h"

static const char *const names[DV_TYPES] = {
	[DV_TYPE_OTHER] = "other",
	[DV_TYPE_UNIQUEIDENTIFIER] = "uniqueidentifier",
	[DV_TYPE_STRING] = "string",
	[DV_TYPE_MEMO] = "memo",
	[DV_TYPE_INTEGER] = "integer",
	[DV_TYPE_BIGINT] = "bigint",
	[DV_TYPE_DECIMAL] = "decimal",
	[DV_TYPE_MONEY] = "money",
	[DV_TYPE_DOUBLE] = "double",
	[DV_TYPE_BOOLEAN] = "boolean",
	[DV_TYPE_CHOICE] = "choice",
	[DV_TYPE_STATE] = "state",
	[DV_TYPE_STATUS] = "status",
	[DV_TYPE_CHOICES] = "choices",
	[DV_TYPE_DATETIME] = "datetime",
	[DV_TYPE_DATETIME_INDEPENDENT] = "datetime_independent",
	[DV_TYPE_DATE] = "date",
	[DV_TYPE_LOOKUP] = "lookup",
	[DV_TYPE_CUSTOMER] = "customer",
	[DV_TYPE_OWNER] = "owner",
	[DV_TYPE_ENTITYNAME] = "entityname",
	[DV_TYPE_IMAGE] = "image",
	[DV_TYPE_FILE] = "file",
	[DV_TYPE_MANAGED] = "managed",
};

bool
dv_type_by_name(const char *name, dv_type *type)
{
	int			i;

	for (i = 0; i < DV_TYPES; i++)
	{
		if (strcmp(names[i], name) == 0)
		{
			*type = (dv_type) i;
			return true;
		}
	}
	return false;
}

const char *
dv_type_name(dv_type type)
{
	return names[type];
}

bool
dv_type_is_lookup(dv_type type)
{
	return type == DV_TYPE_LOOKUP || type == DV_TYPE_CUSTOMER || type == DV_TYPE_OWNER;
}
