/*
 * blame.c
 *		Finds the column or key that a message of the service blames.
 *
 * The service has no field for it.  Its messages are in English if the
 * language of the application user is, which is the normal case.  An
 * unrecognised message blames nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/blame.h"

/* The text before and after a name. */
typedef struct dv_phrase
{
	const char *before;
	const char *after;
	bool		key;
	bool		null;
} dv_phrase;

static const dv_phrase phrases[] = {
	{"length of the '", "' attribute", false, false},
	{"Entity Key ", " violated", true, false},
	{"Attribute: ", " cannot be set to NULL", false, true},
	{"undeclared property '", "'", false, false},
	{"property named '", "'", false, false},
	{" of '", "' on record of type", false, false},
	{"value of attribute '", "'", false, false},
	{"value of ", " contains characters that are not allowed", false, false},
	{"value for the attribute '", "'", false, false},
	{"attribute '", "'", false, false},
};

#define PHRASES (sizeof(phrases) / sizeof(phrases[0]))

/* Returns the length of the name that ends before "after"; 0 if there is none. */
static size_t
name_length(const char *name, const char *after)
{
	size_t		after_len = strlen(after);
	size_t		len;

	for (len = 0; len < DV_BLAME_MAX; len++)
	{
		if (strncmp(name + len, after, after_len) == 0)
			return len;
		/* names contain no blanks */
		if (name[len] == '\0' || name[len] == ' ')
			return 0;
	}
	return 0;
}

/* The first occurrence of the phrase that contains a name counts. */
static bool
read_phrase(const char *message, const dv_phrase *phrase, char *name)
{
	const char *start = message;

	while ((start = strstr(start, phrase->before)) != NULL)
	{
		size_t		len;

		start += strlen(phrase->before);
		len = name_length(start, phrase->after);
		if (len == 0)
			continue;
		memcpy(name, start, len);
		name[len] = '\0';
		return true;
	}
	return false;
}

void
dv_blame_read(const char *message, dv_blame *blame)
{
	size_t		i;

	memset(blame, 0, sizeof(*blame));
	for (i = 0; i < PHRASES; i++)
	{
		const dv_phrase *phrase = &phrases[i];

		if (read_phrase(message, phrase, phrase->key ? blame->key : blame->column))
		{
			blame->null = phrase->null;
			return;
		}
	}
}
