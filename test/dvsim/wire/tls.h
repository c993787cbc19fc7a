/*
 * tls.h
 *		A certificate for the host that dvsim listens on, created at the
 *		start.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_TLS_H
#define SIM_TLS_H

#include <stdbool.h>

struct sim_tls
{
	char	   *key;			/* PEM */
	char	   *certificate;	/* PEM, the server's */
	char	   *ca;				/* PEM */
};

/* a CA and a certificate by it for the host, localhost and the loopback addresses */
bool		sim_tls_make(struct sim_tls *tls, const char *host);
void		sim_tls_free(struct sim_tls *tls);

#endif
