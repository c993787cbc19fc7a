/*
 * descriptor.c
 *		The file descriptors of clients: how many are allowed, and which
 *		clients give some up.
 *
 * Every descriptor is reported to PostgreSQL's fd.c before it is opened, which
 * leaves the larger part of max_files_per_process to files.  An exchange holds
 * the descriptor of its connection from its start, so a backend can start a
 * request only if it can also open a connection for it; otherwise, the request
 * waits until another one has ended (dv_http_room).
 *
 * Connections that are not in use stay open, because opening one takes time.
 * If descriptors run out, or if many clients are awake, the clients that have
 * not been used for the longest time, and have no exchanges, are put to rest:
 * their connections and their libcurl handle are closed, and opened again on
 * demand.
 *
 * If the kernel refuses a descriptor all the same, because the whole machine
 * has run out of them, the backend sends fewer requests at a time for a while
 * than it had under way then.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/fd.h"

#include "net/exchange.h"

#define MULTI_DESCRIPTORS	2	/* a pair of sockets, with which libcurl can be woken */
#define SPARE_DESCRIPTORS	2	/* kept from requests, for those of tokens */
#define CLIENTS_AWAKE		16
#define SCARCITY_LASTS		(10 * DV_SECOND)

static int64 scarce_until = 0;
static int	scarce_limit = 0;	/* requests allowed under way until then */

static int
needed_by(const dv_http_client *client)
{
	return Max(client->under_way, client->sockets) +
		(client->multi != NULL ? MULTI_DESCRIPTORS : 0);
}

static bool
is_idle(const dv_http_client *client)
{
	return client->multi != NULL && client->under_way == 0;
}

/* Puts the idle client to rest that has been unused for the longest time. */
static bool
rest_one(const dv_http_client *but)
{
	dlist_iter	c;

	dlist_reverse_foreach(c, &dv_http_clients)
	{
		dv_http_client *client = dlist_container(dv_http_client, node, c.cur);

		if (client == but || !is_idle(client))
			continue;
		dv_http_rest(client);
		return true;
	}
	return false;
}

bool
dv_http_report_descriptors(dv_http_client *client)
{
	while (client->descriptors > needed_by(client))
	{
		ReleaseExternalFD();
		client->descriptors--;
	}
	while (client->descriptors < needed_by(client))
	{
		if (AcquireExternalFD())
			client->descriptors++;
		else if (!rest_one(client))
			return false;
	}
	return true;
}

/* Returns true if the client can have that many more descriptors. */
static bool
are_left(const dv_http_client *client, int more)
{
	int			acquired = 0;
	int			i;

	while (acquired < more)
	{
		if (AcquireExternalFD())
			acquired++;
		else if (!rest_one(client))
			break;
	}
	for (i = 0; i < acquired; i++)
		ReleaseExternalFD();
	return acquired >= more;
}

int
dv_http_under_way(void)
{
	int			n = 0;
	dlist_iter	c;

	dlist_foreach(c, &dv_http_clients)
		n += dlist_container(dv_http_client, node, c.cur)->under_way;
	return n;
}

dv_http_room
dv_http_room_for(dv_http_client *client, bool token)
{
	int			under_way = dv_http_under_way();
	int			more = client->under_way + 1 + (client->multi == NULL ? MULTI_DESCRIPTORS : 0) -
	Max(client->under_way, client->sockets);

	/* the client's open connections may be to another host */
	if (token)
		more = Max(more, 1);
	if (under_way == 0)
	{
		/* dv_http_start raises an error if this is not enough */
		if (is_idle(client) && !are_left(client, 1))
			dv_http_rest(client);
		return DV_HTTP_ROOM;
	}
	if (under_way >= scarce_limit && dv_now() < scarce_until)
		return DV_HTTP_ROOM_LATER;
	if (more > 0 && !are_left(client, more + (token ? 0 : SPARE_DESCRIPTORS)))
		return DV_HTTP_ROOM_LATER;
	return DV_HTTP_ROOM;
}

/*
 * Called when the kernel has refused a descriptor.  Notes now whether other
 * requests were under way: when the result is read, all of them may have ended.
 */
static void
note_scarcity(dv_http_call *call)
{
	int			save_errno = errno;
	int			others = dv_http_under_way() - 1;

	if (save_errno != EMFILE && save_errno != ENFILE)
		return;
	scarce_limit = Max(others, 1);
	scarce_until = dv_now() + SCARCITY_LASTS;
	call->noted_failure = others > 0 ? DV_HTTP_NO_DESCRIPTOR_YET : DV_HTTP_NO_DESCRIPTOR;
	call->noted_message = save_errno == EMFILE ? "too many open files in the process" :
		"too many open files in the system";
}

curl_socket_t
dv_http_open_socket(void *call_arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	dv_http_call *call = call_arg;
	int			fd = -1;

	call->client->sockets++;
	if (!dv_http_report_descriptors(call->client))
		errno = EMFILE;
	else
		fd = socket(address->family, address->socktype, address->protocol);
	if (fd < 0)
	{
		note_scarcity(call);
		call->client->sockets--;
		(void) dv_http_report_descriptors(call->client);
		return CURL_SOCKET_BAD;
	}
	(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

int
dv_http_close_socket(void *client_arg, curl_socket_t fd)
{
	dv_http_client *client = client_arg;
	int			result = close(fd);

	dv_http_socket_closed(fd);
	client->sockets--;
	(void) dv_http_report_descriptors(client);
	return result;
}

/* Keeps clients that may never be used again from holding their connections for ever. */
static void
limit_awake(const dv_http_client *but)
{
	int			awake = 0;
	dlist_iter	c;

	dlist_foreach(c, &dv_http_clients)
		awake += is_idle(dlist_container(dv_http_client, node, c.cur));
	while (awake > CLIENTS_AWAKE && rest_one(but))
		awake--;
}

bool
dv_http_wake(dv_http_client *client)
{
	dlist_move_head(&dv_http_clients, &client->node);
	if (client->multi != NULL)
		return true;
	limit_awake(client);
	client->multi = curl_multi_init();
	if (client->multi == NULL)
		return false;
	dv_http_set_up_multi(client);
	return true;
}

void
dv_http_rest(dv_http_client *client)
{
	Assert(client->under_way == 0);
	while (client->nidle > 0)
		curl_easy_cleanup(client->idle[--client->nidle]);
	if (client->multi != NULL)
		curl_multi_cleanup(client->multi);
	client->multi = NULL;
	client->timer_at = 0;
	(void) dv_http_report_descriptors(client);
}
