/*
 * mem.c
 *		Arenas, growing byte strings and functions that write into them.
 *
 * An arena is a chain of blocks that are handed out from front to back.
 * Blocks of the usual size go back to a small pool when their arena is freed,
 * because every request makes an arena; large ones go back to malloc.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE	(64 * 1024)
#ifdef __SANITIZE_ADDRESS__
#define POOL_MAX	0			/* lets the sanitizer detect use after free */
#else
#define POOL_MAX	64
#endif
#define ALIGNMENT	16

struct block
{
	struct block *next;
	size_t		size;			/* of the bytes after this header */
	size_t		used;
	size_t		padding;		/* keeps the data aligned */
};

struct sim_arena
{
	struct block *blocks;		/* newest first; the arena itself lives in one */
};

/* free blocks of BLOCK_SIZE, shared by all arenas */
static struct block *pool;
static int	pool_size;

static void
__attribute__((noreturn))
out_of_memory(void)
{
	fputs("dvsim: out of memory\n", stderr);
	abort();
}

void *
sim_xalloc(size_t size)
{
	void	   *p = calloc(1, size > 0 ? size : 1);

	if (p == NULL)
		out_of_memory();
	return p;
}

void *
sim_xrealloc(void *p, size_t size)
{
	p = realloc(p, size > 0 ? size : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

char *
sim_xstrdup(const char *s)
{
	size_t		size = strlen(s) + 1;

	return memcpy(sim_xalloc(size), s, size);
}

static struct block *
block_new(size_t size)
{
	struct block *block;

	if (size == BLOCK_SIZE && pool != NULL)
	{
		block = pool;
		pool = block->next;
		pool_size--;
	}
	else
	{
		block = malloc(sizeof(struct block) + size);
		if (block == NULL)
			out_of_memory();
		block->size = size;
	}
	block->next = NULL;
	block->used = 0;
	return block;
}

static void
block_free(struct block *block)
{
	if (block->size != BLOCK_SIZE || pool_size + 1 > POOL_MAX)
	{
		free(block);
		return;
	}
	block->next = pool;
	pool = block;
	pool_size++;
}

struct sim_arena *
sim_arena_new(void)
{
	struct block *block = block_new(BLOCK_SIZE);
	struct sim_arena *arena = (struct sim_arena *) (block + 1);

	block->used = ALIGNMENT;
	arena->blocks = block;
	return arena;
}

void
sim_arena_free(struct sim_arena *arena)
{
	struct block *block;
	struct block *next;

	if (arena == NULL)
		return;
	for (block = arena->blocks; block != NULL; block = next)
	{
		next = block->next;
		block_free(block);
	}
}

/* Makes room for an allocation that does not fit in the newest block. */
static void *
alloc_slow(struct sim_arena *arena, size_t size)
{
	struct block *block;

	if (size > BLOCK_SIZE / 4)
	{
		/* a block of its own, after the newest, which still has room */
		block = block_new(size == BLOCK_SIZE ? size + ALIGNMENT : size);
		block->next = arena->blocks->next;
		arena->blocks->next = block;
	}
	else
	{
		block = block_new(BLOCK_SIZE);
		block->next = arena->blocks;
		arena->blocks = block;
	}
	block->used = size;
	return block + 1;
}

static inline void *
alloc_raw(struct sim_arena *arena, size_t size)
{
	struct block *block = arena->blocks;
	void	   *p;

	if (size > SIZE_MAX / 2)
		out_of_memory();
	size = (size + ALIGNMENT - 1) & ~(size_t) (ALIGNMENT - 1);
	if (block->size - block->used < size)
		return alloc_slow(arena, size);
	p = (char *) (block + 1) + block->used;
	block->used += size;
	return p;
}

void *
sim_alloc(struct sim_arena *arena, size_t size)
{
	return memset(alloc_raw(arena, size), 0, size);
}

char *
sim_strndup(struct sim_arena *arena, const char *s, size_t len)
{
	char	   *copy = alloc_raw(arena, len + 1);

	if (len > 0)
		memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *
sim_strdup(struct sim_arena *arena, const char *s)
{
	return sim_strndup(arena, s, strlen(s));
}

char *
sim_vfmt(struct sim_arena *arena, const char *fmt, va_list args)
{
	char		small[256];
	char	   *out;
	va_list		again;
	int			len;

	va_copy(again, args);
	len = vsnprintf(small, sizeof(small), fmt, args);
	if (len < 0)
		len = 0;
	out = alloc_raw(arena, (size_t) len + 1);
	if ((size_t) len < sizeof(small))
		memcpy(out, small, (size_t) len + 1);
	else
		vsnprintf(out, (size_t) len + 1, fmt, again);
	out[len] = '\0';
	va_end(again);
	return out;
}

char *
sim_fmt(struct sim_arena *arena, const char *fmt,...)
{
	va_list		args;
	char	   *out;

	va_start(args, fmt);
	out = sim_vfmt(arena, fmt, args);
	va_end(args);
	return out;
}

void
sim_buf_free(struct sim_buf *buf)
{
	free(buf->s);
	memset(buf, 0, sizeof(*buf));
}

void
sim_buf_reserve(struct sim_buf *buf, size_t more)
{
	size_t		need;
	size_t		cap = buf->cap > 0 ? buf->cap : 256;

	if (more > SIZE_MAX / 4 || buf->len > SIZE_MAX / 4)
		out_of_memory();
	need = buf->len + more + 1;
	if (need <= buf->cap)
		return;
	while (cap < need)
		cap *= 2;
	buf->s = sim_xrealloc(buf->s, cap);
	buf->cap = cap;
	buf->s[buf->len] = '\0';
}

void
sim_put(struct sim_buf *buf, const char *p, size_t len)
{
	if (buf->cap - buf->len <= len)
		sim_buf_reserve(buf, len);
	if (len > 0)
		memcpy(buf->s + buf->len, p, len);
	buf->len += len;
	buf->s[buf->len] = '\0';
}

void
sim_puts(struct sim_buf *buf, const char *s)
{
	sim_put(buf, s, strlen(s));
}

void
sim_putc(struct sim_buf *buf, char c)
{
	if (buf->cap - buf->len <= 1)
		sim_buf_reserve(buf, 1);
	buf->s[buf->len++] = c;
	buf->s[buf->len] = '\0';
}

void
sim_putf(struct sim_buf *buf, const char *fmt,...)
{
	va_list		args;
	int			len;

	sim_buf_reserve(buf, 128);
	va_start(args, fmt);
	len = vsnprintf(buf->s + buf->len, buf->cap - buf->len, fmt, args);
	va_end(args);
	if (len < 0)
		len = 0;
	if ((size_t) len >= buf->cap - buf->len)
	{
		sim_buf_reserve(buf, (size_t) len);
		va_start(args, fmt);
		vsnprintf(buf->s + buf->len, buf->cap - buf->len, fmt, args);
		va_end(args);
	}
	buf->len += (size_t) len;
}

void
sim_put_i64(struct sim_buf *buf, int64_t v)
{
	char		digits[24];
	char	   *p = digits + sizeof(digits);
	uint64_t	u = v < 0 ? 0 - (uint64_t) v : (uint64_t) v;

	do
	{
		*--p = (char) ('0' + u % 10);
		u /= 10;
	} while (u > 0);
	if (v < 0)
		*--p = '-';
	sim_put(buf, p, (size_t) (digits + sizeof(digits) - p));
}

/*
 * The escapes of characters that JSON cannot contain: 'u' stands for \u00xx,
 * any other letter for the short escape, 0 for a byte that passes.
 */
static const char json_escapes[128] = {
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
	['"'] = '"', ['\\'] = '\\'
};

#define ONES	0x0101010101010101ULL
#define HIGHS	0x8080808080808080ULL

/*
 * Returns true if eight bytes are ASCII without escapes.  May also return false for such bytes.
 */
static inline bool
word_passes(const char *p)
{
	uint64_t	w;
	uint64_t	quote;
	uint64_t	slash;

	memcpy(&w, p, sizeof(w));
	quote = w ^ (ONES * '"');
	slash = w ^ (ONES * '\\');
	return ((w | (w - ONES * 0x20) | ((quote - ONES) & ~quote) |
			 ((slash - ONES) & ~slash)) & HIGHS) == 0;
}

/* Length of the UTF-8 sequence beyond ASCII at p; 0 if it is broken. */
static size_t
utf8_length(const unsigned char *p, size_t left)
{
	size_t		n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	size_t		i;

	if (p[0] < 0xc2 || p[0] > 0xf4 || left < n)
		return 0;
	for (i = 1; i < n; i++)
	{
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* Returns how much of the text JSON can contain as it is. */
static size_t
json_run(const char *s, size_t len)
{
	size_t		i = 0;

	while (i < len)
	{
		unsigned char c = (unsigned char) s[i];
		size_t		n;

		if (len - i >= 8 && word_passes(s + i))
			i += 8;
		else if (c < 0x80 && json_escapes[c] == 0)
			i++;
		else if (c >= 0x80 && (n = utf8_length((const unsigned char *) s + i, len - i)) > 0)
			i += n;
		else
			break;
	}
	return i;
}

void
sim_put_json(struct sim_buf *buf, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";

	sim_buf_reserve(buf, len + 2);
	buf->s[buf->len++] = '"';
	for (;;)
	{
		size_t		run = json_run(s, len);
		unsigned char c;

		sim_put(buf, s, run);
		if (run == len)
			break;
		c = (unsigned char) s[run];
		s += run + 1;
		len -= run + 1;
		if (c >= 0x80)
			sim_puts(buf, "\xef\xbf\xbd");	/* U+FFFD for bytes that are not UTF-8 */
		else
		{
			char		escape[6] = {'\\', json_escapes[c], '0', '0', hex[c >> 4], hex[c & 15]};

			sim_put(buf, escape, escape[1] == 'u' ? 6 : 2);
		}
	}
	sim_putc(buf, '"');
}

void
sim_put_xml(struct sim_buf *buf, const char *s, size_t len)
{
	size_t		i;
	size_t		start = 0;

	for (i = 0; i < len; i++)
	{
		const char *entity = NULL;

		switch (s[i])
		{
			case '&':
				entity = "&amp;";
				break;
			case '<':
				entity = "&lt;";
				break;
			case '>':
				entity = "&gt;";
				break;
			case '"':
				entity = "&quot;";
				break;
			case '\'':
				entity = "&apos;";
				break;
		}
		if (entity == NULL)
			continue;
		sim_put(buf, s + start, i - start);
		sim_puts(buf, entity);
		start = i + 1;
	}
	sim_put(buf, s + start, len - start);
}

void
sim_put_url(struct sim_buf *buf, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t		i;

	sim_buf_reserve(buf, len * 3);
	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			c == '-' || c == '.' || c == '_' || c == '~')
			buf->s[buf->len++] = (char) c;
		else
		{
			buf->s[buf->len++] = '%';
			buf->s[buf->len++] = hex[c >> 4];
			buf->s[buf->len++] = hex[c & 15];
		}
	}
	buf->s[buf->len] = '\0';
}
