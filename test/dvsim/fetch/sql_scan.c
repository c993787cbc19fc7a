/*
 * sql_scan.c
 *		The words of a SELECT, and its constants.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/sql_scan.h"

bool
sim_sql_refuse(struct sim_sql_scan *p, const char *why)
{
	return sim_fail(p->req, p->res, 400, "0x80060888", "Invalid SQL query: %s", why);
}

/*
 * Tokens
 */

static const char *
lower(struct sim_sql_scan *p, const char *s, size_t len)
{
	char	   *name = sim_strndup(p->req->arena, s, len);
	char	   *c;

	for (c = name; *c != '\0'; c++)
		*c = (char) tolower((unsigned char) *c);
	return name;
}

static void
skip_blanks(struct sim_sql_scan *p)
{
	for (;;)
	{
		p->at += strspn(p->at, " \t\r\n");
		if (strncmp(p->at, "--", 2) == 0)
			p->at += strcspn(p->at, "\n");
		else if (strncmp(p->at, "/*", 2) == 0 && strstr(p->at + 2, "*/") != NULL)
			p->at = strstr(p->at + 2, "*/") + 2;
		else
			return;
	}
}

/* the text between two quotes, which may contain doubled ones; NULL: it does not end */
static const char *
quoted(struct sim_sql_scan *p, char quote)
{
	struct sim_buf text = {0};
	const char *result = NULL;
	const char *s;

	for (s = p->at + 1; *s != '\0'; s++)
	{
		if (*s == quote && s[1] == quote)
			s++;
		else if (*s == quote)
		{
			result = sim_strndup(p->req->arena, text.s ? text.s : "", text.len);
			p->at = s + 1;
			break;
		}
		sim_putc(&text, *s);
	}
	sim_buf_free(&text);
	return result;
}

bool
sim_sql_next(struct sim_sql_scan *p)
{
	size_t		len;

	skip_blanks(p);
	if ((p->at[0] == 'N' || p->at[0] == 'n') && p->at[1] == '\'')
		p->at++;
	switch (*p->at)
	{
		case '\0':
			p->token = T_END;
			p->text = "";
			return true;
		case '\'':
			p->token = T_STRING;
			p->text = quoted(p, '\'');
			return p->text != NULL || sim_sql_refuse(p, "a string has no end");
		case '"':
		case '[':
			p->token = T_QUOTED;
			p->text = quoted(p, *p->at == '[' ? ']' : '"');
			if (p->text == NULL)
				return sim_sql_refuse(p, "a name has no end");
			p->text = lower(p, p->text, strlen(p->text));
			return true;
		default:
			break;
	}
	if (isalpha((unsigned char) *p->at) || *p->at == '_')
	{
		for (len = 1; isalnum((unsigned char) p->at[len]) || p->at[len] == '_';)
			len++;
		p->token = T_NAME;
		p->text = lower(p, p->at, len);
	}
	else if (isdigit((unsigned char) *p->at))
	{
		len = strspn(p->at, "0123456789.");
		p->token = T_NUMBER;
		p->text = sim_strndup(p->req->arena, p->at, len);
	}
	else
	{
		len = 1;
		if (strchr("<>!", *p->at) != NULL && (p->at[1] == '=' || (*p->at == '<' && p->at[1] == '>')))
			len = 2;
		p->token = T_SIGN;
		p->text = sim_strndup(p->req->arena, p->at, len);
	}
	p->at += len;
	return true;
}

bool
sim_sql_is(const struct sim_sql_scan *p, const char *word)
{
	return (p->token == T_NAME || p->token == T_SIGN) && strcmp(p->text, word) == 0;
}

/* takes a word if it comes next; "took" says whether it did */
bool
sim_sql_take(struct sim_sql_scan *p, const char *word, bool *took)
{
	*took = sim_sql_is(p, word);
	return !*took || sim_sql_next(p);
}

bool
sim_sql_expect(struct sim_sql_scan *p, const char *word)
{
	if (!sim_sql_is(p, word))
		return sim_sql_refuse(p, sim_fmt(p->req->arena, "\"%s\" was expected near \"%s\"", word, p->text));
	return sim_sql_next(p);
}

/* words that cannot be names unless they are quoted */
bool
sim_sql_reserved(const struct sim_sql_scan *p)
{
	static const char *const words[] = {
		"select", "from", "where", "group", "order", "by", "having", "union", "join", "inner", "left", "right",
		"full", "outer", "cross", "on", "and", "or", "not", "in", "like", "between", "is", "null", "as", "distinct",
		"top", "offset", "fetch", "asc", "desc", "exists", "case", "except", "intersect", "with"
	};
	size_t		i;

	for (i = 0; p->token == T_NAME && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(p->text, words[i]) == 0)
			return true;
	return false;
}

bool
sim_sql_name(struct sim_sql_scan *p, const char *what, const char **result)
{
	if ((p->token != T_NAME && p->token != T_QUOTED) || sim_sql_reserved(p))
		return sim_sql_refuse(p, sim_fmt(p->req->arena, "%s was expected near \"%s\"", what, p->text));
	*result = p->text;
	return sim_sql_next(p);
}

/*
 * Constants
 */

bool
sim_sql_time(const char *text, struct tm *tm)
{
	int			n = 0;

	memset(tm, 0, sizeof(*tm));
	if (sscanf(text, "%4d-%2d-%2d%n", &tm->tm_year, &tm->tm_mon, &tm->tm_mday, &n) != 3 || n != 10)
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	if (tm->tm_mon < 0 || tm->tm_mon > 11 || tm->tm_mday < 1 || tm->tm_mday > 31)
		return false;
	if (text[n] == '\0')
		return true;
	if (text[n] != ' ' && text[n] != 'T')
		return false;
	text += n + 1;
	n = 0;
	if (sscanf(text, "%2d:%2d:%2d%n", &tm->tm_hour, &tm->tm_min, &tm->tm_sec, &n) != 3 || n != 8)
		return false;
	text += n;
	if (*text == '.')
		text += 1 + strspn(text + 1, "0123456789");
	return *text == '\0' || strcmp(text, "Z") == 0;
}

const char *
sim_sql_print_time(struct sim_sql_scan *p, int64_t seconds)
{
	time_t		t = (time_t) seconds;
	struct tm	tm;

	gmtime_r(&t, &tm);
	return sim_fmt(p->req->arena, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
				   tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static const struct part
{
	const char *names[3];
	int			months;
	int			seconds;
}			parts[] = {
	{{"year", "yy", "yyyy"}, 12, 0},
	{{"quarter", "qq", "q"}, 3, 0},
	{{"month", "mm", "m"}, 1, 0},
	{{"week", "wk", "ww"}, 0, 604800},
	{{"day", "dd", "d"}, 0, 86400},
	{{"hour", "hh", NULL}, 0, 3600},
	{{"minute", "mi", "n"}, 0, 60},
	{{"second", "ss", "s"}, 0, 1},
};

static const struct part *
find_part(const char *text)
{
	size_t		i;
	int			j;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (j = 0; j < 3 && parts[i].names[j] != NULL; j++)
			if (strcmp(parts[i].names[j], text) == 0)
				return &parts[i];
	return NULL;
}

/* the last day of a month replaces days that it does not have */
static int64_t
add(const struct part *part, long n, struct tm *tm)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			year;
	int			last;

	tm->tm_mon += (int) n * part->months;
	year = tm->tm_year + 1900 + tm->tm_mon / 12 - (tm->tm_mon % 12 < 0);
	tm->tm_mon = (tm->tm_mon % 12 + 12) % 12;
	tm->tm_year = year - 1900;
	last = days[tm->tm_mon] + (tm->tm_mon == 1 && ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0));
	if (part->months > 0 && tm->tm_mday > last)
		tm->tm_mday = last;
	return (int64_t) timegm(tm) + n * part->seconds;
}

bool
sim_sql_whole(struct sim_sql_scan *p, long *n)
{
	bool		minus;
	char	   *end;

	if (!sim_sql_take(p, "-", &minus))
		return false;
	*n = strtol(p->text, &end, 10);
	if (p->token != T_NUMBER || *end != '\0' || *n > 1000000)
		return sim_sql_refuse(p, sim_fmt(p->req->arena, "a whole number was expected near \"%s\"", p->text));
	*n = minus ? -*n : *n;
	return sim_sql_next(p);
}

static bool
date_add(struct sim_sql_scan *p, const char **value)
{
	const struct part *part;
	const char *text;
	struct tm	tm;
	long		n;

	if (!sim_sql_expect(p, "(") || !sim_sql_name(p, "a part of a date", &text))
		return false;
	part = find_part(text);
	if (part == NULL)
		return sim_sql_refuse(p, sim_fmt(p->req->arena, "\"%s\" is no part of a date", text));
	if (!sim_sql_expect(p, ",") || !sim_sql_whole(p, &n) || !sim_sql_expect(p, ",") || !sim_sql_constant(p, &text) || !sim_sql_expect(p, ")"))
		return false;
	if (text == NULL || !sim_sql_time(text, &tm))
		return sim_sql_refuse(p, "DATEADD takes a date");
	*value = sim_sql_print_time(p, add(part, n, &tm));
	return true;
}

/* a literal, or one of the two functions; NULL is NULL */
bool
sim_sql_constant(struct sim_sql_scan *p, const char **value)
{
	bool		took;
	bool		minus;

	if (++p->depth > SIM_SQL_MAX_DEPTH)
		return sim_sql_refuse(p, "it is nested too deeply");
	if (!sim_sql_take(p, "null", &took))
		return false;
	*value = NULL;
	if (!took && sim_sql_is(p, "getutcdate"))
	{
		*value = sim_sql_print_time(p, sim_unix_now(p->req->sim));
		if (!sim_sql_next(p) || !sim_sql_expect(p, "(") || !sim_sql_expect(p, ")"))
			return false;
	}
	else if (!took && sim_sql_is(p, "dateadd"))
	{
		if (!sim_sql_next(p) || !date_add(p, value))
			return false;
	}
	else if (!took && p->token == T_STRING)
	{
		*value = p->text;
		if (!sim_sql_next(p))
			return false;
	}
	else if (!took)
	{
		if (!sim_sql_take(p, "-", &minus))
			return false;
		if (p->token != T_NUMBER)
			return sim_sql_refuse(p, sim_fmt(p->req->arena, "a column can only be compared to a constant, and not to \"%s\"",
											 p->text));
		*value = minus ? sim_fmt(p->req->arena, "-%s", p->text) : p->text;
		if (!sim_sql_next(p))
			return false;
	}
	p->depth--;
	if (sim_sql_is(p, "+") || sim_sql_is(p, "-") || sim_sql_is(p, "*") || sim_sql_is(p, "/"))
		return sim_sql_refuse(p, "expressions are not supported");
	return true;
}
