/*
 * arena.h
 *		Memory that the caller owns, and texts that grow in it.
 *
 * For modules that do not use PostgreSQL.  Nothing is freed individually.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ARENA_H
#define DV_ARENA_H

#include <stddef.h>

/*
 * The source of memory.  "alloc" does not return if there is no memory, or if
 * the caller no longer wants the result.
 */
typedef struct dv_arena
{
	void	   *(*alloc) (void *context, size_t size);
	void	   *context;
} dv_arena;

typedef struct dv_arena_text
{
	const dv_arena *arena;
	char	   *s;				/* NUL-terminated */
	size_t		len;
	size_t		cap;
} dv_arena_text;

extern void *dv_arena_zeroed(const dv_arena *arena, size_t n, size_t size);

/* NULL stays NULL. */
extern const char *dv_arena_copy(const dv_arena *arena, const char *text);

extern dv_arena_text dv_arena_text_begin(const dv_arena *arena);
extern void dv_arena_append(dv_arena_text *text, const char *s);
extern void dv_arena_append_len(dv_arena_text *text, const char *s, size_t len);

/* Puts "separator" first unless the text is empty. */
extern void dv_arena_append_item(dv_arena_text *text, const char *separator, const char *s);

extern const char *dv_arena_printf(const dv_arena *arena, const char *format,...)
			__attribute__((format(printf, 2, 3)));

#endif							/* DV_ARENA_H */
