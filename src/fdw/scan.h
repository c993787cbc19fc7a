/*
 * scan.h
 *		What a scan that runs tells EXPLAIN.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DV_SCAN_H
#define DV_SCAN_H

#include "dataverse/pages.h"

typedef struct dv_scan dv_scan;

extern const dv_pages_stats *dv_scan_stats(const dv_scan *scan);

#endif							/* DV_SCAN_H */
