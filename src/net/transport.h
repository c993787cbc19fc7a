/*
 * transport.h
 *		Whom a connection trusts, and which proxy it uses.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_TRANSPORT_H
#define DV_TRANSPORT_H

#include <curl/curl.h>

#include "net/http.h"

typedef struct dv_transport dv_transport;

/* Initializes libcurl for this process.  Returns false if that fails. */
extern bool dv_transport_init(void);

/* Copies its arguments with malloc.  Returns NULL if there is no memory. */
extern dv_transport *dv_transport_create(const dv_http_options *options);
extern void dv_transport_free(dv_transport *transport);

/* Prepares a handle; "direct" means without the proxy. */
extern void dv_transport_apply(dv_transport *transport, CURL *easy, bool direct);

#endif							/* DV_TRANSPORT_H */
