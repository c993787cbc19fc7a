/*
 * row.h
 *		Rows as writes and single reads address and change them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ROW_H
#define SIM_ROW_H

#include "store/store.h"
#include "store/value.h"

/* a key predicate, resolved against the schema but not yet against the rows */
struct sim_key
{
	struct sim_table *table;
	bool		by_id;			/* id (and partition) given; else by alternate key */
	unsigned char id[16];
	const char *partition;		/* elastic, NULL if not given */
	size_t		partition_len;
	bool		partition_named;	/* in the predicate, rather than in the body or an option */
	struct sim_key_def *def;
	struct sim_value *values;	/* in the order of def->columns */
	const char *text;			/* as written, for messages and OData-EntityId */
};

/* key.c: "guid", "accountid=guid", "name='x',no=4", "id=guid,partitionid='p'" (decoded, without parentheses) */
bool		sim_key_parse(struct sim_req *req, struct sim_res *res, struct sim_table *table, const char *text, struct sim_key *key);

/*
 * A reference as in @odata.bind, @odata.id and $ref bodies: absolute URL,
 * absolute path, relative to the service root, or "$1" in a changeset.
 * Fails with the service's codes for unknown sets and malformed keys.
 */
bool		sim_reference_parse(struct sim_req *req, struct sim_res *res, const char *s, size_t len, struct sim_key *key);

/* returns true if the body also sets a column that the key contains */
bool		sim_key_repeated(const struct sim_key *key, struct sim_json *object);

enum sim_found
{
	SIM_FOUND,
	SIM_MISSING,
	SIM_ERROR
};

/* finds the row: id, partition (elastic; arena) and version */
enum sim_found sim_row_find(struct sim_req *req, struct sim_res *res, struct sim_key *key, unsigned char id[16], int64_t *version);

/*
 * the service's 404 for a row that does not exist (0x80040217, or 0x80060891 for alternate keys)
 */
bool		sim_row_missing(struct sim_req *req, struct sim_res *res, struct sim_key *key);

#endif
