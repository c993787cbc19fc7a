/*
 * encode.h
 *		Values of PostgreSQL as members of the service's JSON.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ENCODE_H
#define DV_ENCODE_H

#include "lib/stringinfo.h"

#include "fdw/relation.h"

/* What it takes to write the values of one column. */
typedef struct dv_encoder dv_encoder;

/* Why a value cannot be sent. */
typedef struct dv_misfit
{
	int			sqlstate;
	const char *message;		/* "NaN is not a value of a decimal column"; palloc'd or constant */
} dv_misfit;

/*
 * Raises if the column cannot be written at all (labels, readonly, files,
 * types that are only read).  "nulls": what a null is written as.
 */
typedef enum dv_nulls_as
{
	DV_NULL_OMITTED,			/* left out */
	DV_NULL_WRITTEN				/* "name":null, lookups too */
} dv_nulls_as;

extern dv_encoder *dv_encoder_create(const dv_relation *relation, AttrNumber attnum,
									 dv_nulls_as nulls);

/*
 * Appends ,"name":value (a lookup: ,"nav@odata.bind":"/set(id)") to "out".
 * "type_value": of a polymorphic lookup, the name of the target's table as
 * the companion column has it (NULL: there is none, or it is null).  False:
 * it does not fit, nothing was appended, and *misfit says why.
 */
extern bool dv_encode(dv_encoder *encoder, Datum value, bool isnull, const char *type_value,
					  StringInfo out, dv_misfit *misfit);

/* The companion column that says which table a lookup refers to; 0: none. */
extern AttrNumber dv_encoder_type_column(const dv_encoder *encoder);

/*
 * A value as part of an address, "accounts(accountnumber='A-1')": quotes
 * doubled, percent-encoded.  Null cannot be one: false.
 */
extern bool dv_encode_key(dv_encoder *encoder, Datum value, bool isnull, StringInfo out,
						  dv_misfit *misfit);

#endif							/* DV_ENCODE_H */
