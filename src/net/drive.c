/*
 * drive.c
 *		Drives the exchanges of one backend: sockets, timers, deadlines, and
 *		waiting.
 *
 * All sockets of all clients sit in the mux, and one WaitEventSet watches the
 * mux together with the latch and the postmaster.
 *
 * The deadlines of exchanges are ours, not libcurl's.  libcurl looks at the
 * clock before it looks at the socket, so after a pause it would report a
 * timeout although the answer has arrived.  We read the sockets first, then
 * move on the clock of attention.h, and only then end the exchanges whose
 * deadline has passed.
 *
 * libcurl still has a timeout for connecting, because it divides this time
 * among the addresses of a host.  It is a little longer than ours, and is
 * extended after a pause.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <signal.h>

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "compat.h"
#include "net/exchange.h"
#include "net/mux.h"
#include "net/xact.h"

#define MAX_EVENTS			64
#define MUX_DESCRIPTORS		2	/* the mux and its timer */

dv_attention dv_http_attention;

static bool initialized = false;
static int	owner_pid = 0;
static int	mux_fd = -1;
static WaitEventSet *wait_set = NULL;
static dv_http_client **sockets = NULL; /* by descriptor */
static int	nsockets = 0;
static int64 timer_at = 0;		/* when the timer of the mux goes off; 0: it is not set */
static bool news = false;		/* an exchange has ended since dv_http_wait or dv_http_watch last
								 * returned */

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
		dv_http_socket_closed(fd);
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

void
dv_http_set_up_multi(dv_http_client *client)
{
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
}

void
dv_http_socket_closed(int fd)
{
	if (fd < nsockets)
		sockets[fd] = NULL;
}

/*
 * Beginning and end.
 */

static void
on_exit_close(int code, Datum arg)
{
	if (owner_pid != MyProcPid)
		return;
	while (!dlist_is_empty(&dv_http_clients))
		dv_http_client_free(dlist_head_element(dv_http_client, node, &dv_http_clients));
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

/* This never runs in the postmaster, because libcurl does not survive a fork. */
void
dv_http_initialize(void)
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
	on_proc_exit(on_exit_close, (Datum) 0);
	dv_http_attention.looked_at = dv_now();
	dv_http_attention.present = 1;	/* so that callers can let 0 mean no time at all */
	owner_pid = MyProcPid;
	initialized = true;
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

/* Returns true if any socket was ready. */
static bool
drive_sockets(void)
{
	dv_mux_event events[MAX_EVENTS];
	bool		found = false;
	int			seen = 0;
	int			n;
	int			i;

	/* sockets that are always ready must not keep the backend in this loop */
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

			if (fd < 0)
				timer_at = 0;
			/* an earlier event of this round may have closed it */
			if (fd < 0 || fd >= nsockets || sockets[fd] == NULL)
				continue;
			if (events[i].ready & DV_MUX_READ)
				ready |= CURL_CSELECT_IN;
			if (events[i].ready & DV_MUX_WRITE)
				ready |= CURL_CSELECT_OUT;
			act(sockets[fd], fd, ready);
			found = true;
		}
		seen += n;
	} while (n == MAX_EVENTS && seen < nsockets);
	return found;
}

/* Returns true if libcurl wanted to be called, possibly for data that it has read before. */
static bool
drive_timers(void)
{
	bool		found = false;
	dlist_iter	c;

	dlist_foreach(c, &dv_http_clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);

		if (client->multi == NULL || client->timer_at == 0 || client->timer_at > dv_now())
			continue;
		client->timer_at = 0;
		act(client, CURL_SOCKET_TIMEOUT, 0);
		found = true;
	}
	return found;
}

static void
collect_finished(dv_http_client *client)
{
	CURLMsg    *message;
	int			left;

	while (client->multi != NULL &&
		   (message = curl_multi_info_read(client->multi, &left)) != NULL)
	{
		dv_http_call *call = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &call);
		dv_http_finish(call, message->data.result);
		news = true;
	}
}

/* Returns the deadline of the exchange in attended time. */
static int64
deadline_of(const dv_http_call *call)
{
	return dv_http_connecting(call) ? Min(call->connect_by, call->answer_by) : call->answer_by;
}

static void
end_overdue(dv_http_client *client)
{
	char		message[64];
	dlist_iter	iter;

	dlist_foreach(iter, &client->calls)
	{
		dv_http_call *call = dlist_container(dv_http_call, node, iter.cur);

		if (call->easy == NULL || deadline_of(call) > dv_http_attention.attended)
			continue;
		if (dv_http_connecting(call) && call->connect_by <= call->answer_by)
			snprintf(message, sizeof(message), "no connection after %g s",
					 client->connect_timeout_ms / 1000.0);
		else
			snprintf(message, sizeof(message), "no complete answer after %g s",
					 call->timeout_ms / 1000.0);
		dv_http_fail(call, DV_HTTP_TIMEOUT, message);
		news = true;
	}
}

/* Keeps libcurl from giving up a connection after a pause. */
static void
extend_connect_timeouts(void)
{
	int64		now = dv_now();
	dlist_iter	c;

	if (now - dv_http_attention.looked_at < DV_SHORT_ABSENCE)
		return;
	dlist_foreach(c, &dv_http_clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);
		dlist_iter	iter;

		dlist_foreach(iter, &client->calls)
		{
			dv_http_call *call = dlist_container(dv_http_call, node, iter.cur);

			if (call->easy != NULL && dv_http_connecting(call))
				curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS,
								 dv_http_connect_limit(client->connect_timeout_ms,
													   now - call->result.started_at));
		}
	}
}

/*
 * Sets the timer of the mux to the next deadline, to when libcurl wants to be
 * called, or to "until" (0: never), whichever is first.  The timer is part of
 * the mux so that it also wakes a WaitEventSet that watches only the
 * descriptor of the mux.  A timer that goes off earlier is left as it is: waking
 * once too often costs less than setting it before each wait.
 */
static void
set_timer(int64 until)
{
	int64		next = until != 0 ? until : PG_INT64_MAX;
	dlist_iter	c;

	dlist_foreach(c, &dv_http_clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);
		dlist_iter	iter;

		if (client->timer_at != 0)
			next = Min(next, client->timer_at);
		dlist_foreach(iter, &client->calls)
		{
			const dv_http_call *call = dlist_container(dv_http_call, node, iter.cur);

			if (call->easy != NULL)
				next = Min(next, dv_attention_due(&dv_http_attention, deadline_of(call)));
		}
	}
	if (next == PG_INT64_MAX || (timer_at != 0 && timer_at <= next))
		return;
	if (!dv_mux_timer(Max(next - dv_now(), 0)))
		ereport(ERROR,
				(errcode_for_socket_access(),
				 errmsg("could not set a timer: %m")));
	timer_at = next;
}

static void
drive(bool waited)
{
	bool		found;
	dlist_iter	c;

	extend_connect_timeouts();
	found = drive_sockets();
	found = drive_timers() || found;
	dv_attention_look(&dv_http_attention, waited, found, dv_now());
	dlist_foreach(c, &dv_http_clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);

		collect_finished(client);
		end_overdue(client);
	}
}

void
dv_http_drive(void)
{
	if (initialized)
		drive(false);
}

void
dv_http_waited(void)
{
	if (initialized)
		drive(true);
}

int64
dv_http_present(void)
{
	return dv_http_attention.present;
}

int
dv_http_watch(int64 until)
{
	dv_http_initialize();
	/* what has ended while requests were sent leaves nothing on the descriptor to wait for */
	if (news)
		until = dv_now();
	news = false;
	set_timer(until);
	if (until != 0)
		dv_attention_expect(&dv_http_attention, until);
	return mux_fd;
}

void
dv_http_wait(int64 until, uint32 wait_event_info)
{
	WaitEvent	event;
	long		timeout = -1;

	dv_http_initialize();
	dv_http_drive();
	if (!news)
	{
		if (until != 0)
			timeout = Min(Max((until - dv_now() + DV_MILLISECOND - 1) / DV_MILLISECOND, 0), INT_MAX);
		set_timer(0);
		if (timeout != 0 &&
			WaitEventSetWait(wait_set, timeout, &event, 1, wait_event_info) == 1 &&
			(event.events & WL_LATCH_SET) != 0)
			ResetLatch(MyLatch);
		drive(true);
	}
	news = false;
	CHECK_FOR_INTERRUPTS();
}
