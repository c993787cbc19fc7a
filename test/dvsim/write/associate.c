/*
 * associate.c
 *		References between rows: $ref on lookups and collections, and deep
 *		inserts into collections.
 *
 * A collection is the far end of a lookup (linking sets the other row's
 * lookup) or N:N (linking makes a row of the intersect table).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdio.h>
#include <string.h>

#include "store/guid.h"
#include "write/row_plan.h"

static bool
internal_error(struct sim_req *req, struct sim_res *res)
{
	return sim_fail(req, res, 500, "0x80040216", "An unexpected error occurred.");
}

/* an update through the writer of one member: "nav@odata.bind", a reference or null */
static bool
bind_lookup(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			const unsigned char id[16], const char *partition, size_t partition_len,
			const char *navigation, const char *reference)
{
	struct sim_json member = {.type = SIM_JSON_NULL};
	struct sim_json object = {.type = SIM_JSON_OBJECT, .child = &member, .n = 1};
	struct sim_write_row row = {.has_id = true, .has_partition = true};
	struct sim_writer w;
	enum sim_found found = SIM_ERROR;

	member.key = sim_fmt(req->arena, "%s@odata.bind", navigation);
	member.keylen = strlen(member.key);
	if (reference != NULL)
	{
		member.type = SIM_JSON_STRING;
		member.s = reference;
		member.len = strlen(reference);
	}
	memcpy(row.id, id, 16);
	row.partition = partition != NULL ? partition : "";
	row.partition_len = partition != NULL ? partition_len : 0;
	sim_writer_start(&w, req, res, table, SIM_WRITE_UPDATE);
	if (sim_writer_decode(&w, &object, &row))
		found = sim_writer_update(&w, &row);
	sim_writer_end(&w);
	if (found == SIM_MISSING)
	{
		struct sim_key key = {.table = table, .by_id = true};

		memcpy(key.id, id, 16);
		return sim_row_missing(req, res, &key);
	}
	return found == SIM_FOUND;
}

static const char *
reference_text(struct sim_req *req, const struct sim_table *table, const unsigned char id[16])
{
	char		text[37] = "";

	sim_guid_print(id, text);
	return sim_fmt(req->arena, "%s(%s)", table->set_name, text);
}

/*
 * finds the intersect row of a pair, or reports that there is none; linking twice is refused as
 * by the service
 */
static bool
link_many(struct sim_req *req, struct sim_res *res, struct sim_many *many,
		  const unsigned char one[16], const unsigned char two[16])
{
	struct sim_table *t = many->intersect;
	struct sim_buf sql = {0};
	unsigned char id[16];
	sqlite3_stmt *stmt;
	int			rc;

	sim_putf(&sql, "INSERT INTO \"%s\"(\"%s\",\"%s\",\"%s\"%s) VALUES (?1,?2,?3%s)", t->name,
			 t->id->name, many->column1->name, many->column2->name,
			 t->version != NULL ? ",\"versionnumber\"" : "", t->version != NULL ? ",?4" : "");
	stmt = sim_stmt_get(req->sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return internal_error(req, res);
	sim_guid_make((uint64_t) (req->sim->epoch_us + sim_now_us(req->sim)), sim_random(req->sim),
				  id);
	sqlite3_bind_blob(stmt, 1, id, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, one, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 3, two, 16, SQLITE_STATIC);
	if (t->version != NULL)
		sqlite3_bind_int64(stmt, 4, sim_next_version(req->sim->store));
	rc = sqlite3_step(stmt);
	sim_stmt_put(req->sim->store, stmt);
	if (rc == SQLITE_DONE)
		return true;
	if (rc == SQLITE_CONSTRAINT)
		return sim_fail(req, res, 412, "0x80040237", "Cannot insert duplicate key.");
	return internal_error(req, res);
}

static bool
unlink_many(struct sim_req *req, struct sim_res *res, struct sim_many *many,
			const unsigned char one[16], const unsigned char two[16])
{
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;

	sim_putf(&sql, "DELETE FROM \"%s\" WHERE \"%s\"=?1 AND \"%s\"=?2", many->intersect->name,
			 many->column1->name, many->column2->name);
	stmt = sim_stmt_get(req->sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return internal_error(req, res);
	sqlite3_bind_blob(stmt, 1, one, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, two, 16, SQLITE_STATIC);
	sqlite3_step(stmt);
	sim_stmt_put(req->sim->store, stmt);
	return true;
}

/*
 * returns the end of the N:N from which this navigation of the table starts; both may have one
 * name
 */
static bool
starts_at_one(const struct sim_many *many, const struct sim_table *table, const char *nav,
			  size_t len)
{
	if (many->table1 != many->table2)
		return many->table1 == table;
	return strlen(many->navigation1) == len && memcmp(many->navigation1, nav, len) == 0;
}

static bool
no_segment(struct sim_req *req, struct sim_res *res, const char *nav, size_t len)
{
	return sim_fail(req, res, 404, "0x80060888", "Resource not found for the segment '%.*s'.",
					(int) len, nav);
}

static bool
wrong_type(struct sim_req *req, struct sim_res *res, const struct sim_key *other,
		   const char *nav, size_t len)
{
	return sim_payload_fail(req, res, NULL, "Microsoft.OData.ODataException: A resource with type "
							"'Microsoft.Dynamics.CRM.%s' was found, but it is not assignable to "
							"the navigation property '%.*s'.", other->table->name, (int) len, nav);
}

/* returns true if the lookup behind a collection points to this row */
static bool
points_to(struct sim_req *req, struct sim_relationship *rel, const unsigned char far_id[16],
		  const unsigned char id[16])
{
	struct sim_buf sql = {0};
	sqlite3_stmt *stmt;
	bool		yes;

	sim_putf(&sql, "SELECT 1 FROM \"%s\" WHERE \"%s\"=?1 AND \"%s\"=?2", rel->referencing->name,
			 rel->referencing->id->name, rel->column->name);
	stmt = sim_stmt_get(req->sim->store, sql.s);
	sim_buf_free(&sql);
	if (stmt == NULL)
		return false;
	sqlite3_bind_blob(stmt, 1, far_id, 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, id, 16, SQLITE_STATIC);
	yes = sqlite3_step(stmt) == SQLITE_ROW;
	sim_stmt_put(req->sim->store, stmt);
	return yes;
}

/* links, or with "cut" unlinks, a row of a collection */
static bool
change_link(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			const unsigned char id[16], const char *nav, size_t len, struct sim_key *other,
			bool cut)
{
	struct sim_many *many = sim_many_by_name(table, nav, len);
	struct sim_relationship *rel = sim_collection_by_name(table, nav, len);
	struct sim_table *far;
	unsigned char far_id[16];

	if (many == NULL && rel == NULL)
		return no_segment(req, res, nav, len);
	if (many != NULL)
		far = starts_at_one(many, table, nav, len) ? many->table2 : many->table1;
	else
		far = rel->referencing;
	if (other->table != far)
		return wrong_type(req, res, other, nav, len);
	if (!sim_reference_resolve(req, res, other, far_id))
		return false;
	if (many != NULL)
	{
		bool		forward = starts_at_one(many, table, nav, len);
		const unsigned char *one = forward ? id : far_id;
		const unsigned char *two = forward ? far_id : id;

		return cut ? unlink_many(req, res, many, one, two) : link_many(req, res, many, one, two);
	}
	if (cut && !points_to(req, rel, far_id, id))
		return true;			/* the row belongs to another one, or to none */
	return bind_lookup(req, res, far, far_id, other->partition, other->partition_len,
					   rel->navigation, cut ? NULL : reference_text(req, table, id));
}

bool
sim_link(struct sim_req *req, struct sim_res *res, struct sim_table *table,
		 const unsigned char id[16], const char *nav, size_t len, struct sim_key *other)
{
	return change_link(req, res, table, id, nav, len, other, false);
}

/* {"@odata.id": "…"} */
static bool
reference_in_body(struct sim_req *req, struct sim_res *res, struct sim_table *table,
				  struct sim_key *other, const char **text)
{
	struct sim_json *object = sim_body_object(req, res, table);
	struct sim_json *id;

	if (object == NULL)
		return false;
	id = sim_json_member(object, "@odata.id");
	if (id == NULL || id->type != SIM_JSON_STRING)
		return sim_payload_fail(req, res, table, "Microsoft.OData.ODataException: An entity "
								"reference link needs the property '@odata.id'.");
	*text = sim_strndup(req->arena, id->s, id->len);
	return sim_reference_parse(req, res, id->s, id->len, other);
}

/* $ref on a lookup: PUT sets, DELETE clears */
static bool
reference_lookup(struct sim_req *req, struct sim_res *res, struct sim_key *key,
				 const unsigned char id[16], const char *nav)
{
	struct sim_key other;
	const char *text = NULL;

	if (strcmp(req->method, "PUT") == 0)
	{
		if (!reference_in_body(req, res, key->table, &other, &text))
			return false;
	}
	else if (strcmp(req->method, "DELETE") != 0)
		return sim_wrong_method(req, res);
	return bind_lookup(req, res, key->table, id, key->partition, key->partition_len, nav, text);
}

/* $ref on a collection: POST links; DELETE names the other row in the path or in $id */
static bool
reference_collection(struct sim_req *req, struct sim_res *res, struct sim_key *key,
					 const unsigned char id[16], const char *nav, size_t len, const char *member)
{
	struct sim_key other;
	const char *text;

	if (strcmp(req->method, "POST") == 0)
		return reference_in_body(req, res, key->table, &other, &text) &&
			change_link(req, res, key->table, id, nav, len, &other, false);
	if (strcmp(req->method, "DELETE") != 0)
		return sim_wrong_method(req, res);
	if (member == NULL)
	{
		text = sim_param(req, "$id");

		if (text == NULL)
			return sim_fail(req, res, 400, "0x80060888", "The query option $id is missing.");
		if (!sim_reference_parse(req, res, text, strlen(text), &other))
			return false;
	}
	else
	{
		struct sim_many *many = sim_many_by_name(key->table, nav, len);
		struct sim_relationship *rel = sim_collection_by_name(key->table, nav, len);
		struct sim_table *far;

		far = rel != NULL ? rel->referencing :
			starts_at_one(many, key->table, nav, len) ? many->table2 : many->table1;
		if (!sim_key_parse(req, res, far, member, &other))
			return false;
	}
	return change_link(req, res, key->table, id, nav, len, &other, true);
}

/* "nav/$ref" or "nav(key)/$ref" */
static bool
associate(struct sim_req *req, struct sim_res *res, struct sim_key *key, char *rest)
{
	struct sim_table *table = key->table;
	char	   *end = rest + strlen(rest) - 5;
	char	   *open = memchr(rest, '(', end - rest);
	size_t		len = (open != NULL ? open : end) - rest;
	unsigned char id[16];
	int64_t		version;

	*end = '\0';
	if (open != NULL)
	{
		if (end[-1] != ')')
			return no_segment(req, res, rest, len);
		end[-1] = '\0';
	}
	switch (sim_row_find(req, res, key, id, &version))
	{
		case SIM_ERROR:
			return false;
		case SIM_MISSING:
			return sim_row_missing(req, res, key);
		default:
			break;
	}
	if (sim_collection_by_name(table, rest, len) != NULL ||
		sim_many_by_name(table, rest, len) != NULL)
		return reference_collection(req, res, key, id, rest, len, open != NULL ? open + 1 : NULL);
	if (open == NULL)
	{
		struct sim_target *target;

		if (sim_column_by_navigation(table, rest, len, &target) != NULL)
			return reference_lookup(req, res, key, id, rest);
	}
	return no_segment(req, res, rest, len);
}

bool
sim_associate(struct sim_req *req, struct sim_res *res, struct sim_table *table,
			  struct sim_key *key, char *rest)
{
	struct sim_store *store = req->sim->store;

	res->kind = SIM_UPDATE;
	if (!sim_writable(req, res, table, "Associate"))
		return false;
	if (!sim_begin(store))
		return internal_error(req, res);
	if (!associate(req, res, key, rest))
	{
		sim_rollback(store);
		return false;
	}
	if (!sim_commit(store))
		return internal_error(req, res);
	res->rows = 1;
	res->status = 204;
	return true;
}

void
sim_bind_parent(struct sim_req *req, const struct sim_relationship *rel, const unsigned char id[16],
				struct sim_json *object)
{
	struct sim_json *bind = sim_alloc(req->arena, sizeof(*bind));

	bind->type = SIM_JSON_STRING;
	bind->key = sim_fmt(req->arena, "%s@odata.bind", rel->navigation);
	bind->keylen = strlen(bind->key);
	bind->s = reference_text(req, rel->referenced, id);
	bind->len = strlen(bind->s);
	bind->next = object->child;
	object->child = bind;
	object->n++;
}

/* creates one row of a collection; those of a 1:N get their lookup as a further member */
static bool
create_child(struct sim_writer *w, struct sim_write_row *row, const struct sim_member *m,
			 struct sim_json *object)
{
	struct sim_relationship *rel = sim_collection_by_name(w->table, m->key, m->name_len);
	struct sim_many *many = sim_many_by_name(w->table, m->key, m->name_len);
	struct sim_write_row child = {0};
	struct sim_key key = {.by_id = true};

	if (object->type != SIM_JSON_OBJECT)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: An "
								"unexpected node was found when reading from the JSON reader. A "
								"'StartObject' node was expected.");
	if (rel != NULL)
	{
		sim_bind_parent(w->req, rel, row->id, object);
		return sim_create_row(w->req, w->res, rel->referencing, object, NULL, &child);
	}
	key.table = starts_at_one(many, w->table, m->key, m->name_len) ? many->table2 : many->table1;
	if (!sim_create_row(w->req, w->res, key.table, object, NULL, &child))
		return false;
	memcpy(key.id, child.id, 16);
	return sim_link(w->req, w->res, w->table, row->id, m->key, m->name_len, &key);
}

bool
sim_write_children(struct sim_writer *w, struct sim_write_row *row, const struct sim_member *m,
				   struct sim_json *json)
{
	struct sim_json *item;
	struct sim_key key;

	if (json->type != SIM_JSON_ARRAY)
		return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: A "
								"'StartArray' node was expected for the property '%.*s'.",
								(int) m->name_len, m->key);
	for (item = json->child; item != NULL; item = item->next)
	{
		if (m->kind == SIM_MEMBER_COLLECTION)
		{
			if (!create_child(w, row, m, item))
				return false;
		}
		else if (item->type != SIM_JSON_STRING)
			return sim_payload_fail(w->req, w->res, w->table, "Microsoft.OData.ODataException: The "
									"value of the 'odata.bind' property annotation of '%.*s' is "
									"not an array of strings.", (int) m->name_len, m->key);
		else if (!sim_reference_parse(w->req, w->res, item->s, item->len, &key) ||
				 !sim_link(w->req, w->res, w->table, row->id, m->key, m->name_len, &key))
			return false;
	}
	return true;
}
