/*
 * odata_parse.h
 *		The text of $filter into a tree, and helpers for the other options.
 *
 * The parser knows the grammar, but not the schema: names are checked, and
 * unsupported features refused, when the tree becomes SQL (odata_sql).
 * Everything lives in the request's arena.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ODATA_PARSE_H
#define SIM_ODATA_PARSE_H

#include "sim.h"

enum sim_node_kind
{
	SIM_NODE_AND,				/* args: two or more, none of the same kind */
	SIM_NODE_OR,
	SIM_NODE_NOT,				/* args[0] */
	SIM_NODE_COMPARE,			/* args[0] op args[1] */
	SIM_NODE_CALL,				/* contains(…) and the like: text is the name */
	SIM_NODE_FUNCTION,			/* Microsoft.Dynamics.CRM.text(name=arg,…) after a path */
	SIM_NODE_LAMBDA,			/* path/any(text:args[0]), "all" if op is 1 */
	SIM_NODE_PATH,
	SIM_NODE_LITERAL
};

enum sim_compare
{
	SIM_EQ,
	SIM_NE,
	SIM_GT,
	SIM_GE,
	SIM_LT,
	SIM_LE
};

enum sim_literal
{
	SIM_LIT_NULL,
	SIM_LIT_STRING,
	SIM_LIT_INTEGER,
	SIM_LIT_DECIMAL,
	SIM_LIT_BOOLEAN,
	SIM_LIT_GUID,
	SIM_LIT_DATE,
	SIM_LIT_DATETIME,
	SIM_LIT_ENUM,
	SIM_LIT_ARRAY				/* JSON text with its brackets */
};

struct sim_text
{
	const char *s;				/* terminated as well */
	size_t		len;
};

struct sim_node
{
	enum sim_node_kind kind;
	int			op;
	enum sim_literal literal;
	struct sim_text text;		/* name, variable, or literal without quotes */
	struct sim_text *path;
	int			npath;
	struct sim_node **args;
	int			nargs;
	struct sim_text name;		/* of an argument of a FUNCTION */
};

/* "aliases": whether the text may contain @p (not inside $expand) */
bool		sim_filter_parse(struct sim_req *req, struct sim_res *res, const char *text,
							 bool aliases, struct sim_node **out);

/* a property path of $orderby or groupby, as a PATH node */
bool		sim_path_parse(struct sim_req *req, struct sim_res *res, const char *s, size_t len,
						   struct sim_node **out);

/*
 * The next item of a list separated by "sep" outside of parentheses and
 * quotes, trimmed; *p moves past it.  False at the end of the text.
 */
bool		sim_list_next(struct sim_arena *arena, const char **p, char sep, struct sim_text *item);

bool		sim_text_is(const struct sim_text *text, const char *s);

/* 400 with the code of a query that cannot be read */
#define SIM_BAD_QUERY "0x80060888"

#endif
