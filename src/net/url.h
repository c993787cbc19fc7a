/*
 * url.h
 *		Which URLs the extension is willing to talk to.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_URL_H
#define DV_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "net/hex.h"

enum dv_url_verdict
{
	DV_URL_OK,
	DV_URL_MALFORMED,			/* not scheme://host[:port][/path] */
	DV_URL_NOT_HTTPS,			/* http to another machine, or another scheme */
	DV_URL_USERINFO,			/* a user name or password in front of the host */
	DV_URL_QUERY,				/* a query or a fragment */
	DV_URL_PATH					/* a path where only a site is allowed */
};

extern enum dv_url_verdict dv_url_check(const char *url, bool path_allowed);

/*
 * Returns true if the text consists of letters, digits, and underscores, so that it can be part
 * of a URL.
 */
extern bool dv_url_is_name(const char *text);

/* Returns true if the text begins with a scheme, such as "https://". */
extern bool dv_url_is_absolute(const char *s);

typedef enum dv_path_verdict
{
	DV_PATH_OK,
	DV_PATH_CHARACTER,			/* a character that cannot be in a URL, or a backslash */
	DV_PATH_FRAGMENT,			/* "#": the rest would not be sent */
	DV_PATH_DOTS				/* "." or ".." as a segment, in any spelling */
} dv_path_verdict;

/*
 * Checks a path and query that is appended to an address with a final slash.
 * A good path leads to somewhere below that address.
 */
extern dv_path_verdict dv_path_check(const char *path);

/*
 * Percent-encodes everything but letters, digits, and "-._~".  "out" must have
 * room for three times the length of the text plus one byte.  Returns the
 * length of the result.
 */
extern size_t dv_url_encode(const char *text, char *out);

/* Encodes a single byte, without adding a NUL.  Returns the end of the result. */
static inline char *
dv_url_put(char *out, char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
		c == '.' || c == '_' || c == '~')
	{
		*out++ = c;
		return out;
	}
	return dv_hex_put_percent(out, (unsigned char) c);
}

#endif
