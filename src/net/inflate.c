/*
 * inflate.c
 *		Decompresses a body that is complete.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "net/inflate.h"

#ifdef DV_LIBDEFLATE

#include <libdeflate.h>
#include <stdint.h>

const bool	dv_inflates = true;
const char *const dv_inflate_version = LIBDEFLATE_VERSION_STRING;

/* The trailer of gzip ends with the length, modulo 2^32, as four bytes. */
size_t
dv_inflate_claim(const char *data, size_t len)
{
	const unsigned char *end = (const unsigned char *) data + len;

	if (len < 4)
		return 0;
	return end[-4] | (size_t) end[-3] << 8 | (size_t) end[-2] << 16 | (size_t) end[-1] << 24;
}

dv_inflate_result
dv_inflate(const char *data, size_t len, char *out, size_t room, size_t *out_len)
{
	/* some kilobytes, for the whole session */
	static struct libdeflate_decompressor *decompressor = NULL;
	size_t		used;

	if (decompressor == NULL)
		decompressor = libdeflate_alloc_decompressor();
	if (decompressor == NULL)
		return DV_INFLATE_NO_MEMORY;
	switch (libdeflate_gzip_decompress_ex(decompressor, data, len, out, room, &used, out_len))
	{
		case LIBDEFLATE_SUCCESS:
			return used == len ? DV_INFLATED : DV_INFLATE_BROKEN;
		case LIBDEFLATE_INSUFFICIENT_SPACE:
			return DV_INFLATE_NO_ROOM;
		default:
			return DV_INFLATE_BROKEN;
	}
}

#else

const bool	dv_inflates = false;
const char *const dv_inflate_version = NULL;

size_t
dv_inflate_claim(const char *data, size_t len)
{
	return 0;
}

dv_inflate_result
dv_inflate(const char *data, size_t len, char *out, size_t room, size_t *out_len)
{
	return DV_INFLATE_BROKEN;
}

#endif
