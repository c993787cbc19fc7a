/*
 * mux.h
 *		Many sockets and one timer behind one descriptor.
 *
 * A socket cannot be removed from PostgreSQL's WaitEventSet, and libcurl opens
 * and closes sockets as it likes.  Therefore libcurl's sockets are added to an
 * epoll or kqueue descriptor of ours, and the backend waits on that one
 * descriptor.  It becomes readable when any socket is ready or the timer is
 * due.
 *
 * On failure, these functions return false (or -1) and set errno.  None of
 * them raises an error.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_MUX_H
#define DV_MUX_H

#include <stdbool.h>
#include <stdint.h>

#define DV_MUX_READ		1
#define DV_MUX_WRITE	2

typedef struct dv_mux_event
{
	int			fd;				/* -1: the timer */
	int			ready;			/* DV_MUX_READ, DV_MUX_WRITE; both on errors */
} dv_mux_event;

/* Opens the only mux of this process.  Returns the descriptor to wait on, or -1. */
extern int	dv_mux_open(void);
extern void dv_mux_close(void);

/* Sets the events to watch on a socket; 0 removes it.  "known" means that it was set before. */
extern bool dv_mux_set(int fd, int events, bool known);

/* Sets the timer to microseconds from now; 0 means at once. */
extern bool dv_mux_timer(int64_t delay);

/* Gets up to n events that are ready now, without waiting.  Returns their number, or -1. */
extern int	dv_mux_poll(dv_mux_event *events, int n);

#endif							/* DV_MUX_H */
