/*
 * guid.c
 *		GUIDs: text, SQL Server's byte order, and new ones.
 *
 * SQL Server compares the last six bytes of the text first, then the fourth
 * group, then the bytes of the third, second and first group from their end.
 * Kept in that order, memcmp sorts as the service does.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/guid.h"

#include <string.h>

/* for byte i of the stored form, its position in the text */
static const unsigned char positions_of_server[16] = {
	24, 26, 28, 30, 32, 34, 19, 21, 16, 14, 11, 9, 6, 4, 2, 0
};
static const unsigned char positions_of_text[16] = {
	0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34
};
static const unsigned char *text_position = positions_of_server;

/* value of a hexadecimal digit plus one, 0 for all else */
static const unsigned char hex_value[256] = {
	['0'] = 1, ['1'] = 2, ['2'] = 3, ['3'] = 4, ['4'] = 5,
	['5'] = 6, ['6'] = 7, ['7'] = 8, ['8'] = 9, ['9'] = 10,
	['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
	['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16
};

void
sim_guid_order_as_text(void)
{
	text_position = positions_of_text;
}

bool
sim_guid_parse(const char *s, size_t len, unsigned char out[16])
{
	unsigned	bad = 0;
	int			i;

	if (len == 38 && s[0] == '{' && s[37] == '}')
	{
		s++;
		len = 36;
	}
	if (len != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-')
		return false;
	for (i = 0; i < 16; i++)
	{
		unsigned	high = hex_value[(unsigned char) s[text_position[i]]] - 1U;
		unsigned	low = hex_value[(unsigned char) s[text_position[i] + 1]] - 1U;

		bad |= high | low;
		out[i] = (unsigned char) (high << 4 | (low & 15));
	}
	return bad <= 15;
}

void
sim_guid_print(const unsigned char in[16], char out[36])
{
	static const char digits[] = "0123456789abcdef";
	int			i;

	out[8] = out[13] = out[18] = out[23] = '-';
	for (i = 0; i < 16; i++)
	{
		out[text_position[i]] = digits[in[i] >> 4];
		out[text_position[i] + 1] = digits[in[i] & 15];
	}
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/*
 * Like SQL Server's NEWSEQUENTIALID: a version 1 UUID whose time is in the
 * bytes that are compared last, but in the right order, after a constant node.
 * The node is chosen by the first call, so that the ids of two runs on one
 * file do not meet; the time never repeats within a run.
 */
void
sim_guid_make(uint64_t now_us, uint64_t salt, unsigned char out[16])
{
	static uint64_t node;
	static uint64_t last;
	uint64_t	stamp = now_us * 10 + 0x01b21dd213814000ULL + salt % 10;
	int			i;

	if (node == 0)
		node = mix(now_us ^ mix(salt)) | 1;
	if (stamp <= last)
		stamp = last + 1;
	last = stamp;

	out[0] = 0x00;
	out[1] = 0x0d;
	out[2] = 0x3a;
	out[3] = (unsigned char) (node >> 8);
	out[4] = (unsigned char) (node >> 16);
	out[5] = (unsigned char) (node >> 24);
	out[6] = (unsigned char) (0x80 | (node >> 32 & 0x3f));
	out[7] = (unsigned char) (node >> 40);
	for (i = 0; i < 8; i++)
		out[8 + i] = (unsigned char) (stamp >> (56 - 8 * i));
	out[8] = (unsigned char) (0x10 | (out[8] & 15));
}

void
sim_guid_of_name(const char *name, unsigned char out[16])
{
	uint64_t	a = 0xcbf29ce484222325ULL;
	uint64_t	b = 0x9e3779b97f4a7c15ULL;
	int			i;

	for (; *name != '\0'; name++)
	{
		a = (a ^ (unsigned char) *name) * 0x100000001b3ULL;
		b = mix(b + (unsigned char) *name);
	}
	a = mix(a ^ (b >> 1));
	for (i = 0; i < 8; i++)
	{
		out[i] = (unsigned char) (a >> (8 * i));
		out[8 + i] = (unsigned char) (b >> (8 * i));
	}
	out[6] = (unsigned char) (0x80 | (out[6] & 0x3f));	/* variant of RFC 4122 */
	out[9] = (unsigned char) (0x50 | (out[9] & 15));	/* version 5: made of a name */
}

void
sim_guid_text_of_name(const char *name, char out[37])
{
	unsigned char guid[16];

	sim_guid_of_name(name, guid);
	sim_guid_print(guid, out);
	out[36] = '\0';
}
