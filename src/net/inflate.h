/*
 * inflate.h
 *		Decompresses a body that is complete.
 *
 * libdeflate needs a third of zlib's time, but has to have the whole body, and room
 * for all of what comes out.  Bodies are collected whole anyway (inbox.h).  Without
 * libdeflate, libcurl decompresses them with zlib while they arrive, and refuses data
 * of several members.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_INFLATE_H
#define DV_INFLATE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether bodies are decompressed here; otherwise, libcurl has to do it. */
extern const bool dv_inflates;

/* The version of libdeflate, or NULL if the extension was built without it. */
extern const char *const dv_inflate_version;

typedef enum dv_inflate_result
{
	DV_INFLATED,
	DV_INFLATE_NO_ROOM,			/* more comes out */
	DV_INFLATE_BROKEN,			/* also if it is cut short, or if something follows it */
	DV_INFLATE_NO_MEMORY
} dv_inflate_result;

/*
 * Returns the length that gzip data claim to have when they are decompressed, or the
 * greatest that they can have.  It is not to be believed, and it is that of the last
 * member only.
 */
extern size_t dv_inflate_claim(const char *data, size_t len);

/* Decompresses gzip data of one member or several into "out". */
extern dv_inflate_result dv_inflate(const char *data, size_t len, char *out, size_t room,
									size_t *out_len);

#endif							/* DV_INFLATE_H */
