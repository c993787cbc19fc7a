/*
 * multipart.h
 *		The answer to a $batch, part by part.
 *
 * Nothing is copied: slices point into the answer or into its Content-Type
 * header.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MULTIPART_H
#define DV_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dv_slice
{
	const char *s;				/* not terminated; NULL if there is none */
	size_t		len;
} dv_slice;

/* The parts between the delimiters of one boundary. */
typedef struct dv_multipart_level
{
	const char *at;
	const char *end;
	dv_slice	boundary;
	bool		begun;			/* the first delimiter has been read */
	bool		closed;			/* the last one has been read */
} dv_multipart_level;

typedef struct dv_multipart
{
	dv_multipart_level whole;
	dv_multipart_level changeset;
	bool		inside;			/* reading the answer to a changeset */
	int			changesets;		/* number of them so far */
	bool		broken;
} dv_multipart;

/* The answer to one request. */
typedef struct dv_part
{
	int			status;			/* HTTP */
	dv_slice	headers;		/* of HTTP; see dv_part_header() */
	dv_slice	body;
	int			content_id;		/* -1 if there is none, or it is not a number */
	int			changeset;		/* which changeset it belongs to, from 1; 0 if none */
} dv_part;

typedef enum dv_part_step
{
	DV_PART,
	DV_PART_END,				/* the answer is complete */
	DV_PART_BROKEN				/* truncated or malformed */
} dv_part_step;

/* Returns false if the answer is not in parts or names no boundary. */
extern bool dv_multipart_open(dv_multipart *multipart, const char *content_type,
							  const char *body, size_t len);

/* After the end, or once it is broken, it returns the same again. */
extern dv_part_step dv_multipart_next(dv_multipart *multipart, dv_part *part);

/* Returns the value of a header without blanks around it. */
extern dv_slice dv_part_header(const dv_part *part, const char *name);

/*
 * Returns the next part that is an error; false if there is none, or the
 * answer is broken.  Text inside a row cannot be mistaken for one.
 */
extern bool dv_multipart_failure(dv_multipart *multipart, dv_part *part);

#endif							/* DV_MULTIPART_H */
