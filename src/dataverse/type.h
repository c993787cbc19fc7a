/*
 * type.h
 *		Types of Dataverse columns, under the names that the column option
 *		"type" has for them.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TYPE_H
#define DV_TYPE_H

#include <stdbool.h>

typedef enum dv_type
{
	DV_TYPE_OTHER,
	DV_TYPE_UNIQUEIDENTIFIER,
	DV_TYPE_STRING,
	DV_TYPE_MEMO,
	DV_TYPE_INTEGER,
	DV_TYPE_BIGINT,
	DV_TYPE_DECIMAL,
	DV_TYPE_MONEY,
	DV_TYPE_DOUBLE,
	DV_TYPE_BOOLEAN,
	DV_TYPE_CHOICE,
	DV_TYPE_STATE,
	DV_TYPE_STATUS,
	DV_TYPE_CHOICES,			/* multi-select */
	DV_TYPE_DATETIME,			/* a moment */
	DV_TYPE_DATETIME_INDEPENDENT,	/* no time zone */
	DV_TYPE_DATE,
	DV_TYPE_LOOKUP,
	DV_TYPE_CUSTOMER,
	DV_TYPE_OWNER,
	DV_TYPE_ENTITYNAME,
	DV_TYPE_IMAGE,
	DV_TYPE_FILE,
	DV_TYPE_MANAGED
} dv_type;

#define DV_TYPES (DV_TYPE_MANAGED + 1)

typedef enum dv_table_type
{
	DV_TABLE_STANDARD,			/* in the order of the option's choices */
	DV_TABLE_ELASTIC,
	DV_TABLE_VIRTUAL,
	DV_TABLE_INTERSECT
} dv_table_type;

extern bool dv_type_by_name(const char *name, dv_type *type);
extern const char *dv_type_name(dv_type type);

/* Is its value the id of another row, read as _name_value? */
extern bool dv_type_is_lookup(dv_type type);

#endif
