/*
 * fetchxml.c
 *		FetchXML written by users: reads what paging needs, and writes the
 *		same query for another page.
 *
 * This is not an XML parser: it reads the prolog and the start tags of the
 * elements fetch and entity, which contain everything about paging, and copies
 * the rest unchanged.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "dataverse/fetchxml.h"
#include "dataverse/line.h"
#include "net/hex.h"

#define BLANKS "\t\n\r "
#define NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"
#define TABLE_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

typedef struct xml_attribute
{
	const char *name;
	size_t		name_len;
	const char *value;
	size_t		value_len;
	const char *end;			/* after the closing quote */
} xml_attribute;

static const char *
skip_blanks(const char *p)
{
	return p + strspn(p, BLANKS);
}

/* Skips blanks, comments, and processing instructions; returns NULL if one has no end. */
static const char *
skip_misc(const char *p)
{
	for (;;)
	{
		const char *end;

		p = skip_blanks(p);
		if (strncmp(p, "<!--", 4) == 0)
			end = "-->";
		else if (strncmp(p, "<?", 2) == 0)
			end = "?>";
		else
			return p;
		p = strstr(p + 2, end);
		if (p == NULL)
			return NULL;
		p += strlen(end);
	}
}

/* Returns the position after "<name", or NULL if the text does not begin with it. */
static const char *
start_tag(const char *p, const char *name)
{
	size_t		len = strlen(name);

	if (p == NULL || p[0] != '<' || strncmp(p + 1, name, len) != 0 ||
		strchr(BLANKS "/>", p[1 + len]) == NULL || p[1 + len] == '\0')
		return NULL;
	return p + 1 + len;
}

static bool
read_attribute(const char *p, xml_attribute *a)
{
	const char *close;

	a->name = p;
	a->name_len = strspn(p, NAME);
	p = skip_blanks(p + a->name_len);
	if (a->name_len == 0 || *p != '=')
		return false;
	p = skip_blanks(p + 1);
	if (*p != '"' && *p != '\'')
		return false;
	close = strchr(p + 1, *p);
	if (close == NULL)
		return false;
	a->value = p + 1;
	a->value_len = (size_t) (close - a->value);
	a->end = close + 1;
	return memchr(a->value, '<', a->value_len) == NULL;
}

static bool
is_named(const xml_attribute *a, const char *name)
{
	return a->name_len == strlen(name) && memcmp(a->name, name, a->name_len) == 0;
}

/* Returns a positive number, or -1. */
static int
number_of(const xml_attribute *a)
{
	size_t		digits = strspn(a->value, "0123456789");
	int			number;

	if (digits != a->value_len || digits == 0 || digits > 9)
		return -1;
	number = atoi(a->value);
	return number > 0 ? number : -1;
}

/* Reads the start tag of fetch, and returns the position after its ">", or NULL. */
static const char *
read_fetch(const char *p, dv_fetchxml *query, const char **error)
{
	query->attributes = p;
	for (p = skip_blanks(p); *p != '>'; p = skip_blanks(p))
	{
		xml_attribute a;
		int		   *number = NULL;

		if (*p == '/')
		{
			*error = "The element \"fetch\" has no \"entity\".";
			return NULL;
		}
		if (!read_attribute(p, &a))
		{
			*error = "The start tag of the element \"fetch\" is malformed.";
			return NULL;
		}
		if (is_named(&a, "page"))
			number = &query->page;
		else if (is_named(&a, "count"))
			number = &query->count;
		else if (is_named(&a, "top"))
			number = &query->top;
		if (number != NULL && (*number = number_of(&a)) < 0)
		{
			*error = "The attributes \"page\", \"count\" and \"top\" must be positive numbers.";
			return NULL;
		}
		p = a.end;
	}
	query->attributes_len = (size_t) (p - query->attributes);
	return p + 1;
}

static bool
read_entity(const char *p, dv_fetchxml *query)
{
	for (p = skip_blanks(p); *p != '>' && *p != '/'; p = skip_blanks(p))
	{
		xml_attribute a;

		if (!read_attribute(p, &a))
			return false;
		if (is_named(&a, "name") && a.value_len > 0 && a.value_len <= DV_FETCHXML_NAME_MAX &&
			strspn(a.value, TABLE_NAME) == a.value_len)
		{
			memcpy(query->entity, a.value, a.value_len);
			query->entity[a.value_len] = '\0';
		}
		p = a.end;
	}
	return query->entity[0] != '\0';
}

bool
dv_fetchxml_read(const char *xml, dv_fetchxml *query, const char **error)
{
	const char *p;

	memset(query, 0, sizeof(*query));
	p = skip_misc(xml);
	if (start_tag(p, "fetch") == NULL)
	{
		*error = "The query must begin with the element \"fetch\".";
		return false;
	}
	p = read_fetch(start_tag(p, "fetch"), query, error);
	if (p == NULL)
		return false;
	query->content = p;
	p = start_tag(skip_misc(p), "entity");
	if (p == NULL || !read_entity(p, query))
	{
		*error = "The element \"fetch\" must begin with an element \"entity\" that has a \"name\".";
		return false;
	}
	return true;
}

/*
 * Writing.
 */

static void
put_number(dv_line *line, const char *name, int number)
{
	dv_line_byte(line, ' ');
	dv_line_text(line, name);
	dv_line_text(line, "=\"");
	dv_line_number(line, number);
	dv_line_byte(line, '"');
}

size_t
dv_fetchxml_page(const dv_fetchxml *query, int page, int count, const char *cookie, char *out,
				 size_t size)
{
	dv_line		line = {.out = out, .size = size, .encoding = DV_LINE_RAW};
	const char *end = query->attributes + query->attributes_len;
	const char *p;

	dv_line_text(&line, "<fetch");
	for (p = skip_blanks(query->attributes); p < end; p = skip_blanks(p))
	{
		xml_attribute a;

		if (!read_attribute(p, &a))
			break;
		if (!is_named(&a, "page") && !is_named(&a, "count") && !is_named(&a, "paging-cookie"))
		{
			dv_line_byte(&line, ' ');
			for (p = a.name; p < a.end; p++)
				dv_line_byte(&line, *p);
		}
		p = a.end;
	}
	put_number(&line, "count", count);
	put_number(&line, "page", page);
	if (cookie != NULL)
	{
		dv_line_text(&line, " paging-cookie=\"");
		dv_line_encode_xml(&line, cookie);
		dv_line_byte(&line, '"');
	}
	dv_line_byte(&line, '>');
	dv_line_text(&line, query->content);
	return dv_line_end(&line);
}

static void
decode_percent(char *s)
{
	char	   *to = s;

	for (; *s != '\0'; s++)
	{
		if (s[0] == '%' && dv_hex_value(s[1]) >= 0 && dv_hex_value(s[2]) >= 0 &&
			(s[1] != '0' || s[2] != '0'))
		{
			*to++ = (char) (dv_hex_value(s[1]) * 16 + dv_hex_value(s[2]));
			s += 2;
		}
		else
			*to++ = *s;
	}
	*to = '\0';
}

bool
dv_fetchxml_cookie(const char *annotation, char *out)
{
	const char *p = start_tag(skip_blanks(annotation), "cookie");

	if (p == NULL)
		return false;
	for (p = skip_blanks(p); *p != '>' && *p != '/'; p = skip_blanks(p))
	{
		xml_attribute a;

		if (!read_attribute(p, &a))
			return false;
		if (is_named(&a, "pagingcookie") && a.value_len > 0)
		{
			memcpy(out, a.value, a.value_len);
			out[a.value_len] = '\0';
			/* it was encoded twice */
			decode_percent(out);
			decode_percent(out);
			return true;
		}
		p = a.end;
	}
	return false;
}
