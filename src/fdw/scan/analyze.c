/*
 * analyze.c
 *		ANALYZE: counts and samples the rows of a table.
 *
 * The service cannot return random rows, and reading all of a large table would
 * exhaust its limits.  So READ_FACTOR times as many rows are read as the sample
 * needs (at most twice that, if the service's count is too low).  A table with
 * no more rows is read completely: its sample is as good as that of a local
 * table, and its rows are counted.  Of a larger table, RANGES ranges are read
 * in the order of ids: one from the first id on, the others from a random point
 * in each part of the ids between the first and the last one.  No row is read twice.
 *
 * That is not a uniform sample.  Most ids are generated in the order of time,
 * so rows of quiet times are more likely to be read than those of busy ones.
 * Where ids come from several machines there are gaps, and all points in a gap
 * lead to the rows after it.  Also, rows of a range resemble each other.  The
 * number of rows comes from the service's own count, which can be a day old.
 *
 * Elastic tables sort ids as text, which puts the part of an id first that
 * changes fastest, so rows of all times are among the first.  Whether they
 * compare ids in the same way is not documented, so only the first rows are
 * read.  The same holds for virtual tables, whose providers may filter and sort in
 * any way.  The service does not count their rows, so a large one is assumed to have
 * as many rows as were read.
 *
 * Images are not read: a column of images is treated as if it were null.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/sampling.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "fdw/scan/analyze.h"
#include "fdw/scan/count.h"
#include "fdw/scan/scan_state.h"

/* Rows read for each row of the sample. */
#define READ_FACTOR 2
/* Number of ranges of a table that is not read completely. */
#define RANGES 32
/* Points at which each of them can begin. */
#define POINTS (DV_ID_MOST_PARTS / RANGES)

typedef struct sample
{
	const dv_relation *relation;
	TupleDesc	desc;
	dv_scan    *scan;
	Datum	   *values;
	bool	   *isnull;
	HeapTuple  *rows;
	int			target;
	int			n;
	double		seen;
	double		skip;			/* rows until the next one that replaces another */
	ReservoirStateData reservoir;
	dv_ordered_id first;		/* ids of rows that have been read */
	dv_ordered_id last;
} sample;

/*
 * PostgreSQL first asks for the size of a table and then for its sample, or for
 * the sizes of all partitions and then for their samples.  In between, the number of
 * rows is kept.
 */
typedef struct known_count
{
	Oid			relid;
	double		rows;
} known_count;

static List *known_counts = NIL;

/* Called at the end of the transaction. */
static void
forget_counts(void *arg)
{
	known_counts = NIL;
}

static void
keep_count(Oid relid, double rows)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	known_count *known = palloc(sizeof(*known));

	if (known_counts == NIL)
	{
		MemoryContextCallback *callback = palloc0(sizeof(*callback));

		callback->func = forget_counts;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	known->relid = relid;
	known->rows = rows;
	known_counts = lappend(known_counts, known);
	MemoryContextSwitchTo(old);
}

/* Returns the number that was kept last, and forgets it; if there is none, asks the service. */
static double
take_count(const dv_relation *relation, Oid userid)
{
	double		rows = -1;
	ListCell   *lc;

	foreach(lc, known_counts)
	{
		known_count *known = lfirst(lc);

		if (known->relid != relation->relid)
			continue;
		rows = known->rows;
		known_counts = foreach_delete_current(known_counts, lc);
	}
	return rows >= 0 ? rows : dv_count_rows(relation, userid);
}

/*
 * Rows
 */

static dv_ordered_id
read_id(const sample *s)
{
	return dv_read_id(s->scan, &s->scan->members[s->scan->request.id]);
}

/* Does the service filter and sort the table by id as SQL Server does? */
static bool
can_spread(const dv_relation *relation)
{
	return relation->type == DV_TABLE_STANDARD || relation->type == DV_TABLE_INTERSECT;
}

/* Vitter's algorithm, as PostgreSQL uses it for local tables. */
static void
take_row(sample *s)
{
	int			i = s->n;

	if (s->n >= s->target)
	{
		if (s->skip < 0)
			s->skip = reservoir_get_next_S(&s->reservoir, s->seen, s->target);
		if (s->skip-- > 0)
			return;
		i = (int) (s->target * sampler_random_fract(&s->reservoir.randstate));
		heap_freetuple(s->rows[i]);
	}
	else
		s->n++;
	dv_scan_row(s->scan, s->desc->natts, s->values, s->isnull);
	s->rows[i] = heap_form_tuple(s->desc, s->values, s->isnull);
}

/* Reads rows after an id (NULL: from the start).  Returns false at the end of the table. */
static bool
read_range(sample *s, const dv_ordered_id *after, int64 wanted)
{
	dv_filter  *filter = after == NULL ? NULL :
	dv_id_filter(DV_GT, &s->relation->primary_id, after);
	int64		n = 0;

	dv_scan_ask(s->scan, filter, false, wanted);
	while (dv_scan_next(s->scan))
	{
		CHECK_FOR_INTERRUPTS();
		if (can_spread(s->relation))
		{
			s->last = read_id(s);
			if (s->seen == 0)
				s->first = s->last;
		}
		take_row(s);
		s->seen++;
		n++;
	}
	return n == wanted;
}

/* Samples the rest of a table whose first rows have been read. */
static void
read_spread(sample *s, int64 wanted)
{
	dv_ordered_id end;
	int			i;

	dv_scan_ask(s->scan, NULL, true, 1);
	if (!dv_scan_next(s->scan))
		return;
	end = read_id(s);
	if (dv_id_compare(&s->last, &end) >= 0)
		return;
	for (i = 0; i < RANGES - 1; i++)
	{
		/* a random one of the points in this part of the ids */
		uint32		point = i * POINTS + pg_prng_uint64_range(&pg_global_prng_state, 0, POINTS - 1);
		dv_ordered_id after = dv_id_cut(&s->first, &end, point, (RANGES - 1) * POINTS);

		if (dv_id_compare(&after, &s->last) < 0)
			after = s->last;
		if (!read_range(s, &after, wanted))
			break;
	}
}

/* Returns the attribute numbers of the columns to be read, with 0 for the others. */
static List *
columns_of(const dv_relation *relation)
{
	List	   *columns = NIL;
	int			i;

	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		columns = lappend_int(columns, attribute == NULL ||
							  attribute->column.type == DV_TYPE_IMAGE ? 0 : i);
	}
	return columns;
}

static int
acquire_sample_rows(Relation rel, int elevel, HeapTuple *rows, int target, double *total,
					double *dead)
{
	dv_relation *relation = dv_relation_open(RelationGetRelid(rel));
	Oid			userid = rel->rd_rel->relowner;
	int64		most = (int64) target * READ_FACTOR;
	int64		share = (most + RANGES - 1) / RANGES;
	double		counted = take_count(relation, userid);
	bool		whole = counted <= most || !can_spread(relation);
	bool		more;
	sample		s = {0};

	s.relation = relation;
	s.desc = RelationGetDescr(rel);
	s.values = palloc0(sizeof(Datum) * Max(s.desc->natts, 1));
	s.isnull = palloc0(sizeof(bool) * Max(s.desc->natts, 1));
	s.rows = rows;
	s.target = target;
	s.skip = -1;
	reservoir_init_selection_state(&s.reservoir, target);
	s.scan = dv_scan_open(relation, userid, "analyze",
						  psprintf("analyze foreign table \"%s\"", relation->name),
						  columns_of(relation), 0);
	/* the count may be too low, so more may remain to be read */
	more = read_range(&s, NULL, whole ? most : share);
	if (more && can_spread(relation))
		read_spread(&s, share);
	dv_scan_close(s.scan);

	/* without a count, do not assume fewer rows than before */
	if ((counted <= 0 || counted >= DV_COUNTED_ROWS) && !dv_count_is_told(relation, userid))
		counted = Max(counted, rel->rd_rel->reltuples);
	*total = more ? Max(counted, s.seen) : s.seen;
	*dead = 0;
	ereport(elevel,
			(errmsg("\"%s\": read %.0f of about %.0f rows; %d rows in sample",
					relation->name, s.seen, *total, s.n)));
	return s.n;
}

/*
 * Returns the number of pages that a local table of this size would have: the weight of
 * the table among other partitions.
 */
static BlockNumber
pages_of(const dv_relation *relation, double rows)
{
	double		width = MAXALIGN(SizeofHeapTupleHeader);
	double		pages;
	int			i;

	for (i = 1; i <= relation->natts; i++)
	{
		const dv_attribute *attribute = dv_relation_attribute(relation, i);

		if (attribute != NULL)
			width += get_typavgwidth(attribute->pgtype, attribute->typmod);
	}
	pages = 1 + rows * width / BLCKSZ;
	return (BlockNumber) Min(pages, (double) MaxBlockNumber);
}

/*
 * The callbacks
 */

bool
dataverseAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func, BlockNumber *totalpages)
{
	dv_relation *relation = dv_relation_open(RelationGetRelid(rel));

	double		rows = dv_count_rows(relation, rel->rd_rel->relowner);

	keep_count(relation->relid, rows);
	*totalpages = pages_of(relation, rows);
	*func = acquire_sample_rows;
	return true;
}

#ifdef DV_IMPORT_STATISTICS
/*
 * Makes one request instead of taking a sample, for tables with the option
 * import_stats.  The service knows the approximate number of rows but nothing
 * about columns, whose statistics remain those of the last sample.  ANALYZE of
 * certain columns needs a sample, and so do extended statistics.  A table that
 * the service does not count is sampled, too.
 */
bool
dataverseImportForeignStatistics(Relation rel, List *columns, int elevel)
{
	dv_relation *relation = dv_relation_open(RelationGetRelid(rel));
	TimestampTz began = GetCurrentTimestamp();
	double		rows;

	if (columns != NIL || !dv_option_bool(relation->options, DV_OPT_IMPORT_STATS))
		return false;
	if (HasRelationExtStatistics(rel))
	{
		ereport(WARNING,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot import statistics for foreign table \"%s\" --- this foreign table has extended statistics objects",
						relation->name)));
		return false;
	}
	rows = take_count(relation, rel->rd_rel->relowner);
	if (rows <= DV_FEWEST_ROWS || !dv_count_is_told(relation, rel->rd_rel->relowner) ||
		!dv_import_row_count(rel, pages_of(relation, rows), rows, began))
	{
		/* the sample does not ask again */
		keep_count(relation->relid, rows);
		return false;
	}
	ereport(elevel,
			(errmsg("\"%s\": imported the count of about %.0f rows", relation->name, rows)));
	return true;
}
#endif
