/*
 * mux.c
 *		Many sockets and one timer behind one descriptor: epoll with a
 *		timerfd, or kqueue.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/mux.h"

#define MAX_EVENTS 64

static int	mux = -1;

#ifdef __linux__

#include <sys/epoll.h>
#include <sys/timerfd.h>

static int	timer = -1;

int
dv_mux_open(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	mux = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	event.data.fd = timer;
	if (mux < 0 || timer < 0 || epoll_ctl(mux, EPOLL_CTL_ADD, timer, &event) != 0)
	{
		int			save_errno = errno;

		dv_mux_close();
		errno = save_errno;
	}
	return mux;
}

void
dv_mux_close(void)
{
	if (timer >= 0)
		close(timer);
	if (mux >= 0)
		close(mux);
	timer = mux = -1;
}

bool
dv_mux_set(int fd, int events, bool known)
{
	struct epoll_event event = {0};

	if (events & DV_MUX_READ)
		event.events |= EPOLLIN;
	if (events & DV_MUX_WRITE)
		event.events |= EPOLLOUT;
	event.data.fd = fd;
	if (events == 0)
		/* a socket that was closed is no longer in the set */
		return !known || epoll_ctl(mux, EPOLL_CTL_DEL, fd, &event) == 0 ||
			errno == ENOENT || errno == EBADF;
	if (epoll_ctl(mux, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0)
		return true;
	/* libcurl may close a descriptor and reopen the same number without telling us */
	if (errno == ENOENT || errno == EEXIST)
		return epoll_ctl(mux, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0;
	return false;
}

bool
dv_mux_timer(int64_t delay)
{
	struct itimerspec spec = {0};

	spec.it_value.tv_sec = delay / DV_SECOND;
	spec.it_value.tv_nsec = delay % DV_SECOND * 1000;
	if (delay == 0)
		spec.it_value.tv_nsec = 1;	/* zero would disarm the timer */
	return timerfd_settime(timer, 0, &spec, NULL) == 0;
}

int
dv_mux_poll(dv_mux_event *events, int n)
{
	struct epoll_event ready[MAX_EVENTS];
	int			count;
	int			i;

	count = epoll_wait(mux, ready, n < MAX_EVENTS ? n : MAX_EVENTS, 0);
	if (count < 0)
		return errno == EINTR ? 0 : -1;
	for (i = 0; i < count; i++)
	{
		events[i].fd = ready[i].data.fd;
		events[i].ready = 0;
		if (ready[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
			events[i].ready |= DV_MUX_READ;
		if (ready[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			events[i].ready |= DV_MUX_WRITE;
		if (ready[i].data.fd == timer)
		{
			uint64_t	expirations;

			events[i].fd = -1;
			if (read(timer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
				return -1;
		}
	}
	return count;
}

#else							/* kqueue */

#include <sys/types.h>
#include <sys/event.h>
#include <sys/time.h>

#define TIMER_IDENT 1

int
dv_mux_open(void)
{
	mux = kqueue();
	return mux;
}

void
dv_mux_close(void)
{
	if (mux >= 0)
		close(mux);
	mux = -1;
}

static bool
change(int fd, int filter, bool wanted)
{
	struct kevent event;

	EV_SET(&event, fd, filter, wanted ? EV_ADD : EV_DELETE, 0, 0, NULL);
	if (kevent(mux, &event, 1, NULL, 0, NULL) == 0)
		return true;
	return !wanted && (errno == ENOENT || errno == EBADF);
}

bool
dv_mux_set(int fd, int events, bool known)
{
	(void) known;
	return change(fd, EVFILT_READ, (events & DV_MUX_READ) != 0) &&
		change(fd, EVFILT_WRITE, (events & DV_MUX_WRITE) != 0);
}

bool
dv_mux_timer(int64_t delay)
{
	struct kevent event;

	EV_SET(&event, TIMER_IDENT, EVFILT_TIMER, EV_ADD | EV_ONESHOT, 0,
		   (delay + DV_MILLISECOND - 1) / DV_MILLISECOND, NULL);
	return kevent(mux, &event, 1, NULL, 0, NULL) == 0;
}

int
dv_mux_poll(dv_mux_event *events, int n)
{
	struct kevent ready[MAX_EVENTS];
	struct timespec none = {0, 0};
	int			count;
	int			i;

	count = kevent(mux, NULL, 0, ready, n < MAX_EVENTS ? n : MAX_EVENTS, &none);
	if (count < 0)
		return errno == EINTR ? 0 : -1;
	for (i = 0; i < count; i++)
	{
		bool		failed = (ready[i].flags & EV_ERROR) != 0;

		events[i].fd = ready[i].filter == EVFILT_TIMER ? -1 : (int) ready[i].ident;
		events[i].ready = 0;
		if (ready[i].filter == EVFILT_READ || failed)
			events[i].ready |= DV_MUX_READ;
		if (ready[i].filter == EVFILT_WRITE || failed)
			events[i].ready |= DV_MUX_WRITE;
	}
	return count;
}

#endif
