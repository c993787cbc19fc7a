/*
 * setting.h
 *		Settings of the session, dataverse_fdw.…
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SETTING_H
#define DV_SETTING_H

#include "fdw/option.h"

/* Plan, encode and count, but send nothing that writes. */
extern bool dv_dry_run;

/* Say at the end of each modification what it took. */
extern bool dv_summary;

extern void dv_settings_init(void);

/*
 * The options with the settings that are given in front of them: a getter
 * finds these first.
 */
extern dv_options dv_settings_over(dv_options options);

#endif							/* DV_SETTING_H */
