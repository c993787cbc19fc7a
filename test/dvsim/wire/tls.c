/*
 * tls.c
 *		Makes a certificate authority and a certificate for --tls.
 *
 * A CA and a leaf, not one self-signed certificate, because clients should
 * verify as they verify the real service: by a CA file.  Elliptic curve keys,
 * since generating RSA keys would take longer than the rest of the start.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "store/mem.h"
#include "wire/tls.h"

#define VALID_SECONDS (3650L * 86400)

static bool
set_name(X509_NAME * name, const char *common_name)
{
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8,
									  (const unsigned char *) "dvsim", -1, -1, 0) == 1 &&
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
								   (const unsigned char *) common_name, -1, -1, 0) == 1;
}

static bool
set_serial(X509 *certificate)
{
	unsigned char bytes[8];
	uint64_t	number;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	memcpy(&number, bytes, sizeof(number));
	return ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), number >> 1 | 1) == 1;
}

static bool
add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX	context;
	X509_EXTENSION *extension;
	bool		added;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	if (extension == NULL)
		return false;
	added = X509_add_ext(certificate, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return added;
}

/* unsigned; the issuer is the certificate itself if "issuer" is NULL */
static X509 *
certificate_new(EVP_PKEY *key, const char *name, X509 *issuer)
{
	X509	   *certificate = X509_new();

	if (certificate == NULL)
		return NULL;
	if (X509_set_version(certificate, 2) != 1 || !set_serial(certificate) ||
		X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) == NULL ||
		X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_SECONDS) == NULL ||
		X509_set_pubkey(certificate, key) != 1 ||
		!set_name(X509_get_subject_name(certificate), name) ||
		X509_set_issuer_name(certificate,
							 X509_get_subject_name(issuer ? issuer : certificate)) != 1)
	{
		X509_free(certificate);
		return NULL;
	}
	return certificate;
}

static X509 *
make_ca(EVP_PKEY *key)
{
	X509	   *ca = certificate_new(key, "dvsim test CA", NULL);

	if (ca != NULL &&
		add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		add_extension(ca, ca, NID_subject_key_identifier, "hash") &&
		X509_sign(ca, key, EVP_sha256()) > 0)
		return ca;
	X509_free(ca);
	return NULL;
}

static X509 *
make_leaf(EVP_PKEY *key, const char *host, X509 *ca, EVP_PKEY *ca_key)
{
	X509	   *leaf = certificate_new(key, host, ca);
	unsigned char address[16];
	char		names[512];
	bool		is_address = inet_pton(AF_INET, host, address) == 1 ||
	inet_pton(AF_INET6, host, address) == 1;

	snprintf(names, sizeof(names), "DNS:localhost,IP:127.0.0.1,IP:::1,%s:%s",
			 is_address ? "IP" : "DNS", host);
	if (leaf != NULL &&
		add_extension(leaf, ca, NID_basic_constraints, "critical,CA:FALSE") &&
		add_extension(leaf, ca, NID_key_usage, "critical,digitalSignature") &&
		add_extension(leaf, ca, NID_ext_key_usage, "serverAuth") &&
		add_extension(leaf, ca, NID_subject_alt_name, names) &&
		add_extension(leaf, ca, NID_subject_key_identifier, "hash") &&
		add_extension(leaf, ca, NID_authority_key_identifier, "keyid") &&
		X509_sign(leaf, ca_key, EVP_sha256()) > 0)
		return leaf;
	X509_free(leaf);
	return NULL;
}

static char *
bio_text(BIO *bio)
{
	char	   *bytes;
	long		len = BIO_get_mem_data(bio, &bytes);
	char	   *text = sim_xalloc((size_t) len + 1);

	memcpy(text, bytes, (size_t) len);
	BIO_free(bio);
	return text;
}

static char *
key_text(EVP_PKEY *key)
{
	BIO		   *bio = BIO_new(BIO_s_mem());

	PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
	return bio_text(bio);
}

static char *
certificate_text(X509 *certificate)
{
	BIO		   *bio = BIO_new(BIO_s_mem());

	PEM_write_bio_X509(bio, certificate);
	return bio_text(bio);
}

bool
sim_tls_make(struct sim_tls *tls, const char *host)
{
	EVP_PKEY   *ca_key = EVP_EC_gen("P-256");
	EVP_PKEY   *key = EVP_EC_gen("P-256");
	X509	   *ca = ca_key ? make_ca(ca_key) : NULL;
	X509	   *leaf = ca && key ? make_leaf(key, host, ca, ca_key) : NULL;

	memset(tls, 0, sizeof(*tls));
	if (leaf != NULL)
	{
		tls->key = key_text(key);
		tls->certificate = certificate_text(leaf);
		tls->ca = certificate_text(ca);
	}
	else
		fprintf(stderr, "dvsim: cannot make a certificate for \"%s\": %s\n", host,
				ERR_reason_error_string(ERR_peek_last_error()));
	X509_free(leaf);
	X509_free(ca);
	EVP_PKEY_free(key);
	EVP_PKEY_free(ca_key);
	return tls->key != NULL;
}

void
sim_tls_free(struct sim_tls *tls)
{
	free(tls->key);
	free(tls->certificate);
	free(tls->ca);
	memset(tls, 0, sizeof(*tls));
}
