/*
 * setting.h
 *		Settings of the session, dataverse_fdw.NAME.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SETTING_H
#define DV_SETTING_H

#include "fdw/option.h"

/* Plan, encode, and count rows, but send no request that writes. */
extern bool dv_dry_run;

/* Report rows, batches, and requests at the end of each modification. */
extern bool dv_summary;

/* Capture changes of copies that are tracked. */
extern bool dv_capture;

/*
 * Says that a statement that writes this table has read its settings.  Those of a run do not apply to
 * other statements until the context is deleted.
 */
extern void dv_settings_consume(Oid relid, MemoryContext statement);

/*
 * Returns true if the ids that the statement gives to rows of this table are as good as generated
 * ones, because a run generated them for these rows.
 */
extern bool dv_setting_ids_made(Oid relid);

extern void dv_settings_init(void);

/*
 * Prepends the settings that are not empty to the options of a foreign table, so
 * that getters find the settings first.
 */
extern dv_options dv_settings_over(dv_options options, Oid relid);

/*
 * Returns the names of the settings in force for a table that affect the outcome of rows (List of
 * char *).
 */
extern List *dv_settings_decisive(Oid relid);

/*
 * Returns the role that has made a setting, which need not be the current one: a
 * setting stays in force in SECURITY DEFINER functions and after SET ROLE.
 */
extern Oid	dv_setting_role(const char *name);

/* Returns the role that has set what overrides an option of a foreign table: the session's setting or a run's. */
extern Oid	dv_setting_maker(dv_option option, Oid relid);

#endif							/* DV_SETTING_H */
