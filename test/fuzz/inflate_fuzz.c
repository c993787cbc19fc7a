/*
 * inflate_fuzz.c
 *		Arbitrary bytes as a compressed body.
 *
 * The first line is the limit of the body, and the second one the room that is left
 * for the bodies of all answers; the rest is the body, in hexadecimal digits, so that
 * seeds are text.  What comes out never exceeds the limit, is counted, and ends with
 * a NUL; if nothing comes out, nothing is allocated for it; and the same body gives
 * the same result when buffers are used again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/inbox.h"

#define MOST_LIMIT ((size_t) 16 * 1024 * 1024)

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
__attribute__((noreturn))
wrong(const char *what)
{
	fprintf(stderr, "inflate_fuzz: %s\n", what);
	abort();
}

/* The number at the beginning of the next line. */
static size_t
take_number(const uint8_t **at, const uint8_t *end)
{
	size_t		n = 0;

	for (; *at < end && **at != '\n'; (*at)++)
		if (**at >= '0' && **at <= '9' && n < MOST_LIMIT)
			n = n * 10 + **at - '0';
	if (*at < end)
		(*at)++;
	return n < MOST_LIMIT ? n : MOST_LIMIT;
}

static int
digit_of(uint8_t c)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit = c != '\0' ? strchr(digits, c) : NULL;

	return digit != NULL ? (int) (digit - digits) : -1;
}

/* Turns digits into bytes, and ignores everything else; returns their number. */
static size_t
read_digits(const uint8_t *at, const uint8_t *end, char *bytes)
{
	size_t		n = 0;

	for (; at < end; at++)
		if (digit_of(*at) >= 0)
		{
			if (n % 2 == 0)
				bytes[n / 2] = 0;
			bytes[n / 2] |= (char) (digit_of(*at) << (n % 2 == 0 ? 4 : 0));
			n++;
		}
	return n / 2;
}

static dv_inbox_result
receive(dv_inbox *inbox, const char *bytes, size_t len)
{
	static const char *const head[] = {"HTTP/1.1 200 OK\r\n", "Content-Encoding: gzip\r\n", "\r\n"};
	dv_inbox_result result;
	size_t		i;

	for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		if (dv_inbox_add_line(inbox, head[i], strlen(head[i])) != DV_INBOX_TAKEN)
			wrong("a header is refused");
	for (i = 0; i < len; i += 100)
	{
		result = dv_inbox_add_body(inbox, bytes + i, len - i < 100 ? len - i : 100);
		if (result != DV_INBOX_TAKEN)
			return result;
	}
	return dv_inbox_inflate(inbox);
}

static void
check(const dv_inbox *inbox, dv_inbox_result result)
{
	if (inbox->store->taken != inbox->body_room)
		wrong("the store has lost count");
	if (result == DV_INBOX_ENCODED || result == DV_INBOX_NO_MEMORY)
		wrong("no such refusal");
	if (result != DV_INBOX_TAKEN || inbox->body == NULL)
		return;
	if (inbox->body_len > inbox->max_body || inbox->body_len >= inbox->body_room)
		wrong("a body beyond its limit");
	if (inbox->body_room > inbox->store->room && inbox->body_room > DV_INBOX_SMALL)
		wrong("a body beyond the store");
	if (inbox->body[inbox->body_len] != '\0')
		wrong("a body without an end");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data;
	const uint8_t *end = data + size;
	size_t		max = take_number(&at, end);
	dv_inbox_store store = {.room = take_number(&at, end)};
	dv_inbox	first = {.store = &store, .max_body = max};
	dv_inbox	second = first;
	char	   *bytes = malloc(size + 1);
	size_t		len = read_digits(at, end, bytes);
	dv_inbox_result results[2];
	size_t		first_len;

	results[0] = receive(&first, bytes, len);
	check(&first, results[0]);
	first_len = first.body_len;
	dv_inbox_free(&first);
	if (store.taken != 0)
		wrong("a body leaves something behind");
	results[1] = receive(&second, bytes, len);
	check(&second, results[1]);
	if (results[1] != results[0] || second.body_len != first_len)
		wrong("another result the second time");
	dv_inbox_free(&second);
	free(store.spare);
	free(bytes);
	return 0;
}
