/*
 * sim.h
 *		The request, the response and the simulator.
 *
 * One thread does everything: it waits for bytes and timers, answers whole
 * requests one after the other and never blocks, so nothing needs a lock.  A
 * request that must take longer (latency, faults) is answered at once and the
 * answer is held back by wire.c.  Parts of a $batch are requests of their own
 * that share the arena of the outer one.
 *
 * Convention of every handler and translator: true on success; on failure
 * sim_fail() has filled the response and false travels up.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_H
#define SIM_H

#include "store/mem.h"

struct sim_schema;				/* schema.h */
struct sim_store;				/* store.h */
struct sim_table;
struct sim_user;				/* auth.h */
struct sim_wire;				/* wire.c */
struct sim_faults;				/* faults.h */
struct sim_keys;				/* metadata_keys.c */
struct sim_drift;				/* drift.c */
struct sim_canned;				/* canned.h */

#define SIM_ROOT "/api/data/v9.2/"

struct sim_pair
{
	const char *name;
	const char *value;
};

struct sim_pairs
{
	struct sim_pair *items;
	int			n;
	int			cap;
};

/* The kind of a request, for the latency model, the limits and the counters. */
enum sim_kind
{
	SIM_OTHER,					/* WhoAmI, functions, control of jobs */
	SIM_READ,
	SIM_CREATE,
	SIM_UPDATE,
	SIM_UPSERT,
	SIM_DELETE,
	SIM_BATCH,
	SIM_METADATA,
	SIM_TOKEN,
	SIM_KINDS
};

/* Everything that lives as long as the process. */
struct sim
{
	struct sim_schema *schema;
	struct sim_store *store;
	const char *base_url;		/* scheme://host:port, no trailing slash */
	uint64_t	seed;
	uint64_t	random_state;
	double		time_scale;
	int64_t		clock_skew_us;	/* how far the clock has been moved ahead */
	int64_t		start_us;		/* real monotonic time at start */
	int64_t		epoch_us;		/* wall clock (Unix, µs) at start */
	char		organization_id[37];
	char		business_unit_id[37];
	struct sim_faults *faults;	/* NULL: none */
	struct sim_keys *keys;		/* NULL: those of the schema (metadata_keys.h) */
	struct sim_drift *drift;	/* NULL: the schema has not changed (drift.h) */
	struct sim_canned *canned;	/* NULL: every request is carried out in full (canned.h) */
	bool		late_delta_token;	/* the token of a first read refers to its last page */
	uint64_t	quirks;			/* a bit for each that is on (quirks.h) */
};

/* Virtual time: real time since start multiplied by time_scale, plus jumps. */
int64_t		sim_now_us(const struct sim *sim);	/* monotonic virtual, µs, from 0 */
int64_t		sim_unix_now(const struct sim *sim);	/* virtual Unix time, whole seconds */
uint64_t	sim_random(struct sim *sim);	/* seeded; splitmix64 over random_state */

struct sim_req
{
	struct sim *sim;
	struct sim_arena *arena;
	const char *method;
	const char *target;			/* as it stood on the request line */
	char	   *path;			/* below SIM_ROOT, still encoded, no query, no leading slash */
	char	   *query;			/* raw, after '?', or "" */
	struct sim_pairs params;	/* query options, names and values decoded ('+' is a blank) */
	struct sim_pairs headers;	/* as received; names in any case */
	char	   *body;			/* NUL-terminated, may be modified in place by its reader */
	size_t		body_len;
	struct sim_user *user;		/* identified by the bearer token */
	char		user_id[37];	/* systemuserid that acts (after impersonation) */
	bool		in_batch;		/* a part of a $batch */
	const char *base_url;		/* scheme://host:port as used by the client (Host header) */
	struct sim_pairs *content_ids;	/* changeset: Content-ID -> "accounts(guid)"; NULL outside */
};

struct sim_res
{
	int			status;
	struct sim_buf body;		/* freed by the creator of the response */
	const char *content_type;	/* NULL when there is no body */
	struct sim_pairs headers;	/* beyond the standing ones that wire.c adds to every answer */
	const char *error_code;		/* set by sim_fail: "0x8004…" or "" */
	const char *error_message;
	enum sim_kind kind;
	int			rows;			/* read or written */
	int			input;			/* rows read to group or to count */
	bool		session_token;	/* an elastic row was written: wire.c adds x-ms-session-token */
	const char *entity;			/* "accounts(guid)": the row written, for "$1" in changesets */
};

/* first header or query option of that name, or NULL; headers without regard to case */
const char *sim_header(const struct sim_req *req, const char *name);
const char *sim_param(const struct sim_req *req, const char *name);
void		sim_pair_add(struct sim_arena *arena, struct sim_pairs *pairs, const char *name, const char *value);
void		sim_res_header(struct sim_req *req, struct sim_res *res, const char *name, const char *value);

/*
 * One preference out of all Prefer headers (comma lists, repeated lines):
 * NULL when absent, "" when it has no value, else the value without quotes.
 * sim_prefer_int clamps nothing; -1 when absent or not a number.
 */
const char *sim_prefer(const struct sim_req *req, const char *name);
long		sim_prefer_int(const struct sim_req *req, const char *name);

/*
 * returns true if odata.include-annotations requests this annotation ("*", prefix* and exact
 * names)
 */
bool		sim_wants_annotation(const struct sim_req *req, const char *annotation);

/* percent-decodes in place, and '+' to blank if "plus"; false for a broken escape */
bool		sim_url_decode(char *s, bool plus);

/*
 * Fills the response with the service's error body (with the extra members if
 * annotations are requested); always false, so that handlers can "return
 * sim_fail(…)".  "code" is "0x80040217", "0x0" or "".
 */
bool		sim_fail(struct sim_req *req, struct sim_res *res, int status, const char *code,
					 const char *fmt,...) __attribute__((format(printf, 5, 6)));
void		sim_error_body(struct sim_req *req, struct sim_res *res, const struct sim_pairs *details);

/* route.c: answers one request below SIM_ROOT; used for the outer request and for each $batch part */
void		sim_dispatch(struct sim_req *req, struct sim_res *res);

/* route.c: carries out everything that happens with time; to be called before each request */
void		sim_advance(struct sim *sim);

/* JSON answer: sets status and "application/json; odata.metadata=minimal" */
void		sim_json_answer(struct sim_res *res, int status);

/*
 * The handlers that route.c calls, each in the file named.  Routing strips the
 * first segment; "rest" is the remaining path (still encoded, without a
 * leading slash; "" if nothing follows).  For a table, "key" is the text
 * between the parentheses of the first segment, decoded, or NULL.
 */

/* odata_read.c: GET of a set, /$count, fetchXml= hands over */
bool		sim_read_set(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						 const char *rest);

/* odata_read.c: GET of a row, a property, $value, a navigation */
bool		sim_read_row(struct sim_req *req, struct sim_res *res, struct sim_table *table,
						 const char *key, const char *rest);

/* fetch_read.c */
bool		sim_fetch(struct sim_req *req, struct sim_res *res, struct sim_table *table,
					  const char *xml);
bool		sim_fetch_by_sql(struct sim_req *req, struct sim_res *res, struct sim_table *table,
							 const char *sql);

/* write.c: POST PATCH PUT DELETE on a table, incl. $ref and the bulk messages */
bool		sim_write(struct sim_req *req, struct sim_res *res, struct sim_table *table,
					  const char *key, const char *rest);

/* batch.c */
bool		sim_batch(struct sim_req *req, struct sim_res *res);

/* functions.c: unbound actions; false+404 if unknown */
bool		sim_action(struct sim_req *req, struct sim_res *res, const char *name);

/* jobs.c: the action BulkDelete */
bool		sim_bulk_delete(struct sim_req *req, struct sim_res *res);

/* jobs.c: advances background jobs with the virtual clock; to be called before each request */
void		sim_jobs_advance(struct sim *sim);

/* jobs.c: called when another schema is in use; jobs on tables that no longer exist are done */
void		sim_jobs_moved(struct sim *sim);

/* metadata.c: EntityDefinitions, RelationshipDefinitions, GlobalOptionSetDefinitions */
bool		sim_metadata(struct sim_req *req, struct sim_res *res, const char *segment,
						 const char *key, const char *rest);

/* csdl.c: $metadata */
bool		sim_csdl(struct sim_req *req, struct sim_res *res);

/* csdl.c */
bool		sim_service_document(struct sim_req *req, struct sim_res *res);

/*
 * functions.c: WhoAmI, RetrieveTotalRecordCount, RetrieveMetadataChanges …;
 * "args" is the raw text between the parentheses, or ""
 */
bool		sim_function(struct sim_req *req, struct sim_res *res, const char *name,
						 const char *args);

#endif
