/*
 * names.c
 *		The names of a row's members: which are wanted, and which come next.
 *
 * The rows of a page have the same members in the same order, except for nulls
 * that may be left out.  So each name remembers the two names that followed it
 * last, and the input is compared with those, quotes and colon included, before
 * anything is parsed or looked up.
 *
 * Unwanted names are remembered too; otherwise each of them would cost a
 * search.  Their text is in the body of the page, so they are forgotten with it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "dataverse/names.h"

/* The most unwanted names that are remembered. */
#define MAX_OTHERS 256

#define MAX_WANTED 10000

/* The first entries do not stand for a name. */
#define NOT_REMEMBERED 1		/* too many names, or one with blanks or escapes */
#define FIRST_NAME 2

static const struct
{
	const char *name;
	dv_mark		mark;
}			marks[] = {
	{"@odata.context", DV_MARK_CONTEXT},
	{"@context", DV_MARK_CONTEXT},
	{"id", DV_MARK_ID},
	{"reason", DV_MARK_REASON},
	{"@odata.removed", DV_MARK_REMOVED},
	{"@removed", DV_MARK_REMOVED},
};

#define N_MARKS ((int) (sizeof(marks) / sizeof(marks[0])))

static int
slots_for(int names)
{
	int			n = 64;

	while (n < names * 2)
		n *= 2;
	return n;
}

static int
most_names(int n_wanted)
{
	return FIRST_NAME + n_wanted + N_MARKS + MAX_OTHERS;
}

/* Returns the length of a name that can be wanted, else 0. */
static size_t
wanted_len(const char *name)
{
	size_t		i;

	for (i = 0; name[i] != '\0'; i++)
		if ((unsigned char) name[i] < 0x20 || name[i] == '"' || name[i] == '\\')
			return 0;
	return i;
}

size_t
dv_names_size(const char *const *wanted, int n)
{
	int			most = most_names(n);
	size_t		size = sizeof(dv_names) + sizeof(dv_name) * (size_t) most +
	sizeof(uint16_t) * (size_t) slots_for(most);
	int			i;

	for (i = 0; i < n; i++)
		size += strlen(wanted[i]) + 3;
	for (i = 0; i < N_MARKS; i++)
		size += strlen(marks[i].name) + 3;
	return size;
}

/* Both ends and the length distinguish names well enough. */
static inline uint32_t
hash_name(const char *name, size_t len)
{
	uint64_t	head = 0;
	uint64_t	tail = 0;

	if (len >= 8)
	{
		head = dv_load8(name);
		tail = dv_load8(name + len - 8);
	}
	else
		memcpy(&head, name, len);
	head = (head ^ len) * UINT64_C(0x9e3779b97f4a7c15);
	tail = (tail ^ head >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t) ((head ^ tail) >> 32);
}

/* Returns the slot of a name, or the free slot where it belongs. */
static uint32_t
find_slot(const dv_names *names, const char *name, size_t len)
{
	uint32_t	slot = hash_name(name, len) & names->mask;

	while (names->slots[slot] != 0)
	{
		const dv_name *entry = &names->entries[names->slots[slot]];

		if (entry->len == len + 3 && dv_same_bytes(entry->text + 1, name, len))
			break;
		slot = (slot + 1) & names->mask;
	}
	return slot;
}

/* "text" is the name as it appears in a page, from its quote to the colon. */
static dv_name *
add_entry(dv_names *names, uint32_t slot, const char *text, size_t len)
{
	dv_name    *entry = &names->entries[names->n];

	names->slots[slot] = (uint16_t) names->n++;
	entry->text = text;
	entry->len = (uint32_t) len;
	entry->wanted = -1;
	entry->mark = DV_MARK_NONE;
	entry->next[0] = entry->next[1] = NOT_REMEMBERED;
	return entry;
}

/* Returns the entry of a name; makes one, with its text at *room, if there is none yet. */
static dv_name *
fixed_entry(dv_names *names, const char *name, size_t len, char **room)
{
	uint32_t	slot = find_slot(names, name, len);
	char	   *text = *room;

	if (names->slots[slot] != 0)
		return &names->entries[names->slots[slot]];
	text[0] = '"';
	memcpy(text + 1, name, len);
	memcpy(text + 1 + len, "\":", 2);
	*room += len + 3;
	return add_entry(names, slot, text, len + 3);
}

void
dv_names_new_page(dv_names *names)
{
	int			i;

	for (i = 0; i < names->n_fixed; i++)
		names->entries[i].next[0] = names->entries[i].next[1] = NOT_REMEMBERED;
	if (names->n == names->n_fixed)
		return;
	memset(names->slots, 0, sizeof(uint16_t) * ((size_t) names->mask + 1));
	names->n = names->n_fixed;
	for (i = FIRST_NAME; i < names->n; i++)
	{
		const dv_name *entry = &names->entries[i];

		names->slots[find_slot(names, entry->text + 1, entry->len - 3)] = (uint16_t) i;
	}
}

dv_names *
dv_names_init(void *memory, const char *const *wanted, int n)
{
	dv_names   *names = memory;
	char	   *room;
	int			i;

	if (n > MAX_WANTED)
		return NULL;
	memset(memory, 0, dv_names_size(wanted, n));
	names->n_wanted = n;
	names->max = most_names(n);
	names->mask = (uint32_t) slots_for(names->max) - 1;
	names->entries = (dv_name *) (names + 1);
	names->slots = (uint16_t *) (names->entries + names->max);
	room = (char *) (names->slots + names->mask + 1);
	for (names->n = 0; names->n < FIRST_NAME; names->n++)
	{
		names->entries[names->n].len = UINT32_MAX;
		names->entries[names->n].wanted = -1;
	}
	for (i = 0; i < n; i++)
	{
		size_t		len = wanted_len(wanted[i]);
		dv_name    *entry;

		if (len == 0)
			return NULL;
		entry = fixed_entry(names, wanted[i], len, &room);
		if (entry->wanted >= 0)
			return NULL;
		entry->wanted = i;
	}
	for (i = 0; i < N_MARKS; i++)
		fixed_entry(names, marks[i].name, strlen(marks[i].name), &room)->mark =
			(uint8_t) marks[i].mark;
	names->n_fixed = names->n;
	return names;
}

bool
dv_names_is_of_link(const char *name, size_t len)
{
	static const char dot[] = "_x002e_";
	size_t		i = 1;

	if (len < 3 || name[0] != 't')
		return false;
	while (i < len && name[i] >= '0' && name[i] <= '9')
		i++;
	return i > 1 && i < len &&
		(name[i] == '.' ||
		 (len - i >= sizeof(dot) - 1 && memcmp(name + i, dot, sizeof(dot) - 1) == 0));
}

dv_name *
dv_names_find(dv_names *names, dv_name *previous, const char *name, size_t len, bool foreseeable)
{
	uint32_t	slot = find_slot(names, name, len);
	uint16_t	found = names->slots[slot];

	if (found == 0)
	{
		found = NOT_REMEMBERED;
		if (foreseeable && names->n < names->max)
		{
			found = (uint16_t) names->n;
			add_entry(names, slot, name - 1, len + 3);
		}
	}
	previous->next[1] = previous->next[0];
	previous->next[0] = found;
	return &names->entries[found];
}
