/*
 * value.h
 *		One value of a page, and its conversion to what PostgreSQL stores.
 *
 * A value is a slice of the page that it stands in.
 *
 * Conversions go from the service's text to the binary form in one step: no
 * copy that ends in a NUL, no text input function.  Each of them takes what
 * the service writes for that type (facts 9) and nothing else.  A value of
 * another kind is DV_VALUE_TYPE, not an attempt: it means that the column is
 * not what the foreign table says it is.
 *
 * All of them expect a value that dv_page_next() gave, whose syntax as JSON
 * is known to be right, and neither null nor absent (those are DV_VALUE_TYPE
 * too): the caller looks at the kind first.
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
	DV_VALUE_ABSENT,			/* no such member: null, where nulls are left out */
	DV_VALUE_NULL,
	DV_VALUE_TRUE,
	DV_VALUE_FALSE,
	DV_VALUE_NUMBER,			/* the text of a JSON number */
	DV_VALUE_STRING,			/* what stands between the quotes, as it stands */
	DV_VALUE_OBJECT,			/* from brace to brace */
	DV_VALUE_ARRAY				/* from bracket to bracket */
} dv_value_kind;

typedef struct dv_value
{
	const char *text;			/* inside the page, not NUL-terminated */
	uint32_t	len;
	uint8_t		kind;			/* dv_value_kind */
	bool		escaped;		/* STRING: has escapes, so text is not yet what it means */
} dv_value;

typedef enum dv_value_status
{
	DV_VALUE_OK,
	DV_VALUE_TYPE,				/* another kind of JSON value */
	DV_VALUE_SYNTAX,			/* the right kind, but not written as the type is */
	DV_VALUE_RANGE,				/* as the type is written, but PostgreSQL's has no room for it */
	DV_VALUE_CHARACTER			/* text that PostgreSQL cannot store: U+0000, half a surrogate
								 * pair */
} dv_value_status;

#define dv_value_is_null(v) ((v)->kind <= DV_VALUE_NULL)

/* What went wrong, as a fragment: "not written as a value of that type". */
extern const char *dv_value_reason(dv_value_status status);

/*
 * A string's meaning in UTF-8, without a NUL behind it.  "out" has room for
 * value->len bytes (unescaping never makes it longer).  Without escapes the
 * slice itself is the text, and calling this is a waste.
 */
extern dv_value_status dv_value_string(const dv_value *value, char *out, size_t *len);

/* Does a string mean exactly this ASCII text?  False for other kinds. */
extern bool dv_value_equals(const dv_value *value, const char *text);

/* Does a string's meaning end in this ASCII text (at most 31 bytes)? */
extern bool dv_value_ends_with(const dv_value *value, const char *text);

extern dv_value_status dv_value_bool(const dv_value *value, bool *out);

/* A fraction is taken if it is zero: sums of integers arrive as 440000.000000000. */
extern dv_value_status dv_value_int32(const dv_value *value, int32_t *out);
extern dv_value_status dv_value_int64(const dv_value *value, int64_t *out);

/* The nearest double.  Expects LC_NUMERIC "C", which a backend always has. */
extern dv_value_status dv_value_double(const dv_value *value, double *out);

/*
 * unscaled / 10^scale, trailing zeros included: what
 * int64_div_fast_to_numeric() takes.  DV_VALUE_RANGE beyond 18 digits and for
 * exponents: not an error, numeric_in() reads those (the slice is a number's
 * text).
 */
extern dv_value_status dv_value_decimal(const dv_value *value, int64_t *unscaled, int *scale);

/* 16 bytes as pg_uuid_t has them, from 36 characters in either case. */
extern dv_value_status dv_value_uuid(const dv_value *value, uint8_t *out);

/*
 * Microseconds since 2000-01-01 00:00 UTC, as PostgreSQL's timestamps, from
 * yyyy-mm-ddThh:mm[:ss[.fraction]] and Z or an offset; rounded to the nearest
 * microsecond.  Years 1 to 9999.
 */
extern dv_value_status dv_value_timestamp(const dv_value *value, int64_t *out);

/* Days since 2000-01-01, as PostgreSQL's dates, from yyyy-mm-dd. */
extern dv_value_status dv_value_date(const dv_value *value, int32_t *out);

/*
 * The integers of a multi-select choice, "1,9" or "1, 9".  DV_VALUE_RANGE if
 * there are more than "max" or one is no int32; *n says how many were read.
 */
extern dv_value_status dv_value_choices(const dv_value *value, int32_t *out, int max, int *n);

/*
 * Base64 (with + and / or - and _, padded or not) as bytes.  "out" has room for
 * value->len bytes.
 */
extern dv_value_status dv_value_base64(const dv_value *value, uint8_t *out, size_t *len);

#endif							/* DV_VALUE_H */
