/*
 * value_print.c
 *		Values out of SQLite as JSON, as literals and as labels; date and time
 *		as text, both ways.
 *
 * Pages of thousands of rows are printed here, so printf is used only where
 * necessary.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "store/decimal.h"
#include "store/guid.h"

/* --- date and time --- */

/* days since 1970-01-01 in the proleptic Gregorian calendar */
static int64_t
days_of(int64_t y, int m, int d)
{
	int64_t		era;
	int64_t		yoe;
	int64_t		doy;

	y -= m <= 2;
	era = (y >= 0 ? y : y - 399) / 400;
	yoe = y - era * 400;
	doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

struct civil
{
	int			year;
	int			month;
	int			day;
	int			hour;
	int			minute;
	int			second;
};

static struct civil
civil_of(int64_t seconds)
{
	struct civil c;
	int64_t		days = seconds / 86400;
	int			rest = (int) (seconds % 86400);
	int64_t		era;
	int64_t		doe;
	int64_t		yoe;
	int64_t		doy;
	int64_t		mp;

	if (rest < 0)
	{
		rest += 86400;
		days--;
	}
	days += 719468;
	era = (days >= 0 ? days : days - 146096) / 146097;
	doe = days - era * 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	c.day = (int) (doy - (153 * mp + 2) / 5 + 1);
	c.month = (int) (mp < 10 ? mp + 3 : mp - 9);
	c.year = (int) (yoe + era * 400 + (c.month <= 2));
	c.hour = rest / 3600;
	c.minute = rest / 60 % 60;
	c.second = rest % 60;
	return c;
}

/* reads "n" digits at *p, which moves on; -1 if there are fewer */
static int
take_digits(const char **p, const char *end, int n)
{
	int			v = 0;
	int			i;

	if (end - *p < n)
		return -1;
	for (i = 0; i < n; i++)
	{
		char		c = (*p)[i];

		if (c < '0' || c > '9')
			return -1;
		v = v * 10 + (c - '0');
	}
	*p += n;
	return v;
}

static bool
take_char(const char **p, const char *end, char c)
{
	if (*p >= end || **p != c)
		return false;
	(*p)++;
	return true;
}

static bool
take_date(const char **p, const char *end, int64_t *seconds)
{
	static const char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			y;
	int			m;
	int			d;
	bool		leap;

	if ((y = take_digits(p, end, 4)) < 1 || !take_char(p, end, '-') ||
		(m = take_digits(p, end, 2)) < 1 || !take_char(p, end, '-') ||
		(d = take_digits(p, end, 2)) < 1 || m > 12)
		return false;
	leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	if (d > lengths[m - 1] + (m == 2 && leap))
		return false;
	*seconds = days_of(y, m, d) * 86400;
	return true;
}

/* hh:mm[:ss[.fff…]] */
static bool
take_time(const char **p, const char *end, int64_t *seconds)
{
	int			h;
	int			m;
	int			s = 0;

	if ((h = take_digits(p, end, 2)) < 0 || h > 23 || !take_char(p, end, ':') ||
		(m = take_digits(p, end, 2)) < 0 || m > 59)
		return false;
	if (take_char(p, end, ':'))
	{
		if ((s = take_digits(p, end, 2)) < 0 || s > 59)
			return false;
		if (take_char(p, end, '.'))
		{
			if (take_digits(p, end, 1) < 0)
				return false;
			while (take_digits(p, end, 1) >= 0)
				;
		}
	}
	*seconds += h * 3600 + m * 60 + s;
	return true;
}

/* Z, +hh:mm or -hh:mm, or nothing */
static bool
take_zone(const char **p, const char *end, int64_t *seconds)
{
	bool		west;
	int			h;
	int			m;

	if (*p == end || take_char(p, end, 'Z') || take_char(p, end, 'z'))
		return true;
	west = **p == '-';
	if (!west && **p != '+')
		return false;
	(*p)++;
	if ((h = take_digits(p, end, 2)) < 0 || h > 14 || !take_char(p, end, ':') ||
		(m = take_digits(p, end, 2)) < 0 || m > 59)
		return false;
	*seconds += (west ? 1 : -1) * (h * 3600 + m * 60);
	return true;
}

bool
sim_time_parse(const char *s, size_t len, int64_t *seconds)
{
	const char *p = s;
	const char *end = s + len;

	if (!take_date(&p, end, seconds))
		return false;
	if (p == end)
		return true;
	if (!take_char(&p, end, 'T') && !take_char(&p, end, 't') && !take_char(&p, end, ' '))
		return false;
	return take_time(&p, end, seconds) && take_zone(&p, end, seconds) && p == end;
}

static char *
two_digits(char *p, int v)
{
	p[0] = (char) ('0' + v / 10 % 10);
	p[1] = (char) ('0' + v % 10);
	return p + 2;
}

void
sim_time_print(struct sim_buf *buf, int64_t seconds, bool date_only)
{
	struct civil c = civil_of(seconds);
	char		text[24];
	char	   *p = text;

	p = two_digits(p, c.year / 100);
	p = two_digits(p, c.year % 100);
	*p++ = '-';
	p = two_digits(p, c.month);
	*p++ = '-';
	p = two_digits(p, c.day);
	if (!date_only)
	{
		*p++ = 'T';
		p = two_digits(p, c.hour);
		*p++ = ':';
		p = two_digits(p, c.minute);
		*p++ = ':';
		p = two_digits(p, c.second);
		*p++ = 'Z';
	}
	sim_put(buf, text, (size_t) (p - text));
}

/* --- numbers --- */

/*
 * A double with at most "precision" digits after the point and at least one,
 * as the service writes 5 as 5.0.
 */
static void
put_double(struct sim_buf *buf, double v, int precision)
{
	static const int64_t scale[] = {
		1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000
	};
	char		text[40];
	int64_t		scaled;
	int64_t		fraction;
	int			n;
	int			i;

	if (precision < 0 || precision > 10 || !(fabs(v) * (double) scale[precision] < 9e15))
	{
		n = snprintf(text, sizeof(text), "%.17g", v);
		sim_put(buf, text, (size_t) n);
		if (strpbrk(text, ".e") == NULL)
			sim_puts(buf, ".0");
		return;
	}
	scaled = llround(v * (double) scale[precision]);
	if (scaled < 0)
		sim_putc(buf, '-');
	scaled = scaled < 0 ? -scaled : scaled;
	sim_put_i64(buf, scaled / scale[precision]);
	fraction = scaled % scale[precision];
	text[0] = '.';
	text[1] = '0';

	for (i = precision; i > 0; i--)
	{
		text[i] = (char) ('0' + fraction % 10);

		fraction /= 10;
	}
	for (n = precision; n > 1 && text[n] == '0'; n--)
		;
	sim_put(buf, text, n < 1 ? 2 : (size_t) n + 1);
}

/* Commas between thousands: "-1234.5" → "-1,234.5" */
static void
put_grouped(struct sim_buf *buf, const char *s, size_t len)
{
	size_t		digits;
	size_t		i;

	if (len > 0 && *s == '-')
	{
		sim_putc(buf, '-');
		s++;
		len--;
	}
	for (digits = 0; digits < len && s[digits] != '.'; digits++)
		;
	for (i = 0; i < digits; i++)
	{
		if (i > 0 && (digits - i) % 3 == 0)
			sim_putc(buf, ',');
		sim_putc(buf, s[i]);
	}
	sim_put(buf, s + digits, len - digits);
}

/* --- values --- */

static void
put_base64(struct sim_buf *buf, const void *bytes, int len)
{
	sim_buf_reserve(buf, (size_t) len / 3 * 4 + 8);
	buf->len += (size_t) EVP_EncodeBlock((unsigned char *) buf->s + buf->len, bytes, len);
}

static int
decimal_digits(const struct sim_column *column)
{
	return column->type == SIM_MONEY ? 4 : SIM_DEC_SCALE;
}

static void
put_decimal(struct sim_buf *buf, const struct sim_column *column, const void *blob, int len)
{
	char		text[48];
	int			n;

	if (len != 16)
	{
		sim_putc(buf, '0');
		return;
	}
	n = sim_dec_print(sim_dec_unpack(blob), decimal_digits(column), text);
	sim_put(buf, text, (size_t) n);
}

static void
put_guid(struct sim_buf *buf, const void *blob, int len)
{
	sim_buf_reserve(buf, 40);
	if (len != 16)
		return;
	sim_guid_print(blob, buf->s + buf->len);
	buf->len += 36;
	buf->s[buf->len] = '\0';
}

static void
put_managed(struct sim_buf *buf, const struct sim_column *column, bool value)
{
	sim_putf(buf, "{\"Value\":%s,\"CanBeChanged\":true,\"ManagedPropertyLogicalName\":\"%s\"}",
			 value ? "true" : "false", column->name);
}

/* ",1,9," without the outer commas */
static void
put_choices(struct sim_buf *buf, const char *s, int len)
{
	if (len >= 2)
		sim_put(buf, s + 1, (size_t) len - 2);
}

/*
 * The value without quotes, for types whose text needs no escapes; false for
 * text itself.
 */
static bool
put_plain(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	switch (column->type)
	{
		case SIM_UUID:
		case SIM_LOOKUP:
		case SIM_CUSTOMER:
		case SIM_OWNER:
		case SIM_FILE:
			put_guid(buf, sqlite3_column_blob(stmt, i), sqlite3_column_bytes(stmt, i));
			return true;
		case SIM_INTEGER:
		case SIM_BIGINT:
		case SIM_PICKLIST:
		case SIM_STATE:
		case SIM_STATUS:
			sim_put_i64(buf, sqlite3_column_int64(stmt, i));
			return true;
		case SIM_DECIMAL:
		case SIM_MONEY:
			put_decimal(buf, column, sqlite3_column_blob(stmt, i), sqlite3_column_bytes(stmt, i));
			return true;
		case SIM_DOUBLE:
			put_double(buf, sqlite3_column_double(stmt, i), column->precision);
			return true;
		case SIM_BOOLEAN:
		case SIM_MANAGED:
			sim_puts(buf, sqlite3_column_int(stmt, i) != 0 ? "true" : "false");
			return true;
		case SIM_DATETIME:
			sim_time_print(buf, sqlite3_column_int64(stmt, i),
						   column->behaviour == SIM_DATE_ONLY);
			return true;
		case SIM_MULTISELECT:
			put_choices(buf, sqlite3_column_blob(stmt, i), sqlite3_column_bytes(stmt, i));
			return true;
		case SIM_IMAGE:
			put_base64(buf, sqlite3_column_blob(stmt, i), sqlite3_column_bytes(stmt, i));
			return true;
		default:
			return false;
	}
}

/* types that are quoted in JSON, besides text */
static const bool quoted[SIM_TYPES] = {
	[SIM_UUID] = true,
	[SIM_LOOKUP] = true,
	[SIM_CUSTOMER] = true,
	[SIM_OWNER] = true,
	[SIM_FILE] = true,
	[SIM_DATETIME] = true,
	[SIM_MULTISELECT] = true,
	[SIM_IMAGE] = true,
};

/* NULL, or an elastic row's partition that the client did not specify */
static bool
is_null(const struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	int			type = sqlite3_column_type(stmt, i);

	return type == SQLITE_NULL || (type == SQLITE_TEXT && column == column->table->partition &&
								   sqlite3_column_bytes(stmt, i) == 0);
}

void
sim_value_print(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	if (is_null(column, stmt, i))
		sim_put(buf, "null", 4);
	else if (column->type == SIM_MANAGED)
		put_managed(buf, column, sqlite3_column_int(stmt, i) != 0);
	else if (quoted[column->type])
	{
		sim_putc(buf, '"');
		put_plain(buf, column, stmt, i);
		sim_putc(buf, '"');
	}
	else if (!put_plain(buf, column, stmt, i))
	{
		/* a blob is returned without a copy for a terminator */
		const char *s = sqlite3_column_blob(stmt, i);

		sim_put_json(buf, s != NULL ? s : "", (size_t) sqlite3_column_bytes(stmt, i));
	}
}

void
sim_value_print_literal(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	if (!is_null(column, stmt, i) && !put_plain(buf, column, stmt, i))
	{
		const char *s = sqlite3_column_blob(stmt, i);

		sim_put(buf, s != NULL ? s : "", (size_t) sqlite3_column_bytes(stmt, i));
	}
}

/* --- labels --- */

static void
put_option_label(struct sim_buf *buf, const struct sim_column *column, int64_t value)
{
	struct sim_option *option = NULL;

	if (value >= INT32_MIN && value <= INT32_MAX)
		option = sim_option_by_value(column->options, (int) value);
	if (option != NULL)
		sim_puts(buf, option->label);
	else
		sim_put_i64(buf, value);
}

static void
put_choice_labels(struct sim_buf *buf, const struct sim_column *column, const char *s, int len)
{
	bool		first = true;
	int64_t		value = 0;
	bool		negative = false;
	int			i;

	for (i = 1; i < len; i++)
	{
		if (s[i] == '-')
			negative = true;
		else if (s[i] != ',')
			value = (value * 10 + (s[i] - '0')) % INT64_C(1000000000000);
		else
		{
			if (!first)
				sim_puts(buf, "; ");
			put_option_label(buf, column, negative ? -value : value);
			first = false;
			negative = false;
			value = 0;
		}
	}
}

/* 4/7/2023 9:59 PM */
static void
put_local_time(struct sim_buf *buf, const struct sim_column *column, int64_t seconds)
{
	struct civil c = civil_of(seconds);

	sim_putf(buf, "%d/%d/%d", c.month, c.day, c.year);
	if (!column->date_format)
		sim_putf(buf, " %d:%02d %s", c.hour % 12 == 0 ? 12 : c.hour % 12, c.minute,
				 c.hour < 12 ? "AM" : "PM");
}

static void
put_number_label(struct sim_buf *buf, const struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	char		text[64];
	int			n;

	if (column->type == SIM_DOUBLE)
		n = snprintf(text, sizeof(text), "%.*f", column->precision,
					 sqlite3_column_double(stmt, i));
	else if (column->type == SIM_INTEGER || column->type == SIM_BIGINT)
		n = snprintf(text, sizeof(text), "%lld", (long long) sqlite3_column_int64(stmt, i));
	else if (sqlite3_column_bytes(stmt, i) == 16)
		n = sim_dec_print(sim_dec_unpack(sqlite3_column_blob(stmt, i)), column->precision, text);
	else
		return;
	if (n < 0 || n >= (int) sizeof(text))
		return;
	if (column->type != SIM_MONEY)
		put_grouped(buf, text, (size_t) n);
	else if (text[0] == '-')
	{
		sim_puts(buf, "-$");
		put_grouped(buf, text + 1, (size_t) n - 1);
	}
	else
	{
		sim_putc(buf, '$');
		put_grouped(buf, text, (size_t) n);
	}
}

bool
sim_value_label(struct sim_buf *buf, struct sim_column *column, sqlite3_stmt *stmt, int i)
{
	if (is_null(column, stmt, i))
		return false;
	switch (column->type)
	{
		case SIM_BOOLEAN:
		case SIM_PICKLIST:
		case SIM_STATE:
		case SIM_STATUS:
			put_option_label(buf, column, sqlite3_column_int64(stmt, i));
			return true;
		case SIM_MULTISELECT:
			put_choice_labels(buf, column, sqlite3_column_blob(stmt, i),
							  sqlite3_column_bytes(stmt, i));
			return true;
		case SIM_DATETIME:
			put_local_time(buf, column, sqlite3_column_int64(stmt, i));
			return true;
		case SIM_INTEGER:
		case SIM_BIGINT:
		case SIM_DECIMAL:
		case SIM_MONEY:
		case SIM_DOUBLE:
			put_number_label(buf, column, stmt, i);
			return true;
		default:
			return false;
	}
}
