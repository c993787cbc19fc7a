/*
 * url.c
 *		Which URLs the extension is willing to talk to.
 *
 * Secrets and business data are sent to these addresses, so they must be
 * https; plain http is only for a service on this machine (dvsim, or a proxy
 * in a test).  The check is stricter than RFC 3986 on purpose: all parsers
 * agree on the meaning of the URLs that it accepts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/url.h"

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* DNS allows 253 */
#define MAX_HOST 253

/* printable ASCII, without characters at which only some parsers end a URL */
static bool
is_plain(const char *s)
{
	for (; *s; s++)
	{
		if (*s <= ' ' || *s > '~' || strchr("\"'<>\\^`{|}", *s))
			return false;
	}
	return true;
}

/* ":1" to ":65535", or nothing at all */
static bool
is_port(const char *s, size_t len)
{
	long		port;

	if (len == 0)
		return true;
	if (s[0] != ':' || len < 2 || len > 6 || strspn(s + 1, DIGITS) < len - 1)
		return false;
	port = strtol(s + 1, NULL, 10);
	return port >= 1 && port <= 65535;
}

/*
 * Copies the host at the beginning of an authority ("host:port"), and returns
 * its length there, or 0 if there is no valid host.  The length includes the
 * brackets of an IPv6 address, but "host" does not.
 */
static size_t
take_host(const char *authority, size_t len, char host[MAX_HOST + 1])
{
	struct in6_addr v6;
	const char *start = authority;
	size_t		n;
	bool		bracketed = len > 0 && authority[0] == '[';

	if (bracketed)
		n = strcspn(++start, "]/");
	else
		n = strspn(start, LETTERS DIGITS "-.");
	if (n == 0 || n > MAX_HOST || n > len)
		return 0;

	memcpy(host, start, n);
	host[n] = '\0';
	if (!bracketed)
		return host[0] == '.' ? 0 : n;
	if (start[n] != ']' || inet_pton(AF_INET6, host, &v6) != 1)
		return 0;
	return n + 2;
}

/* "localhost", 127.0.0.0/8, or ::1, but no name that only begins like one of them */
static bool
is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (strcasecmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

enum dv_url_verdict
dv_url_check(const char *url, bool path_allowed)
{
	char		host[MAX_HOST + 1];
	const char *scheme_end = strstr(url, "://");
	const char *authority;
	const char *path;
	size_t		len;
	size_t		host_len;
	bool		https;

	if (!is_plain(url) || scheme_end == NULL || scheme_end == url)
		return DV_URL_MALFORMED;
	https = strncasecmp(url, "https://", 8) == 0;
	if (!https && strncasecmp(url, "http://", 7) != 0)
		return DV_URL_NOT_HTTPS;

	authority = scheme_end + 3;
	len = strcspn(authority, "/?#");
	path = authority + len;
	if (memchr(authority, '@', len) != NULL)
		return DV_URL_USERINFO;
	host_len = take_host(authority, len, host);
	if (host_len == 0 || !is_port(authority + host_len, len - host_len))
		return DV_URL_MALFORMED;
	if (!https && !is_loopback(host))
		return DV_URL_NOT_HTTPS;

	if (strpbrk(path, "?#") != NULL)
		return DV_URL_QUERY;
	if (!path_allowed && strcmp(path, "") != 0 && strcmp(path, "/") != 0)
		return DV_URL_PATH;
	return DV_URL_OK;
}

bool
dv_url_is_name(const char *text)
{
	size_t		len = strspn(text, LETTERS DIGITS "_");

	return len > 0 && text[len] == '\0';
}

bool
dv_url_is_absolute(const char *s)
{
	size_t		scheme = strspn(s, LETTERS DIGITS "+-.");

	return scheme > 0 && strncmp(s + scheme, "://", 3) == 0;
}

/*
 * Moves past a character of a path, and returns it.  Servers differ in which
 * percent-encoded characters they decode before they look for segments, so all
 * of them count as decoded.
 */
static char
next_character(const char **p)
{
	char		digits[3] = "";

	if (**p != '%')
		return *(*p)++;
	memcpy(digits, *p + 1, strnlen(*p + 1, 2));
	if (strspn(digits, DIGITS "abcdefABCDEF") != 2)
		return *(*p)++;
	*p += 3;
	return (char) strtol(digits, NULL, 16);
}

/*
 * Segments end at slashes and, on some servers, at backslashes.  On others,
 * parameters after a semicolon do not belong to the segment's name.
 */
static bool
has_dots(const char *path)
{
	const char *end = path + strcspn(path, "?");
	int			dots = 0;
	bool		only_dots = true;

	while (path < end)
	{
		char		c = next_character(&path);

		if (c == '/' || c == '\\' || c == ';')
		{
			if (only_dots && dots >= 1 && dots <= 2)
				return true;
			only_dots = c != ';';
			dots = 0;
		}
		else if (c == '.')
			dots++;
		else
			only_dots = false;
	}
	return only_dots && dots >= 1 && dots <= 2;
}

dv_path_verdict
dv_path_check(const char *path)
{
	const char *query = path + strcspn(path, "?");
	const char *c;

	for (c = path; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~' || (*c == '\\' && c < query))
			return DV_PATH_CHARACTER;
	if (strchr(path, '#') != NULL)
		return DV_PATH_FRAGMENT;
	return has_dots(path) ? DV_PATH_DOTS : DV_PATH_OK;
}

size_t
dv_url_encode(const char *text, char *out)
{
	char	   *p = out;

	for (; *text != '\0'; text++)
		p = dv_url_put(p, *text);
	*p = '\0';
	return (size_t) (p - out);
}
