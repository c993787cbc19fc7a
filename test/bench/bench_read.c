/*
 * bench_read.c
 *		The cost of fetching the pages of a query and discarding them.
 *
 * This is the lower bound for any reader: libcurl with the options of
 * src/net/http.c, one connection, and one request at a time.  Only the end of
 * a page is kept, because it has the nextLink.
 *
 *		bench_read --root URL --path PATH --token TOKEN [--gzip]
 *
 * PATH is what EXPLAIN (VERBOSE) shows for a foreign table; URL is what comes
 * before it.  Prints pages, bytes, bytes on the wire, seconds, and seconds of
 * processor time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#define TAIL 4096

static const char *root;
static const char *path;
static const char *token;
static const char *encoding;

static char tail[TAIL + 1];		/* the end of the page so far */
static size_t tail_len;
static int64_t bytes;

static void
__attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fprintf(stderr, "bench_read: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static double
seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

static size_t
receive(char *p, size_t size, size_t n, void *unused)
{
	size_t		len = size * n;
	size_t		keep = len < TAIL ? len : TAIL;

	(void) unused;
	bytes += (int64_t) len;
	if (tail_len + keep > TAIL)
	{
		size_t		excess = tail_len + keep - TAIL;

		memmove(tail, tail + excess, tail_len - excess);
		tail_len -= excess;
	}
	memcpy(tail + tail_len, p + len - keep, keep);
	tail_len += keep;
	tail[tail_len] = '\0';
	return len;
}

/* Returns the link to the next page, or NULL; changes the tail. */
static char *
next_link(void)
{
	static const char member[] = "\"@odata.nextLink\":\"";
	char	   *start = strstr(tail, member);
	char	   *end;

	if (start == NULL)
		return NULL;
	start += sizeof(member) - 1;
	end = strchr(start, '"');
	if (end == NULL)
		die("the nextLink does not end");
	*end = '\0';
	return start;
}

static CURL *
open_connection(struct curl_slist **headers)
{
	CURL	   *easy = curl_easy_init();
	char		bearer[TAIL];

	snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s", token);
	*headers = curl_slist_append(*headers, bearer);
	*headers = curl_slist_append(*headers, "Accept: application/json");
	*headers = curl_slist_append(*headers, "OData-MaxVersion: 4.0");
	*headers = curl_slist_append(*headers, "OData-Version: 4.0");
	*headers = curl_slist_append(*headers, "If-None-Match: null");
	*headers = curl_slist_append(*headers, "Prefer: odata.maxpagesize=5000");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, encoding);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
	return easy;
}

static void
fetch_all(void)
{
	struct curl_slist *headers = NULL;
	CURL	   *easy = open_connection(&headers);
	char		first[TAIL];
	char	   *url = first;
	int64_t		pages = 0;
	int64_t		wire = 0;
	double		start = seconds(CLOCK_MONOTONIC);
	double		cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);

	if (snprintf(first, sizeof(first), "%s%s", root, path) >= (int) sizeof(first))
		die("the path is too long");
	for (; url != NULL; url = next_link(), pages++)
	{
		CURLcode	code;
		long		status = 0;
		curl_off_t	received = 0;

		curl_easy_setopt(easy, CURLOPT_URL, url);
		tail_len = 0;
		tail[0] = '\0';
		code = curl_easy_perform(easy);
		if (code != CURLE_OK)
			die("%s", curl_easy_strerror(code));
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		if (status != 200)
			die("status %ld: %s", status, tail);
		curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
		wire += received;
	}
	printf("%lld %lld %lld %.6f %.6f\n", (long long) pages, (long long) bytes, (long long) wire,
		   seconds(CLOCK_MONOTONIC) - start, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"root", required_argument, NULL, 'r'},
		{"path", required_argument, NULL, 'p'},
		{"token", required_argument, NULL, 't'},
		{"gzip", no_argument, NULL, 'z'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == 'r')
			root = optarg;
		else if (option == 'p')
			path = optarg;
		else if (option == 't')
			token = optarg;
		else if (option == 'z')
			encoding = "gzip";
		else
			root = NULL;
	}
	if (optind < argc || root == NULL || path == NULL || token == NULL)
		die("usage: bench_read --root URL --path PATH --token TOKEN [--gzip]");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	fetch_all();
	return 0;
}
