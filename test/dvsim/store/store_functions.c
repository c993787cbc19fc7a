/*
 * store_functions.c
 *		The collation and the SQL functions that implement the service's
 *		rules: text without case and accents, exact decimals, GUIDs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <string.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "store/text.h"

/* state of an aggregate over exact numbers; not a __int128, which would be misaligned */
struct total
{
	unsigned char sum[sizeof(sim_dec)];
	int64_t		n;
};

static int
collate_dv(void *unused, int alen, const void *a, int blen, const void *b)
{
	(void) unused;
	return sim_text_compare(a, (size_t) alen, b, (size_t) blen);
}

/* dv_like(value, pattern) */
static void
func_like(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	const char *s;
	const char *pattern;

	(void) nargs;
	s = (const char *) sqlite3_value_text(args[0]);
	pattern = (const char *) sqlite3_value_text(args[1]);
	if (s == NULL || pattern == NULL)
		return;
	sqlite3_result_int(context, sim_text_like(s, (size_t) sqlite3_value_bytes(args[0]), pattern,
											  (size_t) sqlite3_value_bytes(args[1])));
}

/* dv_fold(text) */
static void
func_fold(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	const char *s = (const char *) sqlite3_value_text(args[0]);
	struct sim_buf out = {0};

	(void) nargs;
	if (s == NULL)
		return;
	sim_text_fold(s, (size_t) sqlite3_value_bytes(args[0]), &out);
	sqlite3_result_text64(context, out.s, out.len, SQLITE_TRANSIENT, SQLITE_UTF8);
	sim_buf_free(&out);
}

/* Reads a decimal from a stored one, a whole number or a text; false for NULL and nonsense. */
static bool
decimal_of(sqlite3_value *value, sim_dec *out)
{
	const char *s;

	switch (sqlite3_value_type(value))
	{
		case SQLITE_BLOB:
			if (sqlite3_value_bytes(value) != 16)
				return false;
			*out = sim_dec_unpack(sqlite3_value_blob(value));
			return true;
		case SQLITE_NULL:
			return false;
		default:
			s = (const char *) sqlite3_value_text(value);
			return s != NULL &&
				sim_dec_parse(s, (size_t) sqlite3_value_bytes(value), SIM_DEC_SCALE, out);
	}
}

static void
result_decimal(sqlite3_context *context, sim_dec v)
{
	unsigned char packed[16];

	sim_dec_pack(v, packed);
	sqlite3_result_blob(context, packed, 16, SQLITE_TRANSIENT);
}

/* dv_dec(text) */
static void
func_dec(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	sim_dec		v;

	(void) nargs;
	if (decimal_of(args[0], &v))
		result_decimal(context, v);
}

/*
 * dv_base(money, exchange rate): the amount in the organisation's currency,
 * to four digits; without a rate it is the amount itself.
 */
static void
func_base(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	const sim_dec one = (sim_dec) 10000000000LL;
	const sim_dec step = (sim_dec) 1000000;
	sim_dec		amount;
	sim_dec		rate;
	sim_dec		quotient;

	(void) nargs;
	if (!decimal_of(args[0], &amount))
		return;
	if (!decimal_of(args[1], &rate) || rate <= 0 || rate == one)
	{
		result_decimal(context, amount);
		return;
	}
	/* these amounts have up to 25 digits, so there is room for ten more */
	quotient = amount / rate * one + amount % rate * one / rate;
	quotient = (quotient + (quotient < 0 ? -step / 2 : step / 2)) / step * step;
	result_decimal(context, quotient);
}

/* dv_guid(blob): the text of an id */
static void
func_guid(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	char		text[36];

	(void) nargs;
	if (sqlite3_value_type(args[0]) != SQLITE_BLOB || sqlite3_value_bytes(args[0]) != 16)
		return;
	sim_guid_print(sqlite3_value_blob(args[0]), text);
	sqlite3_result_text(context, text, 36, SQLITE_TRANSIENT);
}

static void
total_step(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	struct total *total = sqlite3_aggregate_context(context, sizeof(*total));
	sim_dec		sum;
	sim_dec		v;

	(void) nargs;
	if (total == NULL || !decimal_of(args[0], &v))
		return;
	memcpy(&sum, total->sum, sizeof(sum));
	if (__builtin_add_overflow(sum, v, &sum))
	{
		sqlite3_result_error(context, "arithmetic overflow", -1);
		return;
	}
	memcpy(total->sum, &sum, sizeof(sum));
	total->n++;
}

static void
sum_final(sqlite3_context *context)
{
	struct total *total = sqlite3_aggregate_context(context, 0);
	sim_dec		sum;

	if (total == NULL || total->n == 0)
		return;
	memcpy(&sum, total->sum, sizeof(sum));
	result_decimal(context, sum);
}

static void
avg_final(sqlite3_context *context)
{
	struct total *total = sqlite3_aggregate_context(context, 0);
	sim_dec		sum;

	if (total == NULL || total->n == 0)
		return;
	memcpy(&sum, total->sum, sizeof(sum));
	sum += (sum < 0 ? -1 : 1) * (sim_dec) (total->n / 2);
	result_decimal(context, sum / total->n);
}

/* whole numbers: the total is checked when it is complete */
static void
whole_step(sqlite3_context *context, int nargs, sqlite3_value **args)
{
	struct total *total = sqlite3_aggregate_context(context, sizeof(*total));
	sim_dec		sum;

	(void) nargs;
	if (total == NULL || sqlite3_value_type(args[0]) == SQLITE_NULL)
		return;
	memcpy(&sum, total->sum, sizeof(sum));
	sum += sqlite3_value_int64(args[0]);
	memcpy(total->sum, &sum, sizeof(sum));
	total->n++;
}

static void
whole_final(sqlite3_context *context, int64_t least, int64_t most, bool mean)
{
	struct total *total = sqlite3_aggregate_context(context, 0);
	sim_dec		sum;

	if (total == NULL || total->n == 0)
		return;
	memcpy(&sum, total->sum, sizeof(sum));
	if (sum < least || sum > most)
		sqlite3_result_error(context, "arithmetic overflow", -1);
	else
		sqlite3_result_int64(context, (int64_t) (mean ? sum / total->n : sum));
}

static void
int_sum_final(sqlite3_context *context)
{
	whole_final(context, INT32_MIN, INT32_MAX, false);
}

static void
int_avg_final(sqlite3_context *context)
{
	whole_final(context, INT32_MIN, INT32_MAX, true);
}

static void
big_sum_final(sqlite3_context *context)
{
	whole_final(context, INT64_MIN, INT64_MAX, false);
}

static void
big_avg_final(sqlite3_context *context)
{
	whole_final(context, INT64_MIN, INT64_MAX, true);
}

const char *
sim_number_aggregate(enum sim_type type, bool mean)
{
	switch (type)
	{
		case SIM_INTEGER:
			return mean ? "int_avg" : "int_sum";
		case SIM_BIGINT:
			return mean ? "big_avg" : "big_sum";
		case SIM_DECIMAL:
		case SIM_MONEY:
			return mean ? "dec_avg" : "dec_sum";
		default:
			return mean ? "avg" : "sum";
	}
}

struct function
{
	const char *name;
	int			nargs;
	void		(*scalar) (sqlite3_context *, int, sqlite3_value **);
	void		(*step) (sqlite3_context *, int, sqlite3_value **);
	void		(*final) (sqlite3_context *);
};

static const struct function functions[] = {
	{"dv_like", 2, func_like, NULL, NULL},
	{"dv_fold", 1, func_fold, NULL, NULL},
	{"dv_dec", 1, func_dec, NULL, NULL},
	{"dv_base", 2, func_base, NULL, NULL},
	{"dv_guid", 1, func_guid, NULL, NULL},
	{"dv_convert", 3, store_func_convert, NULL, NULL},
	{"dec_sum", 1, NULL, total_step, sum_final},
	{"dec_avg", 1, NULL, total_step, avg_final},
	{"int_sum", 1, NULL, whole_step, int_sum_final},
	{"int_avg", 1, NULL, whole_step, int_avg_final},
	{"big_sum", 1, NULL, whole_step, big_sum_final},
	{"big_avg", 1, NULL, whole_step, big_avg_final},
};

bool
store_functions(sqlite3 *db)
{
	const int	flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
	size_t		i;

	if (sqlite3_create_collation_v2(db, "DV", SQLITE_UTF8, NULL, collate_dv, NULL) != SQLITE_OK)
		return false;
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		const struct function *f = &functions[i];

		if (sqlite3_create_function_v2(db, f->name, f->nargs, flags, NULL, f->scalar, f->step,
									   f->final, NULL) != SQLITE_OK)
			return false;
	}
	return true;
}
