/*
 * assertion.c
 *		Client assertions (RFC 7523) signed with a certificate's key.
 *
 * This is plain C on top of OpenSSL.  It does not use PostgreSQL, so nothing
 * can raise an error while OpenSSL's objects are allocated.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include "net/assertion.h"
#include "net/hex.h"

/* Entra recommends five to ten minutes, in which the slack is included. */
#define LIFETIME	600
#define CLOCK_SLACK 60			/* our clock may be ahead */

static void
say(char *error, size_t size, const char *what, const char *file)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

	snprintf(error, size, "%s \"%s\": %s", what, file, reason != NULL ? reason : "not readable");
	ERR_clear_error();
}

/* Encodes as base64url without padding.  The result is allocated with malloc. */
static char *
base64url(const unsigned char *data, size_t len)
{
	char	   *out = malloc(4 * ((len + 2) / 3) + 1);
	char	   *p;

	if (out == NULL)
		return NULL;
	EVP_EncodeBlock((unsigned char *) out, data, (int) len);
	for (p = out; *p != '\0'; p++)
	{
		if (*p == '+')
			*p = '-';
		else if (*p == '/')
			*p = '_';
		else if (*p == '=')
		{
			*p = '\0';
			break;
		}
	}
	return out;
}

static X509 *
read_certificate(const char *file, char *error, size_t error_size)
{
	BIO		   *bio = BIO_new_file(file, "r");
	X509	   *certificate = NULL;

	if (bio != NULL)
		certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	if (certificate == NULL)
		say(error, error_size, "could not read certificate file", file);
	BIO_free(bio);
	return certificate;
}

/* Prevents OpenSSL from prompting at a terminal, which the server does not have. */
static int
give_passphrase(char *buffer, int size, int for_writing, void *passphrase)
{
	int			len = passphrase != NULL ? (int) strlen(passphrase) : 0;

	(void) for_writing;
	if (len > size)
		return -1;
	memcpy(buffer, passphrase != NULL ? passphrase : "", len);
	return len;
}

static EVP_PKEY *
read_key(const char *file, const char *passphrase, char *error, size_t error_size)
{
	BIO		   *bio = BIO_new_file(file, "r");
	EVP_PKEY   *key = NULL;

	if (bio != NULL)
		key = PEM_read_bio_PrivateKey(bio, NULL, give_passphrase, (void *) passphrase);
	if (key == NULL)
		say(error, error_size, "could not read private key file", file);
	BIO_free(bio);
	return key;
}

/*
 * Signs with RSASSA-PSS, SHA-256, MGF1 with SHA-256, and a salt of 32 bytes.
 * The result is allocated with malloc.
 */
static unsigned char *
sign(EVP_PKEY *key, const char *text, size_t *len)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *key_context;
	unsigned char *signature = NULL;

	if (context != NULL &&
		EVP_DigestSignInit(context, &key_context, EVP_sha256(), NULL, key) == 1 &&
		EVP_PKEY_CTX_set_rsa_padding(key_context, RSA_PKCS1_PSS_PADDING) == 1 &&
		EVP_PKEY_CTX_set_rsa_pss_saltlen(key_context, 32) == 1 &&
		EVP_PKEY_CTX_set_rsa_mgf1_md(key_context, EVP_sha256()) == 1 &&
		EVP_DigestSign(context, NULL, len, (const unsigned char *) text, strlen(text)) == 1 &&
		(signature = malloc(*len)) != NULL &&
		EVP_DigestSign(context, signature, len, (const unsigned char *) text, strlen(text)) != 1)
	{
		free(signature);
		signature = NULL;
	}
	EVP_MD_CTX_free(context);
	return signature;
}

/* Returns true if the text can be put into JSON as it is, like client ids and URLs. */
static bool
is_plain(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s == '"' || *s == '\\' || (unsigned char) *s < ' ')
			return false;
	return true;
}

/* Returns "header.claims", allocated with malloc. */
static char *
signing_input(X509 *certificate, const char *client_id, const char *audience, int64_t now)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned char id[16];
	unsigned int digest_len;
	char		jti[33];
	char		text[2048];
	char	   *thumbprint = NULL;
	char	   *header = NULL;
	char	   *claims = NULL;
	char	   *input = NULL;
	int			len;

	if (X509_digest(certificate, EVP_sha256(), digest, &digest_len) != 1 ||
		RAND_bytes(id, sizeof(id)) != 1 ||
		(thumbprint = base64url(digest, digest_len)) == NULL)
		return NULL;
	*dv_hex_put(jti, id, sizeof(id)) = '\0';

	len = snprintf(text, sizeof(text),
				   "{\"alg\":\"PS256\",\"typ\":\"JWT\",\"x5t#S256\":\"%s\"}", thumbprint);
	header = base64url((unsigned char *) text, len);
	len = snprintf(text, sizeof(text),
				   "{\"aud\":\"%s\",\"iss\":\"%s\",\"sub\":\"%s\",\"jti\":\"%s\","
				   "\"nbf\":%lld,\"iat\":%lld,\"exp\":%lld}",
				   audience, client_id, client_id, jti, (long long) now - CLOCK_SLACK,
				   (long long) now, (long long) now - CLOCK_SLACK + LIFETIME);
	if (len > 0 && (size_t) len < sizeof(text))
		claims = base64url((unsigned char *) text, len);
	if (header != NULL && claims != NULL &&
		(input = malloc(strlen(header) + strlen(claims) + 2)) != NULL)
		sprintf(input, "%s.%s", header, claims);
	free(thumbprint);
	free(header);
	free(claims);
	return input;
}

/* Adds the signature, and frees the input. */
static char *
signed_text(EVP_PKEY *key, char *input)
{
	size_t		len = 0;
	unsigned char *signature = sign(key, input, &len);
	char	   *encoded = signature != NULL ? base64url(signature, len) : NULL;
	char	   *result = NULL;

	if (encoded != NULL && (result = malloc(strlen(input) + strlen(encoded) + 2)) != NULL)
		sprintf(result, "%s.%s", input, encoded);
	free(signature);
	free(encoded);
	free(input);
	return result;
}

char *
dv_assertion_make(const char *certificate, const char *key, const char *passphrase,
				  const char *client_id, const char *audience, int64_t unix_now,
				  char *error, size_t error_size)
{
	X509	   *cert;
	EVP_PKEY   *pkey = NULL;
	char	   *input = NULL;
	char	   *result = NULL;

	if (!is_plain(client_id) || !is_plain(audience))
	{
		snprintf(error, error_size, "client id or token URL contains characters that are not allowed");
		return NULL;
	}
	cert = read_certificate(certificate, error, error_size);
	if (cert == NULL)
		return NULL;
	pkey = read_key(key != NULL ? key : certificate, passphrase, error, error_size);
	if (pkey != NULL)
	{
		if (X509_check_private_key(cert, pkey) != 1)
			snprintf(error, error_size, "the private key does not belong to certificate \"%s\"",
					 certificate);
		else if ((input = signing_input(cert, client_id, audience, unix_now)) == NULL ||
				 (result = signed_text(pkey, input)) == NULL)
			snprintf(error, error_size, "could not sign with the key of certificate \"%s\"; it must be an RSA key",
					 certificate);
	}
	ERR_clear_error();
	EVP_PKEY_free(pkey);
	X509_free(cert);
	return result;
}
