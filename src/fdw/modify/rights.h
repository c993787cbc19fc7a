/*
 * rights.h
 *		What a role may do beyond what PostgreSQL has checked.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_RIGHTS_H
#define DV_RIGHTS_H

#include "fdw/modify/modify.h"

/*
 * Raises an error if a setting that affects the outcome of a foreign table's rows is in force and
 * was made by a role that lacks the rights of the current user.  "what" describes the statement.
 */
extern void dv_rights_check_settings(const char *what, Oid relid);

/*
 * Raises an error unless the modification may write as its options, which
 * include the settings, demand.
 */
extern void dv_rights_check(const dv_modify *m, const dv_modify_plan *plan);

/*
 * Returns true if the role that has declared ids to be generated for new rows may
 * update the rows with these ids, as far as their creation includes an update.
 */
extern bool dv_rights_may_complete(const dv_modify *m);

#endif							/* DV_RIGHTS_H */
