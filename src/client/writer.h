/*
 * writer.h
 *		The pipeline of one modification, from rows to requests.
 *
 * A row is encoded into the open batch; a full batch is sealed, queued, and
 * sent through any application user with a free slot, while the caller goes on
 * encoding.  The batches held are limited in number and bytes.
 *
 * Each row taken is in exactly one batch until it is acknowledged, rejected,
 * ignored or missing.  dv_writer_drain() returns when no row is left and the
 * sum is right; otherwise it raises an error.
 *
 * The writer knows sessions and calls, but not the executor.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_WRITER_H
#define DV_WRITER_H

#include "client/call.h"
#include "dataverse/batch.h"
#include "dataverse/stored.h"
#include "pool/progress.h"

typedef struct dv_writer dv_writer;

/* The fate of a row. */
typedef enum dv_fate
{
	DV_FATE_ACKNOWLEDGED,
	DV_FATE_REJECTED,			/* refused: filed, or the reason for the statement to fail */
	DV_FATE_IGNORED,			/* not created, because it exists and duplicates are ignored */
	DV_FATE_MISSING				/* not updated or deleted, because it does not exist */
} dv_fate;

#define DV_FATES (DV_FATE_MISSING + 1)

typedef struct dv_fate_rule
{
	const char *label;			/* for EXPLAIN */
	bool		written;		/* the row counts as changed */
	bool		refused;		/* the row counts as refused in the progress view */
} dv_fate_rule;

extern const dv_fate_rule dv_fate_rules[DV_FATES];

typedef struct dv_tally
{
	int64		taken;
	int64		fates[DV_FATES];	/* rows with each fate */

	/* the effort of writing them */
	int64		batches;		/* sealed */
	int64		requests;		/* answered */
	int64		repeated;		/* sent again */
	int64		causes[DV_RETRY_CAUSES];	/* of these repetitions */
	int64		throttles;
	int64		bytes;			/* sent over the wire */
	int64		waited;			/* microseconds that the caller had to wait for room or answers */
	uint64		users;			/* a bit for each application user that sent a request */
} dv_tally;

/* A failure to write a row, or some row in a range of rows. */
typedef struct dv_failure
{
	const dv_error *error;
	int64		first;			/* ordinals of the range; equal if the row is known */
	int64		last;
	bool		then;			/* the row was written, but the update that follows was refused */
	const uint8 *id;			/* of the row, or NULL */
	const char *object;			/* JSON of the row, or NULL for a range */
	size_t		object_len;
	const char *address;		/* below the root, if the row has its own address; or NULL */
	int64		in_doubt;		/* rows of the statement that are in doubt */
} dv_failure;

typedef struct dv_writer_spec
{
	dv_session *session;
	dv_operation operation;
	dv_destination destination; /* its pointers must remain valid as long as the writer lives */
	int			batch_size;
	bool		go_on;			/* on_error = continue: "reject" is called for each row refused */
	bool		ignore_duplicates;	/* creates only: rows that exist are ignored */
	const dv_stored_column *columns;	/* the columns that rows can set, if written rows have to
										 * be recognized by their values; or NULL */
	int			ncolumns;
	const char *modified;		/* property with the time of the last change; or NULL */
	const char *partition;		/* property within which an elastic table's ids are unique; or
								 * NULL */
	bool		ids_made;		/* the ids of rows to be created were generated here, so they are
								 * new */
	bool		dry_run;		/* count rows, but send nothing */
	int			max_calls;		/* the most calls under way; 0: as many as the pool allows */
	Oid			relid;			/* the foreign table, for the view of rows in doubt */
	Oid			roleid;			/* the role that writes, for the same view */
	dv_progress *progress;		/* updated by the writer; or NULL */
	const char *what;			/* "insert into foreign table \"account\"" */

	/*
	 * Returns true if rows are under way to which this writer's rows may refer.  The second
	 * function waits for them before rows are sent.
	 */
	bool		(*is_fed) (void *arg);
	void		(*wait_for_feed) (void *arg);
	/* Files a row that was refused; returns false if there are too many of them. */
	bool		(*reject) (void *arg, const dv_failure *failure);
	/* Tells the owner of a row its fate, and its id if known; or NULL. */
	void		(*settled) (void *owner, const dv_batch_row *row, dv_fate fate);
	/* Raises the error.  It is called when no request is under way any more. */
	void		(*fail) (void *arg, const dv_failure *failure);
	void	   *arg;
} dv_writer_spec;

/* Creates a writer, in a context of its own below "owner". */
extern dv_writer *dv_writer_create(const dv_writer_spec *spec, MemoryContext owner);

/*
 * Begins a row and writes its head.  The caller appends the members, each preceded by a comma,
 * to the buffer returned, and then ends or refuses the row.  If "id" is NULL, the service
 * generates one.  "address" is the address of the row in a request line, unless that is
 * entity_set(id).  "key" is a hash that identifies the row in updates, upserts and deletes, or
 * 0 if no other row of the statement can be the same one.
 */
extern StringInfo dv_writer_begin_row(dv_writer *writer, const uint8 *id, const char *address,
									  uint64 key);

/* The same for a row to upsert that an alternate key identifies. */
extern StringInfo dv_writer_begin_keyed_row(dv_writer *writer, const dv_batch_key *by_key,
											uint64 key);

/*
 * Sets the version that the row begun must still have; only if the destination matches versions.
 */
extern void dv_writer_set_version(dv_writer *writer, int64 version);

/* Makes the members appended so far part of the head: the address contains them. */
extern void dv_writer_end_head(dv_writer *writer);

/* Sets the owner of the rows that are begun from now on; NULL: none. */
extern void dv_writer_set_owner(dv_writer *writer, void *owner);

/*
 * Waits for the row with this key if it is under way.  Must be called before
 * beginning a row that refers to it.
 */
extern void dv_writer_wait_for(dv_writer *writer, uint64 key);

/* Begins the update that follows the row's creation; members are appended in the same way. */
extern StringInfo dv_writer_begin_then(dv_writer *writer);
extern void dv_writer_end_then(dv_writer *writer);

/* Takes the row begun.  May send requests, wait, or raise an error. */
extern void dv_writer_end_row(dv_writer *writer);

/*
 * Drops the row begun, which counts as refused, and describes it.  The second
 * function files the row, or raises the error.
 */
extern void dv_writer_refuse_row(dv_writer *writer, dv_failure *failure);
extern void dv_writer_file_row(dv_writer *writer, const dv_failure *failure);

/* Sends all rows taken and waits until they are settled.  More rows may follow. */
extern void dv_writer_drain(dv_writer *writer);

/* Returns false if the writer's transaction was rolled back, but its memory is not freed yet. */
extern bool dv_writer_is_open(const dv_writer *writer);

/* Returns true if rows are only counted. */
extern bool dv_writer_is_dry(const dv_writer *writer);

/* Returns true if all rows taken are settled. */
extern bool dv_writer_is_settled(const dv_writer *writer);

extern const dv_tally *dv_writer_tally(const dv_writer *writer);

/* Returns the number of rows written. */
extern int64 dv_writer_written(const dv_writer *writer);

/*
 * Returns how many of them remain after a rollback, including rows whose second update has not
 * succeeded.
 */
extern int64 dv_writer_stays(const dv_writer *writer);

#endif							/* DV_WRITER_H */
