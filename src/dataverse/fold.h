/*
 * fold.h
 *		Folds values of alternate keys, so that values that the service may
 *		consider equal have the same fold.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_FOLD_H
#define DV_FOLD_H

#include "lib/stringinfo.h"

/*
 * Appends the fold of a text, which is valid UTF-8.  Texts that the service
 * considers equal have the same fold; few others do.
 */
extern void dv_fold_text(const char *text, size_t len, StringInfo out);

/* Appends the fold of a number: without the zeros that do not change it. */
extern void dv_fold_number(const char *text, size_t len, StringInfo out);

/* Appends the fold of a date with a time: without fractions of a second. */
extern void dv_fold_time(const char *text, size_t len, StringInfo out);

#endif							/* DV_FOLD_H */
