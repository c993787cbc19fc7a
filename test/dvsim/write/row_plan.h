/*
 * row_plan.h
 *		How the writer turns objects of one shape into SQL.
 *
 * A plan belongs to a sequence of member names.  Each member has a duty; each
 * parameter of the SQL statement has a slot.  Slots whose value is the same
 * for every row (user, time, defaults) are bound once; "derivations" compute
 * the rest from the members of each row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_ROW_PLAN_H
#define SIM_ROW_PLAN_H

#include "write/row_write.h"

enum sim_member_kind
{
	SIM_MEMBER_SKIP,			/* annotations, columns that this operation ignores */
	SIM_MEMBER_VALUE,
	SIM_MEMBER_BIND,			/* "nav@odata.bind" */
	SIM_MEMBER_NAVIGATION,		/* "nav": null, or an object to be created */
	SIM_MEMBER_COLLECTION,		/* "collection": objects to be created */
	SIM_MEMBER_LINKS,			/* "collection@odata.bind": references */
	SIM_MEMBER_ID,
	SIM_MEMBER_PARTITION,
	SIM_MEMBER_TYPE,			/* "@odata.type" */
	SIM_MEMBER_ODATA_ID			/* "@odata.id" */
};

struct sim_member
{
	const char *key;
	uint32_t	keylen;
	uint32_t	name_len;		/* of the key without "@odata.bind" */
	enum sim_member_kind kind;
	struct sim_column *column;
	struct sim_target *target;	/* of a navigation property, or NULL (owner) */
	int			slot;
	int			type_slot;		/* "name.type" of polymorphic lookups, or -1 */
	int			pid_slot;		/* column "namepid" of lookups to elastic tables, or -1 */
	bool		first;			/* no earlier member writes the same slot */
	bool		checked;		/* "last" exists */
	unsigned char last[16];		/* row found by the last bind */
};

struct sim_slot
{
	struct sim_column *column;
	const char *suffix;			/* of the SQL column's name: "" or ".type" */
	bool		constant;
	bool		guarded;		/* update, several targets: a null clears only its own */
	struct sim_value value;
};

struct sim_derivation
{
	bool		(*derive) (struct sim_writer *w, struct sim_plan *plan,
						   struct sim_write_row *row, const struct sim_derivation *d);
	struct sim_column *column;
	int			from;			/* slot, or -1 */
	int			to;				/* slot; the first of two for the owner */
};

#define SIM_MAX_DERIVATIONS 32

struct sim_plan
{
	struct sim_plan *next;
	struct sim_key_def *def;	/* alternate key of the rows, whose columns come from it */
	int		   *key_slots;		/* for def's columns; -1: the body has its own value */
	struct sim_member *members;
	int			nmembers;
	struct sim_slot *slots;
	int			nslots;
	int			maxslots;
	int			id_slot;		/* -1 in updates: the last parameters are id and partition */
	int			partition_slot;
	int			version_slot;	/* -1 when the table has none */
	struct sim_derivation derivations[SIM_MAX_DERIVATIONS];
	int			nderivations;
	bool		has_children;
	sqlite3_stmt *stmt;
};

/* row_plan.c: the plan for an object's members; NULL after a failure */
struct sim_plan *sim_plan_for(struct sim_writer *w, struct sim_json *object,
							  const struct sim_write_row *row);

int			sim_slot_find(const struct sim_plan *plan, const struct sim_column *column,
						  const char *suffix);
int			sim_slot_add(struct sim_writer *w, struct sim_plan *plan, struct sim_column *column,
						 const char *suffix);

/* row_derive.c: adds the slots that the members do not provide: audit, owner, state, money … */
void		sim_plan_system(struct sim_writer *w, struct sim_plan *plan);

void		sim_value_set_int(struct sim_value *value, int64_t i);
void		sim_value_set_text(struct sim_value *value, const char *s, size_t len);
void		sim_value_set_guid(struct sim_value *value, const unsigned char id[16]);

/* associate.c: after the insert, carries out the deep inserts among the members */
bool		sim_write_children(struct sim_writer *w, struct sim_write_row *row,
							   const struct sim_member *member, struct sim_json *json);

#endif
