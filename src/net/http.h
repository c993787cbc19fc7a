/*
 * http.h
 *		HTTP exchanges of one backend: libcurl's multi interface under a
 *		WaitEventSet.
 *
 * All sockets of all clients sit in one private epoll (kqueue) descriptor;
 * one WaitEventSet watches it together with the latch and the postmaster.
 * No error is raised inside a libcurl callback: callbacks note what happened,
 * and dv_http_wait and its callers raise errors.
 *
 * This module transports bytes and knows nothing of Dataverse.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_HTTP_H
#define DV_HTTP_H

#include "net/clock.h"

#include "datatype/timestamp.h"

/* Connections to one server with one set of transport options. */
typedef struct dv_http_client dv_http_client;

/* One exchange under way or done. */
typedef struct dv_http_call dv_http_call;

typedef struct dv_http_options
{
	const char *ca_file;		/* NULL: the authorities of the system */
	const char *proxy;			/* NULL: none */
	const char *proxy_user;		/* NULL: the proxy requires no authentication */
	const char *proxy_password;
	const char *user_agent;
	int			connect_timeout_ms;
	bool		keep_cookies;	/* affinity_cookie */
	bool		allow_http;		/* permit plain http, but only to this machine */
} dv_http_options;

typedef struct dv_http_request
{
	const char *method;
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; copied */
	const char *body;			/* NULL: none; NOT copied, must outlive the call */
	size_t		body_len;
	int			timeout_ms;		/* for the whole exchange, in attended time (attention.h) */
	size_t		max_response;	/* bytes after decompression; 0: limited only by the total for all
								 * answers in memory */
	bool		no_proxy;		/* for managed identities */
	bool		plain;			/* do not ask for an answer that is compressed */
	bool		affinity;		/* send and note the affinity cookie, if cookies are kept */
	SubTransactionId subid;		/* whose rollback stops the call; 0: the current one */
} dv_http_request;

typedef enum dv_http_outcome
{
	DV_HTTP_PENDING,
	DV_HTTP_ANSWERED,			/* a complete answer, whatever its status */
	DV_HTTP_NOT_SENT,			/* no byte of the request was sent: safe to repeat */
	DV_HTTP_UNKNOWN				/* sent, at least in part, without a complete answer */
} dv_http_outcome;

typedef enum dv_http_failure
{
	DV_HTTP_NO_FAILURE,
	DV_HTTP_RESOLVE,
	DV_HTTP_CONNECT,
	DV_HTTP_TLS,
	DV_HTTP_TIMEOUT,
	DV_HTTP_RESET,
	DV_HTTP_TRUNCATED,
	DV_HTTP_TOO_LARGE,
	DV_HTTP_ENCODED,
	DV_HTTP_NO_MEMORY,
	DV_HTTP_NO_DESCRIPTOR,
	DV_HTTP_NO_DESCRIPTOR_YET,	/* other exchanges of this backend were under way */
	DV_HTTP_CANCELED,			/* by an abort, by process exit, or by dv_http_stop */
	DV_HTTP_OTHER
} dv_http_failure;

typedef struct dv_http_result
{
	dv_http_outcome outcome;
	dv_http_failure failure;
	const char *message;		/* of libcurl; "" if answered */
	int			status;
	const char *body;			/* NUL-terminated, never NULL */
	size_t		body_len;
	int64		started_at;		/* monotonic microseconds (dv_now) */
	int64		done_at;
	int64		duration;		/* microseconds, without resolving, connecting, and absences of
								 * this backend */
	int64		missed;			/* the part of these absences that the duration excludes */
	int64		unseen;			/* the answer may have come this much earlier */
	int64		bytes_sent;
	int64		bytes_received; /* on the wire, compressed */
} dv_http_result;

/* Returns whether the duration is known well enough to be compared with others. */
extern bool dv_http_is_measured(const dv_http_result *result);

extern dv_http_client *dv_http_client_create(const dv_http_options *options);

/* Ends the exchanges under way and closes the connections. */
extern void dv_http_client_free(dv_http_client *client);

/* Whether the client can start an exchange now. */
typedef enum dv_http_room
{
	DV_HTTP_ROOM,
	DV_HTTP_ROOM_LATER			/* when an exchange of this backend has ended */
} dv_http_room;

/* Requests leave some descriptors for token requests. */
extern dv_http_room dv_http_room_for(dv_http_client *client, bool token);

/* Returns the number of exchanges of this backend that have not ended. */
extern int	dv_http_under_way(void);

/*
 * Starts an exchange.  It is ended and freed when "owner" is reset or deleted,
 * or by dv_http_free, whichever comes first.  Raises an error only if memory or
 * descriptors run out, or if the URL or a header contains a control character;
 * transport failures are in the result.
 */
extern dv_http_call *dv_http_start(dv_http_client *client, const dv_http_request *request,
								   MemoryContext owner);
extern const dv_http_result *dv_http_result_of(const dv_http_call *call);

/*
 * Returns the value of the first header of that name (case-insensitive), or
 * NULL if absent.  It lives as long as the call.
 */
extern const char *dv_http_header(const dv_http_call *call, const char *name);
extern void dv_http_free(dv_http_call *call);

/* Returns true if the exchange is still waiting for its connection. */
extern bool dv_http_connecting(const dv_http_call *call);

/* Cancels the exchange; its result will say so.  The call still has to be freed. */
extern void dv_http_stop(dv_http_call *call);

/* Returns a fragment for messages, such as "could not connect". */
extern const char *dv_http_failure_name(dv_http_failure failure);

/* Returns the same, followed by libcurl's message. */
extern const char *dv_http_failure_text(const dv_http_result *result);

/* Sends and receives whatever is possible without waiting. */
extern void dv_http_drive(void);

/*
 * The same, for a backend that has done nothing but wait for the descriptor of
 * dv_http_watch since it called dv_http_watch.
 */
extern void dv_http_waited(void);

/*
 * Returns the time in microseconds that this backend has spent in the
 * extension.  Timeouts for anything but answers are measured by this clock, so
 * that they do not expire while the backend is elsewhere.
 */
extern int64 dv_http_present(void);

/*
 * Waits until data can be sent or received, the latch is set, or the time is
 * "until" (dv_now scale; 0: no limit), and then sends and receives.  Returns at
 * once if an exchange has ended since the last call.  Processes interrupts.
 * pg_stat_activity shows the wait as "wait_event_info".
 */
extern void dv_http_wait(int64 until, uint32 wait_event_info);

/*
 * For waiting in another WaitEventSet: returns a descriptor that becomes
 * readable when data can be sent or received, and at the time "until" (as
 * above), or earlier.  It is always the same descriptor.
 */
extern int	dv_http_watch(int64 until);

#endif							/* DV_HTTP_H */
