/*-------------------------------------------------------------------------
 *
 * multipart.h
 *		Throttles inside the answer to a $batch.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_MULTIPART_H
#define DV_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dv_part_throttle
{
	char		code[32];		/* "0x80072322"; "" when the part does not say */
	char		retry_after[64];	/* header's value; "" when there is none */
	const char *error;			/* the part's body, in the answer; not terminated */
	size_t		error_len;
} dv_part_throttle;

/* Is this Content-Type that of an answer in parts? */
extern bool dv_is_multipart(const char *content_type);

/*
 * The next part with status 429 from *at on, which moves behind its head;
 * false when there is none.  Quoted text of a row cannot be taken for one:
 * a status line stands at the beginning of a line.
 */
extern bool dv_multipart_throttle(const char *body, size_t len, size_t *at,
								  dv_part_throttle *throttle);

#endif							/* DV_MULTIPART_H */
