/*
 * decode.h
 *		Values of the service's pages as PostgreSQL's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DECODE_H
#define DV_DECODE_H

#include "dataverse/value.h"
#include "fdw/relation.h"

/* What it takes to decode the values of one column. */
typedef struct dv_decoder dv_decoder;

extern dv_decoder *dv_decoder_create(const dv_relation *relation, const dv_attribute *attribute);

/* In the current memory context; *isnull says whether it is null.  Raises if it does not fit. */
extern Datum dv_decode(dv_decoder *decoder, const dv_value *value, bool *isnull);

#endif							/* DV_DECODE_H */
