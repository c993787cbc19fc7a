/*-------------------------------------------------------------------------
 *
 * writer.h
 *		Rows in, requests out: the pipeline of one modification.
 *
 * A row is encoded into the open batch; a full batch is sealed, queued, and
 * sent through whichever application user has a free slot, while the caller
 * goes on encoding.  What is under way is bounded in number and bytes.
 *
 * One owner of rows: each row taken is in exactly one batch until it is
 * acknowledged, rejected, ignored or missing; dv_writer_drain() returns when
 * none is left, checks the sum, or raises.
 *
 * Knows sessions and calls, not executors.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_WRITER_H
#define DV_WRITER_H

#include "client/call.h"
#include "dataverse/batch.h"
#include "pool/progress.h"

typedef struct dv_writer dv_writer;

/* What becomes of a row in the end. */
typedef enum dv_fate
{
	DV_FATE_ACKNOWLEDGED,
	DV_FATE_REJECTED,			/* refused, and filed */
	DV_FATE_IGNORED,			/* existed already, which was to be ignored */
	DV_FATE_MISSING				/* to be updated or deleted, but not there */
} dv_fate;

#define DV_FATES (DV_FATE_MISSING + 1)

typedef struct dv_fate_rule
{
	const char *label;			/* for EXPLAIN */
	bool		written;		/* the row counts as changed */
	bool		refused;		/* the row counts as refused in the view of progress */
} dv_fate_rule;

extern const dv_fate_rule dv_fate_rules[DV_FATES];

typedef struct dv_tally
{
	int64		taken;
	int64		fates[DV_FATES];	/* rows that have come to this end */

	/* what it took */
	int64		batches;		/* sealed */
	int64		requests;		/* answered */
	int64		repeated;		/* sent again */
	int64		throttles;
	int64		bytes;			/* sent, as they travelled */
	int64		waited;			/* microseconds that the caller had to wait for room or answers */
	uint64		users;			/* a bit for each application user that sent one */
} dv_tally;

/* A row, or one of a range of rows, that the service did not take. */
typedef struct dv_failure
{
	const dv_error *error;
	int64		first;			/* ordinals; equal: this very row */
	int64		last;
	bool		then;			/* the row was created, the update that followed it was refused */
	const uint8 *id;			/* of the very row, or NULL */
	const char *object;			/* its JSON, or NULL for a range */
	size_t		object_len;
	int64		in_doubt;		/* rows of which nobody knows whether they were carried out */
} dv_failure;

typedef struct dv_writer_spec
{
	dv_session *session;
	dv_operation operation;
	dv_destination destination; /* what it points to lives as long as the writer */
	int			batch_size;
	bool		go_on;			/* on_error = continue: "reject" is called for each row refused */
	bool		ignore_duplicates;	/* of a create */
	bool		ids_made;		/* ids of creates were made here: nobody else can have them */
	bool		dry_run;		/* count, send nothing */
	int			max_calls;		/* under way at once; 0: as many as the pool allows */
	dv_progress *progress;		/* kept up to date; or NULL */
	const char *what;			/* "insert into foreign table \"account\"" */

	/* is anything under way that rows may refer to? then it is waited for before they are sent */
	bool		(*is_fed) (void *arg);
	void		(*wait_for_feed) (void *arg);
	/* files a row; false: that was one too many */
	bool		(*reject) (void *arg, const dv_failure *failure);
	/* raises; what was under way has come to its end */
	void		(*fail) (void *arg, const dv_failure *failure);
	void	   *arg;
} dv_writer_spec;

/* Lives in a context of its own below "owner". */
extern dv_writer *dv_writer_create(const dv_writer_spec *spec, MemoryContext owner);

/*
 * A row: begun with its head written, then its members are appended (each
 * with a comma in front) to what begin returned, then it is taken, or
 * forgotten.  "id" NULL: the service makes one.  "address": where it is, if
 * that is not entity_set(id).  "key": of updates, upserts and deletes, a hash
 * of what says which row it is; 0: no other row of the statement can be the same.
 */
extern StringInfo dv_writer_begin_row(dv_writer *writer, const uint8 *id, const char *address,
									  uint64 key);

/* Before a row is begun that refers to the row of that key: if it is under way, it is waited for. */
extern void dv_writer_wait_for(dv_writer *writer, uint64 key);

/* An update that is to follow the row's creation; members are appended in the same way. */
extern StringInfo dv_writer_begin_then(dv_writer *writer);
extern void dv_writer_end_then(dv_writer *writer);

/* Takes the row: may send, may wait, may raise. */
extern void dv_writer_end_row(dv_writer *writer);

/* Forgets the row begun; with an error it counts as taken and refused. */
extern void dv_writer_forget_row(dv_writer *writer, const dv_error *error);

/* Sends what is left and waits for all of it.  May be called again, and rows may follow. */
extern void dv_writer_drain(dv_writer *writer);

/* Not if its transaction has been rolled back, and its memory is still to go. */
extern bool dv_writer_is_open(const dv_writer *writer);

/* All rows that it has taken have come to their end. */
extern bool dv_writer_is_settled(const dv_writer *writer);

extern const dv_tally *dv_writer_tally(const dv_writer *writer);

/* Rows that were written. */
extern int64 dv_writer_written(const dv_writer *writer);

/* Id of the row created last, as the service told it; false: there is none. */
extern bool dv_writer_last_id(const dv_writer *writer, uint8 *id);

#endif							/* DV_WRITER_H */
