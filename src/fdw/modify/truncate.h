/*
 * truncate.h
 *		TRUNCATE of foreign tables.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TRUNCATE_H
#define DV_TRUNCATE_H

#include "foreign/fdwapi.h"

extern void dataverseExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs);

#endif							/* DV_TRUNCATE_H */
