/*
 * query_expression.h
 *		A QueryExpression (JSON) as FetchXML.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_QUERY_EXPRESSION_H
#define SIM_QUERY_EXPRESSION_H

#include "wire/json.h"
#include "store/schema.h"
#include "sim.h"

/*
 * Criteria with nested filters; parts that the simulator does not support
 * (links) are refused.  The result lives in the arena; NULL after a failure.
 */
const char *sim_query_expression_xml(struct sim_req *req, struct sim_res *res,
									 const struct sim_json *query, struct sim_table **table);

/*
 * "LastXDays" → "last-x-days"; into a buffer of 64 bytes; false if it is not an operator's name
 */
bool		sim_query_operator(const char *name, size_t len, char out[64]);

#endif
