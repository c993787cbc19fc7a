/*
 * exchange.h
 *		Exchanges and clients; the interface of http.c, drive.c, and
 *		descriptor.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_EXCHANGE_H
#define DV_EXCHANGE_H

#include <curl/curl.h>

#include "lib/ilist.h"

#include "net/attention.h"
#include "net/http.h"
#include "net/inbox.h"
#include "net/transport.h"

#define DV_IDLE_HANDLES		16
#define DV_COOKIE_SIZE		512

struct dv_http_client
{
	dlist_node	node;			/* in dv_http_clients; the last one used is the first */
	CURLM	   *multi;			/* NULL while the client rests */
	int64		timer_at;		/* when libcurl wants to be called; 0: not at all */
	dlist_head	calls;
	int			under_way;		/* exchanges that have not ended */
	int			sockets;		/* that are open */
	int			descriptors;	/* that have been reported to fd.c */
	CURL	   *idle[DV_IDLE_HANDLES];	/* easy handles to be reused */
	int			nidle;
	int			connect_timeout_ms;
	bool		allow_http;
	bool		keep_cookie;
	char		cookie[DV_COOKIE_SIZE]; /* "name=value", or "" if there is none */
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
	bool		once;			/* it must not be sent twice */
	bool		begun;			/* there was a connection, and sending began */
	bool		keep_cookie;
	int			timeout_ms;
	int64		connect_by;		/* deadlines, in attended time */
	int64		answer_by;
	int64		missed;			/* of dv_attention, when the exchange began */
	dv_inbox	inbox;
	dv_http_failure noted_failure;	/* takes precedence over libcurl's code, */
	const char *noted_message;	/* and this over its message; a constant, or NULL */
	char		message[CURL_ERROR_SIZE];
	dv_http_result result;
};

/* http.c */
extern dlist_head dv_http_clients;
extern void dv_http_finish(dv_http_call *call, CURLcode code);

/* Returns the timeout for libcurl of a call that is "since" microseconds old, in milliseconds. */
extern long dv_http_connect_limit(int connect_timeout_ms, int64 since);

/* Ends the exchange for a reason of ours. */
extern void dv_http_fail(dv_http_call *call, dv_http_failure failure, const char *message);

/* drive.c */
extern dv_attention dv_http_attention;

/* Called on first use in a backend.  Raises an error if that fails. */
extern void dv_http_initialize(void);
extern void dv_http_set_up_multi(dv_http_client *client);
extern void dv_http_socket_closed(int fd);

/* descriptor.c */

/*
 * Gives the client a libcurl handle if it has none.  Returns false if there is
 * no memory or no descriptor for it.
 */
extern bool dv_http_wake(dv_http_client *client);

/* Closes the connections of a client without exchanges, until it is used again. */
extern void dv_http_rest(dv_http_client *client);

/*
 * Reports as many descriptors to fd.c as the client needs: one for each exchange
 * or each open socket, whichever are more, and those of libcurl's handle.
 * Returns false if too few are left, after it has put other clients to rest.
 */
extern bool dv_http_report_descriptors(dv_http_client *client);

extern curl_socket_t dv_http_open_socket(void *call_arg, curlsocktype purpose,
										 struct curl_sockaddr *address);
extern int	dv_http_close_socket(void *client_arg, curl_socket_t fd);

#endif							/* DV_EXCHANGE_H */
