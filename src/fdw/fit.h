/*
 * fit.h
 *		Handles values that the type of their column does not admit.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FIT_H
#define DV_FIT_H

#include "dataverse/value.h"
#include "fdw/relation.h"

/* The type of a column that does not admit all values. */
typedef struct dv_fit dv_fit;

/*
 * Returns NULL if the column has neither a type modifier nor a domain.  "told"
 * is true if the user may be told about any row.
 */
extern dv_fit *dv_fit_create(const dv_relation *relation, const dv_attribute *attribute,
							 bool told);

/* Returns the type modifier for the input function: -1 unless no other function applies it. */
extern int32 dv_fit_input_typmod(const dv_fit *fit);

/*
 * Casts the value to the column's type, in the current memory context.  Sets
 * *changed if the result is another value.
 */
extern Datum dv_fit_cast(const dv_fit *fit, Datum value, bool *changed);

/* Raises an error or a WARNING about a value that the cast has changed; "id" may be NULL. */
extern void dv_fit_report(dv_fit *fit, const dv_value *id);

/* Checks the constraints of the column's domain.  The column must have one. */
extern void dv_fit_check(dv_fit *fit, Datum value, bool isnull);

/* Reports how many values have been cut. */
extern void dv_fit_end(const dv_fit *fit);

/* Returns the id of the row after "prefix", for messages; empty if the id is not known. */
extern const char *dv_fit_row(const dv_value *id, const char *prefix);

#endif							/* DV_FIT_H */
