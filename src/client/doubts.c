/*
 * doubts.c
 *		The rows whose outcome a failed statement of this session left unknown.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "client/doubts.h"

/* A ring: most sessions never touch its pages. */
static dv_doubt doubts[DV_DOUBTS_MAX];
static uint64 noted;

static void
note(const dv_job *job, const dv_batch_row *row)
{
	dv_doubt   *doubt = &doubts[noted++ % DV_DOUBTS_MAX];

	doubt->relid = job->spec->relid;
	doubt->roleid = job->spec->roleid;
	doubt->operation = job->batch->operation;
	doubt->ordinal = row->ordinal;
	doubt->has_id = row->has_id;
	memcpy(doubt->id, row->id, DV_ID_LEN);
	doubt->at = GetCurrentTimestamp();
}

void
dv_doubts_note(const dlist_head *jobs, int64 refused)
{
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, jobs))
	{
		const dv_job *job = dlist_container(dv_job, node, iter.cur);
		bool		all = job->nrows == job->batch->nrows;
		int			i;

		for (i = 0; dv_job_is_in_doubt(job) && i < job->batch->nrows; i++)
			if (all || job->batch->rows[i].ordinal != refused)
				note(job, &job->batch->rows[i]);
	}
}

int
dv_doubts_count(void)
{
	return (int) Min(noted, DV_DOUBTS_MAX);
}

const dv_doubt *
dv_doubts_get(int i)
{
	return &doubts[(noted - dv_doubts_count() + i) % DV_DOUBTS_MAX];
}
