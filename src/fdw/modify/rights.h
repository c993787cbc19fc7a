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
 * Raises an error if a setting that decides what becomes of rows of a foreign table
 * is in force, and was made by a role that lacks the rights of the current user.  "what" describes
 * the statement.
 */
extern void dv_rights_check_settings(const char *what, Oid relid);

/*
 * Raises an error unless the modification may write as its options, which
 * include the settings, demand.
 */
extern void dv_rights_check(const dv_modify *m, const dv_modify_plan *plan);

/*
 * May the role that has declared ids to be made for new rows update the rows that
 * have these ids, as far as creating them takes an update?
 */
extern bool dv_rights_may_complete(const dv_modify *m);

#endif							/* DV_RIGHTS_H */
