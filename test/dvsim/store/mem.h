/*
 * mem.h
 *		Memory of one request (an arena) and growing byte strings.
 *
 * Everything that a request needs while it is answered lives in its arena and
 * is freed with it, so no error path frees anything.  Running out of memory
 * ends the process.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_MEM_H
#define SIM_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_arena;

struct sim_arena *sim_arena_new(void);
void		sim_arena_free(struct sim_arena *arena);
void	   *sim_alloc(struct sim_arena *arena, size_t size);	/* zeroed, aligned for anything */
char	   *sim_strdup(struct sim_arena *arena, const char *s);
char	   *sim_strndup(struct sim_arena *arena, const char *s, size_t len);
char	   *sim_fmt(struct sim_arena *arena, const char *fmt,...) __attribute__((format(printf, 2, 3)));
char	   *sim_vfmt(struct sim_arena *arena, const char *fmt, va_list args);

/* malloc and realloc for data that outlives a request (schema, store, journal) */
void	   *sim_xalloc(size_t size);	/* zeroed */
void	   *sim_xrealloc(void *p, size_t size);
char	   *sim_xstrdup(const char *s);

/*
 * A growing byte string.  All zero is a valid empty one.  "s" is NULL until
 * the first byte and NUL-terminated from then on.  Owner calls sim_buf_free.
 */
struct sim_buf
{
	char	   *s;
	size_t		len;
	size_t		cap;
};

void		sim_buf_free(struct sim_buf *buf);
void		sim_buf_reserve(struct sim_buf *buf, size_t more);
void		sim_put(struct sim_buf *buf, const char *p, size_t len);
void		sim_puts(struct sim_buf *buf, const char *s);
void		sim_putc(struct sim_buf *buf, char c);
void		sim_putf(struct sim_buf *buf, const char *fmt,...) __attribute__((format(printf, 2, 3)));
void		sim_put_i64(struct sim_buf *buf, int64_t v);

/* quoted and escaped as a JSON string; UTF-8 passes unchanged, broken bytes become U+FFFD */
void		sim_put_json(struct sim_buf *buf, const char *s, size_t len);

/* escaped for XML text and attribute values */
void		sim_put_xml(struct sim_buf *buf, const char *s, size_t len);

/* percent-encoded (unreserved characters pass) */
void		sim_put_url(struct sim_buf *buf, const char *s, size_t len);

#endif
