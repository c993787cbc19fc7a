/*
 * changes.h
 *		What functions that read changes have in common.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_CHANGES_H
#define DV_CHANGES_H

#include "fdw/relation.h"

/*
 * Opens a foreign table.  The caller must be allowed to read it as a whole, and to send requests
 * that the table itself would not send.
 */
extern dv_relation *dv_changes_open(Oid relid);

#endif							/* DV_CHANGES_H */
