/*
 * pattern.h
 *		LIKE patterns as the service's string functions.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PATTERN_H
#define DV_PATTERN_H

#include "dataverse/policy.h"
#include "dataverse/query.h"

/* Can a text of the service hold this (UTF-8)?  It takes what XML 1.0 takes. */
extern bool dv_text_possible(const char *text);

/*
 * A filter that every row passes whose column matches the pattern (DV_OP_LIKE,
 * DV_OP_ILIKE) or starts with it (DV_OP_STARTS).
 */
extern dv_filter *dv_pattern_filter(dv_op op, const char *pattern, const dv_column *column);

#endif							/* DV_PATTERN_H */
