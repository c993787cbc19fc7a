/*
 * schema.h
 *		The tables, columns, keys and relationships of the organisation.
 *
 * Read from a JSON file (schema.json, or --schema) and never changed, so every
 * pointer handed out stays valid during a request.  Between two requests, the
 * list of a table's keys can change (metadata_keys.c), and another schema can
 * take the place of this one (drift.c).  The loader adds system columns
 * (owner, state, audit, version) according to the ownership of the table;
 * schema.json has only the rest.  See README.md for the file's format.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SCHEMA_H
#define SIM_SCHEMA_H

#include "store/mem.h"

enum sim_type
{
	SIM_UUID,
	SIM_STRING,
	SIM_MEMO,
	SIM_INTEGER,
	SIM_BIGINT,
	SIM_DECIMAL,
	SIM_MONEY,
	SIM_DOUBLE,
	SIM_BOOLEAN,
	SIM_PICKLIST,
	SIM_STATE,
	SIM_STATUS,
	SIM_MULTISELECT,
	SIM_DATETIME,
	SIM_LOOKUP,
	SIM_CUSTOMER,
	SIM_OWNER,
	SIM_PARTYLIST,
	SIM_ENTITYNAME,
	SIM_IMAGE,
	SIM_FILE,
	SIM_MANAGED,
	SIM_VIRTUAL,
	SIM_TYPES
};

enum sim_behaviour
{
	SIM_USER_LOCAL,
	SIM_DATE_ONLY,
	SIM_ZONE_INDEPENDENT
};

enum sim_table_type
{
	SIM_STANDARD,
	SIM_ELASTIC,
	SIM_VIRTUAL_TABLE,
	SIM_INTERSECT
};

enum sim_ownership
{
	SIM_USER_OWNED,
	SIM_ORGANIZATION_OWNED,
	SIM_BUSINESS_OWNED,
	SIM_OWNED_BY_NONE
};

enum sim_cascade
{
	SIM_REMOVE_LINK,
	SIM_RESTRICT,
	SIM_CASCADE
};

struct sim_option
{
	int			value;
	const char *label;
	int			state;			/* status columns: the state it belongs to */
	bool		is_default;		/* status columns: default of its state */
};

struct sim_option_set
{
	const char *name;
	bool global;
	struct sim_option *options;
	int			n;
};

/* one target of a lookup: the table to whose rows it may point, and the property that binds it */
struct sim_target
{
	struct sim_table *table;
	const char *navigation;		/* case-sensitive */
	struct sim_relationship *relationship;
};

struct sim_column
{
	struct sim_table *table;
	int			ordinal;		/* position in table->columns */
	const char *name;			/* logical name; also the SQL column's name */
	const char *schema_name;
	const char *label;
	enum sim_type type;
	enum sim_behaviour behaviour;
	bool		date_format;	/* Format DateOnly (display) */
	bool		valid_for_create;
	bool		valid_for_read;
	bool		valid_for_update;
	bool		primary_id;
	bool		primary_name;
	bool		is_logical;
	bool		custom;
	bool		selectable;		/* has a property in the Web API */
	bool		stored;			/* has a SQL column; false for partylist, virtual and calculated
								 * ones */
	bool		filterable;		/* may be part of conditions and orders */
	const char *attribute_of;	/* helper column of that column, or NULL */
	const char *formula;		/* calculated: SQL expression over columns of the row, or NULL */
	int			source_type;	/* 0 simple, 1 calculated, 2 rollup, 3 formula */
	int			required;		/* 0 None, 1 ApplicationRequired, 2 SystemRequired */
	const char *format;			/* Text, Email, Json, Duration … */
	int			max_length;		/* strings, in UTF-16 units */
	int			precision;		/* decimal, money, double: digits after the point */
	const char *min_value;		/* as in metadata, decimal text */
	const char *max_value;
	int64_t		min_int;		/* integer, bigint */
	int64_t		max_int;
	struct sim_option_set *options;
	struct sim_target *targets;
	int			ntargets;		/* >1: polymorphic, SQL column "name.type" holds the target's
								 * logical name */
	int			default_value;	/* boolean, picklist: applied on create when has_default */
	bool		has_default;
	bool		autonumber;
	const char *autonumber_format;
	const char *property;		/* JSON member: "name" or "_name_value" */
	char		metadata_id[37];
};

struct sim_key_def				/* alternate key */
{
	const char *name;			/* logical name */
	const char *schema_name;
	const char *label;
	struct sim_column **columns;
	int			n;
	const char *status;			/* Active, Pending … */
	bool		synchronous;	/* its index was not created by a job */
	char		async_job[37];	/* the job that creates its index, or "" */
	char		metadata_id[37];
};

struct sim_relationship			/* N:1 seen from the referencing table */
{
	const char *schema_name;
	struct sim_column *column;	/* referencing attribute */
	struct sim_table *referencing;
	struct sim_table *referenced;
	const char *navigation;		/* on the referencing table */
	const char *collection;		/* on the referenced table */
	enum sim_cascade on_delete;
	bool		custom;
	char		metadata_id[37];
};

struct sim_many					/* N:N */
{
	const char *schema_name;
	struct sim_table *intersect;
	struct sim_table *table1;
	struct sim_table *table2;
	struct sim_column *column1; /* of the intersect table */
	struct sim_column *column2;
	const char *navigation1;	/* collection on table1 that lists rows of table2 */
	const char *navigation2;
	char		metadata_id[37];
};

/* how bulk messages that a table does not have are refused; environments differ in this */
enum sim_bulk_refusal
{
	SIM_BULK_NO_SEGMENT,
	SIM_BULK_NOT_ENABLED,
	SIM_BULK_NOT_SUPPORTED,
	SIM_BULK_NOT_FOUND,
	SIM_BULK_REFUSALS
};

struct sim_table
{
	const char *name;			/* logical name; also the SQL table's name */
	const char *schema_name;
	const char *set_name;		/* entity set */
	const char *label;
	const char *collection_label;
	int			type_code;
	enum sim_table_type type;
	enum sim_ownership ownership;
	bool		custom;
	bool		activity;
	bool		system;			/* solutions, asyncoperations …: not listed by /_dvsim/stats
								 * unless used */
	bool		has_state;
	bool		bumps_modifiedon;	/* updates set it, as nearly everywhere */
	bool		change_tracking;
	bool		optimistic_concurrency;
	bool		create_multiple;	/* sdkmessagefilters has the message */
	bool		update_multiple;
	bool		delete_multiple;	/* elastic */
	enum sim_bulk_refusal bulk_refusal;
	struct sim_column *columns;
	int			ncolumns;
	struct sim_column *id;		/* primary id */
	struct sim_column *primary_name;	/* or NULL */
	struct sim_column *partition;	/* elastic: partitionid */
	struct sim_column *state;
	struct sim_column *status;
	struct sim_column *owner;
	struct sim_column *created_on;
	struct sim_column *version; /* versionnumber */
	struct sim_key_def *keys;
	int			nkeys;
	int64_t		changed_on;		/* when its definition last changed (virtual Unix time); 0: never */
	int64_t		tracked_since;	/* older delta tokens have expired; 0: tracked from the start */
	struct sim_relationship **many_to_one;
	int			nmany_to_one;
	struct sim_relationship **one_to_many;
	int			none_to_many;
	struct sim_many **many_to_many;
	int			nmany_to_many;
	const char **solutions;		/* unique names of the solutions to which it belongs */
	int			nsolutions;
	char		metadata_id[37];
	void	   *store;			/* store.c's own */
	struct sim_index *index;	/* schema_index.c's own */
};

struct sim_schema
{
	struct sim_table *tables;
	int			ntables;
	struct sim_relationship *relationships;
	int			nrelationships;
	struct sim_many *many;
	int			nmany;
	struct sim_option_set **option_sets;	/* the global ones */
	int			noption_sets;
	struct json_object *root;	/* the file, with the core tables that it lacks */
	struct json_object *rows;	/* rows that exist from the start ("rows" of the file) */
	int			changes;		/* made since the start (drift.c) */
	struct sim_schema *next;	/* of those that were replaced (drift.c) */
	struct sim_arena *arena;	/* everything above lives here */
	struct sim_index *index;	/* schema_index.c's own */
};

/* from a file, or the built-in one if path is NULL; on failure NULL and a message on stderr */
struct sim_schema *sim_schema_load(const char *path);

/* from the "root" of another schema, edited; on failure NULL and sim_schema_error() */
struct sim_schema *sim_schema_build(struct json_object *root);
const char *sim_schema_error(void);
void		sim_schema_free(struct sim_schema *schema);

/* all look-ups are hashed; NULL if there is none; names are case-sensitive */
struct sim_table *sim_table_by_name(struct sim_schema *schema, const char *logical_name);
struct sim_table *sim_table_by_set(struct sim_schema *schema, const char *set_name, size_t len);
struct sim_column *sim_column_by_name(struct sim_table *table, const char *name, size_t len);
struct sim_column *sim_column_by_property(struct sim_table *table, const char *property, size_t len);

/* a lookup's navigation property: the column, and which of its targets ("ownerid" has several: target is NULL then) */
struct sim_column *sim_column_by_navigation(struct sim_table *table, const char *name, size_t len, struct sim_target **target);
struct sim_relationship *sim_collection_by_name(struct sim_table *table, const char *name, size_t len);
struct sim_many *sim_many_by_name(struct sim_table *table, const char *name, size_t len);

/*
 * returns the column with a money column's amount in the organization's currency; NULL if that is
 * the column itself or there is none
 */
struct sim_column *sim_base_money(const struct sim_column *column);

/* the first image column of a table; a new row can have no other image */
bool		sim_is_primary_image(const struct sim_column *column);
struct sim_option *sim_option_by_value(const struct sim_option_set *set, int value);

/* calculated and formula columns: the service silently ignores such an order */
bool		sim_column_ignores_order(const struct sim_column *column);
const char *sim_type_name(enum sim_type type);	/* "StringType" */

#endif
