/*
 * payload.h
 *		Writes values as the service's JSON and as parts of addresses.
 *
 * Each function writes its text at "out", which must have room for the number
 * of bytes stated below, without a NUL after it, and returns the end of the
 * text.  dataverse/value.h reads what these functions write.
 *
 * Pure: needs neither PostgreSQL nor libcurl, allocates nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_PAYLOAD_H
#define DV_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DV_PAYLOAD_INT 20		/* maximum number of bytes */
#define DV_PAYLOAD_UUID 36
#define DV_PAYLOAD_TIMESTAMP 27
#define DV_PAYLOAD_DATE 10
#define DV_PAYLOAD_BASE64(len) (((len) + 2) / 3 * 4)
#define DV_PAYLOAD_KEY(len) (2 * (len) + 2)
#define DV_PAYLOAD_LINE(len) (3 * (len))
#define DV_PAYLOAD_FILTER(len) (9 * (len))

/*
 * Returns the number of bytes that escapes add to a text (UTF-8);
 * dv_payload_text() then writes len + extra bytes.  If it is 0, the text is
 * copied unchanged.
 */
extern size_t dv_payload_extra(const char *text, size_t len);

/* Writes the inside of a JSON string. */
extern char *dv_payload_text(char *out, const char *text, size_t len, size_t extra);

extern char *dv_payload_int(char *out, int64_t n);

/* From 16 bytes as pg_uuid_t has them. */
extern char *dv_payload_uuid(char *out, const uint8_t *id);

/*
 * From microseconds since 2000-01-01 00:00 UTC, like PostgreSQL's timestamps:
 * 2023-01-31T10:00:00Z, with a fraction only if it is not zero.  Returns NULL
 * outside of the years 1 to 9999.
 */
extern char *dv_payload_timestamp(char *out, int64_t t);

/* From days since 2000-01-01, like PostgreSQL's dates; NULL as above. */
extern char *dv_payload_date(char *out, int32_t d);

extern char *dv_payload_base64(char *out, const uint8_t *bytes, size_t len);

/* Writes a text as the value of an alternate key: 'O''Neil'. */
extern char *dv_payload_key(char *out, const char *text, size_t len);

/*
 * An address by key is "accounts(accountnumber='O''Neil',number=4)".  In this
 * form it is a reference in a body, once it is the inside of a JSON string.  In
 * a request line, it is percent-encoded.  (README.md, Alternate keys.)
 */
typedef enum dv_key_fit
{
	DV_KEY_FITS,				/* in bodies and in request lines */
	DV_KEY_FITS_BODIES,
	DV_KEY_FITS_NOWHERE			/* the row must be found by a filter, and be addressed by its id */
} dv_key_fit;

extern dv_key_fit dv_payload_key_fit(const char *address, size_t len);

/* Writes an address by key as it is in a request line. */
extern char *dv_payload_line(char *out, const char *address, size_t len);

/* Writes the value of $filter that finds the row of an address by key, percent-encoded. */
extern char *dv_payload_filter(char *out, const char *address, size_t len);

#endif							/* DV_PAYLOAD_H */
