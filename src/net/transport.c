/*
 * transport.c
 *		Whom a connection trusts, and which proxy it uses.
 *
 * Only the options of the server and of the user mapping decide.  libcurl would
 * also consult the environment of the postmaster (http_proxy, no_proxy, and so
 * on, and SSLKEYLOGFILE for writing the keys of its connections to a file), and
 * would combine a file of authorities with the system's directory of authorities.
 * It reads other sources, such as .netrc, only on request, and we request none.
 *
 * libcurl reads a file of authorities once a day, and the connections and TLS
 * sessions that it keeps were verified with the authorities of that time.  Since
 * such files are renewed, we look at the file before each request, and use
 * nothing that is older than its last change.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <sys/stat.h>

#include "net/clock.h"
#include "net/transport.h"

#define KEY_LOG "SSLKEYLOGFILE"
#define DAY		86400			/* seconds */

struct dv_transport
{
	char	   *ca_file;
	char	   *proxy;
	char	   *proxy_user;
	char	   *proxy_password;
	struct stat authorities;	/* of the file, when we last looked at it */
	bool		looked;
	int64		changed_at;		/* 0: it has not changed since the start */
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
 * Trusts only the authorities of this file, for the service, the token
 * endpoint, and a proxy that is itself reached by TLS.
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

/* Checks whether the authorities may have changed since libcurl read them. */
static void
look_at_authorities(dv_transport *transport)
{
	const char *file = transport->ca_file != NULL ? transport->ca_file :
	curl_version_info(CURLVERSION_NOW)->cainfo;
	struct stat before = transport->authorities;
	struct stat *now = &transport->authorities;

	/* a file that no longer exists has changed */
	memset(now, 0, sizeof(*now));
	if (file != NULL && stat(file, now) != 0)
		memset(now, 0, sizeof(*now));
	if (transport->looked &&
		(now->st_dev != before.st_dev || now->st_ino != before.st_ino ||
		 now->st_size != before.st_size || now->st_mtime != before.st_mtime ||
		 now->st_ctime != before.st_ctime))
		transport->changed_at = dv_now();
	transport->looked = true;
}

/* Uses nothing that is older than the change, which was this many seconds ago. */
static void
trust_anew(CURL *easy, long seconds)
{
	curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, Min(seconds, DAY));
	curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	/* libcurl counts the age of connections in whole seconds, and 0 is no limit */
	if (seconds < 2)
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	else
		curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, seconds - 1);
}

void
dv_transport_apply(dv_transport *transport, CURL *easy, bool direct)
{
	const char *proxy = direct ? NULL : transport->proxy;

	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 2L);
	if (transport->ca_file != NULL)
		trust_only(easy, transport->ca_file);
	look_at_authorities(transport);
	if (transport->changed_at != 0)
		trust_anew(easy, (long) ((dv_now() - transport->changed_at) / DV_SECOND));

	/* empty strings, because libcurl uses the environment if there is no value */
	curl_easy_setopt(easy, CURLOPT_PROXY, proxy != NULL ? proxy : "");
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	if (proxy != NULL && transport->proxy_user != NULL)
	{
		curl_easy_setopt(easy, CURLOPT_PROXYUSERNAME, transport->proxy_user);
		curl_easy_setopt(easy, CURLOPT_PROXYPASSWORD, transport->proxy_password);
	}
}
