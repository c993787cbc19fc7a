/*
 * stored.h
 *		Compares a value that was sent with the value that the service returns.
 *
 * The service does not return every value as it was sent: it stores an empty
 * string as null, drops fractions of a second, and rounds numbers.  This is
 * used to recognize rows whose creation was not acknowledged.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_STORED_H
#define DV_STORED_H

#include "dataverse/type.h"
#include "dataverse/value.h"

/* A column as it is sent and as it is read. */
typedef struct dv_stored_column
{
	const char *sent;			/* member of a row sent, without "@odata.bind" */
	const char *read;			/* property of the row read */
	dv_wire		wire;
} dv_stored_column;

typedef enum dv_stored
{
	DV_STORED_EQUAL,			/* the value that was sent reads like this */
	DV_STORED_NULL,				/* the same, but the value is null, which proves little */
	DV_STORED_UNKNOWN,			/* it may read like this */
	DV_STORED_DIFFERENT			/* the service does not return this for the value sent */
} dv_stored;

/* Returns true if values of this form can be compared at all. */
extern bool dv_stored_comparable(dv_wire wire);

/*
 * Compares two values.  "scratch" must have room for the lengths of both; it is
 * used for texts with escapes.
 */
extern dv_stored dv_stored_compare(dv_wire wire, const dv_value *sent, const dv_value *read,
								   char *scratch);

#endif							/* DV_STORED_H */
