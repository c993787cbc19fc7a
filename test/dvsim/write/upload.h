/*
 * upload.h
 *		Files that arrive in several requests.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SIM_UPLOAD_H
#define SIM_UPLOAD_H

#include "write/row_write.h"

/* the request that announces a file; false after sim_fail() */
bool		sim_upload_start(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
							 const unsigned char row[16], const char *name);

/* a part of it; "name" is that of the first request, and "bytes" the whole file if this was the last one, else NULL */
bool		sim_upload_part(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
							const unsigned char row[16], const char **name, const void **bytes, size_t *len);

/* returns true if the column admits a file of this size */
bool		sim_upload_fits(struct sim_req *req, struct sim_res *res, const struct sim_column *column,
							unsigned long long size);

#endif
