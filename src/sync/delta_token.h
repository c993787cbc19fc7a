/*
 * delta_token.h
 *		Tokens of change tracking.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DELTA_TOKEN_H
#define DV_DELTA_TOKEN_H

#include "dataverse/value.h"

/* Raises an error if this cannot be a token: the text of a delta link that follows "$deltatoken=". */
extern void dv_delta_token_check(const char *token);

/* Returns the token in a delta link. */
extern char *dv_delta_token_of(const dv_value *link);

#endif							/* DV_DELTA_TOKEN_H */
