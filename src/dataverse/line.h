/*
 * line.h
 *		The text of a request line while it is being written.
 *
 * The common code of odata.c, fetch.c, and fetchxml.c: like snprintf, they
 * write as much as fits and count the rest.  Names and punctuation that need
 * no encoding are written as they are; everything else is encoded byte by
 * byte.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_LINE_H
#define DV_LINE_H

#include "dataverse/query.h"

/* In patterns, the service treats these as wildcards, except between brackets. */
#define DV_WILDCARDS "%_["

typedef enum dv_line_encoding
{
	DV_LINE_WIRE,				/* percent-encoded, as it is sent */
	DV_LINE_READABLE,			/* the same with blanks, quotes, and brackets unencoded */
	DV_LINE_RAW					/* nothing is encoded */
} dv_line_encoding;

typedef struct dv_line
{
	char	   *out;
	size_t		size;
	size_t		len;			/* of the complete text, whether it fits or not */
	dv_line_encoding encoding;
	bool		any;			/* an option of the query has been written */
} dv_line;

/* These need no encoding. */
extern void dv_line_byte(dv_line *line, char c);
extern void dv_line_text(dv_line *line, const char *text);
extern void dv_line_number(dv_line *line, int64_t number);	/* not negative */

/* These may need it. */
extern void dv_line_encode(dv_line *line, char c);
extern void dv_line_encode_text(dv_line *line, const char *text);

/* Text between tags, or a value between quotes, of XML that is itself encoded. */
extern void dv_line_encode_xml(dv_line *line, const char *text);

/* "?name" or "&name"; the name includes the equals sign. */
extern void dv_line_option(dv_line *line, const char *name);

/*
 * As a parameter, the partition makes an elastic table search that partition
 * only; as a filter it does not.  NULL: any partition.
 */
extern void dv_line_partition(dv_line *line, const dv_operand *partition);

/* Adds a NUL, and returns the length of the complete text. */
extern size_t dv_line_end(dv_line *line);

#endif							/* DV_LINE_H */
