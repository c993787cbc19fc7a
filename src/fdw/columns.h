/*
 * columns.h
 *		Lists of columns, such as the value of option "upsert_key".
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COLUMNS_H
#define DV_COLUMNS_H

#include "nodes/pg_list.h"

/*
 * Reads a list as SQL would, such as a,"B".  Returns NULL and the names as a List of
 * char *, or else a sentence that describes the error in the list.
 */
extern const char *dv_columns_read(const char *text, List **names);

#endif							/* DV_COLUMNS_H */
