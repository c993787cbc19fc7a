/*
 * http.c
 *		HTTP exchanges of one backend.
 *
 * There is a client for each session, with a libcurl multi handle of its own, so
 * that dropping a session closes its connections.
 *
 * libcurl allocates with malloc, because its resolver threads call the
 * allocator, and connections outlive memory contexts.  An exchange is freed with
 * the memory context that dv_http_start was given.  The abort of a transaction or
 * subtransaction stops the exchanges started in it, whatever context they are in,
 * and process exit closes everything.
 *
 * When a kept-alive connection closes before the first byte of the answer,
 * libcurl silently repeats the request on a new connection, and a write might be
 * carried out twice; on_begin prevents that.
 *
 * Resolver threads must not run PostgreSQL's signal handlers, so they are
 * started with all signals blocked.  QUICK_EXIT permits a cancel to leave
 * behind a thread that waits for a name server that does not answer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <signal.h>

#include "libpq/pqsignal.h"
#include "utils/memutils.h"

#include "net/exchange.h"
#include "net/inflate.h"
#include "net/text.h"
#include "net/xact.h"

#define MAX_ANSWERS		((size_t) 256 * 1024 * 1024)	/* in memory at a time */
#define CONNECT_GRACE_MS	1000
#define AFFINITY_COOKIE		"ARRAffinity"
/* a duration is known if less than this fraction of it is uncertain */
#define LEAST_ACCURACY		10

dlist_head	dv_http_clients = DLIST_STATIC_INIT(dv_http_clients);

static dv_inbox_store store = {.room = MAX_ANSWERS};

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
	"answer has an encoding that was not requested",
	"out of memory",
	"out of file descriptors",
	"canceled",
	"transfer failed"
};

const char *
dv_http_failure_name(dv_http_failure failure)
{
	return failure_names[failure];
}

/* libcurl's message often begins or ends with the name of the failure. */
static const struct
{
	dv_http_failure failure;
	const char *prefix;
	const char *instead;
}			repetitions[] =

{
	{DV_HTTP_RESOLVE, "Could not resolve host: ", "could not resolve host name: "},
	{DV_HTTP_RESOLVE, "Could not resolve proxy: ", "could not resolve host name of proxy: "},
	{DV_HTTP_CONNECT, "Failed to connect to ", "could not connect to "},
};

static const char *const empty_reasons[] = {": Couldn't connect to server", ": Could not connect to server"};

const char *
dv_http_failure_text(const dv_http_result *result)
{
	char	   *message = pstrdup(dv_text_shown(result->message, strlen(result->message)));
	size_t		i;

	for (i = 0; i < lengthof(empty_reasons); i++)
	{
		char	   *reason = strstr(message, empty_reasons[i]);

		if (reason != NULL && strcmp(reason, empty_reasons[i]) == 0)
			*reason = '\0';
	}
	for (i = 0; i < lengthof(repetitions); i++)
		if (result->failure == repetitions[i].failure &&
			strncmp(message, repetitions[i].prefix, strlen(repetitions[i].prefix)) == 0)
			return psprintf("%s%s", repetitions[i].instead, message + strlen(repetitions[i].prefix));
	return psprintf("%s: %s", failure_names[result->failure], message);
}

/*
 * Callbacks of libcurl.  None of them may raise an error.
 */

/* Notes what the inbox has refused.  Returns false if it has. */
static bool
taken(dv_http_call *call, dv_inbox_result result)
{
	static const struct
	{
		dv_http_failure failure;
		const char *message;
	}			refusals[] =

	{
		[DV_INBOX_TAKEN] = {DV_HTTP_NO_FAILURE, NULL},
		[DV_INBOX_TOO_LARGE] = {DV_HTTP_TOO_LARGE, NULL},
		[DV_INBOX_STORE_FULL] = {DV_HTTP_TOO_LARGE, "answers held in memory by this session would exceed 256 MB"},
		[DV_INBOX_ENCODED] = {DV_HTTP_ENCODED, NULL},
		[DV_INBOX_BROKEN] = {DV_HTTP_TRUNCATED, "its body could not be decompressed"},
		[DV_INBOX_NO_MEMORY] = {DV_HTTP_NO_MEMORY, NULL}
	};

	if (result == DV_INBOX_TAKEN)
		return true;
	call->noted_failure = refusals[result].failure;
	call->noted_message = refusals[result].message;
	return false;
}

static size_t
on_write(char *data, size_t size, size_t n, void *call_arg)
{
	dv_http_call *call = call_arg;

	return taken(call, dv_inbox_add_body(&call->inbox, data, size * n)) ?
		size * n : CURL_WRITEFUNC_ERROR;
}

static size_t
on_header(char *data, size_t size, size_t n, void *call_arg)
{
	dv_http_call *call = call_arg;

	return taken(call, dv_inbox_add_line(&call->inbox, data, size * n)) ?
		size * n : CURL_WRITEFUNC_ERROR;
}

/* The connection is open, and the request is about to be sent, perhaps for the second time. */
static int
on_begin(void *call_arg, char *remote, char *local, int remote_port, int local_port)
{
	dv_http_call *call = call_arg;

	if (call->begun && call->once)
	{
		call->noted_failure = DV_HTTP_RESET;
		call->noted_message = "it had been opened for an earlier request";
		return CURL_PREREQFUNC_ABORT;
	}
	/* failures of the host's other addresses no longer matter */
	call->noted_failure = DV_HTTP_NO_FAILURE;
	call->noted_message = NULL;
	call->begun = true;
	return CURL_PREREQFUNC_OK;
}

/*
 * Ending and freeing.
 */

/*
 * A handle is reused only after a complete answer.  After anything else,
 * libcurl may still intend to repeat the request and rewind its body.  Before
 * 8.16, curl_easy_reset does not clear that state, and every later request
 * with the handle would fail.  Connections belong to the multi handle, so none
 * is lost with the easy handle.
 */
static void
release_handle(dv_http_call *call)
{
	dv_http_client *client = call->client;

	curl_multi_remove_handle(client->multi, call->easy);
	if (call->result.outcome == DV_HTTP_ANSWERED && client->nidle < DV_IDLE_HANDLES)
	{
		curl_easy_reset(call->easy);
		client->idle[client->nidle++] = call->easy;
	}
	else
		curl_easy_cleanup(call->easy);
	call->easy = NULL;
	client->under_way--;
	(void) dv_http_report_descriptors(client);
}

static dv_http_failure
failure_of(const dv_http_call *call, CURLcode code)
{
	int			i;

	/* libcurl 8 detects some encodings itself; the code also means broken data */
	if (code == CURLE_BAD_CONTENT_ENCODING && !call->inbox.has_head)
		return DV_HTTP_ENCODED;
	for (i = 0; i < (int) lengthof(curl_failures); i++)
		if (curl_failures[i].code == code)
			return curl_failures[i].failure;
	return DV_HTTP_OTHER;
}

/* Notes the cookie that routes later requests to the same host of the service. */
static void
note_cookie(dv_http_call *call)
{
	size_t		len = 0;
	const char *cookie = call->keep_cookie ?
	dv_inbox_cookie(&call->inbox, AFFINITY_COOKIE, &len) : NULL;

	if (cookie != NULL && len < sizeof(call->client->cookie))
		strlcpy(call->client->cookie, cookie, len + 1);
}

/* Fills in the status and the measurements of the result. */
static void
measure(dv_http_call *call)
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
	/* the answer may have come during an absence of unknown length */
	result->unseen = dv_http_attention.unseen;
	result->missed = dv_http_attention.missed - call->missed;
	result->duration = Max(total - before - result->missed, 0);
}

bool
dv_http_is_measured(const dv_http_result *result)
{
	return result->missed == 0 && result->unseen <= result->duration / LEAST_ACCURACY;
}

/* Ends the exchange and fills in its result. */
void
dv_http_finish(dv_http_call *call, CURLcode code)
{
	dv_http_result *result = &call->result;

	measure(call);
	if (code == CURLE_OK && !taken(call, dv_inbox_inflate(&call->inbox)))
		code = CURLE_WRITE_ERROR;
	result->body = call->inbox.body != NULL ? call->inbox.body : "";
	result->body_len = call->inbox.body_len;
	if (code == CURLE_OK && result->status < 200)
	{
		/* libcurl accepts "101 Switching Protocols", although we never ask for it */
		call->noted_failure = DV_HTTP_RESET;
		call->noted_message = "an interim answer was the last one";
		code = CURLE_GOT_NOTHING;
	}
	if (code == CURLE_OK)
	{
		result->outcome = DV_HTTP_ANSWERED;
		result->message = "";
		note_cookie(call);
	}
	else
	{
		/* bytes sent to a proxy to establish a tunnel are not part of the request */
		result->outcome = call->begun && (result->bytes_sent > 0 ||
										  call->noted_failure == DV_HTTP_RESET) ?
			DV_HTTP_UNKNOWN : DV_HTTP_NOT_SENT;
		result->failure = call->noted_failure != DV_HTTP_NO_FAILURE ?
			call->noted_failure : failure_of(call, code);
		/* if there was no connection to the service, none can have been lost */
		if (result->outcome == DV_HTTP_NOT_SENT && result->failure == DV_HTTP_RESET)
			result->failure = DV_HTTP_CONNECT;
		result->message = call->noted_message != NULL ? call->noted_message :
			call->message[0] != '\0' ? call->message : curl_easy_strerror(code);
	}
	release_handle(call);
}

void
dv_http_fail(dv_http_call *call, dv_http_failure failure, const char *message)
{
	strlcpy(call->message, message, sizeof(call->message));
	call->noted_failure = failure;
	dv_http_finish(call, CURLE_ABORTED_BY_CALLBACK);
}

void
dv_http_stop(dv_http_call *call)
{
	if (call->easy != NULL)
		dv_http_fail(call, DV_HTTP_CANCELED, "canceled");
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
	dv_inbox_free(&call->inbox);
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
	dv_http_rest(client);
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
	dlist_foreach(c, &dv_http_clients)
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

	dlist_foreach(c, &dv_http_clients)
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

	dv_http_initialize();
	dv_xact_join(&xact_participant);
	client = calloc(1, sizeof(*client));
	if (client == NULL)
		no_memory();
	dlist_init(&client->calls);
	dlist_push_head(&dv_http_clients, &client->node);
	client->connect_timeout_ms = options->connect_timeout_ms;
	client->allow_http = options->allow_http;
	client->keep_cookie = options->keep_cookies;
	client->transport = dv_transport_create(options);
	client->user_agent = strdup(options->user_agent);
	if (client->transport == NULL || client->user_agent == NULL)
	{
		dv_http_client_free(client);
		no_memory();
	}
	return client;
}

static void
no_descriptor(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("out of file descriptors for connections"),
			 errhint("Increase \"max_files_per_process\", or use fewer connections of other extensions in this session.")));
}

long
dv_http_connect_limit(int connect_timeout_ms, int64 since)
{
	return (long) (since / DV_MILLISECOND) + connect_timeout_ms + CONNECT_GRACE_MS;
}

static void
set_transport(CURL *easy, const dv_http_client *client, const dv_http_request *request)
{
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, client->allow_http ? "http,https" : "https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	/* if libcurl does not ask for compressed answers, it does not decompress any */
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING,
					 request->plain && dv_inflates ? NULL : "gzip");
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, dv_inflates ? 0L : 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
					 dv_http_connect_limit(client->connect_timeout_ms, 0));
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, dv_http_open_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, dv_http_close_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, client);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
	dv_transport_apply(client->transport, easy, request->no_proxy);
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
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_begin);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);

	if (request->body != NULL || strcmp(request->method, "POST") == 0)
	{
		/* libcurl sends the headers and a short body together */
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body != NULL ? request->body : "");
	}
	else if (strcmp(request->method, "HEAD") == 0)
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

/* Copies the caller's headers, adds the cookie, and suppresses the Expect header of libcurl. */
static bool
copy_headers(dv_http_call *call, const dv_http_request *request)
{
	char		cookie[sizeof("Cookie: ") + DV_COOKIE_SIZE];
	const char *const standing[] = {
		"Expect:", call->keep_cookie && call->client->cookie[0] != '\0' ? cookie : NULL, NULL
	};
	const char *const *lists[] = {standing, request->headers};
	int			i;

	snprintf(cookie, sizeof(cookie), "Cookie: %s", call->client->cookie);

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

/* add_handle() may start a thread, which inherits the signal mask; so block all signals. */
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

static bool
take_handle(dv_http_call *call)
{
	dv_http_client *client = call->client;

	call->easy = client->nidle > 0 ? client->idle[--client->nidle] : curl_easy_init();
	if (call->easy == NULL)
		return false;
	client->under_way++;
	return true;
}

/*
 * A line break in an option, a statement, or an answer must not become another
 * header or another request.
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

/*
 * Starts the time of the exchange now, however long ago the backend last looked at its sockets.
 */
static void
set_deadlines(dv_http_call *call, const dv_http_request *request)
{
	call->result.started_at = dv_now();
	dv_attention_look(&dv_http_attention, false, true, call->result.started_at);
	call->timeout_ms = request->timeout_ms;
	call->answer_by = dv_http_attention.attended + request->timeout_ms * DV_MILLISECOND;
	call->connect_by = dv_http_attention.attended +
		call->client->connect_timeout_ms * DV_MILLISECOND;
	call->missed = dv_http_attention.missed;
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
	call->subid = request->subid != InvalidSubTransactionId ? request->subid :
		GetCurrentSubTransactionId();
	call->once = strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
	call->keep_cookie = client->keep_cookie && request->affinity;
	call->inbox.store = &store;
	call->inbox.max_body = request->max_response > 0 ? request->max_response : MAX_ANSWERS - 1;
	call->result.body = "";
	call->result.message = "";
	dlist_push_tail(&client->calls, &call->node);
	callback->func = owner_gone;
	callback->arg = call;
	call->callback = callback;
	MemoryContextRegisterResetCallback(owner, callback);

	if (!dv_http_wake(client) || !copy_headers(call, request) || !take_handle(call))
	{
		dv_http_free(call);
		no_memory();
	}
	if (!dv_http_report_descriptors(client))
	{
		dv_http_free(call);
		no_descriptor();
	}
	set_deadlines(call, request);
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
	return dv_inbox_header(&call->inbox, name);
}

bool
dv_http_connecting(const dv_http_call *call)
{
	return call->easy != NULL && !call->begun;
}
