/*
 * proof.h
 *		Decides whether a job has created or changed a row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PROOF_H
#define DV_PROOF_H

#include "client/job.h"
#include "dataverse/value.h"

/* The result of verifying a row that was in doubt. */
typedef enum dv_finding
{
	DV_FINDING_ABSENT,			/* it does not exist */
	DV_FINDING_OURS,			/* the job created or changed it */
	DV_FINDING_THEIRS,			/* something else did */
	DV_FINDING_UNCLEAR			/* it exists, but it is not known who created or changed it */
} dv_finding;

/* The result of a verification, for one row. */
typedef struct dv_proof
{
	dv_finding	finding;
	const char *unlike;			/* UNCLEAR: the property whose value differs from the one sent, or
								 * NULL */
} dv_proof;

/* The results of a job's verification so far. */
typedef struct dv_findings
{
	dv_proof   *rows;			/* one for each row */
	bool		any_older;		/* a row existed before the first attempt to create it */
} dv_findings;

/* Returns the properties to be read, the primary id first. */
extern const char **dv_proof_properties(const dv_job *job, int *n);

/* Appends the condition that finds a row. */
extern void dv_proof_condition(const dv_job *job, const dv_batch_row *row, StringInfo out);

/* Judges a row that was found; "values" are those of the properties. */
extern void dv_proof_judge(dv_job *job, const dv_value *values);

/*
 * Judges the rows together after all of them have been looked for.  Returns the
 * finding for each.
 */
extern const dv_proof *dv_proof_conclude(dv_job *job);

/* Returns the error for a row of which it is unclear whether it is ours. */
extern dv_error dv_proof_doubt(const dv_job *job, const dv_proof *proof);

#endif							/* DV_PROOF_H */
