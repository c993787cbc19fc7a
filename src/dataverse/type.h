/*
 * type.h
 *		Types of Dataverse columns, with the names that the column option
 *		"type" accepts.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TYPE_H
#define DV_TYPE_H

#include <stdbool.h>

/* DV_TYPE_STRING and so on */
typedef enum dv_type
{
#define DV_TYPE(symbol, name, attribute_type, sql, wire, comparison, flags, range) \
	DV_TYPE_##symbol,
#include "dataverse/type_list.h"
	DV_TYPES
} dv_type;

/* How the values of a type are written.  These are bits, so that they can be combined. */
typedef enum dv_wire
{
	DV_WIRE_OPAQUE = 0,			/* in a form that is not interpreted: only read */
	DV_WIRE_TEXT = 0x0001,
	DV_WIRE_ID = 0x0002,
	DV_WIRE_REFERENCE = 0x0004, /* read as an id, written as a link to another row */
	DV_WIRE_INTEGER = 0x0008,
	DV_WIRE_BIGINT = 0x0010,
	DV_WIRE_CHOICE = 0x0020,	/* the number of a label */
	DV_WIRE_DECIMAL = 0x0040,
	DV_WIRE_DOUBLE = 0x0080,
	DV_WIRE_BOOLEAN = 0x0100,
	DV_WIRE_CHOICES = 0x0200,	/* "1,9" */
	DV_WIRE_MOMENT = 0x0400,
	DV_WIRE_LOCAL_TIME = 0x0800,	/* looks like a point in time, but has no time zone */
	DV_WIRE_DATE = 0x1000,
	DV_WIRE_BYTES = 0x2000		/* base64 */
} dv_wire;

#define DV_WIRE_REALS (DV_WIRE_DECIMAL | DV_WIRE_DOUBLE)
#define DV_WIRE_NUMBERS (DV_WIRE_INTEGER | DV_WIRE_BIGINT | DV_WIRE_CHOICE | DV_WIRE_REALS)
#define DV_WIRE_TIMES (DV_WIRE_MOMENT | DV_WIRE_LOCAL_TIME)
#define DV_WIRE_ANY 0x3fff

/* The classes of columns that the table of policies distinguishes. */
typedef enum dv_comparison
{
	DV_COMPARE_ID,
	DV_COMPARE_TEXT,			/* compared by PostgreSQL by bytes */
	DV_COMPARE_TEXT_CI_AI,
	DV_COMPARE_NUMBER,
	DV_COMPARE_DOUBLE,
	DV_COMPARE_BOOLEAN,
	DV_COMPARE_CHOICE,
	DV_COMPARE_CHOICES,
	DV_COMPARE_TIME,
	DV_COMPARE_DATE,
	DV_COMPARE_LABEL,			/* formatted value of another column */
	DV_COMPARE_TABLE_NAME,		/* the table to which a polymorphic lookup refers */
	DV_COMPARE_OPAQUE
} dv_comparison;

#define DV_COMPARISONS (DV_COMPARE_OPAQUE + 1)

/* Flags of types */
#define DV_READONLY	0x01		/* not part of the body of a row */
#define DV_LABELLED	0x02		/* has a formatted value that is worth a column */
#define DV_FREE_TEXT 0x04		/* text written by people, who search for parts of it */
#define DV_HELPED	0x08		/* columns that are helpers of such a column are properties of the
								 * row */
#define DV_LISTED	0x10		/* the query functions In and NotIn take it; for strings see
								 * odata.c */

/*
 * The least and the greatest number that the service's database can store,
 * which is more than it documents; the number of digits after the decimal
 * point; and the difference between neighboring numbers.
 */
typedef struct dv_number_range
{
	const char *min;
	const char *max;
	int			scale;
	const char *step;
} dv_number_range;

typedef struct dv_type_info
{
	const char *name;			/* value of the option */
	const char *attribute_type; /* AttributeTypeName in metadata; NULL if it is another type's */
	const char *sql;			/* PostgreSQL's type, unless the definition specifies its size */
	dv_wire		wire;
	dv_comparison comparison;	/* regardless of the collation */
	int			flags;
	const dv_number_range *range;	/* of numbers that filters may contain, else NULL */
} dv_type_info;

extern const dv_type_info dv_types[DV_TYPES];

typedef enum dv_table_type
{
	DV_TABLE_STANDARD,			/* in the order of the option's choices */
	DV_TABLE_ELASTIC,
	DV_TABLE_VIRTUAL,
	DV_TABLE_INTERSECT
} dv_table_type;

extern bool dv_type_by_name(const char *name, dv_type *type);

/* Returns true if the value is the id of another row, read as _NAME_value. */
#define dv_type_is_lookup(type) (dv_types[type].wire == DV_WIRE_REFERENCE)

#endif
