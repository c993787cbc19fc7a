/*
 * wire.c
 *		Bytes and time: libmicrohttpd, the loop, answers that wait.
 *
 * One thread.  libmicrohttpd reads and writes sockets when the loop lets it
 * (MHD_run) and reports its interest through one epoll descriptor.  A request
 * is answered when all of it has arrived.  If the answer must wait, its
 * connection is suspended and the request goes into a heap by due time; then
 * the loop resumes it, libmicrohttpd calls the handler once more, and the
 * answer is queued.  Due times are virtual, so a jump of the clock releases
 * waiting answers.
 *
 * libmicrohttpd does not watch suspended connections.  A second epoll
 * descriptor watches whether their clients disconnect, so that a client that
 * gives up frees its place in the limits at once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE				/* ppoll */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "wire/canned.h"
#include "wire/request.h"
#include "wire/wire.h"

#define BACKLOG 1024
#define MAX_CONNECTIONS 8192
#define IDLE_SECONDS 240

/* enough for a URL of well over 32,768 characters and its headers */
#define CONNECTION_MEMORY (128 * 1024)
#define CONNECTION_MEMORY_STEP (16 * 1024)

/* a longer body is not read to its end */
#define HOPELESS_BODY (INT64_C(1) << 30)
#define FIRST_RESERVE (4 << 20)

#define NOT_HELD SIZE_MAX

struct connection
{
	struct sim_wire *wire;
	struct MHD_Connection *mhd;
	struct sim_exchange exchange;
	struct sim_buf body;
	bool		begun;			/* the handler has seen the headers */
	bool		served;
	bool		gone;			/* the client hung up while the answer waited */
	bool		watched;
	size_t		heap_at;		/* position among those that wait, or NOT_HELD */
	int64_t		due_us;
};

struct sim_listener
{
	struct MHD_Daemon *daemon;
	int			socket;
	int			epoll;			/* libmicrohttpd's */
	int			watch;			/* suspended connections */
	struct connection **heap;	/* earliest due first */
	size_t		nheap;
	size_t		heap_cap;
};

static bool
earlier(const struct sim_listener *listener, size_t a, size_t b)
{
	return listener->heap[a]->due_us < listener->heap[b]->due_us;
}

static void
heap_swap(struct sim_listener *listener, size_t a, size_t b)
{
	struct connection *moved = listener->heap[a];

	listener->heap[a] = listener->heap[b];
	listener->heap[b] = moved;
	listener->heap[a]->heap_at = a;
	listener->heap[b]->heap_at = b;
}

static void
heap_sift(struct sim_listener *listener, size_t at)
{
	while (at > 0 && earlier(listener, at, (at - 1) / 2))
	{
		heap_swap(listener, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
	for (;;)
	{
		size_t		child = at * 2 + 1;

		if (child >= listener->nheap)
			return;
		if (child + 1 < listener->nheap && earlier(listener, child + 1, child))
			child++;
		if (!earlier(listener, child, at))
			return;
		heap_swap(listener, at, child);
		at = child;
	}
}

static void
heap_add(struct sim_listener *listener, struct connection *connection)
{
	if (listener->nheap == listener->heap_cap)
	{
		listener->heap_cap = listener->heap_cap ? listener->heap_cap * 2 : 64;
		listener->heap = sim_xrealloc(listener->heap,
									  sizeof(struct connection *) * listener->heap_cap);
	}
	connection->heap_at = listener->nheap;
	listener->heap[listener->nheap++] = connection;
	heap_sift(listener, connection->heap_at);
}

static void
heap_remove(struct sim_listener *listener, struct connection *connection)
{
	size_t		at = connection->heap_at;

	listener->nheap--;
	if (at != listener->nheap)
	{
		heap_swap(listener, at, listener->nheap);
		heap_sift(listener, at);
	}
	connection->heap_at = NOT_HELD;
}

static int
socket_of(struct connection *connection)
{
	const union MHD_ConnectionInfo *info =
	MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* suspends the connection until its answer is due */
static void
hold(struct connection *connection, int64_t due_us)
{
	struct sim_listener *listener = connection->wire->listener;
	struct epoll_event event = {.events = EPOLLRDHUP,.data.ptr = connection};

	connection->due_us = due_us;
	heap_add(listener, connection);
	connection->watched =
		epoll_ctl(listener->watch, EPOLL_CTL_ADD, socket_of(connection), &event) == 0;
	MHD_suspend_connection(connection->mhd);
}

static void
unwatch(struct connection *connection)
{
	if (connection->watched)
		epoll_ctl(connection->wire->listener->watch, EPOLL_CTL_DEL, socket_of(connection), NULL);
	connection->watched = false;
}

/* libmicrohttpd will call the handler again */
static void
release(struct connection *connection, bool gone)
{
	connection->gone = gone;
	unwatch(connection);
	heap_remove(connection->wire->listener, connection);
	MHD_resume_connection(connection->mhd);
}

/* resets the connection at once */
static enum MHD_Result
reset(struct connection *connection)
{
	struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	connect(socket_of(connection), &nowhere, sizeof(nowhere));
	return MHD_NO;
}

static ssize_t
truncated_reader(void *cls, uint64_t position, char *out, size_t max)
{
	struct sim_exchange *exchange = cls;
	size_t		left;

	if (position >= exchange->truncate_at)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	left = exchange->truncate_at - (size_t) position;
	if (left > max)
		left = max;
	memcpy(out, exchange->res.body.s + position, left);
	return (ssize_t) left;
}

static struct MHD_Response *
make_response(struct connection *connection)
{
	struct sim_exchange *exchange = &connection->exchange;
	struct sim_buf *body = &exchange->res.body;

	if (exchange->ending == SIM_TRUNCATE && exchange->truncate_at < body->len)
		return MHD_create_response_from_callback(body->len, 32 * 1024, truncated_reader, exchange,
												 NULL);
	return MHD_create_response_from_buffer(body->len, body->s ? body->s : "",
										   MHD_RESPMEM_PERSISTENT);
}

/* by the clock that also stamps rows; libmicrohttpd would use the machine's */
static void
add_date(const struct sim *sim, struct MHD_Response *response)
{
	time_t		now = (time_t) sim_unix_now(sim);
	struct tm	tm;
	char		date[40];

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	MHD_add_response_header(response, "Date", date);
}

/* sends the answer, or tears the connection down */
static enum MHD_Result
answer(struct connection *connection)
{
	struct sim_exchange *exchange = &connection->exchange;
	const struct sim_pairs *lists[] = {&exchange->head, &exchange->res.headers};
	struct MHD_Response *response;
	enum MHD_Result queued;
	bool		sent = !connection->gone &&
	(exchange->ending == SIM_ANSWER || exchange->ending == SIM_TRUNCATE);

	sim_serve_end(connection->wire, exchange, sent);
	if (!sent)
		return connection->gone ? MHD_NO : reset(connection);
	response = make_response(connection);
	if (response == NULL)
		return MHD_NO;
	add_date(connection->wire->sim, response);
	if (exchange->res.content_type != NULL && exchange->res.body.len > 0)
		MHD_add_response_header(response, "Content-Type", exchange->res.content_type);
	for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++)
	{
		for (int i = 0; i < lists[list]->n; i++)
			MHD_add_response_header(response, lists[list]->items[i].name,
									lists[list]->items[i].value);
	}
	queued = MHD_queue_response(connection->mhd, (unsigned int) exchange->res.status, response);
	MHD_destroy_response(response);
	return queued;
}

/* called by libmicrohttpd with the target as written on the request line */
static void *
request_begins(void *cls, const char *target, struct MHD_Connection *mhd)
{
	struct connection *connection = sim_xalloc(sizeof(*connection));

	connection->wire = cls;
	connection->mhd = mhd;
	connection->heap_at = NOT_HELD;
	connection->exchange.req.arena = sim_arena_new();
	connection->exchange.req.target = sim_strdup(connection->exchange.req.arena, target);
	return connection;
}

static void
request_ends(void *cls, struct MHD_Connection *mhd, void **con_cls,
			 enum MHD_RequestTerminationCode code)
{
	struct connection *connection = *con_cls;

	(void) cls;
	(void) mhd;
	(void) code;
	if (connection == NULL)
		return;
	if (connection->heap_at != NOT_HELD)
	{
		unwatch(connection);
		heap_remove(connection->wire->listener, connection);
	}
	sim_serve_end(connection->wire, &connection->exchange, false);
	sim_buf_free(&connection->body);
	sim_buf_free(&connection->exchange.res.body);
	sim_arena_free(connection->exchange.req.arena);
	free(connection);
	*con_cls = NULL;
}

/* the strings live in libmicrohttpd until the request ends */
static enum MHD_Result
take_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct connection *connection = cls;

	(void) kind;
	sim_pair_borrow(connection->exchange.req.arena, &connection->exchange.req.headers, name,
					value ? value : "");
	return MHD_YES;
}

static enum MHD_Result
begin(struct connection *connection, const char *method)
{
	struct sim_exchange *exchange = &connection->exchange;
	struct sim_req *req = &exchange->req;
	const char *length;
	long long	expected;

	connection->begun = true;
	req->method = sim_strdup(req->arena, method);
	MHD_get_connection_values(connection->mhd, MHD_HEADER_KIND, take_header, connection);
	length = sim_header(req, "Content-Length");
	expected = length ? strtoll(length, NULL, 10) : 0;
	if (expected > SIM_MAX_BODY)
		exchange->too_large = true;
	else if (expected > 0)
		sim_buf_reserve(&connection->body,
						expected < FIRST_RESERVE ? (size_t) expected : FIRST_RESERVE);
	if (expected <= HOPELESS_BODY)
		return MHD_YES;
	connection->served = true;
	req->body = sim_strdup(req->arena, "");
	sim_serve(connection->wire, exchange);
	return answer(connection);
}

static void
take_body(struct connection *connection, const char *data, size_t len)
{
	if (connection->exchange.too_large)
		return;
	if (connection->body.len + len > (size_t) SIM_MAX_BODY)
	{
		connection->exchange.too_large = true;
		sim_buf_free(&connection->body);
		return;
	}
	sim_put(&connection->body, data, len);
}

static enum MHD_Result
handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
	   const char *version, const char *data, size_t *len, void **con_cls)
{
	struct connection *connection = *con_cls;
	struct sim_exchange *exchange = &connection->exchange;

	(void) cls;
	(void) mhd;
	(void) url;
	(void) version;
	if (!connection->begun)
		return begin(connection, method);
	if (*len > 0)
	{
		take_body(connection, data, *len);
		*len = 0;
		return MHD_YES;
	}
	if (connection->served)
		return answer(connection);
	connection->served = true;
	exchange->req.body = connection->body.s ? connection->body.s : sim_strdup(exchange->req.arena,
																			  "");
	exchange->req.body_len = connection->body.len;
	sim_serve(connection->wire, exchange);
	if (exchange->ending == SIM_NEVER)
		hold(connection, INT64_MAX);
	else if (exchange->due_us > sim_now_us(connection->wire->sim))
		hold(connection, exchange->due_us);
	else
		return answer(connection);
	return MHD_YES;
}

/* paths are decoded by the code that interprets them */
static size_t
keep_escapes(void *cls, struct MHD_Connection *mhd, char *s)
{
	(void) cls;
	(void) mhd;
	return strlen(s);
}

static int
open_socket(const char *host, int port, int *bound)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *addresses;
	struct sockaddr_storage address;
	socklen_t	len = sizeof(address);
	char		service[16];
	int			on = 1;
	int			s;
	int			error;

	snprintf(service, sizeof(service), "%d", port);
	error = getaddrinfo(host, service, &hints, &addresses);
	if (error != 0)
	{
		fprintf(stderr, "dvsim: cannot resolve \"%s\": %s\n", host, gai_strerror(error));
		return -1;
	}
	s = socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s >= 0)
	{
		/* accepted connections inherit both */
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	if (s < 0 || bind(s, addresses->ai_addr, addresses->ai_addrlen) != 0 ||
		listen(s, BACKLOG) != 0 || getsockname(s, (struct sockaddr *) &address, &len) != 0)
	{
		fprintf(stderr, "dvsim: cannot listen on %s port %d: %s\n", host, port, strerror(errno));
		if (s >= 0)
			close(s);
		s = -1;
	}
	else if (address.ss_family == AF_INET6)
		*bound = ntohs(((struct sockaddr_in6 *) &address)->sin6_port);
	else
		*bound = ntohs(((struct sockaddr_in *) &address)->sin_port);
	freeaddrinfo(addresses);
	return s;
}

/* permits a socket for each possible connection */
static void
raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

bool
sim_wire_listen(struct sim_wire *wire, const char *host, int port, const char *key_pem,
				const char *certificate_pem, int *bound)
{
	struct sim_listener *listener = sim_xalloc(sizeof(*listener));
	unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
	MHD_USE_SUPPRESS_DATE_NO_CLOCK;
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_URI_LOG_CALLBACK, (intptr_t) request_begins, wire},
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t) request_ends, NULL},
		{MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t) keep_escapes, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_INCREMENT, CONNECTION_MEMORY_STEP, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, NULL},
		{MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
		{MHD_OPTION_END, 0, NULL},
		{MHD_OPTION_END, 0, NULL},
		{MHD_OPTION_END, 0, NULL},
	};

	wire->listener = listener;
	listener->watch = -1;
	raise_file_limit();
	listener->socket = open_socket(host, port, bound);
	if (listener->socket < 0)
		return false;
	if (key_pem != NULL)
	{
		flags |= MHD_USE_TLS;
		options[8] = (struct MHD_OptionItem)
		{
			MHD_OPTION_HTTPS_MEM_KEY, 0, (void *) key_pem
		};
		options[9] = (struct MHD_OptionItem)
		{
			MHD_OPTION_HTTPS_MEM_CERT, 0,
				(void *) certificate_pem
		};
	}
	listener->watch = epoll_create1(EPOLL_CLOEXEC);
	listener->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, wire,
										MHD_OPTION_LISTEN_SOCKET, listener->socket,
										MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (listener->watch < 0 || listener->daemon == NULL)
	{
		fprintf(stderr, "dvsim: libmicrohttpd does not start%s\n",
				key_pem ? "; was it built with TLS?" : "");
		return false;
	}
	listener->epoll =
		MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	return true;
}

static void
note_hang_ups(struct sim_listener *listener)
{
	struct epoll_event events[64];
	int			n = epoll_wait(listener->watch, events, 64, 0);

	for (int i = 0; i < n; i++)
		release(events[i].data.ptr, true);
}

/* An answer becomes due when the capacity has carried its request out, unless it never comes. */
static void
schedule_carried_out(struct sim_wire *wire)
{
	struct sim_exchange *exchange;

	while ((exchange = sim_serve_carried_out(wire)) != NULL)
	{
		struct connection *connection = (struct connection *)
		((char *) exchange - offsetof(struct connection, exchange));

		if (exchange->ending == SIM_NEVER || connection->heap_at == NOT_HELD)
			continue;
		connection->due_us = exchange->due_us;
		heap_sift(wire->listener, connection->heap_at);
	}
}

static void
release_due(struct sim_wire *wire)
{
	struct sim_listener *listener = wire->listener;
	int64_t		now;

	schedule_carried_out(wire);
	if (listener->nheap == 0)
		return;
	now = sim_now_us(wire->sim);
	while (listener->nheap > 0 && listener->heap[0]->due_us <= now)
		release(listener->heap[0], false);
}

/* in microseconds */
static double
real_time_until(const struct sim_wire *wire, int64_t virtual_us)
{
	if (virtual_us == INT64_MAX)
		return HUGE_VAL;
	return fmax(ceil((double) (virtual_us - sim_now_us(wire->sim)) / wire->sim->time_scale), 0);
}

/* returns how long nothing will happen */
static void
idle_time(struct sim_wire *wire, struct timespec *idle)
{
	struct sim_listener *listener = wire->listener;
	MHD_UNSIGNED_LONG_LONG ms;
	double		us = HUGE_VAL;

	if (MHD_get_timeout(listener->daemon, &ms) == MHD_YES)
		us = (double) ms * 1000;
	if (listener->nheap > 0)
		us = fmin(us, real_time_until(wire, listener->heap[0]->due_us));
	us = fmin(us, real_time_until(wire, sim_late_due(wire)));
	us = fmin(us, real_time_until(wire, sim_capacity_next(&wire->capacity)));
	if (us > 3600e6)
		us = 3600e6;
	idle->tv_sec = (time_t) (us / 1e6);
	idle->tv_nsec = (long) (fmod(us, 1e6) * 1000);
}

void
sim_wire_run(struct sim_wire *wire, const volatile sig_atomic_t * stop, const sigset_t *mask)
{
	struct sim_listener *listener = wire->listener;
	struct pollfd fds[] = {
		{.fd = listener->epoll, .events = POLLIN},
		{.fd = listener->watch, .events = POLLIN},
	};
	struct timespec idle;

	while (!*stop)
	{
		idle_time(wire, &idle);
		if (idle.tv_sec > 0 || idle.tv_nsec > 0)
			sim_journal_flush(wire->journal);
		if (ppoll(fds, 2, &idle, mask) > 0 && fds[1].revents != 0)
			note_hang_ups(listener);
		release_due(wire);
		sim_late_run(wire);
		MHD_run(listener->daemon);
	}
}

static void
listener_free(struct sim_listener *listener)
{
	if (listener->daemon != NULL)
	{
		/* the daemon must not be stopped while connections are suspended */
		while (listener->nheap > 0)
			release(listener->heap[0], true);
		MHD_run(listener->daemon);
		MHD_stop_daemon(listener->daemon);
	}
	else if (listener->socket >= 0)
		close(listener->socket);
	if (listener->watch >= 0)
		close(listener->watch);
	free(listener->heap);
	free(listener);
}

void
sim_wire_free(struct sim_wire *wire)
{
	if (wire->listener != NULL)
		listener_free(wire->listener);
	sim_late_clear(wire);
	sim_capacity_free(&wire->capacity);
	sim_answer_cleanup();
	sim_faults_clear(&wire->faults);
	sim_auth_free(wire->auth);
	if (wire->journal != NULL)
		sim_journal_close(wire->journal);
	free(wire->limits);
	free(wire->affinity);
	free(wire->cookie_client);
	free(wire->cookie_organization);
	wire->sim->faults = NULL;
	if (wire->sim->canned != NULL)
		sim_canned_free(wire->sim->canned);
	wire->sim->canned = NULL;
	free(wire);
}
