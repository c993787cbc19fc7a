/*
 * sql_query.h
 *		The query option "sql": a SELECT as FetchXML.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_SQL_QUERY_H
#define SIM_SQL_QUERY_H

#include "sim.h"

struct sim_sql_select
{
	struct sim_buf xml;			/* from <entity> to </entity> */
	bool		aggregate;
	bool		distinct;
	bool		limited;		/* by TOP or FETCH NEXT: there are no pages */
	int			offset;
	int			limit;
};

/* false after sim_fail(); its meaning is checked only when it is read as FetchXML */
bool		sim_sql_parse(struct sim_req *req, struct sim_res *res, const char *sql,
						  struct sim_sql_select *select);

#endif
