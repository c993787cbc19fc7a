/*
 * inbox.h
 *		The answer of an exchange while it arrives: its headers and its body,
 *		neither of which may grow without bound.
 *
 * Everything that the other side can make longer is counted and has a limit: the
 * header lines of the answer, of interim answers, and of trailers together, and
 * the body after decompression.  An answer that is an error has a smaller limit.
 * All bodies of a backend share a store, because a few kilobytes of gzip can grow
 * to any size, and many answers can be in memory at a time: bytes are counted when
 * they are allocated, while the body is being decompressed, and given back when
 * the inbox is freed.  A small body always has room: if open cursors have filled
 * the store, throttles are still recognized and tokens are still renewed.
 *
 * Requests ask for gzip and nothing else.  libcurl would decode whatever it was
 * built for, in several layers: some decoders need more than a hundred megabytes
 * each, and layers below the last one can grow without anyone counting them.
 * Therefore an answer that is encoded in any other way, or twice, is refused.
 * A compressed body is decompressed when it is complete (inflate.h), or by libcurl
 * before it gets here.
 *
 * The memory is malloc'd, because libcurl's callbacks fill it.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_INBOX_H
#define DV_INBOX_H

#include <stdbool.h>
#include <stddef.h>

/* Dataverse sends about three kilobytes of header lines. */
#define DV_INBOX_MAX_HEAD	((size_t) 128 * 1024)

/* An error of the service; the largest ones describe each of a thousand rows. */
#define DV_INBOX_MAX_ERROR ((size_t) 8 * 1024 * 1024)

/* What each body may take even if the store is full. */
#define DV_INBOX_SMALL ((size_t) 16 * 1024)

/* The memory that the bodies of all inboxes share. */
typedef struct dv_inbox_store
{
	size_t		room;
	size_t		taken;
	char	   *spare;			/* a buffer that is kept for the next body, or NULL; not counted */
	size_t		spare_room;
} dv_inbox_store;

/* "store" is never NULL. */
typedef struct dv_inbox
{
	dv_inbox_store *store;
	size_t		max_body;		/* the limit that the caller has set */
	int			status;			/* of the last status line; 0: none yet */
	bool		has_head;		/* the header lines of the final answer are complete */
	size_t		head_received;	/* bytes of all header lines, also of those not kept */
	int			encodings;		/* of the body, one inside the other */
	char	   *lines;			/* header lines of the final answer, each followed by a NUL */
	size_t		lines_len;
	size_t		lines_room;
	char	   *body;			/* NUL-terminated; NULL if it is empty */
	size_t		body_len;
	size_t		body_room;
} dv_inbox;

typedef enum dv_inbox_result
{
	DV_INBOX_TAKEN,
	DV_INBOX_TOO_LARGE,
	DV_INBOX_STORE_FULL,
	DV_INBOX_ENCODED,			/* an encoding that was not asked for */
	DV_INBOX_BROKEN,			/* compressed data that cannot be decompressed */
	DV_INBOX_NO_MEMORY
} dv_inbox_result;

/*
 * Takes a header line as libcurl reports it: a status line, a header, the
 * empty line after the headers, or a trailer.  Trailers are counted but not
 * kept, because they must not be taken for headers.
 */
extern dv_inbox_result dv_inbox_add_line(dv_inbox *inbox, const char *line, size_t len);

/* Takes a piece of the body. */
extern dv_inbox_result dv_inbox_add_body(dv_inbox *inbox, const char *data, size_t len);

/* Decompresses the body, which is complete, unless libcurl has done so. */
extern dv_inbox_result dv_inbox_inflate(dv_inbox *inbox);

/* Returns the value of the first header of that name (case-insensitive), or NULL if absent. */
extern const char *dv_inbox_header(const dv_inbox *inbox, const char *name);

/* Returns "name=value" and its length if the answer sets that cookie, otherwise NULL. */
extern const char *dv_inbox_cookie(const dv_inbox *inbox, const char *name, size_t *len);

extern void dv_inbox_free(dv_inbox *inbox);

#endif							/* DV_INBOX_H */
