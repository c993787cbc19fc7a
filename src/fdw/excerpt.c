/*-------------------------------------------------------------------------
 *
 * excerpt.c
 *		Errors of PostgreSQL's input functions about text of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "fdw/excerpt.h"

#define LONGEST_TEXT 500

static void
shorten(char *text)
{
	static const char dots[] = "...";
	int			len = text != NULL ? (int) strlen(text) : 0;

	if (len > LONGEST_TEXT)
		strcpy(text + pg_mbcliplen(text, len, LONGEST_TEXT - (int) strlen(dots)), dots);
}

void
dv_excerpt_rethrow(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	shorten(error->message);
	shorten(error->detail);
	shorten(error->detail_log);
	shorten(error->hint);
	shorten(error->context);
	ReThrowError(error);
}
