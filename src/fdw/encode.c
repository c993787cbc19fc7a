/*
 * encode.c
 *		Writes PostgreSQL values as members of JSON objects for the service.
 *
 * Everything that depends on the column alone is prepared when its encoder is
 * created: the text before each value, the text for null, and the function that
 * converts from the PostgreSQL type to the Dataverse type.  A value is then
 * written from the Datum directly to the bytes that will be sent, without a
 * copy unless PostgreSQL itself makes one (compressed texts, numerics).
 *
 * A lookup is written through the navigation property that leads to its target.
 * A polymorphic lookup has several, and a companion column decides between
 * them.  Setting one of them to null clears the lookup only while it refers to
 * that table.  An UPDATE reads which table that is; if it is not known, all of
 * them are set to null.
 *
 * If a value cannot be sent, no part of it is written.  The current memory
 * context keeps nothing but the message of a misfit.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "common/shortest_dec.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "dataverse/address.h"
#include "dataverse/fold.h"
#include "dataverse/header.h"
#include "dataverse/payload.h"
#include "fdw/encode.h"

/* A table that a lookup can lead to. */
typedef struct lookup_target
{
	const char *table;			/* NULL if unknown */
	const char *set;
	const char *navigation;
	char	   *prefix;			/* ,"nav@odata.bind":"/set( */
	size_t		prefix_len;
	char	   *null_text;		/* ,"nav":null */
} lookup_target;

typedef bool (*put_value_fn) (const dv_encoder *encoder, Datum value, StringInfo out,
							  dv_misfit *misfit);

struct dv_encoder
{
	put_value_fn put;			/* NULL for references */
	const char *name;			/* name of the foreign table's column, for messages */
	dv_type		type;
	Oid			pgtype;
	char	   *prefix;			/* ,"name": */
	size_t		prefix_len;
	char	   *null_text;		/* ,"name":null */
	size_t		null_len;
	/* texts */
	FmgrInfo	output;			/* output function, for types other than text */
	bool		convert;		/* the database encoding is not UTF-8 */
	Oid			conversion;		/* invalid if none exists; then texts must be valid UTF-8 */
	/* lookups */
	lookup_target *targets;
	int			ntargets;
	AttrNumber	type_column;
	const char *type_name;		/* the name of that column, or NULL */
};

/* A text in UTF-8. */
typedef struct utf8_text
{
	const char *text;
	size_t		len;
	void	   *copies[2];		/* to be freed, or NULL */
} utf8_text;

static bool
refuse(dv_misfit *misfit, int sqlstate, const char *message)
{
	misfit->sqlstate = sqlstate;
	misfit->message = message;
	return false;
}

/* Makes room and writes the prefix of the value. */
static inline char *
begin(const dv_encoder *encoder, StringInfo out, size_t room)
{
	char	   *p;

	if (room > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of column \"%s\" is too long for a request", encoder->name),
				 errdetail("A value can take at most %zu bytes of a request.", (size_t) MaxAllocSize)));
	enlargeStringInfo(out, (int) (encoder->prefix_len + room));
	p = out->data + out->len;
	memcpy(p, encoder->prefix, encoder->prefix_len);
	return p + encoder->prefix_len;
}

static inline bool
end(StringInfo out, char *p)
{
	*p = '\0';
	out->len = (int) (p - out->data);
	return true;
}

static inline bool
put_null(const dv_encoder *encoder, StringInfo out)
{
	appendBinaryStringInfo(out, encoder->null_text, (int) encoder->null_len);
	return true;
}

/*
 * Texts
 */

/* Text that cannot be converted to UTF-8 is a misfit, not an error. */
static bool
convert_text(const dv_encoder *encoder, utf8_text *t, dv_misfit *misfit)
{
	bool		valid;

	if (OidIsValid(encoder->conversion))
	{
		size_t		room = t->len * MAX_CONVERSION_GROWTH + 1;
		char	   *converted = palloc_extended(room, MCXT_ALLOC_HUGE);

		t->copies[1] = converted;
		valid = room <= PG_INT32_MAX &&
			pg_do_encoding_conversion_buf(encoder->conversion, GetDatabaseEncoding(), PG_UTF8,
										  (unsigned char *) t->text, (int) t->len,
										  (unsigned char *) converted, (int) room,
										  true) == (int) t->len;
		t->text = converted;
		t->len = valid ? strlen(converted) : 0;
	}
	else
		valid = pg_verify_mbstr(PG_UTF8, t->text, (int) t->len, true);
	if (valid)
		return true;
	return refuse(misfit, ERRCODE_UNTRANSLATABLE_CHARACTER,
				  psprintf("value of column \"%s\" contains a character with no equivalent in encoding \"UTF8\"",
						   encoder->name));
}

static inline bool
get_text(const dv_encoder *encoder, Datum value, utf8_text *t, dv_misfit *misfit)
{
	t->copies[0] = t->copies[1] = NULL;
	if (encoder->output.fn_addr != NULL)
	{
		t->text = t->copies[0] = OutputFunctionCall((FmgrInfo *) & encoder->output, value);
		t->len = strlen(t->text);
	}
	else
	{
		struct varlena *v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));

		if ((Pointer) v != DatumGetPointer(value))
			t->copies[0] = v;
		t->text = VARDATA_ANY(v);
		t->len = VARSIZE_ANY_EXHDR(v);
	}
	/* trailing blanks of character(n) are not significant */
	while (encoder->pgtype == BPCHAROID && t->len > 0 && t->text[t->len - 1] == ' ')
		t->len--;
	return !encoder->convert || convert_text(encoder, t, misfit);
}

static inline void
free_text(utf8_text *t)
{
	if (t->copies[0] != NULL)
		pfree(t->copies[0]);
	if (t->copies[1] != NULL)
		pfree(t->copies[1]);
}

static bool
put_text(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	utf8_text	t;
	bool		fits = get_text(encoder, value, &t, misfit);

	if (fits)
	{
		size_t		extra = dv_payload_extra(t.text, t.len);
		char	   *p = begin(encoder, out, t.len + extra + 2);

		*p++ = '"';
		p = dv_payload_text(p, t.text, t.len, extra);
		*p++ = '"';
		end(out, p);
	}
	free_text(&t);
	return fits;
}

/*
 * Numbers
 */

static bool
put_int(const dv_encoder *encoder, int64 n, StringInfo out)
{
	return end(out, dv_payload_int(begin(encoder, out, DV_PAYLOAD_INT), n));
}

static bool
put_int2(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	return put_int(encoder, DatumGetInt16(value), out);
}

static bool
put_int4(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	return put_int(encoder, DatumGetInt32(value), out);
}

static bool
put_int8(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	return put_int(encoder, DatumGetInt64(value), out);
}

static bool
refuse_number(const dv_encoder *encoder, const char *text, dv_misfit *misfit)
{
	return refuse(misfit, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
				  psprintf("%s cannot be a value of column \"%s\", which is of type %s in Dataverse",
						   text, encoder->name, dv_types[encoder->type].name));
}

/* The text of a numeric is a JSON number, unless it is NaN or infinite. */
static bool
put_numeric(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, value));
	size_t		len = strlen(text);
	char	   *p;

	if (text[text[0] == '-'] > '9')
		return refuse_number(encoder, text, misfit);
	p = begin(encoder, out, len);
	memcpy(p, text, len);
	pfree(text);
	return end(out, p + len);
}

static bool
put_float8(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	double		number = DatumGetFloat8(value);
	char	   *p;

	if (isnan(number) || isinf(number))
		return refuse_number(encoder, isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity",
							 misfit);
	p = begin(encoder, out, DOUBLE_SHORTEST_DECIMAL_LEN);
	return end(out, p + double_to_shortest_decimal_bufn(number, p));
}

static bool
put_float4(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	float		number = DatumGetFloat4(value);
	char	   *p;

	if (isnan(number) || isinf(number))
		return refuse_number(encoder, isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity",
							 misfit);
	p = begin(encoder, out, FLOAT_SHORTEST_DECIMAL_LEN);
	return end(out, p + float_to_shortest_decimal_bufn(number, p));
}

static bool
put_bool(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	bool		b = DatumGetBool(value);
	char	   *p = begin(encoder, out, 5);

	memcpy(p, b ? "true" : "false", b ? 4 : 5);
	return end(out, p + (b ? 4 : 5));
}

/*
 * Times
 */

static bool
refuse_time(const dv_encoder *encoder, bool infinite, dv_misfit *misfit)
{
	return refuse(misfit, ERRCODE_DATETIME_FIELD_OVERFLOW,
				  psprintf(infinite ? "infinity cannot be a value of column \"%s\" in Dataverse" :
						   "value of column \"%s\" is not between the years 1 and 9999",
						   encoder->name));
}

/* Both kinds of timestamps get a Z; those without time zone are written without conversion. */
static bool
put_timestamp(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	Timestamp	t = DatumGetTimestamp(value);
	char		text[DV_PAYLOAD_TIMESTAMP];
	char	   *text_end = dv_payload_timestamp(text, t);
	char	   *p;

	if (text_end == NULL)
		return refuse_time(encoder, TIMESTAMP_NOT_FINITE(t), misfit);
	p = begin(encoder, out, sizeof(text) + 2);
	*p++ = '"';
	memcpy(p, text, text_end - text);
	p += text_end - text;
	*p++ = '"';
	return end(out, p);
}

static bool
put_date(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	DateADT		d = DatumGetDateADT(value);
	char		text[DV_PAYLOAD_DATE];
	char	   *p;

	if (dv_payload_date(text, d) == NULL)
		return refuse_time(encoder, DATE_NOT_FINITE(d), misfit);
	p = begin(encoder, out, sizeof(text) + 2);
	*p++ = '"';
	memcpy(p, text, sizeof(text));
	p[sizeof(text)] = '"';
	return end(out, p + sizeof(text) + 1);
}

/*
 * Ids, choices, images
 */

static bool
put_uuid(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	char	   *p = begin(encoder, out, DV_PAYLOAD_UUID + 2);

	*p++ = '"';
	p = dv_payload_uuid(p, DatumGetUUIDP(value)->data);
	*p++ = '"';
	return end(out, p);
}

/* Writes {1,9} as "1,9".  The service does not distinguish between no choices and null. */
static bool
put_choices(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *numbers;
	bool		fits = true;
	char	   *p;
	int			n;
	int			i;

	if (ARR_NDIM(array) > 1)
		fits = refuse(misfit, ERRCODE_ARRAY_SUBSCRIPT_ERROR,
					  psprintf("value of column \"%s\" is an array with more than one dimension", encoder->name));
	else if (array_contains_nulls(array))
		fits = refuse(misfit, ERRCODE_NULL_VALUE_NOT_ALLOWED,
					  psprintf("value of column \"%s\" is an array that contains nulls", encoder->name));
	else if (ARR_NDIM(array) == 0)
		put_null(encoder, out);
	else
	{
		deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &numbers, NULL, &n);
		p = begin(encoder, out, (size_t) n * (DV_PAYLOAD_INT + 1) + 2);
		*p++ = '"';
		for (i = 0; i < n; i++)
		{
			p = dv_payload_int(p, DatumGetInt32(numbers[i]));
			*p++ = ',';
		}
		p[-1] = '"';
		end(out, p);
		pfree(numbers);
	}
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
	return fits;
}

static bool
put_bytea(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	bytea	   *bytes = DatumGetByteaPP(value);
	size_t		len = VARSIZE_ANY_EXHDR(bytes);
	char	   *p = begin(encoder, out, DV_PAYLOAD_BASE64(len) + 2);

	*p++ = '"';
	p = dv_payload_base64(p, (const uint8 *) VARDATA_ANY(bytes), len);
	*p++ = '"';
	if ((Pointer) bytes != DatumGetPointer(value))
		pfree(bytes);
	return end(out, p);
}

/*
 * Lookups
 */

static const char *
valid_targets(const dv_encoder *encoder)
{
	StringInfoData names;
	int			i;

	initStringInfo(&names);
	for (i = 0; i < encoder->ntargets; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", encoder->targets[i].table);
	return names.data;
}

static const lookup_target *
find_target(const dv_encoder *encoder, const char *type_value, dv_misfit *misfit)
{
	int			i;

	if (encoder->ntargets == 1 && (type_value == NULL || encoder->targets[0].table == NULL))
		return &encoder->targets[0];
	for (i = 0; type_value != NULL && i < encoder->ntargets; i++)
		if (strcmp(encoder->targets[i].table, type_value) == 0)
			return &encoder->targets[i];
	if (type_value != NULL)
		refuse(misfit, ERRCODE_INVALID_PARAMETER_VALUE,
			   psprintf("column \"%s\" cannot refer to table \"%s\"; valid tables are: %s",
						encoder->name, type_value, valid_targets(encoder)));
	else
		refuse(misfit, ERRCODE_NULL_VALUE_NOT_ALLOWED,
			   psprintf("the table that column \"%s\" refers to is not specified%s; valid tables are: %s",
						encoder->name,
						encoder->type_name != NULL ? psprintf(" in column \"%s\"", encoder->type_name) : "",
						valid_targets(encoder)));
	return NULL;
}

static bool
put_lookup(const dv_encoder *encoder, Datum value, const char *type_value, StringInfo out,
		   dv_misfit *misfit)
{
	const lookup_target *target = find_target(encoder, type_value, misfit);
	char	   *p;

	if (target == NULL)
		return false;
	enlargeStringInfo(out, (int) target->prefix_len + DV_PAYLOAD_UUID + 2);
	p = out->data + out->len;
	memcpy(p, target->prefix, target->prefix_len);
	p = dv_payload_uuid(p + target->prefix_len, DatumGetUUIDP(value)->data);
	*p++ = ')';
	*p++ = '"';
	return end(out, p);
}

/*
 * PostgreSQL types and the wire forms in which they can be written
 */
static const struct
{
	Oid			pgtype;
	int			written_as;
	put_value_fn put;
}			conversions[] =

{
#define DV_CONVERSION(pgtype, put, decode, written_as, read_as, natural_for, default_type) \
	{pgtype, written_as, put},
#include "fdw/conversion_list.h"
};

/*
 * Creating encoders
 */

/* Raises an error, because this column cannot be written. */
static void
refuse_column(const dv_relation *relation, const dv_attribute *attribute, int sqlstate,
			  const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("cannot write to column \"%s\" of foreign table \"%s\"", attribute->name,
					relation->name),
			 errdetail_internal("%s", why),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void
check_writable(const dv_relation *relation, const dv_attribute *attribute)
{
	if (attribute->is_label)
		refuse_column(relation, attribute, ERRCODE_FDW_INVALID_COLUMN_NAME,
					  psprintf("It shows the label of column \"%s\".", attribute->column.name),
					  "Write to that column instead.");
	if (attribute->readonly)
		refuse_column(relation, attribute, ERRCODE_FDW_INVALID_COLUMN_NAME,
					  "Dataverse does not allow writing to it (option \"readonly\").",
					  "Omit the column.");
}

static void
find_put(dv_encoder *encoder, const dv_relation *relation, const dv_attribute *attribute)
{
	dv_wire		wire = dv_types[encoder->type].wire;
	Oid			output;
	bool		varlena;
	int			i;

	for (i = 0; conversions[i].pgtype != encoder->pgtype && conversions[i].pgtype != InvalidOid; i++)
		;
	if (!(conversions[i].written_as & wire) || (dv_types[encoder->type].flags & DV_READONLY))
		refuse_column(relation, attribute, ERRCODE_FDW_INVALID_DATA_TYPE,
					  psprintf("It has type %s, but type %s in Dataverse.",
							   format_type_be(encoder->pgtype), dv_types[encoder->type].name),
					  "Check option \"type\" of the column, which specifies its type in Dataverse.");
	encoder->put = wire == DV_WIRE_REFERENCE ? NULL : conversions[i].put;
	if (conversions[i].pgtype == InvalidOid)
	{
		getTypeOutputInfo(encoder->pgtype, &output, &varlena);
		fmgr_info(output, &encoder->output);
	}
	encoder->convert = GetDatabaseEncoding() != PG_UTF8;
	if (encoder->convert && GetDatabaseEncoding() != PG_SQL_ASCII)
		encoder->conversion = FindDefaultConversionProc(GetDatabaseEncoding(), PG_UTF8);
}

static void
check_targets(const dv_relation *relation, const dv_attribute *attribute, const dv_lookup *lookup)
{
	int			n = list_length(lookup->sets);
	int			ntables = list_length(lookup->tables);
	int			nnavigations = list_length(lookup->navigations);

	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"target_set\" of column \"%s\" of foreign table \"%s\" is not set",
						attribute->name, relation->name),
				 errdetail("Lookups are written as references to rows of an entity set, such as \"contacts\"."),
				 errhint("Create the foreign table with IMPORT FOREIGN SCHEMA, or set options \"target\", \"target_set\", and \"navigation\" of the column.")));
	if ((n > 1 && ntables != n) || ntables > n || (nnavigations > 1 && nnavigations != n))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("options \"target\", \"target_set\", and \"navigation\" of column \"%s\" of foreign table \"%s\" do not match",
						attribute->name, relation->name),
				 errdetail("They name %d tables, %d entity sets, and %d navigation properties.",
						   ntables, n, nnavigations)));
}

static void
add_targets(dv_encoder *encoder, const dv_relation *relation, const dv_attribute *attribute,
			dv_options options)
{
	dv_lookup	lookup;
	int			i;

	dv_lookup_read(&attribute->column, options, &lookup);
	check_targets(relation, attribute, &lookup);
	encoder->ntargets = list_length(lookup.sets);
	encoder->targets = palloc0(sizeof(lookup_target) * encoder->ntargets);
	for (i = 0; i < encoder->ntargets; i++)
	{
		lookup_target *target = &encoder->targets[i];

		target->table = dv_lookup_name(lookup.tables, i);
		target->set = list_nth(lookup.sets, i);
		target->navigation = dv_lookup_navigation(&lookup, &attribute->column, i);
		target->prefix = psprintf(",\"%s@" DV_ANNOTATION_BIND "\":\"/%s(", target->navigation, target->set);
		target->prefix_len = strlen(target->prefix);
		target->null_text = psprintf(",\"%s\":null", target->navigation);
	}
	encoder->type_column = dv_relation_table_name_of(relation, attribute);
	if (encoder->type_column != 0)
		encoder->type_name = dv_relation_attribute(relation, encoder->type_column)->name;
}

/* Returns true if an earlier target has the same navigation property. */
static bool
is_same_way(const dv_encoder *encoder, int target)
{
	int			i;

	for (i = 0; i < target; i++)
		if (strcmp(encoder->targets[i].navigation, encoder->targets[target].navigation) == 0)
			return true;
	return false;
}

/* Sets the text for null; for a lookup, it names each navigation property once. */
static void
set_null_text(dv_encoder *encoder, const dv_column *column)
{
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	for (i = 0; i < encoder->ntargets; i++)
		if (!is_same_way(encoder, i))
			appendStringInfoString(&text, encoder->targets[i].null_text);
	if (encoder->ntargets == 0)
		appendStringInfo(&text, ",\"%s\":null", column->name);
	encoder->null_text = text.data;
	encoder->null_len = text.len;
}

dv_encoder *
dv_encoder_create(const dv_relation *relation, AttrNumber attnum, dv_nulls_as nulls)
{
	const dv_attribute *attribute = dv_relation_attribute(relation, attnum);
	dv_options	options = {GetForeignColumnOptions(relation->relid, attnum), NIL};
	dv_encoder *encoder = palloc0(sizeof(*encoder));

	if (attribute == NULL)
		elog(ERROR, "foreign table \"%s\" has no column %d", relation->name, attnum);
	check_writable(relation, attribute);
	encoder->name = attribute->name;
	encoder->type = attribute->column.type;
	encoder->pgtype = attribute->pgtype;

	encoder->prefix = encoder->null_text = "";
	/* the companion of a lookup is written as part of the lookup */
	if (attribute->is_table_name)
		return encoder;
	find_put(encoder, relation, attribute);
	encoder->prefix = psprintf(",\"%s\":", attribute->column.name);
	encoder->prefix_len = strlen(encoder->prefix);
	if (encoder->put == NULL)
		add_targets(encoder, relation, attribute, options);
	if (nulls == DV_NULL_WRITTEN)
		set_null_text(encoder, &attribute->column);
	return encoder;
}

bool
dv_encode(dv_encoder *encoder, Datum value, bool isnull, const char *type_value, StringInfo out,
		  dv_misfit *misfit)
{
	if (isnull)
		return put_null(encoder, out);
	if (encoder->put != NULL)
		return encoder->put(encoder, value, out, misfit);
	return encoder->ntargets == 0 || put_lookup(encoder, value, type_value, out, misfit);
}

bool
dv_encode_cleared(dv_encoder *encoder, const char *table, StringInfo out, dv_misfit *misfit)
{
	int			i;

	/* the lookup is null already, so any of them will do: the row still has the column */
	if (table == NULL && encoder->ntargets > 0)
		appendStringInfoString(out, encoder->targets[0].null_text);
	if (table == NULL)
		return true;
	for (i = 0; i < encoder->ntargets; i++)
	{
		/* a table that was created by hand need not name a single target */
		if (encoder->targets[i].table != NULL && strcmp(encoder->targets[i].table, table) != 0)
			continue;
		appendStringInfoString(out, encoder->targets[i].null_text);
		return true;
	}
	return refuse(misfit, ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE,
				  psprintf("column \"%s\" cannot be set to null, because it refers to table \"%s\"; known tables are: %s",
						   encoder->name, table, valid_targets(encoder)));
}

bool
dv_encoder_puts_text(const dv_encoder *encoder)
{
	return encoder->put == put_text;
}

AttrNumber
dv_encoder_type_column(const dv_encoder *encoder)
{
	return encoder->type_column;
}

/*
 * Keys
 */

static bool
put_text_key(const dv_encoder *encoder, Datum value, StringInfo out, dv_misfit *misfit)
{
	utf8_text	t;
	bool		fits = get_text(encoder, value, &t, misfit);

	if (fits)
	{
		/* a key has no prefix */
		enlargeStringInfo(out, (int) Min(DV_PAYLOAD_KEY(t.len), MaxAllocSize));
		end(out, dv_payload_key(out->data + out->len, t.text, t.len));
	}
	free_text(&t);
	return fits;
}

bool
dv_encode_key(dv_encoder *encoder, Datum value, bool isnull, StringInfo out, dv_misfit *misfit)
{
	dv_encoder	bare = *encoder;
	StringInfoData json;

	if (isnull)
		return refuse(misfit, ERRCODE_NULL_VALUE_NOT_ALLOWED,
					  psprintf("column \"%s\" is part of the key and must not be null",
							   encoder->name));
	if (encoder->put == NULL)
	{
		dv_append_id(out, DatumGetUUIDP(value)->data);
		return true;
	}
	if (encoder->put == put_text)
		return put_text_key(encoder, value, out, misfit);
	bare.prefix = "";
	bare.prefix_len = 0;
	initStringInfo(&json);
	if (!encoder->put(&bare, value, &json, misfit))
		return false;
	if (json.len > 1 && json.data[0] == '"')
	{
		/* times and ids are not quoted in addresses, but texts always are */
		const char *quote = dv_types[encoder->type].wire == DV_WIRE_TEXT ? "'" : "";

		appendStringInfo(out, "%s%.*s%s", quote, json.len - 2, json.data + 1, quote);
	}
	else
		appendBinaryStringInfo(out, json.data, json.len);
	pfree(json.data);
	return true;
}

void
dv_encode_key_fold(dv_encoder *encoder, Datum value, StringInfo out)
{
	dv_wire		wire = dv_types[encoder->type].wire;
	dv_misfit	misfit;

	if (encoder->put == put_text)
	{
		utf8_text	t;

		if (get_text(encoder, value, &t, &misfit))
			dv_fold_text(t.text, t.len, out);
		free_text(&t);
	}
	else
	{
		StringInfoData key;

		initStringInfo(&key);
		(void) dv_encode_key(encoder, value, false, &key, &misfit);
		if (wire & DV_WIRE_NUMBERS)
			dv_fold_number(key.data, key.len, out);
		else if (wire & DV_WIRE_TIMES)
			dv_fold_time(key.data, key.len, out);
		else
			appendBinaryStringInfo(out, key.data, key.len);
		pfree(key.data);
	}
}
