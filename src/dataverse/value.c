/*
 * value.c
 *		Converts the service's text to PostgreSQL's binary values.
 *
 * The slices come from page.c, which has checked them as JSON: escapes are
 * complete, UTF-8 is valid, numbers follow the grammar.  This file checks the
 * meaning: the form of the type, and its range.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "dataverse/value.h"
#include "net/clock.h"
#include "net/hex.h"

#define DAYS_TO_2000     10957	/* from 1970-01-01 */
#define MAX_OFFSET_HOURS 14

/* Eighteen digits, so that there is room for a sign. */
#define LARGEST_MANTISSA UINT64_C(999999999999999999)

/* Longest text of a double that is read; 17 digits are enough for any double. */
#define LONGEST_DOUBLE 1000

/* The text of a value of a fixed-size type, copied only if it was escaped. */
typedef struct plain_text
{
	const char *p;
	const char *end;
	char		buffer[256];
} plain_text;

/* A number split up: mantissa / 10^scale, and whether an exponent follows. */
typedef struct decimal
{
	bool		negative;
	bool		exact;			/* the mantissa holds all digits; otherwise, nothing else is known */
	bool		has_exponent;	/* which is not part of the scale */
	uint64_t	mantissa;
	int			scale;
} decimal;

const char *
dv_value_reason(dv_value_status status)
{
	static const char *const reasons[] = {
		[DV_VALUE_OK] = "no error",
		[DV_VALUE_TYPE] = "of the wrong JSON type",
		[DV_VALUE_SYNTAX] = "not in the format of type",
		[DV_VALUE_RANGE] = "out of range for type",
		[DV_VALUE_CHARACTER] = "a text with a character that cannot be stored in type",
	};

	return reasons[status];
}

/* ----------
 * Strings
 * ----------
 */

/* Four digits, which were checked when the text was read. */
static inline uint32_t
hex4(const char *p)
{
	return (uint32_t) (dv_hex_value(p[0]) << 12 | dv_hex_value(p[1]) << 8 |
					   dv_hex_value(p[2]) << 4 | dv_hex_value(p[3]));
}

/* Reads the escape at *p, and moves *p past it. */
static dv_value_status
read_escape(const char **p, const char *end, uint32_t *character)
{
	static const char letters[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";
	const char *s = *p + 1;
	const char *letter;
	uint32_t	low;

	if (*s != 'u')
	{
		letter = strchr(letters, *s);
		*character = letter != NULL ? (uint32_t) meanings[letter - letters] : (uint32_t) *s;
		*p = s + 1;
		return DV_VALUE_OK;
	}
	*character = hex4(s + 1);
	*p = s + 5;
	if (*character == 0 || (*character >= 0xdc00 && *character <= 0xdfff))
		return DV_VALUE_CHARACTER;
	if (*character < 0xd800 || *character > 0xdbff)
		return DV_VALUE_OK;
	if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
		return DV_VALUE_CHARACTER;
	low = hex4(*p + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return DV_VALUE_CHARACTER;
	*character = 0x10000 + ((*character - 0xd800) << 10 | (low - 0xdc00));
	*p += 6;
	return DV_VALUE_OK;
}

static char *
put_utf8(char *out, uint32_t c)
{
	if (c < 0x80)
		*out++ = (char) c;
	else if (c < 0x800)
	{
		*out++ = (char) (0xc0 | c >> 6);
		*out++ = (char) (0x80 | (c & 0x3f));
	}
	else if (c < 0x10000)
	{
		*out++ = (char) (0xe0 | c >> 12);
		*out++ = (char) (0x80 | (c >> 6 & 0x3f));
		*out++ = (char) (0x80 | (c & 0x3f));
	}
	else
	{
		*out++ = (char) (0xf0 | c >> 18);
		*out++ = (char) (0x80 | (c >> 12 & 0x3f));
		*out++ = (char) (0x80 | (c >> 6 & 0x3f));
		*out++ = (char) (0x80 | (c & 0x3f));
	}
	return out;
}

dv_value_status
dv_value_string(const dv_value *value, char *out, size_t *len)
{
	const char *p = value->text;
	const char *end;
	char	   *to = out;

	if (value->kind != DV_VALUE_STRING)
		return DV_VALUE_TYPE;
	end = p + value->len;
	while (p < end)
	{
		const char *escape = value->escaped ? memchr(p, '\\', (size_t) (end - p)) : NULL;
		size_t		run = (size_t) ((escape != NULL ? escape : end) - p);
		dv_value_status status;
		uint32_t	character;

		memcpy(to, p, run);
		to += run;
		p += run;
		if (escape == NULL)
			break;
		status = read_escape(&p, end, &character);
		if (status != DV_VALUE_OK)
			return status;
		to = put_utf8(to, character);
	}
	*len = (size_t) (to - out);
	return DV_VALUE_OK;
}

/* Returns the next character if it is ASCII, else any greater number. */
static uint32_t
next_ascii(const char **p, const char *end)
{
	uint32_t	character;

	if (**p != '\\')
		return (unsigned char) *(*p)++;
	if (read_escape(p, end, &character) != DV_VALUE_OK)
		return UINT32_MAX;
	return character;
}

bool
dv_value_equals(const dv_value *value, const char *text)
{
	const char *p = value->text;
	const char *end;

	if (value->kind != DV_VALUE_STRING)
		return false;
	if (!value->escaped)
		return strlen(text) == value->len && memcmp(text, p, value->len) == 0;
	end = p + value->len;
	while (p < end && *text != '\0')
		if (next_ascii(&p, end) != (unsigned char) *text++)
			return false;
	return p == end && *text == '\0';
}

bool
dv_value_ends_with(const dv_value *value, const char *text)
{
	const char *p = value->text;
	const char *end;
	size_t		len = strlen(text);
	uint32_t	last[32];
	size_t		n = 0;
	size_t		i;

	if (value->kind != DV_VALUE_STRING || len > value->len)
		return false;
	end = p + value->len;
	if (!value->escaped)
		return memcmp(end - len, text, len) == 0;
	while (p < end)
		last[n++ % 32] = next_ascii(&p, end);
	if (n < len)
		return false;
	for (i = 0; i < len; i++)
		if (last[(n - len + i) % 32] != (unsigned char) text[i])
			return false;
	return true;
}

/*
 * Returns the text of a value of a fixed-size type.  Some writers escape a +
 * or a /, so escapes are accepted, but no such value is longer than the
 * buffer.
 */
static inline dv_value_status
get_plain(const dv_value *value, plain_text *plain)
{
	size_t		len;

	if (value->kind != DV_VALUE_STRING)
		return DV_VALUE_TYPE;
	plain->p = value->text;
	plain->end = value->text + value->len;
	if (!value->escaped)
		return DV_VALUE_OK;
	if (value->len > sizeof(plain->buffer) ||
		dv_value_string(value, plain->buffer, &len) != DV_VALUE_OK)
		return DV_VALUE_SYNTAX;
	plain->p = plain->buffer;
	plain->end = plain->buffer + len;
	return DV_VALUE_OK;
}

/* ----------
 * Booleans and numbers
 * ----------
 */

dv_value_status
dv_value_bool(const dv_value *value, bool *out)
{
	if (value->kind != DV_VALUE_TRUE && value->kind != DV_VALUE_FALSE)
		return DV_VALUE_TYPE;
	*out = value->kind == DV_VALUE_TRUE;
	return DV_VALUE_OK;
}

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads all digits that follow. */
static inline bool
read_digits(const char **p, const char *end, uint64_t *number)
{
	const char *s = *p;
	uint64_t	n = 0;

	/* 19 digits always fit */
	for (; s < end && is_digit(*s) && s - *p < 19; s++)
		n = n * 10 + (uint64_t) (*s - '0');
	for (; s < end && is_digit(*s); s++)
		if (__builtin_mul_overflow(n, UINT64_C(10), &n) ||
			__builtin_add_overflow(n, (uint64_t) (*s - '0'), &n))
			return false;
	*p = s;
	*number = n;
	return true;
}

static bool
is_zero_fraction(const char *p, const char *end)
{
	if (*p++ != '.')
		return false;
	while (p < end && *p == '0')
		p++;
	return p == end;
}

dv_value_status
dv_value_int64(const dv_value *value, int64_t *out)
{
	const char *p = value->text;
	const char *end;
	uint64_t	number;
	bool		negative;

	if (value->kind != DV_VALUE_NUMBER)
		return DV_VALUE_TYPE;
	end = p + value->len;
	negative = *p == '-';
	p += negative;
	if (!read_digits(&p, end, &number))
		return DV_VALUE_RANGE;
	if (p < end && !is_zero_fraction(p, end))
		return DV_VALUE_SYNTAX;
	if (number > (uint64_t) INT64_MAX + negative)
		return DV_VALUE_RANGE;
	*out = negative ? (int64_t) (0 - number) : (int64_t) number;
	return DV_VALUE_OK;
}

dv_value_status
dv_value_int32(const dv_value *value, int32_t *out)
{
	int64_t		number;
	dv_value_status status = dv_value_int64(value, &number);

	if (status != DV_VALUE_OK)
		return status;
	if (number < INT32_MIN || number > INT32_MAX)
		return DV_VALUE_RANGE;
	*out = (int32_t) number;
	return DV_VALUE_OK;
}

static inline void
take_apart(const dv_value *value, decimal *d)
{
	const char *p = value->text;
	const char *end = p + value->len;
	const char *point = NULL;
	uint64_t	mantissa = 0;

	d->negative = *p == '-';
	d->exact = true;
	d->has_exponent = false;
	for (p += d->negative; p < end; p++)
	{
		if (is_digit(*p))
		{
			if (mantissa > LARGEST_MANTISSA / 10)
			{
				d->exact = false;
				break;
			}
			mantissa = mantissa * 10 + (uint64_t) (*p - '0');
		}
		else if (*p == '.')
			point = p;
		else
		{
			d->has_exponent = true;
			break;
		}
	}
	d->mantissa = mantissa;
	d->scale = point != NULL ? (int) (p - point - 1) : 0;
}

static bool
skip_digits(const char **p, const char *end)
{
	const char *first = *p;

	while (*p < end && is_digit(**p))
		(*p)++;
	return *p > first;
}

/* Returns true if this is a number of JSON. */
static bool
is_number(const char *p, const char *end)
{
	p += p < end && *p == '-';
	if (p < end && *p == '0')
		p++;
	else if (!skip_digits(&p, end))
		return false;
	if (p < end && *p == '.')
	{
		p++;
		if (!skip_digits(&p, end))
			return false;
	}
	if (p < end && (*p == 'e' || *p == 'E'))
	{
		p++;
		p += p < end && (*p == '+' || *p == '-');
		if (!skip_digits(&p, end))
			return false;
	}
	return p == end;
}

void
dv_value_respell(dv_value *value, dv_value_form form)
{
	static const char midnight[] = "T00:00:00";
	bool		text = value->kind == DV_VALUE_STRING && !value->escaped;

	if (form == DV_FORM_NUMBER && text && is_number(value->text, value->text + value->len))
		value->kind = DV_VALUE_NUMBER;
	else if (form == DV_FORM_TRUTH && (text || value->kind == DV_VALUE_NUMBER) && value->len == 1 &&
			 (value->text[0] == '0' || value->text[0] == '1'))
		value->kind = value->text[0] == '1' ? DV_VALUE_TRUE : DV_VALUE_FALSE;
	else if (form == DV_FORM_DAY && text && (value->len == 19 || (value->len == 20 && value->text[19] == 'Z')) &&
			 memcmp(value->text + 10, midnight, sizeof(midnight) - 1) == 0)
		value->len = 10;
}

dv_value_status
dv_value_decimal(const dv_value *value, int64_t *unscaled, int *scale)
{
	decimal		d;

	if (value->kind != DV_VALUE_NUMBER)
		return DV_VALUE_TYPE;
	take_apart(value, &d);
	if (!d.exact || d.has_exponent || d.scale > 18)
		return DV_VALUE_RANGE;
	*unscaled = d.negative ? -(int64_t) d.mantissa : (int64_t) d.mantissa;
	*scale = d.scale;
	return DV_VALUE_OK;
}

/* Leaves the conversion to the C library, which is correct but slow. */
static dv_value_status
library_double(const dv_value *value, double *out)
{
	char		copy[LONGEST_DOUBLE + 1];
	char	   *stopped;

	if (value->len > LONGEST_DOUBLE)
		return DV_VALUE_RANGE;
	memcpy(copy, value->text, value->len);
	copy[value->len] = '\0';
	errno = 0;
	*out = strtod(copy, &stopped);
	if (stopped != copy + value->len)
		return DV_VALUE_SYNTAX;
	/* a number too small to be distinguished from zero is not out of range */
	if (errno == ERANGE && (*out > 1 || *out < -1))
		return DV_VALUE_RANGE;
	return DV_VALUE_OK;
}

/*
 * If doubles hold the mantissa and the power of ten exactly, the result of one
 * division is rounded only once, hence correctly.  This does not hold for
 * processors that keep more bits than a double has (387).
 */
dv_value_status
dv_value_double(const dv_value *value, double *out)
{
	static const double powers[] = {
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
		1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
	};
	decimal		d;
	double		number;

	if (value->kind != DV_VALUE_NUMBER)
		return DV_VALUE_TYPE;
	take_apart(value, &d);
	if (FLT_EVAL_METHOD != 0 || !d.exact || d.has_exponent || d.scale > 22 ||
		d.mantissa > UINT64_C(1) << DBL_MANT_DIG)
		return library_double(value, out);
	number = (double) d.mantissa / powers[d.scale];
	*out = d.negative ? -number : number;
	return DV_VALUE_OK;
}

/* ----------
 * Unique identifiers
 * ----------
 */

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* Converts eight hexadecimal digits at once, in the bytes of a word, to four bytes. */
static inline bool
unhex8(const char *digits, uint8_t *out)
{
	uint64_t	w;
	uint64_t	lower;
	uint64_t	decimals;
	uint64_t	letters;

	memcpy(&w, digits, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	if (w & EACH_BYTE(0x80))
		return false;
	/* the high bit of each byte means: at least '0' and not above '9', and so on */
	lower = w | EACH_BYTE(0x20);
	decimals = (w + EACH_BYTE(0x80 - '0')) & ~(w + EACH_BYTE(0x7f - '9'));
	letters = (lower + EACH_BYTE(0x80 - 'a')) & ~(lower + EACH_BYTE(0x7f - 'f'));
	if (((decimals | letters) & EACH_BYTE(0x80)) != EACH_BYTE(0x80))
		return false;
	/* letters have 0x40 set and count from 1 */
	w = (w & EACH_BYTE(0x0f)) + 9 * (w >> 6 & EACH_BYTE(1));
	/* combine pairs of digits into bytes, then move the bytes together */
	w = (w << 4 | w >> 8) & UINT64_C(0x00ff00ff00ff00ff);
	w = (w | w >> 8) & UINT64_C(0x0000ffff0000ffff);
	w |= w >> 16;
	out[0] = (uint8_t) w;
	out[1] = (uint8_t) (w >> 8);
	out[2] = (uint8_t) (w >> 16);
	out[3] = (uint8_t) (w >> 24);
	return true;
}

dv_value_status
dv_value_uuid(const dv_value *value, uint8_t *out)
{
	plain_text	plain;
	const char *p;
	char		middle[16];
	dv_value_status status = get_plain(value, &plain);

	if (status != DV_VALUE_OK)
		return status;
	p = plain.p;

	if (plain.end - p != 36 || p[8] != '-' || p[13] != '-' || p[18] != '-' || p[23] != '-')
		return DV_VALUE_SYNTAX;
	memcpy(middle, p + 9, 4);
	memcpy(middle + 4, p + 14, 4);
	memcpy(middle + 8, p + 19, 4);
	memcpy(middle + 12, p + 24, 4);
	if (!unhex8(p, out) || !unhex8(middle, out + 4) || !unhex8(middle + 8, out + 8) ||
		!unhex8(p + 28, out + 12))
		return DV_VALUE_SYNTAX;
	return DV_VALUE_OK;
}

/* ----------
 * Dates and times
 * ----------
 */

/* Returns a number of two digits, or something above 99. */
static inline unsigned int
two_digits(const char *p)
{
	unsigned int tens = (unsigned int) (unsigned char) p[0] - '0';
	unsigned int ones = (unsigned int) (unsigned char) p[1] - '0';

	return tens <= 9 && ones <= 9 ? tens * 10 + ones : 1000;
}

static inline bool
read_two(const char **p, const char *end, unsigned int most, unsigned int *number)
{
	if (end - *p < 2)
		return false;
	*number = two_digits(*p);
	*p += 2;
	return *number <= most;
}

static inline bool
read_char(const char **p, const char *end, char c)
{
	if (*p == end || **p != c)
		return false;
	(*p)++;
	return true;
}

/* Reads yyyy-mm-dd as days since 1970-01-01, and moves *p past it. */
static bool
read_day(const char **p, const char *end, int32_t *days)
{
	static const uint8_t month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	const char *s = *p;
	unsigned int century;
	unsigned int year;
	unsigned int month;
	unsigned int day;
	int32_t		shifted;		/* years begin in March, so that they end with the leap day */
	int32_t		from_march;

	if (end - s < 10 || s[4] != '-' || s[7] != '-')
		return false;
	century = two_digits(s);
	year = two_digits(s + 2);
	month = two_digits(s + 5);
	day = two_digits(s + 8);
	if (century > 99 || year > 99 || month < 1 || month > 12 || day < 1 ||
		day > month_days[month - 1])
		return false;
	year += century * 100;
	if (year == 0)
		return false;
	if (month == 2 && day == 29 && (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)))
		return false;
	shifted = (int32_t) year - (month <= 2);
	from_march = ((int32_t) month + 9) % 12;
	*days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 +
		(153 * from_march + 2) / 5 + (int32_t) day - 1 - 719468;
	*p = s + 10;
	return true;
}

/* Converts the digits after the decimal point to microseconds, rounded. */
static bool
read_fraction(const char **p, const char *end, int64_t *microseconds)
{
	const char *start = *p;
	const char *s;
	int64_t		n = 0;

	for (s = start; s < end && is_digit(*s); s++)
		if (s - start < 6)
			n = n * 10 + (*s - '0');
	if (s == start)
		return false;
	if (s - start > 6 && start[6] >= '5')
		n++;
	for (*p = s; s - start < 6; s++)
		n *= 10;
	*microseconds = n;
	return true;
}

/* Reads Z, or an offset east of UTC, as minutes. */
static bool
read_zone(const char **p, const char *end, int64_t *minutes)
{
	unsigned int hours;
	unsigned int rest;
	bool		west;

	*minutes = 0;
	if (read_char(p, end, 'Z'))
		return true;
	west = read_char(p, end, '-');
	if (!west && !read_char(p, end, '+'))
		return false;
	if (!read_two(p, end, MAX_OFFSET_HOURS, &hours) || !read_char(p, end, ':') ||
		!read_two(p, end, 59, &rest))
		return false;
	*minutes = hours * 60 + rest;
	if (west)
		*minutes = -*minutes;
	return true;
}

dv_value_status
dv_value_timestamp(const dv_value *value, int64_t *out)
{
	plain_text	plain;
	const char *p;
	const char *end;
	int32_t		days;
	unsigned int hour;
	unsigned int minute;
	unsigned int second = 0;
	int64_t		fraction = 0;
	int64_t		offset;
	dv_value_status status = get_plain(value, &plain);

	if (status != DV_VALUE_OK)
		return status;
	p = plain.p;
	end = plain.end;

	if (!read_day(&p, end, &days) || !read_char(&p, end, 'T') || !read_two(&p, end, 23, &hour) ||
		!read_char(&p, end, ':') || !read_two(&p, end, 59, &minute))
		return DV_VALUE_SYNTAX;
	if (read_char(&p, end, ':') && !read_two(&p, end, 59, &second))
		return DV_VALUE_SYNTAX;
	if (p < end && *p == '.')
	{
		p++;
		if (!read_fraction(&p, end, &fraction))
			return DV_VALUE_SYNTAX;
	}
	if (!read_zone(&p, end, &offset) || p != end)
		return DV_VALUE_SYNTAX;
	*out = ((((int64_t) days - DAYS_TO_2000) * 24 + hour) * 60 + minute - offset) * 60 + second;
	*out = *out * DV_SECOND + fraction;
	return DV_VALUE_OK;
}

dv_value_status
dv_value_date(const dv_value *value, int32_t *out)
{
	plain_text	plain;
	const char *p;
	dv_value_status status = get_plain(value, &plain);

	if (status != DV_VALUE_OK)
		return status;
	p = plain.p;

	if (!read_day(&p, plain.end, out) || p != plain.end)
		return DV_VALUE_SYNTAX;
	*out -= DAYS_TO_2000;
	return DV_VALUE_OK;
}

/* ----------
 * Lists of integers, and bytes
 * ----------
 */

dv_value_status
dv_value_choices(const dv_value *value, int32_t *out, int max, int *n)
{
	plain_text	plain;
	const char *p;
	dv_value_status status = get_plain(value, &plain);

	*n = 0;
	if (status != DV_VALUE_OK)
		return status;
	p = plain.p;

	while (p < plain.end)
	{
		const char *digits;
		uint64_t	number;
		bool		negative;

		if (*n > 0)
		{
			if (!read_char(&p, plain.end, ','))
				return DV_VALUE_SYNTAX;
			while (p < plain.end && *p == ' ')
				p++;
		}
		negative = read_char(&p, plain.end, '-');
		digits = p;
		if (!read_digits(&p, plain.end, &number))
			return DV_VALUE_RANGE;
		if (p == digits)
			return DV_VALUE_SYNTAX;
		if (*n == max || number > (uint64_t) INT32_MAX + negative)
			return DV_VALUE_RANGE;
		out[(*n)++] = (int32_t) (negative ? -(int64_t) number : (int64_t) number);
	}
	return DV_VALUE_OK;
}

#define NO 255

static const uint8_t base64_digits[256] = {
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 62, NO, 62, NO, 63,
	52, 53, 54, 55, 56, 57, 58, 59, 60, 61, NO, NO, NO, NO, NO, NO, NO, 0, 1, 2, 3, 4, 5, 6,
	7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, NO, NO, NO, NO, 63,
	NO, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
	49, 50, 51, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO};

dv_value_status
dv_value_base64(const dv_value *value, uint8_t *out, size_t *len)
{
	const uint8_t *in = (const uint8_t *) value->text;
	uint8_t    *to = out;
	size_t		n = value->len;
	size_t		i;
	uint32_t	rest = 0;

	if (value->kind != DV_VALUE_STRING)
		return DV_VALUE_TYPE;
	if (value->escaped)
	{
		/* decode in place: the output never overtakes the input */
		if (dv_value_string(value, (char *) out, &n) != DV_VALUE_OK)
			return DV_VALUE_SYNTAX;
		in = out;
	}
	if (n > 0 && n % 4 == 0 && in[n - 1] == '=')
		n -= in[n - 2] == '=' ? 2 : 1;
	if (n % 4 == 1)
		return DV_VALUE_SYNTAX;
	for (i = 0; i + 4 <= n; i += 4)
	{
		uint8_t		a = base64_digits[in[i]];
		uint8_t		b = base64_digits[in[i + 1]];
		uint8_t		c = base64_digits[in[i + 2]];
		uint8_t		d = base64_digits[in[i + 3]];

		if ((a | b | c | d) >= 64)
			return DV_VALUE_SYNTAX;
		*to++ = (uint8_t) (a << 2 | b >> 4);
		*to++ = (uint8_t) (b << 4 | c >> 2);
		*to++ = (uint8_t) (c << 6 | d);
	}
	for (; i < n; i++)
	{
		if (base64_digits[in[i]] >= 64)
			return DV_VALUE_SYNTAX;
		rest = rest << 6 | base64_digits[in[i]];
	}
	/* two digits are a byte and four zero bits, three are two bytes and two zero bits */
	if (rest & (n % 4 == 2 ? 0xf : 0x3))
		return DV_VALUE_SYNTAX;
	if (n % 4 == 2)
		*to++ = (uint8_t) (rest >> 4);
	else if (n % 4 == 3)
	{
		*to++ = (uint8_t) (rest >> 10);
		*to++ = (uint8_t) (rest >> 2);
	}
	*len = (size_t) (to - out);
	return DV_VALUE_OK;
}
