/*-------------------------------------------------------------------------
 *
 * http.c
 *		HTTP exchanges of one backend.
 *
 * The driver consists of a set of clients (each with its own libcurl multi
 * handle, so that dropping a session closes its connections), the mux that
 * holds their sockets, and one WaitEventSet.
 *
 * libcurl allocates with malloc, because its resolver threads call the
 * allocator, and connections outlive memory contexts.  A call is freed with the
 * memory context that dv_http_start was given.  The abort of a transaction or
 * subtransaction stops the calls started in it, whatever context they are in,
 * and process exit closes everything.
 *
 * A request body is supplied by a read callback and cannot be rewound.  That
 * is on purpose: when a kept-alive connection closes before the first byte of
 * the answer, libcurl would otherwise silently repeat the request on a new
 * connection, and a POST might be carried out twice.
 *
 * Resolver threads must not run PostgreSQL's signal handlers, so they are
 * started with all signals blocked.  QUICK_EXIT permits a cancel to leave
 * behind a thread that waits for a name server that does not answer.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/ilist.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "compat.h"
#include "net/http.h"
#include "net/mux.h"
#include "net/text.h"
#include "net/transport.h"
#include "net/xact.h"

#define MAX_EVENTS			64
#define MUX_DESCRIPTORS		2	/* the mux and its timer */
#define IDLE_HANDLES		16
#define CACHED_CONNECTIONS	512
#define DEFAULT_MAX_RESPONSE ((size_t) 1024 * 1024 * 1024)
#define FIRST_BUFFER		(16 * 1024)

struct dv_http_client
{
	dlist_node	node;			/* in clients */
	CURLM	   *multi;
	CURLSH	   *share;			/* cookies; NULL if they are not kept */
	int64		timer_at;		/* when libcurl wants to be called; 0: not at all */
	dlist_head	calls;
	CURL	   *idle[IDLE_HANDLES]; /* easy handles to be reused */
	int			nidle;
	int			connect_timeout_ms;
	bool		allow_http;
	dv_transport *transport;
	char	   *user_agent;
};

struct dv_http_call
{
	dlist_node	node;			/* in client->calls */
	dv_http_client *client;
	CURL	   *easy;			/* NULL if the exchange has ended */
	struct curl_slist *headers;
	MemoryContextCallback *callback;	/* of the owner; NULL if that is being deleted */
	SubTransactionId subid;		/* in which it was started */
	const char *body;
	size_t		body_len;
	size_t		body_read;
	size_t		max_response;
	char	   *answer;
	size_t		answer_cap;
	char	   *lines;			/* header lines, each followed by a NUL */
	size_t		lines_len;
	size_t		lines_cap;
	dv_http_failure noted_failure;	/* takes precedence over libcurl's code */
	char		message[CURL_ERROR_SIZE];
	dv_http_result result;
};

static bool initialized = false;
static int	owner_pid = 0;
static int	mux_fd = -1;
static WaitEventSet *wait_set = NULL;
static dlist_head clients = DLIST_STATIC_INIT(clients);
static dv_http_client **sockets = NULL; /* by descriptor */
static int	nsockets = 0;
static uint64 finished = 0;		/* exchanges that ended */
static uint64 finished_seen = 0;	/* of these, reported by dv_http_wait */

static const struct
{
	CURLcode	code;
	dv_http_failure failure;
}			curl_failures[] =

{
	{CURLE_COULDNT_RESOLVE_HOST, DV_HTTP_RESOLVE},
	{CURLE_COULDNT_RESOLVE_PROXY, DV_HTTP_RESOLVE},
	{CURLE_COULDNT_CONNECT, DV_HTTP_CONNECT},
	{CURLE_SSL_CONNECT_ERROR, DV_HTTP_TLS},
	{CURLE_PEER_FAILED_VERIFICATION, DV_HTTP_TLS},
	{CURLE_SSL_CERTPROBLEM, DV_HTTP_TLS},
	{CURLE_SSL_CACERT_BADFILE, DV_HTTP_TLS},
	{CURLE_OPERATION_TIMEDOUT, DV_HTTP_TIMEOUT},
	{CURLE_SEND_ERROR, DV_HTTP_RESET},
	{CURLE_SEND_FAIL_REWIND, DV_HTTP_RESET},
	{CURLE_RECV_ERROR, DV_HTTP_RESET},
	{CURLE_GOT_NOTHING, DV_HTTP_RESET},
	{CURLE_PARTIAL_FILE, DV_HTTP_TRUNCATED},
	{CURLE_BAD_CONTENT_ENCODING, DV_HTTP_TRUNCATED},
	{CURLE_WRITE_ERROR, DV_HTTP_TRUNCATED},
	{CURLE_OUT_OF_MEMORY, DV_HTTP_NO_MEMORY},
};

/* In the order of dv_http_failure. */
static const char *const failure_names[] = {
	"no failure",
	"could not resolve host name",
	"could not connect",
	"could not establish TLS",
	"timed out",
	"connection was closed before the answer",
	"answer was incomplete",
	"answer was too large",
	"out of memory",
	"canceled",
	"transfer failed"
};

const char *
dv_http_failure_name(dv_http_failure failure)
{
	return failure_names[failure];
}

/*
 * Callbacks of libcurl.  None of them may raise an error.
 */

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *client_arg, void *known)
{
	dv_http_client *client = client_arg;
	int			events = 0;

	if (what == CURL_POLL_REMOVE)
	{
		if (fd < nsockets)
			sockets[fd] = NULL;
		return dv_mux_set(fd, 0, known != NULL) ? 0 : -1;
	}
	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= DV_MUX_READ;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= DV_MUX_WRITE;

	if (fd >= nsockets)
	{
		int			n = fd + 64;
		dv_http_client **grown = realloc(sockets, n * sizeof(*grown));

		if (grown == NULL)
			return -1;
		memset(grown + nsockets, 0, (n - nsockets) * sizeof(*grown));
		sockets = grown;
		nsockets = n;
	}
	if (!dv_mux_set(fd, events, known != NULL))
		return -1;
	sockets[fd] = client;
	return curl_multi_assign(client->multi, fd, client) == CURLM_OK ? 0 : -1;
}

static int
on_timer(CURLM *multi, long timeout_ms, void *client_arg)
{
	dv_http_client *client = client_arg;

	client->timer_at = timeout_ms < 0 ? 0 : dv_now() + timeout_ms * DV_MILLISECOND;
	return 0;
}

/* Sockets are reported to fd.c, which closes files of its own if descriptors run out. */
static curl_socket_t
on_open_socket(void *unused, curlsocktype purpose, struct curl_sockaddr *address)
{
	int			fd;

	if (!AcquireExternalFD())
		return CURL_SOCKET_BAD;
	fd = socket(address->family, address->socktype, address->protocol);
	if (fd < 0)
	{
		ReleaseExternalFD();
		return CURL_SOCKET_BAD;
	}
	(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static int
on_close_socket(void *unused, curl_socket_t fd)
{
	if (fd < nsockets)
		sockets[fd] = NULL;
	ReleaseExternalFD();
	return close(fd);
}

static size_t
on_read(char *buffer, size_t size, size_t n, void *call_arg)
{
	dv_http_call *call = call_arg;
	size_t		len = Min(size * n, call->body_len - call->body_read);

	memcpy(buffer, call->body + call->body_read, len);
	call->body_read += len;
	return len;
}

/* Control characters in a header have no meaning, and it must not end at a NUL. */
static void
blank_controls(char *header, size_t len)
{
	for (; len > 0; header++, len--)
		if (dv_text_has_controls(header, 1))
			*header = ' ';
}

/* Appends to a malloc'd buffer and keeps it NUL-terminated. */
static bool
append(char **buffer, size_t *len, size_t *cap, const char *data, size_t n)
{
	if (*len + n + 1 > *cap)
	{
		size_t		want = Max(*cap * 2, Max(*len + n + 1, FIRST_BUFFER));
		char	   *grown = realloc(*buffer, want);

		if (grown == NULL)
			return false;
		*buffer = grown;
		*cap = want;
	}
	memcpy(*buffer + *len, data, n);
	*len += n;
	(*buffer)[*len] = '\0';
	return true;
}

static size_t
on_write(char *data, size_t size, size_t n, void *call_arg)
{
	dv_http_call *call = call_arg;

	if (call->result.body_len + size * n > call->max_response)
		call->noted_failure = DV_HTTP_TOO_LARGE;
	else if (!append(&call->answer, &call->result.body_len, &call->answer_cap, data, size * n))
		call->noted_failure = DV_HTTP_NO_MEMORY;
	else
		return size * n;
	return 0;
}

static size_t
on_header(char *data, size_t size, size_t n, void *call_arg)
{
	dv_http_call *call = call_arg;
	size_t		len = size * n;

	while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
		len--;
	if (len >= 5 && memcmp(data, "HTTP/", 5) == 0)
		call->lines_len = 0;	/* discard the headers of an interim answer */
	if (!append(&call->lines, &call->lines_len, &call->lines_cap, data, len) ||
		!append(&call->lines, &call->lines_len, &call->lines_cap, "", 1))
	{
		call->noted_failure = DV_HTTP_NO_MEMORY;
		return 0;
	}
	blank_controls(call->lines + call->lines_len - len - 1, len);
	return size * n;
}

/*
 * Ending and freeing.
 */

/*
 * A handle is reused only after a complete answer.  After anything else,
 * libcurl may still intend to repeat the request and rewind its body.
 * curl_easy_reset does not clear that state before 8.16, so that every later
 * request with the handle would fail.  Connections belong to the multi handle,
 * so none is lost with the easy handle.
 */
static void
release_handle(dv_http_call *call)
{
	dv_http_client *client = call->client;

	curl_multi_remove_handle(client->multi, call->easy);
	if (call->result.outcome == DV_HTTP_ANSWERED && client->nidle < IDLE_HANDLES)
	{
		curl_easy_reset(call->easy);
		client->idle[client->nidle++] = call->easy;
	}
	else
		curl_easy_cleanup(call->easy);
	call->easy = NULL;
}

static dv_http_failure
failure_of(CURLcode code)
{
	int			i;

	for (i = 0; i < (int) lengthof(curl_failures); i++)
		if (curl_failures[i].code == code)
			return curl_failures[i].failure;
	return DV_HTTP_OTHER;
}

/*
 * Returns true if a byte of the request itself may have been sent.  libcurl
 * counts what it sends to a proxy to have a tunnel made, too, but the transfer
 * begins only when there is a connection to the service.
 */
static bool
was_sent(const dv_http_call *call, curl_off_t began_after)
{
	long		connections = 0;

	curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &connections);
	return call->result.bytes_sent > 0 && (began_after > 0 || connections == 0);
}

/* Ends the exchange and fills in its result. */
static void
finish(dv_http_call *call, CURLcode code)
{
	dv_http_result *result = &call->result;
	long		status = 0;
	long		head_sent = 0;
	long		head_received = 0;
	curl_off_t	sent = 0;
	curl_off_t	received = 0;
	curl_off_t	total = 0;
	curl_off_t	before = 0;

	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &head_sent);
	curl_easy_getinfo(call->easy, CURLINFO_HEADER_SIZE, &head_received);
	curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	curl_easy_getinfo(call->easy, CURLINFO_SIZE_DOWNLOAD_T, &received);
	curl_easy_getinfo(call->easy, CURLINFO_TOTAL_TIME_T, &total);
	curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &before);

	result->status = (int) status;
	result->bytes_sent = head_sent + sent;
	result->bytes_received = head_received + received;
	result->done_at = dv_now();
	result->duration = total - before;
	result->body = call->answer != NULL ? call->answer : "";
	if (code == CURLE_OK)
	{
		result->outcome = DV_HTTP_ANSWERED;
		result->message = "";
	}
	else
	{
		result->outcome = was_sent(call, before) ? DV_HTTP_UNKNOWN : DV_HTTP_NOT_SENT;
		result->failure = call->noted_failure != DV_HTTP_NO_FAILURE ?
			call->noted_failure : failure_of(code);
		/* without a connection, nothing of one can have been lost */
		if (result->outcome == DV_HTTP_NOT_SENT && result->failure == DV_HTTP_RESET)
			result->failure = DV_HTTP_CONNECT;
		result->message = call->message[0] != '\0' ? call->message : curl_easy_strerror(code);
	}
	release_handle(call);
	finished++;
}

void
dv_http_stop(dv_http_call *call)
{
	if (call->easy != NULL)
	{
		strlcpy(call->message, "canceled", sizeof(call->message));
		call->noted_failure = DV_HTTP_CANCELED;
		finish(call, CURLE_ABORTED_BY_CALLBACK);
	}
}

void
dv_http_free(dv_http_call *call)
{
	dv_http_stop(call);
	if (call->callback != NULL)
		call->callback->arg = NULL;
	if (call->client != NULL)
		dlist_delete(&call->node);
	curl_slist_free_all(call->headers);
	free(call->answer);
	free(call->lines);
	free(call);
}

static void
owner_gone(void *call_arg)
{
	dv_http_call *call = call_arg;

	if (call != NULL)
	{
		call->callback = NULL;
		dv_http_free(call);
	}
}

void
dv_http_client_free(dv_http_client *client)
{
	dlist_mutable_iter iter;

	/* their owners may still read the calls, so they are ended but not freed */
	dlist_foreach_modify(iter, &client->calls)
	{
		dv_http_call *call = dlist_container(dv_http_call, node, iter.cur);

		dv_http_stop(call);
		dlist_delete(&call->node);
		call->client = NULL;
	}
	while (client->nidle > 0)
		curl_easy_cleanup(client->idle[--client->nidle]);
	curl_multi_cleanup(client->multi);
	if (client->share != NULL)
		curl_share_cleanup(client->share);
	dlist_delete(&client->node);
	dv_transport_free(client->transport);
	free(client->user_agent);
	free(client);
}

/*
 * Transactions.  An abort stops the calls that were started in the transaction,
 * so that nothing more is sent on behalf of a statement that has failed.
 */

static void
on_xact(XactEvent event)
{
	dlist_iter	c;

	if (!dv_xact_is_abort(event))
		return;
	dlist_foreach(c, &clients)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &dlist_container(dv_http_client, node, c.cur)->calls)
			dv_http_stop(dlist_container(dv_http_call, node, iter.cur));
	}
}

static void
on_subxact(const dv_subxact_end *end)
{
	dlist_iter	c;

	dlist_foreach(c, &clients)
	{
		dlist_iter	iter;

		dlist_foreach(iter, &dlist_container(dv_http_client, node, c.cur)->calls)
		{
			dv_http_call *call = dlist_container(dv_http_call, node, iter.cur);

			if (dv_subxact_ended(end, &call->subid))
				dv_http_stop(call);
		}
	}
}

static dv_xact_participant xact_participant = {
	.phase = DV_XACT_STOP,
	.on_xact = on_xact,
	.on_subxact = on_subxact
};

static void
on_exit_close(int code, Datum arg)
{
	if (owner_pid != MyProcPid)
		return;
	while (!dlist_is_empty(&clients))
		dv_http_client_free(dlist_head_element(dv_http_client, node, &clients));
	dv_mux_close();
}

/* Opens the mux.  The descriptors are reported to fd.c; errno is set on failure. */
static bool
open_mux(void)
{
	int			acquired = 0;

	while (acquired < MUX_DESCRIPTORS && AcquireExternalFD())
		acquired++;
	if (acquired == MUX_DESCRIPTORS && (mux_fd = dv_mux_open()) >= 0)
		return true;
	while (acquired-- > 0)
		ReleaseExternalFD();
	return false;
}

/*
 * Called on first use in a backend, never in the postmaster, because libcurl
 * does not survive a fork.
 */
static void
initialize(void)
{
	if (initialized)
	{
		if (owner_pid != MyProcPid)
			elog(ERROR, "libcurl was initialized by another process");
		return;
	}
	if (!dv_transport_init())
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("could not initialize libcurl")));
	if (mux_fd < 0 && !open_mux())
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create a descriptor to wait for: %m")));
	wait_set = dv_create_wait_event_set(3);
	AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(wait_set, WL_SOCKET_READABLE, mux_fd, NULL, NULL);
	dv_xact_join(&xact_participant);
	on_proc_exit(on_exit_close, (Datum) 0);
	owner_pid = MyProcPid;
	initialized = true;
}

/*
 * Clients and calls.
 */

static void
no_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed while preparing an HTTP request.")));
}

dv_http_client *
dv_http_client_create(const dv_http_options *options)
{
	dv_http_client *client;

	initialize();
	client = calloc(1, sizeof(*client));
	if (client == NULL)
		no_memory();
	dlist_init(&client->calls);
	dlist_push_head(&clients, &client->node);
	client->multi = curl_multi_init();
	client->connect_timeout_ms = options->connect_timeout_ms;
	client->allow_http = options->allow_http;
	client->transport = dv_transport_create(options);
	client->user_agent = strdup(options->user_agent);
	if (client->multi == NULL || client->transport == NULL || client->user_agent == NULL)
	{
		dv_http_client_free(client);
		no_memory();
	}
	if (options->keep_cookies && (client->share = curl_share_init()) != NULL)
		curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long) CACHED_CONNECTIONS);
	curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
					  (long) options->max_connections);
#if CURL_AT_LEAST_VERSION(8, 20, 0)
	curl_multi_setopt(client->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	return client;
}

static void
set_transport(CURL *easy, const dv_http_client *client, const dv_http_request *request)
{
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, client->allow_http ? "http,https" : "https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) client->connect_timeout_ms);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long) request->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
	dv_transport_apply(client->transport, easy, request->no_proxy);
	if (client->share != NULL)
	{
		curl_easy_setopt(easy, CURLOPT_SHARE, client->share);
		curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "");
	}
}

static void
set_request(dv_http_call *call, const dv_http_request *request)
{
	CURL	   *easy = call->easy;

	curl_easy_setopt(easy, CURLOPT_URL, request->url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->message);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);

	/*
	 * Without a body that it cannot rewind, libcurl would silently repeat the request when a
	 * kept-alive connection closes.
	 */
	if (request->body_len == 0 && strcmp(request->method, "GET") != 0)
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	if (request->body != NULL || strcmp(request->method, "POST") == 0)
	{
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_len);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(easy, CURLOPT_READDATA, call);
	}
	else if (strcmp(request->method, "HEAD") == 0)
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* Copies the caller's headers, and suppresses the Expect header of libcurl. */
static bool
copy_headers(dv_http_call *call, const dv_http_request *request)
{
	static const char *const standing[] = {"Expect:", NULL};
	const char *const *lists[] = {standing, request->headers};
	int			i;

	for (i = 0; i < (int) lengthof(lists); i++)
	{
		const char *const *header;

		for (header = lists[i]; header != NULL && *header != NULL; header++)
		{
			struct curl_slist *grown = curl_slist_append(call->headers, *header);

			if (grown == NULL)
				return false;
			call->headers = grown;
		}
	}
	return true;
}

/* libcurl may start a thread here, which inherits the signal mask: all signals are blocked. */
static CURLMcode
add_handle(dv_http_call *call)
{
	sigset_t	before;
	CURLMcode	code;

	sigprocmask(SIG_SETMASK, &BlockSig, &before);
	code = curl_multi_add_handle(call->client->multi, call->easy);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}

/*
 * Wherever a text comes from, an option, a statement, or an answer, a line break
 * in it must not become another header or another request.
 */
static void
refuse_controls(const dv_http_client *client, const dv_http_request *request)
{
	const char *const *header;
	bool		refused = dv_text_has_controls(request->url, strlen(request->url)) ||
	dv_text_has_controls(client->user_agent, strlen(client->user_agent));

	for (header = request->headers; header != NULL && *header != NULL; header++)
		refused = refused || dv_text_has_controls(*header, strlen(*header));
	if (refused)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("request to Dataverse was not sent, because its URL or a header would contain a control character")));
}

dv_http_call *
dv_http_start(dv_http_client *client, const dv_http_request *request, MemoryContext owner)
{
	MemoryContextCallback *callback = MemoryContextAllocZero(owner, sizeof(*callback));
	dv_http_call *call;

	refuse_controls(client, request);
	call = calloc(1, sizeof(*call));
	if (call == NULL)
		no_memory();
	call->client = client;
	call->subid = GetCurrentSubTransactionId();
	call->body = request->body;
	call->body_len = request->body_len;
	call->max_response = request->max_response > 0 ? request->max_response : DEFAULT_MAX_RESPONSE;
	call->result.body = "";
	call->result.message = "";
	call->result.started_at = dv_now();
	dlist_push_tail(&client->calls, &call->node);
	callback->func = owner_gone;
	callback->arg = call;
	call->callback = callback;
	MemoryContextRegisterResetCallback(owner, callback);

	call->easy = client->nidle > 0 ? client->idle[--client->nidle] : curl_easy_init();
	if (call->easy == NULL || !copy_headers(call, request))
	{
		dv_http_free(call);
		no_memory();
	}
	set_transport(call->easy, client, request);
	set_request(call, request);
	if (add_handle(call) != CURLM_OK)
	{
		dv_http_free(call);
		no_memory();
	}
	return call;
}

const dv_http_result *
dv_http_result_of(const dv_http_call *call)
{
	return &call->result;
}

const char *
dv_http_header(const dv_http_call *call, const char *name)
{
	size_t		len = strlen(name);
	const char *line = call->lines;
	const char *end = line + call->lines_len;

	for (; line < end; line += strlen(line) + 1)
	{
		if (pg_strncasecmp(line, name, len) == 0 && line[len] == ':')
		{
			const char *value = line + len + 1;

			while (*value == ' ' || *value == '\t')
				value++;
			return value;
		}
	}
	return NULL;
}

/*
 * Driving.
 */

static void
act(dv_http_client *client, curl_socket_t fd, int events)
{
	sigset_t	before;
	int			running;

	sigprocmask(SIG_SETMASK, &BlockSig, &before);
	curl_multi_socket_action(client->multi, fd, events, &running);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void
collect_finished(dv_http_client *client)
{
	CURLMsg    *message;
	int			left;

	while ((message = curl_multi_info_read(client->multi, &left)) != NULL)
	{
		dv_http_call *call = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &call);
		finish(call, message->data.result);
	}
}

static void
drive_sockets(void)
{
	dv_mux_event events[MAX_EVENTS];
	int			n;
	int			i;

	do
	{
		n = dv_mux_poll(events, MAX_EVENTS);
		if (n < 0)
			ereport(ERROR,
					(errcode_for_socket_access(),
					 errmsg("could not poll sockets: %m")));
		for (i = 0; i < n; i++)
		{
			int			fd = events[i].fd;
			int			ready = 0;

			/* an earlier event of this round may have closed it */
			if (fd < 0 || fd >= nsockets || sockets[fd] == NULL)
				continue;
			if (events[i].ready & DV_MUX_READ)
				ready |= CURL_CSELECT_IN;
			if (events[i].ready & DV_MUX_WRITE)
				ready |= CURL_CSELECT_OUT;
			act(sockets[fd], fd, ready);
		}
	} while (n == MAX_EVENTS);
}

/*
 * Sets the timer of the mux to when libcurl wants to be called, or to "until"
 * (0: never) if that is earlier.  The timer is part of the mux so that it also
 * wakes a WaitEventSet that watches only the descriptor of the mux.
 */
static void
set_timer(int64 until)
{
	int64		next = until;
	dlist_iter	c;

	dlist_foreach(c, &clients)
	{
		const dv_http_client *client = dlist_container(dv_http_client, node, c.cur);

		if (client->timer_at != 0 && (next == 0 || client->timer_at < next))
			next = client->timer_at;
	}
	if (!dv_mux_timer(next == 0 ? -1 : Max(next - dv_now(), 0)))
		ereport(ERROR,
				(errcode_for_socket_access(),
				 errmsg("could not set a timer: %m")));
}

void
dv_http_drive(void)
{
	dlist_iter	c;

	if (!initialized)
		return;
	drive_sockets();
	dlist_foreach(c, &clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);

		if (client->timer_at != 0 && client->timer_at <= dv_now())
		{
			client->timer_at = 0;
			act(client, CURL_SOCKET_TIMEOUT, 0);
		}
		collect_finished(client);
	}
	set_timer(0);
}

int
dv_http_watch(int64 until)
{
	initialize();
	set_timer(until);
	return mux_fd;
}

void
dv_http_wait(int64 until, uint32 wait_event_info)
{
	WaitEvent	event;
	long		timeout = -1;

	initialize();
	dv_http_drive();
	if (finished == finished_seen)
	{
		if (until != 0)
			timeout = Max((until - dv_now() + DV_MILLISECOND - 1) / DV_MILLISECOND, 0);
		if (timeout != 0 &&
			WaitEventSetWait(wait_set, timeout, &event, 1, wait_event_info) == 1 &&
			(event.events & WL_LATCH_SET) != 0)
			ResetLatch(MyLatch);
		dv_http_drive();
	}
	finished_seen = finished;
	CHECK_FOR_INTERRUPTS();
}
