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

/* What follows a step. */
typedef enum dv_outcome
{
	DV_STEP_MORE,				/* another step of the same task */
	DV_STEP_DONE,				/* the next task */
	DV_STEP_BACK,				/* an earlier task that has more to do */
	DV_STEP_LEAVE				/* the task that comes when the ones between are pointless */
} dv_outcome;

/* A task of a kind of run. */
typedef struct dv_task
{
	const char *phase;			/* as the view dataverse.runs shows it; NULL: depends on the run */
	dv_outcome	(*step) (dv_run *run);
	/* the tasks after these outcomes, or DV_RUN_END */
	int			done;
	int			back;
	int			leave;
} dv_task;

/* A kind of run.  All functions but explain() are optional. */
typedef struct dv_run_kind
{
	const char *name;			/* of the operation, as the view shows it */
	const dv_task *tasks;		/* the first one comes first */

	/* Returns the phase of such a task, which its steps can change (run->phase). */
	const char *(*phase) (dv_run *run);

	/* Called after a step was rolled back because a service was too busy; the run goes on. */
	void		(*go_on) (dv_run *run);

	/* Called before a run ends, in the subtransaction of its last step, or after an error. */
	void		(*stop) (dv_run *run);

	/*
	 * Called once the failure of a run is recorded, to complete the error (run->error) for the
	 * user.
	 */
	void		(*explain) (dv_run *run);
} dv_run_kind;

/* A run.  It is the first member of the struct of its kind. */
struct dv_run
{
	const dv_run_kind *kind;
	MemoryContext context;		/* lives as long as the run; that of a step is shorter */
	int64		id;				/* in dataverse_private.run_log; 0: not recorded yet */
	int			task;			/* that is carried out, or DV_RUN_END */
	const char *phase;			/* of that task, or else of the last one; NULL: not begun */
	dv_run_counts counts;		/* of the current step */
	dv_run_result *result;		/* once the run has ended */
	ErrorData  *error;			/* that has ended it; NULL: none */
};

/* Raises an error if the procedure that is being called cannot commit. */
extern void dv_run_must_commit(FunctionCallInfo fcinfo, const char *procedure);

/* Commits, and begins a transaction that is READ COMMITTED. */
extern void dv_run_commit(void);

/*
 * Carries out the tasks of a run.  If it fails, run->error says why.  Whatever the run keeps
 * between two steps is in run->context.
 */
extern void dv_run_carry_out(dv_run *run);

/* Lets a run fail when its current step ends, without undoing the step. */
extern void dv_run_fail(dv_run *run, const char *sqlstate, const char *message, const char *detail,
						const char *hint);

/* Reports the error of a run: raises it, or emits a WARNING. */
extern void dv_run_report_error(const ErrorData *error, int elevel);

/* Makes a setting until the current level of settings (NewGUCNestLevel) ends. */
extern void dv_run_set(const char *name, const char *value);

/* Begins such a level, in which the guard is up for superusers (fdw/guard.c), and returns it. */
extern int	dv_run_raise_guard(void);

/* Returns the totals of this session's requests since the last call with "restart". */
extern dv_call_totals dv_run_effort(bool restart);

/* Parts of messages: "1 row", "2 rows"; both texts, or the one that is not empty, or NULL. */
extern char *dv_run_number_of(int64 n, const char *noun);
extern char *dv_run_join(const char *first, const char *separator, const char *second);

#endif							/* DV_RUN_H */
