/*
 * assertion.c
 *		Checks client assertions as Microsoft Entra does.
 *
 * Two forms are known: PS256 with the certificate's SHA-256 thumbprint in
 * x5t#S256, and RS256 with its SHA-1 thumbprint in x5t.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "wire/assertion.h"

#define CLOCK_TOLERANCE 300
#define MAX_ASSERTION 16384

struct sim_credential
{
	EVP_PKEY   *key;
	char		sha1[64];		/* thumbprints, base64url */
	char		sha256[64];
};

struct jwt
{
	struct json_object *header;
	struct json_object *claims;
	unsigned char *signature;
	size_t		signature_len;
	size_t		signed_len;		/* "header.claims" */
};

static const char base64url[] =
"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void
base64url_encode(const unsigned char *in, size_t len, char *out)
{
	uint32_t	bits = 0;
	int			nbits = 0;

	for (size_t i = 0; i < len; i++)
	{
		bits = bits << 8 | in[i];
		for (nbits += 8; nbits >= 6; nbits -= 6)
			*out++ = base64url[bits >> (nbits - 6) & 63];
	}
	if (nbits > 0)
		*out++ = base64url[bits << (6 - nbits) & 63];
	*out = '\0';
}

/* decodes into the arena, NUL-terminated; NULL if there are other characters */
static unsigned char *
base64url_decode(struct sim_arena *arena, const char *in, size_t len, size_t *out_len)
{
	unsigned char *out = sim_alloc(arena, len + 1);
	uint32_t	bits = 0;
	int			nbits = 0;

	*out_len = 0;
	for (size_t i = 0; i < len; i++)
	{
		const char *digit = in[i] ? strchr(base64url, in[i]) : NULL;

		if (digit == NULL)
			return NULL;
		bits = bits << 6 | (uint32_t) (digit - base64url);
		nbits += 6;
		if (nbits >= 8)
		{
			nbits -= 8;
			out[(*out_len)++] = (unsigned char) (bits >> nbits);
		}
	}
	return out;
}

struct sim_credential *
sim_credential_load(const char *file)
{
	struct sim_credential *credential;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len;
	FILE	   *f = fopen(file, "r");
	X509	   *certificate = NULL;

	if (f != NULL)
	{
		certificate = PEM_read_X509(f, NULL, NULL, NULL);
		fclose(f);
	}
	if (certificate == NULL)
	{
		ERR_clear_error();
		fprintf(stderr, "dvsim: \"%s\" is no PEM certificate that can be read\n", file);
		return NULL;
	}
	credential = sim_xalloc(sizeof(*credential));
	credential->key = X509_get_pubkey(certificate);
	if (X509_digest(certificate, EVP_sha1(), digest, &len))
		base64url_encode(digest, len, credential->sha1);
	if (X509_digest(certificate, EVP_sha256(), digest, &len))
		base64url_encode(digest, len, credential->sha256);
	X509_free(certificate);
	if (credential->key == NULL || EVP_PKEY_get_base_id(credential->key) != EVP_PKEY_RSA)
	{
		fprintf(stderr, "dvsim: the key of \"%s\" is no RSA key\n", file);
		sim_credential_free(credential);
		return NULL;
	}
	return credential;
}

void
sim_credential_free(struct sim_credential *credential)
{
	if (credential == NULL)
		return;
	EVP_PKEY_free(credential->key);
	free(credential);
}

static struct json_object *
decode_object(struct sim_arena *arena, const char *in, size_t len)
{
	size_t		text_len;
	unsigned char *text = base64url_decode(arena, in, len, &text_len);
	struct json_tokener *tokener;
	struct json_object *object;

	if (text == NULL || text_len == 0)
		return NULL;
	tokener = json_tokener_new_ex(8);
	if (tokener == NULL)
		return NULL;
	object = json_tokener_parse_ex(tokener, (const char *) text, (int) text_len);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
		!json_object_is_type(object, json_type_object))
	{
		json_object_put(object);
		object = NULL;
	}
	json_tokener_free(tokener);
	return object;
}

static bool
jwt_parse(struct sim_arena *arena, const char *text, struct jwt *jwt)
{
	const char *dot1 = strchr(text, '.');
	const char *dot2 = dot1 ? strchr(dot1 + 1, '.') : NULL;

	memset(jwt, 0, sizeof(*jwt));
	if (dot2 == NULL || strlen(text) > MAX_ASSERTION)
		return false;
	jwt->signed_len = (size_t) (dot2 - text);
	jwt->header = decode_object(arena, text, (size_t) (dot1 - text));
	jwt->claims = decode_object(arena, dot1 + 1, (size_t) (dot2 - dot1 - 1));
	jwt->signature = base64url_decode(arena, dot2 + 1, strlen(dot2 + 1), &jwt->signature_len);
	return jwt->header != NULL && jwt->claims != NULL && jwt->signature != NULL;
}

static void
jwt_free(struct jwt *jwt)
{
	json_object_put(jwt->header);
	json_object_put(jwt->claims);
}

/* a text member, or "" */
static const char *
member(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, name, &value) ||
		!json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

static int64_t
number(struct json_object *object, const char *name)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, name, &value) ||
		!(json_object_is_type(value, json_type_int) ||
		  json_object_is_type(value, json_type_double)))
		return 0;
	return json_object_get_int64(value);
}

static bool
signature_good(const struct sim_credential *credential, const char *text, const struct jwt *jwt,
			   bool pss)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *key_context = NULL;
	bool		good;

	good = context != NULL &&
		EVP_DigestVerifyInit(context, &key_context, EVP_sha256(), NULL, credential->key) == 1;
	if (good && pss)
		good = EVP_PKEY_CTX_set_rsa_padding(key_context, RSA_PKCS1_PSS_PADDING) == 1 &&
			EVP_PKEY_CTX_set_rsa_pss_saltlen(key_context, RSA_PSS_SALTLEN_DIGEST) == 1;
	good = good &&
		EVP_DigestVerify(context, jwt->signature, jwt->signature_len,
						 (const unsigned char *) text, jwt->signed_len) == 1;
	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return good;
}

static struct sim_assertion_error
refused(int code, const char *text)
{
	struct sim_assertion_error error = {code, text};

	return error;
}

static struct sim_assertion_error
check_signature(const struct sim_credential *credential, const char *text, const struct jwt *jwt)
{
	const char *algorithm = member(jwt->header, "alg");
	bool		pss = strcmp(algorithm, "PS256") == 0;

	if (!pss && strcmp(algorithm, "RS256") != 0)
		return refused(700027, "Client assertion failed signature validation. [Reason - The algorithm is not "
					   "supported.]");
	if (strcmp(member(jwt->header, pss ? "x5t#S256" : "x5t"),
			   pss ? credential->sha256 : credential->sha1) != 0)
		return refused(700027, "The certificate with identifier used to sign the client assertion "
					   "is not registered on application. [Reason - The key was not found.]");
	if (!signature_good(credential, text, jwt, pss))
		return refused(700027, "Client assertion failed signature validation. [Reason - The key was used but the "
					   "signature did not match.]");
	return refused(0, NULL);
}

static bool
audience_known(const char *audience, const char *const *audiences)
{
	for (; *audiences != NULL; audiences++)
	{
		if (strcmp(audience, *audiences) == 0)
			return true;
	}
	return false;
}

static struct sim_assertion_error
check_claims(struct json_object *claims, const char *client_id, const char *const *audiences,
			 int64_t now)
{
	int64_t		expires = number(claims, "exp");
	int64_t		not_before = number(claims, "nbf");

	if (strcmp(member(claims, "iss"), client_id) != 0)
		return refused(700021, "Client assertion application identifier doesn't match 'client_id' parameter.");
	if (strcmp(member(claims, "sub"), client_id) != 0)
		return refused(700021, "Client assertion subject doesn't match 'client_id' parameter.");
	if (!audience_known(member(claims, "aud"), audiences))
		return refused(700023, "Client assertion audience claim does not match Realm issuer.");
	if (member(claims, "jti")[0] == '\0')
		return refused(50027, "JWT token is invalid or malformed. [Reason - The 'jti' claim is missing.]");
	if (expires == 0)
		return refused(50027, "JWT token is invalid or malformed. [Reason - The 'exp' claim is missing.]");
	if (expires < now - CLOCK_TOLERANCE || not_before > now + CLOCK_TOLERANCE)
		return refused(700024, "Client assertion is not within its valid time range.");
	return refused(0, NULL);
}

struct sim_assertion_error
sim_assertion_check(struct sim_arena *arena, const struct sim_credential *credential,
					const char *assertion, const char *client_id, const char *const *audiences,
					int64_t now)
{
	struct sim_assertion_error error = {50027, "JWT token is invalid or malformed."};
	struct jwt	jwt;

	if (jwt_parse(arena, assertion, &jwt))
	{
		error = check_signature(credential, assertion, &jwt);
		if (error.aadsts == 0)
			error = check_claims(jwt.claims, client_id, audiences, now);
	}
	jwt_free(&jwt);
	return error;
}

const char *
sim_assertion_subject(struct sim_arena *arena, const char *assertion)
{
	struct jwt	jwt;
	const char *subject = NULL;

	if (jwt_parse(arena, assertion, &jwt))
	{
		subject = member(jwt.claims, "sub");
		subject = subject[0] ? sim_strdup(arena, subject) : NULL;
	}
	jwt_free(&jwt);
	return subject;
}
