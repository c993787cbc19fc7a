/*
 * fit.c
 *		Handles values that the type of their column does not admit: texts
 *		longer than varchar(10), numbers with more digits than
 *		numeric(10,2), values that violate a domain's constraints.
 *
 * PostgreSQL assumes that a value of a column fits the column's type, and does
 * not check it when it copies the value into another column of the same type.
 * On the other hand, if we changed a value, it would differ from the one that
 * the service compares, sorts, and counts.  Therefore a value reaches
 * PostgreSQL unchanged or not at all: if a cast to the column's type would
 * yield another value, an error is raised.
 *
 * With the option on_oversize = 'truncate', PostgreSQL sees the result of that
 * cast instead, and a WARNING says so.  The service then compares values other
 * than those that PostgreSQL sees, so ship.c sends only those conditions on
 * such a column for which this makes no difference.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "fdw/fit.h"

struct dv_fit
{
	const char *table;
	const char *column;
	Oid			type;
	int32		typmod;
	Oid			domain;			/* InvalidOid if the column's type is not a domain */
	void	   *constraints;	/* cache of domain_check() */
	bool		cut;
	bool		told;			/* whether messages may name rows, and say how many */
	int64		ncut;
	MemoryContext context;
	ExprState  *cast;			/* to the type with its modifier; NULL if no function applies it */
	ExprContext *econtext;
	TypeCacheEntry *cache;
};

/* Prepares the cast of a value of the type, without modifier, to the type with its modifier. */
static void
prepare_cast(dv_fit *fit)
{
	CaseTestExpr *value = makeNode(CaseTestExpr);
	Node	   *cast;

	value->typeId = fit->type;
	value->typeMod = -1;
	value->collation = get_typcollation(fit->type);
	cast = coerce_to_target_type(NULL, (Node *) value, fit->type, fit->type, fit->typmod,
								 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
	if (cast == NULL || IsA(cast, CaseTestExpr) || IsA(cast, RelabelType))
		return;
	fit->cast = ExecInitExpr((Expr *) cast, NULL);
	fit->econtext = CreateStandaloneExprContext();
	fit->cache = lookup_type_cache(fit->type, TYPECACHE_EQ_OPR_FINFO);
}

dv_fit *
dv_fit_create(const dv_relation *relation, const dv_attribute *attribute, bool told)
{
	dv_fit	   *fit;

	if (attribute->typmod < 0 && !OidIsValid(attribute->domain))
		return NULL;
	fit = palloc0(sizeof(*fit));
	fit->table = relation->name;
	fit->column = attribute->name;
	fit->type = attribute->pgtype;
	fit->typmod = attribute->typmod;
	fit->domain = attribute->domain;
	fit->cut = attribute->cut;
	fit->told = told;
	fit->context = CurrentMemoryContext;
	if (fit->typmod >= 0)
		prepare_cast(fit);
	return fit;
}

int32
dv_fit_input_typmod(const dv_fit *fit)
{
	return fit == NULL || fit->cast != NULL ? -1 : fit->typmod;
}

const char *
dv_fit_row(const dv_value *id, const char *prefix)
{
	if (id == NULL || id->kind != DV_VALUE_STRING)
		return "";
	return psprintf("%s%.*s", prefix, (int) Min(id->len, 36), id->text);
}

static bool
is_same(const dv_fit *fit, Datum a, Datum b)
{
	if (!OidIsValid(fit->cache->eq_opr))
		return datumIsEqual(a, b, fit->cache->typbyval, fit->cache->typlen);
	/* whatever the column's collation ignores, no character may be lost */
	return DatumGetBool(FunctionCall2Coll(&fit->cache->eq_opr_finfo, C_COLLATION_OID, a, b));
}

Datum
dv_fit_cast(const dv_fit *fit, Datum value, bool *changed)
{
	Datum		result;
	bool		isnull;

	*changed = false;
	if (fit->cast == NULL)
		return value;
	fit->econtext->caseValue_datum = value;
	fit->econtext->caseValue_isNull = false;
	result = ExecEvalExpr(fit->cast, fit->econtext, &isnull);
	*changed = !is_same(fit, value, result);
	return result;
}

void
dv_fit_check(dv_fit *fit, Datum value, bool isnull)
{
	domain_check(value, isnull, fit->domain, &fit->constraints, fit->context);
}

static int
sqlstate_of(Oid type)
{
	Oid			element = get_element_type(type);

	switch (TypeCategory(OidIsValid(element) ? element : type))
	{
		case TYPCATEGORY_STRING:
		case TYPCATEGORY_BITSTRING:
			return ERRCODE_STRING_DATA_RIGHT_TRUNCATION;
		case TYPCATEGORY_NUMERIC:
			return ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
		case TYPCATEGORY_DATETIME:
		case TYPCATEGORY_TIMESPAN:
			return ERRCODE_DATETIME_VALUE_OUT_OF_RANGE;
		default:
			return ERRCODE_DATA_EXCEPTION;
	}
}

/* Reports one WARNING for each column; dv_fit_end() says how many more values were cut. */
void
dv_fit_report(dv_fit *fit, const dv_value *id)
{
	const char *row = dv_fit_row(fit->told ? id : NULL, "The id of the row is ");

	if (!fit->cut)
		ereport(ERROR,
				(errcode(sqlstate_of(fit->type)),
				 errmsg("value of column \"%s\" of foreign table \"%s\" does not fit type %s",
						fit->column, fit->table, format_type_with_typemod(fit->type, fit->typmod)),
				 *row != '\0' ? errdetail("%s.", row) : 0,
				 errhint("Change the type of the column with ALTER FOREIGN TABLE, or set its option \"on_oversize\" to \"truncate\".")));
	if (fit->ncut++ == 0)
		ereport(WARNING,
				(errcode(sqlstate_of(fit->type)),
				 errmsg("value of column \"%s\" of foreign table \"%s\" is cut to type %s",
						fit->column, fit->table, format_type_with_typemod(fit->type, fit->typmod)),
				 *row != '\0' ? errdetail("%s.", row) : 0));
}

void
dv_fit_end(const dv_fit *fit)
{
	if (fit->ncut > 1 && fit->told)
		ereport(WARNING,
				(errcode(sqlstate_of(fit->type)),
				 errmsg_plural("%lld value of column \"%s\" of foreign table \"%s\" was cut to type %s",
							   "%lld values of column \"%s\" of foreign table \"%s\" were cut to type %s",
							   (unsigned long) fit->ncut, (long long) fit->ncut, fit->column, fit->table,
							   format_type_with_typemod(fit->type, fit->typmod))));
}
