/*
 * decode.h
 *		Converts values of the service's pages to PostgreSQL values.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DECODE_H
#define DV_DECODE_H

#include "dataverse/value.h"
#include "fdw/relation.h"

/* Decodes the values of one column. */
typedef struct dv_decoder dv_decoder;

extern dv_decoder *dv_decoder_create(const dv_relation *relation, const dv_attribute *attribute);

/*
 * Returns the decimal places with which numerics of the column are shown; -1: as many as
 * necessary.
 */
extern int	dv_decoder_scale(const dv_decoder *decoder);

/* Returns true if errors name the row, so that its id is needed. */
extern bool dv_decoder_names_rows(const dv_decoder *decoder);

/*
 * Returns the value, allocated in the current memory context.  Raises an error
 * if it does not fit the column.  "id" is that of the row, or NULL if it is not
 * known.
 */
extern Datum dv_decode(dv_decoder *decoder, const dv_value *value, const dv_value *id,
					   bool *isnull);

/* Reports how many values have been cut. */
extern void dv_decoder_end(dv_decoder *decoder);

#endif							/* DV_DECODE_H */
