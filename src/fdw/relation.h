/*
 * relation.h
 *		Describes how a foreign table and its columns map to Dataverse.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RELATION_H
#define DV_RELATION_H

#include "access/attnum.h"
#include "nodes/parsenodes.h"

#include "dataverse/query.h"
#include "fdw/option.h"
#include "pool/progress.h"

typedef struct dv_attribute
{
	const char *name;			/* in the foreign table; NULL if dropped or virtual */
	Oid			pgtype;			/* if it is a domain, its base type */
	int32		typmod;
	Oid			domain;			/* or InvalidOid */
	bool		cut;			/* values that do not fit are cut instead of refused */
	dv_column	column;			/* in the service; for labels and table names, the column to which
								 * they belong */
	const char *member;			/* member of a row: the property, or an annotation of it */
	bool		is_label;
	bool		is_table_name;
	bool		readonly;		/* the service does not allow writing to it */
	bool		update_only;	/* the service ignores it when a row is created */
	bool		create_only;	/* the service ignores it when a row is updated */
	bool		unsorted;		/* the service does not sort by it, without raising an error */
	bool		helper;			/* the service supports no conditions on it */
	bool		primary_image;	/* the only image that a new row can have */
	bool		typed;			/* the type in the service is declared, not guessed */
	bool		natural;		/* values correspond to those of the service one to one */
	int			max_length;		/* of strings; 0 if unknown */
} dv_attribute;

typedef struct dv_relation
{
	Oid			relid;
	Oid			serverid;
	const char *name;
	dv_options	options;		/* of the table, then of the server */
	const char *table;			/* logical name */
	bool		named;			/* the name is certain: it is declared, or the primary id agrees */
	const char *entity_set;
	dv_table_type type;
	bool		full_text;		/* conditions may be answered from the full-text index */
	dv_column	primary_id;
	int			natts;
	dv_attribute *attributes;	/* [attnum - 1] */
	uint32		signature;		/* the same as long as none of this, and no option, is altered */
} dv_relation;

/*
 * Reads the catalogs.  Raises an error if a required option is missing or
 * invalid, or if a column that the code reads directly has an unexpected type.
 * Everything is allocated in the current memory context.
 */
extern dv_relation *dv_relation_open(Oid relid);

/*
 * The same for a foreign table that is the argument of a function.  Locks it if the
 * caller has one of these privileges on it or on a column.
 */
extern dv_relation *dv_relation_of(Oid relid, AclMode mode);

/*
 * Raises an error if the table's definition has changed since a statement was
 * planned.  A plan contains attribute numbers and values, and execution reads the
 * definition anew, so both must refer to the same types.  PostgreSQL plans a
 * statement again if another session has altered the table, but it plans all
 * statements of a function in SQL before it executes the first one.
 */
extern void dv_relation_check(const dv_relation *relation, uint32 signature);

/* Returns the name of any table with its schema, as statements have to write it. */
extern char *dv_relation_qualified_name(Oid relid);
extern Oid	dv_relation_owner(Oid relid);

/* Returns the options of the table and of its server, whether or not the table can be opened. */
extern dv_options dv_relation_options(Oid relid);

/*
 * Returns true if the column of an intersect table is one of the two ids of which its rows
 * consist.
 */
extern bool dv_relation_is_side(const dv_relation *relation, const dv_attribute *attribute);

extern const dv_attribute *dv_relation_attribute(const dv_relation *relation, AttrNumber attnum);

/*
 * Returns the first column that has the values of a column of the service, or
 * 0.  The first function takes the logical name, or NULL; the second also
 * accepts the name of the foreign table's column.
 */
extern AttrNumber dv_relation_column_of(const dv_relation *relation, const char *name);
extern AttrNumber dv_relation_column_called(const dv_relation *relation, const char *name);

/* Returns the column with the name of the table that this lookup refers to, or 0. */
extern AttrNumber dv_relation_table_name_of(const dv_relation *relation,
											const dv_attribute *lookup);

/* Returns the number of rows to request in a page. */
extern int	dv_relation_page_size(const dv_relation *relation);

/*
 * Shows an operation in dataverse.progress; "total" is the number of rows expected, negative if
 * unknown.
 */
extern dv_progress *dv_relation_progress(const dv_relation *relation, const char *operation,
										 double total, MemoryContext owner);

/* The tables that a lookup can refer to, as far as options specify them. */
typedef struct dv_lookup
{
	List	   *tables;			/* logical names */
	List	   *sets;
	List	   *navigations;	/* navigation properties; one may serve all tables */
} dv_lookup;

extern void dv_lookup_read(const dv_column *column, dv_options options, dv_lookup *lookup);

/* Returns the navigation property that leads to the table with index i. */
extern const char *dv_lookup_navigation(const dv_lookup *lookup, const dv_column *column, int i);

/* Returns an entry of one of these lists, or NULL if it is not specified. */
extern const char *dv_lookup_name(const List *names, int i);

#endif							/* DV_RELATION_H */
