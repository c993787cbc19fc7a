/*
 * doubts.h
 *		The rows whose outcome a failed statement of this session left unknown.
 *
 * They are kept in the memory of the session, because anything that the
 * statement writes to a table is rolled back with it.  The latest ones are
 * kept.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_DOUBTS_H
#define DV_DOUBTS_H

#include "datatype/timestamp.h"

#include "client/job.h"

/* Most rows kept */
#define DV_DOUBTS_MAX 1000

/* A hint for messages */
#define DV_DOUBTS_HINT "To find out, query the foreign table by the ids in this session's view dataverse.doubts."

typedef struct dv_doubt
{
	Oid			relid;			/* the foreign table */
	Oid			roleid;			/* the role that wrote it */
	dv_operation operation;
	int64		ordinal;		/* number of the row in the statement */
	bool		has_id;
	uint8		id[DV_ID_LEN];
	TimestampTz at;
} dv_doubt;

/*
 * Notes the rows in doubt of a list of jobs.  A job that was given up because
 * one of its rows was refused still has that row, with the number "refused".
 * Does not fail, so it may be called while a transaction is aborted.
 */
extern void dv_doubts_note(const dlist_head *jobs, int64 refused);

/* Return the number of rows that are kept, and one of them, from the oldest to the latest. */
extern int	dv_doubts_count(void);
extern const dv_doubt *dv_doubts_get(int i);

#endif							/* DV_DOUBTS_H */
