/*
 * relation.h
 *		What a foreign table and its columns are in Dataverse.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RELATION_H
#define DV_RELATION_H

#include "access/attnum.h"
#include "dataverse/query.h"
#include "fdw/option.h"
#include "pool/progress.h"

typedef struct dv_attribute
{
	const char *name;			/* here, for messages; NULL: dropped or virtual */
	Oid			pgtype;
	int32		typmod;
	dv_column	column;			/* in the service; of labels and table names, the column they
								 * belong to */
	const char *member;			/* of a row: the property, or an annotation of it */
	bool		is_label;
	bool		is_table_name;
	bool		readonly;		/* the service does not let it be written */
	bool		natural;		/* its values here are those of the service, one to one */
	int			max_length;		/* of strings; 0: not known */
} dv_attribute;

typedef struct dv_relation
{
	Oid			relid;
	Oid			serverid;
	const char *name;
	dv_options	options;		/* the table's, then the server's */
	const char *table;			/* logical name */
	const char *entity_set;
	dv_table_type type;
	dv_column	primary_id;
	int			natts;
	dv_attribute *attributes;	/* [attnum - 1] */
} dv_relation;

/*
 * Reads the catalogues; raises if an option that is needed is missing or wrong.
 * All of it is in the current memory context.
 */
extern dv_relation *dv_relation_open(Oid relid);

extern const dv_attribute *dv_relation_attribute(const dv_relation *relation, AttrNumber attnum);

/*
 * The first column with the values of one of the service's, by its logical
 * name (NULL: of none), or also by its name here; 0: there is none.
 */
extern AttrNumber dv_relation_column_of(const dv_relation *relation, const char *name);
extern AttrNumber dv_relation_column_called(const dv_relation *relation, const char *name);

/* The column that says to which table this lookup refers; 0: there is none. */
extern AttrNumber dv_relation_table_name_of(const dv_relation *relation,
											const dv_attribute *lookup);

/* Rows to ask for at a time. */
extern int	dv_relation_page_size(const dv_relation *relation);

/* An operation on it that all may see; "total": rows expected, negative if not known. */
extern dv_progress *dv_relation_progress(const dv_relation *relation, const char *operation,
										 double total, MemoryContext owner);

/* Where a lookup can lead: an entry for each table that it can refer to, as far as options say. */
typedef struct dv_lookup
{
	List	   *tables;			/* logical names */
	List	   *sets;
	List	   *navigations;	/* properties that lead there; one may do for all */
} dv_lookup;

extern void dv_lookup_read(const dv_column *column, dv_options options, dv_lookup *lookup);

/* The property that leads to the table of that position. */
extern const char *dv_lookup_navigation(const dv_lookup *lookup, const dv_column *column, int i);

/* Of those lists; NULL: not said. */
extern const char *dv_lookup_name(const List *names, int i);

#endif							/* DV_RELATION_H */
