/*
 * payload.c
 *		Writes values as the service's JSON and as parts of addresses.
 *
 * Most values are texts, and hardly any text contains a character that needs
 * an escape.  So texts are searched eight bytes at a time, and copied as a
 * whole.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/payload.h"
#include "net/clock.h"
#include "net/hex.h"
#include "net/url.h"

#define DAY (86400 * DV_SECOND)
#define DAYS_TO_2000 10957		/* from 1970-01-01 */
#define FIRST_DAY (-719162)		/* 0001-01-01 and 9999-12-31 from 1970-01-01 */
#define LAST_DAY 2932896

/* Characters that the values of keys cannot have, and the length of a segment of a path. */
#define KEY_RESERVED "/<>*%&:\\?+#"
#define SEGMENT_MAX 260

#define ONES UINT64_C(0x0101010101010101)
#define HIGH UINT64_C(0x8080808080808080)

/* ----------
 * Texts
 * ----------
 */

/* Nonzero if one of eight bytes is a control character, a quote, or a backslash. */
static inline uint64_t
special(uint64_t word)
{
	uint64_t	quote = word ^ ONES * '"';
	uint64_t	backslash = word ^ ONES * '\\';

	/*
	 * In each term, the high bit of a byte is set if the byte was too small; only such bytes
	 * cause borrows.
	 */
	return ((word - ONES * 0x20) | (quote - ONES) | (backslash - ONES)) & ~word & HIGH;
}

/*
 * Returns the character after the backslash ('u': four digits follow); 0 if no escape is needed.
 */
static inline char
escape_of(unsigned char c)
{
	static const char controls[32] = {
		'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
		'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u'
	};

	if (c < 0x20)
		return controls[c];
	return c == '"' || c == '\\' ? (char) c : '\0';
}

static inline size_t
extra_of(const char *text, size_t len)
{
	size_t		extra = 0;
	size_t		i;

	for (i = 0; i < len; i++)
	{
		char		escape = escape_of((unsigned char) text[i]);

		extra += escape == '\0' ? 0 : escape == 'u' ? 5 : 1;
	}
	return extra;
}

size_t
dv_payload_extra(const char *text, size_t len)
{
	size_t		extra = 0;
	uint64_t	word;

	for (; len >= 8; text += 8, len -= 8)
	{
		memcpy(&word, text, 8);
		if (special(word) != 0)
			extra += extra_of(text, 8);
	}
	return extra + extra_of(text, len);
}

char *
dv_payload_text(char *out, const char *text, size_t len, size_t extra)
{
	size_t		i;

	if (extra == 0)
	{
		memcpy(out, text, len);
		return out + len;
	}
	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) text[i];
		char		escape = escape_of(c);

		if (escape == '\0')
		{
			*out++ = (char) c;
			continue;
		}
		*out++ = '\\';
		*out++ = escape;
		if (escape == 'u')
		{
			*out++ = '0';
			*out++ = '0';
			out = dv_hex_put(out, &c, 1);
		}
	}
	return out;
}

char *
dv_payload_key(char *out, const char *text, size_t len)
{
	size_t		i;

	*out++ = '\'';
	for (i = 0; i < len; i++)
	{
		if (text[i] == '\'')
			*out++ = '\'';
		*out++ = text[i];
	}
	*out++ = '\'';
	return out;
}

char *
dv_payload_line(char *out, const char *address, size_t len)
{
	bool		quoted = false;
	size_t		i;

	for (i = 0; i < len; i++)
	{
		char		c = address[i];

		/* a quote inside a text is doubled, so it ends the text and begins it again */
		quoted ^= c == '\'';
		if (c == '\'' || (!quoted && (c == '(' || c == ')' || c == ',' || c == '=')))
			*out++ = c;
		else
			out = dv_url_put(out, c);
	}
	return out;
}

static inline char *
put_word(char *out, const char *word)
{
	size_t		len = strlen(word);

	memcpy(out, word, len);
	return out + len;
}

char *
dv_payload_filter(char *out, const char *address, size_t len)
{
	const char *end = address + len - 1;	/* the closing parenthesis */
	const char *p = memchr(address, '(', len);
	bool		quoted = false;

	for (p = p != NULL ? p + 1 : end; p < end; p++)
	{
		quoted ^= *p == '\'';
		if (*p == '\'')
			*out++ = '\'';
		else if (!quoted && *p == '=')
			out = put_word(out, "%20eq%20");
		else if (!quoted && *p == ',')
			out = put_word(out, "%20and%20");
		else
			out = dv_url_put(out, *p);
	}
	return out;
}

dv_key_fit
dv_payload_key_fit(const char *address, size_t len)
{
	size_t		encoded = 0;
	bool		controls = false;
	size_t		i;

	for (i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) address[i];
		char		out[3];

		if (memchr(KEY_RESERVED, c, sizeof(KEY_RESERVED) - 1) != NULL)
			return DV_KEY_FITS_NOWHERE;
		controls |= c < 0x20 || c == 0x7f;
		encoded += (size_t) (dv_url_put(out, (char) c) - out);
	}
	return controls || encoded > SEGMENT_MAX ? DV_KEY_FITS_BODIES : DV_KEY_FITS;
}

/* ----------
 * Numbers, ids, and bytes
 * ----------
 */

static const char pairs[] =
"00010203040506070809101112131415161718192021222324"
"25262728293031323334353637383940414243444546474849"
"50515253545556575859606162636465666768697071727374"
"75767778798081828384858687888990919293949596979899";

static inline char *
put_two(char *out, uint32_t n)
{
	memcpy(out, &pairs[2 * n], 2);
	return out + 2;
}

char *
dv_payload_int(char *out, int64_t n)
{
	char		buffer[DV_PAYLOAD_INT];
	char	   *p = buffer + sizeof(buffer);
	uint64_t	rest = n < 0 ? 0 - (uint64_t) n : (uint64_t) n;
	size_t		len;

	while (rest >= 100)
	{
		put_two(p -= 2, (uint32_t) (rest % 100));
		rest /= 100;
	}
	if (rest >= 10)
		put_two(p -= 2, (uint32_t) rest);
	else
		*--p = (char) ('0' + rest);
	if (n < 0)
		*--p = '-';
	len = (size_t) (buffer + sizeof(buffer) - p);
	memcpy(out, p, len);
	return out + len;
}

char *
dv_payload_uuid(char *out, const uint8_t *id)
{
	out = dv_hex_put(out, id, 4);
	*out++ = '-';
	out = dv_hex_put(out, id + 4, 2);
	*out++ = '-';
	out = dv_hex_put(out, id + 6, 2);
	*out++ = '-';
	out = dv_hex_put(out, id + 8, 2);
	*out++ = '-';
	return dv_hex_put(out, id + 10, 6);
}

char *
dv_payload_base64(char *out, const uint8_t *bytes, size_t len)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t		i;

	for (i = 0; i + 3 <= len; i += 3)
	{
		uint32_t	three = (uint32_t) bytes[i] << 16 | (uint32_t) bytes[i + 1] << 8 | bytes[i + 2];

		*out++ = letters[three >> 18];
		*out++ = letters[three >> 12 & 63];
		*out++ = letters[three >> 6 & 63];
		*out++ = letters[three & 63];
	}
	if (i < len)
	{
		uint32_t	rest = (uint32_t) bytes[i] << 16 | (i + 1 < len ? (uint32_t) bytes[i + 1] << 8 : 0);

		*out++ = letters[rest >> 18];
		*out++ = letters[rest >> 12 & 63];
		*out++ = i + 1 < len ? letters[rest >> 6 & 63] : '=';
		*out++ = '=';
	}
	return out;
}

/* ----------
 * Times
 * ----------
 */

/* Writes days since 1970-01-01.  Years that begin in March end with the leap day. */
static char *
put_day(char *out, int32_t day)
{
	uint32_t	shifted;
	uint32_t	era;
	uint32_t	of_era;
	uint32_t	year_of_era;
	uint32_t	of_year;
	uint32_t	from_march;
	uint32_t	month;
	uint32_t	year;

	if (day < FIRST_DAY || day > LAST_DAY)
		return NULL;
	shifted = (uint32_t) (day + 719468);
	era = shifted / 146097;
	of_era = shifted % 146097;
	year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	from_march = (5 * of_year + 2) / 153;
	month = from_march < 10 ? from_march + 3 : from_march - 9;
	year = era * 400 + year_of_era + (month <= 2);
	out = put_two(out, year / 100);
	out = put_two(out, year % 100);
	*out++ = '-';
	out = put_two(out, month);
	*out++ = '-';
	return put_two(out, of_year - (153 * from_march + 2) / 5 + 1);
}

char *
dv_payload_date(char *out, int32_t d)
{
	/* infinity must not wrap around */
	return d > LAST_DAY ? NULL : put_day(out, d + DAYS_TO_2000);
}

char *
dv_payload_timestamp(char *out, int64_t t)
{
	int64_t		day = t / DAY;
	int64_t		rest = t % DAY;
	uint32_t	second;
	uint32_t	fraction;

	if (rest < 0)
	{
		day--;
		rest += DAY;
	}
	second = (uint32_t) (rest / DV_SECOND);
	fraction = (uint32_t) (rest % DV_SECOND);
	out = put_day(out, (int32_t) day + DAYS_TO_2000);
	if (out == NULL)
		return NULL;
	*out++ = 'T';
	out = put_two(out, second / 3600);
	*out++ = ':';
	out = put_two(out, second / 60 % 60);
	*out++ = ':';
	out = put_two(out, second % 60);
	if (fraction != 0)
	{
		*out++ = '.';
		out = put_two(out, fraction / 10000);
		out = put_two(out, fraction / 100 % 100);
		out = put_two(out, fraction % 100);
		while (out[-1] == '0')
			out--;
	}
	*out++ = 'Z';
	return out;
}
