/*
 * inflate_test.c
 *		Compressed bodies: what comes out, and what is refused.
 *
 * Bodies are made of stored blocks, fixed Huffman codes, and repetitions, so that no
 * library has to compress them.  Without libdeflate, nothing is decompressed here.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/inbox.h"
#include "net/inflate.h"

#define MEGABYTE ((size_t) 1024 * 1024)

static dv_inbox_store store;
static dv_inbox inbox;

/* Compressed data. */
static unsigned char *made;
static size_t made_len;
static size_t made_room;
static uint32_t bits;
static int	nbits;

static int
setup(void **state)
{
	(void) state;
	memset(&inbox, 0, sizeof(inbox));
	memset(&store, 0, sizeof(store));
	store.room = 256 * MEGABYTE;
	inbox.store = &store;
	inbox.max_body = 100 * MEGABYTE;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	dv_inbox_free(&inbox);
	assert_int_equal(store.taken, 0);
	free(store.spare);
	free(made);
	made = NULL;
	made_len = made_room = 0;
	return 0;
}

static void
put_byte(unsigned byte)
{
	if (made_len == made_room)
	{
		made_room = made_room * 2 + 64;
		made = realloc(made, made_room);
	}
	made[made_len++] = (unsigned char) byte;
}

static void
put_four(uint32_t n)
{
	int			i;

	for (i = 0; i < 4; i++)
		put_byte(n >> 8 * i & 255);
}

static void
put_bits(uint32_t value, int n)
{
	bits |= value << nbits;
	for (nbits += n; nbits >= 8; nbits -= 8, bits >>= 8)
		put_byte(bits & 255);
}

/* Puts a Huffman code, whose first bit is the most significant one. */
static void
put_code(uint32_t code, int n)
{
	while (n-- > 0)
		put_bits(code >> n & 1, 1);
}

static uint32_t
crc_of(const char *data, size_t len)
{
	uint32_t	crc = 0xffffffff;
	int			i;

	for (; len > 0; data++, len--)
	{
		crc ^= (unsigned char) *data;
		for (i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void
begin(void)
{
	static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
	size_t		i;

	for (i = 0; i < sizeof(head); i++)
		put_byte(head[i]);
}

/* Makes gzip of one stored block. */
static void
store_data(const char *data, size_t len)
{
	size_t		i;

	begin();
	put_byte(1);
	put_byte(len & 255);
	put_byte(len >> 8);
	put_byte(~len & 255);
	put_byte(~len >> 8 & 255);
	for (i = 0; i < len; i++)
		put_byte((unsigned char) data[i]);
	put_four(crc_of(data, len));
	put_four((uint32_t) len);
}

/* Makes gzip of blanks, 258 for each nine bits; returns their number. */
static size_t
swell(size_t repetitions)
{
	size_t		len = 1 + repetitions * 258;
	char	   *blanks = malloc(len);
	size_t		i;

	begin();
	put_bits(1, 1);				/* the last block */
	put_bits(1, 2);				/* with fixed codes */
	put_code(0x30 + ' ', 8);
	for (i = 0; i < repetitions; i++)
	{
		put_code(0xc0 + 285 - 280, 8);	/* 258 bytes */
		put_code(0, 5);			/* from one byte back */
	}
	put_code(0, 7);
	put_bits(0, 7);
	bits = 0;
	nbits = 0;
	memset(blanks, ' ', len);
	put_four(crc_of(blanks, len));
	put_four((uint32_t) len);
	free(blanks);
	return len;
}

/* The answer arrives, in pieces. */
static dv_inbox_result
receive(const char *status)
{
	static const char *const head[] = {"Content-Encoding: gzip\r\n", "\r\n"};
	size_t		most = inbox.max_body;
	size_t		done;
	size_t		i;

	dv_inbox_free(&inbox);
	inbox.max_body = most;
	assert_int_equal(dv_inbox_add_line(&inbox, status, strlen(status)), DV_INBOX_TAKEN);
	for (i = 0; i < 2; i++)
		assert_int_equal(dv_inbox_add_line(&inbox, head[i], strlen(head[i])), DV_INBOX_TAKEN);
	for (done = 0; done < made_len; done += i)
	{
		/* an exact copy, so that the sanitizer detects reads beyond it */
		char	   *piece = malloc(i = made_len - done < 1000 ? made_len - done : 1000);
		dv_inbox_result result;

		memcpy(piece, made + done, i);
		result = dv_inbox_add_body(&inbox, piece, i);
		free(piece);
		if (result != DV_INBOX_TAKEN)
			return result;
	}
	return dv_inbox_inflate(&inbox);
}

#define OK "HTTP/1.1 200 OK\r\n"

static void
a_body_is_decompressed(void **state)
{
	(void) state;
	store_data("{\"value\": 1}", 12);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_string_equal(inbox.body, "{\"value\": 1}");
	assert_int_equal(inbox.body_len, 12);
	assert_int_equal(store.taken, inbox.body_room);

	made_len = 0;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, 0);

	store_data("", 0);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, 0);
	assert_string_equal(inbox.body, "");
}

static void
a_body_that_is_not_compressed_is_left_alone(void **state)
{
	(void) state;
	assert_int_equal(dv_inbox_add_line(&inbox, OK, strlen(OK)), DV_INBOX_TAKEN);
	store_data("x", 1);
	assert_int_equal(dv_inbox_add_body(&inbox, (const char *) made, made_len), DV_INBOX_TAKEN);
	assert_int_equal(dv_inbox_inflate(&inbox), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, made_len);
	assert_memory_equal(inbox.body, made, made_len);
}

/* A body that is cut short anywhere, one with another checksum or length, and one that is followed by something else. */
static void
a_broken_body_is_refused(void **state)
{
	size_t		whole;
	size_t		i;

	(void) state;
	swell(10);
	whole = made_len;
	for (made_len = 1; made_len < whole; made_len++)
		assert_int_equal(receive(OK), DV_INBOX_BROKEN);
	for (i = whole - 8; i < whole; i++)
	{
		made[i] ^= 0x40;
		assert_int_equal(receive(OK), DV_INBOX_BROKEN);
		made[i] ^= 0x40;
	}
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	put_byte(0);
	assert_int_equal(receive(OK), DV_INBOX_BROKEN);
	assert_int_equal(store.taken, inbox.body_room);
}

/* One member after the other, of which the last one says how long it is itself. */
static void
members_are_put_together(void **state)
{
	size_t		first;
	size_t		whole;

	(void) state;
	store_data("{\"value\":", 9);
	store_data("", 0);
	store_data(" 1}", 3);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_string_equal(inbox.body, "{\"value\": 1}");
	assert_int_equal(inbox.body_len, 12);
	inbox.max_body = 12;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	inbox.max_body = 11;
	assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);

	/* each of them has to be whole */
	inbox.max_body = 100 * MEGABYTE;
	made_len = 0;
	assert_int_equal(swell(1000) + swell(10), 260582);
	whole = made_len;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, 260582);
	made_len = 0;
	swell(1000);
	first = made_len;
	for (made_len = first + 1; made_len < whole; made_len++)
		assert_int_equal(receive(OK), DV_INBOX_BROKEN);
	made[first - 1] ^= 0x40;
	assert_int_equal(receive(OK), DV_INBOX_BROKEN);
	assert_int_equal(store.taken, inbox.body_room);
}

/* Two bits stand for 258 bytes at most, so no more than that is allocated for a lie. */
static void
claims_end_where_compression_does(void **state)
{
	size_t		len = swell(10);

	(void) state;
	assert_int_equal(dv_inflate_claim((const char *) made, made_len), len);
	made_len -= 4;
	put_four((uint32_t) made_len * 1032 + 4 * 1032);
	assert_int_equal(dv_inflate_claim((const char *) made, made_len), made_len * 1032);
	made_len -= 4;
	put_four(UINT32_MAX);
	assert_int_equal(dv_inflate_claim((const char *) made, made_len), made_len * 1032);
	assert_int_equal(dv_inflate_claim((const char *) made, 3), 0);
}

/* What the end says about the length is neither believed nor allocated beyond the limit. */
static void
lies_about_the_length_are_refused(void **state)
{
	static const uint32_t claims[] = {0, 1, 2580, 2582, 100 << 20, UINT32_MAX - 1, UINT32_MAX};
	size_t		i;

	(void) state;
	assert_int_equal(swell(10), 2581);
	for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++)
	{
		made_len -= 4;
		put_four(claims[i]);
		assert_int_equal(receive(OK), DV_INBOX_BROKEN);
	}
	inbox.max_body = 1000;
	for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++)
	{
		made_len -= 4;
		put_four(claims[i]);
		assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);
	}
}

static void
a_body_grows_up_to_its_limit(void **state)
{
	size_t		len = swell(20000);

	(void) state;
	assert_in_range(len, 4 * MEGABYTE, 6 * MEGABYTE);
	inbox.max_body = len;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, len);
	assert_int_equal(inbox.body_room, len + 1);
	inbox.max_body = len - 1;
	assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);

	/* also if the buffer that is kept would be larger, and if the answer is an error */
	inbox.max_body = 100 * MEGABYTE;
	assert_int_equal(receive("HTTP/1.1 400 Bad Request\r\n"), DV_INBOX_TAKEN);
	made_len = 0;
	swell(40000);
	assert_int_equal(receive("HTTP/1.1 400 Bad Request\r\n"), DV_INBOX_TOO_LARGE);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	inbox.max_body = len - 1;
	assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);
}

/* The limit is one for data that come out, not for those that go in. */
static void
data_that_cannot_be_compressed_have_the_same_limit(void **state)
{
	static char data[60000];
	size_t		i;

	(void) state;
	store_data(data, sizeof(data));
	inbox.max_body = sizeof(data);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_int_equal(inbox.body_len, sizeof(data));
	inbox.max_body--;
	assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);

	/* nor can it be evaded by blocks of which nothing comes out */
	made_len = 0;
	begin();
	for (i = 0; i < 100000; i++)
	{
		put_byte(0);
		put_four(0xffff0000);
	}
	assert_int_equal(receive(OK), DV_INBOX_TOO_LARGE);
}

/* Bodies share the store when they have been decompressed, too; a small one always has room. */
static void
bodies_share_a_store(void **state)
{
	size_t		len = swell(20000);
	dv_inbox	other = {.store = &store, .max_body = 100 * MEGABYTE};

	(void) state;
	store.room = 2 * len;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	other = inbox;
	memset(&inbox, 0, sizeof(inbox));
	inbox.store = &store;
	inbox.max_body = 100 * MEGABYTE;
	assert_int_equal(receive(OK), DV_INBOX_STORE_FULL);
	made_len = 0;
	assert_int_equal(swell(60), 15481);
	store.room = 0;
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	made_len = 0;
	swell(70);
	assert_int_equal(receive(OK), DV_INBOX_STORE_FULL);
	dv_inbox_free(&other);
}

/* One buffer is kept for bodies of similar length. */
static void
a_buffer_is_used_again(void **state)
{
	const char *body;

	(void) state;
	swell(1000);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	body = inbox.body;
	made_len = 0;
	swell(1010);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_ptr_equal(inbox.body, body);
	assert_int_equal(store.taken, inbox.body_room);
	made_len = 0;
	swell(10);
	assert_int_equal(receive(OK), DV_INBOX_TAKEN);
	assert_ptr_equal(store.spare, body);
	assert_true(inbox.body_room < 10000);
}

static int
skip_all(void **state)
{
	(void) state;
	return dv_inflates ? 0 : -1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_body_is_decompressed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_body_that_is_not_compressed_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_broken_body_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(members_are_put_together, setup, teardown),
		cmocka_unit_test_setup_teardown(lies_about_the_length_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(claims_end_where_compression_does, setup, teardown),
		cmocka_unit_test_setup_teardown(a_body_grows_up_to_its_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(data_that_cannot_be_compressed_have_the_same_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(bodies_share_a_store, setup, teardown),
		cmocka_unit_test_setup_teardown(a_buffer_is_used_again, setup, teardown),
	};

	return cmocka_run_group_tests_name("inflate", tests, skip_all, NULL);
}
