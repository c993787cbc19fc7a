/*
 * excerpt.c
 *		Errors of PostgreSQL's input functions about text of the service.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "fdw/excerpt.h"
#include "net/text.h"

#define LONGEST_TEXT 500

static char *
shorten(char *text)
{
	static const char dots[] = "...";
	int			len = text != NULL ? (int) strlen(text) : 0;

	if (len > LONGEST_TEXT)
		strcpy(text + pg_mbcliplen(text, len, LONGEST_TEXT - (int) strlen(dots)), dots);
	return text != NULL ? pstrdup(dv_text_told(text)) : NULL;
}

void
dv_excerpt_rethrow(MemoryContext context, const char *instead)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	if (instead != NULL && ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_DATA_EXCEPTION)
	{
		error->message = pstrdup(instead);
		/* the context quotes it, too */
		error->detail = error->detail_log = error->hint = error->context = NULL;
	}
	error->message = shorten(error->message);
	error->detail = shorten(error->detail);
	error->detail_log = shorten(error->detail_log);
	error->hint = shorten(error->hint);
	error->context = shorten(error->context);
	ReThrowError(error);
}
