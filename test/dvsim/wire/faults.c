/*
 * faults.c
 *		Reads, matches and lists the rules of /_dvsim/faults.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <json-c/json.h>
#include <microhttpd.h>

#include "wire/auth.h"
#include "wire/faults.h"
#include "limits/limits.h"

enum member_type
{
	MEMBER_TEXT,
	MEMBER_NUMBER,
	MEMBER_ACTION,
	MEMBER_RETRY,				/* seconds or an HTTP date */
	MEMBER_HEADERS,
	MEMBER_BODY
};

#define AT(field) offsetof(struct sim_rule, field)
#define MANY INT64_C(1000000000)

static const struct rule_member
{
	const char *name;
	enum member_type type;
	size_t		offset;
	int64_t		min;
	int64_t		max;
}			rule_members[] = {
	{"method", MEMBER_TEXT, AT(method), 0, 0},
	{"path", MEMBER_TEXT, AT(path), 0, 0},
	{"app_user", MEMBER_TEXT, AT(app_user), 0, 0},
	{"contains", MEMBER_TEXT, AT(contains), 0, 0},
	{"after", MEMBER_NUMBER, AT(after), 0, MANY},
	{"every", MEMBER_NUMBER, AT(every), 1, MANY},
	{"times", MEMBER_NUMBER, AT(times), 0, MANY},
	{"action", MEMBER_ACTION, AT(action), 0, 0},
	{"status", MEMBER_NUMBER, AT(status), 200, 599},
	{"code", MEMBER_TEXT, AT(code), 0, 0},
	{"message", MEMBER_TEXT, AT(message), 0, 0},
	{"retry_after", MEMBER_RETRY, AT(retry_after), 0, 0},
	{"headers", MEMBER_HEADERS, AT(headers), 0, 0},
	{"body", MEMBER_BODY, AT(body), 0, 0},
	{"bytes", MEMBER_NUMBER, AT(bytes), 0, MANY},
	{"delay_ms", MEMBER_NUMBER, AT(delay_ms), 0, MANY},
	{"batch_part", MEMBER_NUMBER, AT(batch_part), 1, 1000},
};

#define NMEMBERS (sizeof(rule_members) / sizeof(rule_members[0]))

static const char *const action_names[SIM_FAULT_ACTIONS] = {
	"status", "reset_before_commit", "reset_after_commit", "truncate", "garble", "shorten",
	"delay", "expire_token", "stall", "commit_late"
};

const char *
sim_fault_name(enum sim_fault_action action)
{
	return action_names[action];
}

static void
rule_free(struct sim_rule *rule)
{
	for (int i = 0; i < rule->nheaders; i++)
	{
		free((char *) rule->headers[i].name);
		free((char *) rule->headers[i].value);
	}
	free(rule->headers);
	free(rule->method);
	free(rule->path);
	free(rule->app_user);
	free(rule->contains);
	free(rule->code);
	free(rule->message);
	free(rule->retry_after);
	free(rule->body);
	free(rule);
}

/* neither a line break nor a control character may reach a header */
static bool
header_text(const char *s)
{
	for (; *s; s++)
	{
		if ((unsigned char) *s < ' ' || *s == 127)
			return false;
	}
	return true;
}

static bool
header_name(const char *s)
{
	return s[0] != '\0' &&
		strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == strlen(s);
}

static bool
add_header(struct sim_rule *rule, const char *name, struct json_object *value)
{
	const char *text = json_object_get_string(value);

	if (!json_object_is_type(value, json_type_string) || !header_text(text) || !header_name(name))
		return false;
	rule->headers = sim_xrealloc(rule->headers,
								 sizeof(struct sim_pair) * (size_t) (rule->nheaders + 1));
	rule->headers[rule->nheaders].name = sim_xstrdup(name);
	rule->headers[rule->nheaders].value = sim_xstrdup(text);
	rule->nheaders++;
	return true;
}

/* an object of names and texts, or of names and arrays of texts */
static bool
read_headers(struct sim_rule *rule, struct json_object *value)
{
	struct json_object_iter member;

	if (!json_object_is_type(value, json_type_object))
		return false;
	json_object_object_foreachC(value, member)
	{
		bool		array = json_object_is_type(member.val, json_type_array);
		size_t		n = array ? json_object_array_length(member.val) : 1;

		for (size_t i = 0; i < n; i++)
		{
			if (!add_header(rule, member.key,
							array ? json_object_array_get_idx(member.val, i) : member.val))
				return false;
		}
	}
	return true;
}

static bool
read_action(struct sim_rule *rule, struct json_object *value)
{
	const char *name = json_object_get_string(value);

	for (int i = 0; name != NULL && i < SIM_FAULT_ACTIONS; i++)
	{
		if (strcmp(action_names[i], name) == 0)
		{
			rule->action = (enum sim_fault_action) i;
			return true;
		}
	}
	return false;
}

static void
set_text(char **at, const char *text)
{
	free(*at);
	*at = sim_xstrdup(text);
}

/* returns NULL, or what the member should have been */
static const char *
read_member(struct sim_arena *arena, struct sim_rule *rule, const struct rule_member *member,
			struct json_object *value)
{
	void	   *at = (char *) rule + member->offset;
	const char *text = json_object_is_type(value, json_type_string) ?
	json_object_get_string(value) : NULL;
	int64_t		number = json_object_is_type(value, json_type_int) ?
	json_object_get_int64(value) : -1;

	switch (member->type)
	{
		case MEMBER_TEXT:
			if (text == NULL)
				return "a string";
			set_text(at, text);
			return NULL;
		case MEMBER_NUMBER:
			if (number < member->min || number > member->max)
				return sim_fmt(arena, "a whole number from %lld to %lld",
							   (long long) member->min, (long long) member->max);
			*(int64_t *) at = number;
			return NULL;
		case MEMBER_ACTION:
			return read_action(rule, value) ? NULL :
				"status, reset_before_commit, reset_after_commit, truncate, garble, shorten, delay, "
				"expire_token, stall or commit_late";
		case MEMBER_RETRY:
			if (number < 0 && (text == NULL || !header_text(text)))
				return "a number of seconds or an HTTP date";
			set_text(at, text ? text : json_object_get_string(value));
			return NULL;
		case MEMBER_HEADERS:
			return read_headers(rule, value) ? NULL : "an object of header names and texts";
		case MEMBER_BODY:
			if (value == NULL)
				return "a string or a JSON value";
			set_text(at, text ? text :
					 json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
			return NULL;
	}
	return "something else";
}

/* returns the error in the object, or NULL */
static const char *
fill_rule(struct sim_arena *arena, struct sim_rule *rule, struct json_object *object)
{
	struct json_object_iter given;

	if (!json_object_is_type(object, json_type_object))
		return "a rule is an object";
	json_object_object_foreachC(object, given)
	{
		const struct rule_member *member = NULL;
		const char *wanted;

		for (size_t i = 0; i < NMEMBERS; i++)
		{
			if (strcmp(rule_members[i].name, given.key) == 0)
				member = &rule_members[i];
		}
		if (member == NULL)
			return sim_fmt(arena, "a rule has no member \"%s\"", given.key);
		wanted = read_member(arena, rule, member, given.val);
		if (wanted != NULL)
			return sim_fmt(arena, "\"%s\" must be %s", given.key, wanted);
	}
	if ((rule->action == SIM_FAULT_DELAY || rule->action == SIM_FAULT_COMMIT_LATE) &&
		rule->delay_ms == 0)
		return sim_fmt(arena, "action \"%s\" wants \"delay_ms\"", sim_fault_name(rule->action));
	/* when a part is run, the body has already been taken apart */
	if (rule->contains != NULL && rule->batch_part > 0)
		return "\"contains\" is about whole requests, and \"batch_part\" is not";
	return NULL;
}

static struct sim_rule *
read_rule(struct sim_arena *arena, struct json_object *object, const char **error)
{
	struct sim_rule *rule = sim_xalloc(sizeof(*rule));

	rule->every = 1;
	rule->times = 1;
	rule->bytes = -1;
	*error = fill_rule(arena, rule, object);
	if (*error != NULL)
	{
		rule_free(rule);
		return NULL;
	}
	if (rule->status == 0)
		rule->status = rule->retry_after != NULL ? 429 : 503;
	if (rule->action != SIM_FAULT_STATUS)
		rule->batch_part = 0;
	return rule;
}

bool
sim_faults_add(struct sim_faults *faults, struct sim_arena *arena, struct json_object *rules,
			   const char **error)
{
	bool		array = json_object_is_type(rules, json_type_array);
	size_t		n = array ? json_object_array_length(rules) : 1;
	int			before = faults->n;

	for (size_t i = 0; i < n; i++)
	{
		struct json_object *object = array ? json_object_array_get_idx(rules, i) : rules;
		struct sim_rule *rule = read_rule(arena, object, error);

		if (rule == NULL)
		{
			*error = sim_fmt(arena, "rule %d: %s", (int) i, *error);
			while (faults->n > before)
				rule_free(faults->rules[--faults->n]);
			return false;
		}
		faults->rules = sim_xrealloc(faults->rules,
									 sizeof(struct sim_rule *) * (size_t) (faults->n + 1));
		faults->rules[faults->n++] = rule;
	}
	for (int i = before; i < faults->n; i++)
		faults->rules[i]->id = ++faults->last_id;
	return true;
}

void
sim_faults_clear(struct sim_faults *faults)
{
	for (int i = 0; i < faults->n; i++)
		rule_free(faults->rules[i]);
	free(faults->rules);
	memset(faults, 0, sizeof(*faults));
}

static void
put_text(struct sim_buf *out, const char *name, const char *value)
{
	if (value == NULL)
		return;
	sim_putf(out, ",\"%s\":", name);
	sim_put_json(out, value, strlen(value));
}

void
sim_faults_print(const struct sim_faults *faults, struct sim_buf *out)
{
	sim_putc(out, '[');
	for (int i = 0; i < faults->n; i++)
	{
		const struct sim_rule *rule = faults->rules[i];

		sim_putf(out, "%s{\"id\":%lld,\"action\":\"%s\"", i ? "," : "", (long long) rule->id,
				 sim_fault_name(rule->action));
		put_text(out, "method", rule->method);
		put_text(out, "path", rule->path);
		put_text(out, "app_user", rule->app_user);
		put_text(out, "contains", rule->contains);
		sim_putf(out, ",\"after\":%lld,\"every\":%lld,\"times\":%lld", (long long) rule->after,
				 (long long) rule->every, (long long) rule->times);
		if (rule->action == SIM_FAULT_STATUS)
			sim_putf(out, ",\"status\":%lld", (long long) rule->status);
		put_text(out, "code", rule->code);
		put_text(out, "message", rule->message);
		put_text(out, "retry_after", rule->retry_after);
		put_text(out, "body", rule->body);
		if (rule->bytes >= 0)
			sim_putf(out, ",\"bytes\":%lld", (long long) rule->bytes);
		if (rule->delay_ms > 0)
			sim_putf(out, ",\"delay_ms\":%lld", (long long) rule->delay_ms);
		if (rule->batch_part > 0)
			sim_putf(out, ",\"batch_part\":%lld", (long long) rule->batch_part);
		sim_putf(out, ",\"matches\":%lld,\"hits\":%lld}", (long long) rule->matches,
				 (long long) rule->hits);
	}
	sim_putc(out, ']');
}

static bool
matches(const struct sim_rule *rule, const struct sim_req *req, const char *user, int64_t part)
{
	return rule->batch_part == part &&
		(rule->method == NULL || strcasecmp(rule->method, req->method) == 0) &&
		(rule->path == NULL || strstr(req->target, rule->path) != NULL) &&
		(rule->app_user == NULL || (user != NULL && strcasecmp(rule->app_user, user) == 0)) &&
		(rule->contains == NULL ||
		 (req->body != NULL && strstr(req->body, rule->contains) != NULL));
}

static bool
due(const struct sim_rule *rule)
{
	return rule->matches > rule->after &&
		(rule->matches - rule->after) % rule->every == 0 &&
		(rule->times == 0 || rule->hits < rule->times);
}

struct sim_rule *
sim_fault_pick(struct sim_faults *faults, const struct sim_req *req, const char *user,
			   int64_t part)
{
	struct sim_rule *picked = NULL;

	for (int i = 0; i < faults->n; i++)
	{
		struct sim_rule *rule = faults->rules[i];

		if (!matches(rule, req, user, part))
			continue;
		rule->matches++;
		if (picked == NULL && due(rule))
			picked = rule;
	}
	if (picked != NULL)
		picked->hits++;
	return picked;
}

static void
count_throttle(struct sim_user *user, const struct sim_rule *rule)
{
	for (int limit = 0; user != NULL && rule->status == 429 && limit < 3; limit++)
	{
		if (rule->code != NULL && strcasecmp(rule->code, sim_limit_code(limit)) == 0)
			user->throttles[limit]++;
	}
}

void
sim_fault_answer(const struct sim_rule *rule, struct sim_req *req, struct sim_res *res)
{
	sim_fail(req, res, (int) rule->status, rule->code ? sim_strdup(req->arena, rule->code) : "",
			 "%s", rule->message ? rule->message :
			 MHD_get_reason_phrase_for((unsigned int) rule->status));
	if (rule->body != NULL)
	{
		res->body.len = 0;
		sim_puts(&res->body, rule->body);
		if (rule->body[0] == '<')
			res->content_type = "text/html";
	}
	if (res->status == 204 || res->status == 304 || res->body.len == 0)
	{
		res->body.len = 0;
		res->content_type = NULL;
	}
	if (rule->retry_after != NULL)
		sim_res_header(req, res, "Retry-After", rule->retry_after);
	for (int i = 0; i < rule->nheaders; i++)
	{
		if (strcasecmp(rule->headers[i].name, "Content-Type") == 0)
			res->content_type = sim_strdup(req->arena, rule->headers[i].value);
		else
			sim_res_header(req, res, rule->headers[i].name, rule->headers[i].value);
	}
	count_throttle(req->user, rule);
}

bool
sim_fault_part(struct sim_req *outer, int part, struct sim_res *part_res)
{
	const struct sim_rule *rule;

	if (outer->sim->faults == NULL || outer->sim->faults->n == 0)
		return false;
	rule = sim_fault_pick(outer->sim->faults, outer, outer->user ? outer->user->client_id : NULL,
						  part);
	if (rule == NULL)
		return false;
	sim_fault_answer(rule, outer, part_res);
	return true;
}
