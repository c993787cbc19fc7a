/*
 * hex.h
 *		Bytes as hexadecimal digits.
 *
 * Writers return the end of what they wrote; nothing ends with a NUL.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_HEX_H
#define DV_HEX_H

#include <stddef.h>
#include <stdint.h>

/* What a digit is worth; -1: it is none. */
static inline int
dv_hex_value(char c)
{
	char		lower = (char) (c | 0x20);

	if (c >= '0' && c <= '9')
		return c - '0';
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Two digits, in lower case, for each byte. */
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

/* %2F: a byte as URLs have it. */
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
