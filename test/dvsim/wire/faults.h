/*
 * faults.h
 *		Rules that make requests fail on purpose.
 *
 * Reading rules and matching them is pure; wire.c and service.c carry out the
 * actions.
 *
 * A rule matches by method, path (substring of the request line's target)
 * and application user.  Every rule counts its own matches, also those that
 * an earlier rule answers; of the rules that are due at a match the first
 * acts and only that one is spent by it.  A rule is due at a match when it is
 * past the first "after" ones, is an "every"th one counted from there, and
 * has acted less than "times" times (0: no end).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim.h"

struct json_object;

enum sim_fault_action
{
	SIM_FAULT_STATUS,
	SIM_FAULT_RESET_BEFORE_COMMIT,
	SIM_FAULT_RESET_AFTER_COMMIT,
	SIM_FAULT_TRUNCATE,
	SIM_FAULT_GARBLE,
	SIM_FAULT_SHORTEN,
	SIM_FAULT_DELAY,
	SIM_FAULT_EXPIRE_TOKEN,
	SIM_FAULT_STALL,
	SIM_FAULT_COMMIT_LATE,
	SIM_FAULT_ACTIONS
};

struct sim_rule
{
	int64_t		id;				/* 1, 2, … */
	char	   *method;			/* NULL: any */
	char	   *path;
	char	   *app_user;
	char	   *contains;		/* in the body of the request */
	int64_t		after;
	int64_t		every;
	int64_t		times;
	enum sim_fault_action action;
	int64_t		batch_part;		/* from 1; 0: the whole request.  Only with STATUS */
	int64_t		status;
	char	   *code;			/* NULL: not given */
	char	   *message;
	char	   *retry_after;
	char	   *body;			/* verbatim */
	struct sim_pair *headers;
	int			nheaders;
	int64_t		bytes;			/* of the body that are sent, or remain unchanged; -1: the default */
	int64_t		delay_ms;		/* before the answer, with any action; COMMIT_LATE: before the
								 * request is carried out; real time */
	int64_t		matches;
	int64_t		hits;
};

struct sim_faults
{
	struct sim_rule **rules;
	int			n;
	int64_t		last_id;
};

/* adds all rules of an array (or a single one), or none and a message in the arena */
bool		sim_faults_add(struct sim_faults *faults, struct sim_arena *arena,
						   struct json_object *rules, const char **error);
void		sim_faults_clear(struct sim_faults *faults);

/* a JSON array of the rules with their counters */
void		sim_faults_print(const struct sim_faults *faults, struct sim_buf *out);

/*
 * Counts the match and returns the rule that acts, or NULL.  "part" is 0 for a
 * whole request; for a part of a $batch it is its number from 1, and
 * everything else is that of the outer request.
 */
struct sim_rule *sim_fault_pick(struct sim_faults *faults, const struct sim_req *req,
								const char *user, int64_t part);

const char *sim_fault_name(enum sim_fault_action action);

/* the answer of a STATUS rule; Retry-After included */
void		sim_fault_answer(const struct sim_rule *rule, struct sim_req *req, struct sim_res *res);

/*
 * For batch.c, before it runs a part (numbered from 1): true if a rule answers
 * in its place; part_res is then complete and nothing may be run.
 */
bool		sim_fault_part(struct sim_req *outer, int part, struct sim_res *part_res);

#endif
