/*
 * pg_stand_in.c
 *		A stand-in for PostgreSQL, for modules that use its memory and strings,
 *		but nothing else of it.
 *
 * Each piece of memory is allocated by malloc, so that the sanitizers watch it.
 * pg_stand_in_reset() frees the rest, as resetting a context would.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

/* the type of its second argument has changed */
#define appendBinaryStringInfo declared_otherwise
#include "lib/stringinfo.h"
#undef appendBinaryStringInfo

#include "miscadmin.h"
#include "utils/memutils.h"

#include "net/http.h"
#include "net/text.h"
#include "pg_stand_in.h"

#undef vsnprintf

extern void appendBinaryStringInfo(StringInfo str, const void *data, int datalen);

typedef struct piece
{
	struct piece *prev;
	struct piece *next;
	size_t		size;
	size_t		filler;			/* aligns what follows */
} piece;

static piece pieces = {&pieces, &pieces, 0, 0};
static MemoryContextCallback *callbacks;

MemoryContext CurrentMemoryContext;
volatile	sig_atomic_t InterruptPending;

void
ProcessInterrupts(void)
{
}

void
pg_stand_in_reset(void)
{
	for (; callbacks != NULL; callbacks = callbacks->next)
		callbacks->func(callbacks->arg);
	while (pieces.next != &pieces)
		pfree(pieces.next + 1);
}

void
MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *callback)
{
	(void) context;
	callback->next = callbacks;
	callbacks = callback;
}

void *
palloc(Size size)
{
	piece	   *p = malloc(sizeof(*p) + size);

	if (p == NULL)
		abort();
	p->size = size;
	p->prev = &pieces;
	p->next = pieces.next;
	p->prev->next = p->next->prev = p;
	return p + 1;
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void
pfree(void *pointer)
{
	piece	   *p = (piece *) pointer - 1;

	p->prev->next = p->next;
	p->next->prev = p->prev;
	free(p);
}

void *
repalloc(void *pointer, Size size)
{
	void	   *new = palloc(size);

	memcpy(new, pointer, Min(size, ((piece *) pointer - 1)->size));
	pfree(pointer);
	return new;
}

char *
pnstrdup(const char *in, Size len)
{
	char	   *out;

	len = strnlen(in, len);
	out = palloc(len + 1);
	memcpy(out, in, len);
	out[len] = '\0';
	return out;
}

char *
pstrdup(const char *in)
{
	return pnstrdup(in, strlen(in));
}

void
initStringInfo(StringInfo str)
{
	str->maxlen = 16;			/* small, so that it must grow */
	str->data = palloc(str->maxlen);
	str->data[0] = '\0';
	str->len = 0;
	str->cursor = 0;
}

void
enlargeStringInfo(StringInfo str, int needed)
{
	if (str->len + needed + 1 <= str->maxlen)
		return;
	while (str->len + needed + 1 > str->maxlen)
		str->maxlen *= 2;
	str->data = repalloc(str->data, str->maxlen);
}

void
appendBinaryStringInfo(StringInfo str, const void *data, int datalen)
{
	enlargeStringInfo(str, datalen);
	memcpy(str->data + str->len, data, datalen);
	str->len += datalen;
	str->data[str->len] = '\0';
}

void
appendStringInfoString(StringInfo str, const char *s)
{
	appendBinaryStringInfo(str, s, strlen(s));
}

void
appendStringInfoChar(StringInfo str, char ch)
{
	appendBinaryStringInfo(str, &ch, 1);
}

static char *
format(const char *fmt, va_list args)
{
	va_list		again;
	char	   *text;
	int			len;

	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	text = palloc(len + 1);
	vsnprintf(text, len + 1, fmt, args);
	return text;
}

char *
psprintf(const char *fmt,...)
{
	va_list		args;
	char	   *text;

	va_start(args, fmt);
	text = format(fmt, args);
	va_end(args);
	return text;
}

void
appendStringInfo(StringInfo str, const char *fmt,...)
{
	va_list		args;
	char	   *text;

	va_start(args, fmt);
	text = format(fmt, args);
	va_end(args);
	appendStringInfoString(str, text);
	pfree(text);
}

int
pg_strcasecmp(const char *s1, const char *s2)
{
	return strcasecmp(s1, s2);
}

/* Of net/text.c, which needs the conversions of a database. */

char *
dv_text_shown(const char *bytes, size_t len)
{
	return pnstrdup(bytes, len);
}

char *
dv_text_mended(const char *bytes, size_t len)
{
	char	   *mended = memcpy(palloc(len + 1), bytes, len);
	size_t		i;

	for (i = 0; i < len; i++)
		if (mended[i] == '\0')
			mended[i] = '?';
	mended[len] = '\0';
	return mended;
}

const char *
dv_http_failure_name(dv_http_failure failure)
{
	(void) failure;
	return "failure";
}

/* The tested code must not raise errors. */

bool
errstart(int elevel, const char *domain)
{
	(void) elevel;
	(void) domain;
	abort();
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errcode(int sqlerrcode)
{
	return sqlerrcode;
}

int
errmsg(const char *fmt,...)
{
	return fmt != NULL;
}

int
errdetail_internal(const char *fmt,...)
{
	return fmt != NULL;
}

int
errhint(const char *fmt,...)
{
	return fmt != NULL;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	(void) filename;
	(void) lineno;
	(void) funcname;
	abort();
}

/* for Assert(), if the server was built with assertions */

#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *conditionName, const char *fileName, int lineNumber)
#else
void
ExceptionalCondition(const char *conditionName, const char *errorType, const char *fileName,
					 int lineNumber)
#endif
{
	fputs(conditionName, stderr);
	abort();
}
