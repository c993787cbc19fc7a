/*
 * bench_write.c
 *		The cost of sending encoded rows: bare libcurl replays CreateMultiple
 *		requests.
 *
 * This is the lower bound for any writer: libcurl's multi interface with the
 * options of src/net/http.c sends requests with the same headers and bodies
 * that the extension has sent, except for the token and the ids, which must be
 * new.  Answers are discarded.
 *
 *		bench_write --journal FILE --root URL --token TOKEN --rows N --connections N [--gzip]
 *
 * FILE is what dvsim's /_dvsim/requests returned after an INSERT of full
 * batches into account, with ids made by the extension.  Its requests are sent
 * in turn until there are N rows.  Prints rows, requests, bytes of bodies,
 * seconds, and seconds of processor time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>
#include <json-c/json.h>

#define MESSAGE "accounts/Microsoft.Dynamics.CRM.CreateMultiple"
#define ID_MEMBER "\"accountid\":\""
#define ID_LEN 36
#define MAX_CONNECTIONS 64
#define MAX_REQUESTS 1000

/* A request of the journal. */
struct request
{
	const char *body;
	size_t		len;
	int			rows;
	size_t	   *ids;			/* their positions in the body */
};

struct connection
{
	CURL	   *easy;
	char	   *body;			/* the body with new ids */
	char		answer[256];	/* the beginning of the answer */
	size_t		answer_len;
};

static struct request requests[MAX_REQUESTS];
static int	n_requests;
static struct curl_slist *headers;
static struct connection connections[MAX_CONNECTIONS];
static CURLM *multi;

static const char *journal;
static const char *root;
static const char *token;
static int64_t rows_wanted;
static int	n_connections;
static const char *encoding;

static void
__attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fprintf(stderr, "bench_write: ");
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

/* ---------------------------------------------------------------- journal */

static const char *
text_of(struct json_object *object, const char *member)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, member, &value);
	return value != NULL ? json_object_get_string(value) : "";
}

static void
take_body(struct json_object *value)
{
	struct request *request = &requests[n_requests++];
	const char *id;
	int			i = 0;

	request->body = json_object_get_string(value);
	request->len = (size_t) json_object_get_string_len(value);
	for (id = request->body; (id = strstr(id, ID_MEMBER)) != NULL; id++)
		request->rows++;
	request->ids = calloc((size_t) request->rows + 1, sizeof(size_t));
	for (id = request->body; (id = strstr(id, ID_MEMBER)) != NULL; id++)
		request->ids[i++] = (size_t) (id - request->body) + sizeof(ID_MEMBER) - 1;
	if (request->rows == 0)
		die("a request has no rows with ids");
}

/* Makes the headers of a request, except those that libcurl adds itself. */
static void
take_headers(struct json_object *all)
{
	static const char *const own[] = {"Host", "Content-Length", "Connection", "Accept-Encoding",
	"Authorization"};
	char		line[8192];

	json_object_object_foreach(all, name, value)
	{
		bool		keep = true;
		size_t		i;

		for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			keep = keep && strcasecmp(name, own[i]) != 0;
		snprintf(line, sizeof(line), "%s: %s", name, json_object_get_string(value));
		if (keep)
			headers = curl_slist_append(headers, line);
	}
	snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
	headers = curl_slist_append(headers, line);
	headers = curl_slist_append(headers, "Expect:");
}

static void
read_journal(void)
{
	struct json_object *document = json_object_from_file(journal);
	struct json_object *all = NULL;
	struct json_object *value = NULL;
	size_t		i;

	if (document == NULL || !json_object_object_get_ex(document, "requests", &all))
		die("%s: %s", journal, json_util_get_last_err());
	for (i = 0; i < json_object_array_length(all) && n_requests < MAX_REQUESTS; i++)
	{
		struct json_object *entry = json_object_array_get_idx(all, i);
		const char *target = text_of(entry, "target");

		if (strlen(target) < sizeof(MESSAGE) ||
			strcmp(target + strlen(target) - sizeof(MESSAGE) + 1, MESSAGE) != 0 ||
			strcmp(text_of(entry, "status"), "200") != 0)
			continue;
		if (headers == NULL && json_object_object_get_ex(entry, "headers", &value))
			take_headers(value);
		if (json_object_object_get_ex(entry, "body", &value))
			take_body(value);
	}
	if (n_requests == 0)
		die("%s has no " MESSAGE, journal);
}

/* ---------------------------------------------------------------- sending */

static size_t
receive(char *p, size_t size, size_t n, void *arg)
{
	struct connection *connection = arg;
	size_t		room = sizeof(connection->answer) - 1 - connection->answer_len;
	size_t		take = size * n < room ? size * n : room;

	memcpy(connection->answer + connection->answer_len, p, take);
	connection->answer_len += take;
	connection->answer[connection->answer_len] = '\0';
	return size * n;
}

static void
open_connections(void)
{
	char		url[1024];
	int			i;

	snprintf(url, sizeof(url), "%s" MESSAGE, root);
	multi = curl_multi_init();
	for (i = 0; i < n_connections; i++)
	{
		CURL	   *easy = curl_easy_init();
		size_t		room = 0;
		int			j;

		for (j = 0; j < n_requests; j++)
			room = requests[j].len > room ? requests[j].len : room;
		connections[i].body = malloc(room);
		connections[i].easy = easy;
		curl_easy_setopt(easy, CURLOPT_URL, url);
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
		curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, encoding);
		curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
		curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
		curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, &connections[i]);
		curl_easy_setopt(easy, CURLOPT_PRIVATE, &connections[i]);
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
	}
}

/* New ids continue from the last one in their last six bytes, which an index compares first. */
static void
renew_ids(struct connection *connection, const struct request *request)
{
	static uint64_t next = UINT64_C(0x020000000000);
	int			i;
	int			digit;

	for (i = 0; i < request->rows; i++)
	{
		char	   *end = connection->body + request->ids[i] + ID_LEN;
		uint64_t	n = next++;

		for (digit = 1; digit <= 12; digit++, n >>= 4)
			end[-digit] = "0123456789abcdef"[n & 15];
	}
}

static void
start_request(struct connection *connection, const struct request *request)
{
	memcpy(connection->body, request->body, request->len);
	renew_ids(connection, request);
	connection->answer_len = 0;
	curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDS, connection->body);
	curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDSIZE, (long) request->len);
	curl_multi_add_handle(multi, connection->easy);
}

/* Returns the connection whose request ends next, or NULL if none is in flight. */
static struct connection *
finish_request(void)
{
	for (;;)
	{
		struct connection *connection;
		CURLMsg    *message;
		long		status = 0;
		int			left;
		int			active = 0;

		message = curl_multi_info_read(multi, &left);
		if (message == NULL)
		{
			curl_multi_perform(multi, &active);
			message = curl_multi_info_read(multi, &left);
		}
		if (message == NULL)
		{
			if (active == 0)
				return NULL;
			curl_multi_poll(multi, NULL, 0, 10000, NULL);
			continue;
		}
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &connection);
		curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
		if (message->data.result != CURLE_OK)
			die("%s", curl_easy_strerror(message->data.result));
		if (status != 200)
			die("status %ld: %s", status, connection->answer);
		curl_multi_remove_handle(multi, connection->easy);
		return connection;
	}
}

static void
replay(void)
{
	double		start = seconds(CLOCK_MONOTONIC);
	double		cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	int64_t		rows = 0;
	int64_t		bytes = 0;
	int			sent = 0;
	int			i;

	for (i = 0;; i++)
	{
		struct connection *connection = i < n_connections ? &connections[i] : finish_request();
		const struct request *request = &requests[sent % n_requests];

		if (connection == NULL)
			break;
		if (rows >= rows_wanted)
			continue;
		start_request(connection, request);
		rows += request->rows;
		bytes += (int64_t) request->len;
		sent++;
	}
	printf("%" PRId64 " %d %" PRId64 " %.6f %.6f\n", rows, sent, bytes,
		   seconds(CLOCK_MONOTONIC) - start, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"journal", required_argument, NULL, 'j'},
		{"root", required_argument, NULL, 'r'},
		{"token", required_argument, NULL, 't'},
		{"rows", required_argument, NULL, 'n'},
		{"connections", required_argument, NULL, 'c'},
		{"gzip", no_argument, NULL, 'z'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == 'j')
			journal = optarg;
		else if (option == 'r')
			root = optarg;
		else if (option == 't')
			token = optarg;
		else if (option == 'n')
			rows_wanted = atoll(optarg);
		else if (option == 'c')
			n_connections = atoi(optarg);
		else if (option == 'z')
			encoding = "gzip";
		else
			root = NULL;
	}
	if (optind < argc || journal == NULL || root == NULL || token == NULL || rows_wanted < 1 || n_connections < 1 ||
		n_connections > MAX_CONNECTIONS)
		die("usage: bench_write --journal FILE --root URL --token TOKEN --rows N "
			"--connections N [--gzip]");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	read_journal();
	open_connections();
	replay();
	return 0;
}
