/*
 * setting.c
 *		Settings, dataverse_fdw.NAME: those that override options, and others.
 *
 * A setting that overrides an option accepts the same values.  It is empty by
 * default; then the option of the table or the server applies.  The effect of a
 * setting depends on the role that has made it (rights.c).
 *
 * A run does not change the settings of its session, which its triggers and the
 * functions that they call would inherit.  It makes "run_settings" instead.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/plancache.h"

#include "compat.h"
#include "fdw/setting.h"

bool		dv_dry_run = false;
bool		dv_summary = false;
bool		dv_capture = true;

/*
 * The settings that a run makes for one of its statements, or empty.  They are "OID DEPTH {NAME=VALUE,...}":
 * the foreign table that the statement writes, the number of triggers in which it is nested, and
 * values of options with OF_RUNS and of "ids_made".  For this table, they replace the settings of
 * the session, an empty value by the option of the table.  Statements of triggers are nested more
 * deeply, so the settings of the session apply to them.
 */
static char *run_settings = NULL;

/*
 * The settings of a run are consumed by the statement for which they were made: once it has begun,
 * they do not apply to statements of the functions that it calls (defaults, domains).  Values of
 * run_settings are told apart by their addresses, which PostgreSQL keeps when a function
 * restores a former value.
 */
typedef struct consumed
{
	const char *settings;
	struct consumed *next;
	MemoryContextCallback callback;
} consumed;

static consumed *all_consumed = NULL;

static bool
check_setting(dv_option option, const char *value)
{
	const char *fault = value[0] != '\0' ? dv_option_fault(option, value) : NULL;

	if (fault != NULL)
		GUC_check_errdetail("%s", fault);
	return fault == NULL;
}

/* Invalidates plans, including those of functions, which sessions keep. */
static void
forget_plans(const char *old, const char *new)
{
	if (old == NULL || strcmp(old, new) != 0)
		ResetPlanCache();
}

/* Each setting has its own hooks, because a hook is not told which setting it is called for. */
#define DV_OPTION(...)
#define DV_SETTING(description, symbol, ...) \
	static char *setting_##symbol = NULL; \
	static bool \
	check_##symbol(char **newval, void **extra, GucSource source) \
	{ \
		return check_setting(DV_OPT_##symbol, *newval); \
	}
#define DV_PLAN_SETTING(description, symbol, ...) \
	DV_SETTING(description, symbol, __VA_ARGS__) \
	static void \
	assign_##symbol(const char *newval, void *extra) \
	{ \
		forget_plans(setting_##symbol, newval); \
	}
#include "fdw/option_list.h"

static const struct
{
	dv_option	option;
	const char *description;
	char	  **value;
	GucStringCheckHook check;
	GucStringAssignHook assign; /* or NULL */
}			settings[] =

{
#define DV_OPTION(...)
#define DV_SETTING(description, symbol, ...) \
	{DV_OPT_##symbol, description, &setting_##symbol, check_##symbol, NULL},
#define DV_PLAN_SETTING(description, symbol, ...) \
	{DV_OPT_##symbol, description, &setting_##symbol, check_##symbol, assign_##symbol},
#include "fdw/option_list.h"
};

static bool
has_plan_setting(const char *value)
{
	int			i;

	for (i = 0; value != NULL && i < (int) lengthof(settings); i++)
		if (settings[i].assign != NULL && strstr(value, dv_option_name(settings[i].option)) != NULL)
			return true;
	return false;
}

static void
assign_run_settings(const char *newval, void *extra)
{
	if (has_plan_setting(run_settings) || has_plan_setting(newval))
		forget_plans(run_settings, newval);
}

void
dv_settings_init(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		DefineCustomStringVariable(psprintf("dataverse_fdw.%s", dv_option_name(settings[i].option)),
								   settings[i].description,
								   "If empty, the option of the foreign table or the server applies.",
								   settings[i].value, "", PGC_USERSET, 0, settings[i].check,
								   settings[i].assign, NULL);
	DefineCustomBoolVariable("dataverse_fdw.dry_run",
							 "Encodes and counts rows that would be written without sending them.", NULL,
							 &dv_dry_run, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.summary",
							 "Reports rows, batches, and requests at the end of each modification.", NULL,
							 &dv_summary, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.capture",
							 "Captures changes of copies for which dataverse.track() was called.",
							 "It applies to the statements of the session, not to those of triggers.",
							 &dv_capture, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("dataverse_fdw.run_settings",
							   "Sets how a statement of a run writes its foreign table.",
							   NULL, &run_settings, "", PGC_USERSET,
							   GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, assign_run_settings, NULL);
}

static bool
are_consumed(const char *value)
{
	const consumed *c;

	for (c = all_consumed; c != NULL; c = c->next)
		if (c->settings == value)
			return true;
	return false;
}

static void
statement_gone(void *arg)
{
	consumed  **c;

	for (c = &all_consumed; *c != NULL; c = &(*c)->next)
		if (*c == arg)
		{
			*c = (*c)->next;
			return;
		}
}

/* Returns the settings of a run (List of DefElem) for a statement that writes the table here. */
static List *
settings_of_run(Oid relid)
{
	unsigned int table;
	int			depth;
	int			length = 0;

	if (run_settings == NULL || are_consumed(run_settings) ||
		sscanf(run_settings, "%u %d %n", &table, &depth, &length) < 2 ||
		table != relid || depth != DatumGetInt32(OidFunctionCall0(F_PG_TRIGGER_DEPTH)))
		return NIL;
	return untransformRelOptions(OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(run_settings + length),
												  ObjectIdGetDatum(TEXTOID), Int32GetDatum(-1)));
}

void
dv_settings_consume(Oid relid, MemoryContext statement)
{
	consumed   *c;

	if (settings_of_run(relid) == NIL)
		return;
	c = MemoryContextAllocZero(statement, sizeof(*c));
	c->settings = run_settings;
	c->next = all_consumed;
	c->callback.func = statement_gone;
	c->callback.arg = c;
	MemoryContextRegisterResetCallback(statement, &c->callback);
	all_consumed = c;
}

static DefElem *
find_of_run(List *run, const char *name)
{
	ListCell   *lc;

	foreach(lc, run)
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return lfirst_node(DefElem, lc);
	return NULL;
}

static DefElem *
of_run(List *run, dv_option option)
{
	return dv_option_is_of_runs(option) ? find_of_run(run, dv_option_name(option)) : NULL;
}

static const char *
valid(dv_option option, const char *value)
{
	const char *fault = value[0] != '\0' ? dv_option_fault(option, value) : NULL;

	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "dataverse_fdw.run_settings",
						value),
				 errdetail("%s", fault)));
	return value;
}

/* Returns the value of a setting, or an empty one. */
static const char *
value_of(int i, List *run)
{
	DefElem    *replaced = of_run(run, settings[i].option);

	if (replaced != NULL)
		return valid(settings[i].option, defGetString(replaced));
	return *settings[i].value != NULL ? *settings[i].value : "";
}

static bool
is_made_of_run(List *run)
{
	DefElem    *given = find_of_run(run, "ids_made");

	return given != NULL && defGetBoolean(given);
}

bool
dv_setting_ids_made(Oid relid)
{
	return is_made_of_run(settings_of_run(relid));
}

dv_options
dv_settings_over(dv_options options, Oid relid)
{
	List	   *run = settings_of_run(relid);
	List	   *given = NIL;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
	{
		const char *value = value_of(i, run);

		if (value[0] != '\0')
			given = lappend(given, makeDefElem(pstrdup(dv_option_name(settings[i].option)),
											   (Node *) makeString(pstrdup(value)), -1));
	}
	options.first = list_concat(given, options.first);
	return options;
}

List *
dv_settings_decisive(Oid relid)
{
	List	   *run = settings_of_run(relid);
	List	   *names = NIL;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (!dv_option_is_speed(settings[i].option) && of_run(run, settings[i].option) == NULL &&
			value_of(i, run)[0] != '\0')
			names = lappend(names, unconstify(char *, dv_option_name(settings[i].option)));
	if (dv_dry_run)
		names = lappend(names, "dry_run");
	if (run != NIL)
		names = lappend(names, "run_settings");
	return names;
}

/*
 * PostgreSQL remembers the role that has made a setting, but records settings of ALTER
 * ROLE and ALTER DATABASE as made by a superuser.
 */
Oid
dv_setting_role(const char *name)
{
	const struct config_generic *setting = dv_guc_find(psprintf("dataverse_fdw.%s", name));

	switch (setting->source)
	{
		case PGC_S_GLOBAL:
		case PGC_S_DATABASE:
		case PGC_S_USER:
		case PGC_S_DATABASE_USER:
			return GetSessionUserId();
		default:
			return setting->srole;
	}
}

Oid
dv_setting_maker(dv_option option, Oid relid)
{
	bool		by_run = of_run(settings_of_run(relid), option) != NULL;

	return dv_setting_role(by_run ? "run_settings" : dv_option_name(option));
}
