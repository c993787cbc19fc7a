/*
 * grid.h
 *		Finds the position of a value on the grid of a column's possible values.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_GRID_H
#define DV_GRID_H

#include "dataverse/type.h"

/* The position of a value.  Grid points are written as the service writes them. */
typedef struct dv_grid
{
	int			side;			/* -1: below all grid points; 1: above all of them */
	bool		on;				/* the value is a grid point */
	const char *floor;			/* the greatest grid point that is not above the value */
	const char *next;			/* times: the grid point after "floor", "" if none; else NULL */
	bool		fine;			/* the column may have values between the grid points */
} dv_grid;

/* "range" is that of the column, "type" that of the value: an integer type or numeric. */
extern dv_grid dv_grid_of_number(const dv_number_range *range, Oid type, Datum value);

/* "column" is the PostgreSQL type of the column; types are timestamptz, timestamp, or date. */
extern dv_grid dv_grid_of_time(Oid column, bool fine, Oid type, Datum value);

/* "type" is date or timestamp. */
extern dv_grid dv_grid_of_date(Oid type, Datum value);

#endif							/* DV_GRID_H */
