/*
 * id_trial.h
 *		Whether the service compares ids as we do.
 *
 * When rows are divided by their ids, each row comes exactly once only if the
 * service compares ids in our order (dataverse/id_order.h).  This is not taken for
 * granted: before a session divides the rows of a table for the first time, it
 * requests a row by its id and by comparisons that are true only in this order.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_ID_TRIAL_H
#define DV_ID_TRIAL_H

#include "dataverse/id_order.h"
#include "dataverse/query.h"

/* Returns a filter that matches only the row with this id, if ids are compared in our order. */
extern dv_filter *dv_id_trial_filter(const dv_column *column, const dv_ordered_id *id);

/* Returns a comparison of a column with an id. */
extern dv_filter *dv_id_filter(dv_filter_kind kind, const dv_column *column, const dv_ordered_id *id);

#endif							/* DV_ID_TRIAL_H */
