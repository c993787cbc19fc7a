/*
 * operation.h
 *		The operations on a row, and their requests.
 *
 * Pure: needs neither PostgreSQL nor libcurl.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OPERATION_H
#define DV_OPERATION_H

#include <stdbool.h>

typedef enum dv_operation
{
	DV_CREATE,
	DV_UPSERT,
	DV_UPDATE,
	DV_DELETE,
	DV_ASSOCIATE,				/* rows of intersect tables: always single requests */
	DV_DISASSOCIATE
} dv_operation;

#define DV_OPERATIONS (DV_DISASSOCIATE + 1)

/* The effect on the row. */
typedef enum dv_effect
{
	DV_EFFECT_MADE,				/* it did not exist before */
	DV_EFFECT_MADE_OR_CHANGED,
	DV_EFFECT_CHANGED,
	DV_EFFECT_REMOVED
} dv_effect;

#define DV_EFFECTS (DV_EFFECT_REMOVED + 1)

typedef struct dv_operation_rule
{
	const char *name;			/* for views and the table of rejects: "insert" */
	const char *phrase;			/* for messages: "could not insert into foreign table …" */
	dv_effect	effect;

	/* the bulk message */
	const char *message;		/* NULL if there is none */
	bool		elastic_only;	/* only elastic tables have the message */

	/* the request for a single row */
	const char *method;
	bool		at_set;			/* it is sent to the entity set, and its body contains the id */
	bool		has_body;
	const char *header;			/* a whole line, or "" */
} dv_operation_rule;

extern const dv_operation_rule *dv_operation_rule_of(dv_operation operation);

#endif							/* DV_OPERATION_H */
