/*
 * pattern.h
 *		Translates LIKE patterns to string functions of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PATTERN_H
#define DV_PATTERN_H

#include "dataverse/policy.h"
#include "dataverse/query.h"

/* Can the service store this text (in UTF-8)?  It accepts the characters of XML 1.0. */
extern bool dv_text_possible(const char *text);

/*
 * Returns a filter that accepts at least all rows whose column matches the
 * pattern (DV_OP_LIKE, DV_OP_ILIKE) or starts with it (DV_OP_STARTS).
 */
extern dv_filter *dv_pattern_filter(dv_op op, const char *pattern, const dv_column *column);

#endif							/* DV_PATTERN_H */
