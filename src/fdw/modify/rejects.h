/*
 * rejects.h
 *		Files refused rows in the table behind the view dataverse.rejects.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_REJECTS_H
#define DV_REJECTS_H

#include "fdw/relation.h"

/*
 * A refused row: either the JSON object that was sent, or, if it was refused
 * before it was sent, the row itself.  Without either, it cannot be retried.
 */
typedef struct dv_reject
{
	const char *operation;		/* insert, update, upsert, or delete */
	int64		ordinal;		/* number of the row in the statement, from 1; 0: unknown */
	const uint8 *id;			/* 16 bytes, or NULL */
	const char *object;			/* the complete object, or NULL */
	size_t		object_len;
	const char *address;		/* below the root, or NULL */
	Datum		row;			/* JSON with the foreign table's columns, or 0 */
	List	   *columns;		/* IntList: columns of the row that the statement has set */
	const Bitmapset *hidden;	/* columns whose values are not filed */
	const char *code;			/* error code of the service, or NULL */
	int			sqlstate;
	const char *message;
} dv_reject;

/* Files a row for a role. */
extern void dv_rejects_file(const dv_relation *relation, Oid roleid, const dv_reject *reject);

/*
 * Returns the ids of the entries that the statement of dataverse.retry_rejects()
 * retries for this role, in the order in which it inserts their rows; NULL if no
 * such statement is running (replay.c).  A row that is refused again keeps its
 * entry, which no other row can then take.
 */
extern const struct ArrayType *dv_replay_entries(Oid roleid);
extern void dv_replay_refused(int64 entry);

#endif							/* DV_REJECTS_H */
