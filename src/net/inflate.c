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

/* Two bits can stand for 258 bytes at most. */
#define MOST_GROWTH 1032

/* The trailer of gzip ends with the length, modulo 2^32, as four bytes. */
size_t
dv_inflate_claim(const char *data, size_t len)
{
	const unsigned char *end = (const unsigned char *) data + len;
	size_t		claim;

	if (len < 4)
		return 0;
	claim = end[-4] | (size_t) end[-3] << 8 | (size_t) end[-2] << 16 | (size_t) end[-1] << 24;
	return claim / MOST_GROWTH < len ? claim : len * MOST_GROWTH;
}

static dv_inflate_result
inflate_member(struct libdeflate_decompressor *decompressor, const char *data, size_t len,
			   char *out, size_t room, size_t *used, size_t *out_len)
{
	switch (libdeflate_gzip_decompress_ex(decompressor, data, len, out, room, used, out_len))
	{
		case LIBDEFLATE_SUCCESS:
			return DV_INFLATED;
		case LIBDEFLATE_INSUFFICIENT_SPACE:
			return DV_INFLATE_NO_ROOM;
		default:
			return DV_INFLATE_BROKEN;
	}
}

dv_inflate_result
dv_inflate(const char *data, size_t len, char *out, size_t room, size_t *out_len)
{
	/* some kilobytes, for the whole session */
	static struct libdeflate_decompressor *decompressor = NULL;
	dv_inflate_result result = DV_INFLATE_BROKEN;

	if (decompressor == NULL)
		decompressor = libdeflate_alloc_decompressor();
	if (decompressor == NULL)
		return DV_INFLATE_NO_MEMORY;
	*out_len = 0;
	while (len > 0)
	{
		size_t		used;
		size_t		more;

		result = inflate_member(decompressor, data, len, out + *out_len, room - *out_len, &used, &more);
		if (result != DV_INFLATED)
			break;
		data += used;
		len -= used;
		*out_len += more;
	}
	return result;
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
