/*
 * encode.h
 *		Writes PostgreSQL values as members of JSON objects for the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ENCODE_H
#define DV_ENCODE_H

#include "lib/stringinfo.h"

#include "fdw/relation.h"

/* Writes the values of one column. */
typedef struct dv_encoder dv_encoder;

/* The reason why a value cannot be sent. */
typedef struct dv_misfit
{
	int			sqlstate;
	const char *message;		/* palloc'd or constant */
} dv_misfit;

/*
 * Creates the encoder of a column.  Raises an error if the column cannot be
 * written at all (labels, read-only columns, files).  "nulls" says how nulls
 * are written.
 */
typedef enum dv_nulls_as
{
	DV_NULL_OMITTED,			/* omitted */
	DV_NULL_WRITTEN				/* as "name":null, for lookups, too */
} dv_nulls_as;

extern dv_encoder *dv_encoder_create(const dv_relation *relation, AttrNumber attnum,
									 dv_nulls_as nulls);

/*
 * Appends ,"name":value (for a lookup ,"nav@odata.bind":"/set(id)") to "out".
 * "type_value" is the value of the companion column of a polymorphic lookup,
 * which names the table of the target; NULL if the value is null or the lookup
 * has no companion.  Returns false if the value cannot be sent; then nothing
 * has been appended, and *misfit has the reason.
 */
extern bool dv_encode(dv_encoder *encoder, Datum value, bool isnull, const char *type_value,
					  StringInfo out, dv_misfit *misfit);

/*
 * Appends ,"nav":null to clear a lookup that refers to this table.  "table" is
 * NULL if the lookup is null already.  Returns false if no navigation property
 * leads to that table.
 */
extern bool dv_encode_cleared(dv_encoder *encoder, const char *table, StringInfo out,
							  dv_misfit *misfit);

/* Returns true if values are written as the output function of their type returns them. */
extern bool dv_encoder_puts_text(const dv_encoder *encoder);

/* Returns the companion column with the name of the table that a lookup refers to, or 0. */
extern AttrNumber dv_encoder_type_column(const dv_encoder *encoder);

/*
 * Appends a value as part of an address by key, "accounts(accountnumber='A-1')",
 * in the form that it has in bodies: with quotes doubled.  Returns false for
 * null, too, which cannot be part of an address.
 */
extern bool dv_encode_key(dv_encoder *encoder, Datum value, bool isnull, StringInfo out,
						  dv_misfit *misfit);

/*
 * Appends a folded form of such a value, which is the same for all values that
 * the service may consider equal.  dv_encode_key() has accepted the value.
 */
extern void dv_encode_key_fold(dv_encoder *encoder, Datum value, StringInfo out);

#endif							/* DV_ENCODE_H */
