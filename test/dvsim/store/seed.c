/*
 * seed.c
 *		Rows in bulk, for benchmarks and tests.
 *
 * The values of a row depend on its table, the seed and its ordinal, so two runs make the same
 * rows; a lookup points to a row of the first of its targets if that was seeded before, to one of
 * its own table with a smaller ordinal, else to none, unless the request specifies how to fill
 * it.  A second call continues where the first one stopped.  The ids of a table share their
 * leading bytes and end in the ordinal, so they sort by it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "store/store_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/decimal.h"
#include "store/guid.h"
#include "store/seed_lookups.h"
#include "store/value.h"

#define TEXT_ROOM 320			/* for one value */

/* one column of the statement that differs from row to row */
struct seeder
{
	const struct sim_column *column;
	int			param;
	uint64_t	salt;
	bool		unique;			/* part of an alternate key, or the primary name: never NULL */
	int64_t		low;			/* numbers: from and to */
	int64_t		high;
	const struct sim_table *target; /* of a lookup */
	int64_t		targets;		/* seeded rows that it can point to */
	const struct sim_seed_lookup *lookup;	/* how to fill it according to the request, or NULL */
	unsigned char prefix[8];	/* of their ids */
	void		(*fill) (struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal);
	char		text[TEXT_ROOM];
};

static const char *const first_names[] = {
	"Anna", "Björn", "Chloé", "David", "Elena", "François", "Grace", "Hugo", "Ines", "Jürgen",
	"Karen", "Luis", "Maria", "Noah", "Olga", "Peter", "Quentin", "Renée", "Søren", "Tomás",
	"Ursula", "Vera", "Walter", "Xenia", "Yusuf", "Zoë"
};

static const char *const last_names[] = {
	"Adams", "Bianchi", "Carlsen", "Dubois", "Evans", "Fischer", "García", "Hansen", "Ivanov",
	"Jensen", "Kowalski", "López", "Müller", "Novák", "O'Brien", "Petrov", "Quinn", "Rossi",
	"Schmidt", "Thompson", "Ueda", "Virtanen", "Weber", "Young", "Zhang"
};

static const char *const cities[] = {
	"Amsterdam", "Berlin", "København", "Dublin", "Genève", "Helsinki", "Köln", "Lisbon",
	"London", "Madrid", "Málaga", "New York", "Oslo", "Paris", "Rome", "Seattle", "Tokyo",
	"Vienna", "Warsaw", "Zürich"
};

static const char *const countries[] = {
	"Austria", "Denmark", "Finland", "France", "Germany", "Ireland", "Italy", "Netherlands",
	"Norway", "Poland", "Portugal", "Spain", "Switzerland", "United Kingdom", "United States"
};

static const char *const words[] = {
	"alpine", "blue", "city", "digital", "east", "fabrikam", "global", "harbor", "inner",
	"junction", "kinetic", "light", "modern", "north", "open", "pacific", "quality", "river",
	"solar", "trey", "union", "valley", "west", "xeno", "yellow", "zenith"
};

static const char *const company_ends[] = {
	"Bikes", "Consulting", "Energy", "Foods", "Group", "Holding", "Industries", "Labs",
	"Logistics", "Research", "Sports", "Systems", "Traders", "Works"
};

#define PICK(list, random) ((list)[(random) % (sizeof(list) / sizeof((list)[0]))])

static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* --- text --- */

/* Appends as much of a word as fits. */
static size_t
add_word(char *text, size_t len, size_t room, const char *word)
{
	size_t		n = strlen(word);

	if (len + n > room)
		return len;
	memcpy(text + len, word, n);
	return len + n;
}

static size_t
add_number(char *text, size_t len, size_t room, uint64_t n, int digits)
{
	char		number[24];
	int			i = (int) sizeof(number);

	number[--i] = '\0';
	do
	{
		number[--i] = (char) ('0' + n % 10);
		n /= 10;
		digits--;
	} while (n > 0 || digits > 0);
	return add_word(text, len, room, number + i);
}

static size_t
text_name(char *text, size_t room, const char *column, uint64_t random)
{
	size_t		len = 0;

	if (strcmp(column, "firstname") == 0 || strcmp(column, "middlename") == 0)
		return add_word(text, 0, room, PICK(first_names, random));
	if (strcmp(column, "lastname") == 0)
		return add_word(text, 0, room, PICK(last_names, random));
	if (strstr(column, "city") != NULL)
		return add_word(text, 0, room, PICK(cities, random));
	if (strstr(column, "country") != NULL)
		return add_word(text, 0, room, PICK(countries, random));
	if (strstr(column, "postalcode") != NULL)
		return add_number(text, 0, room, random % 100000, 5);
	if (strstr(column, "number") != NULL)
		return add_number(text, 0, room, random % 10000000, 7);
	if (strstr(column, "_line1") != NULL)
	{
		len = add_number(text, 0, room, random % 999 + 1, 1);
		len = add_word(text, len, room, " ");
		len = add_word(text, len, room, PICK(last_names, random >> 16));
		return add_word(text, len, room, " Street");
	}
	len = add_word(text, 0, room, PICK(words, random));
	text[0] = (char) (text[0] - 'a' + 'A');

	len = add_word(text, len, room, " ");
	return add_word(text, len, room, PICK(company_ends, random >> 16));
}

static size_t
text_format(char *text, size_t room, const char *format, uint64_t random)
{
	size_t		len;

	if (strcmp(format, "Email") == 0)
	{
		len = add_word(text, 0, room, PICK(words, random));
		len = add_number(text, len, room, random >> 16 & 0xffff, 1);
		return add_word(text, len, room, "@example.com");
	}
	if (strcmp(format, "Url") == 0)
	{
		len = add_word(text, 0, room, "https://www.example.com/");
		return add_number(text, len, room, random & 0xfffff, 1);
	}
	if (strcmp(format, "Phone") == 0)
	{
		len = add_word(text, 0, room, "+1 555 ");
		return add_number(text, len, room, random % 10000000, 7);
	}
	if (strcmp(format, "Json") == 0)
	{
		len = add_word(text, 0, room, "{\"n\":");
		len = add_number(text, len, room, random % 1000, 1);
		return add_word(text, len, room, "}");
	}
	return 0;
}

static size_t
text_words(char *text, size_t room, uint64_t random)
{
	size_t		len = 0;
	int			n = (int) (random % 12) + 4;

	while (n-- > 0)
	{
		random = mix(random);
		len = add_word(text, len, room, PICK(words, random));
		if (n > 0)
			len = add_word(text, len, room, " ");
	}
	return len;
}

static void
fill_text(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	const struct sim_column *column = s->column;
	size_t		room = column->max_length < TEXT_ROOM / 2 ? (size_t) column->max_length :
	TEXT_ROOM / 2;
	size_t		len = 0;

	if (s->unique && !column->primary_name)
	{
		len = add_word(s->text, 0, room, "S-");
		len = add_number(s->text, len, room, (uint64_t) ordinal + 1, 7);
	}
	else if (column->autonumber)
	{
		len = add_word(s->text, 0, room, "A-");
		len = add_number(s->text, len, room, (uint64_t) ordinal + 1, 6);
	}
	else if (column->type == SIM_MEMO)
		len = text_words(s->text, room, random);
	else
	{
		if (column->format != NULL)
			len = text_format(s->text, room, column->format, random);
		if (len == 0)
			len = text_name(s->text, room, column->name, random);
	}
	if (column->primary_name && len > 0)
	{
		/* names differ, so that few rows match a name */
		len = add_word(s->text, len, room, " ");
		len = add_number(s->text, len, room, (uint64_t) ordinal + 1, 1);
	}
	while (len > 0 && s->text[len - 1] == ' ')
		len--;
	if (len == 0)
		sqlite3_bind_null(stmt, s->param);
	else
		sqlite3_bind_text(stmt, s->param, s->text, (int) len, SQLITE_STATIC);
}

static void
fill_partition(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	size_t		len = add_word(s->text, 0, TEXT_ROOM, "device-");

	(void) ordinal;
	len = add_number(s->text, len, TEXT_ROOM, random % 100, 1);
	sqlite3_bind_text(stmt, s->param, s->text, (int) len, SQLITE_STATIC);
}

/* --- numbers, choices, time --- */

static void
fill_integer(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	uint64_t	n = s->unique ? (uint64_t) ordinal : random;

	sqlite3_bind_int64(stmt, s->param, s->low + (int64_t) (n % (uint64_t) (s->high - s->low + 1)));
}

static void
fill_bigint(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	(void) ordinal;
	sqlite3_bind_int64(stmt, s->param, (int64_t) (random >> 2));
}

static void
fill_decimal(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	const sim_dec one = (sim_dec) 10000000000LL;
	sim_dec		unit = 1;
	sim_dec		v;
	int			i;

	for (i = s->column->precision; i < SIM_DEC_SCALE; i++)
		unit *= 10;
	v = s->unique ? (sim_dec) ordinal * one : (sim_dec) (random % 100000000) * unit;
	/* the limits are whole numbers, so no digit beyond the precision comes about */
	v = s->low * one + v % ((s->high - s->low) * one + unit);
	sim_dec_pack(v, (unsigned char *) s->text);
	sqlite3_bind_blob(stmt, s->param, s->text, 16, SQLITE_STATIC);
}

/* Quarters, which two digits hold exactly. */
static void
fill_double(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	uint64_t	steps = s->column->precision >= 2 ? 4 : 1;
	uint64_t	range = (uint64_t) (s->high - s->low) * steps;

	(void) ordinal;
	sqlite3_bind_double(stmt, s->param, (double) s->low +
						(double) (random % (range + 1)) / (double) steps);
}

static void
fill_choice(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	const struct sim_option_set *set = s->column->options;

	(void) ordinal;
	if (set->n == 0)
		sqlite3_bind_null(stmt, s->param);
	else
		sqlite3_bind_int(stmt, s->param, set->options[random % (uint64_t) set->n].value);
}

static void
fill_multiselect(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	const struct sim_option_set *set = s->column->options;
	int			last = INT32_MIN;
	size_t		len = 0;
	int			i;

	/* options need not be ascending in the schema; those out of order are skipped */
	(void) ordinal;
	for (i = 0; i < set->n && i < 8; i++)
	{
		if ((random >> i & 1) == 0 || set->options[i].value <= last || set->options[i].value < 0)
			continue;
		last = set->options[i].value;
		len = add_word(s->text, len, TEXT_ROOM, ",");
		len = add_number(s->text, len, TEXT_ROOM, (uint64_t) last, 1);
	}
	if (len == 0)
	{
		sqlite3_bind_null(stmt, s->param);
		return;
	}
	len = add_word(s->text, len, TEXT_ROOM, ",");
	sqlite3_bind_text(stmt, s->param, s->text, (int) len, SQLITE_STATIC);
}

static void
fill_time(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	int64_t		t = STORE_EPOCH + (int64_t) (random % 157680000);

	(void) ordinal;
	if (s->column->date_format)
		t -= t % 86400;
	sqlite3_bind_int64(stmt, s->param, t);
}

static void
fill_created(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	(void) random;
	sqlite3_bind_int64(stmt, s->param, STORE_EPOCH + ordinal % 157680000);
}

static void
bind_seeded_id(struct seeder *s, sqlite3_stmt *stmt, int64_t ordinal)
{
	int			i;

	memcpy(s->text, s->prefix, 8);
	for (i = 0; i < 8; i++)
		s->text[8 + i] = (char) (ordinal >> (56 - 8 * i));
	s->text[8] = (char) (0x10 | (s->text[8] & 15));
	sqlite3_bind_blob(stmt, s->param, s->text, 16, SQLITE_STATIC);
}

static void
fill_id(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	(void) random;
	bind_seeded_id(s, stmt, ordinal);
}

/* 0 to 1, without 1 */
static double
even(uint64_t random)
{
	return (double) (random >> 11) / (double) (UINT64_C(1) << 53);
}

/* One lookup in four is set, unless the request specifies more. */
static void
fill_lookup(struct seeder *s, sqlite3_stmt *stmt, uint64_t random, int64_t ordinal)
{
	bool		own = s->target == s->column->table;
	int64_t		targets = own ? ordinal : s->targets;
	bool		set = targets > 0 && (s->unique || (s->lookup ? even(random) < s->lookup->filled
													: random % 4 == 0));

	if (set && s->lookup)
		bind_seeded_id(s, stmt, sim_seed_pick(s->lookup->skew, targets, even(mix(random))));
	else if (set)
		bind_seeded_id(s, stmt, (int64_t) ((random >> 8) % (uint64_t) targets));
	else
		sqlite3_bind_null(stmt, s->param);
	if (s->column->ntargets > 1 && set)
		sqlite3_bind_text(stmt, s->param + 1, s->target->name, -1, SQLITE_STATIC);
	else if (s->column->ntargets > 1)
		sqlite3_bind_null(stmt, s->param + 1);
}

static void (*const fillers[SIM_TYPES]) (struct seeder *, sqlite3_stmt *, uint64_t, int64_t) =
{
	[SIM_STRING] = fill_text,
		[SIM_MEMO] = fill_text,
		[SIM_INTEGER] = fill_integer,
		[SIM_BIGINT] = fill_bigint,
		[SIM_DECIMAL] = fill_decimal,
		[SIM_MONEY] = fill_decimal,
		[SIM_DOUBLE] = fill_double,
		[SIM_BOOLEAN] = fill_choice,
		[SIM_PICKLIST] = fill_choice,
		[SIM_MULTISELECT] = fill_multiselect,
		[SIM_DATETIME] = fill_time,
		[SIM_LOOKUP] = fill_lookup,
		[SIM_CUSTOMER] = fill_lookup,
};

/* --- the statement --- */

struct plan
{
	struct sim *sim;
	struct sim_table *table;
	const struct sim_seed_lookups *lookups;
	struct seeder *seeders;
	int			n;
	int			version_param;
	sqlite3_stmt *stmt;
};

static void
id_prefix(const struct sim *sim, const struct sim_table *table, unsigned char prefix[8])
{
	unsigned char guid[16];
	char		name[512];

	snprintf(name, sizeof(name), "seed %llu %s", (unsigned long long) sim->seed, table->name);
	sim_guid_of_name(name, guid);
	memcpy(prefix, guid, 8);
	prefix[0] = prefix[1] = 0;
}

int64_t
sim_seeded_rows(struct sim *sim, const struct sim_table *table)
{
	unsigned char bounds[2][16];
	char		sql[512];
	sqlite3_stmt *stmt;
	int64_t		next = 0;
	int			i;

	memset(bounds[0], 0, 16);
	memset(bounds[1], 0xff, 16);
	id_prefix(sim, table, bounds[0]);
	memcpy(bounds[1], bounds[0], 8);
	snprintf(sql, sizeof(sql), "SELECT max(\"%s\") FROM \"%s\" WHERE \"%s\" BETWEEN ?1 AND ?2",
			 table->id->name, table->name, table->id->name);
	stmt = sim_stmt_get(sim->store, sql);
	if (stmt == NULL)
		return 0;
	sqlite3_bind_blob(stmt, 1, bounds[0], 16, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, bounds[1], 16, SQLITE_STATIC);
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == 16)
	{
		const unsigned char *id = sqlite3_column_blob(stmt, 0);

		for (i = 8; i < 16; i++)
			next = next << 8 | (i == 8 ? id[i] & 15 : id[i]);
		next++;
	}
	sim_stmt_put(sim->store, stmt);
	return next;
}

static bool
in_key(const struct sim_table *table, const struct sim_column *column)
{
	int			i;
	int			j;

	for (i = 0; i < table->nkeys; i++)
	{
		for (j = 0; j < table->keys[i].n; j++)
		{
			if (table->keys[i].columns[j] == column)
				return true;
		}
	}
	return false;
}

/* Binds a column with one value for all rows; false if this is not one. */
static bool
bind_constant(struct plan *plan, const struct sim_column *column, int param)
{
	static const char *const system_user[] = {"createdby", "modifiedby", "owninguser", "ownerid"};
	const char *constant = NULL;
	unsigned char id[16];
	size_t		i;

	for (i = 0; i < sizeof(system_user) / sizeof(system_user[0]); i++)
	{
		if (strcmp(column->name, system_user[i]) == 0)
			constant = "user SYSTEM";
	}
	if (strcmp(column->name, "transactioncurrencyid") == 0)
		constant = "currency USD";
	if (strcmp(column->name, "owningbusinessunit") == 0)
	{
		sim_guid_parse(plan->sim->business_unit_id, 36, id);
		sqlite3_bind_blob(plan->stmt, param, id, 16, SQLITE_TRANSIENT);
		return true;
	}
	if (constant != NULL)
	{
		sim_guid_of_name(constant, id);
		sqlite3_bind_blob(plan->stmt, param, id, 16, SQLITE_TRANSIENT);
		if (column->ntargets > 1)
			sqlite3_bind_text(plan->stmt, param + 1, "systemuser", -1, SQLITE_STATIC);
		return true;
	}
	if (strcmp(column->name, "exchangerate") == 0 && !column->valid_for_create)
	{
		sim_dec_pack((sim_dec) 10000000000LL, id);
		sqlite3_bind_blob(plan->stmt, param, id, 16, SQLITE_TRANSIENT);
		return true;
	}
	if (column->type == SIM_STATE || column->type == SIM_STATUS || column->type == SIM_MANAGED)
	{
		sqlite3_bind_int(plan->stmt, param, column->default_value);
		return true;
	}
	return false;
}

/* System columns that ordinary rows do not have. */
static bool
left_null(const struct sim_column *column)
{
	static const char *const names[] = {
		"ttlinseconds", "overriddencreatedon", "importsequencenumber",
		"timezoneruleversionnumber", "utcconversiontimezonecode"
	};
	size_t		i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (strcmp(names[i], column->name) == 0)
			return true;
	}
	return false;
}

/*
 * Whole numbers between which a column's values are made: its limits, or less
 * if they are far apart.  Keys count through all existing rows.
 */
static void
number_range(struct seeder *s)
{
	const struct sim_column *column = s->column;
	double		low = column->min_value != NULL ? ceil(strtod(column->min_value, NULL)) : 0;
	double		high = column->max_value != NULL ? floor(strtod(column->max_value, NULL)) : 0;

	s->low = low < -1000000 ? (s->unique ? 0 : -1000000) : low > 1e15 ? (int64_t) 1e15 : (int64_t) low;
	s->high = high > 1e15 ? (int64_t) 1e15 : high < (double) s->low ? s->low : (int64_t) high;
	if (!s->unique && s->high - s->low > 2000000)
		s->high = s->low + 2000000;
}

static void
aim_lookup(struct plan *plan, struct seeder *s)
{
	int			i;

	s->target = s->column->targets[0].table;
	for (i = 0; plan->lookups != NULL && i < plan->lookups->n; i++)
	{
		if (plan->lookups->items[i].column == s->column)
			s->lookup = &plan->lookups->items[i];
	}
	if (s->lookup != NULL)
		s->target = s->lookup->target;
	s->targets = sim_seeded_rows(plan->sim, s->target);
	id_prefix(plan->sim, s->target, s->prefix);
}

/* Decides how a column is filled; those without seeder stay NULL. */
static void
add_seeder(struct plan *plan, struct sim_column *column, int param)
{
	struct sim_table *table = plan->table;
	struct seeder *s = &plan->seeders[plan->n];

	memset(s, 0, sizeof(*s));
	s->column = column;
	s->param = param;
	s->unique = in_key(table, column) || column->primary_name;
	sim_guid_of_name(column->name, (unsigned char *) s->text);
	memcpy(&s->salt, s->text, sizeof(s->salt));
	if (column == table->id)
	{
		id_prefix(plan->sim, table, s->prefix);
		s->fill = fill_id;
		s->unique = true;
	}
	else if (column == table->partition)
	{
		s->fill = fill_partition;
		s->unique = true;
	}
	else if (column == table->created_on || strcmp(column->name, "modifiedon") == 0)
	{
		s->fill = fill_created;
		s->unique = true;
	}
	else if (column->valid_for_create && column->attribute_of == NULL && !left_null(column))
		s->fill = fillers[column->type];
	number_range(s);
	if (s->fill == fill_lookup)
	{
		if (column->ntargets == 0)
			return;
		aim_lookup(plan, s);
	}
	if (s->fill != NULL)
		plan->n++;
}

static bool
make_plan(struct plan *plan)
{
	struct sim_table *table = plan->table;
	struct sim_buf sql = {0};
	int			param = 0;
	int			i;

	sim_putf(&sql, "INSERT INTO \"%s\" (", table->name);
	for (i = 0; i < table->ncolumns; i++)
	{
		if (!table->columns[i].stored)
			continue;
		sim_putf(&sql, "%s\"%s\"", param++ > 0 ? ", " : "", table->columns[i].name);
		if (table->columns[i].ntargets > 1)
			sim_putf(&sql, ", \"%s.type\"", table->columns[i].name);
		param += table->columns[i].ntargets > 1;
	}
	sim_puts(&sql, ") VALUES (?");
	while (--param > 0)
		sim_puts(&sql, ", ?");
	sim_puts(&sql, ")");
	plan->stmt = sim_stmt_get(plan->sim->store, sql.s);
	sim_buf_free(&sql);
	if (plan->stmt == NULL)
		return false;

	plan->seeders = sim_xalloc((size_t) table->ncolumns * sizeof(struct seeder));
	for (i = 0, param = 1; i < table->ncolumns; i++)
	{
		struct sim_column *column = &table->columns[i];

		if (!column->stored)
			continue;
		if (column == table->version)
			plan->version_param = param;
		else if (!bind_constant(plan, column, param))
			add_seeder(plan, column, param);
		param += 1 + (column->ntargets > 1);
	}
	return true;
}

static bool
insert_seeded(struct plan *plan, int64_t ordinal)
{
	uint64_t	base = mix(plan->sim->seed) ^ mix((uint64_t) ordinal);
	int			i;

	for (i = 0; i < plan->n; i++)
	{
		struct seeder *s = &plan->seeders[i];
		uint64_t	random = mix(base ^ s->salt);

		if (!s->unique && s->lookup == NULL && (random >> 60) < 2)
		{
			sqlite3_bind_null(plan->stmt, s->param);
			if (s->column->ntargets > 1)
				sqlite3_bind_null(plan->stmt, s->param + 1);
		}
		else
			s->fill(s, plan->stmt, random, ordinal);
	}
	if (plan->version_param > 0)
		sqlite3_bind_int64(plan->stmt, plan->version_param, sim_next_version(plan->sim->store));
	if (sqlite3_step(plan->stmt) != SQLITE_DONE)
	{
		fprintf(stderr, "dvsim: seeding table \"%s\": %s\n", plan->table->name,
				sqlite3_errmsg(plan->sim->store->db));
		return false;
	}
	sqlite3_reset(plan->stmt);
	return true;
}

/* --- intersect tables: pairs of seeded rows --- */

static struct sim_many *
many_of(const struct sim *sim, const struct sim_table *table)
{
	int			i;

	for (i = 0; i < sim->schema->nmany; i++)
	{
		if (sim->schema->many[i].intersect == table)
			return &sim->schema->many[i];
	}
	return NULL;
}

static void
pair_seeder(struct plan *plan, const struct sim_table *of, int param)
{
	struct seeder *s = &plan->seeders[plan->n++];

	memset(s, 0, sizeof(*s));
	s->column = &plan->table->columns[param - 1];
	s->param = param;
	s->targets = of != plan->table ? sim_seeded_rows(plan->sim, of) : 1;
	id_prefix(plan->sim, of, s->prefix);
}

static bool
seed_pairs(struct plan *plan, int64_t first, int64_t n)
{
	struct sim_many *many = many_of(plan->sim, plan->table);
	struct seeder *s;
	int64_t		o;

	plan->n = 0;
	pair_seeder(plan, plan->table, 1);
	pair_seeder(plan, many->table1, 2);
	pair_seeder(plan, many->table2, 3);
	s = plan->seeders;
	if (s[1].targets == 0 || first + n > s[1].targets * s[2].targets)
	{
		fprintf(stderr, "dvsim: seed \"%s\" and \"%s\" first, with enough rows\n",
				many->table1->name, many->table2->name);
		return false;
	}
	for (o = first; o < first + n; o++)
	{
		bind_seeded_id(&s[0], plan->stmt, o);
		bind_seeded_id(&s[1], plan->stmt, o % s[1].targets);
		bind_seeded_id(&s[2], plan->stmt, (o / s[1].targets + o) % s[2].targets);
		sqlite3_bind_int64(plan->stmt, 4, sim_next_version(plan->sim->store));
		if (sqlite3_step(plan->stmt) != SQLITE_DONE)
			return false;
		sqlite3_reset(plan->stmt);
	}
	return true;
}

bool
sim_seed_rows(struct sim *sim, struct sim_table *table, int64_t n,
			  const struct sim_seed_lookups *lookups)
{
	struct plan plan = {.sim = sim, .table = table, .lookups = lookups};
	int64_t		first;
	int64_t		i;
	bool		ok;

	if (n < 0 || !sim_begin(sim->store))
		return false;
	first = sim_seeded_rows(sim, table);
	ok = make_plan(&plan);
	if (ok && table->type == SIM_INTERSECT)
		ok = seed_pairs(&plan, first, n);
	else
	{
		for (i = 0; ok && i < n; i++)
			ok = insert_seeded(&plan, first + i);
	}
	sim_stmt_put(sim->store, plan.stmt);
	free(plan.seeders);
	if (ok && sim_commit(sim->store))
		return true;
	sim_rollback(sim->store);
	return false;
}
