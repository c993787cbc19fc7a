/*
 * decode.c
 *		Converts values of the service's pages to PostgreSQL values.
 *
 * Values of the common types are converted directly from the page to a Datum;
 * the others go through the input function of their type.  A value that does
 * not fit its column raises an error that names the row and the column, because
 * it means that the foreign table does not describe the service's table.
 *
 * The functions for the common types ignore the column's type modifier.  They
 * only note in "doubtful" whether the value may be too long for it, so that
 * values that clearly fit cost nothing more; fit.c handles the others.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "mb/pg_wchar.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "fdw/decode.h"
#include "fdw/excerpt.h"
#include "fdw/fit.h"
#include "net/text.h"

/* More choices than a multi-select column can hold (the service allows 150) */
#define MAX_CHOICES 1000

#define CANNOT_CONVERT \
	"cannot convert the value from Dataverse for column \"%s\" of foreign table \"%s\""

typedef dv_value_status (*decode_fn) (dv_decoder *decoder, const dv_value *value, Datum *out);

struct dv_decoder
{
	decode_fn	decode;
	const char *table;
	const char *column;
	Oid			type;
	size_t		max_bytes;		/* text of this length certainly fits */
	int			scale;			/* numeric: decimal places to keep; -1: as many as needed */
	int64		bound;			/* numeric: unscaled values below this one certainly fit */
	FmgrInfo	input;
	Oid			ioparam;
	int32		typmod;			/* for the input function */
	dv_fit	   *fit;			/* NULL if the type admits all values */
	bool		doubtful;		/* the last value may not fit */
	bool		domain;			/* the column's type has constraints of its own */
	const dv_value *id;			/* of the row, for messages */

	/*
	 * True if messages may tell anything about the row.  Values are decoded before it is known
	 * whether a view or row security of a parent hides the row from roles that may not read the
	 * table itself.
	 */
	bool		told;
	ErrorContextCallback callback;
};

static dv_value_status
decode_int4(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int32_t		n = 0;
	dv_value_status status = dv_value_int32(value, &n);

	*out = Int32GetDatum(n);
	return status;
}

static dv_value_status
decode_int2(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int32_t		n = 0;
	dv_value_status status = dv_value_int32(value, &n);

	*out = Int16GetDatum((int16) n);
	return status == DV_VALUE_OK && (n < PG_INT16_MIN || n > PG_INT16_MAX) ? DV_VALUE_RANGE : status;
}

static dv_value_status
decode_int8(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int64_t		n = 0;
	dv_value_status status = dv_value_int64(value, &n);

	*out = Int64GetDatum(n);
	return status;
}

static dv_value_status
decode_float8(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	double		n = 0;
	dv_value_status status = dv_value_double(value, &n);

	*out = Float8GetDatum(n);
	return status;
}

static dv_value_status
decode_bool(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	bool		b = false;
	dv_value_status status = dv_value_bool(value, &b);

	*out = BoolGetDatum(b);
	return status;
}

static dv_value_status
decode_uuid(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	pg_uuid_t  *uuid = palloc(sizeof(*uuid));

	*out = UUIDPGetDatum(uuid);
	return dv_value_uuid(value, uuid->data);
}

/*
 * Numbers are shown alike whether they have few digits or many: with the
 * column's declared decimal places, which the cast of doubtful values adds, or
 * with as many as necessary.
 */
static dv_value_status
decode_numeric(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int64_t		n = 0;
	int			scale = 0;
	dv_value_status status = dv_value_decimal(value, &n, &scale);

	if (status == DV_VALUE_RANGE)
	{
		Datum		number = DirectFunctionCall3(numeric_in,
												 CStringGetDatum(pnstrdup(value->text, value->len)),
												 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));

		decoder->doubtful = decoder->fit != NULL;
		*out = DirectFunctionCall1(numeric_trim_scale, number);
		return DV_VALUE_OK;
	}
	while (scale > Max(decoder->scale, 0) && n % 10 == 0)
	{
		n /= 10;
		scale--;
	}
	while (scale < decoder->scale && n > -PG_INT64_MAX / 10 && n < PG_INT64_MAX / 10)
	{
		n *= 10;
		scale++;
	}
	decoder->doubtful = decoder->fit != NULL &&
		(scale != decoder->scale || n <= -decoder->bound || n >= decoder->bound);
	*out = NumericGetDatum(int64_div_fast_to_numeric(n, scale));
	return status;
}

static dv_value_status
decode_timestamp(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int64_t		t = 0;
	dv_value_status status = dv_value_timestamp(value, &t);

	*out = TimestampGetDatum(t);
	return status;
}

static dv_value_status
decode_date(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int32_t		d = 0;
	dv_value_status status = dv_value_date(value, &d);

	*out = DateADTGetDatum(d);
	return status;
}

static dv_value_status
decode_choices(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	int32_t		numbers[MAX_CHOICES];
	Datum		values[MAX_CHOICES];
	int			n = 0;
	int			i;
	dv_value_status status = dv_value_choices(value, numbers, MAX_CHOICES, &n);

	if (status != DV_VALUE_OK)
		return status;
	for (i = 0; i < n; i++)
		values[i] = Int32GetDatum(numbers[i]);
	*out = PointerGetDatum(construct_array(values, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	return status;
}

static dv_value_status
decode_bytea(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	bytea	   *bytes = palloc(VARHDRSZ + value->len);
	size_t		len = 0;
	dv_value_status status = dv_value_base64(value, (uint8_t *) VARDATA(bytes), &len);

	SET_VARSIZE(bytes, VARHDRSZ + len);
	*out = PointerGetDatum(bytes);
	return status;
}

/*
 * Writes a value as text, in UTF-8: strings without their escapes; numbers,
 * objects, and arrays as they are.
 */
static inline dv_value_status
spell(const dv_value *value, char *out, size_t *len)
{
	static const char *const words[] = {[DV_VALUE_TRUE] = "true", [DV_VALUE_FALSE] = "false"};

	if (value->kind == DV_VALUE_STRING && value->escaped)
		return dv_value_string(value, out, len);
	if (value->kind == DV_VALUE_TRUE || value->kind == DV_VALUE_FALSE)
	{
		*len = strlen(words[value->kind]);
		memcpy(out, words[value->kind], *len);
		return DV_VALUE_OK;
	}
	*len = value->len;
	memcpy(out, value->text, *len);
	return DV_VALUE_OK;
}

static dv_value_status
decode_text(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	text	   *result = palloc(VARHDRSZ + value->len + 8);
	size_t		len = 0;
	dv_value_status status = spell(value, VARDATA(result), &len);

	decoder->doubtful = len > decoder->max_bytes;
	SET_VARSIZE(result, VARHDRSZ + len);
	*out = PointerGetDatum(result);
	if (status != DV_VALUE_OK)
		return status;
	/* whoever read the answer was as strict (dataverse/json_cursor.c) */
	if (GetDatabaseEncoding() == PG_UTF8)
		Assert(pg_verify_mbstr(PG_UTF8, VARDATA(result), len, true));
	else
	{
		VARDATA(result)[len] = '\0';
		*out = CStringGetTextDatum(dv_text_in(VARDATA(result), len));
	}
	return status;
}

/* Returns true for the two types whose input functions would silently cut the value. */
static bool
input_would_cut(Oid type, const char *text)
{
	size_t		len = strlen(text);

	if (type == NAMEOID)
		return len >= NAMEDATALEN;
	/* an octal number after a backslash is one byte */
	return type == CHAROID && len > 1 && !(text[0] == '\\' && len == 4);
}

static dv_value_status
decode_input(dv_decoder *decoder, const dv_value *value, Datum *out)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *string = palloc(value->len + 8);
	char	   *text;
	size_t		len = 0;
	dv_value_status status = spell(value, string, &len);

	string[len] = '\0';
	if (status != DV_VALUE_OK)
		return status;
	text = unconstify(char *, dv_text_in(string, len));
	if (input_would_cut(decoder->type, text))
		return DV_VALUE_RANGE;
	PG_TRY();
	{
		*out = InputFunctionCall(&decoder->input, text,
								 decoder->ioparam, decoder->typmod);
	}
	PG_CATCH();
	{
		/* the context of the error is going to be reset */
		MemoryContextSwitchTo(context);
		dv_excerpt_rethrow(context, decoder->told ? NULL :
						   psprintf(CANNOT_CONVERT, decoder->column, decoder->table));
	}
	PG_END_TRY();
	return status;
}

static const struct
{
	Oid			pgtype;
	int			read_as;
	decode_fn	decode;
}			conversions[] =

{
#define DV_CONVERSION(pgtype, put, decode, written_as, read_as, natural_for, default_type) \
	{pgtype, read_as, decode},
#include "fdw/conversion_list.h"
};

#define DV_CONVERSION(pgtype, put, decode, written_as, read_as, natural_for, default_type) \
	StaticAssertDecl(((written_as) & ~(read_as)) == 0, "what is written can be read");
#include "fdw/conversion_list.h"

/*
 * Sets the bounds by which the functions for the common types recognize values that certainly
 * fit.
 */
static void
set_bounds(dv_decoder *decoder, int32 typmod)
{
	int			precision;

	decoder->doubtful = typmod >= 0;
	decoder->max_bytes = SIZE_MAX;
	decoder->scale = -1;
	decoder->bound = PG_INT64_MAX;
	if (typmod < (int32) VARHDRSZ)
		return;
	typmod -= VARHDRSZ;
	if (decoder->type == VARCHAROID)
		decoder->max_bytes = typmod;
	if (decoder->type != NUMERICOID)
		return;
	/* the scale is a signed number of eleven bits */
	decoder->scale = ((typmod & 0x7ff) ^ 1024) - 1024;
	precision = (typmod >> 16) & 0xffff;
	if (precision > 18)
		return;
	for (decoder->bound = 1; precision > 0; precision--)
		decoder->bound *= 10;
}

/*
 * Raises an error if such values cannot be converted.  Some decoders would accept almost any
 * text.
 */
static void
check_readable(const dv_relation *relation, const dv_attribute *attribute, int read_as)
{
	bool		is_text = attribute->is_label || attribute->is_table_name;
	dv_wire		wire = is_text ? DV_WIRE_TEXT : dv_types[attribute->column.type].wire;

	if (wire == DV_WIRE_OPAQUE || (read_as & wire))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
			 errmsg("cannot read column \"%s\" of foreign table \"%s\"", attribute->name, relation->name),
			 errdetail("It has type %s, but %s in Dataverse.", format_type_be(attribute->pgtype),
					   is_text ? "is a text" : psprintf("type %s", dv_types[attribute->column.type].name)),
			 errhint("To see which type the column has in Dataverse, call dataverse.import_diff().")));
}

dv_decoder *
dv_decoder_create(const dv_relation *relation, const dv_attribute *attribute)
{
	dv_decoder *decoder = palloc0(sizeof(*decoder));
	Oid			function;
	int			i = 0;

	decoder->table = relation->name;
	decoder->column = attribute->name;
	decoder->type = attribute->pgtype;
	decoder->told = pg_class_aclcheck(relation->relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
	decoder->fit = dv_fit_create(relation, attribute, decoder->told);
	decoder->domain = OidIsValid(attribute->domain);
	decoder->typmod = dv_fit_input_typmod(decoder->fit);
	set_bounds(decoder, attribute->typmod);
	while (conversions[i].pgtype != attribute->pgtype && conversions[i].pgtype != InvalidOid)
		i++;
	check_readable(relation, attribute, conversions[i].read_as);
	decoder->decode = conversions[i].decode;
	getTypeInputInfo(attribute->pgtype, &function, &decoder->ioparam);
	fmgr_info(function, &decoder->input);
	return decoder;
}

int
dv_decoder_scale(const dv_decoder *decoder)
{
	return decoder->scale;
}

bool
dv_decoder_names_rows(const dv_decoder *decoder)
{
	return decoder->fit != NULL || decoder->decode == decode_input;
}

void
dv_decoder_end(dv_decoder *decoder)
{
	if (decoder->fit != NULL)
		dv_fit_end(decoder->fit);
}

/*
 * Returns a message with the value from Dataverse, as far as it may be shown, and why it does not
 * fit the column.
 */
static const char *
why_not(const dv_decoder *decoder, const dv_value *value, dv_value_status status)
{
	static const char *const kinds[] = {
		[DV_VALUE_ABSENT] = "nothing",
		[DV_VALUE_NULL] = "null",
		[DV_VALUE_TRUE] = "a boolean",
		[DV_VALUE_FALSE] = "a boolean",
		[DV_VALUE_NUMBER] = "a number",
		[DV_VALUE_STRING] = "a string",
		[DV_VALUE_OBJECT] = "an object",
		[DV_VALUE_ARRAY] = "an array",
	};
	const char *type = format_type_be(decoder->type);
	const char *shown = "";

	if (decoder->told)
		shown = psprintf(" %s%s", dv_text_told(dv_text_shown(value->text,
															 pg_encoding_mbcliplen(PG_UTF8, value->text,
																				   value->len, 60))),
						 value->len > 60 ? "..." : "");
	if (status == DV_VALUE_TYPE)
		return psprintf("Dataverse sent %s, but the column has type %s.%s%s%s", kinds[value->kind], type,
						*shown != '\0' ? "  The value is" : "", shown, *shown != '\0' ? "." : "");
	return psprintf("Dataverse sent %s%s, which is %s %s.", *shown != '\0' ? "the value" : "a value", shown,
					dv_value_reason(status), type);
}

static void
__attribute__((noreturn))
refuse_value(const dv_decoder *decoder, const dv_value *value, dv_value_status status)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
			 errmsg(CANNOT_CONVERT, decoder->column, decoder->table),
			 errdetail_internal("%s", why_not(decoder, value, status)),
			 errhint("To see which columns now have a different type in Dataverse, call dataverse.import_diff().")));
}

/*
 * Functions of types raise errors that do not name the row, so we call them
 * between these two functions.
 */

static void
describe_value(void *arg)
{
	const dv_decoder *decoder = arg;

	errcontext("column \"%s\" of foreign table \"%s\"%s", decoder->column, decoder->table,
			   dv_fit_row(decoder->told ? decoder->id : NULL, ", row "));
}

static void
enter_type(dv_decoder *decoder, const dv_value *id)
{
	decoder->id = id;
	decoder->callback.callback = describe_value;
	decoder->callback.arg = decoder;
	decoder->callback.previous = error_context_stack;
	error_context_stack = &decoder->callback;
}

static void
leave_type(const dv_decoder *decoder)
{
	error_context_stack = decoder->callback.previous;
}

/* Returns the value as cast to the column's type modifier. */
static Datum
fit_to_modifier(dv_decoder *decoder, Datum datum, const dv_value *id)
{
	bool		changed;

	enter_type(decoder, id);
	datum = dv_fit_cast(decoder->fit, datum, &changed);
	leave_type(decoder);
	if (changed)
		dv_fit_report(decoder->fit, id);
	return datum;
}

Datum
dv_decode(dv_decoder *decoder, const dv_value *value, const dv_value *id, bool *isnull)
{
	Datum		datum = (Datum) 0;
	bool		by_type = decoder->decode == decode_input;

	*isnull = dv_value_is_null(value);
	if (!*isnull)
	{
		dv_value_status status;

		if (by_type)
			enter_type(decoder, id);
		status = decoder->decode(decoder, value, &datum);
		if (status != DV_VALUE_OK)
			refuse_value(decoder, value, status);
		if (by_type)
			leave_type(decoder);
		if (decoder->doubtful)
			datum = fit_to_modifier(decoder, datum, id);
	}
	if (decoder->domain)
	{
		enter_type(decoder, id);
		dv_fit_check(decoder->fit, datum, *isnull);
		leave_type(decoder);
	}
	return datum;
}
