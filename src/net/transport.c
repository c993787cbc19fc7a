/*-------------------------------------------------------------------------
 *
 * transport.c
 *		Whom a connection trusts, and which proxy it uses.
 *
 * The rule is that the options of the server and the user mapping decide, and
 * nothing else does.  libcurl would also consult the environment of the
 * postmaster (http_proxy, no_proxy, and so on, and SSLKEYLOGFILE for writing
 * the keys of its connections to a file), and would combine a file of
 * authorities with the system's directory of authorities.  Its other sources,
 * such as .netrc, have to be requested, which nothing here does.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "net/transport.h"

#define KEY_LOG "SSLKEYLOGFILE"

struct dv_transport
{
	char	   *ca_file;
	char	   *proxy;
	char	   *proxy_user;
	char	   *proxy_password;
};

/* libcurl reads the name of the key log when it is initialized; others may use it as well. */
bool
dv_transport_init(void)
{
	const char *variable = getenv(KEY_LOG);
	char	   *key_log = variable != NULL ? strdup(variable) : NULL;
	bool		done;

	if (variable != NULL && key_log == NULL)
		return false;
	unsetenv(KEY_LOG);
	done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (key_log != NULL)
		setenv(KEY_LOG, key_log, 1);
	free(key_log);
	return done;
}

/* Copies a string, or NULL; returns false if there is no memory. */
static bool
copy(char **to, const char *from)
{
	*to = from != NULL ? strdup(from) : NULL;
	return from == NULL || *to != NULL;
}

dv_transport *
dv_transport_create(const dv_http_options *options)
{
	dv_transport *transport = calloc(1, sizeof(*transport));

	if (transport != NULL && copy(&transport->ca_file, options->ca_file) &&
		copy(&transport->proxy, options->proxy) &&
		copy(&transport->proxy_user, options->proxy_user) &&
		copy(&transport->proxy_password, options->proxy_password))
		return transport;
	dv_transport_free(transport);
	return NULL;
}

void
dv_transport_free(dv_transport *transport)
{
	if (transport == NULL)
		return;
	free(transport->ca_file);
	free(transport->proxy);
	free(transport->proxy_user);
	free(transport->proxy_password);
	free(transport);
}

/*
 * Trusts the authorities of this file and no others, for the service, for the
 * token endpoint, and for a proxy that is itself reached by TLS.
 */
static void
trust_only(CURL *easy, const char *ca_file)
{
	curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(easy, CURLOPT_SSL_OPTIONS, 0L);
	curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, ca_file);
	curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL);
	curl_easy_setopt(easy, CURLOPT_PROXY_SSL_OPTIONS, 0L);
}

void
dv_transport_apply(const dv_transport *transport, CURL *easy, bool direct)
{
	const char *proxy = direct ? NULL : transport->proxy;

	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 2L);
	if (transport->ca_file != NULL)
		trust_only(easy, transport->ca_file);

	/* empty strings, because without a value libcurl looks at the environment */
	curl_easy_setopt(easy, CURLOPT_PROXY, proxy != NULL ? proxy : "");
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	if (proxy != NULL && transport->proxy_user != NULL)
	{
		curl_easy_setopt(easy, CURLOPT_PROXYUSERNAME, transport->proxy_user);
		curl_easy_setopt(easy, CURLOPT_PROXYPASSWORD, transport->proxy_password);
	}
}
