/*
 * option.h
 *		The options of servers, user mappings, foreign tables and columns.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_OPTION_H
#define DV_OPTION_H

#include "nodes/pg_list.h"

#define DV_APPLICATION_USERS_MAX 64

/* DV_OPT_URL and so on, see option_list.h */
typedef enum dv_option
{
#define DV_OPTION(symbol, ...) DV_OPT_##symbol,
#include "fdw/option_list.h"
	DV_OPTIONS
} dv_option;

/* The option of an application user, which has that number behind its name but for the first. */
#define dv_option_numbered(option, number) ((dv_option) ((option) + ((number) - 1) * DV_OPTIONS))

/* Values of options that are choices */
enum
{
	DV_ON_ERROR_ABORT,
	DV_ON_ERROR_CONTINUE
};
enum
{
	DV_INSERT_CREATE,
	DV_INSERT_UPSERT,
	DV_INSERT_IGNORE_DUPLICATES
};

/* Checks what CREATE or ALTER is about to store; raises or returns. */
extern void dv_options_validate(List *options, Oid catalog);

/*
 * Values.  Up to two lists of DefElems are looked at in turn (the table's,
 * then the server's); NIL for what does not apply.  Without a value in either
 * the default of the option's table row is taken.
 */
typedef struct dv_options
{
	List	   *first;
	List	   *second;
} dv_options;

extern const char *dv_option_name(dv_option option);
extern bool dv_option_given(dv_options options, dv_option option);

/* NULL: neither a value nor a default */
extern const char *dv_option_text(dv_options options, dv_option option);

/* The same without slashes at its end */
extern const char *dv_option_address(dv_options options, dv_option option);

extern bool dv_option_bool(dv_options options, dv_option option);
extern int	dv_option_int(dv_options options, dv_option option);

/* The position in the list of choices */
extern int	dv_option_choice(dv_options options, dv_option option);

/*
 * Puts the options that have a member in a session's configuration there.
 * What is not given and has no default is left as it is.
 */
struct dv_session_config;
extern void dv_options_configure(dv_options options, struct dv_session_config *config);

/*
 * Settings of the session, dataverse_fdw.…
 */

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

#endif							/* DV_OPTION_H */
