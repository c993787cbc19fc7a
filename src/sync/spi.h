/*
 * spi.h
 *		Statements of runs, with values of any type.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SPI_H
#define DV_SPI_H

#include "datatype/timestamp.h"
#include "utils/array.h"

/* A value and its type. */
typedef struct dv_spi_value
{
	Oid			type;
	Datum		datum;
	bool		isnull;
} dv_spi_value;

extern dv_spi_value dv_spi_of_int8(int64 value);
extern dv_spi_value dv_spi_of_bool(bool value);
extern dv_spi_value dv_spi_of_time(TimestampTz value);
extern dv_spi_value dv_spi_of_array(ArrayType *value);
extern dv_spi_value dv_spi_null(Oid type);
extern dv_spi_value dv_spi_of_table(Oid relid); /* regclass; InvalidOid: null */
extern dv_spi_value dv_spi_of_text(const char *value);	/* NULL: null */

/* Copies a value with all that it contains; frees such a copy, which is null then. */
extern dv_spi_value dv_spi_copy(const dv_spi_value *value, MemoryContext context);
extern void dv_spi_free(dv_spi_value *copy);

/*
 * Executes a statement as the current role, with its search path: all names in it are
 * qualified, and it has no operators.
 */
extern void dv_spi_execute(const char *sql, int n, const dv_spi_value *values);

#define dv_spi_call(sql, ...) \
	dv_spi_execute((sql), lengthof(((dv_spi_value[]) {__VA_ARGS__})), (dv_spi_value[]) {__VA_ARGS__})

/* Return a column, from 1 on, of the only row that the last statement returned. */
extern dv_spi_value dv_spi_result(int column);
extern int64 dv_spi_result_int8(int column);
extern bool dv_spi_result_bool(int column);
extern int64 dv_spi_result_count(const char *column);	/* by its name; null: 0 */
extern char *dv_spi_result_text(int column);	/* of any type; NULL: null */

#endif							/* DV_SPI_H */
