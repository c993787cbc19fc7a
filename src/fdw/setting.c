/*
 * setting.c
 *		Settings of the session, dataverse_fdw.…
 *
 * Those that stand in for an option have its name and take its values, and
 * are checked by option.c; empty, which is the default, means that the
 * option of the table or the server holds.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "utils/guc.h"

#include "fdw/setting.h"

bool		dv_dry_run = false;
bool		dv_summary = false;

static bool
check(const char *option, const char *value)
{
	const char *fault = value[0] != '\0' ? dv_option_fault(option, value) : NULL;

	if (fault != NULL)
		GUC_check_errdetail("%s", fault);
	return fault == NULL;
}

/* A check hook is not told whose value it checks. */
#define CHECKED(option) \
	static char *option##_value = NULL; \
	static bool \
	check_##option(char **newval, void **extra, GucSource source) \
	{ \
		return check(#option, *newval); \
	}

CHECKED(on_error)
CHECKED(batch_size)
CHECKED(insert_mode)
CHECKED(bypass_custom_logic)
CHECKED(bypass_flows)
CHECKED(suppress_duplicate_detection)
CHECKED(tag)
CHECKED(max_parallel)

#define SETTING(option, description) {#option, description, &option##_value, check_##option}

static const struct
{
	const char *option;
	const char *description;
	char	  **value;
	GucStringCheckHook check;
}			settings[] =

{
	SETTING(on_error, "What becomes of a modification when Dataverse refuses a row: abort or continue."),
	SETTING(batch_size, "Rows of a bulk message."),
	SETTING(insert_mode, "How rows are inserted: create, upsert or ignore_duplicates."),
	SETTING(bypass_custom_logic, "Which custom logic is not run for what is written: none, sync, async or all."),
	SETTING(bypass_flows, "Whether Power Automate flows are not started by what is written."),
	SETTING(suppress_duplicate_detection, "Whether rules of duplicate detection are left out."),
	SETTING(tag, "Text that plug-ins get as shared variable \"tag\"."),
	SETTING(max_parallel, "Requests of this session that write at the same time."),
};

void
dv_settings_init(void)
{
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		DefineCustomStringVariable(psprintf("dataverse_fdw.%s", settings[i].option),
								   settings[i].description,
								   "Empty: the option of the foreign table or the server holds.",
								   settings[i].value, "", PGC_USERSET, 0, settings[i].check, NULL,
								   NULL);
	DefineCustomBoolVariable("dataverse_fdw.dry_run",
							 "Encode and count what would be written, and send none of it.", NULL,
							 &dv_dry_run, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("dataverse_fdw.summary",
							 "Say at the end of each modification what it took.", NULL,
							 &dv_summary, false, PGC_USERSET, 0, NULL, NULL, NULL);
}

dv_options
dv_settings_over(dv_options options)
{
	List	   *given = NIL;
	int			i;

	for (i = 0; i < (int) lengthof(settings); i++)
		if (*settings[i].value != NULL && (*settings[i].value)[0] != '\0')
			given = lappend(given, makeDefElem(pstrdup(settings[i].option),
											   (Node *) makeString(pstrdup(*settings[i].value)),
											   -1));
	options.first = list_concat(given, options.first);
	return options;
}
