/*
 * row_write.h
 *		Changing rows: the interface shared by write.c, bulk.c, associate.c
 *		and jobs.c.
 *
 * A writer takes the JSON objects of one request for one table and one
 * operation.  The members of an object are resolved to columns once and the
 * SQL is prepared once; as long as the following objects have the same members
 * in the same order, only their values are read.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ROW_WRITE_H
#define SIM_ROW_WRITE_H

#include "write/row.h"

/* data about a table for writes; created on first use, lives until another schema is in use */
struct sim_write_info
{
	struct sim_table *table;
	const char *exists_sql;		/* ?1 id */
	const char *find_sql;		/* id, version, partition, ttl, modifiedon; ?1 id, ?2 partition */
	const char *delete_sql;		/* ?1 id, ?2 partition */
	struct sim_column *created_by;
	struct sim_column *created_on_behalf;
	struct sim_column *modified_by;
	struct sim_column *modified_on;
	struct sim_column *modified_on_behalf;
	struct sim_column *overridden;
	struct sim_column *owning_user;
	struct sim_column *owning_team;
	struct sim_column *owning_unit;
	struct sim_column *organization;
	struct sim_column *currency;
	struct sim_column *exchange_rate;
	struct sim_column *ttl;
	bool		has_files;
};

struct sim_write_info *sim_write_info(struct sim *sim, struct sim_table *table);

/* to be called when another schema is in use */
void		sim_write_info_forget(void);

/* key.c: systemuser or team, whose OData key is "ownerid" */
bool		sim_is_principal(const struct sim_table *table);

/* 400 0x80048d19 in the service's long wording; table may be NULL */
bool		sim_payload_fail(struct sim_req *req, struct sim_res *res, struct sim_table *table,
							 const char *fmt,...) __attribute__((format(printf, 4, 5)));

/* the request's body as a JSON object; a failure and NULL when it is none */
struct sim_json *sim_body_object(struct sim_req *req, struct sim_res *res, struct sim_table *table);

enum sim_write_mode
{
	SIM_WRITE_INSERT,
	SIM_WRITE_REPLACE,			/* elastic upsert: the whole row */
	SIM_WRITE_UPDATE
};

struct sim_plan;

struct sim_writer
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_table *table;
	struct sim_write_info *info;
	enum sim_write_mode mode;
	bool		bulk;			/* a bulk message: its own words for errors */
	bool		revives;		/* a row with an id may have been deleted before */
	int64_t		now;
	struct sim_plan *plan;		/* newest first */
	int			nplans;
	struct sim_plan *current;	/* of the row decoded last */
};

/*
 * One row on its way.  The caller sets "key" (upserts and updates by key)
 * before decoding; decoding fills the rest.  The values belong to the
 * writer's plan, so a row is written before the next one is decoded.
 */
struct sim_write_row
{
	const struct sim_key *key;	/* or NULL */
	bool		has_id;
	bool		has_partition;
	unsigned char id[16];
	const char *partition;		/* "" when none */
	size_t		partition_len;
	struct sim_json *odata_id;	/* "@odata.id" member */
	bool		typed;			/* had a correct "@odata.type" */
};

void		sim_writer_start(struct sim_writer *w, struct sim_req *req, struct sim_res *res,
							 struct sim_table *table, enum sim_write_mode mode);
bool		sim_writer_decode(struct sim_writer *w, struct sim_json *object,
							  struct sim_write_row *row);

/* gives the row an id if it has none, and writes it; children of deep inserts follow */
bool		sim_writer_insert(struct sim_writer *w, struct sim_json *object,
							  struct sim_write_row *row);

/* updates row->id (and partition); SIM_MISSING when there is no such row */
enum sim_found sim_writer_update(struct sim_writer *w, struct sim_write_row *row);
void		sim_writer_end(struct sim_writer *w);

/* identity of a target without decoding it: "@odata.id", the id column, partitionid */
bool		sim_target_identity(struct sim_req *req, struct sim_res *res, struct sim_table *table,
								struct sim_json *object, struct sim_key *key, bool *found);

/* one row from one object, in a transaction of the caller */
bool		sim_create_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						   struct sim_json *object, const struct sim_key *key,
						   struct sim_write_row *row);

/* deletes a row with its dependents (row_delete.c); the row must exist */
bool		sim_delete_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						   const unsigned char id[16], const char *partition, size_t partition_len);

/*
 * forgets that the row was deleted before: it exists again; unnecessary if nothing was ever
 * deleted
 */
bool		sim_any_tombstones(struct sim_store *store);
void		sim_forget_tombstone(struct sim *sim, struct sim_table *table,
								 const unsigned char id[16]);

/*
 * returns true if the row to which a reference points exists.  Elastic rows are not checked.
 * Resolves the id.
 */
bool		sim_reference_resolve(struct sim_req *req, struct sim_res *res, struct sim_key *key,
								  unsigned char id[16]);

/* translates the constraint that SQLite just reported to the service's refusal */
bool		sim_constraint_fail(struct sim_writer *w, struct sim_write_row *row);

/* adds the lookup to the row of that id to an object of the many side */
void		sim_bind_parent(struct sim_req *req, const struct sim_relationship *rel,
							const unsigned char id[16], struct sim_json *object);

/* associate.c: link a row of a collection ("nav" of the row "id" of "table") */
bool		sim_link(struct sim_req *req, struct sim_res *res, struct sim_table *table,
					 const unsigned char id[16], const char *nav, size_t len,
					 struct sim_key *other);
bool		sim_associate(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						  struct sim_key *key, char *rest);

/* bulk.c */
bool		sim_bulk(struct sim_req *req, struct sim_res *res, struct sim_table *table,
					 const char *message);

/* property.c: PUT, PATCH, DELETE of one property of a row */
bool		sim_write_property(struct sim_req *req, struct sim_res *res, struct sim_table *table,
							   struct sim_key *key, const char *property);

/*
 * property.c: content of file columns, kept beside the rows.  Reading gives
 * arena memory, NULL when there is no such file; dropping forgets the files
 * of all file columns of a row.
 */
const void *sim_file_read(struct sim_req *req, const unsigned char file_id[16], size_t *len);
void		sim_file_drop(struct sim *sim, struct sim_table *table, const unsigned char id[16]);

/* write.c: refuses tables that do not support such a message (intersect, virtual); 405 */
bool		sim_writable(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						 const char *method);
bool		sim_wrong_method(struct sim_req *req, struct sim_res *res);

#endif
