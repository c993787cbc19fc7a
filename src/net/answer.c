/*-------------------------------------------------------------------------
 *
 * answer.c
 *		The answer of an exchange while it arrives.
 *
 * SPDX-License-Identifier: PostgreSQL
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/answer.h"

#define FIRST_ROOM ((size_t) 16 * 1024)

/* Appends to a malloc'd buffer and keeps it NUL-terminated. */
static dv_answer_result
append(char **buffer, size_t *len, size_t *room, size_t max, const char *data, size_t n)
{
	if (*len > max || n > max - *len)
		return DV_ANSWER_TOO_LARGE;
	if (*len + n + 1 > *room)
	{
		size_t		want = *room > 0 ? *room * 2 : FIRST_ROOM;
		char	   *grown;

		if (want > max + 1)
			want = max + 1;
		if (want < *len + n + 1)
			want = *len + n + 1;
		grown = realloc(*buffer, want);
		if (grown == NULL)
			return DV_ANSWER_NO_MEMORY;
		*buffer = grown;
		*room = want;
	}
	memcpy(*buffer + *len, data, n);
	*len += n;
	(*buffer)[*len] = '\0';
	return DV_ANSWER_TAKEN;
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

/* Control characters in a header have no meaning, and it must not end at a NUL. */
static void
blank_controls(char *line, size_t len)
{
	for (; len > 0; line++, len--)
		if ((unsigned char) *line < 0x20 || *line == 0x7f)
			*line = ' ';
}

dv_answer_result
dv_answer_add_line(dv_answer *answer, const char *line, size_t len)
{
	dv_answer_result result;
	int			status;

	if (len > DV_ANSWER_MAX_HEAD - answer->head_received)
		return DV_ANSWER_TOO_LARGE;
	answer->head_received += len;
	if (answer->has_head)
		return DV_ANSWER_TAKEN;
	while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		len--;
	status = status_of(line, len);
	if (status > 0)
	{
		/* the lines so far were those of an interim answer */
		answer->status = status;
		answer->lines_len = 0;
	}
	answer->has_head = len == 0 && answer->status >= 200;
	result = append(&answer->lines, &answer->lines_len, &answer->lines_room,
					2 * DV_ANSWER_MAX_HEAD, line, len);
	if (result == DV_ANSWER_TAKEN)
	{
		blank_controls(answer->lines + answer->lines_len - len, len);
		result = append(&answer->lines, &answer->lines_len, &answer->lines_room,
						2 * DV_ANSWER_MAX_HEAD, "", 1);
	}
	return result;
}

dv_answer_result
dv_answer_add_body(dv_answer *answer, const char *data, size_t len)
{
	size_t		max = answer->max_body;

	if (answer->status >= 300 && max > DV_ANSWER_MAX_ERROR)
		max = DV_ANSWER_MAX_ERROR;
	return append(&answer->body, &answer->body_len, &answer->body_room, max, data, len);
}

/* Returns the value of the next header of that name after "line", or NULL; *line is moved on. */
static const char *
next_header(const dv_answer *answer, const char **line, const char *name)
{
	const char *end = answer->lines + answer->lines_len;
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
dv_answer_header(const dv_answer *answer, const char *name)
{
	const char *line = answer->lines;

	return next_header(answer, &line, name);
}

const char *
dv_answer_cookie(const dv_answer *answer, const char *name, size_t *len)
{
	const char *line = answer->lines;
	size_t		name_len = strlen(name);
	const char *value;

	while ((value = next_header(answer, &line, "Set-Cookie")) != NULL)
	{
		if (strncmp(value, name, name_len) != 0 || value[name_len] != '=')
			continue;
		*len = strcspn(value, "; \t");
		return value;
	}
	return NULL;
}

void
dv_answer_free(dv_answer *answer)
{
	free(answer->lines);
	free(answer->body);
	memset(answer, 0, sizeof(*answer));
}
