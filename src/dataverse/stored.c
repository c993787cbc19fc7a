/*
 * stored.c
 *		Compares a value that was sent with the value that the service returns.
 *
 * Everything that the documentation leaves open (README.md, Values) is
 * considered possible: how halves are rounded, whether blanks at the ends of a
 * text are kept, which default replaces a null.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dataverse/stored.h"

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)
#define CHOICES_MAX 150

/* Digits before and after the decimal point of a number that is compared digit by digit */
#define WHOLE_DIGITS 40
#define FRACTION_DIGITS 40
#define DIGITS (WHOLE_DIGITS + FRACTION_DIGITS)

bool
dv_stored_comparable(dv_wire wire)
{
	return wire != DV_WIRE_OPAQUE && wire != DV_WIRE_BYTES;
}

static dv_stored
equal_if(bool equal)
{
	return equal ? DV_STORED_EQUAL : DV_STORED_DIFFERENT;
}

/*
 * Text
 */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
same_but_for_blanks(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t		i = 0;
	size_t		j = 0;

	for (;;)
	{
		while (i < a_len && is_blank(a[i]))
			i++;
		while (j < b_len && is_blank(b[j]))
			j++;
		if (i == a_len || j == b_len)
			return i == a_len && j == b_len;
		if (a[i++] != b[j++])
			return false;
	}
}

static dv_stored
compare_text(const dv_value *sent, const dv_value *read, char *scratch)
{
	const char *a = sent->text;
	const char *b = read->text;
	size_t		a_len = sent->len;
	size_t		b_len = read->len;

	if (sent->kind != DV_VALUE_STRING || read->kind != DV_VALUE_STRING)
		return DV_STORED_UNKNOWN;
	if (sent->escaped)
	{
		if (dv_value_string(sent, scratch, &a_len) != DV_VALUE_OK)
			return DV_STORED_UNKNOWN;
		a = scratch;
	}
	if (read->escaped)
	{
		if (dv_value_string(read, scratch + sent->len, &b_len) != DV_VALUE_OK)
			return DV_STORED_UNKNOWN;
		b = scratch + sent->len;
	}
	if (a_len == b_len && memcmp(a, b, a_len) == 0)
		return DV_STORED_EQUAL;
	return same_but_for_blanks(a, a_len, b, b_len) ? DV_STORED_UNKNOWN : DV_STORED_DIFFERENT;
}

/*
 * Numbers
 */

/* A number as digits: digit[WHOLE_DIGITS] is the first one after the point. */
typedef struct decimal
{
	bool		negative;
	int			scale;			/* number of digits written after the point */
	signed char digit[DIGITS];
} decimal;

/* Returns false if the number is written with an exponent or has too many digits. */
static bool
read_decimal(const dv_value *value, decimal *d)
{
	const char *p = value->text;
	const char *end = p + value->len;
	const char *point;
	long		at;

	memset(d, 0, sizeof(*d));
	if (value->kind != DV_VALUE_NUMBER)
		return false;
	if (p < end && *p == '-')
	{
		d->negative = true;
		p++;
	}
	point = memchr(p, '.', (size_t) (end - p));
	if (point == NULL)
		point = end;
	at = WHOLE_DIGITS - (point - p);
	for (; p < end; p++)
	{
		if (p == point)
			continue;
		if (*p < '0' || *p > '9' || at < 0)
			return false;
		if (at >= DIGITS)
		{
			/* zeros beyond the last place make no difference */
			if (*p != '0')
				return false;
			continue;
		}
		d->digit[at++] = (signed char) (*p - '0');
	}
	d->scale = at > WHOLE_DIGITS ? (int) at - WHOLE_DIGITS : 0;
	return true;
}

/* Adds b, or subtracts it, digit by digit; returns the carry beyond the first digit. */
static int
add_digits(signed char *sum, const signed char *a, const signed char *b, int sign)
{
	int			carry = 0;

	for (int i = DIGITS - 1; i >= 0; i--)
	{
		int			digit = a[i] + sign * b[i] + carry;

		carry = digit < 0 ? -1 : digit / 10;
		sum[i] = (signed char) (digit - 10 * carry);
	}
	return carry;
}

/* Returns true if a and b differ by half a unit of b's last digit at most. */
static bool
rounds_to(const decimal *a, const decimal *b)
{
	decimal		difference;
	signed char bound[DIGITS] = {0};
	int			carry;

	if (a->negative != b->negative)
		carry = add_digits(difference.digit, a->digit, b->digit, 1);
	else if (memcmp(a->digit, b->digit, DIGITS) >= 0)
		carry = add_digits(difference.digit, a->digit, b->digit, -1);
	else
		carry = add_digits(difference.digit, b->digit, a->digit, -1);
	if (carry != 0 || add_digits(difference.digit, difference.digit, difference.digit, 1) != 0)
		return false;
	bound[WHOLE_DIGITS - 1 + b->scale] = 1;
	return memcmp(difference.digit, bound, DIGITS) <= 0;
}

static int
digits_after_point(const dv_value *number)
{
	const char *point = memchr(number->text, '.', number->len);

	return point != NULL ? (int) (number->text + number->len - point) - 1 : 0;
}

static dv_stored
compare_doubles(const dv_value *sent, const dv_value *read)
{
	double		half = 0.500001;
	double		a;
	double		b;

	if (dv_value_double(sent, &a) != DV_VALUE_OK || dv_value_double(read, &b) != DV_VALUE_OK)
		return DV_STORED_UNKNOWN;
	if (a == b)
		return DV_STORED_EQUAL;
	/* with an exponent, the number of digits is not that of the column */
	if (memchr(read->text, 'e', read->len) != NULL || memchr(read->text, 'E', read->len) != NULL)
		return fabs(a - b) <= 1e-5 * fabs(a) ? DV_STORED_UNKNOWN : DV_STORED_DIFFERENT;
	for (int i = digits_after_point(read); i > 0; i--)
		half /= 10;
	return fabs(a - b) <= half ? DV_STORED_UNKNOWN : DV_STORED_DIFFERENT;
}

static dv_stored
compare_decimals(const dv_value *sent, const dv_value *read)
{
	decimal		a;
	decimal		b;
	static const signed char zero[DIGITS];

	if (!read_decimal(sent, &a) || !read_decimal(read, &b))
		return compare_doubles(sent, read);
	if (memcmp(a.digit, b.digit, DIGITS) == 0 &&
		(a.negative == b.negative || memcmp(a.digit, zero, DIGITS) == 0))
		return DV_STORED_EQUAL;
	return rounds_to(&a, &b) ? DV_STORED_UNKNOWN : DV_STORED_DIFFERENT;
}

/* Reads a single whole number: of a choice, of days, 0 or 1. */
static bool
read_whole(dv_wire wire, const dv_value *value, int64_t *n)
{
	bool		truth;
	int32_t		days;

	switch (wire)
	{
		case DV_WIRE_BOOLEAN:
			if (dv_value_bool(value, &truth) != DV_VALUE_OK)
				return false;
			*n = truth;
			return true;
		case DV_WIRE_DATE:
			if (dv_value_date(value, &days) != DV_VALUE_OK)
				return false;
			*n = days;
			return true;
		default:
			return dv_value_int64(value, n) == DV_VALUE_OK;
	}
}

static dv_stored
compare_whole(dv_wire wire, const dv_value *sent, const dv_value *read)
{
	int64_t		a;
	int64_t		b;

	if (!read_whole(wire, sent, &a) || !read_whole(wire, read, &b))
		return DV_STORED_UNKNOWN;
	return equal_if(a == b);
}

/* Returns true if all of a's numbers are among b's. */
static bool
is_subset(const int32_t *a, int na, const int32_t *b, int nb)
{
	for (int i = 0; i < na; i++)
	{
		int			j = 0;

		while (j < nb && b[j] != a[i])
			j++;
		if (j == nb)
			return false;
	}
	return true;
}

static dv_stored
compare_choices(const dv_value *sent, const dv_value *read)
{
	int32_t		a[CHOICES_MAX];
	int32_t		b[CHOICES_MAX];
	int			na;
	int			nb;

	if (dv_value_choices(sent, a, CHOICES_MAX, &na) != DV_VALUE_OK ||
		dv_value_choices(read, b, CHOICES_MAX, &nb) != DV_VALUE_OK)
		return DV_STORED_UNKNOWN;
	return equal_if(is_subset(a, na, b, nb) && is_subset(b, nb, a, na));
}

/*
 * Times
 */

static int64_t
whole_seconds(int64_t t)
{
	return (t >= 0 ? t : t - SECOND + 1) / SECOND;
}

static dv_stored
compare_times(const dv_value *sent, const dv_value *read)
{
	int64_t		a;
	int64_t		b;

	if (dv_value_timestamp(sent, &a) != DV_VALUE_OK ||
		dv_value_timestamp(read, &b) != DV_VALUE_OK)
		return DV_STORED_UNKNOWN;
	if (a == b || whole_seconds(a) * SECOND == b)
		return DV_STORED_EQUAL;
	/* it may be rounded, or the column may have no time of day */
	if ((b > a && b - a < SECOND) || (b % DAY == 0 && b - a < DAY && a - b < DAY))
		return DV_STORED_UNKNOWN;
	return DV_STORED_DIFFERENT;
}

/*
 * Ids
 */

static dv_stored
compare_ids(const dv_value *sent, const dv_value *read)
{
	uint8_t		a[16];
	uint8_t		b[16];

	if (dv_value_uuid(sent, a) != DV_VALUE_OK || dv_value_uuid(read, b) != DV_VALUE_OK)
		return DV_STORED_UNKNOWN;
	return equal_if(memcmp(a, b, sizeof(a)) == 0);
}

/* A lookup is sent as "/accounts(ID)", or with an alternate key in place of the id. */
static dv_stored
compare_references(const dv_value *sent, const dv_value *read)
{
	dv_value	id = *sent;

	if (sent->kind != DV_VALUE_STRING || sent->len < 38 || sent->text[sent->len - 1] != ')' ||
		sent->text[sent->len - 38] != '(')
		return DV_STORED_UNKNOWN;
	id.text = sent->text + sent->len - 37;
	id.len = 36;
	return compare_ids(&id, read);
}

static bool
is_empty(dv_wire wire, const dv_value *value)
{
	return dv_value_is_null(value) ||
		((wire & (DV_WIRE_TEXT | DV_WIRE_CHOICES)) != 0 && value->kind == DV_VALUE_STRING &&
		 value->len == 0);
}

dv_stored
dv_stored_compare(dv_wire wire, const dv_value *sent, const dv_value *read, char *scratch)
{
	static const dv_value empty = {.text = "", .kind = DV_VALUE_STRING};

	if (!dv_stored_comparable(wire))
		return DV_STORED_UNKNOWN;
	/* a default may have replaced a null */
	if (is_empty(wire, sent))
		return is_empty(wire, read) ? DV_STORED_NULL : DV_STORED_UNKNOWN;
	if (is_empty(wire, read))
		return wire == DV_WIRE_TEXT ? compare_text(sent, &empty, scratch) : DV_STORED_DIFFERENT;
	switch (wire)
	{
		case DV_WIRE_TEXT:
			return compare_text(sent, read, scratch);
		case DV_WIRE_ID:
			return compare_ids(sent, read);
		case DV_WIRE_REFERENCE:
			return compare_references(sent, read);
		case DV_WIRE_INTEGER:
		case DV_WIRE_BIGINT:
		case DV_WIRE_CHOICE:
		case DV_WIRE_BOOLEAN:
		case DV_WIRE_DATE:
			return compare_whole(wire, sent, read);
		case DV_WIRE_DECIMAL:
			return compare_decimals(sent, read);
		case DV_WIRE_DOUBLE:
			return compare_doubles(sent, read);
		case DV_WIRE_CHOICES:
			return compare_choices(sent, read);
		case DV_WIRE_MOMENT:
		case DV_WIRE_LOCAL_TIME:
			return compare_times(sent, read);
		default:
			return DV_STORED_UNKNOWN;
	}
}
