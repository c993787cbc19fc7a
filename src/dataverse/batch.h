/*-------------------------------------------------------------------------
 *
 * batch.h
 *		Batches: the rows of one request on their way to the service.
 *
 * Rows are written once, directly into the bytes that are sent.  A sealed
 * batch never changes: it is sent again with the same bytes, or its rows are
 * copied into other batches unchanged.
 *
 * A row is a JSON object, one of the targets of a bulk message:
 *
 *	{"@odata.type":"Microsoft.Dynamics.CRM.account","accountid":"…","name":"…"}
 *	 ------------------------ head ------------------------------
 *
 * When a row is a request of its own in a $batch, its address replaces the
 * head, and its body is the rest.  (A create is sent to the entity set, so its
 * head ends before the id.)
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

/* Where all rows of a statement go. */
typedef struct dv_destination
{
	const char *root;			/* of the service, "https://…/api/data/v9.2/" */
	const char *table;			/* logical name */
	const char *entity_set;
	const char *primary_id;		/* property that holds the primary id */
	dv_table_type type;
	const char *tag;			/* percent-encoded; NULL if there is none */
	const char *const *headers; /* of each request and each part, "Name: value", NULL-terminated;
								 * NULL if there are none */
	const char *caller;			/* object id of the impersonated user, also sent with each part;
								 * NULL if there is none */
} dv_destination;

typedef struct dv_batch_row
{
	int64		ordinal;		/* number of the row in the statement, from 1 */
	uint64		key;			/* rows with the same key must keep their order; 0 if no other row
								 * has it */
	void	   *owner;			/* whom the caller tells of its fate; or NULL */
	uint8		id[DV_ID_LEN];
	bool		has_id;
	uint32		head;			/* length of the head */
	uint32		len;
	size_t		at;				/* position of the object in "bytes" */
	size_t		address_at;		/* position in "extra" of the address below the root:
								 * "accounts(key='v')" */
	uint32		address_len;	/* 0: the address is the entity set with the id */
	size_t		then_at;		/* position in "extra" of the members of the update that follows */
	uint32		then_len;		/* 0 if none follows */
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
	char	   *head;			/* the beginning of an object, up to the id */
	uint32		head_len;
	uint32		type_len;		/* length of the part of it before the name of the id */
	char	   *bulk_path;		/* NULL if there is none */
	int			extra_mark;		/* where the last row's part of "extra" begins */
} dv_batch;

/* Returns an empty batch, allocated in the current memory context. */
extern dv_batch *dv_batch_create(dv_operation operation, const dv_destination *destination, int room);

/*
 * Begins a row by writing its head.  The caller then appends its members to
 * batch->bytes, each with a comma in front, and ends the row.  "id" and
 * "address" may be NULL.  In an upsert, an address becomes "@odata.id", and
 * the id is not written then.  The result is valid until the next row is
 * begun; its ordinal, key, and owner are 0.
 */
extern dv_batch_row *dv_batch_begin_row(dv_batch *batch, const uint8 *id, const char *address);
extern void dv_batch_end_row(dv_batch *batch);

/* Removes the row that was begun last, whether it was ended or not. */
extern void dv_batch_forget_row(dv_batch *batch);

/*
 * An update that follows the last row once the row exists.  The caller appends
 * its members to batch->extra between these two calls.
 */
extern void dv_batch_begin_then(dv_batch *batch);
extern void dv_batch_end_then(dv_batch *batch);

/*
 * Copies a row of another batch of the same operation unchanged.  With "then",
 * copies the update that follows the row into a batch of updates instead; for
 * that the row must have an id or an address, so if the service assigned the
 * id, the caller sets it first.
 */
extern void dv_batch_copy_row(dv_batch *batch, const dv_batch *from, const dv_batch_row *row,
							  bool then);

/* Ends the batch: batch->bytes becomes the body of the bulk message. */
extern void dv_batch_seal(dv_batch *batch);

/*
 * Returns the path of the bulk message below the root, including the tag; NULL
 * if there is no such message.
 */
extern const char *dv_batch_bulk_path(const dv_batch *batch);

/* How the rows are sent as parts of a $batch. */
typedef enum dv_parts
{
	DV_PARTS_SINGLE,			/* each on its own; to be sent with continue-on-error */
	DV_PARTS_CHANGESET			/* all or none; a part's Content-ID is the row's position + 1 */
} dv_parts;

/*
 * Appends a $batch with the rows of a batch, and sets *content_type to its
 * constant Content-Type header line.  The service accepts at most 1,000 rows.
 */
extern void dv_batch_parts(const dv_batch *batch, dv_parts how, StringInfo body,
						   const char **content_type);

/* Appends a $batch whose only part is a GET of this URL with these header lines. */
extern void dv_batch_read(const char *url, const char *const *headers, StringInfo body,
						  const char **content_type);

/* Returns the JSON object of a row, for reports about it. */
extern const char *dv_batch_object(const dv_batch *batch, const dv_batch_row *row, size_t *len);

#endif							/* DV_BATCH_H */
