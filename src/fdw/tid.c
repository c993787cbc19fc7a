/*
 * tid.c
 *		The ctid of rows of the service.
 *
 * A row of the service has an id, but no place in a file.  However, clients rely on
 * a ctid to identify a row: some delete rows in batches (ctid = ANY (ARRAY(SELECT
 * ctid ...))), some find duplicates by it, and postgres_fdw updates and deletes the
 * rows that it has read by their ctid.  If all rows had the same ctid, such
 * statements would write all rows.
 *
 * So the session numbers the rows whose ctid is read, in the order in which it sees
 * them, and remembers the number of each row.  Within a session, a ctid is therefore
 * as good as an id.  A condition that a ctid equals a value is sent to the service
 * as a condition on the id (fdw/plan/ship.c, fdw/scan/bind.c), and is checked
 * locally as well.
 *
 * What must never happen is that a ctid means another row than its user thinks:
 * - The first number is random, among 2^46.  A ctid that another session has
 *	 read (connection poolers hand sessions around) is one of ours by a chance of
 *	 one in ten millions at most, when this session knows as many rows as it can.
 * - The block number of such a ctid has its highest bit set, as no table of
 *	 PostgreSQL is that large.  A value with this bit that the session does not know
 *	 raises an error when it is looked up.  A value without it matches no row.
 * - The numbers say nothing about places, and they differ from one session to
 *	 another.  Clients that read a table block by block, or share it among sessions
 *	 by hashing, would miss rows without noticing.  So conditions may compare a
 *	 ctid for equality, and its order only with that of other rows.
 *
 * The memory for this is bounded.  The numbers are forgotten when half of it is in
 * use and a query begins that reads a ctid while no other query does.  Concurrent
 * queries raise an error if they read the ctid of more rows than can be remembered.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "dataverse/batch.h"
#include "fdw/operator.h"
#include "fdw/result_relation.h"
#include "fdw/tid.h"

/* The most rows that are remembered; they take up some 60 MB. */
#define MOST_ROWS ((uint32) 1 << 20)
#define FIRST_ROWS ((uint32) 1 << 10)

/* A number is 31 bits of the block and 15 of the offset. */
#define OFFSET_BITS 15
#define FIRST_BLOCK ((BlockNumber) 1 << 31)
#define MOST_NUMBERS (((uint64) 1 << (31 + OFFSET_BITS)) - MOST_ROWS - ((uint64) 1 << OFFSET_BITS))

/* In elastic tables, rows of different partitions can have the same id. */
typedef struct tid_row
{
	uint8		id[DV_ID_LEN];
	uint64		partition;		/* a hash; 0: none */
	Oid			relid;
} tid_row;

/* Finds the number of a row, counted from the first one; the rows are in the table's private data. */
typedef struct tid_entry
{
	uint32		index;
	uint32		hash;
	char		status;
} tid_entry;

static uint32 hash_of(const tid_row *row);
static bool is_same(const tid_row *a, const tid_row *b);

#define ROW(tb, i) (&((tid_row *) (tb)->private_data)[i])
#define SH_PREFIX tids
#define SH_ELEMENT_TYPE tid_entry
#define SH_KEY_TYPE uint32
#define SH_KEY index
#define SH_HASH_KEY(tb, k) hash_of(ROW(tb, k))
#define SH_EQUAL(tb, k, l) is_same(ROW(tb, k), ROW(tb, l))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, e) (e)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The rows that this session remembers. */
static struct
{
	MemoryContext context;		/* NULL: nothing */
	uint64		first;			/* number of the first row */
	tid_row    *rows;
	uint32		nrows;
	uint32		room;			/* number of rows that fit, plus one that is being looked up */
	tids_hash  *numbers;
	int			holders;
}			known;

static uint32
hash_of(const tid_row *row)
{
	uint32		hash = hash_bytes(row->id, DV_ID_LEN);

	return hash_combine(hash, hash_combine(murmurhash32(row->relid), (uint32) row->partition));
}

static bool
is_same(const tid_row *a, const tid_row *b)
{
	return a->relid == b->relid && a->partition == b->partition &&
		memcmp(a->id, b->id, DV_ID_LEN) == 0;
}

/*
 * The rows that are remembered
 */

static void
forget(void)
{
	if (known.context != NULL)
		MemoryContextDelete(known.context);
	known.context = NULL;
	known.nrows = 0;
}

static void
begin(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "dataverse ctids",
												  ALLOCSET_DEFAULT_SIZES);
	uint64		random;

	known.nrows = 0;
	known.room = FIRST_ROWS;
	known.rows = MemoryContextAlloc(context, (known.room + 1) * sizeof(tid_row));
	known.numbers = tids_create(context, FIRST_ROWS, known.rows);
	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	known.first = random % MOST_NUMBERS;
	known.context = context;
}

static void
enlarge(void)
{
	if (known.room >= MOST_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many rows of foreign tables with a ctid"),
				 errdetail("Queries that read \"ctid\" can return up to %u different rows, because the session has to remember which row each ctid identifies.",
						   MOST_ROWS),
				 errhint("Use the primary id of the rows instead.")));
	known.rows = repalloc(known.rows, (known.room * 2 + 1) * sizeof(tid_row));
	known.room *= 2;
	known.numbers->private_data = known.rows;
}

/* Returns where to put the row that is being looked up. */
static tid_row *
candidate(void)
{
	if (known.context == NULL)
		begin();
	if (known.nrows == known.room)
		enlarge();
	return &known.rows[known.nrows];
}

/* Returns the number of this row, a new one if the row has not been seen before. */
static uint64
number_of_candidate(void)
{
	bool		found;
	const tid_entry *entry = tids_insert(known.numbers, known.nrows, &found);

	if (!found)
		known.nrows++;
	return known.first + entry->index;
}

static void
release(void *arg)
{
	known.holders--;
}

void
dv_tid_hold(MemoryContext context)
{
	MemoryContextCallback *callback = MemoryContextAllocZero(context, sizeof(*callback));

	if (known.holders == 0 && known.nrows > MOST_ROWS / 2)
		forget();
	callback->func = release;
	MemoryContextRegisterResetCallback(context, callback);
	known.holders++;
}

/*
 * Rows
 */

static uint64
hash_of_partition(TupleTableSlot *slot, AttrNumber attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, attnum, &isnull);
	Oid			output;
	bool		varlena;
	char	   *text;

	if (isnull)
		return 0;
	getTypeOutputInfo(TupleDescAttr(slot->tts_tupleDescriptor, attnum - 1)->atttypid, &output,
					  &varlena);
	text = OidOutputFunctionCall(output, value);
	return hash_bytes_extended((unsigned char *) text, strlen(text), 0);
}

dv_tid_source
dv_tid_source_of(const dv_relation *relation)
{
	dv_tid_source source = {.relid = relation->relid};

	dv_resultrel_keys(relation, &source.id, &source.partition);
	return source;
}

Bitmapset *
dv_tid_columns(const dv_relation *relation)
{
	dv_tid_source source = dv_tid_source_of(relation);
	Bitmapset  *columns = bms_make_singleton(source.id - FirstLowInvalidHeapAttributeNumber);

	if (source.partition != 0)
		columns = bms_add_member(columns, source.partition - FirstLowInvalidHeapAttributeNumber);
	return columns;
}

void
dv_slot_add_tid(const dv_tid_source *source, TupleTableSlot *slot)
{
	tid_row    *row = candidate();
	uint64		number;
	bool		isnull;
	Datum		value;

	value = slot_getattr(slot, source->id, &isnull);
	memset(row, 0, sizeof(*row));
	row->relid = source->relid;
	if (source->partition != 0)
		row->partition = hash_of_partition(slot, source->partition);
	if (!isnull)
		memcpy(row->id, DatumGetUUIDP(value)->data, DV_ID_LEN);
	/* a row that was deleted before RETURNING could read its id gets a ctid of its own */
	number = isnull ? known.first + known.nrows++ : number_of_candidate();
	ItemPointerSet(&slot->tts_tid, FIRST_BLOCK + (BlockNumber) (number >> OFFSET_BITS),
				   (number & ((1 << OFFSET_BITS) - 1)) + 1);
}

const uint8 *
dv_tid_row(const dv_relation *relation, ItemPointer tid)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	uint64		number;

	if (block < FIRST_BLOCK)
		return NULL;
	number = ((uint64) (block - FIRST_BLOCK) << OFFSET_BITS) + offset - 1;
	if (known.context == NULL || offset == 0 || offset > 1 << OFFSET_BITS ||
		number < known.first || number - known.first >= known.nrows)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ctid (%u,%u) of foreign table \"%s\" is not known to this session", block,
						offset, relation->name),
				 errdetail("A row in Dataverse has a ctid only in the session that has read it, and only until this session has read many others."),
				 errhint("Use the primary id of the rows instead.")));
	number -= known.first;
	return known.rows[number].relid == relation->relid ? known.rows[number].id : NULL;
}

/*
 * Expressions
 */

bool
dv_is_tid(const Node *node, Index relid)
{
	const Var  *var = (const Var *) node;

	return IsA(var, Var) && var->varattno == SelfItemPointerAttributeNumber &&
		var->varno == (int) relid && var->varlevelsup == 0;
}

static bool
find_tid(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varattno == SelfItemPointerAttributeNumber;
	return expression_tree_walker(node, find_tid, context);
}

bool
dv_reads_tid(List *expressions)
{
	return find_tid((Node *) expressions, NULL);
}

/*
 * Returns true if the expression can have a ctid that this session has read.  Constants and
 * parameters come from elsewhere.
 */
static bool
comes_from_rows(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) || IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) ||
		(IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC))
		return true;
	return expression_tree_walker(node, comes_from_rows, context);
}

/* Returns the arguments of a node that may contain a plain ctid, or NIL if there are none. */
static List *
arguments_for_tid(Node *node)
{
	dv_op		op;
	List	   *args;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
			op = dv_operator_of(((OpExpr *) node)->opno)->op;
			args = ((OpExpr *) node)->args;
			if (op == DV_OP_EQ || op == DV_OP_NE)
				return args;
			if (op != DV_OP_OTHER && list_length(args) == 2 &&
				comes_from_rows(linitial(args), NULL) && comes_from_rows(lsecond(args), NULL))
				return args;
			return NIL;
		case T_ScalarArrayOpExpr:
			op = dv_operator_of(((ScalarArrayOpExpr *) node)->opno)->op;
			return op == DV_OP_EQ || op == DV_OP_NE ? ((ScalarArrayOpExpr *) node)->args : NIL;
		case T_NullTest:
			return list_make1(((NullTest *) node)->arg);
		case T_SubPlan:
			return ((SubPlan *) node)->args;
		default:
			return NIL;
	}
}

/* Returns true if a ctid is used in any other way. */
static bool
is_misused(Node *node, void *context)
{
	Index		relid = *(Index *) context;
	List	   *args;
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (dv_is_tid(node, relid))
		return true;
	args = arguments_for_tid(node);
	if (args == NIL)
		return expression_tree_walker(node, is_misused, context);
	foreach(lc, args)
	{
		if (!dv_is_tid(lfirst(lc), relid) && is_misused(lfirst(lc), context))
			return true;
	}
	return IsA(node, SubPlan) && is_misused(((SubPlan *) node)->testexpr, context);
}

static void
check_columns(const dv_relation *relation, const dv_tid_source *source)
{
	const char *partition = relation->type != DV_TABLE_ELASTIC ? NULL :
	dv_option_text(relation->options, DV_OPT_PARTITION_ID);
	bool		has_id = source->id != 0 && relation->attributes[source->id - 1].pgtype == UUIDOID;

	if (has_id && (source->partition != 0 || partition == NULL))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
			 errmsg("foreign table \"%s\" does not have the column that identifies its rows",
					relation->name),
			 errdetail("Column \"ctid\" needs column \"%s\" of table \"%s\".",
					   has_id ? partition : relation->primary_id.name, relation->table),
			 errhint("Add the column with ALTER FOREIGN TABLE.")));
}

void
dv_tid_check(const dv_relation *relation, Index relid, List *clauses)
{
	dv_tid_source source = dv_tid_source_of(relation);
	ListCell   *lc;

	check_columns(relation, &source);
	foreach(lc, clauses)
	{
		if (is_misused((Node *) lfirst_node(RestrictInfo, lc)->clause, &relid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("this condition cannot use ctid of foreign table \"%s\"", relation->name),
					 errdetail("A row in Dataverse has no physical location.  Its ctid is a number that each session assigns when it reads the row; it can be compared with = and with the ctids of other rows."),
					 errhint("Use column \"%s\" instead, which identifies the rows.",
							 relation->attributes[source.id - 1].name)));
	}
}
