/*
 * read_back.c
 *		Reads rows back that have been written.
 *
 * RETURNING and triggers may want values that only the service knows: defaults,
 * computed columns, labels.  Many rows are read back at a time.  If an id
 * identifies a row, they are requested by a list of ids (fdw/scan/list.c).  Rows in
 * partitions, pairs, and rows that are identified by an alternate key are requested
 * by conditions on each of them.
 *
 * The service returns them in an order of its own.  Therefore each row has a name,
 * made of the values that identify it, and a row that is read belongs to all rows
 * of that name.  Only the service knows which alternate keys are equal, so the name
 * is made of their folds, and rows with the same fold are requested one by one.  So
 * are rows of this kind that are not found: their key may have been replaced by an
 * equal one.
 *
 * Rows that other clients have deleted are not found.  They keep the values of the
 * statement.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "dataverse/odata.h"
#include "fdw/modify/modify.h"
#include "fdw/scan/bind.h"
#include "fdw/scan/scan.h"
#include "net/text.h"

/* A query has at most 500 conditions. */
#define CONDITIONS_MAX 400
/* The approximate size of a condition without its value and the name of its column. */
#define CONDITION_BYTES 30

/* The ways to identify a row. */
typedef enum identifier
{
	BY_ID,
	BY_PARTITION,				/* and by the id, which is unique in it */
	BY_KEY,
	BY_PAIR,
	IDENTIFIERS
} identifier;

/*
 * Preparing
 */

/* Returns the columns that identify a row, besides the id if that is part of it. */
static const dv_modify_column *
columns_of(const dv_modify *m, identifier by, int *n)
{
	const dv_modify_identity *identity = &m->identity;
	dv_modify_column *sides;

	switch (by)
	{
		case BY_PARTITION:
			*n = identity->partition.attnum != 0;
			return &identity->partition;
		case BY_KEY:
			*n = identity->nkeys;
			return identity->keys;
		case BY_PAIR:
			*n = identity->sides[0].attnum != 0 ? 2 : 0;
			sides = palloc0(sizeof(dv_modify_column) * 2);
			sides[0].attnum = identity->sides[0].attnum;
			sides[1].attnum = identity->sides[1].attnum;
			return sides;
		default:
			*n = 0;
			return NULL;
	}
}

Bitmapset *
dv_read_back_columns(const dv_modify *m)
{
	Bitmapset  *attnums = NULL;
	identifier	by;

	for (by = BY_ID; by < IDENTIFIERS; by++)
	{
		int			n;
		const dv_modify_column *columns = columns_of(m, by, &n);

		while (n-- > 0)
			attnums = bms_add_member(attnums, columns[n].attnum);
	}
	return attnums;
}

/* Returns false if the row cannot be identified. */
static bool
identify(const dv_modify *m, const dv_modify_written *w, identifier *by)
{
	AttrNumber	partition = m->identity.partition.attnum;

	if (w->row.has_id)
		*by = partition != 0 && !heap_attisnull(w->tuple, partition, m->desc) ? BY_PARTITION : BY_ID;
	else if (m->identity.nkeys > 0)
		*by = BY_KEY;
	else
		*by = BY_PAIR;
	return *by != BY_PAIR || m->operation == DV_ASSOCIATE;
}

/*
 * Requesting rows
 */

/* A reader by a list of ids has their column; one by conditions has none. */
static dv_scan *
reader_of(dv_modify *m, dv_scan **reader, AttrNumber listed)
{
	MemoryContext old = MemoryContextSwitchTo(m->context);
	Bitmapset  *attnums = dv_read_back_columns(m);
	List	   *columns = NIL;
	int			i;

	for (i = 1; *reader == NULL && i <= m->relation->natts; i++)
		columns = lappend_int(columns, list_member_int(m->returned.read, i) ||
							  bms_is_member(i, attnums) ? i : 0);
	if (*reader == NULL)
		*reader = dv_scan_open(m->relation, m->userid, "read",
							   psprintf("read back from foreign table \"%s\"", m->relation->name),
							   columns, listed);
	MemoryContextSwitchTo(old);
	return *reader;
}

/* Returns a value as the operand of a condition. */
static const char *
operand_of(const dv_modify *m, const dv_modify_column *column, Datum value)
{
	const dv_attribute *attribute = dv_relation_attribute(m->relation, column->attnum);
	StringInfoData text;
	dv_misfit	misfit;
	char	   *from;

	if (attribute->pgtype == UUIDOID)
		return dv_id_text(DatumGetUUIDP(value)->data);
	if (dv_encoder_puts_text(column->encoder))
	{
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(attribute->pgtype, &output, &varlena);
		return dv_text_to_utf8(OidOutputFunctionCall(output, value));
	}
	initStringInfo(&text);
	if (!dv_encode(column->encoder, value, false, NULL, &text, &misfit))
		ereport(ERROR, (errcode(misfit.sqlstate), errmsg("%s", misfit.message)));
	from = strchr(text.data, ':') + 1;
	if (*from == '"')
	{
		from++;
		text.data[text.len - 1] = '\0';
	}
	return from;
}

/* Returns the conditions that match only this row. */
static List *
conditions_on(const dv_modify *m, const dv_modify_written *w, identifier by)
{
	List	   *conditions = NIL;
	int			n;
	const dv_modify_column *columns = columns_of(m, by, &n);
	int			i;

	if (w->row.has_id)
		conditions = list_make1(dv_filter_of(DV_EQ, &m->relation->primary_id,
											 dv_id_text(w->row.id)));
	for (i = 0; i < n; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(w->tuple, columns[i].attnum, m->desc, &isnull);

		conditions = lappend(conditions,
							 dv_filter_of(DV_EQ, &dv_relation_attribute(m->relation, columns[i].attnum)->column,
										  operand_of(m, &columns[i], value)));
	}
	return conditions;
}

static int
bytes_of(const List *conditions)
{
	int			bytes = 0;
	const ListCell *lc;

	foreach(lc, conditions)
	{
		const dv_filter *condition = lfirst(lc);

		bytes += CONDITION_BYTES + (int) strlen(condition->column->property) +
			(int) dv_odata_text_length(condition->operands[0].text);
	}
	return bytes;
}

static Datum
array_of_ids(const List *rows)
{
	Datum	   *ids = palloc(sizeof(Datum) * list_length(rows));
	const ListCell *lc;

	foreach(lc, rows)
		ids[foreach_current_index(lc)] =
			UUIDPGetDatum((pg_uuid_t *) ((dv_modify_written *) lfirst(lc))->row.id);
	return PointerGetDatum(construct_array(ids, list_length(rows), UUIDOID, UUID_LEN, false,
										   TYPALIGN_CHAR));
}

/*
 * Recognizing rows
 */

/*
 * Returns NULL if the row cannot be identified in this way.  Rows of different
 * kinds have different names.
 */
static const char *
name_of(const dv_modify *m, identifier by, const uint8 *id, HeapTuple tuple)
{
	StringInfoData name;
	int			n;
	const dv_modify_column *columns = columns_of(m, by, &n);
	int			i;

	if (by != BY_ID && n == 0)
		return NULL;
	initStringInfo(&name);
	appendStringInfo(&name, "%d %s", by,
					 by == BY_ID || by == BY_PARTITION ? dv_id_text(id) : "");
	for (i = 0; i < n; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, columns[i].attnum, m->desc, &isnull);

		if (isnull)
			return NULL;
		/* no fold contains this character, and after an id there is one value only */
		appendStringInfoChar(&name, '\n');
		if (by == BY_KEY)
			dv_encode_key_fold(columns[i].encoder, value, &name);
		else
			appendStringInfoString(&name, operand_of(m, &columns[i], value));
	}
	return name.data;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(((const dv_modify_written *) lfirst(a))->name,
				  ((const dv_modify_written *) lfirst(b))->name);
}

/*
 * Assigns the row that was read to the rows of this name.  Returns the number of rows that had
 * none.
 */
static int
assign(List *rows, const char *name, HeapTuple read, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	int			first = 0;
	int			end = list_length(rows);
	int			assigned = 0;

	while (first < end)
	{
		int			middle = first + (end - first) / 2;

		if (strcmp(((dv_modify_written *) list_nth(rows, middle))->name, name) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	for (; first < list_length(rows); first++)
	{
		dv_modify_written *w = list_nth(rows, first);

		if (strcmp(w->name, name) != 0)
			break;
		if (w->read != NULL)
			continue;
		w->read = heap_copytuple(read);
		assigned++;
	}
	MemoryContextSwitchTo(old);
	return assigned;
}

static HeapTuple
current_row(const dv_modify *m, dv_scan *reader)
{
	Datum	   *values = palloc(sizeof(Datum) * m->desc->natts);
	bool	   *isnull = palloc(sizeof(bool) * m->desc->natts);
	HeapTuple	tuple;

	dv_scan_row(reader, m->desc->natts, values, isnull);
	tuple = heap_form_tuple(m->desc, values, isnull);
	pfree(values);
	pfree(isnull);
	return tuple;
}

/* Reads the rows of a request until all of these are found.  Returns those that are not. */
static List *
take(const dv_modify *m, dv_scan *reader, List *rows, MemoryContext context)
{
	int			missing = list_length(rows);
	List	   *absent = NIL;
	ListCell   *lc;

	list_sort(rows, compare_names);
	while (missing > 0 && dv_scan_next(reader))
	{
		HeapTuple	read = current_row(m, reader);
		uint8		id[DV_ID_LEN];
		identifier	by = dv_scan_id(reader, id) ? BY_ID : BY_KEY;

		for (; by < IDENTIFIERS; by++)
		{
			const char *name = name_of(m, by, id, read);

			if (name != NULL)
				missing -= assign(rows, name, read, context);
		}
		heap_freetuple(read);
	}
	foreach(lc, rows)
		if (((dv_modify_written *) lfirst(lc))->read == NULL)
			absent = lappend(absent, lfirst(lc));
	return absent;
}

/*
 * Reading rows
 */

static void
read_alone(dv_modify *m, dv_modify_written *w, MemoryContext context)
{
	dv_scan    *reader = reader_of(m, &m->returned.by_conditions, 0);
	identifier	by;
	MemoryContext old;

	if (!identify(m, w, &by))
		return;
	dv_scan_ask(reader, dv_filter_join(DV_AND, conditions_on(m, w, by)), false, 1);
	if (!dv_scan_next(reader))
		return;
	old = MemoryContextSwitchTo(context);
	w->read = current_row(m, reader);
	MemoryContextSwitchTo(old);
}

/* An answer can lack existing rows, so we stop only after one that has none of them. */
static void
read_listed(dv_modify *m, List *rows, MemoryContext context)
{
	while (list_length(rows) > 1)
	{
		dv_scan    *reader = reader_of(m, &m->returned.by_ids, m->identity.id);
		List	   *absent;

		dv_scan_ask_listed(reader, array_of_ids(rows));
		absent = take(m, reader, rows, context);
		if (list_length(absent) == list_length(rows))
			return;
		rows = absent;
	}
	if (rows != NIL)
		read_alone(m, linitial(rows), context);
}

/* Requests as many of these rows as fit into a request, and returns the others. */
static List *
read_described(dv_modify *m, List *rows, MemoryContext context)
{
	List	   *described = NIL;
	List	   *filters = NIL;
	int			conditions = 0;
	int			bytes = 0;
	ListCell   *lc;
	dv_scan    *reader;

	foreach(lc, rows)
	{
		dv_modify_written *w = lfirst(lc);
		identifier	by;
		List	   *own;

		(void) identify(m, w, &by);
		own = conditions_on(m, w, by);
		conditions += list_length(own);
		bytes += bytes_of(own);
		if (described != NIL && (conditions > CONDITIONS_MAX || bytes > DV_CHUNK_BYTES))
			break;
		described = lappend(described, w);
		filters = lappend(filters, dv_filter_join(DV_AND, own));
	}
	rows = list_copy_tail(rows, list_length(described));
	if (list_length(described) > 1)
	{
		reader = reader_of(m, &m->returned.by_conditions, 0);
		dv_scan_ask(reader, dv_filter_join(DV_OR, filters), false, -1);
		described = take(m, reader, described, context);
	}
	foreach(lc, described)
		read_alone(m, lfirst(lc), context);
	return rows;
}

/* Removes the rows that have the same name as others, and reads them one by one. */
static List *
read_twins(dv_modify *m, List *rows, MemoryContext context)
{
	List	   *single = NIL;
	int			i;

	list_sort(rows, compare_names);
	for (i = 0; i < list_length(rows); i++)
	{
		const ListCell *cell = list_nth_cell(rows, i);

		if ((i > 0 && compare_names(cell, list_nth_cell(rows, i - 1)) == 0) ||
			(i + 1 < list_length(rows) && compare_names(cell, list_nth_cell(rows, i + 1)) == 0))
			read_alone(m, lfirst(cell), context);
		else
			single = lappend(single, lfirst(cell));
	}
	return single;
}

/* Returns true if the row lacks a value that only the service knows. */
static bool
lacks_value(const dv_modify *m, const dv_modify_written *w)
{
	ListCell   *lc;

	foreach(lc, m->returned.read)
		if (!list_member_int(m->returned.sent, lfirst_int(lc)) ||
			heap_attisnull(w->tuple, lfirst_int(lc), m->desc))
			return true;
	return false;
}

void
dv_read_back(dv_modify *m, List *rows, MemoryContext context)
{
	List	   *listed = NIL;
	List	   *described = NIL;
	List	   *keyed = NIL;
	ListCell   *lc;

	foreach(lc, rows)
	{
		dv_modify_written *w = lfirst(lc);
		identifier	by;

		w->complete = true;
		if (!lacks_value(m, w) || !identify(m, w, &by))
			continue;
		w->name = name_of(m, by, w->row.id, w->tuple);
		if (by == BY_KEY)
			keyed = lappend(keyed, w);
		else if (by == BY_ID && m->identity.id != 0)
			listed = lappend(listed, w);
		else
			described = lappend(described, w);
	}
	read_listed(m, listed, context);
	described = list_concat(described, read_twins(m, keyed, context));
	while (described != NIL)
		described = read_described(m, described, context);
}
