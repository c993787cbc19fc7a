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
 * Returns the value, allocated in the current memory context.  Raises an error
 * if it does not fit the column.
 */
extern Datum dv_decode(dv_decoder *decoder, const dv_value *value, bool *isnull);

#endif							/* DV_DECODE_H */
