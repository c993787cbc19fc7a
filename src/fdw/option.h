/*
 * option.h
 *		Options of servers, user mappings, foreign tables, and columns.
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

/* The option of an application user.  All but the first user have their number in its name. */
#define dv_option_numbered(option, number) ((dv_option) ((option) + ((number) - 1) * DV_OPTIONS))

/* Values of options that are choices */
enum
{
	DV_ON_ERROR_ABORT,
	DV_ON_ERROR_CONTINUE
};
enum
{
	DV_ON_OVERSIZE_ERROR,
	DV_ON_OVERSIZE_TRUNCATE
};
enum
{
	DV_INSERT_CREATE,
	DV_INSERT_UPSERT,
	DV_INSERT_IGNORE_DUPLICATES
};
enum
{
	DV_SOURCE_SIMPLE,
	DV_SOURCE_CALCULATED,
	DV_SOURCE_ROLLUP,
	DV_SOURCE_FORMULA,
	DV_SOURCE_PROMPT,
	DV_SOURCE_OTHER
};

/*
 * Checks the options that CREATE or ALTER is about to store and raises an error
 * if they are not valid.  "options" contains all options of the object.
 */
extern void dv_options_validate(List *options, Oid catalog);

/*
 * Option values: up to two lists of DefElems that are searched in turn (those
 * of the table, then those of the server), or NIL.  If neither has a value, the
 * default in option_list.h applies.
 */
typedef struct dv_options
{
	List	   *first;
	List	   *second;
} dv_options;

extern const char *dv_option_name(dv_option option);

/* Returns NULL for a valid value, otherwise a sentence that describes what is wrong. */
extern const char *dv_option_fault(dv_option option, const char *value);

/*
 * Returns true if the option, as a setting, affects how fast rows are read and written, but not
 * their outcome.
 */
extern bool dv_option_is_speed(dv_option option);

/* Returns true if the option is a setting that runs (push, sync) make for one foreign table. */
extern bool dv_option_is_of_runs(dv_option option);

extern bool dv_option_given(dv_options options, dv_option option);

/* Returns NULL if there is neither a value nor a default. */
extern const char *dv_option_text(dv_options options, dv_option option);

/* The same without trailing slashes. */
extern const char *dv_option_address(dv_options options, dv_option option);

extern bool dv_option_bool(dv_options options, dv_option option);
extern double dv_option_real(dv_options options, dv_option option);
extern int	dv_option_int(dv_options options, dv_option option);

/* Returns the position in the list of choices. */
extern int	dv_option_choice(dv_options options, dv_option option);

/*
 * Copies options to the members of a session's configuration.  Members whose
 * option has neither a value nor a default are left alone.
 */
struct dv_session_config;
extern void dv_options_configure(dv_options options, struct dv_session_config *config);

#endif							/* DV_OPTION_H */
