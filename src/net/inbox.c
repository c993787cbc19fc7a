/*
 * inbox.c
 *		The answer of an exchange while it arrives.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/inbox.h"
#include "net/inflate.h"

#define LARGE_ROOM ((size_t) 8 * 1024 * 1024)
#define SPARE_LEAST ((size_t) 64 * 1024)
#define SPARE_MOST LARGE_ROOM

/*
 * Returns how much room to allocate: twice as much as before, but for a large body
 * not much more than needed, since others share the store.
 */
static size_t
enlarged(size_t room, size_t needed, size_t most)
{
	size_t		want = room == 0 ? DV_INBOX_SMALL : room < LARGE_ROOM ? room * 2 : room + room / 8;

	if (want > most)
		want = most;
	return want > needed ? want : needed;
}

/* Appends to a malloc'd buffer, which grows up to "most", and keeps it NUL-terminated. */
static dv_inbox_result
append(char **buffer, size_t *len, size_t *room, size_t most, const char *data, size_t n)
{
	if (*len + n + 1 > *room)
	{
		size_t		want = enlarged(*room, *len + n + 1, most);
		char	   *grown = realloc(*buffer, want);

		if (grown == NULL)
			return DV_INBOX_NO_MEMORY;
		*buffer = grown;
		*room = want;
	}
	memcpy(*buffer + *len, data, n);
	*len += n;
	(*buffer)[*len] = '\0';
	return DV_INBOX_TAKEN;
}

/* Returns the status of a line such as "HTTP/1.1 200 OK", or 0 if it is no status line. */
static int
status_of(const char *line, size_t len)
{
	const char *blank = len > 5 && memcmp(line, "HTTP/", 5) == 0 ? memchr(line, ' ', len) : NULL;
	int			status = 0;
	int			i;

	if (blank == NULL || line + len - blank < 4)
		return 0;
	for (i = 1; i <= 3; i++)
	{
		if (blank[i] < '0' || blank[i] > '9')
			return 0;
		status = status * 10 + blank[i] - '0';
	}
	return status;
}

/* Control characters in a header have no meaning, and a NUL must not end it. */
static void
blank_controls(char *line, size_t len)
{
	for (; len > 0; line++, len--)
		if ((unsigned char) *line < 0x20 || *line == 0x7f)
			*line = ' ';
}

/* Returns true if the word is in the list, which ends with NULL.  Case does not matter. */
static bool
is_one_of(const char *const *words, const char *word, size_t len)
{
	for (; *words != NULL; words++)
		if (strlen(*words) == len && strncasecmp(*words, word, len) == 0)
			return true;
	return false;
}

/* Returns the value of a header line of that name, or NULL if it is another header. */
static const char *
list_of(const char *line, const char *name)
{
	size_t		len = strlen(name);

	return strncasecmp(line, name, len) == 0 && line[len] == ':' ? line + len + 1 : NULL;
}

/* Counts the encodings in a header line.  Returns false if one was not asked for. */
static bool
count_encodings(dv_inbox *inbox, const char *line)
{
	static const char *const nothing[] = {"identity", "", NULL};
	static const char *const content[] = {"gzip", "x-gzip", NULL};
	static const char *const transfer[] = {"chunked", NULL};
	const char *encodings = list_of(line, "Content-Encoding");
	const char *const *known = encodings != NULL ? content : transfer;

	if (encodings == NULL)
		encodings = list_of(line, "Transfer-Encoding");
	while (encodings != NULL && *encodings != '\0')
	{
		size_t		len;

		encodings += strspn(encodings, ", \t");
		len = strcspn(encodings, ", \t");
		if (!is_one_of(nothing, encodings, len))
		{
			if (!is_one_of(known, encodings, len))
				return false;
			if (known == content && ++inbox->encodings > 1)
				return false;
		}
		encodings += len;
	}
	return true;
}

dv_inbox_result
dv_inbox_add_line(dv_inbox *inbox, const char *line, size_t len)
{
	dv_inbox_result result;
	int			status;

	if (len > DV_INBOX_MAX_HEAD - inbox->head_received)
		return DV_INBOX_TOO_LARGE;
	inbox->head_received += len;
	if (inbox->has_head)
		return DV_INBOX_TAKEN;
	while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		len--;
	status = status_of(line, len);
	if (status > 0)
	{
		/* the lines so far were those of an interim answer */
		inbox->status = status;
		inbox->lines_len = 0;
		inbox->encodings = 0;
	}
	inbox->has_head = len == 0 && inbox->status >= 200;
	result = append(&inbox->lines, &inbox->lines_len, &inbox->lines_room,
					2 * DV_INBOX_MAX_HEAD, line, len);
	if (result == DV_INBOX_TAKEN)
	{
		char	   *own = inbox->lines + inbox->lines_len - len;

		blank_controls(own, len);
		if (!count_encodings(inbox, own))
			return DV_INBOX_ENCODED;
		result = append(&inbox->lines, &inbox->lines_len, &inbox->lines_room,
						2 * DV_INBOX_MAX_HEAD, "", 1);
	}
	return result;
}

/* Whether the body has to be decompressed when it is complete. */
static bool
is_compressed(const dv_inbox *inbox)
{
	return dv_inflates && inbox->encodings > 0;
}

static size_t
largest_body(const dv_inbox *inbox)
{
	if (inbox->status >= 300 && inbox->max_body > DV_INBOX_MAX_ERROR)
		return DV_INBOX_MAX_ERROR;
	return inbox->max_body;
}

/* Returns how much the store has left for a body that has some of it already. */
static size_t
left_for(const dv_inbox_store *store, size_t had)
{
	size_t		left = had + (store->taken < store->room ? store->room - store->taken : 0);

	return left > DV_INBOX_SMALL ? left : DV_INBOX_SMALL;
}

dv_inbox_result
dv_inbox_add_body(dv_inbox *inbox, const char *data, size_t len)
{
	dv_inbox_store *store = inbox->store;
	size_t		max = largest_body(inbox);
	size_t		before = inbox->body_room;
	size_t		left = left_for(store, before);
	dv_inbox_result result;

	/* gzip makes data that cannot be compressed a little longer */
	if (is_compressed(inbox))
		max += max / 1024 + 1024;
	if (inbox->body_len > max || len > max - inbox->body_len)
		return DV_INBOX_TOO_LARGE;
	if (inbox->body_len + len + 1 > left)
		return DV_INBOX_STORE_FULL;
	result = append(&inbox->body, &inbox->body_len, &inbox->body_room,
					left < max + 1 ? left : max + 1, data, len);
	store->taken += inbox->body_room - before;
	return result;
}

/*
 * Returns a buffer of at least "least" and at most "most" bytes, if possible the one that is
 * kept, and sets *room to its size.  Returns NULL if there is no memory.
 */
static char *
take_buffer(dv_inbox_store *store, size_t least, size_t most, size_t *room)
{
	char	   *buffer = store->spare;

	*room = store->spare_room;
	if (*room >= least && *room <= most && *room / 2 <= least)
	{
		store->spare = NULL;
		store->spare_room = 0;
		return buffer;
	}
	/* the next body may be a little longer */
	*room = least < SPARE_LEAST ? least : least + least / 16;
	if (*room > most)
		*room = most;
	return malloc(*room);
}

/* Frees a buffer that had a decompressed body, or keeps it. */
static void
give_buffer(dv_inbox_store *store, char *buffer, size_t room)
{
	if (room < SPARE_LEAST || room > SPARE_MOST)
	{
		free(buffer);
		return;
	}
	free(store->spare);
	store->spare = buffer;
	store->spare_room = room;
}

/* Replaces the body by what comes out of it, unless this takes more than "most" bytes. */
static dv_inflate_result
inflate_into(dv_inbox *inbox, size_t least, size_t most)
{
	size_t		room;
	char	   *body = take_buffer(inbox->store, least, most, &room);
	size_t		len = 0;
	dv_inflate_result result;

	if (body == NULL)
		return DV_INFLATE_NO_MEMORY;
	result = dv_inflate(inbox->body, inbox->body_len, body, room - 1, &len);
	if (result != DV_INFLATED)
	{
		give_buffer(inbox->store, body, room);
		return result;
	}
	body[len] = '\0';
	free(inbox->body);
	inbox->store->taken += room - inbox->body_room;
	inbox->body = body;
	inbox->body_len = len;
	inbox->body_room = room;
	return DV_INFLATED;
}

dv_inbox_result
dv_inbox_inflate(dv_inbox *inbox)
{
	size_t		max = largest_body(inbox);
	size_t		left = left_for(inbox->store, 0);
	size_t		most = left < max + 1 ? left : max + 1;
	size_t		claim;
	size_t		least;
	dv_inflate_result result;

	if (!is_compressed(inbox) || inbox->body_len == 0)
		return DV_INBOX_TAKEN;
	claim = dv_inflate_claim(inbox->body, inbox->body_len);
	least = claim < most ? claim + 1 : most;
	/* for a body that is longer than it claims, each try takes twice as long as the one before */
	while ((result = inflate_into(inbox, least, most)) == DV_INFLATE_NO_ROOM && least < most)
		least = least < most / 2 ? least * 2 : most;
	switch (result)
	{
		case DV_INFLATED:
			return DV_INBOX_TAKEN;
		case DV_INFLATE_NO_ROOM:
			return most > max ? DV_INBOX_TOO_LARGE : DV_INBOX_STORE_FULL;
		case DV_INFLATE_BROKEN:
			return DV_INBOX_BROKEN;
		case DV_INFLATE_NO_MEMORY:
			break;
	}
	return DV_INBOX_NO_MEMORY;
}

/* Returns the value of the next header of that name after "line", or NULL; *line is moved on. */
static const char *
next_header(const dv_inbox *inbox, const char **line, const char *name)
{
	const char *end = inbox->lines + inbox->lines_len;
	size_t		len = strlen(name);

	while (*line != NULL && *line < end)
	{
		const char *this = *line;

		*line += strlen(this) + 1;
		if (strncasecmp(this, name, len) == 0 && this[len] == ':')
			return this + len + 1 + strspn(this + len + 1, " \t");
	}
	return NULL;
}

const char *
dv_inbox_header(const dv_inbox *inbox, const char *name)
{
	const char *line = inbox->lines;

	return next_header(inbox, &line, name);
}

const char *
dv_inbox_cookie(const dv_inbox *inbox, const char *name, size_t *len)
{
	const char *line = inbox->lines;
	size_t		name_len = strlen(name);
	const char *value;

	while ((value = next_header(inbox, &line, "Set-Cookie")) != NULL)
	{
		if (strncmp(value, name, name_len) != 0 || value[name_len] != '=')
			continue;
		*len = strcspn(value, "; \t");
		return value;
	}
	return NULL;
}

void
dv_inbox_free(dv_inbox *inbox)
{
	dv_inbox_store *store = inbox->store;

	free(inbox->lines);
	if (is_compressed(inbox))
		give_buffer(store, inbox->body, inbox->body_room);
	else
		free(inbox->body);
	store->taken -= inbox->body_room;
	memset(inbox, 0, sizeof(*inbox));
	inbox->store = store;
}
