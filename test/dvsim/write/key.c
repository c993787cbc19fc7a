/*
 * key.c
 *		Key predicates and references to rows.
 *
 * A predicate is "guid", "accountid=guid", "name='x',no=4" or, for elastic
 * tables, "id=guid,partitionid='p'".  A reference is a set with a predicate,
 * as in @odata.bind, @odata.id and $ref bodies, written as an absolute URL,
 * an absolute path, relative to the service root, or as "$1" in a changeset.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "write/row_write.h"

#define MAX_KEY_COLUMNS 16

struct key_part
{
	const char *name;
	size_t		name_len;
	const char *value;			/* without quotes, doubled quotes undone */
	size_t		len;
	bool		quoted;
};

static bool
syntax_error(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 400, "0x80060888", "Bad Request - Error in query syntax.");
}

/* principals are addressed by "ownerid", whatever the name of their id column */
bool
sim_is_principal(const struct sim_table *table)
{
	return strcmp(table->name, "systemuser") == 0 || strcmp(table->name, "team") == 0;
}

static bool
part_is(const struct key_part *part, const char *name)
{
	return strlen(name) == part->name_len && memcmp(part->name, name, part->name_len) == 0;
}

/* the documentation writes partitionid and partitionId */
static bool
part_is_partition(const struct key_part *part)
{
	return part->name_len == 11 && strncasecmp(part->name, "partitionid", 11) == 0;
}

/* a quoted literal at *s; NULL when it does not end */
static const char *
read_quoted(struct sim_arena *arena, const char *s, const char *end, struct key_part *part)
{
	char	   *out = sim_alloc(arena, end - s + 1);

	part->value = out;
	part->quoted = true;
	for (s++; s < end; s++)
	{
		if (*s == '\'')
		{
			if (s + 1 == end || s[1] != '\'')
				break;
			s++;
		}
		*out++ = *s;
	}
	part->len = out - part->value;
	return s < end ? s + 1 : NULL;
}

/* reads "name=value" at *s; returns the rest, NULL if malformed */
static const char *
read_part(struct sim_arena *arena, const char *s, const char *end, struct key_part *part)
{
	const char *eq = memchr(s, '=', end - s);

	if (eq == NULL)
		return NULL;
	while (s < eq && *s == ' ')
		s++;
	part->name = s;
	part->name_len = eq - s;
	while (part->name_len > 0 && s[part->name_len - 1] == ' ')
		part->name_len--;
	for (s = eq + 1; s < end && *s == ' '; s++)
		;
	if (s < end && *s == '\'')
		s = read_quoted(arena, s, end, part);
	else
	{
		part->value = s;
		while (s < end && *s != ',')
			s++;
		part->len = s - part->value;
		while (part->len > 0 && part->value[part->len - 1] == ' ')
			part->len--;
		if (part->len == 0)
			return NULL;
	}
	while (s != NULL && s < end && *s == ' ')
		s++;
	return part->name_len == 0 ? NULL : s;
}

/* returns the number of parts, -1 if malformed */
static int
read_parts(struct sim_arena *arena, const char *s, size_t len, struct key_part *parts)
{
	const char *end = s + len;
	int			n = 0;

	for (;;)
	{
		if (n == MAX_KEY_COLUMNS)
			return -1;
		s = read_part(arena, s, end, &parts[n]);
		if (s == NULL)
			return -1;
		n++;
		if (s == end)
			return n;
		if (*s++ != ',')
			return -1;
	}
}

static bool
id_key(struct sim_req *req, struct sim_res *res, const struct key_part *id,
	   const struct key_part *partition, struct sim_key *key)
{
	if (id->quoted || !sim_guid_parse(id->value, id->len, key->id))
		return syntax_error(req, res);
	key->by_id = true;
	if (partition != NULL)
	{
		if (!partition->quoted)
			return syntax_error(req, res);
		key->partition = partition->value;
		key->partition_len = partition->len;
		key->partition_named = true;
	}
	return true;
}

static const struct key_part *
part_of_column(const struct key_part *parts, int n, const struct sim_column *column)
{
	int			i;

	for (i = 0; i < n; i++)
		if (part_is(&parts[i], column->property != NULL ? column->property : column->name))
			return &parts[i];
	return NULL;
}

static struct sim_key_def *
find_key_def(struct sim_table *table, const struct key_part *parts, int n)
{
	int			i,
				j;

	for (i = 0; i < table->nkeys; i++)
	{
		struct sim_key_def *def = &table->keys[i];

		if (def->n != n || strcmp(def->status, "Active") != 0)
			continue;
		for (j = 0; j < n && part_of_column(parts, n, def->columns[j]) != NULL; j++)
			;
		if (j == n)
			return def;
	}
	return NULL;
}

static bool
is_text(const struct sim_column *column)
{
	return column->type == SIM_STRING || column->type == SIM_MEMO ||
		column->type == SIM_ENTITYNAME;
}

static bool
alternate_key(struct sim_req *req, struct sim_res *res, const struct key_part *parts, int n,
			  struct sim_key *key)
{
	struct sim_key_def *def = find_key_def(key->table, parts, n);
	int			i;

	if (def == NULL)
		return sim_fail(req, res, 400, "0x80060890",
						"The specified key attributes are not a defined key for the %s entity",
						key->table->name);
	key->def = def;
	key->values = sim_alloc(req->arena, sizeof(struct sim_value) * n);
	for (i = 0; i < n; i++)
	{
		const struct key_part *part = part_of_column(parts, n, def->columns[i]);

		if (part->quoted != is_text(def->columns[i]))
			return syntax_error(req, res);
		if (!sim_value_from_literal(req, res, def->columns[i], part->value, part->len,
									&key->values[i]))
			return false;
	}
	return true;
}

static bool
named_key(struct sim_req *req, struct sim_res *res, const struct key_part *parts, int n,
		  struct sim_key *key)
{
	struct sim_table *table = key->table;
	const char *id_name = sim_is_principal(table) ? "ownerid" : table->id->name;
	int			i;

	if (n == 1 && part_is(&parts[0], id_name))
		return id_key(req, res, &parts[0], NULL, key);
	if (n == 2 && table->type == SIM_ELASTIC)
	{
		for (i = 0; i < 2; i++)
			if (part_is(&parts[i], id_name) && part_is_partition(&parts[1 - i]))
				return id_key(req, res, &parts[i], &parts[1 - i], key);
	}
	return alternate_key(req, res, parts, n, key);
}

static bool
parse_predicate(struct sim_req *req, struct sim_res *res, struct sim_table *table,
				const char *s, size_t len, struct sim_key *key)
{
	struct key_part parts[MAX_KEY_COLUMNS];
	int			n;

	memset(key, 0, sizeof(*key));
	key->table = table;
	key->text = sim_strndup(req->arena, s, len);
	if (sim_guid_parse(s, len, key->id))
	{
		key->by_id = true;
		return true;
	}
	memset(parts, 0, sizeof(parts));
	n = read_parts(req->arena, s, len, parts);
	if (n < 0)
		return syntax_error(req, res);
	return named_key(req, res, parts, n, key);
}

/* ?partitionId= counts on GET and DELETE only; with or without quotes */
static void
partition_option(struct sim_req *req, struct sim_key *key)
{
	const char *value;
	size_t		len;

	if (key->table->type != SIM_ELASTIC || !key->by_id || key->partition != NULL)
		return;
	if (strcmp(req->method, "GET") != 0 && strcmp(req->method, "DELETE") != 0)
		return;
	value = sim_param(req, "partitionId");
	if (value == NULL)
		return;
	len = strlen(value);
	if (len >= 2 && value[0] == '\'' && value[len - 1] == '\'')
	{
		value++;
		len -= 2;
	}
	key->partition = value;
	key->partition_len = len;
}

/*
 * The service's front end rejects URLs that have one of these in an alternate
 * key, be it a text or a date with a time.
 */
static bool
fits_url(const struct sim_key *key)
{
	return key->def == NULL || strpbrk(key->text, "/<>*%&:\\?+#") == NULL;
}

bool
sim_key_parse(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			  const char *text, struct sim_key *key)
{
	if (!parse_predicate(req, res, table, text, strlen(text), key))
		return false;
	if (!fits_url(key))
		return syntax_error(req, res);
	partition_option(req, key);
	return true;
}

/* the part below the service root of an absolute URL, an absolute path or a relative one */
static const char *
below_root(const char *s, size_t *len)
{
	const char *end = s + *len;
	const char *p;

	if ((*len > 7 && strncasecmp(s, "http://", 7) == 0) ||
		(*len > 8 && strncasecmp(s, "https://", 8) == 0))
	{
		p = memchr(s + 8, '/', end - s - 8);
		s = p != NULL ? p : end;
	}
	if (end - s > 11 && memcmp(s, "/api/data/v", 11) == 0)
	{
		p = memchr(s + 11, '/', end - s - 11);
		s = p != NULL ? p : end;
	}
	if (s < end && *s == '/')
		s++;
	*len = end - s;
	return s;
}

/* "$1": the row created by that part of the changeset; NULL and a failure if there is none */
static const char *
content_reference(struct sim_req *req, struct sim_res *res, const char *s, size_t len)
{
	int			i;

	for (i = 0; req->content_ids != NULL && i < req->content_ids->n; i++)
	{
		const struct sim_pair *pair = &req->content_ids->items[i];

		if (strlen(pair->name) == len - 1 && memcmp(pair->name, s + 1, len - 1) == 0)
			return pair->value;
	}
	sim_fail(req, res, 400, "0x80060888",
			 "Content-ID Reference: '%.*s' does not exist in the batch context.", (int) len, s);
	return NULL;
}

static bool
bad_reference(struct sim_req *req, struct sim_res *res, const char *s, size_t len)
{
	return sim_payload_fail(req, res, NULL, "Microsoft.OData.ODataException: The URI '%.*s' does "
							"not identify a row.", (int) (len > 200 ? 200 : len), s);
}

bool
sim_reference_parse(struct sim_req *req, struct sim_res *res, const char *s, size_t len,
					struct sim_key *key)
{
	struct sim_table *table;
	const char *open;

	if (len > 1 && s[0] == '$')
	{
		s = content_reference(req, res, s, len);
		if (s == NULL)
			return false;
		len = strlen(s);
	}
	s = below_root(s, &len);
	/* bodies are not percent-decoded, but text after "#" is not read as part of the reference */
	if (memchr(s, '#', len) != NULL)
		return syntax_error(req, res);
	open = memchr(s, '(', len);
	if (open == NULL || s[len - 1] != ')')
		return bad_reference(req, res, s, len);
	table = sim_table_by_set(req->sim->schema, s, open - s);
	if (table == NULL)
		return sim_payload_fail(req, res, NULL,
								"Microsoft.OData.UriParser.ODataUnrecognizedPathException: "
								"Resource not found for the segment '%.*s'.",
								(int) (open - s > 200 ? 200 : open - s), s);
	return parse_predicate(req, res, table, open + 1, s + len - open - 2, key);
}

/*
 * returns true if a member of the body sets this column, as a value or through a navigation
 * property
 */
static bool
is_set(struct sim_json *object, struct sim_table *table, const struct sim_column *column)
{
	struct sim_target *target;
	struct sim_json *m;

	for (m = object->child; m != NULL; m = m->next)
	{
		const char *at = memchr(m->key, '@', m->keylen);
		size_t		len = at != NULL ? (size_t) (at - m->key) : m->keylen;

		if (at == NULL && sim_column_by_property(table, m->key, len) == column)
			return true;
		if (len > 0 && sim_column_by_navigation(table, m->key, len, &target) == column)
			return true;
	}
	return false;
}

bool
sim_key_repeated(const struct sim_key *key, struct sim_json *object)
{
	int			i;

	if (key->by_id)
		return key->partition_named && sim_json_member(object, "partitionid") != NULL;
	for (i = 0; i < key->def->n; i++)
		if (is_set(object, key->table, key->def->columns[i]))
			return true;
	return false;
}
