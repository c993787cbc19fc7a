/*
 * assertion.h
 *		The signed statement with which a user that has a certificate
 *		requests a token.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ASSERTION_H
#define DV_ASSERTION_H

#include <stdint.h>

/*
 * Returns a JWT that is signed (PS256) with the certificate's key and valid
 * for ten minutes.  "key" is NULL if the certificate's file contains the key,
 * too; "passphrase" is NULL or "" if the key is not encrypted.  The result is
 * allocated with malloc.  On failure, the result is NULL, and "error" has the
 * reason.  Raises no error.
 */
extern char *dv_assertion_make(const char *certificate, const char *key, const char *passphrase,
							   const char *client_id, const char *audience, int64_t unix_now,
							   char *error, size_t error_size);

#endif							/* DV_ASSERTION_H */
