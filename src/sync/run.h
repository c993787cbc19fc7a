/*
 * run.h
 *		Carries out runs: the tasks of a kind of run, step by step.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RUN_H
#define DV_RUN_H

#include "fmgr.h"

#include "client/call.h"
#include "sync/state.h"

typedef struct dv_run dv_run;

#define DV_RUN_END (-1)

/* A task of a kind of run. */
typedef struct dv_task
{
	const char *phase;			/* as the view dataverse.runs shows it */
	bool		(*step) (dv_run *run);	/* takes a step; returns true if more steps follow */
	int			next;			/* the task after the last step, or DV_RUN_END */
} dv_task;

/* A kind of run. */
typedef struct dv_run_kind
{
	const dv_task *tasks;		/* the first one comes first */

	/*
	 * Called after a step was rolled back: the first function if the run goes on because a
	 * service was too busy, the second one if the run fails, to complete the error for the user.
	 */
	void		(*go_on) (dv_run *run);
	void		(*explain) (dv_run *run, const char *phase, ErrorData *error);
} dv_run_kind;

/* A run.  It is the first member of the struct of its kind. */
struct dv_run
{
	const dv_run_kind *kind;
	int64		id;				/* in dataverse_private.run_log */
	int			task;			/* that is carried out, or DV_RUN_END */
	dv_run_counts counts;		/* of the current step */
	dv_run_result *result;		/* once the run has ended */
	ErrorData  *error;			/* that has ended it; NULL: none */
};

/* Raises an error if the procedure that is being called cannot commit. */
extern void dv_run_must_commit(FunctionCallInfo fcinfo, const char *procedure);

/* Commits, and begins a transaction that is READ COMMITTED. */
extern void dv_run_commit(void);

/* Carries out the tasks of a run, and raises the error that ends it, if any. */
extern void dv_run_carry_out(dv_run *run);

/* Makes a setting until the current level of settings (NewGUCNestLevel) ends. */
extern void dv_run_set(const char *name, const char *value);

/* Returns the totals of this session's requests since the last call with "restart". */
extern dv_call_totals dv_run_effort(bool restart);

#endif							/* DV_RUN_H */
