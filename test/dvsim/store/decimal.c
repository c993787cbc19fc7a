/*
 * decimal.c
 *		Exact decimals: 128-bit integers scaled by 10^10.
 *
 * Text becomes digits and a place for the point, then one integer; nothing
 * goes through floating point.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/decimal.h"

#include <stdint.h>
#include <string.h>

typedef unsigned __int128 u128;

#define MAX_DIGITS 39			/* of 2^127 */

/* a number as written: 0.ddd… times 10^point */
struct written
{
	bool		negative;
	char		digits[MAX_DIGITS + 2]; /* without leading zeros; more than fit are dropped */
	int			n;
	long		point;
};

/* Keeps one digit and moves the point. */
static void
keep_digit(struct written *w, char c, bool before_point)
{
	if (w->n == 0 && c == '0')
	{
		if (!before_point)
			w->point--;
		return;
	}
	if (w->n < (int) sizeof(w->digits))
		w->digits[w->n++] = c;
	if (before_point)
		w->point++;
}

static bool
read_exponent(const char *s, const char *end, long *exponent)
{
	bool		negative = false;
	long		e = 0;

	if (s < end && (*s == '+' || *s == '-'))
		negative = *s++ == '-';
	if (s == end)
		return false;
	for (; s < end; s++)
	{
		if (*s < '0' || *s > '9')
			return false;
		if (e < 100000)
			e = e * 10 + (*s - '0');
	}
	*exponent = negative ? -e : e;
	return true;
}

static bool
read_number(const char *s, size_t len, struct written *w)
{
	const char *end = s + len;
	bool		after_point = false;
	bool		any = false;
	long		exponent = 0;

	memset(w, 0, sizeof(*w));
	if (s < end && (*s == '+' || *s == '-'))
		w->negative = *s++ == '-';
	for (; s < end; s++)
	{
		if (*s >= '0' && *s <= '9')
		{
			keep_digit(w, *s, !after_point);
			any = true;
		}
		else if (*s == '.' && !after_point)
			after_point = true;
		else
			break;
	}
	if (!any)
		return false;
	if (s < end)
	{
		if ((*s != 'e' && *s != 'E') || !read_exponent(s + 1, end, &exponent))
			return false;
	}
	w->point += exponent;
	return true;
}

/* The first "wanted" digits as a number; missing ones are zeros. */
static bool
digits_value(const struct written *w, long wanted, u128 *out)
{
	uint64_t	small = 0;
	u128		v;
	long		i;

	for (i = 0; i < wanted && i < 18; i++)
		small = small * 10 + (uint64_t) (i < w->n ? w->digits[i] - '0' : 0);
	for (v = small; i < wanted; i++)
	{
		if (__builtin_mul_overflow(v, (u128) 10, &v) ||
			__builtin_add_overflow(v, (u128) (i < w->n ? w->digits[i] - '0' : 0), &v))
			return false;
	}
	*out = v;
	return true;
}

bool
sim_dec_parse(const char *s, size_t len, int precision, sim_dec *out)
{
	static const uint64_t power[SIM_DEC_SCALE + 1] = {
		1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
		1000000000, 10000000000
	};
	struct written w;
	u128		v;
	u128		limit;
	long		wanted;

	if (precision < 0)
		precision = 0;
	if (precision > SIM_DEC_SCALE)
		precision = SIM_DEC_SCALE;
	if (!read_number(s, len, &w))
		return false;
	*out = 0;
	wanted = w.point + precision;	/* digits that count */
	if (w.n == 0 || wanted < 0)
		return true;
	if (wanted > MAX_DIGITS)
		return false;
	if (!digits_value(&w, wanted, &v))
		return false;
	limit = (((u128) 1 << 127) - 1) / power[SIM_DEC_SCALE - precision];
	if (v > limit)
		return false;
	if (wanted < w.n && w.digits[wanted] >= '5' && ++v > limit)
		return false;
	v *= power[SIM_DEC_SCALE - precision];
	*out = w.negative ? -(sim_dec) v : (sim_dec) v;
	return true;
}

int
sim_dec_print(sim_dec v, int digits, char *out)
{
	char		reversed[48];
	u128		u = v < 0 ? (u128) 0 - (u128) v : (u128) v;
	char	   *p = out;
	uint64_t	low;
	int			n = 0;
	int			i;

	if (digits < 0)
		digits = 0;
	if (digits > SIM_DEC_SCALE)
		digits = SIM_DEC_SCALE;
	for (i = digits + 1; i < SIM_DEC_SCALE; i++)
		u /= 10;
	if (digits < SIM_DEC_SCALE)
		u = (u + 5) / 10;		/* the first digit dropped decides */
	if (v < 0 && u != 0)
		*p++ = '-';
	while (u > UINT64_MAX)
	{
		reversed[n++] = (char) ('0' + (int) (u % 10));
		u /= 10;
	}
	for (low = (uint64_t) u; low > 0 || n <= digits; low /= 10)
		reversed[n++] = (char) ('0' + low % 10);
	while (n > digits)
		*p++ = reversed[--n];
	if (digits > 0)
		*p++ = '.';
	while (n > 0)
		*p++ = reversed[--n];
	*p = '\0';
	return (int) (p - out);
}

void
sim_dec_pack(sim_dec v, unsigned char out[16])
{
	u128		u = (u128) v ^ (u128) 1 << 127;
	int			i;

	for (i = 15; i >= 0; i--)
	{
		out[i] = (unsigned char) u;
		u >>= 8;
	}
}

sim_dec
sim_dec_unpack(const unsigned char in[16])
{
	u128		u = 0;
	int			i;

	for (i = 0; i < 16; i++)
		u = u << 8 | in[i];
	return (sim_dec) (u ^ (u128) 1 << 127);
}
