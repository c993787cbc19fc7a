/*
 * journal.h
 *		The requests and their answers, for /_dvsim/requests and --log.
 *
 * Entries are numbered from 1 as requests arrive.  They live in memory bounded
 * in bytes: the oldest go first, those under way included (their holder keeps
 * them until they are finished).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_JOURNAL_H
#define SIM_JOURNAL_H

#include "sim.h"

struct sim_journal;
struct sim_journal_entry;

struct sim_outcome
{
	const char *user;			/* client id, or NULL */
	int			status;			/* 0: none was sent */
	int64_t		duration_us;	/* real */
	const char *fault;			/* action, or NULL */
	int			rows;
	enum sim_kind kind;
	size_t		bytes;			/* of the answer's body as sent */
	const char *retry_after;	/* header of the answer, or NULL */
};

/* NULL with a message on stderr when the log file cannot be written */
struct sim_journal *sim_journal_open(int64_t max_bytes, const char *log_file);
void		sim_journal_close(struct sim_journal *journal);

/* before the body is read, because reading changes it */
struct sim_journal_entry *sim_journal_begin(struct sim_journal *journal,
											const struct sim_req *req, int64_t unix_us);
void		sim_journal_finish(struct sim_journal *journal, struct sim_journal_entry *entry,
							   const struct sim_outcome *outcome);

/* discards all entries; the numbers continue */
void		sim_journal_clear(struct sim_journal *journal);

/* {"next":N,"requests":[…]} of the entries after number "since" */
void		sim_journal_print(const struct sim_journal *journal, int64_t since,
							  struct sim_buf *out);

/* writes buffered lines to the log file */
void		sim_journal_flush(struct sim_journal *journal);

/* "read", "create" … */
const char *sim_kind_name(enum sim_kind kind);

/*
 * writes a JSON string of bytes that may not be UTF-8: then each stands for the character with
 * its number
 */
void		sim_put_json_bytes(struct sim_buf *out, const char *s, size_t len);

/* "2026-01-01T00:00:00.000000Z" */
void		sim_put_time_us(struct sim_buf *out, int64_t unix_us);

#endif
