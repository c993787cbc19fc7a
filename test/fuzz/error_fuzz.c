/*
 * error_fuzz.c
 *		Arbitrary bytes as an error of the service.
 *
 * The first line is the status, the second one Retry-After, the rest the body.
 * Every answer gets a text and a verdict that its status allows, names found in
 * that text occur in it, and no wait is longer than a year.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "dataverse/blame.h"
#include "dataverse/error.h"
#include "net/date.h"
#include "pg_stand_in.h"

#undef fprintf

#define NOW INT64CONST(1700000000)	/* seconds since 1970 */
#define LONGEST (366 * 86400 * INT64CONST(1000000))

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "error_fuzz: %s\n", what);
	abort();
}

/* The next line, without its end. */
static char *
take_line(const char **at, const char *end)
{
	const char *newline = memchr(*at, '\n', end - *at);
	const char *line_end = newline != NULL ? newline : end;
	char	   *line = pnstrdup(*at, line_end - *at);

	*at = newline != NULL ? newline + 1 : end;
	return line;
}

static void
check_wait(const char *header)
{
	int64		date = dv_http_date(header);
	int64		wait = dv_retry_after(header, NULL, NOW);

	if (date < -1)
		wrong("no such date");
	if (wait < -1 || wait > LONGEST)
		wrong("no such wait");
	if (date != -1 && wait != -1 && wait != Max(date - NOW, 0) * 1000000)
		wrong("a date is another wait");
}

static void
check_blame(const char *message)
{
	dv_blame	blame;

	dv_blame_read(message, &blame);
	if (strstr(message, blame.column) == NULL || strstr(message, blame.key) == NULL)
		wrong("a name that nobody said");
}

static void
check_error(int status, const char *retry_after, const char *body, size_t len)
{
	dv_error	error;
	bool		good = (status >= 200 && status < 300) || status == 304;

	dv_error_read(status, body, len, retry_after, retry_after, "r-1", &error);
	if (good != (error.verdict == DV_VERDICT_OK))
		wrong("a status of the other kind");
	if (error.status != status || error.retry_after < -1)
		wrong("a status or a wait that was not said");
	if (good)
		return;
	if (error.message == NULL || error.message[0] == '\0' || error.code == NULL)
		wrong("an error without a text");
	if (error.sqlstate == 0)
		wrong("an error without an SQLSTATE");
	if (status == 429 && error.outcome_unknown)
		wrong("a throttle that may have been carried out");
	if (strlen(dv_error_detail(&error)) > 3 * len + 1000)
		wrong("a detail of its own making");
	check_blame(error.message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *) data;
	const char *end = at + size;
	int			status = atoi(take_line(&at, end));
	char	   *retry_after = take_line(&at, end);

	check_wait(retry_after);
	if (status >= 200 && status <= 599)
		check_error(status, retry_after[0] != '\0' ? retry_after : NULL, at, end - at);
	pg_stand_in_reset();
	return 0;
}
