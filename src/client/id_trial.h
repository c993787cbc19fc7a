/*
 * id_trial.h
 *		Whether the service compares ids as we do.
 *
 * Rows that are divided by their ids come once only if the service compares ids in
 * our order (dataverse/id_order.h).  That is not taken for granted: before a session
 * divides the rows of a table for the first time, it asks for a row by its id and
 * by what only this order makes true of that id.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ID_TRIAL_H
#define DV_ID_TRIAL_H

#include "dataverse/id_order.h"
#include "dataverse/query.h"

/* Returns a filter that the row with this id meets if ids are compared in our order, and no other. */
extern dv_filter *dv_id_trial_filter(const dv_column *column, const dv_ordered_id *id);

/* Returns a comparison of a column with an id. */
extern dv_filter *dv_id_filter(dv_filter_kind kind, const dv_column *column, const dv_ordered_id *id);

#endif							/* DV_ID_TRIAL_H */
