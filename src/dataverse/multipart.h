/*-------------------------------------------------------------------------
 *
 * multipart.h
 *		The answer to a $batch, part by part.
 *
 * Nothing is copied: slices point into the answer, or into the Content-Type
 * that it came with.
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

typedef struct dv_slice
{
	const char *s;				/* not terminated; NULL: there is none */
	size_t		len;
} dv_slice;

/* Parts between the delimiters of one boundary. */
typedef struct dv_multipart_level
{
	const char *at;
	const char *end;
	dv_slice	boundary;
	bool		begun;			/* the first delimiter is behind us */
	bool		closed;			/* the last one, too */
} dv_multipart_level;

typedef struct dv_multipart
{
	dv_multipart_level whole;
	dv_multipart_level changeset;
	bool		inside;			/* of the answer to a changeset */
	int			changesets;		/* so far */
	bool		broken;
} dv_multipart;

/* The answer to one request. */
typedef struct dv_part
{
	int			status;			/* HTTP */
	dv_slice	headers;		/* of HTTP; see dv_part_header() */
	dv_slice	body;
	int			content_id;		/* -1: the part has none that is a number */
	int			changeset;		/* which one it belongs to, from 1; 0: none */
} dv_part;

typedef enum dv_part_step
{
	DV_PART,
	DV_PART_END,				/* the answer is whole */
	DV_PART_BROKEN				/* cut off, or not what it should be */
} dv_part_step;

/* False: it is not in parts, or does not say what is between them. */
extern bool dv_multipart_open(dv_multipart *multipart, const char *content_type,
							  const char *body, size_t len);

/* After the end, or where it is broken, it stays there. */
extern dv_part_step dv_multipart_next(dv_multipart *multipart, dv_part *part);

/* Value of a header, without blanks around it. */
extern dv_slice dv_part_header(const dv_part *part, const char *name);

/*
 * The next part that is an error; false when there is none.  Quoted text of a
 * row cannot be taken for one.
 */
extern bool dv_multipart_failure(dv_multipart *multipart, dv_part *part);

#endif							/* DV_MULTIPART_H */
