/*
 * bench_encode.c
 *		The cost of converting rows of PostgreSQL to the service's JSON: a
 *		module for the server that includes a copy of src/fdw/encode.c.
 *
 *	bench_encode(foreign table, query, passes, OUT ns float8, OUT sample text)
 *
 * The columns of the query are encoded as the foreign table's columns of the
 * same names; nothing else is done with them.  "ns" is the median of the passes
 * for one row of the query.  Called by test/bench/encode.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <time.h>

#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "fdw/encode.h"

#define MAX_COLUMNS 100
#define MAX_PASSES 1000

PG_MODULE_MAGIC;

DV_FUNCTION(bench_encode);

static double
nanoseconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Makes one pass over all rows.  Deforming them is not measured. */
static double
encode_rows(dv_encoder * *encoders, Datum *values, bool *nulls, uint64 nrows, int ncolumns,
			StringInfo out)
{
	double		start = nanoseconds();
	dv_misfit	misfit;
	uint64		i;
	int			j;

	for (i = 0; i < nrows; i++)
	{
		/* append, as in a batch of 100 rows */
		if (i % 100 == 0)
			resetStringInfo(out);
		for (j = 0; j < ncolumns; j++)
			if (!dv_encode(encoders[j], values[i * ncolumns + j], nulls[i * ncolumns + j], NULL,
						   out, &misfit))
				elog(ERROR, "%s", misfit.message);
	}
	return (nanoseconds() - start) / nrows;
}

Datum
bench_encode(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	int			passes = Min(PG_GETARG_INT32(2), MAX_PASSES);
	dv_relation *relation = dv_relation_open(relid);
	dv_encoder *encoders[MAX_COLUMNS];
	double		times[MAX_PASSES];
	StringInfoData out;
	TupleDesc	desc;
	TupleDesc	result;
	Datum	   *values;
	bool	   *nulls;
	Datum		answer[2];
	bool		answer_nulls[2] = {false, false};
	uint64		i;
	int			j;

	get_call_result_type(fcinfo, NULL, &result);
	initStringInfo(&out);
	SPI_connect();
	if (SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), true, 0) != SPI_OK_SELECT ||
		SPI_processed == 0 || SPI_tuptable->tupdesc->natts > MAX_COLUMNS)
		elog(ERROR, "no rows to encode");
	desc = SPI_tuptable->tupdesc;
	values = palloc_extended(sizeof(Datum) * SPI_processed * desc->natts, MCXT_ALLOC_HUGE);
	nulls = palloc_extended(sizeof(bool) * SPI_processed * desc->natts, MCXT_ALLOC_HUGE);
	for (j = 0; j < desc->natts; j++)
		encoders[j] = dv_encoder_create(relation,
										get_attnum(relid, NameStr(TupleDescAttr(desc, j)->attname)),
										DV_NULL_WRITTEN);
	for (i = 0; i < SPI_processed; i++)
		heap_deform_tuple(SPI_tuptable->vals[i], desc, values + i * desc->natts,
						  nulls + i * desc->natts);
	for (j = 0; j < passes; j++)
		times[j] = encode_rows(encoders, values, nulls, SPI_processed, desc->natts, &out);
	qsort(times, passes, sizeof(double), compare);
	resetStringInfo(&out);
	encode_rows(encoders, values, nulls, 1, desc->natts, &out);
	SPI_finish();
	answer[0] = Float8GetDatum(times[passes / 2]);
	answer[1] = CStringGetTextDatum(out.data);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result), answer,
													  answer_nulls)));
}
