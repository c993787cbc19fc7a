/*
 * local_join.c
 *		Makes a join from reads of its tables, because the service refuses it.
 *
 * The root's rows are read in batches.  For each link, the keys that the rows of a
 * batch have in it are collected, and the rows with these keys are requested as a
 * list (fdw/scan/list.h), so neither table is ever kept as a whole.  Rows of links
 * are kept for the batches that follow, up to the memory of a hash table.  Since
 * no link multiplies rows (fdw/plan/plan_join.c), each row of the join is one of
 * the root's, in the root's order.
 *
 * A link may have a long list of its own, and a request has one such list only.  A
 * few keys are requested beside it.  Otherwise all rows of the link are read, once if
 * they fit into that memory, and else again for each batch.
 *
 * What is above the rows of a join does not notice: filters, LIMIT, and groups get
 * the same rows, however they are read.  The session remembers what was refused, and
 * the planner no longer offers it.
 *
 * If the service refuses a later part of a list after rows of earlier ones have
 * been returned, the tables are read for the rest of the list.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "fdw/condition.h"
#include "fdw/scan/scan_state.h"

/* Rows of the root in a batch: at most, at first, and at first if few rows are wanted. */
#define BATCH_ROWS 5000
#define FIRST_ROWS 1000
#define FEW_ROWS 100
/* How much larger or smaller the next batch can be. */
#define GROWTH 4
/* The most keys that are requested beside a list. */
#define FEW_KEYS 50

/* A value by which a table is linked to another one. */
typedef struct join_key
{
	bool		isnull;
	pg_uuid_t	id;
} join_key;

/* A row of a table. */
typedef struct table_row
{
	Datum	   *values;			/* of the columns that the join returns */
	bool	   *isnull;
	join_key   *keys;			/* for each link, indexed as tables; only of those that have this
								 * table as their parent */
} table_row;

/* What is known about a key of a link. */
typedef struct found_key
{
	pg_uuid_t	id;				/* must be the first member */
	bool		exists;			/* there are rows with it */
	table_row  *row;			/* if the join returns any of their columns, or has links to them */
} found_key;

typedef struct join_table
{
	dv_read_table plan;
	dv_scan    *scan;
	int			nvalues;		/* columns that the join returns; the columns of keys follow */
	int16	   *typlen;			/* of each of these columns */
	bool	   *typbyval;
	int			from;			/* column of the scan by which it is linked to its parent, */
	int			to;				/* and that of the parent's scan */
	HTAB	   *found;			/* of found_key */
	bool		listed;			/* its condition has a long list */
	bool		whole;			/* all rows that meet the condition are in "found" */
	bool		large;			/* they are too many for that */
} join_table;

/* Which column of which table is a column of the scan tuple. */
typedef struct join_column
{
	int			table;
	int			column;			/* -1: none */
} join_column;

/* A row of the join: a row of each table, or NULL. */
typedef table_row **join_row;

struct dv_local_join
{
	dv_scan    *scan;
	const char *refusal;		/* of which the session is still to be told, or NULL */
	MemoryContext context;		/* of the join itself, as long as the scan */
	MemoryContext whole;		/* rows of a link that are kept as a whole */
	MemoryContext links;		/* rows of other links, which are kept for several batches */
	MemoryContext batch;
	join_table *tables;
	int			ntables;
	join_column *columns;		/* of the scan tuple */
	int			ncolumns;

	/* the batch */
	join_row   *rows;
	int			nrows;
	int			most_rows;		/* 0: not known yet */
	Size		bytes_before;	/* of the rows of links, before those of the batch were added */
	bool		complete;		/* the rows of the links have been joined with it */
	bool		ended;			/* it is the last one */
	int			next;			/* the row to be returned next */
	join_row	current;
};

/*
 * Beginning
 */

/* Returns the position of a column in the rows of a table; it is added if it is new. */
static int
add_column(dv_read_plan *plan, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, plan->items)
	{
		if (((dv_read_item *) lfirst(lc))->attnum == attnum)
			return foreach_current_index(lc);
	}
	dv_read_plan_add_column(plan, 0, attnum);
	return list_length(plan->items) - 1;
}

/* Decides which columns are read of each table. */
static void
choose_columns(dv_local_join *j, dv_read_plan *plans)
{
	const dv_request *request = &j->scan->request;
	int			i;

	for (i = 0; i < j->ncolumns; i++)
	{
		const dv_source *source = &request->sources[i];
		join_column *column = &j->columns[i];

		column->table = source->item->table;
		column->column = -1;
		if (source->attribute == NULL)
			continue;
		column->column = add_column(&plans[column->table], source->item->attnum);
	}
	for (i = 0; i < j->ntables; i++)
		j->tables[i].nvalues = list_length(plans[i].items);
	for (i = 1; i < j->ntables; i++)
	{
		j->tables[i].from = add_column(&plans[i], j->tables[i].plan.from);
		j->tables[i].to = add_column(&plans[j->tables[i].plan.parent], j->tables[i].plan.to);
	}
}

/* Notes the types of the columns that the join returns. */
static void
note_types(join_table *table)
{
	int			i;

	table->typlen = palloc(sizeof(int16) * Max(table->nvalues, 1));
	table->typbyval = palloc(sizeof(bool) * Max(table->nvalues, 1));
	for (i = 0; i < table->nvalues; i++)
		get_typlenbyval(table->scan->request.sources[i].attribute->pgtype, &table->typlen[i],
						&table->typbyval[i]);
}

/* Room for the values of the join's conditions, and for a list of keys behind them. */
static dv_bound_value *
room_for_values(const dv_scan *scan)
{
	int			n = list_length(scan->values);
	dv_bound_value *values = palloc0(sizeof(*values) * (n + 1));

	values[n].type = UUIDARRAYOID;
	return values;
}

/*
 * Returns the condition of a link, and that its key is in the list.  Parts of a
 * conjunction stay apart, because some may be left out of a request.
 */
static List *
with_keys(const dv_local_join *j, const join_table *table)
{
	List	   *condition = table->plan.condition;
	List	   *keys = list_make4(makeInteger(DV_OP_IN), makeInteger(table->plan.from),
								  makeInteger(list_length(j->scan->values) - table->plan.first_value),
								  makeInteger(DV_CONDITION_EXACT | DV_CONDITION_LONG));

	if (condition == NIL)
		return keys;
	if (dv_condition_op(condition) == DV_OP_AND)
		return lappend(list_copy(condition), keys);
	return dv_condition_all(list_make2(condition, keys));
}

/* Creates the scan of a table.  A request has one long list only. */
static void
create_scan(dv_local_join *j, int i, dv_read_plan *plan)
{
	dv_scan    *join = j->scan;
	join_table *table = &j->tables[i];
	bool		listed = join->request.list_column != 0 && join->request.list_table == i;
	dv_read_table *read = dv_read_plan_add_table(plan);
	dv_scan    *scan;

	table->listed = i > 0 && listed;
	read->condition = i == 0 || listed ? table->plan.condition : with_keys(j, table);
	scan = dv_read_create(plan, &join->request.relations[i], NIL, join->userid,
						  i == 0 && join->most_ranges > 1);
	scan->request.values = room_for_values(join);
	scan->request.bindings[0].values = scan->request.values + table->plan.first_value;
	scan->operation = join->operation;
	scan->executor = join->executor;
	scan->stats = join->stats;
	scan->progress = dv_read_pages_spec(join).progress;
	scan->expected = i == 0 ? join->expected : -1;
	scan->wants = i == 0 ? dv_read_wants(join) : -1;
	scan->most_ranges = i == 0 ? join->most_ranges : 1;
	scan->automatic = join->automatic;
	scan->patient = i > 0 || join->patient;
	table->scan = scan;
	note_types(table);
}

static HTAB *
create_found(MemoryContext context)
{
	HASHCTL		control = {.keysize = sizeof(pg_uuid_t), .entrysize = sizeof(found_key), .hcxt = context};

	return hash_create("dataverse keys of a join", 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Forgets the rows of links, but those of tables that have been read as a whole. */
static void
forget_links(dv_local_join *j)
{
	int			i;

	MemoryContextReset(j->links);
	for (i = 1; i < j->ntables; i++)
		if (!j->tables[i].whole)
			j->tables[i].found = create_found(j->links);
}

static bool
is_all_outer(const dv_local_join *j)
{
	int			i;

	for (i = 1; i < j->ntables; i++)
		if (j->tables[i].plan.kind != DV_LINK_OUTER)
			return false;
	return true;
}

/* Begins with the current part of the join's list: the rows of those before have been returned. */
static void
start_scan(const dv_local_join *j, join_table *table, int64 wanted)
{
	dv_request *request = &table->scan->request;

	dv_read_restart(table->scan);
	dv_request_start(request, wanted);
	if (table == &j->tables[j->scan->request.list_table] && j->scan->request.list_column != 0)
		request->next_first = dv_request_listing(&j->scan->request)->first;
}

static dv_local_join *
create_join(dv_scan *scan)
{
	MemoryContext context = AllocSetContextCreate(scan->context, "dataverse join",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	dv_local_join *j = palloc0(sizeof(*j));
	dv_read_plan *plans;
	int			i;

	j->scan = scan;
	j->context = context;
	j->whole = AllocSetContextCreate(context, "dataverse listed links", ALLOCSET_DEFAULT_SIZES);
	j->links = AllocSetContextCreate(context, "dataverse links", ALLOCSET_DEFAULT_SIZES);
	j->batch = AllocSetContextCreate(context, "dataverse batch", ALLOCSET_DEFAULT_SIZES);
	j->ntables = scan->request.ntables;
	j->ncolumns = scan->request.nsources;
	j->tables = palloc0(sizeof(join_table) * j->ntables);
	j->columns = palloc0(sizeof(join_column) * Max(j->ncolumns, 1));
	j->rows = palloc(sizeof(join_row) * BATCH_ROWS);
	plans = palloc(sizeof(dv_read_plan) * j->ntables);
	for (i = 0; i < j->ntables; i++)
	{
		plans[i] = DV_READ_PLAN;
		j->tables[i].plan = *dv_read_plan_table(&scan->request.plan, i);
	}
	plans[0].orders = scan->request.plan.orders;
	choose_columns(j, plans);
	for (i = 0; i < j->ntables; i++)
		create_scan(j, i, &plans[i]);
	MemoryContextSwitchTo(old);
	return j;
}

/* Forgets what has been read, and ends all requests. */
static void
forget(dv_local_join *j)
{
	int			i;

	for (i = 0; i < j->ntables; i++)
		dv_read_restart(j->tables[i].scan);
	MemoryContextReset(j->whole);
	MemoryContextReset(j->batch);
	for (i = 1; i < j->ntables; i++)
		j->tables[i].whole = j->tables[i].large = false;
	forget_links(j);
	j->nrows = j->next = j->most_rows = 0;
	j->complete = j->ended = false;
}

void
dv_local_join_start(dv_scan *scan, const dv_error *refusal)
{
	dv_local_join *j = scan->local_join;
	int			i;

	if (j == NULL)
		j = scan->local_join = create_join(scan);
	forget(j);
	for (i = 0; i < j->ntables; i++)
		memcpy(j->tables[i].scan->request.values, scan->request.values,
			   sizeof(dv_bound_value) * list_length(scan->values));
	if (refusal != NULL)
		j->refusal = MemoryContextStrdup(j->context, refusal->message);
	start_scan(j, &j->tables[0], is_all_outer(j) ? scan->request.wanted : -1);
	scan->joined_here = true;
}

void
dv_local_join_leave(dv_scan *scan)
{
	if (scan->joined_here)
		forget(scan->local_join);
	scan->joined_here = false;
}

/*
 * Rows of tables
 */

/* Reads the value of a column that the table is linked by. */
static join_key
read_key(const dv_scan *scan, int column)
{
	const dv_value *value = &scan->members[scan->request.sources[column].members[0]];
	join_key	key = {.isnull = dv_value_is_null(value)};

	if (!key.isnull && dv_value_uuid(value, key.id.data) != DV_VALUE_OK)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not %s on server \"%s\": Dataverse returned a key that is no id",
						scan->what, dv_session_config_of(scan->session)->server_name)));
	return key;
}

/* Copies the current row of a table. */
static table_row *
copy_row(const dv_local_join *j, int table, MemoryContext context)
{
	const join_table *t = &j->tables[table];
	int			n = t->scan->request.nsources;
	table_row  *row = MemoryContextAllocZero(context, sizeof(*row));
	MemoryContext old;
	int			i;

	old = MemoryContextSwitchTo(context);
	row->values = palloc(sizeof(Datum) * n);
	row->isnull = palloc(sizeof(bool) * n);
	row->keys = palloc0(sizeof(join_key) * j->ntables);
	dv_scan_row(t->scan, n, row->values, row->isnull);
	for (i = 0; i < t->nvalues; i++)
		if (!row->isnull[i])
			row->values[i] = datumCopy(row->values[i], t->typbyval[i], t->typlen[i]);
	for (i = 1; i < j->ntables; i++)
		if (j->tables[i].plan.parent == table)
			row->keys[i] = read_key(t->scan, j->tables[i].to);
	MemoryContextSwitchTo(old);
	return row;
}

/*
 * Links
 */

/* Is a row of the link needed, or only whether there is one? */
static bool
needs_row(const join_table *link)
{
	return link->plan.kind == DV_LINK_INNER || link->plan.kind == DV_LINK_OUTER;
}

/* Takes the rows of a link that its scan returns.  Returns false if too many had to be kept. */
static bool
take_rows(dv_local_join *j, int i)
{
	join_table *link = &j->tables[i];
	MemoryContext context = link->whole ? j->whole : j->links;

	while (dv_read_next(link->scan) == DV_PAGES_ROW)
	{
		join_key	key = read_key(link->scan, link->from);
		found_key  *found;
		bool		known = true;

		CHECK_FOR_INTERRUPTS();
		if (link->whole && MemoryContextMemAllocated(context, true) >= get_hash_memory_limit())
			return false;
		if (key.isnull)
			continue;
		found = hash_search(link->found, &key.id, link->whole ? HASH_ENTER : HASH_FIND, &known);
		/* they may come with other rows */
		if (found == NULL)
			continue;
		if (!known)
			found->row = NULL;
		found->exists = true;
		if (needs_row(link) && found->row == NULL)
			found->row = copy_row(j, i, context);
	}
	return true;
}

/* Keeps all rows of a link with a list, unless they are too many. */
static void
read_whole(dv_local_join *j, int i)
{
	join_table *link = &j->tables[i];

	link->found = create_found(j->whole);
	link->whole = true;
	link->scan->request.within = NULL;
	start_scan(j, link, -1);
	if (take_rows(j, i))
		return;
	link->whole = false;
	link->large = true;
	MemoryContextReset(j->whole);
	link->found = create_found(j->links);
}

/* Returns a filter for the rows of a link with one of some keys. */
static dv_filter *
any_of(const join_table *link, found_key *const *keys, int n)
{
	const dv_attribute *attribute = dv_relation_attribute(link->scan->request.relations[0],
														  link->plan.from);
	List	   *parts = NIL;
	int			i;

	for (i = 0; i < n; i++)
		parts = lappend(parts, dv_filter_of(DV_EQ, &attribute->column,
											dv_id_text(keys[i]->id.data)));
	return dv_filter_join(DV_OR, parts);
}

/* Returns an array of the keys. */
static Datum
array_of(found_key *const *keys, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * n);
	int			i;

	for (i = 0; i < n; i++)
		values[i] = UUIDPGetDatum(&keys[i]->id);
	return PointerGetDatum(construct_array(values, n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR));
}

static const join_key *
key_of(const dv_local_join *j, const join_row row, int link)
{
	const table_row *parent = row[j->tables[link].plan.parent];

	return parent == NULL || parent->keys[link].isnull ? NULL : &parent->keys[link];
}

/*
 * Requests the rows of a link with keys that the batch has and of which nothing is known.
 * If the link has a list, only a few keys fit beside it: others are found among all its rows.
 */
static void
ask_for_keys(dv_local_join *j, int i)
{
	join_table *link = &j->tables[i];
	dv_bound_value *list = &link->scan->request.values[list_length(j->scan->values)];
	found_key **asked = palloc(sizeof(found_key *) * Max(j->nrows, 1));
	int			n = 0;
	int			k;

	for (k = 0; k < j->nrows; k++)
	{
		const join_key *key = key_of(j, j->rows[k], i);
		found_key  *found;
		bool		known;

		if (key == NULL)
			continue;
		found = hash_search(link->found, &key->id, HASH_ENTER, &known);
		if (known)
			continue;
		found->exists = false;
		found->row = NULL;
		asked[n++] = found;
	}
	if (n == 0)
		return;
	if (link->listed)
		link->scan->request.within = n <= FEW_KEYS ? any_of(link, asked, n) : NULL;
	else
	{
		list->value = array_of(asked, n);
		list->isnull = false;
	}
	start_scan(j, link, -1);
	(void) take_rows(j, i);
}

/* Joins the batch with a link. */
static void
join_link(dv_local_join *j, int i)
{
	join_table *link = &j->tables[i];
	int			kept = 0;
	int			k;

	if (link->listed && !link->whole && !link->large && j->nrows > FEW_KEYS)
		read_whole(j, i);
	if (!link->whole)
		ask_for_keys(j, i);
	for (k = 0; k < j->nrows; k++)
	{
		join_row	row = j->rows[k];
		const join_key *key = key_of(j, row, i);
		const found_key *found = key == NULL ? NULL :
		hash_search(link->found, &key->id, HASH_FIND, NULL);
		bool		exists = found != NULL && found->exists;

		if (link->plan.kind != DV_LINK_OUTER && exists == (link->plan.kind == DV_LINK_NOT_EXISTS))
			continue;
		row[i] = exists ? found->row : NULL;
		j->rows[kept++] = row;
	}
	j->nrows = kept;
}

/*
 * Rows of the join
 */

static bool
is_full(const dv_local_join *j)
{
	return j->nrows == j->most_rows ||
		MemoryContextMemAllocated(j->batch, false) >= get_hash_memory_limit();
}

/*
 * Decides how large the next batch is.  How much memory the rows of the links take is
 * known only when they have been read, so batches begin small.
 */
static void
choose_size(dv_local_join *j)
{
	Size		limit = get_hash_memory_limit();
	Size		bytes = MemoryContextMemAllocated(j->links, true);
	double		wants = dv_read_wants(j->scan);

	if (j->most_rows == 0)
		j->most_rows = wants > 0 ? (int) Min(Max(wants, FEW_ROWS), FIRST_ROWS) : FIRST_ROWS;
	else if (bytes - j->bytes_before > limit / 2)
		j->most_rows = Max(j->most_rows / GROWTH, 1);
	else if (bytes - j->bytes_before < limit / 2 / GROWTH)
		j->most_rows = Min(j->most_rows * GROWTH, BATCH_ROWS);
	if (bytes >= limit)
		forget_links(j);
	j->bytes_before = MemoryContextMemAllocated(j->links, true);
}

static void
start_batch(dv_local_join *j)
{
	choose_size(j);
	MemoryContextReset(j->batch);
	j->nrows = j->next = 0;
	j->current = NULL;
	j->complete = false;
}

/* Reads rows of the root until the batch is full.  Returns false if it has to wait. */
static bool
read_root(dv_local_join *j)
{
	while (!j->ended && !is_full(j))
	{
		dv_pages_state state = dv_read_next(j->tables[0].scan);
		join_row	row;

		CHECK_FOR_INTERRUPTS();
		if (state == DV_PAGES_WAITING)
			return false;
		if (state == DV_PAGES_END)
			j->ended = true;
		else
		{
			row = MemoryContextAllocZero(j->batch, sizeof(table_row *) * j->ntables);
			row[0] = copy_row(j, 0, j->batch);
			j->rows[j->nrows++] = row;
		}
	}
	return true;
}

static void
join_links(dv_local_join *j)
{
	MemoryContext old = MemoryContextSwitchTo(j->batch);
	dv_error	refusal = {.message = j->refusal};
	int			i;

	for (i = 1; i < j->ntables; i++)
		join_link(j, i);
	j->complete = true;
	MemoryContextSwitchTo(old);
	/* an error that the tables alone have is no fault of the join's */
	if (j->refusal != NULL)
		dv_read_plan_refuse_join(&j->scan->request.plan, j->scan->request.relations,
								 j->scan->session, &refusal);
	j->refusal = NULL;
}

dv_pages_state
dv_local_join_next(dv_local_join *j)
{
	j->scan->waiting = false;
	while (j->most_rows == 0 || j->next == j->nrows || !j->complete)
	{
		if (j->most_rows == 0 || j->complete)
		{
			if (j->ended)
				return DV_PAGES_END;
			start_batch(j);
		}
		if (!read_root(j))
		{
			j->scan->waiting = true;
			return DV_PAGES_WAITING;
		}
		join_links(j);
	}
	j->current = j->rows[j->next++];
	return DV_PAGES_ROW;
}

Datum
dv_local_join_value(const dv_local_join *j, int i, bool *isnull)
{
	const join_column *column = &j->columns[i];
	const table_row *row = column->column < 0 ? NULL : j->current[column->table];

	*isnull = row == NULL || row->isnull[column->column];
	return *isnull ? (Datum) 0 : row->values[column->column];
}

bool
dv_local_join_ready(const dv_local_join *j)
{
	return dv_scan_ready(j->tables[0].scan);
}

void
dv_local_join_count_unread(const dv_local_join *j)
{
	int			i;

	for (i = 0; i < j->ntables; i++)
		if (j->tables[i].scan->ranges != NULL)
			dv_ranges_count_unread(j->tables[i].scan->ranges);
}

void
dv_local_join_end(dv_local_join *j)
{
	int			i;

	for (i = 0; i < j->ntables; i++)
	{
		/* it belongs to the scan of the join */
		j->tables[i].scan->progress = NULL;
		dv_read_end(j->tables[i].scan);
	}
	MemoryContextDelete(j->context);
}
