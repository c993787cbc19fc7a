/*
 * payload.h
 *		Values as the service's JSON, and as parts of addresses, has them.
 *
 * Each writer puts its text at "out", where there must be room for as much as
 * is said here, without a NUL behind it, and returns the end of what it wrote.
 * What dataverse/value.h reads, these write.
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

#define DV_PAYLOAD_INT 20		/* bytes at most */
#define DV_PAYLOAD_UUID 36
#define DV_PAYLOAD_TIMESTAMP 27
#define DV_PAYLOAD_DATE 10
#define DV_PAYLOAD_BASE64(len) (((len) + 2) / 3 * 4)
#define DV_PAYLOAD_KEY(len) (3 * (len) + 2)

/*
 * Bytes that the escapes of a text (UTF-8) add to it; then dv_payload_text()
 * takes len + extra bytes.  Without any the text is copied as it is.
 */
extern size_t dv_payload_extra(const char *text, size_t len);

/* The inside of a JSON string. */
extern char *dv_payload_text(char *out, const char *text, size_t len, size_t extra);

extern char *dv_payload_int(char *out, int64_t n);

/* From 16 bytes as pg_uuid_t has them. */
extern char *dv_payload_uuid(char *out, const uint8_t *id);

/*
 * From microseconds since 2000-01-01 00:00 UTC, as PostgreSQL's timestamps:
 * 2023-01-31T10:00:00Z, a fraction only if there is one.  NULL outside of
 * the years 1 to 9999.
 */
extern char *dv_payload_timestamp(char *out, int64_t t);

/* From days since 2000-01-01, as PostgreSQL's dates; NULL as above. */
extern char *dv_payload_date(char *out, int32_t d);

extern char *dv_payload_base64(char *out, const uint8_t *bytes, size_t len);

/* A text as a key in an address: 'O''Neil', percent-encoded. */
extern char *dv_payload_key(char *out, const char *text, size_t len);

#endif							/* DV_PAYLOAD_H */
