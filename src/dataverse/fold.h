/*
 * fold.h
 *		What values of alternate keys have in common that the service may take
 *		for equal.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FOLD_H
#define DV_FOLD_H

#include "lib/stringinfo.h"

/*
 * Appends the fold of a text, which is valid UTF-8.  Texts that the service
 * takes for equal have the same fold; few others have.
 */
extern void dv_fold_text(const char *text, size_t len, StringInfo out);

/* Appends the fold of a number: without the zeros that do not change it. */
extern void dv_fold_number(const char *text, size_t len, StringInfo out);

/* Appends the fold of a date with a time: without fractions of a second. */
extern void dv_fold_time(const char *text, size_t len, StringInfo out);

#endif							/* DV_FOLD_H */
