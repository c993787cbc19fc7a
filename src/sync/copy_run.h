/*
 * copy_run.h
 *		What runs of copies have in common: arguments, tasks, errors.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_COPY_RUN_H
#define DV_COPY_RUN_H

#include "sync/run.h"
#include "sync/spi.h"

/* The arguments of a procedure that have been checked; none is missing that the procedure has. */
typedef struct dv_copy_arguments dv_copy_arguments;

/* A run of pull or sync. */
typedef struct dv_copy_run
{
	dv_run		run;
	const char *needed;			/* text[], the privileges on the foreign table that the run needs */

	Oid			foreign_table;
	const char *target;			/* as the caller has written it, then its qualified name */
	bool		named;			/* by the caller; else the tables are those of schemas */
	const dv_copy_arguments *arguments;
	char	   *path;			/* the caller's search path */

	int64		copy;			/* in dataverse_private.copies */
	dv_spi_value plan;			/* what dataverse_private.pull_prepare() has returned */
	bool		resumes;		/* reads what an interrupted run has left; later changes follow */
	bool		has_read;		/* where reading continues is no longer what earlier runs have
								 * stored */
	bool		token_dropped;	/* Dataverse has refused a token */
	bool		more;			/* there is more to read */
	dv_spi_value retry;			/* where dataverse_private.pull_retry() continues; null: at the
								 * beginning */
} dv_copy_run;

/* Checks all arguments but the names of tables, and copies them. */
extern dv_copy_arguments *dv_copy_arguments_of(FunctionCallInfo fcinfo);

/* Fills in a run that is about to begin, in the current memory context. */
extern void dv_copy_run_init(dv_copy_run *c, const dv_run_kind *kind, Oid foreign_table,
							 const char *target, const dv_copy_arguments *arguments);

/*
 * Carries out a run with the arguments of its procedure, whose first ones are the two tables.
 * Raises the error that ends the run, if any.
 */
extern void dv_copy_run_call(dv_copy_run *c, const dv_run_kind *kind, FunctionCallInfo fcinfo);

/* The function that gets an argument, by its name. */
typedef enum dv_copy_use
{
	DV_FOR_RUN, DV_FOR_PULL, DV_FOR_SYNC
} dv_copy_use;

/* Calls such a function, with these values as well.  Returns its result, in the memory of the run. */
extern dv_spi_value dv_copy_prepare_with(const dv_copy_run *c, dv_copy_use use, const char *function,
										 int n, const char *const *names, const dv_spi_value *values);

/* Tasks, whose phases depend on the run. */
extern dv_outcome dv_copy_open(dv_run *run);
extern dv_outcome dv_copy_begin(dv_run *run);	/* DV_STEP_LEAVE: another session works on the
												 * copy */
extern dv_outcome dv_copy_prepare(dv_run *run);
extern dv_outcome dv_copy_read(dv_run *run);	/* its phase is that of the copy */
extern dv_outcome dv_copy_retry(dv_run *run);	/* DV_STEP_LEAVE: too many rows are refused */
extern dv_outcome dv_copy_finish(dv_run *run);

/* Adds to the counts of the step what the last statement has returned in columns of this name. */
extern void dv_copy_count(dv_run *run);

/* Functions of a kind of run. */
extern const char *dv_copy_phase(dv_run *run);
extern void dv_copy_stop(dv_run *run);
extern void dv_copy_explain(dv_run *run);

#endif							/* DV_COPY_RUN_H */
