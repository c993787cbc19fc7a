/*-------------------------------------------------------------------------
 *
 * mux.h
 *		Many sockets and one timer behind one descriptor.
 *
 * PostgreSQL's WaitEventSet cannot forget a socket, and libcurl opens and
 * closes them as it likes.  So libcurl's sockets go into an epoll or kqueue
 * descriptor of ours, and that one descriptor is what the backend waits on;
 * it becomes readable when any socket is ready or the timer is due.
 *
 * Functions return false (or -1) with errno set; none raises.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
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

/* One for each process; the descriptor to wait on, or -1. */
extern int	dv_mux_open(void);
extern void dv_mux_close(void);

/* Which events of a socket are of interest; 0 forgets it.  "known": it was set before. */
extern bool dv_mux_set(int fd, int events, bool known);

/* Microseconds from now; 0: at once; < 0: no timer. */
extern bool dv_mux_timer(int64_t delay);

/* What is ready now, without waiting; at most n events; -1 on failure. */
extern int	dv_mux_poll(dv_mux_event *events, int n);

#endif							/* DV_MUX_H */
