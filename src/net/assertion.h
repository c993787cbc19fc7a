/*-------------------------------------------------------------------------
 *
 * assertion.h
 *		The signed statement with which a certificate user asks for a token.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#ifndef DV_ASSERTION_H
#define DV_ASSERTION_H

#include <stdint.h>

/*
 * A JWT signed PS256 with the certificate's key, good for ten minutes.
 * "key" may be NULL (the certificate's file holds it too), "passphrase" NULL
 * or "" for a key that is not encrypted.  Malloc'd; NULL on failure, with the
 * reason in "error".  Raises nothing.
 */
extern char *dv_assertion_make(const char *certificate, const char *key, const char *passphrase,
							   const char *client_id, const char *audience, int64_t unix_now,
							   char *error, size_t error_size);

#endif							/* DV_ASSERTION_H */
