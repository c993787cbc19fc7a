/*
 * value.c
 *		One column's value: from JSON, from literals of queries, into SQLite.
 *
 * A table has two readers for each type: one for bodies of writes, which
 * checks the column's limits, and one for literals, which only checks that the
 * text is of the type.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "store/text.h"

#define MIN_TIME INT64_C(-6847804800)	/* 1753-01-01 */
#define MAX_TIME INT64_C(253402300799)	/* 9999-12-31T23:59:59 */
#define MAX_CHOICES 150

struct reader
{
	struct sim_req *req;
	struct sim_res *res;
	struct sim_column *column;
	struct sim_value *out;
};

typedef bool (*json_reader) (struct reader *r, struct sim_json *json);
typedef bool (*literal_reader) (struct reader *r, const char *s, size_t len);

static void
set_int(struct reader *r, int64_t i)
{
	r->out->kind = SIM_V_INT;
	r->out->i = i;
}

static void
set_text(struct reader *r, const char *s, size_t len)
{
	r->out->kind = SIM_V_TEXT;
	r->out->s = s;
	r->out->len = len;
}

static void
set_decimal(struct reader *r, sim_dec v)
{
	r->out->kind = SIM_V_BLOB;
	r->out->s = NULL;
	r->out->len = 16;
	sim_dec_pack(v, r->out->fixed);
}

static bool
set_guid(struct reader *r, const char *s, size_t len)
{
	r->out->kind = SIM_V_BLOB;
	r->out->s = NULL;
	r->out->len = 16;
	return sim_guid_parse(s, len, r->out->fixed);
}

/* Fails with the service's message for a body that the OData reader cannot accept. */
static bool
payload_fail(struct reader *r, const char *edm, const char *s, size_t len)
{
	return sim_fail(r->req, r->res, 400, "0x80048d19",
					"Error identified in Payload provided by the user for Entity :'%s', "
					"For more information on this error please follow this help link "
					"https://go.microsoft.com/fwlink/?linkid=2195293  ---->  InnerException : "
					"Microsoft.OData.ODataException: Cannot convert the literal '%.*s' to the "
					"expected type '%s'.", r->column->table->set_name,
					(int) (len < 200 ? len : 200), s != NULL ? s : "", edm);
}

static bool
wrong_json(struct reader *r, const struct sim_json *json, const char *edm)
{
	static const char *const words[] = {"null", "false", "true", "", "", "[", "{"};
	const char *word = words[json->type];

	if (json->type == SIM_JSON_NUMBER || json->type == SIM_JSON_STRING)
		return payload_fail(r, edm, json->s, json->len);
	return payload_fail(r, edm, word, strlen(word));
}

/* digits with an optional sign, in the range of int64 */
static bool
parse_int(const char *s, size_t len, int64_t *out)
{
	bool		negative = len > 0 && s[0] == '-';
	size_t		i = negative || (len > 0 && s[0] == '+') ? 1 : 0;
	uint64_t	u = 0;

	if (i == len)
		return false;
	for (; i < len; i++)
	{
		if (s[i] < '0' || s[i] > '9' || u > (UINT64_MAX - 9) / 10)
			return false;
		u = u * 10 + (uint64_t) (s[i] - '0');
	}
	if (u > (uint64_t) INT64_MAX + (negative ? 1 : 0))
		return false;
	*out = negative ? (int64_t) (0 - u) : (int64_t) u;
	return true;
}

/* text of a JSON number or literal as a double */
static bool
parse_real(const char *s, size_t len, double *out)
{
	char		copy[64];
	char	   *end;

	if (len == 0 || len >= sizeof(copy))
		return false;
	memcpy(copy, s, len);
	copy[len] = '\0';
	if (strspn(copy, "+-.0123456789eE") != len)
		return false;
	*out = strtod(copy, &end);
	return *end == '\0' && isfinite(*out);
}

static const char *
edm_of_int(const struct sim_column *column)
{
	return column->type == SIM_BIGINT ? "Edm.Int64" : "Edm.Int32";
}

static bool
out_of_range(struct reader *r, const char *code, const struct sim_json *json)
{
	const struct sim_column *column = r->column;

	return sim_fail(r->req, r->res, 400, code,
					"A validation error occurred. The value %.*s of '%s' on record of type '%s' "
					"is outside the valid range. Accepted Values: %s to %s",
					(int) (json->len < 100 ? json->len : 100), json->s, column->name,
					column->table->name, column->min_value != NULL ? column->min_value : "",
					column->max_value != NULL ? column->max_value : "");
}

/* --- bodies of writes --- */

static bool
json_text(struct reader *r, struct sim_json *json)
{
	const struct sim_column *column = r->column;

	if (json->type != SIM_JSON_STRING)
		return wrong_json(r, json, "Edm.String");
	if (json->len == 0)
		return true;
	if (!sim_text_valid(json->s, json->len))
		return sim_fail(r->req, r->res, 400, "0x80040278",
						"The field '%s' contains one or more invalid characters.", column->name);
	if (json->len > (size_t) column->max_length && column->max_length > 0 &&
		sim_text_units(json->s, json->len) > (size_t) column->max_length)
		return sim_fail(r->req, r->res, 400, "0x80044331",
						"A validation error occurred.  The length of the '%s' attribute of the "
						"'%s' entity exceeded the maximum allowed length of '%d'.",
						column->name, column->table->name, column->max_length);
	set_text(r, json->s, json->len);
	return true;
}

static bool
json_integer(struct reader *r, struct sim_json *json)
{
	bool		text_allowed = r->column->type == SIM_BIGINT && json->type == SIM_JSON_STRING;
	int64_t		i;

	if ((json->type != SIM_JSON_NUMBER && !text_allowed) || !parse_int(json->s, json->len, &i))
		return wrong_json(r, json, edm_of_int(r->column));
	if (r->column->type != SIM_BIGINT && (i < INT32_MIN || i > INT32_MAX))
		return wrong_json(r, json, "Edm.Int32");
	if (i < r->column->min_int || i > r->column->max_int)
		return out_of_range(r, "0x8004432F", json);
	set_int(r, i);
	return true;
}

static bool
json_decimal(struct reader *r, struct sim_json *json)
{
	const struct sim_column *column = r->column;
	sim_dec		v;
	sim_dec		limit;
	double		size;

	if (json->type != SIM_JSON_NUMBER)
		return wrong_json(r, json, "Edm.Decimal");
	if (!sim_dec_parse(json->s, json->len, column->precision, &v))
		return parse_real(json->s, json->len, &size) ? out_of_range(r, "0x80044330", json) :
			wrong_json(r, json, "Edm.Decimal");
	if ((column->min_value != NULL &&
		 sim_dec_parse(column->min_value, strlen(column->min_value), SIM_DEC_SCALE, &limit) &&
		 v < limit) ||
		(column->max_value != NULL &&
		 sim_dec_parse(column->max_value, strlen(column->max_value), SIM_DEC_SCALE, &limit) &&
		 v > limit))
		return out_of_range(r, "0x80044330", json);
	set_decimal(r, v);
	return true;
}

static bool
json_double(struct reader *r, struct sim_json *json)
{
	static const double scale[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};
	const struct sim_column *column = r->column;
	double		v;

	if (json->type != SIM_JSON_NUMBER || !parse_real(json->s, json->len, &v))
		return wrong_json(r, json, "Edm.Double");
	if ((column->min_value != NULL && v < strtod(column->min_value, NULL)) ||
		(column->max_value != NULL && v > strtod(column->max_value, NULL)))
		return out_of_range(r, "0x80044330", json);
	if (column->precision >= 0 && column->precision <= 10)
		v = round(v * scale[column->precision]) / scale[column->precision];
	r->out->kind = SIM_V_REAL;
	r->out->r = v;
	return true;
}

static bool
json_boolean(struct reader *r, struct sim_json *json)
{
	if (json->type != SIM_JSON_TRUE && json->type != SIM_JSON_FALSE)
		return wrong_json(r, json, "Edm.Boolean");
	set_int(r, json->type == SIM_JSON_TRUE);
	return true;
}

static bool
choice_fail(struct reader *r, int64_t value)
{
	const struct sim_option_set *set = r->column->options;
	struct sim_buf list = {0};
	const char *accepted;
	int			i;

	for (i = 0; set != NULL && i < set->n; i++)
		sim_putf(&list, "%s%d", i > 0 ? "," : "", set->options[i].value);
	accepted = sim_strndup(r->req->arena, list.s, list.len);
	sim_buf_free(&list);
	return sim_fail(r->req, r->res, 400, "0x8004431A",
					"A validation error occurred. The value %lld of '%s' on record of type '%s' "
					"is outside the valid range. Accepted Values: %s", (long long) value,
					r->column->name, r->column->table->name, accepted);
}

/* The status is not checked here: its valid values depend on the state. */
static bool
json_choice(struct reader *r, struct sim_json *json)
{
	int64_t		i;

	if (json->type != SIM_JSON_NUMBER || !parse_int(json->s, json->len, &i) ||
		i < INT32_MIN || i > INT32_MAX)
		return wrong_json(r, json, "Edm.Int32");
	if (r->column->type != SIM_STATUS && sim_option_by_value(r->column->options, (int) i) == NULL)
		return choice_fail(r, i);
	set_int(r, i);
	return true;
}

static int
compare_ints(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

/* "1, 9" into values, ascending and each once; -1 if it is not such a list */
static int
parse_choices(const char *s, size_t len, int64_t *values, int max)
{
	int			n = 0;
	int			kept = 0;
	size_t		i = 0;

	while (i < len)
	{
		size_t		start;
		size_t		end;

		while (i < len && s[i] == ' ')
			i++;
		start = i;
		while (i < len && s[i] != ',')
			i++;
		end = i;
		while (end > start && s[end - 1] == ' ')
			end--;
		if (n == max || !parse_int(s + start, end - start, &values[n]))
			return -1;
		n++;
		if (i < len && ++i == len)
			return -1;			/* a comma at the end */
	}
	qsort(values, (size_t) n, sizeof(values[0]), compare_ints);
	for (i = 0; i < (size_t) n; i++)
	{
		if (kept == 0 || values[kept - 1] != values[i])
			values[kept++] = values[i];
	}
	return kept;
}

static void
set_choices(struct reader *r, const int64_t *values, int n)
{
	struct sim_buf list = {0};
	int			i;

	if (n == 0)
		return;
	for (i = 0; i < n; i++)
	{
		sim_putc(&list, ',');
		sim_put_i64(&list, values[i]);
	}
	sim_putc(&list, ',');
	set_text(r, sim_strndup(r->req->arena, list.s, list.len), list.len);
	sim_buf_free(&list);
}

static bool
json_multiselect(struct reader *r, struct sim_json *json)
{
	int64_t		values[MAX_CHOICES];
	int			n;
	int			i;

	if (json->type != SIM_JSON_STRING)
		return wrong_json(r, json, "Edm.String");
	n = parse_choices(json->s, json->len, values, MAX_CHOICES);
	if (n < 0)
		return sim_fail(r->req, r->res, 400, "0x8004431A",
						"A validation error occurred. The value '%.*s' of '%s' on record of type "
						"'%s' is not a list of at most %d choices.",
						(int) (json->len < 200 ? json->len : 200), json->s, r->column->name,
						r->column->table->name, MAX_CHOICES);
	for (i = 0; i < n; i++)
	{
		if (values[i] < INT32_MIN || values[i] > INT32_MAX ||
			sim_option_by_value(r->column->options, (int) values[i]) == NULL)
			return choice_fail(r, values[i]);
	}
	set_choices(r, values, n);
	return true;
}

static bool
check_time(struct reader *r, int64_t seconds)
{
	struct sim_buf when = {0};
	const char *text;

	if (seconds >= MIN_TIME && seconds <= MAX_TIME)
		return true;
	sim_time_print(&when, seconds, false);
	text = sim_strndup(r->req->arena, when.s, when.len);

	sim_buf_free(&when);
	return sim_fail(r->req, r->res, 400, "0x80040239",
					"DateTime is less than minumum value supported by CrmDateTime. "
					"Actual value: %s, Minimum value supported: 01/01/1753 00:00:00", text);
}

static bool
json_time(struct reader *r, struct sim_json *json)
{
	bool		date = r->column->behaviour == SIM_DATE_ONLY;
	int64_t		seconds;

	if (json->type != SIM_JSON_STRING || !sim_time_parse(json->s, json->len, &seconds) ||
		(date && json->len != 10))
		return wrong_json(r, json, date ? "Edm.Date" : "Edm.DateTimeOffset");
	if (!check_time(r, seconds))
		return false;
	set_int(r, seconds);
	return true;
}

static bool
json_guid(struct reader *r, struct sim_json *json)
{
	if (json->type != SIM_JSON_STRING || !set_guid(r, json->s, json->len))
		return wrong_json(r, json, "Edm.Guid");
	return true;
}

/* Base64; max_length of an image is its size in kB. */
static bool
json_image(struct reader *r, struct sim_json *json)
{
	unsigned char *bytes;
	size_t		len = json->len;
	int			n;

	if (json->type != SIM_JSON_STRING || len % 4 != 0)
		return wrong_json(r, json, "Edm.Binary");
	if (len == 0)
		return true;
	if (len / 4 * 3 > (size_t) r->column->max_length * 1024)
		return sim_fail(r->req, r->res, 400, "0x80044331",
						"A validation error occurred.  The length of the '%s' attribute of the "
						"'%s' entity exceeded the maximum allowed length of '%d'.",
						r->column->name, r->column->table->name, r->column->max_length * 1024);
	bytes = sim_alloc(r->req->arena, len / 4 * 3 + 4);
	n = EVP_DecodeBlock(bytes, (const unsigned char *) json->s, (int) len);
	if (n < 0)
		return wrong_json(r, json, "Edm.Binary");
	r->out->kind = SIM_V_BLOB;
	r->out->s = (const char *) bytes;
	r->out->len = (size_t) n - (json->s[len - 1] == '=') - (json->s[len - 2] == '=');
	return true;
}

static bool
json_refused(struct reader *r, struct sim_json *json)
{
	return wrong_json(r, json, "Edm.Stream");
}

static const json_reader json_readers[SIM_TYPES] = {
	[SIM_UUID] = json_guid,
	[SIM_STRING] = json_text,
	[SIM_MEMO] = json_text,
	[SIM_INTEGER] = json_integer,
	[SIM_BIGINT] = json_integer,
	[SIM_DECIMAL] = json_decimal,
	[SIM_MONEY] = json_decimal,
	[SIM_DOUBLE] = json_double,
	[SIM_BOOLEAN] = json_boolean,
	[SIM_PICKLIST] = json_choice,
	[SIM_STATE] = json_choice,
	[SIM_STATUS] = json_choice,
	[SIM_MULTISELECT] = json_multiselect,
	[SIM_DATETIME] = json_time,
	[SIM_ENTITYNAME] = json_text,
	[SIM_IMAGE] = json_image,
};

bool
sim_column_filterable(struct sim_req *req, struct sim_res *res, const struct sim_column *column)
{
	if (column->filterable)
		return true;
	return sim_fail(req, res, 400, "0x80040203",
					"The attribute '%s' is calculated from '%s' when it is read: it cannot be used "
					"in a condition or an order.", column->name, column->attribute_of);
}

bool
sim_value_from_json(struct sim_req *req, struct sim_res *res, struct sim_column *column,
					struct sim_json *json, struct sim_value *out)
{
	struct reader r = {req, res, column, out};
	json_reader read = json_readers[column->type];

	out->kind = SIM_V_NULL;
	out->s = NULL;
	out->len = 0;
	if (json->type == SIM_JSON_NULL)
		return true;
	return read != NULL ? read(&r, json) : json_refused(&r, json);
}

/* --- literals of queries --- */

static bool
literal_fail(struct reader *r, const char *s, size_t len, const char *edm)
{
	return sim_fail(r->req, r->res, 400, "0x80060888",
					"A binary operator with incompatible types was detected. The value '%.*s' "
					"cannot be compared with '%s' of type '%s'.",
					(int) (len < 200 ? len : 200), s, r->column->name, edm);
}

static bool
literal_text(struct reader *r, const char *s, size_t len)
{
	set_text(r, s, len);
	return true;
}

static bool
literal_integer(struct reader *r, const char *s, size_t len)
{
	int64_t		i;

	if (parse_int(s, len, &i))
	{
		set_int(r, i);
		return true;
	}
	r->out->kind = SIM_V_REAL;
	return parse_real(s, len, &r->out->r) || literal_fail(r, s, len, edm_of_int(r->column));
}

/* A number that is too large for a decimal is larger than all of them. */
static bool
literal_decimal(struct reader *r, const char *s, size_t len)
{
	const sim_dec largest = (sim_dec) (((unsigned __int128) 1 << 127) - 1);
	sim_dec		v;
	double		size;

	if (!sim_dec_parse(s, len, SIM_DEC_SCALE, &v))
	{
		if (!parse_real(s, len, &size))
			return literal_fail(r, s, len, "Edm.Decimal");
		v = size < 0 ? -largest : largest;
	}
	set_decimal(r, v);
	return true;
}

static bool
literal_double(struct reader *r, const char *s, size_t len)
{
	r->out->kind = SIM_V_REAL;
	return parse_real(s, len, &r->out->r) || literal_fail(r, s, len, "Edm.Double");
}

static bool
literal_boolean(struct reader *r, const char *s, size_t len)
{
	bool		yes = (len == 4 && strncasecmp(s, "true", 4) == 0) || (len == 1 && *s == '1');
	bool		no = (len == 5 && strncasecmp(s, "false", 5) == 0) || (len == 1 && *s == '0');

	set_int(r, yes);
	return yes || no || literal_fail(r, s, len, "Edm.Boolean");
}

static bool
literal_choices(struct reader *r, const char *s, size_t len)
{
	int64_t		values[MAX_CHOICES];
	int			n = parse_choices(s, len, values, MAX_CHOICES);

	if (n < 0)
		return literal_fail(r, s, len, "Edm.String");
	set_text(r, "", 0);
	set_choices(r, values, n);
	return true;
}

static bool
literal_time(struct reader *r, const char *s, size_t len)
{
	int64_t		seconds;

	if (!sim_time_parse(s, len, &seconds))
		return literal_fail(r, s, len, r->column->behaviour == SIM_DATE_ONLY ? "Edm.Date" :
							"Edm.DateTimeOffset");
	set_int(r, seconds);
	return check_time(r, seconds);
}

static bool
literal_guid(struct reader *r, const char *s, size_t len)
{
	return set_guid(r, s, len) || literal_fail(r, s, len, "Edm.Guid");
}

/* A table by its logical name or its type code. */
static bool
literal_table(struct reader *r, const char *s, size_t len)
{
	struct sim_schema *schema = r->req->sim->schema;
	int64_t		code;
	int			i;

	set_text(r, s, len);
	if (!parse_int(s, len, &code))
		return true;
	for (i = 0; i < schema->ntables; i++)
	{
		const struct sim_table *table = &schema->tables[i];

		if (table->type_code == code)
			set_text(r, table->name, strlen(table->name));
	}
	return true;
}

static const literal_reader literal_readers[SIM_TYPES] = {
	[SIM_UUID] = literal_guid,
	[SIM_STRING] = literal_text,
	[SIM_MEMO] = literal_text,
	[SIM_INTEGER] = literal_integer,
	[SIM_BIGINT] = literal_integer,
	[SIM_DECIMAL] = literal_decimal,
	[SIM_MONEY] = literal_decimal,
	[SIM_DOUBLE] = literal_double,
	[SIM_BOOLEAN] = literal_boolean,
	[SIM_PICKLIST] = literal_integer,
	[SIM_STATE] = literal_integer,
	[SIM_STATUS] = literal_integer,
	[SIM_MULTISELECT] = literal_choices,
	[SIM_DATETIME] = literal_time,
	[SIM_LOOKUP] = literal_guid,
	[SIM_CUSTOMER] = literal_guid,
	[SIM_OWNER] = literal_guid,
	[SIM_ENTITYNAME] = literal_table,
	[SIM_FILE] = literal_guid,
	[SIM_MANAGED] = literal_boolean,
};

bool
sim_value_from_literal(struct sim_req *req, struct sim_res *res, struct sim_column *column,
					   const char *s, size_t len, struct sim_value *out)
{
	struct reader r = {req, res, column, out};
	literal_reader read = literal_readers[column->type];

	out->kind = SIM_V_NULL;
	out->s = NULL;
	out->len = 0;
	return read != NULL ? read(&r, s, len) : literal_fail(&r, s, len, "Edm.Stream");
}

/* --- SQL --- */

int
sim_value_bind(sqlite3_stmt *stmt, int param, const struct sim_value *value)
{
	switch (value->kind)
	{
		case SIM_V_INT:
			return sqlite3_bind_int64(stmt, param, value->i);
		case SIM_V_REAL:
			return sqlite3_bind_double(stmt, param, value->r);
		case SIM_V_TEXT:
			return sqlite3_bind_text64(stmt, param, value->s != NULL ? value->s : "", value->len,
									   SQLITE_STATIC, SQLITE_UTF8);
		case SIM_V_BLOB:
			if (value->s == NULL)
				return sqlite3_bind_blob(stmt, param, value->fixed, 16, SQLITE_TRANSIENT);
			return sqlite3_bind_blob64(stmt, param, value->s, value->len, SQLITE_STATIC);
		case SIM_V_NULL:
			break;
	}
	return sqlite3_bind_null(stmt, param);
}

bool
sim_value_is_null(const struct sim_value *value)
{
	return value->kind == SIM_V_NULL;
}

/* Writes a formula with "{column}" replaced by the column's expression under the alias. */
static void
put_formula(struct sim_buf *sql, const char *alias, struct sim_column *column)
{
	const char *p = column->formula;

	while (*p != '\0')
	{
		size_t		text = strcspn(p, "{");
		size_t		name;
		struct sim_column *other;

		sim_put(sql, p, text);
		p += text;

		if (*p == '\0')
			break;
		name = strcspn(++p, "}");
		other = sim_column_by_name(column->table, p, name);
		if (other != NULL && other != column)
			sim_column_sql(sql, alias, other);
		else
			sim_putf(sql, "%s.\"%.*s\"", alias, (int) name, p); /* "objectid.type" */
		p += name + (p[name] == '}');
	}
}

void
sim_column_sql(struct sim_buf *sql, const char *alias, struct sim_column *column)
{
	bool		text = column->type == SIM_STRING || column->type == SIM_MEMO ||
	column->type == SIM_ENTITYNAME;

	if (column->formula != NULL)
	{
		sim_putc(sql, '(');
		put_formula(sql, alias, column);
		sim_puts(sql, text ? " COLLATE DV)" : ")");
	}
	else if (column == column->table->partition)
		sim_putf(sql, "nullif(%s.\"%s\", '')", alias, column->name);
	else if (column->stored)
		sim_putf(sql, "%s.\"%s\"", alias, column->name);
	else
		sim_puts(sql, "NULL");
}
