/*
 * bench_decoder.c
 *		The cost of converting a page of rows into values: the streaming
 *		reader of src/dataverse compared with json-c's document tree.
 *
 * The pages come from dvsim's account table, with 5,000 rows of eight columns
 * each.  Both sides convert them to the same values: numbers, booleans, uuids,
 * and timestamps as PostgreSQL stores them, and copies of texts.  A checksum
 * over all values verifies that.  Where json-c offers only text (uuids,
 * timestamps, exact decimals), it gets the same conversions.
 *
 *		bench_decoder [--dvsim PROGRAM] [--repeat N]
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>
#include <json-c/json.h>

#include "bench.h"
#include "dataverse/page.h"

#define ROWS 5000
#define COLUMNS 8
#define MAX_RUNS 999

/* the target: ns per row decoded and converted */
#define AIM 400

typedef enum column_type
{
	TEXT, UUID, INTEGER, DECIMAL, BOOLEAN, TIMESTAMP, DOUBLE
}			column_type;

typedef struct wanted_column
{
	const char *name;
	column_type type;
}			wanted_column;

static const struct
{
	const char *title;
	const char *prefer;			/* in addition to the page size; NULL: FetchXML, which omits nulls */
	wanted_column columns[COLUMNS];
}			tables[] = {

	{
		"texts", "",
		{
			{"name", TEXT}, {"accountnumber", TEXT}, {"telephone1", TEXT}, {"emailaddress1", TEXT},
			{"address1_city", TEXT}, {"revenue", DECIMAL}, {"numberofemployees", INTEGER},
			{"creditonhold", BOOLEAN}
		}
	},
	{
		"types", "",
		{
			{"accountid", UUID}, {"name", TEXT}, {"createdon", TIMESTAMP}, {"revenue", DECIMAL},
			{"numberofemployees", INTEGER}, {"_ownerid_value", UUID}, {"creditonhold", BOOLEAN},
			{"address1_latitude", DOUBLE}
		}
	},
	{
		"texts, FetchXML", NULL,
		{
			{"name", TEXT}, {"accountnumber", TEXT}, {"telephone1", TEXT}, {"emailaddress1", TEXT},
			{"address1_city", TEXT}, {"revenue", DECIMAL}, {"numberofemployees", INTEGER},
			{"creditonhold", BOOLEAN}
		}
	},
	{
		"types, all annotations", ",odata.include-annotations=\"*\"",
		{
			{"accountid", UUID}, {"name", TEXT}, {"createdon", TIMESTAMP}, {"revenue", DECIMAL},
			{"numberofemployees", INTEGER}, {"_ownerid_value", UUID}, {"creditonhold", BOOLEAN},
			{"address1_latitude", DOUBLE}
		}
	},
};

#define N_TABLES ((int) (sizeof(tables) / sizeof(tables[0])))

typedef struct fetched_body
{
	char	   *text;
	size_t		len;
}			fetched_body;

/* the result of one pass over a page */
typedef struct findings
{
	int64_t		rows;
	uint64_t	sum;
}			findings;

static const char *program = "../dvsim/dvsim";
static int	n_runs = 101;
static char copied[65536];		/* where texts are copied to, as into a datum */

static double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double) ts.tv_sec * 1e9 + (double) ts.tv_nsec;
}

/* ---------------------------------------------------------------- pages */

static size_t
take(char *data, size_t size, size_t n, void *arg)
{
	fetched_body *to = arg;

	to->text = realloc(to->text, to->len + size * n + 1);
	memcpy(to->text + to->len, data, size * n);
	to->len += size * n;
	to->text[to->len] = '\0';
	return size * n;
}

static fetched_body
fetch(CURL *easy, const char *path, const char *form, struct curl_slist *headers)
{
	fetched_body answer = {0};
	char		url[8192];
	CURLcode	code;
	long		status = 0;

	snprintf(url, sizeof(url), "%s%s", bench_base, path);
	curl_easy_reset(easy);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
	if (form != NULL)
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, form);
	code = curl_easy_perform(easy);
	if (code != CURLE_OK)
		die("%s: %s", path, curl_easy_strerror(code));
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 || answer.text == NULL)
		die("%s: status %ld: %s", path, status, answer.text ? answer.text : "");
	return answer;
}

/* makes the bearer header of all further requests */
static void
get_token(CURL *easy, char *header, size_t room)
{
	char		form[512];
	fetched_body answer;
	struct json_object *document;
	struct json_object *token = NULL;

	snprintf(form, sizeof(form), "grant_type=client_credentials&client_id=bench&"
			 "client_secret=secret&scope=%s/.default", bench_base);
	answer = fetch(easy, "/any/oauth2/v2.0/token", form, NULL);
	document = json_tokener_parse(answer.text);
	if (!json_object_object_get_ex(document, "access_token", &token))
		die("no token: %s", answer.text);
	snprintf(header, room, "Authorization: Bearer %s", json_object_get_string(token));
	json_object_put(document);
	free(answer.text);
}

static void
make_path(CURL *easy, int table, char *path, size_t room)
{
	bool		is_fetch = tables[table].prefer == NULL;
	char		query[1024];
	char	   *escaped;
	size_t		n = 0;
	int			i;

	if (is_fetch)
		n = (size_t) snprintf(query, sizeof(query), "<fetch count='%d' page='1'><entity name='account'>",
							  ROWS);
	for (i = 0; i < COLUMNS; i++)
		n += (size_t) snprintf(query + n, sizeof(query) - n,
							   is_fetch ? "<attribute name='%s'/>" : i > 0 ? ",%s" : "%s",
							   tables[table].columns[i].name);
	if (is_fetch)
		snprintf(query + n, sizeof(query) - n, "</entity></fetch>");
	escaped = curl_easy_escape(easy, query, 0);
	snprintf(path, room, "/api/data/v9.2/accounts?%s=%s", is_fetch ? "fetchXml" : "$select",
			 escaped);
	curl_free(escaped);
}

static void
fetch_pages(fetched_body * pages)
{
	CURL	   *easy = curl_easy_init();
	char		token[512];
	int			i;

	get_token(easy, token, sizeof(token));
	free(fetch(easy, "/_dvsim/seed?table=account&rows=10000", "", NULL).text);
	for (i = 0; i < N_TABLES; i++)
	{
		struct curl_slist *headers = NULL;
		char		path[4096];
		char		prefer[256];

		make_path(easy, i, path, sizeof(path));
		snprintf(prefer, sizeof(prefer), "Prefer: odata.maxpagesize=%d%s", ROWS,
				 tables[i].prefer ? tables[i].prefer : "");
		headers = curl_slist_append(headers, token);
		if (tables[i].prefer != NULL)
			headers = curl_slist_append(headers, prefer);
		pages[i] = fetch(easy, path, NULL, headers);
		curl_slist_free_all(headers);
	}
	curl_easy_cleanup(easy);
}

/* ---------------------------------------------------------------- values */

static inline void
add(findings * found, uint64_t value)
{
	found->sum = (found->sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline void
add_bytes(findings * found, const void *bytes, size_t len)
{
	uint64_t	head = 0;

	memcpy(&head, bytes, len < 8 ? len : 8);
	add(found, head ^ len);
}

static void
convert(const dv_value * value, column_type type, findings * found)
{
	dv_value_status status = DV_VALUE_OK;
	uint8_t		uuid[16];
	int64_t		big = 0;
	int32_t		number;
	double		real;
	bool		flag;
	size_t		len;
	int			scale;

	if (dv_value_is_null(value))
	{
		add(found, 1);
		return;
	}
	switch (type)
	{
		case TEXT:
			if (value->escaped)
				status = dv_value_string(value, copied, &len);
			else
				memcpy(copied, value->text, len = value->len);
			add_bytes(found, copied, len);
			break;
		case UUID:
			status = dv_value_uuid(value, uuid);
			add_bytes(found, uuid, 16);
			break;
		case INTEGER:
			status = dv_value_int32(value, &number);
			add(found, (uint64_t) number);
			break;
		case DECIMAL:
			status = dv_value_decimal(value, &big, &scale);
			add(found, (uint64_t) big << 8 | (uint64_t) scale);
			break;
		case BOOLEAN:
			status = dv_value_bool(value, &flag);
			add(found, flag);
			break;
		case TIMESTAMP:
			status = dv_value_timestamp(value, &big);
			add(found, (uint64_t) big);
			break;
		case DOUBLE:
			status = dv_value_double(value, &real);
			add_bytes(found, &real, sizeof(real));
			break;
	}
	if (status != DV_VALUE_OK)
		die("\"%.*s\": %s", (int) value->len, value->text, dv_value_reason(status));
}

static void
convert_tree(struct json_object *tree, column_type type, findings * found)
{
	dv_value	value = {.kind = DV_VALUE_STRING};
	double		real;

	switch (json_object_get_type(tree))
	{
		case json_type_null:
			add(found, 1);
			return;
		case json_type_boolean:
			add(found, (uint64_t) json_object_get_boolean(tree));
			return;
		case json_type_int:
			if (type == INTEGER)
			{
				add(found, (uint64_t) json_object_get_int64(tree));
				return;
			}
			value.kind = DV_VALUE_NUMBER;
			break;
		case json_type_double:
			if (type == DOUBLE)
			{
				real = json_object_get_double(tree);
				add_bytes(found, &real, sizeof(real));
				return;
			}
			value.kind = DV_VALUE_NUMBER;
			break;
		default:
			break;
	}
	/* keeps numbers as they were written, for exact decimals */
	value.text = json_object_get_string(tree);
	value.len = (uint32_t) (value.kind == DV_VALUE_STRING ?
							(size_t) json_object_get_string_len(tree) : strlen(value.text));
	convert(&value, type, found);
}

/* ---------------------------------------------------------------- passes */

static dv_names * names;

static void
drain(const fetched_body * page, const wanted_column * columns, findings * found)
{
	dv_page		reader;

	(void) columns;
	dv_page_open(&reader, names, page->text, page->len);
	if (dv_page_drain(&reader) != DV_PAGE_END)
		die("%s at %zu", reader.json.error, reader.json.error_at);
	found->rows = (int64_t) reader.rows;
}

static void
stream(const fetched_body * page, const wanted_column * columns, findings * found)
{
	dv_value	values[COLUMNS];
	dv_page		reader;
	dv_page_step step;

	(void) columns;
	dv_page_open(&reader, names, page->text, page->len);
	while ((step = dv_page_next(&reader, values)) == DV_PAGE_ROW)
		found->rows++;
	if (step != DV_PAGE_END)
		die("%s at %zu", reader.json.error, reader.json.error_at);
}

static void
stream_and_convert(const fetched_body * page, const wanted_column * columns, findings * found)
{
	dv_value	values[COLUMNS];
	dv_page		reader;
	dv_page_step step;
	int			i;

	dv_page_open(&reader, names, page->text, page->len);
	while ((step = dv_page_next(&reader, values)) == DV_PAGE_ROW)
	{
		for (i = 0; i < COLUMNS; i++)
			convert(&values[i], columns[i].type, found);
		found->rows++;
	}
	if (step != DV_PAGE_END)
		die("%s at %zu", reader.json.error, reader.json.error_at);
}

static struct json_object *
parse_tree(const fetched_body * page)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *tree;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	tree = json_tokener_parse_ex(tokener, page->text, (int) page->len);
	if (tree == NULL)
		die("json-c: %s", json_tokener_error_desc(json_tokener_get_error(tokener)));
	json_tokener_free(tokener);
	return tree;
}

static void
tree_and_convert(const fetched_body * page, const wanted_column * columns, findings * found)
{
	struct json_object *document = parse_tree(page);
	struct json_object *rows = json_object_object_get(document, "value");
	size_t		n = json_object_array_length(rows);
	size_t		row;
	int			i;

	for (row = 0; row < n; row++)
	{
		struct json_object *object = json_object_array_get_idx(rows, row);

		for (i = 0; i < COLUMNS; i++)
			convert_tree(json_object_object_get(object, columns[i].name), columns[i].type, found);
	}
	found->rows = (int64_t) n;
	json_object_put(document);
}

/* ---------------------------------------------------------------- report */

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* ns of processor time per row, the median of the runs */
static double
measure(void (*pass) (const fetched_body *, const wanted_column *, findings *), int table, const fetched_body * page,
		findings * found)
{
	double		times[MAX_RUNS];
	int			run;

	for (run = 0; run < n_runs; run++)
	{
		double		start = now();

		memset(found, 0, sizeof(*found));
		pass(page, tables[table].columns, found);
		times[run] = (now() - start) / ROWS;
	}
	qsort(times, (size_t) n_runs, sizeof(double), compare);
	return times[n_runs / 2];
}

static bool
report(int table, const fetched_body * page)
{
	const char *wanted[COLUMNS];
	findings	ours;
	findings	theirs;
	findings	ignored;
	double		converted;
	double		tree_converted;
	void	   *memory;
	int			i;

	for (i = 0; i < COLUMNS; i++)
		wanted[i] = tables[table].columns[i].name;
	memory = malloc(dv_names_size(wanted, COLUMNS));
	names = dv_names_init(memory, wanted, COLUMNS);
	converted = measure(stream_and_convert, table, page, &ours);
	tree_converted = measure(tree_and_convert, table, page, &theirs);
	if (ours.rows != ROWS || theirs.rows != ROWS || ours.sum != theirs.sum)
		die("%s: %lld rows with sum %llx against %lld with %llx", tables[table].title,
			(long long) ours.rows, (unsigned long long) ours.sum, (long long) theirs.rows,
			(unsigned long long) theirs.sum);
	printf("%-24s%8.0f%8.0f%8.0f%10.0f%10.0f%9.1f\n", tables[table].title,
		   (double) page->len / ROWS, measure(drain, table, page, &ignored),
		   measure(stream, table, page, &ignored), converted, tree_converted,
		   tree_converted / converted);
	free(memory);
	return converted <= AIM;
}

static void
parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{"dvsim", required_argument, NULL, 'd'},
		{"repeat", required_argument, NULL, 'r'},
		{0}
	};
	int			c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (c == 'd')
			program = optarg;
		else if (c == 'r')
			n_runs = atoi(optarg);
		else
			die("usage: bench_decoder [--dvsim PROGRAM] [--repeat N]");
	}
	if (optind < argc)
		die("unknown argument: %s", argv[optind]);
	if (n_runs < 1 || n_runs > MAX_RUNS)
		die("--repeat takes 1 to %d", MAX_RUNS);
}

int
main(int argc, char **argv)
{
	fetched_body pages[N_TABLES];
	bool		good = true;
	int			i;

	parse_args(argc, argv);
	bench_name = "bench_decoder";
	atexit(bench_stop);
	bench_start(program, -1);
	fetch_pages(pages);
	bench_stop();
	printf("%d rows of %d columns, medians of %d passes, ns of processor time per row\n\n", ROWS,
		   COLUMNS, n_runs);
	printf("%-24s%8s%8s%8s%10s%10s%9s\n", "", "bytes", "count", "decode", "+convert", "json-c",
		   "ratio");
	for (i = 0; i < N_TABLES; i++)
	{
		/* annotations triple the page, and are requested only where they are needed */
		bool		enough = report(i, &pages[i]);

		good &= enough || (tables[i].prefer != NULL && tables[i].prefer[0] != '\0');
		free(pages[i].text);
	}
	printf("\nTarget: %d ns per row decoded and converted: %s\n", AIM, good ? "reached" : "MISSED");
	return 0;
}
