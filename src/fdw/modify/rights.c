/*
 * rights.c
 *		What a role may do beyond what PostgreSQL has checked.
 *
 * PostgreSQL checks the privilege INSERT, and any role can make a setting.  Four rules keep
 * settings and upserts from giving a role more than it has:
 *
 * 1.  A setting that affects the outcome of rows applies only to statements of roles whose rights
 * its maker has.  PostgreSQL keeps settings in force when a SECURITY DEFINER function begins, so
 * a caller could otherwise have the function's rows skipped, overwritten, or not sent.
 *
 * 2.  A setting may not exceed the options that the owner of a foreign table, or of its server,
 * has set, unless its maker has the rights of the table's owner.  An option that is not set
 * allows what its default allows ("limits").
 *
 * 3.  An upsert needs the privilege UPDATE on each column that it writes, except the row's
 * identity, of the relations for which PostgreSQL checks INSERT, and for the same roles.  Since
 * it changes rows that have not been read, it is refused if conditions limit which rows a role
 * may change: in views, and in parents with policies.
 *
 * 4.  With "ids_made" of a run, a row that exists after a lost answer is taken for the one
 * that was sent.  If this is wrong, the update that completes it (its state, an image) changes a
 * row that existed before.  Therefore the setting applies to rows that need such an update only
 * if its maker has the privilege UPDATE on these columns.
 *
 * Privileges are looked up when a statement begins, not when it is planned, since
 * revoking them does not invalidate plans.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "compat.h"
#include "fdw/modify/rights.h"
#include "fdw/option.h"
#include "fdw/setting.h"

/*
 * Whose setting it is
 */

static const char *
role_name(Oid roleid)
{
	const char *name = GetUserNameFromId(roleid, true);

	return name != NULL ? name : psprintf("%u", roleid);
}

void
dv_rights_check_settings(const char *what, Oid relid)
{
	ListCell   *lc;

	foreach(lc, dv_settings_decisive(relid))
	{
		const char *name = lfirst(lc);
		Oid			maker = dv_setting_role(name);

		if (!has_privs_of_role(maker, GetUserId()))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied to %s under a setting of another role", what),
					 errdetail("Role \"%s\" has set \"dataverse_fdw.%s\", and the statement runs with the rights of role \"%s\".",
							   role_name(maker), name, role_name(GetUserId())),
					 errhint("RESET dataverse_fdw.%s; or let the function that runs the statement make the setting (ALTER FUNCTION ... SET).",
							 name)));
	}
}

/*
 * The extent of what a setting asks for
 */

/*
 * Returns the powers that a value gives, one bit for each.  Those of
 * "bypass_custom_logic" are the bits of its number: sync, async, or both.
 */
static int
powers_of(dv_options options, dv_option option)
{
	switch (option)
	{
		case DV_OPT_INSERT_MODE:
			return dv_option_choice(options, option) == DV_INSERT_UPSERT;
		case DV_OPT_BYPASS_CUSTOM_LOGIC:
			return dv_option_choice(options, option);
		default:
			return dv_option_bool(options, option);
	}
}

/* Returns true if the setting would replace a text of the owner's. */
static bool
is_other_text(dv_options asked, dv_options allowed, dv_option option)
{
	return dv_option_given(allowed, option) &&
		strcmp(dv_option_text(asked, option), dv_option_text(allowed, option)) != 0;
}

static const struct
{
	dv_option	option;
	bool		is_text;		/* gives no power, but must not replace the owner's text */
	int			unless_set;		/* powers that a setting may have if the option is not set */
}			limits[] =

{
	/* an upsert depends on the privilege UPDATE as well */
	{DV_OPT_INSERT_MODE, false, true},
	{DV_OPT_BYPASS_CUSTOM_LOGIC, false, 0},
	{DV_OPT_BYPASS_FLOWS, false, 0},
	/* on by default */
	{DV_OPT_SUPPRESS_DUPLICATE_DETECTION, false, true},
	/* Dataverse accepts any tag from any user who may write, so the tag protects nothing */
	{DV_OPT_TAG, true, 0},
};

static dv_options
settings_alone(const dv_modify *m)
{
	dv_options	none = {NIL, NIL};

	return dv_settings_over(none, m->relation->relid);
}

static void
refuse_power(const dv_modify *m, dv_option option, const char *value)
{
	const char *name = dv_option_name(option);
	const char *allowed = dv_option_text(m->relation->options, option);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to %s with \"%s\" set to \"%s\"", m->what, name, value),
			 dv_option_given(m->relation->options, option) ?
			 errdetail("Its owner has set the option to \"%s\", which is the most that a setting of another role may ask for.",
					   allowed) :
			 errdetail("Its owner has not set the option, and a setting of another role may not ask for more than that."),
			 errhint("RESET dataverse_fdw.%s; or let the owner of the foreign table or of its server set the option.",
					 name)));
}

static void
check_limits(const dv_modify *m)
{
	dv_options	asked = settings_alone(m);
	dv_options	allowed = m->relation->options;
	Oid			owner = m->rinfo->ri_RelationDesc->rd_rel->relowner;
	size_t		i;

	for (i = 0; i < lengthof(limits); i++)
	{
		dv_option	option = limits[i].option;

		if (!dv_option_given(asked, option) ||
			has_privs_of_role(dv_setting_maker(option, m->relation->relid), owner))
			continue;
		if (limits[i].is_text ? is_other_text(asked, allowed, option) :
			(powers_of(asked, option) &
			 ~(dv_option_given(allowed, option) ? powers_of(allowed, option) : limits[i].unless_set)) != 0)
			refuse_power(m, option, dv_option_text(asked, option));
	}
}

/*
 * Upserts
 */

static void
refuse_upsert(const dv_modify *m, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to upsert into foreign table \"%s\"", m->relation->name),
			 errdetail("An upsert changes rows that exist.  %s", detail),
			 errhint("Use INSERT with \"insert_mode\" set to \"create\" or \"ignore_duplicates\".")));
}

/* Returns what PostgreSQL has checked for the relation that the statement names, or NULL. */
static const dv_permission *
permission_of(const dv_modify *m)
{
	ResultRelInfo *root = m->rinfo->ri_RootResultRelInfo;
	const ResultRelInfo *named = root != NULL ? root : m->rinfo;

	if (named->ri_RangeTableIndex == 0)
		return NULL;
	return dv_permission_of(m->estate, exec_rt_fetch(named->ri_RangeTableIndex, m->estate));
}

static Oid
role_of(const dv_permission * permission)
{
	return OidIsValid(permission->checkAsUser) ? permission->checkAsUser : GetUserId();
}

static void
check_column(const dv_modify *m, Oid relid, AttrNumber attnum, Oid roleid)
{
	if (pg_attribute_aclcheck(relid, attnum, roleid, ACL_UPDATE) == ACLCHECK_OK)
		return;
	refuse_upsert(m, psprintf("Role \"%s\" lacks the privilege UPDATE on column \"%s\" of \"%s\".",
							  role_name(roleid), get_attname(relid, attnum, false),
							  get_rel_name(relid)));
}

/* "columns" are an IntList; an identity alone does not count as a column that is written. */
static void
check_columns(const dv_modify *m, Oid relid, List *columns, Oid roleid)
{
	ListCell   *lc;

	if (pg_class_aclcheck(relid, roleid, ACL_UPDATE) == ACLCHECK_OK)
		return;
	foreach(lc, columns)
		check_column(m, relid, lfirst_int(lc), roleid);
	if (pg_attribute_aclcheck_all(relid, roleid, ACL_UPDATE, ACLMASK_ANY) != ACLCHECK_OK)
		refuse_upsert(m, psprintf("Role \"%s\" lacks the privilege UPDATE on \"%s\".",
								  role_name(roleid), get_rel_name(relid)));
}

static bool
is_named(const Bitmapset *columns, AttrNumber attnum)
{
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, columns);
}

/*
 * Without planning (COPY, routing), rows may have values in the columns that the
 * statement names and in those with a default, or, if they come from another
 * partition, in all columns.
 */
static bool
may_have_value(Relation named, const dv_permission * permission, AttrNumber attnum)
{
	return (permission->requiredPerms & ACL_INSERT) == 0 ||
		is_named(permission->insertedCols, attnum) || is_named(permission->updatedCols, attnum) ||
		TupleDescAttr(RelationGetDescr(named), attnum - 1)->attgenerated != '\0' ||
		build_column_default(named, attnum) != NULL;
}

/* Returns the columns of the named relation that the upsert writes, without the row's identity. */
static List *
written_columns(const dv_modify *m, const dv_modify_plan *plan, Relation named,
				const dv_permission * permission)
{
	bool		planned = plan->set != NIL;
	List	   *written = NIL;
	ListCell   *lc;

	foreach(lc, planned ? plan->set : plan->others)
	{
		AttrNumber	attnum = lfirst_int(lc);

		if (attnum == m->identity.id || attnum == m->identity.partition.attnum)
			continue;
		attnum = get_attnum(RelationGetRelid(named),
							dv_relation_attribute(m->relation, attnum)->name);
		if (planned || may_have_value(named, permission, attnum))
			written = lappend_int(written, attnum);
	}
	return written;
}

static void
check_named(const dv_modify *m, const dv_modify_plan *plan, const dv_permission * permission)
{
	Relation	named = table_open(permission->relid, AccessShareLock);
	Oid			roleid = role_of(permission);

	check_columns(m, permission->relid, written_columns(m, plan, named, permission), roleid);
	if (check_enable_rls(permission->relid, roleid, true) == RLS_ENABLED)
		refuse_upsert(m, psprintf("Policies of \"%s\" limit which rows role \"%s\" may change.",
								  RelationGetRelationName(named), role_name(roleid)));
	table_close(named, NoLock);
}

static List *
columns_of_view(const dv_permission * permission)
{
	List	   *columns = NIL;
	int			bit = -1;

	while ((bit = bms_next_member(permission->insertedCols, bit)) >= 0)
		columns = lappend_int(columns, bit + FirstLowInvalidHeapAttributeNumber);
	return columns;
}

static void
check_view(const dv_modify *m, const dv_permission * permission)
{
	Relation	view = table_open(permission->relid, AccessShareLock);

	if (get_view_query(view)->jointree->quals != NULL)
		refuse_upsert(m, psprintf("The condition of view \"%s\" limits which rows may be changed.",
								  RelationGetRelationName(view)));
	table_close(view, NoLock);
	check_columns(m, permission->relid, columns_of_view(permission), role_of(permission));
}

/*
 * Checks the views that the statement writes.  PostgreSQL keeps them in the range
 * table, but not the table to which each one leads, so a view that another part
 * of the statement writes is checked as well.
 */
static void
check_views(const dv_modify *m)
{
	ListCell   *lc;

	foreach(lc, m->estate->es_range_table)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		const		dv_permission *permission;

		if (!OidIsValid(rte->relid) || rte->relkind != RELKIND_VIEW)
			continue;
		permission = dv_permission_of(m->estate, rte);
		if (permission != NULL && (permission->requiredPerms & (ACL_INSERT | ACL_UPDATE)) != 0)
			check_view(m, permission);
	}
}

/* A session cannot use the rights that a view or rule lends for an upsert that only the session asks for. */
static void
check_who_asks(const dv_modify *m)
{
	dv_options	asked = settings_alone(m);
	Oid			maker;

	if (!dv_option_given(asked, DV_OPT_INSERT_MODE))
		return;
	maker = dv_setting_maker(DV_OPT_INSERT_MODE, m->relation->relid);
	if (!has_privs_of_role(maker, m->userid))
		refuse_upsert(m, psprintf("Role \"%s\" has set \"dataverse_fdw.insert_mode\", and the rows are written with the rights of role \"%s\".",
								  role_name(maker), role_name(m->userid)));
}

static void
check_upsert(const dv_modify *m, const dv_modify_plan *plan)
{
	const		dv_permission *permission = permission_of(m);

	check_who_asks(m);
	if (permission == NULL)
		refuse_upsert(m, "The role whose privilege UPDATE has to be checked is not known.");
	check_named(m, plan, permission);
	check_views(m);
	if (plan->has_checks)
		refuse_upsert(m, "A check option determines which rows may be written, but not which rows may be overwritten.");
}

bool
dv_rights_may_complete(const dv_modify *m)
{
	Oid			maker = dv_setting_role("run_settings");
	int			i;

	for (i = 0; i < m->values.nfollowers; i++)
		if (pg_class_aclcheck(m->relation->relid, maker, ACL_UPDATE) != ACLCHECK_OK &&
			pg_attribute_aclcheck(m->relation->relid, m->values.followers[i].column.attnum, maker,
								  ACL_UPDATE) != ACLCHECK_OK)
			return false;
	return true;
}

void
dv_rights_check(const dv_modify *m, const dv_modify_plan *plan)
{
	dv_rights_check_settings(m->what, m->relation->relid);
	check_limits(m);
	if (m->operation == DV_UPSERT)
		check_upsert(m, plan);
}
