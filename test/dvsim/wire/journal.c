/*
 * journal.c
 *		The request journal and the log file.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "wire/journal.h"
#include "store/text.h"

#define MAX_BODY (1 << 20)

struct sim_journal_entry
{
	struct sim_journal_entry *next;
	int64_t		number;
	int64_t		unix_us;
	size_t		size;			/* counted against the bound */
	bool		finished;
	bool		dropped;		/* out of the journal, still held by its request */
	bool		body_cut;
	struct sim_outcome outcome;
	char	   *text;			/* method, target, headers, each with its NUL */
	int			nheaders;
	char	   *body;
	size_t		body_len;
	size_t		received;		/* of the body, before the cut */
	char	   *user;
	char	   *retry_after;
};

struct sim_journal
{
	int64_t		max_bytes;
	int64_t		bytes;
	int64_t		last;
	struct sim_journal_entry *head;
	struct sim_journal_entry *tail;
	FILE	   *log;
};

static const char *const kind_names[SIM_KINDS] = {
	[SIM_OTHER] = "other", [SIM_READ] = "read", [SIM_CREATE] = "create",
	[SIM_UPDATE] = "update", [SIM_UPSERT] = "upsert", [SIM_DELETE] = "delete",
	[SIM_BATCH] = "batch", [SIM_METADATA] = "metadata", [SIM_TOKEN] = "token",
};

const char *
sim_kind_name(enum sim_kind kind)
{
	return kind_names[kind];
}

void
sim_put_json_bytes(struct sim_buf *out, const char *s, size_t len)
{
	struct sim_buf latin = {0};

	if (sim_text_valid(s, len))
	{
		sim_put_json(out, s, len);
		return;
	}
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = (unsigned char) s[i];

		if (c >= 0x80)
			sim_putc(&latin, (char) (0xc0 | c >> 6));
		sim_putc(&latin, c >= 0x80 ? (char) (0x80 | (c & 0x3f)) : (char) c);
	}
	sim_put_json(out, latin.s ? latin.s : "", latin.len);
	sim_buf_free(&latin);
}

void
sim_put_time_us(struct sim_buf *out, int64_t unix_us)
{
	time_t		seconds = (time_t) (unix_us / 1000000);
	struct tm	tm;
	char		text[32];

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	sim_putf(out, "%s.%06dZ", text, (int) (unix_us % 1000000));
}

struct sim_journal *
sim_journal_open(int64_t max_bytes, const char *log_file)
{
	struct sim_journal *journal = sim_xalloc(sizeof(*journal));

	journal->max_bytes = max_bytes;
	if (log_file == NULL)
		return journal;
	journal->log = fopen(log_file, "a");
	if (journal->log == NULL)
	{
		fprintf(stderr, "dvsim: cannot write log file \"%s\": %s\n", log_file, strerror(errno));
		free(journal);
		return NULL;
	}
	return journal;
}

static void
entry_free(struct sim_journal_entry *entry)
{
	free(entry->text);
	free(entry->body);
	free(entry->user);
	free(entry->retry_after);
	free(entry);
}

static void
drop_head(struct sim_journal *journal)
{
	struct sim_journal_entry *entry = journal->head;

	journal->head = entry->next;
	if (journal->head == NULL)
		journal->tail = NULL;
	journal->bytes -= (int64_t) entry->size;
	if (entry->finished)
		entry_free(entry);
	else
		entry->dropped = true;
}

void
sim_journal_clear(struct sim_journal *journal)
{
	while (journal->head != NULL)
		drop_head(journal);
}

void
sim_journal_close(struct sim_journal *journal)
{
	if (journal == NULL)
		return;
	sim_journal_clear(journal);
	if (journal->log != NULL)
		fclose(journal->log);
	free(journal);
}

void
sim_journal_flush(struct sim_journal *journal)
{
	if (journal->log != NULL)
		fflush(journal->log);
}

static void
copy_head(struct sim_journal_entry *entry, const struct sim_req *req)
{
	struct sim_buf text = {0};

	sim_put(&text, req->method, strlen(req->method) + 1);
	sim_put(&text, req->target, strlen(req->target) + 1);
	for (int i = 0; i < req->headers.n; i++)
	{
		sim_put(&text, req->headers.items[i].name, strlen(req->headers.items[i].name) + 1);
		sim_put(&text, req->headers.items[i].value, strlen(req->headers.items[i].value) + 1);
	}
	entry->text = text.s;

	entry->nheaders = req->headers.n;
	entry->size = sizeof(*entry) + text.cap;
}

struct sim_journal_entry *
sim_journal_begin(struct sim_journal *journal, const struct sim_req *req, int64_t unix_us)
{
	struct sim_journal_entry *entry = sim_xalloc(sizeof(*entry));

	entry->number = ++journal->last;
	entry->unix_us = unix_us;
	copy_head(entry, req);
	entry->received = req->body_len;
	entry->body_cut = req->body_len > MAX_BODY;
	entry->body_len = entry->body_cut ? MAX_BODY : req->body_len;
	if (entry->body_len > 0)
	{
		entry->body = sim_xrealloc(NULL, entry->body_len);
		memcpy(entry->body, req->body, entry->body_len);
	}
	entry->size += entry->body_len;
	if (journal->tail != NULL)
		journal->tail->next = entry;
	else
		journal->head = entry;
	journal->tail = entry;
	journal->bytes += (int64_t) entry->size;
	while (journal->head != NULL && journal->bytes > journal->max_bytes)
		drop_head(journal);
	return entry;
}

static const char *
next_text(const char *s)
{
	return s + strlen(s) + 1;
}

/*
 * appends a field of a line: only the last one may contain blanks, so those of a text are
 * replaced
 */
static void
log_word(struct sim_buf *line, const char *s)
{
	if (s == NULL)
		sim_putc(line, '-');
	for (; s != NULL && *s; s++)
		sim_putc(line, (unsigned char) *s <= ' ' ? '_' : *s);
}

static void
log_line(struct sim_journal *journal, const struct sim_journal_entry *entry)
{
	const struct sim_outcome *outcome = &entry->outcome;
	struct sim_buf line = {0};

	sim_put_time_us(&line, entry->unix_us);
	sim_putf(&line, " %lld ", (long long) entry->number);
	log_word(&line, entry->user);
	sim_putf(&line, " %s %d %.3fms in=%zu out=%zu rows=%d retry_after=",
			 sim_kind_name(outcome->kind), outcome->status, (double) outcome->duration_us / 1000,
			 entry->received, outcome->bytes, outcome->rows);
	log_word(&line, entry->retry_after);
	sim_putf(&line, " fault=%s %s %s\n", outcome->fault ? outcome->fault : "-", entry->text,
			 next_text(entry->text));
	fwrite(line.s, 1, line.len, journal->log);
	sim_buf_free(&line);
}

void
sim_journal_finish(struct sim_journal *journal, struct sim_journal_entry *entry,
				   const struct sim_outcome *outcome)
{
	entry->outcome = *outcome;
	entry->finished = true;
	if (outcome->user != NULL)
		entry->user = sim_xstrdup(outcome->user);
	if (outcome->retry_after != NULL)
		entry->retry_after = sim_xstrdup(outcome->retry_after);
	if (journal->log != NULL)
		log_line(journal, entry);
	if (entry->dropped)
		entry_free(entry);
}

/* a repeated header is one member, its values joined as HTTP allows */
static void
print_headers(const struct sim_journal_entry *entry, const char *first, struct sim_buf *out)
{
	const char *name = first;

	for (int i = 0; i < entry->nheaders; i++, name = next_text(next_text(name)))
	{
		struct sim_buf joined = {0};
		const char *other = first;
		bool		seen = false;

		for (int j = 0; j < entry->nheaders; j++, other = next_text(next_text(other)))
		{
			if (strcasecmp(name, other) != 0)
				continue;
			if (j < i)
				seen = true;
			if (joined.len > 0)
				sim_puts(&joined, ", ");
			sim_puts(&joined, next_text(other));
		}
		if (!seen)
		{
			if (i > 0)
				sim_putc(out, ',');
			sim_put_json_bytes(out, name, strlen(name));
			sim_putc(out, ':');
			sim_put_json_bytes(out, joined.s, joined.len);
		}
		sim_buf_free(&joined);
	}
}

static void
print_entry(const struct sim_journal_entry *entry, struct sim_buf *out)
{
	const struct sim_outcome *outcome = &entry->outcome;
	const char *text = entry->text;

	sim_putf(out, "{\"n\":%lld,\"time\":\"", (long long) entry->number);
	sim_put_time_us(out, entry->unix_us);
	sim_puts(out, "\",\"user\":");
	if (entry->user != NULL)
		sim_put_json_bytes(out, entry->user, strlen(entry->user));
	else
		sim_puts(out, "null");
	sim_puts(out, ",\"method\":");
	sim_put_json_bytes(out, text, strlen(text));
	text = next_text(text);

	sim_puts(out, ",\"target\":");
	sim_put_json_bytes(out, text, strlen(text));
	sim_puts(out, ",\"headers\":{");
	print_headers(entry, next_text(text), out);
	sim_puts(out, "},\"body\":");
	sim_put_json_bytes(out, entry->body ? entry->body : "", entry->body_len);
	if (entry->body_cut)
		sim_puts(out, ",\"body_cut\":true");
	if (!entry->finished)
	{
		sim_puts(out, ",\"status\":null}");
		return;
	}
	sim_putf(out, ",\"status\":%d,\"duration_ms\":%.3f,\"fault\":", outcome->status,
			 (double) outcome->duration_us / 1000);
	if (outcome->fault != NULL)
		sim_putf(out, "\"%s\"", outcome->fault);
	else
		sim_puts(out, "null");
	sim_puts(out, ",\"retry_after\":");
	if (entry->retry_after != NULL)
		sim_put_json_bytes(out, entry->retry_after, strlen(entry->retry_after));
	else
		sim_puts(out, "null");
	sim_putf(out, ",\"rows\":%d,\"kind\":\"%s\"}", outcome->rows, sim_kind_name(outcome->kind));
}

void
sim_journal_print(const struct sim_journal *journal, int64_t since, struct sim_buf *out)
{
	bool		first = true;

	sim_putf(out, "{\"next\":%lld,\"requests\":[", (long long) journal->last);
	for (const struct sim_journal_entry *entry = journal->head; entry; entry = entry->next)
	{
		if (entry->number <= since)
			continue;
		if (!first)
			sim_putc(out, ',');
		first = false;
		print_entry(entry, out);
	}
	sim_puts(out, "]}");
}
