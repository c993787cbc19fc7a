/*
 * group_merge.c
 *		Groups that are put together from parts.
 *
 * The service forms groups of some of the rows at a time.  Groups with the same keys
 * are merged: counts and sums are added, the greater or lesser extreme remains, and
 * values to be counted once are collected in a set.  An average is divided at the end,
 * as PostgreSQL would divide it.
 *
 * Keys are compared by the text of their values.  In all types that keys can have, equal
 * values have one text: ids, integers, booleans, dates, times, and decimals, which have
 * the number of decimal places of their column.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/typcache.h"

#include "fdw/scan/group_merge.h"

/* A set of texts. */
typedef struct text_entry
{
	const char *text;
	uint32		status;
	void	   *value;			/* that belongs to it */
} text_entry;

#define SH_PREFIX texts
#define SH_ELEMENT_TYPE text_entry
#define SH_KEY_TYPE const char *
#define SH_KEY text
#define SH_HASH_KEY(tb, key) hash_bytes((const unsigned char *) (key), (int) strlen(key))
#define SH_EQUAL(tb, a, b) (strcmp((a), (b)) == 0)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct merged_column
{
	dv_read_content content;
	Oid			type;			/* of the column that it is about */
	Oid			result;			/* of the scan tuple's */
	int			scale;
	int16		typlen;
	bool		typbyval;
	FmgrInfo	out;
	FmgrInfo   *compare;		/* of extremes */
	Oid			collation;
} merged_column;

/* The state of a column of one group. */
typedef struct merged_value
{
	Datum		value;
	bool		isnull;
	int64		count;
	texts_hash *distinct;
} merged_value;

struct dv_groups
{
	MemoryContext context;
	int			n;
	merged_column *columns;
	bool		any_keys;
	texts_hash *groups;			/* of each, an array of merged_value */
	texts_iterator iterator;
	bool		iterating;
};

static bool
is_key(dv_read_content content)
{
	return content == DV_READ_KEY || content == DV_READ_PERIOD;
}

static void
begin_column(merged_column *column, const dv_read_item *item, Oid type, Oid result, int scale)
{
	Oid			function;
	bool		varlena;

	column->content = item->content;
	column->result = result;
	column->type = item->content == DV_READ_PERIOD ? result : type;
	column->scale = scale;
	if (!OidIsValid(column->type))
		return;
	get_typlenbyval(column->type, &column->typlen, &column->typbyval);
	getTypeOutputInfo(column->type, &function, &varlena);
	fmgr_info(function, &column->out);
	if (item->content == DV_READ_MIN || item->content == DV_READ_MAX)
		column->compare = &lookup_type_cache(column->type, TYPECACHE_CMP_PROC_FINFO)->cmp_proc_finfo;
}

dv_groups *
dv_groups_begin(const List *items, TupleDesc desc, const Oid *types, const int *scales)
{
	dv_groups  *groups = palloc0(sizeof(*groups));
	const ListCell *lc;

	groups->context = CurrentMemoryContext;
	groups->columns = palloc0(sizeof(merged_column) * Max(list_length(items), 1));
	groups->groups = texts_create(groups->context, 64, NULL);
	foreach(lc, items)
	{
		const dv_read_item *item = lfirst(lc);
		int			i = groups->n++;

		begin_column(&groups->columns[i], item, types[i], TupleDescAttr(desc, i)->atttypid,
					 scales[i]);
		groups->any_keys |= is_key(item->content);
	}
	return groups;
}

/*
 * Adding
 */

static void
append_text(StringInfo s, merged_column *column, const dv_group_value *value)
{
	/* a null differs from every text, and no text contains a line break */
	if (!value->isnull)
	{
		char	   *text = OutputFunctionCall(&column->out, value->value);

		appendStringInfo(s, "=%s", text);
		pfree(text);
	}
	appendStringInfoChar(s, '\n');
}

static merged_value *
find_group(dv_groups *groups, const dv_group_value *values)
{
	StringInfoData key;
	text_entry *entry;
	bool		found;
	int			i;

	initStringInfo(&key);
	for (i = 0; i < groups->n; i++)
		if (is_key(groups->columns[i].content))
			append_text(&key, &groups->columns[i], &values[i]);
	entry = texts_insert(groups->groups, key.data, &found);
	if (!found)
	{
		merged_value *group = palloc0(sizeof(merged_value) * Max(groups->n, 1));

		entry->text = pstrdup(key.data);
		entry->value = group;
		for (i = 0; i < groups->n; i++)
			group[i].isnull = true;
	}
	pfree(key.data);
	return entry->value;
}

static void
set_value(const merged_column *column, merged_value *into, Datum value)
{
	Datum		old = into->value;
	bool		had = !into->isnull;

	into->value = datumCopy(value, column->typbyval, column->typlen);
	into->isnull = false;
	if (had && !column->typbyval)
		pfree(DatumGetPointer(old));
}

static void
add_sum(merged_value *into, Datum sum)
{
	Datum		old = into->value;

	if (into->isnull)
	{
		into->value = datumCopy(sum, false, -1);
		into->isnull = false;
		return;
	}
	into->value = DirectFunctionCall2(numeric_add, old, sum);
	pfree(DatumGetPointer(old));
}

static void
add_distinct(dv_groups *groups, merged_column *column, merged_value *into,
			 const dv_group_value *value)
{
	StringInfoData text;
	text_entry *entry;
	bool		found;

	if (into->distinct == NULL)
		into->distinct = texts_create(groups->context, 16, NULL);
	initStringInfo(&text);
	append_text(&text, column, value);
	entry = texts_insert(into->distinct, text.data, &found);
	if (!found)
	{
		/* the buffer has room for a thousand bytes, too much to keep for each value */
		entry->text = pstrdup(text.data);
		into->count++;
	}
	pfree(text.data);
}

static void
add_value(dv_groups *groups, merged_column *column, merged_value *into,
		  const dv_group_value *value)
{
	switch (column->content)
	{
		case DV_READ_COLUMN:
			break;
		case DV_READ_KEY:
		case DV_READ_PERIOD:
			if (into->isnull && !value->isnull)
				set_value(column, into, value->value);
			break;
		case DV_READ_COUNT:
		case DV_READ_COUNT_VALUES:
			into->count += value->count;
			break;
		case DV_READ_COUNT_DISTINCT:
			if (value->isnull)
				into->count += value->count;
			else
				add_distinct(groups, column, into, value);
			break;
		case DV_READ_SUM:
		case DV_READ_AVG:
			into->count += value->count;
			if (!value->isnull)
				add_sum(into, value->value);
			break;
		case DV_READ_MIN:
		case DV_READ_MAX:
			if (value->isnull)
				break;
			if (into->isnull ||
				(DatumGetInt32(FunctionCall2Coll(column->compare, InvalidOid, value->value,
												 into->value)) < 0) ==
				(column->content == DV_READ_MIN))
				set_value(column, into, value->value);
	}
}

void
dv_groups_add(dv_groups *groups, const dv_group_value *values)
{
	MemoryContext old = MemoryContextSwitchTo(groups->context);
	merged_value *group = find_group(groups, values);
	int			i;

	for (i = 0; i < groups->n; i++)
		add_value(groups, &groups->columns[i], &group[i], &values[i]);
	MemoryContextSwitchTo(old);
}

/*
 * The complete groups
 */

/* Returns a sum with the decimal places that PostgreSQL would show. */
static Datum
sum_of(const merged_column *column, const merged_value *value)
{
	return DirectFunctionCall2(numeric_round, value->value, Int32GetDatum(column->scale));
}

static Datum
finish_value(const merged_column *column, const merged_value *value, bool *isnull)
{
	*isnull = value->isnull;
	switch (column->content)
	{
		case DV_READ_COUNT:
		case DV_READ_COUNT_VALUES:
		case DV_READ_COUNT_DISTINCT:
			*isnull = false;
			return Int64GetDatum(value->count);
		case DV_READ_SUM:
			if (*isnull)
				return (Datum) 0;
			return column->result == INT8OID ? DirectFunctionCall1(numeric_int8, value->value) :
				sum_of(column, value);
		case DV_READ_AVG:
			if (*isnull)
				return (Datum) 0;
			return DirectFunctionCall2(numeric_div, sum_of(column, value),
									   NumericGetDatum(int64_to_numeric(value->count)));
		default:
			return value->value;
	}
}

bool
dv_groups_next(dv_groups *groups, Datum *values, bool *isnull)
{
	MemoryContext old = MemoryContextSwitchTo(groups->context);
	text_entry *entry;
	int			i;

	if (!groups->iterating)
	{
		/* without keys, there is one group of all rows, even if there are none */
		if (!groups->any_keys)
			(void) find_group(groups, NULL);
		texts_start_iterate(groups->groups, &groups->iterator);
		groups->iterating = true;
	}
	entry = texts_iterate(groups->groups, &groups->iterator);
	for (i = 0; entry != NULL && i < groups->n; i++)
		values[i] = finish_value(&groups->columns[i], &((merged_value *) entry->value)[i], &isnull[i]);
	MemoryContextSwitchTo(old);
	return entry != NULL;
}
