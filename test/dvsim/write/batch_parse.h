/*
 * batch_parse.h
 *		The body of a $batch as a list of requests.
 *
 * Pure.  Line ends are CRLF or LF; the line end after the closing delimiter
 * may be missing; a part that is cut short makes the whole body unreadable,
 * as it does at the service.  Parts under another boundary do not count.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_BATCH_PARSE_H
#define SIM_BATCH_PARSE_H

#include "sim.h"

#define SIM_BATCH_MAX 1000

struct sim_part
{
	struct sim_part *next;
	bool		is_changeset;
	struct sim_part *parts;		/* of a changeset */
	const char *content_id;		/* or NULL */
	const char *method;
	char	   *url;			/* as written; may hold blanks */
	struct sim_pairs headers;
	char	   *body;			/* NUL-terminated, in place */
	size_t		body_len;
};

/*
 * A body of more than "most" requests is refused, at most SIM_BATCH_MAX.  The body is changed
 * (parts are terminated in place).  On failure returns false and the reason; "unreadable" then
 * distinguishes a truncated body from a forbidden one.
 */
bool		sim_batch_parse(struct sim_arena *arena, const char *content_type, char *body,
							size_t len, int most, struct sim_part **parts, const char **error,
							bool *unreadable);

/* the boundary of a multipart/mixed Content-Type, or NULL */
char	   *sim_batch_boundary(struct sim_arena *arena, const char *content_type);

#endif
