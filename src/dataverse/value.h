/*
 * value.h
 *		One value of a page, and its conversion to PostgreSQL's binary
 *		value.
 *
 * A value is a slice of its page.
 *
 * Conversions turn the service's text into the binary form in one step, with
 * neither a NUL-terminated copy nor a text input function.  Each of them
 * accepts only what the service writes for that type (README.md, Values).  For
 * a value of another JSON type, it returns DV_VALUE_TYPE, since the column
 * does not have the type that the foreign table declares.
 *
 * All of them expect a value returned by dv_page_next(), whose JSON syntax is
 * known to be correct, and which is neither null nor absent (these are
 * DV_VALUE_TYPE, too): the caller checks the kind first.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_VALUE_H
#define DV_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dv_value_kind
{
	DV_VALUE_ABSENT,			/* no such member; means null if nulls are omitted */
	DV_VALUE_NULL,
	DV_VALUE_TRUE,
	DV_VALUE_FALSE,
	DV_VALUE_NUMBER,			/* the text of a JSON number */
	DV_VALUE_STRING,			/* the text between the quotes, still escaped */
	DV_VALUE_OBJECT,			/* from brace to brace */
	DV_VALUE_ARRAY				/* from bracket to bracket */
} dv_value_kind;

typedef struct dv_value
{
	const char *text;			/* inside the page, not NUL-terminated */
	uint32_t	len;
	uint8_t		kind;			/* dv_value_kind */
	bool		escaped;		/* STRING: "text" still contains escapes */
} dv_value;

typedef enum dv_value_status
{
	DV_VALUE_OK,
	DV_VALUE_TYPE,				/* another type of JSON value */
	DV_VALUE_SYNTAX,			/* the right type of JSON value, but not in the form of the
								 * column's type */
	DV_VALUE_RANGE,				/* in the form of its type, but PostgreSQL's type cannot hold it */
	DV_VALUE_CHARACTER			/* text that PostgreSQL cannot store: U+0000, half a surrogate
								 * pair */
} dv_value_status;

#define dv_value_is_null(v) ((v)->kind <= DV_VALUE_NULL)

/* Describes a failure as a fragment: "not in the format of that type". */
extern const char *dv_value_reason(dv_value_status status);

/*
 * Writes the meaning of a string in UTF-8, without a NUL after it.  "out" must
 * have room for value->len bytes (unescaping never makes it longer).  If there
 * are no escapes, the slice itself is the text, and this call is not needed.
 */
extern dv_value_status dv_value_string(const dv_value *value, char *out, size_t *len);

/* Returns true if the string means exactly this ASCII text, and false for other kinds. */
extern bool dv_value_equals(const dv_value *value, const char *text);

/* Returns true if the meaning of a string ends with this ASCII text (at most 31 bytes). */
extern bool dv_value_ends_with(const dv_value *value, const char *text);

/* The form of a value, for dv_value_respell(). */
typedef enum dv_value_form
{
	DV_FORM_OTHER,
	DV_FORM_NUMBER,
	DV_FORM_TRUTH,
	DV_FORM_DAY
} dv_value_form;

/*
 * Answers to FetchXML may spell values differently from rows: numbers of
 * aggregates as strings, yes and no as 1 and 0, days followed by midnight.
 * Gives such a value the form that the conversions accept, and leaves others as
 * they are.
 */
extern void dv_value_respell(dv_value *value, dv_value_form form);

extern dv_value_status dv_value_bool(const dv_value *value, bool *out);

/* A fraction is accepted if it is zero: sums of integers arrive as 440000.000000000. */
extern dv_value_status dv_value_int32(const dv_value *value, int32_t *out);
extern dv_value_status dv_value_int64(const dv_value *value, int64_t *out);

/* Returns the nearest double.  LC_NUMERIC must be "C", as it always is in a backend. */
extern dv_value_status dv_value_double(const dv_value *value, double *out);

/*
 * unscaled / 10^scale, including trailing zeros, as
 * int64_div_fast_to_numeric() takes it.  Numbers with more than 18 digits or
 * an exponent give DV_VALUE_RANGE, which is not an error: the slice can be
 * passed to numeric_in().
 */
extern dv_value_status dv_value_decimal(const dv_value *value, int64_t *unscaled, int *scale);

/* 16 bytes as in pg_uuid_t, from 36 characters in either case. */
extern dv_value_status dv_value_uuid(const dv_value *value, uint8_t *out);

/*
 * Microseconds since 2000-01-01 00:00 UTC, like PostgreSQL's timestamps, from
 * yyyy-mm-ddThh:mm[:ss[.fraction]] and Z or an offset, rounded to the nearest
 * microsecond.  Years 1 to 9999.
 */
extern dv_value_status dv_value_timestamp(const dv_value *value, int64_t *out);

/* Days since 2000-01-01, like PostgreSQL's dates, from yyyy-mm-dd. */
extern dv_value_status dv_value_date(const dv_value *value, int32_t *out);

/*
 * The integers of a multi-select choice, "1,9" or "1, 9".  Returns
 * DV_VALUE_RANGE if there are more than "max" or if one does not fit into an
 * int32; *n is the number that were read.
 */
extern dv_value_status dv_value_choices(const dv_value *value, int32_t *out, int max, int *n);

/*
 * Bytes from base64 (with + and / or with - and _, padded or not).  "out" must
 * have room for value->len bytes.
 */
extern dv_value_status dv_value_base64(const dv_value *value, uint8_t *out, size_t *len);

#endif							/* DV_VALUE_H */
