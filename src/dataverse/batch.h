/*-------------------------------------------------------------------------
 *
 * batch.h
 *		Rows on their way to the service: one request's worth of them.
 *
 * Rows are written once, straight into the bytes that travel.  A sealed
 * batch never changes: it is repeated with the same bytes, or its rows are
 * copied into other batches as they are.
 *
 * A row is a JSON object, a target of the bulk messages:
 *
 *	{"@odata.type":"Microsoft.Dynamics.CRM.account","accountid":"…","name":"…"}
 *	 ------------------------ head ------------------------------
 *
 * As a request of its own, in a $batch, its address says what the head says
 * here, and its body is the rest.  (A create has no address: there the head
 * ends before the id.)
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_BATCH_H
#define DV_BATCH_H

#include "lib/stringinfo.h"

#include "dataverse/operation.h"
#include "dataverse/type.h"

#define DV_ID_LEN 16

/* Where rows go: the same for all of a statement's. */
typedef struct dv_destination
{
	const char *root;			/* of the service, "https://…/api/data/v9.2/" */
	const char *table;			/* logical name */
	const char *entity_set;
	const char *primary_id;		/* property */
	dv_table_type type;
	const char *tag;			/* percent-encoded; NULL: none */
	const char *const *headers; /* of each request and each part, "Name: value", NULL-terminated;
								 * NULL: none */
	const char *caller;			/* object id of who is impersonated, also by each part; NULL:
								 * nobody */
} dv_destination;

typedef struct dv_batch_row
{
	int64		ordinal;		/* which row of the statement, from 1 */
	uint64		key;			/* rows with the same key must keep their order; 0: none has it */
	uint8		id[DV_ID_LEN];
	bool		has_id;
	uint32		head;			/* length */
	uint32		len;
	size_t		at;				/* in bytes: the object */
	size_t		address_at;		/* in extra: "accounts(key='v')", below the root */
	uint32		address_len;	/* 0: the entity set, with the id */
	size_t		then_at;		/* in extra: members of the update to follow */
	uint32		then_len;		/* 0: none */
} dv_batch_row;

typedef struct dv_batch
{
	dv_operation operation;
	const dv_destination *destination;
	dv_batch_row *rows;
	int			nrows;
	int			room;
	StringInfoData bytes;		/* once sealed, the body of the bulk message */
	StringInfoData extra;

	/* prepared when the batch is made */
	char	   *head;			/* up to the id */
	uint32		head_len;
	uint32		type_len;		/* of that, without the id's name */
	char	   *bulk_path;		/* or NULL */
	int			extra_mark;		/* where the last row's part of it begins */
} dv_batch;

/* Memory below the current context; empty. */
extern dv_batch *dv_batch_create(dv_operation operation, const dv_destination *destination, int room);

/*
 * One more row, as far as its head: then the caller appends its members to
 * batch->bytes, each with a comma in front, and ends it.  "id" and "address"
 * may be NULL; an address becomes "@odata.id" of an upsert, whose id is then
 * not written.  What is returned lasts until the next row is begun; ordinal
 * and key are 0.
 */
extern dv_batch_row *dv_batch_begin_row(dv_batch *batch, const uint8 *id, const char *address);
extern void dv_batch_end_row(dv_batch *batch);

/* The row begun, or ended last, was none. */
extern void dv_batch_forget_row(dv_batch *batch);

/*
 * An update that follows the row begun last once it exists: the caller
 * appends members to batch->extra between these two.
 */
extern void dv_batch_begin_then(dv_batch *batch);
extern void dv_batch_end_then(dv_batch *batch);

/*
 * Copies a row of another batch of the same operation, as it is; with "then"
 * the update that follows it into a batch of updates.  For that the row must
 * have an id (or an address): who let the service make it, sets it first.
 */
extern void dv_batch_copy_row(dv_batch *batch, const dv_batch *from, const dv_batch_row *row,
							  bool then);

/* No more rows: batch->bytes becomes the body of the bulk message. */
extern void dv_batch_seal(dv_batch *batch);

/* Path of the bulk message below the root, tag included; NULL if there is none for that. */
extern const char *dv_batch_bulk_path(const dv_batch *batch);

/* How the rows are sent as parts of a $batch. */
typedef enum dv_parts
{
	DV_PARTS_SINGLE,			/* each for itself, wanted with continue-on-error */
	DV_PARTS_CHANGESET			/* all or none; Content-ID is the row's position + 1 */
} dv_parts;

/*
 * Appends the $batch with the rows of a batch, and says its Content-Type
 * header line, which is constant.  The service takes no more than 1,000 rows.
 */
extern void dv_batch_parts(const dv_batch *batch, dv_parts how, StringInfo body,
						   const char **content_type);

/* The same for a $batch whose only part reads from this URL, with these header lines. */
extern void dv_batch_read(const char *url, const char *const *headers, StringInfo body,
						  const char **content_type);

/* The JSON object of a row, for who tells of it. */
extern const char *dv_batch_object(const dv_batch *batch, const dv_batch_row *row, size_t *len);

#endif							/* DV_BATCH_H */
