/*
 * stage.c
 *		The rows of a query, stored in a table from which a push sends them.
 *
 * Rows go from the executor into the heap, many at a time, with their numbers and ids.  Values are
 * converted to the types of the table's columns as INSERT would convert them.  All pages are new,
 * so the rows lie in the order of their numbers.
 *
 * The query is a statement of the caller's, like any other.  Its columns become values of types
 * that the query does not name, so the guard is up while functions of users convert them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/scansup.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "compat.h"
#include "fdw/new_id.h"
#include "sync/run.h"
#include "sync/stage.h"

/* Rows are stored once there are so many of them, or so many bytes. */
#define MOST_ROWS 250
#define MOST_BYTES (64 * 1024)

/*
 * Without the map of free space, no row gets a place among earlier ones.  Rows of a table that
 * would vanish with them can be frozen at once, so that no scan has to ask who has inserted them.
 */
#define INSERT_OPTIONS (TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN)

typedef struct stage
{
	DestReceiver receiver;
	Relation	table;
	AttrNumber	number;
	AttrNumber	id;				/* 0: no ids are made */
	AttrNumber	own;			/* 0: they are made for all rows */
	ExprContext *econtext;
	ProjectionInfo *projection;
	bool		guarded;		/* functions of users convert values */
	pg_uuid_t	made;			/* the id of the current row */
	int64		rows;
	TupleTableSlot *slots[MOST_ROWS];	/* rows that are not stored yet */
	int			n;
	Size		bytes;
	BulkInsertState bulk;
} stage;

/*
 * Queries
 */

#define FORM "The query must be a single SELECT, VALUES, or TABLE command, optionally with WITH, and without parameters."

static void
hint_at_form(void *arg)
{
	if (geterrcode() == ERRCODE_SYNTAX_ERROR || geterrcode() == ERRCODE_UNDEFINED_PARAMETER)
		errhint(FORM);
}

/* Writes it as a subquery, which cannot be anything but a query. */
static char *
as_subquery(const char *query)
{
	int			len = strlen(query);

	while (len > 0 && (query[len - 1] == ';' || scanner_isspace(query[len - 1])))
		len--;
	return psprintf("SELECT q.* FROM (%.*s\n) AS q", len, query);
}

static TupleDesc
result_of(SPIPlanPtr query)
{
	return ((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(query)))->resultDesc;
}

SPIPlanPtr
dv_stage_prepare(const char *query)
{
	ErrorContextCallback hint = {.previous = error_context_stack, .callback = hint_at_form};
	SPIPlanPtr	plan;

	error_context_stack = &hint;
	plan = SPI_prepare(as_subquery(query), 0, NULL);
	error_context_stack = hint.previous;
	if (plan == NULL)
		elog(ERROR, "could not prepare a query: %s", SPI_result_code_string(SPI_result));
	/* parentheses could end the subquery */
	if (list_length(SPI_plan_get_plan_sources(plan)) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the query consists of several commands"),
				 errhint(FORM)));
	if (result_of(plan)->natts == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the query returns no columns"),
				 errhint("The columns of the query must have the names of columns of the foreign table: name them with AS.")));
	return plan;
}

ArrayType *
dv_stage_columns(SPIPlanPtr query)
{
	TupleDesc	result = result_of(query);
	Datum	   *names = palloc(sizeof(Datum) * result->natts);
	int			i;

	for (i = 0; i < result->natts; i++)
		names[i] = CStringGetTextDatum(NameStr(TupleDescAttr(result, i)->attname));
	return construct_array(names, result->natts, TEXTOID, -1, false, TYPALIGN_INT);
}

/*
 * Rows
 */

static bool
is_text(Oid type)
{
	return TypeCategory(type) == TYPCATEGORY_STRING;
}

/* Converts a column of the query to a column of the table. */
static Expr *
converted(Form_pg_attribute from, Form_pg_attribute to)
{
	Oid			type = from->atttypid;
	Node	   *value = (Node *) makeVar(1, from->attnum, type, from->atttypmod, from->attcollation, 0);

	/* a constant would have the type of the column if it were inserted into it */
	if (is_text(type) && !is_text(to->atttypid))
	{
		value = coerce_to_target_type(NULL, value, type, to->atttypid, -1,
									  COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
		type = to->atttypid;
	}
	if (value != NULL)
		value = coerce_to_target_type(NULL, value, type, to->atttypid, to->atttypmod,
									  COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s but expression is of type %s", NameStr(to->attname),
						format_type_be(to->atttypid), format_type_be(from->atttypid)),
				 errhint("You will need to rewrite or cast the expression.")));
	assign_expr_collations(NULL, value);
	return expression_planner((Expr *) value);
}

static bool
is_of_users(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

static bool
calls_users(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, CoerceToDomain) || check_functions_in_node(node, is_of_users, context) ||
		expression_tree_walker(node, calls_users, context);
}

static void
begin(DestReceiver *receiver, int operation, TupleDesc query)
{
	stage	   *s = (stage *) receiver;
	TupleDesc	desc = RelationGetDescr(s->table);
	TupleTableSlot *row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	List	   *values = NIL;
	int			level = dv_run_raise_guard();
	int			i;

	for (i = 0; i < query->natts; i++)
	{
		Form_pg_attribute from = TupleDescAttr(query, i);
		AttrNumber	to = get_attnum(RelationGetRelid(s->table), NameStr(from->attname));

		/* PostgreSQL analyzes the query again if a schema of the search path is gone */
		if (to == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the columns of the query have changed"),
					 errhint("Call the procedure again.")));
		values = lappend(values, makeTargetEntry(converted(from, TupleDescAttr(desc, to - 1)), to, NULL, false));
	}
	s->econtext = CreateStandaloneExprContext();
	s->projection = ExecBuildProjectionInfo(values, s->econtext, row, NULL, query);
	s->guarded = calls_users((Node *) values, NULL);
	AtEOXact_GUC(true, level);
	s->bulk = GetBulkInsertState();
	for (i = 0; i < desc->natts; i++)
		row->tts_isnull[i] = true;
}

static void
store(stage *s)
{
	MemoryContext context = MemoryContextSwitchTo(s->econtext->ecxt_per_tuple_memory);
	int			i;

	table_multi_insert(s->table, s->slots, s->n, GetCurrentCommandId(true), INSERT_OPTIONS, s->bulk);
	for (i = 0; i < s->n; i++)
		ExecClearTuple(s->slots[i]);
	s->n = 0;
	s->bytes = 0;
	MemoryContextSwitchTo(context);
}

static void
make_id(stage *s, TupleTableSlot *row)
{
	bool		is_own = s->own == 0 || row->tts_isnull[s->id - 1];

	if (is_own)
	{
		dv_new_id(s->made.data);
		row->tts_values[s->id - 1] = UUIDPGetDatum(&s->made);
		row->tts_isnull[s->id - 1] = false;
	}
	if (s->own != 0)
	{
		row->tts_values[s->own - 1] = BoolGetDatum(is_own);
		row->tts_isnull[s->own - 1] = false;
	}
}

/* Converts a row of the query. */
static TupleTableSlot *
convert(stage *s, TupleTableSlot *slot)
{
	TupleTableSlot *row;
	int			level = s->guarded ? dv_run_raise_guard() : 0;

	ResetExprContext(s->econtext);
	s->econtext->ecxt_scantuple = slot;
	row = ExecProject(s->projection);
	if (s->guarded)
		AtEOXact_GUC(true, level);
	return row;
}

static bool
receive(TupleTableSlot *slot, DestReceiver *receiver)
{
	stage	   *s = (stage *) receiver;
	TupleTableSlot *row = convert(s, slot);
	HeapTuple	tuple;

	row->tts_values[s->number - 1] = Int64GetDatum(++s->rows);
	row->tts_isnull[s->number - 1] = false;
	if (s->id != 0)
		make_id(s, row);
	if (s->slots[s->n] == NULL)
		s->slots[s->n] = table_slot_create(s->table, NULL);
	ExecCopySlot(s->slots[s->n], row);
	tuple = ExecFetchSlotHeapTuple(s->slots[s->n], false, NULL);
	s->bytes += tuple->t_len;
	/* functions of the query can remove values that are stored out of line */
	if (++s->n == MOST_ROWS || s->bytes > MOST_BYTES || HeapTupleHasExternal(tuple))
		store(s);
	return true;
}

static void
end(DestReceiver *receiver)
{
	stage	   *s = (stage *) receiver;
	int			i;

	if (s->n > 0)
		store(s);
	for (i = 0; i < MOST_ROWS && s->slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(s->slots[i]);
	ExecDropSingleTupleTableSlot(s->projection->pi_state.resultslot);
	FreeBulkInsertState(s->bulk);
	FreeExprContext(s->econtext, true);
	table_finish_bulk_insert(s->table, INSERT_OPTIONS);
}

static void
destroy(DestReceiver *receiver)
{
}

int64
dv_stage_fill(SPIPlanPtr query, Oid table, const char *id)
{
	stage		s = {
		.receiver = {receive, begin, end, destroy, DestNone},
		.table = table_open(table, RowExclusiveLock),
		.number = get_attnum(table, "row number"),
		.id = id != NULL ? get_attnum(table, id) : 0,
		.own = get_attnum(table, "own id")
	};
	SPIExecuteOptions options = {.must_return_tuples = true, .dest = &s.receiver};
	int			status = SPI_execute_plan_extended(query, &options);

	if (status < 0)
		elog(ERROR, "could not execute a query: %s", SPI_result_code_string(status));
	table_close(s.table, NoLock);
	return s.rows;
}
