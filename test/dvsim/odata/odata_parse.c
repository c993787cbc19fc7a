/*
 * odata_parse.c
 *		The text of $filter into a tree.
 *
 * Recursive descent over a lexer that looks one token ahead.  Precedence is
 * OData's: "not" binds tighter than the comparisons, these tighter than "and",
 * this tighter than "or".  Depth is limited, so no text can exhaust the stack.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <string.h>

#include "store/guid.h"
#include "odata/odata_parse.h"

#define MAX_DEPTH 100
#define MAX_SEGMENTS 20
#define MAX_ALIASES 1000
#define NAMESPACE "Microsoft.Dynamics.CRM."

enum token
{
	T_END,
	T_NAME,
	T_LITERAL,
	T_ALIAS,
	T_OPEN,
	T_CLOSE,
	T_COMMA,
	T_SLASH,
	T_COLON,
	T_EQUALS
};

struct parser
{
	struct sim_req *req;
	struct sim_res *res;
	const char *start;
	const char *p;				/* after the current token */
	const char *token_start;
	enum token	token;
	enum sim_literal literal;
	struct sim_text text;		/* of the current token */
	bool		aliases;
	int			depth;
	int			naliases;		/* used so far */
};

static bool parse_or(struct parser *ps, struct sim_node **out);
static bool parse_path(struct parser *ps, struct sim_node **out);

bool
sim_text_is(const struct sim_text *text, const char *s)
{
	return strlen(s) == text->len && memcmp(text->s, s, text->len) == 0;
}

static bool
syntax_error(struct parser *ps)
{
	return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY, "Syntax error at position %d in '%s'.",
					(int) (ps->token_start - ps->start), ps->start);
}

static bool
too_deep(struct parser *ps)
{
	return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY,
					"Recursion depth exceeded allowed limit.");
}

/* ----------
 * Lexer
 * ----------
 */

static bool
name_char(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '.' || c == '$';
}

static void
set_text(struct parser *ps, const char *s, size_t len)
{
	ps->text.s = sim_strndup(ps->req->arena, s, len);
	ps->text.len = len;
}

static bool
take_literal(struct parser *ps, enum sim_literal kind, size_t len)
{
	ps->token = T_LITERAL;
	ps->literal = kind;
	set_text(ps, ps->p, len);
	ps->p += len;
	return true;
}

/* 'it''s': ps->p is on the opening quote */
static bool
lex_string(struct parser *ps, enum sim_literal kind)
{
	const char *s;
	char	   *copy;
	size_t		len = 0;
	bool		closed = false;

	for (s = ps->p + 1; *s != '\0' && !closed; s++)
	{
		if (*s == '\'' && s[1] == '\'')
			s++;
		else
			closed = *s == '\'';
	}
	if (!closed)
		return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY,
						"There is an unterminated string literal at position %d in '%s'.",
						(int) (ps->p - ps->start), ps->start);
	copy = sim_alloc(ps->req->arena, (size_t) (s - ps->p));
	for (ps->p++; ps->p < s - 1; ps->p++)
	{
		copy[len++] = *ps->p;
		ps->p += *ps->p == '\'';
	}
	ps->token = T_LITERAL;
	ps->literal = kind;
	ps->text.s = copy;
	ps->text.len = len;
	ps->p = s;
	return true;
}

/* a JSON array, up to its closing bracket */
static bool
lex_array(struct parser *ps)
{
	const char *s = ps->p;
	char		quote = '\0';
	int			depth = 0;

	for (; *s != '\0'; s++)
	{
		if (quote != '\0')
		{
			if (*s == '\\' && s[1] != '\0')
				s++;
			else if (*s == quote)
				quote = '\0';
			continue;
		}
		if (*s == '"' || *s == '\'')
			quote = *s;
		else if (*s == '[')
			depth++;
		else if (*s == ']' && --depth == 0)
			return take_literal(ps, SIM_LIT_ARRAY, (size_t) (s + 1 - ps->p));
	}
	return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY,
					"Invalid JSON. A comma character ',' was expected in scope 'Array'. Every "
					"two elements in an array and properties of an object must be separated by "
					"commas.");
}

static bool
digits(const char *s, int n)
{
	while (n-- > 0)
	{
		if (!isdigit((unsigned char) *s++))
			return false;
	}
	return true;
}

/* returns the length of a date (and time) at s, or 0 */
static size_t
date_length(const char *s, enum sim_literal *kind)
{
	size_t		len = 10;

	if (!digits(s, 4) || s[4] != '-' || !digits(s + 5, 2) || s[7] != '-' || !digits(s + 8, 2))
		return 0;
	*kind = SIM_LIT_DATE;
	if (s[10] == 'T')
	{
		*kind = SIM_LIT_DATETIME;
		for (len++; isdigit((unsigned char) s[len]) || (s[len] != '\0' && strchr(":.Z+-", s[len]));)
			len++;
	}
	return len;
}

static bool
lex_number(struct parser *ps)
{
	const char *s = ps->p;
	enum sim_literal kind = SIM_LIT_INTEGER;
	bool		ok;

	s += *s == '-';
	while (isdigit((unsigned char) *s))
		s++;
	if (*s == '.' && isdigit((unsigned char) s[1]))
	{
		kind = SIM_LIT_DECIMAL;
		for (s++; isdigit((unsigned char) *s);)
			s++;
	}
	if ((*s == 'e' || *s == 'E') &&
		(isdigit((unsigned char) s[1]) ||
		 ((s[1] == '-' || s[1] == '+') && isdigit((unsigned char) s[2]))))
	{
		kind = SIM_LIT_DECIMAL;
		for (s += 2; isdigit((unsigned char) *s);)
			s++;
	}
	ok = take_literal(ps, kind, (size_t) (s - ps->p));
	/* type suffixes are allowed and ignored */
	if (*ps->p != '\0' && strchr("LlMmDdFf", *ps->p) && !name_char(ps->p[1]))
		ps->p++;
	return ok && !name_char(*ps->p) ? true : syntax_error(ps);
}

static bool
lex_name(struct parser *ps)
{
	const char *s = ps->p;
	size_t		len;

	while (name_char(*s))
		s++;
	len = (size_t) (s - ps->p);
	if (*s == '\'')
	{
		ps->p = s;
		return lex_string(ps, SIM_LIT_ENUM);
	}
	set_text(ps, ps->p, len);
	if (sim_text_is(&ps->text, "null"))
		return take_literal(ps, SIM_LIT_NULL, len);
	if (sim_text_is(&ps->text, "true") || sim_text_is(&ps->text, "false"))
		return take_literal(ps, SIM_LIT_BOOLEAN, len);
	ps->token = T_NAME;
	ps->p = s;
	return true;
}

static bool
lex_alias(struct parser *ps)
{
	const char *s = ps->p + 1;

	while (name_char(*s))
		s++;
	if (s == ps->p + 1)
		return syntax_error(ps);
	ps->token = T_ALIAS;
	set_text(ps, ps->p, (size_t) (s - ps->p));
	ps->p = s;
	return true;
}

/* returns true if a GUID comes next */
static bool
guid_here(const char *s)
{
	unsigned char bytes[16];

	return strnlen(s, 36) == 36 && sim_guid_parse(s, 36, bytes) && !name_char(s[36]) &&
		s[36] != '-';
}

static bool
next_token(struct parser *ps)
{
	static const char singles[] = "(),/:=";
	static const enum token tokens[] = {T_OPEN, T_CLOSE, T_COMMA, T_SLASH, T_COLON, T_EQUALS};
	enum sim_literal kind;
	const char *single;
	size_t		len;

	while (*ps->p == ' ' || *ps->p == '\t')
		ps->p++;
	ps->token_start = ps->p;
	if (*ps->p == '\0')
	{
		ps->token = T_END;
		return true;
	}
	single = strchr(singles, *ps->p);
	if (single != NULL)
	{
		ps->token = tokens[single - singles];
		ps->p++;
		return true;
	}
	if (*ps->p == '\'')
		return lex_string(ps, SIM_LIT_STRING);
	if (*ps->p == '@')
		return lex_alias(ps);
	if (*ps->p == '[')
		return lex_array(ps);
	if (guid_here(ps->p))
		return take_literal(ps, SIM_LIT_GUID, 36);
	len = date_length(ps->p, &kind);
	if (len > 0)
		return take_literal(ps, kind, len);
	if (isdigit((unsigned char) *ps->p) || (*ps->p == '-' && isdigit((unsigned char) ps->p[1])))
		return lex_number(ps);
	if (name_char(*ps->p))
		return lex_name(ps);
	return syntax_error(ps);
}

/* requires the current token to be this one, and moves on */
static bool
expect(struct parser *ps, enum token token)
{
	return ps->token == token ? next_token(ps) : syntax_error(ps);
}

static bool
is_word(struct parser *ps, const char *word)
{
	return ps->token == T_NAME && sim_text_is(&ps->text, word);
}

/* ----------
 * Parser
 * ----------
 */

static struct sim_node *
new_node(struct parser *ps, enum sim_node_kind kind)
{
	struct sim_node *node = sim_alloc(ps->req->arena, sizeof(*node));

	node->kind = kind;
	return node;
}

/* room for n arguments is allocated at every power of two */
static void
add_arg(struct parser *ps, struct sim_node *node, struct sim_node *arg)
{
	int			n = node->nargs;

	if ((n & (n - 1)) == 0)
	{
		struct sim_node **args = sim_alloc(ps->req->arena, sizeof(*args) * (n ? 2 * n : 1));

		if (n > 0)
			memcpy(args, node->args, sizeof(*args) * n);
		node->args = args;
	}
	node->args[node->nargs++] = arg;
}

static void
add_segment(struct parser *ps, struct sim_node *node, struct sim_text text)
{
	struct sim_text *path = sim_alloc(ps->req->arena, sizeof(*path) * (node->npath + 1));

	if (node->npath > 0)
		memcpy(path, node->path, sizeof(*path) * node->npath);
	path[node->npath++] = text;

	node->path = path;
}

/*
 * Returns the value of @p: a literal or, where a column is allowed, a path.
 * An alias without a value is null.
 */
static bool
resolve_alias(struct parser *ps, bool path, struct sim_node **out)
{
	const char *value;
	struct parser sub = {0};

	if (++ps->naliases > MAX_ALIASES)
		return too_deep(ps);
	if (!ps->aliases)
		return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY,
						"Parameter alias '%s' is not supported inside $expand.", ps->text.s);
	value = sim_param(ps->req, ps->text.s);
	*out = new_node(ps, SIM_NODE_LITERAL);
	if (value == NULL)
		return true;
	sub.req = ps->req;
	sub.res = ps->res;
	sub.start = sub.p = value;
	if (!next_token(&sub))
		return false;
	if (path && sub.token == T_NAME)
	{
		if (!parse_path(&sub, out))
			return false;
		return sub.token == T_END && (*out)->kind == SIM_NODE_PATH ? true : syntax_error(&sub);
	}
	if (sub.token != T_LITERAL)
		return syntax_error(&sub);
	(*out)->literal = sub.literal;
	(*out)->text = sub.text;
	if (!next_token(&sub))
		return false;
	return sub.token == T_END ? true : syntax_error(&sub);
}

static bool
parse_literal(struct parser *ps, struct sim_node **out)
{
	if (ps->token == T_ALIAS)
		return resolve_alias(ps, false, out) && next_token(ps);
	if (ps->token != T_LITERAL)
		return syntax_error(ps);
	*out = new_node(ps, SIM_NODE_LITERAL);
	(*out)->literal = ps->literal;
	(*out)->text = ps->text;
	return next_token(ps);
}

/* name=value,… after the opening parenthesis of a function */
static bool
parse_named_args(struct parser *ps, struct sim_node *node)
{
	while (ps->token != T_CLOSE)
	{
		struct sim_text name;
		struct sim_node *arg;

		if (node->nargs > 0 && !expect(ps, T_COMMA))
			return false;
		name = ps->text;
		if (ps->token != T_NAME)
			return syntax_error(ps);
		if (!next_token(ps) || !expect(ps, T_EQUALS) || !parse_literal(ps, &arg))
			return false;
		arg->name = name;
		add_arg(ps, node, arg);
	}
	return next_token(ps);
}

static bool
parse_call_args(struct parser *ps, struct sim_node *node)
{
	while (ps->token != T_CLOSE)
	{
		struct sim_node *arg;

		if (node->nargs > 0 && !expect(ps, T_COMMA))
			return false;
		if (!parse_or(ps, &arg))
			return false;
		add_arg(ps, node, arg);
	}
	return next_token(ps);
}

/* any(o:o/name eq 'x'), after the opening parenthesis */
static bool
parse_lambda(struct parser *ps, struct sim_node *node)
{
	struct sim_node *body;

	if (ps->token == T_CLOSE)
		return next_token(ps);
	if (ps->token != T_NAME)
		return syntax_error(ps);
	node->text = ps->text;
	if (!next_token(ps) || !expect(ps, T_COLON) || !parse_or(ps, &body))
		return false;
	add_arg(ps, node, body);
	return expect(ps, T_CLOSE);
}

/* an opening parenthesis after the path's last segment: determines what is called */
static bool
parse_invocation(struct parser *ps, struct sim_node *node)
{
	struct sim_text last = node->path[--node->npath];
	size_t		prefix = strlen(NAMESPACE);

	if (!next_token(ps))
		return false;
	if (last.len > prefix && memcmp(last.s, NAMESPACE, prefix) == 0)
	{
		node->kind = SIM_NODE_FUNCTION;
		node->text.s = last.s + prefix;
		node->text.len = last.len - prefix;
		return parse_named_args(ps, node);
	}
	if (node->npath > 0 && (sim_text_is(&last, "any") || sim_text_is(&last, "all")))
	{
		node->kind = SIM_NODE_LAMBDA;
		node->op = sim_text_is(&last, "all");
		return parse_lambda(ps, node);
	}
	node->kind = SIM_NODE_CALL;
	node->text = last;
	return parse_call_args(ps, node);
}

static bool
parse_path(struct parser *ps, struct sim_node **out)
{
	struct sim_node *node = new_node(ps, SIM_NODE_PATH);

	*out = node;
	for (;;)
	{
		if (ps->token != T_NAME)
			return syntax_error(ps);
		if (node->npath == MAX_SEGMENTS)
			return too_deep(ps);
		add_segment(ps, node, ps->text);
		if (!next_token(ps))
			return false;
		if (ps->token == T_OPEN)
			return parse_invocation(ps, node);
		if (ps->token != T_SLASH)
			return true;
		if (!next_token(ps))
			return false;
	}
}

static bool
parse_unary(struct parser *ps, struct sim_node **out)
{
	bool		ok;

	if (++ps->depth > MAX_DEPTH)
		return too_deep(ps);
	if (is_word(ps, "not"))
	{
		struct sim_node *arg;

		ok = next_token(ps) && parse_unary(ps, &arg);
		if (ok)
		{
			*out = new_node(ps, SIM_NODE_NOT);
			add_arg(ps, *out, arg);
		}
	}
	else if (ps->token == T_OPEN)
		ok = next_token(ps) && parse_or(ps, out) && expect(ps, T_CLOSE);
	else if (ps->token == T_NAME)
		ok = parse_path(ps, out);
	else if (ps->token == T_ALIAS)
		ok = resolve_alias(ps, true, out) && next_token(ps);
	else
		ok = parse_literal(ps, out);
	ps->depth--;
	return ok;
}

/* refuses operators that OData has but the service does not */
static bool
refuse_operator(struct parser *ps)
{
	static const char *const words[][2] = {
		{"add", "Add"}, {"sub", "Subtract"}, {"mul", "Multiply"}, {"div", "Divide"},
		{"divby", "Divide"}, {"mod", "Modulo"}, {"has", "Has"}, {"in", "In"}
	};
	size_t		i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
	{
		if (is_word(ps, words[i][0]))
			return sim_fail(ps->req, ps->res, 400, SIM_BAD_QUERY,
							"The operator '%s' is not supported.", words[i][1]);
	}
	return true;
}

static bool
parse_compare(struct parser *ps, struct sim_node **out)
{
	static const char *const words[] = {"eq", "ne", "gt", "ge", "lt", "le"};

	if (!parse_unary(ps, out) || !refuse_operator(ps))
		return false;
	for (;;)
	{
		struct sim_node *node;
		struct sim_node *right;
		int			op = 0;

		while (op < 6 && !is_word(ps, words[op]))
			op++;
		if (op == 6)
			return true;
		if (!next_token(ps) || !parse_unary(ps, &right) || !refuse_operator(ps))
			return false;
		node = new_node(ps, SIM_NODE_COMPARE);
		node->op = op;
		add_arg(ps, node, *out);
		add_arg(ps, node, right);
		*out = node;
	}
}

/* a AND b AND c is one node; parentheses around a part of it vanish */
static void
add_operand(struct parser *ps, struct sim_node *list, struct sim_node *operand)
{
	int			i;

	if (operand->kind != list->kind)
	{
		add_arg(ps, list, operand);
		return;
	}
	for (i = 0; i < operand->nargs; i++)
		add_arg(ps, list, operand->args[i]);
}

static bool
parse_list(struct parser *ps, enum sim_node_kind kind, const char *word,
		   bool (*parse_operand) (struct parser *, struct sim_node **), struct sim_node **out)
{
	struct sim_node *list = NULL;

	if (!parse_operand(ps, out))
		return false;
	while (is_word(ps, word))
	{
		struct sim_node *operand;

		if (!next_token(ps) || !parse_operand(ps, &operand))
			return false;
		if (list == NULL)
		{
			list = new_node(ps, kind);
			add_operand(ps, list, *out);
			*out = list;
		}
		add_operand(ps, list, operand);
	}
	return true;
}

static bool
parse_and(struct parser *ps, struct sim_node **out)
{
	return parse_list(ps, SIM_NODE_AND, "and", parse_compare, out);
}

static bool
parse_or(struct parser *ps, struct sim_node **out)
{
	return parse_list(ps, SIM_NODE_OR, "or", parse_and, out);
}

bool
sim_filter_parse(struct sim_req *req, struct sim_res *res, const char *text, bool aliases,
				 struct sim_node **out)
{
	struct parser ps = {0};

	ps.req = req;
	ps.res = res;
	ps.start = ps.p = text;

	ps.aliases = aliases;
	if (!next_token(&ps) || !parse_or(&ps, out))
		return false;
	return ps.token == T_END ? true : syntax_error(&ps);
}

bool
sim_path_parse(struct sim_req *req, struct sim_res *res, const char *s, size_t len,
			   struct sim_node **out)
{
	struct parser ps = {0};

	ps.req = req;
	ps.res = res;
	ps.start = ps.p = sim_strndup(req->arena, s, len);
	if (!next_token(&ps) || !parse_path(&ps, out))
		return false;
	if (ps.token != T_END || (*out)->kind != SIM_NODE_PATH)
		return syntax_error(&ps);
	return true;
}

bool
sim_list_next(struct sim_arena *arena, const char **p, char sep, struct sim_text *item)
{
	const char *s = *p;
	const char *end;
	int			depth = 0;
	bool		quoted = false;

	if (s == NULL)
		return false;
	while (*s == ' ')
		s++;
	for (end = s; *end != '\0' && (quoted || depth > 0 || *end != sep); end++)
	{
		if (*end == '\'')
			quoted = !quoted;
		else if (!quoted && *end == '(')
			depth++;
		else if (!quoted && *end == ')')
			depth--;
	}
	*p = *end == '\0' ? NULL : end + 1;
	while (end > s && end[-1] == ' ')
		end--;
	item->s = sim_strndup(arena, s, (size_t) (end - s));
	item->len = (size_t) (end - s);
	return true;
}
