/*
 * grid.h
 *		Where a value lies among those that a column of the service can have.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_GRID_H
#define DV_GRID_H

#include "dataverse/type.h"

/* Text is as the service writes it. */
typedef struct dv_grid
{
	int			side;			/* -1: below all values that there can be, 1: above them */
	bool		on;				/* it is one that there can be; else */
	const char *floor;			/* … this is the nearest below */
	const char *next;			/* times: the one behind "floor", "" if there is none; else NULL */
	bool		fine;			/* values may lie between the lines */
} dv_grid;

/* "range" is the column's, "type" the value's: an integer's or numeric. */
extern dv_grid dv_grid_of_number(const dv_number_range *range, Oid type, Datum value);

/* "column" is the column's type here, "type" that of the value: timestamptz, timestamp, date. */
extern dv_grid dv_grid_of_time(Oid column, bool fine, Oid type, Datum value);

/* "type" is date or timestamp. */
extern dv_grid dv_grid_of_date(Oid type, Datum value);

#endif							/* DV_GRID_H */
