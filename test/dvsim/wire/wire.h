/*
 * wire.h
 *		The simulator as a server: the state that all requests share, and one
 *		request from its bytes to those of the answer.
 *
 * wire.c moves bytes and time; service.c determines the answers; token.c and
 * control.c serve the other addresses on the same port.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <signal.h>

#include "wire/auth.h"
#include "wire/faults.h"
#include "wire/journal.h"
#include "limits/capacity.h"
#include "limits/latency.h"
#include "limits/limits.h"

struct sim_flags;
struct sim_late;
struct sim_listener;			/* wire.c: libmicrohttpd and the timers */

#define SIM_MAX_BODY (INT64_C(128) << 20)

struct sim_wire
{
	struct sim *sim;
	struct sim_auth *auth;
	struct sim_faults faults;
	struct sim_journal *journal;
	struct sim_latency latency;
	struct sim_capacity capacity;	/* that requests share; its tasks are exchanges */
	struct sim_limits_config limits_config;
	struct sim_limits *limits;	/* [user * servers + server] */
	int			servers;		/* budgets of a user: 1 when they share one */
	int			web_servers;
	char		(*affinity)[65];	/* the cookie of each web server */
	uint64_t	generation;		/* counts resets: earlier requests are not counted after one */
	uint64_t	requests;		/* totals for /_dvsim/stats */
	uint64_t	bytes_in;
	uint64_t	bytes_out;
	bool		tls;
	char		dop[16];
	char	   *cookie_client;	/* standing headers, as text */
	char	   *cookie_organization;
	struct sim_late *late;		/* late.c: requests that are carried out later */
	struct sim_listener *listener;
};

enum sim_ending
{
	SIM_ANSWER,
	SIM_RESET,					/* the connection is torn down instead */
	SIM_TRUNCATE,				/* only "truncate_at" bytes of the body are sent */
	SIM_NEVER					/* nothing is sent */
};

/* one request; all zero but the request itself when service.c gets it */
struct sim_exchange
{
	struct sim_req req;
	struct sim_res res;
	struct sim_pairs head;		/* headers of the answer, in the end */
	bool		too_large;		/* the body was longer than SIM_MAX_BODY and is gone */
	bool		plain;			/* no compression: the bytes must be visible */
	enum sim_ending ending;
	size_t		truncate_at;
	int64_t		due_us;			/* virtual time at which the answer leaves; 0: now; INT64_MAX:
								 * when the capacity has carried the request out */
	int64_t		delay_us;		/* by a fault, after that */
	int64_t		arrived_us;		/* virtual */
	int64_t		arrived_real_us;
	int64_t		modelled_us;	/* execution time by the latency model */
	struct sim_limits *budget;	/* admitted to it, until the end */
	uint64_t	generation;
	const char *fault;
	struct sim_journal_entry *entry;
};

/* everything but the listener; NULL with a message on stderr */
struct sim_wire *sim_wire_new(struct sim *sim, const struct sim_flags *flags);
void		sim_wire_free(struct sim_wire *wire);

/* binds the address and sets the port; false with a message on stderr */
bool		sim_wire_listen(struct sim_wire *wire, const char *host, int port, const char *key_pem,
							const char *certificate_pem, int *bound);

/* serves until *stop, which a signal handler sets; signals arrive with "mask" only */
void		sim_wire_run(struct sim_wire *wire, const volatile sig_atomic_t * stop,
						 const sigset_t *mask);

/* service.c: fills the answer and how it is to be given */
void		sim_serve(struct sim_wire *wire, struct sim_exchange *exchange);

/* Returns an exchange that the capacity has carried out by now, whose answer is due now; NULL: there is none. */
struct sim_exchange *sim_serve_carried_out(struct sim_wire *wire);

/*
 * Ends the request: "sent" if the answer is being handed to the network;
 * otherwise it was torn down or its client has disconnected.  May be called
 * again.
 */
void		sim_serve_end(struct sim_wire *wire, struct sim_exchange *exchange, bool sent);

/*
 * resets rows, faults, counters, limits and random numbers to the start; false if SQLite refuses
 */
bool		sim_wire_reset(struct sim_wire *wire);

/*
 * late.c: requests that are carried out when they are due (virtual time), and
 * whose answers are discarded
 */
void		sim_late_add(struct sim_wire *wire, const struct sim_req *req, int64_t due_us);
int64_t		sim_late_due(const struct sim_wire *wire);	/* INT64_MAX: there is none */
void		sim_late_run(struct sim_wire *wire);	/* those that are due */
void		sim_late_clear(struct sim_wire *wire);

/* answer.c: the headers of an answer of the Web API; verdict NULL if it was not admitted */
void		sim_answer_head(struct sim_wire *wire, struct sim_exchange *exchange, int server,
							const struct sim_verdict *verdict);

/* answer.c: compresses the body if the client asks for it and it is worthwhile */
void		sim_answer_compress(struct sim_exchange *exchange);
void		sim_answer_cleanup(void);

/* token.c: answers if the path belongs to a token endpoint; returns whether it does */
bool		sim_token_path(const struct sim_exchange *exchange);
void		sim_token(struct sim_wire *wire, struct sim_exchange *exchange);

/*
 * returns the user that requests a token; NULL if the request does not say or the user is unknown
 */
struct sim_user *sim_token_user(struct sim_wire *wire, struct sim_exchange *exchange);

/* control.c */
void		sim_control(struct sim_wire *wire, struct sim_exchange *exchange);

#endif
