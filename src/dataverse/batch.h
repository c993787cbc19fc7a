/*
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
 * head ends before the id.  A partition that is part of the address belongs to
 * the head.)
 *
 * A row to upsert that is addressed by an alternate key has "@odata.id" in its
 * head instead of an id.  Not every key can be part of an address.  Otherwise
 * the row is first looked up by a filter, and copied: as an update with its id
 * if it exists, or else as an upsert with a new id and the columns of the key.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_BATCH_H
#define DV_BATCH_H

#include "lib/stringinfo.h"

#include "dataverse/operation.h"
#include "dataverse/payload.h"
#include "dataverse/type.h"

#define DV_ID_LEN 16

/* The destination of all rows of a statement. */
typedef struct dv_destination
{
	const char *root;			/* of the service, "https://…/api/data/v9.2/" */
	const char *table;			/* logical name */
	const char *entity_set;
	const char *primary_id;		/* property that holds the primary id */
	dv_table_type type;
	bool		match_version;	/* rows are changed only if they still have the versions that were
								 * read */
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
	void	   *owner;			/* told of the row's fate by the caller; or NULL */
	uint8		id[DV_ID_LEN];
	int64		version;		/* the version that was read, if the destination matches versions */
	bool		has_id;
	bool		by_key;			/* the address is by an alternate key, in the form for bodies;
								 * once the row has been looked up, the id is used instead */
	dv_key_fit	fit;			/* where that address can be used */
	int			tries;			/* how often the row was sent again because another row had its
								 * key */
	uint32		head;			/* length of the head */
	uint32		len;
	size_t		at;				/* position of the object in "bytes" */
	size_t		address_at;		/* position in "extra" of the address below the root:
								 * "accounts(key='v')" */
	uint32		address_len;	/* 0: the address is the entity set with the id */
	size_t		key_at;			/* position in "extra" of the members that set the key's columns */
	uint32		key_len;
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
 * "address", as it is in a request line, may be NULL.  The result is valid
 * until the next row is begun; its ordinal, key, and owner are 0.
 */
extern dv_batch_row *dv_batch_begin_row(dv_batch *batch, const uint8 *id, const char *address);
extern void dv_batch_end_row(dv_batch *batch);

/* The identity of a row to upsert by an alternate key. */
typedef struct dv_batch_key
{
	const char *address;		/* "accounts(accountnumber='A-1')", in the form for bodies */
	dv_key_fit	fit;
	const char *members;		/* set the key's columns, each with a comma in front; like new_id,
								 * needed only if the address does not fit everywhere */
	const uint8 *new_id;		/* the id that the row gets if it does not exist */
} dv_batch_key;

/* The same for such a row. */
extern dv_batch_row *dv_batch_begin_keyed_row(dv_batch *batch, const dv_batch_key *key);

/* Sets the version that the last row begun must still have. */
extern void dv_batch_set_version(dv_batch *batch, int64 version);

/* Makes the members appended so far part of the head. */
extern void dv_batch_end_head(dv_batch *batch);

/* Removes the last row begun, whether it was ended or not. */
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

/*
 * Copies a row that is addressed by an alternate key, and that may have been
 * copied in this way before.  With an id, the row exists (in a batch of
 * updates) or is created (in a batch of upserts).  Without one, its original
 * form is restored.
 */
extern dv_batch_row *dv_batch_copy_keyed_row(dv_batch *batch, const dv_batch *from,
											 const dv_batch_row *row, const uint8 *id);

/* Ends the batch: batch->bytes becomes the body of the bulk message. */
extern void dv_batch_seal(dv_batch *batch);

/*
 * Returns the path of the bulk message below the root, including the tag; NULL
 * if there is no such message.
 */
extern const char *dv_batch_bulk_path(const dv_batch *batch);

/* The ways to send rows as parts of a $batch. */
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

/*
 * Returns true if a row must be looked up before it is sent in the bulk message, or as a part of
 * a $batch.
 */
extern bool dv_batch_is_sought(const dv_batch_row *row, bool as_part);

/*
 * Appends a $batch with a query for each row that must be looked up.  Only the
 * service can compare its texts with a key, so each key has a query of its own,
 * whose position identifies the row.
 */
extern void dv_batch_search(const dv_batch *batch, bool as_part, StringInfo body,
							const char **content_type);

/* Appends a $batch whose only part is a GET of this URL with these header lines. */
extern void dv_batch_read(const char *url, const char *const *headers, StringInfo body,
						  const char **content_type);

/* Returns the JSON object of a row as it was taken, for reports about it. */
extern const char *dv_batch_object(const dv_batch *batch, const dv_batch_row *row, size_t *len);

/* Returns the address of a row below the root, or NULL if it is the entity set with the id. */
extern const char *dv_batch_address(const dv_batch *batch, const dv_batch_row *row);

#endif							/* DV_BATCH_H */
