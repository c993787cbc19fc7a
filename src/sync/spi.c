/*
 * spi.c
 *		Statements of runs, with values of any type.
 *
 * Steps of runs are functions in SQL and PL/pgSQL.  Results of one of them, such as
 * the plan of a run, are arguments of others.  Here they are values whose type
 * PostgreSQL tells.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "sync/spi.h"

dv_spi_value
dv_spi_of_int8(int64 value)
{
	return (dv_spi_value)
	{
		INT8OID, Int64GetDatum(value), false
	};
}

dv_spi_value
dv_spi_of_bool(bool value)
{
	return (dv_spi_value)
	{
		BOOLOID, BoolGetDatum(value), false
	};
}

dv_spi_value
dv_spi_of_time(TimestampTz value)
{
	return (dv_spi_value)
	{
		TIMESTAMPTZOID, TimestampTzGetDatum(value), false
	};
}

dv_spi_value
dv_spi_of_array(ArrayType *value)
{
	return (dv_spi_value)
	{
		get_array_type(ARR_ELEMTYPE(value)), PointerGetDatum(value), false
	};
}

dv_spi_value
dv_spi_null(Oid type)
{
	return (dv_spi_value)
	{
		type, (Datum) 0, true
	};
}

dv_spi_value
dv_spi_of_table(Oid relid)
{
	return (dv_spi_value)
	{
		REGCLASSOID, ObjectIdGetDatum(relid), !OidIsValid(relid)
	};
}

dv_spi_value
dv_spi_of_text(const char *value)
{
	return (dv_spi_value)
	{
		TEXTOID, value != NULL ? CStringGetTextDatum(value) : (Datum) 0, value == NULL
	};
}

dv_spi_value
dv_spi_copy(const dv_spi_value *value, MemoryContext context)
{
	MemoryContext before = MemoryContextSwitchTo(context);
	dv_spi_value copy = *value;
	int16		length;
	bool		by_value;

	get_typlenbyval(value->type, &length, &by_value);
	/* the value may be stored elsewhere, where it does not stay */
	if (!value->isnull && length == -1)
		copy.datum = PointerGetDatum(PG_DETOAST_DATUM_COPY(value->datum));
	else if (!value->isnull)
		copy.datum = datumCopy(value->datum, by_value, length);
	MemoryContextSwitchTo(before);
	return copy;
}

void
dv_spi_free(dv_spi_value *copy)
{
	if (!copy->isnull && !get_typbyval(copy->type))
		pfree(DatumGetPointer(copy->datum));
	copy->isnull = true;
}

void
dv_spi_execute(const char *sql, int n, const dv_spi_value *values)
{
	Oid		   *types = palloc(sizeof(Oid) * (n + 1));
	Datum	   *datums = palloc(sizeof(Datum) * (n + 1));
	char	   *nulls = palloc(n + 1);
	int			status;
	int			i;

	for (i = 0; i < n; i++)
	{
		types[i] = values[i].type;
		datums[i] = values[i].datum;
		nulls[i] = values[i].isnull ? 'n' : ' ';
	}
	status = SPI_execute_with_args(sql, n, types, datums, nulls, false, 0);
	if (status < 0)
		elog(ERROR, "could not execute a statement: %s", SPI_result_code_string(status));
}

static HeapTuple
only_row(void)
{
	if (SPI_tuptable == NULL || SPI_processed != 1)
		elog(ERROR, "a statement returned %llu rows instead of 1", (unsigned long long) SPI_processed);
	return SPI_tuptable->vals[0];
}

dv_spi_value
dv_spi_result(int column)
{
	HeapTuple	row = only_row();
	dv_spi_value value = {.type = SPI_gettypeid(SPI_tuptable->tupdesc, column)};

	value.datum = SPI_getbinval(row, SPI_tuptable->tupdesc, column, &value.isnull);
	return value;
}

static Datum
value_of_type(int column, Oid type)
{
	dv_spi_value value = dv_spi_result(column);

	if (value.type != type || value.isnull)
		elog(ERROR, "column %d of a result is null or has an unexpected type", column);
	return value.datum;
}

int64
dv_spi_result_int8(int column)
{
	return DatumGetInt64(value_of_type(column, INT8OID));
}

int64
dv_spi_result_count(const char *column)
{
	int			i;

	(void) only_row();
	i = SPI_fnumber(SPI_tuptable->tupdesc, column);
	if (i <= 0)
		elog(ERROR, "a result has no column \"%s\"", column);
	return dv_spi_result(i).isnull ? 0 : dv_spi_result_int8(i);
}

bool
dv_spi_result_bool(int column)
{
	return DatumGetBool(value_of_type(column, BOOLOID));
}

char *
dv_spi_result_text(int column)
{
	return SPI_getvalue(only_row(), SPI_tuptable->tupdesc, column);
}
