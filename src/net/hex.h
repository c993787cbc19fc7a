/*
 * hex.h
 *		Bytes as hexadecimal digits.
 *
 * The functions that write return the end of their output, and write no NUL.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_HEX_H
#define DV_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Returns the value of a hexadecimal digit, or -1 if the character is not one. */
static inline int
dv_hex_value(char c)
{
	char		lower = (char) (c | 0x20);

	if (c >= '0' && c <= '9')
		return c - '0';
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Writes two lower-case digits for each byte. */
static inline char *
dv_hex_put(char *out, const uint8_t *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	size_t		i;

	for (i = 0; i < n; i++)
	{
		*out++ = digits[bytes[i] >> 4];
		*out++ = digits[bytes[i] & 15];
	}
	return out;
}

/* Writes a byte as it is encoded in URLs, such as %2F. */
static inline char *
dv_hex_put_percent(char *out, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";

	*out++ = '%';
	*out++ = digits[byte >> 4];
	*out++ = digits[byte & 15];
	return out;
}

#endif							/* DV_HEX_H */
