/*
 * bench_dvsim.c
 *		The speed at which dvsim accepts and returns rows, and the memory of a
 *		row.
 *
 * The client does as little as possible, so that dvsim is what is measured:
 * bodies of CreateMultiple are made in advance and sent repeatedly; answers are
 * discarded, except for the end of a page, which has the nextLink.  The client
 * and dvsim get a core each if there are two.  Each repetition starts a new
 * dvsim, because memory that was freed would hide what rows take.
 *
 *		bench_dvsim [--dvsim PROGRAM] [--rows N] [--connections N] [--repeat N] [--canned]
 *
 * First, rows are written over all connections at once.  Then each connection
 * reads the whole table, following its own nextLinks.  With --canned, dvsim does
 * not keep the rows that it is sent and repeats its answers: it gets as many
 * rows in another way, and has given all answers once before they are measured.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "bench.h"

#define ROWS_A_BODY 100
#define BODIES 64
#define PAGE 5000
#define MAX_CONNECTIONS 64
#define MAX_RUNS 99
#define TAIL 8192
#define SELECT "name,accountnumber,telephone1,emailaddress1,address1_city,revenue," \
	"numberofemployees,creditonhold"

/* the targets for a machine with two cores */
#define AIM_IN 150000
#define AIM_OUT 200000
#define AIM_BYTES 1024

struct body
{
	char	   *text;
	size_t		len;
	int64_t		data;			/* bytes of the values only */
};

struct connection
{
	CURL	   *easy;
	char		tail[TAIL + 1]; /* the end of the answer so far */
	size_t		tail_len;
	int64_t		braces;			/* the answer's "{": one for each row, and one around them */
};

struct run
{
	double		in;				/* rows per second */
	double		out;
	double		in_cpu;			/* rows per second of dvsim's processor time */
	double		out_cpu;
	double		row_bytes;		/* memory per row, without its values */
};

static const char *program = "../dvsim/dvsim";
static int64_t rows = 200000;
static int	n_connections = 4;
static int	n_runs = 3;

static int	client_core = -1;
static int	server_core = -1;
static struct body bodies[BODIES];
static struct connection connections[MAX_CONNECTIONS];
static struct curl_slist *headers;
static CURLM *multi;

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- cores */

/* finds the first two cores that this process may use; if there is only one, nothing is pinned */
static void
choose_cores(void)
{
	cpu_set_t	allowed;
	int			core;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2)
		return;
	for (core = 0; core < CPU_SETSIZE && server_core < 0; core++)
	{
		if (!CPU_ISSET(core, &allowed))
			continue;
		if (client_core < 0)
			client_core = core;
		else
			server_core = core;
	}
}

/* ---------------------------------------------------------------- dvsim */

static int64_t
server_memory(void)
{
	char		line[256];
	FILE	   *file;
	long long	kilobytes = -1;

	snprintf(line, sizeof(line), "/proc/%d/status", (int) bench_server);
	file = fopen(line, "r");
	if (file == NULL)
		die("%s: %s", line, strerror(errno));
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "VmRSS: %lld kB", &kilobytes) == 1)
			break;
	fclose(file);
	if (kilobytes < 0)
		die("no VmRSS in /proc");
	return (int64_t) kilobytes * 1024;
}

/* seconds of processor time that dvsim has used */
static double
server_time(void)
{
	struct timespec ts;
	clockid_t	clock;

	if (clock_getcpuclockid(bench_server, &clock) != 0 || clock_gettime(clock, &ts) != 0)
		die("no processor time of dvsim");
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- bodies */

/* writes the eight values of a row, which have no braces, because braces are counted */
static int
print_row(FILE *out, int64_t n)
{
	return fprintf(out,
				   "%s{\"@odata.type\":\"Microsoft.Dynamics.CRM.account\","
				   "\"name\":\"Contoso Manufacturing %07lld\",\"accountnumber\":\"AC-%08lld\","
				   "\"telephone1\":\"+49 30 5550%05lld\","
				   "\"emailaddress1\":\"office%07lld@contoso.example\","
				   "\"address1_city\":\"Charlottenburg\",\"revenue\":%lld.25,"
				   "\"numberofemployees\":%lld,\"creditonhold\":%s}",
				   n % ROWS_A_BODY == 0 ? "" : ",",
				   (long long) n, (long long) n, (long long) (n % 100000), (long long) n,
				   (long long) (100000 + n * 37), (long long) (10 + n % 5000),
				   n % 2 == 0 ? "true" : "false");
}

/* counts the bytes of the values in the body, without quotes and names */
static int64_t
data_of_row(int64_t n)
{
	char		numbers[64];

	return 21 + 7 + 11 + 14 + 6 + 7 + 16 + 14 + (n % 2 == 0 ? 4 : 5) +
		snprintf(numbers, sizeof(numbers), "%lld.25%lld",
				 (long long) (100000 + n * 37), (long long) (10 + n % 5000));
}

static void
make_bodies(void)
{
	int64_t		n = 0;
	int			i;
	int			j;

	for (i = 0; i < BODIES; i++)
	{
		FILE	   *out = open_memstream(&bodies[i].text, &bodies[i].len);

		fprintf(out, "{\"Targets\":[");
		for (j = 0; j < ROWS_A_BODY; j++, n++)
		{
			print_row(out, n);
			bodies[i].data += data_of_row(n);
		}
		fprintf(out, "]}");
		fclose(out);
	}
}

/* ---------------------------------------------------------------- client */

static int64_t
count_braces(const char *p, size_t len)
{
	int64_t		n = 0;
	size_t		i;

	for (i = 0; i < len; i++)
		n += p[i] == '{';
	return n;
}

/* keeps the last TAIL bytes of the answer */
static size_t
receive(char *p, size_t size, size_t n, void *user)
{
	struct connection *connection = user;
	size_t		len = size * n;
	size_t		keep = len < TAIL ? len : TAIL;
	size_t		old = connection->tail_len;

	connection->braces += count_braces(p, len);
	if (old + keep > TAIL)
	{
		size_t		excess = old + keep - TAIL;

		memmove(connection->tail, connection->tail + excess, old - excess);
		old -= excess;
	}
	memcpy(connection->tail + old, p + len - keep, keep);
	connection->tail_len = old + keep;
	connection->tail[connection->tail_len] = '\0';
	return len;
}

static void
forget_answer(struct connection *connection)
{
	connection->tail_len = 0;
	connection->tail[0] = '\0';
	connection->braces = 0;
}

static void
open_connections(void)
{
	int			i;

	multi = curl_multi_init();
	for (i = 0; i < n_connections; i++)
	{
		CURL	   *easy = curl_easy_init();

		connections[i].easy = easy;
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, &connections[i]);
		curl_easy_setopt(easy, CURLOPT_PRIVATE, &connections[i]);
		curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L * 1024);
		curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
		forget_answer(&connections[i]);
	}
}

static void
close_connections(void)
{
	int			i;

	for (i = 0; i < n_connections; i++)
		curl_easy_cleanup(connections[i].easy);
	curl_multi_cleanup(multi);
	curl_slist_free_all(headers);
	headers = NULL;
}

/* returns the value of a JSON string member near the end of an answer; changes the tail */
static char *
find_string(struct connection *connection, const char *member)
{
	char	   *start = strstr(connection->tail, member);
	char	   *end;

	if (start == NULL || (start = strchr(start, ':')) == NULL ||
		(start = strchr(start, '"')) == NULL || (end = strchr(start + 1, '"')) == NULL)
		return NULL;
	*end = '\0';
	return start + 1;
}

/* requests a token and makes the headers of all further requests */
static void
log_in(void)
{
	struct connection *connection = &connections[0];
	char		url[sizeof(bench_base) + 64];
	char		form[sizeof(bench_base) + 128];
	char		bearer[TAIL + 64];
	char	   *token;

	snprintf(url, sizeof(url), "%s/bench/oauth2/v2.0/token", bench_base);
	snprintf(form, sizeof(form), "grant_type=client_credentials&client_id=bench"
			 "&client_secret=secret&scope=%s/.default", bench_base);
	curl_easy_setopt(connection->easy, CURLOPT_URL, url);
	curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDS, form);
	if (curl_easy_perform(connection->easy) != CURLE_OK ||
		(token = find_string(connection, "\"access_token\"")) == NULL)
		die("no token: %s", connection->tail);
	snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s", token);
	headers = curl_slist_append(headers, bearer);
	headers = curl_slist_append(headers, "Accept: application/json");
	headers = curl_slist_append(headers, "Content-Type: application/json; charset=utf-8");
	headers = curl_slist_append(headers, "OData-Version: 4.0");
	headers = curl_slist_append(headers, "OData-MaxVersion: 4.0");
	headers = curl_slist_append(headers, "Expect:");
	headers = curl_slist_append(headers, "Prefer: odata.maxpagesize=5000");
}

static void
start_request(struct connection *connection)
{
	forget_answer(connection);
	curl_multi_add_handle(multi, connection->easy);
}

/* returns the connection whose request ends next, or NULL if none is in flight */
static struct connection *
finish_request(void)
{
	for (;;)
	{
		struct connection *connection;
		CURLMsg    *message;
		long		status = 0;
		int			n;
		int			active;

		message = curl_multi_info_read(multi, &n);
		if (message == NULL)
		{
			curl_multi_perform(multi, &active);
			message = curl_multi_info_read(multi, &n);
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
			die("status %ld: %s", status, connection->tail);
		curl_multi_remove_handle(multi, connection->easy);
		return connection;
	}
}

/* ---------------------------------------------------------------- measures */

/* returns the bytes of data sent */
static int64_t
send_rows(void)
{
	char		url[sizeof(bench_base) + 128];
	int64_t		requests = rows / ROWS_A_BODY;
	int64_t		sent = 0;
	int64_t		data = 0;
	struct connection *connection;
	int			i;

	snprintf(url, sizeof(url), "%s/api/data/v9.2/accounts/Microsoft.Dynamics.CRM.CreateMultiple",
			 bench_base);
	for (i = 0; i < n_connections; i++)
	{
		curl_easy_setopt(connections[i].easy, CURLOPT_URL, url);
		curl_easy_setopt(connections[i].easy, CURLOPT_HTTPHEADER, headers);
	}
	for (i = 0; (connection = i < n_connections ? &connections[i] : finish_request()) != NULL; i++)
	{
		const struct body *body = &bodies[sent % BODIES];

		if (sent == requests)
			continue;
		curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDS, body->text);
		curl_easy_setopt(connection->easy, CURLOPT_POSTFIELDSIZE, (long) body->len);
		start_request(connection);
		data += body->data;
		sent++;
	}
	return data;
}

/* rows to be read if the sent ones are not kept */
static void
seed_rows(void)
{
	CURL	   *easy = curl_easy_init();
	char		url[sizeof(bench_base) + 128];
	long		status = 0;

	snprintf(url, sizeof(url), "%s/_dvsim/seed?table=account&rows=%lld", bench_base,
			 (long long) rows);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &connections[0]);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	if (curl_easy_perform(easy) != CURLE_OK ||
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200)
		die("could not seed dvsim");
	curl_easy_cleanup(easy);
}

/* reads the whole table over each of n connections; returns the number of rows received */
static int64_t
read_rows(int n)
{
	char		url[sizeof(bench_base) + 256];
	int64_t		received = 0;
	struct connection *connection;
	int			i;

	snprintf(url, sizeof(url), "%s/api/data/v9.2/accounts?$select=" SELECT, bench_base);
	for (i = 0; i < n; i++)
	{
		curl_easy_setopt(connections[i].easy, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(connections[i].easy, CURLOPT_URL, url);
		start_request(&connections[i]);
	}
	while ((connection = finish_request()) != NULL)
	{
		char	   *next = find_string(connection, "\"@odata.nextLink\"");

		received += connection->braces - 1;
		if (next == NULL)
			continue;
		curl_easy_setopt(connection->easy, CURLOPT_URL, next);
		start_request(connection);
	}
	return received;
}

static struct run
measure(void)
{
	struct run	run;
	int64_t		memory;
	int64_t		data;
	int64_t		received;
	double		start;
	double		cpu;

	bench_start(program, server_core);
	open_connections();
	log_in();

	memory = server_memory();
	start = now();
	cpu = server_time();
	data = send_rows();
	run.in = (double) rows / (now() - start);
	run.in_cpu = (double) rows / (server_time() - cpu);
	run.row_bytes = (double) (server_memory() - memory - data) / (double) rows;

	if (bench_canned)
	{
		seed_rows();
		read_rows(1);
	}
	start = now();
	cpu = server_time();
	received = read_rows(n_connections);
	run.out = (double) received / (now() - start);
	run.out_cpu = (double) received / (server_time() - cpu);
	/* the schema may have rows of its own, which every connection reads */
	if (received < rows * n_connections || received > (rows + 100) * n_connections)
		die("read %lld rows over %d connections, after writing %lld", (long long) received,
			n_connections, (long long) rows);

	close_connections();
	bench_stop();
	return run;
}

/* ---------------------------------------------------------------- report */

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
median(const double *values, int n)
{
	double		sorted[MAX_RUNS];

	memcpy(sorted, values, sizeof(*values) * (size_t) n);
	qsort(sorted, (size_t) n, sizeof(*sorted), compare);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* prints a line of the table; "offset" is that of the figure in struct run */
static double
print_line(const char *name, const struct run *runs, size_t offset)
{
	double		values[MAX_RUNS];
	int			i;

	printf("%-32s", name);
	for (i = 0; i < n_runs; i++)
	{
		memcpy(&values[i], (const char *) &runs[i] + offset, sizeof(double));
		printf(" %9.0f", values[i]);
	}
	printf(" | %9.0f", median(values, n_runs));
	return median(values, n_runs);
}

static void
print_aim(const char *aim, bool reached)
{
	printf("   %-9s %s\n", aim, reached ? "reached" : "MISSED");
}

static void
report(const struct run *runs)
{
	int			i;

	printf("%-32s", "");
	for (i = 0; i < n_runs; i++)
		printf("     run %d", i + 1);
	printf(" |    median   aim\n");
	print_aim("150000", print_line("rows in, a second", runs,
								   offsetof(struct run, in)) >= AIM_IN);
	print_aim("200000", print_line("rows out, a second", runs,
								   offsetof(struct run, out)) >= AIM_OUT);
	if (!bench_canned)
		print_aim("< 1024", print_line("bytes a row beyond its data", runs,
									   offsetof(struct run, row_bytes)) < AIM_BYTES);

	/* figures that depend little on the load of the machine */
	print_line("rows in, a second of processor", runs, offsetof(struct run, in_cpu));
	printf("\n");
	print_line("rows out, a second of processor", runs, offsetof(struct run, out_cpu));
	printf("\n");
}

static int64_t
number_option(const char *name, int64_t min, int64_t max)
{
	char	   *end;
	long long	n = strtoll(optarg, &end, 10);

	if (*end != '\0' || end == optarg || n < min || n > max)
		die("--%s takes %lld to %lld", name, (long long) min, (long long) max);
	return n;
}

static void
read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"dvsim", required_argument, NULL, 'd'},
		{"rows", required_argument, NULL, 'r'},
		{"connections", required_argument, NULL, 'c'},
		{"repeat", required_argument, NULL, 'n'},
		{"canned", no_argument, NULL, 'k'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == 'd')
			program = optarg;
		else if (option == 'r')
			rows = number_option("rows", ROWS_A_BODY, 100000000) / ROWS_A_BODY * ROWS_A_BODY;
		else if (option == 'c')
			n_connections = (int) number_option("connections", 1, MAX_CONNECTIONS);
		else if (option == 'n')
			n_runs = (int) number_option("repeat", 1, MAX_RUNS);
		else if (option == 'k')
			bench_canned = true;
		else
			die("usage: bench_dvsim [--dvsim PROGRAM] [--rows N] [--connections N] [--repeat N] "
				"[--canned]");
	}
	if (optind < argc)
		die("unknown argument: %s", argv[optind]);
}

int
main(int argc, char **argv)
{
	struct run	runs[MAX_RUNS];
	int			i;

	read_options(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	bench_name = "bench_dvsim";
	atexit(bench_stop);
	choose_cores();
	bench_pin(client_core);
	make_bodies();

	printf("dvsim: %lld accounts with 8 columns, CreateMultiple of %d, pages of %d, "
		   "%d connections\n", (long long) rows, ROWS_A_BODY, PAGE, n_connections);
	if (server_core >= 0)
		printf("client on core %d, dvsim on core %d\n", client_core, server_core);
	else
		printf("client and dvsim share a core\n");
	for (i = 0; i < n_runs; i++)
		runs[i] = measure();
	report(runs);
	return 0;
}
