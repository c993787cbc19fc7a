/*
 * arena.c
 *		Memory that the caller owns, and texts that grow in it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dataverse/arena.h"

#define FIRST_CAP 64

void *
dv_arena_zeroed(const dv_arena *arena, size_t n, size_t size)
{
	size_t		bytes = (n > 0 ? n : 1) * size;
	void	   *memory = arena->alloc(arena->context, bytes);

	memset(memory, 0, bytes);
	return memory;
}

const char *
dv_arena_copy(const dv_arena *arena, const char *text)
{
	size_t		size;
	char	   *copy;

	if (text == NULL)
		return NULL;
	size = strlen(text) + 1;
	copy = arena->alloc(arena->context, size);
	memcpy(copy, text, size);
	return copy;
}

dv_arena_text
dv_arena_text_begin(const dv_arena *arena)
{
	dv_arena_text text = {arena, NULL, 0, FIRST_CAP};

	text.s = arena->alloc(arena->context, FIRST_CAP);
	text.s[0] = '\0';
	return text;
}

void
dv_arena_append_len(dv_arena_text *text, const char *s, size_t len)
{
	if (text->len + len + 1 > text->cap)
	{
		char	   *grown;

		while (text->len + len + 1 > text->cap)
			text->cap *= 2;
		grown = text->arena->alloc(text->arena->context, text->cap);
		memcpy(grown, text->s, text->len);
		text->s = grown;
	}
	memcpy(text->s + text->len, s, len);
	text->len += len;
	text->s[text->len] = '\0';
}

void
dv_arena_append(dv_arena_text *text, const char *s)
{
	dv_arena_append_len(text, s, strlen(s));
}

void
dv_arena_append_item(dv_arena_text *text, const char *separator, const char *s)
{
	if (text->len > 0)
		dv_arena_append(text, separator);
	dv_arena_append(text, s);
}

const char *
dv_arena_printf(const dv_arena *arena, const char *format,...)
{
	va_list		args;
	size_t		size;
	char	   *text;

	va_start(args, format);
	size = (size_t) vsnprintf(NULL, 0, format, args) + 1;
	va_end(args);
	text = arena->alloc(arena->context, size);
	va_start(args, format);
	vsnprintf(text, size, format, args);
	va_end(args);
	return text;
}
