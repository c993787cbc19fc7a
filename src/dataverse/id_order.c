/*
 * id_order.c
 *		Ids in the order in which SQL Server compares them, as numbers.
 *
 * The arithmetic is that of numbers written in base 256.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <string.h>

#include "dataverse/id_order.h"

/* The position in an id of byte i of its order: SQL Server begins with the last six. */
static const uint8_t position[DV_ID_LEN] = {
	10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0
};

void
dv_id_order(const uint8_t *uuid, dv_ordered_id *id)
{
	int			i;

	for (i = 0; i < DV_ID_LEN; i++)
		id->bytes[i] = uuid[position[i]];
}

void
dv_id_unorder(const dv_ordered_id *id, uint8_t *uuid)
{
	int			i;

	for (i = 0; i < DV_ID_LEN; i++)
		uuid[position[i]] = id->bytes[i];
}

int
dv_id_compare(const dv_ordered_id *a, const dv_ordered_id *b)
{
	return memcmp(a->bytes, b->bytes, DV_ID_LEN);
}

/* a - b, where b is not greater */
static dv_ordered_id
difference(const dv_ordered_id *a, const dv_ordered_id *b)
{
	dv_ordered_id result;
	int			borrow = 0;
	int			i;

	for (i = DV_ID_LEN - 1; i >= 0; i--)
	{
		int			digit = a->bytes[i] - b->bytes[i] - borrow;

		borrow = digit < 0;
		result.bytes[i] = (uint8_t) (digit + (borrow ? 256 : 0));
	}
	return result;
}

double
dv_id_distance(const dv_ordered_id *low, const dv_ordered_id *high)
{
	dv_ordered_id d;
	double		result = 0;
	int			i;

	if (dv_id_compare(low, high) >= 0)
		return 0;
	d = difference(high, low);
	for (i = 0; i < DV_ID_LEN; i++)
		result = result * 256 + d.bytes[i];
	return result;
}

dv_ordered_id
dv_id_after(const dv_ordered_id *low, double distance)
{
	dv_ordered_id result;
	int			carry = 0;
	int			i;

	for (i = DV_ID_LEN - 1; i >= 0; i--)
	{
		carry += low->bytes[i] + (int) fmod(distance, 256);
		distance = floor(distance / 256);
		result.bytes[i] = (uint8_t) carry;
		carry >>= 8;
	}
	if (carry > 0 || distance > 0)
		memset(result.bytes, 0xff, DV_ID_LEN);
	return result;
}

dv_ordered_id
dv_id_cut(const dv_ordered_id *low, const dv_ordered_id *high, uint32_t part, uint32_t parts)
{
	dv_ordered_id d = difference(high, low);
	uint8_t		product[DV_ID_LEN + 4];
	uint64_t	carry = 0;
	int			i;

	/* multiply, from the last digit on */
	for (i = DV_ID_LEN - 1; i >= 0; i--)
	{
		carry += (uint64_t) d.bytes[i] * part;
		product[i + 4] = (uint8_t) carry;
		carry >>= 8;
	}
	for (i = 3; i >= 0; i--)
	{
		product[i] = (uint8_t) carry;
		carry >>= 8;
	}
	/* divide, from the first digit on; the quotient is not greater than the difference */
	for (i = 0; i < DV_ID_LEN + 4; i++)
	{
		carry = carry << 8 | product[i];
		product[i] = (uint8_t) (carry / parts);
		carry %= parts;
	}
	/* add */
	carry = 0;
	for (i = DV_ID_LEN - 1; i >= 0; i--)
	{
		carry += (uint64_t) low->bytes[i] + product[i + 4];
		d.bytes[i] = (uint8_t) carry;
		carry >>= 8;
	}
	return d;
}

int
dv_id_trials(const dv_ordered_id *id, dv_id_trial *trials)
{
	int			n = 0;
	int			i;

	for (i = 0; i + 1 < DV_ID_LEN; i++)
	{
		dv_id_trial *trial = &trials[n];
		uint8_t    *pair = &trial->id.bytes[i];

		trial->id = *id;
		trial->greater = pair[0] < UINT8_MAX && pair[1] > 0;
		if (!trial->greater && (pair[0] == 0 || pair[1] == UINT8_MAX))
			continue;
		pair[0] = (uint8_t) (pair[0] + (trial->greater ? 1 : -1));
		pair[1] = (uint8_t) (pair[1] - (trial->greater ? 1 : -1));
		n++;
	}
	return n;
}
